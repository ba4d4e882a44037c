//! The order of commits in every engine: validation, group commit, the buffer of modified objects,
//! collection.
//!
//! [`Store`] is a [`Repository`] over two small traits: a [`Journal`], which makes commits durable,
//! and a [`Base`], where states go later, many commits at once. A commit goes this way:
//!
//! 1. Under the lock of the *sequence* it is compared with the commits since its `valid_to`, gets
//!    the next number, and joins the group that gathers.
//! 2. One of the waiting threads takes the group, lets go of the lock, and writes the whole group
//!    as one record of the journal. Meanwhile the next group gathers; it is compared with this one
//!    as well. If the group is smaller than the last one, the thread first waits a little. The
//!    threads whose commit has just ended are likely to come back, and one that comes too late
//!    waits for another whole write.
//! 3. The record is durable. Under the lock of *visible* its states enter the current layer of the
//!    buffer, and `head` moves. Then all of the group return.
//!
//! A conflict with a commit that is not durable yet is told only when that is: no session hears of
//! a commit that may still vanish. A read-only transaction is compared with visible commits and
//! comes before all others.
//!
//! When the half of the journal that is written is full, the current layer is closed and goes into
//! the base, while the other half is written. So states are in one of three places, asked in this
//! order: the current layer, the layer that is being installed, the base.
//!
//! Order of locks: `maintenance`, `sequence`, `marks`, `journal`, `installing`, `visible`; a thread
//! that has one takes only later ones.

mod base;
pub(crate) mod changes;
pub(crate) mod check;
mod collect;
mod entry;
pub(crate) mod marks;
mod replies;
mod sequence;
mod snapshot;
mod visible;

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bifrost_workers::{Condvar, Reason, blocking};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};

pub use base::{Base, Installation, Journal, JournalError, Loaded, Scanned, Totals, initial};
pub use entry::{Committed, Entry, decode, encode};
pub(crate) use entry::{decode_orefs, encode_orefs};
pub use replies::Reply;
pub use snapshot::{BaseSnapshot, Part, Snapshot};
pub(crate) use visible::class_digest;

use crate::record::ClassDescriptor;
use crate::watchers::Watchers;
use crate::{
    BatchId, CLASSES_MAX, COMMIT_BYTES_MAX, Changes, ClassNumber, Collected, Commit, CommitError, Error,
    Fetched, Gauges, Holder, Holders, Identity, Info, OBJECT_BYTES, ObjectSet, Oref, Progress,
    REPLY_BYTES_MAX, Registration, Report, Repository, Stored, Tid, Watcher, Watching,
};
use marks::Marking;
use sequence::{Failure, Group, Outcome, Sequence};
use visible::Visible;

/// The number of orefs reserved at once; up to so many are lost when a store is closed.
const RESERVE: u64 = 1 << 12;

/// The thread that puts closed layers into the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installing {
    /// The thread of the commit that closes one.
    AtOnce,
    /// The thread of the commit that would close the next one, or one that calls
    /// [`Store::install`]: a thread of the engine.
    Later,
}

/// Bounds of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of one half of the journal. The buffer holds about as much twice, and opening after a
    /// crash reads and installs as much.
    pub log_bytes: usize,
    /// The number of written orefs that are remembered for validation and changes.
    pub changes_kept: usize,
    /// The thread that puts closed layers into the base.
    pub installing: Installing,
    /// Most bytes of records, with [`OBJECT_BYTES`] for each object. A commit that would make them
    /// more is refused; one that makes them fewer never is.
    pub bytes_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            log_bytes: 64 << 20,
            changes_kept: crate::CHANGES_KEPT_MAX,
            installing: Installing::Later,
            bytes_max: u64::MAX,
        }
    }
}

