//! The places at which a function with a join leaves its code and goes on.

use bifrost_runtime::engine::Came;

/// A place where the code of a function leaves. It lasts as long as the code.
#[derive(Debug)]
pub struct Exit {
    /// The way to the statement, the innermost step first ([`bifrost_ir::ways`]).
    pub path: Box<[u32]>,
    /// True if the statement has sent its message, which came back without a result; otherwise it
    /// has not begun.
    pub sent: bool,
    /// The way at which the function stops here; without one the interpreter goes on with the
    /// statement.
    pub way: Option<u32>,
}

/// The place at which a function with a join goes on.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// From its beginning.
    Begin,
    /// It stops at the way of this number, and goes on there.
    Stop(u32),
    /// It goes on at the way of this number.
    Way(u32),
    /// The interpreter goes on at a statement where code has left. The second field is the outcome
    /// of its message, if it has sent one.
    Exit(&'static Exit, Option<Came>),
}

/// The outcome of code or an interpreter that runs a function with a join: it goes on in another
/// way. [`Actors::take_next`](crate::Actors::take_next) returns that.
pub const LANDED: u64 = 1 << 32;

/// A bit in the outcome of such code when the function has stopped: the rest is the outcome for its
/// caller.
pub(crate) const STOPPED: u64 = 1 << 33;

/// The state of the answer of a function that runs as code.
pub mod given {
    /// It was not given.
    pub const NOT: u64 = 0;
    /// It was given: a word.
    pub const WORD: u64 = 1;
    /// Another object owes it.
    pub const DELEGATED: u64 = 2;
}
