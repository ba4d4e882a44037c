//! What every engine does alike: small cases over a new store each.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bifrost_repository::record::{ClassDescriptor, Kind};
use bifrost_repository::{
    AllObjects, BatchId, Changes, ClassNumber, Commit, CommitError, Error, Holder, Identity, Mistake, Oref,
    Repository, Tid, go_on,
};
use bytes::Bytes;

use super::random::Random;
use super::{
    barriers, changed, commit_reading, directory, fetch, fresh, links, links_class, oref, put, sound, watches,
};

/// Runs every case against stores that `make` makes, each new and empty; its argument is how many written orefs
/// are remembered.
pub fn suite<R: Repository>(make: impl Fn(usize) -> R) {
    for (name, case) in CASES {
        println!("{name}");
        case(&make(1 << 16));
    }
    too_old(&make(10));
}

type Case = fn(&dyn Repository);

const CASES: &[(&str, Case)] = &[
    ("a new store has a root", new_store),
    ("a store has an identity", identity),
    ("allocation never repeats", allocation),
    ("states come back", states),
    ("a fetch is of one commit", fetch_is_of_one_commit),
    ("changes", changes),
    ("watchers are told", watches::told),
    ("watchers miss nothing", watches::none_missed),
    ("watchers of many objects", watches::many_objects),
    ("write-write", write_write),
    ("read-write", read_write),
    ("write skew", write_skew),
    ("phantom", phantom),
    ("read-only", read_only),
    ("atomic", atomic),
    ("malformed", malformed),
    ("batches", batches),
    ("a batch by many threads", batch_race),
    ("classes", classes),
    ("classes by many threads", classes_race),
    ("counters", counters),
    ("transfers", transfers),
    ("scan", scan),
    ("check finds mistakes", check_finds),
    ("garbage goes", garbage_goes),
    ("what is held stays", held_stays),
    ("cycles go", cycles_go),
    ("what cannot be read stops a collection", unreadable_stops_collection),
    ("an object made while it marks stays", barriers::created),
    ("what was cut off while it marks stays", barriers::cut_off),
    ("what was moved while it marks stays", barriers::moved),
    ("what was made below what was looked through stays", barriers::made_below),
    ("a mistake in a commit stops marking", barriers::mistake),
    ("collection beside commits", collection_beside_commits),
    ("info", info),
];

fn identity(store: &dyn Repository) {
    assert_eq!(store.identity().to_string().len(), 2 * Identity::BYTES);
}

fn new_store(store: &dyn Repository) {
    let root = fetch(store, Oref::ROOT).unwrap();
    assert_eq!(root.bytes, directory(ClassNumber::DIRECTORY, &[]));
    assert_eq!(root.tid, store.head());
    assert!(fetch(store, oref(2)).is_none());
    assert_eq!(store.classes(), [Arc::new(ClassDescriptor::directory())]);
    sound(store);
}

fn allocation(store: &dyn Repository) {
    let all = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let all = &all;
            scope.spawn(move || {
                for i in 0..200 {
                    let range = store.allocate(i * 7 % 50 + thread).unwrap();
                    assert!(range.start > Oref::ROOT.get());
                    let mut all = all.lock().unwrap();
                    range.for_each(|number| assert!(all.insert(number)));
                }
            });
        }
    });
    assert_eq!(store.allocate(0).unwrap().count(), 0);
}

fn states(store: &dyn Repository) {
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let first = put(store, vec![], vec![(a, "one".into()), (b, Bytes::new())]);
    let second = put(store, vec![(a, "two".into())], vec![]);
    assert!(second > first && store.head() == second);
    let fetched = store.fetch(&[b, a, oref(a.get() + 10), a]).unwrap();
    assert_eq!(fetched.as_of, second);
    let found: Vec<_> = fetched.states.iter().map(|s| s.as_ref().map(|s| (s.tid, &s.bytes[..]))).collect();
    assert_eq!(found, [Some((first, &b""[..])), Some((second, b"two")), None, Some((second, b"two"))]);
    assert_eq!(store.fetch(&[]).unwrap().states, []);
}

