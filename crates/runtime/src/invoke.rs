//! Calling functions from Rust: sessions, the interpreter, native functions that call back.

use bifrost_ir::Body;

use crate::abi::{Ret, Word, enter};
use crate::cx::Cx;
use crate::image::{RoutineDesc, Table};

/// Calls a method through the receiver's table.
///
/// # Safety
/// `cx` is the current context. `args` are the receiver, which is a reference whose class has the slot's method, then
/// the words that the method takes (the closure's address last for an iterator).
#[inline]
pub unsafe fn method(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let table = Table::of(args[0]);
        let image = (*cx).image();
        if image.has_engine() {
            return enter(table.entry(slot), cx, args);
        }
        match (image.method_func(table.info(), slot), image.interpreter()) {
            (Some(func), Some(interpreter)) => interpreter.clone().call(cx, func, args),
            _ => enter(table.entry(slot), cx, args),
        }
    }
}

/// Calls a routine. `args[0]` is replaced by the descriptor.
///
/// # Safety
/// `cx` is the current context. `args[1..]` are the words that the routine takes.
#[inline]
pub unsafe fn routine(cx: *mut Cx, desc: &'static RoutineDesc, args: &mut [Word]) -> Ret {
    args[0] = desc as *const RoutineDesc as Word;
    // SAFETY: promised by the caller.
    unsafe {
        let image = (*cx).image();
        if !image.has_engine()
            && let (Body::Func(func), Some(interpreter)) =
                (image.program().routines[desc.routine].body, image.interpreter())
        {
            return interpreter.clone().call(cx, func, args);
        }
        enter(desc.code(), cx, args)
    }
}
