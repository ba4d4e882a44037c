//! [`Baton`]: the right to receive from the socket of a port, for one thread at a time.
//!
//! The thread of the port has it while nobody waits for a stream in a read. A read that waits takes
//! it, if it is free, receives for all, and lets go of it when its own bytes are there: so an
//! exchange needs no wake-up of another thread. While reads take it, the thread keeps away from it.
//!
//! ```text
//!            wanted                         free for NAP
//! thread has it ---> free <---> a read has it
//!      ^               |            |  for longer than HELD: the thread sleeps,
//!      +---------------+            |  and the read wakes it when it lets go
//! ```
//!
//! The right itself is the lock of the receiver. Locks and atomics come from the module around
//! this one, so that a model checker can put its own in their place (`tests/loom.rs`). It checks
//! that a read that waits for its bell gets a receiver, and that the thread does not sleep while
//! nobody has the baton.

use std::time::Duration;

use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError, fence,
};

/// The time after which the thread takes a baton that nobody has taken, and that of its looks.
const NAP: Duration = Duration::from_micros(500);
/// The time after which the thread waits to be told that a read has let go of the baton.
const HELD: Duration = Duration::from_millis(1);

/// The baton. Times are microseconds, and not 0.
#[derive(Debug)]
pub(crate) struct Baton {
    /// A read would have taken it, but the thread had it.
    is_wanted: AtomicBool,
    /// Since when a read has it; 0 if none has.
    held_since: AtomicU64,
    /// When the last holder has let go of it.
    freed_at: AtomicU64,
    /// Reads that wait for their bells, because another one has it.
    waiting: AtomicUsize,
    /// True while the thread sleeps until it is told.
    is_asleep: AtomicBool,
    told: Mutex<bool>,
    tell: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Baton {
    pub(crate) fn new() -> Baton {
        Baton {
            is_wanted: AtomicBool::new(false),
            held_since: AtomicU64::new(0),
            freed_at: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            is_asleep: AtomicBool::new(false),
            told: Mutex::new(false),
            tell: Condvar::new(),
        }
    }

    /// Wakes the thread, if it keeps away.
    pub(crate) fn tell(&self) {
        *lock(&self.told) = true;
        self.tell.notify_one();
    }

    /// Waits to be told, or for some time.
    fn nap(&self, time: Option<Duration>) {
        let mut told = lock(&self.told);
        if !*told {
            told = match time {
                Some(time) => self.tell.wait_timeout(told, time).unwrap_or_else(PoisonError::into_inner).0,
                None => self.tell.wait(told).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *told = false;
    }

    /// The thread has the baton, and takes turns until a read wants it. False once a turn was the
    /// last one.
    pub(crate) fn take_turns<R>(
        &self,
        receiver: &Mutex<R>,
        now: impl Fn() -> u64,
        mut turn: impl FnMut(&mut R) -> bool,
    ) -> bool {
        let mut receiver = lock(receiver);
        while !self.is_wanted.swap(false, Ordering::AcqRel) {
            if !turn(&mut receiver) {
                return false;
            }
        }
        self.freed_at.store(now(), Ordering::Relaxed);
        true
    }

    /// The thread waits until no read has the baton, nor has had it for a while, or all has ended.
    pub(crate) fn keep_away(&self, now: impl Fn() -> u64, is_ended: impl Fn() -> bool) {
        while !is_ended() {
            let (now, held) = (now(), self.held_since.load(Ordering::Acquire));
            let free = now.saturating_sub(self.freed_at.load(Ordering::Relaxed));
            if held == 0 {
                if free >= NAP.as_micros() as u64 || self.waiting.load(Ordering::Relaxed) > 0 {
                    return;
                }
                self.nap(Some(NAP));
            } else if now.saturating_sub(held) < HELD.as_micros() as u64 {
                self.nap(Some(NAP));
            } else {
                self.is_asleep.store(true, Ordering::Relaxed);
                // Pairs with the fence in `receive`: either this sees that it is free, or the read
                // that lets go of it sees that the thread sleeps.
                fence(Ordering::SeqCst);
                if self.held_since.load(Ordering::Relaxed) != 0 {
                    self.nap(None);
                }
                self.is_asleep.store(false, Ordering::Relaxed);
            }
        }
    }

    /// A read takes the baton, if it is free, and receives. False if it is not: then its bell
    /// rings.
    pub(crate) fn receive<R>(
        &self,
        receiver: &Mutex<R>,
        now: impl Fn() -> u64,
        receive: impl FnOnce(&mut R),
    ) -> bool {
        let Ok(mut receiver) = receiver.try_lock() else {
            self.is_wanted.store(true, Ordering::Release);
            return false;
        };
        self.held_since.store(now(), Ordering::Release);
        receive(&mut receiver);
        drop(receiver);
        self.freed_at.store(now(), Ordering::Relaxed);
        self.held_since.store(0, Ordering::Release);
        // Pairs with the fences in `keep_away` and `wait`.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) || self.waiting.load(Ordering::Relaxed) > 0 {
            self.tell();
        }
        true
    }

    /// A read waits for its bell, while another one has the baton, or the thread.
    pub(crate) fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `receive`: either this sees that nobody has the baton now, and
        // the thread takes it; or the read that lets go of it sees that this one waits.
        fence(Ordering::SeqCst);
        if self.held_since.load(Ordering::Relaxed) == 0 {
            self.tell();
        }
        let waited = wait();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        waited
    }
}
