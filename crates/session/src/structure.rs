//! Control structures: collected up to their end marker, checked whole, then run.
//!
//! Read [`Scan`] first, then `Session::scan_on`. A structure is read twice at most.
//!
//! 1. The first reading ([`Scan`]) follows the bytes as they arrive. It matches the markers, and
//!    looks up the things that the structure uses from outside (handles, futures made before,
//!    values).
//! 2. It also writes down the structure's *content*: the commands with references by position and
//!    with the types of the words from outside. The words themselves become parameters.
//! 3. If the engine has this content already, the prepared structure is run. So the same structure
//!    over other objects of the same classes, or with other numbers, is not built again.
//! 4. Otherwise the second reading ([`crate::build`]) makes the IR, which the verifier checks
//!    before anything runs.
//!
//! Sources: 000 sections 6.3 and 6.4; the caching of prepared structures is ours.

use std::sync::Arc;

use bifrost_actors::Base;
use bifrost_engine::Batch;
use bifrost_interp::{BatchEnd, Prepared, Trace};
use bifrost_ir::verify::{VerifyError, VerifyErrorKind};
use bifrost_ir::{Block, Callee, SignalId, Signature, Site, Stmt, TypeId};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Table};
use bifrost_wire::{Arg, Args, Command, Decoded, ErrorNumber, Limit, ProcedureNumber, Ref, Value, decode};
use smallvec::SmallVec;

use crate::build::{self, Procedure};
use crate::failures::{Failure, FailureKind};
use crate::futures::Future;
use crate::session::{PROCEDURES_MAX, Session};
use crate::tables::{Dispatch, Tables};

/// True if a command begins a structure.
pub(crate) fn begins(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::While | Command::If | Command::Foreach | Command::Except | Command::Procedure { .. }
    )
}

/// An open structure or part of one, for matching markers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Open {
    WhileCond,
    WhileBody,
    IfCond,
    Then,
    Else,
    Foreach,
    ExceptBody,
    Handler,
    /// After the handler of all others nothing but the end may come.
    LastHandler,
    Procedure,
}

impl Open {
    fn name(self) -> &'static str {
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

/// A structure under collection.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Bytes that were read.
    offset: usize,
    open: SmallVec<[Open; 8]>,
    /// The key under which the engine keeps prepared structures.
    content: Vec<Word>,
    /// The words from outside, in the order of use.
    pub(crate) params: Vec<(Word, TypeId)>,
    /// Futures of the batch before the structure.
    base: u32,
    /// Futures made inside so far.
    pub(crate) numbers: u32,
    /// True if the next command must call an iterator.
    wants_iterator: bool,
    /// The first fault, and its call.
    error: Option<(u32, FailureKind)>,
    /// The batched procedures that it calls, in the order of their first call, and their numbers.
    pub(crate) procedures: Vec<Arc<Procedure>>,
    procedure_numbers: Vec<ProcedureNumber>,
    /// Handles given back inside: they go when the structure has run.
    frees: Vec<Ref>,
    /// True if it is the definition of a procedure.
    procedure: bool,
    /// The number of procedure numbers that it takes: one for each PROCEDURE, misplaced ones
    /// included.
    definitions: usize,
}

impl Scan {
    /// Makes a structure that begins after `base` futures.
    pub(crate) fn new(base: u32) -> Scan {
        Scan {
            offset: 0,
            open: SmallVec::new(),
            content: Vec::with_capacity(64),
            params: Vec::new(),
            base,
            numbers: 0,
            wants_iterator: false,
            error: None,
            procedures: Vec::new(),
            procedure_numbers: Vec::new(),
            frees: Vec::new(),
            procedure: false,
            definitions: 0,
        }
    }

    /// Returns the number of bytes that were read.
    pub(crate) fn bytes(&self) -> usize {
        self.offset
    }

    /// Returns the position of the next future.
    fn next(&self) -> u32 {
        self.base + self.numbers + 1
    }

