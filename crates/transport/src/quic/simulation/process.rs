//! [`Process`]: an endpoint of QUIC with its links, driven as `Port`, `Receiver` and `Wired` do.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, EcnCodepoint,
    Endpoint, Incoming, InvalidCid, ServerConfig, StreamId, Transmit,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::link::Link;
use super::super::open::Bell;
use super::super::settings;
use super::truth::Truth;

/// The time of a world: microseconds after a moment.
#[derive(Clone, Copy)]
pub(super) struct Clock(pub Instant);

impl Clock {
    pub(super) fn at(self, micros: u64) -> Instant {
        self.0 + Duration::from_micros(micros)
    }

    /// The first microsecond that is not before a moment.
    pub(super) fn micros(self, at: Instant) -> u64 {
        at.saturating_duration_since(self.0).as_nanos().div_ceil(1000) as u64
    }
}

/// A datagram.
#[derive(Clone)]
pub(super) struct Packet {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub ecn: Option<EcnCodepoint>,
    pub bytes: Vec<u8>,
}

/// A connection of a process.
pub(super) struct Conn {
    pub handle: ConnectionHandle,
    pub link: Link,
    /// The address of the peer.
    remote: SocketAddr,
    began: u64,
    /// The same on both sides, once the handshake is over.
    pub name: Option<u64>,
    /// True if packets may be due.
    pub touched: bool,
}

pub(super) type Shared = Rc<RefCell<Conn>>;

impl Conn {
    /// Ends the handshake, as `Wired::look` does.
    fn look(&mut self) {
        if self.name.is_none() && self.link.is_established() {
            let mut name = [0; 8];
            let session = self.link.connection().crypto_session();
            if session.export_keying_material(&mut name, b"EXPORTER-simulation", b"").is_ok() {
                self.name = Some(u64::from_le_bytes(name));
            }
        }
    }
}

/// Names of connections, as `HashedConnectionIdGenerator` makes them, from a seed.
struct Names {
    key: u64,
    random: fastrand::Rng,
}

const NONCE: usize = 3;

impl ConnectionIdGenerator for Names {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes[..NONCE]);
        let hash = xxh3_64_with_seed(&bytes[..NONCE], self.key).to_le_bytes();
        bytes[NONCE..].copy_from_slice(&hash[..8 - NONCE]);
        ConnectionId::new(&bytes)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let hash = xxh3_64_with_seed(&id[..NONCE], self.key).to_le_bytes();
        if id[NONCE..] == hash[..8 - NONCE] { Ok(()) } else { Err(InvalidCid) }
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The random parts of an endpoint.
#[derive(Clone, Copy)]
pub(super) struct Seeds {
    /// Those of the place: a process that starts again has them, too.
    pub key: u64,
    pub incarnation: u64,
}

/// Makes an endpoint: with the product's settings, and random numbers from a seed.
pub(super) fn endpoint(seeds: Seeds, server: Option<Arc<ServerConfig>>) -> Endpoint {
    let mut random = fastrand::Rng::with_seed(seeds.key);
    let mut key = [0; 32];
    random.fill(&mut key);
    let mut config = (*settings::endpoint(Some(&key))).clone();
    let names = if server.is_some() { seeds.key } else { seeds.incarnation };
    config.cid_generator(move || {
        let random = fastrand::Rng::with_seed(seeds.incarnation ^ 0x6e61_6d65);
        Box::new(Names { key: names, random })
    });
    let mut random = fastrand::Rng::with_seed(seeds.incarnation);
    let mut seed = [0; 32];
    random.fill(&mut seed);
    Endpoint::new(Arc::new(config), server, true, Some(seed))
}

/// A process with one socket.
pub(super) struct Process {
    pub clock: Clock,
    pub address: SocketAddr,
    pub endpoint: Endpoint,
    pub conns: BTreeMap<usize, Shared>,
    /// The buffer of its socket.
    pub mailbox: VecDeque<Packet>,
    /// True if clients must prove their addresses.
    pub proves: bool,
    pub sent: Vec<Packet>,
    /// Streams that clients have opened.
    pub accepted: Vec<(Shared, StreamId)>,
    /// The addresses of paths that have begun, and whether the connection has moved there.
    pub paths: Vec<(SocketAddr, bool)>,
    config: Option<Arc<ServerConfig>>,
    buffer: Vec<u8>,
}

/// The time of a handshake with a listener, and that of a client, which then connects again.
const HANDSHAKE: u64 = 5_000_000;
const CONNECT: u64 = 10_000_000;
/// The datagrams that a socket keeps for a process that is stopped.
const MAILBOX: usize = 256;
/// Packets that are given to the system at a time, and the bytes that it takes.
const SEGMENTS: usize = 64;
const DATAGRAM: usize = 65_507;

