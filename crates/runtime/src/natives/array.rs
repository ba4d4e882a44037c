//! Methods of `array[T]`: bounds that move, growth at both ends.

use super::{heap, natives, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, array::*};
use bifrost_heap::HeapFull;
use bifrost_ir::{TypeId, TypeKind, Types};

natives! {
    "array.length" => length / 1,
    "array.empty" => empty / 1,
    "array.low" => low / 1,
    "array.high" => high / 1,
    "array.clear" => clear / 1,
    "array.fetch" => fetch / 2,
    "array.store" => store / 3,
    "array.bottom" => bottom / 1,
    "array.top" => top / 1,
    "array.append" => append / 2,
    "array.append_low" => append_low / 2,
    "array.remove" => remove / 1,
    "array.remove_low" => remove_low / 1,
    "array.elements" => each_element / 2,
    "array.indexes" => each_index / 2,
    "array.to_sequence" => to_sequence / 1,
}

/// A field of the receiver.
fn get(this: Word, field: usize) -> i64 {
    // SAFETY: receivers of these methods are arrays.
    unsafe { object::get(this, field) as i64 }
}

fn set(this: Word, field: usize, value: i64) {
    // SAFETY: as in `get`; the callers keep the fields' meaning.
    unsafe { object::set(this, field, value as Word) }
}

/// The elements as they are now.
///
/// # Safety
/// `this` is an array that does not change while the slice is used.
pub unsafe fn elements<'a>(this: Word) -> &'a [Word] {
    let count = get(this, LENGTH) as usize;
    if count == 0 {
        return &[];
    }
    // SAFETY: an array with elements has a storage with at least HEAD + LENGTH fields.
    unsafe { object::slice(get(this, STORAGE) as Word, get(this, HEAD) as usize, count) }
}

/// The position in the storage of the element with this index.
fn position(this: Word, i: Word) -> Option<usize> {
    let at = (i as i64).wrapping_sub(get(this, LOW));
    (at >= 0 && at < get(this, LENGTH)).then(|| (get(this, HEAD) + at) as usize)
}

fn element(this: Word, position: usize) -> Word {
    // SAFETY: positions come from `position` or from the ends of an array that is not empty.
    unsafe { object::get(get(this, STORAGE) as Word, position) }
}

fn set_element(this: Word, position: usize, value: Word) {
    // SAFETY: as in `element`, or after `reserve` made the room; values have the element type by
    // the heading.
    unsafe { object::set(get(this, STORAGE) as Word, position, value) }
}

/// Makes room for one more element before (`front`) or behind the others.
fn reserve(cx: &mut Cx, this: Word, front: bool) -> Result<(), HeapFull> {
    let (length, head, storage) =
        (get(this, LENGTH) as usize, get(this, HEAD) as usize, get(this, STORAGE) as Word);
    // SAFETY: a storage that is not 0 is a reference.
    let room = if storage == 0 { 0 } else { unsafe { object::fields(storage) } };
    if if front { head > 0 } else { head + length < room } {
        return Ok(());
    }
    // Elements that left at the other end leave room: use it if that is at least half of the
    // storage.
    let capacity = if length * 2 < room { room } else { (length * 2).max(4) };
    let new_head = if front { (capacity - length) / 2 + (capacity - length) % 2 } else { 0 };
    let old = if storage != 0 && capacity == room { storage } else { 0 };
    let target = match old {
        0 => {
            let table = cx.image().storage_table(element_type(this).unwrap_or(Types::ANY));
            cx.alloc(table, capacity)?.as_ptr() as Word
        }
        same => same,
    };
    if length > 0 {
        // SAFETY: both storages have room for the elements at these places; they may be one and the
        // same.
        unsafe {
            let from = (storage as *const Word).add(bifrost_heap::OBJECT_WORDS + head);
            let to = (target as *mut Word).add(bifrost_heap::OBJECT_WORDS + new_head);
            std::ptr::copy(from, to, length);
            if target == storage {
                // The places that became free would keep alive the elements that have moved on.
                let (old, new) = (head..head + length, new_head..new_head + length);
                for at in old.filter(|at| !new.contains(at)) {
                    object::set(storage, at, 0);
                }
            }
        }
    }
    set(this, STORAGE, target as i64);
    set(this, HEAD, new_head as i64);
    Ok(())
}

fn bounds(cx: &mut Cx) -> Ret {
    cx.signal(cx.image().signals().bounds)
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(get(this, LENGTH))
}

