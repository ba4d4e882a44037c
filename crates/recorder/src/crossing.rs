//! The way of a batch to the server, and its answer back.
//!
//! Read [`Recorder::begin_flush`] and [`Recorder::handle_bytes`] first. A flush has these steps:
//!
//! 1. the caller sends the rest of the batch;
//! 2. it hands in the bytes of the reply;
//! 3. the slots of the futures are filled;
//! 4. failures go to the history and to the account in `seen`.
//!
//! A wrong reply closes the session.
//!
//! ```text
//! recorded --begin_flush--> under way --all bytes sent, the answer--> answered
//! any --close, a wrong reply, an error of the server--> closed
//! ```
//!
//! Bytes of the server are not trusted: they are decoded by `bifrost_wire`, positions and counts
//! are compared with those of the batch, and no more than `reply_bytes_max` are kept.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_wire::reply::FlushedReply;
use bifrost_wire::{
    DecodeError, DecodedReply, ErrorNumber, ExceptionKind, Outcome, Reply, Scope, Value, decode_reply,
    encode, op, with_names,
};

use crate::Source;
use crate::error::{Closed, Error, ErrorValue, FailurePlaces, Misuse};
use crate::explain::Ran;
use crate::recorder::{Maker, Recorder, misuse};
use crate::seen::is_unseen;
use crate::slots::{DROPPED, Extra, NO_SLOT, Tag};
use crate::under_way::Batch;

type Shared<S> = Arc<Error<S>>;

/// The last words of a server that takes no more bytes.
#[derive(Debug)]
pub enum LastWords {
    /// More bytes are needed.
    Unfinished,
    /// The server gave no reason.
    None,
    /// The reason.
    Reason(Closed),
}

/// The bytes of replies, in whatever pieces they come.
#[derive(Debug)]
pub(crate) struct Replies {
    /// The bytes of a reply that is not whole yet, and those behind one that was taken.
    kept: Vec<u8>,
    bytes_max: usize,
}

impl Replies {
    pub(crate) fn new(bytes_max: usize) -> Replies {
        Replies { kept: Vec::new(), bytes_max }
    }

    /// True if nothing follows the last reply.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Takes further bytes. Hands the reply at the front to `take`, if it is whole.
    ///
    /// Cost: copies only bytes of a reply that is not whole.
    pub(crate) fn next<T>(
        &mut self,
        bytes: &[u8],
        take: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<Option<T>, DecodeError> {
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(bytes);
            let (taken, length) = match decode_reply(&self.kept, self.bytes_max)? {
                DecodedReply::Reply(reply, length) => (take(reply), length),
                DecodedReply::NeedMore(_) => return Ok(None),
            };
            self.kept.drain(..length);
            return Ok(Some(taken));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        match decode_reply(bytes, self.bytes_max)? {
            DecodedReply::Reply(reply, length) => {
                let taken = take(reply);
                self.kept.extend_from_slice(bytes.get(length..).unwrap_or_default());
                Ok(Some(taken))
            }
            DecodedReply::NeedMore(_) => {
                self.kept.extend_from_slice(bytes);
                Ok(None)
            }
        }
    }

    /// Looks for the reason that a server gives before it closes a session.
    pub(crate) fn last_words(&mut self, bytes: &[u8]) -> LastWords {
        let said = self.next(bytes, |reply| match reply {
            Reply::Error { number, position, text } => {
                LastWords::Reason(Closed::ByServer { number, position, text: text.to_owned() })
            }
            _ => LastWords::None,
        });
        match said {
            Ok(Some(words)) => words,
            Ok(None) => LastWords::Unfinished,
            Err(_) => LastWords::None,
        }
    }
}

impl<S: Source> Recorder<S> {
    /// Returns the bytes that can be sent now: whole commands, those of flushed batches first.
    /// There are no others while a structure is open or a batch that is a transaction is recorded.
    ///
    /// Send them when they are [due](crate::Due::Send), and after [`Recorder::begin_flush`] until
    /// there are none. A structure whose bytes were sent cannot be reopened.
    pub fn bytes_to_send(&self) -> &[u8] {
        match self.flushed_bytes() {
            [] if self.scopes.is_empty() && !self.shipping => &self.batch,
            flushed => flushed,
        }
    }

