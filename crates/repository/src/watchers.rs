//! The watchers of one repository: callers that wait until certain objects are written.
//!
//! [`Watchers`] is the type to read first. An index leads from each watched object to its watchers,
//! so a commit costs a look at the index for each object that it wrote, however many watchers there
//! are.
//!
//! A commit is published first, and told second. A caller enters its watch first, and asks for
//! [changes](crate::Repository::changes) second. So either the commit finds the watch, or the
//! caller finds the commit.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::Oref;

/// Objects that are entered or removed under one lock: commits wait for no more.
const AT_ONCE: usize = 1024;

/// A caller that waits for commits.
pub trait Watcher: Send + Sync {
    /// Notes that an object which it watches was written. It must not take long, and may call the
    /// repository.
    fn changed(&self);
}

/// The watchers of one repository.
#[derive(Clone, Default)]
pub(crate) struct Watchers(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    next: u64,
    watchers: FxHashMap<u64, Arc<dyn Watcher>>,
    by_oref: FxHashMap<Oref, Keys>,
}

/// The keys of the watchers of one object: nearly always one.
enum Keys {
    One(u64),
    Several(Vec<u64>),
}

impl Keys {
    fn as_slice(&self) -> &[u64] {
        match self {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Several(keys) => keys,
        }
    }

    fn add(&mut self, key: u64) {
        match self {
            Keys::One(one) => *self = Keys::Several(vec![*one, key]),
            Keys::Several(keys) => keys.push(key),
        }
    }

    /// Removes a key; returns true if none is left.
    fn remove(&mut self, key: u64) -> bool {
        match self {
            Keys::One(one) => *one == key,
            Keys::Several(keys) => {
                keys.retain(|other| *other != key);
                keys.is_empty()
            }
        }
    }
}

impl Watchers {
    /// Enters a watcher of some objects, until the watch is dropped.
    pub(crate) fn watch(&self, mut orefs: Vec<Oref>, watcher: Arc<dyn Watcher>) -> Watching {
        orefs.sort_unstable();
        orefs.dedup();
        let key = {
            let mut table = self.0.lock();
            let key = table.next;
            table.next += 1;
            table.watchers.insert(key, watcher);
            key
        };
        for some in orefs.chunks(AT_ONCE) {
            let mut table = self.0.lock();
            for oref in some {
                table.by_oref.entry(*oref).and_modify(|keys| keys.add(key)).or_insert(Keys::One(key));
            }
        }
        Watching { watchers: self.clone(), key, orefs }
    }

    /// Tells the watchers of the objects that a commit wrote, after it was published.
    pub(crate) fn tell(&self, written: &[Oref]) {
        let told: Vec<Arc<dyn Watcher>> = {
            let table = self.0.lock();
            let found = written.iter().filter_map(|oref| table.by_oref.get(oref));
            let mut keys: Vec<u64> = found.flat_map(Keys::as_slice).copied().collect();
            keys.sort_unstable();
            keys.dedup();
            keys.iter().filter_map(|key| table.watchers.get(key)).cloned().collect()
        };
        // Not under the lock, so that a watcher may end its watch.
        told.iter().for_each(|watcher| watcher.changed());
    }

    /// Tells all watchers: any object may have been written.
    pub(crate) fn tell_all(&self) {
        let told: Vec<Arc<dyn Watcher>> = self.0.lock().watchers.values().cloned().collect();
        told.iter().for_each(|watcher| watcher.changed());
    }
}

/// A watch of some objects, until it is dropped.
#[must_use = "the objects are watched only as long as the watch lives"]
pub struct Watching {
    watchers: Watchers,
    key: u64,
    orefs: Vec<Oref>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let watcher = self.watchers.0.lock().watchers.remove(&self.key);
        for some in self.orefs.chunks(AT_ONCE) {
            let mut table = self.watchers.0.lock();
            for oref in some {
                if table.by_oref.get_mut(oref).is_some_and(|keys| keys.remove(self.key)) {
                    table.by_oref.remove(oref);
                }
            }
        }
        // Dropping a watcher may run its own code; not under the lock.
        drop(watcher);
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watching({}, {} objects)", self.key, self.orefs.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Watcher for Counts {
        fn changed(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn orefs(numbers: &[u64]) -> Vec<Oref> {
        numbers.iter().filter_map(|number| Oref::new(*number)).collect()
    }

    fn tell(watchers: &Watchers, numbers: &[u64]) {
        watchers.tell(&orefs(numbers));
    }

    #[test]
    fn a_watcher_is_told_once_of_a_commit_to_objects_that_it_watches() {
        let watchers = Watchers::default();
        let [one, other] = [Arc::new(Counts::default()), Arc::new(Counts::default())];
        let counts = || [&one, &other].map(|counts| counts.0.load(Ordering::Relaxed));
        let watch = watchers.watch(orefs(&[5, 6, 6, 7]), one.clone());
        let _other = watchers.watch(orefs(&[7, 8]), other.clone());
        tell(&watchers, &[1, 2, 9]);
        assert_eq!(counts(), [0, 0]);
        tell(&watchers, &[5, 6]);
        assert_eq!(counts(), [1, 0]);
        tell(&watchers, &[7, 9]);
        assert_eq!(counts(), [2, 1]);
        watchers.tell_all();
        assert_eq!(counts(), [3, 2]);
        drop(watch);
        tell(&watchers, &[5, 6, 7, 8]);
        assert_eq!(counts(), [3, 3]);
    }

    #[test]
    fn nothing_is_left_of_watches_that_have_ended() {
        let watchers = Watchers::default();
        let numbers: Vec<u64> = (1..5000).collect();
        let watches: Vec<Watching> =
            (0..5).map(|_| watchers.watch(orefs(&numbers), Arc::new(Counts::default()))).collect();
        drop(watches);
        let table = watchers.0.lock();
        assert_eq!((table.by_oref.len(), table.watchers.len()), (0, 0));
    }
}
