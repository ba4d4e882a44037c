//! `bifrost bench oo7`: the benchmark of Carey, DeWitt and Naughton (1993), each operation in four
//! ways.
//!
//! The program is in `bench/oo7`. The server is a process of its own; client and server are pinned
//! to one core each. All ways give the same number, or the run fails. Structures and methods run in
//! turn. Times are medians of hot runs: one run before them does not count.
//!
//! [`run`] starts the server, generates the database in it, measures each operation in its ways
//! (`measure_op`), and compares the figures with the targets. [`ops`] names the operations,
//! [`client`] and [`structures`] run them, [`store`] measures over a store. `Figures` owns the
//! cases measured so far.

#[rustfmt::skip]
#[allow(clippy::all, reason = "generated")]
mod bifrost_stubs;
mod client;
mod ops;
mod peers;
mod plain;
mod store;
mod structures;

use std::path::{Path, PathBuf};
use std::time::Instant;

use bifrost_engine::{Mode, Run};
use bifrost_server::config::MEMORY;
use bifrost_server::{Config, Server, program};
use bifrost_theta::{Options, Sources};
use bifrost_veneer::Session;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::common::{Failed, note_debug_build, pin, say};
use super::report::{self, Case, JsonLines, Target};
use bifrost_stubs as stubs;
use ops::{OPS, Op, Way, Ways};
use peers::Peer;
use store::Serving;

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        [$((concat!($name, ".theta"), include_str!(concat!("../../../../../bench/oo7/", $name, ".theta")))),*]
    };
}

/// The program, the file that the others are imported from first.
const SOURCES: [(&str, &str); 13] = sources![
    "oo7",
    "btree",
    "check",
    "collections",
    "database",
    "design",
    "fingerprint",
    "generate",
    "queries",
    "random",
    "schema",
    "sizes",
    "traversals",
];

/// The published sizes, and three for tests.
const SIZES: [&str; 12] = [
    "test1", "test3", "tiny", "small3", "small6", "small9", "medium3", "medium6", "medium9", "large3",
    "large6", "large9",
];

/// The size that the project's targets are for.
const TARGET_SIZE: &str = "small3";

/// Whole traversals of the largest databases are one batch each.
const HEAP_BYTES_MAX: usize = 64 << 30;

/// In which sessions operations over a store are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Temperature {
    /// In one that has run the operation before
    Hot,
    /// In a new one
    Cold,
}

/// The arguments of `bifrost bench oo7`.
#[derive(Debug, ClapArgs)]
#[command(after_help = after_help())]
pub struct Args {
    /// The size of the database
    #[arg(long, default_value = "small3", value_parser = PossibleValuesParser::new(SIZES))]
    size: String,
    /// The seed of the generator of random numbers
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// An operation to run; can be given several times [default: all]
    #[arg(long, value_name = "OP", value_parser = PossibleValuesParser::new(OPS.iter().map(|o| o.name)))]
    op: Vec<String>,
    /// A way to run them; can be given several times [default: all]
    #[arg(long, value_enum)]
    way: Vec<Way>,
    /// Keep the database in a store: a folder, a database as postgres://user@host/name, or
    /// `memory:`; each operation is then measured hot and cold
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Measure only hot, or only cold [default: both]
    #[arg(long, value_enum, requires = "store")]
    temperature: Option<Temperature>,
    /// Most neighbours that the server fetches along with an object
    #[arg(long, value_name = "OBJECTS", requires = "store", hide = true)]
    prefetch: Option<usize>,
    /// Others to measure beside, over a store too; `bench/oo7/peers` says how they are made
    #[arg(long, value_enum, value_name = "PEER", value_delimiter = ',')]
    peers: Vec<Peer>,
    /// Where the programs of the others are
    #[arg(long, value_name = "DIR", default_value = "bench/oo7/peers")]
    peers_folder: PathBuf,
    /// Runs of each operation and way that count
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: u32,
    /// Write the figures as JSON, one object a line, each when it is measured; `-` for the standard
    /// output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The cores of client and server
    #[arg(long, value_name = "CLIENT,SERVER", default_values_t = [0, 1], value_delimiter = ',', num_args = 2)]
    cores: Vec<usize>,
}

