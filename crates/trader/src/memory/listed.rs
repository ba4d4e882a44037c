//! Offers under a name: in the order of their numbers, and drawn at random.

use std::collections::BTreeMap;

use crate::offer::OfferId;

/// A set of offers. To draw one costs as much as to look one up, whatever numbers are missing.
#[derive(Debug, Default)]
pub struct Listed {
    /// The place of each offer in `all`.
    places: BTreeMap<OfferId, usize>,
    /// The offers in any order.
    all: Vec<OfferId>,
}

impl Listed {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn insert(&mut self, id: OfferId) {
        self.places.entry(id).or_insert_with(|| {
            self.all.push(id);
            self.all.len() - 1
        });
    }

    pub fn remove(&mut self, id: OfferId) {
        let Some(place) = self.places.remove(&id) else { return };
        self.all.swap_remove(place);
        if let Some(moved) = self.all.get(place) {
            self.places.insert(*moved, place);
        }
    }

    /// Returns the offers behind one, by number.
    pub fn after(&self, id: OfferId) -> impl Iterator<Item = OfferId> + '_ {
        let behind = (std::ops::Bound::Excluded(id), std::ops::Bound::Unbounded);
        self.places.range(behind).map(|(id, _)| *id)
    }

    /// Returns all offers by number.
    pub fn by_number(&self) -> impl Iterator<Item = OfferId> + '_ {
        self.places.keys().copied()
    }

    /// Returns all offers, each once, in a random order of which only the part that is taken is
    /// made (Fisher and Yates).
    pub fn drawn(&mut self, random: fastrand::Rng) -> Drawn<'_> {
        Drawn { listed: self, random, taken: 0 }
    }
}

/// Offers in a random order.
pub struct Drawn<'a> {
    listed: &'a mut Listed,
    random: fastrand::Rng,
    taken: usize,
}

impl Iterator for Drawn<'_> {
    type Item = OfferId;

    fn next(&mut self) -> Option<OfferId> {
        let Listed { places, all } = &mut *self.listed;
        let to = self.taken;
        let here = *all.get(to)?;
        let from = self.random.usize(to..all.len());
        let drawn = *all.get(from)?;
        if from != to {
            all.swap(from, to);
            places.insert(here, from);
            places.insert(drawn, to);
        }
        self.taken += 1;
        Some(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(numbers: impl Iterator<Item = u64>) -> Listed {
        let mut listed = Listed::default();
        numbers.for_each(|n| listed.insert(OfferId(n)));
        listed
    }

    #[test]
    fn offers_have_an_order_and_are_drawn_in_any() {
        let mut set = listed((0..50).map(|n| n * n));
        for seed in 0..200 {
            // Some are drawn, and one goes and comes.
            let random = fastrand::Rng::with_seed(seed);
            set.drawn(random).take(seed as usize % 60).for_each(drop);
            let one = OfferId((seed % 50).pow(2));
            set.remove(one);
            set.remove(one);
            assert_eq!(set.all.len(), 49);
            assert!(set.places.iter().all(|(id, place)| set.all[*place] == *id));
            set.insert(one);
            set.insert(one);
        }
        let squares: Vec<OfferId> = (0..50).map(|n| OfferId(n * n)).collect();
        assert_eq!(set.by_number().collect::<Vec<_>>(), squares);
        assert_eq!(set.after(OfferId(2_300)).collect::<Vec<_>>(), squares[48..]);
        let mut all: Vec<OfferId> = set.drawn(fastrand::Rng::with_seed(3)).collect();
        assert_ne!(all, squares);
        all.sort();
        assert_eq!(all, squares);
    }

    #[test]
    fn each_is_drawn_first_as_often_whatever_numbers_are_missing() {
        let numbers = [1, 2, 3, 1_000_000];
        let mut firsts = [0; 4];
        let mut set = listed(numbers.into_iter());
        for seed in 0..4_000 {
            let first = set.drawn(fastrand::Rng::with_seed(seed)).next().map(|id| id.0);
            firsts[numbers.iter().position(|n| Some(*n) == first).unwrap()] += 1;
        }
        assert!(firsts.iter().all(|n| (850..1_150).contains(n)), "{firsts:?}");
    }
}
