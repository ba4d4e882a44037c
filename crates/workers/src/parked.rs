//! [`Reason`]: the event that a parked fiber waits for, as metrics name it.
//!
//! The code that waits names it ([`Condvar::parking_for`](crate::Condvar::parking_for)). [`Parked`]
//! counts the fibers of a pool that are parked, by reason.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The reason why a fiber is parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reason {
    /// A commit waits for others of its group, or for its turn.
    Commit,
    /// An answer of an actor is awaited.
    Actors,
    /// Memory that others give back is awaited.
    Memory,
    /// The fiber sleeps for a time.
    Pause,
    /// It has made way for others.
    Turn,
    /// Another reason, which has no name.
    #[default]
    Other,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 6] =
        [Reason::Commit, Reason::Actors, Reason::Memory, Reason::Pause, Reason::Turn, Reason::Other];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Commit => "commit",
            Reason::Actors => "actors",
            Reason::Memory => "memory",
            Reason::Pause => "pause",
            Reason::Turn => "turn",
            Reason::Other => "other",
        }
    }
}

/// The number of parked fibers by reason.
#[derive(Debug, Default)]
pub(crate) struct Parked([AtomicUsize; Reason::ALL.len()]);

impl Parked {
    /// Counts a fiber that is parked.
    pub(crate) fn enter(&self, reason: Reason) {
        self.0[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fiber that goes on.
    pub(crate) fn leave(&self, reason: Reason) {
        self.0[reason as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the numbers, in the order of [`Reason::ALL`].
    pub(crate) fn get(&self) -> [usize; Reason::ALL.len()] {
        std::array::from_fn(|reason| self.0[reason].load(Ordering::Relaxed))
    }
}
