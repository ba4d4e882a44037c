//! The private word of each stream that tells its user to stop or that the peer is gone.
//!
//! It lives in memory of this process only, so that no peer can clear it. It is a futex word, so
//! that a sleeper can wait for it and for the peer at once. Bits are only ever set.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

/// Somebody called `stop` on the stream.
pub(crate) const STOPPED: u32 = 1;
/// The peer closed the stream or died.
pub(crate) const CLOSED: u32 = 2;
/// Somebody called `stop_reading` on the stream.
pub(crate) const DEAF: u32 = 4;

#[derive(Default)]
pub(crate) struct Attention {
    word: AtomicU32,
    /// Called when a bit is set: the user of the stream may rest instead of sleeping.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Attention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Attention").field(&self.word).finish()
    }
}

impl Attention {
    /// Returns the bits set so far.
    pub(crate) fn bits(&self) -> u32 {
        // Acquire pairs with the read-modify-write in `raise`: a thread that sees CLOSED and then
        // loads the peer's positions sees all that the peer published.
        self.word.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.bits() & STOPPED != 0
    }

    /// True if no more is to be read: because of a stop of reading, or of all.
    pub(crate) fn is_deaf(&self) -> bool {
        self.bits() & (STOPPED | DEAF) != 0
    }

    /// Sets the bits and wakes the sleeper, if there is one. A sleeper that is just about to sleep
    /// does not: the kernel compares the word with 0 before it sleeps.
    pub(crate) fn raise(&self, bits: u32) {
        if self.word.fetch_or(bits, Ordering::AcqRel) & bits != bits {
            // Cannot fail: the word is mapped and aligned.
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, i32::MAX as u32);
            self.waker.get().into_iter().for_each(|waker| waker());
        }
    }

    /// Enters the function that is called whenever a bit is set. The first one stays.
    pub(crate) fn set_waker(&self, waker: Box<dyn Fn() + Send + Sync>) {
        let _ = self.waker.set(waker);
        if self.bits() != 0 {
            // Set before, perhaps.
            self.waker.get().into_iter().for_each(|waker| waker());
        }
    }

    /// Returns the word itself, for a sleeper.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }
}
