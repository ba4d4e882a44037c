//! The bound of the messages under way from a node to another that has not taken them yet. The
//! bound of one actor's mail is in [`mailbox`](crate::mailbox). The type to read first is
//! [`Credit`].
//!
//! A node counts the bytes of messages that it has sent to each other one, and the other
//! acknowledges those that it has taken (`TAKEN`). A sender that is more than [`WINDOW_BYTES`]
//! ahead makes way at the end of a loop's step. Its method goes on when the other has taken half of
//! them. Passive code, which cannot be left, has others above it until then
//! ([`run_others`](crate::others::run_others)). Code without a loop, and passive code above a
//! packet that is being taken, is not stopped, but counted.
//!
//! A node takes messages as they arrive, into the mail of its actors. It acknowledges them later
//! - for a node that has sent to an actor with much mail: until that has served half of it;
//! - for all nodes while its heap is filled, for any reason. There may be mail of very many actors,
//!   or methods of functional ones, which run as their messages arrive, and wait.
//!
//! It does not keep back an acknowledgement when it has nothing else to do: the actor may wait for
//! the very methods that are stopped. After [`HOLD`] it acknowledges all. So no sender waits for
//! ever, and two actors that flood each other get on, if slowly. Then their mail grows: nothing
//! else is right.
//!
//! Nor does it keep one back for an actor that has served nothing of its mail, and got none from
//! there, for [`UNSERVED`]. This holds even if the node has other work: others send to other
//! actors. Senders to such an actor are stopped by its [`mailbox`](crate::mailbox). Guests have
//! limits of their own, and are not counted.

use std::time::Duration;

use bifrost_runtime::abi::Word;

use crate::between::kinds::TAKEN;
use crate::between::packet::put;
use crate::between::remote::Remote;
use crate::mailbox::state::Seen;
use crate::object::{Actor, Join};

/// The bytes of messages that may be under way to a node before its senders make way.
const WINDOW_BYTES: u64 = 512 << 10;

/// The bytes of messages from which a node acknowledges them.
const TAKEN_BYTES: u32 = (WINDOW_BYTES / 4) as u32;

/// The number of messages in an actor's mail from which its senders on other nodes are to wait.
pub(crate) const FAR_LONG: u64 = 1024;

/// The longest time without an acknowledgement for the sake of an actor that serves none of its
/// mail, since its last message.
const UNSERVED: Duration = Duration::from_millis(250);

/// The time that a node with nothing to do waits before it acknowledges messages, though an actor
/// has much mail.
pub(crate) const HOLD: Duration = Duration::from_millis(20);

/// The reason against an acknowledgement to a node.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) enum Against {
    /// There is none.
    #[default]
    Nothing,
    /// An actor has much mail, some of which came from there. The other fields are its mail at the
    /// last look, and the time at which it had served some.
    Mail { actor: Actor, seen: Seen, since_ns: u64 },
    /// The heap is filled.
    Heap,
}

impl Against {
    /// Makes the reason of an actor with much mail.
    pub(crate) fn mail(actor: Actor, since_ns: u64) -> Against {
        Against::Mail { actor, seen: Seen::default(), since_ns }
    }

    /// True if an actor's mail is a reason still: it is long, and the actor serves some.
    pub(crate) fn lasts(&mut self, now_ns: u64) -> bool {
        let Against::Mail { actor, seen, since_ns } = self else { return false };
        let (serves, messages) = (seen.look(*actor), actor.queued());
        if serves {
            *since_ns = now_ns;
        }
        messages >= FAR_LONG / 2 && now_ns.saturating_sub(*since_ns) < UNSERVED.as_nanos() as u64
    }
}

/// The messages of a node that are under way; all vectors are by node.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    /// The bytes of messages that went there and were not acknowledged.
    under_way: Vec<u64>,
    /// The bytes that came from there and were not acknowledged.
    came: Vec<u32>,
    /// The reason against an acknowledgement.
    held: Vec<Against>,
    /// True if there is a reason for any node.
    pub(crate) holds: bool,
    /// The node to which the code that runs has sent too much.
    full: Option<u32>,
    /// The joins that go on when that node has taken more.
    pub(crate) parked: Vec<(u32, Join)>,
}

impl Credit {
    pub(crate) fn new(nodes: u32) -> Credit {
        let nodes = nodes as usize;
        Credit {
            under_way: vec![0; nodes],
            came: vec![0; nodes],
            held: vec![Against::Nothing; nodes],
            ..Credit::default()
        }
    }

