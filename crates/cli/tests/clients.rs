//! The cases of `cases/*.yaml` in the words of the Rust veneer, each under its name. Those of
//! `cases/conformance.yaml` are in `conformance.rs`.

#[path = "clients/sessions.rs"]
mod sessions;
mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod conformance;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "clients/database/bifrost_stubs.rs"]
mod database;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "clients/actors/bifrost_stubs.rs"]
mod actors;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "clients/hermitage/bifrost_stubs.rs"]
mod hermitage;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "clients/wide/bifrost_stubs.rs"]
mod wide;

use std::path::Path;
use std::time::Duration;

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{BatchName, Error, How, Misuse, Session};
use conformance::{Counter, Item, Line, Probe, Shape, Spot};
use database::{DataBase, DataElem};
use support::Server;

fn serve(program: &str, settings: &[&str]) -> Server {
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs");
    Server::serve(&folder.join(format!("{program}.theta")), &arguments)
}

fn probe(settings: &[&str]) -> (Server, Session, Probe) {
    let server = serve("conformance", settings);
    let s = conformance::connect(&server.urls[0]).unwrap();
    let p = s.lookup("probe");
    (server, s, p)
}

fn people(program: &str) -> (Server, Session, DataBase) {
    let server = serve(program, &[]);
    let s = database::connect(&server.urls[0]).unwrap();
    let db = s.lookup("database");
    (server, s, db)
}

fn crossings(s: &Session) -> u64 {
    s.counters().crossings
}

#[track_caller]
fn is_misused<T>(result: Result<T, Error>, misuse: Misuse) {
    let error = result.err().expect("a misuse");
    assert!(matches!(error.root(), Error::Misuse(found) if *found == misuse), "{error}");
}

#[track_caller]
fn is_refused<T>(result: Result<T, Error>, number: ErrorNumber) {
    let error = result.err().expect("a refusal");
    assert!(
        matches!(error.root(), Error::Refused { number: found, .. } if *found == number as u32),
        "{error}"
    );
}

#[track_caller]
fn is_signalled<T>(result: Result<T, Error>, name: &str) {
    let error = result.err().expect("an exception");
    assert_eq!(error.root().signal(), Some(name), "{error}");
}

#[test]
fn a_table_of_rows() {
    let (_server, s, db) = people("database");
    let t = s.rows::<(DataElem, String, i64)>();
    s.foreach(db.users(), |e| {
        e.touch();
        t.push((&e, e.name(), e.visits()));
    });
    let rows = t.claim().unwrap();
    let rows: Vec<(String, i64)> = rows.into_iter().map(|(_, name, visits)| (name, visits)).collect();
    assert_eq!(rows, [("ann".to_owned(), 1), ("bob".to_owned(), 1), ("eve".to_owned(), 1)]);
    assert_eq!(crossings(&s), 1);
    t.push((db.fetch("ann"), "ann", 1));
    is_misused(s.flush(), Misuse::EndedTable);
}

#[test]
fn a_table_with_a_break() {
    let (_server, s, db) = people("database");
    let (t, none) = (s.rows::<(String,)>(), s.rows::<(i64, bool)>());
    s.foreach(db.users(), |e| {
        s.if_(e.name().eq_("eve"), || s.break_());
        t.push((e.name(),));
    });
    assert_eq!(t.claim().unwrap(), [("ann".to_owned(),), ("bob".to_owned(),)]);
    assert_eq!(none.claim().unwrap(), []);
}

#[test]
fn a_wide_call() {
    let server = serve("wide", &[]);
    let s = wide::connect(&server.urls[0]).unwrap();
    let sum =
        wide::wide_sum(&s, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22);
    assert_eq!(sum.claim().unwrap(), 1 + 50 + 2_100 + 22_000);
}

