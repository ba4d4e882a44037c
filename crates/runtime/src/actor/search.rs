//! Cycles of garbage over several nodes, which reference listing never lets go.
//!
//! A search is a picture of all nodes that is consistent, though no two of them are looked at together: K. M. Chandy and L. Lamport,
//! "Distributed Snapshots" (1985). The first node begins it. Each node, when it hears of it first, makes its part at once, between two turns,
//! and says so to all others (`SEARCH`) before it sends them anything else; packets between two nodes keep their order, so what comes from a
//! node before its `SEARCH` was under way when the picture was taken. What is garbage in such a picture is garbage for ever.
//!
//! The part of a node is made in a collection: what its own roots reach lives; and of what only others know the [`Summary`] says to which
//! other actors it leads. So nothing stands still afterwards, no barrier is needed, and a message between actors of one node costs
//! nothing. The nodes then tell each other what lives (`LIVE`), along the pictures and not along the heaps: first what was reached here and is
//! elsewhere; what was in packets under way; and what these lead to. That is over when each node has said how many such packets it has sent to each
//! other and has received from each (`SEARCHED`), and the numbers agree for any two: each says so when it has nothing to pass on, as in
//! `crates/server/src/capsules`. Then the first node says `SWEEP`, and each node lets go what others know of it and was not found to live. Its next
//! collection frees the objects, and their references to other nodes.
//!
//! Nobody collects anything for others and nobody has the whole picture: the work is spread as the references are. It is done when what others know of a
//! node, or what lives there, has doubled since the last search ([`Remote::wants_search`]), so its cost is a part of what was sent.
//!
//! Guests, and the table of names, take no part: what they know lives, and so does what comes from them, or is said of them, while a search is under
//! way. They say that they have forgotten something when whoever they told of it has that in its mail ([`Remote::release`]), which is before the owner
//! makes its part then; so it is before `SWEEP` there. When guests have forgotten something that nodes know still, a search is made as soon as
//! others have not taken too much of the time ([`REST_TIMES`]).
//!
//! When a node is lost, those that hear of it drop their part, and say so (`WANT`): the first node begins anew with those that are left. Who
//! does not know of the loss yet waits for a `SEARCH` that does not come, until it does. Numbers say which search is meant.

use bifrost_heap::{Marker, Summary};
use rustc_hash::FxHashMap;

use super::packets::{Wrong, number, put};
use super::remote::{OWN, Remote};
use crate::cx::Cx;
use crate::transfer::Address;

/// A part of the picture was made: the number of the search.
pub(super) const SEARCH: u8 = 6;
/// The number of the search; index and generation of each thing of the receiver that lives.
pub(super) const LIVE: u8 = 7;
/// The number of the search; by node how many `LIVE` went there, then by node how many came from there.
pub(super) const SEARCHED: u8 = 8;
/// The number of the search: what was not found to live can go.
pub(super) const SWEEP: u8 = 9;
/// Asks the first node for a search; the number of the last that the sender has heard of.
pub(super) const WANT: u8 = 10;

/// With less that others know no search is made for its sake.
const KNOWN_MIN: usize = 10_000;

/// Nor with fewer bytes that live.
const LIVE_BYTES_MIN: usize = 32 << 20;

/// Between two searches that are made because guests have forgotten something, so many times the last one's time passes, and so many milliseconds.
const REST_TIMES: i64 = 20;
const REST_MS: i64 = 100;

/// Most references in one `LIVE`.
const LIVE_MAX: usize = 8192;

/// At one of so many turns it is looked whether a search is wanted.
const LOOKS: u32 = 32;

/// In a run whose order a seed decides, a node that others know something of asks for a search after one of so many turns.
pub(super) const ORDERED: u64 = 64;

