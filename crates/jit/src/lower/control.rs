//! Branches, loops, and the ends of functions.
//!
//! One method of [`Lower`] for each statement, by its name: [`Lower::if_stmt`],
//! [`Lower::while_stmt`], [`Lower::for_each`] and so on. Loops over numbers and elements share
//! [`Lower::counted_loop`]. A loop over an iterator that is not known becomes a closure. [`Target`]
//! is the place to which `break` and `continue` go; [`Latch`] and [`Stretch`] say when a loop ends
//! or polls.

use bifrost_ir::{Block, Callee, Const, Operand, Site, Stmt, Var};
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::{ClassInfo, Table};
use bifrost_runtime::structure::{environment, reason};
use cranelift_codegen::ir::{
    self, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, condcodes::IntCC, types,
};

use super::memory::Region;
use super::{End, Environment, Exits, Lower};
use crate::analysis::InlineLoop;

/// The greatest number of classes with which an object's class is compared to find its type.
const CLASSES_MAX: usize = 3;

/// The results of the latch of a loop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Latch {
    /// True if the loop is at its end.
    pub(crate) ended: Option<Value>,
    /// A value that is 0 after some steps ([`POLL_STEPS`]); the loop polls then.
    pub(crate) polled: Option<Value>,
    /// The stretch, if one comparison is both.
    pub(crate) stretch: Option<Stretch>,
}

/// A loop goes on without looking at anything else up to where its stretch ends: at its own end, or
/// where it polls.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    /// The position at which the stretch ends.
    pub(crate) stop: cranelift_frontend::Variable,
    /// The position of the loop.
    pub(crate) at: cranelift_frontend::Variable,
    /// The position of the next step, which `at` says too.
    pub(crate) next: Value,
    /// The position at which the loop ends.
    pub(crate) end: Value,
    /// The greatest number of steps of a stretch.
    pub(crate) most: i64,
}

/// The number of steps after which a loop that calls nothing polls.
pub(crate) const POLL_STEPS: i64 = 64;

/// The meaning of `break` and `continue` here.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The loop is in this function.
    Loop {
        /// The block in which the next step begins.
        next: ir::Block,
        /// The block behind the loop.
        end: ir::Block,
        /// True if a `continue` or the body's end went to `next`.
        continued: bool,
        /// True if a `break` went to `end`.
        broken: bool,
    },
    /// This function is the body of the loop.
    Closure,
    /// This function is the body of a transaction in the loop.
    Transaction,
}

impl<'a> Lower<'_, 'a, '_> {
    pub(crate) fn if_stmt(&mut self, test: Operand, then: &'a Block, otherwise: &'a Block) {
        if let Operand::Const(Const::Bool(known)) = test {
            self.block(if known { then } else { otherwise });
            return;
        }
        let test = self.operand(test);
        self.choose(test, |_| {}, then, otherwise);
    }

