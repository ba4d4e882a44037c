//! The functions that code of the attribute [`remote`](macro@crate::remote) calls.

use std::cell::RefCell;

use crate::call::{Element, IntoArg};
use crate::cell::Cell;
use crate::error::Place;
use crate::procedure::{Params, Procedure};
use crate::promise::Promise;
use crate::session::Session;
use crate::stubs::Object;

/// A value with the type of the cell that can have it.
#[diagnostic::on_unimplemented(
    message = "a `let mut` of a remote function cannot be a `{Self}`",
    note = "write its type, as in `let mut n: i64 = 0`, or use a value that crosses"
)]
pub trait Operand: IntoArg<Self::Element> {
    /// The type of the cell's contents.
    type Element: Element;
}

macro_rules! operands {
    ($($ty:ty: $element:ty),*) => {$(
        impl Operand for $ty {
            type Element = $element;
        }
    )*};
}

operands! { bool: bool, i64: i64, f64: f64, char: char, &str: String, String: String }

impl<V: Element> Operand for Promise<V>
where
    Promise<V>: IntoArg<V>,
{
    type Element = V;
}

impl<T: Object + IntoArg<T>> Operand for T {
    type Element = T;
}

/// Makes the cell of a variable.
#[track_caller]
pub fn cell<A: Operand>(session: &Session, value: A) -> Cell<A::Element> {
    session.cell_with(value)
}

/// Makes the cell of a value that is chosen later.
#[track_caller]
pub fn empty<T: Element>(session: &Session) -> Cell<T> {
    session.cell()
}

/// Puts a chosen value into its cell.
#[track_caller]
pub fn choose<A: Operand>(cell: &Cell<A::Element>, value: A) {
    cell.put(value);
}

thread_local! {
    /// The functions whose procedures this thread is about to define.
    static DEFINING: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Returns the procedure of a function: the session's, or a new one behind those that it uses.
///
/// Functions that use each other are no endless recursion: the call of the one that is not there
/// yet is refused, as a procedure that is defined inside another one.
#[track_caller]
pub fn procedure<P: Params, R: Element, V: IntoArg<R>>(
    session: &Session,
    name: &'static str,
    uses: impl FnOnce(),
    body: impl FnOnce(&Procedure<P, R>, P::Futures) -> V,
) -> Procedure<P, R> {
    if let Some(found) = session.find_procedure(name) {
        return found;
    }
    if DEFINING.with_borrow(|names| names.contains(&name)) {
        return session.refused_procedure();
    }
    DEFINING.with_borrow_mut(|names| names.push(name));
    let _defined = Defined;
    uses();
    session.procedure_at(name, body, Place::caller())
}

/// Notes that the newest definition is over, if its closure panics too.
struct Defined;

impl Drop for Defined {
    fn drop(&mut self) {
        DEFINING.with_borrow_mut(Vec::pop);
    }
}
