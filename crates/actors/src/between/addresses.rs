//! The objects at addresses: an object of this node, or the one that stands for another node's.

use bifrost_ir::TypeId;
use bifrost_runtime::abi::Word;
use bifrost_runtime::actor_class::State;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::reference::Object;
use bifrost_runtime::transfer::{Address, Leaf, NotReceived};

use crate::between::kinds::GRANT;
use crate::between::packet::put;
use crate::between::placement::tasks_of;
use crate::between::remote::{LOST, OWN, Remote};
use crate::context::WithActors;
use crate::create::fail_creation;
use crate::object::{Actor, Replier};

/// Returns the address of an actor or a place of answers, for another node, which is told of it.
pub(crate) fn address_of(cx: &mut Cx, word: Word, leaf: Leaf, to: u32) -> Address {
    let node = cx.node();
    // SAFETY: values that are encoded as these kinds are references to actors and destinations.
    let far = unsafe {
        match leaf {
            Leaf::Actor => {
                Some(Actor::new(word)).filter(|it| it.state() == State::Remote).map(Actor::address)
            }
            Leaf::Replier => Some(Replier::new(word)).filter(|it| it.is_far()).map(Replier::address),
        }
    };
    let remote = &mut cx.actors().remote;
    if let Some(address) = far {
        if address.node != to {
            let mut packet = vec![GRANT];
            put(&mut packet, &[address.index, address.generation, to]);
            remote.post(address.node, &packet);
        }
        return address;
    }
    if let Some((chosen_by, index)) = remote.names.get(&word).copied()
        && let Some(export) = remote.born[chosen_by as usize].get_mut(&index)
    {
        export.count(to, 1);
        return Address { capsule: 0, node, index, generation: chosen_by + 1 };
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

impl Remote {
    /// Returns index and generation of the address of an object of this node, if others know it.
    pub(crate) fn own_address(&self, word: Word) -> Option<[u32; 2]> {
        let index = *self.exported.get(&word)?;
        Some([index, self.exports[index as usize].generation << 8 | OWN])
    }

    /// True if other nodes know an object of this node.
    pub(crate) fn is_known(&self, word: Word) -> bool {
        self.exported.contains_key(&word) || self.names.contains_key(&word)
    }
}

/// Returns the object that stands here for an address, or is at it.
pub(crate) fn at_address(
    cx: &mut Cx,
    leaf: Leaf,
    address: Address,
    ty: TypeId,
) -> Result<Object, NotReceived> {
    // SAFETY: the tables of exports and proxies have objects of the node.
    let object = |word| unsafe { Object::new(word) };
    if address.node == cx.node() {
        return here(cx, address, ty).map(object).ok_or(NotReceived::Address(address));
    }
    let origin = cx.actors().remote.origin;
    let native = address.node == tasks_of(cx.nodes()) && cx.actors().remote.has_native(origin);
    if address.node >= cx.nodes() && !native {
        return Err(NotReceived::Address(address));
    }
    if cx.actors().remote.under_way {
        let node = cx.node();
        cx.actors().remote.searches.was_under_way(node, address);
    }
    if let Some((proxy, told)) = cx.actors().remote.proxies.get_mut(&address) {
        *told += 1;
        return Ok(object(*proxy));
    }
    let table = cx.image().find_table(ty).ok_or(NotReceived::Address(address))?;
    let proxy = match leaf {
        Leaf::Actor => {
            let class = table.info().actor().ok_or(NotReceived::Address(address))?;
            Actor::make_far(cx, class, address)?.word()
        }
        Leaf::Replier => Replier::make_far(cx, table, address)?.word(),
    };
    cx.actors().remote.proxies.insert(address, (proxy, 1));
    Ok(object(proxy))
}

/// Returns the object of this node at an address. An actor whose address another node chose may not
/// be born yet.
pub(crate) fn here(cx: &mut Cx, address: Address, ty: TypeId) -> Option<Word> {
    if cx.actors().remote.under_way {
        cx.actors().remote.searches.was_under_way(address.node, address);
    }
    let chosen_by = address.generation & 0xff;
    let found = match chosen_by {
        OWN => {
            let export = cx.actors().remote.exports.get(address.index as usize)?;
            (export.generation == address.generation >> 8 && export.word != 0).then_some(export.word)?
        }
        other => {
            let known = cx.actors().remote.born.get(other as usize - 1)?.get(&address.index);
            match known.map_or((0, false), |known| (known.word, known.created)) {
                // The actor was garbage.
                (0, true) => return None,
                (0, false) => reserve(cx, other - 1, address.index, ty)?,
                (known, _) => known,
            }
        }
    };
    // SAFETY: what others know are objects.
    let is = unsafe { Table::of(found) }.info().ty;
    (is == ty).then_some(found)
}

/// Makes an actor whose creation is still under way.
fn reserve(cx: &mut Cx, chosen_by: u32, index: u32, ty: TypeId) -> Option<Word> {
    let table = cx.image().find_table(ty)?;
    let class = table.info().actor()?;
    cx.actors().remote.heard_of(chosen_by, index)?;
    let actor = Actor::make(cx, table, class).ok()?;
    actor.enter_state(class, State::Active);
    cx.actors().remote.heard_of(chosen_by, index)?.word = actor.word();
    cx.actors().remote.names.insert(actor.word(), (chosen_by, index));
    if cx.actors().remote.is_lost(chosen_by) {
        // Its creation will not arrive any more. Others know the actor, so that it is kept.
        let _ = cx.failure(LOST);
        fail_creation(cx, actor);
    }
    Some(actor.word())
}
