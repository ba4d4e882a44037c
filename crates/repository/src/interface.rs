//! The calls of a repository, with their arguments and results.
//!
//! Read [`Repository`] first: the trait that every engine implements. A transaction is in three
//! steps: [`Repository::fetch`] returns states, [`Repository::changes`] tells which of them are
//! old, and [`Repository::commit`] takes a [`Commit`]. The other calls are for the owner of a
//! store: they collect, check, scan and count.
//!
//! The repository owns the states of objects, the classes, and the last replies of sessions. The
//! caller owns its cache and the [`ObjectSet`] of its transaction. Errors are in `error.rs`.

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::holders::{Holder, Registration};
use crate::record::ClassDescriptor;
use crate::store::Snapshot;
use crate::watchers::{Watcher, Watching};
use crate::{BatchId, ClassNumber, CommitError, Error, Identity, OBJECT_BYTES, Oref, Tid};

/// The state of an object: its record, and the commit that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The version.
    pub tid: Tid,
    /// The record ([`crate::record`]); shared, not copied, when cloned.
    pub bytes: Bytes,
}

/// The answer to [`Repository::fetch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// As many as were asked for, in that order; none for an object that is not there.
    pub states: Vec<Option<Stored>>,
    /// The commit at which all of them were current.
    pub as_of: Tid,
}

/// The answer to [`Repository::changes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The objects of the set written after the commit asked for, up to and including `upto`.
    Written {
        /// Objects of the set that were written or created, each once, in order.
        orefs: Vec<Oref>,
        /// The last commit that is counted.
        upto: Tid,
    },
    /// The changes are no longer kept: everything may have changed up to `upto`.
    TooOld {
        /// The last commit.
        upto: Tid,
    },
}

/// A set of objects that written ones are compared with: the read set of a transaction, or the
/// contents of a cache.
pub trait ObjectSet {
    /// True if an object is in the set.
    fn contains(&self, oref: Oref) -> bool;

    /// Returns the most objects that [`each`](Self::each) gives. A set that cannot list its objects
    /// has more than any other.
    fn count(&self) -> usize {
        usize::MAX
    }

    /// Gives all objects; some may be given twice. Objects that this session alone can have written
    /// may be left out. Not called for a set that cannot list them.
    fn each(&self, _found: &mut dyn FnMut(Oref)) {}
}

impl<S: BuildHasher> ObjectSet for HashSet<Oref, S> {
    fn contains(&self, oref: Oref) -> bool {
        HashSet::contains(self, &oref)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn each(&self, found: &mut dyn FnMut(Oref)) {
        self.iter().copied().for_each(found);
    }
}

impl ObjectSet for BTreeSet<Oref> {
    fn contains(&self, oref: Oref) -> bool {
        BTreeSet::contains(self, &oref)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn each(&self, found: &mut dyn FnMut(Oref)) {
        self.iter().copied().for_each(found);
    }
}

/// The set of all objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllObjects;

impl ObjectSet for AllObjects {
    fn contains(&self, _oref: Oref) -> bool {
        true
    }
}

/// The end of a transaction.
pub struct Commit<'a> {
    /// The commit up to which everything read was current: the session's `valid_to`.
    pub valid_to: Tid,
    /// The objects that were read. Everything that the transaction wrote or created counts as read;
    /// so does an object that it asked for and found absent.
    pub reads: &'a dyn ObjectSet,
    /// New states of objects that are there.
    pub writes: Vec<(Oref, Bytes)>,
    /// States of new objects, whose orefs came from [`Repository::allocate`].
    pub creates: Vec<(Oref, Bytes)>,
    /// The batch that this is the end of, and its reply; at most [`crate::REPLY_BYTES_MAX`] bytes.
    pub batch: Option<(BatchId, Bytes)>,
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The number of objects.
    pub objects: u64,
    /// Bytes of records in the base; buffered states that replace them count beside them.
    pub base_bytes: u64,
    /// Bytes of records that are committed and not yet in the base.
    pub buffered_bytes: u64,
    /// Bytes of the log that are in use; 0 for an engine without one.
    pub log_bytes: u64,
    /// The last commit.
    pub head: Tid,
    /// The number of classes.
    pub classes: u64,
    /// Sessions whose last reply is kept.
    pub sessions: u64,
    /// No oref from here on was given.
    pub next_oref: u64,
}

/// The figures that a process knows of its store at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// The last commit that is known.
    pub head: Tid,
    /// Classes that are known.
    pub classes: u64,
    /// Objects; none where a database would have to count them.
    pub objects: Option<u64>,
    /// Bytes of records in the base, likewise.
    pub base_bytes: Option<u64>,
    /// Bytes of records that are committed and not yet in the base: the buffer of modified objects.
    /// None for an engine without one.
    pub buffered_bytes: Option<u64>,
    /// Bytes of the log that are in use; none for an engine without one.
    pub log_bytes: Option<u64>,
    /// Collections of garbage that this process has begun.
    pub collections: u64,
}

