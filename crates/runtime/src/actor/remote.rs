//! Actors on other nodes: what stands for them here, and what goes between nodes (003 section 5; THAL's remote creation).
//!
//! An actor of another node is an object here in the state [`State::Remote`] that knows its [`Address`]; there is one for each address. A
//! message to it becomes a packet. What an answer is for stays here, as an object that the packet names.
//!
//! Who makes an actor on another node chooses its address: the number of actors that it has made there before. So nobody waits for an
//! address, and none is delivered ahead. What comes for an address before the creation does finds an actor that is not born yet,
//! whose messages wait: packets between two nodes keep their order, those by way of a third need not.
//!
//! ```text
//! packet    its kind in one byte, then, each number in 4 bytes, little-endian:
//! MESSAGE   the actor's index and generation, its class, the method; the index and generation of who waits, or twice NOBODY; the arguments
//! ANSWER    the index and generation of who waits; the number of the exception and 1, or 0; its values, or the result
//! CREATE    the actor's index, its class, the creator; its arguments
//! GRANT     index and generation of something, and a node that was told of it
//! RELEASE   index and generation of something that the sender has forgotten, and how often it was told of it
//! ```
//!
//! What others know is kept as long as they do, by a list of who was told how often (reference listing). Whoever tells a third node of
//! something tells its owner first (`GRANT`); who has forgotten it says how often it was told (`RELEASE`). A release may overtake the
//! grant of another node, and a count may be below 0 for a while; but the node that has granted is still listed then, because its own
//! release comes behind its grant. Cycles of actors over several nodes are not found.
//!
//! A node can be lost, with the process that it is in ([`Received::Lost`]). Requests to it fail then, and those that are made later; what it
//! knew is let go, and so is what others have granted to it; actors that it was about to make here are stillborn. What it sent and is still
//! under way is dropped.
//!
//! Values are written as [`crate::transfer`] says.

use std::ops::Range;

use bifrost_ir::{MethodId, MethodRef, SignalId, Signature, TypeId, Types};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::guest::{Named, chooser, no_names};
use super::layout::{away, exception, far, outgoing, owed, replier};
use super::network::{Network, Received, Wait};
use super::{Answer, Due, Kind, State, Stats, deliver_owed, method_of, set_state, state};
use crate::abi::{Outcome, Ret, Word};
use crate::content::Place;
use crate::cx::Cx;
use crate::image::Table;
use crate::object::{get, set};
use crate::transfer::{Address, Leaf, NotReceived, NotSent, decode, encode};

const MESSAGE: u8 = 1;
const ANSWER: u8 = 2;
const CREATE: u8 = 3;
pub(super) const GRANT: u8 = 4;
pub(super) const RELEASE: u8 = 5;

/// What requests to a node that is lost fail with.
const LOST: &str = "node lost";

/// In place of who waits.
const NOBODY: u32 = u32::MAX;

/// The generation of addresses that their node chose; those that another chose have its number and 1.
const OWN: u32 = 0;

/// Packets for a node that has something to do are sent when there are so many bytes of them.
const POST_BYTES: usize = 8 << 10;

/// With fewer proxies no collection is made for their sake.
const PROXIES_MIN: usize = 10_000;

/// And after so many turns.
const POST_TURNS: u32 = 32;

/// The part of a node that knows others.
#[derive(Default)]
pub(super) struct Remote {
    network: Option<Box<dyn Network>>,
    /// What others know of this node's objects, by index: actors, places of answers, and those whose answer is under way.
    exports: Vec<Export>,
    free: Vec<u32>,
    exported: FxHashMap<Word, u32>,
    /// By the number of the node that chose their addresses: actors that others have made here, by index.
    born: Vec<FxHashMap<u32, Export>>,
    /// By node: how many actors were made there.
    made: Vec<u32>,
    /// What stands here for actors and places of answers of other nodes, and how often this node was told of it.
    proxies: FxHashMap<Address, (Word, u32)>,
    /// What was forgotten, and its owner does not know it yet.
    forgotten: Vec<(Address, u32)>,
    /// With more proxies than so many a collection may pay.
    proxies_most: usize,
    /// By node: packets that were not posted yet.
    outbox: Vec<Vec<u8>>,
    /// By node: whether it is no more.
    lost: Vec<bool>,
    /// The guests that there are, and the packets for them that were not posted yet. The names' table is one for ever.
    guests: FxHashSet<u32>,
    to_guests: FxHashMap<u32, Vec<u8>>,
    turns: u32,
    /// Room for the next packet.
    spare: Vec<u8>,
    /// The request that was made last, and its packet, while nobody has said whether an answer is wanted.
    open: Option<(Word, u32, Vec<u8>)>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (exports, proxies) = (self.exports.len() - self.free.len(), self.proxies.len());
        f.debug_struct("Remote").field("exports", &exports).field("proxies", &proxies).finish_non_exhaustive()
    }
}