/// What a node knows of searches.
#[derive(Debug, Default)]
pub(super) struct Searches {
    /// The number of the last one that was heard of.
    last: u32,
    /// The part in it, until it is over.
    part: Option<Part>,
    /// The next collection makes the part.
    due: bool,
    /// Of the first node: what the others have said.
    heard: Vec<Option<Counts>>,
    /// True if one shall be made, as the last collection found.
    wanted: bool,
    /// With more known than so much one is wanted.
    known_most: usize,
    /// With more living bytes than so many one is wanted; nothing until the next collection says.
    live_most: Option<usize>,
    /// The number of times that it was asked whether one is wanted.
    looks: u32,
    /// Something was let go, and the next collection may free it.
    pub(super) has_swept: bool,
    /// How much guests have forgotten, since the last search, that others know still.
    pub(super) dropped: usize,
    /// When the part of the search under way was made, and the earliest time for the next one for the sake of what guests have forgotten.
    begun_ms: Option<i64>,
    next_ms: i64,
}

/// By node: how many packets went there, and came from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    sent: Vec<u32>,
    received: Vec<u32>,
}

/// A node's part of a search.
#[derive(Debug, Default)]
struct Part {
    /// The nodes whose packets were under way when the picture was taken.
    awaited: Vec<bool>,
    summary: Summary,
    /// What has a vertex: things of this node that others know, and what stands for things of other nodes.
    names: Vec<Address>,
    /// By name: the second address of what this node has told others of that another has made here.
    twins: FxHashMap<u32, Address>,
    vertices: FxHashMap<Address, u32>,
    /// By vertex: whether it lives.
    live: Vec<bool>,
    /// By node: what lives there and was not told yet.
    untold: Vec<Vec<(u32, u32)>>,
    counts: Counts,
    told: Option<Counts>,
}

impl Part {
    fn new(node: u32, lost: &[bool]) -> Part {
        let nodes = lost.len();
        let awaited = (0..).zip(lost).map(|(other, lost)| other != node && !lost).collect();
        let counts = Counts { sent: vec![0; nodes], received: vec![0; nodes] };
        Part { awaited, counts, untold: vec![Vec::new(); nodes], ..Part::default() }
    }

    /// Something of this node or another lives, and with it all that it leads to.
    fn mark(&mut self, node: u32, address: Address) {
        match self.vertices.get(&address) {
            Some(vertex) => {
                let mut found = vec![*vertex];
                while let Some(vertex) = found.pop() {
                    if std::mem::replace(&mut self.live[vertex as usize], true) {
                        continue;
                    }
                    for name in self.summary.names(vertex) {
                        let address = self.names[*name as usize];
                        if address.node != node {
                            self.untold[address.node as usize].push((address.index, address.generation));
                        }
                    }
                    found.extend_from_slice(self.summary.edges(vertex));
                }
            }
            // It was reached here, or came later.
            None if address.node != node => {
                self.untold[address.node as usize].push((address.index, address.generation));
            }
            None => {}
        }
    }
}

impl Searches {
    pub(super) fn new() -> Searches {
        Searches { known_most: KNOWN_MIN, live_most: Some(LIVE_BYTES_MIN), ..Searches::default() }
    }

    /// True if the next collection makes a part.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// True if what comes from a node was under way when the picture was taken.
    pub(super) fn is_under_way(&self, from: u32) -> bool {
        self.part.as_ref().is_some_and(|part| part.awaited.get(from as usize).is_none_or(|awaited| *awaited))
    }

    /// Something was in a packet that was under way when the picture was taken: it lives.
    #[cold]
    pub(super) fn was_under_way(&mut self, node: u32, address: Address) {
        if let Some(part) = &mut self.part {
            part.mark(node, address);
        }
    }

    /// So many bytes live after a collection, and others know of so much.
    pub(super) fn collected(&mut self, live_bytes: usize, known: usize) {
        let most = *self.live_most.get_or_insert(LIVE_BYTES_MIN.max(live_bytes.saturating_mul(2)));
        self.wanted = known > 0 && live_bytes > most;
    }
}

