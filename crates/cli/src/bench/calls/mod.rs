//! `bifrost bench calls`: the command, and the processes that it measures.
//!
//! [`run`] starts a server and the other side of the raw exchange, each a process of its own.
//! [`measure`] takes the figures over shared memory, [`batches`] those of batches over any stream,
//! [`streams`] compares crossings over TLS and websockets with TCP, [`overlap`] has batches over a
//! link with a delay, and [`nodes`] compares the nodes of the interpreter in this process.

pub mod batches;
mod many;
pub mod measure;
mod nodes;
mod overlap;
mod streams;

use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_server::{Config, Server, TlsConfig, program};
use bifrost_theta::{Options, Sources};
use bifrost_transport::Address;
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use self::streams::Beside;
use super::bifrost_stubs as stubs;
use super::common::{Failed, note_debug_build, pin, say};
use super::helper::Helper;
use super::raw;
use super::report::{self, JsonLines};
use crate::common::certificates::{make_self_signed, write_new};

/// The program that the measurements run against.
pub const THETA: &str = include_str!("../bench.theta");

/// The arguments of `bifrost bench calls`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The client runs on one core, the server on another; without two cores the figures are \
        not valid. Use a release build.\n\nExamples:\n  bifrost bench calls\n  bifrost bench calls \
                        --json calls.jsonl --svg loops.svg\n  bifrost bench calls --over shm,unix,tcp,tls,ws,wss"
)]
pub struct Args {
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the five ways to batch a loop
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// A tenth of the samples: enough to see that everything works
    #[arg(long)]
    quick: bool,
    /// The streams to measure batches over; shared memory is always measured
    #[arg(long, value_name = "STREAMS", value_enum, value_delimiter = ',')]
    over: Vec<Over>,
    /// The cores of client and server
    #[arg(long, value_name = "CLIENT,SERVER", default_values_t = [0, 1], value_delimiter = ',', num_args = 2)]
    cores: Vec<usize>,
}

/// A stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Over {
    /// Shared memory
    Shm,
    /// A unix socket
    Unix,
    /// TCP on this machine
    Tcp,
    /// TLS on this machine
    Tls,
    /// A websocket on this machine
    Ws,
    /// A websocket over TLS on this machine
    Wss,
}

