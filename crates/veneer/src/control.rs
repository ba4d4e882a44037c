//! Batched control structures: they run at the server, in one crossing.
//!
//! Closures are called once each, while the structure is recorded. The commands that they record
//! run at the server as often as the structure says. A stub made inside a structure ends with it; a
//! [`Cell`](crate::Cell) carries values out.

use bifrost_recorder::{Block, Ended, Jump, Structure};

use crate::call::{Argument, Element, IntoArg, Numbered, Reference, Results, Stub, operand};
use crate::error::Place;
use crate::iter::{Iter, Yields};
use crate::procedure::{Params, has_result};
use crate::promise::Promise;
use crate::session::Session;
use crate::shared::Alone;
use crate::signals::{Futures, Signal};

/// The condition of [`Session::if_`]: a promise, or a closure that makes one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    note = "a condition is a `Promise<bool>`, or a closure that returns one"
)]
pub trait Test {
    /// Makes the promise.
    fn test(self) -> Promise<bool>;
}

impl Test for Promise<bool> {
    fn test(self) -> Promise<bool> {
        self
    }
}

impl Test for &Promise<bool> {
    fn test(self) -> Promise<bool> {
        self.clone()
    }
}

impl<F: FnOnce() -> Promise<bool>> Test for F {
    fn test(self) -> Promise<bool> {
        self()
    }
}

/// Ends the innermost structure if the closure that fills it panics.
struct Guard<'s> {
    session: &'s Session,
    alone: Option<Alone<'s>>,
}

impl<'s> Guard<'s> {
    fn end(mut self) -> (Ended, Option<Alone<'s>>) {
        let ended = self.session.core.live.borrow_mut().recorder.end();
        let alone = self.alone.take();
        std::mem::forget(self);
        (ended, alone)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(mut live) = self.session.core.live.try_borrow_mut() {
            live.recorder.abandon();
        }
    }
}

impl Session {
    fn open(&self, structure: Structure, place: Place) -> Guard<'_> {
        let alone = Some(self.core.live.alone());
        let live = &mut *self.core.live.borrow_mut();
        let admitted = live.admit();
        live.recorder.open(admitted, structure, place);
        Guard { session: self, alone }
    }

    /// Appends the marker between a condition and the commands that depend on it.
    #[inline(always)]
    fn mark_test(&self, test: &Promise<bool>, place: Place) {
        let test = Argument::Stub(test.stub());
        let test = operand(&self.core, &test);
        self.core.live.borrow_mut().recorder.condition(test, place);
    }

    /// Repeats `body` at the server while the promise that `condition` records is true.
    ///
    /// Stubs that `condition` makes can be used in `body`.
    #[track_caller]
    pub fn while_(&self, condition: impl FnOnce() -> Promise<bool>, body: impl FnOnce()) {
        let place = Place::caller();
        let guard = self.open(Structure::While, place);
        let test = condition();
        self.mark_test(&test, place);
        drop(test);
        body();
        guard.end();
    }

    /// Runs `then` at the server if the condition holds. Follow it with [`If::else_`] for the other
    /// case.
    #[track_caller]
    pub fn if_(&self, condition: impl Test, then: impl FnOnce()) -> If<'_> {
        let place = Place::caller();
        let guard = self.open(Structure::If, place);
        let test = condition.test();
        self.mark_test(&test, place);
        drop(test);
        then();
        let (ended, alone) = guard.end();
        If { session: self, ended, alone }
    }

    /// Runs `body` at the server for each step of an iterator, with the yielded values.
    #[track_caller]
    pub fn foreach<Y: Yields>(&self, iterator: Iter<Y>, body: impl FnOnce(Y::Variables)) {
        let alone = Some(self.core.live.alone());
        let variables = iterator.open::<Y::Variables>(self, Place::caller());
        let guard = Guard { session: self, alone };
        body(variables);
        guard.end();
    }

    /// Leaves the innermost loop at the server. Recording goes on.
    #[track_caller]
    pub fn break_(&self) {
        self.jump(Jump::Break, Place::caller());
    }

    /// Goes on with the next step of the innermost loop at the server. Recording goes on.
    #[track_caller]
    pub fn continue_(&self) {
        self.jump(Jump::Continue, Place::caller());
    }

    fn jump(&self, jump: Jump, place: Place) {
        self.core.live.borrow_mut().recorder.jump(jump, place);
    }

    /// Runs `body` at the server. Exceptions of its calls go to the handlers that follow, as far as
    /// these name them.
    #[track_caller]
    pub fn except(&self, body: impl FnOnce()) -> Except<'_> {
        let guard = self.open(Structure::Except, Place::caller());
        body();
        let (ended, alone) = guard.end();
        Except { session: self, ended, alone }
    }
}

