//! Live batches: a batch that is run again whenever its answer may have changed.
//!
//! [`Session::live`] is the function to read first; [`LiveBatch`] is the iterator that it returns.
//! A step of the iterator is one crossing:
//!
//! ```text
//! wait, while nothing that the last run has read was changed      not before the first run
//! the batch of the closure
//! flush
//! ```
//!
//! The server knows all that a run has read, so it misses no change between a run and its wait.

use std::time::Duration;

use bifrost_recorder::Known;
use bifrost_wire::ErrorNumber;

use crate::call::{Reference, Stub};
use crate::error::{Error, Place};
use crate::live::Recorder;
use crate::plain::Plain;
use crate::promise::Promise;
use crate::rows::{Columns, Rows};
use crate::session::Session;
use crate::stubs::Object;

/// The results of a batch: a promise, a table of rows, a generated type, or several of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the result of a batch",
    label = "a promise, a table of rows or a generated type was expected, or a tuple of these"
)]
pub trait Claim {
    /// The type of the results in the program.
    type Output;

    /// Returns the results. Flushes the session if they are not there yet.
    ///
    /// # Errors
    /// As [`Promise::claim`].
    #[track_caller]
    fn claim(&self) -> Result<Self::Output, Error>;

    /// True if both are known to be the same.
    #[doc(hidden)]
    fn is_same(&self, other: &Self) -> bool;

    /// Passes the stubs on.
    #[doc(hidden)]
    fn each_stub(&self, each: &mut dyn FnMut(&Stub));
}

/// True if two stubs have the same result.
fn is_same(one: &impl Reference, other: &impl Reference) -> bool {
    let (one, other) = (one.stub(), other.stub());
    one.core.live.borrow().recorder.is_same(one.slot, other.slot)
}

impl<V: Plain> Claim for Promise<V> {
    type Output = V;

    #[track_caller]
    fn claim(&self) -> Result<V, Error> {
        Promise::claim(self)
    }

    fn is_same(&self, other: &Self) -> bool {
        is_same(self, other)
    }

    fn each_stub(&self, each: &mut dyn FnMut(&Stub)) {
        each(self.stub());
    }
}

impl<C: Columns> Claim for Rows<C> {
    type Output = Vec<C::Plain>;

    #[track_caller]
    fn claim(&self) -> Result<Self::Output, Error> {
        Rows::claim(self)
    }

    fn is_same(&self, other: &Self) -> bool {
        is_same(self, other)
    }

    fn each_stub(&self, each: &mut dyn FnMut(&Stub)) {
        each(self.stub());
    }
}

impl<T: Object + Clone> Claim for T {
    type Output = T;

    #[track_caller]
    fn claim(&self) -> Result<T, Error> {
        self.stub().resolve()?;
        Ok(self.clone())
    }

    fn is_same(&self, other: &Self) -> bool {
        is_same(self, other)
    }

    fn each_stub(&self, each: &mut dyn FnMut(&Stub)) {
        each(self.stub());
    }
}

impl<T: Claim> Claim for Vec<T> {
    type Output = Vec<T::Output>;

    #[track_caller]
    fn claim(&self) -> Result<Self::Output, Error> {
        self.iter().map(Claim::claim).collect()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(one, other)| one.is_same(other))
    }

    fn each_stub(&self, each: &mut dyn FnMut(&Stub)) {
        self.iter().for_each(|one| one.each_stub(each));
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt),+;)*) => {$(
        impl<$($name: Claim),+> Claim for ($($name,)+) {
            type Output = ($($name::Output,)+);

            #[track_caller]
            fn claim(&self) -> Result<Self::Output, Error> {
                Ok(($(self.$index.claim()?,)+))
            }

            fn is_same(&self, other: &Self) -> bool {
                $(self.$index.is_same(&other.$index))&&+
            }

            fn each_stub(&self, each: &mut dyn FnMut(&Stub)) {
                $(self.$index.each_stub(each);)+
            }
        }
    )*};
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

/// The results of a live batch, one after the other. See [`Session::live`].
#[must_use = "nothing is run before the first result is asked for"]
pub struct LiveBatch<R, F> {
    session: Session,
    body: F,
    place: Place,
    /// The result of the last run, or the text of its failure.
    last: Option<Result<R, String>>,
    /// The number of ends of transactions when it was there; `None` if the server does not know the
    /// objects that it has read.
    read_at: Option<u64>,
    over: bool,
}

impl<R, F> std::fmt::Debug for LiveBatch<R, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveBatch").field("over", &self.over).finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a live batch: the closure records a batch and returns its results, which are run again
    /// whenever they may have changed. `for rows in s.live(|| s.collect(...))` is a view of the
    /// objects that the batch reads, now and after each change.
    ///
    /// - The closure is called for each run, so it may record another batch each time. A run is one
    ///   crossing, if the closure claims nothing itself.
    /// - A run has a transaction of its own, and sees one moment. It waits until another session
    ///   has committed a change to an object that the last one has read. Changes from before the
    ///   next result is asked for are one change, and none is missed.
    /// - A run whose results are those of the last one is passed over. So is one whose failure is.
    /// - A call that fails is the result `Err` of its run; the next change makes the next result.
    ///   The iterator ends behind an error of the whole batch, such as a limit, and behind the end
    ///   of the session.
    ///
    /// Between two results the session is free for other batches. Changes must be committed or
    /// aborted before the next result is asked for, which is an error otherwise (`InTransaction`).
    /// The closure itself neither commits nor aborts.
    #[track_caller]
    pub fn live<R: Claim, F: FnMut() -> R>(&self, body: F) -> LiveBatch<R, F> {
        let place = Place::caller();
        LiveBatch { session: self.clone(), body, place, last: None, read_at: None, over: false }
    }

    fn transaction_ends(&self) -> u64 {
        self.core.live.borrow().recorder.transaction_ends()
    }
}

