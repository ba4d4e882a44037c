//! Parts that all measurements use.

use std::io::Write;

/// Anything that can go wrong here is said and ends the program.
pub type Failed = Box<dyn std::error::Error>;

/// Pins the thread to a core.
pub fn pin(core: usize) {
    // Where that is not allowed the figures are noisier, and that is all.
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

/// Says that figures of a debug build are no figures.
pub fn note_debug_build() {
    if cfg!(debug_assertions) {
        anstream::eprintln!("note: this is a debug build; its figures are not valid for a release build");
    }
}

/// Writes a line to the standard output, for the process that reads it.
///
/// # Errors
/// The reader is gone.
pub fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
