//! Being written.
use crate::failure::Outcome;
/// Being written
#[derive(clap::Args, Debug)]
pub struct Args {}
/// Runs the command.
pub fn run(_: &Args) -> Outcome {
    Ok(())
}
