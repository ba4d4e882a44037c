//! What a store bounds: at the limit it works, and one beyond is an error that says which limit, and nothing is lost. The limits of
//! [`bifrost_repository`] that a database keeps by itself are in `postgres.rs`.

mod support;

use std::io::{BufReader, Read};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use bifrost_repository::dump::{self, DUMP_LINE_BYTES_MAX, DUMP_OREF_MAX, LoadError};
use bifrost_repository::embedded::{Options, open};
use bifrost_repository::memory::{Map, Memory};
use bifrost_repository::record::{ClassDescriptor, Field, FieldKind, Kind};
use bifrost_repository::store::{self, Entry, Store};
use bifrost_repository::{
    AllObjects, BatchId, CHANGES_KEPT_MAX, CLASSES_MAX, COMMIT_BYTES_MAX, Changes, Commit, CommitError,
    Error, FIELDS_MAX, GROUP_BYTES_MAX, ObjectSet, Oref, REPLIES_KEPT_BYTES_MAX, REPLY_BYTES_MAX, Report,
    Repository, SESSIONS_KEPT_MAX, SPECIFICATION_BYTES_MAX, Tid,
};
use bytes::Bytes;
use support::gate::Gate;
use support::{commit_reading, directory, fetch, fresh, links, links_class, oref, put, sound};

/// What is said of something that is too large.
#[track_caller]
fn said<T>(result: Result<T, impl Into<CommitError>>) -> String {
    match result.map_err(Into::into) {
        Err(CommitError::Store(error @ Error::Limit { .. })) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was done"),
    }
}

fn commit_of_the_most_bytes(store: &dyn Repository) {
    let half = Bytes::from(vec![5; COMMIT_BYTES_MAX / 2]);
    let [a, b, c] = fresh(store, 3)[..] else { panic!() };
    let start = put(store, vec![], vec![(a, half.clone()), (b, half.clone())]);
    let beyond = vec![(a, half.clone()), (b, half), (c, Bytes::from_static(b"1"))];
    assert_eq!(
        said(commit_reading(store, start, &[], vec![], beyond, None)),
        format!(
            "the number of bytes of a commit is {}; the limit is {COMMIT_BYTES_MAX}",
            COMMIT_BYTES_MAX + 1
        )
    );
    assert_eq!((store.head(), fetch(store, c)), (start, None));
    assert_eq!(fetch(store, b).unwrap().bytes.len(), COMMIT_BYTES_MAX / 2);
    // One record alone, too; and the store goes on.
    let whole = Bytes::from(vec![6; COMMIT_BYTES_MAX]);
    put(store, vec![(a, whole.clone())], vec![]);
    assert!(fetch(store, a).unwrap().bytes == whole);
    put(store, vec![(a, "small".into())], vec![(c, "1".into())]);
}

#[test]
fn bytes_of_a_commit() {
    commit_of_the_most_bytes(&Memory::new());
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &Options::default()).unwrap();
    commit_of_the_most_bytes(&store);
    let before = store.scan(Oref::ROOT, 10).unwrap();
    drop(store);
    assert!(open(folder.path(), &Options::default()).unwrap().scan(Oref::ROOT, 10).unwrap() == before);
}

fn reply(store: &dyn Repository, session: u128, number: u64, bytes: &Bytes) -> Result<Tid, CommitError> {
    let batch = (BatchId { session, number }, bytes.clone());
    commit_reading(store, store.head(), &[], vec![], vec![], Some(batch))
}

fn outcome(store: &dyn Repository, session: u128) -> Option<usize> {
    store.outcome(BatchId { session, number: 1 }).unwrap().map(|reply| reply.len())
}

