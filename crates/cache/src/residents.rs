//! The table of persistent objects in a context: which object stands for which oref, and the bytes
//! of each.
//!
//! An entry stays as long as something refers to its object. Its bytes are those that fetching it
//! took; they are 0 while it is absent. When all are too many, a clock decides which objects become
//! absent. Its hand passes over the entries, gives a second chance to those that a transaction has
//! used since it passed last, and evicts the others.

use bifrost_heap::NUMBER_MAX;
use bifrost_repository::{Error, Oref, Repository};
use bifrost_runtime::abi::Word;
use bifrost_runtime::reference::Unseen;
use bifrost_runtime::{Cx, Mode, Object, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::NotCommitted;

/// Orefs that are asked for at once.
const OREFS_AT_ONCE: u32 = 256;

/// Numbers of objects that are not here any more may be so many in the list, and as many as there
/// are objects.
const LISTED_TOO_MANY: usize = 64;

/// A persistent object that has a place in the context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub oref: Oref,
    pub object: Object,
    /// The bytes that it took to fetch it; 0 if it is absent.
    bytes: u32,
    /// True if it was used since the hand of the clock passed.
    used: bool,
    /// True if its number is in the list of those that are here.
    listed: bool,
}

/// A persistent object that has given up its place in a context, and gets another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded {
    pub oref: Oref,
    pub table: &'static Table,
    pub fields: usize,
}

/// The persistent objects that have a place in a context.
#[derive(Debug, Default)]
pub(crate) struct Residents {
    /// By number; the first is not used.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_oref: FxHashMap<Oref, u32>,
    /// The numbers of all objects that are here. Some are of objects that were.
    here: Vec<u32>,
    /// The entries that have bytes.
    held: usize,
    /// Orefs of objects that all contexts share.
    lasting: FxHashMap<Object, Oref>,
    /// Orefs that no object has yet.
    orefs: std::ops::Range<u64>,
    /// The objects that the transaction has read and that are not here any more.
    gone: FxHashSet<Oref>,
    /// Bytes of all entries.
    bytes: usize,
    /// The place of the hand of the clock.
    hand: usize,
    /// Nothing was found to take at so many bytes: not looked again before there are more.
    stuck: usize,
    /// The objects that have given up their places, while the client is silent.
    folded: Vec<Folded>,
}

impl Residents {
    /// Returns the object that stands for an oref.
    pub fn find(&self, oref: Oref) -> Option<Object> {
        self.by_oref.get(&oref).and_then(|number| Some(self.entry(*number)?.object))
    }

