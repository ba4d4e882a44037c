//! Nodes on one thread, in an order that a seed decides.
//!
//! The first node runs as ever. When it looks for packets, the seed decides two things: how many
//! steps which of the others take meanwhile, and which packets arrive. When it has nothing to do,
//! the others go on until there are packets for it or no node has anything to do. So every order of
//! the nodes' steps occurs in some run, and any run can be repeated. Nodes can be lost in a run,
//! after so many looks of the first one: the others hear of it sooner or later.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bifrost_actors::{Names, Network, Observer, Packets, Placement, Received, Wait, step_node, tasks_of};
use bifrost_runtime::Cx;

use crate::space::Space;
use crate::tasks::{Client, TaskMail, Tasks};

/// The pause before the next look for answers that come from other threads.
const LATE: Duration = Duration::from_millis(1);

/// The nodes' ways to each other.
#[derive(Clone, Debug)]
pub(crate) struct Simulation(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: u64,
    /// By receiver and sender: packets under way.
    queues: Vec<Vec<VecDeque<Vec<u8>>>>,
    /// The contexts of all nodes but the first, by address; none before and after the run.
    others: Vec<usize>,
    /// Nodes that will be lost, and after how many looks of the first one.
    loss: Option<(Range<u32>, u32)>,
    /// Nodes that are lost.
    lost: Range<u32>,
    /// By node: true if it has yet to hear of that.
    unheard: Vec<bool>,
    /// The log of all that has happened between nodes.
    events: Events,
    /// The tasks, which run at once.
    tasks: Option<Arc<Tasks>>,
}

/// The log of a run, as a digest: two runs with the same one are the same.
#[derive(Debug, Default)]
struct Events {
    count: u64,
    hasher: blake3::Hasher,
}

/// The kinds of events.
#[derive(Clone, Copy)]
enum Event {
    /// A node sends packets to another.
    Sent,
    /// A node takes packets of another.
    Taken,
    /// A node hears that those from the one to before the other are lost.
    Lost,
    /// A node takes a step, and had something to do or not.
    Step,
}

impl Events {
    fn add(&mut self, event: Event, one: u32, other: u32, bytes: &[u8]) {
        self.count += 1;
        self.hasher.update(&[event as u8]);
        for number in [u64::from(one), u64::from(other), bytes.len() as u64] {
            self.hasher.update(&number.to_le_bytes());
        }
        self.hasher.update(bytes);
    }
}

impl State {
    /// Returns a number below `n` (xorshift64*).
    fn choose(&mut self, n: usize) -> usize {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    }

    /// Returns packets for a node, from any that has sent some.
    fn packets(&mut self, node: u32) -> Option<(u32, Vec<u8>)> {
        let senders: Vec<usize> = (0..self.queues[node as usize].len())
            .filter(|from| !self.queues[node as usize][*from].is_empty())
            .collect();
        let from = *senders.get(self.choose(senders.len()))?;
        let packets = self.queues[node as usize][from].pop_front()?;
        Some((from as u32, packets))
    }

    fn is_quiet(&self) -> bool {
        self.queues.iter().flatten().all(VecDeque::is_empty) && !self.unheard.contains(&true)
    }

    /// The first node looks: nodes may be lost now.
    fn look(&mut self) {
        match self.loss.take() {
            Some((nodes, 0)) => {
                for node in 0..self.queues.len() as u32 {
                    let of_lost = nodes.contains(&node);
                    self.unheard[node as usize] = !of_lost;
                    for (from, queue) in (0..).zip(&mut self.queues[node as usize]) {
                        // Packets that such nodes have sent may still come.
                        if of_lost || nodes.contains(&from) && self.random >> from & 1 == 0 {
                            queue.clear();
                        }
                    }
                }
                self.lost = nodes;
            }
            Some((nodes, looks)) => self.loss = Some((nodes, looks - 1)),
            None => {}
        }
    }

    /// Returns an event for a node that looks for packets, if there is one.
    fn hear(&mut self, node: u32) -> Option<Received> {
        if self.unheard[node as usize] && self.choose(4) == 0 {
            self.unheard[node as usize] = false;
            self.events.add(Event::Lost, self.lost.start, self.lost.end, &node.to_le_bytes());
            return Some(Received::Lost(self.lost.clone()));
        }
        let (from, packets) = self.packets(node)?;
        self.events.add(Event::Taken, from, node, &[]);
        Some(Received::Packets(from, packets))
    }
}

impl Simulation {
    pub(crate) fn new(
        count: u32,
        seed: u64,
        loss: Option<(Range<u32>, u32)>,
        tasks: Option<Arc<Tasks>>,
    ) -> Simulation {
        // The tasks send answers.
        let senders = tasks_of(count) as usize + 1;
        let count = count as usize;
        let queues = vec![vec![VecDeque::new(); senders]; count];
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (others, unheard, events) = (Vec::new(), vec![false; count], Events::default());
        let state = State { random, queues, others, loss, lost: 0..0, unheard, events, tasks };
        Simulation(Arc::new(Mutex::new(state)))
    }

    /// Returns the way from the tasks to the nodes.
    pub(crate) fn mail(&self) -> Box<dyn TaskMail> {
        Box::new(SimulatedMail(Arc::downgrade(&self.0)))
    }

