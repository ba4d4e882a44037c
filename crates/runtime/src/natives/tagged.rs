//! The methods that records, structs, oneofs and `maybe` have if their parts have them. Their
//! objects are those of ordinary classes (`bifrost_ir::tagged`), so their fields are known from
//! those.

use bifrost_ir::{ClassId, TypeId, tagged};

use super::generic::{self, Same, Step, attend};
use super::{hash, heap, natives, unparse};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object;

natives! {
    "tagged.same" => identical / 2,
    "tagged.equal" => equal / 2,
    "tagged.similar" => similar / 2,
    "tagged.copy" => copied / 1,
    "tagged.unparse" => unparsed / 1,
    "tagged.hash" => hashed / 1,
}

fn table(object: Word) -> &'static Table {
    // SAFETY: receivers of these methods, and fields of tagged types, are objects by their static
    // types.
    unsafe { Table::of(object) }
}

fn class(object: Word) -> ClassId {
    table(object).info().class.expect("objects of tagged types have classes")
}

/// The name of the tag of a oneof; the same for all objects of a record or struct.
pub fn tag(object: Word) -> &'static str {
    tagged::tag_of(&table(object).info().name)
}

/// The number of fields that an object has.
pub fn field_count(cx: &Cx, object: Word) -> usize {
    cx.image().program().classes[class(object)].fields.len()
}

/// The name of a field.
pub fn field_name(cx: &Cx, object: Word, at: usize) -> String {
    cx.image().program().classes[class(object)].fields[at].name.clone()
}

/// The static type of a field, and its value now.
pub fn field(cx: &Cx, object: Word, at: usize) -> (TypeId, Word) {
    let ty = cx.image().program().classes[class(object)].fields[at].ty;
    // SAFETY: the object's class has the field.
    (ty, unsafe { object::get(object, at) })
}

/// Compares the contents of two objects of one tagged type.
///
/// # Errors
/// The outcome of a user's method that did not return.
pub fn same(cx: &mut Cx, a: Word, b: Word, how: Same) -> Step<bool> {
    attend(cx)?;
    let _kept = (cx.keep(a), cx.keep(b));
    generic::open(cx, a)?;
    generic::open(cx, b)?;
    if class(a) != class(b) {
        return Ok(false);
    }
    for at in 0..field_count(cx, a) {
        let ((ty, a), (_, b)) = (field(cx, a, at), field(cx, b, at));
        if !generic::same(cx, ty, a, b, how)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies an object and its parts. An object that never changes, down to the last part, is its own
/// copy.
///
/// # Errors
/// The outcome of a user's method that did not return, or that memory is used up.
pub fn copy(cx: &mut Cx, object: Word) -> Step<Word> {
    attend(cx)?;
    let _original = cx.keep(object);
    generic::open(cx, object)?;
    let count = field_count(cx, object);
    let values: Vec<Word> = (0..count).map(|at| field(cx, object, at).1).collect();
    let table = table(object).ordinary();
    let immutable = cx.image().program().types.def(table.info().ty).immutable;
    if immutable && count == 0 {
        return Ok(object);
    }
    let copied = cx.new_object(table, &values).map_err(|full| cx.out_of_memory(full))?;
    let _copied = cx.keep(copied);
    let mut changed = !immutable;
    for (at, value) in values.into_iter().enumerate() {
        let ty = field(cx, object, at).0;
        let new = generic::copy(cx, ty, value)?;
        changed |= new != value;
        // SAFETY: the copy has the fields of the object.
        unsafe { object::set(copied, at, new) };
    }
    Ok(if changed { copied } else { object })
}

fn end(answer: Step<Word>) -> Ret {
    answer.map_or_else(|ret| ret, Ret::of)
}

extern "C" fn identical(_cx: &mut Cx, this: Word, x: Word) -> Ret {
    Ret::bool(this == x)
}

extern "C" fn equal(cx: &mut Cx, this: Word, x: Word) -> Ret {
    end(same(cx, this, x, Same::Equal).map(Word::from))
}

extern "C" fn similar(cx: &mut Cx, this: Word, x: Word) -> Ret {
    end(same(cx, this, x, Same::Similar).map(Word::from))
}

extern "C" fn copied(cx: &mut Cx, this: Word) -> Ret {
    end(copy(cx, this))
}

extern "C" fn unparsed(cx: &mut Cx, this: Word) -> Ret {
    match unparse::of_fields(cx, this) {
        Ok(text) => Ret::of(heap!(cx, cx.new_string(&text))),
        Err(ret) => ret,
    }
}

extern "C" fn hashed(cx: &mut Cx, this: Word) -> Ret {
    end(hash::of_fields(cx, this).map(|hash| hash as Word))
}
