//! `bifrost demo`: a tour in a few seconds, on a server of its own.
//!
//! Shows the examples of Zondervan 1995: the element of a list (3.1), the swap of coordinates
//! (4.1), the five ways to batch a loop (7.1). Shows the model of Bogle and Liskov 1994 (6.1),
//! fitted and compared with its prediction. `bifrost bench calls` measures with care; here one look
//! is enough.

mod chart;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anstyle::Style;
use bifrost_veneer::{Error, Session};

use crate::bench::bifrost_stubs::{self as stubs, IntList, Point, Probe, Records};
use crate::bench::calls::THETA;
use crate::bench::calls::measure::{Ran, Way};
use crate::bench::fit::Fit;
use crate::bench::report::{Case, JsonLines, Line, cost, summary, write_chart};
use crate::failure::{Exit, Failure, Outcome};
use crate::process::ServerProcess;

/// Measurements of each figure, of which the median is shown.
const TIMES: usize = 15;
/// The iterations of the loops, and the batching factors.
const STEPS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// The element of the list that is fetched.
const NTH: u32 = 20;

/// Show the use of batches in a few seconds
///
/// Starts a server with a few small objects in a process of its own, connects to it through shared
/// memory, and measures call by call and in batches: the element of a list, the swap of
/// coordinates, and one loop in five ways. Leaves nothing behind.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Draw the five ways into a file instead of the terminal
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    let mut json = JsonLines::create(args.json.as_deref())?;
    let folder = tempfile::Builder::new().prefix("bifrost-demo-").tempdir()?;
    let listen = format!("shm://{}", folder.path().join("shm").display());
    let server = ServerProcess::start(folder.path(), THETA, &["--listen", &listen])?;
    let tour = || -> Result<Vec<Case>, Box<dyn std::error::Error>> {
        let session = stubs::connect(&server.address().to_string())?;
        heading("1. A server with a few objects runs in another process.");
        say(&format!("   Process {}, connected through shared memory: {}", server.id(), server.address()));
        element_of_a_list(&session)?;
        swap_of_coordinates(&session)?;
        failures(&session)?;
        let mut cases = five_ways(&session, args.svg.as_deref())?;
        cases.extend(model(&session)?);
        session.close()?;
        Ok(cases)
    };
    let cases = tour().map_err(|error| Failure::new(Exit::Failed, error))?;
    json.write(&cases)?;
    heading("7. And now?");
    say("   Serve a program, and call its objects:");
    say("     bifrost serve examples/database/database.theta");
    say("     bifrost shell");
    say("   `bifrost veneer --help` makes stubs: the batches above are ordinary calls of them.");
    if cfg!(debug_assertions) {
        say("   (This is a debug build; a release build is several times faster.)");
    }
    Ok(())
}

fn heading(text: &str) {
    let bold = Style::new().bold();
    anstream::println!("\n{bold}{text}{bold:#}");
}

fn say(text: &str) {
    anstream::println!("{text}");
}

