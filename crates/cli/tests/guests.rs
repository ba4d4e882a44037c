//! Clients that ask actors, from the recording of a call to nodes in another process, and what becomes of it when one of them ends.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "guests/bifrost_stubs.rs"]
mod stubs;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{Error, ErrorValue, Promise, Session};
use stubs::{Adder, Counter, Gate, Ring};
use support::{Server, bifrost, stderr, stdout};

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/guests.theta")
}

fn server(arguments: &[&str]) -> Server {
    Server::serve(&program(), arguments)
}

fn session(server: &Server) -> Session {
    stubs::connect(&server.urls[0]).unwrap()
}

/// The name of a signal, or the number of a refusal.
fn failure<V: std::fmt::Debug>(result: Result<V, Error>) -> String {
    told(result.unwrap_err())
}

fn told(error: Error) -> String {
    match error {
        Error::Signal { name, values, .. } => match &values[..] {
            [] => name.to_string(),
            [ErrorValue::Int(n)] => format!("{name}({n})"),
            [ErrorValue::Str(text)] => format!("{name}({text})"),
            other => format!("{name}({other:?})"),
        },
        Error::Refused { number, text, .. } => format!("{number}: {text}"),
        Error::Unhandled { cause: Some(cause), .. } => told((*cause).clone()),
        other => other.to_string(),
    }
}

#[test]
fn requests_over_several_nodes_that_wait_for_themselves_are_told_to_a_client() {
    for arguments in [&["--nodes", "1"][..], &["--nodes", "2"], &["--nodes", "3", "--interpret"]] {
        let server = server(arguments);
        let (s, other) = (session(&server), session(&server));
        let nodes = arguments[1].parse::<i64>().unwrap();
        let rings: Vec<Ring> = (0..nodes.max(2)).map(|at| stubs::new_ring_on(&s, at, at % nodes)).collect();
        for (at, ring) in rings.iter().enumerate() {
            ring.send().join(&rings[(at + 1) % rings.len()]);
        }
        stubs::new_counter(&other, 0).value().claim().unwrap();
        let begun = Instant::now();
        // Each asks the next, and the last the first, which waits.
        let told_of = failure(rings[0].far(rings.len() as i64).claim());
        assert_eq!(told_of, "failure(request cycle)", "{arguments:?}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{arguments:?}: {took:?}");
        s.clear_exceptions();
        // All of them go on.
        for (at, ring) in rings.iter().enumerate() {
            assert_eq!(ring.far(0).claim().map_err(told), Ok(at as i64), "{arguments:?}");
        }
    }
}

#[test]
fn an_actor_is_found_asked_and_sent_to_in_one_crossing() {
    for arguments in [&["--nodes", "1"][..], &["--nodes", "3"], &["--nodes", "2", "--interpret"]] {
        let server = server(arguments);
        let s = session(&server);
        let counter: Counter = s.lookup("counter");
        counter.send().step(1);
        let (first, second) = (counter.add(10), counter.value());
        // The result of a request is an argument of another before anybody knows it.
        let sum = stubs::new_counter(&s, 100).add(&first);
        assert_eq!(
            (first.claim().map_err(told), second.claim().map_err(told), sum.claim().map_err(told)),
            (Ok(16), Ok(16), Ok(116))
        );
        assert_eq!(s.counters().crossings, 1);
        // An actor type above the class, and an actor that an actor has made.
        let adder: Adder = s.lookup("counter");
        let other = counter.other();
        assert_eq!(
            (adder.add(1).claim().map_err(told), other.add(0).claim().map_err(told)),
            (Ok(17), Ok(16))
        );
        assert_eq!(counter.item(stubs::new_item(&s, "thing")).claim().map_err(told), Ok("thing".to_owned()));
        let list = counter.list();
        assert_eq!(
            list.fetch(2).claim().map_err(told),
            Ok(18),
            "a copy of an object that may change belongs to the session"
        );
        assert_eq!(stubs::new_counter_on(&s, 0, 0).place().claim().map_err(told), Ok(0));
        let lost = stubs::new_counter_on(&s, 0, 9).place().claim();
        assert!(lost.is_err(), "{lost:?}");
        s.clear_exceptions();
    }
}

