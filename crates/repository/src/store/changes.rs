//! The writes of recent commits: the other half of validation.
//!
//! [`ChangeLog`] is asked which objects of a set were written after a commit. It answers in one of
//! two ways, so that the cost follows the smaller of both:
//!
//! - The set is smaller than the log after that commit: each object of the set is looked up in a
//!   table with the last commit of each *slot*. Objects share a slot if their orefs are equal in
//!   the low bits, so the table may suspect an object that was not written. The log decides then.
//! - Else each written object is looked up in the set.
//!
//! So the caches of many sessions cost nothing when one of them commits, and a session with a small
//! cache pays nothing for the commits of others, however many they are.

use std::collections::VecDeque;

use crate::{CHANGES_KEPT_MAX, Changes, CommitError, ObjectSet, Oref, Tid};

/// The slots of the table of last commits, as a power of two. Orefs are dense, so objects that are
/// used together are in different slots. The pages of slots that nothing was written to take no
/// memory.
const SLOTS: usize = 1 << 18;

/// The objects that the last commits wrote, bounded by [`CHANGES_KEPT_MAX`].
pub struct ChangeLog {
    /// Commits after this one are kept.
    floor: Tid,
    /// The commits, each with the end of its objects: counted from the first object ever.
    commits: VecDeque<(Tid, u64)>,
    /// The objects of all commits, in the order of commits.
    orefs: VecDeque<Oref>,
    /// The number of objects that were dropped at the front.
    dropped: u64,
    orefs_max: usize,
    /// For each slot the number of the last commit that wrote an object of it. Commits that have
    /// failed may be there: a number that is too high makes an object suspect, and no more.
    last: Vec<u64>,
}

impl ChangeLog {
    pub fn new(floor: Tid) -> ChangeLog {
        ChangeLog {
            floor,
            commits: VecDeque::new(),
            orefs: VecDeque::new(),
            dropped: 0,
            orefs_max: CHANGES_KEPT_MAX,
            last: vec![0; SLOTS],
        }
    }

    /// Returns the commit after which all are kept.
    pub fn floor(&self) -> Tid {
        self.floor
    }

    pub fn limit(&mut self, orefs_max: usize) {
        self.orefs_max = orefs_max;
    }

    pub fn push(&mut self, tid: Tid, written: impl Iterator<Item = Oref>) {
        let last = &mut self.last;
        self.orefs.extend(written.inspect(|oref| last[slot(*oref)] = tid.0));
        self.commits.push_back((tid, self.end()));
        // A commit that writes nothing takes room as well.
        while self.orefs.len() + self.commits.len() > self.orefs_max && self.pop() {}
    }

    /// Forgets the oldest commit; returns false if there is none.
    fn pop(&mut self) -> bool {
        let Some((tid, end)) = self.commits.pop_front() else { return false };
        self.orefs.drain(..(end - self.dropped) as usize);
        self.dropped = end;
        self.floor = tid;
        true
    }

    /// Forgets the commits up to `tid`.
    pub fn forget_upto(&mut self, tid: Tid) {
        while self.commits.front().is_some_and(|(first, _)| *first <= tid) {
            self.pop();
        }
    }

    /// Forgets all commits.
    pub fn clear(&mut self) {
        self.dropped = self.end();
        self.commits.clear();
        self.orefs.clear();
    }

    fn end(&self) -> u64 {
        self.dropped + self.orefs.len() as u64
    }

    /// Checks that no object that was read was written after `seen`, when everything was current,
    /// and up to `upto`, the last commit here.
    pub fn validate(&self, seen: Tid, upto: Tid, reads: &dyn ObjectSet) -> Result<(), CommitError> {
        if seen < self.floor {
            return Err(CommitError::TooOld { upto });
        }
        let orefs = self.written(seen, reads);
        if orefs.is_empty() { Ok(()) } else { Err(CommitError::Conflict { orefs, upto }) }
    }

    /// Returns the objects of a set that were written after a commit and up to `upto`, the last one
    /// here.
    pub fn changes(&self, after: Tid, upto: Tid, among: &dyn ObjectSet) -> Changes {
        if after < self.floor {
            return Changes::TooOld { upto };
        }
        Changes::Written { orefs: self.written(after, among), upto }
    }

    /// Returns the objects of a set that the commits after `after` wrote, as far as these are kept:
    /// in order, each once.
    pub fn written(&self, after: Tid, among: &dyn ObjectSet) -> Vec<Oref> {
        let from = self.start(after);
        let count = self.end() - from;
        if count == 0 {
            return Vec::new();
        }
        if among.count() as u64 >= count {
            return self.scan(from, |oref| among.contains(oref));
        }
        let mut suspects = Vec::new();
        among.each(&mut |oref| {
            if self.last[slot(oref)] > after.0 {
                suspects.push(oref);
            }
        });
        suspects.sort_unstable();
        let found = match suspects.is_empty() {
            true => suspects,
            false => self.scan(from, |oref| suspects.binary_search(&oref).is_ok()),
        };
        debug_assert_eq!(found, self.scan(from, |oref| among.contains(oref)), "both ways find the same");
        found
    }

    /// Returns the place of the first object that commits after that one wrote.
    fn start(&self, after: Tid) -> u64 {
        let Some((last, end)) = self.commits.back() else { return self.end() };
        if *last <= after {
            return *end;
        }
        // Numbers of commits ascend, and nearly always by one.
        let most = usize::try_from(last.0 - after.0).unwrap_or(usize::MAX);
        let mut at = self.commits.len().saturating_sub(most);
        if self.commits[at].0 <= after {
            at = self.commits.partition_point(|(tid, _)| *tid <= after);
        }
        if at == 0 { self.dropped } else { self.commits[at - 1].1 }
    }

