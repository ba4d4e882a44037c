//! `bifrost run`: a program's routine `main`, without a server.

use std::io::Write;
use std::path::PathBuf;

use bifrost_capsule::capsules::{self, CAPSULES_MAX, Terms};
use bifrost_capsule::nodes::{NODES_MAX, Nodes};
use bifrost_capsule::space::Space;
use bifrost_engine::{Engine, Run};
use bifrost_native::Registry;
use bifrost_native::standard::{CLAIM_MS, Claims};
use bifrost_repository::Place;
use bifrost_runtime::Cx;
use bifrost_server::config::MEMORY;
use bifrost_server::objects::Objects;
use bifrost_server::program;
use bifrost_transport::Address;

use crate::common::arguments::{ProgramArgs, TokenArgs};
use crate::common::capsules::{Started, ready};
use crate::common::certificates::TlsArgs;
use crate::common::figures::{actors_line, heap_line};
use crate::common::group::GroupArgs;
use crate::common::main_routine::Main;
use crate::common::report::Report;
use crate::failure::{Exit, Failure, Outcome};

/// Run a program's routine `main`
///
/// `main` takes nothing, or `args: sequence[string]`. If it ends with an exception, the exception
/// is printed with its values and the exit status is 1.
///
/// With `--store`, or if `main` has transactions, it runs over a store: `root()` is the store's
/// directory, inside transactions only.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost run hello.theta
  bifrost run queens.theta 8
  bifrost run --interpret queens.theta 8   the same without machine code: slower, for comparison
  bifrost run --nodes 2 --stats queens.theta 10   actors on two threads, and their counts
  bifrost run --nodes 2 --trace queens.json queens.theta 6   a picture of the events in time
  bifrost run --nodes 2 --capsules 3 queens.theta 10   six nodes, in three processes
  bifrost run --capsules 3 --trader unix:///run/trader queens.theta 10   with capsules that a trader knows
  bifrost run --store bank.store bank.theta ann 100")]
