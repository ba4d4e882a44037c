//! A backup is a store at one of its commits, whatever is committed, freed and installed meanwhile; and a
//! backup that is broken off, damaged, or has no room makes no store.

mod support;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::atomic::{AtomicBool, Ordering};

use bifrost_repository::backup::{self, BackupError, FRAME_BYTES_MAX, Written};
use bifrost_repository::embedded::{Embedded, Options, Restore, open, restore_on};
use bifrost_repository::memory::Memory;
use bifrost_repository::{BatchId, Error, Oref, Repository, Stored, Tid, go_on, store};
use bytes::Bytes;
use support::disk::{Fault, Sim, Tear};
use support::{commit_reading, directory, fresh, links, links_class, put, sound};

/// Small halves of the log, so that states go to the base all the time.
fn small() -> Options {
    let store = store::Options { log_bytes: 256 << 10, changes_kept: 1 << 16, ..store::Options::default() };
    Options { store, cache_bytes: 1 << 20, log_step_bytes: 64 << 10 }
}

fn backup_of(store: &dyn Repository) -> (Vec<u8>, Written) {
    let mut out = Vec::new();
    let written = backup::write(&mut store.snapshot().unwrap(), &mut out, &mut |_| {}).unwrap();
    (out, written)
}

fn restored(bytes: &[u8], folder: &std::path::Path) -> Embedded {
    let restore = Restore::open(folder).unwrap();
    backup::read(&mut Cursor::new(bytes), restore, &mut |_| {}).unwrap();
    open(folder, &small()).unwrap()
}

fn all(store: &dyn Repository) -> BTreeMap<Oref, Stored> {
    store.scan(Oref::ROOT, 1 << 20).unwrap().into_iter().collect()
}

/// Fills a store with objects that the root leads to, some of which are freed again.
fn fill(store: &dyn Repository, count: u32) -> Vec<Oref> {
    let class = store.define_class(&links_class()).unwrap();
    let orefs = fresh(store, count);
    let creates = orefs.iter().map(|o| (*o, links(class, 0, 100, &[]))).collect();
    let (kept, dropped) = orefs.split_at(orefs.len() * 3 / 4);
    let names: Vec<(String, Oref)> = kept.iter().map(|o| (o.to_string(), *o)).collect();
    let entries: Vec<(&str, Oref)> = names.iter().map(|(name, o)| (&name[..], *o)).collect();
    put(store, vec![(Oref::ROOT, directory(class, &entries))], creates);
    assert_eq!(store.collect(&mut go_on).unwrap().freed, dropped.len() as u64);
    kept.to_vec()
}

#[test]
fn a_backup_has_all_of_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"), &small()).unwrap();
    let orefs = fill(&store, 2000);
    let id = BatchId { session: u128::MAX - 5, number: 3 };
    let class = store.define_class(&links_class()).unwrap();
    let writes = vec![(orefs[3], links(class, 9, 5000, &[orefs[4]]))];
    commit_reading(&store, store.head(), &[], writes, vec![], Some((id, "reply".into()))).unwrap();
    for (bytes, written) in [backup_of(&store), backup_of(&store)] {
        let copy = folder.path().join("copy");
        let copy_store = restored(&bytes, &copy);
        assert_eq!(written.objects, store.info().unwrap().objects);
        assert_eq!((written.head, copy_store.head()), (store.head(), store.head()));
        assert_eq!(all(&copy_store), all(&store));
        assert_eq!(copy_store.classes(), store.classes());
        assert_ne!(copy_store.identity(), store.identity());
        assert_eq!(copy_store.outcome(id).unwrap(), Some(Bytes::from("reply")));
        assert_eq!(copy_store.info().unwrap().base_bytes, written.bytes);
        sound(&copy_store);
        // It goes on where the store was: no oref is given twice.
        let last = all(&store).keys().next_back().copied().unwrap();
        assert!(fresh(&copy_store, 1)[0] > last);
        put(&copy_store, vec![(orefs[5], links(class, 1, 10, &[]))], vec![]);
        drop(copy_store);
        sound(&open(&copy, &small()).unwrap());
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn a_store_in_memory_has_snapshots_too() {
    let store = Memory::new();
    fill(&store, 700);
    let folder = tempfile::tempdir().unwrap();
    let copy = restored(&backup_of(&store).0, &folder.path().join("copy"));
    assert_eq!(all(&copy), all(&store));
    sound(&copy);
}

#[test]
fn a_backup_is_one_moment_while_commits_and_collections_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store"), &small()).unwrap();
    let orefs = fill(&store, 4000);
    let class = store.define_class(&links_class()).unwrap();
    let before = all(&store);
    let is_over = AtomicBool::new(false);
    let (copies, history) = std::thread::scope(|threads| {
        // Each commit changes two objects far apart, so that a copy of two moments is found out.
        let writer = threads.spawn(|| {
            let mut history: Vec<(Tid, [(Oref, Bytes); 2])> = Vec::new();
            let mut n = 0;
            while !is_over.load(Ordering::Relaxed) {
                n += 1;
                let pair = [orefs[n * 7 % 1000], orefs[2000 + n * 13 % 1000]];
                let writes = pair.map(|oref| (oref, links(class, n as i64, n * 31 % 900, &[])));
                let tid = put(&store, writes.to_vec(), vec![]);
                history.push((tid, writes));
            }
            history
        });
        let collector = threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Garbage is made and freed: snapshots have it or not, and are sound.
                let creates = fresh(&store, 50).into_iter().map(|o| (o, links(class, 5, 50, &[]))).collect();
                put(&store, vec![], creates);
                store.collect(&mut go_on).unwrap();
            }
        });
        let copy = |_| {
            let mut snapshot = store.snapshot().unwrap();
            // What the snapshot has is replaced in the base before it is read.
            while store.head().0 < snapshot.head.0 + 20 {
                std::thread::yield_now();
            }
            drop(store.snapshot().unwrap());
            let mut out = Vec::new();
            let written = backup::write(&mut snapshot, &mut out, &mut |_| {}).unwrap();
            (out, written)
        };
        let copies: Vec<_> = (0..8).map(copy).collect();
        is_over.store(true, Ordering::Relaxed);
        collector.join().unwrap();
        (copies, writer.join().unwrap())
    });
    let heads: Vec<Tid> = copies.iter().map(|(_, written)| written.head).collect();
    assert!(heads.windows(2).all(|pair| pair[0] < pair[1]), "commits went on: {heads:?}");
    for (at, (bytes, written)) in copies.iter().enumerate() {
        let copy = restored(bytes, &folder.path().join(at.to_string()));
        sound(&copy);
        let mut expected = before.clone();
        for (tid, writes) in history.iter().filter(|(tid, _)| *tid <= written.head) {
            expected.extend(writes.iter().map(|(o, bytes)| (*o, Stored { tid: *tid, bytes: bytes.clone() })));
        }
        let found = all(&copy);
        for (oref, stored) in &expected {
            assert_eq!(found.get(oref), Some(stored), "object {oref} of the copy at {}", written.head);
        }
        assert!(found.values().all(|stored| stored.tid <= written.head));
    }
}

