//! The rules of commands: the place of each one in a structure, in a batch that is a transaction,
//! and in a batch that is over.
//!
//! Read the table [`rule`]. A new command needs a row here. The functions that use the rows are
//! `Scan::follow` (structures), `Session::collect` (transactions), and `Session::command`.

use bifrost_wire::{Command, op};

/// An open structure or part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Open {
    WhileCond,
    WhileBody,
    IfCond,
    Then,
    Else,
    Foreach,
    ExceptBody,
    Handler,
    /// The handler of all other exceptions, which is the last one.
    LastHandler,
    Procedure,
}

impl Open {
    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Open::WhileCond => "the condition of a WHILE",
            Open::WhileBody => "a WHILE",
            Open::IfCond => "the condition of an IF",
            Open::Then | Open::Else => "an IF",
            Open::Foreach => "a FOREACH",
            Open::ExceptBody | Open::Handler | Open::LastHandler => "an EXCEPT",
            Open::Procedure => "a PROCEDURE",
        }
    }
}

/// The effect of a command on the structure that is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Inside {
    /// A call, which is also allowed as the iterator of a FOREACH.
    Call,
    /// An action, which is allowed in each part.
    Action,
    /// An action that is allowed in the definition of a procedure only.
    InProcedure,
    /// Begins a structure with its first part.
    Opens(Open),
    /// Ends one of these parts, and begins the next part.
    Turns(&'static [Open], Open),
    /// Ends a structure that is in one of these parts.
    Closes(&'static [Open]),
    /// Ends the batch, so that the structure has no end.
    EndsBatch,
    /// Is refused, and takes so many futures.
    Refused(u32),
}

/// The effect of a command on a batch that is a transaction, after `transaction`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InTransaction {
    /// Is kept until the batch is run.
    Kept,
    /// Gives handles back when the batch was run.
    Freed,
    /// Is executed at once: it belongs to the session.
    Executed,
    /// Runs the batch.
    Runs,
    /// Is refused: the batch is not run, and the command is executed after it.
    Refused,
}

/// The effect of a command in a batch whose rest is not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InOver {
    /// Is skipped.
    Skipped,
    /// Is skipped, and takes the number of a procedure.
    SkippedProcedure,
    /// Is executed, because its client waits for an answer or counts on the effect.
    Executed,
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    /// The operation code.
    pub code: u8,
    pub inside: Inside,
    pub transaction: InTransaction,
    pub over: InOver,
}

/// The parts in which an EXCEPT may end or go on to its next handler.
const HANDLED: &[Open] = &[Open::ExceptBody, Open::Handler];
const EXCEPT_PARTS: &[Open] = &[Open::ExceptBody, Open::Handler, Open::LastHandler];

