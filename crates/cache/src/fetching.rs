//! [`Fetching`]: objects of a session that are on their way, and the pause in which there are none.
//!
//! Fetching may nest: code that migrates an object may fetch others. It may wait in between, and go
//! on at another thread, so this is a count and no lock.

use bifrost_workers::Condvar;
use parking_lot::{Mutex, MutexGuard};

/// The number of fetches under way in one context.
#[derive(Debug, Default)]
pub(crate) struct Fetching {
    under_way: Mutex<u32>,
    none: Condvar,
}

/// A fetch under way, until dropped.
pub(crate) struct UnderWay<'a>(&'a Fetching);

impl Fetching {
    /// Notes that a fetch begins. Waits for the end of a pause, which is short.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        *self.under_way.lock() += 1;
        UnderWay(self)
    }

    /// Waits until no fetch is under way. None begins before the result is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, u32> {
        let mut under_way = self.under_way.lock();
        while *under_way > 0 {
            self.none.wait(&mut under_way);
        }
        under_way
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.0.under_way.lock();
        *under_way -= 1;
        if *under_way == 0 {
            drop(under_way);
            self.0.none.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pause_waits_for_the_outermost_fetch() {
        let fetching = Arc::new(Fetching::default());
        let ended = Arc::new(AtomicBool::new(false));
        let outer = fetching.begin();
        let (there, seen) = (fetching.clone(), ended.clone());
        let pausing = std::thread::spawn(move || {
            let _pause = there.pause();
            assert!(seen.load(Ordering::Acquire));
        });
        drop(fetching.begin());
        std::thread::sleep(Duration::from_millis(10));
        ended.store(true, Ordering::Release);
        drop(outer);
        pausing.join().unwrap();
    }
}
