//! The methods that all containers have, if their elements have them: one function each, since the
//! receiver's table gives its kind.

use bifrost_ir::TypeId;

use super::generic::{self, Same, Step};
use super::{hash, heap, natives, unparse};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::image::Table;

natives! {
    "bytes.equal" => equal / 2,
    "bytes.similar" => similar / 2,
    "bytes.copy" => copy / 1,
    "bytes.unparse" => unparse_all / 1,
    "bytes.hash" => hash_all / 1,
    "cell.equal" => equal / 2,
    "cell.similar" => similar / 2,
    "cell.copy" => copy / 1,
    "cell.unparse" => unparse_all / 1,
    "array.equal" => equal / 2,
    "array.similar" => similar / 2,
    "array.copy" => copy / 1,
    "array.unparse" => unparse_all / 1,
    "sequence.equal" => equal / 2,
    "sequence.similar" => similar / 2,
    "sequence.copy" => copy / 1,
    "sequence.unparse" => unparse_all / 1,
    "sequence.hash" => hash_all / 1,
    "vector.equal" => equal / 2,
    "vector.similar" => similar / 2,
    "vector.copy" => copy / 1,
    "vector.unparse" => unparse_all / 1,
    "list.equal" => equal / 2,
    "list.similar" => similar / 2,
    "list.copy" => copy / 1,
    "list.unparse" => unparse_all / 1,
    "list.hash" => hash_all / 1,
    "map.equal" => equal / 2,
    "map.similar" => similar / 2,
    "map.copy" => copy / 1,
    "map.unparse" => unparse_all / 1,
    "directory.equal" => equal / 2,
}

/// The type of a built-in object.
fn type_of(this: Word) -> TypeId {
    // SAFETY: receivers of these methods are objects by their headings.
    unsafe { Table::of(this) }.info().ty
}

fn end(answer: Step<Word>) -> Ret {
    answer.map_or_else(|ret| ret, Ret::of)
}

extern "C" fn equal(cx: &mut Cx, this: Word, x: Word) -> Ret {
    end(generic::same(cx, type_of(this), this, x, Same::Equal).map(Word::from))
}

extern "C" fn similar(cx: &mut Cx, this: Word, x: Word) -> Ret {
    end(generic::same(cx, type_of(this), this, x, Same::Similar).map(Word::from))
}

extern "C" fn copy(cx: &mut Cx, this: Word) -> Ret {
    end(generic::copy(cx, type_of(this), this))
}

extern "C" fn unparse_all(cx: &mut Cx, this: Word) -> Ret {
    match unparse::unparse(cx, type_of(this), this, false) {
        Ok(text) => Ret::of(heap!(cx, cx.new_string(&text))),
        Err(ret) => ret,
    }
}

extern "C" fn hash_all(cx: &mut Cx, this: Word) -> Ret {
    end(hash::visible(cx, type_of(this), this).map(|hash| hash as Word))
}
