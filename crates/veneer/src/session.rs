//! Opening, flushing and closing a session, and the transactions of one.
//!
//! [`Session`] is the type to read first; it records into the recorder (`bifrost_recorder`), which
//! owns the batch, the slots of the stubs and the account of failures. [`Session::builder`] opens a
//! session in three steps: connect, say hello, and match the numbers of the stubs with the server's
//! interface.
//!
//! The functions here only decide when the batch is sent: [`Session::flush`], [`Session::commit`],
//! [`Session::transaction`], [`Session::close`]. Calls are recorded in `crate::call`, structures in
//! `crate::control`, procedures in `crate::procedure`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "async")]
use bifrost_client::asks_for_token;
use bifrost_client::{Greeted, Options, is_trader, parse_address};
use bifrost_recorder::{Counters, Recorded, Stubs};
use bifrost_transport::CallWatch;
#[cfg(feature = "async")]
use bifrost_transport::Stream;
use bifrost_transport::{Address, KeyFiles};
use bifrost_wire::{BatchName, TraceContext};

use crate::call::{Argument, Element, IntoArg, Reference, Results, Stub, client_type, operands, results};
use crate::cell::Cell;
use crate::connection::Link;
use crate::error::{ConnectError, Error, Exception, Place};
use crate::import::Imported;
use crate::live::{Core, Live, Way};
use crate::promise::{Promise, Value};
use crate::shared::{Alone, Guarded, Shared};
use crate::stubs::Object;

/// A connection to a server, and the batch being recorded for it. Clones are the same session.
///
/// It belongs to one thread; in the package `bifrost-veneer-async` several may use it. When the
/// last clone and the last stub are gone, the recorded commands are sent and the session ends.
/// [`Session::close`] does the same and returns the failures.
///
/// # Failures that were told
///
/// A failure is one of these: a call that signalled an exception or was refused; a structure that
/// ended with one; a call that was never sent because the client refused it. The program is *told*
/// of a failure in one of these ways:
///
/// - a claim fails with it, or with a consequence of it: a call that was not run because an
///   argument failed;
/// - [`Session::exceptions`] lists it;
/// - an [`Error::Unseen`] names it.
///
/// A failure is *lost* when no stub is left whose claim would tell it: that of a structure, or of a
/// call whose stubs were dropped. `Error::Unseen` is the result of these calls, if there are
/// failures of these kinds that were not told before:
///
/// - [`claim`](Promise::claim), [`peek`](Promise::peek) and [`resolve`](Session::resolve) of a stub
///   that did not fail itself: lost failures;
/// - [`flush`](Session::flush) and [`close`](Session::close): lost failures, and calls that were
///   not sent;
/// - [`commit`](Session::commit) and [`transaction`](Session::transaction): any failures of the
///   transaction, which is aborted.
///
/// It names all of them. They are told with it, so the same claim, made again, gives the value, and
/// the next commit is not prevented.
///
/// A failure that a structure handles is none. [`Session::clear_exceptions`] marks all failures
/// before it as told. After an `abort` the failures of the transaction prevent no commit; they are
/// told all the same.
#[derive(Clone)]
pub struct Session {
    pub(crate) core: Shared<Core>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// A batch that is a transaction: the result of its body, the promise of its end, and the calls
/// that were not sent.
pub(crate) type Shipped<R> = (R, Promise<()>, Vec<Arc<Error>>);

/// The way to run a batch that is a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    tries: u16,
    batch: Option<BatchName>,
}

impl How {
    /// Sets the greatest number of runs. Default: as many as the server allows.
    pub fn tries(mut self, tries: u16) -> How {
        self.tries = tries;
        self
    }

    /// Has the server do the batch once, however often it is sent under this name. The numbers of a
    /// client's batches grow; the server knows the last of each.
    pub fn named(mut self, batch: BatchName) -> How {
        self.batch = Some(batch);
        self
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> Option<BatchName> {
        self.batch
    }
}

/// Exists while the batch of a transaction is recorded. If that ends by a panic, the server refuses
/// the batch.
struct Shipping<'s>(&'s Session, Option<Alone<'s>>);

impl Shipping<'_> {
    /// Ends the recording; returns the calls that were not sent, for which the server refuses the
    /// batch.
    fn end(mut self) -> Vec<Arc<Error>> {
        let refusals = self.0.core.live.borrow_mut().recorder.end_transaction_batch();
        self.1 = None;
        std::mem::forget(self);
        refusals
    }
}

