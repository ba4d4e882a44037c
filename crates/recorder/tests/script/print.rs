//! The vectors as text: one step, one crossing and one error a line, so that changes can be read.

use serde_json::Value as Json;

/// The operations of scripts: each step has one of these keys.
pub const OPERATIONS: &[&str] = &[
    "lookup",
    "call",
    "send",
    "operator",
    "routine",
    "call_procedure",
    "value",
    "cell",
    "rows",
    "emit",
    "read_rows",
    "get",
    "cast",
    "test_type",
    "drop",
    "clone",
    "open",
    "condition",
    "foreach",
    "jump",
    "end",
    "reopen",
    "abandon",
    "procedure",
    "return",
    "end_procedure",
    "find_procedure",
    "reply",
    "lose",
    "flush",
    "begin_flush",
    "finish_flush",
    "claim",
    "commit",
    "abort",
    "wait",
    "wait_ms",
    "is_same",
    "transaction_ends",
    "transaction",
    "end_transaction",
    "abandon_transaction",
    "exceptions",
    "clear_exceptions",
    "profile",
    "read_profile",
    "leave",
    "transmit",
    "ship",
    "loop",
];

/// The keys that stand first, in this order; the others follow by name.
const FIRST: &[&str] = &[
    "case",
    "why",
    "limits",
    "remap_futures",
    "server",
    "script",
    "sessions",
    "crossings",
    "results",
    "known",
    "history",
    "history_omitted",
    "counters",
    "closed",
    "sent",
    "commands",
    "answered",
    "batch",
    "kind",
    "name",
    "number",
    "place",
    "of",
    "type",
    "types",
    "params",
    "result",
    "on",
    "args",
    "as",
    "session",
];

/// The keys whose lists and objects have a line for each entry.
const OPEN: &[&str] = &["script", "crossings", "results", "known", "history"];

fn rank(key: &str) -> (usize, usize) {
    match OPERATIONS.contains(&key) {
        true => (0, 0),
        false => (1, FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len())),
    }
}

/// One line.
fn line(json: &Json, out: &mut String) {
    match json {
        Json::Array(all) => {
            out.push('[');
            for (index, one) in all.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                line(one, out);
            }
            out.push(']');
        }
        Json::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort_by_key(|key| (rank(key), *key));
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                *out += &format!("{}: ", Json::from(key.as_str()));
                line(&object[key], out);
            }
            out.push('}');
        }
        other => *out += &other.to_string(),
    }
}

/// The text of a case in one line.
pub fn flat(json: &Json) -> String {
    let mut out = String::new();
    line(json, &mut out);
    out
}

fn open(json: &Json, indent: &str, out: &mut String) {
    let mut lines = Vec::new();
    let brackets = match json {
        Json::Array(all) => {
            lines.extend(all.iter().map(|one| {
                let mut text = String::new();
                line(one, &mut text);
                text
            }));
            ['[', ']']
        }
        Json::Object(object) => {
            lines.extend(object.iter().map(|(key, value)| {
                let mut text = format!("{}: ", Json::from(key.as_str()));
                line(value, &mut text);
                text
            }));
            lines.sort();
            ['{', '}']
        }
        other => return *out += &other.to_string(),
    };
    out.push(brackets[0]);
    if !lines.is_empty() {
        *out += &format!("\n{indent}  {}\n{indent}", lines.join(&format!(",\n{indent}  ")));
    }
    out.push(brackets[1]);
}

/// The text of a file.
pub fn file(cases: &[Json]) -> String {
    let cases: Vec<String> = cases.iter().map(case).collect();
    format!("[\n{}\n]\n", cases.join(",\n"))
}

fn case(case: &Json) -> String {
    format!("  {}", whole(case, "  "))
}

/// The text of a case, or of the outputs of one of its sessions.
fn whole(case: &Json, indent: &str) -> String {
    let object = case.as_object().expect("a case");
    let mut keys: Vec<&String> = object.keys().collect();
    keys.sort_by_key(|key| (FIRST.iter().position(|first| first == key), *key));
    let inner = format!("{indent}  ");
    let mut parts = Vec::new();
    for key in keys {
        let mut text = format!("{inner}{}: ", Json::from(key.as_str()));
        match (key.as_str(), &object[key]) {
            ("sessions", Json::Object(sessions)) => {
                let further = format!("{inner}  ");
                let mut lines: Vec<String> = sessions
                    .iter()
                    .map(|(name, outputs)| {
                        format!("{further}{}: {}", Json::from(name.as_str()), whole(outputs, &further))
                    })
                    .collect();
                lines.sort();
                text += &format!("{{\n{}\n{inner}}}", lines.join(",\n"));
            }
            (key, value) if OPEN.contains(&key) => open(value, &inner, &mut text),
            (_, value) => line(value, &mut text),
        }
        parts.push(text);
    }
    format!("{{\n{}\n{indent}}}", parts.join(",\n"))
}
