//! `bifrost bench sessions`, `commits`, `imports`, `veneers` and `soak`: the last for a minute, the others in small.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use support::{bifrost, stderr, stdout};

/// Runs a benchmark, and returns its lines of JSON.
fn figures(arguments: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.jsonl");
    let output = bifrost().arg("bench").args(arguments).arg("--json").arg(&json).output().unwrap();
    assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
    let lines = std::fs::read_to_string(json).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find<'a>(lines: &'a [Value], case: &str, peer: &str, way: Option<&str>) -> &'a Value {
    let found = lines.iter().find(|line| {
        line["case"] == case && line["peer"] == peer && way.is_none_or(|way| line["way"] == way)
    });
    found.unwrap_or_else(|| panic!("no case `{case}` of {peer}: {lines:?}"))
}

fn value(line: &Value) -> f64 {
    line["value"].as_f64().unwrap_or_else(|| panic!("no value: {line}"))
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn idle_sessions_are_counted_in_memory_threads_and_descriptors() {
    let lines = figures(&["sessions", "--idle", "40", "--clients", "0"]);
    for over in ["unix", "tcp"] {
        let of = |case: &str| value(find(&lines, &format!("idle, {case}"), "bifrost", Some(over)));
        // Each session has a connection.
        assert!(of("descriptors") >= 40.0, "{lines:?}");
        assert!(of("descriptors left") <= 8.0, "{lines:?}");
        assert!(of("memory beyond it") > 0.0 && of("the empty server") > 1.0, "{lines:?}");
        assert!(of("threads") >= of("threads left") && of("threads left") >= 1.0, "{lines:?}");
        assert!(of("memory of each") < 1e6, "{lines:?}");
    }
    let targets: Vec<&Value> = lines.iter().filter(|line| line["target"].is_string()).collect();
    // The goal of ten thousand, in proportion.
    assert_eq!(targets.len(), 4);
    assert!(targets.iter().any(|target| target["most"] == 0.4 && target["unit"] == "MB"), "{targets:?}");
}

#[test]
fn imports_are_measured_beside_a_call_that_does_nothing() {
    let lines = figures(&["imports", "--offers", "400", "--rounds", "2"]);
    for case in [
        "import of 1 among 2 of 400",
        "import of 8 among 400 of 400",
        "a call that does nothing, 2 of a service",
    ] {
        assert!(value(find(&lines, case, "bifrost", None)) > 1.0, "{lines:?}");
    }
    let targets: Vec<&Value> = lines.iter().filter(|line| line["target"].is_string()).collect();
    assert!(targets.len() == 4 && targets.iter().all(|target| target["most"] == 20.0), "{targets:?}");
}

#[test]
fn client_libraries_are_measured_in_one_run() {
    let veneers = concat!(env!("CARGO_MANIFEST_DIR"), "/../../veneers");
    let lines = figures(&["veneers", "--languages", "rust,python", "--rounds", "1", "--veneers", veneers]);
    for language in ["rust", "python"] {
        for case in ["record", "batch", "pair", "table"] {
            assert!(value(find(&lines, case, "bifrost", Some(language))) > 1.0, "{lines:?}");
        }
    }
    assert!(value(find(&lines, "pair", "raw", Some("python"))) > 1.0, "{lines:?}");
    let targets: Vec<&Value> = lines.iter().filter(|line| line["target"].is_string()).collect();
    assert!(
        targets.iter().any(|target| target["target"] == "python: a pair beyond the raw socket"),
        "{targets:?}"
    );
}

#[test]
fn a_language_that_is_not_there_is_named() {
    let output =
        bifrost().args(["bench", "veneers", "--languages", "c", "--veneers", "none"]).output().unwrap();
    let said = stderr(&output);
    assert!(
        output.status.success() && said.contains("not measured: c: there is no `none/c/bench/run`"),
        "{said}"
    );
}

#[test]
fn active_clients_are_measured_beside_redis() {
    let arguments = "sessions --idle 0 --clients 5 --operations call,set --seconds 0.3 --rounds 2 -d 100 --peers \
                     redis,redis-benchmark";
    let lines = figures(&arguments.split_whitespace().collect::<Vec<_>>());
    let mut peers = vec!["bifrost"];
    peers.extend(is_installed("redis-server").then_some("redis"));
    peers.extend(is_installed("redis-benchmark").then_some("redis-benchmark"));
    for over in ["unix", "tcp"] {
        for peer in &peers {
            for operation in ["call", "set"] {
                for pipeline in [1, 16] {
                    let name = format!("{operation} of 100 bytes, 5 clients, {pipeline} at once");
                    let of = |figure: &str| {
                        let line = find(&lines, &format!("{name}: {figure}"), peer, Some(over));
                        assert_eq!((&line["bench"], &line["n"]), (&"sessions".into(), &5.into()));
                        value(line)
                    };
                    assert!(of("rate") > 0.0, "{peer}: {name}");
                    let times = [of("p50"), of("p99"), of("p99.9")];
                    assert!(times[0] > 0.0 && times.is_sorted(), "{peer}: {name}: {times:?}");
                }
            }
        }
    }
    assert!(lines.iter().any(|line| line["target"].is_string()) == (peers.len() > 1));
}

#[test]
fn another_bifrost_is_measured_in_turn_over_shared_memory_too() {
    let other = env!("CARGO_BIN_EXE_bifrost");
    let arguments = "sessions --idle 0 --clients 1,2 --over shm,unix --operations get --pipeline 1 --seconds 0.3 \
                     --rounds 2 --alone --against";
    let lines = figures(&[&arguments.split_whitespace().collect::<Vec<_>>()[..], &[other]].concat());
    for peer in ["bifrost", "other bifrost"] {
        for (over, clients) in [("shm", 1), ("unix", 1), ("unix", 2)] {
            let name = format!("get of 3 bytes, {clients} clients, 1 at once: rate");
            assert!(value(find(&lines, &name, peer, Some(over))) > 0.0);
        }
    }
    let targets: Vec<&Value> = lines.iter().filter(|line| line["target"].is_string()).collect();
    assert!(targets.len() == 3 && targets.iter().all(|target| target["least"] == 0.95), "{targets:?}");
    let arguments = ["bench", "sessions", "--idle", "0", "--alone", "--against", "/no/bifrost"];
    let output = bifrost().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("`/no/bifrost`: No such file"), "{}", stderr(&output));
}

