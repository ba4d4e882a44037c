//! Nodes: threads that share a program, each with a context and actors of its own
//! (`docs/book/language/actors.md`).
//!
//! Read [`Nodes`] first: it makes the contexts and runs the threads. `Shared` is the state that all
//! nodes of this process share. A `Door` is the [`Network`] of one node: its receiver of mail, and
//! its way to the others. The packets themselves are written and read by the runtime.
//!
//! Packets between nodes go through channels. One counter ([`Active`]) is the number of busy nodes
//! plus the number of packets under way. When it is 0, nothing can happen any more.
//!
//! 1. A node that has nothing to do looks for mail for a short time.
//! 2. Then it rests: it subtracts its part of the counter.
//! 3. The node that subtracts the last part tells the first node, whose `main` may wait in vain
//!    then, or be done.
//! 4. A packet keeps its part until the node that takes it is busy. So the counter is 0 only when
//!    all nodes rest (the credit method of termination detection).
//!
//! With nodes in other processes ([`crate::capsules`]) the counter says only that the nodes of this
//! process rest.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use bifrost_engine::Engine;
use bifrost_runtime::actor::{self, Named, Network, Received, Stats, Wait};
use bifrost_runtime::cx::{Kill, Lines, Output, Poll};
use bifrost_runtime::{Cx, HeapStats, Limits};
use parking_lot::Mutex;

use crate::active::Active;
use crate::capsules::{Joined, Links};
use crate::guests::{self, Guests};
use crate::look::{LookAt, TICK, Ticks};
use crate::processors::{self, Sleeper};
use crate::simulation::Simulation;
use crate::space::Space;

/// The largest number of nodes of a program, in all its processes.
pub const NODES_MAX: u32 = 255;

/// The time that a method of an actor runs before it makes way for others at the end of a loop's
/// step.
const TURN: Duration = TICK;

/// The time that a node that has nothing to do looks for mail before it says so. An answer that
/// comes within the time of a request to another node finds the node busy, as it was.
const LOOK: Duration = Duration::from_micros(2);

/// The time that it looks in all, with pauses, before it sleeps. To wake a node takes its sender a
/// system call, and the node more.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// The number of times that it looks before it looks at the clock.
const LOOKS: u32 = 16;

/// One in so many short sleeps is preceded by a long look, to learn whether that pays.
const SLEEPS_PER_PROBE: u32 = 64;

/// Pauses between two looks of a node that has said that it has nothing to do.
const PAUSES: u32 = 8;

/// Mail: the contents of the channel of a node.
#[derive(Debug)]
pub(crate) enum Mail {
    Packets(u32, Vec<u8>),
    /// These nodes are no more.
    Lost(Range<u32>),
    /// There is a guest of this number.
    Guest(u32),
    /// A guest that waits looks whether it may go on.
    Wake,
    /// A node that rests looks at its waits.
    Look,
    /// Nothing could happen any more when this was sent.
    Quiet,
    /// The run is over.
    Stop,
}

/// The things that the nodes of a program in this process know of each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The number of the first node here.
    first: u32,
    /// Busy nodes here, and mail under way to them.
    active: Active,
    /// All nodes; for those in other processes, as they have told.
    idle: Vec<Idle>,
    /// The number of idle nodes.
    idlers: Arc<AtomicU32>,
    /// The senders of mail to the nodes here.
    doors: Vec<Sender<Mail>>,
    polls: Vec<Arc<Poll>>,
    /// The number of bytes that came from other processes and that no node has taken yet.
    waiting_bytes: AtomicUsize,
    /// The number of processors for nodes.
    processors: u32,
    /// The number of nodes here that look for mail, and have said that they have nothing to do.
    lookers: AtomicU32,
    ticks: Ticks,
    /// The sessions of a server.
    pub guests: Guests,
    /// True if there can be any.
    hosts: bool,
    /// By node: the counts of its actors, for a server's metrics.
    stats: Vec<Mutex<Stats>>,
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
    meals: AtomicU32,
    look_at: LookAt,
    /// Its thread.
    sleeper: Sleeper,
}

/// A node that has had nothing to do for this time is reported to nodes of other processes.
const TELL: Duration = Duration::from_micros(20);

