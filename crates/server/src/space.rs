//! The objects that all sessions of a server share.
//!
//! One context, run by one session at a time: each takes the lock while it works off what has arrived. So
//! calls of two sessions never interleave within what arrived together, and objects need no locks of their
//! own.
//!
//! A watch ends what runs too long. It looks often while something runs, and seldom when nothing does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_engine::Engine;
use bifrost_runtime::cx::{Kill, Output, Poll};
use bifrost_runtime::{Cx, Limits};
use parking_lot::{Mutex, MutexGuard};

/// The objects of a server, and the code that works on them.
#[derive(Debug)]
pub struct Space {
    engine: Arc<Engine>,
    cx: Mutex<Box<Cx>>,
    poll: Arc<Poll>,
}

/// How often the watch looks while something runs, and while nothing does.
const LOOK_BUSY: Duration = Duration::from_millis(5);
const LOOK_IDLE: Duration = Duration::from_millis(100);

impl Space {
    /// An empty space for a program.
    ///
    /// # Errors
    /// When the system has no random number for the seed.
    pub fn new(engine: Arc<Engine>, limits: Limits) -> std::io::Result<Arc<Space>> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        let cx = Cx::new(engine.image().clone(), limits, u64::from_le_bytes(seed), now_ms);
        let poll = cx.poll().clone();
        Ok(Arc::new(Space { engine, cx: Mutex::new(cx), poll }))
    }

    /// The program.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The context, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Box<Cx>> {
        self.cx.lock()
    }

    /// Sends what programs print to a buffer instead of the standard output.
    pub fn capture_output(&self) {
        self.lock().set_output(Output::Buffer(String::new()));
    }

    /// Ends what runs now.
    pub fn interrupt(&self, why: Kill) {
        self.poll.kill(self.poll.epoch(), why);
    }

    /// Starts the watch: what runs longer than `limit` is ended. It goes when the space does.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn watch(self: &Arc<Space>, limit: Duration) -> std::io::Result<()> {
        let poll = self.poll.clone();
        let name = "bifrost-watch".to_owned();
        std::thread::Builder::new().name(name).spawn(move || {
            let mut seen = (poll.epoch(), Instant::now());
            while !poll.retired() {
                let epoch = poll.epoch();
                if epoch != seen.0 {
                    seen = (epoch, Instant::now());
                } else if epoch % 2 == 1 && seen.1.elapsed() > limit {
                    poll.kill(epoch, Kill::Time);
                }
                let busy = epoch % 2 == 1 || seen.1.elapsed() < LOOK_IDLE;
                std::thread::sleep(if busy {
                    LOOK_BUSY.min(limit / 2 + Duration::from_millis(1))
                } else {
                    LOOK_IDLE
                });
            }
        })?;
        Ok(())
    }
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Runs `work` on a stack with room for running code.
///
/// # Panics
/// As `work` does.
pub fn on_stack<T: Send>(stack_bytes: usize, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        // What the runtime and the system need besides the running code.
        let stack = stack_bytes + STACK_EXTRA;
        let thread = std::thread::Builder::new().stack_size(stack).spawn_scoped(scope, work)?;
        match thread.join() {
            Ok(value) => Ok(value),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Stack besides that of running code, in bytes.
pub(crate) const STACK_EXTRA: usize = 8 << 20;
