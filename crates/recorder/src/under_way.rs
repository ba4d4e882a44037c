//! The batches that were flushed and are not answered.
//!
//! A client may end a batch, go on recording with results that are not there yet, and end the next
//! one: batches overlap on the way. Their answers come in order. A stub of a batch under way is an
//! operand of later batches as any other: its reference counts the batches back
//! ([`Earlier`]).
//!
//! The server keeps the results of a batch as long as the client says so: `flush` tells the number
//! of batches before it that are unanswered. Two limits bound what is under way: the server's
//! `batches_under_way_max`, and its `futures_max` for the wanted results of all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bifrost_wire::{Earlier, Ref, encode};

use crate::Source;
use crate::error::{CallName, Error, Misuse};
use crate::recorder::{Maker, Recorder, misuse};
use crate::slots::{DROPPED, Future, NO_SLOT, Slot};
use crate::structures::Sent;

/// A batch under way.
pub(crate) struct Batch<S> {
    /// Its number in the session, from 1.
    pub(crate) number: u64,
    /// VF: its futures.
    pub(crate) futures: Vec<Future<S>>,
    /// The failed stubs that its calls have as arguments: the position of the call, the argument,
    /// and the failure, by position.
    pub(crate) error_handles: Vec<(u32, u32, Arc<Error<S>>)>,
    /// Its outermost structures, by position.
    pub(crate) structures: Vec<Sent<S>>,
    /// The transactions at its begin and at its end.
    pub(crate) transactions: (u32, u32),
    /// The calls up to this position need not be told.
    pub(crate) forgiven: u32,
    /// True if later batches may name its results.
    kept: bool,
    /// The number of results that its answer has.
    wanted: usize,
    /// The number of bytes of the session up to its end.
    ends_at: u64,
    /// The milliseconds that it may wait for changes of others.
    wait_ms: u64,
}

impl<S> Default for Batch<S> {
    fn default() -> Self {
        Batch {
            number: 0,
            futures: Vec::with_capacity(1024),
            error_handles: Vec::new(),
            structures: Vec::with_capacity(64),
            transactions: (0, 0),
            forgiven: 0,
            kept: false,
            wanted: 0,
            ends_at: 0,
            wait_ms: 0,
        }
    }
}

/// The failures of a batch that is answered, which batches recorded before its answer may name.
struct Answered<S> {
    batch: u64,
    /// The last batch that may name them.
    until: u64,
    /// The failures by the positions of their calls.
    failures: HashMap<u32, Arc<Error<S>>>,
}

/// The batches under way, oldest first.
pub(crate) struct UnderWay<S> {
    // Boxed, so that a batch is moved as a pointer.
    batches: VecDeque<Box<Batch<S>>>,
    /// The results of all of them.
    wanted: usize,
    /// Bytes of them that were not sent.
    pub(crate) unsent: Vec<u8>,
    /// The bytes of the session that were sent.
    sent: u64,
    answered: VecDeque<Answered<S>>,
    /// The tables of a batch that was answered, for the next one.
    spare: Option<Box<Batch<S>>>,
}

impl<S> Default for UnderWay<S> {
    fn default() -> Self {
        UnderWay {
            batches: VecDeque::new(),
            wanted: 0,
            unsent: Vec::new(),
            sent: 0,
            answered: VecDeque::new(),
            spare: None,
        }
    }
}

