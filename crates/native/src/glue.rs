//! The functions that the code of the attributes calls. Not for use by hand.
//!
//! Read [`routine`] first: it runs the body of a native, and makes a failure of a panic. A call of
//! a native takes these steps: [`take`] each argument, run the body, and [`end`] the call with its
//! outcome, or [`step`] for each value of an iterator. A [`Frame`] is the call under way. A
//! `Native` is the value behind an object of a native class, which the object owns.

use std::any::{Any, TypeId as RustType};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bifrost_ir::{SignalId, Signature, Types};
use bifrost_runtime::abi::{Closure, Word};
use bifrost_runtime::cx::Cx as Raw;
use bifrost_runtime::native::{self, Behind, Persistence};
use bifrost_runtime::{Kept, Ret, RoutineDesc, Table};

pub use bifrost_ir::native::{NativeHeading, NativeType};
pub use bifrost_ir::{Form, TypeId};
pub use bifrost_runtime::abi::Code;
pub use bifrost_runtime::{Cx as RawCx, Ret as RawRet};

use crate::cx::{Cx, Flow};
use crate::persist::{Persist, Stored};
use crate::registry::NativeClass;
pub use crate::tagged::{new_object as new_tagged, part, tag};
use crate::value::{Argument, Outcome, Value, keep};

/// The call under way, of which the heading can be asked for.
#[derive(Debug)]
pub struct Frame {
    first: Word,
    /// The method's name; a routine's descriptor is `first`.
    method: Option<&'static str>,
}

impl Frame {
    /// Makes the call of a method.
    pub fn of_method(receiver: Word, name: &'static str) -> Frame {
        Frame { first: receiver, method: Some(name) }
    }

    /// Makes the call of a routine.
    pub fn of_routine(descriptor: Word) -> Frame {
        Frame { first: descriptor, method: None }
    }

    fn signature<T>(&self, cx: &Cx<'_>, ask: impl FnOnce(&Signature) -> Option<T>) -> Option<T> {
        let program = cx.raw.image().program();
        match self.method {
            Some(name) => {
                // SAFETY: the first word of a method's call is its receiver.
                let ty = unsafe { Table::of(self.first) }.info().ty;
                let method = program.types.find_method(ty, name)?;
                ask(&program.types.method(method).signature)
            }
            // SAFETY: the first word of a routine's call is its descriptor.
            None => ask(&program.routines[unsafe { RoutineDesc::of(self.first) }.routine].signature),
        }
    }

    /// Returns the type of a result.
    pub(crate) fn result_type(&self, cx: &Cx<'_>, at: usize) -> TypeId {
        self.signature(cx, |s| s.results.get(at).copied()).unwrap_or(Types::ANY)
    }

    /// Returns the type of a result if giving it asks for that.
    pub(crate) fn result<T: Value>(&self, cx: &Cx<'_>, at: usize) -> TypeId {
        if T::TYPED { self.result_type(cx, at) } else { Types::ANY }
    }

    /// Returns the declared type of an exception's values, if the call may end with that exception.
    pub(crate) fn signal_types(&self, cx: &Cx<'_>, signal: SignalId) -> Option<Vec<TypeId>> {
        self.signature(cx, |s| Some(s.signal(signal)?.values.clone()))
    }
}

/// The value of an object of a native class.
#[repr(C)]
struct Native<C> {
    class: RustType,
    poisoned: Cell<bool>,
    value: RefCell<C>,
}

impl<C: NativeClass> Native<C> {
    fn new(value: C) -> Native<C> {
        Native { class: RustType::of::<C>(), poisoned: Cell::new(false), value: RefCell::new(value) }
    }
}

