//! Classes, as a store remembers them.

use crate::record::reader::{Reader, RecordError, Wrong};
use crate::record::writer::Writer;
use crate::{ClassNumber, limits};

/// The kind of a value in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FieldKind {
    /// Nothing.
    Nil = 0,
    /// A truth value.
    Bool = 1,
    /// A 64-bit integer.
    Int = 2,
    /// A 64-bit floating-point number.
    Real = 3,
    /// A character.
    Char = 4,
    /// A string.
    Str = 5,
    /// Bytes.
    Bytes = 6,
    /// A reference, or a string or bytes in its place.
    Ref = 7,
}

impl FieldKind {
    /// All, by number.
    pub const ALL: [FieldKind; 8] = [
        FieldKind::Nil,
        FieldKind::Bool,
        FieldKind::Int,
        FieldKind::Real,
        FieldKind::Char,
        FieldKind::Str,
        FieldKind::Bytes,
        FieldKind::Ref,
    ];
}

/// An instance variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name, by which it is found again after the class was changed.
    pub name: String,
    /// The kind of its values.
    pub kind: FieldKind,
}

/// The kind of the contents of a class's records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The fields, in order.
    Object(Vec<Field>),
    /// Low bound, count, elements.
    Array(FieldKind),
    /// Count, elements; the count never changes.
    Vector(FieldKind),
    /// Count, elements; nothing changes.
    Sequence(FieldKind),
    /// First element, rest, length of the rest and the first together.
    List(FieldKind),
    /// True if there is a value, and the value.
    Cell(FieldKind),
    /// Count, keys and values in the order in which they were put in.
    Map(FieldKind, FieldKind),
    /// Count, names and references.
    Directory,
    /// Count, references, and bytes that only the class's own code understands.
    Native,
}

impl Kind {
    /// True if references to objects of that kind say a length.
    pub fn has_length(&self) -> bool {
        matches!(self, Kind::Vector(_) | Kind::Sequence(_))
    }
}

/// A class: enough to read its records without the program that wrote them, and to compare it with
/// a program's class of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassDescriptor {
    /// Its name, as programs know it.
    pub name: String,
    /// The version of the class of that name, counted from 1.
    pub version: u32,
    /// The kind of its records.
    pub kind: Kind,
    /// The names of the types that it belongs to, beside its own.
    pub supertypes: Vec<String>,
    /// The specification as text.
    pub specification: String,
}

impl ClassDescriptor {
    /// Returns the class of directories: number 1 in every store.
    pub fn directory() -> ClassDescriptor {
        ClassDescriptor {
            name: "directory".into(),
            version: 1,
            kind: Kind::Directory,
            supertypes: Vec::new(),
            specification: String::new(),
        }
    }

    /// Returns the blake3 digest of the specification.
    pub fn specification_digest(&self) -> [u8; 32] {
        *blake3::hash(self.specification.as_bytes()).as_bytes()
    }

