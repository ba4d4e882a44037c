//! Servers over QUIC, as processes: sessions, states of calls, servers that are stopped, killed and started again.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, dead_code, reason = "generated")]
#[path = "conformance/bifrost_stubs.rs"]
mod stubs;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bifrost_veneer::{CallState, Closed, ConnectionError, Error, Session};
use stubs::{INTERFACE, Probe};
use support::{Server, bifrost, feed, kill, stdout};
use tempfile::TempDir;

/// Nothing here takes longer, on a busy machine either.
const SOON: Duration = Duration::from_secs(60);

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/programs/conformance.theta")
}

/// A server whose certificate is in a folder that outlives it, so that the next one has the same key.
fn serve(state: &TempDir, port: &str, more: &[&str]) -> Server {
    let mut command = bifrost();
    command.env("XDG_STATE_HOME", state.path());
    let listen = format!("quic://127.0.0.1:{port}");
    let own = ["--listen", &listen, "--anonymous-loopback"];
    Server::spawn(command, &program(), &[&own[..], more].concat())
}

fn state() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn connect(server: &Server) -> (Session, Probe) {
    let s = Session::builder(&INTERFACE).timeout(SOON).connect(&server.urls[1]).unwrap();
    let p: Probe = s.lookup("probe");
    assert_eq!(p.same_int(7).claim().unwrap(), 7);
    (s, p)
}

fn port(server: &Server) -> String {
    let place = server.urls[1].split('#').next().unwrap();
    place.rsplit(':').next().unwrap().to_owned()
}

/// The texts of the loss of a server, from its end to the cause.
fn lost<V: std::fmt::Debug>(claimed: Result<V, Error>) -> String {
    let error = claimed.expect_err("the server is lost");
    let Error::Closed(closed) = error.root() else { panic!("{error}") };
    let Closed::Connection(source) = &**closed else { panic!("{closed}") };
    assert!(source.is::<ConnectionError>(), "{source:?}");
    source.to_string()
}

#[test]
fn sessions_of_many_kinds_go_over_quic() {
    let server = serve(&state(), "0", &[]);
    let (s, p) = connect(&server);
    let sums: Vec<_> = (0..1000).map(|number| p.same_int(number)).collect();
    assert_eq!(sums.iter().map(|sum| sum.claim().unwrap()).sum::<i64>(), 499_500);
    let long = "x".repeat(300_000);
    assert_eq!(p.same_string(&long[..]).claim().unwrap(), long);
    // The text form, through another process.
    let output = server.shell(&server.urls[1], &[], "$p := lookup probe\n? $p\n? $p.same_int(3)\nbye\n");
    assert!(stdout(&output).contains("$p = h1: Probe") && stdout(&output).contains("@1 = 3"), "{output:?}");
    s.close().unwrap();
}

#[test]
fn a_token_is_asked_for() {
    let server =
        Server::spawn(bifrost(), &program(), &["--listen", "quic://127.0.0.1:0", "--token", "secret"]);
    let ask = |token: &str| {
        let mut shell = bifrost();
        shell.env("BIFROST_TOKEN", token).arg("shell").arg(&server.urls[1]);
        feed(shell, "$p := lookup probe\n? $p\nbye\n")
    };
    let (refused, admitted) = (ask("wrong"), ask("secret"));
    assert!(!refused.status.success() && stdout(&refused).is_empty(), "{refused:?}");
    assert!(stdout(&admitted).contains("$p = h1: Probe"), "{admitted:?}");
}

#[test]
fn a_call_that_takes_long_is_watched_from_another_thread() {
    let more = ["--set", "limits.batch_time_ms_max=1500", "--metrics", "unix://FOLDER/metrics"];
    let server = serve(&state(), "0", &more);
    let (s, p) = connect(&server);
    let watch = s.watch().unwrap();
    let watching = std::thread::spawn(move || {
        let (start, mut seen) = (Instant::now(), Vec::new());
        while start.elapsed() < SOON {
            match watch.call() {
                Some(call) if call.state.is_some() && seen.last() != Some(&call.state) => {
                    seen.push(call.state)
                }
                None if !seen.is_empty() => break,
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        (seen, start.elapsed())
    });
    assert!(p.endless().claim().is_err());
    let (seen, took) = watching.join().unwrap();
    assert_eq!(seen, [Some(CallState::Begun)], "{took:?}");
    let mut stream = UnixStream::connect(server.folder.path().join("metrics")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    let told =
        metrics.lines().find_map(|line| line.strip_prefix("bifrost_rex_calls_total{state=\"begun\"} "));
    assert!(told.is_some_and(|count| count != "0"), "{metrics}");
    // The session goes on; over a socket nobody can be asked.
    assert_eq!(p.same_int(8).claim().unwrap(), 8);
    assert!(stubs::connect(&server.urls[0]).unwrap().watch().is_none());
}

#[test]
fn a_server_that_is_stopped_is_slow_and_loses_nothing() {
    let server = serve(&state(), "0", &[]);
    let (s, p) = connect(&server);
    kill(&server.child, "STOP");
    let watch = s.watch().unwrap();
    let answer = p.same_int(9);
    let claiming = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            // The server tells nothing, and so nothing is known.
            let call = watch.call().unwrap();
            assert_eq!((call.state, call.waited_us > 2_000_000), (None, true));
            kill(&server.child, "CONT");
        });
        assert_eq!(answer.claim().unwrap(), 9);
    });
    assert!(claiming.elapsed() >= Duration::from_secs(2));
}

#[test]
fn a_server_that_does_not_come_back_is_lost_after_its_silence() {
    let server = serve(&state(), "0", &["--set", "limits.batch_time_ms_max=60000"]);
    let (s, p) = connect(&server);
    let watch = s.watch().unwrap();
    let begun = std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while watch.call().and_then(|call| call.state) != Some(CallState::Begun) {
                assert!(start.elapsed() < SOON, "{:?}", watch.call());
                std::thread::sleep(Duration::from_millis(5));
            }
            kill(&server.child, "STOP");
        });
        let start = Instant::now();
        let text = lost(p.endless().claim());
        assert!((25..50).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        text
    });
    assert_eq!(
        begun,
        "nothing came from the peer for 30 s: it is dead, stopped or out of reach; the last batch has begun to run"
    );
    // A process that is stopped cannot be ended in order.
    kill(&server.child, "KILL");
}

#[test]
fn a_server_that_was_killed_and_started_again_says_so_at_once() {
    let state = state();
    let mut first = serve(&state, "0", &[]);
    let port = port(&first);
    let (s, p) = connect(&first);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let second = serve(&state, &port, &[]);
    let start = Instant::now();
    let text = lost(p.same_int(1).claim());
    assert_eq!(
        text,
        "the peer has started again and knows nothing of the connection; whether the last batch ran is not known"
    );
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    drop(s);
    // The process finds the new one over a new connection.
    connect(&second);
}

#[test]
fn a_server_that_ends_in_order_says_so_and_new_sessions_find_the_next_one() {
    let state = state();
    let mut first = serve(&state, "0", &[]);
    let port = port(&first);
    let (_s, p) = connect(&first);
    kill(&first.child, "TERM");
    first.child.wait().unwrap();
    let start = Instant::now();
    assert!(p.same_int(1).claim().is_err());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let second = serve(&state, &port, &[]);
    connect(&second);
}
