//! New stores from old ones: `bifrost store load` and `bifrost store backup`.
//!
//! Both make a folder with another name, which gets its own when all of it is on the disk. So a folder of that name is a whole store, or not there.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bifrost_repository::{Error, Place, Repository, dump, embedded};
use indicatif::{ProgressBar, ProgressStyle};

use super::{bar, failed};
use crate::failure::{Exit, Failure, Outcome};

#[derive(clap::Args, Debug)]
pub(super) struct Load {
    /// The folder of the new store
    #[arg(value_name = "DIR", value_parser = folder)]
    folder: PathBuf,
    /// The dump [default: the standard input]
    #[arg(value_name = "FILE")]
    dump: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
pub(super) struct Backup {
    /// The folder of the store
    #[arg(value_name = "DIR", value_parser = folder)]
    folder: PathBuf,
    /// The folder of the copy, which must not be there
    #[arg(value_name = "TARGET", value_parser = folder)]
    target: PathBuf,
}

/// A folder; other places have no files of ours.
fn folder(text: &str) -> Result<PathBuf, String> {
    match text.parse() {
        Ok(Place::Folder(folder)) => Ok(folder),
        Ok(Place::Memory) => Err("what is in memory cannot be copied: name a folder".to_owned()),
        Ok(Place::Database(_)) => {
            Err("this is done with folders; databases are copied with tools of their own, as `pg_dump`"
                .to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn load(args: &Load) -> Outcome {
    let made = make(&args.folder, |folder| {
        let mut input: Box<dyn BufRead> = match &args.dump {
            None => Box::new(std::io::stdin().lock()),
            Some(path) => {
                let file = File::open(path).map_err(|error| {
                    Failure::new(Exit::Failed, format!("cannot read `{}`: {error}", path.display()))
                })?;
                Box::new(BufReader::new(file))
            }
        };
        let store = embedded::open(folder, &embedded::Options::default()).map_err(failed)?;
        let objects = dump::load(&store, &mut *input, &mut bar("loading"))
            .map_err(|error| Failure::new(Exit::Failed, format!("the dump is not loaded: {error}")))?;
        let report = store.check(&mut bar("checking")).map_err(failed)?;
        match report.mistakes.first() {
            None => Ok(objects),
            Some(mistake) => Err(Failure::new(Exit::Failed, format!("the dump is not loaded: {mistake}"))),
        }
    })?;
    println!("{made} objects");
    Ok(())
}

pub(super) fn backup(args: &Backup) -> Outcome {
    if !embedded::exists(&args.folder) {
        return Err(Failure::new(Exit::Failed, format!("there is no store in `{}`", args.folder.display())));
    }
    make(&args.target, |folder| {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("copying {wide_bar} {bytes} of {total_bytes}");
        bar.set_style(style.expect("the template is one"));
        let mut shown = |done, of| {
            bar.set_length(of);
            bar.set_position(done);
        };
        embedded::copy(&args.folder, folder, &mut shown).map_err(failed)
    })
}

/// Has a folder made under another name, and gives it its own when it is whole.
fn make<T>(folder: &Path, fill: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let there = |path: &Path| format!("there is something in `{}` already", path.display());
    let empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !folder.exists(),
    };
    if !empty {
        return Err(Failure::new(Exit::Failed, there(folder)).help("name a folder that is not there yet"));
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
        // What cannot be removed is found, and removed, by the next attempt.
        let _ = std::fs::remove_dir_all(&partial);
    }
    made
}

/// Removes what an attempt has left that did not come to its end; nothing else.
fn clear(partial: &Path) -> Result<(), Failure> {
    if !partial.exists() {
        return Ok(());
    }
    let ours = ["lock", "base", "base.new", "log.0", "log.1"];
    let others = std::fs::read_dir(partial)?
        .any(|entry| entry.is_ok_and(|entry| !ours.iter().any(|name| entry.file_name() == *name)));
    if others || !partial.join("lock").is_file() {
        let why = format!("`{}` is in the way", partial.display());
        return Err(Failure::new(Exit::Failed, why).help("remove it, or give it another name"));
    }
    if let Err(error @ Error::Locked { .. }) = embedded::open(partial, &embedded::Options::default()) {
        return Err(failed(error));
    }
    Ok(std::fs::remove_dir_all(partial)?)
}
