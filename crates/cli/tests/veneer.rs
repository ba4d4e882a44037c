//! Client programs with generated stubs, each in a process of its own, and a server in another.

mod support;

#[allow(dead_code, reason = "its `main` is for the program of its own")]
#[path = "../../../examples/database/rust/src/bin/tour.rs"]
mod tour;

use support::{Server, again, bifrost, example, examples, stderr};

/// The client process of the test below.
#[test]
fn tour_process() {
    if support::child_url().is_some() {
        tour::tour(&mut std::io::stderr()).unwrap();
    }
}

#[test]
fn the_tour_is_the_same_over_every_transport() {
    let expected = std::fs::read_to_string(examples().join("database/rust/tour.txt")).unwrap();
    let listen = ["--listen", "shm://FOLDER/shm", "--listen", "tcp://127.0.0.1:0", "--token", "s3cret"];
    for transport in 0..3 {
        // Each tour needs a database of its own.
        let server = Server::start("database", &listen);
        let mut client = again("tour_process");
        client.env("BIFROST_URL", &server.urls[transport]);
        if transport == 2 {
            client.env("BIFROST_TOKEN", "s3cret");
        }
        let output = client.output().unwrap();
        assert_eq!(stderr(&output), expected, "{}", server.urls[transport]);
        assert!(output.status.success());
    }
}

#[test]
fn committed_stubs_are_fresh() {
    let folder = examples().join("database/rust/src");
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (conformance, tutorial) = (tests.join("conformance"), tests.join("tutorial"));
    for (sources, folder) in [
        (example("database"), folder),
        (example("packages"), examples().join("packages/rust/src")),
        (conformance.join("conformance.theta"), conformance),
        (tutorial.join("board.theta"), tutorial),
    ] {
        let output = bifrost().args(["veneer", "--check", "-o"]).arg(&folder).arg(sources).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
}
