//! Each case compiles to the script in its file, and has the outputs there against the answers there.
//!
//! `cli/tests/cases.rs` runs the cases against servers.

use std::collections::BTreeSet;

use bifrost_cases::{folder, generated, read, replay, text};

#[test]
fn cases_have_their_outputs() {
    let cases = read(&folder());
    assert!(cases.len() >= 30, "{} cases", cases.len());
    let mut stale = Vec::new();
    for case in &cases {
        let file = std::fs::read_to_string(generated(case)).unwrap_or_default();
        if text(&replay(case)) != file {
            stale.push(&case.name);
        }
    }
    assert!(
        stale.is_empty(),
        "other outputs: {stale:?}; BIFROST_UPDATE=1 cargo test -p bifrost-cli --test cases"
    );
}

/// No file is left of a case that is gone.
#[test]
fn each_file_has_a_case() {
    let names: BTreeSet<String> =
        read(&folder()).into_iter().map(|case| format!("{}.json", case.name)).collect();
    for entry in std::fs::read_dir(folder().join("generated")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name) || name.ends_with(".interface.json"), "{name} has no case");
    }
}
