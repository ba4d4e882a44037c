//! Cells: assignment inside batched loops.

use std::marker::PhantomData;

use bifrost_recorder::CellNumbers;

use crate::call::{Argument, Element, IntoArg, Numbered, Reference, Stub};
use crate::error::Place;
use crate::plain::{Items, Plain};
use crate::promise::Promise;

/// An object of the server that stores one value (Zondervan 1995, 5.2.6).
pub struct Cell<T> {
    stub: Stub,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Cell<T> {
    fn clone(&self) -> Self {
        Cell { stub: self.stub.clone(), element: PhantomData }
    }
}

impl<T> std::fmt::Debug for Cell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cell({:?})", self.stub)
    }
}

impl<T: Element> Cell<T> {
    fn numbers(&self) -> CellNumbers {
        T::cell(&Numbered(self.stub.core.live.borrow().recorder.numbers()))
    }

    /// Stores a value.
    #[track_caller]
    pub fn put(&self, value: impl IntoArg<T>) -> Promise<()> {
        self.put_at(value, Place::caller())
    }

    /// As [`Cell::put`], at a place of the program.
    pub(crate) fn put_at(&self, value: impl IntoArg<T>, place: Place) -> Promise<()> {
        self.stub.call_at(self.numbers().put, &[value.argument()], place)
    }

    /// Returns the value stored last; `not_possible` if there is none.
    #[track_caller]
    pub fn get(&self) -> T::Future {
        self.stub.call(self.numbers().get, &[])
    }

    /// True if a value has been stored.
    #[track_caller]
    pub fn full(&self) -> Promise<bool> {
        self.stub.call(self.numbers().full, &[])
    }
}

impl<T: Element> Reference for Cell<T> {
    fn from_stub(stub: Stub) -> Self {
        Cell { stub, element: PhantomData }
    }

    fn stub(&self) -> &Stub {
        &self.stub
    }
}

impl<T: Element> Element for Cell<T> {
    type Future = Cell<T>;
    type Plain = Cell<T>;

    fn ty(numbers: &Numbered<'_>) -> u32 {
        T::cell(numbers).ty
    }

    fn cell(_: &Numbered<'_>) -> CellNumbers {
        CellNumbers::NONE
    }
}

impl<T: Element> Plain for Cell<T> {
    fn take(items: &mut Items<'_, '_>) -> Option<Self> {
        items.object()
    }
}

impl<T: Element> IntoArg<Cell<T>> for &Cell<T> {
    fn argument(&self) -> Argument<'_> {
        Argument::Stub(&self.stub)
    }
}

impl<T: Element> IntoArg<Cell<T>> for Cell<T> {
    fn argument(&self) -> Argument<'_> {
        Argument::Stub(&self.stub)
    }
}
