//! The steps of a node, and the end, when nothing can happen any more. One step (`do_next`) does
//! this:
//!
//! 1. `look_around`: find request cycles, send the open request, collect or search if that is due,
//!    receive packets, resume joins whose timers are over;
//! 2. take one [`Work`] out of the ready queue: a join ([`resume`]), a message of a functional
//!    actor (`serve`), or the turn of an actor (`turn`);
//! 3. stop if the run was ended.
//!
//! | caller | runs steps |
//! | --- | --- |
//! | [`run_node`], [`run`] | until no work, packet or timer is left, or the network is over |
//! | [`pump`] | one, in a context without actors of its own |
//! | [`step_node`] | one, in a run whose order a seed decides |
//! | [`run_others`](crate::others::run_others) | for 2 ms, above passive code on the stack |

use bifrost_ir::MethodId;
use bifrost_runtime::abi::{Outcome, Ret};
use bifrost_runtime::actor_class::{ActorClass, State};
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;

use crate::answers::{deliver_owed, owe_as};
use crate::between::accept::accept;
use crate::between::credit::{Against, HOLD};
use crate::between::loss::lose;
use crate::between::network::{Received, Wait};
use crate::between::write::settle_open;
use crate::between::{rounds, search, watches};
use crate::context::{WithActors, image_of, note, owing_of, trace_clock};
use crate::cycles::{look_in_time, look_now};
use crate::exceptions::{Origin, kept_exception};
use crate::find::{Verdict, take_message, take_oldest};
use crate::node::Work;
use crate::object::{Actor, Answer, Join, Mail, Message};
use crate::queue::{drop_mail, method_ended, ready, rest};
use crate::send::{failed, refused, run_code, run_method};
use crate::trace::What;
use crate::{code, cycles, mailbox, timers, watch};

/// Runs the actors of a node that has no `main`, until the network says that it is over. Returns
/// the outcome `Returned` or `Killed`.
pub fn run_node(cx: &mut Cx) -> Ret {
    run(cx)
}

/// Takes packets that came. Returns true if something may have happened, or an outcome to end with
/// if the run was ended or can end.
fn receive(cx: &mut Cx, wait: Wait) -> Result<bool, Ret> {
    if cx.actors().accepts {
        // Others run above work that a packet has begun: the packets behind it come first.
        return Ok(false);
    }
    let start = trace_clock(cx);
    let ready = cx.actors().ready_count();
    let (actors, words) = cx.actors_and_words();
    let received = actors.remote.receive(wait, ready, &words.stats);
    if wait != Wait::No {
        note(cx, What::Idle, start);
    }
    match received {
        Received::Packets(from, packets) => {
            cx.actors().suspects.received += 1;
            let start = trace_clock(cx);
            cx.actors().accepts = true;
            let ret = accept(cx, from, &packets);
            cx.actors().accepts = false;
            note(cx, What::Packets(from), start);
            cx.actors().remote.recycle(packets);
            if ret.returned() { Ok(true) } else { Err(ret) }
        }
        Received::Look => {
            look_now(cx);
            Ok(true)
        }
        Received::Lost(nodes) => {
            cx.actors().suspects.received += 1;
            lose(cx, &nodes);
            Ok(true)
        }
        Received::Guest(number) => {
            cx.actors().remote.open_guest(number);
            Ok(true)
        }
        Received::Nothing => Ok(false),
        Received::Over => Err(Ret::NOTHING),
        Received::Stopped => Err(Ret::KILLED),
    }
}

/// Waits for packets, as nothing else is to be done; for a shorter time where a sender is held
/// back. Returns as [`receive`].
#[inline]
pub(crate) fn wait(cx: &mut Cx, most: Wait) -> Result<bool, Ret> {
    let holds = cx.actors().remote.credit.holds;
    let came = receive(cx, if holds { Wait::For(HOLD) } else { most })?;
    if holds && !came {
        cx.actors().remote.release_held(None);
    }
    Ok(came || holds)
}

/// Runs all work until nothing is left. Returns the outcome `Returned` or `Killed`.
pub(crate) fn run(cx: &mut Cx) -> Ret {
    loop {
        match do_next(cx) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(ret) => return ret,
        }
        let far = cx.actors().remote.has_network();
        if (!far || cx.actors().is_ordered()) && mailbox::give_up(cx) {
            continue;
        }
        note_main(cx);
        let is_ordered = cx.actors().is_ordered();
        if far && !is_ordered && timers::timer_is_due(cx) {
            timers::wake_first(cx);
            continue;
        }
        if far {
            let most = timers::rest(cx);
            match wait(cx, most) {
                Ok(true) => continue,
                Ok(false) => look_in_time(cx),
                Err(ret) if ret.returned() && rounds::may_go_on(cx) => continue,
                Err(ret) => return ret,
            }
        }
        let woke = (!far || is_ordered) && timers::wake_next(cx);
        if !far && !woke {
            return Ret::NOTHING;
        }
    }
}

