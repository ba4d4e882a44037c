//! Capsules: processes that run the actors of one program together (`docs/internals/capsules.md`).
//!
//! Each has as many nodes, which are threads ([`crate::nodes`]); those of the capsule c are numbered from c times that. The first capsule has
//! `main`. Between any two there is one connection, over a unix or TCP socket, of which one thread reads; whoever has packets writes them, with all
//! that others have added meanwhile.
//!
//! ```text
//! greeting   who takes part, and in what: join, Waiting
//! frame      what goes through a connection, as bytes
//! link       Links: the connections of a capsule while a program runs
//! ```
//!
//! That nothing can happen any more is found by counts: a capsule whose nodes all rest says how many batches it has sent to each other and has
//! received from each. When the first capsule has such a word of all, and what one has sent the other has received, for each two, then
//! nothing is under way and nobody has anything to do (Mattern's method of channel counts). No word needs to be taken back: had somebody
//! who rested been woken since, a batch would be missing. And a capsule that is lost is simply left out, with all that it has sent and received.
//!
//! A capsule whose connection ends, that says nothing for [`SILENCE_MS_MAX`], or that sends what cannot be understood, is lost. Whoever
//! sees it tells the first capsule, which tells all others; so all see the same. A capsule that loses the first one ends.

mod frame;
mod greeting;
mod link;
#[cfg(test)]
mod tests;

pub use greeting::{JoinError, Joined, Terms, Waiting, join};
pub(crate) use link::Links;

/// Most capsules of a run.
pub const CAPSULES_MAX: u32 = 64;

/// How long somebody who connects may take to say who it is.
pub const GREETING_MS_MAX: u64 = 5_000;

/// How long a capsule that was connected to may take to answer: it may still compile.
pub const ANSWER_MS_MAX: u64 = 30_000;

/// How long all capsules of a run may take to be connected with each other.
pub const MESH_MS_MAX: u64 = 60_000;

/// A capsule from which nothing has come for so long is lost.
pub const SILENCE_MS_MAX: u64 = 30_000;

/// A capsule that has nothing to say says so after this time.
pub const PING_MS: u64 = 5_000;

/// A capsule that takes nothing of what is written to it for so long is lost.
pub const WRITE_MS_MAX: u64 = 60_000;

/// With so many bytes waiting to be written to a capsule, whoever has more for it waits.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;

/// With so many bytes waiting for the nodes of a capsule, nothing more is read from others.
pub const INBOX_BYTES_MAX: usize = 1 << 30;

/// If none of these was taken for so long, the capsule that sends more is given up.
pub const STALL_MS_MAX: u64 = 30_000;

/// How long the first capsule waits at the end for what the others have to report.
pub const REPORT_MS_MAX: u64 = 10_000;

/// Most bytes of a report.
pub const REPORT_BYTES_MAX: usize = 256 << 20;
