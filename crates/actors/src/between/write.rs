//! Writes the packets between nodes: messages, answers and their parts.
//!
//! The functions to read first are [`send`] and [`send_past`], which write a message, and
//! [`answer`]. [`accept`](crate::between::accept) reads all packets of a node. Packets that are not
//! sent yet belong to [`Remote`](crate::between::remote::Remote), as do the objects that other
//! nodes know.
//!
//! The kinds and their parts are the table [`kinds`](crate::between::kinds). Those of a search are
//! read in [`search`](crate::between::search), those of rounds of requests in
//! [`rounds`](crate::between::rounds). Values are written as [`bifrost_runtime::transfer`] says.

use bifrost_ir::{MethodId, MethodRef, SignalId, Signature, TypeId, Types};
use bifrost_runtime::abi::{Ret, Word};
use bifrost_runtime::content::Place;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::reference::Object;
use bifrost_runtime::transfer::{Address, Leaf, NotSent, Pattern};
use smallvec::SmallVec;

use crate::between::addresses::{address_of, at_address};
use crate::between::kinds::{ANSWER, CREATE, MESSAGE};
use crate::between::packet::{NOBODY, put};
use crate::between::placement::{chooser, tasks_of};
use crate::between::remote::{LOST, Writing};
use crate::context::{WithActors, image_of, pending};
use crate::exceptions::{Origin, kept_exception, log_answered};
use crate::object::{Answer, Call, Exception, Outgoing, Owing, Replier, Waiting};
use crate::{code, mailbox};

/// Returns the outcome to end with when values could not be sent.
fn not_sent(cx: &mut Cx, why: NotSent) -> Ret {
    match why {
        NotSent::Ended(ret) => ret,
        other => cx.failure(&other.to_string()),
    }
}

/// The reason why a native actor is not sent to another capsule.
const NATIVE: &str = "it is native, and cannot leave its process";

/// Writes values behind the bytes of a packet.
#[inline]
pub(crate) fn write(
    cx: &mut Cx,
    values: &[Word],
    pattern: &Pattern,
    packet: &mut Writing,
) -> Result<(), Ret> {
    let to = packet.node;
    let mut address = |cx: &mut Cx, object: Object, leaf: Leaf| {
        let address = address_of(cx, object.word(), leaf, to);
        match address.node == tasks_of(cx.nodes()) && !cx.actors().remote.has_native(to) {
            true => Err(NotSent::Object { class: object.info().name.clone(), why: NATIVE.to_owned() }),
            false => Ok(address),
        }
    };
    // SAFETY: the values have the types of the pattern's places.
    let written = unsafe { pattern.write(cx, values, &mut address, &mut packet.packets) };
    written.map_err(|why| not_sent(cx, why))
}

/// Writes the packet of a message to an actor of another node, without a waiter. Returns the packet
/// and the method, or the outcome to end with.
#[inline]
fn write_message(cx: &mut Cx, call: Call<'_>) -> Result<(Writing, MethodId), Ret> {
    settle_open(cx);
    let (actor, method) = (call.actor(), call.method());
    let address = actor.address();
    let remote = &mut cx.actors().remote;
    if remote.is_lost(address.node) {
        return Err(cx.failure(LOST));
    }
    let numbers = [address.index, address.generation, actor.ty().as_u32(), method.as_u32(), NOBODY, NOBODY];
    let mut packet = remote.begin(address.node, MESSAGE, numbers);
    match write(cx, call.arguments(), &actor.class().message(method).arguments, &mut packet) {
        Ok(()) => {
            cx.words.stats.sent += 1;
            Ok((packet, method))
        }
        Err(ret) => {
            cx.actors().remote.drop_packet(packet);
            Err(ret)
        }
    }
}

/// Counts a message that is about to go: a sender that sends too much makes way.
#[inline]
fn count_sent(cx: &mut Cx, packet: &Writing) {
    let windows = match cx.is_guest() {
        true => 0,
        false => cx.actors().remote.credit.sent(packet.node, packet.bytes()),
    };
    if windows > 0 {
        cx.words.turn_over = true;
        // Passive code looks whether its turn is over only when it is asked to.
        cx.ask();
        cx.words.stats.ahead += u64::from(windows > 1);
    }
}

/// Sends a message of the past form to an actor of another node. Returns `Returned`, or the outcome
/// to end with.
///
/// # Errors
/// The outcome that the sender ends with: the actor's mailbox is full.
pub(crate) fn send_past(cx: &mut Cx, call: Call<'_>) -> Result<Ret, Ret> {
    mailbox::admit_far(cx, call.actor(), call.slot())?;
    let (packet, method) = match write_message(cx, call) {
        Ok(written) => written,
        Err(ret) => return Ok(ret),
    };
    let node = packet.node;
    count_sent(cx, &packet);
    cx.actors().remote.end(packet);
    // The tasks take each message at once.
    if node < cx.nodes() && code::remote(cx, call.actor(), call.slot(), method) {
        cx.actors().remote.open_outlet(node);
    }
    Ok(Ret::NOTHING)
}

/// Sends a message to an actor of another node. Returns `Pending` with the object for the answer,
/// or the outcome to end with.
pub(crate) fn send(cx: &mut Cx, call: Call<'_>) -> Ret {
    let admitted = mailbox::admit_far(cx, call.actor(), call.slot());
    let (packet, method) = match admitted.and_then(|()| write_message(cx, call)) {
        Ok(written) => written,
        Err(ret) => return ret,
    };
    let made = match cx.actors().remote.unowed.take() {
        Some(made) => made,
        None => match Outgoing::make(cx) {
            Ok(made) => made,
            Err(full) => {
                cx.actors().remote.drop_packet(packet);
                return cx.out_of_memory(full);
            }
        },
    };
    made.begin(call.actor(), MethodRef { ty: call.actor().ty(), method });
    count_sent(cx, &packet);
    cx.actors().remote.leave_open(packet, made);
    pending(made.owing())
}