    /// Goes on with one of two blocks, `first` coming before `then`.
    pub(crate) fn choose(
        &mut self,
        test: Value,
        first: impl FnOnce(&mut Self),
        then: &'a Block,
        otherwise: &'a Block,
    ) {
        let (yes, no, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let no = if otherwise.0.is_empty() { after } else { no };
        self.b.ins().brif(test, yes, &[], no, &[]);
        self.start(yes);
        self.on_some_paths(|this| {
            first(this);
            this.block(then);
        });
        let mut goes_on = self.reachable || no == after;
        if self.reachable {
            self.b.ins().jump(after, &[]);
        }
        if no != after {
            self.start(no);
            self.on_some_paths(|this| this.block(otherwise));
            goes_on |= self.reachable;
            if self.reachable {
                self.b.ins().jump(after, &[]);
            }
        }
        if goes_on {
            self.start(after);
        }
    }

    /// Asks for an object's type: compares its class with those that have the type if they are few,
    /// else looks at the bits of its class.
    pub(crate) fn type_if(&mut self, object: Operand, var: Var, then: &'a Block, otherwise: &'a Block) {
        let ty = self.scope.func.vars[var].ty;
        let object = self.operand(object);
        let image = self.unit.image;
        let table = self.load_table(object);
        // Not the table: it tells the mode as well.
        let info = self.load(types::I64, table, Table::INFO_OFFSET, Region::Constant);
        let fitting = image.tables().map(Table::info).filter(|info| info.has_type(ty));
        let fitting: Vec<&ClassInfo> = fitting.take(CLASSES_MAX + 1).collect();
        let test = match fitting.as_slice() {
            [] => self.int(0),
            many if many.len() > CLASSES_MAX => {
                let bits = self.load(types::I64, info, ClassInfo::conforms_offset(), Region::Constant);
                let word = self.load(types::I64, bits, 8 * (ty.as_u32() / 64) as i32, Region::Constant);
                self.b.ins().band_imm_s(word, 1 << (ty.as_u32() % 64))
            }
            few => {
                let mut found = None;
                for class in few {
                    let class = self.address(std::ptr::from_ref::<ClassInfo>(class).cast());
                    let is = self.b.ins().icmp(IntCC::Equal, info, class);
                    found = Some(match found {
                        Some(found) => self.b.ins().bor(found, is),
                        None => is,
                    });
                }
                found.expect("there is one")
            }
        };
        self.choose(test, |this| this.write(var, object), then, otherwise);
    }

    pub(crate) fn while_stmt(&mut self, stmt: &Stmt, cond: &'a Block, test: Operand, body: &'a Block) {
        let pins = if self.is_entered_in(stmt) {
            self.scope.pins.clone()
        } else {
            self.before_loop(&[cond, body], &[])
        };
        let before = self.known.clone();
        let header = self.b.create_block();
        self.b.ins().jump(header, &[]);
        self.enter_at(stmt, header);
        self.b.switch_to_block(header);
        self.block(cond);
        if !self.reachable {
            self.b.seal_block(header);
            self.scope.pins = pins;
            return;
        }
        let (inside, next, end) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let endless = test == Operand::Const(Const::Bool(true));
        if endless {
            self.b.ins().jump(inside, &[]);
        } else {
            let test = self.operand(test);
            self.b.ins().brif(test, inside, &[], end, &[]);
        }
        self.start(inside);
        let broken = self.loop_body(body, next, end);
        if self.reachable {
            match self.is_metered() {
                true => self.at_site(Site::default(), Self::poll),
                false => self.poll_in(stmt),
            }
            self.next_round();
            self.b.ins().jump(header, &[]);
        }
        self.b.seal_block(header);
        self.reachable = broken || !endless;
        self.scope.pins = pins;
        self.known_before(before);
        if self.reachable {
            self.start(end);
        }
    }

    /// The body of a loop that is in this function; afterwards the next step begins, if a path
    /// leads there. Tells whether the body breaks.
    pub(crate) fn loop_body(&mut self, body: &'a Block, next: ir::Block, end: ir::Block) -> bool {
        self.scope.loops.push(Target::Loop { next, end, continued: false, broken: false });
        let before = self.known.clone();
        self.block(body);
        if self.reachable {
            self.continue_stmt();
        }
        self.known_before(before);
        let Some(Target::Loop { continued, broken, .. }) = self.scope.loops.pop() else {
            unreachable!("pushed above")
        };
        if continued {
            self.start(next);
            self.burn_round();
        }
        broken
    }

    pub(crate) fn break_stmt(&mut self) {
        match self.scope.loops.last_mut() {
            Some(Target::Loop { end, broken, .. }) => {
                *broken = true;
                let end = *end;
                self.b.ins().jump(end, &[]);
                self.reachable = false;
            }
            around => {
                if let Some(Target::Transaction) = around {
                    self.leave_transaction();
                }
                self.exits.breaks = true;
                self.leave_loop(reason::BREAK);
            }
        }
    }

    pub(crate) fn continue_stmt(&mut self) {
        match self.scope.loops.last_mut() {
            Some(Target::Loop { next, continued, .. }) => {
                *continued = true;
                let next = *next;
                self.b.ins().jump(next, &[]);
            }
            Some(Target::Transaction) => {
                self.leave_transaction();
                self.exits.continues = true;
                self.leave_loop(reason::CONTINUE);
            }
            _ => {
                self.burn_round();
                self.next_round();
                let zero = self.int(0);
                self.return_words(zero, zero);
            }
        }
        self.reachable = false;
    }

    pub(crate) fn return_stmt(&mut self, values: &[Operand]) {
        if let End::Call { done, .. } = self.scope.end {
            let values: Vec<Value> = values.iter().map(|v| self.operand(*v)).collect();
            self.go_on(done, &values);
            return;
        }
        let words: Vec<Value> = values.iter().map(|v| self.operand_word(*v)).collect();
        for (i, word) in words.iter().enumerate().skip(1) {
            self.store_cx(*word, offset::RESULTS + 8 * i as i32);
        }
        let first = match words.first() {
            Some(word) => *word,
            None => self.int(0),
        };
        if let End::Body = self.scope.end {
            self.exits.returns = true;
            if self.unit.in_transaction {
                self.leave_transaction();
            }
            self.store_environment(environment::RESULT, first);
            self.leave_loop(reason::RETURN);
            return;
        }
        if self.is_script() {
            return self.end_answered();
        }
        let returned = self.int(Outcome::Returned as i64);
        self.end_with(returned, first);
    }

    pub(crate) fn yield_stmt(&mut self, values: &[Operand]) {
        if let Some((vars, body)) = self.scope.each {
            self.step_in_place(values, vars, body);
            return;
        }
        let closure = match self.environment {
            // Without closures of its own the iterator has it where it was passed.
            Environment::None => *self.b.block_params(self.entry).last().expect("an iterator has a closure"),
            _ => self.load_environment(types::I64, environment::CLOSURE),
        };
        let mut words = vec![self.cx];
        let flags = MemFlagsData::trusted();
        let code = self.b.ins().load(types::I64, flags, closure, 0);
        let environment = self.b.ins().load(types::I64, flags, closure, 8);
        words.push(environment);
        for value in values {
            let word = self.operand_word(*value);
            words.push(word);
        }
        let signature = self.signature_of(words.len() - 1);
        let inst = self.b.ins().call_indirect(signature, code, &words);
        self.arrays_change();
        let outcome = self.b.inst_results(inst)[0];
        let (leave, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(outcome, leave, &[], next, &[]);
        self.start(leave);
        if let End::Body = self.scope.end {
            self.exits.passes = true;
            let why = self.int(reason::PASS);
            self.store_environment(environment::REASON, why);
        }
        let zero = self.int(0);
        self.b.ins().return_(&[outcome, zero]);
        self.start(next);
    }

    pub(crate) fn for_each(
        &mut self,
        stmt: &'a Stmt,
        callee: Callee,
        args: &[Operand],
        vars: &'a [Var],
        body: &'a Block,
    ) {
        if let Some(known) = self.scope.analysis.in_place.get(&std::ptr::from_ref(stmt)).cloned() {
            self.loop_in_place(&known, args, vars, body);
            return;
        }
        if let Some(known) = InlineLoop::of(self.unit.image.program(), callee) {
            self.inline_loop(known, callee, args, vars, body);
            return;
        }
        let (closure, exits) = self.closure(vars, body, Target::Closure);
        self.call(callee, args, Some((closure, &exits)));
    }

    /// Runs a block as a transaction. Facts about objects from before it are not known behind it.
    pub(crate) fn transaction_stmt(&mut self, body: &'a Block) {
        let around = std::mem::replace(&mut self.unit.in_transaction, true);
        let (closure, exits) = self.closure(&[], body, Target::Transaction);
        self.unit.in_transaction = around;
        self.objects_close();
        self.call_transaction(closure, &exits);
    }

    /// The body of a transaction is left otherwise than by an exception.
    pub(crate) fn leave_transaction(&mut self) {
        let one = self.int(1);
        self.store_cx(one, offset::LEAVES_TRANSACTION);
    }

    /// A closure of a block, in this frame.
    pub(crate) fn closure(&mut self, vars: &[Var], body: &'a Block, around: Target) -> (Value, Exits) {
        let (name, exits) = self.lower_body(vars, body, around);
        let code = self.unit_function(name, 1 + vars.len());
        let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 3));
        let code = self.b.ins().func_addr(types::I64, code);
        self.b.ins().stack_store(types::I64, code, slot, 0);
        let environment = self.environment_address();
        self.b.ins().stack_store(types::I64, environment, slot, 8);
        (self.b.ins().stack_addr(types::I64, slot, 0), exits)
    }

