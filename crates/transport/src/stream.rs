//! [`Stream`]: bytes in order, both ways, over any of the transports.
//!
//! Read [`Stream`] first. It is made by [`Stream::connect`], by a listener, or as one of two ends
//! within a process. It ends when it is dropped, when the peer is gone, or by a [`StreamStopper`].
//! [`Stream::split`] makes two halves of it (`crate::halves`).
//!
//! The stream owns its socket, over which all transports notice a hang-up, and its `Medium`: the
//! rings of `crate::shm`, the buffer of `crate::socket`, or the state of `crate::tls` or
//! `crate::websocket`. The reasons
//! why it gives and takes no bytes are in `crate::errors`.

use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::address::Address;
use crate::attention::{Attention, DEAF, STOPPED};
use crate::connect::{
    connect_error, connect_tcp, connect_unix, handover_error, handshake_error, quic_error, request_error,
};
use crate::deadline::Deadline;
use crate::errors::{ConnectError, ReadError, WriteError};
use crate::halves::{Reading, StreamReading, StreamWriting, Writing};
use crate::identity::Identity;
use crate::patient::Patient;
use crate::pin::Pin;
use crate::quic::{self, CallWatch, QuicStream};
use crate::shm::{self, ShmStream};
use crate::socket::{SocketStream, wait_readable};
use crate::tls::{self, Machine, Protocol, TlsOptions, TlsStream};
use crate::websocket::{self, Base, WebStream};

/// The options of a connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The longest time of all of `connect`. Default: 5 s.
    pub timeout: Duration,
    /// Shared memory: the longest spin before a sleep; zero for none. Default:
    /// [`spin_max_default`].
    ///
    /// [`spin_max_default`]: crate::spin_max_default
    pub spin_max: Duration,
    /// TLS: trust and the client's own certificate. Default: [`TlsOptions::default`].
    pub tls: TlsOptions,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            timeout: Duration::from_secs(5),
            spin_max: shm::spin_max_default(),
            tls: TlsOptions::default(),
        }
    }
}

/// A reliable stream of bytes to and from one peer.
///
/// Dropping it closes it: the peer reads the bytes written, then the end.
#[derive(Debug)]
pub struct Stream {
    pub(crate) medium: Medium,
    // After `medium`, which watches the socket for as long as it lives.
    pub(crate) connection: Arc<Connection>,
    peer: String,
    /// The peer's address; none on this machine's transports.
    ip: Option<IpAddr>,
}

#[derive(Debug)]
// One stream is one session: the size of the larger variant does not matter, but a pointer on each
// read does.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Medium {
    Shm(ShmStream),
    Socket(SocketStream),
    Tls(TlsStream),
    Web(WebStream),
    Quic(QuicStream),
}

/// The layer over a socket that has a last word.
#[derive(Clone, Debug)]
enum Layer {
    Tls(TlsStream),
    Web(WebStream),
    Quic(QuicStream),
}

impl Layer {
    fn close(&self) {
        match self {
            Layer::Tls(stream) => stream.close(),
            Layer::Web(stream) => stream.close(),
            Layer::Quic(stream) => stream.close(),
        }
    }

    /// True if the peer can be told something.
    fn is_established(&self) -> bool {
        match self {
            Layer::Tls(stream) => stream.is_established(),
            // It is opened when all before it is over.
            Layer::Web(_) | Layer::Quic(_) => true,
        }
    }
}

/// The socket under every stream, and the word that stops it. Shut down when dropped, because a
/// stopper may keep the socket itself open.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) attention: Arc<Attention>,
    /// The layer whose last word is said before the socket is shut down.
    layer: Option<Layer>,
}

/// The longest wait for one direction of shared memory before the other one is looked at.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(layer) = &self.layer {
            layer.close();
        }
        // Fails if the peer was first.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

