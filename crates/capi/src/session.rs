//! A session: the recorder, the connection, and what a program in C needs beside them.
//!
//! [`Session`] is the type to read first. Every function of the header enters one of its functions
//! through [`enter`], which keeps panics from the program. A session belongs to the thread that has
//! opened it.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use bifrost_client::{Greeted, Imported, TIMEOUT, Wire, is_trader};
use bifrost_recorder::{
    Admission, Closed, Compose, Due, Ended, Known, Misuse, Operand, Owner, Recorded, Settings, Slot, Stubs,
};
use bifrost_transport::{KeyFiles, Stream, TlsOptions};
use bifrost_wire::{COMPOUND_DEPTH_MAX, TraceContext};

use crate::abi::{Chars, Family, Place, Ref, Type, Value};
use crate::error::{ConnectError, Failure, Status, text};
use crate::interface::{Interface, cell};
use crate::recorded::{Error, Recorder};
use crate::uses::Uses;

/// A connection to a server, and the batch being recorded for it.
pub struct Session {
    pub(crate) recorder: Recorder,
    pub(crate) wire: Wire<Stream>,
    pub(crate) uses: Uses,
    /// The failure of which the program was told last.
    pub(crate) failure: Option<Box<Failure>>,
    /// The failures that were read of the history.
    pub(crate) history: Vec<Failure>,
    /// The structure that has ended last, which may go on with another block.
    pub(crate) ended: Option<Ended>,
    /// The texts of stubs that were claimed, by their slots.
    pub(crate) texts: HashMap<u32, Box<[u8]>>,
    /// The procedures whose definitions were not sent, by the numbers that the program has.
    pub(crate) procedures: Vec<Defined>,
    /// The transaction that is recorded as a batch: the stub of its end.
    pub(crate) shipping: Option<Slot>,
    /// The batch that was explained last.
    pub(crate) explained: CString,
    /// The server that a trader has named: the name of the object there, and the address.
    pub(crate) imported: Option<(CString, CString)>,
    /// A pointer of the program.
    pub(crate) data: *mut c_void,
    /// The pointer to the session that its stubs have.
    pub(crate) this: Option<NonNull<Session>>,
    stubs: &'static Stubs,
    owner: ThreadId,
    /// True if the owner is checked at each call.
    checked: bool,
    /// True if the program has closed the session, and it ends with its last stub.
    pub(crate) leaving: bool,
}

/// A procedure as the program numbers it.
#[derive(Clone, Debug)]
pub(crate) struct Defined {
    pub(crate) number: u32,
    /// The reason why it was not sent: then another one has its number.
    pub(crate) refused: Option<Arc<Error>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

/// The settings with which a session is opened. All zero are the defaults.
#[repr(C)]
#[derive(Debug)]
pub struct Options {
    /// The token, shown over TCP, TLS and websockets to a server that asks for it; null for none.
    pub token: Chars,
    /// The client's name in the server's logs; null for none.
    pub name: Chars,
    /// The longest time for connecting, and for the answer to each flush; 0 for 30 s.
    pub timeout_ms: u64,
    /// The file of the authorities, in PEM, that may sign the certificates of servers; null for
    /// that of the variable `BIFROST_CA`, or else the system's.
    pub authorities: Chars,
    /// The file of the client's own certificate, in PEM; null for none.
    pub certificate: Chars,
    /// The file of its key.
    pub key: Chars,
    /// The longest reply that is read, in bytes; 0 for 64 MiB.
    pub reply_bytes_max: usize,
    /// The number of futures after which a batch is flushed by itself; 0 for 16384.
    pub remap_futures: usize,
    /// The program's place in a trace, as `traceparent` of W3C Trace Context; null for none.
    pub trace_parent: Chars,
    /// The token for traders; null for that of the variable `BIFROST_TRADER_TOKEN`.
    pub trader_token: Chars,
}

impl Options {
    /// The defaults.
    pub(crate) const NONE: Options = Options {
        token: Chars::NONE,
        name: Chars::NONE,
        timeout_ms: 0,
        authorities: Chars::NONE,
        certificate: Chars::NONE,
        key: Chars::NONE,
        reply_bytes_max: 0,
        remap_futures: 0,
        trace_parent: Chars::NONE,
        trader_token: Chars::NONE,
    };