    fn wrong(&mut self, kind: FailureKind) {
        if self.error.is_none() {
            self.error = Some((self.next(), kind));
        }
    }

    fn refuse(&mut self, number: ErrorNumber, text: impl Into<String>) {
        self.wrong(FailureKind::refused(number, text));
    }

    fn mismatch(&mut self, marker: &str) {
        let text = match self.open.last() {
            Some(open) => format!("`{marker}` inside {}", open.name()),
            None => format!("`{marker}` without a structure"),
        };
        self.refuse(ErrorNumber::MarkerMismatch, text);
    }

    /// Handles a marker that goes from one part of a structure to the next.
    fn turn(&mut self, marker: &str, from: &[Open], to: Open) {
        match self.open.last_mut() {
            Some(open) if from.contains(open) => *open = to,
            _ => self.mismatch(marker),
        }
    }

    /// Handles a marker that ends a structure. One that does not fit ends the innermost all the
    /// same, so that the end of the whole is found.
    fn end(&mut self, marker: &str, from: &[Open]) {
        if !self.open.last().is_some_and(|open| from.contains(open)) {
            self.mismatch(marker);
        }
        self.open.pop();
    }
}

/// The parts of a content that stand for operands. Operation codes are below.
const INNER: Word = 1 << 56;
const PARAM: Word = 2 << 56;

impl Session {
    /// Goes on with the open structure. Returns the number of its bytes if it is over (run or
    /// refused), `None` if it needs more.
    pub(crate) fn scan_on(&mut self, cx: &mut Cx, bytes: &[u8]) -> Option<usize> {
        let mut scan = self.scan.take()?;
        let frame = self.limits.size(Limit::FrameBytes);
        loop {
            match decode(&bytes[scan.offset..], frame) {
                Ok(Decoded::Command(command, used)) => {
                    // The first command was counted when the structure was begun.
                    if scan.offset > 0 && !self.count(cx, used) {
                        return Some(scan.offset);
                    }
                    if self.batch.dead {
                        // A limit was passed: the collected commands are not run, and the rest is
                        // read and dropped.
                        let at = scan.offset;
                        self.dropped(cx, &scan);
                        return Some(at);
                    }
                    if matches!(command, Command::Flush { .. } | Command::Bye) {
                        let at = scan.offset;
                        self.unfinished(cx, scan);
                        return Some(at);
                    }
                    scan.offset += used;
                    self.scan_command(cx, &mut scan, command);
                    let futures = u64::from(scan.base) + u64::from(scan.numbers);
                    if futures > self.limits.get(Limit::Futures) {
                        // Found before the structure runs, not after.
                        let at = scan.offset;
                        self.end_batch(cx, ErrorNumber::TooManyFutures, Limit::Futures);
                        self.dropped(cx, &scan);
                        return Some(at);
                    }
                    if scan.open.is_empty() {
                        let used = scan.offset;
                        self.structure(cx, scan, &bytes[..used]);
                        return Some(used);
                    }
                }
                Ok(Decoded::NeedMore(_)) => {
                    self.scan = Some(scan);
                    return None;
                }
                Err(error) => {
                    self.fail(error.number, &error.to_string());
                    return Some(scan.offset);
                }
            }
        }
    }

    /// Refuses a structure in which the batch ended.
    pub(crate) fn unfinished(&mut self, cx: &mut Cx, scan: Scan) {
        let open = scan.open.last().map_or("a structure", |o| o.name());
        let text = format!("the batch ended inside {open}: its end marker is missing");
        let failed = self.refuse(ErrorNumber::MissingEnd, text);
        self.make(cx, (0..scan.numbers).map(|_| Future::Failed(failed)));
        self.dropped(cx, &scan);
    }

    /// Does the rest of a structure that is not run: its procedures have their numbers, its handles
    /// are given back.
    fn dropped(&mut self, cx: &mut Cx, scan: &Scan) {
        self.undefined(scan.definitions);
        for handle in &scan.frees {
            self.free(cx, *handle);
        }
    }

