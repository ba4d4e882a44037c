//! The text form on a connection, for people with `nc` and for scripts in languages without a
//! veneer.
//!
//! Lines become commands before the session sees them, and its replies become lines: the session
//! itself knows only the binary form. `docs/spec/wire.md`, section 6, describes the text form.

use std::sync::Arc;

use bifrost_runtime::Cx;
use bifrost_session::{Limits, Session};
use bifrost_wire::interface::Numbering;
use bifrost_wire::text::{Due, Translator};
use bifrost_wire::{DecodedReply, ErrorNumber, Limit, REPLY_BYTES_MAX, decode_reply, op};

/// Answers are sent before more lines are looked at when there are so many bytes of them: a short
/// line may have a long answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Most names of a conversation. Each line looks through them.
const NAMES_MAX: usize = 10_000;

/// A connection's conversation.
///
/// Invariant: its memory is bounded, by the names and by the bytes of the lines since the last
/// answer. The commands of an open structure are among them: the session ends a batch that has more
/// bytes than it may.
pub struct TextForm {
    translator: Translator,
    limits: Limits,
    /// Lines that came.
    lines: u64,
    /// Bytes of lines since the last command that had a reply.
    batch_bytes: u64,
    /// Commands that the session has not taken yet: those of a structure whose end has not come,
    /// and those behind a batch that is run again.
    commands: Vec<u8>,
    answer: String,
    /// True if lines were left because of [`ANSWER_BYTES_MAX`].
    more: bool,
}

/// True if a connection that begins with this byte is in the text form.
pub(crate) fn is_text(first: u8) -> bool {
    first != op::HELLO
}

impl TextForm {
    /// Makes a conversation about an interface. `lines` came before, and were answered.
    pub fn new(numbering: Arc<Numbering>, limits: Limits, lines: u64) -> TextForm {
        TextForm {
            translator: Translator::new(numbering),
            limits,
            lines,
            batch_bytes: 0,
            commands: Vec::new(),
            answer: String::new(),
            more: false,
        }
    }

    /// True if the last [`TextForm::handle`] has left whole lines, because their answers would be
    /// too long. They must be given to it again when the answers have been sent.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Handles whole lines in `bytes`, and returns the number of their bytes.
    pub fn handle(&mut self, session: &mut Session, cx: &mut Cx, bytes: &[u8]) -> usize {
        let mut done = 0;
        self.more = false;
        if session.pause().is_some() {
            self.execute(session, cx);
        }
        while !session.ended() && session.pause().is_none() {
            let rest = &bytes[done..];
            let Some(length) = rest.iter().position(|b| *b == b'\n') else {
                if rest.len() as u64 > self.limits.get(Limit::FrameBytes) {
                    session.fail(ErrorNumber::FrameTooLong, "the line is longer than a command may be");
                }
                break;
            };
            if self.answer.len() > ANSWER_BYTES_MAX {
                self.more = true;
                break;
            }
            done += length + 1;
            self.batch_bytes += length as u64 + 1;
            match std::str::from_utf8(&rest[..length]) {
                Ok(line) => self.line(session, cx, line.trim_end_matches('\r')),
                Err(_) => session.fail(ErrorNumber::BadText, "a line is not well-formed UTF-8"),
            }
            self.check_bounds(session);
        }
        done
    }

    fn line(&mut self, session: &mut Session, cx: &mut Cx, line: &str) {
        self.lines += 1;
        let said = self.translator.line(line, &mut self.commands, &mut self.answer);
        if let Err(bad) = said {
            self.answer += &self.translator.bad_line(self.lines, &bad);
        }
        self.execute(session, cx);
    }

    /// Hands the session its commands, keeps those that it has not taken, and turns its replies
    /// into answers, for which there may be more to ask.
    fn execute(&mut self, session: &mut Session, cx: &mut Cx) {
        loop {
            let taken = session.handle(cx, &self.commands);
            self.commands.drain(..taken);
            let has_more = session.has_more();
            if self.translate(session) == Due::Nothing && !has_more {
                return;
            }
        }
    }

    fn check_bounds(&self, session: &mut Session) {
        let batch_bytes_max = self.limits.get(Limit::BatchBytes);
        if self.batch_bytes > batch_bytes_max {
            let text = format!("the lines since the last answer have more than {batch_bytes_max} bytes");
            session.fail(ErrorNumber::BatchTooLong, &text);
        }
        if self.translator.names().count() > NAMES_MAX {
            session.fail(ErrorNumber::TooManyHandles, &format!("there are more than {NAMES_MAX} names"));
        }
    }

    /// Turns the replies of the session into lines.
    fn translate(&mut self, session: &mut Session) -> Due {
        let mut replies = session.output();
        let mut due = Due::Nothing;
        while let Ok(DecodedReply::Reply(reply, length)) = decode_reply(replies, REPLY_BYTES_MAX) {
            due = self.translator.reply(&reply, &mut self.commands, &mut self.answer);
            self.batch_bytes = 0;
            replies = &replies[length..];
        }
        session.clear_output();
        due
    }

    /// Returns the text to be sent.
    pub fn output(&mut self, session: &mut Session) -> &[u8] {
        self.translate(session);
        self.answer.as_bytes()
    }

    /// Forgets the text that was sent.
    pub fn clear_output(&mut self) {
        self.answer.clear();
    }
}
