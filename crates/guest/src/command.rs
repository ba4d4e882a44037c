//! Commands of the wire form as bytes (`docs/spec/wire.md`, section 3), and the words of results.

use alloc::vec::Vec;

use crate::Object;

/// The codes of the commands that a module may give.
pub(crate) mod code {
    pub const CALL: u8 = 0x01;
    pub const CALL_ROUTINE: u8 = 0x02;
    pub const LOOKUP: u8 = 0x04;
    pub const CONSTANT: u8 = 0x05;
    pub const SEND: u8 = 0x0c;
    pub const AS: u8 = 0x22;
    pub const IS: u8 = 0x23;
}

/// The tags of values.
pub(crate) mod tag {
    pub const REF: u8 = 0;
    pub const NIL: u8 = 1;
    pub const BOOL: u8 = 2;
    pub const INT: u8 = 3;
    pub const REAL: u8 = 4;
    pub const CHAR: u8 = 5;
    pub const STR: u8 = 6;
    pub const BYTES: u8 = 9;
}

/// Most arguments of a call.
pub const ARGUMENTS_MAX: usize = 255;

/// An argument of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// The value that basic types have in common with nothing.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A character.
    Char(char),
    /// A string.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A result of the run, or an argument of it.
    Object(Object),
}

macro_rules! from {
    ($($ty:ty => $variant:ident),*) => {$(
        impl<'a> From<$ty> for Value<'a> {
            fn from(value: $ty) -> Value<'a> {
                Value::$variant(value)
            }
        }
    )*};
}

from!(bool => Bool, i64 => Int, f64 => Real, char => Char, &'a str => Str, &'a [u8] => Bytes, Object => Object);

impl Value<'_> {
    fn tag(&self) -> u8 {
        match self {
            Value::Nil => tag::NIL,
            Value::Bool(_) => tag::BOOL,
            Value::Int(_) => tag::INT,
            Value::Real(_) => tag::REAL,
            Value::Char(_) => tag::CHAR,
            Value::Str(_) => tag::STR,
            Value::Bytes(_) => tag::BYTES,
            Value::Object(_) => tag::REF,
        }
    }
}

fn word(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

/// A string or bytes: the length, the bytes, zeros up to a whole word.
fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    word(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(8), 0);
}

fn value(out: &mut Vec<u8>, value: &Value<'_>) {
    match *value {
        Value::Nil => word(out, 0),
        Value::Bool(b) => word(out, u64::from(b)),
        Value::Int(i) => word(out, i as u64),
        Value::Real(r) => word(out, r.to_bits()),
        Value::Char(c) => word(out, u64::from(c)),
        Value::Str(text) => bytes(out, text.as_bytes()),
        Value::Bytes(b) => bytes(out, b),
        Value::Object(object) => word(out, reference(object)),
    }
}

/// Results are named by the negative of their position.
fn reference(object: Object) -> u64 {
    (-i64::from(object.position())) as u64
}

fn head(code: u8, flags: u32, number: u32) -> u64 {
    u64::from(code) | u64::from(flags) << 8 | u64::from(number) << 32
}

/// Returns a call of a method or, without a receiver, of a routine.
pub(crate) fn call(code: u8, number: u32, receiver: Option<Object>, args: &[Value<'_>]) -> Vec<u8> {
    assert!(args.len() <= ARGUMENTS_MAX, "a call has at most {ARGUMENTS_MAX} arguments");
    let mut out = Vec::with_capacity(16 + 8 * args.len());
    let first = args.iter().take(4).enumerate();
    let tags = first.fold(0, |tags, (i, arg)| tags | u32::from(arg.tag()) << (4 * i));
    word(&mut out, head(code, args.len() as u32 | tags << 8, number));
    if let Some(receiver) = receiver {
        word(&mut out, reference(receiver));
    }
    for sixteen in args.get(4..).unwrap_or(&[]).chunks(16) {
        let tags = sixteen.iter().enumerate();
        word(&mut out, tags.fold(0, |word, (i, arg)| word | u64::from(arg.tag()) << (4 * i)));
    }
    args.iter().for_each(|arg| value(&mut out, arg));
    out
}

/// Returns a `lookup`; `u32::MAX` expects any type.
pub(crate) fn lookup(name: &str, expected: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + name.len());
    word(&mut out, head(code::LOOKUP, 0, expected));
    bytes(&mut out, name.as_bytes());
    out
}

/// Returns a `constant`.
pub(crate) fn constant(of: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    word(&mut out, head(code::CONSTANT, u32::from(of.tag()), 0));
    value(&mut out, of);
    out
}

/// Returns an `as` or an `is`.
pub(crate) fn cast(code: u8, ty: u32, object: Object) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    word(&mut out, head(code, 0, ty));
    word(&mut out, reference(object));
    out
}

/// A result as a command has given it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Given {
    /// No value.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A character.
    Char(char),
    /// An object, a string or bytes.
    Object(Object),
}

/// Most results of a command that are read.
pub const RESULTS_MAX: usize = 8;

/// Reads a result of two words.
pub(crate) fn given(words: &[u8]) -> Option<Given> {
    let (of, word) = words.split_at_checked(8)?;
    let word = u64::from_le_bytes(word.get(..8)?.try_into().ok()?);
    Some(match *of.first()? {
        tag::REF => Given::Object(Object::at(u32::try_from(word).ok()?)),
        tag::NIL => Given::Nil,
        tag::BOOL => Given::Bool(word != 0),
        tag::INT => Given::Int(word as i64),
        tag::REAL => Given::Real(f64::from_bits(word)),
        tag::CHAR => Given::Char(char::from_u32(u32::try_from(word).ok()?)?),
        _ => return None,
    })
}
