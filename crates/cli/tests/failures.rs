//! Clients that die, servers that stop, interfaces that differ: what the others notice of it.
//!
//! Nothing here waits for a time to pass: a process is killed when it, or what it did, has said that it is there.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod stubs;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_veneer::wire::ErrorNumber;
use bifrost_veneer::{Closed, Error, How, Session};
use stubs::{Counter, Probe};
use support::{Server, again, kill, stderr};

/// No wait is longer than this.
const AT_MOST: Duration = Duration::from_secs(30);

const TRANSPORTS: [&str; 5] =
    ["--listen", "shm://FOLDER/shm", "--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta")
}

/// A server of which every line is read.
struct Watched {
    server: Server,
    log: Receiver<String>,
    printed: Receiver<String>,
}

impl Watched {
    fn start(settings: &[&str]) -> Watched {
        let settings = settings.iter().flat_map(|s| ["--set", s]);
        let arguments: Vec<&str> = TRANSPORTS.into_iter().chain(settings).collect();
        let mut server = Server::serve_logged(&program(), &arguments);
        let log = lines(server.child.stderr.take().unwrap());
        let printed = lines(server.child.stdout.take().unwrap());
        Watched { server, log, printed }
    }

    fn connect(&self, transport: usize) -> (Session, Probe, Counter) {
        connect(&self.server.urls[transport])
    }

    /// Waits until a session, counted from 1, has ended at the server, and returns what the server says of it.
    fn closed(&self, session: u64) -> String {
        wait_for(&self.log, &format!("session.close session={session} "))
    }
}

fn connect(url: &str) -> (Session, Probe, Counter) {
    let s = stubs::connect(url).unwrap();
    let (p, counter) = (s.lookup("probe"), s.lookup("counter"));
    (s, p, counter)
}

/// What is committed now.
fn committed(s: &Session, counter: &Counter) -> i64 {
    s.abort();
    counter.value().claim().unwrap()
}

/// The lines of a stream, as they come.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // Who waits for a line may have gone away; the stream is read all the same, so that its writer never waits.
        BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    receiver
}

fn wait_for(lines: &Receiver<String>, part: &str) -> String {
    let until = Instant::now() + AT_MOST;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if line.contains(part) => return line,
            Ok(_) => {}
            Err(error) => panic!("no line with `{part}`: {error}"),
        }
    }
}

/// A client process that says where it is, and then waits to be killed.
struct Victim {
    child: Child,
    said: Receiver<String>,
}

impl Victim {
    fn start(what: &str, url: &str) -> Victim {
        let mut command = again("victim_process");
        command
            .env("BIFROST_URL", url)
            .env("BIFROST_VICTIM", what)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = lines(child.stderr.take().unwrap());
        Victim { child, said }
    }