#[test]
fn a_transport_that_is_unknown_is_an_error() {
    let run = |arguments: &[&str]| -> Output {
        bifrost()
            .args(["bench", "sessions", "--clients", "0", "--idle", "1"])
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = run(&["--over", "ipx"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("invalid value 'ipx'"), "{}", stderr(&output));
}

#[test]
fn commits_are_measured_beside_a_raw_loop() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    let arguments = ["--sessions", "1,3", "--objects", "7", "--seconds", "0.2", "--rounds", "2"];
    // It compares the stored counts with the acknowledged commits itself.
    let lines = figures(&[&["commits", "--folder", &place][..], &arguments].concat());
    for sessions in [1, 3] {
        let of =
            |figure: &str| value(find(&lines, &format!("{sessions} sessions: {figure}"), "bifrost", None));
        assert!(of("rate") > 0.0 && of("p50") > 0.0, "{lines:?}");
        // Seven objects are written, with their names at least.
        assert!(of("bytes written") > 7.0 * 8.0, "{lines:?}");
    }
    for peer in ["raw append", "raw in place"] {
        for case in ["alone", "groups of 16"] {
            assert!(value(find(&lines, &format!("{case}: rate"), peer, None)) > 0.0, "{lines:?}");
        }
    }
    let targets: Vec<&Value> = lines.iter().filter(|line| line["target"].is_string()).collect();
    assert!(targets.len() == 2 && targets.iter().all(|target| target["least"] == 0.8), "{targets:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Runs a soak, and checks that all of its work was done.
fn soak(arguments: &[&str]) -> Vec<Value> {
    let lines = figures(&[&["soak"][..], arguments].concat());
    let of = |case: &str| value(find(&lines, case, "bifrost", None));
    for kind in [
        "once",
        "read",
        "structure",
        "transfer",
        "total",
        "note",
        "wait",
        "live",
        "actor",
        "failure",
        "reopen",
    ] {
        assert!(of(&format!("batches, {kind}")) > 0.0, "{kind}: {lines:?}");
    }
    for blow in ["kills of client processes", "stops of client processes", "stops of the server"] {
        assert!(of(blow) > 0.0, "{blow}: {lines:?}");
    }
    assert_eq!(of("mistakes"), 0.0);
    assert!(of("acknowledged once") > 100.0, "{lines:?}");
    for means in ["memory", "descriptors", "threads"] {
        assert!(of(&format!("{means}, first third")) > 0.0 && of(&format!("{means}, last third")) > 0.0);
    }
    lines
}

#[test]
fn a_minute_of_many_clients_loses_nothing() {
    // Fewer than the 200 of the command: other tests run beside it.
    soak(&["--minutes", "1", "--clients", "60"]);
}

#[test]
fn counts_that_the_ledger_does_not_know_are_found_out() {
    // The store has counts of an earlier run, which the ledger of the next one does not know.
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let arguments = ["bench", "soak", "--seconds", "2", "--clients", "4", "--share", "2", "--store", &store];
    let first = bifrost().args(arguments).output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    let second = bifrost().args(arguments).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("client"), "{}", stderr(&second));
    assert!(Path::new(&store).is_dir());
}
