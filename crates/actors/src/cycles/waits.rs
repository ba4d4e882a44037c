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

use bifrost_runtime::actor_layout::join;

use crate::cycles::walk::{Cut, FIRM};
use crate::object::{Actor, Away, Join, Mail, Message, Owing};

/// A wait's subject: it cannot go on before an answer comes.
#[derive(Clone, Copy)]
pub(crate) enum Waiter {
    /// The join of a method of this node.
    Method(Join),
    /// A request of another node.
    Away(Away),
}

impl Waiter {
    /// Returns the join, if it is a method of this node.
    pub(crate) fn method(self) -> Option<Join> {
        match self {
            Waiter::Method(waiter) => Some(waiter),
            Waiter::Away(_) => None,
        }
    }
}

/// True if a join waits for replies or the end of a call, and for nothing else.
#[inline]
pub(crate) fn is_blocked(waiter: Join) -> bool {
    const MASK: u64 = join::WAITS | join::SELECTS | join::READY | join::ENDED;
    waiter.flags() & MASK == join::WAITS
}

/// Returns the waiter that cannot go on before an answer comes.
#[inline]
pub(crate) fn waiter_of(owing: Owing) -> Option<Waiter> {
    let mut owing = owing;
    let mut to = owing.to()?;
    while let Some(place) = to.replier() {
        owing = place.owing();
        to = owing.to()?;
    }
    if let Some(away) = to.away() {
        return Some(Waiter::Away(away));
    }
    let waiter = to.join().filter(|waiter| is_blocked(*waiter))?;
    let due = owing.due();
    let awaits = due.is_call() || waiter.awaited() >> u32::from(due.pending().min(63)) & 1 == 1;
    awaits.then_some(Waiter::Method(waiter))
}

/// Returns the join of the actor's method that waits for replies, if the actor takes no message
/// before. It is an actor of this node.
#[inline]
pub(crate) fn blocked_method(actor: Actor) -> Option<Join> {
    let class = actor.class();
    if class.functional {
        return None;
    }
    actor.mail_in(class)?.waiter().filter(|waiter| is_blocked(*waiter))
}

/// Returns the messages that are queued behind a blocked method.
fn queued_behind(blocked: Join) -> impl Iterator<Item = Message> {
    let of = |actor: Actor| {
        let class = actor.class();
        let post = if class.functional { None } else { actor.mail_in(class) };
        let behind = post.filter(|post| post.waiter() == Some(blocked));
        behind.map(|post| Mail::lists(class).flat_map(move |list| post.list(list)))
    };
    blocked.actor().and_then(of).into_iter().flatten()
}

/// Names those that cannot go on before a blocked method does because they await an answer of it.
pub(crate) fn each_answer(blocked: Join, steps: &mut u64, mut act: impl FnMut(Waiter)) {
    *steps += 1;
    if blocked.flags() & (join::ANSWERED | join::NESTED) != join::ANSWERED
        && let Some(waiter) = waiter_of(blocked.owing())
    {
        act(waiter);
    }
    let mut next = blocked.taken();
    while let Some(taken) = next {
        *steps += 1;
        if !taken.is_answered()
            && let Some(waiter) = waiter_of(taken.owing())
        {
            act(waiter);
        }
        next = taken.next();
    }
}

/// Names those that cannot go on before a blocked method does because their requests are queued for
/// its actor, with the messages. Stops after `most` steps, and returns `false` then.
pub(crate) fn each_queued(
    blocked: Join,
    steps: &mut u64,
    most: u64,
    mut act: impl FnMut(Waiter, Message),
) -> bool {
    for sent in queued_behind(blocked) {
        if *steps >= most {
            return false;
        }
        *steps += 1;
        if let Some(waiter) = waiter_of(sent.owing()) {
            act(waiter, sent);
        }
    }
    true
}

/// Names all that cannot go on before a blocked method does, with the queued message whose answer
/// they await, or [`FIRM`].
pub(crate) fn each_waiter(blocked: Join, steps: &mut u64, mut act: impl FnMut(Waiter, Cut)) {
    each_answer(blocked, steps, |waiter| act(waiter, FIRM));
    each_queued(blocked, steps, u64::MAX, |waiter, sent| act(waiter, sent.word()));
}
