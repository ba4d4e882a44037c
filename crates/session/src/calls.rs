//! Single calls, run as they arrive.
//!
//! Read `Session::call` first. Calls inside structures are checked and built elsewhere
//! (`structure.rs`, `build.rs`).
//!
//! 1. Each operand is looked up (`Session::resolve`): a handle, a future, or a value that comes
//!    with the call.
//! 2. Its type is checked against the heading, by the object's actual type.
//! 3. The call is entered as its row in [`crate::tables`] says.
//! 4. The results become futures, and an exception becomes a failure (`Session::finished`).
//!
//! The words of a call are references into the context's heap; handles and the batch keep their
//! objects alive.

use bifrost_interp::{OpError, apply};
use bifrost_ir::{TypeId, Types};
use bifrost_runtime::abi::{Ret, Word, enter};
use bifrost_runtime::cx::Kill;
use bifrost_runtime::{Cx, Table, UNDONE, invoke};
use bifrost_wire::{Arg, Args, ErrorNumber, MethodNumber, Ref, RoutineNumber, mention};
use smallvec::SmallVec;

use crate::causes::Cause;
use crate::failures::FailureKind;
use crate::futures::Future;
use crate::policy::Way;
use crate::session::Session;
use crate::tables::{CallRow, Dispatch, MethodRow};

/// A reference that was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub word: Word,
    /// The type that is known without looking at the object.
    pub ty: TypeId,
    pub object: bool,
}

/// The words of a call: receiver or descriptor, then the arguments.
pub(crate) type Words = SmallVec<[Word; 8]>;

impl Session {
    /// Returns the operand of a reference; `argument` (0 is the receiver) is for the failure.
    #[inline]
    pub(crate) fn resolve(&self, reference: Ref, argument: u32) -> Result<Operand, FailureKind> {
        if reference.is_handle() {
            if let Some(word) = self.handles.get(reference) {
                // The static type of a handle is that of its object, looked at when it is needed.
                return Ok(Operand { word, ty: Types::ANY, object: true });
            }
        } else if let Some(position) = reference.position() {
            match self.batch.futures.get(position as usize - 1) {
                Some(Future::Object(word, ty)) => return Ok(Operand { word: *word, ty: *ty, object: true }),
                Some(Future::Basic(word, ty)) => return Ok(Operand { word: *word, ty: *ty, object: false }),
                _ => {}
            }
        }
        match reference.as_earlier() {
            Some(earlier) => self.resolve_earlier(earlier, argument),
            None => Err(self.unresolved(reference, argument)),
        }
    }

    #[cold]
    fn unresolved(&self, reference: Ref, argument: u32) -> FailureKind {
        if reference.is_handle() {
            let text = match self.handles.is_undone(reference) {
                true => {
                    format!("the object of {} was made in a transaction that was aborted", mention(reference))
                }
                false => format!("{} is not a handle of this session, or it was freed", mention(reference)),
            };
            return FailureKind::refused(ErrorNumber::NoSuchHandle, text);
        }
        let Some(position) = reference.position() else {
            if reference == Ref::NONE {
                return FailureKind::Unhandled { argument, back: 0, cause: 0 };
            }
            let text = format!("{} is not a future of this batch or an earlier one", reference.0);
            return FailureKind::refused(ErrorNumber::BadFuture, text);
        };
        let text = match self.batch.futures.get(position as usize - 1) {
            Some(Future::Failed(index)) => {
                let cause = self.batch.failures.get(*index as usize).map_or(0, |f| f.place.call);
                return FailureKind::Unhandled { argument, back: 0, cause };
            }
            Some(Future::Undone) => return FailureKind::refused(ErrorNumber::NoSuchHandle, UNDONE),
            Some(Future::Nothing) => format!("the call -{position} has no result"),
            Some(Future::Rows(_)) => {
                format!("-{position} is a table of rows, which only `emit` and `flush` can name")
            }
            Some(Future::Contents(_)) => {
                format!("-{position} is a value that `get` has taken, which only `flush` can name")
            }
            Some(Future::Inner) => format!(
                "-{position} belongs to a control structure and is not valid outside it; store its value in a cell"
            ),
            _ => format!("-{position} is not defined yet; the next future is -{}", self.next()),
        };
        FailureKind::refused(ErrorNumber::BadFuture, text)
    }