/// Something that others know.
#[derive(Clone, Debug, Default)]
struct Export {
    word: Word,
    generation: u32,
    /// How often which node was told of it, and has not forgotten it.
    known: SmallVec<[(u32, i64); 1]>,
    /// The node from which an answer is awaited for it.
    asked: Option<u32>,
    /// Whether an actor that others make here was made, not only heard of.
    created: bool,
}

impl Export {
    /// Counts that a node was told, or has forgotten. Whether nobody knows it any more.
    fn count(&mut self, node: u32, times: i64) -> bool {
        match self.known.iter_mut().find(|(other, _)| *other == node) {
            Some((_, count)) => *count += times,
            None => self.known.push((node, times)),
        }
        self.known.retain(|(_, count)| *count != 0);
        self.known.is_empty()
    }

    /// Strikes nodes off. Whether nobody knows it any more, who did before.
    fn strike(&mut self, nodes: &Range<u32>) -> bool {
        let before = self.known.len();
        self.known.retain(|(node, _)| !nodes.contains(node));
        self.known.is_empty() && before > 0
    }
}

impl Remote {
    pub(super) fn set_network(&mut self, network: Box<dyn Network>, nodes: u32) {
        self.network = Some(network);
        // The last are those of guests.
        self.born = vec![FxHashMap::default(); nodes as usize + 1];
        self.guests.insert(nodes);
        self.proxies_most = PROXIES_MIN;
        self.made = vec![0; nodes as usize];
        self.outbox = vec![Vec::new(); nodes as usize];
        self.lost = vec![false; nodes as usize];
    }

    /// Whether a node is no more.
    pub(super) fn is_lost(&self, node: u32) -> bool {
        match self.lost.get(node as usize) {
            Some(lost) => *lost,
            None => !self.guests.contains(&node) && self.has_network(),
        }
    }

    /// There is a guest of this number.
    pub(super) fn open_guest(&mut self, number: u32) {
        self.guests.insert(number);
    }

    pub(super) fn home(&mut self) -> u32 {
        self.network.as_mut().map_or(0, |network| network.home())
    }

    pub(super) fn has_names(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.has_names())
    }

    pub(super) fn publish(&mut self, name: &str, actor: Option<Named>) -> Result<bool, String> {
        self.network.as_mut().map_or_else(|| Err(no_names()), |network| network.publish(name, actor))
    }

    pub(super) fn find(&mut self, name: &str) -> Option<Named> {
        self.network.as_mut()?.find(name)
    }

    pub(super) fn has_network(&self) -> bool {
        self.network.is_some()
    }

    /// The objects that others know.
    pub(super) fn roots(&self) -> impl Iterator<Item = Word> {
        let born = self.born.iter().flat_map(|born| born.values()).map(|born| born.word);
        let open = self.open.iter().map(|(owing, ..)| *owing);
        self.exports.iter().map(|export| export.word).chain(born).chain(open)
    }

    /// Forgets what stands for actors that nobody here knows any more.
    pub(super) fn forget(&mut self, lives: &dyn Fn(Word) -> bool) {
        let forgotten = &mut self.forgotten;
        self.proxies.retain(|address, (proxy, told)| {
            let lives = lives(*proxy);
            if !lives {
                forgotten.push((*address, *told));
            }
            lives
        });
        self.proxies_most = PROXIES_MIN.max(2 * self.proxies.len());
    }

    /// Whether so many are known of other nodes that a collection may let them go.
    pub(super) fn knows_many(&self) -> bool {
        self.proxies.len() > self.proxies_most
    }

    /// Tells the owners of what was forgotten.
    fn release(&mut self) {
        for (address, told) in std::mem::take(&mut self.forgotten) {
            let mut packet = vec![RELEASE];
            put(&mut packet, &[address.index, address.generation, told]);
            self.post(address.node, &packet);
        }
    }

    /// Counts that a node was told of something of this node, or has forgotten it; what nobody knows any more is let go.
    fn count(&mut self, index: u32, generation: u32, node: u32, times: i64) {
        if self.is_lost(node) {
            return;
        }
        match (generation & 0xff).checked_sub(1) {
            None => {
                let Some(export) = self.exports.get_mut(index as usize) else { return };
                if export.generation == generation >> 8 && export.word != 0 && export.count(node, times) {
                    self.take(index, generation >> 8);
                }
            }
            Some(chosen_by) => {
                let Some(born) = self.born.get_mut(chosen_by as usize) else { return };
                if born.entry(index).or_default().count(node, times) {
                    born.remove(&index);
                }
            }
        }
    }

    fn export(&mut self, word: Word) -> (u32, u32) {
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

    /// Takes back what was exported for one use.
    fn take(&mut self, index: u32, generation: u32) -> Option<Word> {
        let export = self.exports.get_mut(index as usize)?;
        if export.generation != generation || export.word == 0 {
            return None;
        }
        let word = std::mem::take(&mut export.word);
        export.known.clear();
        export.asked = None;
        export.generation = export.generation.wrapping_add(1);
        self.exported.remove(&word);
        self.free.push(index);
        Some(word)
    }

    /// A packet of a kind, to be filled.
    fn packet(&mut self, kind: u8) -> Vec<u8> {
        let mut packet = std::mem::take(&mut self.spare);
        packet.clear();
        packet.push(kind);
        packet
    }

    /// Posts a packet, whose room is used again.
    fn post_packet(&mut self, node: u32, packet: Vec<u8>) {
        self.post(node, &packet);
        if packet.capacity() <= POST_BYTES {
            self.spare = packet;
        }
    }

    fn post(&mut self, node: u32, packet: &[u8]) {
        if self.is_lost(node) {
            return;
        }
        let packets = match self.outbox.get_mut(node as usize) {
            Some(packets) => packets,
            None => self.to_guests.entry(node).or_default(),
        };
        packets.extend_from_slice(&(packet.len() as u32).to_le_bytes());
        packets.extend_from_slice(packet);
        let Some(network) = &mut self.network else { return };
        if packets.len() >= POST_BYTES {
            // The next will be as many.
            network.post(node, std::mem::replace(packets, Vec::with_capacity(POST_BYTES + POST_BYTES / 4)));
        } else if network.is_idle(node) {
            network.post(node, std::mem::take(packets));
        }
    }

    pub(super) fn post_all(&mut self) {
        self.release();
        let Some(network) = &mut self.network else { return };
        self.turns = 0;
        for (node, packets) in (0..).zip(&mut self.outbox) {
            if !packets.is_empty() {
                network.post(node, std::mem::take(packets));
            }
        }
        for (guest, packets) in self.to_guests.drain().filter(|(_, packets)| !packets.is_empty()) {
            network.post(guest, packets);
        }
    }

    pub(super) fn idle_node(&mut self) -> Option<u32> {
        self.network.as_mut().and_then(|network| network.idle_node())
    }

    /// Packets that came, after those that are to go have gone.
    pub(super) fn receive(&mut self, wait: Wait, stats: &Stats) -> Received {
        self.release();
        self.turns += 1;
        let posts = wait != Wait::No || self.turns >= POST_TURNS;
        if posts {
            self.post_all();
        }
        match &mut self.network {
            Some(network) if posts => {
                network.tell(stats);
                network.receive(wait)
            }
            Some(network) => network.receive(wait),
            None => Received::Over,
        }
    }
}

