//! A service that stays: runs with a server of it, and with another one when that is lost.
//!
//! [`Service`] is the type to read first. Sessions are the caller's, and so is the body of a run.
//! A run goes through these steps:
//!
//! ```text
//!   take a newer server, if the watch has one                        take_newer, moved
//!     |
//!   is the session open? -- no --> search -- none found --> error   begin_search, found, no_server
//!     |                              ^
//!   the body                         |
//!     |-- the session is lost ---> `failover::next`: again, or error lost
//!     +-- otherwise: its result                                      done
//! ```
//!
//! Nothing runs twice. A loss is known to have run nothing if no write was tried in the run. The
//! state of a session is looked at before a run, so that a server that was lost between two runs
//! costs none of them.

use std::fmt;
use std::hash::BuildHasher;

use bifrost_recorder::{Closed, Error, Recorder, Source};
pub use bifrost_trader::failover::Ran;
use bifrost_trader::failover::{self, Batch, Loss, Next};
use bifrost_transport::ReadError;
use bifrost_wire::{BatchName, ErrorNumber};

use crate::Imported;
use crate::connection::ConnectionError;
use crate::error::ConnectError;
use crate::search::Searcher;
use crate::watch::Watch;

/// The most times that a run is begun: a batch that ends every server must not end all of them.
pub const RUNS_MAX: u32 = 16;

/// The part of a service that has no session: the search, the watch, the rule after a loss. A
/// server is found as a `C`, which a thread has made.
pub struct Service<C> {
    searcher: Option<Searcher<C>>,
    /// The step after the last loss.
    next: Next,
    watch: Option<Watch<C>>,
    /// The names of its batches: 128 random bits, and the last number.
    batches: BatchName,
}

/// A search to be made, with the step after the last loss, if there was one. It may be made on
/// another thread.
pub struct Due<C> {
    searcher: Searcher<C>,
    next: Option<Next>,
}

/// The counts of a session before a run, and after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The writes that were tried.
    pub writes: u64,
    /// The calls that the server has run.
    pub executed: u64,
    /// The batches that were flushed.
    pub flushed: u64,
}

/// The losses of one run.
#[derive(Debug)]
pub struct Losses<S> {
    count: u32,
    /// The last one, with the account of the whole run.
    last: Option<(Ran, Error<S>)>,
}

/// The reason why a run has no result.
#[derive(Debug)]
pub enum ServiceError<S> {
    /// There is no server. Nothing has run.
    Import(ConnectError),
    /// The server is lost, and the run must not be begun again.
    Lost {
        /// The account of the run.
        ran: Ran,
        /// The end of the session.
        why: Box<Error<S>>,
        /// The reason why no other server could be asked, for a named transaction.
        search: Option<Box<ConnectError>>,
    },
    /// The body has failed, or its transaction; the session goes on.
    Call(Error<S>),
}

fn said(ran: Ran) -> &'static str {
    match ran {
        Ran::No => "nothing of the run was done",
        Ran::Began => "a part of the run was done",
        Ran::Unknown => "nobody knows if the run was done",
    }
}

impl<S: Source> fmt::Display for ServiceError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceError::Import(why) => fmt::Display::fmt(why, f),
            ServiceError::Call(why) => fmt::Display::fmt(why, f),
            ServiceError::Lost { ran, why, search } => {
                write!(f, "the server is lost, and {}: {why}", said(*ran))?;
                search.iter().try_for_each(|why| write!(f, "; {why}"))
            }
        }
    }
}

impl<S: Source + Send + Sync> std::error::Error for ServiceError<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServiceError::Import(why) => why.source(),
            ServiceError::Call(why) => why.source(),
            ServiceError::Lost { .. } => None,
        }
    }
}

impl<S> From<ConnectError> for ServiceError<S> {
    fn from(why: ConnectError) -> ServiceError<S> {
        ServiceError::Import(why)
    }
}

impl<S> ServiceError<S> {
    /// Returns what is known of the run: whether anything of it was done.
    pub fn ran(&self) -> Ran {
        match self {
            ServiceError::Import(_) => Ran::No,
            ServiceError::Lost { ran, .. } => *ran,
            ServiceError::Call(error) => match error.root() {
                Error::Refused { number, .. } if *number == ErrorNumber::StoreFailed as u32 => Ran::Unknown,
                _ => Ran::Began,
            },
        }
    }
}