/// A repository over a base and a journal.
pub struct Store<B, J> {
    base: B,
    options: Options,
    identity: Identity,
    head: AtomicU64,
    maintenance: Mutex<()>,
    sequence: Mutex<Sequence>,
    /// Some group has ended; for threads that wait until none is being written.
    settled: Condvar,
    /// The group that gathers is as large as was expected. Goes with the lock of the sequence.
    full: Condvar,
    marking: Marking,
    /// Bytes of the journal in use, for threads that must not wait while it is written.
    log_bytes: AtomicU64,
    journal: Mutex<J>,
    /// The reason why installing failed, after which it is not tried again.
    install: Mutex<Option<String>>,
    visible: RwLock<Visible>,
    holders: Holders,
    watchers: Watchers,
    /// Called when a layer was closed that is to be installed.
    closed: RwLock<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl<B: Base, J: Journal> Store<B, J> {
    /// Makes a store over a base, after the records that the journal had and the base has not.
    /// Those are installed before it returns, so the journal begins empty. The store has a new
    /// identity.
    pub fn start(
        base: B,
        journal: J,
        records: Vec<Vec<Entry>>,
        options: Options,
    ) -> Result<Store<B, J>, Error> {
        let mut visible = Visible::new(base.load()?);
        visible.changes.limit(options.changes_kept);
        for entries in records {
            visible.publish(entries);
        }
        let store = Store {
            base,
            options,
            identity: Identity::random()?,
            head: AtomicU64::new(visible.head.0),
            maintenance: Mutex::default(),
            sequence: Mutex::new(Sequence::new(visible.head, visible.reserved)),
            settled: Condvar::parking_for(Reason::Commit),
            full: Condvar::parking_for(Reason::Commit),
            marking: Marking::default(),
            log_bytes: AtomicU64::new(0),
            install: Mutex::default(),
            holders: Holders::default(),
            watchers: Watchers::default(),
            closed: RwLock::default(),
            journal: Mutex::new(journal),
            visible: RwLock::new(visible),
        };
        store.visible.write().close_layer(store.journal.lock().generation());
        store.install()?;
        Ok(store)
    }

    /// Gives the store the identity that it had before.
    #[must_use]
    pub fn with_identity(self, identity: Identity) -> Store<B, J> {
        Store { identity, ..self }
    }

    /// Returns the base.
    pub fn base(&self) -> &B {
        &self.base
    }

    /// Sets the function that is called when a layer was closed that is to be
    /// [installed](Self::install).
    pub fn on_closed(&self, call: Box<dyn Fn() + Send + Sync>) {
        *self.closed.write() = Some(call);
    }

    /// Puts the closed layer into the base, if there is one.
    pub fn install(&self) -> Result<(), Error> {
        let mut failed = self.install.lock();
        if let Some(reason) = &*failed {
            return Err(Error::ReadOnly { reason: reason.clone() });
        }
        let (layer, totals) = {
            let visible = self.visible.read();
            (visible.installing.clone(), visible.totals)
        };
        let Some(layer) = layer else { return Ok(()) };
        let totals = self
            .base
            .install(&layer.installation(totals))
            .inspect_err(|error| *failed = Some(error.to_string()))?;
        let mut visible = self.visible.write();
        visible.totals = totals;
        visible.installing = None;
        Ok(())
    }

    /// Writes nothing from now on, because of a failure.
    pub fn fail(&self, error: &Error) {
        self.sequence.lock().failed.get_or_insert_with(|| error.to_string());
    }

    /// Puts everything into the base, so that the journal is not needed. For an orderly end.
    pub fn install_all(&self) -> Result<(), Error> {
        self.begin_install()?;
        self.install()
    }

    /// Closes the current layer, so that it goes into the base. Waits for the one before.
    pub fn begin_install(&self) -> Result<(), Error> {
        let mut sequence = self.sequence.lock();
        while sequence.writing.is_some() {
            self.settled.wait(&mut sequence);
        }
        if let Some(reason) = &sequence.failed {
            return Err(Error::ReadOnly { reason: reason.clone() });
        }
        self.turn(&mut self.journal.lock())
    }

    /// Goes on in the other half of the journal.
    fn turn(&self, journal: &mut J) -> Result<(), Error> {
        // The other half has the records that this installs, unless it is done already.
        self.install()?;
        journal.turn();
        self.visible.write().close_layer(journal.generation());
        match self.options.installing {
            Installing::AtOnce => self.install(),
            Installing::Later => {
                if let Some(call) = &*self.closed.read() {
                    call();
                }
                Ok(())
            }
        }
    }

    /// Writes entries as one record, and makes them visible.
    fn write(&self, entries: Cow<'_, [Entry]>) -> Result<(), Failure> {
        let mut payload = Vec::new();
        encode(&entries, &mut payload);
        let mut journal = self.journal.lock();
        if !journal.fits(payload.len()) {
            // Nothing of them is written yet, but the base may be past use.
            self.turn(&mut journal).map_err(|error| Failure::ReadOnly(error.to_string()))?;
        }
        let sequence = self.visible.read().sequence + 1;
        match J::WAITS {
            true => blocking(|| journal.append(sequence, &payload))?,
            false => journal.append(sequence, &payload)?,
        }
        self.log_bytes.store(journal.used(), Ordering::Relaxed);
        let mut visible = self.visible.write();
        visible.publish(entries.into_owned());
        // Pairs with the load in `head`: a thread that sees the number finds the states, under the
        // lock of `visible`.
        self.head.store(visible.head.0, Ordering::Release);
        Ok(())
    }

    /// Waits until a group has ended, and writes it if no other thread does.
    fn settle<'a>(
        &'a self,
        mut sequence: MutexGuard<'a, Sequence>,
        outcome: &Outcome,
    ) -> (MutexGuard<'a, Sequence>, Result<(), Failure>) {
        loop {
            if let Some(result) = outcome.result.get() {
                return (sequence, result.clone());
            }
            if sequence.writing.is_some() || sequence.filling {
                outcome.changed.wait(&mut sequence);
                continue;
            }
            if J::WAITS {
                Sequence::fill(&mut sequence, &self.full);
            }
            let (ended, result) = match (&sequence.failed, J::WAITS) {
                (Some(reason), _) => {
                    let result = Err(Failure::ReadOnly(reason.clone()));
                    (std::mem::take(&mut sequence.gathering).outcome, result)
                }
                (None, false) => {
                    let Group { entries, outcome, .. } = std::mem::take(&mut sequence.gathering);
                    (outcome, self.write(Cow::Owned(entries)))
                }
                (None, true) => {
                    let group = Arc::new(std::mem::take(&mut sequence.gathering));
                    sequence.writing = Some(group.clone());
                    let start = Instant::now();
                    let result =
                        MutexGuard::unlocked(&mut sequence, || self.write(Cow::Borrowed(&group.entries)));
                    sequence.writing = None;
                    sequence.wrote(group.entries.len(), start.elapsed());
                    (group.outcome.clone(), result)
                }
            };
            let (head, reserved) = {
                let visible = self.visible.read();
                (visible.head, visible.reserved)
            };
            sequence.reserved = sequence.reserved.max(reserved);
            match result {
                Ok(()) => {
                    sequence.settle(head, &ended);
                    ended.set(Ok(()));
                }
                Err(failure) => sequence.fail(&ended, failure, head),
            }
            // One of the next group goes on.
            sequence.gathering.outcome.changed.notify_one();
            self.settled.notify_all();
        }
    }