/// The address of an actor or a place of answers, for another node, which is told of it.
pub(super) fn address_of(cx: &mut Cx, word: Word, leaf: Leaf, to: u32) -> Address {
    let node = cx.node();
    // SAFETY: whoever encodes values hands over references to actors and places of answers.
    let far = unsafe {
        match leaf {
            Leaf::Actor if state(word) == State::Remote => {
                Some(far_address(get(word, far::PLACE), get(word, far::GENERATION)))
            }
            Leaf::Replier if Kind::of(word) == Kind::FarReplier => {
                Some(far_address(get(word, owed::DUE), get(word, owed::ELEMENT)))
            }
            Leaf::Actor | Leaf::Replier => None,
        }
    };
    let remote = &mut cx.actors.remote;
    if let Some(address) = far {
        if address.node != to {
            let mut packet = vec![GRANT];
            put(&mut packet, &[address.index, address.generation, to]);
            remote.post(address.node, &packet);
        }
        return address;
    }
    let index = match remote.exported.get(&word) {
        Some(index) => *index,
        None => {
            let (index, _) = remote.export(word);
            remote.exported.insert(word, index);
            index
        }
    };
    let export = &mut remote.exports[index as usize];
    export.count(to, 1);
    Address { capsule: 0, node, index, generation: export.generation << 8 | OWN }
}

fn far_address(place: Word, generation: Word) -> Address {
    Address { capsule: 0, node: (place >> 32) as u32, index: place as u32, generation: generation as u32 }
}

/// What stands here for what is at an address.
pub(super) fn at_address(cx: &mut Cx, leaf: Leaf, address: Address, ty: TypeId) -> Result<Word, NotReceived> {
    if address.node == cx.node() {
        return here(cx, address, ty).ok_or(NotReceived::Address(address));
    }
    if address.node >= cx.nodes() {
        return Err(NotReceived::Address(address));
    }
    if let Some((proxy, told)) = cx.actors.remote.proxies.get_mut(&address) {
        *told += 1;
        return Ok(*proxy);
    }
    let place = u64::from(address.node) << 32 | u64::from(address.index);
    let table = cx.image().find_table(ty).ok_or(NotReceived::Address(address))?;
    // SAFETY: the object is made with the fields of its kind.
    let proxy = unsafe {
        match leaf {
            Leaf::Actor => {
                let class = table.info().actor().ok_or(NotReceived::Address(address))?;
                let proxy = cx.alloc(class.table(State::Remote), far::FIELDS)?.as_ptr() as Word;
                set(proxy, far::PLACE, place);
                set(proxy, far::GENERATION, u64::from(address.generation));
                proxy
            }
            Leaf::Replier => {
                let proxy = cx.alloc(table, replier::FIELDS)?.as_ptr() as Word;
                set(proxy, owed::KIND, Kind::FarReplier as Word);
                set(proxy, owed::DUE, place);
                set(proxy, owed::ELEMENT, u64::from(address.generation));
                proxy
            }
        }
    };
    cx.actors.remote.proxies.insert(address, (proxy, 1));
    Ok(proxy)
}

