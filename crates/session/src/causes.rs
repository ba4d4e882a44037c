//! The causes of failures, and [`Session::fail_at`], the one function that enters them.
//!
//! Read the table at [`Cause`].

use bifrost_ir::{SignalId, Signature, TypeId, Types};
use bifrost_runtime::abi::{Outcome, Word};
use bifrost_runtime::cx::Kill;
use bifrost_runtime::{Cx, Doom, Ret};
use bifrost_wire::{ErrorNumber, Limit, Scope, encode};
use smallvec::SmallVec;

use crate::failures::{Failure, FailureKind, NOT_KEPT, Place};
use crate::futures::Future;
use crate::session::Session;
use crate::transactions::conflict_text;

/// Errors of a client after which the session is closed.
const ERRORS_MAX: u32 = 1_000;

/// The cause of a failure.
///
/// | cause | ends | further effects |
/// | --- | --- | --- |
/// | `Kind` | the command, or the scope of its number | [`ERRORS_MAX`] is the limit of a session |
/// | `Signalled` | the command | the exception's values live until the end of the batch |
/// | `Killed` | the batch | `Kill::Conflict` aborts the transaction, `Kill::Memory` undoes it |
/// | `Limit` | the batch, unless it is over | the structure that is collected is dropped |
/// | `Session` | the session | the last reply is written |
#[derive(Debug)]
pub(crate) enum Cause<'c> {
    /// A failure whose kind is known.
    Kind(FailureKind),
    /// The exception under way in the context, of a call with this heading.
    Signalled(&'c mut Cx, &'c Signature),
    /// The run was ended from outside.
    Killed(&'c mut Cx),
    /// The batch exceeds a limit.
    Limit(ErrorNumber, Limit),
    /// The session cannot go on.
    Session(ErrorNumber, &'c str),
}

impl From<FailureKind> for Cause<'_> {
    fn from(kind: FailureKind) -> Self {
        Cause::Kind(kind)
    }
}

impl<'c> Cause<'c> {
    /// The cause of a call with this heading that did not return.
    pub fn of(cx: &'c mut Cx, ret: Ret, heading: &'c Signature) -> Cause<'c> {
        match ret.outcome() {
            Outcome::Signalled => Cause::Signalled(cx, heading),
            _ => Cause::Killed(cx),
        }
    }
}

impl Session {
    /// Ends the session with an error that the client is told.
    pub fn fail(&mut self, number: ErrorNumber, text: &str) {
        self.fail_here(Cause::Session(number, text));
    }

    /// Refuses the next command.
    pub(crate) fn refuse(&mut self, number: ErrorNumber, text: impl Into<String>) -> u32 {
        self.fail_here(FailureKind::refused(number, text))
    }

    /// Ends the batch, which exceeds a limit.
    #[cold]
    pub(crate) fn exceed(&mut self, number: ErrorNumber, limit: Limit) {
        self.fail_here(Cause::Limit(number, limit));
    }

