//! [`Receiver`]: takes packets from the socket of a port, and runs timers.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{ConnectionHandle, DatagramEvent, EndpointEvent, Incoming};
use quinn_udp::RecvMeta;
use rustix::event::{PollFd, PollFlags, poll};

use super::link::Link;
use super::listening::Accepted;
use super::port::{Port, lock, timespec};
use super::wired::Wired;

/// The sleep of the receiver while there is traffic.
const WATCH: Duration = Duration::from_millis(2);
/// The time for which there is traffic after a packet.
const TRAFFIC: Duration = Duration::from_millis(20);
/// Buffers of the receiver, of 64 KiB each: the kernel may put several packets into each.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 64 << 10;
/// The pause after an error of the socket.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// The buffers of the holder of the baton.
pub(crate) struct Receiver {
    pub(super) buffers: Vec<u8>,
    /// Packets of the endpoint.
    pub(super) bytes: Vec<u8>,
    pub(super) touched: Vec<Arc<Wired>>,
    pub(super) traffic: Instant,
}

impl Receiver {
    pub(super) fn new(now: Instant) -> Receiver {
        let (buffers, bytes, touched) = (vec![0; BUFFERS * BUFFER_BYTES], Vec::new(), Vec::new());
        Receiver { buffers, bytes, touched, traffic: now }
    }

    /// Waits for packets, a wake, the first timer or the deadline, or for `bell`; then takes the
    /// packets that are there, and runs expired timers.
    pub(super) fn turn(&mut self, port: &Arc<Port>, deadline: Option<Instant>, bell: Option<&OwnedFd>) {
        self.sleep(port, deadline, bell);
        if self.receive(port).is_err() {
            std::thread::sleep(ERROR_PAUSE);
        }
        self.work(port);
        self.expire(port);
    }

    fn sleep(&self, port: &Port, deadline: Option<Instant>, bell: Option<&OwnedFd>) {
        let first = || lock(&port.timers).first().map(|(at, _)| *at);
        let now = Instant::now();
        let watch = (now.saturating_duration_since(self.traffic) < TRAFFIC).then(|| now + WATCH);
        let until = [first(), watch, deadline].into_iter().flatten().min();
        let micros = until.map_or(u64::MAX, |at| at.saturating_duration_since(port.epoch).as_micros() as u64);
        port.sleeps_until.store(micros.max(1), Ordering::SeqCst);
        // A timer that was set before the store is seen here.
        let until = [until, first()].into_iter().flatten().min();
        let time = until.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        let mut waited = [
            PollFd::new(&port.socket, PollFlags::IN),
            PollFd::new(&port.wake, PollFlags::IN),
            PollFd::new(bell.unwrap_or(&port.wake), PollFlags::IN),
        ];
        let _ = poll(&mut waited, time.as_ref());
        let is_woken = !waited[1].revents().is_empty();
        port.sleeps_until.store(0, Ordering::SeqCst);
        if is_woken {
            let _ = rustix::io::read(&port.wake, &mut [0; 8]);
        }
    }

    /// Takes the packets that are there.
    fn receive(&mut self, port: &Arc<Port>) -> io::Result<()> {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut result = Ok(());
        // A flood does not keep timers waiting.
        for _ in 0..16 {
            let mut slices: Vec<IoSliceMut<'_>> =
                buffers.chunks_exact_mut(BUFFER_BYTES).map(IoSliceMut::new).collect();
            let mut meta = [RecvMeta::default(); BUFFERS];
            let count = match port.state.recv((&port.socket).into(), &mut slices, &mut meta) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // An unreachable peer of another packet.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let now = Instant::now();
            self.traffic = now;
            for (buffer, meta) in slices.iter().zip(&meta).take(count) {
                for packet in buffer[..meta.len.min(buffer.len())].chunks(meta.stride.max(1)) {
                    // A packet that makes the endpoint panic is dropped.
                    let _ = catch_unwind(AssertUnwindSafe(|| self.take(port, now, meta, packet)));
                }
            }
            if count < BUFFERS {
                break;
            }
        }
        self.buffers = buffers;
        result
    }

