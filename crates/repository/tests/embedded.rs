//! The engine over files passes the suite, keeps what it has over orderly ends, and lets one process in.

mod support;

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use bifrost_repository::embedded::{Embedded, Options, copy, exists, open};
use bifrost_repository::record::ClassDescriptor;
use bifrost_repository::{AllObjects, BatchId, Changes, Error, Oref, Repository, go_on, store};
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
    assert_eq!(store.changes(head, &AllObjects), Changes::Written { orefs: vec![], upto: head });
    assert_eq!(store.changes(support::tid(head.0 - 1), &AllObjects), Changes::TooOld { upto: head });
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

/// A copy of a folder, as a process that is killed leaves it.
fn copied(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

#[track_caller]
fn refused(folder: &Path, why: &str) {
    let before: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let error = open(folder, &small(10)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }) && error.to_string().contains(why), "{error}");
    let after: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(before.len(), after.len(), "nothing is made");
}

#[test]
fn a_store_that_has_lost_its_base_is_not_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), &small(10)).unwrap());
    // Before anything was committed, and when all that is left says that there was a store.
    let copy = copied(folder.path());
    std::fs::remove_file(copy.path().join("base")).unwrap();
    refused(copy.path(), "the file base is missing");
    let store = open(folder.path(), &small(10)).unwrap();
    let oref = fresh(&store, 1)[0];
    put(&store, vec![], vec![(oref, "x".into())]);
    drop(store);
    std::fs::remove_file(folder.path().join("base")).unwrap();
    assert!(exists(folder.path()));
    refused(folder.path(), "the file base is missing");
    // The log is enough to know.
    std::fs::remove_file(folder.path().join("acknowledged")).unwrap();
    assert!(exists(folder.path()));
    refused(folder.path(), "the file base is missing");
}

#[test]
fn a_log_that_is_older_than_what_was_acknowledged_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &small(10)).unwrap();
    let orefs = fresh(&store, 20);
    let add = |some: &[Oref]| {
        for oref in some {
            put(&store, vec![], vec![(*oref, "x".into())]);
        }
    };
    add(&orefs[..10]);
    let early = copied(folder.path());
    add(&orefs[10..]);
    let head = store.head();
    let logs = |from: &Path, to: &Path, names: &[&str]| {
        for name in names {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    };
    // Killed, with its own log; with that of an earlier moment; with none of its bytes; with a lost
    // end.
    let killed = copied(folder.path());
    assert_eq!(open(killed.path(), &small(10)).unwrap().head(), head);
    let killed = copied(folder.path());
    logs(early.path(), killed.path(), &["log.0", "log.1"]);
    refused(killed.path(), "the log is older than the store");
    let killed = copied(folder.path());
    for name in ["log.0", "log.1"] {
        std::fs::write(killed.path().join(name), "").unwrap();
    }
    refused(killed.path(), "the log is older than the store");
    let killed = copied(folder.path());
    for name in ["log.0", "log.1"] {
        let file = OpenOptions::new().write(true).open(killed.path().join(name)).unwrap();
        file.set_len(file.metadata().unwrap().len().min(15 * 4096)).unwrap();
    }
    refused(killed.path(), "the log is older than the store");
    // Ended in order: the base has all; only files of an earlier moment, with the number of theirs,
    // are refused.
    drop(store);
    let ended = copied(folder.path());
    logs(early.path(), ended.path(), &["log.0", "log.1", "acknowledged"]);
    refused(ended.path(), "the log is older than the base");
    let ended = copied(folder.path());
    logs(early.path(), ended.path(), &["base"]);
    assert_eq!(open(ended.path(), &small(10)).unwrap().head(), head, "the log has what an older base lacks");
    logs(early.path(), folder.path(), &["log.0", "log.1"]);
    assert_eq!(open(folder.path(), &small(10)).unwrap().head(), head, "nothing of the log is needed");
}

#[test]
fn a_store_of_another_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    drop(open(&store, &small(10)).unwrap());
    for (format, why) in [(1, "dump the store with the program that made it"), (4, "use a newer program")] {
        std::fs::remove_file(store.join("base")).unwrap();
        let database = redb::Database::create(store.join("base")).unwrap();
        let write = database.begin_write().unwrap();
        let numbers = redb::TableDefinition::<&str, u64>::new("numbers");
        write.open_table(numbers).unwrap().insert("format", format).unwrap();
        write.commit().unwrap();
        drop(database);
        let error = open(&store, &small(10)).map(drop).unwrap_err();
        assert!(matches!(error, Error::Format { found, known: 3 } if found == format), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn files_and_folders_are_their_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let store = folder.path().join("some/store");
    let opened = open(&store, &small(10)).unwrap();
    let oref = fresh(&opened, 1)[0];
    put(&opened, vec![], vec![(oref, "x".into())]);
    drop(opened);
    copy(&store, &folder.path().join("copy"), &mut |_, _| {}).unwrap();
    // One that an older program has left.
    std::fs::set_permissions(store.join("base"), Permissions::from_mode(0o644)).unwrap();
    drop(open(&store, &small(10)).unwrap());
    // A copy has no identity before it is opened.
    for (made, count) in [(store.clone(), 6), (folder.path().join("copy"), 5)] {
        assert_eq!(mode(&made), 0o700);
        let files: Vec<_> = std::fs::read_dir(&made).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), count);
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
    assert_eq!(mode(&folder.path().join("some")), 0o700);
}

#[test]
fn an_identity_lasts_and_no_copy_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let [path, copied] = ["store", "copy"].map(|name| folder.path().join(name));
    let store = open(&path, &small(10)).unwrap();
    let identity = store.identity();
    let store = reopened(store, &path);
    assert_eq!(store.identity(), identity);
    drop(store);
    copy(&path, &copied, &mut |_, _| {}).unwrap();
    let of_copy = open(&copied, &small(10)).unwrap().identity();
    assert_ne!(of_copy, identity);
    assert_eq!(open(&copied, &small(10)).unwrap().identity(), of_copy);
    assert_eq!(open(&path, &small(10)).unwrap().identity(), identity);
    // A store of an older program has none, and the rest of a file that was never whole.
    std::fs::remove_file(path.join("identity")).unwrap();
    std::fs::write(path.join("identity.new"), "an unfinished file, which is long enough").unwrap();
    let given = open(&path, &small(10)).unwrap().identity();
    assert_ne!(given, identity);
    assert_eq!(open(&path, &small(10)).unwrap().identity(), given);
    // A file of another store, or one that has changed, is no identity.
    let whole = std::fs::read(path.join("identity")).unwrap();
    let other = folder.path().join("other");
    drop(open(&other, &small(10)).unwrap());
    let of_other = std::fs::read(other.join("identity")).unwrap();
    let mut changed = whole.clone();
    changed[20] ^= 1;
    for wrong in [&of_other[..], &changed, &whole[..whole.len() - 1], b""] {
        std::fs::write(path.join("identity"), wrong).unwrap();
        let error = open(&path, &small(10)).map(drop).unwrap_err();
        assert!(matches!(&error, Error::Damaged { what } if what.contains("the file identity")), "{error}");
    }
    std::fs::write(path.join("identity"), whole).unwrap();
    assert_eq!(open(&path, &small(10)).unwrap().identity(), given);
}
