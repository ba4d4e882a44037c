//! The places of the failure under way: where it arose, and the calls above it.
//!
//! Nothing is written down while nothing fails. A call that does not return leads to code that is
//! run for nothing else. There the failing function notes the site of its statement
//! ([`Places::site`]), and, unless a handler takes the exception, enters it at its end
//! ([`Cx::failed_at`]). So the list grows as the failure unwinds the stack, the innermost function
//! first. The interpreter and machine code enter the same functions and sites.
//!
//! | event | list |
//! | --- | --- |
//! | `failure` arises, also of an unhandled exception | begins |
//! | it reaches the end of a function that was written in a text | one more |
//! | an actor answers with it ([`Cx::keep_places`]) | a copy for [`Cx::resume_places`] |
//! | a handler takes it | stays, and is not looked at before the next one begins |

use std::collections::VecDeque;

use bifrost_ir::{FuncId, Place, Program, SignalId, Site, Written};

use crate::abi::{Ret, Word};
use crate::cx::Cx;

/// Most places of a failure; of those beyond only the number is known. It is the number that a
/// reply carries at most.
pub const PLACES_MAX: usize = 32;

/// Most failures on their way to an awaiter whose places a context keeps.
pub const KEPT_PLACES_MAX: usize = 256;

/// Most failures that one source of them writes to a log in a second; further ones are counted.
pub const LOGGED_PER_SECOND_MAX: u32 = 10;

/// The bound of a log against failures that somebody causes as fast as they can.
#[derive(Clone, Debug, Default)]
pub struct LogBound {
    second: i64,
    logged: u32,
    skipped: u64,
}

impl LogBound {
    /// Returns how many failures were skipped before this one, if it may be logged; nothing if it
    /// is skipped. `now_ms` is any clock in milliseconds.
    pub fn next(&mut self, now_ms: i64) -> Option<u64> {
        let second = now_ms.div_euclid(1000);
        if second != self.second {
            (self.second, self.logged) = (second, 0);
        }
        if self.logged >= LOGGED_PER_SECOND_MAX {
            self.skipped += 1;
            return None;
        }
        self.logged += 1;
        Some(std::mem::take(&mut self.skipped))
    }
}

/// A list of places, the innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceList {
    /// The first [`PLACES_MAX`] of them: functions, and sites in them.
    pub calls: Vec<(FuncId, Site)>,
    /// The number of calls above those.
    pub more: u64,
}

impl PlaceList {
    /// Returns true if nothing is known.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the places as those of a program.
    pub fn places<'p>(&self, program: &'p Program) -> impl Iterator<Item = Place<'p>> {
        self.calls.iter().filter_map(|(func, site)| program.place(*func, *site))
    }

    /// Returns the lines for people, each `  at Stack.push (lib/stack.theta:17)`, and behind a full
    /// list `  ... 9 more`. Empty if nothing is known.
    pub fn lines(&self, program: &Program) -> Vec<String> {
        let mut lines: Vec<String> = self.places(program).map(|place| format!("  at {place}")).collect();
        if self.more > 0 {
            lines.push(format!("  ... {} more", self.more));
        }
        lines
    }
}

/// The places of the failure under way.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Places {
    /// The site at which the function under way failed. Machine code writes it.
    pub site: u64,
    list: PlaceList,
    kept: Kept,
}

/// The lists of failures that are kept as objects, by the word of the object, the oldest first. At
/// most [`KEPT_PLACES_MAX`].
#[derive(Debug, Default)]
struct Kept(VecDeque<(Word, PlaceList)>);

impl Kept {
    /// Keeps the list of an object. One that was at the same place before is forgotten.
    fn keep(&mut self, object: Word, list: PlaceList) {
        self.0.retain(|(of, _)| *of != object);
        if list.is_empty() {
            return;
        }
        if self.0.len() >= KEPT_PLACES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((object, list));
    }

    fn get(&self, object: Word) -> PlaceList {
        let found = self.0.iter().find(|(of, _)| *of == object);
        found.map_or_else(PlaceList::default, |(_, list)| list.clone())
    }
}

