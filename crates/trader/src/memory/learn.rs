//! Offers of other traders, and the offers of this one that other traders are to know.
//!
//! An offer that was *learned* has no lease here: it goes when it is gone in the shared place. If
//! it is not surely gone, it stays for one lease. An exporter that exports to several traders is
//! learned from each, and listed once: its own export here goes before what was learned, and of the
//! learned ones the first one counts. The others wait as *copies*.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::counts::{Key, key};
use super::proofs::Proof;
use super::{Entry, Memory};
use crate::board::Board;
use crate::offer::{Offer, OfferId};
use crate::shared::{Stored, Written};

/// The session of offers that were learned.
pub(super) const LEARNED: u64 = u64::MAX;

/// The offers of other traders.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// By key, with the number here of one that is listed.
    all: BTreeMap<Arc<str>, (Stored, Option<OfferId>)>,
    /// The keys of offers of the same export.
    copies: BTreeMap<Key, BTreeSet<Arc<str>>>,
    /// The keys of those that are listed.
    keys: BTreeMap<OfferId, Arc<str>>,
    /// Exports whose listed offer was removed.
    vacant: BTreeSet<Key>,
    /// Own offers that were listed, changed or removed.
    written: BTreeSet<OfferId>,
}

impl Memory {
    /// Enters an offer of another trader, or its new state. `interface` is its interface as JSON.
    pub fn learn(&mut self, key: &str, stored: Stored, interface: Option<&[u8]>, now: u64) {
        let now = self.look(now);
        if let Some(interface) = interface {
            // Without its interface an offer is found only by imports that ask for no conformance.
            let _ = self.interfaces.teach(interface, &self.limits);
        }
        let key: Arc<str> = key.into();
        let listed = self.learned.all.get(&key).and_then(|(_, id)| *id);
        if let Some(id) = listed
            && let Some(entry) = self.entries.get_mut(&id)
            && same_place(&entry.offer, &stored.offer)
        {
            let is_changed = entry.offer.properties != stored.offer.properties || entry.offer.doubtful;
            entry.offer.load = stored.offer.load;
            if is_changed {
                self.unlist(id);
            }
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.offer.properties = stored.offer.properties.clone();
                entry.offer.doubtful = false;
            }
            self.keep_learned(id, now);
            if is_changed {
                self.list(id);
            }
            self.learned.all.insert(key, (stored, Some(id)));
            return;
        }
        self.forget_one(&key);
        if let Some(of) = copy_key(&stored) {
            self.learned.copies.entry(of).or_default().insert(key.clone());
        }
        self.learned.all.insert(key.clone(), (stored, None));
        self.list_learned(&key);
        self.list_copies();
    }

    /// Removes an offer of another trader. If it is not surely gone, it stays for one lease.
    pub fn forget(&mut self, key: &str, is_sure: bool, now: u64) {
        let now = self.look(now);
        let Some(listed) = self.learned.all.get(key).map(|(_, listed)| *listed) else { return };
        match listed {
            Some(id) if !is_sure => self.set_deadline(id, now, 1),
            _ => self.forget_one(key),
        }
        self.list_copies();
    }

    /// Returns the keys of all offers of other traders.
    pub fn learned(&self) -> Vec<Arc<str>> {
        self.learned.all.keys().cloned().collect()
    }

    /// Returns the own offers that have changed since the last call, to be written to the shared
    /// place. Loads and renewals are changes here.
    pub fn written(&mut self) -> Vec<Written> {
        let written = std::mem::take(&mut self.learned.written);
        let one = |id: OfferId| match self.entries.get(&id).filter(|entry| entry.is_listed()) {
            None => Written::Gone(id),
            Some(entry) => {
                let stored = Stored {
                    role: entry.role.to_string(),
                    exclusive: entry.is_exclusive,
                    lease_ms: entry.lease_ms,
                    names: entry.names.iter().map(|name| name.to_string()).collect(),
                    offer: entry.offer.clone(),
                };
                Written::Put(Box::new(stored), self.interfaces.get(&entry.offer.digest))
            }
        };
        written.into_iter().map(one).collect()
    }

    /// Notes that an own offer is to be written.
    pub(super) fn note_written(&mut self, id: OfferId) {
        let is_own = self.entries.get(&id).is_some_and(|entry| entry.session != LEARNED);
        if self.options.is_shared && is_own {
            self.learned.written.insert(id);
        }
    }

    /// Notes that an entry was removed. A copy of its export may be listed now.
    pub(super) fn note_removed(&mut self, id: OfferId, entry: &Entry) {
        if entry.session != LEARNED {
            if self.options.is_shared && (entry.is_listed() || entry.is_exclusive) {
                self.learned.written.insert(id);
            }
        } else if let Some(key) = self.learned.keys.remove(&id) {
            match self.learned.all.get_mut(&key) {
                // It was gone, but not surely, and its lease is over.
                Some(_) if entry.deadline < u64::MAX => self.forget_one(&key),
                Some((_, listed)) => *listed = None,
                None => {}
            }
        }
        if let Some(of) = key(&entry.role, &entry.offer).filter(|of| self.learned.copies.contains_key(of)) {
            self.learned.vacant.insert(of);
        }
    }

    /// Lists copies of exports whose listed offer was removed, unless there is another one now.
    pub(super) fn list_copies(&mut self) {
        while let Some(of) = self.learned.vacant.pop_first() {
            let copies: Vec<_> = self.learned.copies.get(&of).into_iter().flatten().cloned().collect();
            let _ = copies.iter().any(|copy| self.list_learned(copy));
        }
    }

    /// Has an offer that was learned stay until it is gone.
    fn keep_learned(&mut self, id: OfferId, now: u64) {
        self.set_deadline(id, now, u64::MAX);
        if let Some(entry) = self.entries.get_mut(&id) {
            let lapsed = entry.lapsed.take();
            self.lapses.forget(id, lapsed, &entry.offer.service);
        }
    }

    /// Lists an offer that was learned, unless its export is listed already. True if it is listed
    /// now.
    fn list_learned(&mut self, at: &Arc<str>) -> bool {
        let Some((stored, None)) = self.learned.all.get(at) else { return false };
        let role: Arc<str> = stored.role.as_str().into();
        let offer = Offer { id: OfferId(self.next), doubtful: false, ..stored.offer.clone() };
        if offer.check(&self.limits).is_err()
            || self.counts.earlier(&role, &offer).is_some()
            || self.entries.len() as u64 >= self.limits.offers_max
        {
            return false;
        }
        let (is_exclusive, lease_ms) = (stored.exclusive, self.limits.lease_ms(Some(stored.lease_ms)));
        let most = self.limits.supertypes_max as usize;
        let names = stored.names.iter().take(most).map(|name| name.as_str().into()).collect();
        let id = offer.id;
        self.next += 1;
        self.interfaces.hold(&offer.digest);
        self.counts.add(id, &role, LEARNED, &offer, is_exclusive);
        let deadline = u64::MAX;
        self.deadlines.insert((deadline, id));
        let entry = Entry {
            offer,
            role,
            session: LEARNED,
            is_exclusive,
            names,
            lease_ms,
            deadline,
            lapsed: None,
            proof: Proof::Proven,
        };
        self.entries.insert(id, entry);
        if let Some((_, listed)) = self.learned.all.get_mut(at) {
            *listed = Some(id);
        }
        self.learned.keys.insert(id, at.clone());
        self.list(id);
        true
    }

    /// Forgets an offer of another trader at once.
    fn forget_one(&mut self, key: &str) {
        let Some((stored, listed)) = self.learned.all.remove(key) else { return };
        if let Some(of) = copy_key(&stored)
            && let Some(copies) = self.learned.copies.get_mut(&of)
        {
            copies.remove(key);
            if copies.is_empty() {
                self.learned.copies.remove(&of);
            }
        }
        if let Some(id) = listed {
            self.remove(id);
        }
    }
}

