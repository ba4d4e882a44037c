//! The program `bifrost`, with the native actor of `examples/thumbnails/thumbnails.theta` besides the standard ones.

use std::process::ExitCode;

use bifrost_native::Registry;
use thumbnails::Thumbnails;

fn main() -> ExitCode {
    bifrost_cli::main(&Registry::standard().with_actor::<Thumbnails>())
}
