//! [`Port`]: a UDP socket with the connections of QUIC over it.
//!
//! A listener has a port of its own; the client streams of a process share one for each family of
//! addresses. Each port has one thread, the **receiver**: it takes packets from the socket, gives
//! them to their connections, and does what is due. Whoever writes to a stream sends by itself.
//!
//! Locks, in the order in which they may be taken: the links of the port; a link; the endpoint or
//! the timers. No lock is held over a call of the system but that of a link, while it sends.
//!
//! The right to receive is the **baton** ([`Baton`]): the thread has it, or a read that waits.
//!
//! Who receives sleeps until the first timer. A timer that is set to an earlier time by another
//! thread wakes it. For that to be rare, it sleeps only for [`WATCH`] while there is traffic:
//! timers of packets under way are later than that.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, ConnectError, ConnectionHandle, DatagramEvent, Endpoint, Incoming, StreamId, Transmit,
};
use quinn_udp::{RecvMeta, UdpSocketState};
use rustc_hash::FxHashMap;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use super::link::{Bell, Link};
use super::settings;
use crate::attention::Attention;
use crate::identity::Identity;
use crate::rest::Want;
use crate::tls::TlsServer;

/// The sleep of the receiver while there is traffic.
const WATCH: Duration = Duration::from_millis(2);
/// The time for which there is traffic after a packet.
const TRAFFIC: Duration = Duration::from_millis(20);
/// Buffers of the receiver, of 64 KiB each: the kernel may put several packets into each.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 64 << 10;
/// The buffers of the kernel for a socket. It may give less.
const SOCKET_BYTES: usize = 4 << 20;
/// The longest wait for room in the kernel; a packet that finds none is lost.
const ROOM_WAIT: Duration = Duration::from_millis(50);
/// The pause after an error of the socket.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// The limits of the port of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuicLimits {
    /// Most connections. Default: 10,000.
    pub connections_max: usize,
    /// Most handshakes that are half done; beyond it a client must show first that it receives at
    /// its address. Default: 64.
    pub handshakes_max: usize,
    /// Most handshakes of one address, or IPv6 network of 64 bits, in a second. Default: 20.
    pub handshakes_per_second: u32,
    /// The time of a handshake. Default: 5 s.
    pub handshake_time: Duration,
}

impl Default for QuicLimits {
    fn default() -> QuicLimits {
        QuicLimits {
            connections_max: 10_000,
            handshakes_max: 64,
            handshakes_per_second: 20,
            handshake_time: Duration::from_secs(5),
        }
    }
}

/// A stream that a client has opened.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub wired: Arc<Wired>,
    pub id: StreamId,
}

/// The part of a port that only listeners have.
#[derive(Debug)]
struct Listening {
    tls: TlsServer,
    limits: QuicLimits,
    /// The settings for the certificate in use.
    configs: Mutex<Option<Configs>>,
    streams: Mutex<VecDeque<Accepted>>,
    /// Readable while there are streams to be accepted.
    event: OwnedFd,
    /// Handshakes that are half done.
    greeting: AtomicUsize,
    visits: Mutex<Visits>,
}

#[derive(Debug)]
struct Configs {
    of: Arc<rustls::ServerConfig>,
    local: Arc<quinn_proto::ServerConfig>,
    remote: Arc<quinn_proto::ServerConfig>,
}

/// The handshakes of networks in a second.
#[derive(Debug)]
struct Visits {
    since: Instant,
    counts: HashMap<[u8; 8], u32>,
}

/// Networks of which handshakes are counted in a second; others are refused then.
const NETWORKS_MAX: usize = 65_536;

/// A UDP socket with its connections.
pub(crate) struct Port {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Wakes the receiver.
    wake: OwnedFd,
    endpoint: Mutex<Endpoint>,
    links: Mutex<FxHashMap<ConnectionHandle, Arc<Wired>>>,
    timers: Mutex<BTreeSet<(Instant, usize)>>,
    /// Until when the receiver sleeps, in microseconds after `epoch`; 0 while it works.
    sleeps_until: AtomicU64,
    epoch: Instant,
    /// Locked by who has the baton.
    receiver: Mutex<Receiver>,
    baton: Baton,
    listening: Option<Listening>,
    /// True once the listener is gone: there are no new connections, and the last stream ends it.
    is_ended: AtomicBool,
}

