//! Deferred messages: messages of the past form that are made now and sent later, when a time has
//! come ([`start`]) or when an actor has ended ([`monitor`](crate::watch::monitor)).
//!
//! ```text
//!   later, every:  waiting for a time --- fire ---> sent --- answered ---> over
//!                        ^                                      |
//!                        +-------------- every -----------------+
//!   monitor:       waiting for an end --- complete, fire ---> sent --- answered ---> over
//! ```
//!
//! A message is *caught* where the program writes it ([`begin_catch`], [`catch`]): the next message
//! of the past form is not sent but kept. It is a template: each time a copy is sent. The copy is
//! sent as a request, whose answer goes to the node's [`Kind::Deferred`] party. So the node knows
//! when it was handled: a repeating timer sends no second message before, and [`cancel`] can take
//! a queued one out of its mail.
//!
//! Timers keep their message, and so its receiver. A monitor does not: the monitored actor does, by
//! its list of [`Watcher`](crate::object::Watcher)s.

use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::{Delivery, delivery};
use bifrost_runtime::actor_layout::{Due, Kind};
use bifrost_runtime::cx::Cx;

use crate::answers::owe;
use crate::between::write as packets;
use crate::context::{WithActors, owing_of};
use crate::exceptions::{Origin, kept_exception, log_lost};
use crate::node::{Timed, Work};
use crate::object::{Actor, Answer, Call, Message, Party};
use crate::queue::queue;
use crate::send::message_of;
use crate::timers::timer_ms;
use crate::watch;

pub(crate) mod state;

use state::{Entry, Event};

/// The failure of `later`, `every` and `monitor` in a session's own code.
pub(crate) const NO_NODE: &str = "a session has no timers and monitors: let an actor have them";

/// The failure of the same in a transaction.
pub(crate) const IN_TRANSACTION: &str = "a transaction starts no timers and monitors";

/// The failure of the same without a message, which no checked program causes.
const NO_MESSAGE: &str = "there is no message to send later";

/// The failure of `every` with a time below 1.
const NO_TIME: &str = "`every` needs at least 1 ms";

/// Has the next message of the past form caught.
///
/// # Errors
/// The outcome to end with: there are no deferred messages here.
pub(crate) fn begin_catch(cx: &mut Cx) -> Result<(), Ret> {
    if cx.is_guest() {
        return Err(cx.failure(NO_NODE));
    }
    if cx.in_program_transaction() {
        return Err(cx.failure(IN_TRANSACTION));
    }
    cx.actors().deferred.catches = true;
    cx.limit_nesting();
    Ok(())
}

/// Keeps the message that is about to be sent, as one to send later.
///
/// # Errors
/// The outcome to end with: the heap is full.
#[cold]
pub(crate) fn catch(cx: &mut Cx, call: Call<'_>) -> Result<Ret, Ret> {
    cx.actors().deferred.catches = false;
    cx.limit_nesting();
    let made = message_of(cx, call)?;
    cx.actors().deferred.caught = Some(made);
    Ok(Ret::NOTHING)
}

/// Returns the message that was caught.
///
/// # Errors
/// The outcome to end with: there is none.
pub(crate) fn take_caught(cx: &mut Cx) -> Result<Message, Ret> {
    let caught = cx.actors().deferred.caught.take();
    caught.ok_or_else(|| cx.failure(NO_MESSAGE))
}

/// Enters a deferred message. Returns its number on this node.
pub(crate) fn enter(cx: &mut Cx, message: Message, event: Event) -> u64 {
    let actors = cx.actors();
    actors.tokens += 1;
    actors.deferred.entries.insert(actors.tokens, Entry { message, event, time: 0, sent: None });
    actors.tokens
}

/// Returns the number of a deferred message as the program knows it: no other node has it.
pub(crate) fn public_number(cx: &Cx, number: u64) -> i64 {
    number as i64 * i64::from(cx.nodes().max(1)) + i64::from(cx.node())
}

/// Sends the message that was caught after so many milliseconds, or again and again. Returns its
/// number.
///
/// # Errors
/// The outcome to end with.
pub(crate) fn start(cx: &mut Cx, ms: i64, repeats: bool) -> Result<i64, Ret> {
    let message = take_caught(cx)?;
    if repeats && ms < 1 {
        return Err(cx.failure(NO_TIME));
    }
    let number = enter(cx, message, if repeats { Event::Every(ms) } else { Event::Once });
    let time = timer_ms(cx).saturating_add(ms.max(0));
    schedule(cx, number, time);
    Ok(public_number(cx, number))
}

/// Has a timer wait for a time.
fn schedule(cx: &mut Cx, number: u64, time: i64) {
    let actors = cx.actors();
    let Some(entry) = actors.deferred.entries.get_mut(&number) else { return };
    entry.time = time;
    actors.deferred.repeating += usize::from(matches!(entry.event, Event::Every(_)));
    actors.timers.insert((time, number), Timed::Deferred(number));
}

/// True if a node has a timer that it must wait for: one that repeats keeps no run from ending
/// once `main` has.
pub(crate) fn must_wait(cx: &mut Cx) -> bool {
    let is_over = cx.actors().main_is_over;
    let actors = cx.actors();
    let once = actors.timers.len() > actors.deferred.repeating;
    once || !actors.timers.is_empty() && !is_over
}