    /// Gives a packet to its connection.
    fn take(&mut self, port: &Arc<Port>, now: Instant, meta: &RecvMeta, packet: &[u8]) {
        let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
        self.bytes.clear();
        let packet = BytesMut::from(packet);
        let event = lock(&port.endpoint).handle(now, meta.addr, meta.dst_ip, ecn, packet, &mut self.bytes);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(wired) = lock(&port.links).get(&handle).cloned() else { return };
                guard(port, &wired, || wired.link().handle_event(now, event));
                self.touch(wired);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(port, now, incoming),
            Some(DatagramEvent::Response(transmit)) => port.send(&transmit, &self.bytes),
            None => {}
        }
    }

    fn touch(&mut self, wired: Arc<Wired>) {
        if !self.touched.iter().any(|known| Arc::ptr_eq(known, &wired)) {
            self.touched.push(wired);
        }
    }

    /// Takes or refuses a new connection.
    fn greet(&mut self, port: &Arc<Port>, now: Instant, incoming: Incoming) {
        let remote = incoming.remote_address();
        self.bytes.clear();
        let Some(listening) = port.listening.as_ref() else {
            return lock(&port.endpoint).ignore(incoming);
        };
        let refuse = |bytes: &mut Vec<u8>, incoming: Incoming| {
            let transmit = lock(&port.endpoint).refuse(incoming, bytes);
            port.send(&transmit, bytes);
        };
        let half_done = listening.greeting.load(Ordering::Acquire);
        if port.is_ended.load(Ordering::Acquire) {
            return refuse(&mut self.bytes, incoming);
        }
        let is_proved = incoming.remote_address_validated();
        let is_allowed = listening.visit(remote.ip(), is_proved, now);
        if !is_proved && (!is_allowed || half_done >= listening.limits.handshakes_max) {
            // It keeps no state here.
            if let Ok(transmit) = lock(&port.endpoint).retry(incoming, &mut self.bytes) {
                port.send(&transmit, &self.bytes);
            }
            return;
        }
        if !is_allowed {
            return lock(&port.endpoint).ignore(incoming);
        }
        if lock(&port.links).len() >= listening.limits.connections_max {
            return refuse(&mut self.bytes, incoming);
        }
        let Ok(config) = listening.config(remote.ip().to_canonical().is_loopback()) else {
            return refuse(&mut self.bytes, incoming);
        };
        let accepted = lock(&port.endpoint).accept(incoming, now, &mut self.bytes, Some(config));
        match accepted {
            Ok((handle, connection)) => {
                listening.greeting.fetch_add(1, Ordering::AcqRel);
                let wired =
                    port.wire(handle, Link::new(connection, now), remote, now, listening.tls.trusts_names());
                self.touch(wired);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    port.send(&transmit, &self.bytes);
                }
            }
        }
    }

    /// Goes on with the connections that were given packets, or whose timers have expired.
    fn work(&mut self, port: &Arc<Port>) {
        for wired in std::mem::take(&mut self.touched) {
            guard(port, &wired, || go_on(port, &wired));
        }
    }

    /// Runs expired timers.
    fn expire(&mut self, port: &Arc<Port>) {
        loop {
            let now = Instant::now();
            let handle = {
                let mut timers = lock(&port.timers);
                match timers.first().copied() {
                    Some((at, handle)) if at <= now => {
                        timers.pop_first();
                        handle
                    }
                    _ => return,
                }
            };
            let Some(wired) = lock(&port.links).get(&ConnectionHandle(handle)).cloned() else { continue };
            *lock(&wired.registered) = None;
            guard(port, &wired, || {
                let mut link = wired.link();
                link.handle_timeout(now);
                keep(now, &wired, &mut link);
                drop(link);
                go_on(port, &wired);
            });
        }
    }

    /// Ends connections that are not used, once the listener is gone. True when none are left.
    pub(super) fn end(&mut self, port: &Port) -> bool {
        let now = Instant::now();
        let links: Vec<Arc<Wired>> = lock(&port.links).values().cloned().collect();
        for wired in &links {
            guard(port, wired, || {
                let mut link = wired.link();
                if link.is_unused() && link.lost().is_none() {
                    link.end(now, 0, "the server has ended");
                    wired.pump(now, &mut link);
                }
            });
        }
        // The peers of those that have ended may not have heard it: QUIC repeats it for a while.
        links.is_empty()
    }
}

/// Runs a step of a connection. A panic in it is a fault of this program; it ends this connection
/// and no other one.
pub(super) fn guard(port: &Port, wired: &Arc<Wired>, step: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(step)).is_err() {
        let mut link = wired.link();
        link.break_off();
        lock(&port.endpoint).handle_event(wired.handle, EndpointEvent::drained());
        wired.look(&mut link);
        drop(link);
        forget(port, wired);
    }
}

/// Goes on with a connection that was given packets, or whose timer has expired.
fn go_on(port: &Port, wired: &Arc<Wired>) {
    let now = Instant::now();
    let mut link = wired.link();
    wired.pump(now, &mut link);
    wired.look(&mut link);
    if let Some(listening) = &port.listening {
        let mut is_new = false;
        while let Some(id) = link.accept() {
            lock(&listening.streams).push_back(Accepted { wired: wired.clone(), id });
            is_new = true;
        }
        if is_new {
            let _ = rustix::io::write(&listening.event, &1_u64.to_ne_bytes());
        }
    }
    let is_drained = link.is_drained();
    drop(link);
    if port.is_ended.load(Ordering::Acquire) {
        port.refuse_waiting();
    }
    if is_drained {
        forget(port, wired);
    }
}

/// Forgets a connection that is over.
fn forget(port: &Port, wired: &Wired) {
    lock(&port.links).remove(&wired.handle);
    let registered = lock(&wired.registered).take();
    if let Some(at) = registered {
        lock(&port.timers).remove(&(at, wired.handle.0));
    }
}

/// Ends a handshake that takes too long.
fn keep(now: Instant, wired: &Wired, link: &mut Link) {
    if wired.handshake_end().is_some_and(|end| end <= now) && link.lost().is_none() {
        link.end(now, 0, "the handshake took too long");
    }
}
