//! The node of a new actor that is made `anywhere` (002 section 4).
//!
//! Short-lived work, which is functional actors, is taken by nodes that have nothing to do
//! ([`Actors::node_for_new`]). An actor that is not functional *lasts*: it stays where it is made,
//! so its node is chosen by load when it is made:
//!
//! ```text
//! load of a node   the living actors that this node has made there by `anywhere` or `on`
//!                + the number that the node itself has told with LOAD: living actors that others
//!                  have made there, and a 32nd of its ready queue
//! load of this one the same numbers, without a packet, and 1 for the code that runs now
//! ```
//!
//! | event | effect |
//! | --- | --- |
//! | an actor is made here or on another node | `made` of the node grows |
//! | a collection forgets remote actors | their `made` shrinks; in proportion that of this node |
//! | packets leave for a node with actors made here | LOAD goes along if it has changed much |
//! | LOAD arrives | `told` of its sender is replaced |
//!
//! A creation deep on the stack is a part of a tree of calls, which would be torn apart: it stays
//! here, and counts. Only a creation as high on the stack as the highest of the last [`WINDOW`]
//! asks for the load.

use std::sync::atomic::Ordering;

use bifrost_runtime::abi::Word;
use bifrost_runtime::node_words::NodeWords;
use rustc_hash::FxHashMap;

use crate::between::kinds::LOAD;
use crate::between::packet::put;
use crate::between::remote::Remote;
use crate::node::Actors;

/// The number of creations deeper on the stack than the last one that was placed by load, after
/// which the bound is set anew.
const WINDOW: u32 = 8;

/// The entries of the ready queue that weigh as much as an actor: they come and go, and actors
/// stay.
const READY_PER_ACTOR: usize = 32;

/// The part of the difference, beside an eighth of the load, above which a node is told its load
/// again.
const TOLD_STEP: u32 = 8;

/// Returns the number under which all nodes and guests of a process know its tasks, on which native
/// actors run. It is behind that of the table of names. Guests have higher ones.
pub fn tasks_of(nodes: u32) -> u32 {
    nodes + 1
}

/// The loads that a node knows; all vectors are by node.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// Living actors that this node has made there, itself included.
    made: Vec<u32>,
    /// The load that the node has told.
    told: Vec<u32>,
    /// The load that the node was told last, if it makes actors here.
    telling: Vec<Option<u32>>,
    /// A 32nd of the ready queue, when that was counted last.
    ready: u32,
    /// The bound of the stack pointer for placing by load.
    at: usize,
    /// The highest stack pointer below the bound, and in `looked` the number of those below it.
    highest: usize,
    looked: u32,
}

impl Placement {
    pub(crate) fn new(nodes: u32) -> Placement {
        let nodes = nodes as usize;
        Placement {
            made: vec![0; nodes],
            told: vec![0; nodes],
            telling: vec![None; nodes],
            ..Placement::default()
        }
    }

    /// True if a creation at this height of the stack is placed by load.
    fn is_high(&mut self, stack: usize) -> bool {
        if stack < self.at {
            self.highest = self.highest.max(stack);
            self.looked += 1;
            if self.looked < WINDOW {
                return false;
            }
        }
        self.at = stack.max(self.highest);
        (self.highest, self.looked) = (0, 0);
        stack >= self.at
    }

    /// Counts a new actor of a node.
    pub(crate) fn made(&mut self, node: u32) {
        if let Some(made) = self.made.get_mut(node as usize) {
            *made = made.saturating_add(1);
        }
    }

    /// Counts actors of other nodes, and in proportion those of this one, that a collection has
    /// found dead.
    pub(crate) fn forget(&mut self, node: u32, dead: impl Iterator<Item = u32>) {
        let own = node as usize;
        let others = |made: &[u32]| -> u64 {
            made.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, made)| u64::from(*made)).sum()
        };
        let before = others(&self.made);
        for node in dead {
            if let Some(made) = self.made.get_mut(node as usize) {
                *made = made.saturating_sub(1);
            }
        }
        let after = others(&self.made);
        if let Some(made) = self.made.get_mut(own).filter(|_| after < before) {
            *made = (u64::from(*made) * after / before) as u32;
        }
    }

    /// Notes that a node has made an actor here: it is told of the load from now on.
    pub(crate) fn tell(&mut self, node: u32) {
        if let Some(telling) = self.telling.get_mut(node as usize) {
            telling.get_or_insert(0);
        }
    }

    /// Notes the load that a node has told.
    pub(crate) fn told(&mut self, node: u32, load: u32) {
        if let Some(told) = self.told.get_mut(node as usize) {
            *told = load;
        }
    }
}

impl Remote {
    /// Returns the node with the least load; the nearest behind this one if there are several.
    fn least_loaded(&self, own: u32) -> u32 {
        let nodes = self.placement.made.len() as u32;
        let here = self.load_besides(own).saturating_add(1);
        let load = |node: &u32| {
            let at = *node as usize;
            let besides = if *node == own { here } else { self.placement.told[at] };
            u64::from(self.placement.made[at]) + u64::from(besides)
        };
        let all = (1..=nodes).map(|at| (own + at) % nodes);
        all.filter(|node| *node == own || !self.is_lost(*node)).min_by_key(load).unwrap_or(own)
    }

