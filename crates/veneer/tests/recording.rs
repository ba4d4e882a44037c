//! What recording sends, and what becomes of stubs.

mod common;

use bifrost_veneer::wire::encode::{Counters, Flushed};
use bifrost_veneer::wire::{ErrorNumber, ExceptionKind, Limit, Outcome, Value, encode};
use bifrost_veneer::{Closed, Error, Misuse, Promise, Session};

/// True if something is refused as a misuse, at the root of what is said.
fn is_misused<T>(result: Result<T, Error>, misuse: Misuse) -> bool {
    matches!(result.err().as_ref().map(Error::root), Some(Error::Misuse(found)) if *found == misuse)
}

use common::stubs::{self, DataBase, DataElem, NamedElem, Point};
use common::{Script, handle, int};

#[test]
fn calls_cross_once_when_a_value_is_claimed() {
    let server = Script::default();
    let s = server.connect();
    let mut list = stubs::nil_list(&s);
    for _ in 0..3 {
        list = list.next();
    }
    let first = list.first();
    assert_eq!(server.log(), [""; 0], "nothing crosses before a claim");
    server.outcomes(vec![handle(5), int(42)]);
    assert_eq!(first.claim().unwrap(), 42);
    assert_eq!(
        server.log(),
        ["nil_list()", "-1.next()", "-2.next()", "-3.next()", "-4.first()", "flush [4, 5]"],
        "only stubs that are still there are wanted"
    );
    // The stub holds a handle now, and numbers start again.
    let next = list.next();
    server.outcomes(vec![handle(6)]);
    s.flush().unwrap();
    assert_eq!(server.log(), ["5.next()", "flush [1]"]);
    assert_eq!(s.counters().crossings, 2);
    drop(next);
}

#[test]
fn promises_are_arguments_and_claimed_ones_are_values() {
    let server = Script::default();
    let s = server.connect();
    let p: Point = stubs::new_point(&s, 1, 2);
    let (x, y) = (p.x(), p.y());
    p.set_x(&y);
    p.set_y(x);
    server.outcomes(vec![handle(1), int(2)]);
    assert_eq!(y.claim().unwrap(), 2);
    assert_eq!(y.claim().unwrap(), 2, "a claim is remembered");
    assert_eq!(
        server.log(),
        ["new_point(1, 2)", "-1.x()", "-1.y()", "-1.set_x(@-3)", "-1.set_y(@-2)", "flush [1, 3]"]
    );
    p.set_x(&y);
    let sum = &y + 5;
    assert_eq!(server.log(), [""; 0]);
    server.outcomes(vec![handle(1), int(7)].split_off(1));
    assert_eq!(sum.claim().unwrap(), 7);
    assert_eq!(server.log(), ["1.set_x(2)", "constant Int(2)", "-2.add(5)", "flush [3]"]);
}

#[test]
fn operators_record_methods() {
    let server = Script::default();
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    let n = -((p.x() + 1) * p.y() - 3) / 2 % 7;
    let _ = n.lt(10);
    let _ = n.eq_(&n);
    s.flush().unwrap();
    assert_eq!(
        server.log()[1..10],
        [
            "-1.x()",
            "-2.add(1)",
            "-1.y()",
            "-3.mul(@-4)",
            "-5.sub(3)",
            "-6.negate()",
            "-7.div(2)",
            "-8.mod(7)",
            "-9.lt(10)",
        ]
    );
}

#[test]
fn dropped_handles_are_given_back_once() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let a = db.fetch("x");
    let b = db.fetch("x");
    server.outcomes(vec![handle(1), handle(2), handle(2)]);
    s.flush().unwrap();
    let copy = a.clone();
    drop(a);
    drop(copy);
    server.log();
    s.flush().unwrap();
    assert_eq!(server.log(), [""; 0], "the object has another stub");
    drop(b);
    drop(db);
    s.flush().unwrap();
    assert_eq!(server.log(), ["free [1, 2]", "flush []"]);
}

#[test]
fn a_subtype_is_accepted_for_its_supertypes() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let e: NamedElem = s.lookup("named");
    db.adopt(&e);
    let e: DataElem = e.into();
    db.adopt(e);
    s.flush().unwrap();
    assert_eq!(server.log()[2..], ["-1.adopt(@-2)", "-1.adopt(@-2)", "flush [1]"]);
}

