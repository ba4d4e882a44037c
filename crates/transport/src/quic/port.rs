//! [`Port`]: a UDP socket with the connections of QUIC over it.
//!
//! A listener has a port of its own; the client streams of a process share one for each family of
//! addresses. Each port has one thread, the **receiver**: it takes packets from the socket, gives
//! them to their connections, and does what is due. A thread that writes to a stream sends by
//! itself.
//!
//! Locks, in the order in which they may be taken: the links of the port; a link; the endpoint or
//! the timers. No lock is held over a call of the system but that of a link, while it sends.
//!
//! The right to receive is the **baton** ([`Baton`]): the thread has it, or a read that waits.
//!
//! The holder of the baton sleeps until the first timer. A timer that another thread sets to an
//! earlier time wakes it. For that to be rare, it sleeps for two milliseconds while there is
//! traffic: timers of packets under way are later than that.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use quinn_proto::{ClientConfig, ConnectError, ConnectionHandle, Endpoint, Transmit};
use quinn_udp::UdpSocketState;
use rustc_hash::FxHashMap;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use super::baton::Baton;
use super::link::Link;
use super::listening::{Accepted, Listening, QuicLimits};
use super::open::Bell;
use super::receiver::Receiver;
use super::settings;
use super::wired::Wired;
use crate::attention::Attention;
use crate::tls::TlsServer;

/// The buffers of the kernel for a socket. It may give less.
const SOCKET_BYTES: usize = 4 << 20;
/// The pause between looks at connections that end.
const LOOK: Duration = Duration::from_millis(1);
/// The longest wait for room in the kernel; a packet that finds none is lost.
const ROOM_WAIT: Duration = Duration::from_millis(50);

/// A UDP socket with its connections.
pub(crate) struct Port {
    pub(super) socket: UdpSocket,
    pub(super) state: UdpSocketState,
    /// Wakes the receiver.
    pub(super) wake: OwnedFd,
    pub(super) endpoint: Mutex<Endpoint>,
    pub(super) links: Mutex<FxHashMap<ConnectionHandle, Arc<Wired>>>,
    pub(super) timers: Mutex<BTreeSet<(Instant, usize)>>,
    /// Until when the receiver sleeps, in microseconds after `epoch`; 0 while it works.
    pub(super) sleeps_until: AtomicU64,
    pub(super) epoch: Instant,
    /// Locked by the holder of the baton.
    pub(super) receiver: Mutex<Receiver>,
    pub(super) baton: Baton,
    pub(super) listening: Option<Listening>,
    /// True once the listener is gone: there are no new connections, and the last stream ends it.
    pub(super) is_ended: AtomicBool,
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("socket", &self.socket).finish_non_exhaustive()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Port {
    /// Makes the port of a listener, and starts its receiver.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen(socket: UdpSocket, tls: TlsServer, limits: QuicLimits) -> io::Result<Arc<Port>> {
        let listening = Listening::new(tls, limits)?;
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

    pub(super) fn start(
        socket: UdpSocket,
        endpoint: Endpoint,
        listening: Option<Listening>,
    ) -> io::Result<Arc<Port>> {
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
            baton: Baton::new(),
            listening,
            is_ended: AtomicBool::new(false),
        });
        let mut known = ports();
        known.retain(|port| port.strong_count() > 0);
        known.push(Arc::downgrade(&port));
        drop(known);
        let running = port.clone();
        std::thread::Builder::new().name("bifrost-quic".to_owned()).spawn(move || running.run())?;
        Ok(port)
    }

    /// Takes no more connections. Those without streams end; the others when their last stream
    /// does.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.refuse_waiting();
        self.wake();
        self.baton.tell();
    }

    /// Ends the streams that wait to be accepted: nobody takes them any more.
    pub(super) fn refuse_waiting(&self) {
        while let Some(Accepted { wired, id }) = self.accept() {
            wired.refuse(id);
        }
    }

    /// True if the peers have all bytes of the streams that were closed.
    fn is_delivered(&self) -> bool {
        let links: Vec<Arc<Wired>> = lock(&self.links).values().cloned().collect();
        links.iter().all(|wired| wired.link().is_delivered())
    }

    pub(super) fn wake(&self) {
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
        trusts_names: bool,
    ) -> Result<Arc<Wired>, ConnectError> {
        let now = Instant::now();
        let (handle, connection) = lock(&self.endpoint).connect(now, config, remote, host)?;
        let wired = self.wire(handle, Link::new(connection, now), remote, now, trusts_names);
        wired.pump(now, &mut wired.link());
        Ok(wired)
    }

    pub(super) fn wire(
        self: &Arc<Port>,
        handle: ConnectionHandle,
        link: Link,
        remote: SocketAddr,
        began: Instant,
        trusts_names: bool,
    ) -> Arc<Wired> {
        let wired = Arc::new(Wired::new(self.clone(), handle, link, remote, began, trusts_names));
        lock(&self.links).insert(handle, wired.clone());
        wired
    }

    pub(super) fn send(&self, transmit: &Transmit, bytes: &[u8]) {
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
    pub(super) fn set_timer(&self, wired: &Wired, at: Option<Instant>) {
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

pub(super) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

fn ports() -> MutexGuard<'static, Vec<Weak<Port>>> {
    static PORTS: Mutex<Vec<Weak<Port>>> = Mutex::new(Vec::new());
    lock(&PORTS)
}

/// Waits until the peers have all bytes of the streams of QUIC that this process has closed; false
/// if the deadline has passed. Lost packets are repeated by the process, so one that ends earlier
/// takes bytes with it. Over other media the system repeats them, and there is nothing to wait for.
pub fn wait_delivered(deadline: Instant) -> bool {
    let ports: Vec<Arc<Port>> = ports().iter().filter_map(Weak::upgrade).collect();
    loop {
        if ports.iter().all(|port| port.is_delivered()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
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

impl Port {
    pub(super) fn micros(&self) -> u64 {
        // Not 0, which says that nobody has it.
        (self.epoch.elapsed().as_micros() as u64).max(1)
    }

    /// The work of the port's thread.
    pub(super) fn run(self: &Arc<Port>) {
        let is_ended = || self.is_ended.load(Ordering::Acquire);
        let turn = |receiver: &mut Receiver| {
            receiver.turn(self, None, None);
            !(is_ended() && receiver.end(self))
        };
        while self.baton.take_turns(&self.receiver, || self.micros(), turn) {
            self.baton.keep_away(|| self.micros(), is_ended);
        }
    }

    /// Receives for all until `is_done`, if the baton is free. False if it is not: then the bell
    /// rings.
    pub(super) fn receive_until(
        self: &Arc<Port>,
        bell: &OwnedFd,
        deadline: Option<Instant>,
        mut is_done: impl FnMut() -> bool,
    ) -> bool {
        let receive = |receiver: &mut Receiver| {
            while !is_done() {
                receiver.turn(self, deadline, Some(bell));
            }
        };
        self.baton.receive(&self.receiver, || self.micros(), receive)
    }
}
