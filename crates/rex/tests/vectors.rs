//! The messages of REX that every implementation reads and writes alike: `vectors/rex.json`.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-rex --test vectors` writes them.

use bifrost_rex::{CallState, Message};
use serde_json::{Value as Json, json};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/rex.json");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn message(message: Message) -> Json {
    match message {
        Message::Ask { stream, start, end } => {
            json!({"ask": {"stream": stream, "start": start, "end": end}})
        }
        Message::State { stream, start, end, state, before, ms } => json!({"state": {
            "stream": stream, "start": start, "end": end, "state": state.name(), "before": before, "ms": ms
        }}),
    }
}

/// A message, with bytes behind it that are ignored.
fn row(of: Message, behind: &[u8]) -> Json {
    let bytes = [&of.write()[..], behind].concat();
    assert_eq!(Message::read(&bytes), Some(of));
    json!({"hex": hex(&bytes), "message": message(of)})
}

/// Bytes that are no message.
fn none(bytes: &[u8]) -> Json {
    assert_eq!(Message::read(bytes), None);
    json!({"hex": hex(bytes), "message": null})
}

#[test]
fn messages() {
    let ask = |stream, start, end| Message::Ask { stream, start, end };
    let mut fresh = vec![
        row(ask(0, 0, 1), &[]),
        row(ask(4, 0x0102_0304_0506_0708, 0x1112_1314_1516_1718), &[]),
        row(ask(u64::MAX, 0, u64::MAX), &[]),
        row(ask(4092, 7, 20), b"of a later version"),
        none(&ask(4, 7, 7).write()),
        none(&ask(4, 8, 7).write()),
        none(&ask(4, 7, 20).write()[..24]),
        none(&[]),
        none(&[3; 25]),
    ];
    for (at, (state, ..)) in CallState::ALL.into_iter().enumerate() {
        let (before, ms) = ([0, 1, 0x0102_0304, u32::MAX, 0][at], [0, 0x0506_0708, 1, u32::MAX, 7][at]);
        let (stream, start, end) = (4 * at as u64, 1 << (at * 9), u64::MAX >> at);
        let told = Message::State { stream, start, end, state, before, ms };
        fresh.push(row(told, &[]));
        fresh.push(none(&told.write()[..33]));
        let mut unknown = told.write();
        unknown[25] = 6 + at as u8;
        fresh.push(none(&unknown));
    }
    let rows: Vec<String> = fresh.iter().map(|row| format!("  {row}")).collect();
    if std::env::var_os("BIFROST_UPDATE").is_some() {
        std::fs::write(PATH, format!("[\n{}\n]\n", rows.join(",\n"))).unwrap();
    }
    let old: Json =
        serde_json::from_str(&std::fs::read_to_string(PATH).unwrap_or_default()).unwrap_or_default();
    assert!(
        old == Json::from(fresh),
        "rex.json is stale: BIFROST_UPDATE=1 cargo test -p bifrost-rex --test vectors"
    );
}
