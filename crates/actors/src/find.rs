//! The search for a message in an actor's mail: the oldest, or the oldest that conditions accept.

use bifrost_ir::MethodId;
use smallvec::SmallVec;

use crate::node::settle;
use crate::{alone, class_of, remove};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::ActorClass;
use bifrost_runtime::actor_layout::{mail, message};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::object::get;

/// The result of a condition for one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The message is taken.
    Takes,
    /// This message is refused.
    Refuses,
    /// All messages for the method are refused.
    RefusesAll,
}

/// Takes the oldest message that `accepts` accepts out of the queue. `accepts` gets the method and
/// the message, and may run conditions. If one raises an exception, its message fails: the sender
/// gets the exception, and the search begins anew.
///
/// # Safety
/// `cx` is the current context, and `actor` an actor that the caller keeps.
///
/// # Errors
/// The outcome that the run is ended with.
pub unsafe fn take_message(
    cx: *mut Cx,
    actor: Word,
    methods: &mut dyn Iterator<Item = MethodId>,
    accepts: &mut dyn FnMut(*mut Cx, MethodId, Word) -> Result<Verdict, Ret>,
) -> Result<Option<(MethodId, Word)>, Ret> {
    // SAFETY: promised by the caller; conditions have no effects, so that the lists stay as they
    // are.
    unsafe {
        let class = class_of(actor);
        let post = get(actor, class.mail);
        if post == 0 || get(post, mail::COUNT) == 0 {
            return Ok(None);
        }
        (*cx).words.stats.saw_queue(mail::count(get(post, mail::COUNT)));
        let methods: SmallVec<[MethodId; 8]> = methods.collect();
        loop {
            let found = match find_message(cx, post, class, &methods, accepts) {
                Some(found) => found,
                None => {
                    alone(cx, || find_message(cx, post, class, &methods, accepts)).expect("nobody else runs")
                }
            };
            let Some(Found { method, before, taken, raised }) = found? else { return Ok(None) };
            remove(post, class.list_of(method), before, taken);
            if !raised {
                return Ok(Some((method, taken)));
            }
            let _taken = (*cx).keep(taken);
            let failed = settle(cx, taken, Ret::SIGNALLED);
            if !failed.returned() {
                return Err(failed);
            }
        }
    }
}

/// A message in a list for its method, and the one before it there.
struct Found {
    method: MethodId,
    before: Word,
    taken: Word,
    /// True if its condition has raised an exception, which is in the context.
    raised: bool,
}

/// Returns the oldest message in an actor's mail for these methods that is accepted. Returns `None`
/// if others have run above a condition: the queue may be another by now.
unsafe fn find_message(
    cx: *mut Cx,
    post: Word,
    class: &ActorClass,
    methods: &[MethodId],
    accepts: &mut dyn FnMut(*mut Cx, MethodId, Word) -> Result<Verdict, Ret>,
) -> Option<Result<Option<Found>, Ret>> {
    // SAFETY: promised by the caller; conditions have no effects.
    unsafe {
        let mut oldest: Option<(u64, MethodId, Word, Word)> = None;
        for method in methods {
            let (mut before, mut at) = (0, get(post, class.list_of(*method)));
            while at != 0 && oldest.is_none_or(|(number, ..)| get(at, message::NUMBER) < number) {
                let others = (*cx).words.ran_others;
                let verdict = accepts(cx, *method, at);
                if (*cx).words.ran_others != others {
                    return None;
                }
                match verdict {
                    Ok(Verdict::Takes) => {
                        oldest = Some((get(at, message::NUMBER), *method, before, at));
                        break;
                    }
                    Ok(Verdict::Refuses) => {}
                    Ok(Verdict::RefusesAll) => break,
                    Err(ret) if Outcome::from(ret) == Outcome::Killed => return Some(Err(ret)),
                    Err(_) => {
                        return Some(Ok(Some(Found { method: *method, before, taken: at, raised: true })));
                    }
                }
                (before, at) = (at, get(at, message::NEXT));
            }
        }
        Some(Ok(oldest.map(|(_, method, before, taken)| Found { method, before, taken, raised: false })))
    }
}

/// Takes the oldest message out of the queue of an actor that refuses none.
pub(crate) unsafe fn take_oldest(cx: *mut Cx, actor: Word) -> Option<Word> {
    // SAFETY: promised by the caller: an actor.
    unsafe {
        let class = class_of(actor);
        let post = get(actor, class.mail);
        if post == 0 || get(post, mail::COUNT) == 0 {
            return None;
        }
        (*cx).words.stats.saw_queue(mail::count(get(post, mail::COUNT)));
        let (mut number, mut oldest, mut list) = (u64::MAX, 0, 0);
        for at in (mail::LISTS..mail::fields(class.lists)).step_by(2) {
            let first = get(post, at);
            if first != 0 && get(first, message::NUMBER) < number {
                (number, oldest, list) = (get(first, message::NUMBER), first, at);
            }
        }
        remove(post, list, 0, oldest);
        Some(oldest)
    }
}
