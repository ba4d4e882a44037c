//! Operations of containers on their elements, by static type: comparing, ordering, copying.
//! (`hash` and `unparse` have files of their own.)
//!
//! Elements of users' types are asked through their own methods, which may do anything, even change
//! the container that is being looked at. So nothing here keeps a view of a container across such a
//! call: read [`Walk`] first. Code that recurs or goes round polls, which bounds both the stack and
//! the time.

use bifrost_ir::{TypeId, TypeKind};

use super::{map, tagged};
use crate::abi::{Outcome, Ret, Word};
use crate::cx::Cx;
use crate::image::ElementMethod;
use crate::invoke;
use crate::object::{self, array, cell, list, sequence, text};
use crate::reference::Object;
use crate::roots::Kept;

/// A step of a native: its value, or the outcome that the native ends with.
pub type Step<T> = Result<T, Ret>;

/// Polls.
///
/// # Errors
/// The outcome to end with: the stack is used up, or the run was ended.
pub fn attend(cx: &mut Cx) -> Step<()> {
    if cx.must_attend() {
        let attended = cx.attend();
        if !attended.returned() {
            return Err(attended);
        }
    }
    Ok(())
}

/// Makes sure that an object may be looked into. Something keeps it alive.
///
/// # Errors
/// The outcome to end with: it could not be fetched.
#[inline]
pub fn open(cx: &mut Cx, object: Word) -> Step<()> {
    // SAFETY: the callers' static types say that the word is a reference.
    match cx.opened(unsafe { Object::new(object) }) {
        opened if opened.returned() => Ok(()),
        ended => Err(ended),
    }
}

/// Keeps a value of a type while something runs that may take it out of its container.
pub fn keep(cx: &mut Cx, ty: TypeId, word: Word) -> Kept {
    let word = if cx.image().is_reference(ty) { word } else { 0 };
    cx.keep(word)
}

/// A walk over the elements of an array, sequence, vector or list: its position, not the elements.
/// It looks at the object again at each step.
#[derive(Debug)]
pub struct Walk {
    kind: TypeKind,
    object: Word,
    at: usize,
}

impl Walk {
    /// A walk from the first element on.
    pub fn new(kind: TypeKind, object: Word) -> Walk {
        Walk { kind, object, at: 0 }
    }

    /// The next element.
    ///
    /// # Errors
    /// The outcome to end with: the object could not be fetched.
    pub fn next(&mut self, cx: &mut Cx) -> Step<Option<Word>> {
        open(cx, self.object)?;
        Ok(self.step())
    }

    fn step(&mut self) -> Option<Word> {
        let object = self.object;
        // SAFETY: the object has the type of that kind, as the callers' static types say; sequences
        // and vectors are laid out alike.
        unsafe {
            match self.kind {
                TypeKind::Array(_) => {
                    if self.at >= object::get(object, array::LENGTH) as usize {
                        return None;
                    }
                    let position = object::get(object, array::HEAD) as usize + self.at;
                    self.at += 1;
                    Some(object::get(object::get(object, array::STORAGE), position))
                }
                TypeKind::Sequence(_) | TypeKind::Vector(_) => {
                    if self.at >= object::get(object, sequence::LENGTH) as usize {
                        return None;
                    }
                    self.at += 1;
                    Some(object::get(object, sequence::ELEMENTS + self.at - 1))
                }
                TypeKind::List(_) => {
                    if object::get(object, list::LENGTH) == 0 {
                        return None;
                    }
                    self.object = object::get(object, list::NEXT);
                    Some(object::get(object, list::FIRST))
                }
                _ => None,
            }
        }
    }
}

/// The number of elements that an array, sequence, vector or list has.
fn length(kind: TypeKind, object: Word) -> Word {
    let field = match kind {
        TypeKind::Array(_) => array::LENGTH,
        TypeKind::List(_) => list::LENGTH,
        _ => sequence::LENGTH,
    };
    // SAFETY: the object has the type of that kind, as the callers' static types say.
    unsafe { object::get(object, field) }
}

/// Calls a method of an element of a user's type.
///
/// # Errors
/// The outcome of a method that did not return: an exception becomes `failure`, since the methods
/// that are asked for declare none.
pub fn call(cx: &mut Cx, ty: TypeId, method: ElementMethod, args: &[Word]) -> Step<Word> {
    attend(cx)?;
    let Some(slot) = cx.image().element_slot(ty, method) else {
        return Err(cx.failure(&format!("internal error: no method {}", method.name())));
    };
    // The element may leave its container meanwhile.
    let _kept = cx.keep_all(args);
    // SAFETY: the words have the static types that the method's heading asks for: `element_slot`
    // knows only methods with those headings.
    let ret = unsafe { invoke::method(cx, slot, args) };
    match ret.outcome() {
        Outcome::Returned => Ok(ret.value),
        Outcome::Signalled => Err(cx.unhandled()),
        Outcome::Pending | Outcome::Left | Outcome::Killed => Err(ret),
    }
}

