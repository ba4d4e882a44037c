//! The client over a server with a store that is started anew between the commands, and a walk over the same index in Rust.

#[allow(dead_code, reason = "the client uses the rest")]
#[path = "../src/index.rs"]
mod index;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};

#[test]
fn the_client_says_what_the_index_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sample = folder.join("../sample.txt");
    let temporary = tempfile::tempdir().unwrap();
    let url = format!("shm://{}/packages", temporary.path().display());
    let store = temporary.path().join("store").display().to_string();
    let mut said = String::new();
    for command in [["import", sample.to_str().unwrap()], ["closure", "wget"], ["dependents", "libgcc-s1"]] {
        let engine = program::load(&[folder.join("../packages.theta")], None, Run::kept(Mode::Compiled));
        let config = Config { listen: vec![url.clone()], store: store.clone(), ..Config::default() };
        let server = Server::start(engine.unwrap_or_else(|e| panic!("{e}")), &config).unwrap();
        let mut client = Command::new(env!("CARGO_BIN_EXE_packages-client"));
        let output = client.args(command).env("BIFROST_URL", &url).output().unwrap();
        drop(server);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        said += std::str::from_utf8(&output.stdout).unwrap();
    }
    let file = folder.join("output.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &said).unwrap();
    }
    assert_eq!(said, std::fs::read_to_string(&file).unwrap());
    let line = format!("wget needs: {}\n", closure(&std::fs::read_to_string(sample).unwrap(), "wget"));
    assert!(said.contains(&line), "{line} is not in\n{said}");
}

/// What has to be installed with a package, found without any of Bifrost.
fn closure(text: &str, name: &str) -> String {
    let all: HashMap<String, index::Paragraph> =
        index::paragraphs(text).map(|p| (p.name.clone(), p)).collect();
    // The first that provides a name is the one of the name, or the first in the index.
    let mut provided: HashMap<String, String> = HashMap::new();
    for p in index::paragraphs(text) {
        for name in std::iter::once(&p.name).chain(&p.provides) {
            provided.entry(name.clone()).or_insert(p.name.clone());
        }
    }
    let (mut seen, mut work) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(next) = work.pop() {
        if seen.insert(next.clone()) {
            let choice = |need: &Vec<String>| need.iter().find_map(|name| provided.get(name)).cloned();
            work.extend(all[&next].needs.iter().filter_map(choice));
        }
    }
    seen.into_iter().collect::<Vec<_>>().join(" ")
}
