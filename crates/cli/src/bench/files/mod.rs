//! `bifrost bench files`: clients that copy files from our server, and from others over omniORB and
//! gRPC (004 section 6.2).
//!
//! Read [`Subject`] first: a system with a file server, its tasks and its counts.
//! [`run`] has all of them measured ([`contest`]), predicts their queues ([`queue`]), and prints
//! the paper's table with the paper's figures ([`table`]). [`super::blocking`] uses the same parts
//! for section 6.3.

#[rustfmt::skip]
#[allow(clippy::all, dead_code, reason = "generated")]
mod bifrost_stubs;
pub mod contest;
mod disk;
pub mod goals;
mod ours;
pub mod peers;
pub mod queue;
pub mod subject;
pub mod table;

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::common::{Failed, note_debug_build};
use super::report::{self, JsonLines};
use contest::Plan;
use peers::{Peer, Tool};
use subject::{Files, Over, Slow, Subject, Way};
use table::Last;

/// The most bytes of a file.
const SIZE_MAX: u64 = 64 << 20;
/// The most tasks of a server, and the most clients.
const MANY_MAX: i64 = 64;

/// The arguments of `bifrost bench files`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Use a release build. Peers are measured if they are installed; on Debian:
  apt-get install g++ omniidl libomniorb4-dev protobuf-compiler-grpc libgrpc++-dev libprotobuf-dev

Columns: QLEN, invocations that wait when another one arrives; NACT, active tasks when another one is
dequeued; pred, their predictions; COPYTIME, the median time of one client's copy; slower, this time in
copies of the quickest system and way of these lines; CPU ms, processor time of server and client for a
copy. Lines of the paper are in seconds.

Ways: single, each read when the one before is answered; flight, several reads under way; batch, all reads
in one crossing; stream, one call that answers in parts; whole, the file in one read.

Examples:
  bifrost bench files
  bifrost bench files --size 256K --tasks 1,2 --clients 4 --over unix --peers grpc
  bifrost bench files --json files.jsonl")]
pub struct Args {
    /// The bytes of a file; K and M for 1024 and 1024 * 1024 of them
    #[arg(long, value_name = "N", default_value = "1M", value_parser = size)]
    size: u64,
    /// The bytes of a read
    #[arg(long, value_name = "N", default_value = "4096", value_parser = size)]
    block: u64,
    /// The numbers of tasks of a server
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 4],
        value_parser = clap::value_parser!(u32).range(1..=MANY_MAX))]
    tasks: Vec<u32>,
    /// The numbers of clients that copy at the same time
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 4, 8],
        value_parser = clap::value_parser!(u32).range(1..=MANY_MAX))]
    clients: Vec<u32>,
    /// The transports. Peers have only `unix` and `tcp`
    #[arg(long, value_delimiter = ',', default_value = "shm,unix,tls")]
    over: Vec<Over>,
    /// The reads under way where several are
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    in_flight: u32,
    #[command(flatten)]
    common: Common,
}

/// The arguments that both experiments have.
#[derive(Debug, ClapArgs)]
pub struct Common {
    /// The copies of each client at each point; one before them does not count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// The other systems to measure [default: all]
    #[arg(long, value_delimiter = ',')]
    pub peers: Option<Vec<Peer>>,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The arguments of the server and the clients of ours.
#[derive(Debug, ClapArgs)]
pub struct ServerArgs {
    #[command(subcommand)]
    what: ServerWhat,
}

#[derive(Debug, clap::Subcommand)]
enum ServerWhat {
    Serve { address: String, folder: PathBuf, tasks: u32 },
    Client { place: String, name: String, path: PathBuf, block: u32 },
}

/// Runs the server or a client of ours, for the process that measures.
///
/// # Errors
/// It does not start.
pub fn run_ours(args: &ServerArgs) -> Result<(), Failed> {
    match &args.what {
        ServerWhat::Serve { address, folder, tasks } => {
            let (over, place) = address.split_once(':').ok_or("an address is a transport and a folder")?;
            ours::serve(Over::from_str(over, false)?, folder, *tasks, Path::new(place))
        }
        ServerWhat::Client { place, name, path, block } => ours::client(place, name, path, *block),
    }
}

pub use ours::registry;

/// Reads a number of bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = bytes.filter(|bytes| (1..=SIZE_MAX).contains(bytes));
    bytes.ok_or_else(|| "write a number of bytes from 1 to 64M, as in 4096, 256K, 1M".to_owned())
}