#[test]
fn names_are_typed_and_known_to_all_sessions() {
    let server = server(&["--nodes", "2"]);
    let (one, other) = (session(&server), session(&server));
    let mine = stubs::new_counter(&one, 40);
    stubs::name_it(&one, "mine", &mine);
    one.flush().unwrap();
    let same: Counter = other.lookup("mine");
    assert_eq!(same.add(2).claim().map_err(told), Ok(42));
    assert_eq!(stubs::named(&other, "mine").value().claim().map_err(told), Ok(42));
    // Whoever has named it may go.
    drop((mine, one));
    assert_eq!(same.add(1).claim().map_err(told), Ok(43));
    // Another actor under the name; whoever has the first keeps it.
    stubs::name_it(&other, "mine", stubs::new_counter(&other, 7));
    let next: Counter = other.lookup("mine");
    assert_eq!((next.value().claim().map_err(told), same.value().claim().map_err(told)), (Ok(7), Ok(43)));
    stubs::forget(&other, "mine");
    let gone: Counter = other.lookup("mine");
    let no_name = format!("{}: there is no well-known object `mine`", ErrorNumber::NoSuchName as u32);
    assert_eq!(failure(gone.value().claim()), no_name);
    let wrong: Gate = other.lookup("counter");
    let mistyped = format!("{}: `counter` is a `Counter`, not a `Gate`", ErrorNumber::WrongType as u32);
    assert_eq!(failure(wrong.pass().claim()), mistyped);
    assert_eq!(failure(stubs::forget(&other, "mine").claim()), "not_found");
    assert_eq!(failure(stubs::named(&other, "mine").value().claim()), "not_found");
}

#[test]
fn requests_of_a_batch_are_under_way_together() {
    let server = server(&["--nodes", "2"]);
    let s = session(&server);
    // Nobody passes before all have come: one after the other they would wait for ever.
    let gate = stubs::new_gate(&s, 3);
    let passed: Vec<Promise<i64>> = (0..3).map(|_| gate.pass()).collect();
    assert!(passed.iter().all(|passed| passed.claim().map_err(told) == Ok(3)));
    // The same in loops, where nothing needs the results, and in a procedure that they call.
    let gate = stubs::new_gate(&s, 1000);
    s.foreach(s.value(1).to(1000), |_| {
        let _ = gate.pass();
    });
    s.flush().unwrap();
    let n = s.cell_with::<i64>(0);
    let gate = stubs::new_gate(&s, 20);
    s.while_(
        || n.get().lt(20),
        || {
            s.if_(n.get().ge(0), || {
                let _ = gate.pass();
            });
            n.put(n.get() + 1);
        },
    );
    assert_eq!(n.get().claim().map_err(told), Ok(20));
    // And where a result is needed, it is awaited there.
    let (gate, counter) = (stubs::new_gate(&s, 2), stubs::new_counter(&s, 0));
    s.foreach(s.value(1).to(2), |i| {
        let _ = gate.pass();
        counter.add(counter.add(i));
    });
    // 0+1=1, +1=2; 2+2=4, +4=8.
    assert_eq!(counter.value().claim().map_err(told), Ok(8));
    assert_eq!(s.exceptions().len(), 0);
}

