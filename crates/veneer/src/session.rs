//! Opening, flushing and closing a session, and the transactions of one.
//!
//! [`Session`] is the type to read first; it records into the state (`crate::state::State`), which
//! owns the batch, the slots of the stubs and the account of failures. [`Session::builder`] opens a
//! session in three steps: connect, say hello, and match the numbers of the stubs with the server's
//! interface.
//!
//! The functions here only decide when the batch is sent: [`Session::flush`], [`Session::commit`],
//! [`Session::transaction`], [`Session::close`]. Calls are recorded in `crate::call`, structures in
//! `crate::control`, procedures in `crate::procedure`.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bifrost_transport::{Address, ConnectOptions, Stream};
use bifrost_wire::{BatchName, ErrorNumber, Hello, Interface, Limit, Reply, VERSION, encode, op};

use crate::call::{Argument, Element, IntoArg, Reference, Results, Stub, missing, record_plain, server_type};
use crate::cell::Cell;
use crate::connection::Connection;
use crate::error::{CallName, Closed, ConnectError, Error, Exception, Misuse};
use crate::promise::{Promise, Value};
use crate::state::{Bounds, Core, Made, State, misuse};
use crate::stubs::{Numbers, Object, Stubs};

/// A connection to a server, and the batch being recorded for it. Clones are the same session.
///
/// It belongs to one thread. When the last clone and the last stub are gone, the recorded commands
/// are sent and the session ends. [`Session::close`] does the same and returns the failures.
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
    pub(crate) core: Rc<Core>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// The counts of a session up to now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Pairs of domain crossings: batches sent and answered.
    pub crossings: u64,
    /// Commands sent in them.
    pub calls: u64,
}

impl Counters {
    /// Returns the batching factor B: commands for each pair of crossings; 0 before the first.
    pub fn batching_factor(&self) -> f64 {
        if self.crossings == 0 { 0.0 } else { self.calls as f64 / self.crossings as f64 }
    }
}

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
}

/// Exists while the batch of a transaction is recorded. If that ends by a panic, the server refuses
/// the batch.
struct Shipping<'s>(&'s Session);

impl Shipping<'_> {
    /// Ends the recording; returns the calls that were not sent, for which the server refuses the
    /// batch.
    fn end(self) -> Vec<Arc<Error>> {
        let mut state = self.0.core.state.borrow_mut();
        state.shipping = false;
        let refusals = state.take_shipped_refusals();
        if !refusals.is_empty() {
            refuse_batch(&mut state);
        }
        drop(state);
        std::mem::forget(self);
        refusals
    }
}

impl Drop for Shipping<'_> {
    fn drop(&mut self) {
        let mut state = self.0.core.state.borrow_mut();
        state.shipping = false;
        state.take_shipped_refusals();
        refuse_batch(&mut state);
        // The panic tells that nothing of the batch was done. Commands recorded behind it are a
        // batch of their own.
        let mark = state.mark_seen();
        let _ = state.flush();
        state.tell_since(mark);
    }
}

/// Has the server refuse a batch that is a transaction: none has an `abort`.
fn refuse_batch(state: &mut State) {
    encode::plain(&mut state.batch, op::ABORT);
    state.recorded();
}

/// The settings with which a session is opened.
#[derive(Clone, Debug)]
pub struct Builder {
    stubs: &'static Stubs,
    token: String,
    client: String,
    timeout: Duration,
    reply_bytes_max: usize,
    remap_futures: usize,
}

impl Builder {
    /// Sets the token, shown over TCP to a server that asks for it. Default: none.
    pub fn token(mut self, token: impl Into<String>) -> Builder {
        self.token = token.into();
        self
    }

