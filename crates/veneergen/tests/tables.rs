//! The tables of each language's runtime are fresh.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-veneergen` writes them.

use std::path::Path;

use bifrost_veneergen::{TablesLang, tables};

/// The file is fresh in each language that has a folder in `veneers`.
#[test]
fn the_committed_tables_are_fresh() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut stale = Vec::new();
    for language in TablesLang::ALL {
        let text = tables(*language).unwrap();
        let path = root.join(language.folder()).join(language.file());
        if !root.join("veneers").join(language.name()).exists() {
            continue;
        }
        if std::env::var_os("BIFROST_UPDATE").is_some() {
            std::fs::create_dir_all(root.join(language.folder())).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(language.name());
        }
    }
    let update = "BIFROST_UPDATE=1 cargo test -p bifrost-veneergen";
    assert!(stale.is_empty(), "the tables of {stale:?} are stale: {update}");
}

#[test]
fn every_row_is_in_every_language() {
    for language in TablesLang::ALL {
        let text = tables(*language).unwrap();
        let has = |row: &str| assert!(text.contains(row), "{} lacks {row}", language.name());
        bifrost_wire::error::TABLE.iter().for_each(|row| has(row.name));
        bifrost_wire::op::TABLE.iter().for_each(|row| match language {
            TablesLang::Go => has(&format!("op{}", pascal(row.name))),
            _ => has(&format!("OP_{}", row.name.to_uppercase())),
        });
        bifrost_wire::Limit::ALL.iter().for_each(|row| has(row.name()));
        bifrost_wire::Operator::ALL.iter().for_each(|row| has(&format!("\"{row:?}\"")));
        bifrost_recorder::Misuse::ALL.iter().for_each(|row| has(row.text()));
        assert!(
            text.lines().next().unwrap().to_lowercase().contains("do not edit"),
            "{} says that it is generated",
            language.name()
        );
    }
}

/// `EndIf` for `end_if`.
fn pascal(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').map(word).collect()
}
