//! The failures of calls, structures and sessions, as C reads them.
//!
//! [`Status`] is the answer of every function that can fail; [`Failure`] has the rest. A failure is
//! written down when the program is told of it, so that all its texts end with a zero byte and live
//! as long as it does.

use std::ffi::CString;

use bifrost_recorder::{CallName, Closed, ErrorValue, Misuse};

use crate::abi::{Bytes, Chars, Place, Ref, Value};
use crate::recorded::Error;

/// The outcome of a function: the kind of the first failure from which the told one follows.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All went well.
    Ok,
    /// Of `bf_flush_poll`: answers are still on their way.
    Pending,
    /// Of `bf_live_end`: the results are those of the last run. Record the next run.
    Same,
    /// The call signalled an exception.
    Signal,
    /// The call was not run, because an argument failed; the server did not say why.
    Unhandled,
    /// The server refused the call, or the structure around it. `bf_error_number` says why.
    Refused,
    /// The call was not reached: a failure before it ended the batch.
    NotReached,
    /// Failures that the program was not told of before; they have prevented a commit, or have no
    /// stub that could tell them. `bf_error_part` gives each.
    Unseen,
    /// The server does not have the method, or has it with another heading.
    Missing,
    /// The connection is gone, and with it the session.
    Closed,
    /// There is no connection.
    Connect,
    /// A claim or flush where the batch cannot end.
    OpenStructure,
    /// A claim, a flush or the end of a transaction in a batch that is a transaction.
    InTransaction,
    /// The stub was made inside a structure that has ended.
    OutOfScope,
    /// Rows are appended to a table of an earlier batch.
    EndedTable,
    /// The stub belongs to another session.
    OtherSession,
    /// The session was connected with other generated stubs.
    OtherInterface,
    /// An else or a handler does not follow its structure directly.
    NotAdjacent,
    /// A break or continue outside a loop.
    NoLoop,
    /// A return outside a procedure.
    NoProcedure,
    /// A procedure defined inside another structure.
    NestedProcedure,
    /// A well-known object looked up inside a structure.
    LookupInside,
    /// A table of rows made inside a structure.
    TableInside,
    /// The contents of an object taken inside a structure.
    ContentsInside,
    /// A value with items where no parameter or result says its type.
    Untyped,
    /// A value with items that nests too deep.
    ValueTooDeep,
    /// The block of a structure was left by an exception of the program.
    Abandoned,
    /// The block of a structure was left by a `break`, `goto` or `return` of the program.
    LeftOpen,
    /// A structure is longer than a batch may be.
    TooLong,
    /// Structures are nested deeper than the server accepts.
    TooDeep,
    /// Batches are under way, and this has to wait for their answers.
    UnderWay,
    /// The session cannot be waited for.
    NotAsynchronous,
    /// The stub was released before this use.
    Released,
    /// A text is no UTF-8, or a character no Unicode scalar value.
    NotText,
    /// The stub is no stub, or the session is null.
    NoSession,
    /// The result is there, and has another kind than the claim.
    WrongKind,
    /// The session is used by another thread than the one that has opened it.
    OtherThread,
    /// A mistake in the library; the session is closed.
    Panic,
    /// The server is lost in a run of a service that must not be begun again: `bf_service_ran` says
    /// what is known.
    Lost,
    /// The server makes no profiles of batches.
    NoProfiles,
    /// The server runs no modules.
    NoModules,
    /// A module run inside a structure.
    ModuleInside,
}

