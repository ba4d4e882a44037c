//! Makes the packages of the server: `cargo run --release -p bifrost-packaging -- -o packages`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bifrost_packaging::{PackageError, Source, build, debian, image, tarball};
use clap::{Parser, ValueEnum};

/// Make the packages of the server
///
/// Builds the static program, and packs it with its man pages, completions, settings and examples.
/// SOURCE_DATE_EPOCH sets the times in the packages, else the last commit does: the same program
/// gives the same bytes.
#[derive(Parser, Debug)]
#[command(name = "bifrost-packaging", version)]
struct Args {
    /// The packages [default: all]
    #[arg(value_enum)]
    packages: Vec<Kind>,
    /// The folder of the packages; it is made if it does not exist
    #[arg(short, long, value_name = "DIR", default_value = "packages")]
    output: PathBuf,
    /// The profile of the program
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// A program that is built already
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    binary: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The archive that is unpacked anywhere
    Tarball,
    /// The Debian package
    Deb,
    /// The image of a container
    Image,
}

fn run(args: &Args) -> Result<(), PackageError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or(root);
    let failed = |source| PackageError::File { path: args.output.display().to_string(), source };
    std::fs::create_dir_all(&args.output).map_err(failed)?;
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => build(&root, &args.profile)?,
    };
    let source = Source::load(&root, &binary, Source::time_of(&root))?;
    let is_wanted = |kind| args.packages.is_empty() || args.packages.contains(&kind);
    if is_wanted(Kind::Tarball) {
        println!("{}", tarball(&source, &args.output)?.display());
    }
    if is_wanted(Kind::Deb) {
        println!("{}", debian(&source, &args.output, 6)?.display());
    }
    if is_wanted(Kind::Image) {
        println!("{}", image(&source, &args.output)?.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
