//! The loss of nodes.

use std::ops::Range;

use bifrost_runtime::abi::Word;
use bifrost_runtime::cx::Cx;

use crate::answers::deliver_owed;
use crate::between::remote::{LOST, Remote};
use crate::between::rounds;
use crate::between::write::settle_open;
use crate::context::WithActors;
use crate::create::fail_creation;
use crate::exceptions::{Origin, kept_exception};
use crate::node::Work;
use crate::object::{Actor, Answer};
use crate::watch;

/// Notes that these nodes are lost.
///
/// - Requests to them fail, also later ones.
/// - The objects that they knew, and those that others have granted to them, are let go.
/// - Actors that they were about to make here fail as if their creator had failed.
/// - Their packets that are still under way are dropped.
pub(crate) fn lose(cx: &mut Cx, nodes: &Range<u32>) {
    settle_open(cx);
    cx.actors().lose_mailboxes(nodes);
    let node = cx.node();
    let remote = &mut cx.actors().remote;
    let count = remote.lost.len();
    remote.mark_lost(node, nodes);
    fail_awaited(cx, nodes);
    watch::lose(cx, nodes);
    fail_not_made(cx, nodes);
    for waiter in nodes.clone().flat_map(|node| cx.actors().remote.credit.lose(node)).collect::<Vec<_>>() {
        cx.actors().push(Work::Join(waiter));
    }
    let remote = &mut cx.actors().remote;
    remote.strike_known(nodes);
    if nodes.start as usize >= count {
        // The objects that a guest held together may be garbage now, and know each other.
        remote.searches.dropped += remote.known();
        return;
    }
    rounds::lose(cx);
}

impl Remote {
    /// Notes that nodes are lost, and drops the packets for them.
    fn mark_lost(&mut self, node: u32, nodes: &Range<u32>) {
        self.guests.retain(|guest| !nodes.contains(guest));
        self.to_guests.retain(|guest, _| !nodes.contains(guest));
        let within = self.within(nodes);
        self.lost[within.clone()].fill(true);
        self.close_outlet();
        self.outbox[within.clone()].iter_mut().for_each(Vec::clear);
        if !within.is_empty() {
            self.give_up_search(node);
        }
    }

    /// Returns the nodes among these that are no guests.
    fn within(&self, nodes: &Range<u32>) -> Range<usize> {
        let count = self.lost.len();
        (nodes.start as usize).min(count)..(nodes.end as usize).min(count)
    }

    /// Lets the objects go that only lost nodes knew.
    fn strike_known(&mut self, nodes: &Range<u32>) {
        let struck = (0..).zip(&mut self.exports).filter_map(|(index, export)| {
            let struck = export.word != 0 && export.strike(nodes);
            struck.then_some((index, export.generation))
        });
        for (index, generation) in struck.collect::<Vec<_>>() {
            self.take(index, generation);
        }
        let Remote { born, born_count, not_made, names, .. } = self;
        for born in born {
            born.retain(|_, export| {
                let struck = export.strike(nodes);
                if struck && !export.created {
                    not_made[export.origin as usize] -= 1;
                }
                if struck {
                    *born_count -= 1;
                    names.remove(&export.word);
                }
                !struck
            });
        }
    }
}

/// Fails the requests that wait for answers of lost nodes.
fn fail_awaited(cx: &mut Cx, nodes: &Range<u32>) {
    let exports = (0..).zip(&cx.actors().remote.exports);
    let asked = exports.filter(|(_, export)| export.asked.is_some_and(|node| nodes.contains(&node)));
    let asked: Vec<(u32, u32)> = asked.map(|(index, export)| (index, export.generation)).collect();
    for (index, generation) in asked {
        let remote = &mut cx.actors().remote;
        let owing = remote.exports[index as usize].awaited();
        remote.take(index, generation);
        let Some(owing) = owing else { continue };
        let _kept = cx.keep(owing.word());
        let _ = cx.failure(LOST);
        let kept = kept_exception(cx, &Origin::Runtime);
        deliver_owed(cx, owing, Answer::Exception(kept));
    }
}

/// Fails the actors that lost nodes were about to make here.
fn fail_not_made(cx: &mut Cx, nodes: &Range<u32>) {
    let remote = &cx.actors().remote;
    let born = remote.born[remote.within(nodes)].iter().flat_map(|born| born.values());
    let not_made: Vec<Word> =
        born.filter(|born| !born.created && born.word != 0).map(|born| born.word).collect();
    let _not_made = cx.keep_all(&not_made);
    for word in not_made {
        let _ = cx.failure(LOST);
        // SAFETY: others have made actors here, which are kept.
        fail_creation(cx, unsafe { Actor::new(word) });
    }
}
