//! Calls of built-in methods in constant expressions: all those of basic values and strings that
//! return a value of such a type, but for `hash`, which a program may not rely on.
//!
//! Each gives the result of the method in a running program; a call that would signal is no
//! constant.

use super::constants::{Constant, STRING_BYTES_MAX, combine};
use crate::ast::Binary;

/// The operators, by the methods that they call.
const OPERATORS: &[Binary] = &[
    Binary::Or,
    Binary::And,
    Binary::Eq,
    Binary::Lt,
    Binary::Le,
    Binary::Gt,
    Binary::Ge,
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Mod,
    Binary::Shl,
    Binary::Shr,
    Binary::Power,
    Binary::Concat,
];

/// Returns the value of `receiver.name(args)`; `None` where it would signal, and where it is no
/// constant.
pub(super) fn call(receiver: Constant, name: &str, args: &[Constant]) -> Option<Constant> {
    match (args, receiver) {
        ([], Constant::Str(text)) => of_string(text, name),
        ([], receiver) => of_basic(receiver, name),
        ([arg], receiver) => with_argument(receiver, name, arg.clone()),
        ([Constant::Int(at), Constant::Int(count)], Constant::Str(text)) if name == "substr" => {
            substring(&text, *at, *count).map(Constant::Str)
        }
        ([Constant::Str(old), Constant::Str(new)], Constant::Str(text)) if name == "replace" => {
            replaced(text, old, new).map(Constant::Str)
        }
        _ => None,
    }
}

fn of_basic(receiver: Constant, name: &str) -> Option<Constant> {
    use Constant::{Bool, Char, Int, Nil, Real, Str};
    Some(match (receiver, name) {
        (value, "copy") => value,
        (Nil, "unparse") => Str("nil".to_owned()),
        (Bool(v), "bnot") => Bool(!v),
        (Bool(v), "unparse") => Str(v.to_string()),
        (Int(v), "bnot") => Int(!v),
        (Int(v), "negate") => Int(v.checked_neg()?),
        (Int(v), "abs") => Int(v.checked_abs()?),
        (Int(v), "to_real") => Real(v as f64),
        (Int(v), "to_char") => Char(u32::try_from(v).ok().and_then(char::from_u32)?),
        (Int(v), "unparse") => Str(v.to_string()),
        (Real(v), _) => return of_real(v, name),
        (Char(v), "to_int") => Int(i64::from(u32::from(v))),
        (Char(v), "to_string" | "unparse") => Str(v.to_string()),
        (Char(v), "upper") => Char(single(v, v.to_uppercase())),
        (Char(v), "lower") => Char(single(v, v.to_lowercase())),
        (Char(v), "is_letter") => Bool(v.is_alphabetic()),
        (Char(v), "is_digit") => Bool(v.is_ascii_digit()),
        (Char(v), "is_space") => Bool(v.is_whitespace()),
        _ => return None,
    })
}

fn of_real(v: f64, name: &str) -> Option<Constant> {
    use Constant::{Bool, Int, Real, Str};
    // 2^63 is a real, and the first that is too large; NaN is in no range.
    let int = |value: f64| {
        let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
        fits.then_some(Int(value as i64))
    };
    Some(match name {
        "negate" => Real(-v),
        "abs" => Real(v.abs()),
        "sqrt" => Real(v.sqrt()),
        "sin" => Real(v.sin()),
        "cos" => Real(v.cos()),
        "tan" => Real(v.tan()),
        "atan" => Real(v.atan()),
        "exp" => Real(v.exp()),
        "log" => Real(v.ln()),
        "is_nan" => Bool(v.is_nan()),
        "floor" => int(v.floor())?,
        "ceiling" => int(v.ceil())?,
        "round" => int(v.round())?,
        "truncate" => int(v.trunc())?,
        "unparse" if v.is_nan() => Str("nan".to_owned()),
        "unparse" => Str(format!("{v:?}")),
        _ => return None,
    })
}

fn of_string(text: String, name: &str) -> Option<Constant> {
    use Constant::{Bool, Int, Real, Str};
    Some(match name {
        "copy" | "unparse" => Str(text),
        "length" => Int(text.chars().count() as i64),
        "empty" => Bool(text.is_empty()),
        "upper" => Str(text.to_uppercase()).within_limit()?,
        "lower" => Str(text.to_lowercase()).within_limit()?,
        "trim" => Str(text.trim().to_owned()),
        "to_int" => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
            let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            Int(text.parse().ok().filter(|_| all)?)
        }
        "to_real" => Real(text.parse().ok()?),
        _ => return None,
    })
}

fn with_argument(receiver: Constant, name: &str, arg: Constant) -> Option<Constant> {
    use Constant::{Bool, Char, Int, Real, Str};
    match (&receiver, &arg, name) {
        (Int(a), Int(b), "min") => return Some(Int(*a.min(b))),
        (Int(a), Int(b), "max") => return Some(Int(*a.max(b))),
        (Real(a), Real(b), "min") => return Some(Real(a.min(*b))),
        (Real(a), Real(b), "max") => return Some(Real(a.max(*b))),
        (Int(a), Int(b), "bxor") => return Some(Int(a ^ b)),
        (Bool(a), Bool(b), "bxor") => return Some(Bool(a ^ b)),
        (Str(a), Int(i), "fetch") => {
            return a.chars().nth(usize::try_from(*i).ok()?.checked_sub(1)?).map(Char);
        }
        (Str(a), Str(b), "index_of") => {
            return a.find(&**b).map(|at| Int(a[..at].chars().count() as i64 + 1));
        }
        (Str(a), Str(b), "starts_with") => return Some(Bool(a.starts_with(&**b))),
        (Str(a), Str(b), "ends_with") => return Some(Bool(a.ends_with(&**b))),
        _ => {}
    }
    let name = if name == "similar" { "equal" } else { name };
    let op = OPERATORS.iter().find(|op| op.method() == name)?;
    combine(*op, receiver, arg)
}

/// `count` characters from the one at `at`, which counts from 1.
fn substring(text: &str, at: i64, count: i64) -> Option<String> {
    let length = text.chars().count() as i64;
    if at < 1 || count < 0 || at > length + 1 || count > length + 1 - at {
        return None;
    }
    Some(text.chars().skip(at as usize - 1).take(count as usize).collect())
}

/// Returns the text with `new` in place of each `old`, unless that is too long for a constant.
fn replaced(text: String, old: &str, new: &str) -> Option<String> {
    if old.is_empty() {
        return Some(text);
    }
    let count = text.matches(old).count();
    let bytes = (text.len() - count * old.len()).saturating_add(count.saturating_mul(new.len()));
    (bytes <= STRING_BYTES_MAX).then(|| text.replace(old, new))
}

/// Returns the single character that `mapped` yields; a character whose other case is longer stays
/// itself.
fn single(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(m), None) => m,
        _ => c,
    }
}

impl Constant {
    /// Returns the value, if it is no string that is too long.
    fn within_limit(self) -> Option<Constant> {
        match &self {
            Constant::Str(text) if text.len() > STRING_BYTES_MAX => None,
            _ => Some(self),
        }
    }
}