    /// Adds an entry that is no commit, and waits until it is durable.
    fn add_and_settle(&self, mut sequence: MutexGuard<'_, Sequence>, entry: Entry) -> Result<(), Error> {
        let outcome = sequence.gathering.outcome.clone();
        sequence.push(entry, &self.full);
        self.settle(sequence, &outcome).1.map_err(|failure| failure.error())
    }

    /// Compares with visible commits after `seen`, which becomes the last of them.
    fn validate(&self, seen: &mut Tid, reads: &dyn ObjectSet) -> Result<(), CommitError> {
        if seen.0 >= self.head.load(Ordering::Acquire) {
            return Ok(());
        }
        let visible = self.visible.read();
        let upto = visible.head;
        visible.changes.validate(*seen, upto, reads)?;
        *seen = upto;
        Ok(())
    }

    /// True if there is room for a commit.
    fn check_room(&self, commit: &Commit<'_>) -> Result<(), CommitError> {
        let limit = self.options.bytes_max;
        if limit == u64::MAX {
            return Ok(());
        }
        let bytes =
            |states: &[(Oref, Bytes)]| states.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        let created = bytes(&commit.creates) + OBJECT_BYTES * commit.creates.len() as u64;
        let new = created + bytes(&commit.writes);
        let used = self.gauges().used_bytes().unwrap_or(0);
        if used.saturating_add(new) <= limit {
            return Ok(());
        }
        // Only now the size of the replaced states matters.
        let written: Vec<Oref> = commit.writes.iter().map(|(oref, _)| *oref).collect();
        let old: u64 = self.fetch(&written)?.states.iter().flatten().map(|old| old.bytes.len() as u64).sum();
        let value = used.saturating_add(new.saturating_sub(old));
        if new <= old || value <= limit {
            return Ok(());
        }
        let what = "the size of the store's objects, in bytes,";
        Err(Error::Limit { what, value, limit }.into())
    }