impl Shared {
    /// The number of nodes.
    pub(crate) fn nodes(&self) -> u32 {
        self.idle.len() as u32
    }

    /// Returns the counts of a server's nodes together, as far as they have told.
    pub(crate) fn stats(&self) -> Stats {
        self.stats.iter().fold(Stats::default(), |all, one| all.with(&one.lock()))
    }

    /// True if a node has nothing to do.
    pub(crate) fn is_idle(&self, node: u32) -> bool {
        self.idle[node as usize].idle.load(Ordering::Relaxed)
    }

    /// Tells nodes that rest to look at their waits if it is time.
    fn tick(&self) {
        let tick = self.ticks.tick();
        for node in self.first..self.first + self.doors.len() as u32 {
            if self.idle[node as usize].look_at.is_due(tick) {
                self.active.add(1);
                self.send(node, Mail::Look);
            }
        }
    }

    /// Sends mail to all nodes of this process.
    pub(crate) fn tell_all(&self, mail: impl Fn() -> Mail) {
        self.active.add(self.doors.len());
        for door in &self.doors {
            // A node that has ended takes nothing, and the run is over then.
            let _ = door.send(mail());
        }
    }

    /// True if each busy node has a processor, and each that looks for mail: then one of them may
    /// look instead of sleeping.
    fn may_look(&self) -> bool {
        let busy = self.nodes().saturating_sub(self.idlers.load(Ordering::Relaxed));
        busy + self.lookers.load(Ordering::Relaxed) <= self.processors
    }

    /// True if a node is one of this process.
    fn is_here(&self, node: u32) -> bool {
        self.place(node).is_some()
    }

    /// Returns the place of a node of this process among the nodes here.
    fn place(&self, node: u32) -> Option<usize> {
        let place = node.checked_sub(self.first)? as usize;
        (place < self.doors.len()).then_some(place)
    }

    fn send(&self, node: u32, mail: Mail) {
        if let Some(place) = self.place(node) {
            // A node that has ended takes nothing, and the run is over then.
            let _ = self.doors[place].send(mail);
        }
    }