impl<S> UnderWay<S> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Notes that bytes were sent.
    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Counts the bytes that another recorder of the session has sent.
    pub(crate) fn count_sent_before(&mut self, other: &UnderWay<S>) {
        self.sent = other.sent;
    }

    /// Returns the batch that a slot's word names, and the position in it.
    pub(crate) fn find(&mut self, word: u64) -> Option<(&mut Batch<S>, u32)> {
        let first = self.batches.front()?.number;
        let index = ((word >> 32) as u32).wrapping_sub(first as u32);
        self.batches.get_mut(index as usize).map(|batch| (&mut **batch, word as u32))
    }

    /// Returns the number of the batch that a slot's word names.
    pub(crate) fn number_of(&self, word: u64) -> u64 {
        let first = self.batches.front().map_or(0, |first| first.number);
        first + u64::from(((word >> 32) as u32).wrapping_sub(first as u32))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Batch<S>> {
        self.batches.iter_mut().map(|batch| &mut **batch)
    }

    /// Takes the oldest batch out, if all of it was sent: its answer has come.
    pub(crate) fn take_first(&mut self) -> Option<Box<Batch<S>>> {
        if self.batches.front()?.ends_at > self.sent {
            return None;
        }
        let batch = self.batches.pop_front()?;
        self.wanted -= batch.wanted;
        Some(batch)
    }

    /// Notes the failures of a batch that is answered. `recording` is the batch that is recorded,
    /// the last one that may name them.
    pub(crate) fn note_failures(
        &mut self,
        batch: u64,
        recording: u64,
        failures: HashMap<u32, Arc<Error<S>>>,
    ) {
        if !failures.is_empty() {
            self.answered.push_back(Answered { batch, until: recording, failures });
        }
    }

    /// Returns the failure of a call of an earlier batch.
    pub(crate) fn failure_of(&self, batch: u64, call: u32) -> Option<&Arc<Error<S>>> {
        self.answered.iter().find(|answered| answered.batch == batch)?.failures.get(&call)
    }

    /// Puts the oldest batch back, whose answer makes no sense.
    pub(crate) fn put_back(&mut self, batch: Box<Batch<S>>) {
        self.wanted += batch.wanted;
        self.batches.push_front(batch);
    }

    /// Takes a batch back that was answered, for its tables.
    pub(crate) fn recycle(&mut self, mut batch: Box<Batch<S>>) {
        if !self.answered.is_empty() {
            self.answered.retain(|answered| answered.until > batch.number);
        }
        batch.futures.clear();
        batch.error_handles.clear();
        batch.structures.clear();
        self.spare = Some(batch);
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.answered.clear();
        self.unsent.clear();
        self.wanted = 0;
    }
}

impl<S: Source> Recorder<S> {
    /// True while the answer to a flush is due.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Returns the number of batches that are not answered.
    pub fn batches_under_way(&self) -> usize {
        self.under_way.batches.len()
    }

    /// Returns the number of the batch that is recorded, from 1. All stubs made up to now have
    /// their objects, values or errors when no batch up to this one is [unanswered].
    ///
    /// [unanswered]: Recorder::is_unanswered
    pub fn batch_number(&self) -> u64 {
        self.batch_number
    }

    /// True if a batch was not answered yet, by its number.
    pub fn is_unanswered(&self, batch: u64) -> bool {
        let first = self.under_way.batches.front().map_or(self.batch_number, |first| first.number);
        batch >= first
    }

    /// True if a flush has to wait for an answer first: `batches_under_way_max` batches are under
    /// way, or their results and those of this batch are more than `futures_max`.
    pub fn is_crowded(&self) -> bool {
        let (batches, results) = (self.under_way.batches.len(), self.under_way.wanted);
        batches > 0
            && (batches >= self.bounds.under_way || results + self.futures.len() > self.bounds.futures)
    }

    /// Moves the recorded batch, whose `flush` is to be appended, among those under way. With
    /// `kept` the server keeps its results, which later batches may name.
    pub(crate) fn put_under_way(&mut self, kept: bool) {
        let mut batch = self.under_way.spare.take().unwrap_or_default();
        std::mem::swap(&mut batch.futures, &mut self.futures);
        std::mem::swap(&mut batch.error_handles, &mut self.error_handles);
        std::mem::swap(&mut batch.structures, &mut self.structures);
        (batch.number, batch.kept) = (self.batch_number, kept);
        (batch.transactions, batch.forgiven) = self.seen.end_batch();
        batch.wait_ms = std::mem::take(&mut self.wait_ms);
        batch.wanted = 0;
        let (slots, number, count) = (&mut self.slots, self.batch_number as u32, &mut batch.wanted);
        let wanted = batch.futures.iter().zip(1..).filter(|(future, _)| future.slot != NO_SLOT);
        let wanted = wanted.map(|(future, position)| {
            if let Some(slot) = slots.get_mut(future.slot as usize) {
                slot.put_under_way(u64::from(number) << 32 | u64::from(position));
            }
            *count += 1;
            position
        });
        match kept {
            true => {
                let unanswered = self.under_way.batches.len().min(usize::from(u8::MAX)) as u8;
                encode::flush_kept(&mut self.batch, wanted, unanswered);
            }
            false => {
                encode::flush(&mut self.batch, wanted, false);
                // Such a flush ends what the server has kept of earlier batches.
                self.under_way.iter_mut().for_each(|earlier| earlier.kept = false);
            }
        }
        self.explained.end(&self.batch, self.batch_number, self.commands, &batch.futures);
        self.published = 0;
        self.tables = 0;
        self.table_at = None;
        self.counters.crossings += 1;
        self.counters.calls += std::mem::take(&mut self.commands);
        self.batch_number += 1;
        let under_way = &mut self.under_way;
        if under_way.unsent.is_empty() {
            std::mem::swap(&mut under_way.unsent, &mut self.batch);
        } else {
            under_way.unsent.append(&mut self.batch);
        }
        batch.ends_at = under_way.sent + under_way.unsent.len() as u64;
        under_way.wanted += batch.wanted;
        under_way.batches.push_back(batch);
    }