/// Runs the command.
///
/// # Errors
/// Something cannot be measured or written.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let (client, server) = (args.cores[0], args.cores[1]);
    let folder = std::env::temp_dir().join(format!("bifrost-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let measured = start_and_measure(args, &folder, client, server);
    std::fs::remove_dir_all(&folder)?;
    let measured = measured?;
    for (title, cases) in &measured.sections {
        report::print_cases(title, cases);
    }
    batches::print_table(&measured.fits);
    nodes::print_table(&measured.nodes);
    report::print_targets(&measured.targets);
    for (_, cases) in &measured.sections {
        json.write(cases)?;
    }
    json.write(&measured.targets)?;
    if let Some(path) = &args.svg {
        report::write_chart(path, "Five ways to batch a loop", &measured.lines)?;
    }
    Ok(())
}

/// The program of the measurements, loaded to run so.
pub fn load(run: Run) -> Result<Arc<Engine>, Failed> {
    let mut sources = Sources::new();
    sources.add("bench.theta", THETA);
    Ok(program::load_sources(sources, &Options::default(), run)?)
}

fn start_and_measure(
    args: &Args,
    folder: &Path,
    client: usize,
    server: usize,
) -> Result<measure::Measured, Failed> {
    let effort = match args.quick {
        true => measure::Effort { samples: 200, long_samples: 5 },
        false => measure::Effort { samples: 2000, long_samples: 50 },
    };
    let core = server.to_string();
    let file = folder.join("lines");
    std::fs::write(&file, [0; raw::PAGE])?;
    let path = |p: &Path| p.to_string_lossy().into_owned();
    let mut serving = Helper::start(&["server", &path(folder), &core])?;
    let urls = serving.ready()?;
    let url = |scheme: &str| {
        let found = urls.split(' ').find(|url| url.starts_with(scheme));
        found.ok_or_else(|| Failed::from(format!("the server does not listen on {scheme}")))
    };
    let mut echoing = Helper::start(&["echo-lines", &path(&file), &core])?;
    echoing.ready()?;
    let lines = raw::map(&file)?;
    pin(client);
    let streams = args.over.len() as u64;
    let bar =
        ProgressBar::new((2 + streams) * (effort.samples as u64 / 10) + 5 * effort.long_samples as u64 + 1);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    let session = stubs::connect(url("shm://")?)?;
    let mut orders = echoing.take_input()?;
    let mut go = || {
        orders.write_all(b"go\n")?;
        orders.flush()
    };
    let mut raw = measure::Raw { lines, go: &mut go };
    let mut measured = measure::measure(&session, &mut raw, effort, &bar)?;
    session.close()?;
    let mut others: Vec<Over> = Vec::new();
    for over in args.over.iter().filter(|over| **over != Over::Shm) {
        if others.contains(over) {
            continue;
        }
        others.push(*over);
        let (scheme, name, title) = match over {
            Over::Shm => continue,
            Over::Unix => ("unix://", "unix", "Batches over a unix socket (001 figures 4 to 6)"),
            Over::Tcp => ("tcp://", "tcp", "Batches over TCP (001 figures 4 to 6)"),
            Over::Tls => ("tls://", "tls", "Batches over TLS (001 figures 4 to 6)"),
            Over::Ws => ("ws://", "ws", "Batches over a websocket (001 figures 4 to 6)"),
            Over::Wss => ("wss://", "wss", "Batches over a websocket in TLS (001 figures 4 to 6)"),
        };
        let session = stubs::connect(url(scheme)?)?;
        bar.set_message(format!("batches over {name}"));
        let batches = batches::measure(&session, effort, &bar, name)?;
        measured.sections.push((title, batches.cases));
        measured.fits.extend(batches.rows);
        session.close()?;
    }
    let beside = |over: Over, scheme: &'static str, name, most| {
        others.contains(&over).then(|| url(scheme).map(|url| Beside { name, url, most }))
    };
    let beside = [
        beside(Over::Tls, "tls://", "tls", 1.15),
        beside(Over::Ws, "ws://", "ws", 1.3),
        beside(Over::Wss, "wss://", "wss", 1.5),
    ];
    let beside: Vec<Beside<'_>> = beside.into_iter().flatten().collect::<Result<_, _>>()?;
    if !beside.is_empty() {
        bar.set_message("crossings beside TCP");
        let (cases, targets) = streams::measure(url("tcp://")?, &beside, effort, &bar)?;
        measured.sections.push(("Crossings over other streams beside TCP, in turn", cases));
        measured.targets.extend(targets);
    }
    bar.set_message("batches that overlap");
    let address = url("tcp://")?.trim_start_matches("tcp://");
    let (cases, targets) = overlap::measure(address, effort, &bar)?;
    measured.sections.push(("Batches over a link with a delay of 1 ms in each direction", cases));
    measured.targets.extend(targets);
    bar.set_message("nodes of the interpreter");
    let (nodes, cases) = nodes::measure(effort, &bar)?;
    measured.sections.push(("Nodes of the interpreter (000 figure 7-3)", cases));
    measured.nodes = nodes;
    bar.finish_and_clear();
    Ok(measured)
}

/// Runs the server of the measurements: says where it listens, in a line, and serves until its
/// input ends.
///
/// # Errors
/// It cannot listen.
pub fn serve(folder: &Path, core: usize) -> Result<(), Failed> {
    pin(core);
    let engine = load(Run::kept(Mode::Compiled))?;
    let certificate = folder.join("tls.pem");
    write_new(&certificate, 0o600, &make_self_signed()?)?;
    let folder = folder.display();
    let listen = vec![
        format!("shm://{folder}/shm"),
        format!("unix://{folder}/unix"),
        "tcp://127.0.0.1:0".to_owned(),
        "tls://127.0.0.1:0".to_owned(),
        "ws://127.0.0.1:0".to_owned(),
        "wss://127.0.0.1:0".to_owned(),
    ];
    let tls = TlsConfig { certificate, ..TlsConfig::default() };
    let config = Config { listen, tls, anonymous_loopback: true, ..Config::default() };
    let server = Server::start(engine, &config)?;
    let pinned = |address: &Address| server.pin().into_iter().fold(address.clone(), Address::with_pin);
    let urls: Vec<String> = server.addresses().iter().map(|address| pinned(address).to_string()).collect();
    say(&urls.join(" "))?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Runs the other side of the raw exchange.
///
/// # Errors
/// The memory cannot be mapped.
pub fn echo(file: &Path, core: usize) -> Result<(), Failed> {
    pin(core);
    let lines = raw::map(file)?;
    say("ready")?;
    // A burst for each line; between bursts this process takes no time from the server on its core.
    for line in std::io::stdin().lock().lines() {
        line?;
        raw::echo(lines);
    }
    Ok(())
}
