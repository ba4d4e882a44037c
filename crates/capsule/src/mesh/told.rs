//! The hints that other capsules have of the nodes here.

use std::sync::atomic::{AtomicU32, Ordering};

/// By node of this capsule: a count of it that the others were told last. Nodes ask it without the
/// lock of the mesh.
#[derive(Debug)]
pub(crate) struct Told {
    /// The number of the first node here.
    first: u32,
    counts: Vec<AtomicU32>,
}

impl Told {
    /// Makes the hints of so many nodes from `first` on, of which nothing was told.
    pub(crate) fn new(first: u32, nodes: u32) -> Told {
        Told { first, counts: (0..nodes).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Returns the nodes here that have a count now of which the others were not told, as their
    /// numbers; from now on they were told. `count` gets the place of a node.
    pub(crate) fn news(&self, count: impl Fn(u32) -> Option<u32>) -> Vec<u8> {
        let news = (0..).zip(&self.counts).filter(|(place, told)| {
            count(*place).is_some_and(|count| told.swap(count, Ordering::Relaxed) != count)
        });
        news.flat_map(|(place, _)| (self.first + place).to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_is_told_once() {
        let told = Told::new(4, 3);
        let counts = |counts: [Option<u32>; 3]| told.news(|place| counts[place as usize]);
        assert_eq!(counts([None, Some(1), Some(0)]), 5u32.to_le_bytes());
        assert!(counts([None, Some(1), None]).is_empty());
        let both = [4u32.to_le_bytes(), 5u32.to_le_bytes()].concat();
        assert_eq!(counts([Some(7), Some(2), None]), both);
    }
}
