//! The recorder of a session and the connection that moves its bytes.
//!
//! [`Live`] is the type to read first; one [`Core`] owns it for all stubs of a session. The
//! recorder decides what is recorded and when a flush is due; this file sends, waits and reads. A
//! session that was opened to be awaited moves its bytes in `asynchronous`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_recorder::{Admission, Closed, Due, Greeting, Known, LastWords, Slot};
use bifrost_transport::Stream;

use crate::connection::{Connection, ConnectionError};
use crate::error::{ConnectError, Error, Place};
use crate::import::Imported;
use crate::shared::Guarded;

/// The most bytes of one read.
pub(crate) const READ_BYTES: usize = 64 * 1024;

pub(crate) type Recorder = bifrost_recorder::Recorder<Place>;

/// The part of a session that its stubs share.
pub(crate) struct Core {
    pub(crate) live: Guarded<Live>,
    /// The server that a trader has named.
    pub(crate) imported: Option<Imported>,
}

/// A session with its connection.
pub(crate) struct Live {
    pub(crate) recorder: Recorder,
    pub(crate) way: Way,
}

/// The way of the bytes.
pub(crate) enum Way {
    /// Reads and writes wait.
    Blocking(Wire<dyn Connection>),
    /// Reads and writes are polled.
    #[cfg(feature = "async")]
    Polled(Box<crate::asynchronous::Polled>),
}

impl Way {
    /// The way of a session whose calls wait.
    pub(crate) fn blocking(wire: Wire<Stream>) -> Result<Way, ConnectError> {
        let Wire { timeout, writes, input, connection } = wire;
        Ok(Way::Blocking(Wire { timeout, writes, input, connection }))
    }

    /// The way of a session to be awaited.
    #[cfg(feature = "async")]
    pub(crate) fn polled(wire: Wire<Stream>) -> Result<Way, ConnectError> {
        let polled = crate::asynchronous::Polled::new(*wire.connection, wire.timeout)?;
        Ok(Way::Polled(Box::new(polled)))
    }
}

/// A connection, and the buffer into which it is read.
pub(crate) struct Wire<C: ?Sized> {
    timeout: Duration,
    /// The number of writes that were tried: none, if the server has surely nothing of it.
    writes: u64,
    input: Vec<u8>,
    connection: Box<C>,
}

impl<C: Connection + ?Sized> Wire<C> {
    pub(crate) fn new(connection: Box<C>, timeout: Duration) -> Wire<C> {
        Wire { timeout, writes: 0, input: Vec::new(), connection }
    }

