//! The creation of actors, on this node or by way of another one.

use bifrost_ir::FuncId;
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::State;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;

use crate::between::placement::tasks_of;
use crate::between::write as packets;
use crate::code;
use crate::context::WithActors;
use crate::object::Actor;
use crate::queue::mail_of;
use crate::watch;

/// The failure where a native actor is made and nothing runs its methods.
const NO_TASKS: &str = "native actors need tasks, which there are none of here";

/// The place of a new actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Site {
    /// To this node.
    Here,
    /// To the node of that number.
    On(i64),
    /// To a node that is chosen. A functional actor goes to a node that has nothing to do, if the
    /// stack in its maker is high enough; else to this node. Any other goes to the node with the
    /// least load. The field is the stack pointer of the function that makes the actor.
    Anywhere(usize),
}

/// Makes an actor and runs its creator, or has that done elsewhere. Returns the reference, or the
/// outcome to end with. A creator that fails makes an actor that answers all messages with that
/// failure.
pub fn create(cx: &mut Cx, table: &'static Table, creator: u32, args: &mut [Word], site: Site) -> Ret {
    let native = table.info().actor().is_some_and(|class| class.native);
    let node = match site {
        _ if native => tasks_of(cx.nodes()),
        // A guest has no actors.
        Site::Here | Site::Anywhere(_) if cx.is_guest() => cx.actors().remote.home(),
        Site::Here => cx.node(),
        Site::On(node) if (0..i64::from(cx.nodes())).contains(&node) => node as u32,
        Site::On(node) => {
            let nodes = cx.nodes();
            return cx.failure(&format!("there is no node {node}: nodes() is {nodes}"));
        }
        Site::Anywhere(_) if cx.words.spreads == 0 => cx.node(),
        Site::Anywhere(stack) if lasts(table) => {
            let own = cx.node();
            cx.actors().node_for_lasting(own, stack as Word)
        }
        Site::Anywhere(stack) => {
            let own = cx.node();
            let (actors, words) = cx.actors_and_words();
            actors.node_for_new(words, stack).unwrap_or(own)
        }
    };
    if native && !cx.actors().remote.has_native(node) {
        return cx.failure(NO_TASKS);
    }
    if node != cx.node() {
        let ret = packets::create(cx, table, creator, args, node);
        if let Site::Anywhere(_) = site
            && !lasts(table)
            && !native
        {
            cx.actors().remote.gives(node);
        }
        return ret;
    }
    let class = table.info().actor().expect("a class of actors");
    if let Site::On(_) = site {
        // It is counted as those that are placed on other nodes, functional or not.
        cx.actors().remote.placement.made(node);
    }
    let actor = match Actor::make(cx, table, class) {
        Ok(actor) => actor,
        Err(full) => return cx.out_of_memory(full),
    };
    args[0] = actor.word();
    let _kept = cx.keep(actor.word());
    cx.words.stats.created += 1;
    let ret = bear(cx, actor, class.creators[creator as usize], args);
    if ret.returned() { Ret::of(actor.word()) } else { ret }
}

/// True if the actors of a class keep to their node: those that are not functional, whose messages
/// need the actor itself.
fn lasts(table: &Table) -> bool {
    table.info().actor().is_some_and(|class| !class.functional)
}

/// Runs the creator of an actor. Returns the outcome `Returned` or `Killed`.
pub(crate) fn bear(cx: &mut Cx, actor: Actor, creator: FuncId, args: &[Word]) -> Ret {
    let ret = code::run(cx, creator, args);
    match ret.outcome() {
        Outcome::Returned | Outcome::Killed => ret,
        _ => {
            fail_creation(cx, actor);
            Ret::NOTHING
        }
    }
}

/// Marks an actor as failed, because its creator has failed with the exception in the context.
/// Queued and later messages are answered with it.
pub(crate) fn fail_creation(cx: &mut Cx, actor: Actor) {
    let why = cx.signal_values[0];
    let _why = cx.keep(why);
    cx.keep_places(actor.word());
    let class = actor.class();
    actor.set_state(State::Failed);
    let Ok(post) = mail_of(cx, class, actor, actor.word()) else { return };
    post.set_failure(why);
    watch::refuse_queued(cx, actor, class, post);
    watch::tell_watchers(cx, actor, post);
}