    /// Returns the objects from a place on that are wanted: in order, each once.
    fn scan(&self, from: u64, wanted: impl Fn(Oref) -> bool) -> Vec<Oref> {
        let written = self.orefs.range((from - self.dropped) as usize..).copied();
        let mut orefs: Vec<Oref> = written.filter(|oref| wanted(*oref)).collect();
        orefs.sort_unstable();
        orefs.dedup();
        orefs
    }
}

/// Returns the slot of an object.
fn slot(oref: Oref) -> usize {
    oref.get() as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    fn orefs(numbers: &[u64]) -> Vec<Oref> {
        numbers.iter().filter_map(|number| Oref::new(*number)).collect()
    }

    fn set(numbers: &[u64]) -> BTreeSet<Oref> {
        orefs(numbers).into_iter().collect()
    }

    fn push(log: &mut ChangeLog, tid: Tid, numbers: &[u64]) {
        log.push(tid, orefs(numbers).into_iter());
    }

    /// A set that counts the questions about it.
    struct Asked {
        set: BTreeSet<Oref>,
        contains: Cell<usize>,
        listed: Cell<usize>,
    }

    impl ObjectSet for Asked {
        fn contains(&self, oref: Oref) -> bool {
            self.contains.set(self.contains.get() + 1);
            self.set.contains(&oref)
        }

        fn count(&self) -> usize {
            self.set.len()
        }

        fn each(&self, found: &mut dyn FnMut(Oref)) {
            self.listed.set(self.listed.get() + self.set.len());
            self.set.iter().copied().for_each(found);
        }
    }

    fn asked(numbers: &[u64]) -> Asked {
        Asked { set: set(numbers), contains: Cell::new(0), listed: Cell::new(0) }
    }

    #[test]
    fn changes_of_a_set_are_found_in_both_ways() {
        let mut log = ChangeLog::new(Tid(10));
        push(&mut log, Tid(11), &[5, 6]);
        push(&mut log, Tid(12), &[]);
        push(&mut log, Tid(13), &[6, 7, 8]);
        push(&mut log, Tid(20), &[9]);
        let many: Vec<u64> = (1..100).collect();
        for (after, all) in [
            (10, &[5, 6, 7, 8, 9][..]),
            (11, &[6, 7, 8, 9]),
            (12, &[6, 7, 8, 9]),
            (13, &[9]),
            (15, &[9]),
            (20, &[]),
            (30, &[]),
        ] {
            assert_eq!(log.written(Tid(after), &set(&many)), orefs(all), "after {after}");
            for one in 1..10 {
                let expected = if all.contains(&one) { orefs(&[one]) } else { vec![] };
                assert_eq!(log.written(Tid(after), &set(&[one])), expected, "{one} after {after}");
            }
        }
        assert_eq!(log.changes(Tid(9), Tid(20), &set(&[5])), Changes::TooOld { upto: Tid(20) });
    }

    #[test]
    fn a_small_set_does_not_pay_for_the_commits_of_others() {
        let mut log = ChangeLog::new(Tid(0));
        for tid in 1..=10_000 {
            push(&mut log, Tid(tid), &[100 + tid]);
        }
        let small = asked(&[3, 100, 20_000]);
        assert_eq!(log.written(Tid(0), &small), vec![]);
        assert_eq!(small.listed.get(), 3);
        // In a build with assertions both ways are compared.
        assert_eq!(small.contains.get(), if cfg!(debug_assertions) { 10_000 } else { 0 });
        let large = asked(&(1..=5000).collect::<Vec<_>>());
        assert_eq!(log.written(Tid(9997), &large), vec![]);
        assert_eq!((large.contains.get(), large.listed.get()), (3, 0));
    }

    #[test]
    fn objects_that_share_a_slot_are_told_apart() {
        let mut log = ChangeLog::new(Tid(0));
        let other = 7 + SLOTS as u64;
        for tid in 1..=10 {
            push(&mut log, Tid(tid), &[other]);
        }
        assert_eq!(log.written(Tid(0), &set(&[7])), vec![]);
        assert_eq!(log.written(Tid(0), &set(&[other])), orefs(&[other]));
        // The later write of the one does not hide the earlier write of the other.
        push(&mut log, Tid(11), &[7]);
        push(&mut log, Tid(12), &[other]);
        assert_eq!(log.written(Tid(10), &set(&[7])), orefs(&[7]));
        assert_eq!(log.written(Tid(11), &set(&[7])), vec![]);
    }

    #[test]
    fn commits_that_are_forgotten_or_failed_are_not_found() {
        let mut log = ChangeLog::new(Tid(0));
        for tid in 1..=5 {
            push(&mut log, Tid(tid), &[tid, 50]);
        }
        log.forget_upto(Tid(3));
        assert_eq!(log.floor(), Tid(3));
        assert_eq!(log.written(Tid(0), &set(&[1, 2, 3, 4])), orefs(&[4]));
        log.clear();
        assert_eq!(log.written(Tid(0), &set(&[4, 50])), vec![]);
        // The numbers of failed commits are given again.
        push(&mut log, Tid(4), &[60]);
        push(&mut log, Tid(5), &[61]);
        assert_eq!(log.written(Tid(3), &set(&[4])), vec![]);
        assert_eq!(log.written(Tid(3), &set(&[60])), orefs(&[60]));
    }
}
