//! [`Deadline`]: the time until which a read or write may wait.

use std::time::{Duration, Instant};

/// The time until which a read or write may wait.
///
/// [`Deadline::Within`] counts from the moment the wait really begins. So a call that finds its
/// data at once does not read the clock: on a fast path that costs more than the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deadline {
    /// As long as it takes.
    #[default]
    Never,
    /// Until then.
    At(Instant),
    /// For so long.
    Within(Duration),
}

impl Deadline {
    /// Returns the moment, fixed at the first call.
    pub(crate) fn instant(&mut self) -> Option<Instant> {
        if let Deadline::Within(time) = *self {
            // A time beyond the range of the clock is as good as none.
            *self = Instant::now().checked_add(time).map_or(Deadline::Never, Deadline::At);
        }
        match *self {
            Deadline::At(instant) => Some(instant),
            _ => None,
        }
    }

    /// True if it has passed.
    pub(crate) fn is_past(&mut self) -> bool {
        self.instant().is_some_and(|instant| instant <= Instant::now())
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Deadline {
        Deadline::At(instant)
    }
}

impl From<Duration> for Deadline {
    fn from(time: Duration) -> Deadline {
        Deadline::Within(time)
    }
}

impl From<Option<Instant>> for Deadline {
    fn from(instant: Option<Instant>) -> Deadline {
        instant.map_or(Deadline::Never, Deadline::At)
    }
}
