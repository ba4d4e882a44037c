//! The state of the mailboxes that are nearly full.

use bifrost_runtime::abi::Word;
use rustc_hash::FxHashMap;

use crate::node::Actors;
use crate::object::{Actor, Join, Mail};

/// The mailboxes that are nearly full, as a node knows them.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    /// The bound in bytes.
    pub(super) most: usize,
    /// The actor to which the code that runs has sent too much.
    pub(super) full: Option<Actor>,
    pub(super) parked: Vec<Parked>,
    /// Actors that served nothing while senders were parked, and the mail that waited then. Weak:
    /// the collector does not keep them for this.
    pub(super) stuck: Vec<(Actor, Seen)>,
    /// Nodes that were told that an actor's mailbox is nearly full. Weak in the same way.
    pub(super) told: Vec<Told>,
    /// Stand-ins of other nodes' actors whose mailboxes are nearly full. Weak: the collector does
    /// not keep them for this.
    pub(super) far: FxHashMap<Actor, Far>,
    /// The receiver of the message of another node that is entered now.
    pub(super) arrives: Option<Actor>,
}

/// Senders that wait for room in one mailbox.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) actor: Actor,
    pub(super) patience: Patience,
    pub(super) waiters: Vec<Join>,
}

/// The deadline until which a mailbox may serve nothing.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(super) until_ns: u64,
    pub(super) seen: Seen,
}

/// The contents of a mailbox at the last look. A change in them shows that messages were served,
/// though others came.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// The first messages of all lists.
    pub(super) first: u64,
    pub(super) waiting: Word,
}

impl Seen {
    /// Looks at the mailbox of an actor of this node. Returns true if messages were served since
    /// the last look.
    pub(crate) fn look(&mut self, actor: Actor) -> bool {
        let class = actor.class();
        let now = match actor.mail_in(class) {
            None => Seen::default(),
            Some(post) => {
                let firsts = Mail::lists(class).map(|list| post.first(list).map_or(0, |sent| sent.word()));
                let first = firsts.fold(0_u64, |all, first| all.rotate_left(7) ^ first);
                Seen { first, waiting: post.waiting() }
            }
        };
        let before = std::mem::replace(self, now);
        now.first != before.first || now.waiting < before.waiting
    }
}

#[derive(Debug)]
pub(super) struct Told {
    pub(super) actor: Actor,
    pub(super) node: u32,
    pub(super) address: [u32; 2],
    pub(super) takes: u64,
    pub(super) seen: Seen,
    pub(super) serves: bool,
    pub(super) at_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Far {
    /// The number of messages since it was nearly full.
    pub(super) sent: u32,
    /// The methods whose messages are taken nevertheless, a bit for each.
    pub(super) takes: u64,
    /// The time at which it was known last to serve messages.
    pub(super) heard_ns: u64,
    pub(super) stuck: bool,
}

impl Mailboxes {
    /// True if there is something to look at before a step.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Notes that a new turn begins: nothing is full for it.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.full = None;
    }

    /// Takes the actor to which the code that runs has sent too much. It is returned once.
    pub(crate) fn take_full(&mut self) -> Option<Actor> {
        self.full.take()
    }

    /// Notes that a message of another node for an actor is entered, or that none is any more.
    pub(crate) fn arrives(&mut self, actor: Option<Actor>) {
        self.arrives = actor;
    }

    /// Returns the time at which the first senders are parked no longer.
    pub(crate) fn until_ns(&self) -> Option<u64> {
        self.parked.iter().map(|parked| parked.patience.until_ns).min()
    }

    /// Returns the objects that it keeps alive.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Word> {
        let waiters = self.parked.iter().flat_map(|parked| &parked.waiters).map(|waiter| waiter.word());
        let actors = self.parked.iter().map(|parked| parked.actor).chain(self.full);
        waiters.chain(actors.map(|actor| actor.word()))
    }

    /// Forgets actors that are no more.
    pub(crate) fn collected(&mut self, lives: &dyn Fn(Word) -> bool) {
        self.stuck.retain(|(actor, _)| lives(actor.word()));
        self.told.retain(|told| lives(told.actor.word()));
        self.far.retain(|proxy, _| lives(proxy.word()));
    }
}

impl Actors {
    /// Forgets nodes that are lost: they need not be told of anything.
    pub(crate) fn lose_mailboxes(&mut self, nodes: &std::ops::Range<u32>) {
        self.mailboxes.told.retain(|told| !nodes.contains(&told.node));
    }
}
