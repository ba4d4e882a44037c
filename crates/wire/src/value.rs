//! Values and arguments as they cross.

use crate::encode;
use crate::error::ErrorNumber;
use crate::ids::{Ref, TypeNumber};
use crate::word::{Read, Reader, Stop, padded, word_at};

/// A basic value, a string, bytes or a compound.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// The value of `null`; also the outcome of a call without results.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A Unicode scalar value.
    Char(char),
    /// A text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// The items of a collection, a structure or a choice.
    Compound(Compound<'a>),
}

/// An argument of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg<'a> {
    /// A handle or future.
    Ref(Ref),
    /// A value.
    Value(Value<'a>),
}

/// The tags that tell the kind of a word.
pub mod tag {
    macro_rules! tags {
        ($($name:ident = $number:literal, $doc:literal;)*) => {
            $(#[doc = $doc] pub const $name: u8 = $number;)*

            /// All tags, in order: name, number, description.
            pub const TABLE: &[(&str, u8, &str)] = &[$((stringify!($name), $number, $doc)),*];
        };
    }

    tags! {
        REF = 0, "A reference.";
        NIL = 1, "Nil; its word is 0.";
        BOOL = 2, "A truth value; its word is 0 or 1.";
        INT = 3, "An integer.";
        REAL = 4, "The bits of a floating-point number.";
        CHAR = 5, "A Unicode scalar value.";
        STRING = 6, "A byte string, in place of the word.";
        EXCEPTION = 7, "The position of an exception in the reply's list; in outcomes only.";
        ABSENT = 8, "A call that was not reached; in outcomes only.";
        BYTES = 9, "Bytes, in place of the word.";
        COMPOUND = 10, "A compound, in place of the word.";
        ROWS = 11, "A table of rows; in outcomes only.";
    }
}

impl<'a> Value<'a> {
    /// Returns its tag.
    #[inline]
    pub fn tag(&self) -> u8 {
        match self {
            Value::Nil => tag::NIL,
            Value::Bool(_) => tag::BOOL,
            Value::Int(_) => tag::INT,
            Value::Real(_) => tag::REAL,
            Value::Char(_) => tag::CHAR,
            Value::Str(_) => tag::STRING,
            Value::Bytes(_) => tag::BYTES,
            Value::Compound(_) => tag::COMPOUND,
        }
    }

    /// Returns its word; for a string, bytes or a compound the length.
    #[inline]
    pub fn word(&self) -> u64 {
        match *self {
            Value::Nil => 0,
            Value::Bool(b) => u64::from(b),
            Value::Int(i) => i as u64,
            Value::Real(r) => r.to_bits(),
            Value::Char(c) => u64::from(c as u32),
            Value::Str(s) => s.len() as u64,
            Value::Bytes(b) => b.len() as u64,
            Value::Compound(c) => c.bytes.len() as u64,
        }
    }

    /// Returns the value of a tag and a word. The caller has checked both; anything else reads as
    /// nil.
    #[inline]
    fn from_word(tag: u8, word: u64) -> Value<'a> {
        match tag {
            tag::BOOL => Value::Bool(word != 0),
            tag::INT => Value::Int(word as i64),
            tag::REAL => Value::Real(f64::from_bits(word)),
            tag::CHAR => Value::Char(u32::try_from(word).ok().and_then(char::from_u32).unwrap_or('\0')),
            _ => Value::Nil,
        }
    }

    /// Reads the word, or the string, that a tag announces.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, tag: u8) -> Read<Value<'a>> {
        if tag == tag::STRING {
            return reader.string().map(Value::Str);
        }
        if tag == tag::BYTES {
            return reader.byte_string().map(Value::Bytes);
        }
        if tag == tag::COMPOUND {
            return Compound::read(reader, 1).map(Value::Compound);
        }
        let word = reader.word()?;
        let good = match tag {
            tag::NIL => word == 0,
            tag::BOOL => word <= 1,
            tag::INT | tag::REAL => true,
            tag::CHAR => u32::try_from(word).ok().and_then(char::from_u32).is_some(),
            _ => return reader.bad(ErrorNumber::BadWord, "a tag"),
        };
        reader.check(good, "a word that its tag allows")?;
        Ok(Value::from_word(tag, word))
    }
}

impl<'a> Arg<'a> {
    /// Returns its tag.
    #[inline]
    pub fn tag(&self) -> u8 {
        match self {
            Arg::Ref(_) => tag::REF,
            Arg::Value(v) => v.tag(),
        }
    }

