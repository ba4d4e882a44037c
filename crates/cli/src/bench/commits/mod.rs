//! `bifrost bench commits`: durable commits through a server, beside a raw loop that writes the
//! same bytes to the same disk.
//!
//! Each session has a group of objects of its own, and changes all of them in a transaction: one
//! batch with a call and a commit. So no commit waits for another one but for the disk. The load
//! generator ([`super::load`]) drives all sessions from one thread.
//!
//! Read [`run`] first. In each round it takes a sample of every number of sessions, and of the raw
//! loop ([`raw`]) alone and in groups. At the end the counts of all objects are compared with the
//! number of answers.

mod raw;

use std::path::PathBuf;
use std::time::Duration;

use bifrost_transport::Address;
use bifrost_wire::interface::Numbering;
use bifrost_wire::{Arg, Outcome, Ref, Value, encode, op};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use self::raw::Kind;
use super::bare::{Bare, method, succeeded};
use super::common::{Failed, note_debug_build};
use super::load::{self, Client, Form};
use super::report::{self, Case, JsonLines, Target, ratio, summary};
use super::usage::{processor_ms_of, raise_descriptors, written_by};
use crate::process::ServerProcess;

/// The program that is served.
const PROGRAM: &str = include_str!("../../../../../bench/commits/commits.theta");
/// The part of a sample's time that runs before it and is not measured.
const WARM: f64 = 0.25;
/// The commits that the raw loop synchronises together.
const GROUP: u64 = 16;
/// The least rate of one session, against the raw loop alone.
const ALONE_LEAST: f64 = 0.8;
/// The least rate of [`GROUP`] sessions and more, against the raw loop in groups.
const GROUPS_LEAST: f64 = 0.5;

/// The arguments of `bifrost bench commits`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. The raw loop writes as many bytes for a commit as the server did, and calls fdatasync: after
each, and after each 16. `append` is a file that grows, `in place` one whose blocks are there.

Examples:
  bifrost bench commits
  bifrost bench commits --sessions 1,64 --seconds 10 --folder /mnt/disk
  bifrost bench commits --json commits.jsonl")]
pub struct Args {
    /// The numbers of sessions
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 4, 16, 64],
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    sessions: Vec<u64>,
    /// The objects that a transaction changes
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    objects: u64,
    /// The seconds of a sample
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = super::sessions::seconds)]
    seconds: f64,
    /// The samples of each case; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// A folder on the disk that is measured [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The samples of a number of sessions.
#[derive(Default)]
struct Row {
    sessions: u64,
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    p999: Vec<f64>,
    processor_us: Vec<f64>,
    bytes: Vec<f64>,
}

/// The samples of the raw loop.
struct Raw {
    kind: Kind,
    group: u64,
    rate: Vec<f64>,
}

/// The server, and the changes that it has acknowledged.
struct Server {
    process: ServerProcess,
    address: Address,
    numbering: Numbering,
    objects: i64,
    acknowledged: u64,
}

impl Server {
    /// Returns the group of a session.
    fn group(&self, session: &mut Bare, number: u64) -> Result<Ref, Failed> {
        let group = method(&self.numbering, "Groups", "group")?;
        let int = |value| Arg::Value(Value::Int(value));
        session.find("groups", group, &[int(number as i64 + 1), int(self.objects)])
    }

