//! Stubs in C and C++: stable, and those that the veneers are tested with.

use std::path::Path;

use bifrost_veneergen::{Lang, generate};
use bifrost_wire::Interface;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn interface(path: &str) -> Interface {
    Interface::from_json(&std::fs::read(Path::new(CRATE).join("../..").join(path)).unwrap()).unwrap()
}

/// The interface of the program that the veneers are tested with.
const CONFORMANCE: &str = "crates/cli/tests/conformance/bifrost_stubs.interface.json";

fn stubs(interface: &Interface, language: Lang) -> (String, String) {
    let [file] = generate(interface, language).unwrap().try_into().unwrap();
    file
}

/// `BIFROST_UPDATE=1` writes them.
#[test]
fn the_committed_stubs_are_fresh() {
    for (language, folder) in [(Lang::C, "veneers/c/tests/stubs"), (Lang::Cpp, "veneers/cpp/tests/stubs")] {
        let interface = interface(CONFORMANCE);
        let (name, text) = stubs(&interface, language);
        assert_eq!(text, stubs(&interface, language).1, "equal interfaces give equal texts");
        let folder = Path::new(CRATE).join("../..").join(folder);
        let path = folder.join(name);
        if std::env::var_os("BIFROST_UPDATE").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "the stubs are stale: BIFROST_UPDATE=1 cargo test -p bifrost-veneergen");
    }
}

#[test]
fn keywords_and_clashes_are_renamed() {
    let (_, text) = stubs(&interface("vectors/interface.json"), Lang::C);
    assert!(text.contains("bf_str type)") || text.contains("bf_str type,"), "no keyword of C");
    assert!(text.contains("typedef struct ListOfInt {"), "an instantiation");
    assert!(text.contains("_not_empty("), "a name in mixed case");
}

/// A comment of Theta cannot end one of C, and a line of the description is a literal.
#[test]
fn comments_and_descriptions_stay_inside() {
    let mut interface = interface("vectors/interface.json");
    interface.types[7].doc = "*/ int evil; /* \\ @file ??/".to_owned();
    let (_, text) = stubs(&interface, Lang::C);
    let mut comments = text.lines().filter(|line| line.starts_with(" *"));
    assert!(comments.any(|line| line == " * * / int evil; / * \\\\ \\@file ??/"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("  \"") && line.contains("??/")), "a trigraph");
}