/// Ends the reads and writes of one stream, from any thread.
#[derive(Clone, Debug)]
pub struct StreamStopper {
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
    /// True if the bytes go through the socket; for shared memory the socket only tells that the
    /// peer lives.
    carries: bool,
    layer: Option<Layer>,
}

impl StreamStopper {
    /// Ends a blocked read or write, and all later ones, with `Stopped`. The peer sees the stream's
    /// end.
    pub fn stop(&self) {
        self.attention.raise(STOPPED);
        if let Some(layer) = &self.layer {
            layer.close();
        }
        // After the bit, so that a reader woken by the shutdown knows the reason.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// True if the kernel holds no byte of the peer that was not read. Always false for shared
    /// memory, whose bytes do not pass through the kernel: some may be there.
    pub fn is_silent(&self) -> bool {
        if let Some(Layer::Quic(stream)) = &self.layer {
            return stream.is_silent();
        }
        self.carries && !matches!(wait_readable(&self.socket, Instant::now()), Ok(true))
    }

    /// True if the peer can be told something: for TLS once the handshake is over, else always.
    pub fn is_established(&self) -> bool {
        self.layer.as_ref().is_none_or(Layer::is_established)
    }

    /// Ends a blocked read, and all later ones, with `Stopped`. Bytes that are written still
    /// arrive: time for a last word.
    pub fn stop_reading(&self) {
        self.attention.raise(DEAF);
        if let Some(Layer::Quic(stream)) = &self.layer {
            return stream.wake();
        }
        if self.carries {
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        }
    }
}

impl Stream {
    /// Connects to the server that listens on `address`. Over TLS that includes the handshake, for
    /// which the server must read.
    pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + options.timeout;
        match address {
            Address::Unix(_) => {
                let socket = connect_unix(address, options, deadline)?;
                Ok(Stream::over_socket(socket, "unix"))
            }
            Address::Shm(_) => {
                let connection = Connection::new(connect_unix(address, options, deadline)?);
                let Connection { socket, attention, .. } = &connection;
                let medium = ShmStream::connect(socket, attention, deadline, options.spin_max)
                    .map_err(|error| handover_error(error, address, options))?;
                Ok(Stream::over_shm(medium, connection))
            }
            Address::Tcp { host, port } => {
                let stream = connect_tcp(host, *port, deadline)
                    .map_err(|error| connect_error(error, address, options))?;
                Stream::over_tcp(stream).map_err(|error| connect_error(error, address, options))
            }
            Address::Tls { host, port, pin } => {
                let place = (host.as_str(), *port, *pin, Protocol::Bifrost);
                Stream::connect_tls(address, place, options, deadline)
            }
            Address::Ws { host, port, path } => {
                let stream = connect_tcp(host, *port, deadline)
                    .and_then(Stream::over_tcp)
                    .map_err(|error| connect_error(error, address, options))?;
                stream.ask_for_websocket(address, (host, path), options, deadline)
            }
            Address::Wss { host, port, path, pin } => {
                let place = (host.as_str(), *port, *pin, Protocol::Http);
                let stream = Stream::connect_tls(address, place, options, deadline)?;
                stream.ask_for_websocket(address, (host, path), options, deadline)
            }
            Address::Quic { host, port, pin } => {
                if pin.is_some() && options.tls.authorities.is_some() {
                    return Err(ConnectError::TwoTrusts { address: address.clone() });
                }
                let stream = quic::connect((host, *port, *pin), &options.tls, deadline)
                    .map_err(|failure| quic_error(failure, address, options))?;
                Ok(Stream::over_quic(stream))
            }
        }
    }

    fn connect_tls(
        address: &Address,
        (host, port, pin, protocol): (&str, u16, Option<Pin>, Protocol),
        options: &ConnectOptions,
        deadline: Instant,
    ) -> Result<Stream, ConnectError> {
        if pin.is_some() && options.tls.authorities.is_some() {
            return Err(ConnectError::TwoTrusts { address: address.clone() });
        }
        // First: a mistake in the files is found without the server.
        let machine = tls::connect(host, pin, &options.tls, protocol)?;
        let stream = connect_tcp(host, port, deadline)
            .and_then(|stream| Stream::over_tls(stream, machine))
            .map_err(|error| connect_error(error, address, options))?;
        if let Medium::Tls(tls) = &stream.medium {
            tls.shake_hands(deadline).map_err(|error| handshake_error(error, address, options))?;
        }
        Ok(stream)
    }

