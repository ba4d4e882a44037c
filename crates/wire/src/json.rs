//! Commands and replies as JSON, for test vectors and traces. Nothing reads it back.
//!
//! A reference is its number. Values keep their kind: `{"int": 3}`; integers and reals are strings,
//! because JSON's numbers do not hold 64 bits everywhere.

use serde_json::{Map, Value as Json, json};

use crate::command::{Command, TypeNumbers};
use crate::ids::TypeNumber;
use crate::places::{Place, Places};
use crate::profile::{Cost, OwnedProfile, Subject, Totals};
use crate::reply::{Exception, ExceptionKind, Outcome, Reply, Rows};
use crate::value::{Arg, Args, Value};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns a value.
pub fn value(value: &Value<'_>) -> Json {
    match value {
        Value::Nil => json!({"nil": null}),
        Value::Bool(b) => json!({"bool": b}),
        Value::Int(i) => json!({"int": i.to_string()}),
        Value::Real(r) => json!({"real": format!("{r:?}")}),
        Value::Char(c) => json!({"char": c.to_string()}),
        Value::Str(s) => json!({"string": s}),
        Value::Bytes(b) => json!({"bytes": hex(b)}),
        Value::Compound(c) => {
            let items: Vec<Json> = c.iter().map(|a| arg(&a)).collect();
            json!({"compound": {"type": optional(c.ty().known()), "items": items}})
        }
    }
}

fn arg(a: &Arg<'_>) -> Json {
    match a {
        Arg::Ref(r) => json!({"ref": r.0}),
        Arg::Value(v) => value(v),
    }
}

fn args(args: &Args<'_>) -> Json {
    args.iter().map(|a| arg(&a)).collect()
}

fn types(types: &TypeNumbers<'_>) -> Json {
    types.iter().map(|t| Json::from(t.0)).collect()
}

fn optional(ty: Option<TypeNumber>) -> Json {
    ty.map_or(Json::Null, |t| Json::from(t.0))
}

/// Returns a command: `{"call": {...}}`, or its name alone if it has no parts.
pub fn command(command: &Command<'_>) -> Json {
    match command {
        Command::Hello(h) => {
            let mut hello = json!({
                "version": h.version, "digest": hex(&h.digest), "token": h.token, "client": h.client,
            });
            if let Some(trace) = h.trace {
                hello["trace"] = json!(trace.to_string());
            }
            json!({"hello": hello})
        }
        Command::Call { method, receiver, args: a } => {
            json!({"call": {"method": method.0, "receiver": receiver.0, "args": args(a)}})
        }
        Command::Send { method, receiver, args: a } => {
            json!({"send": {"method": method.0, "receiver": receiver.0, "args": args(a)}})
        }
        Command::CallRoutine { routine, args: a } => {
            json!({"call_routine": {"routine": routine.0, "args": args(a)}})
        }
        Command::CallProcedure { procedure, args: a } => {
            json!({"call_procedure": {"procedure": procedure.0, "args": args(a)}})
        }
        Command::Lookup { name, expected } => {
            json!({"lookup": {"name": name, "expected": optional(*expected)}})
        }
        Command::Constant(v) => json!({"constant": value(v)}),
        Command::Cell { element } => json!({"cell": {"element": element.0}}),
        Command::Rows { columns } => json!({"rows": {"columns": types(columns)}}),
        Command::Emit { rows, values } => json!({"emit": {"rows": rows.0, "values": args(values)}}),
        Command::As { ty, object } => json!({"as": {"type": ty.0, "object": object.0}}),
        Command::Is { ty, object } => json!({"is": {"type": ty.0, "object": object.0}}),
        Command::Get { object } => json!({"get": {"object": object.0}}),
        Command::Module { number, bytes } => json!({"module": {"number": number.0, "bytes": hex(bytes)}}),
        Command::Run(run) => json!({"run": {
            "module": run.module.0, "export": run.export, "expected": optional(run.expected), "args": args(&run.args),
        }}),
        Command::Free { handles, unanswered } => {
            let handles: Vec<i64> = handles.iter().map(|h| h.0).collect();
            match unanswered {
                0 => json!({ "free": handles }),
                n => json!({"free": {"handles": handles, "unanswered": n}}),
            }
        }
        Command::Flush { wanted, quiet, kept } => {
            let mut flush = json!({"wanted": wanted.ranges().collect::<Vec<_>>(), "quiet": quiet});
            if let Some(unanswered) = kept {
                flush["kept"] = json!(unanswered);
            }
            json!({ "flush": flush })
        }
        Command::Describe => json!("describe"),
        Command::History => json!("history"),
        Command::ClearHistory => json!("clear_history"),
        Command::Transaction { tries, batch } => {
            let batch = batch.map(|b| json!({"client": format!("{:032x}", b.client), "number": b.number}));
            json!({"transaction": {"tries": tries, "batch": batch}})
        }
        Command::Commit => json!("commit"),
        Command::Abort => json!("abort"),
        Command::Wait { ms } => json!({"wait": {"ms": ms}}),
        Command::Bye => json!("bye"),
        Command::Profile { on } => json!({"profile": {"on": on}}),
        Command::While => json!("while"),
        Command::Do { test } => json!({"do": {"test": test.0}}),
        Command::EndWhile => json!("end_while"),
        Command::If => json!("if"),
        Command::Then { test } => json!({"then": {"test": test.0}}),
        Command::Else => json!("else"),
        Command::EndIf => json!("end_if"),
        Command::Foreach => json!("foreach"),
        Command::EndForeach => json!("end_foreach"),
        Command::Break => json!("break"),
        Command::Continue => json!("continue"),
        Command::Except => json!("except"),
        Command::When { name, values } => json!({"when": {"name": name, "values": types(values)}}),
        Command::Others { named } => json!({"others": {"named": named}}),
        Command::EndExcept => json!("end_except"),
        Command::Procedure { name, params, result } => {
            json!({"procedure": {"name": name, "params": types(params), "result": optional(*result)}})
        }
        Command::Return(v) => json!({"return": v.as_ref().map_or(Json::Null, arg)}),
        Command::EndProcedure => json!("end_procedure"),
    }
}

