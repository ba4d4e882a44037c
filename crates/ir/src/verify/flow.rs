//! Which variables have a value at a point of a function.

use smallvec::SmallVec;

use crate::stmt::Var;

/// The variables assigned on every path to a point; everything is assigned where no path leads.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    bits: SmallVec<[u64; 4]>,
    reachable: bool,
}

impl Assigned {
    /// Makes the state in which nothing is assigned yet.
    pub(super) fn nothing(vars: usize) -> Assigned {
        Assigned { bits: SmallVec::from_elem(0, vars.div_ceil(64)), reachable: true }
    }

    /// Returns a point that no path leads to.
    pub(super) fn unreachable() -> Assigned {
        Assigned { bits: SmallVec::new(), reachable: false }
    }

    /// Returns true if a path leads here.
    pub(super) fn reachable(&self) -> bool {
        self.reachable
    }

    /// Notes that the path ended.
    pub(super) fn end(&mut self) {
        self.reachable = false;
    }

    /// Notes an assignment; the variable is in range.
    pub(super) fn set(&mut self, var: Var) {
        let i = var.as_u32() as usize;
        if let Some(word) = self.bits.get_mut(i / 64) {
            *word |= 1 << (i % 64);
        }
    }

    /// Returns true if a variable has a value.
    pub(super) fn has(&self, var: Var) -> bool {
        let i = var.as_u32() as usize;
        !self.reachable || self.bits.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// Joins the state of this path with that of another where they meet.
    pub(super) fn join(&mut self, other: &Assigned) {
        if !other.reachable {
            return;
        }
        if !self.reachable {
            *self = other.clone();
            return;
        }
        for (a, b) in self.bits.iter_mut().zip(&other.bits) {
            *a &= b;
        }
    }
}
