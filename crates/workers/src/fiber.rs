//! [`Fiber`]: a stack that is left at a wait and entered again, by any worker; and the functions
//! that code on one calls.
//!
//! The worker that enters a fiber does not know where it is on its stack. So the fiber itself keeps
//! [`Current`] there, and says so to its thread whenever it was entered ([`suspend`]).

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::condvar::Waiter;
use crate::job::Job;
use crate::parked::Reason;
use crate::pool::Pool;

/// The reason why a fiber was left.
pub(crate) enum Left {
    /// Its job has rested or ended.
    Ended,
    /// It makes way for others, and goes on behind them.
    MadeWay,
    /// It waits.
    Waits(Arc<Waiter>),
}

/// A stack that is left at a wait and entered again.
pub(crate) struct Fiber {
    coroutine: Option<Coroutine<(), Left, (), DefaultStack>>,
    pub(crate) job: Arc<Job>,
}

// SAFETY: everything on its stack is a `Work`, which is `Send`, or what that has made. The rule of
// the crate is that nothing which belongs to a thread is held over a wait.
unsafe impl Send for Fiber {}

/// The fiber that runs on this thread; it is on that fiber's stack.
struct Current {
    yielder: NonNull<Yielder<(), Left>>,
    pool: Arc<Pool>,
    job: Arc<Job>,
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<Current>>> = const { Cell::new(None) };
    /// The number of the worker that this thread is.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

// Both are calls, never inlined: a function that is left on one thread and goes on at another may
// not keep the address of the first one's variable.
#[inline(never)]
fn current() -> Option<NonNull<Current>> {
    CURRENT.get()
}

#[inline(never)]
fn set_current(current: Option<NonNull<Current>>) {
    CURRENT.set(current);
}

impl Fiber {
    /// Makes the fiber of a job. It runs when it is entered.
    pub(crate) fn new(stack: DefaultStack, pool: Arc<Pool>, job: Arc<Job>) -> Fiber {
        let body = job.clone();
        let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
            let current = Current { yielder: NonNull::from(yielder), pool, job: body };
            set_current(Some(NonNull::from(&current)));
            current.job.run(&current.pool);
            set_current(None);
        });
        Fiber { coroutine: Some(coroutine), job }
    }

    /// Enters the fiber, until it is left.
    pub(crate) fn enter(&mut self) -> Left {
        let Some(coroutine) = &mut self.coroutine else { return Left::Ended };
        let result = coroutine.resume(());
        set_current(None);
        match result {
            CoroutineResult::Yield(left) => left,
            CoroutineResult::Return(()) => Left::Ended,
        }
    }

    /// Returns the stack of a fiber that has ended.
    pub(crate) fn into_stack(mut self) -> Option<DefaultStack> {
        match self.coroutine.take() {
            Some(coroutine) if coroutine.done() => Some(coroutine.into_stack()),
            unfinished => {
                self.coroutine = unfinished;
                None
            }
        }
    }
}

impl Drop for Fiber {
    /// A fiber that waits while its pool goes is left alone with all that it holds: its stack
    /// cannot be unwound through machine code.
    fn drop(&mut self) {
        if let Some(coroutine) = self.coroutine.take()
            && !coroutine.done()
        {
            std::mem::forget(coroutine);
        }
    }
}

/// Leaves the current fiber, if there is one; returns when it is entered again.
fn suspend(left: Left, reason: Reason) {
    let Some(here) = current() else { return };
    // SAFETY: it is on the stack of the fiber that runs, which calls this.
    let Current { yielder, pool, job } = unsafe { here.as_ref() };
    let since = Instant::now();
    pool.parked.enter(reason);
    // SAFETY: as above.
    unsafe { yielder.as_ref() }.suspend(left);
    pool.parked.leave(reason);
    job.add_parked(since);
    set_current(Some(here));
}

/// Parks the current fiber until the waiter is woken.
pub(crate) fn park(waiter: Arc<Waiter>, reason: Reason) {
    suspend(Left::Waits(waiter), reason);
}

/// Returns the nanoseconds for which the job of this fiber was parked so far, or blocked its
/// thread. 0 outside of a job.
pub fn parked_ns() -> u64 {
    // SAFETY: it is on the stack of the fiber that runs, which calls this.
    current().map_or(0, |here| unsafe { here.as_ref() }.job.parked_ns.load(Ordering::Relaxed))
}

/// Returns the number of the worker that runs this, below [`Workers::numbers_max`]; none on another
/// thread. No two workers of a pool have the same number at a time, and the next one with a number
/// sees everything that the one before has done.
///
/// [`Workers::numbers_max`]: crate::Workers::numbers_max
#[inline(never)]
pub fn worker_number() -> Option<usize> {
    WORKER.get()
}

/// Gives this thread the number of a worker.
pub(crate) fn set_worker_number(number: usize) {
    WORKER.set(Some(number));
}

/// Returns the pool of the current fiber.
pub(crate) fn pool() -> Option<Arc<Pool>> {
    // SAFETY: it is on the stack of the fiber that runs, which calls this.
    current().map(|here| unsafe { here.as_ref() }.pool.clone())
}

/// True if other jobs wait for a worker. False outside of a job.
pub fn is_pressed() -> bool {
    // SAFETY: it is on the stack of the fiber that runs, which calls this.
    current().is_some_and(|here| unsafe { here.as_ref() }.pool.is_pressed())
}

/// Lets other jobs run first, if some wait for a worker. Does nothing outside of a job.
pub fn make_way() {
    if is_pressed() {
        suspend(Left::MadeWay, Reason::Turn);
    }
}

/// Calls a function that blocks its thread. Meanwhile another worker runs the jobs of this one.
pub fn blocking<T>(call: impl FnOnce() -> T) -> T {
    struct Blocked(Arc<Pool>, Arc<Job>, Instant);
    impl Drop for Blocked {
        fn drop(&mut self) {
            self.0.unblock();
            self.1.add_parked(self.2);
        }
    }
    let _blocked = current().map(|here| {
        // SAFETY: it is on the stack of the fiber that runs, which calls this.
        let Current { pool, job, .. } = unsafe { here.as_ref() };
        pool.block();
        Blocked(pool.clone(), job.clone(), Instant::now())
    });
    call()
}
