//! The state that the nodes of one process share: their mail, and their view of each other.
//!
//! Read [`Shared`] first, then [`Mail`]. The nodes' threads are in `nodes.rs`, a node's part of the
//! network is in `nodes/port.rs`, and the links to other processes are in `capsules/link.rs`. All
//! three use this file, and it uses none of them.
//!
//! | state | written by | read by |
//! | --- | --- | --- |
//! | `active` | each sender and receiver of mail | the node that rests last, links |
//! | `idle[node]` of a node here | that node, and the sender that gives it something | all |
//! | `idle[node]` of a node elsewhere | the links | all |
//! | `inboxes` | - | all senders |
//! | `waiting_bytes` | the links, and the node that takes the bytes | the links, guests |
//!
//! Packets between nodes go through channels. One counter ([`Active`]) is the number of busy nodes
//! plus the number of packets under way. When it is 0, nothing can happen any more in this process.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bifrost_actors::{Named, tasks_of};
use bifrost_runtime::cx::{Kill, Poll};
use bifrost_runtime::node_words::Stats;
use parking_lot::Mutex;

use crate::active::Active;
use crate::look::{LookAt, Ticks};
use crate::processors::Sleeper;
use crate::tasks::{Client, TaskMail, Tasks};

/// The largest number of nodes of a program, in all its processes.
pub const NODES_MAX: u32 = 255;

/// The guests of a server, as its nodes see them: receivers of packets with numbers above those of
/// the nodes, and the names of actors.
pub trait Guests: std::fmt::Debug + Send + Sync {
    /// Hands over packets of a node. A guest that has left takes none.
    fn post(&self, from: u32, to: u32, packets: Vec<u8>);

    /// True if a guest waits for packets.
    fn waits(&self, guest: u32) -> bool;

    /// Enters an actor under a name, or takes the name away. Returns true if an actor had it.
    ///
    /// # Errors
    /// The reason why the name cannot be entered.
    fn publish(&self, shared: &Shared, name: &str, actor: Option<Named>) -> Result<bool, String>;

    /// Returns the actor of a name, of which the node or guest `to` is told.
    fn find(&self, shared: &Shared, name: &str, to: u32) -> Option<Named>;

    /// Returns the facts about the client of a guest.
    fn client(&self, guest: u32) -> Option<Client>;
}

/// Mail: the contents of the channel of a node.
#[derive(Debug)]
pub(crate) enum Mail {
    Packets(u32, Vec<u8>),
    /// These nodes are no more.
    Lost(Range<u32>),
    /// There is a guest of this number.
    Guest(u32),
    /// A node that rests looks at its waits.
    Look,
    /// Nothing could happen any more when this was sent.
    Quiet,
    /// The run is over.
    Stop,
}

/// The state that the nodes of a program in one process share.
#[derive(Debug)]
pub struct Shared {
    /// The number of the first node here.
    first: u32,
    /// Busy nodes here, and mail under way to them.
    active: Active,
    /// All nodes; for those in other processes, as they have told.
    idle: Vec<Idle>,
    /// The number of idle nodes.
    idlers: Arc<AtomicU32>,
    /// The senders of mail to the nodes here.
    inboxes: Vec<Sender<Mail>>,
    polls: Vec<Arc<Poll>>,
    /// The number of bytes that came from other processes and that no node has taken yet.
    waiting_bytes: AtomicUsize,
    /// The number of processors for nodes.
    processors: u32,
    /// The number of nodes here that look for mail, and have said that they have nothing to do.
    lookers: AtomicU32,
    ticks: Ticks,
    /// The sessions of a server, if the nodes are those of one.
    guests: Option<Arc<dyn Guests>>,
    /// By node: the counts of its actors, for a server's metrics.
    stats: Vec<Mutex<Stats>>,
    /// The tasks, if the program has native actors.
    tasks: Option<Arc<Tasks>>,
    /// True if there are other processes, which look themselves if anything can still happen here.
    joined: bool,
}

/// The way from the tasks to the nodes here and their guests.
#[derive(Debug)]
pub(crate) struct SharedMail(pub(crate) Weak<Shared>);

impl TaskMail for SharedMail {
    fn deliver(&self, to: u32, packets: Vec<u8>) {
        let Some(shared) = self.0.upgrade() else { return };
        let from = tasks_of(shared.nodes());
        match &shared.guests {
            _ if shared.is_here(to) => shared.deliver(from, to, packets),
            Some(guests) => guests.post(from, to, packets),
            None => {}
        }
    }

    fn begin_work(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.active.add(1);
        }
    }

    fn end_work(&self) {
        if let Some(shared) = self.0.upgrade()
            && shared.active.rest()
            && !shared.joined
        {
            shared.say_over();
        }
    }

    fn client(&self, guest: u32) -> Option<Client> {
        self.0.upgrade()?.guests.as_ref()?.client(guest)
    }
}