impl Cx {
    /// Begins the list of a new failure.
    pub fn begin_places(&mut self) {
        self.places.list.calls.clear();
        self.places.list.more = 0;
    }

    fn add_place(&mut self, func: FuncId, site: Site) {
        if self.image.program().funcs[func].written == Written::Nowhere {
            return;
        }
        let list = &mut self.places.list;
        match list.calls.len() < PLACES_MAX {
            true => list.calls.push((func, site)),
            false => list.more += 1,
        }
    }

    /// Converts an exception to `failure` that reached the end of a function that does not pass it
    /// on, as [`Cx::unhandled`] does, and enters the function into the places of the failure.
    #[cold]
    pub fn failed_at(&mut self, func: FuncId, site: Site) -> Ret {
        let ret = self.unhandled();
        self.add_place(func, site);
        ret
    }

    /// Does the same with the site that the function has noted.
    #[cold]
    pub fn failed_in(&mut self, func: FuncId) -> Ret {
        self.failed_at(func, Site(self.places.site as u32))
    }

    /// Begins the places of a failure that a function signals by a statement of its own; code that
    /// clients send is none of the program's.
    #[cold]
    pub fn signals_failure(&mut self, func: Option<FuncId>, site: Site) {
        self.begin_places();
        if let Some(func) = func {
            self.add_place(func, site);
        }
    }

    /// Returns the places of the failure under way; nothing if the exception is another one.
    pub fn places(&self) -> PlaceList {
        match self.signalled() {
            SignalId::FAILURE => self.places.list.clone(),
            _ => PlaceList::default(),
        }
    }

    /// Keeps the places of the failure under way for the object that keeps the failure. An object
    /// that was at the same place before is forgotten.
    pub fn keep_places(&mut self, object: Word) {
        let list = self.places();
        self.places.kept.keep(object, list);
    }

    /// Returns the places that were kept for an object; nothing if there were none.
    pub fn kept_places(&self, object: Word) -> PlaceList {
        self.places.kept.get(object)
    }

    /// Goes on with the places that were kept for an object, whose failure is signalled again.
    pub fn resume_places(&mut self, object: Word) {
        self.places.list = self.kept_places(object);
    }
}

#[cfg(test)]
mod tests {
    use bifrost_ir::{FuncId, Site};

    use super::{KEPT_PLACES_MAX, Kept, LOGGED_PER_SECOND_MAX, LogBound, PlaceList};

    #[test]
    fn the_oldest_kept_places_are_forgotten_first() {
        let list = |at: usize| PlaceList { calls: vec![(FuncId::from_u32(0), Site(at as u32))], more: 0 };
        let mut kept = Kept::default();
        for object in 0..KEPT_PLACES_MAX + 2 {
            kept.keep(object as u64, list(object));
        }
        assert_eq!(kept.0.len(), KEPT_PLACES_MAX);
        assert!(kept.get(0).is_empty() && kept.get(1).is_empty());
        assert_eq!(kept.get(2), list(2));
        // Another object at the same place.
        kept.keep(2, list(7));
        assert_eq!((kept.get(2), kept.0.len()), (list(7), KEPT_PLACES_MAX));
        kept.keep(2, PlaceList::default());
        assert!(kept.get(2).is_empty());
    }

    #[test]
    fn a_second_has_a_bounded_number_of_failures() {
        let mut bound = LogBound::default();
        for _ in 0..LOGGED_PER_SECOND_MAX {
            assert_eq!(bound.next(5_400), Some(0));
        }
        for at in [5_401, 5_999, 5_000] {
            assert_eq!(bound.next(at), None);
        }
        assert_eq!(bound.next(6_000), Some(3), "the next second says how many were skipped");
        assert_eq!(bound.next(6_001), Some(0));
    }

    #[test]
    fn a_clock_before_its_epoch_is_a_clock() {
        let mut bound = LogBound::default();
        for _ in 0..LOGGED_PER_SECOND_MAX {
            assert!(bound.next(-1).is_some());
        }
        assert_eq!(bound.next(-1_000), None);
        assert!(bound.next(0).is_some());
    }
}
