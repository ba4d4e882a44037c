//! The word by which one side of a ring tells the other that it sleeps.
//!
//! The sleeper says so and looks once more; the side that publishes looks at the word afterwards.
//! The fences make sure that at least one of them sees the other. The atomics come from the module
//! around this one, so that a model checker can put its own in their place (`tests/loom.rs`).

use super::sync::{AtomicU32, Ordering, fence};

/// Says that this side sleeps. Its caller must then look once more, and say that it is awake if the
/// awaited data are there.
#[inline]
pub(crate) fn say_asleep(sleeps: &AtomicU32) {
    sleeps.store(1, Ordering::Relaxed);
    // Pairs with the fence in `must_wake`.
    fence(Ordering::SeqCst);
}

/// Says that this side does not sleep.
#[inline]
pub(crate) fn say_awake(sleeps: &AtomicU32) {
    sleeps.store(0, Ordering::Relaxed);
}

/// True if the other side must be woken, after the caller published the awaited data or space. The
/// word then says that the other side does not sleep: if it has not reached the kernel yet, the
/// kernel refuses to let it sleep.
#[inline]
pub(crate) fn must_wake(sleeps: &AtomicU32) -> bool {
    // Pairs with the fence in `say_asleep`: either we see the sleeper's 1 here, or the sleeper sees
    // the published position and does not sleep.
    fence(Ordering::SeqCst);
    sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0
}