#[test]
fn several_results_are_a_tuple() {
    let server = Script::default();
    let s = server.connect();
    let e: NamedElem = s.lookup("named");
    let (yes, number): (Promise<bool>, Promise<i64>) = e.match_("kind", &e);
    server.outcomes(vec![handle(1), Outcome::Value(Value::Bool(true)), int(3)]);
    assert!(yes.claim().unwrap());
    assert_eq!(number.claim().unwrap(), 3);
    assert_eq!(server.log()[1..], ["-1.match(\"kind\", @-1)", "flush [1, 2, 3]"]);
}

#[test]
fn loops_and_conditions_are_markers() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let i = s.cell_with(0);
    s.while_(
        || i.get().lt(10),
        || {
            s.if_(i.get().eq_(5), || s.break_()).else_(|| {
                i.put(i.get() + 1);
            });
        },
    );
    s.foreach(db.users(), |e| {
        e.touch();
        s.if_(|| e.visits().gt(100), || s.continue_());
    });
    s.flush().unwrap();
    assert_eq!(
        server.log(),
        [
            "lookup database",
            "cell int",
            "-2.put(0)",
            "While",
            "-2.get()",
            "-4.lt(10)",
            "do -5",
            "-2.get()",
            "-6.equal(5)",
            "If",
            "then -7",
            "Break",
            "Else",
            "-2.get()",
            "-8.add(1)",
            "-2.put(@-9)",
            "EndIf",
            "EndWhile",
            "Foreach",
            "-1.users()",
            "-11.touch()",
            "If",
            "-11.visits()",
            "-13.gt(100)",
            "then -14",
            "Continue",
            "EndIf",
            "EndForeach",
            "flush [1, 2]",
        ]
    );
}

#[test]
fn handlers_follow_their_block() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let found = s.cell::<DataElem>();
    s.except(|| {
        found.put(db.fetch("x"));
    })
    .when_named::<()>("not_found", |_| {
        found.put(db.new_user("x"));
    })
    .when_named::<(String, i64)>("exists", |(name, _)| {
        db.fetch(name);
    })
    .others_named(|name| {
        db.fetch(name);
    });
    s.flush().unwrap();
    assert_eq!(
        server.log()[2..],
        [
            "Except",
            "-1.fetch(\"x\")",
            "-2.put(@-3)",
            "when not_found/0",
            "-1.new_user(\"x\")",
            "-2.put(@-5)",
            "when exists/2",
            "-1.fetch(@-7)",
            "Others { named: true }",
            "-1.fetch(@-10)",
            "EndExcept",
            "flush [1, 2]",
        ]
    );
}

#[test]
fn iterators_over_constants_and_several_values() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    s.foreach(s.value(1).to(100), |i| {
        s.foreach(db.pairs(i), |(_, e)| {
            e.touch();
        });
    });
    s.foreach(stubs::primes(&s, 50), |_| ());
    s.flush().unwrap();
    assert_eq!(
        server.log()[1..],
        [
            "constant Int(1)",
            "Foreach",
            "-2.to(100)",
            "Foreach",
            "-1.pairs(@-3)",
            "-5.touch()",
            "EndForeach",
            "EndForeach",
            "Foreach",
            "primes(50)",
            "EndForeach",
            "flush [1]",
        ]
    );
}

#[test]
fn procedures_have_parameters_results_and_themselves() {
    let server = Script::default();
    let s = server.connect();
    let fact = s.procedure::<(i64,), i64, _>("fact", |fact, (n,)| {
        let result = s.cell_with(1);
        s.if_(n.gt(1), || {
            result.put(&n * fact.call((&n - 1,)));
        });
        result.get()
    });
    let touch = s.procedure::<(DataElem,), (), _>("touch", |_, (e,)| {
        s.if_(e.visits().gt(9), || s.return_::<()>(()));
        e.touch();
    });
    let r = fact.call((5,));
    server.outcomes(vec![int(120)]);
    assert_eq!(r.claim().unwrap(), 120);
    assert_eq!(
        server.log(),
        [
            "procedure fact/1",
            "cell int",
            "-2.put(1)",
            "-1.gt(1)",
            "If",
            "then -4",
            "-1.sub(1)",
            "procedure0(@-5)",
            "-1.mul(@-6)",
            "-2.put(@-7)",
            "EndIf",
            "-2.get()",
            "return @-9",
            "EndProcedure",
            "procedure touch/1",
            "-10.visits()",
            "-11.gt(9)",
            "If",
            "then -12",
            "return",
            "EndIf",
            "-10.touch()",
            "return",
            "EndProcedure",
            "procedure0(5)",
            "flush [14]",
        ]
    );
    let found = s.find_procedure::<(DataElem,), ()>("touch").unwrap();
    let e: DataElem = s.lookup("e");
    found.call((&e,));
    touch.call((e,));
    assert!(s.find_procedure::<(i64,), ()>("touch").is_none(), "other types");
    s.flush().unwrap();
    assert_eq!(server.log(), ["lookup e", "procedure1(@-1)", "procedure1(@-1)", "flush []"]);
}

