//! Messages, and the ends of functions that may wait.
//!
//! A message is a call through the receiver's table. A request that does not come back with its
//! result gets a join, which takes the reply ([`bifrost_actors::pend`]), and the code goes
//! on. Where replies are awaited it asks the join if the variable is *held* there. The code leaves
//! ([`bifrost_actors::leave_code`]) in three cases:
//!
//! - a variable that it awaits is held;
//! - the function makes way for others;
//! - it comes to a statement that is not compiled.
//!
//! It leaves in a cold block, which stores the variables in the join and ends the function with the
//! outcome of that helper. So the way on which all is answered at once costs one comparison for
//! each wait.

use bifrost_actors::{Exit, LOOKS, given, layout_for};
use bifrost_heap::FIELDS_OFFSET;
use bifrost_ir::ways::own_method;
use bifrost_ir::{Body, Callee, Destination, FuncKind, MethodRef, Operand, Stmt, TypeKind, Var};
use bifrost_runtime::Form;
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor_class::{ActorClass, State};
use bifrost_runtime::actor_layout::{Due, Kind, join, owed};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::Variable;

use super::known::View;
use super::memory::Region;
use super::{End, Entry, Lower};
use crate::helper::Helper;
use crate::private::ForRequest;
use crate::{messages, script};

/// The state of the answer of a function that may go on after it.
#[derive(Clone, Copy)]
struct Answer {
    /// One of [`given`].
    given: Variable,
    word: Variable,
    /// The object that owes the answer, if it was delegated.
    owing: Option<Variable>,
}

/// The state of code that may wait.
#[derive(Default)]
pub(super) struct Waiting {
    answer: Option<Answer>,
    /// The join, or 0, of code that has begun without one.
    join: Option<StackSlot>,
    /// Of code that goes on with a join: that, and the block that leads to where it does.
    again: Option<(Value, ir::Block)>,
    /// The block in which the code stops at the wait that follows the request just lowered, and
    /// with which reply missing.
    stops: Option<(*const Stmt, Stops)>,
}

/// A block in which code stops at a wait; its parameter is the object that owes a reply that no
/// join has yet, or 0.
#[derive(Clone, Copy)]
struct Stops {
    block: ir::Block,
    due: Due,
}

/// A message and its outcome and value.
struct Sent {
    method: MethodRef,
    outcome: Value,
    value: Value,
}

/// The way in which the function goes on at a statement at which its code leaves.
enum Leaves<'s> {
    /// With the statement.
    Before,
    /// Behind the message that the statement has sent.
    Behind(&'s Sent),
    /// With the statement, a wait, when a reply has come that is owed by this, if it is not 0.
    Owed { owing: Value, due: Due },
}

/// The place of a field of a join.
fn join_offset(field: usize) -> i32 {
    FIELDS_OFFSET + 8 * field as i32
}

impl<'a> Lower<'_, 'a, '_> {
    /// True if this is the code of a method of an actor itself, and not that of a body in it.
    pub(super) fn is_script(&self) -> bool {
        self.unit.func.kind == FuncKind::Script && matches!(self.scope.end, End::Function)
    }

    /// True if a call is one of an actor on itself.
    pub(super) fn is_own_method(&self, callee: Callee) -> bool {
        own_method(self.unit.image.program(), callee).is_some()
    }

    /// True if the answer of the function is a reference.
    fn answers_reference(&self) -> bool {
        self.unit.func.signature.results.first().is_some_and(|ty| self.unit.is_reference(*ty))
    }

    /// At the beginning of an entry of actors at rest: goes on if the message may be a call.
    pub(super) fn enter_message(&mut self, entry: Entry) {
        let (room, deep) = (self.b.create_block(), self.cold_block());
        messages::look_for_room(&mut self.b, self.cx, room, deep);
        self.start(deep);
        let words = self.b.block_params(self.entry).to_vec();
        let signature = self.signature_of(words.len() - 1);
        let slow = self.address(entry.slow.0);
        let call = self.b.ins().call_indirect(signature, slow, &words);
        let results = self.b.inst_results(call).to_vec();
        self.b.ins().return_(&results);
        self.start(room);
        messages::count(&mut self.b, self.cx, offset::DIRECT);
    }

