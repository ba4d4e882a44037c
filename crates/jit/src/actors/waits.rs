//! Waits of functions that may wait, and the places at which their code leaves.
//!
//! A message is a call through the receiver's table. A request that does not come back with its
//! result gets a join, which takes the reply ([`bifrost_actors::pend`]), and the code goes
//! on. Where replies are awaited it asks the join if the variable is *held* there. The code leaves
//! ([`bifrost_actors::entries::leave_code`]) in three cases:
//!
//! - a variable that it awaits is held;
//! - the function makes way for others;
//! - it comes to a statement that is not compiled.
//!
//! It leaves in a cold block, which stores the variables in the join and ends the function with the
//! outcome of that helper. So the way on which all is answered at once costs one comparison for
//! each wait.

use crate::actors::answers::Answer;
use crate::actors::sends::Sent;
use crate::actors::{entries, places};
use crate::helper::Helper;
use crate::lower::known::View;
use crate::lower::memory::Region;
use crate::lower::{End, Lower};
use bifrost_actors::{Exit, layout_for};
use bifrost_heap::FIELDS_OFFSET;
use bifrost_ir::ways::own_method;
use bifrost_ir::{Callee, FuncKind, Operand, Stmt, Var};
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor_layout::{Due, Kind, join, owed};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};

/// The state of code that may wait.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) answer: Option<Answer>,
    /// The join, or 0, of code that has begun without one.
    pub(crate) join: Option<StackSlot>,
    /// Of code that goes on with a join: that, and the block that leads to where it does.
    pub(crate) again: Option<(Value, ir::Block)>,
    /// The block in which the code stops at the wait that follows the request just lowered, and
    /// with which reply missing.
    pub(crate) stops: Option<(*const Stmt, Stops)>,
}

/// A block in which code stops at a wait; its parameter is the object that owes a reply that no
/// join has yet, or 0.
#[derive(Clone, Copy)]
pub(crate) struct Stops {
    pub(crate) block: ir::Block,
    pub(crate) due: Due,
}

/// The way in which the function goes on at a statement at which its code leaves.
pub(crate) enum Leaves<'s> {
    /// With the statement.
    Before,
    /// Behind the message that the statement has sent.
    Behind(&'s Sent),
    /// With the statement, a wait, when a reply has come that is owed by this, if it is not 0.
    Owed { owing: Value, due: Due },
}

/// The place of a field of a join.
pub(crate) fn join_offset(field: usize) -> i32 {
    FIELDS_OFFSET + 8 * field as i32
}

impl<'a> Lower<'_, 'a, '_> {
    /// True if this is the code of a method of an actor itself, and not that of a body in it.
    pub(crate) fn is_script(&self) -> bool {
        self.unit.func.kind == FuncKind::Script && matches!(self.scope.end, End::Function)
    }

    /// At the beginning of code that goes on with a join: takes the variables from there. The way
    /// to the statements before the place stays, since they may follow it in a loop around; nothing
    /// goes it.
    pub(crate) fn enter_again(&mut self, again: &Stmt, join: Value, answered: Value) {
        if let Some(Answer { given, word, owing }) = self.wait.answer {
            self.b.def_var(given, answered);
            let answer = self.load_join(join, join::ANSWER);
            self.b.def_var(word, answer);
            if let Some(owing) = owing {
                let delegated = self.load_join(join, join::DELEGATED);
                self.b.def_var(owing, delegated);
            }
        }
        let analysis = self.unit.analysis.clone();
        let live = &analysis.script.places[&std::ptr::from_ref(again)].before;
        for var in self.unit.func.vars.keys() {
            let word = match live.contains(&var) {
                true => self.load_join(join, join::WORDS + var.as_u32() as usize),
                false => self.int(0),
            };
            self.write_word(var, word);
        }
        // The caller of the code keeps nothing, and needs the join behind it.
        let kept = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
        self.b.ins().stack_store(types::I64, join, kept, 0);
        self.roots.words.push((kept, 0));
        let (entered, before) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(join, entered, &[], before, &[]);
        self.b.seal_block(entered);
        self.wait.again = Some((join, entered));
        self.start(before);
    }