#[test]
fn compounds_cross_by_value() {
    let (_server, s, p) = probe(&[]);
    let v = p.values();
    let sums = [v.total([1, 2, 3, 4]), v.total([0_i64; 0]), v.nested([vec![1, 2], vec![], vec![3]])];
    let line = Line { name: "x".to_owned(), from: Spot { x: 1, y: 1 }, to: Spot { x: 3, y: 4 } };
    let far = v.distance(&line);
    let shapes =
        [Shape::Dot(Spot { x: 1, y: 2 }), Shape::Circle(0.5), Shape::Nothing].map(|shape| v.area(shape));
    let named = [v.named(None::<String>), v.named(Some("eve"))];
    let (twice, spot, many) = (v.twice([5, 6]).get(), v.shape(3).get(), v.counts().get());
    assert_eq!(sums.map(|sum| sum.claim().unwrap()), [10, 0, 6]);
    assert_eq!(far.claim().unwrap(), 105);
    let shown = shapes.map(|shape| shape.claim().unwrap());
    assert_eq!(shown, ["{dot: {x: 1, y: 2}}", "{circle: 0.5}", "{nothing: nil}"]);
    assert_eq!(named.map(|name| name.claim().unwrap()), ["nobody", "eve"]);
    assert_eq!(twice.claim().unwrap(), [10, 12]);
    assert_eq!(spot.claim().unwrap(), Shape::Dot(Spot { x: 3, y: 0 }));
    let many: Vec<String> = many.claim().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(many, ["one", "two"]);
    assert_eq!(crossings(&s), 1);
}

#[test]
fn compounds_have_objects() {
    let (_server, s, p) = probe(&[]);
    let v = p.values();
    let a = p.item("a");
    let text = v.members((&a, [&a, &p.item("b")]));
    let family = v.family(2).get();
    assert_eq!(text.claim().unwrap(), "a,a,b");
    assert_eq!(family.claim().unwrap().members.len(), 2);
    let failed = v.members((&a, [&p.item("zoe")]));
    let error = failed.claim().unwrap_err();
    assert!(matches!(error, Error::Unhandled { argument: 1, .. }), "{error}");
    is_signalled(failed.claim(), "not_found");
    drop(s);
}

#[test]
fn types_at_run_time() {
    let (_server, s, p) = probe(&[]);
    s.foreach(p.items(), |item| {
        s.if_(item.is_::<Counter>(), || drop(item.as_::<Counter>().add(7)));
    });
    let seven = p.counter().value();
    let a = p.item("a");
    let (no, yes) = (a.is_::<Counter>(), p.counter().is_::<Item>());
    let wrong = a.as_::<Counter>();
    let value = wrong.value();
    assert_eq!((seven.claim().unwrap(), no.claim().unwrap(), yes.claim().unwrap()), (7, false, true));
    is_signalled(s.resolve(&wrong), "wrong_type");
    is_signalled(value.claim(), "wrong_type");
}

#[test]
fn batches_overlap() {
    let (_server, s, p) = probe(&[]);
    let item = p.item("a");
    s.send_batch().unwrap();
    let name = item.name();
    let total = s.cell_with::<i64>(0);
    s.send_batch().unwrap();
    s.foreach(p.numbers(3), |i| {
        total.put(total.get() + i);
    });
    let (six, again) = (total.get(), p.same_string(&name));
    s.send_batch().unwrap();
    assert_eq!((again.claim().unwrap().as_str(), name.claim().unwrap().as_str()), ("a", "a"));
    assert_eq!((six.claim().unwrap(), crossings(&s)), (6, 3));
}

#[test]
fn a_failure_under_way_is_a_cause() {
    let (_server, s, p) = probe(&[]);
    let zoe = p.item("zoe");
    s.send_batch().unwrap();
    let name = zoe.name();
    s.send_batch().unwrap();
    let length = name.length();
    let error = length.claim().unwrap_err();
    assert!(matches!(error, Error::Unhandled { argument: 0, .. }), "{error}");
    assert_eq!(error.root().signal(), Some("not_found"), "{error}");
}

#[test]
fn transactions_commit_and_abort() {
    let (_server, s, db) = people("database");
    let e = db.fetch("eve");
    e.touch();
    let done = s.commit();
    e.touch();
    let two = e.visits();
    let undone = s.abort();
    let one = e.visits();
    done.claim().unwrap();
    undone.claim().unwrap();
    assert_eq!((two.claim().unwrap(), one.claim().unwrap(), crossings(&s)), (2, 1, 1));
}

