//! The search for requests that wait for themselves: of two actors that request each other, and of
//! longer rounds. Rounds over several nodes are in [`rounds`]. The functions to read first are
//! [`look`] and [`look_at_all`]; the state is in `suspects`.
//!
//! There are two searches. Both go backwards along the waits ([`waits`]), and fail a
//! queued request of the round.
//!
//! 1. A request that is queued for an actor that waits is looked at before the next turn
//!    ([`look`]). It closes a round, so it is the one that fails. At most [`AT_ONCE`] joins and
//!    messages are looked at, so that no mail is walked for each request.
//! 2. All requests that are queued on the node are looked at together ([`look_at_all`]), in as many
//!    steps as there are waits. That finds rounds that are longer, or were not closed by a request:
//!    a method may have asked before it waits. It is done when the node has nothing else to do.
//!    While the node has work, it is done every [`LOOK_MS`], or less often if it takes more than a
//!    part of the time. Waits that pass other nodes are told to the first one ([`rounds`]).
//!
//! Where a seed decides the order there is no time. The second search is made when the node has
//! nothing to do and has paid for it. A turn pays for [`STEPS_IN_TURN`] steps, and the last
//! search's steps are to be paid.

use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_class::State;
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::answers::deliver_owed;
use crate::between::rounds;
use crate::context::WithActors;
use crate::cycles::waits::{Waiter, blocked_method, each_answer, each_queued, each_waiter, waiter_of};
use crate::cycles::walk::{Cut, cycles};
use crate::exceptions::kept_exception;
use crate::node::Actors;
use crate::object::{Answer, Join, Mail, Message, Owing, Party};

pub(crate) mod suspects;
pub(crate) mod told;
pub(crate) mod waits;
pub(crate) mod walk;

/// The number of joins and messages looked at for one request before anything else is done.
const AT_ONCE: u64 = 256;

/// The milliseconds between two searches through all requests.
pub(crate) const LOOK_MS: i64 = 50;

/// The longest such time.
const LOOK_MS_MAX: i64 = 400;

/// The multiple of a search's time that passes before the next one, up to [`LOOK_MS_MAX`].
const REST_TIMES: i64 = 50;

/// The steps of a search for which a turn pays, in a run whose order a seed decides.
const STEPS_IN_TURN: u64 = 16;

/// Returns the progress of the node: a number above 0 that grows with each turn and batch of
/// packets.
fn progress(cx: &mut Cx) -> u64 {
    1 + cx.words.stats.turns + cx.actors().suspects.received
}

/// True if there may be waits for which the search was not made.
pub(crate) fn may_be_stuck(cx: &mut Cx) -> bool {
    let (is_guest, progress) = (cx.is_guest(), progress(cx));
    let Actors { suspects, remote, rounds, .. } = cx.actors();
    let waits = !suspects.busy.is_empty() || remote.asked > 0 && !is_guest;
    waits && (suspects.young || suspects.seen != progress) || rounds.is_due()
}

/// Has all requests looked at, if it is time.
pub(crate) fn look_in_time(cx: &mut Cx) {
    if !cx.actors().is_ordered() && may_be_stuck(cx) && cx.now_ms() >= cx.actors().suspects.next_ms {
        cx.actors().suspects.due = true;
    }
}

/// Has all requests looked at before the next turn, if any may wait for itself.
pub(crate) fn look_now(cx: &mut Cx) {
    cx.actors().suspects.due |= may_be_stuck(cx);
}

/// Returns the number of milliseconds after which a node that has nothing to do is to look at
/// all requests, if it is.
pub(crate) fn look_in_ms(cx: &mut Cx) -> Option<i64> {
    let looks = !cx.actors().is_ordered() && may_be_stuck(cx);
    looks.then_some(cx.actors().suspects.rest_ms.max(LOOK_MS))
}

/// True if all requests are to be looked at, when the node has nothing to do and a seed decides
/// the order.
fn looks_in_order(cx: &mut Cx) -> bool {
    let progress = progress(cx);
    let is_stuck = may_be_stuck(cx);
    let suspects = &cx.actors().suspects;
    let paid = progress.saturating_sub(suspects.seen).saturating_mul(STEPS_IN_TURN);
    let nothing_since = suspects.seen == progress;
    is_stuck && (paid >= suspects.cost || nothing_since)
}

