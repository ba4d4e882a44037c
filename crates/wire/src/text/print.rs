//! Values, exceptions and headings, each in one readable line.

use std::fmt::Write;

use crate::error::ErrorNumber;
use crate::interface::{Interface, Numbering, Shape};
use crate::reply::{Exception, ExceptionKind, Outcome, Rows};
use crate::value::{Arg, Compound, Value};

/// Returns a value as the text form reads it back.
pub(super) fn value(interface: &Interface, value: &Value<'_>) -> String {
    match value {
        Value::Compound(c) => compound(interface, c),
        Value::Nil => "nil".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Char(c) => quoted(&c.to_string(), '\''),
        Value::Str(s) => quoted(s, '"'),
        Value::Bytes(b) => format!("x\"{}\"", hex(b)),
    }
}

/// Returns a compound: `{1, 2}`, `{x: 1, y: 2}`, `{some: 3}`.
fn compound(interface: &Interface, compound: &Compound<'_>) -> String {
    let item = |item: Arg<'_>| match item {
        Arg::Ref(reference) => format!("h{}", reference.0),
        Arg::Value(v) => value(interface, &v),
    };
    let labelled = |(label, it): (String, Arg<'_>)| format!("{label}: {}", item(it));
    let items: Vec<String> = match parts(interface, compound) {
        Parts::Elements(items) => items.into_iter().map(item).collect(),
        Parts::Pairs(pairs) => pairs.into_iter().map(|(k, v)| labelled((item(k), v))).collect(),
        Parts::Fields(fields) => fields.into_iter().map(labelled).collect(),
    };
    format!("{{{}}}", items.join(", "))
}

/// The parts of a compound.
pub(super) enum Parts<'a> {
    Elements(Vec<Arg<'a>>),
    Pairs(Vec<(Arg<'a>, Arg<'a>)>),
    /// The fields, or the one tag, with their names.
    Fields(Vec<(String, Arg<'a>)>),
}

/// Returns the parts of a compound by the kind of its type.
pub(super) fn parts<'a>(interface: &Interface, compound: &Compound<'a>) -> Parts<'a> {
    let ty = interface.ty(compound.ty());
    let name = |at: usize| ty.and_then(|ty| ty.fields.get(at)).map_or("?".to_owned(), |f| f.name.clone());
    let items: Vec<Arg<'a>> = compound.iter().collect();
    match (ty.and_then(|ty| ty.kind.shape()), items.as_slice()) {
        (Some(Shape::Pairs), _) => {
            Parts::Pairs(items.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
        }
        (Some(Shape::Fields), _) => {
            Parts::Fields(items.into_iter().enumerate().map(|(at, item)| (name(at), item)).collect())
        }
        (Some(Shape::Choice), [Arg::Value(Value::Int(tag)), value]) => {
            Parts::Fields(vec![(name(usize::try_from(*tag).unwrap_or(usize::MAX)), *value)])
        }
        _ => Parts::Elements(items),
    }
}

/// Returns bytes as hexadecimal digits, two for each.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            // Control characters could move a terminal's cursor or change its state.
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Returns a text without the characters that could move a terminal's cursor or change its state.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

/// Returns an outcome: `h5: DataElem`, `42`, `! not_found`.
pub(super) fn outcome(interface: &Interface, outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Handle { handle, ty } => format!("h{}: {}", handle.0, interface.type_name(*ty)),
        Outcome::Value(v) => value(interface, v),
        Outcome::Rows(rows) => table(interface, rows),
        Outcome::Exception(_) => "failed".to_owned(),
        Outcome::Absent => "not reached".to_owned(),
    }
}

