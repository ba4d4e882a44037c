//! The board in memory.
//!
//! It is the offers of one trader, indexed by service. It is no store: a trader that restarts is
//! empty, and exporters export again. Read [`Memory`] first, then `Memory::lapse` in `leases.rs`.
//!
//! # States of an offer
//!
//! ```text
//!   export --> Unproven -- proved --> Listed -- the lease ends among most others --> Doubtful
//!                 |                    |  ^                                           |   |
//!                 |                    |  +----------------- renewal -----------------+   |
//!                 +--------------------+-- withdrawn, replaced, the lease ends ------+--> gone
//! ```
//!
//! Importers see offers that are listed or doubtful. A number of an offer that is gone is never
//! given again.
//!
//! # Who owns the parts
//!
//! | part | file |
//! | --- | --- |
//! | [`Entry`], [`Service`], the calls of exporters and importers | here |
//! | quotas, exclusive names, replaced offers | `counts.rs` |
//! | the offers of a name, in order and at random | `listed.rs` |
//! | leases that end, doubt, gaps | `leases.rs`, `clock.rs` |
//! | proofs | `proofs.rs` |
//! | calls of `changes` | `waits.rs` |
//! | offers of other traders | `learn.rs` |
//!
//! All tables are sorted trees: chosen keys cannot make them slow, and equal calls have equal
//! results in each process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bifrost_wire::Digest;

use crate::board::{
    Answer, Board, Changes, ExportError, Found, ImportError, Lease, Page, Party, Question, RenewError,
    Renewal, ToProve, TooManyWaits,
};
use crate::choose::{choose, enough, is_told, told};
use crate::interfaces::{BadInterface, Interfaces};
use crate::limits::Limits;
use crate::offer::{Export, Offer, OfferId, is_local};
use crate::property::names;
use crate::query::Prefer;

mod clock;
mod counts;
mod learn;
mod leases;
mod listed;
mod proofs;
mod waits;

use clock::Clock;
use counts::Counts;
use learn::Learned;
use leases::Lapses;
use listed::Listed;
use proofs::{Proof, Proofs};
use waits::Waits;

/// The settings of a board in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The number of the first offer, and of the first change. A trader that restarts gives a
    /// higher number than it has used before, for example the microseconds since 1970.
    pub first: u64,
    /// True if offers are listed without a proof.
    pub trusts_addresses: bool,
    /// True if exporters have no other trader, so that exclusive names are exclusive.
    pub is_only_board: bool,
    /// True if other traders are to know the offers: see [`Memory::written`].
    pub is_shared: bool,
    /// The machine of the trader, whose local addresses it can dial.
    pub host: Option<String>,
}

/// An offer with its lease.
#[derive(Debug)]
struct Entry {
    offer: Offer,
    role: Arc<str>,
    session: u64,
    is_exclusive: bool,
    /// The names under which it is listed: its type and supertypes that the role may export.
    names: Vec<Arc<str>>,
    lease_ms: u64,
    deadline: u64,
    /// The time at which it would have expired, if it is doubtful.
    lapsed: Option<u64>,
    proof: Proof,
}

impl Entry {
    fn is_listed(&self) -> bool {
        self.proof == Proof::Proven
    }
}

/// The offers that are listed under a name.
#[derive(Debug, Default)]
struct Service {
    sure: Listed,
    doubtful: Listed,
    /// The counter at the last change.
    changed: u64,
    waiters: BTreeSet<crate::board::WaiterId>,
    /// The sure offers of exactly this type, by the end of their leases.
    due: BTreeSet<(u64, OfferId)>,
}

