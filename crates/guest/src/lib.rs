//! The session for a module in WebAssembly: a program of a client that runs in its server
//! (`docs/book/sandbox.md`).
//!
//! Read [`export!`] first, then [`Method`]. A module exports functions. Their parameters are
//! numbers and [`Object`]s, and they call methods of these, found by name. The server checks each
//! call as it checks those of a batch. `examples/sandbox` is a module with its client;
//! `include/bifrost_module.h` is the same for C.
//!
//! | a call | its failure |
//! | --- | --- |
//! | [`Method::call`], [`Routine::call`] | ends the run, and is the failure of the run |
//! | [`Method::try_call`], [`Routine::try_call`] | is a [`Failure`], handled or raised |
//!
//! Basic results are values. Strings, bytes and objects are positions among the results of the run,
//! whose number is limited: [`scope`] forgets those of a round of a loop.
//!
//! A result of another type than the one that is asked for is a mistake of the module: the run ends
//! with the exception `failure`, as it does by [`fail`] and by a panic. The crate needs no standard
//! library.

#![no_std]

extern crate alloc;

mod command;
mod imports;
mod results;

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

pub use command::{ARGUMENTS_MAX, Given, RESULTS_MAX, Value};
pub use results::{Outcome, Plain};

use command::code;
use imports::Named;

/// A number that stands for none that was looked up.
const UNKNOWN: u32 = u32::MAX - 1;

/// The position of the first object that was received in the innermost [`scope`]; 0 before it.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// An object of the server, a string or bytes: an argument or a result of the run.
///
/// It is a number of the run, which ends with it. The server refuses a number that is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Object(u32);

impl Object {
    /// The object at a position.
    pub(crate) const fn at(position: u32) -> Object {
        Object(position)
    }

    pub(crate) const fn position(self) -> u32 {
        self.0
    }

    /// Makes an object of a value; a string has methods then.
    pub fn constant<'a>(value: impl Into<Value<'a>>) -> Object {
        results::must(&command::constant(&value.into()))
    }

    /// Finds a well-known object by its name. There must be one, of the type if one is expected.
    pub fn lookup(name: &str, expected: Option<&Type>) -> Object {
        results::must(&command::lookup(name, expected.map_or(u32::MAX, Type::number)))
    }

    /// Returns the same object as one of another type, or the failure `wrong_type`.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn cast(self, ty: &Type) -> Result<Object, Failure> {
        results::may(&command::cast(code::AS, ty.number(), self))
    }

    /// Tells if the object has a type.
    pub fn is(self, ty: &Type) -> bool {
        results::must(&command::cast(code::IS, ty.number(), self))
    }

    /// Returns the bytes of a string or of bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = alloc::vec![0; 64];
        let length = imports::text(self.0, &mut bytes);
        if length > bytes.len() {
            bytes.resize(length, 0);
            imports::text(self.0, &mut bytes);
        }
        bytes.truncate(length);
        bytes
    }

    /// Returns the text of a string. The run ends if it is bytes that are not in UTF-8.
    pub fn text(self) -> String {
        String::from_utf8(self.bytes()).unwrap_or_else(|_| fail("bytes are not a string"))
    }
}

/// A name of the server's interface, and its number, which is looked up once in a run.
#[derive(Debug)]
struct Name {
    kind: Named,
    name: &'static str,
    number: AtomicU32,
}

impl Name {
    const fn new(kind: Named, name: &'static str) -> Name {
        Name { kind, name, number: AtomicU32::new(UNKNOWN) }
    }

    fn number(&self) -> u32 {
        match self.number.load(Ordering::Relaxed) {
            UNKNOWN => {
                let number = imports::find(self.kind, self.name);
                self.number.store(number, Ordering::Relaxed);
                number
            }
            number => number,
        }
    }

    fn exists(&self) -> bool {
        self.number() != u32::MAX
    }
}

/// A method of the server's interface. A call of one that does not exist is refused.
#[derive(Debug)]
pub struct Method(Name);

impl Method {
    /// The method with the name `type:method`, as `"DataElem:visits"`.
    pub const fn named(name: &'static str) -> Method {
        Method(Name::new(Named::Method, name))
    }

    /// Tells if the server has the method.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Calls the method. A failure ends the run.
    pub fn call<R: Outcome>(&self, receiver: Object, args: &[Value<'_>]) -> R {
        results::must(&command::call(code::CALL, self.0.number(), Some(receiver), args))
    }

    /// Calls the method.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn try_call<R: Outcome>(&self, receiver: Object, args: &[Value<'_>]) -> Result<R, Failure> {
        results::may(&command::call(code::CALL, self.0.number(), Some(receiver), args))
    }

    /// Sends an actor a message that is not answered.
    pub fn send(&self, receiver: Object, args: &[Value<'_>]) {
        results::must(&command::call(code::SEND, self.0.number(), Some(receiver), args))
    }
}

/// A routine of the server's interface. A call of one that does not exist is refused.
#[derive(Debug)]
pub struct Routine(Name);

impl Routine {
    /// The routine with a name.
    pub const fn named(name: &'static str) -> Routine {
        Routine(Name::new(Named::Routine, name))
    }

    /// Tells if the server has the routine.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Calls the routine. A failure ends the run.
    pub fn call<R: Outcome>(&self, args: &[Value<'_>]) -> R {
        results::must(&command::call(code::CALL_ROUTINE, self.0.number(), None, args))
    }

    /// Calls the routine.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn try_call<R: Outcome>(&self, args: &[Value<'_>]) -> Result<R, Failure> {
        results::may(&command::call(code::CALL_ROUTINE, self.0.number(), None, args))
    }
}

/// A type of the server's interface.
#[derive(Debug)]
pub struct Type(Name);

impl Type {
    /// The type with a name.
    pub const fn named(name: &'static str) -> Type {
        Type(Name::new(Named::Type, name))
    }

    /// Tells if the server has the type.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    fn number(&self) -> u32 {
        self.0.number()
    }
}

/// A call that has failed. A module that has seen it goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The method has signalled the exception of this name.
    Signalled(String),
    /// The server has refused the call: the name of the error, as `WrongType`.
    Refused(String),
}

impl Failure {
    /// Returns the name of the exception or of the error.
    pub fn name(&self) -> &str {
        match self {
            Failure::Signalled(name) | Failure::Refused(name) => name,
        }
    }

    /// Tells if it is the exception of this name.
    pub fn is(&self, signal: &str) -> bool {
        matches!(self, Failure::Signalled(name) if name == signal)
    }
}

/// Ends the run with the last failure, and with its values: the client receives it.
pub fn raise() -> ! {
    imports::raise()
}

/// Ends the run with the exception `failure`, and a text: at most 1000 bytes of it.
///
/// A module with the standard library ends a panic so, and its message reaches the client:
/// `std::panic::set_hook(Box::new(|panic| bifrost_guest::fail(&panic.to_string())))`.
pub fn fail(text: &str) -> ! {
    imports::fail(text)
}

/// Runs a function, and forgets the objects that were received in it. They must not be used
/// afterwards: their numbers are those of the next objects.
pub fn scope<T: Plain>(body: impl FnOnce() -> T) -> T {
    let outer = FIRST.swap(0, Ordering::Relaxed);
    let result = body();
    let first = FIRST.swap(outer, Ordering::Relaxed);
    if first != 0 {
        imports::release(first);
    }
    result
}

/// Notes that an object was received.
fn received(object: Object) {
    let _ = FIRST.compare_exchange(0, object.0, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
