//! Batched control structures: they run at the server, in one crossing.
//!
//! Closures are called once each, while the structure is recorded. The commands that they record
//! run at the server as often as the structure says. A stub made inside a structure ends with it; a
//! [`Cell`](crate::Cell) carries values out.

use std::panic::Location;
use std::rc::Rc;

use bifrost_wire::{Ref, encode, op};

use crate::call::{Element, IntoArg, Numbered, Reference, Results, Stub};
use crate::error::Misuse;
use crate::iter::{Iter, Yields};
use crate::procedure::Params;
use crate::promise::Promise;
use crate::session::Session;
use crate::state::{Ended, Kind, Made, misuse};

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
struct Guard<'s>(&'s Session);

impl Guard<'_> {
    fn end(self) -> Ended {
        let ended = self.0.core.state.borrow_mut().close();
        std::mem::forget(self);
        ended
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.core.state.try_borrow_mut() {
            state.abandon();
        }
    }
}

impl Session {
    fn open(&self, kind: Kind, location: &'static Location<'static>, code: u8) -> Guard<'_> {
        self.core.state.borrow_mut().open(kind, location, |out| encode::plain(out, code));
        Guard(self)
    }

    /// Appends the marker between a condition and the commands that depend on it.
    fn mark_test(
        &self,
        test: &Promise<bool>,
        location: &'static Location<'static>,
        mark: fn(&mut Vec<u8>, Ref),
    ) {
        let mut state = self.core.state.borrow_mut();
        let same = Rc::ptr_eq(&self.core, &test.stub().core);
        let reference = match same {
            false => Err(misuse(Misuse::OtherSession)),
            true => state.admit().and_then(|()| state.expect_reference(test.stub().slot, location)),
        };
        match reference {
            Ok(reference) => state.mark(|out| mark(out, reference)),
            Err(error) => drop(state.refuse("condition", location, error)),
        }
    }

    /// Repeats `body` at the server while the promise that `condition` records is true.
    ///
    /// Stubs that `condition` makes can be used in `body`.
    #[track_caller]
    pub fn while_(&self, condition: impl FnOnce() -> Promise<bool>, body: impl FnOnce()) {
        let location = Location::caller();
        let guard = self.open(Kind::While, location, op::WHILE);
        let test = condition();
        self.mark_test(&test, location, encode::loop_body);
        drop(test);
        body();
        guard.end();
    }

    /// Runs `then` at the server if the condition holds. Follow it with [`If::else_`] for the other
    /// case.
    #[track_caller]
    pub fn if_(&self, condition: impl Test, then: impl FnOnce()) -> If<'_> {
        let location = Location::caller();
        let guard = self.open(Kind::If, location, op::IF);
        let test = condition.test();
        self.mark_test(&test, location, encode::then);
        drop(test);
        then();
        If { session: self, ended: guard.end() }
    }

    /// Runs `body` at the server for each step of an iterator, with the yielded values.
    #[track_caller]
    pub fn foreach<Y: Yields>(&self, iterator: Iter<Y>, body: impl FnOnce(Y::Variables)) {
        let variables = iterator.open::<Y::Variables>(self, Location::caller());
        let guard = Guard(self);
        body(variables);
        guard.end();
    }

    /// Leaves the innermost loop at the server. Recording goes on.
    #[track_caller]
    pub fn break_(&self) {
        self.jump("break", Location::caller(), op::BREAK);
    }

    /// Goes on with the next step of the innermost loop at the server. Recording goes on.
    #[track_caller]
    pub fn continue_(&self) {
        self.jump("continue", Location::caller(), op::CONTINUE);
    }

    fn jump(&self, name: &'static str, location: &'static Location<'static>, code: u8) {
        let mut state = self.core.state.borrow_mut();
        if state.in_loop() {
            state.mark(|out| encode::plain(out, code));
        } else {
            state.refuse(name, location, misuse(Misuse::NoLoop));
        }
    }

    /// Runs `body` at the server. Exceptions of its calls go to the handlers that follow, as far as
    /// these name them.
    #[track_caller]
    pub fn except(&self, body: impl FnOnce()) -> Except<'_> {
        let guard = self.open(Kind::Except, Location::caller(), op::EXCEPT);
        body();
        Except { session: self, ended: guard.end() }
    }
}

