//! What the fuzz targets run. The bodies live with the tests of the session, of the compiler, of the
//! store, of nodes, of the trader, of REX and of QUIC, which run them on every build for a few seconds
//! (`BIFROST_FUZZ_SECONDS`), with inputs from a seed instead of a fuzzer.
//!
//! `fuzz/run.sh` runs all targets, or those named, for some time each, from the inputs in
//! `fuzz/corpus`; it needs a nightly compiler and `cargo install cargo-fuzz`. Ordinary tests replay
//! these inputs.

#[path = "../../crates/transport/tests/support/datagrams.rs"]
mod datagrams;
#[path = "../../crates/server/tests/support/lines.rs"]
mod lines;
#[path = "../../crates/session/tests/support/modules.rs"]
mod modules;
#[path = "../../crates/capsule/tests/support/peer.rs"]
mod peer;
mod repository;
#[path = "../../crates/rex/tests/support/bodies.rs"]
mod rex;
#[path = "../../crates/session/tests/support/mod.rs"]
mod session;
#[path = "../../crates/capsule/tests/support/task_packets.rs"]
mod task_packets;
#[path = "../../crates/theta/tests/support/mod.rs"]
mod theta;
#[path = "../../crates/trader/tests/support/bodies.rs"]
mod trader;

// The name that it has in the tests of the session.
use session as support;

pub use datagrams::quic_datagrams;
pub use lines::text_form;
pub use modules::{module_calls, module_load};
pub use peer::capsule_peer;
pub use repository::bodies::{dump_text, log_bytes, log_entries, log_files, stored_record};
pub use rex::rex_message;
pub use session::bodies::{batch_check, wire_decode};
pub use task_packets::task_packets;
pub use theta::bodies::{ir_text, theta_text};
pub use trader::{trader_board, trader_query, trader_url};
