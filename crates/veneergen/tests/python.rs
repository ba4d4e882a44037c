//! Python stubs: stable, and the ones that the veneer is tested with. `veneers/python/test.sh`
//! checks that `ruff format` leaves them alone, and that the type checkers accept them.

use std::path::{Path, PathBuf};

use bifrost_veneergen::{Lang, generate};
use bifrost_wire::Interface;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folders of stubs in the veneer, each with the interface beside them.
const FOLDERS: &[&str] = &[
    "tests/conformance",
    "tests/database",
    "samples/auctions",
    "samples/database",
    "samples/lists",
    "samples/points",
    "samples/scores",
    "src/bifrost_veneer/importing/trader",
];

fn files(interface: &Path) -> Vec<(String, String)> {
    let json = std::fs::read(interface).unwrap_or_else(|why| panic!("{}: {why}", interface.display()));
    generate(&Interface::from_json(&json).unwrap(), Lang::Python).unwrap()
}

fn vectors() -> String {
    let [(path, text), (beside, _)] = files(&root().join("vectors/interface.json")).try_into().unwrap();
    assert_eq!([path, beside], ["bifrost_stubs.py", "bifrost_stubs.interface.json"]);
    text
}

#[test]
fn the_committed_stubs_are_fresh() {
    for folder in FOLDERS {
        let folder = root().join("veneers/python").join(folder);
        let interface = folder.join("bifrost_stubs.interface.json");
        let files = files(&interface);
        assert_eq!(files, self::files(&interface), "equal interfaces give equal texts");
        for (name, text) in files {
            let path = folder.join(name);
            if std::env::var_os("BIFROST_UPDATE").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let golden = std::fs::read_to_string(&path).unwrap_or_default();
            let update = "BIFROST_UPDATE=1 cargo test -p bifrost-veneergen";
            assert!(golden == text, "{} is stale: {update}", path.display());
        }
    }
}

#[test]
fn the_conformance_stubs_are_those_of_the_program() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert_eq!(
        read("crates/cli/tests/conformance/bifrost_stubs.interface.json"),
        read("veneers/python/tests/conformance/bifrost_stubs.interface.json"),
    );
}

#[test]
fn keywords_and_clashes_are_renamed() {
    let text = vectors();
    assert!(text.contains("class Point(bf.Object[\"Point\"]):"), "a type in lower case");
    assert!(text.contains("class ListOfInt("), "an instantiation");
    assert!(text.contains("def not_empty("), "a name in mixed case");
    assert!(text.contains("type: bf.StrArg"), "an argument that other languages have as a keyword");
    assert!(!text.contains("def from("), "a keyword");
}

#[test]
fn lines_are_broken_where_the_formatter_breaks_them() {
    let text = vectors();
    let code = text.lines().filter(|line| !line.contains("\"\"\"") && !line.contains("Theta: "));
    for line in code.filter(|line| line.starts_with("def ") || line.trim_start().starts_with("return ")) {
        assert!(line.chars().count() <= 88, "{line}");
    }
}

#[test]
fn a_comment_cannot_end_its_docstring() {
    let json = std::fs::read_to_string(root().join("vectors/interface.json")).unwrap();
    let mut interface = Interface::from_json(json.as_bytes()).unwrap();
    let base = interface.types.iter_mut().find(|ty| ty.name == "DataBase").unwrap();
    base.doc = "\"\"\" + evil() + \"\"\"\nends with a \\".to_owned();
    let [(_, text), _] = generate(&interface, Lang::Python).unwrap().try_into().unwrap();
    assert!(text.contains("\\\"\\\"\\\" + evil() + \\\"\\\"\\\""), "quotes are escaped");
    assert!(text.contains("ends with a \\\\\n"), "a backslash is escaped");
}
