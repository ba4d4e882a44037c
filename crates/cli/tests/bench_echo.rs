//! `bifrost bench echo` in small, beside the peers that are installed.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::{bifrost, stderr, stdout};

/// Returns the folder of the programs in Rust.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/echo/rust")
}

/// Runs the benchmark, and returns its output and its lines of JSON.
fn bench(arguments: &str, package: &Path) -> (Output, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.jsonl");
    let mut bench = bifrost();
    bench.args(["bench", "echo"]).args(arguments.split(' ')).arg("--peers-folder").arg(package);
    let output = bench.arg("--json").arg(&json).output().unwrap();
    let lines = std::fs::read_to_string(json).unwrap_or_default();
    (output, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns the peers in C++, each with whether its tools are here.
fn peers() -> [(&'static str, bool); 3] {
    let is_here = |translator: &str, flag: &str, header: &str| {
        let look = ["-fsyntax-only", "-std=c++17", "-include", header, "-x", "c++", "/dev/null"];
        succeeds(translator, &[flag]) && succeeds("g++", &look)
    };
    [
        ("omniorb", is_here("omniidl", "-V", "omniORB4/CORBA.h")),
        ("grpc", is_here("protoc", "--version", "grpcpp/grpcpp.h")),
        ("capnp", is_here("capnp", "--version", "capnp/ez-rpc.h")),
    ]
}

/// Returns true if cargo can compile the programs in Rust: it needs their crates.
fn has_quic() -> bool {
    let manifest = package().join("Cargo.toml").to_string_lossy().into_owned();
    let target = package().join("target").to_string_lossy().into_owned();
    let build = ["build", "--release", "--locked", "--manifest-path", &manifest, "--target-dir", &target];
    succeeds("cargo", &build)
}

fn find<'a>(lines: &'a [Value], case: &str, peer: &str) -> &'a Value {
    let found = lines.iter().find(|line| line["case"] == case && line["peer"] == peer);
    found.unwrap_or_else(|| panic!("{case} of {peer}: {lines:?}"))
}

#[test]
fn bytes_are_exchanged_beside_the_peers_that_are_here() {
    let nowhere = tempfile::tempdir().unwrap();
    let arguments = "--quick --sizes 16,4096 --cores 0,0 --packet 1024 --over tcp,tls,unix,shm,tcp";
    let (output, lines) = bench(arguments, nowhere.path());
    let (said, noted) = (stdout(&output), stderr(&output));
    // Bytes that are not those expected end the program.
    assert!(output.status.success(), "{said}\n{noted}");
    for name in ["quinn-proto", "quinn"] {
        let note = format!("note: {name} is not measured: `{}/Cargo.toml`", nowhere.path().display());
        assert!(
            noted.contains(&note) && noted.contains("`bench/echo/rust` with `--peers-folder`"),
            "{noted}"
        );
    }
    let peers = peers();
    for (peer, is_here) in &peers {
        let missing =
            noted.contains(&format!("note: {peer} is not measured: to have it, on Debian: apt-get"));
        assert_eq!(missing, !is_here, "{noted}");
    }
    let ours = ["raw udp", "raw seqpacket", "raw tcp", "tcp", "tls", "unix", "shm", "call over tcp"];
    let here: Vec<&str> = peers.iter().filter(|(_, is_here)| *is_here).map(|(peer, _)| *peer).collect();
    let shapes = [(16, 0), (4096, 0), (0, 16), (0, 4096), (16, 16), (4096, 4096)];
    for peer in ours.iter().chain(&here) {
        for (sent, received) in shapes {
            let line = find(&lines, &format!("{sent} sent, {received} received, cores 0,0"), peer);
            assert_eq!(
                (&line["bench"], &line["unit"], &line["n"]),
                (&"echo".into(), &"us".into(), &100.into())
            );
            let figure = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"));
            assert!(figure("min") > 0.0 && figure("min") <= figure("value"), "{line}");
            assert!(figure("value") <= figure("p99") && figure("p99") <= figure("max"), "{line}");
            assert!(figure("cpu_ns") > 0.0, "{line}");
            // A head of 8 bytes is before the bytes, so 4096 of them need five datagrams of 1024.
            let is_counted = ["raw udp", "raw seqpacket"].contains(peer);
            let parts = |bytes| if bytes == 4096 { 5.0 } else { 1.0 };
            let datagrams = is_counted.then(|| parts(sent) + parts(received));
            assert_eq!(line["datagrams"].as_f64(), datagrams, "{line}");
            let is_call = *peer == "call over tcp" || here.contains(peer);
            assert_eq!(line["crossings"].as_u64(), is_call.then_some(1), "{line}");
        }
    }
    let measured = lines.iter().filter(|line| line["case"].is_string()).count();
    assert_eq!(measured, (ours.len() + here.len()) * shapes.len());
    // A table of each group, and the paper's figures in the first.
    for title in
        ["Datagrams on one core (0,0)", "Streams on one core", "Calls on one core", "Details on one core"]
    {
        assert!(said.contains(title), "{title}: {said}");
    }
    let paper = said.lines().find(|line| line.trim_start().starts_with("16        0"));
    assert!(paper.is_some_and(|line| line.ends_with("2.75    2.75    1.35")), "{said}");
    assert!(
        lines.iter().any(|line| line["target"] == "tls / tcp, 16 bytes both ways, cores 0,0"),
        "{lines:?}"
    );
}

#[test]
fn quic_sends_lost_datagrams_again() {
    let arguments = "--quick --sizes 16 --cores 0,0 --peers quinn,quinn-proto \
                     --loss 2 --delay-us 100 --reorder 2 --duplicate 2 --seed 5";
    let is_here = has_quic();
    let (output, lines) = bench(arguments, &package());
    let (said, noted) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.success(), is_here, "{said}\n{noted}");
    if !is_here {
        assert!(noted.contains("note: quinn-proto is not measured: cargo does not compile"), "{noted}");
        return;
    }
    assert!(
        said.contains("Details on one core (0,0); 2 % lost, 2 % twice, 2 % late, 100 us each way, seed 5")
    );
    for peer in ["quinn-proto", "quinn"] {
        let case = "16 sent, 16 received, cores 0,0, loss 2 %, delay 100 us";
        let line = find(&lines, case, peer);
        // There and back, and the ones that are repeated.
        assert!(line["min"].as_f64().unwrap() >= 200.0, "{line}");
        assert!(line["datagrams"].as_f64().unwrap() >= 2.0, "{line}");
    }
    // Raw datagrams are not sent again.
    assert!(lines.iter().all(|line| line["peer"] != "raw udp"), "{lines:?}");
    let (output, lines) = bench(
        "--quick --sizes 16 --cores 0,0 --mtu 8192 --ack-delay-us 2000 --peers quinn-proto",
        &package(),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let gate = "gate 0: quinn-proto / raw udp, 16 bytes both ways, cores 0,0";
    assert!(lines.iter().any(|line| line["target"] == gate), "{lines:?}");
    let line = find(&lines, "16 sent, 16 received, cores 0,0", "quinn-proto");
    // Acknowledgements are in the datagrams of the messages.
    assert!(line["datagrams"].as_f64().unwrap() < 2.5, "{line}");
}

#[test]
fn nothing_is_measured_on_cores_that_are_not_here() {
    let nowhere = tempfile::tempdir().unwrap();
    let (output, lines) = bench("--quick --cores 0,9999 --peers quinn", nowhere.path());
    let noted = stderr(&output);
    assert!(output.status.success() && lines.is_empty(), "{noted}");
    assert!(noted.contains("note: cores 0,9999 are not measured"), "{noted}");
}

#[test]
fn mistakes_in_arguments_are_told() {
    for (arguments, text) in [
        ("--sizes 0", "0 is not in 1..=65536"),
        ("--sizes 16,65537", "65537 is not in 1..=65536"),
        ("--exchanges 0", "0 is not in 1..=1000000"),
        ("--rounds 1001", "1001 is not in 1..=1000"),
        ("--quick --rounds 2", "cannot be used with"),
        ("--cores 0", "write the core of the client and that of the server"),
        ("--over rex", "invalid value 'rex'"),
        ("--peers corba", "invalid value 'corba'"),
        ("--mtu 1199", "1199 is not in 1200..=65507"),
        ("--ack-delay-us 0", "0 is not in 1..=1000000"),
        ("--packet 100", "write a number of bytes from 512 to 65507"),
        ("--loss 51", "write a number from 0 to 50"),
        ("--delay-us 1000001", "1000001 is not in 0..=1000000"),
        ("--reorder x", "write a number from 0 to 50"),
        ("--duplicate -1", "unexpected argument"),
    ] {
        let (output, _) = bench(arguments, Path::new("."));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(text), "{arguments}: {}", stderr(&output));
    }
}