/// The object of this node at an address: one that another chose may not be born yet.
fn here(cx: &mut Cx, address: Address, ty: TypeId) -> Option<Word> {
    let chosen_by = address.generation & 0xff;
    let found = match chosen_by {
        OWN => {
            let export = cx.actors.remote.exports.get(address.index as usize)?;
            (export.generation == address.generation >> 8 && export.word != 0).then_some(export.word)?
        }
        other => {
            let known = cx.actors.remote.born.get(other as usize - 1)?.get(&address.index);
            match known.map_or(0, |known| known.word) {
                0 => unborn(cx, other - 1, address.index, ty)?,
                known => known,
            }
        }
    };
    // SAFETY: what others know are objects.
    let is = unsafe { Table::of(found) }.info().ty;
    (is == ty).then_some(found)
}

/// An actor whose creation is still under way.
fn unborn(cx: &mut Cx, chosen_by: u32, index: u32, ty: TypeId) -> Option<Word> {
    let table = cx.image().find_table(ty)?;
    let class = table.info().actor()?;
    let actor = cx.alloc(table, class.mail + 1).ok()?.as_ptr() as Word;
    // SAFETY: the object is an actor of the class.
    unsafe { set_state(actor, State::Active) };
    cx.actors.remote.born.get_mut(chosen_by as usize)?.entry(index).or_default().word = actor;
    if cx.actors.remote.is_lost(chosen_by) {
        // Its creation will not come any more.
        let _ = cx.failure(LOST);
        // SAFETY: as above, and others know the actor, so that it is kept.
        unsafe { super::create::stillborn(cx, actor) };
    }
    Some(actor)
}

fn places(types: &Types, signature: &Signature) -> SmallVec<[Place; 4]> {
    signature.params.iter().map(|param| Place::new(types, param.ty)).collect()
}

/// A packet of numbers, among packets.
pub(super) fn framed(kind: u8, numbers: &[u32]) -> Vec<u8> {
    let mut packet = (1 + 4 * numbers.len() as u32).to_le_bytes().to_vec();
    packet.push(kind);
    put(&mut packet, numbers);
    packet
}

fn put(packet: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| packet.extend_from_slice(&number.to_le_bytes()));
}

/// What to end with when values could not be sent.
fn not_sent(cx: &mut Cx, why: NotSent) -> Ret {
    match why {
        NotSent::Ended(ret) => ret,
        other => cx.failure(&other.to_string()),
    }
}

/// Encodes values behind what a packet has.
unsafe fn write(
    cx: &mut Cx,
    values: &[Word],
    places: &[Place],
    to: u32,
    packet: &mut Vec<u8>,
) -> Result<(), Ret> {
    let mut address = |cx: &mut Cx, word: Word, leaf: Leaf| Ok(address_of(cx, word, leaf, to));
    // SAFETY: promised by the caller: the values have the types of the places.
    unsafe { encode(cx, values, places, &mut address, packet) }.map_err(|why| not_sent(cx, why))
}

/// These nodes are no more: what is asked of them fails, and what they knew is let go.
pub(super) unsafe fn lose(cx: *mut Cx, nodes: &Range<u32>) {
    // SAFETY: promised by the caller: the context is the current one; what others know are objects of their kinds.
    unsafe {
        settle_open(cx);
        let remote = &mut (*cx).actors.remote;
        remote.guests.retain(|guest| !nodes.contains(guest));
        remote.to_guests.retain(|guest, _| !nodes.contains(guest));
        let count = remote.lost.len();
        let within = (nodes.start as usize).min(count)..(nodes.end as usize).min(count);
        remote.lost[within.clone()].fill(true);
        remote.outbox[within.clone()].iter_mut().for_each(Vec::clear);
        let waiters: Vec<(u32, u32)> = (0..)
            .zip(&remote.exports)
            .filter(|(_, export)| export.asked.is_some_and(|node| nodes.contains(&node)))
            .map(|(index, export)| (index, export.generation))
            .collect();
        let unborn: Vec<Word> = remote.born[within]
            .iter()
            .flat_map(|born| born.values())
            .filter(|born| !born.created && born.word != 0)
            .map(|born| born.word)
            .collect();
        let _unborn = (*cx).keep_all(&unborn);
        for (index, generation) in waiters {
            let Some(waiter) = (*cx).actors.remote.take(index, generation) else { continue };
            let _kept = (*cx).keep(waiter);
            let _ = (*cx).failure(LOST);
            let kept = (*cx).kept_exception(&Signature::default());
            deliver_owed(cx, waiter, Answer::Exception(kept));
        }
        for actor in unborn {
            let _ = (*cx).failure(LOST);
            super::create::stillborn(cx, actor);
        }
        let remote = &mut (*cx).actors.remote;
        let struck = (0..).zip(&mut remote.exports).filter_map(|(index, export)| {
            let struck = export.word != 0 && export.strike(nodes);
            struck.then_some((index, export.generation))
        });
        for (index, generation) in struck.collect::<Vec<_>>() {
            remote.take(index, generation);
        }
        for born in &mut remote.born {
            born.retain(|_, export| !export.strike(nodes));
        }
    }
}

