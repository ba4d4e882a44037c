//! Idle sessions: the memory, threads and descriptors of a server that has many, and those that it
//! keeps when they have gone.
//!
//! The server is a process of its own, and so are the clients: as many processes as the limit of
//! descriptors asks for. Each session says hello, looks an object up, calls it once, and is silent
//! from then on.
//!
//! ```text
//! empty --sessions open--> full --the clients end, one second--> left
//! ```

use std::io::Read;
use std::time::{Duration, Instant};

use bifrost_transport::Address;
use bifrost_wire::{Arg, Value, encode, op};
use indicatif::ProgressBar;

use super::super::bare::{Bare, method, succeeded};
use super::super::common::{Failed, say};
use super::super::helper::Helper;
use super::super::report::{Case, Target};
use super::super::usage::{Usage, processor_ms_of, raise_descriptors};
use super::{ENTRIES, Over, serve};

/// Descriptors of a client process besides those of its sessions.
const OWN_DESCRIPTORS: u64 = 64;
/// Sessions that one client process opens at most: more processes connect at once.
const PROCESS_SESSIONS_MAX: u64 = 5_000;
/// The time in which a server comes to rest.
const REST: Duration = Duration::from_secs(1);
/// The number of sessions to which the goals belong.
const GOAL_SESSIONS: f64 = 10_000.0;
/// The most memory for so many sessions, beyond the empty server.
const FULL_MB_MOST: f64 = 100.0;
/// The most memory that is left when they have gone.
const LEFT_MB_MOST: f64 = 20.0;

