//! Calls from Rust back into the program: of routine values ([`Proc`]) and of methods
//! ([`Ref::call`](crate::Ref::call)).
//!
//! Read [`Proc::call`] first. A call takes these steps: make words of the arguments
//! ([`Arguments`]), enter the program, and take the results from words ([`Returned`]) or the
//! exception ([`Raised`]).
//!
//! A call polls first, so natives and programs that call each other without end run out of stack as
//! programs alone do. Once a call has ended the run (`Cx::ended`), nothing is called any more, and
//! the native's result does not matter.

use std::fmt;
use std::marker::PhantomData;

use bifrost_ir::native::{self, NativeType};
use bifrost_ir::{MethodRef, SignalId, Signature, TypeId};
use bifrost_runtime::abi::{Outcome, Word};
use bifrost_runtime::{Kept, Object, Ret, invoke, object};

use crate::cx::Cx;
use crate::glue::Frame;
use crate::reference::Any;
use crate::value::{Argument, Given, Owned, Signals, Value, keep};

/// The exception with which a call into the program ended.
///
/// As the error of a native it goes on to the native's caller. It goes with its values if the
/// native is declared to signal it. Otherwise it becomes a `failure`, as for a routine of Theta
/// that does not handle it.
#[derive(Debug)]
pub struct Raised {
    /// `None` if the run was ended.
    signal: Option<SignalId>,
    name: String,
    /// The text of a `failure`.
    text: String,
    values: Vec<(TypeId, Held)>,
}

/// A value of an exception.
#[derive(Clone, Debug)]
enum Held {
    Basic(Word),
    Object(Any),
}

impl fmt::Display for Raised {
    /// Writes the name, or the text of a `failure`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_failure() { &self.text } else { &self.name })
    }
}

impl std::error::Error for Raised {}

impl Raised {
    /// Makes the sign that the run was ended: the native's result does not matter.
    fn ended() -> Raised {
        Raised { signal: None, name: String::new(), text: String::new(), values: Vec::new() }
    }

    pub(crate) fn failure(text: String) -> Raised {
        Raised { signal: Some(SignalId::FAILURE), name: "failure".to_owned(), text, values: Vec::new() }
    }

    /// Returns the exception under way, which a call with this heading ended with.
    fn under_way(cx: &mut Cx<'_>, signature: &Signature) -> Raised {
        let signal = cx.raw.signalled();
        let values = &cx.raw.signal_values;
        if signal == SignalId::FAILURE {
            // SAFETY: the value of `failure` is a string; nothing was allocated since it was
            // signalled.
            return Raised::failure(unsafe { object::text(values[0]) }.to_owned());
        }
        let name = cx.raw.image().program().types.signal_name(signal).to_owned();
        let Some(declared) = signature.signal(signal) else {
            return Raised::failure(format!("unhandled exception: {name}"));
        };
        let words: Vec<Word> = values[..declared.values.len()].to_vec();
        let held = declared.values.iter().zip(words).map(|(ty, word)| {
            (
                *ty,
                if cx.raw.image().is_reference(*ty) {
                    // SAFETY: a value of this type is an object.
                    Held::Object(Any::new(cx, unsafe { Object::new(word) }))
                } else {
                    Held::Basic(word)
                },
            )
        });
        let values = held.collect();
        Raised { signal: Some(signal), name, text: String::new(), values }
    }

    /// Returns the name of the exception; empty if the whole run was ended.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it is `failure`.
    pub fn is_failure(&self) -> bool {
        self.signal == Some(SignalId::FAILURE)
    }

    /// Returns a value of the exception; `None` if it has none there, or one of another type. The
    /// text of a `failure` is [`to_string`](ToString::to_string).
    pub fn value<T: Owned>(&self, cx: &mut Cx<'_>, at: usize) -> Option<T> {
        let (ty, held) = self.values.get(at)?;
        if !native::fits(cx.raw.image().program(), &T::native_type(), *ty, false) {
            return None;
        }
        let word = held.word(cx, *ty).ok()?;
        // SAFETY: the value has its declared type, which the Rust type fits; what is taken keeps
        // what it needs.
        T::take(cx, unsafe { Given::new(word, *ty) }).ok()
    }
}

impl Held {
    fn word(&self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        match self {
            Held::Basic(word) => Ok(*word),
            Held::Object(any) => any.word_of(cx, ty),
        }
    }
}

impl Signals for Raised {
    /// Returns none: only the program knows the exceptions of the routine values that a native is
    /// given.
    fn native_types() -> Vec<(String, Vec<NativeType>)> {
        Vec::new()
    }