/// Posts the last message without an answer, unless that was done.
#[inline]
pub(crate) fn settle_open(cx: &mut Cx) {
    cx.actors().remote.settle(None);
}

/// Sends a message whose answer is awaited.
pub(crate) fn expect_answer(cx: &mut Cx, owing: Owing) {
    let remote = &mut cx.actors().remote;
    if let Some(open) = remote.open.filter(|open| open.owing.owing() == owing) {
        remote.settle(Some(open.owing));
    }
}

/// Makes an actor on another node. Returns the reference, or the outcome to end with.
pub(crate) fn create(cx: &mut Cx, table: &'static Table, creator: u32, args: &[Word], node: u32) -> Ret {
    settle_open(cx);
    if cx.actors().remote.is_lost(node) {
        return cx.failure(LOST);
    }
    let class = table.info().actor().expect("a class of actors");
    let remote = &mut cx.actors().remote;
    let own = remote.made[node as usize];
    let index = remote.network.as_mut().and_then(|network| network.next_index(node)).unwrap_or(own);
    let mut packet = remote.begin(node, CREATE, [index, table.info().ty.as_u32(), creator]);
    if let Err(ret) = write(cx, &args[1..], &class.creations[creator as usize], &mut packet) {
        cx.actors().remote.drop_packet(packet);
        return ret;
    }
    let generation = chooser(cx.node(), cx.nodes()) + 1;
    let address = Address { capsule: 0, node, index, generation };
    let proxy = match at_address(cx, Leaf::Actor, address, table.info().ty) {
        Ok(proxy) => proxy,
        Err(why) => {
            cx.actors().remote.drop_packet(packet);
            return cx.failure(&why.to_string());
        }
    };
    let tasks = tasks_of(cx.nodes());
    let remote = &mut cx.actors().remote;
    remote.made[node as usize] = own + 1;
    remote.placement.made(node);
    remote.end(packet);
    if node == tasks {
        // Nobody hears of the actor before the tasks know it.
        remote.post_now(node);
    }
    cx.words.stats.created_remotely += 1;
    Ret::of(proxy.word())
}

/// Answers a waiter on another node.
pub(crate) fn answer(cx: &mut Cx, to: Waiting, answer: Answer) {
    settle_open(cx);
    let image = image_of(cx);
    let class = image.table_of(to.method.ty).info().actor().expect("a class of actors");
    let signature = &image.program().types.method(to.method).signature;
    let remote = &mut cx.actors().remote;
    if remote.is_lost(to.node) {
        return;
    }
    let mut packet = remote.begin(to.node, ANSWER, [to.index, to.generation]);
    let written = match answer {
        Answer::Value(word) => {
            put(&mut packet.packets, &[0]);
            let result = &class.message(to.method.method).result;
            write(cx, &[word][..result.len()], result, &mut packet)
        }
        Answer::Exception(kept) => {
            log_answered(cx, kept, to.node);
            write_exception(cx, kept, signature, &mut packet)
        }
    };
    if written.is_err() {
        // The failure goes in place of values that cannot be sent.
        let failed = kept_exception(cx, &Origin::Method(to.method));
        packet.truncate(ANSWER_BYTES);
        let _ = write_exception(cx, failed, signature, &mut packet);
    }
    cx.actors().remote.end(packet);
}

/// The bytes of an answer before its result or exception.
const ANSWER_BYTES: usize = 1 + 2 * 4;

/// Returns the places of the values of an exception.
pub(crate) fn exception_places(types: &Types, signature: &Signature, id: SignalId) -> SmallVec<[Place; 4]> {
    match signature.signal(id) {
        Some(signal) => signal.values.iter().map(|ty| Place::new(types, *ty)).collect(),
        None if id == SignalId::FAILURE => SmallVec::from_iter([Place::new(types, Types::STRING)]),
        None => SmallVec::new(),
    }
}

fn write_exception(
    cx: &mut Cx,
    kept: Exception,
    signature: &Signature,
    packet: &mut Writing,
) -> Result<(), Ret> {
    let id = SignalId::from_u32(kept.signal() as u32);
    let pattern = Pattern::new(exception_places(&image_of(cx).program().types, signature, id));
    let values: SmallVec<[Word; 4]> = (0..pattern.len()).map(|at| kept.value(at)).collect();
    put(&mut packet.packets, &[id.as_u32() + 1]);
    write(cx, &values, &pattern, packet)
}

/// Answers through a place of answers of another node.
pub(crate) fn deliver(cx: &mut Cx, destination: Replier, value: Word) {
    settle_open(cx);
    let address = destination.address();
    if cx.actors().remote.is_lost(address.node) {
        return cx.actors().log("an answer is dropped: its node is lost");
    }
    let numbers = [address.index, address.generation >> 8, 0];
    let mut packet = cx.actors().remote.begin(address.node, ANSWER, numbers);
    let result = replier_result(&image_of(cx).program().types, destination.ty());
    let written = write(cx, &[value][..result.len()], &result, &mut packet);
    match written {
        Ok(()) => cx.actors().remote.end(packet),
        Err(_) => {
            cx.actors().remote.drop_packet(packet);
            cx.actors().log("an answer could not be sent to its node");
        }
    }
}

/// Returns the pattern of the answers of a type of places of answers.
pub(crate) fn replier_result(types: &Types, ty: TypeId) -> Pattern {
    Pattern::new(match types.kind(ty) {
        bifrost_ir::TypeKind::Replier(result) => Some(Place::new(types, result)),
        _ => None,
    })
}
