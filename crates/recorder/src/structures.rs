//! Control structures that are open while their blocks are recorded, and that go to the server when
//! they are whole.
//!
//! [`Recorder::open`] opens a structure, [`Recorder::end`] ends the innermost one, and
//! [`Recorder::reopen`] goes on with another block of one that has just ended: it takes the end
//! marker back. A structure in which a call or marker is refused leaves nothing in the batch.
//!
//! | structure | steps |
//! | --- | --- |
//! | while | `open`, calls, `condition`, calls, `end` |
//! | if | `open`, calls, `condition`, calls, `end`; `reopen` with else |
//! | foreach | `foreach`, a `variable` for each value, calls, `end` |
//! | except | `open`, calls, `end`; `reopen` with when, others |
//! | procedure | see `procedure` |

use std::sync::Arc;

use bifrost_wire::{Ref, encode, op};

use crate::Source;
use crate::call::Operand;
use crate::error::{CallName, Error, Misuse};
use crate::recorder::{Admission, Maker, Recorded, Recorder, misuse};
use crate::slots::{DROPPED, Extra, NO_SLOT, Slot, Tag};
use crate::stubs::Stubs;

/// A structure that [`Recorder::open`] opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Structure {
    /// A loop with a condition.
    While,
    /// A choice.
    If,
    /// A block whose exceptions are handled.
    Except,
}

/// A further block of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block<'a> {
    /// The other case of a choice.
    Else,
    /// The handler of an exception.
    When {
        /// The exception's name.
        name: &'a str,
        /// The types of its values, by the client's numbers. Each value is a
        /// [variable](Recorder::variable).
        values: &'a [u32],
    },
    /// The handler of all other exceptions.
    Others {
        /// True if it has the exception's name as a [variable](Recorder::variable).
        named: bool,
    },
}

/// The way to leave a round of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Jump {
    /// Leaves the innermost loop.
    Break,
    /// Goes on with its next round.
    Continue,
}

/// A call of an iterator.
#[derive(Clone, Copy, Debug)]
pub enum Iteration {
    /// Of a method, by its number in the stubs.
    Method {
        /// The object.
        receiver: Operand<'static>,
        /// The method.
        method: u32,
    },
    /// Of a routine, by the number that its stubs give it.
    Routine {
        /// The stubs.
        stubs: &'static Stubs,
        /// The routine.
        routine: u32,
    },
    /// Of a routine of another session.
    Foreign {
        /// The routine.
        routine: u32,
    },
}

/// The kinds of open structures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    While,
    If,
    Foreach,
    Except,
    Procedure,
}

impl Kind {
    fn is_loop(self) -> bool {
        matches!(self, Kind::While | Kind::Foreach)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::While => "while",
            Kind::If => "if",
            Kind::Foreach => "foreach",
            Kind::Except => "except",
            Kind::Procedure => "procedure",
        }
    }

    fn end(self) -> u8 {
        match self {
            Kind::While => op::END_WHILE,
            Kind::If => op::END_IF,
            Kind::Foreach => op::END_FOREACH,
            Kind::Except => op::END_EXCEPT,
            Kind::Procedure => op::END_PROCEDURE,
        }
    }
}

/// An open structure.
pub(crate) struct Scope<S> {
    pub(crate) kind: Kind,
    /// The place where the program opened it.
    pub(crate) place: S,
    /// The place where the structure starts in the batch, in the futures, and in the count of
    /// commands.
    pub(crate) batch_start: usize,
    futures_start: usize,
    commands_start: u64,
    /// The number of that batch.
    batch: u64,
}

/// An outermost structure of the batch, for messages.
pub(crate) struct Sent<S> {
    /// The first position behind its begin marker, by which the server refuses it.
    pub(crate) position: u32,
    kind: Kind,
    place: S,
}

impl<S: Source> Sent<S> {
    pub(crate) fn name(&self) -> CallName<S> {
        let (name, location) = (self.kind.name().into(), Some(self.place));
        CallName { name, number: self.position, location, rounds: [].into() }
    }
}

/// A structure that has just ended and may go on with `else_` or a handler.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    kind: Kind,
    batch: u64,
    published: usize,
    /// The length of the unpublished batch after its end marker; 0 for one that was refused.
    batch_length: usize,
    batch_start: usize,
    futures_start: usize,
    commands_start: u64,
}

impl Ended {
    /// No structure: a further block of it is refused.
    pub const NONE: Ended = Ended {
        kind: Kind::If,
        batch: u64::MAX,
        published: 0,
        batch_length: 0,
        batch_start: 0,
        futures_start: 0,
        commands_start: 0,
    };

    /// Returns its name, as `while`.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// True if it will be sent.
    pub fn is_kept(&self) -> bool {
        self.batch_length > 0
    }
}

