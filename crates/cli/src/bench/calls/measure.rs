//! The cost of calls: alone, batched, in loops.
//!
//! The client is pinned to one core, the server (a process of its own) to another. Every comparison
//! is made of samples taken in turn within the run, so that a change of the machine's speed hits
//! both sides; figures are medians.
//!
//! Read [`measure`] first. It measures these in turn, and returns them as [`Measured`]:
//!
//! - raw exchanges, single calls, and virtual calls in one process;
//! - batches of growing size, and the model fitted to them ([`super::batches`]);
//! - loops of null calls, and the setting up of a WHILE;
//! - the five [`Way`]s to batch a loop.

use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use bifrost_veneer::{Error, Session};
use indicatif::ProgressBar;

use super::super::bifrost_stubs::{Probe, Records};
use super::super::common::Failed;
use super::super::raw::Lines;
use super::super::report::{Case, Line, Target, cost, ratio, summary};
use super::batches::{self, batch};
use super::{many, nodes};

/// The number of samples of each case.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Samples of short cases.
    pub samples: usize,
    /// Samples of long ones.
    pub long_samples: usize,
}

/// Everything that was measured.
pub struct Measured {
    /// The cases that are shown, under a title each.
    pub sections: Vec<(&'static str, Vec<Case>)>,
    /// The comparisons with the project's targets.
    pub targets: Vec<Target>,
    /// The five ways, for the chart.
    pub lines: Vec<Line>,
    /// The fits of all streams.
    pub fits: Vec<batches::Row>,
    /// The comparison of nodes.
    pub nodes: Vec<nodes::Row>,
}

/// The user whose record is found last.
const USER: &str = "user50";

/// Returns the nanoseconds since an instant.
pub fn ns(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

/// The raw exchange. Its other side spins only during a burst, since the server has the same core.
pub struct Raw<'a> {
    /// The memory.
    pub lines: &'a Lines,
    /// Has the other side begin a burst.
    pub go: &'a mut dyn FnMut() -> std::io::Result<()>,
}

impl Raw<'_> {
    /// Measures round trips, in groups: reading the clock costs too.
    fn burst(&mut self, samples: usize) -> std::io::Result<Vec<f64>> {
        const GROUP: u64 = 16;
        self.lines.reset();
        (self.go)()?;
        let mut number = 0;
        let mut exchange = || {
            number += 1;
            self.lines.forth.put(number, [number, 0]);
            black_box(self.lines.back.take(number));
        };
        // The first waits until the other side is there.
        exchange();
        let times = (0..samples)
            .map(|_| {
                let start = Instant::now();
                (0..GROUP).for_each(|_| exchange());
                ns(start) / GROUP as f64
            })
            .collect();
        self.lines.end();
        Ok(times)
    }
}

/// Measures a call inside one process: a virtual one, which no compiler can see through.
fn virtual_calls(samples: usize) -> Vec<f64> {
    trait Nothing {
        fn nothing(&self);
    }
    struct One;
    struct Two;
    impl Nothing for One {
        fn nothing(&self) {
            black_box(());
        }
    }
    impl Nothing for Two {
        fn nothing(&self) {
            black_box(());
        }
    }
    const GROUP: usize = 1000;
    let object: Box<dyn Nothing> = if black_box(true) { Box::new(One) } else { Box::new(Two) };
    (0..samples)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..GROUP {
                black_box(&object).nothing();
            }
            ns(start) / GROUP as f64
        })
        .collect()
}

/// The five ways to batch a loop (000 section 7.1), `rounds` times add and three fetches each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A loop in the client that needs a value in each round.
    Client,
    /// A loop in the client that needs none.
    Perfect,
    /// A batched WHILE that counts in a cell.
    While,
    /// A batched FOREACH over `1.to(n)`.
    Foreach,
    /// The same loop as a Theta method.
    Theta,
}

impl Way {
    /// All of them, from the slowest.
    pub const ALL: [Way; 5] = [Way::Client, Way::Perfect, Way::While, Way::Foreach, Way::Theta];

