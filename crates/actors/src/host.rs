//! The actors of a node as its context sees them.

use bifrost_heap::{Marker, Reference};
use bifrost_runtime::abi::{Ret, Word};
use bifrost_runtime::cx::{Cx, Limits};
use bifrost_runtime::node_host::{NodeHost, NodeState};
use bifrost_runtime::node_words::NodeWords;

use crate::between::names;
use crate::context::{self, WithActors, of};
use crate::node::Actors;
use crate::object::Actor;
use crate::trace::What;
use crate::{cycles, deferred, mailbox, others, program, watch};

/// The host that contexts of programs with actors get their state from
/// ([`Interpreter::node_host`](bifrost_runtime::Interpreter::node_host)).
pub static HOST: &dyn NodeHost = &Host;

#[derive(Debug)]
struct Host;

// SAFETY: there is no other host, and its states are `Actors`.
unsafe impl NodeHost for Host {
    fn new_state(&self, limits: &Limits, words: &mut NodeWords) -> NodeState {
        let mut actors = Actors::default();
        mailbox::set_bytes(&mut actors, limits);
        words.outlet = actors.remote.outlet.address();
        NodeState::new(actors)
    }

    fn set_order(&self, cx: &mut Cx, seed: u64) {
        cx.actors().set_order(seed);
        cx.words.looks_at_messages = true;
        // Each new actor is asked for.
        cx.words.gives_at = 0;
    }

    fn holds_messages(&self, state: &mut NodeState) -> bool {
        let actors = of(state);
        actors.guest.is_closed() || actors.deferred.catches
    }

    fn end_turn(&self, cx: &mut Cx) {
        cycles::look_in_time(cx);
        if others::others_wait(cx) {
            cx.words.turn_over = true;
        }
    }

    unsafe fn run_others(&self, cx: &mut Cx) -> Ret {
        if cx.actors().is_ordered() || !others::must_make_way(cx) {
            return Ret::NOTHING;
        }
        others::run_others(cx)
    }

    fn leave_transaction(&self, cx: &mut Cx) {
        program::leave_transaction(cx);
    }

    fn drop_held(&self, state: &mut NodeState) {
        of(state).drop_held();
    }

    unsafe fn trace(&self, state: &mut NodeState, marker: &mut Marker) {
        for word in of(state).roots() {
            // SAFETY: the node keeps objects of its heap, by the caller's promise.
            marker.root(unsafe { Reference::of(word) });
        }
    }

    unsafe fn trace_known(&self, state: &mut NodeState, node: u32, marker: &mut Marker) {
        // SAFETY: all objects that the state knows are of the heap, by the caller's promise.
        unsafe {
            let actors = of(state);
            actors.trace_known(node, marker);
            actors.collected(node, marker.live_bytes(), &|object| marker.lives(Reference::new(object)));
        }
    }

    fn collected(&self, cx: &mut Cx, start_ns: u64) {
        context::note(cx, What::Collection, start_ns);
    }

    unsafe fn publish(&self, cx: &mut Cx, name: &str, actor: Word) -> Result<(), Ret> {
        // SAFETY: the routine's heading says that it is an actor.
        names::publish(cx, name, unsafe { Actor::new(actor) })
    }

    fn withdraw(&self, cx: &mut Cx, name: &str) -> Result<bool, Ret> {
        names::withdraw(cx, name)
    }

    fn published(&self, cx: &mut Cx, name: &str) -> Result<Option<Word>, Ret> {
        Ok(names::published(cx, name)?.map(Actor::word))
    }

    fn begin_catch(&self, cx: &mut Cx) -> Result<(), Ret> {
        deferred::begin_catch(cx)
    }

    fn start_timer(&self, cx: &mut Cx, ms: i64, repeats: bool) -> Result<i64, Ret> {
        deferred::start(cx, ms, repeats)
    }

    unsafe fn monitor(&self, cx: &mut Cx, actor: Word) -> Result<i64, Ret> {
        // SAFETY: the routine's heading says that it is an actor.
        watch::monitor(cx, unsafe { Actor::new(actor) })
    }

    fn cancel(&self, cx: &mut Cx, number: i64) -> bool {
        deferred::cancel(cx, number)
    }

    unsafe fn stop(&self, cx: &mut Cx, actor: Word) -> Result<(), Ret> {
        // SAFETY: the routine's heading says that it is an actor.
        watch::stop(cx, unsafe { Actor::new(actor) })
    }
}
