//! [`Asking`]: a stream of a client, which asks for the state of its last call while it waits.
//!
//! ```text
//!            flush                     timer: ASK           STATE
//! answered --------> waiting -------------------> waiting --------> waiting (state known)
//!     ^                 |                                              |
//!     +-----------------+---------------- bytes of the server ---------+
//! ```
//!
//! The time until the first question is learned: the round trip, and the time that calls of this
//! stream took lately, both with their variation. So a call that takes its usual time asks nothing,
//! and a lost packet of one is found after little more than this time: the question must be
//! acknowledged, and the acknowledgement shows that the packet before it is missing. Later
//! questions come after twice the time each, up to [`INTERVAL_MAX`].

use std::ops::Range;

use crate::call::{Call, CallState, Ran};
use crate::message::Message;
use crate::time::Micros;

/// The shortest time until a question, in microseconds.
pub const INTERVAL_MIN: u64 = 2_000;
/// The longest time between two questions, in microseconds.
pub const INTERVAL_MAX: u64 = 2_000_000;

/// The round trip to the server, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trip {
    /// Its smoothed time.
    pub smoothed: u64,
    /// A time that few round trips exceed.
    pub cautious: u64,
}

/// A client's stream, with its last call.
#[derive(Debug, Default)]
pub struct Asking {
    /// The bytes of the call that waits, or waited last.
    call: Range<u64>,
    /// True while no byte of the server has arrived since the flush.
    waits: bool,
    flushed: Micros,
    /// The time of the next question, and the time after that one.
    next: Micros,
    interval: u64,
    told: Option<(CallState, u32, u32)>,
    /// The time of calls without the round trip, and its variation; both smoothed.
    service: u64,
    variation: u64,
    is_measured: bool,
    /// The end of the bytes that are known to be read by the server's session.
    begun: u64,
}

impl Asking {
    /// Notes that all bytes before an offset were flushed. Those since the last flush are a call.
    pub fn on_flush(&mut self, now: Micros, end: u64, trip: Trip) {
        if end <= self.call.end {
            return;
        }
        // Calls that are written before an answer are one.
        let start = if self.waits { self.call.start } else { self.call.end };
        self.call = start..end;
        if !self.waits {
            self.flushed = now;
        }
        (self.waits, self.told) = (true, None);
        self.interval = (trip.cautious + self.service + 4 * self.variation).clamp(INTERVAL_MIN, INTERVAL_MAX);
        self.next = now.after(self.interval);
    }

    /// Notes bytes of the server.
    #[inline]
    pub fn on_bytes(&mut self, now: Micros, trip: Trip) {
        if !self.waits {
            return;
        }
        self.waits = false;
        let took = now.since(self.flushed).saturating_sub(trip.smoothed);
        if self.is_measured {
            self.variation = (3 * self.variation + self.service.abs_diff(took)) / 4;
            self.service = (7 * self.service + took) / 8;
        } else {
            (self.service, self.variation, self.is_measured) = (took, took / 2, true);
        }
    }

    /// Returns the time of the next question; `None` while nothing waits.
    #[inline]
    pub fn timeout(&self) -> Option<Micros> {
        self.waits.then_some(self.next)
    }

    /// Returns the question that is due.
    pub fn ask(&mut self, now: Micros, stream: u64) -> Option<Message> {
        if !self.waits || now < self.next {
            return None;
        }
        self.interval = (2 * self.interval).min(INTERVAL_MAX);
        self.next = now.after(self.interval);
        Some(Message::Ask { stream, start: self.call.start, end: self.call.end })
    }

    /// Notes an answer about the call with these bytes. True if that is the call that waits. An
    /// answer about bytes that were never written is ignored.
    pub fn on_state(&mut self, bytes: Range<u64>, state: CallState, before: u32, ms: u32) -> bool {
        if bytes.start >= self.call.end {
            return false;
        }
        if state >= CallState::Begun {
            // Of an earlier call, too: its session has read beyond its start.
            self.begun = self.begun.max(bytes.start + 1);
        }
        if !self.waits || bytes.start != self.call.start {
            return false;
        }
        // A question from before the last flush was about a part of the call.
        let state = match state {
            CallState::Arrived if bytes.end < self.call.end => CallState::Partly,
            CallState::Answered if bytes.end < self.call.end => CallState::Begun,
            state => state,
        };
        self.told = Some((state, before, ms));
        true
    }

    /// Returns the call that waits, with all that is known of it.
    pub fn call(&self, now: Micros) -> Option<Call> {
        if !self.waits {
            return None;
        }
        let (state, before, ms) = match self.told {
            Some((state, before, ms)) => (Some(state), before, ms),
            None => (None, 0, 0),
        };
        Some(Call { bytes: self.call.clone(), waited_us: now.since(self.flushed), state, before, ms })
    }