    pub(crate) fn load_join(&mut self, join: Value, field: usize) -> Value {
        self.b.ins().load(types::I64, MemFlagsData::trusted(), join, join_offset(field))
    }

    pub(crate) fn store_join(&mut self, join: Value, field: usize, word: Value) {
        self.b.ins().store(MemFlagsData::trusted(), word, join, join_offset(field));
    }

    /// True if the code goes on at a loop or in it.
    pub(crate) fn is_entered_in(&self, stmt: &Stmt) -> bool {
        let function = matches!(self.scope.end, End::Function);
        function && self.unit.again.is_some_and(|again| places::has(stmt, again))
    }

    /// Stops if one of the replies is not with the code. Code may go on here.
    pub(crate) fn await_stmt(&mut self, stmt: &Stmt, vars: &[Var]) {
        let analysis = self.unit.analysis.clone();
        let bits = vars.iter().fold(0, |bits, var| bits | analysis.script.bit(*var).unwrap_or(0));
        let next = self.b.create_block();
        let join = match (self.wait.again, self.wait.join) {
            (Some((join, _)), _) => join,
            (None, slot) => {
                let slot = slot.expect("what awaits has requested");
                let join = self.b.ins().stack_load(types::I64, types::I64, slot, 0);
                let joined = self.cold_block();
                self.b.ins().brif(join, joined, &[], next, &[]);
                self.start(joined);
                join
            }
        };
        let held = self.load_join(join, join::HELD);
        let held = self.b.ins().band_imm_s(held, bits);
        let of_request = self.wait.stops.take().filter(|(of, _)| std::ptr::eq(*of, stmt));
        let Some((_, Stops { block, due })) = of_request else {
            let stops = self.cold_block();
            self.b.ins().brif(held, stops, &[], next, &[]);
            self.start(stops);
            self.leave_code(stmt, Leaves::Before);
            return self.begin_behind(stmt, next);
        };
        let zero = self.int(0);
        self.b.ins().brif(held, block, &[BlockArg::Value(zero)], next, &[]);
        self.start(block);
        let owing = self.b.block_params(block)[0];
        self.leave_code(stmt, Leaves::Owed { owing, due });
        self.begin_behind(stmt, next);
    }

    /// Goes on behind a wait, where the code may begin.
    pub(crate) fn begin_behind(&mut self, stmt: &Stmt, next: ir::Block) {
        self.start(next);
        if self.is_entered_in(stmt) {
            let here = self.b.create_block();
            self.b.ins().jump(here, &[]);
            self.enter_at(stmt, here);
            self.start(here);
        }
    }

    /// Goes on at a block, that of a statement, if the code begins there.
    pub(crate) fn enter_at(&mut self, stmt: &Stmt, header: ir::Block) {
        let function = matches!(self.scope.end, End::Function);
        if let (true, Some((_, entered)), Some(again)) = (function, self.wait.again, self.unit.again)
            && std::ptr::eq(stmt, again)
        {
            self.b.switch_to_block(entered);
            self.b.ins().jump(header, &[]);
        }
    }

    /// The value of a variable for others. An array that only this code knew gets more than its
    /// storage, each time, and no code can tell. For an actor that never looks at itself any of its
    /// class is as good.
    pub(crate) fn read_whole(&mut self, var: Var) -> Value {
        if var.as_u32() == 0 && self.is_script() {
            let class = self.unit.image.find_table(self.unit.func.vars[var].ty);
            if let Some(any) = class.and_then(|table| table.info().actor()?.any) {
                return self.int(any as i64);
            }
        }
        let value = self.read(var);
        let Some(View { low, length, base, .. }) = self.private(value) else { return value };
        let table = self.unit.image.table_of(self.scope.func.vars[var].ty);
        let zero = self.int(0);
        self.new_object_of(table, &[low, length, zero, base], |_| Region::Arrays)
    }

