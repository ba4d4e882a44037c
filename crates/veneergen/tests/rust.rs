//! Rust stubs: stable, formatted, and the ones that the veneer is tested with.

use std::path::Path;
use std::process::Command;

use bifrost_veneergen::{Lang, generate};
use bifrost_wire::Interface;

/// The stubs in the veneer's tests, which compile them: `BIFROST_UPDATE=1` writes them.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../veneer/tests/stubs/bifrost_stubs.rs");

fn stubs() -> String {
    let json = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/interface.json")).unwrap();
    let interface = Interface::from_json(&json).unwrap();
    let [(path, text)] = generate(&interface, Lang::Rust).unwrap().try_into().unwrap();
    assert_eq!(path, "bifrost_stubs.rs");
    text
}

#[test]
fn the_committed_stubs_are_fresh() {
    let text = stubs();
    assert_eq!(text, stubs(), "equal interfaces give equal texts");
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::create_dir_all(Path::new(GOLDEN).parent().unwrap()).unwrap();
        std::fs::write(GOLDEN, &text).unwrap();
    }
    let golden = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(golden == text, "the stubs are stale: BIFROST_UPDATE=1 cargo test -p bifrost-veneergen");
}

#[test]
fn rustfmt_leaves_them_alone() {
    let folder = std::env::temp_dir().join(format!("bifrost-stubs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("stubs.rs");
    std::fs::write(&file, stubs()).unwrap();
    let check = Command::new("rustfmt").args(["--check", "--edition", "2024"]).arg(&file).output();
    std::fs::remove_dir_all(&folder).unwrap();
    let Ok(check) = check else { return };
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn keywords_and_clashes_are_renamed() {
    let text = stubs();
    assert!(text.contains("pub fn match_("), "a method named by a keyword");
    assert!(text.contains("type_: impl bf::IntoArg<String>"), "an argument named by a keyword");
    assert!(text.contains("pub struct Point("), "a type in lower case");
    assert!(text.contains("pub struct ListOfInt("), "an instantiation");
    assert!(text.contains("pub fn not_empty("), "a name in mixed case");
}