    /// Returns its name among the figures.
    pub fn case(self) -> &'static str {
        match self {
            Way::Client => "client",
            Way::Perfect => "perfect",
            Way::While => "while",
            Way::Foreach => "for",
            Way::Theta => "theta",
        }
    }

    /// Returns its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Way::Client => "client loop",
            Way::Perfect => "perfect batching",
            Way::While => "batched WHILE",
            Way::Foreach => "batched FOREACH",
            Way::Theta => "Theta method",
        }
    }

    /// Runs the loop.
    pub fn run(self, s: &Session, records: &Records, rounds: i64) -> Result<Ran, Error> {
        let one = s.value(1_i64);
        s.flush()?;
        let (before, start) = (s.counters(), Instant::now());
        match self {
            Way::Client => {
                for _ in 0..rounds {
                    let sum = &one + 0;
                    fetch_three(records);
                    sum.claim()?;
                }
            }
            Way::Perfect => {
                for _ in 0..rounds {
                    black_box(&one + 0);
                    fetch_three(records);
                }
            }
            Way::While => {
                let count = s.cell_with::<i64>(0);
                s.while_(
                    || count.get().lt(rounds),
                    || {
                        black_box(&one + 0);
                        fetch_three(records);
                        count.put(count.get() + 1);
                    },
                );
            }
            Way::Foreach => s.foreach(one.to(rounds), |_| {
                black_box(&one + 0);
                fetch_three(records);
            }),
            Way::Theta => drop(records.loop_fetch(USER, rounds)),
        }
        s.flush()?;
        let (ns, after) = (ns(start), s.counters());
        let (crossings, calls) = (after.crossings - before.crossings, after.executed - before.executed);
        Ok(Ran { ns, crossings, calls })
    }
}

/// One run of a way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    /// The nanoseconds.
    pub ns: f64,
    /// Pairs of crossings.
    pub crossings: u64,
    /// Calls that the session ran; those of loops count each time (000 section 5.1).
    pub calls: u64,
}

fn fetch_three(records: &Records) {
    for _ in 0..3 {
        black_box(records.fetch(USER));
    }
}

/// So many null calls; `shape` chooses which, of four methods each.
fn null_calls(probe: &Probe, number: u64, shape: u64) {
    for i in 0..number {
        match shape >> (2 * i) & 3 {
            0 => drop(probe.a()),
            1 => drop(probe.b()),
            2 => drop(probe.c()),
            _ => drop(probe.d()),
        }
    }
}

/// The records of `bench.theta` as a program without server has them.
struct Plain {
    all: Vec<Rc<PlainRecord>>,
}

struct PlainRecord {
    user: Box<str>,
}

impl Plain {
    fn new() -> Plain {
        let record = |i| Rc::new(PlainRecord { user: format!("user{i}").into() });
        Plain { all: (1..=50).map(record).collect() }
    }

    /// Finds the record of a user as `fetch` does. Not inlined: in Theta it is a method.
    #[inline(never)]
    fn fetch(&self, user: &str) -> Option<&PlainRecord> {
        self.all.iter().find(|record| &*record.user == user).map(|record| &**record)
    }

    /// Runs the loop of the five ways; returns the nanoseconds of a round.
    fn run(&self, rounds: u64) -> f64 {
        let start = Instant::now();
        for _ in 0..rounds {
            black_box(1 + black_box(0));
            for _ in 0..3 {
                black_box(self.fetch(black_box(USER)));
            }
        }
        ns(start) / rounds as f64
    }
}

/// A WHILE like that of the five ways that ends at once. `shape` chooses one of 4^6 bodies.
fn while_once(s: &Session, probe: &Probe, count: &bifrost_veneer::Cell<i64>, shape: u64) {
    s.while_(
        || count.get().lt(0),
        || {
            null_calls(probe, 6, shape);
            count.put(1);
        },
    );
}

