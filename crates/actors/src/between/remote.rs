//! Actors on other nodes: the objects that stand for them here (003 section 5; THAL's remote
//! creation). The packets are read by [`accept`](crate::between::accept), and written by
//! [`write`](crate::between::write).
//!
//! The type to read first is [`Remote`], then [`Export`]; the functions are
//! [`address_of`](crate::between::addresses::address_of) and
//! [`at_address`](crate::between::addresses::at_address).
//!
//! An actor of another node is an object here in the state `Remote` that knows its [`Address`];
//! there is one for each address. A message to it becomes a packet. The object to which the answer
//! goes stays here, and the packet names it.
//!
//! The creator of an actor on another node chooses its address: the number of actors that it has
//! made there before. So nothing waits for an address, and none is delivered ahead. A packet for an
//! address can arrive before the creation: it finds an actor that is not born yet, whose messages
//! wait. Packets between two nodes keep their order; those by way of a third need not.
//!
//! The owner of an object keeps it as long as other nodes know it. It has a list of the number of
//! times that each was told (reference listing). A node that tells a third node of an object tells
//! its owner first (`GRANT`). A node that has forgotten an object says how often it was told of it
//! (`RELEASE`).
//!
//! A release may overtake the grant of another node, and a count may be below 0 for a while. But
//! the node that has granted is still listed then, because its own release comes behind its grant.
//! Cycles of actors over several nodes are found by [`search`](crate::between::search).
//!
//! A node can be lost, with the process that it is in ([`Received::Lost`],
//! [`lose`](crate::between::loss::lose)).

use std::collections::hash_map::Entry;
use std::ops::Range;

use bifrost_runtime::abi::Word;
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::transfer::Address;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::between::credit::Credit;
use crate::between::kinds::RELEASE;
use crate::between::network::{Named, no_names};
use crate::between::network::{Network, Received, Wait};
use crate::between::outlet::Way;
use crate::between::packet::{LENGTH_BYTES, put};
use crate::between::placement::{Placement, chooser, tasks_of};
use crate::between::search::state::Searches;
use crate::object::{Actor, Join, Known, Outgoing, Owing};

/// The failure of requests to a node that is lost.
pub(crate) const LOST: &str = "node lost";

/// The generation of addresses that their node chose. Those that another chose have its number and
/// 1.
pub(crate) const OWN: u32 = 0;

/// The bytes of packets for a busy node from which they are sent.
pub(crate) const POST_BYTES: usize = 8 << 10;

/// The most actors that a node has spoken of and that were not made yet. A node that speaks of more
/// makes none of them.
pub(crate) const NOT_MADE_MAX: u32 = 1 << 20;

/// The most buffers that are kept for packets to come.
pub(super) const SPARE_MAX: usize = 4;

/// The capacity of a buffer for packets to a busy node.
pub(super) const ROOM_BYTES: usize = POST_BYTES + POST_BYTES / 4;

/// A size that few packets exceed.
pub(super) const PACKET_BYTES: usize = 64;

/// With fewer proxies than this no collection is made for their sake.
const PROXIES_MIN: usize = 10_000;

/// The number of turns after which packets are sent in any case.
const POST_TURNS: u32 = 32;

