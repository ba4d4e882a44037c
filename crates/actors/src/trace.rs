//! The events on a node with their times, for people to look at.

use bifrost_ir::{FuncId, MethodRef, Program};

/// The most events that a node keeps; later ones are counted only.
pub const EVENTS_MAX: usize = 1 << 20;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message that was a call: within the event of its sender.
    Call(MethodRef),
    /// A queued message that was served.
    Message(MethodRef),
    /// A method that went on when it had all that it waited for.
    Join(FuncId),
    /// Packets that were read, with the number of the node that sent them.
    Packets(u32),
    /// A collection of the heap.
    Collection,
    /// There was nothing to do.
    Idle,
}

impl What {
    /// Returns its name, for people.
    pub fn name(self, program: &Program) -> String {
        let method = |m: MethodRef| format!("{}.{}", program.types.name(m.ty), program.types.method(m).name);
        match self {
            What::Call(m) | What::Message(m) => method(m),
            What::Join(func) => program.funcs[func].name.clone(),
            What::Packets(node) => format!("packets of node {node}"),
            What::Collection => "collection".to_owned(),
            What::Idle => "idle".to_owned(),
        }
    }

    /// Returns its kind, for people.
    pub fn kind(self) -> &'static str {
        match self {
            What::Call(_) => "call",
            What::Message(_) => "message",
            What::Join(_) => "join",
            What::Packets(_) => "packets",
            What::Collection => "collection",
            What::Idle => "idle",
        }
    }
}

/// An event, which took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the event.
    pub what: What,
    /// The time at which it began, in nanoseconds of the context's clock.
    pub start_ns: u64,
    /// The nanoseconds that it took.
    pub took_ns: u64,
}

/// The events on a node.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The events, in the order in which they ended.
    pub events: Vec<Event>,
    /// The number of events that were not kept.
    pub dropped: u64,
}

impl Trace {
    pub(crate) fn add(&mut self, what: What, start_ns: u64, end_ns: u64) {
        match self.events.len() < EVENTS_MAX {
            true => self.events.push(Event { what, start_ns, took_ns: end_ns.saturating_sub(start_ns) }),
            false => self.dropped += 1,
        }
    }
}
