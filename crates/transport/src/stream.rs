//! [`Stream`]: bytes in order, both ways, over any of the transports.
//!
//! Read [`Stream`] first. It is made by [`Stream::connect`], by a listener, or as one of two ends
//! within a process. It ends when it is dropped, when the peer is gone, or by a [`StreamStopper`].
//! [`Stream::split`] makes two halves of it, for a thread each, and [`StreamWaiter`] waits for a
//! half that several threads read from.
//!
//! The stream owns its socket, over which all transports notice a hang-up, and its `Medium`: the
//! rings of `crate::shm`, or the buffer of `crate::socket`.

use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use thiserror::Error;

use crate::address::{Address, default_directory, is_private};
use crate::attention::{Attention, DEAF, STOPPED};
use crate::deadline::Deadline;
use crate::identity::Identity;
use crate::shm::{self, ShmReading, ShmStream, ShmWriting};
use crate::socket::{SocketStream, wait_readable};

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
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions { timeout: Duration::from_secs(5), spin_max: shm::spin_max_default() }
    }
}

/// The reason why there is no connection. Nothing is left behind.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nobody listens there.
    #[error("no server listens on {address}: is the server running?")]
    Refused {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The server did not answer in time. A shm address whose server listens with `unix://` ends so
    /// too.
    #[error("{address} did not answer within {timeout_ms} ms")]
    TimedOut {
        /// The address.
        address: Address,
        /// The timeout of the options.
        timeout_ms: u128,
    },
    /// The answering process is no shm listener of this version.
    #[error("{address} cannot be used as shared memory: {source}")]
    NotShm {
        /// The address.
        address: Address,
        /// The fault of the answer.
        source: io::Error,
    },
    /// The server closed the connection before it handed over the shared memory.
    #[error("{address} closed the connection at once: the server is ending or is full")]
    Closed {
        /// The address.
        address: Address,
    },
    /// The path is longer than a socket's name may be.
    #[error("the path of {address} is too long for a socket: at most 107 bytes")]
    PathTooLong {
        /// The address.
        address: Address,
    },
    /// The default directory belongs to another user, or is open to others. Nothing was sent.
    #[error(
        "{} is not private: it must belong to this user and have mode 0700; \
         another user may listen there",
        directory.display()
    )]
    NotPrivate {
        /// The default directory.
        directory: PathBuf,
    },
    /// Anything else that the system refuses.
    #[error("cannot connect to {address}: {source}")]
    Io {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
}

/// The reason why a read gave nothing. Nothing was appended.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The deadline passed. The stream can still be used.
    #[error("the peer sent nothing before the deadline")]
    TimedOut,
    /// `stop` was called; every later read and write says the same.
    #[error("the stream was stopped")]
    Stopped,
    /// The peer broke the ring's positions; every later read and write says the same.
    #[error("the peer corrupted the shared ring")]
    Corrupt,
    /// The system refused.
    #[error("cannot read from the peer: {0}")]
    Io(#[source] io::Error),
}

/// The reason why not all bytes were written. Some of them may have been, so the stream is good for
/// reading only.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The peer did not make room before the deadline.
    #[error("the peer did not read before the deadline")]
    TimedOut,
    /// `stop` was called; every later read and write says the same.
    #[error("the stream was stopped")]
    Stopped,
    /// The peer closed the stream or died. The bytes that it sent before can still be read.
    #[error("the peer closed the stream")]
    Closed,
    /// The peer broke the ring's positions; every later read and write says the same.
    #[error("the peer corrupted the shared ring")]
    Corrupt,
    /// The system refused.
    #[error("cannot write to the peer: {0}")]
    Io(#[source] io::Error),
}

/// A reliable stream of bytes to and from one peer.
///
/// Dropping it closes it: the peer reads the bytes written, then the end.
#[derive(Debug)]
pub struct Stream {
    medium: Medium,
    // After `medium`, which watches the socket for as long as it lives.
    connection: Arc<Connection>,
    peer: String,
    /// The peer's address; none on this machine's transports.
    ip: Option<IpAddr>,
    identity: Identity,
}

#[derive(Debug)]
// One stream is one session: the size of the larger variant does not matter, but a pointer on each
// read does.
#[allow(clippy::large_enum_variant)]
enum Medium {
    Shm(ShmStream),
    Socket(SocketStream),
}

