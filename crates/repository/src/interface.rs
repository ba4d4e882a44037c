//! The calls of a repository, and what they take and give.

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bytes::Bytes;

use crate::holders::{Holder, Registration};
use crate::record::ClassDescriptor;
use crate::{BatchId, ClassNumber, CommitError, Error, OBJECT_BYTES, Oref, Tid};

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
    /// What was written after the commit asked for, up to and including `upto`.
    Written {
        /// Objects written or created, each once, in order.
        orefs: Vec<Oref>,
        /// The last commit that is counted.
        upto: Tid,
    },
    /// That is no longer kept: everything may have changed up to `upto`.
    TooOld {
        /// The last commit.
        upto: Tid,
    },
}

/// What a transaction read.
pub trait ReadSet {
    /// True if it read that object. Everything that it wrote or created counts as read; so does an object that it
    /// asked for and found absent.
    fn contains(&self, oref: Oref) -> bool;
}

impl<S: BuildHasher> ReadSet for HashSet<Oref, S> {
    fn contains(&self, oref: Oref) -> bool {
        HashSet::contains(self, &oref)
    }
}

impl ReadSet for BTreeSet<Oref> {
    fn contains(&self, oref: Oref) -> bool {
        BTreeSet::contains(self, &oref)
    }
}

/// The end of a transaction.
pub struct Commit<'a> {
    /// The commit up to which everything read was current: the session's `valid_to`.
    pub valid_to: Tid,
    /// What was read.
    pub reads: &'a dyn ReadSet,
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
    /// Objects.
    pub objects: u64,
    /// Bytes of records in the base; buffered states that replace them count beside them.
    pub base_bytes: u64,
    /// Bytes of records that are committed and not yet in the base.
    pub buffered_bytes: u64,
    /// Bytes of the log that are in use; 0 for an engine without one.
    pub log_bytes: u64,
    /// The last commit.
    pub head: Tid,
    /// Classes.
    pub classes: u64,
    /// Sessions whose last reply is kept.
    pub sessions: u64,
    /// No oref from here on was given.
    pub next_oref: u64,
}

/// What a process knows of its store at any time.
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
    /// Bytes of records that are committed and not yet in the base: the buffer of modified objects. None for an engine without one.
    pub buffered_bytes: Option<u64>,
    /// Bytes of the log that are in use; none for an engine without one.
    pub log_bytes: Option<u64>,
    /// Collections of garbage that this process has begun.
    pub collections: u64,
}

impl Gauges {
    /// What the objects take where they are in memory, in bytes: their records, and [`OBJECT_BYTES`] for each; none where a database
    /// would have to count them.
    pub fn used_bytes(&self) -> Option<u64> {
        let records = self.base_bytes? + self.buffered_bytes.unwrap_or(0);
        Some(records + OBJECT_BYTES * self.objects?)
    }
}

/// How far a long operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Objects looked at.
    pub done: u64,
    /// Objects known to be there; may grow.
    pub of: u64,
}

/// The progress of somebody who neither looks nor stops anything.
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
    /// What is wrong, at most [`Report::MISTAKES_MAX`] of it; nothing in a sound store.
    pub mistakes: Vec<Mistake>,
}

impl Report {
    /// The number of mistakes that a report lists.
    pub const MISTAKES_MAX: usize = 1000;
}

/// Something wrong in a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A record cannot be read.
    #[error("object {oref}: {source}")]
    Record {
        /// The object.
        oref: Oref,
        /// Where its record is wrong.
        source: crate::record::RecordError,
    },
    /// A reference leads nowhere.
    #[error("object {from} refers to {to}, which is not there")]
    Dangling {
        /// The object that refers.
        from: Oref,
        /// What it names.
        to: Oref,
    },
    /// A reference says another class than its target has.
    #[error("object {from} refers to {to} as class {said}, but it is of class {is}")]
    Class {
        /// The object that refers.
        from: Oref,
        /// What it names.
        to: Oref,
        /// The class in the reference.
        said: ClassNumber,
        /// The class of the target.
        is: ClassNumber,
    },
    /// The root directory is not there.
    #[error("the root directory is not there")]
    NoRoot,
    /// The state of an object is not what was written, or not there any more.
    #[error("object {oref} is lost: {what}")]
    Lost {
        /// The object.
        oref: Oref,
        /// The finding, as text.
        what: String,
    },
    /// Something besides the states of objects is not what was written.
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

/// Where persistent objects live. All calls may be made by many threads at once.
///
/// A session keeps the rule of the cache: it has a `valid_to`, up to which everything that it caches is current.
/// Before it uses what [`fetch`](Self::fetch) gave as of a later commit, it applies the
/// [`changes`](Self::changes) up to there; a transaction in which something read has changed can no longer commit.
pub trait Repository: Send + Sync {
    /// The last commit; it is durable, and visible to all calls. Costs one load.
    fn head(&self) -> Tid;

    /// The states of some objects, all current at the same commit.
    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error>;

    /// What commits after `after` wrote; known at least up to the `as_of` of every fetch that has returned, and up to
    /// every commit that has. Answered from memory, so it does not fail. Costs one load if there are none.
    fn changes(&self, after: Tid) -> Changes;

    /// Fresh orefs, never given before or after, whatever happens. Those that no object gets are lost, and there
    /// are enough.
    fn allocate(&self, count: u32) -> Result<Range<u64>, Error>;

    /// Ends a transaction: serializable, atomic, and durable when it returns. Without writes, creates and batch it
    /// only looks whether what was read is still current, and gives the commit at which it was.
    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError>;

    /// The reply of a batch that was committed; none if it was not.
    ///
    /// Kept for the last batch of a session, and for the sessions that committed last
    /// ([`crate::SESSIONS_KEPT_MAX`], [`crate::REPLIES_KEPT_BYTES_MAX`]).
    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error>;

    /// The number of a class, which is new if no class with the same content was defined before. Durable.
    fn define_class(&self, class: &ClassDescriptor) -> Result<ClassNumber, Error>;

    /// All classes by number: the first has number 1.
    fn classes(&self) -> Vec<Arc<ClassDescriptor>>;

    /// From now on objects that the holder names are not collected, until the registration is dropped.
    fn register(&self, holder: Arc<dyn Holder>) -> Registration;

    /// At most `limit` objects from `from` on, in the order of their orefs. Not a snapshot: what is written between
    /// two calls may be seen or not.
    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error>;

    /// Frees the objects that neither the root directory nor a holder leads to. Commits go on meanwhile; one that
    /// becomes unreachable meanwhile may stay until the next time. Holders and `progress` may call the repository,
    /// but for another collection or check, which wait for this one.
    ///
    /// # Errors
    /// [`Error::Stopped`] when `progress` breaks off; nothing is freed.
    fn collect(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Collected, Error>;

    /// Reads everything and reports what is wrong. Commits go on meanwhile.
    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error>;

    /// Figures. An engine over a database counts for them, which reads everything; [`gauges`](Self::gauges) does not.
    fn info(&self) -> Result<Info, Error>;

    /// Those figures that this process has in memory, for who looks at them every few seconds.
    fn gauges(&self) -> Gauges;
}
