//! The parser reads every example of the definition, and stays calm at everything else.

use bifrost_theta::{Colour, Sources, parse, render_all};

fn programs() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let mut programs: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap()))
        .collect();
    programs.sort();
    programs
}

#[test]
fn all_examples_parse() {
    for (name, text) in programs() {
        let mut sources = Sources::new();
        let file = sources.add(name.clone(), text);
        let (_, diagnostics) = parse(&sources, file);
        assert!(diagnostics.is_empty(), "{}", render_all(&sources, &diagnostics, Colour::Plain));
    }
}