/// The part of a node that knows other nodes: the objects known to them, the proxies, and the
/// packets to be sent.
#[derive(Default)]
pub(crate) struct Remote {
    pub(crate) network: Option<Box<dyn Network>>,
    /// The number of unanswered requests to other nodes among the objects below.
    pub(crate) asked: usize,
    /// The number of searches through all requests of this node.
    pub(crate) looks: u32,
    /// The objects of this node that others know, by index: actors, places of answers, and those
    /// whose answer is under way.
    pub(crate) exports: Vec<Export>,
    pub(super) free: Vec<u32>,
    pub(super) exported: FxHashMap<Word, u32>,
    /// The actors that others have made here: by the number of the node that chose the address,
    /// then by index.
    pub(crate) born: Vec<FxHashMap<u32, Export>>,
    /// The number of all actors in `born`.
    pub(crate) born_count: usize,
    /// By actor in `born`: the node that chose its address, and the index. All nodes know an actor
    /// by one address, so one object stands for it in each.
    pub(super) names: FxHashMap<Word, (u32, u32)>,
    /// By node, the tasks included: the number of actors that were made there.
    pub(crate) made: Vec<u32>,
    /// The objects that stand here for actors and places of answers of other nodes, and how often
    /// this node was told of each.
    pub(crate) proxies: FxHashMap<Address, (Word, u32)>,
    /// The addresses that were forgotten, and whose owners do not know it yet.
    pub(super) forgotten: Vec<(Address, u32)>,
    /// The number of proxies above which a collection may pay.
    pub(super) proxies_most: usize,
    /// By node: packets that were not posted yet.
    pub(crate) outbox: Vec<Vec<u8>>,
    /// The place where machine code writes more of them.
    pub(crate) outlet: Way,
    /// The node that was given a new actor because it had nothing to do. The next packet for it,
    /// the actor's message, leaves at once.
    pub(super) gift: Option<u32>,
    /// By node: true if it is lost.
    pub(crate) lost: Vec<bool>,
    /// The guests that there are, and in `to_guests` the packets for them that were not posted yet.
    /// The names' table is one for ever.
    pub(super) guests: FxHashSet<u32>,
    pub(super) to_guests: FxHashMap<u32, Vec<u8>>,
    /// True in the context of a task, which answers nodes and guests without being told of them.
    pub(super) answers_all: bool,
    pub(super) turns: u32,
    /// Buffers for packets, taken from packets that came.
    pub(super) spare: Vec<Vec<u8>>,
    /// The last request, until it is known whether its answer is wanted.
    pub(crate) open: Option<Open>,
    /// The object for the answer to the last request whose answer is not wanted, for use by the
    /// next request.
    pub(crate) unowed: Option<Outgoing>,
    pub(crate) searches: Searches,
    pub(crate) credit: Credit,
    pub(crate) placement: Placement,
    /// True if the packets that arrive were under way when the picture of a search was taken.
    pub(crate) under_way: bool,
    /// The node whose packets are read.
    pub(crate) origin: u32,
    /// By node: the number of entries of `born` for actors that were not made, and of which it has
    /// spoken first.
    pub(crate) not_made: Vec<u32>,
    /// The number of objects that were let go because they were garbage, though others knew them.
    pub(crate) swept: u64,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (exports, proxies) = (self.exports.len() - self.free.len(), self.proxies.len());
        f.debug_struct("Remote").field("exports", &exports).field("proxies", &proxies).finish_non_exhaustive()
    }
}

/// A request whose packet is the last for its node, and does not name its waiter yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// The object that owes the answer here.
    pub(crate) owing: Outgoing,
    pub(super) node: u32,
    /// The packet's place among those for the node.
    pub(super) start: usize,
}

/// A packet that is being written, behind others for its node.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) node: u32,
    /// The other packets, and the bytes of this one so far.
    pub(crate) packets: Vec<u8>,
    /// The place of its length.
    pub(super) start: usize,
}

impl Writing {
    /// Returns the number of bytes that the packet has so far, and before it.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.packets.len() - self.start
    }

    /// Cuts the packet off after so many bytes.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.packets.truncate(self.start + LENGTH_BYTES + bytes);
    }
}

/// An object that others know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Export {
    pub(crate) word: Word,
    pub(crate) generation: u32,
    /// By node: the number of times that it was told of this, and has not forgotten it.
    pub(super) known: SmallVec<[(u32, i64); 1]>,
    /// The node from which an answer is awaited for it.
    pub(crate) asked: Option<u32>,
    /// The number of the node's searches at that time.
    pub(crate) asked_at: u32,
    /// True if an actor that others make here was made, not only heard of.
    pub(crate) created: bool,
    /// Until then: the node that has spoken of it first.
    pub(super) origin: u32,
}

impl Export {
    /// Counts that a node was told of it, or has forgotten it. Returns true if no node knows it any
    /// more.
    pub(crate) fn count(&mut self, node: u32, times: i64) -> bool {
        match self.known.iter_mut().find(|(other, _)| *other == node) {
            Some((_, count)) => *count += times,
            None => self.known.push((node, times)),
        }
        self.known.retain(|(_, count)| *count != 0);
        self.known.is_empty()
    }

    /// Returns the object, if an answer of another node is awaited for it.
    pub(crate) fn awaited(&self) -> Option<Owing> {
        self.asked?;
        // SAFETY: answers are awaited for objects that owe them here in turn.
        unsafe { Owing::of(self.word) }
    }

    /// True if a node with this number or a higher one knows it.
    fn is_known_from(&self, first: u32) -> bool {
        self.word != 0 && self.known.iter().any(|(node, _)| *node >= first)
    }