#[test]
fn a_commit_names_unseen_failures() {
    let (_server, s, db) = people("database");
    db.fetch("nobody");
    let refused = s.commit();
    match refused.claim().unwrap_err() {
        Error::Unseen { failures, call: Some(_), .. } => {
            assert_eq!(
                failures.iter().map(|failure| failure.signal()).collect::<Vec<_>>(),
                [Some("not_found")]
            );
        }
        other => panic!("{other}"),
    }
    is_signalled(s.resolve(&db.fetch("nobody")), "not_found");
    s.commit().claim().unwrap();
}

#[test]
fn a_refused_call_prevents_the_commit_live() {
    let (server, s, db) = people("database");
    let other = database::connect(&server.urls[0]).unwrap();
    db.fetch(other.value("eve".to_owned()));
    let refused = s.commit();
    is_misused(refused.claim(), Misuse::OtherSession);
    s.commit().claim().unwrap();
}

#[test]
fn a_batch_is_a_transaction() {
    let (_server, s, db) = people("database");
    s.flush().unwrap();
    let (e, one) = s
        .transaction(How::default().tries(3), || {
            let e = db.new_user("zoe");
            e.touch();
            let one = e.visits();
            (e, one)
        })
        .unwrap();
    assert_eq!((one.claim().unwrap(), crossings(&s)), (1, 2));
    let failed = s.transaction(How::default(), || {
        e.touch();
        db.new_user("zoe")
    });
    is_signalled(failed, "not_possible");
    assert_eq!(e.visits().claim().unwrap(), 1);
}

#[test]
fn nothing_crosses_in_a_transaction_live() {
    let (_server, s, db) = people("database");
    let e = db.fetch("eve");
    s.flush().unwrap();
    let refused = s.transaction(How::default(), || {
        e.touch();
        is_misused(e.visits().claim(), Misuse::InTransaction);
    });
    is_misused(refused, Misuse::InTransaction);
    assert_eq!(e.visits().claim().unwrap(), 0);
}

#[test]
fn a_named_batch_is_done_once() {
    let (_server, s, db) = people("database");
    let e = db.fetch("eve");
    s.flush().unwrap();
    for _ in 0..2 {
        let named = How::default().named(BatchName { client: 0x0001_0203, number: 1 });
        s.transaction(named, || drop(e.touch())).unwrap();
    }
    assert_eq!(e.visits().claim().unwrap(), 1);
}

#[test]
fn a_wait_without_changes() {
    let (_server, s, db) = people("database");
    let visits = db.fetch("eve").visits();
    let changed = s.wait(Duration::from_millis(10));
    assert_eq!((visits.claim().unwrap(), changed.claim().unwrap()), (0, false));
}

#[test]
fn actors_answer_and_are_sent_to() {
    let server = serve("actors", &[]);
    let s = actors::connect(&server.urls[0]).unwrap();
    let adder: actors::Adder = s.lookup("adder");
    let one = adder.add(1);
    adder.send().add(10);
    let (value, wrong) = (adder.value(), adder.add(-5));
    assert_eq!((one.claim().unwrap(), value.claim().unwrap()), (1, 11));
    is_signalled(wrong.claim(), "negative");
}

#[test]
fn another_interface_at_the_server() {
    let (_server, s, db) = people("database_other");
    let e = db.fetch("eve");
    e.touch();
    assert_eq!((e.visits().claim().unwrap(), e.name().claim().unwrap().as_str()), (1, "eve"));
    let before = crossings(&s);
    let renamed = db.new_user("zoe");
    let after = renamed.name();
    let other = db.loop_fetch("eve", 1);
    for error in [s.resolve(&renamed).unwrap_err(), after.claim().unwrap_err(), other.claim().unwrap_err()] {
        assert!(matches!(error.root(), Error::Missing { .. }), "{error}");
    }
    assert_eq!(crossings(&s), before);
    s.clear_exceptions();
    s.foreach(db.users(), |u| drop(u.touch()));
    let error = s.flush().unwrap_err();
    assert!(matches!(error.root(), Error::Missing { name } if &**name == "DataBase.users"), "{error}");
}

#[test]
fn futures_are_mapped_again_live() {
    let (_server, s, p) = probe(&["limits.futures_max=50"]);
    let total = s.cell_with::<i64>(0);
    (0..40).for_each(|_| drop(total.put(total.get() + 1)));
    assert_eq!(total.get().claim().unwrap(), 40);
    assert_eq!(crossings(&s), 3);
    drop(p);
}

