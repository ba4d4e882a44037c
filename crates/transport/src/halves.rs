//! [`StreamReading`] and [`StreamWriting`]: the halves of a stream, for a thread each.

use std::sync::Arc;

use crate::deadline::Deadline;
use crate::errors::{ReadError, WriteError};
use crate::patient::Patient;
use crate::quic::QuicStream;
use crate::shm::{self, ShmReading, ShmWriting};
use crate::socket::SocketStream;
use crate::stream::Connection;
use crate::tls::TlsStream;
use crate::websocket::WebStream;

/// The half of a stream that reads.
#[derive(Debug)]
pub struct StreamReading {
    pub(crate) medium: Reading,
    pub(crate) _connection: Arc<Connection>,
}

/// The medium of a half that reads.
#[derive(Debug)]
pub(crate) enum Reading {
    Shm(ShmReading),
    Socket(SocketStream),
    Tls(TlsStream),
    Web(WebStream),
    Quic(QuicStream),
}

impl StreamReading {
    /// As [`Stream::read`](crate::Stream::read).
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
            Reading::Tls(stream) => stream.read(into, limit, deadline.into().instant()),
            Reading::Web(stream) => stream.read(into, limit, deadline.into().instant()),
            Reading::Quic(stream) => stream.read(into, limit, deadline.into().instant()),
        }
    }
}

impl StreamReading {
    /// As [`Stream::try_read`](crate::Stream::try_read).
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
            Reading::Tls(stream) => stream.try_read(into, limit),
            Reading::Web(stream) => stream.try_read(into, limit),
            Reading::Quic(stream) => stream.try_read(into, limit),
        }
    }

    /// Returns the waiter, which waits for this half while several threads read from it in turn;
    /// none for a socket.
    pub fn waiter(&self) -> Option<StreamWaiter> {
        match &self.medium {
            Reading::Shm(stream) => Some(StreamWaiter(stream.waiter())),
            Reading::Socket(_) | Reading::Tls(_) | Reading::Web(_) | Reading::Quic(_) => None,
        }
    }

    /// Returns the position of the peer at the last read, for [`StreamWaiter::wait`].
    pub fn position(&self) -> u64 {
        match &self.medium {
            Reading::Shm(stream) => stream.position(),
            Reading::Socket(_) | Reading::Tls(_) | Reading::Web(_) | Reading::Quic(_) => 0,
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
    pub(crate) medium: Writing,
    pub(crate) _connection: Arc<Connection>,
}

/// The medium of a half that writes.
#[derive(Debug)]
pub(crate) enum Writing {
    Shm(ShmWriting),
    Socket(SocketStream),
    Tls(TlsStream),
    Web(WebStream),
    Quic(QuicStream),
}

impl StreamWriting {
    /// As [`Stream::try_write`](crate::Stream::try_write).
    ///
    /// # Errors
    /// [`WriteError`]
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        match &mut self.medium {
            Writing::Shm(stream) => stream.try_write(bytes),
            Writing::Socket(stream) => stream.try_write(bytes),
            Writing::Tls(stream) => stream.try_write(bytes),
            Writing::Web(stream) => stream.try_write(bytes),
            Writing::Quic(stream) => {
                let written = stream.try_write(bytes);
                stream.flush();
                written
            }
        }
    }

    /// As [`Stream::write`](crate::Stream::write) and [`Stream::flush`](crate::Stream::flush).
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
            Writing::Tls(stream) => stream.write(bytes, deadline.into().instant()),
            Writing::Web(stream) => stream.write(bytes, deadline.into().instant()),
            Writing::Quic(stream) => {
                let written = stream.write(bytes, deadline.into().instant());
                stream.flush();
                written
            }
        }
    }
}
