//! A stream over a websocket, which is over a TCP socket or TLS.
//!
//! Read [`WebStream`] first. A binary message is a piece of the stream; its borders mean nothing.
//! The frames are the business of the crate `tungstenite`; `carrier` is the stream under it, and
//! `error` has the failures with their remedies.
//!
//! - A message has at most [`MESSAGE_BYTES_MAX`], whether in one frame or several. Text messages
//!   end the stream.
//! - Pings are answered. More than [`CONTROL_FRAMES_PER_SECOND_MAX`] frames without content end the
//!   stream.
//! - [`WebStream::beat`] sends a ping every [`PING_EVERY`], and finds peers that are gone.
//! - [`WebStream::try_write`] accepts bytes only if all before them were sent. One message of at
//!   most [`PIECE_BYTES`] may wait for room ([`WebStream::wants_write`]).
//! - An idle websocket has a buffer of [`BUFFER_BYTES`], and one of the size of the longest message
//!   that it has sent.
//!
//! A server reads and answers the request for a websocket itself, and then turns the stream into
//! one ([`crate::Stream::serve_websocket`]); [`connect`] is the client's side.

mod carrier;
mod error;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::HandshakeError as Interrupt;
use tungstenite::handshake::client::{Request, generate_key};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Bytes, Error as Fault, Message, WebSocket};

use self::carrier::{Below, Carrier, read_error, write_error};
pub use self::error::WebError;
use self::error::would_block;
use crate::attention::Attention;
use crate::errors::{ReadError, WriteError};
use crate::identity::Identity;
use crate::patient::Patient;
use crate::rest::PeerSilent;
use crate::socket::{SocketStream, wait_for};
use crate::tls::TlsStream;

/// The protocol inside the websocket, as the request names it.
pub const SUBPROTOCOL: &str = "bifrost.1";
/// Most bytes of a message, and of a frame.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most frames of a peer in a second that have no content: pings, and pongs.
pub const CONTROL_FRAMES_PER_SECOND_MAX: u32 = 100;
/// The time between two pings to a peer.
pub const PING_EVERY: Duration = Duration::from_secs(30);
/// Most bytes of a message that is sent.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes of the buffer for the beginnings of frames.
const BUFFER_BYTES: usize = 512;

/// One end of a stream over a websocket, or a half of it. Clones are the same end.
#[derive(Clone, Debug)]
pub(crate) struct WebStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
    tls: Option<TlsStream>,
    machine: Mutex<Machine>,
}

#[derive(Debug)]
struct Machine {
    socket: WebSocket<Carrier>,
    /// The last message, and the bytes of it that were taken.
    content: Bytes,
    taken: usize,
    /// True if bytes of frames wait for room.
    unsent: bool,
    /// True if the peer has said that it sends no more.
    is_ended: bool,
    failed: Option<WebError>,
    /// Frames without content since then.
    control: (Instant, u32),
    /// The time of the last ping, and whether the peer has sent anything since.
    pinged: Instant,
    was_heard: bool,
}

/// The stream that a websocket is opened over.
pub(crate) enum Base {
    Socket,
    Tls(TlsStream),
}

/// The end of a request for a websocket that does not succeed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The deadline passed.
    TimedOut,
    /// The peer closed the connection.
    Closed,
    /// The request was refused, or is not understood.
    Web(WebError),
    /// The stream under it failed.
    Read(ReadError),
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * MESSAGE_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

fn carrier(base: &Base, socket: &Arc<OwnedFd>, attention: &Arc<Attention>) -> Carrier {
    Carrier::new(match base {
        Base::Socket => Below::Socket(SocketStream::new(socket.clone(), attention.clone())),
        Base::Tls(stream) => Below::Tls(stream.clone()),
    })
}

/// Asks the server for a websocket, over a stream to it.
pub(crate) fn connect(
    base: Base,
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
    (host, path): (&str, &str),
    deadline: Instant,
) -> Result<WebStream, RequestError> {
    let unfit = |error: tungstenite::http::Error| RequestError::Web(WebError::NotWeb(error.to_string()));
    let request = Request::builder()
        .uri(format!("ws://{host}{path}"))
        .header("Host", host)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .header("Sec-WebSocket-Protocol", SUBPROTOCOL)
        .body(())
        .map_err(unfit)?;
    let below = carrier(&base, &socket, &attention);
    let mut shaken = tungstenite::client::client_with_config(request, below, Some(config()));
    loop {
        match shaken {
            Ok((web, _)) => return Ok(WebStream::new(base, socket, attention, web)),
            Err(Interrupt::Interrupted(unfinished)) => {
                let wants_write = unfinished.get_ref().get_ref().wants_write();
                let flags = if wants_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                match wait_for(&socket, flags, Some(deadline)) {
                    Ok(true) => shaken = unfinished.handshake(),
                    Ok(false) => return Err(RequestError::TimedOut),
                    Err(error) => return Err(RequestError::Read(ReadError::Io(error.into()))),
                }
            }
            Err(Interrupt::Failure(Fault::Io(error))) => return Err(RequestError::Read(read_error(error))),
            Err(Interrupt::Failure(Fault::Protocol(ProtocolError::HandshakeIncomplete))) => {
                return Err(RequestError::Closed);
            }
            Err(Interrupt::Failure(fault)) => return Err(RequestError::Web(WebError::of_request(fault))),
        }
    }
}

