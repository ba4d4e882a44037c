//! `bifrost bench blocking`: copies whose reads compute and block, as 004 section 6.3 has them, and
//! the speed-up that more tasks give.
//!
//! It is `bench files` ([`super::files`]) with slow reads, each sent when the one before is
//! answered. With `--null` it measures calls that do nothing instead, beside a futex ping-pong
//! ([`super::futex`]): two wake-ups are the least that a call of another thread can cost.

use clap::Args as ClapArgs;
use indicatif::ProgressBar;

use super::common::{Failed, note_debug_build};
use super::files::contest::{self, Plan};
use super::files::subject::{Files, OURS, Over, Slow, Subject, Way, Work};
use super::files::table::{self, Last, speed_up};
use super::files::{Common, goals, going_over, print_head, size, spinner, subjects};
use super::futex;
use super::report::{self, Case, JsonLines, Target};

/// The name of the case whose calls a loop at the server makes.
const IN_A_LOOP: &str = "null call in a loop";
/// The calls of a sample of `--null`.
const NULL_CALLS: u32 = 2000;
/// The most microseconds of a call of our server that does nothing, beyond a futex ping-pong.
const NULL_BEYOND_US_MOST: f64 = 3.0;
/// The most microseconds that a read computes or blocks.
const SLOW_US_MAX: i64 = 1_000_000;
/// The case to which calls are compared.
const PING_PONG: &str = "ping-pong, two threads";

/// The arguments of `bifrost bench blocking`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. Peers are measured if they are installed; on Debian:
  apt-get install g++ omniidl libomniorb4-dev protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev

Columns: QLEN, invocations that wait when another one arrives; NACT, active tasks when another one is
dequeued; pred, their predictions; COPYTIME, the median time of one client's copy; speed-up, against one
task. Lines of the paper are in seconds.

Examples:
  bifrost bench blocking
  bifrost bench blocking --block-us 500 --compute-us 0 --tasks 1,2,8 --clients 8 --peers grpc
  bifrost bench blocking --null --json null.jsonl")]
pub struct Args {
    /// The microseconds that a read blocks
    #[arg(long, value_name = "N", default_value_t = 2000,
        value_parser = clap::value_parser!(u32).range(0..=SLOW_US_MAX))]
    block_us: u32,
    /// The microseconds of processor time that it takes before
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(0..=SLOW_US_MAX))]
    compute_us: u32,
    /// The bytes of a file; K and M for 1024 and 1024 * 1024 of them
    #[arg(long, value_name = "N", default_value = "256K", value_parser = size)]
    size: u64,
    /// The bytes of a read
    #[arg(long, value_name = "N", default_value = "4096", value_parser = size)]
    block: u64,
    /// The numbers of tasks of a server
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 3, 4],
        value_parser = clap::value_parser!(u32).range(1..=64))]
    tasks: Vec<u32>,
    /// The numbers of clients that copy at the same time
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [4],
        value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: Vec<u32>,
    /// The transports. Peers have only `unix` and `tcp`
    #[arg(long, value_delimiter = ',', default_value = "unix")]
    over: Vec<Over>,
    /// Measure calls that do nothing, beside a futex ping-pong
    #[arg(long)]
    null: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
///
/// # Errors
/// A server does not start, or a client fails.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    let mut json = JsonLines::create(args.common.json.as_deref())?;
    let bar = spinner()?;
    let tools = tempfile::tempdir()?;
    let targets = match args.null {
        true => {
            let (cases, targets) = null(args, tools.path(), &bar)?;
            json.write(&cases)?;
            bar.suspend(|| report::print_cases("Calls that do nothing, each after the last", &cases));
            targets
        }
        false => copies(args, tools.path(), &mut json, &bar)?,
    };
    bar.finish_and_clear();
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    json.write(&targets)?;
    Ok(())
}

/// Measures the copies.
fn copies(
    args: &Args,
    tools: &std::path::Path,
    json: &mut JsonLines,
    bar: &ProgressBar,
) -> Result<Vec<Target>, Failed> {
    let subjects = subjects(&args.common, tools, bar)?;
    let most = args.clients.iter().copied().max().unwrap_or_default();
    let files = Files::create(most, args.size, args.block)?;
    let mut targets = Vec::new();
    for over in args.over.iter().copied() {
        let going = going_over(&subjects, over, bar);
        if going.is_empty() {
            continue;
        }
        let Args { compute_us, block_us, .. } = *args;
        let Files { size, block, .. } = files;
        let title = format!(
            "Copies of {size} bytes by reads of {block}, each of which computes {compute_us} us and blocks \
             {block_us} us, over {}",
            over.name()
        );
        bar.suspend(|| print_head(&title, &Last::SpeedUp(&[])));
        let plan = Plan {
            over,
            tasks: &args.tasks,
            clients: &args.clients,
            rounds: args.common.rounds,
            ways: &[Way::Single],
            flight: 1,
            slow: Slow { compute_us, block_us },
        };
        let mut alone = Vec::new();
        let all = contest::measure(&going, &plan, &files, bar, |measured| {
            for line in table::lines(measured, &table::BLOCKING, &Last::SpeedUp(&alone)) {
                anstream::println!("{line}");
            }
            for row in &measured.rows {
                json.write(&row.cases("blocking", &measured.point))?;
                if let Some((value, predicted)) = speed_up(row, measured, &alone) {
                    let (point, way) = (&measured.point, row.way.name());
                    let name = format!("{way}, {} tasks, {} clients: speed-up", point.tasks, point.clients);
                    let case = Case::new(name, point.clients.into(), "x", &mut [value]).part_of("blocking");
                    json.write(&[case.of(row.system).by(over.name()).predicted(predicted)])?;
                }
            }
            if measured.point.tasks == 1 {
                alone.push(contest::Measured { point: measured.point, rows: measured.rows.clone() });
            }
            Ok(())
        })?;
        targets.extend(goals::of_blocking(&all));
    }
    Ok(targets)
}

