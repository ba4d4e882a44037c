//! [`Carrier`]: the stream under a websocket, as the crate `tungstenite` reads and writes it.
//!
//! It never waits. An error of the stream passes through `io::Error` and is found again by
//! [`read_error`] and [`write_error`].

use std::io::{self, Read, Write};

use crate::errors::{ReadError, WriteError};
use crate::patient::Patient;
use crate::socket::SocketStream;
use crate::tls::TlsStream;

/// Most bytes that are read from the stream at once.
const RECEIVE_BYTES_MAX: usize = 64 << 10;

/// A stream without messages.
#[derive(Debug)]
pub(super) enum Below {
    Socket(SocketStream),
    Tls(TlsStream),
}

/// The stream under a websocket.
#[derive(Debug)]
pub(super) struct Carrier {
    below: Below,
    /// Bytes that were read from the stream and not taken. No memory if there are none.
    input: Vec<u8>,
    taken: usize,
    /// True if the last word is written, of a stream that may be stopped already.
    is_last: bool,
}

impl Carrier {
    pub(super) fn new(below: Below) -> Carrier {
        Carrier { below, input: Vec::new(), taken: 0, is_last: false }
    }

    /// Lets later bytes pass a stop, which comes before the last word.
    pub(super) fn begin_last_word(&mut self) {
        self.is_last = true;
    }

    /// True if the stream has sealed bytes that wait for room.
    pub(super) fn wants_write(&self) -> bool {
        match &self.below {
            Below::Socket(_) => false,
            Below::Tls(stream) => stream.wants_write(),
        }
    }

    fn receive(&mut self) -> Result<Option<usize>, ReadError> {
        match &mut self.below {
            Below::Socket(stream) => stream.try_read(&mut self.input, RECEIVE_BYTES_MAX),
            Below::Tls(stream) => stream.try_read(&mut self.input, RECEIVE_BYTES_MAX),
        }
    }
}

impl Read for Carrier {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.input.len() {
            self.taken = 0;
            self.input.clear();
            match self.receive() {
                Ok(Some(0)) => return Ok(0),
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.input = Vec::new();
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let rest = &self.input[self.taken..];
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

impl Write for Carrier {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.below {
            Below::Socket(stream) if self.is_last => stream.write_last(bytes),
            Below::Tls(stream) if self.is_last => stream.write_last(bytes),
            Below::Socket(stream) => stream.try_write(bytes),
            Below::Tls(stream) => stream.try_write(bytes),
        };
        match written {
            Ok(0) if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            Ok(count) => Ok(count),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Below::Tls(stream) = &mut self.below else { return Ok(()) };
        if self.is_last {
            return Ok(());
        }
        match stream.try_flush() {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// Returns the error of the stream that passed through a carrier. Of an error of its writes, during
/// a read, only the end is told.
pub(super) fn read_error(error: io::Error) -> ReadError {
    match error.downcast::<ReadError>() {
        Ok(error) => error,
        Err(error) => match error.downcast::<WriteError>() {
            Ok(WriteError::Stopped) => ReadError::Stopped,
            Ok(WriteError::Io(error)) | Err(error) => ReadError::Io(error),
            Ok(error) => ReadError::Io(io::Error::other(error)),
        },
    }
}

/// Returns the error of the stream that passed through a carrier.
pub(super) fn write_error(error: io::Error) -> WriteError {
    match error.downcast::<WriteError>() {
        Ok(error) => error,
        Err(error) => WriteError::Io(error),
    }
}