impl Remote {
    /// True if a search is wanted, and none is under way. Asked at each turn, it looks at some.
    pub(super) fn wants_search(&mut self) -> bool {
        self.searches.looks = self.searches.looks.wrapping_add(1);
        self.searches.looks.is_multiple_of(LOOKS)
            && self.searches.part.is_none()
            && (self.searches.wanted || self.known() > self.searches.known_most)
    }

    /// Makes this node's part of a search, when a collection has found what its own roots reach.
    ///
    /// # Safety
    /// As for [`Marker::root`]; what others know and what stands for things of other nodes are objects.
    pub(super) unsafe fn make_part(&mut self, node: u32, marker: &mut Marker) {
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
            // SAFETY: promised by the caller.
            if unsafe { marker.lives(word) } {
                continue;
            }
            if let Some(name) = names.get(&word) {
                part.twins.insert(*name, address);
                continue;
            }
            names.insert(word, part.names.len() as u32);
            part.names.push(address);
            from.push(word);
        }
        for (address, (proxy, _)) in &self.proxies {
            // SAFETY: promised by the caller.
            if unsafe { marker.lives(*proxy) } {
                part.untold[address.node as usize].push((address.index, address.generation));
            } else {
                names.insert(*proxy, part.names.len() as u32);
                part.names.push(*address);
            }
        }
        // SAFETY: promised by the caller.
        part.summary = unsafe { marker.summarise(&names, &from) };
        let twins = part.twins.iter().map(|(name, address)| (*name, address));
        let addresses = (0..).zip(&part.names).chain(twins);
        let vertex = |(name, address): (u32, &Address)| Some((*address, part.summary.vertex(name as usize)?));
        part.vertices = addresses.filter_map(vertex).collect();
        part.live = vec![false; part.summary.vertex_count()];
        self.searches.part = Some(part);
        self.searches.due = false;
    }

    /// Makes a part in which everything lives: the heap cannot be looked at now.
    fn make_part_unseen(&mut self, node: u32) {
        let mut part = Part::new(node, &self.lost);
        for address in self.proxies.keys() {
            part.untold[address.node as usize].push((address.index, address.generation));
        }
        self.searches.part = Some(part);
        self.searches.due = false;
    }

    /// Nodes are lost: the picture is not whole any more.
    pub(super) fn give_up_search(&mut self, node: u32) {
        self.searches.heard.clear();
        match self.searches.part.take() {
            None => {}
            Some(_) if node == 0 => self.searches.wanted = true,
            Some(_) => self.post_number(0, WANT, self.searches.last),
        }
    }

    fn post_number(&mut self, node: u32, kind: u8, number: u32) {
        let mut packet = vec![kind];
        put(&mut packet, &[number]);
        self.post(node, &packet);
    }

    fn post_to_others(&mut self, node: u32, kind: u8, number: u32) {
        for other in (0..self.lost.len() as u32).filter(|other| *other != node) {
            self.post_number(other, kind, number);
        }
    }

    fn pass_on(&mut self, node: u32) {
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

    /// The first node hears what a node has told and was told.
    fn hear(&mut self, from: u32, counts: Counts) {
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

    /// Lets go what was not found to live.
    fn sweep(&mut self, node: u32) {
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

/// Takes part in a search, unless that was done.
unsafe fn take_part(cx: *mut Cx, search: u32) {
    // SAFETY: promised by the caller: the context is the current one, between two turns.
    unsafe {
        super::packets::settle_open(cx);
        let (node, now) = ((*cx).node(), (*cx).now_ms());
        let searches = &mut (*cx).actors.remote.searches;
        (searches.last, searches.due, searches.part) = (search, true, None);
        (searches.dropped, searches.begun_ms) = (0, Some(now));
        (*cx).collect();
        let remote = &mut (*cx).actors.remote;
        if remote.searches.due {
            remote.make_part_unseen(node);
        }
        remote.post_to_others(node, SEARCH, search);
    }
}

/// Begins a search, or asks for it.
///
/// # Safety
/// `cx` is the current context, between two turns.
pub(super) unsafe fn ask(cx: *mut Cx) {
    // SAFETY: promised by the caller.
    unsafe {
        let node = (*cx).node();
        let remote = &mut (*cx).actors.remote;
        if node != 0 {
            // Until the next collection finds that it is still wanted.
            remote.searches.wanted = false;
            remote.searches.dropped = 0;
            remote.searches.known_most = remote.searches.known_most.max(2 * remote.known());
            return remote.post_number(0, WANT, remote.searches.last);
        }
        remote.searches.heard = vec![None; remote.lost.len()];
        take_part(cx, remote.searches.last.wrapping_add(1));
        pass_on(cx);
    }
}

/// The number of milliseconds that pass before a search is to be made because guests have forgotten something; nothing if none is.
///
/// # Safety
/// `cx` is the current context.
pub(super) unsafe fn wait_ms(cx: *mut Cx) -> Option<i64> {
    // SAFETY: promised by the caller.
    unsafe {
        let searches = &(*cx).actors.remote.searches;
        if searches.dropped == 0 || searches.part.is_some() || (*cx).actors.remote.known() == 0 {
            return None;
        }
        Some(searches.next_ms.saturating_sub((*cx).now_ms()).max(0))
    }
}

/// Tells others what was found to live there, and, when there is nothing left to tell, that it was told.
///
/// # Safety
/// `cx` is the current context, between two turns.
pub(super) unsafe fn pass_on(cx: *mut Cx) {
    // SAFETY: promised by the caller.
    unsafe {
        let node = (*cx).node();
        let actors = &mut (*cx).actors;
        actors.remote.pass_on(node);
        actors.stats.swept = actors.remote.swept;
        let searches = &mut actors.remote.searches;
        if searches.part.is_none()
            && let Some(begun) = searches.begun_ms.take()
        {
            let now = (*cx).now_ms();
            (*cx).actors.remote.searches.next_ms = now + REST_MS + REST_TIMES * (now - begun).max(0);
        }
    }
}

/// Does what a packet of a search says.
///
/// # Safety
/// `cx` is the current context, between two turns.
///
/// # Errors
/// What is wrong about it.
pub(super) unsafe fn accept(cx: *mut Cx, from: u32, kind: u8, packet: &mut &[u8]) -> Result<(), Wrong> {
    let search = number(packet)?;
    // SAFETY: promised by the caller.
    unsafe {
        let node = (*cx).node();
        let last = (*cx).actors.remote.searches.last;
        let newer = search.wrapping_sub(last) as i32 > 0;
        match kind {
            SEARCH => {
                if newer {
                    take_part(cx, search);
                }
                let searches = &mut (*cx).actors.remote.searches;
                if let Some(part) = searches.part.as_mut().filter(|_| searches.last == search) {
                    part.awaited[from as usize] = false;
                }
            }
            WANT if node == 0 => {
                let searches = &(*cx).actors.remote.searches;
                // Who has heard of the one under way has given it up.
                if search == last || searches.part.is_none() {
                    ask(cx);
                }
            }
            // Of one that was given up.
            _ if search != last => {}
            LIVE => {
                let Some(part) = &mut (*cx).actors.remote.searches.part else { return Ok(()) };
                part.counts.received[from as usize] += 1;
                while !packet.is_empty() {
                    let (index, generation) = (number(packet)?, number(packet)?);
                    part.mark(node, Address { capsule: 0, node, index, generation });
                }
            }
            SEARCHED if node == 0 => {
                let nodes = (*cx).actors.remote.lost.len();
                let mut numbers = || (0..nodes).map(|_| number(packet)).collect::<Result<Vec<u32>, Wrong>>();
                let (sent, received) = (numbers()?, numbers()?);
                (*cx).actors.remote.hear(from, Counts { sent, received });
            }
            SWEEP if from == 0 => (*cx).actors.remote.sweep(node),
            _ => return Err("it is not of the first node, or not for it".into()),
        }
        Ok(())
    }
}
