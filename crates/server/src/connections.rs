//! [`Connections`]: the table of a server's connections, and the bounds that each address has.
//!
//! A connection enters with [`Connections::enter`] and is a newcomer until its client has said a
//! `hello` that the server accepts. [`Place::open_session`] then gives it the place of a session.
//! So a client that says nothing takes no place from one that does.
//!
//! Each address has a rate of new connections. One that has shown a wrong token waits for its turn
//! before the next token is looked at, whether that is right or not: else the time of the answer
//! would tell.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bifrost_capsule::Space;
use bifrost_capsule::newcomers::{Bounds, Full, Newcomers, Origin};
use bifrost_runtime::HeapStats;
use bifrost_runtime::cx::Kill;
use bifrost_transport::{Stream, StreamStopper};
use bifrost_workers::Handle;
use parking_lot::{Condvar, Mutex};

/// The time that a stop waits for connections to end.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// The time that sessions have to tell their clients.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);
/// An address may open as many connections at once as in so many seconds.
const BURST_SECONDS: f64 = 5.0;
/// A wrong token counts half as much after each such time.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);
/// Wrong tokens double the pause of an address so often at most.
const DOUBLINGS_MAX: u32 = 3;
/// Sessions that are worth looking at the memory when half of them have gone.
const MANY_SESSIONS: usize = 64;
/// Objects that are worth looking at the memory when silent sessions have let go of them.
const MANY_OBJECTS: usize = 10_000;
/// Addresses that are remembered. With more, those that were seen longest ago are forgotten.
const ADDRESSES_MAX: usize = 4096;

/// The bounds of a server's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub sessions: usize,
    pub newcomers: Bounds,
    /// New connections of one address in a second.
    pub per_second: u32,
    /// New TLS connections of one address in a second.
    pub handshakes_per_second: u32,
    /// The pause of an address after its first wrong token.
    pub wrong_token: Duration,
}

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Limits,
    open: Mutex<Open>,
    changed: Condvar,
    /// Sessions that were opened.
    sessions: AtomicU64,
    /// Connections that were refused before their `hello`.
    refused: AtomicU64,
    /// Objects that silent sessions have let go of.
    let_go: AtomicUsize,
}

#[derive(Debug)]
struct Open {
    newcomers: Newcomers,
    sessions: HashMap<u64, Means>,
    /// The most sessions since memory was given back, and the job that gives it back.
    peak: usize,
    tidy: Option<Handle>,
    addresses: HashMap<Origin, Visits>,
    stopping: bool,
    /// The figures of the heaps of sessions that have ended.
    past: HeapStats,
}

/// The means to end a session.
#[derive(Debug)]
struct Means {
    stopper: StreamStopper,
    /// The place where it runs.
    space: Weak<Space>,
}

/// The history of an address.
#[derive(Debug)]
struct Visits {
    /// The rate of its connections.
    connections: Rate,
    /// The rate of its TLS connections.
    handshakes: Rate,
    /// Wrong tokens that count, and since when.
    wrong: u32,
    forgiven: Instant,
    /// When its next token may be looked at.
    turn: Instant,
}

/// A rate of connections.
#[derive(Debug)]
struct Rate {
    /// Connections that may be opened now, and since when.
    allowance: f64,
    seen: Instant,
}

/// The place of a connection in the table, until dropped. Its job drops it last, when it has let
/// go of all else, the store above all: a server without places can open its store again.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    newcomer: u64,
    session: Option<u64>,
}

impl Connections {
    pub(crate) fn new(limits: Limits) -> Arc<Connections> {
        let open = Open {
            newcomers: Newcomers::new(limits.newcomers),
            sessions: HashMap::new(),
            peak: 0,
            tidy: None,
            addresses: HashMap::new(),
            stopping: false,
            past: HeapStats::default(),
        };
        Arc::new(Connections {
            limits,
            open: Mutex::new(open),
            changed: Condvar::new(),
            sessions: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            let_go: AtomicUsize::new(0),
        })
    }

    /// Enters a connection whose client has said nothing yet.
    ///
    /// # Errors
    /// The limit that keeps it out, in words.
    pub(crate) fn enter(self: &Arc<Connections>, stream: &Stream) -> Result<Place, String> {
        let entered = self.try_enter(stream, Instant::now());
        if entered.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let newcomer = entered?;
        Ok(Place { connections: self.clone(), newcomer, session: None })
    }

