//! `bifrost fmt`: sources in the one way to set Theta.

use std::path::{Path, PathBuf};

use bifrost_server::program;
use bifrost_theta::{Colour, Sources, render_all};
use bifrost_tools::fmt::format;

use crate::failure::{Exit, Failure, Outcome, print};

/// Format Theta sources
///
/// Rewrites the files in place; a file that is set well already is not touched. Every comment
/// stays. A file that does not parse is left as it is, its mistakes are reported, and the exit
/// status is 1.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost fmt database.theta
  bifrost fmt --check src/*.theta           for tests: names the files that are not formatted
  bifrost fmt --stdin < a.theta > b.theta   for editors")]
pub struct Args {
    /// The files
    #[arg(value_name = "FILE.theta", required_unless_present = "stdin")]
    files: Vec<PathBuf>,
    /// Write nothing; name the files that would change, and fail if there are any
    #[arg(long)]
    check: bool,
    /// Read the standard input, write to the standard output
    #[arg(long, conflicts_with = "files")]
    stdin: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    if args.stdin {
        return stdin(args.check);
    }
    let (mut broken, mut stale) = (false, vec![]);
    for path in &args.files {
        let text = read(path)?;
        match formatted(&path.display().to_string(), &text) {
            None => broken = true,
            Some(new) if new == text => {}
            Some(_) if args.check => stale.push(format!("`{}`", path.display())),
            Some(new) => write(path, &new)?,
        }
    }
    if !stale.is_empty() {
        let verb = if stale.len() == 1 { "is" } else { "are" };
        return Err(Failure::new(Exit::Failed, format!("{} {verb} not formatted", stale.join(", ")))
            .help("format: the same command without `--check`"));
    }
    if broken { Err(Failure::reported(Exit::Failed)) } else { Ok(()) }
}

fn stdin(check: bool) -> Outcome {
    let text = program::read_text(std::io::stdin().lock())
        .map_err(|e| Failure::new(Exit::Failed, format!("cannot read the standard input: {e}")))?;
    let new = formatted("<stdin>", &text).ok_or(Failure::reported(Exit::Failed))?;
    match check {
        true if new != text => Err(Failure::new(Exit::Failed, "the text is not formatted")),
        true => Ok(()),
        false => Ok(print(&new)?),
    }
}

/// Returns `text` in the right form; `None` if it does not parse, which has been reported.
fn formatted(name: &str, text: &str) -> Option<String> {
    let mut sources = Sources::new();
    let file = sources.add(name, text);
    match format(&sources, file) {
        Ok(new) => Some(new),
        Err(diagnostics) => {
            anstream::eprint!("{}", render_all(&sources, &diagnostics, Colour::Ansi));
            None
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    program::read_file(path)
        .map_err(|e| Failure::new(Exit::Failed, format!("cannot read `{}`: {e}", path.display())))
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text)
        .map_err(|e| Failure::new(Exit::Failed, format!("cannot write `{}`: {e}", path.display())))?;
    eprintln!("formatted {}", path.display());
    Ok(())
}