    /// Strikes nodes off. Returns true if no node knows it any more, and one did before.
    pub(super) fn strike(&mut self, nodes: &Range<u32>) -> bool {
        let before = self.known.len();
        self.known.retain(|(node, _)| !nodes.contains(node));
        self.known.is_empty() && before > 0
    }
}

impl Remote {
    pub(crate) fn set_network(&mut self, network: Box<dyn Network>, nodes: u32) {
        self.close_outlet();
        if network.has_tasks() {
            self.guests.insert(tasks_of(nodes));
        }
        self.network = Some(network);
        // The last entries are those of guests.
        (self.born, self.born_count) = (vec![FxHashMap::default(); nodes as usize + 1], 0);
        self.not_made = vec![0; nodes as usize + 1];
        self.guests.insert(nodes);
        self.proxies_most = PROXIES_MIN;
        self.made = vec![0; tasks_of(nodes) as usize + 1];
        self.outbox = vec![Vec::new(); nodes as usize];
        self.lost = vec![false; nodes as usize];
        self.searches = Searches::new();
        self.credit = Credit::new(nodes);
        self.placement = Placement::new(nodes);
    }

    /// True if a node is no more.
    pub(crate) fn is_lost(&self, node: u32) -> bool {
        if self.answers_all {
            return false;
        }
        let lost = self.lost.get(node as usize).copied();
        lost.unwrap_or_else(|| !self.guests.contains(&node) && self.has_network())
    }

    /// True if a node or guest may know native actors of this process.
    pub(crate) fn has_native(&self, node: u32) -> bool {
        self.network.as_ref().is_some_and(|network| network.has_tasks() && network.is_here(node))
    }

    /// Adds a guest of this number.
    pub(crate) fn open_guest(&mut self, number: u32) {
        self.guests.insert(number);
    }

    pub(crate) fn home(&mut self) -> u32 {
        self.network.as_mut().map_or(0, |network| network.home())
    }

