//! OO7 over stores in memory, in a folder and in a database: the numbers are those of the oracle, hot and cold, in all ways; and a
//! server that is killed in the middle of an update leaves the database as it was before or as it is afterwards.
//!
//! On demand, more kills, and all of it for other sizes, in a release build:
//! `BIFROST_OO7_KILLS=50 cargo test --locked --workspace --test oo7_stored killed`
//! `BIFROST_OO7_SIZES=small3,medium9 cargo test --release --locked --workspace --test oo7_stored larger_ones -- --nocapture`
//! with `BIFROST_OO7_ARGUMENTS="--temperature cold --way theta"` or others of `bifrost bench oo7`, if it is to take less time.

#[path = "../../repository/tests/support/cluster.rs"]
mod cluster;
#[path = "oo7/oracle.rs"]
#[allow(dead_code, reason = "another test uses all of it")]
mod oracle;
mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use oracle::{Oracle, Random};
use support::{Server, bifrost, stderr, stdout};

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/oo7/oo7.theta")
}

/// Operations and the ways that each has.
const ALL: usize = 24 * 4 + 1 + 2 * 2;

/// Runs the benchmark over a store and compares; returns how many cases there were.
fn compare(store: &str, size: &str, arguments: &[&str]) -> usize {
    let mut command = bifrost();
    command.args(["bench", "oo7", "--size", size, "--samples", "1", "--store", store, "--json", "-"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{store}: {}", stderr(&output));
    let mut expected: HashMap<String, String> = HashMap::new();
    let mut cases = 0;
    for line in stdout(&output).lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap();
        let (Some(op), Some(_)) = (line["case"].as_str(), line["temperature"].as_str()) else { continue };
        let expected = expected.entry(op.to_owned()).or_insert_with(|| {
            let mut oracle = Oracle::new(size, 1);
            match op {
                "T5undo" => drop(oracle.run("T5do")),
                "delete" => drop(oracle.run("insert")),
                _ => {}
            }
            oracle.run(op)
        });
        assert_eq!(line["result"].to_string(), *expected, "{line}");
        assert!(line["fetched"].as_u64() > Some(0) || line["temperature"] == "hot", "{line}");
        cases += 1;
    }
    cases
}

/// Some operations that between them look up, walk and change, cold in all ways; each takes servers of its own.
const COLD: &[&str] = &["--temperature", "cold", "--op", "T3b", "--op", "Q4", "--op", "insert"];

#[test]
fn all_operations_in_memory_give_the_numbers_of_the_oracle() {
    assert_eq!(compare("memory:", "test1", &[]), 2 * ALL);
}

#[test]
fn all_operations_over_a_folder_give_the_numbers_of_the_oracle() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    assert_eq!(compare(&store, "test1", &["--temperature", "hot"]), ALL);
    // The same database the second time.
    assert_eq!(compare(&store, "test1", COLD), 3 * 4);
}

#[test]
fn all_operations_over_a_database_give_the_numbers_of_the_oracle() {
    let url = cluster::cluster().fresh();
    assert_eq!(compare(&url, "test1", &["--temperature", "hot"]), ALL);
    assert_eq!(compare(&url, "test1", COLD), 3 * 4);
}

#[test]
fn larger_ones_on_demand() {
    let [sizes, arguments] =
        ["SIZES", "ARGUMENTS"].map(|name| std::env::var(format!("BIFROST_OO7_{name}")).unwrap_or_default());
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    for size in sizes.split(',').filter(|size| !size.is_empty()) {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store").display().to_string();
        for (what, store) in [
            ("memory", "memory:".to_owned()),
            ("a folder", store),
            ("a database", cluster::cluster().fresh()),
        ] {
            let start = Instant::now();
            let cases = compare(&store, size, &arguments);
            assert!(cases == 2 * ALL || !arguments.is_empty());
            println!("{size} over {what}: {cases} cases right in {} s", start.elapsed().as_secs());
        }
    }
}

#[track_caller]
fn said(server: &Server, script: &str) -> String {
    let output = server.shell(&server.urls[0], &[], script);
    assert_eq!(stderr(&output), "", "{}", stdout(&output));
    stdout(&output).to_owned()
}

/// The fingerprint of a database in which nothing is wrong.
#[track_caller]
fn fingerprint(server: &Server) -> String {
    let script =
        "$o := new_oo7(lookup db: Database)\n? operation($o, \"check\"), operation($o, \"fingerprint\")\n";
    let text = said(server, script);
    let values: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once(" = \"")?.1.trim_end_matches('"'))).collect();
    assert_eq!(values.len(), 2, "{text}");
    assert_eq!(values[0], "right");
    values[1].to_owned()
}

