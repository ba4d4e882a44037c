//! How a node reaches others: what whoever runs it provides.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use super::Stats;
use super::guest::{Named, no_names};

/// What a node knows of the others, and how packets get there.
pub trait Network: Send {
    /// Hands over packets, which arrive in the order of their sending. Never waits.
    fn post(&mut self, node: u32, packets: Vec<u8>);

    /// Packets that came, and from where. Waits for them at most so long, without a time as long as there can be any; nothing when
    /// the time is over or no packet can come any more.
    fn receive(&mut self, wait: Wait) -> Received;

    /// True if there is something to [`receive`](Network::receive) now.
    fn has_mail(&mut self) -> bool;

    /// A node that has nothing to do, if there is one.
    fn idle_node(&mut self) -> Option<u32>;

    /// A node that has something to do, but nothing behind it, if one is known; it is not named again before it has looked.
    fn hungry_node(&mut self) -> Option<u32> {
        None
    }

    /// A counter that is 0 while no node has nothing to do, so that nobody need ask; without it, everybody asks.
    fn idlers(&self) -> Option<Arc<AtomicU32>> {
        None
    }

    /// True if more came than there is room for: nothing comes any more then.
    fn is_full(&mut self) -> bool {
        false
    }

    /// True if a node has nothing to do.
    fn is_idle(&mut self, node: u32) -> bool;

    /// What [`is_idle`](Network::is_idle) looks at, if that is one place as long as there is this network: then machine code may look at it.
    fn idleness(&mut self, node: u32) -> Option<&AtomicBool> {
        let _ = node;
        None
    }

    /// The node for an actor that a guest makes, and that need not be on a certain one.
    fn home(&mut self) -> u32 {
        0
    }

    /// The index of the next actor that a guest makes on a node; of a node itself, which counts by itself, nothing.
    fn next_index(&mut self, _node: u32) -> Option<u32> {
        None
    }

    /// Hears what the node has done so far.
    fn tell(&mut self, _stats: &Stats) {}

    /// Hears that a node has sent what none sends that behaves. Returns true if it will be lost therefore: nothing of it is looked at any more.
    fn distrust(&mut self, _node: u32, _why: &str) -> bool {
        false
    }

    /// True if actors can have names here.
    fn has_names(&self) -> bool {
        false
    }

    /// Enters an actor under a name, or takes the name away; whether an actor had it. Whoever keeps the names was told of the actor.
    ///
    /// # Errors
    /// Why the name cannot be entered.
    fn publish(&mut self, _name: &str, _actor: Option<Named>) -> Result<bool, String> {
        Err(no_names())
    }

    /// The actor of a name, of which this node was told.
    fn find(&mut self, _name: &str) -> Option<Named> {
        None
    }
}

/// How long a node waits for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all: there is something to do.
    No,
    /// So long: then there is something to do.
    For(Duration),
    /// Until there are packets, or nothing can happen any more.
    Idle,
    /// The same, and after so long the node is to look at what waits.
    IdleFor(Duration),
}

/// What a node that looked for packets has got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// Packets of this node.
    Packets(u32, Vec<u8>),
    /// None, for now.
    Nothing,
    /// These nodes are no more, and nothing comes from them.
    Lost(Range<u32>),
    /// There is a guest of this number.
    Guest(u32),
    /// Nothing has come for so long that the node looks at what waits.
    Look,
    /// All nodes have nothing to do, and no packet is under way.
    Over,
    /// The run was ended.
    Stopped,
}