impl Mark {
    /// Returns the counts of a session.
    pub fn of<S: Source>(writes: u64, recorder: &Recorder<S>) -> Mark {
        let counters = recorder.counters();
        Mark { writes, executed: counters.executed, flushed: counters.crossings }
    }

    /// Returns the account of a run whose session was lost. Over QUIC the end of the session tells
    /// of its last batch.
    fn ran_until<S>(self, now: Mark, why: &Error<S>) -> Ran {
        if now.writes == self.writes {
            Ran::No
        } else if now.executed > self.executed {
            Ran::Began
        } else {
            match ran_at_end(why) {
                // It is about the last batch, and this run had others before it.
                Some(Ran::No) if now.flushed > self.flushed + 1 => Ran::Unknown,
                told => told.unwrap_or(Ran::Unknown),
            }
        }
    }
}

/// Returns what the end of a session tells of the batch that was under way.
pub fn ran_at_end<S>(why: &Error<S>) -> Option<Ran> {
    let Error::Closed(closed) = why.root() else { return None };
    let Closed::Connection(source) = &**closed else { return None };
    match source.downcast_ref()? {
        ConnectionError::Read(ReadError::Lost { ran, .. }) => Some(match ran {
            bifrost_transport::Ran::No => Ran::No,
            bifrost_transport::Ran::Began => Ran::Began,
            bifrost_transport::Ran::Unknown => Ran::Unknown,
        }),
        _ => None,
    }
}

/// True for the error of a session that was lost, and that the program has not closed itself.
pub fn is_loss<S>(error: &Error<S>) -> bool {
    matches!(error.root(), Error::Closed(why) if !matches!(**why, Closed::ByClient))
}

impl<C: Send + 'static> Default for Service<C> {
    fn default() -> Service<C> {
        let random = std::hash::RandomState::new();
        let client = u128::from(random.hash_one(1)) << 64 | u128::from(random.hash_one(2));
        let batches = BatchName { client, number: 0 };
        Service { searcher: None, next: Next::Again, watch: None, batches }
    }
}

impl<C: Send + 'static> Service<C> {
    /// Returns the name of the next batch.
    pub fn name_batch(&mut self) -> BatchName {
        self.batches.number += 1;
        self.batches
    }

    /// Takes a newer server, if the watch has one. A named batch stays with its store until it is
    /// done.
    pub fn take_newer(&mut self) -> Option<(C, Imported)> {
        let ready = self.watch.as_ref().and_then(Watch::take_ready);
        ready.filter(|_| self.next == Next::Again && self.searcher.is_some())
    }

    /// Notes that a newer server is in use.
    pub fn moved(&mut self, imported: Imported) {
        if let Some(searcher) = &mut self.searcher {
            searcher.moved(&imported);
        }
        self.note_server(imported);
    }

    /// Begins a search. `make` makes the searcher, for the first search and after one that has
    /// found nothing.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn begin_search(
        &mut self,
        make: impl FnOnce() -> Result<Searcher<C>, ConnectError>,
    ) -> Result<Due<C>, ConnectError> {
        match self.searcher.take() {
            Some(searcher) => {
                Ok(Due { searcher, next: Some(std::mem::replace(&mut self.next, Next::Again)) })
            }
            None => {
                let searcher = make()?;
                self.next = Next::Again;
                Ok(Due { searcher, next: None })
            }
        }
    }

    /// Takes the searcher back that has found a server, and begins to watch the traders.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn found(&mut self, due: Due<C>, imported: Imported) -> Result<(), ConnectError> {
        let searcher = due.searcher;
        if self.watch.is_none() {
            let (search, dialer) = (searcher.settings().clone(), searcher.dialer().clone());
            self.watch = Some(Watch::start(search, dialer, imported.clone(), searcher.seen())?);
        }
        self.note_server(imported);
        self.searcher = Some(searcher);
        Ok(())
    }

    fn note_server(&self, imported: Imported) {
        if let Some(watch) = &self.watch {
            watch.use_server(imported);
        }
    }

    /// Decides about the loss of a server. Nothing if the run is to be begun again.
    pub fn lost<S>(
        &mut self,
        losses: &mut Losses<S>,
        (before, now): (Mark, Mark),
        why: Error<S>,
        is_named: bool,
    ) -> Option<ServiceError<S>> {
        // The worst of all losses of this run decides: what an earlier server may have done
        // stays so.
        let ran = losses.note(before.ran_until(now, &why), why);
        let batch = if is_named { Batch::Named } else { Batch::Plain };
        let next = failover::next(Loss::Lost(ran), batch);
        if next == Next::GiveUp || losses.count >= RUNS_MAX {
            self.done();
            let lost = losses.last.take();
            return lost.map(|(ran, why)| ServiceError::Lost { ran, why: Box::new(why), search: None });
        }
        self.next = next;
        None
    }

    /// Notes the end of a run: the next one may have a server of any store.
    pub fn done(&mut self) {
        self.next = Next::Again;
        if let Some(searcher) = &mut self.searcher {
            searcher.release_store();
        }
    }
}

