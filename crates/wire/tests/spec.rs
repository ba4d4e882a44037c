//! The tables and the transcript of `docs/spec/wire.md` are those of the code.
//!
//! `BIFROST_UPDATE=1 cargo test -p bifrost-wire --test spec` writes them.

use std::path::PathBuf;
use std::sync::Arc;

use bifrost_wire::encode::{self, Counters, Flushed};
use bifrost_wire::interface::{Interface, Numbering};
use bifrost_wire::text::{Due, Translator};
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

/// What the client says, and what the server makes of each flush.
const LINES: &[(&str, &[Answer])] = &[
    ("hello 1 name \"me\"", &[]),
    ("$db := lookup database: DataBase", &[]),
    ("$e := $db.fetch(\"alice\")", &[]),
    ("$e.touch()", &[]),
    ("? $e.visits(), $e", &[Answer::Handle(1, 9), Answer::Handle(2, 7), Answer::Int(3)]),
    ("$n := cell int", &[]),
    ("$n.put(0)", &[]),
    ("foreach $x in $db.users() do", &[]),
    ("  if $x.visits().gt(2) then", &[]),
    ("    $n.put($n.get().add(1))", &[]),
    ("  end", &[]),
    ("end", &[]),
    ("? $n.get()", &[Answer::Handle(3, 15), Answer::Int(2)]),
    ("$lost := $db.fetch(\"nobody\").visits()", &[]),
    ("? $lost", &[Answer::Lost]),
    ("$db.fetsh(\"alice\")", &[]),
    ("describe new_point", &[]),
    ("bye", &[]),
];

enum Answer {
    Handle(u32, u32),
    Int(i64),
    Lost,
}

fn transcript() -> String {
    let json = std::fs::read(root().join("vectors/interface.json")).unwrap();
    let mut translator = Translator::new(Arc::new(Numbering::new(Interface::from_json(&json).unwrap())));
    let mut out = String::from("```text\n");
    for (line, answers) in LINES {
        out += &format!("> {line}\n");
        let (mut bytes, mut answer) = (Vec::new(), String::new());
        match translator.line(line, &mut bytes, &mut answer) {
            Err(error) => answer += &format!("error: {error}\n"),
            Ok(Due::Nothing) => {}
            Ok(Due::Reply) => {
                let mut reply = Vec::new();
                match *line {
                    "bye" => encode::farewell(&mut reply),
                    l if l.starts_with("hello") => {
                        encode::welcome(&mut reply, &[0; 32], &[], 1, "bifrost 0.1.0")
                    }
                    _ => flushed(answers, &mut reply),
                }
                let Ok(DecodedReply::Reply(reply, _)) = decode_reply(&reply, REPLY_BYTES_MAX) else {
                    panic!()
                };
                translator.reply(&reply, &mut answer);
            }
        }
        out += &answer;
    }
    out + "```\n"
}

fn flushed(answers: &[Answer], out: &mut Vec<u8>) {
    let mut writer = Flushed::begin(out);
    let mut lost = false;
    for answer in answers {
        match answer {
            Answer::Handle(slot, ty) => {
                writer.outcome(&Outcome::Handle { handle: Ref::handle(*slot, 0), ty: TypeNumber(*ty) });
            }
            Answer::Int(i) => writer.outcome(&Outcome::Value(Value::Int(*i))),
            Answer::Lost => {
                writer.outcome(&Outcome::Exception(1));
                lost = true;
            }
        }
    }
    if lost {
        writer.signal(1, &[], "not_found", &[]);
        writer.exception(2, &[], &ExceptionKind::Unhandled { argument: 0, cause: 1 });
    }
    writer.finish(Counters { calls: if lost { 1 } else { answers.len() as u32 }, fuel: 0 }, 0);
}

#[test]
fn the_document_is_fresh() {
    let path = root().join("docs/spec/wire.md");
    let old = std::fs::read_to_string(&path).unwrap();
    let mut text = put(&old, "<!-- table: commands -->", &ops(op::From::Client));
    text = put(&text, "<!-- table: replies -->", &ops(op::From::Server));
    text = put(&text, "<!-- table: errors -->", &errors());
    text = put(&text, "<!-- table: limits -->", &limits());
    text = put(&text, "<!-- transcript -->", &transcript());
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
