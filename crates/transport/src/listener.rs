//! [`Listener`]: the place where a server takes connections, and the socket files it keeps.
//!
//! [`Listener::bind`] makes one, and [`Listener::serve`] hands over one connection after the other
//! until [`Stopper::stop`]. The listener owns its socket and the socket's file, which it removes
//! when it is dropped.
//!
//! A socket file outlives the process that made it. A server that finds one in its place tries to
//! connect: only if nobody answers is the file removed. Two servers that start at once are kept
//! apart by a lock on the directory, held from the first look until the new socket listens.

use std::fs::{DirBuilder, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::time::Timespec;
use thiserror::Error;

use crate::address::{Address, default_directory, is_private};
use crate::quic::{self, Port, QuicLimits, QuicStream};
use crate::shm::{self, RING_BYTES_DEFAULT};
use crate::stream::Stream;
use crate::tls::{Machine, Protocol, TlsServer};

/// The options of a listener.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Shared memory: the size of each direction's ring, a power of two from [`RING_BYTES_MIN`] to
    /// [`RING_BYTES_MAX`]. Memory is used only for the part of it that was ever filled. Default: 1
    /// MiB.
    ///
    /// [`RING_BYTES_MIN`]: crate::RING_BYTES_MIN
    /// [`RING_BYTES_MAX`]: crate::RING_BYTES_MAX
    pub ring_bytes: usize,
    /// Shared memory: the longest spin before a sleep; zero for none. Default:
    /// [`spin_max_default`].
    ///
    /// [`spin_max_default`]: crate::spin_max_default
    pub spin_max: Duration,
    /// Connections that may wait to be accepted. Default: 1024; the system may have a lower limit.
    pub backlog: i32,
    /// TLS: the certificate, which a `tls://`, `wss://` or `quic://` address needs. Default: none.
    pub tls: Option<TlsServer>,
    /// QUIC: the limits of its connections.
    pub quic: QuicLimits,
    /// The protocol that clients of TLS agree on. For a `ws://` or `wss://` address it is always
    /// HTTP: the user answers the requests for websockets. Default: this system's.
    pub protocol: Protocol,
    /// The permissions of the file of a unix socket, that of shared memory included. Default: 0600,
    /// so that this user alone may connect.
    pub mode: u32,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions {
            ring_bytes: RING_BYTES_DEFAULT,
            spin_max: shm::spin_max_default(),
            backlog: 1024,
            tls: None,
            quic: QuicLimits::default(),
            protocol: Protocol::default(),
            mode: 0o600,
        }
    }
}

/// The reason why a server cannot listen. Nothing is left behind, other than a directory that was
/// created.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Somebody listens there already.
    #[error("{address} is in use: another server listens there")]
    InUse {
        /// The address.
        address: Address,
    },
    /// There is a file in the socket's place that is no socket; it was left alone.
    #[error("{address} cannot be used: a file that is not a socket exists at its path")]
    NotASocket {
        /// The address.
        address: Address,
    },
    /// Another process holds the lock on the directory of the socket.
    #[error("{address} cannot be used now: another process holds the lock on its directory")]
    Locked {
        /// The address.
        address: Address,
    },
    /// The default directory belongs to somebody else or is open to others.
    #[error("{} is not private: it must belong to this user and have mode 0700", directory.display())]
    NotPrivate {
        /// The default directory.
        directory: PathBuf,
    },
    /// The path is longer than a socket's name may be.
    #[error("the path of {address} is too long for a socket: at most 107 bytes")]
    PathTooLong {
        /// The address.
        address: Address,
    },
    /// The rings of the options have a size that is not allowed.
    #[error(
        "rings of {ring_bytes} bytes are invalid: the size must be a power of two from 4096 to 1073741824"
    )]
    RingSize {
        /// The size asked for.
        ring_bytes: usize,
    },
    /// The address has a pin, which is for clients.
    #[error("{address} cannot be listened on: a pin is for clients, and a server prints its own")]
    Pin {
        /// The address.
        address: Address,
    },
    /// There is no certificate for TLS.
    #[error("{address} needs a certificate: give its files, as `bifrost certificate` makes them")]
    NoCertificate {
        /// The address.
        address: Address,
    },
    /// Anything else that the system refuses.
    #[error("cannot listen on {address}: {source}")]
    Io {
        /// The address.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
}