fn outcome(outcome: &Outcome<'_>) -> Json {
    match outcome {
        Outcome::Handle { handle, ty } => json!({"handle": handle.0, "type": ty.0}),
        Outcome::Value(v) => value(v),
        Outcome::Rows(table) => json!({"rows": rows(table)}),
        Outcome::Exception(n) => json!({"exception": n}),
        Outcome::Absent => json!("absent"),
    }
}

/// Returns the tag, the type and the cells of a table.
fn rows(rows: &Rows<'_>) -> Json {
    json!({
        "columns": rows.columns().map(|(tag, ty)| json!([tag, ty.0])).collect::<Vec<_>>(),
        "cells": rows.iter().map(|cell| outcome(&cell)).collect::<Vec<_>>(),
    })
}

/// Returns the places of a failure, each as an object.
pub(crate) fn json_places(places: &Places<'_>) -> Json {
    let place = |p: Place<'_>| json!({"routine": p.routine, "file": p.file, "line": p.line});
    places.iter().map(place).collect()
}

fn exception(e: &Exception<'_>) -> Json {
    let mut out = Map::new();
    out.insert("call".to_owned(), e.call.into());
    out.insert("iterations".to_owned(), e.iterations().collect::<Vec<_>>().into());
    let (key, kind) = match &e.kind {
        ExceptionKind::Signal { name, values, places } => {
            let values: Vec<Json> = values.iter().map(|v| outcome(&v)).collect();
            let mut signal = json!({"name": name, "values": values});
            if !places.is_empty() {
                signal["places"] = json_places(places);
                signal["more_places"] = json!(places.more);
            }
            ("signal", signal)
        }
        ExceptionKind::Unhandled { argument, back, cause } => {
            let mut unhandled = json!({"argument": argument, "cause": cause});
            if *back > 0 {
                unhandled["back"] = json!(back);
            }
            ("unhandled", unhandled)
        }
        ExceptionKind::Refused { number, text } => ("refused", json!({"number": number, "text": text})),
    };
    out.insert(key.to_owned(), kind);
    Json::Object(out)
}

/// Returns a profile.
pub fn profile(profile: &OwnedProfile) -> Json {
    profile_with(profile, |_| None)
}

/// Returns a profile; `name` is that of a command by its position, where it is known.
pub(crate) fn profile_with(profile: &OwnedProfile, name: impl Fn(u32) -> Option<String>) -> Json {
    let Totals { nanoseconds, fetches, objects, runs } = profile.totals;
    let entries = profile.entries.iter().map(|entry| {
        let mut item = json!({"call": entry.call});
        match entry.subject {
            Subject::Structure => item["structure"] = json!(true),
            Subject::Command => {
                if let Some(name) = name(entry.call) {
                    item["name"] = json!(name);
                }
            }
        }
        with_cost(item, &entry.cost)
    });
    let mut item = json!({
        "nanoseconds": nanoseconds, "fetches": fetches, "objects": objects, "runs": runs,
        "entries": entries.collect::<Vec<_>>(),
    });
    if let Some(rest) = &profile.rest {
        item["rest"] = with_cost(json!({"omitted": rest.omitted}), &rest.cost);
    }
    item
}

fn with_cost(mut item: Json, cost: &Cost) -> Json {
    let Cost { nanoseconds, calls, fuel, fetches, objects } = *cost;
    item["nanoseconds"] = json!(nanoseconds);
    for (name, count) in [("calls", calls), ("fuel", fuel), ("fetches", fetches), ("objects", objects)] {
        item[name] = json!(count);
    }
    item
}

/// Returns a reply: `{"flushed": {...}}`, or its name alone if it has no parts.
pub fn reply(reply: &Reply<'_>) -> Json {
    match reply {
        Reply::Welcome(w) => json!({"welcome": {
            "version": w.version, "session": w.session, "digest": hex(&w.digest), "server": w.server,
            "limits": w.limits.iter().collect::<Vec<_>>(),
        }}),
        Reply::Flushed(f) => {
            let mut flushed = json!({
                "outcomes": f.outcomes().map(|o| outcome(&o)).collect::<Vec<_>>(),
                "exceptions": f.exceptions().map(|e| exception(&e)).collect::<Vec<_>>(),
                "omitted": f.omitted, "calls": f.counters.calls, "fuel": f.counters.fuel,
            });
            if let Some(of_batch) = &f.profile {
                flushed["profile"] = profile(&(*of_batch).into());
            }
            json!({ "flushed": flushed })
        }
        Reply::Interface(json) => json!({"interface": String::from_utf8_lossy(json)}),
        Reply::Exceptions(h) => json!({"exceptions": {
            "list": h.iter().map(|(batch, e)| json!([batch, exception(&e)])).collect::<Vec<_>>(),
            "omitted": h.omitted,
        }}),
        Reply::Farewell => json!("farewell"),
        Reply::Error { number, position, text } => {
            json!({"error": {"number": number, "position": position, "text": text}})
        }
    }
}
