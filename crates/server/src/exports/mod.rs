//! Exports: the objects that a server offers to traders.
//!
//! Read [`Exports`] first. The state machine is [`Exporter`], which is pure; the parts around it:
//!
//! | part | owner |
//! | --- | --- |
//! | the clock, the log, the order of actions | the driver, a thread: `Driver` |
//! | the sessions with a trader, calls that wait | a thread for each trader: `session` |
//! | names and types of the exported objects | `check`, at the start |
//! | a capsule as an export | [`capsule`] |
//! | settings | `settings` |
//!
//! A trader that does not answer holds up its own thread only. The driver gives its session up
//! after a time, and makes another.

pub mod capsule;
mod check;
mod session;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_trader::exporter::{Action, Event, Exporter, Options, Via};
use bifrost_trader::property::names;
use bifrost_trader::{Export, Limits, Value};
use bifrost_transport::{Address, Pin, Stream, host};
use bifrost_wire::interface::Numbering;

pub(crate) use settings::Exported;
pub use settings::{EXPORTS_MAX, ExportConfig, ExportError, PropertyValue, TRADERS_MAX};

use session::{Job, TraderThread};

/// The properties that the server gives itself.
const GIVEN: [&str; 4] = [names::HOST, names::INCARNATION, names::STORE, names::VERSION];

/// The load of the server at this moment.
pub type Load = Box<dyn Fn() -> f64 + Send>;

/// The exports as they are told to traders.
#[derive(Debug)]
struct Offered {
    /// The interface of the server, as JSON.
    interface: String,
    /// Its digest, in hexadecimal.
    digest: String,
    exports: Vec<Export>,
}

/// The way to the traders of a process.
#[derive(Clone, Debug)]
pub struct Traders {
    /// Their URLs.
    pub urls: Vec<String>,
    /// The token for them; empty for none.
    pub token: String,
}

/// A message to the driver.
#[derive(Debug)]
enum Message {
    Event(Event),
    /// A session has not begun, or has ended, for this reason.
    Lost(Via, String),
    /// The reason of the refusal that follows.
    Why(Via, usize, String),
}

/// The numbers of exports at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExportsMeasured {
    /// The exports, each counted for every trader.
    pub wanted: u64,
    /// Those that have a lease.
    pub held: u64,
    /// Traders with a session.
    pub traders: u64,
}

/// The state of the exports, which the driver notes.
#[derive(Debug, Default)]
pub(crate) struct State {
    wanted: u64,
    held: AtomicU64,
    traders: AtomicU64,
}

impl State {
    /// Returns the numbers of now.
    pub fn measured(&self) -> ExportsMeasured {
        ExportsMeasured {
            wanted: self.wanted,
            held: self.held.load(Ordering::Relaxed),
            traders: self.traders.load(Ordering::Relaxed),
        }
    }
}

/// The exports of a running process. Dropping them withdraws them.
#[derive(Debug)]
pub struct Exports {
    events: Sender<Message>,
    driver: Option<JoinHandle<()>>,
    state: Arc<State>,
}

/// The parts of the server that its exports tell.
pub(crate) struct Exporting<'s> {
    /// The addresses of the listeners.
    pub addresses: &'s [Address],
    /// The pin of a certificate that no authority has signed.
    pub pin: Option<Pin>,
    pub numbering: &'s Numbering,
    /// The identity of the store.
    pub store: String,
    pub load: Load,
}

impl Exports {
    /// Looks the exported names up over a stream to the server, and begins to export.
    ///
    /// # Errors
    /// A sentence about the first export that cannot be.
    pub(crate) fn start(
        exported: Exported,
        exporting: Exporting<'_>,
        client: Stream,
    ) -> Result<Exports, String> {
        let Exported { traders, token, advertise, mut exports } = exported;
        let Exporting { addresses, pin, numbering, store, load } = exporting;
        check::check(client, numbering, &exports)?;
        let addresses = if advertise.is_empty() { addresses } else { &advertise };
        let addresses: Vec<String> = addresses.iter().map(|address| with_pin(address, pin)).collect();
        for export in &mut exports {
            export.addresses.clone_from(&addresses);
            if !store.is_empty() {
                export.properties.set(names::STORE, Value::String(store.clone()));
            }
        }
        Exports::begin(Traders { urls: traders, token }, numbering, exports, load)
    }

