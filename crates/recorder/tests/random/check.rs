//! The rules of `docs/spec/wire.md` for a client, checked on the bytes of a session without the
//! recorder: the mistakes that a server could find by counting.

use std::collections::BTreeSet;

use bifrost_wire::interface::Numbering;
use bifrost_wire::{Command, DecodedReply, ExceptionKind, Outcome, Ref, Reply, Value, decode_reply};

use crate::batch::{Procedures, commands, results};

/// The limits of a session.
pub struct Limits {
    pub frame_bytes: usize,
    pub batch_bytes: usize,
    pub commands: usize,
    pub futures: usize,
    pub depth: usize,
    pub under_way: usize,
}

/// A session as a server counts it.
pub struct Session<'s> {
    server: &'s Numbering,
    limits: &'s Limits,
    procedures: Procedures,
    /// Handles that the client holds, as far as its replies have told.
    held: BTreeSet<Ref>,
    /// The wanted positions of batches that may be named, the last one first.
    kept: Vec<BTreeSet<u32>>,
    /// Batches that were flushed, and those answered.
    flushed: usize,
    answered: usize,
    batch: Batch,
    over: bool,
}

#[derive(Default)]
struct Batch {
    /// For each position that was taken: true while it can be named.
    named: Vec<bool>,
    open: Vec<Block>,
    commands: usize,
    bytes: usize,
    is_foreach: bool,
    transaction: bool,
}

struct Block {
    begin: &'static str,
    /// The position at which the current block starts.
    from: usize,
    conditioned: bool,
    /// The kind of its last block: a handler, or the other case.
    last: &'static str,
}

type Checked = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