    /// True if an operand has the expected type, by the object's actual type.
    #[inline]
    pub(crate) fn check(
        &self,
        operand: Operand,
        expected: TypeId,
        argument: u32,
    ) -> Result<Word, FailureKind> {
        let fits = operand.ty == expected
            // SAFETY: an operand marked as object is a reference.
            || (operand.object && unsafe { Table::of(operand.word) }.info().has_type(expected));
        if fits { Ok(operand.word) } else { Err(self.mistyped(operand, expected, argument)) }
    }

    #[cold]
    fn mistyped(&self, operand: Operand, expected: TypeId, argument: u32) -> FailureKind {
        let found = match operand.object {
            // SAFETY: an operand marked as object is a reference.
            true => unsafe { Table::of(operand.word) }.info().seen_as,
            false => operand.ty,
        };
        let place = if argument == 0 { "the receiver".to_owned() } else { format!("argument {argument}") };
        let (expected, found) = (self.tables.type_name(expected), self.tables.type_name(found));
        FailureKind::refused(
            ErrorNumber::WrongType,
            format!("{place}: expected `{expected}`, found `{found}`"),
        )
    }

    /// Looks the arguments of a call up, and checks their types.
    #[inline]
    pub(crate) fn arguments(
        &self,
        cx: &mut Cx,
        params: &[TypeId],
        args: Args<'_>,
        words: &mut Words,
    ) -> Result<(), FailureKind> {
        if args.len() != params.len() {
            return Err(wrong_count(params.len(), args.len()));
        }
        for (i, (arg, expected)) in args.iter().zip(params).enumerate() {
            let argument = i as u32 + 1;
            let operand = match arg {
                Arg::Ref(r) => self.resolve(r, argument)?,
                Arg::Value(v) => {
                    let (word, ty) = self.value(cx, v, argument, *expected)?;
                    Operand { word, ty, object: !self.tables.is_basic(ty) }
                }
            };
            words.push(self.check(operand, *expected, argument)?);
        }
        Ok(())
    }

    /// Returns the receiver of a method's call, or the reason why there is no such call.
    #[inline(always)]
    pub(crate) fn receiver(&self, row: &MethodRow, receiver: Ref, past: bool) -> Result<Word, FailureKind> {
        if row.call.iterator {
            return Err(iterator(&self.tables.engine().program().types.method(row.method).name));
        }
        if past && !matches!(row.dispatch, Dispatch::Actor(_)) {
            return Err(passive(&self.tables.engine().program().types.method(row.method).name));
        }
        self.check(self.resolve(receiver, 0)?, row.method.ty, 0)
    }

    /// Runs a method call (000 section 2.3: look up, check, call, keep the result). With `past`, it
    /// is a message without an answer.
    #[inline]
    pub(crate) fn call(
        &mut self,
        cx: &mut Cx,
        method: MethodNumber,
        receiver: Ref,
        args: Args<'_>,
        past: bool,
    ) {
        let tables = self.tables;
        let Some(row) = tables.method(method) else {
            let text = format!("there is no method number {}", method.0);
            return self.fail_call(1, FailureKind::refused(ErrorNumber::NoSuchMethod, text));
        };
        if let Some(names) = &row.names {
            match self.policy.way(names) {
                Way::Free => {}
                Way::Granted => return self.call_granted(cx, (row, names), receiver, args, past),
                Way::Refused(kind) => return self.fail_call(row.call.numbers, kind),
            }
        }
        let receiver = match self.receiver(row, receiver, past) {
            Ok(receiver) => receiver,
            Err(kind) => return self.fail_call(row.call.numbers, kind),
        };
        let mut words = Words::new();
        words.push(receiver);
        // Most calls have no arguments.
        if !(args.is_empty() && row.call.params.is_empty())
            && let Err(kind) = self.arguments(cx, &row.call.params, args, &mut words)
        {
            return self.fail_call(row.call.numbers, kind);
        }
        let words: &[Word] = &words;
        if !self.spend(cx, row.call.numbers) {
            return;
        }
        if let Dispatch::Actor(slot) = row.dispatch {
            return self.ask(cx, row, slot, words, !past);
        }
        // SAFETY: the receiver and the arguments were just checked against the method's heading.
        let ret = unsafe {
            match row.dispatch {
                Dispatch::Table(slot) if tables.engine().image().has_engine() => {
                    enter(Table::of(words[0]).entry(slot), cx, words)
                }
                Dispatch::Table(slot) | Dispatch::Actor(slot) => invoke::method(cx, slot, words),
                Dispatch::Native(code) => enter(code, cx, words),
                Dispatch::Op(op) => match apply(op, words[0], words.get(1).copied().unwrap_or(0)) {
                    Ok(word) => Ret::of(word),
                    Err(error) => signal(cx, error),
                },
            }
        };
        self.finished(cx, row, ret);
    }

