//! Nodes: threads that share a program, each with a context and actors of its own
//! (`docs/book/language/actors.md`).
//!
//! Read [`Nodes`] first: it makes the contexts and runs the threads. `Shared` is the state that all
//! nodes of this process share. A [`Port`] is the part of one node: its receiver of mail, and
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
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use bifrost_actors as actors;
use bifrost_engine::Engine;
use bifrost_runtime::cx::{Kill, Lines, Output, Poll};
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Cx, HeapStats, Limits};
use parking_lot::Mutex;

use crate::active::Active;
use crate::capsules::{Joined, Links};
use crate::guests::Guests;
use crate::look::{LookAt, TICK, Ticks};
use crate::processors::{self, Sleeper};
use crate::simulation::Simulation;
use crate::space::Space;

mod port;

use port::Port;

/// The largest number of nodes of a program, in all its processes.
pub const NODES_MAX: u32 = 255;

/// The time that a method of an actor runs before it makes way for others at the end of a loop's
/// step.
const TURN: Duration = TICK;

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
    inboxes: Vec<Sender<Mail>>,
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
    taken: AtomicU32,
    look_at: LookAt,
    /// Its thread.
    sleeper: Sleeper,
}

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
        for node in self.first..self.first + self.inboxes.len() as u32 {
            if self.idle[node as usize].look_at.is_due(tick) {
                self.active.add(1);
                self.send(node, Mail::Look);
            }
        }
    }

    /// Sends mail to all nodes of this process.
    pub(crate) fn tell_all(&self, mail: impl Fn() -> Mail) {
        self.active.add(self.inboxes.len());
        for port in &self.inboxes {
            // A node that has ended takes nothing, and the run is over then.
            let _ = port.send(mail());
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
        (place < self.inboxes.len()).then_some(place)
    }

    fn send(&self, node: u32, mail: Mail) {
        if let Some(place) = self.place(node) {
            // A node that has ended takes nothing, and the run is over then.
            let _ = self.inboxes[place].send(mail);
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
        for (inbox, poll) in self.inboxes.iter().zip(&self.polls) {
            let _ = inbox.send(Mail::Stop);
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
        let (inboxes, mail): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let shared = Arc::new(Shared {
            first,
            // Guests may come at any time: the nodes of a server never have nothing to wait for.
            active: Active::new(count as usize + usize::from(hosts)),
            idle: (0..all).map(|_| Idle::default()).collect(),
            idlers: Arc::default(),
            inboxes,
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
                let port = Port::new(node, shared.clone(), links.clone(), mail);
                bifrost_actors::set_network(&mut cx, Box::new(port), all);
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
            bifrost_actors::set_network(&mut cx, simulation.port(node), count);
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
        self.spaces.iter().map(|space| space.lock().words.stats).collect()
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
    actors::run_node(&mut cx);
    cx.leave();
}

/// Lets a node sleep for so many milliseconds.
pub fn nap(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

#[cfg(test)]
mod tests {
    use bifrost_actors::Network;

    use super::*;

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
        let mut port = Port::new(0, shared.clone(), None, channel().1);
        let mut without_backlog = || [(); 4].map(|()| port.claim_node_without_backlog());
        assert_eq!(without_backlog(), [Some(1), Some(2), Some(3), None]);
        shared.hint_no_backlog(1);
        shared.hint_no_backlog(3);
        assert_eq!(without_backlog(), [Some(3), None, None, None]);
        // A node that has nothing to do gets something, and something behind it.
        shared.hint(2);
        assert_eq!([(); 2].map(|()| port.claim_idle_node()), [Some(2), None]);
        let mut without_backlog = || [(); 2].map(|()| port.claim_node_without_backlog());
        assert_eq!(without_backlog(), [Some(2), None]);
        // A node here has no need of more while something is under way to it.
        assert_eq!(shared.without_backlog(0), Some(0));
        shared.deliver(2, 0, vec![0; 8]);
        assert_eq!(shared.without_backlog(0), None);
        shared.hint(2);
        shared.lose(2..4);
        assert_eq!(without_backlog(), [None, None]);
        assert_eq!(port.claim_idle_node(), None);
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
