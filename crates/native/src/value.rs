//! The Rust types that stand for the types of Theta.
//!
//! Read [`Argument`] and [`Value`]: the types that a native can take, and those that it can give.
//! [`Signals`] and [`Outcome`] are the ends of a native. `glue` calls all of them; the context owns
//! the objects, and [`Owned`] arguments keep theirs.
//!
//! | Theta | Rust |
//! | --- | --- |
//! | `int`, `real`, `bool`, `char` | `i64`, `f64`, `bool`, `char` |
//! | `null` (an argument) | `()` |
//! | `string` | `&str` (an argument), [`Text`], `String` (a result) |
//! | `bytes` | `&[u8]` (an argument), [`Bytes`], `Vec<u8>` (a result) |
//! | `sequence[T]` | [`Seq<T>`] |
//! | `maybe[T]` | `Option<T>` |
//! | `struct[...]` | a struct with `#[derive(Struct)]` |
//! | `oneof[...]` | an enum with `#[derive(OneOf)]` |
//! | `any` | [`Any`](crate::Any) |
//! | an object type | [`Ref<T>`](crate::Ref), where `T` names it |
//! | `proc (A) returns (R)` | [`Proc<fn(A) -> R>`](crate::Proc) |
//! | an object of a native class | the class (a result), [`Obj<C>`](crate::Obj) (an argument) |
//! | results `(A, B)` | `(A, B)`; none: `()` |
//! | exceptions | `Result<_, E>` with `#[derive(Signals)] enum E` |
//! | `yields (T)` | a last argument `&mut dyn FnMut(&mut Cx, T) -> Flow` |

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use bifrost_ir::native::NativeType;
use bifrost_ir::{TypeId, Types};
use bifrost_runtime::Ret;
use bifrost_runtime::abi::Word;
use bifrost_runtime::object;
use bifrost_runtime::reference::{Object, SequenceRef};
use bifrost_runtime::roots::Kept;

use crate::cx::Cx;
use crate::glue::Frame;

/// A string, shared; it reads as `&str`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Text(Arc<str>);

/// Bytes, shared; they read as `&[u8]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bytes(Arc<[u8]>);

/// A sequence, shared; it reads as `&[T]`.
#[derive(PartialEq, Eq, Debug)]
pub struct Seq<T>(Arc<[T]>);

impl<T> Clone for Seq<T> {
    fn clone(&self) -> Self {
        Seq(self.0.clone())
    }
}

/// `Deref` to the shared contents, and conversion from everything of which an `Arc` of them can be
/// made.
macro_rules! shared {
    ($name:ident $(<$t:ident>)?, $inside:ty) => {
        impl $(<$t>)? Deref for $name $(<$t>)? {
            type Target = $inside;

            fn deref(&self) -> &$inside {
                &self.0
            }
        }

        impl<$($t,)? S: Into<Arc<$inside>>> From<S> for $name $(<$t>)? {
            fn from(inside: S) -> Self {
                $name(inside.into())
            }
        }
    };
}

shared!(Text, str);
shared!(Bytes, [u8]);
shared!(Seq<T>, [T]);

impl<T> FromIterator<T> for Seq<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Seq(items.into_iter().collect())
    }
}

/// A word for a Rust type, which fits the word's type of Theta.
pub struct Given<'a, T> {
    word: Word,
    ty: TypeId,
    lives: PhantomData<&'a ()>,
    fits: PhantomData<fn() -> T>,
}

impl<T> Clone for Given<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Given<'_, T> {}

impl<T> fmt::Debug for Given<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Given").field(&self.word).field(&self.ty).finish()
    }
}

