//! The sets of objects that a session has commits compared with: the objects that its transaction
//! has read, and those that it caches.

use bifrost_repository::{ObjectSet, Oref};
use bifrost_runtime::Object;
use rustc_hash::FxHashSet;

use crate::ahead::Ahead;
use crate::residents::Residents;

/// The read set of a transaction.
pub(crate) struct Reads<'r> {
    pub residents: &'r Residents,
    /// The objects that it has read and that are here. Those that it made are not among them.
    pub here: &'r [Object],
}

impl ObjectSet for Reads<'_> {
    fn contains(&self, oref: Oref) -> bool {
        self.residents.has_read(oref)
    }

    fn count(&self) -> usize {
        self.here.len() + self.residents.gone().len()
    }

    fn each(&self, found: &mut dyn FnMut(Oref)) {
        let here = self.here.iter().filter(|object| object.number() != 0);
        here.for_each(|object| found(self.residents.oref(object.number())));
        self.residents.gone().iter().copied().for_each(found);
    }
}

/// The objects whose states a session holds, but for `own`: those that its last commit wrote.
pub(crate) struct Cached<'c> {
    pub residents: &'c Residents,
    pub ahead: &'c Ahead,
    pub own: &'c FxHashSet<Oref>,
}

impl ObjectSet for Cached<'_> {
    fn contains(&self, oref: Oref) -> bool {
        let held = self.residents.is_held(oref) || self.ahead.contains(oref);
        held && !self.own.contains(&oref)
    }

    fn count(&self) -> usize {
        self.residents.count() + self.ahead.count()
    }

    fn each(&self, found: &mut dyn FnMut(Oref)) {
        let mut others = |oref: Oref| {
            if !self.own.contains(&oref) {
                found(oref);
            }
        };
        self.residents.each_held(&mut others);
        self.ahead.each(&mut others);
    }
}
