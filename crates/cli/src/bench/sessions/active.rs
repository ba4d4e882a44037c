//! Active clients: closed loops of one operation, or of several that are sent at once.
//!
//! Read [`Point`] first: one measured combination. [`measure`] goes through all of them, and takes
//! a sample of each system in turn, in one order and then in the other.

use std::path::Path;
use std::time::Duration;

use bifrost_transport::Address;
use bifrost_wire::{Arg, MethodNumber, Value, encode, op};
use indicatif::ProgressBar;

use super::super::bare::{Bare, method, succeeded};
use super::super::common::Failed;
use super::super::load::{self, Client, Figures, Form};
use super::super::report::{Case, JsonLines, Target, ratio, summary};
use super::super::usage::{processor_ms_of, raise_descriptors};
use super::peers::{Peer, Server};
use super::{Args, ENTRIES, Operation, Over, serve};
use crate::process::ServerProcess;

/// The part of a sample's time that runs before it and is not measured.
const WARM: f64 = 0.25;
/// The clients at which the goal for waiting times holds, and that goal.
const MANY: u64 = 500;
const MANY_P99_MS_MOST: f64 = 5.0;
/// The names of this program's server, and of the other one.
const OURS: &str = "bifrost";
const OTHER: &str = "other bifrost";
/// The least rate against the other one: as fast, but for noise.
const OTHER_LEAST: f64 = 0.95;
/// Descriptors beside those of connections.
const OWN_DESCRIPTORS: u64 = 64;

/// A measured combination.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    pub over: Over,
    pub operation: Operation,
    pub clients: u64,
    /// Operations that are sent at once.
    pub pipeline: u64,
    /// Bytes of a string.
    pub bytes: usize,
    /// Seconds of a sample.
    pub seconds: f64,
}

/// The figures of one sample; times are microseconds, of all operations that were sent at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Operations in a second.
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    /// Processor time of the server for each operation, where it is known.
    pub processor_us: f64,
}

impl Sample {
    /// Makes a sample of the load generator's figures.
    pub fn of(figures: &Figures, point: &Point) -> Sample {
        Sample {
            rate: figures.rate * point.pipeline as f64,
            p50: figures.us(50.0),
            p99: figures.us(99.0),
            p999: figures.us(99.9),
            processor_us: f64::NAN,
        }
    }
}

/// Returns the times of a sample: before it is measured, and measured.
pub fn times(point: &Point) -> (Duration, Duration) {
    (Duration::from_secs_f64(point.seconds * WARM), Duration::from_secs_f64(point.seconds))
}

/// A server of ours.
struct Ours {
    /// Its name in tables and files.
    name: &'static str,
    server: ServerProcess,
    address: Address,
    entry: MethodNumber,
    value: MethodNumber,
    set_value: MethodNumber,
}

impl Ours {
    /// Starts this program's server, or that of another `bifrost`.
    fn start(over: Over, clients: u64, folder: &Path, other: Option<&Path>) -> Result<Ours, Failed> {
        let name = if other.is_some() { OTHER } else { OURS };
        let folder = folder.join(name.replace(' ', "-"));
        std::fs::create_dir_all(&folder)?;
        let server = serve(&folder, over, clients, other)?;
        let address = server.address().clone();
        let numbering = Bare::connect(&address)?.numbering()?;
        let entry = method(&numbering, "Entries", "entry")?;
        let value = method(&numbering, "Entry", "value")?;
        let set_value = method(&numbering, "Entry", "set_value")?;
        Ok(Ours { name, server, address, entry, value, set_value })
    }

    /// Opens the sessions, each with its entry and its batch.
    fn sessions(&self, point: &Point) -> Result<Vec<(Bare, Vec<u8>)>, Failed> {
        let text = "x".repeat(point.bytes);
        let argument = [Arg::Value(Value::Str(&text))];
        let mut sessions = Vec::new();
        for number in 0..point.clients {
            let mut session = Bare::connect(&self.address)?;
            let number = Arg::Value(Value::Int(1 + number as i64 % ENTRIES));
            let found = session.find("entries", self.entry, &[number])?;
            let mut batch = Vec::new();
            encode::call(&mut batch, self.set_value, found, &argument);
            encode::plain(&mut batch, op::COMMIT);
            encode::flush(&mut batch, [], false);
            session.ask(&batch, |reply, _| succeeded(&reply).map(drop))?;
            batch.clear();
            for _ in 0..point.pipeline {
                match point.operation {
                    Operation::Set => encode::call(&mut batch, self.set_value, found, &argument),
                    Operation::Get | Operation::Call => encode::call(&mut batch, self.value, found, &[]),
                }
            }
            if point.operation != Operation::Call {
                encode::plain(&mut batch, op::COMMIT);
            }
            let wanted = if point.operation == Operation::Set { 0 } else { point.pipeline as u32 };
            encode::flush(&mut batch, 1..=wanted, false);
            sessions.push((session, batch));
        }
        Ok(sessions)
    }

