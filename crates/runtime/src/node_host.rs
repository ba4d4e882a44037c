//! The interface of a context to the actors of its node, which are on a higher floor.

use std::any::Any;
use std::ptr::NonNull;

use bifrost_heap::Marker;

use crate::abi::{Ret, Word};
use crate::cx::{Cx, Limits};
use crate::node_words::NodeWords;

/// The services that a context needs of the actors of its node. It has no state of its own: that is
/// the [`NodeState`] of each context.
///
/// # Safety
/// All hosts of a process make states of one type, so that code of actors may rely on it
/// ([`NodeState::get_mut`]).
pub unsafe trait NodeHost: Send + Sync {
    /// Makes the state of a new context, and sets the words that belong to it.
    fn new_state(&self, limits: &Limits, words: &mut NodeWords) -> NodeState;

    /// Makes a seed decide the order of the work, and the messages that are calls.
    fn set_order(&self, cx: &mut Cx, seed: u64);

    /// True if messages that nobody awaits leave later.
    fn holds_messages(&self, state: &mut NodeState) -> bool;

    /// Handles the end of the running code's time: notes it if others wait
    /// ([`NodeWords::turn_over`]).
    fn end_turn(&self, cx: &mut Cx);

    /// Runs others above passive code that has had its time. Returns the outcome `Returned` or
    /// `Killed`.
    ///
    /// # Safety
    /// `cx` is the current context; the caller keeps the objects that it needs.
    unsafe fn run_others(&self, cx: &mut Cx) -> Ret;

    /// Sends the messages and answers that a transaction of the program has held.
    fn leave_transaction(&self, cx: &mut Cx);

    /// Drops the messages and answers of a transaction that was aborted.
    fn drop_held(&self, state: &mut NodeState);

    /// Marks the objects that the node keeps alive.
    ///
    /// # Safety
    /// All of them are objects of the heap that the marker marks.
    unsafe fn trace(&self, state: &mut NodeState, marker: &mut Marker);

    /// Marks the objects that only other nodes keep alive, after all others were marked, and
    /// forgets those that were found dead. `node` is the number of this one.
    ///
    /// # Safety
    /// As for [`NodeHost::trace`].
    unsafe fn trace_known(&self, state: &mut NodeState, node: u32, marker: &mut Marker);

    /// Handles the end of a collection that began at `start_ns`.
    fn collected(&self, cx: &mut Cx, start_ns: u64);

    /// Enters an actor under a name that clients find it by, in place of the one that had it.
    ///
    /// # Errors
    /// The outcome to end with: nobody serves clients here, or there are too many names.
    ///
    /// # Safety
    /// `actor` is a reference to an actor.
    unsafe fn publish(&self, cx: &mut Cx, name: &str, actor: Word) -> Result<(), Ret>;

    /// Takes a name away. Returns true if some actor had it.
    ///
    /// # Errors
    /// The outcome to end with: nobody serves clients here.
    fn withdraw(&self, cx: &mut Cx, name: &str) -> Result<bool, Ret>;

    /// Returns the actor of a name, which the caller keeps.
    ///
    /// # Errors
    /// The outcome to end with: the heap is full.
    fn published(&self, cx: &mut Cx, name: &str) -> Result<Option<Word>, Ret>;

    /// Has the next message of the past form kept, for one of the functions below.
    ///
    /// # Errors
    /// The outcome to end with: code here has no timers and monitors.
    fn begin_catch(&self, cx: &mut Cx) -> Result<(), Ret>;

    /// Has the message that was kept sent after so many milliseconds, or again and again. Returns
    /// its number.
    ///
    /// # Errors
    /// The outcome to end with.
    fn start_timer(&self, cx: &mut Cx, ms: i64, repeats: bool) -> Result<i64, Ret>;

    /// Has the message that was kept sent when an actor has ended, with the reason as its last
    /// argument. Returns its number.
    ///
    /// # Errors
    /// The outcome to end with.
    ///
    /// # Safety
    /// `actor` is a reference to an actor.
    unsafe fn monitor(&self, cx: &mut Cx, actor: Word) -> Result<i64, Ret>;

    /// Takes a message of the number back. Returns true if there was one that will not be sent.
    fn cancel(&self, cx: &mut Cx, number: i64) -> bool;

    /// Ends an actor of this node when its method under way has ended.
    ///
    /// # Errors
    /// The outcome to end with: the heap is full.
    ///
    /// # Safety
    /// `actor` is a reference to an actor.
    unsafe fn stop(&self, cx: &mut Cx, actor: Word) -> Result<(), Ret>;
}

/// The state of a context's actors; its type is known to their host.
#[derive(Debug)]
pub struct NodeState {
    /// The owned value, which is [`Any`] only so that its type can be checked in tests.
    at: NonNull<dyn Any + Send>,
}

// SAFETY: it owns the value, which is `Send`.
unsafe impl Send for NodeState {}

impl NodeState {
    /// Takes over a state.
    pub fn new<T: Any + Send>(state: T) -> NodeState {
        let at: Box<dyn Any + Send> = Box::new(state);
        NodeState { at: NonNull::from(Box::leak(at)) }
    }

    /// Returns the state.
    ///
    /// # Safety
    /// `T` is the type that it was made with.
    #[inline(always)]
    pub unsafe fn get<T: Any + Send>(&self) -> &T {
        // SAFETY: it owns the value until it is dropped.
        debug_assert!(unsafe { self.at.as_ref() }.is::<T>(), "states of one type");
        // SAFETY: as above, and of the type by the caller's promise.
        unsafe { self.at.cast::<T>().as_ref() }
    }

    /// Returns the state, to change it.
    ///
    /// # Safety
    /// As for [`NodeState::get`].
    #[inline(always)]
    pub unsafe fn get_mut<T: Any + Send>(&mut self) -> &mut T {
        // SAFETY: it owns the value until it is dropped.
        debug_assert!(unsafe { self.at.as_ref() }.is::<T>(), "states of one type");
        // SAFETY: as above, and of the type by the caller's promise.
        unsafe { self.at.cast::<T>().as_mut() }
    }
}

impl Drop for NodeState {
    fn drop(&mut self) {
        // SAFETY: `new` has leaked the box, and nothing uses the value any more.
        drop(unsafe { Box::from_raw(self.at.as_ptr()) });
    }
}
