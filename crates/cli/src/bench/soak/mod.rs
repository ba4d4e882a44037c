//! `bifrost bench soak`: many clients with mixed batches for a long time, under kills and stops.
//!
//! The clients are threads of client processes ([`client`]). The driver kills and stops these, and
//! stops the server now and then ([`driver`]). It keeps the ledger of all answers outside the
//! server, and samples the server's means ([`flat`]). At the end it compares the stored counts with
//! the ledger, kills the server, starts it again on the same store, and compares once more.
//!
//! Read [`run`] first.
//!
//! ```text
//! clients work --the time is over--> they end --compare--> SIGKILL, another server --compare-->
//! end
//! ```

#[rustfmt::skip]
#[allow(clippy::all, dead_code, reason = "generated")]
mod bifrost_stubs;
mod client;
mod driver;
mod flat;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bifrost_veneer::{Error, How, Session};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use self::bifrost_stubs::{Bank, INTERFACE};
use self::client::Kind;
use self::driver::{Blows, Herd, Ledger};
use self::flat::Series;
use super::common::{Failed, note_debug_build};
use super::report::{Case, JsonLines};
use super::usage::{Usage, raise_descriptors};
use crate::process::ServerProcess;

pub use client::serve as serve_clients;

/// The program that is served.
const PROGRAM: &str = include_str!("../../../../../bench/soak/soak.theta");
/// The time between two looks at what is due.
const STEP: Duration = Duration::from_millis(20);
/// The number of samples of the server's means, and the least time between two.
const SAMPLES: f64 = 600.0;
const SAMPLE_LEAST: Duration = Duration::from_millis(100);
/// The time in which a server comes to rest when its clients have gone.
const REST: Duration = Duration::from_secs(2);
/// Descriptors and threads that a server may have more when all clients have gone: those of its
/// compiler and its store, which may begin later than the first sample.
const LEFT_MOST: u64 = 8;
/// The time between two changes of the account that others wait for.
const PULSE: Duration = Duration::from_millis(100);

/// The arguments of `bifrost bench soak`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Ends with an error if an acknowledged batch is lost or was done twice, if a client gets a wrong result, or if
memory, descriptors or threads of the server grow.

Examples:
  bifrost bench soak --minutes 30
  bifrost bench soak --seconds 20 --clients 50 --seed 7
  bifrost bench soak --minutes 600 --store /mnt/disk/soak --json soak.jsonl")]
