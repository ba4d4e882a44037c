//! The two baselines of 001 figure 7, between which a batching client lies.
//!
//! | way | client | model |
//! | --- | --- | --- |
//! | `each` | sends each call by itself and waits for its answer: B = 1 | t_c + t_d |
//! | `linked` | is linked into the server: no domain is crossed | t_c |
//!
//! Both run the program of the way `futures`. `each` has a session that flushes after each call.
//! `linked` is a process of its own on the core of the server. There the client and its session are
//! on one thread, and a function call stands in place of the stream ([`super::super::linked`]):
//! recording, encoding, checking and dispatching remain, as in the paper. Each baseline has a
//! database of its own, made from the same seed.
//!
//! [`Linked`] owns the process; [`serve`] is its inside. [`print()`] is the figure: all ways of an
//! operation against both baselines, with the prediction of the model.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::ChildStdout;

use bifrost_veneer::Session;
use clap::ValueEnum;

use super::super::common::{Failed, pin, say};
use super::super::helper::Helper;
use super::super::linked::{Domain, on_stack};
use super::super::report::{Case, cost, ratio};
use super::ops::{OPS, Way, Ways};
use super::{Args, Ran, bifrost_stubs as stubs, config, engine, find, generate, run_op};

/// The client that is linked into a server, in a process of its own.
pub struct Linked {
    helper: Helper,
    out: BufReader<ChildStdout>,
}

impl Linked {
    /// Starts it, and generates its database.
    ///
    /// # Errors
    /// The process ends.
    pub fn start(args: &Args) -> Result<Linked, Failed> {
        let (core, seed) = (args.cores[1].to_string(), args.seed.to_string());
        let mut helper = Helper::start(&["oo7-linked", &args.size, &seed, &core])?;
        let out = BufReader::new(helper.take_output()?);
        let mut linked = Linked { helper, out };
        match linked.line()?.as_str() {
            "ready" => Ok(linked),
            other => Err(format!("the linked client does not start: {other}").into()),
        }
    }

    fn line(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => Err("the linked client has ended".into()),
        }
    }

    fn ask(&mut self, question: &str) -> Result<String, Failed> {
        let input = self.helper.input()?;
        writeln!(input, "{question}")?;
        input.flush()?;
        let answer = self.line()?;
        match answer.strip_prefix("failed ") {
            Some(why) => Err(format!("{question}, linked: {why}").into()),
            None => Ok(answer),
        }
    }

    /// Runs an operation in a way, and measures it there.
    ///
    /// # Errors
    /// The failure of its calls.
    pub fn run(&mut self, op: &str, way: Way) -> Result<Ran, Failed> {
        let answer = self.ask(&format!("{op} {}", way.name()))?;
        let wrong = || format!("the linked client says `{answer}`");
        let words: Vec<&str> = answer.split_whitespace().collect();
        let [result, ns, crossings, calls, commands] = words[..] else { return Err(wrong().into()) };
        Ok(Ran {
            result: result.parse()?,
            ms: ns.parse::<u64>()? as f64 / 1e6,
            crossings: crossings.parse()?,
            calls: calls.parse()?,
            commands: commands.parse()?,
        })
    }

    /// Returns the faults of its database; empty if it has none.
    ///
    /// # Errors
    /// The process has ended.
    pub fn check(&mut self) -> Result<String, Failed> {
        Ok(self.ask("check")?.trim_start_matches("checked").trim().to_owned())
    }
}

/// Runs the process of the linked client: answers questions until its input ends.
///
/// # Errors
/// The program cannot run.
pub fn serve(size: &str, seed: u32, core: usize) -> Result<(), Failed> {
    pin(core);
    let engine = engine()?;
    let config = config(bifrost_server::config::MEMORY, None);
    on_stack(&engine, &config, || {
        let session = Domain::open(&engine, &config)?.session(&stubs::INTERFACE)?;
        let db = generate(size, seed, &session, None)?;
        let theta = stubs::new_oo7(&session, &db);
        let ways = Ways::new(&session, &db, &theta);
        say("ready")?;
        let mut input = std::io::stdin().lock();
        let mut line = String::new();
        while input.by_ref().take(1 << 10).read_line(&mut line)? > 0 {
            say(&answer(&session, &ways, &theta, line.trim()).unwrap_or_else(|why| format!("failed {why}")))?;
            line.clear();
        }
        Ok(())
    })
}

