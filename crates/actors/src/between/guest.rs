//! Sessions of clients as guests of the nodes: they send to actors, hold references to them, and
//! get answers, but have no actors (`docs/internals/nodes.md`). The type to read first is
//! [`Guest`]; the functions are [`ask`] and [`join`].
//!
//! A guest is one more node to the others, with a number above all of theirs. The objects that it
//! was told of are listed with their owners. When it is gone all of that goes, as with a node that
//! is lost. It has no turns. The caller that runs its context asks ([`ask`]), does something else,
//! and joins the answers where it needs them ([`join`]), on its own stack.
//!
//! The number of a guest is never used again, and a guest opens itself to all nodes before it sends
//! anything. So a node can tell whether any guest that it hears of is still there. All guests
//! together are one node for actors that are about to be made
//! ([`chooser`](crate::between::placement::chooser)): their indices are from one counter for each
//! node.

use bifrost_ir::MethodRef;
use bifrost_runtime::abi::{Outcome, Ret};
use bifrost_runtime::actor_layout::{Due, Kind};
use bifrost_runtime::cx::{Cx, Kill};
use smallvec::SmallVec;

use crate::answers::owe;
use crate::between::kinds::CANCEL;
use crate::between::packet::put;
use crate::between::placement::tasks_of;
use crate::between::requests::{Asked, Base, FAILURES_MAX, Guest, Open, Wanted};
use crate::between::write as packets;
use crate::context::{WithActors, owing_of};
use crate::exceptions::{Origin, kept_exception, log_lost, raise_kept};
use crate::object::{Answer, Call, Party};
use crate::program::{leave_transaction, send_past};
use crate::run::pump;
use crate::send::{keep_words, send};

/// The failure of guests that wait for an answer when nothing is left that could answer.
pub(crate) const NO_ANSWER: &str = "no request can be answered: all methods wait";

/// Enters an answer that has arrived.
pub(crate) fn answered(cx: &mut Cx, number: u64, answer: Answer) {
    let Some(open) = cx.actors().guest.open.get_mut(&number) else { return };
    if open.answer.is_some() {
        return;
    }
    let wanted = open.wanted;
    open.answer = Some(answer);
    let guest = &mut cx.actors().guest;
    guest.missing -= 1;
    match (wanted, answer) {
        (Wanted::Answer, _) => {}
        (Wanted::Failure, Answer::Exception(_)) if guest.failures < FAILURES_MAX => guest.failures += 1,
        (_, Answer::Value(_)) => {
            guest.open.remove(&number);
        }
        (_, Answer::Exception(kept)) => {
            guest.open.remove(&number);
            if wanted != Wanted::Cancelled {
                log_lost(cx, kept);
            }
        }
    }
}

/// Sends a message for a client. Returns the number by which [`join`] gives its answer. Waits first
/// while too many are open.
///
/// # Errors
/// Killed: the run was ended.
pub fn ask(cx: &mut Cx, method: MethodRef, call: Call<'_>, asked: Asked, wanted: Wanted) -> Result<u64, Ret> {
    if cx.actors().guest.missing >= cx.actors().guest.open_max {
        let room = wait(cx, &|guest| guest.missing < guest.open_max);
        if !room.returned() {
            return Err(room);
        }
    }
    let client = client(cx);
    let ret = match cx.actors().guest.closed {
        Some(_) if wanted == Wanted::Nothing => match send_past(cx, call) {
            Ok(ret) | Err(ret) => ret,
        },
        Some(why) => cx.failure(why),
        None => send(cx, call),
    };
    if ret.outcome() == Outcome::Killed {
        return Err(ret);
    }
    let image = cx.image().clone();
    let results = &image.program().types.method(method).signature.results;
    let reference = results.first().is_some_and(|ty| image.is_reference(*ty));
    let guest = &mut cx.actors().guest;
    let number = guest.next;
    guest.next += 1;
    guest.missing += 1;
    guest.open.insert(number, Open { asked, method, reference, wanted, answer: None });
    match ret.outcome() {
        Outcome::Pending => {
            owe(cx, owing_of(ret), Some(client), Due::new(0, false).of_request(number), 0);
        }
        Outcome::Returned => answered(cx, number, Answer::Value(ret.value)),
        _ => {
            let kept = kept_exception(cx, &Origin::Method(method));
            answered(cx, number, Answer::Exception(kept));
        }
    }
    Ok(number)
}

