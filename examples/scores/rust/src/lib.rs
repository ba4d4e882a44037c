//! The stubs of `examples/scores/scores.theta`, for the programs `watch` and `score`.
//!
//! `bifrost veneer examples/scores/scores.theta -o examples/scores/rust/src` made them.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
pub mod bifrost_stubs;
