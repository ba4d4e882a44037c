//! `bifrost bench sizes`: tests that great numbers of actors, messages, waits and stored objects
//! fit, and that a run ends well of which a part is killed.
//!
//! The programs are in `bench/sizes`, and of those of `bench/actors` the idle actors and the
//! queens. Each case checks the result of its program. They run in processes, as those of `bench
//! actors`, and the system tells their memory.
//!
//! Read `Sized` first: a case, with the function that measures it. [`run`] calls that for each
//! chosen case, and collects figures and targets in `Measured`. The runs of `queens` are processes
//! that a `Run` owns, of which one is killed.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;

use super::actors::peers::our_command;
use super::common::{Failed, note_debug_build};
use super::process::Process;
use super::report::{self, Case, JsonLines, Target};

mod session;

/// The arguments of `bifrost bench sizes`.
#[derive(Debug, ClapArgs)]
#[command(after_help = after_help())]
pub struct Args {
    /// The cases to run [default: all]
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// The size of the one case that is run, in place of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    size: Option<u32>,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
    /// Small sizes: enough to see that everything works
    #[arg(long)]
    quick: bool,
}

/// A case: a program that gets a size.
struct Sized {
    name: &'static str,
    about: &'static str,
    theta: &'static str,
    size: i64,
    quick: i64,
    capsules: bool,
    measure: fn(&Sized, i64, &mut Measured) -> Result<(), Failed>,
}

#[derive(Default)]
struct Measured {
    figures: Vec<Case>,
    targets: Vec<Target>,
}

macro_rules! program {
    ($file:literal) => {
        include_str!(concat!("../../../../bench/", $file))
    };
}

static CASES: [Sized; 9] = [
    Sized {
        name: "idle",
        about: "idle actors, in one process: bytes of resident memory of each",
        theta: program!("actors/idle.theta"),
        size: 10_000_000,
        quick: 20_000,
        capsules: false,
        measure: idle,
    },
    Sized {
        name: "sends",
        about: "a chain of sends, each from within the method that the one before called",
        theta: program!("sizes/sends.theta"),
        size: 10_000_000,
        quick: 20_000,
        capsules: false,
        measure: sends,
    },
    Sized {
        name: "mailbox",
        about: "messages taken from the far end of a mailbox in which so many others wait",
        theta: program!("sizes/mailbox.theta"),
        size: 1_000_000,
        quick: 20_000,
        capsules: false,
        measure: mailbox,
    },
    Sized {
        name: "requests",
        about: "a chain of requests, of which each waits for the next",
        theta: program!("sizes/requests.theta"),
        size: 1_000_000,
        quick: 20_000,
        capsules: false,
        measure: requests,
    },
    Sized {
        name: "runaway",
        about: "a method that counts so far beside an actor that has a turn whenever it can",
        theta: program!("sizes/runaway.theta"),
        size: 1_000_000_000,
        quick: 20_000,
        capsules: false,
        measure: runaway,
    },
    Sized {
        name: "queens",
        about: "all solutions for so many queens in two processes, of which one is killed, again and again",
        theta: program!("actors/queens.theta"),
        size: 14,
        quick: 8,
        capsules: false,
        measure: queens,
    },
    Sized {
        name: "spread",
        about: "actors with state made `anywhere` on two nodes, against the same placed by hand",
        theta: program!("sizes/spread.theta"),
        size: 1000,
        quick: 100,
        capsules: false,
        measure: spread,
    },
    Sized {
        name: "spread-capsules",
        about: "the same in two processes",
        theta: program!("sizes/spread.theta"),
        size: 1000,
        quick: 100,
        capsules: true,
        measure: spread,
    },
    Sized {
        name: "session",
        about: "objects that one session makes and commits, beyond its cache: the memory of heap and process",
        theta: program!("sizes/session.theta"),
        size: 1_000_000,
        quick: 20_000,
        capsules: false,
        measure: session::session,
    },
];

/// The most bytes of an actor that does nothing.
const IDLE_BYTES_MOST: f64 = 48.0;

/// The most megabytes that a process may grow by for a chain of sends, however long.
const CHAIN_MB_MOST: f64 = 64.0;

/// Messages that wait while others are taken behind them, for comparison.
const FEW: i64 = 1000;

/// The most that finding a message among many may take, as a multiple of the time among few.
const MANY_AGAINST_FEW: f64 = 1.5;

/// The longest time between two turns beside a method that goes on and on.
const PAUSE_MS_MOST: f64 = 10.0;

/// The number of times that a process is killed, and the delay that is added each time.
const KILLS: u32 = 10;
const KILL_STEP: Duration = Duration::from_millis(25);

/// The longest time of a run of which a part was killed.
const END_SECONDS_MAX: u64 = 300;

/// Solutions for 1, 2, 3 ... queens.
const SOLUTIONS: [i64; 16] =
    [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14_200, 73_712, 365_596, 2_279_184, 14_772_512];

