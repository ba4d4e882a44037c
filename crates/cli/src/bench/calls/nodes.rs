//! The interpreter's nodes with and without specialisation (000 section 7.2, figure 7-3 and table
//! 7.2).
//!
//! [`measure`] runs the paper's loop: a batched WHILE of 100 rounds that counts in a cell, with 0
//! to 10 calls of a method in its body. The method takes one constant argument and does little.
//! Nodes stay nodes: structures never become machine code here, while methods are machine code, as
//! those of the paper were.
//!
//! Two engines in this process run the same loops in turn, one with the special nodes and one with
//! the general node for each call ([`bifrost_engine::Nodes`]). Their clients are linked to them, so
//! that no crossing is in the figures. A time is that of the whole loop from its recording to its
//! answer, as in the paper; its structure was checked and prepared by its first run.

use std::time::Instant;

use bifrost_engine::{Mode, Nodes, Run};
use bifrost_server::Config;
use bifrost_veneer::{Cell, Error, Session};
use indicatif::ProgressBar;

use super::super::bifrost_stubs::{INTERFACE, Probe, Records};
use super::super::common::Failed;
use super::super::fit::{Estimate, Fit};
use super::super::linked::{Domain, on_stack};
use super::super::report::{Case, cost, ratio, summary};
use super::load;
use super::measure::{Effort, ns};

/// The rounds of a loop.
const ROUNDS: i64 = 100;
/// The numbers of calls in the body are 0 to this.
const CALLS_MAX: usize = 10;
/// The user whose record is found first.
const USER: &str = "user1";

/// The calls of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Body {
    /// `fetch`, as in the paper: a constant receiver and one constant argument.
    Fetch,
    /// A method that does nothing, without arguments: the cost of the node and of the entry.
    Nothing,
}

impl Body {
    const ALL: [Body; 2] = [Body::Fetch, Body::Nothing];

    fn name(self) -> &'static str {
        match self {
            Body::Fetch => "fetch",
            Body::Nothing => "null call",
        }
    }
}

const KINDS: [(Nodes, &str); 2] = [(Nodes::General, "general nodes"), (Nodes::Special, "special nodes")];

/// A row of table 7.2: a body with general and special nodes.
pub struct Row {
    body: Body,
    /// The nanoseconds of a round without calls, and of each call.
    rounds: [Estimate; KINDS.len()],
    calls: [Estimate; KINDS.len()],
}

/// A client of one engine.
struct Client {
    session: Session,
    probe: Probe,
    records: Records,
    count: Cell<i64>,
}

impl Client {
    fn enter(domain: Domain) -> Result<Client, Failed> {
        let session = domain.session(&INTERFACE)?;
        let (probe, records) = (session.lookup("probe"), session.lookup("records"));
        let count = session.cell_with::<i64>(0);
        session.flush()?;
        Ok(Client { session, probe, records, count })
    }

    /// Runs the loop with so many calls in its body; returns its nanoseconds.
    fn run(&self, body: Body, calls: usize) -> Result<f64, Error> {
        let (s, count) = (&self.session, &self.count);
        count.put(0);
        s.flush()?;
        let start = Instant::now();
        s.while_(
            || count.get().lt(ROUNDS),
            || {
                for _ in 0..calls {
                    match body {
                        Body::Fetch => drop(self.records.fetch(USER)),
                        Body::Nothing => drop(self.probe.nothing()),
                    }
                }
                count.put(count.get() + 1);
            },
        );
        s.flush()?;
        Ok(ns(start))
    }
}

/// The samples of a kind of nodes, by body and number of calls.
type Samples = [Vec<Vec<f64>>; Body::ALL.len()];

