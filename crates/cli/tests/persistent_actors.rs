//! Persistent actors of servers that are killed: each acknowledged request is there once, and another server goes on.
//!
//! `BIFROST_ACTOR_KILLS` says how often each test kills a server.

#[path = "../../repository/tests/support/cluster.rs"]
mod cluster;
mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::cluster;
use support::{Server, bifrost, feed, kill, stderr, stdout};

/// Counts each number once. `spin` says that it has begun, and computes long.
const TALLY: &str = r#"
import std.system
Tally = actor persistent
  count: int
  seen: map[int, bool]
  new () make {count := 0, seen := map_new[int, bool]()} end new
  add (number: int) returns (int)
    if ~seen.contains(number) then
      seen[number] := true
      count := count + 1
    end
    reply (count)
  end add
  missing (last: int) returns (int)
    n: int := 0
    for number: int in 1.to(last) do
      if ~seen.contains(number) then n := n + 1 end
    end
    reply (n)
  end missing
  value () returns (int) reply (count) end value
  spin (steps: int) returns (int)
    print_error("begun")
    n: int := 0
    for i: int in 1.to(steps) do n := (n + i).mod(1000003) end
    count := count + 1
    reply (count)
  end spin
end Tally
remote find_tally (name: string) returns (Tally) return (Tally.at(name)) end find_tally
"#;

/// The longest time until an actor answers again.
const BACK: Duration = Duration::from_secs(5);

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("tally.theta");
    std::fs::write(&path, TALLY).unwrap();
    path
}

fn kills() -> u64 {
    std::env::var("BIFROST_ACTOR_KILLS").map_or(3, |n| n.parse().expect("a number"))
}

/// The answers to the lines of a script about the actor `t`, as far as a server gives them.
fn answers(url: &str, lines: &str) -> (Vec<i64>, String) {
    let mut command = bifrost();
    command.arg("shell").arg(url);
    let output = feed(command, &format!("$t := find_tally(\"t\")\n{lines}"));
    let numbers = stdout(&output)
        .lines()
        .filter_map(|line| line.strip_prefix('@')?.split_once(" = ")?.1.parse().ok())
        .collect();
    (numbers, format!("{}{}", stdout(&output), stderr(&output)))
}

/// The answer to one call.
#[track_caller]
fn answer(url: &str, call: &str) -> i64 {
    let (numbers, text) = answers(url, &format!("? $t.{call}\n"));
    assert_eq!(numbers.len(), 1, "{call}: {text}");
    numbers[0]
}

/// Kills the server while a client counts, `kills` times. Each life begins with the first number that was not
/// acknowledged.
fn kill_while_counting(mut start: impl FnMut() -> Server) {
    let mut counted = 0;
    let mut seed = 7_u64;
    for round in 0..kills() {
        let begun = Instant::now();
        let mut server = start();
        let url = server.urls[0].clone();
        let ready = Instant::now();
        assert_eq!(answer(&url, &format!("missing({counted})")), 0, "round {round}");
        assert!(ready.elapsed() < BACK, "back after {:?}", ready.elapsed());
        let extra = answer(&url, "value()") - counted;
        assert!((0..=1).contains(&extra), "round {round}: {extra} more than the acknowledged {counted}");
        let client = std::thread::spawn(move || {
            // One request that has no answer may be under way.
            let lines =
                (counted + 1..=counted + 3000).map(|n| format!("? $t.add({n})\n")).collect::<String>();
            answers(&url, &lines).0
        });
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // The moment of the kill is the subject of the test.
        std::thread::sleep(Duration::from_millis(150 + (seed >> 33) % 400));
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let heard = client.join().unwrap();
        if let Some(last) = heard.last() {
            assert_eq!(*last, counted + heard.len() as i64, "each number counts once");
        }
        counted += heard.len() as i64;
        println!("round {round}: {counted} counted, {:?}", begun.elapsed());
    }
    assert!(counted > 0, "no request was answered");
    let server = start();
    assert_eq!(answer(&server.urls[0], &format!("missing({counted})")), 0);
}

#[test]
fn a_killed_server_over_a_folder_has_each_acknowledged_request_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let store = folder.path().join("store").display().to_string();
    kill_while_counting(|| Server::serve(&program, &["--store", &store, "--nodes", "2"]));
}

#[test]
fn an_actor_of_a_killed_server_answers_on_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let url = cluster().fresh();
    let start = || Server::serve(&program, &["--store", &url]);
    let (mut owner, mut other) = (start(), start());
    let mut number = 0;
    for _ in 0..kills() {
        for _ in 0..3 {
            number += 1;
            assert_eq!(answer(&owner.urls[0], &format!("add({number})")), number);
        }
        owner.child.kill().unwrap();
        owner.child.wait().unwrap();
        let killed = Instant::now();
        number += 1;
        assert_eq!(answer(&other.urls[0], &format!("add({number})")), number);
        assert!(killed.elapsed() < BACK, "back after {:?}", killed.elapsed());
        assert_eq!(answer(&other.urls[0], &format!("missing({number})")), 0);
        (owner, other) = (other, start());
    }
}

#[test]
fn calls_work_at_every_server() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let url = cluster().fresh();
    let servers: Vec<Server> = (0..2).map(|_| Server::serve(&program, &["--store", &url])).collect();
    let count = |at: usize| {
        let (url, first) = (servers[at].urls[0].clone(), at * 1000);
        std::thread::spawn(move || {
            let lines = (first + 1..=first + 50).map(|n| format!("? $t.add({n})\n")).collect::<String>();
            answers(&url, &lines)
        })
    };
    let clients = [count(0), count(1)];
    for client in clients {
        let (numbers, text) = client.join().unwrap();
        assert_eq!(numbers.len(), 50, "{text}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
    for server in &servers {
        assert_eq!(answer(&server.urls[0], "value()"), 100);
    }
}

#[test]
fn a_server_that_has_stood_still_does_not_commit_a_turn_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let url = cluster().fresh();
    // The time that it stands still is a part of that of its batch.
    let patient = ["--store", &url, "--set", "limits.batch_time_ms_max=60000"];
    let mut still = Server::serve(&program, &patient);
    let other = Server::serve(&program, &["--store", &url]);
    assert_eq!(answer(&still.urls[0], "add(1)"), 1);
    let mut said = BufReader::new(still.child.stderr.take().unwrap()).lines();
    let mut begun = || said.by_ref().any(|line| line.unwrap() == "begun");
    let at = still.urls[0].clone();
    let spinning = std::thread::spawn(move || answer(&at, "spin(20000000)"));
    assert!(begun());
    kill(&still.child, "STOP");
    // The other server takes the claim, and its turns count.
    for number in 2..=5 {
        assert_eq!(answer(&other.urls[0], &format!("add({number})")), number);
    }
    kill(&still.child, "CONT");
    // The turn is run again with the new state, and is no other one's answer.
    assert!(begun());
    assert_eq!(spinning.join().unwrap(), 6);
    assert_eq!(answer(&other.urls[0], "value()"), 6);
    assert_eq!(answer(&still.urls[0], "value()"), 6);
}
