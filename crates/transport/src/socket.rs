//! A stream over a unix or TCP socket.
//!
//! The socket is a blocking one: without a deadline a read or write is one system call. With a
//! deadline it is tried without waiting first, then polled. A stop shuts the socket down, which
//! ends both.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::Timespec;

use crate::attention::Attention;
use crate::errors::{ReadError, WriteError};

/// Bytes for which a read makes room at first; doubled up to the maximum whenever they were all
/// used.
const RECEIVE_BYTES_MIN: usize = 8 << 10;
const RECEIVE_BYTES_MAX: usize = 128 << 10;

/// One end of a stream over a socket.
#[derive(Debug)]
pub(crate) struct SocketStream {
    socket: Arc<OwnedFd>,
    attention: Arc<Attention>,
    /// Bytes for which the next read makes room.
    expected: usize,
}

/// The patience of a receive when nothing is there.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Instant),
    Forever,
}

impl SocketStream {
    pub(crate) fn new(socket: Arc<OwnedFd>, attention: Arc<Attention>) -> SocketStream {
        SocketStream { socket, attention, expected: RECEIVE_BYTES_MIN }
    }

    pub(crate) fn read(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, ReadError> {
        let patience = deadline.map_or(Patience::Forever, Patience::Until);
        self.read_patiently(into, limit, patience)?.ok_or(ReadError::TimedOut)
    }

    pub(crate) fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<Option<usize>, ReadError> {
        self.read_patiently(into, limit, Patience::None)
    }

    fn read_patiently(
        &mut self,
        into: &mut Vec<u8>,
        limit: usize,
        patience: Patience,
    ) -> Result<Option<usize>, ReadError> {
        if self.attention.is_deaf() {
            return Err(ReadError::Stopped);
        }
        let room = self.expected.min(limit);
        into.reserve(room);
        let received = self.receive(into, limit, patience);
        match received {
            // A stop shuts the socket down, which looks like an end or like an error.
            _ if self.attention.is_deaf() => Err(ReadError::Stopped),
            Ok(Some(0)) | Err(Errno::CONNRESET | Errno::PIPE | Errno::TIMEDOUT) => Ok(Some(0)),
            Ok(Some(count)) => {
                if count >= self.expected {
                    self.expected = (self.expected * 2).min(RECEIVE_BYTES_MAX);
                }
                Ok(Some(count))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(ReadError::Io(error.into())),
        }
    }

    /// Receives at most `limit` bytes behind those of `into`; `None` if the patience came to an
    /// end.
    fn receive(&self, into: &mut Vec<u8>, limit: usize, patience: Patience) -> Result<Option<usize>, Errno> {
        let flags = match patience {
            Patience::Forever => RecvFlags::empty(),
            Patience::None | Patience::Until(_) => RecvFlags::DONTWAIT,
        };
        loop {
            let received = if into.capacity() - into.len() <= limit {
                rustix::net::recv(&self.socket, spare_capacity(into), flags).map(|(count, _)| count)
            } else {
                let mut few = Vec::with_capacity(limit);
                let received = rustix::net::recv(&self.socket, spare_capacity(&mut few), flags);
                into.extend_from_slice(&few);
                received.map(|(count, _)| count)
            };
            match received {
                Ok(count) => return Ok(Some(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => match patience {
                    Patience::Until(deadline) if wait_readable(&self.socket, deadline)? => {}
                    _ => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8], deadline: Option<Instant>) -> Result<(), WriteError> {
        let flags =
            SendFlags::NOSIGNAL | if deadline.is_some() { SendFlags::DONTWAIT } else { SendFlags::empty() };
        while !bytes.is_empty() {
            if self.attention.is_stopped() {
                return Err(WriteError::Stopped);
            }
            let sent = match (rustix::net::send(&self.socket, bytes, flags), deadline) {
                (Err(Errno::AGAIN), Some(deadline)) => {
                    wait_writable(&self.socket, deadline).map(|ready| if ready { Some(0) } else { None })
                }
                (Err(Errno::INTR), _) => Ok(Some(0)),
                (sent, _) => sent.map(Some),
            };
            match sent {
                Ok(Some(count)) => bytes = &bytes[count..],
                Ok(None) => return Err(WriteError::TimedOut),
                Err(_) if self.attention.is_stopped() => return Err(WriteError::Stopped),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::TIMEDOUT) => return Err(WriteError::Closed),
                Err(error) => return Err(WriteError::Io(error.into())),
            }
        }
        Ok(())
    }
}

impl SocketStream {
    /// Writes the bytes for which there is room now, and returns their number.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        loop {
            if self.attention.is_stopped() {
                return Err(WriteError::Stopped);
            }
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => return Ok(count),
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(_) if self.attention.is_stopped() => return Err(WriteError::Stopped),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::TIMEDOUT) => return Err(WriteError::Closed),
                Err(error) => return Err(WriteError::Io(error.into())),
            }
        }
    }

    /// Writes the last bytes of a stream, which may be stopped, as far as there is room.
    pub(crate) fn write_last(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_) => Err(WriteError::Closed),
        }
    }

    /// Waits until there are bytes to be read or room for bytes to be written; false if the
    /// deadline passed.
    pub(crate) fn wait_ready(&self, deadline: Instant) -> bool {
        let either = PollFlags::IN | PollFlags::OUT;
        // After an error the next read or write finds the reason.
        wait_for(&self.socket, either, Some(deadline)).unwrap_or(true)
    }

    pub(crate) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }
}

/// Waits until the socket can be read without waiting, or is at its end; false if the deadline
/// passed.
pub(crate) fn wait_readable(socket: &OwnedFd, deadline: Instant) -> Result<bool, Errno> {
    wait_for(socket, PollFlags::IN, Some(deadline))
}

/// Waits until the socket can be written without waiting, or is broken; false if the deadline
/// passed.
fn wait_writable(socket: &OwnedFd, deadline: Instant) -> Result<bool, Errno> {
    wait_for(socket, PollFlags::OUT, Some(deadline))
}

/// Waits until the socket is ready for one of these, or is broken; false if the deadline passed.
pub(crate) fn wait_for(socket: &OwnedFd, flags: PollFlags, deadline: Option<Instant>) -> Result<bool, Errno> {
    loop {
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(&mut [PollFd::new(socket, flags)], timeout.as_ref()) {
            Err(Errno::INTR) => {}
            // A deadline that has passed still looks once, so bytes that are there are found.
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}