    /// Returns the entry of a number, if there is one.
    pub fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get(number as usize)?.as_ref()
    }

    /// Returns the oref of a number that an object has.
    pub fn oref(&self, number: u32) -> Oref {
        match self.entry(number) {
            Some(entry) => entry.oref,
            None => unreachable!("numbers are those of entries"),
        }
    }

    /// Returns all objects that are here or absent.
    pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        self.entries.iter().flatten().map(|entry| entry.object)
    }

    pub fn lasting(&self, object: Object) -> Option<Oref> {
        self.lasting.get(&object).copied()
    }

    pub fn set_lasting(&mut self, object: Object, oref: Oref) {
        self.lasting.insert(object, oref);
    }

    /// Gives all orefs that have a place.
    pub fn each_oref(&self, found: &mut dyn FnMut(Oref)) {
        let folded = self.folded.iter().map(|folded| &folded.oref);
        self.by_oref.keys().chain(self.lasting.values()).chain(folded).copied().for_each(found);
    }

    /// Returns the most objects that [`each_held`](Self::each_held) gives. Those that are only
    /// referred to do not count.
    pub fn count(&self) -> usize {
        self.here.len() + self.gone.len()
    }

    /// True if the state of an object is here, or was when the transaction read it.
    pub fn is_held(&self, oref: Oref) -> bool {
        self.find(oref).is_some_and(|object| object.mode() != Mode::Absent) || self.gone.contains(&oref)
    }

    /// Gives the objects that are [held](Self::is_held).
    pub fn each_held(&self, found: &mut dyn FnMut(Oref)) {
        let here = self.here.iter().filter_map(|number| self.entry(*number));
        let here = here.filter(|entry| entry.object.mode() != Mode::Absent);
        here.for_each(|entry| found(entry.oref));
        self.gone.iter().copied().for_each(found);
    }

    /// True if the transaction under way has read an object.
    pub fn has_read(&self, oref: Oref) -> bool {
        self.find(oref).is_some_and(|object| object.mode().is_open())
            || self.gone.contains(&oref)
            || self.lasting.values().any(|lasting| *lasting == oref)
    }

    /// Returns the objects that the transaction has read and that are not here any more.
    pub fn gone(&self) -> &FxHashSet<Oref> {
        &self.gone
    }

    /// Forgets the reads of the transaction: it ends.
    pub fn end_transaction(&mut self) {
        self.gone = FxHashSet::default();
        self.stuck = 0;
    }

    /// Returns an oref for a new object.
    pub fn fresh(&mut self, repository: &dyn Repository) -> Result<Oref, Error> {
        if self.orefs.is_empty() {
            self.orefs = repository.allocate(OREFS_AT_ONCE)?;
        }
        let oref = self.orefs.next().and_then(Oref::new);
        Ok(oref.expect("a repository gives as many orefs as it is asked for, from 1 on"))
    }

    /// Gives an oref to an object of the context without a number, or to a lasting one.
    pub fn enter(&mut self, oref: Oref, object: Object) -> Result<(), NotCommitted> {
        if object.is_lasting() {
            self.lasting.insert(object, oref);
            return Ok(());
        }
        if self.entries.is_empty() {
            self.entries.push(None);
        }
        let number = self.free.pop().unwrap_or(self.entries.len() as u32);
        if number > NUMBER_MAX {
            return Err(NotCommitted::TooMany);
        }
        if number as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[number as usize] = Some(Entry { oref, object, bytes: 0, used: false, listed: false });
        self.by_oref.insert(oref, number);
        object.set_number(number);
        Ok(())
    }

    /// Takes an object's oref away.
    pub fn leave(&mut self, object: Object) {
        if object.is_lasting() {
            self.lasting.remove(&object);
            return;
        }
        self.remove(object.number());
        object.set_number(0);
    }

    fn remove(&mut self, number: u32) {
        if let Some(entry) = self.entries.get_mut(number as usize).and_then(Option::take) {
            self.bytes -= entry.bytes as usize;
            self.held -= usize::from(entry.bytes > 0);
            self.by_oref.remove(&entry.oref);
            self.free.push(number);
        }
    }

    /// Forgets the objects that do not live.
    pub fn collected(&mut self, lives: &dyn Fn(Object) -> bool) {
        // From the last to the first, so that the next numbers are ascending again.
        for number in (0..self.entries.len()).rev() {
            if self.entries[number].is_some_and(|entry| !lives(entry.object)) {
                self.remove(number as u32);
            }
        }
        self.stuck = 0;
    }

    /// Gives back the memory of numbers that no object has: the others get the first numbers, in
    /// the same order. Returns how many these were.
    ///
    /// No code runs meanwhile that has noted numbers.
    pub fn shrink(&mut self) -> usize {
        let before = self.entries.capacity();
        if self.entries.iter().skip(1).any(Option::is_none) {
            let first = std::iter::once(None);
            let old = std::mem::take(&mut self.entries);
            self.entries = first.chain(old.into_iter().flatten().map(Some)).collect();
            for (number, entry) in self.entries.iter_mut().enumerate().skip(1) {
                if let Some(Entry { oref, object, listed, .. }) = entry {
                    object.set_number(number as u32);
                    self.by_oref.insert(*oref, number as u32);
                    *listed = false;
                }
            }
            self.here.clear();
            self.here.extend((1..).take(self.entries.len().saturating_sub(1)));
            (self.free, self.hand) = (Vec::new(), 0);
        }
        if self.entries.len() == 1 {
            self.entries = Vec::new();
        }
        self.list_again();
        self.here.shrink_to_fit();
        self.entries.shrink_to_fit();
        self.by_oref.shrink_to_fit();
        self.lasting.shrink_to_fit();
        self.gone.shrink_to_fit();
        before - self.entries.capacity()
    }

    /// Notes what these objects need to be made again. False, and nothing is changed, if that
    /// cannot be: not all of them are absent.
    pub fn fold(&mut self, objects: &[Object]) -> bool {
        let folded = objects.iter().map(|object| {
            let may = !object.is_lasting() && object.mode() == Mode::Absent && !object.is_undone();
            let entry = may.then(|| self.entry(object.number())).flatten()?;
            Some(Folded { oref: entry.oref, table: object.table().ordinary(), fields: object.fields() })
        });
        let folded: Option<Vec<Folded>> = folded.collect();
        let folds = folded.is_some();
        self.folded = folded.unwrap_or_default();
        folds
    }

    /// Returns the objects of [`fold`](Self::fold), in that order.
    pub fn folded(&self) -> Vec<Folded> {
        self.folded.clone()
    }

    /// Forgets the objects of [`fold`](Self::fold), which have their places again.
    pub fn end_fold(&mut self) {
        self.folded = Vec::new();
    }

    /// Gives an oref to an object that was just made, which becomes absent.
    pub fn enter_absent(&mut self, cx: &mut Cx, oref: Oref, object: Word) -> Result<Object, NotCommitted> {
        // SAFETY: the object was just made, of a class that has modes, and its fields are empty.
        let object = unsafe {
            let object = Object::new(object);
            cx.set_mode(object, Mode::Absent);
            object
        };
        self.enter(oref, object)?;
        Ok(object)
    }

    /// Returns the bytes of the objects that are here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes the bytes of an object that is here now; it counts as used.
    pub fn charge(&mut self, number: u32, bytes: usize) {
        if let Some(Some(entry)) = self.entries.get_mut(number as usize) {
            let bytes = u32::try_from(bytes.max(1)).unwrap_or(u32::MAX);
            self.bytes = self.bytes - entry.bytes as usize + bytes as usize;
            self.held += usize::from(entry.bytes == 0);
            (entry.bytes, entry.used) = (bytes, true);
            if !std::mem::replace(&mut entry.listed, true) {
                self.here.push(number);
                if self.here.len() > 2 * self.held + LISTED_TOO_MANY {
                    self.list_again();
                }
            }
        }
    }

    /// Removes the numbers of objects that are not here from the list.
    fn list_again(&mut self) {
        for number in &self.here {
            if let Some(Some(entry)) = self.entries.get_mut(*number as usize) {
                entry.listed = false;
            }
        }
        self.here.retain(|number| match self.entries.get_mut(*number as usize) {
            Some(Some(entry)) if entry.bytes > 0 => !std::mem::replace(&mut entry.listed, true),
            _ => false,
        });
    }

    /// Notes that an object was used.
    pub fn touch(&mut self, number: u32) {
        if let Some(Some(entry)) = self.entries.get_mut(number as usize) {
            entry.used = true;
        }
    }

    /// Makes an object absent, if it has been here.
    pub fn make_absent(&mut self, cx: &mut Cx, object: Unseen) {
        if let Some(Some(entry)) = self.entries.get_mut(object.object().number() as usize) {
            self.bytes -= entry.bytes as usize;
            self.held -= usize::from(entry.bytes > 0);
            entry.bytes = 0;
        }
        cx.make_absent(object);
    }

    /// Makes objects absent that the transaction has not read, if those that are here have more
    /// bytes than `most`. Stops when they have an eighth less than `most`. Returns the number of
    /// evicted objects.
    ///
    /// With `open`, also those that it has read and not written: for that no code may run.
    pub fn evict(&mut self, cx: &mut Cx, most: usize, open: bool) -> usize {
        if self.bytes <= most.max(if open { 0 } else { self.stuck }) {
            return 0;
        }
        let enough = most - most / 8;
        let mut evicted = 0;
        // Twice around: the first time everything may have its second chance.
        for _ in 0..2 * self.entries.len() {
            if self.bytes <= enough {
                break;
            }
            self.hand = if self.hand + 1 < self.entries.len() { self.hand + 1 } else { 0 };
            let Some(Some(entry)) = self.entries.get_mut(self.hand) else { continue };
            if entry.bytes == 0 {
                continue;
            }
            let Entry { oref, object, .. } = *entry;
            match object.mode() {
                Mode::Unread if cx.spares(object) => continue,
                Mode::Unread if std::mem::take(&mut entry.used) => continue,
                Mode::Unread => {}
                Mode::Clean if open => {
                    self.gone.insert(oref);
                }
                _ => continue,
            }
            // SAFETY: no code looks into what is unread, and none runs that has looked into the
            // others.
            self.make_absent(cx, unsafe { Unseen::new(object) });
            evicted += 1;
        }
        if open {
            cx.forget_reads(&|object| object.mode() == Mode::Absent);
        }
        self.stuck = if self.bytes > enough { self.bytes + most / 8 } else { 0 };
        evicted
    }
}
