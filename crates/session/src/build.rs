//! The second reading of a structure: from its commands to the IR.
//!
//! Read [`func`] first. It decodes the commands again, and a `Builder` makes a function of them,
//! which the verifier checks before it runs. Nothing is looked up here: [`Scan`] has found no
//! fault, and has resolved the names.
//!
//! - The parameters are the values from outside, in the order in which [`Scan`] met them. A
//!   procedure's own parameters come before.
//! - Sites are positions counted from the structure's start.
//! - A [`Level`] is an open structure: its end marker makes one statement of the statements inside.

use bifrost_ir::{
    Arm, ArmMatch, Block, Callee, Const, Func, FuncKind, Operand, Param, SignalSig, Signature, Site, Stmt,
    TypeId, Types, Var, VarDecl, builtin, requests,
};
use bifrost_wire::command::TypeNumbers;
use bifrost_wire::{
    Arg, Args, Command, Compound, Decoded, ErrorNumber, MethodNumber, ProcedureNumber, Ref, RoutineNumber,
    TypeNumber, Value, decode,
};
use cranelift_entity::PrimaryMap;
use smallvec::{SmallVec, smallvec};

use crate::casts::{Cast, cast_row, never};
use crate::compounds::Shape;
use crate::failures::{Failure, FailureKind};
use crate::policy::Policy;
use crate::scan::{Scan, is_inner};
use crate::tables::{Dispatch, MethodRow, Tables};

/// Builds the function of a structure in which [`Scan`] found no fault. `bytes` are its commands.
pub(crate) fn func(
    (tables, policy): (&Tables, &Policy),
    scan: &Scan,
    bytes: &[u8],
    frame: usize,
) -> Result<Func, Failure> {
    let mut builder = Builder {
        tables,
        policy,
        scan,
        vars: PrimaryMap::new(),
        futures: Vec::with_capacity(scan.numbers as usize),
        params: Vec::new(),
        next_param: 0,
        kind: FuncKind::Batch,
        name: "batch".to_owned(),
        results: Vec::new(),
        signals: Vec::new(),
        levels: Vec::new(),
        current: Vec::new(),
        foreach: None,
        emitted: 0,
    };
    let mut at = 0;
    while at < bytes.len() {
        match decode(&bytes[at..], frame) {
            Ok(Decoded::Command(command, used)) => {
                at += used;
                if at == used {
                    builder.parameters(&command)?;
                }
                builder.command(command)?;
            }
            _ => return Err(builder.internal("the structure's bytes changed")),
        }
    }
    builder.finish()
}

/// A structure that is open during building.
struct Level {
    open: Open,
    /// The statements before it, in the block around it.
    outer: Vec<Stmt>,
}

enum Open {
    WhileCond,
    WhileBody { cond: Block, test: Operand },
    IfCond,
    Then { cond: Vec<Stmt>, test: Operand },
    Else { cond: Vec<Stmt>, test: Operand, then: Block },
    Foreach { callee: Callee, args: SmallVec<[Operand; 3]>, vars: SmallVec<[Var; 1]>, site: Site },
    Except { body: Option<Block>, arms: Vec<Arm>, arm: Option<(ArmMatch, SmallVec<[Var; 1]>)> },
    Procedure,
}

struct Builder<'t> {
    tables: &'t Tables,
    policy: &'t Policy,
    scan: &'t Scan,
    vars: PrimaryMap<Var, VarDecl>,
    /// For each future made inside, its variable; none for calls without result.
    futures: Vec<Option<Var>>,
    params: Vec<Param>,
    next_param: usize,
    kind: FuncKind,
    name: String,
    results: Vec<TypeId>,
    /// The exceptions that the calls of a procedure may signal.
    signals: Vec<SignalSig>,
    levels: Vec<Level>,
    current: Vec<Stmt>,
    /// The statements before a FOREACH whose iterator has not come yet.
    foreach: Option<Vec<Stmt>>,
    /// Rows that were built.
    emitted: usize,
}

impl<'t> Builder<'t> {
    fn internal(&self, text: &str) -> Failure {
        Failure::of(self.scan.base + 1, FailureKind::refused(ErrorNumber::Internal, text))
    }

