//! The natives of a trader: `trader::Trader` and `trader::Lease`, on a board in memory.
//!
//! Read [`Trader`] first. The board (`bifrost_trader`) is pure; the parts around it are these:
//!
//! | part | owner |
//! | --- | --- |
//! | the lock, the clock, deferred answers | `Core` |
//! | the end of leases and waits | `tick`, a timer of the tasks that begins itself anew |
//! | dial-back | `proof`, on threads of its own |
//! | links to other traders | `links`, on threads of its own |
//! | imports that wait for links | `gathering` |
//!
//! Each call of the board goes through `Core::act`, which then answers the calls of `changes` that
//! wait, and begins the proofs that are due.

mod config;
mod gathering;
mod links;
mod proof;
mod rights;
mod sharing;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bifrost_native::{ActorRef, Registry, Reply, Seq, Signals, Struct, Task, Text, theta_actor};
use bifrost_trader::board::{Changes, ExportError, Page, RenewError, Renewal, ToProve, WaiterId};
use bifrost_trader::link::{BadLinks, Link, Links, Route};
use bifrost_trader::shared::{Exclusive, Listener, Shared, Stored, Written};
use bifrost_trader::{
    BadOffer, BadService, Board, Export, Limits, Memory, OfferId, Options, Party, Properties, Value,
};
use bifrost_transport::host;
use bifrost_veneer::trader::hex;
use bifrost_wire::Digest;
use parking_lot::Mutex;

pub use config::{FollowConfig, LinkConfig, LinkError};
use gathering::{Open, Way};
pub use links::LinkSettings;
use links::{Import, Line};
use rights::Caller;
pub use rights::Rights;

/// The settings of traders, for the registry of natives.
#[derive(Clone, Default)]
pub struct TraderSettings {
    /// The limits.
    pub limits: Limits,
    /// True if offers are listed without a proof.
    pub trusts_addresses: bool,
    /// The links to other traders.
    pub links: Vec<LinkSettings>,
    /// The rights of roles.
    pub rights: Rights,
    /// The place where traders share their offers; nothing for a trader alone.
    pub shared: Option<Arc<dyn Shared>>,
}

impl std::fmt::Debug for TraderSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraderSettings").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl TraderSettings {
    /// Returns the links with what is known of questions: nothing.
    ///
    /// # Errors
    /// The links are too many, or have no names of their own.
    pub fn links(&self) -> Result<Links, BadLinks> {
        let links: Vec<Link> = self.links.iter().map(|settings| settings.link.clone()).collect();
        Links::new(links, &self.limits)
    }
}

/// The property by which an export has its name alone.
const EXCLUSIVE: &str = "exclusive";

/// Adds the natives of a trader.
pub fn with_trader(registry: Registry) -> Registry {
    registry.with_actor::<Trader>().with_actor::<Lease>().with_text("trader.theta", bifrost_trader::PROGRAM)
}

/// The answer to a call of `changes`.
type Counter = Result<i64, ChangesSignal>;

/// A call of `changes` that waits.
struct Waiting {
    reply: Reply<Counter>,
    task: Task,
    session: u64,
    since: u64,
}

/// The parts behind the lock.
struct State {
    board: Memory,
    waiting: BTreeMap<WaiterId, Waiting>,
    links: Links,
    /// The imports that wait for links, by their numbers.
    gatherings: BTreeMap<u64, Open>,
    /// The number of the next of them.
    next: u64,
}

impl State {
    /// Ends the waits of sessions that await no answer. A session has one batch at a time, so all
    /// its waits have ended with it; one of its next batch is answered early.
    fn end_unawaited(&mut self) -> Vec<(Reply<Counter>, u64)> {
        let ended = self.waiting.values().filter(|waiting| waiting.task.must_end());
        let sessions: Vec<u64> = ended.map(|waiting| waiting.session).collect();
        for session in &sessions {
            self.board.end_session(*session);
        }
        let of_ended = |_: &WaiterId, waiting: &mut Waiting| sessions.contains(&waiting.session);
        let ended: Vec<_> = self.waiting.extract_if(.., of_ended).collect();
        ended.into_iter().map(|(_, waiting)| (waiting.reply, waiting.since)).collect()
    }

    /// Takes the calls that can be answered now.
    fn answered(&mut self) -> Vec<(Reply<Counter>, u64)> {
        let answers = self.board.answers().into_iter();
        let taken = answers.filter_map(|answer| {
            let waiting = self.waiting.remove(&answer.waiter)?;
            Some((waiting.reply, answer.counter))
        });
        taken.collect()
    }
}

