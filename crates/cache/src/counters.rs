//! Counters of the caches of a server's sessions, for metrics and measurements.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: usize) {
        // Only counted: nothing else is read because of it.
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The upper bound of each class of [`Times`], in microseconds; the last class has no end.
pub const TIME_BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000,
];

/// The times that something took, counted in classes.
#[derive(Debug, Default)]
pub struct Histogram {
    classes: [Counter; TIME_BOUNDS_US.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub(crate) fn add(&self, nanoseconds: u64) {
        let class = TIME_BOUNDS_US.partition_point(|bound| bound * 1000 < nanoseconds);
        self.classes[class].add(1);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn get(&self) -> Times {
        Times {
            classes: std::array::from_fn(|class| self.classes[class].get()),
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
        }
    }
}

/// The values of a [`Histogram`] at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The number of times that were no longer than the bound of their class in [`TIME_BOUNDS_US`],
    /// and longer than that of the one before.
    pub classes: [u64; TIME_BOUNDS_US.len() + 1],
    /// The sum of all times.
    pub nanoseconds: u64,
}

/// Counters that all sessions of a server share.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) calls: Counter,
    pub(crate) asked: Counter,
    pub(crate) ahead: Counter,
    pub(crate) used: Counter,
    pub(crate) evicted: Counter,
    pub(crate) commits: Counter,
    pub(crate) conflicts: Counter,
    pub(crate) repeated: Counter,
    pub(crate) refused: Counter,
    pub(crate) failed: Counter,
    pub(crate) aborts: Counter,
    pub(crate) stale: Counter,
    pub(crate) fetching: Histogram,
    pub(crate) committing: Histogram,
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
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that were not, because others had changed objects that they had read.
    pub conflicts: u64,
    /// Transactions that were not, because their batch had been committed before.
    pub repeated: u64,
    /// Transactions that were not, because of the objects that they would have stored, or the
    /// number that they had read.
    pub refused: u64,
    /// Transactions that were not, because the repository failed.
    pub failed: u64,
    /// Transactions that had read or changed something, and were aborted by their clients, or
    /// because they were idle for too long.
    pub aborts: u64,
    /// Fetches after which a transaction could not go on, because others had changed objects that
    /// it had read.
    pub stale: u64,
    /// The times of the repository's calls that fetched.
    pub fetching: Times,
    /// The times of the repository's calls that committed, or did not.
    pub committing: Times,
}

impl Counters {
    /// Returns the values now.
    pub fn get(&self) -> Counted {
        Counted {
            calls: self.calls.get(),
            asked: self.asked.get(),
            ahead: self.ahead.get(),
            used: self.used.get(),
            evicted: self.evicted.get(),
            commits: self.commits.get(),
            conflicts: self.conflicts.get(),
            repeated: self.repeated.get(),
            refused: self.refused.get(),
            failed: self.failed.get(),
            aborts: self.aborts.get(),
            stale: self.stale.get(),
            fetching: self.fetching.get(),
            committing: self.committing.get(),
        }
    }
}
