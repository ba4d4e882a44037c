//! The engine over files passes the suite, keeps what it has over orderly ends, and lets one process in.

mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bifrost_repository::embedded::{Embedded, Options, open};
use bifrost_repository::record::ClassDescriptor;
use bifrost_repository::{BatchId, Changes, Error, Oref, Repository, go_on, store};
use bytes::Bytes;
use support::{commit_reading, directory, fetch, fresh, links, links_class, oref, put, sound};

/// Small halves of the log, so that states go to the base all the time.
fn small(changes_kept: usize) -> Options {
    let store = store::Options { log_bytes: 256 << 10, changes_kept, ..store::Options::default() };
    Options { store, cache_bytes: 1 << 20, log_step_bytes: 64 << 10 }
}

#[test]
fn suite() {
    let folders = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    support::suite::suite(|changes_kept| {
        count.set(count.get() + 1);
        open(&folders.path().join(count.get().to_string()), &small(changes_kept)).unwrap()
    });
}

fn reopened(store: Embedded, folder: &Path) -> Embedded {
    drop(store);
    open(folder, &small(1 << 16)).unwrap()
}

#[test]
fn everything_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &small(1 << 16)).unwrap();
    let class = store.define_class(&links_class()).unwrap();
    let orefs = fresh(&store, 100);
    let mut creates: Vec<_> = orefs.iter().map(|o| (*o, links(class, 0, 3000, &[orefs[0]]))).collect();
    let last = creates.split_off(90);
    put(&store, vec![(Oref::ROOT, directory(class, &[("a", orefs[0])]))], creates);
    let id = BatchId { session: u128::MAX - 5, number: 3 };
    let head = commit_reading(&store, store.head(), &[], vec![], last, Some((id, "reply".into()))).unwrap();
    let before = store.scan(Oref::ROOT, 1000).unwrap();
    assert_eq!(before.len(), 101);

    let store = reopened(store, folder.path());
    assert_eq!(store.head(), head);
    assert_eq!(store.scan(Oref::ROOT, 1000).unwrap(), before);
    assert_eq!(store.outcome(id).unwrap(), Some(Bytes::from("reply")));
    assert_eq!(store.define_class(&links_class()).unwrap(), class);
    assert!(fresh(&store, 1)[0] > orefs[99]);
    assert_eq!(store.changes(head), Changes::Written { orefs: vec![], upto: head });
    assert_eq!(store.changes(support::tid(head.0 - 1)), Changes::TooOld { upto: head });
    let info = store.info().unwrap();
    assert_eq!((info.objects, info.buffered_bytes, info.classes, info.sessions), (101, 0, 2, 1));
    sound(&store);
    // `a` refers to itself.
    assert_eq!(store.collect(&mut go_on).unwrap().freed, 99);
    let store = reopened(store, folder.path());
    assert_eq!(store.info().unwrap().objects, 2);
    assert!(fetch(&store, orefs[1]).is_none());
    sound(&store);
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &small(10)).unwrap();
    assert!(matches!(open(folder.path(), &small(10)), Err(Error::Locked { process: Some(_) })));
    drop(store);
    open(folder.path(), &small(10)).unwrap();
}

#[test]
fn commits_larger_than_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &small(10)).unwrap();
    let orefs = fresh(&store, 4);
    for oref in &orefs {
        put(&store, vec![], vec![(*oref, vec![7; 1 << 20].into())]);
        put(&store, vec![(*oref, "small".into())], vec![]);
    }
    let class = ClassDescriptor { specification: "x".repeat(1 << 20), ..links_class() };
    let number = store.define_class(&class).unwrap();
    let store = reopened(store, folder.path());
    assert_eq!(*store.classes()[number.0 as usize - 1], class);
    assert!(orefs.iter().all(|oref| &fetch(&store, *oref).unwrap().bytes[..] == b"small"));
}

/// Whatever is done to the files, opening them says so, or gives what was there.
#[test]
fn damaged_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &small(10)).unwrap();
    let orefs = fresh(&store, 50);
    put(&store, vec![], orefs.iter().map(|o| (*o, Bytes::from(vec![o.get() as u8; 500]))).collect());
    drop(store);
    for name in ["base", "log.0", "log.1"] {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        let path = copy.path().join(name);
        std::fs::remove_file(&path).unwrap();
        if name != "base" {
            assert!(matches!(open(copy.path(), &small(10)), Err(Error::Damaged { .. })), "{name}");
            continue;
        }
        std::fs::write(&path, "").unwrap();
        assert!(matches!(open(copy.path(), &small(10)), Err(Error::Damaged { .. })));
        std::fs::write(&path, vec![0; 10_000]).unwrap();
        assert!(open(copy.path(), &small(10)).is_err());
        // A byte here and there.
        let length = std::fs::metadata(folder.path().join(name)).unwrap().len();
        for at in (0..length).step_by(length as usize / 150) {
            std::fs::copy(folder.path().join(name), &path).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&[0xA5; 8], at).unwrap();
            let Ok(store) = open(copy.path(), &small(10)) else { continue };
            let _ = store.fetch(&orefs);
            let _ = store.check(&mut |_| {});
            let _ = commit_reading(&store, store.head(), &[], vec![(oref(2), "x".into())], vec![], None);
        }
    }
}