impl<S: Source> Recorder<S> {
    /// Returns the number of open structures.
    pub fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// Returns the names of the open structures, as `while` and `procedure`, outermost first.
    pub fn open_structures(&self) -> impl ExactSizeIterator<Item = &'static str> {
        self.scopes.iter().map(|scope| scope.kind.name())
    }

    /// True if the innermost loop, within the innermost procedure, is open.
    fn in_loop(&self) -> bool {
        self.scopes.iter().rev().take_while(|s| s.kind != Kind::Procedure).any(|s| s.kind.is_loop())
    }

    pub(crate) fn in_procedure(&self) -> bool {
        self.scopes.iter().any(|s| s.kind == Kind::Procedure)
    }

    /// Opens a structure. Always opens a scope, to be ended.
    pub fn open(&mut self, admitted: Admission<S>, structure: Structure, place: S) {
        let (kind, code) = match structure {
            Structure::While => (Kind::While, op::WHILE),
            Structure::If => (Kind::If, op::IF),
            Structure::Except => (Kind::Except, op::EXCEPT),
        };
        self.open_with(kind, place, admitted, |out| encode::plain(out, code));
    }

    /// Opens a structure; `marker` appends its first marker.
    pub(crate) fn open_with(
        &mut self,
        kind: Kind,
        place: S,
        admitted: Admission<S>,
        marker: impl FnOnce(&mut Vec<u8>),
    ) {
        self.scopes.push(Scope {
            kind,
            place,
            batch_start: self.batch.len(),
            futures_start: self.futures.len(),
            commands_start: self.commands,
            batch: self.batch_number,
        });
        let admitted = admitted.and_then(|()| match self.scopes.len() > self.bounds.depth {
            true => Err(misuse(Misuse::TooDeep)),
            false => Ok(()),
        });
        if let Err(error) = admitted {
            self.refuse(kind.name(), place, error);
        }
        self.mark(marker);
    }

    /// Opens a loop over an iterator and records the iterator's call. Always opens a scope, to be
    /// ended; take a [result](Recorder::new_result) for each value that the iterator yields.
    /// `place` is that of the loop, `call_place` that of the call.
    pub fn foreach<'a>(
        &mut self,
        admitted: Admission<S>,
        iteration: Iteration,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
        call_place: S,
    ) -> Recorded<S> {
        // A constant receiver is recorded before the marker, because the call must follow it.
        let receiver = admitted.clone().and_then(|()| match iteration {
            Iteration::Method { receiver: receiver @ (Operand::Stub(_) | Operand::Value(_)), .. } => {
                self.operand_reference(receiver, call_place)
            }
            _ => Ok(Ref::NONE),
        });
        self.open_with(Kind::Foreach, place, admitted, |out| encode::plain(out, op::FOREACH));
        match iteration {
            Iteration::Method { receiver: Operand::Foreign, method } => {
                self.record_method(op::CALL, method, Err(misuse(Misuse::OtherSession)), arguments, call_place)
            }
            Iteration::Method { method, .. } => {
                let receiver = self.admit_inside().and(receiver);
                self.record_method(op::CALL, method, receiver, arguments, call_place)
            }
            Iteration::Routine { stubs, routine } => {
                let head = self.admit_inside().and_then(|()| self.numbers.routine_head(stubs, routine));
                self.record_plain(Maker::Routine(routine), head, arguments, call_place)
            }
            Iteration::Foreign { routine } => {
                let head = self.admit_inside().and_then(|()| Err(misuse(Misuse::OtherSession)));
                self.record_plain(Maker::Routine(routine), head, arguments, call_place)
            }
        }
    }

    /// Appends the marker between the condition of the innermost loop or choice and the commands
    /// that depend on it.
    #[inline]
    pub fn condition(&mut self, test: Operand<'_>, place: S) {
        let is_loop = self.scopes.last().is_some_and(|scope| scope.kind == Kind::While);
        let reference = match test {
            // Comes before the error of a refused structure.
            Operand::Foreign => Err(misuse(Misuse::OtherSession)),
            test => self.admit_inside().and_then(|()| self.operand_reference(test, place)),
        };
        match reference {
            Ok(reference) if is_loop => self.mark(|out| encode::loop_body(out, reference)),
            Ok(reference) => self.mark(|out| encode::then(out, reference)),
            Err(error) => drop(self.refuse("condition", place, error)),
        }
    }

    /// Leaves a round of the innermost loop. Recording goes on. Refused outside loops.
    pub fn jump(&mut self, jump: Jump, place: S) {
        let (name, code) = match jump {
            Jump::Break => ("break", op::BREAK),
            Jump::Continue => ("continue", op::CONTINUE),
        };
        if self.in_loop() {
            self.mark(|out| encode::plain(out, code));
        } else {
            self.refuse(name, place, misuse(Misuse::NoLoop));
        }
    }

    /// Makes a slot for a number that the last marker has taken: a value of an exception, its name,
    /// or a parameter.
    pub fn variable(&mut self, place: S) -> Slot {
        self.new_result(Maker::Variable, place)
    }

    /// True if the open structure will be sent.
    fn is_kept(&self) -> bool {
        self.poison.is_none() && self.broken.is_none()
    }

    /// Appends a marker, unless the structure will not be sent.
    pub(crate) fn mark(&mut self, marker: impl FnOnce(&mut Vec<u8>)) {
        if self.is_kept() {
            marker(&mut self.batch);
            self.recorded();
        }
    }

    pub(crate) fn end_futures(&mut self, start: usize, error: &Arc<Error<S>>) {
        for index in start..self.futures.len() {
            let Some(future) = self.futures.get_mut(index) else { break };
            let slot = std::mem::replace(&mut future.slot, NO_SLOT);
            if slot < DROPPED {
                let extra = self.new_extra(Extra::Failed(error.clone()));
                self.settle(slot, (Tag::Failed, extra));
            }
        }
    }

    /// Ends the innermost structure. If it was refused, nothing of the outermost one remains.
    pub fn end(&mut self) -> Ended {
        let Some(kind) = self.scopes.last().map(|s| s.kind) else { return self.nothing_ended(Kind::If) };
        self.mark(|out| encode::plain(out, kind.end()));
        self.close_scope(kind)
    }

    fn close_scope(&mut self, kind: Kind) -> Ended {
        let Some(scope) = self.scopes.pop() else {
            return self.nothing_ended(kind);
        };
        let error = match &self.poison {
            Some(poison) => poison.clone(),
            None => self.out_of_scope.clone(),
        };
        self.end_futures(scope.futures_start, &error);
        if self.poison.is_some() {
            if scope.batch == self.batch_number {
                self.batch.truncate(scope.batch_start);
                self.futures.truncate(scope.futures_start);
                self.commands = scope.commands_start;
                self.error_handles.retain(|(position, ..)| *position as usize <= scope.futures_start);
            }
            if self.scopes.is_empty() {
                self.poison = None;
                self.attend();
            }
            return self.nothing_ended(kind);
        }
        if self.scopes.is_empty() {
            let position = scope.futures_start as u32 + 1;
            // A structure that went on with another block is one with its first.
            let known = self.structures.last().is_some_and(|sent| sent.position >= position);
            if !known {
                self.structures.push(Sent { position, kind, place: scope.place });
            }
        }
        Ended {
            kind,
            batch: self.batch_number,
            published: self.published,
            batch_length: self.batch.len(),
            batch_start: scope.batch_start,
            futures_start: scope.futures_start,
            commands_start: scope.commands_start,
        }
    }

    fn nothing_ended(&self, kind: Kind) -> Ended {
        Ended {
            kind,
            batch: self.batch_number,
            published: 0,
            batch_length: 0,
            batch_start: 0,
            futures_start: 0,
            commands_start: 0,
        }
    }

    /// Takes back the end marker of a structure that has just ended, so that it goes on with
    /// another block. Always opens a scope; if the structure cannot go on, the scope is one that
    /// will not be sent.
    #[inline]
    pub fn reopen(&mut self, ended: Ended, block: Block<'_>, place: S) {
        let name = match block {
            Block::Else => "else",
            Block::When { .. } => "when",
            Block::Others { .. } => "others",
        };
        self.reopen_scope(ended, name, place);
        if !self.is_kept() {
            return;
        }
        let out = &mut self.batch;
        match block {
            Block::Else => encode::plain(out, op::ELSE),
            Block::When { name, values } => {
                let numbers = &self.numbers;
                let types = values.iter().map(|ty| numbers.ty(*ty).unwrap_or_default());
                encode::when(out, name, types);
            }
            Block::Others { named } => encode::others(out, named),
        }
        self.recorded();
    }

    fn reopen_scope(&mut self, ended: Ended, name: &'static str, place: S) {
        let adjacent = ended.batch == self.batch_number
            && ended.published == self.published
            && ended.batch_length > 0
            && ended.batch_length == self.batch.len();
        if adjacent {
            // The end marker is one word.
            self.batch.truncate(ended.batch_length - 8);
            self.commands -= 1;
        }
        let (batch_start, futures_start, commands_start) = if adjacent {
            (ended.batch_start, ended.futures_start, ended.commands_start)
        } else {
            (self.batch.len(), self.futures.len(), self.commands)
        };
        let (kind, batch) = (ended.kind, self.batch_number);
        self.scopes.push(Scope { kind, place, batch_start, futures_start, commands_start, batch });
        if !adjacent {
            if ended.batch_length > 0 || ended.batch != self.batch_number {
                self.refuse(name, place, misuse(Misuse::NotAdjacent));
            } else if self.poison.is_none() {
                // Its first block was refused and is in the history; the others go the same way.
                self.poison = Some(misuse(Misuse::Abandoned));
                self.attend();
            }
        }
    }

    /// Ends the innermost structure, whose block was left by a panic or its like: it is refused.
    pub fn abandon(&mut self) {
        self.abandon_for(Misuse::Abandoned);
    }

    /// Ends the innermost structure, which is refused for this reason.
    pub fn abandon_for(&mut self, why: Misuse) {
        if let Some(scope) = self.scopes.last() {
            let (kind, place) = (scope.kind, scope.place);
            self.refuse(kind.name(), place, misuse(why));
            if kind == Kind::Procedure {
                self.procedures.open.pop();
            }
        }
        self.end();
    }
}