impl<C: Send + 'static> Due<C> {
    /// Makes the search. Not again after an error.
    ///
    /// # Errors
    /// No server was found within the time.
    pub fn search(&mut self) -> Result<(C, Imported), ConnectError> {
        self.searcher.search(self.next.take())
    }
}

impl<S> Default for Losses<S> {
    fn default() -> Losses<S> {
        Losses { count: 0, last: None }
    }
}

impl<S> Losses<S> {
    /// Notes a loss, and returns the account of the whole run: that of the first loss with effects.
    fn note(&mut self, ran: Ran, why: Error<S>) -> Ran {
        self.count += 1;
        let ran = match self.last.take() {
            Some((before, _)) if before != Ran::No => before,
            _ => ran,
        };
        self.last = Some((ran, why));
        ran
    }

    /// Returns the error of a run for which there is no other server.
    pub fn no_server(&mut self, why: ConnectError) -> ServiceError<S> {
        match self.last.take() {
            Some((ran, lost)) if ran != Ran::No => {
                ServiceError::Lost { ran, why: Box::new(lost), search: Some(Box::new(why)) }
            }
            _ => ServiceError::Import(why),
        }
    }
}

impl<C> fmt::Debug for Service<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for Due<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Due").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A loss by the end of the connection.
    fn lost() -> Error<u32> {
        Error::Closed(Arc::new(Closed::WrongReply("none")))
    }

    #[test]
    fn the_end_of_a_session_tells_of_its_last_batch_alone() {
        let ended = |ran| {
            let why = bifrost_transport::LinkError::Restarted;
            let error = ConnectionError::Read(ReadError::Lost { why, ran });
            Error::<u32>::Closed(Arc::new(error.into()))
        };
        let mark = |executed, flushed| Mark { writes: flushed, executed, flushed };
        let ran = |told, now| mark(5, 3).ran_until(now, &ended(told));
        use bifrost_transport::Ran as Told;
        assert_eq!(ran(Told::No, mark(5, 4)), Ran::No);
        assert_eq!(ran(Told::Began, mark(5, 4)), Ran::Began);
        assert_eq!(ran(Told::Unknown, mark(5, 4)), Ran::Unknown);
        // An earlier batch of the run may have committed without a call.
        assert_eq!(ran(Told::No, mark(5, 5)), Ran::Unknown);
        assert_eq!(ran(Told::No, mark(6, 5)), Ran::Began);
        assert_eq!(mark(5, 3).ran_until(mark(5, 4), &lost()), Ran::Unknown);
    }

    #[test]
    fn a_named_batch_that_may_have_run_stays_with_its_store() {
        let mut service = Service::<()>::default();
        let mut losses = Losses::default();
        let none = Mark { writes: 0, executed: 0, flushed: 0 };
        let one = Mark { writes: 1, executed: 0, flushed: 1 };
        assert!(service.lost(&mut losses, (none, one), lost(), true).is_none());
        assert_eq!(service.next, Next::SameStore);
        // A search takes the step; the next server is lost before anything was written to it.
        service.next = Next::Again;
        assert!(service.lost(&mut losses, (none, none), lost(), true).is_none());
        assert_eq!(service.next, Next::SameStore);
        service.done();
        assert_eq!(service.next, Next::Again);
    }
}