pub struct Args {
    /// The file with `main`; its imports are found by themselves
    #[arg(value_name = "FILE.theta")]
    file: PathBuf,
    /// The arguments of `main`: `args[1]`, `args[2]` ...
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARG")]
    arguments: Vec<String>,
    #[command(flatten)]
    program: ProgramArgs,
    /// Where objects are kept: a folder, which is made if it does not exist, a database as
    /// postgres://user@host/name, or `memory:` [default: `memory:` if the program has transactions,
    /// else nowhere]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Print statistics of the collector to the standard error, at the end
    #[arg(long)]
    gc_stats: bool,
    /// The number of threads in each process for the program's actors; `main` runs on the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(NODES_MAX)))]
    nodes: u32,
    /// The number of processes for the program's actors; all but this one are started on this
    /// machine, and end with it, or are those that a trader knows
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(CAPSULES_MAX)))]
    capsules: u32,
    /// Where processes listen that take part, in place of started ones: `bifrost capsule --help`
    /// says more
    #[arg(long, value_name = "URL", value_delimiter = ',', conflicts_with_all = ["capsules", "seed"])]
    join: Vec<Address>,
    #[command(flatten)]
    group: GroupArgs,
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    tls: TlsArgs,
    /// Derive from this number which messages are calls, and the order of everything, so that a run
    /// can be repeated; all nodes on one thread
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the events of each node with their times to a file that ui.perfetto.dev and
    /// chrome://tracing show
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print statistics of the actors of each node to the standard error, at the end
    #[arg(long)]
    stats: bool,
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    // Before the program is compiled, which they do meanwhile.
    let capsules = args.join.len() as u32 + args.capsules;
    let simulated = args.seed.is_some();
    let found = !args.group.trader.is_empty();
    if found && (simulated || !args.join.is_empty() || args.capsules < 2) {
        let text = "`--trader` finds the other processes of a run: it needs `--capsules`, and takes no `--join` and no `--seed`";
        return Err(Failure::new(Exit::Usage, text));
    }
    let mut started = match args.capsules {
        2.. if !simulated && !found => Some(Started::new(args.capsules - 1, &args.file, &args.program)?),
        _ => None,
    };
    let mut registry = args.program.registry(registry)?;
    let files = std::slice::from_ref(&args.file);
    let program = program::compile_files(files, args.program.root.as_deref(), &registry)?;
    let store = args.store.as_deref().or_else(|| program.has_transactions().then_some(MEMORY));
    let store = store
        .map(str::parse::<Place>)
        .transpose()
        .map_err(|e| Failure::new(Exit::Usage, format!("`--store` cannot be used: {e}")))?;
    let shared = matches!(store, Some(Place::Database(_)));
    registry.set(Claims::new(shared, CLAIM_MS).map_err(|e| Failure::new(Exit::Failed, e.to_string()))?);
    if args.nodes * capsules > 1 && store.is_some() {
        return Err(Failure::new(Exit::Usage, "a program over a store has one node")
            .help("leave out `--nodes`, `--capsules` and `--join`, or `--store` and the transactions"));
    }
    let token = args.token.token()?.unwrap_or_default();
    let terms = Terms::new(&program, &token).with_tls(args.tls.options());
    let mode = args.program.mode();
    let run = if store.is_some() { Run::kept(mode) } else { mode.into() };
    let engine = Engine::with_natives(program, run, registry.natives().clone())?;
    let main = Main::find(&engine).ok_or_else(|| {
        Failure::new(Exit::Failed, format!("`{}` has no routine to run", args.file.display()))
            .help("add `main () ... end main`, or `main (args: sequence[string]) ... end main`")
    })?;
    if !args.arguments.is_empty() && !main.takes_arguments {
        return Err(Failure::new(Exit::Usage, "`main` of this program takes no arguments")
            .help("write `main (args: sequence[string])` to receive arguments"));
    }
    let limits = args.program.limits();
    let (space, _cache) = match store {
        None => (Space::new(engine.clone(), limits)?, None),
        Some(place) => {
            let (space, cache) =
                Objects::open(engine.clone(), &place, limits, Default::default(), None, None, None)?
                    .space()?;
            // Code between its transactions has none.
            space.lock().set_transactions_by_program();
            (space, Some(cache))
        }
    };
    let traced = args.trace.is_some();
    let ready = |cx: &mut Cx| {
        ready(cx, traced);
        if let Some(seed) = args.seed {
            cx.set_order(seed);
        }
    };
    let joined = match &mut started {
        Some(started) => Some(started.join(args.nodes, traced, &terms)?),
        None if found => Some(args.group.join(args.capsules - 1, args.nodes, traced, &terms, &args.tls)?),
        None if args.join.is_empty() => None,
        None => Some(capsules::join(&args.join, args.nodes, traced, &terms, |_| false)?),
    };
    let nodes = match (joined, args.seed.filter(|_| args.nodes * capsules > 1)) {
        (Some(joined), _) => Nodes::joined(space, joined, limits, print_text, ready),
        // All nodes that there would be: packets of two nodes keep their order, as those of two
        // capsules.
        (None, Some(seed)) => Nodes::simulated(space, args.nodes * capsules, limits, seed, ready),
        (None, None) => Nodes::new(space, args.nodes, limits, ready),
    }
    .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    let ended = nodes
        .run(|space| main.call(space, &args.arguments))
        .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    let events = nodes.events();
    let reports = nodes.stop_others();
    if let Some(started) = started {
        started.end(&reports);
    }
    let others = reports.iter().filter_map(|(capsule, bytes)| Some((*capsule, Report::parse(bytes)?)));
    let reports: Vec<(u32, Report)> = std::iter::once((0, Report::of(&nodes))).chain(others).collect();
    if let Some(file) = &args.trace {
        crate::trace::write(file, &reports)?;
    }
    if args.gc_stats {
        let all = reports.iter().map(|(_, report)| report.heap()).reduce(|all, one| all.with(&one));
        eprintln!("{}", heap_line(&all.unwrap_or_default()));
    }
    if args.stats {
        for node in reports.iter().flat_map(|(_, report)| &report.nodes) {
            eprintln!("node {}: {}", node.node, actors_line(node));
        }
        if let Some((count, digest)) = events {
            eprintln!("events between nodes {count}, digest of their log {digest}");
        }
    }
    ended.map_err(|exception| {
        Failure::new(Exit::Failed, format!("`main` ended with the exception {exception}"))
    })
}

/// Prints the text that a program has printed in another process.
fn print_text(text: &str) {
    // A closed pipe is no reason to end a program that prints.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
