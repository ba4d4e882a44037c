//! Measures of the repository's text and code, and tests of its documents against its sources.
//!
//! `cargo run -p bifrost-checks` prints the measures with the worst places of each.
//! `tests/floors.rs` compares the manifests with ARCHITECTURE.md, `tests/sources.rs` the sources
//! with its invariants, `tests/documents.rs` follows the links of all documents, and
//! `tests/ratchets.rs` holds the measures to their goals.

pub mod circles;
pub mod cookbook;
pub mod matrix;
pub mod measures;
pub mod prose;
pub mod repository;
pub mod shape;
