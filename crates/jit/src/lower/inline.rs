//! Functions compiled in place of their calls.
//!
//! A small function whose identity is known takes the place of its call: its statements are lowered
//! into the code around it, with variables of their own ([`Scope`]). Its results go on behind the
//! call; a signal goes straight to the handler there; an exception that it does not handle passes
//! the end of the function as after a call. A method is known in one of these cases:
//!
//! - Every class that the receiver can be of has the same body.
//! - The receiver can be of one class only; it is opened first ([`known`](super::known)).
//! - The receiver's table is equal to that of one of a few classes, by a comparison. An object with
//!   another table, or one that is not open, is called.
//!
//! An iterator in place of its call lowers the loop's body at its `yield`, with the variables and
//! the handlers of the function around it: the iterator's handlers do not see what happens in the
//! body (`docs/book/language/exceptions.md`).

use std::rc::Rc;

use bifrost_ir::{Block, Callee, ClassId, FuncId, FuncKind, Operand, Site, Var};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, Type, Value, condcodes::IntCC};

use super::call::Context;
use super::memory::Region;
use super::{End, Lower, Scope, Within};
use crate::analysis::{self, Analysis, InPlace};
use crate::target::Targets;

/// The number of statements that a function may have taken in, all calls together.
pub(crate) const BUDGET: usize = 400;

/// The same for a structure with so many statements of its own. The time that it takes to compile
/// follows from their number, by which it is decided when that is done.
pub(crate) fn structure_budget(statements: usize) -> usize {
    BUDGET.min(10 * statements)
}

/// The largest number of statements of a function that is taken in without comparison.
const KNOWN_MAX: usize = 24;

/// The largest number of statements of one that is taken in behind a comparison.
const CHECKED_MAX: usize = 10;

/// The greatest depth of functions in each other.
const DEPTH_MAX: usize = 8;

/// The number of times that the same function may be in itself.
const RECURSION_MAX: usize = 2;

impl<'a> Lower<'_, 'a, '_> {
    /// Compiles a call in place; false if it is to be called.
    pub(crate) fn call_in_place(&mut self, callee: Callee, args: &[Operand], dsts: &[Var]) -> bool {
        let class = self.scope.class;
        match self.calls().targets(callee, args.first().copied()) {
            Targets::One(func) => {
                let Some(analysis) = self.worth(func, KNOWN_MAX) else { return false };
                let values = args.iter().map(|a| self.operand(*a)).collect();
                let receives = matches!(callee, Callee::Method(_));
                let results = self.in_place(func, analysis, values, class.filter(|_| receives));
                self.write_all(dsts, results);
                true
            }
            Targets::Checked { classes, all: true } if classes.len() == 1 => {
                let [(class, func)] = classes[..] else { unreachable!("counted") };
                let Some(analysis) = self.worth(func, KNOWN_MAX) else { return false };
                let values: Vec<Value> = args.iter().map(|a| self.operand(*a)).collect();
                self.open(values[0]);
                let results = self.in_place(func, analysis, values, Some(class));
                self.write_all(dsts, results);
                true
            }
            Targets::Checked { classes, all } => {
                let classes: Vec<_> = classes
                    .into_iter()
                    .map(|(class, func)| (class, func, self.worth(func, CHECKED_MAX)))
                    .collect();
                if classes.iter().all(|(_, _, worth)| worth.is_none()) {
                    return false;
                }
                self.checked(callee, args, dsts, classes, all);
                true
            }
            Targets::Unknown => false,
        }
    }