    /// Returns them as client libraries have them.
    pub(crate) fn of(&self, stubs: &'static Stubs) -> Result<bifrost_client::Options, ConnectError> {
        let given = |text, name| Ok::<_, ConnectError>(optional(text, name)?.map(str::to_owned));
        Ok(bifrost_client::Options {
            stubs,
            token: given(&self.token, "token")?.unwrap_or_default(),
            trader_token: given(&self.trader_token, "token for traders")?,
            client: given(&self.name, "name")?.unwrap_or_default(),
            timeout: self.timeout(),
            tls: self.tls()?,
            settings: self.settings()?,
        })
    }

    fn settings(&self) -> Result<Settings, ConnectError> {
        let mut settings = Settings::default();
        if self.reply_bytes_max > 0 {
            settings.reply_bytes_max = self.reply_bytes_max;
        }
        if self.remap_futures > 0 {
            settings.remap_futures = self.remap_futures;
        }
        if let Some(parent) = optional(&self.trace_parent, "trace context")? {
            let trace = TraceContext::parse(parent);
            settings.trace =
                Some(trace.ok_or_else(|| bifrost_client::ConnectError::Trace(parent.to_owned()))?);
        }
        Ok(settings)
    }

    fn timeout(&self) -> Duration {
        match self.timeout_ms {
            0 => TIMEOUT,
            ms => Duration::from_millis(ms),
        }
    }

    fn tls(&self) -> Result<TlsOptions, ConnectError> {
        let authorities = optional(&self.authorities, "file of authorities")?.map(Into::into);
        let files = (optional(&self.certificate, "certificate")?, optional(&self.key, "key")?);
        let certificate = match files {
            (Some(certificate), Some(key)) => {
                Some(KeyFiles { certificate: certificate.into(), key: key.into() })
            }
            (None, None) => None,
            _ => return Err(ConnectError::HalfCertificate),
        };
        Ok(TlsOptions { authorities, certificate })
    }
}

/// Returns a setting; nothing for null.
fn optional<'c>(text: &'c Chars, name: &'static str) -> Result<Option<&'c str>, ConnectError> {
    text.given().transpose().map_err(|_| ConnectError::NotText(name))
}

/// For sessions whose programs look the object up.
const NO_LOOK_UP: Option<fn(&mut Recorder, &str) -> Recorded<Place>> = None;

impl Session {
    /// Opens a session with the server at an address, or with one that traders know.
    pub(crate) fn connect(
        url: Chars,
        interface: &Interface,
        options: &Options,
    ) -> Result<Session, ConnectError> {
        let url = url.address()?;
        let options = options.of(interface.stubs())?;
        if is_trader(url) {
            let dial = options.dialer(NO_LOOK_UP, Place::NONE);
            let (greeted, imported) = options.search(url)?.connect(dial)?;
            return Ok(Session::of(greeted, options.stubs, Some(&imported)));
        }
        let address = bifrost_client::parse_address(url)?;
        Ok(Session::of(options.connect(&address)?, options.stubs, None))
    }

    /// Makes the session of this thread.
    pub(crate) fn of(greeted: Greeted<Place>, stubs: &'static Stubs, imported: Option<&Imported>) -> Session {
        let Greeted { recorder, wire, .. } = greeted;
        Session {
            recorder,
            wire,
            uses: Uses::default(),
            failure: None,
            history: Vec::new(),
            ended: None,
            texts: HashMap::new(),
            procedures: Vec::new(),
            shipping: None,
            explained: CString::default(),
            imported: imported.map(|server| (text(server.name()), text(server.address()))),
            data: std::ptr::null_mut(),
            this: None,
            stubs,
            owner: std::thread::current().id(),
            checked: std::env::var_os("BIFROST_DEBUG").is_some_and(|value| value == "1"),
            leaving: false,
        }
    }

    /// Gives the session its place in memory, which its stubs name. It lives until it is ended.
    pub(crate) fn place(self) -> NonNull<Session> {
        let session = Box::leak(Box::new(self));
        session.this = Some(NonNull::from(&mut *session));
        NonNull::from(session)
    }

    /// Returns the constants of an interface; nothing if the session has others.
    pub(crate) fn stubs_of(&self, interface: &Interface) -> &'static Stubs {
        match interface.digest == self.stubs.digest {
            true => self.stubs,
            false => interface.stubs(),
        }
    }

    // Failures.

    /// Writes a failure down, of which the program is told with the status.
    #[cold]
    pub(crate) fn told(&mut self, error: &Error) -> Status {
        self.failed(Failure::of(error))
    }

