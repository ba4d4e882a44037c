//! Thumbnails as a service: the native actor of its servers, and the stubs of its clients.

#[rustfmt::skip]
#[allow(clippy::all, missing_docs, reason = "generated")]
pub mod bifrost_stubs;
mod thumbnails;

pub use thumbnails::Thumbnails;