    /// Returns the number of events, and the digest of their log.
    pub(crate) fn events(&self) -> (u64, String) {
        let events = &self.state().events;
        (events.count, events.hasher.finalize().to_hex().to_string())
    }

    pub(crate) fn port(&self, node: u32) -> Box<dyn Network> {
        Box::new(Port { node, simulation: self.clone(), idle: AtomicBool::new(false) })
    }

    /// Runs `main`, and the other nodes on the same stack.
    pub(crate) fn run<T>(&self, others: &[Arc<Space>], main: impl FnOnce() -> T) -> T {
        let mut locked: Vec<_> = others.iter().map(|space| space.lock()).collect();
        for cx in &mut locked {
            cx.begin();
        }
        self.state().others = locked.iter_mut().map(|cx| std::ptr::from_mut::<Cx>(cx) as usize).collect();
        let ended = main();
        self.state().others.clear();
        for cx in &mut locked {
            cx.leave();
        }
        ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets another node take a step; returns true if it could. `None` when a node was ended.
    fn step(&self, other: usize) -> Option<bool> {
        if self.state().lost.contains(&(other as u32 + 1)) {
            return Some(false);
        }
        let Some(cx) = self.state().others.get(other).copied() else { return Some(false) };
        // SAFETY: the contexts are locked during the run, on this thread, and none of them is in
        // use: only the first node comes here.
        let stepped = step_node(unsafe { &mut *(cx as *mut Cx) }).ok();
        self.state().events.add(Event::Step, other as u32 + 1, u32::from(stepped == Some(true)), &[]);
        stepped
    }
}

/// The way from the tasks to the simulated nodes.
#[derive(Debug)]
struct SimulatedMail(Weak<Mutex<State>>);

impl TaskMail for SimulatedMail {
    fn deliver(&self, to: u32, packets: Vec<u8>) {
        let Some(state) = self.0.upgrade() else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let from = tasks_of(state.queues.len() as u32);
        state.events.add(Event::Sent, from, to, &packets);
        if !state.lost.contains(&to) {
            state.queues[to as usize][from as usize].push_back(packets);
        }
    }

    fn begin_work(&self) {}

    fn end_work(&self) {}

    fn client(&self, _guest: u32) -> Option<Client> {
        None
    }
}

/// A node's way to the others.
#[derive(Debug)]
struct Port {
    node: u32,
    simulation: Simulation,
    /// The last answer about another node: true if it had nothing to do.
    idle: AtomicBool,
}

impl Packets for Port {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        let mut state = self.simulation.state();
        state.events.add(Event::Sent, self.node, node, &packets);
        if node as usize >= state.queues.len() {
            let tasks = state.tasks.clone();
            drop(state);
            return tasks.into_iter().for_each(|tasks| tasks.post(self.node, packets.clone()));
        }
        if !state.lost.contains(&node) {
            state.queues[node as usize][self.node as usize].push_back(packets);
        }
    }

    fn receive(&mut self, wait: Wait) -> Received {
        if self.node != 0 {
            // It takes one step at a time, and some packets wait.
            let mut state = self.simulation.state();
            let heard = if state.choose(4) == 0 { None } else { state.hear(self.node) };
            return heard.unwrap_or(Received::Nothing);
        }
        let count = self.simulation.state().others.len();
        loop {
            self.simulation.state().look();
            // The others take some steps, in any order.
            let steps = self.simulation.state().choose(2 * count + 1);
            for _ in 0..steps {
                let other = self.simulation.state().choose(count);
                if self.simulation.step(other).is_none() {
                    return Received::Stopped;
                }
            }
            if let Some(heard) = self.simulation.state().hear(0) {
                return heard;
            }
            if !matches!(wait, Wait::Idle | Wait::IdleFor(_)) {
                return Received::Nothing;
            }
            let mut rest = true;
            for other in 0..count {
                match self.simulation.step(other) {
                    None => return Received::Stopped,
                    Some(stepped) => rest &= !stepped,
                }
            }
            if rest && self.simulation.state().is_quiet() {
                let tasks = self.simulation.state().tasks.clone();
                if tasks.is_none_or(|tasks| tasks.pending() == 0) {
                    return Received::Over;
                }
                // Some answers come later, from other threads.
                std::thread::sleep(LATE);
            }
        }
    }

    fn has_mail(&mut self) -> bool {
        self.simulation.state().queues[self.node as usize].iter().any(|from| !from.is_empty())
    }
}

impl Placement for Port {
    fn claim_idle_node(&mut self) -> Option<u32> {
        let mut state = self.simulation.state();
        let count = state.queues.len();
        // Any node may have nothing to do.
        let node = state.choose(2 * count) as u32;
        (node != self.node && (node as usize) < count && !state.lost.contains(&node)).then_some(node)
    }

    fn is_idle(&mut self, node: u32) -> bool {
        let mut state = self.simulation.state();
        node as usize >= state.queues.len() || state.choose(2) == 0
    }

    fn has_tasks(&self) -> bool {
        self.simulation.state().tasks.is_some()
    }

    fn idleness(&mut self, node: u32) -> Option<&AtomicBool> {
        let idle = self.is_idle(node);
        self.idle.store(idle, Ordering::Relaxed);
        Some(&self.idle)
    }
}

impl Names for Port {}

impl Observer for Port {}
