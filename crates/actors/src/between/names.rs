//! The names of actors that clients find them by, and the packets of the table of names.

use bifrost_runtime::abi::Ret;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::transfer::{Address, Leaf};

use crate::between::addresses::{address_of, at_address};
use crate::between::kinds::{GRANT, RELEASE};
use crate::between::network::NOBODY_SERVED;
use crate::between::packet::framed;
use crate::context::WithActors;
use crate::object::Actor;

/// Returns the packet that tells the owner of an object that a node was told of it.
pub fn grant(address: Address, to: u32) -> Vec<u8> {
    framed(GRANT, &[address.index, address.generation, to])
}

/// Returns the packet that tells the owner of an object that the sender, which was told of it once,
/// has forgotten it.
pub fn release(address: Address) -> Vec<u8> {
    framed(RELEASE, &[address.index, address.generation, 1])
}

/// Enters an actor under a name that clients find it by, in place of the one that had it.
///
/// # Errors
/// The outcome to end with: nobody serves clients here, or there are too many names.
pub fn publish(cx: &mut Cx, name: &str, actor: Actor) -> Result<(), Ret> {
    let _kept = cx.keep(actor.word());
    let names = cx.nodes();
    if !cx.actors().remote.has_names() {
        return Err(cx.failure(NOBODY_SERVED));
    }
    let address = address_of(cx, actor.word(), Leaf::Actor, names);
    match cx.actors().remote.publish(name, Some((address, actor.ty()))) {
        Ok(_) => Ok(()),
        Err(why) => Err(cx.failure(&why)),
    }
}

/// Takes a name away. Returns true if some actor had it.
///
/// # Errors
/// The outcome to end with: nobody serves clients here.
pub fn withdraw(cx: &mut Cx, name: &str) -> Result<bool, Ret> {
    match cx.actors().remote.publish(name, None) {
        Ok(had) => Ok(had),
        Err(why) => Err(cx.failure(&why)),
    }
}

/// True if an actor has a name.
pub fn is_published(cx: &mut Cx, name: &str) -> bool {
    cx.actors().remote.find(name).is_some()
}

/// Returns the actor of a name, which the caller keeps.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub fn published(cx: &mut Cx, name: &str) -> Result<Option<Actor>, Ret> {
    let Some((address, ty)) = cx.actors().remote.find(name) else { return Ok(None) };
    // The table of names takes no part in searches: addresses from it were under way.
    let nodes = cx.nodes();
    let under_way = cx.actors().remote.searches.is_under_way(nodes);
    let before = std::mem::replace(&mut cx.actors().remote.under_way, under_way);
    let found = at_address(cx, Leaf::Actor, address, ty);
    cx.actors().remote.under_way = before;
    // SAFETY: the address is one of an actor, as its leaf says.
    found.map(|found| unsafe { Actor::of(found.word()) }).map_err(|why| cx.failure(&why.to_string()))
}
