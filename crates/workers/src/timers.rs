//! [`Timers`]: the times at which jobs are rung and waiters are woken. The thread of the ticker
//! fires them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::condvar::Waiter;
use crate::job::Job;

/// The place of a timer: its time, in nanoseconds since the pool began, and its number.
pub(crate) type Key = (u64, u64);

/// The time that no timer has.
pub(crate) const NEVER: u64 = u64::MAX;

/// The part that a timer concerns.
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    /// It is rung if its deadline has passed, and else has a timer again.
    Job(Arc<Job>),
    /// It is put into the queue again: there was no stack for it.
    NoStack(Arc<Job>),
    /// It is woken.
    Waiter(Arc<Waiter>),
}

#[derive(Debug)]
pub(crate) struct Timers {
    began: Instant,
    numbers: AtomicU64,
    set: Mutex<BTreeMap<Key, Timer>>,
    /// The time until which the ticker sleeps, under this lock.
    sleeps_until: Mutex<u64>,
    sooner: Condvar,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            began: Instant::now(),
            numbers: AtomicU64::new(0),
            set: Mutex::default(),
            sleeps_until: Mutex::new(0),
            sooner: Condvar::new(),
        }
    }

    /// Returns a time as that of a key.
    pub(crate) fn at(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.began).as_nanos()).unwrap_or(NEVER - 1)
    }

    pub(crate) fn add(&self, until: Instant, timer: Timer) -> Key {
        self.add_at(self.at(until), timer)
    }

    pub(crate) fn add_at(&self, at: u64, timer: Timer) -> Key {
        let key = (at, self.numbers.fetch_add(1, Ordering::Relaxed));
        let is_first = {
            let mut set = self.set.lock();
            set.insert(key, timer);
            set.first_key_value().is_some_and(|(first, _)| *first == key)
        };
        if is_first {
            let sleeps_until = self.sleeps_until.lock();
            if at < *sleeps_until {
                self.sooner.notify_one();
            }
        }
        key
    }

    pub(crate) fn remove(&self, key: Key) {
        self.set.lock().remove(&key);
    }

    /// Takes the timers whose time has come.
    pub(crate) fn take_due(&self) -> Vec<(Key, Timer)> {
        let now = self.at(Instant::now());
        let mut set = self.set.lock();
        match set.first_key_value() {
            Some((first, _)) if first.0 <= now => {
                let later = set.split_off(&(now + 1, 0));
                std::mem::replace(&mut *set, later).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sleeps until the next timer, at most for so long, or until [`Timers::wake`].
    pub(crate) fn sleep(&self, most: Option<Duration>, is_needless: impl FnOnce() -> bool) {
        let mut sleeps_until = self.sleeps_until.lock();
        let first = self.set.lock().first_key_value().map_or(NEVER, |(key, _)| key.0);
        let most = most.map_or(NEVER, |time| self.at(Instant::now() + time));
        let until = first.min(most);
        *sleeps_until = until;
        if !is_needless() {
            match until {
                NEVER => self.sooner.wait(&mut sleeps_until),
                _ => {
                    self.sooner.wait_until(&mut sleeps_until, self.began + Duration::from_nanos(until));
                }
            }
        }
        *sleeps_until = 0;
    }

    /// Ends the sleep of the ticker.
    pub(crate) fn wake(&self) {
        let _sleeps_until = self.sleeps_until.lock();
        self.sooner.notify_one();
    }
}