    /// Returns the bytes of flushed batches that were not sent.
    pub fn flushed_bytes(&self) -> &[u8] {
        &self.under_way.unsent
    }

    /// Takes the first bytes of [`Recorder::bytes_to_send`] as sent.
    pub fn sent(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes_to_send().len());
        let flushed = !self.under_way.unsent.is_empty();
        let from = match flushed {
            true => &mut self.under_way.unsent,
            false => {
                self.published += bytes;
                self.explained.keep(self.batch.get(..bytes).unwrap_or_default());
                &mut self.batch
            }
        };
        match bytes == from.len() {
            true => from.clear(),
            false => drop(from.drain(..bytes)),
        }
        self.under_way.count_sent(bytes);
        if flushed && self.under_way.unsent.is_empty() && self.batch.is_empty() {
            // The buffer that was used last is the one in the processor's cache.
            std::mem::swap(&mut self.batch, &mut self.under_way.unsent);
        }
    }

    /// Closes the session, and returns the error that every stub without a result has now, and
    /// every later one.
    pub fn close(&mut self, why: Closed) -> Error<S> {
        if let Some(error) = &self.broken {
            return (**error).clone();
        }
        let error = Error::Closed(Arc::new(why));
        let shared = Arc::new(error.clone());
        self.end_all(&shared);
        self.batch.clear();
        self.broken = Some(shared);
        self.attend();
        error
    }

    /// Gives all stubs up, which have this failure from now on: the results of the recorded batch,
    /// and the objects, which go back with it. A session that others go on with needs that.
    pub fn end_work(&mut self, why: Closed) {
        let error = Arc::new(Error::Closed(Arc::new(why)));
        self.end_futures(0, &error);
        self.fail_objects(&error);
        let handles = self.handles.iter_mut();
        self.frees.extend(handles.map(|(handle, held)| {
            held.slots = 0;
            *handle
        }));
    }

    /// Ends this recorder for a reason, and returns the one that goes on with the session. Nothing
    /// is recorded in it, and nothing under way. Procedures, counts and the wish for profiles stay,
    /// as the server has them.
    pub fn succeed(&mut self, why: Closed) -> Recorder<S> {
        let numbers = self.numbers.take();
        let replies = std::mem::replace(&mut self.replies, Replies::new(0));
        let mut other = Recorder::new(numbers, self.bounds, replies, self.attention_futures);
        other.procedures = std::mem::take(&mut self.procedures);
        other.counters = self.counters;
        other.profiled = self.profiled;
        other.batch_number = self.batch_number;
        other.ends = self.ends;
        other.under_way.count_sent_before(&self.under_way);
        self.close(why);
        other
    }

    /// Returns the reason why the session is closed, which all its stubs have.
    pub fn closed(&self) -> Option<&Arc<Error<S>>> {
        self.broken.as_ref()
    }

    /// True if the session is closed.
    pub fn is_closed(&self) -> bool {
        self.broken.is_some()
    }