fn after_help() -> String {
    let mut text = "Use a release build.\n\nCases, and their sizes:\n".to_owned();
    for case in &CASES {
        text.push_str(&format!("  {:<9} {:>13}  {}\n", case.name, case.size, case.about));
    }
    text.push_str(
        "\nExamples:\n  bifrost bench sizes\n  bifrost bench sizes idle --size 1000000\n  bifrost bench sizes \
         session --size 100000000\n  bifrost bench sizes --json \
         sizes.jsonl",
    );
    text
}

/// Returns the program of a case, and true if it runs in several processes.
pub fn program(case: &str) -> Option<(&'static str, bool)> {
    CASES.iter().find(|it| it.name == case).map(|case| (case.theta, case.capsules))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    if let Some(unknown) = args.cases.iter().find(|name| !CASES.iter().any(|c| c.name == **name)) {
        return Err(format!("there is no case `{unknown}`; `bifrost bench sizes --help` lists them").into());
    }
    if args.size.is_some() && args.cases.len() != 1 {
        return Err("`--size` is the size of one case: name it".into());
    }
    let mut json = JsonLines::create(args.json.as_deref())?;
    let mut targets = Vec::new();
    for case in CASES.iter().filter(|case| args.cases.is_empty() || args.cases.iter().any(|c| c == case.name))
    {
        let own = if args.quick { case.quick } else { case.size };
        let size = args.size.map_or(own, i64::from);
        let mut measured = Measured::default();
        (case.measure)(case, size, &mut measured)?;
        report::print_cases(&format!("{}, {size}: {}", case.name, case.about), &measured.figures);
        json.write(&measured.figures)?;
        targets.extend(measured.targets);
    }
    report::print_targets(&targets);
    json.write(&targets)?;
    Ok(())
}

impl Sized {
    fn start(&self) -> Result<Process, Failed> {
        self.start_on(1)
    }

    fn start_on(&self, nodes: u32) -> Result<Process, Failed> {
        Process::start("bifrost", &mut our_command(self.name, nodes)?)
    }

    fn check(&self, is: i64, should_be: i64) -> Result<i64, Failed> {
        match is == should_be {
            true => Ok(is),
            false => Err(format!("`{}` gives {is}, not {should_be}", self.name).into()),
        }
    }

    fn figure(&self, what: &str, size: i64, unit: &'static str, samples: &mut [f64]) -> Case {
        let name = if what.is_empty() { self.name.to_owned() } else { format!("{}, {what}", self.name) };
        Case::new(name, size as u64, unit, samples).part_of("sizes")
    }

    /// Runs a program that gives its size: nanoseconds of each of so many, and the bytes by which
    /// its process has grown at most.
    fn chain(&self, size: i64, measured: &mut Measured) -> Result<f64, Failed> {
        let mut process = self.start()?;
        process.run(1)?;
        let before = process.memory("VmRSS")?;
        let ran = process.run(size)?;
        let result = self.check(ran.sample.result, size)?;
        let grown = process.memory("VmHWM")?.saturating_sub(before) as f64;
        let each = self.figure("", size, "ns", &mut [ran.wall_ms * 1e6 / size as f64]);
        measured.figures.push(each.gives(result));
        measured.figures.push(self.figure("memory for all", size, "MB", &mut [grown / 1e6]));
        Ok(grown)
    }
}

fn idle(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let mut process = case.start()?;
    process.run(1)?;
    let before = process.memory("VmRSS")?;
    let result = case.check(process.run(size)?.sample.result, size)?;
    let each = process.memory("VmRSS")?.saturating_sub(before) as f64 / size as f64;
    measured.figures.push(case.figure("", size, "B", &mut [each]).gives(result));
    measured.targets.push(Target::new("idle, for each actor", each, IDLE_BYTES_MOST, "B"));
    Ok(())
}

fn sends(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let grown = case.chain(size, measured)? / 1e6;
    measured.targets.push(Target::new("sends, memory for all", grown, CHAIN_MB_MOST, "MB"));
    Ok(())
}

fn requests(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let grown = case.chain(size, measured)?;
    measured.figures.push(case.figure("memory for each", size, "B", &mut [grown / size as f64]));
    Ok(())
}

/// Measures one message: the program checks those that it takes, and gives the nanoseconds of one.
fn mailbox(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let mut process = case.start()?;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        few.push(process.run_with(&format!("{FEW} {size}"))?.sample.result as f64);
        many.push(process.run_with(&format!("{size} {size}"))?.sample.result as f64);
    }
    let (few, many) = (
        case.figure("1,000 others wait", size, "ns", &mut few),
        case.figure("all others wait", size, "ns", &mut many),
    );
    let ratio = many.value / few.value.max(1.0);
    measured.figures.extend([few, many]);
    measured.targets.push(Target::new("mailbox, all others against 1,000", ratio, MANY_AGAINST_FEW, "x"));
    Ok(())
}

/// Messages for each actor, and the steps of its work for one.
const SPREAD_WORK: &str = "100 500";

/// Measurements of each placement, taken in turn.
const SPREAD_SAMPLES: usize = 7;