    /// At the beginning of a function: nothing was answered, and there is no join.
    pub(super) fn begin_answer(&mut self) {
        let analysis = self.unit.analysis.clone();
        let script = &analysis.script;
        let zero = self.int(0);
        if script.answers_early {
            let mut declare = || {
                let var = self.b.declare_var(types::I64);
                self.b.def_var(var, zero);
                var
            };
            let (given, word) = (declare(), declare());
            let owing = script.delegates.then(declare);
            self.wait.answer = Some(Answer { given, word, owing });
        }
        if script.requests && self.unit.again.is_none() {
            let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
            self.b.ins().stack_store(types::I64, zero, slot, 0);
            self.roots.words.push((slot, 0));
            self.wait.join = Some(slot);
        }
    }

    /// At the beginning of code that goes on with a join: takes the variables from there. The way
    /// to the statements before the place stays, since they may follow it in a loop around; nothing
    /// goes it.
    pub(super) fn enter_again(&mut self, again: &Stmt, join: Value, answered: Value) {
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

    fn load_join(&mut self, join: Value, field: usize) -> Value {
        self.b.ins().load(types::I64, MemFlagsData::trusted(), join, join_offset(field))
    }

    fn store_join(&mut self, join: Value, field: usize, word: Value) {
        self.b.ins().store(MemFlagsData::trusted(), word, join, join_offset(field));
    }

    /// True if the code goes on at a loop or in it.
    pub(super) fn is_entered_in(&self, stmt: &Stmt) -> bool {
        let function = matches!(self.scope.end, End::Function);
        function && self.unit.again.is_some_and(|again| script::has(stmt, again))
    }

    /// Stops if one of the replies is not with the code. Code may go on here.
    pub(super) fn await_stmt(&mut self, stmt: &Stmt, vars: &[Var]) {
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
    fn begin_behind(&mut self, stmt: &Stmt, next: ir::Block) {
        self.start(next);
        if self.is_entered_in(stmt) {
            let here = self.b.create_block();
            self.b.ins().jump(here, &[]);
            self.enter_at(stmt, here);
            self.start(here);
        }
    }

    /// Goes on at a block, that of a statement, if the code begins there.
    pub(super) fn enter_at(&mut self, stmt: &Stmt, header: ir::Block) {
        let function = matches!(self.scope.end, End::Function);
        if let (true, Some((_, entered)), Some(again)) = (function, self.wait.again, self.unit.again)
            && std::ptr::eq(stmt, again)
        {
            self.b.switch_to_block(entered);
            self.b.ins().jump(header, &[]);
        }
    }

    /// The state of the answer: one of [`given`], the word, and the object that owes it.
    fn answer(&mut self) -> Option<(Value, Value, Option<Value>)> {
        let Answer { given, word, owing } = self.wait.answer?;
        let (given, word) = (self.b.use_var(given), self.b.use_var(word));
        if self.answers_reference() {
            self.mark(word);
        }
        let owing = owing.map(|owing| self.b.use_var(owing));
        owing.into_iter().for_each(|owing| self.mark(owing));
        Some((given, word, owing))
    }

    /// Answers with a word, or has another answer in its place.
    fn give_answer(&mut self, stmt: &Stmt, how: u64, value: Value) {
        let by_other = how == given::DELEGATED;
        if self.unit.analysis.script.places[&std::ptr::from_ref(stmt)].last {
            let outcome = self.int(if by_other { Outcome::Pending as i64 } else { 0 });
            return self.end_with(outcome, value);
        }
        let answer = self.wait.answer.expect("the analysis has found that it answers early");
        if by_other || self.answers_reference() {
            self.mark(value);
        }
        let how = self.int(how as i64);
        self.b.def_var(answer.given, how);
        self.b.def_var(if by_other { answer.owing.expect("it delegates") } else { answer.word }, value);
    }

    pub(super) fn reply_stmt(&mut self, stmt: &Stmt, values: &[Operand]) {
        if let End::Call { done, .. } = self.scope.end {
            // A method in place of its message answers last.
            let value = values.first().map(|value| self.operand(*value));
            return self.go_on(done, value.as_slice());
        }
        let word = match values {
            [value, ..] => self.operand_word(*value),
            [] => self.int(0),
        };
        self.give_answer(stmt, given::WORD, word);
    }

    pub(super) fn reply_to_stmt(&mut self, stmt: &Stmt, dst: Var) {
        let table = self.unit.image.table_of(self.unit.func.vars[dst].ty);
        let table = self.address(std::ptr::from_ref::<Table>(table).cast());
        let replier = self.call_helper(Helper::NewReplier, &[table]);
        self.write(dst, replier);
        self.give_answer(stmt, given::DELEGATED, replier);
    }

    /// Ends a method of an actor that comes to its end, or a function that returns.
    pub(super) fn end_answered(&mut self) {
        let zero = self.int(0);
        self.reachable = false;
        if !self.is_script() {
            return self.end_with(zero, zero);
        }
        let results = self.unit.func.signature.results.len();
        let Some((given, word, owing)) = self.answer() else {
            return if results == 0 { self.end_with(zero, zero) } else { self.end_unanswered() };
        };
        if let Some(owing) = owing {
            let (delegated, own) = (self.b.create_block(), self.b.create_block());
            let by_other = self.b.ins().icmp_imm_s(IntCC::Equal, given, given::DELEGATED as i64);
            self.b.ins().brif(by_other, delegated, &[], own, &[]);
            self.start(delegated);
            let pending = self.int(Outcome::Pending as i64);
            self.end_with(pending, owing);
            self.start(own);
        }
        // Without result, a message that was not answered is answered now.
        if results > 0 {
            let (none, done) = (self.cold_block(), self.b.create_block());
            self.b.ins().brif(given, done, &[], none, &[]);
            self.start(none);
            self.end_unanswered();
            self.start(done);
        }
        let zero = self.int(0);
        self.end_with(zero, word);
    }

    fn end_unanswered(&mut self) {
        let (outcome, value) = self.call_helper_unchecked(Helper::Unanswered, &[]);
        self.end_with(outcome, value);
    }

    /// Ends the function, which may have a join that replies are still on their way to.
    pub(super) fn end_with(&mut self, outcome: Value, value: Value) {
        self.end_joined(outcome, value, None);
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }

    /// Ends the function if it has made a join. `given` is how the answer stands that is not in
    /// `outcome` and `value`.
    fn end_joined(&mut self, outcome: Value, value: Value, answer: Option<(Value, Value, Option<Value>)>) {
        let (Some(slot), None, End::Function) = (self.wait.join, self.wait.again, self.scope.end) else {
            return;
        };
        let (joined, plain) = (self.cold_block(), self.b.create_block());
        let join = self.b.ins().stack_load(types::I64, types::I64, slot, 0);
        self.b.ins().brif(join, joined, &[], plain, &[]);
        self.start(joined);
        let given = self.store_answer(join, answer);
        let (outcome, value) = self.call_helper_unchecked(Helper::EndCode, &[join, outcome, value, given]);
        self.b.ins().return_(&[outcome, value]);
        self.start(plain);
    }

    /// Stores how the answer stands in a join; the word that says so.
    fn store_answer(&mut self, join: Value, answer: Option<(Value, Value, Option<Value>)>) -> Value {
        let Some((given, word, owing)) = answer else { return self.int(given::NOT as i64) };
        self.store_join(join, join::ANSWER, word);
        if let Some(owing) = owing {
            self.store_join(join, join::DELEGATED, owing);
        }
        given
    }

    /// Ends the function with an outcome that is not `Returned`. If it has answered, nobody awaits
    /// an exception.
    pub(super) fn end_failed(&mut self, outcome: Value, value: Value) {
        self.reachable = false;
        let answer = self.answer();
        self.end_joined(outcome, value, answer);
        self.reachable = false;
        let Some((given, word, owing)) = answer else {
            self.b.ins().return_(&[outcome, value]);
            return;
        };
        let (late, early) = (self.cold_block(), self.cold_block());
        self.b.ins().brif(given, late, &[], early, &[]);
        self.start(early);
        self.b.ins().return_(&[outcome, value]);
        self.start(late);
        let func = self.unit.id.expect("what clients send does not answer");
        let func = self.int(i64::from(func.as_u32()));
        let answer = owing.map_or(word, |owing| {
            let by_other = self.b.ins().icmp_imm_s(IntCC::Equal, given, given::DELEGATED as i64);
            self.b.ins().select(by_other, owing, word)
        });
        let (outcome, value) =
            self.call_helper_unchecked(Helper::FailedLate, &[func, outcome, given, answer]);
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }

    /// Sends a message. Returns its outcome, and the block for code that knows that it has
    /// returned: with the result, if it is a request.
    fn message(&mut self, method: MethodRef, args: &[Operand], form: Form) -> (Sent, ir::Block) {
        let mut words = vec![self.cx];
        let new = match args[0] {
            Operand::Var(var) => self.scope.analysis.for_requests.get(&var).copied(),
            Operand::Const(_) => None,
        };
        for arg in &args[usize::from(new.is_some())..] {
            let word = self.operand_word(*arg);
            words.push(word);
        }
        let image = self.unit.image;
        let slot = image.dispatch().slot(method);
        let (done, returned) = (self.b.create_block(), self.b.create_block());
        let outcome = self.b.append_block_param(done, types::I64);
        let value = self.b.append_block_param(done, types::I64);
        if form == Form::Request {
            self.b.append_block_param(returned, types::I64);
        }
        let table = match new {
            Some(new) => self.call_of_new(new, slot, &mut words, done),
            None => {
                let table = self.load_table(words[1]);
                self.call_of_resting(method, form, table, &words, args, [done, returned]);
                table
            }
        };
        let entry = Table::entry_offset(image.entry(slot, form));
        let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), table, entry);
        let came = self.enter_code(code, &words);
        self.b.ins().jump(done, &came.map(BlockArg::Value));
        self.start(done);
        self.arrays_change();
        (Sent { method, outcome, value }, returned)
    }

