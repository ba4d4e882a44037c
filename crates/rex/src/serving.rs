//! [`Serving`]: a stream of a server, of whose calls the client may ask.

use std::collections::VecDeque;

use crate::call::CallState;
use crate::message::Message;
use crate::time::Micros;

/// Reads whose times are remembered.
const READS_MAX: usize = 8;

/// The progress of a session with the bytes of its client, as offsets in the stream.
#[derive(Debug, Default)]
pub struct Serving {
    /// Behind the last byte that has arrived without a hole before it.
    arrived: u64,
    /// Behind the last byte that the session has read.
    read: u64,
    /// The last reads: the offset behind each, and its time.
    reads: VecDeque<(u64, Micros)>,
    /// The offset up to which the session had read when it wrote last.
    written_at: u64,
}

impl Serving {
    /// Notes bytes that have arrived.
    #[inline]
    pub fn on_arrived(&mut self, bytes: usize) {
        self.arrived += bytes as u64;
    }

    /// Notes bytes that the session has read.
    #[inline]
    pub fn on_read(&mut self, now: Micros, bytes: usize) {
        self.read += bytes as u64;
        if self.reads.len() == READS_MAX {
            self.reads.pop_front();
        }
        self.reads.push_back((self.read, now));
    }

    /// Notes that the session has written.
    #[inline]
    pub fn on_written(&mut self) {
        self.written_at = self.read;
    }

    /// Returns the offset behind the last byte that the session has read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Answers a question about the call with the bytes from `start` to `end`.
    pub fn answer(&self, now: Micros, stream: u64, start: u64, end: u64) -> Message {
        let state = if self.written_at >= end {
            CallState::Answered
        } else if self.read > start {
            CallState::Begun
        } else if self.arrived >= end {
            CallState::Arrived
        } else if self.arrived > start {
            CallState::Partly
        } else {
            CallState::Unknown
        };
        let before = u32::try_from(start.saturating_sub(self.read)).unwrap_or(u32::MAX);
        // The first read that went beyond the start; an older one is forgotten, and then the oldest
        // that is known was later.
        let begun = self.reads.iter().find(|(behind, _)| *behind > start);
        let ms = begun.map_or(0, |(_, at)| now.since(*at) / 1000);
        Message::State { stream, start, end, state, before, ms: u32::try_from(ms).unwrap_or(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_through_their_states() {
        let mut serving = Serving::default();
        let ask = |serving: &Serving, at: u64| match serving.answer(Micros(at), 0, 10, 20) {
            Message::State { state, before, ms, .. } => (state, before, ms),
            Message::Ask { .. } => unreachable!(),
        };
        assert_eq!(ask(&serving, 0), (CallState::Unknown, 10, 0));
        serving.on_arrived(10);
        assert_eq!(ask(&serving, 0).0, CallState::Unknown);
        serving.on_arrived(1);
        assert_eq!(ask(&serving, 0), (CallState::Partly, 10, 0));
        serving.on_arrived(9);
        serving.on_read(Micros(0), 4);
        assert_eq!(ask(&serving, 5_000), (CallState::Arrived, 6, 0));
        // It has answered the call before, and that is not this one.
        serving.on_read(Micros(1_000), 6);
        serving.on_written();
        assert_eq!(ask(&serving, 5_000), (CallState::Arrived, 0, 0));
        serving.on_read(Micros(2_000), 3);
        assert_eq!(ask(&serving, 9_000), (CallState::Begun, 0, 7));
        serving.on_written();
        assert_eq!(ask(&serving, 9_000).0, CallState::Begun);
        serving.on_read(Micros(3_000), 7);
        assert_eq!(ask(&serving, 9_000), (CallState::Begun, 0, 7));
        serving.on_written();
        assert_eq!(ask(&serving, 9_000).0, CallState::Answered);
        // Of long calls the first read is forgotten; the time is then shorter than it was.
        (0..20).for_each(|at| serving.on_read(Micros(4_000 + at), 1));
        assert_eq!(ask(&serving, 14_000), (CallState::Answered, 0, 9));
    }
}
