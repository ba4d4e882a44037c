//! The functions that machine code calls: `crates/jit` has them in its table of helpers. Each takes
//! words and makes typed references of them; the work is done elsewhere.
//!
//! All of them share one promise: `cx` is the current context, and the words are those that the
//! compiler hands over by the function's heading, kept by the code's stack map.

use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_layout::Due;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;

use crate::answers::{deliver_now, keep_answer, new_replier};
use crate::code;
use crate::code::{Left, end_at, give, go_on, left, log_sent, next_request, pend};
use crate::context::WithActors;
use crate::create::fail_creation;
use crate::exceptions::note_exception;
use crate::next::{Exit, STOPPED, given};
use crate::object::{Actor, Call, Exception, Join, Message, Owing, Replier};
use crate::program::send_past;
use crate::run::settle;
use crate::send::send;

/// Does as [`pend`]. `object` owes the reply, or is the exception that came in its place. `due` is
/// a [`Due`] without request.
///
/// # Safety
/// As the file says.
pub unsafe extern "C" fn enter_pend(
    cx: *mut Cx,
    running: Word,
    outcome: u64,
    object: Word,
    due: u64,
    element: i64,
) -> Ret {
    let due = Due::from_word(due);
    // SAFETY: machine code hands over its join, and the object that came with the outcome.
    unsafe {
        let running = Join::new(running);
        running.set_held(running.held() | 1 << due.pending());
        match outcome == Outcome::Pending as u64 {
            true => {
                let element = due.is_element().then_some(element);
                pend(&mut *cx, running, Owing::new(object), due.pending(), element);
            }
            false => note_exception(running, Exception::new(object), due.of_request(next_request(running))),
        }
    }
    Ret::NOTHING
}

/// Goes on with a function whose code leaves at an exit. Its variables are in the join, and its
/// answer, if it was given, in `ANSWER` or `DELEGATED`.
///
/// - At a statement, `outcome` and `value` are those of its message: the object that owes the
///   answer, or an exception that is kept.
/// - At a wait they are a [`Due`] without request, and the object that owes that reply, or 0. The
///   join does not know of it yet.
///
/// # Safety
/// As the file says; the join has the variables.
pub unsafe extern "C" fn leave_code(
    cx: *mut Cx,
    exit: &'static Exit,
    running: Word,
    outcome: u64,
    value: Word,
    given: u64,
) -> Ret {
    // SAFETY: machine code hands over its context and its join.
    let (cx, running) = unsafe { (&mut *cx, Join::new(running)) };
    match left(cx, exit, running, Ret { outcome, value }, given) {
        Left::Stopped(ret) => ret,
        Left::Next(next) => go_on(cx, running, next),
    }
}

/// Does as [`leave_code`], for code that [`go_on`] has entered.
///
/// # Safety
/// As for [`leave_code`].
pub unsafe extern "C" fn leave_way(
    cx: *mut Cx,
    exit: &'static Exit,
    running: Word,
    outcome: u64,
    value: Word,
    given: u64,
) -> Ret {
    // SAFETY: machine code hands over its context and its join.
    let (cx, running) = unsafe { (&mut *cx, Join::new(running)) };
    match left(cx, exit, running, Ret { outcome, value }, given) {
        Left::Stopped(ret) => Ret { outcome: ret.outcome | STOPPED, ..ret },
        Left::Next(next) => cx.actors().land(next),
    }
}

/// Ends code that has made a join: `outcome` and `value` are those with which it would end without
/// one; an exception is in the context. Returns the outcome for its caller.
///
/// # Safety
/// As the file says.
pub unsafe extern "C" fn end_code(cx: *mut Cx, running: Word, outcome: u64, value: Word, given: u64) -> Ret {
    // SAFETY: machine code hands over its context and its join.
    let (cx, running) = unsafe { (&mut *cx, Join::new(running)) };
    let _running = cx.keep(running.word());
    if given != given::NOT {
        give(cx, running, given, 0);
    }
    end_at(cx, running, Ret { outcome, value })
}

/// Sets the state of an active actor whose method has left its code with messages waiting, or
/// without a result. Returns the outcome of the method, or `Killed`. Never collects.
///
/// # Safety
/// As the file says.
pub unsafe extern "C" fn leave_method(cx: *mut Cx, actor: Word, outcome: u64, value: Word) -> Ret {
    // SAFETY: machine code hands over its context and the actor.
    let (cx, actor) = unsafe { (&mut *cx, Actor::new(actor)) };
    code::leave_method(cx, actor, Ret { outcome, value })
}

