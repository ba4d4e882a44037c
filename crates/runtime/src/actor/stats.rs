//! What a node has done, in numbers.

/// What a node has done.
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
    /// The number of times that something made way for others in the middle of a loop: a method, or passive code by having them above it.
    pub ways: u64,
    /// Messages that went to a node though twice as much was under way there as may be: what sent them could not make way.
    pub ahead: u64,
    /// Turns: things taken from the queue of what there is to do.
    pub turns: u64,
    /// The most messages that one actor had waiting when its turn came.
    pub longest_queue: u64,
    /// Exceptions that nobody awaited.
    pub lost_exceptions: u64,
    /// Requests that would have waited for themselves.
    pub cycles: u64,
    /// Steps of the search for such requests: joins, messages and the like that were looked at.
    pub searched: u64,
    /// What other nodes knew of this one and was garbage all the same: of cycles over several nodes.
    pub swept: u64,
    /// What other nodes and sessions know of this one now.
    pub known: u64,
}

impl Stats {
    /// What several nodes have done together.
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

    /// An actor had so many messages waiting.
    pub(super) fn saw_queue(&mut self, count: u64) {
        self.longest_queue = self.longest_queue.max(count);
    }

    /// Messages that were sent. Another process may say any numbers of its own.
    pub fn messages(&self) -> u64 {
        [self.queued, self.refused, self.sent].into_iter().fold(self.direct, u64::saturating_add)
    }
}
