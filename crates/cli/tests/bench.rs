//! `bifrost bench` in small: every program of `theta` runs in every language that is installed, with the same
//! results; `calls` measures over all streams.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use support::{bifrost, stderr, stdout};

#[test]
fn theta_programs_give_what_others_give() {
    let folder = tempfile::tempdir().unwrap();
    let (json, svg) = (folder.path().join("theta.jsonl"), folder.path().join("theta.svg"));
    let mut bench = bifrost();
    bench.args(["bench", "theta", "--quick", "--json"]).arg(&json).arg("--svg").arg(&svg);
    let output = bench.output().unwrap();
    // Results that differ end the program.
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = std::fs::read_to_string(json).unwrap();
    let mut results: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let (Some(case), Some(result)) = (line["case"].as_str(), line["result"].as_i64()) {
            let peer = line["peer"].as_str().unwrap().to_owned();
            assert_eq!(line["bench"], "theta");
            results.entry(case.to_owned()).or_default().insert(peer, result);
        }
    }
    for (case, peers) in &results {
        assert!(["bifrost", "C checked", "C"].iter().all(|p| peers.contains_key(*p)), "{case}: {peers:?}");
        assert!(peers.values().all(|result| *result == peers["bifrost"]), "{case}: {peers:?}");
    }
    let quick: Vec<(&str, i64)> =
        results.iter().map(|(case, peers)| (case.as_str(), peers["bifrost"])).collect();
    insta::assert_debug_snapshot!(quick);
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
}

#[test]
fn calls_are_measured_over_all_streams() {
    let bench = bifrost().args(["bench", "calls", "--quick", "--over", "unix,tcp", "--json", "-"]).output();
    let output = bench.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = stdout(&output).lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let value = |case: &str| {
        let line = lines.iter().find(|line| line["case"] == case);
        line.unwrap_or_else(|| panic!("no case `{case}`")).clone()
    };
    for stream in ["", "unix: ", "tcp: "] {
        let batch = value(&format!("{stream}null call in a batch of 64"));
        assert!(batch["value"].as_f64().unwrap() > 0.0 && batch["predicted"].is_f64(), "{batch}");
        value(&format!("{stream}null call: t_c fitted"));
        assert!(value(&format!("{stream}null call: the model's greatest error"))["value"].is_f64());
    }
    assert!(value("FOREACH with a null call and a row of two, each round")["value"].as_f64().unwrap() > 0.0);
    assert!(lines.iter().any(|line| line["target"] == "a row of two columns, beyond its calls"));
}

#[test]
fn a_case_that_does_not_exist_is_a_mistake() {
    let output = bifrost().args(["bench", "theta", "fibb"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there is no case `fibb`"), "{}", stderr(&output));
}

#[test]
fn programs_run_by_themselves() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/theta");
    let mut ran = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "theta") {
            let output = bifrost().arg("run").arg(&path).arg("6").output().unwrap();
            assert!(output.status.success(), "{}: {}", path.display(), stderr(&output));
            assert!(stdout(&output).trim().parse::<i64>().is_ok(), "{}", path.display());
            ran += 1;
        }
    }
    assert!(ran > 8, "{ran} programs");
}

#[test]
fn a_server_that_is_killed_keeps_what_it_acknowledged() {
    let output = bifrost().args(["bench", "kills", "--kills", "4", "--sessions", "3"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(
        said.starts_with("4 kills under 3 sessions: ") && said.contains(" 0 lost, 0 done twice"),
        "{said}"
    );
}
