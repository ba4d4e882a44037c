//! Values, replies and errors of scripts as JSON.

use std::sync::Arc;

use bifrost_recorder::{CallName, Closed, Error, ErrorValue, FailurePlace};
use bifrost_wire::encode::{self, Counters, Flushed};
use bifrost_wire::profile::{Cost, Entry, Rest, Subject, Totals};
use bifrost_wire::{
    Arg, ErrorNumber, ExceptionKind, Outcome, OwnedCompound, OwnedProfile, OwnedValue, Place, PlaceList, Ref,
    TypeNumber,
};
use serde_json::{Map, Value as Json, json};

use super::Step;
use super::print::OPERATIONS;

pub fn field<'j>(object: &'j Json, name: &str) -> &'j Json {
    object.get(name).unwrap_or_else(|| panic!("{object} has no `{name}`"))
}

pub fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_else(|| panic!("{json} is no text"))
}

pub fn whole(json: &Json) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("{json} is no number"))
}

/// One name, several, or none.
pub fn names(json: Option<&Json>) -> Vec<String> {
    match json {
        None => Vec::new(),
        Some(Json::Array(all)) => all.iter().map(|name| text(name).to_owned()).collect(),
        Some(one) => vec![text(one).to_owned()],
    }
}

/// The operation of a step, and the value of its key.
pub fn operation(step: &Json) -> (&str, &Json) {
    let object = step.as_object().unwrap_or_else(|| panic!("{step} is no step"));
    let mut found = object.iter().filter(|(key, _)| OPERATIONS.contains(&key.as_str()));
    match (found.next(), found.next()) {
        (Some((key, value)), None) => (key, value),
        _ => panic!("{step} has no operation, or several"),
    }
}

/// Bytes in hexadecimal digits, with a space after each word.
pub fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> =
        bytes.chunks(8).map(|w| w.iter().map(|b| format!("{b:02x}")).collect()).collect();
    words.join(" ")
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    digits.chunks(2).map(|two| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap()).collect()
}

/// Returns a value that `bifrost_wire::json` wrote.
pub fn value(json: &Json) -> OwnedValue {
    let (kind, value) = json.as_object().and_then(|o| o.iter().next()).expect("a value");
    match kind.as_str() {
        "nil" => OwnedValue::Nil,
        "bool" => OwnedValue::Bool(value.as_bool().expect("a truth value")),
        "int" => OwnedValue::Int(text(value).parse().expect("an integer")),
        "real" => OwnedValue::Real(text(value).parse().expect("a real")),
        "char" => OwnedValue::Char(text(value).chars().next().expect("a character")),
        "string" => match value.get("times") {
            // A long text, in few words.
            Some(times) => OwnedValue::Str(text(field(value, "text")).repeat(whole(times) as usize).into()),
            None => OwnedValue::Str(text(value).into()),
        },
        "bytes" => OwnedValue::Bytes(unhex(text(value)).into()),
        "compound" => {
            let owned: Vec<Result<i64, OwnedValue>> = list(value, "items")
                .map(|item| match item.get("ref") {
                    Some(handle) => Ok(handle.as_i64().expect("a handle")),
                    None => Err(self::value(item)),
                })
                .collect();
            let items: Vec<Arg<'_>> = owned
                .iter()
                .map(|item| match item {
                    Ok(handle) => Arg::Ref(Ref(*handle)),
                    Err(value) => Arg::Value(value.view()),
                })
                .collect();
            let ty = value["type"].as_u64().map_or(TypeNumber::NONE, |ty| TypeNumber(ty as u32));
            OwnedValue::Compound(OwnedCompound::new(ty, &items))
        }
        other => panic!("there are no values of kind `{other}`"),
    }
}

/// An outcome whose text is its own.
enum OwnedOutcome {
    Handle(i64, u32),
    Value(OwnedValue),
    /// The columns, each a tag and a type, and the cells.
    Rows(Vec<(u8, TypeNumber)>, Vec<OwnedOutcome>),
    Exception(u32),
    Absent,
}

impl OwnedOutcome {
    fn new(json: &Json) -> OwnedOutcome {
        if json == "absent" {
            OwnedOutcome::Absent
        } else if let Some(handle) = json.get("handle") {
            OwnedOutcome::Handle(handle.as_i64().unwrap(), json.get("type").map_or(7, whole) as u32)
        } else if let Some(rows) = json.get("rows") {
            let column = |column: &Json| (whole(&column[0]) as u8, TypeNumber(whole(&column[1]) as u32));
            let columns = list(rows, "columns").map(column).collect();
            OwnedOutcome::Rows(columns, list(rows, "cells").map(OwnedOutcome::new).collect())
        } else if let Some(number) = json.get("exception") {
            OwnedOutcome::Exception(whole(number) as u32)
        } else {
            OwnedOutcome::Value(value(json))
        }
    }

