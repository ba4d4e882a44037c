//! The program `bifrost`, with a native class besides the standard ones: its `run`, `serve`, `check` and the others all know
//! `index::Index`.

mod index;

use std::process::ExitCode;

use bifrost_native::Registry;
use index::{Index, new_index};

fn main() -> ExitCode {
    let registry = Registry::standard().with_persistent_class::<Index>().with_routine(new_index::native());
    bifrost_cli::main(&registry)
}