    /// Returns the site of the next call.
    fn site(&self) -> Site {
        Site(self.futures.len() as u32 + 1)
    }

    fn var(&mut self, name: String, ty: TypeId) -> Var {
        self.vars.push(VarDecl { name, ty })
    }

    /// Makes a variable for the next future.
    fn future(&mut self, ty: TypeId) -> Var {
        let position = self.scan.base + self.futures.len() as u32 + 1;
        let var = self.var(format!("-{position}"), ty);
        self.futures.push(Some(var));
        var
    }

    fn ty(&self, number: TypeNumber) -> Result<TypeId, Failure> {
        self.tables.ty(number).ok_or_else(|| self.internal("a type number that was checked is gone"))
    }

    /// Declares the parameters, which are the first variables: a procedure's own, then the values
    /// from outside.
    fn parameters(&mut self, first: &Command<'_>) -> Result<(), Failure> {
        let mut declared = Vec::new();
        if let Command::Procedure { name, params, result } = first {
            self.kind = FuncKind::Procedure;
            self.name = (*name).to_owned();
            if let Some(result) = result {
                self.results.push(self.ty(*result)?);
            }
            for number in params.iter() {
                declared.push(self.ty(number)?);
            }
        }
        for (i, ty) in declared.iter().enumerate() {
            self.params.push(Param { name: format!("p{}", i + 1), ty: *ty });
            let var = self.future(*ty);
            debug_assert_eq!(var.as_u32() as usize, i);
        }
        for (i, (_, ty)) in self.scan.params.iter().enumerate() {
            self.params.push(Param { name: format!("c{}", i + 1), ty: *ty });
            self.var(format!("c{}", i + 1), *ty);
        }
        self.next_param = declared.len();
        Ok(())
    }

    /// Returns the next value from outside.
    fn outside(&mut self) -> Operand {
        self.next_param += 1;
        Operand::Var(Var::from_u32(self.next_param as u32 - 1))
    }

    fn reference(&mut self, reference: Ref) -> Result<Operand, Failure> {
        let Some(position) = reference.position().filter(|p| *p > self.scan.base) else {
            return Ok(self.outside());
        };
        let index = (position - self.scan.base) as usize - 1;
        match self.futures.get(index) {
            Some(Some(var)) => Ok(Operand::Var(*var)),
            _ => {
                let call = self.scan.base + self.site().0;
                let text = format!("the call -{position} has no result");
                Err(Failure::of(call, FailureKind::refused(ErrorNumber::BadFuture, text)))
            }
        }
    }

    /// Returns an operand; `wanted` is the type of a compound that does not say its own.
    fn operand(&mut self, arg: Arg<'_>, wanted: Option<TypeId>) -> Result<Operand, Failure> {
        match arg {
            Arg::Ref(r) => self.reference(r),
            Arg::Value(Value::Compound(compound)) if is_inner(compound, self.scan.base) => {
                self.compound(compound, wanted)
            }
            Arg::Value(_) => Ok(self.outside()),
        }
    }

    /// Builds the making of a compound's object.
    fn compound(&mut self, compound: Compound<'_>, wanted: Option<TypeId>) -> Result<Operand, Failure> {
        let Ok(shape) = Shape::of(self.tables, compound, wanted.unwrap_or(Types::ANY)) else {
            return Err(self.internal("a compound that was checked is gone"));
        };
        let mut operands = Vec::new();
        for (at, item) in shape.items(compound).enumerate() {
            let operand = self.operand(item, Some(shape.part(at)))?;
            self.expect(operand, shape.part(at), &|| format!("item {}", at + 1))?;
            operands.push(operand);
        }
        let (site, dst) = (self.site(), self.var(String::new(), shape.ty()));
        self.current.push(match shape {
            Shape::Elements(..) => Stmt::NewSequence { dst, elements: operands, site },
            Shape::Fields(_, class, _) => Stmt::New { dst, class, fields: operands, site },
        });
        Ok(Operand::Var(dst))
    }