/// Notes that `main` has ended, and tells the other nodes of a program with timers that repeat.
fn note_main(cx: &mut Cx) {
    if cx.actors().main_is_over || cx.actors().main().is_none() {
        return;
    }
    cx.actors().main_is_over = true;
    let natives = &image_of(cx).program().natives;
    if cx.actors().remote.has_network() && natives.values().any(|name| name == "every") {
        watches::tell_main_over(cx);
    }
}

/// Takes the next packets in a context without actors of its own, or does one piece of work.
/// Returns an outcome to end with if nothing can happen any more, or the run was ended.
pub(crate) fn pump(cx: &mut Cx) -> Result<(), Ret> {
    if cx.actors().remote.has_network() {
        if cx.actors().remote.knows_many() {
            cx.collect();
        }
        return receive(cx, Wait::Idle).map(|_| ());
    }
    if step(cx)? || timers::wake_next(cx) { Ok(()) } else { Err(Ret::NOTHING) }
}

/// Takes one step of a node in a run whose order a seed decides, or resumes a join that waits for a
/// time. Returns true if there was one to take.
///
/// # Errors
/// The outcome that the run is ended with.
pub fn step_node(cx: &mut Cx) -> Result<bool, Ret> {
    let stepped = step(cx)? || mailbox::give_up(cx) || timers::wake_next(cx);
    if !stepped {
        cx.actors().remote.release_held(None);
        cx.actors().remote.post_all();
    }
    Ok(stepped)
}

/// Does as [`do_next`], in a frame of its own.
pub(crate) fn step(cx: &mut Cx) -> Result<bool, Ret> {
    do_next(cx)
}

/// Takes one step: looks for open requests and due timers, takes packets from other nodes, and does
/// one piece of work. Returns true if there was one.
#[inline(always)]
fn do_next(cx: &mut Cx) -> Result<bool, Ret> {
    let came = cx.actors().looks_around() && look_around(cx)?;
    let Some(work) = cx.actors().pop() else {
        return Ok(came || cycles::look_at_rest(cx));
    };
    cx.words.stats.turns += 1;
    cx.words.turn_over = false;
    cx.actors().remote.credit.begin_turn();
    cx.actors().mailboxes.begin_turn();
    cx.words.past_sent = 0;
    cx.actors().step = [work.word(), 0];
    let ended = match work {
        Work::Join(waiter) => resume(cx, waiter),
        Work::Message(sent) => serve(cx, sent),
        Work::Actor(actor) => turn(cx, actor),
    };
    cx.actors().step = [0; 2];
    if ended.outcome() == Outcome::Killed {
        return Err(ended);
    }
    if cx.must_attend() {
        let stopped = cx.stop();
        if !stopped.returned() {
            return Err(stopped);
        }
    }
    Ok(true)
}

/// Does the work that may be due before a step: searches, packets and timers. Returns true if
/// packets came from other nodes.
#[inline(never)]
fn look_around(cx: &mut Cx) -> Result<bool, Ret> {
    cycles::look(cx);
    settle_open(cx);
    let mut came = false;
    if cx.actors().remote.has_network() {
        if cx.actors().remote.knows_many() {
            cx.collect();
        }
        if cx.actors().wants_search() || search::wait_ms(cx) == Some(0) {
            search::ask(cx);
        }
        came = receive(cx, Wait::No)?;
        if cx.actors().remote.credit.holds {
            let filled = cx.heap().is_filled();
            let now_ns = if cx.actors().is_ordered() { 0 } else { cx.now_ns() };
            cx.actors().remote.release_held(Some(&mut |held| match held {
                Against::Nothing => false,
                // The objects that others know are actors.
                Against::Mail { .. } => held.lasts(now_ns),
                Against::Heap => filled,
            }));
        }
    }
    if !cx.actors().deferred.died.is_empty() {
        watch::bury(cx);
    }
    timers::wake_due(cx);
    mailbox::look(cx);
    Ok(came)
}

/// Goes on with a method that waited. Returns the outcome `Returned` or `Killed`.
#[inline]
pub(crate) fn resume(cx: &mut Cx, waiter: Join) -> Ret {
    let flags = waiter.flags();
    waiter.set_flags(flags & !(join::READY | join::WAITS));
    waiter.set_last_request(None);
    if flags & (join::ENDED | join::WAITS) != join::WAITS {
        return Ret::NOTHING;
    }
    if flags & join::SELECTS != 0
        && let Some(actor) = waiter.actor().filter(|actor| actor.state() == State::Selecting)
    {
        actor.set_state(State::Active);
    }
    match cx.actors().is_traced() {
        true => resume_traced(cx, waiter),
        false => code::resume(cx, waiter),
    }
}