/// The reason why a connection could not be taken. The listener can still be used: the cause is a
/// shortage of this process or machine (descriptors, memory), which may pass. A client's fault is
/// never reported here.
#[derive(Debug, Error)]
#[error("cannot accept a connection: {source}")]
pub struct AcceptError {
    /// The system's error.
    pub source: io::Error,
}

/// The time that [`Listener::serve`] waits before it tries again.
pub const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// The time after which a shortage that was not felt is over.
const SHORTAGE_CALM: Duration = Duration::from_secs(1);

/// The begin or end of a time in which no connection can be taken.
#[derive(Debug)]
pub enum Shortage {
    /// A connection could not be taken, and those that follow wait.
    Begins(AcceptError),
    /// Connections are taken again, after so long.
    Ends(Duration),
}

/// The place where a server takes connections, until dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: Address,
    options: ListenOptions,
    stopper: Stopper,
    /// The socket of QUIC. Then `socket` is readable while there are streams.
    quic: Option<QuicPort>,
    _file: Option<SocketFile>,
}

/// The socket of a listener of QUIC, which takes no new connections once this is dropped.
#[derive(Debug)]
struct QuicPort(Arc<Port>);

impl Drop for QuicPort {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Ends the accepting of one listener, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<Stop>,
}

#[derive(Debug)]
struct Stop {
    is_stopped: AtomicBool,
    event: OwnedFd,
}

impl Stopper {
    fn new() -> io::Result<Stopper> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Stopper { stop: Arc::new(Stop { is_stopped: AtomicBool::new(false), event }) })
    }

    /// Makes `accept`, running and later, return `None`.
    pub fn stop(&self) {
        self.stop.is_stopped.store(true, Ordering::Release);
        // Fails only if the counter is full, and then it is readable, which is all that is wanted.
        let _ = rustix::io::write(&self.stop.event, &1u64.to_ne_bytes());
    }
}

