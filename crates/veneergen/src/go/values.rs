//! The values of Go in place of promises, and the code that reads and appends parts of contents.

use bifrost_wire::interface::Kind;

use crate::model::ValueModel;

/// Returns the type of Go for that of a promise.
pub(super) fn host(promise: &str) -> Option<&'static str> {
    Some(match promise {
        "bf.Bool" => "bool",
        "bf.Int" => "int64",
        "bf.Real" => "float64",
        "bf.Char" => "rune",
        "bf.Str" => "string",
        "bf.Bytes" => "[]byte",
        "bf.Nil" => "struct{}",
        _ => return None,
    })
}

/// Returns a type in contents: with the values of Go in place of promises.
pub(super) fn plain(ty: &str) -> String {
    let mut out = String::new();
    let mut rest = ty;
    while !rest.is_empty() {
        let is_name = |c: char| c.is_alphanumeric() || c == '.' || c == '_';
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len()).max(1);
        // A name has any letters; another character may be of several bytes.
        let end = (end..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        match host(name) {
            // Cells stay stubs.
            Some(value) if !out.ends_with("Cell[") => out += value,
            _ => out += name,
        }
        rest = behind;
    }
    out
}

/// Returns the end of a method's name for a basic type: `Int`.
pub(super) fn basic(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Bool => "Bool",
        Kind::Int => "Int",
        Kind::Real => "Real",
        Kind::Char => "Char",
        Kind::String => "Str",
        Kind::Bytes => "Bytes",
        _ => return None,
    })
}

/// Returns the function that reads a part of contents.
pub(super) fn reader(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null => "bf.ReadNil".to_owned(),
        Kind::Any => "bf.ReadAny".to_owned(),
        kind if kind.is_compound() => format!("read{}", value.ty),
        kind => match basic(kind) {
            Some(name) => format!("(*bf.Reader).{name}"),
            None => format!("func(r *bf.Reader) {} {{ return {}{{Ref: r.Object()}} }}", value.ty, value.ty),
        },
    }
}

/// Returns the expression that reads a part of contents.
pub(super) fn reading(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null | Kind::Any => format!("{}(r)", reader(value)),
        kind if kind.is_compound() => format!("read{}(r)", value.ty),
        kind => match basic(kind) {
            Some(name) => format!("r.{name}()"),
            None => format!("{}{{Ref: r.Object()}}", value.ty),
        },
    }
}

/// Returns the function that appends a part of contents.
pub(super) fn putter(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null => "bf.PutNil".to_owned(),
        kind if kind.is_compound() => format!("put{}", value.ty),
        kind => match basic(kind) {
            Some(name) => format!("(*bf.Call).{name}"),
            None => format!("func(call *bf.Call, v {}) {{ call.Ref(v.Ref) }}", value.ty),
        },
    }
}

/// Returns the statement that appends a part of contents.
pub(super) fn putting(value: &ValueModel, name: &str) -> String {
    match value.kind {
        Kind::Null => "call.Nil()".to_owned(),
        kind if kind.is_compound() => format!("put{}(call, {name})", value.ty),
        kind => match basic(kind) {
            Some(function) => format!("call.{function}({name})"),
            None => format!("call.Ref({name}.Ref)"),
        },
    }
}
