//! Nodes: threads that share a program, each with a context and actors of its own (theta.md 10.2).
//!
//! Packets between nodes go through channels. One counter says when nothing can happen any more: how many nodes are busy, and how many
//! packets are under way, together. A node that has nothing to do takes its part away; who takes the last tells the first node, whose
//! `main` may wait in vain then, or be done. A packet has its part until the node that takes it is busy, so the counter is 0 only when
//! all rest (the credit method of termination detection).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use bifrost_engine::Engine;
use bifrost_runtime::actor::{self, Network, Received, Stats, Wait};
use bifrost_runtime::cx::Kill;
use bifrost_runtime::{Cx, HeapStats, Limits};

use crate::simulation::Simulation;
use crate::space::Space;

/// Most nodes of a program in one process.
pub const NODES_MAX: u32 = 255;

/// How long a method of an actor runs before it makes way for others at the end of a loop's step.
const TURN: Duration = Duration::from_millis(2);

/// What goes through a channel.
#[derive(Debug)]
enum Mail {
    Packets(u32, Vec<u8>),
    /// Nothing can happen any more, when it was sent.
    Quiet,
    /// The run is over.
    Stop,
}

/// What the nodes of a program know of each other.
#[derive(Debug)]
struct Shared {
    /// Busy nodes, and batches of packets under way.
    active: AtomicUsize,
    idle: Vec<Idle>,
    /// How many of them are idle.
    idlers: Arc<AtomicU32>,
    doors: Vec<Sender<Mail>>,
}

/// Whether a node has nothing to do. Each has a line of memory for itself.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Idle {
    idle: AtomicBool,
    /// Somebody has given it something to do, and it has not looked yet.
    given: AtomicBool,
}

/// A node's way to the others.
#[derive(Debug)]
struct Door {
    node: u32,
    shared: Arc<Shared>,
    mail: Receiver<Mail>,
    /// Where the search for an idle node begins.
    next: u32,
}

impl Door {
    /// What to do with mail, for a node that is counted as busy or, with `rested`, is not.
    fn open(&self, mail: Mail, rested: bool) -> Option<Received> {
        let active = &self.shared.active;
        match mail {
            Mail::Packets(from, packets) => {
                // The part of a batch becomes that of the node.
                if !rested {
                    active.fetch_sub(1, Ordering::AcqRel);
                }
                self.set_idle(false);
                Some(Received::Packets(from, packets))
            }
            Mail::Quiet if rested && active.load(Ordering::Acquire) == 0 => {
                active.fetch_add(1, Ordering::AcqRel);
                self.set_idle(false);
                Some(Received::Over)
            }
            Mail::Quiet => None,
            Mail::Stop => {
                if rested {
                    active.fetch_add(1, Ordering::AcqRel);
                }
                Some(Received::Stopped)
            }
        }
    }

    fn set_idle(&self, idle: bool) {
        let own = &self.shared.idle[self.node as usize];
        own.given.store(false, Ordering::Relaxed);
        // Only a hint: who is told of an idle node sends it packets, which it finds in any case.
        if own.idle.swap(idle, Ordering::Relaxed) != idle {
            match idle {
                true => self.shared.idlers.fetch_add(1, Ordering::Relaxed),
                false => self.shared.idlers.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }

    /// Waits until there is mail, or nothing can happen any more.
    fn rest(&self) -> Received {
        self.set_idle(true);
        // Release and acquire: who takes the last part sees that all the others have theirs taken away.
        if self.shared.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.shared.doors[0].send(Mail::Quiet);
        }
        loop {
            match self.mail.recv() {
                Ok(mail) => {
                    if let Some(received) = self.open(mail, true) {
                        return received;
                    }
                }
                // The doors are shared, this node's own among them.
                Err(_) => return Received::Stopped,
            }
        }
    }
}

impl Network for Door {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        self.shared.active.fetch_add(1, Ordering::AcqRel);
        // Who has ended takes nothing, and the run is over then.
        let _ = self.shared.doors[node as usize].send(Mail::Packets(self.node, packets));
    }

