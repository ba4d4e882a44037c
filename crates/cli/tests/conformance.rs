//! The Rust veneer against a server in another process: what `cases/programs/conformance.theta` offers, in batches.
//!
//! Each case says what comes back, and how many crossings it takes.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod stubs;

use std::path::{Path, PathBuf};

use bifrost_veneer::signals::WrongType;
use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{
    Cell, Element, Error, ErrorValue, IntoArg, Misuse, Procedure, Promise, Reference, Session,
};
use stubs::{Counter, Item, Probe, signals};
use support::Server;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta")
}

/// A session with a server that was started with these settings.
fn limited(settings: &[&str]) -> (Server, Session, Probe) {
    let arguments: Vec<&str> = settings.iter().flat_map(|s| ["--set", s]).collect();
    let server = Server::serve(&program(), &arguments);
    let s = stubs::connect(&server.urls[0]).unwrap();
    let p = s.lookup("probe");
    (server, s, p)
}

/// Runs a case over every transport, with both engines and with a collection at each allocation, with a server of its own
/// each time.
fn everywhere(case: impl Fn(&Session, &Probe)) {
    let shm = ["--listen", "shm://FOLDER/shm"];
    let tcp = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];
    let quic = ["--listen", "quic://127.0.0.1:0", "--anonymous-loopback"];
    let ways = [
        (&[][..], 0, "check"),
        (&[][..], 0, "zeal"),
        (&shm[..], 1, "check"),
        (&tcp[..], 1, "check"),
        (&quic[..], 1, "check"),
        (&["--interpret"][..], 0, "zeal"),
    ];
    for (arguments, place, collect) in ways {
        let server = Server::serve_collected(&program(), collect, arguments);
        let s = stubs::connect(&server.urls[place]).unwrap();
        case(&s, &s.lookup("probe"));
        s.close().unwrap();
    }
}

fn crossings(s: &Session) -> u64 {
    s.counters().crossings
}

/// The name of the signal that a promise ends in.
fn signal<V: bifrost_veneer::Value + std::fmt::Debug>(promise: &Promise<V>) -> String {
    let error = promise.claim().unwrap_err();
    error.signal().unwrap_or_else(|| panic!("{error}")).to_owned()
}

/// The number with which a promise's call was refused, or the batch before it.
fn refusal<V: bifrost_veneer::Value + std::fmt::Debug>(promise: &Promise<V>) -> ErrorNumber {
    match promise.claim().unwrap_err() {
        Error::Refused { number, .. } => ErrorNumber::from_number(number).unwrap(),
        other => panic!("{other}"),
    }
}

/// Numbers of rounds and names of signals in the history.
fn history(s: &Session) -> Vec<(Vec<u32>, String)> {
    let entry = |error: &Error| match error {
        Error::Signal { name, call, .. } => (call.rounds.to_vec(), name.to_string()),
        Error::Unhandled { call, .. } => (call.rounds.to_vec(), "unhandled".to_owned()),
        other => panic!("{other}"),
    };
    s.exceptions().iter().map(|e| entry(&e.error)).collect()
}

#[test]
fn values_come_back_as_they_went() {
    everywhere(|s, p| {
        let ints = [0, 1, -1, i64::MIN, i64::MAX].map(|v| (v, p.same_int(v)));
        let reals = [0.0, -0.0, 0.1, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY, f64::NAN]
            .map(|v| (v, p.same_real(v)));
        let bools = [true, false].map(|v| (v, p.same_bool(v)));
        let chars = ['\0', 'x', '€', '\u{d7ff}', '\u{10ffff}'].map(|v| (v, p.same_char(v)));
        let texts = ["", "a", "1234567", "12345678", "äß€🦀\0\n\"", &"long ".repeat(5000)].map(str::to_owned);
        let strings = texts.map(|v| (v.clone(), p.same_string(v)));
        let bytes = [&b""[..], b"\0", &[0xff; 8], &[7; 9], &[1; 100_000]].map(|v| (v, p.same_bytes(v)));
        // A value is kept by its stub, and can be a receiver.
        let (mine, longer) = (s.value(vec![1_u8, 2]), bytes[1].1.concat(&b"\x01"[..]));
        let added = mine.concat(&longer);
        let (null, nothing) = (p.same_null(()), p.nothing());
        assert_eq!(crossings(s), 0);
        ints.iter().for_each(|(v, promise)| assert_eq!(promise.claim().unwrap(), *v));
        reals.iter().for_each(|(v, promise)| assert_eq!(promise.claim().unwrap().to_bits(), v.to_bits()));
        bools.iter().for_each(|(v, promise)| assert_eq!(promise.claim().unwrap(), *v));
        chars.iter().for_each(|(v, promise)| assert_eq!(promise.claim().unwrap(), *v));
        strings.iter().for_each(|(v, promise)| assert_eq!(promise.claim().unwrap(), *v));
        bytes.iter().for_each(|(v, promise)| assert_eq!(promise.claim().unwrap(), *v));
        assert_eq!(added.claim().unwrap(), [1, 2, 0, 1]);
        assert_eq!(added.length().claim().unwrap(), 4);
        null.claim().unwrap();
        nothing.claim().unwrap();
        assert_eq!(crossings(s), 2);
    });
}

