//! `bifrost bench veneers`: the client libraries of all languages, beside a raw socket and peers in
//! the same language.
//!
//! Read [`run`] first. Each language has a program `veneers/LANG/bench/run`, which prints a line of
//! JSON for each figure; this command starts a server for all of them, measures Rust itself, and
//! shows one table. A language whose tools are missing is named with the reason.
//!
//! | case | what is measured |
//! | --- | --- |
//! | `record` | a call with one integer, recorded and not sent |
//! | `batch` | a call in a batch of 10,000, from recording to the last result |
//! | `pair` | a call, claimed: a pair of crossings. Of `raw`: as many bytes over such a socket |
//! | `table` | a row of a table of 10,000 rows with an integer and a text |
//!
//! A peer has `pair`, and `pipelined`: a call of 1,000 that are sent without waiting.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::{Args as ClapArgs, ValueEnum};
use indicatif::ProgressBar;
use serde::Deserialize;

use super::common::{Failed, note_debug_build};
use super::files::spinner;
use super::report::{self, Case, JsonLines, Target, ratio, summary};
use crate::process::ServerProcess;

#[rustfmt::skip]
#[allow(clippy::all, dead_code, missing_docs, reason = "generated")]
#[path = "../../tests/conformance/bifrost_stubs.rs"]
mod stubs;

/// The program that is served.
const PROGRAM: &str = include_str!("../../../../cases/programs/conformance.theta");
/// The calls of a batch, the rows of a table.
const MANY: u32 = 10_000;
/// The pairs of crossings of a sample.
const PAIRS: u32 = 500;
/// The longest time of a language's program, which may build a library first.
const PROGRAM_MAX: Duration = Duration::from_secs(1800);
/// The name of the raw socket among peers.
const RAW: &str = "raw";

/// A language.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Language {
    /// Rust, in this program
    Rust,
    /// C
    C,
    /// C++
    Cpp,
    /// Python, without its native package
    Python,
    /// TypeScript in Node
    Typescript,
}

/// The goals of a language: nanoseconds of a recorded call and of one in a batch, microseconds
/// of a pair of crossings beyond the raw socket, and the ratios to the best peer.
struct Goal {
    record: f64,
    batch: f64,
    beyond_raw_us: Option<f64>,
    pair_ratio: f64,
    batch_ratio: f64,
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::C => "c",
            Language::Cpp => "cpp",
            Language::Python => "python",
            Language::Typescript => "typescript",
        }
    }

    fn goal(self) -> Goal {
        let (record, batch, beyond_raw_us, pair_ratio, batch_ratio) = match self {
            Language::Rust => (20.0, 50.0, None, 2.0, 200.0),
            Language::C | Language::Cpp => (20.0, 50.0, None, 2.0, 200.0),
            Language::Python => (400.0, 650.0, Some(15.0), 5.0, 500.0),
            Language::Typescript => (50.0, 130.0, Some(8.0), 4.0, 200.0),
        };
        Goal { record, batch, beyond_raw_us, pair_ratio, batch_ratio }
    }
}

/// The arguments of `bifrost bench veneers`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. Languages are measured from a checkout: their programs are `veneers/LANG/bench/run`, which
need what `veneers/LANG/test.sh` has built. Peers are installed by `veneers/LANG/bench/peers.sh` into `target/peers`,
and left out if they are not there.

Examples:
  bifrost bench veneers
  bifrost bench veneers --languages python,typescript --json veneers.jsonl")]
