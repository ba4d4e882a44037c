//! The stubs of `examples/scores/scores.theta`, for the program `tasks`.
//!
//! They are the file of the client whose calls wait, `examples/scores/rust`: this manifest gives
//! the name `bifrost-veneer` to the other package.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
#[path = "../../rust/src/bifrost_stubs.rs"]
pub mod bifrost_stubs;
