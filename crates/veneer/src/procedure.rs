//! Batched procedures: a batch with a name, kept by the session.

use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use bifrost_wire::{Arg, encode};

use crate::call::{Argument, Element, IntoArg, IntoArgs, Numbered, ProcedureCall, Results};
use crate::error::{Error, Misuse};
use crate::session::Session;
use crate::state::{Core, Kind, State, misuse};

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
        let (core, location) = (&self.session.core, Location::caller());
        arguments.record(ProcedureCall { core, number: self.number, refused: &self.refused, location })
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
        let location = Location::caller();
        let number = self.core.state.borrow_mut().open_procedure::<P, R>(name, location);
        let mut this = Procedure { session: self.clone(), number, refused: None, types: PhantomData };
        let guard = Abandon(self);
        let result = body(&this, self.variables(location));
        std::mem::forget(guard);
        let mut state = self.core.state.borrow_mut();
        let types = std::any::type_name::<(P, R)>();
        state.append_return::<R>(&self.core, result.argument(), location);
        this.refused = state.close_procedure(name, types);
        drop(state);
        this
    }

    /// Returns a procedure defined earlier in this session, if it takes and returns these types.
    pub fn find_procedure<P: Params, R: Element>(&self, name: &str) -> Option<Procedure<P, R>> {
        let state = self.core.state.borrow();
        let (number, types) = *state.procedures.by_name.get(name)?;
        let same = types == std::any::type_name::<(P, R)>();
        same.then(|| Procedure { session: self.clone(), number, refused: None, types: PhantomData })
    }
}

/// Ends the definition if its closure panics.
struct Abandon<'s>(&'s Session);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.core.state.try_borrow_mut() {
            state.abandon();
        }
    }
}

/// True if a procedure that returns an `R` has a result: `()` is none.
fn has_result<R: Element>() -> bool {
    std::any::TypeId::of::<R>() != std::any::TypeId::of::<()>()
}

impl State {
    fn open_procedure<P: Params, R: Element>(
        &mut self,
        name: &str,
        location: &'static Location<'static>,
    ) -> u32 {
        let number = self.procedures.count;
        let nested = self.depth() > 0;
        let params = P::types(&Numbered(&self.numbers));
        let params: Vec<_> = params.into_iter().map(|t| self.numbers.ty(t)).collect();
        let result = has_result::<R>().then(|| crate::call::server_type::<R>(&self.numbers));
        let missing = params.contains(&None) || result == Some(None);
        let types: Vec<_> = params.into_iter().map(Option::unwrap_or_default).collect();
        let marker = |out: &mut Vec<u8>| encode::procedure(out, name, types.into_iter(), result.flatten());
        self.open(Kind::Procedure, location, marker);
        let wrong = if nested {
            Some(misuse(Misuse::NestedProcedure))
        } else if missing {
            Some(crate::call::missing(name.into()))
        } else if name.len() + 4096 > self.bounds.frame_bytes {
            Some(misuse(Misuse::TooLong))
        } else {
            None
        };
        if let Some(error) = wrong {
            self.refuse(name, location, error);
        }
        number
    }

    /// Ends the definition; returns the reason if it is not sent.
    fn close_procedure(&mut self, name: &str, types: &'static str) -> Option<Arc<Error>> {
        let refused = self.refusal();
        let ended = self.close();
        if self.was_kept(ended) {
            let number = self.procedures.count;
            self.procedures.count += 1;
            self.procedures.names.push(name.into());
            self.procedures.by_name.insert(name.to_owned(), (number, types));
        }
        refused
    }

    /// Appends RETURN; `()` is no value.
    pub(crate) fn append_return<R: Element>(
        &mut self,
        core: &Rc<Core>,
        value: Argument<'_>,
        location: &'static Location<'static>,
    ) {
        let arg = match value {
            _ if !has_result::<R>() => None,
            Argument::Value(value) => Some(Arg::Value(value)),
            Argument::Stub(stub) => {
                let reference = match Rc::ptr_eq(core, &stub.core) {
                    false => Err(misuse(Misuse::OtherSession)),
                    true => self.admit().and_then(|()| self.expect_reference(stub.slot, location)),
                };
                match reference {
                    Ok(reference) => Some(Arg::Ref(reference)),
                    Err(error) => {
                        self.refuse("return", location, error);
                        return;
                    }
                }
            }
        };
        self.mark(|out| encode::return_(out, arg.as_ref()));
    }
}