pub struct Args {
    /// The minutes of the work
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// The seconds of the work, in place of minutes
    #[arg(long, value_name = "N", conflicts_with = "minutes", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// The number of clients
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=5000))]
    clients: u64,
    /// The clients of one process, which are killed together
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    share: u64,
    /// Where the objects are kept: a folder without a store [default: a temporary folder]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// The seed of batches, kills and stops
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A generator of numbers that differ with the seed (SplitMix64, Steele and others 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below a bound, which is above 0.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns a time of so many milliseconds.
    fn ms(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

/// The result of a soak.
struct Soaked {
    lasted: f64,
    blows: Blows,
    series: Series,
    /// The means of the server before its first client, and after its last.
    empty: Usage,
    left: Usage,
}

/// Runs the command.
///
/// # Errors
/// A server does not start, something is lost, done twice or wrong, or means grow.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let folder = tempfile::tempdir()?;
    let store = args.store.clone().unwrap_or_else(|| folder.path().join("store").display().to_string());
    raise_descriptors(2 * args.clients + 256);
    let mut generation = 0;
    let mut start = || -> Result<ServerProcess, Failed> {
        generation += 1;
        let listen = format!("unix://{}", folder.path().join(format!("{generation}")).display());
        // Connections of processes that were killed may be there for a moment.
        let most = 2 * args.clients + 100;
        let settings = [format!("sessions_max={most}"), format!("greetings_max={most}")];
        let mut arguments = vec!["--listen", &listen, "--store", &store];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        Ok(ServerProcess::start(folder.path(), PROGRAM, &arguments)?)
    };
    let mut server = start()?;
    open(&server, args.clients as i64)?;
    let ledger = Arc::new(Mutex::new(Ledger::new(args.clients as usize)));
    let soaked = soak(args, &server, &ledger)?;
    let mut ledger = std::mem::take(&mut *ledger.lock());
    compare(&server, &mut ledger, "at the end")?;
    server.kill();
    drop(server);
    let server = start()?;
    compare(&server, &mut ledger, "after a kill of the server")?;
    drop(server);
    ledger.mistakes.extend(soaked.faults(args.share as usize));
    json.write(&soaked.cases(&ledger, args))?;
    soaked.print(&ledger, args);
    match ledger.mistakes.is_empty() {
        true => Ok(()),
        false => Err(ledger.mistakes.join("\n").into()),
    }
}

/// Makes the accounts: one for each client, and the last one for the pulse.
fn open(server: &ServerProcess, clients: i64) -> Result<(), Failed> {
    let session = Session::builder(&INTERFACE).connect(&server.address().to_string())?;
    let bank: Bank = session.lookup("bank");
    session.transaction(How::default(), || bank.open(clients + 1))?;
    session.close()?;
    Ok(())
}

/// Has the clients work for the time.
fn soak(args: &Args, server: &ServerProcess, ledger: &Arc<Mutex<Ledger>>) -> Result<Soaked, Failed> {
    let time = Duration::from_secs(args.seconds.unwrap_or(args.minutes * 60));
    let url = server.address().to_string();
    // The first session makes it compile.
    std::thread::sleep(REST);
    let empty = Usage::of(server.id())?;
    let bar = ProgressBar::new(time.as_secs());
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len} s, {msg}")?);
    let mut herd = Herd::start((url.clone(), server.id()), args.seed, args.share as usize, ledger.clone())?;
    let over = AtomicBool::new(false);
    let every = time.div_f64(SAMPLES).max(SAMPLE_LEAST);
    let mut series = Series::default();
    let began = Instant::now();
    let worked = std::thread::scope(|scope| {
        let pulse = scope.spawn(|| pulse(&url, args.clients as i64 + 1, &over));
        let mut work = || -> Result<(), Failed> {
            let mut next = Duration::ZERO;
            while began.elapsed() < time && ledger.lock().mistakes.is_empty() {
                herd.attend()?;
                if began.elapsed() >= next {
                    series.push(began.elapsed().as_secs_f64(), Usage::of(server.id())?);
                    next = began.elapsed() + every;
                    bar.set_position(began.elapsed().as_secs());
                    bar.set_message(message(&ledger.lock(), herd.blows));
                }
                std::thread::sleep(STEP);
            }
            Ok(())
        };
        let worked = work();
        bar.set_message("the clients come to their end");
        let ended = herd.end();
        over.store(true, Ordering::Relaxed);
        let pulsed = pulse.join().map_err(|_| "the pulse panicked")?;
        worked.and(ended).and(pulsed.map_err(|error| format!("the pulse: {error}").into()))
    });
    bar.finish_and_clear();
    worked?;
    std::thread::sleep(REST);
    let left = Usage::of(server.id())?;
    Ok(Soaked { lasted: began.elapsed().as_secs_f64(), blows: herd.blows, series, empty, left })
}

/// Returns the state of a soak, for the progress bar.
fn message(ledger: &Ledger, blows: Blows) -> String {
    let Blows { kills, stops, server_stops } = blows;
    format!(
        "{} batches, {} acknowledged once, {kills} kills, {stops} stops, {server_stops} of the server",
        ledger.counts.iter().sum::<u64>(),
        ledger.answers.iter().sum::<i64>(),
    )
}

/// Changes the last account again and again, which ends the waits for it.
fn pulse(url: &str, account: i64, over: &AtomicBool) -> Result<(), Error> {
    let session = Session::builder(&INTERFACE).timeout(Duration::from_secs(30)).connect(url);
    let Ok(session) = session else { return Ok(()) };
    let bank: Bank = session.lookup("bank");
    let account = bank.account(account);
    while !over.load(Ordering::Relaxed) {
        session.transaction(How::default(), || account.add())?.claim()?;
        std::thread::sleep(PULSE);
    }
    session.close()
}

/// Compares the stored counts with the ledger, and the sum of all balances with 0.
fn compare(server: &ServerProcess, ledger: &mut Ledger, when: &str) -> Result<(), Failed> {
    let session = Session::builder(&INTERFACE).connect(&server.address().to_string())?;
    let bank: Bank = session.lookup("bank");
    let counts = session.collect(bank.counts(), |count| (count.clone(), count + 0));
    let total = bank.total();
    let (counts, total) = (counts.claim()?, total.claim()?);
    session.close()?;
    if counts.len() != ledger.answers.len() + 1 {
        ledger.mistake(format!("{when} there are {} accounts", counts.len()));
    }
    if total != 0 {
        ledger.mistake(format!("{when} the sum of all balances is {total}, not 0"));
    }
    for (client, (answered, (stored, _))) in ledger.answers.clone().into_iter().zip(counts).enumerate() {
        if stored != answered {
            ledger.mistake(format!(
                "{when}: {answered} batches of client {client} were acknowledged, and {stored} are stored"
            ));
        }
    }
    Ok(())
}