    fn try_enter(&self, stream: &Stream, now: Instant) -> Result<u64, String> {
        let Limits { newcomers: bounds, per_second, handshakes_per_second, .. } = self.limits;
        let Bounds { all, of_origin, handshakes } = bounds;
        let mut open = self.open.lock();
        let origin = Origin::of(stream);
        // Processes of this user have better means against the server than to connect often.
        if origin != Origin::Local && !open.visits(origin, now).connections.allows(per_second, now) {
            return Err(format!(
                "there are more than {per_second} new connections a second from this address \
                 (connections_per_second_max)"
            ));
        }
        // A handshake takes the time of hundreds of calls.
        if !stream.is_established() && !open.visits(origin, now).handshakes.allows(handshakes_per_second, now)
        {
            return Err(format!(
                "there are more than {handshakes_per_second} new TLS connections a second from this address \
                 (handshakes_per_second_max)"
            ));
        }
        open.newcomers.enter(stream).map_err(|full| match full {
            Full::OfOrigin => format!(
                "{of_origin} connections of this address have not sent `hello` (greetings_address_max)"
            ),
            Full::Handshakes => format!("{handshakes} TLS handshakes are under way (handshakes_max)"),
            Full::All => format!("{all} connections have not sent `hello` (greetings_max)"),
        })
    }

    /// Enters the job that gives memory back when many sessions have gone.
    pub(crate) fn set_tidy(&self, tidy: Handle) {
        self.open.lock().tidy = Some(tidy);
    }

    /// Has memory given back when silent sessions have let go of many objects.
    pub(crate) fn note_let_go(&self, objects: usize) {
        let before = self.let_go.fetch_add(objects, Ordering::Relaxed);
        if before / MANY_OBJECTS != before.wrapping_add(objects) / MANY_OBJECTS {
            self.open.lock().tidy.iter().for_each(Handle::ring);
        }
    }

    /// Open sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.open.lock().sessions.len()
    }

    /// Connections whose client has not said `hello`.
    pub(crate) fn newcomers(&self) -> usize {
        self.open.lock().newcomers.len()
    }

    /// Sessions that were opened.
    pub(crate) fn sessions_opened(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Connections that were refused before their `hello`.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The figures of the heaps of all sessions. Waits for the batches that run.
    pub(crate) fn heap_stats(&self) -> HeapStats {
        let (past, spaces) = {
            let open = self.open.lock();
            let spaces: Vec<Arc<Space>> =
                open.sessions.values().filter_map(|means| means.space.upgrade()).collect();
            (open.past, spaces)
        };
        spaces.iter().map(|space| space.heap_stats()).fold(past, |all, one| all.with(&one))
    }

    /// True if the server is shutting down.
    pub(crate) fn is_stopping(&self) -> bool {
        self.open.lock().stopping
    }

    /// Has all connections end: running batches are cancelled, clients are told. Returns how many
    /// sessions did not end in time.
    pub(crate) fn stop(&self) -> usize {
        let start = Instant::now();
        let mut open = self.open.lock();
        open.stopping = true;
        while !(open.sessions.is_empty() && open.newcomers.is_empty()) && start.elapsed() < STOP_WITHIN {
            let stoppers = open.sessions.values().map(|means| &means.stopper);
            for stopper in stoppers.chain(open.newcomers.stoppers()) {
                stopper.stop_reading();
                // A client that does not take the last word is not waited for.
                if start.elapsed() > FAREWELL_WITHIN {
                    stopper.stop();
                }
            }
            for means in open.sessions.values() {
                if let Some(space) = means.space.upgrade() {
                    space.interrupt(Kill::Stop);
                }
            }
            self.changed.wait_for(&mut open, Duration::from_millis(50));
        }
        open.sessions.len()
    }
}

impl Open {
    /// Has memory given back when half of many sessions have gone.
    fn note_gone(&mut self) {
        let now = self.sessions.len();
        if self.peak < MANY_SESSIONS || 2 * now > self.peak {
            return;
        }
        self.peak = now;
        self.sessions.shrink_to_fit();
        self.tidy.iter().for_each(Handle::ring);
    }

    fn visits(&mut self, origin: Origin, now: Instant) -> &mut Visits {
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&origin) {
            let oldest =
                self.addresses.iter().min_by_key(|(_, visits)| visits.connections.seen.max(visits.turn));
            if let Some(oldest) = oldest.map(|(origin, _)| *origin) {
                self.addresses.remove(&oldest);
            }
        }
        self.addresses.entry(origin).or_insert_with(|| Visits::new(now))
    }
}

impl Rate {
    fn new(now: Instant) -> Rate {
        Rate { allowance: f64::INFINITY, seen: now }
    }

    /// True if one more connection keeps to the rate.
    fn allows(&mut self, per_second: u32, now: Instant) -> bool {
        let rate = f64::from(per_second);
        let grown = self.allowance + now.duration_since(self.seen).as_secs_f64() * rate;
        (self.allowance, self.seen) = (grown.min(rate * BURST_SECONDS), now);
        let may = self.allowance >= 1.0;
        self.allowance -= f64::from(u8::from(may));
        may
    }
}

