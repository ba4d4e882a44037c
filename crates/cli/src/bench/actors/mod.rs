//! `bifrost bench actors`: the cost of actors beside sequential C, tasks, and the actors of others.
//!
//! The programs are in `bench/actors`: one file for each case in Theta and in C, one for each peer.
//! All give an integer, and the run fails when two differ. Each runner is a process, and runs
//! alternate, so that a change of the machine's speed hits all. Figures are medians, and ratios are
//! of figures of one run. Bounds in nanoseconds are scaled by the clock that the core had in the
//! same minute.
//!
//! [`run`] measures each case in a `Contest`, which owns the processes of its `Runner`s, measures
//! the clock beside them, and compares their results. Then it prints the rows and targets of
//! `Measured`. [`cases`] has the programs and bounds, [`peers`] the other systems; with
//! `--instructions` [`instructions`] counts instead.

mod cases;
mod instructions;
pub mod peers;
mod serve;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use super::common::{Failed, note_debug_build};
use super::process::Process;
use super::report::{self, JsonLines, Target};
use cases::{Bound, CASES, Case, Quantity, Size, Threads};
use peers::{C, Compiler, OURS, Peer, RAYON, Tool};
pub use serve::serve;
use table::Row;

/// The arguments of `bifrost bench actors`.
#[derive(Debug, ClapArgs)]
#[command(after_help = after_help())]
pub struct Args {
    /// The cases to run [default: all; with `--instructions`: send]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// The systems to run beside Theta and C, as far as they are installed
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["rayon", "go", "erlang", "caf", "kameo"])]
    peers: Vec<Peer>,
    /// Where the programs of peers in Rust are, which `cargo` compiles there
    #[arg(long, value_name = "FOLDER", default_value = "bench/actors/peers")]
    peers_folder: PathBuf,
    /// Runs of each program that count; one before them does not
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: u32,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// One run with a small n: enough to see that everything works
    #[arg(long)]
    quick: bool,
    /// Count the instructions of an operation with valgrind, by function, and measure nothing else
    #[arg(long)]
    instructions: bool,
}

/// Nanoseconds that are expected are those of a core with this clock.
const GHZ_OF_TARGETS: f64 = 3.0;

/// The least speed-up of two nodes against one.
const SPEED_UP_LEAST: f64 = 1.7;

/// The most bytes that a process may have had in memory when it has run `fib`, whose actors come
/// and go depth first.
const PEAK_MOST: f64 = 64e6;

/// Additions of a look at the clock.
const CLOCK_N: i64 = 200_000_000;

/// A row of the table whose figures are of the thread that sends.
const SENDER: &str = "the sender's part";

fn after_help() -> String {
    let mut text = "\
Needs a C compiler: the clock and some targets come from it. The others take part if they are installed; missing
ones are named. Use a release build. On one thread times are processor time, on two elapsed time.

Cases:
"
    .to_owned();
    for case in &CASES {
        text.push_str(&format!("  {:<11} {}\n", case.name, case.about));
    }
    text.push_str(
        "
Examples:
  bifrost bench actors
  bifrost bench actors send request --peers go,erlang --samples 9
  bifrost bench actors --json actors.jsonl
  bifrost bench actors --instructions send request",
    );
    text
}