impl Listener {
    /// Listens on `address`. A missing directory of a socket is created with mode 0700; the socket
    /// has the mode of the options. A socket file of a server that is gone is replaced.
    pub fn bind(address: &Address, options: &ListenOptions) -> Result<Listener, ListenError> {
        if !shm::is_ring_size(options.ring_bytes as u64) {
            return Err(ListenError::RingSize { ring_bytes: options.ring_bytes });
        }
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { address: address.clone() },
            _ => ListenError::Io { address: address.clone(), source },
        };
        let stopper = Stopper::new().map_err(fail)?;
        let mut quic = None;
        let (socket, address, file) = match address {
            Address::Tls { pin: Some(_), .. }
            | Address::Quic { pin: Some(_), .. }
            | Address::Wss { pin: Some(_), .. } => {
                return Err(ListenError::Pin { address: address.clone() });
            }
            Address::Quic { host, port, .. } => {
                let Some(tls) = options.tls.clone() else {
                    return Err(ListenError::NoCertificate { address: address.clone() });
                };
                let (made, port) = quic::listen(host, *port, tls, options.quic.clone()).map_err(fail)?;
                let made = quic.insert(QuicPort(made));
                let event = made.0.accept_event().map(OwnedFd::try_clone).transpose().map_err(fail)?;
                let event = event.ok_or(io::ErrorKind::Unsupported.into()).map_err(fail)?;
                (event, address.clone().bound_to(port), None)
            }
            Address::Tls { .. } | Address::Wss { .. } if options.tls.is_none() => {
                return Err(ListenError::NoCertificate { address: address.clone() });
            }
            Address::Tcp { host, port }
            | Address::Tls { host, port, .. }
            | Address::Ws { host, port, .. }
            | Address::Wss { host, port, .. } => {
                let listener = TcpListener::bind((host.as_str(), *port)).map_err(fail)?;
                listener.set_nonblocking(true).map_err(fail)?;
                rustix::net::listen(&listener, options.backlog).map_err(io::Error::from).map_err(fail)?;
                let port = listener.local_addr().map_err(fail)?.port();
                (listener.into(), address.clone().bound_to(port), None)
            }
            Address::Shm(path) | Address::Unix(path) => {
                let (socket, file) = bind_path(address, path, options)?;
                (socket, address.clone(), Some(file))
            }
        };
        Ok(Listener { socket, address, options: options.clone(), stopper, quic, _file: file })
    }

    /// Returns the address given to `bind`, with the actual port if port 0 was asked for.
    pub fn local_address(&self) -> &Address {
        &self.address
    }

    /// Returns the stopper, which makes `accept` return `None` from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for a client and returns the stream to it; `None` once stopped.
    ///
    /// Never waits for anything a client does after it connected: the handshake of TLS is part of
    /// the first read. A shm client costs two
    /// descriptors and, until it sends something, a page or two.
    pub fn accept(&self) -> Result<Option<Stream>, AcceptError> {
        loop {
            if self.stopper.stop.is_stopped.load(Ordering::Acquire) {
                return Ok(None);
            }
            match self.accept_now() {
                Ok(Some(stream)) => return Ok(Some(stream)),
                Ok(None) => {}
                Err(source) => return Err(AcceptError { source }),
            }
        }
    }

    /// Hands over one connection after the other, until stopped.
    ///
    /// When the process or machine is short of resources for a connection, it tries again every
    /// [`SHORTAGE_PAUSE`]; connections wait in the system's queue meanwhile. `told` is called once
    /// when a shortage begins, and once when it is over.
    pub fn serve(&self, mut told: impl FnMut(Shortage), mut take: impl FnMut(Stream)) {
        // The times when the shortage began, and when it was last felt.
        let mut shortage: Option<(Instant, Instant)> = None;
        loop {
            match self.accept() {
                Ok(None) => return,
                Ok(Some(stream)) => {
                    // A descriptor that is free for a moment is no end.
                    if let Some((since, _)) = shortage.filter(|(_, felt)| felt.elapsed() > SHORTAGE_CALM) {
                        told(Shortage::Ends(since.elapsed()));
                        shortage = None;
                    }
                    take(stream);
                }
                Err(error) => {
                    let now = Instant::now();
                    match &mut shortage {
                        Some((_, felt)) => *felt = now,
                        None => {
                            shortage = Some((now, now));
                            told(Shortage::Begins(error));
                        }
                    }
                    self.wait_for_stop(SHORTAGE_PAUSE);
                }
            }
        }
    }

    /// Waits for a stop, but not longer than `time`.
    fn wait_for_stop(&self, time: Duration) {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // A wait that is interrupted is a shorter one.
        let _ = poll(&mut [PollFd::new(&self.stopper.stop.event, PollFlags::IN)], Some(&time));
    }

    /// Takes a connection if one is there, else waits for one or for a stop.
    fn accept_now(&self) -> io::Result<Option<Stream>> {
        if let Some(QuicPort(port)) = &self.quic {
            if let Some(accepted) = port.accept() {
                return QuicStream::accept(accepted).map(Stream::over_quic).map(Some);
            }
            self.wait()?;
            return Ok(None);
        }
        let socket = match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => {
                self.wait()?;
                return Ok(None);
            }
            Err(error) if is_clients_fault(error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stream = match self.address {
            Address::Unix(_) => Ok(Stream::over_socket(socket, "unix")),
            Address::Tcp { .. } => Stream::over_tcp(socket.into()),
            Address::Ws { .. } => Stream::over_tcp_as("ws", socket.into()),
            Address::Tls { .. } | Address::Wss { .. } => match self.accept_tls() {
                Some(Ok(machine)) => {
                    let scheme = if self.address.is_web() { "wss" } else { "tls" };
                    Stream::over_tls_as(scheme, socket.into(), machine)
                }
                Some(Err(error)) => Err(io::Error::other(error)),
                // `bind` has refused it.
                None => return Ok(None),
            },
            Address::Shm(_) => Stream::serve_shm(socket, self.options.ring_bytes, self.options.spin_max),
            // Its streams are accepted above.
            Address::Quic { .. } => return Ok(None),
        };
        match stream {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if Errno::from_io_error(&error).is_some_and(is_clients_fault) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Listener {
    /// Waits for a connection or for a stop.
    fn wait(&self) -> io::Result<()> {
        let mut waited_for =
            [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.stopper.stop.event, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut waited_for, None))?;
        Ok(())
    }

    fn accept_tls(&self) -> Option<Result<Machine, rustls::Error>> {
        let protocol = if self.address.is_web() { Protocol::Http } else { self.options.protocol };
        self.options.tls.as_ref().map(|tls| tls.accept(protocol))
    }
}

/// True if this error ends one connection and says nothing of the listener. Linux passes errors of
/// the new connection's network to accept, see accept(2).
fn is_clients_fault(error: Errno) -> bool {
    matches!(
        error,
        Errno::INTR
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::PIPE
            | Errno::NOTCONN
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::PERM
    )
}

/// A socket's file, removed when dropped unless somebody has put another one in its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode));
        if is_ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a socket that listens at the path, and its file.
fn bind_path(
    address: &Address,
    path: &Path,
    options: &ListenOptions,
) -> Result<(OwnedFd, SocketFile), ListenError> {
    let fail = |source: io::Error| ListenError::Io { address: address.clone(), source };
    let name = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => ListenError::PathTooLong { address: address.clone() },
        _ => fail(error.into()),
    })?;
    let _lock = lock_directory(address, path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| fail(error.into()))?;
    match rustix::net::bind(&socket, &name) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(address, path, &name)?;
            rustix::net::bind(&socket, &name).map_err(|error| fail(error.into()))?;
        }
        other => other.map_err(|error| fail(error.into()))?,
    }
    let found = std::fs::symlink_metadata(path).map_err(fail)?;
    let file = SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() };
    // Nobody can connect before `listen`, so nobody slips in before the mode is set.
    std::fs::set_permissions(path, PermissionsExt::from_mode(options.mode)).map_err(fail)?;
    rustix::net::listen(&socket, options.backlog).map_err(|error| fail(error.into()))?;
    Ok((socket, file))
}

