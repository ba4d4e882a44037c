//! The entries of actors' tables: the code that a message runs, by the state of its receiver (003
//! sections 3.2 and 4.2).
//!
//! Read [`Jit::resting`] first. The entries are, by the receiver:
//!
//! - at rest ([`Jit::resting`]): a call of the method, if there is room on the stack;
//! - busy ([`Jit::queueing`]): a message in its mail;
//! - on another node ([`Jit::remote`]): a packet.
//!
//! [`Jit::message_stub`] is the entry for all other cases: there the runtime sends the message. The
//! functions at the top are shared with the code of functions that send messages
//! ([`lower`](crate::lower)).

use bifrost_actors::outlet::Packet;
use bifrost_actors::{MAIL_LONG, entries};
use bifrost_heap::{FIELDS_OFFSET, HEADER_OFFSET, OBJECT_WORDS, SIZE_MASK, TABLE_OFFSET};
use bifrost_ir::MethodId;
use bifrost_runtime::abi::Outcome;
use bifrost_runtime::actor_class::{ActorClass, MessageKind, State};
use bifrost_runtime::actor_layout::{mail, message, owed};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use bifrost_runtime::node_words::{Outlet, SPARE_ARGS};
use bifrost_runtime::{Code, Form, MethodEntry};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, Inst, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::FunctionBuilder;

use crate::{CompileError, Jit, exit, helper};

/// The place of a field of an object.
pub(crate) fn field(at: usize) -> i32 {
    FIELDS_OFFSET + 8 * at as i32
}

pub(crate) fn load(b: &mut FunctionBuilder<'_>, object: Value, at: i32) -> Value {
    b.ins().load(types::I64, MemFlagsData::trusted(), object, at)
}

pub(crate) fn store(b: &mut FunctionBuilder<'_>, word: Value, object: Value, at: i32) {
    b.ins().store(MemFlagsData::trusted(), word, object, at);
}

/// Adds one to a word of an object; returns the word of before.
pub(crate) fn count(b: &mut FunctionBuilder<'_>, object: Value, at: i32) -> Value {
    let before = load(b, object, at);
    let after = b.ins().iadd_imm_s(before, 1);
    store(b, after, object, at);
    before
}

pub(crate) fn cold_block(b: &mut FunctionBuilder<'_>) -> Block {
    let block = b.create_block();
    b.set_cold_block(block);
    block
}

pub(crate) fn address(b: &mut FunctionBuilder<'_>, table: &'static Table) -> Value {
    b.ins().iconst(types::I64, std::ptr::from_ref(table) as i64)
}

/// True if a message of a form to an actor at rest of a class is a call if there is room on the
/// stack.
pub(crate) fn may_be_call(class: &ActorClass, method: MethodId) -> bool {
    class.functional || class.guard(method).is_none()
}

/// Goes to the second block if there is no room on the stack for a call, or messages are looked at;
/// else to the first.
pub(crate) fn look_for_room(b: &mut FunctionBuilder<'_>, cx: Value, room: Block, deep: Block) {
    let pointer = b.ins().get_stack_pointer(types::I64);
    let limit = load(b, cx, offset::NESTING);
    let below = b.ins().icmp(IntCC::UnsignedLessThan, pointer, limit);
    b.ins().brif(below, deep, &[], room, &[]);
}

/// Goes to a block if the test holds, else on.
fn leave_if(b: &mut FunctionBuilder<'_>, test: Value, other: Block) {
    let next = b.create_block();
    b.ins().brif(test, other, &[], next, &[]);
    b.switch_to_block(next);
}

/// Goes to a block if messages are looked at, else on.
fn leave_if_looked(b: &mut FunctionBuilder<'_>, cx: Value, other: Block) {
    let limit = load(b, cx, offset::NESTING);
    let looked = b.ins().icmp_imm_s(IntCC::Equal, limit, -1);
    leave_if(b, looked, other);
}