    /// Ends the batch: records the frees and the flush. False if there is nothing to send;
    /// otherwise the batch is under way: the bytes are to be sent, and the answer is to be handed
    /// to [`Recorder::handle_bytes`]. With `kept`, batches that are recorded before the answer may
    /// use the stubs of this one.
    ///
    /// # Errors
    /// The session is closed, a structure is open, or there are too many batches [under
    /// way](Recorder::is_crowded).
    pub fn begin_flush(&mut self, kept: bool) -> Result<bool, Error<S>> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        if !self.scopes.is_empty() {
            return Err(Error::Misuse(Misuse::OpenStructure));
        }
        self.prune_frees();
        if self.commands == 0 && self.frees.is_empty() {
            return Ok(false);
        }
        if self.is_crowded() {
            return Err(Error::Misuse(Misuse::UnderWay));
        }
        self.append_frees();
        self.put_under_way(kept);
        self.attend();
        Ok(true)
    }

    /// Begins a flush for the program, which cannot while a batch that is a transaction is
    /// recorded. `name` is the program's call: `claim`, `flush`.
    ///
    /// # Errors
    /// As [`Recorder::begin_flush`], and the refusal in a transaction, of which the program is told
    /// with it.
    #[inline]
    pub fn begin_flush_for(&mut self, name: &str, kept: bool, place: S) -> Result<bool, Error<S>> {
        match self.shipping && self.broken.is_none() && self.scopes.is_empty() {
            true => {
                self.explained.refused();
                let error = self.refuse(name, place, misuse(Misuse::InTransaction));
                self.tell(&error);
                Err((*error).clone())
            }
            false => {
                self.explained.asked(place);
                let begun = self.begin_flush(kept);
                if !matches!(begun, Ok(true)) {
                    self.explained.refused();
                }
                begun
            }
        }
    }

    /// Takes those handles out of the list of those to be given back that have come again.
    fn prune_frees(&mut self) {
        if !self.frees.is_empty() {
            // The order in which stubs are dropped is no language's promise.
            self.frees.sort_unstable();
            self.frees.dedup();
            let handles = &self.handles;
            self.frees.retain(|handle| handles.get(handle).is_some_and(|held| held.slots == 0));
        }
    }

    fn append_frees(&mut self) {
        // An answer under way may name a handle again: then the server does not take it back.
        let unanswered = self.batches_under_way() as u8;
        // Leaves room for the first word.
        let most = (self.bounds.frame_bytes / 8).saturating_sub(1).max(1);
        for some in self.frees.chunks(most) {
            encode::free(&mut self.batch, some, unanswered);
        }
        for handle in self.frees.drain(..) {
            self.handles.remove(&handle);
        }
    }

    /// Takes bytes of the server, cut anywhere. True if the oldest batch under way has been
    /// answered with them; its stubs then have their objects, values or errors. Bytes behind the
    /// answer are kept: if more batches are under way, hand in no bytes for the next answer.
    ///
    /// # Errors
    /// The session is closed: by the server, or because the bytes are not the answer.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<bool, Error<S>> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        let mut replies = std::mem::replace(&mut self.replies, Replies::new(0));
        let taken = replies.next(bytes, |reply| match reply {
            Reply::Error { number, position, text } => {
                Err(Closed::ByServer { number, position, text: text.to_owned() })
            }
            Reply::Flushed(flushed) => match self.under_way.take_first() {
                Some(batch) => self.apply(batch, flushed),
                None => Err(Closed::WrongReply("no reply was expected")),
            },
            _ => Err(Closed::WrongReply("an answer to `flush` was expected")),
        });
        self.replies = replies;
        match taken {
            Ok(None) => Ok(false),
            Ok(Some(Ok(()))) => Ok(true),
            Ok(Some(Err(why))) => Err(self.close(why)),
            Err(error) => Err(self.close(error.into())),
        }
    }

    /// Looks for the reason that a server gives before it closes a session, in bytes that can still
    /// be read when none can be written. The caller then [closes](Recorder::close) the session with
    /// it, or with the reason of its own.
    pub fn handle_last_bytes(&mut self, bytes: &[u8]) -> LastWords {
        self.replies.last_words(bytes)
    }

    /// Ends the session without an answer: commands that were recorded and never flushed are to be
    /// sent, and run. False if the session is closed already; otherwise the caller sends the bytes
    /// and [closes](Recorder::close) the session.
    pub fn leave(&mut self) -> bool {
        if self.broken.is_some() {
            return false;
        }
        while !self.scopes.is_empty() {
            self.abandon();
        }
        self.shipping = false;
        encode::plain(&mut self.batch, op::BYE);
        true
    }

    /// Fills the slots of a batch's futures from its answer.
    fn apply(&mut self, mut batch: Box<Batch<S>>, reply: FlushedReply<'_>) -> Result<(), Closed> {
        let filled = self.fill(&mut batch, reply);
        if filled.is_err() {
            // All stubs of the batch get the error with which the session is closed.
            self.under_way.put_back(batch);
            return filled;
        }
        if self.futures.is_empty() {
            // As for the bytes in `sent`.
            std::mem::swap(&mut self.futures, &mut batch.futures);
            self.futures.clear();
        }
        self.under_way.recycle(batch);
        self.bound_untold();
        self.attend();
        Ok(())
    }

    fn fill(&mut self, batch: &mut Batch<S>, reply: FlushedReply<'_>) -> Result<(), Closed> {
        let failures = reply.exceptions().len() > 0 || reply.omitted > 0;
        let (errors, end) = match failures {
            true => self.take_exceptions(batch, &reply),
            false => (Vec::new(), None),
        };
        self.answered(failures);
        self.counters.executed += u64::from(reply.counters.calls);
        let (calls, fuel) = (reply.counters.calls, reply.counters.fuel);
        let failures =
            u32::try_from(reply.exceptions().len()).unwrap_or(u32::MAX).saturating_add(reply.omitted);
        let totals = reply.profile.map(|profile| profile.totals);
        self.explained.ran(batch.number, Ran { calls, fuel, failures, totals }, reply.profile);
        let mut outcomes = reply.outcomes();
        let mut short = false;
        for index in 0..batch.futures.len() {
            let Some(future) = batch.futures.get_mut(index) else { break };
            let (slot, made) = (future.slot, Some((future.made, future.place)));
            if slot == NO_SLOT {
                continue;
            }
            let known = match outcomes.next() {
                Some(Outcome::Handle { handle, ty }) => {
                    self.hold_handle(handle, made).ty = Some(ty);
                    (Tag::Handle, handle.0 as u64)
                }
                Some(Outcome::Value(value)) => self.pack(value),
                Some(Outcome::Rows(rows)) => {
                    rows.each_handle(&mut |handle| {
                        self.hold_handle(handle, made);
                    });
                    (Tag::Rows, self.new_extra(Extra::Rows(rows.into())))
                }
                Some(Outcome::Exception(n)) => match errors.get(n as usize) {
                    Some(error) => {
                        error.each_object(&mut |handle| {
                            self.hold_handle(handle, None);
                        });
                        (Tag::Failed, self.new_extra(Extra::Failed(error.clone())))
                    }
                    None => return Err(Closed::WrongReply("an exception that is not listed")),
                },
                Some(Outcome::Absent) => {
                    let call = self.call_name(&batch.futures, index as u32 + 1, &[]);
                    let error = Arc::new(Error::NotReached { cause: end.clone(), call });
                    (Tag::Failed, self.new_extra(Extra::Failed(error)))
                }
                None => {
                    short = true;
                    break;
                }
            };
            match slot {
                DROPPED => self.discard(known.0, known.1),
                slot => self.settle(slot, known),
            }
        }
        short |= outcomes.next().is_some();
        for handle in std::mem::take(&mut self.signalled) {
            self.drop_handle(handle);
        }
        if short {
            Err(Closed::WrongReply("the number of outcomes is not that of the requested futures"))
        } else {
            Ok(())
        }
    }

    /// Returns the batch's exceptions as errors, which go into the history, and the one that ended
    /// the batch.
    #[cold]
    fn take_exceptions(
        &mut self,
        batch: &Batch<S>,
        reply: &FlushedReply<'_>,
    ) -> (Vec<Shared<S>>, Option<Shared<S>>) {
        let mut errors: Vec<Shared<S>> = Vec::new();
        let mut end = None;
        self.note_omitted(reply.omitted);
        let mut by_call: HashMap<u32, Shared<S>> = HashMap::new();
        for exception in reply.exceptions() {
            let position = exception.call;
            let rounds: Vec<u32> = exception.iterations().collect();
            let made = batch.futures.get((position as usize).wrapping_sub(1)).map(|future| future.made);
            let mut call = self.call_name(&batch.futures, position, &rounds);
            let mut unseen = None;
            // A structure that is not run has the position of its first call, and none of its calls
            // is to blame.
            if !matches!(exception.kind, ExceptionKind::Signal { .. })
                && let Some(name) = batch.structure_name(position)
            {
                call = name;
            }
            let error = Arc::new(match exception.kind {
                ExceptionKind::Signal { name, values, places } => {
                    let values = values.iter().map(|v| self.error_value(v)).collect();
                    let places = FailurePlaces::of(&places);
                    Error::Signal { name: name.into(), values, places, call }
                }
                ExceptionKind::Unhandled { argument, back, cause } => {
                    let known = match back {
                        0 => by_call.get(&cause),
                        back => batch
                            .number
                            .checked_sub(u64::from(back))
                            .and_then(|earlier| self.under_way.failure_of(earlier, cause)),
                    };
                    let known = known.map(|error| error.as_cause());
                    let cause = known.or_else(|| batch.error_handle(position, argument));
                    Error::Unhandled { argument, cause, call }
                }
                ExceptionKind::Refused { number, text } => {
                    if is_unseen(number) {
                        unseen = match made {
                            Some(Maker::Commit(transaction)) => self.unseen(call.clone(), transaction),
                            Some(Maker::Transaction) => self.unseen(call.clone(), u32::MAX),
                            _ => None,
                        };
                    }
                    match &unseen {
                        Some(error) => error.clone(),
                        None => {
                            let text = with_names(text, |handle| self.name_of(handle));
                            Error::Refused { number, text: text.into(), call }
                        }
                    }
                }
            });
            if let ExceptionKind::Refused { number, .. } = exception.kind
                && ErrorNumber::from_number(number).is_some_and(|n| n.scope() == Scope::Batch)
            {
                end = Some(error.clone());
                self.ends += 1;
                self.batch_end = end.clone();
            }
            by_call.insert(position, error.clone());
            errors.push(error.clone());
            match made {
                // The calls that it stands for are noted.
                Some(Maker::Refused) => continue,
                _ if unseen.is_some() => self.note_unseen(&error, batch, position),
                _ => self.note_failure(&error, batch, position),
            }
            self.remember(error, batch.number);
        }
        self.history_omitted += u64::from(reply.omitted);
        self.under_way.note_failures(batch.number, self.batch_number, by_call);
        (errors, end)
    }

    fn error_value(&mut self, value: Outcome<'_>) -> ErrorValue {
        match value {
            Outcome::Value(Value::Nil) => ErrorValue::Nil,
            Outcome::Value(Value::Bool(b)) => ErrorValue::Bool(b),
            Outcome::Value(Value::Int(i)) => ErrorValue::Int(i),
            Outcome::Value(Value::Real(r)) => ErrorValue::Real(r),
            Outcome::Value(Value::Char(c)) => ErrorValue::Char(c),
            Outcome::Value(Value::Str(s)) => ErrorValue::Str(s.into()),
            Outcome::Value(Value::Bytes(b)) => ErrorValue::Bytes(b.into()),
            Outcome::Handle { handle, .. } => {
                // It is given back when all stubs of the batch have what they hold.
                self.hold_handle(handle, None);
                self.signalled.push(handle);
                ErrorValue::Object(handle)
            }
            Outcome::Value(Value::Compound(compound)) => {
                compound.each_reference(&mut |handle| {
                    self.hold_handle(handle, None);
                    self.signalled.push(handle);
                });
                ErrorValue::Nil
            }
            Outcome::Rows(_) | Outcome::Exception(_) | Outcome::Absent => ErrorValue::Nil,
        }
    }
}