    /// Sets the longest time for an answer.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Takes the bytes that have come, and learns if the server has ended the session.
    fn look(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        loop {
            self.input.clear();
            match self.connection.try_read(&mut self.input, READ_BYTES) {
                Ok(false) => return Ok(()),
                Ok(true) => drop(recorder.handle_bytes(&self.input)?),
                Err(error) => return Err(recorder.close(error.into())),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        self.writes += 1;
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

    /// Sends the bytes that can be sent.
    fn send(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
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
                let input = std::mem::take(&mut self.input);
                recorder.handle_bytes(&input)?;
                self.input = input;
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

    /// Sends the flushed bytes, and waits until a batch is answered.
    pub(crate) fn answer(&mut self, recorder: &mut Recorder) -> Result<(), Error> {
        if !recorder.flushed_bytes().is_empty() {
            self.send(recorder)?;
        }
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

    #[cold]
    fn give_up(&mut self, recorder: &mut Recorder, error: ConnectionError) -> Error {
        let why = self.unwritten(error, |bytes| recorder.handle_last_bytes(bytes));
        recorder.close(why)
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

/// Exchanges greetings over a connection.
pub(crate) fn greet<C: Connection + ?Sized>(
    mut greeting: Greeting,
    wire: &mut Wire<C>,
) -> Result<Recorder, ConnectError> {
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
            return Ok(recorder);
        }
    }
}

impl Live {
    /// Opens a session: exchanges greetings over the connection.
    pub(crate) fn open(
        greeting: Greeting,
        connection: Box<dyn Connection>,
        timeout: Duration,
    ) -> Result<Live, ConnectError> {
        let mut wire = Wire::new(connection, timeout);
        let recorder = greet(greeting, &mut wire)?;
        Ok(Live { recorder, way: Way::Blocking(wire) })
    }

    /// Returns the number of writes that were tried. While it stays the same, the server has
    /// nothing new of this session.
    pub(crate) fn writes(&self) -> u64 {
        match &self.way {
            Way::Blocking(wire) => wire.writes,
            #[cfg(feature = "async")]
            Way::Polled(polled) => polled.writes(),
        }
    }

    /// True if the server has not ended the session, as far as is known without waiting.
    pub(crate) fn is_open(&mut self) -> bool {
        if self.recorder.is_closed() {
            return false;
        }
        match &mut self.way {
            Way::Blocking(wire) => wire.look(&mut self.recorder).is_ok(),
            #[cfg(feature = "async")]
            Way::Polled(polled) => polled.look(&mut self.recorder).is_ok(),
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
        let done = match (self.recorder.due()?, &mut self.way) {
            (Due::Nothing, _) => Ok(()),
            (Due::Send, Way::Blocking(wire)) => wire.send(&mut self.recorder),
            (Due::Flush, Way::Blocking(_)) => self.flush(),
            // Nothing waits while calls are recorded: the batch goes on if it cannot end.
            #[cfg(feature = "async")]
            (Due::Send, Way::Polled(_)) => Ok(()),
            #[cfg(feature = "async")]
            (Due::Flush, Way::Polled(_)) => match self.recorder.is_crowded() {
                true => Ok(()),
                false => self.recorder.begin_flush(true).map(drop),
            },
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

    /// True if results of a batch may be named before its answer, which comes while other tasks
    /// record.
    pub(crate) fn keeps(&self) -> bool {
        !matches!(self.way, Way::Blocking(_))
    }

    /// Waits until a batch is answered.
    fn answer(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        match &mut self.way {
            Way::Blocking(wire) => wire.answer(&mut self.recorder),
            #[cfg(feature = "async")]
            Way::Polled(polled) => polled.block_on(&mut self.recorder),
        }?;
        self.recorder.took(begin.elapsed());
        Ok(())
    }

    fn answer_while(&mut self, waiting: impl Fn(&Recorder) -> bool) -> Result<(), Error> {
        while waiting(&self.recorder) {
            self.answer()?;
        }
        Ok(())
    }

    /// Ends the batch: sends it, and waits for the answers of all batches. Does not cross when
    /// there is nothing to send.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.answer_while(Recorder::is_crowded)?;
        self.recorder.begin_flush(self.keeps())?;
        self.answer_while(Recorder::is_under_way)
    }

    /// Flushes for the program, which cannot while a batch that is a transaction is recorded.
    #[inline]
    pub(crate) fn synchronize(&mut self, name: &str, place: Place) -> Result<(), Error> {
        self.answer_while(Recorder::is_crowded)?;
        self.recorder.begin_flush_for(name, self.keeps(), place)?;
        self.answer_while(Recorder::is_under_way)
    }

    /// Ends the batch and sends it, without waiting for its answer.
    pub(crate) fn send_batch(&mut self, name: &str, place: Place) -> Result<(), Error> {
        self.answer_while(Recorder::is_crowded)?;
        self.recorder.begin_flush_for(name, true, place)?;
        match &mut self.way {
            Way::Blocking(wire) => wire.send(&mut self.recorder),
            #[cfg(feature = "async")]
            Way::Polled(polled) => polled.send_now(&mut self.recorder),
        }
    }

    /// Waits until a stub is known: flushes if it must.
    #[inline]
    pub(crate) fn know(&mut self, slot: Slot, place: Place) -> Result<(), Error> {
        match self.recorder.known(slot) {
            Known::Future(_) => {
                self.recorder.note_claim(slot);
                self.synchronize("claim", place)
            }
            Known::UnderWay(batch) => self.answer_while(|recorder| recorder.is_unanswered(batch)),
            _ => Ok(()),
        }
    }

    /// Ends the session without waiting. Commands that were recorded and never flushed are sent,
    /// and run.
    pub(crate) fn leave(&mut self) {
        if self.recorder.leave() {
            let _ = match &mut self.way {
                Way::Blocking(wire) => wire.send(&mut self.recorder),
                #[cfg(feature = "async")]
                Way::Polled(polled) => polled.send_now(&mut self.recorder),
            };
            self.recorder.close(Closed::ByClient);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.leave();
    }
}
