//! A service that stays: runs with a server of it, and with another one when that is lost.
//!
//! [`Service`] is the type to read first. A run goes through these steps:
//!
//! ```text
//!   take a newer server, if the watch has one
//!     |
//!   is the session open? -- no --> search  -- none found --> error
//!     |                              ^
//!   the body                         |
//!     |-- the session is lost ---> `bifrost_trader::failover::next`: again, or the error
//!     +-- otherwise: its result
//! ```
//!
//! Nothing runs twice. A loss is known to have run nothing if no write was tried in the run. The
//! state of a session is looked at before a run, so that a server that was lost between two runs
//! costs none of them.

use std::fmt;
use std::hash::BuildHasher;

use bifrost_recorder::Closed;
use bifrost_trader::failover::{self, Batch, Loss, Next, Ran};
use bifrost_wire::{BatchName, ErrorNumber};

use crate::error::{ConnectError, Error, Place};
use crate::import::dial::{Greeted, Lookup};
use crate::import::search::Searcher;
use crate::import::watch::Watch;
use crate::import::{Imported, stubs_of};
use crate::live::{Way, Wire};
use crate::session::{Builder, How, Session};
use crate::stubs::Object;

/// The most times that a run is begun: a batch that ends every server must not end all of them.
pub const RUNS_MAX: u32 = 16;

/// A service at traders, and a session with one server of it.
///
/// It is used by one task at a time. Objects belong to their session, so they are not kept from one
/// run to the next; changes that a run has not committed are lost with its server. After a run that
/// has failed, its transaction is aborted.
///
/// | the server is lost, and | then |
/// | --- | --- |
/// | nothing of the run was sent | the body is called again, with another server |
/// | the run is [named](Service::run_named) | as above, with a server of the same store |
/// | otherwise | [`ServiceError::Lost`], which says what is known |
///
/// A thread for each trader waits for changes there. A server that is new, or that the query
/// prefers, is used from the next run on.
pub struct Service<T> {
    builder: Builder,
    url: String,
    searcher: Option<Searcher<Greeted>>,
    current: Option<Current<T>>,
    /// The step after the last loss.
    lost: Next,
    watch: Option<Watch>,
    /// The names of its batches: 128 random bits, and the last number.
    batches: BatchName,
}

struct Current<T> {
    session: Session,
    object: T,
}

/// The reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no server. Nothing has run.
    #[error(transparent)]
    Import(#[from] ConnectError),
    /// The server is lost, and the run must not be begun again.
    #[error("the server is lost, and {}: {why}{}", said(*ran), and(search.as_deref()))]
    Lost {
        /// The account of the run.
        ran: Ran,
        /// The end of the session.
        why: Box<Error>,
        /// The reason why no other server could be asked, for a named transaction.
        search: Option<Box<ConnectError>>,
    },
    /// The body has failed, or its transaction; the session goes on.
    #[error(transparent)]
    Call(Error),
}

fn said(ran: Ran) -> &'static str {
    match ran {
        Ran::No => "nothing of the run was done",
        Ran::Began => "a part of the run was done",
        Ran::Unknown => "nobody knows if the run was done",
    }
}

fn and(search: Option<&ConnectError>) -> String {
    search.map(|why| format!("; {why}")).unwrap_or_default()
}

impl ServiceError {
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

/// A search to be made, with the step after the last loss, if there was one.
type Due = (Searcher<Greeted>, Option<Next>);

/// The counts of a session before a run.
#[derive(Clone, Copy)]
struct Mark {
    writes: u64,
    executed: u64,
}

/// The losses of one run.
#[derive(Default)]
struct Losses {
    count: u32,
    /// The last one, with the worst that is known.
    last: Option<(Ran, Error)>,
}

impl<T: Object + Clone> Service<T> {
    /// Makes a service of a URL such as `trader://host/DataBase?region=eu`. Nothing is connected
    /// before the first run.
    pub fn new(url: impl Into<String>) -> Service<T> {
        Service::with(Session::builder(stubs_of::<T>()), url)
    }

