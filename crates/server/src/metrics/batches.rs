//! [`Batches`]: the account of the batches of all sessions.
//!
//! Each worker has a [`Shard`], which it alone writes: an addition is a load and a store, and no
//! worker waits for another one's cache line. Readers add the shards up.
//!
//! A shard has counters since the start, and the [`Sums`] of the batches of the last minute, in a
//! ring with a bucket for each second. A bucket has a sequence number, which is odd while its
//! worker writes; a reader reads it again if the number was odd or has changed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use bifrost_workers::worker_number;

use super::fit::Sums;

/// The media of clients, by their names in metrics. The last one stands for all that have no name.
pub const MEDIA: [&str; 8] = ["shm", "unix", "tcp", "tls", "ws", "wss", "quic", "other"];

/// The classes of the times of batches: the first one goes to 1.024 us, each next one to four times
/// as much, and the last one has no end.
pub const BATCH_CLASSES: usize = 14;
/// The binary logarithm of the bound of the first class, in nanoseconds.
const FIRST_CLASS: u32 = 10;

/// The seconds over which costs are fitted.
const SECONDS: u64 = 60;
/// The buckets of the ring.
const BUCKETS: usize = 64;
/// Reads of a bucket that its worker writes, after which it is left out.
const READS_MAX: u32 = 10_000;

/// The reason why a session rests: it has no fiber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Its client has said nothing more.
    Input,
    /// Its client has not read the answers.
    Output,
    /// It waits for commits of others: `wait`.
    Wait,
    /// It waits before it runs a batch again that was in conflict.
    Retry,
}

impl Rest {
    /// All reasons.
    pub const ALL: [Rest; 4] = [Rest::Input, Rest::Output, Rest::Wait, Rest::Retry];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Rest::Input => "input",
            Rest::Output => "output",
            Rest::Wait => "wait",
            Rest::Retry => "retry",
        }
    }
}

/// The counters of batches that were answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answered {
    pub crossings: u64,
    pub calls: u64,
    pub structures: u64,
    pub failures: u64,
    pub fuel: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// The times of a batch, or of some that were answered together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timed {
    /// The number of batches.
    pub batches: u64,
    /// Their calls.
    pub calls: u64,
    /// The number of times that they count, since others like them were not timed.
    pub weight: u64,
    /// The time from its first byte until its answer was written.
    pub whole_ns: u64,
    /// The part of it in which the session ran.
    pub ran_ns: u64,
    /// The part of it in which its fiber was parked or blocked.
    pub parked_ns: u64,
    /// The time before it, in which the session waited for its first byte.
    pub input_ns: u64,
}

/// The counts of all batches at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchesMeasured {
    /// Batches answered: pairs of domain crossings. By medium, as [`MEDIA`].
    pub crossings: [u64; MEDIA.len()],
    /// Calls of clients, by medium.
    pub calls: [u64; MEDIA.len()],
    /// Control structures run.
    pub structures: u64,
    /// Exceptions and refusals.
    pub failures: u64,
    /// Fuel used.
    pub fuel: u64,
    /// Bytes of batches.
    pub received_bytes: u64,
    /// Bytes of answers.
    pub sent_bytes: u64,
    /// The times of batches, in classes.
    pub classes: [u64; BATCH_CLASSES],
    /// The sum of the times of batches, in nanoseconds.
    pub whole_ns: u64,
    /// The part in which the sessions ran.
    pub ran_ns: u64,
    /// The part in which their fibers were parked or blocked.
    pub parked_ns: u64,
    /// The time in which sessions waited for the next batch.
    pub input_ns: u64,
    /// Sessions that rest, in the order of [`Rest::ALL`].
    pub resting: [u64; Rest::ALL.len()],
    /// The batches of the last minute.
    pub minute: Sums,
}

/// The account of all batches of a server.
#[derive(Debug)]
pub(crate) struct Batches {
    started: Instant,
    /// By the number of the worker.
    shards: Box<[OnceLock<Box<Shard>>]>,
}

/// The account of the batches of one worker.
#[derive(Debug, Default)]
struct Shard {
    crossings: [Count; MEDIA.len()],
    calls: [Count; MEDIA.len()],
    structures: Count,
    failures: Count,
    fuel: Count,
    received_bytes: Count,
    sent_bytes: Count,
    classes: [Count; BATCH_CLASSES],
    whole_ns: Count,
    ran_ns: Count,
    parked_ns: Count,
    input_ns: Count,
    /// Rests that this worker has begun, less those that it has ended: it may be below 0.
    resting: [Count; Rest::ALL.len()],
    ring: Ring,
}

/// A number that one thread writes.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    #[inline]
    fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    #[inline]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sums of the batches of the last seconds.
#[derive(Debug)]
struct Ring([Bucket; BUCKETS]);