    /// Compares the receiver's table with those of some classes, and calls if it is none of them.
    pub(crate) fn checked(
        &mut self,
        callee: Callee,
        args: &[Operand],
        dsts: &[Var],
        classes: Vec<(ClassId, FuncId, Option<Rc<Analysis>>)>,
        all: bool,
    ) {
        let types: Vec<Type> = dsts.iter().map(|dst| self.var_type(*dst)).collect();
        let after = self.block_with(&types);
        let mut goes_on = false;
        let values: Vec<Value> = args.iter().map(|a| self.operand(*a)).collect();
        let mut table = self.load_table(values[0]);
        if let Some(modes) = self.unit.image.modes() {
            table = self.b.ins().band_imm_s(table, !(modes.clean_bit() as i64));
        }
        let before = self.known.clone();
        let all = all && classes.iter().all(|(_, _, worth)| worth.is_some());
        for (class, func, worth) in classes {
            let Some(analysis) = worth else { continue };
            let ty = self.unit.image.program().classes[class].ty;
            let expected = std::ptr::from_ref::<Table>(self.unit.image.table_of(ty));
            let expected = self.address(expected.cast());
            let is = self.b.ins().icmp(IntCC::Equal, table, expected);
            let (yes, no) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(is, yes, &[], no, &[]);
            self.start(yes);
            self.is_open(values[0]);
            if let Some(results) = self.in_place(func, analysis, values.clone(), Some(class)) {
                self.jump_to(after, &results[..dsts.len()]);
                goes_on = true;
            }
            self.start(no);
        }
        if all && let Some(block) = self.b.current_block() {
            self.b.set_cold_block(block);
        }
        let first = self.call(callee, args, None);
        let results: Vec<Value> = types
            .iter()
            .enumerate()
            .map(|(i, ty)| match i {
                0 => self.unword(*ty, first),
                _ => self.load(*ty, self.cx, offset::RESULTS + 8 * i as i32, Region::Context),
            })
            .collect();
        self.jump_to(after, &results);
        debug_assert!(self.reachable || goes_on);
        self.start(after);
        self.known_before(before);
        let results = self.b.block_params(after).to_vec();
        self.write_all(dsts, Some(results));
    }

    pub(crate) fn write_all(&mut self, dsts: &[Var], values: Option<Vec<Value>>) {
        for (dst, value) in dsts.iter().zip(values.into_iter().flatten()) {
            self.write(*dst, value);
        }
    }

    pub(crate) fn block_with(&mut self, types: &[Type]) -> ir::Block {
        let block = self.b.create_block();
        for ty in types {
            self.b.append_block_param(block, *ty);
        }
        block
    }

    pub(crate) fn jump_to(&mut self, block: ir::Block, values: &[Value]) {
        let args: Vec<BlockArg> = values.iter().map(|v| BlockArg::Value(*v)).collect();
        self.b.ins().jump(block, &args);
    }

    /// Ends the function in place of a call with these results.
    pub(crate) fn go_on(&mut self, done: ir::Block, results: &[Value]) {
        self.jump_to(done, results);
        self.scope.end = End::Call { done, reached: true };
        self.reachable = false;
    }

    /// The analysis of a function to compile it in place of a call that can be of nothing else.
    pub(crate) fn worth_in_place(&mut self, func: FuncId) -> Option<Rc<Analysis>> {
        self.worth(func, KNOWN_MAX)
    }

    /// The analysis of a function to compile it in place, if it is small enough. Takes it from the
    /// budget.
    pub(crate) fn worth(&mut self, func: FuncId, statements_max: usize) -> Option<Rc<Analysis>> {
        let same = self.active.iter().filter(|a| **a == func).count();
        if self.active.len() > DEPTH_MAX || same > RECURSION_MAX {
            return None;
        }
        let image = self.unit.image;
        let known = self.unit.known.entry(func).or_insert_with(|| {
            let found = match image.program().funcs[func].kind {
                FuncKind::Script => analysis::of_message(image, func, KNOWN_MAX),
                _ => analysis::of_call(image, func, KNOWN_MAX),
            };
            found.map(Rc::new)
        });
        let analysis = known.clone()?;
        let statements = analysis.statements;
        if statements > statements_max || statements > self.unit.budget {
            return None;
        }
        self.unit.budget -= statements;
        Some(analysis)
    }

    /// Lowers a function in place of its call; its results, if it returns.
    pub(crate) fn in_place(
        &mut self,
        id: FuncId,
        analysis: Rc<Analysis>,
        args: Vec<Value>,
        class: Option<ClassId>,
    ) -> Option<Vec<Value>> {
        self.in_place_of(id, analysis, args, class, Within::Call)
    }

    /// Lowers a creator in place: if it fails, the actor does.
    pub(crate) fn create_in_place(
        &mut self,
        id: FuncId,
        analysis: Rc<Analysis>,
        args: Vec<Value>,
        class: ClassId,
        actor: Value,
    ) {
        self.in_place_of(id, analysis, args, Some(class), Within::Creation(actor));
    }

