//! A context and the parts of it that belong to actors.

use bifrost_runtime::abi::{Outcome, Ret};
use bifrost_runtime::cx::Cx;
use bifrost_runtime::image::Image;
use bifrost_runtime::node_host::NodeState;
use bifrost_runtime::node_words::NodeWords;

use crate::between::network::Network;
use crate::node::Actors;
use crate::object::Owing;
use crate::trace::{Trace, What};

/// Access to the actors of a context.
pub trait WithActors {
    /// Returns the actors of the context's node.
    ///
    /// # Panics
    /// In a context without an interpreter, which runs no code of actors.
    fn actors(&mut self) -> &mut Actors;

    /// Returns the same, with the words that machine code uses.
    ///
    /// # Panics
    /// As [`WithActors::actors`].
    fn actors_and_words(&mut self) -> (&mut Actors, &mut NodeWords);
}

impl WithActors for Cx {
    #[inline(always)]
    fn actors(&mut self) -> &mut Actors {
        self.actors_and_words().0
    }

    #[inline(always)]
    fn actors_and_words(&mut self) -> (&mut Actors, &mut NodeWords) {
        let (state, words) = self.node_state();
        (of(state), words)
    }
}

/// Returns the actors of a context.
#[inline(always)]
pub(crate) fn of(state: &mut NodeState) -> &mut Actors {
    // SAFETY: this is the one host of the process, whose states are `Actors`.
    unsafe { state.get_mut::<Actors>() }
}

/// Returns the outcome `Pending` with the object that owes the answer.
#[inline]
pub fn pending(owing: Owing) -> Ret {
    Ret { outcome: Outcome::Pending as u64, value: owing.word() }
}

/// Returns the object that came with an outcome `Pending` of the context's code.
#[inline(always)]
pub fn owing_of(ret: Ret) -> Owing {
    debug_assert!(ret.outcome() == Outcome::Pending, "an answer that is owed");
    // SAFETY: that is the meaning of the outcome.
    unsafe { Owing::new(ret.value) }
}

/// Returns the context's image, for as long as anything of this crate runs: the context keeps it.
/// So nothing is counted here; all contexts share one count.
pub(crate) fn image_of<'a>(cx: &Cx) -> &'a Image {
    // SAFETY: the context has the image as long as it lives, and nothing of this crate keeps the
    // reference longer than its context.
    unsafe { &*std::sync::Arc::as_ptr(cx.image()) }
}

/// Returns the clock, if the node is traced; else 0.
pub(crate) fn trace_clock(cx: &mut Cx) -> u64 {
    if cx.actors().is_traced() { cx.now_ns() } else { 0 }
}

/// Adds an event that began at `start_ns` to the trace, if the node is traced.
pub(crate) fn note(cx: &mut Cx, what: What, start_ns: u64) {
    if cx.actors().trace.is_some() {
        let now = cx.now_ns();
        if let Some(trace) = &mut cx.actors().trace {
            trace.add(what, start_ns, now);
        }
    }
}

/// Starts to keep a trace of a node's events.
pub fn start_trace(cx: &mut Cx) {
    cx.actors().trace = Some(Box::default());
    cx.words.looks_at_messages = true;
}

/// Returns the trace of the events since then, and ends it.
pub fn take_trace(cx: &mut Cx) -> Option<Trace> {
    cx.words.looks_at_messages = cx.actors().is_ordered();
    cx.actors().trace.take().map(|trace| *trace)
}

/// Lets a node reach others; [`Cx::set_node`] sets their number.
pub fn set_network(cx: &mut Cx, network: Box<dyn Network>, nodes: u32) {
    let (actors, words) = cx.actors_and_words();
    actors.set_network(words, network, nodes);
}
