//! The first reading of a structure: it follows the commands as they arrive.
//!
//! Read [`Scan`] first, then `Session::scan_command`. The rule of each command, which matches the
//! markers, is a row of `rules.rs`. Nothing runs here; `structure.rs` owns the steps around it.
//!
//! 1. [`Scan::follow`] applies the rule of a command to the open parts.
//! 2. `Session::scan_operands` looks up the operands. It writes down the *content*: the command,
//!    references by position, and the types of the words from outside. The words themselves become
//!    parameters.
//! 3. The first fault is kept, and the structure is read to its end all the same.

use std::sync::Arc;

use bifrost_ir::{SignalId, TypeId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Table};
use bifrost_wire::command::TypeNumbers;
use bifrost_wire::{
    Arg, Args, Command, Compound, ErrorNumber, Limit, MethodNumber, ProcedureNumber, Ref, RoutineNumber,
    TypeNumber, Value, op,
};
use smallvec::SmallVec;

use crate::calls::wrong_count;
use crate::casts::{Cast, cast_row};
use crate::compounds::Shape;
use crate::failures::{Failure, FailureKind};
use crate::handles::Freed;
use crate::policy::Way;
use crate::procedures::Procedure;
use crate::rows::{Column, no_table};
use crate::rules::{Inside, Open, Rule};
use crate::session::Session;
use crate::tables::{Dispatch, RoutineRow};

/// A structure under collection.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Bytes that were read.
    pub offset: usize,
    open: SmallVec<[Open; 8]>,
    /// The key under which the engine keeps prepared structures.
    pub content: Vec<Word>,
    /// The words from outside, in the order of use.
    pub params: Vec<(Word, TypeId)>,
    /// Futures of the batch before the structure.
    pub base: u32,
    /// Futures made inside so far.
    pub numbers: u32,
    /// True if the next command must call an iterator.
    wants_iterator: bool,
    /// The first fault.
    pub fault: Option<Failure>,
    /// The batched procedures that it calls, in the order of their first call, and their numbers.
    pub procedures: Vec<Arc<Procedure>>,
    procedure_numbers: Vec<ProcedureNumber>,
    /// For each row that it appends, the columns of the table.
    pub emits: Vec<Vec<Column>>,
    /// Handles given back inside: they go when the structure has run.
    pub frees: Vec<Freed>,
    /// True if it is the definition of a procedure.
    pub procedure: bool,
    /// The number of procedure numbers that it takes: one for each PROCEDURE, misplaced ones
    /// included.
    pub definitions: usize,
    /// The types of the parameters of the procedure being defined, and of its result.
    own: Vec<TypeId>,
    own_result: Option<TypeId>,
}

impl Scan {
    /// Makes a structure that begins after `base` futures.
    pub fn new(base: u32) -> Scan {
        Scan {
            offset: 0,
            open: SmallVec::new(),
            content: Vec::with_capacity(64),
            params: Vec::new(),
            base,
            numbers: 0,
            wants_iterator: false,
            fault: None,
            procedures: Vec::new(),
            procedure_numbers: Vec::new(),
            emits: Vec::new(),
            frees: Vec::new(),
            procedure: false,
            definitions: 0,
            own: Vec::new(),
            own_result: None,
        }
    }

    /// True if it appends rows, itself or by the procedures that it calls.
    pub fn emits(&self) -> bool {
        !self.emits.is_empty() || self.procedures.iter().any(|procedure| procedure.emits_in.is_some())
    }

    /// Returns the number of bytes that were read.
    pub fn bytes(&self) -> usize {
        self.offset
    }

    /// True if the end marker of the whole has come.
    pub fn is_whole(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the name of the innermost open part, for messages.
    pub fn place(&self) -> &'static str {
        self.open.last().map_or("a structure", |open| open.name())
    }

    /// Returns the position of the next future.
    fn next(&self) -> u32 {
        self.base + self.numbers + 1
    }

    /// Keeps the first fault.
    fn fail(&mut self, kind: FailureKind) {
        if self.fault.is_none() {
            self.fault = Some(Failure::of(self.next(), kind));
        }
    }

