//! Tables of rows: the results of loops.
//!
//! [`Session::collect`] is the usual way: a row for each step of an iterator. With
//! [`Session::rows`] and [`Rows::push`] rows come from any structure.

use std::marker::PhantomData;

use bifrost_recorder::Closed;

use crate::call::{Argument, Element, IntoArgs, Numbered, Reference, Stub, operands, results};
use crate::error::{Error, Place};
use crate::iter::{Iter, Yields};
use crate::plain::{Plain, take_rows};
use crate::promise::{Promise, Value};
use crate::session::Session;

/// A table of rows, each a tuple `C`. It ends with the batch that it was made in, as any value:
/// then it can be [claimed](Rows::claim), and takes no more rows.
pub struct Rows<C> {
    stub: Stub,
    columns: PhantomData<fn() -> C>,
}

impl<C> Clone for Rows<C> {
    fn clone(&self) -> Self {
        Rows { stub: self.stub.clone(), columns: PhantomData }
    }
}

impl<C> std::fmt::Debug for Rows<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rows({:?})", self.stub)
    }
}

impl<C: Columns> Reference for Rows<C> {
    fn from_stub(stub: Stub) -> Self {
        Rows { stub, columns: PhantomData }
    }

    fn stub(&self) -> &Stub {
        &self.stub
    }
}

/// A tuple of the types of a table's columns: `(DataElem, String, i64)`.
pub trait Columns: Sized + 'static {
    /// A row as it comes: a tuple of the plain types.
    type Plain: Plain;

    /// Returns the numbers of the types in the stubs, each with its name for messages.
    fn types(numbers: &Numbered<'_>) -> Vec<(u32, &'static str)>;
}

/// A stub that can be a cell: a promise, or a generated type.
pub trait Cellular: Reference {
    /// The type of its column.
    type Element: Element;
}

impl<V: Value> Cellular for Promise<V> {
    type Element = V;
}

impl<T: Element<Future = T> + Reference> Cellular for T {
    type Element = T;
}

/// The cells of a row: a tuple of stubs.
pub trait Row {
    /// The types of its columns.
    type Columns: Columns;

    /// Passes them on.
    #[doc(hidden)]
    fn with<R>(&self, take: impl FnOnce(&[Argument<'_>]) -> R) -> R;
}

impl<C: Columns> Rows<C> {
    /// Appends a row: a value, or a stub, for each column. In structures and procedures it is
    /// appended whenever they come to it.
    #[track_caller]
    pub fn push(&self, row: impl IntoArgs<C>) {
        row.with(|cells| self.emit(cells, Place::caller()));
    }

    #[track_caller]
    fn emit(&self, cells: &[Argument<'_>], place: Place) {
        let core = &self.stub.core;
        // A failure is told with the batch; the promise must go when the session is free again.
        let _emitted: Promise<()> = {
            let live = &mut *core.live.borrow_mut();
            let admitted = live.admit();
            let cells = operands(core, cells);
            let recorded = live.recorder.emit(admitted, self.stub.slot, cells, place);
            results(core, &mut live.recorder, recorded, place)
        };
    }

    /// Returns the rows. Flushes the session if they are not there yet.
    ///
    /// # Errors
    /// As [`Promise::claim`]. A table that is longer than a reply may be is
    /// [`Error::NotReached`](crate::Error::NotReached), with the limit as its cause.
    ///
    /// Cost: linear in the cells; no crossing if the batch was flushed.
    #[track_caller]
    pub fn claim(&self) -> Result<Vec<C::Plain>, Error> {
        let live = &mut *self.stub.core.live.borrow_mut();
        live.know(self.stub.slot, Place::caller())?;
        live.recorder.claim(self.stub.slot)?;
        take_rows(live, &self.stub).ok_or_else(|| {
            let why = Closed::WrongReply("a table does not have the columns that were asked for");
            live.recorder.close(why)
        })
    }
}

impl Session {
    /// Makes an empty table: `s.rows::<(DataElem, i64)>()`. Not inside a structure.
    #[track_caller]
    pub fn rows<C: Columns>(&self) -> Rows<C> {
        let place = Place::caller();
        self.record(place, |live| {
            let admitted = live.admit();
            let types = C::types(&Numbered(live.recorder.numbers()));
            live.recorder.rows(admitted, &types, place)
        })
    }

    /// Collects a row for each step of an iterator: `s.collect(db.users(), |e| (e.clone(),
    /// e.name()))` is a table of users and their names, in one crossing.
    #[track_caller]
    pub fn collect<Y: Yields, R: Row>(
        &self,
        iterator: Iter<Y>,
        row: impl FnOnce(Y::Variables) -> R,
    ) -> Rows<R::Columns> {
        let place = Place::caller();
        let rows = self.rows();
        self.foreach(iterator, |variables| {
            row(variables).with(|cells| Rows::<R::Columns>::emit(&rows, cells, place));
        });
        rows
    }
}
