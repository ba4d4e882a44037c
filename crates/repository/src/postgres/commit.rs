//! The line of commits of this process among those of others.
//!
//! Read `commit_in_line` first.
//!
//! 1. A thread compares its commit with the known ones, and with those of this process that wait,
//!    and waits with them. If there is no leader, it leads.
//! 2. The leader begins a transaction, locks the row that has the head, and reads the commits of
//!    others since. Each waiting thread compares with those too, or gives up. Only the thread
//!    itself can compare: it has the read set.
//! 3. The remaining commits get the next numbers, and are written in the same transaction with the
//!    new head.
//!
//! So every commit is compared with all before it, from all processes: no other transaction commits
//! between the lock and the end. If it fails because others were faster, it begins again at 2. If
//! the connection is lost at the end, the leader first writes the row of the head. Then the lost
//! transaction has either ended or can no longer commit, and the leader looks for the group's
//! ticket in the log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bifrost_workers::{Condvar, Reason};
use bytes::Bytes;
use parking_lot::MutexGuard;

use crate::postgres::Shared;
use crate::postgres::known::Written;
use crate::postgres::known::{Logged, Position, Ticket};
use crate::postgres::link::{BEGIN, BUSY, Backoff, COMMIT, Connection, Request, Trouble};
use crate::postgres::tables::{Sql, bytes, encoded_marks, number, orefs_as_bytes};
use crate::record::walk_refs;
use crate::store::Committed;
use crate::{BatchId, Commit, CommitError, Error, GROUP_BYTES_MAX, ObjectSet, Oref, Tid};

/// Bytes of records that are sent in one statement, if they are not one record.
const STATEMENT_BYTES: usize = 4 << 20;

/// Commits of this process that are not done.
#[derive(Default)]
pub struct Queue {
    waiting: VecDeque<Entry>,
    /// Those that the leader is writing.
    taken: Vec<Entry>,
    leading: bool,
    /// The number of those that still have to compare with the commits that the leader has learned.
    stale: usize,
    next: u64,
    ended: HashMap<u64, Result<Tid, CommitError>>,
}

struct Entry {
    number: u64,
    /// The last commit with which it was compared.
    seen: Tid,
    stale: bool,
    changed: Arc<Condvar>,
    commit: Committed,
    written: Written,
}

impl Entry {
    fn batch(&self) -> Option<BatchId> {
        self.commit.batch.as_ref().map(|(batch, _)| *batch)
    }

    fn states(&self) -> impl Iterator<Item = &(Oref, Bytes)> {
        self.commit.writes.iter().chain(&self.commit.creates)
    }
}

impl Queue {
    /// True if one that is not done is in the way of another: it wrote an object that the other
    /// read, or is of the same session.
    fn is_in_the_way(&self, reads: &dyn ObjectSet, batch: Option<BatchId>) -> bool {
        let session = batch.map(|batch| batch.session);
        self.waiting.iter().chain(&self.taken).any(|entry| {
            entry.written.iter().any(|oref| reads.contains(*oref))
                || (session.is_some() && entry.batch().map(|batch| batch.session) == session)
        })
    }

    fn end(&mut self, entry: &Entry, result: Result<Tid, CommitError>) {
        self.ended.insert(entry.number, result);
        entry.changed.notify_one();
    }
}

/// Returns the same failure for another commit.
fn same(error: &Error) -> Error {
    match error {
        Error::Away { reason } => Error::Away { reason: reason.clone() },
        Error::Uncertain { reason } => Error::Uncertain { reason: reason.clone() },
        Error::Lost => Error::Lost,
        Error::Damaged { what } => Error::Damaged { what: what.clone() },
        other => Error::Database { reason: other.to_string() },
    }
}

