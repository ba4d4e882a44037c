//! The way of bytes between a recorder and the replies of its script.

use std::sync::Arc;

use bifrost_recorder::{Admission, Closed, Due, Error};
use bifrost_wire::encode::{self, Flushed};
use bifrost_wire::{Command, Decoded, FRAME_BYTES_MAX, Outcome, Value, decode, op};
use serde_json::Value as Json;

use super::{Answerer, Coming, Cut, Machine, Sender, Shipped, Step, Writer, commands, json, split};

impl<'c> Machine<'c> {
    /// Has replies made for which the script has none.
    pub fn answered_by(mut self, answerer: Answerer) -> Machine<'c> {
        self.answerer = Some(answerer);
        self
    }

    /// Returns the steps that the answerer has made since the last time.
    pub fn take_given(&mut self) -> Vec<Json> {
        std::mem::take(&mut self.given)
    }

    /// Has each piece handed over when it is sent.
    pub fn sending_to(mut self, sender: Sender) -> Machine<'c> {
        self.sender = Some(sender);
        self
    }

    /// Has crossings written down in another form.
    pub fn written_by(mut self, writer: Writer) -> Machine<'c> {
        self.writer = writer;
        self
    }
}

impl Machine<'_> {
    /// Writes down a crossing.
    pub(super) fn cross(&mut self, answered: Option<&[u8]>) {
        let sent = std::mem::take(&mut self.sent);
        self.crossings.push((self.writer)(&sent, answered));
    }

    /// Sends what can be sent; with `flushed` only what was flushed.
    pub(super) fn send(&mut self, flushed: bool) {
        loop {
            let bytes = match flushed {
                true => self.recorder.flushed_bytes(),
                false => self.recorder.bytes_to_send(),
            };
            if bytes.is_empty() {
                return;
            }
            for command in split(bytes) {
                if let Some(batch) = self.batches.back_mut() {
                    batch.extend_from_slice(command);
                }
                if command.first() == Some(&op::FLUSH) {
                    self.batches.push_back(Vec::new());
                }
            }
            if let Some(sender) = &mut self.sender {
                sender(bytes);
            }
            self.sent.push(bytes.to_vec());
            self.recorder.sent(usize::MAX);
        }
    }

    pub(super) fn admit(&mut self) -> Admission<Step> {
        if self.recorder.is_ready() {
            return Ok(());
        }
        match self.recorder.due()? {
            Due::Nothing => Ok(()),
            Due::Send => {
                self.send(false);
                Ok(())
            }
            Due::Flush => self.flush().map_err(Arc::new),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), Error<Step>> {
        self.recorder.begin_flush(false)?;
        self.answer_all()
    }

    pub(super) fn synchronize(&mut self, name: &str) -> Result<(), Error<Step>> {
        self.recorder.begin_flush_for(name, false, self.place)?;
        self.answer_all()
    }

    /// Ends a batch that is a transaction.
    pub(super) fn ship(&mut self) -> Shipped {
        let refusals = self.recorder.end_transaction_batch();
        (refusals, self.recorder.begin_flush(false).map(drop))
    }

    pub(super) fn answer_all(&mut self) -> Result<(), Error<Step>> {
        while self.recorder.is_under_way() {
            self.answer()?;
        }
        Ok(())
    }

    /// Answers the batches up to this one.
    pub(super) fn answer_to(&mut self, batch: u64) -> Result<(), Error<Step>> {
        while self.recorder.is_unanswered(batch) {
            self.answer()?;
        }
        Ok(())
    }

    /// Answers the oldest batch under way.
    pub(super) fn answer(&mut self) -> Result<(), Error<Step>> {
        self.send(true);
        let batch = self.batches.pop_front().unwrap_or_default();
        if self.replies.is_empty()
            && let Some(answerer) = &mut self.answerer
        {
            let given = answerer(&batch);
            self.given.push(given.clone());
            self.step(&given);
        }
        let mut reply = match self.replies.pop_front() {
            Some(Coming::Reply(reply)) => reply,
            Some(Coming::Lost) => {
                self.cross(None);
                return Err(self.recorder.close(Closed::Connection("the stream ended".into())));
            }
            None => nil_for_each(wanted(&batch)),
        };
        if let Cut::Changed(at) = self.cut
            && let Some(byte) = at.checked_sub(self.answered).and_then(|at| reply.get_mut(at))
        {
            *byte ^= 1 << (at % 8);
        }
        self.answered += reply.len();
        self.cross(Some(&reply));
        let pieces: Vec<&[u8]> = match self.cut {
            Cut::Whole | Cut::Changed(_) => vec![&reply],
            Cut::Every(size) => reply.chunks(size).collect(),
            Cut::At(at) => <[&[u8]; 2]>::from(reply.split_at(at.min(reply.len()))).to_vec(),
        };
        assert!(!self.recorder.handle_bytes(&[])?, "nothing has come");
        for piece in pieces {
            if self.recorder.handle_bytes(piece)? {
                return Ok(());
            }
        }
        Err(self.recorder.close(Closed::Connection("the stream ended".into())))
    }
}

/// Writes down a crossing, with its commands.
pub(super) fn write(sent: &[Vec<u8>], answered: Option<&[u8]>) -> Json {
    let commands: Vec<Json> = commands(&sent.concat(), bifrost_wire::json::command);
    let sent: Vec<Json> = sent.iter().map(|piece| json::hex(piece).into()).collect();
    let answered = answered.map_or(Json::Null, |bytes| json::hex(bytes).into());
    serde_json::json!({"sent": sent, "commands": commands, "answered": answered})
}

/// The number of futures that a batch wants.
fn wanted(batch: &[u8]) -> usize {
    match split(batch).last().map(|last| decode(last, FRAME_BYTES_MAX)) {
        Some(Ok(Decoded::Command(Command::Flush { wanted, .. }, _))) => wanted.positions().count(),
        _ => 0,
    }
}

/// The reply to a flush for which the script has none: nil for each wanted future.
fn nil_for_each(wanted: usize) -> Vec<u8> {
    let mut reply = Vec::new();
    let mut writer = Flushed::begin(&mut reply);
    (0..wanted).for_each(|_| writer.outcome(&Outcome::Value(Value::Nil)));
    writer.finish(encode::Counters::default(), 0);
    reply
}