#[test]
fn results_of_all_shapes() {
    everywhere(|s, p| {
        let (quotient, remainder) = p.divide(17, 5);
        let (item, length) = p.item_and_length("grüße");
        let name = item.name();
        let text = p.all(true, &quotient + 1, 0.5, 'ß', name.clone() + "!", item);
        assert_eq!((quotient.claim().unwrap(), remainder.claim().unwrap()), (3, 2));
        assert_eq!(length.claim().unwrap(), 5);
        assert_eq!(text.claim().unwrap(), "true 4 0.5 ß grüße! grüße");
        assert_eq!(crossings(s), 1);
        // A failed call fails all its results.
        let (quotient, remainder) = p.divide(1, 0);
        assert_eq!((signal(&quotient), signal(&remainder)), ("zero".into(), "zero".into()));
        assert_eq!(crossings(s), 2);
    });
}

#[test]
fn a_subtype_passes_for_its_supertype() {
    everywhere(|s, p| {
        let counter: Counter = s.lookup("counter");
        let by_reference = p.name_of(&counter);
        let item: Item = counter.clone().into();
        item.rename("other");
        p.add_item(&counter);
        let by_value = p.name_of(item);
        assert_eq!(by_reference.claim().unwrap(), "counter");
        assert_eq!(by_value.claim().unwrap(), "other");
        assert_eq!(crossings(s), 1);
        // The server says that an object is what the stub says, or refuses it.
        let wrong: Counter = s.lookup("probe");
        let error = wrong.value().claim().unwrap_err();
        let wrong_type = ErrorNumber::WrongType as u32;
        assert!(matches!(error.root(), Error::Refused { number, .. } if *number == wrong_type), "{error}");
    });
}

#[test]
fn records_oneofs_and_anys_are_stubs() {
    everywhere(|s, p| {
        let t = p.tagged();
        let point = t.point(3, 4);
        point.set_x(5);
        let labelled = t.labelled(&point, "here");
        let (name, x) = (labelled.replace_name("there").name(), labelled.at().x());
        let same = labelled.at().equal(&point);
        let (number, text, nothing) = (t.answer(3), t.answer(12), t.answer(0));
        let (value, wrong) = (number.value_number(), number.value_text());
        let (is_text, shown, nil) = (text.is_text(), text.unparse(), nothing.value_nothing());
        let (sum, none) = (t.sum(t.found(2)), t.sum(t.found(0)));
        let other = t.found(0).value_or(&point).y();
        let total = s.cell_with::<i64>(0);
        s.foreach(t.answers(4), |answer| {
            total.put(total.get() + answer.value_number());
        });
        let what = [0, 7, 12].map(|n| t.what(t.thing(n)));
        assert_eq!((name.claim().unwrap().as_str(), x.claim().unwrap()), ("there", 5));
        assert!(same.claim().unwrap() && is_text.claim().unwrap());
        assert_eq!((value.claim().unwrap(), signal(&wrong)), (3, "wrong_tag".into()));
        assert_eq!((shown.claim().unwrap().as_str(), nil.claim().unwrap()), ("{text: \"12\"}", ()));
        assert_eq!((sum.claim().unwrap(), none.claim().unwrap(), other.claim().unwrap()), (4, 0, 4));
        assert_eq!(total.get().claim().unwrap(), 10);
        assert_eq!(what.map(|text| text.claim().unwrap()), ["nil", "7", "{x: 12, y: 12}"]);
        assert_eq!(crossings(s), 2, "one for all of it, and one for the cell");
    });
}