    /// True if the nodes here rest, and nothing is under way to them from each other.
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.is_quiet()
    }

    /// Hands over packets of a node of another process.
    pub(crate) fn deliver(&self, from: u32, to: u32, packets: Vec<u8>) {
        self.waiting_bytes.fetch_add(packets.len(), Ordering::Relaxed);
        self.active.add(1);
        self.idle[to as usize].given.store(true, Ordering::Relaxed);
        self.send(to, Mail::Packets(from, packets));
    }

    /// Returns the number of bytes that came from other processes and that no node has taken yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Tells the nodes here that others are no more.
    pub(crate) fn lose(&self, nodes: Range<u32>) {
        for node in nodes.clone() {
            self.mark(node, false);
            if let Some(idle) = self.idle.get(node as usize) {
                // It is given nothing any more.
                idle.given.store(true, Ordering::Relaxed);
            }
        }
        self.tell_all(|| Mail::Lost(nodes.clone()));
    }

    /// Tells the first node here that nothing can happen any more.
    pub(crate) fn say_over(&self) {
        self.send(self.first, Mail::Quiet);
    }

    /// Ends the run of the nodes here.
    pub(crate) fn end(&self) {
        for (door, poll) in self.doors.iter().zip(&self.polls) {
            let _ = door.send(Mail::Stop);
            // One that computes does not look.
            poll.kill(poll.epoch(), Kill::Stop);
        }
    }

    /// Returns the number of times that a node here, by its place, had nothing to do; nothing while
    /// it is busy.
    pub(crate) fn rested(&self, place: u32) -> Option<u32> {
        let idle = &self.idle[(self.first + place) as usize];
        idle.idle.load(Ordering::Relaxed).then(|| idle.rests.load(Ordering::Relaxed))
    }

    /// Returns the number of times that a node here, by its place, has taken something from its
    /// mail. Returns nothing while more is under way to it.
    pub(crate) fn hungered(&self, place: u32) -> Option<u32> {
        let idle = &self.idle[(self.first + place) as usize];
        (!idle.given.load(Ordering::Relaxed)).then(|| idle.meals.load(Ordering::Relaxed))
    }

    /// Notes that a node of another process has nothing queued behind its present work.
    pub(crate) fn hint_hungry(&self, node: u32) {
        if let Some(idle) = self.idle.get(node as usize).filter(|_| !self.is_here(node)) {
            idle.given.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that a node of another process has nothing to do.
    pub(crate) fn hint(&self, node: u32) {
        if !self.is_here(node) {
            self.hint_hungry(node);
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
}

/// The time that a node looks for mail before it sleeps: as long as that has paid lately. Where two
/// nodes have one processor, none comes while one looks.
#[derive(Debug)]
struct Patience {
    time: Duration,
    short_sleeps: u32,
}

impl Patience {
    fn new() -> Patience {
        Patience { time: LOOK_MAX, short_sleeps: 0 }
    }

    fn learn_paid(&mut self) {
        self.time = (self.time * 2).min(LOOK_MAX);
    }

    fn learn_slept(&mut self, slept: Duration) {
        self.time = (self.time / 2).max(LOOK);
        if slept < LOOK_MAX {
            self.short_sleeps += 1;
            if self.short_sleeps.is_multiple_of(SLEEPS_PER_PROBE) {
                self.time = LOOK_MAX;
            }
        }
    }
}

/// A node's way to the others: its part of the network.
#[derive(Debug)]
struct Door {
    node: u32,
    shared: Arc<Shared>,
    /// To the nodes of other processes, if there are any.
    links: Option<Arc<Links>>,
    mail: Receiver<Mail>,
    /// The mail that was found there and not taken yet.
    found: Option<Mail>,
    /// The node at which the search for an idle one begins.
    next: u32,
    patience: Patience,
}

impl Door {
    /// Turns mail into the event for a node, which is counted as busy or, with `rested`, is not.
    fn open(&self, mail: Mail, rested: bool) -> Option<Received> {
        let active = &self.shared.active;
        if let (Mail::Quiet, Some(links)) = (&mail, &self.links) {
            links.over_was_heard();
        }
        match mail {
            Mail::Packets(from, packets) => {
                self.take_part(rested);
                if !self.shared.is_here(from) {
                    self.shared.waiting_bytes.fetch_sub(packets.len(), Ordering::Relaxed);
                }
                Some(Received::Packets(from, packets))
            }
            Mail::Lost(nodes) => {
                self.take_part(rested);
                Some(Received::Lost(nodes))
            }
            Mail::Guest(number) => {
                self.take_part(rested);
                Some(Received::Guest(number))
            }
            Mail::Look => {
                self.take_part(rested);
                Some(Received::Look)
            }
            Mail::Quiet if rested && active.is_quiet() => {
                active.add(1);
                self.set_idle(false);
                Some(Received::Over)
            }
            Mail::Quiet | Mail::Wake => None,
            Mail::Stop => {
                if rested {
                    active.add(1);
                }
                Some(Received::Stopped)
            }
        }
    }

    /// Makes the part of the mail that was under way that of the node.
    fn take_part(&self, rested: bool) {
        if !rested {
            self.shared.active.took();
        }
        let meals = &self.shared.idle[self.node as usize].meals;
        meals.store(meals.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.set_idle(false);
    }

    fn set_idle(&self, idle: bool) {
        let own = &self.shared.idle[self.node as usize];
        own.given.store(false, Ordering::Relaxed);
        if idle {
            own.rests.fetch_add(1, Ordering::Relaxed);
        }
        // Only a hint: a node that is told of an idle node sends it packets, which it finds in any
        // case.
        self.shared.mark(self.node, idle);
    }

    /// Waits until there is mail, or nothing can happen any more, or it is time to look at its
    /// waits.
    fn rest(&mut self, look_after: Option<Duration>) -> Received {
        self.set_looking(true);
        let since = Instant::now();
        if let Some(mail) = self.look(since, LOOK, 0) {
            self.set_looking(false);
            match mail.map(|mail| self.open(mail, false)) {
                Some(None) => {}
                Some(Some(received)) => return received,
                None => return Received::Stopped,
            }
            self.set_looking(true);
        }
        let Some(time) = look_after else { return self.sleep(since) };
        self.shared.idle[self.node as usize].look_at.set(&self.shared.ticks, time);
        let received = self.sleep(since);
        self.shared.idle[self.node as usize].look_at.clear();
        received
    }

    /// Sleeps: as [`Door::rest`], when nothing came soon after `since`, and without a time.
    fn sleep(&mut self, since: Instant) -> Received {
        self.set_idle(true);
        if self.shared.active.rest() && self.links.is_none() {
            self.shared.say_over();
        }
        self.shared.lookers.fetch_add(1, Ordering::Relaxed);
        let mut found = self.look(since, self.patience.time.min(TELL), PAUSES);
        if let Some(links) = self.links.as_ref().filter(|_| found.is_none()) {
            links.tell_idle();
            found = self.look(since, self.patience.time, PAUSES);
        }
        self.shared.lookers.fetch_sub(1, Ordering::Relaxed);
        self.set_looking(false);
        if found.is_some() {
            self.patience.learn_paid();
        }
        loop {
            let mail = found.take().unwrap_or_else(|| {
                let since = Instant::now();
                let sleeper = &self.shared.idle[self.node as usize].sleeper;
                let mail = sleeper.sleep(|| self.mail.recv().ok());
                self.patience.learn_slept(since.elapsed());
                mail
            });
            match mail {
                Some(mail) => {
                    if let Some(received) = self.open(mail, true) {
                        return received;
                    }
                }
                // The senders are shared, this node's own among them.
                None => return Received::Stopped,
            }
        }
    }

    /// Tells other processes that this node looks, or has looked: while it looks, they need wake no
    /// thread.
    fn set_looking(&self, looking: bool) {
        let Some(links) = &self.links else { return };
        links.set_looking(looking);
        if !looking {
            // Mail that came before that would wake no thread.
            links.look();
        }
    }

    /// Looks for mail until so long after a time, with so many pauses between looks. Stops when
    /// others need the processor. Returns:
    ///
    /// - `None`: nothing was found;
    /// - `Some(Some(_))`: the mail;
    /// - `Some(None)`: no mail can come any more.
    fn look(&self, since: Instant, time: Duration, pauses: u32) -> Option<Option<Mail>> {
        while self.shared.may_look() && since.elapsed() < time {
            for _ in 0..LOOKS {
                match self.mail.try_recv() {
                    Ok(mail) => return Some(Some(mail)),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => return Some(None),
                }
                if let Some(links) = &self.links {
                    links.look();
                }
                for _ in 0..pauses {
                    std::hint::spin_loop();
                }
            }
        }
        None
    }
}

impl Network for Door {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        match &self.links {
            _ if node >= self.shared.nodes() => self.shared.guests.post(self.node, node, packets),
            Some(links) if !self.shared.is_here(node) => links.post(self.node, node, &packets),
            _ => {
                self.shared.active.add(1);
                self.shared.idle[node as usize].sleeper.will_wake();
                // It will be busy: packets that other nodes send before then wait until they can go
                // together.
                self.shared.mark(node, false);
                self.shared.send(node, Mail::Packets(self.node, packets));
            }
        }
    }

    fn receive(&mut self, wait: Wait) -> Received {
        loop {
            let mail = match wait {
                _ if self.found.is_some() => self.found.take().expect("asked above"),
                Wait::Idle | Wait::IdleFor(_) => match self.mail.try_recv() {
                    Ok(mail) => mail,
                    Err(_) => {
                        return self.rest(if let Wait::IdleFor(time) = wait { Some(time) } else { None });
                    }
                },
                Wait::No => match self.mail.try_recv() {
                    Ok(mail) => mail,
                    Err(TryRecvError::Empty) => return Received::Nothing,
                    Err(TryRecvError::Disconnected) => return Received::Stopped,
                },
                Wait::For(time) => {
                    self.set_idle(true);
                    let mail = self.mail.recv_timeout(time);
                    self.set_idle(false);
                    match mail {
                        Ok(mail) => mail,
                        Err(RecvTimeoutError::Timeout) => return Received::Nothing,
                        Err(RecvTimeoutError::Disconnected) => return Received::Stopped,
                    }
                }
            };
            if let Some(received) = self.open(mail, false) {
                return received;
            }
        }
    }

    fn has_mail(&mut self) -> bool {
        self.found = self.found.take().or_else(|| self.mail.try_recv().ok());
        self.found.is_some()
    }

    fn idle_node(&mut self) -> Option<u32> {
        let count = self.shared.idle.len() as u32;
        let all = || (0..count).map(|at| (self.next + at) % count);
        // A node that is nearer costs less.
        let here = all().filter(|node| self.shared.is_here(*node)).find(|node| {
            let other = &self.shared.idle[*node as usize];
            *node != self.node
                && other.idle.load(Ordering::Relaxed)
                && !other.given.swap(true, Ordering::Relaxed)
        });
        // A node far away gets something small at once. It may get something larger behind it
        // before it has said that it has begun.
        let is_free = |node: &u32| !self.shared.is_here(*node) && self.shared.mark(*node, false);
        let found = here.or_else(|| all().find(is_free));
        self.next = found.map_or(self.next, |node| node + 1);
        found
    }

    fn hungry_node(&mut self) -> Option<u32> {
        let is_hungry = |node: &u32| {
            let given = &self.shared.idle[*node as usize].given;
            *node != self.node && !given.load(Ordering::Relaxed) && !given.swap(true, Ordering::Relaxed)
        };
        // A node that is nearer costs less.
        let here = self.shared.first..self.shared.first + self.shared.doors.len() as u32;
        let others = || (0..self.shared.nodes()).filter(|node| !self.shared.is_here(*node));
        here.into_iter().find(is_hungry).or_else(|| others().find(is_hungry))
    }

    fn idlers(&self) -> Option<Arc<AtomicU32>> {
        Some(self.shared.idlers.clone())
    }

    fn is_idle(&mut self, node: u32) -> bool {
        match node < self.shared.nodes() {
            true => self.shared.is_idle(node),
            false => self.shared.guests.waits(node),
        }
    }

    fn idleness(&mut self, node: u32) -> Option<&AtomicBool> {
        self.shared.idle.get(node as usize).map(|node| &node.idle)
    }

    fn tell(&mut self, stats: &Stats) {
        if self.shared.hosts {
            *self.shared.stats[(self.node - self.shared.first) as usize].lock() = *stats;
        }
    }

    fn distrust(&mut self, node: u32, why: &str) -> bool {
        let links = self.links.as_ref().filter(|_| node < self.shared.nodes() && !self.shared.is_here(node));
        links.inspect(|links| links.distrust(node, why)).is_some()
    }

    fn has_names(&self) -> bool {
        self.shared.hosts
    }

    fn publish(&mut self, name: &str, actor: Option<Named>) -> Result<bool, String> {
        guests::publish(&self.shared, name, actor)
    }

    fn find(&mut self, name: &str) -> Option<Named> {
        guests::find(&self.shared, name, self.node)
    }
}

/// The nodes of a program.
#[derive(Debug)]
pub struct Nodes {
    spaces: Vec<Arc<Space>>,
    shared: Arc<Shared>,
    /// The simulation, in place of threads and channels.
    simulation: Option<Simulation>,
    links: Option<Arc<Links>>,
}

/// The reason why there are no nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// There can be no nodes, or not so many.
    #[error("a program has 1 to {NODES_MAX} nodes, not {0}")]
    Count(u32),
    /// The system has no means for one.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl Nodes {
    /// Makes so many nodes. `first` is the context of `main`'s node; the others are new and have
    /// these limits each. `ready` makes each node's context ready.
    ///
    /// # Errors
    /// [`NodesError`]
    pub fn new(
        first: Arc<Space>,
        count: u32,
        limits: Limits,
        ready: impl Fn(&mut Cx),
    ) -> Result<Nodes, NodesError> {
        if !(1..=NODES_MAX).contains(&count) {
            return Err(NodesError::Count(count));
        }
        let spaces = more(first, count, limits)?;
        Ok(Nodes::make(spaces, None, false, ready))
    }

    /// Makes the nodes of a server: as many as there are contexts. They run until they are ended,
    /// and have guests.
    pub(crate) fn hosting(spaces: Vec<Arc<Space>>, ready: impl Fn(&mut Cx)) -> Nodes {
        Nodes::make(spaces, None, true, ready)
    }

    /// Makes the nodes of a capsule, as many as the run has in each. The text that programs print
    /// is printed by the first capsule, where `output` gets the text of the others.
    ///
    /// # Errors
    /// [`NodesError`]
    pub fn joined(
        first: Arc<Space>,
        joined: Joined,
        limits: Limits,
        output: fn(&str),
        ready: impl Fn(&mut Cx),
    ) -> Result<Nodes, NodesError> {
        let spaces = more(first, joined.nodes, limits)?;
        Ok(Nodes::make(spaces, Some(Joined { output, ..joined }), false, ready))
    }

    fn make(spaces: Vec<Arc<Space>>, joined: Option<Joined>, hosts: bool, ready: impl Fn(&mut Cx)) -> Nodes {
        let count = spaces.len() as u32;
        let (own, capsules) = joined.as_ref().map_or((0, 1), |joined| (joined.own, joined.capsules));
        let (first, all) = (own * count, capsules * count);
        let (doors, mail): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let shared = Arc::new(Shared {
            first,
            // Guests may come at any time: the nodes of a server never have nothing to wait for.
            active: Active::new(count as usize + usize::from(hosts)),
            idle: (0..all).map(|_| Idle::default()).collect(),
            idlers: Arc::default(),
            doors,
            polls: spaces.iter().map(|space| space.poll().clone()).collect(),
            waiting_bytes: AtomicUsize::new(0),
            processors: thread::available_parallelism().map_or(1, |processors| processors.get() as u32),
            lookers: AtomicU32::new(0),
            ticks: Ticks::default(),
            guests: Guests::new(all),
            hosts,
            stats: (0..count).map(|_| Mutex::default()).collect(),
        });
        let links = joined.map(|joined| Links::new(joined, shared.clone()));
        for ((node, space), mail) in (first..).zip(&spaces).zip(mail) {
            let mut cx = space.lock();
            ready(&mut cx);
            cx.set_node(node, all);
            if let Some(links) = links.as_ref().filter(|links| !links.is_first()) {
                let links = links.clone();
                cx.set_output(Output::Lines(Lines(Box::new(move |text| links.print(text)))));
            }
            // A single node is the only one to know that it has nothing to do.
            if all > 1 || hosts {
                let (next, links) = (node + 1, links.clone());
                let door = Door {
                    node,
                    shared: shared.clone(),
                    links,
                    mail,
                    found: None,
                    next,
                    patience: Patience::new(),
                };
                cx.actors.set_network(Box::new(door), all);
            }
        }
        Nodes { spaces, shared, simulation: None, links }
    }

    /// Makes so many nodes on one thread, with channels between them. A seed decides which node
    /// takes a step, and which packets arrive. The same seed gives the same run.
    ///
    /// # Errors
    /// [`NodesError`]
    pub fn simulated(
        first: Arc<Space>,
        count: u32,
        limits: Limits,
        seed: u64,
        ready: impl Fn(&mut Cx),
    ) -> Result<Nodes, NodesError> {
        Nodes::simulated_with_loss(first, count, limits, seed, None, ready)
    }

    /// Makes the same nodes, of which some are lost. These, not the first, are lost when the first
    /// has looked for packets so often.
    ///
    /// # Errors
    /// [`NodesError`]
    pub fn simulated_with_loss(
        first: Arc<Space>,
        count: u32,
        limits: Limits,
        seed: u64,
        loss: Option<(Range<u32>, u32)>,
        ready: impl Fn(&mut Cx),
    ) -> Result<Nodes, NodesError> {
        let mut nodes = Nodes::new(first, count, limits, ready)?;
        let simulation = Simulation::new(count, seed, loss);
        for (node, space) in (0..).zip(&nodes.spaces) {
            let mut cx = space.lock();
            cx.set_order(seed.wrapping_mul(u64::from(NODES_MAX)) + u64::from(node));
            cx.actors.set_network(simulation.door(node), count);
        }
        nodes.simulation = Some(simulation);
        Ok(nodes)
    }

    /// Returns the number of events between simulated nodes, and the digest of their log; nothing
    /// for other nodes.
    pub fn events(&self) -> Option<(u64, String)> {
        self.simulation.as_ref().map(Simulation::events)
    }

    /// Runs `main` on the first node's stack while the others do the work that they get, and ends
    /// them when it comes back.
    ///
    /// # Errors
    /// When no thread can be started.
    ///
    /// # Panics
    /// As `main` does.
    pub fn run<T: Send>(&self, main: impl FnOnce(&Space) -> T + Send) -> Result<T, NodesError> {
        if let Some(simulation) = &self.simulation {
            return Ok(
                self.spaces[0].on_stack(|| simulation.run(&self.spaces[1..], || main(&self.spaces[0])))?
            );
        }
        let main = || {
            self.spread(0);
            main(&self.spaces[0])
        };
        self.run_with(&self.spaces[1..], || self.spaces[0].on_stack(main))?.map_err(NodesError::System)
    }

    /// Lets the thread of a node begin on another processor than those of other nodes, as far as
    /// there are so many.
    fn spread(&self, at: u32) {
        if self.shared.idle.len() > 1 {
            processors::begin_on(self.shared.first + at);
        }
    }

    /// Runs the nodes of a capsule that is not the first, until the run is over. Returns true if
    /// the first capsule ended it; false if the first capsule is lost.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn serve(&self) -> Result<bool, NodesError> {
        let Some((first, others)) = self.spaces.split_first() else { return Ok(false) };
        let run = || {
            self.spread(0);
            run_node(first);
        };
        self.run_with(others, || first.on_stack(run))??;
        Ok(self.links.as_ref().is_some_and(|links| !links.is_orphaned()))
    }

    /// Runs nodes beside `work`, and ends them when it comes back.
    fn run_with<T>(&self, beside: &[Arc<Space>], work: impl FnOnce() -> T) -> Result<T, NodesError> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut started = Vec::new();
            let mut failed = self.links.as_ref().and_then(|links| links.start().err());
            for (at, space) in (1..).zip(beside) {
                let thread = thread::Builder::new().stack_size(space.stack_bytes());
                let run = move || {
                    self.spread(at);
                    run_node(space);
                };
                match thread.spawn_scoped(scope, run) {
                    Ok(thread) => started.push(thread),
                    Err(why) => failed = Some(why),
                }
            }
            let clock = thread::Builder::new().spawn_scoped(scope, || self.tick(&over));
            failed = failed.or(clock.err());
            // Else the other nodes would be waited for in vain when a node panics.
            let end = End { over: &over, shared: &self.shared };
            let ended = match failed {
                None => Ok(work()),
                Some(why) => Err(why.into()),
            };
            drop(end);
            for thread in started {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            ended
        })
    }

    /// Ends turns that last, and keeps other processes informed, until the run is over.
    fn tick(&self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            thread::sleep(TURN);
            self.spaces.iter().for_each(|space| space.poll().end_turn());
            self.shared.tick();
            if let Some(links) = &self.links {
                links.tick();
            }
        }
    }

    /// Ends the run in the other capsules, and all connections with them. Returns their reports, by
    /// their numbers.
    pub fn stop_others(&self) -> Vec<(u32, Vec<u8>)> {
        let Some(links) = &self.links else { return Vec::new() };
        let reports = links.stop_others();
        links.close_all();
        reports
    }

    /// Reports the counts of the nodes here to the first capsule, in a form that it understands,
    /// and ends all connections.
    pub fn report(&self, bytes: &[u8]) {
        if let Some(links) = &self.links {
            links.report(bytes);
            links.close_all();
        }
    }

    /// Returns the state that the nodes share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the number of the first of these nodes.
    pub fn first_node(&self) -> u32 {
        self.shared.first
    }

    /// Returns the contexts of the nodes.
    pub fn spaces(&self) -> &[Arc<Space>] {
        &self.spaces
    }

    /// Returns the counts of the actors of each node.
    pub fn stats(&self) -> Vec<Stats> {
        self.spaces.iter().map(|space| space.lock().actors.stats).collect()
    }

    /// Returns the counts of all heaps together.
    pub fn heap_stats(&self) -> HeapStats {
        let all = self.spaces.iter().map(|space| space.lock().heap_stats());
        all.reduce(|all, one| all.with(&one)).unwrap_or_default()
    }
}

