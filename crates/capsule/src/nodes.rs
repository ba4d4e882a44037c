//! Nodes: threads that share a program, each with a context and actors of its own
//! (`docs/book/language/actors.md`).
//!
//! Read [`Nodes`] first: it makes the contexts and runs the threads. `Shared` is the state that all
//! nodes of this process share. A [`Port`] is the part of one node: its receiver of mail, and
//! its way to the others. The packets themselves are written and read by the runtime.
//!
//! One counter (`active.rs`) is the number of busy nodes plus the number of packets under way. When
//! it is 0, nothing can happen any more.
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

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use bifrost_engine::Engine;
use bifrost_runtime::cx::{Lines, Output};
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Cx, HeapStats, Limits};
use parking_lot::Mutex;

use crate::capsules::{Joined, Links};
use crate::look::TICK;
use crate::processors;
use crate::shared::SharedMail;
use crate::simulation::Simulation;
use crate::space::Space;
use crate::tasks::Tasks;

mod port;

use port::Port;

pub use crate::shared::{Guests, NODES_MAX, Shared};

/// The time that a method of an actor runs before it makes way for others at the end of a loop's
/// step.
const TURN: Duration = TICK;

/// The time for which the end of a run waits for methods of native actors.
const PATIENCE: Duration = Duration::from_secs(1);

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
        let nodes = Nodes::make(spaces, None, None, ready);
        nodes.connect();
        Ok(nodes)
    }

    /// Makes the nodes of a server: as many as there are contexts. They run until they are ended,
    /// and have these guests.
    pub fn hosting(spaces: Vec<Arc<Space>>, guests: Arc<dyn Guests>, ready: impl Fn(&mut Cx)) -> Nodes {
        let nodes = Nodes::make(spaces, None, Some(guests), ready);
        nodes.connect();
        nodes
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
        let nodes = Nodes::make(spaces, Some(Joined { output, ..joined }), None, ready);
        nodes.connect();
        Ok(nodes)
    }

    /// Connects the tasks with the nodes, which run on threads.
    fn connect(&self) {
        if let Some(tasks) = self.shared.tasks() {
            tasks.connect(Box::new(SharedMail(Arc::downgrade(&self.shared))));
        }
    }

    fn make(
        spaces: Vec<Arc<Space>>,
        joined: Option<Joined>,
        guests: Option<Arc<dyn Guests>>,
        ready: impl Fn(&mut Cx),
    ) -> Nodes {
        let count = spaces.len() as u32;
        let (own, capsules) = joined.as_ref().map_or((0, 1), |joined| (joined.own, joined.capsules));
        let (first, all) = (own * count, capsules * count);
        let (inboxes, mail): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let polls = spaces.iter().map(|space| space.poll().clone()).collect();
        let hosts = guests.is_some();
        let tasks = spaces.first().and_then(|space| Tasks::of(space.engine(), all));
        let (has_tasks, joins) = (tasks.is_some(), joined.is_some());
        let shared = Arc::new(Shared::new(first, all, inboxes, polls, guests, (tasks, joins)));
        let links = joined.map(|joined| Links::new(joined, shared.clone()));
        for ((node, space), mail) in (first..).zip(&spaces).zip(mail) {
            let mut cx = space.lock();
            ready(&mut cx);
            cx.set_node(node, all);
            cx.set_long_native(note_long_native);
            if let Some(links) = links.as_ref().filter(|links| !links.is_first()) {
                let links = links.clone();
                cx.set_output(Output::Lines(Lines(Box::new(move |text| links.print(text)))));
            }
            // A single node is the only one to know that it has nothing to do.
            if all > 1 || hosts || has_tasks {
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
        if !(1..=NODES_MAX).contains(&count) {
            return Err(NodesError::Count(count));
        }
        let mut nodes = Nodes::make(more(first, count, limits)?, None, None, ready);
        let tasks = nodes.shared.tasks().cloned();
        let simulation = Simulation::new(count, seed, loss, tasks.clone());
        if let Some(tasks) = tasks {
            tasks.simulate()?;
            tasks.connect(simulation.mail());
        }
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
        if self.shared.nodes() > 1 {
            processors::begin_on(self.shared.first() + at);
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
        let tasks = self.shared.tasks();
        let ended = thread::scope(|scope| {
            let mut started = Vec::new();
            let mut failed = self.links.as_ref().and_then(|links| links.start().err());
            failed = failed.or(tasks.and_then(|tasks| tasks.start().err()));
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
        });
        if let Some(tasks) = tasks {
            tasks.stop(PATIENCE);
        }
        ended
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
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the number of the first of these nodes.
    pub fn first_node(&self) -> u32 {
        self.shared.first()
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
    bifrost_actors::run_node(&mut cx);
    cx.leave();
}

/// Logs a native that has held up a node, once for each name.
fn note_long_native(name: &str, ticks: u32) {
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if KNOWN.lock().insert(name.to_owned()) {
        let ms = (TICK * ticks).as_millis() as u64;
        tracing::warn!(native = name, ms, "native.long: make it a native actor, whose methods run on tasks");
    }
}

/// Lets a node sleep for so many milliseconds.
pub fn nap(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}