    pub(crate) fn has_names(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.has_names())
    }

    pub(crate) fn publish(&mut self, name: &str, actor: Option<Named>) -> Result<bool, String> {
        self.network.as_mut().map_or_else(|| Err(no_names()), |network| network.publish(name, actor))
    }

    pub(crate) fn find(&mut self, name: &str) -> Option<Named> {
        self.network.as_mut()?.find(name)
    }

    pub(crate) fn has_network(&self) -> bool {
        self.network.is_some()
    }

    /// Returns the objects that live even if no node knows them: those that await answers of other
    /// nodes, and actors that are not born yet.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Word> {
        let born = self.born.iter().flat_map(|born| born.values());
        let not_made = born.filter(|born| !born.created).map(|born| born.word);
        let asked = self.exports.iter().filter(|export| export.asked.is_some()).map(|export| export.word);
        let open = self.open.iter().map(|open| open.owing).chain(self.unowed).map(|made| made.word());
        let stopped = self.credit.parked.iter().map(|(_, waiter)| waiter.word());
        asked.chain(not_made).chain(open).chain(stopped).chain(self.credit.holding())
    }

    /// Returns the objects that others know.
    pub(crate) fn known_objects(&self) -> impl Iterator<Item = Word> {
        let born = self.born.iter().flat_map(|born| born.values());
        self.exports.iter().chain(born).map(|export| export.word)
    }

    /// Returns the objects that guests know.
    pub(crate) fn known_by_guests(&self) -> impl Iterator<Item = Word> {
        let nodes = self.lost.len() as u32;
        let born = self.born.iter().flat_map(|born| born.values());
        let known = self.exports.iter().chain(born);
        known.filter(move |export| export.is_known_from(nodes)).map(|export| export.word)
    }

    /// Returns the number of objects that others know.
    pub(crate) fn known(&self) -> usize {
        self.exports.len() - self.free.len() + self.born_count
    }

    /// Forgets an object of this node that others know and that is garbage. Returns true if it was
    /// there.
    pub(crate) fn let_go(&mut self, address: Address) -> bool {
        if let Some(chosen_by) = (address.generation & 0xff).checked_sub(1) {
            let born = self.born.get_mut(chosen_by as usize).and_then(|born| born.get_mut(&address.index));
            // Its place stays until those that knew it have said so.
            let word = born.map_or(0, |born| std::mem::take(&mut born.word));
            self.names.remove(&word);
            return word != 0;
        }
        self.take(address.index, address.generation >> 8).is_some()
    }

    /// Forgets the proxies to which nothing here refers any more.
    pub(crate) fn forget(&mut self, node: u32, lives: &dyn Fn(Word) -> bool) {
        let forgotten = &mut self.forgotten;
        let before = forgotten.len();
        self.proxies.retain(|address, (proxy, told)| {
            let lives = lives(*proxy);
            if !lives {
                forgotten.push((*address, *told));
            }
            lives
        });
        let own = chooser(node, self.lost.len() as u32) + 1;
        let dead = forgotten[before..].iter().filter(|(address, _)| address.generation == own);
        self.placement.forget(node, dead.map(|(address, _)| address.node));
        self.proxies_most = PROXIES_MIN.max(2 * self.proxies.len());
        self.searches.has_swept = false;
    }

    /// True if a collection may let many proxies go, or something was found to be garbage.
    pub(crate) fn knows_many(&self) -> bool {
        self.proxies.len() > self.proxies_most || self.searches.has_swept
    }

    /// Tells the owners of the objects that were forgotten. A node that was told of one meanwhile
    /// has that in its mail before: searches count on it.
    pub(super) fn release(&mut self) {
        if self.forgotten.is_empty() {
            return;
        }
        self.post_unsent();
        for (address, told) in std::mem::take(&mut self.forgotten) {
            let mut packet = vec![RELEASE];
            put(&mut packet, &[address.index, address.generation, told]);
            self.post(address.node, &packet);
        }
    }

    /// Counts that a node was told of an object of this node, or has forgotten it. An object that
    /// no node knows any more is let go. Returns false if the node whose packets are read has
    /// spoken of too many actors that were not made.
    pub(crate) fn count(&mut self, index: u32, generation: u32, node: u32, times: i64) -> bool {
        if self.is_lost(node) {
            return true;
        }
        let dropped = times < 0 && node as usize >= self.lost.len();
        match (generation & 0xff).checked_sub(1) {
            None => {
                let Some(export) = self.exports.get_mut(index as usize) else { return true };
                if export.generation != generation >> 8 || export.word == 0 {
                    return true;
                }
                match export.count(node, times) {
                    true => drop(self.take(index, generation >> 8)),
                    false => self.searches.dropped += usize::from(dropped),
                }
            }
            Some(chosen_by) => {
                let Some(export) = self.heard_of(chosen_by, index) else {
                    return !self.speaks_of_too_much();
                };
                if export.count(node, times) {
                    self.set_born(chosen_by, index);
                    if let Some(export) = self.born[chosen_by as usize].remove(&index) {
                        self.born_count -= 1;
                        self.names.remove(&export.word);
                    }
                } else {
                    self.searches.dropped += usize::from(dropped);
                }
            }
        }
        true
    }

    /// Returns the entry of an actor that others make here, or adds one. Returns nothing if its
    /// maker is no node, or if too many were spoken of that were not made.
    pub(crate) fn heard_of(&mut self, chosen_by: u32, index: u32) -> Option<&mut Export> {
        let origin = chooser(self.origin, self.lost.len() as u32);
        match self.born.get_mut(chosen_by as usize)?.entry(index) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => {
                let not_made = &mut self.not_made[origin as usize];
                if *not_made == NOT_MADE_MAX {
                    return None;
                }
                *not_made += 1;
                self.born_count += 1;
                Some(place.insert(Export { origin, ..Export::default() }))
            }
        }
    }

    /// True if the node whose packets are read has spoken of too many actors that were not made.
    pub(crate) fn speaks_of_too_much(&self) -> bool {
        self.not_made[chooser(self.origin, self.lost.len() as u32) as usize] == NOT_MADE_MAX
    }

    /// Notes that an actor that others make here is made now, or will never be. Returns true if it
    /// was not made before.
    pub(crate) fn set_born(&mut self, chosen_by: u32, index: u32) -> bool {
        let born = self.born.get_mut(chosen_by as usize).and_then(|born| born.get_mut(&index));
        let Some(born) = born.filter(|born| !born.created) else { return false };
        born.created = true;
        self.not_made[born.origin as usize] -= 1;
        true
    }

    pub(crate) fn export(&mut self, word: Word) -> (u32, u32) {
        let index = match self.free.pop() {
            Some(index) => {
                self.exports[index as usize].word = word;
                index
            }
            None => {
                self.exports.push(Export { word, ..Export::default() });
                self.exports.len() as u32 - 1
            }
        };
        (index, self.exports[index as usize].generation)
    }

    /// Returns the object that others know by an index, and the node from which an answer is
    /// awaited for it.
    pub(crate) fn awaited(&self, index: u32, generation: u32) -> Option<(Known, Option<u32>)> {
        let export = self.exports.get(index as usize)?;
        if export.generation != generation || export.word == 0 {
            return None;
        }
        // SAFETY: others know such objects, which the entry keeps.
        Some((unsafe { Known::new(export.word) }, export.asked))
    }

    /// Returns the object that stands here for an actor of another node, if there is one.
    pub(crate) fn proxy(&self, address: &Address) -> Option<Actor> {
        let (proxy, _) = self.proxies.get(address)?;
        // SAFETY: proxies are actors or destinations, and the collector forgets the dead ones.
        match unsafe { Known::new(*proxy) } {
            Known::Actor(proxy) => Some(proxy),
            _ => None,
        }
    }

    /// Returns the messages whose answers are awaited of other nodes, with their index and
    /// generation.
    pub(crate) fn asked_objects(&self) -> impl Iterator<Item = (u32, u32, Owing)> {
        let exports = (0..).zip(&self.exports);
        exports.filter_map(|(index, export)| Some((index, export.generation, export.awaited()?)))
    }

    /// Returns those whose answers are awaited of one node.
    pub(crate) fn asked_of(&self, node: u32) -> impl Iterator<Item = (u32, u32, Owing)> {
        let exports = (0..).zip(&self.exports).filter(move |(_, export)| export.asked == Some(node));
        exports.filter_map(|(index, export)| Some((index, export.generation, export.awaited()?)))
    }

    /// Reports a node that has sent bytes that no correct node sends. Returns true if it will be
    /// lost.
    pub(crate) fn distrust(&mut self, node: u32, why: &str) -> bool {
        self.network.as_mut().is_some_and(|network| network.distrust(node, why))
    }

    /// Takes back an object that was exported for one use.
    pub(crate) fn take(&mut self, index: u32, generation: u32) -> Option<Word> {
        let export = self.exports.get_mut(index as usize)?;
        if export.generation != generation || export.word == 0 {
            return None;
        }
        let word = std::mem::take(&mut export.word);
        export.known.clear();
        self.asked -= usize::from(export.asked.take().is_some());
        export.generation = export.generation.wrapping_add(1);
        self.exported.remove(&word);
        self.free.push(index);
        Some(word)
    }

    /// Stops waiting for answers of other nodes for a join.
    pub(crate) fn give_up(&mut self, waiter: Join) {
        let asked = self.asked_objects().filter(|(.., owing)| owing.to() == Some(waiter.party()));
        let exports: Vec<(u32, u32)> = asked.map(|(index, generation, _)| (index, generation)).collect();
        for (index, generation) in exports {
            self.take(index, generation);
        }
    }

    /// True if packets came or are to be sent.
    pub(crate) fn has_mail(&mut self) -> bool {
        self.close_outlet();
        let unsent = self.outbox.iter().chain(self.to_guests.values()).any(|packets| !packets.is_empty());
        unsent || self.network.as_mut().is_some_and(|network| network.has_mail())
    }

    pub(crate) fn claim_idle_node(&mut self) -> Option<u32> {
        self.network.as_mut().and_then(|network| network.claim_idle_node())
    }

    /// Notes that a node was given a new actor, because it had nothing to do.
    pub(crate) fn gives(&mut self, node: u32) {
        self.gift = Some(node);
    }

    pub(crate) fn claim_node_without_backlog(&mut self) -> Option<u32> {
        self.network.as_mut().and_then(|network| network.claim_node_without_backlog())
    }

    /// Receives packets, after those to be sent were sent.
    #[inline]
    pub(crate) fn receive(&mut self, wait: Wait, ready: usize, stats: &Stats) -> Received {
        self.release();
        self.turns += 1;
        let posts = wait != Wait::No || self.turns >= POST_TURNS;
        if posts {
            self.count_ready(ready);
            self.post_all();
        }
        let known = if posts { self.known() as u64 } else { 0 };
        match &mut self.network {
            Some(network) if posts => {
                network.tell(&Stats { known, ..*stats });
                network.receive(wait)
            }
            Some(network) => network.receive(wait),
            None => Received::Over,
        }
    }
}
