//! The time at which a node that rests is to look at its waits
//! ([`Wait::IdleFor`](bifrost_actors::Wait)).
//!
//! Time is counted in ticks, of which a thread of the run makes one every two milliseconds: a node
//! that goes to rest asks no clock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The length of a tick.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// The ticks since the run began.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU32);

impl Ticks {
    /// One more tick; gives its number.
    pub(crate) fn tick(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// The tick at which a node is to look if it rests still, or 0.
#[derive(Debug, Default)]
pub(crate) struct LookAt(AtomicU32);

impl LookAt {
    /// Sets the tick that comes after a time.
    pub(crate) fn set(&self, ticks: &Ticks, time: Duration) {
        let after = (time.as_millis() as u64).div_ceil(TICK.as_millis() as u64) as u32;
        let at = ticks.0.load(Ordering::Relaxed).wrapping_add(after).max(1);
        self.0.store(at, Ordering::Relaxed);
    }

    /// The node rests no longer.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// True if the node is to look at this tick: true once.
    pub(crate) fn is_due(&self, tick: u32) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at != 0 && tick.wrapping_sub(at) as i32 >= 0 && self.0.swap(0, Ordering::Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_rests_looks_once_when_it_is_time() {
        let (ticks, look_at) = (Ticks::default(), LookAt::default());
        assert!(!look_at.is_due(ticks.tick()));
        look_at.set(&ticks, 3 * TICK);
        let due: Vec<bool> = (0..5).map(|_| look_at.is_due(ticks.tick())).collect();
        assert_eq!(due, [false, false, true, false, false]);
        look_at.set(&ticks, TICK);
        look_at.clear();
        assert!(!look_at.is_due(ticks.tick()));
    }
}
