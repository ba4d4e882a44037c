//! `bifrost bench files` and `bench blocking` in small, beside the peers that are installed.

mod support;

use std::process::{Command, Output};

use serde_json::Value;
use support::{bifrost, stderr, stdout};

/// Runs a benchmark, and returns its output and its lines of JSON.
fn bench(arguments: &str) -> (Output, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.jsonl");
    let output = bifrost().arg("bench").args(arguments.split(' ')).arg("--json").arg(&json).output().unwrap();
    let lines = std::fs::read_to_string(json).unwrap_or_default();
    (output, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn is_compiled(translator: &str, flag: &str, header: &str) -> bool {
    let succeeds = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    succeeds(translator, &[flag])
        && succeeds("g++", &["-fsyntax-only", "-std=c++17", "-include", header, "-x", "c++", "/dev/null"])
}

/// Returns the peers whose tools are here; those of the others are asked for by name.
fn peers() -> Vec<(&'static str, bool)> {
    vec![
        ("omniorb", is_compiled("omniidl", "-V", "omniORB4/CORBA.h")),
        ("grpc", is_compiled("protoc", "--version", "grpcpp/grpcpp.h")),
    ]
}

fn find<'a>(lines: &'a [Value], case: &str, peer: &str, over: &str) -> Option<&'a Value> {
    lines.iter().find(|line| line["case"] == case && line["peer"] == peer && line["way"] == over)
}

fn value(line: &Value) -> f64 {
    line["value"].as_f64().unwrap_or_else(|| panic!("no value: {line}"))
}

#[test]
fn files_are_copied_beside_the_peers_that_are_here() {
    let arguments = "files --size 64K --block 4096 --tasks 1,2 --clients 1,4 --over shm,unix,tcp --rounds 2";
    let (output, lines) = bench(arguments);
    let (said, noted) = (stdout(&output), stderr(&output));
    let peers = peers();
    for (peer, is_here) in &peers {
        let missing =
            noted.contains(&format!("note: {peer} is not measured: to have it, on Debian: apt-get"));
        assert_eq!(missing, !is_here, "{noted}");
    }
    let here = peers.iter().filter(|(_, is_here)| *is_here).map(|(peer, _)| *peer);
    let here: Vec<&str> = std::iter::once("bifrost").chain(here).collect();
    assert!(output.status.success(), "{said}\n{noted}");
    let mut predictions = 0;
    for peer in here.iter().copied() {
        let ways: &[(&str, u64)] = match peer {
            // The size in one crossing, all reads in the next.
            "bifrost" => &[("single", 18), ("batch", 2), ("whole", 1)],
            "omniorb" => &[("single", 18), ("whole", 3)],
            _ => &[("single", 18), ("flight", 18), ("stream", 3), ("whole", 3)],
        };
        let media: &[&str] = if peer == "bifrost" { &["shm", "unix", "tcp"] } else { &["unix", "tcp"] };
        for over in media {
            for (tasks, clients) in [(1, 1), (1, 4), (2, 1), (2, 4)] {
                let of = |way: &str, figure: &str| {
                    let case = format!("{way}, {tasks} tasks, {clients} clients: {figure}");
                    find(&lines, &case, peer, over)
                };
                for (way, crossings) in ways {
                    let copy = of(way, "copy").unwrap_or_else(|| panic!("{peer}, {way}: {lines:?}"));
                    assert_eq!((&copy["bench"], &copy["n"]), (&"files".into(), &clients.into()), "{copy}");
                    // Open and close beside the reads.
                    assert_eq!(copy["crossings"], *crossings, "{copy}");
                    assert!(copy["cpu_ns"].as_u64().unwrap() > 0 && value(copy) > 0.0, "{copy}");
                    assert!(copy["min"].as_f64() <= copy["value"].as_f64(), "{copy}");
                }
                let active = value(of("single", "active tasks").unwrap());
                assert!((0.0..=f64::from(tasks - 1)).contains(&active), "{active}");
                let queue = of("single", "queue length");
                assert_eq!(queue.is_some(), peer != "omniorb");
                if let Some(queue) = queue {
                    // At most all other clients wait.
                    assert!((0.0..=f64::from(clients - 1)).contains(&value(queue)), "{queue}");
                    // Nothing is predicted where a busy machine leaves no time to think.
                    if let Some(predicted) = queue["predicted"].as_f64() {
                        assert_eq!(predicted > 0.0, clients > tasks, "{queue}");
                        predictions += 1;
                    }
                }
                assert!(of("flight", "queue length").is_none_or(|queue| queue["predicted"].is_null()));
            }
        }
    }
    assert!(predictions > 0, "{lines:?}");
    // The paper's lines are in its table, once for each transport.
    let heads = said.lines().filter(|line| line.trim_start().starts_with("NTASKS NCLTS  system")).count();
    let paper = said.lines().filter(|line| line.contains("paper    ver 1     0.90     -   0.00")).count();
    assert_eq!((heads, paper), (3, 3), "{said}");
    // The goals are compared with the figures.
    assert!(lines.iter().any(|line| line["target"].is_string()), "{lines:?}");
}

