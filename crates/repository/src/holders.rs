//! The holders, which keep objects alive besides the root directory.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Oref;

/// A session, or another party that names objects without being one.
pub trait Holder: Send + Sync {
    /// Calls `found` with every oref that the holder can name without fetching anything: the
    /// objects of its handles and of its cache, and *every reference in the states that it caches
    /// or has not committed yet*. It may name one more than once, and may wait for as long as a
    /// batch runs, but not for the collection.
    ///
    /// Orefs that it comes to name later it reads from states that it fetches later, and the
    /// collection sees those.
    fn held(&self, found: &mut dyn FnMut(Oref));
}

/// The holders of one repository.
#[derive(Clone, Default)]
pub struct Holders(Arc<Mutex<List>>);

#[derive(Default)]
struct List {
    next: u64,
    entries: Vec<(u64, Arc<dyn Holder>)>,
}

impl Holders {
    /// Adds one, until the registration is dropped.
    pub fn register(&self, holder: Arc<dyn Holder>) -> Registration {
        let mut list = self.0.lock();
        let key = list.next;
        list.next += 1;
        list.entries.push((key, holder));
        Registration { holders: self.clone(), key }
    }

    /// Returns all that are registered now.
    pub fn all(&self) -> Vec<Arc<dyn Holder>> {
        self.0.lock().entries.iter().map(|(_, holder)| holder.clone()).collect()
    }
}

/// A holder counts as long as this lives.
#[must_use = "the holder counts only as long as the registration lives"]
pub struct Registration {
    holders: Holders,
    key: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut list = self.holders.0.lock();
        let gone = list.entries.iter().position(|(key, _)| *key == self.key);
        let holder = gone.map(|at| list.entries.swap_remove(at));
        // Dropping a holder may run its own code; not under the lock.
        drop(list);
        drop(holder);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({})", self.key)
    }
}
