//! Methods of `bytes`, which count from 1 and never change.

use super::{heap, natives};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::object;

natives! {
    "bytes.length" => length / 1,
    "bytes.fetch" => fetch / 2,
    "bytes.concat" => concat / 2,
    "bytes.slice" => slice / 3,
    "bytes.to_string" => to_string / 1,
    "string.to_bytes" => to_bytes / 1,
}

fn all<'a>(word: Word) -> &'a [u8] {
    // SAFETY: receivers and arguments of these methods are bytes by their headings.
    unsafe { object::byte_slice(word) }
}

extern "C" fn length(_cx: &mut Cx, this: Word) -> Ret {
    Ret::int(all(this).len() as i64)
}

extern "C" fn fetch(cx: &mut Cx, this: Word, i: Word) -> Ret {
    match all(this).get((i as usize).wrapping_sub(1)) {
        Some(byte) => Ret::of(Word::from(*byte)),
        None => cx.signal(cx.image().signals().bounds),
    }
}

extern "C" fn concat(cx: &mut Cx, this: Word, x: Word) -> Ret {
    Ret::of(heap!(cx, cx.new_bytes(&[all(this), all(x)])))
}

extern "C" fn slice(cx: &mut Cx, this: Word, at: Word, n: Word) -> Ret {
    let (at, n, length) = (at as i64, n as i64, all(this).len() as i64);
    if at < 1 || n < 0 || at > length + 1 || n > length + 1 - at {
        return cx.signal(cx.image().signals().bounds);
    }
    let part = &all(this)[(at - 1) as usize..(at - 1 + n) as usize];
    Ret::of(heap!(cx, cx.new_bytes(&[part])))
}

extern "C" fn to_string(cx: &mut Cx, this: Word) -> Ret {
    match std::str::from_utf8(all(this)) {
        Ok(text) => Ret::of(heap!(cx, cx.new_string(text))),
        Err(_) => cx.signal_named("bad_format"),
    }
}

extern "C" fn to_bytes(cx: &mut Cx, this: Word) -> Ret {
    // SAFETY: the receiver is a string.
    let text = unsafe { object::text(this) };
    Ret::of(heap!(cx, cx.new_bytes(&[text.as_bytes()])))
}
