//! What the caches of a server's sessions have done, for metrics and measurements.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        // Only counted: nothing else is read because of it.
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }
}

/// Counters that all sessions of a server share.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) calls: Counter,
    pub(crate) asked: Counter,
    pub(crate) ahead: Counter,
    pub(crate) used: Counter,
    pub(crate) evicted: Counter,
}

/// The values of [`Counters`] at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls of the repository that fetched.
    pub calls: u64,
    /// Objects that were asked for and fetched by a call.
    pub asked: u64,
    /// Objects that came along with these.
    pub ahead: u64,
    /// Those of them that were asked for later.
    pub used: u64,
    /// Objects that became absent because there were too many bytes.
    pub evicted: u64,
}

impl Counters {
    /// The values now.
    pub fn get(&self) -> Counted {
        let get = |counter: &Counter| counter.0.load(Ordering::Relaxed);
        Counted {
            calls: get(&self.calls),
            asked: get(&self.asked),
            ahead: get(&self.ahead),
            used: get(&self.used),
            evicted: get(&self.evicted),
        }
    }
}