    /// As [`Service::new`], with the settings of a session. `timeout` bounds each search for a
    /// server, and each answer.
    pub fn with(builder: Builder, url: impl Into<String>) -> Service<T> {
        let random = std::hash::RandomState::new();
        let client = u128::from(random.hash_one(1)) << 64 | u128::from(random.hash_one(2));
        Service {
            builder,
            url: url.into(),
            searcher: None,
            current: None,
            lost: Next::Again,
            watch: None,
            batches: BatchName { client, number: 0 },
        }
    }

    /// Returns the server of the session, if there is one.
    pub fn server(&self) -> Option<&Imported> {
        self.current.as_ref()?.session.service()
    }

    /// Calls `body` with a session and the object, and returns its result.
    ///
    /// If the server is lost before anything of the run was sent, `body` is called again with
    /// another one. If anything was sent, it is not.
    ///
    /// # Errors
    /// There is no server, it was lost, or the body has failed: [`ServiceError::ran`] says what is
    /// known of the run.
    pub fn run<R>(
        &mut self,
        mut body: impl FnMut(&Session, &T) -> Result<R, Error>,
    ) -> Result<R, ServiceError> {
        let mut losses = Losses::default();
        loop {
            self.ready().map_err(|why| losses.without_server(why))?;
            let Some(Current { session, object }) = &self.current else { continue };
            let mark = session.mark();
            let outcome = body(session, object);
            if let Some(end) = self.judge(&mut losses, mark, outcome, false) {
                return end;
            }
        }
    }

    /// Runs a batch that is a transaction, as [`Session::transaction`] does, under a name of its
    /// own: if the server is lost, the batch is sent again to another one of the same store, which
    /// knows whether it was done. So it is done once, and its answer comes as long as there is a
    /// server.
    ///
    /// The result of `body` may hold promises, which have their values then. Objects in it are not
    /// there if the answer is given again.
    ///
    /// # Errors
    /// As [`Service::run`] and `transaction`. The server is lost and no other one of its store is
    /// found: then nobody knows whether the batch was done.
    #[track_caller]
    pub fn run_named<R>(&mut self, body: impl FnMut(&Session, &T) -> R) -> Result<R, ServiceError> {
        self.run_transaction(How::default(), body)
    }

    /// As [`Service::run_named`], with the number of tries of `how`, and with its name if it has
    /// one: so a program that was started again can send a batch that an earlier process has sent.
    ///
    /// # Errors
    /// As [`Service::run_named`].
    #[track_caller]
    pub fn run_transaction<R>(
        &mut self,
        how: How,
        mut body: impl FnMut(&Session, &T) -> R,
    ) -> Result<R, ServiceError> {
        let (how, place) = (self.named(how), Place::caller());
        let mut losses = Losses::default();
        loop {
            self.ready().map_err(|why| losses.without_server(why))?;
            let Some(Current { session, object }) = &self.current else { continue };
            let mark = session.mark();
            let outcome = session.transaction_at(how, || body(session, object), place);
            if let Some(end) = self.judge(&mut losses, mark, outcome, true) {
                return end;
            }
        }
    }

    /// Gives a batch the next name, unless it has one.
    fn named(&mut self, how: How) -> How {
        match how.name() {
            Some(_) => how,
            None => {
                self.batches.number += 1;
                how.named(self.batches)
            }
        }
    }

    /// Sees to it that there is a session.
    fn ready(&mut self) -> Result<(), ConnectError> {
        let Some((mut searcher, next)) = self.prepare()? else { return Ok(()) };
        let found = searcher.search(next);
        self.take_found(searcher, found)
    }

