//! A proxy between a client and a server of datagrams: it loses, delays, reorders and repeats some.
//!
//! Read [`Weather`] first: the harm to datagrams, and its share. [`Link`] decides it for each
//! datagram: it has no sockets and no clock, and a seed reproduces its decisions. [`Proxy`] is a
//! thread with two sockets that drives a link for one client.
//!
//! The fate of a datagram depends on the seed, the direction and the number of datagrams of this
//! direction before it, and not on times. So the same datagrams have the same fates in each run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The bytes of the largest datagram.
const DATAGRAM_MAX: usize = 65_536;
/// The most datagrams under way; more are lost, as in a full queue.
const UNDER_WAY_MAX: usize = 10_000;
/// The least time by which a datagram is late that others overtake.
const LATE_LEAST: Duration = Duration::from_micros(500);

/// The harm to datagrams. Shares are from 0 to 1.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Weather {
    /// The share of datagrams that are lost.
    pub loss: f64,
    /// The share of datagrams that arrive twice.
    pub repeat: f64,
    /// The share of datagrams that take twice the delay, so that others overtake them.
    pub reorder: f64,
    /// The share of datagrams of which one bit is turned.
    pub damage: f64,
    /// The time under way in each direction.
    pub delay: Duration,
    /// The seed of all decisions.
    pub seed: u64,
}

/// The direction of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// A datagram under way: when it arrives, its number for those that arrive at the same time, its
/// direction and bytes.
type UnderWay = (Instant, u64, Direction, Vec<u8>);

/// The number of datagrams by their fates.
#[derive(Debug, Default)]
pub struct Counts {
    /// Those that were sent on, repetitions included.
    pub passed: AtomicU64,
    pub lost: AtomicU64,
    pub repeated: AtomicU64,
    pub reordered: AtomicU64,
}

/// The datagrams under way, and the decisions about them.
#[derive(Debug)]
pub struct Link {
    weather: Weather,
    random: [fastrand::Rng; 2],
    under_way: BinaryHeap<Reverse<UnderWay>>,
    next: u64,
    counts: Arc<Counts>,
}

impl Link {
    /// Makes a link with nothing under way.
    pub fn new(weather: Weather) -> Link {
        // Each direction has decisions of its own, whatever the other one sends.
        let mut seeds = fastrand::Rng::with_seed(weather.seed);
        let random = [seeds.fork(), seeds.fork()];
        Link { weather, random, under_way: BinaryHeap::new(), next: 0, counts: Arc::default() }
    }

    /// Returns the counts, which other threads may read.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Takes a datagram, and decides its fate.
    pub fn handle_datagram(&mut self, now: Instant, direction: Direction, bytes: &[u8]) {
        let random = &mut self.random[direction as usize];
        // All are drawn for each datagram, so that one decision does not change later ones.
        let (loss, repeat, reorder) = (random.f64(), random.f64(), random.f64());
        let (damage, bit) = (random.f64(), random.usize(..));
        if loss < self.weather.loss || self.under_way.len() >= UNDER_WAY_MAX {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut at = now + self.weather.delay;
        if reorder < self.weather.reorder {
            self.counts.reordered.fetch_add(1, Ordering::Relaxed);
            at += self.weather.delay.max(LATE_LEAST);
        }
        let copies = if repeat < self.weather.repeat { 2 } else { 1 };
        self.counts.repeated.fetch_add(copies - 1, Ordering::Relaxed);
        let mut bytes = bytes.to_vec();
        if damage < self.weather.damage && !bytes.is_empty() {
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for _ in 0..copies {
            self.under_way.push(Reverse((at, self.next, direction, bytes.clone())));
            self.next += 1;
        }
    }

    /// Returns a datagram that has arrived by now, the earliest first.
    pub fn poll_arrived(&mut self, now: Instant) -> Option<(Direction, Vec<u8>)> {
        self.under_way.peek().filter(|Reverse((at, ..))| *at <= now)?;
        let Reverse((_, _, direction, bytes)) = self.under_way.pop()?;
        self.counts.passed.fetch_add(1, Ordering::Relaxed);
        Some((direction, bytes))
    }

    /// Returns the time at which the next datagram arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.peek().map(|Reverse((at, ..))| *at)
    }
}

/// A thread that drives a link between the client that sends first and a server, until it is
/// dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    counts: Arc<Counts>,
    // The thread ends when this end of the pair is closed, and moves the client at a byte.
    alive: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Proxy {
    /// Starts a proxy for a server on this machine.
    ///
    /// # Errors
    /// The sockets cannot be made.
    pub fn start(server: SocketAddr, weather: Weather) -> io::Result<Proxy> {
        let front = UdpSocket::bind((server.ip(), 0))?;
        let back = UdpSocket::bind((server.ip(), 0))?;
        back.connect(server)?;
        for socket in [&front, &back] {
            socket.set_nonblocking(true)?;
        }
        let (alive, end) = UnixStream::pair()?;
        let address = front.local_addr()?;
        let link = Link::new(weather);
        let counts = link.counts();
        let driver = Driver { link, front, back, end, client: None, datagram: vec![0; DATAGRAM_MAX] };
        let thread = std::thread::Builder::new().name("proxy".to_owned()).spawn(|| driver.run())?;
        Ok(Proxy { address, counts, alive: Some(alive), thread: Some(thread) })
    }

    /// Returns the address for the client.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the address of the client that the server sees.
    ///
    /// # Errors
    /// The thread has ended.
    #[allow(dead_code, reason = "for the tests of the transport, which have this file, too")]
    pub fn move_client(&mut self) -> io::Result<()> {
        self.alive.as_mut().map_or(Ok(()), |alive| alive.write_all(&[1]))
    }

    /// Returns the counts up to now.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // Its result does not matter any more.
            let _ = thread.join();
        }
    }
}