    fn scan_command(&mut self, cx: &mut Cx, scan: &mut Scan, command: Command<'_>) {
        use bifrost_wire::op;
        let depth = self.limits.size(Limit::Depth);
        if bifrost_actors::has_open_requests(cx) {
            self.join_operands(cx, &command);
        }
        let wanted_iterator = std::mem::take(&mut scan.wants_iterator);
        if wanted_iterator && !matches!(command, Command::Call { .. } | Command::CallRoutine { .. }) {
            scan.refuse(ErrorNumber::NotAnIterator, "a FOREACH is followed by the call of its iterator");
        }
        if begins(&command) {
            if scan.open.len() >= depth {
                let text =
                    format!("{} structures inside each other: {depth} is the limit (depth_max)", depth + 1);
                scan.refuse(ErrorNumber::TooDeep, text);
            }
            if matches!(command, Command::Procedure { .. }) && !scan.open.is_empty() {
                scan.refuse(ErrorNumber::OpenStructure, "a PROCEDURE cannot be defined inside a structure");
            }
        }
        match command {
            Command::Call { method, receiver, args } => {
                scan.content.push(head(op::CALL, args.len(), method.0, wanted_iterator));
                self.scan_ref(scan, receiver, 0);
                self.scan_args(cx, scan, args);
                match self.tables.method(method) {
                    Some(row) => scan.numbers += row.call.numbers,
                    None => {
                        let text = format!("there is no method number {}", method.0);
                        scan.refuse(ErrorNumber::NoSuchMethod, text);
                        scan.numbers += 1;
                    }
                }
            }
            Command::Send { method, receiver, args } => {
                scan.content.push(head(op::SEND, args.len(), method.0, false));
                self.scan_ref(scan, receiver, 0);
                self.scan_args(cx, scan, args);
                scan.numbers += 1;
                let row = self.tables.method(method);
                if !row.is_some_and(|row| matches!(row.dispatch, Dispatch::Actor(_))) {
                    let text = format!("method number {} is none of an actor", method.0);
                    scan.refuse(ErrorNumber::NoSuchMethod, text);
                }
            }
            Command::CallRoutine { routine, args } => {
                scan.content.push(head(op::CALL_ROUTINE, args.len(), routine.0, wanted_iterator));
                self.scan_args(cx, scan, args);
                match self.tables.routine(routine) {
                    Some(row) => scan.numbers += row.call.numbers,
                    None => {
                        let text = format!("there is no routine number {}", routine.0);
                        scan.refuse(ErrorNumber::NoSuchRoutine, text);
                        scan.numbers += 1;
                    }
                }
            }
            Command::CallProcedure { procedure, args } => {
                self.scan_procedure_call(scan, procedure, args.len());
                self.scan_args(cx, scan, args);
                self.scan_captured(scan, procedure);
                scan.numbers += 1;
            }
            Command::Constant(value) => {
                scan.content.push(head(op::CONSTANT, 1, 0, false));
                self.scan_value(cx, scan, value);
                scan.numbers += 1;
            }
            Command::Cell { element } => {
                scan.content.push(head(op::CELL, 0, element.0, false));
                if let Err((number, text)) = self.cell_type(element) {
                    scan.refuse(number, text);
                }
                scan.numbers += 1;
            }
            Command::While => {
                scan.open.push(Open::WhileCond);
                scan.content.push(head(op::WHILE, 0, 0, false));
            }
            Command::Do { test } => {
                scan.turn("do", &[Open::WhileCond], Open::WhileBody);
                scan.content.push(head(op::DO, 1, 0, false));
                self.scan_ref(scan, test, 0);
            }
            Command::EndWhile => {
                scan.end("end_while", &[Open::WhileBody]);
                scan.content.push(head(op::END_WHILE, 0, 0, false));
            }
            Command::If => {
                scan.open.push(Open::IfCond);
                scan.content.push(head(op::IF, 0, 0, false));
            }
            Command::Then { test } => {
                scan.turn("then", &[Open::IfCond], Open::Then);
                scan.content.push(head(op::THEN, 1, 0, false));
                self.scan_ref(scan, test, 0);
            }
            Command::Else => {
                scan.turn("else", &[Open::Then], Open::Else);
                scan.content.push(head(op::ELSE, 0, 0, false));
            }
            Command::EndIf => {
                scan.end("end_if", &[Open::Then, Open::Else]);
                scan.content.push(head(op::END_IF, 0, 0, false));
            }
            Command::Foreach => {
                scan.open.push(Open::Foreach);
                scan.content.push(head(op::FOREACH, 0, 0, false));
                scan.wants_iterator = true;
            }
            Command::EndForeach => {
                scan.end("end_foreach", &[Open::Foreach]);
                scan.content.push(head(op::END_FOREACH, 0, 0, false));
            }
            Command::Break => scan.content.push(head(op::BREAK, 0, 0, false)),
            Command::Continue => scan.content.push(head(op::CONTINUE, 0, 0, false)),
            Command::Except => {
                scan.open.push(Open::ExceptBody);
                scan.content.push(head(op::EXCEPT, 0, 0, false));
            }
            Command::When { name, values } => {
                scan.turn("when", &[Open::ExceptBody, Open::Handler], Open::Handler);
                // A name that no heading has can never be signalled: such a handler is a mistake.
                let signal = self.tables.engine().program().types.find_signal(name);
                if signal.is_none() {
                    scan.refuse(
                        ErrorNumber::NoSuchName,
                        format!("no method or routine signals an exception `{name}`"),
                    );
                }
                let signal = signal.unwrap_or(SignalId::FAILURE);
                scan.content.push(head(op::WHEN, values.len(), signal.as_u32(), false));
                for ty in values.iter() {
                    scan.content.push(Word::from(ty.0));
                    if self.tables.ty(ty).is_none() {
                        scan.refuse(ErrorNumber::NoSuchType, format!("there is no type number {}", ty.0));
                    }
                }
                scan.numbers += values.len() as u32;
            }
            Command::Others { named } => {
                scan.turn("others", &[Open::ExceptBody, Open::Handler], Open::LastHandler);
                scan.content.push(head(op::OTHERS, usize::from(named), 0, false));
                scan.numbers += u32::from(named);
            }
            Command::EndExcept => {
                scan.end("end_except", &[Open::ExceptBody, Open::Handler, Open::LastHandler]);
                scan.content.push(head(op::END_EXCEPT, 0, 0, false));
            }
            Command::Procedure { name: _, params, result } => {
                scan.procedure |= scan.open.is_empty();
                scan.definitions += 1;
                scan.open.push(Open::Procedure);
                let result_number = result.map_or(u32::MAX, |t| t.0);
                scan.content.push(head(op::PROCEDURE, params.len(), result_number, false));
                for ty in params.iter().chain(result) {
                    scan.content.push(Word::from(ty.0));
                    if self.tables.ty(ty).is_none() {
                        scan.refuse(ErrorNumber::NoSuchType, format!("there is no type number {}", ty.0));
                    }
                }
                if self.procedures.len() >= PROCEDURES_MAX {
                    let text = format!("a session can define {PROCEDURES_MAX} procedures at most");
                    scan.refuse(ErrorNumber::NoSuchProcedure, text);
                }
                scan.numbers += params.len() as u32;
            }
            Command::Return(value) => {
                if !scan.procedure {
                    scan.refuse(ErrorNumber::MarkerMismatch, "`return` outside a PROCEDURE");
                }
                scan.content.push(head(op::RETURN, usize::from(value.is_some()), 0, false));
                match value {
                    Some(Arg::Ref(r)) => self.scan_ref(scan, r, 0),
                    Some(Arg::Value(v)) => self.scan_value(cx, scan, v),
                    None => {}
                }
            }
            Command::EndProcedure => {
                scan.end("end_procedure", &[Open::Procedure]);
                scan.content.push(head(op::END_PROCEDURE, 0, 0, false));
            }
            Command::Free(handles) => scan.frees.extend(handles.iter()),
            Command::Hello(_)
            | Command::Lookup { .. }
            | Command::Describe
            | Command::History
            | Command::ClearHistory
            | Command::Transaction { .. }
            | Command::Commit
            | Command::Abort
            | Command::Flush { .. }
            | Command::Bye => {
                let open = scan.open.last().map_or("a structure", |o| o.name());
                scan.refuse(ErrorNumber::OpenStructure, format!("this cannot be said inside {open}"));
                let futures = matches!(
                    command,
                    Command::Lookup { .. } | Command::Transaction { .. } | Command::Commit | Command::Abort
                );
                scan.numbers += u32::from(futures);
            }
        }
    }