/// The comparison of contents.
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
pub fn same(cx: &mut Cx, ty: TypeId, a: Word, b: Word, how: Same) -> Step<bool> {
    let kind = cx.image().program().types.kind(ty);
    match kind {
        TypeKind::Real => Ok(f64::from_bits(a) == f64::from_bits(b)),
        k if k.is_basic() => Ok(a == b),
        // SAFETY: both words are strings by their static type.
        TypeKind::String => Ok(unsafe { text(a) == text(b) }),
        // SAFETY: both words are bytes by their static type.
        TypeKind::Bytes => Ok(unsafe { object::byte_slice(a) == object::byte_slice(b) }),
        TypeKind::Sequence(element) | TypeKind::List(element) => same_elements(cx, kind, element, a, b, how),
        TypeKind::Struct(_) | TypeKind::OneOf(_) | TypeKind::Maybe(_) => tagged::same(cx, a, b, how),
        // One object stands for an actor in each heap.
        TypeKind::Object | TypeKind::Class(_) if cx.image().program().types.def(ty).actor => Ok(a == b),
        TypeKind::Object | TypeKind::Class(_) => {
            let method = if how == Same::Equal { ElementMethod::Equal } else { ElementMethod::Similar };
            call(cx, ty, method, &[a, b]).map(|w| w != 0)
        }
        _ if how == Same::Equal => Ok(a == b),
        TypeKind::Array(element) => {
            open(cx, a)?;
            open(cx, b)?;
            // SAFETY: both words are arrays by their static type.
            let bounds = unsafe { object::get(a, array::LOW) == object::get(b, array::LOW) };
            Ok(bounds && same_elements(cx, kind, element, a, b, how)?)
        }
        TypeKind::Vector(element) => same_elements(cx, kind, element, a, b, how),
        TypeKind::Record(_) => tagged::same(cx, a, b, how),
        TypeKind::Cell(element) => {
            attend(cx)?;
            open(cx, a)?;
            open(cx, b)?;
            // SAFETY: both words are cells by their static type.
            let [full_a, full_b, a, b] = unsafe {
                [cell::FULL, cell::VALUE].map(|field| [object::get(a, field), object::get(b, field)])
            }
            .concat()[..] else {
                return Ok(false);
            };
            Ok(full_a == full_b && (full_a == 0 || same(cx, element, a, b, how)?))
        }
        TypeKind::Map(_, value) => map::similar(cx, value, a, b),
        _ => Ok(a == b),
    }
}

fn same_elements(cx: &mut Cx, kind: TypeKind, element: TypeId, a: Word, b: Word, how: Same) -> Step<bool> {
    let _containers = cx.keep_all(&[a, b]);
    open(cx, a)?;
    open(cx, b)?;
    if length(kind, a) != length(kind, b) {
        return Ok(false);
    }
    let (mut a, mut b) = (Walk::new(kind, a), Walk::new(kind, b));
    loop {
        attend(cx)?;
        match (a.next(cx)?, b.next(cx)?) {
            (None, None) => return Ok(true),
            (Some(a), Some(b)) if same(cx, element, a, b, how)? => {}
            _ => return Ok(false),
        }
    }
}

/// True if `a` comes before `b`.
///
/// # Errors
/// The outcome of a user's method that did not return.
pub fn less(cx: &mut Cx, ty: TypeId, a: Word, b: Word) -> Step<bool> {
    Ok(match cx.image().program().types.kind(ty) {
        TypeKind::Int => (a as i64) < b as i64,
        TypeKind::Real => f64::from_bits(a) < f64::from_bits(b),
        TypeKind::Char => a < b,
        // SAFETY: both words are strings by their static type.
        TypeKind::String => unsafe { text(a) < text(b) },
        _ => call(cx, ty, ElementMethod::Lt, &[a, b])? != 0,
    })
}

/// Copies a value with its type's `copy`.
///
/// # Errors
/// The outcome of a user's method that did not return, or that memory is used up.
pub fn copy(cx: &mut Cx, ty: TypeId, word: Word) -> Step<Word> {
    let kind = cx.image().program().types.kind(ty);
    match kind {
        TypeKind::Object | TypeKind::Class(_) => call(cx, ty, ElementMethod::Copy, &[word]),
        TypeKind::Array(element) => copy_array(cx, ty, element, word),
        TypeKind::Sequence(element) | TypeKind::List(element) if is_value(cx, element) => Ok(word),
        TypeKind::Sequence(element) | TypeKind::Vector(element) => copy_elements(cx, ty, element, word),
        TypeKind::List(element) => copy_list(cx, ty, element, word),
        TypeKind::Cell(element) => copy_cell(cx, ty, element, word),
        TypeKind::Record(_) | TypeKind::Struct(_) | TypeKind::OneOf(_) | TypeKind::Maybe(_) => {
            tagged::copy(cx, word)
        }
        TypeKind::Map(key, value) => map::copy(cx, ty, key, value, word),
        _ => Ok(word),
    }
}

