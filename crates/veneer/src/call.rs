//! Recording one call: the functions and macros that generated stubs are made of.
//!
//! [`Stub`] is the type to read first. [`Stub::call`] records a call: it admits it, appends the
//! receiver and the [`Argument`]s, and returns [`Results`], whose stubs have the slots of the new
//! futures. The state (`crate::state::State`) owns the batch and the slots; a stub owns one count
//! of its slot.
//!
//! [`IntoArg`] says which Rust values can be an argument, [`Element`] which Rust type stands for a
//! type of Theta.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use bifrost_wire::{Ref, TypeNumber, encode, op};

use crate::error::Error;
use crate::promise::Promise;
use crate::state::{Core, Known, Made, OwnedValue, State};
use crate::stubs::{CellNumbers, Numbers};

/// A reference to a server's object or value. Clones are the same stub. When the last one is
/// dropped, the server is told that the object is no longer wanted.
///
/// Generated types wrap one.
pub struct Stub {
    pub(crate) core: Rc<Core>,
    pub(crate) slot: u32,
}

impl Clone for Stub {
    fn clone(&self) -> Stub {
        self.core.state.borrow_mut().retain(self.slot);
        Stub { core: self.core.clone(), slot: self.slot }
    }
}

impl Drop for Stub {
    #[inline]
    fn drop(&mut self) {
        // No user code runs while the state is borrowed, so this never fails.
        if let Ok(mut state) = self.core.state.try_borrow_mut() {
            state.release(self.slot);
        }
    }
}

impl std::fmt::Debug for Stub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ok(state) = self.core.state.try_borrow() else { return f.write_str("stub") };
        match state.known(self.slot) {
            Known::Future(position) => write!(f, "future {position}"),
            Known::Handle(handle) => write!(f, "handle {}", handle.0),
            Known::Value(value) => write!(f, "{value:?}"),
            Known::Failed(error) => write!(f, "failed: {error}"),
            Known::Free => f.write_str("stub"),
        }
    }
}

