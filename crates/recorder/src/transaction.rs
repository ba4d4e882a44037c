//! Transactions: their ends, and batches that are one.
//!
//! A batch that is a transaction takes these steps: a flush, [`Recorder::begin_transaction`],
//! calls, [`Recorder::end_transaction_batch`], a flush, [`Recorder::finish_transaction`]. Nothing
//! can be flushed in between.

use std::sync::Arc;

use bifrost_wire::{BatchName, encode, op};

use crate::Source;
use crate::error::{CallName, Error, Misuse};
use crate::recorder::{Admission, Due, Maker, Recorded, Recorder, misuse};
use crate::slots::Slot;

fn transaction_name<S>(place: S) -> CallName<S> {
    CallName { name: "transaction".into(), number: 1, location: Some(place), rounds: [].into() }
}

impl<S: Source> Recorder<S> {
    /// Checks that a transaction can end here, and returns the work that a commit needs before it
    /// is recorded: a flush, or nothing.
    ///
    /// # Errors
    /// A structure is open, or the batch is a transaction.
    pub fn commit_due(&self) -> Result<Due, Arc<Error<S>>> {
        match self.depth() {
            0 if self.shipping => Err(misuse(Misuse::InTransaction)),
            0 if self.commit_needs_flush() => Ok(Due::Flush),
            0 => Ok(Due::Nothing),
            _ => Err(misuse(Misuse::OpenStructure)),
        }
    }

    /// Records the commit of the transaction, which has one result. Ask for the work that is
    /// [due](Recorder::commit_due) before it.
    pub fn commit(&mut self, admitted: Admission<S>, place: S) -> Recorded<S> {
        match admitted.and_then(|()| self.commit_due()) {
            Ok(_) => {
                self.before_commit(place);
                self.ends += 1;
                let ended = self.next_transaction();
                encode::plain(&mut self.batch, op::COMMIT);
                self.recorded();
                Ok(Maker::Commit(ended))
            }
            Err(error) => Err(self.refuse("commit", place, error)),
        }
    }

    /// Records the abort of the transaction, which has one result.
    pub fn abort(&mut self, admitted: Admission<S>, place: S) -> Recorded<S> {
        match admitted.and_then(|()| self.commit_due()) {
            Ok(_) => {
                self.ends += 1;
                let ended = self.next_transaction();
                encode::plain(&mut self.batch, op::ABORT);
                self.recorded();
                Ok(Maker::Abort(ended))
            }
            Err(error) => Err(self.refuse("abort", place, error)),
        }
    }

    /// Records a wait of at most so many milliseconds, which has one result: true if others have
    /// changed an object that the transaction has read. The server's limit counts if it is lower.
    pub fn wait(&mut self, admitted: Admission<S>, ms: u32, place: S) -> Recorded<S> {
        match admitted.and_then(|()| self.commit_due()) {
            Ok(_) => {
                let ms = ms.min(self.bounds.wait_ms);
                self.wait_ms += u64::from(ms);
                encode::wait(&mut self.batch, ms);
                self.recorded();
                Ok(Maker::Wait)
            }
            Err(error) => Err(self.refuse("wait", place, error)),
        }
    }

    /// Returns the number of times that a transaction of the session has ended, or may have: by a
    /// `commit`, an `abort`, a batch that is a transaction, or an error that ended a batch. While
    /// it stays the same, the transaction has read all that was read since.
    pub fn transaction_ends(&self) -> u64 {
        self.ends
    }

    /// Returns the last failure that has ended a batch since the last call: one of a limit, a
    /// conflict or a cancellation.
    pub fn take_batch_end(&mut self) -> Option<Arc<Error<S>>> {
        self.batch_end.take()
    }

    /// True if nothing is recorded, and no batch is under way.
    pub fn is_idle(&self) -> bool {
        self.commands == 0 && !self.is_under_way()
    }

    /// True while a batch that is a transaction is recorded.
    pub fn is_shipping(&self) -> bool {
        self.shipping
    }

    /// Begins a batch that is a transaction; it has one result, whose slot is returned. The caller
    /// has flushed before, with [`Recorder::begin_flush_for`].
    ///
    /// # Errors
    /// Failures of which the program was not told, or a misuse: the caller has not flushed.
    pub fn begin_transaction(
        &mut self,
        tries: u16,
        batch: Option<BatchName>,
        place: S,
    ) -> Result<Slot, Error<S>> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        if !self.is_idle() {
            return Err(Error::Misuse(Misuse::UnderWay));
        }
        self.surface(true)?;
        if let Some(error) = self.unseen_now(transaction_name(place)) {
            return Err(error);
        }
        self.clear_told();
        self.ends += 1;
        encode::transaction(&mut self.batch, tries, batch);
        self.recorded();
        self.shipping = true;
        let done = self.new_result(Maker::Transaction, place);
        self.shipped_from = self.mark_seen();
        Ok(done)
    }

    /// Ends the recording of the batch; returns the calls that were not sent, for which the server
    /// refuses the batch.
    pub fn end_transaction_batch(&mut self) -> Vec<Arc<Error<S>>> {
        self.shipping = false;
        let refusals = self.take_shipped_refusals();
        if !refusals.is_empty() {
            self.refuse_batch();
        }
        refusals
    }

    /// Ends the recording of a batch that was left by a panic or its like: the server refuses it.
    /// The caller flushes, and calls [`Recorder::tell_transaction`].
    pub fn abandon_transaction(&mut self) {
        self.shipping = false;
        self.take_shipped_refusals();
        self.refuse_batch();
        // The panic tells that nothing of the batch was done. Commands recorded behind it are a
        // batch of their own.
        self.shipped_from = self.mark_seen();
    }

    /// Tells the program of the failures of the last batch that was a transaction.
    pub fn tell_transaction(&mut self) {
        self.tell_since(self.shipped_from);
    }

    /// Returns the outcome of a transaction whose batch was answered. `done` is that of its slot,
    /// `refusals` are those of its calls that were not sent.
    ///
    /// # Errors
    /// Nothing of it was done, for this reason. The program is told of all failures in it.
    pub fn finish_transaction(
        &mut self,
        done: Result<(), Error<S>>,
        refusals: Vec<Arc<Error<S>>>,
        place: S,
    ) -> Result<(), Error<S>> {
        if refusals.is_empty() && done.is_ok() {
            return Ok(());
        }
        // Nothing of it was done, and so no failure of it is left to be told.
        self.tell_transaction();
        match refusals.is_empty() {
            true => done,
            false => {
                let call = Some(transaction_name(place));
                Err(Error::Unseen { failures: refusals.into(), omitted: 0, call })
            }
        }
    }

    /// Has the server refuse a batch that is a transaction: none has an `abort`.
    fn refuse_batch(&mut self) {
        encode::plain(&mut self.batch, op::ABORT);
        self.recorded();
    }
}
