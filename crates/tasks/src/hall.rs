//! The place where tasks wait for something to do: a lock, a condition, and the number of those
//! that wait.
//!
//! A change wakes one task, and a task that leaves something behind wakes the next. So nobody
//! sleeps while there is something to take, and a change costs at most one wake-up. The lock and
//! the condition come from the module around this one (`tests/loom.rs`).

use super::sync::{Condvar, Mutex, wait};

#[derive(Debug)]
struct Inside<S> {
    state: S,
    /// The number of tasks that wait.
    idle: usize,
    over: bool,
}

/// A state that tasks take from.
#[derive(Debug)]
pub(crate) struct Hall<S> {
    inside: Mutex<Inside<S>>,
    came: Condvar,
}

impl<S> Hall<S> {
    /// Makes the hall around a state.
    pub(crate) fn new(state: S) -> Hall<S> {
        Hall { inside: Mutex::new(Inside { state, idle: 0, over: false }), came: Condvar::new() }
    }

    /// Changes the state. A task is woken if the change returns true: there is something to take.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut S) -> (T, bool)) -> T {
        let mut inside = self.inside.lock();
        let (result, more) = change(&mut inside.state);
        let wakes = more && inside.idle > 0;
        drop(inside);
        if wakes {
            self.came.notify_one();
        }
        result
    }

    /// Waits until `take` returns something, with true if another task may find something, too.
    /// Returns nothing when all is over.
    pub(crate) fn next<T>(&self, mut take: impl FnMut(&mut S) -> Option<(T, bool)>) -> Option<T> {
        let mut inside = self.inside.lock();
        loop {
            if inside.over {
                return None;
            }
            if let Some((taken, more)) = take(&mut inside.state) {
                let wakes = more && inside.idle > 0;
                drop(inside);
                if wakes {
                    self.came.notify_one();
                }
                return Some(taken);
            }
            inside.idle += 1;
            inside = wait(&self.came, inside);
            inside.idle -= 1;
        }
    }

    /// Ends the waiting of all tasks, now and later.
    pub(crate) fn end(&self) {
        self.inside.lock().over = true;
        self.came.notify_all();
    }

    /// True if the hall has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.inside.lock().over
    }
}