fn sample(domains: [Domain; 2], effort: Effort, bar: &ProgressBar) -> Result<[Samples; 2], Failed> {
    let [general, special] = domains;
    let clients = [Client::enter(general)?, Client::enter(special)?];
    let mut samples: [Samples; 2] = Default::default();
    for samples in samples.iter_mut().flatten() {
        samples.resize(CALLS_MAX + 1, Vec::new());
    }
    for round in 0..=effort.long_samples {
        for (b, body) in Body::ALL.into_iter().enumerate() {
            for calls in 0..=CALLS_MAX {
                for (client, samples) in clients.iter().zip(&mut samples) {
                    let time = client.run(body, calls)?;
                    // The first run compiles the method, and checks and prepares the loop.
                    if round > 0 {
                        samples[b][calls].push(time);
                    }
                }
            }
        }
        bar.inc(u64::from(round > 0));
    }
    for client in clients {
        client.session.close()?;
    }
    Ok(samples)
}

/// Measures both kinds.
///
/// # Errors
/// The program does not load, or a session ends.
pub fn measure(effort: Effort, bar: &ProgressBar) -> Result<(Vec<Row>, Vec<Case>), Failed> {
    let engine = |nodes| load(Run { hot_steps: u64::MAX, nodes, ..Run::kept(Mode::Compiled) });
    let engines = [engine(KINDS[0].0)?, engine(KINDS[1].0)?];
    let config = Config::default();
    let sampled = on_stack(&engines[0], &config, || {
        let [general, special] = &engines;
        sample([Domain::open(general, &config)?, Domain::open(special, &config)?], effort, bar)
    })?;
    let mut cases = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut fits: Vec<[Fit; Body::ALL.len()]> = Vec::new();
    for ((_, kind), samples) in KINDS.into_iter().zip(sampled) {
        let mut of_kind = Vec::new();
        for (body, mut times) in Body::ALL.into_iter().zip(samples) {
            for (calls, samples) in times.iter_mut().enumerate() {
                let name = format!("{kind}: {calls} times {}", body.name());
                let mut each: Vec<f64> = samples.iter().map(|time| time / 1000.0).collect();
                cases.push(Case::new(name, ROUNDS as u64, "us", &mut each));
            }
            let rounds = ROUNDS as f64;
            let points: Vec<(f64, f64)> =
                times.iter_mut().enumerate().map(|(n, t)| (n as f64, summary(t).0 / rounds)).collect();
            let fit = Fit::of(&points);
            for (what, estimate) in [("a round with no", fit.intercept), ("each", fit.slope)] {
                cases.push(Case::fitted(format!("{kind}: {what} {}", body.name()), "ns", estimate));
            }
            of_kind.push(fit);
        }
        fits.push(of_kind.try_into().map_err(|_| "a fit for each body")?);
    }
    for (b, body) in Body::ALL.into_iter().enumerate() {
        let of = |figure: fn(&Fit) -> Estimate| [figure(&fits[0][b]), figure(&fits[1][b])];
        rows.push(Row { body, rounds: of(|fit| fit.intercept), calls: of(|fit| fit.slope) });
    }
    Ok((rows, cases))
}

/// Prints table 7.2 of 000, with the paper's own figures.
pub fn print_table(rows: &[Row]) {
    let bold = anstyle::Style::new().bold();
    let title =
        "Nodes of the interpreter (000 figure 7-3, table 7.2): general and special ones, and the ratio";
    anstream::println!("\n{bold}{title}{bold:#}");
    let text = |e: Estimate| match cost(e.value).is_nan() {
        true => "not measured".to_owned(),
        false => format!("{:.1} +- {:.1} ns", e.value, e.error),
    };
    for row in rows {
        let name = row.body.name();
        for (what, [general, special]) in
            [(format!("each {name}"), row.calls), (format!("a round with no {name}"), row.rounds)]
        {
            let times = ratio(general.value, special.value);
            let times = if times.is_nan() { "-".to_owned() } else { format!("{times:.2} x") };
            anstream::println!("  {what:<26} {:>18} {:>18} {times:>9}", text(general), text(special));
        }
    }
    anstream::println!("  {:<26} {:>18} {:>18} {:>9}", "each fetch (the paper)", "45 us", "17 us", "2.65 x");
}
