//! Records being read.

use crate::record::{Classes, FORMAT, FieldKind, Reference, Value};
use crate::{ClassNumber, Oref};

/// The place where bytes are no record, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {wrong}")]
pub struct RecordError {
    /// The first byte of the fault.
    pub at: usize,
    /// The fault.
    pub wrong: Wrong,
}

/// The reason why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The bytes end within a value.
    #[error("the record ends too early")]
    Short,
    /// Bytes follow the last value.
    #[error("the record should end here")]
    Long,
    /// The first byte is not known.
    #[error("this program cannot read records of format {0}")]
    Format(u8),
    /// A number has more than 64 bits or is not as short as it could be.
    #[error("malformed number")]
    Number,
    /// Neither 0 nor 1.
    #[error("{0} is not a truth value")]
    Bool(u8),
    /// Not 0.
    #[error("{0} is not nil")]
    Nil(u8),
    /// Not the number of a character.
    #[error("{0} is not a character")]
    Char(u64),
    /// Not UTF-8.
    #[error("the string is not UTF-8")]
    Utf8,
    /// A reference beyond the largest oref.
    #[error("{0} is not a reference")]
    Oref(u64),
    /// No class has that number.
    #[error("there is no class {0}")]
    Class(u64),
    /// No kind has that number.
    #[error("there is no kind {0}")]
    Kind(u8),
    /// The version of a class is no 32-bit number.
    #[error("malformed version")]
    Version,
    /// The digest is not that of the specification.
    #[error("the digest is of another specification")]
    Digest,
}

/// Reads a record value by value, in the order that the class's kind says. Borrows from the bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads the head of a record, and returns its class, which may not exist.
    pub fn new(bytes: &'a [u8]) -> Result<(Reader<'a>, ClassNumber), RecordError> {
        let mut from = Reader { bytes, at: 0 };
        let format = from.byte()?;
        if format != FORMAT {
            return Err(RecordError { at: 0, wrong: Wrong::Format(format) });
        }
        let class = from.class()?;
        Ok((from, class))
    }

    /// Reads bytes without the head of a record.
    pub fn raw(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// The number of bytes that have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The number of bytes left.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Makes sure that nothing is left.
    pub fn end(&self) -> Result<(), RecordError> {
        if self.left() == 0 { Ok(()) } else { Err(self.wrong(Wrong::Long)) }
    }

    fn wrong(&self, wrong: Wrong) -> RecordError {
        RecordError { at: self.at, wrong }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, RecordError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.wrong(Wrong::Short))?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        if count > self.left() {
            return Err(self.wrong(Wrong::Short));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// Reads a number that is never below 0.
    pub fn count(&mut self) -> Result<u64, RecordError> {
        let start = self.at;
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            let overflows = shift == 63 && bits > 1;
            // A last byte of 0 would be a second way to write the same number.
            if overflows || (byte == 0 && shift > 0) {
                return Err(RecordError { at: start, wrong: Wrong::Number });
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordError { at: start, wrong: Wrong::Number })
    }

    /// Reads a number of elements, each of which takes a byte at least: no more than bytes are
    /// left.
    pub fn elements(&mut self) -> Result<usize, RecordError> {
        let start = self.at;
        let count = self.count()?;
        let short = RecordError { at: start, wrong: Wrong::Short };
        usize::try_from(count).ok().filter(|count| *count <= self.left()).ok_or(short)
    }

    /// Reads nothing, in its byte.
    pub fn nil(&mut self) -> Result<(), RecordError> {
        let at = self.at;
        match self.byte()? {
            0 => Ok(()),
            other => Err(RecordError { at, wrong: Wrong::Nil(other) }),
        }
    }

    /// Reads a truth value.
    pub fn bool(&mut self) -> Result<bool, RecordError> {
        let at = self.at;
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(RecordError { at, wrong: Wrong::Bool(other) }),
        }
    }

    /// Reads an integer.
    pub fn int(&mut self) -> Result<i64, RecordError> {
        let bits = self.count()?;
        Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// Reads a floating-point number.
    pub fn real(&mut self) -> Result<f64, RecordError> {
        let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
        Ok(f64::from_bits(u64::from_le_bytes(bytes)))
    }

    /// Reads a character.
    pub fn char(&mut self) -> Result<char, RecordError> {
        let at = self.at;
        let number = self.count()?;
        let found = u32::try_from(number).ok().and_then(char::from_u32);
        found.ok_or(RecordError { at, wrong: Wrong::Char(number) })
    }

    /// Reads a string.
    pub fn str(&mut self) -> Result<&'a str, RecordError> {
        let at = self.at;
        std::str::from_utf8(self.bytes()?).map_err(|_| RecordError { at, wrong: Wrong::Utf8 })
    }

    /// Reads bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], RecordError> {
        let count = self.elements()?;
        self.take(count)
    }

    fn class(&mut self) -> Result<ClassNumber, RecordError> {
        let at = self.at;
        let number = self.count()?;
        u32::try_from(number).map(ClassNumber).map_err(|_| RecordError { at, wrong: Wrong::Class(number) })
    }

    /// Reads a reference. The class of its target must be among `classes`, which know if a length
    /// follows.
    pub fn reference(&mut self, classes: &(impl Classes + ?Sized)) -> Result<Reference<'a>, RecordError> {
        let at = self.at;
        Ok(match self.count()? {
            0 => Reference::Nothing,
            1 => Reference::Str(self.str()?),
            2 => Reference::Bytes(self.bytes()?),
            number => {
                let oref = Oref::new(number - 2).ok_or(RecordError { at, wrong: Wrong::Oref(number) })?;
                let at = self.at;
                let class = self.class()?;
                let unknown = RecordError { at, wrong: Wrong::Class(u64::from(class.0)) };
                let has_length = classes.kind(class).ok_or(unknown)?.has_length();
                let length = if has_length { Some(self.count()?) } else { None };
                Reference::Object { oref, class, length }
            }
        })
    }

    /// Reads a value of that kind.
    pub fn value(
        &mut self,
        kind: FieldKind,
        classes: &(impl Classes + ?Sized),
    ) -> Result<Value<'a>, RecordError> {
        Ok(match kind {
            FieldKind::Nil => self.nil().map(|()| Value::Nil)?,
            FieldKind::Bool => Value::Bool(self.bool()?),
            FieldKind::Int => Value::Int(self.int()?),
            FieldKind::Real => Value::Real(self.real()?),
            FieldKind::Char => Value::Char(self.char()?),
            FieldKind::Str => Value::Str(self.str()?),
            FieldKind::Bytes => Value::Bytes(self.bytes()?),
            FieldKind::Ref => Value::Ref(self.reference(classes)?),
        })
    }
}