    /// Enters code with these words: outcome and value.
    fn enter_code(&mut self, code: Value, words: &[Value]) -> [Value; 2] {
        let signature = self.signature_of(words.len() - 1);
        let call = self.b.ins().call_indirect(signature, code, words);
        let [outcome, value] = *self.b.inst_results(call) else { unreachable!("calls have two results") };
        [outcome, value]
    }

    /// Makes a message to an actor of just this class that is at rest a call of its method, without
    /// the entry of its table (`docs/internals/actors.md`). Goes to the first block with the
    /// outcome and value, or, if it certainly has returned, to the second; the code that follows is
    /// for all other receivers.
    fn call_of_resting(
        &mut self,
        method: MethodRef,
        form: Form,
        table: Value,
        words: &[Value],
        args: &[Operand],
        [done, returned]: [ir::Block; 2],
    ) {
        let image = self.unit.image;
        let slot = image.dispatch().slot(method);
        let class = image.find_table(method.ty).and_then(|table| table.info().actor());
        let Some(class) = class.filter(|class| messages::may_be_call(class, method.method)) else { return };
        let (rests, room, other) = (self.b.create_block(), self.b.create_block(), self.cold_block());
        let dormant = self.address(std::ptr::from_ref(class.table(State::Dormant)).cast());
        let is = self.b.ins().icmp(IntCC::Equal, table, dormant);
        self.b.ins().brif(is, rests, &[], other, &[]);
        self.start(rests);
        messages::look_for_room(&mut self.b, self.cx, room, other);
        self.start(room);
        let actor = words[1];
        if self.method_in_place(class, method, args, slot, form, [done, returned]) {
            return self.start(other);
        }
        let came = self.call_method(class, slot, form, words);
        let [outcome, value] = came;
        let Some(asks) = messages::asks(&mut self.b, class, form, |_| actor, outcome) else {
            self.b.ins().jump(done, &came.map(BlockArg::Value));
            return self.start(other);
        };
        let (ended, rests) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(asks, ended, &[], rests, &[]);
        self.start(ended);
        if !class.functional {
            let [rest, wait, ask] = [(); 3].map(|()| self.cold_block());
            let at_rest = if form == Form::Request { rest } else { ask };
            messages::look_at_waiting(&mut self.b, class, actor, came, [at_rest, wait, ask]);
            self.start(wait);
            match form {
                Form::Request => self.b.ins().jump(done, &came.map(BlockArg::Value)),
                Form::Past => self.b.ins().jump(returned, &[]),
            };
            if form == Form::Request {
                self.start(rest);
                messages::rests(&mut self.b, class, |_| actor);
                self.b.ins().jump(done, &came.map(BlockArg::Value));
            }
            self.start(ask);
        }
        let (outcome, ended) = match form {
            Form::Request => self.call_helper_unchecked(Helper::LeaveMethod, &[actor, outcome, value]),
            Form::Past => {
                let slot = self.int(i64::from(slot));
                self.call_helper_unchecked(Helper::LeavePast, &[actor, slot, outcome, value])
            }
        };
        self.b.ins().jump(done, &[outcome, ended].map(BlockArg::Value));
        self.start(rests);
        messages::rests(&mut self.b, class, |_| actor);
        match form {
            Form::Request => self.b.ins().jump(returned, &[BlockArg::Value(value)]),
            Form::Past => self.b.ins().jump(returned, &[]),
        };
        self.start(other);
    }