#[test]
fn iterators_of_methods_routines_and_values() {
    everywhere(|s, p| {
        let out = s.cell_with::<String>("");
        let say = |text: Promise<String>| {
            out.put(out.get() + text + " ");
        };
        s.foreach(p.numbers(3), |i| say(i.unparse()));
        s.foreach(p.pairs(2), |(i, text)| say(i.unparse() + "=" + text));
        s.foreach(p.items(), |item| say(item.name()));
        s.foreach(stubs::squares(s, 3), |i| say(i.unparse()));
        s.foreach(s.value(7).to(8), |i| say(i.unparse()));
        s.foreach(p.numbers(0), |i| say(i.unparse()));
        assert_eq!(out.get().claim().unwrap(), "1 2 3 1=1 2=2 a b c counter 1 4 9 7 8 ");
        assert_eq!(crossings(s), 1);
    });
}

#[test]
fn signals_carry_their_values() {
    everywhere(|s, p| {
        let values = |error: Error| match error {
            Error::Signal { name, values, .. } => (name.to_string(), values.to_vec()),
            other => panic!("{other}"),
        };
        let (everything, fine) = (p.choose(6), p.choose(4));
        let missing = p.item("zoë");
        let expected = [
            ErrorValue::Bool(true),
            ErrorValue::Int(6),
            ErrorValue::Real(0.5),
            ErrorValue::Char('x'),
            ErrorValue::Str("ß".into()),
        ];
        assert_eq!(values(everything.claim().unwrap_err()), ("everything".into(), expected.to_vec()));
        let expected = [ErrorValue::Str("zoë".into()), ErrorValue::Int(4)];
        assert_eq!(values(s.resolve(&missing).unwrap_err()), ("not_found".into(), expected.to_vec()));
        assert_eq!(fine.claim().unwrap(), 4);
        assert_eq!(crossings(s), 1);
    });
}

#[test]
fn cells_of_everything() {
    fn check<V>(s: &Session, one: V, two: V)
    where
        V: bifrost_veneer::Value
            + IntoArg<V>
            + Element<Future = Promise<V>>
            + PartialEq
            + std::fmt::Debug
            + Clone,
    {
        let cell: Cell<V> = s.cell();
        let (before, empty) = (cell.full(), cell.get());
        cell.put(one.clone());
        let first = cell.get();
        cell.put(two.clone());
        let (after, second) = (cell.full(), cell.get());
        assert_eq!((before.claim().unwrap(), after.claim().unwrap()), (false, true));
        assert_eq!((first.claim().unwrap(), second.claim().unwrap()), (one, two));
        assert_eq!(signal(&empty), "not_possible");
    }
    everywhere(|s, p| {
        check(s, true, false);
        check(s, 1, i64::MIN);
        check(s, 0.5, -0.0);
        check(s, 'x', '\u{10ffff}');
        check(s, String::new(), "äß€🦀".to_owned());
        check(s, (), ());
        assert_eq!(crossings(s), 6);
        let (item, counter, probe) = (s.cell::<Item>(), s.cell::<Counter>(), s.cell::<Probe>());
        probe.put(p);
        counter.put(probe.get().counter());
        item.put(counter.get());
        assert_eq!(item.get().name().claim().unwrap(), "counter");
        assert_eq!(crossings(s), 7);
        // A cell outlives its batch.
        item.put(probe.get().item("a"));
        assert_eq!(item.get().name().claim().unwrap(), "a");
        assert_eq!(crossings(s), 8);
    });
}

#[test]
fn straight_futures_take_one_crossing() {
    everywhere(|s, p| {
        let mut last = p.itself();
        for _ in 0..5000 {
            last = last.itself();
        }
        let name = last.counter().name();
        assert_eq!(crossings(s), 0);
        assert_eq!(name.claim().unwrap(), "counter");
        // A lookup, 5001 times `itself`, two more.
        assert_eq!((crossings(s), s.counters().calls), (1, 5004));
    });
}

#[test]
fn a_claim_flushes_once_for_all_promises() {
    everywhere(|s, p| {
        let promises: Vec<Promise<i64>> = (0..100).map(|i| p.same_int(i)).collect();
        let sum = promises.iter().fold(s.value(0), |sum, p| sum + p);
        assert!(promises[7].peek().is_none());
        assert_eq!(promises[50].claim().unwrap(), 50);
        for (i, promise) in promises.iter().enumerate() {
            assert_eq!(promise.peek().unwrap().unwrap(), i as i64);
        }
        assert_eq!(sum.claim().unwrap(), 4950);
        assert_eq!(crossings(s), 1);
        // A promise that is kept goes as a value.
        assert_eq!(p.same_int(&promises[50]).claim().unwrap(), 50);
        s.flush().unwrap();
        assert_eq!(crossings(s), 2, "a flush of nothing does not cross");
    });
}

