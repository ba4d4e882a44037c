//! The work of a node: its ready queue, the order of its steps, and the end, when nothing can
//! happen any more. Messages and answers themselves are in [`crate`].
//!
//! The type to read first is [`Actors`], the actors' part of a context; then `do_next`, which takes
//! one step:
//!
//! 1. `look_around`: find request cycles, send the open request, collect or search if that is due,
//!    receive packets, resume joins whose timers are over;
//! 2. take one [`Work`] out of the ready queue: a join (`resume`), a message of a functional actor
//!    (`serve`), or the turn of an actor (`turn`);
//! 3. stop if the run was ended.
//!
//! | caller | runs steps |
//! | --- | --- |
//! | [`run_node`], `run` | until no work, packet or timer is left, or the network is over |
//! | `pump` | one, in a context without actors of its own |
//! | [`step_node`] | one, in a run whose order a seed decides |
//! | `run_others` | for 2 ms, above passive code on the stack |

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bifrost_heap::Marker;
use bifrost_ir::MethodRef;

use crate::credit::{Against, HOLD};
use crate::cycles::{self, Suspects};
use crate::guest::Guest;
use crate::host::WithActors;
use crate::mailbox::{self, Mailboxes};
use crate::network::{Network, Received, Wait};
use crate::packets::{accept, settle_open};
use crate::remote::{Remote, lose};
use crate::rounds::{self, Rounds};
use crate::search::{self, ORDERED};
use crate::timers;
use crate::trace::{Trace, What};
use crate::{
    Answer, LANDED, Next, State, class_of, deliver_owed, layout_of, ready, refused, rest, set_state, state,
};
use crate::{Origin, Verdict, owe_as, take_message, take_oldest, words_of};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_layout::{join, mail, message, owed};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::node_words::NodeWords;
use bifrost_runtime::object::{get, set};

/// A piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// An actor has messages.
    Actor(Word),
    /// A join has all that it waited for.
    Join(Word),
    /// A message to a functional actor.
    Message(Word),
}

impl Work {
    fn word(self) -> Word {
        match self {
            Work::Actor(word) | Work::Join(word) | Work::Message(word) => word,
        }
    }
}

/// A message or answer of a transaction of the program; it leaves when that is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// A message.
    Message(Word),
    /// An answer, which may be a reference.
    Answer { destination: Word, value: Word, reference: bool },
}

impl Held {
    /// Returns the objects that it consists of.
    pub(crate) fn references(self) -> impl Iterator<Item = Word> {
        let (first, second) = match self {
            Held::Message(made) => (made, None),
            Held::Answer { destination, value, reference } => (destination, reference.then_some(value)),
        };
        std::iter::once(first).chain(second)
    }
}

/// The counter that a node reads that must ask its network.
static SOMEBODY: AtomicU32 = AtomicU32::new(1);

/// In a run whose order a seed decides: the number of loop steps of which one makes way.
const WAYS: u64 = 8;

/// The actors' part of a context: its work, and the state of other nodes and sessions.
#[derive(Debug)]
pub struct Actors {
    ready: VecDeque<Work>,
    /// The joins that select, by the time at which their timers are over, and a number.
    pub(crate) timers: BTreeMap<(i64, u64), Word>,
    pub(crate) tokens: u64,
    pub(crate) suspects: Suspects,
    pub(crate) rounds: Rounds,
    main: Option<Answer>,
    main_is_reference: bool,
    /// The state of the seed, in a run whose order a seed decides.
    pub(crate) order: Option<u64>,
    log: fn(&str),
    pub(crate) nap: fn(u64),
    idlers_kept: Option<Arc<AtomicU32>>,
    pub(crate) remote: Remote,
    pub(crate) guest: Guest,
    pub(crate) mailboxes: Mailboxes,
    trace: Option<Box<Trace>>,
    /// The object that the step under way handles, and the message that it serves.
    step: [Word; 2],
    next: Option<Next>,
    held: Vec<Held>,
    /// The number of frames of code that cannot stop and has others above it on the stack.
    others: u32,
    /// True if no others may run so now.
    pub(crate) alone: bool,
    /// True if packets are being taken.
    accepts: bool,
}

