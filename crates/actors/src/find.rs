//! The search for a message in an actor's mail: the oldest, or the oldest that conditions accept.

use bifrost_ir::MethodId;
use bifrost_runtime::abi::{Outcome, Ret};
use bifrost_runtime::actor_class::ActorClass;
use bifrost_runtime::cx::Cx;
use smallvec::SmallVec;

use crate::object::{Actor, Mail, Message};
use crate::run::settle;
use crate::send::alone;

/// A condition for messages: it gets the method and the message.
pub type Condition<'a> = dyn FnMut(&mut Cx, MethodId, Message) -> Result<Verdict, Ret> + 'a;

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
/// # Errors
/// The outcome that the run is ended with.
pub fn take_message(
    cx: &mut Cx,
    actor: Actor,
    methods: &mut dyn Iterator<Item = MethodId>,
    accepts: &mut Condition<'_>,
) -> Result<Option<(MethodId, Message)>, Ret> {
    let class = actor.class();
    let Some(post) = actor.mail_in(class).filter(|post| post.waiting() != 0) else { return Ok(None) };
    cx.words.stats.saw_queue(post.count());
    let methods: SmallVec<[MethodId; 8]> = methods.collect();
    loop {
        let found = match find_message(cx, post, class, &methods, accepts) {
            Some(found) => found,
            None => {
                alone(cx, |cx| find_message(cx, post, class, &methods, accepts)).expect("nobody else runs")
            }
        };
        let Some(Found { method, before, taken, raised }) = found? else { return Ok(None) };
        post.remove(class.list_of(method), before, taken);
        if !raised {
            return Ok(Some((method, taken)));
        }
        let _taken = cx.keep(taken.word());
        let failed = settle(cx, taken, Ret::SIGNALLED);
        if !failed.returned() {
            return Err(failed);
        }
    }
}

/// A message in a list for its method, and the one before it there.
struct Found {
    method: MethodId,
    before: Option<Message>,
    taken: Message,
    /// True if its condition has raised an exception, which is in the context.
    raised: bool,
}

/// Returns the oldest message in an actor's mail for these methods that is accepted. Returns `None`
/// if others have run above a condition: the queue may be another by now.
fn find_message(
    cx: &mut Cx,
    post: Mail,
    class: &ActorClass,
    methods: &[MethodId],
    accepts: &mut Condition<'_>,
) -> Option<Result<Option<Found>, Ret>> {
    let mut oldest: Option<(u64, MethodId, Option<Message>, Message)> = None;
    for method in methods {
        let (mut before, mut next) = (None, post.first(class.list_of(*method)));
        while let Some(at) = next
            && oldest.is_none_or(|(number, ..)| at.number() < number)
        {
            let others = cx.words.ran_others;
            let verdict = accepts(cx, *method, at);
            if cx.words.ran_others != others {
                return None;
            }
            match verdict {
                Ok(Verdict::Takes) => {
                    oldest = Some((at.number(), *method, before, at));
                    break;
                }
                Ok(Verdict::Refuses) => {}
                Ok(Verdict::RefusesAll) => break,
                Err(ret) if ret.outcome() == Outcome::Killed => return Some(Err(ret)),
                Err(_) => {
                    return Some(Ok(Some(Found { method: *method, before, taken: at, raised: true })));
                }
            }
            (before, next) = (Some(at), at.next());
        }
    }
    Some(Ok(oldest.map(|(_, method, before, taken)| Found { method, before, taken, raised: false })))
}

/// Takes the oldest message out of the queue of an actor that refuses none.
pub(crate) fn take_oldest(cx: &mut Cx, actor: Actor) -> Option<Message> {
    let class = actor.class();
    let post = actor.mail_in(class).filter(|post| post.waiting() != 0)?;
    cx.words.stats.saw_queue(post.count());
    let firsts = Mail::lists(class).filter_map(|list| Some((post.first(list)?, list)));
    let (oldest, list) = firsts.min_by_key(|(first, _)| first.number())?;
    post.remove(list, None, oldest);
    Some(oldest)
}
