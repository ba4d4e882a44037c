//! `bifrost store`: what is in a store, whether it is sound, and what it can do without.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use bifrost_repository::record::to_json;
use bifrost_repository::{Oref, Progress, Repository, embedded};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};

/// Look into the store of a server, which must not be running
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost store info bank.store
  bifrost store dump bank.store | grep Account")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Say how many objects there are, and how many bytes they take
    Info(Place),
    /// Read everything, and say what is wrong; the exit status is 1 if something is
    Check(Place),
    /// Print every object as a line of JSON
    Dump(Folder),
    /// Free the objects that nothing leads to
    Gc(Place),
}

#[derive(clap::Args, Debug)]
struct Folder {
    /// The folder of the store
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Place {
    #[command(flatten)]
    folder: Folder,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How many objects are read at once.
const OBJECTS_AT_ONCE: usize = 1000;

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Info(place) => info(place),
        Command::Check(place) => check(place),
        Command::Dump(folder) => dump(&folder.folder),
        Command::Gc(place) => gc(place),
    }
}

/// Opens a store that is there.
fn open(folder: &Path) -> Result<embedded::Embedded, Failure> {
    if !embedded::exists(folder) {
        let why = format!("there is no store in `{}`", folder.display());
        return Err(Failure::new(Exit::Failed, why).help("`bifrost serve --store DIR` makes one"));
    }
    embedded::open(folder, &embedded::Options::default()).map_err(failed)
}

fn failed(error: bifrost_repository::Error) -> Failure {
    Failure::new(Exit::Failed, error)
}

/// A bar that is shown on terminals only.
fn bar(what: &'static str) -> impl FnMut(Progress) {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len} objects");
    bar.set_style(style.expect("the template is one"));
    bar.set_message(what);
    move |progress| {
        bar.set_length(progress.of.max(progress.done));
        bar.set_position(progress.done);
    }
}

fn info(place: &Place) -> Outcome {
    let store = open(&place.folder.folder)?;
    let info = store.info().map_err(failed)?;
    let figures = [
        ("objects", info.objects),
        ("classes", info.classes),
        ("commits", info.head.0),
        ("base_bytes", info.base_bytes),
        ("buffered_bytes", info.buffered_bytes),
        ("log_bytes", info.log_bytes),
        ("sessions", info.sessions),
    ];
    if place.json {
        let all: serde_json::Map<_, _> =
            figures.map(|(name, n)| (name.to_owned(), n.into())).into_iter().collect();
        println!("{}", serde_json::Value::Object(all));
    } else {
        for (name, n) in figures {
            println!("{:<15}{n}", name.replace('_', " "));
        }
    }
    Ok(())
}

fn check(place: &Place) -> Outcome {
    let store = open(&place.folder.folder)?;
    let report = store.check(&mut bar("checking")).map_err(failed)?;
    let mistakes: Vec<String> = report.mistakes.iter().map(ToString::to_string).collect();
    if place.json {
        let all = json!({
            "objects": report.objects,
            "bytes": report.bytes,
            "references": report.references,
            "mistakes": mistakes,
        });
        println!("{all}");
    } else {
        println!("{} objects, {} bytes, {} references", report.objects, report.bytes, report.references);
        mistakes.iter().for_each(|mistake| println!("{mistake}"));
    }
    match mistakes.len() {
        0 => Ok(()),
        count => Err(Failure::new(Exit::Failed, format!("mistakes in the store: {count}"))
            .help("restore it from a copy")),
    }
}

/// Every object is a line with its oref, the commit that wrote it, and its record.
fn dump(folder: &Path) -> Outcome {
    let store = open(folder)?;
    let written = |error: std::io::Error| Failure::new(Exit::Failed, format!("cannot write: {error}"));
    let mut out = BufWriter::new(std::io::stdout().lock());
    let classes = store.classes();
    let mut from = Some(Oref::ROOT);
    while let Some(first) = from {
        let some = store.scan(first, OBJECTS_AT_ONCE).map_err(failed)?;
        for (oref, stored) in &some {
            let record = to_json(&stored.bytes, &classes[..]);
            let record =
                record.map_err(|source| failed(bifrost_repository::Error::Record { oref: *oref, source }))?;
            let line = json!({"oref": oref.get(), "commit": stored.tid.0, "record": record});
            writeln!(out, "{line}").map_err(written)?;
        }
        from = some.last().and_then(|(last, _)| Oref::new(last.get() + 1));
    }
    out.flush().map_err(written)
}

fn gc(place: &Place) -> Outcome {
    let store = open(&place.folder.folder)?;
    let collected = store.collect(&mut bar("collecting")).map_err(failed)?;
    if place.json {
        let all =
            json!({"live": collected.live, "freed": collected.freed, "freed_bytes": collected.freed_bytes});
        println!("{all}");
    } else {
        println!(
            "{} objects live, {} were freed, {} bytes",
            collected.live, collected.freed, collected.freed_bytes
        );
    }
    Ok(())
}
