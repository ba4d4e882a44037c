//! Requests that wait for themselves: of two actors that request each other, and of longer rounds.
//!
//! A round is closed by the request that is queued last, so each one that is queued for an actor that waits is looked at, backwards along who
//! waits for whom. Little is looked at before anything else is done; what needs more is looked at when the node has nothing to do, which
//! comes if a round makes it wait.

use smallvec::SmallVec;

use rustc_hash::FxHashSet;

use super::layout::{join, mail, message, owed};
use super::{Answer, Due, Kind, State, class_of, deliver_owed, method_of, remove, state};
use crate::abi::Word;
use crate::cx::Cx;
use crate::object::get;

/// How many joins and messages are looked at for one request before anything else is done.
const AT_ONCE: usize = 256;

/// So many joins are looked at without remembering them.
const SHORT: usize = 16;

/// Requests that may wait for themselves.
#[derive(Default, Debug)]
pub(super) struct Suspects {
    /// Queued since the last look, for actors that may wait.
    new: Vec<Word>,
    /// Too much was to be looked at.
    left: Vec<Word>,
    /// When so many are left, those that nobody awaits any more are forgotten.
    many: usize,
}

impl Suspects {
    /// Whether there are some that were not looked at yet.
    pub(super) fn are_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// The objects that they consist of.
    pub(super) fn roots(&self) -> impl Iterator<Item = Word> {
        self.new.iter().chain(&self.left).copied()
    }

    /// Those that are new are looked at later.
    ///
    /// # Safety
    /// All are messages.
    unsafe fn leave(&mut self) {
        self.left.append(&mut self.new);
        if self.left.len() >= self.many.max(64) {
            // SAFETY: promised by the caller.
            self.left.retain(|sent| unsafe { who_waits(*sent).is_some() });
            self.many = 2 * self.left.len();
        }
    }
}

/// A request was queued, whose answer somebody awaits: who is asked may wait for who asks, unless it is about to go on.
///
/// # Safety
/// `cx` is the current context, and `sent` a message.
pub(super) unsafe fn suspect(cx: *mut Cx, sent: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let actor = get(sent, message::RECEIVER);
        if state(actor) != State::Active {
            return;
        }
        let post = get(actor, class_of(actor).mail);
        let waiter = if post == 0 { 0 } else { get(post, mail::WAITING) };
        if waiter == 0 || get(waiter, join::FLAGS) & join::READY == 0 {
            (*cx).actors.suspects.new.push(sent);
        }
    }
}

/// It is known now who awaits an answer that was kept, and is owed by this: what was queued meanwhile may wait for itself from now on.
///
/// # Safety
/// `cx` is the current context, `owing` owes an answer, and `to` is a join or a caller.
pub(super) unsafe fn suspect_kept(cx: *mut Cx, owing: Word, to: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        if Kind::Message.is(owing) {
            suspect(cx, owing);
        }
        let mailed = if Kind::Join.is(to) { mailed(to) } else { None };
        let Some((post, lists)) = mailed else { return };
        let suspects = &mut (*cx).actors.suspects;
        for list in (mail::LISTS..mail::fields(lists)).step_by(2) {
            let mut at = get(post, list);
            while at != 0 {
                match suspects.new.len() < AT_ONCE {
                    true => suspects.new.push(at),
                    false => suspects.left.push(at),
                }
                at = get(at, message::NEXT);
            }
        }
    }
}

/// Fails those of the requests that were queued since the last look which wait for themselves, or leaves them for later.
///
/// # Safety
/// `cx` is the current context.
pub(super) unsafe fn look(cx: *mut Cx) {
    // SAFETY: promised by the caller; what is suspected are messages, which the node keeps.
    unsafe {
        while let Some(sent) = (*cx).actors.suspects.new.pop() {
            // A seed decides that some are left.
            let at_once = if (*cx).actors.choose(2) == Some(0) { 0 } else { AT_ONCE };
            if look_at(cx, sent, at_once).is_none() {
                // Those that were queued before wait as well: the one that closes a round is the last, and fails.
                (*cx).actors.suspects.new.push(sent);
                (*cx).actors.suspects.leave();
            }
        }
    }
}

/// The node has nothing else to do: looks at one of the requests that were left. Whether there was one.
///
/// # Safety
/// As for [`look`].
pub(super) unsafe fn look_at_left(cx: *mut Cx) -> bool {
    // SAFETY: as for `look`.
    unsafe {
        let Some(sent) = (*cx).actors.suspects.left.pop() else { return false };
        let _ = look_at(cx, sent, usize::MAX);
        true
    }
}