fn after_help() -> String {
    let mut text = "\
The client runs on one core, the server on another. Use a release build.

Operations, with their counts:
"
    .to_owned();
    for op in &OPS {
        text.push_str(&format!("  {:<7} {}\n", op.name, op.about));
    }
    text.push_str(
        "
Examples:
  bifrost bench oo7
  bifrost bench oo7 --op T2b --way futures --way promises
  bifrost bench oo7 --size medium9 --way theta --json oo7.jsonl
  bifrost bench oo7 --op T1 --op T6 --store /tmp/oo7.store
  bifrost bench oo7 --way theta --peers sqlite,zeo

With --store each run is a transaction. Hot is in a session that has run the operation before; cold is in a new session, of a
server that has just been started if the store is not in memory. A database of the same size and seed that the store has
already is used as it is. `fetches` are calls of the store, `objects` the fetched objects that were used, `before` the
number of these and of the unused objects that were prefetched.",
    );
    text
}

/// Runs the command.
///
/// # Errors
/// The server does not start, a call fails, two ways give different numbers, or the database is not
/// right afterwards.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let folder = tempfile::tempdir()?;
    let chosen: Vec<&Op> =
        OPS.iter().filter(|op| args.op.is_empty() || args.op.iter().any(|o| o == op.name)).collect();
    pin(args.cores[0]);
    let beside = folder.path().join("store").display().to_string();
    let mut figures = Figures { cases: Vec::new(), json: JsonLines::create(args.json.as_deref())? };
    let control = match args.store.as_ref().or((!args.peers.is_empty()).then_some(&beside)) {
        Some(store) => {
            let control = store::measure(args, store, &chosen, folder.path(), &mut figures)?;
            for peer in &args.peers {
                let folder = tempfile::tempdir_in(&folder)?;
                figures.add(peer.measure(args, &chosen, folder.path())?)?;
            }
            control
        }
        None => {
            let serving = Serving::start(args, folder.path(), MEMORY)?;
            let session = serving.session()?;
            measure(args, &chosen, &session, &mut figures)?;
            session.close()?;
            None
        }
    };
    let Figures { cases, mut json } = figures;
    print(args, &cases);
    if !args.peers.is_empty() {
        peers::print(&cases);
    }
    let mut targets = targets(args, &cases);
    targets.extend(control);
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    json.write(&targets)?;
    Ok(())
}

impl Args {
    /// Returns true if operations over a store are measured so.
    fn measures(&self, temperature: Temperature) -> bool {
        self.temperature.is_none_or(|only| only == temperature)
    }

    /// Returns the chosen ways of an operation.
    fn ways(&self, op: &Op) -> impl Iterator<Item = Way> {
        op.ways.iter().copied().filter(|way| self.way.is_empty() || self.way.contains(way))
    }
}

/// The figures measured so far.
struct Figures {
    cases: Vec<Case>,
    json: JsonLines,
}

impl Figures {
    /// Adds cases, which must give the same result as the operation gave before.
    fn add(&mut self, new: Vec<Case>) -> Result<(), Failed> {
        for case in new {
            let first = self.cases.iter().find(|other| other.case == case.case).unwrap_or(&case);
            if first.result != case.result {
                let (name, a, b) = (&case.case, first.result, case.result);
                let (ours, theirs) = (case.way.unwrap_or(case.peer), first.way.unwrap_or(first.peer));
                return Err(format!("{name} gives {a:?} as {theirs} and {b:?} as {ours}").into());
            }
            self.json.write(std::slice::from_ref(&case))?;
            self.cases.push(case);
        }
        Ok(())
    }
}

