//! Tasks: threads for work that may block, on one central queue (004 sections 4.1 and 4.2).
//!
//! The work belongs to *exports*: each is a served object, with the number of its invocations that
//! may run at once. A task takes the next invocation of an export that is ready:
//!
//! ```text
//! push      counts the waiting ones of its export (QLENGTH, 004 section 6.2), and queues it
//! ready     something waits, fewer are active than may be, and nothing runs alone
//! take      of the ready exports that with the highest priority; within it the highest priority;
//!           within that clients take turns; of a client the oldest. Each second of waiting is one
//!           priority. Counts the active ones of the export (NACTIVE)
//! done      the export may be ready again
//! ```
//!
//! An invocation that nobody wants any more, or whose time is over, is dropped unrun. The number of
//! tasks is fixed: a task that stays in one invocation too long is reported and replaced, so often
//! as there are tasks.
//!
//! Read [`Queue`] first, the state machine: it is given the time. [`Pool`] has the threads, the
//! lock and the timers. [`Counts`] are the figures of an export.
//!
//! Deliberately absent are the meaning of the work, and any crate of the project.

mod counts;
mod hall;
mod pool;
mod queue;
mod sync;
mod timers;

pub use counts::{BOUNDS_US, Counts, End, Histogram};
pub use pool::{Host, Pool, Settings, Timer};
pub use queue::{Dropped, Export, ExportId, Limits, PRIORITIES, Queue, Refused, Taken, Work};
