//! Records being written.

use crate::ClassNumber;
use crate::record::{FORMAT, Reference, Value};

/// Appends a record to a buffer, value by value, in the order that the class's kind says. Allocates
/// nothing but room in the buffer.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Begins the record of an object of that class.
    pub fn new(out: &'a mut Vec<u8>, class: ClassNumber) -> Writer<'a> {
        out.push(FORMAT);
        let mut to = Writer { out };
        to.count(u64::from(class.0));
        to
    }

    /// Goes on at the end of the buffer, without the head of a record.
    pub fn raw(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(crate) fn pair(&mut self, first: u8, second: u8) {
        self.out.extend_from_slice(&[first, second]);
    }

    /// Appends a number of elements, or another number that is never below 0: seven bits a byte,
    /// the lowest first.
    pub fn count(&mut self, mut count: u64) {
        while count >= 0x80 {
            self.out.push(count as u8 | 0x80);
            count >>= 7;
        }
        self.out.push(count as u8);
    }

    /// Nothing.
    pub fn nil(&mut self) {
        self.out.push(0);
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    /// An integer; small ones of either sign are short.
    pub fn int(&mut self, value: i64) {
        self.count(((value << 1) ^ (value >> 63)) as u64);
    }

    /// A floating-point number, bit by bit.
    pub fn real(&mut self, value: f64) {
        self.out.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    /// A character.
    pub fn char(&mut self, value: char) {
        self.count(u64::from(u32::from(value)));
    }

    /// A string.
    pub fn str(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    /// Bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.count(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// Appends a reference. The length must be there exactly if [`super::Kind::has_length`] says so
    /// of its class.
    pub fn reference(&mut self, reference: Reference<'_>) {
        match reference {
            Reference::Nothing => self.count(0),
            Reference::Str(value) => {
                self.count(1);
                self.str(value);
            }
            Reference::Bytes(value) => {
                self.count(2);
                self.bytes(value);
            }
            Reference::Object { oref, class, length } => {
                self.count(oref.get() + 2);
                self.count(u64::from(class.0));
                if let Some(length) = length {
                    self.count(length);
                }
            }
        }
    }

    /// Any value.
    pub fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Nil => self.nil(),
            Value::Bool(value) => self.bool(value),
            Value::Int(value) => self.int(value),
            Value::Real(value) => self.real(value),
            Value::Char(value) => self.char(value),
            Value::Str(value) => self.str(value),
            Value::Bytes(value) => self.bytes(value),
            Value::Ref(value) => self.reference(value),
        }
    }
}
