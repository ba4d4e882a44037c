//! `bifrost store`: the contents of a store, its soundness, the parts that it can do without, and
//! the ways to copy it.

mod making;

use std::io::BufWriter;
use std::ops::ControlFlow;

use bifrost_repository::dump;
use clap::Subcommand;
use serde_json::json;

use crate::common::store::{bar, open};
use crate::failure::{Exit, Failure, Outcome};

/// Look into a store; if it is a folder, no server may have it open but for `backup`
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost store info bank.store
  bifrost store dump bank.store > bank.jsonl
  bifrost store load other.store bank.jsonl
  bifrost store load postgres://ann@db.example/bank bank.jsonl
  bifrost store backup bank.store bank.backup
  bifrost store gc postgres://ann@db.example/bank")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print the identity of the store, and the number of objects and of their bytes
    Info(Asked),
    /// Read everything, and report damage; the exit status is 1 if there is some
    Check(Asked),
    /// Print every class and every object as a line of JSON
    Dump(Where),
    /// Make a new store from the output of `dump`
    ///
    /// Objects keep their orefs. A dump that is wrong somewhere is refused with the number of the
    /// line, and nothing is made. A store in a database is made in many transactions; no server
    /// opens it before the last.
    Load(making::Load),
    /// Copy a store to a new folder; a server may have it open
    ///
    /// Without a server the files are copied. A server that has the store open sends its contents
    /// at one commit, while its sessions go on; the copy is checked before it gets its name. The
    /// user is that of the server, or root.
    Backup(making::Backup),
    /// Free the objects that are not reachable
    Gc(Asked),
}

#[derive(clap::Args, Debug)]
struct Where {
    /// The folder of the store, or the URL of its database
    #[arg(value_name = "STORE")]
    store: String,
}

#[derive(clap::Args, Debug)]
struct Asked {
    #[command(flatten)]
    place: Where,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Info(place) => info(place),
        Command::Check(place) => check(place),
        Command::Dump(place) => dump(&place.store),
        Command::Load(load) => making::load(load),
        Command::Backup(backup) => making::back_up(backup),
        Command::Gc(place) => gc(place),
    }
}

fn info(asked: &Asked) -> Outcome {
    let store = open(&asked.place.store)?;
    let info = store.info()?;
    let identity = store.identity().to_string();
    let figures = [
        ("objects", info.objects),
        ("classes", info.classes),
        ("commits", info.head.0),
        ("base_bytes", info.base_bytes),
        ("buffered_bytes", info.buffered_bytes),
        ("log_bytes", info.log_bytes),
        ("sessions", info.sessions),
    ];
    if asked.json {
        let mut all: serde_json::Map<_, _> =
            figures.map(|(name, n)| (name.to_owned(), n.into())).into_iter().collect();
        all.insert("identity".to_owned(), identity.into());
        println!("{}", serde_json::Value::Object(all));
    } else {
        println!("{:<15}{identity}", "identity");
        for (name, n) in figures {
            println!("{:<15}{n}", name.replace('_', " "));
        }
    }
    Ok(())
}

fn check(asked: &Asked) -> Outcome {
    let store = open(&asked.place.store)?;
    let report = store.check(&mut bar("checking"))?;
    let mistakes: Vec<String> = report.mistakes.iter().map(ToString::to_string).collect();
    if asked.json {
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
            .help("restore the store from a copy")),
    }
}

fn dump(store: &str) -> Outcome {
    let store = open(store)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    dump::write(&*store, &mut out, &mut bar("dumping")).map_err(|error| match error {
        dump::DumpError::Io(error) => error.into(),
        error => Failure::new(Exit::Failed, error),
    })
}

fn gc(asked: &Asked) -> Outcome {
    let store = open(&asked.place.store)?;
    let mut bar = bar("collecting");
    let collected = store.collect(&mut |progress| {
        bar(progress);
        ControlFlow::Continue(())
    })?;
    if asked.json {
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