/// Sends a message to an actor of another node: `Pending` with what the answer is for, or the outcome to end with.
pub(super) unsafe fn send(cx: *mut Cx, slot: u32, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller: the receiver is a remote actor with the slot's method, and the words are what that takes.
    unsafe {
        settle_open(cx);
        let actor = args[0];
        let (image, method) = ((*cx).image().clone(), method_of(actor, slot));
        let ty = Table::of(actor).info().ty;
        let types = &image.program().types;
        let places = places(types, &types.def(ty).methods[method].signature);
        let address = far_address(get(actor, far::PLACE), get(actor, far::GENERATION));
        if (*cx).actors.remote.is_lost(address.node) {
            return (*cx).failure(LOST);
        }
        let mut packet = (*cx).actors.remote.packet(MESSAGE);
        put(&mut packet, &[address.index, address.generation, ty.as_u32(), method.as_u32(), NOBODY, NOBODY]);
        if let Err(ret) = write(&mut *cx, &args[1..], &places, address.node, &mut packet) {
            return ret;
        }
        let made = match (*cx).alloc(image.of_actors.outgoing, outgoing::FIELDS) {
            Ok(made) => made.as_ptr() as Word,
            Err(full) => return (*cx).out_of_memory(full),
        };
        set(made, owed::KIND, Kind::Outgoing as Word);
        set(made, outgoing::METHOD, u64::from(ty.as_u32()) << 32 | u64::from(method.as_u32()));
        (*cx).actors.stats.sent += 1;
        (*cx).actors.remote.open = Some((made, address.node, packet));
        super::pending(made)
    }
}

/// Where the packet of a message says who waits.
const WAITER: usize = 1 + 4 * 4;

/// Posts the packet that was made last. With `owing` somebody waits for its answer.
unsafe fn post_open(cx: *mut Cx, owing: Option<Word>) {
    // SAFETY: promised by the caller.
    let remote = unsafe { &mut (*cx).actors.remote };
    let Some((made, node, mut packet)) = remote.open.take() else { return };
    if owing == Some(made) {
        let (index, generation) = remote.export(made);
        remote.exports[index as usize].asked = Some(node);
        packet[WAITER..WAITER + 4].copy_from_slice(&index.to_le_bytes());
        packet[WAITER + 4..WAITER + 8].copy_from_slice(&generation.to_le_bytes());
    }
    remote.post_packet(node, packet);
}

/// Posts the last message without an answer, unless that was done.
pub(super) unsafe fn settle_open(cx: *mut Cx) {
    // SAFETY: promised by the caller.
    unsafe { post_open(cx, None) };
}

/// Somebody waits for the answer to a message: it goes now.
pub(super) unsafe fn expect_answer(cx: *mut Cx, owing: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        if (*cx).actors.remote.open.as_ref().is_some_and(|(made, ..)| *made == owing) {
            post_open(cx, Some(owing));
        }
    }
}

/// Makes an actor on another node: the reference, or the outcome to end with.
pub(super) unsafe fn create(
    cx: *mut Cx,
    table: &'static Table,
    creator: u32,
    args: &[Word],
    node: u32,
) -> Ret {
    // SAFETY: promised by the caller: the class is one of actors, and the words behind the first are what its creator takes.
    unsafe {
        settle_open(cx);
        if (*cx).actors.remote.is_lost(node) {
            return (*cx).failure(LOST);
        }
        let image = (*cx).image().clone();
        let class = table.info().actor().expect("a class of actors");
        let func = &image.program().funcs[class.creators[creator as usize]];
        let places = places(&image.program().types, &func.signature);
        let remote = &mut (*cx).actors.remote;
        let own = remote.made[node as usize];
        let index = remote.network.as_mut().and_then(|network| network.next_index(node)).unwrap_or(own);
        let mut packet = (*cx).actors.remote.packet(CREATE);
        put(&mut packet, &[index, table.info().ty.as_u32(), creator]);
        if let Err(ret) = write(&mut *cx, &args[1..], &places, node, &mut packet) {
            return ret;
        }
        let generation = chooser((*cx).node(), (*cx).nodes()) + 1;
        let address = Address { capsule: 0, node, index, generation };
        let proxy = match at_address(&mut *cx, Leaf::Actor, address, table.info().ty) {
            Ok(proxy) => proxy,
            Err(why) => return (*cx).failure(&why.to_string()),
        };
        let remote = &mut (*cx).actors.remote;
        remote.made[node as usize] = own + 1;
        remote.post_packet(node, packet);
        (*cx).actors.stats.created_remotely += 1;
        Ret::of(proxy)
    }
}