impl Stub {
    /// Records a call of a method, by its number in the stubs.
    ///
    /// Cost: some nanoseconds, and no allocation once the tables have grown.
    #[inline]
    #[track_caller]
    pub fn call<R: Results>(&self, method: u32, arguments: &[Argument<'_>]) -> R {
        self.call_at(method, arguments, Location::caller())
    }

    /// As [`Stub::call`], at a place of the program.
    #[inline]
    pub(crate) fn call_at<R: Results>(
        &self,
        method: u32,
        arguments: &[Argument<'_>],
        location: &'static Location<'static>,
    ) -> R {
        let state = &mut *self.core.state.borrow_mut();
        let receiver = match state.admit() {
            Ok(()) => match state.live_reference(self.slot) {
                Some(reference) => Ok(reference),
                None => state.expect_reference(self.slot, location),
            },
            Err(error) => Err(error),
        };
        record_method(&self.core, state, op::CALL, method, receiver, arguments, location)
    }

    /// Records a message to an actor that nobody awaits.
    ///
    /// Cost: as [`Stub::call`].
    #[track_caller]
    pub fn send(&self, method: u32, arguments: &[Argument<'_>]) {
        let location = Location::caller();
        // A failure to send it is told with the batch; the promise must go when the state is free
        // again.
        let _sent: Promise<()> = {
            let state = &mut *self.core.state.borrow_mut();
            let receiver = state.admit().and_then(|()| state.expect_reference(self.slot, location));
            record_method(&self.core, state, op::SEND, method, receiver, arguments, location)
        };
    }

    /// True if two stubs are known to be the same object: the same stub, or the same handle.
    pub fn is_same(&self, other: &Stub) -> bool {
        if !Rc::ptr_eq(&self.core, &other.core) {
            return false;
        }
        let state = self.core.state.borrow();
        match (state.known(self.slot), state.known(other.slot)) {
            (Known::Handle(a), Known::Handle(b)) => a == b,
            _ => self.slot == other.slot,
        }
    }

    /// Waits until the object is known to be there: flushes if it must.
    #[track_caller]
    pub(crate) fn resolve(&self) -> Result<(), Error> {
        let location = Location::caller();
        let mut state = self.core.state.borrow_mut();
        if let Known::Future(_) = state.known(self.slot) {
            state.synchronize("claim", location)?;
        }
        state.known_or_failed(self.slot)
    }
}

pub(crate) fn missing(name: Arc<str>) -> Arc<Error> {
    Arc::new(Error::Missing { name })
}

/// Records a method's call, with the knowledge about its receiver.
#[inline(always)]
pub(crate) fn record_method<R: Results>(
    core: &Rc<Core>,
    state: &mut State,
    code: u8,
    method: u32,
    receiver: Result<Ref, Arc<Error>>,
    arguments: &[Argument<'_>],
    location: &'static Location<'static>,
) -> R {
    let recorded = match receiver {
        Ok(receiver) => match state.numbers.method(method) {
            Some(number) => {
                let start = state.batch.len();
                let head = encode::head(code, 0, number.0);
                let mut first = [0; 16];
                first[8..].copy_from_slice(&receiver.0.to_le_bytes());
                state.batch.extend_from_slice(&first);
                state.record(core, start, head, arguments)
            }
            None => Err(missing(state.numbers.method_name(method))),
        },
        Err(error) => Err(error),
    };
    results(core, state, recorded, Made::Method(method), location)
}

/// Records a call without receiver, whose first word is `head` with the tags of the arguments.
pub(crate) fn record_plain<R: Results>(
    core: &Rc<Core>,
    made: Made,
    location: &'static Location<'static>,
    head: impl FnOnce(&mut Numbers) -> Result<u64, Arc<Error>>,
    arguments: &[Argument<'_>],
) -> R {
    let state = &mut *core.state.borrow_mut();
    let head = state.admit().and_then(|()| head(&mut state.numbers));
    let start = state.batch.len();
    let recorded = head.and_then(|head| {
        encode::word(&mut state.batch, head);
        state.record(core, start, head, arguments)
    });
    results(core, state, recorded, made, location)
}

/// Returns the stubs of a call that was recorded, or that was not.
#[inline(always)]
fn results<R: Results>(
    core: &Rc<Core>,
    state: &mut State,
    recorded: Result<(), Arc<Error>>,
    made: Made,
    location: &'static Location<'static>,
) -> R {
    match recorded {
        Ok(()) => R::take(|| Stub { core: core.clone(), slot: state.new_future(made, location) }),
        Err(error) => {
            let name = state.made_name(made);
            let error = state.refuse(name, location, error);
            R::take(|| Stub { core: core.clone(), slot: state.failed(error.clone()) })
        }
    }
}

/// Records a call: `call! { self.0, 121, user, iters }`. Generated methods are made of it.
#[macro_export]
macro_rules! call {
    ($stub:expr, $method:literal $(, $argument:ident)*) => {
        $stub.call($method, &[$($crate::IntoArg::argument(&$argument)),*])
    };
}

/// Records a message to an actor that nobody awaits: `send! { self.0, 121, user, iters }`.
/// Generated methods are made of it.
#[macro_export]
macro_rules! send {
    ($stub:expr, $method:literal $(, $argument:ident)*) => {
        $stub.send($method, &[$($crate::IntoArg::argument(&$argument)),*])
    };
}

/// The results of a call: a promise, an object's stub, or a tuple of these.
pub trait Results: Sized {
    /// Takes the stubs of the results, in order.
    fn take(next: impl FnMut() -> Stub) -> Self;
}

impl<T: Reference> Results for T {
    #[inline(always)]
    fn take(mut next: impl FnMut() -> Stub) -> T {
        T::from_stub(next())
    }
}

/// A typed stub: a [`Promise`], a [`crate::Cell`], or a generated type.
pub trait Reference: Sized + 'static {
    /// Wraps a stub.
    fn from_stub(stub: Stub) -> Self;

    /// Returns the stub inside.
    fn stub(&self) -> &Stub;
}

/// A Theta type as Rust has it: `i64`, `String`, a generated type. Cells hold elements, iterators
/// yield them and procedures take them.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a type that the server has")]
pub trait Element: Sized + 'static {
    /// The type that stands for one while its value is not known.
    type Future: Reference;

    /// Returns the number of the type in the stubs.
    fn ty(numbers: &Numbered<'_>) -> u32;

    /// Returns the numbers of its cells in the stubs.
    fn cell(numbers: &Numbered<'_>) -> CellNumbers;
}

/// The stubs that a session was connected with, for [`Element`].
pub struct Numbered<'s>(pub(crate) &'s Numbers);

impl Numbered<'_> {
    /// Returns the numbers of a basic type.
    pub(crate) fn basic(&self, index: usize) -> (u32, CellNumbers) {
        self.0.stubs().basic.get(index).copied().unwrap_or((u32::MAX, CellNumbers::NONE))
    }
}

pub(crate) fn server_type<T: Element>(numbers: &Numbers) -> Option<TypeNumber> {
    numbers.ty(T::ty(&Numbered(numbers)))
}

/// A value that can be passed where a `T` is expected: for a basic type a value or a promise of it,
/// for an object a stub of the type or of a subtype.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed where `{T}` is expected",
    note = "a basic value is passed as itself or as a promise, an object by a reference to its stub"
)]
pub trait IntoArg<T: ?Sized> {
    /// Returns the argument that is appended to the call.
    fn argument(&self) -> Argument<'_>;
}

/// An argument as it is recorded.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A stub.
    Stub(&'a Stub),
    /// A value.
    Value(bifrost_wire::Value<'a>),
}

/// A procedure that is to be called.
#[doc(hidden)]
pub struct ProcedureCall<'s> {
    pub(crate) core: &'s Rc<Core>,
    pub(crate) number: u32,
    pub(crate) refused: &'s Option<Arc<Error>>,
    pub(crate) location: &'static Location<'static>,
}

impl ProcedureCall<'_> {
    fn record<R: Results, const N: usize>(self, arguments: [Argument<'_>; N]) -> R {
        let head = encode::head(op::CALL_PROCEDURE, 0, self.number);
        let (made, head) = match self.refused {
            None => (Made::Procedure(self.number), Ok(head)),
            // Another procedure has the number.
            Some(error) => (Made::Procedure(u32::MAX), Err(error.clone())),
        };
        record_plain(self.core, made, self.location, |_| head, &arguments)
    }
}

/// The arguments of a procedure, as a tuple.
pub trait IntoArgs<P> {
    /// Their number.
    const COUNT: u8;

