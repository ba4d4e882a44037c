//! [`Wired`]: a connection of a port, with its lock.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quinn_proto::{ConnectionHandle, StreamId};
use rustix::event::PollFlags;

use super::link::Link;
use super::open::Bell;
use super::port::{Port, lock};
use crate::identity::Identity;
use crate::want::Want;

/// A connection of a port.
pub(crate) struct Wired {
    pub(super) port: Arc<Port>,
    pub(super) handle: ConnectionHandle,
    pub remote: SocketAddr,
    pub(super) began: Instant,
    pub(super) link: Mutex<Link>,
    /// Notified when packets of the peer were taken, and when a stream is stopped.
    pub(super) changed: Condvar,
    /// The number of threads that wait for that.
    pub(super) waiters: AtomicUsize,
    /// The time for which a timer is set.
    pub(super) registered: Mutex<Option<Instant>>,
    pub(super) identity: OnceLock<Identity>,
    /// True if an authority vouches for the names in the peer's certificate.
    pub(super) trusts_names: bool,
    /// True until the handshake is counted as over.
    pub(super) is_greeting: AtomicBool,
}

impl fmt::Debug for Wired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wired").field("remote", &self.remote).finish_non_exhaustive()
    }
}

/// Bytes of a buffer for packets that a thread keeps.
const BUFFER_KEPT: usize = 64 << 10;