    /// Refuses an operand whose static type is another one.
    fn expect(&self, operand: Operand, wanted: TypeId, place: &dyn Fn() -> String) -> Result<(), Failure> {
        let found = self.type_of(operand);
        if self.tables.engine().program().types.is_subtype(found, wanted) {
            return Ok(());
        }
        let (wanted, found) = (self.tables.type_name(wanted), self.tables.type_name(found));
        let text = format!("{}: expected `{wanted}`, found `{found}`", place());
        let call = self.scan.base + self.site().0;
        Err(Failure::of(call, FailureKind::refused(ErrorNumber::WrongType, text)))
    }

    /// Adds operands; `params` are the types of the heading.
    fn operands(
        &mut self,
        args: Args<'_>,
        params: &[TypeId],
        into: &mut SmallVec<[Operand; 3]>,
    ) -> Result<(), Failure> {
        for (at, arg) in args.iter().enumerate() {
            into.push(self.operand(arg, params.get(at).copied())?);
        }
        Ok(())
    }

    /// Builds a call, or the iterator of a FOREACH.
    fn call(
        &mut self,
        callee: Callee,
        args: SmallVec<[Operand; 3]>,
        results: &[TypeId],
    ) -> Result<(), Failure> {
        let site = self.site();
        let vars: SmallVec<[Var; 1]> = results.iter().map(|ty| self.future(*ty)).collect();
        if results.is_empty() {
            self.futures.push(None);
        }
        if let Some(mut outer) = self.foreach.take() {
            // Compounds among the arguments are made once, before the loop.
            outer.append(&mut self.current);
            self.levels.push(Level { open: Open::Foreach { callee, args, vars, site }, outer });
            return Ok(());
        }
        self.current.push(Stmt::Call { callee, args, dsts: vars, site });
        Ok(())
    }

    /// Builds a request to an actor, whose answer is awaited where it is needed.
    fn request(&mut self, row: &MethodRow, args: SmallVec<[Operand; 3]>) {
        let site = self.site();
        let dst = match row.call.results.first() {
            Some(ty) => self.future(*ty),
            None => {
                self.futures.push(None);
                self.var(String::new(), Types::NULL)
            }
        };
        self.current.push(Stmt::Request { method: row.method, args, dst, element: None, site });
    }

    /// Notes the exceptions that a call inside a procedure may signal, so that the procedure's
    /// heading covers them.
    fn may_signal(&mut self, signature: &Signature) -> Result<(), Failure> {
        if self.kind != FuncKind::Procedure {
            return Ok(());
        }
        for signal in &signature.signals {
            match self.signals.iter().find(|s| s.name == signal.name) {
                None => self.signals.push(signal.clone()),
                Some(same) if same.values == signal.values => {}
                Some(_) => {
                    let name = self.tables.engine().program().types.signal_name(signal.name);
                    let text =
                        format!("two calls of the procedure signal `{name}` with values of other types");
                    let call = self.scan.base + self.site().0;
                    return Err(Failure::of(call, FailureKind::refused(ErrorNumber::WrongType, text)));
                }
            }
        }
        Ok(())
    }

    fn procedure_call(&mut self, number: ProcedureNumber, args: Args<'_>) -> Result<(), Failure> {
        let scan = self.scan;
        let called = scan.procedure_at(number);
        let own = || self.params[..self.params.len() - scan.params.len()].iter().map(|p| p.ty).collect();
        let params: Vec<TypeId> = called.map_or_else(own, |(_, procedure)| procedure.params.to_vec());
        let mut operands = SmallVec::new();
        self.operands(args, &params, &mut operands)?;
        // The scan has put the procedures that it met in order; this call's is found by its number
        // there.
        let (callee, result) = match called {
            Some((index, procedure)) => {
                for _ in &procedure.captured {
                    let captured = self.outside();
                    operands.push(captured);
                }
                let signature = procedure.batch.func.signature.clone();
                self.may_signal(&signature)?;
                (Callee::Procedure(index), procedure.result)
            }
            None => {
                // The values that the procedure uses from outside are passed on to itself.
                let first = self.params.len() - self.scan.params.len();
                operands.extend((first..self.params.len()).map(|i| Operand::Var(Var::from_u32(i as u32))));
                (Callee::Itself, self.results.first().copied())
            }
        };
        self.call(callee, operands, result.as_slice())
    }