#[test]
fn only_what_is_kept_gets_a_handle() {
    let (_server, s, p) = limited(&["limits.handles_max=8"]);
    for _ in 0..1000 {
        p.fresh();
    }
    s.flush().unwrap();
    // Together with `p` these are all, again and again, for what is dropped is given back.
    for _ in 0..5 {
        let kept: Vec<Item> = (0..7).map(|_| p.fresh()).collect();
        s.flush().unwrap();
        kept.iter().for_each(|item| s.resolve(item).unwrap());
        drop(kept);
        s.flush().unwrap();
    }
    assert_eq!(crossings(&s), 11);
    // The same object again takes no other one.
    let same: Vec<Counter> = (0..100).map(|_| p.counter()).collect();
    s.flush().unwrap();
    same.iter().for_each(|counter| s.resolve(counter).unwrap());
    drop(same);
    let many: Vec<Item> = (0..9).map(|_| p.fresh()).collect();
    s.flush().unwrap();
    let failed = many.iter().filter(|item| s.resolve(*item).is_err()).count();
    assert!(failed > 0, "the limit is kept");
    drop(many);
    assert_eq!(p.same_int(1).claim().unwrap(), 1, "and the session goes on");
}

#[test]
fn the_same_object_is_the_same_handle() {
    everywhere(|s, p| {
        let (a, b, other) = (p.counter(), p.counter(), p.fresh());
        s.flush().unwrap();
        let c: Counter = s.lookup("counter");
        s.flush().unwrap();
        assert!(a.stub().is_same(b.stub()) && a.stub().is_same(c.stub()));
        assert!(!a.stub().is_same(other.stub()) && !other.stub().is_same(p.fresh().stub()));
        drop((a, b));
        s.flush().unwrap();
        assert_eq!(c.name().claim().unwrap(), "counter", "it is given back with its last stub only");
        drop(c);
        s.flush().unwrap();
        assert_eq!(p.counter().name().claim().unwrap(), "counter");
    });
}

#[test]
fn structures_nest() {
    let mut expected = String::new();
    for i in 1..=5 {
        if i == 4 {
            break;
        }
        let mut j = 0;
        while j < 10 {
            j += 1;
            if j % 2 == 0 {
                continue;
            }
            if j > i + 3 {
                break;
            } else if i == 2 {
                expected += "two ";
            } else {
                expected += &format!("{i}:{j} ");
            }
        }
    }
    everywhere(|s, p| {
        let out = s.cell_with::<String>("");
        s.foreach(p.numbers(5), |i| {
            s.if_(i.eq_(4), || s.break_());
            let j = s.cell_with(0);
            s.while_(
                || j.get().lt(10),
                || {
                    j.put(j.get() + 1);
                    s.if_((j.get() % 2).eq_(0), || s.continue_());
                    s.if_(j.get().gt(&i + 3), || s.break_()).else_(|| {
                        s.if_(i.eq_(2), || {
                            out.put(out.get() + "two ");
                        })
                        .else_(|| {
                            out.put(out.get() + i.unparse() + ":" + j.get().unparse() + " ");
                        });
                    });
                },
            );
        });
        let (yes, no) = (s.value(true), s.value(false));
        let logic = [
            yes.and_(|| no.clone()),
            yes.or_(|| p.endless_bool()),
            no.and_(|| p.endless_bool()),
            no.or_(|| yes.clone()),
        ];
        assert_eq!(out.get().claim().unwrap(), expected);
        assert_eq!(logic.map(|l| l.claim().unwrap()), [false, true, false, true]);
        assert_eq!(crossings(s), 1);
        assert_eq!(s.exceptions().len(), 0);
    });
}

/// What must not be run.
trait Endless {
    fn endless_bool(&self) -> Promise<bool>;
}

impl Endless for Probe {
    fn endless_bool(&self) -> Promise<bool> {
        self.endless();
        self.same_bool(true)
    }
}

#[test]
fn handlers_get_names_and_values() {
    everywhere(|s, p| {
        let out = s.cell_with::<String>("");
        let say = |text: Promise<String>| {
            out.put(out.get() + text + " ");
        };
        s.foreach(p.numbers(8), |i| {
            s.except(|| {
                s.if_(i.eq_(8), || {
                    p.item("zoe");
                });
                say(p.choose(&i).unparse());
            })
            .when::<signals::Third>(|_| say(p.same_string("third")))
            .when::<signals::Odd>(|(n,)| say(n.unparse() + "!"))
            .when::<signals::Everything>(|(b, i, r, c, text)| {
                say(p.all(b, i, r, c, text, p.item("a")));
            })
            .others_named(say);
        });
        assert_eq!(out.get().claim().unwrap(), "1! 2 third 4 5! true 6 0.5 x ß a 7! not_found ");
        assert_eq!(crossings(s), 1);
        assert_eq!(history(s), [], "what is handled is no exception");
        // What no handler names goes on to the structure around it.
        let seen = s.cell_with(0);
        s.except(|| {
            s.except(|| {
                p.choose(3);
                seen.put(1);
            })
            .when_named::<()>("odd", |_| {
                seen.put(2);
            });
            seen.put(3);
        })
        .others(|| {
            seen.put(seen.get() + 10);
        });
        assert_eq!(seen.get().claim().unwrap(), 10);
    });
}

