//! `bifrost doc`: pages about the definitions of sources.

use std::path::PathBuf;

use bifrost_native::Registry;
use bifrost_server::program;
use bifrost_theta::{Colour, render_all};
use bifrost_tools::doc::{Format, generate};

use crate::failure::{Exit, Failure, Outcome};

/// Write documentation of Theta sources
///
/// A page for each file and an index: the types, routines, classes and actors that others can name,
/// with their headings and the comments at them. The comment of a routine or method is the one
/// right after its heading; that of a type, class or actor stands above it or right after its head.
/// Comments are Markdown.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost doc database.theta                    doc/index.html and doc/database.html
  bifrost doc src/*.theta --out pages --markdown")]
pub struct Args {
    /// The files
    #[arg(required = true, value_name = "FILE.theta")]
    files: Vec<PathBuf>,
    /// Where to write
    #[arg(long, value_name = "DIR", default_value = "doc")]
    out: PathBuf,
    /// Write Markdown instead of HTML
    #[arg(long)]
    markdown: bool,
    /// Where imports start [default: the folder of the first file]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    let (sources, options) = program::read(&args.files, args.root.as_deref(), registry)?;
    // The files named come first; a file that they import has pages only if it is named too.
    let files: Vec<_> = sources.ids().take(args.files.len()).collect();
    let format = if args.markdown { Format::Markdown } else { Format::Html };
    let pages = generate(&sources, &files, &options, format).map_err(|diagnostics| {
        anstream::eprint!("{}", render_all(&sources, &diagnostics, Colour::Ansi));
        Failure::reported(Exit::Failed)
    })?;
    for (name, text) in pages {
        let path = args.out.join(name);
        let written = std::fs::create_dir_all(&args.out).and_then(|()| std::fs::write(&path, text));
        written.map_err(|e| Failure::new(Exit::Failed, format!("cannot write `{}`: {e}", path.display())))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