impl Gauges {
    /// Returns the bytes that the objects take in memory: their records, and [`OBJECT_BYTES`] for
    /// each; none where a database would have to count them.
    pub fn used_bytes(&self) -> Option<u64> {
        let records = self.base_bytes? + self.buffered_bytes.unwrap_or(0);
        Some(records + OBJECT_BYTES * self.objects?)
    }
}

/// The progress of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Objects looked at.
    pub done: u64,
    /// Objects known to be there; may grow.
    pub of: u64,
}

/// Takes the progress of an operation, ignores it and goes on.
pub fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The answer to [`Repository::collect`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Objects that were reached, or created while it ran.
    pub live: u64,
    /// Objects that were freed.
    pub freed: u64,
    /// Bytes of their records.
    pub freed_bytes: u64,
}

/// The answer to [`Repository::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects looked at.
    pub objects: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// References followed.
    pub references: u64,
    /// Objects of each class, by number.
    pub by_class: Vec<(ClassNumber, u64)>,
    /// The mistakes, at most [`Report::MISTAKES_MAX`] of them; none in a sound store.
    pub mistakes: Vec<Mistake>,
}

impl Report {
    /// The largest number of mistakes that a report lists.
    pub const MISTAKES_MAX: usize = 1000;
}

/// A mistake in a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A record cannot be read.
    #[error("object {oref}: {source}")]
    Record {
        /// The object.
        oref: Oref,
        /// The fault of its record.
        source: crate::record::RecordError,
    },
    /// A reference leads nowhere.
    #[error("object {from} refers to {to}, which does not exist")]
    Dangling {
        /// The object that refers.
        from: Oref,
        /// The object that it names.
        to: Oref,
    },
    /// A reference says another class than its target has.
    #[error("object {from} refers to {to} as class {said}, but it is of class {is}")]
    Class {
        /// The object that refers.
        from: Oref,
        /// The object that it names.
        to: Oref,
        /// The class in the reference.
        said: ClassNumber,
        /// The class of the target.
        is: ClassNumber,
    },
    /// The root directory is not there.
    #[error("the root directory does not exist")]
    NoRoot,
    /// The state of an object is not the one that was written, or not there any more.
    #[error("object {oref} is lost: {what}")]
    Lost {
        /// The object.
        oref: Oref,
        /// The finding, as text.
        what: String,
    },
    /// Bytes besides the states of objects are not those that were written.
    #[error("{what}")]
    Damaged {
        /// The finding and its place, as text.
        what: String,
    },
    /// A state is from a commit that has not happened.
    #[error("object {oref} is of commit {tid}, and the last commit is {head}")]
    Future {
        /// The object.
        oref: Oref,
        /// Its version.
        tid: Tid,
        /// The last commit.
        head: Tid,
    },
}

