//! A stream over TLS 1.3, which is over a TCP socket.
//!
//! Read [`TlsStream`] first. [`Machine`] is the state of a connection without its socket; `trust`
//! has the certificates of both sides; `error` the failures with their remedies.
//!
//! Nothing here waits but [`TlsStream::read`], [`TlsStream::write`] and [`TlsStream::shake_hands`],
//! which wait outside the lock: the two halves of a stream share one machine.
//!
//! - [`TlsStream::try_read`] goes on with the handshake, sends what is to be sent, and takes the
//!   socket to `EAGAIN` before it says that nothing is there.
//! - [`TlsStream::try_write`] accepts content only if all before it was sent. Sealed bytes for
//!   which the socket has no room, of one record at most, are kept ([`TlsStream::wants_write`]) and
//!   are sent by the next call of any kind.
//! - An idle connection has no buffers.

mod error;
mod machine;
mod trust;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

pub use error::TlsError;
pub(crate) use machine::Machine;
use machine::RECORD_BYTES;
pub(crate) use trust::{AUTHORITIES, PINNED, Trusting, Witness, connect, names_of, trusting};
pub use trust::{
    CertificateFileError, Clients, KeyFiles, Protocol, TlsMeans, TlsOptions, TlsServer, tls_means,
};

use crate::attention::Attention;
use crate::errors::{ReadError, WriteError};
use crate::identity::Identity;
use crate::patient::Patient;

/// One end of a stream over TLS, or a half of it. Clones are the same end.
#[derive(Clone, Debug)]
pub(crate) struct TlsStream {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
    /// True once the handshake is over.
    is_established: AtomicBool,
    machine: Mutex<Machine>,
}

/// The reason why a handshake did not succeed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The deadline passed.
    TimedOut,
    /// The peer closed the connection.
    Closed,
    /// The handshake failed.
    Tls(TlsError),
    /// The system refused.
    Io(Errno),
}

/// The result of sending the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    All,
    /// The socket has no room for the rest.
    Some,
    /// The peer takes no more.
    Closed,
}

impl TlsStream {
    pub(crate) fn new(socket: Arc<OwnedFd>, attention: Arc<Attention>, machine: Machine) -> TlsStream {
        let (is_established, machine) = (AtomicBool::new(false), Mutex::new(machine));
        TlsStream { shared: Arc::new(Shared { socket, attention, is_established, machine }) }
    }

    /// The socket that the bytes go through.
    pub(crate) fn shared_socket(&self) -> &Arc<OwnedFd> {
        &self.shared.socket
    }

    /// True if the handshake is over.
    pub(crate) fn is_established(&self) -> bool {
        self.shared.is_established.load(Ordering::Acquire)
    }

    pub(crate) fn identity(&self) -> Identity {
        self.shared.machine().identity()
    }

    /// Sends sealed bytes without waiting; true if none are left.
    pub(crate) fn try_flush(&self) -> Result<bool, WriteError> {
        if self.shared.attention.is_stopped() {
            return Err(WriteError::Stopped);
        }
        match self.shared.send(&mut self.shared.machine())? {
            Sent::All => Ok(true),
            Sent::Some => Ok(false),
            Sent::Closed => Err(WriteError::Closed),
        }
    }

    /// Writes the last bytes of a stream, which may be stopped, if there is room for them.
    pub(crate) fn write_last(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        let mut machine = self.shared.machine();
        if self.shared.send(&mut machine)? != Sent::All {
            return Ok(0);
        }
        let record = &bytes[..bytes.len().min(RECORD_BYTES)];
        if !machine.seal(record).map_err(|_| WriteError::Closed)? {
            return Ok(0);
        }
        let _ = self.shared.send(&mut machine);
        Ok(record.len())
    }

    /// Says the last word as far as that needs no waiting.
    pub(crate) fn close(&self) {
        let mut machine = self.shared.machine();
        machine.close();
        // A peer that does not take it finds the stream cut off.
        let _ = self.shared.send(&mut machine);
    }

    /// Waits for the end of the handshake.
    pub(crate) fn shake_hands(&self, deadline: Instant) -> Result<(), HandshakeError> {
        let shared = &*self.shared;
        loop {
            let mut machine = shared.machine();
            let sent = shared.send(&mut machine);
            if let Some(failed) = machine.failed() {
                return Err(HandshakeError::Tls(failed.clone()));
            }
            if machine.is_established() && sent.is_ok_and(|sent| sent == Sent::All) {
                return Ok(());
            }
            let received = shared.receive(&mut machine, &mut Vec::new(), 0);
            let is_established = machine.is_established();
            // An alert, or the answer.
            let _ = shared.send(&mut machine);
            drop(machine);
            match received {
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(ReadError::Tls(TlsError::Cut)) if !is_established => return Err(HandshakeError::Closed),
                Err(ReadError::Tls(error)) => return Err(HandshakeError::Tls(error)),
                Err(_) => return Err(HandshakeError::Closed),
            }
            match self.wait(PollFlags::IN, Some(deadline)) {
                Ok(true) => {}
                Ok(false) => return Err(HandshakeError::TimedOut),
                Err(error) => return Err(HandshakeError::Io(error)),
            }
        }
    }

