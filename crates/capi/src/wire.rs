//! The way of a session's bytes: writes and reads that wait, and steps that do not.
//!
//! The recorder decides what is sent and when; this file moves the bytes over a stream, and keeps
//! the time. [`Wire`] is the type to read first.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use bifrost_recorder::{Closed, Greeting, LastWords};
use bifrost_transport::{ReadError, Stream, WriteError};

use crate::error::ConnectError;
use crate::recorded::{Error, Recorder};

/// The most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// The reason why bytes stopped. The session ends with it.
#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("the server closed the connection")]
    Ended,
    #[error("the server did not answer within {0:?}")]
    TimedOut(Duration),
    #[error(transparent)]
    Read(ReadError),
    #[error(transparent)]
    Write(WriteError),
}

impl From<ConnectionError> for Closed {
    fn from(error: ConnectionError) -> Closed {
        Closed::Connection(Box::new(error))
    }
}

/// A connection, and the buffer into which it is read.
pub(crate) struct Wire {
    stream: Stream,
    timeout: Duration,
    input: Vec<u8>,
    /// The time at which the oldest batch under way is late, once a step has waited for it.
    late: Option<Instant>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, timeout: Duration) -> Wire {
        Wire { stream, timeout, input: Vec::new(), late: None }
    }

    fn unwritten(&self, error: WriteError) -> ConnectionError {
        match error {
            WriteError::TimedOut => ConnectionError::TimedOut(self.timeout),
            WriteError::Closed => ConnectionError::Ended,
            other => ConnectionError::Write(other),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.stream.write(bytes, self.timeout).map_err(|error| self.unwritten(error))?;
        self.stream.flush();
        Ok(())
    }

    /// Reads bytes into the buffer; waits for them.
    fn read_within(&mut self, timeout: Duration) -> Result<&[u8], ConnectionError> {
        self.input.clear();
        match self.stream.read(&mut self.input, READ_BYTES, timeout) {
            Ok(0) => Err(ConnectionError::Ended),
            Ok(_) => Ok(&self.input),
            Err(ReadError::TimedOut) => Err(ConnectionError::TimedOut(timeout)),
            Err(other) => Err(ConnectionError::Read(other)),
        }
    }

    /// Exchanges greetings.
    pub(crate) fn greet(&mut self, mut greeting: Greeting) -> Result<Recorder, ConnectError> {
        loop {
            let bytes = greeting.bytes_to_send();
            if !bytes.is_empty() {
                if let Err(error) = self.write(bytes) {
                    return Err(self.last_words(error, |bytes| greeting.handle_last_bytes(bytes)).into());
                }
                greeting.sent(usize::MAX);
            }
            let bytes = self.read_within(self.timeout).map_err(Closed::from)?;
            if let Some(recorder) = greeting.handle_bytes(bytes)? {
                return Ok(recorder);
            }
        }
    }

    /// Sends the bytes that can be sent.
    pub(crate) fn send(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        // A server that waits until its answers are read takes no more bytes. The batch that is
        // sent has no answer yet.
        while recorder.batches_under_way() > usize::from(!recorder.flushed_bytes().is_empty())
            && !recorder.bytes_to_send().is_empty()
        {
            self.write_or_read(recorder)?;
        }
        loop {
            let bytes = recorder.bytes_to_send();
            if bytes.is_empty() {
                self.stream.flush();
                return Ok(());
            }
            if let Err(error) = self.write(bytes) {
                return Err(self.give_up(recorder, error));
            }
            recorder.sent(usize::MAX);
        }
    }

    /// Writes bytes for which there is room, or reads some; waits until either can be done.
    fn write_or_read(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        let deadline = Instant::now() + self.timeout;
        loop {
            match self.stream.try_write(recorder.bytes_to_send()) {
                Ok(0) => {}
                Ok(written) => {
                    recorder.sent(written);
                    return Ok(());
                }
                Err(error) => {
                    let error = self.unwritten(error);
                    return Err(self.give_up(recorder, error));
                }
            }
            if self.take(recorder)?.is_some() {
                return Ok(());
            }
            if !self.stream.wait_ready(deadline) {
                let late = ConnectionError::TimedOut(self.timeout);
                return Err(recorder.close(late.into()));
            }
        }
    }

    /// Takes the bytes that have come, without waiting: true if a batch was answered with them,
    /// nothing if there are none.
    fn take(&mut self, recorder: &mut Recorder) -> Result<Option<bool>, Error> {
        self.input.clear();
        match self.stream.try_read(&mut self.input, READ_BYTES) {
            Ok(None) => Ok(None),
            Ok(Some(0)) => Err(recorder.close(ConnectionError::Ended.into())),
            Ok(Some(_)) => recorder.handle_bytes(&self.input).map(Some),
            Err(error) => Err(recorder.close(ConnectionError::Read(error).into())),
        }
    }

    /// Sends the flushed bytes, and waits until a batch is answered.
    pub(crate) fn answer(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        if !recorder.flushed_bytes().is_empty() {
            self.send(recorder)?;
        }
        self.late = None;
        let timeout = self.timeout.saturating_add(Duration::from_millis(recorder.wait_ms()));
        // Bytes that came with the last answer.
        let mut answered = recorder.handle_bytes(&[])?;
        while !answered {
            answered = match self.read_within(timeout) {
                Ok(bytes) => recorder.handle_bytes(bytes)?,
                Err(error) => return Err(recorder.close(error.into())),
            };
        }
        Ok(())
    }

    /// Moves bytes as far as that needs no waiting. True if no batch is under way any more.
    pub(crate) fn step(&mut self, recorder: &mut Recorder) -> Result<bool, Error> {
        self.stream.awake();
        while !recorder.flushed_bytes().is_empty() {
            match self.stream.try_write(recorder.flushed_bytes()) {
                Ok(0) => break,
                Ok(written) => recorder.sent(written),
                Err(error) => {
                    let error = self.unwritten(error);
                    return Err(self.give_up(recorder, error));
                }
            }
        }
        if let Err(error) = self.stream.try_flush() {
            let error = self.unwritten(error);
            return Err(self.give_up(recorder, error));
        }
        while recorder.is_under_way() {
            // Bytes that came with the last answer.
            if recorder.handle_bytes(&[])? {
                self.late = None;
                continue;
            }
            match self.take(recorder)? {
                None => break,
                Some(true) => self.late = None,
                Some(false) => {}
            }
        }
        if !recorder.is_under_way() {
            return Ok(true);
        }
        let wait = self.timeout.saturating_add(Duration::from_millis(recorder.wait_ms()));
        let now = Instant::now();
        // A time beyond the clock is never reached.
        let late = self.late.or_else(|| now.checked_add(wait));
        self.late = late;
        match late.is_some_and(|late| now >= late) {
            true => Err(recorder.close(ConnectionError::TimedOut(self.timeout).into())),
            false => Ok(false),
        }
    }

    /// Returns the descriptor to wait for; none over shared memory.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.stream.socket().map(|socket| socket.as_raw_fd())
    }

    /// True if bytes wait for room in the socket.
    pub(crate) fn wants_write(&self, recorder: &Recorder) -> bool {
        !recorder.flushed_bytes().is_empty() || self.stream.wants_write()
    }

    /// Takes the bytes that have come, and learns if the server has ended the session.
    pub(crate) fn look(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        while self.take(recorder)?.is_some() {}
        Ok(())
    }

    #[cold]
    fn give_up(&mut self, recorder: &mut Recorder, error: ConnectionError) -> Error {
        let why = self.last_words(error, |bytes| recorder.handle_last_bytes(bytes));
        recorder.close(why)
    }

    /// Returns the reason why nothing can be written: a server that ends a session says why before
    /// it closes.
    #[cold]
    fn last_words(&mut self, error: ConnectionError, mut handle: impl FnMut(&[u8]) -> LastWords) -> Closed {
        if !matches!(error, ConnectionError::Ended) {
            return error.into();
        }
        let mut words = handle(&[]);
        while matches!(words, LastWords::Unfinished) {
            words = match self.read_within(self.timeout) {
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
