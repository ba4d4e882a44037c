//! A service that stays: runs with a server of it, and with another one when that is lost.
//!
//! [`Service`] is the type to read first. The steps of a run, and the rule after a loss, are
//! those of all client libraries: `bifrost_client::Service`. This is the typed layer: sessions,
//! objects and bodies.

use std::fmt;
use std::sync::Arc;

use bifrost_client::{Due, Greeted, Losses, Mark, Searcher, Wire, is_loss};
use bifrost_transport::Stream;

use crate::error::{ConnectError, Error, Place};
use crate::import::{Imported, open_with, stubs_of};
use crate::live::Way;
use crate::session::{Builder, How, Session};
use crate::stubs::Object;

/// The reason why a run has no result.
pub type ServiceError = bifrost_client::ServiceError<Place>;

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
    found: bifrost_client::Service<Greeted<Place>>,
    current: Option<Current<T>>,
}

struct Current<T> {
    session: Session,
    object: T,
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
        Service { builder, url: url.into(), found: bifrost_client::Service::default(), current: None }
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
            self.ready().map_err(|why| losses.no_server(why))?;
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
            self.ready().map_err(|why| losses.no_server(why))?;
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
            None => how.named(self.found.name_batch()),
        }
    }

    /// Sees to it that there is a session.
    fn ready(&mut self) -> Result<(), ConnectError> {
        let Some(mut due) = self.prepare()? else { return Ok(()) };
        let found = due.search();
        self.take_found(due, found)
    }

    /// Takes a newer server. Returns the search to be made, if there is no open session.
    fn prepare(&mut self) -> Result<Option<Due<Greeted<Place>>>, ConnectError> {
        if let Some((greeted, imported)) = self.found.take_newer() {
            // If it is still there.
            let (session, object) = open_with::<T>(greeted, Self::way(), imported.clone())?;
            if session.is_open() {
                self.found.moved(imported);
                self.current = Some(Current { session, object });
            }
        }
        if self.current.as_ref().is_some_and(|current| current.session.is_open()) {
            return Ok(None);
        }
        self.current = None;
        let (builder, url) = (&self.builder, &self.url);
        let due = self.found.begin_search(|| {
            let search = builder.options.search(url)?;
            #[cfg(feature = "async")]
            let search = search.awaited();
            Ok(Searcher::new(search, Arc::new(builder.dialer::<T>())))
        });
        due.map(Some)
    }

    /// Takes the result of a search.
    fn take_found(
        &mut self,
        due: Due<Greeted<Place>>,
        found: Result<(Greeted<Place>, Imported), ConnectError>,
    ) -> Result<(), ConnectError> {
        let (greeted, imported) = found?;
        let (session, object) = open_with::<T>(greeted, Self::way(), imported.clone())?;
        self.found.found(due, imported)?;
        self.current = Some(Current { session, object });
        Ok(())
    }

    /// The way of the bytes: that of sessions that can be awaited, where there are such.
    fn way() -> fn(Wire<Stream>) -> Result<Way, ConnectError> {
        #[cfg(feature = "async")]
        return Way::polled;
        #[cfg(not(feature = "async"))]
        return Way::blocking;
    }

    /// Returns the result of a run; nothing if it is to be begun again.
    fn judge<R>(
        &mut self,
        losses: &mut Losses<Place>,
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
                self.found.done();
                return Some(outcome.map_err(ServiceError::Call));
            }
        };
        let marks = (mark, session.mark());
        self.current = None;
        self.found.lost(losses, marks, why, is_named).map(Err)
    }
}

impl Session {
    fn mark(&self) -> Mark {
        let live = self.core.live.borrow();
        Mark::of(live.writes(), &live.recorder)
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
                self.ready_async().await.map_err(|why| losses.no_server(why))?;
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
                self.ready_async().await.map_err(|why| losses.no_server(why))?;
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
            let Some(mut due) = self.prepare()? else { return Ok(()) };
            let searched = blocking::unblock(move || {
                let found = due.search();
                (due, found)
            });
            let (due, found) = searched.await;
            self.take_found(due, found)
        }
    }
}
