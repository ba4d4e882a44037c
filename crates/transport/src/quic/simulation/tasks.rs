//! The tasks of a simulated client: each makes its calls over a stream, and another one if the
//! stream is lost.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bifrost_rex::Ran;
use quinn_proto::StreamId;

use super::super::link::Gone;
use super::super::open::Bell;
use super::super::port;
use super::process::{Clock, Conn, Shared, rings};
use super::sessions::{Request, are_bytes, judge_inbox};
use super::truth::{StreamKey, Truth};
use crate::want::Want;

/// A call that is to be made.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub request: Request,
    /// The pause before it; after it has been written, if the next one does not wait.
    pub pause: u64,
    /// True if the next call is written without waiting for the answer of this one.
    pub goes_on: bool,
    /// The time after which the client ends the session.
    pub patience: Option<u64>,
}

/// A call whose bytes were written, at least some.
struct Sent {
    plan: Plan,
    start: u64,
    /// The time at which its answer is due, if nothing is lost.
    due: u64,
    /// The bytes of its reply.
    got: usize,
}

/// A stream of a task.
struct Stream {
    conn: Shared,
    id: StreamId,
    bell: Arc<Bell>,
    key: StreamKey,
    out: Vec<u8>,
    out_at: usize,
    sent: VecDeque<Sent>,
    written: u64,
    /// The last call as REX has it.
    call: Range<u64>,
    flushed: u64,
    /// The time at which the client ends the session.
    ends: Option<u64>,
    is_resting: bool,
    /// True if a write has failed.
    is_broken: bool,
    /// The bytes of replies.
    got: u64,
}

/// Calls that follow each other.
pub(super) struct Task {
    pub plans: VecDeque<Plan>,
    pub wake: Option<u64>,
    /// The time that its bytes take in a net that was poor.
    pub slow: u64,
    stream: Option<Stream>,
    attempts: u64,
}

/// The time after the last fault, with the pauses of repeated packets, in which calls are answered;
/// the same where a client has moved, or the longest datagram has changed; and that in which lost
/// connections are noticed.
pub(super) const SOON: u64 = 5_000_000;
pub(super) const HARD: u64 = 60_000_000;
const LOST: u64 = 35_000_000;

impl Task {
    pub(super) fn new(plans: VecDeque<Plan>, begins: u64, attempts: u64) -> Task {
        Task { plans, wake: Some(begins), slow: 0, stream: None, attempts }
    }

    /// The bytes of its calls and their replies.
    pub(super) fn bytes(&self) -> usize {
        self.plans.iter().map(|plan| plan.request.bytes + plan.request.reply).sum()
    }

    pub(super) fn is_done(&self) -> bool {
        self.stream.is_none() && self.plans.is_empty()
    }

    /// True if it waits for a connection.
    pub(super) fn wants_stream(&self, now: u64) -> bool {
        self.stream.is_none() && !self.plans.is_empty() && self.wake.is_none_or(|at| at <= now)
    }

    pub(super) fn due(&self) -> Option<u64> {
        let ends = self.stream.as_ref().and_then(|stream| stream.ends);
        [self.wake, ends].into_iter().flatten().min()
    }

    /// The process is gone: nobody waits for the calls that were sent.
    pub(super) fn forget(&mut self) {
        self.stream = None;
    }

    pub(super) fn describe(&self) -> String {
        match &self.stream {
            Some(stream) => {
                let sent: Vec<_> =
                    stream.sent.iter().map(|sent| (&sent.plan, sent.start, sent.got)).collect();
                let conn = stream.conn.borrow();
                let (written, out) = (stream.written, stream.out.len() - stream.out_at);
                let link = (conn.link.is_established(), conn.link.lost().cloned());
                format!("{sent:?}, {written} written, {out} to be written, call {:?}, {link:?}", stream.call)
            }
            None => format!("no stream, {} plans, wake {:?}", self.plans.len(), self.wake),
        }
    }

    /// Judges what the link knows of the call.
    pub(super) fn look(&self, clock: Clock, truth: &mut Truth) {
        let Some(stream) = &self.stream else { return };
        let conn = stream.conn.borrow();
        judge_inbox(truth, conn.link.inbox_bytes(stream.id));
        let call = conn.link.call(clock.at(truth.now), stream.id);
        let waits = conn.link.waiting().contains(&stream.id);
        if waits != call.is_some() {
            truth.fail(|| format!("the stream {:?} waits: {waits}, and its call is {call:?}", stream.key));
        }
        if let Some(call) = call {
            let is_lost = conn.link.lost().is_some();
            let flushed = if is_lost { u64::MAX / 2 } else { stream.flushed };
            truth.known(stream.key, &stream.call, &call, flushed + self.slow);
        }
    }

