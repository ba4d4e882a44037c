//! OO7 over a store: each operation hot, in a session that has run it before, and cold, in a new session over a store whose
//! server has just been started; and what concurrency control costs, beside objects that are in no store.
//!
//! Each run is a transaction, and its commit belongs to its time. Code is warm in both: a new server first runs the operation on a
//! tiny database of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ChildStdout;
use std::time::{Duration, Instant};

use bifrost_server::Counted;
use bifrost_server::config::MEMORY;
use bifrost_veneer::Session;
use indicatif::{ProgressBar, ProgressStyle};

use super::super::report::{Case, Target, summary};
use super::super::{Failed, Helper};
use super::ops::{Op, Way, Ways};
use super::{Args, TARGET_SIZE, Temperature, generate, stubs};

/// Cold runs of each operation and way at most: each takes a server of its own.
const COLD_MAX: u32 = 3;
/// Pairs of runs with and without concurrency control at least.
const PAIRS_MIN: u32 = 21;
/// The target of what concurrency control costs, as a ratio.
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
        let mut out = BufReader::new(helper.0.stdout.take().ok_or("no output to read")?);
        let mut url = String::new();
        out.read_line(&mut url)?;
        match url.trim() {
            "" => Err("the server of the measurements did not start".into()),
            url => Ok(Serving { helper, out, url: url.to_owned() }),
        }
    }

    /// A new session.
    pub fn session(&self) -> Result<Session, Failed> {
        // A batch takes as long as it takes.
        let builder = Session::builder(&stubs::INTERFACE).timeout(Duration::from_secs(24 * 3600));
        Ok(builder.reply_bytes_max(1 << 30).connect(&self.url)?)
    }

    /// What the caches of its sessions have done so far.
    fn cached(&mut self) -> Result<Counted, Failed> {
        let input = self.helper.0.stdin.as_mut().ok_or("no input to write to")?;
        input.write_all(b"cached\n")?;
        input.flush()?;
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [calls, asked, ahead, used, evicted] = numbers[..] else {
            return Err("the server is gone".into());
        };
        Ok(Counted { calls, asked, ahead, used, evicted, ..Counted::default() })
    }

    /// Answers questions until there are no more.
    pub fn answer(server: &bifrost_server::Server) -> Result<(), Failed> {
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        while input.by_ref().take(1 << 10).read_line(&mut line)? > 0 {
            let Counted { calls, asked, ahead, used, evicted, .. } = server.cached();
            super::super::say(&format!("{calls} {asked} {ahead} {used} {evicted}"))?;
            line.clear();
        }
        Ok(())
    }
}

/// What has been measured.
pub struct Measured {
    pub cases: Vec<Case>,
    pub targets: Vec<Target>,
}

/// The name of a database in its store.
fn name(args: &Args) -> String {
    format!("oo7 {} {}", args.size, args.seed)
}

/// The database in the store, generated if it is not there.
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

