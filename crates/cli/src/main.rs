//! The program `bifrost`, with the standard natives.

use std::process::ExitCode;

use bifrost_native::Registry;

fn main() -> ExitCode {
    bifrost_cli::main(&Registry::standard())
}
