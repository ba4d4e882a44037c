//! The turns of code: a method that has had its time makes way for others. Code that cannot be left
//! has them above it on the stack for a while.

use bifrost_runtime::abi::Ret;
use bifrost_runtime::cx::Cx;

use crate::between::credit::HOLD;
use crate::between::guest::holds_messages;
use crate::between::network::Wait;
use crate::context::WithActors;
use crate::run::wait;
use crate::timers::timer_is_due;
use crate::{mailbox, run};

/// In a run whose order a seed decides: the number of loop steps of which one makes way.
const WAYS: u64 = 8;

/// True if the node has something else to do than the code that runs, which has had its time.
/// The code below it on the stack waits for it, unless it has sent a message of the past form.
pub(crate) fn others_wait(cx: &mut Cx) -> bool {
    let (actors, words) = cx.actors_and_words();
    words.past_sent > 0
        || !actors.ready.is_empty()
        || actors.suspects.are_due()
        || actors.remote.has_mail()
        || !actors.deferred.died.is_empty()
        || timer_is_due(cx)
}

/// True if the method that runs shall make way for others.
pub fn must_make_way(cx: &mut Cx) -> bool {
    if cx.actors().is_ordered() {
        return cx.actors().choose(WAYS) == Some(0);
    }
    // Its sender may be below it on the stack, and wait for nothing else.
    std::mem::take(&mut cx.words.turn_over)
}

/// The time for which others run above code that cannot stop before that goes on.
const OTHERS_NS: u64 = 2_000_000;

/// The most code that cannot stop on the stack with others above it.
const OTHERS_DEPTH: u32 = 16;

/// Runs others above passive code on the stack, which has had its time and cannot be left. They run
/// until nothing is to be done, or they have had their time. If that code has sent too much to a
/// node, they run until the node has taken enough ([`credit`](crate::between::credit)). Returns the
/// outcome `Returned` or `Killed`.
pub(crate) fn run_others(cx: &mut Cx) -> Ret {
    let actors = cx.actors();
    if actors.alone || actors.others >= OTHERS_DEPTH || holds_messages(cx) || !cx.may_nest() {
        return Ret::NOTHING;
    }
    let step = cx.actors().step;
    let _step = cx.keep_all(&step);
    cx.actors().others += 1;
    cx.words.ran_others += 1;
    cx.words.stats.ways += 1;
    let full = match cx.actors().accepts {
        true => None,
        false => cx.actors().remote.credit.take_full(),
    };
    let mailbox = match cx.actors().accepts {
        true => None,
        false => cx.actors().mailboxes.take_full(),
    };
    let _mailbox = cx.keep(mailbox.map_or(0, |actor| actor.word()));
    let until = cx.now_ns().saturating_add(OTHERS_NS);
    let mut patience = mailbox::Patience::new(cx);
    let ended = loop {
        let far = full.is_some_and(|node| !cx.actors().remote.credit.is_open(node));
        let parks = mailbox.is_some_and(|actor| !mailbox::is_open(cx, actor) && !patience.is_over(cx, actor));
        let waits = far || parks;
        let stepped = match run::step(cx) {
            Ok(false) if waits && !cx.actors().remote.has_network() => break Ret::NOTHING,
            Ok(false) if waits => match cx.stop() {
                ret if ret.returned() => wait(cx, Wait::For(HOLD)),
                ret => Err(ret),
            },
            stepped => stepped,
        };
        match stepped {
            Ok(stepped) if waits || stepped && cx.now_ns() < until => {}
            Err(ret) if !ret.returned() => break ret,
            _ => break Ret::NOTHING,
        }
    };
    if let Some(actor) = mailbox {
        mailbox::give_up_on(cx, actor);
    }
    cx.actors().others -= 1;
    cx.actors().step = step;
    // It is not known any more whether messages that it has sent before were served.
    cx.words.past_sent = 1;
    ended
}
