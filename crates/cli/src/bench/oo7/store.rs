//! OO7 over a store. Each operation runs hot, in a session that has run it before. It runs cold, in
//! a new session over a store whose server has just been started. The cost of concurrency control
//! is measured beside an engine without it.
//!
//! Each run is a transaction, and its commit belongs to its time. Code is warm in both: a new
//! server first runs the operation on a tiny database of its own.
//!
//! Read [`measure`] first: it chooses the hot and cold runs of each operation. [`Serving`] owns the
//! process of a server; `run` is one measured run, and `control` compares T1 with and without
//! concurrency control.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use bifrost_server::Counted;
use bifrost_server::config::MEMORY;
use bifrost_veneer::Session;
use indicatif::{ProgressBar, ProgressStyle};

use super::super::common::{Failed, say};
use super::super::helper::Helper;
use super::super::report::{Case, Target, ratio, summary};
use super::ops::{Op, Way, Ways};
use super::plain::Plain;
use super::{Args, Figures, Ran, TARGET_SIZE, Temperature, bifrost_stubs as stubs, generate, run_op};

/// Cold runs of each operation and way at most: each takes a server of its own.
const COLD_MAX: u32 = 3;
/// Pairs of runs with and without concurrency control at least.
const PAIRS_MIN: u32 = 21;
/// The target of the cost of concurrency control, as a ratio.
const CONTROL_MOST: f64 = 1.1;

/// A server in a process of its own.
pub struct Serving {
    helper: Helper,
    out: BufReader<ChildStdout>,
    url: String,
}

impl Serving {
    /// Starts one; `store` as for `bifrost serve`.
    pub fn start(args: &Args, folder: &Path, store: &str) -> Result<Serving, Failed> {
        let folder = tempfile::tempdir_in(folder)?.keep();
        let (folder, core) = (folder.to_string_lossy(), args.cores[1].to_string());
        let prefetch = args.prefetch.map(|objects| objects.to_string());
        let mut arguments = vec!["oo7-server", &folder, &core, "--store", store];
        arguments.extend(prefetch.iter().flat_map(|objects| ["--prefetch", objects]));
        let mut helper = Helper::start(&arguments)?;
        let mut out = BufReader::new(helper.take_output()?);
        let mut url = String::new();
        out.read_line(&mut url)?;
        match url.trim() {
            "" => Err("the server of the measurements did not start".into()),
            url => Ok(Serving { helper, out, url: url.to_owned() }),
        }
    }

    /// Makes a new session.
    pub fn session(&self) -> Result<Session, Failed> {
        self.session_with(None)
    }

    /// Makes a new session that flushes after so many calls, if a number is given.
    pub fn session_with(&self, calls: Option<usize>) -> Result<Session, Failed> {
        // A batch takes as long as it takes.
        let builder = Session::builder(&stubs::INTERFACE).timeout(Duration::from_secs(24 * 3600));
        let builder = builder.reply_bytes_max(1 << 30);
        let builder = match calls {
            Some(calls) => builder.remap_futures(calls),
            None => builder,
        };
        Ok(builder.connect(&self.url)?)
    }

    /// Returns the counts of the caches of its sessions up to now.
    fn cached(&mut self) -> Result<Counted, Failed> {
        let [calls, asked, ahead, used, evicted] = self.ask("cached")?;
        Ok(Counted { calls, asked, ahead, used, evicted, ..Counted::default() })
    }

    /// Runs T1 without concurrency control, in the process of the server; returns the result and
    /// the milliseconds.
    fn plain_t1(&mut self, args: &Args) -> Result<(i64, f64), Failed> {
        let [result, ns] = self.ask(&format!("t1 {} {}", args.size, args.seed))?;
        Ok((i64::try_from(result)?, ns as f64 / 1e6))
    }

    fn ask<const N: usize>(&mut self, question: &str) -> Result<[u64; N], Failed> {
        let input = self.helper.input()?;
        writeln!(input, "{question}")?;
        input.flush()?;
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        numbers.try_into().map_err(|_| "the server has ended".into())
    }

    /// Answers questions until there are no more.
    pub fn answer(server: &bifrost_server::Server) -> Result<(), Failed> {
        let mut plain = None;
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        while input.by_ref().take(1 << 10).read_line(&mut line)? > 0 {
            let answer = match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["t1", size, seed] => {
                    let plain = match &plain {
                        Some(plain) => plain,
                        None => &*plain.insert(Plain::start(size, seed.parse()?)?),
                    };
                    let (result, took) = plain.t1()?;
                    format!("{result} {}", took.as_nanos())
                }
                _ => {
                    let Counted { calls, asked, ahead, used, evicted, .. } = server.cached();
                    format!("{calls} {asked} {ahead} {used} {evicted}")
                }
            };
            say(&answer)?;
            line.clear();
        }
        Ok(())
    }
}

/// Returns the name of a database in its store.
fn name(args: &Args) -> String {
    format!("oo7 {} {}", args.size, args.seed)
}

