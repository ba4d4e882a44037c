//! `live`: a line whose answer is printed again whenever it has changed.

use bifrost_wire::text::LineError;
use bifrost_wire::{ErrorNumber, ExceptionKind, Outcome as Sent, Reply, Value, encode};

use super::Conversation;
use crate::failure::{Failure, print};

/// A live line: `live ? $x`, `live list $db.users()`, or with a number of answers before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Live<'l> {
    /// The answers that it prints; none for any number.
    answers: Option<u64>,
    line: &'l str,
    /// The characters of the line before that.
    before: usize,
}

impl<'l> Live<'l> {
    /// Reads a line; none if it is no live one.
    pub(super) fn read(whole: &'l str) -> Option<Live<'l>> {
        let rest = whole.trim_start().strip_prefix("live")?;
        let words = rest.trim_start();
        let digits = words.find(|c: char| !c.is_ascii_digit()).unwrap_or(words.len());
        let (number, line) = (&words[..digits], words[digits..].trim_start());
        let asks = line.starts_with('?') || line.strip_prefix("list").is_some_and(|of| of.starts_with(' '));
        if !asks || rest.starts_with(|c: char| !c.is_whitespace()) && !rest.starts_with('?') {
            return None;
        }
        let answers = if number.is_empty() { None } else { Some(number.parse().ok()?) };
        Some(Live { answers, line, before: whole[..whole.len() - line.len()].chars().count() })
    }
}

/// True if a reply reports a transaction that others have overtaken, or that has expired.
pub(super) fn is_overtaken(reply: &Reply<'_>) -> bool {
    let Reply::Flushed(flushed) = reply else { return false };
    flushed.exceptions().any(|exception| match exception.kind {
        ExceptionKind::Refused { number, .. } => ErrorNumber::is_overtaken(number),
        _ => false,
    })
}

impl Conversation {
    /// Says a line again whenever its answer may have changed. Appends the last answer, and prints
    /// those before it.
    ///
    /// # Errors
    /// The session has ended. The inner result: the line is no command, or cannot wait.
    pub(super) fn say_live(
        &mut self,
        live: &Live<'_>,
        answer: &mut String,
    ) -> Result<Result<(), LineError>, Failure> {
        if self.translator.depth() > 0 {
            let text = "`live` cannot stand inside a structure".to_owned();
            return Ok(Err(LineError { column: 1, text }));
        }
        if self.pending {
            // Commands that were kept back are no part of what is repeated.
            let _ = self.say_once("flush", answer)?;
        }
        let mut last: Option<String> = None;
        let mut left = live.answers.unwrap_or(u64::MAX);
        while left > 0 {
            let mut now = String::new();
            if let Err(mut bad) = self.say_once(live.line, &mut now)? {
                bad.column += live.before;
                return Ok(Err(bad));
            }
            if self.overtaken {
                continue;
            }
            if last.as_ref() != Some(&now) {
                // With the line of a script that is printed before its answer.
                print(&std::mem::take(answer))?;
                left -= 1;
                if left == 0 || self.ended {
                    answer.push_str(&now);
                    break;
                }
                print(&now)?;
                last = Some(now);
            }
            if let Err(text) = self.wait()? {
                return Ok(Err(LineError { column: live.before + 1, text }));
            }
        }
        Ok(Ok(()))
    }

    /// Waits until something that was read may have changed, for any time.
    ///
    /// # Errors
    /// The session has ended. The inner result: the reason why it cannot wait.
    fn wait(&mut self) -> Result<Result<(), String>, Failure> {
        loop {
            let mut batch = Vec::new();
            encode::wait(&mut batch, u32::MAX);
            encode::flush(&mut batch, [1], true);
            self.client.wait_for(&batch);
            self.client.send(&batch)?;
            let waited = self.client.receive(|reply| match reply {
                Reply::Flushed(flushed) => Some(match flushed.outcomes().next() {
                    Some(Sent::Value(Value::Bool(changed))) => Ok(changed),
                    // A transaction that has expired is run again.
                    _ if is_overtaken(reply) => Ok(true),
                    _ => Err(match flushed.exceptions().next().map(|exception| exception.kind) {
                        Some(ExceptionKind::Refused { text, .. }) => text.to_owned(),
                        _ => "the session cannot wait".to_owned(),
                    }),
                }),
                _ => None,
            })?;
            match waited {
                Ok(false) => {}
                Ok(true) => return Ok(Ok(())),
                Err(text) => return Ok(Err(text)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_lines_are_told_from_others() {
        let read = |line| Live::read(line).map(|live| (live.answers, live.line, live.before));
        assert_eq!(read("live ? $x"), Some((None, "? $x", 5)));
        assert_eq!(read("  live?$x"), Some((None, "?$x", 6)));
        assert_eq!(read("live 3 list $db.users()"), Some((Some(3), "list $db.users()", 7)));
        for other in
            ["live(3)", "live", "live 3", "live flush", "lively ? $x", "live3 ? $x", "? live", "live lists"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
