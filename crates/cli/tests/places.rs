//! The places of failures: in `run`, in the server's log, and for clients that may see them.

mod support;

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "places/bifrost_stubs.rs"]
mod stubs;

use std::path::PathBuf;

use bifrost_veneer::Error;
use serde_json::{Value as Json, json};
use stubs::Desk;
use support::{Server, bifrost, stderr, stdout};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/places")
}

/// Answers to other nodes are logged as information: they may be handled there.
const LOG: &str = "bifrost_cli=info";

/// The standard error of a run that fails, the same as machine code and in the interpreter.
fn run(arguments: &[&str]) -> String {
    let [code, nodes] = [&[][..], &["--interpret"]].map(|way| {
        let output = bifrost()
            .env("BIFROST_LOG", LOG)
            .arg("run")
            .args(way)
            .args(arguments)
            .current_dir(folder())
            .output()
            .unwrap();
        without_times(stderr(&output))
    });
    assert_eq!(code, nodes, "{arguments:?}");
    code
}

/// A log without the times of its events.
fn without_times(log: &str) -> String {
    let line = |line: &str| match line.split_once("Z  WARN ").or(line.split_once("Z  INFO ")) {
        Some((_, event)) => format!("{event}\n"),
        None => format!("{line}\n"),
    };
    log.lines().map(line).collect()
}

#[test]
fn run_says_where_a_failure_arose_and_passed() {
    for (way, failure, places) in [
        ("zero", "zero", &["divide (places.theta:14)", "fail (places.theta:69)"][..]),
        // The statement goes on to the next line.
        ("odd", "odd", &["fail (places.theta:71)"]),
        ("bounds", "bounds", &["fail (places.theta:77)"]),
        // `empty` is an exception of `pop`, and a failure of `top`.
        ("native", "empty", &["Numbers.top (lib/stack.theta:17)", "fail (places.theta:79)"]),
        (
            "closure",
            "zero",
            &["inverse (places.theta:38)", "apply (places.theta:34)", "fail (places.theta:81)"],
        ),
        // Not the failure that was handled before.
        ("again", "odd", &["again (places.theta:44)", "fail (places.theta:82)"]),
        // Not the failure that the handler took.
        ("twice", "zero", &["divide (places.theta:14)", "twice (places.theta:51)", "fail (places.theta:83)"]),
        // The body of a loop is its routine's; the iterator has not failed.
        (
            "body",
            "zero",
            &["divide (places.theta:14)", "in_body (places.theta:57)", "fail (places.theta:84)"],
        ),
        (
            "iterator",
            "zero",
            &["steps (places.theta:24)", "in_iterator (places.theta:63)", "fail (places.theta:85)"],
        ),
    ] {
        let places: String = places.iter().map(|place| format!("  at {place}\n")).collect();
        let expected = format!(
            "error: `main` ended with the exception failure(\"unhandled exception: {failure}\")\n{places}  at main (places.theta:89)\n"
        );
        assert_eq!(run(&["places.theta", way]), expected, "{way}");
    }
}

#[test]
fn a_deep_recursion_has_a_bounded_number_of_places() {
    let said = run(&["places.theta", "deep"]);
    let lines: Vec<&str> = said.lines().collect();
    // The routine 9,999 times, `fail` and `main`: 32 of these 10,001 are told.
    assert_eq!(lines.len(), 1 + 32 + 1);
    assert_eq!(lines[1], "  at deep (places.theta:29)");
    assert!(lines[2..33].iter().all(|line| *line == "  at deep (places.theta:30)"), "{said}");
    assert_eq!(lines[33], "  ... 9969 more");
}

