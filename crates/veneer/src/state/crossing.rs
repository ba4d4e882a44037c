//! The way of a batch to the server, and of its answer back.
//!
//! Read [`State::flush`] first. It has these steps: publish the rest of the batch, wait for the
//! reply, fill the slots of the futures, and give failures to the history and to the account in
//! `seen`. The state owns the batch and the slots; this file owns nothing. An error of the
//! connection or a wrong reply ends the session.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use bifrost_wire::reply::FlushedReply;
use bifrost_wire::{
    DecodedReply, ErrorNumber, ExceptionKind, Outcome, Ref, Reply, Scope, decode_reply, encode, op,
    with_names,
};

use super::seen::is_unseen;
use super::{Extra, Held, Made, NO_SLOT, OwnedValue, State, Tag, misuse};
use crate::connection::ConnectionError;
use crate::error::{CallName, Closed, Error, ErrorValue, Exception, Misuse};

/// The most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

impl State {
    /// Gives the recorded bytes to the connection.
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

    /// Returns the reason why nothing can be written: a server that ends a session says why before
    /// it closes.
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
        self.attend();
        error
    }

    /// Ends the batch: sends it, waits for the answer, and fills the slots. Does not cross when
    /// there is nothing to send.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        if !self.scopes.is_empty() {
            return Err(Error::Misuse(Misuse::OpenStructure));
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
        self.error_handles.clear();
        self.structures.clear();
        self.commands = 0;
        self.published = 0;
        self.batch_number += 1;
        self.bound_untold();
        self.attend();
        Ok(())
    }

    /// Flushes for the program, which cannot while a batch that is a transaction is recorded.
    #[inline]
    pub(crate) fn synchronize(
        &mut self,
        name: &str,
        location: &'static Location<'static>,
    ) -> Result<(), Error> {
        match self.shipping && self.broken.is_none() && self.scopes.is_empty() {
            true => self.synchronize_in_transaction(name, location),
            false => self.flush(),
        }
    }

    #[cold]
    fn synchronize_in_transaction(
        &mut self,
        name: &str,
        location: &'static Location<'static>,
    ) -> Result<(), Error> {
        let error = self.refuse(name, location, misuse(Misuse::InTransaction));
        self.tell(&error);
        Err((*error).clone())
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
        let failures = reply.exceptions().len() > 0 || reply.omitted > 0;
        let (errors, end) = match failures {
            true => self.take_exceptions(&reply),
            false => (Vec::new(), None),
        };
        self.answered(failures);
        let mut outcomes = reply.outcomes();
        let mut short = false;
        for index in 0..self.futures.len() {
            let slot = self.futures.get(index).map_or(NO_SLOT, |future| future.slot);
            if slot == NO_SLOT {
                continue;
            }
            let known = match outcomes.next() {
                Some(Outcome::Handle { handle, .. }) => {
                    let made = self.futures.get(index).map(|future| (future.made, future.location));
                    self.handles.entry(handle).or_insert(Held { slots: 0, made }).slots += 1;
                    (Tag::Handle, handle.0 as u64)
                }
                Some(Outcome::Value(value)) => self.pack(value),
                Some(Outcome::Exception(n)) => match errors.get(n as usize) {
                    Some(error) => (Tag::Failed, self.new_extra(Extra::Failed(error.clone()))),
                    None => return Err(Closed::WrongReply("an exception that is not listed")),
                },
                Some(Outcome::Absent) => {
                    let call = self.call_name(index as u32 + 1, &[]);
                    let error = Arc::new(Error::NotReached { cause: end.clone(), call });
                    (Tag::Failed, self.new_extra(Extra::Failed(error)))
                }
                None => {
                    short = true;
                    break;
                }
            };
            self.settle(slot, known);
        }
        short |= outcomes.next().is_some();
        if short { Err(Closed::WrongReply("not as many outcomes as futures wanted")) } else { Ok(()) }
    }

    /// Returns the batch's exceptions as errors, which go into the history, and the one that ended
    /// the batch.
    #[cold]
    fn take_exceptions(&mut self, reply: &FlushedReply<'_>) -> (Vec<Arc<Error>>, Option<Arc<Error>>) {
        let mut errors: Vec<Arc<Error>> = Vec::new();
        let mut end = None;
        self.note_omitted(reply.omitted);
        let mut by_call: HashMap<u32, usize> = HashMap::new();
        for exception in reply.exceptions() {
            let position = exception.call;
            let rounds: Vec<u32> = exception.iterations().collect();
            let made = self.futures.get((position as usize).wrapping_sub(1)).map(|future| future.made);
            let mut call = self.call_name(position, &rounds);
            let mut unseen = None;
            // A structure that is not run has the position of its first call, and none of its calls
            // is to blame.
            if !matches!(exception.kind, ExceptionKind::Signal { .. })
                && let Some(name) = self.structure_name(position)
            {
                call = name;
            }
            let error = Arc::new(match exception.kind {
                ExceptionKind::Signal { name, values } => {
                    let values = values.iter().map(|v| self.error_value(v)).collect();
                    Error::Signal { name: name.into(), values, call }
                }
                ExceptionKind::Unhandled { argument, cause } => {
                    let known = by_call.get(&cause).and_then(|i| errors.get(*i)).map(|e| e.as_cause());
                    let cause = known.or_else(|| self.error_handle(position, argument));
                    Error::Unhandled { argument, cause, call }
                }
                ExceptionKind::Refused { number, text } => {
                    if is_unseen(number) {
                        unseen = match made {
                            Some(Made::Commit(transaction)) => self.unseen(call.clone(), transaction),
                            Some(Made::Transaction) => self.unseen(call.clone(), u32::MAX),
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
            }
            by_call.insert(position, errors.len());
            errors.push(error.clone());
            match made {
                // The calls that it stands for are noted.
                Some(Made::Refused) => continue,
                _ if unseen.is_some() => self.note_unseen(&error, position),
                _ => self.note_failure(&error, position),
            }
            self.remember(error);
        }
        self.history_omitted += u64::from(reply.omitted);
        (errors, end)
    }

    /// Returns the failure of an argument that the server knows only as the error-handle.
    fn error_handle(&self, call: u32, argument: u32) -> Option<Arc<Error>> {
        let of_call = |&&(position, ..): &&(u32, u32, _)| position == call;
        let mut handles = self.error_handles.iter().rev().filter(of_call);
        let exact = handles.clone().find(|(_, a, _)| *a == argument);
        exact.or_else(|| handles.next()).map(|(.., error)| error.clone())
    }

    /// Returns the outermost structure whose first position this is.
    fn structure_name(&self, position: u32) -> Option<CallName> {
        let index = self.structures.binary_search_by_key(&position, |sent| sent.position).ok()?;
        self.structures.get(index).map(|sent| sent.name())
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
                self.handles.entry(handle).or_insert(Held { slots: 0, made: None }).slots += 1;
                self.drop_handle(handle);
                ErrorValue::Object
            }
            Outcome::Exception(_) | Outcome::Absent => ErrorValue::Nil,
        }
    }

    fn call_name(&mut self, number: u32, rounds: &[u32]) -> CallName {
        let made = self.futures.get((number as usize).wrapping_sub(1)).map(|f| (f.made, f.location));
        let name = made.map_or_else(|| "?".into(), |(made, _)| self.made_name(made));
        CallName { name, number, location: made.map(|(_, location)| location), rounds: rounds.into() }
    }

    /// Returns the name of a call, for messages.
    pub(crate) fn made_name(&mut self, made: Made) -> Arc<str> {
        match made {
            Made::Method(n) => self.numbers.method_name(n),
            Made::Routine(n) => self.numbers.routine_name(n),
            Made::Procedure(n) => {
                self.procedures.names.get(n as usize).cloned().unwrap_or_else(|| "procedure".into())
            }
            Made::Lookup => "lookup".into(),
            Made::Constant => "constant".into(),
            Made::Transaction => "transaction".into(),
            Made::Commit(_) => "commit".into(),
            Made::Abort(_) => "abort".into(),
            Made::Cell => "cell".into(),
            Made::Variable => "variable".into(),
            Made::Refused => "refused".into(),
        }
    }

    /// Returns the name of a handle in messages: the call that the object came from.
    fn name_of(&mut self, handle: Ref) -> Option<String> {
        let (made, location) = self.handles.get(&handle)?.made?;
        let name = self.made_name(made);
        Some(format!("the result of `{name}` at {}:{}", location.file(), location.line()))
    }

    pub(crate) fn history(&self) -> (&[Exception], u64) {
        (&self.history, self.history_omitted)
    }

    pub(crate) fn clear_history(&mut self, location: &'static Location<'static>) {
        self.history.clear();
        self.history_omitted = 0;
        self.forgive();
        if self.shipping {
            self.refuse("history", location, misuse(Misuse::InTransaction));
        } else if !self.scopes.is_empty() {
            self.refuse("history", location, misuse(Misuse::OpenStructure));
        } else {
            self.server_cleared();
            if self.admit().is_ok() {
                self.record_clear();
            }
        }
    }

    /// Ends the session without waiting. Commands that were recorded and never flushed are sent,
    /// and run.
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
