//! The way of an answer, from its debtor to the method that goes on with it (002 section 3, 003
//! section 4.3). The functions to read first are [`owe`], [`deliver_owed`] and [`fill`].
//!
//! The object that owes an answer begins with [`owed`]. Its destination is entered there when it is
//! known ([`owe`]). A reply fills a variable of the join that awaits it. A join that has all it
//! waits for goes on in its turn ([`deliver_owed`]), or at once if code delivers the answer
//! ([`deliver_now`]). An answer that comes before its destination is known is kept in a place of
//! answers ([`keep_answer`]).

use crate::host::WithActors;
use crate::{
    Answer, Due, Kind, cycles, delegate, guest, image_of, layout_of, may_nest, node, note_exception, packets,
    ready, store_element,
};
use bifrost_ir::TypeKind;
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::JoinLayout;
use bifrost_runtime::actor_layout::{join, owed, replier};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::object::{get, set};

/// Enters the destination of the answer that an outcome `Pending` promised.
///
/// # Safety
/// `cx` is the current context, `owing` came with the outcome, and `to` is a join or a caller; both
/// are kept.
#[inline]
pub unsafe fn owe(cx: *mut Cx, owing: Word, to: Word, due: Due, element: i64) {
    // SAFETY: promised by the caller.
    unsafe {
        set(owing, owed::TO, to);
        set(owing, owed::DUE, due.word());
        set(owing, owed::ELEMENT, element as Word);
        if to != 0 && Kind::Join.is(to) {
            set(to, join::OWING, owing);
        }
        match Kind::of(owing) {
            Kind::Outgoing if to == 0 => packets::settle_open(cx),
            Kind::Outgoing => packets::expect_answer(cx, owing),
            Kind::Message if to != 0 => cycles::suspect(cx, owing),
            Kind::Replier if get(owing, replier::USED) != 0 => deliver_kept(cx, owing),
            Kind::Replier if to != 0 && get(owing, replier::EXCEPTION) != 0 => {
                cycles::suspect_kept(cx, get(owing, replier::EXCEPTION), to);
            }
            _ => {}
        }
    }
}

/// Brings an answer to its waiter that the destination got before it was awaited.
#[cold]
unsafe fn deliver_kept(cx: *mut Cx, destination: Word) {
    // SAFETY: promised by the caller: a destination that was used.
    unsafe {
        let answer = match get(destination, replier::EXCEPTION) {
            0 => Answer::Value(get(destination, replier::VALUE)),
            kept => Answer::Exception(kept),
        };
        deliver_owed(cx, destination, answer);
    }
}

/// Hands the destination of one answer on to another.
pub(crate) unsafe fn owe_as(cx: *mut Cx, owing: Word, before: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let due = Due::from_word(get(before, owed::DUE));
        owe(cx, owing, get(before, owed::TO), due, get(before, owed::ELEMENT) as i64);
    }
}

/// Brings the answer that an object owes to its waiter. Returns the join that can go on now, or 0.
#[inline(always)]
unsafe fn bring(cx: *mut Cx, owing: Word, answer: Answer) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        let to = get(owing, owed::TO);
        let due = Due::from_word(get(owing, owed::DUE));
        if to != 0 && Kind::Join.is(to) {
            return fill(cx, to, due, get(owing, owed::ELEMENT) as i64, answer);
        }
        bring_elsewhere(cx, to, due, answer)
    }
}

/// Brings an answer to a destination that is no join of this node. Returns the join that can go on
/// now, or 0.
#[inline(never)]
unsafe fn bring_elsewhere(cx: *mut Cx, to: Word, due: Due, answer: Answer) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        if to == 0 {
            if let Answer::Exception(kept) = answer {
                crate::exceptions::log_lost(&mut *cx, kept);
            }
            return 0;
        }
        match Kind::of(to) {
            Kind::Away => packets::answer(cx, to, answer),
            Kind::Client => guest::answered(&mut *cx, due.request(), answer),
            Kind::Replier => {
                set(to, replier::USED, 1);
                let (value, kept) = match answer {
                    Answer::Value(value) => (value, 0),
                    Answer::Exception(kept) => (0, kept),
                };
                set(to, replier::VALUE, value);
                set(to, replier::EXCEPTION, kept);
                if get(to, owed::TO) != 0 {
                    return bring(cx, to, answer);
                }
            }
            _ => (*cx).actors().answered(answer),
        }
        0
    }
}

