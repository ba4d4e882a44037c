//! Calls of iterators, which only a FOREACH can run.

use std::marker::PhantomData;

use bifrost_recorder::{Iteration, Operand, Stubs};

use crate::call::{Argument, Element, IntoArg, Kept, Results, Stub, operands, results};
use crate::error::Place;
use crate::session::Session;
use crate::shared::Shared;

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
    place: Place,
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
            place: Place::caller(),
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
            place: Place::caller(),
            yields: PhantomData,
        }
    }

    /// Appends the next argument.
    pub fn arg<T>(mut self, argument: impl IntoArg<T>) -> Iter<Y> {
        self.arguments.push(Kept::new(argument.argument()));
        self
    }

    /// Opens the loop and records the call right behind FOREACH.
    pub(crate) fn open<R: Results>(&self, session: &Session, place: Place) -> R {
        let core = &session.core;
        let same = Shared::ptr_eq(&self.session.core, core);
        let live = &mut *core.live.borrow_mut();
        let admitted = live.admit();
        let iteration = match &self.receiver {
            Some(receiver) => {
                let receiver = if same { Operand::Stub(receiver.slot) } else { Operand::Foreign };
                Iteration::Method { receiver, method: self.number }
            }
            None if same => {
                let stubs = self.stubs.unwrap_or(live.recorder.numbers().stubs());
                Iteration::Routine { stubs, routine: self.number }
            }
            None => Iteration::Foreign { routine: self.number },
        };
        let arguments: Vec<Argument<'_>> = self.arguments.iter().map(Kept::argument).collect();
        let arguments = operands(core, &arguments);
        let recorded = live.recorder.foreach(admitted, iteration, arguments, place, self.place);
        results(core, &mut live.recorder, recorded, self.place)
    }
}