/// The thread's part of a proxy.
struct Driver {
    link: Link,
    /// The socket to which the client sends.
    front: UdpSocket,
    /// The socket to which the server answers.
    back: UdpSocket,
    end: UnixStream,
    client: Option<SocketAddr>,
    datagram: Vec<u8>,
}

impl Driver {
    fn run(mut self) -> io::Result<()> {
        loop {
            let now = Instant::now();
            while let Some((direction, bytes)) = self.link.poll_arrived(now) {
                self.send(direction, &bytes)?;
            }
            let wait = self.link.poll_timeout().map(|at| at.saturating_duration_since(now));
            let wait = wait.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
            let mut ready = [
                PollFd::new(&self.front, PollFlags::IN),
                PollFd::new(&self.back, PollFlags::IN),
                PollFd::new(&self.end, PollFlags::IN),
            ];
            poll(&mut ready, wait.as_ref())?;
            let [front, back, end] = ready.map(|one| !one.revents().is_empty());
            if end {
                if self.end.read(&mut [0])? == 0 {
                    return Ok(());
                }
                let back = UdpSocket::bind((self.back.peer_addr()?.ip(), 0))?;
                back.connect(self.back.peer_addr()?)?;
                back.set_nonblocking(true)?;
                self.back = back;
                continue;
            }
            if front {
                self.receive(Direction::ToServer)?;
            }
            if back {
                self.receive(Direction::ToClient)?;
            }
        }
    }

