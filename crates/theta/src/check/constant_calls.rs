//! Calls of built-in methods in constant expressions: those of basic values that need neither the runtime nor the
//! rounding of a mathematical library.

use super::constants::{Constant, combine};
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

/// What `receiver.name(args)` is; `None` where it would signal, and where it is no constant.
pub(super) fn call(receiver: Constant, name: &str, args: &[Constant]) -> Option<Constant> {
    match args {
        [] => without_arguments(receiver, name),
        [arg] => with_argument(receiver, name, arg.clone()),
        _ => None,
    }
}

fn without_arguments(receiver: Constant, name: &str) -> Option<Constant> {
    use Constant::{Bool, Char, Int, Real, Str};
    Some(match (receiver, name) {
        (value @ (Bool(_) | Int(_) | Real(_) | Char(_)), "copy") => value,
        (Bool(v), "bnot") => Bool(!v),
        (Bool(v), "unparse") => Str(v.to_string()),
        (Int(v), "bnot") => Int(!v),
        (Int(v), "negate") => Int(v.checked_neg()?),
        (Int(v), "abs") => Int(v.checked_abs()?),
        (Int(v), "to_real") => Real(v as f64),
        (Int(v), "to_char") => Char(u32::try_from(v).ok().and_then(char::from_u32)?),
        (Int(v), "unparse") => Str(v.to_string()),
        (Real(v), "negate") => Real(-v),
        (Real(v), "abs") => Real(v.abs()),
        (Real(v), "sqrt") => Real(v.sqrt()),
        (Real(v), "is_nan") => Bool(v.is_nan()),
        (Char(v), "to_int") => Int(i64::from(u32::from(v))),
        (Char(v), "to_string" | "unparse") => Str(v.to_string()),
        _ => return None,
    })
}

fn with_argument(receiver: Constant, name: &str, arg: Constant) -> Option<Constant> {
    use Constant::{Bool, Int};
    match (&receiver, &arg, name) {
        (Constant::Str(_), _, _) => return None,
        (Int(a), Int(b), "min") => return Some(Int(*a.min(b))),
        (Int(a), Int(b), "max") => return Some(Int(*a.max(b))),
        (Int(a), Int(b), "bxor") => return Some(Int(a ^ b)),
        (Bool(a), Bool(b), "bxor") => return Some(Bool(a ^ b)),
        _ => {}
    }
    let name = if name == "similar" { "equal" } else { name };
    let op = OPERATORS.iter().find(|op| op.method() == name)?;
    combine(*op, receiver, arg)
}