    /// Takes over the number of entries in the ready queue of this node.
    pub(crate) fn count_ready(&mut self, ready: usize) {
        self.placement.ready = u32::try_from(ready / READY_PER_ACTOR).unwrap_or(u32::MAX);
    }

    /// Returns the load of this node without the actors that a node has made here.
    fn load_besides(&self, node: u32) -> u32 {
        let born = self.born_count - self.born.get(node as usize).map_or(0, FxHashMap::len);
        u32::try_from(born).unwrap_or(u32::MAX).saturating_add(self.placement.ready)
    }

    /// Writes the load behind packets for a node that makes actors here, if it was told another
    /// one.
    #[inline]
    pub(crate) fn tell_load(&mut self, node: u32) {
        let Some(Some(last)) = self.placement.telling.get(node as usize).copied() else { return };
        let load = self.load_besides(node);
        if load.abs_diff(last) > TOLD_STEP + last / 8 {
            self.placement.telling[node as usize] = Some(load);
            let mut packet = vec![LOAD];
            put(&mut packet, &[load]);
            let packets = &mut self.outbox[node as usize];
            packets.extend_from_slice(&(packet.len() as u32).to_le_bytes());
            packets.extend_from_slice(&packet);
        }
    }
}

/// The number of actors that could have gone to another node, but were too deep on the stack, after
/// which that depth is set anew.
pub const LOOKS: u32 = 4096;

impl Actors {
    /// Returns a node that has nothing to do, or nothing behind its present work, for a new actor,
    /// if it is worth that. The less deep the stack is, the more work there is below the actor. So
    /// the stack must be as high as the highest of the last ones that could have gone. Depth first,
    /// the oldest work is the largest.
    pub(crate) fn node_for_new(&mut self, words: &mut NodeWords, stack: usize) -> Option<u32> {
        if self.order.is_none() && stack < words.gives_at {
            // SAFETY: it is a static, or what the network counts in, which is kept.
            if unsafe { &*words.idlers }.load(Ordering::Relaxed) == 0 {
                return None;
            }
            words.highest = words.highest.max(stack);
            words.looked += 1;
            if words.looked == LOOKS {
                (words.gives_at, words.highest, words.looked) = (words.highest, 0, 0);
                words.ahead_at = words.gives_at;
            }
            return None;
        }
        let ahead = stack >= words.ahead_at;
        let node = self
            .remote
            .claim_idle_node()
            .or_else(|| ahead.then(|| self.remote.claim_node_without_backlog())?)?;
        words.ahead_at = stack;
        if self.order.is_none() {
            words.gives_at = stack;
        }
        Some(node)
    }

    /// Returns the node of a new actor that lasts, made with the stack pointer here; it is counted.
    pub(crate) fn node_for_lasting(&mut self, own: u32, stack: Word) -> u32 {
        let ready = self.ready_count();
        let is_high = self.is_ordered() || self.remote.placement.is_high(stack as usize);
        let node = if is_high {
            self.remote.count_ready(ready);
            self.remote.least_loaded(own)
        } else {
            own
        };
        if node == own {
            // An actor of another node is counted when its packet is written.
            self.remote.placement.made(own);
        }
        node
    }
}

