//! The stubs that the measurements use are those of their program.

use std::path::Path;
use std::process::Command;

#[test]
fn stubs_of_the_measurements_are_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bench");
    let mut veneer = Command::new(env!("CARGO_BIN_EXE_bifrost"));
    veneer.args(["veneer", "--check", "bench.theta"]).current_dir(folder);
    let output = veneer.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
