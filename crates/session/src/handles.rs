//! The handle table H: the objects of a client's handles.
//!
//! A handle names a slot and the slot's generation; giving a handle back raises the generation, so
//! that an old handle never means another object. One object has one handle in a session (001
//! section 3).
//!
//! An object with a handle lives: the table writes its objects into a root set of the context as
//! well, at the numbers of their slots. The methods that change the table get that set's words.

use std::collections::HashMap;

use bifrost_runtime::abi::Word;
use bifrost_wire::Ref;
use rustc_hash::FxBuildHasher;

/// A place of the table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The object, 0 while the slot is free, or [`UNDONE`].
    object: Word,
    generation: u32,
    /// The number of the last batch whose answer has the handle, in 32 bits.
    sent: u32,
}

/// The mark of an object that was made in a transaction that was aborted: the client has the
/// handle, and there is no object.
const UNDONE: Word = 1;

/// A handle that is given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    pub handle: Ref,
    /// The number of batches before, whose answers the client has not.
    pub unanswered: u8,
}

impl Slot {
    const FREE: Slot = Slot { object: 0, generation: 0, sent: 0 };
}

/// The table H.
#[derive(Debug, Default)]
pub struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
    // Keys are addresses of our own objects, not chosen by clients.
    by_object: HashMap<Word, u32, FxBuildHasher>,
    /// The number of undone slots.
    undone: usize,
}

impl Handles {
    /// Returns the object of a handle.
    #[inline]
    pub fn get(&self, handle: Ref) -> Option<Word> {
        let slot = self.slots.get(handle.slot() as usize)?;
        (slot.object > UNDONE && slot.generation == handle.generation()).then_some(slot.object)
    }

    /// Returns the object's handle, if it has one.
    pub fn find(&self, object: Word) -> Option<Ref> {
        let slot = *self.by_object.get(&object)?;
        Some(Ref::handle(slot, self.slots[slot as usize].generation))
    }

