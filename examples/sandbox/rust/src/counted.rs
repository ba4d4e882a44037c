//! A connection that counts the bytes which the client sends.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use bifrost_transport::{ConnectOptions, Stream};
use bifrost_veneer::{Connection, ConnectionError};

/// The connection: a stream, and the number of bytes.
pub struct Counted {
    stream: Stream,
    sent: Rc<Cell<u64>>,
}

impl Counted {
    /// Connects to a server. Adds the bytes that are sent to `sent`.
    ///
    /// # Errors
    /// The URL is wrong, or no server listens there.
    pub fn connect(url: &str, sent: Rc<Cell<u64>>) -> Result<Counted, Box<dyn Error>> {
        let stream = Stream::connect(&url.parse()?, &ConnectOptions::default())?;
        Ok(Counted { stream, sent })
    }

    fn count(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
    }
}

impl Connection for Counted {
    fn write(&mut self, bytes: &[u8], timeout: Duration) -> Result<(), ConnectionError> {
        self.count(bytes.len());
        Connection::write(&mut self.stream, bytes, timeout)
    }

    fn write_or_read(
        &mut self,
        bytes: &[u8],
        into: &mut Vec<u8>,
        limit: usize,
        timeout: Duration,
    ) -> Result<usize, ConnectionError> {
        let written = self.stream.write_or_read(bytes, into, limit, timeout)?;
        self.count(written);
        Ok(written)
    }

    fn flush(&mut self) {
        Connection::flush(&mut self.stream);
    }

    fn read(&mut self, into: &mut Vec<u8>, limit: usize, timeout: Duration) -> Result<(), ConnectionError> {
        Connection::read(&mut self.stream, into, limit, timeout)
    }
}
