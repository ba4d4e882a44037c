//! The standard set of natives: files, clock, generators of random numbers, the standard error.
//!
//! Programs have them by `import std.files`, `import std.random` and `import std.system`, whose
//! texts are built in.

mod files;
mod random;
mod system;

pub use files::{Files, HostFile};
pub use random::Generator;

use crate::registry::Registry;

/// Adds the standard set.
pub(crate) fn add_to(registry: Registry) -> Registry {
    [files::add_to, random::add_to, system::add_to].into_iter().fold(registry, |registry, add| add(registry))
}
