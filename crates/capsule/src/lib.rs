//! Nodes of a program: threads with contexts and actors of their own, in one process or several.
//!
//! [`space`] is a context with its lock. [`nodes`] runs the nodes of this process, [`capsules`]
//! joins processes that run one program together, and [`newcomers`] bounds the connections that
//! have not greeted yet.
//!
//! ```text
//! nodes        Nodes: the threads; nodes/port is a node's part of the network
//!   |    \
//!   |     simulation   nodes of one thread, in the order of a seed
//! capsules     greeting makes the connections; link and peer are their threads
//!   |    \
//!   |     mesh         the protocol between capsules: frames in, events and frames out; pure
//! shared       Shared: the nodes' mail, and their view of each other; active, look, processors
//! ```
//!
//! Files of an upper line use those of lower lines only. Deliberately absent: sessions, commands,
//! stores, settings.

mod active;
pub mod capsules;
mod look;
mod mesh;
pub mod newcomers;
pub mod nodes;
mod processors;
mod shared;
mod simulation;
pub mod space;
pub mod tasks;
/// The atomics of the code that is model checked.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
}

pub use space::{Space, SpaceGuard, Watch};