    /// Returns its word; for a string its length.
    #[inline]
    pub fn word(&self) -> u64 {
        match self {
            Arg::Ref(r) => r.0 as u64,
            Arg::Value(v) => v.word(),
        }
    }
}

impl<'a> From<Value<'a>> for Arg<'a> {
    fn from(v: Value<'a>) -> Self {
        Arg::Value(v)
    }
}

impl From<Ref> for Arg<'_> {
    fn from(r: Ref) -> Self {
        Arg::Ref(r)
    }
}

/// The arguments of a call, still in the bytes they came in; checked. Iterates over [`Arg`].
#[derive(Clone, Copy)]
pub struct Args<'a> {
    count: u8,
    /// The tags of the first four.
    tags: u16,
    /// The further tag words, then the arguments.
    bytes: &'a [u8],
}

/// Returns the number of words of tags that follow the receiver.
#[inline]
pub(crate) const fn tag_words(count: usize) -> usize {
    if count <= 4 { 0 } else { (count - 4).div_ceil(16) }
}

impl<'a> Args<'a> {
    /// No arguments.
    pub const NONE: Args<'static> = Args { count: 0, tags: 0, bytes: &[] };

    /// Returns the number of arguments.
    #[inline]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the arguments in order.
    #[inline]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter { args: *self, index: 0, at: tag_words(self.count as usize) * 8 }
    }

    /// Returns the tag of an argument, without reading it; arguments count from 0.
    #[inline]
    pub fn tag(&self, index: usize) -> u8 {
        if index < 4 {
            return (self.tags >> (4 * index)) as u8 & 15;
        }
        let index = index - 4;
        (word_at(self.bytes, index / 16 * 8) >> (4 * (index % 16))) as u8 & 15
    }

    /// Reads and checks the arguments that a first word announces.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, word: u64) -> Read<Args<'a>> {
        let count = (word >> 8) as u8;
        let tags = (word >> 16) as u16;
        if count == 0 {
            reader.check(tags == 0, "no tags without arguments")?;
            return Ok(Args::NONE);
        }
        let start = reader.at();
        Args::read_some(reader, count, tags)?;
        Ok(Args { count, tags, bytes: reader.since(start) })
    }

    fn read_some(reader: &mut Reader<'a>, count: u8, tags: u16) -> Read<()> {
        let total = count as usize;
        let first = total.min(4);
        reader.check(first == 4 || tags >> (4 * first) == 0, "no tags beyond the arguments")?;
        let words = reader.words(tag_words(total) as u64)?;
        if total > 4 {
            let last = (total - 4) % 16;
            let tail = word_at(words, words.len() - 8);
            reader.check(last == 0 || tail >> (4 * last) == 0, "no tags beyond the arguments")?;
        }
        let view = Args { count, tags, bytes: words };
        for index in 0..total {
            match view.tag(index) {
                tag::REF => {
                    reader.word()?;
                }
                tag => {
                    Value::read(reader, tag)?;
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = Arg<'a>;
    type IntoIter = ArgsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

/// The arguments of a call, one after the other.
#[derive(Clone)]
pub struct ArgsIter<'a> {
    args: Args<'a>,
    index: usize,
    at: usize,
}

/// Returns the argument or item at a place in bytes that were checked, and passes over it.
#[inline(always)]
fn item<'a>(bytes: &'a [u8], at: &mut usize, tag: u8) -> Arg<'a> {
    let word = word_at(bytes, *at);
    *at += 8;
    if tag == tag::REF {
        return Arg::Ref(Ref(word as i64));
    }
    let mut long = || {
        let found = bytes.get(*at..*at + word as usize).unwrap_or(&[]);
        *at += padded(word as usize);
        found
    };
    Arg::Value(match tag {
        // Checked when the command was decoded; checked again because it is cheap and safe.
        tag::STRING => Value::Str(std::str::from_utf8(long()).unwrap_or("")),
        tag::BYTES => Value::Bytes(long()),
        tag::COMPOUND => Value::Compound(Compound { bytes: long() }),
        _ => Value::from_word(tag, word),
    })
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = Arg<'a>;

    /// Inlined into the check of a call, which a call of its own costs a tenth more.
    #[inline(always)]
    fn next(&mut self) -> Option<Arg<'a>> {
        if self.index >= self.args.count as usize {
            return None;
        }
        let tag = self.args.tag(self.index);
        self.index += 1;
        Some(item(self.args.bytes, &mut self.at, tag))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.args.count as usize - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

/// The greatest depth of compounds within compounds. A deeper one is `BadWord`.
pub const COMPOUND_DEPTH_MAX: usize = 64;

/// The items of an object that crosses by value, still in the bytes they came in; checked. Iterates
/// over [`Arg`].
///
/// | kind of its type | items |
/// | --- | --- |
/// | sequence, array, vector, list | the elements, in order |
/// | struct, record | the fields, in order |
/// | oneof, maybe | the number of the tag, from 0, and its value |
/// | map | keys and values, in turn |
#[derive(Clone, Copy, PartialEq)]
pub struct Compound<'a> {
    /// The first word with the type and the number of items, the words of tags, the items.
    bytes: &'a [u8],
}

impl<'a> Compound<'a> {
    /// Returns the compound of bytes that [`crate::encode::Items`] has written, without the word of
    /// their length.
    pub fn written(bytes: &'a [u8]) -> Compound<'a> {
        Compound { bytes }
    }

    /// Returns its type.
    pub fn ty(&self) -> TypeNumber {
        TypeNumber(word_at(self.bytes, 0) as u32)
    }

    /// Returns the number of its items.
    pub fn len(&self) -> usize {
        (word_at(self.bytes, 0) >> 32) as usize
    }

    /// Returns true if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the items in order.
    pub fn iter(&self) -> CompoundIter<'a> {
        let count = self.len();
        CompoundIter { bytes: self.bytes, count, index: 0, at: 8 + 8 * count.div_ceil(16) }
    }

    /// Returns the words of the items if all have this tag, whose items are words.
    pub fn words(&self, tag: u8) -> Option<impl ExactSizeIterator<Item = u64> + use<'a>> {
        let count = self.len();
        let tags = self.bytes.get(8..)?;
        let items = self.bytes.get(8 + 8 * count.div_ceil(16)..)?;
        is_uniform(tags, count, tag).then(|| items.chunks_exact(8).map(|word| word_at(word, 0)))
    }

    /// Returns the bytes behind its length.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads and checks a compound at this depth. Its count is compared with its bytes before
    /// anything is made of it.
    fn read(reader: &mut Reader<'a>, depth: usize) -> Read<Compound<'a>> {
        reader.check(depth <= COMPOUND_DEPTH_MAX, "compounds that nest at most 64 levels deep")?;
        let length = reader.word()?;
        reader.check(length.is_multiple_of(8) && length > 0, "a length in whole words")?;
        let bytes = reader.take(length)?;
        let mut inner = Reader::new(bytes, bytes.len());
        match Compound::check(&mut inner, depth) {
            Ok(()) if inner.at() == bytes.len() => Ok(Compound { bytes }),
            Ok(()) => reader.bad(ErrorNumber::BadWord, "a compound no longer than its items"),
            Err(Stop::Need(_)) => {
                reader.bad(ErrorNumber::BadWord, "a compound of the length in its first word")
            }
            Err(stop) => Err(stop),
        }
    }

    fn check(reader: &mut Reader<'a>, depth: usize) -> Read<()> {
        let count = (reader.word()? >> 32) as usize;
        let tags = reader.words(count.div_ceil(16) as u64)?;
        let last = count % 16;
        let tail = if tags.is_empty() { 0 } else { word_at(tags, tags.len() - 8) };
        reader.check(last == 0 || tail >> (4 * last) == 0, "no tags beyond the items")?;
        // Any word is a number.
        if matches!(nibble(tags, 0), tag::INT | tag::REAL) && is_uniform(tags, count, nibble(tags, 0)) {
            return reader.words(count as u64).map(drop);
        }
        for index in 0..count {
            match nibble(tags, index) {
                tag::REF => {
                    reader.word()?;
                }
                tag::COMPOUND => {
                    Compound::read(reader, depth + 1)?;
                }
                tag => {
                    Value::read(reader, tag)?;
                }
            }
        }
        Ok(())
    }

    /// Calls a function for each reference in it, at any depth.
    pub fn each_reference(&self, each: &mut dyn FnMut(Ref)) {
        // Numbers alone refer to nothing.
        if self.words(tag::INT).is_some() || self.words(tag::REAL).is_some() {
            return;
        }
        for item in self.iter() {
            match item {
                Arg::Ref(reference) => each(reference),
                Arg::Value(Value::Compound(inner)) => inner.each_reference(each),
                Arg::Value(_) => {}
            }
        }
    }

    /// True if all references in it are handles, as in replies.
    pub(crate) fn has_handles_only(&self) -> bool {
        let mut all = true;
        self.each_reference(&mut |reference| all &= reference.is_handle());
        all
    }
}

/// True if so many tags, which begin at a word, are all this one.
fn is_uniform(tags: &[u8], count: usize, tag: u8) -> bool {
    let pattern = u64::from(tag) * 0x1111_1111_1111_1111;
    let full = (0..count / 16).all(|at| word_at(tags, 8 * at) == pattern);
    let last = count % 16;
    full && (last == 0 || (word_at(tags, 8 * (count / 16)) ^ pattern) << (64 - 4 * last) == 0)
}

/// Returns a tag of four bits.
fn nibble(tags: &[u8], index: usize) -> u8 {
    tags.get(index / 2).map_or(0, |byte| byte >> (4 * (index % 2)) & 15)
}

impl std::fmt::Debug for Compound<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.ty().0)?;
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for Compound<'a> {
    type Item = Arg<'a>;
    type IntoIter = CompoundIter<'a>;

    fn into_iter(self) -> CompoundIter<'a> {
        self.iter()
    }
}