/// Does some work; returns its pairs of crossings, and the median of its microseconds.
fn timed<T>(s: &Session, mut work: impl FnMut() -> Result<T, Error>) -> Result<(u64, f64), Error> {
    s.flush()?;
    let (mut samples, before) = (Vec::new(), s.counters().crossings);
    for _ in 0..TIMES {
        let start = Instant::now();
        work()?;
        samples.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(((s.counters().crossings - before) / TIMES as u64, summary(&mut samples).0))
}

/// Prints one row of a comparison of two ways.
fn compared(name: &str, (crossings, micros): (u64, f64)) {
    let plural = if crossings == 1 { "crossing " } else { "crossings" };
    say(&format!("   {name:<44} {crossings:>3} {plural} {micros:>9.1} us"));
}

fn element_of_a_list(s: &Session) -> Result<(), Error> {
    heading(&format!("2. Results are used before they exist: element {NTH} of a list."));
    say("   let mut l = list;  for _ in 1..n { l = l.next(); }  l.first().claim()");
    let list: IntList = s.lookup("list");
    let descend = |each: bool| {
        let mut l = list.clone();
        for _ in 1..NTH {
            l = l.next();
            if each {
                s.resolve(&l)?;
            }
        }
        l.first().claim()
    };
    let found = descend(false)?;
    compared("each call waits for its result", timed(s, || descend(true))?);
    compared("one batch", timed(s, || descend(false))?);
    say(&format!("   The element is {found}."));
    Ok(())
}

fn swap_of_coordinates(s: &Session) -> Result<(), Error> {
    heading("3. Promises avoid waits: the coordinates of a point change places.");
    say("   let (x, y) = (p.x(), p.y());  p.set_x(y);  p.set_y(x)");
    let p: Point = s.lookup("point");
    let values = || {
        let (x, y) = (p.x().claim()?, p.y().claim()?);
        p.set_x(y);
        p.set_y(x);
        s.flush()
    };
    let promises = || {
        let (x, y) = (p.x(), p.y());
        p.set_x(y);
        p.set_y(x);
        s.flush()
    };
    compared("x and y are claimed", timed(s, values)?);
    compared("x and y stay promises", timed(s, promises)?);
    // Fifteen swaps and fifteen: the point is where it was.
    let (x, y) = (p.x(), p.y());
    say(&format!("   The point is at ({}, {}).", x.claim()?, y.claim()?));
    Ok(())
}

fn failures(s: &Session) -> Result<(), Error> {
    heading("4. A failure is reported where a value is claimed, with the call that caused it.");
    say("   records.fetch(\"zoe\").user().claim()");
    let records: Records = s.lookup("records");
    if let Err(error) = records.fetch("zoe").user().claim() {
        if let Error::Unhandled { call, .. } = &error {
            say(&format!("   {} was not run, because its receiver failed:", call.name));
        }
        if let Error::Signal { name, call, .. } = error.root() {
            say(&format!("   {} signalled {name}", call.name));
        }
    }
    Ok(())
}

/// Returns start-up and cost of an iteration, from the times of loops by their iterations.
fn start_up(points: &[(f64, f64)]) -> (f64, f64) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return (f64::NAN, f64::NAN) };
    let each = (last.1 - first.1) / (last.0 - first.0);
    (first.1 - each, each)
}

/// Returns the text of a time, which may be lost in the noise.
fn figure(micros: f64) -> String {
    if micros > 0.0 { format!("{micros:.2} us") } else { "-".to_owned() }
}

fn five_ways(s: &Session, svg: Option<&Path>) -> Result<Vec<Case>, Box<dyn std::error::Error>> {
    heading("5. Loops cross too. The same loop, written in five ways:");
    say("   1.add(0) and three times records.fetch(\"user50\"), from 1 to 128 iterations\n");
    let records: Records = s.lookup("records");
    // Everything is compiled before anything counts.
    for way in Way::ALL {
        way.run(s, &records, 2000)?;
    }
    let mut samples = vec![vec![Vec::new(); STEPS.len()]; Way::ALL.len()];
    let mut counts = [[Ran::default(); STEPS.len()]; Way::ALL.len()];
    for _ in 0..TIMES {
        for (step, n) in STEPS.iter().enumerate() {
            for ((way, samples), counts) in Way::ALL.iter().zip(&mut samples).zip(&mut counts) {
                counts[step] = way.run(s, &records, i64::from(*n))?;
                samples[step].push(counts[step].ns / 1000.0);
            }
        }
    }
    let (mut cases, mut lines) = (Vec::new(), Vec::new());
    say("                       crossings     calls  calls/crossing     start-up    iteration");
    for ((way, samples), counts) in Way::ALL.iter().zip(&mut samples).zip(&counts) {
        let mut points = Vec::new();
        for ((n, samples), ran) in STEPS.iter().zip(samples).zip(counts) {
            let (crossings, calls) = (ran.crossings, ran.calls);
            let case = Case::new(way.case(), u64::from(*n), "us", samples).part_of("demo");
            points.push((f64::from(*n), case.value));
            cases.push(case.crossed(crossings, calls));
        }
        let (start, each) = start_up(&points);
        for (name, value) in [("start-up", start), ("iteration", each)] {
            cases.push(Case::new(way.case(), 1, "us", &mut [cost(value)]).part_of("demo").by(name));
        }
        let Ran { crossings, calls, .. } = counts[STEPS.len() - 1];
        say(&format!(
            "   {:<18} {crossings:>11} {calls:>9} {:>15.0} {:>12} {:>12}",
            way.name(),
            calls as f64 / crossings as f64,
            figure(start),
            figure(each),
        ));
        lines.push(Line { name: way.name(), points });
    }
    say(&format!("\n   Crossings and calls are those of {} iterations.", STEPS[STEPS.len() - 1]));
    say("   client loop       waits for the sum in each iteration, so each iteration crosses.");
    say("   perfect batching  waits for nothing: the client still sends every call.");
    say("   batched WHILE     sends the loop itself, which is checked once and runs at the server.");
    say("   batched FOREACH   does so over 1.to(n), without a cell to count in.");
    say("   Theta method      was at the server before: one call, for a loop that the program contains.\n");
    match svg {
        Some(path) => {
            write_chart(path, "Five ways to batch a loop", &lines)?;
            say(&format!("   The chart is in {}.", path.display()));
        }
        None => chart::draw(&lines).iter().for_each(|line| say(&format!("   {line}"))),
    }
    Ok(cases)
}