/// Runs the operations.
pub fn measure(args: &Args, store: &str, chosen: &[&Op], folder: &Path) -> Result<Measured, Failed> {
    let bar = ProgressBar::new(2 * chosen.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}")?);
    let mut serving = Serving::start(args, folder, store)?;
    let session = serving.session()?;
    let db = database(args, &session)?;
    let mut cases = Vec::new();
    let mut targets = Vec::new();
    if args.measures(Temperature::Hot) {
        let theta = stubs::new_oo7(&session, &db);
        let ways = Ways::new(&session, &db, &theta);
        for op in chosen {
            bar.set_message(format!("{}, hot", op.name));
            for way in args.ways(op) {
                cases.push(hot(args.samples, &mut serving, &session, &ways, op, way)?);
            }
            bar.inc(1);
        }
        if chosen.iter().any(|op| op.name == "T1")
            && args.way.iter().all(|way| *way == Way::Theta || args.way.len() > 1)
        {
            bar.set_message("T1, with and without concurrency control");
            let (more, target) = control(args, &session, &db, folder)?;
            cases.extend(more);
            targets.extend((args.size == TARGET_SIZE).then_some(target));
        }
    }
    session.close()?;
    // In memory there is one server only.
    let mut last = (store == MEMORY).then_some(serving);
    for op in chosen.iter().filter(|_| args.measures(Temperature::Cold)) {
        bar.set_message(format!("{}, cold", op.name));
        for way in args.ways(op) {
            cases.push(cold(args, store, folder, &mut last, op, way)?);
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
        "" => Ok(Measured { cases, targets }),
        wrong => Err(format!("the database is not right afterwards: {wrong}").into()),
    }
}

/// What one run took.
struct Run {
    result: i64,
    ms: f64,
    crossings: u64,
    calls: u64,
}

/// Runs an operation and commits.
fn run(session: &Session, ways: &Ways<'_>, op: &str, way: Way) -> Result<Run, Failed> {
    session.flush()?;
    let (before, start) = (session.counters(), Instant::now());
    let result = ways.run(op, way)?;
    let after = session.counters();
    session.commit().claim()?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(Run { result, ms, crossings: after.crossings - before.crossings, calls: after.calls - before.calls })
}

/// The same, not measured; nothing for no operation.
fn run_aside(session: &Session, ways: &Ways<'_>, op: Option<&str>) -> Result<(), Failed> {
    op.map_or(Ok(()), |op| run(session, ways, op, Way::Theta).map(drop))
}

fn case(op: &Op, way: Way, runs: &[Run], temperature: &'static str) -> Result<Case, Failed> {
    let Some(last) = runs.last() else { return Err("nothing was run".into()) };
    if let Some(other) = runs.iter().find(|run| run.result != last.result) {
        let (a, b) = (other.result, last.result);
        return Err(format!("{} gives {a} and then {b}, as {}", op.name, way.name()).into());
    }
    let mut times: Vec<f64> = runs.iter().map(|run| run.ms).collect();
    let case = Case::new(op.name, runs.len() as u64, "ms", &mut times).part_of("oo7").gives(last.result);
    Ok(case.by(way.name()).crossed(last.crossings, last.calls).at(temperature))
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

/// The server that runs, or a new one.
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

/// Compiles what an operation runs.
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

/// Hot T1 as a method, in turn in a transaction of its own, in a transaction that goes on, and over objects of a session alone, which
/// nothing in the store leads to: of these transactions note nothing.
fn control(
    args: &Args,
    on: &Session,
    db: &stubs::Database,
    folder: &Path,
) -> Result<(Vec<Case>, Target), Failed> {
    let serving = Serving::start(args, folder, MEMORY)?;
    let off = serving.session()?;
    let plain = stubs::new_oo7(&off, &generate(&args.size, args.seed, &off, None)?);
    let kept = stubs::new_oo7(on, db);
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut results = Vec::new();
    for pair in 0..=args.samples.max(PAIRS_MIN) {
        let mut one = |at: usize, call: &dyn Fn() -> Result<i64, Failed>| {
            let start = Instant::now();
            results.push(call()?);
            // The first of each warms up.
            if pair > 0 {
                times[at].push(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok::<(), Failed>(())
        };
        one(0, &|| Ok(plain.t1().claim()?))?;
        one(1, &|| {
            let result = kept.t1();
            on.commit();
            Ok(result.claim()?)
        })?;
        kept.t1().claim()?;
        one(2, &|| Ok(kept.t1().claim()?))?;
        on.commit().claim()?;
    }
    results.dedup();
    let [result] = results[..] else {
        return Err("T1 gives other numbers over objects of a session alone".into());
    };
    let names = [
        "T1, objects of a session alone",
        "T1, a transaction each",
        "T1, in a transaction that has read all",
    ];
    let medians: Vec<f64> = times.iter_mut().map(|times| summary(times).0).collect();
    let target = "T1 hot, with concurrency control against without";
    let target = Target::new(target, medians[1] / medians[0], CONTROL_MOST, "x");
    let cases = names.iter().zip(&mut times).map(|(name, times)| {
        Case::new(*name, times.len() as u64, "ms", times).part_of("oo7").by(Way::Theta.name()).gives(result)
    });
    let cases = cases.collect();
    off.close()?;
    Ok((cases, target))
}
