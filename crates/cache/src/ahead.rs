//! Objects that are fetched before they are asked for, so that one call of the repository brings
//! many.
//!
//! Nothing is fetched for its own sake: when an object that is asked for is not here, others go
//! along with it.
//!
//! - *Those of calls that wait in the batch*: the session knows them when it sees the rest of it
//!   ("see the future", 001 section 4).
//! - *Neighbours by reference*: places that were made together with that of the object, which is
//!   when an object that refers to them was read. They have the numbers behind its own.
//! - *Neighbours by co-creation*: the orefs behind its own. Objects created together get orefs in a
//!   row, in the order of the creator's references.
//!
//! Objects that have come are kept as records, valid as long as the rest of the cache is. A record
//! becomes an object when that is asked for. So an unused one costs a record and no objects, and a
//! reference is followed no further than the program does.
//!
//! The number of neighbours that go along is learned for each class of the object asked for and for
//! each kind of neighbour:
//!
//! - twice as many when at least three quarters of the last ones were used;
//! - half as many when less than half were used, down to none;
//! - at none, now and then two to try.

use std::collections::VecDeque;

use bifrost_ir::TypeId;
use bifrost_repository::{Oref, Stored};
use bifrost_runtime::{Mode, Object};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::residents::Residents;

/// The largest number of objects of waiting calls that go along.
const WAITING_MAX: usize = 1_000;

/// The number of neighbours of a kind that go along as long as nothing is known.
const WINDOW_FIRST: u32 = 8;

/// So many neighbours are judged together.
const JUDGED: u32 = 32;

/// Where no neighbour goes along, one of so many objects tries again.
const TRY_EVERY: u32 = 64;

/// Bounds of the objects that are fetched before they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Most neighbours of a kind that go along with an object; 0 for none, ever.
    pub objects_max: usize,
    /// Most bytes of records that wait to be asked for; the oldest go.
    pub bytes_max: usize,
}

impl Default for Prefetch {
    fn default() -> Prefetch {
        Prefetch { objects_max: 64, bytes_max: 1 << 20 }
    }
}

/// The reason why an object goes along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    Waiting,
    Reference,
    Creation,
}

/// The number of neighbours of a kind that go along with objects of a class.
#[derive(Clone, Copy, Debug)]
struct Window {
    size: u32,
    /// The used ones among the neighbours whose fate is known.
    used: u32,
    unused: u32,
    /// Objects asked for since none went along.
    idle: u32,
}

impl Window {
    fn new(most: usize) -> Window {
        Window { size: WINDOW_FIRST.min(most as u32), used: 0, unused: 0, idle: 0 }
    }

    /// Returns the number that go along now.
    fn next(&mut self) -> usize {
        if self.size == 0 {
            self.idle += 1;
            if self.idle.is_multiple_of(TRY_EVERY) {
                return 2;
            }
        }
        self.size as usize
    }

    fn judge(&mut self, used: bool, most: usize) {
        match used {
            true => self.used += 1,
            false => self.unused += 1,
        }
        // A try is judged by itself.
        let all = self.used + self.unused;
        if all < if self.size == 0 { 2 } else { JUDGED } {
            return;
        }
        if self.used * 4 >= all * 3 {
            self.size = (self.size * 2).max(2).min(most as u32);
        } else if self.used * 2 < all {
            self.size /= 2;
        }
        (self.used, self.unused) = (0, 0);
    }
}

/// A record that was not asked for yet.
#[derive(Debug)]
struct Brought {
    stored: Stored,
    ty: TypeId,
    why: Why,
    serial: u64,
}

/// Records that have come along.
#[derive(Debug)]
pub(crate) struct Ahead {
    bounds: Prefetch,
    records: FxHashMap<Oref, Brought>,
    /// Records in the order of their coming; those whose serial number is another one are gone.
    order: VecDeque<(Oref, u64)>,
    serial: u64,
    bytes: usize,
    windows: FxHashMap<TypeId, [Window; 2]>,
    waiting: VecDeque<Oref>,
}

/// The objects that one call of the repository asks for.
pub(crate) struct Plan {
    /// The object asked for, then those that go along.
    pub orefs: Vec<Oref>,
    ty: TypeId,
    whys: Vec<Why>,
}

