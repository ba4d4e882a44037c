//! Capsules: processes that run the actors of one program together (`docs/internals/capsules.md`).
//!
//! Each has as many nodes, which are threads ([`crate::nodes`]). Those of the capsule c are
//! numbered from c times that. The first capsule has `main`. Between any two there is one
//! connection, over shared memory, a unix or TCP socket, which one thread reads. A node that has
//! packets writes them, with all that others have added meanwhile.
//!
//! ```text
//! greeting   before a run, the listening side: Waiting; the types of both sides
//! joining    before a run, the first capsule: join, join_some
//! link       Links: the connections of a capsule while a program runs
//! peer       Peer: the bytes to and from one other capsule
//! ```
//!
//! The protocol of a run, and so the end of a run and the loss of capsules, is in `crate::mesh`.
//! These files move its bytes and carry out its events.

mod greeting;
mod joining;
mod link;
mod peer;
#[cfg(test)]
mod tests;

pub use crate::mesh::{CAPSULES_MAX, FRAMES, FrameKind, INBOX_BYTES_MAX, REPORT_BYTES_MAX, STALL_MS_MAX};
pub use greeting::{JoinError, Joined, Terms, Waiting};
pub use joining::{find_capsule, join, join_some};
pub(crate) use link::Links;

/// The time that a process that connects may take to introduce itself.
pub const GREETING_MS_MAX: u64 = 5_000;

/// The time that a capsule that was connected to may take to answer: it may still compile.
pub const ANSWER_MS_MAX: u64 = 30_000;

/// The time that a capsule which was found through a trader may take to answer: it has compiled.
pub const OFFERED_MS_MAX: u64 = 2_000;

/// The time that all capsules of a run may take to be connected with each other.
pub const MESH_MS_MAX: u64 = 60_000;

/// A capsule from which nothing has come for so long is lost.
pub const SILENCE_MS_MAX: u64 = 30_000;

/// A capsule that has nothing to say says so after this time.
pub const PING_MS: u64 = 5_000;

/// A capsule that takes none of the bytes written to it for so long is lost.
pub const WRITE_MS_MAX: u64 = 60_000;

/// With so many bytes waiting to be written to a capsule, a node that has more for it waits.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;

/// The time that the first capsule waits at the end for the reports of the others.
pub const REPORT_MS_MAX: u64 = 10_000;