/// Returns the value behind an object, which is opened.
///
/// # Safety
/// `object` is a reference to an object that lives for `'a`.
unsafe fn behind<'a, C: NativeClass>(cx: &mut Raw, object: Word) -> Result<&'a Native<C>, Ret> {
    let table = cx.image().native_table(C::NAME).map(std::ptr::from_ref);
    // SAFETY: the object is one, and those of the class's table are made by `new_object` only: the
    // verifier refuses programs that make some.
    unsafe {
        if table != Some(std::ptr::from_ref(Table::of(object).ordinary())) {
            return Err(cx.failure(&format!("this is no object of `{}`", C::NAME)));
        }
        let opened = cx.opened(object);
        if !opened.returned() {
            return Err(opened);
        }
        let value = native::value::<Native<C>>(object);
        // Every `Native` begins alike, so the class can be asked for before it is known; two types
        // could have one name.
        if (*value.cast::<Native<()>>()).class != RustType::of::<C>() {
            return Err(cx.failure(&format!("there are two native classes `{}`", C::NAME)));
        }
        Ok(&*value)
    }
}

/// Returns the functions that store values of a class.
pub(crate) fn persistence<C: Persist>() -> Persistence {
    unsafe fn encode<C: Persist>(raw: &mut Raw, object: Word) -> Result<native::Parts, String> {
        // SAFETY: promised by the caller.
        let value =
            unsafe { behind::<C>(raw, object) }.map_err(|_| format!("this is no object of `{}`", C::NAME))?;
        if value.poisoned.get() {
            return Err(format!("the object of `{}` is poisoned by a panic", C::NAME));
        }
        let Ok(value) = value.value.try_borrow() else {
            return Err(format!("the object of `{}` is in use", C::NAME));
        };
        let parts = unpanicked::<C, _>("encode", || Ok(value.encode()))?;
        let mut cx = Cx::new(raw);
        let objects = parts.objects.iter().map(|object| object.word(&mut cx));
        let objects = objects.collect::<Result<_, _>>();
        let objects =
            objects.map_err(|_| format!("the object of `{}` holds an object of another program", C::NAME))?;
        Ok(native::Parts { bytes: parts.bytes, objects })
    }
    unsafe fn decode<C: Persist>(
        raw: &mut Raw,
        version: u32,
        parts: native::Parts,
    ) -> Result<Behind, String> {
        let mut from = Stored::new(raw, version, parts);
        let value = unpanicked::<C, _>("decode", || C::decode(&mut from))?;
        Ok(Behind::new(Native::new(value)))
    }
    Persistence { version: C::VERSION, encode: encode::<C>, decode: decode::<C> }
}

fn unpanicked<C: NativeClass, T>(what: &str, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let ended = catch_unwind(AssertUnwindSafe(run));
    ended.unwrap_or_else(|panic| Err(format!("native `{}.{what}` panicked: {}", C::NAME, message(&*panic))))
}

/// Makes a new object with this value.
///
/// # Errors
/// The program declares no such class, or memory is used up.
pub fn new_object<C: NativeClass>(cx: &mut Cx<'_>, value: C) -> Result<Word, Ret> {
    let Some(table) = cx.raw.image().native_table(C::NAME) else {
        return Err(cx.raw.failure(&format!("the program declares no `class native \"{}\"`", C::NAME)));
    };
    cx.raw.new_native(table, Native::new(value)).map_err(|full| cx.raw.out_of_memory(full))
}

/// Returns the type of an object of a class, for headings.
pub fn object_type<C: NativeClass>() -> NativeType {
    NativeType::Object(C::NAME)
}

/// Another object of a native class, as an argument.
#[derive(Debug)]
pub struct Obj<'a, C> {
    object: Word,
    lives: PhantomData<&'a C>,
}

impl<C: NativeClass> Obj<'_, C> {
    /// Looks at the value; `None` if it is being changed, or poisoned, or no such object.
    pub fn with<T>(&self, cx: &mut Cx<'_>, look: impl FnOnce(&C) -> T) -> Option<T> {
        // SAFETY: arguments live as long as the call.
        let native = unsafe { behind::<C>(cx.raw, self.object) }.ok()?;
        if native.poisoned.get() {
            return None;
        }
        native.value.try_borrow().ok().map(|value| look(&value))
    }
}

