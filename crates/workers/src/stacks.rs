//! [`Stacks`]: the stacks of fibers, kept for the next one.
//!
//! A stack is a mapping with a page that nothing may touch at its end. It takes memory for the
//! pages that were touched. [`Stacks::trim`] gives back those of stacks that nobody uses.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::stack::{DefaultStack, Stack};
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};

/// Bytes at the upper end of a stack that [`Stacks::trim`] leaves: those that every run touches.
const WARM_BYTES: usize = 32 << 10;
const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Stacks {
    bytes: usize,
    /// The most that are kept while nobody uses them.
    kept: usize,
    free: Mutex<Free>,
    /// Stacks in use.
    used: AtomicUsize,
}

#[derive(Default)]
struct Free {
    stacks: Vec<DefaultStack>,
    /// How many of them, from the first on, were trimmed.
    trimmed: usize,
}

impl std::fmt::Debug for Free {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Free").field("stacks", &self.stacks.len()).finish()
    }
}

impl Stacks {
    pub(crate) fn new(bytes: usize, kept: usize) -> Stacks {
        Stacks { bytes, kept, free: Mutex::default(), used: AtomicUsize::new(0) }
    }

    /// Returns a stack.
    ///
    /// # Errors
    /// The system has no room for one more.
    pub(crate) fn take(&self) -> io::Result<DefaultStack> {
        let kept = {
            let mut free = self.free.lock();
            let stack = free.stacks.pop();
            free.trimmed = free.trimmed.min(free.stacks.len());
            stack
        };
        let stack = match kept {
            Some(stack) => stack,
            None => {
                let stack = DefaultStack::new(self.bytes)?;
                // Else the system may back a few bytes of stack with two megabytes. One without
                // such pages refuses, and has none.
                advise(&stack, 0, Advice::LinuxNoHugepage);
                stack
            }
        };
        self.used.fetch_add(1, Ordering::Relaxed);
        Ok(stack)
    }

    /// Takes a stack back.
    pub(crate) fn give(&self, stack: DefaultStack) {
        self.used.fetch_sub(1, Ordering::Relaxed);
        let mut free = self.free.lock();
        if free.stacks.len() < self.kept {
            free.stacks.push(stack);
        }
    }

    /// Gives the memory back that stacks hold which nobody uses.
    pub(crate) fn trim(&self) {
        let mut free = self.free.lock();
        for stack in &free.stacks[free.trimmed..] {
            advise(stack, WARM_BYTES, Advice::LinuxDontNeed);
        }
        free.trimmed = free.stacks.len();
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Tells the system about a stack, except for so many bytes at its upper end.
fn advise(stack: &DefaultStack, except: usize, advice: Advice) {
    let (limit, base) = (stack.limit().get(), stack.base().get());
    let start = limit.next_multiple_of(PAGE_BYTES);
    let end = base.saturating_sub(except) / PAGE_BYTES * PAGE_BYTES;
    if start >= end {
        return;
    }
    // SAFETY: the range is that of a mapping which the stack owns, and no fiber is on it: what it
    // holds is needed by nobody. A refusal changes nothing.
    let _ = unsafe { madvise(std::ptr::with_exposed_provenance_mut(start), end - start, advice) };
}
