//! Writing IR: functions under construction, and the functions that no one wrote.
//!
//! `check` walks the syntax tree once, in the order of evaluation, and passes its results to the
//! builder here. There is no typed tree in between: the IR is flat and typed itself.

mod builder;
mod generated;

pub(crate) use builder::{Builder, depth, nothing};
pub(crate) use generated::{bridge, getter, setter, stand};
