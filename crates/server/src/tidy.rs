//! [`Tidy`]: gives memory back to the system when many sessions have gone, or have let go of much.
//!
//! The allocator keeps what was freed for the next sessions. That is right for a few, and too much
//! after thousands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_heap::return_free_memory;
use bifrost_workers::{Events, Next, Work, blocking};

use crate::memory::Memory;

/// The rest between the first session that goes and the look at the memory: more may go.
const REST: Duration = Duration::from_millis(300);
/// The least time between two looks, each of which takes milliseconds.
const PAUSE: Duration = Duration::from_secs(1);

/// The job that gives memory back, a short time after it was rung.
#[derive(Debug)]
pub(crate) struct Tidy {
    memory: Arc<Memory>,
    due: Option<Instant>,
    last: Option<Instant>,
}

impl Tidy {
    pub(crate) fn new(memory: Arc<Memory>) -> Tidy {
        Tidy { memory, due: None, last: None }
    }
}

impl Work for Tidy {
    fn run(&mut self, events: Events) -> Next {
        let now = Instant::now();
        if events.has(Events::BELL) {
            let earliest = self.last.map_or(now, |last| last + PAUSE);
            self.due.get_or_insert_with(|| earliest.max(now + REST));
        }
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            self.memory.forget_gone();
            blocking(return_free_memory);
            self.last = Some(Instant::now());
        }
        Next::Rest(self.due)
    }
}
