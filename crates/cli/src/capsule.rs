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
use bifrost_server::{ConfigError, program};
use bifrost_transport::{Address, Clients, KeyFiles, Pin, TlsOptions, TlsServer};

use crate::common::arguments::{ProgramArgs, TokenArgs};
use crate::common::capsules::ready;
use crate::common::certificates::{TlsArgs, self_made};
use crate::common::group::GroupArgs;
use crate::common::report::Report;
use crate::failure::{Exit, Failure, Outcome};

/// Run actors of a program whose `main` runs elsewhere
///
/// Listens until `bifrost run --join` calls, takes part in that run with as many nodes as it asks
/// for, and ends with it. Both need the same program, the same version of bifrost and, over TCP and
/// TLS, the same token. The output of the program is printed there.
///
/// A holder of the token can have this process do all that the program can do. Between machines use
/// `tls://`: data over `tcp://` is neither encrypted nor signed.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost capsule --listen tls://0.0.0.0:7448 --token-file secret queens.theta
  bifrost run --join tls://other:7448#sha256-PIN --token-file secret queens.theta 10
      on another machine, with the pin of the `ready` line; with several addresses, all capsules
      must reach each other by them
  bifrost capsule --listen tls://0.0.0.0:7448 --advertise tls://other:7448 --token-file secret \
          --trader tls://trader:7450#sha256-PIN queens.theta
  bifrost run --capsules 3 --token-file secret --trader tls://trader:7450#sha256-PIN queens.theta 10
      the same without addresses: a trader knows the capsules that wait
  bifrost capsule --listen tls://0.0.0.0:7448 --certificate c1.pem --key c1-key.pem --ca ca.pem queens.theta
      only for capsules with certificates of the same authority (`bifrost certificate --capsule`)

A line `ready URL` on the standard output means that the capsule listens. The exit status is 0 if the run was
ended by its `main`, else 1.")]
pub struct Args {
    /// The file with `main`; its imports are found by themselves
    #[arg(value_name = "FILE.theta")]
    file: PathBuf,
    /// Where to listen: shm:///path, unix:///path, tls://host:port, quic://host:port,
    /// tcp://host:port
    #[arg(long, value_name = "URL")]
    listen: Address,
    #[command(flatten)]
    tls: TlsArgs,
    /// The pin of the certificate of a capsule that may connect; several times for several
    #[arg(long, value_name = "PIN", conflicts_with = "ca")]
    peer: Vec<Pin>,
    /// Allow `tcp://` at addresses that other machines reach: tokens and objects pass unencrypted
    #[arg(long)]
    plain_networks: bool,
    #[command(flatten)]
    group: GroupArgs,
    /// The address that traders tell others [default: that of the listener]
    #[arg(long, value_name = "URL", requires = "trader")]
    advertise: Option<Address>,
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
    if args.listen.is_web() {
        let text = "a capsule does not listen for websockets, which are for browsers";
        return Err(Failure::new(Exit::Usage, text).help("listen on tls://host:port"));
    }
    let token = args.token.token()?;
    let (tls, options) = certificates(args)?;
    let clients_are_known = tls.is_some() && (args.tls.ca.is_some() || !args.peer.is_empty());
    if args.listen.may_ask_for_token() && token.is_none() && !clients_are_known {
        return Err(Failure::new(
            Exit::Usage,
            "a capsule on TCP or TLS needs a token, or any process could join",
        )
        .help("pass the same token to all capsules with `--token-file FILE` or the variable BIFROST_TOKEN"));
    }
    if !args.plain_networks && !args.listen.is_private() {
        return Err(ConfigError::PlainNetwork(args.listen.clone()).into());
    }
    // Before the program is compiled, which may take a while: a process that connects meanwhile
    // waits.
    let pin = tls.as_ref().filter(|_| args.tls.key_files().is_none()).map(TlsServer::pin);
    let waiting = Waiting::listen(&args.listen, tls)?;
    let registry = args.program.registry(registry)?;
    let files = std::slice::from_ref(&args.file);
    let program = program::compile_files(files, args.program.root.as_deref(), &registry)?;
    if program.has_transactions() {
        return Err(Failure::new(Exit::Usage, "a program over a store has one node"));
    }
    let terms = Terms::new(&program, token.as_deref().unwrap_or_default()).with_tls(options);
    let engine = Engine::with_natives(program, args.program.mode(), registry.natives().clone())?;
    let limits = args.program.limits();
    // A reader that does not need the line has closed the stream.
    let address = waiting.address().clone();
    let with_pin = |address| pin.into_iter().fold(address, Address::with_pin);
    let advertised = with_pin(args.advertise.clone().unwrap_or_else(|| address.clone()));
    let offer = args.group.offer(&advertised, &terms)?;
    let address = with_pin(address);
    let _ = writeln!(std::io::stdout(), "ready {address}");
    let joined = waiting.take_part(&terms, args.wait_ms.map(Duration::from_millis))?;
    // It has a run, and is no offer any more.
    drop(offer);
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

/// Returns the certificate of the listener, at `tls://`, and the options of connections to others.
fn certificates(args: &Args) -> Result<(Option<TlsServer>, TlsOptions), Failure> {
    if !args.listen.is_tls() {
        return Ok((None, args.tls.options()));
    }
    let files = match args.tls.key_files() {
        Some(files) => files,
        None => {
            let file = self_made()?;
            KeyFiles { certificate: file.clone(), key: file }
        }
    };
    let clients = match &args.tls.ca {
        Some(file) => Clients::Authorities { file: file.clone(), required: true },
        None if args.peer.is_empty() => Clients::Any,
        None => Clients::Pins(args.peer.clone()),
    };
    let tls = TlsServer::load(files.clone(), clients).map_err(|e| Failure::new(Exit::Usage, e))?;
    Ok((Some(tls), TlsOptions { certificate: Some(files), ..args.tls.options() }))
}
