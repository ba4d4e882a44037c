//! Futures and failures as they cross.

use bifrost_ir::{TypeId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Object, Table, object};
use bifrost_wire::{ErrorNumber, ExceptionKind, Outcome, Value};

use crate::failures::{Failure, FailureKind};
use crate::handles::Handles;
use crate::tables::Tables;

/// Returns the type under which clients know an object.
pub(crate) fn seen_as(tables: &Tables, object: Object) -> &str {
    tables.type_name(object.info().seen_as)
}

/// A word of a basic type as it crosses.
#[inline]
pub(crate) fn basic_value(word: Word, ty: TypeId) -> Value<'static> {
    match ty {
        Types::BOOL => Value::Bool(word != 0),
        Types::INT => Value::Int(word as i64),
        Types::REAL => Value::Real(f64::from_bits(word)),
        Types::CHAR => Value::Char(char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER)),
        _ => Value::Nil,
    }
}

/// The text of a string; it is copied into a reply before anything else runs.
#[inline]
pub(crate) fn string_of(word: Word) -> Option<&'static str> {
    // SAFETY: futures and exception values of object types are references, and those of that type
    // are strings.
    unsafe { (Table::of(word).info().ty == Types::STRING).then(|| object::text(word)) }
}

/// An object as it crosses: strings as values, all others as handles. Nothing at the limit of
/// handles.
#[inline]
pub(crate) fn object_outcome(
    tables: &Tables,
    handles: &mut Handles,
    roots: &mut Vec<Word>,
    word: Word,
    most: usize,
) -> Option<Outcome<'static>> {
    if let Some(text) = string_of(word) {
        return Some(Outcome::Value(Value::Str(text)));
    }
    // SAFETY: futures and exception values of object types are references.
    let info = unsafe { Table::of(word) }.info();
    let handle = handles.of(word, most, roots)?;
    Some(Outcome::Handle { handle, ty: tables.type_number(info.seen_as) })
}

/// A failure as a part of a reply.
pub(crate) enum Put<'a> {
    Kind(u32, &'a [u32], &'a ExceptionKind<'a>),
    Signal(u32, &'a [u32], &'a str, &'a [Outcome<'a>]),
}

/// Writes a failure, and says about how many bytes it has. One with values that do not fit into
/// `room` is told without them, as refused, so that no list of exceptions is longer than a reply
/// may be.
pub(crate) fn put_failure(
    tables: &Tables,
    handles: &mut Handles,
    roots: &mut Vec<Word>,
    most: usize,
    room: usize,
    failure: &Failure,
    put: &mut dyn FnMut(Put<'_>),
) -> usize {
    let head = 64 + 8 * failure.iterations.len();
    match &failure.kind {
        FailureKind::Signal { name, values } => {
            let name = tables.engine().program().types.signal_name(*name);
            let bytes = head + name.len() + values.iter().map(|v| value_bytes(tables, *v)).sum::<usize>();
            if bytes > room {
                let text = format!("the values of `{name}` are too long for the reply");
                let kind = ExceptionKind::Refused { number: ErrorNumber::ReplyTooLong as u32, text: &text };
                put(Put::Kind(failure.call, &failure.iterations, &kind));
                return head + text.len();
            }
            let values: Vec<Outcome<'_>> = values
                .iter()
                .map(|(word, ty)| {
                    if tables.is_basic(*ty) {
                        return Outcome::Value(basic_value(*word, *ty));
                    }
                    object_outcome(tables, handles, roots, *word, most).unwrap_or(Outcome::Value(Value::Nil))
                })
                .collect();
            put(Put::Signal(failure.call, &failure.iterations, name, &values));
            bytes
        }
        FailureKind::Unhandled { argument, cause } => {
            let kind = ExceptionKind::Unhandled { argument: *argument, cause: *cause };
            put(Put::Kind(failure.call, &failure.iterations, &kind));
            head
        }
        FailureKind::Refused { number, text } => {
            let kind = ExceptionKind::Refused { number: *number as u32, text };
            put(Put::Kind(failure.call, &failure.iterations, &kind));
            head + text.len()
        }
    }
}

/// About how many bytes a value takes in a reply.
fn value_bytes(tables: &Tables, (word, ty): (Word, TypeId)) -> usize {
    // SAFETY: exception values of object types are references.
    let string = !tables.is_basic(ty) && unsafe { Table::of(word) }.info().ty == Types::STRING;
    // SAFETY: the object is a string.
    24 + if string { unsafe { object::text(word) }.len() } else { 0 }
}
