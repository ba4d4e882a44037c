//! Recording one call: the functions and macros that generated stubs are made of.
//!
//! [`Stub`] is the type to read first. [`Stub::call`] records a call: it admits it, appends the
//! receiver and the [`Argument`]s, and returns [`Results`], whose stubs have the slots of the new
//! futures. The recorder owns the batch and the slots; a stub owns one count of its slot.
//!
//! [`IntoArg`] says which Rust values can be an argument, [`Element`] which Rust type stands for a
//! type of Theta.

use std::sync::Arc;

use bifrost_recorder::{Admission, CellNumbers, Compose, Known, Numbers, Operand, Owner, Recorded, Slot};

use crate::error::{Error, Place};
use crate::live::{Core, Recorder};
use crate::plain::{Items, Plain};
use crate::promise::{Promise, Value};
use crate::shared::Shared;

/// A reference to a server's object or value. Clones are the same stub. When the last one is
/// dropped, the server is told that the object is no longer wanted.
///
/// Generated types wrap one.
pub struct Stub {
    pub(crate) core: Shared<Core>,
    pub(crate) slot: Slot,
}

impl Clone for Stub {
    fn clone(&self) -> Stub {
        self.core.live.borrow_mut().recorder.retain(self.slot);
        Stub { core: self.core.clone(), slot: self.slot }
    }
}

impl Drop for Stub {
    #[inline]
    fn drop(&mut self) {
        // No user code runs while the state is borrowed, so this never fails.
        if let Some(mut live) = self.core.live.try_borrow_mut() {
            live.recorder.release(self.slot);
        }
    }
}