    fn view(&self) -> Outcome<'_> {
        match self {
            OwnedOutcome::Handle(handle, ty) => Outcome::Handle { handle: Ref(*handle), ty: TypeNumber(*ty) },
            OwnedOutcome::Value(value) => Outcome::Value(value.view()),
            OwnedOutcome::Rows(..) => unreachable!("a table is written cell by cell"),
            OwnedOutcome::Exception(number) => Outcome::Exception(*number),
            OwnedOutcome::Absent => Outcome::Absent,
        }
    }

    fn write(&self, out: &mut Flushed<'_>) {
        let OwnedOutcome::Rows(columns, cells) = self else { return out.outcome(&self.view()) };
        out.rows(columns.iter().copied(), |bytes| {
            for cell in cells {
                match cell.view() {
                    Outcome::Handle { handle, .. } => encode::word(bytes, handle.0 as u64),
                    Outcome::Value(value) => encode::value(bytes, &value),
                    other => panic!("{other:?} is no cell"),
                }
            }
            Some((cells.len() / columns.len()) as u32)
        });
    }
}

fn list<'j>(object: &'j Json, name: &str) -> impl Iterator<Item = &'j Json> {
    object.get(name).and_then(Json::as_array).into_iter().flatten()
}

/// Appends a reply.
pub fn encode_reply(json: &Json, out: &mut Vec<u8>) {
    if let Some(bytes) = json.get("bytes") {
        out.extend_from_slice(&unhex(text(bytes)));
    } else if json == "farewell" {
        encode::farewell(out);
    } else if json == "welcome" {
        encode::welcome(out, &[0; 32], &[], 1, "");
    } else if json == "interface" {
        encode::interface(out, b"{}");
    } else if let Some(error) = json.get("error") {
        let number = ErrorNumber::from_number(whole(field(error, "number")) as u32).unwrap();
        encode::error(out, number, whole(field(error, "position")), text(field(error, "text")));
    } else {
        flushed(field(json, "flushed"), out);
    }
}

fn flushed(json: &Json, out: &mut Vec<u8>) {
    let mut writer = Flushed::begin(out);
    for outcome in list(json, "outcomes") {
        OwnedOutcome::new(outcome).write(&mut writer);
    }
    for exception in list(json, "exceptions") {
        let call = whole(field(exception, "call")) as u32;
        let rounds: Vec<u32> = list(exception, "iterations").map(|n| whole(n) as u32).collect();
        if let Some(signal) = exception.get("signal") {
            let values: Vec<OwnedOutcome> = list(signal, "values").map(OwnedOutcome::new).collect();
            let values: Vec<Outcome<'_>> = values.iter().map(OwnedOutcome::view).collect();
            let places: Vec<Place<'_>> = match signal.get("places") {
                None => Vec::new(),
                Some(_) => list(signal, "places").map(place).collect(),
            };
            let more = signal.get("more_places").map_or(0, whole);
            let places = PlaceList { places: &places, more };
            writer.failure(call, &rounds, text(field(signal, "name")), &values, places);
        } else if let Some(unhandled) = exception.get("unhandled") {
            let argument = whole(field(unhandled, "argument")) as u32;
            let cause = whole(field(unhandled, "cause")) as u32;
            let back = unhandled.get("back").map_or(0, whole) as u8;
            writer.exception(call, &rounds, &ExceptionKind::Unhandled { argument, back, cause });
        } else {
            let refused = field(exception, "refused");
            let (number, text) = (whole(field(refused, "number")) as u32, text(field(refused, "text")));
            writer.exception(call, &rounds, &ExceptionKind::Refused { number, text });
        }
    }
    if let Some(of_batch) = json.get("profile") {
        let profile = profile(of_batch);
        writer.profile(&profile.totals, profile.entries.iter().copied(), profile.rest.as_ref());
    }
    writer.finish(Counters::default(), json.get("omitted").map_or(0, whole) as u32);
}