#[test]
fn failures_are_those_of_the_call_and_of_what_needs_it() {
    let server = server(&["--nodes", "2"]);
    let s = session(&server);
    let counter: Counter = s.lookup("last");
    let failed = counter.fail(7);
    let (dependent, other) = (counter.add(&failed), counter.add(1));
    assert_eq!(failure(failed.claim()), "broken(7)");
    assert!(
        matches!(dependent.claim(), Err(Error::Unhandled { argument: 1, .. })),
        "{:?}",
        dependent.claim()
    );
    assert_eq!(other.claim().map_err(told), Ok(1));
    assert_eq!(failure(counter.fall().claim()), "failure(unhandled exception: zero)");
    // In loops the round is told, also of what nobody waits for there: by the flush, and in the
    // history.
    s.clear_exceptions();
    s.foreach(s.value(1).to(4), |i| {
        s.if_(i.eq_(3), || {
            let _ = counter.fail(&i);
        });
    });
    assert_eq!(s.flush().unwrap_err().root().signal(), Some("broken"));
    let told_of: Vec<String> = s.exceptions().iter().map(|exception| format!("{exception:?}")).collect();
    assert_eq!(told_of.len(), 1, "{told_of:?}");
    assert!(told_of[0].contains("rounds: [3]"), "{told_of:?}");
    // Handlers are those around the request.
    let caught = s.cell_with::<i64>(0);
    s.except(|| {
        let _ = counter.fail(5);
    })
    .when_named::<(i64,)>("broken", |(n,)| {
        caught.put(n);
    });
    assert_eq!(caught.get().claim().map_err(told), Ok(5));
    // A transaction of which a request has failed is not committed unless somebody looked.
    s.clear_exceptions();
    let _ = counter.fail(1);
    assert!(s.commit().claim().is_err());
    s.commit().claim().unwrap();
    // What was done by a message stays done.
    counter.send().step(10);
    s.abort();
    assert_eq!(counter.value().claim().map_err(told), Ok(11));
}

#[test]
fn messages_of_a_session_keep_their_order() {
    let server = server(&["--nodes", "2"]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let s = session(&server);
                let counter = stubs::new_counter_on(&s, 0, 1);
                for n in 1..=200 {
                    counter.send().step(1);
                    stubs::step(&s, &counter, 1);
                    if n % 50 == 0 {
                        assert_eq!(counter.value().claim().map_err(told), Ok(2 * n));
                    }
                }
                let group = stubs::new_counters(&s, 5, 3);
                counter.all(&group, 2);
                assert_eq!(group.member(1).add(0).claim().is_ok(), group.member(2).value().claim().is_ok());
            });
        }
    });
}

#[test]
fn an_actor_that_never_answers_takes_the_time_of_a_batch() {
    let server =
        server(&["--nodes", "1", "--set", "limits.batch_time_ms_max=300", "--set", "limits.requests_max=4"]);
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    let since = Instant::now();
    let late = counter.never();
    let text = failure(late.claim());
    assert!(text.starts_with(&format!("{}: ", ErrorNumber::TimeLimit as u32)), "{text}");
    assert!(since.elapsed() < Duration::from_secs(20), "the session waits no longer than its batch may take");
    // The session goes on, and the answer that comes late is nobody's.
    s.clear_exceptions();
    assert_eq!(counter.value().claim().map_err(told), Ok(5));
    counter.send().release(9);
    assert_eq!(counter.value().claim().map_err(told), Ok(5));
    // Whoever has too many under way waits, until time is over.
    for _ in 0..4 {
        counter.send().never();
    }
    let value = counter.value();
    assert!(failure(value.claim()).starts_with(&format!("{}: ", ErrorNumber::TimeLimit as u32)));
    s.clear_exceptions();
    let other = session(&server);
    let same: Counter = other.lookup("counter");
    same.send().release(1);
    assert_eq!(same.value().claim().map_err(told), Ok(5));
    assert_eq!(counter.value().claim().map_err(told), Ok(5));
}

#[test]
fn messages_of_routines_are_under_way_until_they_are_served() {
    let server = server(&[
        "--nodes",
        "1",
        "--set",
        "limits.batch_time_ms_max=1500",
        "--set",
        "limits.requests_max=100",
    ]);
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    let sleeper = stubs::new_sleeper(&s);
    sleeper.send().sleep(&counter);
    // More than may be under way: the routine waits, until the batch's time is over.
    let text = failure(stubs::notes(&s, &sleeper, 1000).claim());
    assert!(text.starts_with(&format!("{}: ", ErrorNumber::TimeLimit as u32)), "{text}");
    s.clear_exceptions();
    // Those that were sent are served when the actor can; then there is room for more.
    let other = session(&server);
    let same: Counter = other.lookup("counter");
    same.send().release(0);
    assert_eq!(same.value().claim().map_err(told), Ok(5));
    let noted = sleeper.value().claim().map_err(told).expect("there is room");
    assert!((90..=100).contains(&noted), "{noted}");
    stubs::notes(&s, &sleeper, 2000);
    assert_eq!(sleeper.value().claim().map_err(told), Ok(noted + 2000));
}

