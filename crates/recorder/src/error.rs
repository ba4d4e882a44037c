//! The failures of calls, structures and sessions, as values.
//!
//! [`Error`] is the type to read first: the failure of one stub. [`Closed`] is the end of a
//! session, [`GreetError`] the failure to open one, [`Exception`] an entry of the history.
//!
//! | part | rule |
//! | --- | --- |
//! | cause | an error has the one inside from which it follows; [`Error::root`] returns the first |
//! | place | a call carries the place of the program that made it: an `S`, the caller's own type |
//! | sharing | one failure is one `Arc`, by whose address the account of told failures knows it |

use std::fmt;
use std::sync::Arc;

use bifrost_wire::{
    Arg, COMPOUND_DEPTH_MAX, DecodeError, ErrorNumber, InterfaceError, Place, Places, Ref, Value,
};

use crate::Source;

/// The reason why a stub has no result. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Error<S> {
    /// The call signalled an exception.
    Signal {
        /// The exception's name.
        name: Arc<str>,
        /// Its values.
        values: Arc<[ErrorValue]>,
        /// The places of a `failure` in the server's program, if the session may see them.
        places: Option<Arc<FailurePlaces>>,
        /// The call.
        call: CallName<S>,
    },
    /// The call was not run, because an argument is the result of a call that failed.
    Unhandled {
        /// The position of the argument: 0 is the receiver, the arguments count from 1.
        argument: u32,
        /// The failure of that argument, in this batch or an earlier one; absent only if the server
        /// omitted it from its list of exceptions.
        cause: Option<Arc<Error<S>>>,
        /// The call.
        call: CallName<S>,
    },
    /// The server refused the call, or the structure around it.
    Refused {
        /// The number; see `docs/spec/wire.md`.
        number: u32,
        /// The server's message.
        text: Arc<str>,
        /// The call.
        call: CallName<S>,
    },
    /// The call was not reached: a failure before it ended the batch.
    NotReached {
        /// The failure that ended the batch, if the server listed it.
        cause: Option<Arc<Error<S>>>,
        /// The call.
        call: CallName<S>,
    },
    /// The client refused the call, the marker, or the structure around it. Nothing of it was sent.
    NotSent {
        /// The call, or the outermost structure.
        call: CallName<S>,
        /// The reason: a [`Misuse`], a missing method, or the call inside the structure that was
        /// refused.
        cause: Arc<Error<S>>,
    },
    /// Failures that the program was not told of before.
    Unseen {
        /// The failures, oldest first.
        failures: Arc<[Arc<Error<S>>]>,
        /// Failures beyond those.
        omitted: u64,
        /// The commit or transaction that they prevented; absent at a claim or a flush, which only
        /// reports them.
        call: Option<CallName<S>>,
    },
    /// The stub was used in a way that makes no sense.
    Misuse(Misuse),
    /// The server does not have the method, or has it with another heading.
    Missing {
        /// The method or routine.
        name: Arc<str>,
    },
    /// The connection is gone, and with it the session: all its stubs say so from now on.
    Closed(Arc<Closed>),
}

/// The reason why a session ended.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// The client closed it.
    #[error("the session was closed")]
    ByClient,
    /// The bytes stopped: the caller's error.
    #[error("{0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server ended it.
    #[error("the server ended the session: {text} (error {number})")]
    ByServer {
        /// The number; see `docs/spec/wire.md`.
        number: u32,
        /// The number of the command of the session that is to blame, from 1; 0 for none.
        position: u64,
        /// The server's message.
        text: String,
    },
    /// The bytes received are no reply.
    #[error("the server's reply cannot be read: {0}")]
    BadReply(#[from] DecodeError),
    /// The reply is not the one to the question.
    #[error("the server sent an unexpected reply: {0}")]
    WrongReply(&'static str),
}

macro_rules! misuses {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $text:literal;)*) => {
        /// A misuse of a stub. The call, or the whole outermost structure around it, is not sent:
        /// [`Error::NotSent`].
        ///
        /// Every client language has these names, numbers and texts (`docs/spec/recording.md`).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u32)]
        pub enum Misuse {
            $($(#[doc = $doc])* $name = $number,)*
        }

        impl Misuse {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Misuse] = &[$(Misuse::$name),*];

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self { $(Misuse::$name => stringify!($name),)* }
            }

            /// Returns its text.
            pub fn text(self) -> &'static str {
                match self { $(Misuse::$name => $text,)* }
            }

            /// Returns a description of the cases in which it arises.
            pub fn doc(self) -> &'static str {
                match self { $(Misuse::$name => concat!($($doc, "\n"),*),)* }
            }
        }
    };
}

