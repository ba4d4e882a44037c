//! The standard set of natives: files, the clock, generators of random numbers, the standard error.

use crate::registry::Registry;

/// Adds the standard set.
pub(crate) fn add_to(registry: Registry) -> Registry {
    registry
}