/// Answers somebody on another node.
pub(super) unsafe fn answer(cx: *mut Cx, to: Word, answer: Answer) {
    // SAFETY: promised by the caller: `to` is somebody on another node, and the answer one of its method.
    unsafe {
        let place = get(to, away::PLACE);
        let (node, index) = ((place >> 32) as u32, place as u32);
        let generation = get(to, away::GENERATION) as u32;
        answer_at(cx, node, index, generation, get(to, away::METHOD), answer);
    }
}

fn signature_of(cx: &Cx, method: Word) -> Signature {
    let method =
        MethodRef { ty: TypeId::from_u32((method >> 32) as u32), method: MethodId::from_u32(method as u32) };
    cx.image().program().types.method(method).signature.clone()
}

unsafe fn answer_at(cx: *mut Cx, node: u32, index: u32, generation: u32, method: Word, answer: Answer) {
    // SAFETY: promised by the caller.
    unsafe {
        settle_open(cx);
        if (*cx).actors.remote.is_lost(node) {
            return;
        }
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let signature = signature_of(&*cx, method);
        let mut packet = (*cx).actors.remote.packet(ANSWER);
        put(&mut packet, &[index, generation]);
        let written = match answer {
            Answer::Value(word) => {
                put(&mut packet, &[0]);
                let result = signature.results.first().map(|ty| Place::new(types, *ty));
                write(&mut *cx, &[word][..result.iter().len()], result.as_slice(), node, &mut packet)
            }
            Answer::Exception(kept) => write_exception(&mut *cx, kept, &signature, node, &mut packet),
        };
        if written.is_err() {
            // What cannot be sent is told instead.
            let failed = (*cx).kept_exception(&signature);
            packet.truncate(9);
            let _ = write_exception(&mut *cx, failed, &signature, node, &mut packet);
        }
        (*cx).actors.remote.post_packet(node, packet);
    }
}

/// The places of the values of an exception.
fn exception_places(types: &Types, signature: &Signature, id: SignalId) -> SmallVec<[Place; 4]> {
    match signature.signal(id) {
        Some(signal) => signal.values.iter().map(|ty| Place::new(types, *ty)).collect(),
        None if id == SignalId::FAILURE => SmallVec::from_iter([Place::new(types, Types::STRING)]),
        None => SmallVec::new(),
    }
}

unsafe fn write_exception(
    cx: &mut Cx,
    kept: Word,
    signature: &Signature,
    to: u32,
    packet: &mut Vec<u8>,
) -> Result<(), Ret> {
    // SAFETY: promised by the caller: a kept exception.
    unsafe {
        let image = cx.image().clone();
        let id = SignalId::from_u32(get(kept, exception::SIGNAL) as u32);
        let places = exception_places(&image.program().types, signature, id);
        let values: SmallVec<[Word; 4]> =
            (0..places.len()).map(|at| get(kept, exception::VALUES + at)).collect();
        put(packet, &[id.as_u32() + 1]);
        write(cx, &values, &places, to, packet)
    }
}

/// Answers through a place of answers of another node.
pub(super) unsafe fn deliver(cx: *mut Cx, destination: Word, value: Word) {
    // SAFETY: promised by the caller: a place of answers of another node, whose answers have the value's type.
    unsafe {
        settle_open(cx);
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let address = far_address(get(destination, owed::DUE), get(destination, owed::ELEMENT));
        if (*cx).actors.remote.is_lost(address.node) {
            return (*cx).actors.log("an answer is dropped: its node is lost");
        }
        let mut packet = (*cx).actors.remote.packet(ANSWER);
        put(&mut packet, &[address.index, address.generation >> 8, 0]);
        let result = replier_result(types, Table::of(destination).info().ty);
        let value = &[value][..result.iter().len()];
        let written = write(&mut *cx, value, result.as_slice(), address.node, &mut packet);
        match written {
            Ok(()) => (*cx).actors.remote.post_packet(address.node, packet),
            Err(_) => (*cx).actors.log("an answer could not be sent to its node"),
        }
    }
}

/// The place of the answers of a type of places of answers.
fn replier_result(types: &Types, ty: TypeId) -> Option<Place> {
    match types.kind(ty) {
        bifrost_ir::TypeKind::Replier(result) => Some(Place::new(types, result)),
        _ => None,
    }
}

/// Why a packet was not understood.
type Wrong = String;

fn number(packet: &mut &[u8]) -> Result<u32, Wrong> {
    let (bytes, rest) = packet.split_first_chunk::<4>().ok_or("it ends too early")?;
    *packet = rest;
    Ok(u32::from_le_bytes(*bytes))
}

