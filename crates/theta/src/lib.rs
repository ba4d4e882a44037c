//! The language Theta: parsing, checking and lowering to the IR.
//!
//! Pure: texts come in as [`Sources`], a program and [`Diagnostic`]s go out. No files, no clock, no
//! output. Read [`compile`] first.

pub mod ast;
pub mod diagnostic;
pub mod lexer;
mod parse;
pub mod source;

pub use diagnostic::{Code, Colour, Diagnostic, Label, Severity, render, render_all, to_json};
pub use parse::{HEIGHT_MAX, NESTING_MAX, parse};
pub use source::{FileId, Sources, Span};
