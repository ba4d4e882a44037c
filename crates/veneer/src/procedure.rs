//! Batched procedures: a batch with a name, kept by the session.

use std::marker::PhantomData;
use std::sync::Arc;

use bifrost_recorder::{Heading, Misuse};

use crate::call::{Element, IntoArg, IntoArgs, Numbered, ProcedureCall, Results, client_type, operand};
use crate::error::{Error, Place};
use crate::live::Recorder;
use crate::session::Session;

/// A tuple of types: the parameters of a procedure, or the values of an exception.
pub trait Params: 'static {
    /// The stubs for them.
    type Futures: Results;

    /// Returns the numbers of the types in the stubs.
    fn types(numbers: &Numbered<'_>) -> Vec<u32>;
}

impl Params for () {
    type Futures = NoFutures;

    fn types(_: &Numbered<'_>) -> Vec<u32> {
        Vec::new()
    }
}

/// The stubs of no parameters.
#[derive(Debug)]
pub struct NoFutures;

impl Results for NoFutures {
    fn take(_: impl FnMut() -> crate::call::Stub) -> NoFutures {
        NoFutures
    }
}

/// A procedure of the session that takes the tuple `P` and returns an `R`.
pub struct Procedure<P, R> {
    session: Session,
    number: u32,
    /// The reason why it was not sent: then another one has its number.
    refused: Option<Arc<Error>>,
    types: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for Procedure<P, R> {
    fn clone(&self) -> Self {
        let (session, refused) = (self.session.clone(), self.refused.clone());
        Procedure { session, number: self.number, refused, types: PhantomData }
    }
}

impl<P: Params, R: Element> Procedure<P, R> {
    /// Records a call.
    #[track_caller]
    pub fn call(&self, arguments: impl IntoArgs<P>) -> R::Future {
        let (core, place) = (&self.session.core, Place::caller());
        let call = ProcedureCall { core, number: self.number, refused: &self.refused, place };
        arguments.with(|arguments| call.record(arguments))
    }
}

impl Session {
    /// Defines a procedure: `s.procedure::<(i64, i64), i64, _>("sum", |_, (a, b)| a + b)`.
    ///
    /// The closure is called once, with the procedure itself for recursive calls and with its
    /// parameters; its value is the result, `()` for none. The procedure lives as long as the
    /// session, and can be [found](Session::find_procedure) by its name.
    #[track_caller]
    pub fn procedure<P: Params, R: Element, V: IntoArg<R>>(
        &self,
        name: &str,
        body: impl FnOnce(&Procedure<P, R>, P::Futures) -> V,
    ) -> Procedure<P, R> {
        self.procedure_at(name, body, Place::caller())
    }

    pub(crate) fn procedure_at<P: Params, R: Element, V: IntoArg<R>>(
        &self,
        name: &str,
        body: impl FnOnce(&Procedure<P, R>, P::Futures) -> V,
        place: Place,
    ) -> Procedure<P, R> {
        let _alone = self.core.live.alone();
        let number = {
            let live = &mut *self.core.live.borrow_mut();
            let admitted = live.admit();
            let heading = heading::<P, R>(&live.recorder);
            live.recorder.open_procedure(admitted, name, heading, place)
        };
        let mut this = Procedure { session: self.clone(), number, refused: None, types: PhantomData };
        let guard = Abandon(self);
        let result = body(&this, self.variables(place));
        std::mem::forget(guard);
        let recorder = &mut self.core.live.borrow_mut().recorder;
        let value = has_result::<R>().then(|| result.argument());
        let value = value.as_ref().map(|value| operand(&self.core, value));
        recorder.return_(value, place);
        this.refused = recorder.close_procedure();
        this
    }

    /// Returns a procedure whose calls are refused, as it would be defined inside another one.
    pub(crate) fn refused_procedure<P, R>(&self) -> Procedure<P, R> {
        let refused = Some(Arc::new(Error::Misuse(Misuse::NestedProcedure)));
        Procedure { session: self.clone(), number: 0, refused, types: PhantomData }
    }

    /// Returns a procedure defined earlier in this session, if it takes and returns these types.
    pub fn find_procedure<P: Params, R: Element>(&self, name: &str) -> Option<Procedure<P, R>> {
        let recorder = &self.core.live.borrow().recorder;
        let number = recorder.find_procedure(name, &heading::<P, R>(recorder))?;
        Some(Procedure { session: self.clone(), number, refused: None, types: PhantomData })
    }
}

/// Ends the definition if its closure panics.
struct Abandon<'s>(&'s Session);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(mut live) = self.0.core.live.try_borrow_mut() {
            live.recorder.abandon();
        }
    }
}

/// True if a procedure that returns an `R` has a result: `()` is none.
pub(crate) fn has_result<R: Element>() -> bool {
    std::any::TypeId::of::<R>() != std::any::TypeId::of::<()>()
}

/// Returns the types of a procedure.
fn heading<P: Params, R: Element>(recorder: &Recorder) -> Heading {
    let numbers = recorder.numbers();
    let result = has_result::<R>().then(|| client_type::<R>(numbers));
    Heading { params: P::types(&Numbered(numbers)), result }
}
