//! What the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part")]

pub mod grammar;

use std::path::{Path, PathBuf};

use bifrost_theta::{FileId, Sources};

/// The folder of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `text` as the only source.
pub fn source(text: &str) -> (Sources, FileId) {
    let mut sources = Sources::new();
    let file = sources.add("test.theta", text);
    (sources, file)
}

/// Every Theta text of the repository, by its path.
pub fn texts() -> Vec<(String, String)> {
    let mut texts = vec![];
    for folder in ["crates", "examples"] {
        collect(&root().join(folder), &mut texts);
    }
    texts.sort();
    assert!(texts.len() > 30, "only {} texts found", texts.len());
    texts
}

fn collect(folder: &Path, texts: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, texts);
        } else if path.extension().is_some_and(|e| e == "theta") {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            texts.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}
