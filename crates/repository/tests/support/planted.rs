//! Bugs that are planted on purpose, in front of a sound store or below it, so that the suite shows
//! that it finds them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bifrost_repository::record::ClassDescriptor;
use bifrost_repository::{
    BatchId, Changes, ClassNumber, Collected, Commit, CommitError, Error, Fetched, Gauges, Holder, Identity,
    Info, ObjectSet, Oref, Progress, Registration, Report, Repository, Stored, Tid, Watcher, Watching,
};
use bytes::Bytes;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Validation: a commit is compared with nothing that happened before it.
    ValidatedFromHead,
    /// Validation: only what was written counts as read.
    WritesAlone,
    /// Invalidation: some of what others wrote is not told.
    ChangesLeftOut,
    /// Invalidation: what was told to one is not told to others.
    ToldOnce,
    /// Invalidation: changes that are not kept any more are told as none.
    ForgottenIsNothing,
    /// Isolation: the states of a fetch are of different moments.
    TornFetch,
    /// Isolation: a commit is done in two parts.
    CommitInHalves,
    /// Replies: the reply of a batch that was committed is not known.
    ReplyForgotten,
    /// Replies: a batch that was not committed has a reply.
    ReplyOfAnother,
    /// Crash: commits are acknowledged before the log is synchronised.
    EarlyAcknowledgement,
    /// Crash: a half of the log is written again before the base is synchronised.
    EarlyTurn,
    /// Crash: the log has no checksums.
    NoChecksums,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 12] = [
        Bug::ValidatedFromHead,
        Bug::WritesAlone,
        Bug::ChangesLeftOut,
        Bug::ToldOnce,
        Bug::ForgottenIsNothing,
        Bug::TornFetch,
        Bug::CommitInHalves,
        Bug::ReplyForgotten,
        Bug::ReplyOfAnother,
        Bug::EarlyAcknowledgement,
        Bug::EarlyTurn,
        Bug::NoChecksums,
    ];
}

/// A store with a bug, or without one; of some commits it does not say whether they were done, as a
/// store whose connection is lost.
pub struct Planted {
    store: Arc<dyn Repository>,
    bug: Option<Bug>,
    commits: AtomicU64,
    /// Invalidations told, and the last commit that they cover.
    told: Mutex<BTreeMap<Oref, Tid>>,
    /// Batches that were not done, though nobody was told.
    not_done: Mutex<HashSet<BatchId>>,
}

impl Planted {
    pub fn new(store: Arc<dyn Repository>, bug: Option<Bug>) -> Planted {
        let (told, not_done) = (Mutex::default(), Mutex::default());
        Planted { store, bug, commits: AtomicU64::new(0), told, not_done }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn commit_in_halves(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        let Commit { valid_to, reads, mut writes, mut creates, batch } = commit;
        let half = writes.len().div_ceil(2);
        let (rest, made) = (writes.split_off(half), creates.split_off(0));
        let first = self.store.commit(Commit { valid_to, reads, writes, creates: vec![], batch: None })?;
        std::thread::yield_now();
        self.store.commit(Commit { valid_to: first, reads, writes: rest, creates: made, batch })
    }
}

fn doubt() -> CommitError {
    CommitError::Store(Error::InDoubt { reason: "the connection was lost".into() })
}

impl Repository for Planted {
    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn head(&self) -> Tid {
        self.store.head()
    }

    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        if !self.has(Bug::TornFetch) {
            return self.store.fetch(orefs);
        }
        let mut torn = Fetched { states: vec![], as_of: self.store.head() };
        for oref in orefs {
            let mut one = self.store.fetch(&[*oref])?;
            torn.states.append(&mut one.states);
            torn.as_of = one.as_of;
            std::thread::yield_now();
        }
        Ok(torn)
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        match self.store.changes(after, among) {
            Changes::Written { mut orefs, upto } => {
                if self.has(Bug::ChangesLeftOut) {
                    orefs.retain(|oref| !oref.get().is_multiple_of(3));
                }
                if self.has(Bug::ToldOnce) {
                    let mut told = self.told.lock().unwrap();
                    orefs.retain(|oref| told.insert(*oref, upto).is_none_or(|before| before < upto));
                }
                Changes::Written { orefs, upto }
            }
            Changes::TooOld { upto } if self.has(Bug::ForgottenIsNothing) => {
                Changes::Written { orefs: vec![], upto }
            }
            old => old,
        }
    }

    fn allocate(&self, count: u32) -> Result<Range<u64>, Error> {
        self.store.allocate(count)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        let own: BTreeSet<Oref> =
            commit.writes.iter().chain(&commit.creates).map(|(oref, _)| *oref).collect();
        // Lives as long as what it may be given to read.
        let mut commit: Commit<'_> = commit;
        if self.has(Bug::WritesAlone) && !own.is_empty() {
            commit.reads = &own as &dyn ObjectSet;
        }
        if self.has(Bug::ValidatedFromHead) {
            commit.valid_to = self.store.head();
        }
        let (number, batch) =
            (self.commits.fetch_add(1, Ordering::Relaxed), commit.batch.as_ref().map(|batch| batch.0));
        // Of one in eight batches nobody is told what became of it.
        match (number % 16, batch) {
            (3, Some(batch)) => {
                self.not_done.lock().unwrap().insert(batch);
                return Err(doubt());
            }
            (11, Some(_)) => return self.store.commit(commit).and(Err(doubt())),
            _ => {}
        }
        match self.has(Bug::CommitInHalves) && own.len() > 1 {
            true => self.commit_in_halves(commit),
            false => self.store.commit(commit),
        }
    }

    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error> {
        if self.has(Bug::ReplyForgotten) {
            return Ok(None);
        }
        if self.has(Bug::ReplyOfAnother) && self.not_done.lock().unwrap().contains(&batch) {
            return Ok(Some("done".into()));
        }
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
        self.store.collect(progress)
    }

    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
        self.store.check(progress)
    }

    fn info(&self) -> Result<Info, Error> {
        self.store.info()
    }

    fn gauges(&self) -> Gauges {
        self.store.gauges()
    }
}
