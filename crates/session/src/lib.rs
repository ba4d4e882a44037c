//! One client's connection: handles, futures, checking, limits (the papers' Frontend).
//!
//! Bytes in, bytes out, no I/O: a server hands [`Session::handle`] the bytes that have arrived,
//! together with the context whose objects the session works on, and sends [`Session::output`]
//! back.
//!
//! Read [`Session`] first. [`tables`] turns the program into the numbers that commands use;
//! [`handles`] is the table H, [`futures`] the table F. [`structure`] collects a control structure
//! up to its end marker, and has it checked whole before it runs. [`calls`] runs single calls as
//! they arrive.
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
mod failures;
mod futures;
mod handles;
mod limits;
mod replies;
mod requests;
mod session;
mod shipped;
mod structure;
mod tables;
mod transactions;
mod undone;

pub use limits::Limits;
pub use session::{Counters, Session, Welcome};
pub use tables::Tables;