#[test]
fn blocking_reads_gain_by_tasks() {
    let arguments = "blocking --block-us 5000 --compute-us 100 --size 32K --tasks 1,4 --clients 4 --rounds 1 --peers omniorb";
    let (peer, (output, lines)) = ("bifrost", bench(arguments));
    let said = stdout(&output);
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    let of = |tasks, figure| {
        let case = format!("single, {tasks} tasks, 4 clients: {figure}");
        value(find(&lines, &case, peer, "unix").unwrap_or_else(|| panic!("{case}: {lines:?}")))
    };
    // A read takes 5.1 ms; eight for each of four clients, one after the other.
    assert!(of(1, "copy") >= 32.0 * 5.1 * 0.9, "{lines:?}");
    assert!(of(4, "copy") >= 8.0 * 5.1, "{lines:?}");
    assert!(of(1, "service") >= 8.0 / 10.0 * 5100.0 && of(1, "active tasks") == 0.0, "{lines:?}");
    // Other tests share the processors; an idle machine gives 3.5 to 4.
    assert!(of(4, "speed-up") > 1.5 && of(4, "active tasks") > 1.0, "{lines:?}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("paper")).collect();
    assert!(lines.len() == 2 && lines[1].ends_with("25.54     3.36"), "{said}");
}

#[test]
fn peers_without_tools_are_named() {
    let nowhere = tempfile::tempdir().unwrap();
    for experiment in ["files --over unix", "blocking --block-us 10"] {
        let mut bench = bifrost();
        bench.arg("bench").args(experiment.split(' ')).env("PATH", nowhere.path());
        bench.args(["--size", "8K", "--tasks", "1", "--clients", "1", "--rounds", "1"]);
        let output = bench.output().unwrap();
        let noted = stderr(&output);
        assert!(output.status.success(), "{noted}");
        for (peer, packages) in
            [("omniorb", "g++ omniidl libomniorb4-dev"), ("grpc", "g++ protobuf-compiler-grpc")]
        {
            let note =
                format!("note: {peer} is not measured: to have it, on Debian: apt-get install {packages}");
            assert!(noted.contains(&note), "{noted}");
        }
    }
}

#[test]
fn the_ping_pong_needs_no_peer() {
    let (folder, nowhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let json = folder.path().join("null.jsonl");
    let mut bench = bifrost();
    bench.args(["bench", "blocking", "--null", "--rounds", "2", "--json"]).arg(&json);
    let output = bench.env("PATH", nowhere.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = std::fs::read_to_string(json).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 9, "{lines:?}");
    assert!(lines.iter().any(|line| line["case"] == "null call in a loop"), "{lines:?}");
    assert!(lines.iter().any(|line| line["peer"] == "bifrost"), "{lines:?}");
    assert!(lines.iter().any(|line| line["target"].is_string()), "{lines:?}");
    for sides in ["two threads", "two processes"] {
        for cores in ["", ", one core", ", two cores"] {
            let case = format!("ping-pong, {sides}{cores}");
            let line = lines.iter().find(|line| line["case"] == *case).unwrap();
            assert!(value(line) > 0.0 && line["peer"] == "futex" && line["unit"] == "us", "{line}");
        }
    }
}

#[test]
fn mistakes_in_arguments_are_told() {
    for (arguments, text) in [
        ("files --tasks 0", "0 is not in 1..=64"),
        ("files --tasks 1,65", "65 is not in 1..=64"),
        ("files --clients 0", "0 is not in 1..=64"),
        ("files --clients 65", "65 is not in 1..=64"),
        ("files --size 65M", "write a number of bytes from 1 to 64M"),
        ("files --block 0", "write a number of bytes from 1 to 64M"),
        ("files --in-flight 1001", "1001 is not in 1..=1000"),
        ("files --rounds 0", "0 is not in 1..=1000"),
        ("files --over ipx", "invalid value 'ipx'"),
        ("files --peers corba", "invalid value 'corba'"),
        ("blocking --block-us 1000001", "1000001 is not in 0..=1000000"),
        ("blocking --compute-us 1000001", "1000001 is not in 0..=1000000"),
        ("blocking --tasks 65", "65 is not in 1..=64"),
        ("blocking --rounds 1001", "1001 is not in 1..=1000"),
    ] {
        let (output, _) = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(text), "{arguments}: {}", stderr(&output));
    }
}
