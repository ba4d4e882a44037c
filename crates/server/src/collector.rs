//! The collector of a store that only this process has: it frees unreachable objects while sessions
//! go on.
//!
//! A database that servers share is collected when its owner says so (`bifrost store gc`). The
//! collector looks at other stores now and then. It collects when about as much has been added as
//! lived after the last collection, and sooner when there is little room left. So its cost follows
//! the commits. It does not know how much lives in a folder when that is opened, and takes all for
//! living.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_repository::{Collected, Error, OBJECT_BYTES, Place, Repository};

/// The pause between two looks of the collector.
const LOOK: Duration = Duration::from_millis(50);
/// The longest rest after a collection that has freed nothing; each such rest is twice as long as
/// the one before.
const REST_MAX: Duration = Duration::from_secs(10);
/// The shortest rest between collections, as a multiple of the time that one took.
const REST_TIMES: u32 = 9;
/// The least number of bytes added before a collection, if there is room: in memory, and in a
/// folder, where all of it must be read.
const ADDED_MIN: u64 = 8 << 20;
const ADDED_MIN_FOLDER: u64 = 64 << 20;
/// When less than this part of the whole is free, it is time.
const FREE_PART: u64 = 32;

/// The conditions for a collection of a store.
#[derive(Clone, Copy)]
struct Due {
    /// The bytes that were left after the last collection.
    live: u64,
    added_min: u64,
    bytes_max: u64,
}

/// The collector of a store. It ends when this is dropped, which waits for it.
#[derive(Debug)]
pub(crate) struct Collector {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of it was reported by its thread.
            let _ = thread.join();
        }
    }
}

/// Starts the collector of a store, if it is one that only this process has.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start(repository: &Arc<dyn Repository>, place: &Place) -> std::io::Result<Option<Collector>> {
    let due = match place {
        Place::Memory { bytes_max } => Due { live: 0, added_min: ADDED_MIN, bytes_max: *bytes_max },
        Place::Folder(_) => {
            let live = repository.gauges().used_bytes().unwrap_or(0);
            Due { live, added_min: ADDED_MIN_FOLDER, bytes_max: u64::MAX }
        }
        Place::Database(_) => return Ok(None),
    };
    let repository = repository.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let work = move || run(&*repository, due, &seen);
    let thread = Some(std::thread::Builder::new().name("bifrost-gc".to_owned()).spawn(work)?);
    Ok(Some(Collector { stop, thread }))
}

fn run(repository: &dyn Repository, mut due: Due, stop: &AtomicBool) {
    let mut rest = LOOK;
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        match look(repository, &mut due, stop) {
            Ok(None) => rest = LOOK,
            Ok(Some(collected)) => {
                // Sessions may let go of something later, so it is tried again, if seldom.
                rest = if collected.freed == 0 { (rest * 2).min(REST_MAX) } else { LOOK };
                rest = rest.max(start.elapsed() * REST_TIMES);
            }
            Err(Error::Stopped) => return,
            Err(error) => {
                tracing::warn!(%error, "store.not_collected");
                rest = REST_MAX;
            }
        }
        std::thread::park_timeout(rest);
    }
}

/// Collects if it is time.
fn look(repository: &dyn Repository, due: &mut Due, stop: &AtomicBool) -> Result<Option<Collected>, Error> {
    let used = repository.gauges().used_bytes().unwrap_or(0);
    if used < due.bytes() {
        return Ok(None);
    }
    let collected = repository.collect(&mut |_| match stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })?;
    // A folder's base hears of it a little later.
    due.live = used.saturating_sub(collected.freed_bytes + OBJECT_BYTES * collected.freed);
    tracing::debug!(
        live = collected.live,
        freed = collected.freed,
        freed_bytes = collected.freed_bytes,
        used_bytes = due.live,
        limit_bytes = due.bytes_max,
        "store.collected"
    );
    Ok(Some(collected))
}

impl Due {
    /// Returns the number of bytes at which there is a collection.
    fn bytes(&self) -> u64 {
        let room = self.bytes_max.saturating_sub(self.live);
        let added = self.live.max(self.added_min).min(room / 2);
        (self.live + added).min(self.bytes_max - self.bytes_max / FREE_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_come_with_what_is_added_and_sooner_without_room() {
        const GIB: u64 = 1 << 30;
        let due = |live, bytes_max| Due { live, added_min: ADDED_MIN, bytes_max }.bytes();
        assert_eq!(due(0, GIB), 8 << 20);
        assert_eq!(due(100 << 20, GIB), 200 << 20);
        assert_eq!(due(GIB / 2, GIB), GIB / 4 * 3);
        assert_eq!(due(GIB, GIB), GIB / 32 * 31);
        assert_eq!(due(0, 1 << 20), 1 << 19);
        assert_eq!(due(5, 0), 0);
        let folder = |live| Due { live, added_min: ADDED_MIN_FOLDER, bytes_max: u64::MAX }.bytes();
        assert_eq!((folder(0), folder(GIB)), (64 << 20, 2 * GIB));
    }
}
