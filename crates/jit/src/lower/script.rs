//! Messages, and the ends of functions that may wait.
//!
//! A message is a call through the receiver's table. Where a request does not come back with its result, the function leaves
//! ([`bifrost_runtime::actor::leave_code`]): a cold block stores all variables for the interpreter, which goes on at that
//! statement, and what it ends with the function ends with. So no reply is ever missing in code, and nothing is left to do where one
//! is awaited.

use bifrost_heap::FIELDS_OFFSET;
use bifrost_ir::{Callee, ClassId, Destination, FuncId, FuncKind, MethodRef, Operand, Stmt, Var};
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor::layout::{join, owed};
use bifrost_runtime::actor::{AFRESH, EXIT_WORDS, Exit, Kind, Site};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::Variable;

use super::memory::Region;
use super::{End, Lower};
use crate::helper::{Creation, Helper};
use crate::script;

/// What code knows of its own waiting.
#[derive(Default)]
pub(super) struct Waiting {
    /// Whether the answer was given, and the answer, if it can be given before the end.
    answer: Option<(Variable, Variable)>,
    /// Where variables are left for the interpreter.
    slot: Option<StackSlot>,
    /// Which of them are references.
    references: Option<&'static [u32]>,
    /// Of code that goes on with a join: that, and the block that leads to its loop.
    again: Option<(Value, ir::Block)>,
}

/// A message and what it came back with.
struct Sent {
    method: MethodRef,
    outcome: Value,
    value: Value,
}

impl<'a> Lower<'_, 'a, '_> {
    /// Whether this is the code of a method of an actor itself, and not that of a body in it.
    pub(super) fn is_script(&self) -> bool {
        self.unit.func.kind == FuncKind::Script && matches!(self.scope.end, End::Function)
    }

    /// Whether a call is one of an actor on itself.
    pub(super) fn is_own_method(&self, callee: Callee) -> bool {
        script::own_method(self.unit.image.program(), callee).is_some()
    }

    /// Whether the answer of the function is a reference.
    fn answers_reference(&self) -> bool {
        self.unit.func.signature.results.first().is_some_and(|ty| self.unit.is_reference(*ty))
    }

    /// At the beginning of a function: nothing was answered.
    pub(super) fn begin_answer(&mut self) {
        if self.unit.analysis.script.answers_early {
            let (given, answer) = (self.b.declare_var(types::I64), self.b.declare_var(types::I64));
            let zero = self.int(0);
            self.b.def_var(given, zero);
            self.b.def_var(answer, zero);
            self.wait.answer = Some((given, answer));
        }
    }

    /// At the beginning of code that goes on with a join: takes the variables from there. The way to the statements before the loop stays,
    /// since they may follow it in a loop around; nothing goes it.
    pub(super) fn enter_again(&mut self, again: &Stmt, join: Value, answered: Value) {
        if let Some((given, _)) = self.wait.answer {
            self.b.def_var(given, answered);
        }
        let analysis = self.unit.analysis.clone();
        let live = &analysis.script.places[&std::ptr::from_ref(again)].before;
        for var in self.unit.func.vars.keys() {
            let word = match live.contains(&var) {
                true => {
                    let at = FIELDS_OFFSET + 8 * (join::WORDS as i32 + var.as_u32() as i32);
                    self.b.ins().load(types::I64, MemFlagsData::trusted(), join, at)
                }
                false => self.int(0),
            };
            self.write_word(var, word);
        }
        let (entered, before) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(join, entered, &[], before, &[]);
        self.b.seal_block(entered);
        self.wait.again = Some((join, entered));
        self.start(before);
    }

    /// Whether the code goes on at a loop or in it.
    pub(super) fn is_entered_in(&self, stmt: &Stmt) -> bool {
        let function = matches!(self.scope.end, End::Function);
        function && self.unit.again.is_some_and(|again| script::has(stmt, again))
    }

