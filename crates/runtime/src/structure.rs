//! The part of a context that clients' structures need when they run as machine code: fuel, nesting
//! of procedures, and the place of a failure.
//!
//! The interpreter counts and traces as it goes. Machine code writes the same into the context:
//! [`Cx::fuel`](crate::Cx) at each call and at the end of each round, and [`Trace::rounds`] at each
//! round of the structure's own loops. It writes the rest of the [`Trace`] when a call does not
//! return.

use std::any::Any;

use crate::abi::Code;

/// The nesting of batched procedures, unless a session sets another limit.
pub const PROCEDURE_DEPTH_MAX: u64 = 10_000;

/// Most loops inside each other of a structure that is compiled.
pub const LOOPS_MAX: usize = 64;

/// The part of a structure that is compiled.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// All of it.
    Whole,
    /// A loop that is under way in the interpreter. The code of a WHILE is entered at the head and
    /// runs the rest of the rounds; that of a FOREACH is the body, which the iterator enters for
    /// each round. Both take the address of an [`environment`] that has all variables, in the order
    /// of the function. They come back returned, or killed, or left with a [`reason`].
    Loop {
        /// The number of the loop ([`bifrost_ir::loops`]).
        number: u32,
        /// The code of the whole, if the loop calls the procedure that it is in.
        itself: Option<Code>,
    },
}

/// The words of an environment, by which code shares variables with the bodies of its loops.
pub mod environment {
    /// The reason for which the body of a loop left it, one of [`super::reason`].
    pub const REASON: u32 = 0;
    /// The first result, if it was by `return`.
    pub const RESULT: u32 = 1;
    /// In an iterator: the closure to yield to.
    pub const CLOSURE: u32 = 2;
    /// The first shared variable.
    pub const VARS: u32 = 3;
}

/// The reasons for which a body leaves its loop.
pub mod reason {
    /// `break`
    pub const BREAK: i64 = 1;
    /// `return`; the results are in the environment and in the context.
    pub const RETURN: i64 = 2;
    /// `signal`; the exception is in the context, and no handler of this function sees it.
    pub const SIGNAL: i64 = 3;
    /// A call signalled and no handler inside the body took it.
    pub const RAISED: i64 = 4;
    /// The body yielded, and the closure that it yielded to did not want another step.
    pub const PASS: i64 = 5;
    /// `continue` of a loop around the transaction whose body it is.
    pub const CONTINUE: i64 = 6;
    /// `exit` to an arm: this plus the arm's number.
    pub const EXIT: i64 = 16;
}

/// The place at which a structure that runs as machine code failed.
#[derive(Debug)]
#[repr(C)]
pub struct Trace {
    /// True if a call failed and no handler took it: the other fields are that call's.
    pub failed: u64,
    /// The call's site.
    pub site: u64,
    /// The number of loops around it.
    pub loops: u64,
    /// For each loop that is under way, from the outermost, the number of its round, from 1 on.
    pub rounds: [u64; LOOPS_MAX],
}

impl Trace {
    pub(crate) fn new() -> Trace {
        Trace { failed: 0, site: 0, loops: 0, rounds: [0; LOOPS_MAX] }
    }

    /// Begins the trace of a loop that goes on as code: the number of loops around it, and of its
    /// round.
    ///
    /// # Panics
    /// With [`LOOPS_MAX`] loops around, of which none is compiled.
    pub fn begin_loop(&mut self, around: usize, round: u64) {
        self.clear();
        self.rounds[around] = round;
    }

    /// Forgets the trace of the structure before.
    pub fn clear(&mut self) {
        (self.failed, self.site, self.loops) = (0, 0, 0);
    }

    /// The site, and the rounds of the loops around it, from the outermost. No site and no rounds
    /// where it failed before its first call.
    pub fn place(&self) -> (u32, &[u64]) {
        (self.site as u32, &self.rounds[..self.loops as usize])
    }
}

/// Machine code of a structure. It is freed when this is dropped, so that its callers keep this.
pub struct StructureCode {
    code: Code,
    _memory: Box<dyn Any + Send + Sync>,
}

impl StructureCode {
    /// Code, and the owner of its memory, which frees it when it is dropped.
    pub fn new(code: Code, memory: Box<dyn Any + Send + Sync>) -> StructureCode {
        StructureCode { code, _memory: memory }
    }

    /// The entry. That of a procedure takes its arguments; that of a batch takes the address of its
    /// parameters' words, of which there may be any number; that of a loop is as [`Extent::Loop`]
    /// says.
    #[inline]
    pub fn code(&self) -> Code {
        self.code
    }
}

impl std::fmt::Debug for StructureCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StructureCode({:?})", self.code)
    }
}