#[test]
fn exceptions_in_loops_say_the_round() {
    everywhere(|s, p| {
        // An exception that nothing handles ends the structure, and the batch goes on behind it.
        let begun = s.cell_with(0);
        s.foreach(p.numbers(4), |i| {
            begun.put(&i);
            p.choose(i + 1);
            p.counter().add(1);
        });
        let (begun, ended) = (begun.get(), p.counter().value());
        // No stub of the loop is left, so the claim behind it tells, once.
        assert_eq!(begun.claim().unwrap_err().root().signal(), Some("third"));
        assert_eq!((begun.claim().unwrap(), ended.claim().unwrap()), (2, 1));
        assert_eq!(history(s), [(vec![2], "third".to_owned())]);
        s.clear_exceptions();
        s.foreach(p.numbers(4), |i| {
            s.foreach(p.numbers(2), |j| {
                p.choose(&i * &i * 2 + (j - 1) * 2);
            });
        });
        assert_eq!(s.flush().unwrap_err().root().signal(), Some("third"));
        assert_eq!(history(s), [(vec![3, 1], "third".to_owned())]);
        let shown = s.exceptions()[0].error.to_string();
        assert!(
            shown.contains("Probe.choose at ")
                && shown.contains("conformance.rs:")
                && shown.contains("rounds [3, 1]"),
            "{shown}"
        );
        assert_eq!(crossings(s), 2);
    });
}

#[test]
fn what_depends_on_a_failure_says_why() {
    everywhere(|s, p| {
        let zoe = p.item("zoe");
        let (name, passed) = (zoe.name(), p.name_of(&zoe));
        let further = p.same_string(&name).length() + 1;
        let fine = p.same_int(1);
        for (promise, place) in [(&name, 0), (&passed, 1)] {
            match promise.claim().unwrap_err() {
                Error::Unhandled { argument, cause: Some(cause), .. } => {
                    assert_eq!((argument, cause.signal()), (place, Some("not_found")));
                }
                other => panic!("{other}"),
            }
        }
        let error = further.claim().unwrap_err();
        assert!(
            matches!(error, Error::Unhandled { .. }) && error.root().signal() == Some("not_found"),
            "{error}"
        );
        assert_eq!(fine.claim().unwrap(), 1);
        assert_eq!(crossings(s), 1);
        // In a later batch the failed stub is the error-handle.
        match zoe.name().claim().unwrap_err() {
            Error::Unhandled { argument: 0, cause: Some(cause), .. } => {
                assert_eq!(cause.signal(), Some("not_found"));
            }
            other => panic!("{other}"),
        }
        assert_eq!(crossings(s), 2);
    });
}

#[test]
fn misuse_is_a_value_and_the_session_goes_on() {
    everywhere(|s, p| {
        let misused = |error: Error| match error.root() {
            Error::Misuse(misuse) => *misuse,
            other => panic!("{other}"),
        };
        // A claim where the batch cannot end.
        let before = p.same_int(1);
        let total = s.cell_with(0);
        s.foreach(p.numbers(3), |i| {
            assert_eq!(misused(before.claim().unwrap_err()), Misuse::OpenStructure);
            assert_eq!(misused(s.flush().unwrap_err()), Misuse::OpenStructure);
            total.put(total.get() + i);
        });
        assert_eq!(total.get().claim().unwrap(), 6, "the structure is not harmed by it");
        assert_eq!(before.claim().unwrap(), 1);
        assert_eq!(crossings(s), 1);
        // A stub that is used after its structure.
        let mut inside = None;
        s.foreach(p.items(), |item| inside = Some(item));
        let late = inside.unwrap().name();
        assert_eq!(misused(late.claim().unwrap_err()), Misuse::OutOfScope);
        let fine = p.same_int(2);
        assert_eq!(fine.claim().unwrap(), 2);
        // Outside of loops and procedures.
        s.break_();
        assert_eq!(misused(s.flush().unwrap_err()), Misuse::NoLoop);
        s.flush().unwrap();
        // A closure that panics: its structure is not sent.
        let count = s.cell_with(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            s.foreach(p.numbers(3), |i| {
                count.put(i);
                std::panic::resume_unwind(Box::new("not a failure of the test"));
            });
        }));
        assert!(panicked.is_err());
        let count = count.get();
        assert_eq!(misused(count.claim().unwrap_err()), Misuse::Abandoned);
        assert_eq!(count.claim().unwrap(), 0);
    });
}

