//! The place of persistent objects: bytes, orefs and commits, and nothing of the language or of
//! sessions.
//!
//! Read [`Repository`] first, the calls that a session makes. Then read [`store::Store`], which
//! orders the commits of all engines of this crate that have their objects for themselves:
//! [`memory`] keeps objects in memory, [`embedded`] in a folder of files. [`postgres`] keeps them
//! in a database, which many processes share. [`record`] is the form of an object's state as bytes.
//!
//! A store is one sequence of commits. A transaction reads states that were current at some commit,
//! its *valid_to*. When it ends, it is compared with every commit since (optimistic, backward
//! validation), and becomes the next one, or nothing. All visible states are durable: no call ever
//! shows a state that a loss of power could take back.
//!
//! Implements the object repository of Bogle and Liskov 1994 (2: a persistent root, objects
//! reachable from it are kept, the storage of others is reclaimed; fetch and commit by versions).
//! The buffer of committed states between log and base is the modified object buffer of Ghemawat
//! (Thor).

#![forbid(unsafe_code)]

pub mod backup;
pub mod dump;
pub mod embedded;
mod error;
mod holders;
mod ids;
mod interface;
mod limits;
pub mod memory;
mod place;
pub mod postgres;
pub mod record;
pub mod store;
mod watchers;

pub use error::{CommitError, Error};
pub use holders::{Holder, Holders, Registration};
pub use ids::{BatchId, ClassNumber, Identity, Oref, Tid};
pub use interface::{
    AllObjects, Changes, Collected, Commit, Fetched, Gauges, Info, Mistake, ObjectSet, Progress, Report,
    Repository, Stored, go_on,
};
pub use limits::*;
pub use place::Place;
pub use watchers::{Watcher, Watching};