fn fetch_is_of_one_commit(store: &dyn Repository) {
    let orefs = fresh(store, 8);
    put(store, vec![], orefs.iter().map(|oref| (*oref, number(0))).collect());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..2000 {
                put(store, orefs.iter().map(|oref| (*oref, number(i))).collect(), vec![]);
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let fetched = store.fetch(&orefs).unwrap();
            let states: BTreeSet<_> = fetched.states.into_iter().map(|s| s.unwrap().bytes).collect();
            assert_eq!(states.len(), 1);
            assert!(fetched.as_of <= store.head());
        }
    });
}

fn changes(store: &dyn Repository) {
    let start = store.head();
    assert_eq!(changed(store, start), (vec![], start));
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let first = put(store, vec![], vec![(b, "b".into()), (a, "a".into())]);
    let second = put(store, vec![(a, "A".into())], vec![]);
    assert_eq!(changed(store, start), (vec![a, b], second));
    assert_eq!(changed(store, first), (vec![a], second));
    assert_eq!(changed(store, second), (vec![], second));
    // A transaction that wrote nothing changed nothing.
    commit_reading(store, second, &[a], vec![], vec![], None).unwrap();
    assert_eq!(changed(store, second), (vec![], second));
}

fn too_old(store: &dyn Repository) {
    let a = fresh(store, 1)[0];
    let start = put(store, vec![], vec![(a, number(0))]);
    for i in 1..20 {
        put(store, vec![(a, number(i))], vec![]);
    }
    let head = store.head();
    assert_eq!(store.changes(start, &AllObjects), Changes::TooOld { upto: head });
    match commit_reading(store, start, &[oref(1000)], vec![], vec![], None) {
        Err(CommitError::TooOld { upto }) => assert_eq!(upto, head),
        other => panic!("{other:?}"),
    }
    let recent = Tid(head.0 - 2);
    assert_eq!(changed(store, recent), (vec![a], head));
    commit_reading(store, recent, &[oref(1000)], vec![], vec![], None).unwrap();
}

#[track_caller]
fn conflicts(result: Result<Tid, CommitError>, with: &[Oref], head: Tid) {
    match result {
        Err(CommitError::Conflict { orefs, upto }) => assert_eq!((&orefs[..], upto), (with, head)),
        other => panic!("{other:?}"),
    }
}

fn write_write(store: &dyn Repository) {
    let a = fresh(store, 1)[0];
    let start = put(store, vec![], vec![(a, "0".into())]);
    let head = commit_reading(store, start, &[], vec![(a, "1".into())], vec![], None).unwrap();
    let late = commit_reading(store, start, &[], vec![(a, "2".into())], vec![], None);
    conflicts(late, &[a], head);
    assert_eq!(&fetch(store, a).unwrap().bytes[..], b"1");
}

fn read_write(store: &dyn Repository) {
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let start = put(store, vec![], vec![(a, "0".into()), (b, "0".into())]);
    let head = commit_reading(store, start, &[], vec![(a, "1".into())], vec![], None).unwrap();
    let late = commit_reading(store, start, &[a], vec![(b, "2".into())], vec![], None);
    conflicts(late, &[a], head);
    // What was read and not written by others does not hinder.
    commit_reading(store, start, &[], vec![(b, "2".into())], vec![], None).unwrap();
}

fn write_skew(store: &dyn Repository) {
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let start = put(store, vec![], vec![(a, "0".into()), (b, "0".into())]);
    let head = commit_reading(store, start, &[a, b], vec![(a, "1".into())], vec![], None).unwrap();
    let late = commit_reading(store, start, &[a, b], vec![(b, "1".into())], vec![], None);
    conflicts(late, &[a], head);
}

fn phantom(store: &dyn Repository) {
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let start = put(store, vec![], vec![(a, "0".into())]);
    // One finds `b` absent, another creates it.
    assert!(fetch(store, b).is_none());
    let head = commit_reading(store, start, &[], vec![], vec![(b, "0".into())], None).unwrap();
    let late = commit_reading(store, start, &[b], vec![(a, "1".into())], vec![], None);
    conflicts(late, &[b], head);
}

