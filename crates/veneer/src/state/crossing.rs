//! The way of a batch to the server, and what comes back.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_wire::reply::FlushedReply;
use bifrost_wire::{DecodedReply, ExceptionKind, Outcome, Reply, decode_reply, encode, op};

use super::{Extra, Future, Made, NO_SLOT, OwnedValue, State, Tag};
use crate::connection::ConnectionError;
use crate::error::{CallName, Closed, Error, ErrorValue, Exception, Misuse};

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

impl State {
    /// Gives what is recorded to the connection.
    pub(super) fn publish(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        match self.connection.write(&self.batch, self.timeout) {
            Ok(()) => self.connection.flush(),
            Err(error) => {
                let why = self.unwritten(error);
                return Err(self.broke(why));
            }
        }
        self.published += self.batch.len();
        self.batch.clear();
        Ok(())
    }

    /// Sends a question that is no part of a batch.
    pub(crate) fn ask(&mut self, question: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        let mut bytes = Vec::new();
        question(&mut bytes);
        self.connection.write(&bytes, self.timeout).map_err(|error| self.unwritten(error))?;
        self.connection.flush();
        Ok(())
    }

    /// Why nothing can be written: a server that ends a session says why before it closes.
    #[cold]
    fn unwritten(&mut self, error: ConnectionError) -> Closed {
        if !matches!(error, ConnectionError::Ended) {
            return error.into();
        }
        let bytes = std::mem::take(&mut self.replies);
        let (_, said) = self.receive(bytes, |_, reply| match reply {
            Reply::Error { number, position, text } => {
                Err(Closed::ByServer { number, position, text: text.to_owned() })
            }
            _ => Ok(()),
        });
        match said {
            Err(why @ Closed::ByServer { .. }) => why,
            _ => error.into(),
        }
    }

    /// Ends the session: every stub without a result, now and later, says why.
    pub(crate) fn broke(&mut self, why: Closed) -> Error {
        if let Some(error) = &self.broken {
            return (**error).clone();
        }
        let error = Error::Closed(Arc::new(why));
        let shared = Arc::new(error.clone());
        self.end_futures(0, &shared);
        self.futures.clear();
        self.batch.clear();
        self.broken = Some(shared);
        self.attention_bytes = 0;
        error
    }