impl Visits {
    fn new(now: Instant) -> Visits {
        let (connections, handshakes) = (Rate::new(now), Rate::new(now));
        Visits { connections, handshakes, wrong: 0, forgiven: now, turn: now }
    }

    /// When a token that has come now may be looked at. The next one comes behind it.
    fn take_turn(&mut self, pause: Duration, now: Instant) -> Instant {
        while self.wrong > 0 && now.duration_since(self.forgiven) > FORGIVEN_AFTER {
            self.wrong /= 2;
            self.forgiven += FORGIVEN_AFTER;
        }
        let turn = self.turn.max(now);
        if self.wrong > 0 {
            self.turn = turn + pause * (1 << (self.wrong - 1).min(DOUBLINGS_MAX));
        }
        turn
    }

    fn count_wrong(&mut self, pause: Duration, now: Instant) {
        if self.wrong == 0 {
            self.forgiven = now;
            self.turn = self.turn.max(now + pause);
        }
        self.wrong = self.wrong.saturating_add(1);
    }
}

impl Place {
    /// Notes that the client has said `hello`. False if the connection was told to make way before.
    pub(crate) fn hear(&self) -> bool {
        self.connections.open.lock().newcomers.hear(self.newcomer)
    }

    /// Returns the time at which a token that has come from this origin may be looked at.
    ///
    /// # Errors
    /// When that is after the deadline: how long it would be.
    pub(crate) fn turn_of(&self, origin: Origin, deadline: Instant) -> Result<Instant, Duration> {
        let now = Instant::now();
        let mut open = self.connections.open.lock();
        let visits = open.visits(origin, now);
        if visits.turn > deadline {
            return Err(visits.turn.duration_since(now));
        }
        Ok(visits.take_turn(self.connections.limits.wrong_token, now))
    }

    /// Counts a wrong token against its origin.
    pub(crate) fn count_wrong_token(&self, origin: Origin) {
        let now = Instant::now();
        let pause = self.connections.limits.wrong_token;
        self.connections.open.lock().visits(origin, now).count_wrong(pause, now);
    }

    /// Makes the newcomer a session, and returns the number of that.
    ///
    /// # Errors
    /// The limit, if there are as many sessions as there may be.
    pub(crate) fn open_session(&mut self, stream: &Stream) -> Result<u64, usize> {
        let connections = &self.connections;
        let mut open = connections.open.lock();
        if open.sessions.len() >= connections.limits.sessions {
            return Err(connections.limits.sessions);
        }
        let number = connections.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        open.newcomers.leave(self.newcomer);
        let means = Means { stopper: stream.stopper(), space: Weak::new() };
        open.sessions.insert(number, means);
        open.peak = open.peak.max(open.sessions.len());
        self.session = Some(number);
        Ok(number)
    }

    /// Notes where the session runs.
    pub(crate) fn runs_in(&self, space: &Arc<Space>) {
        let mut open = self.connections.open.lock();
        if let Some(means) = self.session.and_then(|number| open.sessions.get_mut(&number)) {
            means.space = Arc::downgrade(space);
        }
    }

    /// Keeps the figures of the session's heap, which goes now. They are counted once at any time:
    /// nobody sees the space after this.
    pub(crate) fn runs_no_more(&self, took: HeapStats) {
        let mut open = self.connections.open.lock();
        open.past = open.past.with(&took);
        if let Some(means) = self.session.and_then(|number| open.sessions.get_mut(&number)) {
            means.space = Weak::new();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.newcomers.leave(self.newcomer);
        if let Some(number) = self.session {
            open.sessions.remove(&number);
            open.note_gone();
        }
        drop(open);
        self.connections.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_rate() {
        let now = Instant::now();
        let mut rate = Rate::new(now);
        let at_once = (0..1000).filter(|_| rate.allows(10, now)).count();
        assert_eq!(at_once, 50);
        let later = now + Duration::from_millis(510);
        assert_eq!((0..1000).filter(|_| rate.allows(10, later)).count(), 5);
    }

    #[test]
    fn wrong_tokens_slow_the_next_ones_of_an_address() {
        let (now, pause) = (Instant::now(), Duration::from_millis(100));
        let mut visits = Visits::new(now);
        // Right ones alone wait for nothing.
        assert!((0..10).all(|_| visits.take_turn(pause, now) == now));
        let mut waits = Vec::new();
        for _ in 0..7 {
            let turn = visits.take_turn(pause, now);
            waits.push(turn.duration_since(now).as_millis());
            visits.count_wrong(pause, turn);
        }
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 2400]);
        // Hours later all is forgiven.
        let later = now + Duration::from_secs(4 * 3600);
        assert_eq!((visits.take_turn(pause, later), visits.take_turn(pause, later)), (later, later));
    }
}
