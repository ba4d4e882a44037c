//! Live batches: a batch that is run again whenever its answer may have changed.
//!
//! A run is `bf_live_begin`, the calls of the program, and `bf_live_end` with the stubs of the
//! results. [`Live`] keeps the results of the last run, with which those of the next are compared.

use bifrost_recorder::{Known, Slot};
use bifrost_wire::ErrorNumber;

use crate::abi::{Place, Ref};
use crate::error::{Failure, Status};
use crate::recorded::{Error, Recorder};
use crate::session::Session;

/// A live batch of a session.
#[derive(Debug, Default)]
pub struct Live {
    /// The results of the last run.
    last: Option<Result<Vec<Slot>, String>>,
    /// The number of ends of transactions when it was there; absent if the server does not know the
    /// objects that it has read.
    read_at: Option<u64>,
    /// The run that is recorded: the order of its first failure, and the stub of its wait.
    run: Option<(u64, Option<Slot>)>,
    over: bool,
}

/// True if a batch has ended because its transaction is gone: the next run has one of its own.
fn is_overtaken(error: &Error) -> bool {
    matches!(error.root(), Error::Refused { number, .. } if ErrorNumber::is_overtaken(*number))
}

impl Live {
    /// Begins to record a run.
    pub(crate) fn begin(&mut self, session: &mut Session, place: Place) -> Status {
        if self.over {
            return session.failed(Failure::new(Status::Closed, "the live batch has ended", place));
        }
        // Failures of batches before are not those of the run.
        if session.recorder.is_under_way()
            && let Err(error) = session.synchronize("live", place)
        {
            return self.end(session, &error);
        }
        session.recorder.take_batch_end();
        let mark = session.recorder.mark_seen();
        let waits = self.read_at == Some(session.recorder.transaction_ends());
        let waited = waits.then(|| {
            let admitted = session.admit();
            match session.recorder.wait(admitted, u32::MAX, place) {
                Ok(made) => session.recorder.new_result(made, place),
                Err(error) => session.recorder.new_failed(error),
            }
        });
        self.run = Some((mark, waited));
        Status::Ok
    }

    /// Ends the run: sends it, and waits for a change and its answer. [`Status::Same`] asks for
    /// another run.
    pub(crate) fn finish(&mut self, session: &mut Session, results: &[Ref], place: Place) -> Status {
        let Some((mark, waited)) = self.run.take() else {
            return session.failed(Failure::new(Status::NotAdjacent, "no run was begun", place));
        };
        let status = match self.claim(session, results, (mark, waited), place) {
            Ok(Ok(slots)) => {
                let is_last = matches!(&self.last, Some(Ok(last)) if last.len() == slots.len()
                    && last.iter().zip(&slots).all(|(one, other)| session.recorder.is_same(*one, *other)));
                self.keep(session, Ok(slots));
                if is_last { Status::Same } else { Status::Ok }
            }
            Ok(Err(error)) => {
                self.over = matches!(error, Error::Closed(_));
                let text = error.to_string();
                let is_last = matches!(&self.last, Some(Err(last)) if *last == text);
                self.keep(session, Err(text));
                if is_last { Status::Same } else { session.told(&error) }
            }
            Err(error) if is_overtaken(&error) => {
                // The transaction is gone, and so is all that it has read.
                self.read_at = None;
                Status::Same
            }
            Err(error) => self.end(session, &error),
        };
        if let Some(waited) = waited {
            session.recorder.release(waited);
        }
        status
    }

    /// Keeps a result in place of the last one.
    fn keep(&mut self, session: &mut Session, result: Result<Vec<Slot>, String>) {
        if let Ok(slots) = &result {
            slots.iter().for_each(|slot| session.recorder.retain(*slot));
        }
        if let Some(Ok(last)) = self.last.replace(result) {
            last.into_iter().for_each(|slot| session.recorder.release(slot));
        }
    }

    /// Returns the slots of the results of a run, or the failure of one of its calls.
    ///
    /// # Errors
    /// The failure that ended the batch, or the session.
    fn claim(
        &mut self,
        session: &mut Session,
        results: &[Ref],
        (mark, waited): (u64, Option<Slot>),
        place: Place,
    ) -> Result<Result<Vec<Slot>, Error>, Error> {
        let slots: Result<Vec<Slot>, _> = results.iter().map(|stub| session.slot(*stub)).collect();
        let flushed = session.synchronize("live", place);
        self.read_at = Some(session.recorder.transaction_ends());
        flushed?;
        let slots = slots.map_err(Error::Misuse)?;
        if let Some(end) = session.recorder.take_batch_end() {
            session.recorder.tell_since(mark);
            return Err((*end).clone());
        }
        if let Some(waited) = waited
            && let Known::Failed(_) = session.recorder.known(waited)
        {
            session.recorder.claim(waited)?;
        }
        let claimed = slots.iter().try_for_each(|slot| session.recorder.claim(*slot));
        // A run without results has failures all the same.
        let claimed = claimed.and_then(|()| session.recorder.surface(true));
        if claimed.is_err() {
            // The error stands for all failures of the run.
            session.recorder.tell_since(mark);
        }
        Ok(claimed.map(|()| slots))
    }

    fn end(&mut self, session: &mut Session, error: &Error) -> Status {
        self.over = true;
        session.told(error)
    }

    /// Gives the last results back.
    pub(crate) fn close(mut self, recorder: &mut Recorder) {
        if let Some((_, Some(waited))) = self.run.take() {
            recorder.release(waited);
        }
        if let Some(Ok(last)) = self.last.take() {
            last.into_iter().for_each(|slot| recorder.release(slot));
        }
    }
}
