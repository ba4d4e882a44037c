//! A client's side of an import, as a state machine.
//!
//! It asks the traders in random order, the next one after 250 ms, and dials the addresses of the
//! offers that they find, the next one after 250 ms. It moves no bytes: [`Importer::poll`] returns
//! actions, and the program that carries them out hands in events. Call `poll` until it returns
//! nothing, after each event and at [`Importer::next_deadline`].
//!
//! # States
//!
//! ```text
//!   Searching -- a server answered: Use --> Using -- Lost: again, same store --> Searching
//!     |    ^                                  |
//!     |    +-- pause over -- Pausing          +----- Lost: give up ------------> Failed
//!     +-- all have failed: ----^                                                   ^
//!     +-- the time is over --------------------------------------------------------+
//! ```
//!
//! A program that has connected to another offer by itself says so ([`Importer::moved`]).
//!
//! A search has these steps; the first one that can be done is done:
//!
//! 1. Dial the next address of the offer under way, then of the next offer.
//! 2. Without offers, ask the next trader.
//! 3. When nothing is under way, pause: a second at first, doubled each time.
//!
//! An offer is dialled once in a search, until the next pause. The offer that was lost comes last.

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;

use crate::choose::addresses;
use crate::failover::Next;
use crate::offer::Offer;

/// The settings of an importer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Milliseconds before the next trader is asked.
    pub ask_ms: u64,
    /// Milliseconds before the next address is dialled.
    pub dial_ms: u64,
    /// Milliseconds after which a trader, or a server that is dialled, is given up.
    pub patience_ms: u64,
    /// Milliseconds of the first pause.
    pub pause_ms_min: u64,
    /// Milliseconds of the longest pause.
    pub pause_ms_max: u64,
    /// Milliseconds of a search; nothing lets it go on.
    pub timeout_ms: Option<u64>,
    /// The machine of the client, whose local addresses it can dial.
    pub host: Option<String>,
    /// The schemes of addresses that it can dial.
    pub schemes: Vec<&'static str>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ask_ms: 250,
            dial_ms: 250,
            patience_ms: 5_000,
            pause_ms_min: 1_000,
            pause_ms_max: 30_000,
            timeout_ms: None,
            host: None,
            schemes: vec!["shm", "unix", "tls", "quic", "tcp"],
        }
    }
}

/// The number of a question to a trader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AskId(pub u64);

/// The number of a dialled address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DialId(pub u64);

/// An action that the program carries out.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Ask a trader, by its position among the traders.
    Ask(AskId, usize),
    /// Connect to a server, greet it, and look the object up.
    Dial(DialId, Arc<Offer>, Arc<str>),
    /// Close a connection that is not needed, or give it up.
    Cancel(DialId),
    /// Use the connection to a server.
    Use(DialId, Arc<Offer>, Arc<str>),
    /// Return the error.
    Fail(Failure),
}

/// An event that the program reports.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A trader has answered.
    Found(AskId, Vec<Offer>),
    /// A trader was not reached, or has refused the question.
    AskFailed(AskId),
    /// A server has answered, and has the object.
    Opened(DialId),
    /// A server was not reached, refuses, or does not have the object.
    DialFailed(DialId),
    /// The server in use is lost, with the next step: see [`crate::failover::next`].
    Lost(Next),
}

/// The reason why an import has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Failure {
    /// No trader has answered in time.
    #[error("no trader has answered")]
    NoTrader,
    /// The traders know no offer that matches.
    #[error("no trader knows an offer that matches")]
    NoOffer,
    /// The offers have no address that this process can dial.
    #[error("no offer has an address that this process can use")]
    NoAddress,
    /// No server has answered.
    #[error("no server of {offers} offers was reached")]
    NoServer {
        /// The number of offers.
        offers: usize,
    },
    /// The server is lost, and its batch must not run again.
    #[error("the server is lost, and the batch must not run a second time")]
    GaveUp,
    /// The server is lost, and has told no store by which another could know the batch.
    #[error("the server is lost, and its offer names no store that another server could share")]
    NoStore,
}

#[derive(Debug)]
struct Ask {
    id: AskId,
    until: u64,
}

#[derive(Debug)]
struct Dial {
    id: DialId,
    offer: Arc<Offer>,
    address: Arc<str>,
    until: u64,
}

#[derive(Debug)]
enum Phase {
    Searching,
    Pausing { until: u64 },
    Using { offer: Arc<Offer> },
    Failed,
}

/// An import, with the server in use.
#[derive(Debug)]
pub struct Importer {
    options: Options,
    random: fastrand::Rng,
    phase: Phase,
    traders: usize,
    /// The traders that are still to be asked, the next one at the end.
    order: Vec<usize>,
    asks: Vec<Ask>,
    next_ask: u64,
    last_ask: u64,
    offers: VecDeque<Arc<Offer>>,
    /// The offers that were dialled since the last pause, or wait for it.
    known: Vec<Arc<Offer>>,
    /// The offer under way, with the addresses that are left.
    current: Option<(Arc<Offer>, VecDeque<Arc<str>>)>,
    dials: Vec<Dial>,
    next_dial: u64,
    last_dial: u64,
    cancelled: Vec<DialId>,
    using: Option<Dial>,
    pause_ms: u64,
    deadline: Option<u64>,
    /// The offer that was lost, which comes last.
    lost: Option<Arc<Offer>>,
    /// The store that an offer must have.
    store: Option<String>,
    /// The worst that is known of the search, for its error.
    failure: Failure,
}

