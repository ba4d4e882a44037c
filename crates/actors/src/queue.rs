//! The queues of a node: messages in the mail of an actor, actors and joins in the ready queue.

use bifrost_heap::HeapFull;
use bifrost_ir::{MethodId, SignalId};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::{ActorClass, Delivery, State, delivery};
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;

use crate::context::{WithActors, pending};
use crate::node::Work;
use crate::object::{Actor, Join, Mail, Message};

/// The length of mail from which a sender makes way at the end of a loop's step. Machine code
/// queues no more messages than this by itself.
pub const MAIL_LONG: u64 = 4096;

/// The number of messages in long mail of which one makes its sender make way. From twice
/// [`MAIL_LONG`] on each message does. None does if the actor runs now: that may be the sender
/// itself, and it serves no message before it is done.
const MAIL_STEP: u64 = 32;

/// Puts a message into the queue of its receiver, an actor of this node. Returns `Pending` with the
/// message, or the outcome to end with.
pub(crate) fn queue(cx: &mut Cx, made: Message) -> Ret {
    let actor = made.receiver();
    cx.words.stats.queued += 1;
    let class = actor.class();
    if class.functional {
        cx.actors().push(Work::Message(made));
        return pending(made.owing());
    }
    let method = actor.method(made.slot());
    let post = match mail_of(cx, class, actor, made.word()) {
        Ok(post) => post,
        Err(full) => return cx.out_of_memory(full),
    };
    if class.lists > 1 {
        let number = post.next_number();
        post.set_next_number(number + 1);
        made.set_number(number);
    }
    post.append(class.list_of(method), made);
    let count = post.count();
    if count >= MAIL_LONG && (count.is_multiple_of(MAIL_STEP) || count >= 2 * MAIL_LONG && !is_on_stack(post))
    {
        // The sender makes way, if it can, so that the actor serves more messages than arrive.
        cx.words.turn_over = true;
    }
    match delivery(actor.state()) {
        // Refused, or too deep on the stack: the queue dispatches it again, and later messages
        // wait behind it.
        Delivery::Call => {
            actor.enter_state(class, State::Active);
            schedule(cx, actor, post);
        }
        Delivery::Offer if takes(post, method) => schedule(cx, actor, post),
        _ => {}
    }
    pending(made.owing())
}

/// True if a method of an active actor is on the stack, and neither waits nor is in a queue.
pub(crate) fn is_on_stack(post: Mail) -> bool {
    post.scheduled() == 0 && post.waiter().is_none_or(|waiter| !waiter.has(join::WAITS))
}

/// Puts an actor into the queue of those that have something to do.
fn schedule(cx: &mut Cx, actor: Actor, post: Mail) {
    if post.scheduled() == 0 {
        post.set_scheduled(1);
        cx.actors().push(Work::Actor(actor));
    }
}

/// True if the selection under way takes messages for a method.
fn takes(post: Mail, method: MethodId) -> bool {
    post.takes() >> bit_of(method) & 1 == 1
}

/// Returns the bit of a method or pending variable. Those from the 64th on share one, so a wait may
/// take too much, never too little.
pub fn bit_of(method: MethodId) -> u32 {
    method.as_u32().min(63)
}

/// Returns the mail of an actor of the class, which is made if it has none. `kept` is kept
/// meanwhile, and through it the actor.
///
/// # Errors
/// The heap is full.
#[inline]
pub(crate) fn mail_of(cx: &mut Cx, class: &ActorClass, actor: Actor, kept: Word) -> Result<Mail, HeapFull> {
    if let Some(post) = actor.mail_in(class) {
        return Ok(post);
    }
    let made = Mail::make(cx, class, kept)?;
    actor.set_mail(class, Some(made));
    Ok(made)
}

/// Sets the state of an actor whose method came back: it rests, waits, or has more to do. Returns
/// the outcome `Returned` or `Killed`.
pub(crate) fn rest(cx: &mut Cx, actor: Actor, ret: Ret) -> Ret {
    if ret.outcome() == Outcome::Killed {
        return ret;
    }
    let class = actor.class();
    if actor.state() == State::Failed {
        return Ret::NOTHING;
    }
    method_ended(cx, actor, class, ret);
    match actor.mail_in(class) {
        None => actor.enter_state(class, State::Dormant),
        // A join that waits has set the state.
        Some(post) if post.waiter().is_some() => {}
        Some(post) => rest_with(cx, actor, class, post),
    }
    Ret::NOTHING
}

/// Does the same for an actor with mail, none of whose methods waits, and which has not failed.
#[inline(always)]
pub(crate) fn rest_with(cx: &mut Cx, actor: Actor, class: &ActorClass, post: Mail) {
    if post.waiting() == 0 && post.failure() == 0 {
        drop_mail(actor, class, post);
        actor.enter_state(class, State::Dormant);
    } else {
        // More messages, or the end of the actor.
        actor.enter_state(class, State::Active);
        schedule(cx, actor, post);
    }
}

/// Drops mail without messages, unless others monitor its actor.
#[inline(always)]
pub(crate) fn drop_mail(actor: Actor, class: &ActorClass, post: Mail) {
    if post.watchers().is_none() {
        actor.set_mail(class, None);
    }
}

/// Puts a join into the queue of ready joins, once.
#[inline(never)]
pub(crate) fn ready(cx: &mut Cx, waiter: Join) {
    let flags = waiter.flags();
    if flags & join::READY == 0 {
        waiter.set_flags(flags | join::READY);
        cx.actors().push(Work::Join(waiter));
    }
}

/// Has an actor end, with this reason, when its method under way has ended. The first reason
/// counts.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub(crate) fn ask_to_end(cx: &mut Cx, actor: Actor, why: Word) -> Result<(), Ret> {
    let class = actor.class();
    if class.functional || actor.state() == State::Failed || actor.state() == State::Remote {
        return Ok(());
    }
    let _why = cx.keep(why);
    let post = mail_of(cx, class, actor, actor.word()).map_err(|full| cx.out_of_memory(full))?;
    if post.failure() == 0 {
        post.set_failure(why);
    }
    Ok(())
}

/// Handles the outcome of a method that a message has called: a failure ends an actor whose class
/// says so. The exception stays in the context.
#[inline]
pub(crate) fn method_ended(cx: &mut Cx, actor: Actor, class: &ActorClass, ret: Ret) {
    if class.stops_on_failure
        && ret.outcome() == Outcome::Signalled
        && cx.signal_id == u64::from(SignalId::FAILURE.as_u32())
    {
        let why = cx.signal_values[0];
        let id = cx.signal_id;
        let _why = cx.keep(why);
        // Without memory for its mail the actor goes on.
        let _ = ask_to_end(cx, actor, why);
        (cx.signal_id, cx.signal_values[0]) = (id, why);
    }
}
