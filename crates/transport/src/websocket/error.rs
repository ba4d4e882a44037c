//! [`WebError`]: the failures of websockets, with their remedies.

use std::io;

use thiserror::Error;
use tungstenite::Error as Fault;
use tungstenite::error::{CapacityError, ProtocolError, SubProtocolError};

use super::{CONTROL_FRAMES_PER_SECOND_MAX, MESSAGE_BYTES_MAX, SUBPROTOCOL};

/// The reason why a websocket was not opened, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WebError {
    /// The server answered the request for a websocket with something else.
    #[error("the server refused the websocket with status {status}{}", shown(text))]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// The answer, cut to a line.
        text: String,
    },
    /// The server has agreed to no protocol, or to another one.
    #[error("this is not a Bifrost server: it does not speak `{SUBPROTOCOL}` over its websocket")]
    NotBifrost,
    /// The answer is none of HTTP.
    #[error("this is not a web server: {0}")]
    NotWeb(String),
    /// A message has more bytes than are accepted.
    #[error("a websocket message has more than {MESSAGE_BYTES_MAX} bytes: send it in pieces")]
    TooLong,
    /// A message is text.
    #[error("a websocket message is text: send binary messages, of lines too")]
    Text,
    /// The peer has sent more pings than are accepted.
    #[error("the peer sent more than {CONTROL_FRAMES_PER_SECOND_MAX} websocket control frames a second")]
    Flood,
    /// The peer has broken the protocol.
    #[error("the peer broke the websocket protocol: {0}")]
    Protocol(String),
}

/// Most characters that are shown of an answer.
const SHOWN_MAX: usize = 200;

fn shown(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl WebError {
    /// Returns the code and the words of a close frame, for a failure that the peer is told.
    pub(crate) fn close_code(&self) -> u16 {
        match self {
            WebError::TooLong => 1009,
            WebError::Text => 1003,
            WebError::Flood => 1008,
            _ => 1002,
        }
    }

    /// The failure of a request for a websocket.
    pub(super) fn of_request(fault: Fault) -> WebError {
        match fault {
            Fault::Http(answer) => {
                let (head, body) = answer.into_parts();
                let text = String::from_utf8_lossy(body.as_deref().unwrap_or_default()).into_owned();
                let line = text.lines().next().unwrap_or_default();
                let text = line.chars().filter(|one| !one.is_control()).take(SHOWN_MAX).collect();
                WebError::Refused { status: head.status.as_u16(), text }
            }
            Fault::Protocol(ProtocolError::SecWebSocketSubProtocolError(
                SubProtocolError::InvalidSubProtocol | SubProtocolError::NoSubProtocol,
            )) => WebError::NotBifrost,
            fault => WebError::NotWeb(fault.to_string()),
        }
    }

    /// The failure of an open websocket.
    pub(super) fn of_peer(fault: &Fault) -> WebError {
        match fault {
            Fault::Capacity(CapacityError::MessageTooLong { .. }) => WebError::TooLong,
            fault => WebError::Protocol(fault.to_string()),
        }
    }
}

/// True if nothing is there now.
pub(super) fn would_block(fault: &Fault) -> bool {
    matches!(fault, Fault::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
}