impl<'a, T> Given<'a, T> {
    /// Makes the word of an argument, of a result, or of a part of one.
    ///
    /// # Safety
    /// The word has a type that [`native_type`](Argument::native_type) of `T` fits, `ty` if `T` is
    /// `TYPED`, and the object that it refers to lives for `'a`.
    pub unsafe fn new(word: Word, ty: TypeId) -> Given<'a, T> {
        Given { word, ty, lives: PhantomData, fits: PhantomData }
    }

    /// Returns the word.
    pub(crate) fn word(self) -> Word {
        self.word
    }

    /// Returns the static type; it only counts if `T` is `TYPED`.
    pub(crate) fn ty(self) -> TypeId {
        self.ty
    }

    /// Returns the object.
    ///
    /// # Safety
    /// `T` stands for a type of objects.
    pub(crate) unsafe fn alive(self) -> Alive<'a> {
        // SAFETY: the word is a reference to an object that lives for `'a`.
        Alive { object: unsafe { Object::new(self.word) }, lives: PhantomData }
    }
}

/// An object that lives for `'a`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alive<'a> {
    object: Object,
    lives: PhantomData<&'a ()>,
}

impl<'a> Alive<'a> {
    /// Makes a reference to an object that lives so long.
    ///
    /// # Safety
    /// The object lives for `'a`.
    pub(crate) unsafe fn new(object: Object) -> Alive<'a> {
        Alive { object, lives: PhantomData }
    }

    /// Returns the object.
    pub(crate) fn object(self) -> Object {
        self.object
    }
}

/// A type that a native can take as an argument.
pub trait Argument<'a>: Sized {
    /// True if [`take`](Argument::take) looks at its type argument, which takes time to find out.
    const TYPED: bool = false;

    /// Returns the type of Theta.
    fn native_type() -> NativeType;

    /// Returns the value of a word. Makes no objects.
    ///
    /// # Errors
    /// The way in which the call ends instead.
    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret>;
}

/// An argument that keeps the objects of the call that it needs, and so can outlive the call.
pub trait Owned: for<'a> Argument<'a> {}

/// A type that a native can give: as a result, a value of an exception, or at a step of an
/// iterator.
pub trait Value {
    /// True if [`give`](Value::give) looks at its type argument, which takes time to find out.
    const TYPED: bool = false;

    /// Returns the type of Theta.
    fn native_type() -> NativeType;

    /// Returns the value as a word of the type `ty`, which only counts if `TYPED`. If it is a
    /// reference, nothing keeps the object yet.
    ///
    /// # Errors
    /// The way in which the call ends instead: memory is used up.
    fn give(self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret>;
}

/// Types whose values are words themselves.
macro_rules! basic {
    ($($rust:ty, $theta:ident, |$word:ident| $from:expr, |$value:ident| $to:expr;)*) => {$(
        impl<'a> Argument<'a> for $rust {
            fn native_type() -> NativeType {
                NativeType::Plain(Types::$theta)
            }

            fn take(_cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
                let $word = given.word();
                Ok($from)
            }
        }

        impl Owned for $rust {}

        impl Value for $rust {
            fn native_type() -> NativeType {
                NativeType::Plain(Types::$theta)
            }

            fn give(self, _cx: &mut Cx<'_>, _ty: TypeId) -> Result<Word, Ret> {
                let $value = self;
                Ok($to)
            }
        }
    )*};
}

basic! {
    i64, INT, |word| word as i64, |value| value as Word;
    f64, REAL, |word| f64::from_bits(word), |value| value.to_bits();
    bool, BOOL, |word| word != 0, |value| Word::from(value);
    char, CHAR, |word| char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER), |value| Word::from(u32::from(value));
}

impl<'a> Argument<'a> for () {
    fn native_type() -> NativeType {
        NativeType::Plain(Types::NULL)
    }

    fn take(_cx: &mut Cx<'_>, _: Given<'a, Self>) -> Result<Self, Ret> {
        Ok(())
    }
}

impl<'a> Argument<'a> for &'a str {
    fn native_type() -> NativeType {
        NativeType::Plain(Types::STRING)
    }

    fn take(_cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: it is a string, which lives for `'a` and never changes.
        Ok(unsafe { object::text(given.word()) })
    }
}