    /// Begins to export objects with this interface. The properties `host`, `incarnation` and
    /// `version` are added.
    ///
    /// # Errors
    /// A sentence about the first export that cannot be, or the system has no thread.
    pub fn begin(
        traders: Traders,
        numbering: &Numbering,
        mut exports: Vec<Export>,
        load: Load,
    ) -> Result<Exports, String> {
        let Traders { urls, token } = traders;
        let mut incarnation = [0; 16];
        getrandom::fill(&mut incarnation).map_err(|why| why.to_string())?;
        let incarnation = u128::from_le_bytes(incarnation);
        let given = [
            (names::HOST, host().unwrap_or_default()),
            (names::INCARNATION, format!("{incarnation:032x}")),
            (names::VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        ];
        for export in &mut exports {
            export.digest = *numbering.digest();
            for (name, value) in given.iter().filter(|(_, value)| !value.is_empty()) {
                export.properties.set(name, Value::String(value.clone()));
            }
            export
                .check(&Limits::default())
                .map_err(|why| format!("`{}` cannot be exported: {why}", export.name))?;
        }
        let leases = exports.iter().map(|export| Limits::default().lease_ms(export.lease_ms));
        let options = Options::for_lease(leases.min().unwrap_or(Limits::default().lease_ms_default));
        let interface = String::from_utf8_lossy(&numbering.interface().to_json()).into_owned();
        let digest = bifrost_veneer::trader::hex(numbering.digest());
        let offered = Arc::new(Offered { interface, digest, exports });
        let state =
            Arc::new(State { wanted: (urls.len() * offered.exports.len()) as u64, ..State::default() });
        let (events, received) = channel();
        let seed = incarnation as u64;
        let exporter = Exporter::new(options.clone(), urls.len(), offered.exports.len(), seed, 0);
        let answer = Duration::from_millis(options.answer_ms);
        let start = |url: String| -> std::io::Result<Link> {
            let (jobs, taken) = channel();
            let newest = Arc::new(AtomicU64::new(0));
            let thread = TraderThread {
                url: url.clone(),
                token: token.clone(),
                answer,
                offered: offered.clone(),
                jobs: taken,
                events: events.clone(),
                newest: newest.clone(),
            };
            std::thread::Builder::new().name("trader".to_owned()).spawn(move || thread.run())?;
            let refused = vec![String::new(); offered.exports.len()];
            Ok(Link { url, jobs, newest, is_up: false, was_told_lost: false, refused })
        };
        let system = |why: std::io::Error| format!("the system refused a thread: {why}");
        let links = urls.into_iter().map(start).collect::<Result<Vec<_>, _>>().map_err(system)?;
        let noted = state.clone();
        let begun = Instant::now();
        let driver = Driver { exporter, links, offered: offered.clone(), load, state: noted, answer, begun };
        let run = move || driver.run(&received);
        let driver = std::thread::Builder::new().name("exports".to_owned()).spawn(run).map_err(system)?;
        Ok(Exports { events, driver: Some(driver), state })
    }

    /// Returns the state, which the driver goes on to note.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.clone()
    }
}

impl Drop for Exports {
    /// Withdraws all exports; traders that do not answer are not waited for long.
    fn drop(&mut self) {
        let _ = self.events.send(Message::Event(Event::Stop));
        if let Some(driver) = self.driver.take() {
            // A driver that panicked has stopped too.
            let _ = driver.join();
        }
    }
}

/// Returns an address as it is advertised: with the pin of the server, if clients need it.
fn with_pin(address: &Address, pin: Option<Pin>) -> String {
    match (address, pin) {
        (
            Address::Tls { pin: None, .. } | Address::Quic { pin: None, .. } | Address::Wss { pin: None, .. },
            Some(pin),
        ) => address.clone().with_pin(pin).to_string(),
        _ => address.to_string(),
    }
}

/// The driver's side of a trader.
struct Link {
    url: String,
    jobs: Sender<Job>,
    newest: Arc<AtomicU64>,
    is_up: bool,
    /// True if the log has it that the trader is away.
    was_told_lost: bool,
    /// For each export, the reason for which it was refused last.
    refused: Vec<String>,
}

impl Link {
    fn send(&self, job: Job) {
        // A thread that has panicked does not answer, which is noticed.
        let _ = self.jobs.send(job);
    }

    fn is_newest(&self, via: Via) -> bool {
        self.newest.load(Ordering::Relaxed) == via.attempt
    }

    fn tell_lost(&mut self, why: &str) {
        self.is_up = false;
        match std::mem::replace(&mut self.was_told_lost, true) {
            false => tracing::warn!(trader = self.url, why, "trader.lost"),
            true => tracing::debug!(trader = self.url, why, "trader.away"),
        }
    }
}

