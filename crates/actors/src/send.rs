//! Messages on one node: a message is a call of its method, or it is queued (003 section 4.2).
//!
//! [`delivery`] is the rule; [`send`] applies it. Machine
//! code applies it by the entries of the actor's table, and comes here for the rest.
//!
//! A message to a dormant actor is queued nevertheless in three cases: the stack is too deep; the
//! class's condition refuses it; a seed wants it.

use bifrost_ir::{MethodRef, SignalId};
use bifrost_runtime::abi::{Code, Outcome, Ret, Word, enter};
use bifrost_runtime::actor_class::{ActorClass, Delivery, MessageKind, State, delivery};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::roots::KeptAll;
use smallvec::SmallVec;

use crate::between::write as packets;
use crate::code::leave_method;
use crate::context::WithActors;
use crate::object::{Actor, Call, Message, Owing};
use crate::queue::queue;
use crate::trace::What;
use crate::{code, context, mailbox};

/// Sends a message of the past form or a request. If the method ran at once and has answered, this
/// returns its result or its signal. Otherwise it returns `Pending` with the object that owes the
/// answer. A sender that wants the answer must say so then ([`owe`](crate::owe)); one that does not
/// is done.
pub fn send(cx: &mut Cx, call: Call<'_>) -> Ret {
    match try_send(cx, call) {
        Ok(ret) | Err(ret) => ret,
    }
}

/// Does as [`send`], and tells exceptions of the method from those of the sender.
///
/// # Errors
/// The outcome that the sender ends with: its message was not sent.
pub(crate) fn try_send(cx: &mut Cx, call: Call<'_>) -> Result<Ret, Ret> {
    let actor = call.actor();
    match delivery(actor.state()) {
        Delivery::Call => {}
        Delivery::Queue | Delivery::Offer => return enqueue(cx, call),
        Delivery::Refuse => {
            cx.words.stats.refused += 1;
            return Ok(failed(cx, actor));
        }
        Delivery::Send => return Ok(packets::send(cx, call)),
    }
    let class = actor.class();
    if !may_nest(cx) {
        return put(cx, call);
    }
    if class.functional {
        cx.words.stats.direct += 1;
        return Ok(run_method(cx, call, What::Call));
    }
    let others = cx.words.ran_others;
    let mut is_refused = refused(cx, class, call);
    if cx.words.ran_others != others {
        // The others may have sent it messages, too.
        if actor.state() != State::Dormant {
            return try_send(cx, call);
        }
        is_refused = alone(cx, |cx| refused(cx, class, call));
    }
    match is_refused {
        Ok(false) => {}
        Ok(true) => return enqueue(cx, call),
        Err(ret) => return Ok(ret),
    }
    cx.words.stats.direct += 1;
    actor.enter_state(class, State::Active);
    let ret = run_method(cx, call, What::Call);
    Ok(leave_method(cx, actor, ret))
}

/// Notes that nobody awaits the answer that an outcome `Pending` promised.
pub fn drop_answer(cx: &mut Cx, owing: Owing) {
    if owing.outgoing().is_some() {
        packets::settle_open(cx);
    }
}

/// Returns the answer of an actor whose creator failed.
pub(crate) fn failed(cx: &mut Cx, actor: Actor) -> Ret {
    // It has mail, unless there was no memory for it.
    let why = actor.mail().map_or(0, |post| post.failure());
    cx.signal_id = u64::from(SignalId::FAILURE.as_u32());
    cx.resume_places(actor.word());
    cx.signal_values[0] = if why == 0 { cx.image().empty_string() } else { why };
    Ret::SIGNALLED
}

/// True if there is room on the stack for a call in place of a queued message.
#[inline]
pub(crate) fn may_nest(cx: &mut Cx) -> bool {
    cx.may_nest() && !cx.actors().postpones()
}

/// Runs `act` while nothing else may run above passive code on the stack.
pub(crate) fn alone<T>(cx: &mut Cx, act: impl FnOnce(&mut Cx) -> T) -> T {
    let before = std::mem::replace(&mut cx.actors().alone, true);
    let done = act(cx);
    cx.actors().alone = before;
    done
}

/// True if the actor's class refuses a message now. Others may run above a condition that lasts
/// ([`NodeWords::ran_others`](bifrost_runtime::node_words::NodeWords::ran_others)), and change the
/// variables that it has read.
///
/// # Errors
/// The outcome of a condition that did not return.
pub fn refused(cx: &mut Cx, class: &ActorClass, call: Call<'_>) -> Result<bool, Ret> {
    let Some(guard) = class.guard(call.method()) else { return Ok(false) };
    match code::run(cx, guard, call.words()) {
        ret if ret.returned() => Ok(ret.value != 0),
        ret => Err(ret),
    }
}

/// Enters code of the program with words that it takes.
#[inline(always)]
pub(crate) fn run_code(cx: &mut Cx, code: Code, words: &[Word]) -> Ret {
    // SAFETY: `cx` is the current context, as `&mut` shows, and the callers pass code of the
    // context's image with words of its parameters' types.
    unsafe { enter(code, cx, words) }
}

/// Runs the method of a message; `what` names the event of a node that is traced.
#[inline]
pub(crate) fn run_method(cx: &mut Cx, call: Call<'_>, what: fn(MethodRef) -> What) -> Ret {
    let event = cx
        .actors()
        .is_traced()
        .then(|| (what(call.actor().method_ref(call.slot())), context::trace_clock(cx)));
    let ret = match cx.image().has_engine() {
        true => run_code(cx, call.code(), call.words()),
        false => {
            let func = cx.image().method_func(call.actor().info(), call.slot());
            code::run(cx, func.expect("methods of actors are functions"), call.words())
        }
    };
    if let Some((what, start)) = event {
        context::note(cx, what, start);
    }
    ret
}

/// Queues a message, if its mailbox has room. Returns `Pending` with the message.
///
/// # Errors
/// The outcome that its sender ends with.
#[cold]
fn enqueue(cx: &mut Cx, call: Call<'_>) -> Result<Ret, Ret> {
    mailbox::admit(cx, call.actor(), call.slot())?;
    put(cx, call)
}

/// Queues a message without a look at the mailbox, else as [`enqueue`].
fn put(cx: &mut Cx, call: Call<'_>) -> Result<Ret, Ret> {
    let made = message_of(cx, call)?;
    match queue(cx, made) {
        ret if ret.outcome() == Outcome::Pending => Ok(ret),
        ret => Err(ret),
    }
}

/// Keeps the actor and the arguments of a message that are references.
pub(crate) fn keep_words(cx: &mut Cx, kind: &MessageKind, call: Call<'_>) -> KeptAll {
    let references = call.arguments().iter().enumerate().filter(|(at, _)| kind.references >> at & 1 == 1);
    let words: SmallVec<[Word; 8]> = references.map(|(_, word)| *word).chain([call.actor().word()]).collect();
    cx.keep_all(&words)
}

/// Makes the object of a message.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub(crate) fn message_of(cx: &mut Cx, call: Call<'_>) -> Result<Message, Ret> {
    let kind = call.actor().class().message(call.method());
    let made = match Message::in_room(cx, kind) {
        Some(made) => made,
        None => {
            let _words = keep_words(cx, kind, call);
            Message::make(cx, kind).map_err(|full| cx.out_of_memory(full))?
        }
    };
    let carried = if kind.carries == 0 { 0 } else { mailbox::carried(cx, kind, call) };
    made.begin(call, carried);
    Ok(made)
}
