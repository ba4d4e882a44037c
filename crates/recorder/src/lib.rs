//! The recorder of a client: calls become a batch, the reply becomes knowledge about stubs.
//!
//! It does no input or output, and knows no clock, threads or sockets: bytes go out of it and come
//! into it. A client library is a typed layer over it that moves the bytes: `bifrost-veneer` for
//! Rust. Every client language records the same commands and has the same knowledge after a reply:
//! `vectors/recorder/`.
//!
//! [`Recorder`] is the type to read first. A stub is the number of a [`Slot`]; the caller counts
//! its stubs with `retain` and `release`.
//!
//! # Interface
//!
//! | the caller | the recorder |
//! | --- | --- |
//! | makes a [`Greeting`], moves bytes | says hello, reads the limits, matches numbers |
//! | asks [`is_ready`], else [`due`], and does that | says [`Due`]: send, flush or nothing |
//! | calls [`call`], [`lookup`], [`cell`], ... | appends the command, or refuses it |
//! | takes [`new_result`], or [`new_failed`] | makes the slot of a future, or of a failure |
//! | calls [`open`], [`condition`], [`end`], [`reopen`] | sends the structure whole, or nothing |
//! | sends [`bytes_to_send`], calls [`sent`] | gives whole commands |
//! | calls [`begin_flush`] | ends the batch: frees, wanted futures |
//! | hands in [`handle_bytes`] | reads the reply, cut anywhere; fills the slots |
//! | asks [`known`], [`claim`], [`surface`] | tells values, handles and failures |
//! | asks [`explain`], [`advice`] | tells what was recorded, and what would have saved crossings |
//! | calls [`close`] | gives every stub without a result the reason |
//!
//! The recording functions take an [`Admission`]: the outcome of the second row, or the error with
//! which the connection failed. A refused call is in the history, and its stubs have the error.
//!
//! [`is_ready`]: Recorder::is_ready
//! [`due`]: Recorder::due
//! [`call`]: Recorder::call
//! [`lookup`]: Recorder::lookup
//! [`cell`]: Recorder::cell
//! [`new_result`]: Recorder::new_result
//! [`new_failed`]: Recorder::new_failed
//! [`open`]: Recorder::open
//! [`condition`]: Recorder::condition
//! [`end`]: Recorder::end
//! [`reopen`]: Recorder::reopen
//! [`bytes_to_send`]: Recorder::bytes_to_send
//! [`sent`]: Recorder::sent
//! [`begin_flush`]: Recorder::begin_flush
//! [`handle_bytes`]: Recorder::handle_bytes
//! [`known`]: Recorder::known
//! [`claim`]: Recorder::claim
//! [`surface`]: Recorder::surface
//! [`explain`]: Recorder::explain
//! [`advice`]: Recorder::advice
//! [`close`]: Recorder::close
//!
//! # States
//!
//! - *Recording*: the batch grows. In an open structure, and in a batch that is a transaction,
//!   nothing is sent.
//! - *Closed*: by `close`, an error of the server, or a reply that makes no sense. Every call is
//!   refused with the reason.
//!
//! A batch is *under way* from `begin_flush` until `handle_bytes` returns true for it; answers come
//! in order. The next batch is recorded meanwhile, and may use the stubs of those under way if
//! their flush was `kept`. [`is_crowded`] says that a flush must wait for an answer first.
//!
//! [`is_crowded`]: Recorder::is_crowded
//!
//! # Place
//!
//! Errors name the place in the source where the program made a call. Its type is the caller's: any
//! [`Source`], as a location, a file with a line, or a number.
//!
//! # Invariants
//!
//! A recorded call allocates nothing once the tables have grown, unless an argument has items. A
//! structure is sent whole or not at all. Bytes of the server never panic. No failure is passed
//! over: [`Error::Unseen`] tells the failures that no stub is left to tell.

#![forbid(unsafe_code)]

mod call;
mod crossing;
mod error;
mod explain;
mod greeting;
mod modules;
mod procedure;
mod recorder;
mod seen;
mod slots;
mod structures;
mod stubs;
mod tables;
mod transaction;
mod under_way;

pub use call::{ARGUMENTS_MAX, Compose, Operand, Owner};
pub use crossing::LastWords;
pub use error::{
    CAUSES_MAX, CallName, Closed, Error, ErrorValue, Exception, FailurePlace, FailurePlaces, GreetError,
    Misuse,
};
pub use explain::{ACCOUNTS, Account, Advice, Cause, EXPLAINED_BYTES, LOOKED_AT, Ran};
pub use greeting::Greeting;
pub use modules::Function;
pub use procedure::MARKER_BYTES;
pub use recorder::{
    Admission, Counters, Due, HISTORY_MAX, Maker, PUBLISH_BYTES, REMAP_FUTURES, Recorded, Recorder, Settings,
};
pub use slots::{Came, Known, Slot};
pub use structures::{Block, Ended, Iteration, Jump, Structure};
pub use stubs::{BasicNumbers, BuiltinNumbers, CellNumbers, Heading, Numbers, Stubs};

/// A place in the source of a program, as its caller has it.
pub trait Source: Copy + PartialEq + std::fmt::Debug + std::fmt::Display + 'static {}

impl<T: Copy + PartialEq + std::fmt::Debug + std::fmt::Display + 'static> Source for T {}