/// Returns the status of a misuse.
fn of_misuse(misuse: Misuse) -> Status {
    match misuse {
        Misuse::OpenStructure => Status::OpenStructure,
        Misuse::InTransaction => Status::InTransaction,
        Misuse::OutOfScope => Status::OutOfScope,
        Misuse::EndedTable => Status::EndedTable,
        Misuse::OtherSession => Status::OtherSession,
        Misuse::Released => Status::Released,
        Misuse::NotText => Status::NotText,
        Misuse::OtherInterface => Status::OtherInterface,
        Misuse::NotAdjacent => Status::NotAdjacent,
        Misuse::NoLoop => Status::NoLoop,
        Misuse::NoProcedure => Status::NoProcedure,
        Misuse::NestedProcedure => Status::NestedProcedure,
        Misuse::LookupInside => Status::LookupInside,
        Misuse::TableInside => Status::TableInside,
        Misuse::ContentsInside => Status::ContentsInside,
        Misuse::Untyped => Status::Untyped,
        Misuse::ValueTooDeep => Status::ValueTooDeep,
        Misuse::Abandoned => Status::Abandoned,
        Misuse::LeftOpen => Status::LeftOpen,
        Misuse::TooLong => Status::TooLong,
        Misuse::TooDeep => Status::TooDeep,
        Misuse::UnderWay => Status::UnderWay,
        Misuse::NotAsynchronous => Status::NotAsynchronous,
        Misuse::NoProfiles => Status::NoProfiles,
        Misuse::NoModules => Status::NoModules,
        Misuse::ModuleInside => Status::ModuleInside,
    }
}

/// Returns the status of a failure itself.
fn own_status(error: &Error) -> Status {
    match error {
        Error::Signal { .. } => Status::Signal,
        Error::Unhandled { .. } => Status::Unhandled,
        Error::Refused { .. } => Status::Refused,
        Error::NotReached { .. } => Status::NotReached,
        // It always has a cause.
        Error::NotSent { .. } => Status::Abandoned,
        Error::Unseen { .. } => Status::Unseen,
        Error::Misuse(misuse) => of_misuse(*misuse),
        Error::Missing { .. } => Status::Missing,
        Error::Closed(_) => Status::Closed,
    }
}

/// Returns the failure from which one follows that is not run. The failures of an `Unseen` are its
/// parts, and no cause.
fn cause(error: &Error) -> Option<&Error> {
    match error {
        Error::Unhandled { cause, .. } | Error::NotReached { cause, .. } => cause.as_deref(),
        Error::NotSent { cause, .. } => Some(cause),
        _ => None,
    }
}

/// Returns the failure from which one follows at last.
fn first(error: &Error) -> &Error {
    let mut error = error;
    while let Some(cause) = cause(error) {
        error = cause;
    }
    error
}

/// A failure of which the program was told.
#[derive(Debug)]
pub struct Failure {
    /// The kind of the failure from which it follows.
    pub(crate) status: Status,
    /// Its own kind.
    pub(crate) kind: Status,
    text: CString,
    name: CString,
    call: CString,
    place: Place,
    /// The number of an error of the server, or of an argument.
    pub(crate) number: u32,
    pub(crate) omitted: u64,
    pub(crate) rounds: Vec<u32>,
    values: Vec<Value>,
    /// The texts of the values.
    _texts: Vec<Box<[u8]>>,
    pub(crate) cause: Option<Box<Failure>>,
    pub(crate) parts: Vec<Failure>,
}

/// Makes a text for C; a zero byte in it ends it.
pub(crate) fn text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes = text.into();
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    CString::new(bytes).unwrap_or_default()
}

impl Failure {
    /// Makes a failure of this kind that has only a text.
    pub(crate) fn new(status: Status, message: impl Into<Vec<u8>>, place: Place) -> Failure {
        Failure {
            status,
            kind: status,
            text: text(message),
            name: CString::default(),
            call: CString::default(),
            place,
            number: 0,
            omitted: 0,
            rounds: Vec::new(),
            values: Vec::new(),
            _texts: Vec::new(),
            cause: None,
            parts: Vec::new(),
        }
    }

