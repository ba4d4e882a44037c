//! `bifrost bench kills`: a server that is killed again and again under load, and a check of all
//! that it had acknowledged.
//!
//! Each session counts in an object of its own and in one that all share. It does so in one
//! transaction, which is a batch that is done once. When the connection breaks, it connects again
//! and sends the batch that was not answered again, under the same name. So in the end the count of
//! a session is exactly the number of its answers, and that of all is their sum.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bifrost_veneer::{BatchName, Error, How, Session};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::common::Failed;
use crate::process::ServerProcess;

#[rustfmt::skip]
#[path = "../../../../examples/database/rust/src/bifrost_stubs.rs"]
#[allow(clippy::all, reason = "generated")]
mod stubs;

use stubs::DataBase;

/// The program that is served.
const DATABASE: &str = include_str!("../../../../examples/database/database.theta");
/// The name of the object that all sessions count in.
const ALL: &str = "all";
/// The range of times that a server lives before it is killed, in milliseconds.
const LIVES_MS: std::ops::Range<u64> = 20..250;
/// The longest time until sessions get their last answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments of `bifrost bench kills`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Ends with an error if an acknowledged commit is lost, or was done twice.\n\nExamples:\n  \
                  bifrost bench kills\n  bifrost bench kills --kills 1000 --sessions 16"
)]
pub struct Args {
    /// The number of times that the server is killed
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// The number of sessions that work
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    sessions: u32,
    /// Where the objects are kept: a folder without a store, or the URL of an empty database
    /// [default: a temporary folder]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// The seed of the times between kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The state that the sessions share.
struct Load {
    /// The server's address.
    url: Mutex<String>,
    /// True if a session is to stop after the next answer.
    over: AtomicBool,
    answers: AtomicU64,
    /// Batches that were sent again.
    again: AtomicU64,
    conflicts: AtomicU64,
    mistakes: Mutex<Vec<String>>,
}

/// Runs the command.
///
/// # Errors
/// A server does not start, or something is lost or done twice.
pub fn run(args: &Args) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let store = args.store.clone().unwrap_or_else(|| folder.path().join("store").display().to_string());
    let mut generation = 0_u64;
    let mut start = || -> Result<ServerProcess, Failed> {
        generation += 1;
        let listen = format!("unix://{}", folder.path().join(format!("{generation}")).display());
        Ok(ServerProcess::start(folder.path(), DATABASE, &["--listen", &listen, "--store", &store])?)
    };
    let mut server = start()?;
    make(&server, args.sessions)?;
    let load = Load {
        url: Mutex::new(server.address().to_string()),
        over: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        again: AtomicU64::new(0),
        conflicts: AtomicU64::new(0),
        mistakes: Mutex::default(),
    };
    let bar = ProgressBar::new(args.kills);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len} kills, {msg}")?);
    let mut mixed = args.seed;
    let mut restarts: Vec<f64> = Vec::new();
    let (began, mut counts) = (Instant::now(), Vec::new());
    let killed: Result<(), Failed> = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..args.sessions)
            .map(|n| {
                scope.spawn({
                    let load = &load;
                    move || count(load, n)
                })
            })
            .collect();
        let mut kill = || -> Result<(), Failed> {
            for _ in 0..args.kills {
                // The minimal standard generator (Park and Miller 1988): any will do.
                mixed = (mixed + 1).wrapping_mul(48_271) % 0x7fff_ffff;
                std::thread::sleep(Duration::from_millis(
                    LIVES_MS.start + mixed % (LIVES_MS.end - LIVES_MS.start),
                ));
                // In the middle of its work.
                server.kill();
                let again = Instant::now();
                server = start()?;
                restarts.push(again.elapsed().as_secs_f64() * 1e3);
                *load.url.lock() = server.address().to_string();
                bar.inc(1);
                bar.set_message(format!("{} commits acknowledged", load.answers.load(Ordering::Relaxed)));
                if !load.mistakes.lock().is_empty() {
                    break;
                }
            }
            Ok(())
        };
        let killed = kill();
        load.over.store(true, Ordering::Relaxed);
        for session in sessions {
            counts.push(session.join().map_err(|_| "a session panicked")?);
        }
        killed
    });
    let lasted = began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    killed?;
    compare(&server, &counts, &load)?;
    drop(server);
    restarts.sort_unstable_by(f64::total_cmp);
    let median = restarts.get(restarts.len() / 2).copied().unwrap_or_default();
    let answers = load.answers.load(Ordering::Relaxed);
    anstream::println!(
        "{} kills under {} sessions: {answers} commits acknowledged ({:.0}/s), 0 lost, 0 done twice; {} batches sent again, {} given up \
         because of conflicts and sent again; back after {median:.0} ms (median)",
        restarts.len(),
        args.sessions,
        answers as f64 / lasted,
        load.again.load(Ordering::Relaxed),
        load.conflicts.load(Ordering::Relaxed),
    );
    Ok(())
}