    /// Takes all datagrams of a direction that are there.
    fn receive(&mut self, direction: Direction) -> io::Result<()> {
        loop {
            let received = match direction {
                Direction::ToServer => self.front.recv_from(&mut self.datagram).map(|(bytes, client)| {
                    self.client = Some(client);
                    bytes
                }),
                Direction::ToClient => self.back.recv(&mut self.datagram),
            };
            match received {
                Ok(bytes) => self.link.handle_datagram(Instant::now(), direction, &self.datagram[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A side that is gone, or is not there yet, takes no datagrams.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn send(&self, direction: Direction, bytes: &[u8]) -> io::Result<()> {
        let sent = match (direction, self.client) {
            (Direction::ToServer, _) => self.back.send(bytes),
            (Direction::ToClient, Some(client)) => self.front.send_to(bytes, client),
            (Direction::ToClient, None) => return Ok(()),
        };
        match sent {
            // A full queue loses datagrams, as a network does.
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Direction::{ToClient, ToServer};
    use super::*;

    /// Returns the numbers that arrive of those from 0 to `count`, sent 10 us after each other.
    fn arrivals(weather: Weather, direction: Direction, count: u32) -> Vec<u32> {
        let (mut link, mut now) = (Link::new(weather), Instant::now());
        let mut arrived = Vec::new();
        for number in 0..count {
            link.handle_datagram(now, direction, &number.to_le_bytes());
            now += Duration::from_micros(10);
            arrived.extend(std::iter::from_fn(|| link.poll_arrived(now)));
        }
        while let Some(at) = link.poll_timeout() {
            arrived.extend(link.poll_arrived(at));
        }
        assert!(arrived.iter().all(|(of, _)| *of == direction));
        arrived.iter().map(|(_, bytes)| u32::from_le_bytes(bytes[..].try_into().unwrap())).collect()
    }

    #[test]
    fn in_good_weather_all_arrive_in_order_after_the_delay() {
        let delay = Duration::from_millis(3);
        let mut link = Link::new(Weather { delay, ..Weather::default() });
        let now = Instant::now();
        link.handle_datagram(now, ToServer, b"a");
        link.handle_datagram(now, ToClient, b"b");
        link.handle_datagram(now, ToServer, b"c");
        assert_eq!(link.poll_timeout(), Some(now + delay));
        assert_eq!(link.poll_arrived(now + delay - Duration::from_nanos(1)), None);
        let arrived: Vec<_> = std::iter::from_fn(|| link.poll_arrived(now + delay)).collect();
        let expected = [(ToServer, "a"), (ToClient, "b"), (ToServer, "c")];
        assert_eq!(arrived, expected.map(|(of, bytes)| (of, bytes.as_bytes().to_vec())));
        assert_eq!(link.poll_timeout(), None);
        assert_eq!(arrivals(Weather::default(), ToClient, 100), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_seed_reproduces_the_fates() {
        let delay = Duration::from_micros(500);
        let weather = Weather { loss: 0.1, repeat: 0.1, reorder: 0.1, damage: 0.0, delay, seed: 7 };
        let once = arrivals(weather, ToServer, 1000);
        assert_eq!(once, arrivals(weather, ToServer, 1000));
        assert_ne!(once, arrivals(Weather { seed: 8, ..weather }, ToServer, 1000));
        assert_ne!(once, arrivals(weather, ToClient, 1000));
        // The other direction changes nothing.
        let (mut link, now) = (Link::new(weather), Instant::now());
        let mut of_both = Vec::new();
        for number in 0..1000_u32 {
            link.handle_datagram(now, ToClient, b"x");
            link.handle_datagram(now, ToServer, &number.to_le_bytes());
        }
        while let Some((of, bytes)) = link.poll_arrived(now + 10 * delay) {
            if of == ToServer {
                of_both.push(u32::from_le_bytes(bytes[..].try_into().unwrap()));
            }
        }
        let sorted = |mut numbers: Vec<u32>| {
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(sorted(of_both), sorted(once));
    }

    #[test]
    fn shares_are_those_of_the_weather() {
        let count = 20_000;
        let near = |value: usize, share: f64| {
            let expected = share * f64::from(count);
            assert!((value as f64 - expected).abs() < 0.15 * expected, "{value} of {expected}");
        };
        let weather = Weather { delay: Duration::from_micros(500), seed: 3, ..Weather::default() };
        near(count as usize - arrivals(Weather { loss: 0.05, ..weather }, ToServer, count).len(), 0.05);
        near(arrivals(Weather { repeat: 0.05, ..weather }, ToServer, count).len() - count as usize, 0.05);
        let reordered = arrivals(Weather { reorder: 0.05, ..weather }, ToServer, count);
        assert_eq!(reordered.len(), count as usize);
        // Each late one is followed by one that was sent before it or by the next late one.
        assert!(reordered.windows(2).filter(|two| two[0] > two[1]).count() > 500);
        assert!(arrivals(Weather { loss: 1.0, ..weather }, ToServer, 100).is_empty());
        assert_eq!(arrivals(Weather { repeat: 1.0, ..weather }, ToServer, 100).len(), 200);
    }

    #[test]
    fn a_full_queue_loses() {
        let (mut link, now) = (Link::new(Weather::default()), Instant::now());
        for _ in 0..UNDER_WAY_MAX + 5 {
            link.handle_datagram(now, ToServer, b"x");
        }
        assert_eq!(link.counts().lost.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_proxy_carries_datagrams_both_ways() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let weather = Weather { repeat: 1.0, delay: Duration::from_micros(100), ..Weather::default() };
        let proxy = Proxy::start(server.local_addr().unwrap(), weather).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(proxy.address()).unwrap();
        let limit = Some(Duration::from_secs(30));
        server.set_read_timeout(limit).unwrap();
        client.set_read_timeout(limit).unwrap();
        client.send(b"there").unwrap();
        let mut bytes = [0; 16];
        for _ in 0..2 {
            let (count, from) = server.recv_from(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"there");
            server.send_to(b"back", from).unwrap();
        }
        for _ in 0..4 {
            let count = client.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"back");
        }
        assert_eq!(proxy.counts().passed.load(Ordering::Relaxed), 6);
        assert_eq!(proxy.counts().repeated.load(Ordering::Relaxed), 3);
    }
}
