//! Waiting for the peer: spin for as long as that has paid lately, then sleep on a futex.
//!
//! A sleeper must never miss its wake-up. The word it sleeps on is in shared memory:
//!
//! ```text
//! sleeper                                   waker
//! S1 word = 1                               W1 publish the position
//! S2 fence (SeqCst)                         W2 fence (SeqCst)
//! S3 ready? then word = 0, done             W3 word == 0? then done
//! S4 kernel: sleep if word is still 1       W4 word = 0, wake
//! ```
//!
//! The fences order S1 before S3 and W1 before W3, so not both sides can look too early: either S3
//! sees the position, or W3 sees the 1. If the waker then writes 0 before S4, the kernel refuses to
//! sleep.
//!
//! The peer can write the word as well. So a stop and the peer's death, which end a wait without
//! its help, have a second word, in private memory ([`Attention`]). The kernel waits for both
//! (`futex_waitv`). A peer that writes nonsense to the shared word only makes its own session wait
//! or spin.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{ClockId, futex};
use rustix::time::Timespec;

use crate::attention::Attention;
use crate::deadline::Deadline;

use super::word::{say_asleep, say_awake};

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// The condition may hold now: look again.
    Ready,
    /// A bit of the attention word is set.
    Attention,
    /// The deadline has passed.
    TimedOut,
}

/// Loads between two looks at the clock.
const SPINS_PER_LOOK: u32 = 32;
/// The shortest spin, so that a peer which turned fast is noticed.
const SPIN_MIN: Duration = Duration::from_micros(1);
/// The number of short sleeps of which one is preceded by a spin of full length, to learn whether
/// that pays.
const SLEEPS_PER_PROBE: u32 = 64;

/// Returns the longest spin unless the options say otherwise: 50 us, or none on a machine with one
/// core.
pub fn spin_max_default() -> Duration {
    static HAS_MANY_CORES: OnceLock<bool> = OnceLock::new();
    if *HAS_MANY_CORES.get_or_init(has_many_cores) { Duration::from_micros(50) } else { Duration::ZERO }
}

/// True if the peer can run while we spin.
fn has_many_cores() -> bool {
    // That counts the cores this thread may use; one pinned to a core still has peers on others.
    let usable = std::thread::available_parallelism().map_or(1, |count| count.get());
    // A list of ranges, as in `0-3,6`; one core is a single number.
    let online = || std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    usable > 1 || online().contains(['-', ','])
}

/// The time to spin before sleeping. It learns from each wait: twice as long when spinning paid, an
/// eighth less when it did not.
#[derive(Debug)]
pub(crate) struct Spin {
    budget: Duration,
    max: Duration,
    short_sleeps: u32,
    /// The begin of a rest.
    rests_since: Option<Instant>,
}

impl Spin {
    pub(crate) fn new(max: Duration) -> Spin {
        Spin { budget: max, max, short_sleeps: 0, rests_since: None }
    }

