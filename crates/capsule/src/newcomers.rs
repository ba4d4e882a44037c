//! [`Newcomers`]: connections before their greeting.
//!
//! Such a connection costs its listener a thread and descriptors, and its peer nothing. So there
//! are bounds: for all together, and for each [`Origin`]. At a bound the oldest connection whose
//! peer is silent makes way, so that silent strangers keep nobody out. A connection whose bytes
//! wait to be read is not silent, for the first second.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use bifrost_transport::{Address, Shortage, Stream, StreamStopper};

/// The time for which unread bytes keep a connection from making way: its thread may not have run
/// yet.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// The place that a connection comes from, as far as bounds are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// A process of this machine, through a unix socket that only this user can reach.
    Local,
    /// An IPv4 address, or the first half of an IPv6 address: its owner chooses the second half.
    Address(IpAddr),
}

impl Origin {
    /// The origin of a stream.
    pub fn of(stream: &Stream) -> Origin {
        match stream.peer_ip() {
            None => Origin::Local,
            Some(IpAddr::V6(ip)) => {
                Origin::Address(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into())
            }
            Some(ip) => Origin::Address(ip),
        }
    }
}

/// The most connections that may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// All together.
    pub all: usize,
    /// Those of one origin.
    pub of_origin: usize,
    /// Those whose handshake of TLS is not over.
    pub handshakes: usize,
}

/// Most handshakes of TLS under way, if the user of a listener does not say.
pub const HANDSHAKES_MAX: usize = 64;

/// The bound that a connection would have exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// That of all together.
    All,
    /// That of its origin.
    OfOrigin,
    /// That of handshakes.
    Handshakes,
}

/// Connections before their greeting.
#[derive(Debug)]
pub struct Newcomers {
    bounds: Bounds,
    /// By number; the oldest has the lowest.
    waiting: BTreeMap<u64, Newcomer>,
    last: u64,
}

#[derive(Debug)]
struct Newcomer {
    origin: Origin,
    stopper: StreamStopper,
    since: Instant,
    /// It was told to end, and does not count any more.
    leaves: bool,
    /// Its peer has greeted, and it does not make way any more.
    heard: bool,
}

impl Newcomers {
    /// No connections, and their bounds.
    pub fn new(bounds: Bounds) -> Newcomers {
        Newcomers { bounds, waiting: BTreeMap::new(), last: 0 }
    }

    /// Enters a connection, and returns its number. Where there are too many, the oldest silent one
    /// is told to end: its reads say `Stopped`.
    ///
    /// # Errors
    /// The bound, if no connection makes way.
    pub fn enter(&mut self, stream: &Stream) -> Result<u64, Full> {
        let origin = Origin::of(stream);
        let comes_from = |newcomer: &Newcomer| newcomer.origin == origin;
        // Processes of this machine have the bound of all.
        if origin != Origin::Local && self.count(origin) >= self.bounds.of_origin && !self.dismiss(comes_from)
        {
            return Err(Full::OfOrigin);
        }
        let shakes_hands = |newcomer: &Newcomer| !newcomer.stopper.is_established();
        if !stream.is_established()
            && self.waiting.values().filter(|one| !one.leaves && shakes_hands(one)).count()
                >= self.bounds.handshakes
            && !self.dismiss(shakes_hands)
        {
            return Err(Full::Handshakes);
        }
        if self.len() >= self.bounds.all && !self.dismiss_any() {
            return Err(Full::All);
        }
        self.last += 1;
        let since = Instant::now();
        let newcomer = Newcomer { origin, stopper: stream.stopper(), since, leaves: false, heard: false };
        self.waiting.insert(self.last, newcomer);
        Ok(self.last)
    }

    /// Notes the greeting of a connection's peer. False if the connection was told to end before.
    pub fn hear(&mut self, number: u64) -> bool {
        let Some(newcomer) = self.waiting.get_mut(&number) else { return false };
        newcomer.heard = true;
        !newcomer.leaves
    }

    /// Removes a connection: its peer has greeted, or it has ended.
    pub fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// The number of connections that wait for their peer.
    pub fn len(&self) -> usize {
        self.waiting.values().filter(|newcomer| !newcomer.leaves).count()
    }

    /// True if none is left, of those that were told to end either.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The means to end each connection.
    pub fn stoppers(&self) -> impl Iterator<Item = &StreamStopper> {
        self.waiting.values().map(|newcomer| &newcomer.stopper)
    }

    fn count(&self, origin: Origin) -> usize {
        self.waiting.values().filter(|newcomer| !newcomer.leaves && newcomer.origin == origin).count()
    }

    /// The origins of connections, that of most first.
    fn origins(&self) -> Vec<Origin> {
        let mut counts: HashMap<Origin, usize> = HashMap::new();
        for newcomer in self.waiting.values().filter(|newcomer| !newcomer.leaves) {
            *counts.entry(newcomer.origin).or_default() += 1;
        }
        let mut origins: Vec<(Origin, usize)> = counts.into_iter().collect();
        origins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        origins.into_iter().map(|(origin, _)| origin).collect()
    }

    /// Tells the oldest silent connection to end, of the origin that has most.
    fn dismiss_any(&mut self) -> bool {
        self.origins().into_iter().any(|origin| self.dismiss(|newcomer| newcomer.origin == origin))
    }

    /// Tells the oldest silent connection of a kind to end. False if each has words that wait to be
    /// read.
    fn dismiss(&mut self, is_of_kind: impl Fn(&Newcomer) -> bool) -> bool {
        let mut of_kind =
            self.waiting.values_mut().filter(|newcomer| !newcomer.leaves && is_of_kind(newcomer));
        let silent = |newcomer: &&mut Newcomer| {
            let had_time = newcomer.since.elapsed() > HEARD_WITHIN;
            !newcomer.heard && (had_time || newcomer.stopper.is_silent())
        };
        let Some(oldest) = of_kind.find(silent) else { return false };
        oldest.leaves = true;
        oldest.stopper.stop_reading();
        true
    }
}

/// Logs that connections cannot be taken, or can again.
pub fn tell_shortage(address: &Address, shortage: &Shortage) {
    match shortage {
        Shortage::Begins(error) => tracing::warn!(
            %address,
            %error,
            "accept.waits: new connections wait until there is room for them"
        ),
        Shortage::Ends(after) => {
            tracing::warn!(%address, seconds = after.as_secs(), "accept.goes_on: connections are taken again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bifrost_transport::ReadError;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    #[test]
    fn the_oldest_silent_connection_makes_way() {
        let mut newcomers = Newcomers::new(Bounds { all: 2, of_origin: 1, handshakes: HANDSHAKES_MAX });
        let pairs: Vec<_> = (0..5).map(|_| Stream::pair().unwrap()).collect();
        let [(one, mut first), (two, _second), (three, mut third), (four, _), (five, _)] =
            pairs.try_into().unwrap();
        first.write(b"words", SOON).unwrap();
        let number = newcomers.enter(&one).unwrap();
        newcomers.enter(&two).unwrap();
        newcomers.enter(&three).unwrap();
        let mut two = two;
        assert!(matches!(two.read(&mut Vec::new(), 1, SOON), Err(ReadError::Stopped)));
        assert_eq!((newcomers.len(), newcomers.stoppers().count()), (2, 3));
        // With words in all there is nobody to dismiss, until a place is given up.
        third.write(b"words", SOON).unwrap();
        assert_eq!(newcomers.enter(&four), Err(Full::All));
        newcomers.leave(number);
        newcomers.enter(&five).unwrap();
        drop((one, three));
    }
}