    fn sample(&self, point: &Point) -> Result<Sample, Failed> {
        let mut sessions = self.sessions(point)?;
        let before = processor_ms_of(self.server.id())?;
        let (warm, measured) = times(point);
        let figures = match &mut sessions[..] {
            [(session, batch)] if point.over == Over::Shm => load::run_alone(session, batch, warm, measured)?,
            _ => {
                let client =
                    |(session, batch): (Bare, _)| Client::new(session.into_stream(), Form::Bifrost, batch);
                let clients: Result<Vec<Client>, Failed> = sessions.into_iter().map(client).collect();
                load::run(&mut clients?, warm, measured)?
            }
        };
        let processor_us = (processor_ms_of(self.server.id())? - before) * 1e3;
        let operations = figures.answers * point.pipeline;
        Ok(Sample { processor_us: processor_us / operations.max(1) as f64, ..Sample::of(&figures, point) })
    }
}

/// The samples of a system at a point.
struct Row {
    peer: &'static str,
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    processor_us: Vec<f64>,
}

impl Row {
    fn new(peer: &'static str) -> Row {
        let none = Vec::new;
        Row { peer, rate: none(), p50: none(), p99: none(), p999: none(), processor_us: none() }
    }

    fn add(&mut self, sample: Sample) {
        self.rate.push(sample.rate);
        self.p50.push(sample.p50);
        self.p99.push(sample.p99);
        self.p999.push(sample.p999);
        self.processor_us.push(sample.processor_us);
    }

    fn cases(&mut self, point: &Point) -> Vec<Case> {
        let Point { over, operation, clients, pipeline, bytes, .. } = *point;
        let name = format!("{} of {bytes} bytes, {clients} clients, {pipeline} at once", operation.name());
        let figures = [
            ("rate", "1/s", &mut self.rate),
            ("p50", "us", &mut self.p50),
            ("p99", "us", &mut self.p99),
            ("p99.9", "us", &mut self.p999),
            ("processor time of the server", "us", &mut self.processor_us),
        ];
        let cases = figures.into_iter().map(|(figure, unit, samples)| {
            let case = Case::new(format!("{name}: {figure}"), clients, unit, samples);
            case.part_of("sessions").of(self.peer).by(over.name())
        });
        cases.filter(|case| !case.value.is_nan()).collect()
    }

    fn median(&self, samples: &[f64]) -> f64 {
        summary(&mut samples.to_vec()).0
    }
}

/// Prepares the peers that are wanted and there.
fn prepare(args: &Args, folder: &Path, bar: &ProgressBar) -> Vec<Peer> {
    let wanted = match (&args.peers, args.alone) {
        (_, true) => &[][..],
        (Some(peers), _) => peers,
        (None, _) => &Peer::ALL,
    };
    let there = wanted.iter().filter(|peer| {
        bar.set_message(format!("making the programs of {}", peer.name()));
        let prepared = peer.prepare(folder);
        bar.suspend(|| match &prepared {
            Ok(version) => anstream::println!("{}: {version}", peer.name()),
            Err(why) => anstream::eprintln!("note: {} is not measured: {why}", peer.name()),
        });
        prepared.is_ok()
    });
    there.copied().collect()
}