    /// Adds an operand that is a reference: one of the structure's own futures, or an object from
    /// outside.
    fn scan_ref(&self, scan: &mut Scan, reference: Ref, argument: u32) {
        if let Some(position) = reference.position()
            && position > scan.base
        {
            if position >= scan.next() {
                let text = format!("-{position} is not defined yet; the next future is -{}", scan.next());
                scan.refuse(ErrorNumber::BadFuture, text);
            }
            scan.content.push(INNER | Word::from(position - scan.base));
            return;
        }
        match self.resolve(reference, argument) {
            Ok(operand) => {
                let ty = match operand.object {
                    // The object's class, by which its actual type is known (000 section 6.3).
                    // SAFETY: an operand marked as object is a reference.
                    true => unsafe { Table::of(operand.word) }.info().ty,
                    false => operand.ty,
                };
                scan.param(operand.word, ty);
            }
            Err(kind) => scan.wrong(kind),
        }
    }

    fn scan_args(&self, cx: &mut Cx, scan: &mut Scan, args: Args<'_>) {
        for (i, arg) in args.iter().enumerate() {
            match arg {
                Arg::Ref(r) => self.scan_ref(scan, r, i as u32 + 1),
                Arg::Value(v) => self.scan_value(cx, scan, v),
            }
        }
    }

