//! Collection of unreachable objects, while commits go on.
//!
//! Mark and sweep. An object is *white* (not reached), *grey* (reached) or *black* (reached and
//! looked through). An object is reachable if the root directory or a holder leads to it. The
//! argument that no reachable object is freed:
//!
//! - Let *start* be the moment at which marking begins, under the lock of the sequence. Every
//!   reference in any state that an object has at or after the start is made grey, if the object is
//!   ever reached. References in the state at the start become grey when the collection looks
//!   through it, or at the first commit that replaces it, whichever is earlier. References in every
//!   later state become grey by the commit that writes it. Commits that were on their way at the
//!   start count as later.
//! - Objects created since the start are reached.
//! - A holder is asked once, after the start, and names everything that it can name without
//!   fetching (its contract, [`crate::Holder::held`]). Objects that it names later it found in a
//!   state that it created, or in one of a reached object that was current at or after the start.
//! - So each object that a root, a holder or a commit can name is reached when nothing is grey and
//!   all holders were asked. That is looked at under the lock of the sequence. A white object then
//!   can never be named again.
//!
//! A commit thus keeps objects alive to which only the state that it replaces led: those go with
//! the next collection.

use parking_lot::MutexGuard;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::record::walk_refs;
use crate::store::base::{Base, Journal, Scanned};
use crate::store::entry::{Committed, Entry};
use crate::store::marks::Noted;
use crate::store::sequence::Sequence;
use crate::store::{Installing, Store};
use crate::{
    Collected, CommitError, Error, GROUP_BYTES_MAX, ObjectSet, Oref, Progress, Repository, Stored, Tid,
};

/// The number of objects looked at between two looks at the marks.
const CHUNK: usize = 256;

impl<B: Base, J: Journal> Store<B, J> {
    /// Lets a commit through if no other has written an object that it read, and gathers its
    /// additions to the marks of a collection. Returns the lock under which both are true.
    pub(super) fn admit(
        &self,
        mut seen: Tid,
        reads: &dyn ObjectSet,
        commit: &Committed,
    ) -> Result<(MutexGuard<'_, Sequence>, Noted), CommitError> {
        // Most of the comparison is done before the lock is taken. If it fails, that is found again
        // below, after the question whether the batch was committed before.
        let _ = self.validate(&mut seen, reads);
        loop {
            let noted = self.gather(commit);
            let mut sequence = self.sequence.lock();
            if let Some(reason) = &sequence.failed {
                return Err(Error::ReadOnly { reason: reason.clone() }.into());
            }
            if let Some((batch, _)) = &commit.batch {
                sequence = self.check_batch(sequence, *batch)?;
            }
            self.validate(&mut seen, reads)?;
            if sequence.conflicts(seen, reads) || sequence.gathering.bytes > GROUP_BYTES_MAX {
                // A conflict is told when the other commit is durable, or not at all; a group that
                // is large enough goes first.
                let outcome = sequence.last_outcome();
                drop(self.settle(sequence, &outcome));
                continue;
            }
            if self.marking.epoch() == noted.epoch {
                return Ok((sequence, noted));
            }
        }
    }

    /// Returns the additions of a commit to the marks of the collection that is running.
    fn gather(&self, commit: &Committed) -> Noted {
        let epoch = self.marking.epoch();
        let mut noted = Noted { epoch, references: Vec::new(), failed: None };
        if epoch != 0 {
            noted.failed = self.gather_references(commit, &mut noted.references).err();
        }
        noted
    }

    fn gather_references(&self, commit: &Committed, found: &mut Vec<Oref>) -> Result<(), Error> {
        for (oref, bytes) in commit.writes.iter().chain(&commit.creates) {
            self.references(*oref, bytes, found)?;
        }
        let unseen: Vec<Oref> = match &*self.marking.marks.lock() {
            Some(marks) => commit
                .writes
                .iter()
                .map(|(oref, _)| *oref)
                .filter(|oref| !marks.scanned.contains(*oref))
                .collect(),
            None => Vec::new(),
        };
        for (oref, old) in unseen.iter().zip(self.fetch(&unseen)?.states) {
            if let Some(old) = old {
                self.references(*oref, &old.bytes, found)?;
            }
        }
        Ok(())
    }

    fn references(&self, oref: Oref, bytes: &[u8], found: &mut Vec<Oref>) -> Result<(), Error> {
        let classes = self.visible.read().classes.clone();
        walk_refs(bytes, &classes[..], |target| found.push(target))
            .map_err(|source| Error::Record { oref, source })
    }