impl Default for Actors {
    fn default() -> Actors {
        Actors {
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            tokens: 0,
            suspects: Suspects::default(),
            rounds: Rounds::default(),
            main: None,
            main_is_reference: false,
            order: None,
            log: |_| {},
            nap: |_| std::hint::spin_loop(),
            idlers_kept: None,
            remote: Remote::default(),
            guest: Guest::default(),
            mailboxes: Mailboxes::default(),
            trace: None,
            step: [0; 2],
            next: None,
            held: Vec::new(),
            others: 0,
            alone: false,
            accepts: false,
        }
    }
}

impl Actors {
    /// Has a seed decide the order of the work, and the messages that are calls. So a run can be
    /// repeated and its order varied.
    pub(crate) fn set_order(&mut self, seed: u64) {
        self.order = Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    }

    /// Sets the function that gets lines about failures that nobody awaits; without it they are
    /// dropped.
    pub fn set_log(&mut self, log: fn(&str)) {
        self.log = log;
    }

    /// Lets the node reach others.
    pub(crate) fn set_network(&mut self, words: &mut NodeWords, network: Box<dyn Network>, nodes: u32) {
        let idlers = network.idlers();
        words.idlers = idlers.as_ref().map_or(&raw const SOMEBODY, Arc::as_ptr);
        words.spreads = u64::from(nodes > 1);
        self.idlers_kept = idlers;
        self.remote.set_network(network, nodes);
    }

    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Sets the function by which the node sleeps, for so many milliseconds at most, when it only
    /// waits for a time. Without it the node spins.
    pub fn set_nap(&mut self, nap: fn(u64)) {
        self.nap = nap;
    }

    pub(crate) fn log(&self, text: &str) {
        (self.log)(text);
    }

    /// Returns a number below `n` by the seed.
    pub(crate) fn choose(&mut self, n: u64) -> Option<u64> {
        let state = self.order.as_mut()?;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some((*state >> 11) % n)
    }

    /// True if the seed wants a message queued that could be a call.
    pub(crate) fn postpones(&mut self) -> bool {
        self.choose(2) == Some(0)
    }

    /// Notes the way in which the function that runs goes on. Returns the outcome [`LANDED`] for
    /// its caller.
    pub fn land(&mut self, next: Next) -> Ret {
        self.next = Some(next);
        Ret { outcome: LANDED, value: 0 }
    }

    /// Takes the way in which a function goes on that came back with [`LANDED`].
    pub(crate) fn take_next(&mut self) -> Next {
        self.next.take().expect("whoever has landed says where")
    }

    /// True if a seed decides the order.
    pub fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// True if packets are being taken.
    pub(crate) fn accepts(&self) -> bool {
        self.accepts
    }

    /// Returns the amount of work that waits.
    pub(crate) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn push(&mut self, work: Work) {
        self.ready.push_back(work);
    }

    #[inline]
    fn pop(&mut self) -> Option<Work> {
        if self.order.is_some() && !self.ready.is_empty() {
            let at = self.choose(self.ready.len() as u64)?;
            return self.ready.swap_remove_front(at as usize);
        }
        self.ready.pop_front()
    }

    /// True if a step must look at more than the ready queue.
    #[inline]
    fn looks_around(&self) -> bool {
        let remote = &self.remote;
        self.suspects.are_due()
            || remote.has_network()
            || remote.open.is_some()
            || !self.timers.is_empty()
            || self.mailboxes.is_waiting()
    }

    pub(crate) fn hold(&mut self, held: Held) {
        self.held.push(held);
    }

    pub(crate) fn take_held(&mut self) -> Vec<Held> {
        std::mem::take(&mut self.held)
    }