/// Before the call of a method of an actor at rest.
pub(crate) fn begin_call(
    b: &mut FunctionBuilder<'_>,
    class: &ActorClass,
    form: Form,
    cx: Value,
    actor: Value,
) {
    count(b, cx, offset::DIRECT);
    if form == Form::Past {
        let one = b.ins().iconst(types::I64, 1);
        store(b, one, cx, offset::PAST_SENT);
    }
    if !class.functional {
        let active = address(b, class.table(State::Active));
        store(b, active, actor, TABLE_OFFSET);
    }
}

/// The place where a context has the messages with so many arguments that can be used again.
pub(crate) fn spare(args: usize) -> Option<i32> {
    (args < SPARE_ARGS).then_some(offset::SPARE + 8 * args as i32)
}

/// Returns a word that is not 0 if the runtime must decide about the actor after its method ended
/// with this outcome. Returns `None` if the runtime never has to.
pub(crate) fn asks(
    b: &mut FunctionBuilder<'_>,
    class: &ActorClass,
    form: Form,
    actor: impl FnOnce(&mut FunctionBuilder<'_>) -> Value,
    outcome: Value,
) -> Option<Value> {
    match (class.functional, form) {
        (true, Form::Request) => None,
        (true, Form::Past) => Some(outcome),
        (false, _) => {
            let actor = actor(b);
            let mail = load(b, actor, field(class.mail));
            Some(b.ins().bor(mail, outcome))
        }
    }
}

/// Decides, for an actor that is not a functional one, if the runtime must be asked indeed
/// ([`asks`]). If the method has come back without its answer, it goes
///
/// - to the first block if the actor is at rest,
/// - to the second if the method waits, which has seen to all.
///
/// In all other cases it goes to the third.
pub(crate) fn look_at_waiting(
    b: &mut FunctionBuilder<'_>,
    class: &ActorClass,
    actor: Value,
    [outcome, owing]: [Value; 2],
    [rests, waits, other]: [Block; 3],
) {
    let (pending, mailed) = (cold_block(b), cold_block(b));
    let is_pending = b.ins().icmp_imm_s(IntCC::Equal, outcome, Outcome::Pending as i64);
    b.ins().brif(is_pending, pending, &[], other, &[]);
    b.seal_block(pending);
    b.switch_to_block(pending);
    // By another address: else the code generator would keep the word read before in a register, on
    // the way on which all is answered at once.
    let behind = b.ins().iadd_imm_s(actor, 8);
    let post = load(b, behind, field(class.mail) - 8);
    b.ins().brif(post, mailed, &[], rests, &[]);
    b.seal_block(mailed);
    b.switch_to_block(mailed);
    let waiting = load(b, post, field(mail::WAITING));
    let itself = b.ins().icmp(IntCC::Equal, waiting, owing);
    b.ins().brif(itself, waits, &[], other, &[]);
}

/// Puts an actor whose method was called to rest: nothing is left to do for it.
pub(crate) fn rests(
    b: &mut FunctionBuilder<'_>,
    class: &ActorClass,
    actor: impl FnOnce(&mut FunctionBuilder<'_>) -> Value,
) {
    if !class.functional {
        let (actor, dormant) = (actor(b), address(b, class.table(State::Dormant)));
        store(b, dormant, actor, TABLE_OFFSET);
    }
}

impl Jit {
    /// See [`bifrost_runtime::Engine::message_stub`].
    pub fn message_stub(&self, slot: u32, arity: usize, references: u32, form: Form) -> Code {
        let key = (slot, arity, references, form);
        let known = self.lock().message_stubs.get(&key).copied();
        known.unwrap_or_else(|| {
            let enter = match form {
                Form::Request => entries::enter_message as *const u8,
                Form::Past => entries::enter_past as *const u8,
            };
            let code = self.words_entry(enter, slot, arity, references);
            let code = code.unwrap_or(Code(helper::no_code as *const u8));
            self.lock().message_stubs.insert(key, code);
            code
        })
    }

    /// A call of something else with these words.
    pub(crate) fn pass_on(&self, b: &mut FunctionBuilder<'_>, words: &[Value], code: *const u8) -> Inst {
        let signature = b.import_signature(self.signature(words.len() - 1));
        let address = b.ins().iconst(types::I64, code as i64);
        b.ins().call_indirect(signature, address, words)
    }

    /// Ends with such a call.
    fn end_in(&self, b: &mut FunctionBuilder<'_>, words: &[Value], code: *const u8) -> Inst {
        let call = self.pass_on(b, words, code);
        let results = b.inst_results(call).to_vec();
        b.ins().return_(&results);
        call
    }

    /// See [`bifrost_runtime::Engine::resting_entry`].
    pub(crate) fn resting(
        &self,
        to: MethodEntry<'_>,
        form: Form,
        code: Code,
        guard: Option<Code>,
    ) -> Result<Code, CompileError> {
        let MethodEntry { class, slot, arity, references, .. } = to;
        let slow = self.message_stub(slot, arity, references, form);
        let (_, code) = self.small_with_roots(self.signature(arity), |b, words, roots| {
            let (cx, actor) = (words[0], words[1]);
            // In the frame, and not in registers that would have to be saved for them.
            let kept = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 3));
            if !class.functional || form == Form::Past {
                b.ins().stack_store(types::I64, actor, kept, 0);
                b.ins().stack_store(types::I64, cx, kept, 8);
                roots.words.push((kept, 0));
            }
            let (deep, room) = (cold_block(b), b.create_block());
            look_for_room(b, cx, room, deep);
            b.switch_to_block(deep);
            self.end_in(b, words, slow.0);

            b.switch_to_block(room);
            if let Some(guard) = guard {
                let kept = words[1..].iter().enumerate().filter(|(at, _)| references >> at & 1 == 1);
                roots.references.extend(kept.map(|(_, word)| *word));
                let others = load(b, cx, offset::RAN_OTHERS);
                let call = self.pass_on(b, words, guard.0);
                let [outcome, refused] = *b.inst_results(call) else {
                    unreachable!("calls have two results")
                };
                // The runtime finds out what the actor's state is then, and so it does if others
                // have run above the guard.
                let unlike = b.ins().bor(outcome, refused);
                let now = load(b, cx, offset::RAN_OTHERS);
                let changed = b.ins().bxor(others, now);
                let unlike = b.ins().bor(unlike, changed);
                leave_if(b, unlike, deep);
            }
            begin_call(b, class, form, cx, actor);
            let call = self.pass_on(b, words, code.0);
            let [outcome, value] = *b.inst_results(call) else { unreachable!("calls have two results") };
            let load_kept =
                |b: &mut FunctionBuilder<'_>, at| b.ins().stack_load(types::I64, types::I64, kept, at);
            let Some(asks) = asks(b, class, form, |b| load_kept(b, 0), outcome) else {
                b.ins().return_(&[outcome, value]);
                return;
            };
            let (ended, done) = (cold_block(b), b.create_block());
            b.ins().brif(asks, ended, &[], done, &[]);
            b.switch_to_block(done);
            rests(b, class, |b| load_kept(b, 0));
            b.ins().return_(&[outcome, value]);

            b.switch_to_block(ended);
            let (actor, cx) = (load_kept(b, 0), load_kept(b, 8));
            if !class.functional {
                let [rest, wait, ask] = [(); 3].map(|()| cold_block(b));
                let at_rest = if form == Form::Request { rest } else { ask };
                look_at_waiting(b, class, actor, [outcome, value], [at_rest, wait, ask]);
                b.switch_to_block(wait);
                if form == Form::Request {
                    b.ins().return_(&[outcome, value]);
                    b.switch_to_block(rest);
                    rests(b, class, |_| actor);
                    b.ins().return_(&[outcome, value]);
                } else {
                    let nothing = b.ins().iconst(types::I64, 0);
                    b.ins().return_(&[nothing, nothing]);
                }
                b.switch_to_block(ask);
            }
            match form {
                Form::Request => {
                    let call =
                        self.end_in(b, &[cx, actor, outcome, value], entries::leave_method as *const u8);
                    roots.quiet.insert(call);
                }
                Form::Past => {
                    let slot = b.ins().iconst(types::I64, i64::from(slot));
                    exit::record(b, cx, &[actor]);
                    self.end_in(b, &[cx, actor, slot, outcome, value], entries::leave_past as *const u8);
                }
            }
        })?;
        Ok(code)
    }

    /// See [`bifrost_runtime::Engine::queueing_entry`].
    pub(crate) fn queueing(&self, to: MethodEntry<'_>, form: Form) -> Result<Code, CompileError> {
        let MethodEntry { class, method, slot, arity, references } = to;
        let slow = self.message_stub(slot, arity, references, form);
        let kind = class.message(method);
        if kind.carries != 0 {
            return Err(CompileError::Refused("a message whose bytes are counted".to_owned()));
        }
        let (_, code) = self.small(self.signature(arity), |b, words| {
            let (cx, receiver) = (words[0], words[1]);
            let other = cold_block(b);
            leave_if_looked(b, cx, other);
            let post = load(b, receiver, field(class.mail));
            let none = b.ins().icmp_imm_s(IntCC::Equal, post, 0);
            leave_if(b, none, other);
            let waiting = load(b, post, field(mail::COUNT));
            let many = b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, waiting, MAIL_LONG as i64 - 1);
            leave_if(b, many, other);
            let made = self.new_message(b, cx, kind, other);
            let a_message = b.ins().iconst(types::I64, message::kind(slot) as i64);
            store(b, a_message, made, field(owed::KIND));
            for (at, word) in words[1..].iter().enumerate() {
                store(b, *word, made, field(message::RECEIVER + at));
            }
            if class.lists > 1 {
                let number = count(b, post, field(mail::NEXT_NUMBER));
                store(b, number, made, field(message::NUMBER));
            }
            let first = class.list_of(method);
            let last = load(b, post, field(first + 1));
            let (behind, alone, listed) = (b.create_block(), b.create_block(), b.create_block());
            b.ins().brif(last, behind, &[], alone, &[]);
            b.switch_to_block(behind);
            store(b, made, last, field(message::NEXT));
            b.ins().jump(listed, &[]);
            b.switch_to_block(alone);
            store(b, made, post, field(first));
            b.ins().jump(listed, &[]);
            b.switch_to_block(listed);
            store(b, made, post, field(first + 1));
            let waiting = b.ins().iadd_imm_s(waiting, 1);
            store(b, waiting, post, field(mail::COUNT));
            count(b, cx, offset::QUEUED);
            let outcome = match form {
                Form::Request => Outcome::Pending,
                Form::Past => {
                    let one = b.ins().iconst(types::I64, 1);
                    store(b, one, cx, offset::PAST_SENT);
                    Outcome::Returned
                }
            };
            let outcome = b.ins().iconst(types::I64, outcome as i64);
            b.ins().return_(&[outcome, made]);

            b.switch_to_block(other);
            self.end_in(b, words, slow.0);
        })?;
        Ok(code)
    }

    /// A message of a kind, whose fields are 0 but for those that all of the kind's size have: one
    /// that was served, or a new one. Goes to a block if there is no room.
    fn new_message(&self, b: &mut FunctionBuilder<'_>, cx: Value, kind: &MessageKind, full: Block) -> Value {
        let table = address(b, kind.table);
        let made = b.create_block();
        let message = b.append_block_param(made, types::I64);
        let fresh = b.create_block();
        if let Some(spare) = spare(kind.args) {
            let old = load(b, cx, spare);
            let again = b.create_block();
            b.ins().brif(old, again, &[], fresh, &[]);
            b.switch_to_block(again);
            let next = load(b, old, field(message::NEXT));
            store(b, next, cx, spare);
            let zero = b.ins().iconst(types::I64, 0);
            store(b, zero, old, field(message::NEXT));
            b.ins().jump(made, &[old.into()]);
        } else {
            b.ins().jump(fresh, &[]);
        }
        b.switch_to_block(fresh);
        let size = OBJECT_WORDS + message::ARGS + kind.args;
        let new = load(b, cx, offset::ALLOC_NEXT);
        let end = load(b, cx, offset::ALLOC_END);
        let after = b.ins().iadd_imm_s(new, 8 * size as i64);
        let exceeds = b.ins().icmp(IntCC::UnsignedGreaterThan, after, end);
        leave_if(b, exceeds, full);
        store(b, after, cx, offset::ALLOC_NEXT);
        let header = b.ins().iconst(types::I64, (size as u64 & SIZE_MASK) as i64);
        store(b, header, new, HEADER_OFFSET);
        // All else in new memory is zero.
        b.ins().jump(made, &[new.into()]);
        b.switch_to_block(made);
        store(b, table, message, TABLE_OFFSET);
        message
    }

    /// See [`bifrost_runtime::Engine::remote_entry`].
    pub(crate) fn remote(&self, to: MethodEntry<'_>) -> Result<Code, CompileError> {
        let MethodEntry { class, method, slot, arity, references } = to;
        let slow = self.message_stub(slot, arity, references, Form::Past);
        let packet = Packet::new(class.table(State::Remote).info().ty, method, arity - 1);
        let (_, code) = self.small(self.signature(arity), |b, words| {
            let (cx, actor) = (words[0], words[1]);
            let other = cold_block(b);
            leave_if_looked(b, cx, other);
            let outlet = load(b, cx, offset::OUTLET);
            let next = load(b, outlet, Outlet::NEXT);
            let end = load(b, outlet, Outlet::END);
            let after = b.ins().iadd_imm_s(next, packet.bytes() as i64);
            let full = b.ins().icmp(IntCC::UnsignedGreaterThan, after, end);
            leave_if(b, full, other);
            let place = load(b, actor, field(Packet::PLACE));
            let node = b.ins().ushr_imm_u(place, 32);
            let open = load(b, outlet, Outlet::NODE);
            let elsewhere = b.ins().icmp(IntCC::NotEqual, node, open);
            leave_if(b, elsewhere, other);
            let idle = load(b, outlet, Outlet::IDLE);
            let idle = b.ins().uload8(types::I64, MemFlagsData::trusted(), idle, 0);
            leave_if(b, idle, other);

            store(b, after, outlet, Outlet::NEXT);
            let bytes = MemFlagsData::new().with_notrap();
            let number = |b: &mut FunctionBuilder<'_>, [low, high]: [u32; 2]| {
                b.ins().iconst(types::I64, (u64::from(high) << 32 | u64::from(low)) as i64)
            };
            let length = number(b, [packet.length, 0]);
            b.ins().istore32(bytes, length, next, 0);
            let kind = number(b, [u32::from(packet.kind), 0]);
            b.ins().istore8(bytes, kind, next, Packet::KIND);
            b.ins().istore32(bytes, place, next, Packet::INDEX);
            let generation = load(b, actor, field(Packet::OF));
            b.ins().istore32(bytes, generation, next, Packet::GENERATION);
            for (numbers, at) in [(packet.method, Packet::METHOD), (packet.nobody, Packet::NOBODY)] {
                let both = number(b, numbers);
                b.ins().store(bytes, both, next, at);
            }
            for (word, at) in words[2..].iter().zip((Packet::ARGS..).step_by(8)) {
                b.ins().store(bytes, *word, next, at);
            }
            count(b, cx, offset::SENT);
            let one = b.ins().iconst(types::I64, 1);
            store(b, one, cx, offset::PAST_SENT);
            let nothing = b.ins().iconst(types::I64, 0);
            b.ins().return_(&[nothing, nothing]);

            b.switch_to_block(other);
            self.end_in(b, words, slow.0);
        })?;
        Ok(code)
    }
}