    fn refuse(&mut self, number: ErrorNumber, text: impl Into<String>) {
        self.fail(FailureKind::refused(number, text));
    }

    /// Applies the rule of a command. Returns true if the command must be the iterator of a
    /// FOREACH.
    #[inline]
    fn follow(&mut self, rule: &Rule, depth_max: usize) -> bool {
        // Most commands of a structure are calls.
        if rule.inside == Inside::Call {
            return std::mem::take(&mut self.wants_iterator);
        }
        self.follow_others(rule, depth_max)
    }

    fn follow_others(&mut self, rule: &Rule, depth_max: usize) -> bool {
        let wanted_iterator = std::mem::take(&mut self.wants_iterator);
        if wanted_iterator {
            self.refuse(
                ErrorNumber::NotAnIterator,
                "the command after FOREACH must be the call of an iterator",
            );
        }
        match rule.inside {
            Inside::Call | Inside::Action => {}
            Inside::InProcedure if self.procedure => {}
            Inside::InProcedure => {
                self.refuse(ErrorNumber::MarkerMismatch, "`return` outside a PROCEDURE");
            }
            Inside::Opens(open) => self.begin(open, depth_max),
            Inside::Turns(from, to) => match self.open.last_mut() {
                Some(open) if from.contains(open) => *open = to,
                _ => self.mismatch(rule.code),
            },
            // A marker that does not fit ends the innermost all the same, so that the end of the
            // whole is found.
            Inside::Closes(from) => {
                if !self.open.last().is_some_and(|open| from.contains(open)) {
                    self.mismatch(rule.code);
                }
                self.open.pop();
            }
            Inside::Refused(futures) => {
                let text = format!("this command is not allowed inside {}", self.place());
                self.refuse(ErrorNumber::OpenStructure, text);
                self.numbers += futures;
            }
            Inside::EndsBatch => debug_assert!(false, "the structure is refused before"),
        }
        wanted_iterator
    }

    /// Opens a structure.
    fn begin(&mut self, open: Open, depth_max: usize) {
        let depth = self.open.len();
        if depth >= depth_max {
            let text = format!(
                "{} structures inside each other: {depth_max} is the limit (depth_max)",
                depth_max + 1
            );
            self.refuse(ErrorNumber::TooDeep, text);
        }
        if open == Open::Procedure {
            if depth > 0 {
                let text = "a PROCEDURE cannot be defined inside a structure";
                self.refuse(ErrorNumber::OpenStructure, text);
            }
            self.procedure |= depth == 0;
            self.definitions += 1;
        }
        self.wants_iterator = open == Open::Foreach;
        self.open.push(open);
    }

    /// Refuses a marker in the wrong part.
    #[cold]
    fn mismatch(&mut self, code: u8) {
        let marker = op::find(code).map_or("", |op| op.name);
        let text = match self.open.last() {
            Some(open) => format!("`{marker}` inside {}", open.name()),
            None => format!("`{marker}` without a structure"),
        };
        self.refuse(ErrorNumber::MarkerMismatch, text);
    }

    /// Adds a word from outside.
    fn param(&mut self, word: Word, ty: TypeId) {
        self.params.push((word, ty));
        self.content.push(PARAM | Word::from(ty.as_u32()));
    }

    /// Returns a called procedure and its position among those that the structure calls; nothing
    /// for the one being defined.
    pub fn procedure_at(&self, number: ProcedureNumber) -> Option<(u32, &Arc<Procedure>)> {
        let index = self.procedure_numbers.iter().position(|n| *n == number)?;
        Some((index as u32, &self.procedures[index]))
    }
}

/// The parts of a content that stand for operands. Operation codes are below.
const INNER: Word = 1 << 56;
const PARAM: Word = 2 << 56;
const COMPOUND: Word = 3 << 56;
/// Follows the operands of a call of the root directory that is bounded by a role's names.
const GRANTED: Word = 4 << 56;

/// True if a compound has a result of the structure whose base this is.
pub(crate) fn is_inner(compound: Compound<'_>, base: u32) -> bool {
    let mut inner = false;
    compound.each_reference(&mut |reference| inner |= reference.position().is_some_and(|at| at > base));
    inner
}

