//! Carries out the actions of `bifrost_trader::importer`: threads ask traders and dial servers.
//!
//! [`Search`] has the settings. [`Searcher`] is a search with the server that it has found; its
//! loop polls the importer, starts a thread for each question and each address, and takes what they
//! report:
//!
//! ```text
//! poll: Ask   --> a thread: session with the trader, `find`      --> Found, AskFailed
//! poll: Dial  --> a thread: connection, greeting, the object     --> Opened, DialFailed
//! poll: Use   --> returned;   poll: Fail --> the error, with the last failure of each place
//! ```
//!
//! A thread whose result is not needed any more ends by itself, within the patience of the
//! importer, and closes its connection.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder as ThreadBuilder;
use std::time::{Duration, Instant};

use bifrost_recorder::{Closed, Error, Stubs};
use bifrost_trader::Offer;
use bifrost_trader::failover::Next;
use bifrost_trader::importer::{Action, AskId, DialId, Event, Failure, Importer, Options};
use bifrost_trader::url::{TraderUrl, addresses};
use bifrost_transport::{Address, KeyFiles, TlsOptions, host};
use bifrost_wire::ErrorNumber;

use crate::Imported;
use crate::dial::{Options as SessionOptions, TIMEOUT};
use crate::error::ConnectError;
use crate::trader::{self, Place, hex};

/// The variable with the traders that `trader:///Service` asks.
pub const TRADERS: &str = "BIFROST_TRADER";

/// The variable with the token for traders.
pub const TRADER_TOKEN: &str = "BIFROST_TRADER_TOKEN";

/// The most traders of a search.
pub const TRADERS_MAX: usize = 16;

/// The most failures that an [`ImportError`] lists: the last one of each place.
pub const ATTEMPTS_MAX: usize = 8;

/// The longest time that one trader or one server is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The time for which traders are waited for that answer later than the first one.
const LATE: Duration = Duration::from_secs(1);

/// The schemes of servers that a blocking session can use.
const SCHEMES: [&str; 7] = ["shm", "unix", "tls", "quic", "tcp", "wss", "ws"];

/// A search for servers of a service, by a URL such as `trader://host/DataBase?region=eu`.
///
/// Client libraries import with it; so do programs that have no stubs, or connect to the servers in
/// a way of their own.
#[derive(Clone, Debug)]
pub struct Search {
    url: TraderUrl,
    traders: Vec<Address>,
    stubs: Option<&'static Stubs>,
    token: String,
    client: String,
    tls: TlsOptions,
    timeout: Duration,
    schemes: Vec<&'static str>,
    host: Option<String>,
}

/// The reason why no server was imported, with the last failure of each trader and server.
#[derive(Debug, thiserror::Error)]
pub struct ImportError {
    /// The service.
    pub service: String,
    /// The step that failed.
    pub failure: Failure,
    /// The places that were tried, each with its last failure; the last [`ATTEMPTS_MAX`].
    pub attempts: Vec<Attempt>,
}

/// A trader or server that was tried.
#[derive(Debug)]
pub struct Attempt {
    /// Its address.
    pub place: String,
    /// Its last failure.
    pub why: ConnectError,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot import `{}`: {}", self.service, self.failure)?;
        self.attempts.iter().try_for_each(|attempt| write!(f, "; {}: {}", attempt.place, attempt.why))
    }
}

impl Search {
    /// Begins with the defaults for a URL. The traders are those of the URL, or of the variable
    /// `BIFROST_TRADER` if it names none; the token for them is that of `BIFROST_TRADER_TOKEN`.
    ///
    /// # Errors
    /// The URL is none, or there is no trader to ask.
    pub fn new(url: &str) -> Result<Search, ConnectError> {
        let url = TraderUrl::parse(url)?;
        let traders = match url.trader() {
            Some(trader) => vec![trader.parse()?],
            None => {
                let list = std::env::var(TRADERS).unwrap_or_default();
                addresses(&list).map(str::parse).collect::<Result<Vec<Address>, _>>()?
            }
        };
        if traders.is_empty() {
            return Err(ConnectError::NoTraders);
        }
        if traders.len() > TRADERS_MAX {
            return Err(ConnectError::TooManyTraders { traders: traders.len() });
        }
        Ok(Search {
            url,
            traders,
            stubs: None,
            token: std::env::var(TRADER_TOKEN).unwrap_or_default(),
            client: String::new(),
            tls: TlsOptions::default(),
            timeout: TIMEOUT,
            schemes: SCHEMES.to_vec(),
            host: host(),
        })
    }