/// True if a node has nothing to do. Each has a line of memory for itself.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Idle {
    idle: AtomicBool,
    /// Another node has given it something to do, and it has not looked yet.
    given: AtomicBool,
    /// The number of times that it had nothing to do.
    rests: AtomicU32,
    /// The number of times that it has taken something from its mail.
    taken: AtomicU32,
    look_at: LookAt,
    /// Its thread.
    sleeper: Sleeper,
}

impl Shared {
    /// Makes the state of the nodes from `first` on, of `all` nodes of the program. There is one
    /// node here for each of `inboxes`.
    pub(crate) fn new(
        first: u32,
        all: u32,
        inboxes: Vec<Sender<Mail>>,
        polls: Vec<Arc<Poll>>,
        guests: Option<Arc<dyn Guests>>,
        (tasks, joined): (Option<Arc<Tasks>>, bool),
    ) -> Shared {
        let count = inboxes.len();
        Shared {
            first,
            // Guests may come at any time: the nodes of a server never have nothing to wait for.
            active: Active::new(count + usize::from(guests.is_some())),
            idle: (0..all).map(|_| Idle::default()).collect(),
            idlers: Arc::default(),
            inboxes,
            polls,
            waiting_bytes: AtomicUsize::new(0),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            lookers: AtomicU32::new(0),
            ticks: Ticks::default(),
            guests,
            stats: (0..count).map(|_| Mutex::default()).collect(),
            tasks,
            joined,
        }
    }

    /// Returns the tasks, if the program has native actors.
    pub fn tasks(&self) -> Option<&Arc<Tasks>> {
        self.tasks.as_ref()
    }

    /// Returns the tasks, if a number is theirs.
    pub(crate) fn tasks_at(&self, node: u32) -> Option<&Arc<Tasks>> {
        self.tasks.as_ref().filter(|_| node == tasks_of(self.nodes()))
    }

    /// Returns the number of nodes of the program, in all its processes.
    pub fn nodes(&self) -> u32 {
        self.idle.len() as u32
    }

    /// Returns the number of the first node here.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Returns the numbers of the nodes here.
    fn here(&self) -> Range<u32> {
        self.first..self.first + self.inboxes.len() as u32
    }

    /// Returns the sessions of a server, if the nodes are those of one.
    pub(crate) fn guests(&self) -> Option<&dyn Guests> {
        self.guests.as_deref()
    }

    /// Returns the counter of busy nodes here and of mail under way to them.
    pub(crate) fn active(&self) -> &Active {
        &self.active
    }

    /// Returns the counts of a server's nodes together, as far as they have told.
    pub fn stats(&self) -> Stats {
        self.stats.iter().fold(Stats::default(), |all, one| all.with(&one.lock()))
    }

    /// Takes the counts of a server's node.
    pub(crate) fn tell(&self, node: u32, stats: &Stats) {
        if self.guests.is_some() {
            *self.stats[(node - self.first) as usize].lock() = *stats;
        }
    }

    /// True if a node has nothing to do. The tasks take each packet at once.
    pub fn is_idle(&self, node: u32) -> bool {
        self.idle.get(node as usize).is_none_or(|node| node.idle.load(Ordering::Relaxed))
    }

    /// Returns the flag that [`is_idle`](Shared::is_idle) reads.
    pub(crate) fn idleness(&self, node: u32) -> Option<&AtomicBool> {
        self.idle.get(node as usize).map(|node| &node.idle)
    }

    /// Returns the number of idle nodes.
    pub(crate) fn idlers(&self) -> &Arc<AtomicU32> {
        &self.idlers
    }

    /// True if a node is one of this process.
    pub(crate) fn is_here(&self, node: u32) -> bool {
        self.place(node).is_some()
    }

    /// Returns the place of a node of this process among the nodes here.
    fn place(&self, node: u32) -> Option<usize> {
        let place = node.checked_sub(self.first)? as usize;
        (place < self.inboxes.len()).then_some(place)
    }
}

/// Mail.
impl Shared {
    fn send(&self, node: u32, mail: Mail) {
        if let Some(place) = self.place(node) {
            // A node that has ended takes nothing, and the run is over then.
            let _ = self.inboxes[place].send(mail);
        }
    }

    /// Sends packets of a node here to another one here, and wakes it.
    pub(crate) fn post(&self, from: u32, to: u32, packets: Vec<u8>) {
        self.active.add(1);
        self.idle[to as usize].sleeper.will_wake();
        // It will be busy: packets that other nodes send before then wait until they can go
        // together.
        self.mark(to, false);
        self.send(to, Mail::Packets(from, packets));
    }

