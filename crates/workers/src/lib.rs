//! Jobs without threads of their own: workers, fibers, timers, waiting.
//!
//! A server has many sessions and few processors. A session that rests is a *job*: its state, and
//! a word that says whether something has happened to it. When something has, one of a few threads,
//! a *worker*, runs the job on a *fiber*: a large stack that goes on where it was, on any worker.
//! Read [`Workers`] first, then [`Work`].
//!
//! ```text
//!            ring: bytes, a bell, a time                 a worker takes it
//!  resting ------------------------------> queued ------------------------> running on a fiber
//!     ^                                      ^                                |   |   |
//!     |  Rest, and nothing has happened      |  Rest, but something has       |   |   |
//!     +--------------------------------------|--------------------------------+   |   |
//!                                            +------------------------------------+   |
//!        parked: the fiber keeps its stack, no worker        wait, or way made        |
//!        notified, or its time is over ----------> queued <---------------------------+
//! ```
//!
//! Code that waits inside a job uses [`Condvar`], which parks the fiber. On any other thread it
//! blocks the thread, so lower floors need not know where they run. A call of the system that
//! blocks goes into [`blocking`], and another worker takes its place. Code that runs long calls
//! [`make_way`] when it is asked to.
//!
//! ```text
//! pool     Workers, the queue, the loop of a worker
//! job      Job, its word, Handle
//! fiber    a stack that is left and entered again; the current one
//! stacks   the pool of stacks
//! parked   reasons for which fibers are parked
//! condvar  Condvar; a thread or a fiber that waits
//! timers   times at which something is rung
//! ticker   one thread: timers, long runs
//! ```
//!
//! *Absent:* streams and sessions; the meaning of what has happened.
//!
//! No value of a thread (`thread_local!`, a lock guard that belongs to its thread) may be held over
//! a wait: the fiber may go on at another worker. The guards of `parking_lot` belong to no thread.

mod condvar;
mod fiber;
mod job;
mod parked;
mod pool;
mod stacks;
mod ticker;
mod timers;

pub use condvar::{Condvar, sleep};
pub use fiber::{blocking, is_pressed, make_way, parked_ns, worker_number};
pub use job::{End, Events, Handle, Next, Work};
pub use parked::Reason;
pub use pool::{Counts, Options, SHORTAGE_TOLD_EVERY, STACKS_MAX, Workers, threads_default};
