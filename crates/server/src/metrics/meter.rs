//! [`Meter`]: a session's account of its batch under way.
//!
//! ```text
//! bytes have come        all that came is done         the answer is written
//!  begin ---------------------> pause ------ begin ------> answered
//!  |--------- it runs ----------|  it rests  |-- it runs ---|
//! ```
//!
//! A session runs in other states, too: before its `hello`, for `describe`. What is answered there
//! is no batch, and does not count.

use std::time::Instant;

use bifrost_session::{Counters, Session};

use super::batches::{Answered, Batches, MEDIA};
use crate::otlp::{BatchSpan, Tracer};

/// A session's account of its batch under way. Moments are those of [`Batches::since_start`], and 0
/// for none.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The place of its medium in [`MEDIA`].
    medium: usize,
    /// The moment at which the batch began, and the one since which it runs.
    first: u64,
    since: u64,
    /// The time for which it has run before.
    ran_ns: u64,
    /// The moment of the last answer.
    last: u64,
    /// The same, until it was taken.
    now: Option<Instant>,
    received_bytes: u64,
    /// The parked time of the job, and the counters of the session, at the last answer.
    parked_ns: u64,
    counters: Counters,
}

impl Meter {
    /// Makes the account of a session whose peer is described so.
    pub(crate) fn new(peer: &str) -> Meter {
        let scheme = peer.split(' ').next().unwrap_or_default();
        let medium = MEDIA.iter().position(|name| *name == scheme).unwrap_or(MEDIA.len() - 1);
        Meter {
            medium,
            first: 0,
            since: 0,
            ran_ns: 0,
            last: 0,
            now: None,
            received_bytes: 0,
            parked_ns: 0,
            counters: Counters::default(),
        }
    }

    /// Notes that the session runs, from the last answer on if it has just been written.
    #[inline]
    pub(crate) fn begin(&mut self, batches: &Batches) {
        if self.since == 0 {
            let now = self.now.take().unwrap_or_else(Instant::now);
            self.since = batches.since_start(now);
            if self.first == 0 {
                self.first = self.since;
            }
        }
    }

    /// Notes that the session rests, or that its batch is incomplete.
    #[inline]
    pub(crate) fn pause(&mut self, batches: &Batches, now: Instant) {
        if self.since != 0 {
            self.ran_ns += batches.since_start(now).saturating_sub(self.since);
            self.since = 0;
        }
    }

    /// Notes bytes of the client that were used.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
    }

    /// Returns the moment of an answer that was just written, once.
    #[inline]
    pub(crate) fn take_now(&mut self) -> Option<Instant> {
        self.now.take()
    }

    /// Notes that answers were written.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        batches: &Batches,
        tracer: Option<&Tracer>,
        session: &Session,
        sent_bytes: usize,
    ) {
        let now = Instant::now();
        self.now = Some(now);
        let (before, after) = (self.counters, session.counters());
        let crossings = after.crossings - before.crossings;
        let now_ns = batches.since_start(now);
        let parked = bifrost_workers::parked_ns();
        if crossings > 0 {
            self.pause(batches, now);
            let parked_ns = parked - self.parked_ns;
            let answered = Answered {
                crossings,
                calls: after.calls - before.calls,
                structures: after.structures - before.structures,
                failures: after.failures - before.failures,
                fuel: after.fuel - before.fuel,
                received_bytes: self.received_bytes,
                sent_bytes: sent_bytes as u64,
                whole_ns: now_ns.saturating_sub(self.first),
                ran_ns: self.ran_ns.saturating_sub(parked_ns),
                parked_ns,
                input_ns: if self.last == 0 { 0 } else { self.first.saturating_sub(self.last) },
            };
            batches.add(now_ns, self.medium, &answered);
        }
        if let Some(tracer) = tracer
            && (crossings > 0 || session.error().is_some())
        {
            self.trace(tracer, session, (now, now_ns), &before, &after, sent_bytes);
        }
        (self.first, self.since, self.ran_ns, self.received_bytes) = (0, 0, 0, 0);
        (self.last, self.parked_ns, self.counters) = (now_ns, parked, after);
    }

    #[cold]
    fn trace(
        &self,
        tracer: &Tracer,
        session: &Session,
        (now, now_ns): (Instant, u64),
        before: &Counters,
        after: &Counters,
        sent_bytes: usize,
    ) {
        let Some(place) = tracer.sample(session.trace()) else { return };
        tracer.add(BatchSpan {
            place,
            ended: now,
            whole_ns: now_ns.saturating_sub(self.first),
            parked_ns: bifrost_workers::parked_ns() - self.parked_ns,
            session: session.number(),
            role: session.role().to_owned(),
            medium: MEDIA[self.medium],
            batches: after.crossings - before.crossings,
            calls: after.calls - before.calls,
            structures: after.structures - before.structures,
            failures: after.failures - before.failures,
            fuel: after.fuel - before.fuel,
            fetched: after.fetched - before.fetched,
            commits: after.commits - before.commits,
            received_bytes: self.received_bytes,
            sent_bytes: sent_bytes as u64,
            error: session.error(),
        });
    }
}
