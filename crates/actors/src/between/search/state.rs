//! A node's part in the searches for cycles of garbage, without its context.

use bifrost_heap::{Marker, Reference, Summary};
use bifrost_runtime::transfer::Address;
use rustc_hash::FxHashMap;

use crate::between::kinds::{LIVE, SEARCHED, SWEEP, WANT};
use crate::between::packet::put;
use crate::between::remote::{OWN, Remote};

/// The least number of objects known to others for which a search is made.
const KNOWN_MIN: usize = 10_000;

/// The least number of living bytes for which a search is made.
const LIVE_BYTES_MIN: usize = 32 << 20;

/// The most references in one `LIVE`.
const LIVE_MAX: usize = 8192;

/// The number of turns of which one looks whether a search is wanted.
const LOOKS: u32 = 32;

/// In a run whose order a seed decides: the number of turns of which one asks for a search. Only a
/// node with objects that others know asks.
pub(crate) const ORDERED: u64 = 64;

/// The state of searches in a node.
#[derive(Debug, Default)]
pub(crate) struct Searches {
    /// The number of the last one that was heard of.
    pub(super) last: u32,
    /// The part in it, until it is over.
    pub(super) part: Option<Box<Part>>,
    /// The next collection makes the part.
    pub(super) due: bool,
    /// Of the first node: the counts that the others have sent.
    pub(super) heard: Vec<Option<Counts>>,
    /// True if one shall be made, as the last collection found.
    pub(super) wanted: bool,
    /// The number of known objects above which one is wanted.
    pub(super) known_most: usize,
    /// The number of living bytes above which one is wanted; nothing until the next collection has
    /// set it.
    live_most: Option<usize>,
    /// The number of times that it was asked whether one is wanted.
    looks: u32,
    /// True if an object was let go, and the next collection may free it.
    pub(crate) has_swept: bool,
    /// The number of objects that guests have forgotten since the last search and that others know
    /// still.
    pub(crate) dropped: usize,
    /// The time at which the part of the search under way was made. `next_ms` is the earliest time
    /// for the next search for the sake of objects that guests have forgotten.
    pub(super) begun_ms: Option<i64>,
    pub(super) next_ms: i64,
}

/// By node: the number of packets sent to it, and received from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: Vec<u32>,
    pub(super) received: Vec<u32>,
}

/// A node's part of a search.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The nodes whose packets were under way when the picture was taken.
    pub(super) awaited: Vec<bool>,
    summary: Summary,
    /// The addresses that have a vertex: objects of this node that others know, and those that
    /// stand for objects of other nodes.
    names: Vec<Address>,
    /// By name: the second address of an object that this node has told others of and that another
    /// node has made here.
    twins: FxHashMap<u32, Address>,
    vertices: FxHashMap<Address, u32>,
    /// By vertex: true if it lives.
    live: Vec<bool>,
    /// By node: the objects that live there and of which it was not told yet.
    untold: Vec<Vec<(u32, u32)>>,
    pub(super) counts: Counts,
    told: Option<Counts>,
}

impl Part {
    fn new(node: u32, lost: &[bool]) -> Part {
        let nodes = lost.len();
        let awaited = (0..).zip(lost).map(|(other, lost)| other != node && !lost).collect();
        let counts = Counts { sent: vec![0; nodes], received: vec![0; nodes] };
        Part { awaited, counts, untold: vec![Vec::new(); nodes], ..Part::default() }
    }

    /// Notes that the owner of an object is to be told that it lives. Native actors lead to
    /// nothing, and take no part.
    fn tell(&mut self, address: Address) {
        if let Some(untold) = self.untold.get_mut(address.node as usize) {
            untold.push((address.index, address.generation));
        }
    }

    /// Notes that an object of this node or another lives, and with it all to which it leads.
    pub(super) fn mark(&mut self, node: u32, address: Address) {
        match self.vertices.get(&address) {
            Some(vertex) => {
                let mut found = vec![*vertex];
                while let Some(vertex) = found.pop() {
                    if std::mem::replace(&mut self.live[vertex as usize], true) {
                        continue;
                    }
                    for name in self.summary.names(vertex) {
                        let address = self.names[*name as usize];
                        if let Some(untold) = self.untold.get_mut(address.node as usize)
                            && address.node != node
                        {
                            untold.push((address.index, address.generation));
                        }
                    }
                    found.extend_from_slice(self.summary.edges(vertex));
                }
            }
            // It was reached here, or arrived later.
            None if address.node != node => self.tell(address),
            None => {}
        }
    }
}