/// Sends a message of the past form for a routine that the client has called. Returns the outcome
/// `Returned` or `Killed`. It is under way until it was served, as those that the client sends
/// itself; a session with too many under way waits.
pub(crate) fn tell(cx: &mut Cx, call: Call<'_>) -> Ret {
    let waits = cx.actors().guest.missing >= cx.actors().guest.open_max;
    let kind = call.actor().class().message(call.method());
    let _words = waits.then(|| keep_words(cx, kind, call));
    let method = call.actor().method_ref(call.slot());
    match ask(cx, method, call, Asked::default(), Wanted::Nothing) {
        Ok(_) => Ret::NOTHING,
        Err(killed) => killed,
    }
}

/// Returns the object to which answers for the client go.
fn client(cx: &mut Cx) -> Party {
    if let Some(client) = cx.actors().guest.client {
        return client;
    }
    let made = Party::make(cx, Kind::Client);
    cx.actors().guest.client = Some(made);
    made
}

/// Waits for the answer to a request. Returns its value, which the caller keeps, or its signal.
/// Returns `Killed` if the run was ended; the request is open still then.
pub fn join(cx: &mut Cx, number: u64) -> Ret {
    let there = wait(cx, &|guest| guest.open.get(&number).is_none_or(|open| open.answer.is_some()));
    if !there.returned() {
        return there;
    }
    match cx.actors().guest.open.remove(&number).and_then(|open| open.answer) {
        Some(Answer::Value(word)) => Ret::of(word),
        Some(Answer::Exception(kept)) => {
            let _kept = cx.keep(kept.word());
            raise_kept(cx, kept)
        }
        None => cx.failure(NO_ANSWER),
    }
}

/// Waits until a condition holds. Returns the outcome `Returned` or `Killed`.
fn wait(cx: &mut Cx, is_so: &dyn Fn(&Guest) -> bool) -> Ret {
    while !is_so(&cx.actors().guest) {
        if cx.must_attend() {
            let stopped = cx.stop();
            if !stopped.returned() {
                return stopped;
            }
        }
        if let Err(ret) = pump(cx) {
            if !ret.returned() {
                if cx.is_killed() {
                    return ret;
                }
                // Else the nodes have ended, or the client is gone.
                let full = cx.actors().remote.network.as_mut().is_some_and(|network| network.is_full());
                return cx.kill(if full { Kill::Answers } else { Kill::Stop });
            }
            give_up(cx);
        }
    }
    Ret::NOTHING
}

/// Answers all waiting requests with a failure, because nothing can happen any more.
fn give_up(cx: &mut Cx) {
    let missing = cx.actors().guest.open.iter().filter(|(_, open)| open.answer.is_none());
    let missing: Vec<u64> = missing.map(|(number, _)| *number).collect();
    for number in missing {
        let _ = cx.failure(NO_ANSWER);
        let kept = kept_exception(cx, &Origin::Runtime);
        answered(cx, number, Answer::Exception(kept));
    }
}

/// Makes this the context of a guest of so many nodes. Its number is none of theirs.
pub fn set_guest(cx: &mut Cx, number: u32, nodes: u32) {
    debug_assert!(number > nodes, "guest {number} of {nodes} nodes");
    cx.enter_node(number, nodes);
}

/// Sets the number of requests that may be open.
pub fn set_open_max(cx: &mut Cx, most: usize) {
    cx.actors().guest.open_max = most.max(1);
}

/// Waits until all requests of the batch are answered. Returns those that are to be joined, in
/// the order of their sending: their numbers and places.
///
/// # Errors
/// Killed: the run was ended.
pub fn open_requests(cx: &mut Cx) -> Result<Vec<(u64, MethodRef, Asked)>, Ret> {
    let is_missing = |open: &Open| open.wanted != Wanted::Nothing && open.answer.is_none();
    let there = wait(cx, &|guest| !guest.open.values().any(is_missing));
    if !there.returned() {
        return Err(there);
    }
    let open = cx.actors().guest.open.iter().filter(|(_, open)| open.wanted != Wanted::Nothing);
    let mut open: Vec<_> = open.map(|(number, open)| (*number, open.method, open.asked.clone())).collect();
    open.sort_unstable_by_key(|(number, ..)| *number);
    Ok(open)
}