#[test]
fn procedures_are_kept_by_the_session() {
    everywhere(|s, p| {
        type Parameters = (String, i64, Item);
        let label = s.procedure::<Parameters, String, _>("label", |_, (prefix, n, item)| {
            s.if_(n.lt(0), || s.return_::<String>("negative"));
            prefix + n.unparse() + item.name()
        });
        let (one, two) =
            (label.call(("x", 1, p.item("a"))), label.call((p.same_string("y"), -2, p.counter())));
        assert_eq!((one.claim().unwrap().as_str(), two.claim().unwrap().as_str()), ("x1a", "negative"));
        assert_eq!(crossings(s), 1);
        // By name, in a later batch and in a loop.
        assert!(s.find_procedure::<(i64,), i64>("label").is_none(), "other types");
        let found: Procedure<Parameters, String> = s.find_procedure("label").unwrap();
        let out = s.cell_with::<String>("");
        s.foreach(p.numbers(3), |i| {
            out.put(out.get() + found.call((":", i, p.item("b"))));
        });
        assert_eq!(out.get().claim().unwrap(), ":1b:2b:3b");
        assert_eq!(crossings(s), 2);
        // Recursion.
        let factorial = s.procedure::<(i64,), i64, _>("factorial", |this, (n,)| {
            s.if_(n.le(1), || s.return_::<i64>(1));
            this.call((&n - 1,)) * &n
        });
        let (small, large) = (factorial.call((10,)), factorial.call((21,)));
        assert_eq!(small.claim().unwrap(), 3_628_800);
        let error = large.claim().unwrap_err();
        assert_eq!(error.root().signal(), Some("overflow"), "{error}");
        assert_eq!(crossings(s), 3);
        // Without result, and without parameters.
        let touch = s.procedure::<(), (), _>("touch", |_, _| {
            p.counter().add(5);
        });
        touch.call(());
        touch.call(()).claim().unwrap();
        assert_eq!(p.counter().value().claim().unwrap(), 10);
    });
}

/// The sum of the even numbers up to one, and what was counted on the way.
#[bifrost_veneer::remote]
fn evens(probe: Probe, most: i64) -> i64 {
    let mut sum = 0;
    for n in probe.numbers(most) {
        if n % 2 != 0 {
            continue;
        }
        sum += n;
        probe.counter().add(1);
    }
    sum
}

#[bifrost_veneer::remote]
fn ackermann(m: i64, n: i64) -> i64 {
    if m == 0 {
        n + 1
    } else if n == 0 {
        ackermann(m - 1, 1)
    } else {
        ackermann(m - 1, ackermann(m, n - 1))
    }
}

#[bifrost_veneer::remote(uses(evens))]
fn label(probe: Probe, name: String, most: i64) -> String {
    let mut text = probe.item(name).name() + ":";
    let mut left = most;
    while left > 0 {
        text = text + evens(probe, left) as String + if left == 1 { "." } else { "," };
        left -= 1;
    }
    text
}

#[test]
fn functions_run_at_the_server() {
    everywhere(|s, p| {
        let (sum, deep) = (evens(s, p, 10), ackermann(s, 2, 3));
        assert_eq!((sum.claim().unwrap(), deep.claim().unwrap()), (30, 9));
        assert_eq!((p.counter().value().claim().unwrap(), crossings(s)), (5, 2));
        assert_eq!(label(s, p, "a", 4).claim().unwrap(), "a:6,2,2,0.");
        let calls = s.counters().calls;
        let again = label(s, p, s.value("b".to_owned()), s.value(2)).claim().unwrap();
        assert_eq!((again.as_str(), s.counters().calls - calls), ("b:2,0.", 1), "sent once");
        let wrong = label(s, p, "a", i64::MIN);
        assert_eq!(wrong.claim().unwrap(), "a:");
    });
}

