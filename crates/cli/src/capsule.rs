//! `bifrost capsule`: a process that runs actors of a program whose `main` another process runs.
//! The file has the parts that both need.
//!
//! A capsule takes these steps in [`run`]: listen, compile the program, join the run, run its
//! nodes, and send a [`Report`] at the end. `bifrost run` starts capsules itself with [`Started`],
//! which owns their processes, joins them, and ends them with [`Started::end`].
//!
//! [`ProgramArgs`] are the arguments that both commands have; the first process hands them on to
//! the capsules that it starts. The protocol between capsules is in `bifrost-capsule`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bifrost_actors::WithActors;
use bifrost_capsule::capsules::{self, JoinError, Joined, REPORT_BYTES_MAX, Terms, Waiting};
use bifrost_capsule::nodes::{Nodes, nap};
use bifrost_capsule::space::Space;
use bifrost_engine::{Engine, Mode};
use bifrost_native::Registry;
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Cx, HeapStats, Limits};
use bifrost_server::config::collect;
use bifrost_server::program;
use bifrost_transport::Address;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::failure::{Exit, Failure, Outcome};
use crate::run::with_files;
use crate::serve;
use crate::trace::{self, NodeTrace};

/// The longest time that a started capsule waits for its starter, and the starter at the end for
/// the capsule.
const STARTED_MS_MAX: u64 = 30_000;
const ENDED_MS_MAX: u64 = 5_000;

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

/// The token that capsules show each other.
#[derive(clap::Args, Debug)]
pub struct TokenArgs {
    /// The secret that the capsules of a run have in common, over TCP. Other users can read it in
    /// the process table, so better use a file
    #[arg(long, value_name = "TOKEN", env = "BIFROST_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with the secret on its first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// Returns the token, if there is one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn token(&self) -> Result<Option<String>, Failure> {
        Ok(serve::token(self.token.as_deref(), self.token_file.as_deref())?.filter(|token| !token.is_empty()))
    }
}

/// The way a program is compiled and run, in this process or another one.
#[derive(clap::Args, Debug)]
pub struct ProgramArgs {
    /// Run in the interpreter
    #[arg(long)]
    pub interpret: bool,
    /// Where imports start [default: the folder of the file]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// A folder whose files `std.files` reaches; several times for several [default: the current
    /// folder]
    #[arg(long, value_name = "DIR")]
    pub allow_files: Vec<PathBuf>,
    /// Most bytes of all objects of a node
    #[arg(long, value_name = "BYTES")]
    pub heap_bytes_max: Option<usize>,
    /// Most bytes of messages that wait for one actor; at least a megabyte, and at most a quarter
    /// of the heap [default: 134217728]
    #[arg(long, value_name = "BYTES")]
    pub mailbox_bytes_max: Option<usize>,
    /// Bytes of stack of a node
    #[arg(long, value_name = "BYTES")]
    pub stack_bytes: Option<usize>,
}

impl ProgramArgs {
    /// Returns the mode in which methods run.
    pub fn mode(&self) -> Mode {
        if self.interpret { Mode::Interpreted } else { Mode::Compiled }
    }

    /// Returns the natives of the program, with the files that it may reach.
    ///
    /// # Errors
    /// A folder cannot be opened.
    pub fn registry(&self, registry: &Registry) -> Result<Registry, Failure> {
        let current = PathBuf::from(".");
        let allowed = match self.allow_files.is_empty() {
            true => std::slice::from_ref(&current),
            false => &self.allow_files,
        };
        with_files(registry, allowed)
    }

