//! The client says what README.md shows.

use std::path::Path;
use std::process::Command;

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};

#[test]
fn the_client_says_what_the_readme_shows() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(folder.join("../../../README.md")).unwrap();
    let theta = folder.join("../database.theta");
    let engine = program::load(&[theta], None, Run::kept(Mode::Compiled)).unwrap_or_else(|e| panic!("{e}"));
    let sockets = tempfile::tempdir().unwrap();
    let url = format!("shm://{}/db", sockets.path().display());
    let server = Server::start(engine, &Config { listen: vec![url.clone()], ..Config::default() }).unwrap();
    let client =
        Command::new(env!("CARGO_BIN_EXE_database-client")).env("BIFROST_URL", url).output().unwrap();
    drop(server);
    assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
    let said = String::from_utf8(client.stdout).unwrap();
    assert!(readme.contains(&format!("```text\n{said}```\n")), "README.md shows something else than\n{said}");
    let source = std::fs::read_to_string(folder.join("src/main.rs")).unwrap();
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(source.contains(shown.expect("README.md shows the client")), "README.md shows another client");
}
