//! Proofs of offers: the states of the dial-back.
//!
//! ```text
//!   Waiting --- to_prove ---> Dialling --- proved ---> Proven
//!      ^                         |
//!      |                         +-- not_proved, or no word for `proof_ms_max`
//!      |                         v
//!      +-- a pause --- fewer than TRIES_MAX? --- no --> Resting
//!      |                                                  |
//!      +------------------- a renewal --------------------+
//! ```
//!
//! So a wrong address is dialled a few times at once, and later once for each renewal at most.
//! First tries come before repeated ones, and of a session's offers one comes after the other, so
//! that many offers that fail do not hold others up.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::Limits;
use crate::offer::OfferId;

/// Tries of an offer before it waits for a renewal.
pub(crate) const TRIES_MAX: u32 = 3;
/// The pause after the first try; it doubles after each.
const PAUSE_MS: u64 = 500;
/// The least time between the ends of two tries.
const APART_MS: u64 = 1_000;

/// The state of an offer's proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proof {
    /// The next try is at a time.
    Waiting { tries: u32, at: u64 },
    /// A try is under way; with `again`, a renewal came meanwhile.
    Dialling { tries: u32, until: u64, again: bool },
    /// No try before a renewal.
    Resting { last: u64 },
    /// The offer is listed.
    Proven,
}

/// The offers that wait for a try, and those under way.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// By class, and the time.
    waiting: BTreeSet<(u64, u64, OfferId)>,
    dialling: BTreeSet<(u64, OfferId)>,
    /// The session of each offer that is not proved, and its rank among them.
    ranks: BTreeMap<OfferId, (u64, u64)>,
    /// The number of offers of a session that are not proved.
    sessions: BTreeMap<u64, u64>,
}

/// Ranks within a class of tries; later offers of a session have the last one.
const RANKS: u64 = 1_000;

impl Proofs {
    /// Starts with the first try.
    pub(crate) fn start(&mut self, id: OfferId, session: u64, now: u64) -> Proof {
        let count = self.sessions.entry(session).or_default();
        self.ranks.insert(id, (session, *count));
        *count += 1;
        self.enter(id, Proof::Waiting { tries: 0, at: now })
    }

    /// Ends the proof of an offer that is proved, or gone.
    pub(crate) fn end(&mut self, id: OfferId, proof: Proof) {
        self.leave(id, proof);
        let Some((session, _)) = self.ranks.remove(&id) else { return };
        if let Some(count) = self.sessions.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&session);
            }
        }
    }

    /// The class of an offer: lower ones are dialled first.
    fn class(&self, id: OfferId, tries: u32) -> u64 {
        let rank = self.ranks.get(&id).map_or(0, |(_, rank)| *rank);
        u64::from(tries) * RANKS + rank.min(RANKS - 1)
    }

    fn enter(&mut self, id: OfferId, proof: Proof) -> Proof {
        match proof {
            Proof::Waiting { tries, at } => {
                self.waiting.insert((self.class(id, tries), at, id));
            }
            Proof::Dialling { until, .. } => {
                self.dialling.insert((until, id));
            }
            Proof::Resting { .. } | Proof::Proven => {}
        }
        proof
    }

    /// Leaves a state.
    fn leave(&mut self, id: OfferId, proof: Proof) {
        match proof {
            Proof::Waiting { tries, at } => {
                self.waiting.remove(&(self.class(id, tries), at, id));
            }
            Proof::Dialling { until, .. } => {
                self.dialling.remove(&(until, id));
            }
            Proof::Resting { .. } | Proof::Proven => {}
        }
    }

    /// The first offer of each class.
    fn firsts(&self) -> impl Iterator<Item = (u64, OfferId)> {
        let mut class = 0;
        std::iter::from_fn(move || {
            let (found, at, id) = *self.waiting.range((class, 0, OfferId(0))..).next()?;
            class = found + 1;
            Some((at, id))
        })
    }

    /// Returns the next offer to dial, if one is due and there is room.
    pub(crate) fn next(&mut self, now: u64, limits: &Limits) -> Option<OfferId> {
        if self.dialling.len() as u64 >= limits.proofs_max {
            return None;
        }
        self.firsts().find(|(at, _)| *at <= now).map(|(_, id)| id)
    }

    /// Begins a try.
    pub(crate) fn dial(&mut self, id: OfferId, proof: Proof, now: u64, limits: &Limits) -> Proof {
        let Proof::Waiting { tries, .. } = proof else { return proof };
        self.leave(id, proof);
        let until = now.saturating_add(limits.proof_ms_max);
        self.enter(id, Proof::Dialling { tries: (tries + 1).min(TRIES_MAX), until, again: false })
    }

    /// Notes that a try has failed.
    pub(crate) fn fail(&mut self, id: OfferId, proof: Proof, now: u64) -> Proof {
        let Proof::Dialling { tries, again, .. } = proof else { return proof };
        self.leave(id, proof);
        let next = match (tries, again) {
            (TRIES_MAX, false) => Proof::Resting { last: now },
            (TRIES_MAX, true) => Proof::Waiting { tries, at: now.saturating_add(APART_MS) },
            _ => Proof::Waiting { tries, at: now.saturating_add(PAUSE_MS << (tries - 1)) },
        };
        self.enter(id, next)
    }

    /// Notes a renewal, which allows one try more.
    pub(crate) fn renew(&mut self, id: OfferId, proof: Proof, now: u64) -> Proof {
        match proof {
            Proof::Resting { last } => self
                .enter(id, Proof::Waiting { tries: TRIES_MAX, at: now.max(last.saturating_add(APART_MS)) }),
            Proof::Dialling { tries, until, .. } => Proof::Dialling { tries, until, again: true },
            Proof::Waiting { .. } | Proof::Proven => proof,
        }
    }

    /// Returns an offer whose try took too long.
    pub(crate) fn over(&self, now: u64) -> Option<OfferId> {
        self.dialling.first().filter(|(until, _)| *until <= now).map(|(_, id)| *id)
    }

    /// Returns the time of the next try, or of the end of one.
    pub(crate) fn first(&self, limits: &Limits) -> Option<u64> {
        let over = self.dialling.first().map(|(until, _)| *until);
        if self.dialling.len() as u64 >= limits.proofs_max {
            return over;
        }
        self.firsts().map(|(at, _)| at).chain(over).min()
    }
}
