//! Translates a function of the IR to functions of Cranelift.
//!
//! A function becomes one function of the code generator. The body of each transaction becomes one
//! more, and so does that of each loop over an iterator that is not known
//! ([`InlineLoop`](crate::analysis::InlineLoop)). Such a body is entered by the iterator as a
//! closure. The variables that it shares with the function around it live in one *environment*: a
//! piece of that function's stack frame, whose address the closure carries. A body inside a body
//! has the same environment. All other variables are values.
//!
//! A body that ends its loop stores a reason in the environment and returns `Left`. The iterator
//! unwinds, and behind its call the reason says where to go on ([`call`]).
//!
//! Words are `i64`; variables of type `real` are `f64`, so that loops over them do not move between
//! register files.

pub(crate) mod builtin;
pub(crate) mod call;
pub(crate) mod control;
pub(crate) mod inline;
pub(crate) mod known;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod op;
pub(crate) mod strings;

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use bifrost_ir::loops::Loop;
use bifrost_ir::{
    Arm, Block, ClassId, Const, Func, FuncId, FuncKind, Operand, Site, Stmt, TypeId, TypeKind, Var,
};
use bifrost_runtime::image::{Image, arity};
use bifrost_runtime::structure::environment;
use bifrost_runtime::{Code, Form};
use cranelift_codegen::ir::{
    self, AbiParam, ExtFuncData, ExternalName, InstBuilder, MemFlagsData, SigRef, StackSlot, StackSlotData,
    StackSlotKind, Type, UserExternalName, UserFuncName, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};

use self::known::View;
use crate::actors::waits::Waiting;
use crate::analysis::Analysis;
use crate::effects::Effects;
use crate::helper::Entries;
use crate::order;
use crate::safepoint::{self, Roots};
use call::Context;
use control::Target;
use known::Known;
use memory::Region;

/// The signature of functions with so many words after the context.
pub(crate) fn signature(arity: usize, call_conv: CallConv) -> ir::Signature {
    let mut signature = ir::Signature::new(call_conv);
    signature.params.extend(std::iter::repeat_n(AbiParam::new(types::I64), 1 + arity));
    signature.returns.extend([AbiParam::new(types::I64); 2]);
    signature
}

/// The signature of the entry of [`Helper::Attend`](crate::helper::Helper::Attend).
pub(crate) fn attend_signature() -> ir::Signature {
    let mut signature = ir::Signature::new(CallConv::PreserveAll);
    signature.params.push(AbiParam::new(types::I64));
    signature
}

/// The code to compile.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) image: &'a Image,
    pub(crate) func: &'a Func,
    /// `None` for a structure.
    pub(crate) id: Option<FuncId>,
    /// The code of the procedures that a structure calls.
    pub(crate) procedures: &'a [Code],
    /// The code of a procedure that calls itself, if it is there already.
    pub(crate) itself: Option<Code>,
    /// The loop of a structure that is the code, in place of the whole.
    pub(crate) part: Option<Loop<'a>>,
    /// The way in by which the code goes on with a join, instead of at its beginning.
    pub(crate) again: Option<&'a Stmt>,
    /// The messages that it is the entry of.
    pub(crate) entry: Option<Entry>,
}

impl<'a> Source<'a> {
    /// A whole function that is entered at its beginning.
    pub(crate) fn new(image: &'a Image, func: &'a Func, id: Option<FuncId>) -> Source<'a> {
        Source { image, func, id, procedures: &[], itself: None, part: None, again: None, entry: None }
    }
}

/// Of a method that leaves an actor at rest: the arguments with which its code is entered as the
/// entry of the actor's table.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Messages of this form.
    pub(crate) form: Form,
    /// For the method of this slot.
    pub(crate) slot: u32,
    /// The block for those that may not be calls.
    pub(crate) slow: Code,
}

