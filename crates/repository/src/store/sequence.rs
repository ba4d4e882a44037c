//! Commits on their way: validated, numbered, and not yet durable.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bifrost_workers::{Condvar, Reason};
use parking_lot::MutexGuard;

use crate::store::base::JournalError;
use crate::store::changes::ChangeLog;
use crate::store::entry::{Committed, Entry};
use crate::{Error, GROUP_BYTES_MAX, ObjectSet, Tid};

/// Sleeping takes longer than so much, and a write that is as quick needs no company.
const PATIENCE_MIN: Duration = Duration::from_micros(20);

/// A group waits no longer for commits that may come, however slow the disk.
const PATIENCE_MAX: Duration = Duration::from_millis(2);

/// The reason why a group did not become durable.
#[derive(Clone, Debug)]
pub enum Failure {
    /// There was no room; nothing was written.
    NoRoom(std::io::ErrorKind, String),
    /// It is not known if it is stored.
    InDoubt(String),
    /// It was not written, because of an earlier failure.
    ReadOnly(String),
}

impl Failure {
    pub fn error(&self) -> Error {
        match self.clone() {
            Failure::NoRoom(kind, text) => Error::NoRoom { source: std::io::Error::new(kind, text) },
            Failure::InDoubt(reason) => Error::InDoubt { reason },
            Failure::ReadOnly(reason) => Error::ReadOnly { reason },
        }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        match error {
            JournalError::NoRoom(source) => Failure::NoRoom(source.kind(), source.to_string()),
            JournalError::InDoubt(what, source) => Failure::InDoubt(format!("{what}: {source}")),
        }
    }
}

/// The end of a group, once it has ended.
pub type Outcome = Arc<Ending>;

/// The end of a group, for all threads that wait for it.
pub struct Ending {
    pub result: OnceLock<Result<(), Failure>>,
    /// Signals that the group has ended, or that no thread writes any more and one of the group's
    /// threads should. Goes with the lock of the sequence. One for each group, so that the end of
    /// one does not wake the threads of the next.
    pub changed: Condvar,
}

impl Default for Ending {
    fn default() -> Ending {
        Ending { result: OnceLock::new(), changed: Condvar::parking_for(Reason::Commit) }
    }
}

impl Ending {
    /// Ends the group. Called once, by the thread that wrote it or by the one whose failure ends
    /// it.
    pub fn set(&self, result: Result<(), Failure>) {
        let _ = self.result.set(result);
        self.changed.notify_all();
    }
}

/// Entries that become durable together.
#[derive(Default)]
pub struct Group {
    pub entries: Vec<Entry>,
    /// Bytes of the states of its commits.
    pub bytes: usize,
    pub outcome: Outcome,
}

/// The commits between validation and durability. The thread that has its lock decides which comes
/// next.
pub struct Sequence {
    /// The next commit's number.
    pub next_tid: Tid,
    /// The next oref that is given.
    pub next_oref: u64,
    /// Orefs below it may be given: durably, and once the gathering group is durable.
    pub reserved: u64,
    pub reserving: u64,
    /// The group that new entries join.
    pub gathering: Group,
    /// A thread waits for the group to fill, and will write it.
    pub filling: bool,
    /// The group that a thread is writing.
    pub writing: Option<Arc<Group>>,
    /// Entries of the last group: so many may come again at once.
    expected: usize,
    /// The time that the next group may wait for them.
    patience: Duration,
    /// The objects that the commits of both wrote.
    pub pending: ChangeLog,
    /// The batches of both, by session: number, and the group's outcome.
    pub batches: HashMap<u128, (u64, Outcome)>,
    /// Classes of both: digest and the group's outcome.
    pub classes: Vec<([u8; 32], Outcome)>,
    /// The failure after which nothing is written any more.
    pub failed: Option<String>,
}