    fn kill(mut self) {
        kill(&self.child, "KILL");
        assert_eq!(self.child.wait().unwrap().code(), None);
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn victim_process() {
    let Some(url) = support::child_url() else { return };
    let what = std::env::var("BIFROST_VICTIM").unwrap();
    let (s, p, counter) = connect(&url);
    // Ends with this process only: nobody writes to it.
    let here = || {
        writeln!(std::io::stderr(), "here").unwrap();
        let _ = std::io::stdin().read(&mut [0]);
    };
    match what.as_str() {
        "recording" => {
            (0..3000).for_each(|_| {
                counter.add(1);
                s.commit();
            });
            // This much more, and nobody ever commits it.
            (0..3000).for_each(|_| drop(counter.add(1_000_000)));
            here();
        }
        "structure" => {
            counter.add(1);
            s.commit().claim().unwrap();
            s.foreach(p.numbers(3), |i| {
                (0..3000).for_each(|_| drop(counter.add(&i)));
                here();
            });
        }
        "waiting" => {
            counter.add(1);
            s.commit();
            let _ = p.endless().claim();
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_client_killed_while_it_records_disturbs_nobody() {
    let watched = Watched::start(&[]);
    for (transport, session) in (0..3).zip([2, 4, 6]) {
        let (s, _, counter) = watched.connect(transport);
        let before = committed(&s, &counter);
        let victim = Victim::start("recording", &watched.server.urls[transport]);
        wait_for(&victim.said, "here");
        // What it had recorded by and by is running, although it never flushed.
        let until = Instant::now() + AT_MOST;
        while committed(&s, &counter) == before {
            assert!(Instant::now() < until);
        }
        victim.kill();
        watched.closed(session);
        let after = committed(&s, &counter);
        assert!(after > before && after <= before + 3000, "what it committed is there: {}", after - before);
        assert_eq!(counter.add(1).claim().unwrap(), after + 1);
        s.commit().claim().unwrap();
        s.close().unwrap();
    }
}

#[test]
fn of_a_client_killed_in_a_structure_nothing_is_run() {
    let watched = Watched::start(&[]);
    for (transport, session) in (0..3).zip([2, 4, 6]) {
        let (s, _, counter) = watched.connect(transport);
        let before = committed(&s, &counter);
        let victim = Victim::start("structure", &watched.server.urls[transport]);
        wait_for(&victim.said, "here");
        victim.kill();
        let closed = watched.closed(session);
        assert!(closed.contains("calls=1 structures=0 "), "{closed}");
        assert_eq!(committed(&s, &counter), before + 1);
        s.close().unwrap();
    }
}

#[test]
fn a_client_killed_while_it_waits_holds_nobody_up_for_long() {
    let watched = Watched::start(&["limits.batch_time_ms_max=300"]);
    for (transport, session) in (0..3).zip([2, 4, 6]) {
        let (s, _, counter) = watched.connect(transport);
        let before = committed(&s, &counter);
        let victim = Victim::start("waiting", &watched.server.urls[transport]);
        wait_for(&watched.printed, "endless");
        victim.kill();
        assert_eq!(committed(&s, &counter), before + 1);
        watched.closed(session);
        s.close().unwrap();
    }
}

#[test]
fn the_session_of_a_dead_client_makes_room() {
    for transport in 0..3 {
        let watched = Watched::start(&["sessions_max=1"]);
        let url = &watched.server.urls[transport];
        let victim = Victim::start("structure", url);
        wait_for(&victim.said, "here");
        let refused = stubs::connect(url).unwrap_err().to_string();
        assert!(refused.contains("that is the limit (sessions_max) (error 40)"), "{refused}");
        victim.kill();
        watched.closed(1);
        // The place is free a moment after the line is written.
        let until = Instant::now() + AT_MOST;
        while let Err(error) = stubs::connect(url) {
            assert!(Instant::now() < until, "{error}");
        }
    }
}

/// How often each of the clients below changes the object, in how many batches.
const BATCHES: i64 = 20;
const CHANGES: i64 = 50;

#[test]
fn adding_process() {
    let Some(url) = support::child_url() else { return };
    let (s, p, counter) = connect(&url);
    for _ in 0..BATCHES {
        // Reads and writes: nobody comes between, for the batch is a transaction, which is run again until nobody did.
        s.transaction(How::default(), || {
            s.foreach(p.numbers(CHANGES), |_| {
                counter.add(1);
                counter.rename(counter.name() + "x");
            });
        })
        .unwrap();
    }
    assert_eq!(s.exceptions().len(), 0);
    // What was recorded before the first is a batch of its own.
    assert_eq!(s.counters().crossings, BATCHES as u64 + 1);
    s.close().unwrap();
}

#[test]
fn clients_at_once_change_the_same_object() {
    let watched = Watched::start(&[]);
    let (s, _, counter) = watched.connect(0);
    counter.rename("");
    s.commit();
    assert_eq!(counter.value().claim().unwrap(), 0);
    let clients: Vec<Child> = watched
        .server
        .urls
        .iter()
        .map(|url| again("adding_process").env("BIFROST_URL", url).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    s.abort();
    let (value, length) = (counter.value(), counter.name().length());
    let all = 3 * BATCHES * CHANGES;
    assert_eq!((value.claim().unwrap(), length.claim().unwrap()), (all, all));
}

/// What a client hears that waits for an endless call, and what it hears afterwards.
fn waiting_client(url: &str) -> (Receiver<[Error; 2]>, JoinHandle<()>) {
    let (sender, receiver) = channel();
    let url = url.to_owned();
    let thread = std::thread::spawn(move || {
        let (_s, p, _) = connect(&url);
        let first = p.endless().claim().unwrap_err();
        let second = p.same_int(1).claim().unwrap_err();
        let _ = sender.send([first, second]);
    });
    (receiver, thread)
}

#[test]
fn a_client_that_waits_hears_of_the_end_of_the_server() {
    for transport in 0..3 {
        let mut watched = Watched::start(&["limits.batch_time_ms_max=60000"]);
        let (heard, thread) = waiting_client(&watched.server.urls[transport]);
        wait_for(&watched.printed, "endless");
        kill(&watched.server.child, "TERM");
        let [first, second] = heard.recv_timeout(AT_MOST).unwrap();
        // The run is cancelled, and the answer still comes through.
        let cancelled =
            matches!(first, Error::Refused { number, .. } if number == ErrorNumber::Cancelled as u32);
        assert!(cancelled, "transport {transport}: {first:?}");
        assert!(matches!(second, Error::Closed(_)), "transport {transport}: {second:?}");
        assert_eq!(watched.server.child.wait().unwrap().code(), Some(0));
        thread.join().unwrap();
    }
}

#[test]
fn a_client_that_waits_notices_that_the_server_was_killed() {
    for transport in 0..3 {
        let mut watched = Watched::start(&["limits.batch_time_ms_max=60000"]);
        let (heard, thread) = waiting_client(&watched.server.urls[transport]);
        wait_for(&watched.printed, "endless");
        kill(&watched.server.child, "KILL");
        watched.server.child.wait().unwrap();
        let [first, second] = heard.recv_timeout(AT_MOST).unwrap();
        for error in [first, second] {
            let gone = matches!(&error, Error::Closed(why) if matches!(&**why, Closed::Connection(_)));
            assert!(gone && !error.to_string().contains("within"), "{transport}: {error:?}");
        }
        thread.join().unwrap();
    }
}

#[test]
fn a_client_does_not_wait_longer_than_it_wants() {
    for transport in 0..3 {
        let watched = Watched::start(&["limits.batch_time_ms_max=60000"]);
        let builder = Session::builder(&stubs::INTERFACE).timeout(Duration::from_millis(500));
        let s = builder.connect(&watched.server.urls[transport]).unwrap();
        let p: Probe = s.lookup("probe");
        let error = p.endless().claim().unwrap_err();
        let why = error.to_string();
        assert!(matches!(error, Error::Closed(_)) && why.contains("did not answer within 500ms"), "{why}");
        let error = s.flush().unwrap_err();
        assert!(matches!(error, Error::Closed(_)), "{error}");
    }
}

/// A server of the program with some of its text replaced.
fn other_program(replaced: &[(&str, &str)]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut text = std::fs::read_to_string(program()).unwrap();
    for (old, new) in replaced {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    let file = folder.path().join("other.theta");
    std::fs::write(&file, text).unwrap();
    (Server::serve(&file, &[]), folder)
}

#[test]
fn older_stubs_work_with_a_newer_server() {
    let (server, _folder) = other_program(&[
        (
            "Item = type\n",
            "Added = type added () returns (int) end Added\n\nItem = type\n  added () returns (int)\n",
        ),
        ("Probe = type\n", "Probe = type\n  added () returns (Added)\n"),
        (
            "    name: string\n    rename",
            "    name: string\n    added () returns (int) return (1) end added\n    rename",
        ),
        ("value: int\n    rename", "value: int\n    added () returns (int) return (2) end added\n    rename"),
        ("one: Counter\n", "one: Counter\n    added () returns (Added) return (AddedRep{}) end added\n"),
        (
            "  ItemRep = class",
            "  AddedRep = class implements Added\n    added () returns (int) return (3) end added\n  end AddedRep\n\n  ItemRep = class",
        ),
    ]);
    let (s, p, counter) = connect(&server.urls[0]);
    let text = p.all(true, 1, 0.5, 'x', "s", p.item("a"));
    let total = s.cell_with(0);
    s.foreach(stubs::squares(&s, 3), |i| {
        total.put(total.get() + i);
    });
    let last = s.cell::<stubs::Item>();
    s.foreach(p.items(), |item| {
        last.put(item);
    });
    let double = s.procedure::<(Counter,), i64, _>("double", |_, (c,)| c.add(c.value()));
    counter.add(3);
    assert_eq!(double.call((&counter,)).claim().unwrap(), 6);
    assert_eq!((text.claim().unwrap().as_str(), total.get().claim().unwrap()), ("true 1 0.5 x s a", 14));
    assert_eq!(last.get().name().claim().unwrap(), "counter");
    assert_eq!(s.exceptions().len(), 0);
}

#[test]
fn what_the_server_does_not_have_fails_when_it_is_called() {
    let (server, _folder) = other_program(&[
        ("  same_char (x: char) returns (char)\n", ""),
        ("    same_char (x: char) returns (char) return (x) end same_char\n", ""),
        // Another heading is another method.
        ("same_bool (x: bool) returns (bool)", "same_bool (x: bool, y: bool) returns (bool)"),
        ("new_probe, squares", "new_probe, cubes"),
        ("squares (limit: int)", "cubes (limit: int)"),
        ("end squares", "end cubes"),
    ]);
    let (s, p, _) = connect(&server.urls[0]);
    let missing = |error: Error| match error.root() {
        Error::Missing { name } => name.to_string(),
        other => panic!("{other}"),
    };
    let fine = p.same_int(1);
    let lost = p.same_char('x');
    assert_eq!(missing(lost.claim().unwrap_err()), "Probe.same_char");
    assert_eq!(missing(p.same_bool(true).claim().unwrap_err()), "Probe.same_bool");
    // What depends on it is not sent either, nor is a structure with it in it, which the next claim
    // tells.
    assert_eq!(missing(lost.eq_('x').claim().unwrap_err()), "Probe.same_char");
    let count = s.cell_with(0);
    s.foreach(p.numbers(3), |i| {
        count.put(i);
        p.same_char('x');
    });
    s.foreach(stubs::squares(&s, 3), |i| {
        count.put(i);
    });
    match fine.claim().unwrap_err() {
        Error::Unseen { failures, .. } => {
            let told: Vec<String> = failures.iter().map(|failure| missing((**failure).clone())).collect();
            assert_eq!(told, ["Probe.same_char", "squares"]);
        }
        other => panic!("{other}"),
    }
    assert_eq!((fine.claim().unwrap(), count.get().claim().unwrap()), (1, 0));
    let history: Vec<String> = s.exceptions().into_iter().map(|e| missing((*e.error).clone())).collect();
    assert_eq!(
        history,
        ["Probe.same_char", "Probe.same_bool", "Probe.same_char", "Probe.same_char", "squares"]
    );
}
