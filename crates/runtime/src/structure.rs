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

    /// The entry. That of a procedure takes its arguments; that of any other structure takes the
    /// address of its parameters' words, of which there may be any number.
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