fn read_only(store: &dyn Repository) {
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let start = put(store, vec![], vec![(a, "0".into()), (b, "0".into())]);
    let head = put(store, vec![(a, "1".into())], vec![]);
    assert_eq!(commit_reading(store, start, &[b], vec![], vec![], None).unwrap(), head);
    conflicts(commit_reading(store, start, &[a, b], vec![], vec![], None), &[a], head);
    assert_eq!(store.head(), head);
}

fn atomic(store: &dyn Repository) {
    let [a, b, c] = fresh(store, 3)[..] else { panic!() };
    let start = put(store, vec![], vec![(a, "0".into()), (b, "0".into())]);
    let head = put(store, vec![(a, "1".into())], vec![]);
    let writes = vec![(a, "2".into()), (b, "2".into())];
    conflicts(commit_reading(store, start, &[], writes, vec![(c, "2".into())], None), &[a], head);
    assert_eq!(&fetch(store, b).unwrap().bytes[..], b"0");
    assert!(fetch(store, c).is_none());
    assert_eq!(store.head(), head);
}

fn malformed(store: &dyn Repository) {
    let a = fresh(store, 1)[0];
    let start = put(store, vec![], vec![(a, "0".into())]);
    let invalid = |result| assert!(matches!(result, Err(CommitError::Invalid(_))), "{result:?}");
    let twice = vec![(a, "1".into()), (a, "2".into())];
    invalid(commit_reading(store, start, &[], twice, vec![], None));
    let never = oref(store.info().unwrap().next_oref);
    invalid(commit_reading(store, start, &[], vec![], vec![(never, "1".into())], None));
    invalid(commit_reading(store, Tid(start.0 + 1), &[], vec![(a, "1".into())], vec![], None));
    let reads = BTreeSet::new();
    let writes = vec![(a, "1".into())];
    invalid(store.commit(Commit { valid_to: start, reads: &reads, writes, creates: vec![], batch: None }));
    assert_eq!(store.head(), start);
}

fn batch(session: u128, number: u64) -> BatchId {
    BatchId { session, number }
}

fn batches(store: &dyn Repository) {
    let a = fresh(store, 1)[0];
    let start = put(store, vec![], vec![(a, "0".into())]);
    assert_eq!(store.outcome(batch(7, 1)).unwrap(), None);
    let commit = |number, reply: &'static str| {
        let writes = vec![(a, reply.into())];
        commit_reading(store, store.head(), &[], writes, vec![], Some((batch(7, number), reply.into())))
    };
    commit(1, "one").unwrap();
    assert_eq!(store.outcome(batch(7, 1)).unwrap(), Some("one".into()));
    assert_eq!(store.outcome(batch(8, 1)).unwrap(), None);
    // Again, also with an old `valid_to` that would conflict with itself.
    assert!(matches!(commit(1, "again"), Err(CommitError::Repeated(reply)) if reply == "one"));
    let again = Some((batch(7, 1), "again".into()));
    let again = commit_reading(store, start, &[], vec![(a, "again".into())], vec![], again);
    assert!(matches!(again, Err(CommitError::Repeated(reply)) if reply == "one"));
    assert_eq!(&fetch(store, a).unwrap().bytes[..], b"one");
    commit(5, "five").unwrap();
    assert!(matches!(commit(4, "four"), Err(CommitError::OutOfOrder { last: 5 })));
    assert!(matches!(store.outcome(batch(7, 1)), Err(Error::Forgotten { last: 5 })));
    // A batch that writes nothing is remembered as well.
    let only = Some((batch(9, 1), "nothing".into()));
    commit_reading(store, store.head(), &[], vec![], vec![], only).unwrap();
    assert_eq!(store.outcome(batch(9, 1)).unwrap(), Some("nothing".into()));
    let long = vec![0; bifrost_repository::REPLY_BYTES_MAX + 1];
    let long = Some((batch(9, 2), long.into()));
    let refused = commit_reading(store, store.head(), &[], vec![], vec![], long);
    assert!(matches!(refused, Err(CommitError::Store(Error::Limit { .. }))));
}

