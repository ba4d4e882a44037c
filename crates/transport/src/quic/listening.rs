//! [`Listening`]: the part of a port that listeners have: new connections, and their limits.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quinn_proto::StreamId;
use rustix::event::{EventfdFlags, eventfd};

use super::port::lock;
use super::settings;
use super::wired::Wired;
use crate::tls::TlsServer;

/// The limits of the port of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuicLimits {
    /// Most connections. Default: 10,000.
    pub connections_max: usize,
    /// Most handshakes that are half done; beyond it a client must show first that it receives at
    /// its address. Default: 64.
    pub handshakes_max: usize,
    /// Most handshakes of one address, or IPv6 network of 64 bits, in a second; beyond it a client
    /// must show first that it receives at its address, and then that has the same limit. Default:
    /// 20.
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
pub(super) struct Listening {
    pub(super) tls: TlsServer,
    pub(super) limits: QuicLimits,
    /// The settings for the certificate in use.
    pub(super) configs: Mutex<Option<Configs>>,
    pub(super) streams: Mutex<VecDeque<Accepted>>,
    /// Readable while there are streams to be accepted.
    pub(super) event: OwnedFd,
    /// Handshakes that are half done.
    pub(super) greeting: AtomicUsize,
    pub(super) visits: Mutex<Visits>,
}

#[derive(Debug)]
pub(super) struct Configs {
    pub(super) of: Arc<rustls::ServerConfig>,
    pub(super) local: Arc<quinn_proto::ServerConfig>,
    pub(super) remote: Arc<quinn_proto::ServerConfig>,
}

/// The handshakes of networks in a second.
#[derive(Debug)]
pub(super) struct Visits {
    pub(super) since: Instant,
    /// By the network, and whether it was proved.
    pub(super) counts: HashMap<([u8; 8], bool), u32>,
}

/// Networks of which handshakes are counted in a second; others are refused then.
const NETWORKS_MAX: usize = 65_536;

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

impl Listening {
    pub(super) fn new(tls: TlsServer, limits: QuicLimits) -> io::Result<Listening> {
        Ok(Listening {
            tls,
            limits,
            configs: Mutex::new(None),
            streams: Mutex::new(VecDeque::new()),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            greeting: AtomicUsize::new(0),
            visits: Mutex::new(Visits { since: Instant::now(), counts: HashMap::new() }),
        })
    }

    /// Returns the settings for the certificate in use.
    pub(super) fn config(&self, is_local: bool) -> Result<Arc<quinn_proto::ServerConfig>, String> {
        let current = self.tls.quic();
        let mut configs = lock(&self.configs);
        if !configs.as_ref().is_some_and(|known| Arc::ptr_eq(&known.of, &current)) {
            let [local, remote] = settings::server(current.clone()).map_err(|error| error.to_string())?;
            *configs = Some(Configs { of: current, local, remote });
        }
        let known = configs.as_ref().ok_or("no certificate")?;
        Ok(if is_local { known.local.clone() } else { known.remote.clone() })
    }

    /// Counts a handshake of a network; false if it has begun too many. Handshakes with a proved
    /// address are counted apart, so that forged addresses keep nobody out.
    pub(super) fn visit(&self, ip: IpAddr, is_proved: bool, now: Instant) -> bool {
        let mut visits = lock(&self.visits);
        if now.saturating_duration_since(visits.since) >= Duration::from_secs(1) {
            *visits = Visits { since: now, counts: HashMap::new() };
        }
        let network = (network(ip), is_proved);
        if visits.counts.len() >= NETWORKS_MAX && !visits.counts.contains_key(&network) {
            return false;
        }
        let count = visits.counts.entry(network).or_default();
        *count += 1;
        *count <= self.limits.handshakes_per_second
    }
}
