//! The bound of bytes that wait for the nodes of a capsule.

use std::time::Duration;

use super::{INBOX_BYTES_MAX, STALL_MS_MAX};

/// The wait of a link for room, before it hands packets over. Time is that since the wait began.
#[derive(Debug)]
pub(crate) struct Intake {
    /// The fewest bytes that waited in this wait, and the time at which they were first so few.
    least: usize,
    since: Duration,
}

/// The answer of an [`Intake`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// The bytes may be handed over.
    Free,
    /// The link asks again after a while.
    Wait,
    /// The nodes here have taken nothing for [`STALL_MS_MAX`].
    Stalled,
}

impl Intake {
    /// Begins a wait.
    pub(crate) fn new() -> Intake {
        Intake { least: usize::MAX, since: Duration::ZERO }
    }

    /// Decides about so many bytes, while `waiting` bytes wait and the wait has lasted `elapsed`.
    pub(crate) fn ask(&mut self, waiting: usize, bytes: usize, elapsed: Duration) -> Room {
        // A message that is larger than all that may wait is let in alone.
        if waiting == 0 || waiting.saturating_add(bytes) <= INBOX_BYTES_MAX {
            return Room::Free;
        }
        if waiting < self.least {
            (self.least, self.since) = (waiting, elapsed);
        }
        match elapsed.saturating_sub(self.since) > Duration::from_millis(STALL_MS_MAX) {
            true => Room::Stalled,
            false => Room::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_waits_while_nodes_take_something() {
        let mut intake = Intake::new();
        let mut ask = |waiting, ms| intake.ask(waiting, 10, Duration::from_millis(ms));
        assert_eq!(ask(0, 0), Room::Free);
        assert_eq!(ask(INBOX_BYTES_MAX - 10, 0), Room::Free);
        assert_eq!(ask(INBOX_BYTES_MAX, 0), Room::Wait);
        assert_eq!(ask(INBOX_BYTES_MAX, STALL_MS_MAX), Room::Wait);
        assert_eq!(ask(INBOX_BYTES_MAX - 1, STALL_MS_MAX + 1), Room::Wait);
        // More bytes are no sign that some were taken.
        assert_eq!(ask(INBOX_BYTES_MAX, 2 * STALL_MS_MAX + 1), Room::Wait);
        assert_eq!(ask(INBOX_BYTES_MAX - 1, 2 * STALL_MS_MAX + 2), Room::Stalled);
    }

    #[test]
    fn a_message_larger_than_the_bound_is_let_in_alone() {
        let mut intake = Intake::new();
        assert_eq!(intake.ask(0, usize::MAX, Duration::ZERO), Room::Free);
        assert_eq!(intake.ask(1, usize::MAX, Duration::ZERO), Room::Wait);
    }
}
