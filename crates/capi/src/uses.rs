//! The uses of slots: which stubs of the program are alive.
//!
//! The recorder numbers stubs by slots, and a slot is used again when its stub is gone. A program
//! in C can keep a stub that it has released, so each use of a slot has a number: a stub with
//! another number than its slot is a misuse with a name, and never another object.

use bifrost_recorder::{Misuse, Slot};

use crate::abi::Ref;

/// The state of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// The number of the current use, or of the last one.
    number: u32,
    /// The number of times that the program holds the stub; 0 if it was released.
    count: u32,
    /// True if the last use ended with its structure.
    by_structure: bool,
}

/// The uses of all slots, and the open scopes.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    slots: Vec<Use>,
    /// The stubs that were made in the open scopes, oldest first, with the numbers of their uses.
    made: Vec<(u32, u32)>,
    /// For each open scope the number of stubs that were made before it.
    scopes: Vec<usize>,
    /// The number of stubs that the program holds.
    alive: usize,
}

impl Uses {
    /// Begins a use of a slot, and returns its number.
    #[inline(always)]
    pub(crate) fn begin(&mut self, slot: Slot) -> u32 {
        let number = self.begin_unscoped(slot);
        if !self.scopes.is_empty() {
            self.made.push((slot.0, number));
        }
        number
    }

    /// As [`Uses::begin`], of a stub that no scope releases.
    #[inline(always)]
    pub(crate) fn begin_unscoped(&mut self, slot: Slot) -> u32 {
        let index = slot.0 as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Use::default());
        }
        self.alive += 1;
        let Some(used) = self.slots.get_mut(index) else { return 0 };
        // 0 is never a number of a use: it is that of no stub.
        used.number = used.number.wrapping_add(1).max(1);
        used.count = 1;
        used.number
    }

    /// Returns the slot of a stub that is alive.
    ///
    /// # Errors
    /// The stub was released, or ended with its structure.
    #[inline(always)]
    pub(crate) fn slot(&self, stub: Ref) -> Result<Slot, Misuse> {
        match self.slots.get(stub.slot as usize) {
            Some(used) if used.number == stub.use_count && used.count > 0 => Ok(Slot(stub.slot)),
            used => Err(Uses::ended(used, stub)),
        }
    }

    #[cold]
    fn ended(used: Option<&Use>, stub: Ref) -> Misuse {
        match used {
            Some(used) if used.number == stub.use_count && used.by_structure => Misuse::OutOfScope,
            _ => Misuse::Released,
        }
    }

    /// Counts a further holder of a stub. False if it is not alive.
    #[inline]
    pub(crate) fn retain(&mut self, stub: Ref) -> bool {
        match self.slots.get_mut(stub.slot as usize) {
            Some(used) if used.number == stub.use_count && used.count > 0 => {
                used.count += 1;
                true
            }
            _ => false,
        }
    }

    /// Takes back the count of a holder. Returns the slot if it was the last one.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32, number: u32, by_structure: bool) -> Option<Slot> {
        let used = self.slots.get_mut(slot as usize)?;
        if used.number != number || used.count == 0 {
            return None;
        }
        used.count -= 1;
        if used.count > 0 {
            return None;
        }
        used.by_structure = by_structure;
        self.alive -= 1;
        Some(Slot(slot))
    }

    /// Opens a scope, and returns its depth, from 1.
    pub(crate) fn open(&mut self) -> u32 {
        self.scopes.push(self.made.len());
        self.scopes.len() as u32
    }

    /// Ends the scope of this depth, and those inside. Returns the stubs that were made in it.
    pub(crate) fn close(&mut self, depth: u32) -> Vec<(u32, u32)> {
        let Some(index) = (depth as usize).checked_sub(1) else { return Vec::new() };
        let Some(from) = self.scopes.get(index).copied() else { return Vec::new() };
        self.scopes.truncate(index);
        self.made.split_off(from.min(self.made.len()))
    }

    /// Returns the number of stubs that the program holds.
    pub(crate) fn alive(&self) -> usize {
        self.alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(slot: u32, use_count: u32) -> Ref {
        Ref::new(None, slot, use_count)
    }

    #[test]
    fn a_slot_that_is_used_again_is_another_stub() {
        let mut uses = Uses::default();
        let first = uses.begin(Slot(3));
        assert_eq!(uses.slot(stub(3, first)), Ok(Slot(3)));
        assert_eq!(uses.release(3, first, false), Some(Slot(3)));
        let second = uses.begin(Slot(3));
        assert_ne!(first, second);
        assert_eq!(uses.slot(stub(3, first)), Err(Misuse::Released));
        assert_eq!(uses.slot(stub(3, second)), Ok(Slot(3)));
        assert_eq!(uses.release(3, first, false), None, "not the first one's any more");
        assert_eq!(uses.alive(), 1);
    }

    #[test]
    fn numbers_from_nowhere_are_no_stubs() {
        let mut uses = Uses::default();
        assert_eq!(uses.slot(stub(0, 0)), Err(Misuse::Released));
        assert_eq!(uses.slot(stub(u32::MAX, 1)), Err(Misuse::Released));
        assert_eq!(uses.release(u32::MAX, u32::MAX, false), None);
        assert!(!uses.retain(stub(7, 7)));
        assert!(uses.close(5).is_empty());
        // After so many uses that the number begins again it is never 0.
        uses.begin(Slot(0));
        uses.slots[0] = Use { number: u32::MAX, count: 0, by_structure: false };
        assert_eq!(uses.begin(Slot(0)), 1);
    }

    #[test]
    fn each_holder_counts() {
        let mut uses = Uses::default();
        let number = uses.begin(Slot(0));
        assert!(uses.retain(stub(0, number)));
        assert_eq!(uses.release(0, number, false), None);
        assert_eq!(uses.release(0, number, false), Some(Slot(0)));
        assert_eq!(uses.release(0, number, false), None);
        assert!(!uses.retain(stub(0, number)));
        assert_eq!(uses.alive(), 0);
    }

    #[test]
    fn scopes_have_the_stubs_that_were_made_in_them() {
        let mut uses = Uses::default();
        uses.begin(Slot(0));
        let outer = uses.open();
        let one = uses.begin(Slot(1));
        let inner = uses.open();
        let two = uses.begin(Slot(2));
        uses.begin_unscoped(Slot(3));
        assert_eq!((outer, inner), (1, 2));
        assert_eq!(uses.close(inner), [(2, two)]);
        let three = uses.begin(Slot(4));
        assert_eq!(uses.close(outer), [(1, one), (4, three)]);
        assert!(uses.close(outer).is_empty());
    }

    #[test]
    fn a_stub_of_an_ended_structure_says_so() {
        let mut uses = Uses::default();
        let number = uses.begin(Slot(0));
        uses.release(0, number, true);
        assert_eq!(uses.slot(stub(0, number)), Err(Misuse::OutOfScope));
        uses.begin(Slot(0));
        assert_eq!(uses.slot(stub(0, number)), Err(Misuse::Released));
    }
}
