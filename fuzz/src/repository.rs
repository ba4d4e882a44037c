//! What a store reads back.
#![allow(dead_code, reason = "the tests use the rest")]

#[path = "../../crates/repository/tests/support/bodies.rs"]
pub mod bodies;
#[path = "../../crates/repository/tests/support/disk.rs"]
mod disk;
#[path = "../../crates/session/tests/support/random.rs"]
mod random;