/// The results, before they are shown.
#[derive(Default)]
struct Measured {
    one: Vec<Row>,
    two: Vec<Row>,
    cases: Vec<report::Case>,
    targets: Vec<Target>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    if let Some(unknown) = args.cases.iter().find(|name| !CASES.iter().any(|c| c.name == **name)) {
        return Err(format!("there is no case `{unknown}`; `bifrost bench actors --help` lists them").into());
    }
    let wanted = |name: &str| args.cases.is_empty() || args.cases.iter().any(|c| c == name);
    let chosen: Vec<&Case> = CASES.iter().filter(|c| wanted(c.name)).collect();
    let mut json = JsonLines::create(args.json.as_deref())?;
    if args.instructions {
        let count = if args.cases.is_empty() { 1 } else { chosen.len() };
        return instructions::count(&chosen[..count], args.quick, &mut json);
    }
    let folder = tempfile::tempdir()?;
    let compiler = Compiler::find(folder.path())?;
    anstream::println!("{}", compiler.version);
    let tools = tools(args, folder.path())?;
    let samples = if args.quick { 1 } else { args.samples };
    let bar = ProgressBar::new(chosen.len() as u64 * u64::from(samples + 1));
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    let bench = Bench { compiler: &compiler, tools: &tools, samples, quick: args.quick, bar };
    let (mut measured, mut written) = (Measured::default(), 0);
    for case in chosen {
        bench.bar.set_message(case.name);
        bench.measure(case, &mut measured)?;
        json.write(&measured.cases[written..])?;
        written = measured.cases.len();
    }
    bench.bar.finish_and_clear();
    table::print("On one thread, medians", &measured.one);
    table::print("On two threads, capsules in two processes, medians", &measured.two);
    report::print_targets(&measured.targets);
    json.write(&measured.targets)?;
    Ok(())
}

/// Returns the peers wanted that are there.
fn tools(args: &Args, folder: &Path) -> Result<Vec<Tool>, Failed> {
    let mut tools: Vec<Tool> = Vec::new();
    for peer in &args.peers {
        if tools.iter().any(|tool| tool.peer == *peer) {
            continue;
        }
        let folder = folder.join(peer.name());
        std::fs::create_dir_all(&folder)?;
        match peer.prepare(&folder, &args.peers_folder) {
            Ok(tool) => {
                anstream::println!("{}", tool.version);
                tools.push(tool);
            }
            Err(why) => anstream::println!("{} is not available, and left out; {why}", peer.name()),
        }
    }
    Ok(tools)
}

/// The means of measuring.
struct Bench<'a> {
    compiler: &'a Compiler<'a>,
    tools: &'a [Tool],
    samples: u32,
    quick: bool,
    bar: ProgressBar,
}

/// A process that runs a case.
struct Runner<'a> {
    name: &'static str,
    threads: u32,
    size: Size,
    process: Process,
    /// Starts another process.
    start: Box<dyn Fn() -> Result<Process, Failed> + 'a>,
    /// Nanoseconds of processor time, of time that passed, and of processor time of the first
    /// thread; or bytes, as the first. For each operation.
    used: Vec<f64>,
    passed: Vec<f64>,
    first: Vec<f64>,
}

impl<'a> Bench<'a> {
    fn measure(&self, case: &'a Case, measured: &mut Measured) -> Result<(), Failed> {
        let mut contest =
            Contest { case, results: BTreeMap::new(), runners: self.runners(case)?, ghz: Vec::new() };
        // The size that the slowest can do first, so that all results can be compared.
        let common = if self.quick { case.quick } else { case.slow };
        for at in 0..contest.runners.len() {
            contest.check(at, common.n)?;
        }
        let mut clock = self.compiler.start_clock()?;
        for round in 0..=self.samples {
            for at in 0..contest.runners.len() {
                contest.sample(at, round > 0)?;
            }
            contest.ghz.push(CLOCK_N as f64 / clock.sample(CLOCK_N)?.ms / 1e6);
            self.bar.inc(1);
        }
        contest.finish(measured);
        if case.name == "fib" {
            let size = if self.quick { case.quick } else { case.full };
            let mut process = peers::start_ours(case, 1)?;
            process.run(size.n)?;
            let peak = process.memory("VmHWM")? as f64;
            let name = format!("fib({}), most memory of the process", size.n);
            measured.cases.push(report::Case::new(&*name, 1, "B", &mut [peak]).part_of("actors"));
            measured.targets.push(Target::new(name, peak / 1e6, PEAK_MOST / 1e6, "MB"));
        }
        Ok(())
    }

