//! [`Truth`]: a record of a world outside its processes, which judges them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use bifrost_rex::{Call, CallState};

use super::tasks::SOON;

/// A stream of a world: the name of its connection, and its number.
pub(super) type StreamKey = (u64, u64);

/// The progress of a server's session.
#[derive(Default)]
pub(super) struct Progress {
    /// The bytes that have arrived in the inbox of its stream.
    pub arrived: u64,
    /// The reads of the session: the offset behind each, and its time.
    reads: Vec<(u64, u64)>,
    /// The offset up to which it had read when it wrote last.
    written_at: u64,
    /// The bytes of its answers.
    pub written: u64,
    /// True once the server's process is gone, or has ended the connection.
    is_gone: bool,
}

impl Progress {
    fn read(&self) -> u64 {
        self.reads.last().map_or(0, |(read, _)| *read)
    }
}

/// The record of a world.
pub(super) struct Truth {
    pub now: u64,
    /// The end of the last fault.
    pub calm: u64,
    /// The time from which on packets come through. A fault is a long round trip for QUIC, and it
    /// repeats packets after some of them.
    pub settled: u64,
    /// The time after it in which calls are answered.
    pub soon: u64,
    hash: blake3::Hasher,
    pub events: u64,
    /// The first thing that should not have been.
    pub failure: Option<String>,
    numbers: HashMap<u64, u32>,
    attempts: HashSet<u64>,
    forbidden: HashSet<u64>,
    streams: HashMap<StreamKey, Progress>,
    /// Connections that are lost for the server.
    gone: HashSet<u64>,
    /// Counts of the events that the worlds must have.
    pub seen: Seen,
}

/// Counts of what worlds have tried.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Seen {
    pub answered: u64,
    pub no: u64,
    pub began: u64,
    pub unknown: u64,
    pub packets: u64,
    pub states: u64,
    pub resets: u64,
    pub links: u64,
    /// The longest time from the last fault, or the flush if it was later, to the end of a call.
    pub slowest: u64,
    /// The same of a call that is lost.
    pub lost_after: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Seen) {
        self.answered += other.answered;
        self.no += other.no;
        self.began += other.began;
        self.unknown += other.unknown;
        self.packets += other.packets;
        self.states += other.states;
        self.resets += other.resets;
        self.links += other.links;
        self.slowest = self.slowest.max(other.slowest);
        self.lost_after = self.lost_after.max(other.lost_after);
    }
}

/// The time in which a state must have been told, where nothing is lost: two questions and more.
const STATE_TOLD: u64 = 10_000_000;

impl Truth {
    pub(super) fn new() -> Truth {
        Truth {
            now: 0,
            calm: 0,
            settled: 0,
            soon: SOON,
            hash: blake3::Hasher::new(),
            events: 0,
            failure: None,
            numbers: HashMap::new(),
            attempts: HashSet::new(),
            forbidden: HashSet::new(),
            streams: HashMap::new(),
            gone: HashSet::new(),
            seen: Seen::default(),
        }
    }

    pub(super) fn fail(&mut self, what: impl FnOnce() -> String) {
        if self.failure.is_none() {
            self.failure = Some(format!("at {} us: {}", self.now, what()));
        }
    }

    /// Notes an event in the hash of the log.
    pub(super) fn note(&mut self, kind: u8, of: u64, bytes: &[u8]) {
        self.events += 1;
        self.hash.update(&[kind]);
        self.hash.update(&self.now.to_le_bytes());
        self.hash.update(&of.to_le_bytes());
        self.hash.update(bytes);
    }

    pub(super) fn hash(&self) -> blake3::Hash {
        self.hash.finalize()
    }

    pub(super) fn stream(&mut self, key: StreamKey) -> &mut Progress {
        self.streams.entry(key).or_default()
    }

    /// Notes the bytes that have arrived and were not read.
    pub(super) fn arrived(&mut self, key: StreamKey, inbox: usize) {
        let progress = self.stream(key);
        progress.arrived = progress.arrived.max(progress.read() + inbox as u64);
    }

