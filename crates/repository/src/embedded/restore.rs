//! [`Restore`]: a new store in the making, with the orefs, commits and replies of another one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::base::Redb;
use super::disk::{Disk, Folder};
use super::log::{Key, Log};
use crate::record::ClassDescriptor;
use crate::store::{Base, Installation, Part, Reply, Totals};
use crate::{ClassNumber, Error, Oref, Stored, Tid};

/// The bytes of records that are put into the base at once.
const BYTES_AT_ONCE: usize = 32 << 20;
/// Bytes of the base that are kept in memory while it is filled.
const CACHE_BYTES: usize = 64 << 20;

/// A new store in the making. It is whole, and durable but for the name of its folder, after
/// [`Restore::finish`]; else its folder is to be removed.
pub struct Restore {
    base: Redb,
    disk: Box<dyn Disk>,
    head: Tid,
    reserved: u64,
    totals: Totals,
    states: BTreeMap<Oref, Option<Stored>>,
    bytes: usize,
    last: Option<Oref>,
    classes: Vec<(ClassNumber, Arc<ClassDescriptor>)>,
    replies: BTreeMap<u128, Option<Reply>>,
}

impl Restore {
    /// Begins a store in a folder, which is made.
    ///
    /// # Errors
    /// [`Error::Locked`], or a failure of the disk.
    pub fn open(folder: &Path) -> Result<Restore, Error> {
        let io = |source| Error::Io { what: "making the folder of the copy", source };
        let disk = Folder::open(folder).map_err(io)?.map_err(|process| Error::Locked { process })?;
        let mut key = Key::default();
        getrandom::fill(&mut key).map_err(|error| io(std::io::Error::other(error.to_string())))?;
        restore_on(Box::new(disk), key)
    }

    /// Sets the last commit, and the first oref that was not given.
    pub fn begin(&mut self, head: Tid, reserved: u64) {
        (self.head, self.reserved) = (head, reserved);
    }

    /// Adds a class.
    pub fn class(&mut self, number: ClassNumber, class: Arc<ClassDescriptor>) {
        self.classes.push((number, class));
    }

    /// Adds the last reply of a session.
    pub fn reply(&mut self, session: u128, reply: Reply) {
        self.replies.insert(session, Some(reply));
    }

    /// Adds objects, which come in the order of their orefs, the root directory first.
    ///
    /// # Errors
    /// [`Error::Backup`] for another order, or a failure of the disk.
    pub fn objects(&mut self, part: Part) -> Result<(), Error> {
        for (oref, stored) in part {
            let in_order = self.last.map_or(oref == Oref::ROOT, |last| last < oref);
            if !in_order {
                return Err(Error::Backup { what: format!("object {oref} is not in its place") });
            }
            self.last = Some(oref);
            self.bytes += stored.bytes.len();
            self.states.insert(oref, Some(stored));
        }
        if self.bytes >= BYTES_AT_ONCE { self.install() } else { Ok(()) }
    }

    fn install(&mut self) -> Result<(), Error> {
        self.totals = self.base.install(&Installation {
            states: &self.states,
            classes: &self.classes,
            replies: &self.replies,
            head: self.head,
            sequence: 0,
            generation: 0,
            reserved: self.reserved,
            totals: self.totals,
        })?;
        self.states.clear();
        self.classes.clear();
        self.replies.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Ends the making.
    ///
    /// # Errors
    /// [`Error::Backup`] if there is no root directory, or a failure of the disk.
    pub fn finish(mut self) -> Result<(), Error> {
        if self.last.is_none() {
            return Err(Error::Backup { what: "it has no root directory".to_owned() });
        }
        self.install()?;
        drop(self.base);
        self.disk.sync().map_err(|source| Error::Io { what: "making the copy durable", source })
    }
}

/// Begins a store on a disk without one. Its key must be random and secret.
///
/// # Errors
/// A failure of the disk.
pub fn restore_on(disk: Box<dyn Disk>, key: Key) -> Result<Restore, Error> {
    Log::create(&*disk).map_err(|source| Error::Io { what: "making the log of the copy", source })?;
    Redb::create(&*disk, &key)?;
    let base = Redb::open(&*disk, CACHE_BYTES)?;
    // The root directory of a new store is replaced.
    let totals = base.load()?.totals;
    Ok(Restore {
        base,
        disk,
        head: Tid::NONE,
        reserved: 0,
        totals,
        states: BTreeMap::new(),
        bytes: 0,
        last: None,
        classes: Vec::new(),
        replies: BTreeMap::new(),
    })
}