/// The thread that decides.
struct Driver {
    exporter: Exporter,
    links: Vec<Link>,
    offered: Arc<Offered>,
    load: Load,
    state: Arc<State>,
    answer: Duration,
    begun: Instant,
}

impl Driver {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let now = self.now();
            while let Some(action) = self.exporter.poll(now) {
                if action == Action::Stopped {
                    return self.note();
                }
                self.act(action);
            }
            self.note();
            let message = match self.exporter.next_deadline() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => {
                    let wait = at.saturating_sub(self.now()).max(1);
                    messages.recv_timeout(Duration::from_millis(wait))
                }
            };
            match message {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let now = self.now();
                    self.exporter.handle(Event::Stop, now);
                }
            }
            while let Ok(message) = messages.try_recv() {
                self.take(message);
            }
        }
    }

    /// Notes the numbers for the metrics.
    fn note(&self) {
        let held = (0..self.links.len()).map(|trader| self.exporter.held(trader) as u64).sum();
        self.state.held.store(held, Ordering::Relaxed);
        let traders = self.links.iter().filter(|link| link.is_up).count();
        self.state.traders.store(traders as u64, Ordering::Relaxed);
    }

    fn act(&mut self, action: Action) {
        let load = match action {
            Action::Export(..) | Action::Renew(..) => (self.load)(),
            _ => 0.0,
        };
        let (via, job) = match action {
            Action::Connect(via) => (via, Job::Connect(via)),
            Action::Close(via) => (via, Job::Close(via)),
            Action::Teach(via, at) => (via, Job::Teach(via, at)),
            Action::Export(via, at) => (via, Job::Export(via, at, load)),
            Action::Renew(via, at) => (via, Job::Renew(via, at, load)),
            Action::Withdraw(via, at) => (via, Job::Withdraw(via, at)),
            Action::Stopped => return,
        };
        let Some(link) = self.links.get_mut(via.trader) else { return };
        match job {
            Job::Connect(via) => link.newest.store(via.attempt, Ordering::Release),
            Job::Close(_) => {
                let why = format!("it has not answered within {} ms", self.answer.as_millis());
                link.tell_lost(&why);
            }
            _ => {}
        }
        link.send(job);
    }

    fn take(&mut self, message: Message) {
        let event = match message {
            Message::Event(event) => event,
            Message::Lost(via, why) => {
                if let Some(link) = self.links.get_mut(via.trader).filter(|link| link.is_newest(via)) {
                    link.tell_lost(&why);
                }
                Event::Lost(via)
            }
            Message::Why(via, at, why) => return self.tell_refused(via, at, why),
        };
        self.tell(event);
        let now = self.now();
        self.exporter.handle(event, now);
    }

    fn tell_refused(&mut self, via: Via, at: usize, why: String) {
        let (Some(link), Some(export)) = (self.links.get_mut(via.trader), self.offered.exports.get(at))
        else {
            return;
        };
        let Some(before) = link.refused.get_mut(at).filter(|before| **before != why) else { return };
        let (trader, name, service) = (&link.url, &export.name, &export.service);
        tracing::warn!(trader, name, service, why, "export.refused");
        *before = why;
    }

    /// Writes an event to the log.
    fn tell(&mut self, event: Event) {
        let (Event::Connected(via)
        | Event::Exported(via, ..)
        | Event::Gone(via, _)
        | Event::Withdrawn(via, _)
        | Event::UnknownInterface(via, _)
        | Event::Taught(via, _)) = event
        else {
            return;
        };
        let Some(link) = self.links.get_mut(via.trader).filter(|link| link.is_newest(via)) else { return };
        let trader = &link.url;
        match event {
            Event::Connected(_) => {
                (link.is_up, link.was_told_lost) = (true, false);
                tracing::info!(trader, "trader.connected");
            }
            Event::Exported(_, at, due_ms) => {
                if let Some(refused) = link.refused.get_mut(at) {
                    refused.clear();
                }
                let name = self.offered.exports.get(at).map(|export| &*export.name);
                tracing::info!(trader, name, due_ms, "export.held");
            }
            Event::Gone(_, at) => {
                let name = self.offered.exports.get(at).map(|export| &*export.name);
                tracing::info!(trader, name, "export.gone");
            }
            Event::Withdrawn(_, at) => {
                let name = self.offered.exports.get(at).map(|export| &*export.name);
                tracing::info!(trader, name, "export.withdrawn");
            }
            _ => {}
        }
    }
}
