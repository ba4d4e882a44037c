//! The C ABI of a client: `libbifrost`.
//!
//! It is the recorder ([`bifrost_recorder`]) and a connection ([`bifrost_client`]) behind plain
//! functions. The header `veneers/c/include/bifrost/abi.h` is made from `export/`; the headers for
//! people, `bifrost.h` and `bifrost.hpp`, are written by hand over it, and generated stubs over
//! those.
//!
//! [`session::Session`] is the type to read first, then [`abi::Ref`] and [`abi::Value`].
//!
//! ```text
//! abi        the structs and unions that cross the border
//! interface  the constants of generated headers
//! export     the functions of the header; nothing but the border
//! service    runs with a server that traders know, and with another one when it is lost
//! session    recorder, connection and uses; recording a call
//! uses       which stubs are alive: releases, scopes
//! recorded   the recorder's types
//! error      failures as C reads them
//! items      tables and compounds as trees of C values
//! live       batches that are run again when their answer may have changed
//! ```
//!
//! # Invariants
//!
//! - A stub that was released is a misuse with a name, and never another object.
//! - A panic does not cross the border: it ends its session, with [`error::Status::Panic`].
//! - No function of the program is called, so no function of a session is entered twice at once.
//! - What the program passes is trusted as far as C must be: pointers with their counts. Numbers,
//!   texts and stubs are checked.
//! - Recording a call allocates nothing once the tables have grown.

#![allow(improper_ctypes_definitions, reason = "sessions, items and live batches are opaque in C")]

pub mod abi;
pub mod error;
pub mod export;
pub mod interface;
pub mod items;
pub mod live;
mod recorded;
pub mod service;
pub mod session;
mod uses;
