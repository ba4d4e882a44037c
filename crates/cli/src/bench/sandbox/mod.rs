//! `bifrost bench sandbox`: code that a client ships as a module in WebAssembly, beside batches,
//! control structures, batched procedures and Theta methods (000 section 8.3, 001 section 8).
//!
//! Read [`run`] first. The server is a process, and the client connects over shared memory; the
//! bytes on the wire are counted by a relay between unix sockets ([`relay`]). All forms of a loop
//! are measured in turn in each round, so that a change of the machine's speed hits all.

mod relay;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use bifrost_veneer::{Error, Module, Procedure, Session};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use self::relay::Relay;
use super::bifrost_stubs::{self as stubs, Probe, Records};
use super::calls::THETA;
use super::common::{Failed, note_debug_build, pin};
use super::report::{self, Case, JsonLines};
use crate::process::ServerProcess;

/// The module of the measurements; `guest.wat` is its text.
const GUEST: &[u8] = include_bytes!("guest.wasm");
/// The name whose record is fetched.
const USER: &str = "user50";
/// Rounds of a loop of null calls.
const NULL_ROUNDS: i64 = 20_000;
/// Rounds of a loop with three fetches.
const FETCH_ROUNDS: i64 = 500;
/// Rounds of a loop that calls nothing.
const SUM_ROUNDS: i64 = 1_000_000;
/// Modules, structures and procedures that run to measure the memory of one.
const KEPT: u64 = 64;
/// Bodies of six calls of other content.
const SHAPES: u64 = 1 << 12;

/// The arguments of `bifrost bench sandbox`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build with the feature `wasm`. The client runs on one core, the server on another.

Examples:
  bifrost bench sandbox
  bifrost bench sandbox --rounds 5 --json sandbox.jsonl")]
pub struct Args {
    /// The samples of each case; figures are medians
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The core of the client
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    core: usize,
}

/// Runs the command.
///
/// # Errors
/// The program runs no modules, or the server refuses a call.
pub fn run(args: &Args) -> Result<(), Failed> {
    if !bifrost_session::RUNS_MODULES {
        return Err("this program runs no modules: it was built without the feature `wasm`".into());
    }
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("server");
    let (shm, unix) =
        (format!("shm://{}", folder.path().join("shm").display()), format!("unix://{}", socket.display()));
    let most = format!("limits.modules_max={}", 2 * KEPT);
    let settings =
        ["--listen", &shm, "--listen", &unix, "--set", &most, "--set", "limits.fuel_max=1000000000"];
    let server = ServerProcess::start(folder.path(), THETA, &settings)?;
    pin(args.core);
    let bar = ProgressBar::new(4 * u64::from(args.rounds));
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    let [first, again] = bytes(&socket, folder.path())?;
    let sections = [
        ("Set-up and the first run, over shared memory", set_up(&shm, args.rounds, &bar)?),
        ("A loop of null calls, each round", null_loops(&shm, args.rounds, &bar)?),
        ("The five ways and two more, each round with three fetches", fetch_loops(&shm, args.rounds, &bar)?),
        ("A loop without calls, each round", sums(&shm, args.rounds, &bar)?),
        ("Bytes that the client sends for the loop of null calls, the first time", first),
        ("The same, again", again),
        ("Memory of the server, for one of each form after it has run", memory(&shm, server.id())?),
    ];
    bar.finish_and_clear();
    for (title, cases) in &sections {
        report::print_cases(title, cases);
        json.write(cases)?;
    }
    Ok(())
}

