//! The standard set: natives for files, clock, generators of random numbers and the standard
//! error; ordered maps and lists, supervisors of actors, and the claims of persistent actors, in
//! Theta.
//!
//! Programs have them by `import std.files`, `import std.random`, `import std.supervisor`, `import
//! std.system` and `import std.trees`, whose texts are built in.

mod file_server;
mod files;
mod http;
mod persistent;
mod random;
mod system;

pub use file_server::{FileServer, OPEN_MAX, OpenFile, READ_BYTES_MAX};
pub use files::{Files, HostFile};
pub use http::{ANSWER_BYTES_MAX, Http, HttpHosts, REQUEST_TIME_MAX};
pub use persistent::{CLAIM_MS, Claims};
pub use random::Generator;

use crate::registry::Registry;

/// Adds the standard set.
pub(crate) fn add_to(registry: Registry) -> Registry {
    let natives = [
        files::add_to,
        file_server::add_to,
        http::add_to,
        persistent::add_to,
        random::add_to,
        system::add_to,
    ];
    let registry = natives.into_iter().fold(registry, |registry, add| add(registry));
    registry
        .with_text("std/trees.theta", include_str!("../../theta/std/trees.theta"))
        .with_text("std/supervisor.theta", include_str!("../../theta/std/supervisor.theta"))
}
