//! Equality, copying and printing of values by their static type, for containers.

use bifrost_ir::{TypeId, TypeKind};

use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::object::{self, array, list, text};
use crate::{invoke, natives};

/// A hash of a word (the finaliser of SplitMix64).
pub fn mix(word: Word) -> i64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) as i64
}

/// The elements of an array, sequence or list, as they are now.
pub fn elements(kind: TypeKind, word: Word) -> Vec<Word> {
    // SAFETY: the word has the type of that kind, as the callers' static types say.
    unsafe {
        match kind {
            TypeKind::Array(_) => natives::array::elements(word).to_vec(),
            TypeKind::Sequence(_) => natives::sequence::elements(word).to_vec(),
            TypeKind::List(_) => {
                let mut all = Vec::new();
                let mut at = word;
                while object::get(at, list::LENGTH) > 0 {
                    all.push(object::get(at, list::FIRST));
                    at = object::get(at, list::NEXT);
                }
                all
            }
            _ => Vec::new(),
        }
    }
}

/// Calls a method without side conditions of a user's type.
fn call(cx: &mut Cx, ty: TypeId, name: &str, args: &[Word]) -> Result<Word, Ret> {
    if cx.must_attend() {
        let attended = cx.attend();
        if !attended.returned() {
            return Err(attended);
        }
    }
    let Some((_, slot)) = invoke::find_slot(cx, ty, name) else {
        return Err(cx.failure(&format!("internal error: no method {name}")));
    };
    // SAFETY: the words have the static types that the method's heading asks for: the built-in method that calls exists
    // only if the element type has the other.
    let ret = unsafe { invoke::method(cx, slot, args) };
    match ret.outcome {
        0 => Ok(ret.value),
        1 => Err(cx.unhandled()),
        _ => Err(ret),
    }
}

/// Which comparison of contents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// `equal`: contents of immutable values, identity of mutable ones.
    Equal,
    /// `similar`: contents.
    Similar,
}

/// Compares two values of a type.
///
/// # Errors
/// The outcome of a user's method that did not return.
pub fn same(cx: &mut Cx, ty: TypeId, a: Word, b: Word, how: Same) -> Result<bool, Ret> {
    let kind = cx.image().program().types.kind(ty);
    match kind {
        TypeKind::Real => Ok(f64::from_bits(a) == f64::from_bits(b)),
        k if k.is_basic() => Ok(a == b),
        // SAFETY: both words are strings by their static type.
        TypeKind::String => Ok(unsafe { text(a) == text(b) }),
        TypeKind::Array(_) if how == Same::Equal => Ok(a == b),
        TypeKind::Array(element) | TypeKind::Sequence(element) | TypeKind::List(element) => {
            if matches!(kind, TypeKind::Array(_))
                // SAFETY: both words are arrays by their static type.
                && unsafe { object::get(a, array::LOW) != object::get(b, array::LOW) }
            {
                return Ok(false);
            }
            let (xs, ys) = (elements(kind, a), elements(kind, b));
            if xs.len() != ys.len() {
                return Ok(false);
            }
            for (x, y) in xs.into_iter().zip(ys) {
                if !same(cx, element, x, y, how)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        TypeKind::Cell(_) | TypeKind::Directory | TypeKind::Any => Ok(a == b),
        _ => {
            let name = if how == Same::Equal { "equal" } else { "similar" };
            call(cx, ty, name, &[a, b]).map(|w| w != 0)
        }
    }
}

/// Copies a value with its type's `copy`.
///
/// # Errors
/// The outcome of a user's method that did not return, or that memory is used up.
pub fn copy(cx: &mut Cx, ty: TypeId, word: Word) -> Result<Word, Ret> {
    let def = cx.image().program().types.def(ty);
    match def.kind {
        TypeKind::Array(element) => {
            let mut copies = elements(def.kind, word);
            for w in &mut copies {
                *w = copy(cx, element, *w)?;
            }
            // SAFETY: the word is an array by its static type.
            let low = unsafe { object::get(word, array::LOW) } as i64;
            let table = cx.image().table_of(ty);
            cx.new_array(table, low, &copies).map_err(|full| cx.out_of_memory(full))
        }
        TypeKind::Object | TypeKind::Class(_) if !def.immutable => call(cx, ty, "copy", &[word]),
        _ => Ok(word),
    }
}

/// The text of a value (theta.md 16, `unparse`). Characters and strings are quoted when they are inside others.
///
/// # Errors
/// The outcome of a user's method that did not return.
pub fn unparse(cx: &mut Cx, ty: TypeId, word: Word, inside: bool) -> Result<String, Ret> {
    let kind = cx.image().program().types.kind(ty);
    Ok(match kind {
        TypeKind::Null => "nil".to_owned(),
        TypeKind::Bool => (word != 0).to_string(),
        TypeKind::Int => (word as i64).to_string(),
        TypeKind::Real => unparse_real(f64::from_bits(word)),
        TypeKind::Char => {
            let c = char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            if inside { format!("'{}'", escape(c.encode_utf8(&mut [0; 4]), '\'')) } else { c.to_string() }
        }
        TypeKind::String => {
            // SAFETY: the word is a string by its static type.
            let t = unsafe { text(word) };
            if inside { format!("\"{}\"", escape(t, '"')) } else { t.to_owned() }
        }
        TypeKind::Array(element) | TypeKind::Sequence(element) | TypeKind::List(element) => {
            let mut parts = Vec::new();
            for w in elements(kind, word) {
                parts.push(unparse(cx, element, w, true)?);
            }
            format!("[{}]", parts.join(", "))
        }
        _ => {
            let word = call(cx, ty, "unparse", &[word])?;
            // SAFETY: `unparse` returns a string by its heading.
            unsafe { text(word) }.to_owned()
        }
    })
}

/// A real in the shortest form that reads back, with `.0` if it is whole.
pub fn unparse_real(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:?}") }
}

/// A text with the escapes of theta.md 2.
fn escape(t: &str, quote: char) -> String {
    let mut out = String::with_capacity(t.len());
    for c in t.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.push_str(&format!("\\u{{{:X}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}
