//! The requests of a node that may wait for themselves.

use bifrost_runtime::abi::Word;
use rustc_hash::FxHashSet;

use crate::object::{Actor, Message};

/// The number of actors in the list below which none is struck off.
const BUSY_MIN: usize = 64;

/// Requests that may wait for themselves.
#[derive(Default, Debug)]
pub(crate) struct Suspects {
    /// The requests queued since the last look, for actors that may wait.
    pub(super) new: Vec<Message>,
    /// Actors for which requests are queued, some perhaps more than once. A collection strikes off
    /// those that are dead.
    pub(super) busy: Vec<Actor>,
    /// The length of the list from which those for which nothing is queued are struck off.
    pub(super) busy_max: usize,
    /// True if all requests shall be looked at before the next turn.
    pub(super) due: bool,
    /// The earliest time for that, and in `rest_ms` the time between two.
    pub(super) next_ms: i64,
    pub(super) rest_ms: i64,
    /// The node's progress ([`progress`](super::progress)) when all were looked at last, or 0, and
    /// in `cost` the number of steps that took.
    pub(super) seen: u64,
    pub(super) cost: u64,
    /// The number of batches of packets that were taken.
    pub(crate) received: u64,
    /// True if something was too new to be told to others then.
    pub(crate) young: bool,
}

impl Suspects {
    /// True if there is something to look at before the next turn.
    pub(crate) fn are_due(&self) -> bool {
        self.due || !self.new.is_empty()
    }

    /// Returns the objects that they consist of, but for actors.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Word> {
        self.new.iter().map(|sent| sent.word())
    }

    /// Returns the actors for which requests are queued, and others.
    pub(crate) fn busy(&self) -> &[Actor] {
        &self.busy
    }

    /// Strikes off the actors that do not live.
    pub(crate) fn collected(&mut self, lives: &dyn Fn(Word) -> bool) {
        self.busy.retain(|actor| lives(actor.word()));
    }

    /// Notes that a request is queued for an actor.
    pub(super) fn note(&mut self, actor: Actor) {
        if self.busy.last() == Some(&actor) {
            return;
        }
        if self.busy.len() >= self.busy_max.max(BUSY_MIN) {
            self.strike_off();
        }
        self.busy.push(actor);
    }

    /// Strikes off the actors for which nothing is queued, and those that are in the list twice.
    pub(super) fn strike_off(&mut self) {
        let mut met = FxHashSet::default();
        self.busy.retain(|actor| actor.mail().is_some_and(|post| post.count() > 0) && met.insert(*actor));
        self.busy_max = 2 * self.busy.len();
    }
}