misuses! {
    /// A claim or flush where the batch cannot end.
    OpenStructure = 1, "a value cannot be claimed inside an open structure";
    /// A claim, a flush or the end of a transaction in a batch that is a transaction.
    InTransaction = 2, "a batch that is a transaction is sent whole: claims, commits and aborts are not \
        allowed in it";
    /// The stub was made inside a structure that has ended.
    OutOfScope = 3, "the stub was made inside a structure that has ended; store the value in a cell";
    /// Rows are appended to a table of an earlier batch, or to something else.
    EndedTable = 4, "a table of rows ends with its batch: append its rows before the batch is flushed";
    /// The stub belongs to another session.
    OtherSession = 5, "the stub belongs to another session";
    /// The session was connected with other generated stubs.
    OtherInterface = 6, "the session was connected for another interface";
    /// The second block of a choice, or a handler, does not follow its structure directly.
    NotAdjacent = 7, "the second block of a choice and the handlers of a block must follow it directly";
    /// The innermost loop is left, or continued, outside a loop.
    NoLoop = 8, "a loop can be left or continued only inside it";
    /// A return outside a procedure.
    NoProcedure = 9, "a return is allowed only inside a procedure";
    /// A procedure defined inside another structure.
    NestedProcedure = 10, "a procedure cannot be defined inside a structure";
    /// A well-known object looked up inside a structure.
    LookupInside = 11, "a well-known object cannot be looked up inside a structure: look it up before the \
        structure";
    /// A table of rows made inside a structure.
    TableInside = 12, "a table of rows cannot be made inside a structure: make it before the structure";
    /// The contents of an object taken inside a structure.
    ContentsInside = 13, "the contents of an object cannot be taken inside a structure: take them outside, or \
        put the object into a row";
    /// A value with items where no parameter or result says its type.
    Untyped = 14, "a value with items is an argument or a result: it has the type of its parameter or heading";
    /// A value with items that nests deeper than 64 levels.
    ValueTooDeep = 15, "values nest at most 64 levels deep";
    /// The code of a block was left by a panic, an exception or their like.
    Abandoned = 16, "a panic or exception has ended the structure";
    /// A structure is longer than a batch may be.
    TooLong = 17, "the structure is longer than the server accepts as one batch";
    /// Structures are nested deeper than the server accepts.
    TooDeep = 18, "structures are nested deeper than the server accepts";
    /// A flush begun while as many batches are under way as may be, or a transaction before they
    /// were answered.
    UnderWay = 19, "batches are under way: wait for their answers";
    /// A result awaited in a session whose claims wait.
    NotAsynchronous = 20, "the session was opened for claims that wait: claim its results, or open it for \
        results that are awaited";
    /// A stub that was released by hand is used, in a language whose stubs are.
    Released = 21, "the stub was released before this use";
    /// A block was left by a jump of a language that does not tell it, so that its end was not
    /// recorded.
    LeftOpen = 22, "the block of the structure was left by a jump of the program, before its end was recorded";
    /// A text or character of a language that does not check them is no Unicode.
    NotText = 23, "a text is UTF-8, and a character a Unicode scalar value";
    /// Profiles of batches are asked for, and the server makes none.
    NoProfiles = 24, "the server makes no profiles of batches";
    /// A module is to be run, and the server announces none.
    NoModules = 25, "the server runs no modules: its limit `modules_max` is 0, or it has none";
    /// A module run inside a structure.
    ModuleInside = 26, "a module cannot be run inside a structure: run it outside";
}

const _: () = assert!(COMPOUND_DEPTH_MAX == 64, "a text of a misuse says so");

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Misuse {}

/// A call, for messages.
#[derive(Clone, Debug)]
pub struct CallName<S> {
    /// `DataBase.fetch`; `?` when it is not known.
    pub name: Arc<str>,
    /// Its number in its batch, from 1; 0 if it was not sent.
    pub number: u32,
    /// Where the program made it; absent for calls that are not known.
    pub location: Option<S>,
    /// In which round of each loop around it, outermost first; empty outside loops.
    pub rounds: Arc<[u32]>,
}

