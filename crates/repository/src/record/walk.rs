//! Going through records without knowing their classes.

use crate::record::{Classes, FieldKind, Kind, Reader, RecordError, Reference, Value, Wrong};
use crate::{ClassNumber, Oref};

/// Returns the class of a record.
pub fn class_of(bytes: &[u8]) -> Result<ClassNumber, RecordError> {
    Reader::new(bytes).map(|(_, class)| class)
}

/// Reads a whole record and gives every reference that names an object.
pub fn walk_refs(
    bytes: &[u8],
    classes: &(impl Classes + ?Sized),
    mut found: impl FnMut(Oref),
) -> Result<(), RecordError> {
    walk(bytes, classes, |value| {
        if let Value::Ref(Reference::Object { oref, .. }) = value {
            found(oref);
        }
    })
}

/// Reads a whole record to check that it is one.
pub fn check_record(bytes: &[u8], classes: &(impl Classes + ?Sized)) -> Result<(), RecordError> {
    walk(bytes, classes, |_| {})
}

/// Reads a whole record and gives every value in it, in order. Counts, bounds, flags and opaque
/// bytes are not given.
pub fn walk<'a>(
    bytes: &'a [u8],
    classes: &(impl Classes + ?Sized),
    mut found: impl FnMut(Value<'a>),
) -> Result<(), RecordError> {
    let (mut from, class) = Reader::new(bytes)?;
    let unknown = RecordError { at: 1, wrong: Wrong::Class(u64::from(class.0)) };
    let kind = classes.kind(class).ok_or(unknown)?;
    let from = &mut from;
    match kind {
        Kind::Object(fields) => {
            for field in fields {
                found(from.value(field.kind, classes)?);
            }
        }
        Kind::Array(of) => {
            from.int()?;
            values(from, &[*of], classes, &mut found)?;
        }
        Kind::Vector(of) | Kind::Sequence(of) => values(from, &[*of], classes, &mut found)?,
        Kind::List(of) => {
            found(from.value(*of, classes)?);
            found(Value::Ref(from.reference(classes)?));
            from.count()?;
        }
        Kind::Cell(of) => {
            if from.bool()? {
                found(from.value(*of, classes)?);
            }
        }
        Kind::Map(key, value) => values(from, &[*key, *value], classes, &mut found)?,
        Kind::Directory => values(from, &[FieldKind::Str, FieldKind::Ref], classes, &mut found)?,
        Kind::Native => {
            values(from, &[FieldKind::Ref], classes, &mut found)?;
            from.bytes()?;
        }
    }
    from.end()
}

/// A count, and as many times values of these kinds.
fn values<'a>(
    from: &mut Reader<'a>,
    kinds: &[FieldKind],
    classes: &(impl Classes + ?Sized),
    found: &mut impl FnMut(Value<'a>),
) -> Result<(), RecordError> {
    for _ in 0..from.elements()? {
        for kind in kinds {
            found(from.value(*kind, classes)?);
        }
    }
    Ok(())
}