/// Does what packets of a node say. Killed, or returned.
pub(super) unsafe fn accept(cx: *mut Cx, from: u32, packets: &[u8]) -> Ret {
    // SAFETY: promised by the caller: the context is the current one.
    let lost = unsafe { (*cx).actors.remote.is_lost(from) };
    let mut rest = if lost { &[] } else { packets };
    while !rest.is_empty() {
        let parts = number(&mut rest).ok().and_then(|bytes| rest.split_at_checked(bytes as usize));
        let accepted = match parts {
            Some((packet, behind)) => {
                rest = behind;
                // SAFETY: promised by the caller: the context is the current one.
                unsafe { accept_one(cx, from, packet) }
            }
            None => {
                rest = &[];
                Err("it ends too early".to_owned())
            }
        };
        match accepted {
            Ok(ret) if ret.outcome == Outcome::Killed as u64 => return ret,
            Ok(_) => {}
            // SAFETY: as above.
            Err(wrong) => unsafe {
                (*cx).actors.log(&format!("a packet of node {from} is dropped: {wrong}"))
            },
        }
    }
    Ret::NOTHING
}

unsafe fn accept_one(cx: *mut Cx, from: u32, packet: &[u8]) -> Result<Ret, Wrong> {
    let (kind, mut rest) = packet.split_first().ok_or("it is empty")?;
    let rest = &mut rest;
    // SAFETY: promised by the caller.
    unsafe {
        match *kind {
            MESSAGE => accept_message(cx, from, rest),
            ANSWER => accept_answer(cx, rest).map(|()| Ret::NOTHING),
            CREATE => accept_creation(cx, from, rest),
            GRANT | RELEASE => {
                let (index, generation, third) = (number(rest)?, number(rest)?, number(rest)?);
                let (node, times) = if *kind == GRANT { (third, 1) } else { (from, -i64::from(third)) };
                (*cx).actors.remote.count(index, generation, node, times);
                Ok(Ret::NOTHING)
            }
            other => Err(format!("{other} is no kind of packet")),
        }
    }
}

/// Values behind what a packet says.
unsafe fn read(cx: *mut Cx, packet: &mut &[u8], places: &[Place]) -> Result<SmallVec<[Word; 4]>, Wrong> {
    // SAFETY: promised by the caller; no code runs meanwhile.
    unsafe { decode(&mut *cx, packet, places, &mut at_address) }.map_err(|wrong| wrong.to_string())
}

unsafe fn accept_message(cx: *mut Cx, from: u32, packet: &mut &[u8]) -> Result<Ret, Wrong> {
    let [index, generation, ty, method, waiter, of] = [(); 6].map(|()| number(packet));
    let (index, generation, ty, method, waiter, of) = (index?, generation?, ty?, method?, waiter?, of?);
    // SAFETY: promised by the caller; the class and the method are compared with the program's.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let ty = known_type(types, ty)?;
        let known = (method as usize) < types.def(ty).methods.len() && types.def(ty).actor;
        let method = known.then(|| MethodRef { ty, method: MethodId::from_u32(method) });
        let method = method.ok_or("there is no such method")?;
        let def = types.method(method);
        let node = (*cx).node();
        let own = u64::from(ty.as_u32()) << 32 | u64::from(method.method.as_u32());
        let refuse = |cx: *mut Cx, wrong: Wrong| {
            if waiter != NOBODY {
                let _ = (*cx).failure(&wrong);
                let kept = (*cx).kept_exception(&def.signature);
                answer_at(cx, from, waiter, of, own, Answer::Exception(kept));
            }
            Err(wrong)
        };
        let Some(actor) = here(&mut *cx, Address { capsule: 0, node, index, generation }, ty) else {
            return refuse(cx, "there is no such actor".to_owned());
        };
        let _actor = (*cx).keep(actor);
        let values = match read(cx, packet, &places(types, &def.signature)) {
            Ok(values) => values,
            Err(wrong) => return refuse(cx, wrong),
        };
        let references = values.iter().zip(&def.signature.params);
        let references = references.filter(|(_, param)| image.is_reference(param.ty));
        let references: SmallVec<[Word; 4]> = references.map(|(word, _)| *word).collect();
        let _values = (*cx).keep_all(&references);
        let mut words: SmallVec<[Word; 8]> = SmallVec::from_slice(&[actor]);
        words.extend_from_slice(&values);
        let ret = super::send(cx, image.dispatch().slot(method), &words);
        if ret.outcome == Outcome::Killed as u64 {
            return Ok(ret);
        }
        match Outcome::from(ret) {
            Outcome::Pending if waiter == NOBODY => settle_open(cx),
            Outcome::Pending => {
                let _owing = (*cx).keep(ret.value);
                let made = (*cx).alloc_beyond(image.of_actors.away, away::FIELDS);
                set(made, owed::KIND, Kind::Away as Word);
                set(made, away::PLACE, u64::from(from) << 32 | u64::from(waiter));
                set(made, away::GENERATION, u64::from(of));
                set(made, away::METHOD, own);
                super::owe(cx, ret.value, made, Due { pending: 0, element: false, request: 0 }, 0);
            }
            Outcome::Returned if waiter == NOBODY => {}
            Outcome::Returned => answer_at(cx, from, waiter, of, own, Answer::Value(ret.value)),
            _ => {
                let kept = (*cx).kept_exception(&def.signature);
                match waiter {
                    NOBODY => (*cx).log_lost(kept),
                    _ => answer_at(cx, from, waiter, of, own, Answer::Exception(kept)),
                }
            }
        }
        Ok(Ret::NOTHING)
    }
}