pub struct Args {
    /// The languages [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LANGUAGE")]
    languages: Option<Vec<Language>>,
    /// The folder with the languages
    #[arg(long, value_name = "DIR", default_value = "veneers")]
    veneers: PathBuf,
    /// The samples of each figure of Rust; figures are medians
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A line of a language's program.
#[derive(Debug, Deserialize)]
struct Line {
    case: String,
    peer: String,
    n: u64,
    value: f64,
    min: f64,
    max: f64,
    unit: String,
}

/// Runs the command.
///
/// # Errors
/// The server does not start, or a program prints what cannot be read.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let folder = tempfile::tempdir()?;
    let at = format!("unix://{}", folder.path().join("server").display());
    let server = ServerProcess::start(folder.path(), PROGRAM, &["--listen", &at])?;
    let bar = spinner()?;
    let all = Language::value_variants().to_vec();
    let (mut targets, mut missing) = (Vec::new(), Vec::new());
    for language in args.languages.clone().unwrap_or(all) {
        bar.set_message(language.name());
        let measured = match language {
            Language::Rust => rust(&server, args.rounds),
            _ => program(&args.veneers, language, &server, &bar),
        };
        match measured {
            Ok(cases) => {
                bar.suspend(|| report::print_cases(&format!("Figures of {}", language.name()), &cases));
                json.write(&cases)?;
                targets.extend(goals(language, &cases));
            }
            Err(why) => missing.push(format!("{}: {why}", language.name())),
        }
    }
    bar.finish_and_clear();
    for line in &missing {
        anstream::eprintln!("not measured: {line}");
    }
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    json.write(&targets)?;
    Ok(())
}

/// Runs a language's program, and reads its figures.
fn program(
    veneers: &Path,
    language: Language,
    server: &ServerProcess,
    bar: &ProgressBar,
) -> Result<Vec<Case>, Failed> {
    let path = veneers.join(language.name()).join("bench/run");
    if !path.is_file() {
        return Err(
            format!("there is no `{}`: run this in a checkout, or give --veneers", path.display()).into()
        );
    }
    let mut command = Command::new(&path);
    command.env("BIFROST_URL", server.address().to_string()).env("BIFROST_BIN", std::env::current_exe()?);
    let (status, text, said) = output_within(command, PROGRAM_MAX)?;
    if !status.success() {
        let last = said.trim().lines().last().unwrap_or("it has said nothing").to_owned();
        return Err(format!("`{}` ended with {status}: {last}", path.display()).into());
    }
    let name = language.name();
    let mut cases = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let line: Line =
            serde_json::from_str(line).map_err(|why| format!("`{}` prints {line}: {why}", path.display()))?;
        // A raw socket is a peer of the pair of crossings.
        let line = match line.case == RAW {
            true => Line { case: "pair".to_owned(), peer: RAW.to_owned(), ..line },
            false => line,
        };
        bar.set_message(format!("{name}, {}", line.case));
        // Both are nanoseconds in tables of several.
        let factor = if line.unit == "us" { 1e3 } else { 1.0 };
        let [value, min, max] = [line.value, line.min, line.max].map(|value| value * factor);
        let case = Case::new(line.case, line.n, "ns", &mut [value]);
        let peer: &'static str = if line.peer == name { "bifrost" } else { line.peer.leak() };
        cases.push(Case { min, max, ..case }.part_of("veneers").of(peer).by(name));
    }
    match cases.is_empty() {
        true => Err(format!("`{}` prints no figures", path.display()).into()),
        false => Ok(cases),
    }
}