    /// Starts ours first, then C, then the others.
    fn runners(&self, case: &'a Case) -> Result<Vec<Runner<'a>>, Failed> {
        let threads: &[u32] = match case.threads {
            Threads::One => &[1],
            Threads::Two => &[2],
            Threads::Both => &[1, 2],
        };
        let size = |size: Size| if self.quick { case.quick } else { size };
        let mut runners = Vec::new();
        for threads in threads.iter().copied() {
            let ours = Box::new(move || peers::start_ours(case, threads));
            runners.push(Runner::start(OURS, threads, size(case.full), ours)?);
            // C is sequential, unless there is nothing to do with one thread.
            if threads == threads_of_c(case) {
                let compiler = self.compiler;
                runners.push(Runner::start(C, threads, size(case.full), Box::new(|| compiler.start(case)))?);
            }
            for tool in self.tools.iter().filter(|tool| tool.peer.has(case)) {
                let start = Box::new(move || tool.start(case, threads));
                runners.push(Runner::start(tool.peer.name(), threads, size(tool.peer.size(case)), start)?);
            }
        }
        Ok(runners)
    }
}

fn threads_of_c(case: &Case) -> u32 {
    if case.threads == Threads::Two { 2 } else { 1 }
}

impl<'a> Runner<'a> {
    fn start(
        name: &'static str,
        threads: u32,
        size: Size,
        start: Box<dyn Fn() -> Result<Process, Failed> + 'a>,
    ) -> Result<Runner<'a>, Failed> {
        let process = start()?;
        Ok(Runner { name, threads, size, process, start, used: vec![], passed: vec![], first: vec![] })
    }

    /// Returns the figures that count, with their unit.
    fn figures(&self) -> &[f64] {
        if self.threads == 1 { &self.used } else { &self.passed }
    }
}

/// One case with all runners that take part.
struct Contest<'a> {
    case: &'a Case,
    runners: Vec<Runner<'a>>,
    /// For each n the first result, and the runner that gave it.
    results: BTreeMap<i64, (&'static str, i64)>,
    ghz: Vec<f64>,
}

