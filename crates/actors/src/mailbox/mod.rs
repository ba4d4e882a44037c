//! The bound of a mailbox: no actor that serves nothing fills the heap of its node. The functions
//! to read first are [`admit`], [`park`] and [`look`]; the state is in `state`.
//!
//! A mailbox counts the bytes of its messages and of the objects that they carry. From three
//! quarters of the bound on, it is nearly full:
//!
//! - senders make way at the end of a loop's step and are *parked* until half of the bound is free;
//! - if it has served nothing for [`PARK_NS`] meanwhile, it is *stuck*, and messages to it are
//!   refused;
//! - at the bound it is full, and messages to it are refused.
//!
//! A refused sender gets `failure("mailbox full")`, also where nobody awaits an answer.
//!
//! ```text
//!              bytes >= 3/4              PARK_NS without room, or nothing else to do
//!   room --------------------> parks ------------------------------------------> stuck: refuses
//!    ^                           |  bytes >= bound: refuses                            |
//!    +------ bytes <= 1/2 -------+                    a message is served              |
//!    +---------------------------------------------------------------------------------+
//! ```
//!
//! Senders on other nodes are told (`FULL`, `ROOM`), see [`admit_far`]. A message that can be taken
//! at once is never refused, see [`takes`]. In a heap that is filled the bound is a sixteenth.
//! Messages that a transaction has held leave in any case.

use bifrost_heap::OBJECT_WORDS;
use bifrost_ir::{MethodId, TypeKind};
use bifrost_runtime::abi::{Ret, Word};
use bifrost_runtime::actor_class::{ActorClass, MessageKind, State};
use bifrost_runtime::actor_layout::{mail, message};
use bifrost_runtime::cx::{Cx, Limits};
use bifrost_runtime::image::Table;
use bifrost_runtime::object::{self, array, get};
use bifrost_runtime::transfer::Address;

use crate::between::credit::Against;
use crate::between::kinds::{FULL, ROOM};
use crate::between::packet::put;
use crate::context::{WithActors, image_of};
use crate::node::{Actors, Work};
use crate::object::{Actor, Call, Join, Mail};
use crate::queue::{MAIL_LONG, bit_of, is_on_stack};

pub(crate) mod state;

use state::{Parked, Told};
pub(crate) use state::{Patience, Seen};

/// The text of the `failure` that a refused sender gets.
const REFUSED: &str = "mailbox full";

/// The least bound: fewer messages than [`MAIL_LONG`] are not counted.
const BOUND_MIN: usize = 1 << 20;

/// The divisor of the heap's size that gives the largest bound.
const HEAP_PART: usize = 4;

/// The longest time that a sender is parked.
const PARK_NS: u64 = 1_000_000_000;

/// The shortest time between two ROOM packets about the same mailbox.
const TELL_NS: u64 = 200_000_000;

/// The bytes that are taken from each other node beyond the bound.
const FAR_BYTES: usize = 1 << 20;

/// The most messages that go to an actor of another node whose mailbox is nearly full, from senders
/// that cannot make way.
const FAR_MESSAGES: u32 = 1024;

/// Sets the bound of a mailbox in bytes; at least a megabyte, and at most a quarter of the heap.
pub(crate) fn set_bytes(actors: &mut Actors, limits: &Limits) {
    actors.mailboxes.most = limits.mailbox_bytes.min(limits.heap_bytes / HEAP_PART).max(BOUND_MIN);
}

/// Returns the words of the objects that a message carries, as its kind has them: their own size,
/// and that of an array's storage.
pub(crate) fn carried(cx: &Cx, kind: &MessageKind, call: Call<'_>) -> u64 {
    let types = &image_of(cx).program().types;
    // SAFETY: the arguments that a message carries are objects, and the storage of an array is one.
    let size = |object: Word| (unsafe { object::fields(object) }) + OBJECT_WORDS;
    let mut words = 0;
    for (at, word) in call.arguments().iter().enumerate().filter(|(_, word)| **word != 0) {
        if kind.carries >> at & 1 == 0 {
            continue;
        }
        words += size(*word);
        // SAFETY: as above.
        let ty = unsafe { Table::of(*word) }.info().ty;
        if matches!(types.kind(ty), TypeKind::Array(_)) {
            // SAFETY: arrays have the field.
            let storage = unsafe { get(*word, array::STORAGE) };
            words += if storage == 0 { 0 } else { size(storage) };
        }
    }
    (words as u64).min(message::CARRIED_MAX)
}

