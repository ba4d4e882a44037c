//! A file server, as the second test of the paper has it (004 section 6.2): native actors that
//! open, read, write, seek, close and list files, within the folders that the embedder allows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cap_std::fs::OpenOptions;

use super::files::{Files, names_in, open_regular};
use crate::{ActorRef, Registry, Signals, Task, Text, theta_actor};

/// Most bytes that one `read` gives.
pub const READ_BYTES_MAX: usize = 16 << 20;

/// Most files that are open at one file server.
pub const OPEN_MAX: usize = 1_000;

/// Adds the actors.
pub(super) fn add_to(registry: Registry) -> Registry {
    registry
        .with_actor::<FileServer>()
        .with_actor::<OpenFile>()
        .with_text("std/file_server.theta", include_str!("../../theta/std/file_server.theta"))
}

/// `std.FileServer`: opens files.
#[derive(Debug)]
pub struct FileServer {
    files: Files,
    /// The number of files that are open.
    open: Arc<AtomicUsize>,
}

/// The exceptions of opening.
#[derive(Signals)]
enum OpenSignal {
    NotFound,
    NotPossible(Text),
}

fn not_possible(why: impl ToString) -> Text {
    Text::from(why.to_string())
}

#[theta_actor("std::FileServer", concurrency = 0)]
impl FileServer {
    fn new(task: &Task) -> FileServer {
        FileServer { files: task.settings().unwrap_or_default(), open: Arc::default() }
    }

    fn open(&self, task: &Task, name: &str) -> Result<ActorRef<OpenFile>, OpenSignal> {
        self.open_with(name, OpenOptions::new().read(true), task)
    }

    fn create(&self, task: &Task, name: &str) -> Result<ActorRef<OpenFile>, OpenSignal> {
        let mut how = OpenOptions::new();
        how.read(true).write(true).create(true).truncate(true);
        self.open_with(name, &how, task)
    }

    fn list(&self, _task: &Task, folder: &str) -> Result<crate::Seq<String>, OpenSignal> {
        names_in(&self.files, folder).map(crate::Seq::from).map_err(|_| OpenSignal::NotFound)
    }

    fn open_with(
        &self,
        name: &str,
        how: &OpenOptions,
        task: &Task,
    ) -> Result<ActorRef<OpenFile>, OpenSignal> {
        let count = Counted::new(&self.open).ok_or_else(|| {
            OpenSignal::NotPossible(not_possible(format_args!(
                "{OPEN_MAX} files are open, and that is the limit"
            )))
        })?;
        let file = self.files.first(name, |dir, name| open_regular(dir, name, &mut how.clone()));
        let file = file.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => OpenSignal::NotFound,
            _ => OpenSignal::NotPossible(not_possible(e)),
        })?;
        let open = OpenFile { file: Some((file, count)), at: 0 };
        task.create(open).map_err(|why| OpenSignal::NotPossible(Text::from(why)))
    }
}

/// A part of the number of open files.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// Counts one more, if there may be one more.
    fn new(open: &Arc<AtomicUsize>) -> Option<Counted> {
        let more = |open| (open < OPEN_MAX).then_some(open + 1);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Counted(open.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `std.OpenFile`: a file that is open until `close`, or until nobody refers to it. Methods that
/// move its place or close it run alone, so in the order of their messages.
#[derive(Debug)]
pub struct OpenFile {
    file: Option<(File, Counted)>,
    /// The number of bytes before the place of the next `read` or `write`.
    at: u64,
}

/// The exceptions of an open file.
#[derive(Signals)]
enum FileSignal {
    Closed,
    NotPossible(Text),
}

impl From<io::Error> for FileSignal {
    fn from(why: io::Error) -> FileSignal {
        FileSignal::NotPossible(not_possible(why))
    }
}

#[theta_actor("std::OpenFile", concurrency = 0)]
impl OpenFile {
    fn new(_task: &Task) -> Result<OpenFile, String> {
        Err("a file is opened by a `FileServer`".to_owned())
    }

    fn size(&self, _task: &Task) -> Result<i64, FileSignal> {
        Ok(self.file()?.metadata()?.len() as i64)
    }

    fn read(&mut self, _task: &Task, most: i64) -> Result<Vec<u8>, FileSignal> {
        let bytes = read(self.file()?, self.at, most)?;
        self.at += bytes.len() as u64;
        Ok(bytes)
    }

    fn read_at(&self, _task: &Task, at: i64, most: i64) -> Result<Vec<u8>, FileSignal> {
        read(self.file()?, place(at)?, most)
    }

    fn write(&mut self, _task: &Task, contents: &[u8]) -> Result<(), FileSignal> {
        self.file()?.write_all_at(contents, self.at)?;
        self.at += contents.len() as u64;
        Ok(())
    }

    fn write_at(&self, _task: &Task, at: i64, contents: &[u8]) -> Result<(), FileSignal> {
        Ok(self.file()?.write_all_at(contents, place(at)?)?)
    }

    fn seek(&mut self, _task: &Task, at: i64) -> Result<(), FileSignal> {
        self.file()?;
        self.at = place(at)?;
        Ok(())
    }

    fn close(&mut self, _task: &Task) -> Result<(), FileSignal> {
        match self.file.take() {
            Some(_) => Ok(()),
            None => Err(FileSignal::Closed),
        }
    }

    fn file(&self) -> Result<&File, FileSignal> {
        self.file.as_ref().map(|(file, _)| file).ok_or(FileSignal::Closed)
    }
}

/// Returns the bytes before a place that counts from 1.
fn place(at: i64) -> Result<u64, FileSignal> {
    match u64::try_from(at) {
        Ok(at) if at > 0 => Ok(at - 1),
        _ => Err(FileSignal::NotPossible(not_possible("bytes count from 1"))),
    }
}

fn read(file: &File, at: u64, most: i64) -> Result<Vec<u8>, FileSignal> {
    let left = file.metadata()?.len().saturating_sub(at);
    let most = usize::try_from(most).unwrap_or(0).min(READ_BYTES_MAX);
    // A file that grows meanwhile gives the rest to the next read.
    let most = usize::try_from(left).map_or(most, |left| most.min(left));
    let mut bytes = vec![0; most];
    let mut count = 0;
    while count < most {
        match file.read_at(&mut bytes[count..], at + count as u64) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    bytes.truncate(count);
    Ok(bytes)
}