    fn open(&mut self, open: Open) {
        let outer = std::mem::take(&mut self.current);
        self.levels.push(Level { open, outer });
    }

    fn block(&mut self) -> Block {
        Block(std::mem::take(&mut self.current))
    }

    fn level(&mut self) -> Result<Level, Failure> {
        self.levels.pop().ok_or_else(|| self.internal("an end without a beginning"))
    }

    fn command(&mut self, command: Command<'_>) -> Result<(), Failure> {
        match command {
            Command::Call { method, receiver, args } => self.method_call(method, receiver, args)?,
            Command::Send { method, receiver, args } => self.message(method, receiver, args)?,
            Command::CallRoutine { routine, args } => self.routine_call(routine, args)?,
            Command::CallProcedure { procedure, args } => self.procedure_call(procedure, args)?,
            Command::Constant(value) => {
                let src = self.operand(Arg::Value(value), None)?;
                let ty = self.type_of(src);
                let dst = self.future(ty);
                self.current.push(Stmt::Let { dst, src });
            }
            Command::Cell { element } => self.cell(element)?,
            Command::Emit { values, .. } => self.emit(values)?,
            Command::As { ty, object } => self.cast(Cast::As, ty, object)?,
            Command::Is { ty, object } => self.cast(Cast::Is, ty, object)?,
            Command::While => self.open(Open::WhileCond),
            Command::Do { test } => {
                let test = self.reference(test)?;
                let cond = self.block();
                if let Some(level) = self.levels.last_mut() {
                    level.open = Open::WhileBody { cond, test };
                }
            }
            Command::If => self.open(Open::IfCond),
            Command::Then { test } => {
                let test = self.reference(test)?;
                let cond = std::mem::take(&mut self.current);
                if let Some(level) = self.levels.last_mut() {
                    level.open = Open::Then { cond, test };
                }
            }
            Command::Else => {
                let then = self.block();
                let mut level = self.level()?;
                if let Open::Then { cond, test } = level.open {
                    level.open = Open::Else { cond, test, then };
                }
                self.levels.push(level);
            }
            Command::Foreach => self.foreach = Some(std::mem::take(&mut self.current)),
            Command::Except => self.open(Open::Except { body: None, arms: Vec::new(), arm: None }),
            Command::When { name, values } => self.handler(name, values)?,
            Command::Others { named } => {
                self.next_arm()?;
                let vars = if named { smallvec![self.future(Types::STRING)] } else { SmallVec::new() };
                self.set_arm(ArmMatch::Others, vars);
            }
            Command::EndWhile | Command::EndIf | Command::EndForeach | Command::EndExcept => self.end()?,
            Command::Break => self.current.push(Stmt::Break),
            Command::Continue => self.current.push(Stmt::Continue),
            Command::Procedure { .. } => self.open(Open::Procedure),
            Command::Return(value) => {
                let values = match value {
                    Some(arg) => smallvec![self.operand(arg, self.results.first().copied())?],
                    None => SmallVec::new(),
                };
                self.current.push(Stmt::Return(values));
            }
            Command::EndProcedure => {
                self.level()?;
            }
            Command::Free { .. } => {}
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
            | Command::Bye => return Err(self.internal("a command that does not belong into a structure")),
        }
        Ok(())
    }

