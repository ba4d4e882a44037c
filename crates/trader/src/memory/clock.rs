//! The time of a board: it never goes back, and sees gaps.

/// Milliseconds between two calls of `expire`, at most.
pub(crate) const TICK_MS: u64 = 1_000;

/// A clock that never goes back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The board's time at the last look.
    last: u64,
    /// The caller's time at the last look; nothing before the first.
    seen: Option<u64>,
}

impl Clock {
    /// Returns the board's time, and the milliseconds since the last look. If the caller's clock
    /// was set back, no time has passed.
    pub(crate) fn look(&mut self, now: u64) -> (u64, u64) {
        let gap = self.seen.map_or(0, |seen| now.saturating_sub(seen));
        if self.seen.is_none() {
            self.last = now;
        }
        self.seen = Some(now);
        self.last = self.last.saturating_add(gap);
        (self.last, gap)
    }

    /// Returns the caller's time of a time of the board.
    pub(crate) fn outside(&self, time: u64) -> u64 {
        self.seen.unwrap_or_default().saturating_add(time.saturating_sub(self.last))
    }

    /// Returns the caller's time at which a look is due.
    pub(crate) fn next_look(&self) -> u64 {
        self.seen.unwrap_or_default().saturating_add(TICK_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut clock = Clock::default();
        assert_eq!(clock.look(100), (100, 0));
        assert_eq!(clock.look(150), (150, 50));
        assert_eq!(clock.look(20), (150, 0), "set back");
        assert_eq!(clock.outside(180), 50);
        assert_eq!(clock.look(50), (180, 30));
        assert_eq!(clock.look(5_050), (5_180, 5_000));
        assert_eq!(clock.next_look(), 5_050 + TICK_MS);
        assert_eq!(clock.look(u64::MAX), (u64::MAX, u64::MAX - 5_050), "the end of all time");
    }
}