#[test]
fn loss_needs_a_system_that_repeats() {
    let nowhere = tempfile::tempdir().unwrap();
    let (output, _) = bench("--quick --loss 1 --over tcp --peers quinn", nowhere.path());
    assert!(!output.status.success());
    assert!(stderr(&output).contains("no system here sends lost datagrams again"), "{}", stderr(&output));
}

#[test]
fn long_messages_go_beside_short_ones_over_all_transports() {
    let nowhere = tempfile::tempdir().unwrap();
    let (output, lines) = bench("--quick --bulk 2 --cores 0,0", nowhere.path());
    let said = stdout(&output);
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    assert!(said.contains("Messages of 2 MiB on one core (0,0)"), "{said}");
    for peer in ["tcp", "tls", "quic", "unix", "shm"] {
        for what in ["sent", "received", "sent beside short exchanges"] {
            let line = find(&lines, &format!("2 MiB {what}, cores 0,0"), peer);
            assert!(line["value"].as_f64().unwrap() > 0.0 && line["unit"] == "MiB/s", "{line}");
        }
        for what in ["alone", "beside long messages"] {
            let line = find(&lines, &format!("16 bytes both ways {what}, cores 0,0"), peer);
            assert!(line["n"].as_u64().unwrap() >= 100 && line["unit"] == "us", "{line}");
        }
    }
    let goal = "quic, short exchanges beside long messages / alone, p99, cores 0,0";
    assert!(lines.iter().any(|line| line["target"] == goal), "{lines:?}");
}

