//! The objects of a session that are also in the repository: faulting, modes, transactions.
//!
//! Read [`Cache`]. A session's context ([`Cx`](bifrost_runtime::Cx)) has objects that stand for persistent ones; each has a
//! number in its header, which is its place in the cache's table and leads to its oref. One that is not here is *absent*: its
//! table has it fetched at the first touch ([`bifrost_runtime::mode`]). What a transaction reads and writes, the tables note;
//! at its end the cache sends the new states, and those of new objects that persistent ones refer to now, to the repository.
//!
//! The rule of the cache: `valid_to` is the last commit all of whose changes have been applied here; a state
//! as of a later one is used only after the changes up to there have been. So all that a transaction sees is from one moment. No
//! store is kept waiting while a session thinks: its snapshot is what it has.
//!
//! What is not here is asked for together with what will probably be next (`ahead`); what is here and was not used for long becomes
//! absent again when there is too much (`residents`). An absent object keeps its identity and its place, so nobody notices.
//!
//! [`schema`] says which class of the program is which class of the repository, `encode` and `decode` turn objects into
//! records and back.
//!
//! Sources: Bogle and Liskov 1994, 2 (objects become persistent by being reachable from a root, optimistic transactions), 4 (what the
//! batch will do is known); `docs/book/persistence.md`.
//!
//! What is deliberately absent: clients, files, the clock.

mod ahead;
mod cache;
mod counters;
mod decode;
mod encode;
mod migration;
mod residents;
pub mod schema;

pub use ahead::Prefetch;
pub use cache::{Cache, MIGRATIONS_MAX, NotCommitted, Options};
pub use counters::{Counted, Counters, TIME_BOUNDS_US, Times};
pub use schema::{Report, Schema, SchemaError};