/// Returns a context and others like it.
fn more(first: Arc<Space>, count: u32, limits: Limits) -> Result<Vec<Arc<Space>>, NodesError> {
    let engine: Arc<Engine> = first.engine().clone();
    let mut spaces = vec![first];
    for _ in 1..count {
        spaces.push(Space::new(engine.clone(), limits)?);
    }
    Ok(spaces)
}

/// Ends the run of the nodes here when dropped.
struct End<'a> {
    over: &'a AtomicBool,
    shared: &'a Shared,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.shared.end();
    }
}

/// Runs a node that has no `main`.
fn run_node(space: &Space) {
    let mut cx = space.lock();
    cx.begin();
    let cx: &mut Cx = &mut cx;
    // SAFETY: the context is locked, and runs.
    unsafe { actor::run_node(cx) };
    cx.leave();
}

/// Lets a node sleep for so many milliseconds.
pub fn nap(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_vain_looks_less_and_who_finds_looks_more() {
        let mut patience = Patience::new();
        let short = LOOK_MAX / 2;
        for _ in 1..SLEEPS_PER_PROBE {
            patience.learn_slept(short);
        }
        assert_eq!(patience.time, LOOK);
        patience.learn_paid();
        assert_eq!(patience.time, 2 * LOOK);
        // A long sleep is no sign that a look would have paid; after so many short ones it is
        // tried.
        patience.learn_slept(LOOK_MAX);
        assert_eq!(patience.time, LOOK);
        patience.learn_slept(short);
        assert_eq!(patience.time, LOOK_MAX);
        patience.learn_paid();
        assert_eq!(patience.time, LOOK_MAX);
    }

    fn first_space(limits: Limits) -> Arc<Space> {
        let mut sources = bifrost_theta::Sources::new();
        sources.add("main.theta", "main () end main");
        let compiled = bifrost_theta::compile(&sources, &bifrost_theta::Options::default());
        let program = compiled.program.expect("a program");
        let engine = Engine::new(program, bifrost_engine::Mode::Interpreted).expect("an engine");
        Space::new(engine, limits).expect("a space")
    }

    #[test]
    fn new_actors_go_to_who_is_near_first_and_to_nobody_twice() {
        let limits = Limits::default();
        // Two nodes here, and two in another process.
        let joined = Joined::new(0, 2, 2, false, vec![None, None]);
        let nodes = Nodes::joined(first_space(limits), joined, limits, |_| {}, |_| {}).expect("nodes");
        let shared = &nodes.shared;
        let mut door = Door {
            node: 0,
            shared: shared.clone(),
            links: None,
            mail: channel().1,
            found: None,
            next: 1,
            patience: Patience::new(),
        };
        let mut hungry = || [(); 4].map(|()| door.hungry_node());
        assert_eq!(hungry(), [Some(1), Some(2), Some(3), None]);
        shared.hint_hungry(1);
        shared.hint_hungry(3);
        assert_eq!(hungry(), [Some(3), None, None, None]);
        // A node that has nothing to do gets something, and something behind it.
        shared.hint(2);
        assert_eq!([(); 2].map(|()| door.idle_node()), [Some(2), None]);
        let mut hungry = || [(); 2].map(|()| door.hungry_node());
        assert_eq!(hungry(), [Some(2), None]);
        // A node here has no need of more while something is under way to it.
        assert_eq!(shared.hungered(0), Some(0));
        shared.deliver(2, 0, vec![0; 8]);
        assert_eq!(shared.hungered(0), None);
        shared.hint(2);
        shared.lose(2..4);
        assert_eq!(hungry(), [None, None]);
        assert_eq!(door.idle_node(), None);
    }

    #[test]
    fn nobody_looks_while_a_busy_node_has_no_processor() {
        let limits = Limits::default();
        let nodes = Nodes::new(first_space(limits), 3, limits, |_| {}).expect("nodes");
        let shared = &nodes.shared;
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