    fn scan_value(&self, cx: &mut Cx, scan: &mut Scan, value: Value<'_>) {
        match self.value(cx, value) {
            Ok((word, ty)) => scan.param(word, ty),
            Err(kind) => scan.wrong(kind),
        }
    }

    fn scan_procedure_call(&self, scan: &mut Scan, number: ProcedureNumber, args: usize) {
        use bifrost_wire::op;
        if scan.procedure && number.index() == self.procedures.len() {
            scan.content.push(head(op::CALL_PROCEDURE, args, u32::MAX, false));
            return;
        }
        let Some(procedure) = self.procedures.get(number.index()).cloned().flatten() else {
            return scan.wrong(self.no_procedure(number));
        };
        scan.content.push(head(op::CALL_PROCEDURE, args, 0, false));
        // The batches kept under this content keep it alive, so that the address is never
        // another's.
        scan.content.push(Arc::as_ptr(&procedure.batch.prepared) as Word);
        if !scan.procedure_numbers.contains(&number) {
            scan.procedures.push(procedure);
            scan.procedure_numbers.push(number);
        }
    }

    /// Adds the objects that a called procedure uses from outside, which come with the call.
    fn scan_captured(&self, scan: &mut Scan, number: ProcedureNumber) {
        if let Some(procedure) = self.procedures.get(number.index()).cloned().flatten() {
            for (word, ty) in &procedure.captured {
                scan.param(*word, *ty);
            }
        }
    }

