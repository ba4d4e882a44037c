//! [`Pulse`]: calls a function in regular intervals, on a worker, as the sessions run.
//!
//! A server whose workers all hang has no pulse, and its supervisor can start it again.

use std::time::{Duration, Instant};

use bifrost_workers::{Events, Next, Work};

/// The job that calls a function in regular intervals.
pub(crate) struct Pulse<F> {
    pub every: Duration,
    pub beat: F,
}

impl<F: FnMut() + Send> Work for Pulse<F> {
    fn run(&mut self, _: Events) -> Next {
        (self.beat)();
        Next::Rest(Some(Instant::now() + self.every))
    }
}
