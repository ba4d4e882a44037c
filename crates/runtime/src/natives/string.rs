//! Methods of `string`. Positions count characters from 1.

use super::{hash, heap, natives, step};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::object::{self, string};
use bifrost_ir::Types;

natives! {
    "string.length" => length / 1,
    "string.empty" => empty / 1,
    "string.fetch" => fetch / 2,
    "string.concat" => concat / 2,
    "string.substr" => substr / 3,
    "string.index_of" => index_of / 2,
    "string.lt" => lt / 2,
    "string.le" => le / 2,
    "string.gt" => gt / 2,
    "string.ge" => ge / 2,
    "string.equal" => equal / 2,
    "string.similar" => equal / 2,
    "string.starts_with" => starts_with / 2,
    "string.ends_with" => ends_with / 2,
    "string.upper" => upper / 1,
    "string.lower" => lower / 1,
    "string.trim" => trim / 1,
    "string.replace" => replace / 3,
    "string.chars" => chars / 2,
    "string.split" => split / 3,
    "string.to_int" => to_int / 1,
    "string.to_real" => to_real / 1,
    "string.copy" => same / 1,
    "string.unparse" => same / 1,
    "string.hash" => hash_text / 1,
}

/// The text of an operand.
fn text<'a>(word: Word) -> &'a str {
    // SAFETY: receivers and arguments of these methods are strings by their headings.
    unsafe { object::text(word) }
}

fn count(word: Word) -> usize {
    // SAFETY: as in `text`.
    unsafe { object::get(word, string::CHARS) as usize }
}

/// The byte where the character at `index` (from 0) starts; `index` may be the number of
/// characters.
fn byte_at(word: Word, index: usize) -> usize {
    let t = text(word);
    if count(word) == t.len() {
        return index;
    }
    t.char_indices().nth(index).map_or(t.len(), |(i, _)| i)
}

extern "C" fn same(_cx: &mut Cx, this: Word) -> Ret {
    Ret::of(this)
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(count(this) as i64)
}

extern "C" fn empty(_cx: &mut Cx, this: Word) -> Ret {
    Ret::bool(text(this).is_empty())
}

extern "C" fn fetch(cx: &mut Cx, this: Word, i: Word) -> Ret {
    let index = (i as i64).wrapping_sub(1);
    if index < 0 || index as usize >= count(this) {
        return cx.signal(cx.image().signals().bounds);
    }
    let at = byte_at(this, index as usize);
    let c = text(this)[at..].chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
    Ret::of(Word::from(u32::from(c)))
}

extern "C" fn concat(cx: &mut Cx, this: Word, x: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_string_of(&[text(this), text(x)])))
}

extern "C" fn substr(cx: &mut Cx, this: Word, at: Word, n: Word) -> Ret {
    let (at, n, length) = (at as i64, n as i64, count(this) as i64);
    if at < 1 || n < 0 || at > length + 1 || n > length + 1 - at {
        return cx.signal(cx.image().signals().bounds);
    }
    let from = byte_at(this, (at - 1) as usize);
    let to = byte_at(this, (at - 1 + n) as usize);
    Ret::of(heap!(cx, cx.new_string(&text(this)[from..to])))
}

extern "C" fn index_of(cx: &mut Cx, this: Word, x: Word) -> Ret {
    match text(this).find(text(x)) {
        Some(at) => Ret::int(text(this)[..at].chars().count() as i64 + 1),
        None => cx.signal(cx.image().signals().not_found),
    }
}

extern "C" fn lt(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(text(a) < text(b))
}

extern "C" fn le(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(text(a) <= text(b))
}

extern "C" fn gt(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(text(a) > text(b))
}

extern "C" fn ge(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(text(a) >= text(b))
}

extern "C" fn equal(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(a == b || text(a) == text(b))
}

extern "C" fn starts_with(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(text(a).starts_with(text(b)))
}

extern "C" fn ends_with(_cx: &mut Cx, a: Word, b: Word) -> Ret {
    Ret::bool(text(a).ends_with(text(b)))
}

extern "C" fn upper(cx: &mut Cx, this: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_string(&text(this).to_uppercase())))
}

extern "C" fn lower(cx: &mut Cx, this: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_string(&text(this).to_lowercase())))
}

extern "C" fn trim(cx: &mut Cx, this: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_string(text(this).trim())))
}

/// Nothing is copied before the heap has the room: the result can be much longer than the operands.
extern "C" fn replace(cx: &mut Cx, this: Word, old: Word, new: Word) -> Ret {
    let (t, old, new) = (text(this), text(old), text(new));
    if old.is_empty() {
        return Ret::of(this);
    }
    let mut parts = t.split(old);
    let first = parts.next().unwrap_or_default();
    let rest = parts.flat_map(|part| [new, part]);
    Ret::of(heap!(cx, cx.new_string_from(std::iter::once(first).chain(rest))))
}

extern "C" fn chars(cx: &mut Cx, this: Word, closure: Word) -> Ret {
    for c in text(this).chars() {
        step!(cx, closure, Word::from(u32::from(c)));
    }
    Ret::NOTHING
}

extern "C" fn split(cx: &mut Cx, this: Word, separator: Word, closure: Word) -> Ret {
    let (t, separator) = (text(this), text(separator));
    if separator.is_empty() {
        for c in t.chars() {
            let part = heap!(cx, cx.new_string(c.encode_utf8(&mut [0; 4])));
            step!(cx, closure, part);
        }
        return Ret::NOTHING;
    }
    for part in t.split(separator) {
        let part = heap!(cx, cx.new_string(part));
        step!(cx, closure, part);
    }
    Ret::NOTHING
}

extern "C" fn to_int(cx: &mut Cx, this: Word) -> Ret {
    let t = text(this);
    let digits = t.strip_prefix(['+', '-']).unwrap_or(t);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return cx.signal_named("bad_format");
    }
    match t.parse::<i64>() {
        Ok(value) => Ret::int(value),
        Err(_) => cx.signal(cx.image().signals().overflow),
    }
}

extern "C" fn to_real(cx: &mut Cx, this: Word) -> Ret {
    match text(this).parse::<f64>() {
        Ok(value) => Ret::of(value.to_bits()),
        Err(_) => cx.signal_named("bad_format"),
    }
}

extern "C" fn hash_text(cx: &mut Cx, this: Word) -> Ret {
    match hash::visible(cx, Types::STRING, this) {
        Ok(hash) => Ret::int(hash),
        Err(ret) => ret,
    }
}
