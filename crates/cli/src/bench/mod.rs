//! `bifrost bench`: the program measures itself, so that anybody can repeat every figure.

mod actors;
pub(crate) mod calls;
mod kills;
mod oo7;
mod process;
mod raw;
pub(crate) mod report;
mod savina;
mod sizes;
#[rustfmt::skip]
#[path = "bifrost_stubs.rs"]
#[allow(dead_code, clippy::all, reason = "generated")]
pub(crate) mod stubs;
mod theta;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bifrost_engine::{Mode, Run};
use bifrost_server::{Config, Server, program};
use bifrost_theta::{Options, Sources};
use clap::{Args as ClapArgs, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Exit, Failure, Outcome};
use report::JsonLines;

/// The program that the measurements run against.
pub const THETA: &str = include_str!("bench.theta");

/// Measure this machine
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The cost of calls: crossings, batches, control structures, the five ways to batch a loop
    Calls(Calls),
    /// The cost of Theta programs, beside the same programs in C, Lua and Go; compiling
    Theta(theta::Args),
    /// The cost of actors: messages, requests, creation, memory; programs of many actors, beside C,
    /// rayon and other actors
    Actors(actors::Args),
    /// Ten programs of the Savina suite for actors, with its sizes
    Savina(savina::Args),
    /// Great numbers of actors: ten million that do nothing, chains, mailboxes, a method without
    /// end, a process that is killed
    Sizes(sizes::Args),
    /// The benchmark OO7: each operation in four ways, with crossings and batching factors
    Oo7(oo7::Args),
    /// A server that is killed again and again under load, and the commits that it had acknowledged
    Kills(kills::Args),
    #[command(hide = true)]
    Server { folder: PathBuf, core: usize },
    #[command(hide = true)]
    ActorsNode {
        case: String,
        nodes: u32,
        #[arg(long)]
        untimed: bool,
    },
    #[command(hide = true)]
    Echo { file: PathBuf, core: usize },
    #[command(hide = true)]
    Oo7Server {
        folder: PathBuf,
        core: usize,
        #[arg(long, default_value = "")]
        store: String,
        #[arg(long)]
        prefetch: Option<usize>,
    },
}

/// The arguments of `bifrost bench calls`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The client runs on one core, the server on another; without two cores the figures are \
        not valid. Use a release build.\n\nExamples:\n  bifrost bench calls\n  bifrost bench calls \
                        --json calls.jsonl --svg loops.svg"
)]
struct Calls {
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the five ways to batch a loop
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// A tenth of the samples: enough to see that everything works
    #[arg(long)]
    quick: bool,
    /// The cores of client and server
    #[arg(long, value_name = "CLIENT,SERVER", default_values_t = [0, 1], value_delimiter = ',', num_args = 2)]
    cores: Vec<usize>,
}

/// Anything that can go wrong here is said and ends the program.
type Failed = Box<dyn std::error::Error>;

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    match &args.what {
        What::Calls(calls) => bench_calls(calls),
        What::Theta(args) => theta::run(args),
        What::Actors(args) => actors::run(args),
        What::Savina(args) => savina::run(args),
        What::Sizes(args) => sizes::run(args),
        What::Oo7(args) => oo7::run(args),
        What::Kills(args) => kills::run(args),
        What::Oo7Server { folder, core, store, prefetch } => oo7::serve(folder, *core, store, *prefetch),
        What::ActorsNode { case, nodes, untimed } => actors::serve(case, *nodes, *untimed),
        What::Server { folder, core } => serve(folder, *core),
        What::Echo { file, core } => echo(file, *core),
    }
    .map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

fn pin(core: usize) {
    // Where that is not allowed the figures are noisier, and that is all.
    core_affinity::set_for_current(core_affinity::CoreId { id: core });
}

/// A process of ours that ends when it is dropped.
struct Helper(Child);

impl Helper {
    fn start(arguments: &[&str]) -> Result<Helper, Failed> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.arg("bench").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Helper(command.spawn()?))
    }

    /// Reads the line that the helper prints when it is ready.
    fn ready(&mut self) -> Result<String, Failed> {
        let out = self.0.stdout.take().ok_or("no output to read")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        match line.trim() {
            "" => Err("the measuring process did not start".into()),
            line => Ok(line.to_owned()),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The helper ends when its input does; one that hangs is ended.
        drop(self.0.stdin.take());
        for _ in 0..200 {
            if let Ok(Some(_)) = self.0.try_wait() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn note_debug_build() {
    if cfg!(debug_assertions) {
        anstream::eprintln!("note: this is a debug build; its figures are not valid for a release build");
    }
}

fn bench_calls(args: &Calls) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let (client, server) = (args.cores[0], args.cores[1]);
    let folder = std::env::temp_dir().join(format!("bifrost-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let measured = measure(args, &folder, client, server);
    std::fs::remove_dir_all(&folder)?;
    let measured = measured?;
    for (title, cases) in &measured.sections {
        report::print_cases(title, cases);
    }
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

fn measure(args: &Calls, folder: &Path, client: usize, server: usize) -> Result<calls::Measured, Failed> {
    let effort = match args.quick {
        true => calls::Effort { samples: 200, long_samples: 5 },
        false => calls::Effort { samples: 2000, long_samples: 50 },
    };
    let core = server.to_string();
    let file = folder.join("lines");
    std::fs::write(&file, [0; 4096])?;
    let path = |p: &Path| p.to_string_lossy().into_owned();
    let mut serving = Helper::start(&["server", &path(folder), &core])?;
    let url = serving.ready()?;
    let mut echoing = Helper::start(&["echo", &path(&file), &core])?;
    echoing.ready()?;
    let lines = raw::map(&file)?;
    pin(client);
    let bar = ProgressBar::new(2 * (effort.samples as u64 / 10) + 2 * effort.long_samples as u64 + 1);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    let session = stubs::connect(&url)?;
    let mut orders = echoing.0.stdin.take().ok_or("no input to write to")?;
    let mut go = || {
        orders.write_all(b"go\n")?;
        orders.flush()
    };
    let mut raw = calls::Raw { lines, go: &mut go };
    let measured = calls::measure(&session, &mut raw, effort, &bar);
    bar.finish_and_clear();
    session.close()?;
    measured
}

/// Runs the server of the measurements: says where it listens, and serves until its input ends.
fn serve(folder: &Path, core: usize) -> Result<(), Failed> {
    pin(core);
    let mut sources = Sources::new();
    sources.add("bench.theta", THETA);
    let engine = program::load_sources(sources, &Options::default(), Run::kept(Mode::Compiled))?;
    let config = Config { listen: vec![format!("shm://{}/shm", folder.display())], ..Config::default() };
    let server = Server::start(engine, &config)?;
    say(&server.addresses()[0].to_string())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Runs the other side of the raw exchange.
fn echo(file: &Path, core: usize) -> Result<(), Failed> {
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

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