    /// Sets the client's name in the server's logs. Default: empty.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.client = name.into();
        self
    }

    /// Sets the longest time for connecting, and for the answer to each flush. Default: 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.timeout = timeout;
        self
    }

    /// Sets the longest reply that is read, in bytes. Default: 64 MiB.
    pub fn reply_bytes_max(mut self, bytes: usize) -> Builder {
        self.reply_bytes_max = bytes;
        self
    }

    /// Sets the number of futures after which a batch is flushed by itself, so that their tables
    /// stay bounded (Bogle and Liskov 1994, 5.3). Default: 16384; never more than the server
    /// allows.
    pub fn remap_futures(mut self, futures: usize) -> Builder {
        self.remap_futures = futures;
        self
    }

    /// Opens a session with the server at an address like `unix:///run/bifrost/main`.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(self, address: &str) -> Result<Session, ConnectError> {
        let address: Address = address.parse()?;
        let options = ConnectOptions { timeout: self.timeout, ..ConnectOptions::default() };
        let open = |token: &str| self.open(Box::new(Stream::connect(&address, &options)?), token);
        match open("") {
            // A server asks for the token by refusing a client without.
            Err(ConnectError::Closed(Closed::ByServer { number, .. }))
                if number == ErrorNumber::BadToken as u32
                    && address.may_ask_for_token()
                    && !self.token.is_empty() =>
            {
                open(&self.token)
            }
            opened => opened,
        }
    }

    /// Opens a session over a connection that is there already. The token is shown at once, since
    /// there is no second connection to show it on when the server asks.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn over(self, connection: Box<dyn Connection>) -> Result<Session, ConnectError> {
        self.open(connection, &self.token)
    }

    fn open(&self, connection: Box<dyn Connection>, token: &str) -> Result<Session, ConnectError> {
        let digest = self.stubs.digest;
        let mut bounds = Bounds::default();
        let mut server = None;
        let numbers = Numbers::same(self.stubs);
        let mut state = State::new(connection, numbers, self.timeout, self.reply_bytes_max);
        let greeting = Hello { version: VERSION, digest, token, client: &self.client };
        state.ask(|out| encode::hello(out, &greeting))?;
        receive(&mut state, |reply| match reply {
            Reply::Welcome(welcome) => {
                for (number, value) in welcome.limits.iter() {
                    if let Some(limit) = Limit::from_number(number) {
                        bounds.set(limit, value);
                    }
                }
                server = Some((welcome.version, welcome.digest));
                Ok(())
            }
            _ => Err(Closed::WrongReply("a welcome was due")),
        })?;
        state.set_bounds(bounds, self.remap_futures);
        if let Some((version, server_digest)) = server {
            if version != VERSION {
                return Err(ConnectError::Version { server: version, client: VERSION });
            }
            if server_digest != digest {
                state.numbers = mapped(&mut state, self.stubs)?;
            }
        }
        Ok(Session { core: Rc::new(Core { state: RefCell::new(state) }) })
    }
}

