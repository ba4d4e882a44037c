//! The way of bytes between a recorder and the replies of its script.

use std::sync::Arc;

use bifrost_recorder::{Admission, Closed, Due, Error};
use bifrost_wire::encode::{self, Flushed};
use bifrost_wire::{Command, Outcome, Value};

use super::{Coming, Cut, Machine, Step, commands};

impl Machine<'_> {
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
            commands(bytes, |command| {
                if let Command::Flush { wanted, .. } = command {
                    self.wanted.push_back(wanted.positions().count());
                }
            });
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

    fn answer_all(&mut self) -> Result<(), Error<Step>> {
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
        let wanted = self.wanted.pop_front().unwrap_or(0);
        let mut reply = match self.replies.pop_front() {
            Some(Coming::Reply(reply)) => reply,
            Some(Coming::Lost) => {
                self.cross(None);
                return Err(self.recorder.close(Closed::Connection("the stream ended".into())));
            }
            None => nil_for_each(wanted),
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

/// The reply to a flush for which the script has none: nil for each wanted future.
fn nil_for_each(wanted: usize) -> Vec<u8> {
    let mut reply = Vec::new();
    let mut writer = Flushed::begin(&mut reply);
    (0..wanted).for_each(|_| writer.outcome(&Outcome::Value(Value::Nil)));
    writer.finish(encode::Counters::default(), 0);
    reply
}