#[test]
fn and_is_short_circuit() {
    let server = Script::default();
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    let both = p.x().lt(3).and_(|| p.y().lt(3));
    server.outcomes(vec![handle(1), Outcome::Value(Value::Bool(true))]);
    assert!(both.claim().unwrap());
    assert_eq!(
        server.log()[1..],
        [
            "-1.x()",
            "-2.lt(3)",
            "cell bool",
            "-4.put(@-3)",
            "If",
            "then -3",
            "-1.y()",
            "-6.lt(3)",
            "-4.put(@-7)",
            "EndIf",
            "-4.get()",
            "flush [1, 9]",
        ]
    );
}

#[test]
fn misuse_is_an_error_value_and_sends_nothing() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let mut leaked = None;
    s.if_(db.fetch("x").visits().gt(1), || {
        let e = db.fetch("y");
        assert!(is_misused(e.visits().claim(), Misuse::OpenStructure));
        leaked = Some(e);
    });
    let leaked = leaked.unwrap();
    let visits = leaked.visits();
    assert!(is_misused(visits.claim(), Misuse::OutOfScope));
    // The whole outermost structure goes, and the batch goes on.
    s.while_(
        || db.fetch("x").visits().lt(3),
        || {
            s.if_(|| leaked.visits().lt(2), || s.break_()).else_(|| s.break_());
        },
    );
    s.break_();
    db.fetch("z");
    let Err(Error::Unseen { failures, .. }) = s.flush() else { panic!("refused") };
    assert!(is_misused(Err::<(), _>((*failures[0]).clone()), Misuse::OutOfScope));
    assert!(is_misused(Err::<(), _>((*failures[1]).clone()), Misuse::NoLoop));
    assert_eq!(failures.len(), 2, "a structure is told once, whatever is in it");
    s.flush().unwrap();
    assert_eq!(
        server.log(),
        [
            "lookup database",
            "-1.fetch(\"x\")",
            "-2.visits()",
            "-3.gt(1)",
            "If",
            "then -4",
            "-1.fetch(\"y\")",
            "-5.visits()",
            "EndIf",
            "-1.fetch(\"z\")",
            "flush [1]",
        ]
    );
    assert!(s.exceptions().len() >= 2, "and kept in the history");
}

#[test]
fn else_must_be_adjacent() {
    let server = Script::default();
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    let choice = s.if_(p.x().lt(1), || ());
    p.set_x(1);
    choice.else_(|| {
        p.set_x(2);
    });
    assert!(is_misused(s.flush(), Misuse::NotAdjacent));
    assert_eq!(server.log()[3..], ["If", "then -3", "EndIf", "-1.set_x(1)", "flush [1]"]);
}

#[test]
fn stubs_of_other_sessions_are_refused() {
    let (one, two) = (Script::default(), Script::default());
    let (s, t) = (one.connect(), two.connect());
    let db: DataBase = s.lookup("database");
    let e: DataElem = t.lookup("e");
    let done = db.adopt(&e);
    assert!(is_misused(done.claim(), Misuse::OtherSession));
    s.flush().unwrap();
    assert_eq!(one.log(), ["lookup database", "flush [1]"]);
}

#[test]
fn a_panic_inside_a_structure_drops_it() {
    let server = Script::default();
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        s.if_(
            || p.x().lt(1),
            || {
                p.set_x(1);
                panic!("on purpose");
            },
        );
    }));
    assert!(caught.is_err());
    p.set_y(3);
    assert!(is_misused(s.flush(), Misuse::Abandoned));
    assert_eq!(server.log(), ["new_point(1, 2)", "-1.set_y(3)", "flush [1]"]);
}