fn profile(json: &Json) -> OwnedProfile {
    let count = |json: &Json, name: &str| whole(field(json, name)) as u32;
    let cost = |json: &Json| Cost {
        nanoseconds: whole(field(json, "nanoseconds")),
        calls: count(json, "calls"),
        fuel: count(json, "fuel"),
        fetches: count(json, "fetches"),
        objects: count(json, "objects"),
    };
    let entry = |json: &Json| Entry {
        subject: if json.get("structure").is_some() { Subject::Structure } else { Subject::Command },
        call: count(json, "call"),
        cost: cost(json),
    };
    let totals = Totals {
        nanoseconds: whole(field(json, "nanoseconds")),
        fetches: count(json, "fetches"),
        objects: count(json, "objects"),
        runs: count(json, "runs"),
    };
    let rest = json.get("rest").map(|rest| Rest { omitted: count(rest, "omitted"), cost: cost(rest) });
    OwnedProfile { totals, entries: list(json, "entries").map(entry).collect(), rest }
}

// Errors.

fn call(name: &CallName<Step>) -> Json {
    let place = name.location.map(|place| place.0);
    json!({"name": &*name.name, "number": name.number, "place": place, "rounds": &*name.rounds})
}

fn error_value(value: &ErrorValue) -> Json {
    match value {
        ErrorValue::Nil => json!({"nil": null}),
        ErrorValue::Bool(b) => json!({"bool": b}),
        ErrorValue::Int(i) => json!({"int": i.to_string()}),
        ErrorValue::Real(r) => json!({"real": format!("{r:?}")}),
        ErrorValue::Char(c) => json!({"char": c.to_string()}),
        ErrorValue::Str(s) => json!({"string": &**s}),
        ErrorValue::Bytes(b) => json!({"bytes": hex(b)}),
        ErrorValue::Object(_) => json!("object"),
    }
}

/// An error: its own parts; if it follows from others, the first of them (`root`) and those in
/// between (`via`).
pub fn error(error: &Arc<Error<Step>>) -> Json {
    let mut out = alone(error);
    let chain: Vec<&Arc<Error<Step>>> = error.chain().skip(1).collect();
    if let Some((root, via)) = chain.split_last()
        && !matches!(**error, Error::Unseen { .. })
    {
        out.insert("via".to_owned(), via.iter().map(|e| Json::Object(alone(e))).collect());
        out.insert("root".to_owned(), Json::Object(alone(root)));
    }
    Json::Object(out)
}

fn place(json: &Json) -> Place<'_> {
    Place {
        routine: text(field(json, "routine")),
        file: text(field(json, "file")),
        line: whole(field(json, "line")) as u32,
    }
}

fn alone(e: &Error<Step>) -> Map<String, Json> {
    let json = match e {
        Error::Signal { name, values, places, call: of } => {
            let values: Vec<Json> = values.iter().map(error_value).collect();
            let mut json = json!({"kind": "signal", "name": &**name, "values": values, "call": call(of)});
            if let Some(places) = places {
                let place =
                    |p: &FailurePlace| json!({"routine": &*p.routine, "file": &*p.file, "line": p.line});
                json["places"] = places.list.iter().map(place).collect();
                json["more_places"] = json!(places.more);
            }
            json
        }
        Error::Unhandled { argument, call: of, .. } => {
            json!({"kind": "unhandled", "argument": argument, "call": call(of)})
        }
        Error::Refused { number, text, call: of } => {
            json!({"kind": "refused", "number": number, "text": &**text, "call": call(of)})
        }
        Error::NotReached { call: of, .. } => json!({"kind": "not_reached", "call": call(of)}),
        Error::NotSent { call: of, .. } => json!({"kind": "not_sent", "call": call(of)}),
        Error::Unseen { failures, omitted, call: of } => {
            let failures: Vec<Json> = failures.iter().map(error).collect();
            let of = of.as_ref().map(call);
            json!({"kind": "unseen", "failures": failures, "omitted": omitted, "call": of})
        }
        Error::Misuse(misuse) => json!({"kind": "misuse", "misuse": format!("{misuse:?}")}),
        Error::Missing { name } => json!({"kind": "missing", "name": &**name}),
        Error::Closed(why) => match &**why {
            Closed::ByClient => json!({"kind": "closed", "by": "client"}),
            Closed::Connection(_) => json!({"kind": "closed", "by": "connection"}),
            Closed::ByServer { number, position, text } => json!({
                "kind": "closed", "by": "server", "number": number, "position": position, "text": text,
            }),
            Closed::BadReply(why) => json!({"kind": "closed", "by": "bad_reply", "error": why.number.name()}),
            Closed::WrongReply(_) => json!({"kind": "closed", "by": "wrong_reply"}),
        },
    };
    match json {
        Json::Object(object) => object,
        _ => Map::new(),
    }
}