    /// Asks the server for a websocket.
    fn ask_for_websocket(
        mut self,
        address: &Address,
        (host, path): (&str, &str),
        options: &ConnectOptions,
        deadline: Instant,
    ) -> Result<Stream, ConnectError> {
        let usual = if address.is_tls() { 443 } else { 80 };
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let host = match address.port() {
            Some(port) if port != usual => format!("{bracketed}:{port}"),
            _ => bracketed,
        };
        let Connection { socket, attention, .. } = &*self.connection;
        let (socket, attention) = (socket.clone(), attention.clone());
        let web = websocket::connect(self.base(), socket, attention, (&host, path), deadline)
            .map_err(|error| request_error(error, address, options))?;
        self.use_websocket(web);
        Ok(self)
    }

    /// Turns a stream of a server, on which the request for a websocket was answered, into one over
    /// the websocket. `read` are the bytes that were read behind the request.
    ///
    /// # Panics
    /// If it is one of shared memory.
    pub fn serve_websocket(&mut self, read: Vec<u8>) {
        let Connection { socket, attention, .. } = &*self.connection;
        let web = WebStream::serve(self.base(), socket.clone(), attention.clone(), read);
        self.use_websocket(web);
    }

    fn base(&self) -> Base {
        match &self.medium {
            Medium::Tls(stream) => Base::Tls(stream.clone()),
            Medium::Socket(_) => Base::Socket,
            Medium::Shm(_) | Medium::Web(_) | Medium::Quic(_) => {
                panic!("a websocket is opened over a socket or TLS")
            }
        }
    }

    fn use_websocket(&mut self, web: WebStream) {
        // A stream that is whole has the only reference.
        if let Some(connection) = Arc::get_mut(&mut self.connection) {
            connection.layer = Some(Layer::Web(web.clone()));
        }
        self.medium = Medium::Web(web);
    }

