//! [`Stacks`]: the stacks of fibers, kept for the next one.
//!
//! A stack is a mapping with a page that nothing may touch at its end. It takes memory for the
//! pages that were touched. Many fibers may wait at once and end at once, again and again, and to
//! map a stack costs more than most runs. So nearly all that come back are kept for a while.
//! [`Stacks::trim`] gives back those that nobody has used since it was called before.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::stack::{DefaultStack, Stack};
use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};

/// The most stacks that are kept until the next [`Stacks::trim`].
const FREE_MAX: usize = 1024;
/// Bytes at the upper end of a stack that [`Stacks::trim`] leaves: those that every run touches.
const WARM_BYTES: usize = 32 << 10;
const PAGE_BYTES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Stacks {
    bytes: usize,
    /// The most that are kept for good.
    kept: usize,
    /// The most in use.
    most: usize,
    free: Mutex<Free>,
    /// Stacks in use.
    used: AtomicUsize,
}

#[derive(Default)]
struct Free {
    /// The one that came back last is used next.
    stacks: Vec<DefaultStack>,
    /// How many of them, from the first on, were trimmed.
    trimmed: usize,
    /// The fewest since the last trim: so many, from the first on, nobody has used since.
    least: usize,
}

impl std::fmt::Debug for Free {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Free").field("stacks", &self.stacks.len()).finish()
    }
}

impl Stacks {
    pub(crate) fn new(bytes: usize, kept: usize, most: usize) -> Stacks {
        Stacks { bytes, kept, most, free: Mutex::default(), used: AtomicUsize::new(0) }
    }

    /// Returns a stack.
    ///
    /// # Errors
    /// The system has no room for one more, or as many are in use as may be.
    pub(crate) fn take(&self) -> io::Result<DefaultStack> {
        if self.used.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.used.fetch_sub(1, Ordering::Relaxed);
            let text = format!("{} stacks are in use, and that is the limit (stacks_max)", self.most);
            return Err(io::Error::other(text));
        }
        self.take_one().inspect_err(|_| {
            self.used.fetch_sub(1, Ordering::Relaxed);
        })
    }

    fn take_one(&self) -> io::Result<DefaultStack> {
        let kept = {
            let mut free = self.free.lock();
            let stack = free.stacks.pop();
            free.trimmed = free.trimmed.min(free.stacks.len());
            free.least = free.least.min(free.stacks.len());
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
        Ok(stack)
    }

    /// Takes a stack back.
    pub(crate) fn give(&self, stack: DefaultStack) {
        self.used.fetch_sub(1, Ordering::Relaxed);
        let mut free = self.free.lock();
        if free.stacks.len() < FREE_MAX {
            free.stacks.push(stack);
            return;
        }
        drop(free);
        // It is unmapped here, not under the lock.
        drop(stack);
    }

    /// Gives back the stacks that nobody has used since the last call, but for a few, whose memory
    /// is given back. If it is `calm`, that is done with all that nobody uses now.
    pub(crate) fn trim(&self, calm: bool) {
        let mut free = self.free.lock();
        let unused = if calm { free.stacks.len() } else { free.least };
        let gone: Vec<DefaultStack> = free.stacks.drain(..unused.saturating_sub(self.kept)).collect();
        let (trimmed, unused) = (free.trimmed.saturating_sub(gone.len()), unused - gone.len());
        for stack in free.stacks.get(trimmed..unused).unwrap_or_default() {
            advise(stack, WARM_BYTES, Advice::LinuxDontNeed);
        }
        free.trimmed = trimmed.max(unused);
        free.least = free.stacks.len();
        if calm {
            free.stacks.shrink_to(self.kept);
        }
        drop(free);
        drop(gone);
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: usize = 4;

    fn stacks() -> Stacks {
        Stacks::new(64 << 10, KEPT, usize::MAX)
    }

    /// Uses so many stacks at once.
    fn use_at_once(stacks: &Stacks, count: usize) {
        let taken: Vec<DefaultStack> = (0..count).map(|_| stacks.take().unwrap()).collect();
        assert_eq!(stacks.used(), count);
        taken.into_iter().for_each(|stack| stacks.give(stack));
        assert_eq!(stacks.used(), 0);
    }

    fn free(stacks: &Stacks) -> usize {
        stacks.free.lock().stacks.len()
    }

    #[test]
    fn stacks_that_are_used_again_and_again_are_not_mapped_again() {
        let stacks = stacks();
        use_at_once(&stacks, 100);
        let addresses = |stacks: &Stacks| -> Vec<usize> {
            let mut all: Vec<usize> =
                stacks.free.lock().stacks.iter().map(|stack| stack.base().get()).collect();
            all.sort_unstable();
            all
        };
        let before = addresses(&stacks);
        for _ in 0..3 {
            stacks.trim(false);
            use_at_once(&stacks, 100);
        }
        assert_eq!(addresses(&stacks), before);
    }

    #[test]
    fn stacks_that_nobody_uses_are_given_back() {
        let stacks = stacks();
        use_at_once(&stacks, 100);
        stacks.trim(false);
        assert_eq!(free(&stacks), 100, "all were used since the last trim");
        use_at_once(&stacks, 30);
        stacks.trim(false);
        assert_eq!(free(&stacks), 30 + KEPT);
        stacks.trim(false);
        assert_eq!(free(&stacks), KEPT);
        use_at_once(&stacks, 50);
        stacks.trim(true);
        assert_eq!(free(&stacks), KEPT);
        assert_eq!(stacks.free.lock().trimmed, KEPT);
        use_at_once(&stacks, FREE_MAX + 10);
        assert_eq!(free(&stacks), FREE_MAX);
    }
}