#[test]
fn a_failure_of_an_actor_says_where_it_arose() {
    let error = "error: `main` ended with the exception failure(\"unhandled exception: zero\")";
    let worker = "  at share (actors.theta:19)\n  at Worker.work (actors.theta:8)";
    for seed in [&["--seed", "1"][..], &["--seed", "2"], &["--seed", "3"], &[]] {
        let run = |way| run(&[seed, &["actors.theta", way]].concat());
        assert_eq!(run("request"), format!("{error}\n{worker}\n  at main (actors.theta:24)\n"));
        let asked = "  at Worker.ask (actors.theta:14)\n  at main (actors.theta:30)";
        assert_eq!(run("chain"), format!("{error}\n{worker}\n{asked}\n"));
        let created =
            "  at share (actors.theta:19)\n  at Worker.new (actors.theta:5)\n  at main (actors.theta:37)";
        assert_eq!(run("creator"), format!("{error}\n{created}\n"));
        let lost = "bifrost_cli::common::capsules: exception without a receiver: \
                    failure(\"unhandled exception: zero\") of Worker.forget, on node 0";
        let forget = "  at share (actors.theta:19)\n  at Worker.forget (actors.theta:11)";
        assert_eq!(run("send"), format!("{lost}\n{forget}\n"));
    }
}

#[test]
fn a_failure_that_is_answered_to_another_node_is_logged_with_its_places() {
    let said = run(&["--nodes", "2", "actors.theta", "far"]);
    let logged = "failure answered to node 0: failure(\"unhandled exception: zero\") of Worker.work, on node 1\n  \
                  at share (actors.theta:19)\n  at Worker.work (actors.theta:8)\n";
    assert!(said.contains(logged), "{said}");
    assert!(said.ends_with("(\"unhandled exception: zero\")\n  at main (actors.theta:34)\n"), "{said}");
}

const TRANSPORTS: [&str; 5] =
    ["--listen", "shm://FOLDER/shm", "--listen", "tcp://127.0.0.1:0", "--anonymous-loopback"];

fn server(arguments: &[&str]) -> Server {
    let arguments: Vec<&str> = TRANSPORTS.into_iter().chain(arguments.iter().copied()).collect();
    Server::serve(&folder().join("places.theta"), &arguments)
}

/// The places of a failure that a client sees over each transport: unix, shm, tcp.
fn seen(server: &Server) -> [Vec<String>; 3] {
    std::array::from_fn(|transport| {
        let s = stubs::connect(&server.urls[transport]).unwrap();
        let desk = s.lookup::<Desk>("desk");
        let error = desk.total(3, 0).claim().unwrap_err();
        assert_eq!(error.root().signal(), Some("failure"));
        error.root().places().iter().map(|place| place.to_string()).collect()
    })
}

#[test]
fn clients_see_places_as_the_setting_says() {
    let whole = |line| format!("({}:{line})", folder().join("places.theta").display());
    let all = |place: &dyn Fn(u32) -> String| {
        [("divide", 14), ("D.divide", 96), ("D.total", 103)]
            .map(|(routine, line)| format!("{routine} {}", place(line)))
            .to_vec()
    };
    let (local, none) = (all(&|line| whole(line)), Vec::new());
    let relative = all(&|line| format!("(places.theta:{line})"));
    for way in [&[][..], &["--interpret"]] {
        for (setting, expected) in [
            (&[][..], [&local, &local, &none]),
            (&["--show-places", "local"], [&local, &local, &none]),
            (&["--show-places", "never"], [&none, &none, &none]),
            // No absolute path leaves the machine.
            (&["--show-places", "always"], [&local, &local, &relative]),
            (&["--set", "show_places=always"], [&local, &local, &relative]),
        ] {
            let server = server(&[way, setting].concat());
            assert_eq!(seen(&server).each_ref(), expected, "{setting:?}");
        }
    }
    let refused = bifrost().args(["serve", "--show-places", "some", "x.theta"]).output().unwrap();
    assert!(stderr(&refused).contains("always, local, never"), "{}", stderr(&refused));
}

#[test]
fn an_error_shows_its_places_when_it_is_asked() {
    let server = server(&[]);
    let s = stubs::connect(&server.urls[0]).unwrap();
    let desk = s.lookup::<Desk>("desk");
    let error: Error = desk.deep(99).claim().unwrap_err();
    let plain = error.root().to_string();
    assert!(plain.ends_with("signalled failure(\"bottom\")"), "{plain}");
    let places = format!("{:#}", error.root());
    let lines: Vec<&str> = places.lines().collect();
    assert_eq!((lines.len(), lines[0]), (1 + 32 + 1, plain.as_str()));
    assert!(lines[1].starts_with("  at deep (") && lines[1].ends_with("places.theta:29)"), "{places}");
    assert_eq!(lines[33], "  ... 69 more");
    // An exception that a heading lists is no failure, and has no places.
    let error = desk.odd(3).claim().unwrap_err();
    assert_eq!((error.root().signal(), error.root().places()), (Some("odd"), &[][..]));
}