fn measure(args: &Args, chosen: &[&Op], session: &Session, figures: &mut Figures) -> Result<(), Failed> {
    let db = generate(&args.size, args.seed, session, None)?;
    let theta = stubs::new_oo7(session, &db);
    let ways = Ways::new(session, &db, &theta);
    let bar = ProgressBar::new(chosen.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    for op in chosen {
        bar.set_message(op.name);
        // Only the server's own work is compared; a client's own run leaves it much to clean up.
        let (whole, client): (Vec<Way>, Vec<Way>) =
            args.ways(op).partition(|way| matches!(way, Way::Bcs | Way::Theta));
        for way in client {
            figures.add(measure_op(args.samples, session, &ways, op, &[way])?)?;
        }
        figures.add(measure_op(args.samples, session, &ways, op, &whole)?)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    match theta.check().claim()?.as_str() {
        "" => Ok(()),
        wrong => Err(format!("the database is wrong afterwards: {wrong}").into()),
    }
}

/// The name of a database that is being generated.
const UNFINISHED: &str = "oo7 unfinished";

/// Generates a database, by steps so that the bar can move. One with a name is stored under it.
fn generate(size: &str, seed: u32, session: &Session, name: Option<&str>) -> Result<stubs::Database, Failed> {
    let generator = stubs::new_generator(session, size, i64::from(seed));
    let steps = generator.steps().claim()?;
    let bar = ProgressBar::new(steps.unsigned_abs());
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  generating {msg}")?);
    bar.set_message(size.to_owned());
    let mut left = steps;
    while left > 0 {
        left = generator.step(10).claim()?;
        if name.is_some() && left > 0 {
            // A large database would be too much for one commit; only the last one makes it
            // visible.
            stubs::name_database(session, UNFINISHED, generator.database());
            session.commit().claim()?;
        }
        bar.set_position((steps - left).unsigned_abs());
    }
    bar.finish_and_clear();
    let db = generator.database();
    if let Some(name) = name {
        stubs::name_database(session, name, &db);
        stubs::forget_name(session, UNFINISHED);
        session.commit().claim()?;
    }
    Ok(db)
}

/// Runs an operation in some ways, in turn.
fn measure_op(
    samples: u32,
    session: &Session,
    ways: &Ways<'_>,
    op: &Op,
    chosen: &[Way],
) -> Result<Vec<Case>, Failed> {
    let mut times = vec![Vec::new(); chosen.len()];
    let mut crossed = vec![(0, 0); chosen.len()];
    let mut results = vec![0; chosen.len()];
    for sample in 0..=samples {
        for (i, way) in chosen.iter().enumerate() {
            if let Some(before) = op.before {
                ways.run(before, Way::Theta)?;
            }
            session.flush()?;
            let (before, start) = (session.counters(), Instant::now());
            let given = ways.run(op.name, *way)?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let after = session.counters();
            // The first run also sends the procedures, and compiles.
            if sample > 0 {
                times[i].push(ms);
                crossed[i] = (after.crossings - before.crossings, after.calls - before.calls);
            }
            if sample > 0 && given != results[i] {
                let (name, result) = (op.name, results[i]);
                return Err(format!("{name} gives {result} and then {given}, as {}", way.name()).into());
            }
            results[i] = given;
            if let Some(undo) = op.undo {
                ways.run(undo, Way::Theta)?;
            }
        }
    }
    let mut cases = Vec::new();
    for (i, way) in chosen.iter().enumerate() {
        let case = Case::new(op.name, u64::from(samples), "ms", &mut times[i]).part_of("oo7");
        cases.push(case.gives(results[i]).by(way.name()).crossed(crossed[i].0, crossed[i].1));
    }
    Ok(cases)
}

fn find<'c>(cases: &'c [Case], op: &str, way: Way, temperature: Option<&str>) -> Option<&'c Case> {
    let fits = |c: &&Case| c.case == op && c.way == Some(way.name()) && c.temperature == temperature;
    cases.iter().find(fits)
}