/// The parts that are the same for a function and its closures' bodies.
pub(crate) struct Unit<'a> {
    pub(crate) image: &'a Image,
    pub(crate) func: &'a Func,
    pub(crate) id: Option<FuncId>,
    pub(crate) procedures: &'a [Code],
    pub(crate) itself: Option<Code>,
    pub(crate) again: Option<&'a Stmt>,
    pub(crate) entry: Option<Entry>,
    /// The number of loops of a structure around the statement under way.
    pub(crate) loops: usize,
    pub(crate) analysis: Rc<Analysis>,
    pub(crate) config: TargetFrontendConfig,
    pub(crate) helpers: &'a Entries,
    /// The names of the function and of its closures' bodies, in the order in which their loops
    /// begin.
    pub(crate) names: Vec<u32>,
    /// The number of bodies that have a name so far.
    pub(crate) next_body: usize,
    /// The handlers around the bodies that are being lowered, innermost last.
    pub(crate) outer: Vec<&'a [Arm]>,
    /// The functions that are finished, with their names.
    pub(crate) done: Vec<(u32, ir::Function)>,
    /// The analyses of functions that were considered to be compiled in place; `None` for those
    /// that cannot be.
    pub(crate) known: HashMap<FuncId, Option<Rc<Analysis>>>,
    /// The number of statements that may still be compiled in place.
    pub(crate) budget: usize,
    pub(crate) effects: Effects,
    /// True if the statement under way is part of a transaction.
    pub(crate) in_transaction: bool,
}

impl Unit<'_> {
    /// True if words of a type are references.
    pub(crate) fn is_reference(&self, ty: TypeId) -> bool {
        !self.image.program().types.kind(ty).is_basic()
    }
}

/// The ways in which a body may leave its loop, or its transaction.
#[derive(Clone, Default, Debug)]
pub(crate) struct Exits {
    pub(crate) breaks: bool,
    pub(crate) continues: bool,
    pub(crate) returns: bool,
    pub(crate) signals: bool,
    pub(crate) raises: bool,
    pub(crate) passes: bool,
    pub(crate) arms: BTreeSet<u32>,
}

/// The place of the environment.
#[derive(Clone, Copy)]
pub(crate) enum Environment {
    /// In the function's own frame.
    Slot(StackSlot),
    /// The place that the closure says.
    Pointer(Value),
    /// There are no closures.
    None,
}

/// All functions that a function becomes, itself last, with their names.
pub(crate) fn lower<'a>(
    source: Source<'a>,
    analysis: Analysis,
    config: TargetFrontendConfig,
    helpers: &'a Entries,
    names: Vec<u32>,
) -> Vec<(u32, ir::Function)> {
    let name = names[0];
    let Source { image, func, id, procedures, itself, part, again, entry } = source;
    let statements = analysis.statements;
    let mut unit = Unit {
        image,
        func,
        id,
        procedures,
        itself,
        again,
        entry,
        loops: 0,
        analysis: Rc::new(analysis),
        config,
        helpers,
        names,
        next_body: 1,
        outer: Vec::new(),
        done: Vec::new(),
        known: HashMap::new(),
        budget: if id.is_some() { inline::BUDGET } else { inline::structure_budget(statements) },
        effects: Effects::default(),
        in_transaction: false,
    };
    let words = match func.kind {
        _ if again.is_some() => 2,
        _ if let Some(part) = part => 1 + part.vars().len(),
        FuncKind::Batch => 1,
        FuncKind::Procedure => func.signature.params.len(),
        _ => arity(&func.signature),
    };
    let mut code = ir::Function::with_name_signature(
        UserFuncName::user(0, name),
        signature(words, config.default_call_conv),
    );
    let mut context = FunctionBuilderContext::new();
    let end = if part.is_some() { End::Body } else { End::Function };
    let mut lower = Lower::new(&mut unit, FunctionBuilder::new(&mut code, &mut context), end);
    lower.begin_fuel();
    match part {
        Some(part) => lower.loop_under_way(part),
        None => {
            lower.enter_function();
            lower.block(&func.body);
        }
    }
    lower.end();
    let roots = std::mem::take(&mut lower.roots);
    lower.b.finalize(config);
    finish(&mut code, &roots);
    unit.done.push((name, code));
    unit.done
}

/// Runs the last passes over a function that is whole.
pub(crate) fn finish(code: &mut ir::Function, roots: &Roots) {
    safepoint::insert(code, roots);
    order::exits_first(code);
}