/// Sends the message of a timer whose time has come: it was taken out of the timers.
pub(crate) fn time_came(cx: &mut Cx, number: u64) {
    let Some(entry) = cx.actors().deferred.entries.get(&number).copied() else { return };
    if let Event::Every(ms) = entry.event {
        cx.actors().deferred.repeating -= 1;
        // Times that have passed are skipped.
        let passed = (timer_ms(cx) - entry.time).max(0);
        let next = entry.time.saturating_add(ms.saturating_mul(passed / ms + 1));
        schedule(cx, number, next);
    }
    if entry.sent.is_none() {
        fire(cx, number);
    }
}

/// Completes the message of a monitor with the reason of the actor's end, and sends it.
pub(crate) fn complete(cx: &mut Cx, number: u64, why: Word) {
    let Some(entry) = cx.actors().deferred.entries.get_mut(&number) else { return };
    entry.message.set_last_argument(why);
    // The destination may be garbage from now on; the node keeps the message.
    entry.event = Event::Once;
    fire(cx, number);
}

/// Sends a copy of a deferred message, whose answer comes to [`answered`].
fn fire(cx: &mut Cx, number: u64) {
    let Some(entry) = cx.actors().deferred.entries.get(&number).copied() else { return };
    let template = entry.message;
    let _template = cx.keep(template.word());
    let party = match cx.actors().deferred.party {
        Some(party) => party,
        None => {
            let made = Party::make(cx, Kind::Deferred);
            cx.actors().deferred.party = Some(made);
            made
        }
    };
    let ret = match delivery(template.receiver().state()) {
        Delivery::Send => packets::send(cx, template.call()),
        Delivery::Refuse => return forget(cx, number),
        Delivery::Call | Delivery::Queue | Delivery::Offer => match message_of(cx, template.call()) {
            Ok(made) => queue(cx, made),
            Err(ret) => ret,
        },
    };
    if ret.outcome() == Outcome::Pending {
        let owing = owing_of(ret);
        if let Some(entry) = cx.actors().deferred.entries.get_mut(&number) {
            entry.sent = Some(owing);
        }
        owe(cx, owing, Some(party), Due::new(0, false).of_request(number), 0);
        return;
    }
    let kept = kept_exception(cx, &Origin::Runtime);
    log_lost(cx, kept);
    if !matches!(entry.event, Event::Every(_)) || template.receiver().is_far() {
        forget(cx, number);
    }
}

/// Handles the answer to a deferred message. A repeating timer goes on, unless the answer is an
/// exception of an actor of another node, which may have ended.
pub(crate) fn answered(cx: &mut Cx, number: u64, answer: Answer) {
    if let Answer::Exception(kept) = answer {
        log_lost(cx, kept);
    }
    let Some(entry) = cx.actors().deferred.entries.get_mut(&number) else { return };
    entry.sent = None;
    let goes_on = matches!(entry.event, Event::Every(_));
    if !goes_on || matches!(answer, Answer::Exception(_)) && entry.message.receiver().is_far() {
        forget(cx, number);
    }
}

/// Forgets a deferred message. Returns it if it was there.
fn take(cx: &mut Cx, number: u64) -> Option<Entry> {
    let actors = cx.actors();
    let entry = actors.deferred.entries.remove(&number)?;
    if actors.timers.remove(&(entry.time, number)).is_some() && matches!(entry.event, Event::Every(_)) {
        actors.deferred.repeating -= 1;
    }
    Some(entry)
}

fn forget(cx: &mut Cx, number: u64) {
    if let Some(entry) = take(cx, number) {
        watch::end_monitor(cx, &entry);
    }
}

/// Takes a deferred message back, by the number that the program knows. A message that waits in the
/// mail of an actor of this node is taken out. Returns false if no message will be missing: it was
/// taken back, is handled now or was handled before.
pub(crate) fn cancel(cx: &mut Cx, number: i64) -> bool {
    let nodes = i64::from(cx.nodes().max(1));
    if number.rem_euclid(nodes) != i64::from(cx.node()) {
        return false;
    }
    let Some(entry) = take(cx, (number / nodes) as u64) else { return false };
    watch::end_monitor(cx, &entry);
    let Some(sent) = entry.sent else { return true };
    let withdrawn = sent.message().is_some_and(|sent| withdraw(cx, sent));
    withdrawn || matches!(entry.event, Event::Every(_))
}

/// Takes a message that waits out of the mail of its receiver, or out of the ready queue.
fn withdraw(cx: &mut Cx, sent: Message) -> bool {
    let (actor, class) = (sent.receiver(), sent.receiver().class());
    if !class.functional {
        return actor.mail_in(class).is_some_and(|post| post.withdraw(class, sent));
    }
    let ready = &mut cx.actors().ready;
    let before = ready.len();
    ready.retain(|work| !matches!(work, Work::Message(other) if *other == sent));
    ready.len() < before
}

/// Forgets the deferred messages to an actor of this node that has ended.
pub(crate) fn receiver_ended(cx: &mut Cx, actor: Actor) {
    let entries = &cx.actors().deferred.entries;
    let dead = entries.iter().filter(|(_, entry)| entry.message.receiver() == actor);
    let dead: Vec<u64> = dead.map(|(number, _)| *number).collect();
    for number in dead {
        forget(cx, number);
    }
}