    /// Has only servers found whose interface conforms to that of these stubs. Default: any.
    pub fn stubs(mut self, stubs: &'static Stubs) -> Search {
        self.stubs = Some(stubs);
        self
    }

    /// Sets the token for the traders, in place of that of `BIFROST_TRADER_TOKEN`.
    pub fn token(mut self, token: impl Into<String>) -> Search {
        self.token = token.into();
        self
    }

    /// Sets the client's name in the logs of traders. Default: empty.
    pub fn name(mut self, name: impl Into<String>) -> Search {
        self.client = name.into();
        self
    }

    /// Sets the longest time of the search. Default: 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Search {
        self.timeout = timeout;
        self
    }

    /// Sets the file of the authorities for traders, in PEM.
    pub fn authorities(mut self, file: impl Into<PathBuf>) -> Search {
        self.tls.authorities = Some(file.into());
        self
    }

    /// Sets the client's own certificate for traders, in PEM.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Search {
        self.tls.certificate = Some(KeyFiles { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Sets the trust in traders over TLS, and the client's own certificate.
    pub fn tls(mut self, tls: TlsOptions) -> Search {
        self.tls = tls;
        self
    }

    /// Leaves servers out that a session to be awaited cannot use.
    pub fn awaited(mut self) -> Search {
        self.schemes.retain(|scheme| *scheme != "shm");
        self
    }

    /// Returns the service.
    pub fn service(&self) -> &str {
        self.url.service()
    }

    pub(crate) fn url(&self) -> &TraderUrl {
        &self.url
    }

    pub(crate) fn traders(&self) -> &[Address] {
        &self.traders
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    pub(crate) fn schemes(&self) -> &[&'static str] {
        &self.schemes
    }

    /// Asks all traders at once, and returns their offers, each once: at most `most` of each
    /// trader, 0 for its default. The preferred ones of the trader that answered first come first.
    ///
    /// # Errors
    /// No trader has answered within 5 s, or the time of the search. No offer is no error.
    pub fn offers(&self, most: u32) -> Result<Vec<Offer>, ConnectError> {
        let mut deadline = Instant::now() + self.timeout.min(PATIENCE);
        let (sender, receiver) = channel();
        for trader in 0..self.traders.len() {
            let (search, sender) = (self.clone(), sender.clone());
            spawn(move || {
                let within = deadline.saturating_duration_since(Instant::now());
                drop(sender.send((trader, search.ask(trader, most, within))));
            })?;
        }
        drop(sender);
        let (mut offers, mut attempts, mut has_answer) = (Vec::<Offer>::new(), Vec::new(), false);
        while let Ok((trader, answer)) =
            receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            match answer {
                Ok(found) => {
                    has_answer = true;
                    deadline = deadline.min(Instant::now() + LATE);
                    for offer in found {
                        if !offers.iter().any(|known| is_same(known, &offer)) {
                            offers.push(offer);
                        }
                    }
                }
                Err(why) => {
                    let place = self.traders.get(trader).map(Address::to_string).unwrap_or_default();
                    attempts.push(Attempt { place, why });
                }
            }
        }
        match has_answer {
            true => Ok(offers),
            false => Err(self.error(Failure::NoTrader, attempts)),
        }
    }

    /// Connects to a server: `dial` does so with the offer, an address of it and the longest time,
    /// on a thread of its own, and for several addresses at once if some are slow. Its first
    /// success counts; others are dropped.
    ///
    /// # Errors
    /// No server was found within the time.
    pub fn connect<C: Send + 'static>(
        self,
        dial: impl Fn(&Offer, &Address, Duration) -> Result<C, ConnectError> + Send + Sync + 'static,
    ) -> Result<(C, Imported), ConnectError> {
        Searcher::new(self, Arc::new(dial)).search(None)
    }

    pub(crate) fn error(&self, failure: Failure, attempts: Vec<Attempt>) -> ConnectError {
        let service = self.url.service().to_owned();
        ConnectError::Import(Box::new(ImportError { service, failure, attempts }))
    }

    /// Opens a session with a trader.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub(crate) fn session(&self, trader: usize, timeout: Duration) -> Result<trader::Session, ConnectError> {
        let address = self.traders.get(trader).ok_or(ConnectError::NoTraders)?;
        let mut options = SessionOptions::new(trader::stubs());
        options.token.clone_from(&self.token);
        options.client.clone_from(&self.client);
        options.tls = trust(&self.tls, address);
        options.timeout = timeout;
        trader::Session::open(&options, address)
    }

    /// Asks a trader.
    fn ask(&self, trader: usize, most: u32, within: Duration) -> Result<Vec<Offer>, ConnectError> {
        let found = self.find(&mut self.session(trader, within)?, most);
        found.map(|found| found.0).map_err(ConnectError::Trader)
    }

    /// Calls `find`, and teaches the trader the client's interface if it does not know it. True if
    /// these are all offers.
    ///
    /// # Errors
    /// The trader has refused the question, or is lost.
    pub(crate) fn find(
        &self,
        session: &mut trader::Session,
        most: u32,
    ) -> Result<(Vec<Offer>, bool), Error<Place>> {
        let digest = self.stubs.map(|stubs| hex(&stubs.digest)).unwrap_or_default();
        let (service, query) = (self.url.service(), self.url.query());
        let host = self.host.as_deref().unwrap_or_default();
        match (session.find(service, &digest, query, most, host), self.stubs) {
            (Err(why), Some(stubs)) if is_signal(&why, "unknown_interface") => {
                session.clear_exceptions();
                session.teach(stubs.json)?;
                session.find(service, &digest, query, most, host)
            }
            (found, _) => found,
        }
    }
}

