//! The counts of the work that a node has done.

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
        }
    }

    /// Notes that an actor had so many messages waiting.
    pub(super) fn saw_queue(&mut self, count: u64) {
        self.longest_queue = self.longest_queue.max(count);
    }

    /// Returns the number of messages that were sent. Another process may send any numbers as its
    /// own.
    pub fn messages(&self) -> u64 {
        [self.queued, self.refused, self.sent].into_iter().fold(self.direct, u64::saturating_add)
    }
}
