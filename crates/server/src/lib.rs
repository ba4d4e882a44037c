//! A capsule: listeners, sessions, configuration.
//!
//! [`Server::start`] takes a compiled program and a [`Config`], makes the program's objects,
//! listens, and serves each connection on a thread of its own until [`Server::stop`].
//!
//! [`program`] reads Theta files; [`config`] gathers settings; [`objects`] opens the store;
//! [`space`] is the objects of a session. [`connections`] is the table of connections and their
//! bounds, [`hello`] the time before a session, and [`connection`] moves bytes between a stream and
//! a session. [`metrics`] tells the counts of sessions and store, in the form that Prometheus
//! reads.
//!
//! Deliberately absent is any knowledge of commands: bytes go to `session`, and its replies go
//! back.

mod active;
pub mod capsules;
mod collector;
pub mod config;
mod connection;
mod connections;
pub(crate) mod guests;
mod hello;
mod look;
pub mod memory;
pub mod metrics;
mod newcomers;
pub mod nodes;
pub mod objects;
mod process;
mod processors;
pub mod program;
mod server;
mod simulation;
pub mod space;
/// The atomics of the code that is model checked.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
}
pub mod text;

pub use bifrost_cache::Counted;
pub use config::{Config, ConfigError};
pub use objects::StoreError;
pub use server::{Server, StartError};
pub use space::{Space, Watch};
