//! Collection of unreachable objects by one process, while sessions of all processes go on.
//!
//! Read [`Collection`] first: one that is running, by this process. It is the same mark and sweep
//! as within one process ([`crate::store`], `collect.rs`). There is the argument that no object
//! that can be named is freed. The work done there under the lock of the sequence is done here in
//! transactions that lock the row of the head:
//!
//! - The *start* writes the collection's number there. Every commit after it sees the number, and
//!   leaves three things in its row of the log: the objects that it created, the references of the
//!   states that it wrote, and those of the states that it replaced.
//! - Every process that has a row is asked for the objects that its holders name. The states that
//!   it fetches after it has asked them are of the start or later. A process that comes after the
//!   start names nothing that it did not fetch later.
//! - A process that is silent loses its row. Every fetch and every commit looks for the row in its
//!   own transaction. So no object that such a process still names can get back into the store, or
//!   is looked at.
//! - The *end* is a transaction in which nothing is grey. Every process that has a row has
//!   answered, and the rows of all commits were looked through. An object that is white then and
//!   was there then can never be named again, so it is freed without haste, some at a time. A
//!   collector that dies in the middle leaves garbage that refers to freed objects: no living
//!   object does, and the next collection frees it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use crate::postgres::Shared;
use crate::postgres::known::no_row;
use crate::postgres::link::{BEGIN, COMMIT, Connection, Request, Trouble};
use crate::postgres::tables::{Sql, bytes, decoded_marks, maybe_number, number, oref, orefs_of_bytes};
use crate::record::walk_refs;
use crate::store::marks::Marks;
use crate::{Collected, Error, Oref, Progress, Tid};

/// The number of objects looked at between two looks at the marks.
const CHUNK: usize = 256;
/// The number of objects looked at, or freed, by one transaction of the sweep.
const SWEEP: usize = 1 << 13;

/// A collection that is running.
struct Collection {
    number: u64,
    marks: Marks,
    /// The log was looked through up to here.
    seen: Tid,
    /// Processes whose holders are known.
    answered: HashSet<Vec<u8>>,
    /// The last commit when its end was tried.
    ending: Option<Tid>,
}

