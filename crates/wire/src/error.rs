//! The one table of error numbers, and the mistakes that decoding can find.

use serde::{Deserialize, Serialize};

/// The scope that an error ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One call, or one control structure, which is not run; its dependents become `unhandled_exc`.
    Call,
    /// The rest of the batch, which is not run.
    Batch,
    /// The session.
    Session,
}

impl Scope {
    /// Returns the name that the documents and other languages' constants have.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Call => "call",
            Scope::Batch => "batch",
            Scope::Session => "session",
        }
    }
}

/// A row of the table of errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorRow {
    /// The number.
    pub number: ErrorNumber,
    /// Its name.
    pub name: &'static str,
    /// The scope that it ends.
    pub scope: Scope,
    /// The text of the error.
    pub text: &'static str,
}

macro_rules! errors {
    ($($name:ident = $number:literal, $scope:ident, $text:literal;)*) => {
        /// The numbers of the mistakes that a client's bytes can have. Exceptions that a method
        /// signals are none of these.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        #[repr(u32)]
        pub enum ErrorNumber {
            $(#[doc = concat!(stringify!($scope), ": ", $text, ".")] $name = $number,)*
        }

        /// All rows, in the order of their numbers.
        pub static TABLE: &[ErrorRow] = &[$(ErrorRow {
            number: ErrorNumber::$name, name: stringify!($name), scope: Scope::$scope, text: $text,
        }),*];

        impl ErrorNumber {
            /// Returns the error of a number.
            pub fn from_number(number: u32) -> Option<ErrorNumber> {
                match number { $($number => Some(ErrorNumber::$name),)* _ => None }
            }

            /// Returns its name.
            pub fn name(self) -> &'static str {
                match self { $(ErrorNumber::$name => stringify!($name),)* }
            }

            /// Returns the scope that it ends.
            pub fn scope(self) -> Scope {
                match self { $(ErrorNumber::$name => Scope::$scope,)* }
            }

            /// Returns its text, without the values of the case at hand.
            pub fn text(self) -> &'static str {
                match self { $(ErrorNumber::$name => $text,)* }
            }
        }
    };
}

impl ErrorNumber {
    /// True for the number of an error of a transaction that is gone: it can be run again.
    pub fn is_overtaken(number: u32) -> bool {
        let error = ErrorNumber::from_number(number);
        matches!(error, Some(ErrorNumber::Conflict | ErrorNumber::TransactionExpired))
    }
}

errors! {
    NoSuchHandle = 1, Call, "this session never received the handle, or has freed it";
    BadFuture = 2, Call, "the future is not defined at this place of the batch";
    NoSuchMethod = 3, Call, "no method has this number, or the receiver's type does not have it";
    NoSuchRoutine = 4, Call, "no routine has this number";
    NoSuchProcedure = 5, Call, "no batched procedure of this session has this number";
    NoSuchType = 6, Call, "no type has this number";
    NoSuchName = 7, Call, "no well-known object has this name";
    WrongType = 8, Call, "a reference or value does not have the type that is expected here";
    WrongCount = 9, Call, "the call has too few or too many arguments";
    NotAnIterator = 10, Call, "a FOREACH needs one call of an iterator";
    NotAProcedure = 11, Call, "an iterator can be called only as a FOREACH's iterator";
    MarkerMismatch = 12, Batch, "a marker does not belong to the innermost open structure, or is at the \
        wrong place";
    MissingEnd = 13, Batch, "the batch ended inside a structure";
    OpenStructure = 14, Batch, "this command is not allowed inside an open structure";
    TooDeep = 15, Call, "structures are nested too deeply";
    TooManyCommands = 16, Batch, "the batch has too many commands";
    TooManyFutures = 17, Batch, "the batch has too many futures";
    BatchTooLong = 18, Batch, "the batch has too many bytes";
    TooManyHandles = 19, Batch, "the session holds too many handles";
    ReplyTooLong = 20, Batch, "the results are longer than a reply may be";
    OutOfFuel = 21, Batch, "the batch ran too many steps";
    TimeLimit = 22, Batch, "the batch ran too long";
    HeapLimit = 23, Batch, "the session's objects need too much memory";
    Cancelled = 25, Batch, "the run was cancelled";
    Conflict = 26, Batch, "another session has changed an object that the transaction has read; it is \
        aborted";
    StoreFailed = 27, Batch, "the repository has failed or cannot be reached";
    NotStorable = 28, Batch, "an object cannot be stored; the transaction is aborted";
    Unseen = 29, Batch, "exceptions were neither read nor cleared; the transaction is aborted";
    TooManyObjects = 30, Batch, "the transaction reads and makes more objects than it may";
    TransactionExpired = 31, Batch, "the transaction was idle for too long; it is aborted";
    BadWord = 32, Session, "the bytes are not a command";
    BadText = 33, Session, "a string is not well-formed UTF-8";
    FrameTooLong = 34, Session, "a command is longer than the server accepts";
    OutOfOrder = 35, Session, "the command does not belong at this place of the session";
    VersionMismatch = 36, Session, "the server does not support this version";
    SchemaMismatch = 37, Session, "the interface is not that of the client";
    BadToken = 38, Session, "the token is not valid";
    TooManyErrors = 39, Session, "the session made too many errors";
    TooManySessions = 40, Session, "the server has too many sessions";
    Expired = 41, Session, "the session was idle or slow for too long";
    ShuttingDown = 42, Session, "the server is shutting down";
    Internal = 43, Session, "the server failed; the session ends";
    InTransaction = 44, Batch, "this command is not allowed in the middle of a transaction";
    Repeated = 45, Batch, "the batch was committed before";
    Doomed = 46, Batch, "a limit or cancellation has interrupted code; the transaction can only be aborted";
    BadLine = 48, Call, "the line is not a command of the text form";
    NotAllowed = 49, Call, "the session has no right to this call";
    NoSuchModule = 50, Call, "no module of this session has this number, or it exports no such function";
    BadModule = 51, Call, "the server does not accept the module";
}

impl std::fmt::Display for ErrorNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason why bytes are no command, or no reply. The stream cannot be read any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {what} (at byte {offset} of the command)", number.name())]
pub struct DecodeError {
    /// [`ErrorNumber::BadWord`], [`ErrorNumber::BadText`] or [`ErrorNumber::FrameTooLong`].
    pub number: ErrorNumber,
    /// The offset, in bytes from the command's first.
    pub offset: usize,
    /// The form that was expected.
    pub what: &'static str,
}
