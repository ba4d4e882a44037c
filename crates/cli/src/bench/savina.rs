//! `bifrost bench savina`: ten programs of the Savina suite (Imam and Sarkar, AGERE 2014) with its
//! sizes.
//!
//! The programs are in `bench/savina`, and check their results. They run in processes as those of
//! `bench actors`; the clock stands still while a process starts and compiles.

use clap::Args as ClapArgs;

use super::actors::peers::our_command;
use super::common::{Failed, note_debug_build};
use super::process::Process;
use super::report::{self, Case, JsonLines};

/// The arguments of `bifrost bench savina`.
#[derive(Debug, ClapArgs)]
#[command(after_help = after_help())]
pub struct Args {
    /// The programs to run [default: all]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// The number of nodes; on one, figures are processor time, on more the time that passes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    nodes: u32,
    /// The number of runs of each; a figure is the median
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: u32,
    /// Write the figures as JSON, one object a line; `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
    /// Small sizes: enough to see that everything works
    #[arg(long)]
    quick: bool,
}

/// A program.
struct Program {
    name: &'static str,
    about: &'static str,
    theta: &'static str,
    /// The count of operations with the sizes of the suite, and the first number that it prints.
    suite: (i64, i64),
    /// Small sizes, and the same with them.
    quick: (&'static str, i64, i64),
}

macro_rules! programs {
    ($($name:literal, $about:literal, $suite:expr, $quick:expr;)*) => {
        [$(Program {
            name: $name,
            about: $about,
            theta: include_str!(concat!("../../../../bench/savina/", $name, ".theta")),
            suite: $suite,
            quick: $quick,
        }),*]
    };
}

static PROGRAMS: [Program; 10] = programs! {
    "banking", "transfers between 1,000 accounts, each answered before its account goes on",
        (50_000, 50_000), ("20 500", 500, 500);
    "big", "pings among 120 actors, to any of them, each answered", (2_400_000, 120), ("50 12", 600, 12);
    "boundedbuffer", "items from 40 producers to 40 consumers through a buffer of 50, with work for each",
        (40_000, 40_000), ("5 4 3 20 1 2", 80, 80);
    "chameneos", "meetings of 100 creatures", (200_000, 100), ("10 500", 500, 10);
    "counting", "messages to a counter", (1_000_000, 1_000_000), ("1000", 1000, 1000);
    "fjcreate", "actors, each made for one message", (40_000, 40_000), ("200", 200, 200);
    "fjthroughput", "messages to 60 actors in turn", (600_000, 60), ("6 100", 600, 6);
    "philosophers", "meals of 20 philosophers", (200_000, 20), ("5 100", 500, 5);
    "pingpong", "rounds between two actors", (40_000, 40_000), ("100", 100, 100);
    "threadring", "passes around a ring of 100 actors", (100_000, 100_000), ("7 1000", 1000, 1000);
};

/// The source that all of them import.
pub const SHARED: (&str, &str) = ("savina.theta", include_str!("../../../../bench/savina/savina.theta"));

fn after_help() -> String {
    let mut text = "Use a release build.\n\nPrograms, and their counted operations with the sizes of the \
            suite:\n"
        .to_owned();
    for program in &PROGRAMS {
        text.push_str(&format!("  {:<13} {:>9} {}\n", program.name, program.suite.0, program.about));
    }
    text.push_str(
        "\nExamples:\n  bifrost bench savina\n  bifrost bench savina counting big --nodes 2 --samples 9",
    );
    text
}

/// Returns the text of a program.
pub fn program(name: &str) -> Option<&'static str> {
    PROGRAMS.iter().find(|it| it.name == name).map(|program| program.theta)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failed> {
    note_debug_build();
    if let Some(unknown) = args.programs.iter().find(|name| program(name).is_none()) {
        return Err(
            format!("there is no program `{unknown}`; `bifrost bench savina --help` lists them").into()
        );
    }
    let mut json = JsonLines::create(args.json.as_deref())?;
    let mut figures = Vec::new();
    let wanted =
        |program: &&Program| args.programs.is_empty() || args.programs.iter().any(|it| it == program.name);
    for program in PROGRAMS.iter().filter(wanted) {
        let (sizes, counts, prints) = match args.quick {
            true => program.quick,
            false => ("", program.suite.0, program.suite.1),
        };
        let mut process = Process::start("bifrost", &mut our_command(program.name, args.nodes)?)?;
        // Code that is compiled when it is first used is ready from then on.
        process.run_with(program.quick.0)?;
        let mut each = Vec::new();
        for _ in 0..args.samples {
            let ran = process.run_with(sizes)?;
            if ran.sample.result != prints {
                return Err(format!("`{}` prints {}, not {prints}", program.name, ran.sample.result).into());
            }
            let ms = if args.nodes == 1 { ran.sample.ms } else { ran.wall_ms };
            each.push(ms * 1e6 / counts as f64);
        }
        figures.push(
            Case::new(program.name.to_owned(), counts as u64, "ns", &mut each)
                .part_of("savina")
                .gives(prints),
        );
    }
    let title = match args.nodes {
        1 => "The Savina suite on one node: processor time for each counted operation".to_owned(),
        nodes => format!("The Savina suite on {nodes} nodes: elapsed time for each counted operation"),
    };
    report::print_cases(&title, &figures);
    json.write(&figures)?;
    Ok(())
}
