//! The recorder of a session and the connection that moves its bytes.
//!
//! [`Live`] is the type to read first; one [`Core`] owns it for all stubs of a session. The
//! recorder decides what is recorded and when a flush is due; this file sends, waits and reads.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bifrost_recorder::{Admission, Closed, Due, Greeting, LastWords};

use crate::connection::{Connection, ConnectionError};
use crate::error::{ConnectError, Error, Place};

/// The most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

pub(crate) type Recorder = bifrost_recorder::Recorder<Place>;

/// The part of a session that its stubs share.
pub(crate) struct Core {
    pub(crate) live: RefCell<Live>,
}

/// A session with its connection.
pub(crate) struct Live {
    pub(crate) recorder: Recorder,
    wire: Wire,
}

/// A connection, and the buffer into which it is read.
struct Wire {
    connection: Box<dyn Connection>,
    timeout: Duration,
    input: Vec<u8>,
}

impl Wire {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.connection.write(bytes, self.timeout)?;
        self.connection.flush();
        Ok(())
    }

    fn read(&mut self) -> Result<&[u8], ConnectionError> {
        self.read_within(self.timeout)
    }

    fn read_within(&mut self, timeout: Duration) -> Result<&[u8], ConnectionError> {
        self.input.clear();
        self.connection.read(&mut self.input, READ_BYTES, timeout)?;
        Ok(&self.input)
    }

    /// Returns the reason why nothing can be written: a server that ends a session says why before
    /// it closes.
    #[cold]
    fn unwritten(&mut self, error: ConnectionError, mut handle: impl FnMut(&[u8]) -> LastWords) -> Closed {
        if !matches!(error, ConnectionError::Ended) {
            return error.into();
        }
        let mut words = handle(&[]);
        while matches!(words, LastWords::Unfinished) {
            words = match self.read() {
                Ok(bytes) => handle(bytes),
                Err(_) => LastWords::None,
            };
        }
        match words {
            LastWords::Reason(why) => why,
            _ => error.into(),
        }
    }
}

impl Live {
    /// Opens a session: exchanges greetings over the connection.
    pub(crate) fn open(
        mut greeting: Greeting,
        connection: Box<dyn Connection>,
        timeout: Duration,
    ) -> Result<Live, ConnectError> {
        let mut wire = Wire { connection, timeout, input: Vec::new() };
        loop {
            let bytes = greeting.bytes_to_send();
            if !bytes.is_empty() {
                if let Err(error) = wire.write(bytes) {
                    return Err(wire.unwritten(error, |bytes| greeting.handle_last_bytes(bytes)).into());
                }
                greeting.sent(usize::MAX);
            }
            let bytes = wire.read().map_err(Closed::from)?;
            if let Some(recorder) = greeting.handle_bytes(bytes)? {
                return Ok(Live { recorder, wire });
            }
        }
    }

    /// Admits a command: sends or flushes first, if that is due.
    #[inline(always)]
    pub(crate) fn admit(&mut self) -> Admission<Place> {
        match self.recorder.is_ready() {
            true => Ok(()),
            false => self.admit_slowly(),
        }
    }

    #[cold]
    fn admit_slowly(&mut self) -> Admission<Place> {
        let done = match self.recorder.due()? {
            Due::Nothing => Ok(()),
            Due::Send => self.send(),
            Due::Flush => self.flush(),
        };
        done.map_err(Arc::new)
    }

    /// As [`Live::admit`], for a commit.
    pub(crate) fn admit_commit(&mut self) -> Admission<Place> {
        self.admit()?;
        match self.recorder.commit_due()? {
            Due::Nothing => Ok(()),
            Due::Send | Due::Flush => self.flush().map_err(Arc::new),
        }
    }

    /// Sends the recorded bytes.
    fn send(&mut self) -> Result<(), Error> {
        let recorder = &mut self.recorder;
        if let Err(error) = self.wire.write(recorder.bytes_to_send()) {
            let why = self.wire.unwritten(error, |bytes| recorder.handle_last_bytes(bytes));
            return Err(recorder.close(why));
        }
        recorder.sent(usize::MAX);
        Ok(())
    }

    /// Ends the batch: sends it, and waits for the answer. Does not cross when there is nothing to
    /// send.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        match self.recorder.begin_flush()? {
            true => self.finish_flush(),
            false => Ok(()),
        }
    }

    /// Flushes for the program, which cannot while a batch that is a transaction is recorded.
    #[inline]
    pub(crate) fn synchronize(&mut self, name: &str, place: Place) -> Result<(), Error> {
        match self.recorder.begin_flush_for(name, place)? {
            true => self.finish_flush(),
            false => Ok(()),
        }
    }

    fn finish_flush(&mut self) -> Result<(), Error> {
        self.send()?;
        let timeout = self.wire.timeout.saturating_add(Duration::from_millis(self.recorder.wait_ms()));
        // Bytes that came with the last answer.
        let mut answered = self.recorder.handle_bytes(&[])?;
        while !answered {
            answered = match self.wire.read_within(timeout) {
                Ok(bytes) => self.recorder.handle_bytes(bytes)?,
                Err(error) => return Err(self.recorder.close(error.into())),
            };
        }
        Ok(())
    }

    /// Ends the session without waiting. Commands that were recorded and never flushed are sent,
    /// and run.
    pub(crate) fn leave(&mut self) {
        if self.recorder.leave() {
            let _ = self.send();
            self.recorder.close(Closed::ByClient);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.leave();
    }
}
