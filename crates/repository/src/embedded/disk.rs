//! The few things that the engine does with files, behind a trait: so that tests can put a disk below it that fails.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of files.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file to read and write. None if it is not there and is not to be created.
    fn open(&self, name: &str, create: bool) -> io::Result<Option<Arc<dyn DiskFile>>>;

    /// Gives a file another name, in place of the file that has it; durable after [`Disk::sync`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes durable which files there are, and what they are called.
    fn sync(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` from there on; fails if the file is shorter.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of it; the file grows if it must.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or lengthens it with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes durable what was written. After a failure what was written is lost or not; it is never tried again.
    fn sync(&self) -> io::Result<()>;
}

/// Most bytes of the number of a process and the end of its line.
const PROCESS_BYTES: u64 = 16;

/// A folder of the system. While it lives, no other process has the same one.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The system's lock on it ends with it.
    _lock: File,
}

impl Folder {
    /// Opens a folder, which is created if it is not there. If another process has it, the number of that process, as far as it has been written down.
    pub fn open(path: &Path) -> io::Result<Result<Folder, Option<u32>>> {
        std::fs::create_dir_all(path)?;
        let mut options = OpenOptions::new();
        let mut lock = options.read(true).write(true).create(true).truncate(false).open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {
                // For people only: a process that cannot write it has the store all the same.
                let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
                Ok(Ok(Folder { path: path.to_owned(), _lock: lock }))
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The file may be anything.
                let _ = lock.take(PROCESS_BYTES).read_to_string(&mut text);
                Ok(Err(text.trim_end().parse().ok()))
            }
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Disk for Folder {
    fn open(&self, name: &str, create: bool) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create(create).open(self.path.join(name)) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !create => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
