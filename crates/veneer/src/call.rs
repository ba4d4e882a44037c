//! Recording one call: what generated stubs are made of.

use std::cell::RefMut;
use std::panic::Location;
use std::rc::Rc;

use bifrost_wire::value::tag;
use bifrost_wire::{Ref, TypeNumber, encode, op};

use crate::error::{Error, Misuse};
use crate::promise::Promise;
use crate::state::{Core, Known, Made, OwnedValue, State};
use crate::stubs::{CellNumbers, Numbers};

/// A reference to a server's object or value. Clones are the same stub; when the last one is dropped, the
/// server is told that the object is no longer wanted.
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
        match self.core.state.try_borrow().as_deref().map(|s| s.known(self.slot)) {
            Ok(Known::Future(position)) => write!(f, "future {position}"),
            Ok(Known::Handle(handle)) => write!(f, "handle {}", handle.0),
            Ok(Known::Value(value)) => write!(f, "{value:?}"),
            Ok(Known::Failed(error)) => write!(f, "failed: {error}"),
            _ => f.write_str("stub"),
        }
    }
}

impl Stub {
    /// Starts to record a call of a method, by the number that the stubs were made with.
    #[inline]
    #[track_caller]
    pub fn call(&self, method: u32, argument_count: u8) -> Call<'_> {
        let location = Location::caller();
        let mut state = self.core.state.borrow_mut();
        let receiver = match state.admit() {
            Err(error) => Err(error),
            Ok(()) => match *state.known(self.slot) {
                Known::Future(position) => Ok(Ref::future(position)),
                Known::Handle(handle) => Ok(handle),
                _ => state.expect_reference(self.slot, location),
            },
        };
        Call::begin_method(&self.core, state, method, receiver, argument_count, location)
    }

    /// Whether two stubs are known to be the same object: the same stub, or the same handle.
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
    pub(crate) fn resolve(&self) -> Result<(), Error> {
        let mut state = self.core.state.borrow_mut();
        if let Known::Future(_) = state.known(self.slot) {
            state.flush()?;
        }
        match state.known(self.slot) {
            Known::Failed(error) => Err((**error).clone()),
            _ => Ok(()),
        }
    }
}

pub(crate) fn missing(name: Rc<str>) -> Rc<Error> {
    Rc::new(Error::Missing { name })
}

/// A call being recorded. Give it its arguments in order, then [`Call::done`].
#[must_use = "the call is recorded by `done`"]
pub struct Call<'s> {
    core: &'s Rc<Core>,
    pub(crate) state: RefMut<'s, State>,
    made: Made,
    location: &'static Location<'static>,
    error: Option<Rc<Error>>,
    /// Where the command starts in the batch.
    start: usize,
    /// Where the words with the tags of the fifth and later arguments start.
    tags_at: usize,
    tags: u32,
    arguments: usize,
    finished: bool,
}