/// The board with its lock and clock.
struct Core {
    limits: Limits,
    begun: Instant,
    rights: Rights,
    shared: Option<Arc<dyn Shared>>,
    state: Mutex<State>,
    /// The links, in the order of those in the state.
    lines: Vec<Arc<Line>>,
    /// The number of threads that dial.
    dialling: AtomicU64,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.lines.iter().for_each(|line| line.end());
    }
}

impl Core {
    fn new(settings: TraderSettings) -> Result<Core, BadLinks> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let options = Options {
            first: since_epoch.as_micros() as u64,
            trusts_addresses: settings.trusts_addresses,
            // Where traders share their offers, they agree on exclusive names.
            is_only_board: settings.shared.is_some(),
            is_shared: settings.shared.is_some(),
            host: host(),
        };
        let board = Memory::new(settings.limits.clone(), options);
        let state = State {
            board,
            waiting: BTreeMap::new(),
            links: settings.links()?,
            gatherings: BTreeMap::new(),
            next: 0,
        };
        let limits = settings.limits;
        let lines = settings.links.into_iter().enumerate();
        Ok(Core {
            lines: lines.map(|(at, link)| Line::new(at, link, limits.clone())).collect(),
            limits,
            rights: settings.rights,
            shared: settings.shared,
            begun: Instant::now(),
            state: Mutex::new(state),
            dialling: AtomicU64::new(0),
        })
    }

    /// Returns the rights of the client that asks.
    fn caller(&self, task: &Task) -> Caller {
        self.rights.of(task.caller())
    }

    /// Calls the board, and then does what has become due.
    fn act<T>(self: &Arc<Core>, act: impl FnOnce(&mut State, u64) -> T) -> T {
        let (result, answers, proofs) = {
            let mut state = self.state.lock();
            let now = self.begun.elapsed().as_millis() as u64;
            let result = act(&mut state, now);
            self.share(&mut state);
            (result, state.answered(), state.board.to_prove(now))
        };
        send(answers);
        for proof in proofs {
            self.prove(proof);
        }
        result
    }

    /// Dials the addresses of an offer, on a thread of its own: a task that waits for a stranger's
    /// server would be one less for all others.
    fn prove(self: &Arc<Core>, ToProve { offer }: ToProve) {
        let core = self.clone();
        let id = offer.id;
        // A name can take longer to look up than a proof may take, so threads are counted.
        let is_free = self.dialling.fetch_add(1, Ordering::Relaxed) < self.limits.proofs_max;
        let dial = move || {
            let found = proof::found(&offer, Duration::from_millis(core.limits.proof_ms_max));
            core.dialling.fetch_sub(1, Ordering::Relaxed);
            core.act(|state, now| match found.is_empty() {
                true => state.board.not_proved(id, now),
                false => state.board.proved(id, &found, now),
            });
        };
        if is_free && std::thread::Builder::new().name("proof".to_owned()).spawn(dial).is_ok() {
            return;
        }
        self.dialling.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let now = self.begun.elapsed().as_millis() as u64;
        state.board.not_proved(id, now);
    }
}

/// Answers calls of `changes`, outside the lock.
fn send(answers: Vec<(Reply<Counter>, u64)>) {
    for (reply, counter) in answers {
        reply.send(Ok(counter as i64));
    }
}

/// Ends leases and waits whose time is over, and begins itself anew at the next deadline, which is
/// never more than a second away.
fn tick(core: &Weak<Core>, task: &Task) {
    let Some(held) = core.upgrade() else { return };
    let (ended, left_ms) = held.act(|state, now| {
        held.mistrust(state, now);
        state.board.expire(now);
        (state.end_unawaited(), state.board.next_deadline().saturating_sub(now))
    });
    send(ended);
    let (core, again) = (core.clone(), task.clone());
    task.after(Duration::from_millis(left_ms.max(1)), move || tick(&core, &again));
}

/// An offer, as Theta has it.
#[derive(Clone, Struct)]
struct Offer {
    id: i64,
    service: Text,
    digest: Text,
    name: Text,
    addresses: Seq<Text>,
    names: Seq<Text>,
    values: Seq<Text>,
    load: f64,
    doubtful: bool,
}

impl From<bifrost_trader::Offer> for Offer {
    fn from(offer: bifrost_trader::Offer) -> Offer {
        let texts = |texts: Vec<Text>| Seq::from(texts);
        Offer {
            id: offer.id.0 as i64,
            service: text(offer.service),
            digest: text(hex(&offer.digest)),
            name: text(offer.name),
            addresses: texts(offer.addresses.iter().map(text).collect()),
            names: texts(offer.properties.iter().map(|(name, _)| text(name)).collect()),
            values: texts(offer.properties.iter().map(|(_, value)| text(value.to_text())).collect()),
            load: offer.load.unwrap_or(-1.0),
            doubtful: offer.doubtful,
        }
    }
}

