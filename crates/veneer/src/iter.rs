//! Calls of iterators, which only a FOREACH can run.

use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

use bifrost_wire::{Ref, encode, op};

use crate::call::{Argument, Element, IntoArg, Kept, Results, Stub, record_method, record_plain};
use crate::error::Misuse;
use crate::session::Session;
use crate::state::{Kind, Made, misuse};
use crate::stubs::{Numbers, Stubs};

/// A call of an iterator that yields `Y`, a tuple, at each step. It does nothing by itself: give it
/// to [`Session::foreach`].
#[must_use = "an iterator runs only in `foreach`"]
pub struct Iter<Y> {
    session: Session,
    receiver: Option<Stub>,
    /// The module of a routine.
    stubs: Option<&'static Stubs>,
    number: u32,
    arguments: Vec<Kept>,
    location: &'static Location<'static>,
    yields: PhantomData<fn() -> Y>,
}

/// A tuple of the types that an iterator yields.
pub trait Yields: 'static {
    /// The loop variables: one, or a tuple of several.
    type Variables: Results;
}

impl<A: Element> Yields for (A,) {
    type Variables = A::Future;
}

impl<A: Element, B: Element> Yields for (A, B) {
    type Variables = (A::Future, B::Future);
}

impl<A: Element, B: Element, C: Element> Yields for (A, B, C) {
    type Variables = (A::Future, B::Future, C::Future);
}

impl<Y> Iter<Y> {
    /// Makes a call of an iterator method, to be given its arguments.
    #[track_caller]
    pub fn of_method(receiver: &Stub, number: u32) -> Iter<Y> {
        Iter {
            session: Session { core: receiver.core.clone() },
            receiver: Some(receiver.clone()),
            stubs: None,
            number,
            arguments: Vec::new(),
            location: Location::caller(),
            yields: PhantomData,
        }
    }

    /// Makes a call of an iterator routine, to be given its arguments.
    #[track_caller]
    pub fn of_routine(session: &Session, stubs: &'static Stubs, number: u32) -> Iter<Y> {
        Iter {
            session: session.clone(),
            receiver: None,
            stubs: Some(stubs),
            number,
            arguments: Vec::new(),
            location: Location::caller(),
            yields: PhantomData,
        }
    }

    /// Appends the next argument.
    pub fn arg<T>(mut self, argument: impl IntoArg<T>) -> Iter<Y> {
        self.arguments.push(Kept::new(argument.argument()));
        self
    }

    /// Opens the loop and records the call right behind FOREACH.
    pub(crate) fn open<R: Results>(&self, session: &Session, location: &'static Location<'static>) -> R {
        let core = &self.session.core;
        let receiver = {
            let mut state = session.core.state.borrow_mut();
            let admitted = state.admit();
            // A constant receiver is recorded before the marker, because the call must follow it.
            let receiver = admitted.clone().and_then(|()| match &self.receiver {
                Some(receiver) if Rc::ptr_eq(core, &session.core) => {
                    state.expect_reference(receiver.slot, self.location)
                }
                _ => Ok(Ref::NONE),
            });
            state.open_admitted(Kind::Foreach, location, admitted, |out| encode::plain(out, op::FOREACH));
            receiver
        };
        let arguments: Vec<Argument<'_>> = self.arguments.iter().map(Kept::argument).collect();
        let same = Rc::ptr_eq(&self.session.core, &session.core);
        let same = if same { Ok(()) } else { Err(misuse(Misuse::OtherSession)) };
        if self.receiver.is_some() {
            let state = &mut *session.core.state.borrow_mut();
            let receiver = same.and_then(|()| state.admit()).and(receiver);
            let (core, number) = (&session.core, self.number);
            return record_method(core, state, op::CALL, number, receiver, &arguments, self.location);
        }
        let head = |numbers: &mut Numbers| {
            same?;
            numbers.routine_head(self.stubs.unwrap_or(numbers.stubs()), self.number)
        };
        record_plain(&session.core, Made::Routine(self.number), self.location, head, &arguments)
    }
}