/// The socket under every stream, and the word that stops it. Shut down when dropped, because a
/// stopper may keep the socket itself open.
#[derive(Debug)]
struct Connection {
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
}

/// The longest wait for one direction of shared memory before the other one is looked at.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

impl Drop for Connection {
    fn drop(&mut self) {
        // Fails if the peer was first.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

/// The watch for the end of a stream's peer, until it is dropped: [`Stream::on_hang_up`],
/// [`Stream::on_sent_last`].
#[derive(Debug)]
pub struct HangUp {
    _watch: shm::Watch,
}

/// Ends the reads and writes of one stream, from any thread.
#[derive(Clone, Debug)]
pub struct StreamStopper {
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
    /// True if the bytes go through the socket; for shared memory the socket only tells that the
    /// peer lives.
    carries: bool,
}

impl StreamStopper {
    /// Ends a blocked read or write, and all later ones, with `Stopped`. The peer sees the stream's
    /// end.
    pub fn stop(&self) {
        self.attention.raise(STOPPED);
        // After the bit, so that a reader woken by the shutdown knows the reason.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// True if the kernel holds no byte of the peer that was not read. Always false for shared
    /// memory, whose bytes do not pass through the kernel: some may be there.
    pub fn is_silent(&self) -> bool {
        self.carries && !matches!(wait_readable(&self.socket, Instant::now()), Ok(true))
    }

    /// Ends a blocked read, and all later ones, with `Stopped`. Bytes that are written still
    /// arrive: time for a last word.
    pub fn stop_reading(&self) {
        self.attention.raise(DEAF);
        if self.carries {
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Read);
        }
    }
}

impl Stream {
    /// Connects to the server that listens on `address`.
    pub fn connect(address: &Address, options: &ConnectOptions) -> Result<Stream, ConnectError> {
        let deadline = Instant::now() + options.timeout;
        match address {
            Address::Unix(_) => {
                let socket = connect_unix(address, options, deadline)?;
                Ok(Stream::over_socket(socket, "unix"))
            }
            Address::Shm(_) => {
                let connection = Connection::new(connect_unix(address, options, deadline)?);
                let Connection { socket, attention } = &connection;
                let medium = ShmStream::connect(socket, attention, deadline, options.spin_max)
                    .map_err(|error| handover_error(error, address, options))?;
                Ok(Stream::over_shm(medium, connection))
            }
            Address::Tcp { host, port } => {
                let stream = connect_tcp(host, *port, deadline)
                    .map_err(|error| connect_error(error, address, options))?;
                Stream::over_tcp(stream).map_err(|error| connect_error(error, address, options))
            }
        }
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
        let Connection { socket, attention } = &connection;
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
        let identity = Identity::of_process(&connection.socket);
        Stream { medium: Medium::Shm(medium), connection: Arc::new(connection), peer, ip: None, identity }
    }

    /// Makes a stream over a connected unix socket.
    pub(crate) fn over_socket(socket: OwnedFd, scheme: &str) -> Stream {
        let peer = describe_process(scheme, &socket);
        let identity = Identity::of_process(&socket);
        Stream::over_described_socket(socket, peer, None, identity)
    }

    /// Makes a stream over a connected TCP socket.
    pub(crate) fn over_tcp(stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let address = stream.peer_addr()?;
        let (peer, ip) = (format!("tcp {address}"), address.ip().to_canonical());
        Ok(Stream::over_described_socket(stream.into(), peer, Some(ip), Identity::None))
    }

    fn over_described_socket(
        socket: OwnedFd,
        peer: String,
        ip: Option<IpAddr>,
        identity: Identity,
    ) -> Stream {
        let connection = Connection::new(socket);
        let medium = SocketStream::new(connection.socket.clone(), connection.attention.clone());
        Stream { medium: Medium::Socket(medium), connection: Arc::new(connection), peer, ip, identity }
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
        }
    }

    /// Reads as `read`, without waiting: `None` if nothing is there now.
    ///
    /// # Panics
    /// If `limit` is 0.
    #[inline]
    pub fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        assert!(limit > 0, "a read of at most 0 bytes cannot be told from the end");
        match &mut self.medium {
            Medium::Shm(stream) => stream.try_read(into, limit),
            Medium::Socket(stream) => stream.try_read(into, limit),
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
        }
    }