    /// Keeps the results of a method's call, or notes its failure.
    #[inline]
    pub(crate) fn finished(&mut self, cx: &mut Cx, row: &MethodRow, ret: Ret) {
        if ret.returned() {
            return self.returned(cx, &row.call, ret);
        }
        let heading = &self.tables.engine().program().types.method(row.method).signature;
        self.fail_call(row.call.numbers, Cause::of(cx, ret, heading));
    }

    /// Runs a routine call.
    pub(crate) fn call_routine(&mut self, cx: &mut Cx, routine: RoutineNumber, args: Args<'_>) {
        let tables = self.tables;
        let Some(row) = self.policy.routine(routine).and_then(|number| tables.routine(number)) else {
            let text = format!("there is no routine number {}", routine.0);
            return self.fail_call(1, FailureKind::refused(ErrorNumber::NoSuchRoutine, text));
        };
        let def = &tables.engine().program().routines[row.routine];
        let mut words = Words::from_slice(&[0]);
        let ready = match row.call.iterator {
            true => Err(iterator(&def.name)),
            false => self.arguments(cx, &row.call.params, args, &mut words),
        };
        if let Err(kind) = ready {
            return self.fail_call(row.call.numbers, kind);
        }
        if !self.spend(cx, row.call.numbers) {
            return;
        }
        // SAFETY: the arguments were just checked against the routine's heading.
        let ret = unsafe { invoke::routine(cx, row.desc, &mut words) };
        if ret.returned() {
            return self.returned(cx, &row.call, ret);
        }
        self.fail_call(row.call.numbers, Cause::of(cx, ret, &def.signature));
    }

    /// Takes a unit of fuel for a call; false, and the batch is over, when there is none.
    #[inline]
    pub(crate) fn spend(&mut self, cx: &mut Cx, numbers: u32) -> bool {
        cx.fuel -= 1;
        self.batch.calls += 1;
        if cx.fuel >= 0 {
            return true;
        }
        cx.kill(Kill::Fuel);
        self.fail_call(numbers, Cause::Killed(cx));
        false
    }

    #[inline]
    pub(crate) fn returned(&mut self, cx: &mut Cx, row: &CallRow, ret: Ret) {
        match *row.results {
            [] => self.make_one(cx, Future::Nothing),
            [ty] => {
                let made = self.of_type(ret.value, ty);
                self.make_one(cx, made);
            }
            ref all => {
                let made: Vec<Future> = all
                    .iter()
                    .enumerate()
                    .map(|(i, ty)| self.of_type(if i == 0 { ret.value } else { cx.results[i] }, *ty))
                    .collect();
                self.make(cx, made);
            }
        }
    }

    /// The future of a word of this type.
    #[inline]
    pub(crate) fn of_type(&self, word: Word, ty: TypeId) -> Future {
        if self.tables.is_basic(ty) { Future::Basic(word, ty) } else { Future::Object(word, ty) }
    }
}

/// Signals the failure of an operation.
fn signal(cx: &mut Cx, error: OpError) -> Ret {
    let signals = *cx.image().signals();
    cx.signal(match error {
        OpError::Overflow => signals.overflow,
        OpError::Zero => signals.zero,
        OpError::Bounds => signals.bounds,
        OpError::IllegalChar => signals.illegal_char,
    })
}

pub(crate) fn wrong_count(expected: usize, found: usize) -> FailureKind {
    FailureKind::refused(ErrorNumber::WrongCount, format!("{expected} arguments expected, {found} given"))
}

fn passive(name: &str) -> FailureKind {
    let text = format!("`{name}` is not a method of an actor: call it instead of sending it");
    FailureKind::refused(ErrorNumber::NotAProcedure, text)
}

fn iterator(name: &str) -> FailureKind {
    let text = format!("`{name}` is an iterator and can only be called by a FOREACH");
    FailureKind::refused(ErrorNumber::NotAProcedure, text)
}