#[test]
fn a_failure_in_a_loop_of_a_client_has_the_places_in_the_program() {
    for way in [&[][..], &["--interpret"]] {
        let server = server(way);
        let script =
            "$d := lookup desk: Desk\nforeach $x in $d.each(2) do\n  $d.divide(1, $x.sub(6))\nend\nflush\n";
        let said = server.shell(&server.urls[0], &[], script);
        let path = folder().join("places.theta").display().to_string();
        let expected = format!(
            "@4 divide in round 2 ! failure(\"unhandled exception: zero\")\n  at divide ({path}:14)\n  at D.divide ({path}:96)\n"
        );
        assert!(stdout(&said).contains(&expected), "{}", stdout(&said));
        let said = server.shell(&server.urls[2], &[], script);
        assert!(!stdout(&said).contains("  at "), "{}", stdout(&said));
    }
}

#[test]
fn the_shell_shows_places_as_text_and_as_json() {
    let server = server(&[]);
    let script = "$d := lookup desk: Desk\n$d.top()\nflush\nhistory\n";
    let said = server.shell(&server.urls[0], &["--json"], script);
    let lines: Vec<Json> = stdout(&said).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let file = |name: &str| folder().join(name).display().to_string();
    let places = json!([
        {"routine": "Numbers.top", "file": file("lib/stack.theta"), "line": 17},
        {"routine": "D.top", "file": file("places.theta"), "line": 107},
    ]);
    assert_eq!(lines[0]["exceptions"][0]["places"], places, "{lines:?}");
    assert_eq!(lines[1]["history"][0]["places"], places, "{lines:?}");
    assert_eq!(lines[0]["exceptions"][0].get("more_places"), None);
}

#[test]
fn the_log_has_the_failures_of_clients_with_their_places() {
    let server = server(&["--log", "json"]);
    let s = stubs::connect(&server.urls[2]).unwrap();
    let desk = s.lookup::<Desk>("desk");
    desk.top().claim().unwrap_err();
    desk.odd(3).claim().unwrap_err();
    drop((desk, s));
    let (_, said) = server.end("TERM");
    let events = failures(&said);
    assert_eq!(events.len(), 1, "an exception that the client handles itself is none: {said}");
    let fields = &events[0]["fields"];
    assert_eq!((&fields["text"], &fields["session"]), (&json!("unhandled exception: empty"), &json!(1)));
    let places = fields["places"].as_str().unwrap();
    assert!(places.starts_with("at Numbers.top (") && places.ends_with("places.theta:107)"), "{places}");
}

/// The events of failed calls in a log.
fn failures(log: &str) -> Vec<Json> {
    let events = log.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    events.filter(|event| event["fields"]["message"] == "call.failed").collect()
}

#[test]
fn clients_cannot_flood_the_log() {
    let server = server(&["--log", "json"]);
    let begun = std::time::Instant::now();
    let sessions: Vec<_> = (0..4).map(|_| stubs::connect(&server.urls[0]).unwrap()).collect();
    for round in 0..5 {
        for s in &sessions {
            let desk = s.lookup::<Desk>("desk");
            let calls: Vec<_> = (0..100).map(|n| desk.divide(n, 0)).collect();
            calls.iter().for_each(|call| drop(call.claim().unwrap_err()));
            assert!(round < 5);
        }
    }
    let seconds = begun.elapsed().as_secs() as usize + 2;
    drop(sessions);
    let (_, said) = server.end("TERM");
    let logged = failures(&said);
    assert!(!logged.is_empty() && logged.len() <= 10 * seconds, "{} of 2,000", logged.len());
}
