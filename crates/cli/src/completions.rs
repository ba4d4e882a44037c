//! `bifrost completions`: the completions of a shell, from the definitions of the arguments.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::Cli;
use crate::failure::{Outcome, print};

/// Print the completions of a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost completions bash > ~/.local/share/bash-completion/completions/bifrost
  bifrost completions zsh > ~/.zfunc/_bifrost          (with ~/.zfunc in $fpath)
  bifrost completions fish > ~/.config/fish/completions/bifrost.fish

The packages of the server have these files.")]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let mut out = Vec::new();
    generate(args.shell, &mut Cli::command(), "bifrost", &mut out);
    Ok(print(&String::from_utf8_lossy(&out))?)
}
