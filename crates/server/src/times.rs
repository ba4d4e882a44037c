//! [`Times`]: the times by which a client must have sent something.

use std::time::{Duration, Instant};

use bifrost_session::Limits;
use bifrost_wire::Limit;

/// The least progress of a client in a second, in bytes.
const PROGRESS_BYTES: u64 = 1024;

/// The times by which a client must have sent something. Bytes renew none of them: only whole
/// commands do.
pub(crate) struct Times {
    idle: Duration,
    /// As `idle`, in a transaction: at most that.
    transaction_idle: Duration,
    command: Duration,
    /// The time at which the client sent its last whole command, or was answered.
    pub since: Instant,
    /// The time at which the command began whose rest is missing.
    pub partial: Option<Instant>,
}

impl Times {
    /// The times of a session that begins now.
    pub fn new(limits: &Limits, command: Duration) -> Times {
        let idle = Duration::from_millis(limits.get(Limit::IdleMs));
        let transaction_idle = idle.min(Duration::from_millis(limits.get(Limit::TransactionIdleMs)));
        Times { idle, transaction_idle, command, since: Instant::now(), partial: None }
    }

    /// Returns the time at which the session ends, or its transaction is aborted, if no command
    /// comes. `unused` bytes begin one.
    #[inline]
    pub fn next(&self, in_transaction: bool, unused: usize) -> Instant {
        let idle = self.since + if in_transaction { self.transaction_idle } else { self.idle };
        match self.partial {
            None => idle,
            Some(partial) => idle.min(self.command_end(partial, unused)),
        }
    }

    // Out of line: else all of it is computed for each batch.
    #[cold]
    #[inline(never)]
    fn command_end(&self, partial: Instant, unused: usize) -> Instant {
        partial + self.command + Duration::from_millis(unused as u64 * 1000 / PROGRESS_BYTES)
    }

    /// True if the session ends now, since no command has come.
    #[cold]
    #[inline(never)]
    pub fn is_over(&self, unused: usize) -> bool {
        Instant::now() >= self.next(false, unused)
    }
}