impl std::fmt::Debug for Stub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(live) = self.core.live.try_borrow_mut() else { return f.write_str("stub") };
        match live.recorder.known(self.slot) {
            Known::Future(position) => write!(f, "future {position}"),
            Known::UnderWay(batch) => write!(f, "of batch {batch}, which is under way"),
            Known::Handle(handle) => write!(f, "handle {}", handle.0),
            Known::Value(value) => write!(f, "{value:?}"),
            Known::Rows(rows) => write!(f, "{} rows", rows.len()),
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
        self.call_at(method, arguments, Place::caller())
    }

    /// As [`Stub::call`], at a place of the program.
    #[inline]
    pub(crate) fn call_at<R: Results>(&self, method: u32, arguments: &[Argument<'_>], place: Place) -> R {
        let live = &mut *self.core.live.borrow_mut();
        let admitted = live.admit();
        let arguments = operands(&self.core, arguments);
        let recorded = live.recorder.call(admitted, self.slot, method, arguments, place);
        results(&self.core, &mut live.recorder, recorded, place)
    }

    /// Records a message to an actor that nobody awaits.
    ///
    /// Cost: as [`Stub::call`].
    #[track_caller]
    pub fn send(&self, method: u32, arguments: &[Argument<'_>]) {
        let place = Place::caller();
        // A failure to send it is told with the batch; the promise must go when the session is free
        // again.
        let _sent: Promise<()> = {
            let live = &mut *self.core.live.borrow_mut();
            let admitted = live.admit();
            let arguments = operands(&self.core, arguments);
            let recorded = live.recorder.send(admitted, self.slot, method, arguments, place);
            results(&self.core, &mut live.recorder, recorded, place)
        };
    }

    /// Records that the object is seen as one of another type.
    #[track_caller]
    #[doc(hidden)]
    pub fn cast<T: Element>(&self) -> T::Future {
        self.with_type::<T, _>(Recorder::cast, Place::caller())
    }

    /// Records that the contents of the object are taken.
    #[track_caller]
    #[doc(hidden)]
    pub fn contents<T: Plain>(&self) -> Promise<T> {
        let place = Place::caller();
        let live = &mut *self.core.live.borrow_mut();
        let admitted = live.admit();
        let recorded = live.recorder.get(admitted, self.slot, place);
        results(&self.core, &mut live.recorder, recorded, place)
    }

    /// Records the test if the object has a type.
    #[track_caller]
    #[doc(hidden)]
    pub fn test_type<T: Element>(&self) -> Promise<bool> {
        self.with_type::<T, _>(Recorder::test_type, Place::caller())
    }

    fn with_type<T: Element, R: Results>(
        &self,
        record: impl FnOnce(&mut Recorder, Admission<Place>, Slot, (u32, &str), Place) -> Recorded<Place>,
        place: Place,
    ) -> R {
        let live = &mut *self.core.live.borrow_mut();
        let admitted = live.admit();
        let ty = (client_type::<T>(live.recorder.numbers()), std::any::type_name::<T>());
        let recorded = record(&mut live.recorder, admitted, self.slot, ty, place);
        results(&self.core, &mut live.recorder, recorded, place)
    }

    /// True if two stubs are known to be the same object: the same stub, or the same handle.
    pub fn is_same(&self, other: &Stub) -> bool {
        if !Shared::ptr_eq(&self.core, &other.core) {
            return false;
        }
        let recorder = &self.core.live.borrow().recorder;
        match (recorder.known(self.slot), recorder.known(other.slot)) {
            (Known::Handle(a), Known::Handle(b)) => a == b,
            _ => self.slot == other.slot,
        }
    }

    /// Waits until the object is known to be there: flushes if it must.
    #[track_caller]
    pub(crate) fn resolve(&self) -> Result<(), Error> {
        let place = Place::caller();
        let live = &mut *self.core.live.borrow_mut();
        live.know(self.slot, place)?;
        live.recorder.claim(self.slot)
    }
}

/// Returns an argument as the recorder takes it.
#[inline(always)]
pub(crate) fn operand<'a>(core: &Shared<Core>, argument: &'a Argument<'a>) -> Operand<'a> {
    operand_of(owner(core), argument)
}

#[inline(always)]
fn operand_of<'a>(owner: Owner, argument: &'a Argument<'a>) -> Operand<'a> {
    match argument {
        Argument::Stub(stub) if self::owner(&stub.core) == owner => Operand::Stub(stub.slot),
        Argument::Stub(_) => Operand::Foreign,
        Argument::Value(value) => Operand::Value(*value),
        Argument::Compound(items) => Operand::Compound(items, owner),
        Argument::Ints(ints) => Operand::Ints(ints),
        Argument::Reals(reals) => Operand::Reals(reals),
    }
}

/// Returns the address of a session.
#[inline(always)]
pub(crate) fn owner(core: &Shared<Core>) -> Owner {
    Owner(Shared::as_ptr(core) as usize)
}

/// Returns arguments as the recorder takes them.
#[inline(always)]
pub(crate) fn operands<'a>(
    core: &Shared<Core>,
    arguments: &'a [Argument<'a>],
) -> impl ExactSizeIterator<Item = Operand<'a>> {
    arguments.iter().map(|argument| operand(core, argument))
}

