//! `bifrost bench theta`: the cost of Theta programs beside the same programs in C, Lua and Go.
//!
//! The programs are in `bench/theta`. All give an integer, and the run fails when two differ. Runs
//! of the peers alternate, so that a change of the machine's speed hits all; figures are medians,
//! ratios are of figures of one run.

mod cases;
mod compiling;
mod ours;
mod peers;
mod table;

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use super::common::{Failed, note_debug_build};
use super::report::{self, JsonLines, Target};
use cases::{CASES, Case};
use ours::Theta;
use peers::{Language, Peer, Tool};
use table::Row;

/// The arguments of `bifrost bench theta`.
#[derive(Debug, ClapArgs)]
#[command(after_help = after_help())]
pub struct Args {
    /// The cases to run [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// The languages to run beside Theta, as far as they are installed
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["c", "lua", "luajit", "go"])]
    peers: Vec<Language>,
    /// Runs of each program that count; one before them does not
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: u32,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the times as multiples of those of checked C
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// One run with a small n: enough to see that everything works
    #[arg(long)]
    quick: bool,
}

/// The case that measures the compiler.
const COMPILE: &str = "compile";

fn after_help() -> String {
    let mut text = "\
Needs gcc, for the targets are ratios to C with the same checks; Lua, LuaJIT and Go take part if they are on
the PATH. Use a release build. Times are processor time.

Cases:
"
    .to_owned();
    for case in &CASES {
        text.push_str(&format!("  {:<11} {}\n", case.name, case.about));
    }
    text.push_str(&format!(
        "  {COMPILE:<11} checking 10,000 lines; the first call of a routine

Examples:
  bifrost bench theta
  bifrost bench theta fib shapes --peers c --samples 9
  bifrost bench theta --json theta.jsonl --svg theta.svg"
    ));
    text
}

/// The results, before they are shown.
#[derive(Default)]
struct Measured {
    rows: Vec<Row>,
    cases: Vec<report::Case>,
    targets: Vec<Target>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let wanted = |name: &str| args.cases.is_empty() || args.cases.iter().any(|c| c == name);
    let known = |name: &String| name == COMPILE || CASES.iter().any(|c| c.name == name);
    if let Some(unknown) = args.cases.iter().find(|c| !known(c)) {
        return Err(format!("there is no case `{unknown}`; `bifrost bench theta --help` lists them").into());
    }
    let samples = if args.quick { 1 } else { args.samples };
    let mut json = JsonLines::create(args.json.as_deref())?;
    let mut written = 0;
    let mut measured = Measured::default();
    let chosen: Vec<&Case> = CASES.iter().filter(|c| wanted(c.name)).collect();
    if !chosen.is_empty() {
        let tools = tools(&args.peers)?;
        let folder = tempfile::tempdir()?;
        let bar = ProgressBar::new(chosen.len() as u64 * u64::from(samples + 1));
        bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
        for case in chosen {
            bar.set_message(case.name);
            let n = if args.quick { case.quick_n } else { case.n };
            let mut contest = Contest::prepare(case, &tools, folder.path())?;
            contest.run(n, samples, &bar)?;
            contest.finish(n, &mut measured);
            json.write(&measured.cases[written..])?;
            written = measured.cases.len();
        }
        bar.finish_and_clear();
        table::print(&measured.rows);
    }
    if wanted(COMPILE) {
        let compiling = compiling::measure(samples, args.quick)?;
        report::print_cases("Compiling", &compiling.cases);
        measured.cases.extend(compiling.cases);
        measured.targets.extend(compiling.targets);
    }
    report::print_targets(&measured.targets);
    json.write(&measured.cases[written..])?;
    json.write(&measured.targets)?;
    if let Some(path) = &args.svg {
        table::write_chart(path, &measured.rows)?;
    }
    Ok(())
}

/// Returns the languages of `wanted` that are there. C must be: all targets are ratios to it.
fn tools(wanted: &[Language]) -> Result<Vec<Tool>, Failed> {
    let mut tools = Vec::new();
    for language in [Language::C, Language::Lua, Language::Luajit, Language::Go] {
        match language.find() {
            Some(tool) if language == Language::C || wanted.contains(&language) => {
                anstream::println!("{}", tool.version);
                tools.push(tool);
            }
            Some(_) => {}
            None if language == Language::C => return Err("`gcc` is not on the PATH".into()),
            None if wanted.contains(&language) => {
                anstream::println!("{} is not on the PATH: left out", language.program());
            }
            None => {}
        }
    }
    Ok(tools)
}

/// One case with all peers that take part: Theta first.
struct Contest<'a> {
    case: &'a Case,
    peers: Vec<Peer>,
    start_ms: f64,
    /// Milliseconds of each peer.
    times: Vec<Vec<f64>>,
    result: i64,
}

impl<'a> Contest<'a> {
    fn prepare(case: &'a Case, tools: &[Tool], folder: &Path) -> Result<Contest<'a>, Failed> {
        let theta = Theta::start(case)?;
        let start_ms = theta.start_ms;
        let mut peers = vec![Peer::Theta(theta)];
        for tool in tools {
            peers.extend(tool.start(case, folder)?);
        }
        let times = vec![Vec::new(); peers.len()];
        Ok(Contest { case, peers, start_ms, times, result: 0 })
    }

    /// Runs all in turn, `samples` times after a round that does not count.
    fn run(&mut self, n: i64, samples: u32, bar: &ProgressBar) -> Result<(), Failed> {
        for round in 0..=samples {
            for (at, peer) in self.peers.iter_mut().enumerate() {
                let sample = peer.sample(n)?;
                if (round, at) == (0, 0) {
                    self.result = sample.result;
                } else if sample.result != self.result {
                    let (case, name) = (self.case.name, peer.name());
                    let (theirs, ours) = (sample.result, self.result);
                    return Err(format!("{case} of {n} is {ours} in Theta and {theirs} in {name}").into());
                }
                if round > 0 {
                    self.times[at].push(sample.ms);
                }
            }
            bar.inc(1);
        }
        Ok(())
    }

    fn finish(self, n: i64, measured: &mut Measured) {
        let mut row = Row::new(self.case);
        for (peer, mut times) in self.peers.iter().zip(self.times) {
            let case = report::Case::new(self.case.name, n as u64, "ms", &mut times);
            let case = case.part_of("theta").of(peer.name()).gives(self.result);
            row.set(peer.name(), case.value);
            measured.cases.push(case);
        }
        let name = format!("{}, from source to first result", self.case.name);
        let start = report::Case::new(name, self.case.quick_n as u64, "ms", &mut [self.start_ms]);
        measured.cases.push(start.part_of("theta"));
        measured.targets.extend(row.target());
        measured.rows.push(row);
    }
}