extern "C" fn empty(_cx: &mut Cx, this: Word) -> Ret {
    Ret::bool(get(this, LENGTH) == 0)
}

extern "C" fn low(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(get(this, LOW))
}

extern "C" fn high(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(get(this, LOW).wrapping_add(get(this, LENGTH)).wrapping_sub(1))
}

extern "C" fn clear(_cx: &mut Cx, this: Word) -> Ret {
    set(this, LENGTH, 0);
    set(this, HEAD, 0);
    set(this, STORAGE, 0);
    Ret::NOTHING
}

extern "C" fn fetch(cx: &mut Cx, this: Word, i: Word) -> Ret {
    match position(this, i) {
        Some(at) => Ret::of(element(this, at)),
        None => bounds(cx),
    }
}

extern "C" fn store(cx: &mut Cx, this: Word, i: Word, v: Word) -> Ret {
    match position(this, i) {
        Some(at) => set_element(this, at, v),
        None => return bounds(cx),
    }
    Ret::NOTHING
}

extern "C" fn bottom(cx: &mut Cx, this: Word) -> Ret {
    if get(this, LENGTH) == 0 {
        return bounds(cx);
    }
    Ret::of(element(this, get(this, HEAD) as usize))
}

extern "C" fn top(cx: &mut Cx, this: Word) -> Ret {
    if get(this, LENGTH) == 0 {
        return bounds(cx);
    }
    Ret::of(element(this, (get(this, HEAD) + get(this, LENGTH) - 1) as usize))
}

extern "C" fn append(cx: &mut Cx, this: Word, v: Word) -> Ret {
    heap!(cx, reserve(cx, this, false));
    set_element(this, (get(this, HEAD) + get(this, LENGTH)) as usize, v);
    set(this, LENGTH, get(this, LENGTH) + 1);
    Ret::NOTHING
}

extern "C" fn append_low(cx: &mut Cx, this: Word, v: Word) -> Ret {
    heap!(cx, reserve(cx, this, true));
    set(this, HEAD, get(this, HEAD) - 1);
    set(this, LOW, get(this, LOW).wrapping_sub(1));
    set(this, LENGTH, get(this, LENGTH) + 1);
    set_element(this, get(this, HEAD) as usize, v);
    Ret::NOTHING
}

extern "C" fn remove(cx: &mut Cx, this: Word) -> Ret {
    let value = top(cx, this);
    if value.returned() {
        set(this, LENGTH, get(this, LENGTH) - 1);
        set_element(this, (get(this, HEAD) + get(this, LENGTH)) as usize, 0);
    }
    value
}

extern "C" fn remove_low(cx: &mut Cx, this: Word) -> Ret {
    let value = bottom(cx, this);
    if value.returned() {
        set_element(this, get(this, HEAD) as usize, 0);
        set(this, HEAD, get(this, HEAD) + 1);
        set(this, LOW, get(this, LOW).wrapping_add(1));
        set(this, LENGTH, get(this, LENGTH) - 1);
    }
    value
}

extern "C" fn each_element(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    // Looks at the array again at each step, by index: elements that come are seen, and those that
    // go are not.
    let mut i = get(this, LOW);
    while let Some(at) = position(this, i.max(get(this, LOW)) as Word) {
        i = i.max(get(this, LOW));
        step!(cx, closure, element(this, at));
        i = i.wrapping_add(1);
    }
    Ret::NOTHING
}

extern "C" fn each_index(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    let mut i = get(this, LOW);
    while position(this, i.max(get(this, LOW)) as Word).is_some() {
        i = i.max(get(this, LOW));
        step!(cx, closure, i as Word);
        i = i.wrapping_add(1);
    }
    Ret::NOTHING
}

extern "C" fn to_sequence(cx: &mut Cx, this: Word) -> Ret {
    let Some(ty) =
        element_type(this).and_then(|t| cx.image().program().types.find_instance(TypeKind::Sequence(t)))
    else {
        return cx.failure("internal error: no sequence type");
    };
    let table = cx.image().table_of(ty);
    // SAFETY: the receiver is an array, and making the sequence does not change it.
    let parts = unsafe { elements(this) };
    Ret::of(heap!(cx, cx.new_sequence(table, &[parts])))
}

fn element_type(this: Word) -> Option<TypeId> {
    // SAFETY: the receiver is an array.
    unsafe { Table::of(this) }.info().element
}
