//! The examples with actors print the same on one node and on several, compiled and interpreted, however often the heaps are collected.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use support::{bifrost, examples, stderr, stdout};

#[test]
fn examples_with_actors_print_what_they_should() {
    let folder = examples().join("actors");
    let mut found = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|it| it != "theta") {
            continue;
        }
        found += 1;
        let expected = std::fs::read_to_string(file.with_extension("txt")).unwrap();
        let ways: [(&[&str], &str); 7] = [
            (&["--nodes", "3", "--seed", "42"], "check"),
            (&[], "ordinary"),
            (&[], "zeal=50"),
            (&["--interpret"], "check"),
            (&["--nodes", "2"], "check"),
            (&["--nodes", "3", "--interpret"], "ordinary"),
            (&["--seed", "42"], "check"),
        ];
        for (way, collect) in ways {
            let output =
                bifrost().arg("run").args(way).arg(&file).env("BIFROST_GC", collect).output().unwrap();
            let said = (stdout(&output), stderr(&output), output.status.code());
            assert_eq!(said, (&*expected, "", Some(0)), "{} {way:?} {collect}", file.display());
        }
    }
    assert_eq!(found, 5);
}

#[test]
fn a_seed_gives_the_same_events_in_every_process() {
    let queens = examples().join("actors/queens.theta");
    let digest = |seed: &str| {
        let mut command = bifrost();
        command.args(["run", "--nodes", "3", "--stats", "--seed", seed]).arg(&queens).arg("6");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let last = stderr(&output).lines().last().unwrap().to_owned();
        assert!(last.starts_with("events between nodes "), "{last}");
        last
    };
    for seed in ["1", "2", "3"] {
        assert_eq!(digest(seed), digest(seed), "seed {seed}");
    }
    assert_ne!(digest("1"), digest("2"));
}

#[test]
fn what_actors_did_is_told() {
    let queens = examples().join("actors/queens.theta");
    let output = bifrost().args(["run", "--nodes", "2", "--stats"]).arg(&queens).output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("8 queens: 92 solutions\n", Some(0)));
    let lines: Vec<&str> = stderr(&output).lines().collect();
    assert!(lines[0].starts_with("node 0: actors made ") && lines[1].starts_with("node 1: "), "{lines:?}");
    // 002 section 6: 1,964 below the root.
    let made = lines.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        words[4].trim_end_matches(',').parse::<u64>().unwrap()
    });
    assert_eq!(made.sum::<u64>(), 1_965);

    // Two variables, the mail, and two words before each; else there is next to nothing.
    let create = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/actors/create.theta");
    let output = bifrost().args(["run", "--stats"]).arg(&create).arg("100000").output().unwrap();
    let line = stderr(&output);
    let bytes = line.split("bytes allocated for each actor ").nth(1).unwrap().split(';').next().unwrap();
    assert!((40.0..45.0).contains(&bytes.parse::<f64>().unwrap()), "{line}");
}

#[test]
fn what_ran_when_is_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.json");
    let queens = examples().join("actors/queens.theta");
    let mut command = bifrost();
    command.args(["run", "--nodes", "2", "--trace"]).arg(&file).arg(&queens).arg("6");
    let output = command.output().unwrap();
    assert_eq!((stdout(&output), output.status.code()), ("6 queens: 4 solutions\n", Some(0)));
    let events: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let took = |kind: &str, node: u64| {
        let of = events.iter().filter(|event| event["cat"] == kind && event["tid"] == node);
        of.filter(|event| event["dur"].as_f64().is_some_and(|dur| dur >= 0.0)).count()
    };
    for node in 0..2 {
        assert!(took("call", node) > 10 && took("packets", node) > 0 && took("idle", node) > 0, "{events:?}");
    }
    assert!(events.iter().any(|event| event["name"] == "NQueen.comp" && event["cat"] == "join"));
    let output = bifrost().args(["run", "--trace", "/"]).arg(&queens).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot be written"), "{}", stderr(&output));
}

#[test]
fn numbers_of_nodes_that_cannot_be() {
    let queens = examples().join("actors/queens.theta");
    for (way, said) in [
        (&["--nodes", "0"][..], "0 is not in 1..=255"),
        (&["--nodes", "2", "--store", "memory:"], "a program over a store has one node"),
    ] {
        let output = bifrost().arg("run").args(way).arg(&queens).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{way:?}");
        assert!(stderr(&output).contains(said), "{way:?}: {}", stderr(&output));
    }
}

/// Selections with a time limit of an hour, each of which is served. `main` says when it has made
/// so many, and when it has made three times as many.
const SERVED: &str = "Box = actor
  take () returns (int)
    got: int := 0
    wait
      when put (v: int): got := v
      after 3600000: got := -1
    end
    reply (got)
  end take
  put (v: int) end put
