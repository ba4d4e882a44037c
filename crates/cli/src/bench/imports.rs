//! `bifrost bench imports`: the time of an import at a trader with many offers, beside a crossing
//! with a call of the same actor that does nothing.
//!
//! Read [`run`] first. The trader is a process, and the client sends bytes that were made once
//! ([`super::bare`]). All cases are measured in turn in each round, so that a change of the
//! machine's speed hits all.

use std::path::PathBuf;
use std::time::Instant;

use bifrost_veneer::Session;
use bifrost_veneer::trader::stubs::INTERFACE;
use bifrost_wire::{Arg, MethodNumber, Ref, Value, encode};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use super::bare::{ANSWER, Bare, method, succeeded};
use super::common::{Failed, note_debug_build};
use super::report::{self, Case, JsonLines, Target};
use crate::process::ServerProcess;

/// The services among which the offers are divided, beside the one that has all.
const SERVICES: u64 = 200;
/// The microseconds that an import may take beyond a crossing.
const BEYOND_US_MOST: f64 = 20.0;
/// The case to which imports are compared.
const CROSSING: &str = "a call that does nothing";
/// The calls of a sample.
const CALLS: u32 = 200;
/// The offers that are exported in one batch.
const BATCH: u64 = 500;
/// The lease of an offer: they are not renewed, and stay until the trader ends.
const LEASE_MS: u32 = 24 * 3600 * 1000;

/// The arguments of `bifrost bench imports`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. A trader is started with so many offers, once divided among 200 services and once of
one service. Imports take one offer, and eight by a query.

Examples:
  bifrost bench imports
  bifrost bench imports --offers 1000 --rounds 100 --json imports.jsonl")]
