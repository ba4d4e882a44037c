//! Templates of users: the example, mistakes, and the description of the model.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bifrost_veneergen::{GenerateError, generate_from};
use bifrost_wire::Interface;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn database() -> Interface {
    let json = std::fs::read(root().join("examples/database/rust/src/bifrost_stubs.interface.json")).unwrap();
    Interface::from_json(&json).unwrap()
}

fn template(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

fn fails(text: &str) -> String {
    generate_from(&database(), &[template("a.txt.jinja", text)]).unwrap_err().to_string()
}

/// `BIFROST_UPDATE=1` writes the file again.
#[test]
fn the_example_makes_markdown() {
    let folder = root().join("examples/templates/markdown");
    let text = std::fs::read_to_string(folder.join("interface.md.jinja")).unwrap();
    let files = generate_from(&database(), &[template("interface.md.jinja", &text)]).unwrap();
    let [(name, made)] = files.as_slice() else { panic!("{files:?}") };
    assert_eq!(name, "interface.md");
    let kept = folder.join("database.md");
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(&kept, made).unwrap();
    }
    assert_eq!(*made, std::fs::read_to_string(&kept).unwrap(), "`{}` is stale", kept.display());
}

#[test]
fn parts_make_no_files_and_others_keep_their_folders() {
    let templates = [
        template("_names.jinja", "{% macro name(n) %}{{ n | pascal }}{% endmacro %}"),
        template("src/_part.jinja", "{{ digest | length }}"),
        template(
            "src/all.txt.jinja",
            "{% import '_names.jinja' as n %}{{ n.name('new_user') }} {% include 'src/_part.jinja' %}",
        ),
        template("notes.txt", "no template"),
    ];
    let files = generate_from(&database(), &templates).unwrap();
    assert_eq!(files, [("src/all.txt".to_owned(), "NewUser 64".to_owned())]);
}

#[test]
fn mistakes_say_where_they_are() {
    let unknown = fails("one\n{{ m.typs | length }}\n");
    assert!(unknown.contains("a.txt.jinja:2"), "{unknown}");
    let inner = generate_from(
        &database(),
        &[
            template("_b.jinja", "x\n\n{{ m.digest.no.such }}"),
            template("a.jinja", "{% include '_b.jinja' %}"),
        ],
    );
    let inner = inner.unwrap_err().to_string();
    assert!(inner.contains("_b.jinja:3"), "{inner}");
    let open = fails("{% for type in m.types %}\n");
    assert!(open.contains("a.txt.jinja"), "{open}");
    let endless = generate_from(&database(), &[template("a.jinja", "{% include 'a.jinja' %}")]);
    assert!(endless.unwrap_err().to_string().contains("recursion"), "a template in itself ends");
    let none = generate_from(&database(), &[template("_a.jinja", "")]);
    assert!(matches!(none, Err(GenerateError::NoTemplate)));
}

/// Collects the keys of all objects.
fn keys(json: &serde_json::Value, all: &mut BTreeSet<String>) {
    match json {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| {
            all.insert(key.clone());
            keys(value, all);
        }),
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, all)),
        _ => {}
    }
}

#[test]
fn every_part_of_the_model_is_described() {
    let made = generate_from(&database(), &[template("m.json.jinja", "{{ m | tojson }}")]).unwrap();
    let mut all = BTreeSet::new();
    keys(&serde_json::from_str(&made[0].1).unwrap(), &mut all);
    assert!(all.len() > 30, "{all:?}");
    let text = std::fs::read_to_string(root().join("docs/book/templates.md")).unwrap();
    let missing: Vec<&String> = all.iter().filter(|key| !text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/book/templates.md does not describe {missing:?}");
}