impl<S: Source> fmt::Display for CallName<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(place) = &self.location {
            write!(f, " at {place}")?;
        }
        match &*self.rounds {
            [] => Ok(()),
            [one] => write!(f, ", round {one}"),
            many => write!(f, ", rounds {many:?}"),
        }
    }
}

/// The places of a `failure` in the server's program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailurePlaces {
    /// The innermost places, [`PLACES_MAX`](bifrost_wire::PLACES_MAX) at most.
    pub list: Box<[FailurePlace]>,
    /// The number of calls further out.
    pub more: u64,
}

/// A place in the server's program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailurePlace {
    /// The routine or method.
    pub routine: Box<str>,
    /// The file; empty if it is not known.
    pub file: Box<str>,
    /// The line, counted from 1; 0 if it is not known.
    pub line: u32,
}

impl FailurePlaces {
    /// Returns those that came with an exception; nothing if none came.
    pub(crate) fn of(came: &Places<'_>) -> Option<Arc<FailurePlaces>> {
        let place = |place: Place<'_>| FailurePlace {
            routine: place.routine.into(),
            file: place.file.into(),
            line: place.line,
        };
        let list = came.iter().map(place).collect();
        (!came.is_empty()).then(|| Arc::new(FailurePlaces { list, more: came.more }))
    }
}

impl fmt::Display for FailurePlaces {
    /// Writes a line for each place, each after a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.iter().try_for_each(|place| write!(f, "\n  at {place}"))?;
        if self.more > 0 { write!(f, "\n  ... {} more", self.more) } else { Ok(()) }
    }
}

impl fmt::Display for FailurePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Place { routine: &self.routine, file: &self.file, line: self.line }.fmt(f)
    }
}

/// A value of an exception.
#[derive(Clone, PartialEq, Debug)]
pub enum ErrorValue {
    /// Nil.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A character.
    Char(char),
    /// A text.
    Str(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// An object, by its handle, which is held while a stub has this failure.
    Object(Ref),
}

impl ErrorValue {
    /// Returns it as an item that came.
    pub(crate) fn arg(&self) -> Arg<'_> {
        Arg::Value(match self {
            ErrorValue::Nil => Value::Nil,
            ErrorValue::Bool(b) => Value::Bool(*b),
            ErrorValue::Int(i) => Value::Int(*i),
            ErrorValue::Real(r) => Value::Real(*r),
            ErrorValue::Char(c) => Value::Char(*c),
            ErrorValue::Str(s) => Value::Str(s),
            ErrorValue::Bytes(b) => Value::Bytes(b),
            ErrorValue::Object(handle) => return Arg::Ref(*handle),
        })
    }
}

impl fmt::Display for ErrorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorValue::Nil => f.write_str("nil"),
            ErrorValue::Bool(b) => write!(f, "{b}"),
            ErrorValue::Int(i) => write!(f, "{i}"),
            ErrorValue::Real(r) => write!(f, "{r:?}"),
            ErrorValue::Char(c) => write!(f, "{c:?}"),
            ErrorValue::Str(s) => write!(f, "{s:?}"),
            ErrorValue::Bytes(b) => {
                f.write_str("x\"")?;
                b.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\"")
            }
            ErrorValue::Object(_) => f.write_str("an object"),
        }
    }
}

impl<S> Error<S> {
    /// Calls a function for each object among the values of the exception.
    pub(crate) fn each_object(&self, each: &mut dyn FnMut(Ref)) {
        let Error::Signal { values, .. } = self else { return };
        for value in &**values {
            if let ErrorValue::Object(handle) = value {
                each(*handle);
            }
        }
    }
}