impl Searches {
    pub(crate) fn new() -> Searches {
        Searches { known_most: KNOWN_MIN, live_most: Some(LIVE_BYTES_MIN), ..Searches::default() }
    }

    /// True if the next collection makes a part.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// True if packets that arrive from a node were under way when the picture was taken.
    pub(crate) fn is_under_way(&self, from: u32) -> bool {
        self.part.as_ref().is_some_and(|part| part.awaited.get(from as usize).is_none_or(|awaited| *awaited))
    }

    /// Notes that an object was in a packet that was under way when the picture was taken: it
    /// lives.
    #[cold]
    pub(crate) fn was_under_way(&mut self, node: u32, address: Address) {
        if let Some(part) = &mut self.part {
            part.mark(node, address);
        }
    }

    /// Notes the number of bytes that live after a collection, and the number of objects that
    /// others know.
    pub(crate) fn collected(&mut self, live_bytes: usize, known: usize) {
        let most = *self.live_most.get_or_insert(LIVE_BYTES_MIN.max(live_bytes.saturating_mul(2)));
        self.wanted = known > 0 && live_bytes > most;
    }
}

impl Remote {
    /// True if a search is wanted, and none is under way. It is asked at each turn, and looks at
    /// one of [`LOOKS`].
    pub(crate) fn wants_search(&mut self) -> bool {
        self.searches.looks = self.searches.looks.wrapping_add(1);
        self.searches.looks.is_multiple_of(LOOKS)
            && self.searches.part.is_none()
            && (self.searches.wanted || self.known() > self.searches.known_most)
    }

    /// Makes this node's part of a search, when a collection has found the objects that its own
    /// roots reach: those live. For objects that only others know, the [`Summary`] has the other
    /// actors to which they lead. So no node stands still afterwards, no barrier is needed, and a
    /// message between actors of one node costs nothing.
    ///
    /// # Safety
    /// All objects that the node knows are objects of the heap that the marker marks.
    pub(crate) unsafe fn make_part(&mut self, node: u32, marker: &mut Marker) {
        let mut part = Part::new(node, &self.lost);
        let mut names = FxHashMap::default();
        let mut from = Vec::new();
        let own = |index, generation| Address { capsule: 0, node, index, generation };
        let exports = (0..).zip(&self.exports).filter(|(_, export)| export.word != 0);
        let exports = exports.map(|(index, export)| (own(index, export.generation << 8 | OWN), export.word));
        let born = (1..).zip(&self.born).flat_map(|(generation, born)| {
            let born = born.iter().filter(|(_, export)| export.word != 0);
            born.map(move |(index, export)| (own(*index, generation), export.word))
        });
        for (address, word) in exports.chain(born) {
            // SAFETY: it is an object that the node knows.
            let object = unsafe { Reference::new(word) };
            if marker.lives(object) {
                continue;
            }
            if let Some(name) = names.get(&word) {
                part.twins.insert(*name, address);
                continue;
            }
            names.insert(word, part.names.len() as u32);
            part.names.push(address);
            from.push(object);
        }
        for (address, (proxy, _)) in &self.proxies {
            // SAFETY: it is an object that the node knows.
            if marker.lives(unsafe { Reference::new(*proxy) }) {
                part.tell(*address);
            } else {
                names.insert(*proxy, part.names.len() as u32);
                part.names.push(*address);
            }
        }
        part.summary = marker.summarise(&names, &from);
        let twins = part.twins.iter().map(|(name, address)| (*name, address));
        let addresses = (0..).zip(&part.names).chain(twins);
        let vertex = |(name, address): (u32, &Address)| Some((*address, part.summary.vertex(name as usize)?));
        part.vertices = addresses.filter_map(vertex).collect();
        part.live = vec![false; part.summary.vertex_count()];
        self.searches.part = Some(Box::new(part));
        self.searches.due = false;
    }

