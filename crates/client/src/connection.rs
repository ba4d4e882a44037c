//! Bytes in and out: the streams below a session.

use std::time::{Duration, Instant};

use bifrost_recorder::Closed;
use bifrost_transport::{CallWatch, ReadError, Stream, WriteError};

/// The reason why bytes stopped. The session ends with it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Ended,
    /// No answer came in time.
    #[error("the server did not answer within {0:?}")]
    TimedOut(Duration),
    /// The transport could not read.
    #[error(transparent)]
    Read(ReadError),
    /// The transport could not write.
    #[error(transparent)]
    Write(WriteError),
}

/// A two-way stream of bytes to a server. Implemented for the transports, and by tests.
pub trait Connection {
    /// Writes all bytes; the server may start on them at once.
    ///
    /// # Errors
    /// The connection is not used again.
    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), ConnectionError>;

    /// Writes bytes for which there is room, or appends bytes received; waits until either can be
    /// done. Returns the number of bytes written. The server is awake. By default all is written.
    ///
    /// # Errors
    /// The connection is not used again.
    fn write_or_read(
        &mut self,
        bytes: &[u8],
        into: &mut Vec<u8>,
        limit: usize,
        timeout: Duration,
    ) -> Result<usize, ConnectionError> {
        let _ = (into, limit);
        self.write(bytes, timeout)?;
        self.flush();
        Ok(bytes.len())
    }

    /// Makes sure that the server is awake.
    fn flush(&mut self);

    /// Appends the bytes received, at least one and at most `limit`; waits for them.
    ///
    /// # Errors
    /// The connection is not used again.
    fn read(&mut self, into: &mut Vec<u8>, limit: usize, timeout: Duration) -> Result<(), ConnectionError>;

    /// Appends the bytes that have come, at most `limit`, without waiting. False if there are none,
    /// as far as is known: so it is by default.
    ///
    /// # Errors
    /// The connection is not used again.
    fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<bool, ConnectionError> {
        let _ = (into, limit);
        Ok(false)
    }

    /// Returns the watch over calls; none by default.
    fn watch(&self) -> Option<CallWatch> {
        None
    }
}

impl Connection for Stream {
    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), ConnectionError> {
        Stream::write(self, bytes, timeout).map_err(|error| unwritten(error, timeout))
    }

    fn write_or_read(
        &mut self,
        bytes: &[u8],
        into: &mut Vec<u8>,
        limit: usize,
        timeout: Duration,
    ) -> Result<usize, ConnectionError> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.try_write(bytes) {
                Ok(0) => {}
                Ok(written) => return Ok(written),
                Err(error) => return Err(unwritten(error, timeout)),
            }
            match self.try_read(into, limit.max(1)) {
                Ok(None) => {}
                Ok(Some(0)) => return Err(ConnectionError::Ended),
                Ok(Some(_)) => return Ok(0),
                Err(error) => return Err(ConnectionError::Read(error)),
            }
            if !self.wait_ready(deadline) {
                return Err(ConnectionError::TimedOut(timeout));
            }
        }
    }

    fn flush(&mut self) {
        Stream::flush(self);
    }

    fn read(&mut self, into: &mut Vec<u8>, limit: usize, timeout: Duration) -> Result<(), ConnectionError> {
        match Stream::read(self, into, limit.max(1), timeout) {
            Ok(0) => Err(ConnectionError::Ended),
            Ok(_) => Ok(()),
            Err(ReadError::TimedOut) => Err(ConnectionError::TimedOut(timeout)),
            Err(other) => Err(ConnectionError::Read(other)),
        }
    }

    fn try_read(&mut self, into: &mut Vec<u8>, limit: usize) -> Result<bool, ConnectionError> {
        match Stream::try_read(self, into, limit.max(1)) {
            Ok(None) => Ok(false),
            Ok(Some(0)) => Err(ConnectionError::Ended),
            Ok(Some(_)) => Ok(true),
            Err(error) => Err(ConnectionError::Read(error)),
        }
    }

    fn watch(&self) -> Option<CallWatch> {
        Stream::watch(self)
    }
}

/// Returns the reason why nothing was written.
pub fn unwritten(error: WriteError, timeout: Duration) -> ConnectionError {
    match error {
        WriteError::TimedOut => ConnectionError::TimedOut(timeout),
        WriteError::Closed => ConnectionError::Ended,
        other => ConnectionError::Write(other),
    }
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Closed {
        Closed::Connection(Box::new(error))
    }
}
