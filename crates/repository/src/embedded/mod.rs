//! The durable engine: a folder with a log and a base.
//!
//! A commit is durable when the [`log`] has it. A thread puts committed states into the [`base`]
//! later, many at a time. So states that are soon replaced never get there (the modified object
//! buffer of Ghemawat). The crash argument is in docs/spec/repository-format.md. In short:
//!
//! - A commit is acknowledged, and visible, after its record of the log is synchronised.
//! - A half of the log is overwritten only after everything in it is in the base. The transaction
//!   that puts it there also says up to which record.
//! - Opening reads the log up to the first record that is not whole, and installs those that the
//!   base has not, before any session sees it. So each state that was ever visible is in the base
//!   or in the log.
//! - After a failed write or synchronisation of the log nothing is written any more: the contents
//!   of the disk are not known until it is read again.

mod backend;
pub mod base;
mod copy;
pub mod disk;
mod guard;
mod identity;
pub mod log;
mod present;
mod restore;
mod seal;
mod snapshot;

pub use copy::copy;
pub use restore::{Restore, restore_on};

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::record::ClassDescriptor;
use crate::store::{Base, Entry, Snapshot, Store, decode};
use crate::{
    BatchId, Changes, ClassNumber, Collected, Commit, CommitError, Error, Fetched, Gauges, Holder, Identity,
    Info, ObjectSet, Oref, Progress, Registration, Report, Repository, Stored, Tid, Watcher, Watching, store,
};
use base::Redb;
use disk::{Disk, Folder};
use log::{Key, Log};

/// Bounds of an embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bounds of the buffer and of a half of the log.
    pub store: store::Options,
    /// Bytes of the base that are kept in memory.
    pub cache_bytes: usize,
    /// Bytes by which a file of the log grows.
    pub log_step_bytes: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { store: store::Options::default(), cache_bytes: 256 << 20, log_step_bytes: 8 << 20 }
    }
}

/// A store over files, without a thread of its own.
pub type Files = Store<Redb, Log>;

/// The names of the files of a store.
pub const FILES: [&str; 8] = [
    "lock",
    base::NAME,
    base::NEW_NAME,
    log::NAMES[0],
    log::NAMES[1],
    log::WITNESS,
    identity::NAME,
    identity::NEW_NAME,
];

/// True if there is a store in a folder, or the rest of one that has lost its base.
pub fn exists(folder: &Path) -> bool {
    let used = |name| folder.join(name).metadata().is_ok_and(|found| found.len() > 0);
    folder.join(base::NAME).is_file() || log::NAMES.into_iter().chain([log::WITNESS]).any(used)
}

/// Opens the store in a folder; makes one if there is none.
///
/// Costs, after a crash, reading and installing the log: at most twice
/// [`log_bytes`](store::Options::log_bytes), or a little more than the largest commits.
pub fn open(folder: &Path, options: &Options) -> Result<Embedded, Error> {
    let io = |source| Error::Io { what: "opening the store's folder", source };
    let disk = Folder::open(folder).map_err(io)?.map_err(|process| Error::Locked { process })?;
    let mut key = Key::default();
    getrandom::fill(&mut key).map_err(|error| io(std::io::Error::other(error.to_string())))?;
    Ok(Embedded::start(open_on(&disk, key, options)?, disk))
}

/// Opens the store on a disk, without a thread that installs. A new one has `key`, which must be
/// random and secret; the identity of a store that has none is made of it.
pub fn open_on(disk: &dyn Disk, key: Key, options: &Options) -> Result<Files, Error> {
    let io = |source| Error::Io { what: "opening the store", source };
    if Redb::exists(disk).map_err(io)? {
        // The process that made the store may have failed to synchronise the folder, and its files
        // would be gone with the power.
        disk.sync().map_err(io)?;
    } else if Log::was_used(disk).map_err(io)? {
        let what = format!("the file {} is missing, and its log exists", base::NAME);
        return Err(Error::Damaged { what });
    } else {
        Log::create(disk).map_err(io)?;
        Redb::create(disk, &key)?;
    }
    let base = Redb::open(disk, options.cache_bytes)?;
    let loaded = base.load()?;
    let (new_identity, key) = (identity::of_key(&key), base.key());
    let (log, found) = Log::open(
        disk,
        key,
        (loaded.generation, loaded.sequence),
        options.store.log_bytes,
        options.log_step_bytes,
    )?;
    let records = not_installed(found, loaded.sequence)?;
    let identity = identity::open(disk, base.seals(), new_identity)?;
    let store = Store::start(base, log, records, options.store.clone())?;
    Ok(store.with_identity(identity))
}

