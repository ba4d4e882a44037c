//! A server: listeners, sessions, configuration.
//!
//! [`Server::start`] takes a compiled program and a [`Config`], makes the program's objects,
//! listens, and serves each connection as a job of a few workers (`bifrost-workers`) until
//! [`Server::stop`].
//!
//! [`program`] reads Theta files; [`config`] gathers settings, and [`annotated`] writes them;
//! [`objects`] opens the store, and [`backup`] has it copied.
//! [`connections`] is the table of connections and their bounds, [`hello`] the time before a
//! session, [`roles`] the roles of clients, and [`connection`] moves bytes between a stream and a
//! session, which runs in a [`context`]. The nodes of the program's actors are in
//! `bifrost-capsule`, and [`guests`] joins sessions with them. [`http`] answers requests of HTTP,
//! of which websockets come; [`metrics`] has the counts of sessions and store, in the form that
//! Prometheus reads; [`otlp`] sends them, and spans of batches, to a collector of OpenTelemetry.
//!
//! [`trader`] has the native actors of a trader, and [`exports`] offers objects to traders.
//!
//! Deliberately absent is any knowledge of commands: bytes go to `session`, and its replies go
//! back.

pub mod annotated;
pub mod backup;
mod bell;
mod claims;
mod collector;
pub mod config;
mod config_error;
mod connection;
mod connections;
mod context;
pub mod exports;
mod form;
mod guests;
mod hello;
pub mod http;
pub mod memory;
pub mod metrics;
pub mod objects;
mod origins;
pub mod otlp;
mod process;
pub mod program;
mod pulse;
pub mod roles;
mod server;
mod tasks;
pub mod text;
mod tidy;
mod times;
pub mod trader;

pub use bifrost_cache::Counted;
pub use bifrost_capsule::{Space, Watch};
pub use config::{Config, ConfigError, RootNames, TlsConfig, WebsocketConfig};
pub use objects::StoreError;
pub use origins::{OriginError, Origins};
pub use server::{Server, StartError};
pub use tasks::{ActorConfig, TasksConfig};