    fn end(self, cx: &mut Cx<'_>, frame: &Frame) -> Ret {
        let Some(signal) = self.signal.filter(|_| !self.is_failure()) else {
            return cx.raw.failure(&self.text);
        };
        let Some(types) = frame.signal_types(cx, signal).filter(|types| types.len() == self.values.len())
        else {
            return cx.raw.failure(&format!("unhandled exception: {}", self.name));
        };
        let mut words = Vec::new();
        for ((own, held), ty) in self.values.iter().zip(types) {
            let same = *own == ty || cx.raw.image().is_reference(*own) && cx.raw.image().is_reference(ty);
            match held.word(cx, ty) {
                Ok(word) if same => words.push(word),
                Ok(_) => return cx.raw.failure(&format!("unhandled exception: {}", self.name)),
                Err(ret) => return ret,
            }
        }
        cx.raw.signal_values[..words.len()].copy_from_slice(&words);
        cx.raw.signal(signal)
    }
}

/// The words of a call with the references that keep their objects.
type Words = Vec<(Word, Option<Kept>)>;

/// The arguments that Rust gives to a call: a tuple of values.
pub trait Arguments {
    /// Returns the types of Theta.
    fn native_types() -> Vec<NativeType>;

    /// Returns the values as words of these types, as many as there are; the objects made for them
    /// are kept.
    ///
    /// # Errors
    /// The way in which the call ends instead.
    fn give(self, cx: &mut Cx<'_>, types: &[TypeId]) -> Result<Words, Ret>;
}

/// The results that Rust takes from a call: nothing, one value, or a tuple.
pub trait Returned: Sized {
    /// Returns the types of Theta.
    fn native_types() -> Vec<NativeType>;

    /// Returns the values of the words that a call ended with.
    ///
    /// # Errors
    /// The way in which the native ends instead.
    fn take(cx: &mut Cx<'_>, came: Came<'_, Self>) -> Result<Self, Ret>;
}

/// The words that a call ended with, which fit the Rust types of `R`.
pub struct Came<'w, R> {
    words: &'w [Word],
    types: &'w [TypeId],
    fits: PhantomData<fn() -> R>,
}

impl<R> fmt::Debug for Came<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Came").field(&self.words).finish()
    }
}

impl<'w, R> Came<'w, R> {
    /// Makes the words of the results of a call.
    ///
    /// # Safety
    /// There are as many words and types as values in `R`; the words have the types, which the Rust
    /// types fit, and their objects live.
    unsafe fn new(words: &'w [Word], types: &'w [TypeId]) -> Came<'w, R> {
        Came { words, types, fits: PhantomData }
    }

    /// Takes the value at a position.
    ///
    /// # Safety
    /// It is a value of type `T` in `R`.
    unsafe fn take<T: Owned>(&self, cx: &mut Cx<'_>, at: usize) -> Result<T, Ret> {
        // SAFETY: the word has the type, which `T` fits. Taking makes no objects, so those that are
        // not taken yet live on.
        T::take(cx, unsafe { Given::new(self.words[at], self.types[at]) })
    }
}

/// A heading of routine values as a Rust type: `fn(A, B) -> R`.
pub trait Heading {
    /// The arguments.
    type Arguments: Arguments;
    /// The results.
    type Returned: Returned;
}

fn give_one<T: Value>(cx: &mut Cx<'_>, value: T, ty: TypeId) -> Result<(Word, Option<Kept>), Ret> {
    let word = value.give(cx, ty)?;
    Ok((word, keep(cx, ty, word)))
}

macro_rules! arguments {
    ($($($t:ident $at:literal)*;)*) => {$(
        impl<$($t: Value),*> Arguments for ($($t,)*) {
            fn native_types() -> Vec<NativeType> {
                vec![$($t::native_type()),*]
            }

            #[allow(non_snake_case, unused_variables, reason = "a variable for each type")]
            fn give(self, cx: &mut Cx<'_>, types: &[TypeId]) -> Result<Words, Ret> {
                let ($($t,)*) = self;
                Ok(vec![$(give_one(cx, $t, types[$at])?),*])
            }
        }

        impl<$($t: Value,)* R: Returned> Heading for fn($($t),*) -> R {
            type Arguments = ($($t,)*);
            type Returned = R;
        }
    )*};
}

arguments! {
    ;
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
}

impl Returned for () {
    fn native_types() -> Vec<NativeType> {
        Vec::new()
    }

    fn take(_cx: &mut Cx<'_>, _: Came<'_, Self>) -> Result<Self, Ret> {
        Ok(())
    }
}

impl<T: Owned> Returned for T {
    fn native_types() -> Vec<NativeType> {
        vec![T::native_type()]
    }

    fn take(cx: &mut Cx<'_>, came: Came<'_, Self>) -> Result<Self, Ret> {
        // SAFETY: it is the only value.
        unsafe { came.take(cx, 0) }
    }
}

macro_rules! returned {
    ($($($t:ident $at:literal)*;)*) => {$(
        impl<$($t: Owned),*> Returned for ($($t),*) {
            fn native_types() -> Vec<NativeType> {
                vec![$($t::native_type()),*]
            }

            fn take(cx: &mut Cx<'_>, came: Came<'_, Self>) -> Result<Self, Ret> {
                // SAFETY: the positions are those of the types in the tuple.
                Ok(($(unsafe { came.take::<$t>(cx, $at) }?),*))
            }
        }
    )*};
}

