//! `bifrost capsule`: a process that runs actors of a program whose `main` another process runs.
//!
//! A capsule takes these steps in [`run`]: listen, compile the program, join the run, run its
//! nodes, and send a [`Report`] at the end. The protocol between capsules is in `bifrost-capsule`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use bifrost_capsule::capsules::{Terms, Waiting};
use bifrost_capsule::nodes::Nodes;
use bifrost_capsule::space::Space;
use bifrost_engine::Engine;
use bifrost_native::Registry;
use bifrost_server::program;
use bifrost_transport::Address;

use crate::common::arguments::{ProgramArgs, TokenArgs};
use crate::common::capsules::ready;
use crate::common::report::Report;
use crate::failure::{Exit, Failure, Outcome};

/// Run actors of a program whose `main` runs elsewhere
///
/// Listens until `bifrost run --join` calls, takes part in that run with as many nodes as it asks
/// for, and ends with it. Both need the same program, the same version of bifrost and, over TCP,
/// the same token. The output of the program is printed there.
///
/// A holder of the token can have this process do all that the program can do. Data over TCP is
/// neither encrypted nor signed: use it in networks that you trust.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost capsule --listen tcp://0.0.0.0:7448 --token-file secret queens.theta
  bifrost run --join tcp://other:7448 --token-file secret queens.theta 10
      on another machine; with several addresses, all capsules must reach each other by them

A line `ready URL` on the standard output means that the capsule listens. The exit status is 0 if the run was
ended by its `main`, else 1.")]
pub struct Args {
    /// The file with `main`; its imports are found by themselves
    #[arg(value_name = "FILE.theta")]
    file: PathBuf,
    /// Where to listen: shm:///path, unix:///path, tcp://host:port
    #[arg(long, value_name = "URL")]
    listen: Address,
    #[command(flatten)]
    token: TokenArgs,
    /// The longest wait for a run [default: for ever]
    #[arg(long, value_name = "MS")]
    wait_ms: Option<u64>,
    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    let token = args.token.token()?;
    if let (Address::Tcp { .. }, None) = (&args.listen, &token) {
        return Err(Failure::new(Exit::Usage, "a capsule on TCP needs a token, or any process could join")
            .help(
                "pass the same token to all capsules with `--token-file FILE` or the variable BIFROST_TOKEN",
            ));
    }
    // Before the program is compiled, which may take a while: a process that connects meanwhile
    // waits.
    let waiting = Waiting::listen(&args.listen)?;
    let registry = args.program.registry(registry)?;
    let files = std::slice::from_ref(&args.file);
    let program = program::compile_files(files, args.program.root.as_deref(), &registry)?;
    if program.has_transactions() {
        return Err(Failure::new(Exit::Usage, "a program over a store has one node"));
    }
    let terms = Terms::new(&program, token.as_deref().unwrap_or_default());
    let engine = Engine::with_natives(program, args.program.mode(), registry.natives().clone())?;
    let limits = args.program.limits();
    // A reader that does not need the line has closed the stream.
    let _ = writeln!(std::io::stdout(), "ready {}", waiting.address());
    let joined = waiting.take_part(&terms, args.wait_ms.map(Duration::from_millis))?;
    let traced = joined.is_traced();
    let nodes = Nodes::joined(Space::new(engine, limits)?, joined, limits, |_| {}, |cx| ready(cx, traced))
        .map_err(|e| Failure::new(Exit::Failed, e))?;
    let ended = nodes.serve().map_err(|e| Failure::new(Exit::Failed, e))?;
    nodes.report(&Report::of(&nodes).to_bytes());
    match ended {
        true => Ok(()),
        false => Err(Failure::new(Exit::Failed, "the process with `main` is lost")),
    }
}