/// True if values of the type are their own copies.
fn is_value(cx: &Cx, ty: TypeId) -> bool {
    match cx.image().program().types.kind(ty) {
        TypeKind::Sequence(element) | TypeKind::List(element) => is_value(cx, element),
        kind => kind.is_basic() || matches!(kind, TypeKind::String | TypeKind::Bytes),
    }
}

fn new_object(cx: &mut Cx, ty: TypeId, fields: &[Word]) -> Step<Word> {
    let table = cx.image().table_of(ty);
    cx.new_object(table, fields).map_err(|full| cx.out_of_memory(full))
}

/// The copy of an array. If the array shrinks meanwhile, the copy is as short.
fn copy_array(cx: &mut Cx, ty: TypeId, element: TypeId, word: Word) -> Step<Word> {
    let _original = cx.keep(word);
    let kind = TypeKind::Array(element);
    open(cx, word)?;
    // SAFETY: the word is an array by its static type.
    let (low, room) = unsafe { (object::get(word, array::LOW), object::get(word, array::LENGTH) as usize) };
    let copied = new_object(cx, ty, &[low, 0, 0, 0])?;
    let _copied = cx.keep(copied);
    if room == 0 {
        return Ok(copied);
    }
    let storage = cx.image().storage_table(element);
    let storage = cx.alloc(storage, room).map_err(|full| cx.out_of_memory(full))?.as_ptr() as Word;
    // SAFETY: the copy was made above, and its storage has `room` fields.
    unsafe { object::set(copied, array::STORAGE, storage) };
    let mut walk = Walk::new(kind, word);
    for at in 0..room {
        attend(cx)?;
        let Some(value) = walk.next(cx)? else { break };
        let value = copy(cx, element, value)?;
        // SAFETY: as above.
        unsafe {
            object::set(storage, at, value);
            object::set(copied, array::LENGTH, at as Word + 1);
        }
    }
    Ok(copied)
}

/// The copy of a sequence or vector, whose length never changes.
fn copy_elements(cx: &mut Cx, ty: TypeId, element: TypeId, word: Word) -> Step<Word> {
    let _original = cx.keep(word);
    let kind = cx.image().program().types.kind(ty);
    open(cx, word)?;
    let count = length(kind, word) as usize;
    let table = cx.image().table_of(ty);
    let copied = cx.alloc(table, sequence::ELEMENTS + count).map_err(|full| cx.out_of_memory(full))?;
    let copied = copied.as_ptr() as Word;
    let _copied = cx.keep(copied);
    let mut walk = Walk::new(kind, word);
    // SAFETY: the copy was just made with room for the length and `count` elements.
    unsafe { object::set(copied, sequence::LENGTH, count as Word) };
    for at in 0..count {
        attend(cx)?;
        let Some(value) = walk.next(cx)? else { break };
        let value = copy(cx, element, value)?;
        // SAFETY: as above.
        unsafe { object::set(copied, sequence::ELEMENTS + at, value) };
    }
    Ok(copied)
}

/// The copy of a list, from its front: a node is filled when the next is there. Nobody sees it
/// before it is whole.
fn copy_list(cx: &mut Cx, ty: TypeId, element: TypeId, word: Word) -> Step<Word> {
    let _original = cx.keep(word);
    let first = new_object(cx, ty, &[0; list::FIELDS])?;
    let _copied = cx.keep(first);
    open(cx, word)?;
    let mut walk = Walk::new(TypeKind::List(element), word);
    let (mut at, mut left) = (first, length(TypeKind::List(element), word));
    while let Some(value) = walk.next(cx)? {
        attend(cx)?;
        let value = copy(cx, element, value)?;
        let _value = keep(cx, element, value);
        let next = new_object(cx, ty, &[0; list::FIELDS])?;
        // SAFETY: the nodes were just made.
        unsafe {
            object::set(at, list::FIRST, value);
            object::set(at, list::NEXT, next);
            object::set(at, list::LENGTH, left);
        }
        (at, left) = (next, left - 1);
    }
    Ok(first)
}

fn copy_cell(cx: &mut Cx, ty: TypeId, element: TypeId, word: Word) -> Step<Word> {
    attend(cx)?;
    let _original = cx.keep(word);
    open(cx, word)?;
    // SAFETY: the word is a cell by its static type.
    let (full, value) = unsafe { (object::get(word, cell::FULL), object::get(word, cell::VALUE)) };
    let value = if full == 0 { 0 } else { copy(cx, element, value)? };
    let _value = keep(cx, element, value);
    new_object(cx, ty, &[full, value])
}
