//! The stubs of `examples/scores/scores.theta`, for the program `tasks`.
//!
//! `bifrost veneer examples/scores/scores.theta -o examples/scores/tasks/src` made them. They are
//! the same text as those of a client whose calls wait: the manifest names the other package.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
pub mod bifrost_stubs;