    /// Returns the reference to a stub that is a result of a batch under way.
    ///
    /// # Errors
    /// The server does not keep the results of that batch.
    #[cold]
    pub(crate) fn earlier_reference(&mut self, slot: Slot) -> Result<Option<Ref>, Arc<Error<S>>> {
        let Some(word) = self.word_under_way(slot) else { return Ok(None) };
        if !self.under_way.find(word).is_some_and(|(batch, _)| batch.kept) {
            return Err(misuse(Misuse::UnderWay));
        }
        let back = (self.batch_number as u32).wrapping_sub((word >> 32) as u32);
        // No more batches are under way than fit.
        Ok(Some(Ref::earlier(Earlier { back: back as u8, position: word as u32 })))
    }

    /// Notes that the stub of a result of a batch under way was dropped.
    #[cold]
    pub(crate) fn drop_under_way(&mut self, word: u64) {
        let found = self.under_way.find(word);
        let future = found.and_then(|(batch, at)| batch.futures.get_mut((at as usize).wrapping_sub(1)));
        if let Some(future) = future {
            future.slot = DROPPED;
        }
    }

    /// Gives all stubs of the batches under way, and of the recorded one, this error.
    pub(crate) fn end_all(&mut self, error: &Arc<Error<S>>) {
        self.end_futures(0, error);
        self.futures.clear();
        for mut batch in std::mem::take(&mut self.under_way.batches) {
            std::mem::swap(&mut self.futures, &mut batch.futures);
            self.end_futures(0, error);
            self.futures.clear();
        }
        self.under_way.clear();
    }

    /// Returns the milliseconds that the batches under way may wait for changes of others: a client
    /// waits so much longer for the answers.
    pub fn wait_ms(&self) -> u64 {
        self.under_way.batches.iter().map(|batch| batch.wait_ms).sum::<u64>() + self.wait_ms
    }
}

impl<S: Source> Batch<S> {
    /// Returns the transaction that a call belongs to.
    pub(crate) fn transaction_at(&self, position: u32) -> u32 {
        let (first, last) = self.transactions;
        if first == last {
            return last;
        }
        let before = self.futures.iter().take((position as usize).saturating_sub(1)).rev();
        let ended = before.filter_map(|future| match future.made {
            Maker::Commit(number) | Maker::Abort(number) => Some(number + 1),
            _ => None,
        });
        ended.take(1).next().unwrap_or(first)
    }

    /// Returns the failure of an argument that the server knows only as the error-handle.
    pub(crate) fn error_handle(&self, call: u32, argument: u32) -> Option<Arc<Error<S>>> {
        let of_call = |&&(position, ..): &&(u32, u32, _)| position == call;
        let mut handles = self.error_handles.iter().rev().filter(of_call);
        let exact = handles.clone().find(|(_, a, _)| *a == argument);
        exact.or_else(|| handles.next()).map(|(.., error)| error.clone())
    }

    /// Returns the outermost structure whose first position this is.
    pub(crate) fn structure_name(&self, position: u32) -> Option<CallName<S>> {
        let index = self.structures.binary_search_by_key(&position, |sent| sent.position).ok()?;
        self.structures.get(index).map(|sent| sent.name())
    }
}