/// Brings the answer that an object owes to its waiter, which goes on when its turn comes.
pub(crate) unsafe fn deliver_owed(cx: *mut Cx, owing: Word, answer: Answer) {
    // SAFETY: promised by the caller.
    unsafe {
        let waiter = bring(cx, owing, answer);
        if waiter != 0 {
            ready(cx, waiter);
        }
    }
}

/// Enters a reply into the join that awaits it. Returns the join, if it can go on now and is in no
/// queue yet, or 0.
///
/// # Safety
/// `cx` is the current context, and `waiter` a join that has sent the request.
#[inline(always)]
pub(crate) unsafe fn fill(cx: *mut Cx, waiter: Word, due: Due, element: i64, answer: Answer) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(waiter, join::FLAGS);
        let Answer::Value(value) = answer else { return fill_other(cx, waiter, due, element, answer) };
        if due.is_call() || due.is_element() || flags & join::ENDED != 0 {
            return fill_other(cx, waiter, due, element, answer);
        }
        let layout = layout_of(waiter);
        set(waiter, join::WORDS + layout.pending[usize::from(due.pending())] as usize, value);
        filled(waiter, layout, due, flags)
    }
}

/// Does the same for the other cases.
///
/// - The answer is an exception.
/// - The reply goes to an element.
/// - It is the end of a call of an actor on itself.
/// - The method has ended.
#[inline(never)]
unsafe fn fill_other(cx: *mut Cx, waiter: Word, due: Due, element: i64, answer: Answer) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(waiter, join::FLAGS);
        if flags & join::ENDED != 0 {
            if let Answer::Exception(kept) = answer {
                crate::exceptions::log_lost(&mut *cx, kept);
            }
            return 0;
        }
        let layout = layout_of(waiter);
        let call = due.is_call();
        match answer {
            // The element is the variable that takes the result.
            Answer::Value(value) if call => set(waiter, join::WORDS + element as usize, value),
            Answer::Value(value) => {
                let place = join::WORDS + layout.pending[usize::from(due.pending())] as usize;
                // Code that has left keeps no array that nothing reads any more.
                match get(waiter, place) {
                    0 => {}
                    array => store_element(image_of(cx), array, element, value),
                }
            }
            Answer::Exception(kept) => note_exception(waiter, kept, due),
        }
        if !call {
            return filled(waiter, layout, due, flags);
        }
        let missing = get(waiter, join::MISSING) - 1;
        set(waiter, join::MISSING, missing);
        let waits = flags & (join::WAITS | join::SELECTS | join::READY) == join::WAITS;
        if waits && missing == 0 { waiter } else { 0 }
    }
}

/// Counts a reply, or an exception in its place. Returns the join, if it can go on now and is in no
/// queue yet, or 0.
#[inline(always)]
unsafe fn filled(waiter: Word, layout: &JoinLayout, due: Due, flags: u64) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        let place = layout.counts + usize::from(due.pending());
        set(waiter, place, get(waiter, place) - 1);
        if flags & (join::WAITS | join::SELECTS) != join::WAITS
            || get(waiter, join::AWAITED) >> due.pending().min(63) & 1 == 0
        {
            return 0;
        }
        let missing = get(waiter, join::MISSING) - 1;
        set(waiter, join::MISSING, missing);
        if missing == 0 && flags & join::READY == 0 { waiter } else { 0 }
    }
}

