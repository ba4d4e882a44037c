//! [`Baton`]: the right to receive from the socket of a port.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::port::{Port, lock};

/// The state of the baton: who may receive.
///
/// The thread of the port has it while nobody waits for a stream in a read. A read that waits takes
/// it, if it is free, receives for all, and lets go of it when its own bytes are there: so an
/// exchange needs no wake-up of another thread. While reads take it, the thread keeps away from it.
///
/// ```text
///            wanted                         free for NAP
/// thread has it ---> free <---> a read has it
///      ^               |            |  for longer than HELD: the thread sleeps,
///      +---------------+            |  and the read wakes it when it lets go
/// ```
#[derive(Debug, Default)]
pub(super) struct Baton {
    /// A read would have taken it, but the thread had it.
    pub(super) is_wanted: AtomicBool,
    /// Since when a read has it, in microseconds after the port's begin; 0 if none has.
    pub(super) held_since: AtomicU64,
    /// When the last read has let go of it.
    pub(super) freed_at: AtomicU64,
    /// Reads that wait for their bells, because another one has it.
    pub(super) waiting: AtomicUsize,
    /// True while the thread sleeps until it is told.
    pub(super) is_asleep: AtomicBool,
    pub(super) told: Mutex<bool>,
    pub(super) tell: Condvar,
}

/// The time after which the thread takes a baton that nobody has taken, and that of its looks.
const NAP: Duration = Duration::from_micros(500);
/// The time after which the thread waits to be told that a read has let go of the baton.
const HELD: Duration = Duration::from_millis(1);

impl Baton {
    pub(super) fn tell(&self) {
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
}

impl Port {
    pub(super) fn micros(&self) -> u64 {
        // Not 0, which says that nobody has it.
        (self.epoch.elapsed().as_micros() as u64).max(1)
    }

    /// The work of the port's thread.
    pub(super) fn run(self: &Arc<Port>) {
        loop {
            {
                let mut receiver = lock(&self.receiver);
                while !self.baton.is_wanted.swap(false, Ordering::AcqRel) {
                    receiver.turn(self, None, None);
                    if self.is_ended.load(Ordering::Acquire) && receiver.end(self) {
                        return;
                    }
                }
                self.baton.freed_at.store(self.micros(), Ordering::SeqCst);
            }
            self.keep_away();
        }
    }

    /// Waits until no read has the baton, nor has had it for a while.
    pub(super) fn keep_away(&self) {
        let baton = &self.baton;
        while !self.is_ended.load(Ordering::Acquire) {
            let (now, held) = (self.micros(), baton.held_since.load(Ordering::SeqCst));
            let free = now.saturating_sub(baton.freed_at.load(Ordering::SeqCst));
            if held == 0 {
                if free >= NAP.as_micros() as u64 || baton.waiting.load(Ordering::SeqCst) > 0 {
                    return;
                }
                baton.nap(Some(NAP));
            } else if now.saturating_sub(held) < HELD.as_micros() as u64 {
                baton.nap(Some(NAP));
            } else {
                baton.is_asleep.store(true, Ordering::SeqCst);
                // SeqCst on both sides: either this sees that it is free, or the read that lets go
                // of it sees that the thread sleeps.
                if baton.held_since.load(Ordering::SeqCst) != 0 {
                    baton.nap(None);
                }
                baton.is_asleep.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Receives for all until `is_done`, if the baton is free. False if it is not: then the bell
    /// rings.
    pub(super) fn receive_until(
        self: &Arc<Port>,
        bell: &OwnedFd,
        deadline: Option<Instant>,
        mut is_done: impl FnMut() -> bool,
    ) -> bool {
        let Ok(mut receiver) = self.receiver.try_lock() else {
            self.baton.is_wanted.store(true, Ordering::Release);
            return false;
        };
        let baton = &self.baton;
        baton.held_since.store(self.micros(), Ordering::SeqCst);
        while !is_done() {
            receiver.turn(self, deadline, Some(bell));
        }
        drop(receiver);
        baton.freed_at.store(self.micros(), Ordering::SeqCst);
        baton.held_since.store(0, Ordering::SeqCst);
        if baton.is_asleep.load(Ordering::SeqCst) || baton.waiting.load(Ordering::SeqCst) > 0 {
            baton.tell();
        }
        true
    }
}