    /// Keeps a failure for the program, and returns its status.
    #[cold]
    pub(crate) fn failed(&mut self, failure: Failure) -> Status {
        let status = failure.status;
        self.failure = Some(Box::new(failure));
        status
    }

    /// Tells the program of a misuse of a function, which changes nothing.
    #[cold]
    pub(crate) fn misused(&mut self, misuse: Misuse, place: Place) -> Status {
        let mut failure = Failure::of(&Error::Misuse(misuse));
        failure.set_place(place);
        self.failed(failure)
    }

    /// Returns the status of an outcome.
    pub(crate) fn status(&mut self, outcome: Result<(), Error>) -> Status {
        match outcome {
            Ok(()) => Status::Ok,
            Err(error) => self.told(&error),
        }
    }

    /// True if this thread may use the session.
    pub(crate) fn is_own_thread(&self) -> bool {
        self.owner == std::thread::current().id()
    }

    // Recording.

    /// Admits a command: sends or flushes first, if that is due.
    #[inline(always)]
    pub(crate) fn admit(&mut self) -> Admission<Place> {
        match self.recorder.is_ready() && !self.checked {
            true => Ok(()),
            false => self.admit_slowly(),
        }
    }

    #[cold]
    fn admit_slowly(&mut self) -> Admission<Place> {
        if self.checked && !self.is_own_thread() {
            // Nothing that this thread records may become part of the batch.
            return Err(Arc::new(Error::Closed(Arc::new(Closed::Connection(OTHER_THREAD.into())))));
        }
        if self.recorder.is_ready() {
            return Ok(());
        }
        match self.recorder.due()? {
            Due::Nothing => Ok(()),
            Due::Send => self.wire.send(&mut self.recorder).map_err(Arc::new),
            Due::Flush => self.flush().map_err(Arc::new),
        }
    }

    /// As [`Session::admit`], for a commit.
    pub(crate) fn admit_commit(&mut self) -> Admission<Place> {
        self.admit()?;
        match self.recorder.commit_due()? {
            Due::Nothing => Ok(()),
            Due::Send | Due::Flush => self.flush().map_err(Arc::new),
        }
    }

    /// True if the server has not ended the session, as far as is known without waiting.
    pub(crate) fn is_open(&mut self) -> bool {
        !self.recorder.is_closed() && self.wire.look(&mut self.recorder).is_ok()
    }

    /// Clears the history, here and at the server.
    pub(crate) fn clear_exceptions(&mut self, place: Place) {
        if self.recorder.clear_exceptions(place) {
            let admitted = self.admit();
            self.recorder.clear_server(admitted);
        }
    }

    pub(crate) fn answer_while(&mut self, waiting: impl Fn(&Recorder) -> bool) -> Result<(), Error> {
        while waiting(&self.recorder) {
            self.wire.answer(&mut self.recorder)?;
        }
        Ok(())
    }