/// Makes a queued request with an awaited answer a suspect: its receiver may wait for its sender,
/// unless the receiver is about to go on.
pub(crate) fn suspect(cx: &mut Cx, sent: Message) {
    let actor = sent.receiver();
    let state = actor.state();
    if state != State::Active && state != State::Selecting {
        return;
    }
    let suspects = &mut cx.actors().suspects;
    suspects.note(actor);
    let waiter = actor.mail().and_then(|post| post.waiter());
    if state == State::Active && waiter.is_none_or(|waiter| !waiter.has(join::READY)) {
        suspects.new.push(sent);
    }
}

/// Makes suspects of the requests queued while an answer was kept: its receiver is known now, so
/// they may wait for themselves.
pub(crate) fn suspect_kept(cx: &mut Cx, owing: Owing, to: Party) {
    if let Some(sent) = owing.message() {
        suspect(cx, sent);
    }
    let Some(actor) = to.join().and_then(|waiter| waiter.actor()) else { return };
    let class = actor.class();
    if class.functional {
        return;
    }
    let Some(post) = actor.mail_in(class) else { return };
    let suspects = &mut cx.actors().suspects;
    suspects.note(actor);
    let queued = Mail::lists(class).flat_map(|list| post.list(list));
    suspects.new.extend(queued.take(AT_ONCE as usize));
}

/// Fails the requests queued since the last look that wait for themselves, and looks at all if that
/// is due.
pub(crate) fn look(cx: &mut Cx) {
    while let Some(sent) = cx.actors().suspects.new.pop() {
        // A seed decides that some are left.
        let most = if cx.actors().choose(2) == Some(0) { 0 } else { AT_ONCE };
        if look_at(cx, sent, most).is_none() {
            // Those that were queued before wait as well: the one that closes a round is the
            // last. All are found together.
            cx.actors().suspects.new.clear();
        }
    }
    if cx.actors().suspects.due {
        look_at_all(cx);
    }
}

/// Looks at all requests, unless that was done, when the node has nothing else to do and neither
/// packets nor timers will come. Returns true if one failed.
pub(crate) fn look_at_rest(cx: &mut Cx) -> bool {
    let at_end = !cx.actors().remote.has_network() && cx.actors().timers.is_empty();
    let looks = match cx.actors().is_ordered() && !at_end {
        true => looks_in_order(cx),
        false => at_end && may_be_stuck(cx),
    };
    looks && look_at_all(cx)
}

/// Fails the requests queued on this node that wait for themselves, and tells the first node the
/// waits that pass others. Returns true if one failed.
pub(crate) fn look_at_all(cx: &mut Cx) -> bool {
    let begun = cx.now_ms();
    let suspects = &mut cx.actors().suspects;
    suspects.strike_off();
    suspects.due = false;
    let starts: Vec<Join> = suspects.busy.iter().filter_map(|actor| blocked_method(*actor)).collect();
    let (mut steps, mut cut) = (suspects.busy.len() as u64, Vec::new());
    let follow = |blocked: Join, open: &mut Vec<(Join, Cut)>| {
        each_waiter(blocked, &mut steps, |waiter, sent| {
            open.extend(waiter.method().map(|waiter| (waiter, sent)));
        });
    };
    cycles(starts, follow, |cycle| {
        // SAFETY: the edges that can be cut are queued messages.
        cut.extend(unsafe { Message::of(cycle.cut) });
        true
    });
    fail_all(cx, &cut);
    cx.actors().rounds.cut += cut.len() as u32;
    steps += rounds::tell(cx);
    let progress = progress(cx);
    let took = if cx.actors().is_ordered() { 0 } else { cx.now_ms() - begun };
    let suspects = &mut cx.actors().suspects;
    (suspects.seen, suspects.cost) = (progress, steps);
    suspects.rest_ms = (REST_TIMES * took.max(0)).clamp(LOOK_MS, LOOK_MS_MAX);
    suspects.next_ms = begun + suspects.rest_ms;
    cx.actors().remote.looks = cx.actors().remote.looks.wrapping_add(1);
    cx.words.stats.searched += steps;
    !cut.is_empty()
}

