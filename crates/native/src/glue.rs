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

use bifrost_ir::{FuncId, MethodRef, SignalId, Signature, Types};
use bifrost_runtime::abi::{Closure, Word};
use bifrost_runtime::cx::Cx as Raw;
use bifrost_runtime::native::{self, Behind, Persistence};
use bifrost_runtime::{Kept, Object, Ret, RoutineDesc};

pub use bifrost_ir::native::{NativeHeading, NativeType};
pub use bifrost_ir::{Form, TypeId};
pub use bifrost_runtime::abi::Code;
pub use bifrost_runtime::{Cx as RawCx, Ret as RawRet};

use crate::cx::{Cx, Flow};
use crate::persist::{Persist, Stored};
use crate::registry::NativeClass;
pub use crate::tagged::{Structured, new_object as new_tagged, part, tag};
use crate::value::{Alive, Argument, Given, Outcome, Value, keep};

/// The call under way, of which the heading can be asked for.
#[derive(Debug)]
pub struct Frame(Called);

/// The function that was called.
#[derive(Debug)]
enum Called {
    /// The method of that name, of this receiver.
    Method(Object, &'static str),
    Routine(&'static RoutineDesc),
    /// The method of an actor.
    Message(MethodRef),
    /// The creator of an actor.
    Creation(FuncId),
}

impl Frame {
    /// Makes the call of a method.
    ///
    /// # Safety
    /// The word is a reference to the receiver, which lives as long as the frame.
    pub unsafe fn of_method(receiver: Word, name: &'static str) -> Frame {
        // SAFETY: it is a reference to an object that lives so long.
        Frame(Called::Method(unsafe { Object::new(receiver) }, name))
    }

    /// Makes the call of a routine.
    ///
    /// # Safety
    /// The word is the first of a call of a routine.
    pub unsafe fn of_routine(descriptor: Word) -> Frame {
        // SAFETY: the first word of a routine's call is its descriptor.
        Frame(Called::Routine(unsafe { RoutineDesc::of(descriptor) }))
    }

    /// Makes the call of a method of an actor.
    pub fn of_message(method: MethodRef) -> Frame {
        Frame(Called::Message(method))
    }

    /// Makes the call of the creator of an actor.
    pub fn of_creation(creator: FuncId) -> Frame {
        Frame(Called::Creation(creator))
    }

    fn signature<T>(&self, cx: &Cx<'_>, ask: impl FnOnce(&Signature) -> Option<T>) -> Option<T> {
        let program = cx.raw.image().program();
        match self.0 {
            Called::Method(receiver, name) => {
                let method = program.types.find_method(receiver.info().ty, name)?;
                ask(&program.types.method(method).signature)
            }
            Called::Routine(routine) => ask(&program.routines[routine.routine].signature),
            Called::Message(method) => ask(&program.types.method(method).signature),
            Called::Creation(creator) => ask(&program.funcs[creator].signature),
        }
    }

    /// Returns the receiver and the name of a method.
    fn method(&self) -> Option<(Alive<'_>, &'static str)> {
        match self.0 {
            // SAFETY: the receiver lives as long as the frame.
            Called::Method(receiver, name) => Some((unsafe { Alive::new(receiver) }, name)),
            Called::Routine(_) | Called::Message(_) | Called::Creation(_) => None,
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
fn behind<'a, C: NativeClass>(cx: &mut Raw, object: Alive<'a>) -> Result<&'a Native<C>, Ret> {
    let table = cx.image().native_table(C::NAME).map(std::ptr::from_ref);
    let object = object.object();
    if table != Some(std::ptr::from_ref(object.table().ordinary())) {
        return Err(cx.failure(&format!("this is no object of `{}`", C::NAME)));
    }
    let opened = cx.opened(object);
    if !opened.returned() {
        return Err(opened);
    }
    // SAFETY: objects of the class's table are made by `new_object` only: the verifier refuses
    // programs that make some. Every `Native` begins alike, so the class can be asked for before it
    // is known; two types could have one name.
    let class = unsafe { (*native::value::<Native<()>>(object.word())).class };
    if class != RustType::of::<C>() {
        return Err(cx.failure(&format!("there are two native classes `{}`", C::NAME)));
    }
    // SAFETY: as above; the value lives as long as the object.
    Ok(unsafe { &*native::value::<Native<C>>(object.word()) })
}

/// Returns the functions that store values of a class.
pub(crate) fn persistence<C: Persist>() -> Persistence {
    fn encode<C: Persist>(raw: &mut Raw, object: Object) -> Result<native::Parts, String> {
        // SAFETY: the caller keeps the object until this returns.
        let object = unsafe { Alive::new(object) };
        let value = behind::<C>(raw, object).map_err(|_| format!("this is no object of `{}`", C::NAME))?;
        if value.poisoned.get() {
            return Err(format!("the object of `{}` is poisoned by a panic", C::NAME));
        }
        let Ok(value) = value.value.try_borrow() else {
            return Err(format!("the object of `{}` is in use", C::NAME));
        };
        let parts = unpanicked::<C, _>("encode", || Ok(value.encode()))?;
        let mut cx = Cx::new(raw);
        let objects = parts.objects.iter().map(|object| object.object(&mut cx));
        let objects = objects.collect::<Result<_, _>>();
        let objects =
            objects.map_err(|_| format!("the object of `{}` holds an object of another program", C::NAME))?;
        Ok(native::Parts { bytes: parts.bytes, objects })
    }
    fn decode<C: Persist>(raw: &mut Raw, version: u32, parts: native::Parts) -> Result<Behind, String> {
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
    object: Alive<'a>,
    of: PhantomData<&'a C>,
}

impl<C: NativeClass> Obj<'_, C> {
    /// Looks at the value; `None` if it is being changed, or poisoned, or no such object.
    pub fn with<T>(&self, cx: &mut Cx<'_>, look: impl FnOnce(&C) -> T) -> Option<T> {
        let native = behind::<C>(cx.raw, self.object).ok()?;
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

    fn take(_cx: &mut Cx<'_>, given: Given<'a, Self>) -> Result<Self, Ret> {
        // SAFETY: native classes have objects.
        Ok(Obj { object: unsafe { given.alive() }, of: PhantomData })
    }
}

/// The entry that the tables of native actors have: no node enters it.
pub(crate) extern "C" fn no_entry(raw: *mut Raw) -> Ret {
    // SAFETY: every function is entered with the current context.
    unsafe { (*raw).exhausted("internal error: a method of a native actor was entered") }
}

/// Returns the text of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// The name of a routine.
pub trait Named {
    /// As the program declares it.
    const NAME: &'static str;
}

/// Runs the body of a routine.
pub fn routine<N: Named, B>(raw: &mut Raw, frame: &Frame, body: B) -> Ret
where
    B: FnOnce(&mut Cx<'_>, &Frame) -> Result<Ret, Ret>,
{
    guarded(raw, frame, N::NAME, body)
}

/// A native that takes so many ticks of its node, of 2 ms each, is reported: all actors of the node
/// wait for it. Where turns are not ended, as in a session, nothing ticks.
const LONG_TICKS: u32 = 10;

/// Runs a body, and makes a failure of a panic.
fn guarded(
    raw: &mut Raw,
    frame: &Frame,
    name: &str,
    body: impl FnOnce(&mut Cx<'_>, &Frame) -> Result<Ret, Ret>,
) -> Ret {
    let before = raw.poll().ticks();
    let mut cx = Cx::new(raw);
    let ended = catch_unwind(AssertUnwindSafe(|| body(&mut cx, frame)));
    let ticks = cx.raw.poll().ticks().wrapping_sub(before);
    if ticks >= LONG_TICKS {
        cx.raw.note_long_native(name, ticks);
    }
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
        pub fn $name<C: NativeClass>(
            raw: &mut Raw,
            frame: &Frame,
            body: impl FnOnce($value, &mut Cx<'_>, &Frame) -> Result<Ret, Ret>,
        ) -> Ret {
            let Some((receiver, method)) = frame.method() else {
                return raw.failure("internal error: a method without a receiver");
            };
            let name = format_args!("{}.{method}", C::NAME).to_string();
            let native = match behind::<C>(raw, receiver) {
                Ok(native) => native,
                Err(ret) => return ret,
            };
            if native.poisoned.get() {
                return raw.failure(&format!("native `{name}`: the object is poisoned by a panic"));
            }
            #[allow(unused_mut, reason = "one of the two borrows changes")]
            let Ok(mut value) = native.value.$borrow() else {
                return raw.failure(&format!("native `{name}`: the object is in use"));
            };
            let mut ended = false;
            let ret = guarded(raw, frame, &name, |cx, frame| {
                let ret = body(borrowed!($borrow, value), cx, frame);
                ended = true;
                ret
            });
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
    T::take(cx, unsafe { Given::new(word, ty.unwrap_or(Types::ANY)) })
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