/// Measures a placement: the program gives the percentage by which the work of the nodes differs.
fn spread(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let mut process = case.start_on(2)?;
    let (mut anywhere, mut hand, mut differ) = (Vec::new(), Vec::new(), Vec::new());
    // Once more, while code is compiled.
    for round in 0..=SPREAD_SAMPLES {
        for (how, times) in [("anywhere", &mut anywhere), ("hand", &mut hand)] {
            let ran = process.run_with(&format!("{size} {SPREAD_WORK} {how}"))?;
            if round > 0 {
                times.push(ran.wall_ms);
                differ.extend((how == "anywhere").then_some(ran.sample.result as f64));
            }
        }
    }
    let most = differ.iter().copied().fold(0.0, f64::max);
    let anywhere = case.figure("placed by load", size, "ms", &mut anywhere);
    let hand = case.figure("placed by hand", size, "ms", &mut hand);
    let ratio = anywhere.value / hand.value.max(1e-3);
    measured.figures.extend([anywhere, hand]);
    measured.targets.push(Target::new(format!("{}, difference of the nodes", case.name), most, 10.0, "%"));
    measured.targets.push(Target::new(format!("{}, by load against by hand", case.name), ratio, 1.1, "x"));
    Ok(())
}

/// Measures the longest pause: the program checks that all was counted, and gives milliseconds.
fn runaway(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let ran = case.start()?.run(size)?;
    let longest = ran.sample.result as f64;
    measured.figures.push(case.figure("all of it", size, "ms", &mut [ran.wall_ms]));
    measured.figures.push(case.figure("longest time without a turn", size, "ms", &mut [longest]));
    measured.targets.push(Target::new("runaway, longest time without a turn", longest, PAUSE_MS_MOST, "ms"));
    Ok(())
}

/// Kills a process in each run, which must give the right count, or say that a node was lost.
fn queens(case: &Sized, size: i64, measured: &mut Measured) -> Result<(), Failed> {
    let most = SOLUTIONS.len();
    let solutions = usize::try_from(size - 1).ok().and_then(|at| SOLUTIONS.get(at));
    let solutions = *solutions.ok_or_else(|| format!("{size} queens: 1 to {most} are known"))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("queens.theta");
    // It is killed when it is at work.
    let main = "main (args: sequence[string])\n";
    std::fs::write(&file, case.theta.replace(main, &format!("{main}  print(\"begun\")\n")))?;
    let (mut counted, mut lost, mut ends) = (0, 0, Vec::new());
    for round in 0..KILLS {
        let mut run = Run::start(&file, size)?;
        let killed = run.kill_one(KILL_STEP * round)?;
        let since = Instant::now();
        match run.end()? {
            Some(count) => {
                case.check(count, solutions)?;
                counted += 1;
            }
            None if killed => lost += 1,
            None => return Err("a node is lost that was not killed".into()),
        }
        ends.push(since.elapsed().as_secs_f64() * 1e3);
    }
    let ends = case.figure("from the kill to the end", size, "ms", &mut ends);
    measured.figures.push(ends);
    measured.figures.push(case.figure("runs that were told", size, "", &mut [f64::from(lost)]));
    measured.figures.push(case.figure("runs that have counted", size, "", &mut [f64::from(counted)]));
    Ok(())
}

/// A run in two processes, which is killed when this value is dropped.
struct Run {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Run {
    fn start(file: &Path, size: i64) -> Result<Run, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["run", "--capsules", "2"]).arg(file).arg(size.to_string());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = child.stdout.take().map(BufReader::new).ok_or("no output to read")?;
        let mut run = Run { child, output };
        let mut first = String::new();
        run.output.read_line(&mut first)?;
        match first.trim() {
            "begun" => Ok(run),
            _ => Err("a run in two processes does not begin".into()),
        }
    }

    /// Kills the process that this one has started, so much later. Returns true if it was there.
    fn kill_one(&mut self, after: Duration) -> Result<bool, Failed> {
        std::thread::sleep(after);
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let Some(started) = children.split_whitespace().next() else { return Ok(false) };
        let process = rustix::process::Pid::from_raw(started.parse()?).ok_or("a process has a number")?;
        // One that has ended by itself meanwhile is not waited for yet, or the run is all but over.
        // No other process has its number so soon.
        Ok(rustix::process::kill_process(process, rustix::process::Signal::KILL).is_ok())
    }

    /// Returns the number that it prints; nothing if it says that a node was lost.
    fn end(mut self) -> Result<Option<i64>, Failed> {
        let until = Instant::now() + Duration::from_secs(END_SECONDS_MAX);
        let status = loop {
            match self.child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() > until => {
                    return Err(format!("a run does not end {END_SECONDS_MAX} seconds after a kill").into());
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let (mut said, mut errors) = (String::new(), String::new());
        self.output.read_to_string(&mut said)?;
        self.child.stderr.take().ok_or("no output to read")?.read_to_string(&mut errors)?;
        match said.trim().parse() {
            Ok(count) if status.success() => Ok(Some(count)),
            _ if errors.contains("`main` ended with the exception failure(\"node lost\")") => Ok(None),
            _ => Err(format!("a run of which a process was killed ends with {status}: {errors}").into()),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // It has ended, unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
