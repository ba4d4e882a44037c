//! The way in which a node reaches others: the traits that the owner of the node's thread provides.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use bifrost_ir::TypeId;
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::transfer::Address;

/// The connection of a node to the others, in four parts: each part has a job of its own, and a
/// test may provide one and leave the others at their defaults.
pub trait Network: Packets + Placement + Names + Observer + Send {}

impl<T: Packets + Placement + Names + Observer + Send> Network for T {}

/// Packets to other nodes, and from them.
pub trait Packets {
    /// Hands over packets, which arrive in the order of their sending. Never waits.
    fn post(&mut self, node: u32, packets: Vec<u8>);

    /// Receives packets, with the node that sent them. Waits for them as long as `wait` says;
    /// without a time as long as there can be any. Returns nothing when the time is over or no
    /// packet can come any more.
    fn receive(&mut self, wait: Wait) -> Received;

    /// True if there is something to [`receive`](Packets::receive) now.
    fn has_mail(&mut self) -> bool;

    /// True if more packets came than there is room for: none is taken any more then.
    fn is_full(&mut self) -> bool {
        false
    }

    /// Takes the report that a node has sent bytes that no correct node sends. Returns true if the
    /// node will be lost for it: nothing of it is read any more.
    fn distrust(&mut self, _node: u32, _why: &str) -> bool {
        false
    }
}

/// The choice of a node: which of them have nothing to do, and where new actors belong.
pub trait Placement {
    /// Returns a node that has nothing to do, if there is one.
    fn claim_idle_node(&mut self) -> Option<u32>;

    /// Returns a node that has something to do, but nothing behind it, if one is known; it is not
    /// named again before it has looked.
    fn claim_node_without_backlog(&mut self) -> Option<u32> {
        None
    }

    /// Returns a counter that is 0 while no node has nothing to do, so that none need ask; without
    /// it, each node asks.
    fn idlers(&self) -> Option<Arc<AtomicU32>> {
        None
    }

    /// True if a node has nothing to do.
    fn is_idle(&mut self, node: u32) -> bool;

    /// Returns the flag that [`is_idle`](Placement::is_idle) reads, if that is one place as long as
    /// there is this network. Then machine code may read it.
    fn idleness(&mut self, node: u32) -> Option<&AtomicBool> {
        let _ = node;
        None
    }

    /// Returns the node for an actor that a guest makes, and that need not be on a certain one.
    fn home(&mut self) -> u32 {
        0
    }

    /// True if there are tasks here, on which native actors run.
    fn has_tasks(&self) -> bool {
        false
    }

    /// True if a node or guest is in this process, and so may know native actors.
    fn is_here(&self, _node: u32) -> bool {
        true
    }

    /// Returns the index of the next actor that a guest makes on a node. Returns nothing for a node
    /// itself, which counts by itself.
    fn next_index(&mut self, _node: u32) -> Option<u32> {
        None
    }
}

/// The names of actors. Without them, as by default, no actor has a name here.
pub trait Names {
    /// True if actors can have names here.
    fn has_names(&self) -> bool {
        false
    }

    /// Enters an actor under a name, or takes the name away. Returns true if an actor had it. The
    /// table of names was told of the actor.
    ///
    /// # Errors
    /// The reason why the name cannot be entered.
    fn publish(&mut self, _name: &str, _actor: Option<Named>) -> Result<bool, String> {
        Err(no_names())
    }

    /// Returns the actor of a name, of which this node was told.
    fn find(&mut self, _name: &str) -> Option<Named> {
        None
    }
}

/// A reader of the counts of work. By default nobody reads them.
pub trait Observer {
    /// Takes the counts of the work that the node has done so far.
    fn tell(&mut self, _stats: &Stats) {}
}

/// The time that a node waits for packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all: there is something to do.
    No,
    /// So long: then there is something to do.
    For(Duration),
    /// Until there are packets, or nothing can happen any more.
    Idle,
    /// The same, and after so long the node is to look at its waits.
    IdleFor(Duration),
}

/// The result of a node's look for packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Received {
    /// Packets of this node.
    Packets(u32, Vec<u8>),
    /// None, for now.
    Nothing,
    /// These nodes are lost, and nothing comes from them.
    Lost(Range<u32>),
    /// There is a guest of this number.
    Guest(u32),
    /// Nothing has come for so long that the node looks at its waits.
    Look,
    /// All nodes have nothing to do, and no packet is under way.
    Over,
    /// The run was ended.
    Stopped,
}

/// An actor by its name, for others than its node.
pub type Named = (Address, TypeId);

/// The failure of a program that publishes actors where there are no clients.
pub(super) const NOBODY_SERVED: &str = "names of actors exist only in `bifrost serve`: in `start`, routines of \
    clients and actors";

/// Returns the failure of a network that has no names.
pub(crate) fn no_names() -> String {
    NOBODY_SERVED.to_owned()
}