returned! {
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
}

/// Calls a method of an object by its name in a type that the object has.
pub(crate) fn method<A: Arguments, R: Returned>(
    cx: &mut Cx<'_>,
    receiver: &Any,
    ty: TypeId,
    name: &str,
    args: A,
) -> Result<R, Raised> {
    let program = cx.raw.image().program();
    let method = program.types.find_method(ty, name);
    let signature = method.map(|method| &program.types.method(method).signature);
    let fits = signature.is_some_and(|signature| {
        let params: Vec<TypeId> = signature.params.iter().map(|p| p.ty).collect();
        !signature.is_iterator()
            && native::all_fit(program, &A::native_types(), &params, true)
            && native::all_fit(program, &R::native_types(), &signature.results, false)
    });
    let (Some(method), true) = (method, fits) else {
        let ty = program.types.name(ty);
        let text = match signature.map(|signature| program.types.heading(name, signature)) {
            Some(heading) => format!("a native calls `{ty}.{heading}` with another heading"),
            None => format!("a native calls `{ty}.{name}`, which does not exist"),
        };
        return Err(Raised::failure(text));
    };
    // SAFETY: the heading was compared above.
    unsafe { enter(cx, receiver, method, args) }
}

/// Calls a method of an object.
///
/// # Safety
/// `args` fit the method's arguments, and `R` its results.
unsafe fn enter<A: Arguments, R: Returned>(
    cx: &mut Cx<'_>,
    receiver: &Any,
    method: MethodRef,
    args: A,
) -> Result<R, Raised> {
    if cx.must_end() {
        return Err(Raised::ended());
    }
    let image = cx.raw.image().clone();
    let signature = &image.program().types.method(method).signature;
    let params: Vec<TypeId> = signature.params.iter().map(|p| p.ty).collect();
    let words = receiver.word_of(cx, method.ty).and_then(|word| {
        let given = args.give(cx, &params)?;
        let words: Vec<Word> = std::iter::once(word).chain(given.iter().map(|(word, _)| *word)).collect();
        Ok((words, given))
    });
    let ret = match &words {
        // SAFETY: the receiver has the type, so its table has the slot; the words are made of the
        // method's types.
        Ok((words, _kept)) => unsafe { invoke::method(cx.raw, image.dispatch().slot(method), words) },
        Err(ret) => *ret,
    };
    if ret.returned() {
        let mut words = vec![ret.value];
        words.extend_from_slice(cx.raw.results.get(1..signature.results.len()).unwrap_or_default());
        // SAFETY: the method returned these results, and nothing was allocated since.
        return match R::take(cx, unsafe { Came::new(&words, &signature.results) }) {
            Ok(results) => Ok(results),
            Err(_) => Err(Raised::under_way(cx, signature)),
        };
    }
    if ret.outcome() == Outcome::Signalled {
        return Err(Raised::under_way(cx, signature));
    }
    cx.ended = Some(ret);
    Err(Raised::ended())
}

/// A routine value: `Proc<fn(i64) -> bool>` for `proc (int) returns (bool)` with any exceptions.
pub struct Proc<F> {
    any: Any,
    ty: TypeId,
    heading: PhantomData<fn() -> F>,
}

impl<F> Clone for Proc<F> {
    fn clone(&self) -> Self {
        Proc { any: self.any.clone(), ty: self.ty, heading: PhantomData }
    }
}

impl<F> fmt::Debug for Proc<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proc").field(&self.any).finish()
    }
}

impl<F: Heading> Proc<F> {
    /// Calls the routine.
    ///
    /// # Errors
    /// The exception of the routine.
    pub fn call(&self, cx: &mut Cx<'_>, args: F::Arguments) -> Result<F::Returned, Raised> {
        let Some(call) = cx.raw.image().program().types.find_method(self.ty, "call") else {
            return Err(Raised::failure("internal error: a routine value without `call`".to_owned()));
        };
        // SAFETY: the routine type has the heading that `F` fits, as `take` was promised.
        unsafe { enter(cx, &self.any, call, args) }
    }
}

impl<'a, F: Heading> Argument<'a> for Proc<F> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        NativeType::Proc { params: F::Arguments::native_types(), results: F::Returned::native_types() }
    }

    fn take(cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: values of routine types are objects.
        let object = unsafe { given.alive() }.object();
        Ok(Proc { any: Any::new(cx, object), ty: given.ty(), heading: PhantomData })
    }
}

impl<F: Heading> Owned for Proc<F> {}

impl<F: Heading> Value for Proc<F> {
    const TYPED: bool = true;

    fn native_type() -> NativeType {
        <Proc<F> as Argument<'_>>::native_type()
    }

    fn give(self, cx: &mut Cx<'_>, ty: TypeId) -> Result<Word, Ret> {
        self.any.word_of(cx, ty)
    }
}