    /// Counts a message of so many bytes that goes to a node. Returns the number of windows under
    /// way there.
    #[inline]
    pub(crate) fn sent(&mut self, node: u32, bytes: usize) -> u64 {
        let Some(under_way) = self.under_way.get_mut(node as usize) else { return 0 };
        *under_way += bytes as u64;
        if *under_way < WINDOW_BYTES {
            return 0;
        }
        self.full = Some(node);
        *under_way / WINDOW_BYTES
    }

    /// Returns the number of bytes that may go to a node before a sender must make way.
    pub(crate) fn left(&self, node: u32) -> usize {
        let under_way = self.under_way.get(node as usize).copied().unwrap_or_default();
        (WINDOW_BYTES - 1).saturating_sub(under_way) as usize
    }

    /// Notes that a new turn begins: nothing is full for it.
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.full = None;
    }

    /// Takes the node to which the code that runs has sent too much, if it has. It is returned
    /// once.
    pub(crate) fn take_full(&mut self) -> Option<u32> {
        self.full.take().filter(|node| self.under_way[*node as usize] >= WINDOW_BYTES)
    }

    /// True if a sender that has sent too much to a node goes on.
    pub(crate) fn is_open(&self, node: u32) -> bool {
        self.under_way[node as usize] <= WINDOW_BYTES / 2
    }

    /// True if a join that makes way shall wait until a node has taken more, and not only until its
    /// turn comes.
    pub(crate) fn park(&mut self, waiter: Join) -> bool {
        let full = self.take_full();
        self.parked.extend(full.map(|node| (node, waiter)));
        full.is_some()
    }

    /// Notes that a node has taken so many bytes. Returns the joins that go on.
    pub(crate) fn taken(&mut self, node: u32, bytes: u32) -> Vec<Join> {
        let Some(under_way) = self.under_way.get_mut(node as usize) else { return Vec::new() };
        *under_way = under_way.saturating_sub(u64::from(bytes));
        match self.is_open(node) {
            true => {
                self.parked.extract_if(.., |(other, _)| *other == node).map(|(_, waiter)| waiter).collect()
            }
            false => Vec::new(),
        }
    }

    /// Forgets a node that is lost. Returns the joins that go on.
    pub(crate) fn lose(&mut self, node: u32) -> Vec<Join> {
        let at = node as usize;
        if at < self.under_way.len() {
            (self.held[at], self.came[at], self.under_way[at]) = (Against::Nothing, 0, 0);
        }
        self.taken(node, 0)
    }

    /// Keeps back the acknowledgement to a node.
    pub(crate) fn hold(&mut self, from: u32, why: Against) {
        let Some(held) = self.held.get_mut(from as usize) else { return };
        self.holds = true;
        match (&mut *held, why) {
            // The last look at it stays; while messages arrive, those that let it go on may be
            // behind them.
            (Against::Mail { actor, since_ns, .. }, Against::Mail { actor: other, since_ns: now_ns, .. })
                if *actor == other =>
            {
                *since_ns = now_ns;
            }
            _ => *held = why,
        }
    }

    /// Returns the actors with much mail.
    pub(crate) fn holding(&self) -> impl Iterator<Item = Word> {
        self.held
            .iter()
            .filter_map(|held| if let Against::Mail { actor, .. } = held { Some(actor.word()) } else { None })
    }
}

impl Remote {
    /// Counts messages of so many bytes that came from a node, and are in the mail.
    pub(crate) fn came(&mut self, from: u32, bytes: u32) {
        if let Some(came) = self.credit.came.get_mut(from as usize) {
            *came = came.saturating_add(bytes);
            self.acknowledge(from);
        }
    }

    /// Acknowledges messages to a node, if they are many and nothing is against it.
    fn acknowledge(&mut self, node: u32) {
        let at = node as usize;
        if matches!(self.credit.held[at], Against::Nothing) && self.credit.came[at] >= TAKEN_BYTES {
            let mut packet = vec![TAKEN];
            put(&mut packet, &[std::mem::take(&mut self.credit.came[at])]);
            self.post(node, &packet);
        }
    }

    /// Acknowledges messages to nodes for which there is no reason against it any more, or, without
    /// `lasts`, to all.
    pub(crate) fn release_held(&mut self, mut lasts: Option<&mut dyn FnMut(&mut Against) -> bool>) {
        self.credit.holds = false;
        for node in 0..self.credit.held.len() {
            let held = &mut self.credit.held[node];
            if matches!(held, Against::Nothing) {
                continue;
            }
            if lasts.as_mut().is_some_and(|lasts| lasts(held)) {
                self.credit.holds = true;
                continue;
            }
            *held = Against::Nothing;
            self.acknowledge(node as u32);
        }
    }
}
