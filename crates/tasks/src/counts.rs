//! The figures of an export: QLENGTH and NACTIVE as the paper counts them (004 section 6.2), ends,
//! and times.

use std::sync::atomic::{AtomicU64, Ordering};

/// The upper bounds of the classes of a histogram, in microseconds; one more class is above them.
pub const BOUNDS_US: [u64; 12] =
    [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000];

/// The end of an invocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It has returned.
    Done,
    /// It ended with an exception of its heading.
    Signalled,
    /// It ended with a failure.
    Failed,
    /// It was not queued: too many waited.
    Refused,
    /// Its time was over before it ran.
    Expired,
    /// Nobody wanted it any more before it ran.
    Cancelled,
}

impl End {
    /// All ends, in the order of their counts.
    pub const ALL: [End; 6] =
        [End::Done, End::Signalled, End::Failed, End::Refused, End::Expired, End::Cancelled];

    /// Returns the label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Signalled => "signalled",
            End::Failed => "failed",
            End::Refused => "refused",
            End::Expired => "expired",
            End::Cancelled => "cancelled",
        }
    }
}

/// Times in classes.
#[derive(Debug, Default)]
pub struct Histogram {
    classes: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Counts a time in microseconds.
    pub fn count(&self, us: u64) {
        let class = BOUNDS_US.partition_point(|bound| *bound < us);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the number of times in each class, the one above all bounds last.
    pub fn classes(&self) -> [u64; BOUNDS_US.len() + 1] {
        std::array::from_fn(|at| self.classes[at].load(Ordering::Relaxed))
    }

    /// Returns the sum of all times, in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }
}

/// The figures of an export, or of several that are counted together.
///
/// The averages of the paper are [`queue_length_sum`](Counts::queue_length_sum) by
/// [`queued`](Counts::queued), and [`active_sum`](Counts::active_sum) by [`taken`](Counts::taken).
#[derive(Debug, Default)]
pub struct Counts {
    queued: AtomicU64,
    queue_length_sum: AtomicU64,
    taken: AtomicU64,
    active_sum: AtomicU64,
    waiting: AtomicU64,
    active: AtomicU64,
    ends: [AtomicU64; End::ALL.len()],
    /// The times of waiting in the queue.
    pub waits: Histogram,
    /// The times of running.
    pub runs: Histogram,
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* pub fn $name(&self) -> u64 {
            self.$name.load(Ordering::Relaxed)
        })*
    };
}

impl Counts {
    readers! {
        /// Returns the number of invocations that were queued.
        queued;
        /// Returns the sum, over those, of the invocations of the export that waited already.
        queue_length_sum;
        /// Returns the number of invocations that tasks have taken to run.
        taken;
        /// Returns the sum, over those, of the invocations of the export that ran already.
        active_sum;
        /// Returns the number of invocations that wait now.
        waiting;
        /// Returns the number of invocations that run now.
        active;
    }

    /// Returns the number of invocations that ended so.
    pub fn ended(&self, end: End) -> u64 {
        self.ends[end as usize].load(Ordering::Relaxed)
    }

    /// Counts an end.
    pub fn end(&self, end: End) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an invocation that is queued behind so many.
    pub(crate) fn queue(&self, waiting: usize) {
        self.queue_length_sum.fetch_add(waiting as u64, Ordering::Relaxed);
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an invocation that is taken while so many run, after it has waited so long.
    pub(crate) fn take(&self, active: u32, waited_us: u64) {
        self.active_sum.fetch_add(active.into(), Ordering::Relaxed);
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.waits.count(waited_us);
    }

    /// Counts one that left the queue without having run.
    pub(crate) fn drop_waiting(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts one that has ended after so long.
    pub(crate) fn ran(&self, us: u64) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.runs.count(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_class_of_the_first_bound_that_is_not_less() {
        let times = Histogram::default();
        for us in [0, 10, 11, 10_000_000, 10_000_001] {
            times.count(us);
        }
        let mut wanted = [0; BOUNDS_US.len() + 1];
        (wanted[0], wanted[1], wanted[11], wanted[12]) = (2, 1, 1, 1);
        assert_eq!(times.classes(), wanted);
        assert_eq!(times.sum_us(), 20_000_022);
    }
}