#[test]
fn a_full_mailbox_refuses_its_senders_and_others_go_on() {
    let bounds = ["mailbox_bytes_max=1048576", "limits.requests_max=100000"];
    let mut command = bifrost();
    // Each message that is refused and that nobody awaits is a line of the log, which nobody reads
    // here.
    command.env("BIFROST_LOG", "off");
    let server =
        Server::spawn(command, &program(), &["--nodes", "2", "--set", bounds[0], "--set", bounds[1]]);
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    let sleeper = stubs::new_sleeper(&s);
    sleeper.send().sleep(&counter);
    stubs::notes(&s, &sleeper, 20_000);
    assert_eq!(failure(sleeper.value().claim()), "failure(mailbox full)");
    s.clear_exceptions();
    let other = session(&server);
    let same: Counter = other.lookup("counter");
    assert_eq!(same.value().claim().map_err(told), Ok(5));
    same.send().release(0);
    assert_eq!(same.value().claim().map_err(told), Ok(5));
    // It has yet to serve some.
    let noted = loop {
        match sleeper.value().claim() {
            Ok(noted) => break noted,
            Err(error) => assert_eq!(told(error), "failure(mailbox full)"),
        }
        s.clear_exceptions();
    };
    assert!((5_000..20_000).contains(&noted), "{noted}");
}

#[test]
fn answers_that_nobody_takes_have_a_limit() {
    let server = server(&["--nodes", "1", "--set", "batch_heap_bytes_max=4194304"]);
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    // Answers of 12 MB come while the session computes.
    let texts: Vec<Promise<String>> = (0..400).map(|_| counter.long(15)).collect();
    let _sum = stubs::busy(&s, 300_000_000);
    let text = failure(texts[0].claim());
    assert!(text.starts_with(&format!("{}: ", ErrorNumber::HeapLimit as u32)), "{text}");
    assert!(text.contains("unread answers"), "{text}");
    // The session hears of no actors any more, but goes on; others are not concerned.
    s.clear_exceptions();
    assert_eq!(stubs::busy(&s, 3).claim().map_err(told), Ok(2));
    let text = failure(counter.value().claim());
    assert!(text.starts_with(&format!("{}: ", ErrorNumber::HeapLimit as u32)), "{text}");
    let other = session(&server);
    let same: Counter = other.lookup("counter");
    assert_eq!(same.value().claim().map_err(told), Ok(5));
}

#[test]
fn a_batch_that_is_a_transaction_sends_when_it_is_committed_and_asks_nobody() {
    let server = server(&[]);
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    counter.value().claim().unwrap();
    s.transaction(Default::default(), || {
        counter.send().step(10);
        stubs::step(&s, &counter, 100);
    })
    .unwrap();
    assert_eq!(counter.value().claim().map_err(told), Ok(115));
    let tried = s.transaction(Default::default(), || {
        counter.send().step(1000);
        counter.add(1)
    });
    assert!(tried.is_err(), "it may run several times");
    s.clear_exceptions();
    assert_eq!(counter.value().claim().map_err(told), Ok(115), "what it has sent never was");
}

#[test]
fn actors_have_transactions_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    for round in 1..=2 {
        let server = server(&["--nodes", "2", "--store", &store]);
        std::thread::scope(|scope| {
            for node in [0, 1] {
                let server = &server;
                scope.spawn(move || {
                    let s = session(server);
                    let keeper = stubs::new_keeper(&s, node);
                    for _ in 0..5 {
                        keeper.count().claim().unwrap();
                    }
                });
            }
        });
        let s = session(&server);
        let last = stubs::new_keeper(&s, 0).count();
        assert_eq!(last.claim().map_err(told), Ok(11 * round), "each has seen what the other has committed");
    }
}