/// Prepares the systems that are wanted and there, and says which are not.
///
/// # Errors
/// There is none.
pub fn subjects(common: &Common, folder: &Path, bar: &ProgressBar) -> Result<Vec<Box<dyn Subject>>, Failed> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![Box::new(Tool::ours()?)];
    let mut wanted = Vec::new();
    for peer in common.peers.as_deref().unwrap_or(&Peer::ALL) {
        if !wanted.contains(peer) {
            wanted.push(*peer);
        }
    }
    for peer in wanted {
        bar.set_message(format!("making the programs of {}", peer.name()));
        let place = folder.join(peer.name());
        std::fs::create_dir(&place)?;
        match peer.prepare(&place) {
            Ok(tool) => {
                bar.suspend(|| anstream::println!("{}: {}", peer.name(), tool.version));
                subjects.push(Box::new(tool));
            }
            Err(why) => {
                bar.suspend(|| anstream::eprintln!("note: {} is not measured: {why}", peer.name()));
            }
        }
    }
    Ok(subjects)
}

/// Returns the systems that are measured over a transport, and says if there is none.
pub fn going_over<'a>(
    subjects: &'a [Box<dyn Subject>],
    over: Over,
    bar: &ProgressBar,
) -> Vec<&'a dyn Subject> {
    let going: Vec<&dyn Subject> = subjects.iter().map(Box::as_ref).filter(|s| s.goes_over(over)).collect();
    if going.is_empty() {
        let name = over.name();
        bar.suspend(|| anstream::eprintln!("note: nothing is measured over {name}: no system here has it"));
    }
    going
}

/// Prints the head of a table.
pub fn print_head(title: &str, last: &Last<'_>) {
    let bold = anstyle::Style::new().bold();
    anstream::println!("\n{bold}{title}{bold:#}\n{}", table::head(last));
}

/// Makes the bar that shows the progress.
///
/// # Errors
/// Its template is wrong.
pub fn spinner() -> Result<ProgressBar, Failed> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    Ok(bar)
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
    let subjects = subjects(&args.common, tools.path(), &bar)?;
    let most = args.clients.iter().copied().max().unwrap_or_default();
    let files = Files::create(most, args.size, args.block)?;
    let mut targets = Vec::new();
    for over in args.over.iter().copied() {
        let going = going_over(&subjects, over, &bar);
        if going.is_empty() {
            continue;
        }
        let title =
            format!("Copies of {} bytes by reads of {}, over {}", files.size, files.block, over.name());
        bar.suspend(|| print_head(&title, &Last::Costs));
        let plan = Plan {
            over,
            tasks: &args.tasks,
            clients: &args.clients,
            rounds: args.common.rounds,
            ways: &Way::ALL,
            flight: args.in_flight,
            slow: Slow::default(),
        };
        let all = contest::measure(&going, &plan, &files, &bar, |measured| {
            for line in table::lines(measured, &table::FILES, &Last::Costs) {
                anstream::println!("{line}");
            }
            for row in &measured.rows {
                json.write(&row.cases("files", &measured.point))?;
            }
            Ok(())
        })?;
        targets.extend(goals::of_files(&all));
    }
    bar.finish_and_clear();
    if !targets.is_empty() {
        report::print_targets(&targets);
    }
    json.write(&targets)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_a_limit() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!((size("256K"), size("1M"), size("64M")), (Ok(256 << 10), Ok(1 << 20), Ok(SIZE_MAX)));
        for text in ["", "0", "K", "-1", "1G", "1 M", "65M", "67108865", "99999999999999999999M", "1.5M"] {
            assert!(size(text).unwrap_err().contains("from 1 to 64M"), "{text}");
        }
    }
}