    /// Fails the next call of the batch.
    #[cold]
    pub(crate) fn fail_here<'c>(&mut self, cause: impl Into<Cause<'c>>) -> u32 {
        self.fail_at(Place::of(self.next()), cause)
    }

    /// Fails the next call of the batch, and its futures.
    #[cold]
    pub(crate) fn fail_call<'c>(&mut self, futures: u32, cause: impl Into<Cause<'c>>) {
        let failed = self.fail_here(cause);
        self.make_all(futures, Future::Failed(failed));
    }

    /// Enters a failure, and ends the command, the batch or the session. Returns the failure's
    /// position in the batch's list, or [`NOT_KEPT`].
    #[cold]
    pub(crate) fn fail_at<'c>(&mut self, place: Place, cause: impl Into<Cause<'c>>) -> u32 {
        match cause.into() {
            Cause::Kind(kind) => self.enter(place, kind),
            Cause::Signalled(cx, heading) => {
                let kind = self.exception(cx, heading, place.call);
                self.enter(place, kind)
            }
            Cause::Killed(cx) => {
                let why = cx.killed();
                let failed = self.enter(place, self.kill_kind(cx, why));
                match why {
                    Kill::Conflict => self.abort_transaction(cx),
                    // Nothing of it can be committed, and others need its memory.
                    Kill::Memory => {
                        self.transactions.undo(cx);
                        self.forget_undone(cx);
                        cx.doom(Doom::Killed(why));
                        cx.collect();
                    }
                    Kill::Fuel | Kill::Time | Kill::Stop | Kill::Objects | Kill::Answers => {}
                }
                failed
            }
            Cause::Limit(..) if self.batch.dead => NOT_KEPT,
            Cause::Limit(number, limit) => {
                let text = self.limits.exceeded(number, limit);
                let failed = self.enter(place, FailureKind::refused(number, text));
                self.batch.dead = true;
                self.scan = None;
                failed
            }
            Cause::Session(number, text) => {
                if !self.ended {
                    (self.ended, self.error) = (true, Some(number));
                    encode::error(&mut self.output, number, self.position, text);
                }
                NOT_KEPT
            }
        }
    }

    /// Enters a failure in the batch's list, and applies the scope of its number.
    fn enter(&mut self, place: Place, kind: FailureKind) -> u32 {
        self.counters.failures += 1;
        self.transactions.unseen = true;
        if let FailureKind::Refused { number, .. } = &kind {
            match number.scope() {
                Scope::Call => self.errors += 1,
                Scope::Batch | Scope::Session => self.batch.dead = true,
            }
            if self.errors > ERRORS_MAX {
                self.fail(ErrorNumber::TooManyErrors, ErrorNumber::TooManyErrors.text());
            }
        }
        self.batch.add(Failure { place, kind }, &self.limits)
    }

    /// Returns the refusal of a batch whose run was ended from outside.
    fn kill_kind(&self, cx: &Cx, why: Kill) -> FailureKind {
        let (number, text) = match why {
            Kill::Fuel => return self.exceeded(ErrorNumber::OutOfFuel, Limit::Fuel),
            Kill::Time => return self.exceeded(ErrorNumber::TimeLimit, Limit::BatchTimeMs),
            Kill::Objects => return self.exceeded(ErrorNumber::TooManyObjects, Limit::TransactionObjects),
            Kill::Stop => (ErrorNumber::Cancelled, ErrorNumber::Cancelled.text().to_owned()),
            Kill::Conflict => {
                (ErrorNumber::Conflict, conflict_text(self.tables, cx.overtaken(), &self.handles))
            }
            Kill::Answers => {
                let text = format!(
                    "{}: its unread answers have more bytes than a batch may add to objects: {} (batch_heap_bytes_max); request less at once",
                    ErrorNumber::HeapLimit.text(),
                    cx.limits().batch_heap_bytes,
                );
                (ErrorNumber::HeapLimit, text)
            }
            Kill::Memory => {
                let text = format!(
                    "{why}: {} bytes is the limit (server_heap_bytes_max); the server ends the newest of its largest batches",
                    cx.shared_bytes_max(),
                );
                (ErrorNumber::HeapLimit, text)
            }
        };
        FailureKind::refused(number, text)
    }

    fn exceeded(&self, number: ErrorNumber, limit: Limit) -> FailureKind {
        FailureKind::refused(number, self.limits.exceeded(number, limit))
    }

    /// Returns the exception under way, of a call with this heading. Its values live until the end
    /// of the batch.
    fn exception(&mut self, cx: &mut Cx, heading: &Signature, call: u32) -> FailureKind {
        let name = cx.signalled();
        let places = match name {
            SignalId::FAILURE => self.note_failure(cx, call, cx.signal_values[0]),
            _ => None,
        };
        let types: &[TypeId] = match heading.signal(name) {
            Some(signal) => &signal.values,
            None if name == SignalId::FAILURE => &[Types::STRING],
            None => &[],
        };
        let values: SmallVec<[(Word, TypeId); 2]> =
            cx.signal_values.iter().copied().zip(types.iter().copied()).collect();
        for (word, ty) in &values {
            if !self.tables.is_basic(*ty) {
                self.hold(cx, *word);
            }
        }
        FailureKind::Signal { name, values, places }
    }
}