/// Opens sessions and keeps them until the input ends: the client process.
///
/// # Errors
/// A session cannot be opened.
pub fn hold(url: &str, count: u64) -> Result<(), Failed> {
    let address: Address = url.parse()?;
    raise_descriptors(count + OWN_DESCRIPTORS);
    let mut first = Bare::connect(&address)?;
    let numbering = first.numbering()?;
    let (entry, value) = (method(&numbering, "Entries", "entry")?, method(&numbering, "Entry", "value")?);
    drop(first);
    let mut held = Vec::new();
    for number in 0..count {
        let mut session = Bare::connect(&address)?;
        let number = Arg::Value(Value::Int(1 + (number as i64) % ENTRIES));
        let found = session.find("entries", entry, &[number])?;
        let mut batch = Vec::new();
        encode::call(&mut batch, value, found, &[]);
        // A transaction that were left open would be ended by its idle time.
        encode::plain(&mut batch, op::COMMIT);
        encode::flush(&mut batch, [1], false);
        session.ask(&batch, |reply, _| succeeded(&reply).map(drop))?;
        held.push(session);
    }
    say("ready")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The figures of one transport.
pub struct Idle {
    /// The transport.
    pub over: Over,
    /// The empty server.
    pub empty: Usage,
    /// The server with all sessions.
    pub full: Usage,
    /// The server after they have gone.
    pub left: Usage,
    /// Seconds in which all were opened.
    pub opening_s: f64,
    /// Processor time of a second in which nothing happens, in milliseconds.
    pub rest_ms: f64,
}

/// Measures so many sessions over a transport.
///
/// # Errors
/// The server does not start, or does not take the sessions.
pub fn measure(over: Over, count: u64, bar: &ProgressBar) -> Result<Idle, Failed> {
    let folder = tempfile::tempdir()?;
    let limit = raise_descriptors(count + OWN_DESCRIPTORS);
    if limit < count + OWN_DESCRIPTORS {
        anstream::eprintln!(
            "note: a process may have {limit} descriptors, and the server needs one for each of {count} sessions; \
             raise the limit (`ulimit -n {}`), or measure fewer with `--idle`",
            count + OWN_DESCRIPTORS
        );
    }
    bar.set_message(format!("{count} idle sessions over {}", over.name()));
    let server = serve(folder.path(), over, count, None)?;
    let url = server.address().to_string();
    // Code is compiled and tables grow at the first session.
    drop(clients(&url, 1, 1)?);
    std::thread::sleep(REST);
    let empty = Usage::of(server.id())?;
    let share = PROCESS_SESSIONS_MAX.min(limit.saturating_sub(OWN_DESCRIPTORS)).max(1);
    let began = Instant::now();
    let held = clients(&url, count, share).map_err(|error| {
        let seen = Usage::of(server.id()).map_or(0, |usage| usage.descriptors);
        format!("{error}; the server has {seen} of at most {limit} descriptors")
    })?;
    let opening_s = began.elapsed().as_secs_f64();
    std::thread::sleep(REST);
    let before = processor_ms_of(server.id())?;
    std::thread::sleep(Duration::from_secs(1));
    let rest_ms = processor_ms_of(server.id())? - before;
    let full = Usage::of(server.id())?;
    drop(held);
    std::thread::sleep(REST);
    let left = Usage::of(server.id())?;
    Ok(Idle { over, empty, full, left, opening_s, rest_ms })
}

/// Starts client processes, and waits until all their sessions are open.
fn clients(url: &str, count: u64, share: u64) -> Result<Vec<Helper>, Failed> {
    let mut left = count;
    let mut helpers = Vec::new();
    while left > 0 {
        let some = left.min(share);
        helpers.push(Helper::start(&["sessions-hold", url, &some.to_string()])?);
        left -= some;
    }
    for helper in &mut helpers {
        helper.ready().map_err(|_| "a client process could not open its sessions")?;
    }
    Ok(helpers)
}

/// Returns megabytes beyond those of the empty server; 0 if there are fewer.
fn beyond(usage: u64, empty: u64) -> f64 {
    usage.saturating_sub(empty) as f64 / 1e6
}

impl Idle {
    /// Returns its figures and goals.
    pub fn report(&self, count: u64) -> (Vec<Case>, Vec<Target>) {
        let Idle { empty, full, left, .. } = self;
        let over = self.over.name();
        let case = |what: &str, unit, value: f64| {
            Case::new(format!("idle, {what}"), count, unit, &mut [value]).part_of("sessions").by(over)
        };
        let (grown, kept) = (beyond(full.pss, empty.pss), beyond(left.pss, empty.pss));
        let cases = vec![
            case("the empty server", "MB", empty.pss as f64 / 1e6),
            case("memory beyond it", "MB", grown),
            case("resident beyond it", "MB", beyond(full.rss, empty.rss)),
            case("memory of each", "B", grown * 1e6 / count as f64),
            case("left after a second", "MB", kept),
            case("threads", "", full.threads as f64),
            case("threads left", "", left.threads as f64),
            case("descriptors", "", full.descriptors as f64),
            case("descriptors left", "", left.descriptors.saturating_sub(empty.descriptors) as f64),
            case("opening of each", "us", self.opening_s * 1e6 / count as f64),
            case("processor time in a second", "ms", self.rest_ms),
        ];
        let share = (count as f64 / GOAL_SESSIONS).min(1.0);
        let most = FULL_MB_MOST * share;
        let targets = vec![
            Target::new(format!("{count} idle sessions over {over}, memory"), grown, most, "MB"),
            Target::new(format!("{count} idle sessions over {over}, left of it"), kept, LEFT_MB_MOST, "MB"),
        ];
        (cases, targets)
    }
}

/// Prints the figures as a table.
pub fn print(count: u64, rows: &[Idle]) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}{count} idle sessions{bold:#}");
    anstream::println!(
        "  {:<6} {:>9} {:>11} {:>10} {:>9} {:>9} {:>12} {:>12} {:>12}",
        "over",
        "empty MB",
        "beyond MB",
        "B of each",
        "left MB",
        "threads",
        "descriptors",
        "us to open",
        "ms CPU / s"
    );
    for row in rows {
        let grown = beyond(row.full.pss, row.empty.pss);
        anstream::println!(
            "  {:<6} {:>9.1} {:>11.1} {:>10.0} {:>9.1} {:>9} {:>12} {:>12.0} {:>12.0}",
            row.over.name(),
            row.empty.pss as f64 / 1e6,
            grown,
            grown * 1e6 / count as f64,
            beyond(row.left.pss, row.empty.pss),
            row.full.threads,
            row.full.descriptors,
            row.opening_s * 1e6 / count as f64,
            row.rest_ms
        );
    }
    anstream::println!(
        "  MB are those of the system's `Pss`; `left` is beyond the empty server, a second after all have gone"
    );
}