/// A run that was recorded.
pub(crate) struct Run<R> {
    /// The order of its first failure.
    mark: u64,
    waited: Option<Promise<bool>>,
    results: R,
}

/// An item of a live batch.
type LiveResult<R> = Result<<R as Claim>::Output, Error>;

/// True if a batch has ended because its transaction is gone: the next run has one of its own.
fn is_overtaken(error: &Error) -> bool {
    matches!(error.root(), Error::Refused { number, .. } if ErrorNumber::is_overtaken(*number))
}

impl<R: Claim, F: FnMut() -> R> LiveBatch<R, F> {
    /// Records the wait for a change of an object that the last run has read, if the server knows
    /// these objects.
    fn wait(&self) -> Option<Promise<bool>> {
        (self.read_at == Some(self.session.transaction_ends())).then(|| self.session.wait(Duration::MAX))
    }

    /// Records a run; nothing behind the last one.
    pub(crate) fn record(&mut self) -> Option<Run<R>> {
        if self.over {
            return None;
        }
        let mark = self.with_recorder(|recorder| {
            recorder.take_batch_end();
            recorder.mark_seen()
        });
        let waited = self.wait();
        Some(Run { mark, waited, results: (self.body)() })
    }

    /// Returns the result of a run whose batch was answered; nothing if there is to be another run
    /// first.
    pub(crate) fn finish(&mut self, run: Run<R>, flushed: Result<(), Error>) -> Option<LiveResult<R>> {
        let (result, item) = match self.claim(run, flushed) {
            Ok(Ok((results, claimed))) => (Ok(results), Ok(claimed)),
            Ok(Err(error)) => {
                self.over = matches!(error, Error::Closed(_));
                (Err(error.to_string()), Err(error))
            }
            Err(error) if is_overtaken(&error) => {
                // The transaction is gone, and so is all that it has read.
                self.read_at = None;
                return None;
            }
            Err(error) => return self.end(error),
        };
        let is_last = self.is_last(&result);
        self.last = Some(result);
        (!is_last).then_some(item)
    }

    /// Ends the batch with an error.
    pub(crate) fn end(&mut self, error: Error) -> Option<LiveResult<R>> {
        self.over = true;
        Some(Err(error))
    }

    /// Returns the results of a run, or the failure of one of its calls.
    ///
    /// # Errors
    /// The failure that ended the batch, or the session.
    fn claim(
        &mut self,
        run: Run<R>,
        flushed: Result<(), Error>,
    ) -> Result<Result<(R, R::Output), Error>, Error> {
        let Run { mark, waited, results } = run;
        self.read_at = Some(self.session.transaction_ends());
        flushed?;
        if let Some(end) = self.with_recorder(Recorder::take_batch_end) {
            self.with_recorder(|recorder| recorder.tell_since(mark));
            return Err((*end).clone());
        }
        if let Some(waited) = waited {
            let slot = waited.stub().slot;
            self.with_recorder(|recorder| match recorder.known(slot) {
                Known::Failed(_) => recorder.claim(slot),
                _ => Ok(()),
            })?;
        }
        let claimed = results.claim();
        if claimed.is_err() {
            // The error stands for all failures of the run.
            self.with_recorder(|recorder| recorder.tell_since(mark));
        }
        Ok(claimed.map(|claimed| (results, claimed)))
    }

    #[cfg(feature = "async")]
    pub(crate) fn session_and_place(&self) -> (crate::shared::Shared<crate::live::Core>, Place) {
        (self.session.core.clone(), self.place)
    }

    fn synchronize(&self) -> Result<(), Error> {
        self.session.core.live.borrow_mut().synchronize("live", self.place)
    }

    fn with_recorder<T>(&self, work: impl FnOnce(&mut Recorder) -> T) -> T {
        work(&mut self.session.core.live.borrow_mut().recorder)
    }

    /// True if a result is that of the last run.
    fn is_last(&self, result: &Result<R, String>) -> bool {
        match (&self.last, result) {
            (Some(Ok(last)), Ok(results)) => results.is_same(last),
            (Some(Err(last)), Err(text)) => text == last,
            _ => false,
        }
    }
}

impl<R: Claim, F: FnMut() -> R> Iterator for LiveBatch<R, F> {
    type Item = Result<R::Output, Error>;

    /// Returns the next result that differs from the last one; waits for it.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let under_way = self.with_recorder(|recorder| recorder.is_under_way());
            // Failures of batches before are not those of the run.
            if under_way && let Err(error) = self.synchronize() {
                return self.end(error);
            }
            let run = self.record()?;
            let flushed = self.synchronize();
            if let Some(item) = self.finish(run, flushed) {
                return Some(item);
            }
        }
    }
}
