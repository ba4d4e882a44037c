//! `bifrost bench sessions`: great numbers of sessions, idle and active, beside Redis and gRPC.
//!
//! Read [`run`] first. It measures these in turn:
//!
//! 1. idle sessions: the means that a server needs for them ([`idle`]);
//! 2. active clients, 1 to 500: throughput and percentiles ([`active`]), beside the peers
//!    ([`peers`]).
//!
//! Servers and clients share the machine. Peers are measured in turn within the run, so that a
//! change of the machine's speed hits all sides.

mod active;
mod idle;
mod peers;

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

pub use idle::hold;
use peers::Peer;

use super::common::{Failed, note_debug_build};
use super::report::{self, JsonLines};
use crate::process::ServerProcess;

/// The program that is served.
const PROGRAM: &str = include_str!("../../../../../bench/sessions/sessions.theta");
/// The entries that it has.
const ENTRIES: i64 = 1000;

/// The arguments of `bifrost bench sessions`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. Peers are measured if they are installed; on Debian:
  apt-get install redis-server g++ protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev

Operations: `get` reads a string and `set` changes it, each in a transaction of its own; `call` reads it
without one. Redis and gRPC do `get` for `call`.

Examples:
  bifrost bench sessions
  bifrost bench sessions --idle 10000 --clients 0
  bifrost bench sessions --idle 0 --clients 1,500 --over unix --operations get --peers redis
  bifrost bench sessions --idle 0 --clients 1 --over shm,unix --operations call --alone --against ./bifrost-before
  bifrost bench sessions --json sessions.jsonl")]
pub struct Args {
    /// The number of idle sessions; 0 for none
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    idle: u64,
    /// The numbers of active clients; 0 for none
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 8, 32, 128, 500])]
    clients: Vec<u64>,
    /// The transports. The load generator of active clients speaks no TLS: with `tls` only idle
    /// sessions are measured, with `shm` only one client
    #[arg(long, value_delimiter = ',', default_value = "unix,tcp")]
    over: Vec<Over>,
    /// The operations of active clients
    #[arg(long, value_delimiter = ',', default_value = "get,set")]
    operations: Vec<Operation>,
    /// The numbers of operations that a client sends at once: one batch of ours, or requests that
    /// do not wait for each other
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16])]
    pipeline: Vec<u64>,
    /// The bytes of a string
    #[arg(short = 'd', long, value_name = "N", default_value_t = 3)]
    bytes: usize,
    /// The seconds of a sample
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,
    /// The samples of each case; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// The systems measured beside this one [default: all]
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<Peer>>,
    /// Measure this system only
    #[arg(long, conflicts_with = "peers")]
    alone: bool,
    /// Another `bifrost`, such as one from before a change: its server is measured in turn with
    /// this one's, by the same clients
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Reads a number of seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write a number of seconds from 0.01 to 600".to_owned()),
    }
}

/// A transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Over {
    /// Shared memory; of active clients only one, which waits for each answer
    Shm,
    /// Unix sockets
    Unix,
    /// TCP on the loopback address
    Tcp,
    /// The same with TLS
    Tls,
}

impl Over {
    /// Returns its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Over::Shm => "shm",
            Over::Unix => "unix",
            Over::Tcp => "tcp",
            Over::Tls => "tls",
        }
    }
}

/// The work of active clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Operation {
    /// Read a string, in the transaction that the session is in
    Call,
    /// Read a string, in a transaction
    Get,
    /// Change a string, in a transaction
    Set,
}

impl Operation {
    /// Returns its name in tables and files.
    fn name(self) -> &'static str {
        match self {
            Operation::Call => "call",
            Operation::Get => "get",
            Operation::Set => "set",
        }
    }

    /// Returns the name of the peers' operation.
    fn peers_name(self) -> &'static str {
        if self == Operation::Set { "set" } else { "get" }
    }
}

/// Starts a server that takes so many sessions: this program's, or that of another `bifrost`.
fn serve(folder: &Path, over: Over, sessions: u64, other: Option<&Path>) -> Result<ServerProcess, Failed> {
    let listen = match over {
        Over::Shm => format!("shm://{}", folder.join("server").display()),
        Over::Unix => format!("unix://{}", folder.join("server").display()),
        Over::Tcp => "tcp://127.0.0.1:0".to_owned(),
        Over::Tls => "tls://127.0.0.1:0".to_owned(),
    };
    // Some more: connections that have just ended count until the server has seen it.
    let most = sessions + 1000;
    let settings = [
        format!("sessions_max={most}"),
        format!("greetings_max={most}"),
        format!("greetings_address_max={most}"),
        "connections_per_second_max=1000000".to_owned(),
        format!("handshakes_max={most}"),
        "handshakes_per_second_max=1000000".to_owned(),
        // A session may rest for as long as the measurement takes.
        "limits.idle_ms_max=3600000".to_owned(),
    ];
    let mut arguments = vec!["--listen", &listen];
    for setting in &settings {
        arguments.extend(["--set", setting]);
    }
    if matches!(over, Over::Tcp | Over::Tls) {
        arguments.push("--anonymous-loopback");
    }
    let this = std::env::current_exe()?;
    Ok(ServerProcess::start_by(other.unwrap_or(&this), folder, PROGRAM, &arguments)?)
}

/// Runs the command.
///
/// # Errors
/// A server does not start, or a client fails.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let mut targets = Vec::new();
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    if args.idle > 0 {
        let mut rows = Vec::new();
        for over in &args.over {
            let row = idle::measure(*over, args.idle, &bar)?;
            let (cases, goals) = row.report(args.idle);
            json.write(&cases)?;
            targets.extend(goals);
            rows.push(row);
        }
        bar.suspend(|| idle::print(args.idle, &rows));
    }
    if args.clients.iter().any(|clients| *clients > 0) {
        targets.extend(active::measure(args, &mut json, &bar)?);
    }
    bar.finish_and_clear();
    report::print_targets(&targets);
    json.write(&targets)?;
    Ok(())
}
