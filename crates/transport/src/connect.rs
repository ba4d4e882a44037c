//! Connecting a client's socket, and the errors of it.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::address::{Address, default_directory, is_private};
use crate::errors::{ConnectError, ReadError};
use crate::quic::ConnectFailure;
use crate::stream::ConnectOptions;
use crate::tls::HandshakeError;
use crate::websocket::RequestError;

/// Connects to the socket file of an address.
pub(crate) fn connect_unix(
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
pub(crate) fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
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

/// The error of the system, for an address.
pub(crate) fn connect_error(source: io::Error, address: &Address, options: &ConnectOptions) -> ConnectError {
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

/// The error of a handover of shared memory.
pub(crate) fn handover_error(source: io::Error, address: &Address, options: &ConnectOptions) -> ConnectError {
    match source.kind() {
        io::ErrorKind::InvalidData => ConnectError::NotShm { address: address.clone(), source },
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            ConnectError::Closed { address: address.clone() }
        }
        _ => connect_error(source, address, options),
    }
}

/// The error of a handshake of TLS.
pub(crate) fn handshake_error(
    error: HandshakeError,
    address: &Address,
    options: &ConnectOptions,
) -> ConnectError {
    let address = address.clone();
    match error {
        HandshakeError::TimedOut => {
            ConnectError::TimedOut { address, timeout_ms: options.timeout.as_millis() }
        }
        HandshakeError::Closed => ConnectError::Closed { address },
        HandshakeError::Tls(source) => ConnectError::Tls { address, source: Box::new(source) },
        HandshakeError::Io(error) => ConnectError::Io { address, source: error.into() },
    }
}

/// The error of a connection of QUIC.
pub(crate) fn quic_error(
    failure: ConnectFailure,
    address: &Address,
    options: &ConnectOptions,
) -> ConnectError {
    match failure {
        ConnectFailure::TimedOut => connect_error(io::ErrorKind::TimedOut.into(), address, options),
        ConnectFailure::Tls(source) => {
            ConnectError::Tls { address: address.clone(), source: Box::new(source) }
        }
        ConnectFailure::Lost(source) => {
            ConnectError::Quic { address: address.clone(), source: Box::new(source) }
        }
        ConnectFailure::Certificates(source) => ConnectError::Certificates(source),
        ConnectFailure::Io(source) => connect_error(source, address, options),
    }
}

/// The error of a request for a websocket.
pub(crate) fn request_error(
    error: RequestError,
    address: &Address,
    options: &ConnectOptions,
) -> ConnectError {
    let address = address.clone();
    match error {
        RequestError::TimedOut => ConnectError::TimedOut { address, timeout_ms: options.timeout.as_millis() },
        RequestError::Closed => ConnectError::Closed { address },
        RequestError::Web(source) => ConnectError::Web { address, source: Box::new(source) },
        RequestError::Read(ReadError::Tls(source)) => ConnectError::Tls { address, source: Box::new(source) },
        RequestError::Read(error) => ConnectError::Io { address, source: io::Error::other(error) },
    }
}
