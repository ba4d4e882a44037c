//! The body of the fuzz target `quic_datagrams`: a server and a client of QUIC without sockets, with
//! a clock and a network that the input rules. Datagrams are lost, repeated, late, changed and
//! forged; the client calls, ends and goes on as it likes, and sends any frames behind true keys.
//! An ordinary test (`random.rs`) runs it for a few seconds too.

#[path = "../common/hostile/mod.rs"]
#[allow(dead_code, reason = "its keys alone are used here")]
mod hostile;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use bifrost_rex::{CallState, Message, Ran};
use bifrost_transport::detached::{Detached, client_parameters, endpoint};
use bifrost_transport::{Clients, KeyFiles, TlsServer};
use bytes::BytesMut;
use hostile::keys::Changes;
use quinn_proto::{ConnectionHandle, DatagramEvent, Endpoint, StreamId};

/// Timers that may expire at one moment; more are a loop that does not end.
const EXPIRED_MAX: u32 = 1_000;
/// Datagrams that a side may send at one moment.
const SENT_MAX: usize = 10_000;
/// Connections that the server has at a time.
const LINKS_MAX: usize = 8;

/// Reads choices from bytes; zeros behind their end.
struct Choices<'d>(&'d [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn flip(&mut self) -> bool {
        self.byte() & 1 == 0
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    fn number(&mut self) -> u64 {
        let (bits, mantissa) = (self.byte() % 64, u64::from(self.byte()));
        mantissa << bits
    }
}

/// The bytes of a stream in both directions.
#[derive(Default)]
struct Conversation {
    /// Written by the client, and how many of them were flushed.
    asked: Vec<u8>,
    flushed: usize,
    /// The first byte of the last call.
    call: usize,
    waits: bool,
    read: usize,
    answered: Vec<u8>,
    heard: usize,
}

struct Side {
    endpoint: Endpoint,
    links: HashMap<ConnectionHandle, Detached>,
    address: SocketAddr,
    /// Datagrams to the other side, under way.
    sent: VecDeque<Vec<u8>>,
    /// True if it can send nothing, as with a full window of congestion.
    is_held: bool,
}

struct World {
    now: Instant,
    client: Side,
    server: Side,
    /// The connection of the client, on each side.
    own: ConnectionHandle,
    served: Option<ConnectionHandle>,
    changes: Arc<Mutex<Changes>>,
    streams: Vec<StreamId>,
    talks: HashMap<StreamId, Conversation>,
    /// True once the client has sent frames of its own.
    is_hostile: bool,
    exchanged: usize,
}

/// The certificate of the server, which is made once.
fn certificate() -> &'static TlsServer {
    static TLS: OnceLock<TlsServer> = OnceLock::new();
    TLS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let path = |name: &str| folder.path().join(name);
        let files = KeyFiles { certificate: path("cert.pem"), key: path("key.pem") };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        TlsServer::load(files, Clients::Any).unwrap()
    })
}

impl Side {
    fn new(endpoint: Endpoint, port: u16) -> Side {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Side { endpoint, links: HashMap::new(), address, sent: VecDeque::new(), is_held: false }
    }