/// Returns a table: the number of its rows, then a line for its columns and one for each row.
fn table(interface: &Interface, rows: &Rows<'_>) -> String {
    let head = rows.columns().map(|(_, ty)| interface.type_name(ty).to_owned());
    let cells = rows.iter().map(|cell| outcome(interface, &cell));
    let texts: Vec<String> = head.chain(cells).collect();
    let count = rows.columns().len();
    let mut widths = vec![0; count];
    for (at, text) in texts.iter().enumerate() {
        widths[at % count] = widths[at % count].max(text.chars().count());
    }
    let mut out = format!("{} rows", rows.len());
    for line in texts.chunks(count) {
        let mut row = String::from("\n ");
        for (text, width) in line.iter().zip(&widths) {
            let _ = write!(row, " {text:width$} ");
        }
        out += row.trim_end();
    }
    out
}

/// Returns an exception: `@4 fetch ! not_found`. The places of a failure are on lines of their own.
pub(super) fn exception(interface: &Interface, exception: &Exception<'_>, call: Option<&str>) -> String {
    let mut out = format!("@{}", exception.call);
    if let Some(call) = call {
        out.push(' ');
        out += call;
    }
    let rounds: Vec<String> = exception.iterations().map(|r| r.to_string()).collect();
    if !rounds.is_empty() {
        let _ = write!(out, " in round {}", rounds.join(", "));
    }
    out += " ! ";
    match exception.kind {
        ExceptionKind::Signal { name, values, places } => {
            out += name;
            if !values.is_empty() {
                let values: Vec<String> = values.iter().map(|v| outcome(interface, &v)).collect();
                let _ = write!(out, "({})", values.join(", "));
            }
            for line in places.lines() {
                out.push('\n');
                out += &line;
            }
        }
        ExceptionKind::Unhandled { argument, back, cause } => {
            out += "unhandled_exc: ";
            match argument {
                0 => out += "its receiver",
                n => {
                    let _ = write!(out, "argument {n}");
                }
            }
            match cause {
                0 => out += " failed before",
                n => {
                    let _ = write!(out, " is the failed @{n}");
                }
            }
            match back {
                0 => {}
                1 => out += " of the batch before",
                n => {
                    let _ = write!(out, " of {n} batches before");
                }
            }
        }
        ExceptionKind::Refused { number, text } => {
            let name = ErrorNumber::from_number(number).map_or("error", ErrorNumber::name);
            let _ = write!(out, "refused, {name} ({number}): {text}");
        }
    }
    out
}

/// Returns the answer to `describe`: everything, or a type or routine.
pub(super) fn describe(numbering: &Numbering, name: Option<&str>) -> Option<String> {
    let interface = numbering.interface();
    let mut out = String::new();
    let Some(name) = name else {
        let types: Vec<&str> = interface.types.iter().map(|t| t.name.as_str()).collect();
        let _ = writeln!(out, "types: {}", types.join(", "));
        for ty in &interface.types {
            for name in &ty.names {
                let _ = writeln!(out, "{name} = {}", ty.name);
            }
        }
        for routine in &interface.routines {
            let _ = writeln!(out, "{}", interface.heading(routine));
        }
        return Some(out);
    };
    if let Some(ty) = numbering.find_type(name).and_then(|t| interface.ty(t)) {
        let above: Vec<&str> = ty.supertypes.iter().map(|s| interface.type_name(*s)).collect();
        let below = if above.is_empty() { String::new() } else { format!(" < {}", above.join(", ")) };
        let also: String = ty.names.iter().map(|name| format!("{name} = ")).collect();
        let _ = writeln!(out, "{also}{} = type{below}", ty.name);
        comment(&mut out, "", &ty.doc);
        for method in &ty.methods {
            let _ = writeln!(out, "  {}", interface.heading(method));
            comment(&mut out, "  ", &method.doc);
        }
        return Some(out);
    }
    let routine = numbering.find_routine(name).and_then(|r| numbering.routine(r))?;
    let _ = writeln!(out, "{}", interface.heading(routine));
    comment(&mut out, "", &routine.doc);
    Some(out)
}

fn comment(out: &mut String, indent: &str, doc: &str) {
    for line in doc.trim().lines() {
        let _ = writeln!(out, "{}", format!("{indent}  % {}", line.trim()).trim_end());
    }
}