#[cold]
fn resume_traced(cx: &mut Cx, waiter: Join) -> Ret {
    let (start, func) = (trace_clock(cx), waiter.layout().func);
    let ret = code::resume(cx, waiter);
    note(cx, What::Join(func), start);
    ret
}

/// Runs a message of a functional actor.
fn serve(cx: &mut Cx, sent: Message) -> Ret {
    let ret = match sent.receiver().state() {
        State::Failed => failed(cx, sent.receiver()),
        _ => run_method(cx, sent.call(), What::Message),
    };
    settle(cx, sent, ret)
}

/// Delivers the outcome of a queued message to the object that awaits it.
pub(crate) fn settle(cx: &mut Cx, sent: Message, ret: Ret) -> Ret {
    match ret.outcome() {
        Outcome::Returned if sent.owing().to().is_none() => {}
        Outcome::Killed => return ret,
        Outcome::Pending => owe_as(cx, owing_of(ret), sent.owing()),
        Outcome::Returned => deliver_owed(cx, sent.owing(), Answer::Value(ret.value)),
        _ => {
            method_ended(cx, sent.receiver(), sent.receiver().class(), ret);
            let method = sent.receiver().method_ref(sent.slot());
            let kept = kept_exception(cx, &Origin::Method(method));
            deliver_owed(cx, sent.owing(), Answer::Exception(kept));
        }
    }
    Ret::NOTHING
}

/// The most messages that an actor serves in one turn.
const TURN_MESSAGES: u32 = 256;

/// Runs an actor's turn: it serves messages while it has some, no method of it waits and its time
/// is not over.
fn turn(cx: &mut Cx, actor: Actor) -> Ret {
    // A seed decides after each message on the next work.
    let most = if cx.actors().is_ordered() { 1 } else { TURN_MESSAGES };
    let class = actor.class();
    if let Some(post) = actor.mail_in(class).filter(|post| post.failure() != 0) {
        post.set_scheduled(0);
        if actor.state() != State::Failed && post.waiter().is_none() {
            watch::end(cx, actor, class, post);
        }
        return Ret::NOTHING;
    }
    let serves = |post: &Mail| post.waiter().is_none() && post.waiting() > 0 && post.failure() == 0;
    if let Some(post) = actor.mail_in(class).filter(serves)
        && actor.state() == State::Active
        && let Some(code) = code::turns(cx, class)
    {
        post.set_scheduled(0);
        let ended = run_code(cx, code, &[actor.word(), u64::from(most)]);
        return rest(cx, actor, ended);
    }
    for _ in 0..most {
        match serve_next(cx, actor) {
            Ok(true) => {}
            Ok(false) => return Ret::NOTHING,
            Err(ret) => return ret,
        }
        let more = actor.mail_in(class).is_some_and(|post| serves(&post));
        if !more || cx.words.turn_over || actor.state() != State::Active {
            break;
        }
    }
    rest(cx, actor, Ret::NOTHING)
}

/// Serves the work of an actor in the queue. A method that selects goes on; otherwise the oldest
/// message that is not refused is served. Returns true if one was.
fn serve_next(cx: &mut Cx, actor: Actor) -> Result<bool, Ret> {
    let class = actor.class();
    let Some(post) = actor.mail_in(class) else { return Ok(false) };
    post.set_scheduled(0);
    if let Some(waiter) = post.waiter() {
        if waiter.has(join::SELECTS) {
            ready(cx, waiter);
        }
        return Ok(false);
    }
    if actor.state() == State::Failed {
        return Ok(false);
    }
    let found = match class.takes_all {
        true => Ok(take_oldest(cx, actor)),
        false => take_accepted(cx, actor, class),
    };
    let sent = match found {
        Ok(Some(sent)) => sent,
        Ok(None) => {
            // All queued messages are refused until a message changes the actor, or failed by
            // their guard.
            if post.waiting() == 0 {
                drop_mail(actor, class, post);
            }
            actor.set_state(State::Dormant);
            return Ok(false);
        }
        Err(ret) => return Err(ret),
    };
    cx.actors().step[1] = sent.word();
    actor.set_state(State::Active);
    let ret = run_method(cx, sent.call(), What::Message);
    let settled = settle(cx, sent, ret);
    if settled.returned() { Ok(true) } else { Err(settled) }
}

/// Takes the oldest message that an actor does not refuse.
fn take_accepted(cx: &mut Cx, actor: Actor, class: &ActorClass) -> Result<Option<Message>, Ret> {
    let mut methods = (0..class.methods as u32).map(MethodId::from_u32);
    let found = take_message(cx, actor, &mut methods, &mut |cx, method, sent| {
        Ok(match refused(cx, class, sent.call())? {
            false => Verdict::Takes,
            true if class.looks_into(method) => Verdict::Refuses,
            true => Verdict::RefusesAll,
        })
    });
    Ok(found?.map(|(_, sent)| sent))
}