/// Fails a request if it waits for itself; `None` if more was to be looked at than so many joins and messages.
unsafe fn look_at(cx: *mut Cx, sent: Word, most: usize) -> Option<()> {
    // SAFETY: promised by the caller; everything reached is an object of the node.
    unsafe {
        let mut left = most;
        if !waits_for_itself(sent, &mut left)? {
            return Some(());
        }
        let actor = get(sent, message::RECEIVER);
        let class = class_of(actor);
        let (post, list) = (get(actor, class.mail), class.list_of(method_of(actor, message::slot(sent))));
        let (mut before, mut at) = (0, get(post, list));
        while at != sent && at != 0 {
            left = left.checked_sub(1)?;
            (before, at) = (at, get(at, message::NEXT));
        }
        if at == 0 {
            return Some(());
        }
        let _kept = (*cx).keep(sent);
        (*cx).actors.stats.cycles += 1;
        remove(post, list, before, sent);
        let _ = (*cx).failure("request cycle");
        let kept = (*cx).kept_exception(&Default::default());
        deliver_owed(cx, sent, Answer::Exception(kept));
        Some(())
    }
}

/// The join that waits for the answer of another one's method.
#[inline]
unsafe fn who_waits_for(waiter: Word) -> Option<Word> {
    // SAFETY: promised by the caller: a join.
    unsafe {
        match get(waiter, join::FLAGS) & (join::ANSWERED | join::NESTED) {
            join::ANSWERED => None,
            _ => who_waits(waiter),
        }
    }
}

/// The mail of the actor whose method a join is of, if messages are queued there, and the number of its lists.
#[inline]
unsafe fn mailed(waiter: Word) -> Option<(Word, usize)> {
    // SAFETY: promised by the caller: a join.
    unsafe {
        let actor = get(waiter, join::ACTOR);
        if actor == 0 {
            return None;
        }
        let class = class_of(actor);
        let post = if class.functional { 0 } else { get(actor, class.mail) };
        (post != 0 && get(post, mail::COUNT) > 0).then_some((post, class.lists))
    }
}

/// The join that waits for what is owed.
#[inline]
unsafe fn who_waits(owing: Word) -> Option<Word> {
    // SAFETY: promised by the caller.
    unsafe {
        let (mut owing, mut to) = (owing, get(owing, owed::TO));
        while to != 0 && Kind::Replier.is(to) {
            (owing, to) = (to, get(to, owed::TO));
        }
        if to == 0 || Kind::of(to) != Kind::Join || get(to, join::FLAGS) & join::WAITS == 0 {
            return None;
        }
        let due = Due::from_word(get(owing, owed::DUE));
        let awaited = due.is_call() || get(to, join::AWAITED) >> u32::from(due.pending().min(63)) & 1 == 1;
        awaited.then_some(to)
    }
}

/// Whether the actor that a request is queued for waits, directly or through others, for whoever sent the request. `None` if more was to be
/// looked at than so many joins and messages, which are counted off.
unsafe fn waits_for_itself(sent: Word, most: &mut usize) -> Option<bool> {
    // SAFETY: promised by the caller; everything reached is an object of the node.
    unsafe {
        let actor = get(sent, message::RECEIVER);
        let post = get(actor, class_of(actor).mail);
        let target = if post == 0 { 0 } else { get(post, mail::WAITING) };
        // One that is ready waits for nothing.
        let flags = join::WAITS | join::SELECTS | join::READY;
        if target == 0 || get(target, join::FLAGS) & flags != join::WAITS {
            return Some(false);
        }
        // Who waits for whom, backwards: from what the request's sender keeps waiting to the receiver's method.
        let mut next = who_waits(sent);
        for _ in 0..SHORT {
            let Some(waiter) = next else { return Some(false) };
            if waiter == target {
                return Some(true);
            }
            if mailed(waiter).is_some() {
                break;
            }
            next = who_waits_for(waiter);
        }
        // First along those that wait for each other's answers, then to what is queued for them.
        let mut seen = Seen::default();
        let mut waiters: SmallVec<[Word; 16]> = SmallVec::new();
        let mut posts: SmallVec<[(Word, usize); 8]> = SmallVec::new();
        let mut next = who_waits(sent);
        loop {
            while let Some(waiter) = next.take().or_else(|| waiters.pop()) {
                if waiter == target {
                    return Some(true);
                }
                if !seen.insert(waiter) {
                    continue;
                }
                *most = most.checked_sub(1)?;
                next = who_waits_for(waiter);
                if let Some(post) = mailed(waiter) {
                    posts.push(post);
                }
            }
            let Some((post, lists)) = posts.pop() else { return Some(false) };
            for list in (mail::LISTS..mail::fields(lists)).step_by(2) {
                let mut at = get(post, list);
                while at != 0 {
                    *most = most.checked_sub(1)?;
                    if let Some(waiter) = who_waits(at) {
                        waiters.push(waiter);
                    }
                    at = get(at, message::NEXT);
                }
            }
        }
    }
}

/// Objects that were looked at: mostly a few.
#[derive(Default)]
struct Seen {
    few: SmallVec<[Word; 16]>,
    many: FxHashSet<Word>,
}

impl Seen {
    /// Whether it was not looked at before.
    fn insert(&mut self, object: Word) -> bool {
        !self.few.contains(&object)
            && match self.few.len() < self.few.inline_size() {
                true => {
                    self.few.push(object);
                    true
                }
                false => self.many.insert(object),
            }
    }
}
