//! The cases of `bifrost bench actors` in Rust: as tasks of rayon, and as actors of kameo.
//!
//! `actors-rust rayon|kameo CASE THREADS` reads a line N for each run and answers with the processor time in nanoseconds and the result.

mod actors;
mod tasks;
mod work;

use std::io::BufRead;
use std::process::ExitCode;

/// The processor time of the process.
fn now_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, case, threads] = &arguments[..] else { return fail("actors-rust rayon|kameo CASE THREADS") };
    let Ok(threads) = threads.parse() else { return fail("THREADS is a number") };
    let run: Box<dyn Fn(i64) -> Option<i64>> = match &**peer {
        "rayon" => tasks::runner(case, threads),
        "kameo" => actors::runner(case, threads),
        _ => return fail("there is rayon and kameo"),
    };
    for line in std::io::stdin().lock().lines() {
        let Some(n) = line.ok().and_then(|line| line.trim().parse().ok()) else { return fail("N is a number") };
        let start = now_ns();
        let Some(result) = run(n) else { return fail(&format!("{peer} has no case {case}")) };
        println!("{} {result}", now_ns() - start);
    }
    ExitCode::SUCCESS
}

fn fail(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::FAILURE
}
