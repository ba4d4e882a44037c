//! The identity of a store in a folder: a file of its own.
//!
//! A copy of the store is made without this file, and a store without it gets another identity when
//! it is opened. So a copy, which lacks later commits, is never taken for the store itself. The
//! file is written under another name, synchronised and renamed: it is there whole, or not at all.

use std::io;

use super::disk::Disk;
use super::log::Key;
use super::seal::{SEAL, Seals, Table};
use crate::{Error, Identity};

/// The name of the file, and of one that is not whole yet.
pub(super) const NAME: &str = "identity";
pub(super) const NEW_NAME: &str = "identity.new";

/// Returns an identity that is made of a random key, and does not tell it.
pub(super) fn of_key(key: &Key) -> Identity {
    let mut bytes = [0; Identity::BYTES];
    blake3::Hasher::new_derive_key("bifrost store: identity").update(key).finalize_xof().fill(&mut bytes);
    Identity::from_bytes(bytes)
}

/// Returns the identity of the store on a disk; if it has none, `new` becomes its identity. Durable
/// when it returns.
///
/// # Errors
/// [`Error::Damaged`] if the file is not as it was written, or of another store; [`Error::Io`].
pub(super) fn open(disk: &dyn Disk, seals: &Seals, new: Identity) -> Result<Identity, Error> {
    let io = |source| Error::Io { what: "reading the identity of the store", source };
    if let Some(file) = disk.open(NAME, false).map_err(io)? {
        let mut sealed = [0; SEAL + Identity::BYTES];
        let is_whole = file.len().map_err(io)? == sealed.len() as u64;
        if is_whole {
            file.read_at(0, &mut sealed).map_err(io)?;
        }
        let value = seals.open(Table::Identity, 0, &sealed).filter(|_| is_whole);
        let bytes = value.and_then(|value| value.try_into().ok());
        return bytes.map(Identity::from_bytes).ok_or_else(|| Error::Damaged {
            what: format!(
                "the file {NAME} is corrupted, or of another store; without it the store gets a new identity"
            ),
        });
    }
    let io = |source| Error::Io { what: "writing the identity of the store", source };
    disk.remove(NEW_NAME).map_err(io)?;
    let file = disk.open(NEW_NAME, true).map_err(io)?.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
    file.write_at(0, &seals.seal(Table::Identity, 0, &[new.as_bytes()])).map_err(io)?;
    file.sync().map_err(io)?;
    disk.rename(NEW_NAME, NAME).map_err(io)?;
    disk.sync().map_err(io)?;
    Ok(new)
}
