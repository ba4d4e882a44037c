//! Turns of actors: messages are taken out of their queue and served (003 section 4.2).

use std::collections::BTreeSet;

use bifrost_actors::entries;
use bifrost_heap::{HEADER_OFFSET, OBJECT_WORDS, SIZE_MASK, TABLE_OFFSET};
use bifrost_runtime::Code;
use bifrost_runtime::actor_class::{ActorClass, State};
use bifrost_runtime::actor_layout::{mail, message, owed};
use bifrost_runtime::cx::offset;
use bifrost_runtime::image::Table;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value, types};
use cranelift_frontend::FunctionBuilder;

use crate::actors::entries::{address, cold_block, field, load, spare, store};
use crate::{CompileError, Jit, exit};

/// Each list is looked at for the oldest message: of classes with more than these the runtime does
/// it.
const LISTS_MAX: usize = 16;

/// Takes the oldest message that waits.
fn take(b: &mut FunctionBuilder<'_>, post: Value, lists: usize) -> Value {
    let first = |list: usize| field(mail::LISTS + 2 * list);
    if lists == 1 {
        let sent = load(b, post, first(0));
        // It still leads to the next one, which is served after it.
        take_out(b, post, sent);
        return sent;
    }
    let none = b.ins().iconst(types::I64, 0);
    let (mut oldest, mut which, mut least) = (none, none, b.ins().iconst(types::I64, -1));
    for list in 0..lists {
        let first = load(b, post, first(list));
        let (some, next) = (b.create_block(), b.create_block());
        let [to, of, number] = [(); 3].map(|()| b.append_block_param(next, types::I64));
        b.ins().brif(first, some, &[], next, &[oldest.into(), which.into(), least.into()]);
        b.switch_to_block(some);
        let its = load(b, first, field(message::NUMBER));
        let this = b.ins().iconst(types::I64, list as i64);
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
    let at = b.ins().ishl_imm_u(which, 4);
    let list = b.ins().iadd(post, at);
    take_out(b, list, oldest);
    let nothing = b.ins().iconst(types::I64, 0);
    store(b, nothing, oldest, field(message::NEXT));
    oldest
}

/// Takes the first message out of a list; `list` is as far behind the mail as the list is behind
/// the first one.
fn take_out(b: &mut FunctionBuilder<'_>, list: Value, first: Value) {
    let next = load(b, first, field(message::NEXT));
    store(b, next, list, field(mail::LISTS));
    let (last, taken) = (b.create_block(), b.create_block());
    b.ins().brif(next, taken, &[], last, &[]);
    b.switch_to_block(last);
    store(b, next, list, field(mail::LISTS + 1));
    b.ins().jump(taken, &[]);
    b.switch_to_block(taken);
}

impl Jit {
    /// See [`bifrost_runtime::Engine::turns`].
    pub(crate) fn turns(&self, class: &ActorClass) -> Result<Code, CompileError> {
        if class.functional || class.lists > LISTS_MAX || class.methods == 0 {
            return Err(CompileError::Refused("an actor with many methods".to_owned()));
        }
        let (_, code) = self.small_with_roots(self.signature(2), |b, words, roots| {
            let (cx, actor, most) = (words[0], words[1], words[2]);
            // The message that is served; the caller that gives the actor the turn keeps the actor.
            let kept = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3));
            roots.words.push((kept, 0));
            let head = b.create_block();
            let [left, post, waiting] = [(); 3].map(|()| b.append_block_param(head, types::I64));
            let first = load(b, actor, field(class.mail));
            let all = load(b, first, field(mail::COUNT));
            let longest = load(b, cx, offset::LONGEST_QUEUE);
            let messages = if class.carries { b.ins().band_imm_u(all, i64::from(u32::MAX)) } else { all };
            let longer = b.ins().icmp(IntCC::UnsignedGreaterThan, messages, longest);
            let longest = b.ins().select(longer, messages, longest);
            store(b, longest, cx, offset::LONGEST_QUEUE);
            b.ins().jump(head, &[most.into(), first.into(), all.into()]);

            b.switch_to_block(head);
            let sent = take(b, post, class.lists);
            let mut waiting = b.ins().iadd_imm_s(waiting, -1);
            if class.carries {
                let kind = load(b, sent, field(owed::KIND));
                let carried = b.ins().ushr_imm_u(kind, i64::from(message::CARRIED_SHIFT));
                let carried = b.ins().band_imm_u(carried, message::CARRIED_MAX as i64);
                let carried = b.ins().ishl_imm_u(carried, i64::from(mail::CARRIED_SHIFT));
                waiting = b.ins().isub(waiting, carried);
            }
            store(b, waiting, post, field(mail::COUNT));
            b.ins().stack_store(types::I64, sent, kept, 0);

            let slot = load(b, sent, field(owed::KIND));
            let slot = b.ins().ushr_imm_u(slot, i64::from(message::SLOT_SHIFT));
            let entries = address(b, class.code);
            let at = b.ins().ishl_imm_u(slot, 3);
            let entry = b.ins().iadd(entries, at);
            let entry = load(b, entry, Table::entry_offset(0));
            let (settles, settled) = (b.create_block(), b.create_block());
            let [outcome, value] = [(); 2].map(|()| b.append_block_param(settles, types::I64));
            // Methods that take as many words are called in one place.
            let counts: BTreeSet<usize> = class.messages.iter().map(|kind| kind.args).collect();
            let calls: Vec<(usize, Block)> =
                counts.into_iter().map(|args| (args, b.create_block())).collect();
            let header = load(b, sent, HEADER_OFFSET);
            let size = b.ins().band_imm_u(header, SIZE_MASK as i64);
            for (at, (args, call)) in calls.iter().enumerate() {
                if at + 1 == calls.len() {
                    b.ins().jump(*call, &[]);
                } else {
                    let words = (OBJECT_WORDS + message::ARGS + args) as i64;
                    let this = b.ins().icmp_imm_s(IntCC::Equal, size, words);
                    let next = b.create_block();
                    b.ins().brif(this, *call, &[], next, &[]);
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
                let sent = b.ins().stack_load(types::I64, types::I64, kept, 0);
                let awaited = load(b, sent, field(owed::TO));
                let unlike = b.ins().bor(awaited, outcome);
                let done = b.create_block();
                b.ins().brif(unlike, settles, &[outcome.into(), value.into()], done, &[]);
                // Nobody knows the message any more.
                b.switch_to_block(done);
                if let Some(spare) = spare(args) {
                    let others = load(b, cx, spare);
                    store(b, others, sent, field(message::NEXT));
                    store(b, sent, cx, spare);
                }
                b.ins().jump(settled, &[]);
            }

            b.switch_to_block(settles);
            let sent = b.ins().stack_load(types::I64, types::I64, kept, 0);
            exit::record(b, cx, &[sent]);
            let call = self.pass_on(b, &[cx, sent, outcome, value], entries::settle_sent as *const u8);
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
            let mut ends = b.ins().bor(waiter, late);
            if class.ends {
                // It is to end, and serves no further message.
                let failure = load(b, post, field(mail::FAILURE));
                ends = b.ins().bor(ends, failure);
            }
            if class.lists > 1 {
                // It may select, or be at rest since it was asked whether it refuses.
                let (table, active) = (load(b, actor, TABLE_OFFSET), address(b, class.table(State::Active)));
                let other = b.ins().bxor(table, active);
                ends = b.ins().bor(ends, other);
            }
            b.ins().brif(ends, over, &[], more, &[]);
            b.switch_to_block(more);
            let waiting = load(b, post, field(mail::COUNT));
            let any = b.create_block();
            b.ins().brif(waiting, any, &[], over, &[]);
            b.switch_to_block(any);
            b.ins().brif(left, head, &[left.into(), post.into(), waiting.into()], over, &[]);

            b.switch_to_block(over);
            let nothing = b.ins().iconst(types::I64, 0);
            b.ins().return_(&[nothing, nothing]);
        })?;
        Ok(code)
    }
}