impl<'s> Session<'s> {
    pub fn new(server: &'s Numbering, limits: &'s Limits) -> Session<'s> {
        Session {
            server,
            limits,
            procedures: Vec::new(),
            held: BTreeSet::new(),
            kept: Vec::new(),
            flushed: 0,
            answered: 0,
            batch: Batch::default(),
            over: false,
        }
    }

    /// Takes the bytes that a client has sent between two answers.
    pub fn sent(&mut self, bytes: &[u8]) -> Checked {
        for (command, length) in commands(bytes) {
            self.command(&command, length).map_err(|why| format!("{command:?}: {why}"))?;
        }
        Ok(())
    }

    fn command(&mut self, command: &Command<'_>, length: usize) -> Checked {
        ensure(!self.over, || "behind the end of the session".into())?;
        self.batch.commands += 1;
        self.batch.bytes += length;
        ensure(length <= self.limits.frame_bytes, || format!("{length} bytes"))?;
        ensure(self.batch.bytes <= self.limits.batch_bytes + 4096, || "too many bytes".into())?;
        // Commands are compared with their limit only when 4096 bytes are there; a smaller limit is the
        // server's to enforce.
        ensure(self.batch.commands <= self.limits.commands.max(4096 / 8) + 8, || "too many commands".into())?;
        ensure(
            !self.batch.is_foreach || matches!(command, Command::Call { .. } | Command::CallRoutine { .. }),
            || "no call of an iterator".into(),
        )?;
        let mut wrong = None;
        command.each_reference(|reference| {
            if let Err(why) = self.reference(reference) {
                wrong = Some(why);
            }
        });
        wrong.map_or(Ok(()), Err)?;
        self.structure(command)?;
        let results = results(self.server, &self.procedures, command);
        self.batch.named.extend(results.iter().map(|_| true));
        ensure(self.batch.named.len() <= self.limits.futures + 8, || "too many futures".into())?;
        self.batch.is_foreach = matches!(command, Command::Foreach);
        match *command {
            Command::Free { handles, unanswered } => {
                ensure(usize::from(unanswered) == self.flushed - self.answered, || {
                    "another number of batches".into()
                })?;
                let handles: Vec<Ref> = handles.iter().collect();
                ensure(handles.is_sorted() && !handles.is_empty(), || "not in order".into())?;
                for handle in handles {
                    ensure(self.held.remove(&handle), || format!("{handle:?} is not held"))?;
                }
            }
            Command::Flush { wanted, quiet, kept } => {
                let open = self.batch.open.is_empty();
                ensure(open && !quiet, || "a structure is open".into())?;
                let wanted: BTreeSet<u32> = wanted.positions().collect();
                for position in &wanted {
                    let named = self.batch.named.get(*position as usize - 1);
                    ensure(named == Some(&true), || format!("{position} cannot be named"))?;
                }
                match kept {
                    Some(unanswered) => {
                        ensure(usize::from(unanswered) == self.flushed - self.answered, || {
                            "another number of batches".into()
                        })?;
                        self.kept.insert(0, wanted);
                        self.kept.truncate(usize::from(unanswered) + 1);
                    }
                    None => self.kept.clear(),
                }
                self.flushed += 1;
                ensure(self.flushed - self.answered <= self.limits.under_way, || "too many batches".into())?;
                self.batch = Batch::default();
            }
            Command::Procedure { result, .. } => self.procedures.push(result),
            Command::Bye => self.over = true,
            Command::Transaction { .. } => {
                let before = self.batch.named.len() - 1;
                ensure(before == 0 && self.batch.open.is_empty(), || "behind a call".into())?;
                self.batch.transaction = true;
            }
            Command::Lookup { .. } | Command::Rows { .. } | Command::Get { .. } | Command::Wait { .. } => {
                ensure(self.batch.open.is_empty(), || "inside a structure".into())?;
            }
            Command::Commit | Command::ClearHistory | Command::Profile { .. } => {
                ensure(self.batch.open.is_empty() && !self.batch.transaction, || "inside".into())?;
            }
            // One in a transaction has the server refuse it.
            Command::Abort => ensure(self.batch.open.is_empty(), || "inside a structure".into())?,
            _ => {}
        }
        Ok(())
    }

    fn reference(&self, reference: Ref) -> Checked {
        if reference == Ref::NONE {
            return Ok(());
        }
        if reference.is_handle() {
            return ensure(self.held.contains(&reference), || format!("{reference:?} is not held"));
        }
        if let Some(earlier) = reference.as_earlier() {
            let batch = self.kept.get(usize::from(earlier.back) - 1);
            return ensure(batch.is_some_and(|batch| batch.contains(&earlier.position)), || {
                format!("{earlier} is not kept")
            });
        }
        let position = reference.position().unwrap_or(0) as usize;
        let named = position.checked_sub(1).and_then(|index| self.batch.named.get(index));
        ensure(named == Some(&true), || format!("-{position} cannot be named"))
    }

    fn structure(&mut self, command: &Command<'_>) -> Checked {
        let from = self.batch.named.len();
        let begin = match command {
            Command::While => "while",
            Command::If => "if",
            Command::Foreach => "foreach",
            Command::Except => "except",
            Command::Procedure { .. } => "procedure",
            _ => return self.inside(command),
        };
        ensure(begin != "procedure" || self.batch.open.is_empty(), || "inside a structure".into())?;
        let conditioned = !matches!(begin, "while" | "if");
        self.batch.open.push(Block { begin, from, conditioned, last: "first" });
        ensure(self.batch.open.len() <= self.limits.depth, || "too deep".into())
    }

    fn inside(&mut self, command: &Command<'_>) -> Checked {
        let (begins, end, next) = match command {
            Command::Do { .. } => ("while", false, ""),
            Command::Then { .. } => ("if", false, ""),
            Command::Else => ("if", false, "else"),
            Command::When { .. } => ("except", false, "when"),
            Command::Others { .. } => ("except", false, "others"),
            Command::EndWhile => ("while", true, ""),
            Command::EndIf => ("if", true, ""),
            Command::EndForeach => ("foreach", true, ""),
            Command::EndExcept => ("except", true, ""),
            Command::EndProcedure => ("procedure", true, ""),
            Command::Return(_) => {
                let inside = self.batch.open.iter().any(|block| block.begin == "procedure");
                return ensure(inside, || "outside a procedure".into());
            }
            Command::Break | Command::Continue => {
                let inside = self.batch.open.iter().any(|block| matches!(block.begin, "while" | "foreach"));
                return ensure(inside, || "outside a loop".into());
            }
            _ => return Ok(()),
        };
        let Some(block) = self.batch.open.last_mut() else { return Err("no structure is open".into()) };
        ensure(block.begin == begins, || format!("inside {}", block.begin))?;
        if next.is_empty() && !end {
            ensure(!block.conditioned, || "a second condition".into())?;
            block.conditioned = true;
            return Ok(());
        }
        ensure(block.conditioned, || "no condition".into())?;
        ensure(end || !matches!(block.last, "else" | "others"), || format!("behind {}", block.last))?;
        // Futures of a block end with it.
        let from = block.from;
        block.last = next;
        self.batch.named.iter_mut().skip(from).for_each(|named| *named = false);
        if end {
            self.batch.open.pop();
        } else {
            block.from = self.batch.named.len();
        }
        Ok(())
    }

    /// Takes an answer, if it is one.
    pub fn answered(&mut self, bytes: &[u8]) {
        self.answered += 1;
        let Ok(DecodedReply::Reply(Reply::Flushed(flushed), _)) = decode_reply(bytes, 1 << 24) else {
            // No bytes of this session follow.
            self.over = true;
            return;
        };
        let mut handles = Vec::new();
        let mut take = |outcome: Outcome<'_>| match outcome {
            Outcome::Handle { handle, .. } => handles.push(handle),
            Outcome::Value(Value::Compound(compound)) => {
                compound.each_reference(&mut |handle| handles.push(handle))
            }
            Outcome::Rows(rows) => rows.each_handle(&mut |handle| handles.push(handle)),
            _ => {}
        };
        flushed.outcomes().for_each(&mut take);
        for exception in flushed.exceptions() {
            if let ExceptionKind::Signal { values, .. } = exception.kind {
                values.iter().for_each(&mut take);
            }
        }
        self.held.extend(handles);
    }
}