/// Measures loops of null calls: compiled, and in their first run.
fn loops(
    s: &Session,
    probe: &Probe,
    effort: Effort,
    bar: &ProgressBar,
) -> Result<(Vec<Case>, Vec<Target>), Failed> {
    /// Rounds of a loop.
    const ROUNDS: i64 = 100_000;
    /// Different bodies of two calls; each sample of a first run needs one of its own.
    const SHAPES: usize = 16;
    let (mut each, mut method, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let (mut whiles, mut first, mut first_while) = (Vec::new(), Vec::new(), Vec::new());
    let per_round = |start: Instant| ns(start) / ROUNDS as f64;
    let count = s.cell_with::<i64>(0);
    let count_up = |body: &dyn Fn()| {
        count.put(0);
        s.while_(
            || count.get().lt(ROUNDS),
            || {
                body();
                count.put(count.get() + 1);
            },
        );
        s.flush()
    };
    s.flush()?;
    for sample in 0..effort.long_samples {
        let start = Instant::now();
        s.foreach(s.value(1_i64).to(ROUNDS), |_| drop(probe.nothing()));
        s.flush()?;
        each.push(per_round(start));
        let start = Instant::now();
        probe.nothing_loop(ROUNDS).claim()?;
        method.push(per_round(start));
        // Nobody asks for the table, so that its answer costs nothing.
        let start = Instant::now();
        let table = s.rows::<(i64, i64)>();
        s.foreach(s.value(1_i64).to(ROUNDS), |i| {
            drop(probe.nothing());
            table.push((&i, 7));
        });
        drop(table);
        s.flush()?;
        rows.push(per_round(start));
        let start = Instant::now();
        count_up(&|| drop(probe.nothing()))?;
        whiles.push(per_round(start));
        if sample < SHAPES {
            let start = Instant::now();
            s.foreach(s.value(1_i64).to(ROUNDS), |_| null_calls(probe, 2, sample as u64));
            s.flush()?;
            first.push(per_round(start));
            let start = Instant::now();
            count_up(&|| null_calls(probe, 2, sample as u64))?;
            first_while.push(per_round(start));
        }
        bar.inc(1);
    }
    let case = |name: &str, samples: &mut Vec<f64>| Case::new(name, ROUNDS as u64, "ns", samples);
    let each = case("FOREACH with a null call, each round", &mut each);
    let method = case("Theta loop with a null call, each round", &mut method);
    let rows = case("FOREACH with a null call and a row of two, each round", &mut rows);
    let whiles = case("WHILE with a null call, each round", &mut whiles);
    let first = case("FOREACH with two null calls, first run, each round", &mut first);
    let first_while = case("WHILE with two null calls, first run, each round", &mut first_while);
    let targets = vec![
        Target::new("a null call in a FOREACH", each.value, 15.0, "ns"),
        Target::new("a row of two columns, beyond its calls", rows.value - each.value, 25.0, "ns"),
        Target::new("a round of a WHILE that counts in a cell", whiles.value, 5.0, "ns"),
        Target::new("a round of a FOREACH never seen before", first.value, 40.0, "ns"),
        Target::new("a round of a WHILE never seen before", first_while.value, 40.0, "ns"),
    ];
    Ok((vec![each, method, rows, whiles, first, first_while], targets))
}

/// Runs all cases.
pub fn measure(
    s: &Session,
    raw_lines: &mut Raw<'_>,
    effort: Effort,
    bar: &ProgressBar,
) -> Result<Measured, Failed> {
    let probe: Probe = s.lookup("probe");
    let records: Records = s.lookup("records");
    s.flush()?;
    let mut sections = Vec::new();
    let mut targets = Vec::new();

    // Everything is compiled and every table has grown before anything counts.
    bar.set_message("warming up");
    for _ in 0..50 {
        batch(s, &probe, 1000)?;
        probe.one().claim()?;
    }
    raw_lines.burst(1000)?;

    bar.set_message("pairs of crossings");
    let (mut raw, mut trips) = (Vec::new(), Vec::new());
    for _ in 0..effort.samples / 10 {
        raw.extend(raw_lines.burst(10)?);
        // Both sides are awake again before anything counts.
        for _ in 0..20 {
            probe.one().claim()?;
        }
        for _ in 0..10 {
            let start = Instant::now();
            for _ in 0..16 {
                probe.one().claim()?;
            }
            trips.push(ns(start) / 16.0);
        }
        bar.inc(1);
    }
    let raw = Case::new("round trip of 16 bytes", 1, "ns", &mut raw).of("raw cache lines");
    let trip = Case::new("one call, claimed (B = 1)", 1, "ns", &mut trips).crossed(1, 1);
    let mut inside = virtual_calls(effort.samples);
    let inside = Case::new("virtual call in one process", 1000, "ns", &mut inside).of("Rust dyn");

    bar.set_message("batches");
    let mut batches = batches::measure(s, effort, bar, "shm")?;
    let t_c = batches.t_c();
    let record = Case::new("recording a null call", 1024, "ns", &mut batches.recording);
    // t = t_c + t_d / B (001 section 6.1): a batch of one call costs both.
    let crossing = ratio(trip.value - t_c, raw.value);
    targets.push(Target::new("t_d, a pair of crossings, against the raw ping-pong", crossing, 2.0, "x"));
    targets.push(Target::new("t_c: a batched null method, record to result", t_c, 40.0, "ns"));
    targets.push(Target::new("recording a call", record.value, 15.0, "ns"));
    sections.push(("Crossing", vec![raw, trip, inside]));
    batches.cases.push(record);
    sections.push(("Batches over shared memory (001 figures 4 to 6)", batches.cases));
    let fits = batches.rows;

    bar.set_message("loops of null calls");
    let (cases, of_loops) = loops(s, &probe, effort, bar)?;
    targets.extend(of_loops);
    sections.push(("Loops of null calls", cases));

    bar.set_message("values with items");
    let (ten, calls) = ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 1000);
    let mut values = Vec::new();
    for _ in 0..effort.samples / 10 {
        let start = Instant::now();
        let came: Vec<_> = (0..calls).map(|_| probe.ints(ten).get()).collect();
        s.flush()?;
        for contents in &came {
            black_box(contents.claim()?);
        }
        values.push(ns(start) / calls as f64);
    }
    let name = "call with ten ints, and their contents back";
    let values = Case::new(name, calls, "ns", &mut values).crossed(1, 2 * calls);
    let beyond = values.value - t_c;
    targets.push(Target::new("ten ints as argument and result, beyond a null call", beyond, 60.0, "ns"));
    sections.push(("Values with items", vec![values]));

    bar.set_message("setting up a WHILE");
    let (mut fresh, mut seen, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    let count = s.cell_with::<i64>(0);
    s.flush()?;
    // Each sample another body, which no session has sent before: the digits of a number.
    for shape in 0..(effort.samples as u64).min(4000) {
        let start = Instant::now();
        while_once(s, &probe, &count, shape);
        s.flush()?;
        fresh.push(ns(start) / 1000.0);
        let start = Instant::now();
        while_once(s, &probe, &count, shape);
        s.flush()?;
        seen.push(ns(start) / 1000.0);
        let start = Instant::now();
        drop(probe.nothing());
        s.flush()?;
        empty.push(ns(start) / 1000.0);
    }
    bar.inc(1);
    let fresh = Case::new("WHILE of 9 calls, never seen before", 9, "us", &mut fresh).crossed(1, 2);
    let seen = Case::new("WHILE of 9 calls, seen before", 9, "us", &mut seen).crossed(1, 2);
    let empty = Case::new("one null call", 1, "us", &mut empty).crossed(1, 1);
    targets.push(Target::new("set-up of a WHILE never seen before", fresh.value - empty.value, 30.0, "us"));
    targets.push(Target::new("set-up of a WHILE seen before", seen.value - empty.value, 5.0, "us"));
    sections.push(("Setting up a control structure", vec![fresh, seen, empty]));

    bar.set_message("many objects");
    let (cases, of_many) = many::measure(s, effort, bar)?;
    targets.extend(of_many);
    sections.push(("Many objects", cases));

    bar.set_message("five ways to batch a loop");
    let mut five = Vec::new();
    let mut lines = Vec::new();
    let rounds: [i64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    let mut samples = vec![vec![Vec::new(); rounds.len()]; Way::ALL.len()];
    let mut counts = Way::ALL.map(|_| (0, 0));
    let (records_here, mut plain) = (Plain::new(), Vec::new());
    for _ in 0..effort.long_samples {
        plain.push(records_here.run(1024) / 1000.0);
        // The server rested meanwhile. One round that is not counted wakes it.
        Way::ALL[0].run(s, &records, 1)?;
        for (r, n) in rounds.iter().enumerate() {
            for (w, way) in Way::ALL.iter().enumerate() {
                let ran = way.run(s, &records, *n)?;
                samples[w][r].push(ran.ns / 1000.0);
                // Those of the largest number of rounds remain.
                counts[w] = (ran.crossings, ran.calls);
            }
        }
        bar.inc(1);
    }
    let mut slopes = Vec::new();
    for (w, way) in Way::ALL.iter().enumerate() {
        let medians: Vec<(f64, f64)> =
            rounds.iter().zip(&mut samples[w]).map(|(n, s)| (*n as f64, summary(s).0)).collect();
        let last = rounds.len() - 1;
        let (crossings, calls) = counts[w];
        let name = format!("{}, {} rounds", way.name(), rounds[last]);
        five.push(
            Case::new(name, rounds[last] as u64, "us", &mut samples[w][last]).crossed(crossings, calls),
        );
        let per_round = (medians[last].1 - medians[last - 2].1) / (medians[last].0 - medians[last - 2].0);
        slopes.push(per_round);
        let start_up = cost(medians[0].1 - per_round);
        five.push(Case::new(format!("{}, start-up", way.name()), 1, "us", &mut [start_up]));
        five.push(Case::new(format!("{}, each round", way.name()), 1, "us", &mut [cost(per_round)]));
        lines.push(Line { name: way.name(), points: medians });
    }
    let plain = Case::new("the same loop, each round", 1024, "us", &mut plain).of("Rust");
    let theta = slopes[4];
    targets.push(Target::new(
        "a round of the Theta method against Rust",
        ratio(theta, plain.value),
        1.3,
        "x",
    ));
    five.push(plain);
    for (name, slope) in [("FOREACH", slopes[3]), ("WHILE", slopes[2])] {
        let target = format!("a round of the {name} against the Theta method");
        targets.push(Target::new(target, ratio(slope, theta), 1.1, "x"));
    }
    sections.push(("Five ways to batch a loop (three fetches and an addition each round)", five));
    Ok(Measured { sections, targets, lines, fits, nodes: Vec::new() })
}