/// The samples of cases, by their names.
#[derive(Default)]
struct Samples(Vec<(&'static str, Vec<f64>)>);

impl Samples {
    fn add(&mut self, case: &'static str, value: f64) {
        match self.0.iter_mut().find(|(name, _)| *name == case) {
            Some((_, values)) => values.push(value),
            None => self.0.push((case, vec![value])),
        }
    }

    fn cases(self, n: u64, unit: &'static str) -> Vec<Case> {
        let case =
            |(name, mut values): (&str, Vec<f64>)| Case::new(name, n, unit, &mut values).part_of("sandbox");
        self.0.into_iter().map(case).collect()
    }
}

/// Returns the guest with other bytes, and so as another module: a section that means nothing has
/// the number.
fn another(number: u64) -> Module {
    let mut bytes = GUEST.to_vec();
    // A custom section: its length, the length of its name, the name, the number.
    bytes.extend_from_slice(&[0, 10, 1, b'n']);
    bytes.extend_from_slice(&number.to_le_bytes());
    Module::new(bytes)
}

fn us(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// Makes six calls, each of one of four methods, which `shape` chooses: each shape is other
/// content.
fn body(probe: &Probe, shape: u64) {
    for i in 0..6 {
        match shape >> (2 * i) & 3 {
            0 => drop(probe.a()),
            1 => drop(probe.b()),
            2 => drop(probe.c()),
            _ => drop(probe.d()),
        }
    }
}

/// The time of the first run of each form, new to the server, known to it, and known to the
/// session. A call before each keeps both sides awake: what a thread needs to wake up is no part of
/// a form.
fn set_up(url: &str, rounds: u32, bar: &ProgressBar) -> Result<Vec<Case>, Failed> {
    let mut samples = Samples::default();
    let s = stubs::connect(url)?;
    let probe: Probe = s.lookup("probe");
    s.flush()?;
    let known = Module::new(GUEST);
    s.run_wasm::<(), ()>(&known, "empty", ()).claim()?;
    let awake = |probe: &Probe| -> Result<Instant, Failed> {
        probe.nothing().claim()?;
        Ok(Instant::now())
    };
    for round in 0..u64::from(rounds) {
        let start = awake(&probe)?;
        body(&probe, round);
        s.flush()?;
        samples.add("batch of 6 calls", us(start));
        for case in ["structure of 6 calls, new to the server", "structure, known to the server"] {
            let start = awake(&probe)?;
            s.foreach(s.value(1_i64).to(1), |_| body(&probe, round));
            s.flush()?;
            samples.add(case, us(start));
        }
        for (case, again) in [
            ("procedure of 6 calls, new to the server", "procedure, known to the session"),
            ("procedure, known to the server", ""),
        ] {
            let start = awake(&probe)?;
            let procedure: Procedure<(i64,), i64> = s.procedure("p", |_, (n,)| {
                body(&probe, round);
                n
            });
            procedure.call((1,)).claim()?;
            samples.add(case, us(start));
            if !again.is_empty() {
                let start = awake(&probe)?;
                procedure.call((1,)).claim()?;
                samples.add(again, us(start));
            }
        }
        let start = awake(&probe)?;
        probe.nothing().claim()?;
        samples.add("Theta method, one call", us(start));
        let other = stubs::connect(url)?;
        let its: Probe = other.lookup("probe");
        let new = another(u64::from(std::process::id()) << 32 | round);
        for (case, module) in [
            ("module, new to the server", &new),
            ("module, known to the server", &known),
            ("module, known to the session", &known),
        ] {
            let start = awake(&its)?;
            other.run_wasm::<(), ()>(module, "empty", ()).claim()?;
            samples.add(case, us(start));
        }
        bar.inc(1);
    }
    Ok(samples.cases(1, "us"))
}

/// A form of a loop, and its function.
type Way<'a> = (&'static str, &'a mut dyn FnMut() -> Result<(), Error>);

/// Measures forms of a loop in turn; each function runs so many rounds.
fn loops(rounds: i64, samples: u32, bar: &ProgressBar, ways: &mut [Way<'_>]) -> Result<Vec<Case>, Failed> {
    let mut all = Samples::default();
    // The first ones warm up: structures and methods become code.
    for sample in 0..samples + 3 {
        for (name, way) in ways.iter_mut() {
            let start = Instant::now();
            way()?;
            if sample >= 3 {
                all.add(name, us(start) * 1000.0 / rounds as f64);
            }
        }
        bar.inc(u64::from(sample >= 3));
    }
    Ok(all.cases(rounds as u64, "ns"))
}

fn null_loops(url: &str, samples: u32, bar: &ProgressBar) -> Result<Vec<Case>, Failed> {
    let s: Session = stubs::connect(url)?;
    let probe: Probe = s.lookup("probe");
    s.flush()?;
    let module = Module::new(GUEST);
    let count = s.cell_with::<i64>(0);
    let procedure: Procedure<(i64,), i64> = s.procedure("nulls", |_, (n,)| {
        s.foreach(s.value(1_i64).to(&n), |_| drop(probe.nothing()));
        n
    });
    s.flush()?;
    loops(
        NULL_ROUNDS,
        samples,
        bar,
        &mut [
            ("batch", &mut || {
                (0..NULL_ROUNDS).for_each(|_| drop(black_box(probe.nothing())));
                s.flush()
            }),
            ("batched WHILE", &mut || {
                count.put(0);
                s.while_(
                    || count.get().lt(NULL_ROUNDS),
                    || {
                        drop(probe.nothing());
                        count.put(count.get() + 1);
                    },
                );
                s.flush()
            }),
            ("batched FOREACH", &mut || {
                s.foreach(s.value(1_i64).to(NULL_ROUNDS), |_| drop(probe.nothing()));
                s.flush()
            }),
            ("batched procedure", &mut || procedure.call((NULL_ROUNDS,)).claim().map(drop)),
            ("Theta method", &mut || probe.nothing_loop(NULL_ROUNDS).claim()),
            ("module", &mut || {
                s.run_wasm::<(Probe, i64), ()>(&module, "nothing_loop", (&probe, NULL_ROUNDS)).claim()
            }),
        ],
    )
}

fn fetch_loops(url: &str, samples: u32, bar: &ProgressBar) -> Result<Vec<Case>, Failed> {
    let s: Session = stubs::connect(url)?;
    let records: Records = s.lookup("records");
    let one = s.value(1_i64);
    s.flush()?;
    let module = Module::new(GUEST);
    let count = s.cell_with::<i64>(0);
    let round = || {
        drop(black_box(&one + 0));
        (0..3).for_each(|_| drop(black_box(records.fetch(USER))));
    };
    let procedure: Procedure<(i64,), i64> = s.procedure("fetches", |_, (n,)| {
        s.foreach(s.value(1_i64).to(&n), |_| {
            drop(black_box(s.value(1_i64) + 0));
            (0..3).for_each(|_| drop(black_box(records.fetch(USER))));
        });
        n
    });
    s.flush()?;
    loops(
        FETCH_ROUNDS,
        samples,
        bar,
        &mut [
            ("client loop", &mut || {
                for _ in 0..FETCH_ROUNDS {
                    let sum = &one + 0;
                    (0..3).for_each(|_| drop(black_box(records.fetch(USER))));
                    sum.claim()?;
                }
                s.flush()
            }),
            ("perfect batching", &mut || {
                (0..FETCH_ROUNDS).for_each(|_| round());
                s.flush()
            }),
            ("batched WHILE", &mut || {
                count.put(0);
                s.while_(
                    || count.get().lt(FETCH_ROUNDS),
                    || {
                        round();
                        count.put(count.get() + 1);
                    },
                );
                s.flush()
            }),
            ("batched FOREACH", &mut || {
                s.foreach(one.to(FETCH_ROUNDS), |_| round());
                s.flush()
            }),
            ("batched procedure", &mut || procedure.call((FETCH_ROUNDS,)).claim().map(drop)),
            ("Theta method", &mut || records.loop_fetch(USER, FETCH_ROUNDS).claim()),
            ("module", &mut || {
                let arguments = (&records, USER, FETCH_ROUNDS);
                s.run_wasm::<(Records, String, i64), i64>(&module, "fetch_loop", arguments).claim().map(drop)
            }),
        ],
    )
}

fn sums(url: &str, samples: u32, bar: &ProgressBar) -> Result<Vec<Case>, Failed> {
    let s: Session = stubs::connect(url)?;
    let module = Module::new(GUEST);
    let (count, sum) = (s.cell_with::<i64>(0), s.cell_with::<i64>(0));
    s.flush()?;
    loops(
        SUM_ROUNDS,
        samples,
        bar,
        &mut [
            ("batched FOREACH", &mut || {
                sum.put(0);
                s.foreach(s.value(1_i64).to(SUM_ROUNDS), |n| drop(sum.put(sum.get() + n)));
                sum.get().claim().map(drop)
            }),
            ("batched WHILE", &mut || {
                count.put(0);
                sum.put(0);
                s.while_(
                    || count.get().lt(SUM_ROUNDS),
                    || {
                        count.put(count.get() + 1);
                        sum.put(sum.get() + count.get());
                    },
                );
                sum.get().claim().map(drop)
            }),
            ("module", &mut || s.run_wasm::<(i64,), i64>(&module, "sum", (SUM_ROUNDS,)).claim().map(drop)),
        ],
    )
}

/// Counts the bytes that a session sends for each form, for the first time and again.
fn bytes(server: &std::path::Path, folder: &std::path::Path) -> Result<[Vec<Case>; 2], Failed> {
    let relay = Relay::start(&folder.join("relay"), server)?;
    let s: Session = stubs::connect(&format!("unix://{}", folder.join("relay").display()))?;
    let probe: Probe = s.lookup("probe");
    let count = s.cell_with::<i64>(0);
    s.flush()?;
    let module = Module::new(GUEST);
    let mut procedure: Option<Procedure<(i64,), i64>> = None;
    let mut all = [Vec::new(), Vec::new()];
    for (cases, temperature) in all.iter_mut().zip(["cold", "hot"]) {
        let mut sent = |case: &'static str,
                        way: &mut dyn FnMut() -> Result<(), Error>|
         -> Result<(), Failed> {
            let before = relay.sent();
            way()?;
            let mut bytes = [(relay.sent() - before) as f64];
            cases.push(
                Case::new(case, NULL_ROUNDS as u64, "bytes", &mut bytes).part_of("sandbox").at(temperature),
            );
            Ok(())
        };
        sent("batch", &mut || {
            (0..NULL_ROUNDS).for_each(|_| drop(probe.nothing()));
            s.flush()
        })?;
        sent("batched WHILE", &mut || {
            count.put(0);
            s.while_(
                || count.get().lt(NULL_ROUNDS),
                || {
                    drop(probe.nothing());
                    count.put(count.get() + 1);
                },
            );
            s.flush()
        })?;
        sent("batched FOREACH", &mut || {
            s.foreach(s.value(1_i64).to(NULL_ROUNDS), |_| drop(probe.nothing()));
            s.flush()
        })?;
        sent("batched procedure", &mut || {
            let defined = procedure.get_or_insert_with(|| {
                s.procedure("nulls", |_, (n,)| {
                    s.foreach(s.value(1_i64).to(&n), |_| drop(probe.nothing()));
                    n
                })
            });
            defined.call((NULL_ROUNDS,)).claim().map(drop)
        })?;
        sent("Theta method", &mut || probe.nothing_loop(NULL_ROUNDS).claim())?;
        sent("module", &mut || {
            s.run_wasm::<(Probe, i64), ()>(&module, "nothing_loop", (&probe, NULL_ROUNDS)).claim()
        })?;
    }
    Ok(all)
}

/// Measures the memory that each form takes in the server: many of other content run once.
fn memory(url: &str, server: u32) -> Result<Vec<Case>, Failed> {
    let s: Session = stubs::connect(url)?;
    let probe: Probe = s.lookup("probe");
    // What the first of all needs is there.
    s.run_wasm::<(), ()>(&another(u64::MAX), "empty", ()).claim()?;
    let mut cases = Vec::new();
    let mut grown =
        |case: &'static str, way: &mut dyn FnMut(u64) -> Result<(), Error>| -> Result<(), Failed> {
            let before = resident_kib(server)?;
            for number in 0..KEPT {
                // Shapes that the set-up has not sent.
                way(SHAPES - 1 - number)?;
            }
            let mut each = [(resident_kib(server)? - before).max(0.0) / KEPT as f64];
            cases.push(Case::new(case, KEPT, "KiB", &mut each).part_of("sandbox"));
            Ok(())
        };
    grown("batch of 6 calls", &mut |shape| {
        body(&probe, shape);
        s.flush()
    })?;
    grown("structure of 6 calls", &mut |shape| {
        s.foreach(s.value(1_i64).to(1), |_| body(&probe, shape));
        s.flush()
    })?;
    grown("procedure of 6 calls", &mut |shape| {
        let procedure: Procedure<(i64,), i64> = s.procedure("p", |_, (n,)| {
            body(&probe, shape);
            n
        });
        procedure.call((1,)).claim().map(drop)
    })?;
    grown("Theta method", &mut |_| probe.nothing().claim())?;
    grown("module", &mut |number| s.run_wasm::<(), ()>(&another(number), "empty", ()).claim())?;
    Ok(cases)
}

/// Returns the resident memory of a process.
fn resident_kib(process: u32) -> Result<f64, Failed> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.ok_or_else(|| "the system does not tell the memory of a process".into())
}
