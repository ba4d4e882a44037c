//! The words of a script's line: operands and values.

use bifrost_wire::{Arg, OwnedValue, Ref};

/// An operand of a command.
pub(super) enum Operand {
    Ref(Ref),
    Value(OwnedValue),
}

impl Operand {
    pub(super) fn arg(&self) -> Arg<'_> {
        match self {
            Operand::Ref(r) => Arg::Ref(*r),
            Operand::Value(v) => Arg::Value(v.view()),
        }
    }
}

/// Splits the items of a compound.
pub(super) fn split(items: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in items.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ';' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().expect("there is one").push(c),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Returns the value that a word is, if it is one.
pub(super) fn value(token: &str) -> Option<OwnedValue> {
    Some(match token {
        "nil" => OwnedValue::Nil,
        "true" => OwnedValue::Bool(true),
        "false" => OwnedValue::Bool(false),
        t if t.starts_with('"') => OwnedValue::Str(t.trim_matches('"').into()),
        t if t.starts_with("x\"") => {
            let digits = t[2..].trim_matches('"');
            let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
            OwnedValue::Bytes((0..digits.len()).step_by(2).map(byte).collect())
        }
        t if t.starts_with('\'') => OwnedValue::Char(t.chars().nth(1)?),
        t => match (t.parse(), t.parse()) {
            (Ok(i), _) => OwnedValue::Int(i),
            (_, Ok(r)) => OwnedValue::Real(r),
            _ => return None,
        },
    })
}

/// Words of a line; strings in quotes are one.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut token = String::new();
    let mut quoted = false;
    // Names of types may have blanks in brackets.
    let mut brackets = 0;
    for c in text.chars() {
        quoted ^= c == '"';
        brackets += i32::from("[{".contains(c) && !quoted) - i32::from("]}".contains(c) && !quoted);
        if c == ' ' && !quoted && brackets == 0 {
            if !token.is_empty() {
                tokens.push(std::mem::take(&mut token));
            }
        } else {
            token.push(c);
        }
    }
    if !token.is_empty() {
        tokens.push(token);
    }
    tokens
}