impl Importer {
    /// Begins a search with so many traders.
    pub fn new(options: Options, traders: usize, seed: u64, now: u64) -> Importer {
        let mut importer = Importer {
            random: fastrand::Rng::with_seed(seed),
            phase: Phase::Searching,
            traders,
            order: Vec::new(),
            asks: Vec::new(),
            next_ask: now,
            last_ask: 0,
            offers: VecDeque::new(),
            known: Vec::new(),
            current: None,
            dials: Vec::new(),
            next_dial: now,
            last_dial: 0,
            cancelled: Vec::new(),
            using: None,
            pause_ms: options.pause_ms_min,
            deadline: None,
            lost: None,
            store: None,
            failure: Failure::NoTrader,
            options,
        };
        importer.begin_search(now);
        importer
    }

    /// Returns the offer in use.
    pub fn offer(&self) -> Option<&Arc<Offer>> {
        match &self.phase {
            Phase::Using { offer } => Some(offer),
            _ => None,
        }
    }

    /// Takes an offer as the one in use: the program has connected to its server by itself.
    pub fn moved(&mut self, offer: Arc<Offer>) {
        self.cancelled.extend(self.dials.drain(..).map(|dial| dial.id));
        self.asks.clear();
        self.current = None;
        self.using = None;
        self.phase = Phase::Using { offer };
    }

    /// True while it waits until all traders are asked again: all that was tried has failed.
    pub fn is_pausing(&self) -> bool {
        matches!(self.phase, Phase::Pausing { .. })
    }

    /// Ends the search with the worst that is known: the program knows that no later round can have
    /// another end.
    pub fn give_up(&mut self) {
        self.fail(self.failure);
    }

    fn begin_search(&mut self, now: u64) {
        self.deadline = self.options.timeout_ms.map(|timeout| now.saturating_add(timeout));
        self.failure = Failure::NoTrader;
        self.pause_ms = self.options.pause_ms_min;
        self.begin_round(now);
    }

    /// Asks all traders anew.
    fn begin_round(&mut self, now: u64) {
        self.phase = Phase::Searching;
        self.order = (0..self.traders).collect();
        self.random.shuffle(&mut self.order);
        self.known.clear();
        self.known.extend(self.offers.iter().cloned());
        (self.next_ask, self.next_dial) = (now, now);
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now: u64) {
        match event {
            Event::Found(ask, offers) => {
                if self.end_ask(ask, now) {
                    self.found(offers);
                }
            }
            Event::AskFailed(ask) => {
                self.end_ask(ask, now);
            }
            Event::Opened(id) => {
                let Some(at) = self.dials.iter().position(|dial| dial.id == id) else { return };
                let dial = self.dials.swap_remove(at);
                self.cancelled.extend(self.dials.drain(..).map(|dial| dial.id));
                self.asks.clear();
                self.current = None;
                self.phase = Phase::Using { offer: dial.offer.clone() };
                self.using = Some(dial);
            }
            Event::DialFailed(id) => {
                if let Some(at) = self.dials.iter().position(|dial| dial.id == id) {
                    self.dials.swap_remove(at);
                    self.next_dial = now;
                }
            }
            Event::Lost(next) => self.lose(next, now),
        }
    }

    /// Ends a question; false if it was given up before. The next trader is asked at once if it
    /// found nothing.
    fn end_ask(&mut self, id: AskId, now: u64) -> bool {
        let Some(at) = self.asks.iter().position(|ask| ask.id == id) else { return false };
        self.asks.swap_remove(at);
        self.next_ask = now;
        true
    }

    fn found(&mut self, offers: Vec<Offer>) {
        if self.failure == Failure::NoTrader {
            self.failure = Failure::NoOffer;
        }
        for offer in offers {
            let is_known = self.known.iter().any(|known| is_same(known, &offer));
            if is_known || self.store.as_deref().is_some_and(|store| offer.store() != Some(store)) {
                continue;
            }
            let offer = Arc::new(offer);
            self.known.push(offer.clone());
            if addresses(&offer, self.options.host.as_deref(), &self.options.schemes).is_empty() {
                if self.failure == Failure::NoOffer {
                    self.failure = Failure::NoAddress;
                }
                continue;
            }
            self.offers.push_back(offer);
        }
        if !self.offers.is_empty() {
            self.failure = Failure::NoServer { offers: self.known.len() };
        }
        if let Some(lost) = &self.lost {
            self.offers.make_contiguous().sort_by_key(|offer| is_same(lost, offer));
        }
    }

