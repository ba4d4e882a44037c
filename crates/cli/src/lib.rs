//! The program `bifrost`: one subcommand a file, each with its arguments and a function `run`.
//!
//! [`main`] is all of it but the natives, so that a program with natives of its own is as short as
//! `main.rs`.
//!
//! Parts that several subcommands use are in `common`.
//!
//! Nothing here knows how objects work: sources are compiled by `theta`, run by `engine`, served by
//! `server`. [`failure`] has the exit statuses. The texts for the user are in the comments of the
//! arguments.

mod bench;
mod capsule;
mod certificate;
mod check;
mod client;
mod common;
mod completions;
mod demo;
mod doc;
mod failure;
mod fmt;
mod log;
mod lsp;
mod man;
mod ping;
mod process;
mod run;
mod serve;
mod shell;
mod store;
mod token;
mod trace;
mod trader;
mod veneer;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bifrost_native::Registry;
use bifrost_server::trader::with_trader;
use clap::{Parser, Subcommand};

/// The allocator of static programs: that of musl has one lock for all threads.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Objects served from Theta programs, called in batches
#[derive(Parser, Debug)]
#[command(name = "bifrost", version, propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "\
Try this:
  bifrost demo                      a tour of batching, in less than a minute
  bifrost serve database.theta      serve the objects of a program
  bifrost shell                     call them

Exit status:
  0  it worked
  1  the program or its sources failed
  2  the arguments or the settings are wrong
  3  no server listens at the address, or the address cannot be used
  4  the server ended the session: wrong token, no role, too many sessions, a limit

Environment:
  BIFROST_URL    the server that clients connect to
  BIFROST_TOKEN  the token that clients send, and servers require, over TCP and TLS
  BIFROST_CA     the file of the authorities that clients trust over TLS, instead of the system's
  BIFROST_LOG    the events to write to the standard error: warn, info, bifrost=debug ...
  BIFROST_*      the settings of `bifrost serve`, such as BIFROST_SESSIONS_MAX")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(serve::Args),
    Shell(shell::Args),
    Check(check::Args),
    Fmt(fmt::Args),
    Doc(doc::Args),
    Lsp(lsp::Args),
    Run(run::Args),
    Capsule(capsule::Args),
    Trader(Box<trader::Args>),
    Certificate(certificate::Args),
    Veneer(veneer::Args),
    Token(token::Args),
    Demo(demo::Args),
    Store(store::Args),
    Ping(ping::Args),
    Completions(completions::Args),
    Man(man::Args),
    Bench(bench::Args),
}

/// The longest wait of a program that ends until its peers have its last words.
const DELIVERED_WITHIN: Duration = Duration::from_secs(1);

/// Runs the command of the process's arguments, for programs that may use these natives; returns
/// the status to exit with.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use bifrost_native::{Cx, Registry, theta_routine};
///
/// #[theta_routine("example::double")]
/// fn double(_cx: &mut Cx, n: i64) -> i64 {
///     n.wrapping_mul(2)
/// }
///
/// fn main() -> ExitCode {
///     bifrost_cli::main(&Registry::standard().with_routine(double::native()))
/// }
/// ```
pub fn main(registry: &Registry) -> ExitCode {
    let registry = &with_trader(bench::with_natives(registry));
    let command = Cli::parse().command;
    log::start(match &command {
        Command::Serve(args) => args.options.log,
        Command::Trader(args) => args.options.log,
        _ => log::Format::Text,
    });
    let outcome = match command {
        Command::Serve(args) => serve::run(&args, registry),
        Command::Shell(args) => shell::run(&args),
        Command::Check(args) => check::run(&args, registry),
        Command::Fmt(args) => fmt::run(&args),
        Command::Doc(args) => doc::run(&args, registry),
        Command::Lsp(args) => lsp::run(&args, registry),
        Command::Run(args) => run::run(&args, registry),
        Command::Trader(args) => trader::run(*args, registry),
        Command::Capsule(args) => capsule::run(&args, registry),
        Command::Certificate(args) => certificate::run(&args),
        Command::Veneer(args) => veneer::run(&args, registry),
        Command::Token(args) => token::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Ping(args) => ping::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Bench(args) => bench::run(args),
    };
    let code = match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    };
    bifrost_transport::wait_delivered(Instant::now() + DELIVERED_WITHIN);
    code
}