    /// Hands over packets of a node of another process, of a guest, or of the tasks.
    pub fn deliver(&self, from: u32, to: u32, packets: Vec<u8>) {
        if let Some(tasks) = self.tasks_at(to) {
            return tasks.post(from, packets);
        }
        self.waiting_bytes.fetch_add(packets.len(), Ordering::Relaxed);
        self.active.add(1);
        self.idle[to as usize].given.store(true, Ordering::Relaxed);
        self.send(to, Mail::Packets(from, packets));
    }

    /// Sends mail to all nodes of this process.
    fn tell_all(&self, mail: impl Fn() -> Mail) {
        self.active.add(self.inboxes.len());
        for port in &self.inboxes {
            // A node that has ended takes nothing, and the run is over then.
            let _ = port.send(mail());
        }
    }

    /// Tells the nodes here of a guest, before it sends anything.
    pub fn open_guest(&self, number: u32) {
        self.tell_all(|| Mail::Guest(number));
    }

    /// Tells the nodes here that others, or guests, are no more.
    pub fn lose(&self, nodes: Range<u32>) {
        for node in nodes.clone() {
            self.mark(node, false);
            if let Some(idle) = self.idle.get(node as usize) {
                // It is given nothing any more.
                idle.given.store(true, Ordering::Relaxed);
            }
        }
        self.tell_all(|| Mail::Lost(nodes.clone()));
        if let Some(tasks) = &self.tasks {
            tasks.lose(&nodes);
        }
    }

    /// Tells the first node here that nothing can happen any more.
    pub(crate) fn say_over(&self) {
        self.send(self.first, Mail::Quiet);
    }

    /// Ends the run of the nodes here.
    pub fn end(&self) {
        for (inbox, poll) in self.inboxes.iter().zip(&self.polls) {
            let _ = inbox.send(Mail::Stop);
            // One that computes does not look.
            poll.kill(poll.epoch(), Kill::Stop);
        }
    }

    /// Tells nodes that rest to look at their waits if it is time.
    pub(crate) fn tick(&self) {
        let tick = self.ticks.tick();
        for node in self.here() {
            if self.idle[node as usize].look_at.is_due(tick) {
                self.active.add(1);
                self.send(node, Mail::Look);
            }
        }
    }

