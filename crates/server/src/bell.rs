//! The bell of a session, on which its thread rests during a pause.
//!
//! A pause is that of a `wait`, or that before a batch is run again. The thread sleeps on a
//! condition variable, so a session that rests takes no time of a processor.
//!
//! | event | rung by | [`Bell::rest`] returns |
//! | --- | --- | --- |
//! | others have changed an object read | a commit, as the session's waker | [`Rested::Rung`] |
//! | the client has sent its last byte | the monitor of streams | [`Rested::SentLast`] |
//! | the server stops | the table of connections | [`Rested::Stopped`] |

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_repository::Watcher;
use bifrost_transport::{HangUp, Stream};
use parking_lot::{Condvar, Mutex};

/// The bell of a session.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    events: Mutex<Events>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Events {
    rung: bool,
    sent_last: bool,
    stopped: bool,
}

/// The reason why a rest is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rested {
    /// The bell was rung, or the time is over.
    Rung,
    /// The client sends nothing more; returned once.
    SentLast,
    /// The server stops.
    Stopped,
}

impl Bell {
    /// Sleeps for some time, or until an event. Events from before end it at once.
    pub(crate) fn rest(&self, time: Duration) -> Rested {
        let until = Instant::now().checked_add(time);
        let mut events = self.events.lock();
        loop {
            if events.stopped {
                return Rested::Stopped;
            }
            if std::mem::take(&mut events.sent_last) {
                return Rested::SentLast;
            }
            if std::mem::take(&mut events.rung) {
                return Rested::Rung;
            }
            let timed_out = match until {
                Some(until) => self.changed.wait_until(&mut events, until).timed_out(),
                None => {
                    self.changed.wait(&mut events);
                    false
                }
            };
            if timed_out && !(events.stopped || events.sent_last) {
                events.rung = false;
                return Rested::Rung;
            }
        }
    }

    /// Ends all rests: the server stops.
    pub(crate) fn stop(&self) {
        self.ring(|events| events.stopped = true);
    }

    /// Rings the bell when the client has sent its last byte, until the result is dropped.
    ///
    /// # Errors
    /// The system has no means for it.
    pub(crate) fn watch(self: &Arc<Bell>, stream: &Stream) -> io::Result<HangUp> {
        let bell = self.clone();
        stream.on_sent_last(move || bell.ring(|events| events.sent_last = true))
    }

    fn ring(&self, set: impl FnOnce(&mut Events)) {
        set(&mut self.events.lock());
        self.changed.notify_one();
    }
}

impl Watcher for Bell {
    fn changed(&self) {
        self.ring(|events| events.rung = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn events_from_before_a_rest_end_it() {
        let bell = Bell::default();
        bell.changed();
        assert_eq!(bell.rest(LONG), Rested::Rung);
        assert_eq!(bell.rest(Duration::from_millis(1)), Rested::Rung, "its time is over");
        bell.changed();
        bell.ring(|events| events.sent_last = true);
        assert_eq!((bell.rest(LONG), bell.rest(LONG)), (Rested::SentLast, Rested::Rung));
        bell.changed();
        bell.stop();
        assert_eq!((bell.rest(LONG), bell.rest(LONG)), (Rested::Stopped, Rested::Stopped));
    }

    #[test]
    fn a_peer_that_closes_its_half_or_dies_rings_the_bell() {
        let streams = || [Stream::pair().unwrap(), Stream::shm_pair(4096, Duration::ZERO).unwrap()];
        for (server, client) in streams() {
            let bell = Arc::new(Bell::default());
            let _watch = bell.watch(&server).unwrap();
            assert_eq!(bell.rest(Duration::from_millis(5)), Rested::Rung);
            drop(client);
            assert_eq!(bell.rest(LONG), Rested::SentLast);
        }
    }
}
