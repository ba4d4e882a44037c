//! What the tests share: connected streams of each transport, a seeded source of numbers, and a way to
//! know that a thread sleeps.
#![allow(dead_code)] // Each test program uses its part.

pub mod office;
pub mod quic;

use std::time::{Duration, Instant};

use bifrost_transport::{
    Address, Clients, ConnectOptions, KeyFiles, ListenOptions, Listener, RING_BYTES_MIN, Stream, TlsServer,
};
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{create_response, write_response};

/// Every medium without certificates, rings small and large.
pub const MEDIA: [&str; 4] = ["shm-small", "shm", "unix", "tcp"];
/// Every medium.
pub const STREAMS: [&str; 8] = ["shm-small", "shm", "unix", "tcp", "tls", "ws", "wss", "quic"];

/// A certificate that its own key has signed, and the options of a listener that has it.
pub fn self_signed(directory: &std::path::Path) -> ListenOptions {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let files = KeyFiles { certificate: directory.join("cert.pem"), key: directory.join("key.pem") };
    std::fs::write(&files.certificate, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    let tls = Some(TlsServer::load(files, Clients::Any).unwrap());
    ListenOptions { tls, ..ListenOptions::default() }
}

/// The address of a listener for clients: with the pin of its certificate.
pub fn address_of(listener: &Listener, options: &ListenOptions) -> Address {
    let address = listener.local_address().clone();
    match &options.tls {
        Some(tls) => address.with_pin(tls.pin()),
        None => address,
    }
}

/// A listener of this medium in a directory of its own.
pub fn listen(medium: &str) -> (tempfile::TempDir, Listener) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let (listener, _) = listen_in(directory.path(), &path, medium);
    (directory, listener)
}

fn listen_in(directory: &std::path::Path, path: &std::path::Path, medium: &str) -> (Listener, ListenOptions) {
    let path = path.to_owned();
    let host = || "127.0.0.1".to_owned();
    let (address, ring_bytes) = match medium {
        "shm-small" => (Address::Shm(path), RING_BYTES_MIN),
        "shm" => (Address::Shm(path), 1 << 20),
        "unix" => (Address::Unix(path), 1 << 20),
        "tcp" => (Address::Tcp { host: host(), port: 0 }, 1 << 20),
        "tls" => (Address::Tls { host: host(), port: 0, pin: None }, 1 << 20),
        "ws" => (Address::Ws { host: host(), port: 0, path: "/x".into() }, 1 << 20),
        "quic" => (Address::Quic { host: host(), port: 0, pin: None }, 1 << 20),
        "wss" => (Address::Wss { host: host(), port: 0, path: "/x".into(), pin: None }, 1 << 20),
        other => panic!("no medium {other}"),
    };
    let options = match medium {
        "tls" | "wss" | "quic" => self_signed(directory),
        _ => ListenOptions { ring_bytes, ..ListenOptions::default() },
    };
    (Listener::bind(&address, &options).unwrap(), options)
}

/// Client and server, connected.
pub fn connected(medium: &str) -> (Stream, Stream) {
    let directory = tempfile::tempdir().unwrap();
    let (listener, options) = listen_in(directory.path(), &directory.path().join("socket"), medium);
    let address = address_of(&listener, &options);
    let client = std::thread::spawn(move || {
        let mut client = Stream::connect(&address, &ConnectOptions::default()).unwrap();
        // The server learns of a stream of QUIC by its first byte.
        if medium_is_lazy(&address) {
            client.write(b"?", far()).unwrap();
            client.flush();
            assert_eq!(read_exact(&mut client, 1), b"!");
        }
        client
    });
    let mut server = listener.accept().unwrap().unwrap();
    if medium_is_lazy(listener.local_address()) {
        assert_eq!(read_exact(&mut server, 1), b"?");
        server.write(b"!", far()).unwrap();
        server.flush();
    }
    let read = shake_hands(&mut server);
    match listener.local_address().is_web() {
        true => drop(open_websocket(&mut server, read)),
        false => assert_eq!(read, b""),
    }
    (client.join().unwrap(), server)
}

fn medium_is_lazy(address: &Address) -> bool {
    matches!(address, Address::Quic { .. })
}

/// Answers the request for a websocket, as a server does, and returns the request.
/// `read` was read before.
pub fn open_websocket(server: &mut Stream, mut read: Vec<u8>) -> tungstenite::handshake::server::Request {
    let (length, request) = loop {
        if let Some(parsed) = tungstenite::handshake::server::Request::try_parse(&read).unwrap() {
            break parsed;
        }
        assert!(server.read(&mut read, 1 << 16, far()).unwrap() > 0, "a whole request");
    };
    let mut answer = create_response(&request).unwrap();
    let protocol = request.headers()["Sec-WebSocket-Protocol"].clone();
    answer.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
    let mut bytes = Vec::new();
    write_response(&mut bytes, &answer).unwrap();
    server.write(&bytes, far()).unwrap();
    server.serve_websocket(read.split_off(length));
    request
}

/// Reads until the handshake of TLS is over, as a server does that waits for its client. Returns the
/// bytes that came right behind it.
pub fn shake_hands(server: &mut Stream) -> Vec<u8> {
    let mut read = Vec::new();
    while !server.is_established() {
        if server.try_read(&mut read, 1 << 16).unwrap().is_none() {
            assert!(server.wait_ready(far().unwrap()));
        }
    }
    read
}

/// A deadline that only a failing test reaches.
pub fn far() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

pub fn read_exact(stream: &mut Stream, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let missing = count - bytes.len();
        assert_ne!(stream.read(&mut bytes, missing, far()).unwrap(), 0, "end after {}", bytes.len());
    }
    bytes
}

pub fn read_to_end(stream: &mut Stream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, usize::MAX, far()).unwrap() > 0 {}
    bytes
}

/// Numbers from a seed (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// Mostly short, sometimes long: all magnitudes are equally likely.
    pub fn length(&mut self, bits_max: usize) -> usize {
        let bits = self.below(bits_max) + 1;
        self.below(1 << bits) + 1
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// The kernel's number of the calling thread.
pub fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Returns once the thread of this process sleeps in the kernel, or has ended.
pub fn wait_until_asleep(thread: i32) {
    loop {
        let Ok(status) = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")) else {
            return; // It has ended already: whoever joins it finds out why.
        };
        // The state follows the name, which is in parentheses.
        if status.rsplit_once(") ").unwrap().1.starts_with('S') {
            return;
        }
        std::thread::yield_now();
    }
}

/// Runs `blocked` on a thread of its own and `then` here once that thread sleeps.
pub fn while_asleep<T: Send + 'static>(
    blocked: impl FnOnce() -> T + Send + 'static,
    then: impl FnOnce(),
) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(thread_number()).unwrap();
        blocked()
    });
    wait_until_asleep(receive.recv().unwrap());
    then();
    thread.join().unwrap()
}