    /// In a cold block: the join, made if there is none.
    pub(crate) fn join(&mut self) -> Value {
        if let Some((join, _)) = self.wait.again {
            return join;
        }
        let done = self.cold_block();
        let join = self.b.append_block_param(done, types::I64);
        self.mark(join);
        if let Some(slot) = self.wait.join {
            let made = self.b.ins().stack_load(types::I64, types::I64, slot, 0);
            let none = self.cold_block();
            self.b.ins().brif(made, done, &[BlockArg::Value(made)], none, &[]);
            self.start(none);
        }
        let func = self.unit.id.expect("what clients send does not wait");
        let layout = layout_for(self.unit.image, func);
        let zero = self.int(0);
        // New memory is all zero.
        let made = self.new_object_of(layout.table, &vec![zero; layout.fields()], |_| Region::Heads);
        let kind = self.int(Kind::Join as i64);
        self.store_join(made, owed::KIND, kind);
        let place = self.address(std::ptr::from_ref(layout).cast());
        self.store_join(made, join::LAYOUT, place);
        for (at, word) in &layout.constants {
            let word = self.int(*word as i64);
            self.store_join(made, join::WORDS + *at as usize, word);
        }
        if self.is_script() {
            let actor = self.read_whole(Var::from_u32(0));
            self.store_join(made, join::ACTOR, actor);
            self.store_join(made, join::WORDS, actor);
        }
        entries::count(&mut self.b, self.cx, offset::JOINS);
        if let Some(slot) = self.wait.join {
            self.b.ins().stack_store(types::I64, made, slot, 0);
        }
        self.b.ins().jump(done, &[BlockArg::Value(made)]);
        self.start(done);
        join
    }

    /// The purpose of a reply that a variable takes, or an element of its array.
    pub(crate) fn due(&self, dst: Var, element: bool) -> Due {
        let pending = self.unit.analysis.script.pending.iter().position(|var| *var == dst);
        Due::new(pending.expect("it takes replies") as u16, element)
    }