/// Runs a program, and returns its end, its output and its messages. One that runs longer is ended.
fn output_within(mut command: Command, most: Duration) -> Result<(ExitStatus, String, String), Failed> {
    // Files take what a pipe would have no room for.
    let folder = tempfile::tempdir()?;
    let [output, said] = ["output", "messages"].map(|name| folder.path().join(name));
    command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&said)?);
    let (mut child, late) = (command.spawn()?, Instant::now() + most);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= late {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("it has run for {} s", most.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read = |path| Ok::<_, Failed>(String::from_utf8_lossy(&std::fs::read(path)?).into_owned());
    Ok((status, read(output)?, read(said)?))
}

/// Measures Rust in this process.
fn rust(server: &ServerProcess, rounds: u32) -> Result<Vec<Case>, Failed> {
    let s = stubs::connect(&server.address().to_string())?;
    let probe: stubs::Probe = s.lookup("probe");
    s.resolve(&probe)?;
    let mut cases = Vec::new();
    let mut measure = |name: &str, n: u32, work: &mut dyn FnMut() -> Result<f64, Failed>| {
        let mut samples = Vec::new();
        for _ in 0..=rounds {
            samples.push(work()? / f64::from(n));
        }
        // The first one warms up.
        let case = Case::new(name, n.into(), "ns", &mut samples[1..]);
        cases.push(case.part_of("veneers").by("rust"));
        Ok::<(), Failed>(())
    };
    measure("record", MANY, &mut || {
        let start = Instant::now();
        for n in 0..MANY {
            drop(probe.same_int(i64::from(n)));
        }
        let ns = start.elapsed().as_nanos() as f64;
        s.flush()?;
        Ok(ns)
    })?;
    measure("batch", MANY, &mut || {
        let start = Instant::now();
        let all: Vec<_> = (0..MANY).map(|n| probe.same_int(i64::from(n))).collect();
        let last = all.last().map_or(Ok(0), |last| last.claim())?;
        let ns = start.elapsed().as_nanos() as f64;
        if last != i64::from(MANY) - 1 { Err("the server answers something else".into()) } else { Ok(ns) }
    })?;
    measure("pair", PAIRS, &mut || {
        let start = Instant::now();
        for n in 0..PAIRS {
            probe.same_int(i64::from(n)).claim()?;
        }
        Ok(start.elapsed().as_nanos() as f64)
    })?;
    measure("table", MANY, &mut || {
        let start = Instant::now();
        let rows = s.rows::<(i64, String)>();
        s.foreach(probe.pairs(i64::from(MANY)), |(n, text)| rows.push((n, text)));
        let count = rows.claim()?.len();
        let ns = start.elapsed().as_nanos() as f64;
        if count == MANY as usize { Ok(ns) } else { Err("rows are missing".into()) }
    })?;
    Ok(cases)
}

/// Returns the goals of a language.
fn goals(language: Language, cases: &[Case]) -> Vec<Target> {
    let (goal, name) = (language.goal(), language.name());
    let of = |case: &str, peer: &str| {
        cases.iter().find(|c| c.case == case && c.peer == peer).map_or(f64::NAN, |case| case.value)
    };
    let ours = |case| of(case, "bifrost");
    let mut targets = vec![
        Target::new(format!("{name}: record"), ours("record"), goal.record, "ns"),
        Target::new(format!("{name}: a call in a batch"), ours("batch"), goal.batch, "ns"),
    ];
    if let Some(most) = goal.beyond_raw_us {
        let beyond = (ours("pair") - of("pair", RAW)).max(0.0) / 1e3;
        targets.push(Target::new(format!("{name}: a pair beyond the raw socket"), beyond, most, "us"));
    }
    // The best peer is the one that comes nearest.
    let best = |case: &str| {
        let peers = cases.iter().filter(|c| c.case == case && !["bifrost", RAW].contains(&c.peer));
        let mut values: Vec<f64> = peers.map(|case| case.value).collect();
        summary(&mut values).1
    };
    let (pair, pipelined) = (best("pair"), best("pipelined"));
    if pair.is_finite() {
        let reached = ratio(pair, ours("pair"));
        targets.push(Target::at_least(
            format!("{name}: the best peer's pair / ours"),
            reached,
            goal.pair_ratio,
            "x",
        ));
        let reached = ratio(pair, ours("batch"));
        let title = format!("{name}: the best peer's pair / our call in a batch");
        targets.push(Target::at_least(title, reached, goal.batch_ratio, "x"));
    }
    if pipelined.is_finite() {
        let reached = ratio(pipelined, ours("batch"));
        targets.push(Target::at_least(
            format!("{name}: the best peer's pipelined call / ours"),
            reached,
            1.0,
            "x",
        ));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_end_in_time_and_tell_what_they_say() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let (status, output, said) =
            output_within(shell("echo figures; echo why >&2; exit 3"), PROGRAM_MAX).unwrap();
        assert_eq!((status.code(), output.as_str(), said.as_str()), (Some(3), "figures\n", "why\n"));
        let late = output_within(shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.to_string(), "it has run for 0 s");
    }
}
