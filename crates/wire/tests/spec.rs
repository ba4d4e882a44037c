//! The tables of `docs/spec/wire.md` are those of the code.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-wire --test spec` writes them.

use std::path::PathBuf;

use bifrost_wire::*;

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Puts `table` between its marks.
fn put(text: &str, mark: &str, table: &str) -> String {
    let start = text.find(mark).unwrap_or_else(|| panic!("no {mark}")) + mark.len();
    let end = start + text[start..].find("<!-- end -->").unwrap();
    format!("{}\n{table}{}", &text[..start], &text[end..])
}

fn ops(from: op::From) -> String {
    let mut out = String::from("| code | name | |\n| --- | --- | --- |\n");
    for row in op::TABLE.iter().filter(|r| r.from == from) {
        out += &format!("| `{:02x}` | `{}` | {} |\n", row.code, row.name, row.doc);
    }
    out
}

fn errors() -> String {
    let mut out = String::from("| number | name | ends | text |\n| --- | --- | --- | --- |\n");
    for row in error::TABLE {
        out += &format!("| {} | `{}` | {} | {} |\n", row.number as u32, row.name, row.scope.name(), row.text);
    }
    out
}

fn limits() -> String {
    let mut out = String::from("| number | name | default | bounds |\n| --- | --- | --- | --- |\n");
    for limit in Limit::ALL {
        let (number, name) = (*limit as u32, limit.name());
        out += &format!("| {number} | `{name}` | {} | {} |\n", limit.default_value(), limit.text());
    }
    out
}

#[test]
fn the_document_is_fresh() {
    let path = root().join("docs/spec/wire.md");
    let old = std::fs::read_to_string(&path).unwrap();
    let mut text = put(&old, "<!-- table: commands -->", &ops(op::From::Client));
    text = put(&text, "<!-- table: replies -->", &ops(op::From::Server));
    text = put(&text, "<!-- table: errors -->", &errors());
    text = put(&text, "<!-- table: limits -->", &limits());
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    assert!(
        old == text,
        "docs/spec/wire.md is stale: BIFROST_UPDATE=1 cargo test -p bifrost-wire --test spec"
    );
}

#[test]
fn numbers_are_used_once() {
    let mut codes: Vec<u8> = op::TABLE.iter().map(|r| r.code).collect();
    codes.sort_unstable();
    assert!(codes.windows(2).all(|w| w[0] < w[1]));
    for row in error::TABLE {
        assert_eq!(ErrorNumber::from_number(row.number as u32), Some(row.number));
    }
}