impl Sequence {
    pub fn new(head: Tid, reserved: u64) -> Sequence {
        let mut pending = ChangeLog::new(head);
        // However many objects a group has.
        pending.limit(usize::MAX);
        Sequence {
            next_tid: Tid(head.0 + 1),
            next_oref: reserved,
            reserved,
            reserving: reserved,
            gathering: Group::default(),
            filling: false,
            writing: None,
            expected: 0,
            patience: Duration::ZERO,
            pending,
            batches: HashMap::new(),
            classes: Vec::new(),
            failed: None,
        }
    }

    /// True if a pending commit after `seen` wrote an object that was read.
    pub fn conflicts(&self, seen: Tid, reads: &dyn ObjectSet) -> bool {
        !self.pending.written(seen, reads).is_empty()
    }

    /// Returns the outcome that everything pending has at the latest.
    pub fn last_outcome(&self) -> Outcome {
        match &self.writing {
            Some(group) if self.gathering.entries.is_empty() => group.outcome.clone(),
            _ => self.gathering.outcome.clone(),
        }
    }

    /// Numbers a commit and adds it to the group.
    pub fn add(&mut self, mut commit: Committed, full: &Condvar) -> (Tid, Outcome) {
        let tid = self.next_tid;
        commit.tid = tid;
        self.next_tid.0 += 1;
        let states = commit.writes.iter().chain(&commit.creates);
        self.gathering.bytes += states.map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.pending.push(tid, commit.orefs());
        let outcome = self.gathering.outcome.clone();
        if let Some((batch, _)) = &commit.batch {
            self.batches.insert(batch.session, (batch.number, outcome.clone()));
        }
        self.push(Entry::Commit(commit), full);
        (tid, outcome)
    }

    /// Adds an entry to the group.
    pub fn push(&mut self, entry: Entry, full: &Condvar) {
        self.gathering.entries.push(entry);
        if self.filling && self.is_full() {
            full.notify_one();
        }
    }

    fn is_full(&self) -> bool {
        self.gathering.entries.len() >= self.expected || self.gathering.bytes > GROUP_BYTES_MAX
    }

    /// Waits until the group is as large as the last one was, or it has taken too long.
    pub fn fill(sequence: &mut MutexGuard<'_, Sequence>, full: &Condvar) {
        if sequence.is_full() || sequence.patience < PATIENCE_MIN {
            return;
        }
        let until = Instant::now() + sequence.patience;
        sequence.filling = true;
        while !sequence.is_full() && !full.wait_until(sequence, until).timed_out() {}
        sequence.filling = false;
    }

    /// Learns from a group that was written how many entries to wait for, and how long.
    pub fn wrote(&mut self, entries: usize, took: Duration) {
        self.expected = entries;
        self.patience = (took / 2).min(PATIENCE_MAX);
    }

    /// Forgets the commits that are visible now.
    pub fn settle(&mut self, head: Tid, outcome: &Outcome) {
        self.pending.forget_upto(head);
        self.batches.retain(|_, (_, of)| !Arc::ptr_eq(of, outcome));
        self.classes.retain(|(_, of)| !Arc::ptr_eq(of, outcome));
    }

    /// Ends everything pending, because one group failed and later ones were validated against it.
    pub fn fail(&mut self, ended: &Outcome, failure: Failure, head: Tid) {
        let after = match &failure {
            Failure::NoRoom(..) => failure.clone(),
            Failure::InDoubt(reason) | Failure::ReadOnly(reason) => {
                self.failed = Some(reason.clone());
                Failure::ReadOnly(reason.clone())
            }
        };
        let gathering = std::mem::take(&mut self.gathering);
        ended.set(Err(failure));
        gathering.outcome.set(Err(after));
        self.pending.clear();
        self.batches.clear();
        self.classes.clear();
        self.next_tid = Tid(head.0 + 1);
        // The orefs reserved by them are not reserved; none of them was given.
        self.reserving = self.reserved;
    }

    /// Returns every entry that is pending, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.writing.iter().flat_map(|group| group.entries.iter()).chain(&self.gathering.entries)
    }
}
