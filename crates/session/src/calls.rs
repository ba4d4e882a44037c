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

use crate::tables::MethodRow;
use bifrost_actors::Base;
use bifrost_interp::{BatchEnd, OpError, apply};
use bifrost_ir::{SignalId, Signature, TypeId, Types};
use bifrost_runtime::abi::{Ret, Word, enter};
use bifrost_runtime::cx::Kill;
use bifrost_runtime::{Cx, Table, UNDONE, invoke};
use bifrost_wire::{Arg, Args, ErrorNumber, MethodNumber, ProcedureNumber, Ref, RoutineNumber, mention};
use smallvec::SmallVec;

use crate::failures::{Failure, FailureKind};
use crate::futures::Future;
use crate::session::Session;
use crate::tables::{CallRow, Dispatch};

/// A reference that was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub word: Word,
    /// The type that is known without looking at the object.
    pub ty: TypeId,
    pub object: bool,
}

/// The words of a call: receiver or descriptor, then the arguments.
type Words = SmallVec<[Word; 8]>;

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
        Err(self.unresolved(reference, argument))
    }

    #[cold]
    fn unresolved(&self, reference: Ref, argument: u32) -> FailureKind {
        if reference.is_handle() {
            let text = match self.handles.is_undone(reference) {
                true => {
                    format!("the object of {} was made in a transaction that was aborted", mention(reference))
                }
                false => format!("{} was never given to this session, or was given back", mention(reference)),
            };
            return FailureKind::refused(ErrorNumber::NoSuchHandle, text);
        }
        let Some(position) = reference.position() else {
            if reference == Ref::NONE {
                return FailureKind::Unhandled { argument, cause: 0 };
            }
            let text = format!("{} is no future: a position has 32 bits", reference.0);
            return FailureKind::refused(ErrorNumber::BadFuture, text);
        };
        let text = match self.batch.futures.get(position as usize - 1) {
            Some(Future::Failed(index)) => {
                let cause = self.batch.failures.get(*index as usize).map_or(0, |f| f.call);
                return FailureKind::Unhandled { argument, cause };
            }
            Some(Future::Undone) => return FailureKind::refused(ErrorNumber::NoSuchHandle, UNDONE),
            Some(Future::Nothing) => format!("the call -{position} has no result"),
            Some(Future::Inner) => format!(
                "-{position} was made inside a control structure and means nothing outside; keep it in a cell"
            ),
            _ => format!("-{position} is not defined yet; the next future is -{}", self.next()),
        };
        FailureKind::refused(ErrorNumber::BadFuture, text)
    }

    /// True if an operand has the expected type, by the object's actual type.
    #[inline]
    fn check(&self, operand: Operand, expected: TypeId, argument: u32) -> Result<Word, FailureKind> {
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

    #[inline]
    fn arguments(
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
                    let (word, ty) = self.value(cx, v)?;
                    Operand { word, ty, object: ty == Types::STRING }
                }
            };
            words.push(self.check(operand, *expected, argument)?);
        }
        Ok(())
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
            return self.refused(cx, 1, FailureKind::refused(ErrorNumber::NoSuchMethod, text));
        };
        let mut words = Words::new();
        let ready = (|| {
            if row.call.iterator {
                return Err(iterator(&tables.engine().program().types.method(row.method).name));
            }
            if past && !matches!(row.dispatch, Dispatch::Actor(_)) {
                return Err(passive(&tables.engine().program().types.method(row.method).name));
            }
            words.push(self.check(self.resolve(receiver, 0)?, row.method.ty, 0)?);
            self.arguments(cx, &row.call.params, args, &mut words)
        })();
        if let Err(kind) = ready {
            return self.refused(cx, row.call.numbers, kind);
        }
        if !self.spend(cx, row.call.numbers) {
            return;
        }
        if let Dispatch::Actor(slot) = row.dispatch {
            return self.ask(cx, row, slot, &words, !past);
        }
        // SAFETY: the receiver and the arguments were just checked against the method's heading.
        let ret = unsafe {
            match row.dispatch {
                Dispatch::Table(slot) if tables.engine().image().has_engine() => {
                    enter(Table::of(words[0]).entry(slot), cx, &words)
                }
                Dispatch::Table(slot) | Dispatch::Actor(slot) => invoke::method(cx, slot, &words),
                Dispatch::Native(code) => enter(code, cx, &words),
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
        let signature = &self.tables.engine().program().types.method(row.method).signature;
        self.ended_badly(cx, row.call.numbers, ret, signature);
    }

    /// Runs a routine call.
    pub(crate) fn call_routine(&mut self, cx: &mut Cx, routine: RoutineNumber, args: Args<'_>) {
        let tables = self.tables;
        let Some(row) = tables.routine(routine) else {
            let text = format!("there is no routine number {}", routine.0);
            return self.refused(cx, 1, FailureKind::refused(ErrorNumber::NoSuchRoutine, text));
        };
        let def = &tables.engine().program().routines[row.routine];
        let mut words = Words::from_slice(&[0]);
        let ready = match row.call.iterator {
            true => Err(iterator(&def.name)),
            false => self.arguments(cx, &row.call.params, args, &mut words),
        };
        if let Err(kind) = ready {
            return self.refused(cx, row.call.numbers, kind);
        }
        if !self.spend(cx, row.call.numbers) {
            return;
        }
        // SAFETY: the arguments were just checked against the routine's heading.
        let ret = unsafe { invoke::routine(cx, row.desc, &mut words) };
        if ret.returned() {
            return self.returned(cx, &row.call, ret);
        }
        self.ended_badly(cx, row.call.numbers, ret, &def.signature);
    }

    /// Fails a call of a procedure that is not there.
    #[cold]
    pub(crate) fn no_procedure(&self, number: ProcedureNumber) -> FailureKind {
        let text = match self.undone_procedures.contains(&number.0) {
            true => format!(
                "batched procedure number {} uses an object that was made in a transaction that was aborted",
                number.0
            ),
            false => {
                format!("there is no batched procedure number {}, or its definition was refused", number.0)
            }
        };
        FailureKind::refused(ErrorNumber::NoSuchProcedure, text)
    }

    /// Runs a batched procedure by itself.
    pub(crate) fn call_procedure(&mut self, cx: &mut Cx, number: ProcedureNumber, args: Args<'_>) {
        let Some(procedure) = self.procedures.get(number.index()).cloned().flatten() else {
            return self.refused(cx, 1, self.no_procedure(number));
        };
        let mut words = Words::new();
        if let Err(kind) = self.arguments(cx, &procedure.params, args, &mut words) {
            return self.refused(cx, 1, kind);
        }
        if !self.spend(cx, 1) {
            return;
        }
        words.extend(procedure.captured.iter().map(|(word, _)| *word));
        let calls = cx.calls;
        bifrost_actors::number_from(cx, Base::At(self.next()));
        // SAFETY: the arguments were just checked; the captured words have the types they were
        // captured with.
        let end = unsafe { self.tables.engine().run(cx, &procedure.batch, &words) };
        self.batch.calls += cx.calls.saturating_sub(calls);
        let call = self.next();
        let future = match end {
            BatchEnd::Done(word) => match procedure.result {
                Some(ty) if self.tables.is_basic(ty) => Future::Basic(word, ty),
                Some(ty) => Future::Object(word, ty),
                None => Future::Nothing,
            },
            BatchEnd::Signalled(_) => {
                let kind = self.signalled(cx, &procedure.batch.func.signature);
                Future::Failed(self.note(Failure { call, iterations: SmallVec::new(), kind }))
            }
            BatchEnd::Killed(_) => Future::Failed(self.killed(cx, call, SmallVec::new())),
        };
        self.make_one(cx, future);
    }

    /// Takes a unit of fuel for a call; false, and the batch is over, when there is none.
    #[inline]
    fn spend(&mut self, cx: &mut Cx, numbers: u32) -> bool {
        cx.fuel -= 1;
        self.batch.calls += 1;
        if cx.fuel >= 0 {
            return true;
        }
        cx.kill(Kill::Fuel);
        let call = self.next();
        let failed = self.killed(cx, call, SmallVec::new());
        self.make(cx, (0..numbers).map(|_| Future::Failed(failed)));
        false
    }

    #[inline]
    fn returned(&mut self, cx: &mut Cx, row: &CallRow, ret: Ret) {
        let future = |session: &Session, word: Word, ty: TypeId| {
            if session.tables.is_basic(ty) { Future::Basic(word, ty) } else { Future::Object(word, ty) }
        };
        match *row.results {
            [] => self.make_one(cx, Future::Nothing),
            [ty] => {
                let made = future(self, ret.value, ty);
                self.make_one(cx, made);
            }
            ref all => {
                let made: Vec<Future> = all
                    .iter()
                    .enumerate()
                    .map(|(i, ty)| future(self, if i == 0 { ret.value } else { cx.results[i] }, *ty))
                    .collect();
                self.make(cx, made);
            }
        }
    }

    #[cold]
    fn refused(&mut self, cx: &mut Cx, numbers: u32, kind: FailureKind) {
        let failed = self.note(Failure { call: self.next(), iterations: SmallVec::new(), kind });
        self.make(cx, (0..numbers).map(|_| Future::Failed(failed)));
    }

    /// Returns the exception under way, which a call with this heading signalled. Its values live
    /// until the end of the batch.
    pub(crate) fn signalled(&self, cx: &mut Cx, signature: &Signature) -> FailureKind {
        let name = cx.signalled();
        let types: &[TypeId] = match signature.signal(name) {
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
        FailureKind::Signal { name, values }
    }

    #[cold]
    fn ended_badly(&mut self, cx: &mut Cx, numbers: u32, ret: Ret, signature: &Signature) {
        let call = self.next();
        let failed = match ret.outcome {
            1 => {
                let kind = self.signalled(cx, signature);
                self.note(Failure { call, iterations: SmallVec::new(), kind })
            }
            _ => self.killed(cx, call, SmallVec::new()),
        };
        self.make(cx, (0..numbers).map(|_| Future::Failed(failed)));
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
    let text = format!("`{name}` is no method of an actor: call it");
    FailureKind::refused(ErrorNumber::NotAProcedure, text)
}

fn iterator(name: &str) -> FailureKind {
    let text = format!("`{name}` is an iterator and can only be called by a FOREACH");
    FailureKind::refused(ErrorNumber::NotAProcedure, text)
}