impl WebStream {
    /// Makes the server's side, after the request was answered. `read` was read behind the request.
    pub(crate) fn serve(
        base: Base,
        socket: Arc<OwnedFd>,
        attention: Arc<Attention>,
        read: Vec<u8>,
    ) -> WebStream {
        let below = carrier(&base, &socket, &attention);
        let web = WebSocket::from_partially_read(below, read, Role::Server, Some(config()));
        WebStream::new(base, socket, attention, web)
    }

    /// The socket that the bytes go through.
    pub(crate) fn shared_socket(&self) -> &Arc<OwnedFd> {
        &self.shared.socket
    }

    fn new(
        base: Base,
        socket: Arc<OwnedFd>,
        attention: Arc<Attention>,
        web: WebSocket<Carrier>,
    ) -> WebStream {
        let tls = match base {
            Base::Socket => None,
            Base::Tls(stream) => Some(stream),
        };
        let now = Instant::now();
        let machine = Mutex::new(Machine {
            socket: web,
            content: Bytes::new(),
            taken: 0,
            unsent: false,
            is_ended: false,
            failed: None,
            control: (now, 0),
            pinged: now,
            was_heard: true,
        });
        WebStream { shared: Arc::new(Shared { socket, attention, tls, machine }) }
    }

    /// The peer's proof about itself, where the stream under it is TLS.
    pub(crate) fn identity(&self) -> Identity {
        self.shared.tls.as_ref().map_or(Identity::None, TlsStream::identity)
    }

    /// Sends bytes that were accepted, without waiting; true if none are left.
    pub(crate) fn try_flush(&self) -> Result<bool, WriteError> {
        if self.shared.attention.is_stopped() {
            return Err(WriteError::Stopped);
        }
        self.shared.machine().flush()
    }

    /// Says the last word as far as that needs no waiting.
    pub(crate) fn close(&self) {
        let mut machine = self.shared.machine();
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        machine.socket.get_mut().begin_last_word();
        // A peer that does not take it finds the stream cut off.
        let _ = machine.socket.close(Some(frame));
        drop(machine);
        if let Some(tls) = &self.shared.tls {
            tls.close();
        }
    }

    /// Sends a ping if it is time, and returns the time of the next one.
    ///
    /// # Errors
    /// The peer has sent nothing since the last one.
    pub(crate) fn beat(&self, now: Instant) -> Result<Instant, PeerSilent> {
        let mut machine = self.shared.machine();
        if now < machine.pinged + PING_EVERY {
            return Ok(machine.pinged + PING_EVERY);
        }
        if !machine.was_heard {
            return Err(PeerSilent);
        }
        (machine.pinged, machine.was_heard) = (now, false);
        let sent = machine.socket.write(Message::Ping(Bytes::new()));
        machine.unsent |= sent.is_err();
        // The next read finds the reason of a failure.
        let _ = machine.flush();
        Ok(now + PING_EVERY)
    }

    /// Waits until there is content, or bytes to be received, or room; false if the deadline
    /// passed.
    pub(crate) fn wait_ready(&self, deadline: Instant) -> bool {
        let has_content = self.shared.machine().has_content();
        // After an error the next read or write finds the reason.
        has_content || self.wait(PollFlags::IN | PollFlags::OUT, Some(deadline)).unwrap_or(true)
    }
}

impl Patient for WebStream {
    fn try_read(&self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        let shared = &*self.shared;
        if shared.attention.is_deaf() {
            return Err(ReadError::Stopped);
        }
        let mut machine = shared.machine();
        let read = machine.read(into, limit);
        match read {
            _ if shared.attention.is_deaf() => Err(ReadError::Stopped),
            read => read,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        let shared = &*self.shared;
        let mut machine = shared.machine();
        let mut accepted = 0;
        loop {
            if shared.attention.is_stopped() {
                return Err(WriteError::Stopped);
            }
            if !machine.flush()? || accepted == bytes.len() {
                return Ok(accepted);
            }
            let piece = &bytes[accepted..bytes.len().min(accepted + PIECE_BYTES)];
            machine.write(piece)?;
            accepted += piece.len();
        }
    }

    fn wants_write(&self) -> bool {
        let machine = self.shared.machine();
        machine.unsent || machine.socket.get_ref().wants_write()
    }

    fn socket(&self) -> &OwnedFd {
        &self.shared.socket
    }
}

impl Shared {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine {
    fn has_content(&self) -> bool {
        self.taken < self.content.len()
    }

