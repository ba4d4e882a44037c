//! Parts that several subcommands use. No file here names a subcommand.

pub mod arguments;
pub mod capsules;
pub mod certificates;
pub mod figures;
pub mod group;
pub mod main_routine;
pub mod report;
pub mod store;
pub mod supervised;
