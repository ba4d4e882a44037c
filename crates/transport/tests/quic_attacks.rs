//! Attacks on a server over QUIC: by strangers, on the path, and by clients that break the rules.
//! Each has the answer that `docs/spec/rex.md` promises, and other sessions of the server go on.

mod common;
#[path = "common/hostile/mod.rs"]
mod hostile;
#[path = "common/tap.rs"]
mod tap;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bifrost_rex::{CallState, Message};
use bifrost_transport::{ConnectError, ConnectOptions, QuicLimits, Stream, TlsError};
use common::quic::{Office, SOON, connect, first_datagram, say};
use common::{far, read_exact};
use hostile::Hostile;
use quinn_proto::{ConnectionError, Dir, StreamId, VarInt};
use tap::{Tap, Way};

/// Transport parameters (RFC 9000 section 18.2).
const MAX_DATA: u64 = 4;
const MAX_STREAM_DATA_REMOTE: u64 = 6;
const MAX_STREAM_DATA_UNI: u64 = 7;
const MAX_STREAMS_BIDI: u64 = 8;
const MAX_STREAMS_UNI: u64 = 9;
/// Errors (RFC 9000 section 20.1).
const FLOW_CONTROL_ERROR: u64 = 3;
const STREAM_LIMIT_ERROR: u64 = 4;
const STREAM_STATE_ERROR: u64 = 5;
const FRAME_ENCODING_ERROR: u64 = 7;
const PROTOCOL_VIOLATION: u64 = 10;

/// A server whose sessions echo, and note all that they have read. A session whose first byte is `h`
/// reads no more.
struct Server {
    office: Arc<Office>,
    /// The bytes of each session.
    read: Arc<Mutex<Vec<Vec<u8>>>>,
    witness: Stream,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn new() -> Server {
        Server::with(QuicLimits { handshakes_per_second: 10_000, ..QuicLimits::default() })
    }

    fn with(limits: QuicLimits) -> Server {
        let office = Arc::new(Office::with(limits));
        let (read, serving) = (Arc::<Mutex<Vec<Vec<u8>>>>::default(), office.clone());
        let noted = read.clone();
        let serving = std::thread::spawn(move || {
            serving.listener.serve(
                |shortage| panic!("{shortage:?}"),
                |session| {
                    let noted = noted.clone();
                    std::thread::spawn(move || serve(session, &noted));
                },
            );
        });
        let witness = connect(&office.address());
        let mut server = Server { office, read, witness, serving: Some(serving) };
        server.check();
        server
    }

    /// Another session still works, and a new one does.
    fn check(&mut self) {
        let mut new = connect(&self.office.address());
        for session in [&mut self.witness, &mut new] {
            say(session, b"witness");
            assert_eq!(read_exact(session, 7), b"witness");
        }
    }

    /// The bytes of the sessions that are none of the witnesses.
    fn others(&self) -> Vec<Vec<u8>> {
        self.read.lock().unwrap().iter().filter(|bytes| !bytes.starts_with(b"witness")).cloned().collect()
    }

    fn hostile(&self, parameters: &[(u64, u64)]) -> Hostile {
        Hostile::connect(self.office.socket(), parameters)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.office.listener.stopper().stop();
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap();
        }
    }
}

fn serve(mut session: Stream, noted: &Mutex<Vec<Vec<u8>>>) {
    let place = {
        let mut noted = noted.lock().unwrap();
        noted.push(Vec::new());
        noted.len() - 1
    };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        // A lost connection ends it, too.
        match session.read(&mut bytes, 1 << 16, None) {
            Ok(0) | Err(_) => return,
            Ok(_) => noted.lock().unwrap()[place].extend_from_slice(&bytes),
        }
        if bytes[0] == b'h' {
            std::thread::sleep(SOON);
            return;
        }
        if session.write(&bytes, far()).is_err() {
            return;
        }
        session.flush();
    }
}

/// Calls an echo, and returns the bytes that it must have read.
fn calls(client: &mut Stream, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for call in 0..count {
        let bytes = format!("call {call};").into_bytes();
        say(client, &bytes);
        assert_eq!(read_exact(client, bytes.len()), bytes);
        all.extend(bytes);
    }
    all
}

