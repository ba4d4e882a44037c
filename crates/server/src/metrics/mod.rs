//! The metrics of a server: counters, gauges and times.
//!
//! Read [`Measured`] first: the numbers at some moment. docs/book/watching.md defines each metric.
//!
//! ```text
//! meter      a session's account of its batch under way
//! batches    the account of all batches, by worker; the last minute by second
//! fit        the cost of a call and of a crossing, from the batches of the last minute
//! measured   all numbers of a server
//! families   these numbers as metrics, with names and texts
//! text       the metrics in the text form of Prometheus (0.0.4)
//! ```
//!
//! `http` answers with the text, and `otlp` exports the same metrics.

mod batches;
mod families;
mod fit;
mod measured;
mod meter;
mod text;

pub use batches::{BATCH_CLASSES, BatchesMeasured, MEDIA, Rest};
pub use fit::{Fit, Sums};
pub use measured::{Measured, NodesMeasured};
pub use text::text;

pub(crate) use batches::Batches;
pub(crate) use families::{Family, Kind, Value, families};
pub(crate) use meter::Meter;
