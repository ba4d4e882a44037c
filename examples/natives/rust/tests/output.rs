//! The program does what README.md of the example says. `UPDATE_EXPECT=1` writes what it prints.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program, in the folder of the example, without the settings of whoever runs the tests.
fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_index-server"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BIFROST_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder()).stdin(Stdio::null());
    command
}

fn check(output: &Output, file: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let file = folder().join(file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &*said).unwrap();
    }
    assert_eq!(said, std::fs::read_to_string(file).unwrap());
}

#[test]
fn main_prints_what_it_should() {
    for arguments in [&["run"][..], &["run", "--interpret"]] {
        for collect in ["ordinary", "zeal"] {
            let output =
                program().args(arguments).arg("natives.theta").env("BIFROST_GC", collect).output().unwrap();
            check(&output, "expected.txt");
        }
    }
}

/// Ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_use_the_native() {
    for collect in ["ordinary", "zeal"] {
        let sockets = tempfile::tempdir().unwrap();
        let url = format!("unix://{}/socket", sockets.path().display());
        let mut command = program();
        command.args(["serve", "--listen", &url, "natives.theta"]).env("BIFROST_GC", collect);
        let mut server = Served(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{line}");
        let mut shell = program();
        shell
            .args(["shell", "--echo", &url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let script = std::fs::read(folder().join("client.bifrost")).unwrap();
        shell.stdin.take().unwrap().write_all(&script).unwrap();
        check(&shell.wait_with_output().unwrap(), "transcript.txt");
    }
}

#[test]
fn the_sources_are_checked_with_the_natives() {
    let output = program().args(["check", "natives.theta"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
