//! Worlds of traders, exporters and importers, by seed: processes are killed and stopped, the net
//! loses messages, clocks jump. `BIFROST_SEEDS` sets the number of worlds (10,000), and
//! `BIFROST_SEED` the first one.

mod support;

use support::planted::Bug;
use support::world::{Node, World};

/// The life of a world: its first failure, and the hash of its events.
fn live(seed: u64, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    let (quiet, lease) = (world.quiet, world.lease_ms());
    world.run_until(quiet);
    world.heal();
    world.run_until(quiet + lease / 3 + 1_000);
    world.judge_whole();
    world.run_until(quiet + 12_000);
    world.judge_served();
    if let Some(exporters) = world.three_of_a_type().filter(|_| seed.is_multiple_of(2)) {
        let processes = world.processes(&exporters);
        let start = world.now;
        if seed.is_multiple_of(4) {
            // All vanish at once: they are doubtful for four leases, then gone.
            exporters.iter().for_each(|at| world.kill(Node::Exporter(*at)));
            world.run_until(start + lease + 2_000);
            world.judge_doubtful(&processes);
            world.run_until(start + 5 * lease + 3_000);
            world.judge_gone(&processes);
        } else {
            // All are cut off: they are doubtful, and whole again after the first renewal.
            world.cut_off(&exporters, lease + 2_000);
            world.run_until(start + lease + 2_000);
            world.judge_doubtful(&processes);
            world.run_until(start + lease + 2_000 + lease / 3 + 1_000);
            world.judge_whole();
        }
    }
    let living = world.living();
    let processes = world.processes(&living);
    let start = world.now;
    world.stop(&living);
    world.run_until(start + 1_500);
    world.judge_gone(&processes);
    world
}

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn worlds_become_whole() {
    let (first, count) = (set("BIFROST_SEED").unwrap_or(0), set("BIFROST_SEEDS").unwrap_or(10_000));
    let mut events = 0;
    for seed in first..first + count {
        let world = live(seed, None);
        events += world.events;
        if let Some(failure) = world.failure {
            panic!("{failure}\nrepeat it with BIFROST_SEED={seed} BIFROST_SEEDS=1");
        }
    }
    println!("{count} worlds from seed {first}, {events} events");
}

#[test]
fn a_seed_repeats_its_world() {
    for seed in 0..100 {
        let [a, b] = [live(seed, None), live(seed, None)];
        assert_eq!((a.hash(), a.events), (b.hash(), b.events), "seed {seed}");
    }
    assert_ne!(live(0, None).hash(), live(1, None).hash());
}

#[test]
fn planted_bugs_are_caught() {
    for bug in Bug::ALL {
        let caught = (0..500).find_map(|seed| Some((seed, live(seed, Some(bug)).failure?)));
        let (seed, failure) = caught.unwrap_or_else(|| panic!("{bug:?} is not caught"));
        println!("{bug:?}: caught with seed {seed}, {failure}");
    }
}