/// Measures calls that do nothing, and the ping-pong.
fn null(args: &Args, tools: &std::path::Path, bar: &ProgressBar) -> Result<(Vec<Case>, Vec<Target>), Failed> {
    let rounds = args.common.rounds;
    // The ping-pong is measured where no other system is.
    let subjects = subjects(&args.common, tools, bar).unwrap_or_default();
    let files = Files::create(1, 1, 1)?;
    bar.set_message("futex ping-pong");
    let mut cases = Vec::new();
    let mut baseline = |case: String, mut times: Vec<f64>| {
        cases.push(Case::new(case, 1, "us", &mut times).part_of("blocking").of("futex"));
    };
    // Calls run where the system puts them; the others show what a wake-up of another core costs.
    for (place, cores) in [("", None), (", one core", Some([0, 0])), (", two cores", Some([0, 1]))] {
        baseline(format!("{PING_PONG}{place}"), futex::between_threads(rounds, cores)?);
        baseline(format!("ping-pong, two processes{place}"), futex::between_processes(rounds, cores)?);
    }
    for over in args.over.iter().copied() {
        for subject in subjects.iter().map(Box::as_ref).filter(|subject| subject.goes_over(over)) {
            bar.set_message(format!("{} over {}", subject.name(), over.name()));
            cases.push(null_calls(subject, over, rounds, &files, Work::Null(NULL_CALLS))?);
            if subject.name() == OURS {
                cases.push(null_calls(subject, over, rounds, &files, Work::Loop(NULL_CALLS))?);
            }
        }
    }
    let targets = beyond(&cases);
    Ok((cases, targets))
}

/// Measures calls of a system that do nothing.
fn null_calls(
    subject: &dyn Subject,
    over: Over,
    rounds: u32,
    files: &Files,
    work: Work,
) -> Result<Case, Failed> {
    let folder = tempfile::tempdir()?;
    let mut server = contest::start(subject, over, 1, files, folder.path())?;
    server.connect(1)?;
    let mut times = Vec::new();
    for _ in 0..=rounds {
        let done = server.run(&work)?;
        times.extend(done.iter().map(|done| done.ns as f64 / 1e3 / f64::from(NULL_CALLS)));
    }
    // The first sample warms up.
    let name = match work {
        Work::Loop(_) => IN_A_LOOP.to_owned(),
        _ => format!("null call over {}", over.name()),
    };
    let case = Case::new(name, 1, "us", &mut times[1..]);
    Ok(case.part_of("blocking").of(subject.name()).by(over.name()))
}

/// Returns the goal of our server's null calls: one in a loop at the server is two wake-ups, as an
/// exchange of the ping-pong is. One of a client crosses besides.
fn beyond(cases: &[Case]) -> Vec<Target> {
    let ping_pong = cases.iter().find(|case| case.case == PING_PONG).map_or(f64::NAN, |case| case.value);
    let ours = cases.iter().filter(|case| case.case == IN_A_LOOP);
    let goal = |case: &Case| {
        // A call that is quicker than the ping-pong is not beyond it.
        let beyond = (case.value - ping_pong).max(0.0);
        Target::new(format!("{} beyond a futex ping-pong", case.case), beyond, NULL_BEYOND_US_MOST, "us")
    };
    ours.map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_null_call_is_compared_with_two_threads() {
        let case = |name: &str, peer, us| Case::new(name, 1, "us", &mut [us]).of(peer);
        let with = |us| {
            let cases = [
                case("ping-pong, two threads, one core", "futex", 1.0),
                case(PING_PONG, "futex", 10.0),
                case("null call over unix", "grpc", 90.0),
                case("null call over shm", OURS, 70.0),
                case(IN_A_LOOP, OURS, us),
            ];
            let goals = beyond(&cases);
            (goals.len(), goals[0].value, goals[0].reached)
        };
        assert_eq!(with(12.5), (1, 2.5, true));
        assert_eq!(with(13.5), (1, 3.5, false));
        assert_eq!(with(9.0), (1, 0.0, true));
        assert!(beyond(&[case("null call over unix", "grpc", 90.0)]).is_empty());
    }
}