impl Shared {
    pub fn collect_garbage(
        &self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Collected, Error> {
        let _alone = self.maintenance.lock();
        let mut collection = loop {
            match self.start_collection()? {
                Some(collection) => break collection,
                // Another process collects.
                None => std::thread::sleep(self.options.poll_interval),
            }
        };
        let marked = self.mark(&mut collection, progress);
        if marked.is_err() {
            // If this fails as well, the next one finds it.
            let _ = self.ask(|connection| self.end_over(connection, collection.number));
        }
        self.sweep(&collection.marks, marked?)
    }

    /// Starts a collection, unless another process is collecting.
    fn start_collection(&self) -> Result<Option<Collection>, Error> {
        if self.end_abandoned()? {
            return Ok(None);
        }
        let id = &self.id[..];
        let started = self.ask(|connection| {
            let answers = connection.run(&[BEGIN, Request::With(Sql::Collection, vec![])])?;
            let row = answers[1].first().ok_or_else(no_row)?;
            let (head, running, number) = (Tid(number(row, 0)?), number(row, 1)?, number(row, 2)? + 1);
            // One of this process is one whose start was not answered.
            if running != 0 && bytes(row, 3)? != id {
                connection.run(&[COMMIT])?;
                return Ok(None);
            }
            let started = number as i64;
            connection.run(&[Request::With(Sql::StartCollection, vec![&started, &id]), COMMIT])?;
            Ok(Some((head, number)))
        });
        let Some((head, number)) = started? else { return Ok(None) };
        self.collections.fetch_add(1, Ordering::Relaxed);
        let mut collection = Collection {
            number,
            marks: Marks::default(),
            seen: head,
            answered: HashSet::from([id.to_vec()]),
            ending: None,
        };
        self.reads_from.fetch_max(head.0, Ordering::SeqCst);
        collection.marks.reach(Oref::ROOT);
        self.held().into_iter().for_each(|oref| collection.marks.reach(oref));
        Ok(Some(collection))
    }

    /// Returns true if another process is collecting; ends that if its process was silent for long.
    pub fn end_abandoned(&self) -> Result<bool, Error> {
        let lease = self.options.lease.as_millis() as i64;
        self.ask(|connection| {
            let answers = connection.run(&[BEGIN, Request::With(Sql::Collection, vec![])])?;
            let row = answers[1].first().ok_or_else(no_row)?;
            let (running, collector) = (number(row, 1)?, bytes(row, 3)?);
            if running == 0 || collector == self.id {
                connection.run(&[COMMIT])?;
                return Ok(false);
            }
            let expire = Request::With(Sql::Expire, vec![&collector, &lease]);
            let processes = connection.run(&[expire, Request::With(Sql::Processes, vec![])])?;
            let there = processes[1].iter().any(|row| bytes(row, 0).is_ok_and(|id| id == collector));
            if there {
                connection.run(&[COMMIT])?;
            } else {
                connection.run(&[Request::With(Sql::EndCollection, vec![]), COMMIT])?;
            }
            Ok(there)
        })
    }

    fn end_over(&self, connection: &mut Connection, number_of_it: u64) -> Result<(), Trouble> {
        let answers = connection.run(&[BEGIN, Request::With(Sql::Collection, vec![])])?;
        let row = answers[1].first().ok_or_else(no_row)?;
        if number(row, 1)? == number_of_it {
            connection.run(&[Request::With(Sql::EndCollection, vec![])])?;
        }
        connection.run(&[COMMIT]).map(|_| ())
    }

    /// Reaches everything that can be named; returns the commit at the end.
    fn mark(
        &self,
        collection: &mut Collection,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Tid, Error> {
        loop {
            while let Some(chunk) = collection.marks.next_grey(CHUNK) {
                let (found, looked_at) = self.look_through(&chunk)?;
                let marks = &mut collection.marks;
                looked_at.into_iter().for_each(|oref| _ = marks.scanned.insert(oref));
                found.into_iter().for_each(|oref| marks.reach(oref));
                let (done, of) = (marks.scanned.len(), marks.reached.len());
                if progress(Progress { done, of: of.max(done) }).is_break() {
                    return Err(Error::Stopped);
                }
            }
            if !self.hear_processes(collection)? {
                std::thread::sleep(self.options.poll_interval);
                continue;
            }
            if let Some(end) = self.ask(|connection| self.try_end(connection, collection))? {
                return Ok(end);
            }
        }
    }

    /// Returns the references of some objects, and the objects that they are of.
    fn look_through(&self, chunk: &[Oref]) -> Result<(Vec<Oref>, Vec<Oref>), Error> {
        let wanted: Vec<i64> = chunk.iter().map(|oref| oref.get() as i64).collect();
        let states = self.ask(|connection| {
            let ((_, classes), states) = self.fetch_over(connection, &wanted)?;
            self.learn_classes(connection, classes)?;
            Ok(states)
        })?;
        let mut found = Vec::new();
        let classes = self.known.read().classes.clone();
        for oref in chunk {
            if let Some(stored) = states.get(oref) {
                walk_refs(&stored.bytes, &classes[..], |target| found.push(target))
                    .map_err(|source| Error::Record { oref: *oref, source })?;
            }
        }
        Ok((found, chunk.to_vec()))
    }

    /// Reaches the objects of processes that have answered since the last time. True if all have;
    /// those that are silent for too long are counted out.
    fn hear_processes(&self, collection: &mut Collection) -> Result<bool, Error> {
        let lease = self.options.lease.as_millis() as i64;
        let mut all = true;
        for row in self.ask(|connection| connection.ask(Sql::Processes, vec![]))? {
            let (id, answered) = (bytes(&row, 0)?, number(&row, 1)?);
            if collection.answered.contains(id) {
                continue;
            }
            if answered < collection.number {
                all = false;
                self.ask(|connection| connection.ask(Sql::Expire, vec![&id, &lease]))?;
                continue;
            }
            for row in self.ask(|connection| connection.ask(Sql::Held, vec![&id]))? {
                orefs_of_bytes(bytes(&row, 0)?)?.into_iter().for_each(|oref| collection.marks.reach(oref));
            }
            collection.answered.insert(id.to_vec());
        }
        Ok(all && collection.marks.grey.is_empty())
    }

    /// Ends marking if nothing is left to be looked at; returns the last commit then.
    fn try_end(
        &self,
        connection: &mut Connection,
        collection: &mut Collection,
    ) -> Result<Option<Tid>, Trouble> {
        let after = collection.seen.0 as i64;
        let answers = connection.run(&[
            BEGIN,
            Request::With(Sql::Collection, vec![]),
            Request::With(Sql::Marks, vec![&after]),
            Request::With(Sql::Processes, vec![]),
        ])?;
        let row = answers[1].first().ok_or_else(no_row)?;
        let (head, running, last) = (Tid(number(row, 0)?), number(row, 1)?, number(row, 2)?);
        if !answers[3].iter().any(|row| bytes(row, 0).is_ok_and(|id| id == self.id)) {
            return Err(Error::Lost.into());
        }
        // No other process ends the collection of one that is there.
        if running == 0
            && last == collection.number
            && let Some(end) = collection.ending
        {
            connection.run(&[COMMIT])?;
            return Ok(Some(end));
        }
        if running != collection.number {
            let what = "the running collection belongs to no process".to_owned();
            return Err(Error::Damaged { what }.into());
        }
        for row in &answers[2] {
            self.add_marks(connection, collection, row)?;
        }
        if collection.seen != head {
            let what = format!("commit {} is missing in the log", collection.seen.0 + 1);
            return Err(Error::Damaged { what }.into());
        }
        let mut heard = true;
        for row in &answers[3] {
            heard &= collection.answered.contains(bytes(row, 0)?);
        }
        let grey = &collection.marks.grey;
        if !heard || grey.iter().any(|oref| !collection.marks.scanned.contains(*oref)) {
            connection.run(&[COMMIT])?;
            return Ok(None);
        }
        collection.ending = Some(head);
        connection.run(&[Request::With(Sql::EndCollection, vec![]), COMMIT])?;
        Ok(Some(head))
    }

    /// Adds the marks that a commit left for the collection.
    fn add_marks(
        &self,
        connection: &mut Connection,
        collection: &mut Collection,
        row: &tokio_postgres::Row,
    ) -> Result<(), Trouble> {
        let tid = Tid(number(row, 0)?);
        if let Some(unreadable) = maybe_number(row, 2)? {
            let (_, states) = self.fetch_over(connection, &vec![unreadable as i64])?;
            let classes = self.known.read().classes.clone();
            let oref = Oref::new(unreadable).ok_or_else(no_row)?;
            let wrong = states.get(&oref).map(|stored| walk_refs(&stored.bytes, &classes[..], |_| ()));
            return Err(match wrong {
                Some(Err(source)) => Error::Record { oref, source },
                _ => Error::Damaged {
                    what: format!("commit {tid} wrote or replaced an unreadable object {oref}"),
                },
            }
            .into());
        }
        let (created, references) = decoded_marks(bytes(row, 1)?)?;
        if tid.0 != collection.seen.0 + 1 {
            return Ok(());
        }
        let marks = &mut collection.marks;
        for oref in created {
            marks.reached.insert(oref);
            marks.scanned.insert(oref);
        }
        references.into_iter().for_each(|oref| marks.reach(oref));
        collection.seen = tid;
        Ok(())
    }

    /// Frees the objects that were there at commit `end` and were not reached. Each transaction
    /// frees so many, so that none is long and no process waits for it.
    fn sweep(&self, marks: &Marks, end: Tid) -> Result<Collected, Error> {
        let end = end.0 as i64;
        let mut collected = Collected { live: marks.reached.len(), ..Collected::default() };
        let mut from = Some(Oref::ROOT);
        while let Some(start) = from {
            let (start, limit) = (start.get() as i64, SWEEP as i64);
            let rows = self.ask(|connection| connection.ask(Sql::White, vec![&start, &end, &limit]))?;
            from = None;
            let mut white = Vec::new();
            for row in &rows {
                let at = oref(row, 0)?;
                from = Oref::new(at.get() + 1);
                if !marks.reached.contains(at) {
                    white.push(at.get() as i64);
                }
            }
            if white.is_empty() {
                continue;
            }
            // Of a portion that was freed and not answered, nothing is counted.
            for row in self.ask(|connection| connection.ask(Sql::Free, vec![&white, &end]))? {
                collected.freed += 1;
                collected.freed_bytes += number(&row, 0)?;
            }
        }
        Ok(collected)
    }
}
