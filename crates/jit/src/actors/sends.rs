//! Messages that code sends: a message is a call through the receiver's table, or of the method
//! itself where the class is known.

use crate::actors::entries;
use crate::actors::waits::{Leaves, Stops};
use crate::helper::Helper;
use crate::lower::{Entry, Lower};
use crate::private::ForRequest;
use bifrost_actors::{LOOKS, given};
use bifrost_ir::ways::own_method;
use bifrost_ir::{Body, Callee, Destination, MethodRef, Operand, Stmt, TypeKind, Var};
use bifrost_runtime::Form;
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor_class::{ActorClass, State};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, Value, types};

/// A message and its outcome and value.
pub(crate) struct Sent {
    pub(crate) method: MethodRef,
    pub(crate) outcome: Value,
    pub(crate) value: Value,
}

impl<'a> Lower<'_, 'a, '_> {
    /// True if a call is one of an actor on itself.
    pub(crate) fn is_own_method(&self, callee: Callee) -> bool {
        own_method(self.unit.image.program(), callee).is_some()
    }

    /// At the beginning of an entry of actors at rest: goes on if the message may be a call.
    pub(crate) fn enter_message(&mut self, entry: Entry) {
        let (room, deep) = (self.b.create_block(), self.cold_block());
        entries::look_for_room(&mut self.b, self.cx, room, deep);
        self.start(deep);
        let words = self.b.block_params(self.entry).to_vec();
        let signature = self.signature_of(words.len() - 1);
        let slow = self.address(entry.slow.0);
        let call = self.b.ins().call_indirect(signature, slow, &words);
        let results = self.b.inst_results(call).to_vec();
        self.b.ins().return_(&results);
        self.start(room);
        entries::count(&mut self.b, self.cx, offset::DIRECT);
    }

    /// Sends a message. Returns its outcome, and the block for code that knows that it has
    /// returned: with the result, if it is a request.
    pub(crate) fn message(&mut self, method: MethodRef, args: &[Operand], form: Form) -> (Sent, ir::Block) {
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
    pub(crate) fn enter_code(&mut self, code: Value, words: &[Value]) -> [Value; 2] {
        let signature = self.signature_of(words.len() - 1);
        let call = self.b.ins().call_indirect(signature, code, words);
        let [outcome, value] = *self.b.inst_results(call) else { unreachable!("calls have two results") };
        [outcome, value]
    }

    /// Makes a message to an actor of just this class that is at rest a call of its method, without
    /// the entry of its table (`docs/internals/actors.md`). Goes to the first block with the
    /// outcome and value, or, if it certainly has returned, to the second; the code that follows is
    /// for all other receivers.
    pub(crate) fn call_of_resting(
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
        let Some(class) = class.filter(|class| entries::may_be_call(class, method.method)) else { return };
        let (rests, room, other) = (self.b.create_block(), self.b.create_block(), self.cold_block());
        let dormant = self.address(std::ptr::from_ref(class.table(State::Dormant)).cast());
        let is = self.b.ins().icmp(IntCC::Equal, table, dormant);
        self.b.ins().brif(is, rests, &[], other, &[]);
        self.start(rests);
        entries::look_for_room(&mut self.b, self.cx, room, other);
        self.start(room);
        let actor = words[1];
        if self.method_in_place(class, method, args, slot, form, [done, returned]) {
            return self.start(other);
        }
        let came = self.call_method(class, slot, form, words);
        let [outcome, value] = came;
        let Some(asks) = entries::asks(&mut self.b, class, form, |_| actor, outcome) else {
            self.b.ins().jump(done, &came.map(BlockArg::Value));
            return self.start(other);
        };
        let (ended, rests) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(asks, ended, &[], rests, &[]);
        self.start(ended);
        if !class.functional {
            let [rest, wait, ask] = [(); 3].map(|()| self.cold_block());
            let at_rest = if form == Form::Request { rest } else { ask };
            entries::look_at_waiting(&mut self.b, class, actor, came, [at_rest, wait, ask]);
            self.start(wait);
            match form {
                Form::Request => self.b.ins().jump(done, &came.map(BlockArg::Value)),
                Form::Past => self.b.ins().jump(returned, &[]),
            };
            if form == Form::Request {
                self.start(rest);
                entries::rests(&mut self.b, class, |_| actor);
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
        entries::rests(&mut self.b, class, |_| actor);
        match form {
            Form::Request => self.b.ins().jump(returned, &[BlockArg::Value(value)]),
            Form::Past => self.b.ins().jump(returned, &[]),
        };
        self.start(other);
    }

    /// Lowers the method of an actor at rest of just this class in place of a message to it, if it
    /// is plain and small. Goes to the first block with its outcome, or, if it certainly has
    /// returned, to the second.
    pub(crate) fn method_in_place(
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
        entries::count(&mut self.b, self.cx, offset::DIRECT);
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
    pub(crate) fn call_method(
        &mut self,
        class: &ActorClass,
        slot: u32,
        form: Form,
        words: &[Value],
    ) -> [Value; 2] {
        entries::begin_call(&mut self.b, class, form, self.cx, words[1]);
        let code = self.address(std::ptr::from_ref(class.code).cast());
        let code = self.b.ins().load(types::I64, MemFlagsData::trusted(), code, Table::entry_offset(slot));
        self.enter_code(code, words)
    }

    /// Lowers a request to a new actor of which no other code knows. If its method is called at
    /// once, any actor of the class stands for it, and none is made: goes to the block with the
    /// outcome and value. The code that follows is for all other cases, with the actor, whose table
    /// is returned.
    pub(crate) fn call_of_new(
        &mut self,
        new: ForRequest,
        slot: u32,
        words: &mut Vec<Value>,
        done: ir::Block,
    ) -> Value {
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
        entries::look_for_room(&mut self.b, self.cx, room, other);
        self.start(room);
        entries::count(&mut self.b, self.cx, offset::CREATED);
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
    pub(crate) fn unless_elsewhere(&mut self, other: ir::Block) {
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
    pub(crate) fn unless_spread(&mut self, other: ir::Block) {
        let here = self.b.create_block();
        let spreads = self.load_cx(offset::SPREADS);
        self.b.ins().brif(spreads, other, &[], here, &[]);
        self.start(here);
    }

    /// Goes on only if a message came back with its result, the second value. Otherwise it goes to
    /// the first, a block with two parameters: the outcome, and the object that owes the answer or
    /// the exception, which is kept.
    pub(crate) fn came_back(&mut self, (sent, returned): (Sent, ir::Block)) -> (ir::Block, Value) {
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

    /// A method as a word for helpers.
    pub(crate) fn method_word(&mut self, method: MethodRef) -> Value {
        self.int(i64::from(method.ty.as_u32()) << 32 | i64::from(method.method.as_u32()))
    }

    pub(crate) fn send_stmt(&mut self, method: MethodRef, args: &[Operand]) {
        let (sent, returned) = self.message(method, args, Form::Past);
        // Killed, or signalled: then it was not sent.
        let dispatch = self.dispatch();
        self.b.ins().brif(sent.outcome, dispatch, &[BlockArg::Value(sent.outcome)], returned, &[]);
        self.start(returned);
    }

    pub(crate) fn request_stmt(
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

    pub(crate) fn delegate_stmt(&mut self, stmt: &Stmt, method: MethodRef, args: &[Operand]) {
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
}
