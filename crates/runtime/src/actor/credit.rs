//! How much may be under way from a node to another that does not get to serve it.
//!
//! A node counts the bytes of messages that it has sent to each other one, and the other says how many it has taken (`TAKEN`). Who sends
//! more than [`WINDOW_BYTES`] ahead makes way at the end of a loop's step, and its method goes on when the other has taken half of them. Passive code,
//! which cannot be left, has others above it until then ([`run_others`](super::run_others)). What has no loop, and passive code above a packet that is
//! being taken, is not stopped, but counted.
//!
//! A node takes what comes at once, into the mail of its actors. It says so later for what comes from whoever has sent to an actor with
//! much mail, until that has served half of it, and to all while its heap is filled, whatever that is with: mail of very many actors, or methods of
//! functional ones, which run as their messages come, and wait. But it does not keep back its word when it has nothing else to do, which is a reason to think
//! that the actor waits, perhaps for the very methods that are stopped: after [`HOLD`] it says it. So nobody waits for ever, and two
//! actors that flood each other get on, if slowly; then mail grows, because nothing else is right.
//!
//! Nor does it for an actor that has served nothing of its mail, and got none from there, for
//! [`UNSERVED`], whatever else it has to do: others send to others. Who sends to such an actor is
//! stopped by its [`mailbox`].
//!
//! Guests have limits of their own, and are not counted.

use std::time::Duration;

use super::mailbox::{self, Seen};
use super::packets::put;
use super::remote::Remote;
use crate::abi::Word;

/// So many bytes of messages have been taken by the sender of this, of those that the receiver has sent to it.
pub(super) const TAKEN: u8 = 11;

/// Bytes of messages that may be under way to a node before whoever sends more makes way.
const WINDOW_BYTES: u64 = 512 << 10;

/// A node says that it has taken messages when they have so many bytes.
const TAKEN_BYTES: u32 = (WINDOW_BYTES / 4) as u32;

/// With so many messages waiting for an actor, those who send to it from elsewhere are to wait.
pub(super) const FAR_LONG: u64 = 1024;

/// The longest time without an acknowledgement for the sake of an actor that serves none of its
/// mail, since its last message.
const UNSERVED: Duration = Duration::from_millis(250);

/// How long a node that has nothing to do waits before it says what it has taken, though an actor has much mail.
pub(super) const HOLD: Duration = Duration::from_millis(20);

/// What is against telling a node what was taken of it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) enum Against {
    /// Nothing is.
    #[default]
    Nothing,
    /// An actor has much mail, some of which came from there: what was seen of it last, and when it
    /// had served some.
    Mail { actor: Word, seen: Seen, since_ns: u64 },
    /// The heap is filled.
    Heap,
}

impl Against {
    /// An actor has much mail.
    pub(super) fn mail(actor: Word, since_ns: u64) -> Against {
        Against::Mail { actor, seen: Seen::default(), since_ns }
    }

    /// True if an actor's mail is a reason still: it is long, and the actor serves some.
    ///
    /// # Safety
    /// The actor is one of this node.
    pub(super) unsafe fn lasts(&mut self, now_ns: u64) -> bool {
        let Against::Mail { actor, seen, since_ns } = self else { return false };
        // SAFETY: promised by the caller.
        let (serves, messages) = unsafe { (seen.look(*actor), mailbox::messages(*actor)) };
        if serves {
            *since_ns = now_ns;
        }
        messages >= FAR_LONG / 2 && now_ns.saturating_sub(*since_ns) < UNSERVED.as_nanos() as u64
    }
}

/// What a node knows of messages that are under way; all by node.
#[derive(Debug, Default)]
pub(super) struct Credit {
    /// Bytes of messages that went there and were not taken, as far as it has said.
    under_way: Vec<u64>,
    /// Bytes that came from there, of which it was not told.
    came: Vec<u32>,
    /// What is against telling the node.
    held: Vec<Against>,
    /// True if there is something.
    pub(super) holds: bool,
    /// What runs has sent too much there.
    full: Option<u32>,
    /// Joins that go on when more was taken there.
    pub(super) parked: Vec<(u32, Word)>,
}

impl Credit {
    pub(super) fn new(nodes: u32) -> Credit {
        let nodes = nodes as usize;
        Credit {
            under_way: vec![0; nodes],
            came: vec![0; nodes],
            held: vec![Against::Nothing; nodes],
            ..Credit::default()
        }
    }