impl Default for Ring {
    fn default() -> Ring {
        Ring(std::array::from_fn(|_| Bucket::default()))
    }
}

/// The sums of a second. One thread writes them.
#[derive(Debug, Default)]
struct Bucket {
    /// Odd while the bucket is written.
    sequence: AtomicU64,
    second: AtomicU64,
    batches: AtomicU64,
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    /// Low and high half.
    calls_squared: [AtomicU64; 2],
    calls_by_time: [AtomicU64; 2],
}

#[inline]
fn wide(halves: &[AtomicU64; 2]) -> u128 {
    let [low, high] = halves.each_ref().map(|half| half.load(Ordering::Relaxed));
    u128::from(high) << 64 | u128::from(low)
}

#[inline]
fn set_wide(halves: &[AtomicU64; 2], value: u128) {
    halves[0].store(value as u64, Ordering::Relaxed);
    halves[1].store((value >> 64) as u64, Ordering::Relaxed);
}

impl Bucket {
    #[inline]
    fn sums(&self) -> Sums {
        Sums {
            batches: self.batches.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
            calls_squared: wide(&self.calls_squared),
            calls_by_time: wide(&self.calls_by_time),
        }
    }

    #[inline]
    fn add(&self, second: u64, more: Sums) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        // Pairs with the fence in `read`: who sees a new sum sees the odd number.
        fence(Ordering::Release);
        let before = match self.second.load(Ordering::Relaxed) == second {
            true => self.sums(),
            false => Sums::default(),
        };
        let sums = before.with(more);
        self.second.store(second, Ordering::Relaxed);
        self.batches.store(sums.batches, Ordering::Relaxed);
        self.calls.store(sums.calls, Ordering::Relaxed);
        self.nanoseconds.store(sums.nanoseconds, Ordering::Relaxed);
        set_wide(&self.calls_squared, sums.calls_squared);
        set_wide(&self.calls_by_time, sums.calls_by_time);
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Returns the sums of a second at or after `first`; none if the bucket has another one.
    fn read(&self, first: u64, last: u64) -> Sums {
        for _ in 0..READS_MAX {
            let sequence = self.sequence.load(Ordering::Acquire);
            let (second, sums) = (self.second.load(Ordering::Relaxed), self.sums());
            // Pairs with the fence in `add`.
            fence(Ordering::Acquire);
            if sequence.is_multiple_of(2) && sequence == self.sequence.load(Ordering::Relaxed) {
                return if (first..=last).contains(&second) { sums } else { Sums::default() };
            }
            std::hint::spin_loop();
        }
        Sums::default()
    }
}

impl Ring {
    #[inline]
    fn add(&self, second: u64, sums: Sums) {
        self.0[second as usize % BUCKETS].add(second, sums);
    }

    /// Returns the sums of the last minute.
    fn read(&self, second: u64) -> Sums {
        let first = second.saturating_sub(SECONDS - 1);
        self.0.iter().map(|bucket| bucket.read(first, second)).fold(Sums::default(), Sums::with)
    }
}

/// Returns the class of the time of a batch.
#[inline]
fn class(nanoseconds: u64) -> usize {
    let bits = u64::BITS - nanoseconds.saturating_sub(1).leading_zeros();
    (bits.saturating_sub(FIRST_CLASS).div_ceil(2) as usize).min(BATCH_CLASSES - 1)
}

/// Returns the bounds of all classes but the last one, in nanoseconds.
pub(crate) fn class_bounds() -> [u64; BATCH_CLASSES - 1] {
    std::array::from_fn(|class| 1 << (FIRST_CLASS as usize + 2 * class))
}

impl Batches {
    /// Makes an account for workers with numbers below `workers`.
    pub(crate) fn new(workers: usize) -> Batches {
        Batches { started: Instant::now(), shards: (0..workers).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the nanoseconds from the start to a moment, not 0.
    #[inline]
    pub(crate) fn since_start(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.started);
        (since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())).max(1)
    }

    /// The shard of the worker that runs this. Other threads have none: only workers run sessions.
    #[inline]
    fn shard(&self) -> Option<&Shard> {
        let shard = self.shards.get(worker_number()?)?;
        Some(shard.get_or_init(Box::default))
    }

    /// Adds batches of a client over a medium ([`MEDIA`]).
    #[inline]
    pub(crate) fn count(&self, medium: usize, one: &Answered) {
        let Some(shard) = self.shard() else { return };
        shard.crossings[medium].add(one.crossings);
        shard.calls[medium].add(one.calls);
        shard.structures.add(one.structures);
        shard.failures.add(one.failures);
        shard.fuel.add(one.fuel);
        shard.received_bytes.add(one.received_bytes);
        shard.sent_bytes.add(one.sent_bytes);
    }