    /// Spins until `ready`, or until the budget is used up.
    #[inline]
    fn spin(&mut self, ready: &impl Fn() -> bool) -> bool {
        if self.max.is_zero() {
            return ready();
        }
        let mut started = None;
        loop {
            for _ in 0..SPINS_PER_LOOK {
                if ready() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let started = *started.get_or_insert_with(Instant::now);
            if started.elapsed() >= self.budget {
                return false;
            }
        }
    }

    /// Spins until `ready`, for as long as that has paid lately, while `goes_on`. True if it is
    /// ready.
    #[inline]
    pub(crate) fn linger(&mut self, ready: &impl Fn() -> bool, goes_on: &impl Fn() -> bool) -> bool {
        if !self.spin(&|| ready() || !goes_on()) || !ready() {
            return false;
        }
        if self.budget < self.max {
            self.learn_paid();
        }
        true
    }

    /// Notes that a rest begins.
    pub(crate) fn begin_rest(&mut self) {
        self.rests_since = Some(Instant::now());
    }

    /// Learns from a rest that has ended, if there was one.
    pub(crate) fn end_rest(&mut self) {
        if let Some(since) = self.rests_since.take() {
            self.learn_slept(since.elapsed());
        }
    }

    fn learn_paid(&mut self) {
        self.budget = (self.budget * 2).min(self.max);
    }

    fn learn_slept(&mut self, waited: Duration) {
        // Slowly: between two bursts of short messages there is often one long wait. A sleep that a
        // spin would have spared costs as much as many spins.
        self.budget = (self.budget - self.budget / 8).max(SPIN_MIN).min(self.max);
        if waited < self.max {
            self.short_sleeps += 1;
            if self.short_sleeps.is_multiple_of(SLEEPS_PER_PROBE) {
                self.budget = self.max;
            }
        }
    }
}

/// Waits until `ready`, until a bit of `attention` is set, or until the deadline. The peer wakes
/// this side by the word `sleeps`.
#[inline]
pub(crate) fn wait(
    spin: &mut Spin,
    attention: &Attention,
    sleeps: &AtomicU32,
    deadline: &mut Deadline,
    ready: impl Fn() -> bool,
) -> Waited {
    if spin.spin(&ready) {
        if spin.budget < spin.max {
            spin.learn_paid();
        }
        return Waited::Ready;
    }
    let started = Instant::now();
    let waited = sleep(attention, sleeps, deadline, ready);
    spin.learn_slept(started.elapsed());
    waited
}

#[cold]
fn sleep(
    attention: &Attention,
    sleeps: &AtomicU32,
    deadline: &mut Deadline,
    ready: impl Fn() -> bool,
) -> Waited {
    loop {
        say_asleep(sleeps);
        let waited = if ready() {
            Some(Waited::Ready)
        } else if attention.bits() != 0 {
            Some(Waited::Attention)
        } else if deadline.is_past() {
            Some(Waited::TimedOut)
        } else {
            None
        };
        if let Some(waited) = waited {
            say_awake(sleeps);
            return waited;
        }
        sleep_once(attention.word(), sleeps, deadline.instant());
    }
}

/// Longest sleep where the kernel cannot wait for two words (before Linux 5.16).
const SLEEP_WITHOUT_WAITV: Duration = Duration::from_millis(20);

/// Sleeps while `attention` is 0 and `sleeps` is 1. May return early.
fn sleep_once(attention: &AtomicU32, sleeps: &AtomicU32, deadline: Option<Instant>) {
    static WAITV_MISSING: AtomicBool = AtomicBool::new(false);
    if !WAITV_MISSING.load(Ordering::Relaxed) {
        let timeout = deadline.map(to_monotonic);
        let words = [
            futex_word(sleeps, 1, futex::WaitFlags::SIZE_U32),
            futex_word(attention, 0, futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE),
        ];
        let waited = futex::waitv(&words, futex::WaitvFlags::empty(), timeout.as_ref(), ClockId::Monotonic);
        if !matches!(waited, Err(Errno::NOSYS | Errno::PERM)) {
            return;
        }
        WAITV_MISSING.store(true, Ordering::Relaxed);
    }
    let left = deadline.map_or(SLEEP_WITHOUT_WAITV, |deadline| {
        deadline.saturating_duration_since(Instant::now()).min(SLEEP_WITHOUT_WAITV)
    });
    let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
    let _ = futex::wait(sleeps, futex::Flags::empty(), 1, Some(&left));
}

fn futex_word(word: &AtomicU32, expected: u32, flags: futex::WaitFlags) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = u64::from(expected);
    wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
    wait.flags = flags;
    wait
}

/// Returns the deadline on the kernel's monotonic clock, which `Instant` reads but does not show.
fn to_monotonic(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_nsec + i64::from(left.subsec_nanos());
    let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: now.tv_sec.saturating_add(seconds).saturating_add(nanoseconds / 1_000_000_000),
        tv_nsec: nanoseconds % 1_000_000_000,
    }
}
