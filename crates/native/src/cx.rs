//! The services of the context that a native runs in.

use bifrost_runtime::abi::Ret;
use bifrost_runtime::cx::Cx as Raw;

use crate::actor::Task;

/// The context of a running native.
#[derive(Debug)]
pub struct Cx<'a> {
    pub(crate) raw: &'a mut Raw,
    /// The way in which the call must end, whatever the native returns: a loop's body has left, or
    /// the run was ended.
    pub(crate) ended: Option<Ret>,
    /// The task, in a method of an actor.
    pub(crate) task: Option<&'a Task>,
}

/// The next action of an iterator after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Flow {
    /// Go on.
    Next,
    /// Return: the loop was left. The iterator's own result does not matter any more.
    Leave,
}

impl<'a> Cx<'a> {
    pub(crate) fn new(raw: &'a mut Raw) -> Cx<'a> {
        Cx { raw, ended: None, task: None }
    }

    pub(crate) fn of_task(raw: &'a mut Raw, task: &'a Task) -> Cx<'a> {
        Cx { raw, ended: None, task: Some(task) }
    }

    /// Returns true if the native should return soon, because the run was ended or the stack is
    /// used up; its result does not matter then. Loops that may take long ask at each round.
    pub fn must_end(&mut self) -> bool {
        if self.ended.is_none() && self.raw.must_attend() {
            let attended = self.raw.attend();
            if !attended.returned() {
                self.ended = Some(attended);
            }
        }
        self.ended.is_some()
    }

    /// Returns the clock of `now_ms`, in milliseconds.
    pub fn now_ms(&self) -> i64 {
        self.raw.now_ms()
    }

    /// Returns the name of the role of the client for which this runs, as `caller` does; empty
    /// without one.
    pub fn caller(&self) -> &str {
        self.raw.caller()
    }

    /// Returns a number in `0..n` from the generator of `random`; 0 if `n` is.
    pub fn random(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.raw.random(n) }
    }

    /// Writes a line where `print` does.
    pub fn print(&mut self, line: &str) {
        self.raw.print(line);
    }

    /// Returns the most bytes that a result may have: more does not fit the heap.
    pub fn bytes_max(&self) -> usize {
        self.raw.limits().batch_heap_bytes
    }

    /// Returns the settings of this type that the registry was given
    /// ([`Registry::set`](crate::Registry::set)).
    pub fn settings<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.raw.image().natives().get::<T>().cloned()
    }
}
