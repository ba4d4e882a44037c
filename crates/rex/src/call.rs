//! [`CallState`] and [`Ran`]: the state of a call, and its fate if it was lost.

use std::fmt;
use std::ops::Range;

/// The state of a call, as the server tells it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallState {
    /// Nothing of it has arrived.
    Unknown,
    /// A part of it has arrived.
    Partly,
    /// All of it has arrived, and its session has not begun to read it.
    Arrived,
    /// Its session has read some of it.
    Begun,
    /// Its session has written behind it.
    Answered,
}

impl CallState {
    /// All states with their numbers in STATE, their names in metrics, and their meanings.
    pub const ALL: [(CallState, u8, &str, &str); 5] = [
        (CallState::Unknown, 1, "unknown", "nothing of it has arrived"),
        (CallState::Partly, 2, "partly", "a part of it has arrived"),
        (CallState::Arrived, 3, "arrived", "all of it has arrived; `before` bytes are read first"),
        (CallState::Begun, 4, "begun", "its session has read some of it, for the first time `ms` ago"),
        (CallState::Answered, 5, "answered", "its session has read all of it, and written then"),
    ];

    /// Returns its number in STATE.
    pub fn number(self) -> u8 {
        CallState::ALL.iter().find(|row| row.0 == self).map_or(1, |row| row.1)
    }

    /// Returns the state with a number.
    pub fn of(number: u8) -> Option<CallState> {
        CallState::ALL.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        CallState::ALL.iter().find(|row| row.0 == self).map_or("unknown", |row| row.2)
    }
}

/// A call without an answer, as its client knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its bytes, as offsets in the stream to the server.
    pub bytes: Range<u64>,
    /// The microseconds since it was flushed.
    pub waited_us: u64,
    /// Its state, as the server has told it last; `None` if it has told none.
    pub state: Option<CallState>,
    /// With [`CallState::Arrived`]: the bytes before it that its session had not read.
    pub before: u32,
    /// With [`CallState::Begun`]: the milliseconds since its session began to read it, at the time
    /// of the answer.
    pub ms: u32,
}

/// The fate of a call that was lost: run or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ran {
    /// Its session never began to read it, and never will.
    No,
    /// Nobody can tell.
    Unknown,
    /// Its session has begun to read it.
    Began,
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ran::No => "the last batch did not run",
            Ran::Unknown => "whether the last batch ran is not known",
            Ran::Began => "the last batch has begun to run",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_numbers() {
        for (state, number, name, _) in CallState::ALL {
            assert_eq!((CallState::of(number), state.number(), state.name()), (Some(state), number, name));
        }
        assert_eq!((CallState::of(0), CallState::of(6)), (None, None));
    }
}
