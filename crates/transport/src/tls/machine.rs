//! [`Machine`]: the state of one TLS connection, without its socket.
//!
//! It owns rustls's state and three buffers: bytes that were received, bytes that are to be sent,
//! and content that was opened and not read. A buffer that is empty has no memory; each thread
//! keeps one for its next receive.
//!
//! ```text
//! state        from                    to
//! handshake    new                     established: rustls can write;  failed
//! established  -                       peer closed: close_notify;      failed
//! peer closed  -                       -  (can still write)
//! failed       any error of rustls     -  (the alert is among the bytes to be sent)
//! ```

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic};

use super::error::TlsError;
use super::trust::{Protocol, Witness, names_of};
use crate::identity::Identity;
use crate::pin::Pin;

/// The most content of one record.
pub(crate) const RECORD_BYTES: usize = 16 << 10;
/// Room for one receive: a record with its overhead, and the beginning of the next.
const RECEIVE_BYTES: usize = 20 << 10;
/// Less room than this is made more.
const ROOM_BYTES_MIN: usize = 2 << 10;
/// Most bytes received in a row without any content, and so most that wait for the rest of a
/// message. A message of a handshake has 64 KiB at most.
const EMPTY_BYTES_MAX: usize = 128 << 10;
/// The room in which a message of a handshake is tried to be encoded.
const MESSAGE_BYTES: usize = 1 << 10;
/// The error if bytes cannot be sealed: the keys were used for too many records.
const UNSEALED: rustls::Error = rustls::Error::EncryptError;
/// The overhead of a record: header, type and tag.
const OVERHEAD_BYTES: usize = 5 + 1 + 16;

thread_local! {
    /// A buffer for the next receive of this thread, by any connection.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Keeps a buffer for the next receive of this thread, if it is of the usual size.
fn spare(mut bytes: Vec<u8>) {
    if (ROOM_BYTES_MIN..=2 * RECEIVE_BYTES).contains(&bytes.capacity()) {
        bytes.clear();
        // A thread that ends keeps none.
        let _ = SPARE.try_with(|kept| kept.set(bytes));
    }
}

/// One side of a connection.
enum Side {
    Client(Box<UnbufferedClientConnection>, Arc<Witness>, Protocol),
    Server(Box<UnbufferedServerConnection>),
}

/// Bytes that are appended at the back and taken from the front.
#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    start: usize,
}

/// The state of one TLS connection.
pub(crate) struct Machine {
    side: Side,
    pipes: Pipes,
    /// Content that was opened and not read.
    content: Queue,
    /// True if names in the peer's certificate were verified.
    trusts_names: bool,
    /// Bytes received since the last content.
    empty_bytes: usize,
    failed: Option<TlsError>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("pipes", &self.pipes)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// The sealed bytes of both directions.
#[derive(Debug, Default)]
struct Pipes {
    input: Queue,
    output: Queue,
    is_established: bool,
    is_peer_closed: bool,
    is_closed: bool,
}

/// A connection of rustls, of either side.
trait Process {
    type Data;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    /// True if messages wait to be encoded.
    fn has_messages(&self) -> bool;
}

impl Process for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
    fn has_messages(&self) -> bool {
        self.wants_write()
    }
}

impl Process for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
    fn has_messages(&self) -> bool {
        self.wants_write()
    }
}

/// The bytes to be sealed at the next opportunity.
#[derive(Clone, Copy)]
enum Seal<'b> {
    Nothing,
    Content(&'b [u8]),
    Close,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Takes bytes from the front. An empty queue gives its memory back.
    fn take(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = Queue::default();
        }
    }

    /// Moves the rest to the front.
    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    /// Appends the bytes that `fill` writes into room of at least `room` bytes. It is asked again
    /// with more if it says how much it needs.
    fn append<E>(
        &mut self,
        room: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<usize, E>,
        needed: impl Fn(&E) -> Option<usize>,
    ) -> Result<(), E> {
        let (end, mut room) = (self.bytes.len(), room);
        loop {
            self.bytes.resize(end + room, 0);
            match fill(&mut self.bytes[end..]) {
                Ok(count) => {
                    self.bytes.truncate(end + count);
                    return Ok(());
                }
                Err(error) => match needed(&error) {
                    Some(more) if more > room => room = more,
                    _ => {
                        self.bytes.truncate(end);
                        return Err(error);
                    }
                },
            }
        }
    }
}

/// Returns the room that a message of a handshake needs, if it was too little.
fn needed(error: &EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(size) => Some(size.required_size),
        EncodeError::AlreadyEncoded => None,
    }
}

