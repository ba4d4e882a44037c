//! The words of a script's line: operands and values.

use bifrost_wire::{Arg, OwnedCompound, Ref, Value};

/// An operand of a command.
pub(super) enum Operand {
    Ref(Ref),
    Value(Owned),
}

impl Operand {
    pub(super) fn arg(&self) -> Arg<'_> {
        match self {
            Operand::Ref(r) => Arg::Ref(*r),
            Operand::Value(v) => Arg::Value(v.value()),
        }
    }
}

/// A value with its own text.
#[derive(Clone, Debug)]
pub enum Owned {
    Nil,
    Bool(bool),
    Int(i64),
    Real(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    Compound(OwnedCompound),
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

impl Owned {
    pub(super) fn read(token: &str) -> Option<Owned> {
        Some(match token {
            "nil" => Owned::Nil,
            "true" => Owned::Bool(true),
            "false" => Owned::Bool(false),
            t if t.starts_with('"') => Owned::Str(t.trim_matches('"').to_owned()),
            t if t.starts_with("x\"") => {
                let digits = t[2..].trim_matches('"');
                let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
                Owned::Bytes((0..digits.len()).step_by(2).map(byte).collect())
            }
            t if t.starts_with('\'') => Owned::Char(t.chars().nth(1)?),
            t => match (t.parse(), t.parse()) {
                (Ok(i), _) => Owned::Int(i),
                (_, Ok(r)) => Owned::Real(r),
                _ => return None,
            },
        })
    }

    pub fn value(&self) -> Value<'_> {
        match self {
            Owned::Nil => Value::Nil,
            Owned::Bool(b) => Value::Bool(*b),
            Owned::Int(i) => Value::Int(*i),
            Owned::Real(r) => Value::Real(*r),
            Owned::Char(c) => Value::Char(*c),
            Owned::Str(s) => Value::Str(s),
            Owned::Bytes(b) => Value::Bytes(b),
            Owned::Compound(c) => Value::Compound(c.view()),
        }
    }
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