end Box
main (args: sequence[string])
  count: int := args[1].to_int()
  b: Box := Box.new() on (nodes() - 1)
  sum: int := 0
  for part: int in 1.to(3) do
    for i: int in 1.to(count) do
      x: int := b.take()
      send b.put(1)
      sum := sum + x
    end
    print(sum.unparse())
  end
end main";

#[test]
fn time_limits_of_selections_that_were_served_end_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("served.theta");
    std::fs::write(&file, SERVED).unwrap();
    for way in [&[][..], &["--nodes", "2"], &["--interpret"]] {
        let begun = Instant::now();
        let output = bifrost().arg("run").args(way).arg(&file).arg("10").output().unwrap();
        let said = (stdout(&output), stderr(&output), output.status.code());
        assert_eq!(said, ("10\n20\n30\n", "", Some(0)), "{way:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{way:?}: {:?}", begun.elapsed());
    }
}

#[test]
fn selections_that_were_served_keep_no_memory() {
    const COUNT: u64 = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("served.theta");
    std::fs::write(&file, SERVED).unwrap();
    let mut command = bifrost();
    command.arg("run").arg(&file).arg(COUNT.to_string()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let kib = |line: std::io::Result<String>| {
        let (line, status) = (line.unwrap(), std::fs::read_to_string(&status).unwrap_or_default());
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        (line, kib)
    };
    let lines: Vec<_> = BufReader::new(child.stdout.take().unwrap()).lines().map(kib).collect();
    assert!(child.wait().unwrap().success());
    let said: Vec<u64> = lines.iter().map(|(line, _)| line.parse().unwrap()).collect();
    assert_eq!(said, [COUNT, 2 * COUNT, 3 * COUNT]);
    // The process may be gone when the last line is read.
    let (first, second) = (lines[0].1.unwrap(), lines[1].1.unwrap());
    assert!(second < first + 4 * 1024, "{first} KiB after {COUNT}, {second} KiB after {}", 2 * COUNT);
}

/// Two actors request each other while somebody waits for a message for an hour, so that the run is
/// not over.
const STUCK: &str = "A = actor
  go (b: A) returns (int)
    x: int := b.back(self)
    reply (x)
  end go
  back (a: A) returns (int)
    y: int := a.zero()
    reply (y)
  end back
  zero () returns (int) reply (0) end zero
end A
Sleeper = actor
  sleep () returns (int)
    n: int := 0
    wait
      when wake (): n := 1
      after 3600000: n := -1
    end
    reply (n)
  end sleep
  wake () end wake
end Sleeper
main ()
  s: Sleeper := Sleeper.new() on 0
  slept: int := s.sleep()
  a: A := A.new() on 0
  b: A := A.new() on (nodes() - 1)
  begin print(a.go(b).unparse()) end except when failure (why: string): print(why) end
  print(a.zero().unparse() || b.zero().unparse())
  send s.wake()
  if slept = 1 then print(\"awake\") end
end main";

#[test]
fn requests_that_wait_for_themselves_are_told_while_others_wait_for_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stuck.theta");
    std::fs::write(&file, STUCK).unwrap();
    for way in [&[][..], &["--nodes", "2"], &["--nodes", "3", "--interpret"], &["--capsules", "2"]] {
        let begun = Instant::now();
        let output = bifrost().arg("run").args(way).arg(&file).output().unwrap();
        let said = (stdout(&output), stderr(&output), output.status.code());
        assert_eq!(said, ("request cycle\n00\nawake\n", "", Some(0)), "{way:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{way:?}: {:?}", begun.elapsed());
    }
}

/// Three actors in a ring, each in a process of its own if there are three.
const RING: &str = "A = actor
  next: array[A]
  new () make {next := array_new[A]()} end new
  join (a: A) returns (int)
    next.append(a)
    reply (1)
  end join
  go (k: int) returns (int)
    if k = 0 then reply (0)
    else
      x: int := next[1].go(k - 1)
      reply (x + 1)
    end
  end go
end A
main ()
  a: A := A.new() on 0
  b: A := A.new() on (1).mod(nodes())
  c: A := A.new() on (2).mod(nodes())
  n: int := a.join(b) + b.join(c) + c.join(a)
  print(a.go(2).unparse())
  begin print(b.go(3).unparse()) end except when failure (why: string): print(why) end
  print(c.go(1).unparse())
end main
";

#[test]
fn rings_over_three_processes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ring.theta");
    std::fs::write(&file, RING).unwrap();
    for way in
        [&["--capsules", "3"][..], &["--capsules", "2", "--nodes", "2"], &["--capsules", "3", "--interpret"]]
    {
        let begun = Instant::now();
        let output = bifrost().arg("run").args(way).arg(&file).output().unwrap();
        let said = (stdout(&output), stderr(&output), output.status.code());
        assert_eq!(said, ("2\nrequest cycle\n1\n", "", Some(0)), "{way:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{way:?}: {:?}", begun.elapsed());
    }
}
