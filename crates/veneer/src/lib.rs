//! The Rust veneer: the library that a client program is linked with.
//!
//! A program calls generated stubs. Each call is *recorded*: it appends a command to the batch and
//! returns at once. Its result is a stub, which can be the receiver or an argument of the next
//! call. Nothing crosses until a value is [claimed](Promise::claim) or the session is
//! [flushed](Session::flush); then the whole batch crosses once.
//!
//! The recorder itself is the crate `bifrost-recorder`; this one is the typed layer over it.
//!
//! Read [`Session`] first, then [`Promise`]. Loops and conditions cross too: [`Session::while_`],
//! [`Session::if_`], [`Session::foreach`], [`Session::except`], [`Session::procedure`], with
//! [`Cell`] for values that change inside them.
//!
//! ```text
//! session      open, flush, close; the server's description of itself
//! live         a recorder and its connection: sends, waits, reads
//! shared       counts and borrows of one thread, or of several
//! asynchronous sessions to be awaited; pool: sessions that are lent to tasks
//! call         recording one call: its receiver, its arguments, its results
//! promise      futures for values: claim, operators
//! plain        the types that values come as
//! signals      exceptions as types
//! control      batched control structures
//! live_batch   batches that are run again when their answer may have changed
//! cell, procedure, iter, rows
//! module       programs in WebAssembly that run in the server
//! remote       functions that become procedures
//! builtin      stubs of built-in types
//! error        the failures of calls, with their places in the source
//! explain      what was recorded and sent, in words
//! stubs        the macros of generated code
//! connection   bytes in and out
//! import       sessions with servers that traders know
//! trader       the stubs of traders, and their offers
//! ```
//!
//! Invariants: a recorded call allocates nothing once the tables have grown, unless an argument has
//! items; user code never runs while the recorder is borrowed; a structure is sent whole or not at
//! all. Nothing here panics. Misuse that types do not catch is an error value where it is claimed,
//! in [`Session::flush`], and in the history. No failure is passed over: the next claim, flush or
//! commit tells a failure that no stub is left to tell ([failures that were
//! told](Session#failures-that-were-told)).
//!
//! A session belongs to one thread, or, in the package `bifrost-veneer-async`, to any number
//! (`shared`). Implements Bogle and Liskov 1994 (3.1, 5, 7) and Zondervan 1995
//! (4, 5). It differs from them in two points. Promises and values share one stub for each method
//! (an argument takes either). Control structures take closures, so that an END cannot be
//! forgotten.

#![forbid(unsafe_code)]

// The stubs of traders name the package as those of programs do.
extern crate self as bifrost_veneer;

#[cfg(feature = "async")]
mod asynchronous;
mod builtin;
mod call;
mod cell;
mod connection;
mod control;
mod error;
mod explain;
pub mod import;
mod iter;
mod live;
mod live_batch;
mod module;
mod plain;
#[cfg(feature = "async")]
mod pool;
mod procedure;
mod promise;
#[doc(hidden)]
pub mod remote;
mod rows;
mod session;
mod shared;
pub mod signals;
mod stubs;
pub mod trader;

pub use builtin::{Any, Directory};
pub use call::{
    Argument, Composed, Element, IntoArg, IntoArgs, Numbered, ProcedureCall, Reference, Results, Stub,
};
pub use cell::Cell;
pub use connection::{Connection, ConnectionError};
pub use control::{Except, If, Test};
pub use error::{CallName, ConnectError, Error, Exception, Place};
pub use explain::Advice;
#[cfg(feature = "async")]
pub use import::import_async;
pub use import::{ImportError, Imported, Service, ServiceError, import};
pub use iter::{Iter, Yields};
pub use live_batch::{Claim, LiveBatch};
pub use module::Module;
pub use plain::{Items, Plain};
#[cfg(feature = "async")]
pub use pool::{Pool, Pooled};
pub use procedure::{Params, Procedure};
pub use promise::{Promise, Value};
pub use rows::{Cellular, Columns, Row, Rows};
pub use session::{Builder, How, Session};
pub use signals::Signal;
pub use stubs::Object;

pub use bifrost_recorder::{
    BasicNumbers, BuiltinNumbers, CellNumbers, Closed, Counters, ErrorValue, FailurePlace, FailurePlaces,
    Misuse, Stubs,
};
pub use bifrost_trader::failover::Ran;
pub use bifrost_transport::{Call, CallState, CallWatch};
pub use bifrost_veneer_macros::remote;
pub use bifrost_wire as wire;
pub use bifrost_wire::BatchName;