    /// Appends it as bytes, which begin with a format byte; equal classes give equal bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(super::FORMAT);
        let mut to = Writer::raw(out);
        to.str(&self.name);
        to.count(u64::from(self.version));
        encode_kind(&mut to, &self.kind);
        to.count(self.supertypes.len() as u64);
        self.supertypes.iter().for_each(|name| to.str(name));
        to.str(&self.specification);
        out.extend_from_slice(&self.specification_digest());
    }

    /// Reads the output of [`encode`](Self::encode), all of it. Refuses a digest that is not the
    /// specification's.
    pub fn decode(bytes: &[u8]) -> Result<ClassDescriptor, RecordError> {
        let mut from = Reader::raw(bytes);
        let format = from.byte()?;
        if format != super::FORMAT {
            return Err(RecordError { at: 0, wrong: Wrong::Format(format) });
        }
        let name = from.str()?.to_owned();
        let at = from.position();
        let version = u32::try_from(from.count()?).map_err(|_| RecordError { at, wrong: Wrong::Version })?;
        let kind = decode_kind(&mut from)?;
        let mut supertypes = Vec::new();
        for _ in 0..from.elements()? {
            supertypes.push(from.str()?.to_owned());
        }
        let specification = from.str()?.to_owned();
        let class = ClassDescriptor { name, version, kind, supertypes, specification };
        let at = from.position();
        if from.take(32)? != class.specification_digest() {
            return Err(RecordError { at, wrong: Wrong::Digest });
        }
        from.end()?;
        Ok(class)
    }

    /// Returns a part that is too large, as (what, value, limit).
    pub(crate) fn oversize(&self) -> Option<(&'static str, u64, u64)> {
        let fields = if let Kind::Object(fields) = &self.kind { fields.len() } else { 0 };
        [
            ("the number of fields of a class", fields, limits::FIELDS_MAX),
            ("the number of supertypes of a class", self.supertypes.len(), limits::FIELDS_MAX),
            ("the length of a specification", self.specification.len(), limits::SPECIFICATION_BYTES_MAX),
            ("the length of a class's name", self.name.len(), limits::SPECIFICATION_BYTES_MAX),
        ]
        .into_iter()
        .find(|(_, value, limit)| value > limit)
        .map(|(what, value, limit)| (what, value as u64, limit as u64))
    }
}

fn encode_kind(to: &mut Writer<'_>, kind: &Kind) {
    match kind {
        Kind::Object(fields) => {
            to.byte(0);
            to.count(fields.len() as u64);
            for field in fields {
                to.str(&field.name);
                to.byte(field.kind as u8);
            }
        }
        Kind::Array(of) => to.pair(1, *of as u8),
        Kind::Vector(of) => to.pair(2, *of as u8),
        Kind::Sequence(of) => to.pair(3, *of as u8),
        Kind::List(of) => to.pair(4, *of as u8),
        Kind::Cell(of) => to.pair(5, *of as u8),
        Kind::Map(key, value) => {
            to.pair(6, *key as u8);
            to.byte(*value as u8);
        }
        Kind::Directory => to.byte(7),
        Kind::Native => to.byte(8),
    }
}

fn decode_kind(from: &mut Reader<'_>) -> Result<Kind, RecordError> {
    let at = from.position();
    Ok(match from.byte()? {
        0 => {
            let mut fields = Vec::new();
            for _ in 0..from.elements()? {
                fields.push(Field { name: from.str()?.to_owned(), kind: field_kind(from)? });
            }
            Kind::Object(fields)
        }
        1 => Kind::Array(field_kind(from)?),
        2 => Kind::Vector(field_kind(from)?),
        3 => Kind::Sequence(field_kind(from)?),
        4 => Kind::List(field_kind(from)?),
        5 => Kind::Cell(field_kind(from)?),
        6 => Kind::Map(field_kind(from)?, field_kind(from)?),
        7 => Kind::Directory,
        8 => Kind::Native,
        other => return Err(RecordError { at, wrong: Wrong::Kind(other) }),
    })
}

fn field_kind(from: &mut Reader<'_>) -> Result<FieldKind, RecordError> {
    let at = from.position();
    let number = from.byte()?;
    FieldKind::ALL.get(usize::from(number)).copied().ok_or(RecordError { at, wrong: Wrong::Kind(number) })
}

/// The place where readers look up classes.
pub trait Classes {
    /// Returns the kind of that class's records; none if there is no such class.
    fn kind(&self, class: ClassNumber) -> Option<&Kind>;
}

/// All classes by number, as [`crate::Repository::classes`] gives them.
impl<T: AsRef<ClassDescriptor>> Classes for [T] {
    fn kind(&self, class: ClassNumber) -> Option<&Kind> {
        let at = usize::try_from(class.0.checked_sub(1)?).ok()?;
        Some(&self.get(at)?.as_ref().kind)
    }
}

impl AsRef<ClassDescriptor> for ClassDescriptor {
    fn as_ref(&self) -> &ClassDescriptor {
        self
    }
}