    /// Waits until there is content, or bytes to be received, or room; false if the deadline
    /// passed.
    pub(crate) fn wait_ready(&self, deadline: Instant) -> bool {
        let has_content = self.shared.machine().has_content();
        // Room is of no use before the handshake is over.
        let room = if self.is_established() { PollFlags::OUT } else { PollFlags::empty() };
        // After an error the next read or write finds the reason.
        has_content || self.wait(PollFlags::IN | room, Some(deadline)).unwrap_or(true)
    }
}

impl Patient for TlsStream {
    fn try_read(&self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        let shared = &*self.shared;
        if shared.attention.is_deaf() {
            return Err(ReadError::Stopped);
        }
        let mut machine = shared.machine();
        loop {
            let count = machine.take_content(into, limit);
            if count > 0 {
                return Ok(Some(count));
            }
            // The answer of a handshake or an alert. If the peer is gone, the read says so.
            let _ = shared.send(&mut machine);
            if let Some(failed) = machine.failed() {
                return Err(ReadError::Tls(failed.clone()));
            }
            if machine.is_peer_closed() {
                return Ok(Some(0));
            }
            let received = shared.receive(&mut machine, into, limit);
            if shared.attention.is_deaf() {
                return Err(ReadError::Stopped);
            }
            match received {
                Ok(None) => {
                    machine.release_input();
                    return Ok(None);
                }
                Ok(Some(0)) => {}
                Ok(Some(count)) => {
                    // A key that was changed, or the answer of a handshake before the content.
                    let _ = shared.send(&mut machine);
                    return Ok(Some(count));
                }
                Err(error) => {
                    let _ = shared.send(&mut machine);
                    return Err(error);
                }
            }
        }
    }

    fn try_write(&self, bytes: &[u8]) -> Result<usize, WriteError> {
        let shared = &*self.shared;
        let mut machine = shared.machine();
        let mut accepted = 0;
        loop {
            if shared.attention.is_stopped() {
                return Err(WriteError::Stopped);
            }
            match shared.send(&mut machine)? {
                Sent::All => {}
                Sent::Some => return Ok(accepted),
                Sent::Closed => return Err(WriteError::Closed),
            }
            // The reader is told the reason.
            if machine.failed().is_some() {
                return Err(WriteError::Closed);
            }
            if !machine.is_established() {
                match shared.receive(&mut machine, &mut Vec::new(), 0) {
                    Ok(None) => {
                        machine.release_input();
                        return Ok(0);
                    }
                    Ok(Some(_)) => {}
                    Err(_) => {
                        let _ = shared.send(&mut machine);
                        return Err(WriteError::Closed);
                    }
                }
                continue;
            }
            if accepted == bytes.len() {
                return Ok(accepted);
            }
            let record = &bytes[accepted..bytes.len().min(accepted + RECORD_BYTES)];
            machine.seal(record).map_err(|_| WriteError::Closed)?;
            accepted += record.len();
        }
    }

    fn wants_write(&self) -> bool {
        !self.shared.machine().output().is_empty()
    }

    fn socket(&self) -> &OwnedFd {
        &self.shared.socket
    }

    fn write_events(&self) -> PollFlags {
        // Room is of no use before the handshake is over.
        if self.is_established() { PollFlags::OUT } else { PollFlags::IN }
    }
}

impl Shared {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the output without waiting.
    fn send(&self, machine: &mut Machine) -> Result<Sent, WriteError> {
        while !machine.output().is_empty() {
            match rustix::net::send(&self.socket, machine.output(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
            {
                Ok(count) => machine.sent(count),
                Err(Errno::AGAIN) => return Ok(Sent::Some),
                Err(Errno::INTR) => {}
                Err(error) => {
                    machine.drop_output();
                    return match error {
                        _ if self.attention.is_stopped() => Err(WriteError::Stopped),
                        Errno::PIPE | Errno::CONNRESET | Errno::TIMEDOUT => Ok(Sent::Closed),
                        error => Err(WriteError::Io(error.into())),
                    };
                }
            }
        }
        Ok(Sent::All)
    }

    /// Receives once without waiting. Returns the bytes of content that were appended to `into`;
    /// `None` if nothing is there to be received.
    fn receive(
        &self,
        machine: &mut Machine,
        into: &mut Vec<u8>,
        limit: usize,
    ) -> Result<Option<usize>, ReadError> {
        let room = machine.room().map_err(ReadError::Tls)?;
        let received = loop {
            match rustix::net::recv(&self.socket, spare_capacity(room), RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                received => break received,
            }
        };
        let count = match received {
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET | Errno::PIPE | Errno::TIMEDOUT) => 0,
            Err(error) => return Err(ReadError::Io(error.into())),
        };
        if count == 0 {
            return Err(ReadError::Tls(machine.fail(TlsError::Cut)));
        }
        let taken = machine.receive(count, into, limit);
        if machine.is_established() {
            self.is_established.store(true, Ordering::Release);
        }
        taken.map(Some).map_err(ReadError::Tls)
    }
}