/// Does the same for a message of the past form, whose answer nobody awaits. Returns the outcome
/// `Returned` or `Killed`.
///
/// # Safety
/// As the file says; the method is that of the slot.
pub unsafe extern "C" fn leave_past(cx: *mut Cx, actor: Word, slot: u64, outcome: u64, value: Word) -> Ret {
    // SAFETY: machine code hands over its context and the actor.
    let (cx, actor) = unsafe { (&mut *cx, Actor::new(actor)) };
    let mut ret = Ret { outcome, value };
    if !actor.class().functional {
        ret = code::leave_method(cx, actor, ret);
    }
    log_sent(cx, actor.method_ref(slot as u32), Ok(ret))
}

/// Delivers the outcome of a queued message that machine code has served. Returns the outcome
/// `Returned` or `Killed`.
///
/// # Safety
/// As the file says; the message's method ended with this.
pub unsafe extern "C" fn settle_sent(cx: *mut Cx, sent: Word, outcome: u64, value: Word) -> Ret {
    // SAFETY: machine code hands over its context and the message.
    let (cx, sent) = unsafe { (&mut *cx, Message::new(sent)) };
    settle(cx, sent, Ret { outcome, value })
}

/// Sends a request.
///
/// # Safety
/// As the file says; `words` are so many, the receiver first, which has the slot's method.
pub unsafe extern "C" fn enter_message(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: machine code hands over its context, and the words of a message.
    let (cx, call) =
        unsafe { (&mut *cx, Call::new(slot as u32, std::slice::from_raw_parts(words, count as usize))) };
    send(cx, call)
}

/// Sends a message of the past form. Returns the outcome `Returned` or `Killed`, or `Signalled` if
/// it was not sent.
///
/// # Safety
/// As for [`enter_message`].
pub unsafe extern "C" fn enter_past(cx: *mut Cx, slot: u64, words: *const Word, count: u64) -> Ret {
    // SAFETY: machine code hands over its context, and the words of a message.
    let (cx, call) =
        unsafe { (&mut *cx, Call::new(slot as u32, std::slice::from_raw_parts(words, count as usize))) };
    let method = call.actor().method_ref(call.slot());
    let sent = send_past(cx, call);
    log_sent(cx, method, sent)
}

/// Ends the creation of an actor whose creator has failed, with the exception in the context.
///
/// # Safety
/// As the file says.
pub unsafe extern "C" fn enter_failed_creation(cx: *mut Cx, actor: Word) -> Ret {
    // SAFETY: machine code hands over its context and the new actor.
    let (cx, actor) = unsafe { (&mut *cx, Actor::new(actor)) };
    let _actor = cx.keep(actor.word());
    fail_creation(cx, actor);
    Ret::NOTHING
}

/// Makes the destination of an answer, as a value. Returns it, or the outcome to end with.
///
/// # Safety
/// As the file says; the table is one of destinations.
pub unsafe extern "C" fn enter_new_replier(cx: *mut Cx, table: &'static Table) -> Ret {
    // SAFETY: machine code hands over its context.
    let cx = unsafe { &mut *cx };
    new_replier(cx, table).map_or_else(|ret| ret, |made| Ret::of(made.word()))
}

/// Makes a place that keeps an answer until its destination is known. Returns it, or the outcome to
/// end with. `reference` is 1 if the answer is one, else 0.
///
/// # Safety
/// As the file says; `owing` came with an outcome `Pending`.
pub unsafe extern "C" fn enter_keep_answer(cx: *mut Cx, owing: Word, reference: u64) -> Ret {
    // SAFETY: machine code hands over its context, and the object that came with the outcome.
    let (cx, owing) = unsafe { (&mut *cx, Owing::new(owing)) };
    keep_answer(cx, owing, reference != 0).map_or_else(|ret| ret, |made| Ret::of(made.word()))
}

/// Answers through a destination. Returns the outcome `Returned` or `Killed`.
///
/// # Safety
/// As the file says; the word is one of the destination's answers.
pub unsafe extern "C" fn enter_deliver(cx: *mut Cx, destination: Word, value: Word) -> Ret {
    // SAFETY: machine code hands over its context, and a destination.
    let (cx, destination) = unsafe { (&mut *cx, Replier::new(destination)) };
    deliver_now(cx, destination, value)
}
