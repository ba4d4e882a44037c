//! The bell of a connection: its client, a commit of others or the server rings, and its job runs.
//!
//! | event | rung by | the connection sees |
//! | --- | --- | --- |
//! | others have changed an object read | a commit, as the session's waker | [`Bell::take_rung`] |
//! | the client has sent its last byte | the job's events or the stream | [`Bell::has_sent_last`] |
//! | the client has hung up | the same | the function of [`Bell::on_hang_up`] is called |
//! | the stream is stopped | the table of connections | its next read or write says so |

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bifrost_repository::Watcher;
use bifrost_workers::Handle;

/// The bell of a connection.
#[derive(Default)]
pub(crate) struct Bell {
    handle: OnceLock<Handle>,
    rung: AtomicBool,
    sent_last: AtomicBool,
    hung_up: AtomicBool,
    on_hang_up: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bell")
            .field("rung", &self.rung)
            .field("hung_up", &self.hung_up)
            .finish_non_exhaustive()
    }
}

impl Bell {
    /// Enters the job that the bell rings.
    pub(crate) fn set_handle(&self, handle: Handle) {
        let _ = self.handle.set(handle);
    }

    /// Runs the job.
    pub(crate) fn ring(&self) {
        self.handle.get().into_iter().for_each(Handle::ring);
    }

    /// True if others have changed something since the last call.
    pub(crate) fn take_rung(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// Notes that the client sends nothing more, and whether it is gone altogether.
    pub(crate) fn note_end(&self, hung_up: bool) {
        self.sent_last.store(true, Ordering::Release);
        if hung_up && !self.hung_up.swap(true, Ordering::AcqRel) {
            self.on_hang_up.get().into_iter().for_each(|called| called());
        }
    }

    /// True if the client sends nothing more. Bytes that it sent before may not have been read.
    pub(crate) fn has_sent_last(&self) -> bool {
        self.sent_last.load(Ordering::Acquire)
    }

    /// Enters the function that is called when the client hangs up or dies, perhaps already now. It
    /// must not take long. The first one stays.
    ///
    /// A client that has shut down its sending half may still read, so that is no hang-up. Over TCP
    /// the end of a client looks the same until something is written to it.
    pub(crate) fn on_hang_up(&self, called: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_hang_up.set(Box::new(called));
        if self.hung_up.load(Ordering::Acquire) {
            self.on_hang_up.get().into_iter().for_each(|called| called());
        }
    }
}

impl Watcher for Bell {
    fn changed(&self) {
        self.rung.store(true, Ordering::Release);
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_hang_up_is_told_once_whenever_it_was() {
        for before in [false, true] {
            let (bell, told) = (Bell::default(), Arc::new(AtomicU32::new(0)));
            let count = told.clone();
            if before {
                bell.note_end(true);
            }
            bell.on_hang_up(move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            bell.note_end(false);
            bell.note_end(true);
            bell.note_end(true);
            assert_eq!(told.load(Ordering::Relaxed), 1, "{before}");
            assert!(bell.has_sent_last());
        }
    }

    #[test]
    fn a_change_is_seen_once() {
        let bell = Bell::default();
        assert!(!bell.take_rung());
        bell.changed();
        assert!(bell.take_rung() && !bell.take_rung());
    }
}
