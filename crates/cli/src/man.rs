//! `bifrost man`: the man pages, from the definitions of the arguments.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_mangen::{Man, generate_to};

use crate::Cli;
use crate::failure::{Exit, Failure, Outcome, print};

/// Print the man page, or write those of all commands
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost man | man -l -
  bifrost man -o ~/.local/share/man/man1
      bifrost.1, bifrost-serve.1, bifrost-store-backup.1 and so on: `man bifrost-serve` shows one

The packages of the server have these files.")]
pub struct Args {
    /// The folder of the man pages of all commands, which exists [default: bifrost(1) is printed]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let command = Cli::command();
    if let Some(folder) = &args.output {
        return generate_to(command, folder).map_err(|error| {
            let why = format!("cannot write man pages to `{}`: {error}", folder.display());
            Failure::new(Exit::Failed, why)
        });
    }
    let mut out = Vec::new();
    Man::new(command).render(&mut out)?;
    Ok(print(&String::from_utf8_lossy(&out))?)
}
