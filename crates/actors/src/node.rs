//! The state of a node: [`Actors`], the actors' part of a context. It has the ready queue, the
//! timers, and the parts that other files own: searches for cycles, other nodes, guests, mailboxes.
//! The steps of a node are in [`run`](crate::run).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bifrost_heap::{Marker, Reference};
use bifrost_runtime::LogBound;
use bifrost_runtime::abi::{Ret, Word};
use bifrost_runtime::node_words::NodeWords;

use crate::between::network::Network;
use crate::between::remote::Remote;
use crate::between::requests::Guest;
use crate::between::round_waits::Rounds;
use crate::between::search::state::ORDERED;
use crate::cycles::suspects::Suspects;
use crate::deferred::state::{Deferred, find_dead};
use crate::mailbox::state::Mailboxes;
use crate::next::{LANDED, Next};
use crate::object::{Actor, Answer, Join, Message, Replier};
use crate::trace::Trace;

/// A piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// An actor has messages.
    Actor(Actor),
    /// A join has all that it waited for.
    Join(Join),
    /// A message to a functional actor.
    Message(Message),
}

impl Work {
    pub(crate) fn word(self) -> Word {
        match self {
            Work::Actor(actor) => actor.word(),
            Work::Join(waiter) => waiter.word(),
            Work::Message(sent) => sent.word(),
        }
    }
}

/// The thing that waits for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timed {
    /// A method that selects.
    Join(Join),
    /// The deferred message of a number.
    Deferred(u64),
}

/// A message or answer of a transaction of the program; it leaves when that is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// A message.
    Message(Message),
    /// An answer, which may be a reference.
    Answer { destination: Replier, value: Word, reference: bool },
}

impl Held {
    /// Returns the objects that it consists of.
    pub(crate) fn references(self) -> impl Iterator<Item = Word> {
        let (first, second) = match self {
            Held::Message(made) => (made.word(), None),
            Held::Answer { destination, value, reference } => {
                (destination.word(), reference.then_some(value))
            }
        };
        std::iter::once(first).chain(second)
    }
}

/// The counter that a node reads that must ask its network.
static SOMEBODY: AtomicU32 = AtomicU32::new(1);

/// The actors' part of a context: its work, and the state of other nodes and sessions.
#[derive(Debug)]
pub struct Actors {
    pub(crate) ready: VecDeque<Work>,
    /// The timers, by the time at which they are over, and a number.
    pub(crate) timers: BTreeMap<(i64, u64), Timed>,
    pub(crate) tokens: u64,
    pub(crate) deferred: Deferred,
    /// True if `main` has ended, as far as this node knows.
    pub(crate) main_is_over: bool,
    pub(crate) suspects: Suspects,
    pub(crate) rounds: Rounds,
    main: Option<Answer>,
    main_is_reference: bool,
    /// The state of the seed, in a run whose order a seed decides.
    pub(crate) order: Option<u64>,
    log: fn(&str),
    notes: fn(&str),
    /// The bound of the log of failures that are answered to other nodes.
    pub(crate) answered_failures: LogBound,
    pub(crate) nap: fn(u64),
    idlers_kept: Option<Arc<AtomicU32>>,
    pub(crate) remote: Remote,
    pub(crate) guest: Guest,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) trace: Option<Box<Trace>>,
    /// The object that the step under way handles, and the message that it serves.
    pub(crate) step: [Word; 2],
    next: Option<Next>,
    held: Vec<Held>,
    /// The number of frames of code that cannot stop and has others above it on the stack.
    pub(crate) others: u32,
    /// True if no others may run so now.
    pub(crate) alone: bool,
    /// True if packets are being taken.
    pub(crate) accepts: bool,
}