fn known_type(types: &Types, number: u32) -> Result<TypeId, Wrong> {
    let known = (number as usize) < types.len();
    // Not every number can be made an id.
    known.then(|| TypeId::from_u32(number)).ok_or_else(|| format!("there is no type {number}"))
}

unsafe fn accept_answer(cx: *mut Cx, packet: &mut &[u8]) -> Result<(), Wrong> {
    let (index, generation, signal) = (number(packet)?, number(packet)?, number(packet)?);
    // SAFETY: promised by the caller; what others know are objects of their kinds.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let waiter = (*cx).actors.remote.take(index, generation).ok_or("nobody waits for it")?;
        let _kept = (*cx).keep(waiter);
        let is_actor = Table::of(waiter).info().actor().is_some();
        match if is_actor { Kind::Caller } else { Kind::of(waiter) } {
            Kind::Replier => {
                let result = replier_result(types, Table::of(waiter).info().ty);
                let values = read(cx, packet, result.as_slice())?;
                super::deliver_to(cx, waiter, values.first().copied().unwrap_or(0));
            }
            Kind::Outgoing => {
                let signature = signature_of(&*cx, get(waiter, outgoing::METHOD));
                let answer = match read_answer(cx, packet, &signature, signal) {
                    Ok(answer) => answer,
                    Err(wrong) => {
                        let _ = (*cx).failure(&wrong);
                        Answer::Exception((*cx).kept_exception(&signature))
                    }
                };
                deliver_owed(cx, waiter, answer);
            }
            _ => return Err("nobody waits for it".to_owned()),
        }
        Ok(())
    }
}

unsafe fn read_answer(
    cx: *mut Cx,
    packet: &mut &[u8],
    signature: &Signature,
    signal: u32,
) -> Result<Answer, Wrong> {
    // SAFETY: promised by the caller.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let Some(signal) = signal.checked_sub(1) else {
            let result: SmallVec<[Place; 1]> =
                signature.results.iter().map(|ty| Place::new(types, *ty)).collect();
            let values = read(cx, packet, &result)?;
            return Ok(Answer::Value(values.first().copied().unwrap_or(0)));
        };
        if signal as usize >= types.signals().count() {
            return Err(format!("there is no exception {signal}"));
        }
        let id = SignalId::from_u32(signal);
        let values = read(cx, packet, &exception_places(types, signature, id))?;
        (*cx).signal_id = u64::from(signal);
        for (at, value) in values.iter().enumerate() {
            (*cx).signal_values[at] = *value;
        }
        Ok(Answer::Exception((*cx).kept_exception(signature)))
    }
}

unsafe fn accept_creation(cx: *mut Cx, from: u32, packet: &mut &[u8]) -> Result<Ret, Wrong> {
    let (index, ty, creator) = (number(packet)?, number(packet)?, number(packet)?);
    // SAFETY: promised by the caller; the class and the creator are compared with the program's.
    unsafe {
        let image = (*cx).image().clone();
        let types = &image.program().types;
        let ty = known_type(types, ty)?;
        let table = image.find_table(ty).ok_or("there is no such class")?;
        let class = table.info().actor().ok_or("it is no class of actors")?;
        let func = class.creators.get(creator as usize).ok_or("there is no such creator")?;
        let node = (*cx).node();
        let chosen_by = chooser(from, (*cx).nodes());
        let address = Address { capsule: 0, node, index, generation: chosen_by + 1 };
        let actor = here(&mut *cx, address, ty).ok_or("the address is used")?;
        let _actor = (*cx).keep(actor);
        let remote = &mut (*cx).actors.remote;
        remote.count(index, chosen_by + 1, from, 1);
        let born = remote.born.get_mut(chosen_by as usize).and_then(|born| born.get_mut(&index));
        match born {
            // Grants and releases that came before may have let it go.
            None => return Err("nobody knows the new actor".to_owned()),
            Some(born) if born.created => return Err("the address is used".to_owned()),
            Some(born) => born.created = true,
        }
        let signature = &image.program().funcs[*func].signature;
        let values = match read(cx, packet, &places(types, signature)) {
            Ok(values) => values,
            Err(wrong) => {
                let _ = (*cx).failure(&wrong);
                super::create::stillborn(cx, actor);
                return Err(wrong);
            }
        };
        let references = values.iter().zip(&signature.params);
        let references = references.filter(|(_, param)| image.is_reference(param.ty));
        let references: SmallVec<[Word; 4]> = references.map(|(word, _)| *word).collect();
        let _values = (*cx).keep_all(&references);
        let mut words: SmallVec<[Word; 8]> = SmallVec::from_slice(&[actor]);
        words.extend_from_slice(&values);
        (*cx).actors.stats.created += 1;
        let ret = super::create::bear(cx, actor, *func, &words);
        if ret.outcome == Outcome::Killed as u64 {
            return Ok(ret);
        }
        Ok(super::rest(cx, actor, Ret::NOTHING))
    }
}
