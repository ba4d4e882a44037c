//! Concurrent transactions are serializable, in many histories and on every engine, while disks and connections fail.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bifrost_repository::embedded::open_on;
use bifrost_repository::memory::Memory;
use bifrost_repository::{Repository, postgres, store};
use support::cluster::{cluster, url};
use support::disk::{Fault, Sim, Tear};
use support::history::{CLIENTS, History, Place, TRANSACTIONS, run};
use support::proxy::Proxy;
use support::random::{self, Random};

const HISTORIES: u64 = 500;

fn memory() -> Arc<dyn Repository> {
    let options = store::Options { log_bytes: 2000, ..store::Options::default() };
    Arc::new(Memory::with_options(options))
}

#[track_caller]
fn check(history: &History) {
    assert!(history.counts().0 >= CLIENTS * TRANSACTIONS);
    assert_eq!(history.anomaly(), None);
}

#[test]
fn in_memory() {
    let count = AtomicU64::new(0);
    random::repeat_while(
        "histories",
        || count.load(Ordering::Relaxed) < HISTORIES,
        |seed| {
            check(&run(&[Place::steady(memory())], seed));
            count.fetch_add(1, Ordering::Relaxed);
        },
    );
}

/// The power goes, or the disk fails, some times in every history, and the store is opened again.
#[test]
fn in_files() {
    let (count, doubtful, losses) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    random::repeat_while(
        "histories in files",
        || count.load(Ordering::Relaxed) < HISTORIES,
        |seed| {
            let sim = Sim::new(seed);
            let random = std::sync::Mutex::new(Random::new(seed));
            let open = || -> Arc<dyn Repository> {
                let mut random = random.lock().unwrap();
                sim.lose_power(Tear::ALL[random.below(4)]);
                let store =
                    open_on(&sim, [7; 32], &support::life::options()).expect("a healthy disk is opened");
                match random.below(4) {
                    0 => sim.fail_one_in(60, &Fault::ALL),
                    _ => sim.cut_power_in(20 + random.below(200) as u64),
                }
                losses.fetch_add(1, Ordering::Relaxed);
                Arc::new(store)
            };
            // A base that is dropped writes; one of a process that is killed does not.
            let places = [Place::failing(|| sim.cut_power_in(0), Box::new(open))];
            let history = run(&places, seed);
            doubtful.fetch_add(history.counts().1 as u64, Ordering::Relaxed);
            check(&history);
            count.fetch_add(1, Ordering::Relaxed);
        },
    );
    println!("{losses:?} openings, {doubtful:?} transactions of which nobody knew");
    assert!(losses.into_inner() > 2 * count.into_inner());
}

/// Clients of two processes, whose connections are cut all the time.
#[test]
fn in_a_database() {
    const AT_ONCE: u64 = 25;
    let (server, schema) = (cluster(), cluster().schema());
    let proxies = [1, 2].map(|seed| Proxy::start(&server.socket(), seed));
    let options = postgres::Options {
        poll_interval: Duration::from_millis(50),
        patience: Duration::from_millis(400),
        ..postgres::Options::default()
    };
    let stores = proxies.each_ref().map(|proxy| {
        let store = postgres::open(&url(proxy.folder(), &schema).parse().unwrap(), &options);
        Arc::new(store.unwrap()) as Arc<dyn Repository>
    });
    let (count, doubtful) = (AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    proxies.iter().for_each(|proxy| proxy.cut_one_in(1500));
    random::repeat_while(
        "histories in a database",
        || count.load(Ordering::Relaxed) < HISTORIES,
        |seed| {
            std::thread::scope(|scope| {
                for history in 0..AT_ONCE {
                    let (stores, count, doubtful) = (&stores, &count, &doubtful);
                    scope.spawn(move || {
                        let places = stores.each_ref().map(|store| Place::steady(store.clone()));
                        let history = run(&places, seed.wrapping_mul(AT_ONCE) + history);
                        doubtful.fetch_add(history.counts().1 as u64, Ordering::Relaxed);
                        check(&history);
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        },
    );
    let cuts: u64 = proxies.iter().map(Proxy::cuts).sum();
    println!("{cuts} connections cut, {doubtful:?} transactions of which nobody knew, {:?}", start.elapsed());
    assert!(10 * cuts > count.into_inner(), "{cuts}");
}
