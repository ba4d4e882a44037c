//! Whether anything can still happen in this process: one counter of parts (the credit method of termination detection).
//!
//! A busy node has a part, and so has each piece of mail that is under way to one. A part is only made by who has one, so the counter is 0
//! only when all rest and nothing is under way, and stays so until somebody from outside adds to it. The atomics come from the module
//! around this one, so that a model checker can put its own in their place (`tests/loom.rs`).

use super::sync::{AtomicUsize, Ordering};

/// The number of parts.
#[derive(Debug)]
pub(crate) struct Active(AtomicUsize);

impl Active {
    /// So many busy nodes.
    pub(crate) fn new(busy: usize) -> Active {
        Active(AtomicUsize::new(busy))
    }

    /// So many pieces of mail will be under way: to be said before they are sent.
    pub(crate) fn add(&self, mail: usize) {
        self.0.fetch_add(mail, Ordering::AcqRel);
    }

    /// A busy node has taken mail, whose part ends.
    pub(crate) fn took(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// A busy node rests from now on. Whether nobody has a part any more.
    pub(crate) fn rest(&self) -> bool {
        // Release and acquire: who takes the last part sees what all the others did before they took theirs away.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// True if nobody has a part. Who sees that sees what all did.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}