/// The place of persistent objects. All calls may be made by many threads at once.
///
/// A session keeps the rule of the cache: it has a `valid_to`, up to which everything that it
/// caches is current. [`fetch`](Self::fetch) may give states as of a later commit. Before the
/// session uses them, it applies the [`changes`](Self::changes) up to there. A transaction in which
/// an object that was read has changed can no longer commit.
pub trait Repository: Send + Sync {
    /// Returns the identity of the store, which is durable. All processes that share a store have
    /// the same; no copy has it. Costs no access to the disk or the database.
    fn identity(&self) -> Identity;

    /// Returns the last commit; it is durable, and visible to all calls. Costs one load.
    fn head(&self) -> Tid;

    /// Returns the states of some objects, all current at the same commit.
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error>;

    /// Returns the objects of a set that commits after `after` wrote. They are known at least up to
    /// the `as_of` of every fetch that has returned, and up to every commit that has. Answered from
    /// memory, so it does not fail.
    ///
    /// Cost: one load if there are no such commits; else linear in the objects of the set, or in
    /// those that were written, whichever are fewer.
    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes;

    /// Returns fresh orefs, never given before or after, whatever happens. Those that no object
    /// gets are lost, and there are enough.
    fn allocate(&self, count: u32) -> Result<Range<u64>, Error>;

    /// Ends a transaction: serializable, atomic, and durable when it returns. Without writes,
    /// creates and batch it only checks that the objects read are still current, and returns the
    /// commit at which they were.
    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError>;

    /// Returns the reply of a batch that was committed; none if it was not.
    ///
    /// Kept for the last batch of a session, and for the sessions that committed last
    /// ([`crate::SESSIONS_KEPT_MAX`], [`crate::REPLIES_KEPT_BYTES_MAX`]).
    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error>;

    /// Returns the number of a class, which is new if no class with the same content was defined
    /// before. Durable.
    fn define_class(&self, class: &ClassDescriptor) -> Result<ClassNumber, Error>;

    /// Returns all classes by number: the first has number 1.
    fn classes(&self) -> Vec<Arc<ClassDescriptor>>;

    /// Registers a holder: objects that it names are not collected from now on, until the
    /// registration is dropped.
    fn register(&self, holder: Arc<dyn Holder>) -> Registration;

    /// Calls a watcher after each commit that has written one of these objects, until the result is
    /// dropped. [`changes`](Self::changes) has the commit then.
    ///
    /// A caller that must miss no commit asks for the changes after it has entered the watch. The
    /// watcher may be called for commits that were known before, and more than once. An engine that
    /// other processes share calls it for their commits when it learns of them.
    fn watch(&self, orefs: Vec<Oref>, watcher: Arc<dyn Watcher>) -> Watching;

    /// Returns at most `limit` objects from `from` on, in the order of their orefs. Not a snapshot:
    /// states that are written between two calls may be seen or not.
    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error>;

    /// Frees the objects that neither the root directory nor a holder leads to. Commits go on
    /// meanwhile; one that becomes unreachable meanwhile may stay until the next time. Holders and
    /// `progress` may call the repository, but for another collection or check, which wait for this
    /// one.
    ///
    /// # Errors
    /// [`Error::Stopped`] when `progress` breaks off; nothing is freed.
    fn collect(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Collected, Error>;

    /// Reads everything and reports mistakes. Commits go on meanwhile.
    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error>;

    /// Returns all of the store at one commit. Commits go on meanwhile; the engine keeps what was
    /// there until the snapshot is dropped.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`] for an engine over a database, which has backups of its own.
    fn snapshot(&self) -> Result<Snapshot, Error> {
        Err(Error::NoSnapshot)
    }

    /// Returns the figures. An engine over a database counts for them, which reads everything;
    /// [`gauges`](Self::gauges) does not.
    fn info(&self) -> Result<Info, Error>;

    /// Returns those figures that this process has in memory, for callers that look at them every
    /// few seconds.
    fn gauges(&self) -> Gauges;
}