/// Encodes a command in a content: its code, the number of its operands, a number, and whether it
/// is a FOREACH's iterator.
fn head(code: u8, count: usize, number: u32, iterator: bool) -> Word {
    Word::from(code) | (count as Word & 0xff) << 8 | Word::from(iterator) << 16 | Word::from(number) << 24
}

impl Session {
    /// Adds a command to a structure.
    pub(crate) fn scan_command(&mut self, cx: &mut Cx, scan: &mut Scan, command: &Command<'_>, rule: &Rule) {
        if bifrost_actors::has_open_requests(cx) {
            self.join_operands(cx, command);
        }
        let iterator = scan.follow(rule, self.limits.size(Limit::Depth));
        self.scan_operands(cx, scan, rule.code, command, iterator);
    }

    /// Looks up the operands of a command, and adds it to the content.
    fn scan_operands(&self, cx: &mut Cx, scan: &mut Scan, code: u8, command: &Command<'_>, iterator: bool) {
        match *command {
            Command::Call { method, receiver, args } => {
                scan.content.push(head(code, args.len(), method.0, iterator));
                self.scan_ref(scan, receiver, 0);
                self.scan_args(cx, scan, args, self.tables.method(method).map(|row| &*row.call.params));
                self.scan_method(scan, method);
            }
            Command::Send { method, receiver, args } => {
                scan.content.push(head(code, args.len(), method.0, false));
                self.scan_ref(scan, receiver, 0);
                self.scan_args(cx, scan, args, self.tables.method(method).map(|row| &*row.call.params));
                self.scan_message(scan, method);
            }
            Command::CallRoutine { routine, args } => {
                // Sessions of other roles, which have other numbers, share the content.
                let known = self.policy.routine(routine);
                scan.content.push(head(code, args.len(), known.unwrap_or(routine).0, iterator));
                let row = known.and_then(|number| self.tables.routine(number));
                self.scan_args(cx, scan, args, row.map(|row| &*row.call.params));
                self.scan_routine(scan, routine, row);
            }
            Command::CallProcedure { procedure, args } => {
                self.scan_procedure(scan, procedure, args.len());
                let called = self.procedures.get(procedure.index()).cloned().flatten();
                let params = called.map_or_else(|| scan.own.clone(), |called| called.params.to_vec());
                self.scan_args(cx, scan, args, Some(&params));
                self.scan_captured(scan, procedure);
                scan.numbers += 1;
            }
            Command::Constant(value) => {
                scan.content.push(head(code, 1, 0, false));
                self.scan_value(cx, scan, value, 1, None);
                scan.numbers += 1;
            }
            Command::Cell { element } => {
                scan.content.push(head(code, 0, element.0, false));
                if let Err(kind) = self.cell_type(element) {
                    scan.fail(kind);
                }
                scan.numbers += 1;
            }
            Command::Emit { rows, values } => self.scan_emit(cx, scan, rows, values),
            Command::As { ty, object } => self.scan_cast(scan, Cast::As, ty, object),
            Command::Is { ty, object } => self.scan_cast(scan, Cast::Is, ty, object),
            Command::Do { test } | Command::Then { test } => {
                scan.content.push(head(code, 1, 0, false));
                self.scan_ref(scan, test, 0);
            }
            Command::While
            | Command::EndWhile
            | Command::If
            | Command::Else
            | Command::EndIf
            | Command::Foreach
            | Command::EndForeach
            | Command::Break
            | Command::Continue
            | Command::Except
            | Command::EndExcept
            | Command::EndProcedure => scan.content.push(head(code, 0, 0, false)),
            Command::When { name, values } => self.scan_handler(scan, name, values),
            Command::Others { named } => {
                scan.content.push(head(code, usize::from(named), 0, false));
                scan.numbers += u32::from(named);
            }
            Command::Procedure { name: _, params, result } => self.scan_definition(scan, params, result),
            Command::Return(value) => {
                scan.content.push(head(code, usize::from(value.is_some()), 0, false));
                if let Some(arg) = value {
                    self.scan_arg(cx, scan, arg, 0, scan.own_result);
                }
            }
            Command::Free { handles, unanswered } => {
                scan.frees.extend(handles.iter().map(|handle| Freed { handle, unanswered }));
            }
            // These are refused.
            Command::Hello(_)
            | Command::Lookup { .. }
            | Command::Module { .. }
            | Command::Run(_)
            | Command::Rows { .. }
            | Command::Get { .. }
            | Command::Describe
            | Command::History
            | Command::ClearHistory
            | Command::Profile { .. }
            | Command::Transaction { .. }
            | Command::Commit
            | Command::Abort
            | Command::Wait { .. }
            | Command::Flush { .. }
            | Command::Bye => {}
        }
    }