/// The items of a compound, one after the other.
#[derive(Clone, Debug)]
pub struct CompoundIter<'a> {
    bytes: &'a [u8],
    count: usize,
    index: usize,
    at: usize,
}

impl<'a> Iterator for CompoundIter<'a> {
    type Item = Arg<'a>;

    fn next(&mut self) -> Option<Arg<'a>> {
        if self.index >= self.count {
            return None;
        }
        let tag = nibble(self.bytes.get(8..)?, self.index);
        self.index += 1;
        Some(item(self.bytes, &mut self.at, tag))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.index, Some(self.count - self.index))
    }
}

impl ExactSizeIterator for CompoundIter<'_> {}

/// A compound of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnedCompound(Box<[u8]>);

impl OwnedCompound {
    /// Makes a compound of a type with these items.
    pub fn new(ty: TypeNumber, items: &[Arg<'_>]) -> OwnedCompound {
        let mut out = Vec::new();
        let mut writer = encode::Items::begin(&mut out, ty, items.len() as u32);
        items.iter().for_each(|item| writer.item(&mut out, item));
        writer.end(&mut out);
        OwnedCompound(out.split_off(8).into())
    }
}

impl From<Compound<'_>> for OwnedCompound {
    fn from(compound: Compound<'_>) -> OwnedCompound {
        OwnedCompound(compound.bytes.into())
    }
}

