//! Timers: the time limits of selections (`after`), and the times of [deferred
//! messages](crate::deferred). A time limit ends with its selection, so those of selections that
//! were served neither keep a run from ending nor take memory.

use std::time::Duration;

use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_layout::join;
use bifrost_runtime::cx::Cx;

use crate::between::network::Wait;
use crate::between::search;
use crate::context::WithActors;
use crate::cycles::{look_in_ms, look_in_time};
use crate::deferred::{self, must_wait};
use crate::node::Timed;
use crate::object::Join;
use crate::queue::ready;

/// The number of turns of which one looks whether a timer's time has come.
const LOOKS_AT_TIMERS: u64 = 64;

/// The turns that take a millisecond, in a run whose order a seed decides.
const ORDERED_TURNS_IN_MS: u64 = 1000;

/// The longest time that a node sleeps before it looks whether it shall end.
const NAP_MS: i64 = 20;

/// True if timers are compared with the clock before this turn: the clock is not asked at each.
fn looks_at_timers(cx: &mut Cx) -> bool {
    let late = cx.words.turn_over || cx.words.stats.turns.is_multiple_of(LOOKS_AT_TIMERS);
    late && !cx.actors().timers.is_empty()
}

/// Returns the time that timers go by. Where a seed decides the order, turns take time, and a node
/// without work jumps to the time of its next timer.
pub fn timer_ms(cx: &mut Cx) -> i64 {
    match cx.actors().is_ordered() {
        true => turns_ms(cx).saturating_add(cx.actors().deferred.jumped_ms),
        false => cx.now_ms(),
    }
}

/// The time that the turns have taken, in a run whose order a seed decides.
fn turns_ms(cx: &Cx) -> i64 {
    (cx.words.stats.turns / ORDERED_TURNS_IN_MS) as i64
}

/// True if the time of the first timer has come.
pub(crate) fn timer_is_due(cx: &mut Cx) -> bool {
    let first = cx.actors().timers.first_key_value().map(|((time, _), _)| *time);
    first.is_some_and(|time| time <= timer_ms(cx))
}

/// Starts the time limit of a selection that begins to wait, if it has one.
pub fn start_timer(cx: &mut Cx, waiter: Join, limit_ms: Option<i64>) {
    let Some(limit) = limit_ms else { return waiter.set_awaited(0) };
    let time = timer_ms(cx).saturating_add(limit);
    let actors = cx.actors();
    actors.tokens += 1;
    actors.timers.insert((time, actors.tokens), Timed::Join(waiter));
    waiter.set_awaited(actors.tokens);
    waiter.set_time(time as Word);
}

/// Cancels the time limit of a selection that is served, if it has one. So a node has at most one
/// timer for each method that selects now.
pub fn end_timer(cx: &mut Cx, waiter: Join) {
    let (time, token) = (waiter.time() as i64, waiter.awaited());
    cx.actors().timers.remove(&(time, token));
}

/// Returns the waiting time of an idle node: until the time of the first timer, of a search, or of
/// a look at its waits.
pub(crate) fn rest(cx: &mut Cx) -> Wait {
    let timer = cx.actors().timers.first_key_value().map(|((time, _), _)| *time);
    let timer = timer.map(|time| time.saturating_sub(cx.now_ms()).max(0));
    let time = |left: i64| Duration::from_millis(left as u64);
    let look = look_in_ms(cx);
    let is_ordered = cx.actors().is_ordered();
    let parked = cx.actors().mailboxes.until_ns().filter(|_| !is_ordered);
    let parked = parked.map(|until| (until.saturating_sub(cx.now_ns()) / 1_000_000) as i64);
    let searches = search::wait_ms(cx);
    let is_idle = searches.or(parked).is_none() && !must_wait(cx);
    match [timer, searches, parked].into_iter().flatten().min() {
        // A run need not wait for timers that repeat, once `main` has ended.
        Some(left) if is_idle => Wait::IdleFor(time(left.min(look.unwrap_or(left)))),
        Some(left) => Wait::For(time(left.min(look.unwrap_or(left)))),
        None => look.map_or(Wait::Idle, |left| Wait::IdleFor(time(left))),
    }
}

/// Resumes the joins whose time has come, beside all other work.
pub(crate) fn wake_due(cx: &mut Cx) {
    while looks_at_timers(cx) && timer_is_due(cx) {
        wake_first(cx);
    }
}

/// Sleeps until the next timer, if there is one that the run waits for, and resumes its waiters, or
/// finds something else to do before. Returns true if one or the other.
pub(crate) fn wake_next(cx: &mut Cx) -> bool {
    if !must_wait(cx) {
        return false;
    }
    let Some((time, _)) = cx.actors().timers.first_key_value().map(|(key, _)| *key) else { return false };
    // A run whose order is decided does not wait: its time is that of the next timer.
    while !cx.actors().is_ordered() {
        let left = time.saturating_sub(cx.now_ms());
        if left <= 0 {
            break;
        }
        (cx.actors().nap)(left.min(NAP_MS) as u64);
        look_in_time(cx);
        if cx.actors().suspects.are_due() {
            return true;
        }
        if cx.must_attend() && !cx.stop().returned() {
            // A run that is ended sees it at the next turn.
            break;
        }
    }
    if cx.actors().is_ordered() {
        let early = time.saturating_sub(timer_ms(cx)).max(0);
        cx.actors().deferred.jumped_ms += early;
    }
    wake_first(cx)
}

/// Resumes the waiter of the first timer. Returns true if there was one.
pub(crate) fn wake_first(cx: &mut Cx) -> bool {
    let Some((_, timed)) = cx.actors().timers.pop_first() else { return false };
    match timed {
        Timed::Join(waiter) => {
            waiter.set_flags(waiter.flags() | join::LATE);
            ready(cx, waiter);
        }
        Timed::Deferred(number) => deferred::time_came(cx, number),
    }
    true
}
