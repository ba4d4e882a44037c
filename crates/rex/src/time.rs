//! [`Micros`]: the time, as the caller tells it.

use std::fmt;

/// A moment, in microseconds since a moment that the caller chose. The state machine has no clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// A moment that never comes.
    pub const NEVER: Micros = Micros(u64::MAX);

    /// Returns the moment so many microseconds later.
    #[must_use]
    pub fn after(self, microseconds: u64) -> Micros {
        Micros(self.0.saturating_add(microseconds))
    }

    /// Returns the microseconds since an earlier moment; 0 if it is later.
    pub fn since(self, earlier: Micros) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