impl Shared {
    /// Commits a transaction that is well formed and not empty.
    pub fn commit_in_line(&self, commit: Commit<'_>) -> Result<Tid, CommitError> {
        let Commit { valid_to: mut seen, reads, writes, creates, batch } = commit;
        let batch_id = batch.as_ref().map(|(batch, _)| *batch);
        if let Some(batch) = batch_id.filter(|batch| batch.number > i64::MAX as u64) {
            let (what, limit) = ("the number of a batch", i64::MAX as u64);
            return Err(Error::Limit { what, value: batch.number, limit }.into());
        }
        let commit = Committed { tid: Tid::NONE, writes, creates, batch };
        let mut written: Vec<Oref> = commit.orefs().collect();
        written.sort_unstable();
        let written: Written = written.into();
        let mut queue = loop {
            // A batch that was committed already is told of before a conflict with itself.
            if let Err(conflict) = self.validate(&mut seen, reads) {
                return Err(self.repeated(batch_id).unwrap_or(conflict));
            }
            let mut queue = self.queue.lock();
            if self.validate(&mut seen, reads).is_err() {
                continue;
            }
            if !queue.is_in_the_way(reads, batch_id) {
                break queue;
            }
            // A conflict is told when the other commit is durable, or not at all.
            self.settled.wait(&mut queue);
        };
        let number = queue.next;
        queue.next += 1;
        let changed = Arc::new(Condvar::parking_for(Reason::Commit));
        let entry = Entry { number, seen, stale: false, changed: changed.clone(), commit, written };
        queue.waiting.push_back(entry);
        loop {
            if let Some(result) = queue.ended.remove(&number) {
                return result;
            }
            if let Some(at) = queue.waiting.iter().position(|entry| entry.number == number && entry.stale) {
                queue.stale -= 1;
                self.stirred.notify_one();
                if let Err(conflict) = self.validate(&mut seen, reads) {
                    queue.waiting.remove(at);
                    self.settled.notify_all();
                    drop(queue);
                    return Err(self.repeated(batch_id).unwrap_or(conflict));
                }
                (queue.waiting[at].seen, queue.waiting[at].stale) = (seen, false);
            } else if queue.leading {
                changed.wait(&mut queue);
            } else {
                self.lead(&mut queue, number, &mut seen, reads);
            }
        }
    }

    /// Compares with the known commits after `seen`, which becomes the last of them.
    pub fn validate(&self, seen: &mut Tid, reads: &dyn ObjectSet) -> Result<(), CommitError> {
        if *seen >= self.head() {
            return Ok(());
        }
        let known = self.known.read();
        known.changes.validate(*seen, known.head, reads)?;
        *seen = known.head;
        Ok(())
    }

    /// Returns the answer to a batch that was committed before.
    fn repeated(&self, batch: Option<BatchId>) -> Option<CommitError> {
        let batch = batch?;
        match self.last_batch(batch) {
            Ok(Some((last, reply))) => repeated(batch, last, reply),
            Ok(None) => None,
            Err(error) => Some(error.into()),
        }
    }

    /// Sees to it that a group is done, or that all that wait have failed.
    fn lead(&self, queue: &mut MutexGuard<'_, Queue>, own: u64, seen: &mut Tid, reads: &dyn ObjectSet) {
        queue.leading = true;
        let result = MutexGuard::unlocked(queue, || self.write_group(own, seen, reads));
        queue.leading = false;
        if let Err(error) = result {
            for entry in std::mem::take(&mut queue.taken) {
                queue.end(&entry, Err(same(&error).into()));
            }
            // The others have not been tried; only the outcome of those above may be in doubt.
            let error = match error {
                Error::Uncertain { reason } => Error::Away { reason },
                other => other,
            };
            for entry in std::mem::take(&mut queue.waiting) {
                queue.end(&entry, Err(same(&error).into()));
            }
        }
        if let Some(entry) = queue.waiting.front() {
            entry.changed.notify_one();
        }
        self.settled.notify_all();
    }

    fn write_group(&self, own: u64, seen: &mut Tid, reads: &dyn ObjectSet) -> Result<(), Error> {
        let mut ticket = Ticket::default();
        getrandom::fill(&mut ticket).map_err(|error| Error::Database { reason: error.to_string() })?;
        let mut backoff = Backoff::new(self.options.patience);
        let mut doubt = None;
        loop {
            let tried = self.pool.once(|connection| {
                if let Some(head) = doubt
                    && self.settle_doubt(connection, head, &ticket, &mut doubt)?
                {
                    return Ok(());
                }
                self.try_group(connection, own, seen, reads, &ticket, &mut doubt)
            });
            let reason = match tried {
                Ok(()) => return Ok(()),
                Err(Trouble::Refused(error)) if doubt.is_none() => return Err(self.note(error)),
                Err(Trouble::Refused(error)) => return Err(Error::Uncertain { reason: error.to_string() }),
                Err(Trouble::Again) => BUSY.to_owned(),
                Err(Trouble::Away(reason)) => reason,
            };
            if doubt.is_none() {
                self.give_back();
            }
            if !backoff.wait() {
                return Err(match doubt {
                    Some(_) => Error::Uncertain { reason },
                    None => Error::Away { reason },
                });
            }
        }
    }