    /// Drops the messages and answers of a transaction that was aborted.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
    }

    pub(crate) fn answered(&mut self, answer: Answer) {
        self.main = Some(answer);
    }

    pub(crate) fn main(&self) -> Option<&Answer> {
        self.main.as_ref()
    }

    pub(crate) fn take_main(&mut self) -> Option<Answer> {
        self.main.take()
    }

    pub(crate) fn begin_main(&mut self, is_reference: bool) {
        (self.main, self.main_is_reference) = (None, is_reference);
        (self.others, self.alone, self.accepts) = (0, false, false);
    }

    /// Marks the objects that the node keeps alive.
    ///
    /// # Safety
    /// All of them are objects of the context's heap.
    pub(crate) unsafe fn trace(&mut self, marker: &mut Marker) {
        // SAFETY: promised by the caller.
        unsafe {
            for work in &self.ready {
                marker.root(work.word());
            }
            for word in self.step {
                marker.root(word);
            }
            for waiter in self.timers.values() {
                marker.root(*waiter);
            }
            for sent in self.suspects.roots() {
                marker.root(sent);
            }
            for held in self.held.iter().flat_map(|held| held.references()) {
                marker.root(held);
            }
            for known in self.remote.roots() {
                marker.root(known);
            }
            if self.remote.searches.is_due() {
                for known in self.remote.known_by_guests() {
                    marker.root(known);
                }
            }
            self.guest.trace(marker);
            self.mailboxes.trace(marker);
            match self.main {
                Some(Answer::Exception(kept)) => marker.root(kept),
                Some(Answer::Value(word)) if self.main_is_reference => marker.root(word),
                _ => {}
            }
        }
    }
}

impl Actors {
    /// Marks the objects that only other nodes keep alive, after all others were marked.
    ///
    /// # Safety
    /// As for [`Actors::trace`].
    pub(crate) unsafe fn trace_known(&mut self, node: u32, marker: &mut Marker) {
        // SAFETY: promised by the caller.
        unsafe {
            if self.remote.searches.is_due() {
                return self.remote.make_part(node, marker);
            }
            for known in self.remote.known_objects() {
                marker.root(known);
            }
        }
    }

    /// Forgets the proxies and other entries for objects that the collection found dead.
    /// `live_bytes` is the number of bytes that live.
    pub(crate) fn collected(&mut self, node: u32, live_bytes: usize, lives: &dyn Fn(Word) -> bool) {
        self.suspects.collected(lives);
        self.remote.forget(node, lives);
        self.mailboxes.collected(lives);
        self.remote.searches.collected(live_bytes, self.remote.known());
    }

    /// True if a search for garbage shall begin.
    fn wants_search(&mut self) -> bool {
        let at_random = self.is_ordered() && self.choose(ORDERED) == Some(0);
        at_random && self.remote.known() > 0 || self.remote.wants_search()
    }
}

/// True if the node has something else to do than the code that runs, which has had its time.
/// The code below it on the stack waits for it, unless it has sent a message of the past form.
pub(crate) fn others_wait(cx: &mut Cx) -> bool {
    let (actors, words) = cx.actors_and_words();
    words.past_sent > 0
        || !actors.ready.is_empty()
        || actors.suspects.are_due()
        || actors.remote.has_mail()
        || crate::timers::timer_is_due(cx)
}

/// Returns the clock, if the node is traced; else 0.
pub(crate) fn trace_clock(cx: &mut Cx) -> u64 {
    if cx.actors().is_traced() { cx.now_ns() } else { 0 }
}

/// Adds an event that began at `start_ns` to the trace, if the node is traced.
pub(crate) fn note(cx: &mut Cx, what: What, start_ns: u64) {
    if cx.actors().trace.is_some() {
        let now = cx.now_ns();
        if let Some(trace) = &mut cx.actors().trace {
            trace.add(what, start_ns, now);
        }
    }
}

/// Starts to keep a trace of a node's events.
pub fn start_trace(cx: &mut Cx) {
    cx.actors().trace = Some(Box::default());
    cx.words.looks_at_messages = true;
}

/// Returns the trace of the events since then, and ends it.
pub fn take_trace(cx: &mut Cx) -> Option<Trace> {
    cx.words.looks_at_messages = cx.actors().is_ordered();
    cx.actors().trace.take().map(|trace| *trace)
}

