//! Classes and routines of Theta programs, written in Rust (`docs/book/language/natives.md`).
//!
//! ```
//! use bifrost_native::{Cx, Registry, Signals, theta_class, theta_routine};
//!
//! /// class native "gauges::Gauge" implements gauge
//! struct Gauge {
//!     level: i64,
//! }
//!
//! #[derive(Signals)]
//! enum Full {
//!     Full(i64),
//! }
//!
//! #[theta_class("gauges::Gauge")]
//! impl Gauge {
//!     fn level(&self, _cx: &mut Cx) -> i64 {
//!         self.level
//!     }
//!
//!     fn fill(&mut self, _cx: &mut Cx, by: i64) -> Result<(), Full> {
//!         let sum = self.level.saturating_add(by);
//!         if sum > 100 { Err(Full::Full(100 - self.level)) } else { Ok(self.level = sum) }
//!     }
//! }
//!
//! /// native "gauges::new_gauge" new_gauge (level: int) returns (gauge)
//! #[theta_routine("gauges::new_gauge")]
//! fn new_gauge(_cx: &mut Cx, level: i64) -> Gauge {
//!     Gauge { level }
//! }
//!
//! let registry = Registry::standard().with_class::<Gauge>().with_routine(new_gauge::native());
//! assert_eq!(
//!     registry.heading("gauges::Gauge.fill").unwrap(),
//!     "fill (by: int) signals (full (int))"
//! );
//! ```
//!
//! A server or runner is given the [`Registry`]; its headings are compared with the program's when
//! that is loaded. Natives must be short: nothing else runs in their server meanwhile. A panic
//! becomes a `failure` and poisons the object.
//!
//! Natives may keep objects of the program ([`Ref`], [`Any`]) and call back into it ([`Ref::call`],
//! [`Proc::call`]).
//!
//! Read [`Registry`], then [`value`] for the Rust types that stand for the types of Theta. The
//! attributes write calls of [`glue`]; [`standard`] is the standard set.

// The attributes name this crate from outside.
extern crate self as bifrost_native;

pub mod actor;
mod call;
mod cx;
pub mod glue;
pub mod persist;
mod reference;
mod registry;
pub mod standard;
mod tagged;
#[cfg(test)]
mod tests;
pub mod value;

pub use actor::{ActorRef, NativeActor, Reply, Task};
pub use bifrost_native_macros::{OneOf, Signals, Struct, theta_actor, theta_class, theta_routine};
pub use call::{Arguments, Came, Heading, Proc, Raised, Returned};
pub use cx::{Cx, Flow};
pub use glue::Obj;
pub use persist::{Parts, Persist, Stored};
pub use reference::{Any, ObjectType, Ref};
pub use registry::{NativeClass, Registry, Routine};
pub use value::{Bytes, Seq, Text};