fn name(session: u32) -> String {
    format!("session {session}")
}

/// Makes the objects that the sessions count in.
fn make(server: &ServerProcess, sessions: u32) -> Result<(), Failed> {
    let session = stubs::connect(&server.address().to_string())?;
    let db: DataBase = session.lookup("database");
    session.transaction(How::default(), || {
        db.new_user(ALL);
        (0..sessions).for_each(|n| drop(db.new_user(name(n))));
    })?;
    session.close()?;
    Ok(())
}

/// Does one session's work, over as many connections as it takes. Returns the number of its
/// answers.
fn count(load: &Load, number: u32) -> i64 {
    let own = name(number);
    let client = u128::from(number) + 1;
    let mut answers = 0_i64;
    let mut sent = 0;
    let mut since = Instant::now();
    let mistake = |text: String| load.mistakes.lock().push(format!("session {number}: {text}"));
    'connections: loop {
        if since.elapsed() > PATIENCE {
            mistake(format!("no answer within {} s", PATIENCE.as_secs()));
            return answers;
        }
        let url = load.url.lock().clone();
        let Ok(session) = Session::builder(&stubs::INTERFACE).timeout(Duration::from_secs(10)).connect(&url)
        else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let db: DataBase = session.lookup("database");
        loop {
            let batch = BatchName { client, number: answers as u64 + 1 };
            let fresh = sent < answers + 1;
            if fresh && load.over.load(Ordering::Relaxed) {
                return answers;
            }
            load.again.fetch_add(u64::from(!fresh), Ordering::Relaxed);
            sent = answers + 1;
            let counted = session.transaction(How::default().named(batch), || {
                let mine = db.fetch(own.as_str());
                mine.touch();
                db.fetch(ALL).touch();
                mine.visits()
            });
            match counted.and_then(|count| count.claim()) {
                Ok(count) if count == answers + 1 => {
                    answers = count;
                    since = Instant::now();
                    load.answers.fetch_add(1, Ordering::Relaxed);
                }
                Ok(count) => {
                    mistake(format!("the count is {count} after {answers} answers"));
                    return answers;
                }
                Err(Error::Closed(_)) => continue 'connections,
                // More sessions than tries: nothing of it was done.
                Err(Error::Refused { number, .. })
                    if number == bifrost_wire::ErrorNumber::Conflict as u32 =>
                {
                    load.conflicts.fetch_add(1, Ordering::Relaxed);
                    session.clear_exceptions();
                }
                Err(error) => {
                    mistake(error.to_string());
                    return answers;
                }
            }
        }
    }
}

/// Compares the stored counts with the acknowledged ones.
fn compare(server: &ServerProcess, counts: &[i64], load: &Load) -> Result<(), Failed> {
    let session = stubs::connect(&server.address().to_string())?;
    let db: DataBase = session.lookup("database");
    let stored: Vec<_> = (0..counts.len()).map(|n| db.fetch(name(n as u32)).visits()).collect();
    let all = db.fetch(ALL).visits();
    let mut mistakes = load.mistakes.lock().clone();
    for (n, (stored, count)) in stored.into_iter().zip(counts).enumerate() {
        let stored = stored.claim()?;
        if stored != *count {
            mistakes.push(format!("session {n} was answered {count} times, and {stored} are stored"));
        }
    }
    let (all, sum) = (all.claim()?, counts.iter().sum::<i64>());
    if all != sum {
        mistakes.push(format!("all sessions were answered {sum} times, and {all} are stored"));
    }
    session.close()?;
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes.join("\n").into()) }
}