/// True if an offer is the same but for properties and load.
fn same_place(a: &Offer, b: &Offer) -> bool {
    let place = |offer: &Offer| {
        let incarnation = offer.properties.get(crate::property::names::INCARNATION).cloned();
        (offer.service.clone(), offer.digest, offer.name.clone(), offer.addresses.clone(), incarnation)
    };
    place(a) == place(b)
}

/// The key of the export of which an offer is a copy.
fn copy_key(stored: &Stored) -> Option<Key> {
    key(&stored.role.as_str().into(), &stored.offer)
}

impl Memory {
    /// Takes these as all offers of other traders: those that were known and are not among them are
    /// gone, but not surely.
    pub fn learned_all(&mut self, keys: &BTreeSet<String>, now: u64) {
        for key in self.learned().iter().filter(|key| !keys.contains(&***key)) {
            self.forget(key, false, now);
        }
    }

    /// Ends an own offer that has lost its exclusive name.
    pub fn lost(&mut self, id: OfferId, now: u64) {
        self.withdraw(id, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Everything, Lease, Party, Question, Renewal};
    use crate::limits::Limits;
    use crate::memory::Options;
    use crate::offer::Export;
    use crate::property::Properties;

    const INTERFACE: &str = r#"{"types":[{"name":"Store","kind":"object"}],"routines":[]}"#;

    /// A board whose offers are shared, and one offer of another trader.
    struct Test {
        board: Memory,
        now: u64,
    }

    impl Test {
        fn new() -> Test {
            let options = Options {
                trusts_addresses: true,
                is_only_board: true,
                is_shared: true,
                ..Options::default()
            };
            Test { board: Memory::new(Limits::default(), options), now: 1_000 }
        }

        /// Learns an offer, at a key that is its name.
        fn learn(&mut self, key: &str, name: &str, properties: &str) {
            let mut stored = Stored { lease_ms: 15_000, names: vec!["Store".into()], ..Stored::default() };
            stored.offer.service = "Store".into();
            stored.offer.name = name.into();
            stored.offer.addresses = vec!["tcp://a:1".into()];
            stored.offer.properties = Properties::parse(properties, &Limits::default()).unwrap();
            self.board.learn(key, stored, Some(INTERFACE.as_bytes()), self.now);
        }

        fn export(&mut self, name: &str, properties: &str) -> Lease {
            let export = Export {
                service: "Store".into(),
                digest: self.board.teach(INTERFACE.as_bytes()).unwrap(),
                name: name.into(),
                addresses: vec!["tcp://a:1".into()],
                properties: Properties::parse(properties, &Limits::default()).unwrap(),
                ..Export::default()
            };
            self.board.export(Party { right: &Everything, session: 7 }, export, self.now).unwrap()
        }

        fn names(&mut self) -> Vec<String> {
            let question = Question { service: "Store".into(), ..Question::default() };
            let party = Party { right: &Everything, session: 7 };
            let found = self.board.import(party, &question, 0, self.now).unwrap();
            let mut names: Vec<_> = found.offers.iter().map(|offer| offer.name.to_string()).collect();
            names.sort();
            names
        }

        /// Lets time pass, with a look each second.
        fn pass(&mut self, ms: u64) {
            for _ in 0..ms / 1_000 {
                self.now += 1_000;
                self.board.expire(self.now);
            }
        }
    }

    #[test]
    fn an_offer_of_another_trader_stays_until_it_is_gone() {
        let mut test = Test::new();
        test.learn("t/1", "a", "incarnation=1");
        test.pass(120_000);
        assert_eq!(test.names(), ["a"]);
        test.board.forget("t/1", true, test.now);
        assert!(test.names().is_empty());
        assert!(test.board.written().is_empty(), "only own offers are written");
    }

    #[test]
    fn an_offer_that_is_not_surely_gone_stays_for_a_lease() {
        let mut test = Test::new();
        for key in ["t/1", "t/2"] {
            test.learn(key, key, "");
        }
        test.board.learned_all(&BTreeSet::from(["t/2".to_owned()]), test.now);
        test.pass(14_000);
        assert_eq!(test.names(), ["t/1", "t/2"]);
        test.pass(2_000);
        assert_eq!(test.names(), ["t/2"]);
        assert_eq!(test.board.learned().len(), 1);
        // One that comes back in time stays.
        test.board.forget("t/2", false, test.now);
        test.learn("t/2", "t/2", "");
        test.pass(60_000);
        assert_eq!(test.names(), ["t/2"]);
    }

    #[test]
    fn an_export_is_listed_once_however_many_traders_have_it() {
        let mut test = Test::new();
        test.learn("t/1", "a", "incarnation=1");
        test.learn("u/1", "a", "incarnation=1");
        assert_eq!(test.names(), ["a"]);
        let own = test.export("a", "incarnation=1");
        test.learn("v/1", "a", "incarnation=1&region=eu");
        assert_eq!(test.names(), ["a"]);
        assert!(test.board.withdraw(own.id, test.now));
        assert_eq!(test.names(), ["a"], "another trader still has it");
        for key in ["t/1", "u/1"] {
            test.board.forget(key, true, test.now);
            assert_eq!(test.names(), ["a"]);
        }
        test.board.forget("v/1", true, test.now);
        assert!(test.names().is_empty());
        assert_eq!(test.board.interfaces().0, 1);
    }

    #[test]
    fn own_offers_are_written_when_they_change() {
        let mut test = Test::new();
        let lease = test.export("a", "incarnation=1");
        let written = |test: &mut Test| -> Vec<Option<f64>> {
            let all = test.board.written().into_iter();
            all.map(|written| match written {
                Written::Put(stored, interface) => {
                    assert!(interface.is_some() && stored.names == ["Store"]);
                    stored.offer.load
                }
                Written::Gone(_) => Some(-1.0),
            })
            .collect()
        };
        assert_eq!(written(&mut test), [None]);
        for (load, count) in [(0.5, 1), (0.5, 0), (0.25, 1)] {
            let renewal = Renewal { load: Some(load), ..Renewal::default() };
            test.board.renew(lease.id, renewal, test.now).unwrap();
            assert_eq!(written(&mut test).len(), count, "{load}");
        }
        test.pass(16_000);
        assert_eq!(written(&mut test), [Some(-1.0)], "its lease has ended");
    }
}
