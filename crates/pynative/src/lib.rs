//! The native library for Python: `bifrost_native`.
//!
//! It is an accelerator under the package of `veneers/python`, which is complete without it: the
//! recorder ([`bifrost_recorder`]) in place of the one in Python, and connections over shared
//! memory ([`bifrost_transport`]). The package finds it and decides which sessions use it
//! (`bifrost_veneer/native.py`); the same tests pass with and without.
//!
//! [`core::Core`] is the type to read first, then [`slot::Slot`].
//!
//! ```text
//! core        the recorder of one session; how it is entered
//! methods     its functions that Python calls
//! slot        the class below all stubs; the call that is recorded most
//! operands    arguments
//! known       values that came
//! failures    failures, both ways
//! places      places in the source of the program
//! constants   the constants of generated stubs
//! package     the classes of the pure package
//! views       small objects that Python looks at
//! greeting    the recorder of a session that was greeted
//! stream      connections
//! ```
//!
//! # Invariants
//!
//! - The package decides; nothing here is needed. Bytes, texts of failures and explanations are
//!   those of the pure package.
//! - No code of Python runs while a recorder is entered, except to write a place into a text of the
//!   server. A recorder that is entered again is an error, and never waits.
//! - A wait for bytes holds no lock of Python, and ends with a signal.

#![forbid(unsafe_code)]

mod constants;
mod core;
mod failures;
mod greeting;
mod known;
mod methods;
mod operands;
mod package;
mod places;
mod slot;
mod stream;
mod views;

use pyo3::prelude::*;

/// The number of the interface between this library and the package, which compares it with its
/// own.
const INTERFACE: u32 = 3;

/// The recorder and connections of `bifrost_veneer` in machine code.
#[pymodule]
mod bifrost_native {
    #[pymodule_export]
    use crate::core::Core;
    #[pymodule_export]
    use crate::greeting::make_core;
    #[pymodule_export]
    use crate::operands::{int_operand, real_operand, str_operand};
    #[pymodule_export]
    use crate::slot::Slot;
    #[pymodule_export]
    use crate::stream::{Connection, Reading, Writing, connect};
    #[pymodule_export]
    use crate::views::{Ending, Handles, Held, Open, UnderWay};
    #[pymodule_export]
    const INTERFACE: u32 = crate::INTERFACE;
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python has")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
