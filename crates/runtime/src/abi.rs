//! The calling convention.
//!
//! Every function that a program can call, compiled or written in Rust, is entered as
//!
//! ```text
//! extern "C" fn(cx: *mut Cx, first: Word, arguments: Word...) -> Ret
//! ```
//!
//! `first` is the receiver of a method and the [`RoutineDesc`](crate::image::RoutineDesc) of a
//! routine, so that one stub for each arity knows the function that it stands for. All operands are
//! untagged words. An iterator has one more argument, the address of a [`Closure`] for the loop's
//! body. At most [`ARGS_MAX`] words follow `cx`.
//!
//! Every call ends with an [`Outcome`]. The first result travels in [`Ret::value`], further ones in
//! `Cx::results`; an exception in `Cx::signal_*`. The context is a raw pointer and not a `&mut Cx`
//! because another thread writes its poll word while code runs.
//!
//! # The roots that the collector finds on the stack
//!
//! A collection may happen in every Rust function of this convention, and objects that only running
//! code knows must be found. Which words are references follows from static types: values of basic
//! types are none, all others are (or 0), but for the first word of a routine and the address of a
//! closure.
//!
//! - Machine code of the compiler keeps frame pointers: `[fp]` is the caller's, `[fp + 8]` the
//!   return address, and `fp + 16` the caller's stack pointer at the call.
//!   [`Engine::stack_map`](crate::engine::Engine::stack_map) has for each return address the places
//!   above that stack pointer of the references that the caller needs after the call.
//! - Machine code enters Rust only through *trampolines*, which leave an [`ExitFrame`] in
//!   `Cx::exit_frame`. That of a native
//!   ([`Engine::native_entry`](crate::engine::Engine::native_entry)) has the native's reference
//!   arguments in it, so that natives may rely on their arguments. References that a native makes
//!   or reads itself it keeps with [`Cx::keep`].
//! - Rust enters machine code only through [`enter`], which saves the exit frame in an
//!   [`Activation`]. So the collector walks from the exit frame from frame to frame until a return
//!   address is none of the compiler's, and goes on with the activation before.
//! - The interpreter has its frames in a list ([`Frame`](crate::roots::Frame)).
//! - `Cx::signal_values` and `Cx::results` are no roots: nothing may be allocated between their
//!   writing and their reading.
//!
//! Sources: status-returning calls as in Concert and in 003 section 4; iterators as procedures with
//! a closure of the loop's body as in 000 section 6.4.6.

use std::cell::Cell;

use crate::cx::Cx;
pub use bifrost_heap::Word;

/// Most words that follow the context, receiver and closure included.
pub const ARGS_MAX: usize = 24;

/// Most values of an exception, and most results of a call.
pub const VALUES_MAX: usize = 16;

/// Most values of a step of an iterator.
pub const YIELDS_MAX: usize = 8;

/// The ways in which a call ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Outcome {
    /// With its results.
    Returned = 0,
    /// With an exception: `Cx::signal_id` and its values.
    Signalled = 1,
    /// Not yet: [`Ret::value`] is the object that owes the answer (crate `actors`).
    Pending = 2,
    /// Only of a closure, and of the iterator that it was handed to: the body left the loop (by
    /// break, return, signal or exit), so the iterator must unwind without running handlers.
    Left = 3,
    /// The batch was ended from outside (time, fuel, shutdown): everything unwinds, no handler sees
    /// it.
    Killed = 4,
}

/// The outcome and first result of a call; travels in two registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Ret {
    /// An [`Outcome`] as a word.
    pub outcome: u64,
    /// The first result of a call that returned, otherwise unspecified.
    pub value: Word,
}

impl Ret {
    /// Returned without a result.
    pub const NOTHING: Ret = Ret { outcome: Outcome::Returned as u64, value: 0 };
    /// Signalled; the exception is in the context.
    pub const SIGNALLED: Ret = Ret { outcome: Outcome::Signalled as u64, value: 0 };
    /// The loop's body left the loop.
    pub const LEFT: Ret = Ret { outcome: Outcome::Left as u64, value: 0 };
    /// Ended from outside.
    pub const KILLED: Ret = Ret { outcome: Outcome::Killed as u64, value: 0 };

    /// Returned with one result.
    #[inline]
    pub const fn of(value: Word) -> Ret {
        Ret { outcome: Outcome::Returned as u64, value }
    }

    /// Returned with a truth value.
    #[inline]
    pub const fn bool(value: bool) -> Ret {
        Ret::of(value as Word)
    }

    /// Returned with an integer.
    #[inline]
    pub const fn int(value: i64) -> Ret {
        Ret::of(value as Word)
    }

    /// Returns the way in which the call ended. A word that is no [`Outcome`] counts as `Killed`.
    #[inline]
    pub fn outcome(self) -> Outcome {
        match self.outcome {
            0 => Outcome::Returned,
            1 => Outcome::Signalled,
            2 => Outcome::Pending,
            3 => Outcome::Left,
            _ => Outcome::Killed,
        }
    }

