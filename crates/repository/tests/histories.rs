//! Concurrent transactions are serializable, in many histories and on every engine.

mod support;

use bifrost_repository::embedded::{self, Options};
use bifrost_repository::memory::Memory;
use bifrost_repository::store;
use support::history::{CLIENTS, Client, TRANSACTIONS, anomaly, run};
use support::random;

const HISTORIES: u64 = 500;

fn small() -> store::Options {
    store::Options { log_bytes: 2000, ..store::Options::default() }
}

#[test]
fn in_memory() {
    let mut count = 0;
    let counted = std::cell::Cell::new(0);
    random::repeat_while(
        "histories",
        || counted.get() < HISTORIES,
        |seed| {
            let history = run(&Memory::with_options(small()), seed, Client::Careful);
            assert!(history.len() > CLIENTS * TRANSACTIONS);
            assert_eq!(anomaly(&history), None);
            count += 1;
            counted.set(count);
        },
    );
}

#[test]
fn in_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = store::Options { log_bytes: 256 << 10, ..store::Options::default() };
    let options = Options { store, cache_bytes: 1 << 20, log_step_bytes: 64 << 10 };
    let store = embedded::open(folder.path(), &options).unwrap();
    assert_eq!(anomaly(&run(&store, 1, Client::Careful)), None);
}

/// Clients that break the rule of the cache are found out, so the check can fail.
#[test]
fn careless_clients_are_caught() {
    assert!(
        (0..20).any(|seed| anomaly(&run(&Memory::with_options(small()), seed, Client::Careless)).is_some())
    );
}