    /// Nothing is awaited, but code may go on here.
    pub(super) fn await_stmt(&mut self, stmt: &Stmt) {
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

    /// Whether the answer was given, and the answer.
    fn answer(&mut self) -> Option<(Value, Value)> {
        let (given, answer) = self.wait.answer?;
        let (given, answer) = (self.b.use_var(given), self.b.use_var(answer));
        if self.answers_reference() {
            self.mark(answer);
        }
        Some((given, answer))
    }

    fn give_answer(&mut self, stmt: &Stmt, word: Value) {
        if self.unit.analysis.script.places[&std::ptr::from_ref(stmt)].last {
            let returned = self.int(0);
            self.b.ins().return_(&[returned, word]);
            self.reachable = false;
            return;
        }
        let (given, answer) = self.wait.answer.expect("the analysis has found that it answers early");
        if self.answers_reference() {
            self.mark(word);
        }
        let one = self.int(1);
        self.b.def_var(given, one);
        self.b.def_var(answer, word);
    }

    pub(super) fn reply_stmt(&mut self, stmt: &Stmt, values: &[Operand]) {
        let word = match values {
            [value, ..] => self.operand_word(*value),
            [] => self.int(0),
        };
        self.give_answer(stmt, word);
    }

    /// Ends a method of an actor that comes to its end, or a function that returns.
    pub(super) fn end_answered(&mut self) {
        let zero = self.int(0);
        self.reachable = false;
        if !self.is_script() {
            self.b.ins().return_(&[zero, zero]);
            return;
        }
        let answer = self.answer();
        let results = self.unit.func.signature.results.len();
        match answer {
            None if results == 0 => {
                self.b.ins().return_(&[zero, zero]);
            }
            // Without result, what was not answered is answered now.
            Some((_, answer)) if results == 0 => {
                self.b.ins().return_(&[zero, answer]);
            }
            Some((given, answer)) => {
                let (none, done) = (self.cold_block(), self.b.create_block());
                self.b.ins().brif(given, done, &[], none, &[]);
                self.start(done);
                self.b.ins().return_(&[zero, answer]);
                self.start(none);
                self.end_unanswered();
            }
            None => self.end_unanswered(),
        }
        self.reachable = false;
    }

    fn end_unanswered(&mut self) {
        let (outcome, value) = self.call_helper_unchecked(Helper::Unanswered, &[]);
        self.b.ins().return_(&[outcome, value]);
    }

    /// Ends the function with an outcome that is not `Returned`. If it has answered, nobody awaits an exception.
    pub(super) fn end_failed(&mut self, outcome: Value, value: Value) {
        self.reachable = false;
        let Some((given, answer)) = self.answer() else {
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
        let (outcome, value) = self.call_helper_unchecked(Helper::FailedLate, &[func, outcome, answer]);
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }

    /// Sends a message.
    fn message(&mut self, method: MethodRef, args: &[Operand]) -> Sent {
        let mut words = vec![self.cx];
        for arg in args {
            let word = self.operand_word(*arg);
            words.push(word);
        }
        let entry = Table::entry_offset(self.unit.image.dispatch().slot(method));
        let table = self.load_table(words[1]);
        let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), table, entry);
        let signature = self.signature_of(words.len() - 1);
        let call = self.b.ins().call_indirect(signature, code, &words);
        let [outcome, value] = *self.b.inst_results(call) else { unreachable!("calls have two results") };
        self.arrays_change();
        Sent { method, outcome, value }
    }

    /// Goes on only if a message came back with its result; otherwise the function leaves.
    fn came_back(&mut self, stmt: &Stmt, sent: &Sent) {
        let (left, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(sent.outcome, left, &[], next, &[]);
        self.start(left);
        self.leave_code(stmt, Some(sent));
        self.start(next);
    }

    pub(super) fn send_stmt(&mut self, method: MethodRef, args: &[Operand]) {
        let limit = self.b.ins().load(types::I64, MemFlagsData::trusted(), self.cx, offset::NESTING);
        let looked = self.b.ins().icmp_imm_s(IntCC::Equal, limit, -1);
        let (slow, fast, sent) = (self.cold_block(), self.b.create_block(), self.b.create_block());
        let outcome = self.b.append_block_param(sent, types::I64);
        let value = self.b.append_block_param(sent, types::I64);
        self.b.ins().brif(looked, slow, &[], fast, &[]);

        self.start(slow);
        let words: Vec<Value> = args.iter().map(|arg| self.operand_word(*arg)).collect();
        let bytes = 8 * words.len() as u32;
        let place = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3));
        for (at, word) in words.iter().enumerate() {
            self.b.ins().stack_store(types::I64, *word, place, 8 * at as i32);
        }
        let slot = self.int(i64::from(self.unit.image.dispatch().slot(method)));
        let (address, count) = (self.b.ins().stack_addr(types::I64, place, 0), self.int(args.len() as i64));
        let (held, owing) = self.call_helper_unchecked(Helper::Send, &[slot, address, count]);
        self.b.ins().jump(sent, &[BlockArg::Value(held), BlockArg::Value(owing)]);