/// True if a call has signalled an exception of this name.
fn is_signal(error: &Error<Place>, wanted: &str) -> bool {
    matches!(error.root(), Error::Signal { name, .. } if **name == *wanted)
}

/// True if two offers are of the same object of the same server.
pub(crate) fn is_same(a: &Offer, b: &Offer) -> bool {
    a.name == b.name && a.service == b.service && a.addresses == b.addresses
}

/// Returns the options of TLS for an address: a pin needs no authorities.
pub(crate) fn trust(tls: &TlsOptions, address: &Address) -> TlsOptions {
    let mut tls = tls.clone();
    if address.pin().is_some() {
        tls.authorities = None;
    }
    tls
}

/// Starts a thread.
///
/// # Errors
/// The system has none.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> Result<(), ConnectError> {
    let thread = ThreadBuilder::new().name("bifrost-import".to_owned()).spawn(work);
    thread.map(drop).map_err(ConnectError::Thread)
}

/// True for a failure that the next try has too: a refusal, a setting, a server of another kind.
fn is_final(why: &ConnectError) -> bool {
    match why {
        ConnectError::Closed(Closed::ByServer { number, .. }) => *number == ErrorNumber::BadToken as u32,
        ConnectError::Trader(error) => !matches!(error, Error::Closed(_)),
        ConnectError::Object(_) => true,
        ConnectError::Connect(why) => matches!(
            why,
            bifrost_transport::ConnectError::Tls { .. }
                | bifrost_transport::ConnectError::Certificates(_)
                | bifrost_transport::ConnectError::TwoTrusts { .. }
                | bifrost_transport::ConnectError::PathTooLong { .. }
                | bifrost_transport::ConnectError::NotPrivate { .. }
        ),
        ConnectError::Address(_) | ConnectError::Version { .. } | ConnectError::PlainToken { .. } => true,
        _ => false,
    }
}