    /// A message of so many bytes goes to a node. The number of windows under way there.
    #[inline]
    pub(super) fn sent(&mut self, node: u32, bytes: usize) -> u64 {
        let Some(under_way) = self.under_way.get_mut(node as usize) else { return 0 };
        *under_way += bytes as u64;
        if *under_way < WINDOW_BYTES {
            return 0;
        }
        self.full = Some(node);
        *under_way / WINDOW_BYTES
    }

    /// The number of bytes that may go to a node before anybody must make way.
    pub(super) fn left(&self, node: u32) -> usize {
        let under_way = self.under_way.get(node as usize).copied().unwrap_or_default();
        (WINDOW_BYTES - 1).saturating_sub(under_way) as usize
    }

    /// Something else runs now.
    #[inline]
    pub(super) fn begin_turn(&mut self) {
        self.full = None;
    }

    /// The node to which what runs has sent too much, if it has. It is told once.
    pub(super) fn take_full(&mut self) -> Option<u32> {
        self.full.take().filter(|node| self.under_way[*node as usize] >= WINDOW_BYTES)
    }

    /// True if who has sent too much to a node goes on.
    pub(super) fn is_open(&self, node: u32) -> bool {
        self.under_way[node as usize] <= WINDOW_BYTES / 2
    }

    /// True if a join that makes way shall wait until a node has taken more, and not only until its turn comes.
    pub(super) fn park(&mut self, waiter: Word) -> bool {
        let full = self.take_full();
        self.parked.extend(full.map(|node| (node, waiter)));
        full.is_some()
    }

    /// A node has taken so many bytes. The joins that go on.
    pub(super) fn taken(&mut self, node: u32, bytes: u32) -> Vec<Word> {
        let Some(under_way) = self.under_way.get_mut(node as usize) else { return Vec::new() };
        *under_way = under_way.saturating_sub(u64::from(bytes));
        match self.is_open(node) {
            true => {
                self.parked.extract_if(.., |(other, _)| *other == node).map(|(_, waiter)| waiter).collect()
            }
            false => Vec::new(),
        }
    }

    /// A node is no more. The joins that go on.
    pub(super) fn lose(&mut self, node: u32) -> Vec<Word> {
        let at = node as usize;
        if at < self.under_way.len() {
            (self.held[at], self.came[at], self.under_way[at]) = (Against::Nothing, 0, 0);
        }
        self.taken(node, 0)
    }

    /// A node is not told what was taken of it.
    pub(super) fn hold(&mut self, from: u32, why: Against) {
        let Some(held) = self.held.get_mut(from as usize) else { return };
        self.holds = true;
        match (&mut *held, why) {
            // What was seen of it stays; while messages come, those that let it go on may be behind
            // them.
            (Against::Mail { actor, since_ns, .. }, Against::Mail { actor: other, since_ns: now_ns, .. })
                if *actor == other =>
            {
                *since_ns = now_ns;
            }
            _ => *held = why,
        }
    }

    /// The actors with much mail.
    pub(super) fn holding(&self) -> impl Iterator<Item = Word> {
        self.held
            .iter()
            .filter_map(|held| if let Against::Mail { actor, .. } = held { Some(*actor) } else { None })
    }
}

impl Remote {
    /// Messages of so many bytes came from a node, and are in the mail.
    pub(super) fn came(&mut self, from: u32, bytes: u32) {
        if let Some(came) = self.credit.came.get_mut(from as usize) {
            *came = came.saturating_add(bytes);
            self.acknowledge(from);
        }
    }

    /// Says to a node what was taken, if that is much and nothing is against it.
    fn acknowledge(&mut self, node: u32) {
        let at = node as usize;
        if matches!(self.credit.held[at], Against::Nothing) && self.credit.came[at] >= TAKEN_BYTES {
            let mut packet = vec![TAKEN];
            put(&mut packet, &[std::mem::take(&mut self.credit.came[at])]);
            self.post(node, &packet);
        }
    }

    /// Lets those wait no longer for whom there is no reason any more, or, without `lasts`, all.
    pub(super) fn release_held(&mut self, mut lasts: Option<&mut dyn FnMut(&mut Against) -> bool>) {
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