        self.start(fast);
        let one = self.int(1);
        self.store_cx(one, offset::PAST_SENT);
        let message = self.message(method, args);
        self.b.ins().jump(sent, &[BlockArg::Value(message.outcome), BlockArg::Value(message.value)]);

        self.start(sent);
        self.arrays_change();
        let (other, next) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(outcome, other, &[], next, &[]);
        self.start(other);
        // That it is queued in this node is no news; else the runtime is told.
        let (pending, told) = (self.cold_block(), self.cold_block());
        let waits = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Pending as i64);
        self.b.ins().brif(waits, pending, &[], told, &[]);
        self.start(pending);
        let kind = FIELDS_OFFSET + 8 * owed::KIND as i32;
        let kind = self.b.ins().load(types::I64, MemFlagsData::trusted(), value, kind);
        let queued = self.b.ins().icmp_imm_s(IntCC::Equal, kind, Kind::Message as i64);
        self.b.ins().brif(queued, next, &[], told, &[]);
        self.start(told);
        let name = i64::from(method.ty.as_u32()) << 32 | i64::from(method.method.as_u32());
        let name = self.int(name);
        self.call_helper(Helper::Sent, &[name, outcome, value]);
        self.b.ins().jump(next, &[]);
        self.start(next);
    }

    pub(super) fn request_stmt(
        &mut self,
        stmt: &Stmt,
        method: MethodRef,
        args: &[Operand],
        dst: Var,
        element: Option<Operand>,
    ) {
        let Some(element) = element else {
            let sent = self.message(method, args);
            self.came_back(stmt, &sent);
            let results = &self.unit.image.program().types.method(method).signature.results;
            let value = if results.is_empty() { self.int(0) } else { sent.value };
            self.write_word(dst, value);
            return;
        };
        let object = self.read(dst);
        let index = self.operand(element);
        let kind = self.unit.image.program().types.kind(self.scope.func.vars[dst].ty);
        self.element_place(kind, object, index);
        let sent = self.message(method, args);
        self.came_back(stmt, &sent);
        // Others do not know the array, but its elements may lie elsewhere than the code generator thinks.
        let place = self.element_place(kind, object, index);
        let element = kind.element().map_or(types::I64, |ty| self.value_type(ty));
        let value = self.unword(element, sent.value);
        self.store_element(kind, place, value);
    }

    pub(super) fn delegate_stmt(&mut self, stmt: &Stmt, method: MethodRef, args: &[Operand]) {
        let sent = self.message(method, args);
        self.came_back(stmt, &sent);
        let results = &self.unit.image.program().types.method(method).signature.results;
        let value = if results.is_empty() { self.int(0) } else { sent.value };
        self.give_answer(stmt, value);
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

    /// Leaves before a statement.
    pub(super) fn leave_before(&mut self, stmt: &Stmt) {
        self.leave_code(stmt, None);
    }

    /// Polls at the end of a step of a loop. A function that shall make way for others leaves, and goes on with the loop's condition.
    pub(super) fn poll_in(&mut self, stmt: &Stmt) {
        let leaves = matches!(self.scope.end, End::Function)
            && self.unit.analysis.script.places.contains_key(&std::ptr::from_ref(stmt));
        if !leaves {
            return self.poll();
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
        self.leave_before(stmt);
        self.start(next);
    }

    /// Whether the method that runs shall make way for others.
    fn turn_over(&mut self) -> Value {
        let over = self.b.ins().load(types::I8, MemFlagsData::trusted(), self.cx, offset::TURN_OVER);
        self.b.ins().uextend(types::I64, over)
    }

    /// A call of an actor on itself.
    pub(super) fn self_call(&mut self, stmt: &Stmt, callee: Callee, args: &[Operand], dsts: &[Var]) {
        let (program, Callee::Method(method)) = (self.unit.image.program(), callee) else {
            unreachable!("a call of a method")
        };
        let func = script::own_method(program, callee).expect("the statement calls one");
        if !script::answers_last(program, &program.funcs[func]) {
            return self.leave_before(stmt);
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
        let waits = self.b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Pending as i64);
        self.b.ins().brif(waits, left, &[], on, &[]);
        self.start(left);
        self.leave_code(stmt, Some(&Sent { method, outcome, value }));
        self.start(on);
        let dispatch = self.dispatch();
        self.b.ins().jump(dispatch, &[ir::BlockArg::Value(outcome)]);
        self.start(next);
        self.take_results(value, dsts);
    }

    /// Ends the function with what the interpreter comes to that goes on at a statement, before it or behind its message.
    fn leave_code(&mut self, stmt: &Stmt, sent: Option<&Sent>) {
        debug_assert!(matches!(self.scope.end, End::Function));
        let vars = self.unit.func.vars.len();
        let slot = *self.wait.slot.get_or_insert_with(|| {
            let bytes = 8 * (EXIT_WORDS + vars) as u32;
            self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3))
        });
        let zero = self.int(0);
        let (given, answer) = self.answer().unwrap_or((zero, zero));
        let mut words = vec![given, answer];
        let place = &self.unit.analysis.clone().script.places[&std::ptr::from_ref(stmt)];
        let live = if sent.is_some() { &place.behind } else { &place.before };
        for var in self.unit.func.vars.keys() {
            // What is not read any more must not live for this.
            let word = match live.contains(&var) {
                true => {
                    let value = self.read(var);
                    self.word(value)
                }
                false => zero,
            };
            words.push(word);
        }
        for (at, word) in words.into_iter().enumerate() {
            self.b.ins().stack_store(types::I64, word, slot, 8 * at as i32);
        }
        let exit = self.exit(stmt, sent.map(|sent| sent.method));
        let exit = self.address(std::ptr::from_ref(exit).cast());
        let words = self.b.ins().stack_addr(types::I64, slot, 0);
        let (outcome, value) = sent.map_or((zero, zero), |sent| (sent.outcome, sent.value));
        let (outcome, value) = match self.wait.again {
            None => self.call_helper_unchecked(Helper::LeaveCode, &[exit, words, outcome, value]),
            Some((join, _)) => {
                self.call_helper_unchecked(Helper::LeaveLoop, &[exit, words, outcome, value, join])
            }
        };
        self.b.ins().return_(&[outcome, value]);
        self.reachable = false;
    }

    fn exit(&mut self, stmt: &Stmt, method: Option<MethodRef>) -> &'static Exit {
        let unit = &self.unit;
        let references = *self.wait.references.get_or_insert_with(|| {
            let references = unit.func.vars.iter().filter(|(_, var)| unit.is_reference(var.ty));
            Box::leak(references.map(|(var, _)| var.as_u32()).collect())
        });
        let place = &unit.analysis.script.places[&std::ptr::from_ref(stmt)];
        Box::leak(Box::new(Exit {
            func: unit.id.expect("what clients send does not wait"),
            path: method.is_none().then_some(AFRESH).into_iter().chain(place.path.iter().copied()).collect(),
            vars: unit.func.vars.len(),
            references,
            answer: self.answers_reference(),
            method,
        }))
    }

    pub(super) fn create_stmt(
        &mut self,
        dst: Var,
        class: ClassId,
        creator: u32,
        args: &[Operand],
        place: Destination,
    ) {
        let func = self.creator(class, creator);
        // Passive code of a program that is served may run in a session, which has no actors.
        let here = self.unit.func.kind == FuncKind::Script || self.unit.image.modes().is_none();
        let small = self.worth_in_place(func).filter(|_| here);
        let (Some(analysis), Destination::Here | Destination::Anywhere) = (small, place) else {
            let actor = self.create(class, creator, args, place);
            return self.write(dst, actor);
        };
        let done = self.b.create_block();
        let actor = self.b.append_block_param(done, types::I64);
        self.mark(actor);
        if place == Destination::Anywhere {
            // Another node may have nothing to do.
            let trusted = MemFlagsData::trusted();
            let idlers = self.b.ins().load(types::I64, trusted, self.cx, offset::IDLERS);
            let idlers = self.b.ins().atomic_load(types::I32, trusted, idlers);
            let (other, here) = (self.cold_block(), self.b.create_block());
            self.b.ins().brif(idlers, other, &[], here, &[]);
            self.start(other);
            let made = self.create(class, creator, args, place);
            self.b.ins().jump(done, &[BlockArg::Value(made)]);
            self.start(here);
        }
        let fields = self.unit.image.program().classes[class].fields.len();
        let ty = self.unit.image.program().classes[class].ty;
        let zero = self.int(0);
        let regions: Vec<Region> =
            (0..fields as u32).map(|field| self.field_region(class, field)).chain([Region::Heads]).collect();
        let made = self.new_object(ty, &vec![zero; fields + 1], |field| regions[field]);
        let values = args.iter().map(|arg| self.operand(*arg)).collect::<Vec<_>>();
        self.create_in_place(func, analysis, [vec![made], values].concat(), class, made);
        if self.reachable {
            self.count(offset::CREATED);
            self.b.ins().jump(done, &[BlockArg::Value(made)]);
        }
        self.start(done);
        self.write(dst, actor);
    }

    /// Adds one to a counter of the context.
    fn count(&mut self, counter: i32) {
        let count = self.b.ins().load(types::I64, MemFlagsData::trusted(), self.cx, counter);
        let count = self.b.ins().iadd_imm_s(count, 1);
        self.b.ins().store(MemFlagsData::trusted(), count, self.cx, counter);
    }

    fn creator(&self, class: ClassId, creator: u32) -> FuncId {
        let class = &self.unit.image.program().classes[class];
        class.actor.as_ref().expect("a class of actors").creators[creator as usize]
    }

    /// Has the runtime make an actor.
    fn create(&mut self, class: ClassId, creator: u32, args: &[Operand], place: Destination) -> Value {
        let func = self.creator(class, creator);
        let unit = &self.unit;
        let program = unit.image.program();
        let params = (0..).zip(&program.funcs[func].signature.params);
        let references = params.filter(|(_, param)| unit.is_reference(param.ty)).map(|(at, _)| at + 1);
        let creation: &'static Creation = Box::leak(Box::new(Creation {
            table: unit.image.table_of(program.classes[class].ty),
            creator,
            references: references.collect(),
            site: match place {
                Destination::Here => Site::Here,
                Destination::On(_) => Site::On(0),
                Destination::Anywhere => Site::Anywhere,
            },
        }));
        let node = match place {
            Destination::On(node) => self.operand_word(node),
            Destination::Here | Destination::Anywhere => self.int(0),
        };
        let bytes = 8 * (1 + args.len()) as u32;
        let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3));
        for (at, arg) in args.iter().enumerate() {
            let word = self.operand_word(*arg);
            self.b.ins().stack_store(types::I64, word, slot, 8 * (1 + at) as i32);
        }
        let creation = self.address(std::ptr::from_ref(creation).cast());
        let words = self.b.ins().stack_addr(types::I64, slot, 0);
        let count = self.int(1 + args.len() as i64);
        let actor = self.call_helper(Helper::Create, &[creation, words, count, node]);
        self.arrays_change();
        actor
    }

    /// Whether objects of a class are actors, which are always open.
    pub(super) fn are_actors(&self, class: ClassId) -> bool {
        self.unit.image.program().classes[class].actor.is_some()
    }
}