/// Sets the numbers of the calls of the structure that runs next.
pub fn number_from(cx: &mut Cx, base: Base) {
    cx.actors().guest.base = base;
}

/// Returns the place of a call of the structure that runs, for its client.
pub fn asked_at(cx: &mut Cx, site: u32, rounds: &[u32]) -> Asked {
    match cx.actors().guest.base {
        Base::After(base) => Asked { call: base + site.max(1), rounds: rounds.into() },
        Base::At(call) => Asked { call, rounds: SmallVec::new() },
    }
}

/// Closes the session until [`leave_messages`]. Requests fail for this reason, and messages
/// that nobody awaits are held.
pub fn hold_messages(cx: &mut Cx, why: &'static str) {
    cx.actors().guest.closed = Some(why);
    cx.limit_nesting();
}

/// Sends the messages that were held, if their transaction was committed; else drops them.
pub fn leave_messages(cx: &mut Cx, committed: bool) {
    cx.actors().guest.closed = None;
    cx.limit_nesting();
    match committed {
        true => leave_transaction(cx),
        false => cx.actors().drop_held(),
    }
}

/// True if messages that nobody awaits leave later.
pub(crate) fn holds_messages(cx: &mut Cx) -> bool {
    cx.in_program_transaction() || cx.actors().guest.closed.is_some()
}

/// True if there are requests that are not joined.
#[inline]
pub fn has_open_requests(cx: &mut Cx) -> bool {
    !cx.actors().guest.open.is_empty()
}

/// Notes that the value of the answer to a request is not needed any more.
pub fn need_no_value(cx: &mut Cx, number: u64) {
    let guest = &mut cx.actors().guest;
    let Some(open) = guest.open.get_mut(&number) else { return };
    open.wanted = Wanted::Failure;
    match open.answer {
        Some(Answer::Value(_)) => {
            guest.open.remove(&number);
        }
        Some(Answer::Exception(_)) => guest.failures += 1,
        None => {}
    }
}

/// Drops the answers of all open requests: none will be joined. The tasks are told of those that
/// they have, so that they need not run.
pub fn forget_requests(cx: &mut Cx) {
    cx.actors().guest.failures = 0;
    if cx.actors().guest.open.is_empty() {
        return;
    }
    cancel_requests(cx);
    cx.actors().guest.open.retain(|_, open| {
        if open.wanted != Wanted::Cancelled {
            open.wanted = Wanted::Nothing;
        }
        open.answer.is_none()
    });
}

/// Tells the tasks of the requests whose answers were wanted.
fn cancel_requests(cx: &mut Cx) {
    let (own, tasks) = (cx.node(), tasks_of(cx.nodes()));
    if !cx.actors().remote.has_native(own) {
        return;
    }
    let asked = cx.actors().remote.asked_of(tasks);
    let asked: Vec<_> = asked.map(|(index, of, owing)| (index, of, owing.due().request())).collect();
    for (index, of, number) in asked {
        let Some(open) = cx.actors().guest.open.get_mut(&number) else { continue };
        if matches!(open.wanted, Wanted::Answer | Wanted::Failure) {
            open.wanted = Wanted::Cancelled;
            let mut packet = vec![CANCEL];
            put(&mut packet, &[index, of]);
            cx.actors().remote.post(tasks, &packet);
        }
    }
}

/// Sends the packets that have not left, and lets go of proxies if there are many. Called
/// between runs, and at the end of a guest.
pub fn post_messages(cx: &mut Cx) {
    // A message that waits for its sender's word on the answer has had its time.
    packets::settle_open(cx);
    if cx.actors().remote.knows_many() {
        // A session that never waits drops references all the same.
        cx.collect();
    }
    cx.actors().remote.post_all();
}