    /// Returns the taken commits to the line, before the others.
    fn give_back(&self) {
        let mut queue = self.queue.lock();
        for entry in std::mem::take(&mut queue.taken).into_iter().rev() {
            queue.waiting.push_front(entry);
        }
    }

    /// Finds out if the group that was to follow commit `head` was committed. If not, it never will
    /// be.
    fn settle_doubt(
        &self,
        connection: &mut Connection,
        head: Tid,
        ticket: &Ticket,
        doubt: &mut Option<Tid>,
    ) -> Result<bool, Trouble> {
        let (id, after) = (&self.id[..], head.0 as i64);
        let log = Request::With(Sql::Log, vec![&id, &after]);
        let answers = connection.run(&[BEGIN, Request::With(Sql::Touch, vec![]), log, COMMIT])?;
        let position = Position::read(&answers[2])?;
        let own: Vec<Tid> =
            position.log.iter().filter(|logged| logged.ticket == ticket).map(|logged| logged.tid).collect();
        if own.is_empty() && !position.is_whole_after(head) {
            let reason = "the log was trimmed meanwhile".to_owned();
            return Err(Trouble::Refused(Error::Uncertain { reason }));
        }
        self.learn(connection, position)?;
        *doubt = None;
        if own.is_empty() {
            self.give_back();
            return Ok(false);
        }
        let mut queue = self.queue.lock();
        for (entry, tid) in std::mem::take(&mut queue.taken).iter().zip(own) {
            queue.end(entry, Ok(tid));
        }
        Ok(true)
    }

    fn try_group(
        &self,
        connection: &mut Connection,
        own: u64,
        seen: &mut Tid,
        reads: &dyn ObjectSet,
        ticket: &Ticket,
        doubt: &mut Option<Tid>,
    ) -> Result<(), Trouble> {
        let (id, after) = (&self.id[..], self.head().0 as i64);
        let log = Request::With(Sql::Log, vec![&id, &after]);
        let answers = connection.run(&[BEGIN, Request::With(Sql::Lock, vec![]), log])?;
        let position = Position::read(&answers[2])?;
        let (head, collection) = (position.head, position.collection);
        self.learn(connection, position)?;
        if !self.take_group(head, own, seen, reads) {
            connection.run(&[COMMIT])?;
            return Ok(());
        }
        self.drop_repeated(connection)?;
        let marks = if collection == 0 { Vec::new() } else { self.marks(connection)? };
        let rows = Rows::of(&self.queue.lock().taken, head, marks);
        if rows.changes.is_empty() {
            connection.run(&[COMMIT])?;
            return Ok(());
        }
        let written = rows.write(connection, ticket);
        if let Err(Trouble::Away(_)) = written {
            *doubt = Some(head);
        }
        written?;
        let mut queue = self.queue.lock();
        let log = rows.changes.iter().zip(&queue.taken).map(|(change, entry)| Logged {
            tid: change.tid,
            ticket: Vec::new(),
            written: entry.written.clone(),
        });
        let log: Vec<_> = log.collect();
        self.publish(Position { head: rows.head, classes: 0, collection, answered: 0, log });
        for (entry, change) in std::mem::take(&mut queue.taken).iter().zip(&rows.changes) {
            queue.end(entry, Ok(change.tid));
        }
        Ok(())
    }

    /// Has all that wait compare with the commits up to `head`, and takes the remaining ones, as
    /// many as a group may have. False if none remains.
    fn take_group(&self, head: Tid, own: u64, seen: &mut Tid, reads: &dyn ObjectSet) -> bool {
        let mut queue = self.queue.lock();
        let validated = self.validate(seen, reads);
        if let Some(at) = queue.waiting.iter().position(|entry| entry.number == own) {
            queue.waiting[at].seen = *seen;
            if let Err(conflict) = validated {
                queue.waiting.remove(at);
                queue.ended.insert(own, Err(conflict));
            }
        }
        let mut stale = 0;
        for entry in queue.waiting.iter_mut().filter(|entry| entry.seen < head) {
            entry.stale = true;
            stale += 1;
            entry.changed.notify_one();
        }
        queue.stale = stale;
        while queue.stale > 0 {
            self.stirred.wait(&mut queue);
        }
        let mut room = GROUP_BYTES_MAX;
        while room > 0 {
            let Some(entry) = queue.waiting.pop_front() else { break };
            room = room.saturating_sub(entry.states().map(|(_, bytes)| bytes.len()).sum());
            queue.taken.push(entry);
        }
        !queue.taken.is_empty()
    }