    fn receive(&mut self, wait: Wait) -> Received {
        loop {
            let mail = match wait {
                Wait::Idle => match self.mail.try_recv() {
                    Ok(mail) => mail,
                    Err(_) => return self.rest(),
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

    fn idle_node(&mut self) -> Option<u32> {
        let count = self.shared.idle.len() as u32;
        let found = (0..count).map(|at| (self.next + at) % count).find(|node| {
            let other = &self.shared.idle[*node as usize];
            *node != self.node
                && other.idle.load(Ordering::Relaxed)
                && !other.given.swap(true, Ordering::Relaxed)
        });
        self.next = found.map_or(self.next, |node| node + 1);
        found
    }

    fn idlers(&self) -> Option<Arc<AtomicU32>> {
        Some(self.shared.idlers.clone())
    }

    fn is_idle(&mut self, node: u32) -> bool {
        self.shared.idle[node as usize].idle.load(Ordering::Relaxed)
    }
}

/// The nodes of a program.
#[derive(Debug)]
pub struct Nodes {
    spaces: Vec<Arc<Space>>,
    shared: Arc<Shared>,
    /// In place of threads and channels.
    simulation: Option<Simulation>,
}

/// Why there are no nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodesError {
    /// There can be none, or not so many.
    #[error("a program has 1 to {NODES_MAX} nodes, not {0}")]
    Count(u32),
    /// The system has no means for one.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

impl Nodes {
    /// So many nodes. `first` is that of `main`; the others are new and have these limits each, and `ready` makes each node's context ready.
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
        let engine: Arc<Engine> = first.engine().clone();
        let mut spaces = vec![first];
        for _ in 1..count {
            spaces.push(Space::new(engine.clone(), limits)?);
        }
        let (doors, mail): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let idle = (0..count).map(|_| Idle::default()).collect();
        let shared = Arc::new(Shared {
            active: AtomicUsize::new(count as usize),
            idle,
            idlers: Arc::default(),
            doors,
        });
        for ((node, space), mail) in (0..).zip(&spaces).zip(mail) {
            let mut cx = space.lock();
            ready(&mut cx);
            cx.set_node(node, count);
            // One node needs nobody to tell it that it has nothing to do.
            if count > 1 {
                let next = node + 1;
                cx.actors.set_network(Box::new(Door { node, shared: shared.clone(), mail, next }), count);
            }
        }
        Ok(Nodes { spaces, shared, simulation: None })
    }

    /// So many nodes on one thread, with channels between them, in an order that a seed decides: which node takes a step, and which packets
    /// arrive. The same seed gives the same run.
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
        let mut nodes = Nodes::new(first, count, limits, ready)?;
        let simulation = Simulation::new(count, seed);
        for (node, space) in (0..).zip(&nodes.spaces) {
            let mut cx = space.lock();
            cx.set_order(seed.wrapping_mul(u64::from(NODES_MAX)) + u64::from(node));
            cx.actors.set_network(simulation.door(node), count);
        }
        nodes.simulation = Some(simulation);
        Ok(nodes)
    }

    /// Runs `main` on the first node's stack while the others do what they are asked for, and ends them when it comes back.
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
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut started = Vec::new();
            let mut failed = None;
            for space in &self.spaces[1..] {
                let thread = thread::Builder::new().stack_size(space.stack_bytes());
                match thread.spawn_scoped(scope, || run_node(space)) {
                    Ok(thread) => started.push(thread),
                    Err(why) => failed = Some(why),
                }
            }
            let clock = thread::Builder::new().spawn_scoped(scope, || self.tick(&over));
            failed = failed.or(clock.err());
            let ended = match failed {
                None => self.spaces[0].on_stack(|| main(&self.spaces[0])),
                Some(why) => Err(why),
            };
            over.store(true, Ordering::Relaxed);
            for (door, space) in self.shared.doors.iter().zip(&self.spaces).skip(1) {
                let _ = door.send(Mail::Stop);
                // One that computes does not look.
                space.interrupt(Kill::Stop);
            }
            for thread in started {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            Ok(ended?)
        })
    }

    /// Ends turns that last, until the run is over.
    fn tick(&self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            thread::sleep(TURN);
            self.spaces.iter().for_each(|space| space.poll().end_turn());
        }
    }

    /// The contexts of the nodes.
    pub fn spaces(&self) -> &[Arc<Space>] {
        &self.spaces
    }

    /// What the actors of each node have done.
    pub fn stats(&self) -> Vec<Stats> {
        self.spaces.iter().map(|space| space.lock().actors.stats).collect()
    }

    /// What became of the heaps together.
    pub fn heap_stats(&self) -> HeapStats {
        let all = self.spaces.iter().map(|space| space.lock().heap_stats());
        all.reduce(|all, one| all.with(&one)).unwrap_or_default()
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

/// How a node sleeps until a time.
pub fn nap(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}