    /// Makes a part in which everything lives, because the heap cannot be looked at now.
    pub(super) fn make_part_unseen(&mut self, node: u32) {
        let mut part = Part::new(node, &self.lost);
        for address in self.proxies.keys() {
            part.tell(*address);
        }
        self.searches.part = Some(Box::new(part));
        self.searches.due = false;
    }

    /// Drops the part of this node, because nodes are lost and the picture is not whole any more.
    /// It says so (`WANT`), and the first node begins anew with those that are left. A node that
    /// does not know of the loss yet waits for a `SEARCH` that is not sent, until it does.
    pub(crate) fn give_up_search(&mut self, node: u32) {
        self.searches.heard.clear();
        match self.searches.part.take() {
            None => {}
            Some(_) if node == 0 => self.searches.wanted = true,
            Some(_) => self.post_number(0, WANT, self.searches.last),
        }
    }

    pub(super) fn post_number(&mut self, node: u32, kind: u8, number: u32) {
        let mut packet = vec![kind];
        put(&mut packet, &[number]);
        self.post(node, &packet);
    }

    pub(super) fn post_to_others(&mut self, node: u32, kind: u8, number: u32) {
        for other in (0..self.lost.len() as u32).filter(|other| *other != node) {
            self.post_number(other, kind, number);
        }
    }

    pub(super) fn pass_on(&mut self, node: u32) {
        let Some(part) = &mut self.searches.part else { return };
        let untold: Vec<Vec<(u32, u32)>> = part.untold.iter_mut().map(std::mem::take).collect();
        for (to, live) in (0..).zip(untold) {
            if self.is_lost(to) {
                continue;
            }
            for live in live.chunks(LIVE_MAX) {
                let mut packet = vec![LIVE];
                put(&mut packet, &[self.searches.last]);
                live.iter().for_each(|(index, generation)| put(&mut packet, &[*index, *generation]));
                self.post(to, &packet);
                if let Some(part) = &mut self.searches.part {
                    part.counts.sent[to as usize] += 1;
                }
            }
        }
        let last = self.searches.last;
        let Some(part) = &mut self.searches.part else { return };
        if part.awaited.contains(&true) || part.told.as_ref() == Some(&part.counts) {
            return;
        }
        part.told = Some(part.counts.clone());
        let counts = part.counts.clone();
        match node {
            0 => self.hear(0, counts),
            _ => {
                let mut packet = vec![SEARCHED];
                put(&mut packet, &[last]);
                put(&mut packet, &counts.sent);
                put(&mut packet, &counts.received);
                self.post(0, &packet);
            }
        }
    }

    /// Enters, in the first node, the number of packets that a node has sent and received.
    pub(super) fn hear(&mut self, from: u32, counts: Counts) {
        let nodes = self.lost.len();
        let Some(place) = self.searches.heard.get_mut(from as usize) else { return };
        *place = Some(counts);
        let alive: Vec<usize> = (0..nodes).filter(|node| !self.lost[*node]).collect();
        let heard = |node: usize| self.searches.heard[node].as_ref();
        let agree = alive.iter().all(|a| {
            alive.iter().all(|b| match (heard(*a), heard(*b)) {
                (Some(from), Some(to)) => from.sent[*b] == to.received[*a],
                _ => false,
            })
        });
        if agree {
            self.searches.heard.clear();
            self.post_to_others(0, SWEEP, self.searches.last);
            self.sweep(0);
        }
    }

    /// Lets go the objects that were not found to live.
    pub(super) fn sweep(&mut self, node: u32) {
        let Some(part) = self.searches.part.take() else { return };
        let mut swept = 0;
        for vertex in (0..part.live.len()).filter(|vertex| !part.live[*vertex]) {
            for name in part.summary.names(vertex as u32) {
                let address = part.names[*name as usize];
                let mut there = address.node == node && self.let_go(address);
                if let Some(twin) = part.twins.get(name) {
                    there |= self.let_go(*twin);
                }
                swept += u64::from(there);
            }
        }
        self.swept += swept;
        let known = self.known();
        let searches = &mut self.searches;
        searches.has_swept = swept > 0;
        searches.wanted = false;
        searches.live_most = None;
        searches.known_most = KNOWN_MIN.max(2 * known);
    }
}
