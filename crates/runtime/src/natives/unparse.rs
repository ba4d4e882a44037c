//! The texts of values (`docs/book/language/library.md`).

use bifrost_ir::{TypeId, TypeKind};

use super::generic::{self, Step, Walk, attend};
use super::tagged;
use crate::abi::Word;
use crate::cx::Cx;
use crate::image::ElementMethod;
use crate::map_entries::MapEntries;
use crate::object::{self, cell, text};

/// The text of a value. Characters and strings are quoted when they are `inside` others.
///
/// # Errors
/// The outcome of a user's method that did not return, or that the text is longer than memory has
/// room for.
pub fn unparse(cx: &mut Cx, ty: TypeId, word: Word, inside: bool) -> Step<String> {
    let mut out = String::new();
    write(cx, ty, word, inside, &mut out)?;
    Ok(out)
}

fn write(cx: &mut Cx, ty: TypeId, word: Word, inside: bool, out: &mut String) -> Step<()> {
    let kind = cx.image().program().types.kind(ty);
    match kind {
        TypeKind::Null => out.push_str("nil"),
        TypeKind::Bool => out.push_str(if word != 0 { "true" } else { "false" }),
        TypeKind::Int => out.push_str(&(word as i64).to_string()),
        TypeKind::Real => out.push_str(&real(f64::from_bits(word))),
        TypeKind::Char => {
            let c = char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            if inside { quote(c.encode_utf8(&mut [0; 4]), '\'', out) } else { out.push(c) }
        }
        TypeKind::String => {
            // SAFETY: the word is a string by its static type.
            let t = unsafe { text(word) };
            if inside { quote(t, '"', out) } else { out.push_str(t) }
        }
        TypeKind::Bytes => {
            out.push('[');
            // SAFETY: the word is bytes by its static type.
            for (at, byte) in unsafe { object::byte_slice(word) }.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&byte.to_string());
            }
            out.push(']');
        }
        TypeKind::Array(element)
        | TypeKind::Sequence(element)
        | TypeKind::Vector(element)
        | TypeKind::List(element) => {
            let _container = cx.keep(word);
            let mut walk = Walk::new(kind, word);
            let mut mark = "[";
            while let Some(value) = walk.next(cx)? {
                attend(cx)?;
                out.push_str(mark);
                write(cx, element, value, true, out)?;
                mark = ", ";
            }
            out.push_str(if mark == "[" { "[]" } else { "]" });
        }
        TypeKind::Cell(element) => {
            attend(cx)?;
            let _container = cx.keep(word);
            generic::open(cx, word)?;
            out.push_str("cell(");
            // SAFETY: the word is a cell by its static type.
            let (full, value) = unsafe { (object::get(word, cell::FULL), object::get(word, cell::VALUE)) };
            if full != 0 {
                write(cx, element, value, true, out)?;
            }
            out.push(')');
        }
        TypeKind::Map(key, value) => {
            let _container = cx.keep(word);
            generic::open(cx, word)?;
            let mut entries = MapEntries::default();
            let mut mark = "{";
            while let Some((k, v)) = entries.next(word) {
                attend(cx)?;
                let _value = generic::keep(cx, value, v);
                out.push_str(mark);
                write(cx, key, k, true, out)?;
                out.push_str(": ");
                write(cx, value, v, true, out)?;
                mark = ", ";
            }
            out.push_str(if mark == "{" { "{}" } else { "}" });
        }
        TypeKind::Record(_) | TypeKind::Struct(_) | TypeKind::OneOf(_) | TypeKind::Maybe(_) => {
            write_fields(cx, word, out)?;
        }
        _ => {
            let word = generic::call(cx, ty, ElementMethod::Unparse, &[word])?;
            // SAFETY: `unparse` returns a string by its heading.
            out.push_str(unsafe { text(word) });
        }
    }
    // A small graph of objects may have a text without end in sight; each step adds no more than a
    // string of the heap.
    match out.len() > cx.limits().batch_heap_bytes {
        true => Err(cx.exhausted("out of memory: the text is too long")),
        false => Ok(()),
    }
}

/// The text of an object of a tagged type.
///
/// # Errors
/// As [`unparse`].
pub fn of_fields(cx: &mut Cx, word: Word) -> Step<String> {
    let mut out = String::new();
    write_fields(cx, word, &mut out)?;
    Ok(out)
}

/// The fields of a record or struct; the tag of a oneof and its value.
fn write_fields(cx: &mut Cx, word: Word, out: &mut String) -> Step<()> {
    attend(cx)?;
    let _kept = cx.keep(word);
    generic::open(cx, word)?;
    let count = tagged::field_count(cx, word);
    if count == 0 {
        out.push_str(&format!("{{{}: nil}}", tagged::tag(word)));
        return Ok(());
    }
    for at in 0..count {
        out.push_str(if at == 0 { "{" } else { ", " });
        out.push_str(&tagged::field_name(cx, word, at));
        out.push_str(": ");
        let (ty, value) = tagged::field(cx, word, at);
        write(cx, ty, value, true, out)?;
    }
    out.push('}');
    Ok(())
}

/// A real in the shortest form that reads back, with `.0` if it is whole.
pub fn real(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:?}") }
}

/// A text in quotes, with the escapes of Theta.
fn quote(t: &str, quote: char, out: &mut String) {
    out.push(quote);
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
    out.push(quote);
}