    /// Ends the batch: sends it, and waits for the answers of all batches.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.answer_while(Recorder::is_crowded)?;
        self.recorder.begin_flush(false)?;
        self.answer_while(Recorder::is_under_way)
    }

    /// Flushes for the program, which cannot while a batch that is a transaction is recorded.
    pub(crate) fn synchronize(&mut self, name: &str, place: Place) -> Result<(), Error> {
        self.answer_while(Recorder::is_crowded)?;
        self.recorder.begin_flush_for(name, false, place)?;
        self.answer_while(Recorder::is_under_way)
    }

    /// Waits until a stub is known: flushes if it must.
    pub(crate) fn know(&mut self, slot: Slot, place: Place) -> Result<(), Error> {
        match self.recorder.known(slot) {
            Known::Future(_) => {
                self.recorder.note_claim(slot);
                self.synchronize("claim", place)
            }
            Known::UnderWay(batch) => self.answer_while(|recorder| recorder.is_unanswered(batch)),
            _ => Ok(()),
        }
    }

    /// Returns the slot of a stub.
    ///
    /// # Errors
    /// It was released, or belongs to another session.
    #[inline(always)]
    pub(crate) fn slot(&self, stub: Ref) -> Result<Slot, Misuse> {
        match stub.is_of(self) {
            true => self.uses.slot(stub),
            false => Err(Misuse::OtherSession),
        }
    }

    /// Checks that arguments can be recorded.
    ///
    /// # Errors
    /// A stub that was released, or a text that is none.
    #[inline(always)]
    pub(crate) fn check(&self, arguments: &[Value]) -> Result<(), Misuse> {
        arguments.iter().try_for_each(|argument| match argument {
            Value::Stub(stub) => self.slot(*stub).map(drop),
            Value::Int(_) | Value::Bool(_) | Value::Real(_) | Value::Nil => Ok(()),
            other => self.check_long(other, 1),
        })
    }

    #[inline(never)]
    fn check_long(&self, argument: &Value, depth: usize) -> Result<(), Misuse> {
        match argument {
            Value::Stub(stub) => self.slot(*stub).map(drop),
            Value::Text(text) => match std::str::from_utf8(text.get()) {
                Ok(_) => Ok(()),
                Err(_) => Err(Misuse::NotText),
            },
            Value::Char(c) => char::from_u32(*c).map(drop).ok_or(Misuse::NotText),
            // The recorder refuses deeper ones before it looks at their items.
            Value::Items { .. } if depth <= COMPOUND_DEPTH_MAX => {
                argument.items().iter().try_for_each(|item| self.check_long(item, depth + 1))
            }
            _ => Ok(()),
        }
    }

    /// Admits a call with these arguments.
    #[inline(always)]
    pub(crate) fn admit_with(&mut self, arguments: &[Value]) -> Admission<Place> {
        self.admit()?;
        self.check(arguments).map_err(misuse)
    }

    /// Returns the address of the session, by which the recorder knows stubs of another one.
    #[inline(always)]
    pub(crate) fn own(&self) -> Owner {
        Owner(std::ptr::from_ref(self) as usize)
    }

    /// Takes the stubs of a call that was recorded, or that was not.
    #[inline(always)]
    pub(crate) fn results(&mut self, recorded: Recorded<Place>, room: &mut [Ref], place: Place) {
        for result in room {
            let slot = match &recorded {
                Ok(made) => self.recorder.new_result(*made, place),
                Err(error) => self.recorder.new_failed(error.clone()),
            };
            *result = self.stub(slot);
        }
    }

    /// Takes the one stub of a call.
    #[inline(always)]
    pub(crate) fn result(&mut self, recorded: Recorded<Place>, place: Place) -> Ref {
        let slot = match recorded {
            Ok(made) => self.recorder.new_result(made, place),
            Err(error) => self.recorder.new_failed(error),
        };
        self.stub(slot)
    }

    /// Takes the one result of a call that nobody wants.
    pub(crate) fn no_result(&mut self, recorded: Recorded<Place>, place: Place) {
        let slot = match recorded {
            Ok(made) => self.recorder.new_result(made, place),
            Err(error) => self.recorder.new_failed(error),
        };
        self.recorder.release(slot);
    }

    /// Gives the program a stub of a slot.
    #[inline(always)]
    pub(crate) fn stub(&mut self, slot: Slot) -> Ref {
        let number = self.uses.begin(slot);
        Ref::new(self.this, slot.0, number)
    }

    /// As [`Session::stub`], of a stub that no scope releases.
    pub(crate) fn unscoped_stub(&mut self, slot: Slot) -> Ref {
        let number = self.uses.begin_unscoped(slot);
        Ref::new(self.this, slot.0, number)
    }

    /// Takes back the count of a stub.
    #[inline]
    pub(crate) fn release(&mut self, stub: Ref) {
        if let Some(slot) = self.uses.release(stub.slot, stub.use_count, false) {
            self.let_go(slot);
        }
    }

    fn let_go(&mut self, slot: Slot) {
        if !self.texts.is_empty() {
            self.texts.remove(&slot.0);
        }
        self.recorder.release(slot);
    }

    /// Ends a scope: releases the stubs that were made in it.
    pub(crate) fn close_scope(&mut self, depth: u32, by_structure: bool) {
        for (slot, number) in self.uses.close(depth) {
            if let Some(slot) = self.uses.release(slot, number, by_structure) {
                self.let_go(slot);
            }
        }
    }

    /// Returns the numbers of a type, and its name.
    pub(crate) fn numbers<'t>(&self, ty: &'t Type) -> (u32, bifrost_recorder::CellNumbers, &'t str) {
        let (stubs, index) = (self.recorder.numbers().stubs(), ty.number as usize);
        let none = bifrost_recorder::CellNumbers::NONE;
        let (number, cells) = match ty.family {
            Family::Program => (ty.number, cell(ty.cell)),
            Family::Basic => stubs.basic.get(index).copied().unwrap_or((u32::MAX, none)),
            Family::Builtin => stubs.builtin.get(index).map_or((u32::MAX, none), |row| (row.ty, row.cell)),
            Family::Cell => {
                let element = ty.element();
                (element.map_or(u32::MAX, |element| self.numbers(element).1.ty), none)
            }
        };
        (number, cells, ty.name.get().unwrap_or("?"))
    }
}