    /// Returns the limits. A program of one's own has no time limit and may fill the heap.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits { fuel: i64::MAX, collect: collect(), ..Limits::default() };
        limits.heap_bytes = self.heap_bytes_max.unwrap_or(limits.heap_bytes);
        limits.batch_heap_bytes = limits.heap_bytes;
        limits.mailbox_bytes = self.mailbox_bytes_max.unwrap_or(limits.mailbox_bytes);
        limits.stack_bytes = self.stack_bytes.unwrap_or(limits.stack_bytes);
        limits
    }

    /// Returns these arguments as those of another command.
    fn to_arguments(&self) -> Vec<OsString> {
        let mut out: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| out.extend([name.into(), value]);
        if let Some(root) = &self.root {
            add("--root", root.into());
        }
        for folder in &self.allow_files {
            add("--allow-files", folder.into());
        }
        for (name, value) in [
            ("--heap-bytes-max", self.heap_bytes_max),
            ("--mailbox-bytes-max", self.mailbox_bytes_max),
            ("--stack-bytes", self.stack_bytes),
        ] {
            if let Some(value) = value {
                add(name, value.to_string().into());
            }
        }
        if self.interpret {
            out.push("--interpret".into());
        }
        out
    }
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

/// Makes a context ready for nodes.
pub fn ready(cx: &mut Cx, traced: bool) {
    cx.actors().set_log(|text| tracing::warn!("{text}"));
    cx.actors().set_nap(nap);
    if traced {
        bifrost_actors::start_trace(cx);
    }
}

/// Capsules that this process has started, which end with it.
pub struct Started {
    children: Vec<Child>,
    addresses: Vec<Address>,
    /// The folder of their sockets, until they are connected.
    folder: Option<TempDir>,
}

impl Started {
    /// Starts so many, each with a socket in a folder that nobody else can enter.
    ///
    /// # Errors
    /// There are no means for them.
    pub fn new(count: u32, file: &Path, program: &ProgramArgs) -> Result<Started, Failure> {
        let no_means = |e: std::io::Error| Failure::new(Exit::Failed, format!("cannot start a capsule: {e}"));
        // Its mode is 0700.
        let folder = tempfile::Builder::new().prefix("bifrost-run-").tempdir().map_err(no_means)?;
        let mut started = Started { children: Vec::new(), addresses: Vec::new(), folder: None };
        for number in 1..=count {
            let address = Address::Shm(folder.path().join(number.to_string()));
            let mut command = Command::new(std::env::current_exe().map_err(no_means)?);
            command.arg("capsule").arg("--listen").arg(address.to_string());
            command.arg("--wait-ms").arg(STARTED_MS_MAX.to_string());
            // The lines that it prints come here by its connection.
            command.args(program.to_arguments()).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
            started.children.push(command.env_remove("BIFROST_TOKEN").spawn().map_err(no_means)?);
            started.addresses.push(address);
        }
        started.folder = Some(folder);
        Ok(started)
    }

    /// Begins a run with them.
    ///
    /// # Errors
    /// As for [`capsules::join`].
    pub fn join(&mut self, nodes: u32, traced: bool, terms: &Terms) -> Result<Joined, JoinError> {
        let children = &mut self.children;
        let joined = capsules::join(&self.addresses, nodes, traced, terms, |at| {
            matches!(children[at].try_wait(), Ok(None))
        });
        self.folder = None;
        joined
    }