    fn sample(&mut self, row: &mut Row, seconds: f64) -> Result<(), Failed> {
        let change = method(&self.numbering, "Group", "change")?;
        let mut clients = Vec::new();
        for number in 0..row.sessions {
            let mut session = Bare::connect(&self.address)?;
            let group = self.group(&mut session, number)?;
            let mut batch = Vec::new();
            encode::call(&mut batch, change, group, &[]);
            encode::plain(&mut batch, op::COMMIT);
            encode::flush(&mut batch, [], false);
            clients.push(Client::new(session.into_stream(), Form::Bifrost, batch)?);
        }
        let id = self.process.id();
        let before = (processor_ms_of(id)?, written_by(id)?);
        let times = [seconds * WARM, seconds].map(Duration::from_secs_f64);
        let figures = load::run(&mut clients, times[0], times[1])?;
        let after = (processor_ms_of(id)?, written_by(id)?);
        self.acknowledged += figures.answers;
        let commits = figures.answers.max(1) as f64;
        row.rate.push(figures.rate);
        row.p50.push(figures.us(50.0));
        row.p99.push(figures.us(99.0));
        row.p999.push(figures.us(99.9));
        row.processor_us.push((after.0 - before.0) * 1e3 / commits);
        row.bytes.push((after.1 - before.1).saturating_sub(figures.answer_bytes) as f64 / commits);
        Ok(())
    }