impl Ahead {
    pub fn new(bounds: Prefetch) -> Ahead {
        Ahead {
            bounds,
            records: FxHashMap::default(),
            order: VecDeque::new(),
            serial: 0,
            bytes: 0,
            windows: FxHashMap::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the record of an object, if it has come along.
    pub fn take(&mut self, oref: Oref) -> Option<Stored> {
        let brought = self.records.remove(&oref)?;
        self.bytes -= brought.stored.bytes.len();
        self.judge(&brought, true);
        Some(brought.stored)
    }

    fn judge(&mut self, brought: &Brought, used: bool) {
        let kind = match brought.why {
            Why::Waiting => return,
            Why::Reference => 0,
            Why::Creation => 1,
        };
        if let Some(windows) = self.windows.get_mut(&brought.ty) {
            windows[kind].judge(used, self.bounds.objects_max);
        }
    }

    /// Notes objects that calls will ask for. Those that are not used by the end of the batch are
    /// forgotten.
    pub fn expect(&mut self, orefs: impl Iterator<Item = Oref>) {
        self.waiting.clear();
        if self.bounds.objects_max > 0 {
            self.waiting.extend(orefs);
        }
    }

    /// Returns the objects to ask for together with an absent object.
    pub fn plan(&mut self, residents: &Residents, number: u32, object: Object) -> Plan {
        let asked = residents.oref(number);
        let ty = object.info().ty;
        let mut plan = Plan { orefs: vec![asked], ty, whys: Vec::new() };
        let most = self.bounds.objects_max;
        if most == 0 {
            return plan;
        }
        let windows = self.windows.entry(ty).or_insert_with(|| [Window::new(most); 2]);
        let [references, creations] = windows.each_mut().map(Window::next);
        let mut seen = FxHashSet::default();
        seen.insert(asked);
        let absent = |oref: Oref| residents.find(oref).is_none_or(|object| object.mode() == Mode::Absent);
        let mut add = |oref: Oref, why: Why| {
            if !self.records.contains_key(&oref) && seen.insert(oref) {
                plan.orefs.push(oref);
                plan.whys.push(why);
            }
        };
        for _ in 0..WAITING_MAX.min(self.waiting.len()) {
            if let Some(oref) = self.waiting.pop_front().filter(|oref| absent(*oref)) {
                add(oref, Why::Waiting);
            }
        }
        for at in 1..=references as u32 {
            let Some(entry) = number.checked_add(at).and_then(|n| residents.entry(n)) else { continue };
            if entry.object.mode() == Mode::Absent {
                add(entry.oref, Why::Reference);
            }
        }
        for at in 1..=creations as u64 {
            if let Some(oref) = Oref::new(asked.get() + at).filter(|oref| absent(*oref)) {
                add(oref, Why::Creation);
            }
        }
        plan
    }

    /// Keeps the records that have come along with the first object of a plan. Returns their
    /// number.
    pub fn put(&mut self, plan: &Plan, states: impl Iterator<Item = Option<Stored>>) -> usize {
        let mut count = 0;
        for ((oref, why), stored) in plan.orefs[1..].iter().zip(&plan.whys).zip(states) {
            let Some(stored) = stored else { continue };
            count += 1;
            self.serial += 1;
            self.bytes += stored.bytes.len();
            self.order.push_back((*oref, self.serial));
            self.records.insert(*oref, Brought { stored, ty: plan.ty, why: *why, serial: self.serial });
        }
        // Behind so many later ones it will not be asked for any more.
        let most = 16 * self.bounds.objects_max.max(WAITING_MAX / 8);
        while self.bytes > self.bounds.bytes_max || self.order.len() > most {
            let Some((oref, serial)) = self.order.pop_front() else { break };
            if self.records.get(&oref).is_some_and(|brought| brought.serial == serial) {
                self.drop_unused(oref);
            }
        }
        count
    }

    fn drop_unused(&mut self, oref: Oref) {
        if let Some(brought) = self.records.remove(&oref) {
            self.bytes -= brought.stored.bytes.len();
            self.judge(&brought, false);
        }
    }

    /// True if the record of an object has come along and was not asked for.
    pub fn contains(&self, oref: Oref) -> bool {
        self.records.contains_key(&oref)
    }

    /// Returns the number of such records.
    pub fn count(&self) -> usize {
        self.records.len()
    }

    /// Gives their objects.
    pub fn each(&self, found: &mut dyn FnMut(Oref)) {
        self.records.keys().copied().for_each(found);
    }

    /// Forgets a record that is not valid any more.
    pub fn forget(&mut self, oref: Oref) {
        if let Some(brought) = self.records.remove(&oref) {
            self.bytes -= brought.stored.bytes.len();
        }
    }

    /// Forgets all records.
    pub fn clear(&mut self) {
        self.records = FxHashMap::default();
        self.order = VecDeque::new();
        self.bytes = 0;
    }
}