/// What only looks, and so gives the same number again and again.
const LOOKING: &[&str] =
    &["T1", "T4", "T6", "T7", "T8", "T9", "T10", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8"];

/// All counts of a database are those of the oracle.
#[track_caller]
fn counts_are_right(server: &Server, oracle: &mut Oracle) {
    let mut script = "$o := new_oo7(lookup db: Database)\n".to_owned();
    let mut expected = Vec::new();
    for op in LOOKING {
        script.push_str(&format!("? operation($o, \"{op}\")\n"));
        expected.push(oracle.run(op));
    }
    let text = said(server, &script);
    let values: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once(" = \"")?.1.trim_end_matches('"'))).collect();
    assert_eq!(values, expected);
}

/// Kills servers over a store while a client has updates and commits follow each other.
fn kill_during(store: &str, updates: &[(&str, &str)], kills: u32) {
    let start = || Server::serve(&program(), &["--store", store]);
    let mut server = start();
    said(
        &server,
        "$g := new_generator(\"test3\", 1)\n$n := $g.step(1000)\nname_database(\"db\", $g.database())\ncommit\nflush\n",
    );
    let mut random = Random::new(1);
    let mut changed = 0;
    for (update, back) in updates {
        let mut oracle = Oracle::new("test3", 1);
        let before = oracle.run("fingerprint");
        let mut updated = Oracle::new("test3", 1);
        updated.run(update);
        let after = updated.run("fingerprint");
        assert_eq!(fingerprint(&server), before);
        for _ in 0..kills {
            let mut shell = bifrost();
            shell.arg("shell").arg(&server.urls[0]);
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut shell = shell.spawn().unwrap();
            let mut script = "$o := new_oo7(lookup db: Database)\n? $o.t6()\n".to_owned();
            for op in [*update, *back].repeat(500) {
                script.push_str(&format!("? operation($o, \"{op}\")\ncommit\n"));
            }
            let mut input = shell.stdin.take().unwrap();
            let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
            let mut output = BufReader::new(shell.stdout.take().unwrap());
            // From here on updates and commits follow each other; the moment is a random one behind some of them.
            for _ in 0..=random.below(9) {
                output.read_line(&mut String::new()).unwrap();
            }
            let moment = Instant::now() + Duration::from_micros(random.draw() as u64 % 50_000);
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            server.end("KILL");
            shell.wait().unwrap();
            drop(writer.join());
            server = start();
            let found = fingerprint(&server);
            assert!(found == before || found == after, "{update}: {found} is neither {before} nor {after}");
            counts_are_right(&server, if found == before { &mut oracle } else { &mut updated });
            if found == after {
                changed += 1;
                let script = format!(
                    "$o := new_oo7(lookup db: Database)\n$x := operation($o, \"{back}\")\ncommit\nflush\n"
                );
                said(&server, &script);
                assert_eq!(fingerprint(&server), before, "{update}");
            }
        }
    }
    println!("{changed} of {} kills left the update done", kills * updates.len() as u32);
}

fn kills() -> u32 {
    std::env::var("BIFROST_OO7_KILLS").map_or(2, |n| n.parse().expect("a number"))
}

#[test]
fn a_killed_update_of_a_folder_has_happened_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    kill_during(&store, &[("T2b", "T2b"), ("T3b", "T3b"), ("insert", "delete")], kills());
}

#[test]
fn a_killed_update_of_a_database_has_happened_or_not() {
    let url = cluster::cluster().fresh();
    kill_during(&url, &[("T2b", "T2b"), ("T3b", "T3b"), ("insert", "delete")], kills());
}

#[test]
#[cfg(unix)]
fn others_must_give_the_same_numbers() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().display().to_string();
    let run = || {
        let ours = [
            "bench",
            "oo7",
            "--size",
            "test1",
            "--op",
            "T1",
            "--way",
            "theta",
            "--samples",
            "1",
            "--json",
            "-",
        ];
        bifrost().args(ours).args(["--peers", "sqlite", "--peers-folder", &peers]).output().unwrap()
    };
    let missing = run();
    assert!(!missing.status.success());
    assert!(stderr(&missing).contains("cargo build --release --manifest-path"), "{}", stderr(&missing));
    let program = folder.path().join("sqlite/target/release/oo7-sqlite");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    let result = Oracle::new("test1", 1).run("T1");
    for (says, right) in [(result.clone(), true), (format!("{result}0"), false)] {
        let script =
            format!("#!/bin/sh\ntest \"$1 $2 $4 $5\" = \"test1 1 1 T1\" && echo T1 hot {says} 1.5 2.5 0.5\n");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = run();
        assert_eq!(output.status.success(), right, "{}", stderr(&output));
        let told = stdout(&output)
            .lines()
            .any(|line| line.contains("\"peer\":\"sqlite\"") && line.contains("\"value\":1.5"));
        assert_eq!(told, right);
        assert_eq!(stderr(&output).contains(" gives "), !right);
    }
}
