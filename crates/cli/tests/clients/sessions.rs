//! The cases of `cases/sessions.yaml`: several sessions at one server.

use std::time::Duration;

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{Error, How, Session};

use super::hermitage::{Row, Table, connect};
use super::{crossings, is_refused, is_signalled, serve};
use crate::support::Server;

/// A session, with the table and its rows.
struct Seat {
    s: Session,
    t: Table,
    one: Row,
    two: Row,
}

impl Seat {
    fn take(url: &str) -> Seat {
        let s = connect(url).unwrap();
        let t: Table = s.lookup("table");
        let (one, two) = (t.row(1), t.row(2));
        s.abort().claim().unwrap();
        Seat { s, t, one, two }
    }

    fn commit(&self) {
        self.s.commit().claim().unwrap();
    }

    #[track_caller]
    fn conflicts(&self) {
        is_refused(self.s.commit().claim(), ErrorNumber::Conflict);
    }

    fn values(&self) -> (i64, i64) {
        let (one, two) = (self.one.value(), self.two.value());
        (one.claim().unwrap(), two.claim().unwrap())
    }
}

/// A server, and so many sessions.
fn seats<const N: usize>() -> (Server, [Seat; N]) {
    let server = serve("hermitage", &[]);
    let seats = std::array::from_fn(|_| Seat::take(&server.urls[0]));
    (server, seats)
}

#[test]
fn g0_write_cycles() {
    let (_server, [a, b]) = seats();
    a.one.put(11);
    a.s.flush().unwrap();
    b.one.put(12);
    b.s.flush().unwrap();
    a.two.put(21);
    a.commit();
    b.two.put(22);
    b.conflicts();
    assert_eq!(b.values(), (11, 21));
}

#[test]
fn g1a_aborted_reads() {
    let (_server, [a, b]) = seats();
    a.one.put(101);
    a.s.flush().unwrap();
    assert_eq!(b.one.value().claim().unwrap(), 10);
    a.s.abort().claim().unwrap();
    assert_eq!(b.one.value().claim().unwrap(), 10);
    b.commit();
}

#[test]
fn g1b_intermediate_reads() {
    let (_server, [a, b]) = seats();
    a.one.put(101);
    a.s.flush().unwrap();
    assert_eq!(b.one.value().claim().unwrap(), 10);
    a.one.put(11);
    a.commit();
    assert_eq!(b.one.value().claim().unwrap(), 10);
    b.conflicts();
    assert_eq!(b.one.value().claim().unwrap(), 11);
}

#[test]
fn g1c_circular_information_flow() {
    let (_server, [a, b]) = seats();
    a.one.put(11);
    a.s.flush().unwrap();
    b.two.put(22);
    b.s.flush().unwrap();
    assert_eq!(a.two.value().claim().unwrap(), 20);
    assert_eq!(b.one.value().claim().unwrap(), 10);
    a.commit();
    b.conflicts();
    assert_eq!(b.values(), (11, 20));
}

#[test]
fn otv_observed_transaction_vanishes() {
    let (_server, [a, b, c]) = seats();
    a.one.put(11);
    a.two.put(19);
    a.s.flush().unwrap();
    b.one.put(12);
    b.s.flush().unwrap();
    a.commit();
    assert_eq!(c.one.value().claim().unwrap(), 11);
    b.two.put(18);
    b.conflicts();
    assert_eq!(c.two.value().claim().unwrap(), 19);
    assert_eq!(c.values(), (11, 19));
    c.commit();
}

#[test]
fn pmp_predicate_many_preceders() {
    let (_server, [a, b]) = seats();
    assert_eq!(a.t.with_value(30).claim().unwrap(), 0);
    b.t.insert(3, 30);
    b.commit();
    assert_eq!(a.t.divisible(3).claim().unwrap(), 0);
    a.conflicts();
    assert_eq!(a.t.divisible(3).claim().unwrap(), 1);
    a.commit();
}