    /// Lowers the method of an actor at rest of just this class in place of a message to it, if it
    /// is plain and small. Goes to the first block with its outcome, or, if it certainly has
    /// returned, to the second.
    fn method_in_place(
        &mut self,
        class: &ActorClass,
        method: MethodRef,
        args: &[Operand],
        slot: u32,
        form: Form,
        [done, returned]: [ir::Block; 2],
    ) -> bool {
        let image = self.unit.image;
        let TypeKind::Class(id) = image.program().types.kind(method.ty) else { return false };
        let Body::Func(func) = image.program().classes[id].bodies[method.method.as_u32() as usize] else {
            return false;
        };
        if !class.message(method.method).stays_at_rest || self.is_metered() {
            return false;
        }
        let Some(analysis) = self.worth_in_place(func) else { return false };
        messages::count(&mut self.b, self.cx, offset::DIRECT);
        let ended = self.cold_block();
        let outcome = self.b.append_block_param(ended, types::I64);
        let values: Vec<Value> = args.iter().map(|arg| self.operand(*arg)).collect();
        let actor = values[0];
        let results = self.message_in_place(func, analysis, values, id, ended);
        if let Some(results) = results {
            let word = match results[..] {
                [value, ..] => self.word(value),
                [] => self.int(0),
            };
            match form {
                Form::Request => self.b.ins().jump(returned, &[BlockArg::Value(word)]),
                Form::Past => self.b.ins().jump(returned, &[]),
            };
        }
        self.start(ended);
        let zero = self.int(0);
        let came = match form {
            Form::Request => [outcome, zero],
            Form::Past => {
                let slot = self.int(i64::from(slot));
                let (outcome, value) =
                    self.call_helper_unchecked(Helper::LeavePast, &[actor, slot, outcome, zero]);
                [outcome, value]
            }
        };
        self.b.ins().jump(done, &came.map(BlockArg::Value));
        true
    }