    /// Writes the bytes for which there is room now, and returns their number. The peer is woken.
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        match &mut self.medium {
            Medium::Shm(stream) => stream.try_write(bytes),
            Medium::Socket(stream) => stream.try_write(bytes),
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
        }
    }

    /// Returns the socket of a stream that is one, to wait for it among others. There is none for
    /// shared memory.
    ///
    /// Bytes that were received and not read are not seen there: read until there are none.
    pub fn socket(&self) -> Option<&Arc<OwnedFd>> {
        match &self.medium {
            Medium::Shm(_) => None,
            Medium::Socket(stream) => Some(stream.socket()),
        }
    }

    /// Makes sure that a peer which sleeps is woken to read all that was written. Never waits.
    #[inline]
    pub fn flush(&mut self) {
        match &mut self.medium {
            Medium::Shm(stream) => stream.flush(),
            // All written bytes were given to the kernel.
            Medium::Socket(_) => {}
        }
    }

    /// Returns the stopper, which ends a blocked read or write of this stream from another thread.
    pub fn stopper(&self) -> StreamStopper {
        let Connection { socket, attention } = &*self.connection;
        let carries = matches!(self.medium, Medium::Socket(_));
        StreamStopper { socket: socket.clone(), attention: attention.clone(), carries }
    }

    /// Calls a function, from another thread and once at most, when the peer hangs up or dies,
    /// which it may have done already. The function must not take long. It is not called after the
    /// result was dropped.
    ///
    /// A peer that has shut down its sending half may still read, so that is no hang-up. Over TCP
    /// the end of a peer looks the same until something is written to it.
    ///
    /// # Errors
    /// The system has no means for it.
    pub fn on_hang_up(&self, called: impl Fn() + Send + 'static) -> io::Result<HangUp> {
        let sign = match self.medium {
            Medium::Shm(_) => shm::Sign::SentLast,
            Medium::Socket(_) => shm::Sign::Gone,
        };
        self.watch_peer(sign, called)
    }

    /// As [`Stream::on_hang_up`], but also when the peer has only shut down its sending half. Bytes
    /// that it sent before may not have been read yet.
    ///
    /// # Errors
    /// The system has no means for it.
    pub fn on_sent_last(&self, called: impl Fn() + Send + 'static) -> io::Result<HangUp> {
        self.watch_peer(shm::Sign::SentLast, called)
    }

    fn watch_peer(&self, sign: shm::Sign, called: impl Fn() + Send + 'static) -> io::Result<HangUp> {
        // Shared memory watches the socket itself, too.
        let socket = Arc::new(rustix::io::fcntl_dupfd_cloexec(&*self.connection.socket, 0)?);
        Ok(HangUp { _watch: shm::watch_with(socket, sign, Box::new(called))? })
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
                let Connection { socket, attention } = &*connection;
                let writing = SocketStream::new(socket.clone(), attention.clone());
                (Reading::Socket(reading), Writing::Socket(writing))
            }
        };
        let reading = StreamReading { medium: reading, _connection: connection.clone() };
        (reading, StreamWriting { medium: writing, _connection: connection })
    }

    /// Returns the peer's address, in its shortest form; none if the peer is a process of this
    /// machine that came through a unix socket.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// Returns the identity of the peer that the transport vouches for.
    pub fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// Returns the peer, for logs: `shm pid 123`, `unix pid 123` or `tcp 127.0.0.1:3333`.
    pub fn describe_peer(&self) -> String {
        self.peer.clone()
    }
}

/// The half of a stream that reads.
#[derive(Debug)]
pub struct StreamReading {
    medium: Reading,
    _connection: Arc<Connection>,
}

#[derive(Debug)]
enum Reading {
    Shm(ShmReading),
    Socket(SocketStream),
}

impl StreamReading {
    /// As [`Stream::read`].
    ///
    /// # Errors
    /// [`ReadError`]
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn read(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        deadline: impl Into<Deadline>,
    ) -> Result<usize, ReadError> {
        assert!(limit > 0, "a read of at most 0 bytes cannot be told from the end");
        match &mut self.medium {
            Reading::Shm(stream) => stream.read(into, limit, deadline.into(), || {}),
            Reading::Socket(stream) => stream.read(into, limit, deadline.into().instant()),
        }
    }
}

