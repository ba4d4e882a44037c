//! The engine in memory passes the suite, also with a buffer that is installed all the time.

mod support;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use bifrost_repository::memory::{Map, Memory};
use bifrost_repository::store::{Installing, Journal, JournalError, Options, Store};
use bifrost_repository::{BatchId, ClassNumber, CommitError, Holder, Oref, Repository};

#[test]
fn suite() {
    support::suite::suite(|changes_kept| {
        Memory::with_options(Options { changes_kept, installing: Installing::AtOnce, ..Options::default() })
    });
}

#[test]
fn suite_with_a_small_buffer() {
    for installing in [Installing::AtOnce, Installing::Later] {
        support::suite::suite(|changes_kept| {
            Memory::with_options(Options { changes_kept, installing, log_bytes: 300 })
        });
    }
}

/// A log that says when it is to write, and waits until it may, once.
struct Gate(Option<(Sender<()>, Receiver<()>)>);

impl Journal for Gate {
    fn fits(&self, _: usize) -> bool {
        true
    }

    fn append(&mut self, sequence: u64, _: &[u8]) -> Result<(), JournalError> {
        // The first record reserves orefs.
        if sequence > 1
            && let Some((writes, may)) = self.0.take()
        {
            writes.send(()).unwrap();
            may.recv().unwrap();
        }
        Ok(())
    }

    fn turn(&mut self) {}

    fn generation(&self) -> u64 {
        1
    }

    fn used(&self) -> u64 {
        0
    }
}

struct Asked(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Holder for Asked {
    fn held(&self, _: &mut dyn FnMut(Oref)) {
        self.0.lock().unwrap().take().into_iter().for_each(|work| work());
    }
}

/// A commit that is being written when a collection starts counts as a later one: what it makes stays.
#[test]
fn commits_on_their_way_when_a_collection_starts() {
    let ((writes, written), (may, wait)) = (channel(), channel());
    let store = Store::start(Map::default(), Gate(Some((writes, wait))), vec![], Options::default()).unwrap();
    let new = support::fresh(&store, 1)[0];
    let before = store.head();
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| support::put(&store, vec![], vec![(new, root_like())]));
        written.recv().unwrap();
        // Nobody sees it, or hears that it is in the way of others.
        assert_eq!((store.head(), support::fetch(&store, new)), (before, None));
        // It goes on when the collection has started and asks for what is held.
        let (ask, asked) = channel();
        let (answer, answered) = channel();
        let holder = Asked(Mutex::new(Some(Box::new(move || {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }))));
        let _registration = store.register(Arc::new(holder));
        let collection = scope.spawn(|| store.collect(&mut |_| {}).unwrap());
        asked.recv().unwrap();
        may.send(()).unwrap();
        commit.join().unwrap();
        answer.send(()).unwrap();
        assert_eq!(collection.join().unwrap().freed, 0);
    });
    assert!(support::fetch(&store, new).is_some());
    assert_eq!(store.collect(&mut |_| {}).unwrap().freed, 1);
}

fn root_like() -> bytes::Bytes {
    support::directory(ClassNumber::DIRECTORY, &[])
}

/// A conflict with a commit that is not durable yet is told when that is, and so is a batch that is committed twice.
#[test]
fn conflicts_with_commits_on_their_way() {
    let ((writes, written), (may, wait)) = (channel(), channel());
    let store = Store::start(Map::default(), Gate(Some((writes, wait))), vec![], Options::default()).unwrap();
    let start = store.head();
    let id = BatchId { session: 1, number: 1 };
    let commit = |reply: &'static str, batch: bool| {
        let batch = batch.then(|| (id, reply.into()));
        support::commit_reading(&store, start, &[], vec![(Oref::ROOT, root_like())], vec![], batch)
    };
    // Reserves orefs, so that the gate is at the next record.
    support::fresh(&store, 1);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| commit("first", true));
        written.recv().unwrap();
        let again = scope.spawn(|| commit("again", true));
        let other = scope.spawn(|| commit("other", false));
        // A reader of what nobody sees yet is not in anybody's way.
        let read = support::commit_reading(&store, start, &[Oref::ROOT], vec![], vec![], None);
        assert_eq!(read.unwrap(), start);
        may.send(()).unwrap();
        let head = first.join().unwrap().unwrap();
        assert!(matches!(again.join().unwrap(), Err(CommitError::Repeated(reply)) if reply == "first"));
        match other.join().unwrap() {
            Err(CommitError::Conflict { orefs, upto }) => {
                assert_eq!((&orefs[..], upto), (&[Oref::ROOT][..], head))
            }
            other => panic!("{other:?}"),
        }
    });
}