    /// Takes a datagram, and sends the packets that are due. Returns a connection that begins.
    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Option<ConnectionHandle> {
        let mut answer = Vec::new();
        let bytes = BytesMut::from(datagram);
        let (mut touched, mut new) = (None, None);
        match self.endpoint.handle(now, from, None, None, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = self.links.get_mut(&handle) {
                    link.handle_event(now, event);
                    touched = Some(handle);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                answer.clear();
                if self.links.len() >= LINKS_MAX {
                    let transmit = self.endpoint.refuse(incoming, &mut answer);
                    self.sent.push_back(answer[..transmit.size].to_vec());
                } else {
                    match self.endpoint.accept(incoming, now, &mut answer, None) {
                        Ok((handle, connection)) => {
                            self.links.insert(handle, Detached::new(connection, now));
                            (touched, new) = (Some(handle), Some(handle));
                        }
                        Err(error) => {
                            self.sent.extend(error.response.map(|transmit| answer[..transmit.size].to_vec()));
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                // No stranger is answered with more than it sent.
                assert!(transmit.size <= datagram.len().max(1200), "{} bytes", transmit.size);
                self.sent.push_back(answer[..transmit.size].to_vec());
            }
            None => {}
        }
        if let Some(handle) = touched {
            self.pump(now, handle);
        }
        new
    }

    fn pump(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(link) = self.links.get_mut(&handle) else { return };
        if self.is_held {
            return link.settle(now);
        }
        let before = self.sent.len();
        let sent = &mut self.sent;
        link.pump(now, &mut self.endpoint, handle, |transmit, bytes| {
            assert!(sent.len() - before < SENT_MAX, "packets without end");
            sent.push_back(bytes[..transmit.size].to_vec());
        });
        if link.is_drained() {
            self.links.remove(&handle);
        }
    }

    fn expire(&mut self, now: Instant) {
        let handles: Vec<ConnectionHandle> = self.links.keys().copied().collect();
        for handle in handles {
            let mut expired = 0;
            while let Some(link) = self.links.get_mut(&handle)
                && link.poll_timeout().is_some_and(|at| at <= now)
            {
                link.handle_timeout(now);
                self.pump(now, handle);
                expired += 1;
                assert!(expired < EXPIRED_MAX, "timers without end");
            }
        }
    }
}

impl World {
    /// A client whose handshake is over, unless the network is bad from the beginning.
    fn new() -> World {
        let now = Instant::now();
        let changes = Arc::<Mutex<Changes>>::default();
        let mut config = hostile::config(changes.clone());
        config.transport_config(client_parameters());
        let mut client = Side::new(endpoint(None), 1);
        let server = Side::new(endpoint(Some(certificate())), 2);
        let (own, connection) =
            client.endpoint.connect(now, config, server.address, "localhost").expect("a connection");
        client.links.insert(own, Detached::new(connection, now));
        client.pump(now, own);
        let (streams, talks) = (Vec::new(), HashMap::new());
        let mut world = World {
            now,
            client,
            server,
            own,
            served: None,
            changes,
            streams,
            talks,
            is_hostile: false,
            exchanged: 0,
        };
        world.calm();
        world
    }

    /// Delivers all that is under way.
    fn calm(&mut self) {
        for _ in 0..100 {
            if self.client.sent.is_empty() && self.server.sent.is_empty() {
                return;
            }
            while self.deliver(true) {}
            while self.deliver(false) {}
        }
    }

    /// Delivers the next datagram of a direction.
    fn deliver(&mut self, to_server: bool) -> bool {
        let (from, to) = match to_server {
            true => (&mut self.client, &mut self.server),
            false => (&mut self.server, &mut self.client),
        };
        let Some(datagram) = from.sent.pop_front() else { return false };
        let new = to.receive(self.now, from.address, &datagram);
        if to_server && self.served.is_none() {
            self.served = new;
        }
        true
    }

    fn link(&mut self) -> Option<&mut Detached> {
        self.client.links.get_mut(&self.own)
    }

    fn served(&mut self) -> Option<&mut Detached> {
        self.server.links.get_mut(&self.served?)
    }

    /// The client writes to a stream, perhaps a new one.
    fn ask(&mut self, choices: &mut Choices<'_>) {
        let (now, own) = (self.now, self.own);
        let which = usize::from(choices.byte());
        let (length, flushes) =
            (usize::from(choices.byte()) * usize::from(choices.byte()), choices.byte() % 4);
        let known = self.streams.get(which % 8).copied();
        let Some(id) = known.or_else(|| self.link().and_then(Detached::open)) else { return };
        if known.is_none() {
            self.streams.push(id);
        }
        let talk = self.talks.entry(id).or_default();
        // Each byte is that of its place.
        let bytes: Vec<u8> = (talk.asked.len()..talk.asked.len() + length).map(|at| (at * 7) as u8).collect();
        let Some(link) = self.client.links.get_mut(&own) else { return };
        if let Ok(count) = link.write(id, &bytes) {
            talk.asked.extend_from_slice(&bytes[..count]);
        }
        if flushes > 0 && link.streams() > 0 {
            link.flush(now, id);
            if talk.asked.len() > talk.flushed {
                if !talk.waits {
                    talk.call = talk.flushed;
                }
                (talk.flushed, talk.waits) = (talk.asked.len(), true);
            }
            self.client.pump(now, own);
        }
    }

    /// The server reads from a stream, and answers.
    fn serve(&mut self, choices: &mut Choices<'_>) {
        let now = self.now;
        let (which, limit, answer) = (choices.byte(), choices.byte(), choices.byte());
        let Some(handle) = self.served else { return };
        let Some(link) = self.server.links.get_mut(&handle) else { return };
        while link.accept().is_some() {}
        let Some(id) = self.streams.get(usize::from(which) % self.streams.len().max(1)).copied() else {
            return;
        };
        let (mut bytes, limit) = (Vec::new(), 1 + usize::from(limit) * 64);
        let count = link.read(now, id, &mut bytes, limit);
        assert!(bytes.len() <= limit);
        if let Ok(Some(count)) = count {
            assert_eq!(count, bytes.len());
        }
        let talk = self.talks.entry(id).or_default();
        if !self.is_hostile {
            assert!(talk.asked[talk.read..].starts_with(&bytes), "other bytes than were written");
        }
        talk.read += bytes.len();
        self.exchanged += bytes.len();
        let said = vec![talk.answered.len() as u8; usize::from(answer)];
        if let Ok(count) = link.write(id, &said) {
            talk.answered.extend_from_slice(&said[..count]);
        }
        self.server.pump(now, handle);
    }

    /// The client reads the answers of a stream.
    fn hear(&mut self, choices: &mut Choices<'_>) {
        let (now, own) = (self.now, self.own);
        let which = usize::from(choices.byte());
        let Some(id) = self.streams.get(which % self.streams.len().max(1)).copied() else { return };
        let Some(link) = self.client.links.get_mut(&own) else { return };
        let mut bytes = Vec::new();
        let heard = link.read(now, id, &mut bytes, 1 << 16);
        let talk = self.talks.entry(id).or_default();
        if !self.is_hostile {
            assert!(talk.answered[talk.heard..].starts_with(&bytes), "other bytes than were answered");
            match heard {
                Err(Some(Ran::No)) => assert!(talk.read <= talk.call, "a call ran that did not"),
                Err(Some(Ran::Began)) => assert!(talk.read > talk.call, "a call did not run that did"),
                _ => {}
            }
        }
        talk.heard += bytes.len();
        self.exchanged += bytes.len();
        self.client.pump(now, own);
    }

    /// The states that a client was told are true.
    fn check(&mut self) {
        let now = self.now;
        let Some(link) = self.client.links.get(&self.own) else { return };
        for (id, talk) in &mut self.talks {
            let call = link.call(now, *id);
            talk.waits &= call.is_some();
            let Some(call) = call else { continue };
            assert!(call.bytes.start < call.bytes.end);
            if !self.is_hostile && link.lost().is_none() {
                assert_eq!(call.bytes, talk.call as u64..talk.flushed as u64);
                if call.state >= Some(CallState::Begun) {
                    assert!(talk.read > talk.call, "a call has begun that was not read");
                }
            }
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let (now, own) = (self.now, self.own);
        match choices.byte() % 20 {
            0 | 1 => self.ask(choices),
            2 | 3 => self.serve(choices),
            4 => self.hear(choices),
            5 => drop(self.deliver(true)),
            6 => drop(self.deliver(false)),
            7 => self.calm(),
            8 => {
                let bits = choices.byte() % 26;
                self.now += Duration::from_micros(u64::from(choices.byte()) << bits);
                self.client.expire(self.now);
                self.server.expire(self.now);
            }
            // To the next timer.
            9 => {
                let next = [&mut self.client, &mut self.server].into_iter().flat_map(|side| {
                    side.links.values_mut().filter_map(Detached::poll_timeout).collect::<Vec<_>>()
                });
                self.now = next.min().map_or(now, |at| at.max(now));
                self.client.expire(self.now);
                self.server.expire(self.now);
            }
            10 => drop(self.client.sent.pop_front()),
            11 => drop(self.server.sent.pop_front()),
            12 => {
                let side = if choices.flip() { &mut self.client } else { &mut self.server };
                if let Some(first) = side.sent.front().cloned() {
                    side.sent.push_back(first);
                }
            }
            13 => {
                let (at, bit) = (usize::from(choices.byte()) * 5, choices.byte() % 8);
                let side = if choices.flip() { &mut self.client } else { &mut self.server };
                if let Some(byte) = side.sent.front_mut().and_then(|first| first.get_mut(at)) {
                    *byte ^= 1 << bit;
                }
            }
            14 => {
                let side = if choices.flip() { &mut self.client } else { &mut self.server };
                let by = 1.min(side.sent.len());
                side.sent.rotate_left(by);
            }
            // Of a stranger.
            15 => {
                let count = usize::from(choices.byte());
                let mut datagram = choices.take(count);
                datagram.resize(datagram.len() + usize::from(choices.byte()) * 8, 0);
                self.server.receive(now, SocketAddr::from(([127, 0, 0, 9], 9)), &datagram);
            }
            // Any frames behind true keys.
            16 => {
                let count = usize::from(choices.byte()) % 100;
                let frames = choices.take(count);
                let filler = vec![0; frames.len() + 32];
                self.is_hostile = true;
                self.changes.lock().unwrap().frames.push_back(frames);
                if let Some(link) = self.link() {
                    link.say(filler);
                }
                self.client.pump(now, own);
            }
            // A message of REX, of any kind and to either side.
            17 => {
                let (to_server, is_ask) = (choices.flip(), choices.flip());
                let (stream, start) = (u64::from(choices.byte()) * 4, choices.number());
                let message = if is_ask {
                    Message::Ask { stream, start, end: start.saturating_add(choices.number()) }
                } else {
                    let state = CallState::ALL[usize::from(choices.byte()) % CallState::ALL.len()].0;
                    let end = choices.number();
                    Message::State { stream, start, end, state, before: choices.number() as u32, ms: 0 }
                };
                // A server that lies makes the client's knowledge void.
                self.is_hostile |= !to_server && !is_ask;
                if let Some(link) = if to_server { self.link() } else { self.served() } {
                    link.say(message.write());
                }
                self.client.pump(now, own);
                if let Some(handle) = self.served {
                    self.server.pump(now, handle);
                }
            }
            18 => {
                let (of_client, which) = (choices.flip(), usize::from(choices.byte()));
                let id = self.streams.get(which % self.streams.len().max(1)).copied();
                if let (Some(id), Some(link)) = (id, if of_client { self.link() } else { self.served() }) {
                    link.close(id);
                }
                if of_client && let Some(id) = id {
                    self.streams.retain(|known| *known != id);
                    self.talks.remove(&id);
                }
                self.client.pump(now, own);
                if let Some(handle) = self.served {
                    self.server.pump(now, handle);
                }
            }
            _ => {
                // Rarely: it ends all.
                if choices.byte() == 0xff
                    && let Some(link) = self.served()
                {
                    link.end(now);
                    if let Some(handle) = self.served {
                        self.server.pump(now, handle);
                    }
                }
            }
        }
    }
}

/// Plays a conversation over a network that the input rules; returns the bytes that were read.
pub fn quic_datagrams(data: &[u8]) -> usize {
    let mut world = World::new();
    let mut choices = Choices(data);
    while !choices.0.is_empty() {
        world.step(&mut choices);
        world.check();
    }
    world.exchanged
}

/// Asks so often while the server can send nothing; returns the bytes of all packets that it sends
/// then.
#[allow(dead_code, reason = "the fuzz target does not use it")]
pub fn bytes_for_questions(count: usize) -> usize {
    let mut world = World::new();
    // Writes to a stream, and has the server take it.
    world.ask(&mut Choices(&[0, 5, 5, 1]));
    world.calm();
    world.serve(&mut Choices(&[0, 100, 1]));
    world.calm();
    assert_eq!(world.exchanged, 25);
    world.server.is_held = true;
    for _ in 0..count {
        let link = world.link().expect("a connection");
        link.say(Message::Ask { stream: 0, start: 0, end: 25 }.write());
        let (now, own) = (world.now, world.own);
        world.client.pump(now, own);
        while world.deliver(true) {}
    }
    assert!(world.server.sent.is_empty());
    world.server.is_held = false;
    let (now, handle) = (world.now, world.served.expect("a connection"));
    world.server.pump(now, handle);
    world.server.sent.iter().map(Vec::len).sum()
}
