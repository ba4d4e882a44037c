//! Turns of actors: messages are taken out of their queue and served (003 section 4.2).

use bifrost_heap::TABLE_OFFSET;
use bifrost_runtime::Code;
use bifrost_runtime::actor::layout::{mail, message, owed};
use bifrost_runtime::actor::{self, ActorClass, State};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::FunctionBuilder;

use crate::messages::{address, cold_block, field, load, store};
use crate::{CompileError, Jit, exit};

/// The queue of each method is looked at for the oldest message: of classes with more methods than these the runtime does it.
const METHODS_MAX: usize = 16;

/// The oldest message that waits, and the number of its method.
fn oldest(b: &mut FunctionBuilder<'_>, post: Value, methods: usize) -> (Value, Value) {
    let none = b.ins().iconst(types::I64, 0);
    let (mut oldest, mut which, mut least) = (none, none, b.ins().iconst(types::I64, -1));
    for method in 0..methods {
        let first = load(b, post, field(mail::LISTS + 2 * method));
        let (some, next) = (b.create_block(), b.create_block());
        let [to, of, number] = [(); 3].map(|()| b.append_block_param(next, types::I64));
        b.ins().brif(first, some, &[], next, &[oldest.into(), which.into(), least.into()]);
        b.switch_to_block(some);
        let its = load(b, first, field(message::NUMBER));
        let this = b.ins().iconst(types::I64, method as i64);
        let older = b.ins().icmp(IntCC::UnsignedLessThan, its, least);
        let (this, its, first) = (
            b.ins().select(older, this, which),
            b.ins().select(older, its, least),
            b.ins().select(older, first, oldest),
        );
        b.ins().jump(next, &[first.into(), this.into(), its.into()]);
        b.switch_to_block(next);
        (oldest, which, least) = (to, of, number);
    }
    (oldest, which)
}

/// Takes the first message of a method out of its queue.
fn take(b: &mut FunctionBuilder<'_>, post: Value, first: Value, which: Value) {
    let at = b.ins().ishl_imm_u(which, 4);
    let list = b.ins().iadd(post, at);
    let next = load(b, first, field(message::NEXT));
    store(b, next, list, field(mail::LISTS));
    let (last, taken) = (b.create_block(), b.create_block());
    b.ins().brif(next, taken, &[], last, &[]);
    b.switch_to_block(last);
    store(b, next, list, field(mail::LISTS + 1));
    b.ins().jump(taken, &[]);
    b.switch_to_block(taken);
    let nothing = b.ins().iconst(types::I64, 0);
    store(b, nothing, first, field(message::NEXT));
}