    /// Compares the counts of all objects with the acknowledged commits.
    fn check(&self, sessions: u64) -> Result<(), Failed> {
        let changes = method(&self.numbering, "Group", "changes")?;
        let mut session = Bare::connect(&self.address)?;
        let mut stored = 0;
        for number in 0..sessions {
            let group = self.group(&mut session, number)?;
            let mut batch = Vec::new();
            encode::call(&mut batch, changes, group, &[]);
            encode::flush(&mut batch, [1], false);
            stored += session.ask(&batch, |reply, _| match succeeded(&reply)?.outcomes().next() {
                Some(Outcome::Value(Value::Int(count))) => Ok(count),
                other => Err(format!("no count but {other:?}").into()),
            })?;
        }
        match stored == self.acknowledged as i64 * self.objects {
            true => Ok(()),
            false => Err(format!(
                "{} commits of {} objects were acknowledged, and {stored} changes are stored",
                self.acknowledged, self.objects
            )
            .into()),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The server does not start, a client fails, or a commit is lost.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let folder = match &args.folder {
        None => tempfile::tempdir()?,
        Some(folder) => tempfile::tempdir_in(folder)?,
    };
    let most = args.sessions.iter().copied().max().unwrap_or(1);
    raise_descriptors(most + 64);
    let listen = format!("unix://{}", folder.path().join("server").display());
    let store = folder.path().join("store").display().to_string();
    let process = ServerProcess::start(folder.path(), PROGRAM, &["--listen", &listen, "--store", &store])?;
    let address = process.address().clone();
    let numbering = Bare::connect(&address)?.numbering()?;
    let mut server = Server { process, address, numbering, objects: args.objects as i64, acknowledged: 0 };
    // The groups are made by one session after the other.
    for number in 0..most {
        server.group(&mut Bare::connect(&server.address)?, number)?;
    }
    let mut rows: Vec<Row> =
        args.sessions.iter().map(|sessions| Row { sessions: *sessions, ..Row::default() }).collect();
    let mut raws: Vec<Raw> = [1, GROUP]
        .into_iter()
        .flat_map(|group| Kind::ALL.map(|kind| Raw { kind, group, rate: Vec::new() }))
        .collect();
    let steps = args.rounds * (rows.len() + raws.len()) as u64;
    let bar = ProgressBar::new(steps);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len} samples, {msg}")?);
    for round in 0..args.rounds {
        let backwards = round % 2 == 1;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if backwards {
            order.reverse();
        }
        for at in order {
            bar.set_message(format!("{} sessions", rows[at].sessions));
            server.sample(&mut rows[at], args.seconds)?;
            bar.inc(1);
        }
        for raw in &mut raws {
            bar.set_message(format!("{}, groups of {}", raw.kind.name(), raw.group));
            let bytes = bytes_of(&rows, raw.group) as u64;
            let time = Duration::from_secs_f64(args.seconds);
            raw.rate.push(raw::rate(folder.path(), raw.kind, bytes, raw.group, time)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    server.check(most)?;
    print(args, &rows, &raws);
    json.write(&cases(&mut rows, &mut raws))?;
    let targets = goals(&rows, &raws);
    report::print_targets(&targets);
    json.write(&targets)?;
    Ok(())
}

/// Returns the bytes that the server has written for a commit when about so many came together.
fn bytes_of(rows: &[Row], group: u64) -> f64 {
    let nearest = rows.iter().min_by_key(|row| row.sessions.abs_diff(group));
    nearest.map_or(0.0, |row| median(&row.bytes)).max(1.0)
}

fn median(samples: &[f64]) -> f64 {
    summary(&mut samples.to_vec()).0
}

fn rate_of(raws: &[Raw], kind: Kind, group: u64) -> f64 {
    let found = raws.iter().find(|raw| (raw.kind, raw.group) == (kind, group));
    found.map_or(f64::NAN, |raw| median(&raw.rate))
}

fn goals(rows: &[Row], raws: &[Raw]) -> Vec<Target> {
    let mut goals = Vec::new();
    for row in rows {
        let (group, name, least) = match row.sessions {
            1 => (1, "alone", ALONE_LEAST),
            GROUP.. => (GROUP, "in groups", GROUPS_LEAST),
            _ => continue,
        };
        for kind in Kind::ALL {
            let times = ratio(median(&row.rate), rate_of(raws, kind, group));
            let target = format!("commits of {} sessions against {} {name}", row.sessions, kind.name());
            goals.push(Target::at_least(target, times, least, "x"));
        }
    }
    goals
}

fn cases(rows: &mut [Row], raws: &mut [Raw]) -> Vec<Case> {
    let mut cases = Vec::new();
    for row in rows {
        let Row { sessions, rate, p50, p99, p999, processor_us, bytes } = row;
        for (figure, unit, samples) in [
            ("rate", "1/s", rate),
            ("p50", "us", p50),
            ("p99", "us", p99),
            ("p99.9", "us", p999),
            ("processor time of the server", "us", processor_us),
            ("bytes written", "B", bytes),
        ] {
            let case = Case::new(format!("{sessions} sessions: {figure}"), *sessions, unit, samples);
            cases.push(case.part_of("commits"));
        }
    }
    for Raw { kind, group, rate } in raws {
        let name = if *group == 1 { "alone".to_owned() } else { format!("groups of {group}") };
        cases
            .push(Case::new(format!("{name}: rate"), *group, "1/s", rate).part_of("commits").of(kind.name()));
    }
    cases
}

fn print(args: &Args, rows: &[Row], raws: &[Raw]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}Durable commits of {} objects{bold:#}", args.objects);
    let most = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
    anstream::println!(
        "  {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}  {:>16}  {:>16}",
        "sessions",
        "commits/s",
        "most",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "CPU us",
        "bytes",
        "of raw alone",
        "of raw in groups"
    );
    anstream::println!("  {:>78}  {:>7} {:>8}  {:>7} {:>8}", "", "append", "in place", "append", "in place");
    for row in rows {
        let rate = median(&row.rate);
        let of = |kind, group| ratio(rate, rate_of(raws, kind, group));
        anstream::println!(
            "  {:>8} {rate:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>8.1} {:>8.0}  {:>6.2}x {:>7.2}x  {:>6.2}x {:>7.2}x",
            row.sessions,
            most(&row.rate),
            median(&row.p50),
            median(&row.p99),
            median(&row.p999),
            median(&row.processor_us),
            median(&row.bytes),
            of(Kind::Append, 1),
            of(Kind::InPlace, 1),
            of(Kind::Append, GROUP),
            of(Kind::InPlace, GROUP)
        );
    }
    for raw in raws {
        let name = match raw.group {
            1 => format!("{}, alone", raw.kind.name()),
            group => format!("{}, groups of {group}", raw.kind.name()),
        };
        let bytes = bytes_of(rows, raw.group);
        anstream::println!(
            "  {name:<28} {:>9.0} commits/s (most {:.0}), {bytes:.0} bytes each",
            median(&raw.rate),
            most(&raw.rate)
        );
    }
}
