//! What recent commits wrote: the other half of validation.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{CHANGES_KEPT_MAX, Oref, Tid};

/// The orefs that a commit wrote or created.
pub type Written = Arc<[Oref]>;

/// What the last commits wrote, bounded by [`CHANGES_KEPT_MAX`].
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

    /// The commits after that one, oldest first; none if they are not all kept.
    pub fn after(&self, tid: Tid) -> Option<impl Iterator<Item = &(Tid, Written)>> {
        if tid < self.floor {
            return None;
        }
        let start = self.commits.partition_point(|(other, _)| *other <= tid);
        Some(self.commits.range(start..))
    }
}