impl StreamReading {
    /// As [`Stream::try_read`].
    ///
    /// # Errors
    /// [`ReadError`]
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        assert!(limit > 0, "a read of at most 0 bytes cannot be told from the end");
        match &mut self.medium {
            Reading::Shm(stream) => stream.try_read(into, limit),
            Reading::Socket(stream) => stream.try_read(into, limit),
        }
    }

    /// Returns the waiter, which waits for this half while several threads read from it in turn;
    /// none for a socket.
    pub fn waiter(&self) -> Option<StreamWaiter> {
        match &self.medium {
            Reading::Shm(stream) => Some(StreamWaiter(stream.waiter())),
            Reading::Socket(_) => None,
        }
    }

    /// Returns the position of the peer at the last read, for [`StreamWaiter::wait`].
    pub fn position(&self) -> u64 {
        match &self.medium {
            Reading::Shm(stream) => stream.position(),
            Reading::Socket(_) => 0,
        }
    }
}

/// Waits until a half of a stream over shared memory can be read.
///
/// One thread sleeps in [`StreamWaiter::wait`]. Other threads look by themselves for a while, with
/// [`StreamReading::try_read`], and spare the peer to wake that one. They say so before, and
/// afterwards, and look once more then.
#[derive(Debug)]
pub struct StreamWaiter(shm::ShmWaiter);

impl StreamWaiter {
    /// Sleeps until more can be read than up to a position, or the stream has ended. Returns true
    /// if that was before the deadline.
    pub fn wait(&self, position: u64, deadline: impl Into<Deadline>) -> bool {
        self.0.wait(position, deadline.into())
    }

    /// Notes that a thread looks.
    pub fn begin_look(&self) {
        self.0.begin_look();
    }

    /// Notes that no thread looks: bytes that come from now on wake the sleeper.
    pub fn end_look(&self) {
        self.0.end_look();
    }
}

/// The half of a stream that writes.
#[derive(Debug)]
pub struct StreamWriting {
    medium: Writing,
    _connection: Arc<Connection>,
}

#[derive(Debug)]
enum Writing {
    Shm(ShmWriting),
    Socket(SocketStream),
}

impl StreamWriting {
    /// As [`Stream::write`] and [`Stream::flush`].
    ///
    /// # Errors
    /// [`WriteError`]
    #[inline]
    pub fn write(&mut self, bytes: &[u8], deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        match &mut self.medium {
            Writing::Shm(stream) => {
                let written = stream.write(bytes, deadline.into());
                stream.flush();
                written
            }
            Writing::Socket(stream) => stream.write(bytes, deadline.into().instant()),
        }
    }
}

impl Connection {
    fn new(socket: OwnedFd) -> Connection {
        Connection { socket: Arc::new(socket), attention: Arc::default() }
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

fn connect_unix(
    address: &Address,
    options: &ConnectOptions,
    deadline: Instant,
) -> Result<OwnedFd, ConnectError> {
    let path = address.path().expect("only addresses with a path come here");
    let directory = default_directory();
    if path.parent() == Some(&directory) {
        match std::fs::metadata(&directory) {
            Ok(found) if !is_private(&found) => return Err(ConnectError::NotPrivate { directory }),
            // Without the directory there is no socket either.
            _ => {}
        }
    }
    let name = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => ConnectError::PathTooLong { address: address.clone() },
        _ => connect_error(error.into(), address, options),
    })?;
    let connect = || {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // A connect waits if the server's queue is full; for a unix socket this bounds it.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(left))?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &name))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
        Ok::<_, Errno>(socket)
    };
    connect().map_err(|error| match error {
        Errno::AGAIN => connect_error(io::ErrorKind::TimedOut.into(), address, options),
        _ => connect_error(error.into(), address, options),
    })
}

/// Tries each address of the host in turn until the deadline; the last error is the one reported.
fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for one in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&one, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

fn connect_error(source: io::Error, address: &Address, options: &ConnectOptions) -> ConnectError {
    let address = address.clone();
    match source.kind() {
        io::ErrorKind::ConnectionRefused => ConnectError::Refused { address, source },
        io::ErrorKind::NotFound if address.path().is_some() => ConnectError::Refused { address, source },
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            ConnectError::TimedOut { address, timeout_ms: options.timeout.as_millis() }
        }
        _ => ConnectError::Io { address, source },
    }
}

fn handover_error(source: io::Error, address: &Address, options: &ConnectOptions) -> ConnectError {
    match source.kind() {
        io::ErrorKind::InvalidData => ConnectError::NotShm { address: address.clone(), source },
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            ConnectError::Closed { address: address.clone() }
        }
        _ => connect_error(source, address, options),
    }
}