impl<'a> Argument<'a> for &'a [u8] {
    fn native_type() -> NativeType {
        NativeType::Plain(Types::BYTES)
    }

    fn take(_cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: they are bytes, which live for `'a` and never change.
        Ok(unsafe { object::byte_slice(given.word()) })
    }
}

impl<'a> Argument<'a> for Text {
    fn native_type() -> NativeType {
        NativeType::Plain(Types::STRING)
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: both Rust types stand for a string.
        <&str>::take(cx, unsafe { Given::new(given.word(), given.ty()) }).map(Text::from)
    }
}

impl Owned for Text {}

impl<'a> Argument<'a> for Bytes {
    fn native_type() -> NativeType {
        NativeType::Plain(Types::BYTES)
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: both Rust types stand for bytes.
        <&[u8]>::take(cx, unsafe { Given::new(given.word(), given.ty()) }).map(Bytes::from)
    }
}

impl Owned for Bytes {}

impl<'a, T: Argument<'a>> Argument<'a> for Seq<T> {
    const TYPED: bool = T::TYPED;

    fn native_type() -> NativeType {
        NativeType::Sequence(Box::new(T::native_type()))
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        let element = if T::TYPED { element_of(cx, given.ty())? } else { Types::ANY };
        // SAFETY: a sequence is an object.
        open(cx, unsafe { given.alive() })?;
        // SAFETY: it is a sequence, which never changes.
        let sequence = unsafe { SequenceRef::new(given.word()) };
        // SAFETY: elements of a sequence have its element type and live as long as it does.
        let elements = sequence.elements().iter().map(|word| unsafe { Given::new(*word, element) });
        elements.map(|given| T::take(cx, given)).collect()
    }
}

impl<T: Owned> Owned for Seq<T> {}

/// Makes sure that an object may be looked into.
///
/// # Errors
/// The way in which the call ends instead: the object could not be fetched.
pub(crate) fn open(cx: &mut Cx<'_>, object: Alive<'_>) -> Result<(), Ret> {
    match cx.raw.opened(object.object()) {
        opened if opened.returned() => Ok(()),
        ended => Err(ended),
    }
}

/// Returns the type argument of `sequence[T]` or `maybe[T]`.
pub(crate) fn element_of(cx: &mut Cx<'_>, ty: TypeId) -> Result<TypeId, Ret> {
    let element = cx.raw.image().program().types.kind(ty).element();
    element.ok_or_else(|| cx.raw.failure("internal error: a type without elements"))
}

macro_rules! texts {
    ($($rust:ty),*) => {$(
        impl Value for $rust {
            fn native_type() -> NativeType {
                NativeType::Plain(Types::STRING)
            }

            fn give(self, cx: &mut Cx<'_>, _ty: TypeId) -> Result<Word, Ret> {
                cx.raw.new_string(&self).map_err(|full| cx.raw.out_of_memory(full))
            }
        }
    )*};
}

texts!(Text, String, &str);

macro_rules! bytes {
    ($($rust:ty),*) => {$(
        impl Value for $rust {
            fn native_type() -> NativeType {
                NativeType::Plain(Types::BYTES)
            }

            fn give(self, cx: &mut Cx<'_>, _ty: TypeId) -> Result<Word, Ret> {
                cx.raw.new_bytes(&[&self]).map_err(|full| cx.raw.out_of_memory(full))
            }
        }
    )*};
}

bytes!(Bytes, Vec<u8>, &[u8]);