    /// Calls the method of an actor at rest: outcome and value.
    fn call_method(&mut self, class: &ActorClass, slot: u32, form: Form, words: &[Value]) -> [Value; 2] {
        messages::begin_call(&mut self.b, class, form, self.cx, words[1]);
        let code = self.address(std::ptr::from_ref(class.code).cast());
        let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), code, Table::entry_offset(slot));
        self.enter_code(code, words)
    }

    /// Lowers a request to a new actor of which no other code knows. If its method is called at
    /// once, any actor of the class stands for it, and none is made: goes to the block with the
    /// outcome and value. The code that follows is for all other cases, with the actor, whose table
    /// is returned.
    fn call_of_new(&mut self, new: ForRequest, slot: u32, words: &mut Vec<Value>, done: ir::Block) -> Value {
        let ForRequest { class, creator, place } = new;
        let image = self.unit.image;
        let known = image.table_of(image.program().classes[class].ty).info().actor();
        let known = known.expect("a class of actors");
        let any = self.int(known.any.expect("the analysis has found it") as i64);
        words.insert(1, any);
        let (room, other) = (self.b.create_block(), self.cold_block());
        if place == Destination::Anywhere {
            self.unless_elsewhere(other);
        }
        messages::look_for_room(&mut self.b, self.cx, room, other);
        self.start(room);
        messages::count(&mut self.b, self.cx, offset::CREATED);
        let came = self.call_method(known, slot, Form::Request, words);
        self.b.ins().jump(done, &came.map(BlockArg::Value));
        self.start(other);
        words[1] = self.create(class, creator, &[], place);
        if let Some(block) = self.b.current_block() {
            self.b.set_cold_block(block);
        }
        self.load_table(words[1])
    }

    /// Goes to a block in two cases. Another node may have nothing to do, and this is high enough
    /// on the stack for an actor to go there; or it is high enough for one to be given ahead.
    pub(super) fn unless_elsewhere(&mut self, other: ir::Block) {
        let trusted = MemFlagsData::trusted();
        let idlers = self.b.ins().load(types::I64, trusted, self.cx, offset::IDLERS);
        let idlers = self.b.ins().atomic_load(types::I32, trusted, idlers);
        let (asked, here, busy) = (self.cold_block(), self.b.create_block(), self.b.create_block());
        let pointer = self.b.ins().get_stack_pointer(types::I64);
        self.b.ins().brif(idlers, asked, &[], busy, &[]);
        // The same as `Actors::node_for_new` does for those that do not go, mostly.
        self.start(asked);
        let (low, counted) = (self.cold_block(), self.cold_block());
        let gives = self.load_cx(offset::GIVES_AT);
        let high = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, pointer, gives);
        self.b.ins().brif(high, other, &[], low, &[]);
        self.start(low);
        let looked = self.b.ins().load(types::I32, trusted, self.cx, offset::LOOKED);
        let looked = self.b.ins().iadd_imm_s(looked, 1);
        let last = self.b.ins().icmp_imm_s(IntCC::Equal, looked, i64::from(LOOKS));
        self.b.ins().brif(last, other, &[], counted, &[]);
        self.start(counted);
        self.b.ins().store(trusted, looked, self.cx, offset::LOOKED);
        let highest = self.load_cx(offset::HIGHEST);
        let highest = self.b.ins().umax(highest, pointer);
        self.store_cx(highest, offset::HIGHEST);
        self.b.ins().jump(here, &[]);
        self.start(busy);
        let ahead = self.load_cx(offset::AHEAD_AT);
        let high = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, pointer, ahead);
        self.b.ins().brif(high, other, &[], here, &[]);
        self.start(here);
    }

    /// Goes to a block if there are other nodes, which actors that last are spread over.
    pub(super) fn unless_spread(&mut self, other: ir::Block) {
        let here = self.b.create_block();
        let spreads = self.load_cx(offset::SPREADS);
        self.b.ins().brif(spreads, other, &[], here, &[]);
        self.start(here);
    }

    /// Goes on only if a message came back with its result, the second value. Otherwise it goes to
    /// the first, a block with two parameters: the outcome, and the object that owes the answer or
    /// the exception, which is kept.
    fn came_back(&mut self, (sent, returned): (Sent, ir::Block)) -> (ir::Block, Value) {
        let (other, signalled) = (self.cold_block(), self.cold_block());
        let (thrown, killed, came) = (self.cold_block(), self.cold_block(), self.cold_block());
        let outcome = self.b.append_block_param(came, types::I64);
        let object = self.b.append_block_param(came, types::I64);
        self.mark(object);
        self.b.ins().brif(sent.outcome, other, &[], returned, &[BlockArg::Value(sent.value)]);
        self.start(other);
        let waits = self.b.ins().icmp_imm_s(IntCC::Equal, sent.outcome, Outcome::Pending as i64);
        let pending = [BlockArg::Value(sent.outcome), BlockArg::Value(sent.value)];
        self.b.ins().brif(waits, came, &pending, signalled, &[]);
        self.start(signalled);
        let is_signal = self.b.ins().icmp_imm_s(IntCC::Equal, sent.outcome, Outcome::Signalled as i64);
        self.b.ins().brif(is_signal, thrown, &[], killed, &[]);
        self.start(killed);
        self.b.ins().return_(&[sent.outcome, sent.value]);
        self.start(thrown);
        let method = self.method_word(sent.method);
        let (_, kept) = self.call_helper_unchecked(Helper::Kept, &[method]);
        self.b.ins().jump(came, &[BlockArg::Value(sent.outcome), BlockArg::Value(kept)]);
        self.start(returned);
        debug_assert_eq!(self.b.block_params(came), [outcome, object]);
        (came, self.b.block_params(returned)[0])
    }

    /// The value of a variable for others. An array that only this code knew gets more than its
    /// storage, each time, and no code can tell. For an actor that never looks at itself any of its
    /// class is as good.
    fn read_whole(&mut self, var: Var) -> Value {
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

    /// A method as a word for helpers.
    fn method_word(&mut self, method: MethodRef) -> Value {
        self.int(i64::from(method.ty.as_u32()) << 32 | i64::from(method.method.as_u32()))
    }

    /// In a cold block: the join, made if there is none.
    fn join(&mut self) -> Value {
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
        messages::count(&mut self.b, self.cx, offset::JOINS);
        if let Some(slot) = self.wait.join {
            self.b.ins().stack_store(types::I64, made, slot, 0);
        }
        self.b.ins().jump(done, &[BlockArg::Value(made)]);
        self.start(done);
        join
    }

    /// The purpose of a reply that a variable takes, or an element of its array.
    fn due(&self, dst: Var, element: bool) -> Due {
        let pending = self.unit.analysis.script.pending.iter().position(|var| *var == dst);
        Due::new(pending.expect("it takes replies") as u16, element)
    }

    /// In the block of a request that came back without its answer: the join takes that, or the
    /// exception.
    fn pend(&mut self, came: ir::Block, dst: Var, element: Option<Operand>, next: ir::Block) {
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

    pub(super) fn send_stmt(&mut self, method: MethodRef, args: &[Operand]) {
        let (sent, returned) = self.message(method, args, Form::Past);
        // Killed, or signalled: then it was not sent.
        let dispatch = self.dispatch();
        self.b.ins().brif(sent.outcome, dispatch, &[BlockArg::Value(sent.outcome)], returned, &[]);
        self.start(returned);
    }

    pub(super) fn request_stmt(
        &mut self,
        method: MethodRef,
        args: &[Operand],
        dst: Var,
        element: Option<Operand>,
        behind: Option<&Stmt>,
    ) {
        let next = self.b.create_block();
        self.wait.stops = None;
        let Some(element) = element else {
            if let Some(awaits @ Stmt::Await { vars, .. }) = behind
                && vars.contains(&dst)
            {
                let (block, due) = (self.cold_block(), self.due(dst, false));
                let owing = self.b.append_block_param(block, types::I64);
                self.mark(owing);
                self.wait.stops = Some((awaits, Stops { block, due }));
            }
            let sent = self.message(method, args, Form::Request);
            let (came, value) = self.came_back(sent);
            let results = &self.unit.image.program().types.method(method).signature.results;
            let value = if results.is_empty() { self.int(0) } else { value };
            let word = self.b.append_block_param(next, types::I64);
            self.b.ins().jump(next, &[BlockArg::Value(value)]);
            self.pend(came, dst, None, next);
            self.start(next);
            return self.write_word(dst, word);
        };
        let object = self.read(dst);
        let index = self.operand(element);
        let kind = self.unit.image.program().types.kind(self.scope.func.vars[dst].ty);
        self.element_place(kind, object, index);
        let sent = self.message(method, args, Form::Request);
        let (came, value) = self.came_back(sent);
        // Others do not know the array, but its elements may lie elsewhere than the code generator
        // thinks. Where the reply is missing nothing is found out about the array, so nothing of
        // that is known behind the request.
        self.on_some_paths(|this| {
            let place = this.element_place(kind, object, index);
            let value = this.unword(kind.element().map_or(types::I64, |ty| this.value_type(ty)), value);
            this.store_element(kind, place, value);
        });
        self.b.ins().jump(next, &[]);
        self.pend(came, dst, Some(element), next);
        self.start(next);
    }

    pub(super) fn delegate_stmt(&mut self, stmt: &Stmt, method: MethodRef, args: &[Operand]) {
        let sent = self.message(method, args, Form::Request);
        let (came, value) = self.came_back(sent);
        let results = &self.unit.image.program().types.method(method).signature.results;
        let value = if results.is_empty() { self.int(0) } else { value };
        let next = self.b.create_block();
        self.give_answer(stmt, given::WORD, value);
        if self.reachable {
            self.b.ins().jump(next, &[]);
        }
        let goes_on = self.reachable;
        self.start(came);
        let [outcome, object] = *self.b.block_params(came) else { unreachable!("it has two parameters") };
        let (thrown, delegated) = (self.cold_block(), self.cold_block());
        let waits = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Pending as i64);
        self.b.ins().brif(waits, delegated, &[], thrown, &[]);
        self.start(thrown);
        self.leave_code(stmt, Leaves::Behind(&Sent { method, outcome, value: object }));
        self.start(delegated);
        let owing = match self.unit.analysis.script.places[&std::ptr::from_ref(stmt)].last {
            true => object,
            // It may be answered before anybody is told of it.
            false => {
                let reference = self.int(i64::from(self.answers_reference()));
                self.call_helper(Helper::KeepAnswer, &[object, reference])
            }
        };
        self.give_answer(stmt, given::DELEGATED, owing);
        if goes_on {
            self.b.ins().jump(next, &[]);
            self.start(next);
        }
    }

    pub(super) fn deliver_stmt(&mut self, replier: Operand, values: &[Operand]) {
        let replier = self.operand(replier);
        let word = match values {
            [value, ..] => self.operand_word(*value),
            [] => self.int(0),
        };
        self.call_helper(Helper::Deliver, &[replier, word]);
        self.arrays_change();
    }

    /// Polls at the end of a step of a loop. A function that shall make way for others leaves, and
    /// goes on with the loop's condition.
    pub(super) fn poll_in(&mut self, stmt: &Stmt) {
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
    fn turn_over(&mut self) -> Value {
        let over = self.b.ins().load(types::I8, MemFlagsData::trusted(), self.cx, offset::TURN_OVER);
        self.b.ins().uextend(types::I64, over)
    }

    /// A call of an actor on itself.
    pub(super) fn self_call(&mut self, stmt: &Stmt, callee: Callee, args: &[Operand], dsts: &[Var]) {
        let (program, Callee::Method(method)) = (self.unit.image.program(), callee) else {
            unreachable!("a call of a method")
        };
        let func = own_method(program, callee).expect("the statement calls one");
        if !script::answers_last(program, &program.funcs[func]) {
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
    pub(super) fn leave_before(&mut self, stmt: &Stmt) {
        self.leave_code(stmt, Leaves::Before);
    }

    /// Ends the function such that it goes on at a statement.
    fn leave_code(&mut self, stmt: &Stmt, leaves: Leaves<'_>) {
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
