//! Timers on a thread of their own, which sleeps until the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The act at the end of a timer. It must be short, and must not wait.
pub(crate) type Act = Box<dyn FnOnce() + Send>;

/// A timer that was set; the time in microseconds since the start, and a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Timer {
    at_us: u64,
    number: u64,
}

#[derive(Default)]
struct Inside {
    set: BTreeMap<Timer, Act>,
    numbers: u64,
    /// The thread was started.
    started: bool,
    over: bool,
}

/// The timers of a pool.
#[derive(Clone)]
pub(crate) struct Timers {
    start: Instant,
    inside: Arc<(Mutex<Inside>, Condvar)>,
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers").field("set", &self.inside.0.lock().set.len()).finish_non_exhaustive()
    }
}

impl Timers {
    pub(crate) fn new(start: Instant) -> Timers {
        Timers { start, inside: Arc::default() }
    }

    /// Returns the time in microseconds since the start.
    pub(crate) fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Sets a timer. Without a thread for it, or after the end, the act is dropped.
    pub(crate) fn set(&self, after: Duration, act: Act) -> Timer {
        let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        let mut inside = self.inside.0.lock();
        inside.numbers += 1;
        let timer = Timer { at_us: self.now_us().saturating_add(after), number: inside.numbers };
        if inside.over {
            return timer;
        }
        if !inside.started {
            let timers = self.clone();
            let thread = std::thread::Builder::new().name("tasks-clock".to_owned());
            inside.started = thread.spawn(move || timers.run()).is_ok();
        }
        inside.set.insert(timer, act);
        if inside.set.first_key_value().is_some_and(|(first, _)| *first == timer) {
            self.inside.1.notify_one();
        }
        timer
    }

    /// Takes a timer back. Returns true if its act has not begun, and will not.
    pub(crate) fn cancel(&self, timer: Timer) -> bool {
        self.inside.0.lock().set.remove(&timer).is_some()
    }

    /// Ends all timers.
    pub(crate) fn end(&self) {
        let mut inside = self.inside.0.lock();
        inside.over = true;
        let set = std::mem::take(&mut inside.set);
        drop(inside);
        drop(set);
        self.inside.1.notify_all();
    }

    fn run(&self) {
        let mut inside = self.inside.0.lock();
        while !inside.over {
            let now = self.now_us();
            match inside.set.first_entry() {
                Some(first) if first.key().at_us <= now => {
                    let act = first.remove();
                    drop(inside);
                    act();
                    inside = self.inside.0.lock();
                }
                Some(first) => {
                    let wait = Duration::from_micros(first.key().at_us - now);
                    self.inside.1.wait_for(&mut inside, wait);
                }
                None => self.inside.1.wait(&mut inside),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn timers_end_in_the_order_of_their_times_and_can_be_cancelled() {
        let timers = Timers::new(Instant::now());
        let (sender, receiver) = channel();
        let set = |ms, name: &'static str| {
            let sender = sender.clone();
            timers.set(Duration::from_millis(ms), Box::new(move || sender.send(name).unwrap_or_default()))
        };
        let (late, early, never) = (set(60, "late"), set(20, "early"), set(40, "never"));
        assert!(timers.cancel(never));
        assert!(!timers.cancel(never));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok("early"));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok("late"));
        assert!(!timers.cancel(early) && !timers.cancel(late));
        set(1_000_000, "after the end");
        timers.end();
        drop(sender);
        // The acts are dropped, and their senders with them.
        assert!(receiver.recv_timeout(Duration::from_secs(10)).is_err());
    }
}
