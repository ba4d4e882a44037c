//! Calls of `changes` that wait, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::board::{Answer, TooManyWaits, WaiterId};
use crate::limits::Limits;

/// A call that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) service: Arc<str>,
    session: u64,
    until: u64,
}

/// All calls that wait, and answers that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waiters: BTreeMap<WaiterId, Waiter>,
    deadlines: BTreeSet<(u64, WaiterId)>,
    sessions: BTreeMap<u64, BTreeSet<WaiterId>>,
    last: u64,
    answers: Vec<Answer>,
}

impl Waits {
    /// Adds a call.
    pub(crate) fn add(
        &mut self,
        service: Arc<str>,
        session: u64,
        until: u64,
        limits: &Limits,
    ) -> Result<WaiterId, TooManyWaits> {
        let own = self.sessions.get(&session).map_or(0, BTreeSet::len) as u64;
        if own >= limits.waits_session_max {
            return Err(TooManyWaits { limit: "waits_session_max", value: limits.waits_session_max });
        }
        if self.waiters.len() as u64 >= limits.waits_max {
            return Err(TooManyWaits { limit: "waits_max", value: limits.waits_max });
        }
        self.last += 1;
        let id = WaiterId(self.last);
        self.waiters.insert(id, Waiter { service, session, until });
        self.deadlines.insert((until, id));
        self.sessions.entry(session).or_default().insert(id);
        Ok(id)
    }

    /// Removes a call.
    pub(crate) fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        self.deadlines.remove(&(waiter.until, id));
        if let Some(own) = self.sessions.get_mut(&waiter.session) {
            own.remove(&id);
            if own.is_empty() {
                self.sessions.remove(&waiter.session);
            }
        }
        Some(waiter)
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, id: WaiterId, counter: u64) {
        if self.remove(id).is_some() {
            self.answers.push(Answer { waiter: id, counter });
        }
    }

    /// Returns a call whose time is over.
    pub(crate) fn over(&self, now: u64) -> Option<(WaiterId, Arc<str>)> {
        let (_, id) = *self.deadlines.first().filter(|(until, _)| *until <= now)?;
        Some((id, self.waiters.get(&id)?.service.clone()))
    }

    /// Returns the calls of a session.
    pub(crate) fn of_session(&self, session: u64) -> Vec<WaiterId> {
        self.sessions.get(&session).into_iter().flatten().copied().collect()
    }

    /// Returns the answers since the last call.
    pub(crate) fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// Returns the end of the call that ends first.
    pub(crate) fn first(&self) -> Option<u64> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// Returns the number of calls.
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }
}