#[test]
fn exceptions_reach_their_stubs_and_the_history() {
    let server = Script::default();
    let s = server.connect();
    let db: DataBase = s.lookup("database");
    let e = db.fetch("qyz");
    let visits = e.visits();
    db.fetch("nobody waits");
    server.answer(|wanted, out| {
        assert_eq!(wanted, [1, 2, 3]);
        let mut w = Flushed::begin(out);
        w.outcome(&handle(1));
        w.outcome(&Outcome::Exception(0));
        w.outcome(&Outcome::Exception(1));
        w.signal(2, &[], "not_found", &[]);
        w.exception(3, &[], &ExceptionKind::Unhandled { argument: 0, back: 0, cause: 2 });
        w.signal(4, &[7], "not_found", &[Outcome::Value(Value::Int(4)), handle(9)]);
        w.finish(Counters::default(), 0);
    });
    let error = visits.claim().unwrap_err();
    assert_eq!(error.root().signal(), Some("not_found"));
    let text = error.to_string();
    assert!(text.starts_with("DataElem.visits at "), "{text}");
    assert!(text.contains("was not run because its receiver failed: DataBase.fetch at "), "{text}");
    assert!(text.ends_with("signalled not_found"), "{text}");
    let history = s.exceptions();
    assert_eq!(history.len(), 3);
    assert!(history[2].error.to_string().contains(", round 7 signalled not_found(4, an object)"));
    // A stub whose call failed is an error-handle for the next batch.
    server.log();
    let again = e.visits();
    server.answer(|_, out| {
        let mut w = Flushed::begin(out);
        w.outcome(&Outcome::Exception(0));
        w.exception(1, &[], &ExceptionKind::Unhandled { argument: 0, back: 0, cause: 0 });
        w.finish(Counters::default(), 0);
    });
    match again.claim().unwrap_err() {
        Error::Unhandled { argument: 0, cause: Some(cause), .. } => {
            assert_eq!(cause.signal(), Some("not_found"));
        }
        other => panic!("{other}"),
    }
    assert_eq!(server.log(), ["ClearHistory", "0.visits()", "free [9]", "flush [1]"], "all of it was told");
    s.clear_exceptions();
    assert!(s.exceptions().is_empty());
    s.flush().unwrap();
    assert_eq!(server.log(), ["ClearHistory", "flush []"]);
}

#[test]
fn why_the_server_closed_is_told_although_nothing_can_be_written() {
    let because = |error: &Error| match error {
        Error::Closed(why) => matches!(&**why, Closed::ByServer { number: 41, .. }),
        _ => false,
    };
    let server = Script::default();
    let s = server.connect();
    encode::error(&mut server.0.borrow_mut().out, ErrorNumber::Expired, 0, "too long");
    server.0.borrow_mut().closed = true;
    let e: DataElem = s.lookup("e");
    assert!(because(&e.visits().claim().unwrap_err()));
    assert!(because(&s.flush().unwrap_err()));
    let server = Script::default();
    encode::error(&mut server.0.borrow_mut().out, ErrorNumber::TooManySessions, 0, "full");
    server.0.borrow_mut().closed = true;
    let refused = Session::builder(&stubs::INTERFACE).over(Box::new(server)).unwrap_err();
    assert_eq!(refused.to_string(), "the server ended the session: full (error 40)");
}

#[test]
fn an_error_of_the_server_sticks() {
    let server = Script::default();
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    server.answer(|_, out| encode::error(out, bifrost_veneer::wire::ErrorNumber::Expired, 1, "too late"));
    let x = p.x();
    for _ in 0..2 {
        let Err(Error::Closed(why)) = x.claim() else { panic!("closed") };
        assert!(matches!(&*why, Closed::ByServer { number: 41, .. }));
    }
    assert!(matches!(p.y().claim(), Err(Error::Closed(_))));
    assert!(matches!(s.flush(), Err(Error::Closed(_))));
    s.while_(|| p.x().lt(1), || ());
}

#[test]
fn nonsense_of_the_server_ends_the_session() {
    for bad in [&[0xff; 16][..], &[0xc4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]] {
        let server = Script::default();
        let s = server.connect();
        let x = stubs::new_point(&s, 1, 2).x();
        server.answer(move |_, out| out.extend_from_slice(bad));
        assert!(matches!(x.claim(), Err(Error::Closed(_))));
    }
    // A value of another type than the heading's.
    let server = Script::default();
    let s = server.connect();
    let x = stubs::new_point(&s, 1, 2).x();
    server.outcomes(vec![Outcome::Value(Value::Str("one"))]);
    assert!(matches!(x.claim(), Err(Error::Closed(_))));
}

