//! Worlds of QUIC sessions in virtual time, by seed: a server and its clients, a net that loses,
//! repeats, delays and changes datagrams, an attacker, processes that stop and start again.
//! `BIFROST_SEEDS` sets the number of worlds, and `BIFROST_SEED` the first one.
//!
//! `docs/internals/rex.md` says what is judged. `world` is the loop, `process` an endpoint with its
//! links, `sessions` and `tasks` are the users of both sides, `plans` the random choices, `truth`
//! the log outside the processes with its judgements, `keys` the keys in place of TLS.

mod configs;
mod keys;
mod plans;
mod process;
mod sessions;
mod tasks;
mod truth;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::planted::{Bug, plant};
use truth::Seen;
use world::World;

fn live(seed: u64, has_tls: bool, bug: Option<Bug>) -> World {
    plant(bug);
    let mut world = World::new(seed, has_tls);
    world.live();
    plant(None);
    world
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Lives through worlds on two threads.
fn live_all(seeds: std::ops::Range<u64>, has_tls: bool) -> Seen {
    let next = AtomicU64::new(seeds.start);
    let (all, failed) = (Mutex::new(Seen::default()), Mutex::new(None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || failed.lock().unwrap().is_some() {
                return;
            }
            let world = live(seed, has_tls, None);
            all.lock().unwrap().add(&world.truth.seen);
            if let Some(failure) = world.truth.failure {
                failed.lock().unwrap().get_or_insert((seed, failure));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    if let Some((seed, failure)) = failed.into_inner().unwrap() {
        panic!("{failure}\nrepeat it with BIFROST_SEED={seed} BIFROST_SEEDS=1");
    }
    all.into_inner().unwrap()
}

#[test]
fn calls_are_what_they_are_told_to_be() {
    let (first, count) = (set("BIFROST_SEED").unwrap_or(0), set("BIFROST_SEEDS").unwrap_or(10_000));
    let seen = live_all(first..first + count, false);
    println!("{count} worlds from seed {first}: {seen:?}");
}

#[test]
fn calls_over_tls_are_what_they_are_told_to_be() {
    let first = set("BIFROST_SEED").unwrap_or(0);
    let seen = live_all(first..first + set("BIFROST_SEEDS").unwrap_or(200).min(200), true);
    println!("over TLS: {seen:?}");
}

#[test]
fn a_seed_repeats_its_world() {
    for seed in 0..100 {
        let [a, b] = [live(seed, false, None), live(seed, false, None)].map(|world| world.truth);
        assert_eq!((a.hash(), a.events), (b.hash(), b.events), "seed {seed}");
    }
    assert_ne!(live(0, false, None).truth.hash(), live(1, false, None).truth.hash());
}

#[test]
fn planted_bugs_are_caught() {
    for bug in Bug::ALL {
        let caught = (0..2_000).find_map(|seed| Some((seed, live(seed, false, Some(bug)).truth.failure?)));
        let (seed, failure) = caught.unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?}: caught with seed {seed}, {failure}");
    }
}