    /// In the block of a request that came back without its answer: the join takes that, or the
    /// exception.
    pub(crate) fn pend(&mut self, came: ir::Block, dst: Var, element: Option<Operand>, next: ir::Block) {
        self.start(came);
        let [outcome, object] = *self.b.block_params(came) else { unreachable!("it has two parameters") };
        let due = self.due(dst, element.is_some());
        if let Some((_, stops)) = self.wait.stops {
            // It stops behind this, where the join takes the reply, too.
            let thrown = self.cold_block();
            let waits = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Pending as i64);
            self.b.ins().brif(waits, stops.block, &[BlockArg::Value(object)], thrown, &[]);
            self.start(thrown);
        }
        let join = self.join();
        let index = match element {
            Some(index) => {
                // The reply goes to the array that the join has.
                let object = self.read_whole(dst);
                self.store_join(join, join::WORDS + dst.as_u32() as usize, object);
                self.operand(index)
            }
            None => self.int(0),
        };
        let due = self.int(due.word() as i64);
        self.call_helper_unchecked(Helper::Pend, &[join, outcome, object, due, index]);
        let zero = self.int(0);
        let args = if element.is_some() { &[][..] } else { &[BlockArg::Value(zero)] };
        self.b.ins().jump(next, args);
    }

    /// Polls at the end of a step of a loop. A function that shall make way for others leaves, and
    /// goes on with the loop's condition.
    pub(crate) fn poll_in(&mut self, stmt: &Stmt) {
        let leaves = matches!(self.scope.end, End::Function)
            && self.unit.analysis.script.places.contains_key(&std::ptr::from_ref(stmt));
        if !leaves {
            return self.poll_passive();
        }
        let (word, over) = (self.attention(), self.turn_over());
        let word = self.b.ins().bor(word, over);
        let (asked, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(word, asked, &[], next, &[]);
        self.start(asked);
        self.poll();
        let (left, over) = (self.cold_block(), self.turn_over());
        self.b.ins().brif(over, left, &[], next, &[]);
        self.start(left);
        self.leave_code(stmt, Leaves::Before);
        self.start(next);
    }

    /// True if the method that runs shall make way for others.
    pub(crate) fn turn_over(&mut self) -> Value {
        let over = self.b.ins().load(types::I8, MemFlagsData::trusted(), self.cx, offset::TURN_OVER);
        self.b.ins().uextend(types::I64, over)
    }

    /// A call of an actor on itself.
    pub(crate) fn self_call(&mut self, stmt: &Stmt, callee: Callee, args: &[Operand], dsts: &[Var]) {
        let (program, Callee::Method(method)) = (self.unit.image.program(), callee) else {
            unreachable!("a call of a method")
        };
        let func = own_method(program, callee).expect("the statement calls one");
        if !places::answers_last(program, &program.funcs[func]) {
            return self.leave_code(stmt, Leaves::Before);
        }
        let mut words = vec![self.cx];
        for arg in args {
            let word = self.operand_word(*arg);
            words.push(word);
        }
        let arity = words.len() - 1;
        let call = if self.unit.id == Some(func) && self.unit.again.is_none() {
            let this = self.unit_function(self.unit.names[0], arity);
            self.b.ins().call(this, &words)
        } else {
            let class = self.unit.image.table_of(method.ty).info().actor().expect("a class of actors");
            let entry = Table::entry_offset(self.unit.image.dispatch().slot(method));
            let table = self.address(std::ptr::from_ref::<Table>(class.code).cast());
            let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), table, entry);
            let signature = self.signature_of(arity);
            self.b.ins().call_indirect(signature, code, &words)
        };
        let [outcome, value] = *self.b.inst_results(call) else { unreachable!("calls have two results") };
        self.arrays_change();
        let (other, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(outcome, other, &[], next, &[]);
        self.start(other);
        let (left, on) = (self.cold_block(), self.cold_block());
        let owing = self.b.append_block_param(left, types::I64);
        self.mark(owing);
        let waits = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Pending as i64);
        self.b.ins().brif(waits, left, &[BlockArg::Value(value)], on, &[]);
        self.start(left);
        self.leave_code(stmt, Leaves::Behind(&Sent { method, outcome, value: owing }));
        self.start(on);
        let dispatch = self.dispatch();
        self.b.ins().jump(dispatch, &[ir::BlockArg::Value(outcome)]);
        self.start(next);
        self.take_results(value, dsts);
    }

    /// Leaves before a statement.
    pub(crate) fn leave_before(&mut self, stmt: &Stmt) {
        self.leave_code(stmt, Leaves::Before);
    }

    /// Ends the function such that it goes on at a statement.
    pub(crate) fn leave_code(&mut self, stmt: &Stmt, leaves: Leaves<'_>) {
        debug_assert!(matches!(self.scope.end, End::Function));
        let join = self.join();
        let analysis = self.unit.analysis.clone();
        let place = &analysis.script.places[&std::ptr::from_ref(stmt)];
        let is_sent = matches!(leaves, Leaves::Behind(_));
        let live = if is_sent { &place.behind } else { &place.before };
        for (var, decl) in &self.unit.func.vars {
            let field = join::WORDS + var.as_u32() as usize;
            // A value that is not read any more must not live for this.
            if !live.contains(&var) {
                if self.unit.is_reference(decl.ty) {
                    let zero = self.int(0);
                    self.store_join(join, field, zero);
                }
                continue;
            }
            let value = self.read_whole(var);
            let mut word = self.word(value);
            if let Some(bit) = analysis.script.bit(var) {
                let held = self.load_join(join, join::HELD);
                let held = self.b.ins().band_imm_s(held, bit);
                let there = self.load_join(join, field);
                word = self.b.ins().select(held, there, word);
            }
            self.store_join(join, field, word);
        }
        let answer = self.answer();
        let given = self.store_answer(join, answer);
        let exit: &'static Exit = Box::leak(Box::new(Exit {
            path: if is_sent { place.path.clone() } else { place.afresh() },
            sent: is_sent,
            way: place.way.filter(|_| !is_sent),
        }));
        let exit = self.address(std::ptr::from_ref(exit).cast());
        let zero = self.int(0);
        let (outcome, value) = match leaves {
            Leaves::Before => (zero, zero),
            Leaves::Behind(sent) => (sent.outcome, sent.value),
            Leaves::Owed { owing, due } => (self.int(due.word() as i64), owing),
        };
        let helper = if self.wait.again.is_some() { Helper::LeaveWay } else { Helper::LeaveCode };
        let (outcome, value) = self.call_helper_unchecked(helper, &[exit, join, outcome, value, given]);
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }
}