#[test]
fn what_may_change_is_not_sent() {
    let server = server(&[]);
    for (line, answer) in [
        // A client has no way to say that it means a copy: such methods are not for clients.
        ("$c.sort($n)", "Counter has no method `sort`"),
        ("? $c.add(\"x\")", "argument 1: expected `int`, found `string`"),
        ("? $c.add($n)", "argument 1: expected `int`, found `array[int]`"),
        ("? $c.item($n)", "argument 1: expected `Item`, found `array[int]`"),
        ("send $n.length()\n?", "`length` is not a method of an actor: call it instead of sending it"),
        ("send $c.step($n)\n?", "argument 1: expected `int`, found `array[int]`"),
        ("send 1", "write `send` with a method of an actor"),
        ("foreach $i in 1.to(2) do\nsend $c.step(true)\nend\n?", "expected `int`, found `bool`"),
    ] {
        let script =
            format!("$c := lookup counter: Counter\n$n := lookup numbers: array[int]\n{line}\nbye\n");
        let said = server.shell(&server.urls[0], &[], &script);
        let said = format!("{}{}", stdout(&said), stderr(&said));
        assert!(said.contains(answer), "{line}: {said}");
    }
}

#[test]
fn what_a_session_holds_lives() {
    let server = server(&["--nodes", "2"]);
    let s = session(&server);
    // So many that nodes look for garbage among what others know.
    let counters = stubs::many(&s, 15_000);
    for round in 1..=3 {
        s.foreach(counters.elements(), |counter| {
            let _ = counter.add(1);
        });
        s.flush().unwrap();
        assert_eq!(s.exceptions().len(), 0, "{:?}", s.exceptions().first());
        assert_eq!(counters.fetch(7_000).value().claim().map_err(told), Ok(7_000 + round));
        // What others do meanwhile, and let go.
        let other = session(&server);
        stubs::many(&other, 500);
        other.flush().unwrap();
    }
}

/// What a server with metrics tells of one of them.
fn metric(server: &Server, name: &str) -> u64 {
    let mut stream = UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("bifrost_{name} "))).unwrap();
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Waits until a metric is so.
#[track_caller]
fn await_metric(server: &Server, name: &str, is_so: impl Fn(u64) -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so(metric(server, name)) {
        assert!(Instant::now() < until, "{name} is {} still", metric(server, name));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn rings_that_sessions_leave_are_freed() {
    let server = server(&["--nodes", "2", "--metrics", "unix://FOLDER/metrics"]);
    let pair = |s: &Session, own: i64| {
        let (a, b) = (stubs::new_ring_on(s, own, 0), stubs::new_ring_on(s, own + 1, 1));
        let _ = (a.join(&b), b.join(&a));
        s.flush().unwrap();
        a
    };
    let s = session(&server);
    let held = pair(&s, 7);
    assert_eq!(held.far(1).claim().map_err(told), Ok(8));
    for round in 1..=3 {
        let other = session(&server);
        let rings: Vec<Ring> = (0..100).map(|n| pair(&other, n)).collect();
        assert_eq!(rings[99].far(1).claim().map_err(told), Ok(100));
        assert!(metric(&server, "actors_known") > 100);
        drop((rings, other));
        await_metric(&server, "actors_swept_total", |swept| swept >= 200 * round);
    }
    // What is left: the names, and the ring that is held.
    await_metric(&server, "actors_known", |known| known < 20);
    assert_eq!(held.far(1).claim().map_err(told), Ok(8));
}

#[test]
fn what_moves_between_nodes_while_garbage_is_searched_lives() {
    let server = server(&["--nodes", "2", "--metrics", "unix://FOLDER/metrics"]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..40 {
                    let s = session(&server);
                    for n in 0..10 {
                        // Each is known to the one that was made behind it, on the other node, and the last one to the session.
                        let mut last = stubs::new_ring_on(&s, 0, n % 2);
                        for own in 1..5 {
                            let next = stubs::new_ring_on(&s, own, (n + own) % 2);
                            let _ = next.join(&last);
                            if (round + own) % 3 == 0 {
                                s.flush().unwrap();
                            }
                            last = next;
                        }
                        // Nothing else says that all have been told of their neighbours.
                        s.flush().unwrap();
                        assert_eq!(last.far(4).claim().map_err(told), Ok(0));
                        // And garbage beside them, in a ring.
                        let (a, b) = (stubs::new_ring_on(&s, 0, 0), stubs::new_ring_on(&s, 0, 1));
                        a.send().join(&b);
                        b.send().join(&a);
                    }
                }
            });
        }
    });
    await_metric(&server, "actors_known", |known| known < 20);
}