/// Returns the node that chooses the addresses of the actors that a node makes on others: guests
/// are one for that.
pub(crate) fn chooser(node: u32, nodes: u32) -> u32 {
    node.min(nodes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::between::network::{self, Names, Observer, Packets, Received, Wait};

    struct Nobody;

    impl Packets for Nobody {
        fn post(&mut self, _node: u32, _packets: Vec<u8>) {}

        fn receive(&mut self, _wait: Wait) -> Received {
            Received::Over
        }

        fn has_mail(&mut self) -> bool {
            false
        }
    }

    impl network::Placement for Nobody {
        fn claim_idle_node(&mut self) -> Option<u32> {
            None
        }

        fn is_idle(&mut self, _node: u32) -> bool {
            false
        }
    }

    impl Names for Nobody {}

    impl Observer for Nobody {}

    /// Makes so many actors at a height of the stack. Returns their number by node.
    fn make(actors: &mut Actors, count: usize, stack: Word) -> [usize; 4] {
        let mut by = [0; 4];
        for _ in 0..count {
            let node = actors.node_for_lasting(0, stack);
            if node != 0 {
                actors.remote.placement.made(node);
            }
            by[node as usize] += 1;
        }
        by
    }

    fn actors() -> Actors {
        let mut actors = Actors::default();
        actors.set_network(&mut NodeWords::default(), Box::new(Nobody), 4);
        actors
    }

    #[track_caller]
    fn nearly(is: [usize; 4], expected: [usize; 4]) {
        assert!(
            is.iter().zip(expected).all(|(is, expected)| is.abs_diff(expected) <= 2),
            "{is:?}, {expected:?}"
        );
    }

    #[test]
    fn actors_that_last_are_spread_by_load() {
        let mut actors = actors();
        nearly(make(&mut actors, 1000, 9000), [250; 4]);
        // A node with load of its own gets fewer, a lost one none.
        actors.remote.placement.told(2, 100);
        nearly(make(&mut actors, 300, 9000), [100, 100, 0, 100]);
        actors.remote.placement.told(2, 0);
        actors.remote.lost[3] = true;
        nearly(make(&mut actors, 400, 9000), [100, 100, 200, 0]);
    }

    #[test]
    fn what_was_made_deep_on_the_stack_stays_and_counts() {
        let mut actors = actors();
        assert_eq!(make(&mut actors, 4, 9000).iter().sum::<usize>(), 4);
        assert_eq!(make(&mut actors, WINDOW as usize - 1, 5000), [WINDOW as usize - 1, 0, 0, 0]);
        // From now on that is high: the others get theirs first.
        let before = WINDOW as usize - 1;
        let [here, others @ ..] = make(&mut actors, 4 * before, 5000);
        assert!(here <= before / 4 + 2 && others.iter().all(|other| *other >= before), "{here}, {others:?}");
        // A tree of calls is mostly deeper than that.
        let deep: usize = (0..1000).map(|at| make(&mut actors, 1, 1000 + at * 619 % 1000)[0]).sum();
        assert!(deep > 600, "{deep}");
    }

    #[test]
    fn the_dead_are_counted_here_as_elsewhere() {
        let mut placement = Placement::new(4);
        (0..4).for_each(|node| (0..100).for_each(|_| placement.made(node)));
        placement.forget(0, (0..150).map(|at| 1 + at % 3));
        assert_eq!(placement.made, [50; 4]);
        placement.forget(0, (0..150).map(|at| 1 + at % 3));
        assert_eq!(placement.made, [0; 4]);
        placement.forget(0, std::iter::empty());
    }

    /// One other node, which is idle if the count says so. It names itself so many times as a node
    /// with nothing behind its present work.
    struct Other(Arc<AtomicU32>, u32);

    impl Packets for Other {
        fn post(&mut self, _node: u32, _packets: Vec<u8>) {}

        fn receive(&mut self, _wait: Wait) -> Received {
            Received::Over
        }

        fn has_mail(&mut self) -> bool {
            false
        }
    }

    impl network::Placement for Other {
        fn claim_idle_node(&mut self) -> Option<u32> {
            (self.0.load(Ordering::Relaxed) > 0).then_some(1)
        }

        fn claim_node_without_backlog(&mut self) -> Option<u32> {
            self.1 = self.1.checked_sub(1)?;
            Some(1)
        }

        fn idlers(&self) -> Option<Arc<AtomicU32>> {
            Some(self.0.clone())
        }

        fn is_idle(&mut self, _node: u32) -> bool {
            false
        }
    }

    impl Names for Other {}

    impl Observer for Other {}

    #[test]
    fn who_has_nothing_to_do_gets_actors_from_high_on_the_stack() {
        let (mut actors, mut words) = (Actors::default(), NodeWords::default());
        actors.set_network(&mut words, Box::new(Other(Arc::new(AtomicU32::new(1)), 0)), 2);
        // The first goes, wherever it is; then none that is deeper does until the height was set
        // anew.
        assert_eq!(actors.node_for_new(&mut words, 9000), Some(1));
        assert_eq!(actors.node_for_new(&mut words, 9000), Some(1));
        for at in 0..u64::from(LOOKS) {
            assert_eq!(actors.node_for_new(&mut words, 1000 + at as usize % 500), None);
        }
        assert_eq!(actors.node_for_new(&mut words, 1498), None);
        assert_eq!(actors.node_for_new(&mut words, 1499), Some(1));
        // A seed decides by itself.
        actors.set_order(1);
        words.gives_at = 0;
        assert_eq!(actors.node_for_new(&mut words, 0), Some(1));
    }

    #[test]
    fn who_is_busy_gets_actors_ahead_from_as_high_on_the_stack() {
        let idlers = Arc::new(AtomicU32::new(0));
        let (mut actors, mut words) = (Actors::default(), NodeWords::default());
        actors.set_network(&mut words, Box::new(Other(idlers.clone(), 2)), 2);
        // No node is given anything ahead that was given nothing before.
        assert_eq!(actors.node_for_new(&mut words, 9000), None);
        idlers.store(1, Ordering::Relaxed);
        assert_eq!(actors.node_for_new(&mut words, 5000), Some(1));
        idlers.store(0, Ordering::Relaxed);
        for _ in 0..2 * LOOKS {
            assert_eq!(actors.node_for_new(&mut words, 4999), None);
        }
        assert_eq!(actors.node_for_new(&mut words, 6000), Some(1));
        assert_eq!(actors.node_for_new(&mut words, 5000), None);
        assert_eq!(actors.node_for_new(&mut words, 6000), Some(1));
        assert_eq!(actors.node_for_new(&mut words, 7000), None);
    }
}
