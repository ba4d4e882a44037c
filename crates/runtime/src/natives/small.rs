//! Methods of `cell` and `directory`.

use super::{heap, natives, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::object::{self, cell, text};

natives! {
    "cell.put" => cell_put / 2,
    "cell.full" => cell_full / 1,
    "cell.get" => cell_get / 1,
    "directory.lookup" => lookup / 2,
    "directory.insert" => insert / 3,
    "directory.remove" => remove / 2,
    "directory.names" => names / 2,
}

extern "C" fn cell_put(_cx: &mut Cx, this: Word, value: Word) -> Ret {
    // SAFETY: the receiver is a cell.
    unsafe {
        object::set(this, cell::FULL, 1);
        object::set(this, cell::VALUE, value);
    }
    Ret::NOTHING
}

extern "C" fn cell_full(_cx: &mut Cx, this: Word) -> Ret {
    // SAFETY: the receiver is a cell.
    Ret::of(unsafe { object::get(this, cell::FULL) })
}

extern "C" fn cell_get(cx: &mut Cx, this: Word) -> Ret {
    // SAFETY: the receiver is a cell.
    unsafe {
        if object::get(this, cell::FULL) == 0 {
            return cx.signal(cx.image().signals().not_possible);
        }
        Ret::of(object::get(this, cell::VALUE))
    }
}

extern "C" fn lookup(cx: &mut Cx, _this: Word, name: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    match cx.lookup(unsafe { text(name) }) {
        Some(object) => Ret::of(object),
        None => cx.signal(cx.image().signals().not_found),
    }
}

extern "C" fn insert(cx: &mut Cx, _this: Word, name: Word, object: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    cx.insert(unsafe { text(name) }, object);
    Ret::NOTHING
}

extern "C" fn remove(cx: &mut Cx, _this: Word, name: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    if cx.remove(unsafe { text(name) }) {
        return Ret::NOTHING;
    }
    cx.signal(cx.image().signals().not_found)
}

extern "C" fn names(cx: &mut Cx, _this: Word, closure: Word) -> Ret {
    let mut last: Option<String> = None;
    while let Some(name) = cx.name_after(last.as_deref()).map(str::to_owned) {
        let word = heap!(cx, cx.new_string(&name));
        last = Some(name);
        step!(cx, closure, word);
    }
    Ret::NOTHING
}