/// Measures all points.
///
/// # Errors
/// A server does not start, or a client fails.
pub fn measure(args: &Args, json: &mut JsonLines, bar: &ProgressBar) -> Result<Vec<Target>, Failed> {
    let folder = tempfile::tempdir()?;
    let most = args.clients.iter().copied().max().unwrap_or_default();
    let limit = raise_descriptors(most + OWN_DESCRIPTORS);
    if limit < most + OWN_DESCRIPTORS {
        return Err(
            format!("{most} clients need more than the {limit} descriptors that a process may have").into()
        );
    }
    // Servers run in folders of their own.
    let other = match &args.against {
        None => None,
        Some(path) => Some(path.canonicalize().map_err(|error| format!("`{}`: {error}", path.display()))?),
    };
    let peers = prepare(args, folder.path(), bar);
    let mut targets = Vec::new();
    for over in args.over.iter().filter(|over| **over != Over::Tls) {
        let place = folder.path().join(over.name());
        std::fs::create_dir_all(&place)?;
        let mut ours = vec![Ours::start(*over, most, &place, None)?];
        if let Some(other) = &other {
            ours.push(Ours::start(*over, most, &place, Some(other))?);
        }
        let mut servers = Vec::new();
        // Shared memory is no transport of theirs.
        for peer in peers.iter().filter(|_| *over != Over::Shm) {
            bar.set_message(format!("starting {} over {}", peer.name(), over.name()));
            servers.push(Server::start(*peer, *over, folder.path(), &place)?);
        }
        for operation in &args.operations {
            for pipeline in args.pipeline.iter().copied().filter(|pipeline| *pipeline > 0) {
                let head = format!(
                    "{} of {} bytes over {}, {pipeline} at once",
                    operation.name(),
                    args.bytes,
                    over.name()
                );
                bar.suspend(|| print_head(&head));
                let polled = *over != Over::Shm;
                for clients in args.clients.iter().copied().filter(|n| *n == 1 || polled && *n > 0) {
                    bar.set_message(format!("{head}: {clients} clients"));
                    let (operation, bytes, seconds) = (*operation, args.bytes, args.seconds);
                    let point = Point { over: *over, operation, clients, pipeline, bytes, seconds };
                    let mut rows = rows(&point, args.rounds, &ours, &mut servers)?;
                    for row in &mut rows {
                        json.write(&row.cases(&point))?;
                    }
                    bar.suspend(|| rows.iter().for_each(|row| print_row(row, &rows[0], clients)));
                    targets.extend(goals(&point, &rows));
                }
            }
        }
    }
    Ok(targets)
}

/// Takes all samples of a point; the first row is this program's.
fn rows(point: &Point, rounds: u64, ours: &[Ours], servers: &mut [Server]) -> Result<Vec<Row>, Failed> {
    let mut rows: Vec<Row> = ours.iter().map(|ours| Row::new(ours.name)).collect();
    rows.extend(servers.iter().map(|server| Row::new(server.peer().name())));
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let sample = match ours.get(at) {
                Some(ours) => ours.sample(point),
                None => servers[at - ours.len()].sample(point),
            };
            let sample = sample.map_err(|error| format!("{}, {point:?}: {error}", rows[at].peer))?;
            rows[at].add(sample);
        }
    }
    Ok(rows)
}

/// Returns the goals of a point: ahead of all peers, and short waits among many clients.
fn goals(point: &Point, rows: &[Row]) -> Vec<Target> {
    let name = format!(
        "{} over {}, {} clients, {} at once",
        point.operation.name(),
        point.over.name(),
        point.clients,
        point.pipeline
    );
    let Some((ours, others)) = rows.split_first() else { return Vec::new() };
    let rate = ours.median(&ours.rate);
    let mut goals: Vec<Target> = others
        .iter()
        .map(|row| {
            let times = ratio(rate, row.median(&row.rate));
            let least = if row.peer == OTHER { OTHER_LEAST } else { 1.0 };
            Target::at_least(format!("{name}: rate against {}", row.peer), times, least, "x")
        })
        .collect();
    if point.clients == MANY && point.pipeline == 1 {
        let p99 = ours.median(&ours.p99) / 1e3;
        goals.push(Target::new(format!("{name}: p99"), p99, MANY_P99_MS_MOST, "ms"));
    }
    goals
}

fn print_head(head: &str) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}{head}{bold:#}");
    anstream::println!(
        "  {:>7}  {:<16} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "clients",
        "system",
        "1/s",
        "most",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "CPU us",
        "ours / it"
    );
}

fn print_row(row: &Row, ours: &Row, clients: u64) {
    let figure = |samples: &[f64], digits: usize| match row.median(samples) {
        value if value.is_nan() => "-".to_owned(),
        value => format!("{value:.digits$}"),
    };
    let most = row.rate.iter().copied().fold(0.0, f64::max);
    let times = ratio(ours.median(&ours.rate), row.median(&row.rate));
    anstream::println!(
        "  {clients:>7}  {:<16} {:>10} {most:>10.0} {:>9} {:>9} {:>9} {:>9} {times:>8.2}x",
        row.peer,
        figure(&row.rate, 0),
        figure(&row.p50, 1),
        figure(&row.p99, 1),
        figure(&row.p999, 1),
        figure(&row.processor_us, 2)
    );
}