fn model(s: &Session) -> Result<Vec<Case>, Error> {
    heading("6. The model: a call costs t = t_c + t_d / B in a batch of B.");
    let probe: Probe = s.lookup("probe");
    s.flush()?;
    let last = STEPS[STEPS.len() - 1];
    let mut samples = vec![Vec::new(); STEPS.len()];
    for _ in 0..TIMES {
        for (batch, samples) in STEPS.iter().zip(&mut samples) {
            let start = Instant::now();
            for _ in 0..last / batch {
                (0..*batch).for_each(|_| drop(probe.nothing()));
                s.flush()?;
            }
            samples.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(last));
        }
    }
    let mut cases: Vec<Case> = STEPS
        .iter()
        .zip(&mut samples)
        .map(|(batch, samples)| {
            let case = Case::new("batch", u64::from(*batch), "us", samples).part_of("demo");
            case.crossed(u64::from(last / batch), u64::from(last))
        })
        .collect();
    let points: Vec<(f64, f64)> =
        cases.iter().map(|case| (case.n as f64, case.value * case.n as f64)).collect();
    let fit = Fit::of(&points);
    let (t_c, t_d) = (cost(fit.slope.value), cost(fit.intercept.value));
    say(&format!("   Fitted over empty calls: t_c = {}, t_d = {}.\n", figure(t_c), figure(t_d)));
    say("     B     measured    predicted");
    for case in &cases {
        let predicted = fit.predict(case.n as f64);
        let predicted = predicted.map_or("not measured".to_owned(), |us| format!("{us:>9.3} us"));
        say(&format!("   {:>3} {:>9.3} us {predicted}", case.n, case.value));
    }
    if fit.predict(1.0).is_some() && t_c > 0.0 {
        let ratio = t_d / t_c;
        say(&format!("\n   Batches of t_d / t_c = {ratio:.0} calls are within twice the best."));
    } else {
        say(
            "\n   The fit came out negative: the machine was busy, and the figures are not measured. Run the \
            demo again.",
        );
    }
    cases.extend(
        [("t_c", t_c), ("t_d", t_d)]
            .map(|(name, value)| Case::new(name, 1, "us", &mut [value]).part_of("demo").by("fitted")),
    );
    cases.extend(STEPS.map(|batch| {
        let predicted = fit.predict(f64::from(batch)).unwrap_or(f64::NAN);
        Case::new("batch", u64::from(batch), "us", &mut [predicted]).part_of("demo").by("predicted")
    }));
    Ok(cases)
}