    fn lose(&mut self, next: Next, now: u64) {
        let Phase::Using { offer } = &self.phase else { return };
        let offer = offer.clone();
        self.using = None;
        match next {
            Next::GiveUp => return self.fail(Failure::GaveUp),
            Next::Again => {}
            Next::SameStore => match offer.store() {
                None => return self.fail(Failure::NoStore),
                Some(store) => self.store = Some(store.to_owned()),
            },
        }
        if let Some(store) = &self.store {
            self.offers.retain(|offer| offer.store() == Some(store.as_str()));
        }
        self.lost = Some(offer);
        self.begin_search(now);
    }

    /// Lifts the bound to one store, when the batch that needed it is done.
    pub fn release_store(&mut self) {
        self.store = None;
    }

    fn fail(&mut self, failure: Failure) {
        self.failure = failure;
        self.phase = Phase::Failed;
        self.cancelled.extend(self.dials.drain(..).map(|dial| dial.id));
        self.asks.clear();
        self.deadline = Some(0);
    }

    /// Returns the next action, if one is due.
    pub fn poll(&mut self, now: u64) -> Option<Action> {
        if let Some(id) = self.cancelled.pop() {
            return Some(Action::Cancel(id));
        }
        match self.phase {
            Phase::Using { .. } => {
                let dial = self.using.take()?;
                Some(Action::Use(dial.id, dial.offer, dial.address))
            }
            Phase::Failed => self.deadline.take().map(|_| Action::Fail(self.failure)),
            _ if self.deadline.is_some_and(|deadline| deadline <= now) => {
                self.fail(self.failure);
                self.poll(now)
            }
            Phase::Pausing { until } if until <= now => {
                self.begin_round(now);
                self.search(now)
            }
            Phase::Pausing { .. } => None,
            Phase::Searching => self.search(now),
        }
    }

    fn search(&mut self, now: u64) -> Option<Action> {
        self.asks.retain(|ask| now < ask.until);
        if let Some(at) = self.dials.iter().position(|dial| dial.until <= now) {
            self.next_dial = now;
            return Some(Action::Cancel(self.dials.swap_remove(at).id));
        }
        if (self.dials.is_empty() || self.next_dial <= now)
            && let Some(action) = self.dial(now)
        {
            return Some(action);
        }
        let is_dialling = !self.dials.is_empty() || self.current.is_some() || !self.offers.is_empty();
        if !is_dialling
            && (self.asks.is_empty() || self.next_ask <= now)
            && let Some(trader) = self.order.pop()
        {
            self.last_ask += 1;
            let id = AskId(self.last_ask);
            self.asks.push(Ask { id, until: now.saturating_add(self.options.patience_ms) });
            self.next_ask = now.saturating_add(self.options.ask_ms);
            return Some(Action::Ask(id, trader));
        }
        if !is_dialling && self.asks.is_empty() && self.order.is_empty() {
            // Not all clients of a server that is gone ask again at the same moment.
            let pause = self.random.u64(self.pause_ms / 2..=self.pause_ms);
            self.phase = Phase::Pausing { until: now.saturating_add(pause) };
            self.pause_ms = self.pause_ms.saturating_mul(2).min(self.options.pause_ms_max);
        }
        None
    }

    /// Dials the next address.
    fn dial(&mut self, now: u64) -> Option<Action> {
        let (offer, address) = loop {
            if let Some((offer, left)) = &mut self.current {
                if let Some(address) = left.pop_front() {
                    break (offer.clone(), address);
                }
                self.current = None;
            }
            let offer = self.offers.pop_front()?;
            let left = addresses(&offer, self.options.host.as_deref(), &self.options.schemes);
            let left = left.into_iter().map(Arc::from).collect();
            self.current = Some((offer, left));
        };
        self.last_dial += 1;
        let id = DialId(self.last_dial);
        let until = now.saturating_add(self.options.patience_ms);
        self.dials.push(Dial { id, offer: offer.clone(), address: address.clone(), until });
        self.next_dial = now.saturating_add(self.options.dial_ms);
        Some(Action::Dial(id, offer, address))
    }

    /// Returns the time at which `poll` is to be called next; nothing if only events matter.
    pub fn next_deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::Using { .. } | Phase::Failed => None,
            Phase::Pausing { until } => Some(self.deadline.map_or(until, |deadline| deadline.min(until))),
            Phase::Searching => {
                let has_addresses = self.current.as_ref().is_some_and(|(_, left)| !left.is_empty())
                    || !self.offers.is_empty();
                let dial = has_addresses.then_some(self.next_dial);
                let is_dialling = has_addresses || !self.dials.is_empty();
                let ask = (!is_dialling && !self.order.is_empty()).then_some(self.next_ask);
                let over = self.asks.iter().map(|ask| ask.until);
                let over = over.chain(self.dials.iter().map(|dial| dial.until));
                over.chain(dial).chain(ask).chain(self.deadline).min()
            }
        }
    }
}

/// True if two offers are of the same object of the same server.
fn is_same(a: &Offer, b: &Offer) -> bool {
    a.name == b.name && a.service == b.service && a.addresses == b.addresses
}

#[cfg(test)]
mod tests;
