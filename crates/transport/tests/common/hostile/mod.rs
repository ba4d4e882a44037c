//! [`Hostile`]: a client of QUIC that ends the handshake and then breaks the rules.

pub mod keys;

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, IdleTimeout, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use keys::{Changes, Mask};

/// The bytes of the largest datagram.
const DATAGRAM_MAX: usize = 65_536;
/// The longest sleep of a turn.
const TURN: Duration = Duration::from_millis(5);

/// Takes any certificate.
#[derive(Debug)]
struct Careless(rustls::crypto::CryptoProvider);

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the settings of a client that takes any certificate, with changes.
pub fn config(changes: Arc<Mutex<Changes>>) -> ClientConfig {
    let provider = rustls::crypto::ring::default_provider();
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider.clone()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Careless(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"bifrost-rex/1".to_vec()];
    let inner = Arc::new(QuicClientConfig::try_from(tls).unwrap());
    let mut config = ClientConfig::new(Arc::new(Mask { inner, changes }));
    let mut transport = TransportConfig::default();
    transport
        .datagram_receive_buffer_size(Some(1 << 20))
        .datagram_send_buffer_size(1 << 20)
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(30_000))))
        .initial_rtt(Duration::from_millis(1))
        .mtu_discovery_config(None);
    config.transport_config(Arc::new(transport));
    config
}

/// A client that breaks the rules. It has one thread: time passes for it in [`Hostile::turn`].
pub struct Hostile {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub connection: Connection,
    pub changes: Arc<Mutex<Changes>>,
    pub is_connected: bool,
    /// The reason why the connection was lost.
    pub lost: Option<ConnectionError>,
    /// The bytes of the server by their streams, if they are read.
    pub inbox: HashMap<StreamId, Vec<u8>>,
    /// The datagrams of the server.
    pub datagrams: Vec<Bytes>,
    /// False if the bytes of streams are left where they are.
    pub reads: bool,
}

impl Hostile {
    /// Connects to a server; its transport parameters are taken for others.
    pub fn connect(server: SocketAddr, parameters: &[(u64, u64)]) -> Hostile {
        let changes = Changes { parameters: parameters.to_vec(), ..Changes::default() };
        let changes = Arc::new(Mutex::new(changes));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let now = Instant::now();
        let (handle, connection) =
            endpoint.connect(now, config(changes.clone()), server, "localhost").unwrap();
        let mut hostile = Hostile {
            socket,
            endpoint,
            handle,
            connection,
            changes,
            is_connected: false,
            lost: None,
            inbox: HashMap::new(),
            datagrams: Vec::new(),
            reads: true,
        };
        hostile.until("connected", |hostile| hostile.is_connected);
        hostile
    }

    /// Sends what is due, waits for a datagram for a few milliseconds, and handles it.
    pub fn turn(&mut self) {
        let now = Instant::now();
        self.transmit(now);
        let due = self.connection.poll_timeout().map(|at| at.saturating_duration_since(now));
        let wait = due.unwrap_or(TURN).clamp(Duration::from_micros(1), TURN);
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let mut datagram = vec![0; DATAGRAM_MAX];
        if let Ok(length) = self.socket.recv(&mut datagram) {
            let (now, peer) = (Instant::now(), self.socket.peer_addr().unwrap());
            let bytes = BytesMut::from(&datagram[..length]);
            let mut answer = Vec::new();
            if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                self.endpoint.handle(now, peer, None, None, bytes, &mut answer)
            {
                self.connection.handle_event(event);
            }
        }
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.settle();
        self.transmit(Instant::now());
    }

    fn settle(&mut self) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::DatagramReceived => {
                    self.datagrams.extend(std::iter::from_fn(|| self.connection.datagrams().recv()));
                }
                Event::Stream(StreamEvent::Readable { id }) if self.reads => self.read(id),
                _ => {}
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        let inbox = self.inbox.entry(id).or_default();
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            inbox.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
    }

    fn transmit(&mut self, now: Instant) {
        loop {
            while let Some(event) = self.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(event);
                }
            }
            let mut bytes = Vec::new();
            let Some(transmit) = self.connection.poll_transmit(now, 1, &mut bytes) else { return };
            // A server that is gone takes nothing.
            let _ = self.socket.send(&bytes[..transmit.size]);
        }
    }

    /// Goes on until a condition holds.
    ///
    /// # Panics
    /// It does not hold in time.
    pub fn until(&mut self, wanted: &str, mut holds: impl FnMut(&mut Hostile) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(Instant::now() < end, "not {wanted}; lost: {:?}", self.lost);
            self.turn();
        }
    }

    /// Goes on for some time.
    pub fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn();
        }
    }

    /// Opens a stream.
    pub fn open(&mut self, dir: Dir) -> StreamId {
        self.connection.streams().open(dir).expect("a stream")
    }

    /// Writes bytes; returns how many QUIC took.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        self.connection.send_stream(id).write(bytes).unwrap_or(0)
    }

    /// Sends a packet with these frames and no others.
    pub fn inject(&mut self, frames: &[u8]) {
        self.changes.lock().unwrap().frames.push_back(frames.to_vec());
        // Its place is taken by the frames.
        let filler = Bytes::from(vec![0; frames.len().max(64) + 8]);
        self.connection.datagrams().send(filler, true).unwrap();
        self.transmit(Instant::now());
    }

    /// Sends a datagram of QUIC.
    pub fn say(&mut self, bytes: Vec<u8>) {
        let _ = self.connection.datagrams().send(bytes.into(), true);
    }
}
