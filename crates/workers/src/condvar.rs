//! [`Condvar`]: a condition variable on which fibers and threads wait.
//!
//! A fiber is woken before or after the worker has left it: [`Waiter::settle`] and [`Waiter::wake`]
//! agree under one lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::fiber::{self, Fiber};
use crate::parked::Reason;
use crate::pool::Pool;
use crate::timers::Timer;

/// A condition variable for fibers and threads, to be used with a [`Mutex`]. Without waiters a
/// notification costs a fence and a load.
#[derive(Debug, Default)]
pub struct Condvar {
    waiters: Mutex<VecDeque<Arc<Waiter>>>,
    /// Their number.
    count: AtomicUsize,
    /// The reason for which fibers wait here.
    reason: Reason,
}

/// A fiber or a thread that waits.
pub(crate) struct Waiter {
    state: Mutex<State>,
    /// The pool of the fiber, or else the thread.
    pool: Option<Arc<Pool>>,
    thread: Option<Thread>,
}

#[derive(Default)]
struct State {
    /// True if it was notified, false if its time is over.
    woken: Option<bool>,
    /// The fiber, once it was left.
    fiber: Option<Fiber>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("fiber", &self.pool.is_some()).finish()
    }
}

impl Waiter {
    /// A waiter for the code that calls this.
    fn new() -> Arc<Waiter> {
        let pool = fiber::pool();
        let thread = pool.is_none().then(std::thread::current);
        Arc::new(Waiter { state: Mutex::default(), pool, thread })
    }

    /// Keeps the fiber, which was just left, until it is woken. Returns it if it was woken already.
    pub(crate) fn settle(&self, fiber: Fiber) -> Option<Fiber> {
        let mut state = self.state.lock();
        if state.woken.is_some() {
            return Some(fiber);
        }
        state.fiber = Some(fiber);
        None
    }

    /// Wakes it, unless it was woken before; returns whether it was not.
    pub(crate) fn wake(&self, notified: bool) -> bool {
        let Some(fiber) = self.note(notified) else { return false };
        if let (Some(pool), Some(fiber)) = (&self.pool, fiber) {
            pool.push_fiber(fiber);
        }
        true
    }

    /// Notes that it is woken, and has its thread go on. Returns its fiber, which is to go on, if
    /// it was left already; nothing if it was woken before.
    fn note(&self, notified: bool) -> Option<Option<Fiber>> {
        let fiber = {
            let mut state = self.state.lock();
            if state.woken.is_some() {
                return None;
            }
            state.woken = Some(notified);
            state.fiber.take()
        };
        self.thread.iter().for_each(Thread::unpark);
        Some(fiber)
    }

    /// Waits until it is woken or the time is over. Returns true if it was notified.
    fn wait(self: &Arc<Waiter>, until: Option<Instant>, reason: Reason) -> bool {
        match &self.pool {
            Some(pool) => {
                let timer = until.map(|until| pool.timers.add(until, Timer::Waiter(self.clone())));
                fiber::park(self.clone(), reason);
                timer.into_iter().for_each(|timer| pool.timers.remove(timer));
            }
            None => self.wait_on_thread(until),
        }
        self.state.lock().woken == Some(true)
    }

    fn wait_on_thread(&self, until: Option<Instant>) {
        while self.state.lock().woken.is_none() {
            match until {
                None => std::thread::park(),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        self.wake(false);
                    } else {
                        std::thread::park_timeout(left);
                    }
                }
            }
        }
    }
}

impl Condvar {
    /// Makes one without waiters.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Makes one without waiters, whose fibers count as parked for this reason.
    pub fn parking_for(reason: Reason) -> Condvar {
        Condvar { reason, ..Condvar::default() }
    }

    /// Waits until it is notified. The lock is released meanwhile.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_for_notice(guard, None);
    }

    /// Waits until it is notified, or until then.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> TimedOut {
        TimedOut(!self.wait_for_notice(guard, Some(until)))
    }

    /// Waits until it is notified, or for so long.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> TimedOut {
        TimedOut(!self.wait_for_notice(guard, Instant::now().checked_add(time)))
    }

    fn wait_for_notice<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, until: Option<Instant>) -> bool {
        let waiter = Waiter::new();
        self.waiters.lock().push_back(waiter.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        let notified = MutexGuard::unlocked(guard, || waiter.wait(until, self.reason));
        if !notified {
            let mut waiters = self.waiters.lock();
            if let Some(place) = waiters.iter().position(|one| Arc::ptr_eq(one, &waiter)) {
                waiters.remove(place);
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
        notified
    }

    /// True if nobody waits.
    fn is_alone(&self) -> bool {
        // Who changed the condition holds the lock that waiters held when they were counted, or has
        // held it since; the fence is for those who notify without it.
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        if self.is_alone() {
            return;
        }
        let mut waiters = self.waiters.lock();
        while let Some(waiter) = waiters.pop_front() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            if waiter.wake(true) {
                return;
            }
        }
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        if self.is_alone() {
            return;
        }
        let all = {
            let mut waiters = self.waiters.lock();
            self.count.fetch_sub(waiters.len(), Ordering::Relaxed);
            std::mem::take(&mut *waiters)
        };
        // All fibers of a pool go into its queue at once, so that a worker is woken once.
        let mut fibers: Vec<Fiber> = Vec::new();
        let mut of: Option<Arc<Pool>> = None;
        for waiter in all {
            let Some(Some(fiber)) = waiter.note(true) else { continue };
            match (&of, &waiter.pool) {
                (Some(pool), Some(other)) if !Arc::ptr_eq(pool, other) => other.push_fiber(fiber),
                (_, pool) => {
                    of.clone_from(pool);
                    fibers.push(fiber);
                }
            }
        }
        if let Some(pool) = of {
            pool.push_fibers(fibers);
        }
    }
}

/// Sleeps for so long; a fiber holds no worker meanwhile.
pub fn sleep(time: Duration) {
    if let Some(until) = Instant::now().checked_add(time) {
        Waiter::new().wait(Some(until), Reason::Pause);
    }
}

/// The end of a wait with a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedOut(bool);

impl TimedOut {
    /// True if the time was over before a notification.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}
