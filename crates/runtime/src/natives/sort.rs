//! `array.sort`: a stable merge sort, from short runs upwards.
//!
//! Elements of users' types are compared by their own `lt`, which may do anything. So the work is
//! done in two storages of its own, which no other code sees. The array gets the result at the end,
//! unless it has changed meanwhile.

use bifrost_ir::TypeId;

use super::generic::{self, Step, attend};
use super::natives;
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{self, array::*};

natives! {
    "array.sort" => sort / 1,
}

extern "C" fn sort(cx: &mut Cx, this: Word) -> Ret {
    match sorted(cx, this) {
        Ok(()) => Ret::NOTHING,
        Err(ret) => ret,
    }
}

fn new_storage(cx: &mut Cx, element: TypeId, count: usize) -> Step<Word> {
    let table = cx.image().storage_table(element);
    match cx.alloc(table, count) {
        Ok(storage) => Ok(storage.as_ptr() as Word),
        Err(full) => Err(cx.out_of_memory(full)),
    }
}

fn sorted(cx: &mut Cx, this: Word) -> Step<()> {
    // SAFETY: the receiver is an array.
    let Some(element) = unsafe { Table::of(this) }.info().element else {
        return Err(cx.failure("internal error: no element type"));
    };
    // SAFETY: the receiver is an array.
    let count = unsafe { object::get(this, LENGTH) } as usize;
    if count < 2 {
        return Ok(());
    }
    let mut from = new_storage(cx, element, count)?;
    let _from = cx.keep(from);
    let mut to = new_storage(cx, element, count)?;
    let _to = cx.keep(to);
    // SAFETY: the array has `count` elements, and the storage room for them.
    unsafe {
        let (storage, head) = (object::get(this, STORAGE), object::get(this, HEAD) as usize);
        for at in 0..count {
            object::set(from, at, object::get(storage, head + at));
        }
    }
    let mut run = 1;
    while run < count {
        let mut low = 0;
        while low < count {
            let (middle, high) = ((low + run).min(count), (low + 2 * run).min(count));
            merge(cx, element, from, to, [low, middle, high])?;
            low = high;
        }
        std::mem::swap(&mut from, &mut to);
        run *= 2;
    }
    // SAFETY: the receiver is an array; if it has as many elements as before, its storage has room
    // for them.
    unsafe {
        if object::get(this, LENGTH) as usize != count {
            return Err(cx.failure("an array was changed while it was sorted"));
        }
        let (storage, head) = (object::get(this, STORAGE), object::get(this, HEAD) as usize);
        for at in 0..count {
            object::set(storage, head + at, object::get(from, at));
        }
    }
    Ok(())
}

/// Merges the sorted runs `low..middle` and `middle..high` of one storage into the other.
fn merge(cx: &mut Cx, element: TypeId, from: Word, to: Word, [low, middle, high]: [usize; 3]) -> Step<()> {
    let (mut a, mut b) = (low, middle);
    for at in low..high {
        attend(cx)?;
        // SAFETY: both storages have more than `high - 1` fields, and so do the runs as long as
        // they are not used up.
        unsafe {
            // Of equal elements the left one goes first.
            let right = b < high
                && (a == middle || generic::less(cx, element, object::get(from, b), object::get(from, a))?);
            let taken = if right { &mut b } else { &mut a };
            object::set(to, at, object::get(from, *taken));
            *taken += 1;
        }
    }
    Ok(())
}