    /// True if the call returned.
    #[inline]
    pub fn returned(self) -> bool {
        self.outcome == Outcome::Returned as u64
    }
}

/// The entry of a function of any arity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Code(pub *const u8);

// SAFETY: code does not change once it can be reached, and may be entered by any thread.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// A loop's body as an iterator sees it. Entered as
/// `extern "C" fn(cx, environment, step values...) -> Ret` with outcome `Returned` (next step),
/// `Left`, or `Killed`. A signal of the body is not `Signalled` but `Left`: it passes by the
/// iterator's own handlers, and the end of the loop raises it again.
///
/// The loop's function may replace both words between two steps: iterators load them at each.
#[derive(Debug)]
#[repr(C)]
pub struct Closure {
    code: Cell<Code>,
    environment: Cell<Word>,
}

/// The record that a trampoline from machine code into Rust leaves in its own frame.
#[derive(Debug)]
#[repr(C)]
pub struct ExitFrame {
    /// The trampoline's frame pointer.
    pub frame_pointer: usize,
    /// The number of words that follow.
    pub count: usize,
    /// The reference arguments of the native; each may be 0.
    pub references: [Word; 0],
}

/// The machine code below a call from Rust into code.
#[derive(Debug)]
pub(crate) struct Activation {
    pub exit_frame: *const ExitFrame,
    pub previous: *const Activation,
}

/// Functions of each arity, for calls from Rust. `N` counts the words after the context.
macro_rules! arities {
    ($($n:literal => ($($a:ident),*)),* $(,)?) => {
        /// Enters a function with these words.
        ///
        /// # Safety
        /// `code` is the entry of a function of this calling convention that takes exactly
        /// `args.len()` words of the types that the caller passes, and `cx` is the current context.
        ///
        /// # Panics
        /// With more than [`ARGS_MAX`] words; linking refuses functions that take more.
        #[inline]
        pub unsafe fn enter(code: Code, cx: *mut Cx, args: &[Word]) -> Ret {
            // SAFETY: promised by the caller.
            let below = unsafe { (*cx).open_activation() };
            // SAFETY: `below` lives until the call is over.
            unsafe { (*cx).set_activation(std::ptr::null(), &below) };
            let ret = match *args {
                $([$($a),*] => {
                    type F = extern "C" fn(*mut Cx $(, arities!(@word $a))*) -> Ret;
                    // SAFETY: promised by the caller.
                    let f: F = unsafe { std::mem::transmute::<*const u8, F>(code.0) };
                    f(cx $(, $a)*)
                })*
                _ => panic!("a call with {} words", args.len()),
            };
            // SAFETY: promised by the caller.
            unsafe { (*cx).set_activation(below.exit_frame, below.previous) };
            ret
        }
    };
    (@word $a:ident) => { Word };
}

arities! {
    0 => (),
    1 => (a),
    2 => (a, b),
    3 => (a, b, c),
    4 => (a, b, c, d),
    5 => (a, b, c, d, e),
    6 => (a, b, c, d, e, f),
    7 => (a, b, c, d, e, f, g),
    8 => (a, b, c, d, e, f, g, h),
    9 => (a, b, c, d, e, f, g, h, i),
    10 => (a, b, c, d, e, f, g, h, i, j),
    11 => (a, b, c, d, e, f, g, h, i, j, k),
    12 => (a, b, c, d, e, f, g, h, i, j, k, l),
    13 => (a, b, c, d, e, f, g, h, i, j, k, l, m),
    14 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n),
    15 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o),
    16 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p),
    17 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q),
    18 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r),
    19 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s),
    20 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t),
    21 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u),
    22 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v),
    23 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w),
    24 => (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x),
}

impl Closure {
    /// A body with its entry, and the first argument, which the loop's function chooses.
    pub fn new(code: Code, environment: Word) -> Closure {
        Closure { code: Cell::new(code), environment: Cell::new(environment) }
    }

    /// Has the next steps enter other code, with another first argument.
    pub fn replace(&self, code: Code, environment: Word) {
        self.code.set(code);
        self.environment.set(environment);
    }

    /// Runs the loop's body for one step.
    ///
    /// # Safety
    /// `cx` is the current context and `values` are those that the iterator yields.
    #[inline]
    pub unsafe fn step(&self, cx: *mut Cx, values: &[Word]) -> Ret {
        // SAFETY: promised by the caller; the arities are those of the iterator's heading.
        unsafe {
            let (code, environment) = (self.code.get(), self.environment.get());
            match *values {
                [v] => enter(code, cx, &[environment, v]),
                [v, w] => enter(code, cx, &[environment, v, w]),
                _ => {
                    let mut args = smallvec::SmallVec::<[Word; 8]>::new();
                    args.push(environment);
                    args.extend_from_slice(values);
                    enter(code, cx, &args)
                }
            }
        }
    }
}
