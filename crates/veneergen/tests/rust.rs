//! Rust stubs: stable, formatted, and the ones that the veneer is tested with.

use std::path::Path;
use std::process::Command;

use bifrost_veneergen::{Lang, generate};
use bifrost_wire::Interface;

/// The folder of the stubs in the veneer's tests, which compile them: `BIFROST_UPDATE=1` writes
/// them.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../veneer/tests/stubs");

fn files() -> Vec<(String, String)> {
    let json = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/interface.json")).unwrap();
    let interface = Interface::from_json(&json).unwrap();
    generate(&interface, Lang::Rust).unwrap()
}

fn stubs() -> String {
    let [(path, text), (beside, _)] = files().try_into().unwrap();
    assert_eq!([path, beside], ["bifrost_stubs.rs", "bifrost_stubs.interface.json"]);
    text
}

#[test]
fn the_committed_stubs_are_fresh() {
    let files = files();
    assert_eq!(files, self::files(), "equal interfaces give equal texts");
    for (name, text) in files {
        let path = Path::new(GOLDEN).join(name);
        if std::env::var_os("BIFROST_UPDATE").is_some() {
            std::fs::create_dir_all(GOLDEN).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(golden == text, "the stubs are stale: BIFROST_UPDATE=1 cargo test -p bifrost-veneergen");
    }
}

#[test]
fn the_interface_is_a_file_of_short_lines() {
    let [_, (_, json)] = files().try_into().unwrap();
    let longest = json.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 400, "a line of {longest} columns");
    assert!(!stubs().lines().any(|line| line.len() > 300));
}

#[test]
fn rustfmt_leaves_them_alone() {
    let folder = std::env::temp_dir().join(format!("bifrost-stubs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("stubs.rs");
    std::fs::write(&file, stubs()).unwrap();
    // Rustfmt would take the settings of a folder above.
    std::fs::write(folder.join("rustfmt.toml"), "").unwrap();
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