#[test]
fn pmp_with_changes() {
    let (_server, [a, b]) = seats();
    let remove = || {
        b.s.foreach(b.t.rows(), |r| {
            b.s.if_(r.value().eq_(20), || drop(b.t.remove(r.id())));
        });
    };
    a.s.foreach(a.t.rows(), |r| drop(r.add(10)));
    a.s.flush().unwrap();
    remove();
    b.s.flush().unwrap();
    a.commit();
    b.conflicts();
    remove();
    b.commit();
    assert_eq!(b.t.total().claim().unwrap(), 30);
}

#[test]
fn p4_lost_update() {
    let (_server, [a, b]) = seats();
    let (first, second) = (a.one.value(), b.one.value());
    assert_eq!((first.claim().unwrap(), second.claim().unwrap()), (10, 10));
    a.one.put(first + 1);
    a.s.commit().claim().unwrap();
    b.one.put(second + 1);
    is_refused(b.s.commit().claim(), ErrorNumber::Conflict);
    // The same again, with the value that is there now.
    b.one.put(b.one.value() + 1);
    b.s.commit().claim().unwrap();
    assert_eq!(b.one.value().claim().unwrap(), 12);
}

#[test]
fn g_single_read_skew() {
    let (_server, [a, b]) = seats();
    assert_eq!(a.one.value().claim().unwrap(), 10);
    b.one.put(12);
    b.two.put(18);
    b.commit();
    assert_eq!(a.two.value().claim().unwrap(), 20);
    a.two.put(0);
    a.conflicts();
    assert_eq!(a.values(), (12, 18));
    a.commit();
}

#[test]
fn g2_item_write_skew() {
    let (_server, [a, b]) = seats();
    assert_eq!((a.values(), b.values()), ((10, 20), (10, 20)));
    a.one.put(11);
    a.s.flush().unwrap();
    b.two.put(21);
    b.s.flush().unwrap();
    a.commit();
    b.conflicts();
    assert_eq!(b.t.total().claim().unwrap(), 31);
}

#[test]
fn g2_anti_dependency_cycles() {
    let (_server, [a, b]) = seats();
    let none = [&a, &b].map(|seat| seat.t.divisible(3).claim().unwrap());
    assert_eq!(none, [0, 0]);
    a.t.insert(3, 30);
    a.s.flush().unwrap();
    b.t.insert(4, 42);
    b.s.flush().unwrap();
    a.commit();
    b.conflicts();
    b.s.if_(b.t.divisible(3).eq_(0), || drop(b.t.insert(4, 42)));
    b.commit();
    assert_eq!(b.t.divisible(3).claim().unwrap(), 1);
}

#[test]
fn g2_two_edges() {
    let (_server, [a, b, c]) = seats();
    assert_eq!(a.t.total().claim().unwrap(), 30);
    b.two.add(5);
    b.commit();
    assert_eq!(c.t.total().claim().unwrap(), 35);
    c.commit();
    a.one.put(0);
    a.conflicts();
    assert_eq!(a.t.total().claim().unwrap(), 35);
}

#[test]
fn changes_are_seen_after_the_commit() {
    let (_server, [a, b]) = seats();
    let three = a.t.insert(3, 30);
    a.s.flush().unwrap();
    is_signalled(b.s.resolve(&b.t.row(3)), "not_found");
    assert_eq!(b.t.total().claim().unwrap(), 30);
    b.commit();
    a.commit();
    let same = b.t.row(3);
    assert_eq!(b.t.total().claim().unwrap(), 60);
    same.add(1);
    b.commit();
    assert_eq!(three.value().claim().unwrap(), 31);
}

