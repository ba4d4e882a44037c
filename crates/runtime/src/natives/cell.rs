//! Methods of `cell`.

use super::natives;
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::object::{self, cell};

natives! {
    "cell.put" => cell_put / 2,
    "cell.full" => cell_full / 1,
    "cell.get" => cell_get / 1,
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
