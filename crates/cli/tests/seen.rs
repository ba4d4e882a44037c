//! Failures and the program that made them: whatever was not told prevents a commit, names itself
//! at the next claim or flush, and is told once. With a generated client against servers of their
//! own.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../../../examples/database/rust/src/bifrost_stubs.rs"]
mod bifrost_stubs;

use bifrost_stubs::{DataBase, DataElem};
use bifrost_veneer::{Error, How, Misuse, Session};
use support::{Server, example};

/// A server that keeps objects in memory.
fn server() -> Server {
    Server::serve(&example("database"), &["--store", "memory:"])
}

fn connect(server: &Server) -> (Session, DataBase) {
    let session = bifrost_stubs::connect(&server.urls[0]).unwrap();
    let db = session.lookup("database");
    (session, db)
}

/// The visits that another session sees.
fn visits(server: &Server, name: &str) -> i64 {
    connect(server).1.fetch(name).visits().claim().unwrap()
}

/// The failures that an error names.
fn unseen(error: Error) -> Vec<String> {
    match error {
        Error::Unseen { failures, omitted: 0, .. } => failures.iter().map(|f| f.to_string()).collect(),
        other => panic!("{other}"),
    }
}

/// Asserts that an error names exactly these failures, in this order, each by a part of its text.
#[track_caller]
fn names(error: Error, parts: &[&str]) {
    let failures = unseen(error);
    assert_eq!(failures.len(), parts.len(), "{failures:#?}");
    failures
        .iter()
        .zip(parts)
        .for_each(|(failure, part)| assert!(failure.contains(part), "{failure}: {part}"));
}

const OTHER: &str = "belongs to another session";
const SCOPE: &str = "inside a structure that has ended";
const GONE: &str = "DataElem.touch with the heading of the stub";

/// A stub that was made inside a structure, and used behind it.
fn leaked(s: &Session, db: &DataBase) -> DataElem {
    let mut leaked = None;
    s.foreach(db.users(), |user| leaked = Some(user));
    leaked.unwrap()
}

#[test]
fn a_commit_refuses_what_was_not_sent_and_names_all_of_it() {
    let server = server();
    let (other, others) = connect(&server);
    let stranger = others.fetch("ann");
    other.flush().unwrap();
    let (s, db) = connect(&server);
    let bob = db.fetch("bob");
    bob.touch();
    // A receiver of another session is that session's; as a condition or an argument it is refused
    // here.
    let wrong = stranger.name();
    let _ = db.fetch(&wrong);
    leaked(&s, &db).touch();
    s.if_(stranger.visits().gt(0), || {
        bob.touch();
    });
    let kept = db.fetch(&wrong);
    let done = s.commit();
    let behind = bob.visits();
    let error = done.claim().unwrap_err();
    assert!(matches!(&error, Error::Unseen { call: Some(call), .. } if &*call.name == "commit"), "{error}");
    assert!(error.to_string().contains("seen.rs"), "{error}");
    names(error, &[OTHER, SCOPE, "if at", OTHER]);
    // It is aborted, and the rest of the batch was not run.
    assert!(matches!(behind.claim().unwrap_err(), Error::NotReached { cause: Some(_), .. }));
    assert_eq!(visits(&server, "bob"), 0);
    // Each was told once: the next transaction commits.
    assert!(matches!(s.resolve(&kept).unwrap_err().root(), Error::Misuse(Misuse::OtherSession)));
    s.flush().unwrap();
    bob.touch();
    s.commit().claim().unwrap();
    assert_eq!(visits(&server, "bob"), 1);
}

#[test]
fn a_flush_refuses_what_was_not_sent() {
    let server = server();
    let (other, others) = connect(&server);
    let name = others.fetch("ann").name();
    let (s, db) = connect(&server);
    // Also where a stub is left that says the same.
    let kept = db.fetch(&name);
    leaked(&s, &db).touch();
    s.break_();
    names(s.flush().unwrap_err(), &[OTHER, SCOPE, "break at"]);
    s.flush().unwrap();
    assert!(s.resolve(&kept).is_err());
    drop(name);
    other.close().unwrap();
    // The end of a session is a flush.
    leaked(&s, &db).touch();
    names(s.close().unwrap_err(), &[SCOPE]);
}