    /// Lowers a loop with a header that decides if there is a step, and a latch that prepares the
    /// next one.
    ///
    /// - `header` finds if the loop is at its end.
    /// - `step` fills the loop's variables.
    /// - `latch` may find the end too. It may also give a value that is 0 after so few steps that
    ///   it is enough to poll then, if nothing is called between.
    pub(crate) fn counted_loop(
        &mut self,
        vars: &[Var],
        body: &'a Block,
        header: impl FnOnce(&mut Self) -> Option<Value>,
        step: impl FnOnce(&mut Self),
        latch: impl FnOnce(&mut Self) -> Latch,
    ) {
        let pins = self.before_loop(&[body], vars);
        let before = self.known.clone();
        let (top, next, end) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.ins().jump(top, &[]);
        self.b.switch_to_block(top);
        if let Some(ended) = header(self) {
            let inside = self.b.create_block();
            self.b.ins().brif(ended, end, &[], inside, &[]);
            self.start(inside);
        }
        step(self);
        self.loop_body(body, next, end);
        if self.reachable {
            self.next_round();
            let Latch { ended, polled, stretch } = latch(self);
            if let Some(ended) = ended {
                let on = self.b.create_block();
                self.b.ins().brif(ended, end, &[], on, &[]);
                self.start(on);
            }
            if let Some(stretch) = stretch {
                self.end_of_stretch(stretch, top, end);
            }
            match polled.filter(|_| !self.may_call(body)) {
                None => self.poll_passive(),
                Some(polled) => {
                    let poll = self.cold_block();
                    self.b.ins().brif(polled, top, &[], poll, &[]);
                    self.start(poll);
                    self.poll_passive();
                }
            }
            self.b.ins().jump(top, &[]);
        }
        self.b.seal_block(top);
        self.scope.pins = pins;
        self.known_before(before);
        self.start(end);
    }

    /// Goes on at the top within a stretch, ends the loop at its end, and begins another stretch
    /// where it is to be polled.
    pub(crate) fn end_of_stretch(&mut self, stretch: Stretch, top: ir::Block, end: ir::Block) {
        let (reached, poll) = (self.b.create_block(), self.cold_block());
        let stop = self.b.use_var(stretch.stop);
        let within = self.b.ins().icmp(IntCC::NotEqual, stretch.next, stop);
        self.b.ins().brif(within, top, &[], reached, &[]);
        self.start(reached);
        // From here on `next` is called `stop`. So it is not used beside the branch, and takes the
        // place of the value before it.
        let ended = self.b.ins().icmp(IntCC::Equal, stop, stretch.end);
        self.b.ins().brif(ended, end, &[], poll, &[]);
        self.start(poll);
        self.b.def_var(stretch.at, stop);
        let stop = self.stop_of_stretch(stop, stretch.end, stretch.most);
        self.b.def_var(stretch.stop, stop);
    }

    /// The position at which a stretch ends that begins here.
    pub(crate) fn stop_of_stretch(&mut self, from: Value, end: Value, most: i64) -> Value {
        let stop = self.b.ins().iadd_imm_s(from, most);
        self.b.ins().umin(stop, end)
    }
}
