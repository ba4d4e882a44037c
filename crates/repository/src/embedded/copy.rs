//! A copy of a store, file by file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use super::disk::{Disk, Folder};
use super::{base, log};
use crate::Error;

/// The number of bytes copied at once.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Copies the store in a folder that no process has open to another folder, which is made.
/// `progress` is told the number of bytes copied, and the number of all.
///
/// When it returns, all of the copy is durable but the name of its folder. The copy has all files
/// of the store, the log included, but not its identity. Opening it mends the damage of a crash, as
/// opening the store would.
///
/// # Errors
/// [`Error::Locked`] if a process has one of the folders open; [`Error::Io`], and then the copy is
/// to be thrown away.
pub fn copy(from: &Path, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
    let io = |source| Error::Io { what: "copying the store", source };
    let lock = |path| Folder::open(path).map_err(io)?.map_err(|process| Error::Locked { process });
    let (_source, target) = (lock(from)?, lock(to)?);
    let names = || [base::NAME].into_iter().chain(log::NAMES).chain([log::WITNESS]);
    let bytes = |name: &str| from.join(name).metadata().map(|found| found.len());
    let of = names().map(bytes).sum::<io::Result<u64>>().map_err(io)?;
    let mut done = 0;
    let mut buffer = vec![0; BYTES_AT_ONCE];
    for name in names() {
        let mut source = File::open(from.join(name)).map_err(io)?;
        let mut copy = target.create(name).map_err(io)?;
        loop {
            let read = match source.read(&mut buffer) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(io)?,
            };
            copy.write_all(&buffer[..read]).map_err(io)?;
            done += read as u64;
            progress(done, of);
        }
        copy.sync_all().map_err(io)?;
    }
    target.sync().map_err(io)
}