/// Lets a node reach others; [`Cx::set_node`] sets their number.
pub fn set_network(cx: &mut Cx, network: Box<dyn Network>, nodes: u32) {
    let (actors, words) = cx.actors_and_words();
    actors.set_network(words, network, nodes);
}

/// True if the method that runs shall make way for others.
pub fn must_make_way(cx: &mut Cx) -> bool {
    if cx.actors().is_ordered() {
        return cx.actors().choose(WAYS) == Some(0);
    }
    // Its sender may be below it on the stack, and wait for nothing else.
    std::mem::take(&mut cx.words.turn_over)
}

/// Runs the actors of a node that has no `main`, until the network says that it is over. Returns
/// the outcome `Returned` or `Killed`.
///
/// # Safety
/// `cx` is the current context, between [`Cx::begin`] and [`Cx::leave`].
pub unsafe fn run_node(cx: *mut Cx) -> Ret {
    // SAFETY: promised by the caller.
    unsafe { run(cx) }
}

/// The time for which others run above code that cannot stop before that goes on.
const OTHERS_NS: u64 = 2_000_000;

/// The most code that cannot stop on the stack with others above it.
const OTHERS_DEPTH: u32 = 16;

/// Runs others above passive code on the stack, which has had its time and cannot be left. They run
/// until nothing is to be done, or they have had their time. If that code has sent too much to a
/// node, they run until the node has taken enough ([`credit`](crate::credit)). Returns the outcome
/// `Returned` or `Killed`.
///
/// # Safety
/// `cx` is the current context; the caller keeps the objects that it needs.
pub(crate) unsafe fn run_others(cx: *mut Cx) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let actors = (*cx).actors();
        if actors.alone
            || actors.others >= OTHERS_DEPTH
            || crate::guest::holds_messages(&mut *cx)
            || !(*cx).may_nest()
        {
            return Ret::NOTHING;
        }
        let step = (*cx).actors().step;
        let _step = (*cx).keep_all(&step);
        (*cx).actors().others += 1;
        (*cx).words.ran_others += 1;
        (*cx).words.stats.ways += 1;
        let full = match (*cx).actors().accepts {
            true => None,
            false => (*cx).actors().remote.credit.take_full(),
        };
        let mailbox = match (*cx).actors().accepts {
            true => 0,
            false => (*cx).actors().mailboxes.take_full(),
        };
        let _mailbox = (*cx).keep(mailbox);
        let until = (*cx).now_ns().saturating_add(OTHERS_NS);
        let mut patience = mailbox::Patience::new(cx);
        let ended = loop {
            let far = full.is_some_and(|node| !(*cx).actors().remote.credit.is_open(node));
            let parks = mailbox != 0 && !mailbox::is_open(cx, mailbox) && !patience.is_over(cx, mailbox);
            let waits = far || parks;
            let stepped = match self::step(cx) {
                Ok(false) if waits && !(*cx).actors().remote.has_network() => break Ret::NOTHING,
                Ok(false) if waits => match (*cx).stop() {
                    ret if ret.returned() => wait(cx, Wait::For(HOLD)),
                    ret => Err(ret),
                },
                stepped => stepped,
            };
            match stepped {
                Ok(stepped) if waits || stepped && (*cx).now_ns() < until => {}
                Err(ret) if !ret.returned() => break ret,
                _ => break Ret::NOTHING,
            }
        };
        if mailbox != 0 {
            mailbox::give_up_on(cx, mailbox);
        }
        (*cx).actors().others -= 1;
        (*cx).actors().step = step;
        // It is not known any more whether messages that it has sent before were served.
        (*cx).words.past_sent = 1;
        ended
    }
}