impl Pipes {
    fn seal<D>(&mut self, traffic: &mut WriteTraffic<'_, D>, seal: Seal<'_>) -> Result<(), rustls::Error> {
        let needed = |error: &EncryptError| match error {
            EncryptError::InsufficientSize(size) => Some(size.required_size),
            EncryptError::EncryptExhausted => None,
        };
        let sealed = match seal {
            Seal::Nothing => return Ok(()),
            Seal::Content(bytes) => {
                let room = bytes.len() + OVERHEAD_BYTES;
                self.output.append(room, |room| traffic.encrypt(bytes, room), needed)
            }
            Seal::Close => {
                self.is_closed = true;
                self.output.append(64, |room| traffic.queue_close_notify(room), needed)
            }
        };
        sealed.map_err(|_| UNSEALED)
    }

    /// Works off the input, hands out content, and seals `seal` if the state allows it. Returns
    /// true if it was sealed.
    fn work<S: Process>(
        &mut self,
        session: &mut S,
        mut seal: Seal<'_>,
        mut opened: impl FnMut(&[u8]),
    ) -> Result<bool, rustls::Error> {
        let mut was_sealed = false;
        loop {
            let UnbufferedStatus { mut discard, state } =
                session.process(&mut self.input.bytes[self.input.start..]);
            let mut goes_on = true;
            let outcome = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    let mut outcome = Ok(());
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                opened(record.payload);
                            }
                            Err(error) => outcome = Err(error),
                        }
                    }
                    outcome
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    self.output.append(MESSAGE_BYTES, |room| data.encode(room), needed).map_err(|_| UNSEALED)
                }
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Ok(())
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.is_peer_closed = true;
                    Ok(())
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    self.is_established = true;
                    goes_on = !matches!(seal, Seal::Nothing);
                    was_sealed |= goes_on;
                    self.seal(&mut traffic, std::mem::replace(&mut seal, Seal::Nothing))
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::Closed) => {
                    goes_on = false;
                    Ok(())
                }
                // No early data is offered or accepted, and no other state is documented.
                Ok(_) => Err(rustls::Error::General("an unknown state".to_owned())),
                Err(error) => Err(error),
            };
            self.input.start += discard;
            if self.input.is_empty() {
                spare(std::mem::take(&mut self.input).bytes);
            }
            outcome?;
            if !goes_on {
                return Ok(was_sealed);
            }
        }
    }

    /// Adds the alert of a failure to the output. The record at fault is not processed again, which
    /// would be a fault of ours.
    fn add_alert<S: Process>(&mut self, session: &mut S) {
        while session.has_messages() {
            let status = session.process(&mut self.input.bytes[self.input.start..]);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state else { return };
            if self.output.append(MESSAGE_BYTES, |room| data.encode(room), needed).is_err() {
                return;
            }
        }
    }
}

impl Machine {
    /// Makes a client's side; its first message is to be sent.
    pub(crate) fn client(
        connection: UnbufferedClientConnection,
        witness: Arc<Witness>,
        protocol: Protocol,
    ) -> Machine {
        let trusts_names = witness.trusts_names();
        Machine::new(Side::Client(Box::new(connection), witness, protocol), trusts_names)
    }

    /// Makes a server's side. `trusts_names` is true if an authority signs all certificates of
    /// clients.
    pub(crate) fn server(connection: UnbufferedServerConnection, trusts_names: bool) -> Machine {
        Machine::new(Side::Server(Box::new(connection)), trusts_names)
    }

    fn new(side: Side, trusts_names: bool) -> Machine {
        let (pipes, content) = (Pipes::default(), Queue::default());
        let mut machine = Machine { side, pipes, content, trusts_names, empty_bytes: 0, failed: None };
        // A failure is found by the first use.
        let _ = machine.work(Seal::Nothing, &mut Vec::new(), 0);
        machine
    }

    /// Works off the input. Appends at most `limit` bytes of content to `into`, and keeps the rest.
    fn work(&mut self, seal: Seal<'_>, into: &mut Vec<u8>, limit: usize) -> Result<bool, TlsError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let Machine { side, pipes, content, empty_bytes, .. } = self;
        let end = into.len().saturating_add(limit);
        let opened = |bytes: &[u8]| {
            if !bytes.is_empty() {
                *empty_bytes = 0;
            }
            let room = if content.is_empty() { end - into.len() } else { 0 };
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            into.extend_from_slice(now);
            content.bytes.extend_from_slice(later);
        };
        let worked = match side {
            Side::Client(session, ..) => pipes.work(&mut **session, seal, opened),
            Side::Server(session) => pipes.work(&mut **session, seal, opened),
        };
        match worked {
            Ok(sealed) => {
                self.check_protocol()?;
                Ok(sealed)
            }
            Err(error) => {
                match side {
                    Side::Client(session, ..) => pipes.add_alert(&mut **session),
                    Side::Server(session) => pipes.add_alert(&mut **session),
                }
                let (host, expected, seen) = match side {
                    Side::Client(_, witness, _) => (witness.host(), witness.expected(), witness.seen()),
                    Side::Server(_) => ("", None, None),
                };
                let error = TlsError::new(error, host, expected, seen);
                Err(self.fail(error))
            }
        }
    }