    /// Lowers a method of an actor at rest in place of a message to it; its results. If it ends
    /// otherwise, that goes to the block, as its parameter.
    pub(crate) fn message_in_place(
        &mut self,
        id: FuncId,
        analysis: Rc<Analysis>,
        args: Vec<Value>,
        class: ClassId,
        ended: ir::Block,
    ) -> Option<Vec<Value>> {
        self.in_place_of(id, analysis, args, Some(class), Within::Message(ended))
    }

    pub(crate) fn in_place_of(
        &mut self,
        id: FuncId,
        analysis: Rc<Analysis>,
        args: Vec<Value>,
        class: Option<ClassId>,
        within: Within,
    ) -> Option<Vec<Value>> {
        let func = &self.unit.image.program().funcs[id];
        let types: Vec<Type> = func.signature.results.iter().map(|ty| self.value_type(*ty)).collect();
        let done = self.block_with(&types);
        let before = self.known.clone();
        self.enter(id, analysis, args, done, class, None);
        self.scope.within = within;
        let reached = self.leave();
        self.known_before(before);
        self.reachable = reached;
        if !reached {
            return None;
        }
        self.start(done);
        Some(self.b.block_params(done).to_vec())
    }

    /// Lowers the statements of a function in place of its call; the code behind them is its end.
    pub(crate) fn enter(
        &mut self,
        id: FuncId,
        analysis: Rc<Analysis>,
        args: Vec<Value>,
        done: ir::Block,
        class: Option<ClassId>,
        each: Option<(&'a [Var], &'a Block)>,
    ) {
        let func = &self.unit.image.program().funcs[id];
        let context = self.contexts.len();
        self.contexts.push(Context::new_end(Some(self.scope.context)));
        let scope = Scope {
            func,
            id: Some(id),
            at: Site::default(),
            analysis,
            end: End::Call { done, reached: false },
            vars: vec![None; func.vars.len()],
            pins: vec![None; func.vars.len()],
            private: Vec::new(),
            loops: Vec::new(),
            context,
            class,
            each,
            within: Within::Call,
        };
        self.waiting.push(std::mem::replace(&mut self.scope, scope));
        self.active.push(id);
        for (var, value) in func.params().zip(args) {
            self.write(var, value);
        }
        self.block(&func.body);
        if self.reachable {
            self.go_on(done, &[]);
        }
    }

    /// Goes back to the function around one in place of its call; returns true if that came to its
    /// end.
    pub(crate) fn leave(&mut self) -> bool {
        self.end_contexts();
        self.active.pop();
        let outer = self.waiting.pop().expect("the function around it waits");
        let inner = std::mem::replace(&mut self.scope, outer);
        matches!(inner.end, End::Call { reached: true, .. })
    }

    /// Lowers a loop with its iterator in place.
    pub(crate) fn loop_in_place(
        &mut self,
        iterator: &InPlace,
        args: &[Operand],
        vars: &'a [Var],
        body: &'a Block,
    ) {
        let values = args.iter().map(|a| self.operand(*a)).collect();
        let done = self.b.create_block();
        let class = self.scope.class.filter(|_| iterator.on_self);
        let (before, pins) = (self.known.clone(), self.scope.pins.clone());
        self.pin(body, vars);
        self.enter(iterator.func, iterator.analysis.clone(), values, done, class, Some((vars, body)));
        self.reachable = self.leave();
        self.scope.pins = pins;
        self.known_before(before);
        if self.reachable {
            self.start(done);
        }
    }

    /// Lowers the loop's body at a `yield` of an iterator in place.
    pub(crate) fn step_in_place(&mut self, values: &[Operand], vars: &'a [Var], body: &'a Block) {
        let End::Call { done, .. } = self.scope.end else {
            unreachable!("the iterator is in place of its call")
        };
        let values: Vec<Value> = values.iter().map(|v| self.operand(*v)).collect();
        let outer = self.waiting.pop().expect("the function around it waits");
        let iterator = std::mem::replace(&mut self.scope, outer);
        for (var, value) in vars.iter().zip(values) {
            self.write(*var, value);
        }
        let next = self.b.create_block();
        let broken = self.loop_body(body, next, done);
        self.next_round();
        self.waiting.push(std::mem::replace(&mut self.scope, iterator));
        if broken {
            self.scope.end = End::Call { done, reached: true };
        }
    }
}
