//! The waits of a node, read backwards: from a method that waits to all that cannot go on before it
//! does.
//!
//! - A method whose join awaits a reply waits for the object that owes the reply. It goes on when
//!   it has all replies, not one of them.
//! - A queued request waits for the method of its actor that waits for replies. That may be the
//!   next to answer, and no other message is taken before.
//! - A request that an arm of a selection has taken and not answered waits for the method of the
//!   arm. The arm has not ended.
//! - A request that a method has not answered waits for that method, and so does a call of an actor
//!   on itself. The method has not ended.
//!
//! No other waits are read. A method that selects, or makes way, may go on by itself. So may a
//! dormant actor that refuses its queued messages, and a place of answers can be used by any actor
//! that has it. So the waits read here stay true until the awaited reply comes, whatever others do.

use crate::walk::{Cut, FIRM};
use crate::{Due, Kind, class_of};
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_layout::{join, mail, message, owed};
use bifrost_runtime::object::get;

/// A wait's subject: it cannot go on before an answer comes.
#[derive(Clone, Copy)]
pub(crate) enum Waiter {
    /// The join of a method of this node.
    Method(Word),
    /// A request of another node ([`away`](bifrost_runtime::actor_layout::away)).
    Away(Word),
}

impl Waiter {
    /// Returns the join, if it is a method of this node.
    pub(crate) fn method(self) -> Option<Word> {
        match self {
            Waiter::Method(waiter) => Some(waiter),
            Waiter::Away(_) => None,
        }
    }
}

/// True if a join waits for replies or the end of a call, and for nothing else.
#[inline]
pub(crate) unsafe fn is_blocked(waiter: Word) -> bool {
    const MASK: u64 = join::WAITS | join::SELECTS | join::READY | join::ENDED;
    // SAFETY: promised by the caller: a join.
    unsafe { get(waiter, join::FLAGS) & MASK == join::WAITS }
}

/// Returns the waiter that cannot go on before an answer comes.
#[inline]
pub(crate) unsafe fn waiter_of(owing: Word) -> Option<Waiter> {
    // SAFETY: promised by the caller: something that owes an answer.
    unsafe {
        let (mut owing, mut to) = (owing, get(owing, owed::TO));
        while to != 0 && Kind::Replier.is(to) {
            (owing, to) = (to, get(to, owed::TO));
        }
        if to == 0 {
            return None;
        }
        match Kind::of(to) {
            Kind::Away => Some(Waiter::Away(to)),
            Kind::Join if is_blocked(to) => {
                let due = Due::from_word(get(owing, owed::DUE));
                let awaits =
                    due.is_call() || get(to, join::AWAITED) >> u32::from(due.pending().min(63)) & 1 == 1;
                awaits.then_some(Waiter::Method(to))
            }
            _ => None,
        }
    }
}

/// Returns the join of the actor's method that waits for replies, if the actor takes no message
/// before.
#[inline]
pub(crate) unsafe fn blocked_method(actor: Word) -> Option<Word> {
    // SAFETY: promised by the caller: an actor of this node.
    unsafe {
        let class = class_of(actor);
        if class.functional {
            return None;
        }
        let post = get(actor, class.mail);
        let waiter = if post == 0 { 0 } else { get(post, mail::WAITING) };
        (waiter != 0 && is_blocked(waiter)).then_some(waiter)
    }
}

/// Returns the lists of messages that wait for a blocked method: their mail, and the end of its
/// fields.
unsafe fn lists_behind(blocked: Word) -> Option<(Word, usize)> {
    // SAFETY: promised by the caller: a join.
    unsafe {
        let actor = get(blocked, join::ACTOR);
        if actor == 0 {
            return None;
        }
        let class = class_of(actor);
        let post = if class.functional { 0 } else { get(actor, class.mail) };
        (post != 0 && get(post, mail::WAITING) == blocked).then_some((post, mail::fields(class.lists)))
    }
}

/// Names those that cannot go on before a blocked method does because they await an answer of it.
pub(crate) unsafe fn each_answer(blocked: Word, steps: &mut u64, mut act: impl FnMut(Waiter)) {
    // SAFETY: promised by the caller: a join that is blocked; all that are reached are objects of
    // the node.
    unsafe {
        *steps += 1;
        if get(blocked, join::FLAGS) & (join::ANSWERED | join::NESTED) != join::ANSWERED
            && let Some(waiter) = waiter_of(blocked)
        {
            act(waiter);
        }
        let mut taken = get(blocked, join::TAKEN);
        while taken != 0 {
            *steps += 1;
            if !message::is_answered(taken)
                && let Some(waiter) = waiter_of(taken)
            {
                act(waiter);
            }
            taken = get(taken, message::NEXT);
        }
    }
}

/// Names those that cannot go on before a blocked method does because their requests are queued for
/// its actor, with the messages. Stops after `most` steps, and returns `false` then.
pub(crate) unsafe fn each_queued(
    blocked: Word,
    steps: &mut u64,
    most: u64,
    mut act: impl FnMut(Waiter, Word),
) -> bool {
    // SAFETY: as in `each_answer`.
    unsafe {
        let Some((post, end)) = lists_behind(blocked) else { return true };
        for list in (mail::LISTS..end).step_by(2) {
            let mut sent = get(post, list);
            while sent != 0 {
                if *steps >= most {
                    return false;
                }
                *steps += 1;
                if let Some(waiter) = waiter_of(sent) {
                    act(waiter, sent);
                }
                sent = get(sent, message::NEXT);
            }
        }
        true
    }
}

/// Names all that cannot go on before a blocked method does, with the queued message whose answer
/// they await, or [`FIRM`].
pub(crate) unsafe fn each_waiter(blocked: Word, steps: &mut u64, mut act: impl FnMut(Waiter, Cut)) {
    // SAFETY: as in `each_answer`.
    unsafe {
        each_answer(blocked, steps, |waiter| act(waiter, FIRM));
        each_queued(blocked, steps, u64::MAX, act);
    }
}