impl<'s> Call<'s> {
    #[inline]
    pub(crate) fn begin(
        core: &'s Rc<Core>,
        state: RefMut<'s, State>,
        made: Made,
        location: &'static Location<'static>,
        error: Option<Rc<Error>>,
    ) -> Call<'s> {
        let start = state.batch.len();
        Call { core, state, made, location, error, start, tags_at: 0, tags: 0, arguments: 0, finished: false }
    }

    /// Starts a method's call, with what is known of its receiver.
    #[inline]
    pub(crate) fn begin_method(
        core: &'s Rc<Core>,
        mut state: RefMut<'s, State>,
        method: u32,
        receiver: Result<Ref, Rc<Error>>,
        argument_count: u8,
        location: &'static Location<'static>,
    ) -> Call<'s> {
        let (receiver, mut error) = match receiver {
            Ok(receiver) => (receiver, None),
            Err(error) => (Ref::NONE, Some(error)),
        };
        let number = match state.numbers.method(method) {
            Some(number) => number.0,
            None => {
                error.get_or_insert_with(|| missing(state.numbers.method_name(method)));
                0
            }
        };
        let mut call = Call::begin(core, state, Made::Method(method), location, error);
        let mut first = [0; 16];
        let head = encode::head(op::CALL, u32::from(argument_count), number);
        first[..8].copy_from_slice(&head.to_le_bytes());
        first[8..].copy_from_slice(&receiver.0.to_le_bytes());
        call.state.batch.extend_from_slice(&first);
        call.make_tags(argument_count);
        call
    }

    /// Starts a command without receiver: a routine's or procedure's call.
    pub(crate) fn begin_plain(
        core: &'s Rc<Core>,
        made: Made,
        location: &'static Location<'static>,
        head: impl FnOnce(&mut Numbers) -> Result<u64, Rc<Error>>,
        argument_count: u8,
    ) -> Call<'s> {
        let mut state = core.state.borrow_mut();
        let admitted = state.admit();
        let head = admitted.and_then(|()| head(&mut state.numbers));
        let (head, error) = match head {
            Ok(head) => (head, None),
            Err(error) => (0, Some(error)),
        };
        let mut call = Call::begin(core, state, made, location, error);
        encode::word(&mut call.state.batch, head);
        call.make_tags(argument_count);
        call
    }

    /// Refuses the call if it is not of this session.
    pub(crate) fn check_session(&mut self, core: &Rc<Core>) {
        if !Rc::ptr_eq(self.core, core) {
            self.error.get_or_insert_with(|| Rc::new(Error::Misuse(Misuse::OtherSession)));
        }
    }

    #[inline]
    pub(crate) fn make_tags(&mut self, argument_count: u8) {
        self.tags_at = self.state.batch.len();
        if argument_count > 4 {
            for _ in 0..(usize::from(argument_count) - 4).div_ceil(16) {
                encode::word(&mut self.state.batch, 0);
            }
        }
    }

    /// Appends the next argument.
    #[inline]
    pub fn arg<T: ?Sized>(mut self, argument: &impl IntoArg<T>) -> Self {
        self.put(argument.argument());
        self
    }

    /// Appends the next argument.
    #[inline]
    pub(crate) fn put(&mut self, argument: Argument<'_>) {
        match argument {
            Argument::Stub(stub) => self.put_stub(stub),
            Argument::Value(value) => self.put_value(value),
        }
    }

    #[inline]
    fn tag(&mut self, tag: u8) {
        let index = self.arguments;
        self.arguments += 1;
        if index < 4 {
            self.tags |= u32::from(tag) << (8 + 4 * index);
        } else {
            let at = self.tags_at + (index - 4) / 2;
            if let Some(byte) = self.state.batch.get_mut(at) {
                *byte |= tag << (4 * (index % 2));
            }
        }
    }

    #[inline]
    fn put_value(&mut self, value: bifrost_wire::Value<'_>) {
        self.tag(value.tag());
        match value {
            bifrost_wire::Value::Str(s) => encode::bytes(&mut self.state.batch, s.as_bytes()),
            _ => encode::word(&mut self.state.batch, value.word()),
        }
    }

    #[inline]
    fn put_stub(&mut self, stub: &Stub) {
        if !Rc::ptr_eq(self.core, &stub.core) {
            self.error.get_or_insert_with(|| Rc::new(Error::Misuse(Misuse::OtherSession)));
            return;
        }
        if let Known::Failed(_) = self.state.known(stub.slot) {
            self.check_failed(stub.slot);
        }
        let tag = self.state.append_argument(stub.slot);
        self.tag(tag);
    }

    #[cold]
    fn check_failed(&mut self, slot: u32) {
        if let Some(error) = self.state.unusable(slot) {
            self.error.get_or_insert(error);
        }
    }

    /// Records the call and returns its results.
    #[inline]
    pub fn done<R: Results>(mut self) -> R {
        let command_bytes = self.state.batch.len() - self.start;
        if self.error.is_some() || command_bytes > self.state.bounds.frame_bytes {
            return self.refused();
        }
        if self.tags != 0
            && let Some(head) = self.state.batch.get_mut(self.start..).and_then(|b| b.first_chunk_mut::<8>())
        {
            *head = (u64::from_le_bytes(*head) | u64::from(self.tags) << 8).to_le_bytes();
        }
        self.state.recorded();
        self.finished = true;
        R::take(&mut || {
            let slot = self.state.new_future(self.made, self.location);
            Stub { core: self.core.clone(), slot }
        })
    }

    #[cold]
    fn refused<R: Results>(&mut self) -> R {
        self.state.batch.truncate(self.start);
        self.finished = true;
        let error = match self.error.take() {
            Some(error) => {
                // What is unusable for an earlier misuse was told already.
                self.state.refuse(error.clone());
                error
            }
            None => self.state.misused(Misuse::TooLong),
        };
        R::take(&mut || Stub { core: self.core.clone(), slot: self.state.failed(error.clone()) })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.state.batch.truncate(self.start);
        }
    }
}