#[test]
fn a_shipped_transaction_refuses_what_was_not_sent() {
    let server = server();
    let (_other, others) = connect(&server);
    let name = others.fetch("ann").name();
    let (s, db) = connect(&server);
    let refused = s.transaction(How::default(), || {
        db.fetch("bob").touch();
        let _ = db.fetch(&name);
        leaked(&s, &db).touch();
        s.foreach(db.users(), |user| {
            user.touch();
            s.if_(name.eq_("ann"), || ());
        });
        // Being looked at does not help: nothing of the batch has run.
        assert_eq!(s.exceptions().len(), 3);
    });
    names(refused.unwrap_err(), &[OTHER, SCOPE, "foreach at"]);
    assert_eq!(visits(&server, "bob"), 0);
    s.transaction(How::default(), || db.fetch("bob").touch()).unwrap();
    assert_eq!(visits(&server, "bob"), 1);
    // Failures at the server are named as well.
    let refused = s.transaction(How::default(), || {
        db.fetch("bob").touch();
        db.fetch("zoe").touch();
    });
    names(refused.unwrap_err(), &["DataBase.fetch at"]);
    s.transaction(How::default(), || db.fetch("bob").touch()).unwrap();
    assert_eq!(visits(&server, "bob"), 2);
    s.flush().unwrap();
}

/// A server whose interface has no `touch`.
fn without_touch() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(example("database")).unwrap();
    let file = folder.path().join("database.theta");
    let (source, _) = source.split_once("% `bifrost run").unwrap();
    let source = source.replacen("  touch ()\n  % Counts a visit.\n", "", 1);
    std::fs::write(&file, source).unwrap();
    Server::serve(&file, &["--store", "memory:"])
}

#[test]
fn a_method_that_the_server_no_longer_has_is_told() {
    let server = without_touch();
    let (s, db) = connect(&server);
    db.new_user("fay");
    db.fetch("bob").touch();
    let done = s.commit();
    names(done.claim().unwrap_err(), &[GONE]);
    // In a structure nothing of it is sent, so the cell holds its first value, and no claim says
    // so.
    let total = s.cell_with(0);
    s.foreach(db.users(), |user| {
        user.touch();
        total.put(total.get() + 1);
    });
    let sum = total.get();
    names(sum.claim().unwrap_err(), &[GONE]);
    assert_eq!(sum.claim().unwrap(), 0, "told once");
    let refused = s.transaction(How::default(), || {
        db.new_user("fay");
        db.fetch("bob").touch();
    });
    names(refused.unwrap_err(), &[GONE]);
    let (_s, db) = connect(&server);
    let error = db.fetch("fay").visits().claim().unwrap_err();
    assert_eq!(error.root().signal(), Some("not_found"), "{error}");
}

/// Adds up in a loop that signals in round 11.
fn half_summed(s: &Session) -> bifrost_veneer::Cell<i64> {
    let total = s.cell_with(0);
    s.foreach(s.value(1).to(20), |i| {
        total.put(total.get() + s.value(110) / (s.value(11) - i) % 7);
    });
    total
}

const ROUND: &str = "int.div at";

#[test]
fn a_claim_behind_a_failed_structure_says_so() {
    let server = server();
    let (s, _) = connect(&server);
    let sum = half_summed(&s).get();
    let error = sum.claim().unwrap_err();
    assert_eq!(error.root().signal(), Some("zero"));
    assert!(error.to_string().contains("round 11"), "{error}");
    names(error, &[ROUND]);
    // Once: the program may want the half all the same.
    assert!(sum.claim().unwrap() > 0);
    // The same at a flush, at a look at an object and at the end.
    half_summed(&s);
    names(s.flush().unwrap_err(), &[ROUND]);
    s.flush().unwrap();
    let (t, db) = connect(&server);
    half_summed(&t);
    names(t.resolve(&db).unwrap_err(), &[ROUND]);
    t.resolve(&db).unwrap();
    half_summed(&t);
    names(t.close().unwrap_err(), &[ROUND]);
    // A look at the history tells everything.
    half_summed(&s);
    let sum = half_summed(&s).get();
    s.cell::<i64>();
    assert!(s.flush().is_err());
    assert_eq!(s.exceptions().len(), 4);
    sum.claim().unwrap();
}

#[test]
fn a_failure_without_a_stub_surfaces_behind_it() {
    let server = server();
    let (s, db) = connect(&server);
    let (bob, ann) = (db.fetch("bob"), db.fetch("ann"));
    db.fetch("zoe").touch();
    names(bob.visits().claim().unwrap_err(), &["DataBase.fetch at"]);
    assert_eq!(bob.visits().claim().unwrap(), 0);
    // A stub that is left is nobody else's business, until it is dropped.
    let zoe = db.fetch("zoe");
    assert_eq!(ann.visits().claim().unwrap(), 0);
    s.flush().unwrap();
    drop(zoe);
    names(ann.visits().claim().unwrap_err(), &["DataBase.fetch at"]);
    // A consequence tells the cause and all that followed from it; handlers leave nothing to tell.
    let zoe = db.fetch("zoe");
    zoe.touch();
    assert_eq!(zoe.name().claim().unwrap_err().root().signal(), Some("not_found"));
    s.flush().unwrap();
    // But what is asked of a failed stub after that is another failure, of a structure too.
    zoe.touch();
    names(ann.visits().claim().unwrap_err(), &["DataElem.touch at"]);
    let count = s.cell_with(0);
    s.if_(zoe.visits().gt(0), || drop(count.put(1)));
    names(count.get().claim().unwrap_err(), &["DataElem.visits at"]);
    let unknown = db.fetch("yan").visits().gt(0);
    s.if_(&unknown, || drop(count.put(1)));
    assert_eq!(count.get().claim().unwrap_err().root().signal(), Some("not_found"));
    s.except(|| drop(db.fetch("zoe"))).others(|| ());
    s.flush().unwrap();
    bob.touch();
    s.commit().claim().unwrap();
    assert_eq!(visits(&server, "bob"), 1);
}

