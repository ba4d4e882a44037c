//! New stores from old ones: `bifrost store load` and `bifrost store backup`.
//!
//! Both make a folder with another name, which gets its own when all of it is on the disk. So a
//! folder of that name is a whole store, or not there. In a database the number of its format has
//! the same function.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bifrost_repository::embedded::Restore;
use bifrost_repository::{Error, Place, Repository, backup, dump, embedded, postgres};
use bifrost_server::backup::Receiving;
use bifrost_transport::ConnectError;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::common::store::bar;
use crate::failure::{Exit, Failure, Outcome, print};

#[derive(clap::Args, Debug)]
pub(super) struct Load {
    /// The folder of the new store, or the URL of a database that has none
    #[arg(value_name = "STORE")]
    store: String,
    /// The dump [default: the standard input]
    #[arg(value_name = "FILE")]
    dump: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
pub(super) struct Backup {
    /// The folder of the store
    #[arg(value_name = "DIR")]
    folder: String,
    /// The folder of the copy, which must not be there
    #[arg(value_name = "TARGET")]
    target: String,
    /// Print one JSON object: bytes; from a server also objects and commit
    #[arg(long)]
    json: bool,
}

/// Returns the failure for a store in memory, which does not last.
fn in_memory() -> Failure {
    Failure::new(Exit::Usage, "objects in memory are lost at the end of the command: name a folder")
}

/// Returns the folder of a place; other places have no files of ours.
fn folder(text: &str) -> Result<PathBuf, Failure> {
    match text.parse()? {
        Place::Folder(folder) => Ok(folder),
        Place::Memory { .. } => Err(in_memory()),
        Place::Database(_) => Err(Failure::new(Exit::Usage, "only folders are copied file by file").help(
            "copy a database with its own tools, as `pg_dump`, or copy its objects with `bifrost store \
                dump` and `bifrost store load`",
        )),
    }
}

pub(super) fn load(args: &Load) -> Outcome {
    let made = match args.store.parse()? {
        Place::Folder(folder) => make(&folder, |folder| {
            let store = embedded::open(folder, &embedded::Options::default())?;
            fill(&store, args)
        })?,
        Place::Database(address) => {
            postgres::make(&address, &postgres::Options::default(), |store| fill(store, args))?
        }
        Place::Memory { .. } => return Err(in_memory()),
    };
    println!("{made} objects");
    Ok(())
}

/// Puts a dump into a new store, and checks that all objects that it refers to are there.
fn fill(store: &dyn Repository, args: &Load) -> Result<u64, Failure> {
    let mut input: Box<dyn BufRead> = match &args.dump {
        None => Box::new(std::io::stdin().lock()),
        Some(path) => {
            let file = File::open(path).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot read `{}`: {error}", path.display()))
            })?;
            Box::new(BufReader::new(file))
        }
    };
    let objects = dump::load(store, &mut *input, &mut bar("loading"))
        .map_err(|error| Failure::new(Exit::Failed, format!("the dump is not loaded: {error}")))?;
    let report = store.check(&mut bar("checking"))?;
    match report.mistakes.first() {
        None => Ok(objects),
        Some(mistake) => Err(Failure::new(Exit::Failed, format!("the dump is not loaded: {mistake}"))),
    }
}

pub(super) fn back_up(args: &Backup) -> Outcome {
    let (source, target) = (folder(&args.folder)?, folder(&args.target)?);
    if !embedded::exists(&source) {
        return Err(Failure::new(Exit::Failed, format!("there is no store in `{}`", source.display())));
    }
    let mut copied = make(&target, |folder| match copy_files(&source, folder) {
        Err(Error::Locked { process }) => copy_open(&source, folder, process),
        copied => Ok(json!({"bytes": copied?})),
    })?;
    if args.json {
        copied["target"] = target.to_string_lossy().into();
        print(&format!("{copied}\n"))?;
    }
    Ok(())
}

/// Copies the files of a store that no process has open; returns the number of bytes.
fn copy_files(source: &Path, folder: &Path) -> Result<u64, Error> {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("copying {wide_bar} {bytes} of {total_bytes}");
    bar.set_style(style.expect("the template is one"));
    let mut bytes = 0;
    embedded::copy(source, folder, &mut |done, of| {
        bytes = done;
        bar.set_length(of);
        bar.set_position(done);
    })?;
    Ok(bytes)
}

/// Copies a store that a server has open, at one of its commits, and checks the copy.
fn copy_open(source: &Path, folder: &Path, process: Option<u32>) -> Result<Value, Failure> {
    let mut input = Receiving::ask(source).map_err(|error| match error {
        ConnectError::Refused { .. } => Error::Locked { process }.into(),
        error => Failure::new(Exit::Unreachable, error),
    })?;
    let restore = Restore::open(folder)?;
    let made = backup::read(&mut input, restore, &mut bar("copying"));
    let made = made.map_err(|error| Failure::new(Exit::Failed, error).help("nothing is left; try again"))?;
    let report = embedded::open(folder, &embedded::Options::default())?.check(&mut bar("checking"))?;
    match report.mistakes.first() {
        None => Ok(json!({"bytes": made.bytes, "objects": made.objects, "commit": made.head.0})),
        Some(mistake) => Err(Failure::new(Exit::Failed, format!("the store has a mistake: {mistake}"))
            .help("`bifrost store check` lists all, when no server has the store open")),
    }
}

/// Has a folder made under another name, and gives it its own when it is whole.
fn make<T>(folder: &Path, fill: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let there = |path: &Path| format!("`{}` is not empty", path.display());
    let empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !folder.exists(),
    };
    if !empty {
        return Err(Failure::new(Exit::Failed, there(folder)).help("name a folder that does not exist"));
    }
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = folder.with_file_name(name);
    clear(&partial)?;
    let made = fill(&partial).and_then(|made| {
        std::fs::rename(&partial, folder)?;
        // A folder is named by the one around it.
        let around = folder.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(around)?.sync_all()?;
        Ok(made)
    });
    if made.is_err() && partial.exists() {
        // A folder that cannot be removed is found, and removed, by the next attempt.
        let _ = std::fs::remove_dir_all(&partial);
    }
    made
}

/// Removes the remains of an attempt that did not come to its end; nothing else.
fn clear(partial: &Path) -> Result<(), Failure> {
    if !partial.exists() {
        return Ok(());
    }
    let others = std::fs::read_dir(partial)?
        .any(|entry| entry.is_ok_and(|entry| !embedded::FILES.iter().any(|name| entry.file_name() == *name)));
    if others || !partial.join("lock").is_file() {
        let why = format!("`{}` exists already", partial.display());
        return Err(Failure::new(Exit::Failed, why).help("remove or rename it"));
    }
    if let Err(error @ Error::Locked { .. }) = embedded::open(partial, &embedded::Options::default()) {
        return Err(error.into());
    }
    Ok(std::fs::remove_dir_all(partial)?)
}
