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

/// The folder with the languages.
const VENEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../veneers");
/// The folder into which `bench/veneers/peers.sh` installs.
const PEERS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../peers");

#[test]
fn client_libraries_are_measured_beside_the_peers_that_are_installed() {
    let lines = figures(&[
        "veneers",
        "--languages",
        "rust,python,perl,tcl,elisp",
        "--quick",
        "--veneers",
        VENEERS,
        "--peers",
        PEERS,
    ]);
    let cases = ["record", "null", "pair", "two", "batch", "table"];
    let languages: [(&str, &[&str], &[&str]); 5] = [
        ("rust", &["grpc", "capnp"], &["raw"]),
        ("python", &["grpcio", "pycapnp"], &["raw"]),
        ("perl", &["redis-perl"], &["raw", "last", "socket"]),
        ("tcl", &["redis-tcl"], &["raw", "last", "socket"]),
        ("elisp", &["redis-elisp"], &["raw", "last", "socket"]),
    ];
    for (language, peers, alone) in languages {
        let of = |case: &str, peer: &str| find(&lines, case, peer, Some(language));
        for case in cases.iter().chain(alone) {
            assert!(value(of(case, "bifrost")) > 1.0, "{lines:?}");
        }
        let missing: Vec<&Value> =
            lines.iter().filter(|line| line["way"] == language && line["missing"].is_string()).collect();
        for &peer in peers {
            if missing.iter().any(|line| line["peer"] == peer) {
                continue;
            }
            for case in cases {
                // The command has compared its results. Ratios are those of medians and of least values.
                let (ours, line) = (of(case, "bifrost"), of(case, peer));
                for (ratio, figure) in [("times_ours", "value"), ("times_our_least", "min")] {
                    let expected = line[figure].as_f64().unwrap() / ours[figure].as_f64().unwrap();
                    assert!((line[ratio].as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{line}");
                }
            }
        }
        let targets = lines.iter().filter(|line| {
            line["target"]
                .as_str()
                .is_some_and(|target| target.starts_with(&format!("{language}: the best peer")))
        });
        // Three ratios, in medians and in least values; none to clients of Redis.
        let ratios = if alone.len() == 3 || missing.len() == peers.len() { 0 } else { 6 };
        assert_eq!(targets.count(), ratios, "{lines:?}");
    }
    for figure in ["median", "least"] {
        for (language, what) in [
            ("python", "a pair beyond the raw socket"),
            ("perl", "a pair beyond the raw socket"),
            ("perl", "a call in a batch of 1,000 beyond the socket"),
            ("tcl", "a call in a batch of 1,000 beyond the socket"),
            ("elisp", "a call in a batch of 1,000 beyond the socket"),
        ] {
            let name = format!("{language}: {what}, {figure}");
            assert!(lines.iter().any(|line| line["target"] == name.as_str()), "{lines:?}");
        }
    }
}

#[test]
fn peers_are_measured_without_the_library_of_their_language() {
    let lines =
        figures(&["veneers", "--languages", "typescript", "--quick", "--veneers", "none", "--peers", PEERS]);
    let mut missing = lines.iter().filter(|line| line["missing"].is_string());
    let ours = missing.next().unwrap();
    assert_eq!(
        ours["missing"],
        "not measured: there is no `none/typescript/bench/run`: run this in a checkout, or give --veneers"
    );
    let missing: Vec<&Value> = missing.map(|line| &line["peer"]).collect();
    for peer in ["grpc-js", "capnweb"] {
        for case in ["record", "null", "pair", "two", "batch", "table"] {
            if !missing.contains(&&Value::from(peer)) {
                let line = find(&lines, case, peer, Some("typescript"));
                assert!(value(line) > 1.0 && line["times_ours"].is_null(), "{line}");
            }
        }
    }
    assert!(lines.iter().all(|line| line["target"].is_null()), "{lines:?}");
}

#[test]
fn what_is_not_installed_is_named_with_the_remedy() {
    let output = bifrost()
        .args(["bench", "veneers", "--languages", "c,python-native,typescript,perl,tcl,elisp", "--quick"])
        .args(["--veneers", "none", "--peers", "none"])
        .output()
        .unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for line in [
        "bifrost: not measured: there is no `none/c/bench/run`",
        "bifrost: not measured: there is no `none/python/bench/run`",
        "capnp: not installed: apt-get install g++ capnproto libcapnp-dev; bench/veneers/peers.sh capnp\n",
        "grpcio: not installed: apt-get install python3 python3-venv g++ protobuf-compiler-grpc libgrpc++-dev \
         libprotobuf-dev; bench/veneers/peers.sh grpc grpcio\n",
        "capnweb: not installed: apt-get install nodejs npm; bench/veneers/peers.sh capnweb\n",
        "bifrost: not measured: there is no `none/tcl/bench/run`",
        "redis-perl: not installed: apt-get install redis-server libredis-perl; bench/veneers/peers.sh redis-perl\n",
        "redis-tcl: not installed: apt-get install redis-server tcl; bench/veneers/peers.sh redis-tcl\n",
        "redis-elisp: not installed: apt-get install redis-server emacs-nox; bench/veneers/peers.sh redis-elisp\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn the_script_of_peers_names_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    // Tools of the script itself, and no other.
    for tool in ["bash", "dirname", "mkdir"] {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path).map(|place| place.join(tool)).find(|tool| tool.is_file());
        std::os::unix::fs::symlink(found.unwrap(), bin.join(tool)).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/veneers/peers.sh");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(bin.join("bash"));
        command.arg(script).args(arguments).env("PATH", &bin);
        command.env("BIFROST_PEERS", folder.path().join("peers")).output().unwrap()
    };
    let all = run(&[]);
    assert!(all.status.success() && all.stdout.is_empty(), "{}{}", stdout(&all), stderr(&all));
    for peer in [
        "grpc",
        "capnp",
        "grpcio",
        "pycapnp",
        "grpc-js",
        "capnweb",
        "grpc-java",
        "grpc-go",
        "redis-perl",
        "redis-tcl",
        "redis-elisp",
    ] {
        assert!(
            stderr(&all).contains(&format!("{peer}: not installed: apt-get install ")),
            "{}",
            stderr(&all)
        );
    }
    for (peer, why) in
        [("capnp", "apt-get install g++ capnproto libcapnp-dev"), ("corba", "there is no such peer")]
    {
        let one = run(&[peer]);
        assert_eq!(one.status.code(), Some(1));
        assert_eq!(stderr(&one), format!("{peer}: not installed: {why}\n"));
    }
}

#[test]
fn a_client_that_does_not_start_is_named_with_its_reason() {
    // An interpreter without site packages has no native library.
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    std::fs::write(&python, "#!/bin/sh\nexec python3 -S \"$@\"\n").unwrap();
    std::fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = bifrost()
        .args(["bench", "veneers", "--languages", "python-native", "--quick", "--peers", "none", "--veneers"])
        .arg(VENEERS)
        .env("PYTHON", &python)
        .output()
        .unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(said.contains("BIFROST_NATIVE is 1, and bifrost_native is not installed"), "{said}");
}

#[test]
fn a_peer_that_answers_something_else_fails_the_command() {
    // A server that is ready, and a client whose results are all 1.
    let folder = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\n[ $1 = client ] || echo ready\nwhile read line; do echo 5 1; done\n";
    let program = folder.path().join("capnweb");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = bifrost()
        .args(["bench", "veneers", "--languages", "typescript", "--quick", "--veneers", "none", "--peers"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("typescript: capnweb, record: the result is 1, not 4950"), "{said}");
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