fn batch_race(store: &dyn Repository) {
    for round in 1..50 {
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let done = &done;
                scope.spawn(move || {
                    let reply = Bytes::from(format!("{thread}"));
                    let id = batch(1, round);
                    match commit_reading(store, store.head(), &[], vec![], vec![], Some((id, reply.clone())))
                    {
                        Ok(_) => _ = done.fetch_add(1, Ordering::Relaxed),
                        Err(CommitError::Repeated(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                    assert!(store.outcome(id).unwrap().is_some());
                });
            }
        });
        assert_eq!(done.into_inner(), 1);
    }
}

fn classes(store: &dyn Repository) {
    let number = store.define_class(&links_class()).unwrap();
    assert!(number > ClassNumber::DIRECTORY);
    assert_eq!(store.define_class(&links_class()).unwrap(), number);
    assert_eq!(store.define_class(&ClassDescriptor::directory()).unwrap(), ClassNumber::DIRECTORY);
    let other = ClassDescriptor { version: 2, ..links_class() };
    let second = store.define_class(&other).unwrap();
    assert_eq!(second.0, number.0 + 1);
    let known = [ClassDescriptor::directory(), links_class(), other].map(Arc::new);
    assert_eq!(store.classes(), known);
    let large = ClassDescriptor { specification: " ".repeat(1 << 21), ..links_class() };
    assert!(matches!(store.define_class(&large), Err(Error::Limit { .. })));
}

fn classes_race(store: &dyn Repository) {
    let class = |i: u32| ClassDescriptor { kind: Kind::Native, version: i, ..links_class() };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let class = &class;
            scope.spawn(move || {
                for i in 0..20 {
                    let class = class((i + thread * 5) % 20);
                    let number = store.define_class(&class).unwrap();
                    assert_eq!(*store.classes()[number.0 as usize - 1], class);
                }
            });
        }
    });
    assert_eq!(store.classes().len(), 21);
}

fn number(value: u64) -> Bytes {
    Bytes::copy_from_slice(&value.to_le_bytes())
}

fn value(bytes: &Bytes) -> u64 {
    u64::from_le_bytes(bytes[..].try_into().unwrap())
}