impl<S: Source> fmt::Display for Error<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Signal { name, values, places, call } => {
                write!(f, "{call} signalled {name}")?;
                if !values.is_empty() {
                    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                    write!(f, "({})", values.join(", "))?;
                }
                match places {
                    Some(places) if f.alternate() => write!(f, "{places}"),
                    _ => Ok(()),
                }
            }
            Error::Unhandled { argument, cause, call } => {
                match argument {
                    0 => write!(f, "{call} was not run because its receiver failed")?,
                    n => write!(f, "{call} was not run because its argument {n} failed")?,
                }
                cause.as_ref().map_or(Ok(()), |c| write!(f, ": {c}"))
            }
            Error::Refused { number, text, call } => {
                let name = ErrorNumber::from_number(*number).map_or("error", ErrorNumber::name);
                write!(f, "{call} was refused: {text} ({name}, {number})")
            }
            Error::NotReached { cause, call } => {
                write!(f, "{call} was not reached")?;
                cause.as_ref().map_or(Ok(()), |c| write!(f, ": {c}"))
            }
            Error::NotSent { call, cause } => write!(f, "{call} was not sent: {cause}"),
            Error::Unseen { failures, omitted, call } => {
                if let Some(call) = call {
                    write!(f, "{call} was refused, and the transaction is undone: ")?;
                }
                match failures.len() as u64 + omitted {
                    1 => f.write_str("a failure was not seen")?,
                    n => write!(f, "{n} failures were not seen")?,
                }
                for (index, failure) in failures.iter().enumerate() {
                    write!(f, "{} {failure}", if index == 0 { ":" } else { ";" })?;
                }
                Ok(())
            }
            Error::Misuse(m) => write!(f, "{m}"),
            Error::Missing { name } => write!(f, "the server has no {name} with the heading of the stub"),
            Error::Closed(why) => write!(f, "{why}"),
        }
    }
}

impl<S: Source> std::error::Error for Error<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Closed(why) => Some(why.as_ref()),
            other => other.cause().map(|cause| cause.as_ref() as _),
        }
    }
}

impl<S> Error<S> {
    /// Returns the places in the server's program at which a `failure` arose and passed, the
    /// innermost first. Empty for other errors, and where the session may not see them.
    pub fn places(&self) -> &[FailurePlace] {
        match self {
            Error::Signal { places: Some(places), .. } => &places.list,
            _ => &[],
        }
    }

    /// Returns the name of the exception, if the call signalled one.
    pub fn signal(&self) -> Option<&str> {
        match self {
            Error::Signal { name, .. } => Some(name),
            _ => None,
        }
    }

    /// True if other transactions have conflicted with this one, which can be tried again.
    pub fn is_conflict(&self) -> bool {
        matches!(self.root(), Error::Refused { number, .. } if *number == ErrorNumber::Conflict as u32)
    }

    /// Returns the failure that started it: follows the causes of calls that were not run, also
    /// into earlier batches, and takes the oldest of several unseen failures.
    pub fn root(&self) -> &Error<S> {
        let mut error = self;
        while let Some(cause) = error.cause() {
            error = cause;
        }
        error
    }

    /// Returns the failure that this one follows from.
    fn cause(&self) -> Option<&Arc<Error<S>>> {
        match self {
            Error::Unhandled { cause, .. } | Error::NotReached { cause, .. } => cause.as_ref(),
            Error::NotSent { cause, .. } => Some(cause),
            Error::Unseen { failures, .. } => failures.first(),
            _ => None,
        }
    }

    /// Returns this failure and all that it follows from.
    pub fn chain(self: &Arc<Error<S>>) -> impl Iterator<Item = &Arc<Error<S>>> {
        std::iter::successors(Some(self), |error| error.cause())
    }

    /// Returns the failure as the cause of another one. Causes are at most [`CAUSES_MAX`] deep,
    /// since each is dropped inside the other; beyond it the root stands for all between.
    pub(crate) fn as_cause(self: &Arc<Error<S>>) -> Arc<Error<S>> {
        match self.chain().nth(CAUSES_MAX) {
            None => self.clone(),
            Some(deep) => deep.chain().last().unwrap_or(deep).clone(),
        }
    }
}

/// The depth of causes that an error keeps.
pub const CAUSES_MAX: usize = 16;

/// An entry of the exception history.
#[derive(Clone, Debug)]
pub struct Exception<S> {
    /// The batch, counted from 1 in the session.
    pub batch: u64,
    /// The failure.
    pub error: Arc<Error<S>>,
}

/// The reason why no session came of a greeting.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// The connection ended, or the server refused the session.
    #[error(transparent)]
    Closed(#[from] Closed),
    /// The server speaks another version.
    #[error("the server has version {server} of the wire form, this client version {client}")]
    Version {
        /// The server's.
        server: u32,
        /// The client's.
        client: u32,
    },
    /// The server's interface cannot be read.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
}

const _: () = {
    // So that `?` turns it into the error types that programs use.
    const fn is_shareable<T: Send + Sync + 'static>() {}
    is_shareable::<Error<u32>>();
    is_shareable::<GreetError>();
};
