//! The end of actors, and the monitors that are told of it.
//!
//! An actor ends when its creator fails, when it has called `stop`, when a method of a class with
//! `stop when failure` fails, when it has become garbage, and when its node is lost. The method
//! under way goes on to its end: until then the mail has the reason ([`ask_to_end`]). Then the
//! actor gets a last turn, in which it enters the state `Failed`: it answers all messages with that
//! failure ([`end`]).
//!
//! A monitor is a [deferred message](crate::deferred) and a *destination*, a replier of strings.
//! The answer through it completes the message. The monitored actor has the destination in a list
//! in its mail, so the two live as long as the actor does. An actor of another node gets the
//! destination in a packet `WATCH`, as it would get any replier: what keeps it alive, what happens
//! when its node is lost, and that only the first answer counts are the same as for all repliers.
//!
//! | the actor | its watchers are told by |
//! | --- | --- |
//! | fails or ends | [`end`], in its last turn |
//! | is garbage | `find_dead`, which keeps it once more, and [`bury`] |
//! | is of a lost node | [`lose`], at the watcher's node |
//! | has ended before | [`monitor`] or [`accept_watch`](crate::between::watches), at once |

use std::ops::Range;

use bifrost_ir::{TypeId, TypeKind, Types};
use bifrost_runtime::abi::{Ret, Word};
use bifrost_runtime::actor_class::{ActorClass, State};
use bifrost_runtime::actor_layout::Due;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;

use crate::answers::deliver_owed;
use crate::between::remote::LOST;
use crate::between::watches;
use crate::context::{WithActors, image_of};
use crate::deferred;
use crate::deferred::state::{Entry, Event, Far, Watched};
use crate::exceptions::{Origin, kept_exception};
use crate::object::{Actor, Answer, Mail, Replier, Watcher};
use crate::queue::{ask_to_end, mail_of};
use crate::send::failed;

/// The failure of messages to an actor that has ended.
pub const ENDED: &str = "actor ended";

/// The failure of `monitor` with a functional actor: others may be used in its place.
const NEVER_ENDS: &str = "a functional actor does not end";

/// The failure of `monitor` with a native actor.
const NATIVE: &str = "a native actor cannot be monitored: it ends when nobody refers to it";

/// The failure of `monitor` in a program whose types lack that of its destinations. No checked
/// program is one.
const NO_MONITORS: &str = "the program has no monitors";

/// Returns the type of the destinations of monitors, if the program has monitors.
pub(crate) fn destination_type(cx: &Cx) -> Option<TypeId> {
    image_of(cx).program().types.find_instance(TypeKind::Replier(Types::STRING))
}

/// Sends the message that was caught when an actor has ended, with the reason as its last argument.
/// Returns its number.
///
/// # Errors
/// The outcome to end with.
pub(crate) fn monitor(cx: &mut Cx, actor: Actor) -> Result<i64, Ret> {
    let _actor = cx.keep(actor.word());
    let message = deferred::take_caught(cx)?;
    let _message = cx.keep(message.word());
    if actor.class().functional {
        return Err(cx.failure(NEVER_ENDS));
    }
    if actor.class().native {
        return Err(cx.failure(NATIVE));
    }
    let Some(table) = destination_table(cx) else { return Err(cx.failure(NO_MONITORS)) };
    let destination = Replier::make(cx, table).map_err(|full| cx.out_of_memory(full))?;
    let _destination = cx.keep(destination.word());
    let watched = match actor.is_far() {
        true => Watched::Far(Far { address: actor.address(), ty: actor.ty().as_u32() }),
        false => Watched::Here(actor),
    };
    let number = deferred::enter(cx, message, Event::End(destination, watched));
    let due = Due::new(0, false).of_request(number);
    destination.owing().set_destination(Some(message.party()), due, 0);
    match watched {
        Watched::Far(far) if cx.actors().remote.is_lost(far.address.node) => {
            tell_text(cx, destination, LOST);
        }
        Watched::Far(far) => watches::watch(cx, far, destination),
        Watched::Here(actor) => watch(cx, actor, destination)?,
    }
    Ok(deferred::public_number(cx, number))
}

/// Returns the table of the destinations of monitors.
pub(crate) fn destination_table(cx: &Cx) -> Option<&'static Table> {
    image_of(cx).find_table(destination_type(cx)?)
}

/// Enters a destination in the list of an actor of this node, or tells it at once that the actor
/// has ended.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub(crate) fn watch(cx: &mut Cx, actor: Actor, destination: Replier) -> Result<(), Ret> {
    let class = actor.class();
    if actor.state() == State::Failed {
        match actor.mail().map(|post| post.failure()) {
            Some(why) if why != 0 => tell(cx, destination, why),
            _ => tell_text(cx, destination, ENDED),
        }
        return Ok(());
    }
    let _actor = cx.keep(actor.word());
    let made = Watcher::make(cx, destination).map_err(|full| cx.out_of_memory(full))?;
    let post = mail_of(cx, class, actor, made.word()).map_err(|full| cx.out_of_memory(full))?;
    made.set_next(post.watchers());
    post.set_watchers(Some(made));
    let actors = cx.actors();
    actors.tokens += 1;
    let order = actors.tokens;
    actors.deferred.watched.entry(actor).or_insert(order);
    Ok(())
}

