//! [`Meter`]: a session's account of its batches.
//!
//! ```text
//! bytes have come        all that came is done         the answer is written
//!  begin ---------------------> pause ------ begin ------> answer
//!  |--------- it runs ----------|  it rests  |-- it runs ---|
//! ```
//!
//! All batches are counted. A crossing over shared memory takes half a microsecond, and to time it
//! a tenth of that. So while a session sends batch after batch, most of them are not timed. Their
//! number is drawn at random, so that it does not go in step with what the client does. The next
//! batch that is timed stands for them.
//!
//! A session runs in other states, too: before its `hello`, for `describe`. What is answered there
//! is no batch, and does not count.

use std::time::{Duration, Instant};

use bifrost_session::{Counters, Session};

use super::batches::{Answered, Batches, MEDIA, Timed};
use crate::otlp::{BatchSpan, Tracer};

/// Sessions whose batches come at shorter intervals, in nanoseconds, have some of them not timed.
const BUSY_NS: u64 = 50_000;
/// Most batches in a row that are not timed; a power of two less 1.
const SKIPPED_MAX: u32 = 127;
/// The time after which a batch is timed again.
const SKIPS_FOR: Duration = Duration::from_millis(10);

/// A session's account of its batches. Moments are those of [`Batches::since_start`], and 0 for
/// none.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The place of its medium in [`MEDIA`].
    medium: usize,
    /// The next batches that are not timed, and those since the last one that was.
    skip: u32,
    skipped: u32,
    /// The moment at which the first end.
    skips_until: Option<Instant>,
    /// True from an answer until the next batch begins.
    between: bool,
    /// The crossings when the session was last looked at, and the calls before the next batch that
    /// is timed.
    crossings: u64,
    calls: u64,
    /// The moment at which the batch began, and the one since which it runs.
    first: u64,
    since: u64,
    /// The time for which it has run before.
    ran_ns: u64,
    /// The parked time of the job when it began.
    parked_ns: u64,
    /// The moment of the last answer, until it was taken.
    now: Option<Instant>,
    /// The moment at which the session had last done all that came.
    rested: Option<Instant>,
    /// The moment of the last answer of a batch that was timed.
    timed: u64,
    /// Bytes since batches were last counted, and the counters then.
    received_bytes: u64,
    sent_bytes: u64,
    counted: Counters,
    random: u32,
}

impl Meter {
    /// Makes the account of a session whose peer is described so.
    pub(crate) fn new(peer: &str, session: u64) -> Meter {
        let scheme = peer.split(' ').next().unwrap_or_default();
        let medium = MEDIA.iter().position(|name| *name == scheme).unwrap_or(MEDIA.len() - 1);
        Meter {
            medium,
            skip: 0,
            skipped: 0,
            skips_until: None,
            between: true,
            crossings: 0,
            calls: 0,
            first: 0,
            since: 0,
            ran_ns: 0,
            parked_ns: 0,
            now: None,
            rested: None,
            timed: 0,
            received_bytes: 0,
            sent_bytes: 0,
            counted: Counters::default(),
            random: (session as u32).wrapping_mul(0x9e37_79b9) | 1,
        }
    }

    /// Notes that the session runs, from the last answer on if it has just been written.
    #[inline]
    pub(crate) fn begin(&mut self, batches: &Batches) {
        self.between = false;
        if self.skip == 0 && self.since == 0 {
            let now = self.now.take().unwrap_or_else(Instant::now);
            self.since = batches.since_start(now);
            if self.first == 0 {
                self.first = self.since;
                self.parked_ns = bifrost_workers::parked_ns();
            }
        }
    }

    /// Notes that the session waits in the middle of its batch.
    #[inline]
    pub(crate) fn pause(&mut self, batches: &Batches, now: Instant) {
        if self.since != 0 {
            self.ran_ns += batches.since_start(now).saturating_sub(self.since);
            self.since = 0;
        }
    }

    /// Notes that the session has done all that came.
    #[inline]
    pub(crate) fn rest(&mut self, batches: &Batches, now: Instant) {
        self.pause(batches, now);
        if self.first == 0 {
            self.rested = Some(now);
        }
        if self.skip > 0 && self.between && self.skips_until.is_some_and(|until| until <= now) {
            self.skip = 0;
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
        self.sent_bytes += sent_bytes as u64;
        let crossings = session.crossings() - self.crossings;
        self.crossings += crossings;
        if self.skip > 0 {
            // A line of the text form may make several.
            let skipped = crossings.min(self.skip.into()) as u32;
            self.skip -= skipped;
            self.skipped += skipped;
        } else if crossings > 0 || session.error().is_some() {
            self.time(batches, tracer, session, crossings);
        } else if self.crossings == self.counted.crossings {
            (self.received_bytes, self.sent_bytes) = (0, 0);
        }
        self.calls = session.calls();
        self.between = true;
        (self.first, self.since, self.ran_ns) = (0, 0, 0);
    }

    /// Counts and times the batches that were just answered.
    #[inline(never)]
    fn time(&mut self, batches: &Batches, tracer: Option<&Tracer>, session: &Session, crossings: u64) {
        let now = Instant::now();
        self.now = Some(now);
        self.pause(batches, now);
        let now_ns = batches.since_start(now);
        if let Some(tracer) = tracer
            && self.first != 0
        {
            self.trace(tracer, session, (now, now_ns));
        }
        self.count(batches, session);
        if crossings == 0 {
            return;
        }
        let parked_ns = bifrost_workers::parked_ns() - self.parked_ns;
        let weight = u64::from(self.skipped) + 1;
        let rested = self.rested.map_or(self.first, |rested| batches.since_start(rested));
        let timed = Timed {
            batches: crossings,
            calls: session.calls() - self.calls,
            weight,
            whole_ns: now_ns.saturating_sub(self.first),
            ran_ns: self.ran_ns.saturating_sub(parked_ns),
            parked_ns,
            input_ns: self.first.saturating_sub(rested),
        };
        batches.time(now_ns, &timed);
        let interval = now_ns.saturating_sub(self.timed) / weight;
        (self.timed, self.skipped) = (now_ns, 0);
        if interval < BUSY_NS && tracer.is_none() {
            // Xorshift (Marsaglia 2003).
            self.random ^= self.random << 13;
            self.random ^= self.random >> 17;
            self.random ^= self.random << 5;
            self.skip = self.random & SKIPPED_MAX;
            self.skips_until = Some(now + SKIPS_FOR);
        }
    }

    /// Counts the batches that were answered since they were last counted.
    #[inline]
    pub(crate) fn count(&mut self, batches: &Batches, session: &Session) {
        if session.crossings() == self.counted.crossings {
            return;
        }
        let (before, after) = (self.counted, session.counters());
        let answered = Answered {
            crossings: after.crossings - before.crossings,
            calls: after.calls - before.calls,
            structures: after.structures - before.structures,
            failures: after.failures - before.failures,
            fuel: after.fuel - before.fuel,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
        };
        batches.count(self.medium, &answered);
        (self.counted, self.received_bytes, self.sent_bytes) = (after, 0, 0);
    }

    #[cold]
    fn trace(&self, tracer: &Tracer, session: &Session, (now, now_ns): (Instant, u64)) {
        let Some(place) = tracer.sample(session.trace()) else { return };
        let (before, after) = (self.counted, session.counters());
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
            sent_bytes: self.sent_bytes,
            error: session.error(),
        });
    }
}