/// Returns the records that the base has not.
fn not_installed(found: Vec<log::Found>, installed: u64) -> Result<Vec<Vec<Entry>>, Error> {
    let mut records = Vec::new();
    for record in found.into_iter().filter(|record| record.sequence > installed) {
        let expected = installed + 1 + records.len() as u64;
        if record.sequence != expected {
            let what =
                format!("record {expected} of the log is missing, but record {} exists", record.sequence);
            return Err(Error::Damaged { what });
        }
        let damaged = |error| Error::Damaged { what: format!("record {expected} of the log, {error}") };
        records.push(decode(&record.payload).map_err(damaged)?);
    }
    Ok(records)
}

/// A store in a folder, with the thread that installs.
pub struct Embedded {
    store: Arc<Files>,
    work: Arc<Work>,
    thread: Option<JoinHandle<()>>,
    /// The lock on the folder; let go of last.
    _folder: Folder,
}

/// The work of the thread.
#[derive(Default)]
struct Work {
    /// A layer was closed; the store ends.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Embedded {
    fn start(store: Files, folder: Folder) -> Embedded {
        let (store, work) = (Arc::new(store), Arc::new(Work::default()));
        let notified = work.clone();
        store.on_closed(Box::new(move || {
            notified.state.lock().0 = true;
            notified.changed.notify_one();
        }));
        let (of_thread, to_do) = (store.clone(), work.clone());
        let run = move || install_closed(&of_thread, &to_do);
        // Without a thread, commits install; slower, but right.
        let thread = std::thread::Builder::new().name("install".into()).spawn(run).ok();
        Embedded { store, work, thread, _folder: folder }
    }
}

fn install_closed(store: &Files, work: &Work) {
    loop {
        let mut state = work.state.lock();
        while !state.0 && !state.1 {
            work.changed.wait(&mut state);
        }
        if state.1 {
            return;
        }
        state.0 = false;
        drop(state);
        if let Err(error) = store.install() {
            store.fail(&error);
            return;
        }
    }
}

impl Drop for Embedded {
    /// Installs everything, so that the next opening has nothing to do.
    fn drop(&mut self) {
        self.work.state.lock().1 = true;
        self.work.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic in it was reported where it happened.
            let _ = thread.join();
        }
        // States that cannot be installed are in the log.
        let _ = self.store.install_all();
    }
}

impl Repository for Embedded {
    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn head(&self) -> Tid {
        self.store.head()
    }

    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        self.store.fetch(orefs)
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        self.store.changes(after, among)
    }

    fn allocate(&self, count: u32) -> Result<Range<u64>, Error> {
        self.store.allocate(count)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        self.store.commit(commit)
    }

    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error> {
        self.store.outcome(batch)
    }

    fn define_class(&self, class: &ClassDescriptor) -> Result<ClassNumber, Error> {
        self.store.define_class(class)
    }

    fn classes(&self) -> Vec<Arc<ClassDescriptor>> {
        self.store.classes()
    }

    fn register(&self, holder: Arc<dyn Holder>) -> Registration {
        self.store.register(holder)
    }

    fn watch(&self, orefs: Vec<Oref>, watcher: Arc<dyn Watcher>) -> Watching {
        self.store.watch(orefs, watcher)
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error> {
        self.store.scan(from, limit)
    }

    fn collect(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Collected, Error> {
        let collected = self.store.collect(progress)?;
        if collected.freed > 0 {
            // The base has the freed objects until it is told.
            self.store.begin_install()?;
        }
        Ok(collected)
    }

    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
        self.store.check(progress)
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        self.store.snapshot()
    }

    fn info(&self) -> Result<Info, Error> {
        self.store.info()
    }

    fn gauges(&self) -> Gauges {
        self.store.gauges()
    }
}
