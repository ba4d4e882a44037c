//! The parts of a program besides its actors: `main`, and transactions.

use bifrost_ir::Body;
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::{Delivery, delivery};
use bifrost_runtime::actor_layout::{Due, Kind};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::RoutineDesc;

use crate::answers::{deliver_to, fill, owe};
use crate::between::guest::{NO_ANSWER, holds_messages};
use crate::between::{guest, rounds, write as packets};
use crate::context::{WithActors, owing_of};
use crate::deferred;
use crate::exceptions::{Origin, kept_exception, log_lost, raise_kept};
use crate::node::Held;
use crate::object::{Answer, Call, Join, Party};
use crate::queue::{queue, ready};
use crate::run::run;
use crate::send::{message_of, try_send};

/// Sends a message of the past form, as [`send`](crate::send()), with two differences. A message of
/// a session is under way until it was served ([`set_open_max`](crate::set_open_max)). In a
/// transaction of the program, or a batch that is one, it leaves when that is committed.
///
/// # Errors
/// The outcome that the sender ends with: its message was not sent.
pub fn send_past(cx: &mut Cx, call: Call<'_>) -> Result<Ret, Ret> {
    cx.words.past_sent = 1;
    if cx.actors().deferred.catches {
        return deferred::catch(cx, call);
    }
    if holds_messages(cx) {
        let made = message_of(cx, call)?;
        cx.actors().hold(Held::Message(made));
        return Ok(Ret::NOTHING);
    }
    match delivery(call.actor().state()) {
        Delivery::Send if cx.is_guest() => Ok(guest::tell(cx, call)),
        Delivery::Send => packets::send_past(cx, call),
        Delivery::Call | Delivery::Queue | Delivery::Offer | Delivery::Refuse => try_send(cx, call),
    }
}

/// Sends the messages and answers of a transaction of the program that is committed. Nothing of it
/// runs at once.
pub(crate) fn leave_transaction(cx: &mut Cx) {
    let held = cx.actors().take_held();
    let words: Vec<Word> = held.iter().flat_map(|held| held.references()).collect();
    let _held = cx.keep_all(&words);
    for held in held {
        let made = match held {
            Held::Answer { destination, value, .. } => {
                deliver_to(cx, destination, value);
                continue;
            }
            Held::Message(made) => made,
        };
        match delivery(made.receiver().state()) {
            Delivery::Send => {
                let (Ok(ret) | Err(ret)) = packets::send_past(cx, made.call());
                if ret.outcome() == Outcome::Signalled {
                    let kept = kept_exception(cx, &Origin::Runtime);
                    log_lost(cx, kept);
                }
            }
            Delivery::Refuse => {}
            Delivery::Call | Delivery::Queue | Delivery::Offer => {
                queue(cx, made);
            }
        }
    }
}

/// Runs a routine as the program's main one, and the node until nothing can happen any more.
/// Returns the outcome of the routine; a result that is an object is kept by nothing.
///
/// # Safety
/// As for [`bifrost_runtime::invoke::routine`], between [`Cx::begin`] and [`Cx::leave`].
pub unsafe fn call_main(cx: &mut Cx, desc: &'static RoutineDesc, args: &mut [Word]) -> Ret {
    let image = cx.image().clone();
    let signature = &image.program().routines[desc.routine].signature;
    let reference = signature.results.first().is_some_and(|ty| image.is_reference(*ty));
    cx.actors().begin_main(reference);
    cx.words.past_sent = 0;
    let passed = args[1..].iter().zip(&signature.params);
    let passed: Vec<Word> =
        passed.filter(|(_, param)| image.is_reference(param.ty)).map(|(word, _)| *word).collect();
    let _args = cx.keep_all(&passed);
    let caller = Party::make(cx, Kind::Caller);
    let _caller = cx.root(caller.word());
    // SAFETY: promised by the caller.
    let called = unsafe { bifrost_runtime::invoke::routine(cx, desc, args) };
    let mut main = None;
    match called.outcome() {
        Outcome::Killed => return called,
        Outcome::Pending => {
            let owing = owing_of(called);
            main = Some((cx.root(owing.word()), owing));
            owe(cx, owing, Some(caller), Due::new(0, false), 0);
        }
        Outcome::Returned => cx.actors().answered(Answer::Value(called.value)),
        Outcome::Signalled | Outcome::Left => {
            let origin = match image.program().routines[desc.routine].body {
                Body::Func(func) => Origin::Func(func),
                Body::Native(_) => Origin::Runtime,
            };
            let kept = kept_exception(cx, &origin);
            cx.actors().answered(Answer::Exception(kept));
        }
    }
    // The result of `main` must not go with a collection meanwhile.
    loop {
        let ran = run(cx);
        if !ran.returned() {
            return ran;
        }
        let waiter = main.as_ref().and_then(|(_, owing)| owing.join());
        let Some(waiter) = waiter.filter(|_| cx.actors().main().is_none()) else { break };
        give_up(cx, waiter);
    }
    match cx.actors().take_main() {
        Some(Answer::Value(word)) => Ret::of(word),
        Some(Answer::Exception(kept)) => raise_kept(cx, kept),
        None => cx.failure("the request of `main` has no answer"),
    }
}

/// Fails the requests that a join still waits for: nothing can happen any more that would answer
/// them.
fn give_up(cx: &mut Cx, waiter: Join) {
    let why = &match rounds::waits_as_text(cx) {
        waits if waits.is_empty() => NO_ANSWER.to_owned(),
        waits => format!("{NO_ANSWER}: {waits}"),
    };
    cx.actors().remote.give_up(waiter);
    let layout = waiter.layout();
    let awaited = waiter.awaited();
    for pending in 0..layout.pending.len() as u16 {
        if awaited >> u32::from(pending.min(63)) & 1 == 0 {
            continue;
        }
        while waiter.count(layout, pending) > 0 {
            let _ = cx.failure(why);
            let kept = kept_exception(cx, &Default::default());
            let due = Due::new(pending, false).of_request(Due::REQUEST_MAX);
            if let Some(waiter) = fill(cx, waiter, due, 0, Answer::Exception(kept)) {
                ready(cx, waiter);
            }
        }
    }
}