    /// True if the batch was committed already; waits for it if it is about to be.
    fn check_batch<'a>(
        &'a self,
        mut sequence: MutexGuard<'a, Sequence>,
        batch: BatchId,
    ) -> Result<MutexGuard<'a, Sequence>, CommitError> {
        while let Some((number, outcome)) = sequence.batches.get(&batch.session) {
            if *number < batch.number {
                break;
            }
            let outcome = outcome.clone();
            sequence = self.settle(sequence, &outcome).0;
        }
        match self.visible.read().replies.get(batch.session) {
            Some(last) if last.number == batch.number => Err(CommitError::Repeated(last.bytes.clone())),
            Some(last) if last.number > batch.number => Err(CommitError::OutOfOrder { last: last.number }),
            _ => Ok(sequence),
        }
    }
}

impl<B: Base, J: Journal> Repository for Store<B, J> {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn head(&self) -> Tid {
        Tid(self.head.load(Ordering::Acquire))
    }

    fn fetch(&self, orefs: &[Oref]) -> Result<Fetched, Error> {
        loop {
            let (mut states, missing, as_of) = {
                let visible = self.visible.read();
                let mut missing = Vec::new();
                let mut states = Vec::with_capacity(orefs.len());
                for (i, oref) in orefs.iter().enumerate() {
                    let state = visible.buffered(*oref);
                    if state.is_none() {
                        missing.push((i, *oref));
                    }
                    states.push(state.cloned().flatten());
                }
                (states, missing, visible.head)
            };
            if missing.is_empty() {
                return Ok(Fetched { states, as_of });
            }
            // Not in the buffer at `as_of`, so the base had them then, and has them or newer ones
            // now.
            let wanted: Vec<Oref> = missing.iter().map(|(_, oref)| *oref).collect();
            let found = self.base.read(&wanted)?;
            if let Some(newer) = found.iter().flatten().find(|stored| stored.tid > as_of) {
                if newer.tid > self.head() {
                    let what =
                        format!("the base has a state of commit {}, which has not happened", newer.tid);
                    return Err(Error::Damaged { what });
                }
                continue;
            }
            for ((i, _), state) in missing.into_iter().zip(found) {
                states[i] = state;
            }
            return Ok(Fetched { states, as_of });
        }
    }

    fn changes(&self, after: Tid, among: &dyn ObjectSet) -> Changes {
        let head = self.head();
        if after >= head {
            return Changes::Written { orefs: Vec::new(), upto: head };
        }
        let visible = self.visible.read();
        let upto = visible.head;
        visible.changes.changes(after, upto, among)
    }

    fn allocate(&self, count: u32) -> Result<Range<u64>, Error> {
        let mut sequence = self.sequence.lock();
        let start = sequence.next_oref;
        let end = start + u64::from(count);
        if end > Oref::MAX {
            return Err(Error::Limit { what: "the number of orefs given", value: end, limit: Oref::MAX });
        }
        sequence.next_oref = end;
        if end <= sequence.reserved {
            return Ok(start..end);
        }
        if end <= sequence.reserving {
            let outcome = sequence.last_outcome();
            self.settle(sequence, &outcome).1.map_err(|failure| failure.error())?;
        } else {
            let upto = end.saturating_add(RESERVE).min(Oref::MAX);
            sequence.reserving = upto;
            self.add_and_settle(sequence, Entry::Reserve(upto))?;
        }
        Ok(start..end)
    }

    fn commit(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        check_commit(&commit, self.head())?;
        let mut seen = commit.valid_to;
        if commit.writes.is_empty() && commit.creates.is_empty() && commit.batch.is_none() {
            self.validate(&mut seen, commit.reads)?;
            return Ok(seen);
        }
        self.check_room(&commit)?;
        let Commit { reads, writes, creates, batch, .. } = commit;
        let commit = Committed { tid: Tid::NONE, writes, creates, batch };
        let written: Vec<Oref> = commit.orefs().collect();
        let sequence = self.admit(seen, reads, &commit)?;
        let (mut sequence, noted) = sequence;
        if commit.creates.iter().any(|(oref, _)| oref.get() >= sequence.next_oref) {
            return Err(CommitError::Invalid("an object is created under an oref that was not allocated"));
        }
        self.marking.note(noted, &commit);
        let (tid, outcome) = sequence.add(commit, &self.full);
        let settled = self.settle(sequence, &outcome).1;
        settled.map_err(|failure| failure.error())?;
        // By the thread that waits for this commit, and without locks: no other commit waits.
        self.watchers.tell(&written);
        Ok(tid)
    }

    fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, Error> {
        let visible = self.visible.read();
        match visible.replies.get(batch.session) {
            Some(last) if last.number == batch.number => Ok(Some(last.bytes.clone())),
            Some(last) if last.number > batch.number => Err(Error::Forgotten { last: last.number }),
            _ => Ok(None),
        }
    }

