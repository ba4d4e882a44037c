//! Methods of `list[T]`: immutable chains that know their length.

use super::{heap, natives, open, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, list::*};

natives! {
    "list.first" => first / 1,
    "list.next" => next / 1,
    "list.empty" => empty / 1,
    "list.notEmpty" => not_empty / 1,
    "list.length" => length / 1,
    "list.nth" => nth / 2,
    "list.cons" => cons / 2,
    "list.reverse" => reverse / 1,
    "list.elements" => each_element / 2,
}

fn get(this: Word, field: usize) -> Word {
    // SAFETY: receivers and arguments of these methods are lists by their headings.
    unsafe { object::get(this, field) }
}

fn table(this: Word) -> &'static Table {
    // SAFETY: as in `get`.
    unsafe { Table::of(this) }.ordinary()
}

extern "C" fn first(cx: &mut Cx, this: Word) -> Ret {
    if get(this, LENGTH) == 0 {
        return cx.signal(cx.image().signals().empty);
    }
    Ret::of(get(this, FIRST))
}

extern "C" fn next(cx: &mut Cx, this: Word) -> Ret {
    if get(this, LENGTH) == 0 {
        return cx.signal(cx.image().signals().empty);
    }
    Ret::of(get(this, NEXT))
}

extern "C" fn empty(_cx: &mut Cx, this: Word) -> Ret {
    Ret::bool(get(this, LENGTH) == 0)
}

extern "C" fn not_empty(_cx: &mut Cx, this: Word) -> Ret {
    Ret::bool(get(this, LENGTH) != 0)
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::of(get(this, LENGTH))
}

extern "C" fn nth(cx: &mut Cx, this: Word, n: Word) -> Ret {
    let n = n as i64;
    if n < 1 || n > get(this, LENGTH) as i64 {
        return cx.signal(cx.image().signals().bounds);
    }
    let mut at = this;
    for _ in 1..n {
        at = get(at, NEXT);
        open!(cx, at);
    }
    Ret::of(get(at, FIRST))
}

extern "C" fn cons(cx: &mut Cx, this: Word, v: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_object(table(this), &[v, this, get(this, LENGTH) + 1])))
}

extern "C" fn reverse(cx: &mut Cx, this: Word) -> Ret {
    let mut to = heap!(cx, cx.new_object(table(this), &[0; FIELDS]));
    let kept = cx.keep(to);
    let mut at = this;
    while get(at, LENGTH) > 0 {
        to = heap!(cx, cx.new_object(table(this), &[get(at, FIRST), to, get(to, LENGTH) + 1]));
        kept.set(to);
        at = get(at, NEXT);
        open!(cx, at);
    }
    Ret::of(to)
}

extern "C" fn each_element(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut at = this;
    while get(at, LENGTH) > 0 {
        step!(cx, closure, get(at, FIRST));
        at = get(at, NEXT);
        open!(cx, at);
    }
    Ret::NOTHING
}
