//! What happened when on a node, for people to look at.

use bifrost_ir::{FuncId, MethodRef, Program};

/// Most events that a node keeps; what comes later is counted only.
pub const EVENTS_MAX: usize = 1 << 20;

/// Something that took time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message that was a call: within what sent it.
    Call(MethodRef),
    /// A queued message that was served.
    Message(MethodRef),
    /// A method that went on when what it waited for was there.
    Join(FuncId),
    /// Packets of another node that were read, and from which.
    Packets(u32),
    /// A collection of the heap.
    Collection,
    /// There was nothing to do.
    Idle,
}

impl What {
    /// Its name, for people.
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

    /// Its kind, for people.
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

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub what: What,
    /// When it began, in nanoseconds of the context's clock.
    pub start_ns: u64,
    /// How long it took.
    pub took_ns: u64,
}

/// What happened on a node.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order in which it ended.
    pub events: Vec<Event>,
    /// How much more there was.
    pub dropped: u64,
}

impl Trace {
    pub(super) fn add(&mut self, what: What, start_ns: u64, end_ns: u64) {
        match self.events.len() < EVENTS_MAX {
            true => self.events.push(Event { what, start_ns, took_ns: end_ns.saturating_sub(start_ns) }),
            false => self.dropped += 1,
        }
    }
}
