//! `docs/spec/recording.md` names every case of the behaviour vectors, and only cases that exist.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-recorder --test spec` writes the table of misuses.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bifrost_recorder::Misuse;
use serde_json::Value as Json;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/spec/recording.md")).unwrap()
}

/// The names of all cases in `vectors/recorder`.
fn cases() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("vectors/recorder")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let cases: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
            names.extend(cases.iter().map(|case| case["case"].as_str().unwrap().to_owned()));
        }
    }
    names
}

/// The names behind `Case:` and `Cases:`, each with the heading of its rule.
fn named(document: &str) -> Vec<(String, String)> {
    let mut named = Vec::new();
    for paragraph in document.split("\n\n") {
        let rule = paragraph.lines().next().unwrap_or_default();
        let Some(at) = paragraph.rfind("Cases:").or_else(|| paragraph.rfind("Case:")) else { continue };
        let names = paragraph[at..].split('`').skip(1).step_by(2);
        named.extend(names.map(|name| (name.to_owned(), rule.to_owned())));
    }
    named
}

#[test]
fn each_case_is_named_and_each_named_case_exists() {
    let (cases, document) = (cases(), document());
    let named = named(&document);
    let unknown: Vec<_> = named.iter().filter(|(name, _)| !cases.contains(name)).collect();
    assert!(unknown.is_empty(), "no case has this name: {unknown:#?}");
    let names: BTreeSet<_> = named.into_iter().map(|(name, _)| name).collect();
    let missing: Vec<_> = cases.difference(&names).collect();
    assert!(missing.is_empty(), "docs/spec/recording.md names no rule for {missing:#?}");
}

/// A rule is a paragraph that begins with its name; each has a case.
#[test]
fn each_rule_has_a_case() {
    // This rule is of typed layers, and cases are below them.
    let typed = ["**Encoding.**"];
    let document = document();
    let rules = document.split("\n\n").filter(|paragraph| paragraph.trim_start().starts_with("**"));
    let without: Vec<_> = rules
        .filter(|rule| !rule.contains("Case:") && !rule.contains("Cases:"))
        .filter(|rule| !typed.iter().any(|name| rule.trim_start().starts_with(name)))
        // Its cases stand behind its list.
        .filter(|rule| !rule.trim_start().starts_with("**Order of checks.**"))
        .collect();
    assert!(without.is_empty(), "no case shows {without:#?}");
}

#[test]
fn the_table_of_misuses_is_fresh() {
    let mut table = String::from("| number | name | arises | text |\n| --- | --- | --- | --- |\n");
    for misuse in Misuse::ALL {
        let arises = misuse.doc().split_whitespace().collect::<Vec<_>>().join(" ");
        table += &format!("| {} | `{}` | {arises} | {} |\n", *misuse as u32, misuse.name(), misuse.text());
    }
    let old = document();
    let mark = "<!-- table: misuses -->\n";
    let start = old.find(mark).expect("a mark") + mark.len();
    let end = start + old[start..].find("<!-- end -->").expect("an end");
    let new = format!("{}{table}{}", &old[..start], &old[end..]);
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(root().join("docs/spec/recording.md"), &new).unwrap();
        return;
    }
    assert!(old == new, "stale: BIFROST_UPDATE=1 cargo test -p bifrost-recorder --test spec");
}