#[test]
fn a_backup_that_is_cut_off_or_changed_makes_no_store() {
    let store = Memory::new();
    fill(&store, 300);
    let (bytes, _) = backup_of(&store);
    let read = |bytes: &[u8]| {
        let restore = restore_on(Box::new(Sim::new(1)), [7; 32]).unwrap();
        backup::read(&mut Cursor::new(bytes), restore, &mut |_| {})
    };
    assert!(read(&bytes).is_ok());
    for end in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        assert!(matches!(read(&bytes[..end]), Err(BackupError::Io(_))), "cut off at {end}");
    }
    // Changed bytes of records are as good as others; all else is told, and nothing panics.
    for at in (0..bytes.len()).step_by(61).chain(0..40) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x81;
        let _ = read(&changed);
    }
    let frame =
        |kind: u8, contents: &[u8]| [&(contents.len() as u32).to_le_bytes()[..], &[kind], contents].concat();
    let begin = frame(1, &[1, 3, 9, 1]);
    for (bytes, told) in [
        (frame(1, &[2, 3, 9, 1]), "version 2"),
        (frame(1, &[1, 0, 9, 1]), "no store has"),
        (frame(4, &[]), "out of place"),
        ([&begin[..], &begin].concat(), "out of place"),
        ([&begin[..], &frame(9, &[])].concat(), "kind 9"),
        ([&begin[..], &frame(4, &[2, 1, 0])].concat(), "not in its place"),
        ([&begin[..], &frame(4, &[1, 4, 0])].concat(), "cannot be in it"),
        ([&begin[..], &frame(4, &[9, 1, 0])].concat(), "cannot be in it"),
        ([&begin[..], &frame(5, &[1, 0])].concat(), "not as many objects"),
        ([&begin[..], &frame(6, b"the disk is gone")].concat(), "the disk is gone"),
        (
            u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_le_bytes().into_iter().chain([4]).collect(),
            "the limit",
        ),
    ] {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
    // A length alone takes no memory.
    let long = [&begin[..], &(FRAME_BYTES_MAX as u32).to_le_bytes(), &[4, 1, 1]].concat();
    assert!(matches!(read(&long), Err(BackupError::Io(_))));
}

#[test]
fn a_copy_without_room_fails_and_one_that_loses_power_is_none() {
    let store = Memory::new();
    fill(&store, 3000);
    let (bytes, written) = backup_of(&store);
    let read = |sim: &Sim| -> Result<Written, BackupError> {
        let restore = restore_on(Box::new(sim.clone()), [7; 32])?;
        backup::read(&mut Cursor::new(&bytes), restore, &mut |_| {})
    };
    let whole = Sim::new(1);
    assert_eq!(read(&whole).unwrap(), written);
    let mut failed = 0;
    for seed in 0..60 {
        let sim = Sim::new(seed);
        sim.fail_one_in(6, &[Fault::Full]);
        match read(&sim) {
            Ok(_) => assert_eq!(sim.failed(), 0),
            Err(BackupError::Store(Error::Io { source, .. })) => {
                failed += 1;
                assert!(!source.to_string().is_empty());
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(failed > 20, "{failed}");
    // When it has returned, all of it is on the disk.
    whole.lose_power(Tear::Lost);
    let options = small();
    let copy = bifrost_repository::embedded::open_on(&whole, [9; 32], &options).unwrap();
    assert_eq!(all(&copy), all(&store));
    sound(&copy);
}
