//! Outcomes and exceptions as the scripts of tests expect them.

use bifrost_wire::{Arg, ErrorNumber, ExceptionKind, Interface, Outcome, Value};

pub fn show(interface: &Interface, outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Handle { handle, ty } => {
            format!("{}#{}.{}", interface.type_name(*ty), handle.slot(), handle.generation())
        }
        Outcome::Value(v) => value(interface, v),
        Outcome::Rows(rows) => {
            let cells: Vec<String> = rows.iter().map(|cell| show(interface, &cell)).collect();
            let count = rows.columns().len();
            format!(
                "rows{}",
                cells.chunks(count).map(|row| format!(" ({})", row.join(", "))).collect::<String>()
            )
        }
        Outcome::Exception(i) => format!("exception {i}"),
        Outcome::Absent => "absent".to_owned(),
    }
}

fn value(interface: &Interface, v: &Value<'_>) -> String {
    match v {
        Value::Nil => "nil".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Char(c) => format!("{c:?}"),
        Value::Str(s) if s.len() > 100 => format!("a string of {} bytes", s.len()),
        Value::Str(s) => format!("{s:?}"),
        Value::Bytes(b) => format!("x{b:02x?}"),
        Value::Compound(c) => {
            let items = c.iter().map(|item| match item {
                Arg::Ref(handle) => format!("#{}.{}", handle.slot(), handle.generation()),
                Arg::Value(v) => value(interface, &v),
            });
            format!("{} {{{}}}", interface.type_name(c.ty()), items.collect::<Vec<_>>().join(", "))
        }
    }
}

pub fn exception(interface: &Interface, call: u32, rounds: &[u32], kind: &ExceptionKind<'_>) -> String {
    let place = if rounds.is_empty() { format!("-{call}") } else { format!("-{call} in round {rounds:?}") };
    match kind {
        ExceptionKind::Signal { name, values, .. } if values.is_empty() => format!("{place}: {name}"),
        ExceptionKind::Signal { name, values, .. } => {
            let values: Vec<String> = values.iter().map(|v| show(interface, &v)).collect();
            format!("{place}: {name}({})", values.join(", "))
        }
        ExceptionKind::Unhandled { argument, back: 0, cause } => {
            format!("{place}: unhandled_exc, argument {argument} of -{cause}")
        }
        ExceptionKind::Unhandled { argument, back, cause } => {
            format!("{place}: unhandled_exc, argument {argument} of -{cause}, {back} before")
        }
        ExceptionKind::Refused { number, text } => {
            let name = ErrorNumber::from_number(*number).map_or("?", ErrorNumber::name);
            format!("{place}: {name}: {text}")
        }
    }
}
