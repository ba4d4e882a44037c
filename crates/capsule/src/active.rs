//! A counter that tells if anything can still happen in this process (the credit method of
//! termination detection).
//!
//! A busy node has a part, and so has each piece of mail that is under way to one. Only the holder
//! of a part makes another. So the counter is 0 only when all rest and nothing is under way, and
//! stays so until it is added to from outside. The atomics come from the module around this one, so
//! that a model checker can put its own in their place (`tests/loom.rs`).

use super::sync::{AtomicUsize, Ordering};

/// The number of parts.
#[derive(Debug)]
pub(crate) struct Active(AtomicUsize);

impl Active {
    /// Makes the counter for so many busy nodes.
    pub(crate) fn new(busy: usize) -> Active {
        Active(AtomicUsize::new(busy))
    }

    /// Adds parts for so many pieces of mail, before they are sent.
    pub(crate) fn add(&self, mail: usize) {
        self.0.fetch_add(mail, Ordering::AcqRel);
    }

    /// Ends the part of mail that a busy node has taken.
    pub(crate) fn took(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Ends the part of a busy node, which rests from now on. Returns true if there is no part any
    /// more.
    pub(crate) fn rest(&self) -> bool {
        // Release and acquire: the node that takes the last part sees all that the others did
        // before they took theirs away.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// True if there is no part. A node that sees that sees all that the others did.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