impl Drop for Shipping<'_> {
    fn drop(&mut self) {
        let live = &mut *self.0.core.live.borrow_mut();
        live.recorder.abandon_transaction();
        let _ = live.flush();
        live.recorder.tell_transaction();
    }
}

/// The settings with which a session is opened.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) options: Options,
}

impl Builder {
    /// Sets the token, shown over TCP and TLS to a server that asks for it. A server that a trader
    /// has named is shown it over TLS or on this machine only. Default: none.
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.options.token = token.into();
        self
    }

    /// Sets the client's name in the server's logs. Default: empty.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.options.client = name.into();
        self
    }

    /// Sets the longest time for connecting, and for the answer to each flush. Default: 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.options.timeout = timeout;
        self
    }

    /// Sets the file of the authorities, in PEM, that may sign the certificates of `tls://`
    /// servers. Default: that of the variable `BIFROST_CA`, or else the system's. An address with a
    /// pin (`tls://host:port#sha256-...`) needs none.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Builder {
        self.options.tls.authorities = Some(file.into());
        self
    }

    /// Sets the files of the client's own certificate and key, in PEM, for `tls://` servers that
    /// ask for one. Default: none.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Builder {
        self.options.tls.certificate = Some(KeyFiles { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Sets the longest reply that is read, in bytes. Default: 64 MiB.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Builder {
        self.options.settings.reply_bytes_max = bytes;
        self
    }

    /// Sets the number of futures after which a batch is flushed by itself, so that their tables
    /// stay bounded (Bogle and Liskov 1994, 5.3). Default: 16384; never more than the server
    /// allows.
    pub fn remap_futures(mut self, futures: usize) -> Builder {
        self.options.settings.remap_futures = futures;
        self
    }

    /// Sets the program's place in a trace: the value of a `traceparent` of W3C Trace Context. The
    /// server's spans of this session's batches then have it as their parent. Default: none.
    ///
    /// # Errors
    /// [`ConnectError::Trace`] if it is none.
    pub fn trace_parent(mut self, trace_parent: &str) -> Result<Builder, ConnectError> {
        let context = TraceContext::parse(trace_parent);
        self.options.settings.trace =
            Some(context.ok_or_else(|| ConnectError::Trace(trace_parent.to_owned()))?);
        Ok(self)
    }

    /// Opens a session with the server at an address like `unix:///run/bifrost/main`, or with one
    /// that a trader knows: `trader://host/DataBase?region=eu` ([`crate::import()`]). Then
    /// [`Session::service`] has the name of the object.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(self, address: &str) -> Result<Session, ConnectError> {
        match is_trader(address) {
            true => self.connect_imported(address),
            false => self.connect_to(&parse_address(address)?),
        }
    }

    fn connect_to(self, address: &Address) -> Result<Session, ConnectError> {
        let Greeted { recorder, wire, .. } = self.options.connect(address)?;
        let live = Live { recorder, way: Way::blocking(wire)? };
        Ok(Session { core: Shared::new(Core { live: Guarded::new(live), imported: None }) })
    }

    /// Opens a session over a connection that is there already. The token is shown at once, since
    /// there is no second connection to show it on when the server asks.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn over(self, connection: Box<Link>) -> Result<Session, ConnectError> {
        let Options { token, timeout, .. } = &self.options;
        let live = Live::open(self.options.greeting(token), connection, *timeout)?;
        Ok(Session { core: Shared::new(Core { live: Guarded::new(live), imported: None }) })
    }

    /// Opens a session to be awaited with the server at an address like `unix:///run/bifrost/main`,
    /// or with one that a trader knows, as [`Builder::connect`] does. Shared memory cannot be
    /// awaited.
    ///
    /// # Errors
    /// See [`ConnectError`].
    #[cfg(feature = "async")]
    pub async fn connect_async(self, address: &str) -> Result<Session, ConnectError> {
        if is_trader(address) {
            return self.connect_imported_async(address).await;
        }
        let address = parse_address(address)?;
        match self.open_async(&address, "").await {
            // As in `connect`.
            Err(why) if asks_for_token(&why, &address, &self.options.token) => {
                self.open_async(&address, &self.options.token).await
            }
            opened => opened,
        }
    }

    #[cfg(feature = "async")]
    async fn open_async(&self, address: &Address, token: &str) -> Result<Session, ConnectError> {
        let (ways, to) = (self.options.ways(), address.clone());
        // Names of hosts are looked up, which waits.
        let stream = blocking::unblock(move || Stream::connect(&to, &ways)).await?;
        let live =
            crate::asynchronous::open(self.options.greeting(token), stream, self.options.timeout).await?;
        Ok(Session { core: Shared::new(Core { live: Guarded::new(live), imported: None }) })
    }
}