impl Process {
    pub(super) fn new(
        clock: Clock,
        address: SocketAddr,
        seeds: Seeds,
        server: Option<Arc<ServerConfig>>,
    ) -> Process {
        Process {
            clock,
            address,
            endpoint: endpoint(seeds, server.clone()),
            conns: BTreeMap::new(),
            mailbox: VecDeque::new(),
            proves: false,
            sent: Vec::new(),
            accepted: Vec::new(),
            paths: Vec::new(),
            config: server,
            buffer: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, packet: Packet) {
        if self.mailbox.len() < MAILBOX {
            self.mailbox.push_back(packet);
        }
    }

    fn respond(&mut self, transmit: &Transmit) {
        let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
        for bytes in self.buffer[..transmit.size].chunks(size) {
            let (from, to, ecn) = (self.address, transmit.destination, transmit.ecn);
            self.sent.push(Packet { from, to, ecn, bytes: bytes.to_vec() });
        }
    }

    fn wire(&mut self, now: u64, handle: ConnectionHandle, link: Link) -> Shared {
        let remote = link.connection().remote_address();
        self.paths.push((remote, false));
        let conn = Conn { handle, link, remote, began: now, name: None, touched: true };
        let shared = Rc::new(RefCell::new(conn));
        self.conns.insert(handle.0, shared.clone());
        shared
    }

    pub(super) fn connect(&mut self, now: u64, config: ClientConfig, to: SocketAddr) -> Option<Shared> {
        let at = self.clock.at(now);
        let (handle, connection) = self.endpoint.connect(at, config, to, "localhost").ok()?;
        Some(self.wire(now, handle, Link::new(connection, at)))
    }

    /// Takes the datagrams of the socket, as `Receiver::take` does.
    pub(super) fn receive(&mut self, now: u64, truth: &mut Truth) {
        let at = self.clock.at(now);
        while let Some(packet) = self.mailbox.pop_front() {
            self.buffer.clear();
            let bytes = BytesMut::from(&packet.bytes[..]);
            let event = self.endpoint.handle(at, packet.from, None, packet.ecn, bytes, &mut self.buffer);
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    let Some(conn) = self.conns.get(&handle.0) else { continue };
                    let mut conn = conn.borrow_mut();
                    conn.link.handle_event(at, event);
                    conn.touched = true;
                    let remote = conn.link.connection().remote_address();
                    if remote != conn.remote {
                        conn.remote = remote;
                        self.paths.push((remote, true));
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => self.greet(now, incoming),
                Some(DatagramEvent::Response(transmit)) => {
                    truth.seen.resets += 1;
                    self.respond(&transmit);
                }
                None => {}
            }
        }
    }

    fn greet(&mut self, now: u64, incoming: Incoming) {
        self.buffer.clear();
        if self.proves && !incoming.remote_address_validated() {
            if let Ok(transmit) = self.endpoint.retry(incoming, &mut self.buffer) {
                self.respond(&transmit);
            }
            return;
        }
        let at = self.clock.at(now);
        match self.endpoint.accept(incoming, at, &mut self.buffer, self.config.clone()) {
            Ok((handle, connection)) => {
                self.wire(now, handle, Link::new(connection, at));
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.respond(&transmit);
                }
            }
        }
    }

    fn handshake_end(&self, conn: &Conn) -> Option<u64> {
        let is_greeting = !conn.link.is_established() && conn.link.lost().is_none();
        let time = if self.config.is_some() { HANDSHAKE } else { CONNECT };
        is_greeting.then_some(conn.began + time)
    }

    /// The time at which something is due.
    pub(super) fn due(&self) -> Option<u64> {
        let due = |shared: &Shared| {
            let mut conn = shared.borrow_mut();
            let end = self.handshake_end(&conn);
            [conn.link.poll_timeout().map(|at| self.clock.micros(at)), end].into_iter().flatten().min()
        };
        self.conns.values().filter_map(due).min()
    }

    /// Runs expired timers, as `Receiver::expire` does.
    pub(super) fn expire(&mut self, now: u64) {
        let at = self.clock.at(now);
        for shared in self.conns.values() {
            let mut conn = shared.borrow_mut();
            if self.handshake_end(&conn).is_some_and(|end| end <= now) {
                conn.link.end(at, 0, "the handshake took too long");
                conn.touched = true;
            }
            if conn.link.poll_timeout().is_some_and(|due| due <= at) {
                conn.link.handle_timeout(at);
                // A path that could not be proved is left.
                conn.remote = conn.link.connection().remote_address();
                conn.touched = true;
            }
        }
    }

    /// Sends what is due, as `Wired::pump` does, and lets go of links of which nothing is left.
    pub(super) fn pump(&mut self, now: u64) {
        let at = self.clock.at(now);
        let all: Vec<Shared> = self.conns.values().cloned().collect();
        for shared in all {
            let mut conn = shared.borrow_mut();
            if !std::mem::take(&mut conn.touched) {
                continue;
            }
            loop {
                conn.link.settle(at);
                while let Some(event) = conn.link.poll_endpoint_event() {
                    if let Some(answer) = self.endpoint.handle_event(conn.handle, event) {
                        conn.link.handle_endpoint(answer);
                    }
                }
                self.buffer.clear();
                let Some(transmit) = conn.link.poll_transmit(at, SEGMENTS, &mut self.buffer) else { break };
                assert!(transmit.size <= DATAGRAM, "the system refuses {transmit:?}");
                self.respond(&transmit);
            }
            conn.look();
            while let Some(id) = conn.link.accept() {
                self.accepted.push((shared.clone(), id));
            }
            if conn.link.is_drained() {
                self.conns.remove(&conn.handle.0);
            }
        }
    }
}

/// True if a bell rings.
pub(super) fn rings(bell: &Bell) -> bool {
    let mut waited = [rustix::event::PollFd::new(&*bell.event, rustix::event::PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut waited, Some(&now)).is_ok_and(|count| count > 0)
}