#[test]
fn bytes_of_a_reply_and_of_all_replies() {
    let store = Memory::new();
    let most = Bytes::from(vec![1; REPLY_BYTES_MAX]);
    let beyond = Bytes::from(vec![1; REPLY_BYTES_MAX + 1]);
    let sessions = (REPLIES_KEPT_BYTES_MAX / REPLY_BYTES_MAX) as u128;
    for session in 1..=sessions {
        reply(&store, session, 1, &most).unwrap();
    }
    let head = store.head();
    assert_eq!(
        said(reply(&store, 1, 2, &beyond)),
        format!("the number of bytes of a batch's reply is {}; the limit is {REPLY_BYTES_MAX}", beyond.len())
    );
    assert_eq!(store.head(), head);
    // All are kept; one byte more, and the oldest is not.
    assert!((1..=sessions).all(|session| outcome(&store, session) == Some(REPLY_BYTES_MAX)));
    reply(&store, sessions + 1, 1, &Bytes::from_static(b"1")).unwrap();
    assert_eq!((outcome(&store, 1), outcome(&store, 2)), (None, Some(REPLY_BYTES_MAX)));
    assert_eq!(outcome(&store, sessions + 1), Some(1));
    assert_eq!(store.info().unwrap().sessions, sessions as u64);
}

#[test]
fn sessions_whose_replies_are_kept() {
    let store = Memory::new();
    let none = Bytes::new();
    for session in 1..=SESSIONS_KEPT_MAX as u128 {
        reply(&store, session, 1, &none).unwrap();
    }
    assert_eq!(outcome(&store, 1), Some(0));
    // One that comes again is not one more, and is the youngest now.
    reply(&store, 1, 2, &none).unwrap();
    assert_eq!((outcome(&store, 2), store.info().unwrap().sessions), (Some(0), SESSIONS_KEPT_MAX as u64));
    reply(&store, u128::MAX, 1, &none).unwrap();
    assert_eq!((outcome(&store, 2), outcome(&store, 3)), (None, Some(0)));
    assert_eq!(store.outcome(BatchId { session: 1, number: 2 }).unwrap(), Some(none));
    assert_eq!(store.info().unwrap().sessions, SESSIONS_KEPT_MAX as u64);
}

#[test]
fn classes_of_a_store() {
    let store = Memory::new();
    let class = |version: usize| ClassDescriptor { version: version as u32, ..links_class() };
    for number in 2..=CLASSES_MAX {
        assert_eq!(store.define_class(&class(number)).unwrap().0 as usize, number);
    }
    assert_eq!(
        said(store.define_class(&class(CLASSES_MAX + 1))),
        format!("the number of classes of a store is {}; the limit is {CLASSES_MAX}", CLASSES_MAX + 1)
    );
    assert_eq!((store.classes().len(), store.info().unwrap().classes), (CLASSES_MAX, CLASSES_MAX as u64));
    // Those that there are can be used.
    let last = store.define_class(&class(CLASSES_MAX)).unwrap();
    assert_eq!(last.0 as usize, CLASSES_MAX);
    let a = fresh(&store, 1)[0];
    put(&store, vec![(Oref::ROOT, directory(last, &[("a", a)]))], vec![(a, links(last, 0, 0, &[a]))]);
    sound(&store);
}