    /// Takes a newer server. Returns the search to be made, if there is no open session.
    fn prepare(&mut self) -> Result<Option<Due>, ConnectError> {
        let ready = self.watch.as_ref().and_then(Watch::take_ready);
        // A named batch stays with its store until it is done.
        if let Some((greeted, imported)) = ready.filter(|_| self.lost == Next::Again) {
            self.take_server(greeted, imported)?;
        }
        if self.current.as_ref().is_some_and(|current| current.session.is_open()) {
            return Ok(None);
        }
        self.current = None;
        match self.searcher.take() {
            Some(searcher) => Ok(Some((searcher, Some(std::mem::replace(&mut self.lost, Next::Again))))),
            None => {
                let search = self.builder.search(&self.url)?;
                #[cfg(feature = "async")]
                let search = search.awaited();
                let dialer = self.builder.dialer(Some(Lookup::of::<T>()));
                self.lost = Next::Again;
                Ok(Some((Searcher::new(search, std::sync::Arc::new(dialer)), None)))
            }
        }
    }

    /// Goes on with a server that the watch has found, if it is still there.
    fn take_server(&mut self, greeted: Greeted, imported: Imported) -> Result<(), ConnectError> {
        let (session, object) = greeted.open_with::<T>(Self::way(), imported.clone())?;
        if session.is_open()
            && let Some(searcher) = &mut self.searcher
        {
            searcher.moved(&imported);
            self.note_server(imported);
            self.current = Some(Current { session, object });
        }
        Ok(())
    }

    /// Takes the result of a search.
    fn take_found(
        &mut self,
        searcher: Searcher<Greeted>,
        found: Result<(Greeted, Imported), ConnectError>,
    ) -> Result<(), ConnectError> {
        let (greeted, imported) = found?;
        let (session, object) = greeted.open_with::<T>(Self::way(), imported.clone())?;
        if self.watch.is_none() {
            let (search, dialer) = (searcher.settings().clone(), searcher.dialer().clone());
            self.watch = Some(Watch::start(search, dialer, imported.clone(), &searcher.seen)?);
        }
        self.note_server(imported);
        self.searcher = Some(searcher);
        self.current = Some(Current { session, object });
        Ok(())
    }

    fn note_server(&self, imported: Imported) {
        if let Some(watch) = &self.watch {
            watch.use_server(imported);
        }
    }

    /// The way of the bytes: that of sessions that can be awaited, where there are such.
    fn way() -> fn(Wire<bifrost_transport::Stream>) -> Result<Way, ConnectError> {
        #[cfg(feature = "async")]
        return Way::polled;
        #[cfg(not(feature = "async"))]
        return Way::blocking;
    }

    /// Returns the result of a run; nothing if it is to be begun again.
    fn judge<R>(
        &mut self,
        losses: &mut Losses,
        mark: Mark,
        outcome: Result<R, Error>,
        is_named: bool,
    ) -> Option<Result<R, ServiceError>> {
        let session = &self.current.as_ref()?.session;
        let is_closed = session.is_closed();
        let why = match outcome {
            Err(why) if is_closed && is_loss(&why) => why,
            outcome => {
                if is_closed {
                    self.current = None;
                } else if outcome.is_err() {
                    // What is left of the run must not be committed by the next one.
                    drop(session.abort());
                    session.clear_exceptions();
                }
                self.release_store();
                return Some(outcome.map_err(ServiceError::Call));
            }
        };
        let now = session.mark();
        let ran = if now.writes == mark.writes {
            Ran::No
        } else if now.executed > mark.executed {
            Ran::Began
        } else {
            Ran::Unknown
        };
        let batch = if is_named { Batch::Named } else { Batch::Plain };
        let next = failover::next(Loss::Lost(ran), batch);
        self.current = None;
        losses.note(ran, why);
        if next == Next::GiveUp || losses.count >= RUNS_MAX {
            self.release_store();
            return losses
                .last
                .take()
                .map(|(ran, why)| Err(ServiceError::Lost { ran, why: Box::new(why), search: None }));
        }
        self.lost = next;
        None
    }