/// A connection of a port.
pub(crate) struct Wired {
    port: Arc<Port>,
    handle: ConnectionHandle,
    pub remote: SocketAddr,
    began: Instant,
    link: Mutex<Link>,
    /// Notified when packets of the peer were taken, and when a stream is stopped.
    changed: Condvar,
    /// Those who wait for that.
    waiters: AtomicUsize,
    /// The time for which a timer is set.
    registered: Mutex<Option<Instant>>,
    identity: OnceLock<Identity>,
    /// True until the handshake is counted as over.
    is_greeting: AtomicBool,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl fmt::Debug for Wired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wired").field("remote", &self.remote).finish_non_exhaustive()
    }
}

thread_local! {
    /// The buffer for packets, of each thread that sends some.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes that name the network of an address.
fn network(ip: IpAddr) -> [u8; 8] {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            [0, 0, 0, 0, a, b, c, d]
        }
        IpAddr::V6(ip) => ip.octets().first_chunk().copied().unwrap_or_default(),
    }
}

impl Port {
    /// Makes the port of a listener, and starts its receiver.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen(socket: UdpSocket, tls: TlsServer, limits: QuicLimits) -> io::Result<Arc<Port>> {
        let listening = Listening {
            limits,
            configs: Mutex::new(None),
            streams: Mutex::new(VecDeque::new()),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            greeting: AtomicUsize::new(0),
            visits: Mutex::new(Visits { since: Instant::now(), counts: HashMap::new() }),
            tls,
        };
        let key = listening.tls.reset_key();
        let config = listening.config(true).map_err(io::Error::other)?;
        let endpoint = Endpoint::new(settings::endpoint(Some(&key)), Some(config), true, None);
        Port::start(socket, endpoint, Some(listening))
    }

    /// Makes a port for clients, and starts its receiver.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn for_clients(is_v6: bool) -> io::Result<Arc<Port>> {
        let any: IpAddr = if is_v6 { [0; 8].map(|_: u8| 0_u16).into() } else { [0; 4].into() };
        let socket = UdpSocket::bind((any, 0))?;
        Port::start(socket, Endpoint::new(settings::endpoint(None), None, true, None), None)
    }

    fn start(socket: UdpSocket, endpoint: Endpoint, listening: Option<Listening>) -> io::Result<Arc<Port>> {
        let state = UdpSocketState::new((&socket).into())?;
        // A smaller buffer loses packets of quick peers, which repeat them.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BYTES);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BYTES);
        let port = Arc::new(Port {
            socket,
            state,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            endpoint: Mutex::new(endpoint),
            links: Mutex::new(FxHashMap::default()),
            timers: Mutex::new(BTreeSet::new()),
            sleeps_until: AtomicU64::new(0),
            epoch: Instant::now(),
            receiver: Mutex::new(Receiver::new(Instant::now())),
            baton: Baton::default(),
            listening,
            is_ended: AtomicBool::new(false),
        });
        let running = port.clone();
        std::thread::Builder::new().name("bifrost-quic".to_owned()).spawn(move || running.run())?;
        Ok(port)
    }

    /// Takes no more connections. Those without streams end; the others when their last stream
    /// does.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.wake();
        self.baton.tell();
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptor that is readable while there are streams to be accepted.
    pub(crate) fn accept_event(&self) -> Option<&OwnedFd> {
        self.listening.as_ref().map(|listening| &listening.event)
    }

    /// Returns a stream that a client has opened.
    pub(crate) fn accept(&self) -> Option<Accepted> {
        let listening = self.listening.as_ref()?;
        let mut streams = lock(&listening.streams);
        let accepted = streams.pop_front();
        if streams.is_empty() {
            let _ = rustix::io::read(&listening.event, &mut [0; 8]);
        }
        accepted
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// The address is none, or too many connections are open.
    pub(crate) fn connect(
        self: &Arc<Port>,
        config: ClientConfig,
        remote: SocketAddr,
        host: &str,
    ) -> Result<Arc<Wired>, ConnectError> {
        let now = Instant::now();
        let (handle, connection) = lock(&self.endpoint).connect(now, config, remote, host)?;
        let wired = self.wire(handle, Link::new(connection, now), remote, now);
        wired.pump(now, &mut wired.link());
        Ok(wired)
    }

    fn wire(
        self: &Arc<Port>,
        handle: ConnectionHandle,
        link: Link,
        remote: SocketAddr,
        began: Instant,
    ) -> Arc<Wired> {
        let wired = Arc::new(Wired {
            port: self.clone(),
            handle,
            remote,
            began,
            link: Mutex::new(link),
            changed: Condvar::new(),
            waiters: AtomicUsize::new(0),
            registered: Mutex::new(None),
            identity: OnceLock::new(),
            is_greeting: AtomicBool::new(true),
        });
        lock(&self.links).insert(handle, wired.clone());
        wired
    }

    fn send(&self, transmit: &Transmit, bytes: &[u8]) {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let end = Instant::now() + ROOM_WAIT;
        // A packet that the system does not take is lost, and is repeated like any other.
        while let Err(error) = self.state.try_send((&self.socket).into(), &transmit) {
            if error.kind() != io::ErrorKind::WouldBlock || Instant::now() >= end {
                return;
            }
            let left = timespec(end.saturating_duration_since(Instant::now()));
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&left));
        }
    }

    /// Sets the timer of a link, and wakes the receiver if it would sleep too long.
    fn set_timer(&self, wired: &Wired, at: Option<Instant>) {
        let mut registered = lock(&wired.registered);
        // A timer that is too early looks again.
        let Some(at) = at.filter(|at| registered.is_none_or(|known| *at < known)) else { return };
        let mut timers = lock(&self.timers);
        if let Some(known) = registered.replace(at) {
            timers.remove(&(known, wired.handle.0));
        }
        timers.insert((at, wired.handle.0));
        drop(timers);
        let micros = at.saturating_duration_since(self.epoch).as_micros() as u64;
        // SeqCst on both sides: either the receiver sees the timer, or this sees that it sleeps.
        if micros < self.sleeps_until.load(Ordering::SeqCst) {
            self.wake();
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

impl Listening {
    /// Returns the settings for the certificate in use.
    fn config(&self, is_local: bool) -> Result<Arc<quinn_proto::ServerConfig>, String> {
        let current = self.tls.quic();
        let mut configs = lock(&self.configs);
        if !configs.as_ref().is_some_and(|known| Arc::ptr_eq(&known.of, &current)) {
            let mut remote = settings::server(current.clone()).map_err(|error| error.to_string())?;
            let mut local = remote.clone();
            local.transport_config(settings::transport(true));
            remote.transport_config(settings::transport(false));
            *configs = Some(Configs { of: current, local: Arc::new(local), remote: Arc::new(remote) });
        }
        let known = configs.as_ref().ok_or("no certificate")?;
        Ok(if is_local { known.local.clone() } else { known.remote.clone() })
    }

    /// Counts a handshake of a network; false if it has begun too many.
    fn visit(&self, ip: IpAddr, now: Instant) -> bool {
        let mut visits = lock(&self.visits);
        if now.saturating_duration_since(visits.since) >= Duration::from_secs(1) {
            *visits = Visits { since: now, counts: HashMap::new() };
        }
        let network = network(ip);
        if visits.counts.len() >= NETWORKS_MAX && !visits.counts.contains_key(&network) {
            return false;
        }
        let count = visits.counts.entry(network).or_default();
        *count += 1;
        *count <= self.limits.handshakes_per_second
    }
}

impl Wired {
    pub(crate) fn link(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    /// Returns the peer's proof about itself.
    pub(crate) fn identity(&self) -> Identity {
        self.identity.get().cloned().unwrap_or(Identity::None)
    }

    /// Sends what is to be sent, and sets the timer.
    pub(crate) fn pump(&self, now: Instant, link: &mut Link) {
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
        BUFFER.set(bytes);
        self.port.set_timer(self, link.poll_timeout());
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
        // Under the lock of the link, as is the look of who notifies.
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
        if self.link().arm(Instant::now(), id, Want::Bytes) {
            return Ok(true);
        }
        port.baton.waiting.fetch_add(1, Ordering::SeqCst);
        // If nobody has the baton now, the thread takes it.
        if port.baton.held_since.load(Ordering::SeqCst) == 0 {
            port.baton.tell();
        }
        let woken = crate::socket::wait_for(&bell.event, PollFlags::IN, deadline);
        port.baton.waiting.fetch_sub(1, Ordering::SeqCst);
        woken
    }

    /// Wakes all who wait for a change.
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

    /// Ends a stream. The last one of a listener that is gone ends the connection.
    pub(crate) fn close(&self, id: StreamId) {
        let now = Instant::now();
        let mut link = self.link();
        link.close(id);
        self.pump(now, &mut link);
        if link.streams() == 0 && self.port.is_ended.load(Ordering::Acquire) {
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

    /// Notes what has changed, once packets were taken: the end of the handshake, new streams.
    fn look(&self, link: &mut Link) {
        let is_over = link.is_established() || link.lost().is_some();
        if is_over && self.is_greeting.swap(false, Ordering::AcqRel) {
            if link.is_established() {
                let verified = self.port.listening.as_ref().is_some_and(|l| l.tls.trusts_names());
                let _ = self.identity.set(super::identity(link.connection(), verified));
            }
            if let Some(listening) = &self.port.listening {
                listening.greeting.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.wake();
    }
}

/// The state of the baton: who may receive.
///
/// The thread of the port has it while nobody waits for a stream in a read. A read that waits takes
/// it, if it is free, receives for all, and lets go of it when its own bytes are there: so an
/// exchange needs no wake-up of another thread. While reads take it, the thread keeps away from it.
///
/// ```text
///            wanted                         free for NAP
/// thread has it ---> free <---> a read has it
///      ^               |            |  for longer than HELD: the thread sleeps,
///      +---------------+            |  and the read wakes it when it lets go
/// ```
#[derive(Debug, Default)]
struct Baton {
    /// A read would have taken it, but the thread had it.
    is_wanted: AtomicBool,
    /// Since when a read has it, in microseconds after the port's begin; 0 if none has.
    held_since: AtomicU64,
    /// When the last read has let go of it.
    freed_at: AtomicU64,
    /// Reads that wait for their bells, because another one has it.
    waiting: AtomicUsize,
    /// True while the thread sleeps until it is told.
    is_asleep: AtomicBool,
    told: Mutex<bool>,
    tell: Condvar,
}

/// The time after which the thread takes a baton that nobody has taken, and that of its looks.
const NAP: Duration = Duration::from_micros(500);
/// The time after which the thread waits to be told that a read has let go of the baton.
const HELD: Duration = Duration::from_millis(1);

impl Baton {
    fn tell(&self) {
        *lock(&self.told) = true;
        self.tell.notify_one();
    }

    /// Waits to be told, or for some time.
    fn nap(&self, time: Option<Duration>) {
        let mut told = lock(&self.told);
        if !*told {
            told = match time {
                Some(time) => self.tell.wait_timeout(told, time).unwrap_or_else(PoisonError::into_inner).0,
                None => self.tell.wait(told).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *told = false;
    }
}

impl Port {
    fn micros(&self) -> u64 {
        // Not 0, which says that nobody has it.
        (self.epoch.elapsed().as_micros() as u64).max(1)
    }

    /// The work of the port's thread.
    fn run(self: &Arc<Port>) {
        loop {
            {
                let mut receiver = lock(&self.receiver);
                while !self.baton.is_wanted.swap(false, Ordering::AcqRel) {
                    receiver.turn(self, None, None);
                    if self.is_ended.load(Ordering::Acquire) && receiver.end(self) {
                        return;
                    }
                }
                self.baton.freed_at.store(self.micros(), Ordering::SeqCst);
            }
            self.keep_away();
        }
    }

    /// Waits until no read has the baton, nor has had it for a while.
    fn keep_away(&self) {
        let baton = &self.baton;
        while !self.is_ended.load(Ordering::Acquire) {
            let (now, held) = (self.micros(), baton.held_since.load(Ordering::SeqCst));
            let free = now.saturating_sub(baton.freed_at.load(Ordering::SeqCst));
            if held == 0 {
                if free >= NAP.as_micros() as u64 || baton.waiting.load(Ordering::SeqCst) > 0 {
                    return;
                }
                baton.nap(Some(NAP));
            } else if now.saturating_sub(held) < HELD.as_micros() as u64 {
                baton.nap(Some(NAP));
            } else {
                baton.is_asleep.store(true, Ordering::SeqCst);
                // SeqCst on both sides: either this sees that it is free, or the read that lets go of
                // it sees that the thread sleeps.
                if baton.held_since.load(Ordering::SeqCst) != 0 {
                    baton.nap(None);
                }
                baton.is_asleep.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Receives for all until `is_done`, if the baton is free. False if it is not: then the bell
    /// rings.
    fn receive_until(
        self: &Arc<Port>,
        bell: &OwnedFd,
        deadline: Option<Instant>,
        mut is_done: impl FnMut() -> bool,
    ) -> bool {
        let Ok(mut receiver) = self.receiver.try_lock() else {
            self.baton.is_wanted.store(true, Ordering::Release);
            return false;
        };
        let baton = &self.baton;
        baton.held_since.store(self.micros(), Ordering::SeqCst);
        while !is_done() {
            receiver.turn(self, deadline, Some(bell));
        }
        drop(receiver);
        baton.freed_at.store(self.micros(), Ordering::SeqCst);
        baton.held_since.store(0, Ordering::SeqCst);
        if baton.is_asleep.load(Ordering::SeqCst) || baton.waiting.load(Ordering::SeqCst) > 0 {
            baton.tell();
        }
        true
    }
}

/// The right to receive, and what it needs.
pub(crate) struct Receiver {
    buffers: Vec<u8>,
    /// Packets of the endpoint.
    bytes: Vec<u8>,
    touched: Vec<Arc<Wired>>,
    traffic: Instant,
}

impl Receiver {
    fn new(now: Instant) -> Receiver {
        let (buffers, bytes, touched) = (vec![0; BUFFERS * BUFFER_BYTES], Vec::new(), Vec::new());
        Receiver { buffers, bytes, touched, traffic: now }
    }

    /// Waits for packets, a wake, the first timer or the deadline, or for `bell`; then takes what
    /// is there, and does what is due.
    fn turn(&mut self, port: &Arc<Port>, deadline: Option<Instant>, bell: Option<&OwnedFd>) {
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
                    self.take(port, now, meta, packet);
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
        let event = lock(&port.endpoint).handle(
            now,
            meta.addr,
            meta.dst_ip,
            ecn,
            BytesMut::from(packet),
            &mut self.bytes,
        );
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(wired) = lock(&port.links).get(&handle).cloned() else { return };
                wired.link().handle_event(now, event);
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
        if half_done >= listening.limits.handshakes_max && !incoming.remote_address_validated() {
            // It keeps no state here.
            if let Ok(transmit) = lock(&port.endpoint).retry(incoming, &mut self.bytes) {
                port.send(&transmit, &self.bytes);
            }
            return;
        }
        // An address that may be forged tells of nobody.
        if !listening.visit(remote.ip(), now) {
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
                let wired = port.wire(handle, Link::new(connection, now), remote, now);
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
            self.go_on(port, &wired);
        }
    }

    fn go_on(&mut self, port: &Port, wired: &Arc<Wired>) {
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
        if link.is_drained() {
            drop(link);
            lock(&port.links).remove(&wired.handle);
            let registered = lock(&wired.registered).take();
            if let Some(at) = registered {
                lock(&port.timers).remove(&(at, wired.handle.0));
            }
        }
    }

    /// Does what is due.
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
            {
                let mut link = wired.link();
                link.handle_timeout(now);
                keep(port, now, &wired, &mut link);
            }
            self.go_on(port, &wired);
        }
    }

    /// Ends connections without streams, once the listener is gone. True when none are left.
    fn end(&mut self, port: &Port) -> bool {
        let now = Instant::now();
        let links: Vec<Arc<Wired>> = lock(&port.links).values().cloned().collect();
        for wired in &links {
            let mut link = wired.link();
            if link.streams() == 0 && link.lost().is_none() {
                link.end(now, 0, "the server has ended");
                wired.pump(now, &mut link);
            }
        }
        // The peers of those that have ended may not have heard it: QUIC repeats it for a while.
        links.is_empty()
    }
}

/// Ends a handshake that takes too long.
fn keep(port: &Port, now: Instant, wired: &Wired, link: &mut Link) {
    let Some(listening) = &port.listening else { return };
    let age = now.saturating_duration_since(wired.began);
    let is_greeting = wired.is_greeting.load(Ordering::Acquire);
    if is_greeting && age >= listening.limits.handshake_time && link.lost().is_none() {
        link.end(now, 0, "the handshake took too long");
    }
}

/// Makes the bell of a stream.
///
/// # Errors
/// The process has too many descriptors.
pub(crate) fn bell() -> io::Result<Arc<Bell>> {
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    Ok(Arc::new(Bell { event, attention: Arc::new(Attention::default()) }))
}

/// Waits until a descriptor is readable; false if the deadline has passed.
pub(crate) fn wait_for(event: &OwnedFd, deadline: Option<Instant>) -> rustix::io::Result<bool> {
    crate::socket::wait_for(event, PollFlags::IN, deadline)
}