#[test]
fn many_results_are_mapped_again() {
    let (_server, s, p) = probe(&[]);
    let items: Vec<Item> = (0..16_400).map(|_| p.fresh()).collect();
    assert_eq!(crossings(&s), 1);
    let names: Vec<_> = items.iter().map(|item| item.name()).collect();
    assert_eq!(crossings(&s), 2);
    assert!(names.iter().all(|name| name.claim().unwrap() == "fresh"));
    assert_eq!(crossings(&s), 3);
    drop(items);
    s.flush().unwrap();
    assert_eq!(p.same_int(1).claim().unwrap(), 1);
}

#[test]
fn commands_are_sent_early() {
    let (_server, s, p) = probe(&[]);
    (0..300).for_each(|_| drop(p.nothing()));
    assert_eq!(p.same_int(1).claim().unwrap(), 1);
    assert_eq!((crossings(&s), s.counters().calls), (1, 302));
}

#[test]
fn structures_nest_64_deep() {
    fn nest(s: &Session, depth: u32, inner: &dyn Fn()) {
        match depth {
            0 => inner(),
            _ => drop(s.if_(s.value(true), || nest(s, depth - 1, inner))),
        }
    }
    let (_server, s, _probe) = probe(&[]);
    let count = s.cell_with::<i64>(0);
    nest(&s, 64, &|| drop(count.put(1)));
    assert_eq!(count.get().claim().unwrap(), 1);
    nest(&s, 65, &|| drop(count.put(2)));
    is_misused(s.flush(), Misuse::TooDeep);
}

#[test]
fn dropped_stubs_leave_nothing() {
    let (_server, s, p) = probe(&["limits.handles_max=8"]);
    s.foreach(p.numbers(10_000), |_| drop(p.fresh()));
    let item = p.fresh();
    s.flush().unwrap();
    s.resolve(&item).unwrap();
    drop(item);
    s.flush().unwrap();
    (0..100).for_each(|_| drop(p.counter()));
    assert_eq!(p.fresh().name().claim().unwrap(), "fresh");
}

#[test]
fn a_connection_that_is_cut() {
    let (server, _s, p) = probe(&[]);
    let one = p.same_int(1);
    assert_eq!(one.claim().unwrap(), 1);
    let two = p.same_int(2);
    server.end("KILL");
    for late in [two, p.same_int(3)] {
        let error = late.claim().unwrap_err();
        assert!(matches!(error.root(), Error::Closed(_)), "{error}");
    }
    assert_eq!(one.claim().unwrap(), 1);
}

#[test]
fn a_session_is_left() {
    let (server, s, db) = people("database");
    db.fetch("eve").touch();
    s.commit();
    s.close().unwrap();
    let late = db.fetch("eve").visits().claim().unwrap_err();
    assert!(matches!(late.root(), Error::Closed(_)), "{late}");
    let again = database::connect(&server.urls[0]).unwrap();
    let visits = again.lookup::<DataBase>("database").fetch("eve").visits();
    assert_eq!(visits.claim().unwrap(), 1, "what was recorded was run");
}

#[test]
fn and_by_a_cell_live() {
    let (_server, s, p) = probe(&[]);
    let no = s.value(false);
    let both = no.and_(|| {
        p.choose(3);
        s.value(true)
    });
    assert!(!both.claim().unwrap());
    assert!(s.exceptions().is_empty());
}

#[test]
fn names_of_the_root_directory() {
    let (_server, s, p) = probe(&[]);
    let d = conformance::root(&s);
    let name = d.lookup("counter").as_::<Counter>().name();
    let gone = d.lookup("again");
    let names = s.collect(d.names(), |name| (name,));
    let refused = d.insert("again", p.counter());
    assert_eq!(name.claim().unwrap(), "counter");
    assert_eq!(names.claim().unwrap(), [("counter".to_owned(),), ("probe".to_owned(),)]);
    is_signalled(s.resolve(&gone), "not_found");
    is_refused(refused.claim(), ErrorNumber::NotAllowed);
}