#[test]
fn what_a_session_drops_is_freed_while_it_goes_on() {
    let server = server(&["--nodes", "2", "--metrics", "unix://FOLDER/metrics"]);
    let s = session(&server);
    for _ in 0..40 {
        for n in 0..1000 {
            stubs::new_counter_on(&s, n, n % 2);
        }
        s.flush().unwrap();
    }
    await_metric(&server, "actors_known", |known| known < 25_000);
    assert_eq!(stubs::new_counter_on(&s, 1, 1).value().claim().map_err(told), Ok(1));
}

#[test]
fn a_client_that_is_killed_leaves_nothing() {
    let server = server(&["--nodes", "2", "--metrics", "unix://FOLDER/metrics"]);
    let mut shell = bifrost();
    shell.arg("shell").arg(&server.urls[0]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    input
        .write_all(b"$c := lookup counter: Counter\n$g := new_gate(2)\n? $c.value()\n? $g.pass()\n")
        .unwrap();
    let (mut output, mut said) = (shell.stdout.take().unwrap(), [0; 6]);
    output.read_exact(&mut said).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    assert_eq!(counter.value().claim().map_err(told), Ok(5));
    drop((counter, s));
    assert_eq!(metric(&server, "nodes"), 2);
    assert_eq!(metric(&server, "actor_names"), 2);
}

#[test]
fn a_client_that_dies_while_it_waits_is_noticed() {
    let listen = ["--listen", "shm://FOLDER/shm"];
    dies_while_it_waits(&server(&[&listen[..], &NODES].concat()), Duration::from_secs(5));
    // Over TCP a client that is gone looks like one that only sends nothing more: it has the time
    // of its batch.
    let listen = ["--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];
    let time = ["--set", "limits.batch_time_ms_max=2000"];
    dies_while_it_waits(&server(&[&listen[..], &NODES, &time].concat()), Duration::from_secs(60));
}

const NODES: [&str; 4] = ["--nodes", "2", "--metrics", "unix://FOLDER/metrics"];

/// Kills a client at each address of a server while an actor does not answer it.
fn dies_while_it_waits(server: &Server, noticed_within: Duration) {
    let s = session(server);
    let counter: Counter = s.lookup("counter");
    assert_eq!(counter.value().claim().map_err(told), Ok(5));
    for (waiters, url) in (1..).zip(&server.urls) {
        let mut shell = bifrost();
        shell.arg("shell").arg(url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        input
            .write_all(b"$c := lookup counter: Counter\n$r := new_ring_on(1, 1)\n$s := new_ring_on(2, 1)\n? $c.never()\n")
            .unwrap();
        while counter.waiters().claim().unwrap() < waiters {}
        assert_eq!(metric(server, "node_sessions"), 2, "{url}");
        shell.kill().unwrap();
        shell.wait().unwrap();
        let since = Instant::now();
        await_metric(server, "node_sessions", |open| open == 1);
        assert!(since.elapsed() < noticed_within, "{url}");
    }
    assert_eq!(counter.value().claim().map_err(told), Ok(5));
}

#[test]
fn a_server_that_stops_tells_who_waits() {
    let server = server(&["--nodes", "2"]);
    let url = server.urls[0].clone();
    let waiting = std::thread::spawn(move || {
        let s = stubs::connect(&url).unwrap();
        let counter: Counter = s.lookup("counter");
        counter.never().claim().unwrap_err().to_string()
    });
    let s = session(&server);
    let counter: Counter = s.lookup("counter");
    while counter.waiters().claim().unwrap() == 0 {}
    drop((counter, s));
    let since = Instant::now();
    let (status, said) = server.end("TERM");
    assert_eq!(status, Some(0), "{said}");
    assert!(since.elapsed() < Duration::from_secs(8), "nobody is waited for");
    assert!(!said.contains("abandoned"), "{said}");
    let told = waiting.join().unwrap();
    assert!(!told.is_empty());
}