impl Session {
    /// Returns the settings of a session for a generated module's stubs.
    pub fn builder(stubs: &'static Stubs) -> Builder {
        Builder { options: Options::new(stubs) }
    }

    /// Returns a well-known object. Not inside a structure: look it up before.
    #[track_caller]
    pub fn lookup<T: Object>(&self, name: &str) -> T {
        let place = Place::caller();
        self.record(place, |live| {
            let admitted = live.admit();
            let ty = client_type::<T>(live.recorder.numbers());
            let type_name = std::any::type_name::<T>();
            live.recorder.lookup(admitted, T::STUBS, name, ty, type_name, place)
        })
    }

    /// Records a call, and returns the stubs of its results.
    #[inline(always)]
    pub(crate) fn record<R: Results>(
        &self,
        place: Place,
        record: impl FnOnce(&mut Live) -> Recorded<Place>,
    ) -> R {
        let live = &mut *self.core.live.borrow_mut();
        let recorded = record(live);
        results(&self.core, &mut live.recorder, recorded, place)
    }

    /// Makes a promise that is kept already: a value that can be a receiver, as in `one.to(100)`.
    /// It crosses only when it is used.
    pub fn value<V: Value + IntoArg<V>>(&self, value: V) -> Promise<V> {
        let value = match value.argument() {
            Argument::Value(value) => value,
            // A `Value` is nothing else.
            _ => bifrost_wire::Value::Nil,
        };
        let slot = self.core.live.borrow_mut().recorder.new_value(value);
        Promise::from_stub(Stub { core: self.core.clone(), slot })
    }

    /// Makes an empty cell.
    #[track_caller]
    pub fn cell<T: Element>(&self) -> Cell<T> {
        let place = Place::caller();
        self.record(place, |live| {
            let admitted = live.admit();
            let ty = client_type::<T>(live.recorder.numbers());
            live.recorder.cell(admitted, ty, std::any::type_name::<T>(), place)
        })
    }

    /// Makes a cell with its first value.
    #[track_caller]
    pub fn cell_with<T: Element>(&self, value: impl IntoArg<T>) -> Cell<T> {
        let cell = self.cell();
        cell.put(value);
        cell
    }

    /// Commits the transaction, when the batch is sent; commands recorded behind it belong to the
    /// next one. The promise is kept when all changes of the transaction are durable. Otherwise the
    /// transaction is aborted: everything is as it was when it began, and the commands behind the
    /// commit are not run.
    ///
    /// Failures of the transaction that the program was not [told
    /// of](Session#failures-that-were-told) prevent the commit, calls that were not sent among
    /// them; [`Error::Unseen`] names all.
    ///
    /// A transaction in which a limit or a cancellation has ended code is not committed and not
    /// aborted either: each commit is [`Error::Refused`] with `Doomed` and the reason, until
    /// [`abort`](Session::abort).
    ///
    /// Not inside a structure. A server that keeps no objects has nothing to commit.
    #[track_caller]
    pub fn commit(&self) -> Promise<()> {
        self.commit_at(Place::caller())
    }

    pub(crate) fn commit_at(&self, place: Place) -> Promise<()> {
        self.record(place, |live| {
            let admitted = live.admit_commit();
            live.recorder.commit(admitted, place)
        })
    }

    /// Aborts the transaction, when the batch is sent: everything becomes as it was when it began.
    /// Commands recorded behind it belong to the next one. Not inside a structure.
    #[track_caller]
    pub fn abort(&self) -> Promise<()> {
        self.abort_at(Place::caller())
    }

    pub(crate) fn abort_at(&self, place: Place) -> Promise<()> {
        self.record(place, |live| {
            let admitted = live.admit();
            live.recorder.abort(admitted, place)
        })
    }