    /// Ends the batch: sends it, waits for the answer, and fills the slots. Does not cross when there is
    /// nothing to say.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        if !self.scopes.is_empty() {
            return Err(Error::Misuse(Misuse::OpenStructure));
        }
        if self.shipping {
            return Err((*self.misused(Misuse::InTransaction)).clone());
        }
        if self.commands == 0 && self.frees.is_empty() {
            return Ok(());
        }
        self.append_frees();
        let wanted = self.futures.iter().enumerate().filter(|(_, f)| f.slot != NO_SLOT);
        encode::flush(&mut self.batch, wanted.map(|(i, _)| i as u32 + 1), false);
        self.publish()?;
        self.counters.crossings += 1;
        self.counters.calls += self.commands;
        let bytes = std::mem::take(&mut self.replies);
        let (bytes, done) = self.receive(bytes, |state, reply| match reply {
            Reply::Flushed(flushed) => state.apply(flushed),
            Reply::Error { number, position, text } => {
                Err(Closed::ByServer { number, position, text: text.to_owned() })
            }
            _ => Err(Closed::WrongReply("an answer to flush was due")),
        });
        self.replies = bytes;
        done.map_err(|why| self.broke(why))?;
        self.futures.clear();
        self.commands = 0;
        self.published = 0;
        self.batch_number += 1;
        Ok(())
    }

    fn append_frees(&mut self) {
        // Leaves room for the first word.
        let most = (self.bounds.frame_bytes / 8).saturating_sub(1).max(1);
        for some in self.frees.chunks(most) {
            encode::free(&mut self.batch, some);
        }
        self.frees.clear();
    }

    /// Waits for one reply and hands it to `take`; gives the buffer back, without the reply.
    pub(crate) fn receive(
        &mut self,
        mut bytes: Vec<u8>,
        take: impl FnOnce(&mut State, Reply<'_>) -> Result<(), Closed>,
    ) -> (Vec<u8>, Result<(), Closed>) {
        loop {
            // Usually nothing is here yet; a look at it would only say so.
            if bytes.is_empty()
                && let Err(error) = self.connection.read(&mut bytes, READ_BYTES, self.timeout)
            {
                return (bytes, Err(error.into()));
            }
            match decode_reply(&bytes, self.reply_bytes_max) {
                Err(error) => return (bytes, Err(error.into())),
                Ok(DecodedReply::Reply(reply, length)) => {
                    let done = take(self, reply);
                    bytes.drain(..length);
                    return (bytes, done);
                }
                Ok(DecodedReply::NeedMore(_)) => {
                    if let Err(error) = self.connection.read(&mut bytes, READ_BYTES, self.timeout) {
                        return (bytes, Err(error.into()));
                    }
                }
            }
        }
    }

    /// Fills the slots of the batch's futures from the answer.
    fn apply(&mut self, reply: FlushedReply<'_>) -> Result<(), Closed> {
        let errors = self.take_exceptions(&reply);
        let futures = std::mem::take(&mut self.futures);
        let mut outcomes = reply.outcomes();
        let mut short = false;
        for (index, future) in futures.iter().enumerate().filter(|(_, f)| f.slot != NO_SLOT) {
            let known = match outcomes.next() {
                Some(Outcome::Handle { handle, .. }) => {
                    *self.handles.entry(handle).or_insert(0) += 1;
                    (Tag::Handle, handle.0 as u64)
                }
                Some(Outcome::Value(value)) => self.pack(value),
                Some(Outcome::Exception(n)) => match errors.get(n as usize) {
                    Some(error) => (Tag::Failed, self.new_extra(Extra::Failed(error.clone()))),
                    None => return Err(Closed::WrongReply("an exception that is not listed")),
                },
                Some(Outcome::Absent) => {
                    let call = self.call_name(&futures, index as u32 + 1, &[]);
                    let error = Arc::new(Error::NotReached { call });
                    (Tag::Failed, self.new_extra(Extra::Failed(error)))
                }
                None => {
                    short = true;
                    break;
                }
            };
            self.settle(future.slot, known);
        }
        short |= outcomes.next().is_some();
        // Keep the memory.
        self.futures = futures;
        if short { Err(Closed::WrongReply("not as many outcomes as futures wanted")) } else { Ok(()) }
    }

    /// The batch's exceptions as errors, which go into the history.
    fn take_exceptions(&mut self, reply: &FlushedReply<'_>) -> Vec<Arc<Error>> {
        let mut errors: Vec<Arc<Error>> = Vec::new();
        if reply.exceptions().len() == 0 {
            return errors;
        }
        let futures = std::mem::take(&mut self.futures);
        let mut by_call: HashMap<u32, usize> = HashMap::new();
        for exception in reply.exceptions() {
            let rounds: Vec<u32> = exception.iterations().collect();
            let call = self.call_name(&futures, exception.call, &rounds);
            let error = Arc::new(match exception.kind {
                ExceptionKind::Signal { name, values } => {
                    let values = values.iter().map(|v| self.error_value(v)).collect();
                    Error::Signal { name: name.into(), values, call }
                }
                ExceptionKind::Unhandled { argument, cause } => {
                    let cause = by_call.get(&cause).and_then(|i| errors.get(*i)).cloned();
                    Error::Unhandled { argument, cause, call }
                }
                ExceptionKind::Refused { number, text } => Error::Refused { number, text: text.into(), call },
            });
            by_call.insert(exception.call, errors.len());
            errors.push(error.clone());
            self.remember(error);
        }
        self.history_omitted += u64::from(reply.omitted);
        self.futures = futures;
        errors
    }

    fn error_value(&mut self, value: Outcome<'_>) -> ErrorValue {
        match value {
            Outcome::Value(value) => match OwnedValue::from_wire(value) {
                OwnedValue::Nil => ErrorValue::Nil,
                OwnedValue::Bool(b) => ErrorValue::Bool(b),
                OwnedValue::Int(i) => ErrorValue::Int(i),
                OwnedValue::Real(r) => ErrorValue::Real(r),
                OwnedValue::Char(c) => ErrorValue::Char(c),
                OwnedValue::Str(s) => ErrorValue::Str(s),
            },
            Outcome::Handle { handle, .. } => {
                // An error can outlive its session, a stub cannot: the object is given back, unless
                // a stub has it too.
                *self.handles.entry(handle).or_insert(0) += 1;
                self.drop_handle(handle);
                ErrorValue::Object
            }
            Outcome::Exception(_) | Outcome::Absent => ErrorValue::Nil,
        }
    }

    fn call_name(&mut self, futures: &[Future], number: u32, rounds: &[u32]) -> CallName {
        let made = futures.get((number as usize).wrapping_sub(1));
        let name = match made.map(|f| f.made) {
            Some(Made::Method(n)) => self.numbers.method_name(n),
            Some(Made::Routine(n)) => self.numbers.routine_name(n),
            Some(Made::Procedure(n)) => {
                self.procedures.names.get(n as usize).cloned().unwrap_or_else(|| "?".into())
            }
            Some(Made::Lookup) => "lookup".into(),
            Some(Made::Constant) => "constant".into(),
            Some(Made::Transaction) => "transaction".into(),
            Some(Made::Commit) => "commit".into(),
            Some(Made::Abort) => "abort".into(),
            Some(Made::Cell) => "cell".into(),
            Some(Made::Variable) => "variable".into(),
            None => "?".into(),
        };
        CallName { name, number, location: made.map(|f| f.location), rounds: rounds.into() }
    }

    /// Whether there was a misuse that nobody was told of.
    pub(crate) fn has_misuse(&self) -> bool {
        self.misuse.is_some()
    }

    /// Misuse since the last time it was asked for.
    pub(crate) fn take_misuse(&mut self) -> Option<Misuse> {
        self.misuse.take()
    }

    pub(crate) fn history(&self) -> (&[Exception], u64) {
        (&self.history, self.history_omitted)
    }

    pub(crate) fn clear_history(&mut self) {
        self.history.clear();
        self.history_omitted = 0;
        if self.shipping {
            self.misused(Misuse::InTransaction);
        } else if self.scopes.is_empty() && self.admit().is_ok() {
            encode::history(&mut self.batch, true);
            self.recorded();
        }
    }

    /// Says goodbye without waiting. What was recorded and never flushed is sent, and runs.
    pub(crate) fn leave(&mut self) {
        if self.broken.is_none() {
            while !self.scopes.is_empty() {
                self.abandon();
            }
            encode::plain(&mut self.batch, op::BYE);
            let _ = self.publish();
            self.broke(Closed::ByClient);
        }
    }
}