    /// Adds the times of batches that were answered at a moment.
    #[inline]
    pub(crate) fn time(&self, now_ns: u64, one: &Timed) {
        let Some(shard) = self.shard() else { return };
        let weight = one.weight;
        shard.whole_ns.add(weight * one.whole_ns);
        shard.ran_ns.add(weight * one.ran_ns);
        shard.parked_ns.add(weight * one.parked_ns);
        shard.input_ns.add(weight * one.input_ns);
        // The times of several batches that were answered together cannot be told apart.
        if one.batches == 1 {
            shard.classes[class(one.whole_ns)].add(weight);
            shard.ring.add(now_ns / 1_000_000_000, Sums::of(one.calls, one.ran_ns).times(weight));
        } else {
            shard.classes[class(one.whole_ns / one.batches.max(1))].add(weight * one.batches);
        }
    }

    /// Notes that a session begins to rest.
    #[inline]
    pub(crate) fn begin_rest(&self, why: Rest) {
        if let Some(shard) = self.shard() {
            shard.resting[why as usize].add(1);
        }
    }

    /// Notes that a session rests no more.
    #[inline]
    pub(crate) fn end_rest(&self, why: Rest) {
        if let Some(shard) = self.shard() {
            shard.resting[why as usize].add(u64::MAX);
        }
    }

    /// Returns the counts of all batches.
    pub(crate) fn measured(&self) -> BatchesMeasured {
        let second = self.since_start(Instant::now()) / 1_000_000_000;
        let mut all = BatchesMeasured::default();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            fn add<const N: usize>(to: &mut [u64; N], counts: &[Count; N]) {
                to.iter_mut().zip(counts).for_each(|(to, count)| *to = to.wrapping_add(count.get()));
            }
            add(&mut all.crossings, &shard.crossings);
            add(&mut all.calls, &shard.calls);
            add(&mut all.classes, &shard.classes);
            add(&mut all.resting, &shard.resting);
            for (to, count) in [
                (&mut all.structures, &shard.structures),
                (&mut all.failures, &shard.failures),
                (&mut all.fuel, &shard.fuel),
                (&mut all.received_bytes, &shard.received_bytes),
                (&mut all.sent_bytes, &shard.sent_bytes),
                (&mut all.whole_ns, &shard.whole_ns),
                (&mut all.ran_ns, &shard.ran_ns),
                (&mut all.parked_ns, &shard.parked_ns),
                (&mut all.input_ns, &shard.input_ns),
            ] {
                *to = to.wrapping_add(count.get());
            }
            all.minute = all.minute.with(shard.ring.read(second));
        }
        // The shards are not read at one moment: a rest may end in one before its begin was read.
        all.resting.iter_mut().for_each(|rests| *rests = (*rests as i64).max(0) as u64);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn classes_have_bounds() {
        let bounds = class_bounds();
        assert_eq!((bounds[0], bounds[1], bounds[12]), (1024, 4096, 1 << 34));
        for (number, bound) in bounds.into_iter().enumerate() {
            assert_eq!((class(bound), class(bound + 1)), (number, number + 1));
        }
        assert_eq!((class(0), class(u64::MAX)), (0, BATCH_CLASSES - 1));
    }

    #[test]
    fn a_ring_has_a_minute() {
        let ring = Ring::default();
        for second in 0..200 {
            ring.add(second, Sums::of(second % 7, 1000 + 10 * (second % 7)));
        }
        let minute = ring.read(199);
        assert_eq!(minute.batches, 60);
        let fit = minute.fit().unwrap();
        assert_eq!((fit.call_ns, fit.crossing_ns), (10.0, Some(1000.0)));
        // A minute of silence later there is nothing.
        assert_eq!((ring.read(258).batches, ring.read(259)), (1, Sums::default()));
        assert_eq!(ring.read(400).fit(), None);
    }

    #[test]
    fn readers_see_whole_batches() {
        let (ring, ended) = (Ring::default(), AtomicBool::new(false));
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut batch = 0_u64;
                while !ended.load(Ordering::Acquire) {
                    ring.add(batch / 1000 % 30, Sums::of(batch % 100, 500 + 20 * (batch % 100)));
                    batch += 1;
                }
                batch
            });
            let mut read = 0;
            while read < 2000 {
                // Any torn sum would give other costs.
                if let Some(fit) = ring.read(29).fit() {
                    assert!((fit.call_ns - 20.0).abs() < 1e-6, "{fit:?}");
                    assert!((fit.crossing_ns.unwrap() - 500.0).abs() < 1e-3, "{fit:?}");
                    read += 1;
                }
            }
            ended.store(true, Ordering::Release);
            writer.join().unwrap()
        });
        let read = ring.read(29);
        assert!(read.batches > 0 && read.batches <= written, "{read:?}");
    }
}