#[test]
fn what_was_told_does_not_prevent_a_commit_and_the_rest_does() {
    let server = server();
    let (s, db) = connect(&server);
    let (zoe, yan) = (db.fetch("zoe"), db.fetch("yan"));
    assert!(s.resolve(&zoe).is_err());
    // Told in the middle of a batch.
    db.fetch("bob").touch();
    assert!(s.resolve(&yan).is_err());
    s.commit().claim().unwrap();
    assert_eq!(visits(&server, "bob"), 1);
    // One of two.
    let (zoe, _yan) = (db.fetch("zoe"), db.fetch("yan"));
    assert!(s.resolve(&zoe).is_err());
    db.fetch("bob").touch();
    names(s.commit().claim().unwrap_err(), &["DataBase.fetch at"]);
    assert_eq!(visits(&server, "bob"), 1);
    // A look at the history before the batch has run is no look at what it fails with.
    db.fetch("bob").touch();
    let _xan = db.fetch("xan");
    s.exceptions();
    names(s.commit().claim().unwrap_err(), &["DataBase.fetch at"]);
    assert_eq!(visits(&server, "bob"), 1);
    // Forgiven is what was before; not what is behind it.
    let _xan = db.fetch("xan");
    s.clear_exceptions();
    db.fetch("bob").touch();
    s.commit().claim().unwrap();
    s.clear_exceptions();
    let _xan = db.fetch("xan");
    db.fetch("bob").touch();
    names(s.commit().claim().unwrap_err(), &["DataBase.fetch at"]);
    assert_eq!(visits(&server, "bob"), 2);
    // An abort ends it: it does not spoil the next transaction, and is told all the same.
    leaked(&s, &db).touch();
    db.fetch("zoe").touch();
    s.abort();
    db.fetch("bob").touch();
    let done = s.commit();
    names(s.flush().unwrap_err(), &[SCOPE, "DataBase.fetch at"]);
    done.claim().unwrap();
    assert_eq!(visits(&server, "bob"), 3);
}

#[test]
fn a_commit_that_nobody_asked_after_is_told_by_the_flush() {
    let server = server();
    let (s, db) = connect(&server);
    db.fetch("bob").touch();
    leaked(&s, &db).touch();
    s.commit();
    let error = s.flush().unwrap_err();
    assert!(error.to_string().contains("commit at"), "{error}");
    assert!(error.to_string().contains(SCOPE), "{error}");
    s.flush().unwrap();
    assert_eq!(visits(&server, "bob"), 0);
}

#[test]
fn the_cause_is_known_in_later_batches() {
    let server = server();
    let (s, db) = connect(&server);
    let zoe = db.fetch("zoe");
    let name = zoe.name();
    s.flush().unwrap();
    let (again, passed) = (zoe.visits(), db.fetch(&name));
    let condition = name.eq_("zoe");
    s.if_(&condition, || drop(db.fetch("bob")));
    s.flush().unwrap_err();
    for error in [again.claim().unwrap_err(), s.resolve(&passed).unwrap_err()] {
        assert!(matches!(&error, Error::Unhandled { cause: Some(_), .. }), "{error}");
        assert_eq!(error.root().signal(), Some("not_found"), "{error}");
        assert!(error.to_string().contains("DataBase.fetch at"), "{error}");
    }
    // From batch to batch, however far, and as the test of a structure.
    let mut count = again;
    for _ in 0..100 {
        count = count + 1;
        s.flush().unwrap();
        assert_eq!(count.claim().unwrap_err().root().signal(), Some("not_found"));
    }
    s.while_(|| count.lt(3), || ());
    s.flush().unwrap_err();
    let last = s.exceptions().pop().unwrap();
    assert_eq!(last.error.root().signal(), Some("not_found"), "{}", last.error);
    // What ended a batch is the cause of all that was not reached.
    let (t, db) = connect(&server);
    t.commit().claim().unwrap();
    let error = {
        let missing = db.fetch("zoe");
        let done = t.commit();
        let behind = db.fetch("bob").visits();
        drop((missing, done));
        behind.claim().unwrap_err()
    };
    assert_eq!(error.root().signal(), Some("not_found"), "{error}");
}