#[test]
fn numbers_signal_what_has_no_result() {
    everywhere(|s, _| {
        let (least, most, one) = (s.value(i64::MIN), s.value(i64::MAX), s.value(1));
        let cases = [
            (&most + 1, "overflow"),
            (&least - 1, "overflow"),
            (&most * 2, "overflow"),
            (&least / -1, "overflow"),
            (-&least, "overflow"),
            (&one / 0, "zero"),
            (&one % 0, "zero"),
        ];
        cases.iter().for_each(|(promise, name)| assert_eq!(signal(promise), *name));
        let real = s.value(1.0) / 0.0;
        assert_eq!(real.claim().unwrap(), f64::INFINITY);
        assert_eq!(crossings(s), 2);
    });
}

#[test]
fn what_is_too_long_is_not_sent() {
    let (_server, s, p) =
        limited(&["limits.batch_commands_max=200", "limits.depth_max=4", "limits.frame_bytes_max=65536"]);
    let misused = |error: Error| match error.root() {
        Error::Misuse(misuse) => *misuse,
        other => panic!("{other}"),
    };
    let misuse = |s: &Session| misused(s.flush().unwrap_err());
    s.flush().unwrap();
    let text = p.same_string("x".repeat(65536));
    assert_eq!(misused(text.claim().unwrap_err()), Misuse::TooLong);
    let count = s.cell_with(0);
    s.flush().unwrap();
    let before = crossings(&s);
    s.foreach(p.numbers(1), |_| {
        for _ in 0..3000 {
            count.put(1);
        }
    });
    assert_eq!(misuse(&s), Misuse::TooLong);
    assert_eq!(crossings(&s), before, "nothing of it crossed");
    // Deeper than the server wants.
    fn nest(s: &Session, depth: u32, inner: &dyn Fn()) {
        match depth {
            0 => inner(),
            _ => drop(s.if_(s.value(true), || nest(s, depth - 1, inner))),
        }
    }
    let put = || drop(count.put(2));
    nest(&s, 5, &put);
    assert_eq!(misuse(&s), Misuse::TooDeep);
    assert_eq!(count.get().claim().unwrap(), 0);
    nest(&s, 4, &put);
    assert_eq!(count.get().claim().unwrap(), 2);
    // A straight batch goes in parts instead.
    let before = crossings(&s);
    let all: Vec<_> = (0..1000).map(|i| p.same_int(i)).collect();
    assert_eq!(all[999].claim().unwrap(), 999);
    assert!((5..=12).contains(&(crossings(&s) - before)), "{}", crossings(&s) - before);
    assert_eq!(s.exceptions().len(), 3, "one for each of the above");
}

#[test]
fn endless_batches_are_ended() {
    let (_server, s, p) = limited(&["limits.fuel_max=10000", "limits.batch_time_ms_max=60000"]);
    s.while_(|| s.value(true).eq_(true), || drop(p.nothing()));
    let after = p.same_int(1);
    let number = |promise: &Promise<i64>| match promise.claim().unwrap_err() {
        Error::NotReached { .. } => (),
        other => panic!("{other}"),
    };
    number(&after);
    let ended = s.exceptions().last().unwrap().error.clone();
    assert!(
        matches!(&*ended, Error::Refused { number, .. } if *number == ErrorNumber::OutOfFuel as u32),
        "{ended}"
    );
    assert_eq!(p.same_int(2).claim().unwrap(), 2, "the next batch has its own");
    for _ in 0..2 {
        s.clear_exceptions();
        let Err(Error::Refused { number, text, .. }) = s.commit().claim() else {
            panic!("half of it is stored")
        };
        assert_eq!(number, ErrorNumber::Doomed as u32, "{text}");
    }
    s.abort().claim().unwrap();
    s.commit().claim().unwrap();

    let (_server, s, p) = limited(&["limits.fuel_max=1000000000000", "limits.batch_time_ms_max=100"]);
    assert_eq!(refusal(&p.endless()), ErrorNumber::TimeLimit);
    let round = s.cell_with(0);
    s.while_(|| round.get().ge(0), || drop(p.nothing()));
    number(&p.same_int(1));

    let (_server, _s, p) = limited(&["limits.batch_time_ms_max=60000"]);
    // Calls that are nested too deeply are a failure that Theta can handle, so they do not end the batch.
    assert_eq!(signal(&p.depth(100_000_000)), "failure");
    assert_eq!(p.depth(100).claim().unwrap(), 100);
}

#[test]
fn messages_name_objects_by_the_calls_that_they_came_from() {
    let (server, s, _probe) = limited(&[]);
    let counter: Counter = s.lookup("counter");
    let line = line!() - 1;
    assert_eq!(counter.value().claim().unwrap(), 0);
    let other = stubs::connect(&server.urls[0]).unwrap();
    other.lookup::<Counter>("counter").add(5);
    other.commit().claim().unwrap();
    counter.add(1);
    let error = s.commit().claim().unwrap_err().to_string();
    let name = format!("`Counter` (the result of `lookup` at {}:{line})", file!());
    assert!(error.contains(&format!("another session has changed {name}")), "{error}");
}