/// Over a device the streams over TCP are measured where packets are lost. It takes rights that the tests may not have.
#[test]
fn a_network_device_loses_packets_of_tcp_too() {
    let arguments =
        "--quick --device --loss 1 --delay-us 200 --sizes 16 --cores 0,0 --over tcp,quic,shm --peers quinn";
    let (output, lines) = bench(arguments, &package());
    let (said, noted) = (stdout(&output), stderr(&output));
    if !has_quic() {
        assert!(noted.contains("error: ") && !output.status.success(), "{said}\n{noted}");
        return;
    }
    if !output.status.success() {
        assert!(noted.contains("a network device needs root"), "{said}\n{noted}");
        return;
    }
    for peer in ["raw tcp", "tcp", "quic", "quinn"] {
        let line = find(&lines, "16 sent, 16 received, cores 0,0, loss 1 %, delay 200 us", peer);
        // Each direction takes its time.
        assert!(line["min"].as_f64().unwrap() >= 400.0 && line["n"] == 100, "{line}");
    }
    assert!(!lines.iter().any(|line| line["peer"] == "shm" || line["peer"] == "raw udp"), "{lines:?}");
    let goal = "quic / quinn, 99th percentile, 16 sent, 16 received, cores 0,0";
    assert!(lines.iter().any(|line| line["target"] == goal), "{lines:?}");
}
