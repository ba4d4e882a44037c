//! The form of an object's state as bytes: versioned and self-describing.
//!
//! A record is `[format byte][class number][content]`; the class's [`Kind`] describes the content
//! (docs/spec/repository-format.md has the diagrams). [`Writer`] appends to a buffer and allocates
//! nothing itself; [`Reader`] borrows. Reading is total: for any bytes it ends, allocates nothing,
//! and says at which byte they are wrong. Every value has one encoding, so equal records are equal
//! bytes.
//!
//! A reference carries the class of its target, and its length where objects of that kind differ in
//! it. So a reader can make a place of the right class and size for an object that it has not
//! fetched.

mod class;
mod json;
mod reader;
mod walk;
mod writer;

pub use class::{ClassDescriptor, Classes, Field, FieldKind, Kind};
pub use json::{JsonError, from_json, to_json};
pub(crate) use json::{hex, unhex};
pub use reader::{Reader, RecordError, Wrong};
pub use walk::{check_record, class_of, walk, walk_refs};
pub use writer::Writer;

use crate::{ClassNumber, Oref};

/// The first byte of every record that this crate writes.
pub const FORMAT: u8 = 1;

/// A reference to an object, or a value that stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// None.
    Nothing,
    /// A string.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A persistent object.
    Object {
        /// Its name.
        oref: Oref,
        /// Its class.
        class: ClassNumber,
        /// Its length, if [`Kind::has_length`] of its class says so; else none.
        length: Option<u64>,
    },
}

/// A value in a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing; takes one byte all the same, so that no record has more values than bytes.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number; its bits are kept.
    Real(f64),
    /// A character.
    Char(char),
    /// A string.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A reference.
    Ref(Reference<'a>),
}
