//! Files of the machine, as far as the embedder lets programs reach them.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use crate::{Cx, Flow, Registry, Signals, Text, theta_class, theta_routine};

/// The files that programs reach: those in these folders and below. Without this setting, or with
/// no folders, none.
///
/// Names are taken from the first folder that has the file, or, absolute, from the folder that they
/// begin with. Links and `..` that lead out of a folder lead nowhere.
#[derive(Clone, Debug, Default)]
pub struct Files {
    folders: Vec<Arc<Folder>>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    dir: Dir,
}

impl Files {
    /// Access to the files in this folder as well.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn and_in(mut self, folder: impl AsRef<Path>) -> io::Result<Files> {
        let path = folder.as_ref().canonicalize()?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        self.folders.push(Arc::new(Folder { path, dir }));
        Ok(self)
    }

    /// Does something with a name in each folder where it may be, until it works.
    pub(super) fn first<T>(&self, name: &str, work: impl Fn(&Dir, &Path) -> io::Result<T>) -> io::Result<T> {
        let name = Path::new(name);
        let mut outcome = Err(ErrorKind::NotFound.into());
        for folder in &self.folders {
            let inside = match name.is_absolute() {
                true => name.strip_prefix(&folder.path).ok(),
                false => Some(name),
            };
            let Some(inside) = inside else { continue };
            let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
            outcome = work(&folder.dir, inside);
            if !matches!(&outcome, Err(e) if e.kind() == ErrorKind::NotFound) {
                break;
            }
        }
        outcome
    }
}

/// Adds the routines and classes for files.
pub(super) fn add_to(registry: Registry) -> Registry {
    registry
        .with_class::<HostFile>()
        .with_routine(open_host_file::native())
        .with_routine(read_file::native())
        .with_routine(write_file::native())
        .with_routine(entries::native())
        .with_text("std/files.theta", include_str!("../../theta/std/files.theta"))
}

fn allowed(cx: &Cx) -> Files {
    cx.settings().unwrap_or_default()
}

/// A file opened for reading.
#[derive(Debug)]
pub struct HostFile {
    file: File,
    size: u64,
}

/// The exceptions of opening.
#[derive(Signals)]
enum OpenSignal {
    NotFound,
}

/// The exceptions of reading.
#[derive(Signals)]
enum ReadSignal {
    Bounds,
    Failure(String),
}

#[theta_class("std::HostFile")]
impl HostFile {
    fn size(&self, _cx: &mut Cx) -> i64 {
        self.size as i64
    }

    fn read(&mut self, cx: &mut Cx, at: i64, count: i64) -> Result<Vec<u8>, ReadSignal> {
        let size = self.size as i64;
        if at < 1 || count < 0 || at > size + 1 || count > size + 1 - at {
            return Err(ReadSignal::Bounds);
        }
        if count as u64 > cx.bytes_max() as u64 {
            return Err(ReadSignal::Failure("out of memory".to_owned()));
        }
        let mut bytes = vec![0; count as usize];
        self.file
            .seek(SeekFrom::Start(at as u64 - 1))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|e| ReadSignal::Failure(format!("the file cannot be read: {e}")))?;
        Ok(bytes)
    }
}

/// Opens a regular file. Anything else is refused without waiting for it: to open a FIFO would wait
/// for its other side, beyond every limit of the run.
pub(super) fn open_regular(dir: &Dir, name: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let file = dir.open_with(name, how.custom_flags(OFlags::NONBLOCK.bits() as i32))?.into_std();
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::NotFound, "it is not a regular file")),
    }
}

fn open(files: &Files, name: &str) -> io::Result<HostFile> {
    let file = files.first(name, |dir, name| open_regular(dir, name, OpenOptions::new().read(true)))?;
    let size = file.metadata()?.len();
    Ok(HostFile { file, size })
}

fn write(dir: &Dir, name: &Path, contents: &[u8]) -> io::Result<()> {
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(true);
    open_regular(dir, name, &mut how)?.write_all(contents)
}

#[theta_routine("std::open_host_file")]
fn open_host_file(cx: &mut Cx, name: &str) -> Result<HostFile, OpenSignal> {
    open(&allowed(cx), name).map_err(|_| OpenSignal::NotFound)
}

/// The exceptions of reading a whole file.
#[derive(Signals)]
enum WholeSignal {
    NotFound,
    Failure(String),
}

#[theta_routine("std::read_file")]
fn read_file(cx: &mut Cx, name: &str) -> Result<Vec<u8>, WholeSignal> {
    let file = open(&allowed(cx), name).map_err(|_| WholeSignal::NotFound)?;
    let most = cx.bytes_max() as u64;
    if file.size > most {
        return Err(WholeSignal::Failure(format!("out of memory: `{name}` has {} bytes", file.size)));
    }
    let mut bytes = Vec::with_capacity(file.size as usize);
    // The file may grow meanwhile.
    file.file
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|e| WholeSignal::Failure(format!("`{name}` cannot be read: {e}")))?;
    Ok(bytes)
}

/// The exceptions of writing.
#[derive(Signals)]
enum WriteSignal {
    NotPossible(Text),
}

#[theta_routine("std::write_file")]
fn write_file(cx: &mut Cx, name: &str, contents: &[u8]) -> Result<(), WriteSignal> {
    allowed(cx)
        .first(name, |dir, name| write(dir, name, contents))
        .map_err(|e| WriteSignal::NotPossible(e.to_string().into()))
}

/// Returns the names of what is in a folder, in order.
pub(super) fn names_in(files: &Files, folder: &str) -> io::Result<Vec<String>> {
    let mut names = files.first(folder, |dir, name| {
        dir.read_dir(name)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<String>>>()
    })?;
    // The order of the file system is none.
    names.sort();
    Ok(names)
}

#[theta_routine("std::entries")]
fn entries(
    cx: &mut Cx,
    folder: &str,
    each: &mut dyn FnMut(&mut Cx, String) -> Flow,
) -> Result<(), OpenSignal> {
    for name in names_in(&allowed(cx), folder).map_err(|_| OpenSignal::NotFound)? {
        if each(cx, name) == Flow::Leave {
            break;
        }
    }
    Ok(())
}