    /// Ends those of a group whose batch was committed before.
    fn drop_repeated(&self, connection: &mut Connection) -> Result<(), Trouble> {
        let sessions: Vec<[u8; 16]> = {
            let queue = self.queue.lock();
            let batches = queue.taken.iter().filter_map(Entry::batch);
            batches.map(|batch| batch.session.to_be_bytes()).collect()
        };
        if sessions.is_empty() {
            return Ok(());
        }
        let sessions: Vec<&[u8]> = sessions.iter().map(|session| &session[..]).collect();
        let rows = connection.ask(Sql::Replies, vec![&sessions])?;
        let mut last = HashMap::new();
        for row in &rows {
            last.insert(bytes(row, 0)?.to_vec(), (number(row, 1)?, Bytes::copy_from_slice(bytes(row, 2)?)));
        }
        let mut queue = self.queue.lock();
        for entry in std::mem::take(&mut queue.taken) {
            let before = entry.batch().and_then(|batch| {
                let (number, reply) = last.get(&batch.session.to_be_bytes()[..])?;
                repeated(batch, *number, reply.clone())
            });
            match before {
                Some(error) => queue.end(&entry, Err(error)),
                None => queue.taken.push(entry),
            }
        }
        Ok(())
    }

    /// Returns the additions of the group to the collection that is running: as bytes, or the
    /// object that cannot be read.
    fn marks(&self, connection: &mut Connection) -> Result<Vec<Result<Vec<u8>, Oref>>, Trouble> {
        let writes: Vec<i64> = {
            let queue = self.queue.lock();
            let writes = queue.taken.iter().flat_map(|entry| &entry.commit.writes);
            writes.map(|(oref, _)| oref.get() as i64).collect()
        };
        let (_, old) = self.fetch_over(connection, &writes)?;
        let classes = self.known.read().classes.clone();
        let queue = self.queue.lock();
        let marks = queue.taken.iter().map(|entry| {
            let mut references = Vec::new();
            let new = entry.states().map(|(oref, bytes)| (*oref, bytes));
            let old = entry.commit.writes.iter().filter_map(|(oref, _)| Some((*oref, &old.get(oref)?.bytes)));
            for (oref, bytes) in new.chain(old) {
                walk_refs(bytes, &classes[..], |target| references.push(target)).map_err(|_| oref)?;
            }
            references.sort_unstable();
            references.dedup();
            let mut created: Vec<Oref> = entry.commit.creates.iter().map(|(oref, _)| *oref).collect();
            created.sort_unstable();
            Ok(encoded_marks(&created, &references))
        });
        Ok(marks.collect())
    }
}

/// Returns the answer to a batch if `last` was the last one of its session.
fn repeated(batch: BatchId, last: u64, reply: Bytes) -> Option<CommitError> {
    match last.cmp(&batch.number) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(CommitError::Repeated(reply)),
        std::cmp::Ordering::Greater => Some(CommitError::OutOfOrder { last }),
    }
}

/// The rows that a group writes, as columns.
struct Rows {
    /// The last commit of the group.
    head: Tid,
    /// Orefs, commits and records, as many as go into a statement.
    states: Vec<(Vec<i64>, Vec<i64>, Vec<Bytes>)>,
    changes: Vec<Change>,
}

/// A row of the log, and of the replies.
struct Change {
    tid: Tid,
    written: i64,
    orefs: Vec<u8>,
    marks: Option<Vec<u8>>,
    unreadable: Option<i64>,
    batch: Option<(BatchId, Bytes)>,
}

impl Change {
    fn bytes(&self) -> usize {
        let reply = self.batch.as_ref().map_or(0, |(_, reply)| reply.len());
        self.orefs.len() + self.marks.as_ref().map_or(0, Vec::len) + reply
    }
}

