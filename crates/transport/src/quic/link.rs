//! [`Link`]: a connection of QUIC with its streams and their calls, without input or output.
//!
//! A session is a bidirectional stream, which the client opens. Bytes that arrive without a hole
//! before them go into the **inbox** of their stream, up to [`INBOX_BYTES`]; further bytes stay in
//! the connection, whose windows then hold the peer back. Messages of REX ([`bifrost_rex`]) are
//! datagrams of the connection.
//!
//! A server that ends a stream says in the code of STOP_SENDING how many bytes its session has
//! read. So a client knows whether its last call ran.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_rex::{Asking, Call, Message, Micros, Ran, Serving, Trip};
use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionError, ConnectionEvent, Dir, EndpointEvent, Event, FinishError, ReadError, Side,
    StreamEvent, StreamId, Transmit, VarInt, WriteError,
};

use rustc_hash::FxHashMap;

use super::asked;
use super::error::LinkError;
use super::open::{Bell, End, Open, Role};
use super::settings::{PING_EVERY, STREAMS_FIRST, STREAMS_MAX};
use crate::want::Want;

/// Bytes of a stream that are taken out of the connection before they are read.
pub(crate) const INBOX_BYTES: usize = 256 << 10;
/// The longest chunk that is taken out at once.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// The bytes of the longest datagram. The system takes no more in a call, with or without
/// segmentation: it refuses all of them, and they are lost.
const DATAGRAM_MAX: usize = 65_507;

/// True if a bug is planted here: by the simulation alone.
macro_rules! planted {
    ($bug:ident) => {{
        #[cfg(test)]
        let is_planted = super::planted::is_planted(super::planted::Bug::$bug);
        #[cfg(not(test))]
        let is_planted = false;
        is_planted
    }};
}

/// The reason why a stream takes or gives no bytes.
#[derive(Clone, Debug)]
pub(crate) enum Gone {
    /// The peer has ended the stream.
    Closed,
    /// The connection is lost.
    Lost(Arc<LinkError>, Ran),
}

/// A connection with its streams.
#[derive(Debug)]
pub(crate) struct Link {
    connection: Connection,
    epoch: Instant,
    // Their numbers are counted: nobody can choose many that collide.
    streams: FxHashMap<StreamId, Open>,
    /// Streams of the peer that were not handed over.
    opened: Vec<StreamId>,
    /// Streams that the peer of a server may have open.
    allowed: u32,
    /// Streams that wait for an answer, and may ask.
    waiting: Vec<StreamId>,
    is_established: bool,
    lost: Option<Arc<LinkError>>,
    is_broken: bool,
    /// True if a window has moved so far that the peer must be told, with or without other packets.
    owes_room: bool,
    /// When the last packet of the peer arrived.
    heard: Instant,
    /// When the peer was asked last for a sign of life.
    pinged: Instant,
}

impl Link {
    pub(crate) fn new(connection: Connection, now: Instant) -> Link {
        Link {
            connection,
            epoch: now,
            streams: FxHashMap::default(),
            opened: Vec::new(),
            allowed: STREAMS_FIRST,
            waiting: Vec::new(),
            is_established: false,
            lost: None,
            is_broken: false,
            owes_room: false,
            heard: now,
            pinged: now,
        }
    }

    fn micros(&self, now: Instant) -> Micros {
        Micros(now.saturating_duration_since(self.epoch).as_micros() as u64)
    }

    fn trip(&self) -> Trip {
        let smoothed = self.connection.rtt().as_micros() as u64;
        Trip { smoothed, cautious: smoothed + smoothed / 2 + 1_000 }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// True once the handshake is over, until the connection is lost.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns the reason why the connection was lost.
    pub(crate) fn lost(&self) -> Option<&Arc<LinkError>> {
        self.lost.as_ref()
    }

    /// True if nothing of the connection is left, and its endpoint has been told so.
    pub(crate) fn is_drained(&self) -> bool {
        self.connection.is_drained()
    }

    /// Returns the number of its streams.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// True if no stream is open, and the peer has all bytes of those that were.
    pub(crate) fn is_unused(&mut self) -> bool {
        self.streams.is_empty() && self.is_delivered()
    }

    /// True if the peer has all bytes of the streams that were closed.
    pub(crate) fn is_delivered(&mut self) -> bool {
        self.lost.is_some() || self.connection.streams().send_streams() <= self.streams.len()
    }

    /// Returns the time of the last packet that arrived.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// Asks the peer for a sign of life.
    pub(crate) fn ping(&mut self, now: Instant) {
        self.pinged = now;
        self.connection.ping();
    }

    /// Takes an event of the endpoint: a packet, new connection ids.
    pub(crate) fn handle_event(&mut self, now: Instant, event: ConnectionEvent) {
        self.heard = now;
        self.connection.handle_event(event);
    }

    /// Returns the next event for the endpoint.
    pub(crate) fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.connection.poll_endpoint_events()
    }