/// Returns the targets of the project, as far as they were measured.
fn targets(args: &Args, cases: &[Case]) -> Vec<Target> {
    let mut targets = Vec::new();
    if args.size != TARGET_SIZE {
        return targets;
    }
    let hot = cases.iter().find_map(|c| c.temperature).map(|_| "hot");
    for (way, least, source) in [(Way::Futures, 2.33, "001, 4.4"), (Way::Promises, 3.47, "000, 4.4.2")] {
        if let Some(factor) = find(cases, "T2b", way, hot).and_then(|c| c.batching_factor) {
            let name = format!("batching factor of T2b with {} ({source})", way.name());
            targets.push(Target::at_least(name, factor, least, ""));
        }
    }
    let t1 = |way| find(cases, "T1", way, hot);
    if let (Some(bcs), Some(theta)) = (t1(Way::Bcs), t1(Way::Theta)) {
        targets.push(Target::new("T1 as structures, against the method", bcs.value / theta.value, 1.2, "x"));
    }
    targets
}

fn print(args: &Args, cases: &[Case]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}OO7, {}, seed {}{bold:#}", args.size, args.seed);
    anstream::println!(
        "  {:<7} {:>9}  {:<9} {:>12} {:>12} {:>12} {:>8}{}",
        "",
        "result",
        "way",
        "ms",
        "crossings",
        "calls",
        "B",
        if cases.iter().any(|c| c.fetches.is_some()) { "        fetches  objects   before" } else { "" }
    );
    let mut last = "";
    for c in cases.iter().filter(|c| c.peer == "bifrost") {
        let (op, result) = match last == c.case {
            true => ("", String::new()),
            false => (c.case.as_str(), c.result.unwrap_or_default().to_string()),
        };
        last = &c.case;
        let (way, crossings) = (c.way.unwrap_or_default(), c.crossings.unwrap_or_default());
        let (calls, factor) = (c.calls.unwrap_or_default(), c.batching_factor.unwrap_or_default());
        let fetched = match (c.temperature, c.fetches, c.fetched) {
            (Some(temperature), Some(fetches), Some(fetched)) => {
                format!(" {temperature:>5} {fetches:>8} {fetched:>8} {:>8}", c.prefetched.unwrap_or_default())
            }
            _ => String::new(),
        };
        anstream::println!(
            "  {op:<7} {result:>9}  {way:<9} {:>12.3} {crossings:>12} {calls:>12} {factor:>8.2}{fetched}",
            c.value
        );
    }
}

fn sources() -> Sources {
    let mut sources = Sources::new();
    for (name, text) in SOURCES {
        sources.add(name, text);
    }
    sources
}

/// Runs the server of the measurements: says where it listens, and serves until its input ends.
///
/// # Errors
/// The program cannot run, or the server cannot listen.
pub fn serve(folder: &Path, core: usize, store: &str, prefetch: Option<usize>) -> Result<(), Failed> {
    pin(core);
    let engine = program::load_sources(sources(), &Options::default(), Run::kept(Mode::Compiled))?;
    let mut config = Config { listen: vec![format!("shm://{}/shm", folder.display())], ..Config::default() };
    config.heap_bytes_max = HEAP_BYTES_MAX;
    config.batch_heap_bytes_max = HEAP_BYTES_MAX;
    config.cache_bytes_max = 16 << 30;
    config.prefetch_objects_max = prefetch.unwrap_or(config.prefetch_objects_max);
    config.store = store.to_owned();
    config.limits.insert("transaction_objects_max".to_owned(), u64::MAX);
    config.limits.insert("transaction_idle_ms_max".to_owned(), 24 * 3_600_000);
    config.limits.insert("fuel_max".to_owned(), i64::MAX as u64);
    config.limits.insert("batch_time_ms_max".to_owned(), 24 * 3_600_000);
    let server = Server::start(engine, &config)?;
    say(&server.addresses()[0].to_string())?;
    Serving::answer(&server)
}