/// Waits for a reply; turns an error reply into an error.
fn receive(state: &mut State, take: impl FnOnce(Reply<'_>) -> Result<(), Closed>) -> Result<(), Closed> {
    let (rest, done) = state.receive(Vec::new(), |_, reply| match reply {
        Reply::Error { number, position, text } => {
            Err(Closed::ByServer { number, position, text: text.to_owned() })
        }
        other => take(other),
    });
    // Each of these questions is asked alone, so nothing can follow its answer.
    if done.is_ok() && !rest.is_empty() {
        return Err(Closed::WrongReply("more than one reply"));
    }
    done
}

/// Asks for the server's interface and matches the stubs with it.
fn mapped(state: &mut State, stubs: &'static Stubs) -> Result<Numbers, ConnectError> {
    let mut interface = None;
    state.ask(|out| encode::plain(out, op::DESCRIBE))?;
    receive(state, |reply| match reply {
        Reply::Interface(json) => {
            interface = Some(Interface::from_json(json));
            Ok(())
        }
        _ => Err(Closed::WrongReply("an interface was due")),
    })?;
    let server = interface.unwrap_or_else(|| Ok(Interface::default()))?;
    Ok(Numbers::mapped(stubs, server)?)
}

impl Session {
    /// Returns the settings of a session for a generated module's stubs.
    pub fn builder(stubs: &'static Stubs) -> Builder {
        Builder {
            stubs,
            token: String::new(),
            client: String::new(),
            timeout: Duration::from_secs(30),
            reply_bytes_max: bifrost_wire::REPLY_BYTES_MAX,
            remap_futures: 16_384,
        }
    }

    /// Returns a well-known object. Not inside a structure: look it up before.
    #[track_caller]
    pub fn lookup<T: Object>(&self, name: &str) -> T {
        let location = Location::caller();
        let mut state = self.core.state.borrow_mut();
        let admitted = state.admit();
        let checked = admitted.and_then(|()| {
            if !std::ptr::eq(T::STUBS, state.numbers.stubs()) {
                return Err(misuse(Misuse::OtherInterface));
            }
            if state.depth() > 0 {
                return Err(misuse(Misuse::LookupInside));
            }
            if name.len() + 16 > state.bounds.frame_bytes {
                return Err(misuse(Misuse::TooLong));
            }
            let ty = server_type::<T>(&state.numbers);
            ty.ok_or_else(|| missing(std::any::type_name::<T>().into()))
        });
        let slot = match checked {
            Ok(ty) => {
                encode::lookup(&mut state.batch, name, Some(ty));
                state.recorded();
                state.new_future(Made::Lookup, location)
            }
            Err(error) => {
                let error = state.refuse("lookup", location, error);
                state.failed(error)
            }
        };
        drop(state);
        T::from_stub(Stub { core: self.core.clone(), slot })
    }

    /// Makes a promise that is kept already: a value that can be a receiver, as in `one.to(100)`.
    /// It crosses only when it is used.
    pub fn value<V: Value + IntoArg<V>>(&self, value: V) -> Promise<V> {
        let value = match value.argument() {
            Argument::Value(value) => value,
            // A `Value` is never a stub.
            Argument::Stub(_) => bifrost_wire::Value::Nil,
        };
        let slot = self.core.state.borrow_mut().new_value(value);
        Promise::from_stub(Stub { core: self.core.clone(), slot })
    }

    /// Makes an empty cell.
    #[track_caller]
    pub fn cell<T: Element>(&self) -> Cell<T> {
        let location = Location::caller();
        let mut state = self.core.state.borrow_mut();
        let ty = state.admit().and_then(|()| {
            let ty = server_type::<T>(&state.numbers);
            ty.ok_or_else(|| missing(format!("cell of {}", std::any::type_name::<T>()).into()))
        });
        let slot = match ty {
            Ok(ty) => {
                encode::cell(&mut state.batch, ty);
                state.recorded();
                state.new_future(Made::Cell, location)
            }
            Err(error) => {
                let error = state.refuse("cell", location, error);
                state.failed(error)
            }
        };
        drop(state);
        Cell::from_stub(Stub { core: self.core.clone(), slot })
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
        self.end_transaction(true, Location::caller())
    }

    /// Aborts the transaction, when the batch is sent: everything becomes as it was when it began.
    /// Commands recorded behind it belong to the next one. Not inside a structure.
    #[track_caller]
    pub fn abort(&self) -> Promise<()> {
        self.end_transaction(false, Location::caller())
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
        let location = Location::caller();
        {
            let mut state = self.core.state.borrow_mut();
            state.synchronize("transaction", location)?;
            state.surface(true)?;
        }
        let call = || CallName {
            name: "transaction".into(),
            number: 1,
            location: Some(location),
            rounds: [].into(),
        };
        let done = {
            let mut state = self.core.state.borrow_mut();
            if let Some(error) = state.unseen_now(call()) {
                return Err(error);
            }
            state.clear_told();
            encode::transaction(&mut state.batch, how.tries, how.batch);
            state.recorded();
            state.shipping = true;
            let slot = state.new_future(Made::Transaction, location);
            Promise::<()>::from_stub(Stub { core: self.core.clone(), slot })
        };
        let mark = self.core.state.borrow().mark_seen();
        let shipping = Shipping(self);
        let result = body();
        let refusals = shipping.end();
        self.core.state.borrow_mut().flush()?;
        let done = done.peek().unwrap_or(Ok(()));
        if refusals.is_empty() && done.is_ok() {
            return Ok(result);
        }
        // Nothing of it was done, and so no failure of it is left to be told.
        self.core.state.borrow_mut().tell_since(mark);
        match refusals.is_empty() {
            true => done.map(|()| result),
            false => Err(Error::Unseen { failures: refusals.into(), omitted: 0, call: Some(call()) }),
        }
    }

    fn end_transaction(&self, commit: bool, location: &'static Location<'static>) -> Promise<()> {
        let mut state = self.core.state.borrow_mut();
        let allowed = state.admit().and_then(|()| match state.depth() {
            0 if state.shipping => Err(misuse(Misuse::InTransaction)),
            0 if commit => state.before_commit(location),
            0 => Ok(()),
            _ => Err(misuse(Misuse::OpenStructure)),
        });
        let slot = match allowed {
            Ok(()) => {
                let ended = state.next_transaction();
                let (code, made) = match commit {
                    true => (op::COMMIT, Made::Commit(ended)),
                    false => (op::ABORT, Made::Abort(ended)),
                };
                encode::plain(&mut state.batch, code);
                state.recorded();
                state.new_future(made, location)
            }
            Err(error) => {
                let error = state.refuse(if commit { "commit" } else { "abort" }, location, error);
                state.failed(error)
            }
        };
        drop(state);
        Promise::from_stub(Stub { core: self.core.clone(), slot })
    }

    /// Records a routine's call, by the number that `stubs` give it.
    #[track_caller]
    pub fn call_routine<R: Results>(
        &self,
        stubs: &'static Stubs,
        routine: u32,
        arguments: &[Argument<'_>],
    ) -> R {
        let location = Location::caller();
        let head = |numbers: &mut Numbers| numbers.routine_head(stubs, routine);
        record_plain(&self.core, Made::Routine(routine), location, head, arguments)
    }

    /// True if the session was connected with these stubs.
    pub fn has_stubs(&self, stubs: &'static Stubs) -> bool {
        std::ptr::eq(stubs, self.core.state.borrow().numbers.stubs())
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
        let mut state = self.core.state.borrow_mut();
        state.synchronize("flush", Location::caller())?;
        state.surface(true)
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
        let mut state = self.core.state.borrow_mut();
        state.tell_all();
        state.history().0.to_vec()
    }

    /// Returns the number of exceptions beyond those that [`Session::exceptions`] lists.
    pub fn exceptions_omitted(&self) -> u64 {
        self.core.state.borrow().history().1
    }

    /// Clears the exception history, here and at the server: the failures of the calls up to now
    /// count as told. Not inside a structure.
    #[track_caller]
    pub fn clear_exceptions(&self) {
        self.core.state.borrow_mut().clear_history(Location::caller());
    }

    /// Returns the counts of the session up to now.
    pub fn counters(&self) -> Counters {
        self.core.state.borrow().counters
    }

    /// Flushes, and ends the session. Stubs that are still there say [`Closed::ByClient`] from now
    /// on.
    ///
    /// # Errors
    /// As [`Session::flush`]; the session is ended in any case.
    #[track_caller]
    pub fn close(self) -> Result<(), Error> {
        let flushed = self.flush();
        self.core.state.borrow_mut().leave();
        flushed
    }
}
