//! [`Fiber`]: a stack that is left at a wait and entered again, by any worker; and the functions
//! that code on one calls.
//!
//! The worker that enters a fiber does not know where it is on its stack. So the fiber itself keeps
//! [`Current`] there, and says so to its thread whenever it was entered ([`suspend`]).

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::condvar::Waiter;
use crate::job::Job;
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
}

thread_local! {
    static CURRENT: Cell<Option<NonNull<Current>>> = const { Cell::new(None) };
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
            let current = Current { yielder: NonNull::from(yielder), pool };
            set_current(Some(NonNull::from(&current)));
            body.run(&current.pool);
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

/// Leaves the current fiber; returns when it is entered again. False if there is none.
fn suspend(left: Left) -> bool {
    let Some(here) = current() else { return false };
    // SAFETY: both are on the stack of the fiber that runs, which calls this.
    unsafe { here.as_ref().yielder.as_ref() }.suspend(left);
    set_current(Some(here));
    true
}

/// Parks the current fiber until the waiter is woken.
pub(crate) fn park(waiter: Arc<Waiter>) {
    suspend(Left::Waits(waiter));
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
        suspend(Left::MadeWay);
    }
}

/// Calls a function that blocks its thread. Meanwhile another worker runs the jobs of this one.
pub fn blocking<T>(call: impl FnOnce() -> T) -> T {
    struct Blocked(Arc<Pool>);
    impl Drop for Blocked {
        fn drop(&mut self) {
            self.0.unblock();
        }
    }
    let _blocked = pool().map(|pool| {
        pool.block();
        Blocked(pool)
    });
    call()
}
