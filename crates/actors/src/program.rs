//! The parts of a program besides its actors: `main`, and transactions.

use bifrost_ir::Body;

use crate::guest::NO_ANSWER;
use crate::host::WithActors;
use crate::{
    Answer, Due, Kind, Origin, State, deliver_to, fill, guest, layout_of, message_of, node, owe, packets,
    queue, ready, rounds, state, try_send, words_of,
};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_layout::{join, message, owed};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::RoutineDesc;
use bifrost_runtime::object::{get, set};

/// Sends a message of the past form, as [`send`](crate::send), with two differences. A message of a
/// session is under way until it was served ([`set_open_max`](Cx::set_open_max)). In a transaction
/// of the program, or a batch that is one, it leaves when that is committed.
///
/// # Errors
/// The outcome that the sender ends with: its message was not sent.
///
/// # Safety
/// As for [`send`](crate::send).
pub unsafe fn send_past(cx: *mut Cx, slot: u32, args: &[Word]) -> Result<Ret, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        (*cx).words.past_sent = 1;
        if !crate::guest::holds_messages(&mut *cx) {
            return match state(args[0]) {
                State::Remote if (*cx).is_guest() => Ok(guest::tell(cx, slot, args)),
                State::Remote => packets::send_past(cx, slot, args),
                _ => try_send(cx, slot, args),
            };
        }
        let ret = message_of(cx, slot, args);
        if !ret.returned() {
            return Err(ret);
        }
        (*cx).actors().hold(node::Held::Message(ret.value));
        Ok(Ret::NOTHING)
    }
}

/// Sends the messages and answers of a transaction of the program that is committed. Nothing of it
/// runs at once.
pub(crate) fn leave_transaction(cx: &mut Cx) {
    let held = cx.actors().take_held();
    let words: Vec<Word> = held.iter().flat_map(|held| held.references()).collect();
    let _held = cx.keep_all(&words);
    for held in held {
        // SAFETY: what is held was made by `send_past` and `deliver_to`, and is kept.
        unsafe {
            match held {
                node::Held::Answer { destination, value, .. } => deliver_to(cx, destination, value),
                node::Held::Message(made) => {
                    let actor = get(made, message::RECEIVER);
                    match state(actor) {
                        State::Remote => {
                            let sent = packets::send_past(cx, message::slot(made), words_of(made));
                            let (Ok(ret) | Err(ret)) = sent;
                            if Outcome::from(ret) == Outcome::Signalled {
                                let kept = crate::exceptions::kept_exception(cx, &Origin::Runtime);
                                crate::exceptions::log_lost(cx, kept);
                            }
                        }
                        State::Failed => {}
                        _ => {
                            queue(cx, made);
                        }
                    }
                }
            }
        }
    }
}

/// Runs a routine as the program's main one, and the node until nothing can happen any more.
/// Returns the outcome of the routine; a result that is an object is kept by nothing.
///
/// # Safety
/// As for [`bifrost_runtime::invoke::routine`], between [`Cx::begin`] and [`Cx::leave`].
pub unsafe fn call_main(cx: *mut Cx, desc: &'static RoutineDesc, args: &mut [Word]) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let image = (*cx).image().clone();
        let signature = &image.program().routines[desc.routine].signature;
        let reference = signature.results.first().is_some_and(|ty| image.is_reference(*ty));
        (*cx).actors().begin_main(reference);
        let passed = args[1..].iter().zip(&signature.params);
        let passed: Vec<Word> =
            passed.filter(|(_, param)| image.is_reference(param.ty)).map(|(word, _)| *word).collect();
        let _args = (*cx).keep_all(&passed);
        let table = image.of_actors.caller;
        let caller = match (*cx).alloc(table, owed::FIELDS) {
            Ok(caller) => caller.as_ptr() as Word,
            Err(full) => return (*cx).out_of_memory(full),
        };
        let caller = (*cx).root(caller);
        set(caller.word(), owed::KIND, Kind::Caller as Word);
        let called = bifrost_runtime::invoke::routine(cx, desc, args);
        let main = match Outcome::from(called) {
            Outcome::Pending => {
                let waiter = (*cx).root(called.value);
                owe(cx, called.value, caller.word(), Due::new(0, false), 0);
                Some(waiter)
            }
            Outcome::Killed => return called,
            Outcome::Returned => {
                (*cx).actors().answered(Answer::Value(called.value));
                None
            }
            _ => {
                let kept = crate::exceptions::kept_exception(
                    &mut *cx,
                    &match image.program().routines[desc.routine].body {
                        Body::Func(func) => Origin::Func(func),
                        Body::Native(_) => Origin::Runtime,
                    },
                );
                (*cx).actors().answered(Answer::Exception(kept));
                None
            }
        };
        // The result of `main` must not go with a collection meanwhile.
        loop {
            let ran = node::run(cx);
            if !ran.returned() {
                return ran;
            }
            let Some(waiter) = main.as_ref().filter(|_| (*cx).actors().main().is_none()) else { break };
            give_up(cx, waiter.word());
        }
        match (*cx).actors().take_main() {
            Some(Answer::Value(word)) => Ret::of(word),
            Some(Answer::Exception(kept)) => crate::exceptions::raise_kept(&mut *cx, kept),
            None => (*cx).failure("nobody answers `main`"),
        }
    }
}

/// Fails the requests that a join still waits for: nothing can happen any more that would answer
/// them.
unsafe fn give_up(cx: *mut Cx, waiter: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let why = &match rounds::waits_as_text(cx) {
            waits if waits.is_empty() => NO_ANSWER.to_owned(),
            waits => format!("{NO_ANSWER}: {waits}"),
        };
        (*cx).actors().remote.give_up(waiter);
        let layout = layout_of(waiter);
        let awaited = get(waiter, join::AWAITED);
        for pending in 0..layout.pending.len() as u16 {
            if awaited >> u32::from(pending.min(63)) & 1 == 0 {
                continue;
            }
            while get(waiter, layout.counts + usize::from(pending)) > 0 {
                let _ = (*cx).failure(why);
                let kept = crate::exceptions::kept_exception(&mut *cx, &Default::default());
                let due = Due::new(pending, false).of_request(Due::REQUEST_MAX);
                if fill(cx, waiter, due, 0, Answer::Exception(kept)) != 0 {
                    ready(cx, waiter);
                }
            }
        }
    }
}