thread_local! {
    /// The buffer for packets, of each thread that sends some.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Wired {
    pub(super) fn new(
        port: Arc<Port>,
        handle: ConnectionHandle,
        link: Link,
        remote: SocketAddr,
        began: Instant,
        trusts_names: bool,
    ) -> Wired {
        Wired {
            port,
            handle,
            remote,
            began,
            link: Mutex::new(link),
            changed: Condvar::new(),
            waiters: AtomicUsize::new(0),
            registered: Mutex::new(None),
            identity: OnceLock::new(),
            trusts_names,
            is_greeting: AtomicBool::new(true),
        }
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    /// Returns the peer's proof about itself.
    pub(crate) fn identity(&self) -> Identity {
        self.identity.get().cloned().unwrap_or(Identity::None)
    }

    /// Sends the packets that are due, and sets the timer.
    pub(crate) fn pump(&self, now: Instant, link: &mut Link) {
        if link.is_broken() {
            return;
        }
        let mut bytes = BUFFER.take();
        loop {
            link.settle(now);
            while let Some(event) = link.poll_endpoint_event() {
                let answer = lock(&self.port.endpoint).handle_event(self.handle, event);
                if let Some(answer) = answer {
                    link.handle_endpoint(answer);
                }
            }
            bytes.clear();
            let segments = self.port.state.max_gso_segments();
            let Some(transmit) = link.poll_transmit(now, segments, &mut bytes) else { break };
            self.port.send(&transmit, &bytes);
        }
        if bytes.capacity() <= BUFFER_KEPT {
            BUFFER.set(bytes);
        }
        let timeouts = [link.poll_timeout(), self.handshake_end()];
        self.port.set_timer(self, timeouts.into_iter().flatten().min());
    }

    /// Tells the peer of room that a read has made: it may have stopped for want of it.
    pub(crate) fn tell_room(&self, now: Instant, link: &mut Link) {
        if link.owes_room() {
            self.pump(now, link);
        }
    }

    /// True if a stream has bytes or room, as wanted, or an end. Otherwise its bell will ring.
    pub(crate) fn arm(&self, id: StreamId, want: Want) -> bool {
        let now = Instant::now();
        let mut link = self.link();
        let is_ready = link.arm(now, id, want);
        self.tell_room(now, &mut link);
        is_ready
    }

    /// Returns the time at which the handshake of a client must be over, while it is not.
    pub(super) fn handshake_end(&self) -> Option<Instant> {
        let listening = self.port.listening.as_ref()?;
        let is_greeting = self.is_greeting.load(Ordering::Acquire);
        is_greeting.then(|| self.began + listening.limits.handshake_time)
    }

    /// Waits until something has changed; `None` if the deadline has passed.
    pub(crate) fn wait<'w>(
        &'w self,
        link: MutexGuard<'w, Link>,
        deadline: Option<Instant>,
    ) -> Option<MutexGuard<'w, Link>> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        // Under the lock of the link, as is the look in `wake`.
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let link = match left {
            Some(left) => self.changed.wait_timeout(link, left).unwrap_or_else(PoisonError::into_inner).0,
            None => self.changed.wait(link).unwrap_or_else(PoisonError::into_inner),
        };
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        Some(link)
    }

    /// Waits until a stream is ready, or its bell rings; false if the deadline has passed.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn wait_readable(
        &self,
        id: StreamId,
        bell: &Bell,
        deadline: Option<Instant>,
    ) -> rustix::io::Result<bool> {
        let port = &self.port;
        let is_late = || deadline.is_some_and(|deadline| deadline <= Instant::now());
        if is_late() {
            return Ok(false);
        }
        let is_done = || {
            let mut link = self.link();
            // Its bell would be rung for nobody.
            link.disarm(id);
            bell.attention.is_deaf() || link.is_ready(id) || is_late()
        };
        if port.receive_until(&bell.event, deadline, is_done) {
            return Ok(!is_late() || self.link().is_ready(id));
        }
        if self.arm(id, Want::Bytes) {
            return Ok(true);
        }
        port.baton.wait(|| crate::socket::wait_for(&bell.event, PollFlags::IN, deadline))
    }

    /// Wakes all threads that wait for a change.
    pub(crate) fn wake(&self) {
        // A call of the system, which is saved if nobody waits.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until the handshake is over, or has failed; false if the deadline has passed.
    pub(crate) fn wait_established(&self, deadline: Instant) -> bool {
        let mut link = self.link();
        while !link.is_established() && link.lost().is_none() {
            let Some(changed) = self.wait(link, Some(deadline)) else { return false };
            link = changed;
        }
        true
    }

    /// True if the peer is heard, at once or after a ping, before the deadline.
    pub(crate) fn is_alive(&self, silence: Duration, deadline: Instant) -> bool {
        let mut link = self.link();
        let asked = Instant::now();
        if link.lost().is_some() {
            return false;
        }
        if asked.saturating_duration_since(link.heard()) < silence {
            return true;
        }
        link.ping(asked);
        self.pump(asked, &mut link);
        loop {
            if link.lost().is_some() {
                return false;
            }
            if link.heard() >= asked {
                return true;
            }
            let Some(changed) = self.wait(link, Some(deadline)) else { return false };
            link = changed;
        }
    }

    /// Ends a stream. The last one of a listener that is gone ends the connection, once the peer
    /// has all its bytes.
    pub(crate) fn close(&self, id: StreamId) {
        self.leave(|link| link.close(id));
    }

    /// Ends a stream that was accepted, and got no user.
    pub(crate) fn refuse(&self, id: StreamId) {
        self.leave(|link| link.refuse(id));
    }

    fn leave(&self, end: impl FnOnce(&mut Link)) {
        let now = Instant::now();
        let mut link = self.link();
        end(&mut link);
        self.pump(now, &mut link);
        if link.is_unused() && link.lost().is_none() && self.port.is_ended.load(Ordering::Acquire) {
            link.end(now, 0, "the server has ended");
            self.pump(now, &mut link);
        }
    }

    /// Ends the connection.
    pub(crate) fn end(&self, why: &'static str) {
        let now = Instant::now();
        let mut link = self.link();
        link.end(now, 0, why);
        self.pump(now, &mut link);
    }

    /// Notes the end of the handshake, and wakes waiting threads, once packets were taken.
    pub(super) fn look(&self, link: &mut Link) {
        let is_over = link.is_established() || link.lost().is_some();
        if is_over && self.is_greeting.swap(false, Ordering::AcqRel) {
            if link.is_established() {
                let _ = self.identity.set(super::identity(link.connection(), self.trusts_names));
            }
            if let Some(listening) = &self.port.listening {
                listening.greeting.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.wake();
    }
}
