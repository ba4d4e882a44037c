//! Methods of `directory` as clients of a role call them: each is bounded by the names that the
//! role grants ([`Caller::roots`](crate::caller::Caller)).
//!
//! They are routines with the directory as their first argument, and no program can name them. A
//! session calls them instead of the methods; both engines enter them as they enter any native.
//! A name that is not granted is as one that nobody has given: `lookup` and `remove` do not find
//! it, `names` and `list` pass it over. `insert` fails before it looks.

use super::directory::{insert, list_if, lookup, names_if, remove};
use super::{natives, open};
use crate::abi::{Ret, Word};
use crate::cx::Cx;
use crate::object::text;
use crate::reference::Object;

natives! {
    "granted.lookup" => granted_lookup / 3,
    "granted.insert" => granted_insert / 4,
    "granted.remove" => granted_remove / 3,
    "granted.names" => granted_names / 3,
    "granted.list" => granted_list / 3,
}

/// True if the caller may use a name.
fn is_granted(cx: &Cx, name: Word) -> bool {
    // SAFETY: the headings and the directory say that the word is a string.
    cx.grants(unsafe { text(name) })
}

/// Ends a native whose directory cannot be changed.
macro_rules! open_to_change {
    ($cx:ident, $directory:expr) => {
        // SAFETY: the heading says that the word is a directory.
        let directory = unsafe { Object::new($directory) };
        let opened = $cx.open_to_change(directory);
        if !opened.returned() {
            return opened;
        }
    };
}

extern "C" fn granted_lookup(cx: &mut Cx, _desc: Word, this: Word, name: Word) -> Ret {
    // Opened in each case, so that the transaction has read the directory in each case.
    open!(cx, this);
    match is_granted(cx, name) {
        true => lookup(cx, this, name),
        false => cx.signal(cx.image().signals().not_found),
    }
}

extern "C" fn granted_insert(cx: &mut Cx, _desc: Word, this: Word, name: Word, object: Word) -> Ret {
    if !is_granted(cx, name) {
        return cx.failure("the name is not one of those that the role of this session may use");
    }
    open_to_change!(cx, this);
    insert(cx, this, name, object)
}

extern "C" fn granted_remove(cx: &mut Cx, _desc: Word, this: Word, name: Word) -> Ret {
    open_to_change!(cx, this);
    match is_granted(cx, name) {
        true => remove(cx, this, name),
        false => cx.signal(cx.image().signals().not_found),
    }
}

extern "C" fn granted_names(cx: &mut Cx, _desc: Word, this: Word, closure: Word) -> Ret {
    open!(cx, this);
    names_if(cx, this, closure, is_granted)
}

extern "C" fn granted_list(cx: &mut Cx, _desc: Word, this: Word, closure: Word) -> Ret {
    open!(cx, this);
    list_if(cx, this, closure, is_granted)
}
