//! Methods of `sequence[T]`, which counts from 1 and never changes, and of `group[A]`, which is
//! laid out like it.

use super::{heap, natives, open, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, sequence::*};
use bifrost_ir::TypeKind;

natives! {
    "group.size" => length / 1,
    "group.member" => fetch / 2,
    "group.members" => each_element / 2,
    "sequence.length" => length / 1,
    "sequence.empty" => empty / 1,
    "sequence.fetch" => fetch / 2,
    "sequence.bottom" => bottom / 1,
    "sequence.top" => top / 1,
    "sequence.append" => append / 2,
    "sequence.concat" => concat / 2,
    "sequence.replace" => replace / 3,
    "sequence.subseq" => subseq / 3,
    "sequence.elements" => each_element / 2,
    "sequence.indexes" => each_index / 2,
    "sequence.to_array" => to_array / 1,
}

/// The elements.
///
/// # Safety
/// `this` is a sequence; sequences never change.
pub unsafe fn elements<'a>(this: Word) -> &'a [Word] {
    // SAFETY: a sequence has its length and then that many elements.
    unsafe { object::slice(this, ELEMENTS, object::get(this, LENGTH) as usize) }
}

fn all<'a>(this: Word) -> &'a [Word] {
    // SAFETY: receivers and arguments of these methods are sequences by their headings.
    unsafe { elements(this) }
}

fn table(this: Word) -> &'static Table {
    // SAFETY: as in `all`.
    unsafe { Table::of(this) }.ordinary()
}

fn index(this: Word, i: Word) -> Option<usize> {
    let at = (i as i64).wrapping_sub(1);
    (at >= 0 && (at as usize) < all(this).len()).then_some(at as usize)
}

fn bounds(cx: &mut Cx) -> Ret {
    cx.signal(cx.image().signals().bounds)
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(all(this).len() as i64)
}

extern "C" fn empty(_cx: &mut Cx, this: Word) -> Ret {
    Ret::bool(all(this).is_empty())
}

extern "C" fn fetch(cx: &mut Cx, this: Word, i: Word) -> Ret {
    match index(this, i) {
        Some(at) => Ret::of(all(this)[at]),
        None => bounds(cx),
    }
}

extern "C" fn bottom(cx: &mut Cx, this: Word) -> Ret {
    match all(this).first() {
        Some(v) => Ret::of(*v),
        None => bounds(cx),
    }
}

extern "C" fn top(cx: &mut Cx, this: Word) -> Ret {
    match all(this).last() {
        Some(v) => Ret::of(*v),
        None => bounds(cx),
    }
}

extern "C" fn append(cx: &mut Cx, this: Word, v: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_sequence(table(this), &[all(this), &[v]])))
}

extern "C" fn concat(cx: &mut Cx, this: Word, x: Word) -> Ret {
    open!(cx, x);
    Ret::of(heap!(cx, cx.new_sequence(table(this), &[all(this), all(x)])))
}

extern "C" fn replace(cx: &mut Cx, this: Word, i: Word, v: Word) -> Ret {
    let Some(at) = index(this, i) else { return bounds(cx) };
    let (before, rest) = all(this).split_at(at);
    Ret::of(heap!(cx, cx.new_sequence(table(this), &[before, &[v], &rest[1..]])))
}

extern "C" fn subseq(cx: &mut Cx, this: Word, at: Word, n: Word) -> Ret {
    let (at, n, length) = (at as i64, n as i64, all(this).len() as i64);
    if at < 1 || n < 0 || at > length + 1 || n > length + 1 - at {
        return bounds(cx);
    }
    let part = &all(this)[(at - 1) as usize..(at - 1 + n) as usize];
    Ret::of(heap!(cx, cx.new_sequence(table(this), &[part])))
}

extern "C" fn each_element(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    for v in all(this) {
        step!(cx, closure, *v);
    }
    Ret::NOTHING
}

extern "C" fn each_index(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    for i in 1..=all(this).len() {
        step!(cx, closure, i as Word);
    }
    Ret::NOTHING
}

extern "C" fn to_array(cx: &mut Cx, this: Word) -> Ret {
    let types = &cx.image().program().types;
    let Some(ty) = table(this).info().element.and_then(|t| types.find_instance(TypeKind::Array(t))) else {
        return cx.failure("internal error: no array type");
    };
    let table = cx.image().table_of(ty);
    Ret::of(heap!(cx, cx.new_array(table, 1, all(this))))
}