/// Does as [`delegate`], for a method that goes on: its destination may not be known when the
/// answer comes. Returns the outcome `Returned`, or the outcome to end with.
///
/// # Safety
/// As for [`answer`](crate::answer).
pub unsafe fn delegate_early(cx: *mut Cx, running: Word, owing: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(running, join::FLAGS);
        let known =
            get(running, join::TAKEN) != 0 || flags & (join::DETACHED | join::NESTED) == join::DETACHED;
        if known || Kind::Replier.is(owing) {
            delegate(cx, running, owing);
            return Ret::NOTHING;
        }
        let image = image_of(cx);
        let signature = &image.program().funcs[layout_of(running).func].signature;
        let reference = signature.results.first().is_some_and(|ty| image.is_reference(*ty));
        let kept = keep_answer(cx, owing, u64::from(reference));
        if kept.returned() {
            delegate(cx, running, kept.value);
            return Ret::NOTHING;
        }
        kept
    }
}

/// Makes a place that keeps the answer which an object owes until its destination is known
/// ([`owe`]). Returns it, or the outcome to end with.
///
/// # Safety
/// `cx` is the current context, and `owing` came with an outcome `Pending`; `reference` is 1 if the
/// answer is one, else 0.
pub unsafe extern "C" fn keep_answer(cx: *mut Cx, owing: Word, reference: u64) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let _owing = (*cx).keep(owing);
        let made = new_replier(cx, image_of(cx).of_actors.kept[reference as usize]);
        if made.returned() {
            set(made.value, replier::EXCEPTION, owing);
            owe(cx, owing, made.value, Due::new(0, false), 0);
        }
        made
    }
}

/// Makes the destination of an answer, as a value. Returns it, or the outcome to end with. The
/// method that answers through it is [`delegate`]d to.
///
/// # Safety
/// `cx` is the current context, and the table one of places of answers.
pub unsafe fn new_replier(cx: *mut Cx, table: &'static Table) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let made = match (*cx).alloc(table, replier::FIELDS) {
            Ok(made) => made.as_ptr() as Word,
            Err(full) => return (*cx).out_of_memory(full),
        };
        set(made, owed::KIND, Kind::Replier as Word);
        Ret::of(made)
    }
}

/// Answers through a destination. A second answer is ignored, and logged. The waiter goes on when
/// its turn comes.
///
/// # Safety
/// `cx` is the current context, `destination` a replier whose answers the word is one of.
pub(crate) unsafe fn deliver_to(cx: *mut Cx, destination: Word, value: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let waiter = bring_to(cx, destination, value);
        if waiter != 0 {
            ready(cx, waiter);
        }
    }
}

/// Does as [`deliver_to`], for code that runs: a message of the past form to the waiter. It goes on
/// at once, above the sender on its stack, if that is not too deep. Returns the outcome `Returned`
/// or `Killed`.
///
/// # Safety
/// As for [`deliver_to`]. Between [`Cx::begin`] and [`Cx::leave`].
pub unsafe fn deliver_now(cx: *mut Cx, destination: Word, value: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let waiter = bring_to(cx, destination, value);
        if waiter == 0 {
            return Ret::NOTHING;
        }
        if !may_nest(cx) {
            ready(cx, waiter);
            return Ret::NOTHING;
        }
        (*cx).words.past_sent = 1;
        match node::resume(cx, waiter) {
            ret if ret.outcome == Outcome::Killed as u64 => ret,
            _ => Ret::NOTHING,
        }
    }
}

/// Enters the answer where it is awaited. Returns the join that can go on now, or 0.
#[inline(always)]
unsafe fn bring_to(cx: *mut Cx, destination: Word, value: Word) -> Word {
    // SAFETY: promised by the caller.
    unsafe {
        if (*cx).in_program_transaction() {
            let image = (*cx).image().clone();
            let ty = Table::of(destination).info().ty;
            let reference =
                matches!(image.program().types.kind(ty), TypeKind::Replier(r) if image.is_reference(r));
            (*cx).actors().hold(node::Held::Answer { destination, value, reference });
            return 0;
        }
        if Kind::FarReplier.is(destination) {
            packets::deliver(cx, destination, value);
            return 0;
        }
        if get(destination, replier::USED) != 0 {
            (*cx).actors().log("a second answer to one message is ignored");
            return 0;
        }
        set(destination, replier::USED, 1);
        set(destination, replier::VALUE, value);
        bring(cx, destination, Answer::Value(value))
    }
}