/// The ways in which the statements of a function end it.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// They are the code's own: by returning.
    Function,
    /// They are a loop's body: by leaving the loop.
    Body,
    /// They stand in place of a call: by going on behind it.
    Call {
        /// The block behind the call; its parameters are the results.
        done: ir::Block,
        /// True if a path leads there.
        reached: bool,
    },
}

/// A function whose statements are lowered: the one that the code is for, or one in place of its
/// call.
pub(crate) struct Scope<'a> {
    pub(crate) func: &'a Func,
    /// Its number; none of code that clients send.
    pub(crate) id: Option<FuncId>,
    /// The site of the statement under way.
    pub(crate) at: Site,
    pub(crate) analysis: Rc<Analysis>,
    pub(crate) end: End,
    pub(crate) vars: Vec<Option<Variable>>,
    /// The values of variables that the loops around here do not change.
    pub(crate) pins: Vec<Option<Value>>,
    /// The arrays that nobody else knows ([`private`](crate::private)).
    pub(crate) private: Vec<View>,
    pub(crate) loops: Vec<Target>,
    /// The innermost statement with handlers, or the function's end.
    pub(crate) context: usize,
    /// The class of the receiver, if it can be no other.
    pub(crate) class: Option<ClassId>,
    /// Of an iterator in place of its call: the variables and the body of the loop.
    pub(crate) each: Option<(&'a [Var], &'a Block)>,
    /// Of a function in place: the thing that it replaces.
    pub(crate) within: Within,
}

impl Scope<'_> {
    /// The site of the statement under way, if a failure has to note it.
    pub(crate) fn site(&self) -> Option<Site> {
        self.id.map(|_| self.at)
    }
}

/// The thing that a function replaces; a failure of the function is a failure of that thing.
#[derive(Clone, Copy)]
pub(crate) enum Within {
    /// Of its call, which fails as well.
    Call,
    /// Of the creation of an actor, which fails then.
    Creation(Value),
    /// Of a message; the block gets the outcome.
    Message(ir::Block),
}

/// One function under construction.
pub(crate) struct Lower<'u, 'a, 'b> {
    pub(crate) unit: &'u mut Unit<'a>,
    pub(crate) b: FunctionBuilder<'b>,
    /// The first block, whose parameters are the words passed.
    pub(crate) entry: ir::Block,
    pub(crate) cx: Value,
    pub(crate) environment: Environment,
    /// The function whose statements are lowered now.
    pub(crate) scope: Scope<'a>,
    /// The scopes that wait until that is done: the functions around one that stands in place of
    /// its call.
    pub(crate) waiting: Vec<Scope<'a>>,
    /// The functions that are being compiled in place, innermost last.
    pub(crate) active: Vec<FuncId>,
    /// All statements with handlers, and the ends of functions; a tree.
    pub(crate) contexts: Vec<Context<'a>>,
    /// True if a path leads here. Nothing is generated where none does.
    pub(crate) reachable: bool,
    /// The block for polls that end the function; gets the outcome.
    pub(crate) ended: Option<ir::Block>,
    pub(crate) signatures: HashMap<usize, SigRef>,
    /// Functions that are called by name.
    pub(crate) functions: HashMap<u32, ir::FuncRef>,
    pub(crate) exits: Exits,
    pub(crate) roots: Roots,
    pub(crate) known: Known,
    pub(crate) wait: Waiting,
    /// In a function of a structure: the fuel that is left ([`meter`]).
    pub(crate) fuel: Option<Variable>,
}

impl<'u, 'a, 'b> Lower<'u, 'a, 'b> {
    pub(crate) fn new(unit: &'u mut Unit<'a>, mut b: FunctionBuilder<'b>, end: End) -> Self {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        b.seal_block(entry);
        let cx = b.block_params(entry)[0];
        let scope = Scope {
            func: unit.func,
            id: unit.id,
            at: Site::default(),
            analysis: unit.analysis.clone(),
            end,
            vars: vec![None; unit.func.vars.len()],
            pins: vec![None; unit.func.vars.len()],
            private: Vec::new(),
            loops: Vec::new(),
            context: 0,
            class: None,
            each: None,
            within: Within::Call,
        };
        let active = unit.id.into_iter().collect();
        Lower {
            unit,
            b,
            entry,
            cx,
            environment: Environment::None,
            scope,
            waiting: Vec::new(),
            active,
            contexts: vec![Context::new_end(None)],
            reachable: true,
            ended: None,
            signatures: HashMap::new(),
            functions: HashMap::new(),
            exits: Exits::default(),
            roots: Roots::default(),
            known: Known::default(),
            wait: Waiting::default(),
            fuel: None,
        }
    }