/// Returns the bytes that wait in the mail of an actor of a class.
fn bytes_of(class: &ActorClass, post: Mail) -> usize {
    post.count() as usize * class.message_bytes + 8 * mail::carried(post.waiting()) as usize
}

/// Returns the bound for now.
fn bound(cx: &mut Cx) -> usize {
    let most = cx.actors().mailboxes.most;
    if cx.heap().is_filled() { most / 16 } else { most }
}

/// Returns the number of bytes at which senders begin to make way.
fn nearly(bound: usize) -> usize {
    bound - bound / 4
}

/// Admits a message to an actor of this node.
///
/// # Errors
/// The outcome that its sender ends with.
///
#[inline]
pub(crate) fn admit(cx: &mut Cx, actor: Actor, slot: u32) -> Result<(), Ret> {
    let class = actor.class();
    match actor.mail_in(class) {
        Some(post) if post.waiting() >= MAIL_LONG => admit_more(cx, actor, slot, class, post),
        _ => Ok(()),
    }
}

#[cold]
fn admit_more(cx: &mut Cx, actor: Actor, slot: u32, class: &ActorClass, post: Mail) -> Result<(), Ret> {
    let (bytes, bound) = (bytes_of(class, post), bound(cx));
    let takes = || actor.state() == State::Selecting && post.takes() & bit(actor, slot) != 0;
    if cx.actors().accepts() {
        // Methods that run while messages of another node are entered, and send on to one
        // actor, take no more of them than that actor serves.
        let (from, since_ns) = (cx.actors().remote.origin, now(cx));
        cx.actors().remote.credit.hold(from, Against::mail(actor, since_ns));
    }
    if bytes < nearly(bound) || takes() {
        return Ok(());
    }
    let nodes = cx.nodes() as usize;
    let boxes = &mut cx.actors().mailboxes;
    if boxes.arrives == Some(actor) {
        let room = bytes < bound.saturating_add(nodes * FAR_BYTES);
        return if room { Ok(()) } else { Err(cx.failure(REFUSED)) };
    }
    let stuck = boxes.stuck.iter().position(|(other, _)| *other == actor);
    let moves = stuck.is_none_or(|at| boxes.stuck[at].1.look(actor));
    if !moves || bytes >= bound {
        return Err(cx.failure(REFUSED));
    }
    if let Some(at) = stuck {
        boxes.stuck.swap_remove(at);
    }
    if !is_on_stack(post) {
        boxes.full = Some(actor);
        make_way(cx);
    }
    Ok(())
}

/// Returns the bit of a slot's method among those of an actor.
fn bit(actor: Actor, slot: u32) -> u64 {
    1 << bit_of(actor.method(slot))
}

/// Returns the methods of an actor with mail whose next message it may take at once, a bit for
/// each. These are the methods that it selects; or, of a dormant actor, those of which it has
/// refused none. Their messages are never refused, or nothing could make the actor go on. `FULL`
/// names these methods. It is sent again when they are others, and from time to time while messages
/// are served.
fn takes(actor: Actor, class: &ActorClass, post: Mail) -> u64 {
    match actor.state() {
        State::Selecting => post.takes(),
        State::Dormant => {
            let methods = (0..class.methods as u32).map(MethodId::from_u32);
            let none = methods.filter(|method| post.first(class.list_of(*method)).is_none());
            none.fold(0, |all, method| all | 1 << bit_of(method))
        }
        _ => 0,
    }
}

/// Has the code that runs make way as soon as it can.
fn make_way(cx: &mut Cx) {
    cx.words.turn_over = true;
    // Passive code looks whether its turn is over only when it is asked to.
    cx.ask();
}

/// Admits a message to an actor of another node, as [`admit`].
///
/// Senders on other nodes are told (`FULL`, `ROOM`) and treat the proxy of the actor as a mailbox
/// that parks. Messages that they have sent before they hear of it are taken beyond the bound, up
/// to [`FAR_BYTES`] for each node. Beyond that a request is answered with the failure, and a
/// message that nobody awaits is logged. Messages of sessions have the bound itself, and all of
/// them are answered.
///
/// # Errors
/// As for [`admit`].
///
#[inline]
pub(crate) fn admit_far(cx: &mut Cx, actor: Actor, slot: u32) -> Result<(), Ret> {
    if actor.is_full() { admit_far_more(cx, actor, slot) } else { Ok(()) }
}