/// Takes a destination out of the list of an actor of this node.
pub(crate) fn unwatch(cx: &mut Cx, actor: Actor, is_it: &dyn Fn(Replier) -> bool) {
    if actor.class().functional {
        return;
    }
    let Some(post) = actor.mail() else { return };
    let (mut before, mut next) = (None::<Watcher>, post.watchers());
    while let Some(each) = next {
        next = each.next();
        if !is_it(each.destination()) {
            before = Some(each);
            continue;
        }
        match before {
            Some(before) => before.set_next(next),
            None => post.set_watchers(next),
        }
    }
    if post.watchers().is_none() {
        cx.actors().deferred.watched.remove(&actor);
    }
}

/// Ends the monitor of a deferred message that is taken back or was sent.
pub(crate) fn end_monitor(cx: &mut Cx, entry: &Entry) {
    let Event::End(destination, watched) = entry.event else { return };
    if destination.is_used() {
        return;
    }
    destination.set_used();
    match watched {
        Watched::Far(far) => watches::unwatch(cx, far, destination),
        Watched::Here(actor) if cx.actors().deferred.watched.contains_key(&actor) => {
            unwatch(cx, actor, &|other| other == destination);
        }
        Watched::Here(_) => {}
    }
}

/// Tells a destination why an actor has ended. Only the first time counts.
pub(crate) fn tell(cx: &mut Cx, destination: Replier, why: Word) {
    if destination.is_far() {
        watches::gone(cx, destination.address(), why);
    } else if !destination.is_used() {
        let _destination = cx.keep(destination.word());
        destination.keep(Answer::Value(why));
        deliver_owed(cx, destination.owing(), Answer::Value(why));
    }
}

/// Does the same with a text of the runtime.
pub(crate) fn tell_text(cx: &mut Cx, destination: Replier, why: &str) {
    let _destination = cx.keep(destination.word());
    let why = text_of(cx, why);
    let _why = cx.keep(why);
    tell(cx, destination, why);
}

/// Makes a string of a text of the runtime; an empty one if the heap is full.
fn text_of(cx: &mut Cx, text: &str) -> Word {
    cx.new_string(text).unwrap_or_else(|_| cx.image().empty_string())
}

/// Has an actor end as [`ask_to_end`] with the reason [`ENDED`]: the routine `stop`.
///
/// # Errors
/// The outcome to end with: the heap is full.
pub(crate) fn stop(cx: &mut Cx, actor: Actor) -> Result<(), Ret> {
    let _actor = cx.keep(actor.word());
    let why = cx.new_string(ENDED).map_err(|full| cx.out_of_memory(full))?;
    ask_to_end(cx, actor, why)
}

/// Ends an actor with the reason in its mail: it answers queued and later messages with that
/// failure, and its watchers are told.
#[cold]
pub(crate) fn end(cx: &mut Cx, actor: Actor, class: &ActorClass, post: Mail) {
    let _actor = cx.keep(actor.word());
    actor.enter_state(class, State::Failed);
    refuse_queued(cx, actor, class, post);
    deferred::receiver_ended(cx, actor);
    tell_watchers(cx, actor, post);
}

/// Answers the messages in the mail of an actor that has failed or ended.
pub(crate) fn refuse_queued(cx: &mut Cx, actor: Actor, class: &ActorClass, post: Mail) {
    for list in Mail::lists(class) {
        while let Some(sent) = post.first(list) {
            post.remove(list, None, sent);
            let _sent = cx.keep(sent.word());
            let _ = failed(cx, actor);
            let kept = kept_exception(cx, &Origin::Runtime);
            deliver_owed(cx, sent.owing(), Answer::Exception(kept));
        }
    }
}

/// Tells the watchers of an actor that it has ended, in the order in which they began.
pub(crate) fn tell_watchers(cx: &mut Cx, actor: Actor, post: Mail) {
    cx.actors().deferred.watched.remove(&actor);
    let first = post.watchers();
    post.set_watchers(None);
    let _first = cx.keep(first.map_or(0, Watcher::word));
    let watchers: Vec<Watcher> = std::iter::successors(first, |each| each.next()).collect();
    let why = post.failure();
    let why = if why == 0 { cx.image().empty_string() } else { why };
    for each in watchers.into_iter().rev() {
        tell(cx, each.destination(), why);
    }
}

/// Ends the actors that a collection has found dead.
#[cold]
pub(crate) fn bury(cx: &mut Cx) {
    let died = std::mem::take(&mut cx.actors().deferred.died);
    let words: Vec<Word> = died.iter().map(|actor| actor.word()).collect();
    let _died = cx.keep_all(&words);
    for actor in died {
        let Some(post) = actor.mail() else { continue };
        let why = text_of(cx, ENDED);
        post.set_failure(why);
        end(cx, actor, actor.class(), post);
    }
}

/// Tells the monitors of actors of lost nodes, and forgets watchers there.
pub(crate) fn lose(cx: &mut Cx, nodes: &Range<u32>) {
    let entries = cx.actors().deferred.entries.values();
    let lost = entries.filter_map(|entry| match entry.event {
        Event::End(destination, Watched::Far(far)) if nodes.contains(&far.address.node) => Some(destination),
        _ => None,
    });
    let lost: Vec<Replier> = lost.collect();
    let words: Vec<Word> = lost.iter().map(|destination| destination.word()).collect();
    let _lost = cx.keep_all(&words);
    for destination in lost {
        tell_text(cx, destination, LOST);
    }
    let watched: Vec<Actor> = cx.actors().deferred.watched.keys().copied().collect();
    for actor in watched {
        unwatch(cx, actor, &|other| other.is_far() && nodes.contains(&other.address().node));
    }
}