#[test]
fn finished_parts_are_published_early() {
    let server = Script::default();
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    server.0.borrow_mut().writes = 0;
    for i in 0..1000 {
        p.set_x(i);
    }
    assert!(server.0.borrow().writes >= 4, "the server starts while recording goes on");
    s.flush().unwrap();
    server.log();
    s.while_(
        || p.x().lt(3),
        || {
            for i in 0..1000 {
                p.set_x(i);
            }
        },
    );
    assert!(!server.log().iter().any(|c| c == "While"), "a structure is sent whole");
    s.flush().unwrap();
    assert_eq!(server.log().iter().filter(|c| c.contains("set_x")).count(), 1000);
}

#[test]
fn oversized_batches_are_flushed_or_refused_here() {
    let server = Script::default();
    server.0.borrow_mut().limits = vec![(Limit::Futures, 50), (Limit::FrameBytes, 200), (Limit::Depth, 2)];
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    server.outcomes(vec![handle(1)]);
    for i in 0..60 {
        p.set_x(i);
    }
    s.flush().unwrap();
    assert_eq!(s.counters().crossings, 2, "futures become handles before they are too many");
    server.log();
    // A structure cannot be cut.
    s.if_(
        || p.x().lt(1),
        || {
            for i in 0..60 {
                p.set_x(i);
            }
        },
    );
    assert!(is_misused(s.flush(), Misuse::TooLong));
    let db: DataBase = s.lookup("db");
    let long = db.fetch("x".repeat(300));
    assert!(is_misused(s.resolve(&long), Misuse::TooLong));
    let deep = || {
        s.if_(
            || p.x().lt(1),
            || {
                s.if_(
                    || p.x().lt(1),
                    || {
                        s.if_(|| p.x().lt(1), || ());
                    },
                );
            },
        );
    };
    let _ = s.flush();
    deep();
    assert!(is_misused(s.flush(), Misuse::TooDeep));
    assert!(!server.log().iter().any(|c| c == "If"));
}

#[test]
fn other_numbers_are_matched_by_name() {
    use bifrost_veneer::wire::Interface;
    let mut interface = Interface::from_json(stubs::INTERFACE.json.as_bytes()).unwrap();
    // The server has other methods in between, lacks one, and changed another's heading.
    for ty in &mut interface.types {
        if ty.name == "point" {
            ty.methods.remove(2);
            ty.methods.swap(0, 1);
            ty.methods[2].heading.params.clear();
        }
    }
    let server = Script::default();
    server.0.borrow_mut().digest = Some(interface.digest());
    server.0.borrow_mut().interface = Some(interface.to_json());
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    let x = p.x();
    let lacks = |result: Result<(), Error>, method: &str| match result.unwrap_err().root() {
        Error::Missing { name } => assert_eq!(&**name, method),
        other => panic!("{other}"),
    };
    lacks(p.set_x(1).claim(), "point.set_x");
    // The heading is another.
    lacks(p.set_y(1).claim(), "point.set_y");
    server.outcomes(vec![handle(1), int(1)]);
    assert_eq!(x.claim().unwrap(), 1);
    // `y` in the numbers that the script shows is the server's `x`.
    assert_eq!(server.log(), ["new_point(1, 2)", "-1.y()", "flush [1, 2]"]);
}

#[test]
fn sessions_end_with_bye() {
    let server = Script::default();
    let s = server.connect();
    stubs::new_point(&s, 1, 2);
    s.close().unwrap();
    assert_eq!(server.log(), ["new_point(1, 2)", "flush []", "Bye"]);
    let s = server.connect();
    let p = stubs::new_point(&s, 1, 2);
    drop(s);
    assert_eq!(server.log(), [""; 0], "a stub keeps the session");
    drop(p);
    assert_eq!(server.log(), ["new_point(1, 2)", "Bye"]);
}

#[test]
fn a_trace_context_is_checked() {
    let traced = |text: &str| Session::builder(&stubs::INTERFACE).trace_parent(text);
    let context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let settings = format!("{:?}", traced(context).unwrap());
    assert!(settings.contains("flags: 1"), "{settings}");
    let error = traced("00-x").unwrap_err().to_string();
    assert_eq!(error, "`00-x` is no `traceparent` of W3C Trace Context");
}
