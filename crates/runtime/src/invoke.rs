//! Calling functions from Rust: sessions, the interpreter, native functions that call back.

use bifrost_ir::Body;

use crate::abi::{Ret, Word, enter};
use crate::cx::Cx;
use crate::image::RoutineDesc;
use crate::mode::Mode;
use crate::reference::Object;

/// Calls a method through the receiver's table.
///
/// # Safety
/// `cx` is the current context. `args` are the receiver, which is a reference whose class has the
/// slot's method, then the words that the method takes (the closure's address last for an
/// iterator).
#[inline]
pub unsafe fn method(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let receiver = Object::new(args[0]);
        if (*cx).image().has_engine() {
            return enter(receiver.table().entry(slot), cx, args);
        }
        let opened = open_receiver(&mut *cx, slot, receiver);
        if !opened.returned() {
            return opened;
        }
        let (image, table) = ((*cx).image(), receiver.table());
        match (image.method_func(table.info(), slot), image.interpreter()) {
            (Some(func), Some(interpreter)) => interpreter.clone().call(cx, func, args),
            _ => enter(table.entry(slot), cx, args),
        }
    }
}

/// Opens the receiver of a call as the stubs of its table would if there were machine code.
/// Returned, or the outcome to end with.
#[inline]
pub fn open_receiver(cx: &mut Cx, slot: u32, receiver: Object) -> Ret {
    let table = receiver.table();
    if table.mode() == Mode::Ordinary {
        return Ret::NOTHING;
    }
    match cx.image().native_changes(table.info(), slot) {
        true => cx.open_to_change(receiver),
        false => cx.open(receiver),
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