    /// Runs a structure that is whole, or refuses it.
    fn structure(&mut self, cx: &mut Cx, scan: Scan, bytes: &[u8]) {
        let failed = match self.prepared(&scan, bytes) {
            Ok(batch) if scan.procedure => {
                self.define(cx, &scan, batch);
                None
            }
            Ok(batch) => self.run_structure(cx, &scan, &batch),
            Err((call, kind)) => {
                self.undefined(scan.definitions);
                Some(self.note(Failure { call, iterations: SmallVec::new(), kind }))
            }
        };
        let future = failed.map_or(Future::Inner, Future::Failed);
        self.make(cx, (0..scan.numbers).map(|_| future));
        for handle in scan.frees {
            self.free(cx, handle);
        }
    }

    /// Returns the structure ready to run: found by its content, or built and checked now.
    fn prepared(&mut self, scan: &Scan, bytes: &[u8]) -> Result<Arc<Batch>, (u32, FailureKind)> {
        if let Some((call, kind)) = &scan.error {
            return Err((*call, kind.clone()));
        }
        if let Some(batch) = self.tables.engine().find_batch(&scan.content) {
            self.counters.prepared_hits += 1;
            return Ok(batch);
        }
        let func = build::func(self.tables, scan, bytes, self.limits.size(Limit::FrameBytes))?;
        let procedures: Vec<Arc<Prepared>> =
            scan.procedures.iter().map(|p| p.batch.prepared.clone()).collect();
        self.tables
            .engine()
            .add_batch(&scan.content, func, &procedures)
            .map_err(|errors| refusal(self.tables, scan.base, &errors))
    }

    fn define(&mut self, cx: &mut Cx, scan: &Scan, batch: Arc<Batch>) {
        let signature = &batch.func.signature;
        let declared = signature.params.len() - scan.params.len();
        let procedure = Procedure {
            params: signature.params[..declared].iter().map(|p| p.ty).collect(),
            result: signature.results.first().copied(),
            captured: scan.params.clone(),
            batch: batch.clone(),
        };
        self.hold_captured(cx, &procedure.captured);
        self.procedures.push(Some(Arc::new(procedure)));
    }

    fn run_structure(&mut self, cx: &mut Cx, scan: &Scan, batch: &Batch) -> Option<u32> {
        self.counters.structures += 1;
        let words: SmallVec<[Word; 16]> = scan.params.iter().map(|(word, _)| *word).collect();
        let calls = cx.calls;
        bifrost_actors::number_from(cx, Base::After(scan.base));
        // SAFETY: the words have the types that the content names, and the batch was built for that
        // content.
        let end = unsafe { self.tables.engine().run(cx, batch, &words) };
        self.batch.calls += cx.calls.saturating_sub(calls);
        match end {
            BatchEnd::Done(_) => None,
            BatchEnd::Signalled(trace) => {
                let heading = find_site(self.tables, batch, &batch.func.body, trace.site);
                let kind = self.signalled(cx, heading.unwrap_or(&Signature::default()));
                let (call, iterations) = place(scan.base, &trace);
                Some(self.note(Failure { call, iterations, kind }))
            }
            BatchEnd::Killed(trace) => {
                let (call, iterations) = place(scan.base, &trace);
                Some(self.killed(cx, call, iterations))
            }
        }
    }
}

impl Scan {
    fn param(&mut self, word: Word, ty: TypeId) {
        self.params.push((word, ty));
        self.content.push(PARAM | Word::from(ty.as_u32()));
    }

    /// Returns a called procedure and its position among those that the structure calls; nothing
    /// for the one being defined.
    pub(crate) fn procedure_at(&self, number: ProcedureNumber) -> Option<(u32, &Arc<Procedure>)> {
        let index = self.procedure_numbers.iter().position(|n| *n == number)?;
        Some((index as u32, &self.procedures[index]))
    }

    /// Returns the number of futures of the batch before the structure.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }
}

/// Encodes a command in a content: its code, the number of its operands, a number, and whether it
/// is a FOREACH's iterator.
fn head(code: u8, count: usize, number: u32, iterator: bool) -> Word {
    Word::from(code) | (count as Word & 0xff) << 8 | Word::from(iterator) << 16 | Word::from(number) << 24
}

