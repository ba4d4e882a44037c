//! Offers of services, and the ways to them: boards, leases, queries; exporters and importers.
//!
//! There is no input or output here, and no clock, thread or lock: times in milliseconds and seeds
//! are arguments. The programs around it move messages and read clocks.
//!
//! | part | for | type to read first |
//! | --- | --- | --- |
//! | [`board`], [`memory`] | the trader | [`Memory`], through [`Board`] |
//! | [`link`] | a trader that asks others | [`Links`](link::Links) |
//! | [`shared`] | traders that share their offers | [`Shared`](shared::Shared) |
//! | [`exporter`] | a server that exports | [`Exporter`](exporter::Exporter) |
//! | [`importer`], [`failover`] | a client that imports | [`Importer`](importer::Importer) |
//! | [`query`], [`property`], [`choose`] | all of them | [`Query`], [`Properties`] |
//! | [`url`] | a client that imports | [`TraderUrl`](url::TraderUrl) |
//!
//! docs/internals/trader.md has the states and the limits.

#![forbid(unsafe_code)]

pub mod board;
pub mod choose;
pub mod exporter;
pub mod failover;
pub mod importer;
mod interfaces;
pub mod limits;
pub mod link;
pub mod memory;
pub mod offer;
pub mod property;
pub mod query;
pub mod shared;
mod text;
pub mod url;

/// The program of a trader in Theta: the types of its calls.
pub const PROGRAM: &str = include_str!("../trader.theta");

pub use board::{Board, Everything, Found, Party, Question, Right};
pub use interfaces::{BadInterface, BadService};
pub use limits::Limits;
pub use memory::{Memory, Options};
pub use offer::{BadOffer, Export, Offer, OfferId};
pub use property::{Properties, Value};
pub use query::{BadQuery, Query};
