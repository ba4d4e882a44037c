//! The reasons why a stream is not made, or gives and takes no bytes.

use std::io;
use std::path::PathBuf;

use bifrost_rex::Ran;
use thiserror::Error;

use crate::address::Address;
use crate::quic::error::LinkError;
use crate::tls::{CertificateFileError, TlsError};
use crate::websocket::WebError;

/// The reason why there is no connection. Nothing is left behind.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no server listens on {address}: is the server running?")]
    Refused {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The server did not answer in time. A shm address whose server listens with `unix://` ends so
    /// too.
    #[error("{address} did not answer within {timeout_ms} ms")]
    TimedOut {
        /// The address.
        address: Address,
        /// The timeout of the options.
        timeout_ms: u128,
    },
    /// The answering process is no shm listener of this version.
    #[error("{address} cannot be used as shared memory: {source}")]
    NotShm {
        /// The address.
        address: Address,
        /// The fault of the answer.
        source: io::Error,
    },
    /// The server closed the connection before it handed over the shared memory, or before the
    /// handshake of TLS was over.
    #[error("{address} closed the connection at once: the server is ending or is full")]
    Closed {
        /// The address.
        address: Address,
    },
    /// The path is longer than a socket's name may be.
    #[error("the path of {address} is too long for a socket: at most 107 bytes")]
    PathTooLong {
        /// The address.
        address: Address,
    },
    /// The default directory belongs to another user, or is open to others. Nothing was sent.
    #[error(
        "{} is not private: it must belong to this user and have mode 0700; \
         another user may listen there",
        directory.display()
    )]
    NotPrivate {
        /// The default directory.
        directory: PathBuf,
    },
    /// The TLS handshake failed.
    #[error("cannot connect to {address}: {source}")]
    Tls {
        /// The address.
        address: Address,
        /// The fault.
        source: Box<TlsError>,
    },
    /// The websocket was not opened.
    #[error("cannot connect to {address}: {source}")]
    Web {
        /// The address.
        address: Address,
        /// The fault.
        source: Box<WebError>,
    },
    /// The connection of QUIC ended before it was open.
    #[error("cannot connect to {address}: {source}")]
    Quic {
        /// The address.
        address: Address,
        /// The fault.
        source: Box<LinkError>,
    },
    /// A file of certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] CertificateFileError),
    /// The options name authorities, and the address has a pin.
    #[error("{address} has a pin, and an authority is given too: leave one of them out")]
    TwoTrusts {
        /// The address.
        address: Address,
    },
    /// Anything else that the system refuses.
    #[error("cannot connect to {address}: {source}")]
    Io {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
}

/// The reason why a read gave nothing. Nothing was appended.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The deadline passed. The stream can still be used.
    #[error("the peer sent nothing before the deadline")]
    TimedOut,
    /// `stop` was called; every later read and write says the same.
    #[error("the stream was stopped")]
    Stopped,
    /// The peer broke the ring's positions; every later read and write says the same.
    #[error("the peer corrupted the shared ring")]
    Corrupt,
    /// TLS failed, or the stream ended without the close of TLS; every later read says the same.
    #[error(transparent)]
    Tls(TlsError),
    /// The peer broke the rules of websockets; every later read says the same.
    #[error(transparent)]
    Web(WebError),
    /// The connection of QUIC was lost; every later read says the same.
    #[error("{why}; {ran}")]
    Lost {
        /// The reason.
        why: LinkError,
        /// The fate of the last batch of this client.
        ran: Ran,
    },
    /// The system refused.
    #[error("cannot read from the peer: {0}")]
    Io(#[source] io::Error),
}

/// The reason why not all bytes were written. Some of them may have been, so the stream is good for
/// reading only.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The peer did not make room before the deadline.
    #[error("the peer did not read before the deadline")]
    TimedOut,
    /// `stop` was called; every later read and write says the same.
    #[error("the stream was stopped")]
    Stopped,
    /// The peer closed the stream or died. The bytes that it sent before can still be read, and
    /// over TLS the reason.
    #[error("the peer closed the stream")]
    Closed,
    /// The peer broke the ring's positions; every later read and write says the same.
    #[error("the peer corrupted the shared ring")]
    Corrupt,
    /// The system refused.
    #[error("cannot write to the peer: {0}")]
    Io(#[source] io::Error),
}