/// Takes packets that came. Returns true if something may have happened, or an outcome to end with
/// if the run was ended or can end.
unsafe fn receive(cx: *mut Cx, wait: Wait) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        if (*cx).actors().accepts {
            // Others run above work that a packet has begun: the packets behind it come first.
            return Ok(false);
        }
        let start = trace_clock(&mut *cx);
        let ready = (*cx).actors().ready_count();
        let (actors, words) = (*cx).actors_and_words();
        let received = actors.remote.receive(wait, ready, &words.stats);
        if wait != Wait::No {
            note(&mut *cx, What::Idle, start);
        }
        match received {
            Received::Packets(from, packets) => {
                (*cx).actors().suspects.received += 1;
                let start = trace_clock(&mut *cx);
                (*cx).actors().accepts = true;
                let ret = accept(cx, from, &packets);
                (*cx).actors().accepts = false;
                note(&mut *cx, What::Packets(from), start);
                (*cx).actors().remote.recycle(packets);
                if ret.returned() { Ok(true) } else { Err(ret) }
            }
            Received::Look => {
                crate::cycles::look_now(&mut *cx);
                Ok(true)
            }
            Received::Lost(nodes) => {
                (*cx).actors().suspects.received += 1;
                lose(cx, &nodes);
                Ok(true)
            }
            Received::Guest(number) => {
                (*cx).actors().remote.open_guest(number);
                Ok(true)
            }
            Received::Nothing => Ok(false),
            Received::Over => Err(Ret::NOTHING),
            Received::Stopped => Err(Ret::KILLED),
        }
    }
}

/// Waits for packets, as nothing else is to be done; for a shorter time where a sender is held
/// back. Returns as [`receive`].
#[inline]
unsafe fn wait(cx: *mut Cx, most: Wait) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let holds = (*cx).actors().remote.credit.holds;
        let came = receive(cx, if holds { Wait::For(HOLD) } else { most })?;
        if holds && !came {
            (*cx).actors().remote.release_held(None);
        }
        Ok(came || holds)
    }
}

/// Runs all work until nothing is left. Returns the outcome `Returned` or `Killed`.
pub(crate) unsafe fn run(cx: *mut Cx) -> Ret {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        loop {
            match do_next(cx) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(ret) => return ret,
            }
            let far = (*cx).actors().remote.has_network();
            if (!far || (*cx).actors().is_ordered()) && mailbox::give_up(cx) {
                continue;
            }
            if far {
                match wait(cx, timers::rest(cx)) {
                    Ok(true) => continue,
                    Ok(false) => crate::cycles::look_in_time(&mut *cx),
                    Err(ret) if ret.returned() && rounds::may_go_on(cx) => continue,
                    Err(ret) => return ret,
                }
            }
            if !timers::wake_next(cx) && !far {
                return Ret::NOTHING;
            }
        }
    }
}

/// Takes the next packets in a context without actors of its own, or does one piece of work.
/// Returns an outcome to end with if nothing can happen any more, or the run was ended.
pub(crate) unsafe fn pump(cx: *mut Cx) -> Result<(), Ret> {
    // SAFETY: promised by the caller: `cx` is the current context.
    unsafe {
        if (*cx).actors().remote.has_network() {
            if (*cx).actors().remote.knows_many() {
                (*cx).collect();
            }
            return receive(cx, Wait::Idle).map(|_| ());
        }
        if step(cx)? || timers::wake_next(cx) { Ok(()) } else { Err(Ret::NOTHING) }
    }
}

/// Takes one step of a node in a run whose order a seed decides, or resumes a join that waits for a
/// time. Returns true if there was one to take.
///
/// # Safety
/// `cx` is a context between [`Cx::begin`] and [`Cx::leave`].
///
/// # Errors
/// The outcome that the run is ended with.
pub unsafe fn step_node(cx: *mut Cx) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let stepped = step(cx)? || mailbox::give_up(cx) || timers::wake_next(cx);
        if !stepped {
            (*cx).actors().remote.release_held(None);
            (*cx).actors().remote.post_all();
        }
        Ok(stepped)
    }
}

/// Does as [`do_next`], in a frame of its own.
unsafe fn step(cx: *mut Cx) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe { do_next(cx) }
}