    /// Writes a failure down.
    pub(crate) fn of(error: &Error) -> Failure {
        let kind = own_status(error);
        let mut failure = Failure::new(kind, error.to_string(), Place::NONE);
        failure.status = own_status(first(error));
        failure.cause = cause(error).map(|cause| Box::new(Failure::of(cause)));
        match error {
            Error::Signal { name, values, call, .. } => {
                failure.name = text(&**name);
                failure.take_call(call);
                values.iter().for_each(|value| failure.take_value(value));
            }
            Error::Unhandled { argument, call, .. } => {
                failure.number = *argument;
                failure.take_call(call);
            }
            Error::Refused { number, call, .. } => {
                failure.number = *number;
                failure.take_call(call);
            }
            Error::NotReached { call, .. } | Error::NotSent { call, .. } => failure.take_call(call),
            Error::Unseen { failures, omitted, call } => {
                failure.omitted = *omitted;
                failure.parts = failures.iter().map(|one| Failure::of(one)).collect();
                if let Some(call) = call {
                    failure.take_call(call);
                }
            }
            Error::Missing { name } => failure.name = text(&**name),
            Error::Closed(why) => failure.number = number_of(why),
            Error::Misuse(_) => {}
        }
        failure
    }

    fn take_call(&mut self, call: &CallName<Place>) {
        self.call = text(&*call.name);
        self.place = call.location.unwrap_or(Place::NONE);
        self.rounds = call.rounds.to_vec();
    }

    fn take_value(&mut self, value: &ErrorValue) {
        let mut keep = |bytes: &[u8]| {
            let mut kept = bytes.to_vec();
            kept.push(0);
            let kept = kept.into_boxed_slice();
            let named = Bytes::new(kept.get(..bytes.len()).unwrap_or_default());
            self._texts.push(kept);
            named
        };
        let value = match value {
            ErrorValue::Nil => Value::Nil,
            ErrorValue::Bool(b) => Value::Bool(*b),
            ErrorValue::Int(i) => Value::Int(*i),
            ErrorValue::Real(r) => Value::Real(*r),
            ErrorValue::Char(c) => Value::Char(*c as u32),
            ErrorValue::Str(s) => Value::Text(keep(s.as_bytes())),
            ErrorValue::Bytes(b) => Value::Bytes(keep(b)),
            // `bf_signal_values` gives stubs.
            ErrorValue::Object(_) => Value::Stub(Ref::NONE),
        };
        self.values.push(value);
    }

    /// Sets the place of a function that was misused.
    pub(crate) fn set_place(&mut self, place: Place) {
        self.place = place;
    }

    /// Returns the failure from which it follows at last.
    pub(crate) fn root(&self) -> &Failure {
        let mut failure = self;
        while let Some(cause) = &failure.cause {
            failure = cause;
        }
        failure
    }

    pub(crate) fn text(&self) -> Chars {
        Chars::new(&self.text)
    }

    pub(crate) fn name(&self) -> Chars {
        Chars::new(&self.name)
    }

    pub(crate) fn call(&self) -> Chars {
        Chars::new(&self.call)
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }
}

/// Returns the number of the server's error that ended a session; 0 for another end.
fn number_of(why: &Closed) -> u32 {
    match why {
        Closed::ByServer { number, .. } => *number,
        _ => 0,
    }
}

/// The reason why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Client(#[from] bifrost_client::ConnectError),
    #[error("the {0} is no UTF-8")]
    NotText(&'static str),
    #[error("the address is null: is the variable set that has it, such as BIFROST_URL?")]
    NoAddress,
    #[error("a certificate needs its key, and a key its certificate")]
    HalfCertificate,
    #[error("a service is of a type of the program, and not of a built-in one")]
    NoService,
}

impl ConnectError {
    /// Writes it down.
    pub(crate) fn failure(&self) -> Failure {
        let mut failure = Failure::new(Status::Connect, self.to_string(), Place::NONE);
        if let ConnectError::Client(bifrost_client::ConnectError::Closed(why)) = self {
            failure.number = number_of(why);
        }
        failure
    }
}
