//! Tests that the repository is what its documents say. There is no code here.
//!
//! `tests/floors.rs` compares the manifests with ARCHITECTURE.md, `tests/sources.rs` the sources with its invariants,
//! `tests/documents.rs` follows the links of all documents.
