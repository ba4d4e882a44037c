//! Frees what nothing leads to any more in a store that is in memory, while sessions go on.
//!
//! A store that others may open is collected when its owner says so (`bifrost store gc`); nobody could say so of one that only
//! this process has. The collector looks at it now and then, and collects when about as much has been added as lived after the last
//! collection, sooner when there is little room left: so what it costs follows what is committed.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bifrost_repository::{Collected, Error, Repository};

/// How often the collector looks.
const LOOK: Duration = Duration::from_millis(50);
/// How long it rests at most after a collection that has freed nothing; each such rest is twice as long as the one before.
const REST_MAX: Duration = Duration::from_secs(10);
/// For how many times as long as a collection took there is none at least.
const REST_TIMES: u32 = 9;
/// Bytes that are added at least before a collection, if there is room.
const ADDED_MIN: u64 = 8 << 20;
/// When less than this part of the whole is free, it is time.
const FREE_PART: u64 = 32;

/// Starts the collector of a store with so many bytes at most. It ends when nobody else has the store any more.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn start(repository: &Arc<dyn Repository>, bytes_max: u64) -> std::io::Result<()> {
    let repository = Arc::downgrade(repository);
    let work = move || run(&repository, bytes_max);
    std::thread::Builder::new().name("bifrost-gc".to_owned()).spawn(work)?;
    Ok(())
}

fn run(repository: &Weak<dyn Repository>, bytes_max: u64) {
    let (mut live, mut rest) = (0, LOOK);
    while let Some(repository) = repository.upgrade() {
        let start = Instant::now();
        match look(&*repository, bytes_max, &mut live) {
            Ok(None) => rest = LOOK,
            Ok(Some(collected)) => {
                // Sessions may let go of something later, so it is tried again, if seldom.
                rest = if collected.freed == 0 { (rest * 2).min(REST_MAX) } else { LOOK };
                rest = rest.max(start.elapsed() * REST_TIMES);
            }
            Err(error) => {
                tracing::warn!(%error, "store.not_collected");
                rest = REST_MAX;
            }
        }
        drop(repository);
        std::thread::sleep(rest);
    }
}

/// Collects if it is time. `live` is what there was after the last collection, in bytes.
fn look(repository: &dyn Repository, bytes_max: u64, live: &mut u64) -> Result<Option<Collected>, Error> {
    if repository.gauges().used_bytes().unwrap_or(0) < due(*live, bytes_max) {
        return Ok(None);
    }
    let collected = repository.collect(&mut |_| {})?;
    *live = repository.gauges().used_bytes().unwrap_or(0);
    tracing::debug!(
        live = collected.live,
        freed = collected.freed,
        freed_bytes = collected.freed_bytes,
        used_bytes = *live,
        limit_bytes = bytes_max,
        "store.collected"
    );
    Ok(Some(collected))
}

/// With how many bytes there is a collection.
fn due(live: u64, bytes_max: u64) -> u64 {
    let room = bytes_max.saturating_sub(live);
    let added = live.max(ADDED_MIN).min(room / 2);
    (live + added).min(bytes_max - bytes_max / FREE_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_come_with_what_is_added_and_sooner_without_room() {
        const GIB: u64 = 1 << 30;
        assert_eq!(due(0, GIB), 8 << 20);
        assert_eq!(due(100 << 20, GIB), 200 << 20);
        assert_eq!(due(GIB / 2, GIB), GIB / 4 * 3);
        assert_eq!(due(GIB, GIB), GIB / 32 * 31);
        assert_eq!(due(0, 1 << 20), 1 << 19);
        assert_eq!(due(5, 0), 0);
    }
}