/// Says that a session is used by another thread.
const OTHER_THREAD: &str = "the session is used by another thread than the one that has opened it";

/// Makes an error of a misuse.
#[cold]
pub(crate) fn misuse(misuse: Misuse) -> Arc<Error> {
    Arc::new(Error::Misuse(misuse))
}

/// Returns an argument as the recorder takes it. It was checked.
#[inline(always)]
pub(crate) fn operand(argument: &Value, owner: Owner) -> Operand<'_> {
    use bifrost_wire::Value as Plain;
    match argument {
        Value::Stub(stub) if stub.is_of(owner.0 as *const Session) => Operand::Stub(Slot(stub.slot)),
        Value::Int(i) => Operand::Value(Plain::Int(*i)),
        // The rest is apart, so that the loop over arguments stays small.
        other => long_operand(other, owner),
    }
}

#[inline(never)]
fn long_operand(argument: &Value, owner: Owner) -> Operand<'_> {
    use bifrost_wire::Value as Plain;
    match argument {
        Value::Stub(_) => Operand::Foreign,
        Value::Nil => Operand::Value(Plain::Nil),
        Value::Bool(b) => Operand::Value(Plain::Bool(*b)),
        Value::Int(i) => Operand::Value(Plain::Int(*i)),
        Value::Real(r) => Operand::Value(Plain::Real(*r)),
        Value::Char(c) => Operand::Value(Plain::Char(char::from_u32(*c).unwrap_or('\0'))),
        Value::Text(text) => Operand::Value(Plain::Str(std::str::from_utf8(text.get()).unwrap_or_default())),
        Value::Bytes(bytes) => Operand::Value(Plain::Bytes(bytes.get())),
        Value::Items { .. } => Operand::Compound(argument, owner),
        Value::Ints(ints) => Operand::Ints(ints.get()),
        Value::Reals(reals) => Operand::Reals(reals.get()),
    }
}

impl Compose for Value {
    fn count(&self) -> usize {
        self.items().len()
    }

    fn each(&self, owner: Owner, put: &mut dyn FnMut(Operand<'_>)) {
        self.items().iter().for_each(|item| put(operand(item, owner)));
    }
}

/// Returns arguments as the recorder takes them.
#[inline(always)]
pub(crate) fn operands(arguments: &[Value], owner: Owner) -> impl ExactSizeIterator<Item = Operand<'_>> {
    arguments.iter().map(move |argument| operand(argument, owner))
}

/// Enters a function of a session. A panic ends the session; the program gets `otherwise`.
#[inline(always)]
pub(crate) fn enter<R>(
    session: Option<&mut Session>,
    otherwise: R,
    work: impl FnOnce(&mut Session) -> R,
) -> R {
    let Some(session) = session else { return otherwise };
    match catch_unwind(AssertUnwindSafe(|| work(session))) {
        Ok(result) => result,
        Err(panic) => {
            ended_by_panic(session, &*panic);
            otherwise
        }
    }
}

/// Enters a function that waits, and so is the owner's only.
pub(crate) fn enter_own(
    session: Option<&mut Session>,
    place: Place,
    work: impl FnOnce(&mut Session) -> Status,
) -> Status {
    let Some(session) = session else { return Status::NoSession };
    if !session.is_own_thread() {
        return session.failed(Failure::new(Status::OtherThread, OTHER_THREAD, place));
    }
    match catch_unwind(AssertUnwindSafe(|| work(session))) {
        Ok(status) => status,
        Err(panic) => ended_by_panic(session, &*panic),
    }
}

#[cold]
pub(crate) fn ended_by_panic(session: &mut Session, panic: &(dyn std::any::Any + Send)) -> Status {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
    let text = format!("a mistake in the library has ended the session: {said}");
    // The recorder may be in no state to be closed.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        session.recorder.close(Closed::Connection(text.clone().into()));
    }));
    session.failed(Failure::new(Status::Panic, text, Place::NONE))
}