/// The function that connects to a server.
pub type Dialer<C> = Arc<dyn Fn(&Offer, &Address, Duration) -> Result<C, ConnectError> + Send + Sync>;

/// The report of a thread.
enum Report<C> {
    Asked(AskId, usize, Result<Vec<Offer>, ConnectError>),
    Dialled(DialId, Arc<str>, Result<C, ConnectError>),
}

/// A search, and the server that it has found.
pub struct Searcher<C> {
    search: Arc<Search>,
    dialer: Dialer<C>,
    importer: Importer,
    began: Instant,
    /// The offers of the last answers, for a service that looks for new servers.
    seen: Vec<Offer>,
}

/// The state of one search.
struct Round<C> {
    sender: Sender<Report<C>>,
    receiver: Receiver<Report<C>>,
    opened: BTreeMap<DialId, C>,
    attempts: Vec<Attempt>,
    /// The traders that will answer the same the next time: not at all.
    refusing: Vec<usize>,
    /// The failures of servers since the last pause: those that the next try has too, and others.
    final_failures: usize,
    other_failures: usize,
}

impl<C: Send + 'static> Searcher<C> {
    /// Makes the searcher of a search, with the function that connects to a server.
    pub fn new(search: Search, dialer: Dialer<C>) -> Searcher<C> {
        let options = Options {
            patience_ms: millis(search.timeout.min(PATIENCE)),
            timeout_ms: Some(millis(search.timeout)),
            host: search.host.clone(),
            schemes: search.schemes.clone(),
            ..Options::default()
        };
        let seed = std::hash::RandomState::new().hash_one(0);
        let importer = Importer::new(options, search.traders.len(), seed, 0);
        Searcher { search: Arc::new(search), dialer, importer, began: Instant::now(), seen: Vec::new() }
    }

    pub(crate) fn settings(&self) -> &Arc<Search> {
        &self.search
    }

    pub(crate) fn dialer(&self) -> &Dialer<C> {
        &self.dialer
    }

    pub(crate) fn seen(&self) -> &[Offer] {
        &self.seen
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// Takes a server as the one in use that was connected to by another way.
    pub fn moved(&mut self, imported: &Imported) {
        self.importer.moved(imported.shared_offer().clone());
    }

    /// Lifts the bound to one store.
    pub fn release_store(&mut self) {
        self.importer.release_store();
    }

    /// Finds a server and connects to it; after a loss, as the step says. Not again after an
    /// error.
    ///
    /// # Errors
    /// No server was found within the time.
    pub fn search(&mut self, lost: Option<Next>) -> Result<(C, Imported), ConnectError> {
        let (sender, receiver) = channel();
        let mut round = Round {
            sender,
            receiver,
            opened: BTreeMap::new(),
            attempts: Vec::new(),
            refusing: Vec::new(),
            final_failures: 0,
            other_failures: 0,
        };
        if let Some(next) = lost {
            let now = self.now();
            self.importer.handle(Event::Lost(next), now);
        }
        loop {
            let now = self.now();
            while let Some(action) = self.importer.poll(now) {
                match action {
                    Action::Ask(id, trader) => self.ask(&round, id, trader),
                    Action::Dial(id, offer, address) => self.dial(&round, id, offer, address),
                    Action::Cancel(id) => drop(round.opened.remove(&id)),
                    Action::Fail(failure) => return Err(self.search.error(failure, round.attempts)),
                    Action::Use(id, offer, address) => match round.opened.remove(&id) {
                        Some(connection) => return Ok((connection, Imported::new(offer, address))),
                        None => {
                            return Err(self.search.error(Failure::NoServer { offers: 1 }, round.attempts));
                        }
                    },
                }
            }
            if self.is_vain(&mut round) {
                self.importer.give_up();
                continue;
            }
            let report = match self.importer.next_deadline() {
                None => round.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => {
                    let left = Duration::from_millis(until.saturating_sub(self.now()));
                    round.receiver.recv_timeout(left)
                }
            };
            if let Ok(report) = report {
                self.take(&mut round, report);
            }
        }
    }

    /// True if no later round can have another end.
    fn is_vain(&self, round: &mut Round<C>) -> bool {
        if round.refusing.len() >= self.search.traders.len() {
            return true;
        }
        if !self.importer.is_pausing() {
            return false;
        }
        let (finals, others) =
            (std::mem::take(&mut round.final_failures), std::mem::take(&mut round.other_failures));
        finals > 0 && others == 0
    }

    fn ask(&self, round: &Round<C>, id: AskId, trader: usize) {
        let (search, sender) = (self.search.clone(), round.sender.clone());
        let within = search.timeout.min(PATIENCE);
        let spawned = spawn(move || {
            let answer = search.ask(trader, 0, within);
            drop(sender.send(Report::Asked(id, trader, answer)));
        });
        if let Err(why) = spawned {
            drop(round.sender.send(Report::Asked(id, trader, Err(why))));
        }
    }

    fn dial(&self, round: &Round<C>, id: DialId, offer: Arc<Offer>, address: Arc<str>) {
        let (dialer, sender, place) = (self.dialer.clone(), round.sender.clone(), address.clone());
        let within = self.search.timeout.min(PATIENCE);
        let spawned = spawn(move || {
            let parsed: Result<Address, ConnectError> = address.parse().map_err(ConnectError::from);
            let dialled = parsed.and_then(|parsed| dialer(&offer, &parsed, within));
            // If nobody takes it, the connection ends here.
            drop(sender.send(Report::Dialled(id, address, dialled)));
        });
        if let Err(why) = spawned {
            drop(round.sender.send(Report::Dialled(id, place, Err(why))));
        }
    }

    /// Hands a report to the importer.
    fn take(&mut self, round: &mut Round<C>, report: Report<C>) {
        let now = self.now();
        let event = match report {
            Report::Asked(id, trader, Ok(offers)) => {
                round.refusing.retain(|refusing| *refusing != trader);
                self.seen.clone_from(&offers);
                Event::Found(id, offers)
            }
            Report::Asked(id, trader, Err(why)) => {
                if is_final(&why) && !round.refusing.contains(&trader) {
                    round.refusing.push(trader);
                }
                let place = self.search.traders.get(trader).map(Address::to_string).unwrap_or_default();
                round.note(place, why);
                Event::AskFailed(id)
            }
            Report::Dialled(id, _, Ok(connection)) => {
                round.opened.insert(id, connection);
                Event::Opened(id)
            }
            Report::Dialled(id, place, Err(why)) => {
                match is_final(&why) {
                    true => round.final_failures += 1,
                    false => round.other_failures += 1,
                }
                round.note(place.to_string(), why);
                Event::DialFailed(id)
            }
        };
        self.importer.handle(event, now);
    }
}

