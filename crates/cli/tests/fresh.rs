//! The stubs that the measurements use are those of their program.

use std::path::Path;
use std::process::Command;

/// Fails when the stubs in `folder` are not those of the program.
fn expect_fresh(folder: &str, program: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut veneer = Command::new(env!("CARGO_BIN_EXE_bifrost"));
    veneer.args(["veneer", "--check", program]).current_dir(folder);
    let output = veneer.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn stubs_of_the_measurements_are_fresh() {
    expect_fresh("src/bench", "bench.theta");
}

#[test]
fn stubs_of_oo7_are_fresh() {
    expect_fresh("src/bench/oo7", "../../../../../bench/oo7/oo7.theta");
}
