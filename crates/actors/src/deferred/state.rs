//! The state of the deferred messages of a node, and its monitored actors.

use std::collections::BTreeMap;

use bifrost_runtime::abi::Word;
use bifrost_runtime::transfer::Address;
use rustc_hash::FxHashMap;

use crate::object::{Actor, Message, Owing, Party, Replier};

/// The event at which a deferred message is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A time, once.
    Once,
    /// A time, and again after so many milliseconds.
    Every(i64),
    /// The end of an actor: its reason comes through this destination.
    End(Replier, Watched),
}

/// A monitored actor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched {
    /// One of this node. It is used only while the node's table of monitored actors has it.
    Here(Actor),
    /// One of another node.
    Far(Far),
}

/// The address and the type of a monitored actor of another node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Far {
    pub(crate) address: Address,
    pub(crate) ty: u32,
}

/// A deferred message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The template.
    pub(crate) message: Message,
    /// Its event.
    pub(crate) event: Event,
    /// The time at which it is sent next.
    pub(crate) time: i64,
    /// The object that owes the answer to the copy under way.
    pub(crate) sent: Option<Owing>,
}

impl Entry {
    /// True if the node keeps its objects.
    fn is_kept(&self) -> bool {
        !matches!(self.event, Event::End(..))
    }
}

/// The deferred messages of a node.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// By number.
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// The number of waiting timers that repeat.
    pub(crate) repeating: usize,
    /// True if the next message of the past form is caught.
    pub(crate) catches: bool,
    pub(crate) caught: Option<Message>,
    /// The destination of the answers.
    pub(crate) party: Option<Party>,
    /// The monitored actors of this node that have not ended, by the order in which that began.
    pub(crate) watched: FxHashMap<Actor, u64>,
    /// Monitored actors that a collection has found dead, and keeps until their watchers are
    /// told.
    pub(crate) died: Vec<Actor>,
    /// The virtual time, in a run whose order a seed decides: the last time to which it has jumped,
    /// less the time that its turns had taken then.
    pub(crate) jumped_ms: i64,
}

impl Deferred {
    /// Returns the objects that the node keeps for them.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Word> {
        let kept = self.entries.values().filter(|entry| entry.is_kept());
        let kept = kept.flat_map(|entry| [Some(entry.message.word()), entry.sent.map(Owing::word)]);
        let own = [self.caught.map(Message::word), self.party.map(Party::word)];
        kept.chain(own).flatten().chain(self.died.iter().map(|actor| actor.word()))
    }

    /// Forgets monitors whose destination was found dead: the actor is gone, and no watcher is
    /// left.
    pub(crate) fn collected(&mut self, lives: &dyn Fn(Word) -> bool) {
        self.entries.retain(|_, entry| match entry.event {
            Event::End(destination, _) => lives(destination.word()),
            Event::Once | Event::Every(_) => true,
        });
    }
}

/// Finds the monitored actors that only their watchers know, and has the collection keep them once
/// more. `step` says whether an object was found to live; it marks the
/// object first if its second argument is true.
pub(crate) fn find_dead(deferred: &mut Deferred, step: &mut dyn FnMut(Word, bool) -> bool) {
    let watched = deferred.watched.iter().map(|(actor, order)| (*order, *actor));
    let mut dead: Vec<(u64, Actor)> = watched.filter(|(_, actor)| !step(actor.word(), false)).collect();
    // The first one may keep others.
    dead.sort_unstable_by_key(|(order, _)| *order);
    let mut found = vec![];
    loop {
        let before = found.len();
        dead.retain(|(order, actor)| {
            let lives = step(actor.word(), false);
            let kept = !lives && has_living_watcher(*actor, step);
            if kept {
                step(actor.word(), true);
                found.push((*order, *actor));
            }
            !lives && !kept
        });
        if found.len() == before {
            break;
        }
    }
    found.sort_unstable_by_key(|(order, _)| *order);
    for (_, actor) in dead.into_iter().chain(found.iter().copied()) {
        deferred.watched.remove(&actor);
    }
    deferred.died.extend(found.into_iter().map(|(_, actor)| actor));
}

/// True if somebody is to be told of an actor's end: on another node, or an actor that lives.
fn has_living_watcher(actor: Actor, step: &mut dyn FnMut(Word, bool) -> bool) -> bool {
    let first = actor.mail().and_then(|post| post.watchers());
    std::iter::successors(first, |each| each.next()).any(|each| {
        let destination = each.destination();
        let message = destination.owing().to().and_then(|to| to.message());
        destination.is_far() || message.is_some_and(|message| step(message.receiver().word(), false))
    })
}
