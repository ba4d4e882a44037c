//! The recorder of a session and the connection that moves its bytes.
//!
//! [`Live`] is the type to read first; one [`Core`] owns it for all stubs of a session. The
//! recorder decides what is recorded and when a flush is due; this file sends, waits and reads. A
//! session that was opened to be awaited moves its bytes in `asynchronous`.

use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "async")]
use std::time::Instant;

use bifrost_client::Wire;
use bifrost_recorder::{Admission, Closed, Due, Greeting, Known, Slot};
use bifrost_transport::{CallWatch, Stream};

use crate::connection::Link;
use crate::error::{ConnectError, Error, Place};
use crate::import::Imported;
use crate::shared::Guarded;

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
    Blocking(Wire<Link>),
    /// Reads and writes are polled.
    #[cfg(feature = "async")]
    Polled(Box<crate::asynchronous::Polled>),
}

impl Way {
    /// The way of a session whose calls wait.
    pub(crate) fn blocking(wire: Wire<Stream>) -> Result<Way, ConnectError> {
        Ok(Way::Blocking(wire.map(|stream| stream as Box<Link>)))
    }

    /// The way of a session to be awaited.
    #[cfg(feature = "async")]
    pub(crate) fn polled(wire: Wire<Stream>) -> Result<Way, ConnectError> {
        let (stream, timeout) = wire.into_parts();
        let polled = crate::asynchronous::Polled::new(*stream, timeout)?;
        Ok(Way::Polled(Box::new(polled)))
    }
}

impl Live {
    /// Opens a session: exchanges greetings over the connection.
    pub(crate) fn open(
        greeting: Greeting,
        connection: Box<Link>,
        timeout: Duration,
    ) -> Result<Live, ConnectError> {
        let mut wire = Wire::new(connection, timeout);
        let recorder = wire.greet(greeting)?;
        Ok(Live { recorder, way: Way::Blocking(wire) })
    }

    /// Returns the number of writes that were tried. While it stays the same, the server has
    /// nothing new of this session.
    pub(crate) fn writes(&self) -> u64 {
        match &self.way {
            Way::Blocking(wire) => wire.writes(),
            #[cfg(feature = "async")]
            Way::Polled(polled) => polled.writes(),
        }
    }

    /// Returns the watch over the calls of the connection, if its medium tells of them.
    pub(crate) fn watch(&self) -> Option<CallWatch> {
        match &self.way {
            Way::Blocking(wire) => wire.watch(),
            #[cfg(feature = "async")]
            Way::Polled(polled) => polled.watch(),
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
        match &mut self.way {
            Way::Blocking(wire) => wire.answer(&mut self.recorder),
            #[cfg(feature = "async")]
            Way::Polled(polled) => {
                let begin = Instant::now();
                polled.block_on(&mut self.recorder)?;
                self.recorder.took(begin.elapsed());
                Ok(())
            }
        }
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
