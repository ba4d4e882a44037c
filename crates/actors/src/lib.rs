//! Actors: messages, answers, the order in which a node does its work, and what passes between
//! nodes (`docs/internals/actors.md`; 003 sections 3 and 4).
//!
//! A node is a context with a queue. [`Actors`] is the context's part that belongs to actors. A
//! message to a dormant actor is a call on the sender's stack ([`send()`]). A message to a busy
//! actor is queued, and so is one that comes too deep on the stack.
//!
//! A call that cannot answer yet ends with the outcome `Pending` and the object that owes the
//! answer. That is the queued message, or the join of the method that waits. Its caller writes the
//! destination of the answer there ([`owe`]), and goes on. So nothing is allocated for a request
//! that is answered at once. No frame is ever copied: the methods that wait unwind into joins, one
//! level after the other.
//!
//! The functions to read first are [`send()`] and `queue` for a message, [`answer`] and `suspend`
//! for a method that waits, and [`run_node`] for the queue. The objects are in [`object`], and
//! their fields in [`actor_layout`](bifrost_runtime::actor_layout).
//!
//! | caller | functions |
//! | --- | --- |
//! | code that sends | [`send()`], [`send_past`], [`create()`]; [`entries`] for machine code |
//! | code that gets `Pending` | [`owe`] |
//! | code of a method that may wait | [`pend`], [`entries::leave_code`] |
//! | the interpreter of such a method | [`begin`], [`answer`], [`take_message`] |
//! | the thread that runs the node | [`call_main`] |

mod answers;
mod between;
mod code;
mod context;
mod create;
mod cycles;
mod deferred;
mod end;
pub mod entries;
mod exceptions;
mod find;
mod host;
mod mailbox;
mod next;
mod node;
pub mod object;
mod others;
mod program;
mod queue;
mod run;
mod send;
mod timers;
mod trace;
mod watch;

pub use answers::{
    answer, begin_arm, delegate, delegate_early, deliver_now, end_arm, has_element, is_answered, keep_answer,
    new_replier, owe, store_element,
};
pub use between::guest::{
    ask, asked_at, forget_requests, has_open_requests, hold_messages, join, leave_messages, need_no_value,
    number_from, open_requests, post_messages, set_guest, set_open_max,
};
pub use between::kinds::{PACKETS, PacketKind};
pub use between::names::{grant, is_published, published, release};
pub use between::network::{Named, Names, Network, Observer, Packets, Placement, Received, Wait};
pub use between::outlet;
pub use between::placement::{LOOKS, tasks_of};
pub use between::requests::{Asked, Base, Wanted};
pub use between::tasks::{
    ToTasks, answer_from_task, begin_task, far_actor, native_address, read_for_tasks, take_arguments,
};
pub use code::{begin, go_on, goes_on_as_code, kept, layout_for, log_sent, next_request, pend};
pub use context::{WithActors, owing_of, pending, set_network, start_trace, take_trace};
pub use create::{Site, create};
pub use end::UNANSWERED;
pub use exceptions::{
    Concerned, Origin, first_exception, kept_exception, log_lost, note_exception, raise_kept,
};
pub use find::{Condition, Verdict, take_message};
pub use host::HOST;
pub use next::{Exit, LANDED, Next, given};
pub use node::Actors;
pub use object::{Actor, Answer, Call, Exception, Join, Mail, Message, Owing, Replier};
pub use others::must_make_way;
pub use program::{call_main, send_past};
pub use queue::{MAIL_LONG, bit_of};
pub use run::{run_node, step_node};
pub use send::{drop_answer, refused, send};
pub use timers::{end_timer, start_timer};
pub use trace::{EVENTS_MAX, Event, Trace, What};
pub use watch::ENDED;
