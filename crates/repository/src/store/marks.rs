//! The marks of a collection: the objects reached so far, and the additions of commits meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::store::entry::Committed;
use crate::{Error, Oref};

/// A set of orefs: one bit each, in pages, because orefs are dense.
#[derive(Default)]
pub struct Bits {
    pages: BTreeMap<u64, Box<[u64; Bits::WORDS]>>,
    count: u64,
}

impl Bits {
    const WORDS: usize = 64;

    fn place(oref: Oref) -> (u64, usize, u64) {
        let number = oref.get();
        (number / (64 * Bits::WORDS as u64), (number / 64) as usize % Bits::WORDS, 1 << (number % 64))
    }

    pub fn contains(&self, oref: Oref) -> bool {
        let (page, word, bit) = Bits::place(oref);
        self.pages.get(&page).is_some_and(|page| page[word] & bit != 0)
    }

    /// Adds one; returns true if it is new.
    pub fn insert(&mut self, oref: Oref) -> bool {
        let (page, word, bit) = Bits::place(oref);
        let page = self.pages.entry(page).or_insert_with(|| Box::new([0; Bits::WORDS]));
        let new = page[word] & bit == 0;
        page[word] |= bit;
        self.count += u64::from(new);
        new
    }

    pub fn len(&self) -> u64 {
        self.count
    }
}

/// The colours of one collection: white is in neither set, grey in `reached` only, black in both.
#[derive(Default)]
pub struct Marks {
    pub reached: Bits,
    /// Every state that the object has had since the start was, or will be, looked through for
    /// references.
    pub scanned: Bits,
    /// The objects reached and not yet looked through, and perhaps some that are.
    pub grey: Vec<Oref>,
    /// The reason why a commit could not make its additions.
    pub failed: Option<Error>,
}

impl Marks {
    /// Makes a white object grey.
    pub fn reach(&mut self, oref: Oref) {
        if self.reached.insert(oref) {
            self.grey.push(oref);
        }
    }

    /// Returns some grey objects that were not looked through, at most so many; none if there are
    /// none.
    pub fn next_grey(&mut self, most: usize) -> Option<Vec<Oref>> {
        let mut chunk = Vec::new();
        while chunk.len() < most {
            let Some(oref) = self.grey.pop() else { break };
            if !self.scanned.contains(oref) {
                chunk.push(oref);
            }
        }
        if chunk.is_empty() { None } else { Some(chunk) }
    }
}

/// The additions of a commit to the marks of a collection.
pub struct Noted {
    /// The collection that it was gathered for; 0 if none was running.
    pub epoch: u64,
    /// References of new states, and of the states that they replace where those were not looked
    /// through.
    pub references: Vec<Oref>,
    /// The reason why they are not all there.
    pub failed: Option<Error>,
}

/// The collection that is running, if one is.
#[derive(Default)]
pub struct Marking {
    /// The number of the collection that is running; 0 if none. Changes only under the lock of the
    /// sequence.
    epoch: AtomicU64,
    /// Collections so far.
    count: AtomicU64,
    pub marks: Mutex<Option<Marks>>,
}

impl Marking {
    pub fn epoch(&self) -> u64 {
        // Only a hint outside the lock of the sequence, which orders it inside.
        self.epoch.load(Ordering::Relaxed)
    }

    /// Returns the number of collections that have begun.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Begins a collection. The caller has the lock of the sequence.
    pub fn start(&self) {
        *self.marks.lock() = Some(Marks::default());
        self.epoch.store(self.count.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Ends it. The caller has the lock of the sequence.
    pub fn end(&self) -> Option<Marks> {
        self.epoch.store(0, Ordering::Relaxed);
        self.marks.lock().take()
    }

    /// Adds the marks that a commit noted. The caller has the lock of the sequence, under which the
    /// epoch was compared.
    pub fn note(&self, noted: Noted, commit: &Committed) {
        if noted.epoch == 0 {
            return;
        }
        if let Some(marks) = &mut *self.marks.lock() {
            for (oref, _) in &commit.creates {
                marks.reached.insert(*oref);
            }
            for (oref, _) in commit.creates.iter().chain(&commit.writes) {
                marks.scanned.insert(*oref);
            }
            noted.references.into_iter().for_each(|oref| marks.reach(oref));
            marks.failed = marks.failed.take().or(noted.failed);
        }
    }
}