    /// Waits for the end of those that have reported ([`Nodes::stop_others`]); ends those that do
    /// not end, and the others.
    pub fn end(mut self, reports: &[(u32, Vec<u8>)]) {
        let reported = |number: u32| reports.iter().any(|(capsule, _)| *capsule == number);
        let until = Instant::now() + Duration::from_millis(ENDED_MS_MAX);
        for (_, child) in (1..).zip(&mut self.children).filter(|(number, _)| reported(*number)) {
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself; then there is nothing to do.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The counts of the nodes of a capsule.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// The nodes, from the first of the capsule.
    pub nodes: Vec<NodeReport>,
    heap: [u64; 10],
}

/// [`Stats`] as they are sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Stats")]
struct SentStats {
    created: u64,
    created_remotely: u64,
    sent: u64,
    direct: u64,
    queued: u64,
    refused: u64,
    joins: u64,
    waits: u64,
    ways: u64,
    ahead: u64,
    turns: u64,
    longest_queue: u64,
    lost_exceptions: u64,
    cycles: u64,
    searched: u64,
    swept: u64,
    known: u64,
}

/// The counts of a node.
#[derive(Serialize, Deserialize)]
pub struct NodeReport {
    /// Its number.
    pub node: u32,
    /// The counts of its actors.
    #[serde(with = "SentStats")]
    pub stats: Stats,
    /// The bytes that its heap has handed out.
    pub allocated_bytes: u64,
    /// The events and their times, if they were kept.
    pub trace: Option<NodeTrace>,
}

impl Report {
    /// Makes the report of the nodes here, which must not run any more. Their traces are taken.
    pub fn of(nodes: &Nodes) -> Report {
        let HeapStats { usage, pause_ns, pause_ns_max, pauses_ns } = nodes.heap_stats();
        let heap = [
            usage.limit_bytes as u64,
            usage.used_bytes as u64,
            usage.held_bytes as u64,
            usage.live_bytes as u64,
            usage.live_objects as u64,
            usage.allocated_bytes,
            usage.collections,
            pause_ns,
            pause_ns_max,
            pauses_ns,
        ];
        let reports = (nodes.first_node()..).zip(nodes.spaces()).map(|(node, space)| {
            let mut cx = space.lock();
            // Clocks of processes begin at different times.
            let since_1970 =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            let began = since_1970.saturating_sub(cx.now_ns());
            let trace =
                bifrost_actors::take_trace(&mut cx).map(|trace| trace::NodeTrace::new(&trace, began, space));
            let allocated_bytes = cx.taken_bytes();
            NodeReport { node, stats: cx.words.stats, allocated_bytes, trace }
        });
        Report { nodes: reports.collect(), heap }
    }

    /// Returns the report as bytes for the first capsule; without the traces if they are too much.
    fn to_bytes(&self) -> Vec<u8> {
        let whole = serde_json::to_vec(self).unwrap_or_default();
        if whole.len() <= REPORT_BYTES_MAX {
            return whole;
        }
        let nodes = self.nodes.iter().map(|node| NodeReport { trace: None, ..*node }).collect();
        serde_json::to_vec(&Report { nodes, heap: self.heap }).unwrap_or_default()
    }

    /// Reads the bytes that another capsule has sent, which may be anything.
    pub fn parse(bytes: &[u8]) -> Option<Report> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the figures of the heaps together.
    pub fn heap(&self) -> HeapStats {
        let [limit, used, held, live, objects, allocated, collections, last, longest, all] = self.heap;
        let mut stats =
            HeapStats { pause_ns: last, pause_ns_max: longest, pauses_ns: all, ..HeapStats::default() };
        stats.usage.limit_bytes = limit as usize;
        stats.usage.used_bytes = used as usize;
        stats.usage.held_bytes = held as usize;
        stats.usage.live_bytes = live as usize;
        stats.usage.live_objects = objects as usize;
        stats.usage.allocated_bytes = allocated;
        stats.usage.collections = collections;
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_any_numbers_is_added_up() {
        let most = u64::MAX;
        let names = "created created_remotely sent direct queued refused joins waits ways ahead turns longest_queue lost_exceptions cycles searched swept known";
        let stats: serde_json::Map<_, _> =
            names.split(' ').map(|name| (name.to_owned(), most.into())).collect();
        let report = serde_json::json!({
            "nodes": [{ "node": u32::MAX, "stats": stats, "allocated_bytes": most, "trace": null }],
            "heap": vec![most; 10],
        });
        let report = Report::parse(report.to_string().as_bytes()).expect("a report");
        assert_eq!(report.nodes[0].stats.messages(), most);
        let both = report.heap().with(&report.heap());
        assert_eq!((both.usage.allocated_bytes, both.pauses_ns), (most, most));
        assert!(Report::parse(b"{\"nodes\": [").is_none());
    }
}