/// The answer to an import, as Theta has it.
#[derive(Clone, Struct)]
struct Found {
    offers: Seq<Offer>,
    more: bool,
}

/// Reads a digest; nothing if the text is none.
fn digest_of(text: &str) -> Option<Digest> {
    Some(*blake3::Hash::from_hex(text).ok()?.as_bytes())
}

/// Returns a number of Theta that counts something: nothing for 0 and below.
fn wanted(number: i64) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| *number > 0)
}

fn text(why: impl ToString) -> Text {
    Text::from(why.to_string())
}

/// Returns the host in an argument; nothing if it is empty.
fn host_of(host: &str) -> Option<&str> {
    Some(host).filter(|host| !host.is_empty())
}

/// The exceptions of `teach`.
#[derive(Signals)]
enum TeachSignal {
    Refused(Text),
}

/// The exceptions of `changes`.
#[derive(Signals)]
enum ChangesSignal {
    Refused(Text),
}

/// The exceptions of `advertise`.
#[derive(Signals)]
enum AdvertiseSignal {
    Refused(Text),
    UnknownInterface,
}

/// The exceptions of `find`.
#[derive(Signals)]
enum FindSignal {
    BadQuery(Text),
    UnknownInterface,
}

/// The answer to an import.
type Imported = Result<Found, FindSignal>;

/// The exceptions of `renew`.
#[derive(Signals)]
enum RenewSignal {
    Gone,
    Refused(Text),
}

/// The native actor `trader::Trader`: a board and its clients.
pub struct Trader(Arc<Core>);

impl std::fmt::Debug for Trader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trader").finish_non_exhaustive()
    }
}

#[theta_actor("trader::Trader", concurrency = 0)]
impl Trader {
    fn new(task: &Task) -> Result<Trader, String> {
        let core = Core::new(task.settings().unwrap_or_default()).map_err(|why| why.to_string())?;
        let core = Arc::new(core);
        core.listen();
        tick(&Arc::downgrade(&core), task);
        Ok(Trader(core))
    }

    fn teach(&self, _task: &Task, interface: &str) -> Result<String, TeachSignal> {
        let taught = self.0.act(|state, _| state.board.teach(interface.as_bytes()));
        taught.map(|digest| hex(&digest)).map_err(|why| TeachSignal::Refused(text(why)))
    }

