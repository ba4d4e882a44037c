//! The two traits below a store: a base of installed states, and a journal before it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::record::{ClassDescriptor, Writer};
use crate::store::replies::Reply;
use crate::store::snapshot::BaseSnapshot;
use crate::{ClassNumber, Error, Oref, Stored, Tid};

/// Objects and bytes of a base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Objects.
    pub objects: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl Totals {
    /// Counts a state of `new` bytes in place of one of `old` bytes.
    pub fn replace(&mut self, old: Option<usize>, new: Option<usize>) {
        self.objects = (self.objects + u64::from(new.is_some())).saturating_sub(u64::from(old.is_some()));
        self.bytes = (self.bytes + new.unwrap_or(0) as u64).saturating_sub(old.unwrap_or(0) as u64);
    }
}

/// The knowledge of a base besides objects.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The last commit that is installed.
    pub head: Tid,
    /// The last record of the journal that is installed.
    pub sequence: u64,
    /// The generation of the journal when something was installed last.
    pub generation: u64,
    /// No oref from here on was given.
    pub reserved: u64,
    /// All classes by number, from 1.
    pub classes: Vec<Arc<ClassDescriptor>>,
    /// The last replies of sessions.
    pub replies: Vec<(u128, Reply)>,
    /// Objects and bytes.
    pub totals: Totals,
}

/// Returns the contents of a new store: the class of directories, and the root directory, written
/// by commit 1.
pub fn initial() -> (Loaded, Stored) {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, ClassNumber::DIRECTORY).count(0);
    let root = Stored { tid: Tid(1), bytes: Bytes::from(bytes) };
    let loaded = Loaded {
        head: Tid(1),
        reserved: Oref::ROOT.get() + 1,
        classes: vec![Arc::new(ClassDescriptor::directory())],
        totals: Totals { objects: 1, bytes: root.bytes.len() as u64 },
        ..Loaded::default()
    };
    (loaded, root)
}

/// The states and figures that are put into a base at once.
pub struct Installation<'a> {
    /// New states, and none for objects that were freed.
    pub states: &'a BTreeMap<Oref, Option<Stored>>,
    /// Classes defined since the last time.
    pub classes: &'a [(ClassNumber, Arc<ClassDescriptor>)],
    /// Replies since the last time, and none for sessions that are forgotten.
    pub replies: &'a BTreeMap<u128, Option<Reply>>,
    /// The last commit in it.
    pub head: Tid,
    /// The last record of the journal in it.
    pub sequence: u64,
    /// The generation of the journal now.
    pub generation: u64,
    /// No oref from here on was given.
    pub reserved: u64,
    /// Objects and bytes before it.
    pub totals: Totals,
}

/// Objects in order, each with its state, or the reason why that is lost.
pub type Scanned = Vec<(Oref, Result<Stored, Error>)>;

/// The place of states that are no longer needed from the journal.
pub trait Base: Send + Sync {
    /// Returns its knowledge besides objects; asked once.
    fn load(&self) -> Result<Loaded, Error>;

    /// Returns the states of some objects, all from one moment.
    fn read(&self, orefs: &[Oref]) -> Result<Vec<Option<Stored>>, Error>;

    /// Returns the first `limit` objects from `from` on, in order; fewer only if there are no more.
    fn scan(&self, from: Oref, limit: usize) -> Result<Scanned, Error>;

    /// Returns the objects as the last installation has left them. Nothing is installed meanwhile.
    fn snapshot(&self) -> Result<Box<dyn BaseSnapshot>, Error> {
        Err(Error::NoSnapshot)
    }

    /// Puts all of it in, or nothing; durable when it returns. Returns the new totals.
    fn install(&self, installation: &Installation<'_>) -> Result<Totals, Error>;

    /// Reads its contents besides the states of objects, and returns the faults found.
    fn examine(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

/// The reason why a journal did not take a record.
#[derive(Debug)]
pub enum JournalError {
    /// It could not grow; nothing was written.
    NoRoom(io::Error),
    /// A write or its synchronisation failed; it is not known if the record is there.
    InDoubt(&'static str, io::Error),
}

/// The journal, which makes commits durable before they are in the base. It has two halves: while
/// one is written, the records of the other are being installed.
pub trait Journal: Send {
    /// True if a record waits for a device. Then commits gather while one is written; else each is
    /// made by its own thread, which holds the lock of the sequence for that long.
    const WAITS: bool = true;

    /// True if the half being written takes that many bytes more. An empty one takes everything.
    fn fits(&self, bytes: usize) -> bool;

    /// Adds a record; durable when it returns.
    fn append(&mut self, sequence: u64, payload: &[u8]) -> Result<(), JournalError>;

    /// Goes on in the other half, whose records are all installed. Writes nothing.
    fn turn(&mut self);

    /// The number of times that it has turned since the store was made.
    fn generation(&self) -> u64;

    /// Bytes of records in the half being written.
    fn used(&self) -> u64;

    /// Reads the records that may not be installed yet, and returns the faults found.
    fn examine(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}