impl OwnedCompound {
    /// Returns the compound.
    pub fn view(&self) -> Compound<'_> {
        Compound { bytes: &self.0 }
    }
}

/// A value of its own.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "as in `Value`")]
pub enum OwnedValue {
    Nil,
    Bool(bool),
    Int(i64),
    Real(f64),
    Char(char),
    Str(Box<str>),
    Bytes(Box<[u8]>),
    Compound(OwnedCompound),
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> OwnedValue {
        match value {
            Value::Nil => OwnedValue::Nil,
            Value::Bool(b) => OwnedValue::Bool(b),
            Value::Int(i) => OwnedValue::Int(i),
            Value::Real(r) => OwnedValue::Real(r),
            Value::Char(c) => OwnedValue::Char(c),
            Value::Str(s) => OwnedValue::Str(s.into()),
            Value::Bytes(b) => OwnedValue::Bytes(b.into()),
            Value::Compound(c) => OwnedValue::Compound(c.into()),
        }
    }
}

impl OwnedValue {
    /// Returns the value.
    pub fn view(&self) -> Value<'_> {
        match self {
            OwnedValue::Nil => Value::Nil,
            OwnedValue::Bool(b) => Value::Bool(*b),
            OwnedValue::Int(i) => Value::Int(*i),
            OwnedValue::Real(r) => Value::Real(*r),
            OwnedValue::Char(c) => Value::Char(*c),
            OwnedValue::Str(s) => Value::Str(s),
            OwnedValue::Bytes(b) => Value::Bytes(b),
            OwnedValue::Compound(c) => Value::Compound(c.view()),
        }
    }
}
