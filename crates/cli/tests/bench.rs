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
    let bench = bifrost()
        .args(["bench", "calls", "--quick", "--over", "shm,unix,tcp,tls,ws,wss", "--json", "-"])
        .output();
    let output = bench.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    let lines = said.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let value = |case: &str| {
        let line = lines.iter().find(|line| line["case"] == case);
        line.unwrap_or_else(|| panic!("no case `{case}`")).clone()
    };
    for stream in ["", "unix: ", "tcp: ", "tls: ", "ws: ", "wss: "] {
        for series in ["null call", "list descent"] {
            let name = format!("{stream}{series}");
            let (t_c, t_d) = (value(&format!("{name}: t_c fitted")), value(&format!("{name}: t_d fitted")));
            // A fit that came out negative is null, has no error and predicts nothing.
            for fitted in [&t_c, &t_d] {
                assert_eq!(fitted["value"].is_f64(), fitted["error"].is_f64(), "{fitted}");
                assert!(fitted["value"].as_f64().is_none_or(|value| value >= 0.0), "{fitted}");
            }
            for size in [1, 2, 64, 8192] {
                let batch = value(&format!("{name} in a batch of {size}"));
                assert!(batch["value"].as_f64().unwrap() > 0.0, "{batch}");
                assert_eq!((&batch["crossings"], &batch["calls"]), (&Value::from(1), &Value::from(size)));
                let fit = t_c["value"].as_f64().zip(t_d["value"].as_f64());
                let expected = fit.map(|(t_c, t_d)| t_c + t_d / f64::from(size));
                let predicted = batch["predicted"].as_f64();
                assert_eq!(predicted.is_some(), expected.is_some(), "{batch}");
                assert!((predicted.unwrap_or_default() - expected.unwrap_or_default()).abs() < 1e-6);
            }
            assert!(value(&format!("{name}: the model's greatest error"))["value"].is_f64());
            assert!(value(&format!("{name}: the variance that the model explains"))["value"].is_f64());
            value(&format!("{name}: t_d from B = 1 and 2"));
            value(&format!("{name}: t_d of the least values"));
        }
    }
    let (one, waiting, overlapping) = (
        value("one batch over the link"),
        value("16 batches, each awaited"),
        value("16 batches that overlap"),
    );
    // Two milliseconds are the least for one crossing, and for each that is awaited.
    assert!(one["min"].as_f64().unwrap() >= 2000.0, "{one}");
    assert!(waiting["min"].as_f64().unwrap() >= 16.0 * 2000.0, "{waiting}");
    assert!(overlapping["min"].as_f64().unwrap() < 8.0 * 2000.0, "{overlapping}");
    for stream in ["tls", "ws", "wss"] {
        assert!(value(&format!("a pair of crossings over {stream}"))["value"].as_f64().unwrap() > 0.0);
        let target = format!("a pair of crossings over {stream} / over tcp");
        assert!(lines.iter().any(|line| line["target"] == target), "{target}");
    }
    for paper in ["local IPC", "remote Thor"] {
        assert!(said.contains(paper), "{said}");
    }
    for line in lines.iter().filter(|line| line["target"].is_string()) {
        let (reached, verdict) = (&line["reached"], line["verdict"].as_str().unwrap());
        assert_eq!(*reached, verdict == "reached", "{line}");
        assert_eq!(line["value"].is_null(), verdict == "not measured", "{line}");
    }
    assert!(value("FOREACH with a null call and a row of two, each round")["value"].as_f64().unwrap() > 0.0);
    assert!(lines.iter().any(|line| line["target"] == "a row of two columns, beyond its calls"));
    // Calls of loops count each time. Of the WHILE these are nine in a round (Zondervan 1995, 7.1.3), `get` and `lt` at the
    // end, and one that makes the cell.
    let calls = |case: &str| value(case)["calls"].as_u64().unwrap();
    assert_eq!(calls("perfect batching, 1024 rounds"), 4 * 1024);
    assert_eq!(calls("batched WHILE, 1024 rounds"), 9 * 1024 + 3);
    assert_eq!(calls("batched FOREACH, 1024 rounds"), 4 * 1024 + 1);
    assert_eq!(calls("Theta method, 1024 rounds"), 1);
}

#[test]
fn nodes_are_measured_with_and_without_specialisation() {
    let output = bifrost().args(["bench", "calls", "--quick", "--json", "-"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    let lines = said.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in ["general", "special"] {
        for body in ["fetch", "null call"] {
            for calls in 0..=10 {
                let case = format!("{kind} nodes: {calls} times {body}");
                let line = lines.iter().find(|line| line["case"] == case).expect(&case);
                assert!(line["value"].as_f64().unwrap() > 0.0 && line["unit"] == "us", "{line}");
            }
            let case = format!("{kind} nodes: each {body}");
            assert!(lines.iter().any(|line| line["case"] == case), "{case}");
        }
    }
    assert!(said.contains("each fetch (the paper)"), "{said}");
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