fn counters(store: &dyn Repository) {
    const ROUNDS: u64 = 200;
    let counters = fresh(store, 3);
    put(store, vec![], counters.iter().map(|oref| (*oref, number(0))).collect());
    let aborts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (counters, aborts) = (&counters, &aborts);
            scope.spawn(move || {
                for i in 0..ROUNDS {
                    let counter = counters[(i + thread) as usize % counters.len()];
                    loop {
                        let fetched = store.fetch(&[counter]).unwrap();
                        let old = value(&fetched.states[0].as_ref().unwrap().bytes);
                        let writes = vec![(counter, number(old + 1))];
                        match commit_reading(store, fetched.as_of, &[], writes, vec![], None) {
                            Ok(tid) => {
                                // What returned is visible.
                                assert!(store.head() >= tid);
                                break;
                            }
                            Err(CommitError::Conflict { orefs, upto }) => {
                                // So is what is told of others.
                                assert!(orefs == [counter] && store.head() >= upto);
                                assert!(fetch(store, counter).unwrap().tid > fetched.as_of);
                                aborts.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    let sum: u64 = counters.iter().map(|c| value(&fetch(store, *c).unwrap().bytes)).sum();
    assert_eq!(sum, 8 * ROUNDS);
}

/// Many transfer between accounts while others read all of them: the sum is always the same, for every transaction
/// that commits.
fn transfers(store: &dyn Repository) {
    const EACH: u64 = 100;
    let accounts = fresh(store, 10);
    put(store, vec![], accounts.iter().map(|oref| (*oref, number(EACH))).collect());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|thread| {
                let accounts = &accounts;
                scope.spawn(move || {
                    let mut random = Random::new(thread);
                    for _ in 0..300 {
                        let (from, to) = (random.below(10), random.below(10));
                        if from == to {
                            continue;
                        }
                        let pair = [accounts[from], accounts[to]];
                        let fetched = store.fetch(&pair).unwrap();
                        let [a, b] = [0, 1].map(|i| value(&fetched.states[i].as_ref().unwrap().bytes));
                        let moved = random.below(a as usize + 1) as u64;
                        let writes = vec![(pair[0], number(a - moved)), (pair[1], number(b + moved))];
                        let _ = commit_reading(store, fetched.as_of, &[], writes, vec![], None);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // One after the other, which may see different commits; then the commit must say so.
                let valid_to = store.head();
                let mut sum = 0;
                for account in &accounts {
                    sum += value(&fetch(store, *account).unwrap().bytes);
                }
                if commit_reading(store, valid_to, &accounts, vec![], vec![], None).is_ok() {
                    assert_eq!(sum, EACH * 10);
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    let sum: u64 = accounts.iter().map(|a| value(&fetch(store, *a).unwrap().bytes)).sum();
    assert_eq!(sum, EACH * 10);
}

fn scan(store: &dyn Repository) {
    let orefs = fresh(store, 100);
    for chunk in orefs.chunks(7) {
        put(store, vec![], chunk.iter().map(|oref| (*oref, number(oref.get()))).collect());
    }
    for oref in orefs.iter().step_by(3) {
        put(store, vec![(*oref, number(0))], vec![]);
    }
    for limit in [1, 3, 1000] {
        let mut found = Vec::new();
        let mut from = Oref::ROOT;
        loop {
            let chunk = store.scan(from, limit).unwrap();
            assert!(chunk.len() <= limit);
            let Some((last, _)) = chunk.last() else { break };
            from = oref(last.get() + 1);
            found.extend(chunk);
        }
        assert_eq!(found[0].0, Oref::ROOT);
        assert_eq!(found[1..].iter().map(|(oref, _)| *oref).collect::<Vec<_>>(), orefs);
        for (i, (oref, stored)) in found[1..].iter().enumerate() {
            assert_eq!(value(&stored.bytes), if i % 3 == 0 { 0 } else { oref.get() });
        }
    }
}

fn check_finds(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    let [a, b, c, d] = fresh(store, 4)[..] else { panic!() };
    let root = vec![(Oref::ROOT, directory(class, &[("a", a)]))];
    put(store, root, vec![(a, links(class, 1, 0, &[b])), (b, links(class, 2, 100, &[a, a]))]);
    let report = store.check(&mut |_| {}).unwrap();
    assert_eq!((report.objects, report.references), (3, 4));
    assert_eq!(report.by_class, [(ClassNumber::DIRECTORY, 1), (class, 2)]);
    sound(store);
    let wrong = vec![(c, links(class, 3, 0, &[d, Oref::ROOT])), (d, "?".into())];
    put(store, vec![(a, links(class, 1, 0, &[b, oref(d.get() + 1)]))], wrong);
    let mistakes = store.check(&mut |_| {}).unwrap().mistakes;
    let said = |mistake: &Mistake| mistake.to_string();
    let found: Vec<String> = mistakes.iter().map(said).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(matches!(mistakes[0], Mistake::Dangling { from, .. } if from == a));
    assert!(matches!(mistakes[1], Mistake::Class { from, to: Oref::ROOT, .. } if from == c));
    assert!(matches!(mistakes[2], Mistake::Record { oref, .. } if oref == d));
}

fn garbage_goes(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    let [a, b, c, d] = fresh(store, 4)[..] else { panic!() };
    let creates = vec![
        (a, links(class, 0, 10, &[b])),
        (b, links(class, 0, 10, &[])),
        (c, links(class, 0, 10, &[d])),
        (d, links(class, 0, 10, &[b])),
    ];
    put(store, vec![(Oref::ROOT, directory(class, &[("a", a), ("c", c)]))], creates);
    let collected = store.collect(&mut go_on).unwrap();
    assert_eq!((collected.live, collected.freed), (5, 0));
    let before = put(store, vec![(Oref::ROOT, directory(class, &[("a", a)]))], vec![]);
    let collected = store.collect(&mut go_on).unwrap();
    assert_eq!((collected.live, collected.freed), (3, 2));
    assert!(collected.freed_bytes > 20);
    assert!(fetch(store, c).is_none() && fetch(store, d).is_none());
    assert!(fetch(store, a).is_some() && fetch(store, b).is_some());
    assert_eq!(store.scan(Oref::ROOT, 100).unwrap().len(), 3);
    assert_eq!(store.info().unwrap().objects, 3);
    // Nobody's transaction is disturbed by it.
    assert_eq!(changed(store, before), (vec![], before));
    assert!(fresh(store, 1)[0] > d);
    sound(store);
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 0);
}

struct Holding(Mutex<Vec<Oref>>);

impl Holder for Holding {
    fn held(&self, found: &mut dyn FnMut(Oref)) {
        self.0.lock().unwrap().iter().for_each(|oref| found(*oref));
    }
}

fn held_stays(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    put(store, vec![], vec![(a, links(class, 0, 0, &[b])), (b, links(class, 0, 0, &[]))]);
    let holder = Arc::new(Holding(Mutex::new(vec![a, a])));
    let registration = store.register(holder.clone());
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 0);
    *holder.0.lock().unwrap() = vec![b];
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1);
    assert!(fetch(store, a).is_none() && fetch(store, b).is_some());
    drop(registration);
    assert_eq!(Arc::strong_count(&holder), 1);
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1);
}

fn cycles_go(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    let ring = fresh(store, 1000);
    let creates = (0..1000).map(|i| (ring[i], links(class, 0, 0, &[ring[(i + 1) % 1000]]))).collect();
    put(store, vec![(Oref::ROOT, directory(class, &[("ring", ring[500])]))], creates);
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 0);
    put(store, vec![(Oref::ROOT, directory(class, &[]))], vec![]);
    let mut last = None;
    let stopped = store.collect(&mut |progress| {
        last = Some(progress);
        std::ops::ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1000);
    assert!(last.unwrap().done >= 1);
}

fn unreadable_stops_collection(store: &dyn Repository) {
    let class = store.define_class(&links_class()).unwrap();
    let [a, b] = fresh(store, 2)[..] else { panic!() };
    let root = directory(class, &[("a", a)]);
    put(store, vec![(Oref::ROOT, root)], vec![(a, "?".into()), (b, links(class, 0, 0, &[]))]);
    match store.collect(&mut go_on) {
        Err(Error::Record { oref, .. }) => assert_eq!(oref, a),
        other => panic!("{other:?}"),
    }
    assert!(fetch(store, b).is_some());
    put(store, vec![(a, links(class, 0, 0, &[]))], vec![]);
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 1);
}

/// A session of [`collection_beside_commits`]: it knows what it holds, takes references out of the store and puts
/// them in elsewhere.
struct Walker {
    held: Mutex<Vec<Oref>>,
}

impl Holder for Walker {
    fn held(&self, found: &mut dyn FnMut(Oref)) {
        // Waits for as long as a transaction runs.
        self.held.lock().unwrap().iter().for_each(|oref| found(*oref));
    }
}

/// The targets of an object in that test, as the store has it.
fn targets(store: &dyn Repository, bytes: &Bytes) -> Vec<Oref> {
    let mut found = Vec::new();
    bifrost_repository::record::walk_refs(bytes, &store.classes()[..], |oref| found.push(oref)).unwrap();
    found
}

fn collection_beside_commits(store: &dyn Repository) {
    const SLOTS: usize = 8;
    let class = store.define_class(&links_class()).unwrap();
    // Below the root are slots, each the start of a chain; walkers move chains between slots and what they hold.
    let slots = fresh(store, SLOTS as u32);
    let names: Vec<String> = (0..SLOTS).map(|i| i.to_string()).collect();
    let entries: Vec<(&str, Oref)> = names.iter().map(String::as_str).zip(slots.iter().copied()).collect();
    let creates = slots.iter().map(|oref| (*oref, links(class, 0, 0, &[]))).collect();
    put(store, vec![(Oref::ROOT, directory(class, &entries))], creates);
    let done = AtomicBool::new(false);
    let walkers: Vec<Arc<Walker>> =
        (0..3).map(|_| Arc::new(Walker { held: Mutex::new(Vec::new()) })).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = walkers
            .iter()
            .enumerate()
            .map(|(seed, walker)| {
                let slots = &slots;
                scope.spawn(move || {
                    let _registration = store.register(walker.clone());
                    let mut random = Random::new(seed as u64 + 1);
                    for _ in 0..400 {
                        let mut held = walker.held.lock().unwrap();
                        walk(store, class, slots, &mut held, &mut random);
                    }
                    // Ends only with the test, so that what is held at the end stays.
                    std::mem::forget(_registration);
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.collect(&mut go_on).unwrap();
            }
        });
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    store.collect(&mut go_on).unwrap();
    let last = store.collect(&mut go_on).unwrap();
    assert_eq!(last.freed, 0, "all garbage was gone after one collection with nobody beside it");
    sound(store);
    // What is there is what the root and the walkers lead to.
    let mut reached = BTreeSet::new();
    let mut next = vec![Oref::ROOT];
    walkers.iter().for_each(|walker| next.extend(walker.held.lock().unwrap().iter()));
    while let Some(oref) = next.pop() {
        if reached.insert(oref) {
            next.extend(targets(store, &fetch(store, oref).expect("it is reachable").bytes));
        }
    }
    assert_eq!(store.info().unwrap().objects, reached.len() as u64);
}

/// One transaction of a walker: looks at a slot, follows its chain for a bit, and takes the end, puts something that
/// it holds in, cuts it, or makes a new object.
fn walk(
    store: &dyn Repository,
    class: ClassNumber,
    slots: &[Oref],
    held: &mut Vec<Oref>,
    random: &mut Random,
) {
    let slot = slots[random.below(slots.len())];
    let fetched = store.fetch(&[slot]).unwrap();
    let valid_to = fetched.as_of;
    let below = targets(store, &fetched.states[0].as_ref().expect("slots stay").bytes);
    let filling = random.below(200);
    match random.below(5) {
        // Takes the chain out and holds its end; the cut is a transaction of its own.
        0 => {
            let mut at = slot;
            for _ in 0..random.below(4) {
                let Some(stored) = fetch(store, at) else { break };
                let Some(next) = targets(store, &stored.bytes).first().copied() else { break };
                at = next;
            }
            if commit_reading(store, valid_to, &[slot], vec![], vec![], None).is_ok() && at != slot {
                // Read at another commit than `valid_to`, so only what is surely there is kept.
                if commit_reading(store, store.head(), &[at], vec![], vec![], None).is_ok()
                    && below.contains(&at)
                {
                    held.push(at);
                }
            }
        }
        1 => {
            _ = commit_reading(
                store,
                valid_to,
                &[],
                vec![(slot, links(class, 1, filling, &[]))],
                vec![],
                None,
            )
        }
        2 | 3 => {
            let new = fresh(store, 1)[0];
            let creates = vec![(new, links(class, 2, filling, &below))];
            let writes = vec![(slot, links(class, 3, filling, &[new]))];
            _ = commit_reading(store, valid_to, &[], writes, creates, None);
        }
        _ => {
            if held.is_empty() {
                return;
            }
            let mine = held[random.below(held.len())];
            assert!(fetch(store, mine).is_some(), "what is held is there");
            let writes = vec![(slot, links(class, 4, filling, &[mine]))];
            _ = commit_reading(store, valid_to, &[], writes, vec![], None);
            if random.chance(2) {
                held.retain(|oref| *oref != mine);
            }
        }
    }
}

fn info(store: &dyn Repository) {
    let before = store.info().unwrap();
    assert_eq!((before.objects, before.classes, before.sessions), (1, 1, 0));
    let orefs = fresh(store, 10);
    put(store, vec![], orefs.iter().map(|oref| (*oref, Bytes::from(vec![7; 100]))).collect());
    put(store, vec![(orefs[0], Bytes::from(vec![8; 100]))], vec![]);
    let after = store.info().unwrap();
    assert_eq!((after.objects, after.head), (11, store.head()));
    assert!(after.base_bytes + after.buffered_bytes >= 1000);
    assert!(after.next_oref > orefs[9].get());
}
