//! The few operations that the engine does on files, behind a trait, so that tests can put a disk
//! below it that fails.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
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

    /// Makes the names of the files durable, and that they exist.
    fn sync(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// True if it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` from there on; fails if the file is shorter.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of it; the file grows if it must.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or lengthens it with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes the written bytes durable. After a failure they are lost or not; it is never tried
    /// again.
    fn sync(&self) -> io::Result<()>;
}

/// Most bytes of the number of a process and the end of its line.
const PROCESS_BYTES: u64 = 16;

/// The mode of a folder that is made: its owner's alone.
const FOLDER_MODE: u32 = 0o700;
/// The mode of every file: its owner's alone.
const FILE_MODE: u32 = 0o600;

/// A folder of the system. While it lives, no other process has the same one.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The system's lock on it ends with it.
    _lock: File,
}

impl Folder {
    /// Opens a folder, which is created if it is not there. If another process has it, returns the
    /// number of that process, as far as it has been written down.
    ///
    /// Folders and files that are made are their owner's alone, whatever the process's umask says;
    /// files that are there become so.
    pub fn open(path: &Path) -> io::Result<Result<Folder, Option<u32>>> {
        create_folder(path)?;
        let mut lock = open_file(&path.join("lock"), true)?;
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

/// Makes a folder that is not there, and those around it.
fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(around) = path.parent().filter(|around| !around.as_os_str().is_empty()) {
        create_folder(around)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // The umask may have taken away rights that the owner needs.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)),
        // Another process has made it at the same moment.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a file to read and write, and makes it its owner's alone.
fn open_file(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(create).truncate(false).mode(FILE_MODE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o7777 != FILE_MODE {
        // A file of another user that may be written stays as it is.
        match file.set_permissions(Permissions::from_mode(FILE_MODE)) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(file)
}

impl Folder {
    /// A new file, in place of one that may be there.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let file = open_file(&self.path.join(name), true)?;
        file.set_len(0)?;
        Ok(file)
    }
}

impl Disk for Folder {
    fn open(&self, name: &str, create: bool) -> io::Result<Option<Arc<dyn DiskFile>>> {
        match open_file(&self.path.join(name), create) {
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
