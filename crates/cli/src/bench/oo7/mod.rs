//! `bifrost bench oo7`: the benchmark of Carey, DeWitt and Naughton (1993), each operation in four
//! ways and two baselines.
//!
//! The program is in `bench/oo7`. The server is a process of its own; client and server are pinned
//! to one core each. All ways give the same number, or the run fails. The ways of a client run in
//! turn, and so do structures and methods. Times are medians of hot runs: one run before them does
//! not count.
//!
//! [`run`] starts the server, generates the database in it, measures each operation in its ways
//! (`measure_op`), and compares the figures with the targets. [`ops`] names the operations,
//! [`client`] and [`structures`] run them, [`baselines`] has the ways of 001 figure 7, and
//! [`store`] measures over a store. `Figures` owns the cases measured so far.

#[rustfmt::skip]
#[allow(clippy::all, reason = "generated")]
mod bifrost_stubs;
mod baselines;
mod client;
mod ops;
mod peers;
mod plain;
mod store;
mod structures;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_server::config::MEMORY;
use bifrost_server::{Config, Server, program};
use bifrost_theta::{Options, Sources};
use bifrost_veneer::Session;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::common::{Failed, note_debug_build, pin, say};
use super::report::{self, Case, JsonLines, Target, ratio};
use baselines::Linked;
pub use baselines::serve as serve_linked;
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
    #[arg(long, value_enum, value_delimiter = ',')]
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
  bifrost bench oo7 --op T2b --way each,futures,promises,linked
  bifrost bench oo7 --way theta --peers sqlite,zeo

`each` and `linked` are the baselines of Bogle and Liskov 1994, figure 7: one call a crossing, and a client that is linked
into the server. Each has a database of its own beside that of the other ways; neither is measured over a store. Calls are
those that the server executes, with each round of a loop; B is their number for each pair of crossings.

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
    let stored = args.store.is_some() || !args.peers.is_empty();
    if let Some(way) = args.way.iter().find(|way| stored && way.is_baseline()) {
        return Err(format!(
            "`{}` is a baseline without a store: leave out `--store` and `--peers`",
            way.name()
        )
        .into());
    }
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
            measure(args, &chosen, &serving, &mut figures)?;
            None
        }
    };
    let Figures { cases, mut json } = figures;
    print(args, &cases);
    baselines::print(&cases);
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
        // The baselines are about crossings, not stores, and have databases of their own.
        let stored = self.store.is_some() || !self.peers.is_empty();
        let offered = op.ways.iter().copied().filter(move |way| !(stored && way.is_baseline()));
        offered.filter(|way| self.way.is_empty() || self.way.contains(way))
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

/// The places where ways run: a session for most, and one for each baseline that was chosen.
struct Places<'s> {
    session: &'s Session,
    ways: &'s Ways<'s>,
    each: Option<(&'s Session, &'s Ways<'s>)>,
    linked: Option<RefCell<Linked>>,
}

impl Places<'_> {
    /// Runs an operation where a way runs; `way` may be another that leads there.
    fn run(&self, at: Way, op: &str, way: Way) -> Result<Ran, Failed> {
        let (session, ways) = match (at, &self.each, &self.linked) {
            (Way::Each, Some((session, ways)), _) => (*session, *ways),
            (Way::Linked, _, Some(linked)) => return linked.borrow_mut().run(op, way),
            _ => (self.session, self.ways),
        };
        run_op(session, ways, op, way)
    }
}

/// One run.
struct Ran {
    result: i64,
    ms: f64,
    crossings: u64,
    /// Calls that the session ran.
    calls: u64,
    /// Commands that the client sent.
    commands: u64,
}

/// Runs an operation in a session.
fn run_op(session: &Session, ways: &Ways<'_>, op: &str, way: Way) -> Result<Ran, Failed> {
    session.flush()?;
    let (before, start) = (session.counters(), Instant::now());
    let result = ways.run(op, way)?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let after = session.counters();
    Ok(Ran {
        result,
        ms,
        crossings: after.crossings - before.crossings,
        calls: after.executed - before.executed,
        commands: after.calls - before.calls,
    })
}

