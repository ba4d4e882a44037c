//! Tools for people who write Theta.
//!
//! Pure: texts in, texts out. No files, no clock, no streams; the program `bifrost` has those. Read
//! [`fmt::format`] first.

pub mod doc;
pub mod fmt;
pub mod index;
pub mod lsp;