impl<C> Round<C> {
    /// Notes the last failure of a place.
    fn note(&mut self, place: String, why: ConnectError) {
        self.attempts.retain(|attempt| attempt.place != place);
        if self.attempts.len() >= ATTEMPTS_MAX {
            self.attempts.remove(0);
        }
        self.attempts.push(Attempt { place, why });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_failures_are_listed() {
        let search = Search::new("trader+tcp://127.0.0.1:1/Store").unwrap();
        let (sender, receiver) = channel::<Report<()>>();
        let mut round = Round {
            sender,
            receiver,
            opened: BTreeMap::new(),
            attempts: Vec::new(),
            refusing: Vec::new(),
            final_failures: 0,
            other_failures: 0,
        };
        for number in 0..=ATTEMPTS_MAX {
            round.note(format!("tcp://h:{number}"), ConnectError::NoTraders);
        }
        round.note("tcp://h:3".to_owned(), ConnectError::Trace("x".to_owned()));
        assert_eq!(round.attempts.len(), ATTEMPTS_MAX);
        let told = search.error(Failure::NoTrader, round.attempts).to_string();
        assert!(told.starts_with("cannot import `Store`: no trader has answered; tcp://h:1: "), "{told}");
        assert!(told.ends_with("; tcp://h:3: `x` is no `traceparent` of W3C Trace Context"), "{told}");
    }
}
