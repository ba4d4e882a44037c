//! The program, in a process of its own.

mod site;

use std::process::Command;

use site::Site;

#[test]
fn all_points_are_counted() {
    let site = Site::start();
    for (url, expected) in [
        (site.url("unix"), "ada 18, ann 15, bob 15, eve 15\n"),
        (site.url("tcp"), "ada 33, ann 30, bob 30, eve 30\n"),
        (site.url("tls"), "ada 48, ann 45, bob 45, eve 45\n"),
    ] {
        let mut tasks = Command::new(env!("CARGO_BIN_EXE_scores-tasks"));
        let output = tasks.arg("5").env("BIFROST_URL", url).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