impl Soaked {
    /// Returns the means that did not stay flat, or were kept when all had gone.
    fn faults(&self, share: usize) -> Vec<String> {
        let mut faults = self.series.faults(share);
        for (name, empty, left) in [
            ("descriptors", self.empty.descriptors, self.left.descriptors),
            ("threads", self.empty.threads, self.left.threads),
        ] {
            if left > empty + LEFT_MOST {
                faults.push(format!("{left} {name} are left when all clients have gone, of {empty} before"));
            }
        }
        faults
    }

    fn cases(&self, ledger: &Ledger, args: &Args) -> Vec<Case> {
        let case = |name: String, unit, value: f64| {
            Case::new(name, args.clients, unit, &mut [value]).part_of("soak")
        };
        let mut cases = vec![
            case("acknowledged once".to_owned(), "", ledger.answers.iter().sum::<i64>() as f64),
            case("conflicts".to_owned(), "", ledger.conflicts as f64),
            case("kills of client processes".to_owned(), "", self.blows.kills as f64),
            case("stops of client processes".to_owned(), "", self.blows.stops as f64),
            case("stops of the server".to_owned(), "", self.blows.server_stops as f64),
            case("mistakes".to_owned(), "", ledger.mistakes.len() as f64),
            case("memory, the empty server".to_owned(), "B", self.empty.pss as f64),
            case("memory, the most".to_owned(), "B", self.series.pss_max() as f64),
            case("memory, left".to_owned(), "B", self.left.pss as f64),
        ];
        for ((_, name, _), count) in Kind::ALL.iter().zip(ledger.counts) {
            cases.push(case(format!("batches, {name}"), "", count as f64));
        }
        for trend in self.series.trends(args.share as usize) {
            cases.push(case(format!("{}, first third", trend.name), "", trend.first));
            cases.push(case(format!("{}, last third", trend.name), "", trend.last));
            cases.push(case(format!("{}, growth in a minute", trend.name), "", trend.slope));
        }
        cases
    }

    fn print(&self, ledger: &Ledger, args: &Args) {
        let bold = anstyle::Style::new().bold();
        let Blows { kills, stops, server_stops } = self.blows;
        anstream::println!("\n{bold}{} clients for {:.0} s{bold:#}", args.clients, self.lasted);
        let batches: u64 = ledger.counts.iter().sum();
        anstream::println!(
            "  {batches} batches ({:.0}/s), {} acknowledged once, {} conflicts\n  {kills} kills and {stops} stops of \
             client processes, {server_stops} stops of the server",
            batches as f64 / self.lasted,
            ledger.answers.iter().sum::<i64>(),
            ledger.conflicts
        );
        let kinds =
            Kind::ALL.iter().zip(ledger.counts).map(|((_, name, _), count)| format!("{name} {count}"));
        anstream::println!("  {}", kinds.collect::<Vec<_>>().join(", "));
        anstream::println!(
            "  {:<12} {:>14} {:>14} {:>14} {:>16}",
            "",
            "first third",
            "last third",
            "accepted",
            "growth / minute"
        );
        for trend in self.series.trends(args.share as usize) {
            anstream::println!(
                "  {:<12} {:>14.0} {:>14.0} {:>14.0} {:>16.1}",
                trend.name,
                trend.first,
                trend.last,
                trend.most,
                trend.slope
            );
        }
        let mb = |bytes: u64| bytes as f64 / 1e6;
        anstream::println!(
            "  memory: {:.1} MB empty, {:.1} MB at most, {:.1} MB when all had gone; {} descriptors and {} threads left, of \
             {} and {}",
            mb(self.empty.pss),
            mb(self.series.pss_max()),
            mb(self.left.pss),
            self.left.descriptors,
            self.left.threads,
            self.empty.descriptors,
            self.empty.threads
        );
        if ledger.mistakes.is_empty() {
            anstream::println!("  0 lost, 0 done twice, at the end and after a kill of the server");
        }
    }
}
