//! OO7 over stores: the numbers are those of the oracle, hot and cold, in all ways; and a server that is killed in the middle of an
//! update leaves the database as it was before or as it is afterwards.
//!
//! More kills on demand: `BIFROST_OO7_KILLS=50 cargo test -p bifrost-cli --test oo7_stored`

#[path = "oo7/oracle.rs"]
#[allow(dead_code, reason = "another test uses all of it")]
mod oracle;
mod support;

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

/// Runs the benchmark over a store and compares; returns how many cases there were.
fn compare(store: &str, arguments: &[&str]) -> usize {
    let mut command = bifrost();
    command.args(["bench", "oo7", "--size", "test1", "--samples", "1", "--store", store, "--json", "-"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{store}: {}", stderr(&output));
    let mut cases = 0;
    for line in stdout(&output).lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap();
        let (Some(op), Some(_)) = (line["case"].as_str(), line["temperature"].as_str()) else { continue };
        let mut oracle = Oracle::new("test1", 1);
        match op {
            "T5undo" => drop(oracle.run("T5do")),
            "delete" => drop(oracle.run("insert")),
            _ => {}
        }
        assert_eq!(line["result"].to_string(), oracle.run(op), "{line}");
        assert!(line["fetched"].as_u64() > Some(0) || line["temperature"] == "hot", "{line}");
        cases += 1;
    }
    cases
}

#[test]
fn all_operations_in_memory_give_the_numbers_of_the_oracle() {
    // Hot and cold.
    assert_eq!(compare("memory:", &[]), 2 * (24 * 4 + 1 + 2 * 2));
}

#[test]
fn operations_over_a_folder_give_the_numbers_of_the_oracle() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let ops = ["T2b", "T3b", "T6", "Q4", "insert", "delete"];
    let arguments: Vec<&str> = ops.iter().flat_map(|op| ["--op", op]).collect();
    // The same database the second time.
    assert_eq!(compare(&store, &[&arguments[..], &["--way", "theta"]].concat()), 2 * 6);
    assert_eq!(
        compare(&store, &[&arguments[..4], &["--way", "bcs", "--way", "promises"]].concat()),
        2 * 2 * 2
    );
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

#[test]
fn a_killed_update_has_happened_or_not() {
    let kills: u32 = std::env::var("BIFROST_OO7_KILLS").map_or(2, |n| n.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let start = || Server::serve(&program(), &["--store", &store]);
    let mut server = start();
    said(
        &server,
        "$g := new_generator(\"test3\", 1)\n$n := $g.step(1000)\nname_database(\"db\", $g.database())\ncommit\nflush\n",
    );
    let mut random = Random::new(1);
    let mut changed = 0;
    for (update, back) in [("T2b", "T2b"), ("T3b", "T3b"), ("insert", "delete")] {
        let mut oracle = Oracle::new("test3", 1);
        let before = oracle.run("fingerprint");
        oracle.run(update);
        let after = oracle.run("fingerprint");
        assert_eq!(fingerprint(&server), before);
        for _ in 0..kills {
            let mut shell = bifrost();
            shell.arg("shell").arg(&server.urls[0]);
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut shell = shell.spawn().unwrap();
            let mut script = "$o := new_oo7(lookup db: Database)\n? $o.t6()\n".to_owned();
            for op in [update, back].repeat(500) {
                script.push_str(&format!("? operation($o, \"{op}\")\ncommit\n"));
            }
            let mut input = shell.stdin.take().unwrap();
            let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
            let mut output = BufReader::new(shell.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            // From here on updates and commits follow each other; the moment is a random one.
            let moment = Instant::now() + Duration::from_micros(random.draw() as u64 % 200_000);
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            server.end("KILL");
            shell.wait().unwrap();
            drop(writer.join());
            server = start();
            let found = fingerprint(&server);
            assert!(found == before || found == after, "{update}: {found} is neither {before} nor {after}");
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
    println!("{changed} of {} kills left the update done", 3 * kills);
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
        assert_eq!(stderr(&output).contains("and"), !right);
    }
}