    /// Records the call of a procedure with them.
    #[doc(hidden)]
    fn record<R: Results>(&self, procedure: ProcedureCall<'_>) -> R;
}

macro_rules! tuples {
    ($($count:literal: $($t:ident $a:ident $i:tt),*;)*) => {$(
        impl<$($t: Reference),*> Results for ($($t,)*) {
            fn take(mut next: impl FnMut() -> Stub) -> Self {
                ($($t::from_stub(next()),)*)
            }
        }

        impl<$($t, $a: IntoArg<$t>),*> IntoArgs<($($t,)*)> for ($($a,)*) {
            const COUNT: u8 = $count;

            fn record<Results_: Results>(&self, procedure: ProcedureCall<'_>) -> Results_ {
                procedure.record([$(self.$i.argument()),*])
            }
        }

        impl<$($t: Element),*> crate::procedure::Params for ($($t,)*) {
            type Futures = ($($t::Future,)*);

            fn types(numbers: &Numbered<'_>) -> Vec<u32> {
                vec![$($t::ty(numbers)),*]
            }
        }
    )*};
}

tuples! {
    1: A X 0;
    2: A X 0, B Y 1;
    3: A X 0, B Y 1, C Z 2;
    4: A X 0, B Y 1, C Z 2, D W 3;
    5: A X 0, B Y 1, C Z 2, D W 3, E V 4;
    6: A X 0, B Y 1, C Z 2, D W 3, E V 4, F U 5;
}

impl IntoArgs<()> for () {
    const COUNT: u8 = 0;

    fn record<R: Results>(&self, procedure: ProcedureCall<'_>) -> R {
        procedure.record([])
    }
}

macro_rules! basic {
    ($($ty:ty, $index:literal, $variant:ident;)*) => {$(
        impl Element for $ty {
            type Future = Promise<$ty>;

            fn ty(numbers: &Numbered<'_>) -> u32 {
                numbers.basic($index).0
            }

            fn cell(numbers: &Numbered<'_>) -> CellNumbers {
                numbers.basic($index).1
            }
        }

        impl IntoArg<$ty> for Promise<$ty> {
            #[inline]
            fn argument(&self) -> Argument<'_> {
                Argument::Stub(self.stub())
            }
        }

        impl IntoArg<$ty> for &Promise<$ty> {
            #[inline]
            fn argument(&self) -> Argument<'_> {
                Argument::Stub(self.stub())
            }
        }
    )*};
}

basic! {
    (), 0, Nil;
    bool, 1, Bool;
    i64, 2, Int;
    f64, 3, Real;
    char, 4, Char;
    String, 5, Str;
}

macro_rules! by_value {
    ($($ty:ty, $variant:ident;)*) => {$(
        impl IntoArg<$ty> for $ty {
            #[inline]
            fn argument(&self) -> Argument<'_> {
                Argument::Value(bifrost_wire::Value::$variant(*self))
            }
        }
    )*};
}

by_value! {
    bool, Bool;
    i64, Int;
    f64, Real;
    char, Char;
}

impl IntoArg<()> for () {
    fn argument(&self) -> Argument<'_> {
        Argument::Value(bifrost_wire::Value::Nil)
    }
}

impl IntoArg<String> for &str {
    #[inline]
    fn argument(&self) -> Argument<'_> {
        Argument::Value(bifrost_wire::Value::Str(self))
    }
}

impl IntoArg<String> for String {
    fn argument(&self) -> Argument<'_> {
        Argument::Value(bifrost_wire::Value::Str(self))
    }
}

impl IntoArg<String> for &String {
    fn argument(&self) -> Argument<'_> {
        Argument::Value(bifrost_wire::Value::Str(self))
    }
}

/// An argument kept for later, when a call is recorded after the expression that makes it.
pub(crate) enum Kept {
    Stub(Stub),
    Value(OwnedValue),
}

impl Kept {
    pub(crate) fn new(argument: Argument<'_>) -> Kept {
        match argument {
            Argument::Stub(stub) => Kept::Stub(stub.clone()),
            Argument::Value(value) => Kept::Value(OwnedValue::from_wire(value)),
        }
    }

    pub(crate) fn argument(&self) -> Argument<'_> {
        match self {
            Kept::Stub(stub) => Argument::Stub(stub),
            Kept::Value(value) => Argument::Value(value.view()),
        }
    }
}

/// Records a routine's call: `call_routine! { session, INTERFACE, 3, x, y }`.
#[macro_export]
macro_rules! call_routine {
    ($session:ident, $stubs:ident, $routine:literal $(, $argument:ident)*) => {
        $session.call_routine(&$stubs, $routine, &[$($crate::IntoArg::argument(&$argument)),*])
    };
}