    /// Goes on until it waits.
    pub(super) fn step(&mut self, clock: Clock, conn: Option<&Shared>, truth: &mut Truth) {
        let mut turns = 0;
        while !self.is_done() {
            turns += 1;
            if turns > 10_000 {
                let what = self.describe();
                return truth.fail(|| format!("a task spins: {what}"));
            }
            let goes_on = match self.stream.take() {
                None => self.open(conn, truth),
                Some(stream) => self.go_on(stream, clock, truth),
            };
            if !goes_on {
                return;
            }
        }
    }

    fn open(&mut self, conn: Option<&Shared>, truth: &mut Truth) -> bool {
        if !self.wants_stream(truth.now) {
            return false;
        }
        let Some(shared) = conn else { return false };
        let mut conn = shared.borrow_mut();
        let (true, Some(name)) = (conn.link.is_established(), conn.name) else { return false };
        let bell = port::bell().expect("an eventfd");
        let Some(id) = conn.link.open(bell.clone()) else {
            self.wake = Some(truth.now + 50_000);
            return false;
        };
        conn.touched = true;
        self.stream = Some(Stream {
            conn: shared.clone(),
            id,
            bell,
            key: (name, id.into()),
            out: Vec::new(),
            out_at: 0,
            sent: VecDeque::new(),
            written: 0,
            call: 0..0,
            flushed: 0,
            ends: None,
            is_resting: false,
            is_broken: false,
            got: 0,
        });
        self.wake = None;
        true
    }

    /// Does one thing with the stream. False if it waits.
    fn go_on(&mut self, mut stream: Stream, clock: Clock, truth: &mut Truth) -> bool {
        let (now, shared) = (truth.now, stream.conn.clone());
        let mut conn = shared.borrow_mut();
        if stream.ends.is_some_and(|at| at <= now) {
            // The client does not want to know what becomes of its calls.
            self.end(stream, &mut conn, now);
            return true;
        }
        if stream.is_resting && !rings(&stream.bell) && self.wake.is_none_or(|at| at > now) {
            self.stream = Some(stream);
            return false;
        }
        stream.is_resting = false;
        let goes_on = if stream.out_at < stream.out.len() {
            self.write(&mut stream, &mut conn, clock, truth)
        } else if !stream.is_broken && self.writes_next(&stream, now) {
            self.begin(&mut stream, truth);
            true
        } else if stream.sent.is_empty() {
            if self.plans.is_empty() {
                self.end(stream, &mut conn, now);
                return true;
            }
            false
        } else {
            match self.read(&mut stream, &mut conn, clock, truth) {
                Some(goes_on) => goes_on,
                None => {
                    self.end(stream, &mut conn, now);
                    return true;
                }
            }
        };
        self.stream = Some(stream);
        goes_on
    }

    fn end(&mut self, stream: Stream, conn: &mut Conn, now: u64) {
        conn.link.close(stream.id);
        conn.touched = true;
        self.wake = Some(now + 1_000);
    }

    fn writes_next(&self, stream: &Stream, now: u64) -> bool {
        let may = stream.sent.back().is_none_or(|sent| sent.plan.goes_on);
        may && !self.plans.is_empty() && self.wake.is_none_or(|at| at <= now)
    }

    fn begin(&mut self, stream: &mut Stream, truth: &mut Truth) {
        let Some(mut plan) = self.plans.pop_front() else { return };
        self.attempts += 1;
        plan.request.attempt = self.attempts;
        self.wake = None;
        stream.ends = plan.patience.map(|patience| truth.now + patience);
        (stream.out, stream.out_at) = (plan.request.write(), 0);
        truth.note(b'c', plan.request.number, &plan.request.attempt.to_le_bytes());
        // The session executes one after the other.
        let before = stream.sent.back().map_or(0, |sent| sent.due);
        let due = before.max(truth.now).max(truth.settled) + plan.request.service;
        stream.sent.push_back(Sent { plan, start: stream.written, due, got: 0 });
    }