    pub(super) fn collect_garbage(
        &self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Collected, Error> {
        let _alone = self.maintenance.lock();
        self.start_marking();
        let result = self.mark(progress).and_then(|()| self.sweep());
        if result.is_err() {
            let _sequence = self.sequence.lock();
            self.marking.end();
        }
        result
    }

    /// The start: from here on every commit adds to the marks, and those on their way do so now.
    fn start_marking(&self) {
        let sequence = self.sequence.lock();
        self.marking.start();
        for entry in sequence.entries() {
            let Entry::Commit(commit) = entry else { continue };
            // Their old states are visible still, unless one of them has just become so; then it is
            // the state at the start, and looked through like any other.
            self.marking.note(self.gather(commit), commit);
        }
    }

    fn mark(&self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<(), Error> {
        self.reach(&[Oref::ROOT])?;
        for holder in self.holders.all() {
            let mut held = Vec::new();
            holder.held(&mut |oref| held.push(oref));
            self.reach(&held)?;
        }
        loop {
            while let Some(chunk) = self.next_grey() {
                let mut found = Vec::new();
                for (oref, stored) in chunk.iter().zip(self.fetch(&chunk)?.states) {
                    if let Some(stored) = stored {
                        self.references(*oref, &stored.bytes, &mut found)?;
                    }
                }
                let mut guard = self.marking.marks.lock();
                let marks = guard.as_mut().expect("a collection has marks until it ends");
                chunk.iter().for_each(|oref| {
                    marks.scanned.insert(*oref);
                });
                found.into_iter().for_each(|oref| marks.reach(oref));
                let (done, of) = (marks.scanned.len(), marks.reached.len());
                drop(guard);
                if progress(Progress { done, of: of.max(done) }).is_break() {
                    return Err(Error::Stopped);
                }
            }
            // Commits make grey under this lock, so with it held nothing is grey any more, or
            // marking goes on.
            let _sequence = self.sequence.lock();
            let mut marks = self.marking.marks.lock();
            let marks = marks.as_mut().expect("a collection has marks until it ends");
            if let Some(error) = marks.failed.take() {
                return Err(error);
            }
            if marks.grey.is_empty() {
                return Ok(());
            }
        }
    }

    fn reach(&self, orefs: &[Oref]) -> Result<(), Error> {
        let mut marks = self.marking.marks.lock();
        let marks = marks.as_mut().expect("a collection has marks until it ends");
        orefs.iter().for_each(|oref| marks.reach(*oref));
        marks.failed.take().map_or(Ok(()), Err)
    }

    /// Returns some grey objects that were not looked through.
    fn next_grey(&self) -> Option<Vec<Oref>> {
        let mut marks = self.marking.marks.lock();
        marks.as_mut().expect("a collection has marks until it ends").next_grey(CHUNK)
    }

    /// Frees white objects. Objects created meanwhile are still added to the marks.
    fn sweep(&self) -> Result<Collected, Error> {
        let mut garbage = Vec::new();
        let mut from = Some(Oref::ROOT);
        while let Some(start) = from {
            let chunk = self.scan(start, CHUNK)?;
            from = chunk.last().and_then(|(last, _)| Oref::new(last.get() + 1));
            let marks = self.marking.marks.lock();
            let marks = marks.as_ref().expect("a collection has marks until it ends");
            let white = chunk.into_iter().filter(|(oref, _)| !marks.reached.contains(*oref));
            garbage.extend(white.map(|(oref, stored)| (oref, stored.bytes.len() as u64)));
        }
        let sequence = self.sequence.lock();
        let marks = self.marking.end().expect("a collection has marks until it ends");
        if let Some(error) = marks.failed {
            return Err(error);
        }
        garbage.retain(|(oref, _)| !marks.reached.contains(*oref));
        let collected = Collected {
            live: marks.reached.len(),
            freed: garbage.len() as u64,
            freed_bytes: garbage.iter().map(|(_, bytes)| bytes).sum(),
        };
        if !garbage.is_empty() {
            let orefs = garbage.into_iter().map(|(oref, _)| oref).collect();
            self.add_and_settle(sequence, Entry::Free(orefs))?;
            if self.options.installing == Installing::AtOnce {
                // Only then their memory is free.
                self.install_all()?;
            }
        }
        Ok(collected)
    }

    /// Returns objects from `from` on, from the buffer and the base together.
    pub(super) fn scan_merged(&self, from: Oref, limit: usize) -> Result<Scanned, Error> {
        let mut from = from;
        loop {
            // The buffer first: a state that goes from there into the base in between is seen
            // twice, not missed.
            let buffered = self.visible.read().buffered_from(from, limit);
            let mut merged: BTreeMap<_, _> =
                buffered.into_iter().map(|(oref, state)| (oref, state.map(Ok))).collect();
            let based = self.base.scan(from, limit)?;
            // Beyond the last of a list that was cut short, that list says nothing.
            let ends = [
                (merged.len() >= limit).then(|| merged.last_key_value().map(|(oref, _)| *oref)).flatten(),
                (based.len() >= limit).then(|| based.last().map(|(oref, _)| *oref)).flatten(),
            ];
            let end = ends.into_iter().flatten().min();
            for (oref, stored) in based {
                let newer = |old: &Option<Result<Stored, Error>>| match (old, &stored) {
                    (Some(Ok(old)), Ok(new)) => old.tid < new.tid,
                    // A state that is lost in the base, but not in the buffer, is not lost.
                    _ => false,
                };
                if merged.get(&oref).is_none_or(newer) {
                    merged.insert(oref, Some(stored));
                }
            }
            let known = merged.into_iter().filter(|(oref, _)| end.is_none_or(|end| *oref <= end));
            let found: Vec<_> = known.filter_map(|(oref, state)| Some((oref, state?))).take(limit).collect();
            match end.and_then(|end| Oref::new(end.get() + 1)) {
                // Only freed objects up to there.
                Some(next) if found.is_empty() => from = next,
                _ => return Ok(found),
            }
        }
    }
}