    /// Waits, when the batch is sent, until another session has committed a change to an object
    /// that the transaction has read. The promise is true then, and the next transaction begins. A
    /// change from before the wait ends it at once. The promise is false when the time is over:
    /// then the transaction goes on, and all that it has read is current. The server's limit
    /// `wait_ms_max` counts if it is lower.
    ///
    /// Commands recorded behind it are run after it, in the same crossing. A transaction that has
    /// changed something is refused (`InTransaction`). Not inside a structure.
    ///
    /// [`Session::live`] makes an iterator of this.
    #[track_caller]
    pub fn wait(&self, most: Duration) -> Promise<bool> {
        let place = Place::caller();
        let ms = u32::try_from(most.as_millis()).unwrap_or(u32::MAX);
        self.record(place, |live| {
            let admitted = live.admit();
            live.recorder.wait(admitted, ms, place)
        })
    }

    /// Records a batch that is a transaction of its own, sends it, and waits until it is committed.
    /// If other transactions conflict with it, the server runs it again by itself, as often as
    /// `how` says. Nothing of `body` is run again, and nothing but the batch and its answer
    /// crosses. The result of `body` may hold promises and stubs, which have their values then.
    ///
    /// Nothing can be claimed in `body`; conditions and loops are those of
    /// [structures](Session::while_). An exception that no structure handles aborts the
    /// transaction, and so does a call of `body` that was not sent: [`Error::Unseen`]. Commands
    /// recorded before are flushed first.
    ///
    /// With a [name](How::named) the batch is done once, however often it is sent, and by any
    /// session. So it can be sent again when its answer was lost with the connection. An answer
    /// that is given again has values, but no objects.
    ///
    /// # Errors
    /// Nothing of it was done, for one of these reasons:
    ///
    /// - other transactions conflicted with each run ([`Error::Refused`] with `Conflict`);
    /// - a call failed;
    /// - a transaction is under way that has changed something.
    ///
    /// Only if the connection is lost ([`Error::Closed`]), or the store has failed (`StoreFailed`),
    /// it may have been done all the same.
    #[track_caller]
    pub fn transaction<R>(&self, how: How, body: impl FnOnce() -> R) -> Result<R, Error> {
        self.transaction_at(how, body, Place::caller())
    }

    pub(crate) fn transaction_at<R>(
        &self,
        how: How,
        body: impl FnOnce() -> R,
        place: Place,
    ) -> Result<R, Error> {
        let mut body = Some(body);
        let (result, done, refusals) = loop {
            self.core.live.borrow_mut().synchronize("transaction", place)?;
            // Nothing, if another thread was faster.
            if let Some(recorded) = self.record_transaction(how, &mut body, place)? {
                break recorded;
            }
        };
        self.core.live.borrow_mut().synchronize("transaction", place)?;
        let outcome = done.peek().unwrap_or(Ok(()));
        // The stubs of the result are dropped when the session is free again.
        let finished = self.core.live.borrow_mut().recorder.finish_transaction(outcome, refusals, place);
        finished.map(|()| result)
    }

    /// Records a batch that is a transaction. Nothing if calls are recorded or batches under way.
    ///
    /// # Errors
    /// As [`Session::transaction`], before the body is called.
    pub(crate) fn record_transaction<R>(
        &self,
        how: How,
        body: &mut Option<impl FnOnce() -> R>,
        place: Place,
    ) -> Result<Option<Shipped<R>>, Error> {
        let alone = self.core.live.alone();
        let done = {
            let live = &mut *self.core.live.borrow_mut();
            if !live.recorder.is_closed() && !live.recorder.is_idle() {
                return Ok(None);
            }
            let slot = live.recorder.begin_transaction(how.tries, how.batch, place)?;
            Promise::<()>::from_stub(Stub { core: self.core.clone(), slot })
        };
        let shipping = Shipping(self, Some(alone));
        let Some(body) = body.take() else { return Ok(None) };
        let result = body();
        Ok(Some((result, done, shipping.end())))
    }