    fn release_store(&mut self) {
        self.lost = Next::Again;
        if let Some(searcher) = &mut self.searcher {
            searcher.release_store();
        }
    }
}

/// True for the error of a session that was lost, and that the program has not closed itself.
fn is_loss(error: &Error) -> bool {
    matches!(error.root(), Error::Closed(why) if !matches!(**why, Closed::ByClient))
}

impl Losses {
    /// Notes a loss. What an earlier one has left unknown stays unknown.
    fn note(&mut self, ran: Ran, why: Error) {
        self.count += 1;
        let ran = match self.last.take() {
            Some((before, _)) if before != Ran::No => before,
            _ => ran,
        };
        self.last = Some((ran, why));
    }

    /// Returns the error of a run for which there is no other server.
    fn without_server(&mut self, why: ConnectError) -> ServiceError {
        match self.last.take() {
            Some((ran, lost)) if ran != Ran::No => {
                ServiceError::Lost { ran, why: Box::new(lost), search: Some(Box::new(why)) }
            }
            _ => ServiceError::Import(why),
        }
    }
}

impl Session {
    fn mark(&self) -> Mark {
        let live = self.core.live.borrow();
        Mark { writes: live.writes(), executed: live.recorder.counters().executed }
    }

    fn is_closed(&self) -> bool {
        self.core.live.borrow().recorder.is_closed()
    }
}

impl<T> fmt::Debug for Service<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(feature = "async")]
mod awaited {
    use super::*;

    impl<T: Object + Clone + Send + Sync> Service<T> {
        /// As [`Service::run`], to be awaited. The body has clones of the session and the object.
        ///
        /// # Errors
        /// As [`Service::run`].
        pub async fn run_async<R, F>(
            &mut self,
            mut body: impl FnMut(Session, T) -> F,
        ) -> Result<R, ServiceError>
        where
            F: Future<Output = Result<R, Error>>,
        {
            let mut losses = Losses::default();
            loop {
                self.ready_async().await.map_err(|why| losses.without_server(why))?;
                let Some(Current { session, object }) = &self.current else { continue };
                let mark = session.mark();
                let outcome = body(session.clone(), object.clone()).await;
                if let Some(end) = self.judge(&mut losses, mark, outcome, false) {
                    return end;
                }
            }
        }

        /// As [`Service::run_named`], to be awaited.
        ///
        /// # Errors
        /// As [`Service::run_named`].
        pub async fn run_named_async<R: Send>(
            &mut self,
            body: impl FnMut(&Session, &T) -> R + Send,
        ) -> Result<R, ServiceError> {
            self.run_transaction_async(How::default(), body).await
        }

        /// As [`Service::run_transaction`], to be awaited.
        ///
        /// # Errors
        /// As [`Service::run_named`].
        pub async fn run_transaction_async<R: Send>(
            &mut self,
            how: How,
            mut body: impl FnMut(&Session, &T) -> R + Send,
        ) -> Result<R, ServiceError> {
            let how = self.named(how);
            let mut losses = Losses::default();
            loop {
                self.ready_async().await.map_err(|why| losses.without_server(why))?;
                let Some(Current { session, object }) = &self.current else { continue };
                let (session, object) = (session.clone(), object.clone());
                let mark = session.mark();
                let outcome = session.transaction_async(how, || body(&session, &object)).await;
                if let Some(end) = self.judge(&mut losses, mark, outcome, true) {
                    return end;
                }
            }
        }

        async fn ready_async(&mut self) -> Result<(), ConnectError> {
            let Some((mut searcher, next)) = self.prepare()? else { return Ok(()) };
            let searched = blocking::unblock(move || {
                let found = searcher.search(next);
                (searcher, found)
            });
            let (searcher, found) = searched.await;
            self.take_found(searcher, found)
        }
    }
}
