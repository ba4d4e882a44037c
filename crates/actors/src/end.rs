//! The end of a method that has a join, and the stops before: it waits, or makes way for others.
//!
//! ```text
//!            suspend                       the replies are there
//!   runs -------------> waits (detached) ------------------------> ready --- its turn ---> runs
//!     |    make_way: ready at once, or parked until there is room                            |
//!     +--- end: its answer goes to its caller, or where it is owed <-------------------------+
//! ```

use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::State;
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;

use crate::answers::{answer, deliver_owed, owe_as};
use crate::context::{WithActors, image_of, owing_of, pending};
use crate::exceptions::{Origin, kept_exception, log_lost, raise_kept};
use crate::object::{Answer, Delegated, Join, Mail};
use crate::queue::{mail_of, method_ended, ready, rest_with};
use crate::{exceptions, mailbox};

/// The failure of a method that has a result and ends without an answer.
pub const UNANSWERED: &str = "the method ended without an answer";

/// Suspends a method that stops to wait, once its join has its way. Returns the outcome that the
/// method ends with. From now on its answer goes to the object that awaits it.
#[inline(always)]
pub(crate) fn suspend(cx: &mut Cx, waiter: Join) -> Ret {
    let flags = waiter.flags();
    waiter.set_flags(flags | join::WAITS | join::DETACHED);
    cx.words.stats.waits += 1;
    if let Some(actor) = waiter.actor()
        && let class = actor.class()
        && !class.functional
    {
        let post = match mail_of(cx, class, actor, waiter.word()) {
            Ok(post) => post,
            Err(full) => return cx.out_of_memory(full),
        };
        if !waits_for_call(post, waiter) {
            post.set_waiter(Some(waiter));
            post.set_takes(waiter.missing());
            let selects = flags & join::SELECTS != 0;
            actor.enter_state(class, if selects { State::Selecting } else { State::Active });
        }
    }
    if flags & join::DETACHED != 0 {
        return Ret::NOTHING;
    }
    if flags & join::NESTED != 0 || flags & join::ANSWERED == 0 {
        return pending(waiter.owing());
    }
    given_answer(cx, waiter)
}

/// True if a method of an actor waits for the end of a call of the actor on itself which waits too.
/// The innermost of such methods is the one in the mail: messages and answers resume it, and the
/// others go on behind it.
#[inline]
fn waits_for_call(post: Mail, waiter: Join) -> bool {
    post.waiter().is_some_and(|innermost| innermost != waiter && innermost.has(join::WAITS))
}

/// Does as [`suspend`] for a method that makes way for others: it goes on by itself.
pub(crate) fn make_way(cx: &mut Cx, waiter: Join) -> Ret {
    let _kept = cx.keep(waiter.word());
    waiter.set_awaited(0);
    waiter.set_missing(0);
    let ret = suspend(cx, waiter);
    if ret.outcome() != Outcome::Signalled {
        cx.words.stats.ways += 1;
        match cx.actors().remote.credit.park(waiter) || mailbox::park(cx, waiter) {
            true => waiter.set_flags(waiter.flags() | join::READY),
            false => ready(cx, waiter),
        }
    }
    ret
}

/// Returns the answer that a method has given while its caller is still there.
#[inline(never)]
fn given_answer(cx: &mut Cx, running: Join) -> Ret {
    match running.delegated() {
        None => Ret::of(running.answer()),
        Some(Delegated::Exception(kept)) => raise_kept(cx, kept),
        Some(Delegated::Owing(owing)) => pending(owing),
    }
}

/// Ends a method that has a join: `ret` is returned, signalled with the exception in the context,
/// or killed. Without answer and without result it answers now. Returns the result for its caller,
/// or the outcome `Returned` or `Killed` if the caller is gone.
pub(crate) fn end(cx: &mut Cx, running: Join, ret: Ret) -> Ret {
    if ret.outcome == Outcome::Killed as u64 {
        return ret;
    }
    if ret.returned() && running.has(join::ANSWERED) && end_plainly(cx, running, 0) {
        return Ret::NOTHING;
    }
    let func = running.layout().func;
    let origin = Origin::Func(func);
    let _kept = cx.keep(running.word());
    let (detached, answered) = (running.has(join::DETACHED), running.has(join::ANSWERED));
    if !ret.returned()
        && detached
        && !running.has(join::NESTED)
        && let Some(actor) = running.actor()
    {
        method_ended(cx, actor, actor.class(), ret);
    }
    if !ret.returned() && (detached || answered) {
        let kept = kept_exception(cx, &origin);
        match answered {
            false => answer(cx, running, Answer::Exception(kept)),
            true => log_lost(cx, kept),
        }
    } else if ret.returned() && !answered {
        match image_of(cx).program().funcs[func].signature.results.is_empty() {
            true => answer(cx, running, Answer::Value(0)),
            false => {
                let _ = cx.failure(UNANSWERED);
                let kept = kept_exception(cx, &origin);
                answer(cx, running, Answer::Exception(kept));
            }
        }
    }
    running.set_flags(running.flags() | join::ENDED);
    exceptions::log_all(cx, running);
    match running.has(join::ANSWERED) {
        _ if detached => end_detached(cx, running, origin),
        true => given_answer(cx, running),
        false => ret,
    }
}

/// Ends a method whose caller is gone, and that has answered.
fn end_detached(cx: &mut Cx, running: Join, origin: Origin) -> Ret {
    if !running.has(join::NESTED) {
        leave_actor(cx, running);
        return Ret::NOTHING;
    }
    // Its caller is a method of the same actor, which stays busy, and waits in its place.
    if let Some(post) = running.actor().and_then(|actor| actor.mail()) {
        post.set_waiter(running.owing().to().and_then(|to| to.join()));
    }
    match given_answer(cx, running) {
        ret if ret.outcome == Outcome::Pending as u64 => owe_as(cx, owing_of(ret), running.owing()),
        ret if ret.returned() => deliver_owed(cx, running.owing(), Answer::Value(ret.value)),
        _ => {
            let kept = kept_exception(cx, &origin);
            deliver_owed(cx, running.owing(), Answer::Exception(kept));
        }
    }
    Ret::NOTHING
}

/// Ends a method whose caller is gone, with this value if it has not answered yet. Returns false,
/// and does nothing, if there is more to see to; else true.
#[inline]
pub(crate) fn end_plainly(cx: &mut Cx, running: Join, value: Word) -> bool {
    let flags = running.flags();
    if flags & (join::DETACHED | join::NESTED) != join::DETACHED
        || running.exceptions().is_some()
        || running.taken().is_some()
    {
        return false;
    }
    running.set_flags(flags | join::ANSWERED | join::ENDED);
    if flags & join::ANSWERED == 0 && running.owing().to().is_some() {
        deliver_owed(cx, running.owing(), Answer::Value(value));
    }
    leave_actor(cx, running);
    true
}

/// Sets the state of the actor of a method that has ended after its caller was gone.
#[inline]
fn leave_actor(cx: &mut Cx, running: Join) {
    let Some(actor) = running.actor() else { return };
    let class = actor.class();
    if class.functional {
        return;
    }
    let Some(post) = actor.mail_in(class) else { return };
    post.set_waiter(None);
    if actor.state() != State::Failed {
        rest_with(cx, actor, class, post);
    }
}