    /// Takes the endpoint's answer to such an event.
    pub(crate) fn handle_endpoint(&mut self, event: ConnectionEvent) {
        self.connection.handle_event(event);
    }

    /// Returns the time at which [`Link::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let asks = self.waiting.iter().filter_map(|id| match &self.streams.get(id)?.role {
            Role::Client(asking) => asking.timeout(),
            Role::Server(_) => None,
        });
        let ask = asks.min().map(|at| self.epoch + Duration::from_micros(at.0));
        [self.connection.poll_timeout(), ask, self.next_ping()].into_iter().flatten().min()
    }

    /// Returns the time at which a client with streams asks a silent server for a sign of life.
    fn next_ping(&mut self) -> Option<Instant> {
        let pings = self.is_established && self.connection.side().is_client() && !self.is_unused();
        pings.then(|| self.heard.max(self.pinged) + PING_EVERY)
    }

    /// Runs expired timers: repeats packets, asks questions.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        if self.next_ping().is_some_and(|at| at <= now) {
            self.ping(now);
        }
        let micros = self.micros(now);
        for at in 0..self.waiting.len() {
            let id = self.waiting[at];
            if let Some(Open { role: Role::Client(asking), .. }) = self.streams.get_mut(&id)
                && let Some(question) = asking.ask(micros, id.into())
            {
                if planted!(AskedOnce) && asking.call(micros).is_some_and(|call| call.waited_us > 50_000) {
                    continue;
                }
                self.say(question);
            }
        }
        self.settle(now);
    }

    fn say(&mut self, message: Message) {
        self.say_bytes(message.write().into());
    }

    /// Sends a datagram of the connection.
    pub(crate) fn say_bytes(&mut self, bytes: Bytes) {
        // One that has no room takes the place of an older one, and a peer without datagrams is
        // asked nothing.
        let _ = self.connection.datagrams().send(bytes, true);
    }

    /// Returns the next packets to send: several for one call of the system, `datagrams_max` at
    /// most, as long as their bytes are no more than those of the longest datagram.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        into: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.owes_room = false;
        let datagrams_max =
            datagrams_max.min(DATAGRAM_MAX / usize::from(self.connection.current_mtu())).max(1);
        self.connection.poll_transmit(now, datagrams_max, into)
    }

    /// True if the peer may wait for room that a read has made: it has to be told with packets.
    pub(crate) fn owes_room(&self) -> bool {
        self.owes_room
    }

    /// Handles the events of the connection, and rings the bells of streams with a waiting user.
    pub(crate) fn settle(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::HandshakeDataReady | Event::DatagramsUnblocked => {}
                Event::Connected => self.is_established = true,
                Event::ConnectionLost { reason } => self.lose(reason),
                Event::DatagramReceived => self.hear(now),
                Event::Stream(event) => self.on_stream(now, event),
            }
        }
    }

    fn lose(&mut self, reason: ConnectionError) {
        self.lose_by(LinkError::new(reason));
    }

    /// Ends the connection after a fault of this program in it: nothing touches it again.
    pub(crate) fn break_off(&mut self) {
        self.is_broken = true;
        self.lose_by(LinkError::Fault);
    }

    /// True if a fault of this program has ended it.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn lose_by(&mut self, reason: LinkError) {
        self.is_established = false;
        self.lost.get_or_insert_with(|| Arc::new(reason));
        if !planted!(NoBellOnLoss) {
            self.streams.values_mut().for_each(Open::ring);
        }
    }

    fn on_stream(&mut self, now: Instant, event: StreamEvent) {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => self.take_opened(),
            StreamEvent::Readable { id } => self.pull(now, id),
            StreamEvent::Writable { id } => {
                if let Some(open) = self.streams.get_mut(&id) {
                    open.is_full = false;
                    if !planted!(NoBellForRoom) {
                        open.ring();
                    }
                }
            }
            StreamEvent::Stopped { id, error_code } => {
                if let Some(open) = self.streams.get_mut(&id) {
                    open.stopped = Some(error_code.into_inner());
                    open.ring();
                } else {
                    // The event of its opening may come after this one.
                    self.take_opened();
                    self.abandon(id, error_code);
                }
            }
            // There are no others, and nobody waits for the acknowledgement of an end.
            StreamEvent::Opened { dir: Dir::Uni }
            | StreamEvent::Finished { .. }
            | StreamEvent::Available { .. } => {}
        }
    }

    /// Takes the streams that the client has opened.
    fn take_opened(&mut self) {
        while let Some(id) = self.connection.streams().accept(Dir::Bi) {
            self.opened.push(id);
        }
        self.allow();
    }

    /// Gives up the bytes of a stream that the peer takes no more: they would wait for ever, and
    /// take room from other streams.
    fn abandon(&mut self, id: StreamId, code: VarInt) {
        if !planted!(StoppedKept) {
            // The stream may be over.
            let _ = self.connection.send_stream(id).reset(code);
        }
    }

    /// Lets the client have twice as many streams, once it has half of those that it may.
    fn allow(&mut self) {
        let used = self.streams.len() + self.opened.len();
        while self.allowed < STREAMS_MAX && 2 * used >= self.allowed as usize {
            self.allowed = (2 * self.allowed).min(STREAMS_MAX);
            self.connection.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(self.allowed));
        }
    }

    /// Takes the datagrams that have arrived.
    fn hear(&mut self, now: Instant) {
        let micros = self.micros(now);
        while let Some(bytes) = self.connection.datagrams().recv() {
            let stream = |link: &Link, number: u64| {
                let id = VarInt::from_u64(number).ok().map(StreamId::from);
                id.filter(|id| link.streams.contains_key(id))
            };
            match Message::read(&bytes) {
                Some(Message::Ask { stream: number, start, end }) => {
                    let Some(id) = stream(self, number) else { continue };
                    if let Some(Open { role: Role::Server(serving), .. }) = self.streams.get(&id) {
                        let answer = serving.answer(micros, number, start, end);
                        #[cfg(test)]
                        let answer = super::planted::answer(answer);
                        if let Message::State { state, .. } = answer {
                            asked::note(state);
                        }
                        self.say(answer);
                    }
                }
                Some(Message::State { stream: number, start, end, state, before, ms }) => {
                    let Some(mut id) = stream(self, number) else { continue };
                    if planted!(StateOfAnother) {
                        id = self.waiting.first().copied().unwrap_or(id);
                    }
                    if let Some(Open { role: Role::Client(asking), .. }) = self.streams.get_mut(&id) {
                        let mut bytes = start..end;
                        match asking.call(micros) {
                            Some(call) if planted!(StateOfEarlier) => bytes.start = call.bytes.start,
                            Some(call) if planted!(StateOfPart) => bytes.end = call.bytes.end,
                            _ => {}
                        }
                        asking.on_state(bytes, state, before, ms);
                    }
                }
                None => {}
            }
        }
    }

    /// Moves bytes of a stream into its inbox, if there is room.
    fn pull(&mut self, now: Instant, id: StreamId) {
        let micros = self.micros(now);
        let trip = self.trip();
        let Some(open) = self.streams.get_mut(&id).filter(|_| !self.is_broken) else { return };
        if open.end.is_some() || (open.inbox_bytes >= INBOX_BYTES && !planted!(InboxUnlimited)) {
            return;
        }
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let before = open.inbox_bytes;
        while open.inbox_bytes < INBOX_BYTES || planted!(InboxUnlimited) {
            match chunks.next(CHUNK_BYTES) {
                Ok(Some(chunk)) => {
                    open.inbox_bytes += chunk.bytes.len();
                    open.inbox.push_back(chunk.bytes);
                }
                Ok(None) => {
                    open.end = Some(End::Finished);
                    break;
                }
                Err(ReadError::Reset(_)) => {
                    open.end = Some(End::Reset);
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        self.owes_room |= chunks.finalize().should_transmit();
        let arrived = open.inbox_bytes - before;
        if arrived > 0 {
            match &mut open.role {
                Role::Client(asking) => {
                    asking.on_bytes(micros, trip);
                    if asking.timeout().is_none() && !planted!(WaitsForEver) {
                        self.waiting.retain(|waiting| *waiting != id);
                    }
                }
                Role::Server(serving) => serving.on_arrived(arrived),
            }
        }
        if (arrived > 0 && !planted!(NoBellForBytes)) || open.end.is_some() {
            open.ring();
        }
    }

    /// Opens a stream; `None` if the peer allows no more.
    pub(crate) fn open(&mut self, bell: Arc<Bell>) -> Option<StreamId> {
        let id = self.connection.streams().open(Dir::Bi)?;
        self.enter(id, bell);
        Some(id)
    }

    /// Returns a stream that the peer has opened.
    pub(crate) fn accept(&mut self) -> Option<StreamId> {
        if self.opened.is_empty() { None } else { Some(self.opened.remove(0)) }
    }

    /// Gives a stream a user.
    pub(crate) fn enter(&mut self, id: StreamId, bell: Arc<Bell>) {
        let role = match self.connection.side() {
            Side::Client => Role::Client(Asking::default()),
            Side::Server => Role::Server(Serving::default()),
        };
        let (inbox, inbox_bytes, end, stopped) = (VecDeque::new(), 0, None, None);
        let (is_armed, is_rung, is_full, written) = (false, false, false, 0);
        let open = Open { bell, is_armed, is_rung, is_full, inbox, inbox_bytes, end, stopped, written, role };
        self.streams.insert(id, open);
        if self.connection.side().is_server() {
            self.allow();
        }
    }

    /// Appends bytes that are there to `into`, `limit` at most. `Some(0)`: the end. `None`: nothing
    /// is there now, and the bell will ring.
    ///
    /// # Errors
    /// The connection is lost, and all that had arrived was read.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        id: StreamId,
        into: &mut Vec<u8>,
        limit: usize,
    ) -> Result<Option<usize>, Gone> {
        let micros = self.micros(now);
        let open = self.streams.get_mut(&id).ok_or(Gone::Closed)?;
        open.hush();
        if open.inbox.is_empty() {
            self.pull(now, id);
        }
        let open = self.streams.get_mut(&id).ok_or(Gone::Closed)?;
        let mut count = 0;
        if planted!(EndTooEarly) && open.end.is_some() {
            open.inbox.clear();
            open.inbox_bytes = 0;
        }
        while let Some(mut bytes) = open.inbox.pop_front() {
            if bytes.len() > limit - count {
                let taken = bytes.split_to(limit - count);
                into.extend_from_slice(&taken);
                open.inbox.push_front(bytes);
                count = limit;
                break;
            }
            into.extend_from_slice(&bytes);
            count += bytes.len();
        }
        open.inbox_bytes -= count;
        if count > 0 {
            open.is_armed = false;
            if let Role::Server(serving) = &mut open.role {
                serving.on_read(micros, count);
            }
            return Ok(Some(count));
        }
        match (open.end, &self.lost) {
            (Some(end), _) => match &open.role {
                // A client that waits for an answer learns whether its call ran.
                Role::Client(asking) if asking.timeout().is_some() => {
                    let why = LinkError::Ended("the server has ended the session".to_owned());
                    Err(Gone::Lost(Arc::new(why), self.ran(id)))
                }
                _ if end == End::Finished => Ok(Some(0)),
                _ => Err(Gone::Closed),
            },
            (None, Some(_)) => Err(self.gone(id)),
            (None, None) => {
                open.is_armed = true;
                Ok(None)
            }
        }
    }

    /// The reason why a stream of a lost connection is gone.
    fn gone(&self, id: StreamId) -> Gone {
        match &self.lost {
            Some(why) => Gone::Lost(why.clone(), self.ran(id)),
            None => Gone::Closed,
        }
    }

    /// Tells whether the last call of a client's stream has run, now that it is lost.
    fn ran(&self, id: StreamId) -> Ran {
        let Some(open) = self.streams.get(&id) else { return Ran::Unknown };
        match &open.role {
            // Without a handshake no byte of a stream has left.
            Role::Client(asking) => {
                let has_left = open.written > 0 && self.was_established();
                if open.stopped.is_some() && planted!(StopMeansNo) {
                    return Ran::No;
                }
                if self.lost.is_some() && planted!(LossMeansNo) {
                    return Ran::No;
                }
                asking.ran(has_left, open.stopped)
            }
            Role::Server(_) => Ran::Unknown,
        }
    }

    fn was_established(&self) -> bool {
        self.is_established || !self.connection.is_handshaking()
    }

    /// Takes bytes for which there is room; 0 if there is none, and the bell will ring.
    ///
    /// # Errors
    /// The peer takes no more, or the connection is lost.
    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, Gone> {
        if self.lost.is_some() {
            return Err(self.gone(id));
        }
        let open = self.streams.get_mut(&id).ok_or(Gone::Closed)?;
        match self.connection.send_stream(id).write(bytes) {
            Ok(count) => {
                open.written += count as u64;
                if let Role::Server(serving) = &mut open.role {
                    serving.on_written();
                }
                if count < bytes.len() {
                    (open.is_armed, open.is_full) = (true, true);
                }
                Ok(count)
            }
            Err(WriteError::Blocked) => {
                (open.is_armed, open.is_full) = (true, true);
                Ok(0)
            }
            Err(WriteError::Stopped(code)) => {
                open.stopped.get_or_insert(code.into_inner());
                Err(Gone::Closed)
            }
            Err(WriteError::ClosedStream) => Err(Gone::Closed),
        }
    }

    /// Notes that all bytes before this were flushed: those of a client are a call, and it waits.
    pub(crate) fn flush(&mut self, now: Instant, id: StreamId) {
        let (micros, trip) = (self.micros(now), self.trip());
        let Some(open) = self.streams.get_mut(&id) else { return };
        if let Role::Client(asking) = &mut open.role {
            asking.on_flush(micros, open.written, trip);
            if asking.timeout().is_some() && !self.waiting.contains(&id) {
                self.waiting.push(id);
            }
        }
    }

    /// True if the stream has bytes or room, as wanted, or an end. Otherwise the bell will ring.
    pub(crate) fn arm(&mut self, now: Instant, id: StreamId, want: Want) -> bool {
        self.pull(now, id);
        let is_lost = self.lost.is_some();
        let Some(open) = self.streams.get_mut(&id) else { return true };
        let bytes = !open.inbox.is_empty() || open.end.is_some();
        let is_ready = is_lost
            || match want {
                Want::Bytes => bytes,
                Want::Room => !open.is_full || open.stopped.is_some(),
                Want::Nothing => false,
            };
        open.hush();
        open.is_armed = !is_ready;
        is_ready
    }

    /// Says that nobody waits for the bell of a stream.
    pub(crate) fn disarm(&mut self, id: StreamId) {
        let Some(open) = self.streams.get_mut(&id) else { return };
        open.is_armed = false;
        open.hush();
    }

    /// True if a read of a stream gives something, or the end.
    pub(crate) fn is_ready(&self, id: StreamId) -> bool {
        let Some(open) = self.streams.get(&id) else { return true };
        self.lost.is_some() || !open.inbox.is_empty() || open.end.is_some()
    }

    /// True if nothing of the peer waits to be read.
    pub(crate) fn is_silent(&self, id: StreamId) -> bool {
        self.streams.get(&id).is_none_or(|open| open.inbox.is_empty() && open.end.is_none())
    }

    /// Returns the call that waits on a stream of a client.
    pub(crate) fn call(&self, now: Instant, id: StreamId) -> Option<Call> {
        match &self.streams.get(&id)?.role {
            Role::Client(asking) => asking.call(self.micros(now)),
            Role::Server(_) => None,
        }
    }

    /// Ends a stream: bytes that were written still arrive, and no more are read.
    pub(crate) fn close(&mut self, id: StreamId) {
        let Some(open) = self.streams.remove(&id) else { return };
        self.waiting.retain(|waiting| *waiting != id);
        let read = match &open.role {
            Role::Client(_) => 0,
            Role::Server(serving) if planted!(StopCountsArrived) => serving.read() + open.inbox_bytes as u64,
            Role::Server(serving) => serving.read(),
        };
        self.leave(id, read);
    }

    /// Ends a stream that was accepted, and got no user: nothing of it was read.
    pub(crate) fn refuse(&mut self, id: StreamId) {
        self.leave(id, 0);
    }

    fn leave(&mut self, id: StreamId, read: u64) {
        if self.is_broken {
            return;
        }
        if !planted!(NeverFinished) {
            match self.connection.send_stream(id).finish() {
                Ok(()) | Err(FinishError::ClosedStream) => {}
                Err(FinishError::Stopped(code)) => self.abandon(id, code),
            }
        }
        if planted!(NeverStopped) {
            return;
        }
        // It may have been read to its end.
        let _ = self.connection.recv_stream(id).stop(VarInt::from_u64(read).unwrap_or(VarInt::MAX));
    }

    /// Returns the bytes of a stream that have arrived and were not read.
    #[cfg(test)]
    pub(super) fn inbox_bytes(&self, id: StreamId) -> usize {
        self.streams.get(&id).map_or(0, |open| open.inbox_bytes)
    }

    /// Returns the streams that are said to wait for an answer.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> &[StreamId] {
        &self.waiting
    }

    /// Ends the connection.
    pub(crate) fn end(&mut self, now: Instant, code: u32, why: &'static str) {
        if self.is_broken {
            return;
        }
        self.connection.close(now, VarInt::from_u32(code), Bytes::from_static(why.as_bytes()));
        self.lose(ConnectionError::LocallyClosed);
    }
}
