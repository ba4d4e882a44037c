//! The functions of built-in types and routines (`docs/book/language/library.md`), with the
//! exceptions and bounds stated there.
//!
//! Every function here is `extern "C"` and entered from compiled code, so none may panic:
//! arithmetic is checked or wrapping, indices are compared first.

mod array;
mod basic;
mod bytes;
mod cell;
mod clone;
mod common;
mod directory;
mod generic;
mod granted;
mod hash;
mod list;
mod map;
mod routines;
mod sequence;
mod sort;
mod string;
mod tagged;
mod unparse;
mod vector;

use std::collections::HashMap;

use crate::abi::{Code, Ret, Word};
use crate::cx::Cx;

/// The text of a value inside a message: characters and strings are quoted.
///
/// # Errors
/// The outcome of a user's `unparse` that did not return.
pub fn unparse(cx: &mut Cx, ty: bifrost_ir::TypeId, word: Word) -> Result<String, Ret> {
    unparse::unparse(cx, ty, word, true)
}

/// The registered functions by key: `string.concat`, `array_new`.
pub fn registry() -> HashMap<&'static str, Code> {
    let mut all = HashMap::new();
    for list in [
        basic::NATIVES,
        string::NATIVES,
        bytes::NATIVES,
        cell::NATIVES,
        directory::NATIVES,
        granted::NATIVES,
        tagged::NATIVES,
        array::NATIVES,
        sort::NATIVES,
        sequence::NATIVES,
        vector::NATIVES,
        list::NATIVES,
        map::NATIVES,
        common::NATIVES,
        clone::NATIVES,
        routines::NATIVES,
    ] {
        all.extend(list.iter().map(|n| (n.key, n.code)));
    }
    all
}

/// A row of the registry.
pub(crate) struct Native {
    key: &'static str,
    code: Code,
}

/// Lists functions under their keys: `natives!["int.power" => power as fn(cx, words...)]`.
macro_rules! natives {
    ($($key:literal => $function:ident / $words:tt),* $(,)?) => {
        pub(crate) static NATIVES: &[crate::natives::Native] = &[
            $(crate::natives::Native { key: $key, code: {
                let function: natives!(@type $words) = $function;
                crate::abi::Code(function as *const u8)
            } }),*
        ];
    };
    (@type 1) => { extern "C" fn(&mut Cx, Word) -> Ret };
    (@type 2) => { extern "C" fn(&mut Cx, Word, Word) -> Ret };
    (@type 3) => { extern "C" fn(&mut Cx, Word, Word, Word) -> Ret };
    (@type 4) => { extern "C" fn(&mut Cx, Word, Word, Word, Word) -> Ret };
    (@type 5) => { extern "C" fn(&mut Cx, Word, Word, Word, Word, Word) -> Ret };
}
pub(crate) use natives;

/// Ends a native with the exception of a fallible step, or with its value.
macro_rules! heap {
    ($cx:ident, $e:expr) => {
        match $e {
            Ok(value) => value,
            Err(full) => return $cx.out_of_memory(full),
        }
    };
}
pub(crate) use heap;

/// Makes sure that an object, which something keeps alive, may be looked into; ends the native if
/// it cannot be fetched.
macro_rules! open {
    ($cx:ident, $object:expr) => {
        // SAFETY: the headings of natives and the types of fields say that the word is a reference.
        let object = unsafe { crate::reference::Object::new($object) };
        let opened = $cx.opened(object);
        if !opened.returned() {
            return opened;
        }
    };
}
pub(crate) use open;

/// One step of a loop: hands values to the body, and leaves the iterator unless the body wants the
/// next step.
macro_rules! step {
    ($cx:ident, $closure:ident, $($value:expr),+) => {{
        if $cx.must_attend() {
            let attended = $cx.attend();
            if !attended.returned() {
                return attended;
            }
        }
        // SAFETY: the last word of an iterator's call is the address of its loop's closure, which
        // lives until the iterator returns; the values are what its heading yields.
        let stepped = unsafe { (*($closure as *const crate::abi::Closure)).step($cx, &[$($value),+]) };
        if !stepped.returned() {
            return stepped;
        }
    }};
}
pub(crate) use step;