pub struct Args {
    /// The offers
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(200..=50_000))]
    offers: u64,
    /// The samples of each case, of 200 imports each; figures are medians
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The trader does not start, or refuses a call.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.json.as_deref())?;
    let bar = ProgressBar::new(args.offers * 2 + u64::from(args.rounds));
    bar.set_style(ProgressStyle::with_template("{elapsed} [{wide_bar}] {msg}")?.progress_chars("=> "));
    let mut all = Vec::new();
    for (services, name) in [(SERVICES, "of 200 services"), (1, "of one service")] {
        let folder = tempfile::tempdir()?;
        let at = format!("unix://{}", folder.path().join("trader").display());
        let most = format!("trader.offers_session_max={}", args.offers);
        let role = format!("trader.offers_role_max={}", args.offers);
        let lease = format!("trader.lease_ms_max={LEASE_MS}");
        let mut arguments = vec!["--listen", &at, "--trust-addresses"];
        arguments.extend([&most, &role, &lease].into_iter().flat_map(|setting| ["--set", setting]));
        let server = ServerProcess::trader(folder.path(), &arguments)?;
        bar.set_message(format!("{} offers {name}", args.offers));
        export(&server, args.offers, services, &bar)?;
        let trader = Trader::connect(&server)?;
        all.push((services, server, trader, folder));
    }
    bar.set_message("imports");
    let mut cases: Vec<(String, Vec<f64>)> = Vec::new();
    for round in 0..=args.rounds {
        let mut add = |name: String, us: f64| {
            let found = cases.iter().position(|(case, _)| *case == name);
            let at = found.unwrap_or_else(|| {
                cases.push((name, Vec::new()));
                cases.len() - 1
            });
            // The first round warms up.
            cases[at].1.extend((round > 0).then_some(us));
        };
        for (services, _, trader, _) in &mut all {
            let among = args.offers / *services;
            let service = format!("S{}", u64::from(round) % *services);
            add(format!("{CROSSING}, {among} of a service"), trader.time(&trader.nothing())?);
            for (most, query) in [(1, ""), (8, "region^=eu&tier>=1")] {
                let batch = trader.find(&service, most, query);
                trader.ask(&batch)?;
                add(format!("import of {most} among {among} of {}", args.offers), trader.time(&batch)?);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let cases: Vec<Case> = cases
        .into_iter()
        .map(|(name, mut times)| Case::new(name, CALLS.into(), "us", &mut times).part_of("imports"))
        .collect();
    report::print_cases("Imports at a trader, over a unix socket", &cases);
    json.write(&cases)?;
    let targets = beyond(&cases);
    report::print_targets(&targets);
    json.write(&targets)?;
    Ok(())
}

/// Returns the goals: each import beside the call before it that does nothing.
fn beyond(cases: &[Case]) -> Vec<Target> {
    let mut crossing = f64::NAN;
    let mut targets = Vec::new();
    for case in cases {
        match case.case.starts_with(CROSSING) {
            true => crossing = case.value,
            false => {
                let name = format!("{} beyond a crossing", case.case);
                targets.push(Target::new(name, (case.value - crossing).max(0.0), BEYOND_US_MOST, "us"));
            }
        }
    }
    targets
}

/// Exports so many offers, each with its properties, of so many services.
fn export(server: &ServerProcess, offers: u64, services: u64, bar: &ProgressBar) -> Result<(), Failed> {
    let session = Session::builder(&INTERFACE).timeout(ANSWER).connect(&server.address().to_string())?;
    let trader: bifrost_veneer::trader::stubs::Trader = session.lookup("trader");
    let types: Vec<String> = (0..services).map(|n| format!(r#"{{"name":"S{n}","kind":"object"}}"#)).collect();
    let digest = trader.teach(format!(r#"{{"types":[{}],"routines":[]}}"#, types.join(","))).claim()?;
    for first in (0..offers).step_by(BATCH as usize) {
        let last = (first + BATCH).min(offers);
        for n in first..last {
            let (service, name) = (format!("S{}", n % services), format!("object{n}"));
            let addresses = vec![format!("tls://server{n}:7447"), format!("tcp://server{n}:7448")];
            let load = n as f64 / offers as f64;
            let properties = format!("region=eu-{}&tier={}&load={load}", n % 7, n % 3);
            let lease = i64::from(LEASE_MS);
            drop(trader.advertise(service, digest.as_str(), name, addresses, properties, lease));
        }
        session.flush()?;
        if let Some(failed) = session.exceptions().first() {
            return Err(format!("an offer is refused: {}", failed.error).into());
        }
        bar.inc(last - first);
    }
    Ok(session.close()?)
}

/// A session with a trader, and the numbers of its methods.
struct Trader {
    session: Bare,
    object: Ref,
    find: MethodNumber,
    changes: MethodNumber,
}

impl Trader {
    fn connect(server: &ServerProcess) -> Result<Trader, Failed> {
        let mut session = Bare::connect(server.address())?;
        let numbering = session.numbering()?;
        let of = |name| method(&numbering, "Trader", name);
        let (find, changes) = (of("find")?, of("changes")?);
        let mut batch = Vec::new();
        encode::lookup(&mut batch, "trader", None);
        encode::flush(&mut batch, [1], false);
        let object = session.handle(&batch)?;
        Ok(Trader { session, object, find, changes })
    }

    /// Runs a batch in which nothing fails.
    fn ask(&mut self, batch: &[u8]) -> Result<(), Failed> {
        self.session.ask(batch, |reply, _| succeeded(&reply).map(drop))
    }

    /// Returns the mean microseconds of a batch, in a sample.
    fn time(&mut self, batch: &[u8]) -> Result<f64, Failed> {
        let start = Instant::now();
        for _ in 0..CALLS {
            self.ask(batch)?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS))
    }

    /// Returns a batch with a call that does nothing.
    fn nothing(&self) -> Vec<u8> {
        let mut batch = Vec::new();
        let arguments = [text(""), Arg::Value(Value::Int(0)), Arg::Value(Value::Int(0))];
        encode::call(&mut batch, self.changes, self.object, &arguments);
        encode::flush(&mut batch, [1], false);
        batch
    }

    /// Returns a batch that imports at most so many offers, with all that is told of them.
    fn find(&self, service: &str, most: i64, query: &str) -> Vec<u8> {
        let mut batch = Vec::new();
        let arguments = [text(service), text(""), text(query), Arg::Value(Value::Int(most)), text("")];
        encode::call(&mut batch, self.find, self.object, &arguments);
        encode::get(&mut batch, Ref::future(1));
        encode::flush(&mut batch, [2], false);
        batch
    }
}

fn text(text: &str) -> Arg<'_> {
    Arg::Value(Value::Str(text))
}