impl<T: Value + Clone> Value for Seq<T> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Sequence(Box::new(T::native_type()))
    }

    fn give(self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        let element = element_of(cx, ty)?;
        let table = cx.raw.image().table_of(ty);
        let made = cx.raw.alloc(table, object::sequence::ELEMENTS + self.len());
        let made = made.map_err(|full| cx.raw.out_of_memory(full))?.as_ptr() as Word;
        let _kept = cx.raw.keep(made);
        for (at, value) in self.iter().enumerate() {
            let word = value.clone().give(cx, element)?;
            // SAFETY: the sequence was just made with room for its length and that many elements;
            // nobody else sees it.
            unsafe { object::set(made, object::sequence::ELEMENTS + at, word) };
        }
        // SAFETY: as above.
        unsafe { object::set(made, object::sequence::LENGTH, self.len() as Word) };
        Ok(made)
    }
}

/// The results of a native procedure: no value, one, or several.
pub trait Results {
    /// Returns the types of Theta.
    fn native_types() -> Vec<NativeType>;

    /// Ends the call with the values.
    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret;
}

impl Results for () {
    fn native_types() -> Vec<NativeType> {
        Vec::new()
    }

    fn end(self, _cx: &mut Cx<'_>, _frame: &Frame) -> Ret {
        Ret::NOTHING
    }
}

impl<T: Value> Results for T {
    fn native_types() -> Vec<NativeType> {
        vec![T::native_type()]
    }

    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret {
        let ty = frame.result::<T>(cx, 0);
        self.give(cx, ty).map_or_else(|ret| ret, Ret::of)
    }
}

/// Keeps a word alive if it is a reference.
pub(crate) fn keep(cx: &mut Cx<'_>, ty: TypeId, word: Word) -> Option<Kept> {
    cx.raw.image().is_reference(ty).then(|| cx.raw.keep(word))
}

macro_rules! tuples {
    ($($first:ident $($rest:ident $at:literal)*;)*) => {$(
        impl<$first: Value, $($rest: Value),*> Results for ($first, $($rest),*) {
            fn native_types() -> Vec<NativeType> {
                vec![$first::native_type(), $($rest::native_type()),*]
            }

            #[allow(non_snake_case, reason = "a variable for each type")]
            fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret {
                let ($first, $($rest),*) = self;
                let ty = frame.result_type(cx, 0);
                let (first, _kept) = match $first.give(cx, ty).map(|word| (word, keep(cx, ty, word))) {
                    Ok(first) => first,
                    Err(ret) => return ret,
                };
                $(
                    let ty = frame.result_type(cx, $at);
                    let ($rest, _kept) = match $rest.give(cx, ty).map(|word| (word, keep(cx, ty, word))) {
                        Ok(word) => word,
                        Err(ret) => return ret,
                    };
                )*
                $(cx.raw.results[$at] = $rest;)*
                Ret::of(first)
            }
        }
    )*};
}

tuples! {
    A B 1;
    A B 1 C 2;
    A B 1 C 2 D 3;
}

/// The exceptions of a native: an enum with `#[derive(Signals)]`, whose variants in snake case are
/// the names.
pub trait Signals {
    /// Returns the names, and the types of their values.
    fn native_types() -> Vec<(String, Vec<NativeType>)>;

    /// Ends the call with the exception.
    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret;
}

/// The end of a native: its results, or an exception.
pub trait Outcome {
    /// Returns the types of the results.
    fn results() -> Vec<NativeType>;

    /// Returns the exceptions.
    fn signals() -> Vec<(String, Vec<NativeType>)>;

    /// Ends the call.
    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret;
}

impl<T: Results> Outcome for T {
    fn results() -> Vec<NativeType> {
        T::native_types()
    }

    fn signals() -> Vec<(String, Vec<NativeType>)> {
        Vec::new()
    }

    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret {
        Results::end(self, cx, frame)
    }
}

impl<T: Results, E: Signals> Outcome for Result<T, E> {
    fn results() -> Vec<NativeType> {
        T::native_types()
    }

    fn signals() -> Vec<(String, Vec<NativeType>)> {
        E::native_types()
    }

    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret {
        match self {
            Ok(results) => results.end(cx, frame),
            Err(signal) => signal.end(cx, frame),
        }
    }
}
