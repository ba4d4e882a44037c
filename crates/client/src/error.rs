//! The reasons why there is no session.

use bifrost_recorder::{Closed, Error, GreetError};
use bifrost_trader::url::BadUrl;
use bifrost_transport::{Address, AddressError};
use bifrost_wire::InterfaceError;

use crate::search::{ImportError, TRADERS_MAX};
use crate::trader::Place;

/// The reason why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The address of a server is none: it has no scheme, or an unknown one.
    #[error("{0}, or `trader://host/Service` for a server that traders know")]
    Scheme(AddressError),
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
    Trader(#[source] Error<Place>),
    /// The server that a trader has named does not have the object.
    #[error("the server does not have the object: {0}")]
    Object(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The session ended while the object was looked up.
    #[error("{0}")]
    Ended(#[source] std::sync::Arc<Closed>),
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
    #[error("a session over shared memory cannot be awaited: connect to `unix://`, `tls://` or `tcp://`")]
    NotAsynchronous,
    /// The system does not watch the socket.
    #[error("the socket cannot be watched: {0}")]
    Watch(#[source] std::io::Error),
}

/// Reads the address of a server. URLs of traders are none: they are [searched](crate::Search) for.
///
/// # Errors
/// The text is no address.
pub fn parse_address(text: &str) -> Result<Address, ConnectError> {
    text.parse().map_err(|error| match error {
        AddressError::NoScheme { .. } | AddressError::UnknownScheme { .. } => ConnectError::Scheme(error),
        error => ConnectError::Address(error),
    })
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

const _: () = {
    // So that `?` turns it into the error types that programs use.
    const fn is_shareable<T: Send + Sync + 'static>() {}
    is_shareable::<ConnectError>();
};
