//! The files of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's folder.
pub fn root() -> PathBuf {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = std::env::var_os("BIFROST_CHECKS_ROOT").map_or_else(here, PathBuf::from);
    root.canonicalize().expect("the repository's folder")
}

/// A file as text.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The files of the repository with one of these endings (all if there are none), by their paths
/// from its folder: those that git tracks, or in an unpacked archive all.
pub fn files(endings: &[&str]) -> Vec<String> {
    let git = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let mut paths = match git {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8(output.stdout).expect("paths in UTF-8");
            text.split_terminator('\0').map(str::to_owned).collect()
        }
        _ => {
            let mut paths = Vec::new();
            walk(&root(), "", &mut paths);
            paths
        }
    };
    paths.retain(|p| endings.is_empty() || endings.iter().any(|e| p.ends_with(e)));
    // Deleted, and not committed yet.
    paths.retain(|p| root().join(p).is_file());
    paths.sort();
    assert!(!paths.is_empty(), "there are no files with {endings:?}");
    paths
}

fn walk(folder: &Path, prefix: &str, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("a readable folder");
        let name = entry.file_name().into_string().expect("a path in UTF-8");
        let path = format!("{prefix}{name}");
        if entry.path().is_dir() {
            if name != "target" && name != ".git" {
                walk(&entry.path(), &format!("{path}/"), paths);
            }
        } else {
            paths.push(path);
        }
    }
}

/// The text between `<!-- NAME -->` and `<!-- end -->` of a document.
pub fn section<'t>(text: &'t str, name: &str) -> &'t str {
    let mark = format!("<!-- {name} -->");
    let start = text.find(&mark).unwrap_or_else(|| panic!("there is no {mark}")) + mark.len();
    let end = text[start..].find("<!-- end -->").expect("a section has an end");
    &text[start..start + end]
}

/// Fails with all mistakes at once.
pub fn none(mistakes: &[String]) {
    assert!(mistakes.is_empty(), "\n{}\n", mistakes.join("\n"));
}