    fn define_class(&self, class: &ClassDescriptor) -> Result<ClassNumber, Error> {
        if let Some((what, value, limit)) = class.oversize() {
            return Err(Error::Limit { what, value, limit });
        }
        let digest = class_digest(class);
        loop {
            let mut sequence = self.sequence.lock();
            let known = {
                let visible = self.visible.read();
                visible.class_numbers.get(&digest).copied().ok_or(visible.classes.len())
            };
            let count = match known {
                Ok(number) => return Ok(number),
                Err(count) => count,
            };
            // Classes of a group are visible before they are settled; one that is, is not counted
            // twice.
            if let Some((_, outcome)) = sequence.classes.last() {
                let outcome = outcome.clone();
                self.settle(sequence, &outcome).1.map_err(|failure| failure.error())?;
                continue;
            }
            if count >= CLASSES_MAX {
                let (value, limit) = (count as u64 + 1, CLASSES_MAX as u64);
                return Err(Error::Limit { what: "the number of classes of a store", value, limit });
            }
            let number = ClassNumber(count as u32 + 1);
            let outcome = sequence.gathering.outcome.clone();
            sequence.classes.push((digest, outcome));
            self.add_and_settle(sequence, Entry::Class(number, Arc::new(class.clone())))?;
            return Ok(number);
        }
    }

    fn classes(&self) -> Vec<Arc<ClassDescriptor>> {
        self.visible.read().classes.to_vec()
    }

    fn register(&self, holder: Arc<dyn Holder>) -> Registration {
        self.holders.register(holder)
    }

    fn watch(&self, orefs: Vec<Oref>, watcher: Arc<dyn Watcher>) -> Watching {
        self.watchers.watch(orefs, watcher)
    }

    fn scan(&self, from: Oref, limit: usize) -> Result<Vec<(Oref, Stored)>, Error> {
        let found = self.scan_merged(from, limit.max(1))?;
        found.into_iter().map(|(oref, state)| Ok((oref, state?))).collect()
    }

    fn collect(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Collected, Error> {
        self.collect_garbage(progress)
    }

    fn check(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
        self.check_alone(progress)
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        self.take_snapshot()
    }

    fn info(&self) -> Result<Info, Error> {
        let next_oref = self.sequence.lock().next_oref;
        let log_bytes = self.log_bytes.load(Ordering::Relaxed);
        let visible = self.visible.read();
        Ok(Info {
            objects: visible.objects(),
            base_bytes: visible.totals.bytes,
            buffered_bytes: visible.buffered_bytes(),
            log_bytes,
            head: visible.head,
            classes: visible.classes.len() as u64,
            sessions: visible.replies.len() as u64,
            next_oref,
        })
    }

    fn gauges(&self) -> Gauges {
        let visible = self.visible.read();
        Gauges {
            head: visible.head,
            classes: visible.classes.len() as u64,
            objects: Some(visible.objects()),
            base_bytes: Some(visible.totals.bytes),
            buffered_bytes: Some(visible.buffered_bytes()),
            log_bytes: Some(self.log_bytes.load(Ordering::Relaxed)),
            collections: self.marking.count(),
        }
    }
}

/// True if a commit is well formed and within the limits; `head` is the last one that is visible.
pub(crate) fn check_commit(commit: &Commit<'_>, head: Tid) -> Result<(), CommitError> {
    if commit.valid_to > head {
        return Err(CommitError::Invalid("`valid_to` is a commit that has not happened"));
    }
    let states = || commit.writes.iter().chain(&commit.creates);
    let bytes: usize = states().map(|(_, bytes)| bytes.len()).sum();
    let limit = |what, value, limit| Error::Limit { what, value: value as u64, limit: limit as u64 };
    if bytes > COMMIT_BYTES_MAX {
        return Err(limit("the number of bytes of a commit", bytes, COMMIT_BYTES_MAX).into());
    }
    let reply = commit.batch.as_ref().map_or(0, |(_, reply)| reply.len());
    if reply > REPLY_BYTES_MAX {
        return Err(limit("the number of bytes of a batch's reply", reply, REPLY_BYTES_MAX).into());
    }
    let mut orefs: Vec<Oref> = states().map(|(oref, _)| *oref).collect();
    orefs.sort_unstable();
    if orefs.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(CommitError::Invalid("an object is written twice"));
    }
    if orefs.iter().any(|oref| !commit.reads.contains(*oref)) {
        return Err(CommitError::Invalid("a written object is not among the objects read"));
    }
    Ok(())
}