/// What a call returns: a promise, an object's stub, or a tuple of these.
pub trait Results: Sized {
    /// Takes the stubs of the results, in order.
    fn take(next: &mut dyn FnMut() -> Stub) -> Self;
}

impl<T: Reference> Results for T {
    #[inline]
    fn take(next: &mut dyn FnMut() -> Stub) -> T {
        T::from_stub(next())
    }
}

/// A typed stub: a [`Promise`], a [`crate::Cell`], or a generated type.
pub trait Reference: Sized + 'static {
    /// Wraps a stub.
    fn from_stub(stub: Stub) -> Self;

    /// The stub inside.
    fn stub(&self) -> &Stub;
}

/// A Theta type as Rust has it: `i64`, `String`, a generated type. What cells hold, iterators yield and
/// procedures take.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a type that the server has")]
pub trait Element: Sized + 'static {
    /// What stands for one while its value is not known.
    type Future: Reference;

    /// The number of the type in the stubs.
    fn ty(numbers: &Numbered<'_>) -> u32;

    /// The numbers of its cells in the stubs.
    fn cell(numbers: &Numbered<'_>) -> CellNumbers;
}

/// The stubs that a session was connected with, for [`Element`].
pub struct Numbered<'s>(pub(crate) &'s Numbers);

impl Numbered<'_> {
    /// The numbers of a basic type.
    pub(crate) fn basic(&self, index: usize) -> (u32, CellNumbers) {
        self.0.stubs().basic.get(index).copied().unwrap_or((u32::MAX, CellNumbers::NONE))
    }
}

pub(crate) fn server_type<T: Element>(numbers: &Numbers) -> Option<TypeNumber> {
    numbers.ty(T::ty(&Numbered(numbers)))
}

/// What can be passed where a `T` is expected: for a basic type a value or a promise of it, for an object a stub of the
/// type or of a subtype.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed where `{T}` is expected",
    note = "a basic value is passed as itself or as a promise, an object by a reference to its stub"
)]
pub trait IntoArg<T: ?Sized> {
    /// What is appended to the call.
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

/// The arguments of a procedure, as a tuple.
pub trait IntoArgs<P> {
    /// How many.
    const COUNT: u8;

    /// Appends them to a call.
    fn put_all(&self, call: &mut Call<'_>);
}

macro_rules! tuples {
    ($($count:literal: $($t:ident $a:ident $i:tt),*;)*) => {$(
        impl<$($t: Reference),*> Results for ($($t,)*) {
            fn take(next: &mut dyn FnMut() -> Stub) -> Self {
                ($($t::from_stub(next()),)*)
            }
        }

        impl<$($t, $a: IntoArg<$t>),*> IntoArgs<($($t,)*)> for ($($a,)*) {
            const COUNT: u8 = $count;

            fn put_all(&self, call: &mut Call<'_>) {
                $(call.put(self.$i.argument());)*
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

    fn put_all(&self, _: &mut Call<'_>) {}
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

const _: () = assert!(tag::REF == 0, "a reference needs no tag bits");
