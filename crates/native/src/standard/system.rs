//! The clock that never goes back, and the standard error.

use std::io::Write;
use std::sync::LazyLock;
use std::time::Instant;

use crate::{Cx, Registry, theta_routine};

/// Adds the clock and the standard error.
pub(super) fn add_to(registry: Registry) -> Registry {
    registry
        .with_routine(monotonic_ns::native())
        .with_routine(print_error::native())
        .with_text("std/system.theta", include_str!("../../theta/std/system.theta"))
}

#[theta_routine("std::monotonic_ns")]
fn monotonic_ns(_cx: &mut Cx) -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos().min(i64::MAX as u128) as i64
}

#[theta_routine("std::print_error")]
fn print_error(_cx: &mut Cx, line: &str) {
    // Nobody reads it: no reason to end a program.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
