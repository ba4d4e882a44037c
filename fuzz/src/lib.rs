//! What the fuzz targets run. The bodies live with the session's tests, which run them on every build for a few
//! seconds (`BIFROST_FUZZ_SECONDS`), with inputs from a seed instead of a fuzzer.
//!
//! `cargo +nightly fuzz run wire_decode`, or `batch_check`, from the project's root.

#[path = "../../crates/session/tests/support/mod.rs"]
pub mod support;

pub use support::bodies;