    /// Takes over the arguments of a whole function.
    pub(crate) fn enter_function(&mut self) {
        let words = self.unit.analysis.environment_words;
        if words > 0 {
            let slot =
                self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, words * 8, 3));
            self.environment = Environment::Slot(slot);
            self.clear_references(slot);
        }
        match self.unit.entry {
            Some(entry) => self.enter_message(entry),
            None if self.unit.analysis.calls || self.unit.analysis.loops => self.poll_stack(),
            None => {}
        }
        self.begin_answer();
        let words = self.b.block_params(self.entry).to_vec();
        if let Some(again) = self.unit.again {
            return self.enter_again(again, words[1], words[2]);
        }
        // A method's receiver is its first variable; a routine's first word is its descriptor.
        let first = match self.unit.func.kind {
            FuncKind::Method | FuncKind::Script | FuncKind::Procedure => 1,
            FuncKind::Batch => return self.take_parameters(words[1]),
            _ => 2,
        };
        for (var, word) in self.unit.func.params().zip(&words[first..]) {
            self.write_word(var, *word);
        }
        if self.unit.func.signature.is_iterator() {
            let closure = *words.last().expect("an iterator has a closure");
            match self.environment {
                Environment::None => {}
                _ => self.store_environment(environment::CLOSURE, closure),
            }
        }
    }

    /// Takes the parameters of a batch from where they lie.
    pub(crate) fn take_parameters(&mut self, words: Value) {
        for (i, var) in self.unit.func.params().enumerate() {
            let word = self.b.ins().load(types::I64, MemFlagsData::trusted(), words, 8 * i as i32);
            self.write_word(var, word);
        }
    }

    /// Makes the words of the environment that hold references ones that a collection finds.
    pub(crate) fn clear_references(&mut self, slot: StackSlot) {
        let unit = &self.unit;
        let result = unit.func.signature.results.first().filter(|ty| unit.is_reference(**ty));
        let shared = unit.analysis.shared.iter().zip(unit.func.vars.values());
        let shared = shared.filter(|(_, decl)| unit.is_reference(decl.ty)).filter_map(|(word, _)| *word);
        let words: Vec<u32> = result.map(|_| environment::RESULT).into_iter().chain(shared).collect();
        let zero = self.int(0);
        for word in words {
            self.store_environment(word, zero);
            self.roots.words.push((slot, word * 8));
        }
    }

    /// Finishes all that is left open at the end of the function or body.
    pub(crate) fn end(&mut self) {
        if self.reachable {
            self.end_answered();
        }
        self.end_contexts();
        self.end_polls();
        self.b.seal_all_blocks();
    }

    pub(crate) fn block(&mut self, block: &'a Block) {
        for (at, stmt) in block.0.iter().enumerate() {
            let entered = self.is_entered_in(stmt);
            if !self.reachable {
                if !entered {
                    continue;
                }
                // Nothing comes here but where the code begins.
                let nowhere = self.cold_block();
                self.start(nowhere);
            }
            if entered {
                self.forget();
            }
            self.stmt(stmt, block.0.get(at + 1));
            if entered {
                // Facts that held here are not known where the code begins.
                self.forget();
            }
        }
    }

    /// A statement; `behind` is the next one of its block.
    pub(crate) fn stmt(&mut self, stmt: &'a Stmt, behind: Option<&Stmt>) {
        let around = std::mem::replace(&mut self.scope.at, stmt.site().unwrap_or_default());
        self.any_stmt(stmt, behind);
        self.scope.at = around;
    }

    fn any_stmt(&mut self, stmt: &'a Stmt, behind: Option<&Stmt>) {
        match stmt {
            Stmt::Let { dst, .. } if self.scope.analysis.for_requests.contains_key(dst) => {}
            Stmt::Let { dst, src } => {
                let value = self.operand(*src);
                self.write(*dst, value);
                if self.has_private(*dst) {
                    self.pin_one(*dst, value);
                }
            }
            Stmt::Call { callee, args, dsts, site } if self.is_metered() => self.at_site(*site, |this| {
                this.call_stmt(*callee, args, dsts);
                if this.reachable {
                    this.burn();
                }
            }),
            Stmt::Call { callee, args, dsts, .. } if self.is_own_method(*callee) => {
                self.self_call(stmt, *callee, args, dsts);
            }
            Stmt::Call { callee, args, dsts, .. } => self.call_stmt(*callee, args, dsts),
            Stmt::New { dst, class, .. } if self.unit.image.lasting(*class).is_some() => {
                let object = self.unit.image.lasting(*class).expect("asked above");
                let object = self.int(object as i64);
                self.write(*dst, object);
            }
            Stmt::New { dst, class, fields, .. } => {
                let ty = self.unit.image.program().classes[*class].ty;
                let values: Vec<Value> = fields.iter().map(|f| self.operand(*f)).collect();
                let regions: Vec<Region> =
                    (0..fields.len() as u32).map(|field| self.field_region(*class, field)).collect();
                let object = self.new_object(ty, &values, |field| regions[field]);
                self.is_changeable(object);
                self.write(*dst, object);
            }
            Stmt::NewSequence { dst, elements, .. } => {
                let ty = self.scope.func.vars[*dst].ty;
                let mut values = vec![self.int(elements.len() as i64)];
                for element in elements {
                    let value = self.operand(*element);
                    values.push(value);
                }
                let object = self.new_object(ty, &values, |_| Region::Constant);
                self.is_changeable(object);
                self.write(*dst, object);
            }
            Stmt::Get { dst, object, class, field } => {
                let ty = self.unit.image.program().classes[*class].fields[*field as usize].ty;
                let own = self.is_own(*object) || self.are_actors(*class);
                let object = self.operand(*object);
                if !own {
                    self.open(object);
                }
                let region = self.field_region(*class, *field);
                let value = self.load_field(self.value_type(ty), object, *field as usize, region);
                self.write(*dst, value);
            }
            Stmt::Set { object, class, field, value } => {
                let object = self.operand(*object);
                let value = self.operand(*value);
                if !self.are_actors(*class) {
                    self.open_to_change(object);
                }
                let region = self.field_region(*class, *field);
                self.store_field(object, *field as usize, value, region);
            }
            Stmt::If { test, then, otherwise } => self.if_stmt(*test, then, otherwise),
            Stmt::TypeIf { object, var, then, otherwise } => self.type_if(*object, *var, then, otherwise),
            Stmt::While { cond, test, body } if self.is_metered() => {
                self.metered_loop(|this| this.while_stmt(stmt, cond, *test, body));
            }
            Stmt::While { cond, test, body } => self.while_stmt(stmt, cond, *test, body),
            Stmt::ForEach { callee, args, vars, body, site } if self.is_metered() => {
                self.metered_foreach(*site, |this| this.for_each(stmt, *callee, args, vars, body));
            }
            Stmt::ForEach { callee, args, vars, body, .. } => self.for_each(stmt, *callee, args, vars, body),
            Stmt::Break => self.break_stmt(),
            Stmt::Continue => self.continue_stmt(),
            Stmt::Return(values) => self.return_stmt(values),
            Stmt::Yield(values) => self.yield_stmt(values),
            Stmt::Signal { signal, values, .. } => self.signal_stmt(*signal, values),
            Stmt::Exit { signal, values } => self.exit_stmt(*signal, values),
            Stmt::Except { body, arms } => self.except_stmt(body, arms),
            Stmt::Transaction { body, .. } => self.transaction_stmt(body),
            Stmt::Create { dst, class, creator, args, place, .. } => {
                self.create_stmt(*dst, *class, *creator, args, *place);
            }
            Stmt::Send { method, args, .. } => self.send_stmt(*method, args),
            Stmt::Request { method, args, dst, element, .. } => {
                self.request_stmt(*method, args, *dst, *element, behind);
            }
            Stmt::Await { vars, .. } => self.await_stmt(stmt, vars),
            Stmt::Reply { values, .. } => self.reply_stmt(stmt, values),
            Stmt::Deliver { replier, values, .. } => self.deliver_stmt(*replier, values),
            Stmt::Delegate { method, args, .. } => self.delegate_stmt(stmt, *method, args),
            Stmt::ReplyTo { dst, .. } => self.reply_to_stmt(stmt, *dst),
            Stmt::Select { .. } => self.leave_before(stmt),
        }
    }

    /// True if this is the receiver of the method being lowered: it was opened before the method
    /// began.
    pub(crate) fn is_own(&self, object: Operand) -> bool {
        self.scope.func.kind.has_receiver() && object == Operand::Var(Var::from_u32(0))
    }

    // Values and variables.

    pub(crate) fn int(&mut self, value: i64) -> Value {
        self.b.ins().iconst(types::I64, value)
    }

    pub(crate) fn address(&mut self, address: *const u8) -> Value {
        self.int(address as i64)
    }

    pub(crate) fn value_type(&self, ty: TypeId) -> Type {
        match self.unit.image.program().types.kind(ty) {
            TypeKind::Real => types::F64,
            _ => types::I64,
        }
    }

    pub(crate) fn var_type(&self, var: Var) -> Type {
        self.value_type(self.scope.func.vars[var].ty)
    }

    /// A value as it travels in calls.
    pub(crate) fn word(&mut self, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == types::F64 {
            return self.b.ins().bitcast(types::I64, MemFlagsData::new(), value);
        }
        value
    }

    /// A word as a value of a type.
    pub(crate) fn unword(&mut self, ty: Type, word: Value) -> Value {
        if ty == types::F64 && self.b.func.dfg.value_type(word) == types::I64 {
            return self.b.ins().bitcast(types::F64, MemFlagsData::new(), word);
        }
        word
    }

    pub(crate) fn operand(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::Var(var) => self.read(var),
            Operand::Const(c) => match c {
                Const::Nil => self.int(0),
                Const::Bool(b) => self.int(i64::from(b)),
                Const::Int(n) => self.int(n),
                Const::Real(bits) => self.b.ins().f64const(f64::from_bits(bits)),
                Const::Char(c) => self.int(i64::from(u32::from(c))),
                Const::Str(literal) => self.int(self.unit.image.literal(literal) as i64),
            },
        }
    }

    pub(crate) fn operand_word(&mut self, operand: Operand) -> Value {
        let value = self.operand(operand);
        self.word(value)
    }

    pub(crate) fn variable(&mut self, var: Var) -> Variable {
        let i = var.as_u32() as usize;
        if let Some(variable) = self.scope.vars[i] {
            return variable;
        }
        let ty = self.var_type(var);
        let variable = self.b.declare_var(ty);
        self.scope.vars[i] = Some(variable);
        variable
    }

    pub(crate) fn read(&mut self, var: Var) -> Value {
        if let Some(value) = self.scope.pins[var.as_u32() as usize] {
            return value;
        }
        let value = match self.scope.analysis.shared[var.as_u32() as usize] {
            Some(word) => {
                let ty = self.var_type(var);
                self.load_environment(ty, word)
            }
            None => {
                let variable = self.variable(var);
                self.b.use_var(variable)
            }
        };
        self.mark_as(var, value);
        value
    }

    /// Marks a value as a reference.
    pub(crate) fn mark(&mut self, value: Value) {
        self.roots.references.insert(value);
    }

    /// Marks the value of a variable as a reference if it is one.
    pub(crate) fn mark_as(&mut self, var: Var, value: Value) {
        if self.unit.is_reference(self.scope.func.vars[var].ty) {
            self.mark(value);
        }
    }

    pub(crate) fn write(&mut self, var: Var, value: Value) {
        self.mark_as(var, value);
        if let Some(word) = self.scope.analysis.shared[var.as_u32() as usize] {
            self.store_environment(word, value);
            return;
        }
        let variable = self.variable(var);
        self.b.def_var(variable, value);
    }

    pub(crate) fn write_word(&mut self, var: Var, word: Value) {
        let ty = self.var_type(var);
        let value = self.unword(ty, word);
        self.write(var, value);
    }

    pub(crate) fn load_environment(&mut self, ty: Type, word: u32) -> Value {
        let offset = word as i32 * 8;
        match self.environment {
            Environment::Slot(slot) => self.b.ins().stack_load(types::I64, ty, slot, offset),
            Environment::Pointer(p) => self.b.ins().load(ty, MemFlagsData::trusted(), p, offset),
            Environment::None => unreachable!("shared variables only with closures"),
        }
    }

    pub(crate) fn store_environment(&mut self, word: u32, value: Value) {
        let offset = word as i32 * 8;
        match self.environment {
            Environment::Slot(slot) => {
                self.b.ins().stack_store(types::I64, value, slot, offset);
            }
            Environment::Pointer(p) => {
                self.b.ins().store(MemFlagsData::trusted(), value, p, offset);
            }
            Environment::None => unreachable!("shared variables only with closures"),
        }
    }

    pub(crate) fn environment_address(&mut self) -> Value {
        match self.environment {
            Environment::Slot(slot) => self.b.ins().stack_addr(types::I64, slot, 0),
            Environment::Pointer(p) => p,
            Environment::None => unreachable!("closures have an environment"),
        }
    }

    // Blocks.

    pub(crate) fn cold_block(&mut self) -> ir::Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    /// Goes on in a block whose predecessors are all known.
    pub(crate) fn start(&mut self, block: ir::Block) {
        self.b.seal_block(block);
        self.b.switch_to_block(block);
        self.reachable = true;
    }

    pub(crate) fn signature_of(&mut self, arity: usize) -> SigRef {
        let call_conv = self.unit.config.default_call_conv;
        let b = &mut self.b;
        *self.signatures.entry(arity).or_insert_with(|| b.import_signature(signature(arity, call_conv)))
    }

    /// A function of this unit, by name.
    pub(crate) fn unit_function(&mut self, name: u32, arity: usize) -> ir::FuncRef {
        let signature = self.signature_of(arity);
        self.import(name, signature)
    }

    pub(crate) fn import(&mut self, name: u32, signature: SigRef) -> ir::FuncRef {
        if let Some(known) = self.functions.get(&name) {
            return *known;
        }
        let user = self.b.func.declare_imported_user_function(UserExternalName::new(0, name));
        // All code lies in one arena, so that near calls reach.
        let function = self.b.import_function(ExtFuncData {
            name: ExternalName::user(user),
            signature,
            colocated: true,
            patchable: false,
        });
        self.functions.insert(name, function);
        function
    }

    /// Makes the function of the body of a loop or transaction. Returns its name, and the ways in
    /// which it may leave. `around` is the target of `break` in it.
    pub(crate) fn lower_body(&mut self, vars: &[Var], body: &'a Block, around: Target) -> (u32, Exits) {
        let name = self.unit.names[self.unit.next_body];
        self.unit.next_body += 1;
        let config = self.unit.config;
        let mut code = ir::Function::with_name_signature(
            UserFuncName::user(0, name),
            signature(1 + vars.len(), config.default_call_conv),
        );
        let outer = self.unit.outer.len();
        let arms: Vec<&[Arm]> = self.around(self.scope.context).map(|c| self.contexts[c].arms).collect();
        self.unit.outer.extend(arms.into_iter().rev());
        let mut context = FunctionBuilderContext::new();
        let mut inner = Lower::new(self.unit, FunctionBuilder::new(&mut code, &mut context), End::Body);
        inner.begin_fuel();
        inner.closure_body(vars, body, around);
        inner.end();
        let exits = std::mem::take(&mut inner.exits);
        let roots = std::mem::take(&mut inner.roots);
        inner.b.finalize(config);
        finish(&mut code, &roots);
        self.unit.outer.truncate(outer);
        self.unit.done.push((name, code));
        (name, exits)
    }

    /// The statements of a function that is the body of a loop or transaction.
    pub(crate) fn closure_body(&mut self, vars: &[Var], body: &'a Block, around: Target) {
        let words = self.b.block_params(self.entry).to_vec();
        self.environment = Environment::Pointer(words[1]);
        self.scope.loops.push(around);
        for (var, word) in vars.iter().zip(&words[2..]) {
            self.write_word(*var, *word);
        }
        if self.unit.analysis.loops {
            // Not only in loops: code that leaves all of them is not part of any.
            self.poll_passive();
        }
        self.block(body);
        if self.reachable && !matches!(around, Target::Transaction) {
            self.continue_stmt();
        }
    }
}
