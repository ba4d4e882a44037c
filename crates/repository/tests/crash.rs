//! No acknowledged commit is lost and none is torn, whatever the disk does: the whole engine, log and base, over a
//! simulated disk, compared with a model after every failure.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bifrost_repository::embedded::disk::Disk;
use bifrost_repository::embedded::open_on;
use bifrost_repository::{BatchId, Error, Oref, Repository};
use bytes::Bytes;
use support::disk::{Sim, Tear};
use support::life::{Life, Model, Told, live, open};
use support::random::{self, Random};
use support::rot::{Damage, Ended, Sound};
use support::{commit_reading, fresh, put};

/// How many powers are lost in one run of [`random_lives`], unless `BIFROST_FUZZ_RUNS` or `BIFROST_FUZZ_SECONDS` say how much.
const LOSSES: u64 = 10_000;

#[test]
fn random_lives() {
    let (losses, acknowledged, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let one = &|seed| {
        let life = live(seed, Sim::new(seed), open).unwrap_or_else(|wrong| panic!("{wrong}"));
        losses.fetch_add(life.losses, Ordering::Relaxed);
        acknowledged.fetch_add(life.acknowledged, Ordering::Relaxed);
        failed.fetch_add(life.sim.failed(), Ordering::Relaxed);
    };
    // Two at a time.
    let two = |seed: u64| {
        std::thread::scope(|scope| {
            scope.spawn(move || one(seed.wrapping_mul(2)));
            scope.spawn(move || one(seed.wrapping_mul(2) + 1));
        });
    };
    random::repeat_while("crash", || losses.load(Ordering::Relaxed) < LOSSES, two);
    println!(
        "{losses:?} powers lost, {failed:?} other faults, {acknowledged:?} commits acknowledged, none lost, in {:?}",
        start.elapsed()
    );
}

#[test]
fn lives_that_once_went_wrong() {
    // The synchronisation of the folder failed when the store was made, and nobody did it again when it was opened.
    let seed = 1_795_316_455_468_u64;
    for seed in [seed.wrapping_mul(2), seed.wrapping_mul(2) + 1] {
        live(seed, Sim::new(seed), open).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

/// The power goes at every single change of the disk in a life of 200 commits, once for each way to tear what was
/// not synchronised.
#[test]
fn every_crash_point() {
    let sim = Sim::new(1);
    let mut life = Life::new(sim.clone(), 3);
    life.store = Some(open(&sim).unwrap());
    let told = Arc::new(Mutex::new(Told { model: Model::new(), doubt: None, given: 2 }));
    life.told = Some(told.clone());
    let points = Arc::new(AtomicU64::new(0));
    let counted = points.clone();
    sim.watch(Some(Arc::new(move |sim: &Sim| {
        let point = counted.fetch_add(1, Ordering::Relaxed);
        let told = told.lock().unwrap().clone();
        for tear in Tear::ALL {
            let fork = sim.fork(point);
            fork.lose_power(tear);
            let store = open(&fork).unwrap_or_else(|error| panic!("change {point}, {tear:?}: {error}"));
            let examined = Life::of(told.clone(), fork).examine(&*store);
            examined.unwrap_or_else(|wrong| panic!("change {point}, {tear:?}: {wrong}"));
        }
    })));
    while life.acknowledged < 200 {
        assert!(life.step().unwrap());
    }
    sim.watch(None);
    let points = points.load(Ordering::Relaxed);
    println!("{points} crash points, {} ways each", Tear::ALL.len());
    assert!(points > 400);
}

/// The power goes at every change of the disk while a store is made, and while one of an older program gets its
/// identity. An identity that was told stays, whatever key later openings bring.
#[test]
fn an_identity_that_was_told_stays() {
    let made = Sim::new(1);
    drop(open(&made).unwrap());
    let older = made.fork(2);
    Disk::remove(&older, "identity").unwrap();
    Disk::sync(&older).unwrap();
    let open_with = |sim: &Sim, key| open_on(sim, [key; 32], &support::life::options()).map(|s| s.identity());
    let (mut told, mut points) = (0, 0);
    for (begin, is_new) in [(Sim::new(3), true), (older, false)] {
        for changes in 0.. {
            let whole = begin.fork(changes);
            whole.cut_power_in(changes);
            let first = open_with(&whole, 1);
            let is_last = first.is_ok();
            for tear in Tear::ALL {
                let fork = whole.fork(changes);
                fork.lose_power(tear);
                let next = open_with(&fork, 2).unwrap();
                assert!(
                    first.as_ref().is_ok_and(|first| *first == next) || first.is_err(),
                    "{changes}, {tear:?}"
                );
                fork.lose_power(Tear::Lost);
                assert_eq!(open_with(&fork, 3).unwrap(), next, "{changes}, {tear:?}");
                told += u32::from(first.is_ok());
            }
            points += 1;
            if is_last {
                break;
            }
            assert!(changes < 10_000, "{is_new}");
        }
    }
    assert!(told >= 8 && points > 20, "{told} {points}");
}

/// Many threads commit in groups until the power goes. Each writes the same number to two objects of its own; what it
/// was told, or anybody saw, is there afterwards, in both of them, and at most one more.
#[test]
fn groups() {
    const THREADS: usize = 6;
    let (mut commits, mut records) = (0, 0);
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let store = open(&sim).unwrap();
        let pairs: Vec<Vec<Oref>> = (0..THREADS).map(|_| fresh(&*store, 2)).collect();
        put(&*store, vec![], pairs.iter().flatten().map(|oref| (*oref, number(0))).collect());
        let mut random = Random::new(seed);
        sim.be_slow();
        sim.cut_power_in(random.below(120) as u64);
        let (told, seen) = (Mutex::new([0; THREADS]), Mutex::new([0; THREADS]));
        let before = sim.changes();
        let alive = AtomicU64::new(THREADS as u64);
        std::thread::scope(|scope| {
            for (thread, pair) in pairs.iter().enumerate() {
                let (store, told, alive) = (&*store, &told, &alive);
                scope.spawn(move || {
                    for value in 1.. {
                        let batch = BatchId { session: thread as u128, number: value };
                        let writes = pair.iter().map(|oref| (*oref, number(value))).collect();
                        let reply = Some((batch, number(value)));
                        if commit_reading(store, store.head(), &[], writes, vec![], reply).is_err() {
                            break;
                        }
                        told.lock().unwrap()[thread] = value;
                    }
                    alive.fetch_sub(1, Ordering::Relaxed);
                });
            }
            scope.spawn(|| {
                while alive.load(Ordering::Relaxed) > 0 {
                    for (thread, pair) in pairs.iter().enumerate() {
                        let Ok(fetched) = store.fetch(&pair[..1]) else { continue };
                        let value = value(&fetched.states[0].as_ref().unwrap().bytes);
                        seen.lock().unwrap()[thread] = value;
                        std::thread::yield_now();
                    }
                }
            });
        });
        let head = store.head();
        drop(store);
        // A record is written and synchronised, and then the witness is written.
        records += (sim.changes() - before) / 3;
        sim.lose_power(Tear::ALL[random.below(4)]);
        let store = open(&sim).unwrap();
        assert!(store.head() >= head, "seed {seed}");
        let (told, seen) = (told.into_inner().unwrap(), seen.into_inner().unwrap());
        for (thread, pair) in pairs.iter().enumerate() {
            let states = store.fetch(pair).unwrap().states;
            let [a, b] = [0, 1].map(|i| value(&states[i].as_ref().unwrap().bytes));
            let (told, seen) = (told[thread], seen[thread]);
            assert!(
                a == b && a >= seen && (a == told || a == told + 1),
                "seed {seed}: {a} {b} {told} {seen}"
            );
            let batch = BatchId { session: thread as u128, number: a };
            assert_eq!(store.outcome(batch).unwrap(), (a > 0).then(|| number(a)), "seed {seed}");
            commits += a;
        }
    }
    println!("{commits} commits in about {records} records");
    assert!(commits > records, "threads gather in groups");
}

fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}

fn value(bytes: &Bytes) -> u64 {
    u64::from_le_bytes(bytes[..].try_into().unwrap())
}

/// A log that has changed on the disk by itself is found out, unless what changed is its last record, which may as
/// well have been torn.
#[test]
fn damaged_logs() {
    let sim = Sim::new(1);
    let store = open(&sim).unwrap();
    let object = fresh(&*store, 1)[0];
    put(&*store, vec![], vec![(object, number(0))]);
    // In both halves, and with records of several blocks.
    for value in 1..=20 {
        let mut bytes = number(value).to_vec();
        bytes.resize(8 + value as usize % 3 * 4000, 7);
        put(&*store, vec![(object, bytes.into())], vec![]);
    }
    let head = store.head();
    sim.cut_power_in(0);
    drop(store);
    sim.heal();
    let (mut random, mut damaged, mut same) = (Random::new(1), 0, 0);
    for _ in 0..400 {
        let fork = sim.fork(1);
        let file = fork.open(["log.0", "log.1"][random.below(2)], false).unwrap().unwrap();
        let at = random.below(file.len().unwrap() as usize);
        let mut byte = [0];
        file.read_at(at as u64, &mut byte).unwrap();
        file.write_at(at as u64, &[byte[0] ^ 1 << random.below(8)]).unwrap();
        match open(&fork) {
            Ok(store) => {
                assert!(store.head().0 >= head.0 - 1);
                same += usize::from(store.head() == head);
            }
            Err(Error::Damaged { .. }) => damaged += 1,
            Err(other) => panic!("{other}"),
        }
    }
    println!("{damaged} found out, {same} without consequence, of 400");
    assert!(damaged > 50 && same > 50);
}

/// Damages in one run of [`damaged_bases`].
const DAMAGES: u64 = 10_000;

/// Bits of a base rot, and sectors of it are lost, or in the place of others, or older than they
/// should be: nothing wrong is given, and each damage is told with what is lost.
#[test]
fn damaged_bases() {
    let start = Instant::now();
    let ended = Mutex::new(BTreeMap::new());
    let half = |from: u64| {
        let sound = Sound::new(from);
        for seed in (from..DAMAGES).step_by(2) {
            let damage = match seed % 10 {
                0..=3 => Damage::Bit,
                4..=6 => Damage::Misplaced,
                7..=8 => Damage::Lost,
                _ => Damage::Older,
            };
            let how = sound.damaged(damage, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
            *ended.lock().unwrap().entry((format!("{damage:?}"), how)).or_insert(0) += 1;
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| half(0));
        scope.spawn(|| half(1));
    });
    let ended = ended.into_inner().unwrap();
    println!("{ended:?} in {:?}", start.elapsed());
    let told: i32 =
        ended.iter().filter(|((_, how), _)| *how != Ended::Unharmed).map(|(_, count)| count).sum();
    assert!(told > DAMAGES as i32 / 10, "{told}");
}
