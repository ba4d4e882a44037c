//! The words of a context that belong to its node's actors and that machine code reads and writes.
//! The rest of their state belongs to crate `actors` ([`NodeHost`](crate::node_host::NodeHost)).

use std::sync::atomic::AtomicU32;

use crate::abi::Word;

/// The number of arguments below which the objects of messages are used again.
pub const SPARE_ARGS: usize = 8;

/// The counter that a node without others reads to learn whether a node has nothing to do.
static NOBODY: AtomicU32 = AtomicU32::new(0);

/// The words of a node's actors in its context; machine code knows their offsets
/// ([`cx::offset`](crate::cx::offset)).
#[derive(Debug)]
#[repr(C)]
pub struct NodeWords {
    /// The counts of the work done.
    pub stats: Stats,
    /// True if the code that runs has had its time.
    pub turn_over: bool,
    /// True if each message must be looked at before it may be a call.
    pub looks_at_messages: bool,
    /// A counter that is not 0 while a node may have nothing to do.
    pub idlers: *const AtomicU32,
    /// Not 0 if there are other nodes.
    pub spreads: u64,
    /// Not 0 if a message of the past form was sent since the stack was empty.
    pub past_sent: u64,
    /// The height of the stack from which a new actor goes to another node.
    pub gives_at: usize,
    /// The same for a node that has something to do and nothing behind it; all bits set before one
    /// was given anything.
    pub ahead_at: usize,
    /// The highest that the stack was below that, since the last look.
    pub highest: usize,
    /// The number of new actors since then that could have gone, and were too deep on the stack.
    pub looked: u32,
    /// Served messages to which nothing refers any more, by their number of arguments: a list by
    /// [`message::NEXT`](crate::actor_layout::message::NEXT). A collection frees them.
    pub spare: [Word; SPARE_ARGS],
    /// The number of times that others have run above code that cannot stop.
    pub ran_others: u64,
    /// The way to another node that is open; null without a host. It belongs to the host.
    pub outlet: *mut Outlet,
}

impl Default for NodeWords {
    fn default() -> NodeWords {
        NodeWords {
            stats: Stats::default(),
            turn_over: false,
            looks_at_messages: false,
            idlers: &raw const NOBODY,
            spreads: 0,
            past_sent: 0,
            gives_at: 0,
            ahead_at: usize::MAX,
            highest: 0,
            looked: 0,
            spare: [0; SPARE_ARGS],
            ran_others: 0,
            outlet: std::ptr::null_mut(),
        }
    }
}

/// The room behind the packets for one node where machine code writes more; all fields are 0 while
/// there is none.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Outlet {
    /// The address of the next packet.
    pub next: Word,
    /// The address beyond which no packet goes.
    pub end: Word,
    /// The node.
    pub node: Word,
    /// The address of a byte that is 1 if the node has nothing to do: then packets for it go at
    /// once.
    pub idle: Word,
}

impl Outlet {
    /// The offset of `next`.
    pub const NEXT: i32 = std::mem::offset_of!(Outlet, next) as i32;
    /// The offset of `end`.
    pub const END: i32 = std::mem::offset_of!(Outlet, end) as i32;
    /// The offset of `node`.
    pub const NODE: i32 = std::mem::offset_of!(Outlet, node) as i32;
    /// The offset of `idle`.
    pub const IDLE: i32 = std::mem::offset_of!(Outlet, idle) as i32;
}

/// The counts of the work that a node has done. They are sums since its start, but for
/// `longest_queue` and `known`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Actors made here.
    pub created: u64,
    /// Actors that were made here for other nodes to have.
    pub created_remotely: u64,
    /// Messages that went to other nodes.
    pub sent: u64,
    /// Messages that were calls.
    pub direct: u64,
    /// Messages that were queued.
    pub queued: u64,
    /// Messages to actors whose creator failed.
    pub refused: u64,
    /// Methods that may wait and began.
    pub joins: u64,
    /// The number of times that a method waited.
    pub waits: u64,
    /// The number of times that code made way for others within a loop: a method, or passive code
    /// by having them above it.
    pub ways: u64,
    /// Messages that went to a node though twice as much was under way there as may be: their
    /// senders could not make way.
    pub ahead: u64,
    /// Turns: entries taken from the ready queue.
    pub turns: u64,
    /// The most messages that one actor had waiting when its turn came.
    pub longest_queue: u64,
    /// Exceptions that nobody awaited.
    pub lost_exceptions: u64,
    /// Requests that would have waited for themselves.
    pub cycles: u64,
    /// Steps of the search for such requests: joins, messages and the like that it read.
    pub searched: u64,
    /// Objects of this node that other nodes knew and that were garbage all the same: of cycles
    /// over several nodes.
    pub swept: u64,
    /// Objects of this node that other nodes and sessions know now.
    pub known: u64,
    /// Calls of natives that took so long that they held up all actors of the node.
    pub long_natives: u64,
}

impl Stats {
    /// Returns the counts of several nodes together.
    pub fn with(&self, other: &Stats) -> Stats {
        Stats {
            created: self.created + other.created,
            created_remotely: self.created_remotely + other.created_remotely,
            sent: self.sent + other.sent,
            direct: self.direct + other.direct,
            queued: self.queued + other.queued,
            refused: self.refused + other.refused,
            joins: self.joins + other.joins,
            waits: self.waits + other.waits,
            ways: self.ways + other.ways,
            ahead: self.ahead + other.ahead,
            turns: self.turns + other.turns,
            longest_queue: self.longest_queue.max(other.longest_queue),
            lost_exceptions: self.lost_exceptions + other.lost_exceptions,
            cycles: self.cycles + other.cycles,
            searched: self.searched + other.searched,
            swept: self.swept + other.swept,
            known: self.known + other.known,
            long_natives: self.long_natives + other.long_natives,
        }
    }

    /// Notes that an actor had so many messages waiting.
    pub fn saw_queue(&mut self, count: u64) {
        self.longest_queue = self.longest_queue.max(count);
    }

    /// Returns the number of messages that were sent. Another process may send any numbers as its
    /// own.
    pub fn messages(&self) -> u64 {
        [self.queued, self.refused, self.sent].into_iter().fold(self.direct, u64::saturating_add)
    }
}
