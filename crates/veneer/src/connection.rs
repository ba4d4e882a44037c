//! Bytes in and out: the veneer's I/O half.

use std::time::Duration;

use bifrost_transport::{ReadError, Stream, WriteError};

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

    /// Makes sure that the server is awake.
    fn flush(&mut self);

    /// Appends the bytes received, at least one and at most `limit`; waits for them.
    ///
    /// # Errors
    /// The connection is not used again.
    fn read(&mut self, into: &mut Vec<u8>, limit: usize, timeout: Duration) -> Result<(), ConnectionError>;
}

impl Connection for Stream {
    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), ConnectionError> {
        Stream::write(self, bytes, timeout).map_err(|e| match e {
            WriteError::TimedOut => ConnectionError::TimedOut(timeout),
            WriteError::Closed => ConnectionError::Ended,
            other => ConnectionError::Write(other),
        })
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
}
