//! The natives of a trader: `trader::Trader` and `trader::Lease`, on a board in memory.
//!
//! Read [`Trader`] first. The board (`bifrost_trader`) is pure; the parts around it are these:
//!
//! | part | owner |
//! | --- | --- |
//! | the lock, the clock, deferred answers | `Core` |
//! | the end of leases and waits | `tick`, a timer of the tasks that begins itself anew |
//! | dial-back | `proof`, on threads of its own |
//!
//! Each call of the board goes through `Core::act`, which then answers the calls of `changes` that
//! wait, and begins the proofs that are due.

mod proof;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bifrost_native::{ActorRef, Registry, Reply, Seq, Signals, Struct, Task, Text, theta_actor};
use bifrost_trader::board::{Changes, ExportError, Page, RenewError, Renewal, ToProve, WaiterId};
use bifrost_trader::{
    BadOffer, BadService, Board, Export, Limits, Memory, OfferId, Options, Party, Properties, Query,
    Question, Right,
};
use bifrost_transport::host;
use bifrost_wire::Digest;
use parking_lot::Mutex;

/// The settings of traders, for the registry of natives.
#[derive(Clone, Debug, Default)]
pub struct TraderSettings {
    /// The limits.
    pub limits: Limits,
    /// True if offers are listed without a proof.
    pub trusts_addresses: bool,
}

/// Adds the natives of a trader.
pub fn with_trader(registry: Registry) -> Registry {
    registry.with_actor::<Trader>().with_actor::<Lease>().with_text("trader.theta", bifrost_trader::PROGRAM)
}

/// The rights of a role: all services are open to all who reach the trader.
struct Caller(String);

impl Right for Caller {
    fn role(&self) -> &str {
        &self.0
    }

    fn may_export(&self, _: &str) -> bool {
        true
    }

    fn may_import(&self, _: &str) -> bool {
        true
    }
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
    state: Mutex<State>,
    /// The number of threads that dial.
    dialling: AtomicU64,
}

impl Core {
    fn new(settings: TraderSettings) -> Core {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let options = Options {
            first: since_epoch.as_micros() as u64,
            trusts_addresses: settings.trusts_addresses,
            is_only_board: false,
            host: host(),
        };
        let board = Memory::new(settings.limits.clone(), options);
        Core {
            limits: settings.limits,
            begun: Instant::now(),
            state: Mutex::new(State { board, waiting: BTreeMap::new() }),
            dialling: AtomicU64::new(0),
        }
    }

    /// Calls the board, and then does what has become due.
    fn act<T>(self: &Arc<Core>, act: impl FnOnce(&mut State, u64) -> T) -> T {
        let (result, answers, proofs) = {
            let mut state = self.state.lock();
            let now = self.begun.elapsed().as_millis() as u64;
            let result = act(&mut state, now);
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
            digest: text(hexadecimal(&offer.digest)),
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

fn hexadecimal(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
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
    fn new(task: &Task) -> Trader {
        let core = Arc::new(Core::new(task.settings().unwrap_or_default()));
        tick(&Arc::downgrade(&core), task);
        Trader(core)
    }

    fn teach(&self, _task: &Task, interface: &str) -> Result<String, TeachSignal> {
        let taught = self.0.act(|state, _| state.board.teach(interface.as_bytes()));
        taught.map(|digest| hexadecimal(&digest)).map_err(|why| TeachSignal::Refused(text(why)))
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
        let (properties, load) =
            read_properties(properties, &self.0.limits).map_err(AdvertiseSignal::Refused)?;
        let export = Export {
            service: service.to_owned(),
            digest,
            name: name.to_owned(),
            addresses: addresses.iter().map(|address| str::to_owned(address)).collect(),
            properties,
            load,
            lease_ms: wanted(lease_ms),
            exclusive: false,
        };
        let right = Caller(task.caller());
        let party = Party { right: &right, session: task.session() };
        let lease = self.0.act(|state, now| state.board.export(party, export, now));
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

    fn find(
        &self,
        task: &Task,
        service: &str,
        digest: &str,
        query: &str,
        most: i64,
        host: &str,
    ) -> Result<Found, FindSignal> {
        let query = Query::parse_within(query, &self.0.limits);
        let query = query.map_err(|why| FindSignal::BadQuery(text(why)))?;
        let digest = match digest {
            "" => None,
            digest => Some(digest_of(digest).ok_or(FindSignal::UnknownInterface)?),
        };
        let question = Question {
            service: service.to_owned(),
            digest,
            query,
            most: wanted(most),
            host: host_of(host).map(str::to_owned),
        };
        let right = Caller(task.caller());
        let party = Party { right: &right, session: task.session() };
        let seed = seed();
        let found = self.0.act(|state, now| state.board.import(party, &question, seed, now));
        let found = found.map_err(|_| FindSignal::UnknownInterface)?;
        let offers: Vec<Offer> = found.offers.into_iter().map(Offer::from).collect();
        Ok(Found { offers: offers.into(), more: found.more })
    }

    fn offers(&self, task: &Task, service: &str, after: i64, most: i64, host: &str) -> Seq<Offer> {
        let limits = &self.0.limits;
        let page = Page {
            service: Some(service).filter(|service| !service.is_empty()),
            host: host_of(host),
            after: OfferId(wanted(after).unwrap_or(0)),
            most: wanted(most).unwrap_or(limits.most_default).min(limits.most_max) as usize,
        };
        let right = Caller(task.caller());
        let party = Party { right: &right, session: task.session() };
        let offers = self.0.act(|state, now| state.board.offers(party, page, now));
        offers.into_iter().map(Offer::from).collect::<Vec<_>>().into()
    }

    fn changes(&self, task: &Task, service: &str, since: i64, within_ms: i64, reply: Reply<Counter>) {
        let (since, within_ms) = (wanted(since).unwrap_or(0), wanted(within_ms).unwrap_or(0));
        let right = Caller(task.caller());
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

/// Returns a number that nobody guesses, for the order of offers.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    // Without random numbers the order is not random, and everything else is right.
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Reads properties, and the load among them.
fn read_properties(properties: &str, limits: &Limits) -> Result<(Properties, Option<f64>), Text> {
    let mut properties = Properties::parse(properties, limits).map_err(text)?;
    let has_load = properties.get("load").is_some();
    let load = properties.take_load();
    if has_load && load.is_none() {
        return Err(text(BadOffer::Load));
    }
    Ok((properties, load))
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
        let (properties, load) =
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
