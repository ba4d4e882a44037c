//! `bifrost bench actors` in small: every program runs in every language that is installed, with the same results.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::{bifrost, stderr, stdout};

/// A folder in which there are no programs of peers in Rust.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn programs_of_actors_give_what_others_give() {
    let folder = folder();
    let json = folder.path().join("actors.jsonl");
    let mut bench = bifrost();
    bench.current_dir(folder.path());
    bench.args(["bench", "actors", "--quick", "--peers", "go,erlang,kameo", "--json"]).arg(&json);
    let output = bench.output().unwrap();
    // Results that differ end the program.
    assert!(output.status.success(), "{}", stderr(&output));
    // Who is not there is named, with what to do about it.
    let said = stdout(&output);
    assert!(
        said.contains(
            "kameo is not available, and left out; `bench/actors/peers/rust/Cargo.toml` does not exist"
        ),
        "{said}"
    );
    let installed = |program: &str, flag: &str| Command::new(program).arg(flag).output().is_ok();
    for (peer, is_here) in [("Go", installed("go", "version")), ("Erlang", installed("erl", "+V"))] {
        assert_eq!(is_here, !said.contains(&format!("{peer} is not available")), "{said}");
    }
    let lines = std::fs::read_to_string(json).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut results: BTreeMap<&str, BTreeMap<(&str, &str), i64>> = BTreeMap::new();
    for line in &lines {
        if let (Some(case), Some(result)) = (line["case"].as_str(), line["result"].as_i64()) {
            let (peer, way) = (line["peer"].as_str().unwrap(), line["way"].as_str().unwrap());
            assert_eq!(line["bench"], "actors");
            assert!(line["value"].as_f64().unwrap() >= 0.0, "{line}");
            results.entry(case).or_default().insert((peer, way), result);
        }
    }
    for (case, who) in &results {
        assert!(case.contains("sender") || who.keys().any(|(peer, _)| *peer == "C"), "{case}: {who:?}");
        assert!(who.values().all(|result| Some(result) == who.values().next()), "{case}: {who:?}");
    }
    let quick: Vec<(&str, i64)> =
        results.iter().map(|(case, who)| (*case, *who.values().next().unwrap())).collect();
    insta::assert_debug_snapshot!(quick);
    // Each case has a target but `fib`, which is compared with a peer that is not here; trees have one for two nodes.
    let targets: BTreeSet<&str> = lines.iter().filter_map(|line| line["target"].as_str()).collect();
    let about = |what: &str| targets.iter().filter(|target| target.contains(what)).count();
    assert_eq!(
        (targets.len(), about("two nodes against one"), about("most memory"), about("GHz")),
        (19, 4, 1, 7),
        "{targets:?}"
    );
}

#[test]
fn a_case_that_does_not_exist_is_a_mistake() {
    let output = bifrost().args(["bench", "actors", "sent"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no case `sent`"), "{}", stderr(&output));
}

#[test]
fn instructions_are_counted_where_valgrind_is() {
    let folder = folder();
    let json = folder.path().join("actors.jsonl");
    let mut bench = bifrost();
    let output =
        bench.args(["bench", "actors", "--quick", "--instructions", "--json"]).arg(&json).output().unwrap();
    if Command::new("valgrind").arg("--version").output().is_err() {
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("apt-get install valgrind"), "{}", stderr(&output));
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("instructions for each message"), "{}", stdout(&output));
    let lines = std::fs::read_to_string(json).unwrap();
    let figures: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(figures[0]["case"], "send, instructions");
    let (total, parts) = figures.split_first().unwrap();
    let value = |figure: &Value| figure["value"].as_f64().unwrap();
    // The parts are those that are worth a line.
    let sum: f64 = parts.iter().map(value).sum();
    assert!(value(total) > 1.0 && sum > 0.5 * value(total) && sum < 1.5 * value(total), "{lines}");
}

#[test]
fn programs_run_by_themselves() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/actors");
    let mut ran = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "theta") {
            let mut printed = BTreeSet::new();
            for way in
                [&["--nodes", "2"][..], &["--interpret"], &["--seed", "7"], &["--nodes", "2", "--seed", "8"]]
            {
                // As many as a flood of the queue has, but a board for six queens.
                let n =
                    if path.ends_with("queens.theta") || path.ends_with("fib.theta") { "6" } else { "1000" };
                let output = bifrost().arg("run").args(way).arg(&path).arg(n).output().unwrap();
                assert!(output.status.success(), "{}: {}", path.display(), stderr(&output));
                printed.insert(stdout(&output).trim().parse::<i64>().unwrap());
            }
            assert_eq!(printed.len(), 1, "{}: {printed:?}", path.display());
            ran += 1;
        }
    }
    assert_eq!(ran, 12);
}
