//! The writes of recent commits: the other half of validation.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{CHANGES_KEPT_MAX, Changes, CommitError, Oref, ReadSet, Tid};

/// The orefs that a commit wrote or created.
pub type Written = Arc<[Oref]>;

/// The objects that the last commits wrote, bounded by [`CHANGES_KEPT_MAX`].
pub struct ChangeLog {
    /// Commits after this one are kept.
    floor: Tid,
    commits: VecDeque<(Tid, Written)>,
    orefs: usize,
    orefs_max: usize,
}

impl ChangeLog {
    pub fn new(floor: Tid) -> ChangeLog {
        ChangeLog { floor, commits: VecDeque::new(), orefs: 0, orefs_max: CHANGES_KEPT_MAX }
    }

    /// Returns the commit after which all are kept.
    pub fn floor(&self) -> Tid {
        self.floor
    }

    pub fn limit(&mut self, orefs_max: usize) {
        self.orefs_max = orefs_max;
    }

    pub fn push(&mut self, tid: Tid, written: Written) {
        // A commit that writes nothing takes room as well.
        self.orefs += written.len() + 1;
        self.commits.push_back((tid, written));
        while self.orefs > self.orefs_max {
            let Some((tid, written)) = self.commits.pop_front() else { break };
            self.orefs -= written.len() + 1;
            self.floor = tid;
        }
    }

    /// Returns the commits after that one, oldest first; none if they are not all kept.
    pub fn after(&self, tid: Tid) -> Option<impl Iterator<Item = &(Tid, Written)>> {
        if tid < self.floor {
            return None;
        }
        let start = self.commits.partition_point(|(other, _)| *other <= tid);
        Some(self.commits.range(start..))
    }

    /// Checks that no object that was read was written after `seen`, when everything was current,
    /// and up to `upto`, the last commit here.
    pub fn validate(&self, seen: Tid, upto: Tid, reads: &dyn ReadSet) -> Result<(), CommitError> {
        let commits = self.after(seen).ok_or(CommitError::TooOld { upto })?;
        let written = commits.flat_map(|(_, written)| written.iter().copied());
        let orefs = in_order(written.filter(|oref| reads.contains(*oref)).collect());
        if orefs.is_empty() { Ok(()) } else { Err(CommitError::Conflict { orefs, upto }) }
    }

    /// Returns the objects written after a commit and up to `upto`, the last one here.
    pub fn written(&self, after: Tid, upto: Tid) -> Changes {
        match self.after(after) {
            None => Changes::TooOld { upto },
            Some(commits) => {
                let orefs = in_order(commits.flat_map(|(_, written)| written.iter().copied()).collect());
                Changes::Written { orefs, upto }
            }
        }
    }
}

/// Returns the orefs in order, each once.
fn in_order(mut orefs: Vec<Oref>) -> Vec<Oref> {
    orefs.sort_unstable();
    orefs.dedup();
    orefs
}