impl Contest<'_> {
    /// Runs one runner once, and compares the result.
    fn check(&mut self, at: usize, n: i64) -> Result<super::process::Ran, Failed> {
        let runner = &mut self.runners[at];
        let ran = runner.process.run(n)?;
        let (by, expected) = *self.results.entry(n).or_insert((runner.name, ran.sample.result));
        if ran.sample.result != expected {
            let (case, name, theirs) = (self.case.name, runner.name, ran.sample.result);
            return Err(format!("{case} of {n} is {expected} in {by} and {theirs} in {name}").into());
        }
        Ok(ran)
    }

    fn sample(&mut self, at: usize, counts: bool) -> Result<(), Failed> {
        let Runner { size: Size { n, operations }, .. } = self.runners[at];
        if self.case.quantity == Quantity::Memory {
            // Memory that a process has had once it gives to others; a new one has none.
            self.runners[at].process = (self.runners[at].start)()?;
            self.check(at, 1)?;
            let before = self.runners[at].process.memory("VmRSS")?;
            self.check(at, n)?;
            let runner = &mut self.runners[at];
            let grown = runner.process.memory("VmRSS")?.saturating_sub(before);
            if counts {
                runner.used.push(grown as f64 / operations as f64);
            }
            return Ok(());
        }
        let ran = self.check(at, n)?;
        let runner = &mut self.runners[at];
        let each = |ms: f64| ms * 1e6 / operations as f64;
        if counts {
            runner.used.push(each(ran.sample.ms));
            runner.passed.push(each(ran.wall_ms));
            runner.first.extend(ran.main_ms.map(each));
        }
        Ok(())
    }

    fn finish(mut self, measured: &mut Measured) {
        let case = self.case;
        let (ghz, ..) = report::summary(&mut self.ghz);
        measured.cases.push(self.figure("clock", OURS, "GHz", CLOCK_N, &mut self.ghz.clone()));
        let unit = if case.quantity == Quantity::Memory { "B" } else { "ns" };
        let (mut one, mut two) = (Row::new(case.name, unit), Row::new(case.name, unit));
        let mut sender = Row::new(SENDER, unit);
        let mut passed_on_one = None;
        for runner in &self.runners {
            let mut figures = runner.figures().to_vec();
            let figure = self.figure(case.name, runner.name, unit, runner.size.n, &mut figures);
            let way = match runner.threads {
                1 => "1 thread",
                _ if case.capsules => "2 processes",
                _ => "2 threads",
            };
            let row = if runner.threads == 1 { &mut one } else { &mut two };
            row.set(runner.name, figure.value);
            measured.cases.push(figure.by(way));
            if runner.name != OURS {
                continue;
            }
            let (passed, ..) = report::summary(&mut runner.passed.clone());
            match (case.bound, runner.threads) {
                (_, 1) => passed_on_one = Some(passed),
                (Bound::SenderNs(_), _) => {
                    let name = format!("{}, {SENDER}", case.name);
                    let figure = self.figure(&name, OURS, unit, runner.size.n, &mut runner.first.clone());
                    sender.set(OURS, figure.value);
                    measured.cases.push(figure.by(way));
                }
                _ => {}
            }
        }
        self.expect(ghz, &mut one, &mut two, &mut sender, measured);
        let speed_up = passed_on_one.zip(two.get(OURS)).map(|(one, two)| one / two);
        measured.targets.extend(speed_up.map(|speed_up| {
            Target::at_least(format!("{}, two nodes against one", case.name), speed_up, SPEED_UP_LEAST, "x")
        }));
        if case.threads != Threads::Two {
            measured.one.push(one);
        }
        if case.threads != Threads::One {
            measured.two.push(two);
        }
        if sender.get(OURS).is_some() {
            measured.two.push(sender);
        }
    }

    /// Puts the bound on Theta's figure into the rows, and adds the targets.
    fn expect(&self, ghz: f64, one: &mut Row, two: &mut Row, sender: &mut Row, measured: &mut Measured) {
        let Case { name, operation, .. } = self.case;
        let scaled = |ns: f64| (ns * GHZ_OF_TARGETS / ghz * 100.0).round() / 100.0;
        let against = |peer: &str, times: f64, row: &Row| {
            let theirs = row.get(peer)?;
            let ratio = row.get(OURS)? / theirs;
            let target = Target::new(format!("{name}, against {peer} on one thread"), ratio, times, "x");
            Some((times * theirs, target))
        };
        let time = || format!("{name}, for each {operation}, at {ghz:.2} GHz");
        let target = match self.case.bound {
            Bound::Ns(most) => one.expect(time(), scaled(most)),
            Bound::SenderNs(most) => sender.expect(format!("{}, {SENDER}", time()), scaled(most)),
            Bound::PassedNs(most) => two.expect(format!("{name}, for each {operation}"), most),
            Bound::OverC(more) => {
                let most = two.get(C).map(|theirs| theirs + more);
                most.and_then(|most| two.expect(format!("{name}, for each {operation}"), most.round()))
            }
            Bound::Bytes(most) => one.expect(format!("{name}, for each {operation}"), most),
            Bound::TimesC(times) | Bound::TimesRayon(times) => {
                let peer = if matches!(self.case.bound, Bound::TimesC(_)) { C } else { RAYON };
                let found = against(peer, times, one);
                one.target = found.as_ref().map(|(most, target)| (*most, target.verdict));
                found.map(|(_, target)| target)
            }
        };
        measured.targets.extend(target);
    }

    fn figure(
        &self,
        name: &str,
        peer: &'static str,
        unit: &'static str,
        n: i64,
        samples: &mut [f64],
    ) -> report::Case {
        let figure = report::Case::new(name, n as u64, unit, samples).part_of("actors").of(peer);
        match self.results.get(&n) {
            Some((_, result)) => figure.gives(*result),
            None => figure,
        }
    }
}