    /// Records a routine's call, by the number that `stubs` give it.
    #[track_caller]
    pub fn call_routine<R: Results>(
        &self,
        stubs: &'static Stubs,
        routine: u32,
        arguments: &[Argument<'_>],
    ) -> R {
        let place = Place::caller();
        self.record(place, |live| {
            let admitted = live.admit();
            let arguments = operands(&self.core, arguments);
            live.recorder.call_routine(admitted, stubs, routine, arguments, place)
        })
    }

    /// Returns the server that a trader has named, with the object's name there; nothing if the
    /// session was not imported.
    pub fn service(&self) -> Option<&Imported> {
        self.core.imported.as_ref()
    }

    /// True if the server has not ended the session, as far as is known without waiting.
    pub(crate) fn is_open(&self) -> bool {
        self.core.live.borrow_mut().is_open()
    }

    /// True if the session was connected with these stubs.
    pub fn has_stubs(&self, stubs: &'static Stubs) -> bool {
        std::ptr::eq(stubs, self.core.live.borrow().recorder.numbers().stubs())
    }

    /// Sends the recorded commands, and waits until they have run: one pair of crossings, or none
    /// if there is nothing to send. Every stub then has its object, value or error.
    ///
    /// # Errors
    /// The session ended, or a structure is open, or there are calls that were not sent, or
    /// [failures](Session#failures-that-were-told) that no claim can tell. The failure of a call
    /// with a stub is no error of the flush: its claim tells it.
    #[track_caller]
    pub fn flush(&self) -> Result<(), Error> {
        let live = &mut *self.core.live.borrow_mut();
        live.synchronize("flush", Place::caller())?;
        live.recorder.surface(true)
    }

    /// Ends the batch and sends it, without waiting for its answer. Calls that are recorded from
    /// then on are the next batch; stubs of this one are operands there as any other. So batches
    /// overlap on the way, and a slow link costs one delay, and not one for each batch.
    ///
    /// A claim waits for the answer of the stub's own batch. [`Session::flush`] waits for all. At
    /// most `batches_under_way_max` batches are under way, with `futures_max` results: then this
    /// waits for the oldest one first.
    ///
    /// # Errors
    /// The session ended, or a structure is open.
    #[track_caller]
    pub fn send_batch(&self) -> Result<(), Error> {
        self.core.live.borrow_mut().send_batch("send_batch", Place::caller())
    }

    /// Flushes if `object` is not known yet.
    ///
    /// # Errors
    /// The failure of the call that makes it, or failures that no other claim [can
    /// tell](Session#failures-that-were-told).
    #[track_caller]
    pub fn resolve(&self, object: &impl Reference) -> Result<(), Error> {
        object.stub().resolve()
    }

    /// Returns all failures of flushed batches, and all calls that were not sent, since the history
    /// was last cleared, oldest first; the first thousand. The program is told of them with it, so
    /// they do not prevent a commit any more.
    pub fn exceptions(&self) -> Vec<Exception> {
        self.core.live.borrow_mut().recorder.exceptions().to_vec()
    }

    /// Returns the number of exceptions beyond those that [`Session::exceptions`] lists.
    pub fn exceptions_omitted(&self) -> u64 {
        self.core.live.borrow().recorder.exceptions_omitted()
    }

    /// Clears the exception history, here and at the server: the failures of the calls up to now
    /// count as told. Not inside a structure.
    #[track_caller]
    pub fn clear_exceptions(&self) {
        let live = &mut *self.core.live.borrow_mut();
        if live.recorder.clear_exceptions(Place::caller()) {
            let admitted = live.admit();
            live.recorder.clear_server(admitted);
        }
    }

    /// Returns the watch over the batches that wait for their answers, which other threads can ask:
    /// for progress bars, and for programs that give up a batch that has not begun. `None` for
    /// media whose servers are not asked, which are all but QUIC.
    pub fn watch(&self) -> Option<CallWatch> {
        self.core.live.borrow().watch()
    }

    /// Returns the counts of the session up to now.
    pub fn counters(&self) -> Counters {
        self.core.live.borrow().recorder.counters()
    }

    /// Flushes, and ends the session. Stubs that are still there say
    /// [`Closed::ByClient`](crate::Closed::ByClient) from now on.
    ///
    /// # Errors
    /// As [`Session::flush`]; the session is ended in any case.
    #[track_caller]
    pub fn close(self) -> Result<(), Error> {
        let flushed = self.flush();
        self.core.live.borrow_mut().leave();
        flushed
    }
}