#[test]
fn structures_say_where_the_program_has_them() {
    let server = server();
    let (s, db) = connect(&server);
    let place = |error: &Error| error.to_string();
    let line = |ahead: u32| format!("seen.rs:{}", ahead);
    // Refused by the client: a condition of another session.
    let (_other, others) = connect(&server);
    let alien = others.fetch("bob").visits().gt(0);
    let at = line!() + 1;
    s.while_(|| alien.clone(), || ());
    let error = place(&s.flush().unwrap_err());
    assert!(error.contains("while at"), "{error}");
    assert_eq!(error.matches(&line(at)).count(), 2, "{error}");
    let at = line!() + 1;
    s.if_(&alien, || ()).else_(|| ());
    assert!(place(&s.flush().unwrap_err()).contains(&line(at)));
    let at = line!() + 1;
    s.foreach(others.users(), |_| ());
    let error = place(&s.flush().unwrap_err());
    assert!(error.contains("foreach at") && error.contains(&line(at)), "{error}");
    // Refused by the server: a test whose call failed before, which the structure uses at once.
    let failed = db.fetch("zoe").visits().gt(0);
    assert!(failed.claim().is_err());
    let at = line!() + 1;
    s.while_(|| failed.clone(), || ());
    let error = place(&s.flush().unwrap_err());
    assert!(error.contains(&line(at)), "{error}");
    let at = line!() + 1;
    s.if_(|| failed.clone(), || ());
    let error = place(&s.flush().unwrap_err());
    assert!(error.contains(&line(at)), "{error}");
    // A handler that does not follow.
    let except = s.except(|| drop(db.fetch("bob")));
    db.fetch("bob");
    let at = line!() + 1;
    except.others(|| ());
    let error = place(&s.flush().unwrap_err());
    assert!(error.contains("others at") && error.contains(&line(at)), "{error}");
    // And what operators put around a condition.
    let at = line!() + 1;
    let both = failed.and_(|| failed.clone());
    assert!(both.claim().is_err());
    let lines: Vec<String> = s.exceptions().iter().map(|e| e.error.to_string()).collect();
    assert!(lines.iter().all(|l| !l.contains("crates/veneer/src")), "{lines:#?}");
    assert!(lines.iter().any(|l| l.contains(&line(at))), "{lines:#?}");
}

#[test]
fn a_procedure_that_was_not_sent_is_not_the_next_one() {
    let server = server();
    let (s, db) = connect(&server);
    let gone = leaked(&s, &db);
    let refused = s.procedure::<(i64,), i64, _>("refused", |_, (n,)| {
        gone.touch();
        n + 1
    });
    let twice = s.procedure::<(i64,), i64, _>("twice", |_, (n,)| n * 2);
    let (wrong, right) = (refused.call((20,)), twice.call((21,)));
    assert!(s.find_procedure::<(i64,), i64>("refused").is_none());
    // The definition itself has no stub, and the call of what was not sent is not sent either.
    names(right.claim().unwrap_err(), &["procedure at"]);
    assert_eq!(right.claim().unwrap(), 42);
    assert!(matches!(wrong.claim().unwrap_err().root(), Error::Misuse(Misuse::OutOfScope)));
    s.flush().unwrap();
    // An error outlives its session and its server.
    drop(server);
    assert!(matches!(twice.call((1,)).claim(), Err(Error::Closed(_))));
}

#[test]
fn a_full_batch_refuses_its_commit_all_the_same() {
    let server =
        Server::serve(&example("database"), &["--store", "memory:", "--set", "limits.futures_max=8"]);
    let (s, db) = connect(&server);
    for futures in 0..20 {
        leaked(&s, &db).touch();
        (0..futures).for_each(|_| drop(db.fetch("bob").touch()));
        names(s.commit().claim().unwrap_err(), &[SCOPE]);
    }
    assert_eq!(visits(&server, "bob"), 0);
    db.fetch("bob").touch();
    s.commit().claim().unwrap();
    assert_eq!(visits(&server, "bob"), 1);
}

#[test]
fn of_very_many_failures_all_are_counted() {
    let server = server();
    let (s, db) = connect(&server);
    let counted = |error: Error| match error {
        Error::Unseen { failures, omitted, .. } => (failures.len(), failures.len() as u64 + omitted),
        other => panic!("{other}"),
    };
    // Those that the server counts only, and those that the client does.
    let kept = db.fetch("zoe");
    let gone = leaked(&s, &db);
    for _ in 0..5000 {
        db.fetch("zoe");
        gone.touch();
    }
    let (named, all) = counted(s.flush().unwrap_err());
    assert!(named <= 1000, "{named}");
    assert_eq!(all, 10_000);
    s.flush().unwrap();
    assert_eq!(s.resolve(&kept).unwrap_err().signal(), Some("not_found"));
}
