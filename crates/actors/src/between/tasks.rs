//! Native actors: the packets of a task, which runs their methods, and its context
//! (`docs/internals/tasks.md`).
//!
//! To nodes and guests the tasks of a process are one more node, with the number [`tasks_of`], that
//! is never lost. The context of a task is a heap for the values of one message at a time, and has
//! no actors. Read [`ToTasks`] first: the packets that come. [`begin_task`] makes the context,
//! [`take_arguments`] reads values into it, and [`answer_from_task`] answers.

use std::ops::Range;

use bifrost_ir::{MethodId, MethodRef, TypeId};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Image;
use bifrost_runtime::reference::Object;
use bifrost_runtime::transfer::{Address, Leaf, NotReceived, Pattern};

use crate::between::kinds::{CANCEL, CREATE, GRANT, MESSAGE, RELEASE};
use crate::between::network::Network;
use crate::between::packet::{NOBODY, Wrong, number, numbers};
use crate::between::placement::{chooser, tasks_of};
use crate::between::write::{answer, settle_open};
use crate::context::{WithActors, set_network};
use crate::exceptions::{Origin, kept_exception, log_lost};
use crate::object::{Actor, Answer, Waiting};

/// A packet for the tasks. Ranges are places of values in the bytes that were read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToTasks {
    /// A new actor.
    Create {
        /// Its address.
        address: Address,
        /// Its class.
        ty: TypeId,
        /// The arguments of its creator.
        arguments: Range<usize>,
    },
    /// A message.
    Message {
        /// The actor.
        address: Address,
        /// The method, with the class that the sender means.
        method: MethodRef,
        /// The index and generation of the request that waits for the answer, if one does.
        waiter: Option<[u32; 2]>,
        /// The arguments.
        arguments: Range<usize>,
    },
    /// A node or guest that was told of an actor.
    Grant {
        /// The actor.
        address: Address,
        /// The number of the node or guest.
        to: u32,
    },
    /// The sender has forgotten an actor, of which it was told so often.
    Release {
        /// The actor.
        address: Address,
        /// The number of times.
        times: u32,
    },
    /// A request of the sender needs no answer.
    Cancel {
        /// Its index and generation.
        waiter: [u32; 2],
    },
}

/// Reads the packets of a node or guest, `from`, for the tasks beside so many nodes. `each` gets
/// them in their order.
///
/// # Errors
/// The reason why the rest of the bytes is no packet of a correct node.
pub fn read_for_tasks(
    image: &Image,
    nodes: u32,
    from: u32,
    packets: &[u8],
    mut each: impl FnMut(ToTasks),
) -> Result<(), String> {
    let mut rest = packets;
    let mut read = || {
        while !rest.is_empty() {
            let length = number(&mut rest)? as usize;
            let (packet, behind) = rest.split_at_checked(length).ok_or("it ends too early")?;
            rest = behind;
            let end = packets.len() - behind.len();
            each(read_one(image, nodes, from, packet, end)?);
        }
        Ok(())
    };
    read().map_err(|wrong: Wrong| wrong.why().to_owned())
}