/// Returns the database in the store, generated if it is not there.
fn database(args: &Args, session: &Session) -> Result<stubs::Database, Failed> {
    let found: stubs::Database = session.lookup(&name(args));
    if found.sizes().composites().claim().is_ok() {
        session.commit().claim()?;
        return Ok(found);
    }
    session.clear_exceptions();
    session.abort().claim()?;
    generate(&args.size, args.seed, session, Some(&name(args)))
}

/// Runs the operations. Returns the cost of concurrency control, if it was measured and there is a
/// target for it.
pub fn measure(
    args: &Args,
    store: &str,
    chosen: &[&Op],
    folder: &Path,
    figures: &mut Figures,
) -> Result<Option<Target>, Failed> {
    let bar = ProgressBar::new(2 * chosen.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    let mut serving = Serving::start(args, folder, store)?;
    let session = serving.session()?;
    let db = database(args, &session)?;
    let mut cost = None;
    if args.measures(Temperature::Hot) {
        let theta = stubs::new_oo7(&session, &db);
        let ways = Ways::new(&session, &db, &theta);
        for op in chosen {
            bar.set_message(format!("{}, hot", op.name));
            for way in args.ways(op) {
                figures.add(vec![hot(args.samples, &mut serving, &session, &ways, op, way)?])?;
            }
            bar.inc(1);
        }
        if chosen.iter().any(|op| op.name == "T1")
            && args.way.iter().all(|way| *way == Way::Theta || args.way.len() > 1)
        {
            bar.set_message("T1, with and without concurrency control");
            let (cases, target) = control(args, &mut serving, &session, &db)?;
            figures.add(cases)?;
            cost = (args.size == TARGET_SIZE).then_some(target);
        }
    }
    session.close()?;
    // In memory there is one server only.
    let mut last = (store == MEMORY).then_some(serving);
    for op in chosen.iter().filter(|_| args.measures(Temperature::Cold)) {
        bar.set_message(format!("{}, cold", op.name));
        for way in args.ways(op) {
            figures.add(vec![cold(args, store, folder, &mut last, op, way)?])?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let serving = match last {
        Some(serving) => serving,
        None => Serving::start(args, folder, store)?,
    };
    let session = serving.session()?;
    let db: stubs::Database = session.lookup(&name(args));
    match db.check().claim()?.as_str() {
        "" => Ok(cost),
        wrong => Err(format!("the database is wrong afterwards: {wrong}").into()),
    }
}

/// Runs an operation and commits; the commit belongs to its time.
fn run(session: &Session, ways: &Ways<'_>, op: &str, way: Way) -> Result<Ran, Failed> {
    session.flush()?;
    let start = Instant::now();
    let ran = run_op(session, ways, op, way)?;
    session.commit().claim()?;
    Ok(Ran { ms: start.elapsed().as_secs_f64() * 1e3, ..ran })
}

/// Runs an operation without measuring it; does nothing for no operation.
fn run_aside(session: &Session, ways: &Ways<'_>, op: Option<&str>) -> Result<(), Failed> {
    op.map_or(Ok(()), |op| run(session, ways, op, Way::Theta).map(drop))
}

fn case(op: &Op, way: Way, runs: &[Ran], temperature: &'static str) -> Result<Case, Failed> {
    let Some(last) = runs.last() else { return Err("nothing was run".into()) };
    if let Some(other) = runs.iter().find(|run| run.result != last.result) {
        let (a, b) = (other.result, last.result);
        return Err(format!("{} gives {a} and then {b}, as {}", op.name, way.name()).into());
    }
    let mut times: Vec<f64> = runs.iter().map(|run| run.ms).collect();
    let case = Case::new(op.name, runs.len() as u64, "ms", &mut times).part_of("oo7").gives(last.result);
    let case = case.by(way.name()).crossed(last.crossings, last.calls).sent(last.commands);
    Ok(case.at(temperature))
}

fn hot(
    samples: u32,
    serving: &mut Serving,
    session: &Session,
    ways: &Ways<'_>,
    op: &Op,
    way: Way,
) -> Result<Case, Failed> {
    let mut runs = Vec::new();
    let mut fetched = Counted::default();
    for sample in 0..=samples {
        run_aside(session, ways, op.before)?;
        let before = serving.cached()?;
        let run = run(session, ways, op.name, way)?;
        // The first run fetches, sends the procedures and compiles.
        if sample > 0 {
            runs.push(run);
            fetched = difference(before, serving.cached()?);
        }
        run_aside(session, ways, op.undo)?;
    }
    Ok(case(op, way, &runs, "hot")?.fetched(fetched.calls, fetched.asked + fetched.used, fetched.ahead))
}

fn cold(
    args: &Args,
    store: &str,
    folder: &Path,
    serving: &mut Option<Serving>,
    op: &Op,
    way: Way,
) -> Result<Case, Failed> {
    let keep = serving.is_some();
    let mut runs = Vec::new();
    let mut fetched = Counted::default();
    for _ in 0..args.samples.min(COLD_MAX) {
        if op.before.is_some() {
            let serving = current(args, store, folder, serving)?;
            let session = serving.session()?;
            with_ways(args, &session, |ways| run_aside(&session, ways, op.before))?;
            session.close()?;
        }
        if !keep {
            *serving = None;
        }
        let now = current(args, store, folder, serving)?;
        if !keep {
            warm(now, op, way)?;
        }
        let session = now.session()?;
        with_ways(args, &session, |ways| {
            session.flush()?;
            let before = now.cached()?;
            runs.push(run(&session, ways, op.name, way)?);
            fetched = difference(before, now.cached()?);
            run_aside(&session, ways, op.undo)
        })?;
        session.close()?;
        if !keep {
            *serving = None;
        }
    }
    Ok(case(op, way, &runs, "cold")?.fetched(fetched.calls, fetched.asked + fetched.used, fetched.ahead))
}

/// Returns the server that runs, or starts a new one.
fn current<'s>(
    args: &Args,
    store: &str,
    folder: &Path,
    serving: &'s mut Option<Serving>,
) -> Result<&'s mut Serving, Failed> {
    match serving {
        Some(serving) => Ok(serving),
        none => Ok(none.insert(Serving::start(args, folder, store)?)),
    }
}

fn with_ways<T>(
    args: &Args,
    session: &Session,
    work: impl FnOnce(&Ways<'_>) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let db: stubs::Database = session.lookup(&name(args));
    let theta = stubs::new_oo7(session, &db);
    work(&Ways::new(session, &db, &theta))
}

/// Compiles the code of an operation.
fn warm(serving: &Serving, op: &Op, way: Way) -> Result<(), Failed> {
    let session = serving.session()?;
    let db = generate("test1", 1, &session, None)?;
    let theta = stubs::new_oo7(&session, &db);
    let ways = Ways::new(&session, &db, &theta);
    for (name, way) in [(op.before, Way::Theta), (Some(op.name), way), (op.undo, Way::Theta)] {
        if let Some(name) = name {
            ways.run(name, way)?;
        }
    }
    session.abort().claim()?;
    Ok(session.close()?)
}

fn difference(before: Counted, after: Counted) -> Counted {
    Counted {
        calls: after.calls - before.calls,
        asked: after.asked - before.asked,
        ahead: after.ahead - before.ahead,
        used: after.used - before.used,
        evicted: after.evicted - before.evicted,
        ..Counted::default()
    }
}

/// Measures hot T1 as a method in four places in turn:
///
/// - in an engine without concurrency control;
/// - over objects of a session alone, of which transactions note nothing;
/// - in a transaction of its own;
/// - in a transaction that goes on.
fn control(
    args: &Args,
    serving: &mut Serving,
    on: &Session,
    db: &stubs::Database,
) -> Result<(Vec<Case>, Target), Failed> {
    let alone = serving.session()?;
    let unstored = stubs::new_oo7(&alone, &generate(&args.size, args.seed, &alone, None)?);
    let kept = stubs::new_oo7(on, db);
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut results = Vec::new();
    for pair in 0..=args.samples.max(PAIRS_MIN) {
        let (result, ms) = serving.plain_t1(args)?;
        let mut took = [ms, 0.0, 0.0, 0.0];
        results.push(result);
        let mut one = |at: usize, call: &dyn Fn() -> Result<i64, Failed>| {
            let start = Instant::now();
            results.push(call()?);
            took[at] = start.elapsed().as_secs_f64() * 1e3;
            Ok::<(), Failed>(())
        };
        one(1, &|| Ok(unstored.t1().claim()?))?;
        one(2, &|| {
            let result = kept.t1();
            on.commit();
            Ok(result.claim()?)
        })?;
        kept.t1().claim()?;
        one(3, &|| Ok(kept.t1().claim()?))?;
        on.commit().claim()?;
        // The first of each warms up.
        if pair > 0 {
            times.iter_mut().zip(took).for_each(|(times, ms)| times.push(ms));
        }
    }
    results.dedup();
    let [result] = results[..] else {
        return Err("T1 gives other numbers over objects that are in no store".into());
    };
    let names = [
        "T1, without concurrency control",
        "T1, objects of a session alone",
        "T1, a transaction each",
        "T1, in a transaction that has read all",
    ];
    let medians: Vec<f64> = times.iter_mut().map(|times| summary(times).0).collect();
    let target = "T1 hot, with concurrency control against without";
    let target = Target::new(target, ratio(medians[2], medians[0]), CONTROL_MOST, "x");
    let cases = names.iter().zip(&mut times).map(|(name, times)| {
        Case::new(*name, times.len() as u64, "ms", times).part_of("oo7").by(Way::Theta.name()).gives(result)
    });
    let cases = cases.collect();
    alone.close()?;
    Ok((cases, target))
}