impl Default for Actors {
    fn default() -> Actors {
        Actors {
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            tokens: 0,
            deferred: Deferred::default(),
            main_is_over: false,
            suspects: Suspects::default(),
            rounds: Rounds::default(),
            main: None,
            main_is_reference: false,
            order: None,
            log: |_| {},
            notes: |_| {},
            answered_failures: LogBound::default(),
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

    /// Sets the function that gets lines about failures that are answered to other nodes, where
    /// they may be handled; without it they are dropped.
    pub fn set_notes(&mut self, notes: fn(&str)) {
        self.notes = notes;
    }

    pub(crate) fn note(&self, text: &str) {
        (self.notes)(text);
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

    /// Takes the next piece of work.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Work> {
        if self.order.is_some() && !self.ready.is_empty() {
            let at = self.choose(self.ready.len() as u64)?;
            return self.ready.swap_remove_front(at as usize);
        }
        self.ready.pop_front()
    }

    /// True if a step must look at more than the ready queue.
    #[inline]
    pub(crate) fn looks_around(&self) -> bool {
        let remote = &self.remote;
        self.suspects.are_due()
            || remote.has_network()
            || remote.open.is_some()
            || !self.timers.is_empty()
            || !self.deferred.died.is_empty()
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
        (self.main, self.main_is_reference, self.main_is_over) = (None, is_reference, false);
        (self.others, self.alone, self.accepts) = (0, false, false);
    }

    /// Returns the objects that the node keeps alive; some may be 0.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Word> {
        let ready = self.ready.iter().map(|work| work.word()).chain(self.step);
        let timers = self.timers.values().map(|timed| match timed {
            Timed::Join(waiter) => waiter.word(),
            Timed::Deferred(_) => 0,
        });
        // A search keeps the objects that other nodes know, and no others.
        let watched = self.remote.searches.is_due().then(|| self.deferred.watched.keys());
        let watched = watched.into_iter().flatten().map(|actor| actor.word());
        let watched = watched.filter(|word| !self.remote.is_known(*word));
        let held = self.held.iter().flat_map(|held| held.references());
        let guests = self.remote.searches.is_due().then(|| self.remote.known_by_guests());
        let main = match self.main {
            Some(Answer::Exception(kept)) => kept.word(),
            Some(Answer::Value(word)) if self.main_is_reference => word,
            _ => 0,
        };
        let others = self.suspects.roots().chain(self.remote.roots()).chain(guests.into_iter().flatten());
        ready
            .chain(timers)
            .chain(watched)
            .chain(self.deferred.roots())
            .chain(held)
            .chain(others)
            .chain(self.guest.roots())
            .chain(self.mailboxes.roots())
            .chain([main])
    }

    /// Marks the objects that only other nodes keep alive, after all others were marked.
    ///
    /// # Safety
    /// All of them are objects of the heap that the marker marks.
    pub(crate) unsafe fn trace_known(&mut self, node: u32, marker: &mut Marker) {
        if self.remote.searches.is_due() {
            // SAFETY: as for this function.
            return unsafe { self.remote.make_part(node, marker) };
        }
        for known in self.remote.known_objects() {
            // SAFETY: as for this function.
            marker.root(unsafe { Reference::of(known) });
        }
        find_dead(&mut self.deferred, &mut |word, keeps| {
            // SAFETY: monitored actors and their watchers are objects of the heap.
            let object = unsafe { Reference::new(word) };
            if keeps {
                marker.root(Some(object));
            }
            marker.lives(object)
        });
    }

    /// Forgets the proxies and other entries for objects that the collection found dead.
    /// `live_bytes` is the number of bytes that live.
    pub(crate) fn collected(&mut self, node: u32, live_bytes: usize, lives: &dyn Fn(Word) -> bool) {
        self.suspects.collected(lives);
        self.deferred.collected(lives);
        self.remote.forget(node, lives);
        self.mailboxes.collected(lives);
        self.remote.searches.collected(live_bytes, self.remote.known());
    }

    /// True if a search for garbage shall begin.
    pub(crate) fn wants_search(&mut self) -> bool {
        let at_random = self.is_ordered() && self.choose(ORDERED) == Some(0);
        at_random && self.remote.known() > 0 || self.remote.wants_search()
    }
}