#[cold]
fn admit_far_more(cx: &mut Cx, actor: Actor, slot: u32) -> Result<(), Ret> {
    if cx.actors().remote.is_lost(actor.address().node) {
        // The sending itself fails with the loss of the node.
        return Ok(());
    }
    let boxes = &mut cx.actors().mailboxes;
    let known = boxes.far.entry(actor).or_default();
    if known.takes & bit(actor, slot) != 0 {
        return Ok(());
    }
    if known.stuck || known.sent >= FAR_MESSAGES {
        return Err(cx.failure(REFUSED));
    }
    known.sent += 1;
    boxes.full = Some(actor);
    make_way(cx);
    Ok(())
}

/// True if senders to an actor need not wait, or would in vain.
pub(crate) fn is_open(cx: &mut Cx, actor: Actor) -> bool {
    let has_room = |cx: &mut Cx| {
        has_room(cx, actor) || cx.actors().mailboxes.stuck.iter().any(|(other, _)| *other == actor)
    };
    match actor.state() {
        State::Failed => true,
        State::Remote => {
            !actor.is_full()
                || cx.actors().mailboxes.far.get(&actor).is_none_or(|known| known.stuck)
                || cx.actors().remote.is_lost(actor.address().node)
        }
        _ => has_room(cx),
    }
}

/// True if half of an actor's mailbox is free.
fn has_room(cx: &mut Cx, actor: Actor) -> bool {
    let class = actor.class();
    actor.mail_in(class).is_none_or(|post| bytes_of(class, post) <= bound(cx) / 2)
}

/// Notes that an actor has served nothing while senders were parked: from now on they are refused,
/// until it does.
pub(crate) fn give_up_on(cx: &mut Cx, actor: Actor) {
    if is_open(cx, actor) {
        return;
    }
    let boxes = &mut cx.actors().mailboxes;
    if actor.state() == State::Remote {
        boxes.far.entry(actor).or_default().stuck = true;
        return;
    }
    let mut seen = Seen::default();
    seen.look(actor);
    boxes.stuck.push((actor, seen));
}

/// Returns the time, which stands still where a seed decides the order: there senders are parked
/// until nothing else is to be done.
fn now(cx: &mut Cx) -> u64 {
    if cx.actors().is_ordered() { 0 } else { cx.now_ns() }
}

impl Patience {
    pub(crate) fn new(cx: &mut Cx) -> Patience {
        Patience { until_ns: now(cx).saturating_add(PARK_NS), seen: Seen::default() }
    }

    /// True if the mailbox of an actor, here or elsewhere, has served nothing for long.
    pub(crate) fn is_over(&mut self, cx: &mut Cx, actor: Actor) -> bool {
        let now = now(cx);
        if actor.state() == State::Remote {
            let known = cx.actors().mailboxes.far.get(&actor);
            let heard = known.map_or(0, |known| known.heard_ns);
            self.until_ns = self.until_ns.max(heard.saturating_add(PARK_NS));
        } else if self.seen.look(actor) {
            self.until_ns = now.saturating_add(PARK_NS);
        }
        self.until_ns <= now
    }
}

/// True if a join that makes way shall wait for room in the mailbox to which it has sent.
pub(crate) fn park(cx: &mut Cx, waiter: Join) -> bool {
    let Some(actor) = cx.actors().mailboxes.take_full() else { return false };
    if is_open(cx, actor) {
        return false;
    }
    let patience = Patience::new(cx);
    let parked = &mut cx.actors().mailboxes.parked;
    match parked.iter_mut().find(|parked| parked.actor == actor) {
        Some(parked) => parked.waiters.push(waiter),
        None => parked.push(Parked { actor, patience, waiters: vec![waiter] }),
    }
    true
}

/// Lets senders go on for which there is room or whose time is over, and tells other nodes of room.
#[inline]
pub(crate) fn look(cx: &mut Cx) {
    let mailboxes = &cx.actors().mailboxes;
    if !(mailboxes.told.is_empty() && mailboxes.parked.is_empty()) {
        look_at_some(cx);
    }
}

