//! The word by which one side of a ring tells the other that it sleeps.
//!
//! The sleeper says so and looks once more; the side that publishes looks at the word afterwards.
//! The fences make sure that at least one of them sees the other. The atomics come from the module
//! around this one, so that a model checker can put its own in their place (`tests/loom.rs`).

use super::sync::{AtomicU32, Ordering, fence};

/// The side sleeps in the kernel, on the word itself.
const ASLEEP: u32 = 1;
/// No thread of the side waits; its bell is heard.
const RESTING: u32 = 2;

/// The means to wake the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    /// It sleeps on the word.
    Word,
    /// It hears its bell.
    Bell,
}

/// Says that this side sleeps. Its caller must then look once more, and say that it is awake if the
/// awaited data are there.
#[inline]
pub(crate) fn say_asleep(sleeps: &AtomicU32) {
    say(sleeps, ASLEEP);
}

/// Says that this side rests, as [`say_asleep`] does.
#[inline]
pub(crate) fn say_resting(sleeps: &AtomicU32) {
    say(sleeps, RESTING);
}

#[inline]
fn say(sleeps: &AtomicU32, how: u32) {
    sleeps.store(how, Ordering::Relaxed);
    // Pairs with the fence in `must_wake`.
    fence(Ordering::SeqCst);
}

/// Says that this side does not sleep.
#[inline]
pub(crate) fn say_awake(sleeps: &AtomicU32) {
    sleeps.store(0, Ordering::Relaxed);
}

/// The means by which the other side must be woken, if it must, after the caller published the
/// awaited data or space. The word then says that the other side does not sleep: if it has not
/// reached the kernel yet, the kernel refuses to let it sleep.
#[inline]
pub(crate) fn must_wake(sleeps: &AtomicU32) -> Option<Wake> {
    // Pairs with the fence in `say`: either we see the sleeper's 1 here, or the sleeper sees
    // the published position and does not sleep.
    fence(Ordering::SeqCst);
    if sleeps.load(Ordering::Relaxed) == 0 {
        return None;
    }
    match sleeps.swap(0, Ordering::Relaxed) {
        0 => None,
        RESTING => Some(Wake::Bell),
        _ => Some(Wake::Word),
    }
}
