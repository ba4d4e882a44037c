//! Connections of sessions: those of `bifrost_client`, which move between threads where sessions
//! do.

pub use bifrost_client::{Connection, ConnectionError};

/// A connection of a session that belongs to one thread.
#[cfg(not(feature = "async"))]
pub type Link = dyn Connection;

/// A connection of a session that moves between threads.
#[cfg(feature = "async")]
pub type Link = dyn Connection + Send;