#[test]
fn changes_of_different_objects_do_not_conflict() {
    let server = serve("hermitage", &[]);
    let rows = [1, 2].map(|id| {
        let s = connect(&server.urls[0]).unwrap();
        let row = s.lookup::<Table>("table").row(id);
        s.abort().claim().unwrap();
        (s, row)
    });
    for (s, row) in &rows {
        row.add(1);
        s.flush().unwrap();
    }
    for (s, _) in &rows {
        s.commit().claim().unwrap();
        assert!(s.lookup::<Table>("table").total().claim().unwrap() > 30);
        s.abort().claim().unwrap();
    }
}

#[test]
fn commands_behind_a_conflict_are_not_reached() {
    let (_server, [a, b]) = seats();
    assert_eq!(b.one.value().claim().unwrap(), 10);
    a.one.add(1);
    a.commit();
    b.one.add(1);
    let done = b.s.commit();
    b.one.add(1);
    let value = b.one.value();
    is_refused(done.claim(), ErrorNumber::Conflict);
    let error = value.claim().unwrap_err();
    assert!(matches!(error, Error::NotReached { .. }), "{error}");
    is_refused(value.claim(), ErrorNumber::Conflict);
    assert_eq!(b.one.value().claim().unwrap(), 11);
}

#[test]
fn a_conflict_undoes_objects() {
    let (_server, [a, b]) = seats();
    assert_eq!(a.t.total().claim().unwrap(), 30);
    let three = a.t.insert(3, 1);
    a.s.flush().unwrap();
    b.t.insert(3, 2);
    b.commit();
    a.conflicts();
    is_refused(three.value().claim(), ErrorNumber::NoSuchHandle);
    assert_eq!(a.t.row(3).value().claim().unwrap(), 2);
    a.commit();
}

#[test]
fn conflicts_are_run_again_by_the_server() {
    let server = serve("hermitage", &[]);
    let url = &server.urls[0];
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let Seat { s, t, .. } = Seat::take(url);
                let add = || s.foreach(s.value(1).to(1000), |_| s.foreach(t.rows(), |r| drop(r.add(1))));
                s.transaction(How::default().tries(30), add).unwrap();
            });
        }
    });
    assert_eq!(Seat::take(url).t.total().claim().unwrap(), 6030);
}

#[test]
fn a_wait_is_ended_by_a_change() {
    let (_server, [a, b]) = seats();
    assert_eq!(a.one.value().claim().unwrap(), 10);
    let changed = a.s.wait(Duration::from_secs(60));
    let (after, done) = (a.one.value(), a.s.commit());
    a.s.send_batch().unwrap();
    b.one.put(11);
    b.s.abort().claim().unwrap();
    b.one.put(12);
    b.s.commit().claim().unwrap();
    assert_eq!((changed.claim().unwrap(), after.claim().unwrap()), (true, 12));
    done.claim().unwrap();
}

#[test]
fn a_wait_misses_no_change() {
    let (_server, [a, b]) = seats();
    assert_eq!(a.one.value().claim().unwrap(), 10);
    b.two.put(21);
    b.commit();
    assert!(!a.s.wait(Duration::from_millis(10)).claim().unwrap());
    b.one.put(11);
    b.commit();
    assert!(a.s.wait(Duration::from_secs(60)).claim().unwrap());
    assert_eq!(a.one.value().claim().unwrap(), 11);
}

#[test]
fn a_live_batch_is_run_again() {
    let (_server, [a, b]) = seats();
    let before = crossings(&a.s);
    let mut views = a.s.live(|| a.s.collect(a.t.rows(), |r| (r.id(), r.value())));
    assert_eq!(views.next().unwrap().unwrap(), [(1, 10), (2, 20)]);
    b.two.put(22);
    b.s.commit().claim().unwrap();
    assert_eq!(views.next().unwrap().unwrap(), [(1, 10), (2, 22)]);
    b.t.insert(3, 30);
    b.t.remove(1);
    b.s.commit().claim().unwrap();
    assert_eq!(views.next().unwrap().unwrap(), [(2, 22), (3, 30)]);
    assert_eq!(crossings(&a.s), before + 3);
}
