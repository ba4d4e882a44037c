//! `bifrost bench veneers`: the client libraries of all languages, beside a raw socket and peers in
//! the same language.
//!
//! Read [`Step`] first: a measured case. [`run`] measures one language after the other: it starts
//! the [`Subject`]s of a language, which are its client library and its peers, and has them run
//! each case in turn. `bench/veneers` has the peers, and `veneers/LANG/bench/run` the clients.

mod contest;
mod goals;
mod peers;
mod rust;
mod subject;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};
use serde::Serialize;

use self::contest::Plan;
use self::peers::Peer;
#[cfg(doc)]
use self::subject::Step;
use self::subject::{Client, OURS, Subject};
use super::common::{Failed, note_debug_build};
use super::files::spinner;
use super::report::{self, JsonLines};
use crate::process::ServerProcess;

/// The program that is served.
const PROGRAM: &str = include_str!("../../../../../cases/programs/conformance.theta");
/// The longest time until a client is connected, which may build its library before.
const BUILD_MAX: Duration = Duration::from_secs(1800);

/// A language.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Language {
    /// Rust, in this program
    Rust,
    /// C
    C,
    /// C++
    Cpp,
    /// Python, without its native library
    Python,
    /// Python with its native library, over shared memory
    PythonNative,
    /// TypeScript in Node
    Typescript,
    /// Java
    Java,
    /// Go
    Go,
    /// Perl, over the text form
    Perl,
    /// Tcl, over the text form
    Tcl,
    /// Emacs Lisp, over the text form
    Elisp,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Python => "python",
            Language::PythonNative => "python-native",
            Language::Typescript => "typescript",
            Language::Java => "java",
            Language::Go => "go",
            Language::Perl => "perl",
            Language::Tcl => "tcl",
            Language::Elisp => "elisp",
        }
    }

    /// Returns true if its client library speaks the text form.
    fn is_text(self) -> bool {
        matches!(self, Language::Perl | Language::Tcl | Language::Elisp)
    }

    /// Returns its folder among the languages.
    fn folder(self) -> &'static str {
        match self {
            Language::PythonNative => "python",
            _ => self.name(),
        }
    }

    /// Starts its server in a folder. Tcl has no unix sockets.
    fn serve(self, folder: &Path) -> std::io::Result<ServerProcess> {
        let socket = folder.join("server");
        let (at, more) = match self {
            Language::PythonNative => (format!("shm://{}", socket.display()), None),
            Language::Tcl => ("tcp://127.0.0.1:0".to_owned(), Some("--anonymous-loopback")),
            _ => (format!("unix://{}", socket.display()), None),
        };
        let arguments: Vec<&str> = ["--listen", &at].into_iter().chain(more).collect();
        ServerProcess::start(folder, PROGRAM, &arguments)
    }

    /// Returns the peers: gRPC, and the one that pipelines best, if there is one. Those of C++ are
    /// C's and Rust's too, since all three are machine code without a collector. Languages with the
    /// text form have neither, and are beside a client of Redis.
    fn peers(self) -> &'static [Peer] {
        match self {
            Language::Rust | Language::C | Language::Cpp => &[Peer::Grpc, Peer::Capnp],
            Language::Python | Language::PythonNative => &[Peer::Grpcio, Peer::Pycapnp],
            Language::Typescript => &[Peer::GrpcJs, Peer::Capnweb],
            Language::Java => &[Peer::GrpcJava],
            Language::Go => &[Peer::GrpcGo],
            Language::Perl => &[Peer::RedisPerl],
            Language::Tcl => &[Peer::RedisTcl],
            Language::Elisp => &[Peer::RedisElisp],
        }
    }
}

/// The arguments of `bifrost bench veneers`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. Languages are measured from a checkout: their programs are `veneers/LANG/bench/run`, which
need what `veneers/LANG/test.sh` has built. PYTHON is the interpreter of Python. `bench/veneers/peers.sh`
installs the peers into `target/peers`; those that are not there are left out, and the table says how to have
them.

Examples:
  bifrost bench veneers
  bifrost bench veneers --languages python,typescript --json veneers.jsonl
  bifrost bench veneers --languages perl,tcl,elisp")]
pub struct Args {
    /// The languages [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LANGUAGE")]
    languages: Option<Vec<Language>>,
    /// The folder with the languages
    #[arg(long, value_name = "DIR", default_value = "veneers")]
    veneers: PathBuf,
    /// The folder with the peers
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    peers: PathBuf,
    /// The samples of each figure; figures are medians
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Measure two samples of a tenth of the size, to see that all works
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A client library or peer that is not measured.
#[derive(Debug, Serialize)]
struct Missing {
    bench: &'static str,
    way: &'static str,
    peer: &'static str,
    /// The reason, with the remedy.
    missing: String,
}

/// Runs the command.
///
/// # Errors
/// The server does not start, or a client or peer fails or answers something else than it must.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let plan = match args.quick {
        true => Plan { rounds: 2, part: 10 },
        false => Plan { rounds: args.rounds, part: 1 },
    };
    let bar = spinner()?;
    let all = Language::value_variants().to_vec();
    let mut targets = Vec::new();
    for language in args.languages.clone().unwrap_or(all) {
        let name = language.name();
        bar.set_message(format!("{name}: starting"));
        let place = tempfile::tempdir()?;
        let server = language.serve(place.path())?;
        let (mut subjects, mut missing): (Vec<Box<dyn Subject>>, _) = (Vec::new(), Vec::new());
        let mut left_out = |peer, why: Failed| {
            missing.push(Missing { bench: "veneers", way: name, peer, missing: why.to_string() });
        };
        match ours(language, &args.veneers, &server) {
            Ok(client) => subjects.push(client),
            Err(why) => left_out(OURS, why),
        }
        for peer in language.peers() {
            match peer.is_installed(&args.peers) {
                true => subjects.push(peer.start(&args.peers, place.path())?),
                false => left_out(peer.name(), peer.remedy().into()),
            }
        }
        let cases = contest::measure(language, &mut subjects, plan, &bar)?;
        bar.suspend(|| {
            contest::print(name, &cases);
            for Missing { peer, missing, .. } in &missing {
                anstream::println!("  {peer}: {missing}");
            }
        });
        json.write(&cases)?;
        json.write(&missing)?;
        targets.extend(goals::targets(language, &cases));
    }
    bar.finish_and_clear();
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    json.write(&targets)?;
    Ok(())
}

/// Starts the client library of a language.
fn ours(language: Language, veneers: &Path, server: &ServerProcess) -> Result<Box<dyn Subject>, Failed> {
    let url = server.address().to_string();
    if language == Language::Rust {
        return Ok(Box::new(rust::Here::connect(&url)?));
    }
    let path = veneers.join(language.folder()).join("bench/run");
    if !path.is_file() {
        return Err(format!(
            "not measured: there is no `{}`: run this in a checkout, or give --veneers",
            path.display()
        )
        .into());
    }
    let mut command = Command::new(&path);
    command.env("BIFROST_URL", url).env("BIFROST_BIN", std::env::current_exe()?);
    command.env("BIFROST_NATIVE", if language == Language::PythonNative { "1" } else { "0" });
    let client = Client::start(OURS, command, BUILD_MAX).map_err(|why| format!("not measured: {why}"))?;
    Ok(Box::new(client))
}