/// Reads a packet that ends at a place of the bytes.
fn read_one(image: &Image, nodes: u32, from: u32, packet: &[u8], end: usize) -> Result<ToTasks, Wrong> {
    let (kind, mut rest) = packet.split_first().ok_or("it is empty")?;
    let rest = &mut rest;
    let address = |index, generation| Address { capsule: 0, node: tasks_of(nodes), index, generation };
    let known = |ty: u32| {
        let types = &image.program().types;
        let ty =
            ((ty as usize) < types.len()).then(|| TypeId::from_u32(ty)).ok_or("there is no such type")?;
        let class = image.find_table(ty).and_then(|table| table.info().actor());
        class.filter(|class| class.native).map(|class| (ty, class)).ok_or("its actors are not native")
    };
    Ok(match *kind {
        CREATE => {
            let [index, ty, creator] = numbers(rest)?;
            let (ty, class) = known(ty)?;
            if creator as usize >= class.creators.len() {
                return Err("there is no such creator".into());
            }
            let address = address(index, chooser(from, nodes) + 1);
            ToTasks::Create { address, ty, arguments: end - rest.len()..end }
        }
        MESSAGE => {
            let [index, generation, ty, method, waiter, of] = numbers(rest)?;
            let (ty, class) = known(ty)?;
            if method as usize >= class.methods {
                return Err("there is no such method".into());
            }
            let method = MethodRef { ty, method: MethodId::from_u32(method) };
            let waiter = (waiter != NOBODY).then_some([waiter, of]);
            let address = address(index, generation);
            ToTasks::Message { address, method, waiter, arguments: end - rest.len()..end }
        }
        GRANT => {
            let [index, generation, to] = numbers(rest)?;
            ToTasks::Grant { address: address(index, generation), to }
        }
        RELEASE => {
            let [index, generation, times] = numbers(rest)?;
            ToTasks::Release { address: address(index, generation), times }
        }
        CANCEL => ToTasks::Cancel { waiter: numbers(rest)? },
        other => return Err(Wrong::Never(format!("tasks take no packets of the kind {other}").into())),
    })
}

/// Makes a context that of a task beside so many nodes. Its packets go through `network`.
pub fn begin_task(cx: &mut Cx, network: Box<dyn Network>, nodes: u32) {
    cx.enter_node(tasks_of(nodes), nodes);
    set_network(cx, network, nodes);
    cx.actors().remote.answers_all = true;
}

/// Reads the arguments of a message or creation; `words` gets them, and is the caller's to keep.
/// `is_there` tells if the native actor of an address is there and has a class.
///
/// # Errors
/// The reason why the bytes are no such arguments, or do not fit the heap.
pub fn take_arguments(
    cx: &mut Cx,
    mut bytes: &[u8],
    pattern: &Pattern,
    is_there: &dyn Fn(Address, TypeId) -> bool,
    words: &mut [Word],
) -> Result<(), String> {
    let tasks = cx.node();
    let mut at = |cx: &mut Cx, leaf: Leaf, address: Address, ty: TypeId| {
        if leaf != Leaf::Actor || address.node != tasks || !is_there(address, ty) {
            return Err(NotReceived::Address(address));
        }
        far_actor(cx, ty, address).ok_or(NotReceived::Address(address))
    };
    pattern.read(cx, &mut bytes, &mut at, words).map_err(|why| why.to_string())
}

/// Makes an object that stands for a native actor in the context of a task. Returns nothing if the
/// class has no actors, or memory is used up.
pub fn far_actor(cx: &mut Cx, ty: TypeId, address: Address) -> Option<Object> {
    let class = cx.image().find_table(ty)?.info().actor()?;
    let made = Actor::make_far(cx, class, address).ok()?;
    // SAFETY: it was just made.
    Some(unsafe { Object::new(made.word()) })
}

/// Returns the address of a native actor from the object that stands for it in the context of a
/// task.
pub fn native_address(object: Object) -> Option<Address> {
    let native = object.info().actor().is_some_and(|class| class.native);
    // SAFETY: it is an actor; those of native classes are all far.
    native.then(|| unsafe { Actor::new(object.word()) }.address())
}

/// Answers a request with the end of its method, in the context of a task. Without a waiter an
/// exception is logged.
pub fn answer_from_task(cx: &mut Cx, node: u32, waiter: Option<[u32; 2]>, method: MethodRef, ret: Ret) {
    let ended = match ret.outcome() {
        Outcome::Returned => Answer::Value(ret.value),
        Outcome::Killed => {
            let _ = cx.failure("its task was ended");
            Answer::Exception(kept_exception(cx, &Origin::Method(method)))
        }
        _ => Answer::Exception(kept_exception(cx, &Origin::Method(method))),
    };
    match (waiter, ended) {
        (Some([index, generation]), _) => {
            answer(cx, Waiting { node, index, generation, method }, ended);
            settle_open(cx);
            cx.actors().remote.post_all();
        }
        (None, Answer::Exception(kept)) => log_lost(cx, kept),
        (None, Answer::Value(_)) => {}
    }
}
