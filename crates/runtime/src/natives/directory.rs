//! Methods of `directory`: names in order, each with an object.

use bifrost_heap::HeapFull;
use bifrost_ir::Types;

use super::{heap, natives, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::names::{entries, find, position};
use crate::object::{self, directory::*, text};

natives! {
    "directory.lookup" => lookup / 2,
    "directory.insert" => insert / 3,
    "directory.remove" => remove / 2,
    "directory.names" => names / 2,
    "directory.list" => list / 2,
}

/// The number of names for which there is room at first.
const ROOM_MIN: usize = 4;

fn get(this: Word, field: usize) -> Word {
    // SAFETY: receivers of these methods are directories.
    unsafe { object::get(this, field) }
}

fn set(this: Word, field: usize, value: Word) {
    // SAFETY: as in `get`; the callers keep the fields' meaning.
    unsafe { object::set(this, field, value) }
}

/// Gives an object a name in a directory that may be changed.
pub(crate) fn put(cx: &mut Cx, this: Word, name: Word, object: Word) -> Result<(), HeapFull> {
    // SAFETY: the caller passes a string.
    let at = match position(this, unsafe { text(name) }) {
        Ok(at) => {
            // SAFETY: the storage has the place.
            unsafe { object::set(get(this, STORAGE), 2 * at + 1, object) };
            return Ok(());
        }
        Err(at) => at,
    };
    let count = get(this, LENGTH) as usize;
    let storage = get(this, STORAGE);
    // SAFETY: a storage that is not 0 is a reference.
    let room = if storage == 0 { 0 } else { unsafe { object::fields(storage) } };
    let target = if 2 * count < room {
        storage
    } else {
        let table = cx.image().storage_table(Types::ANY);
        cx.alloc(table, 2 * (2 * count).max(ROOM_MIN))?.as_ptr() as Word
    };
    // SAFETY: the target has room for one more pair; from the end, so that nothing is written over
    // before it has moved.
    unsafe {
        for from in (0..2 * count).rev() {
            let to = if from >= 2 * at { from + 2 } else { from };
            object::set(target, to, object::get(storage, from));
        }
        object::set(target, 2 * at, name);
        object::set(target, 2 * at + 1, object);
    }
    set(this, STORAGE, target);
    set(this, LENGTH, count as Word + 1);
    Ok(())
}

pub(super) extern "C" fn lookup(cx: &mut Cx, this: Word, name: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    match find(this, unsafe { text(name) }) {
        Some(object) => Ret::of(object),
        None => cx.signal(cx.image().signals().not_found),
    }
}

pub(super) extern "C" fn insert(cx: &mut Cx, this: Word, name: Word, object: Word) -> Ret {
    heap!(cx, put(cx, this, name, object));
    Ret::NOTHING
}

pub(super) extern "C" fn remove(cx: &mut Cx, this: Word, name: Word) -> Ret {
    // SAFETY: the argument is a string by the heading.
    let Ok(at) = position(this, unsafe { text(name) }) else {
        return cx.signal(cx.image().signals().not_found);
    };
    let (count, storage) = (get(this, LENGTH) as usize, get(this, STORAGE));
    // SAFETY: the storage has two fields for each name; the last two become free.
    unsafe {
        for to in 2 * at..2 * count - 2 {
            object::set(storage, to, object::get(storage, to + 2));
        }
        object::set(storage, 2 * count - 2, 0);
        object::set(storage, 2 * count - 1, 0);
    }
    set(this, LENGTH, count as Word - 1);
    Ret::NOTHING
}

/// The names that there are when each is its turn, in order.
extern "C" fn names(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    names_if(cx, this, closure, |_, _| true)
}

/// As [`names`], without those that a test passes over.
pub(super) fn names_if(cx: &mut Cx, this: Word, closure: Word, is_told: fn(&Cx, Word) -> bool) -> Ret {
    let last = cx.keep(0);
    while let Some([name, _]) = after(this, last.word()) {
        last.set(name);
        if is_told(cx, name) {
            step!(cx, closure, name);
        }
    }
    Ret::NOTHING
}

/// The names as [`names`] yields them, each with the name of its object's type. No object is
/// fetched: a reference knows its class.
extern "C" fn list(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    list_if(cx, this, closure, |_, _| true)
}

/// As [`list`], without those that a test passes over.
pub(super) fn list_if(cx: &mut Cx, this: Word, closure: Word, is_told: fn(&Cx, Word) -> bool) -> Ret {
    let last = cx.keep(0);
    let image = cx.image().clone();
    while let Some([name, object]) = after(this, last.word()) {
        last.set(name);
        if !is_told(cx, name) {
            continue;
        }
        // SAFETY: a directory holds references to objects.
        let info = unsafe { Table::of(object) }.info();
        let seen_as = info.boxed.unwrap_or(info.seen_as);
        let ty = heap!(cx, cx.new_string(image.program().types.name(seen_as)));
        step!(cx, closure, name, ty);
    }
    Ret::NOTHING
}

/// Returns the first name behind another one, 0 before all, with its object.
fn after(this: Word, last: Word) -> Option<[Word; 2]> {
    let from = match last {
        0 => 0,
        // SAFETY: the word is a string of the directory.
        name => match position(this, unsafe { text(name) }) {
            Ok(at) => at + 1,
            Err(at) => at,
        },
    };
    entries(this).as_chunks().0.get(from).copied()
}