    /// Checks that a server has agreed to the protocol: other kinds of servers leave it out.
    fn check_protocol(&mut self) -> Result<(), TlsError> {
        match &self.side {
            // Servers of the web may agree to none.
            Side::Client(session, _, Protocol::Bifrost)
                if self.pipes.is_established && session.alpn_protocol() != Some(Protocol::Bifrost.name()) =>
            {
                Err(self.fail(TlsError::NotBifrost))
            }
            _ => Ok(()),
        }
    }

    /// Notes a failure: all later uses say the same.
    pub(crate) fn fail(&mut self, error: TlsError) -> TlsError {
        self.failed.get_or_insert(error).clone()
    }

    /// Returns the failure, if there was one.
    pub(crate) fn failed(&self) -> Option<&TlsError> {
        self.failed.as_ref()
    }

    /// True if the handshake is over.
    pub(crate) fn is_established(&self) -> bool {
        self.pipes.is_established
    }

    /// True if the peer has said that it sends no more.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.pipes.is_peer_closed
    }

    /// Appends content that was opened before, at most `limit` bytes, and returns their number.
    pub(crate) fn take_content(&mut self, into: &mut Vec<u8>, limit: usize) -> usize {
        let rest = self.content.rest();
        let count = rest.len().min(limit);
        into.extend_from_slice(&rest[..count]);
        self.content.take(count);
        count
    }

    /// True if there is content that was not read.
    pub(crate) fn has_content(&self) -> bool {
        !self.content.is_empty()
    }

    /// Returns the buffer to which received bytes are to be appended, with room.
    pub(crate) fn room(&mut self) -> Result<&mut Vec<u8>, TlsError> {
        if self.pipes.input.bytes.len() - self.pipes.input.start >= EMPTY_BYTES_MAX {
            return Err(self.fail(TlsError::Empty { limit: EMPTY_BYTES_MAX }));
        }
        let input = &mut self.pipes.input;
        input.compact();
        if input.bytes.capacity() == 0 {
            input.bytes = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        if input.bytes.capacity() - input.bytes.len() < ROOM_BYTES_MIN {
            input.bytes.reserve_exact(RECEIVE_BYTES);
        }
        Ok(&mut input.bytes)
    }

    /// Works off received bytes, of which the last `count` are new. Appends at most `limit` bytes
    /// of content to `into`, and returns their number.
    pub(crate) fn receive(
        &mut self,
        count: usize,
        into: &mut Vec<u8>,
        limit: usize,
    ) -> Result<usize, TlsError> {
        self.empty_bytes += count;
        let before = into.len();
        let worked = self.work(Seal::Nothing, into, limit);
        // Content before a failure is read first; the failure stays.
        if into.len() == before {
            worked?;
            if self.empty_bytes > EMPTY_BYTES_MAX {
                return Err(self.fail(TlsError::Empty { limit: EMPTY_BYTES_MAX }));
            }
        }
        Ok(into.len() - before)
    }

    /// Gives the memory of the input back as far as it has no bytes.
    pub(crate) fn release_input(&mut self) {
        let input = &mut self.pipes.input;
        input.compact();
        match input.is_empty() {
            true => spare(std::mem::take(&mut input.bytes)),
            false => input.bytes.shrink_to_fit(),
        }
    }

    /// Seals content, at most [`RECORD_BYTES`]. False if the handshake is not over.
    pub(crate) fn seal(&mut self, bytes: &[u8]) -> Result<bool, TlsError> {
        self.work(Seal::Content(bytes), &mut Vec::new(), 0)
    }

    /// Seals the last word, once, if the handshake is over.
    pub(crate) fn close(&mut self) {
        if self.pipes.is_established && !self.pipes.is_closed && self.failed.is_none() {
            let _ = self.work(Seal::Close, &mut Vec::new(), 0);
        }
    }

    /// Returns the bytes to be sent.
    pub(crate) fn output(&self) -> &[u8] {
        self.pipes.output.rest()
    }

    /// Notes that bytes of the output were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.pipes.output.take(count);
    }

    /// Drops the output: nobody receives it.
    pub(crate) fn drop_output(&mut self) {
        self.pipes.output = Queue::default();
    }

    /// Returns the peer's proof about itself, once the handshake is over.
    pub(crate) fn identity(&self) -> Identity {
        let certificates = match &self.side {
            Side::Client(session, ..) => session.peer_certificates(),
            Side::Server(session) => session.peer_certificates(),
        };
        let own = certificates.and_then(|chain| chain.first()).filter(|_| self.is_established());
        let Some((certificate, pin)) = own.and_then(|one| Some((one, Pin::of(one)?))) else {
            return Identity::None;
        };
        let names = if self.trusts_names { names_of(certificate) } else { Vec::new() };
        Identity::Certificate { names, pin: pin.to_string() }
    }
}
