//! Methods of `null`, `bool`, `int`, `real` and `char` that are no operations of the IR.

use super::{hash, heap, natives, step, unparse};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use bifrost_ir::Types;

natives! {
    "null.copy" => same / 1,
    "null.unparse" => null_unparse / 1,
    "null.hash" => hash_word / 1,
    "bool.copy" => same / 1,
    "bool.unparse" => bool_unparse / 1,
    "bool.hash" => hash_word / 1,
    "int.power" => int_power / 2,
    "int.to" => int_to / 3,
    "int.to_by" => int_to_by / 4,
    "int.copy" => same / 1,
    "int.unparse" => int_unparse / 1,
    "int.hash" => hash_word / 1,
    "real.power" => real_power / 2,
    "real.min" => real_min / 2,
    "real.max" => real_max / 2,
    "real.sin" => real_sin / 1,
    "real.cos" => real_cos / 1,
    "real.tan" => real_tan / 1,
    "real.atan" => real_atan / 1,
    "real.exp" => real_exp / 1,
    "real.log" => real_log / 1,
    "real.floor" => real_floor / 1,
    "real.ceiling" => real_ceiling / 1,
    "real.round" => real_round / 1,
    "real.truncate" => real_truncate / 1,
    "real.copy" => same / 1,
    "real.unparse" => real_unparse / 1,
    "real.hash" => real_hash / 1,
    "char.to_string" => char_to_string / 1,
    "char.upper" => char_upper / 1,
    "char.lower" => char_lower / 1,
    "char.is_letter" => char_is_letter / 1,
    "char.is_digit" => char_is_digit / 1,
    "char.is_space" => char_is_space / 1,
    "char.copy" => same / 1,
    "char.unparse" => char_to_string / 1,
    "char.hash" => hash_word / 1,
}

extern "C" fn same(_cx: &mut Cx, word: Word) -> Ret {
    Ret::of(word)
}

extern "C" fn hash_word(_cx: &mut Cx, word: Word) -> Ret {
    Ret::of(hash::mix(word))
}

extern "C" fn real_hash(_cx: &mut Cx, word: Word) -> Ret {
    // Equal reals hash alike: -0.0 = 0.0.
    Ret::of(hash::mix(if f64::from_bits(word) == 0.0 { 0 } else { word }))
}

fn text_of(cx: &mut Cx, ty: bifrost_ir::TypeId, word: Word) -> Ret {
    match unparse::unparse(cx, ty, word, false) {
        Ok(text) => Ret::of(heap!(cx, cx.new_string(&text))),
        Err(ret) => ret,
    }
}

extern "C" fn null_unparse(cx: &mut Cx, word: Word) -> Ret {
    text_of(cx, Types::NULL, word)
}

extern "C" fn bool_unparse(cx: &mut Cx, word: Word) -> Ret {
    text_of(cx, Types::BOOL, word)
}

extern "C" fn int_unparse(cx: &mut Cx, word: Word) -> Ret {
    text_of(cx, Types::INT, word)
}

extern "C" fn real_unparse(cx: &mut Cx, word: Word) -> Ret {
    text_of(cx, Types::REAL, word)
}

extern "C" fn char_to_string(cx: &mut Cx, word: Word) -> Ret {
    text_of(cx, Types::CHAR, word)
}

extern "C" fn int_power(cx: &mut Cx, base: Word, exponent: Word) -> Ret {
    let (base, exponent) = (base as i64, exponent as i64);
    if exponent < 0 {
        return cx.signal_named("negative");
    }
    let power = match base {
        // These never overflow, however large the exponent.
        0 => Some(i64::from(exponent == 0)),
        1 => Some(1),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => u32::try_from(exponent).ok().and_then(|e| base.checked_pow(e)),
    };
    match power {
        Some(value) => Ret::int(value),
        None => cx.signal(cx.image().signals().overflow),
    }
}

extern "C" fn int_to(cx: &mut Cx, from: Word, limit: Word, closure: Word) -> Ret {
    for i in from as i64..=limit as i64 {
        step!(cx, closure, i as Word);
    }
    Ret::NOTHING
}

extern "C" fn int_to_by(cx: &mut Cx, from: Word, limit: Word, by: Word, closure: Word) -> Ret {
    let (mut i, limit, by) = (from as i64, limit as i64, by as i64);
    if by == 0 {
        return cx.signal(cx.image().signals().zero);
    }
    while if by > 0 { i <= limit } else { i >= limit } {
        step!(cx, closure, i as Word);
        match i.checked_add(by) {
            Some(next) => i = next,
            None => break,
        }
    }
    Ret::NOTHING
}

fn real(word: Word) -> f64 {
    f64::from_bits(word)
}

extern "C" fn real_power(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::of(real(a).powf(real(b)).to_bits())
}

extern "C" fn real_min(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::of(real(a).min(real(b)).to_bits())
}

extern "C" fn real_max(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::of(real(a).max(real(b)).to_bits())
}

extern "C" fn real_sin(_cx: &mut Cx, a: Word) -> Ret {
    Ret::of(real(a).sin().to_bits())
}

extern "C" fn real_cos(_cx: &mut Cx, a: Word) -> Ret {
    Ret::of(real(a).cos().to_bits())
}

extern "C" fn real_tan(_cx: &mut Cx, a: Word) -> Ret {
    Ret::of(real(a).tan().to_bits())
}

extern "C" fn real_atan(_cx: &mut Cx, a: Word) -> Ret {
    Ret::of(real(a).atan().to_bits())
}

extern "C" fn real_exp(_cx: &mut Cx, a: Word) -> Ret {
    Ret::of(real(a).exp().to_bits())
}

extern "C" fn real_log(_cx: &mut Cx, a: Word) -> Ret {
    Ret::of(real(a).ln().to_bits())
}

fn to_int(cx: &mut Cx, value: f64) -> Ret {
    // 2^63 is a double, and the first that is too large; NaN is in no range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        Ret::int(value as i64)
    } else {
        cx.signal(cx.image().signals().overflow)
    }
}

extern "C" fn real_floor(cx: &mut Cx, a: Word) -> Ret {
    to_int(cx, real(a).floor())
}

extern "C" fn real_ceiling(cx: &mut Cx, a: Word) -> Ret {
    to_int(cx, real(a).ceil())
}

extern "C" fn real_round(cx: &mut Cx, a: Word) -> Ret {
    to_int(cx, real(a).round())
}

extern "C" fn real_truncate(cx: &mut Cx, a: Word) -> Ret {
    to_int(cx, real(a).trunc())
}

fn character(word: Word) -> char {
    char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The single character that `mapped` yields; a character whose other case is longer stays itself.
fn single(c: char, mut mapped: impl Iterator<Item = char>) -> Ret {
    match (mapped.next(), mapped.next()) {
        (Some(m), None) => Ret::of(Word::from(u32::from(m))),
        _ => Ret::of(Word::from(u32::from(c))),
    }
}

extern "C" fn char_upper(_cx: &mut Cx, a: Word) -> Ret {
    single(character(a), character(a).to_uppercase())
}

extern "C" fn char_lower(_cx: &mut Cx, a: Word) -> Ret {
    single(character(a), character(a).to_lowercase())
}

extern "C" fn char_is_letter(_cx: &mut Cx, a: Word) -> Ret {
    Ret::bool(character(a).is_alphabetic())
}

extern "C" fn char_is_digit(_cx: &mut Cx, a: Word) -> Ret {
    Ret::bool(character(a).is_ascii_digit())
}

extern "C" fn char_is_space(_cx: &mut Cx, a: Word) -> Ret {
    Ret::bool(character(a).is_whitespace())
}
