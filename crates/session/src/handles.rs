//! The handle table H: what a client's handles stand for.
//!
//! A handle names a slot and the slot's generation; giving a handle back raises the generation, so that
//! an old handle never means another object. One object has one handle in a session (001 section 3).
//!
//! What has a handle lives: the table writes its objects into a root set of the context as well, at the numbers of their
//! slots. The methods that change the table get that set's words.

use std::collections::HashMap;

use bifrost_runtime::abi::Word;
use bifrost_wire::Ref;
use rustc_hash::FxBuildHasher;

/// A place of the table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The object, 0 while the slot is free.
    object: Word,
    generation: u32,
}

/// The table H.
#[derive(Debug, Default)]
pub struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
    // Keys are addresses of our own objects, not chosen by clients.
    by_object: HashMap<Word, u32, FxBuildHasher>,
}

impl Handles {
    /// The object of a handle.
    #[inline]
    pub fn get(&self, handle: Ref) -> Option<Word> {
        let slot = self.slots.get(handle.slot() as usize)?;
        (slot.object != 0 && slot.generation == handle.generation()).then_some(slot.object)
    }

    /// The object's handle, if it has one.
    pub fn find(&self, object: Word) -> Option<Ref> {
        let slot = *self.by_object.get(&object)?;
        Some(Ref::handle(slot, self.slots[slot as usize].generation))
    }

    /// The object's handle, made now if it has none; nothing if there are `most` handles already.
    pub fn of(&mut self, object: Word, most: usize, roots: &mut Vec<Word>) -> Option<Ref> {
        if let Some(known) = self.find(object) {
            return Some(known);
        }
        if self.by_object.len() >= most {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                // Slot 0 is never used: generation 0 of it would be the number 0, which is no reference.
                if self.slots.is_empty() {
                    self.slots.push(Slot { object: 0, generation: 0 });
                }
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot { object: 0, generation: 0 });
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

    /// Gives a handle back; false if it stands for nothing.
    pub fn free(&mut self, handle: Ref, roots: &mut [Word]) -> bool {
        let Some(object) = self.get(handle) else { return false };
        let slot = handle.slot();
        let place = &mut self.slots[slot as usize];
        place.object = 0;
        roots[slot as usize] = 0;
        self.by_object.remove(&object);
        // A slot whose generations are used up stays out of use, so that no old handle ever fits again.
        if place.generation < 0x7fff_ffff {
            place.generation += 1;
            self.free.push(slot);
        }
        true
    }

    /// How many handles the client holds.
    pub fn len(&self) -> usize {
        self.by_object.len()
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
    fn the_table_has_a_limit() {
        let (mut h, mut roots) = (Handles::default(), Vec::new());
        assert!(h.of(1, 1, &mut roots).is_some());
        assert!(h.of(2, 1, &mut roots).is_none());
        assert!(h.of(1, 1, &mut roots).is_some());
    }
}