    /// Adds the futures of a method's call.
    fn scan_method(&self, scan: &mut Scan, method: MethodNumber) {
        match self.tables.method(method) {
            Some(row) => {
                match row.names.as_ref().map_or(Way::Free, |names| self.policy.way(names)) {
                    Way::Free => {}
                    Way::Granted => scan.content.push(GRANTED),
                    Way::Refused(kind) => scan.fail(kind),
                }
                scan.numbers += row.call.numbers;
            }
            None => {
                scan.refuse(ErrorNumber::NoSuchMethod, format!("there is no method number {}", method.0));
                scan.numbers += 1;
            }
        }
    }

    /// Adds the future of a message, whose method must be an actor's.
    fn scan_message(&self, scan: &mut Scan, method: MethodNumber) {
        scan.numbers += 1;
        let row = self.tables.method(method);
        if !row.is_some_and(|row| matches!(row.dispatch, Dispatch::Actor(_))) {
            let text = format!("method number {} is not a method of an actor", method.0);
            scan.refuse(ErrorNumber::NoSuchMethod, text);
        }
    }

    /// Adds the futures of a routine's call.
    fn scan_routine(&self, scan: &mut Scan, routine: RoutineNumber, row: Option<&RoutineRow>) {
        match row {
            Some(row) => scan.numbers += row.call.numbers,
            None => {
                scan.refuse(ErrorNumber::NoSuchRoutine, format!("there is no routine number {}", routine.0));
                scan.numbers += 1;
            }
        }
    }

    /// Adds a row: the columns of its table come from outside.
    fn scan_emit(&self, cx: &mut Cx, scan: &mut Scan, rows: Ref, values: Args<'_>) {
        scan.content.push(head(op::EMIT, values.len(), 0, false));
        let is_inner = rows.position().is_some_and(|at| (scan.base + 1..scan.next()).contains(&at));
        match if is_inner { Err(no_table()) } else { self.row_table(rows) } {
            Ok(table) => {
                let columns = &self.batch.row_tables[table].columns;
                for column in columns {
                    scan.content.push(Word::from(column.ty.as_u32()));
                    scan.param(column.array, column.append.ty);
                }
                scan.emits.push(columns.clone());
                self.scan_args(cx, scan, values, Some(self.batch.row_tables[table].types()));
                if columns.len() != values.len() {
                    scan.fail(wrong_count(columns.len(), values.len()));
                }
            }
            Err(kind) => scan.fail(kind),
        }
        scan.numbers += 1;
    }

    /// Adds `as` or `is`.
    fn scan_cast(&self, scan: &mut Scan, cast: Cast, ty: TypeNumber, object: Ref) {
        let code = if cast == Cast::As { op::AS } else { op::IS };
        scan.content.push(head(code, 1, ty.0, false));
        if let Err(kind) = cast_row(self.tables, cast, ty) {
            scan.fail(kind);
        }
        self.scan_ref(scan, object, 0);
        scan.numbers += 1;
    }

    /// Adds the head of a handler, and the futures of its values.
    fn scan_handler(&self, scan: &mut Scan, name: &str, values: TypeNumbers<'_>) {
        // A name that no heading has can never be signalled: such a handler is a mistake.
        let signal = self.tables.engine().program().types.find_signal(name);
        if signal.is_none() {
            let text = format!("no method or routine signals the exception `{name}`");
            scan.refuse(ErrorNumber::NoSuchName, text);
        }
        let signal = signal.unwrap_or(SignalId::FAILURE);
        scan.content.push(head(op::WHEN, values.len(), signal.as_u32(), false));
        self.scan_types(scan, values.iter());
        scan.numbers += values.len() as u32;
    }