/// Takes one step: looks for open requests and due timers, takes packets from other nodes, and does
/// one piece of work. Returns true if there was one.
#[inline(always)]
unsafe fn do_next(cx: *mut Cx) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let came = (*cx).actors().looks_around() && look_around(cx)?;
        let Some(work) = (*cx).actors().pop() else {
            return Ok(came || cycles::look_at_rest(cx));
        };
        (*cx).words.stats.turns += 1;
        (*cx).words.turn_over = false;
        (*cx).actors().remote.credit.begin_turn();
        (*cx).actors().mailboxes.begin_turn();
        (*cx).words.past_sent = 0;
        (*cx).actors().step = [work.word(), 0];
        let ended = match work {
            Work::Join(waiter) => resume(cx, waiter),
            Work::Message(sent) => serve(cx, sent),
            Work::Actor(actor) => turn(cx, actor),
        };
        (*cx).actors().step = [0; 2];
        if ended.outcome == Outcome::Killed as u64 {
            return Err(ended);
        }
        if (*cx).must_attend() {
            let stopped = (*cx).stop();
            if !stopped.returned() {
                return Err(stopped);
            }
        }
        Ok(true)
    }
}

/// Does the work that may be due before a step: searches, packets and timers. Returns true if
/// packets came from other nodes.
#[inline(never)]
unsafe fn look_around(cx: *mut Cx) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        cycles::look(cx);
        settle_open(cx);
        let mut came = false;
        if (*cx).actors().remote.has_network() {
            if (*cx).actors().remote.knows_many() {
                (*cx).collect();
            }
            if (*cx).actors().wants_search() || search::wait_ms(cx) == Some(0) {
                search::ask(cx);
            }
            came = receive(cx, Wait::No)?;
            if (*cx).actors().remote.credit.holds {
                let filled = (*cx).heap().is_filled();
                let now_ns = if (*cx).actors().is_ordered() { 0 } else { (*cx).now_ns() };
                (*cx).actors().remote.release_held(Some(&mut |held| match held {
                    Against::Nothing => false,
                    // The objects that others know are actors.
                    Against::Mail { .. } => held.lasts(now_ns),
                    Against::Heap => filled,
                }));
            }
        }
        timers::wake_due(cx);
        mailbox::look(cx);
        Ok(came)
    }
}

/// Goes on with a method that waited. Returns the outcome `Returned` or `Killed`.
#[inline]
pub(crate) unsafe fn resume(cx: *mut Cx, waiter: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let flags = get(waiter, join::FLAGS);
        set(waiter, join::FLAGS, flags & !(join::READY | join::WAITS));
        set(waiter, join::OWING, 0);
        if flags & (join::ENDED | join::WAITS) != join::WAITS {
            return Ret::NOTHING;
        }
        if flags & join::SELECTS != 0 {
            let actor = get(waiter, join::ACTOR);
            if actor != 0 && state(actor) == State::Selecting {
                set_state(actor, State::Active);
            }
        }
        match (*cx).actors().is_traced() {
            true => resume_traced(cx, waiter),
            false => crate::code::resume(cx, waiter),
        }
    }
}

#[cold]
unsafe fn resume_traced(cx: *mut Cx, waiter: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let (start, func) = (trace_clock(&mut *cx), layout_of(waiter).func);
        let ret = crate::code::resume(cx, waiter);
        note(&mut *cx, What::Join(func), start);
        ret
    }
}

/// Runs a message of a functional actor.
unsafe fn serve(cx: *mut Cx, sent: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let words = words_of(sent);
        let ret = match state(words[0]) {
            State::Failed => crate::failed(cx, words[0]),
            _ => served(cx, message::slot(sent), words),
        };
        settle(cx, sent, ret)
    }
}

/// Enters the method that a queued message is for.
unsafe fn served(cx: *mut Cx, slot: u32, words: &[Word]) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let start = trace_clock(&mut *cx);
        let method = crate::method_of(words[0], slot);
        let ty = bifrost_runtime::image::Table::of(words[0]).info().ty;
        let ret = crate::enter_method(cx, slot, words);
        note(&mut *cx, What::Message(MethodRef { ty, method }), start);
        ret
    }
}