    pub(super) fn read(&mut self, key: StreamKey, count: usize) {
        let now = self.now;
        let progress = self.stream(key);
        let read = progress.read() + count as u64;
        progress.reads.push((read, now));
        progress.arrived = progress.arrived.max(read);
    }

    pub(super) fn wrote(&mut self, key: StreamKey, count: usize) {
        let progress = self.stream(key);
        progress.written_at = progress.read();
        progress.written += count as u64;
    }

    /// Notes that the connections of the server are gone.
    pub(super) fn server_gone(&mut self) {
        self.streams.values_mut().for_each(|progress| progress.is_gone = true);
    }

    /// Notes that a connection is lost for the server.
    pub(super) fn gone(&mut self, name: u64) {
        self.gone.insert(name);
    }

    /// Notes that a session executes a call.
    pub(super) fn execute(&mut self, number: u64, attempt: u64) {
        self.note(b'x', number, &attempt.to_le_bytes());
        let count = self.numbers.entry(number).or_default();
        *count += 1;
        let count = *count;
        if count > 1 {
            self.fail(|| format!("call {number} is executed {count} times"));
        }
        if !self.attempts.insert(attempt) || self.forbidden.contains(&attempt) {
            self.fail(|| format!("call {number} is executed after its client learned that it was not"));
        }
    }

    /// Judges the first byte of a reply.
    pub(super) fn replied(&mut self, number: u64, attempt: u64) {
        if self.numbers.get(&number) != Some(&1) || !self.attempts.contains(&attempt) {
            self.fail(|| format!("call {number} has a reply, and was not executed"));
        }
    }

    /// Judges that a call did not run, and never will.
    pub(super) fn never_ran(&mut self, number: u64, attempt: u64) {
        self.forbidden.insert(attempt);
        if self.attempts.contains(&attempt) {
            self.fail(|| format!("call {number} was executed, and its client learns that it was not"));
        }
    }

    /// Judges that the session has not begun to read a call.
    pub(super) fn not_begun(&mut self, key: StreamKey, range: &Range<u64>) {
        let read = self.stream(key).read();
        if read > range.start {
            self.fail(|| format!("the call at {range:?} has not begun, its client learns; read are {read}"));
        }
    }

    /// Judges that the session has begun to read a call.
    pub(super) fn began(&mut self, key: StreamKey, range: &Range<u64>) {
        let read = self.stream(key).read();
        if read <= range.start {
            self.fail(|| format!("the call at {range:?} has begun, its client learns; read are {read}"));
        }
    }

    /// Judges the state of a call as its client knows it.
    pub(super) fn known(&mut self, key: StreamKey, range: &Range<u64>, call: &Call, flushed: u64) {
        let (now, settled) = (self.now, self.settled);
        if call.bytes != *range {
            self.fail(|| format!("the call at {range:?} is taken for that at {:?}", call.bytes));
        }
        let is_lost = self.gone.contains(&key.0);
        let progress = self.stream(key);
        let (arrived, read, written_at) = (progress.arrived, progress.read(), progress.written_at);
        let is_true = match call.state {
            None | Some(CallState::Unknown) => true,
            Some(CallState::Partly) => arrived > range.start,
            Some(CallState::Arrived) => {
                arrived >= range.end && u64::from(call.before) >= range.start.saturating_sub(read)
            }
            Some(CallState::Begun) => read > range.start,
            Some(CallState::Answered) => written_at >= range.end,
        };
        let is_gone = is_lost || progress.is_gone;
        let begun = progress.reads.iter().find(|(behind, _)| *behind > range.start).map(|(_, at)| *at);
        self.seen.states += u64::from(call.state.is_some());
        if !is_true {
            let state = call.state;
            self.fail(|| {
                format!("the call at {range:?} is said to be {state:?}: {arrived} arrived, {read} read, written after {written_at}")
            });
        }
        let told = STATE_TOLD.max(self.soon);
        let late = begun.is_some_and(|at| now > at.max(settled).max(flushed) + told);
        if late && !is_gone && call.state.is_none_or(|state| state < CallState::Begun) {
            let state = call.state;
            self.fail(|| format!("the call at {range:?} has begun long ago, and is still {state:?}"));
        }
    }
}