/// A choice, which may go on with its second block.
pub struct If<'s> {
    session: &'s Session,
    ended: Ended,
}

impl If<'_> {
    /// Runs `otherwise` at the server if the condition does not hold.
    #[track_caller]
    pub fn else_(self, otherwise: impl FnOnce()) {
        let marker = |out: &mut Vec<u8>| encode::plain(out, op::ELSE);
        let guard = reopen(self.session, self.ended, "else", Location::caller(), marker);
        otherwise();
        guard.end();
    }
}

fn reopen<'s>(
    session: &'s Session,
    ended: Ended,
    name: &'static str,
    location: &'static Location<'static>,
    marker: impl FnOnce(&mut Vec<u8>),
) -> Guard<'s> {
    let mut state = session.core.state.borrow_mut();
    state.reopen(ended, name, location);
    state.mark(marker);
    drop(state);
    Guard(session)
}

/// A block whose exceptions are handled, which may go on with handlers.
pub struct Except<'s> {
    session: &'s Session,
    ended: Ended,
}

impl<'s> Except<'s> {
    /// Runs `body` at the server when a call of the block signals the exception.
    #[track_caller]
    pub fn when(self, name: &str, body: impl FnOnce()) -> Except<'s> {
        let marker = |out: &mut Vec<u8>| encode::when(out, name, [].into_iter());
        let guard = reopen(self.session, self.ended, "when", Location::caller(), marker);
        body();
        Except { session: self.session, ended: guard.end() }
    }

    /// As [`Except::when`], with the exception's values, whose types are named as a tuple:
    /// `when_with::<(i64,)>`.
    #[track_caller]
    pub fn when_with<P: Params>(self, name: &str, body: impl FnOnce(P::Futures)) -> Except<'s> {
        let location = Location::caller();
        let types = {
            let state = self.session.core.state.borrow();
            let types = P::types(&Numbered(&state.numbers));
            types.into_iter().map(|t| state.numbers.ty(t).unwrap_or_default()).collect::<Vec<_>>()
        };
        let marker = |out: &mut Vec<u8>| encode::when(out, name, types.into_iter());
        let guard = reopen(self.session, self.ended, "when", location, marker);
        body(self.session.variables(location));
        Except { session: self.session, ended: guard.end() }
    }

    /// Runs `body` at the server when a call of the block signals any exception that no handler
    /// before it takes.
    #[track_caller]
    pub fn others(self, body: impl FnOnce()) {
        let marker = |out: &mut Vec<u8>| encode::others(out, false);
        let guard = reopen(self.session, self.ended, "others", Location::caller(), marker);
        body();
        guard.end();
    }

    /// As [`Except::others`], with the exception's name.
    #[track_caller]
    pub fn others_named(self, body: impl FnOnce(Promise<String>)) {
        let location = Location::caller();
        let marker = |out: &mut Vec<u8>| encode::others(out, true);
        let guard = reopen(self.session, self.ended, "others", location, marker);
        body(self.session.variables(location));
        guard.end();
    }
}

impl Session {
    /// Makes stubs for the numbers that a marker has just taken.
    pub(crate) fn variables<R: Results>(&self, location: &'static Location<'static>) -> R {
        R::take(|| {
            let slot = self.core.state.borrow_mut().new_future(Made::Variable, location);
            Stub { core: self.core.clone(), slot }
        })
    }

    /// Ends a run of the procedure being defined, with its result; `()` for none.
    #[track_caller]
    pub fn return_<R: Element>(&self, value: impl IntoArg<R>) {
        let location = Location::caller();
        let mut state = self.core.state.borrow_mut();
        if !state.in_procedure() {
            state.refuse("return", location, misuse(Misuse::NoProcedure));
            return;
        }
        state.append_return::<R>(&self.core, value.argument(), location);
    }
}