fn pass_on() -> tap::Fate {
    Box::new(|_, datagram| vec![datagram.to_vec()])
}

fn stranger() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket
}

/// The bytes that arrive until nothing has for a while.
fn bytes_at(socket: &UdpSocket, calm: Duration) -> usize {
    socket.set_read_timeout(Some(calm)).unwrap();
    let mut datagram = vec![0; 65_536];
    std::iter::from_fn(|| socket.recv(&mut datagram).ok()).sum()
}

/// The code with which the server ended the connection.
fn ended(hostile: &mut Hostile, why: &str) -> u64 {
    hostile.until(&format!("ended for {why}"), |hostile| hostile.lost.is_some());
    match hostile.lost.as_ref() {
        Some(ConnectionError::ConnectionClosed(close)) => close.error_code.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn replayed_packets_run_nothing_twice() {
    let mut server = Server::new();
    // Every packet of the client arrives twice.
    let twice = Box::new(|way, datagram: &[u8]| match way {
        Way::ToServer => vec![datagram.to_vec(); 2],
        Way::ToClient => vec![datagram.to_vec()],
    });
    let tap = Tap::start(server.office.socket(), twice);
    let mut client = connect(&server.office.through(tap.address.port()));
    let mut all = calls(&mut client, 20);
    // All of them once more, from the address of the client and from another one.
    let replayed = tap.seen(Way::ToServer);
    assert!(replayed.len() > 20, "{}", replayed.len());
    let other = stranger();
    for datagram in &replayed {
        tap.forge(Way::ToServer, datagram);
        other.send_to(datagram, server.office.socket()).unwrap();
    }
    server.check();
    all.extend(calls(&mut client, 20));
    assert_eq!(server.others(), [all]);
}

#[test]
fn packets_of_a_connection_that_has_ended_run_nothing() {
    let mut server = Server::new();
    let tap = Tap::start(server.office.socket(), pass_on());
    let mut hostile = Hostile::connect(tap.address, &[]);
    let id = hostile.open(Dir::Bi);
    hostile.write(id, b"once");
    hostile.until("echoed", |hostile| hostile.inbox.get(&id).is_some_and(|bytes| bytes == b"once"));
    hostile.connection.close(Instant::now(), VarInt::from_u32(0), "".into());
    hostile.pass(Duration::from_millis(100));
    let replayed = tap.seen(Way::ToServer);
    replayed.iter().for_each(|datagram| tap.forge(Way::ToServer, datagram));
    let (mut hello, start) = (false, Instant::now());
    // Until the server has forgotten the connection; then it takes the hello for a new one.
    while !hello {
        assert!(start.elapsed() < SOON);
        for datagram in &replayed {
            let other = stranger();
            other.send_to(datagram, server.office.socket()).unwrap();
            let answered = bytes_at(&other, Duration::from_millis(100));
            let is_long = datagram[0] & 0x80 != 0;
            // A stateless reset is shorter than its cause.
            assert!(answered <= if is_long { 3 * datagram.len() } else { datagram.len() - 1 });
            hello |= is_long && answered > 0;
        }
    }
    server.check();
    assert_eq!(server.others(), [b"once"]);
}

#[test]
fn a_first_flight_that_is_sent_again_belongs_to_its_connection() {
    let mut server = Server::new();
    let tap = Tap::start(server.office.socket(), pass_on());
    let mut client = connect(&server.office.through(tap.address.port()));
    let mut all = calls(&mut client, 3);
    let flight = tap.seen(Way::ToServer);
    let sockets: Vec<_> = (0..5).map(|_| stranger()).collect();
    for socket in &sockets {
        for datagram in &flight {
            socket.send_to(datagram, server.office.socket()).unwrap();
        }
        assert_eq!(bytes_at(socket, Duration::from_millis(300)), 0);
    }
    server.check();
    all.extend(calls(&mut client, 3));
    assert_eq!(server.others(), [all]);
}

#[test]
fn an_address_that_never_answers_gets_three_times_its_bytes() {
    let limits = QuicLimits {
        handshake_time: Duration::from_secs(2),
        handshakes_per_second: 10_000,
        ..QuicLimits::default()
    };
    let mut server = Server::with(limits);
    let hello = first_datagram(&server.office);
    let silent = stranger();
    silent.send_to(&hello, server.office.socket()).unwrap();
    // The server repeats its part until the time of the handshake is over.
    let answered = bytes_at(&silent, Duration::from_secs(3));
    println!("{answered} bytes for {}", hello.len());
    assert!(answered > hello.len() && answered <= 3 * hello.len(), "{answered} of {}", hello.len());
    server.check();
}

#[test]
fn answers_to_strangers_are_no_longer_than_their_causes() {
    // Every client must prove its address first.
    let limits = QuicLimits { handshakes_max: 0, handshakes_per_second: 10_000, ..QuicLimits::default() };
    let mut server = Server::with(limits);
    let hello = first_datagram(&server.office);
    let mut other_version = hello.clone();
    other_version[1..5].copy_from_slice(&[0x1a; 4]);
    let mut unknown = vec![0x40; 60];
    unknown.extend([7; 40]);
    let mut answered = Vec::new();
    for datagram in [&hello, &other_version, &unknown, &hello[..200].to_vec()] {
        let stranger = stranger();
        stranger.send_to(datagram, server.office.socket()).unwrap();
        let bytes = bytes_at(&stranger, Duration::from_secs(1));
        assert!(bytes <= datagram.len(), "{bytes} of {}", datagram.len());
        answered.push(bytes > 0);
    }
    // A Retry, the versions; nothing for a name that this server never gave, or a short hello.
    assert_eq!(answered, [true, true, false, false]);
    server.check();
}

#[test]
fn a_packet_with_a_changed_bit_is_dropped() {
    let mut server = Server::new();
    let (changed, count) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let noted = changed.clone();
    let fate = Box::new(move |_, datagram: &[u8]| {
        let (number, mut bytes) = (count.fetch_add(1, Ordering::Relaxed), datagram.to_vec());
        if number % 6 == 5 {
            // Every place of a packet in turn.
            let bit = number * 7919 % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            noted.fetch_add(1, Ordering::Relaxed);
        }
        vec![bytes]
    });
    let tap = Tap::start(server.office.socket(), fate);
    let mut client = connect(&server.office.through(tap.address.port()));
    let all = calls(&mut client, 60);
    assert!(changed.load(Ordering::Relaxed) > 20, "{changed:?}");
    assert_eq!(server.others(), [all]);
    server.check();
}

#[test]
fn a_new_address_that_never_answers_gets_three_times_its_bytes_and_a_packet() {
    // Within the window of a stream.
    const LONG: usize = 128 << 10;
    /// The longest packet within this machine.
    const PACKET: u64 = 21_800;
    let office = Office::new();
    let elsewhere = stranger();
    elsewhere.connect(office.socket()).unwrap();
    // The packets of the client: on their way, from elsewhere, or lost.
    const PASS: usize = 0;
    const MOVE: usize = 1;
    const LOSE: usize = 2;
    let mode = Arc::new(AtomicUsize::new(PASS));
    let (sent, moved) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let fate = {
        let (elsewhere, mode) = (elsewhere.try_clone().unwrap(), mode.clone());
        let (sent, moved) = (sent.clone(), moved.clone());
        Box::new(move |way, datagram: &[u8]| match (way, mode.load(Ordering::SeqCst)) {
            (Way::ToServer, MOVE) => {
                sent.fetch_add(datagram.len() as u64, Ordering::SeqCst);
                moved.fetch_add(1, Ordering::SeqCst);
                let _ = elsewhere.send(datagram);
                Vec::new()
            }
            (Way::ToServer, LOSE) => Vec::new(),
            _ => vec![datagram.to_vec()],
        })
    };
    let tap = Tap::start(office.socket(), fate);
    let (mut witness, mut witness_server) = office.pair(&office.address());
    let (mut client, mut session) = office.pair(&office.through(tap.address.port()));
    mode.store(MOVE, Ordering::SeqCst);
    say(&mut client, b"pour");
    assert_eq!(read_exact(&mut session, 4), b"pour");
    mode.store(LOSE, Ordering::SeqCst);
    say(&mut session, &vec![3; LONG]);
    let got = bytes_at(&elsewhere, Duration::from_secs(1)) as u64;
    let (sent, moved) = (sent.load(Ordering::SeqCst), moved.load(Ordering::SeqCst));
    println!("{got} bytes for {sent} in {moved} packets");
    assert!(got > 0 && got <= 3 * sent + PACKET * moved, "{got} for {sent} in {moved}");
    say(&mut witness, b"here");
    assert_eq!(read_exact(&mut witness_server, 4), b"here");
    // The client goes on from its own address.
    mode.store(PASS, Ordering::SeqCst);
    assert!(read_exact(&mut client, LONG) == vec![3; LONG]);
}

#[test]
fn resets_with_wrong_tokens_are_ignored() {
    let mut server = Server::new();
    let tap = Tap::start(server.office.socket(), pass_on());
    let mut client = connect(&server.office.through(tap.address.port()));
    let mut all = calls(&mut client, 3);
    let mut random = fastrand::Rng::with_seed(5);
    for way in [Way::ToClient, Way::ToServer] {
        // Packets of the connection with another end, and such as name no connection.
        let last = tap.seen(way).pop().unwrap();
        for round in 0..500 {
            let mut reset = last.clone();
            if round % 2 == 0 {
                reset = (0..random.usize(21..200)).map(|_| random.u8(..)).collect();
                reset[0] = 0x40 | (reset[0] & 0x3f);
            }
            let at = reset.len() - 16;
            random.fill(&mut reset[at..]);
            tap.forge(way, &reset);
        }
    }
    all.extend(calls(&mut client, 3));
    assert_eq!(server.others(), [all]);
    server.check();
}

#[test]
fn bytes_beyond_a_window_end_the_connection_alone() {
    let mut server = Server::new();
    let mut hostile = server.hostile(&[(MAX_DATA, 1 << 40), (MAX_STREAM_DATA_REMOTE, 1 << 40)]);
    let id = hostile.open(Dir::Bi);
    // The session reads the first byte alone.
    let long = vec![b'h'; 4 << 20];
    let mut written = 0;
    hostile.until("ended", |hostile| {
        written += hostile.write(id, &long[written.min(long.len())..]);
        hostile.lost.is_some()
    });
    assert_eq!(ended(&mut hostile, "its bytes"), FLOW_CONTROL_ERROR);
    server.check();
}

#[test]
fn bytes_of_many_streams_beyond_the_window_of_a_connection_end_it_alone() {
    let mut server = Server::new();
    let mut hostile = server.hostile(&[(MAX_DATA, 1 << 40)]);
    // Each stream keeps to its own window.
    let ids: Vec<StreamId> = (0..40).map(|_| hostile.open(Dir::Bi)).collect();
    let long = vec![b'h'; 1 << 20];
    let mut written = vec![0; ids.len()];
    hostile.until("ended", |hostile| {
        for (id, written) in ids.iter().zip(&mut written) {
            *written += hostile.write(*id, &long[*written..]);
        }
        hostile.lost.is_some()
    });
    assert_eq!(ended(&mut hostile, "its bytes"), FLOW_CONTROL_ERROR);
    server.check();
}

#[test]
fn streams_beyond_their_number_end_the_connection_alone() {
    let mut server = Server::new();
    for (dir, count) in [(Dir::Bi, 1025), (Dir::Uni, 1)] {
        let mut hostile =
            server.hostile(&[(MAX_STREAMS_BIDI, 5_000), (MAX_STREAMS_UNI, 5), (MAX_STREAM_DATA_UNI, 5_000)]);
        let last = (0..count).map(|_| hostile.open(dir)).last().unwrap();
        hostile.write(last, b"beyond");
        assert_eq!(ended(&mut hostile, "a stream"), STREAM_LIMIT_ERROR, "{dir:?}");
        server.check();
    }
    assert!(server.others().is_empty());
}

#[test]
fn more_streams_are_allowed_as_they_are_used_up_to_their_number() {
    let mut server = Server::new();
    let mut hostile = server.hostile(&[(MAX_STREAMS_BIDI, 5_000)]);
    for _ in 0..1024 / 16 {
        let ids = [(); 16].map(|()| hostile.open(Dir::Bi));
        for id in ids {
            hostile.write(id, b"s");
        }
        hostile.until("echoed", |hostile| ids.iter().all(|id| hostile.inbox.contains_key(id)));
    }
    let beyond = hostile.open(Dir::Bi);
    hostile.write(beyond, b"beyond");
    assert_eq!(ended(&mut hostile, "a stream"), STREAM_LIMIT_ERROR);
    server.check();
    assert_eq!(server.others().len(), 1024);
}

#[test]
fn frames_that_no_client_sends_end_the_connection_alone() {
    let mut server = Server::new();
    // Numbers of QUIC: two bits say the length.
    let attempts: [(&str, &[u8], u64); 9] = [
        ("unknown", &[0x3f, 1, 2, 3], FRAME_ENCODING_ERROR),
        ("an ACK of a packet that was never sent", &[2, 0xbf, 0xff, 0xff, 0xff, 0, 0, 0], PROTOCOL_VIOLATION),
        ("NEW_TOKEN", &[7, 1, 1], PROTOCOL_VIOLATION),
        ("HANDSHAKE_DONE", &[0x1e], PROTOCOL_VIOLATION),
        ("STREAM of the server", &[8, 1, b'x'], STREAM_STATE_ERROR),
        ("RESET_STREAM beyond the window", &[4, 0, 0, 0xbf, 0xff, 0xff, 0xff], FLOW_CONTROL_ERROR),
        ("MAX_STREAMS of 2^61", &[0x12, 0xe0, 0, 0, 0, 0, 0, 0, 0], FRAME_ENCODING_ERROR),
        ("MAX_STREAM_DATA of a stream that is not", &[0x11, 1, 0], STREAM_STATE_ERROR),
        ("half a frame", &[0x0e, 0], FRAME_ENCODING_ERROR),
    ];
    for (name, frames, code) in attempts {
        let mut hostile = server.hostile(&[]);
        hostile.inject(frames);
        assert_eq!(ended(&mut hostile, name), code, "{name}");
    }
    server.check();
}

#[test]
fn frames_of_any_bytes_disturb_nobody() {
    let mut server = Server::new();
    let (mut random, mut lost) = (fastrand::Rng::with_seed(11), 0);
    for _ in 0..40 {
        let mut hostile = server.hostile(&[]);
        for _ in 0..20 {
            let length = random.usize(1..300);
            let mut frames: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            // A known kind of frame, with any fields.
            frames[0] = random.u8(0..0x32);
            hostile.inject(&frames);
            hostile.turn();
            if hostile.lost.is_some() {
                lost += 1;
                break;
            }
        }
    }
    assert!(lost > 20, "{lost}");
    server.check();
}

/// The answers of a server to questions about a stream.
fn states(hostile: &Hostile) -> Vec<(u64, CallState)> {
    let read = |bytes: &[u8]| match Message::read(bytes).expect("a message") {
        Message::State { stream, state, .. } => (stream, state),
        ask @ Message::Ask { .. } => panic!("{ask:?}"),
    };
    hostile.datagrams.iter().map(|bytes| read(bytes)).collect()
}

#[test]
fn datagrams_of_any_kind_tell_of_the_own_streams_alone() {
    let mut server = Server::new();
    let mut hostile = server.hostile(&[]);
    let mut random = fastrand::Rng::with_seed(13);
    for round in 0..2_000 {
        let mut bytes: Vec<u8> = (0..random.usize(0..60)).map(|_| random.u8(..)).collect();
        if let Some(kind) = bytes.first_mut() {
            *kind = random.u8(0..4);
        }
        hostile.say(bytes);
        // The witness has a stream 0, and so may have a client of this number.
        let state = CallState::Begun;
        hostile.say(Message::Ask { stream: 0, start: 0, end: 7 }.write());
        hostile.say(Message::Ask { stream: u64::MAX, start: 0, end: 7 }.write());
        hostile.say(Message::State { stream: 0, start: 0, end: 7, state, before: 0, ms: 0 }.write());
        if round % 100 == 0 {
            hostile.turn();
        }
    }
    hostile.pass(Duration::from_millis(300));
    assert_eq!(states(&hostile), []);
    // The connection is still good, and has answers about its own stream.
    let id = hostile.open(Dir::Bi);
    hostile.write(id, b"own");
    hostile.until("echoed", |hostile| hostile.inbox.get(&id).is_some_and(|bytes| bytes == b"own"));
    hostile.say(Message::Ask { stream: 0, start: 0, end: 3 }.write());
    hostile.say(Message::Ask { stream: 4, start: 0, end: 3 }.write());
    hostile.until("answered", |hostile| !hostile.datagrams.is_empty());
    hostile.pass(Duration::from_millis(100));
    assert_eq!(states(&hostile), [(0, CallState::Answered)]);
    server.check();
}

#[test]
fn questions_without_end_are_answered_once_each_at_most() {
    const QUESTIONS: usize = 10_000;
    let mut server = Server::new();
    let mut hostile = server.hostile(&[]);
    let id = hostile.open(Dir::Bi);
    hostile.write(id, b"own");
    hostile.until("echoed", |hostile| hostile.inbox.get(&id).is_some_and(|bytes| bytes == b"own"));
    for round in 0..QUESTIONS {
        hostile.say(Message::Ask { stream: 0, start: 0, end: 3 + round as u64 }.write());
        if round % 50 == 0 {
            hostile.turn();
        }
        if round == QUESTIONS / 2 {
            server.check();
        }
    }
    hostile.pass(Duration::from_millis(500));
    // `random.rs` has the bytes of those that wait.
    let answers = states(&hostile);
    println!("{} answers to {QUESTIONS} questions", answers.len());
    assert!(!answers.is_empty() && answers.len() <= QUESTIONS, "{}", answers.len());
    assert!(hostile.datagrams.iter().all(|bytes| bytes.len() <= 34));
    hostile.write(id, b"goes on");
    hostile.until("echoed", |hostile| hostile.inbox[&id].ends_with(b"goes on"));
    server.check();
}

#[test]
fn a_client_that_never_reads_holds_its_own_stream_back_alone() {
    let office = Office::new();
    let (slow, mut slow_session) = office.pair(&office.address());
    let (mut quick, mut quick_session) = office.pair(&office.address());
    // They share a connection.
    assert_eq!(slow_session.describe_peer(), quick_session.describe_peer());
    let started = Instant::now();
    let written = slow_session.write(&vec![5; 32 << 20], Some(started + Duration::from_millis(500)));
    assert!(written.is_err());
    for _ in 0..20 {
        say(&mut quick, b"quick");
        assert_eq!(read_exact(&mut quick_session, 5), b"quick");
        say(&mut quick_session, &[7; 100_000]);
        assert_eq!(read_exact(&mut quick, 100_000), [7; 100_000]);
    }
    drop((slow, slow_session));
    say(&mut quick, b"still");
    assert_eq!(read_exact(&mut quick_session, 5), b"still");
}

#[test]
fn a_server_with_another_key_gets_no_byte_of_a_session() {
    let (office, mut other) = (Office::new(), Server::new());
    let before = other.read.lock().unwrap().len();
    // The address of the other server, with the pin of this one.
    let wrong = office.through(other.office.socket().port());
    for _ in 0..3 {
        // Without a stream there is nothing to which a token could be written.
        match Stream::connect(&wrong, &ConnectOptions { timeout: SOON, ..ConnectOptions::default() }) {
            Err(ConnectError::Tls { source, .. }) => {
                assert!(matches!(*source, TlsError::WrongPin { .. }), "{source}");
            }
            other => panic!("{other:?}"),
        }
    }
    other.check();
    // The new witness is the only session since.
    assert_eq!(other.read.lock().unwrap().len(), before + 1);
    assert!(other.others().is_empty());
}