fn answer(session: &Session, ways: &Ways<'_>, theta: &stubs::Oo7, question: &str) -> Result<String, Failed> {
    if question == "check" {
        return Ok(format!("checked {}", theta.check().claim()?));
    }
    let (op, way) = question.split_once(' ').ok_or("an operation and a way")?;
    let op = OPS.iter().find(|known| known.name == op).ok_or("no such operation")?;
    let way = Way::from_str(way, false)?;
    let ran = run_op(session, ways, op.name, way)?;
    let ns = (ran.ms * 1e6).round() as u64;
    Ok(format!("{} {ns} {} {} {}", ran.result, ran.crossings, ran.calls, ran.commands))
}

/// Returns the milliseconds that the model predicts for a number of crossings, from the two
/// baselines: those of the linked client, and for each crossing the share of the difference.
fn predicted(each: &Case, linked: &Case, crossings: u64) -> f64 {
    let crossing = (each.value - linked.value) / each.crossings.unwrap_or_default().max(1) as f64;
    linked.value + cost(crossing) * crossings as f64
}

/// Adds the predictions of the model to the cases of an operation.
pub fn predict(cases: &mut [Case]) {
    let of = |way: Way| cases.iter().find(|case| case.way == Some(way.name())).cloned();
    let (Some(each), Some(linked)) = (of(Way::Each), of(Way::Linked)) else { return };
    for case in cases.iter_mut() {
        if [Way::Futures, Way::Promises].iter().any(|way| case.way == Some(way.name())) {
            let ms = predicted(&each, &linked, case.crossings.unwrap_or_default());
            case.predicted = (!ms.is_nan()).then_some(ms);
        }
    }
}

/// Prints figure 7 of 001 for the operations that were measured in both baselines, and the paper's.
pub fn print(cases: &[Case]) {
    let ops: Vec<_> = OPS
        .iter()
        .filter_map(|op| {
            Some((op, find(cases, op.name, Way::Each, None)?, find(cases, op.name, Way::Linked, None)?))
        })
        .collect();
    if ops.is_empty() {
        return;
    }
    let bold = anstyle::Style::new().bold();
    let title = "Against one call a crossing and against the linked client (001 figure 7); times in ms";
    anstream::println!("\n{bold}{title}{bold:#}");
    anstream::println!(
        "  {:<7} {:<9} {:>8} {:>11} {:>11} {:>11} {:>9} {:>9} {:>9} {:>9}",
        "",
        "",
        "B",
        "median",
        "least",
        "predicted",
        "each/it",
        "(least)",
        "it/linked",
        "(least)"
    );
    for (op, each, linked) in ops {
        let mut name = op.name;
        for way in op.ways {
            let Some(case) = find(cases, op.name, *way, None) else { continue };
            // The linked client crosses nothing.
            let factor = case.batching_factor.map_or("-".to_owned(), |factor| format!("{factor:.2}"));
            let predicted = case.predicted.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
            anstream::println!(
                "  {name:<7} {:<9} {factor:>8} {:>11.3} {:>11.3} {predicted:>11} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
                way.name(),
                case.value,
                case.min,
                ratio(each.value, case.value),
                ratio(each.min, case.min),
                ratio(case.value, linked.value),
                ratio(case.min, linked.min),
            );
            name = "";
        }
    }
    anstream::println!(
        "  The paper's T2b: B = 2.33 with futures, 1.7 times as fast as one call a crossing, and 1.8 times the\n  \
         time of the linked client; B = 3.47 with promises was calculated."
    );
}
