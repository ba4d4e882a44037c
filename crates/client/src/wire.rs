//! The way of a session's bytes: writes and reads that wait, and steps that do not.
//!
//! The recorder decides what is sent and when; [`Wire`] moves the bytes over a connection, and
//! keeps the time.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use bifrost_recorder::{Closed, Error, Greeting, LastWords, Recorder, Source};
use bifrost_transport::{CallWatch, Stream};

use crate::connection::{Connection, ConnectionError, unwritten};
use crate::error::ConnectError;

/// The most bytes of one read.
pub const READ_BYTES: usize = 64 * 1024;

/// A connection, and the buffer into which it is read.
pub struct Wire<C: ?Sized> {
    timeout: Duration,
    /// The number of writes that were tried: none, if the server has surely nothing of it.
    writes: u64,
    input: Vec<u8>,
    /// The time at which the oldest batch under way is late, once a step has waited for it.
    late: Option<Instant>,
    connection: Box<C>,
}

impl<C: Connection + ?Sized> Wire<C> {
    /// Makes the wire of a connection, with the longest time for an answer.
    pub fn new(connection: Box<C>, timeout: Duration) -> Wire<C> {
        Wire { timeout, writes: 0, input: Vec::new(), late: None, connection }
    }

    /// Sets the longest time for an answer.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Turns the connection into another type.
    pub fn map<D: Connection + ?Sized>(self, turn: impl FnOnce(Box<C>) -> Box<D>) -> Wire<D> {
        let Wire { timeout, writes, input, late, connection } = self;
        Wire { timeout, writes, input, late, connection: turn(connection) }
    }

    /// Returns the connection, and the longest time for an answer.
    pub fn into_parts(self) -> (Box<C>, Duration) {
        (self.connection, self.timeout)
    }

    /// Returns the number of writes that were tried. While it stays the same, the server has
    /// nothing new of the session.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns the watch over the calls of the connection, if its medium tells of them.
    pub fn watch(&self) -> Option<CallWatch>
    where
        C: Connection,
    {
        self.connection.watch()
    }

    /// Takes the bytes that have come, and learns if the server has ended the session.
    ///
    /// # Errors
    /// It has.
    pub fn look<S: Source>(&mut self, recorder: &mut Recorder<S>) -> Result<(), Error<S>> {
        while self.take(recorder)?.is_some() {}
        Ok(())
    }

    /// Takes the bytes that have come, without waiting: true if a batch was answered with them,
    /// nothing if there are none.
    fn take<S: Source>(&mut self, recorder: &mut Recorder<S>) -> Result<Option<bool>, Error<S>> {
        self.input.clear();
        match self.connection.try_read(&mut self.input, READ_BYTES) {
            Ok(false) => Ok(None),
            Ok(true) => recorder.handle_bytes(&self.input).map(Some),
            Err(error) => Err(recorder.close(error.into())),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.writes += 1;
        self.connection.write(bytes, self.timeout)?;
        self.connection.flush();
        Ok(())
    }

    fn read_within(&mut self, timeout: Duration) -> Result<&[u8], ConnectionError> {
        self.input.clear();
        self.connection.read(&mut self.input, READ_BYTES, timeout)?;
        Ok(&self.input)
    }

    /// Exchanges greetings.
    ///
    /// # Errors
    /// There is no session.
    pub fn greet<S: Source>(&mut self, mut greeting: Greeting) -> Result<Recorder<S>, ConnectError> {
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
    ///
    /// # Errors
    /// The connection is gone, and with it the session.
    pub fn send<S: Source>(&mut self, recorder: &mut Recorder<S>) -> Result<(), Error<S>> {
        // A server that waits until its answers are read takes no more bytes. The batch that is
        // sent has no answer yet.
        while recorder.batches_under_way() > usize::from(!recorder.flushed_bytes().is_empty())
            && !recorder.bytes_to_send().is_empty()
        {
            self.input.clear();
            self.writes += 1;
            let bytes = recorder.bytes_to_send();
            match self.connection.write_or_read(bytes, &mut self.input, READ_BYTES, self.timeout) {
                Ok(written) => recorder.sent(written),
                Err(error) => return Err(self.give_up(recorder, error)),
            }
            if !self.input.is_empty() {
                recorder.handle_bytes(&self.input)?;
            }
        }
        loop {
            let bytes = recorder.bytes_to_send();
            if bytes.is_empty() {
                self.connection.flush();
                return Ok(());
            }
            if let Err(error) = self.write(bytes) {
                return Err(self.give_up(recorder, error));
            }
            recorder.sent(usize::MAX);
        }
    }

    /// Sends the flushed bytes, and waits until a batch is answered. Its account gets the time.
    ///
    /// # Errors
    /// The session has ended.
    pub fn answer<S: Source>(&mut self, recorder: &mut Recorder<S>) -> Result<(), Error<S>> {
        let begin = Instant::now();
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
        recorder.took(begin.elapsed());
        Ok(())
    }

    #[cold]
    fn give_up<S: Source>(&mut self, recorder: &mut Recorder<S>, error: ConnectionError) -> Error<S> {
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

/// For event loops.
impl Wire<Stream> {
    /// Moves bytes as far as that needs no waiting. True if no batch is under way any more.
    ///
    /// # Errors
    /// The session has ended, or the oldest batch was not answered in time.
    pub fn step<S: Source>(&mut self, recorder: &mut Recorder<S>) -> Result<bool, Error<S>> {
        self.connection.awake();
        while !recorder.flushed_bytes().is_empty() {
            self.writes += 1;
            match self.connection.try_write(recorder.flushed_bytes()) {
                Ok(0) => break,
                Ok(written) => recorder.sent(written),
                Err(error) => return Err(self.give_up(recorder, unwritten(error, self.timeout))),
            }
        }
        if let Err(error) = self.connection.try_flush() {
            return Err(self.give_up(recorder, unwritten(error, self.timeout)));
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

    /// Ends the connection of a session that is lost: the server learns of it at once, and not when
    /// the session goes.
    pub fn stop(&self) {
        self.connection.stopper().stop();
    }

    /// Returns the descriptor to wait for; none over shared memory.
    pub fn descriptor(&self) -> Option<i32> {
        self.connection.socket().map(|socket| socket.as_raw_fd())
    }

    /// True if bytes wait for room in the socket.
    pub fn wants_write<S: Source>(&self, recorder: &Recorder<S>) -> bool {
        // A stream without a socket of its own tells of room as it tells of bytes.
        let waits = !recorder.flushed_bytes().is_empty() && self.connection.watches_socket();
        waits || self.connection.wants_write()
    }
}

impl<C: ?Sized> std::fmt::Debug for Wire<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