/// Delivers the outcome of a queued message to the object that awaits it.
pub(crate) unsafe fn settle(cx: *mut Cx, sent: Word, ret: Ret) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        match Outcome::from(ret) {
            Outcome::Returned if get(sent, owed::TO) == 0 => {}
            Outcome::Killed => return ret,
            Outcome::Pending => owe_as(cx, ret.value, sent),
            Outcome::Returned => deliver_owed(cx, sent, Answer::Value(ret.value)),
            _ => {
                let ty = bifrost_runtime::image::Table::of(get(sent, message::RECEIVER)).info().ty;
                let method = crate::method_of(get(sent, message::RECEIVER), message::slot(sent));
                let kept =
                    crate::exceptions::kept_exception(&mut *cx, &Origin::Method(MethodRef { ty, method }));
                deliver_owed(cx, sent, Answer::Exception(kept));
            }
        }
        Ret::NOTHING
    }
}

/// The most messages that an actor serves in one turn.
const TURN_MESSAGES: u32 = 256;

/// Runs an actor's turn: it serves messages while it has some, no method of it waits and its time
/// is not over.
unsafe fn turn(cx: *mut Cx, actor: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        // A seed decides after each message on the next work.
        let most = if (*cx).actors().is_ordered() { 1 } else { TURN_MESSAGES };
        let class = class_of(actor);
        let post = get(actor, class.mail);
        let serves = post != 0 && get(post, mail::WAITING) == 0 && get(post, mail::COUNT) > 0;
        if serves
            && state(actor) == State::Active
            && let Some(code) = crate::code::turns(cx, class)
        {
            set(post, mail::SCHEDULED, 0);
            let ended = bifrost_runtime::abi::enter(code, cx, &[actor, u64::from(most)]);
            return rest(cx, actor, ended);
        }
        for _ in 0..most {
            match serve_next(cx, actor) {
                Ok(true) => {}
                Ok(false) => return Ret::NOTHING,
                Err(ret) => return ret,
            }
            let post = get(actor, class.mail);
            let more = post != 0 && get(post, mail::WAITING) == 0 && get(post, mail::COUNT) > 0;
            if !more || (*cx).words.turn_over || state(actor) != State::Active {
                break;
            }
        }
        rest(cx, actor, Ret::NOTHING)
    }
}

/// Serves the work of an actor in the queue. A method that selects goes on; otherwise the oldest
/// message that is not refused is served. Returns true if one was.
unsafe fn serve_next(cx: *mut Cx, actor: Word) -> Result<bool, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let class = class_of(actor);
        let post = get(actor, class.mail);
        if post == 0 {
            return Ok(false);
        }
        set(post, mail::SCHEDULED, 0);
        let waiter = get(post, mail::WAITING);
        if waiter != 0 {
            if get(waiter, join::FLAGS) & join::SELECTS != 0 {
                ready(cx, waiter);
            }
            return Ok(false);
        }
        if state(actor) == State::Failed {
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
                if get(post, mail::COUNT) == 0 {
                    set(actor, class.mail, 0);
                }
                set_state(actor, State::Dormant);
                return Ok(false);
            }
            Err(ret) => return Err(ret),
        };
        (*cx).actors().step[1] = sent;
        set_state(actor, State::Active);
        let ret = served(cx, message::slot(sent), words_of(sent));
        let settled = settle(cx, sent, ret);
        if settled.returned() { Ok(true) } else { Err(settled) }
    }
}

/// Takes the oldest message that an actor does not refuse.
unsafe fn take_accepted(cx: *mut Cx, actor: Word, class: &crate::ActorClass) -> Result<Option<Word>, Ret> {
    // SAFETY: promised by the caller.
    unsafe {
        let mut methods = (0..class.methods as u32).map(bifrost_ir::MethodId::from_u32);
        let found = take_message(cx, actor, &mut methods, &mut |cx, method, sent| {
            Ok(match refused(cx, class, message::slot(sent), words_of(sent))? {
                false => Verdict::Takes,
                true if class.looks_into(method) => Verdict::Refuses,
                true => Verdict::RefusesAll,
            })
        });
        Ok(found?.map(|(_, sent)| sent))
    }
}