    /// True if the nodes here rest, and nothing is under way to them from each other.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.is_quiet()
    }

    /// Returns the number of bytes that came from other processes and from guests, and that no node
    /// has taken yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Notes that a node here has taken packets of `from`.
    pub(crate) fn note_taken_bytes(&self, from: u32, bytes: usize) {
        if !self.is_here(from) {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Nodes without work.
impl Shared {
    /// Notes that a node here has taken something from its mail, and is busy.
    pub(crate) fn note_taken(&self, node: u32) {
        let taken = &self.idle[node as usize].taken;
        taken.store(taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.set_idle(node, false);
    }

    /// Notes whether a node here has nothing to do.
    pub(crate) fn set_idle(&self, node: u32, idle: bool) {
        let own = &self.idle[node as usize];
        own.given.store(false, Ordering::Relaxed);
        if idle {
            own.rests.fetch_add(1, Ordering::Relaxed);
        }
        // Only a hint: a node that is told of an idle node sends it packets, which it finds in any
        // case.
        self.mark(node, idle);
    }

    /// Returns the thread of a node.
    pub(crate) fn sleeper(&self, node: u32) -> &Sleeper {
        &self.idle[node as usize].sleeper
    }

    /// Has a node that rests look at its waits after a time.
    pub(crate) fn look_after(&self, node: u32, time: Duration) {
        self.idle[node as usize].look_at.set(&self.ticks, time);
    }

    /// Notes that a node rests no longer.
    pub(crate) fn look_no_more(&self, node: u32) {
        self.idle[node as usize].look_at.clear();
    }

    /// True if each busy node has a processor, and each that looks for mail: then one of them may
    /// look instead of sleeping.
    pub(crate) fn may_look(&self) -> bool {
        let busy = self.nodes().saturating_sub(self.idlers.load(Ordering::Relaxed));
        busy + self.lookers.load(Ordering::Relaxed) <= self.processors
    }

    /// Notes that a node here that has nothing to do looks for mail.
    pub(crate) fn begin_look(&self) {
        self.lookers.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a node here looks no longer.
    pub(crate) fn end_look(&self) {
        self.lookers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of times that a node here, by its place, had nothing to do; nothing while
    /// it is busy.
    pub(crate) fn rested(&self, place: u32) -> Option<u32> {
        let idle = &self.idle[(self.first + place) as usize];
        idle.idle.load(Ordering::Relaxed).then(|| idle.rests.load(Ordering::Relaxed))
    }

    /// Returns the number of times that a node here, by its place, has taken something from its
    /// mail. Returns nothing while more is under way to it.
    pub(crate) fn without_backlog(&self, place: u32) -> Option<u32> {
        let idle = &self.idle[(self.first + place) as usize];
        (!idle.given.load(Ordering::Relaxed)).then(|| idle.taken.load(Ordering::Relaxed))
    }

    /// Notes that a node of another process has nothing queued behind its present work.
    pub(crate) fn hint_no_backlog(&self, node: u32) {
        if let Some(idle) = self.idle.get(node as usize).filter(|_| !self.is_here(node)) {
            idle.given.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that a node of another process has nothing to do.
    pub(crate) fn hint(&self, node: u32) {
        if !self.is_here(node) {
            self.hint_no_backlog(node);
            self.mark(node, true);
        }
    }

    /// Notes that a node of another process is given something to do.
    pub(crate) fn take_hint(&self, node: u32) {
        self.mark(node, false);
    }

    /// Notes whether a node has nothing to do. Returns true if that is new.
    fn mark(&self, node: u32, idle: bool) -> bool {
        let Some(known) = self.idle.get(node as usize) else { return false };
        // Mostly it is so already, and others look at it.
        let new =
            known.idle.load(Ordering::Relaxed) != idle && known.idle.swap(idle, Ordering::Relaxed) != idle;
        if new {
            match idle {
                true => self.idlers.fetch_add(1, Ordering::Relaxed),
                false => self.idlers.fetch_sub(1, Ordering::Relaxed),
            };
        }
        new
    }

    /// Claims a node other than `own` that has nothing to do. The search begins at the node `next`.
    pub(crate) fn claim_idle_node(&self, own: u32, next: u32) -> Option<u32> {
        let count = self.nodes();
        let all = || (0..count).map(|at| (next + at) % count);
        // A node that is nearer costs less.
        let here = all().filter(|node| self.is_here(*node)).find(|node| {
            let other = &self.idle[*node as usize];
            *node != own && other.idle.load(Ordering::Relaxed) && !other.given.swap(true, Ordering::Relaxed)
        });
        // A node far away gets something small at once. It may get something larger behind it
        // before it has said that it has begun.
        let is_free = |node: &u32| !self.is_here(*node) && self.mark(*node, false);
        here.or_else(|| all().find(is_free))
    }

    /// Claims a node other than `own` with nothing queued behind its present work.
    pub(crate) fn claim_node_without_backlog(&self, own: u32) -> Option<u32> {
        let has_no_backlog = |node: &u32| {
            let given = &self.idle[*node as usize].given;
            *node != own && !given.load(Ordering::Relaxed) && !given.swap(true, Ordering::Relaxed)
        };
        // A node that is nearer costs less.
        let others = || (0..self.nodes()).filter(|node| !self.is_here(*node));
        self.here().find(has_no_backlog).or_else(|| others().find(has_no_backlog))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Makes the state of nodes here, whose mail goes nowhere.
    fn shared(here: u32, all: u32) -> Shared {
        Shared::new(0, all, (0..here).map(|_| channel().0).collect(), Vec::new(), None, (None, false))
    }

    #[test]
    fn new_actors_go_to_near_nodes_first_and_to_none_twice() {
        // Two nodes here, and two in another process.
        let shared = shared(2, 4);
        let without_backlog = || [(); 4].map(|()| shared.claim_node_without_backlog(0));
        assert_eq!(without_backlog(), [Some(1), Some(2), Some(3), None]);
        shared.hint_no_backlog(1);
        shared.hint_no_backlog(3);
        assert_eq!(without_backlog(), [Some(3), None, None, None]);
        // A node that has nothing to do gets something, and something behind it.
        shared.hint(2);
        assert_eq!([(); 2].map(|()| shared.claim_idle_node(0, 1)), [Some(2), None]);
        let without_backlog = || [(); 2].map(|()| shared.claim_node_without_backlog(0));
        assert_eq!(without_backlog(), [Some(2), None]);
        // A node here has no need of more while something is under way to it.
        assert_eq!(shared.without_backlog(0), Some(0));
        shared.deliver(2, 0, vec![0; 8]);
        assert_eq!(shared.without_backlog(0), None);
        shared.hint(2);
        shared.lose(2..4);
        assert_eq!(without_backlog(), [None, None]);
        assert_eq!(shared.claim_idle_node(0, 1), None);
    }

    #[test]
    fn no_node_looks_while_a_busy_one_has_no_processor() {
        let shared = shared(3, 3);
        // All are busy.
        assert_eq!(shared.may_look(), shared.processors >= 3);
        for node in 0..3 {
            shared.mark(node, true);
        }
        assert!(shared.may_look());
        shared.lookers.store(shared.processors, Ordering::Relaxed);
        assert!(shared.may_look());
        shared.mark(1, false);
        assert!(!shared.may_look());
    }
}