    /// Returns the object's handle, made now if it has none; nothing if there are `most` handles
    /// already.
    pub fn of(&mut self, object: Word, most: usize, roots: &mut Vec<Word>) -> Option<Ref> {
        if let Some(known) = self.find(object) {
            return Some(known);
        }
        if self.len() >= most {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                // Slot 0 is never used: generation 0 of it would be the number 0, which is no
                // reference.
                if self.slots.is_empty() {
                    self.slots.push(Slot::FREE);
                }
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot::FREE);
                slot
            }
        };
        roots.resize(self.slots.len(), 0);
        roots[slot as usize] = object;
        let place = &mut self.slots[slot as usize];
        place.object = object;
        self.by_object.insert(object, slot);
        Some(Ref::handle(slot, place.generation))
    }

    /// Notes that the answer to a batch has a handle.
    #[inline]
    pub fn note_sent(&mut self, handle: Ref, batch: u64) {
        if let Some(slot) = self.slots.get_mut(handle.slot() as usize) {
            slot.sent = batch as u32;
        }
    }

    /// True if the answer to one of the last `unanswered` batches has a handle. `batches` is the
    /// number of answered ones.
    pub fn was_sent_after(&self, handle: Ref, batches: u64, unanswered: u8) -> bool {
        let slot = self.slots.get(handle.slot() as usize);
        slot.is_some_and(|slot| (batches as u32).wrapping_sub(slot.sent) < u32::from(unanswered))
    }

    /// Gives a handle back; false if it stands for nothing.
    pub fn free(&mut self, handle: Ref, roots: &mut [Word]) -> bool {
        let slot = handle.slot();
        match self.get(handle) {
            Some(object) => {
                self.by_object.remove(&object);
            }
            None if self.is_undone(handle) => self.undone -= 1,
            None => return false,
        }
        let place = &mut self.slots[slot as usize];
        place.object = 0;
        roots[slot as usize] = 0;
        // A slot whose generations are used up stays out of use, so that no old handle ever fits
        // again.
        if place.generation < 0x7fff_ffff {
            place.generation += 1;
            self.free.push(slot);
        }
        true
    }

    /// True if a handle's object was made in a transaction that was aborted.
    pub fn is_undone(&self, handle: Ref) -> bool {
        let slot = self.slots.get(handle.slot() as usize);
        slot.is_some_and(|slot| slot.object == UNDONE && slot.generation == handle.generation())
    }

    /// Takes the objects away of which `undone` says that an aborted transaction made them; the
    /// client keeps the handles, which stand for nothing.
    pub fn undo(&mut self, undone: impl Fn(Word) -> bool, roots: &mut [Word]) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.object > UNDONE && undone(slot.object) {
                self.by_object.remove(&slot.object);
                slot.object = UNDONE;
                roots[at] = 0;
                self.undone += 1;
            }
        }
    }

    /// The number of handles that the client holds.
    pub fn len(&self) -> usize {
        self.by_object.len() + self.undone
    }

    /// The objects, in the order of their slots.
    pub fn objects(&self) -> impl Iterator<Item = Word> {
        self.slots.iter().map(|slot| slot.object).filter(|object| *object > UNDONE)
    }

    /// Replaces the [objects](Self::objects), in their order. Each has the handle of the one whose
    /// place it takes.
    pub fn replace(&mut self, objects: impl IntoIterator<Item = Word>, roots: &mut Vec<Word>) {
        roots.clear();
        roots.resize(self.slots.len(), 0);
        self.by_object.clear();
        let taken = (0..).zip(&mut self.slots).filter(|(_, slot)| slot.object > UNDONE);
        for ((at, slot), object) in taken.zip(objects) {
            slot.object = object;
            roots[at as usize] = object;
            self.by_object.insert(object, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_has_one_handle() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        let a = h.of(100, 10, &mut roots).unwrap();
        assert_eq!(h.of(100, 10, &mut roots), Some(a));
        assert_ne!(h.of(200, 10, &mut roots), Some(a));
        assert_eq!(h.get(a), Some(100));
        assert_eq!(h.len(), 2);
    }

    #[test]
    fn what_has_a_handle_is_a_root() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        let a = h.of(100, 10, &mut roots).unwrap();
        h.of(200, 10, &mut roots).unwrap();
        assert_eq!(roots, [0, 100, 200]);
        h.free(a, &mut roots);
        assert_eq!(roots, [0, 0, 200]);
        h.of(300, 10, &mut roots).unwrap();
        assert_eq!(roots, [0, 300, 200]);
    }

    #[test]
    fn an_old_handle_never_means_another_object() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        let old = h.of(100, 10, &mut roots).unwrap();
        assert!(h.free(old, &mut roots));
        assert!(!h.free(old, &mut roots));
        let new = h.of(200, 10, &mut roots).unwrap();
        assert_eq!(new.slot(), old.slot());
        assert_ne!(new, old);
        assert_eq!(h.get(old), None);
        assert_eq!(h.get(new), Some(200));
    }

    #[test]
    fn forged_handles_mean_nothing() {
        let mut h = Handles::default();
        h.of(100, 10, &mut Vec::new()).unwrap();
        for forged in [0, 1 << 32, 2, i64::MAX, (5 << 32) | 1] {
            assert_eq!(h.get(Ref(forged)), None, "{forged}");
        }
    }

    #[test]
    fn a_handle_whose_object_is_undone_is_the_clients_until_it_is_given_back() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        let a = h.of(100, 2, &mut roots).unwrap();
        let b = h.of(200, 2, &mut roots).unwrap();
        h.undo(|object| object == 100, &mut roots);
        assert_eq!((h.get(a), h.get(b), h.len()), (None, Some(200), 2));
        assert!(h.is_undone(a) && !h.is_undone(b));
        assert_eq!(roots, [0, 0, 200]);
        // It counts, and its address may be another object's by now.
        assert_eq!(h.of(100, 2, &mut roots), None);
        assert!(h.free(a, &mut roots) && !h.free(a, &mut roots) && !h.is_undone(a));
        assert_eq!(h.len(), 1);
        let c = h.of(100, 2, &mut roots).unwrap();
        assert_eq!((c.slot(), h.get(c), h.get(a)), (a.slot(), Some(100), None));
    }

    #[test]
    fn the_last_answer_with_a_handle_is_known() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        let a = h.of(100, 2, &mut roots).unwrap();
        h.note_sent(a, 7);
        assert!(!h.was_sent_after(a, 7, 0) && h.was_sent_after(a, 7, 1));
        assert!(!h.was_sent_after(a, 9, 2) && h.was_sent_after(a, 9, 3));
        h.note_sent(a, u64::from(u32::MAX));
        assert!(h.was_sent_after(a, 1 << 32, 2) && !h.was_sent_after(a, 1 << 32, 1));
    }

    #[test]
    fn the_table_has_a_limit() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        assert!(h.of(1, 1, &mut roots).is_some());
        assert!(h.of(2, 1, &mut roots).is_none());
        assert!(h.of(1, 1, &mut roots).is_some());
    }
}
