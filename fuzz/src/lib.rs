//! What the fuzz targets run. The bodies live with the tests of the session, of the compiler, of the store and of nodes, which run them on every
//! build for a few seconds (`BIFROST_FUZZ_SECONDS`), with inputs from a seed instead of a fuzzer.
//!
//! From the project's root:
//!
//! ```text
//! cargo +nightly fuzz run wire_decode
//! cargo +nightly fuzz run batch_check
//! cargo +nightly fuzz run theta_text -- -dict=fuzz/theta.dict
//! cargo +nightly fuzz run ir_text -- -dict=fuzz/theta.dict
//! cargo +nightly fuzz run log_entries
//! cargo +nightly fuzz run log_files
//! cargo +nightly fuzz run stored_record
//! cargo +nightly fuzz run dump_text
//! cargo +nightly fuzz run capsule_peer
//! ```
//!
//! Those of texts do better from programs than from nothing: put `crates/theta/tests/programs`, or what
//! `bifrost check --emit ir` prints of them, behind the target's name.

#[path = "../../crates/server/tests/support/peer.rs"]
mod peer;
mod repository;
#[path = "../../crates/session/tests/support/mod.rs"]
mod session;
#[path = "../../crates/theta/tests/support/mod.rs"]
mod theta;

pub use peer::capsule_peer;
pub use repository::bodies::{dump_text, log_bytes, log_entries, log_files, stored_record};
pub use session::bodies::{batch_check, wire_decode};
pub use theta::bodies::{ir_text, theta_text};