#[test]
fn parts_of_a_class() {
    let store = Memory::new();
    let plain = ClassDescriptor { kind: Kind::Object(vec![]), ..links_class() };
    let fields = |count| {
        let field = |number| Field { name: format!("f{number}"), kind: FieldKind::Int };
        ClassDescriptor { kind: Kind::Object((0..count).map(field).collect()), ..plain.clone() }
    };
    let supertypes = |count| ClassDescriptor {
        supertypes: (0..count).map(|number| format!("t{number}")).collect(),
        ..plain.clone()
    };
    let specification = |bytes| ClassDescriptor { specification: "s".repeat(bytes), ..plain.clone() };
    let name = |bytes| ClassDescriptor { name: "n".repeat(bytes), ..plain.clone() };
    type Make<'a> = &'a dyn Fn(usize) -> ClassDescriptor;
    let parts: [(Make<'_>, usize, &str); 4] = [
        (&fields, FIELDS_MAX, "the number of fields of a class"),
        (&supertypes, FIELDS_MAX, "the number of supertypes of a class"),
        (&specification, SPECIFICATION_BYTES_MAX, "the length of a specification"),
        (&name, SPECIFICATION_BYTES_MAX, "the length of a class's name"),
    ];
    for (count, (make, most, what)) in (2..).zip(parts) {
        let number = store.define_class(&make(most)).unwrap();
        assert_eq!(*store.classes()[number.0 as usize - 1], make(most));
        assert_eq!(
            said(store.define_class(&make(most + 1))),
            format!("{what} is {}; the limit is {most}", most + 1)
        );
        assert_eq!(store.classes().len(), count);
    }
}

#[test]
fn changes_that_are_remembered() {
    const EACH: usize = 1 << 10;
    let store = Memory::new();
    let orefs = fresh(&store, EACH as u32 - 1);
    let start = put(&store, vec![], orefs.iter().map(|oref| (*oref, "0".into())).collect());
    // A commit counts one more than it writes.
    for _ in 0..CHANGES_KEPT_MAX / EACH {
        put(&store, orefs.iter().map(|oref| (*oref, "1".into())).collect(), vec![]);
    }
    let head = store.head();
    assert_eq!(store.changes(start, &AllObjects), Changes::Written { orefs: orefs.clone(), upto: head });
    let unread = |from| commit_reading(&store, from, &[Oref::ROOT], vec![], vec![], None);
    assert_eq!(unread(start).unwrap(), head);
    let head = put(&store, vec![(orefs[0], "2".into())], vec![]);
    assert_eq!(store.changes(start, &AllObjects), Changes::TooOld { upto: head });
    match unread(start) {
        Err(refused @ CommitError::TooOld { .. }) => assert_eq!(
            refused.to_string(),
            format!("the transaction began before the stored changes: run it again from commit {head}")
        ),
        other => panic!("{other:?}"),
    }
    assert_eq!(unread(Tid(start.0 + 1)).unwrap(), head);
    assert!(orefs.iter().all(|oref| fetch(&store, *oref).is_some()));
}

/// Reads one object, and says when it is asked about another: when it is compared with the commit that is being written.
struct Compared {
    own: Oref,
    first: Oref,
    told: Mutex<Option<Sender<()>>>,
}

impl ObjectSet for Compared {
    fn contains(&self, oref: Oref) -> bool {
        if oref == self.first
            && let Some(told) = self.told.lock().unwrap().take()
        {
            told.send(()).unwrap();
        }
        oref == self.own
    }
}

#[test]
fn bytes_of_a_group_of_commits() {
    const EACH: usize = 20 << 20;
    const COMMITS: usize = 8;
    let (journal, written, may) = Gate::closed();
    let given = journal.given.clone();
    let store = Store::start(Map::default(), journal, vec![], store::Options::default()).unwrap();
    let orefs = fresh(&store, 1 + COMMITS as u32);
    let first = orefs[0];
    let bytes = Bytes::from(vec![3; EACH]);
    let (told, compared) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| put(&store, vec![], vec![(first, "1".into())]));
        written.recv().unwrap();
        for own in &orefs[1..] {
            let reads = Compared { own: *own, first, told: Mutex::new(Some(told.clone())) };
            let (store, bytes) = (&store, bytes.clone());
            scope.spawn(move || {
                let creates = vec![(*own, bytes)];
                let valid_to = Tid(1);
                store
                    .commit(Commit { valid_to, reads: &reads, writes: vec![], creates, batch: None })
                    .unwrap();
            });
        }
        // All are in the group that gathers, or wait for it to go.
        (0..COMMITS).for_each(|_| compared.recv().unwrap());
        may.send(()).unwrap();
    });
    assert!(orefs[1..].iter().all(|oref| fetch(&store, *oref).unwrap().bytes.len() == EACH));
    let given = given.lock().unwrap();
    let most = *given.iter().max().unwrap();
    assert!(most > GROUP_BYTES_MAX, "commits join as long as there is room: {given:?}");
    assert!(most < GROUP_BYTES_MAX + EACH + 1000, "and no longer: {given:?}");
}

