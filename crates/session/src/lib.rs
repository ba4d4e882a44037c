//! One client's connection: handles, futures, checking, limits (the papers' Frontend).
//!
//! Bytes in, bytes out, no I/O: a server hands [`Session::handle`] the bytes that have arrived,
//! together with the context whose objects the session works on, and sends [`Session::output`]
//! back.
//!
//! Read [`Session`] first. Its work is in rooms, each with an `impl Session`:
//!
//! | file | room |
//! | --- | --- |
//! | [`work`] | the commands of a batch, and the run of the context |
//! | [`calls`], [`requests`] | single calls, and messages to actors |
//! | [`scan`], [`structure`], [`build`] | control structures: collected, checked whole, then run |
//! | [`procedures`] | batched procedures |
//! | [`modules`] | runs of modules of clients |
//! | [`transactions`], [`shipped`] | `commit` and `abort`; batches that are transactions |
//! | [`wait`] | a session rests until others change an object that it has read |
//! | [`silence`] | the memory that a session gives up while its client is silent |
//! | [`causes`], [`failures`] | the causes of failures, and their list |
//! | [`policy`] | the rights of a session |
//! | [`rows`], [`casts`] | tables of rows; objects seen as ones of other types |
//! | [`compounds`] | objects that cross by value |
//! | [`replies`] | outcomes, failures and the history as bytes |
//!
//! [`rules`] is the table of commands. [`tables`] turns the program into the numbers that commands
//! use; [`handles`] is the table H, [`futures`] the table F, [`earlier`] the results of the batches
//! before.
//!
//! The session trusts no input of a client. Every reference is looked up, and everything has a
//! limit. Every operand's type is checked before a call runs: for constant references by the
//! object's actual type, inside structures by the apparent type (000 section 6.3). The bytes that
//! it checks are in its own memory, where the client cannot change them any more.
//!
//! Sources: 000 chapters 2 to 6, 001 sections 3 to 5 and 7.

mod ahead;
mod build;
mod calls;
mod casts;
mod causes;
mod compounds;
mod earlier;
mod failures;
mod futures;
mod handles;
mod limits;
mod modules;
pub mod places;
mod policy;
mod procedures;
mod profile;
mod replies;
mod requests;
mod rows;
mod rules;
mod scan;
mod session;
mod shipped;
mod silence;
mod structure;
mod tables;
mod transactions;
mod undone;
mod wait;
mod work;

pub use bifrost_sandbox::IS_BUILT_IN as RUNS_MODULES;
pub use limits::Limits;
pub use places::{LoggedFailure, Shown};
pub use policy::{Names, Policy, RootNames};
pub use session::{Counters, Session, Welcome};
pub use tables::Tables;