/// A board in memory.
#[derive(Debug)]
pub struct Memory {
    limits: Limits,
    options: Options,
    clock: Clock,
    interfaces: Interfaces,
    entries: BTreeMap<OfferId, Entry>,
    deadlines: BTreeSet<(u64, OfferId)>,
    services: BTreeMap<Arc<str>, Service>,
    lapses: Lapses,
    counts: Counts,
    proofs: Proofs,
    waits: Waits,
    learned: Learned,
    /// The number of the next offer.
    next: u64,
    /// The number of the last change.
    changes: u64,
    /// The counter of services that have no entry: at least that of any that had one.
    forgotten: u64,
    /// Offers whose leases have ended since `expire` was called.
    expired: Vec<OfferId>,
}

impl Memory {
    /// Makes an empty board.
    pub fn new(limits: Limits, options: Options) -> Memory {
        let first = options.first.max(1);
        Memory {
            limits,
            options,
            clock: Clock::default(),
            interfaces: Interfaces::default(),
            entries: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            services: BTreeMap::new(),
            lapses: Lapses::default(),
            counts: Counts::default(),
            proofs: Proofs::default(),
            waits: Waits::default(),
            learned: Learned::default(),
            next: first,
            changes: first,
            forgotten: first,
            expired: Vec::new(),
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the number of offers, those that are not listed among them.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no offers.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of interfaces and their bytes.
    pub fn interfaces(&self) -> (usize, u64) {
        self.interfaces.size()
    }

    /// Returns the number of calls of `changes` that wait.
    pub fn waits(&self) -> usize {
        self.waits.len()
    }

    /// Enters a listed offer under its names.
    fn list(&mut self, id: OfferId) {
        let Some(entry) = self.entries.get(&id).filter(|entry| entry.is_listed()) else { return };
        let (names, is_doubtful) = (entry.names.clone(), entry.offer.doubtful);
        self.note_written(id);
        let Some(entry) = self.entries.get(&id) else { return };
        if !is_doubtful {
            let due = (entry.deadline, id);
            let own = entry.offer.service.clone();
            self.services.entry(own).or_default().due.insert(due);
        }
        for name in names {
            let service = self.services.entry(name.clone()).or_default();
            let set = if is_doubtful { &mut service.doubtful } else { &mut service.sure };
            set.insert(id);
            self.touch(&name);
        }
    }

    /// Removes a listed offer from under its names.
    fn unlist(&mut self, id: OfferId) {
        let Some(entry) = self.entries.get(&id).filter(|entry| entry.is_listed()) else { return };
        let (own, due, names) = (entry.offer.service.clone(), (entry.deadline, id), entry.names.clone());
        if let Some(service) = self.services.get_mut(&own) {
            service.due.remove(&due);
        }
        for name in &names {
            if let Some(service) = self.services.get_mut(name) {
                service.sure.remove(id);
                service.doubtful.remove(id);
                self.touch(name);
            }
        }
    }

    /// Counts a change of a service, and answers all that wait for one.
    fn touch(&mut self, name: &str) {
        let Some(service) = self.services.get_mut(name) else { return };
        self.changes += 1;
        service.changed = self.changes;
        for waiter in std::mem::take(&mut service.waiters) {
            self.waits.answer(waiter, self.changes);
        }
        self.tidy(name);
    }

    /// Forgets a service that nobody offers or waits for.
    fn tidy(&mut self, name: &str) {
        let Some(service) = self.services.get(name) else { return };
        let Service { sure, doubtful, waiters, due, .. } = service;
        if sure.is_empty() && doubtful.is_empty() && waiters.is_empty() && due.is_empty() {
            self.forgotten = self.forgotten.max(service.changed);
            self.services.remove(name);
        }
    }

    /// Removes an offer.
    fn remove(&mut self, id: OfferId) -> Option<Entry> {
        self.unlist(id);
        let entry = self.entries.remove(&id)?;
        self.deadlines.remove(&(entry.deadline, id));
        self.proofs.end(id, entry.proof);
        self.counts.remove(id, &entry.role, entry.session, &entry.offer, entry.is_exclusive);
        self.interfaces.release(&entry.offer.digest);
        self.lapses.forget(id, entry.lapsed, &entry.offer.service);
        self.tidy(&entry.offer.service);
        self.note_removed(id, &entry);
        Some(entry)
    }
}

impl Board for Memory {
    fn teach(&mut self, interface: &[u8]) -> Result<Digest, BadInterface> {
        self.interfaces.teach(interface, &self.limits)
    }

    fn interface(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.interfaces.get(digest)
    }

    fn export(&mut self, party: Party<'_>, export: Export, now: u64) -> Result<Lease, ExportError> {
        let now = self.look(now);
        export.check(&self.limits)?;
        let right = party.right;
        if !right.may_export(&export.service) {
            let (role, service) = (right.role().to_owned(), export.service);
            return Err(ExportError::NoRight { role, service });
        }
        let mut names = self.interfaces.names(&export.digest, &export.service, &self.limits)?;
        names.retain(|name| right.may_export(name));
        let role: Arc<str> = right.role().into();
        let lease_ms = self.limits.lease_ms(export.lease_ms);
        let offer = Offer {
            id: OfferId(self.next),
            service: export.service.into(),
            digest: export.digest,
            name: export.name.into(),
            addresses: export.addresses.into_iter().map(Arc::from).collect(),
            properties: export.properties,
            load: export.load,
            doubtful: false,
        };
        let earlier = self.counts.earlier(&role, &offer);
        self.counts.check(
            party.session,
            &role,
            &offer,
            export.exclusive,
            earlier.and_then(|id| self.entries.get(&id)),
            self.entries.len(),
            &self.options,
            &self.limits,
        )?;
        let earlier = earlier.and_then(|id| self.remove(id));
        let is_proven = self.options.trusts_addresses
            || earlier.is_some_and(|entry| {
                let old = entry.offer;
                entry.proof == Proof::Proven && old.digest == offer.digest && old.addresses == offer.addresses
            });
        let id = offer.id;
        self.next += 1;
        self.interfaces.hold(&offer.digest);
        self.counts.add(id, &role, party.session, &offer, export.exclusive);
        let deadline = now.saturating_add(lease_ms);
        self.deadlines.insert((deadline, id));
        let proof = if is_proven { Proof::Proven } else { self.proofs.start(id, party.session, now) };
        let entry = Entry {
            offer,
            role,
            session: party.session,
            is_exclusive: export.exclusive,
            names,
            lease_ms,
            deadline,
            lapsed: None,
            proof,
        };
        self.entries.insert(id, entry);
        self.list(id);
        self.list_copies();
        Ok(Lease { id, due_ms: lease_ms / 3 })
    }

    fn renew(&mut self, lease: OfferId, renewal: Renewal, now: u64) -> Result<u64, RenewError> {
        let now = self.look(now);
        let entry = self.entries.get(&lease).ok_or(RenewError::Gone)?;
        let mut offer = entry.offer.clone();
        if let Some(mut properties) = renewal.properties {
            for name in [names::HOST, names::INCARNATION, names::STORE] {
                match offer.properties.remove(name) {
                    Some(value) => drop(properties.set(name, value)),
                    None => drop(properties.remove(name)),
                }
            }
            properties.check_not_reserved().map_err(crate::offer::BadOffer::from)?;
            offer.properties = properties;
        }
        offer.load = renewal.load.or(offer.load);
        offer.check(&self.limits)?;
        offer.doubtful = false;
        let was_doubtful = entry.offer.doubtful;
        let is_changed = was_doubtful || entry.offer.properties != offer.properties;
        self.prolong(lease, now);
        if was_doubtful {
            self.unlist(lease);
        }
        let Some(entry) = self.entries.get_mut(&lease) else { return Err(RenewError::Gone) };
        let has_other_load = entry.offer.load != offer.load;
        entry.offer = offer;
        entry.proof = self.proofs.renew(lease, entry.proof, now);
        let due_ms = entry.lease_ms / 3;
        if is_changed {
            self.list(lease);
        } else if has_other_load {
            self.note_written(lease);
        }
        Ok(due_ms)
    }

    fn withdraw(&mut self, lease: OfferId, now: u64) -> bool {
        self.look(now);
        let was_there = self.remove(lease).is_some();
        self.list_copies();
        was_there
    }

    fn import(
        &mut self,
        party: Party<'_>,
        question: &Question,
        seed: u64,
        now: u64,
    ) -> Result<Found, ImportError> {
        self.look(now);
        if question.digest.is_some_and(|digest| !self.interfaces.use_one(&digest)) {
            return Err(ImportError::UnknownInterface);
        }
        let most = question.most.unwrap_or(self.limits.most_default).min(self.limits.most_max) as usize;
        let name = &*question.service;
        let mut named = self.services.range_mut::<str, _>((Bound::Included(name), Bound::Included(name)));
        let Some((wanted, service)) = named.next().filter(|_| party.right.may_import(name)) else {
            return Ok(Found::default());
        };
        let host = question.host.as_deref();
        // Conformance changes the table of results, and the look at offers does not.
        let mut interfaces = std::mem::take(&mut self.interfaces);
        let mut left = self.limits.compared_max;
        let mut last: Option<(Digest, Arc<str>, bool)> = None;
        let mut conforms = |offer: &Offer| -> Option<bool> {
            let Some(client) = question.digest else { return Some(true) };
            if let Some((digest, service, result)) = &last
                && *digest == offer.digest
                && *service == offer.service
            {
                return Some(*result);
            }
            let result =
                interfaces.conforms(&client, wanted, &offer.digest, &offer.service, &mut left, &self.limits);
            last = result.map(|result| (offer.digest, offer.service.clone(), result));
            result
        };
        let prefer = question.query.prefer();
        let mut random = fastrand::Rng::with_seed(seed);
        let ids: Box<dyn Iterator<Item = OfferId>> = match prefer {
            Some(Prefer::First) => Box::new(service.sure.by_number().chain(service.doubtful.by_number())),
            _ => Box::new(service.sure.drawn(random.fork()).chain(service.doubtful.drawn(random.fork()))),
        };
        let enough = enough(prefer, most);
        let (mut found, mut more, mut looked_at) = (Vec::new(), false, 0);
        for entry in ids.filter_map(|id| self.entries.get(&id)) {
            if looked_at == self.limits.looked_at_max || found.len() == enough {
                more = true;
                break;
            }
            looked_at += 1;
            let offer = &entry.offer;
            let is_told = || offer.addresses.iter().any(|address| is_told(address, offer, host));
            if !question.query.matches(offer) || !is_told() {
                continue;
            }
            match conforms(offer) {
                Some(true) => found.push(offer),
                Some(false) => {}
                None => more = true,
            }
        }
        more |= found.len() > most;
        let chosen = choose(found, prefer, most, random.u64(..));
        let offers = chosen.into_iter().filter_map(|offer| told(offer, host)).collect();
        self.interfaces = interfaces;
        Ok(Found { offers, more, looked_at })
    }

    fn offers(&mut self, party: Party<'_>, page: Page<'_>, now: u64) -> Vec<Offer> {
        self.look(now);
        let from = (Bound::Excluded(page.after), Bound::Unbounded);
        let told = |entry: &Entry| {
            let mut offer = entry.offer.clone();
            offer.addresses.retain(|address| is_told(address, &entry.offer, page.host));
            offer
        };
        let Some(name) = page.service else {
            let all = self.entries.range(from).map(|(_, entry)| entry);
            let seen = all.filter(|entry| {
                entry.is_listed() && entry.names.iter().any(|name| party.right.may_import(name))
            });
            return seen.take(page.most).map(told).collect();
        };
        let Some(service) = self.services.get(name).filter(|_| party.right.may_import(name)) else {
            return Vec::new();
        };
        let sets = [&service.sure, &service.doubtful];
        let ids: BTreeSet<OfferId> =
            sets.into_iter().flat_map(|set| set.after(page.after).take(page.most)).collect();
        ids.iter().take(page.most).filter_map(|id| self.entries.get(id)).map(told).collect()
    }

    fn changes(
        &mut self,
        party: Party<'_>,
        service: &str,
        since: u64,
        within_ms: u64,
        now: u64,
    ) -> Result<Changes, TooManyWaits> {
        let now = self.look(now);
        // No offer has a longer name, and a name that waits takes room.
        let is_seen =
            service.len() as u64 <= self.limits.service_bytes_max && party.right.may_import(service);
        let counter = match self.services.get(service).filter(|_| is_seen) {
            Some(service) => service.changed,
            None => self.forgotten,
        };
        if counter != since || within_ms == 0 {
            return Ok(Changes::Now(counter));
        }
        let until = now.saturating_add(within_ms.min(self.limits.wait_ms_max));
        // For a role that does not see the service the call waits for nothing.
        let name: Arc<str> = if is_seen { service.into() } else { "".into() };
        let waiter = self.waits.add(name.clone(), party.session, until, &self.limits)?;
        if is_seen {
            let forgotten = self.forgotten;
            let entry = || Service { changed: forgotten, ..Service::default() };
            self.services.entry(name).or_insert_with(entry).waiters.insert(waiter);
        }
        Ok(Changes::Wait(waiter))
    }

    fn answers(&mut self) -> Vec<Answer> {
        self.waits.take_answers()
    }

    fn end_session(&mut self, session: u64) {
        for id in self.waits.of_session(session) {
            let Some(waiter) = self.waits.remove(id) else { continue };
            if let Some(service) = self.services.get_mut(&waiter.service) {
                service.waiters.remove(&id);
                self.tidy(&waiter.service);
            }
        }
    }

    fn expire(&mut self, now: u64) -> Vec<OfferId> {
        self.look(now);
        std::mem::take(&mut self.expired)
    }

    fn next_deadline(&self) -> u64 {
        let lease = self.deadlines.first().map(|(deadline, _)| *deadline);
        let first = lease.into_iter().chain(self.waits.first()).chain(self.proofs.first(&self.limits)).min();
        let tick = self.clock.next_look();
        first.map_or(tick, |first| self.clock.outside(first).min(tick))
    }

    fn distrust(&mut self, now: u64) {
        let now = self.look(now);
        self.grant_a_lease(now, u64::MAX);
    }

    fn to_prove(&mut self, now: u64) -> Vec<ToProve> {
        let now = self.look(now);
        let mut all = Vec::new();
        while let Some(id) = self.proofs.next(now, &self.limits) {
            let Some(entry) = self.entries.get_mut(&id) else { break };
            entry.proof = self.proofs.dial(id, entry.proof, now, &self.limits);
            let mut offer = entry.offer.clone();
            offer.addresses.retain(|address| is_told(address, &entry.offer, self.options.host.as_deref()));
            all.push(ToProve { offer });
        }
        all
    }

    fn proved(&mut self, id: OfferId, addresses: &[&str], now: u64) {
        self.look(now);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let is_found = |address: &Arc<str>| addresses.contains(&&**address);
        if entry.is_listed() || !entry.offer.addresses.iter().any(is_found) {
            return;
        }
        // Local addresses of other machines cannot be dialled from here, and are told only there.
        entry.offer.addresses.retain(|address| is_found(address) || is_local(address));
        self.proofs.end(id, entry.proof);
        entry.proof = Proof::Proven;
        self.list(id);
    }

    fn not_proved(&mut self, id: OfferId, now: u64) {
        let now = self.look(now);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.proof = self.proofs.fail(id, entry.proof, now);
    }
}

#[cfg(test)]
mod tests;