fn look_at_some(cx: &mut Cx) {
    if !cx.actors().mailboxes.told.is_empty() {
        tell_room(cx);
    }
    if cx.actors().mailboxes.parked.is_empty() {
        return;
    }
    // Those that go on are kept by the ready queue.
    for mut parked in std::mem::take(&mut cx.actors().mailboxes.parked) {
        let actor = parked.actor;
        if !is_open(cx, actor) && !parked.patience.is_over(cx, actor) {
            cx.actors().mailboxes.parked.push(parked);
            continue;
        }
        give_up_on(cx, actor);
        parked.waiters.into_iter().for_each(|waiter| cx.actors().push(Work::Join(waiter)));
    }
}

fn tell_room(cx: &mut Cx) {
    let told = std::mem::take(&mut cx.actors().mailboxes.told);
    for mut told in told {
        let class = told.actor.class();
        let full = told.actor.mail_in(class).filter(|_| told.actor.state() != State::Failed);
        let Some(mail) = full.filter(|_| !has_room(cx, told.actor)) else {
            post(cx, told.node, ROOM, &told.address);
            continue;
        };
        let (takes, now) = (takes(told.actor, class, mail), now(cx));
        told.serves |= told.seen.look(told.actor);
        if takes != told.takes || told.serves && now.saturating_sub(told.at_ns) > TELL_NS {
            tell_full(cx, told.node, told.address, takes);
            (told.takes, told.serves, told.at_ns) = (takes, false, now);
        }
        cx.actors().mailboxes.told.push(told);
    }
}

fn tell_full(cx: &mut Cx, node: u32, [index, generation]: [u32; 2], takes: u64) {
    post(cx, node, FULL, &[index, generation, takes as u32, (takes >> 32) as u32]);
}

fn post(cx: &mut Cx, node: u32, kind: u8, numbers: &[u32]) {
    let mut packet = vec![kind];
    put(&mut packet, numbers);
    cx.actors().remote.post(node, &packet);
}

/// Resumes all parked senders, to be refused, because nothing else is to be done. Returns true if
/// there were any.
pub(crate) fn give_up(cx: &mut Cx) -> bool {
    let parked = std::mem::take(&mut cx.actors().mailboxes.parked);
    for Parked { actor, waiters, .. } in &parked {
        give_up_on(cx, *actor);
        waiters.iter().for_each(|waiter| cx.actors().push(Work::Join(*waiter)));
    }
    !parked.is_empty()
}

/// Handles a new message of another node in an actor's mail: the node is told if that is nearly
/// full. Returns true if the node knows it.
pub(crate) fn came(cx: &mut Cx, from: u32, actor: Actor, address: [u32; 2]) -> bool {
    let class = actor.class();
    let long = actor.mail_in(class).filter(|mail| mail.waiting() >= MAIL_LONG);
    let Some(mail) = long.filter(|_| from < cx.nodes()) else { return false };
    let told = &cx.actors().mailboxes.told;
    if told.iter().any(|told| told.actor == actor && told.node == from) {
        return true;
    }
    if bytes_of(class, mail) < nearly(bound(cx)) {
        return false;
    }
    let takes = takes(actor, class, mail);
    let (mut seen, at_ns) = (Seen::default(), now(cx));
    seen.look(actor);
    cx.actors().mailboxes.told.push(Told { actor, node: from, address, takes, seen, serves: false, at_ns });
    tell_full(cx, from, address, takes);
    true
}

/// Handles a node's note on an actor of its own. With `full`, its mailbox is nearly full, and the
/// methods in it are taken nevertheless. Without, it has room.
pub(crate) fn heard(cx: &mut Cx, from: u32, [index, generation]: [u32; 2], full: Option<u64>) {
    let address = Address { capsule: 0, node: from, index, generation };
    // The proxy may have been forgotten.
    let Some(proxy) = cx.actors().remote.proxy(&address) else { return };
    let heard_ns = now(cx);
    let boxes = &mut cx.actors().mailboxes;
    match full {
        Some(takes) => {
            let known = boxes.far.entry(proxy).or_default();
            (known.takes, known.heard_ns, known.stuck) = (takes, heard_ns, false);
        }
        None => {
            boxes.far.remove(&proxy);
        }
    }
    proxy.set_full(full.is_some());
}
