//! The objects of a session that are also in the repository: faulting, modes, transactions.
//!
//! Read [`Cache`]. A session's context ([`Cx`](bifrost_runtime::Cx)) has objects that stand for
//! persistent ones. Each has a number in its header, which is its place in the cache's table and
//! leads to its oref. One that is not here is *absent*: its table has it fetched at the first touch
//! ([`bifrost_runtime::mode`]). The tables note the reads and writes of a transaction. At its end
//! the cache sends the new states to the repository, and those of new objects that persistent ones
//! refer to now.
//!
//! The rule of the cache: `valid_to` is the last commit all of whose changes have been applied
//! here. A state as of a later one is used only after the changes up to there have been applied. So
//! all that a transaction sees is from one moment. No store is kept waiting while a session thinks:
//! its snapshot is its cache.
//!
//! An absent object is asked for together with those that will probably be next (`ahead`). An
//! object that was not used for long becomes absent again when there are too many (`residents`). It
//! keeps its identity and its place, so no code notices. While the client is silent, objects give
//! up their places, too (`silence`).
//!
//! [`schema`] maps the classes of the program to those of the repository, `encode` and `decode`
//! turn objects into records and back. [`NotCommitted`] has the reasons why a transaction fails.
//!
//! Sources: Bogle and Liskov 1994, 2 (objects become persistent by being reachable from a root,
//! optimistic transactions), 4 (the work of the batch is known); `docs/book/persistence.md`.
//!
//! Deliberately absent are clients, files, and the clock.

mod ahead;
mod cache;
mod counters;
mod decode;
mod encode;
mod error;
mod fetching;
mod migration;
mod residents;
pub mod schema;
mod sets;
mod silence;
#[cfg(test)]
mod tests;

pub use ahead::Prefetch;
pub use cache::{Cache, MIGRATIONS_MAX, Options};
pub use counters::{Counted, Counters, TIME_BOUNDS_US, Times};
pub use error::{NotCommitted, OVERTAKEN_MAX, Volatile};
pub use schema::{Report, Schema, SchemaError};
