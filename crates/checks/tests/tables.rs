//! The tables of the specifications are those of the code.
//!
//! `BIFROST_UPDATE=1 cargo test --workspace --test tables` writes them.

use bifrost_actors::PACKETS;
use bifrost_capsule::capsules::FRAMES;
use bifrost_checks::repository::{read, root};
use bifrost_rex::CallState;
use bifrost_wire::{Limit, error, op};

/// Compares the tables of a document, each behind its mark, with those of the code.
#[track_caller]
fn check(path: &str, tables: &[(&str, String)]) {
    let old = read(path);
    let mut text = old.clone();
    for (mark, table) in tables {
        let mark = format!("<!-- table: {mark} -->\n");
        let start = text.find(&mark).unwrap_or_else(|| panic!("{path} has no {mark}")) + mark.len();
        let end = start + text[start..].find("<!-- end -->").expect("a table has an end");
        text.replace_range(start..end, table);
    }
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        return std::fs::write(root().join(path), text).expect("a writable document");
    }
    assert!(old == text, "{path} is stale: BIFROST_UPDATE=1 cargo test --workspace --test tables");
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

fn states() -> String {
    let mut out = String::from("| number | name | the call |\n| --- | --- | --- |\n");
    for (_, number, name, meaning) in CallState::ALL {
        out += &format!("| {number} | {name} | {meaning} |\n");
    }
    out
}

fn packets() -> String {
    let mut out = String::from("| kind | name | parts |\n| --- | --- | --- |\n");
    for row in PACKETS {
        out += &format!("| {} | {} | {} |\n", row.kind, row.name, row.parts);
    }
    out
}

fn frames() -> String {
    let mut out = String::from("| kind | name | body | sender |\n| --- | --- | --- | --- |\n");
    for row in FRAMES {
        out += &format!("| {} | {} | {} | {} |\n", row.kind, row.name, row.body, row.sender);
    }
    out
}

fn trader_limits() -> String {
    let mut out = String::from("| name | default | bounds |\n| --- | --- | --- |\n");
    for (name, default, text) in bifrost_trader::Limits::TABLE {
        out += &format!("| `{name}` | {default} | {text} |\n");
    }
    out
}

#[test]
fn the_limits_of_the_trader_are_fresh() {
    check("docs/internals/trader.md", &[("limits", trader_limits())]);
}

#[test]
fn the_wire_form_is_fresh() {
    let [client, server] = [op::From::Client, op::From::Server].map(ops);
    let tables = [("commands", client), ("replies", server), ("errors", errors()), ("limits", limits())];
    check("docs/spec/wire.md", &tables);
}

#[test]
fn packets_and_frames_are_fresh() {
    check("docs/spec/packets.md", &[("packets", packets())]);
    check("docs/spec/capsules.md", &[("frames", frames())]);
    check("docs/spec/rex.md", &[("states", states())]);
}

#[test]
fn kinds_are_used_once() {
    assert!(PACKETS.windows(2).all(|pair| pair[0].kind + 1 == pair[1].kind));
    assert!(FRAMES.windows(2).all(|pair| pair[0].kind < pair[1].kind));
}