impl Jit {
    /// See [`bifrost_runtime::Engine::turns`].
    pub(crate) fn turns(&self, class: &ActorClass) -> Result<Code, CompileError> {
        if class.functional || class.methods > METHODS_MAX {
            return Err(CompileError::Refused("an actor with many methods".to_owned()));
        }
        let (_, code) = self.small_with_roots(self.signature(2), |b, words, roots| {
            let (cx, actor, most) = (words[0], words[1], words[2]);
            // The message that is served; the actor is kept by whoever gives it the turn.
            let kept = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
            roots.words.push((kept, 0));
            let head = b.create_block();
            let left = b.append_block_param(head, types::I64);
            let post = load(b, actor, field(class.mail));
            let waiting = load(b, post, field(mail::COUNT));
            let longest = load(b, cx, offset::LONGEST_QUEUE);
            let longer = b.ins().icmp(IntCC::UnsignedGreaterThan, waiting, longest);
            let longest = b.ins().select(longer, waiting, longest);
            store(b, longest, cx, offset::LONGEST_QUEUE);
            b.ins().jump(head, &[most.into()]);

            b.switch_to_block(head);
            let post = load(b, actor, field(class.mail));
            let waiting = load(b, post, field(mail::COUNT));
            let (sent, which) = oldest(b, post, class.methods);
            take(b, post, sent, which);
            let waiting = b.ins().iadd_imm_s(waiting, -1);
            store(b, waiting, post, field(mail::COUNT));
            b.ins().stack_store(types::I64, sent, kept, 0);

            let slot = load(b, sent, field(owed::KIND));
            let slot = b.ins().ushr_imm_u(slot, i64::from(message::SLOT_SHIFT));
            let entries = address(b, class.code);
            let at = b.ins().ishl_imm_u(slot, 3);
            let entry = b.ins().iadd(entries, at);
            let entry = load(b, entry, Table::entry_offset(0));
            let served = b.create_block();
            let [outcome, value] = [(); 2].map(|()| b.append_block_param(served, types::I64));
            // Methods that take as many words are called in one place.
            let mut calls: Vec<(usize, Block)> = Vec::new();
            for (method, kind) in class.messages.iter().enumerate() {
                let known = calls.iter().find(|(args, _)| *args == kind.args);
                let call = known.map(|(_, call)| *call).unwrap_or_else(|| {
                    calls.push((kind.args, b.create_block()));
                    calls[calls.len() - 1].1
                });
                if method + 1 == class.methods {
                    b.ins().jump(call, &[]);
                } else {
                    let this = b.ins().icmp_imm_s(IntCC::Equal, which, method as i64);
                    let next = b.create_block();
                    b.ins().brif(this, call, &[], next, &[]);
                    b.switch_to_block(next);
                }
            }
            for (args, call) in calls {
                b.switch_to_block(call);
                let mut words = vec![cx, actor];
                words.extend((0..args).map(|at| load(b, sent, field(message::ARGS + at))));
                let signature = b.import_signature(self.signature(args + 1));
                let call = b.ins().call_indirect(signature, entry, &words);
                let [outcome, value] = *b.inst_results(call) else { unreachable!("calls have two results") };
                b.ins().jump(served, &[outcome.into(), value.into()]);
            }

            b.switch_to_block(served);
            let sent = b.ins().stack_load(types::I64, types::I64, kept, 0);
            let awaited = load(b, sent, field(owed::TO));
            let unlike = b.ins().bor(awaited, outcome);
            let (settles, settled) = (b.create_block(), b.create_block());
            b.ins().brif(unlike, settles, &[], settled, &[]);
            b.switch_to_block(settles);
            exit::record(b, cx, &[sent]);
            let call = self.pass_on(b, &[cx, sent, outcome, value], actor::settle_sent as *const u8);
            let [ended, nothing] = *b.inst_results(call) else { unreachable!("calls have two results") };
            let killed = cold_block(b);
            b.ins().brif(ended, killed, &[], settled, &[]);
            b.switch_to_block(killed);
            b.ins().return_(&[ended, nothing]);

            b.switch_to_block(settled);
            let (has_mail, more, over) = (b.create_block(), b.create_block(), b.create_block());
            let left = b.ins().iadd_imm_s(left, -1);
            let post = load(b, actor, field(class.mail));
            b.ins().brif(post, has_mail, &[], over, &[]);
            b.switch_to_block(has_mail);
            let waiter = load(b, post, field(mail::WAITING));
            let late = b.ins().uload8(types::I64, MemFlagsData::trusted(), cx, offset::TURN_OVER);
            let (table, active) = (load(b, actor, TABLE_OFFSET), address(b, class.table(State::Active)));
            let other = b.ins().bxor(table, active);
            let ends = b.ins().bor(waiter, late);
            let ends = b.ins().bor(ends, other);
            b.ins().brif(ends, over, &[], more, &[]);
            b.switch_to_block(more);
            let waiting = load(b, post, field(mail::COUNT));
            let zero = b.ins().iconst(types::I64, 0);
            let any = b.ins().icmp_imm_s(IntCC::NotEqual, waiting, 0);
            let may = b.ins().select(any, left, zero);
            b.ins().brif(may, head, &[left.into()], over, &[]);

            b.switch_to_block(over);
            let nothing = b.ins().iconst(types::I64, 0);
            b.ins().return_(&[nothing, nothing]);
        })?;
        Ok(code)
    }
}