    fn write(&mut self, stream: &mut Stream, conn: &mut Conn, clock: Clock, truth: &mut Truth) -> bool {
        let at = clock.at(truth.now);
        conn.touched = true;
        let result = conn.link.write(stream.id, &stream.out[stream.out_at..]);
        match result {
            Ok(count) => {
                stream.out_at += count;
                stream.written += count as u64;
                if stream.out_at < stream.out.len() {
                    stream.is_resting = !conn.link.arm(at, stream.id, Want::Room);
                    return !stream.is_resting;
                }
            }
            Err(_) => {
                stream.out_at = stream.out.len();
                stream.is_broken = true;
            }
        }
        let waits = conn.link.call(at, stream.id).is_some();
        if stream.written > stream.call.end {
            let start = if waits { stream.call.start } else { stream.call.end };
            stream.call = start..stream.written;
            stream.flushed = truth.now;
        }
        conn.link.flush(at, stream.id);
        if let Some(sent) = stream.sent.back()
            && sent.plan.goes_on
        {
            self.wake = Some(truth.now + sent.plan.pause);
        }
        true
    }

    /// Reads replies. `None` if the stream has ended.
    fn read(
        &mut self,
        stream: &mut Stream,
        conn: &mut Conn,
        clock: Clock,
        truth: &mut Truth,
    ) -> Option<bool> {
        let (at, mut bytes) = (clock.at(truth.now), Vec::new());
        match conn.link.read(at, stream.id, &mut bytes, 64 << 10) {
            Ok(Some(0)) => {
                let written = truth.stream(stream.key).written;
                if stream.got < written {
                    truth.fail(|| {
                        format!("the end of {:?} comes after {} of {written} bytes", stream.key, stream.got)
                    });
                }
                self.ended(stream, truth);
                None
            }
            Ok(Some(_)) => {
                conn.touched |= conn.link.owes_room();
                stream.got += bytes.len() as u64;
                self.take(stream, &bytes, truth);
                Some(true)
            }
            Ok(None) => {
                stream.is_resting = !conn.link.arm(at, stream.id, Want::Bytes);
                conn.touched |= conn.link.owes_room();
                Some(!stream.is_resting)
            }
            Err(Gone::Closed) => {
                self.ended(stream, truth);
                None
            }
            Err(Gone::Lost(why, ran)) => {
                truth.note(b'l', ran as u64, why.to_string().as_bytes());
                self.judge(stream, ran, truth);
                self.ended(stream, truth);
                None
            }
        }
    }

    fn take(&mut self, stream: &mut Stream, mut bytes: &[u8], truth: &mut Truth) {
        while !bytes.is_empty() {
            let Some(sent) = stream.sent.front_mut() else {
                return truth.fail(|| format!("{} bytes more than the replies have", bytes.len()));
            };
            let Request { number, attempt, reply, .. } = sent.plan.request;
            let (now, rest) = bytes.split_at(bytes.len().min(reply - sent.got));
            truth.replied(number, attempt);
            if !are_bytes(number, sent.got, now) {
                truth.fail(|| format!("the reply of call {number} has other bytes, from {} on", sent.got));
            }
            sent.got += now.len();
            bytes = rest;
            if sent.got == reply {
                self.wake = Some(truth.now + sent.plan.pause);
                let took = truth.now.saturating_sub(sent.due);
                truth.seen.slowest = truth.seen.slowest.max(took);
                if took > truth.soon + self.slow {
                    truth.fail(|| format!("call {number} is answered {took} us late"));
                }
                truth.seen.answered += 1;
                stream.sent.pop_front();
                if stream.sent.is_empty() {
                    stream.ends = None;
                }
            }
        }
    }

    /// Judges the fate of the last call. It is repeated if it did not run.
    fn judge(&mut self, stream: &mut Stream, ran: Ran, truth: &mut Truth) {
        match ran {
            Ran::No => {
                truth.seen.no += 1;
                truth.not_begun(stream.key, &stream.call);
                while let Some(sent) = stream.sent.pop_back_if(|sent| sent.start >= stream.call.start) {
                    let Request { number, attempt, .. } = sent.plan.request;
                    truth.never_ran(number, attempt);
                    self.plans.push_front(sent.plan);
                }
            }
            Ran::Began => {
                truth.seen.began += 1;
                truth.began(stream.key, &stream.call);
            }
            Ran::Unknown => truth.seen.unknown += 1,
        }
    }

    fn ended(&mut self, stream: &Stream, truth: &mut Truth) {
        let due = stream.sent.iter().map(|sent| sent.due).max().unwrap_or(0).max(truth.settled);
        let took = truth.now.saturating_sub(due);
        truth.seen.lost_after = truth.seen.lost_after.max(took);
        // Silence is a loss after three pauses of repeated packets at least (RFC 9000, 10.1).
        if took > LOST + truth.soon + self.slow {
            truth.fail(|| format!("a loss is noticed {took} us late"));
        }
    }
}