    fn read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        loop {
            if self.has_content() {
                let rest = &self.content[self.taken..];
                let count = rest.len().min(limit);
                into.extend_from_slice(&rest[..count]);
                self.taken += count;
                return Ok(Some(count));
            }
            if let Some(failed) = &self.failed {
                return Err(ReadError::Web(failed.clone()));
            }
            if self.is_ended {
                return Ok(Some(0));
            }
            // While the last message is held, the codec does not put the next one behind it, in
            // memory that is as large as the longest message.
            let message = self.socket.read();
            (self.content, self.taken) = (Bytes::new(), 0);
            match message {
                Ok(Message::Binary(content)) => {
                    self.was_heard = true;
                    match content.is_empty() {
                        // As good as a ping.
                        true => self.count_control()?,
                        false => self.content = content,
                    }
                }
                Ok(Message::Text(_)) => return Err(self.fail(WebError::Text)),
                Ok(Message::Ping(_) | Message::Pong(_)) => {
                    self.was_heard = true;
                    self.count_control()?;
                }
                // The answer is sent by the next call.
                Ok(Message::Close(_) | Message::Frame(_)) => {}
                Err(fault) if would_block(&fault) => return Ok(None),
                Err(
                    Fault::ConnectionClosed
                    | Fault::AlreadyClosed
                    | Fault::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                ) => self.is_ended = true,
                Err(Fault::Io(error)) => return Err(read_error(error)),
                Err(fault) => return Err(self.fail(WebError::of_peer(&fault))),
            }
        }
    }

    fn count_control(&mut self) -> Result<(), ReadError> {
        let (since, count) = &mut self.control;
        let now = Instant::now();
        if now.duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        match *count > CONTROL_FRAMES_PER_SECOND_MAX {
            true => Err(self.fail(WebError::Flood)),
            false => Ok(()),
        }
    }

    /// Notes a failure, and tells the peer as far as that needs no waiting.
    fn fail(&mut self, error: WebError) -> ReadError {
        let mut reason = error.to_string();
        reason.truncate(reason.floor_char_boundary(120));
        let frame = CloseFrame { code: CloseCode::from(error.close_code()), reason: reason.into() };
        let _ = self.socket.close(Some(frame));
        self.failed = Some(error.clone());
        ReadError::Web(error)
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), WriteError> {
        let written = self.socket.write(Message::Binary(Bytes::copy_from_slice(piece)));
        self.note_written(written).map(drop)
    }

    fn flush(&mut self) -> Result<bool, WriteError> {
        let flushed = self.socket.flush();
        self.note_written(flushed)
    }

    /// Returns true if nothing waits for room.
    fn note_written(&mut self, written: Result<(), Fault>) -> Result<bool, WriteError> {
        match written {
            Ok(()) => {
                self.unsent = false;
                Ok(true)
            }
            Err(fault) if would_block(&fault) => {
                self.unsent = true;
                Ok(false)
            }
            Err(Fault::Io(error)) => Err(write_error(error)),
            // The reader is told the reason.
            Err(_) => Err(WriteError::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A server's side over one end of a pair of sockets, and the bare other end.
    fn served() -> (WebStream, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        let (socket, attention) = (Arc::new(own.into()), Arc::default());
        (WebStream::serve(Base::Socket, socket, attention, Vec::new()), other)
    }

    fn sent(other: &mut UnixStream) -> [u8; 2] {
        let mut frame = [0; 2];
        other.read_exact(&mut frame).unwrap();
        frame
    }

    #[test]
    fn a_peer_that_does_not_answer_a_ping_is_gone() {
        let (web, mut other) = served();
        let start = Instant::now();
        let due = web.beat(start).unwrap();
        assert!(due > start + PING_EVERY / 2);
        assert_eq!(web.beat(due), Ok(due + PING_EVERY));
        assert_eq!(sent(&mut other), [0x89, 0]);
        // A pong, or anything else, is an answer.
        other.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).unwrap();
        assert!(web.try_read(&mut Vec::new(), 1).unwrap().is_none());
        let again = due + PING_EVERY;
        assert_eq!(web.beat(again - Duration::from_secs(1)), Ok(again));
        assert_eq!(web.beat(again), Ok(again + PING_EVERY));
        assert_eq!(sent(&mut other), [0x89, 0]);
        assert_eq!(web.beat(again + PING_EVERY), Err(PeerSilent));
    }

    #[test]
    fn a_server_without_the_protocol_is_none() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let answering = std::thread::spawn(move || {
            let mut request = [0; 4096];
            let count = other.read(&mut request).unwrap();
            let text = std::str::from_utf8(&request[..count]).unwrap();
            let key = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
            let key = tungstenite::handshake::derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                 Sec-WebSocket-Accept: {key}\r\n\r\n"
            );
            other.write_all(answer.as_bytes()).unwrap();
        });
        let (socket, attention) = (Arc::new(own.into()), Arc::default());
        let deadline = Instant::now() + Duration::from_secs(10);
        let asked = connect(Base::Socket, socket, attention, ("localhost", "/"), deadline);
        answering.join().unwrap();
        match asked {
            Err(RequestError::Web(error)) => assert_eq!(error, WebError::NotBifrost),
            other => panic!("{other:?}"),
        }
    }
}