macro_rules! rules {
    ($($command:pat => $code:ident, $inside:expr, $transaction:ident, $over:ident;)*) => {
        /// Returns the row of a command.
        #[inline]
        pub(crate) fn rule(command: &Command<'_>) -> &'static Rule {
            match command {
                $($command => const { &Rule {
                    code: op::$code,
                    inside: $inside,
                    transaction: InTransaction::$transaction,
                    over: InOver::$over,
                } },)*
            }
        }
    };
}

use Inside::{Action, Call, Closes, EndsBatch, InProcedure, Opens, Refused, Turns};

rules! {
    // command => code, in a structure, in a transaction, in a batch that is over
    Command::Call { .. } => CALL, Call, Kept, Skipped;
    Command::CallRoutine { .. } => CALL_ROUTINE, Call, Kept, Skipped;
    Command::CallProcedure { .. } => CALL_PROCEDURE, Action, Kept, Skipped;
    Command::Send { .. } => SEND, Action, Kept, Skipped;
    Command::Constant(_) => CONSTANT, Action, Kept, Skipped;
    Command::Cell { .. } => CELL, Action, Kept, Skipped;
    Command::Rows { .. } => ROWS, Refused(1), Kept, Skipped;
    Command::Emit { .. } => EMIT, Action, Kept, Skipped;
    Command::As { .. } => AS, Action, Kept, Skipped;
    Command::Is { .. } => IS, Action, Kept, Skipped;
    Command::Get { .. } => GET, Refused(1), Kept, Skipped;
    Command::Lookup { .. } => LOOKUP, Refused(1), Kept, Skipped;
    Command::Module { .. } => MODULE, Refused(0), Executed, Executed;
    Command::Run(_) => RUN, Refused(1), Kept, Skipped;
    Command::Free { .. } => FREE, Action, Freed, Executed;
    Command::While => WHILE, Opens(Open::WhileCond), Kept, Skipped;
    Command::Do { .. } => DO, Turns(&[Open::WhileCond], Open::WhileBody), Kept, Skipped;
    Command::EndWhile => END_WHILE, Closes(&[Open::WhileBody]), Kept, Skipped;
    Command::If => IF, Opens(Open::IfCond), Kept, Skipped;
    Command::Then { .. } => THEN, Turns(&[Open::IfCond], Open::Then), Kept, Skipped;
    Command::Else => ELSE, Turns(&[Open::Then], Open::Else), Kept, Skipped;
    Command::EndIf => END_IF, Closes(&[Open::Then, Open::Else]), Kept, Skipped;
    Command::Foreach => FOREACH, Opens(Open::Foreach), Kept, Skipped;
    Command::EndForeach => END_FOREACH, Closes(&[Open::Foreach]), Kept, Skipped;
    Command::Break => BREAK, Action, Kept, Skipped;
    Command::Continue => CONTINUE, Action, Kept, Skipped;
    Command::Except => EXCEPT, Opens(Open::ExceptBody), Kept, Skipped;
    Command::When { .. } => WHEN, Turns(HANDLED, Open::Handler), Kept, Skipped;
    Command::Others { .. } => OTHERS, Turns(HANDLED, Open::LastHandler), Kept, Skipped;
    Command::EndExcept => END_EXCEPT, Closes(EXCEPT_PARTS), Kept, Skipped;
    Command::Procedure { .. } => PROCEDURE, Opens(Open::Procedure), Kept, SkippedProcedure;
    Command::Return(_) => RETURN, InProcedure, Kept, Skipped;
    Command::EndProcedure => END_PROCEDURE, Closes(&[Open::Procedure]), Kept, Skipped;
    Command::Transaction { .. } => TRANSACTION, Refused(1), Refused, Skipped;
    Command::Commit => COMMIT, Refused(1), Refused, Skipped;
    Command::Abort => ABORT, Refused(1), Refused, Skipped;
    Command::Wait { .. } => WAIT, Refused(1), Refused, Skipped;
    Command::Hello(_) => HELLO, Refused(0), Refused, Executed;
    Command::Describe => DESCRIBE, Refused(0), Refused, Executed;
    Command::History => HISTORY, Refused(0), Refused, Executed;
    Command::ClearHistory => HISTORY, Refused(0), Refused, Executed;
    Command::Profile { .. } => PROFILE, Refused(0), Refused, Executed;
    Command::Flush { .. } => FLUSH, EndsBatch, Runs, Executed;
    Command::Bye => BYE, EndsBatch, Refused, Executed;
}

#[cfg(test)]
mod tests {
    use bifrost_wire::{Decoded, decode, encode};

    use super::*;

    #[test]
    fn rows_have_the_codes_of_their_commands() {
        for op in op::TABLE {
            let mut bytes = Vec::new();
            encode::plain(&mut bytes, op.code);
            // Commands with more words are not whole, and replies are none.
            if let Ok(Decoded::Command(command, _)) = decode(&bytes, bytes.len()) {
                assert_eq!(rule(&command).code, op.code, "{command:?}");
            }
        }
    }

    #[test]
    fn every_structure_can_be_closed() {
        let rows = [Command::EndWhile, Command::EndIf, Command::EndForeach, Command::EndExcept];
        let closes = |part: Open| {
            rows.iter().any(|end| matches!(rule(end).inside, Closes(from) if from.contains(&part)))
        };
        let (test, named) = (bifrost_wire::Ref::NONE, false);
        for command in [
            Command::Foreach,
            Command::Except,
            Command::Do { test },
            Command::Then { test },
            Command::Else,
            Command::Others { named },
        ] {
            match rule(&command).inside {
                Opens(part) | Turns(_, part) => assert!(closes(part), "{part:?}"),
                other => panic!("{command:?} begins no part: {other:?}"),
            }
        }
    }
}
