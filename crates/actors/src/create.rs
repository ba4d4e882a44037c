//! The creation of actors, on this node or by way of another one.

use bifrost_ir::FuncId;

use crate::host::WithActors;
use crate::{
    Answer, Origin, State, class_of, code, deliver_owed, failed, mail_of, packets, remove, set_state,
};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_layout::mail;
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Table;
use bifrost_runtime::object::{get, set};

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
///
/// # Safety
/// `cx` is the current context, and `table` that of a class of actors. `args` are the arguments of
/// its creator, with a free word for the actor at first; the caller keeps them.
pub unsafe fn create(cx: *mut Cx, table: &'static Table, creator: u32, args: &mut [Word], site: Site) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let node = match site {
            // A guest has no actors.
            Site::Here | Site::Anywhere(_) if (*cx).is_guest() => (*cx).actors().remote.home(),
            Site::Here => (*cx).node(),
            Site::On(node) if (0..i64::from((*cx).nodes())).contains(&node) => node as u32,
            Site::On(node) => {
                let nodes = (*cx).nodes();
                return (*cx).failure(&format!("there is no node {node}: nodes() is {nodes}"));
            }
            Site::Anywhere(_) if (*cx).words.spreads == 0 => (*cx).node(),
            Site::Anywhere(stack) if lasts(table) => {
                let own = (*cx).node();
                (*cx).actors().node_for_lasting(own, stack as Word)
            }
            Site::Anywhere(stack) => {
                let (actors, words) = (*cx).actors_and_words();
                actors.node_for_new(words, stack).unwrap_or((*cx).node())
            }
        };
        if node != (*cx).node() {
            let ret = packets::create(cx, table, creator, args, node);
            if let Site::Anywhere(_) = site
                && !lasts(table)
            {
                (*cx).actors().remote.gives(node);
            }
            return ret;
        }
        let class = table.info().actor().expect("a class of actors");
        if let Site::On(_) = site {
            // It is counted as those that are placed on other nodes, functional or not.
            (*cx).actors().remote.placement.made(node);
        }
        let actor = match (*cx).alloc(table, class.mail + 1) {
            Ok(actor) => actor.as_ptr() as Word,
            Err(full) => return (*cx).out_of_memory(full),
        };
        args[0] = actor;
        let _kept = (*cx).keep(actor);
        (*cx).words.stats.created += 1;
        let ret = bear(cx, actor, class.creators[creator as usize], args);
        if ret.returned() { Ret::of(actor) } else { ret }
    }
}

/// True if the actors of a class keep to their node: those that are not functional, whose messages
/// need the actor itself.
fn lasts(table: &Table) -> bool {
    table.info().actor().is_some_and(|class| !class.functional)
}

/// Runs the creator of an actor. Returns the outcome `Returned` or `Killed`.
pub(crate) unsafe fn bear(cx: *mut Cx, actor: Word, creator: FuncId, args: &[Word]) -> Ret {
    // SAFETY: promised by the caller: the words are the actor and what the creator takes, and are
    // kept.
    unsafe {
        let ret = code::run(cx, creator, args);
        match Outcome::from(ret) {
            Outcome::Returned | Outcome::Killed => ret,
            _ => {
                fail_creation(cx, actor);
                Ret::NOTHING
            }
        }
    }
}

/// Ends as [`create`] when the creator of an actor has failed in machine code.
///
/// # Safety
/// `cx` is the current context with the exception, and `actor` the new actor.
pub unsafe extern "C" fn enter_failed_creation(cx: *mut Cx, actor: Word) -> Ret {
    // SAFETY: promised by the caller.
    unsafe {
        let _actor = (*cx).keep(actor);
        fail_creation(cx, actor);
    }
    Ret::NOTHING
}

/// Marks an actor as failed, because its creator has failed with the exception in the context.
/// Queued and later messages are answered with it.
pub(crate) unsafe fn fail_creation(cx: *mut Cx, actor: Word) {
    // SAFETY: promised by the caller: an actor.
    unsafe {
        let why = (*cx).signal_values[0];
        let _why = (*cx).keep(why);
        let class = class_of(actor);
        set_state(actor, State::Failed);
        let Ok(post) = mail_of(cx, crate::class_of(actor), actor, actor) else { return };
        set(post, mail::FAILURE, why);
        for list in (mail::LISTS..mail::fields(class.lists)).step_by(2) {
            while let sent @ 1.. = get(post, list) {
                remove(post, list, 0, sent);
                let _sent = (*cx).keep(sent);
                let _ = failed(cx, actor);
                let kept = crate::exceptions::kept_exception(&mut *cx, &Origin::Runtime);
                deliver_owed(cx, sent, Answer::Exception(kept));
            }
        }
    }
}