/// A choice, which may go on with its second block.
pub struct If<'s> {
    session: &'s Session,
    ended: Ended,
    alone: Option<Alone<'s>>,
}

impl If<'_> {
    /// Runs `otherwise` at the server if the condition does not hold.
    #[track_caller]
    pub fn else_(self, otherwise: impl FnOnce()) {
        let guard = reopen(self.session, (self.ended, self.alone), Block::Else, Place::caller());
        otherwise();
        guard.end();
    }
}

fn reopen<'s>(
    session: &'s Session,
    (ended, alone): (Ended, Option<Alone<'s>>),
    block: Block<'_>,
    place: Place,
) -> Guard<'s> {
    session.core.live.borrow_mut().recorder.reopen(ended, block, place);
    Guard { session, alone }
}

/// A block whose exceptions are handled, which may go on with handlers.
pub struct Except<'s> {
    session: &'s Session,
    ended: Ended,
    alone: Option<Alone<'s>>,
}

impl<'s> Except<'s> {
    /// Runs `body` at the server when a call of the block signals the exception, with its values:
    /// `when::<signals::NotFound>(|(name,)| ...)`.
    #[track_caller]
    pub fn when<S: Signal>(self, body: impl FnOnce(Futures<S>)) -> Except<'s> {
        self.handle::<S::Values>(S::NAME, body, Place::caller())
    }

    /// As [`Except::when`], for an exception that the program knows by its name only. `P` are the
    /// types of its values: `when_named::<(i64,)>("odd", |(n,)| ...)`.
    #[track_caller]
    pub fn when_named<P: Params>(self, name: &str, body: impl FnOnce(P::Futures)) -> Except<'s> {
        self.handle::<P>(name, body, Place::caller())
    }

    fn handle<P: Params>(self, name: &str, body: impl FnOnce(P::Futures), place: Place) -> Except<'s> {
        let values = P::types(&Numbered(self.session.core.live.borrow().recorder.numbers()));
        let guard =
            reopen(self.session, (self.ended, self.alone), Block::When { name, values: &values }, place);
        body(self.session.variables(place));
        let (ended, alone) = guard.end();
        Except { session: self.session, ended, alone }
    }

    /// Runs `body` at the server when a call of the block signals any exception that no handler
    /// before it takes.
    #[track_caller]
    pub fn others(self, body: impl FnOnce()) {
        let guard =
            reopen(self.session, (self.ended, self.alone), Block::Others { named: false }, Place::caller());
        body();
        guard.end();
    }

    /// As [`Except::others`], with the exception's name.
    #[track_caller]
    pub fn others_named(self, body: impl FnOnce(Promise<String>)) {
        let place = Place::caller();
        let guard = reopen(self.session, (self.ended, self.alone), Block::Others { named: true }, place);
        body(self.session.variables(place));
        guard.end();
    }
}

impl Session {
    /// Makes stubs for the numbers that a marker has just taken.
    pub(crate) fn variables<R: Results>(&self, place: Place) -> R {
        R::take(|| {
            let slot = self.core.live.borrow_mut().recorder.variable(place);
            Stub { core: self.core.clone(), slot }
        })
    }

    /// Ends a run of the procedure being defined, with its result; `()` for none.
    #[track_caller]
    pub fn return_<R: Element>(&self, value: impl IntoArg<R>) {
        let place = Place::caller();
        let value = has_result::<R>().then(|| value.argument());
        let value = value.as_ref().map(|value| operand(&self.core, value));
        self.core.live.borrow_mut().recorder.return_(value, place);
    }
}