    fn method_row(&self, method: MethodNumber) -> Result<&'t MethodRow, Failure> {
        let row = self.tables.method(method);
        row.ok_or_else(|| self.internal("a method number that was checked is gone"))
    }

    /// Returns the operands of a call: the receiver, then the arguments.
    fn receiver_and(
        &mut self,
        receiver: Ref,
        row: &MethodRow,
        args: Args<'_>,
    ) -> Result<SmallVec<[Operand; 3]>, Failure> {
        let mut operands: SmallVec<[Operand; 3]> = smallvec![self.reference(receiver)?];
        self.operands(args, &row.call.params, &mut operands)?;
        Ok(operands)
    }

    fn method_call(&mut self, method: MethodNumber, receiver: Ref, args: Args<'_>) -> Result<(), Failure> {
        let row = self.method_row(method)?;
        let operands = self.receiver_and(receiver, row, args)?;
        self.may_signal(&self.tables.engine().program().types.method(row.method).signature)?;
        match row.dispatch {
            Dispatch::Actor(_) => self.request(row, operands),
            Dispatch::Table(_) | Dispatch::Native(_) | Dispatch::Op(_) => {
                // The scan has refused calls that have no way.
                let callee = match row.names.as_ref().filter(|_| self.policy.has_bounds()) {
                    Some(names) => Callee::Routine(names.granted.routine),
                    None => Callee::Method(row.method),
                };
                self.call(callee, operands, &row.call.results)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, method: MethodNumber, receiver: Ref, args: Args<'_>) -> Result<(), Failure> {
        let row = self.method_row(method)?;
        let args = self.receiver_and(receiver, row, args)?;
        self.current.push(Stmt::Send { method: row.method, args, site: self.site() });
        self.futures.push(None);
        Ok(())
    }

    fn routine_call(&mut self, routine: RoutineNumber, args: Args<'_>) -> Result<(), Failure> {
        let row = self.policy.routine(routine).and_then(|number| self.tables.routine(number));
        let Some(row) = row else {
            return Err(self.internal("a routine number that was checked is gone"));
        };
        let mut operands = SmallVec::new();
        self.operands(args, &row.call.params, &mut operands)?;
        self.may_signal(&self.tables.engine().program().routines[row.routine].signature)?;
        self.call(Callee::Routine(row.routine), operands, &row.call.results)
    }

    /// Builds the call of the routine that makes a cell.
    fn cell(&mut self, element: TypeNumber) -> Result<(), Failure> {
        let element = self.ty(element)?;
        let program = self.tables.engine().program();
        let name = format!("cell_new[{}]", program.types.name(element));
        let routine = program.find_routine(&name).filter(|r| {
            program.native_name(program.routines[*r].body) == Some(builtin::CELL_NEW)
                && program.routines[*r].type_args == [element]
        });
        let Some(routine) = routine else { return Err(self.internal("no creator of cells")) };
        let ty = program.routines[routine].signature.results[0];
        self.call(Callee::Routine(routine), SmallVec::new(), &[ty])
    }

    /// Returns the static type of an operand.
    fn type_of(&self, operand: Operand) -> TypeId {
        match operand {
            Operand::Var(v) => self.vars[v].ty,
            Operand::Const(_) => Types::ANY,
        }
    }

    /// Builds a row: a call of `append` for each column.
    fn emit(&mut self, values: Args<'_>) -> Result<(), Failure> {
        let scan = self.scan;
        let Some(columns) = scan.emits.get(self.emitted) else {
            return Err(self.internal("a row that was checked is gone"));
        };
        self.emitted += 1;
        let arrays: Vec<Operand> = columns.iter().map(|_| self.outside()).collect();
        let mut operands = SmallVec::new();
        let types: Vec<TypeId> = columns.iter().map(|column| column.ty).collect();
        self.operands(values, &types, &mut operands)?;
        for (at, (column, value)) in columns.iter().zip(&operands).enumerate() {
            // The array may be one of `any`.
            self.expect(*value, column.ty, &|| format!("column {}", at + 1))?;
        }
        let site = self.site();
        for ((column, array), value) in columns.iter().zip(arrays).zip(operands) {
            let args = smallvec![array, value];
            self.current.push(Stmt::Call {
                callee: Callee::Method(column.append),
                args,
                dsts: SmallVec::new(),
                site,
            });
        }
        self.futures.push(None);
        Ok(())
    }

    /// Builds `as` or `is`.
    fn cast(&mut self, cast: Cast, number: TypeNumber, object: Ref) -> Result<(), Failure> {
        let object = self.reference(object)?;
        let (found, ty) = (self.type_of(object), self.ty(number)?);
        if self.tables.is_basic(found) {
            // The one type of a value is known.
            let (result, src) = match cast {
                Cast::Is => (Types::BOOL, Operand::Const(Const::Bool(found == ty))),
                Cast::As if found == ty => (ty, object),
                Cast::As => {
                    let call = self.scan.base + self.site().0;
                    return Err(Failure::of(call, never(self.tables, found, ty)));
                }
            };
            let dst = self.future(result);
            self.current.push(Stmt::Let { dst, src });
            return Ok(());
        }
        let tables = self.tables;
        let Ok(row) = cast_row(tables, cast, number) else {
            return Err(self.internal("a type that was checked is gone"));
        };
        self.may_signal(&tables.engine().program().routines[row.routine].signature)?;
        self.call(Callee::Routine(row.routine), smallvec![object], &row.call.results)
    }

    /// Begins the handler of an exception.
    fn handler(&mut self, name: &str, values: TypeNumbers<'_>) -> Result<(), Failure> {
        let Some(signal) = self.tables.engine().program().types.find_signal(name) else {
            return Err(self.internal("an exception that was checked is gone"));
        };
        let mut vars = SmallVec::new();
        self.next_arm()?;
        for number in values.iter() {
            let ty = self.ty(number)?;
            vars.push(self.future(ty));
        }
        self.set_arm(ArmMatch::Named(smallvec![signal]), vars);
        Ok(())
    }

    /// Ends the covered block or the handler before.
    fn next_arm(&mut self) -> Result<(), Failure> {
        let block = self.block();
        match self.levels.last_mut() {
            Some(Level { open: Open::Except { body, arms, arm }, .. }) => {
                match arm.take() {
                    Some((takes, vars)) => arms.push(Arm { takes, vars, body: block }),
                    None => *body = Some(block),
                }
                Ok(())
            }
            _ => Err(self.internal("a handler outside an EXCEPT")),
        }
    }

    fn set_arm(&mut self, takes: ArmMatch, vars: SmallVec<[Var; 1]>) {
        if let Some(Level { open: Open::Except { arm, .. }, .. }) = self.levels.last_mut() {
            *arm = Some((takes, vars));
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        if matches!(self.levels.last(), Some(Level { open: Open::Except { .. }, .. })) {
            self.next_arm()?;
        }
        let block = self.block();
        let Level { open, outer } = self.level()?;
        self.current = outer;
        match open {
            Open::WhileBody { cond, test } => self.current.push(Stmt::While { cond, test, body: block }),
            Open::Then { cond, test } => {
                self.current.extend(cond);
                self.current.push(Stmt::If { test, then: block, otherwise: Block::default() });
            }
            Open::Else { cond, test, then } => {
                self.current.extend(cond);
                self.current.push(Stmt::If { test, then, otherwise: block });
            }
            Open::Foreach { callee, args, vars, site } => {
                self.current.push(Stmt::ForEach { callee, args, vars, body: block, site });
            }
            Open::Except { body, arms, .. } => {
                let mut body = body.unwrap_or_default();
                // A request and its handlers stay together.
                let vars = requests::asked_in(&body.0);
                if !vars.is_empty() {
                    let site = self.site();
                    body.0.push(Stmt::Await { vars, site });
                }
                self.current.push(Stmt::Except { body, arms });
            }
            Open::WhileCond | Open::IfCond | Open::Procedure => {
                return Err(self.internal("an end in the wrong place"));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Func, Failure> {
        if !self.levels.is_empty() {
            return Err(self.internal("a structure is still open"));
        }
        let program = self.tables.engine().program();
        let mut func = Func {
            name: self.name,
            kind: self.kind,
            signature: Signature {
                params: self.params,
                results: self.results,
                yields: None,
                signals: self.signals,
            },
            vars: self.vars,
            body: Block(self.current),
            procedures: self.scan.procedures.iter().map(|p| p.batch.func.clone()).collect(),
            written: Default::default(),
        };
        if func.body.has_request() {
            requests::place_waits(program, &mut func);
        }
        Ok(func)
    }
}