/// Fails queued requests, which are taken out of their queues.
pub(crate) fn fail_all(cx: &mut Cx, cut: &[Message]) {
    let words: SmallVec<[Word; 8]> = cut.iter().map(|sent| sent.word()).collect();
    let _kept = cx.keep_all(&words);
    let all: FxHashSet<Message> = cut.iter().copied().collect();
    let mut met = FxHashSet::default();
    for actor in cut.iter().map(|sent| sent.receiver()).filter(|actor| met.insert(*actor)) {
        let class = actor.class();
        let Some(post) = actor.mail_in(class) else { continue };
        for list in Mail::lists(class) {
            let (mut before, mut next) = (None, post.first(list));
            while let Some(at) = next {
                next = at.next();
                match all.contains(&at) {
                    true => post.remove(list, before, at),
                    false => before = Some(at),
                }
            }
        }
    }
    for sent in cut {
        fail(cx, *sent);
    }
}

/// Fails a request that waits for itself and is in no queue any more.
fn fail(cx: &mut Cx, sent: Message) {
    let _kept = cx.keep(sent.word());
    cx.words.stats.cycles += 1;
    let _ = cx.failure("request cycle");
    let kept = kept_exception(cx, &Default::default());
    deliver_owed(cx, sent.owing(), Answer::Exception(kept));
}

/// Fails a request if it waits for itself. Returns `None` if that takes a look at more than `most`
/// joins and messages.
fn look_at(cx: &mut Cx, sent: Message, most: u64) -> Option<()> {
    let mut steps = 0;
    let waits = waits_for_itself(sent, &mut steps, most);
    cx.words.stats.searched += steps;
    if !waits? {
        return Some(());
    }
    let actor = sent.receiver();
    let class = actor.class();
    let list = class.list_of(actor.method(sent.slot()));
    let post = actor.mail_in(class)?;
    let (mut before, mut at) = (None, post.first(list));
    while at != Some(sent)
        && let Some(other) = at
    {
        steps += 1;
        if steps > most {
            return None;
        }
        (before, at) = (at, other.next());
    }
    // The request may have been taken out since.
    if at.is_some() {
        post.remove(list, before, sent);
        fail(cx, sent);
    }
    Some(())
}

/// True if the receiver of a queued request waits, directly or through others, for its sender.
/// `None` if that takes a look at more than `most` joins and messages.
fn waits_for_itself(sent: Message, steps: &mut u64, most: u64) -> Option<bool> {
    let Some(target) = blocked_method(sent.receiver()) else { return Some(false) };
    let Some(Waiter::Method(first)) = waiter_of(sent.owing()) else { return Some(false) };
    let mut seen = Seen::default();
    let mut waiters: SmallVec<[Join; 16]> = SmallVec::from_slice(&[first]);
    let mut behind: SmallVec<[Join; 8]> = SmallVec::new();
    // First along the methods that wait for each other's answers, then to the requests queued
    // for them.
    loop {
        while let Some(waiter) = waiters.pop() {
            if waiter == target {
                return Some(true);
            }
            if !seen.insert(waiter) {
                continue;
            }
            if *steps >= most {
                return None;
            }
            each_answer(waiter, steps, |waiter| waiters.extend(waiter.method()));
            behind.push(waiter);
        }
        let Some(waiter) = behind.pop() else { return Some(false) };
        if !each_queued(waiter, steps, most, |waiter, _| waiters.extend(waiter.method())) {
            return None;
        }
    }
}

/// Joins that were looked at: mostly a few.
#[derive(Default)]
struct Seen {
    few: SmallVec<[Join; 16]>,
    many: FxHashSet<Join>,
}

impl Seen {
    /// True if it was not looked at before.
    fn insert(&mut self, waiter: Join) -> bool {
        !self.few.contains(&waiter)
            && match self.few.len() < self.few.inline_size() {
                true => {
                    self.few.push(waiter);
                    true
                }
                false => self.many.insert(waiter),
            }
    }
}