#[test]
fn mistakes_of_a_report() {
    let store = Memory::new();
    let class = store.define_class(&links_class()).unwrap();
    let [nothing, last] = fresh(&store, 2)[..] else { panic!() };
    let wrong = fresh(&store, Report::MISTAKES_MAX as u32);
    put(&store, vec![], wrong.iter().map(|oref| (*oref, links(class, 0, 0, &[nothing]))).collect());
    let report = store.check(&mut |_| {}).unwrap();
    assert_eq!(report.mistakes.len(), Report::MISTAKES_MAX);
    put(&store, vec![], vec![(last, links(class, 0, 0, &[nothing]))]);
    let again = store.check(&mut |_| {}).unwrap();
    assert_eq!((again.mistakes.len(), again.objects), (Report::MISTAKES_MAX, report.objects + 1));
}

/// The lines of a dump, and spaces before the end of the last one, that many bytes in it all together.
fn dump_with_a_line_of(bytes: u64) -> impl Read {
    let store = Memory::new();
    let mut text = Vec::new();
    dump::write(&store, &mut text, &mut |_| {}).unwrap();
    assert_eq!(text.pop(), Some(b'\n'));
    let last = text.rsplit(|byte| *byte == b'\n').next().unwrap().len() as u64;
    let spaces = std::io::repeat(b' ').take(bytes - last - 1);
    std::io::Cursor::new(text).chain(spaces).chain(&b"\n"[..])
}

#[test]
fn bytes_of_a_line_of_a_dump() {
    let load = |bytes| {
        let mut input = BufReader::with_capacity(1 << 20, dump_with_a_line_of(bytes));
        dump::load(&Memory::new(), &mut input, &mut |_| {})
    };
    assert_eq!(load(DUMP_LINE_BYTES_MAX).unwrap(), 1);
    match load(DUMP_LINE_BYTES_MAX + 1) {
        Err(error @ LoadError::Line { line: 3, .. }) => {
            assert_eq!(
                error.to_string(),
                format!("line 3: the line is longer than {DUMP_LINE_BYTES_MAX} bytes")
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn orefs_of_a_dump() {
    let from = Memory::new();
    let class = from.define_class(&links_class()).unwrap();
    let a = fresh(&from, 1)[0];
    put(&from, vec![(Oref::ROOT, directory(class, &[("a", a)]))], vec![(a, links(class, 7, 0, &[]))]);
    let mut text = Vec::new();
    dump::write(&from, &mut text, &mut |_| {}).unwrap();
    let text = String::from_utf8(text).unwrap();
    // Another name for the object.
    let renamed = |to: u64| text.replace(&format!("\"oref\":{}", a.get()), &format!("\"oref\":{to}"));
    let store = Memory::new();
    dump::load(&store, &mut renamed(DUMP_OREF_MAX).as_bytes(), &mut |_| {}).unwrap();
    assert_eq!(fetch(&store, oref(DUMP_OREF_MAX)).unwrap().bytes, links(class, 7, 0, &[]));
    assert!(fresh(&store, 1)[0].get() > DUMP_OREF_MAX);
    sound(&store);
    let refused = dump::load(&Memory::new(), &mut renamed(DUMP_OREF_MAX + 1).as_bytes(), &mut |_| {});
    let said = refused.unwrap_err().to_string();
    assert!(said.ends_with(&format!("{DUMP_OREF_MAX} is the largest oref that is loaded")), "{said}");
}

#[test]
fn orefs_of_a_store() {
    let given = vec![vec![Entry::Reserve(Oref::MAX - 10)]];
    let store = Store::start(Map::default(), Gate::default(), given, store::Options::default()).unwrap();
    let beyond = format!("the number of orefs given is {}; the limit is {}", Oref::MAX + 1, Oref::MAX);
    assert_eq!(said(store.allocate(11)), beyond);
    let last = oref(fresh(&store, 10)[9].get());
    assert_eq!(last.get(), Oref::MAX - 1);
    assert_eq!(said(store.allocate(1)), beyond);
    put(&store, vec![], vec![(last, "1".into())]);
    assert_eq!(store.scan(last, 10).unwrap().len(), 1);
}