#[test]
fn a_table_is_one_crossing() {
    everywhere(|s, p| {
        let pairs = s.collect(p.pairs(3), |(n, text)| (n.clone(), text, n + 1));
        assert_eq!(crossings(s), 0);
        let pairs = pairs.claim().unwrap();
        assert_eq!(pairs.len(), 3);
        assert!(pairs.iter().all(|(n, text, more)| *more == n + 1 && !text.is_empty()), "{pairs:?}");
        assert_eq!(crossings(s), 1);

        // Objects are stubs, one for each cell, and the values of a row are known.
        p.add_item(p.counter());
        let items = s.collect(p.items(), |item| (item.clone(), item.name(), item.is_::<Counter>()));
        let items = items.claim().unwrap();
        assert_eq!(crossings(s), 2);
        let names: Vec<Promise<String>> = items.iter().map(|(item, ..)| item.name()).collect();
        for ((_, name, _), again) in items.iter().zip(&names) {
            assert_eq!(again.claim().unwrap(), *name);
        }
        assert_eq!(crossings(s), 3);
        assert!(items.iter().any(|(.., is_counter)| *is_counter));
    });
}

#[test]
fn rows_come_from_structures_and_procedures() {
    everywhere(|s, p| {
        let rows = s.rows::<(i64, bool)>();
        rows.push((0, true));
        let odd = s.procedure::<(i64,), (), _>("odd", |_, (n,)| rows.push((n, false)));
        s.foreach(p.numbers(4), |n| {
            s.if_((&n % 2).eq_(0), || rows.push((&n * 10, true))).else_(|| drop(odd.call((&n,))));
        });
        let rows = rows.claim().unwrap();
        assert_eq!(rows[0], (0, true));
        assert_eq!(rows.len(), 5, "{rows:?}");
        assert!(rows[1..].iter().all(|(n, even)| (n % 2 == 0) == *even), "{rows:?}");
        assert_eq!(crossings(s), 1);
        // The table is gone, and a procedure that adds to it too.
        assert_eq!(refusal(&odd.call((7,))), ErrorNumber::NoSuchProcedure);
    });
}

#[test]
fn a_table_of_an_earlier_batch_takes_no_rows() {
    everywhere(|s, _| {
        let rows = s.rows::<(i64,)>();
        rows.push((1,));
        assert_eq!(rows.claim().unwrap(), [(1,)]);
        rows.push((2,));
        // Nobody can claim the row, so the next flush tells it.
        let Err(Error::Unseen { failures, .. }) = s.flush() else { panic!("a row was lost") };
        assert!(failures[0].to_string().contains("ends with its batch"), "{}", failures[0]);
        assert_eq!(rows.claim().unwrap(), [(1,)]);
    });
}

#[test]
fn a_row_that_fails_is_told() {
    everywhere(|s, p| {
        let rows = s.collect(p.numbers(6), |n| (p.choose(n),));
        let Err(Error::Unseen { failures, .. }) = rows.claim() else { panic!("a failure was lost") };
        assert_eq!(failures.len(), 1);
        // Told once, what was there before is there.
        assert!(rows.claim().is_ok());
    });
}

#[test]
fn objects_are_seen_as_what_they_are() {
    everywhere(|s, p| {
        let tagged = p.tagged();
        let number = tagged.thing(1);
        let (int, is_int, is_item) = (number.as_::<i64>(), number.is_::<i64>(), number.is_::<Item>());
        let counter = p.counter();
        let item: Item = counter.clone().into();
        let value = item.as_::<Counter>().value();
        let wrong = p.fresh().as_::<Counter>().value();
        assert_eq!(crossings(s), 0);
        assert!(int.claim().is_ok());
        assert_eq!((is_int.claim().unwrap(), is_item.claim().unwrap()), (true, false));
        assert!(value.claim().is_ok());
        assert!(wrong.claim().unwrap_err().to_string().contains("wrong_type"));
        assert_eq!(crossings(s), 1);

        // In a loop, with a handler.
        p.add_item(&counter);
        let values = s.rows::<(String, i64)>();
        s.foreach(p.items(), |item| {
            s.except(|| values.push((item.name(), item.as_::<Counter>().value())))
                .when::<WrongType>(|_| values.push((item.name(), -1)));
        });
        let values = values.claim().unwrap();
        assert!(values.iter().any(|(_, value)| *value >= 0) && !values.is_empty(), "{values:?}");
    });
}