    #[expect(clippy::too_many_arguments, reason = "those of the call in Theta")]
    fn advertise(
        &self,
        task: &Task,
        service: &str,
        digest: &str,
        name: &str,
        addresses: Seq<Text>,
        properties: &str,
        lease_ms: i64,
    ) -> Result<ActorRef<Lease>, AdvertiseSignal> {
        let digest = digest_of(digest).ok_or(AdvertiseSignal::UnknownInterface)?;
        let refused = |why| AdvertiseSignal::Refused(text(why));
        let refused_text = |why: bifrost_trader::shared::ClaimError| refused(why.to_string());
        let (properties, load, exclusive) =
            read_properties(properties, &self.0.limits).map_err(AdvertiseSignal::Refused)?;
        let export = Export {
            service: service.to_owned(),
            digest,
            name: name.to_owned(),
            addresses: addresses.iter().map(|address| str::to_owned(address)).collect(),
            properties,
            load,
            lease_ms: wanted(lease_ms),
            exclusive,
        };
        let right = self.0.caller(task);
        let party = Party { right: &right, session: task.session() };
        let name = self.0.claim(party, &export).map_err(refused_text)?;
        let lease = self.0.act(|state, now| state.board.export(party, export, now));
        self.0.bind(name.as_ref(), lease.as_ref().ok().map(|lease| lease.id));
        let id = match lease {
            Ok(lease) => lease.id,
            Err(ExportError::Service(BadService::UnknownInterface)) => {
                return Err(AdvertiseSignal::UnknownInterface);
            }
            Err(why) => return Err(refused(why.to_string())),
        };
        let made = task.create(Lease { core: self.0.clone(), id });
        made.map_err(|why| {
            self.0.act(|state, now| state.board.withdraw(id, now));
            refused(why)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "those of the call in Theta")]
    fn find(
        &self,
        task: &Task,
        service: &str,
        digest: &str,
        query: &str,
        most: i64,
        host: &str,
        reply: Reply<Imported>,
    ) {
        let import = Import::new(service, digest, query, most, host);
        self.0.import(task, import, Way::Own, reply);
    }

    #[expect(clippy::too_many_arguments, reason = "those of the call in Theta")]
    fn find_through(
        &self,
        task: &Task,
        service: &str,
        digest: &str,
        query: &str,
        most: i64,
        host: &str,
        number: &str,
        hops: i64,
        within_ms: i64,
        reply: Reply<Imported>,
    ) {
        let Some(number) = gathering::number_of(number) else {
            let why = "the number of a question is 32 hexadecimal digits";
            return reply.send(Err(FindSignal::BadQuery(text(why))));
        };
        let import = Import::new(service, digest, query, most, host);
        let [hops, within_ms] = [hops, within_ms].map(|number| wanted(number).unwrap_or(0));
        self.0.import(task, import, Way::Through(Route { number, hops, within_ms }), reply);
    }

    fn offers(&self, task: &Task, service: &str, after: i64, most: i64, host: &str) -> Seq<Offer> {
        let limits = &self.0.limits;
        let page = Page {
            service: Some(service).filter(|service| !service.is_empty()),
            host: host_of(host),
            after: OfferId(wanted(after).unwrap_or(0)),
            most: wanted(most).unwrap_or(limits.most_default).min(limits.most_max) as usize,
        };
        let right = self.0.caller(task);
        let party = Party { right: &right, session: task.session() };
        let offers = self.0.act(|state, now| state.board.offers(party, page, now));
        offers.into_iter().map(Offer::from).collect::<Vec<_>>().into()
    }

    fn changes(&self, task: &Task, service: &str, since: i64, within_ms: i64, reply: Reply<Counter>) {
        let (since, within_ms) = (wanted(since).unwrap_or(0), wanted(within_ms).unwrap_or(0));
        let right = self.0.caller(task);
        let session = task.session();
        let party = Party { right: &right, session };
        let now_or_never =
            self.0.act(|state, now| match state.board.changes(party, service, since, within_ms, now) {
                Ok(Changes::Wait(waiter)) => {
                    let waiting = Waiting { reply, task: task.clone(), session, since };
                    state.waiting.insert(waiter, waiting);
                    None
                }
                Ok(Changes::Now(counter)) => Some((reply, Ok(counter as i64))),
                Err(why) => Some((reply, Err(ChangesSignal::Refused(text(why))))),
            });
        if let Some((reply, outcome)) = now_or_never {
            return reply.send(outcome);
        }
        // The next tick may be later than the end of this wait.
        let core = Arc::downgrade(&self.0);
        task.after(Duration::from_millis(within_ms.min(self.0.limits.wait_ms_max)), move || {
            if let Some(core) = core.upgrade() {
                core.act(|state, now| state.board.expire(now));
            }
        });
    }
}

/// Reads properties, and the load and `exclusive` among them.
fn read_properties(properties: &str, limits: &Limits) -> Result<(Properties, Option<f64>, bool), Text> {
    let mut properties = Properties::parse(properties, limits).map_err(text)?;
    let has_load = properties.get("load").is_some();
    let load = properties.take_load();
    if has_load && load.is_none() {
        return Err(text(BadOffer::Load));
    }
    let exclusive = match properties.remove(EXCLUSIVE) {
        None => false,
        Some(Value::Bool(exclusive)) => exclusive,
        Some(_) => return Err(text("the property `exclusive` is `true` or `false`")),
    };
    Ok((properties, load, exclusive))
}

/// The native actor `trader::Lease`: the right to an offer.
pub struct Lease {
    core: Arc<Core>,
    id: OfferId,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lease").field(&self.id).finish()
    }
}

#[theta_actor("trader::Lease", concurrency = 0)]
impl Lease {
    fn new(_task: &Task) -> Result<Lease, String> {
        Err("a lease is given by a `Trader`".to_owned())
    }

    fn renew(&self, _task: &Task, properties: &str) -> Result<i64, RenewSignal> {
        let (properties, load, _) =
            read_properties(properties, &self.core.limits).map_err(RenewSignal::Refused)?;
        let properties = Some(properties).filter(|properties| properties.iter().len() > 0);
        let renewal = Renewal { properties, load };
        match self.core.act(|state, now| state.board.renew(self.id, renewal, now)) {
            Ok(due_ms) => Ok(due_ms as i64),
            Err(RenewError::Gone) => Err(RenewSignal::Gone),
            Err(why) => Err(RenewSignal::Refused(text(why))),
        }
    }

    fn withdraw(&self, _task: &Task) {
        self.core.act(|state, now| state.board.withdraw(self.id, now));
    }
}