impl Rows {
    fn of(group: &[Entry], head: Tid, marks: Vec<Result<Vec<u8>, Oref>>) -> Rows {
        let mut rows = Rows { head, states: Vec::new(), changes: Vec::new() };
        let mut marks = marks.into_iter();
        let mut room = 0;
        for entry in group {
            let tid = Tid(rows.head.0 + 1);
            rows.head = tid;
            for (oref, bytes) in entry.states() {
                if room < bytes.len() || rows.states.is_empty() {
                    rows.states.push(Default::default());
                    room = STATEMENT_BYTES;
                }
                room = room.saturating_sub(bytes.len());
                if let Some((orefs, tids, records)) = rows.states.last_mut() {
                    orefs.push(oref.get() as i64);
                    tids.push(tid.0 as i64);
                    records.push(bytes.clone());
                }
            }
            let (marks, unreadable) = match marks.next() {
                None => (None, None),
                Some(Ok(marks)) => (Some(marks), None),
                Some(Err(oref)) => (None, Some(oref.get() as i64)),
            };
            let (written, orefs) = (entry.written.len() as i64, orefs_as_bytes(&entry.written));
            let batch = entry.commit.batch.clone();
            rows.changes.push(Change { tid, written, orefs, marks, unreadable, batch });
        }
        rows
    }

    /// Writes all of it, and ends the transaction.
    fn write(&self, connection: &mut Connection, ticket: &Ticket) -> Result<(), Trouble> {
        let records: Vec<Vec<&[u8]>> =
            self.states.iter().map(|(_, _, records)| records.iter().map(|r| &r[..]).collect()).collect();
        let log: Vec<LogColumns<'_>> = portions(&self.changes).map(LogColumns::of).collect();
        let replies: Vec<ReplyColumns<'_>> = portions(&self.changes).map(ReplyColumns::of).collect();
        let (ticket, head) = (&ticket[..], self.head.0 as i64);
        let mut requests = Vec::new();
        for ((orefs, tids, _), records) in self.states.iter().zip(&records) {
            requests.push(Request::With(Sql::Put, vec![orefs, tids, records]));
        }
        for LogColumns { tids, written, orefs, marks, unreadable } in &log {
            requests.push(Request::With(Sql::Change, vec![&ticket, tids, written, orefs, marks, unreadable]));
        }
        for ReplyColumns { sessions, numbers, tids, replies } in &replies {
            if !sessions.is_empty() {
                requests.push(Request::With(Sql::Reply, vec![sessions, numbers, tids, replies]));
            }
        }
        requests.push(Request::With(Sql::Head, vec![&head]));
        requests.push(COMMIT);
        connection.run(&requests).map(|_| ())
    }
}

/// Rows of the log in portions that go into a statement.
fn portions(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    let mut room = STATEMENT_BYTES;
    changes.chunk_by(move |last, next| {
        room = room.saturating_sub(last.bytes());
        let fits = room >= next.bytes();
        if !fits {
            room = STATEMENT_BYTES;
        }
        fits
    })
}

/// The rows of the log, by column.
#[derive(Default)]
struct LogColumns<'c> {
    tids: Vec<i64>,
    written: Vec<i64>,
    orefs: Vec<&'c [u8]>,
    marks: Vec<Option<&'c [u8]>>,
    unreadable: Vec<Option<i64>>,
}

impl<'c> LogColumns<'c> {
    fn of(changes: &'c [Change]) -> LogColumns<'c> {
        let mut columns = LogColumns::default();
        for change in changes {
            columns.tids.push(change.tid.0 as i64);
            columns.written.push(change.written);
            columns.orefs.push(&change.orefs);
            columns.marks.push(change.marks.as_deref());
            columns.unreadable.push(change.unreadable);
        }
        columns
    }
}

/// The rows of the replies, by column; a group has one batch of a session at most.
#[derive(Default)]
struct ReplyColumns<'c> {
    sessions: Vec<Vec<u8>>,
    numbers: Vec<i64>,
    tids: Vec<i64>,
    replies: Vec<&'c [u8]>,
}

impl<'c> ReplyColumns<'c> {
    fn of(changes: &'c [Change]) -> ReplyColumns<'c> {
        let mut columns = ReplyColumns::default();
        for change in changes {
            let Some((batch, reply)) = &change.batch else { continue };
            columns.sessions.push(batch.session.to_be_bytes().to_vec());
            columns.numbers.push(batch.number as i64);
            columns.tids.push(change.tid.0 as i64);
            columns.replies.push(reply);
        }
        columns
    }
}