/// Locks the socket's directory, until dropped; creates it if it is missing.
fn lock_directory(address: &Address, path: &Path) -> Result<File, ListenError> {
    let fail = |source: io::Error| ListenError::Io { address: address.clone(), source };
    let directory = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(fail)?;
    let opened = File::open(directory).map_err(fail)?;
    if directory == default_directory() {
        let found = opened.metadata().map_err(fail)?;
        if !is_private(&found) {
            return Err(ListenError::NotPrivate { directory: directory.to_owned() });
        }
    }
    // Honest servers hold the lock for microseconds; a process that keeps it must not make us hang.
    for _ in 0..100 {
        match rustix::fs::flock(opened.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(fail(error.into())),
        }
    }
    Err(ListenError::Locked { address: address.clone() })
}

/// Removes the file at the path if it is a socket where nobody listens.
fn remove_stale(address: &Address, path: &Path, name: &SocketAddrUnix) -> Result<(), ListenError> {
    let fail = |source: io::Error| ListenError::Io { address: address.clone(), source };
    let found = std::fs::symlink_metadata(path).map_err(fail)?;
    if !found.file_type().is_socket() {
        return Err(ListenError::NotASocket { address: address.clone() });
    }
    // Must not wait: a server whose queue is full is a server.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| fail(error.into()))?;
    match rustix::net::connect(&probe, name) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(fail),
        Ok(()) | Err(_) => Err(ListenError::InUse { address: address.clone() }),
    }
}