    /// Makes two ends of one stream within this process, over a socket pair.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (one, other) = socket_pair()?;
        Ok((Stream::over_socket(one, "unix"), Stream::over_socket(other, "unix")))
    }

    /// Makes two ends of one stream within this process, over shared memory.
    ///
    /// # Panics
    /// If `ring_bytes` is no power of two from [`RING_BYTES_MIN`] to [`RING_BYTES_MAX`].
    ///
    /// [`RING_BYTES_MIN`]: crate::RING_BYTES_MIN
    /// [`RING_BYTES_MAX`]: crate::RING_BYTES_MAX
    pub fn shm_pair(ring_bytes: usize, spin_max: Duration) -> io::Result<(Stream, Stream)> {
        let (one, other) = socket_pair()?;
        let server = Stream::serve_shm(one, ring_bytes, spin_max)?;
        let connection = Connection::new(other);
        let Connection { socket, attention, .. } = &connection;
        // The message was sent above, so this waits for nothing.
        let medium = ShmStream::connect(socket, attention, Instant::now(), spin_max)?;
        Ok((Stream::over_shm(medium, connection), server))
    }

    /// Makes the server's end of a shm stream whose client has just connected to `socket`.
    pub(crate) fn serve_shm(socket: OwnedFd, ring_bytes: usize, spin_max: Duration) -> io::Result<Stream> {
        let connection = Connection::new(socket);
        let medium = ShmStream::serve(&connection.socket, &connection.attention, ring_bytes, spin_max)?;
        Ok(Stream::over_shm(medium, connection))
    }

    fn over_shm(medium: ShmStream, connection: Connection) -> Stream {
        let peer = describe_process("shm", &connection.socket);
        Stream { medium: Medium::Shm(medium), connection: Arc::new(connection), peer, ip: None }
    }

    /// Makes a stream over a connected unix socket.
    pub(crate) fn over_socket(socket: OwnedFd, scheme: &str) -> Stream {
        let peer = describe_process(scheme, &socket);
        Stream::over_described_socket(socket, peer, None)
    }

    /// Makes a stream over a connected TCP socket.
    pub(crate) fn over_tcp(stream: TcpStream) -> io::Result<Stream> {
        Stream::over_tcp_as("tcp", stream)
    }

    /// The same, with another name for logs.
    pub(crate) fn over_tcp_as(scheme: &str, stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let address = stream.peer_addr()?;
        let (peer, ip) = (format!("{scheme} {address}"), address.ip().to_canonical());
        Ok(Stream::over_described_socket(stream.into(), peer, Some(ip)))
    }

    /// Makes a stream over a TCP socket on which the handshake of TLS begins.
    pub(crate) fn over_tls(stream: TcpStream, machine: Machine) -> io::Result<Stream> {
        Stream::over_tls_as("tls", stream, machine)
    }

    /// The same, with another name for logs.
    pub(crate) fn over_tls_as(scheme: &str, stream: TcpStream, machine: Machine) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let address = stream.peer_addr()?;
        let (peer, ip) = (format!("{scheme} {address}"), address.ip().to_canonical());
        let mut connection = Connection::new(stream.into());
        let tls = TlsStream::new(connection.socket.clone(), connection.attention.clone(), machine);
        connection.layer = Some(Layer::Tls(tls.clone()));
        Ok(Stream { medium: Medium::Tls(tls), connection: Arc::new(connection), peer, ip: Some(ip) })
    }

    /// Makes a stream over one of QUIC.
    pub(crate) fn over_quic(stream: QuicStream) -> Stream {
        let remote = stream.remote();
        let connection = Connection {
            socket: stream.event().clone(),
            attention: stream.attention().clone(),
            layer: Some(Layer::Quic(stream.clone())),
        };
        let (peer, ip) = (format!("quic {remote}"), Some(remote.ip().to_canonical()));
        Stream { medium: Medium::Quic(stream), connection: Arc::new(connection), peer, ip }
    }

    fn over_described_socket(socket: OwnedFd, peer: String, ip: Option<IpAddr>) -> Stream {
        let connection = Connection::new(socket);
        let medium = SocketStream::new(connection.socket.clone(), connection.attention.clone());
        Stream { medium: Medium::Socket(medium), connection: Arc::new(connection), peer, ip }
    }

    /// Appends the bytes that are there now to `into`, at least 1 and at most `limit`, and returns
    /// their number; waits if nothing is there. 0 means the end: the peer closed the stream or
    /// died, and all that it had written was read.
    ///
    /// With a deadline in the past it does not wait. Allocates in `into` only, for bytes that are
    /// there.
    ///
    /// # Panics
    /// If `limit` is 0, because the answer would look like the end.
    #[inline]
    pub fn read(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        deadline: impl Into<Deadline>,
    ) -> Result<usize, ReadError> {
        assert!(limit > 0, "a read of at most 0 bytes cannot be told from the end");
        match &mut self.medium {
            Medium::Shm(stream) => stream.read(into, limit, deadline.into()),
            Medium::Socket(stream) => stream.read(into, limit, deadline.into().instant()),
            Medium::Tls(stream) => stream.read(into, limit, deadline.into().instant()),
            Medium::Web(stream) => stream.read(into, limit, deadline.into().instant()),
            Medium::Quic(stream) => stream.read(into, limit, deadline.into().instant()),
        }
    }

    /// Reads as `read`, without waiting: `None` if nothing is there now, and then nothing is left
    /// in the socket. Over TLS it also goes on with the handshake.
    ///
    /// # Panics
    /// If `limit` is 0.
    #[inline]
    pub fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        assert!(limit > 0, "a read of at most 0 bytes cannot be told from the end");
        match &mut self.medium {
            Medium::Shm(stream) => stream.try_read(into, limit),
            Medium::Socket(stream) => stream.try_read(into, limit),
            Medium::Tls(stream) => stream.try_read(into, limit),
            Medium::Web(stream) => stream.try_read(into, limit),
            Medium::Quic(stream) => stream.try_read(into, limit),
        }
    }

    /// Writes all bytes. The peer may start to read at once; a peer that sleeps may be left asleep
    /// until `flush`, or until this end waits in a `read` or `write`. Waits while the peer has no
    /// room.
    #[inline]
    pub fn write(&mut self, bytes: &[u8], deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        match &mut self.medium {
            Medium::Shm(stream) => stream.write(bytes, deadline.into()),
            Medium::Socket(stream) => stream.write(bytes, deadline.into().instant()),
            Medium::Tls(stream) => stream.write(bytes, deadline.into().instant()),
            Medium::Web(stream) => stream.write(bytes, deadline.into().instant()),
            Medium::Quic(stream) => stream.write(bytes, deadline.into().instant()),
        }
    }

    /// Writes the bytes for which there is room now, and returns their number. The peer is woken.
    ///
    /// TLS and websocket accept bytes only if all before them were sent, TLS none before the end of
    /// the handshake, and may keep the last of them until [`Stream::try_flush`] or another call.
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        match &mut self.medium {
            Medium::Shm(stream) => stream.try_write(bytes),
            Medium::Socket(stream) => stream.try_write(bytes),
            Medium::Tls(stream) => stream.try_write(bytes),
            Medium::Web(stream) => stream.try_write(bytes),
            Medium::Quic(stream) => stream.try_write(bytes),
        }
    }

    /// True if bytes that were accepted wait for room in the socket. Only TLS and websocket keep
    /// such bytes.
    pub fn wants_write(&self) -> bool {
        match &self.medium {
            Medium::Shm(_) | Medium::Socket(_) | Medium::Quic(_) => false,
            Medium::Tls(stream) => stream.wants_write(),
            Medium::Web(stream) => stream.wants_write(),
        }
    }

    /// Sends bytes that were accepted as far as there is room; true if none are left. The peer is
    /// woken.
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn try_flush(&mut self) -> Result<bool, WriteError> {
        self.flush();
        match &self.medium {
            Medium::Shm(_) | Medium::Socket(_) | Medium::Quic(_) => Ok(true),
            Medium::Tls(stream) => stream.try_flush(),
            Medium::Web(stream) => stream.try_flush(),
        }
    }

    /// Waits until a `try_read` or a `try_write` may do something; false if the deadline passed.
    /// May return early.
    ///
    /// A program that sends much before it reads the answers waits in this way: a peer that waits
    /// until its answers are read takes no more bytes.
    pub fn wait_ready(&mut self, deadline: Instant) -> bool {
        match &mut self.medium {
            Medium::Shm(stream) => {
                stream.wait_room(LOOK_AGAIN);
                Instant::now() < deadline
            }
            Medium::Socket(stream) => stream.wait_ready(deadline),
            Medium::Tls(stream) => stream.wait_ready(deadline),
            Medium::Web(stream) => stream.wait_ready(deadline),
            Medium::Quic(stream) => stream.wait_ready(deadline),
        }
    }

    /// Returns the socket of a stream that is one, to wait for it among others. There is none for
    /// shared memory.
    ///
    pub fn socket(&self) -> Option<&Arc<OwnedFd>> {
        match &self.medium {
            Medium::Shm(_) => None,
            Medium::Socket(stream) => Some(stream.socket()),
            Medium::Tls(stream) => Some(stream.shared_socket()),
            Medium::Web(stream) => Some(stream.shared_socket()),
            // Its bell.
            Medium::Quic(stream) => Some(stream.event()),
        }
    }

    /// Makes sure that a peer which sleeps is woken to read all that was written. Never waits.
    #[inline]
    pub fn flush(&mut self) {
        match &mut self.medium {
            Medium::Shm(stream) => stream.flush(),
            // All written bytes were given to the kernel.
            Medium::Socket(_) => {}
            // An error is found by the next read or write.
            Medium::Tls(stream) => drop(stream.try_flush()),
            Medium::Web(stream) => drop(stream.try_flush()),
            Medium::Quic(stream) => stream.flush(),
        }
    }

    /// Returns the stopper, which ends a blocked read or write of this stream from another thread.
    pub fn stopper(&self) -> StreamStopper {
        let Connection { socket, attention, layer } = &*self.connection;
        let carries = !matches!(self.medium, Medium::Shm(_));
        StreamStopper { socket: socket.clone(), attention: attention.clone(), carries, layer: layer.clone() }
    }

    /// Returns both halves, so that one thread reads and another writes. The peer sees the end when
    /// both are dropped, or the stream is stopped.
    pub fn split(self) -> (StreamReading, StreamWriting) {
        let Stream { medium, connection, .. } = self;
        let (reading, writing) = match medium {
            Medium::Shm(stream) => {
                let (reading, writing) = stream.split();
                (Reading::Shm(reading), Writing::Shm(writing))
            }
            Medium::Socket(reading) => {
                let Connection { socket, attention, .. } = &*connection;
                let writing = SocketStream::new(socket.clone(), attention.clone());
                (Reading::Socket(reading), Writing::Socket(writing))
            }
            Medium::Tls(stream) => (Reading::Tls(stream.clone()), Writing::Tls(stream)),
            Medium::Web(stream) => (Reading::Web(stream.clone()), Writing::Web(stream)),
            Medium::Quic(stream) => (Reading::Quic(stream.clone()), Writing::Quic(stream)),
        };
        let reading = StreamReading { medium: reading, _connection: connection.clone() };
        (reading, StreamWriting { medium: writing, _connection: connection })
    }

    /// Returns the peer's address, in its shortest form; none if the peer is a process of this
    /// machine that came through a unix socket.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// True if the peer can be told something: for TLS once the handshake is over, else always.
    pub fn is_established(&self) -> bool {
        match &self.medium {
            Medium::Shm(_) | Medium::Socket(_) | Medium::Web(_) | Medium::Quic(_) => true,
            Medium::Tls(stream) => stream.is_established(),
        }
    }

    /// Returns the peer's proof about itself; none over TLS before the handshake is over.
    pub fn identity(&self) -> Identity {
        match &self.medium {
            Medium::Tls(stream) => stream.identity(),
            Medium::Web(stream) => stream.identity(),
            Medium::Quic(stream) => stream.identity(),
            _ if self.ip.is_some() => Identity::None,
            _ => match sockopt::socket_peercred(&self.connection.socket) {
                Ok(peer) => Identity::Local { uid: peer.uid.as_raw() },
                Err(_) => Identity::None,
            },
        }
    }

    /// Returns the watch over the calls of a client; `None` for media without questions, which are
    /// all but QUIC.
    pub fn watch(&self) -> Option<CallWatch> {
        match &self.medium {
            Medium::Quic(stream) => Some(stream.watch()),
            _ => None,
        }
    }

    /// Returns the peer, for logs: `shm pid 123`, `unix pid 123`, `tcp 127.0.0.1:3333`, and the
    /// same with `tls`, `ws`, `wss` and `quic`.
    pub fn describe_peer(&self) -> String {
        self.peer.clone()
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        Connection { socket: Arc::new(socket), attention: Arc::default(), layer: None }
    }
}

fn socket_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn describe_process(scheme: &str, socket: impl AsFd) -> String {
    match sockopt::socket_peercred(socket) {
        Ok(peer) => format!("{scheme} pid {}", peer.pid.as_raw_nonzero()),
        Err(_) => format!("{scheme} pid unknown"),
    }
}