/// Returns the place at which a structure failed, in the batch's numbering. Sites are counted from
/// the structure's start, because the same prepared structure runs at other places too.
fn place(base: u32, trace: &Trace) -> (u32, SmallVec<[u32; 4]>) {
    let iterations = trace.iterations.iter().map(|i| u32::try_from(*i).unwrap_or(u32::MAX)).collect();
    (base + trace.site.0.max(1), iterations)
}

/// Finds the heading of the call at a site.
fn find_site<'a>(
    tables: &'a Tables,
    batch: &'a Batch,
    block: &'a Block,
    site: Site,
) -> Option<&'a Signature> {
    let find = |b: &'a Block| find_site(tables, batch, b, site);
    block.0.iter().find_map(|stmt| match stmt {
        Stmt::Request { method, site: s, .. } if *s == site => {
            tables.engine().program().signature(Callee::Method(*method), &batch.func)
        }
        Stmt::Call { callee, site: s, .. } if *s == site => {
            tables.engine().program().signature(*callee, &batch.func)
        }
        Stmt::ForEach { callee, site: s, .. } if *s == site => {
            tables.engine().program().signature(*callee, &batch.func)
        }
        Stmt::If { then, otherwise, .. } | Stmt::TypeIf { then, otherwise, .. } => {
            find(then).or_else(|| find(otherwise))
        }
        Stmt::While { cond, body, .. } => find(cond).or_else(|| find(body)),
        Stmt::ForEach { body, .. } => find(body),
        Stmt::Except { body, arms } => find(body).or_else(|| arms.iter().find_map(|a| find(&a.body))),
        _ => None,
    })
}

/// Turns the errors of the verifier into a refusal for the client.
fn refusal(tables: &Tables, base: u32, errors: &[VerifyError]) -> (u32, FailureKind) {
    let Some(error) = errors.first() else {
        return (base + 1, FailureKind::refused(ErrorNumber::Internal, "refused without a reason"));
    };
    let number = match &error.kind {
        VerifyErrorKind::WrongType { .. }
        | VerifyErrorKind::ArmType { .. }
        | VerifyErrorKind::OthersTakesName
        | VerifyErrorKind::NotASequence { .. } => ErrorNumber::WrongType,
        VerifyErrorKind::WrongCount { .. }
        | VerifyErrorKind::ArmCount { .. }
        | VerifyErrorKind::ReturnMissing
        | VerifyErrorKind::TooManyWords { .. }
        | VerifyErrorKind::TooManyValues { .. }
        | VerifyErrorKind::TooManyYields { .. } => ErrorNumber::WrongCount,
        VerifyErrorKind::UnassignedVar { .. } => ErrorNumber::BadFuture,
        VerifyErrorKind::IteratorInCall { .. } => ErrorNumber::NotAProcedure,
        VerifyErrorKind::NotAnIterator { .. } => ErrorNumber::NotAnIterator,
        VerifyErrorKind::BreakOutsideLoop | VerifyErrorKind::BreakInCondition => ErrorNumber::MarkerMismatch,
        VerifyErrorKind::TooDeep => ErrorNumber::TooDeep,
        VerifyErrorKind::NotPublic { .. } => ErrorNumber::NoSuchMethod,
        _ => ErrorNumber::Internal,
    };
    let text = match &error.kind {
        // Variables are named by the futures that they are; the numbers behind them are ours.
        VerifyErrorKind::UnassignedVar { place, name, .. } => {
            format!("{place}: the call `{name}` may not have run when it is needed here")
        }
        // Of a class that clients cannot see they are told the type.
        VerifyErrorKind::WrongType { place, expected, found } => {
            let (expected, found) = (tables.type_name(expected.id), tables.type_name(found.id));
            format!("{place}: expected `{expected}`, found `{found}`")
        }
        kind => kind.to_string(),
    };
    (base + error.site.0.max(1), FailureKind::refused(number, text))
}