fn measure(args: &Args, chosen: &[&Op], serving: &Serving, figures: &mut Figures) -> Result<(), Failed> {
    let session = serving.session()?;
    let db = generate(&args.size, args.seed, &session, None)?;
    let theta = stubs::new_oo7(&session, &db);
    let ways = Ways::new(&session, &db, &theta);
    let is_chosen = |way: Way| chosen.iter().any(|op| args.ways(op).any(|one| one == way));
    let linked = is_chosen(Way::Linked).then(|| Linked::start(args)).transpose()?;
    // A database of its own: objects that are in no store belong to one session.
    let single = is_chosen(Way::Each).then(|| serving.session_with(Some(1))).transpose()?;
    let its_db = single.as_ref().map(|s| generate(&args.size, args.seed, s, None)).transpose()?;
    let its_theta = single.as_ref().zip(its_db.as_ref()).map(|(s, db)| stubs::new_oo7(s, db));
    let its_ways = match (&single, &its_db, &its_theta) {
        (Some(s), Some(db), Some(theta)) => Some((s, Ways::new(s, db, theta))),
        _ => None,
    };
    let places = Places {
        session: &session,
        ways: &ways,
        each: its_ways.as_ref().map(|(session, ways)| (*session, ways)),
        linked: linked.map(RefCell::new),
    };
    let bar = ProgressBar::new(chosen.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    for op in chosen {
        bar.set_message(op.name);
        // Only the server's own work is compared; a client's own run leaves it much to clean up.
        let (whole, client): (Vec<Way>, Vec<Way>) =
            args.ways(op).partition(|way| matches!(way, Way::Bcs | Way::Theta));
        let mut cases = measure_op(args.samples, &places, op, &client)?;
        baselines::predict(&mut cases);
        figures.add(cases)?;
        figures.add(measure_op(args.samples, &places, op, &whole)?)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut faults = vec![theta.check().claim()?];
    if let Some(theta) = &its_theta {
        faults.push(theta.check().claim()?);
    }
    if let Some(linked) = &places.linked {
        faults.push(linked.borrow_mut().check()?);
    }
    match faults.iter().find(|fault| !fault.is_empty()) {
        None => Ok(session.close()?),
        Some(wrong) => Err(format!("the database is wrong afterwards: {wrong}").into()),
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
fn measure_op(samples: u32, places: &Places<'_>, op: &Op, chosen: &[Way]) -> Result<Vec<Case>, Failed> {
    let mut times = vec![Vec::new(); chosen.len()];
    let mut last: Vec<Option<Ran>> = chosen.iter().map(|_| None).collect();
    for sample in 0..=samples {
        for (i, way) in chosen.iter().enumerate() {
            if let Some(before) = op.before {
                places.run(*way, before, Way::Theta)?;
            }
            let ran = places.run(*way, op.name, *way)?;
            if let Some(before) = &last[i]
                && before.result != ran.result
            {
                let (name, a, b) = (op.name, before.result, ran.result);
                return Err(format!("{name} gives {a} and then {b}, as {}", way.name()).into());
            }
            // The first run also sends the procedures, and compiles.
            if sample > 0 {
                times[i].push(ran.ms);
            }
            last[i] = Some(ran);
            if let Some(undo) = op.undo {
                places.run(*way, undo, Way::Theta)?;
            }
        }
    }
    let mut cases = Vec::new();
    for ((way, times), last) in chosen.iter().zip(&mut times).zip(last) {
        let Some(ran) = last else { continue };
        let case = Case::new(op.name, u64::from(samples), "ms", times).part_of("oo7");
        // The linked client's flush is a function call.
        let crossings = if *way == Way::Linked { 0 } else { ran.crossings };
        cases.push(case.gives(ran.result).by(way.name()).crossed(crossings, ran.calls).sent(ran.commands));
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
        let times = ratio(bcs.value, theta.value);
        targets.push(Target::new("T1 as structures, against the method", times, 1.2, "x"));
    }
    targets
}

fn print(args: &Args, cases: &[Case]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}OO7, {}, seed {}{bold:#}", args.size, args.seed);
    anstream::println!(
        "  {:<7} {:>9}  {:<9} {:>12} {:>12} {:>12} {:>12} {:>8}{}",
        "",
        "result",
        "way",
        "ms",
        "least",
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
        let calls = c.calls.unwrap_or_default();
        // A linked client has none.
        let factor = c.batching_factor.map_or("-".to_owned(), |factor| format!("{factor:.2}"));
        let fetched = match (c.temperature, c.fetches, c.fetched) {
            (Some(temperature), Some(fetches), Some(fetched)) => {
                format!(" {temperature:>5} {fetches:>8} {fetched:>8} {:>8}", c.prefetched.unwrap_or_default())
            }
            _ => String::new(),
        };
        anstream::println!(
            "  {op:<7} {result:>9}  {way:<9} {:>12.3} {:>12.3} {crossings:>12} {calls:>12} {factor:>8}{fetched}",
            c.value,
            c.min
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

/// Returns the program, ready to run.
fn engine() -> Result<Arc<Engine>, Failed> {
    Ok(program::load_sources(sources(), &Options::default(), Run::kept(Mode::Compiled))?)
}

/// Returns the settings of servers and linked clients, which listen nowhere yet.
fn config(store: &str, prefetch: Option<usize>) -> Config {
    let mut config = Config::default();
    config.heap_bytes_max = HEAP_BYTES_MAX;
    config.batch_heap_bytes_max = HEAP_BYTES_MAX;
    config.cache_bytes_max = 16 << 30;
    config.prefetch_objects_max = prefetch.unwrap_or(config.prefetch_objects_max);
    config.store = store.to_owned();
    config.limits.insert("transaction_objects_max".to_owned(), u64::MAX);
    config.limits.insert("transaction_idle_ms_max".to_owned(), 24 * 3_600_000);
    config.limits.insert("fuel_max".to_owned(), i64::MAX as u64);
    config.limits.insert("batch_time_ms_max".to_owned(), 24 * 3_600_000);
    config
}

/// Runs the server of the measurements: says where it listens, and serves until its input ends.
///
/// # Errors
/// The program cannot run, or the server cannot listen.
pub fn serve(folder: &Path, core: usize, store: &str, prefetch: Option<usize>) -> Result<(), Failed> {
    pin(core);
    let listen = vec![format!("shm://{}/shm", folder.display())];
    let config = Config { listen, ..config(store, prefetch) };
    let server = Server::start(engine()?, &config)?;
    say(&server.addresses()[0].to_string())?;
    Serving::answer(&server)
}
