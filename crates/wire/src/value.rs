//! Values and arguments as they cross.

use crate::error::ErrorNumber;
use crate::ids::Ref;
use crate::word::{Read, Reader, padded, word_at};

/// A basic value, a string or bytes.
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
    /// A reference.
    pub const REF: u8 = 0;
    /// Nil; its word is 0.
    pub const NIL: u8 = 1;
    /// A truth value; its word is 0 or 1.
    pub const BOOL: u8 = 2;
    /// An integer.
    pub const INT: u8 = 3;
    /// The bits of a floating-point number.
    pub const REAL: u8 = 4;
    /// A Unicode scalar value.
    pub const CHAR: u8 = 5;
    /// A byte string, in place of the word.
    pub const STRING: u8 = 6;
    /// The position of an exception in the reply's list; in outcomes only.
    pub const EXCEPTION: u8 = 7;
    /// A call that was not reached; in outcomes only.
    pub const ABSENT: u8 = 8;
    /// Bytes, in place of the word.
    pub const BYTES: u8 = 9;
    /// A table of rows; in outcomes only.
    pub const ROWS: u8 = 11;
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
        }
    }

    /// Returns its word; for a string or bytes the length.
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

impl<'a> ArgsIter<'a> {
    /// Returns so many bytes and passes over them and their padding.
    #[inline(always)]
    fn bytes(&mut self, length: u64) -> &'a [u8] {
        let bytes = self.args.bytes.get(self.at..self.at + length as usize).unwrap_or(&[]);
        self.at += padded(length as usize);
        bytes
    }
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
        let word = word_at(self.args.bytes, self.at);
        self.index += 1;
        self.at += 8;
        Some(match tag {
            tag::REF => Arg::Ref(Ref(word as i64)),
            // Checked when the command was decoded; checked again because it is cheap and safe.
            tag::STRING => Arg::Value(Value::Str(std::str::from_utf8(self.bytes(word)).unwrap_or(""))),
            tag::BYTES => Arg::Value(Value::Bytes(self.bytes(word))),
            _ => Arg::Value(Value::from_word(tag, word)),
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.args.count as usize - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}