    /// Adds the head of a procedure, and the futures of its parameters.
    fn scan_definition(&self, scan: &mut Scan, params: TypeNumbers<'_>, result: Option<TypeNumber>) {
        let result_number = result.map_or(u32::MAX, |t| t.0);
        scan.content.push(head(op::PROCEDURE, params.len(), result_number, false));
        self.scan_types(scan, params.iter().chain(result));
        scan.own = params.iter().filter_map(|number| self.tables.ty(number)).collect();
        scan.own_result = result.and_then(|number| self.tables.ty(number));
        let procedures_max = self.limits.size(Limit::Procedures);
        if self.procedures.len() >= procedures_max {
            let name = Limit::Procedures.name();
            let text = format!("the session has {procedures_max} procedures; this is the limit ({name})");
            scan.refuse(ErrorNumber::NoSuchProcedure, text);
        }
        scan.numbers += params.len() as u32;
    }

    fn scan_types(&self, scan: &mut Scan, types: impl Iterator<Item = TypeNumber>) {
        for ty in types {
            scan.content.push(Word::from(ty.0));
            if let Err(kind) = self.expected_type(ty) {
                scan.fail(kind);
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
            Err(kind) => scan.fail(kind),
        }
    }

    /// Adds arguments; `params` are the types of the heading, if there is one.
    fn scan_args(&self, cx: &mut Cx, scan: &mut Scan, args: Args<'_>, params: Option<&[TypeId]>) {
        for (i, arg) in args.iter().enumerate() {
            let wanted = params.and_then(|params| params.get(i)).copied();
            self.scan_arg(cx, scan, arg, i as u32 + 1, wanted);
        }
    }

    #[inline]
    fn scan_arg(&self, cx: &mut Cx, scan: &mut Scan, arg: Arg<'_>, argument: u32, wanted: Option<TypeId>) {
        match arg {
            Arg::Ref(r) => self.scan_ref(scan, r, argument),
            Arg::Value(v) => self.scan_value(cx, scan, v, argument, wanted),
        }
    }

    /// Adds a value, which comes from outside. A compound with results of the structure is made
    /// inside.
    fn scan_value(
        &self,
        cx: &mut Cx,
        scan: &mut Scan,
        value: Value<'_>,
        argument: u32,
        wanted: Option<TypeId>,
    ) {
        if let Value::Compound(compound) = value
            && is_inner(compound, scan.base)
        {
            return self.scan_compound(cx, scan, compound, argument, wanted);
        }
        match self.value(cx, value, argument, wanted.unwrap_or(Types::ANY)) {
            Ok((word, ty)) => scan.param(word, ty),
            Err(kind) => scan.fail(kind),
        }
    }

    /// Adds a compound that is made inside: its items are operands.
    #[cold]
    fn scan_compound(
        &self,
        cx: &mut Cx,
        scan: &mut Scan,
        compound: Compound<'_>,
        argument: u32,
        wanted: Option<TypeId>,
    ) {
        let shape = match Shape::of(self.tables, compound, wanted.unwrap_or(Types::ANY)) {
            Ok(shape) => shape,
            Err(kind) => return scan.fail(kind),
        };
        scan.content.push(COMPOUND | Word::from(shape.ty().as_u32()));
        scan.content.push(compound.len() as Word);
        if let Shape::Fields(_, class, _) = shape {
            scan.content.push(Word::from(class.as_u32()));
        }
        for (at, item) in shape.items(compound).enumerate() {
            self.scan_arg(cx, scan, item, argument, Some(shape.part(at)));
        }
    }

    /// Adds the call of a procedure.
    fn scan_procedure(&self, scan: &mut Scan, number: ProcedureNumber, args: usize) {
        if scan.procedure && number.index() == self.procedures.len() {
            scan.content.push(head(op::CALL_PROCEDURE, args, u32::MAX, false));
            return;
        }
        let procedure = match self.procedure(number) {
            Ok(procedure) => procedure,
            Err(kind) => return scan.fail(kind),
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
}
