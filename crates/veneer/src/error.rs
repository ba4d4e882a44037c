//! The failures of calls, structures and sessions, as values.
//!
//! [`Error`] is the type to read first: the failure of one stub, with the [`Place`] of its call.
//! [`Closed`] is the end of a session, [`ConnectError`] the failure to open one.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;

use bifrost_recorder::{Closed, GreetError};
use bifrost_trader::url::BadUrl;
use bifrost_transport::Address;
use bifrost_wire::InterfaceError;

use crate::connection::ConnectionError;
use crate::import::{ImportError, TRADERS_MAX};

/// The reason why a stub has no result. Cheap to clone. The account of failures that the program
/// was not told of is that of the [session](crate::Session#failures-that-were-told).
pub type Error = bifrost_recorder::Error<Place>;

/// A call, for messages.
pub type CallName = bifrost_recorder::CallName<Place>;

/// An entry of the exception history.
pub type Exception = bifrost_recorder::Exception<Place>;

/// The place of a call in the source of the program: its file and line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place(&'static Location<'static>);

impl Place {
    /// Returns the place that calls the function that calls this one.
    #[inline]
    #[track_caller]
    pub(crate) fn caller() -> Place {
        Place(Location::caller())
    }
}

impl Deref for Place {
    type Target = Location<'static>;

    fn deref(&self) -> &Location<'static> {
        self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.file(), self.0.line())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

/// The reason why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] bifrost_transport::AddressError),
    /// The URL of a trader is none.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// A URL names no trader, and neither does the environment.
    #[error(
        "the URL names no trader, and BIFROST_TRADER is not set: write `trader://host/Service`, or set it to the \
         addresses of traders, as in `tls://trader.example:7450`"
    )]
    NoTraders,
    /// The environment names more traders than are asked.
    #[error("BIFROST_TRADER names {traders} traders; at most {TRADERS_MAX} are asked")]
    TooManyTraders {
        /// The number of traders.
        traders: usize,
    },
    /// No server was imported.
    #[error(transparent)]
    Import(Box<ImportError>),
    /// A trader has refused the question.
    #[error("the trader: {0}")]
    Trader(#[source] Error),
    /// The server that a trader has named does not have the object.
    #[error("the server does not have the object: {0}")]
    Object(#[source] Error),
    /// A server that a trader has named asks for the token, where others could read it.
    #[error(
        "{address} asks for the token, which is not shown without encryption to a server that a trader has named: \
         it has to be exported with a `tls://` address"
    )]
    PlainToken {
        /// The address of the server.
        address: Address,
    },
    /// The caller's own way to connect has failed.
    #[error("{0}")]
    Dial(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system has no thread for an import.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] bifrost_transport::ConnectError),
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
    /// The trace context is none.
    #[error("`{0}` is no `traceparent` of W3C Trace Context")]
    Trace(String),
    /// The server's interface cannot be read.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// A session to be awaited over shared memory, which has no descriptor to wait for.
    #[cfg(feature = "async")]
    #[error("a session over shared memory cannot be awaited: connect to `unix://`, `tls://` or `tcp://`")]
    NotAsynchronous,
    /// The system does not watch the socket.
    #[cfg(feature = "async")]
    #[error("the socket cannot be watched: {0}")]
    Watch(#[source] std::io::Error),
}

impl From<GreetError> for ConnectError {
    fn from(error: GreetError) -> ConnectError {
        match error {
            GreetError::Closed(why) => ConnectError::Closed(why),
            GreetError::Version { server, client } => ConnectError::Version { server, client },
            GreetError::Interface(error) => ConnectError::Interface(error),
        }
    }
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Closed {
        Closed::Connection(Box::new(error))
    }
}

const _: () = {
    // So that `?` turns it into the error types that programs use.
    const fn is_shareable<T: Send + Sync + 'static>() {}
    is_shareable::<Error>();
    is_shareable::<ConnectError>();
};
