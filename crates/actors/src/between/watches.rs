//! Packets about the end of actors ([`mod@crate::watch`]): `WATCH` and `UNWATCH` go to the node
//! of the actor, `GONE` comes back. `MAIN_OVER` says that the sender's `main` has ended.
//!
//! The destination of a monitor is a replier, which both nodes know by its address here, and count
//! as any other.

use bifrost_ir::{TypeId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::content::Place;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::transfer::{Address, Leaf, Pattern};

use crate::between::accept::{here_actor, known_type, read};
use crate::between::addresses::{address_of, at_address};
use crate::between::kinds::{GONE, MAIN_OVER, UNWATCH, WATCH};
use crate::between::packet::{Wrong, numbers};
use crate::between::remote::OWN;
use crate::between::write::{settle_open, write};
use crate::context::{WithActors, image_of};
use crate::deferred::state::Far;
use crate::object::{Known, Replier};
use crate::watch::{self, ENDED};

/// The pattern of a reason.
fn reason(cx: &Cx) -> Pattern {
    Pattern::new(Some(Place::new(&image_of(cx).program().types, Types::STRING)))
}

/// Asks the node of an actor to tell a destination of this node when the actor has ended.
pub(crate) fn watch(cx: &mut Cx, far: Far, destination: Replier) {
    settle_open(cx);
    let Address { node, index, generation, .. } = far.address;
    let own = address_of(cx, destination.word(), Leaf::Replier, node);
    let remote = &mut cx.actors().remote;
    let packet = remote.begin(node, WATCH, [index, generation, far.ty, own.index, own.generation]);
    remote.end(packet);
}

/// Takes that back. The node lets the destination go, as it lets any object go.
pub(crate) fn unwatch(cx: &mut Cx, far: Far, destination: Replier) {
    settle_open(cx);
    let Address { node, index, generation, .. } = far.address;
    let remote = &mut cx.actors().remote;
    let Some(own) = remote.own_address(destination.word()).filter(|_| !remote.is_lost(node)) else { return };
    let packet = remote.begin(node, UNWATCH, [index, generation, far.ty, own[0], own[1]]);
    remote.end(packet);
}

/// Tells a destination of another node why an actor has ended.
pub(crate) fn gone(cx: &mut Cx, to: Address, why: Word) {
    settle_open(cx);
    if cx.actors().remote.is_lost(to.node) {
        return;
    }
    let reason = reason(cx);
    let mut packet = cx.actors().remote.begin(to.node, GONE, [to.index, to.generation >> 8]);
    match write(cx, &[why], &reason, &mut packet) {
        Ok(()) => cx.actors().remote.end(packet),
        Err(_) => cx.actors().remote.drop_packet(packet),
    }
}

/// Tells all other nodes that `main` has ended: timers that repeat keep the run no longer.
pub(crate) fn tell_main_over(cx: &mut Cx) {
    settle_open(cx);
    let own = cx.node();
    let remote = &mut cx.actors().remote;
    for node in (0..remote.lost.len() as u32).filter(|node| *node != own) {
        remote.post(node, &[MAIN_OVER]);
    }
}

/// Reads one of these packets, and does it.
pub(crate) fn accept(cx: &mut Cx, from: u32, kind: u8, packet: &mut &[u8]) -> Result<(), Wrong> {
    match kind {
        GONE => accept_gone(cx, packet),
        MAIN_OVER if from == 0 => {
            cx.actors().main_is_over = true;
            Ok(())
        }
        WATCH | UNWATCH if from < cx.nodes() => accept_watch(cx, from, kind == WATCH, packet),
        _ => Err("no such node may send it".into()),
    }
}

fn accept_watch(cx: &mut Cx, from: u32, begins: bool, packet: &mut &[u8]) -> Result<(), Wrong> {
    let [index, generation, ty, of, of_generation] = numbers(packet)?;
    let image = image_of(cx);
    let ty = known_type(&image.program().types, ty)?;
    let class = image.find_table(ty).and_then(|table| table.info().actor());
    class.filter(|class| !class.functional).ok_or("it is not a class of actors that end")?;
    let wanted = watch::destination_type(cx).ok_or("the program has no monitors")?;
    if of_generation & 0xff != OWN {
        return Err("no replier has that address".into());
    }
    let address = Address { capsule: 0, node: cx.node(), index, generation };
    let destination = Address { capsule: 0, node: from, index: of, generation: of_generation };
    if !begins {
        if let Some(actor) = here_actor(cx, address, ty) {
            watch::unwatch(cx, actor, &|other| other.is_far() && other.address() == destination);
        }
        return Ok(());
    }
    let destination = replier_at(cx, destination, wanted)?;
    let _destination = cx.keep(destination.word());
    let Some(actor) = here_actor(cx, address, ty) else {
        watch::tell_text(cx, destination, ENDED);
        return Ok(());
    };
    if watch::watch(cx, actor, destination).is_err() {
        watch::tell_text(cx, destination, "no memory to monitor the actor");
    }
    Ok(())
}

/// Returns the object that stands for a replier of another node.
fn replier_at(cx: &mut Cx, address: Address, wanted: TypeId) -> Result<Replier, Wrong> {
    let found = at_address(cx, Leaf::Replier, address, wanted)?.word();
    // SAFETY: objects at addresses are objects of this node.
    if unsafe { Table::of(found) }.info().ty != wanted {
        return Err("another object has the address of the replier".into());
    }
    // SAFETY: the type is one of repliers.
    Ok(unsafe { Replier::new(found) })
}

/// Reads the reason of an actor's end. A destination that is gone has been taken back, or was
/// garbage with all that would have been told.
fn accept_gone(cx: &mut Cx, packet: &mut &[u8]) -> Result<(), Wrong> {
    let [index, generation] = numbers(packet)?;
    let wanted = watch::destination_type(cx).ok_or("the program has no monitors")?;
    let reason = reason(cx);
    let node = cx.node();
    let remote = &mut cx.actors().remote;
    if remote.under_way {
        let generation = generation << 8 | OWN;
        remote.searches.was_under_way(node, Address { capsule: 0, node, index, generation });
    }
    let Some((known, _)) = remote.awaited(index, generation) else { return Ok(()) };
    let Known::Replier(destination) = known else { return Err("no monitor has that address".into()) };
    if destination.ty() != wanted || destination.is_far() {
        return Err("no monitor has that address".into());
    }
    let _kept = cx.keep(destination.word());
    let mut why = [0];
    read(cx, packet, &reason, &mut why)?;
    let _why = cx.keep(why[0]);
    cx.actors().remote.take(index, generation);
    watch::tell(cx, destination, why[0]);
    Ok(())
}
