//! Tools for authors of Theta programs.
//!
//! Pure: texts in, texts out. No files, no clock, no streams; the program `bifrost` has those. Read
//! [`fmt::format`] first.

pub mod doc;
pub mod fmt;
pub mod index;
pub mod lsp;
