//! Control structures that are open while their blocks are recorded, and that go to the server when
//! they are whole.

use std::panic::Location;
use std::sync::Arc;

use bifrost_wire::{encode, op};

use super::{Extra, NO_SLOT, State, Tag, misuse};
use crate::error::{CallName, Error, Misuse};

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

    pub(super) fn name(self) -> &'static str {
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
pub(super) struct Scope {
    pub(super) kind: Kind,
    /// The place where the program opened it.
    pub(super) location: &'static Location<'static>,
    /// The place where the structure starts in the batch, in the futures, and in the count of
    /// commands.
    batch_start: usize,
    futures_start: usize,
    commands_start: u64,
}

/// An outermost structure of the batch, for messages.
pub(super) struct Sent {
    /// The first position behind its begin marker, by which the server refuses it.
    pub(super) position: u32,
    kind: Kind,
    location: &'static Location<'static>,
}

impl Sent {
    pub(super) fn name(&self) -> CallName {
        let (name, location) = (self.kind.name().into(), Some(self.location));
        CallName { name, number: self.position, location, rounds: [].into() }
    }
}

/// A structure that has just ended and may go on with `else_` or a handler.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    kind: Kind,
    batch: u64,
    published: usize,
    /// The length of the unpublished batch after its end marker; 0 for one that was refused.
    batch_length: usize,
    batch_start: usize,
    futures_start: usize,
    commands_start: u64,
}

impl State {
    pub(crate) fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// True if the innermost loop, within the innermost procedure, is open.
    pub(crate) fn in_loop(&self) -> bool {
        self.scopes.iter().rev().take_while(|s| s.kind != Kind::Procedure).any(|s| s.kind.is_loop())
    }

    pub(crate) fn in_procedure(&self) -> bool {
        self.scopes.iter().any(|s| s.kind == Kind::Procedure)
    }

    /// Opens a structure; `marker` appends its first marker. Always opens a scope, to be ended.
    pub(crate) fn open(
        &mut self,
        kind: Kind,
        location: &'static Location<'static>,
        marker: impl FnOnce(&mut Vec<u8>),
    ) {
        let admitted = self.admit();
        self.open_admitted(kind, location, admitted, marker);
    }

    pub(crate) fn open_admitted(
        &mut self,
        kind: Kind,
        location: &'static Location<'static>,
        admitted: Result<(), Arc<Error>>,
        marker: impl FnOnce(&mut Vec<u8>),
    ) {
        self.scopes.push(Scope {
            kind,
            location,
            batch_start: self.batch.len(),
            futures_start: self.futures.len(),
            commands_start: self.commands,
        });
        let admitted = admitted.and_then(|()| match self.scopes.len() > self.bounds.depth {
            true => Err(misuse(Misuse::TooDeep)),
            false => Ok(()),
        });
        if let Err(error) = admitted {
            self.refuse(kind.name(), location, error);
        }
        self.mark(marker);
    }

    /// Appends a marker, unless the structure will not be sent.
    pub(crate) fn mark(&mut self, marker: impl FnOnce(&mut Vec<u8>)) {
        if self.poison.is_none() && self.broken.is_none() {
            marker(&mut self.batch);
            self.recorded();
        }
    }

    /// True if a structure that ended will be sent.
    pub(crate) fn was_kept(&self, ended: Ended) -> bool {
        ended.batch_length > 0
    }

    pub(super) fn end_futures(&mut self, start: usize, error: &Arc<Error>) {
        for index in start..self.futures.len() {
            let slot = std::mem::replace(&mut self.futures[index].slot, NO_SLOT);
            if slot != NO_SLOT {
                let extra = self.new_extra(Extra::Failed(error.clone()));
                self.settle(slot, (Tag::Failed, extra));
            }
        }
    }

    /// Ends the innermost structure. If it was refused, nothing of the outermost one remains.
    pub(crate) fn close(&mut self) -> Ended {
        let kind = self.scopes.last().map_or(Kind::If, |s| s.kind);
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
            self.batch.truncate(scope.batch_start);
            self.futures.truncate(scope.futures_start);
            self.commands = scope.commands_start;
            self.error_handles.retain(|(position, ..)| *position as usize <= scope.futures_start);
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
                self.structures.push(Sent { position, kind, location: scope.location });
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
    pub(crate) fn reopen(&mut self, ended: Ended, name: &'static str, location: &'static Location<'static>) {
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
        self.scopes.push(Scope { kind: ended.kind, location, batch_start, futures_start, commands_start });
        if !adjacent {
            if ended.batch_length > 0 || ended.batch != self.batch_number {
                self.refuse(name, location, misuse(Misuse::NotAdjacent));
            } else if self.poison.is_none() {
                // Its first block was refused and is in the history; the others go the same way.
                self.poison = Some(misuse(Misuse::Abandoned));
                self.attend();
            }
        }
    }

    /// Ends the innermost structure, whose closure did not return.
    pub(crate) fn abandon(&mut self) {
        if let Some(scope) = self.scopes.last() {
            let (name, location) = (scope.kind.name(), scope.location);
            self.refuse(name, location, misuse(Misuse::Abandoned));
        }
        self.close();
    }
}
