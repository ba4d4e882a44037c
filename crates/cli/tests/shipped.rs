//! Batches that are transactions, from clients of their own that get in each other's way, and over a server that is killed.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../../../examples/database/rust/src/bifrost_stubs.rs"]
mod bifrost_stubs;

use bifrost_stubs::{DataBase, DataElem};
use bifrost_veneer::{BatchName, Error, How, Misuse};
use support::{Server, example};

const CLIENTS: i64 = 4;
const VISITS: i64 = 25;

fn visits(url: &str) -> i64 {
    let session = bifrost_stubs::connect(url).unwrap();
    let db: DataBase = session.lookup("database");
    db.fetch("bob").visits().claim().unwrap()
}

#[test]
fn clients_in_each_others_way_lose_nothing() {
    let server = Server::serve(&example("database"), &["--store", "memory:"]);
    let before = visits(&server.urls[0]);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let session = bifrost_stubs::connect(&server.urls[0]).unwrap();
                let db: DataBase = session.lookup("database");
                for _ in 0..VISITS {
                    // More than a server lets a batch be run again by itself, never.
                    let counted = session.transaction(How::default(), || {
                        let bob = db.fetch("bob");
                        bob.touch();
                        bob.visits()
                    });
                    counted.unwrap().claim().unwrap();
                }
                // One crossing each: nobody's code ran again.
                assert_eq!(session.counters().crossings, VISITS as u64 + 1);
            });
        }
    });
    assert_eq!(visits(&server.urls[0]), before + CLIENTS * VISITS);
}

#[test]
fn a_named_batch_is_done_once_whoever_sends_it_and_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let start = || Server::serve(&example("database"), &["--store", &store]);
    let mut server = start();
    let before = visits(&server.urls[0]);
    let name = |number| BatchName { client: 0x5eed, number };
    for number in 1..=3 {
        for sent in 0..2 {
            let session = bifrost_stubs::connect(&server.urls[0]).unwrap();
            let db: DataBase = session.lookup("database");
            let sending = session.transaction(How::default().named(name(number)), || {
                let bob: DataElem = db.fetch("bob");
                bob.touch();
                (bob.visits(), bob)
            });
            let (count, bob) = sending.unwrap();
            assert_eq!(count.claim().unwrap(), before + number as i64);
            // An answer that is given again has no objects.
            assert_eq!(session.resolve(&bob).is_ok(), sent == 0);
            server.end("KILL");
            server = start();
        }
    }
    assert_eq!(visits(&server.urls[0]), before + 3);
}

#[test]
fn what_cannot_be_in_it_is_refused_and_nothing_is_done() {
    let server = Server::serve(&example("database"), &["--store", "memory:"]);
    let before = visits(&server.urls[0]);
    let session = bifrost_stubs::connect(&server.urls[0]).unwrap();
    let db: DataBase = session.lookup("database");
    let misused = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error.root(), Error::Misuse(Misuse::InTransaction)), "{error}");
    };
    misused(session.transaction(How::default(), || {
        let bob = db.fetch("bob");
        bob.touch();
        assert!(bob.visits().claim().is_err());
    }));
    misused(session.transaction(How::default(), || {
        db.fetch("bob").touch();
        session.commit();
    }));
    misused(session.transaction(How::default(), || {
        db.fetch("bob").touch();
        misused(session.transaction(How::default(), || {}));
    }));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.transaction(How::default(), || {
            db.fetch("bob").touch();
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    assert!(session.flush().is_ok());
    // An exception is no misuse: the transaction is aborted, and says so.
    let unseen = session.transaction(How::default(), || {
        db.fetch("bob").touch();
        db.fetch("nobody").touch();
    });
    let unseen = unseen.unwrap_err();
    assert!(matches!(&unseen, Error::Unseen { call: Some(_), .. }), "{unseen}");
    assert_eq!(unseen.root().signal(), Some("not_found"), "{unseen}");
    assert_eq!(visits(&server.urls[0]), before);
    // And the session goes on.
    session.transaction(How::default(), || db.fetch("bob").touch()).unwrap();
    assert_eq!(visits(&server.urls[0]), before + 1);
}
