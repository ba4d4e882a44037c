//! Leases that end, and the trader's mistrust of itself.
//!
//! A lease ends when its exporter died, or when the trader did not see the renewals. Two rules tell
//! these apart as well as can be:
//!
//! - **Gap.** If the board was not called for more than a third of a lease, renewals may be
//!   waiting. Such a lease ends at the earliest one lease after the gap.
//! - **Doubt.** If more than half of a service's offers, and at least [`DOUBT_MIN`], would expire
//!   within one lease, then they stay as doubtful ones for [`DOUBT_LEASES`] leases.
//!
//! The offers that "would expire within one lease" are those that have expired within the last
//! lease, and those that are late: of which more than half of the lease has passed without one of
//! the renewals that are due after each third.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::Memory;
use super::proofs::Proof;
use crate::offer::OfferId;

/// Leases for which a doubtful offer stays.
pub const DOUBT_LEASES: u64 = 4;
/// Offers that must be about to expire before the trader doubts.
pub const DOUBT_MIN: usize = 3;

/// Offers that `expire` returns at once.
const ENDED_MAX: usize = 100_000;

/// The leases that have ended within the longest lease, those of doubtful offers among them.
#[derive(Debug, Default)]
pub(super) struct Lapses {
    all: BTreeSet<(Arc<str>, u64, OfferId)>,
    order: VecDeque<(u64, OfferId, Arc<str>)>,
}

impl Lapses {
    /// Notes that a lease has ended.
    fn note(&mut self, id: OfferId, service: Arc<str>, now: u64, longest: u64) {
        while let Some((time, ..)) = self.order.front()
            && time.saturating_add(longest) < now
            && let Some((time, id, service)) = self.order.pop_front()
        {
            self.all.remove(&(service, time, id));
        }
        self.order.push_back((now, id, service.clone()));
        self.all.insert((service, now, id));
    }

    /// Forgets the lease of a doubtful offer, which was renewed or is gone.
    pub(super) fn forget(&mut self, id: OfferId, lapsed: Option<u64>, service: &Arc<str>) {
        if let Some(time) = lapsed {
            self.all.remove(&(service.clone(), time, id));
        }
    }

    /// Counts the leases of a service that have ended after a time.
    fn count(&self, service: &Arc<str>, since: u64) -> usize {
        let after = Bound::Excluded((service.clone(), since, OfferId(u64::MAX)));
        let before = Bound::Included((service.clone(), u64::MAX, OfferId(u64::MAX)));
        self.all.range((after, before)).count()
    }
}

impl Memory {
    /// Sees the time: grants a lease after a gap, and ends leases, proofs and waits whose time is
    /// over. Returns the board's time.
    pub(super) fn look(&mut self, now: u64) -> u64 {
        let (now, gap) = self.clock.look(now);
        if gap.saturating_mul(3) > self.limits.lease_ms_min {
            self.grant_a_lease(now, gap);
        }
        self.lapse(now);
        while let Some(id) = self.proofs.over(now) {
            let Some(entry) = self.entries.get_mut(&id) else { break };
            entry.proof = self.proofs.fail(id, entry.proof, now);
        }
        while let Some((id, name)) = self.waits.over(now) {
            let counter = self.services.get_mut(&name).map(|service| {
                service.waiters.remove(&id);
                service.changed
            });
            self.waits.answer(id, counter.unwrap_or(self.forgotten));
            self.tidy(&name);
        }
        now
    }

    /// Gives each exporter a lease to renew, if the gap is more than a third of it.
    pub(super) fn grant_a_lease(&mut self, now: u64, gap: u64) {
        let late = self.entries.iter().filter(|(_, entry)| {
            gap.saturating_mul(3) > entry.lease_ms && entry.deadline < now.saturating_add(entry.lease_ms)
        });
        let late: Vec<OfferId> = late.map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.set_deadline(id, now, 1));
    }

    /// Begins a lease anew.
    pub(super) fn prolong(&mut self, id: OfferId, now: u64) {
        self.set_deadline(id, now, 1);
        if let Some(entry) = self.entries.get_mut(&id) {
            let lapsed = entry.lapsed.take();
            self.lapses.forget(id, lapsed, &entry.offer.service);
        }
    }

    /// Has a lease end after so many times its length.
    pub(super) fn set_deadline(&mut self, id: OfferId, now: u64, leases: u64) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let old = entry.deadline;
        entry.deadline = now.saturating_add(entry.lease_ms.saturating_mul(leases));
        self.deadlines.remove(&(old, id));
        self.deadlines.insert((entry.deadline, id));
        if let Some(service) = self.services.get_mut(&entry.offer.service)
            && service.due.remove(&(old, id))
        {
            service.due.insert((entry.deadline, id));
        }
    }

    /// Ends the leases whose time is over.
    fn lapse(&mut self, now: u64) {
        while let Some((_, id)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            let id = *id;
            let Some(entry) = self.entries.get(&id) else { break };
            let is_sure = entry.proof == Proof::Proven && !entry.offer.doubtful;
            if is_sure && self.doubts(id, now) {
                let service = entry.offer.service.clone();
                self.unlist(id);
                self.lapses.note(id, service, now, self.limits.lease_ms_max);
                self.set_deadline(id, now, DOUBT_LEASES);
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.offer.doubtful = true;
                    entry.lapsed = Some(now);
                }
                self.list(id);
                continue;
            }
            if is_sure {
                self.lapses.note(id, entry.offer.service.clone(), now, self.limits.lease_ms_max);
            }
            self.remove(id);
            // The numbers are for a log, which `expire` is to fetch each second.
            if self.expired.len() < ENDED_MAX {
                self.expired.push(id);
            }
        }
        self.list_copies();
    }

    /// True if so many offers of the service are late that the trader is the likelier cause.
    fn doubts(&self, id: OfferId, now: u64) -> bool {
        let Some(entry) = self.entries.get(&id) else { return false };
        let Some(service) = self.services.get(&entry.offer.service) else { return false };
        let since = now.saturating_sub(entry.lease_ms);
        let lapsed = self.lapses.count(&entry.offer.service, since);
        let all = service.due.len() + lapsed;
        let latest = now.saturating_add(self.limits.lease_ms_max / 2);
        let due = service.due.range(..(latest, OfferId(u64::MAX)));
        let late = due.filter(|(deadline, id)| {
            let lease_ms = self.entries.get(id).map_or(0, |entry| entry.lease_ms);
            deadline.saturating_sub(now) < lease_ms / 2
        });
        // No more are counted than decide it.
        let needed = DOUBT_MIN.max(all / 2 + 1);
        lapsed + late.take(needed).count() >= needed
    }
}
