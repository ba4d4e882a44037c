//! The functions of the header, by subject. Each is the border and nothing else: it turns the types
//! of C into those of Rust, and enters a session.
//!
//! The `unsafe` of these files is that of `#[unsafe(no_mangle)]`: no other library may have
//! functions with the prefix `bf_`. Pointers are read by the types of `abi`, which carry the
//! header's promise; a reference in a parameter is the promise that a pointer is null or points to
//! such a value.

pub mod call;
pub mod claim;
pub mod compound;
pub mod connect;
pub mod explain;
pub mod failure;
pub mod service;
pub mod structure;
pub mod transaction;