impl<'a, C: NativeClass> Argument<'a> for Obj<'a, C> {
    fn native_type() -> NativeType {
        NativeType::Object(C::NAME)
    }

    unsafe fn take(_cx: &mut Cx<'_>, _: &'a Frame, word: Word, _: TypeId) -> Result<Self, Ret> {
        Ok(Obj { object: word, lives: PhantomData })
    }
}

/// Returns the text of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The name of a routine.
pub trait Named {
    /// As the program declares it.
    const NAME: &'static str;
}

/// Runs the body of a routine.
///
/// # Safety
/// `raw` is the current context, and `frame` the call under way.
pub unsafe fn routine<N: Named, B>(raw: *mut Raw, frame: &Frame, body: B) -> Ret
where
    B: FnOnce(&mut Cx<'_>, &Frame) -> Result<Ret, Ret>,
{
    // SAFETY: promised by the caller.
    unsafe { guarded(raw, frame, N::NAME, body) }
}

/// Runs a body, and makes a failure of a panic.
///
/// # Safety
/// As for [`routine`].
unsafe fn guarded(
    raw: *mut Raw,
    frame: &Frame,
    name: &str,
    body: impl FnOnce(&mut Cx<'_>, &Frame) -> Result<Ret, Ret>,
) -> Ret {
    // SAFETY: promised by the caller.
    let mut cx = Cx::new(unsafe { &mut *raw });
    let ended = catch_unwind(AssertUnwindSafe(|| body(&mut cx, frame)));
    match (cx.ended, ended) {
        (_, Err(panic)) => {
            let text = format!("native `{name}` panicked: {}", message(&*panic));
            cx.raw.failure(&text)
        }
        (Some(ret), _) => ret,
        (None, Ok(Ok(ret) | Err(ret))) => ret,
    }
}

/// Runs the body of a method.
macro_rules! methods {
    ($(#[$doc:meta])* $name:ident, $value:ty, $borrow:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `raw` is the current context, and `frame` the call under way, of a method of the class.
        pub unsafe fn $name<C: NativeClass>(
            raw: *mut Raw,
            frame: &Frame,
            body: impl FnOnce($value, &mut Cx<'_>, &Frame) -> Result<Ret, Ret>,
        ) -> Ret {
            let name = format_args!("{}.{}", C::NAME, frame.method.unwrap_or_default()).to_string();
            // SAFETY: promised by the caller; the receiver lives as long as the call.
            let native = match unsafe { behind::<C>(&mut *raw, frame.first) } {
                Ok(native) => native,
                Err(ret) => return ret,
            };
            // SAFETY: promised by the caller.
            let cx = unsafe { &mut *raw };
            if native.poisoned.get() {
                return cx.failure(&format!("native `{name}`: the object is poisoned by a panic"));
            }
            #[allow(unused_mut, reason = "one of the two borrows changes")]
            let Ok(mut value) = native.value.$borrow() else {
                return cx.failure(&format!("native `{name}`: the object is in use"));
            };
            let mut ended = false;
            // SAFETY: promised by the caller.
            let ret = unsafe {
                guarded(raw, frame, &name, |cx, frame| {
                    let ret = body(borrowed!($borrow, value), cx, frame);
                    ended = true;
                    ret
                })
            };
            if !ended {
                native.poisoned.set(true);
            }
            ret
        }
    };
}

macro_rules! borrowed {
    (try_borrow, $value:ident) => {
        &$value
    };
    (try_borrow_mut, $value:ident) => {
        &mut $value
    };
}

methods!(
    /// Runs the body of a method that only looks.
    method,
    &C,
    try_borrow
);
methods!(
    /// Runs the body of a method that may change the value.
    method_mut,
    &mut C,
    try_borrow_mut
);

/// Takes the argument at a position.
///
/// # Errors
/// The way in which the call ends instead.
///
/// # Safety
/// `word` is that argument of the call.
pub unsafe fn take<'a, T: Argument<'a>>(
    cx: &mut Cx<'_>,
    frame: &'a Frame,
    at: usize,
    word: Word,
) -> Result<T, Ret> {
    let ty = if T::TYPED { frame.signature(cx, |s| s.params.get(at).map(|p| p.ty)) } else { None };
    // SAFETY: promised by the caller; headings were compared when the program was linked, and
    // arguments live as long as the call.
    unsafe { T::take(cx, frame, word, ty.unwrap_or(Types::ANY)) }
}

/// Ends a procedure with its outcome.
pub fn end<O: Outcome>(cx: &mut Cx<'_>, frame: &Frame, outcome: O) -> Ret {
    // The values of an exception under way are not kept: nothing may be made of an outcome that
    // does not matter.
    cx.ended.unwrap_or_else(|| outcome.end(cx, frame))
}

/// Returns the types of an iterator's values.
pub fn yields(cx: &Cx<'_>, frame: &Frame) -> Vec<TypeId> {
    frame.signature(cx, |s| s.yields.clone()).unwrap_or_default()
}

/// Returns one value of a step of an iterator, and the reference that keeps it; `None` if the loop
/// is over.
pub fn yielded<V: Value>(
    cx: &mut Cx<'_>,
    types: &[TypeId],
    at: usize,
    value: V,
) -> Option<(Word, Option<Kept>)> {
    if cx.ended.is_some() {
        return None;
    }
    let ty = types.get(at).copied().unwrap_or(Types::ANY);
    let word = value.give(cx, ty).map_err(|ret| cx.ended = Some(ret)).ok()?;
    Some((word, keep(cx, ty, word)))
}

/// Hands a step's values to the body of the loop.
///
/// # Safety
/// `closure` is the last word of the iterator's call, and the values are those of its heading.
pub unsafe fn step(cx: &mut Cx<'_>, closure: Word, words: &[Word]) -> Flow {
    if cx.must_end() {
        return Flow::Leave;
    }
    // SAFETY: promised by the caller; the closure lives until the iterator returns.
    let stepped = unsafe { (*(closure as *const Closure)).step(cx.raw, words) };
    if stepped.returned() {
        return Flow::Next;
    }
    cx.ended = Some(stepped);
    Flow::Leave
}

/// Ends a call with an exception. The call ends with `failure` if the program has no such
/// exception, which the comparison of headings rules out.
pub fn signal(cx: &mut Cx<'_>, frame: &Frame, name: &str, values: Vec<Giver<'_>>) -> Ret {
    let id = cx.raw.image().program().types.find_signal(name);
    let types = id.and_then(|id| frame.signal_types(cx, id));
    let (Some(id), Some(types)) = (id, types) else {
        return cx.raw.failure(&format!("unhandled exception: {name}"));
    };
    let mut words = Vec::new();
    for (value, ty) in values.into_iter().zip(types) {
        match value(cx, ty) {
            Ok(word) => words.push((word, keep(cx, ty, word))),
            Err(ret) => return ret,
        }
    }
    for (at, (word, _)) in words.into_iter().enumerate() {
        cx.raw.signal_values[at] = word;
    }
    cx.raw.signal(id)
}

/// Makes a word of a value of an exception, or of a part of a value, when its type is known.
pub type Giver<'a> = Box<dyn FnOnce(&mut Cx<'_>, TypeId) -> Result<Word, Ret> + 'a>;

/// Values in the form of the [`Giver`]s that some functions ask for.
pub trait Give {
    /// Gives the value.
    fn giver<'a>(self) -> Giver<'a>
    where
        Self: 'a;
}

impl<V: Value> Give for V {
    fn giver<'a>(self) -> Giver<'a>
    where
        Self: 'a,
    {
        Box::new(move |cx, ty| self.give(cx, ty))
    }
}

/// Ends a call with `failure(text)`.
pub fn failure(cx: &mut Cx<'_>, text: &str) -> Ret {
    cx.raw.failure(text)
}