    /// Tells whether the last call has run, now that the stream is lost. `has_left`: some of its
    /// bytes may have left this process. `read`: the offset behind the last byte that the server's
    /// session has read, if the server has said so when it ended the stream.
    pub fn ran(&self, has_left: bool, read: Option<u64>) -> Ran {
        match read {
            _ if !has_left => Ran::No,
            Some(read) if read > self.call.start => Ran::Began,
            Some(_) => Ran::No,
            None if self.begun > self.call.start => Ran::Began,
            None => Ran::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Trip = Trip { smoothed: 100, cautious: 1_100 };

    fn is_ask(message: Option<Message>, bytes: Range<u64>) -> bool {
        message == Some(Message::Ask { stream: 4, start: bytes.start, end: bytes.end })
    }

    #[test]
    fn calls_of_their_usual_time_ask_nothing() {
        let mut asking = Asking::default();
        let mut now = Micros(0);
        for call in 1..=50_u64 {
            asking.on_flush(now, call * 10, TRIP);
            if call > 20 {
                // Ten milliseconds each, and so much is known by now.
                assert!(asking.timeout().unwrap() > now.after(10_100), "{asking:?}");
            }
            now = now.after(10_100);
            if call > 20 {
                assert_eq!(asking.ask(now, 4), None);
            }
            asking.on_bytes(now, TRIP);
            assert_eq!(asking.timeout(), None);
        }
        asking.on_flush(now, 510, TRIP);
        let late = asking.timeout().unwrap();
        assert!(late < now.after(14_000), "{late} {now}");
        assert!(is_ask(asking.ask(late, 4), 500..510));
    }

    #[test]
    fn questions_come_after_twice_the_time() {
        let mut asking = Asking::default();
        asking.on_flush(Micros(0), 10, TRIP);
        assert_eq!(asking.timeout(), Some(Micros(INTERVAL_MIN)));
        assert_eq!(asking.ask(Micros(1_999), 4), None);
        let mut times = Vec::new();
        for _ in 0..14 {
            let now = asking.timeout().unwrap();
            assert!(is_ask(asking.ask(now, 4), 0..10));
            times.push(now.0);
        }
        assert_eq!(times[..4], [2_000, 6_000, 14_000, 30_000]);
        assert_eq!(times[13] - times[12], INTERVAL_MAX);
    }

    #[test]
    fn states_are_those_of_the_call_that_waits() {
        let mut asking = Asking::default();
        assert_eq!(asking.call(Micros(0)), None);
        asking.on_flush(Micros(0), 10, TRIP);
        let known = |asking: &Asking| {
            asking.call(Micros(9)).map(|call| (call.bytes, call.state, call.before, call.ms))
        };
        assert_eq!(known(&asking), Some((0..10, None, 0, 0)));
        assert!(asking.on_state(0..10, CallState::Arrived, 3, 0));
        assert_eq!(known(&asking), Some((0..10, Some(CallState::Arrived), 3, 0)));
        asking.on_bytes(Micros(5), TRIP);
        asking.on_flush(Micros(6), 10, TRIP);
        assert_eq!(known(&asking), None);
        asking.on_flush(Micros(6), 25, TRIP);
        assert!(!asking.on_state(0..10, CallState::Begun, 0, 1));
        assert_eq!(known(&asking), Some((10..25, None, 0, 0)));
        // More before the answer belongs to the same call.
        asking.on_flush(Micros(7), 30, TRIP);
        assert_eq!(asking.call(Micros(9)).unwrap().waited_us, 3);
        assert_eq!(known(&asking), Some((10..30, None, 0, 0)));
        // An answer about its first part says so much of the whole.
        assert!(asking.on_state(10..25, CallState::Arrived, 2, 0));
        assert_eq!(known(&asking), Some((10..30, Some(CallState::Partly), 2, 0)));
        assert!(asking.on_state(10..25, CallState::Answered, 0, 1));
        assert_eq!(known(&asking), Some((10..30, Some(CallState::Begun), 0, 1)));
        assert!(asking.on_state(10..30, CallState::Answered, 0, 1));
        assert_eq!(known(&asking), Some((10..30, Some(CallState::Answered), 0, 1)));
    }

    #[test]
    fn lost_calls_tell_whether_they_ran() {
        let mut asking = Asking::default();
        asking.on_flush(Micros(0), 10, TRIP);
        assert_eq!((asking.ran(false, None), asking.ran(true, None)), (Ran::No, Ran::Unknown));
        assert_eq!((asking.ran(true, Some(0)), asking.ran(true, Some(1))), (Ran::No, Ran::Began));
        asking.on_state(0..10, CallState::Arrived, 0, 0);
        assert_eq!(asking.ran(true, None), Ran::Unknown);
        asking.on_state(0..10, CallState::Begun, 0, 0);
        assert_eq!(asking.ran(true, None), Ran::Began);
        // That says nothing of the next call.
        asking.on_bytes(Micros(1), TRIP);
        asking.on_flush(Micros(2), 20, TRIP);
        assert_eq!((asking.ran(true, None), asking.ran(true, Some(10))), (Ran::Unknown, Ran::No));
        // Nor does an answer about bytes that were never written.
        for start in [20, 21, u64::MAX] {
            assert!(!asking.on_state(start..u64::MAX, CallState::Begun, 0, 0));
            assert_eq!(asking.ran(true, None), Ran::Unknown);
        }
        asking.on_state(10..20, CallState::Answered, 0, 0);
        assert_eq!(asking.ran(true, None), Ran::Began);
    }
}
