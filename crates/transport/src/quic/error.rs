//! [`LinkError`]: the reason why a connection of QUIC was lost.

use quinn_proto::ConnectionError;
use thiserror::Error;

/// The reason why a connection of QUIC was lost, with the remedy where there is one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LinkError {
    /// The peer knows nothing of the connection: it has started again.
    #[error("the peer has started again and knows nothing of the connection")]
    Restarted,
    /// Nothing came from the peer for thirty seconds.
    #[error("nothing came from the peer for {} s: it is dead, stopped or out of reach", super::settings::SILENCE.as_secs())]
    Silent,
    /// The peer ends.
    #[error("the peer has ended the connection: {0}")]
    Ended(String),
    /// The peer refuses connections.
    #[error("the peer refuses the connection: {0}")]
    Refused(String),
    /// The peer speaks another version of QUIC, or none.
    #[error("the peer speaks no version of QUIC that is spoken here")]
    Version,
    /// This side has ended it.
    #[error("this side has ended the connection")]
    Local,
    /// A fault of this program.
    #[error("a fault of this program has ended the connection; other connections go on")]
    Fault,
    /// The protocol was violated, or the handshake failed.
    #[error("QUIC failed: {text}")]
    Protocol {
        /// The code of the error (RFC 9000 section 20.1).
        code: u64,
        /// The reason in words.
        text: String,
        /// True if the peer has said so.
        is_peers: bool,
    },
}

/// The codes of errors of the handshake: an alert of TLS in the low byte (RFC 9001 section 4.8).
const CRYPTO: std::ops::Range<u64> = 0x100..0x200;
const CONNECTION_REFUSED: u64 = 2;

impl LinkError {
    pub(crate) fn new(error: ConnectionError) -> LinkError {
        match error {
            ConnectionError::VersionMismatch => LinkError::Version,
            ConnectionError::TransportError(error) => {
                LinkError::Protocol { code: error.code.into(), text: error.to_string(), is_peers: false }
            }
            ConnectionError::ConnectionClosed(close) => match u64::from(close.error_code) {
                CONNECTION_REFUSED => LinkError::Refused(words(&close.reason)),
                code => LinkError::Protocol { code, text: close.to_string(), is_peers: true },
            },
            ConnectionError::ApplicationClosed(close) => LinkError::Ended(words(&close.reason)),
            ConnectionError::Reset => LinkError::Restarted,
            ConnectionError::TimedOut => LinkError::Silent,
            ConnectionError::LocallyClosed => LinkError::Local,
            ConnectionError::CidsExhausted => LinkError::Refused("no names are left".to_owned()),
        }
    }

    /// Returns the alert of TLS with which the handshake failed, and whether the peer sent it.
    pub(crate) fn alert(&self) -> Option<(u8, bool)> {
        match self {
            LinkError::Protocol { code, is_peers, .. } if CRYPTO.contains(code) => {
                Some((*code as u8, *is_peers))
            }
            _ => None,
        }
    }
}

/// Returns the words of a peer, without controls, 200 characters at most.
fn words(reason: &[u8]) -> String {
    let text = String::from_utf8_lossy(reason);
    text.chars().filter(|character| !character.is_control()).take(200).collect()
}