/// Returns the stubs of a call that was recorded, or that was not.
#[inline(always)]
pub(crate) fn results<R: Results>(
    core: &Shared<Core>,
    recorder: &mut Recorder,
    recorded: Recorded<Place>,
    place: Place,
) -> R {
    match recorded {
        Ok(made) => R::take(|| Stub { core: core.clone(), slot: recorder.new_result(made, place) }),
        Err(error) => R::take(|| Stub { core: core.clone(), slot: recorder.new_failed(error.clone()) }),
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
/// yield them, procedures take them, and tables have columns of them.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a type that the server has")]
pub trait Element: Sized + 'static {
    /// The type that stands for one while its value is not known.
    type Future: Reference;

    /// The type that one comes as, in rows and in contents.
    type Plain: Plain;

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

/// Returns the number of a type in the stubs.
pub(crate) fn client_type<T: Element>(numbers: &Numbers) -> u32 {
    T::ty(&Numbered(numbers))
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

    /// Returns the argument for a sequence of these.
    #[doc(hidden)]
    fn sequence(elements: &[Self]) -> Argument<'_>
    where
        Self: Sized,
    {
        Argument::compound(elements.iter().map(IntoArg::argument))
    }
}

/// An argument as it is recorded.
#[derive(Clone, Debug)]
pub enum Argument<'a> {
    /// A stub.
    Stub(&'a Stub),
    /// A value.
    Value(bifrost_wire::Value<'a>),
    /// A compound, by its items.
    Compound(Composed<'a>),
    /// A compound of integers.
    Ints(&'a [i64]),
    /// A compound of reals.
    Reals(&'a [f64]),
}

/// The items of a compound that is an argument.
#[derive(Clone, Debug)]
pub struct Composed<'a>(Vec<Argument<'a>>);

impl<'a> Argument<'a> {
    /// Returns a compound of these items.
    #[doc(hidden)]
    pub fn compound(items: impl IntoIterator<Item = Argument<'a>>) -> Argument<'a> {
        Argument::Compound(Composed(items.into_iter().collect()))
    }

    /// Returns a compound for a oneof or `maybe`: the number of a tag, and its value unless that is
    /// nil.
    #[doc(hidden)]
    pub fn choice(tag: i64, value: Option<Argument<'a>>) -> Argument<'a> {
        let value = value.unwrap_or(Argument::Value(bifrost_wire::Value::Nil));
        Argument::compound([Argument::Value(bifrost_wire::Value::Int(tag)), value])
    }
}

impl Compose for Composed<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn each(&self, owner: Owner, put: &mut dyn FnMut(Operand<'_>)) {
        self.0.iter().for_each(|item| put(operand_of(owner, item)));
    }
}

/// A procedure that is to be called.
#[doc(hidden)]
pub struct ProcedureCall<'s> {
    pub(crate) core: &'s Shared<Core>,
    pub(crate) number: u32,
    pub(crate) refused: &'s Option<Arc<Error>>,
    pub(crate) place: Place,
}

impl ProcedureCall<'_> {
    pub(crate) fn record<R: Results>(self, arguments: &[Argument<'_>]) -> R {
        let live = &mut *self.core.live.borrow_mut();
        let admitted = live.admit();
        let arguments = operands(self.core, arguments);
        let refused = self.refused.as_ref();
        let recorded = live.recorder.call_procedure(admitted, self.number, refused, arguments, self.place);
        results(self.core, &mut live.recorder, recorded, self.place)
    }
}

/// The arguments of a procedure, or the cells of a row, as a tuple.
pub trait IntoArgs<P> {
    /// Passes them on.
    #[doc(hidden)]
    fn with<R>(&self, take: impl FnOnce(&[Argument<'_>]) -> R) -> R;
}

macro_rules! tuples {
    ($($($t:ident $a:ident $i:tt),*;)*) => {$(
        impl<$($t: Reference),*> Results for ($($t,)*) {
            fn take(mut next: impl FnMut() -> Stub) -> Self {
                ($($t::from_stub(next()),)*)
            }
        }

        impl<$($t, $a: IntoArg<$t>),*> IntoArgs<($($t,)*)> for ($($a,)*) {
            fn with<Result_>(&self, take: impl FnOnce(&[Argument<'_>]) -> Result_) -> Result_ {
                take(&[$(self.$i.argument()),*])
            }
        }

        impl<$($t: Element),*> crate::procedure::Params for ($($t,)*) {
            type Futures = ($($t::Future,)*);

            fn types(numbers: &Numbered<'_>) -> Vec<u32> {
                vec![$($t::ty(numbers)),*]
            }
        }

        impl<$($t: Plain),*> Plain for ($($t,)*) {
            fn take(items: &mut Items<'_, '_>) -> Option<Self> {
                Some(($($t::take(items)?,)*))
            }
        }

        impl<$($t: Element),*> crate::rows::Columns for ($($t,)*) {
            type Plain = ($($t::Plain,)*);

            fn types(numbers: &Numbered<'_>) -> Vec<(u32, &'static str)> {
                vec![$(($t::ty(numbers), std::any::type_name::<$t>())),*]
            }
        }

        impl<$($t: crate::rows::Cellular),*> crate::rows::Row for ($($t,)*) {
            type Columns = ($($t::Element,)*);

            fn with<Result_>(&self, take: impl FnOnce(&[Argument<'_>]) -> Result_) -> Result_ {
                take(&[$(Argument::Stub(self.$i.stub())),*])
            }
        }
    )*};
}

tuples! {
    A X 0;
    A X 0, B Y 1;
    A X 0, B Y 1, C Z 2;
    A X 0, B Y 1, C Z 2, D W 3;
    A X 0, B Y 1, C Z 2, D W 3, E V 4;
    A X 0, B Y 1, C Z 2, D W 3, E V 4, F U 5;
}

impl IntoArgs<()> for () {
    fn with<R>(&self, take: impl FnOnce(&[Argument<'_>]) -> R) -> R {
        take(&[])
    }
}

macro_rules! basic {
    ($($ty:ty, $numbers:expr;)*) => {$(
        impl Element for $ty {
            type Future = Promise<$ty>;
            type Plain = $ty;

            fn ty(numbers: &Numbered<'_>) -> u32 {
                let of: fn(&Numbered<'_>) -> (u32, CellNumbers) = $numbers;
                of(numbers).0
            }

            fn cell(numbers: &Numbered<'_>) -> CellNumbers {
                let of: fn(&Numbered<'_>) -> (u32, CellNumbers) = $numbers;
                of(numbers).1
            }
        }

        impl Value for $ty {}

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
    (), |numbers| numbers.basic(0);
    bool, |numbers| numbers.basic(1);
    i64, |numbers| numbers.basic(2);
    f64, |numbers| numbers.basic(3);
    char, |numbers| numbers.basic(4);
    String, |numbers| numbers.basic(5);
    Vec<u8>, |numbers| numbers.bytes();
}

macro_rules! by_value {
    ($($ty:ty, $variant:ident $(, $sequence:ident)?;)*) => {$(
        impl IntoArg<$ty> for $ty {
            #[inline]
            fn argument(&self) -> Argument<'_> {
                Argument::Value(bifrost_wire::Value::$variant(*self))
            }

            $(
                fn sequence(elements: &[$ty]) -> Argument<'_> {
                    Argument::$sequence(elements)
                }
            )?
        }
    )*};
}

by_value! {
    bool, Bool;
    i64, Int, Ints;
    f64, Real, Reals;
    char, Char;
}

impl IntoArg<()> for () {
    fn argument(&self) -> Argument<'_> {
        Argument::Value(bifrost_wire::Value::Nil)
    }
}

macro_rules! bytes {
    ($($ty:ty),*) => {$(
        impl IntoArg<Vec<u8>> for $ty {
            fn argument(&self) -> Argument<'_> {
                Argument::Value(bifrost_wire::Value::Bytes(self))
            }
        }
    )*};
}

bytes!(Vec<u8>, &Vec<u8>, &[u8]);

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
    Value(bifrost_wire::OwnedValue),
    Compound(Vec<Kept>),
    Ints(Box<[i64]>),
    Reals(Box<[f64]>),
}

impl Kept {
    pub(crate) fn new(argument: Argument<'_>) -> Kept {
        match argument {
            Argument::Stub(stub) => Kept::Stub(stub.clone()),
            Argument::Value(value) => Kept::Value(value.into()),
            Argument::Compound(items) => Kept::Compound(items.0.into_iter().map(Kept::new).collect()),
            Argument::Ints(ints) => Kept::Ints(ints.into()),
            Argument::Reals(reals) => Kept::Reals(reals.into()),
        }
    }

    pub(crate) fn argument(&self) -> Argument<'_> {
        match self {
            Kept::Stub(stub) => Argument::Stub(stub),
            Kept::Value(value) => Argument::Value(value.view()),
            Kept::Compound(items) => Argument::compound(items.iter().map(Kept::argument)),
            Kept::Ints(ints) => Argument::Ints(ints),
            Kept::Reals(reals) => Argument::Reals(reals),
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
