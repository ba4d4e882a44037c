//! Methods of `vector[T]`: as many elements as at the start, counted from 1, each of which can be
//! replaced.

use bifrost_ir::TypeKind;

use super::{heap, natives, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, vector::*};

natives! {
    "vector.length" => length / 1,
    "vector.fetch" => fetch / 2,
    "vector.store" => store / 3,
    "vector.elements" => each_element / 2,
    "vector.indexes" => each_index / 2,
    "vector.to_sequence" => to_sequence / 1,
}

fn count(this: Word) -> usize {
    // SAFETY: receivers of these methods are vectors.
    unsafe { object::get(this, LENGTH) as usize }
}

/// The field of the element with this index.
fn field(this: Word, i: Word) -> Option<usize> {
    let at = (i as i64).wrapping_sub(1);
    (at >= 0 && (at as usize) < count(this)).then(|| ELEMENTS + at as usize)
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(count(this) as i64)
}

extern "C" fn fetch(cx: &mut Cx, this: Word, i: Word) -> Ret {
    match field(this, i) {
        // SAFETY: the vector has the field.
        Some(field) => Ret::of(unsafe { object::get(this, field) }),
        None => cx.signal(cx.image().signals().bounds),
    }
}

extern "C" fn store(cx: &mut Cx, this: Word, i: Word, v: Word) -> Ret {
    match field(this, i) {
        // SAFETY: the vector has the field, and the value has the element type by the heading.
        Some(field) => unsafe { object::set(this, field, v) },
        None => return cx.signal(cx.image().signals().bounds),
    }
    Ret::NOTHING
}

extern "C" fn each_element(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    for at in 0..count(this) {
        // SAFETY: a vector keeps its length.
        let value = unsafe { object::get(this, ELEMENTS + at) };
        step!(cx, closure, value);
    }
    Ret::NOTHING
}

extern "C" fn each_index(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    for i in 1..=count(this) {
        step!(cx, closure, i as Word);
    }
    Ret::NOTHING
}

extern "C" fn to_sequence(cx: &mut Cx, this: Word) -> Ret {
    let types = &cx.image().program().types;
    // SAFETY: the receiver is a vector.
    let element = unsafe { Table::of(this) }.info().element;
    let Some(ty) = element.and_then(|t| types.find_instance(TypeKind::Sequence(t))) else {
        return cx.failure("internal error: no sequence type");
    };
    let table = cx.image().table_of(ty);
    // SAFETY: the receiver is a vector, and making the sequence does not change it.
    let elements = unsafe { object::slice(this, ELEMENTS, count(this)) };
    Ret::of(heap!(cx, cx.new_sequence(table, &[elements])))
}
