//! A world of traders, exporters and importers with virtual time, made from a seed.
//!
//! Nodes send messages over a net that delays and loses them, cuts pairs of nodes off, and says
//! that a process is gone. Nodes are killed, restarted, stopped for a while (their mail waits), and
//! clocks of traders jump. Faults end at [`World::quiet`]; then the world must become whole.
//!
//! [`Check`] is the judge: each event passes it, and [`World::failure`] is the first that was wrong.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::LazyLock;

use bifrost_trader::board::{ExportError, ImportError, Page, RenewError, Renewal};
use bifrost_trader::exporter::{self, Exporter, Via};
use bifrost_trader::failover::{Batch, Loss, Ran, next as failover};
use bifrost_trader::importer::{self, AskId, DialId, Importer};
use bifrost_trader::{
    Board, Everything, Export, Limits, Memory, Offer, OfferId, Options, Party, Properties, Question, Value,
};

use bifrost_wire::Interface;

use super::planted::{Bug, Planted};

mod judge;
mod mail;
mod steps;

/// Three types, each below the one before it.
pub const INTERFACE: &str = r#"{"types":[{"name":"int","kind":"int"},
    {"name":"Base","kind":"object","methods":[{"name":"size","results":[0]}]},
    {"name":"Store","kind":"object","supertypes":[1],"methods":[{"name":"size","results":[0]}]},
    {"name":"Fast","kind":"object","supertypes":[2],"methods":[{"name":"size","results":[0]}]}],"routines":[]}"#;

/// The digest of the interface.
static DIGEST: LazyLock<bifrost_wire::Digest> =
    LazyLock::new(|| Interface::from_json(INTERFACE.as_bytes()).expect("an interface").digest());

/// Traders of a world.
const TRADERS: usize = 2;
/// Importers of a world.
const IMPORTERS: usize = 2;
/// The longest delay of a message.
const DELAY_MS_MAX: u64 = 400;
/// The longest time that a batch, or a proof, waits for its answer.
const PATIENCE_MS: u64 = 1_000;

/// A node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    Trader(usize),
    Exporter(usize),
    Importer(usize),
}

impl Node {
    /// The node as a number, for the log.
    fn number(self) -> u64 {
        match self {
            Node::Trader(at) => at as u64,
            Node::Exporter(at) => 1_000 + at as u64,
            Node::Importer(at) => 2_000 + at as u64,
        }
    }
}

/// A message; `u64` after a name is the session or connection.
#[derive(Clone, Debug)]
enum Msg {
    Hello(u64),
    Teach(u64, usize),
    Export(u64, usize, Box<Export>),
    Renew(u64, usize, f64),
    Withdraw(u64, usize),
    Find(u64, AskId),
    Reply(u64, Reply),
    /// The process that the session belongs to is gone.
    Broken(u64),
    Dial(OfferId, u64, String),
    Dialled(OfferId, u64, Option<String>),
    Open(u64),
    Opened(u64, bool),
    Run(u64, u64, Batch),
    Done(u64, u64),
}

impl Msg {
    /// The kind of message as a number, for the log.
    fn tag(&self) -> u64 {
        match self {
            Msg::Hello(_) => 1,
            Msg::Teach(..) => 2,
            Msg::Export(..) => 3,
            Msg::Renew(..) => 4,
            Msg::Withdraw(..) => 5,
            Msg::Find(..) => 6,
            Msg::Broken(_) => 7,
            Msg::Dial(..) => 8,
            Msg::Dialled(.., None) => 9,
            Msg::Dialled(.., Some(_)) => 10,
            Msg::Open(_) => 11,
            Msg::Opened(_, is_open) => 12 + u64::from(*is_open),
            Msg::Run(..) => 14,
            Msg::Done(..) => 15,
            Msg::Reply(_, reply) => 20 + reply.tag(),
        }
    }

    /// The session, connection or offer of the message.
    fn number(&self) -> u64 {
        match self {
            Msg::Dial(id, ..) | Msg::Dialled(id, ..) => id.0,
            Msg::Hello(s)
            | Msg::Teach(s, _)
            | Msg::Export(s, ..)
            | Msg::Renew(s, ..)
            | Msg::Withdraw(s, _)
            | Msg::Find(s, _)
            | Msg::Reply(s, _)
            | Msg::Broken(s)
            | Msg::Open(s)
            | Msg::Opened(s, _)
            | Msg::Run(s, ..)
            | Msg::Done(s, _) => *s,
        }
    }
}

impl Reply {
    fn tag(&self) -> u64 {
        match self {
            Reply::Welcome => 0,
            Reply::Taught(_) => 1,
            Reply::Exported(..) => 2,
            Reply::Unknown(_) => 3,
            Reply::Refused(_) => 4,
            Reply::Renewed(..) => 5,
            Reply::Gone(_) => 6,
            Reply::Withdrawn(_) => 7,
            // An answer with other offers is another event.
            Reply::Found(_, offers) => offers.iter().fold(8, |sum, offer| sum.wrapping_mul(31) ^ offer.id.0),
        }
    }
}

#[derive(Clone, Debug)]
enum Reply {
    Welcome,
    Taught(usize),
    Exported(usize, u64),
    Unknown(usize),
    Refused(usize),
    Renewed(usize, u64),
    Gone(usize),
    Withdrawn(usize),
    Found(AskId, Vec<Offer>),
}

#[derive(Debug)]
enum Happening {
    /// A message from a process of a node to a node.
    Mail(Node, u64, Node, Msg),
    Wake(Node, u64),
    Fault,
    /// A process begins.
    Start(Node),
    /// The answer of a batch is late.
    Late(usize, u64, u64),
    DialLate(usize, u64, OfferId, u64),
}

/// A process of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    /// Its number, which no other process has; 0 while there is none.
    number: u64,
    stopped_until: u64,
    wake: u64,
}

#[derive(Debug)]
struct TraderNode {
    board: Planted,
    skew: i64,
    /// By session: the node, its process, and the leases by export.
    sessions: BTreeMap<u64, (Node, u64, BTreeMap<usize, OfferId>)>,
    /// The end of the last time in which the trader may have missed something.
    gap_end: u64,
    /// The end of the last time that must count as a gap.
    sure_gap_end: u64,
    /// The tries to prove that are under way, each with its number.
    dialling: BTreeMap<OfferId, u64>,
    last_dial: u64,
    judged: u64,
}

impl TraderNode {
    fn new(first: u64, bug: Option<Bug>) -> TraderNode {
        let options = Options { first, ..Options::default() };
        TraderNode {
            board: Planted::new(Memory::new(Limits::default(), options), bug),
            skew: 0,
            sessions: BTreeMap::new(),
            gap_end: 0,
            sure_gap_end: 0,
            dialling: BTreeMap::new(),
            last_dial: 0,
            judged: 0,
        }
    }
}

#[derive(Debug)]
struct ExporterNode {
    machine: Exporter,
    service: &'static str,
    lies: bool,
    /// The session with each trader.
    sessions: BTreeMap<u64, Via>,
    /// The connections of importers.
    connections: BTreeSet<u64>,
}

#[derive(Debug)]
struct ImporterNode {
    machine: Importer,
    asks: BTreeMap<u64, AskId>,
    asked: BTreeMap<u64, (usize, AskId)>,
    dials: BTreeMap<u64, (DialId, usize)>,
    /// The connection in use, with its exporter.
    using: Option<(u64, usize)>,
    batch: Option<(u64, Batch)>,
    next_run: u64,
}

/// The account of an offer at a trader.
#[derive(Clone, Debug)]
struct Account {
    exporter: usize,
    process: u64,
    lease_ms: u64,
    renewed: u64,
    is_withdrawn: bool,
}

/// What was seen outside the nodes.
#[derive(Debug, Default)]
pub struct Check {
    /// By trader and number.
    offers: BTreeMap<(usize, OfferId), Account>,
    /// By process, the time of its end.
    ended: BTreeMap<u64, u64>,
    /// The exporters that answered a proof, by process.
    proved: BTreeSet<(usize, u64)>,
    /// By number of a batch: how many times it ran.
    ran: BTreeMap<u64, u32>,
    acknowledged: BTreeSet<u64>,
    /// Batches that stores have, by store and number.
    stored: BTreeSet<(usize, u64)>,
    /// Acknowledged batches after the last fault, by importer.
    pub late_batches: [usize; IMPORTERS],
}

/// The world.
pub struct World {
    pub now: u64,
    pub quiet: u64,
    pub failure: Option<String>,
    pub check: Check,
    pub events: u64,
    lease_ms: u64,
    bug: Option<Bug>,
    random: fastrand::Rng,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, Happening>,
    sequence: u64,
    last_process: u64,
    last_session: u64,
    last_batch: u64,
    processes: BTreeMap<Node, Process>,
    cuts: BTreeMap<(Node, Node), u64>,
    loss: f64,
    traders: Vec<TraderNode>,
    exporters: Vec<ExporterNode>,
    importers: Vec<ImporterNode>,
    log: blake3::Hasher,
    digest: bifrost_wire::Digest,
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let lease_ms = [10_000, 15_000, 20_000][random.usize(..3)];
        let count = random.usize(4..=7);
        let exporters = (0..count).map(|at| ExporterNode {
            machine: Exporter::new(exporter::Options::for_lease(lease_ms), TRADERS, 1, at as u64, 0),
            service: ["Store", "Fast"][at % 2],
            lies: at + 1 == count && seed.is_multiple_of(3),
            sessions: BTreeMap::new(),
            connections: BTreeSet::new(),
        });
        let importers = (0..IMPORTERS).map(|at| ImporterNode {
            machine: Importer::new(importer::Options::default(), TRADERS, at as u64, 0),
            asks: BTreeMap::new(),
            asked: BTreeMap::new(),
            dials: BTreeMap::new(),
            using: None,
            batch: None,
            next_run: 0,
        });
        let (exporters, importers) = (exporters.collect(), importers.collect());
        let quiet = random.u64(15_000..45_000);
        let mut world = World {
            now: 1_000,
            quiet,
            failure: None,
            check: Check::default(),
            events: 0,
            lease_ms,
            bug,
            loss: random.f64() * 0.05,
            random,
            queue: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            sequence: 0,
            last_process: 0,
            last_session: 0,
            last_batch: 0,
            processes: BTreeMap::new(),
            cuts: BTreeMap::new(),
            traders: (0..TRADERS).map(|_| TraderNode::new(0, bug)).collect(),
            exporters,
            importers,
            log: blake3::Hasher::new(),
            digest: *DIGEST,
        };
        for node in world.nodes() {
            world.at(0, Happening::Start(node));
        }
        let mut time = 0;
        loop {
            time += world.random.u64(500..6_000);
            if world.now + time >= world.quiet {
                break;
            }
            world.at(time, Happening::Fault);
        }
        world
    }

    fn nodes(&self) -> Vec<Node> {
        let traders = (0..TRADERS).map(Node::Trader);
        let exporters = (0..self.exporters.len()).map(Node::Exporter);
        traders.chain(exporters).chain((0..IMPORTERS).map(Node::Importer)).collect()
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> blake3::Hash {
        self.log.finalize()
    }

    pub fn lease_ms(&self) -> u64 {
        self.lease_ms
    }

    fn fail(&mut self, text: String) {
        let now = self.now;
        self.failure.get_or_insert_with(|| format!("at {now} ms: {text}"));
    }

    fn at(&mut self, delay: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse((self.now + delay, self.sequence)));
        self.waiting.insert(self.sequence, happening);
    }

    fn process(&self, node: Node) -> u64 {
        self.processes.get(&node).map_or(0, |process| process.number)
    }

    fn send(&mut self, from: Node, to: Node, msg: Msg) {
        let is_cut = self.cuts.get(&(from.min(to), from.max(to))).is_some_and(|until| *until > self.now);
        let is_faulty = self.now < self.quiet;
        let is_lost = is_faulty && self.random.f64() < self.loss;
        let longest = if is_faulty && self.random.u8(..8) == 0 { DELAY_MS_MAX } else { 20 };
        let delay = self.random.u64(1..=longest);
        if !is_cut && !is_lost {
            let process = self.process(from);
            self.at(delay, Happening::Mail(from, process, to, msg));
        }
    }

    /// Lets the world go on until a time, or the first failure.
    pub fn run_until(&mut self, end: u64) {
        while let Some(Reverse((time, sequence))) = self.queue.peek().copied() {
            if time > end || self.failure.is_some() {
                break;
            }
            self.queue.pop();
            self.now = time;
            let Some(happening) = self.waiting.remove(&sequence) else { continue };
            self.happen(happening);
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self, happening: Happening) {
        let node = match &happening {
            Happening::Mail(_, _, to, _) => Some(*to),
            Happening::Wake(node, _) => Some(*node),
            Happening::Late(importer, ..) => Some(Node::Importer(*importer)),
            Happening::DialLate(trader, ..) => Some(Node::Trader(*trader)),
            Happening::Fault | Happening::Start(_) => None,
        };
        if let Some(process) = node.and_then(|node| self.processes.get(&node))
            && process.stopped_until > self.now
        {
            let delay = process.stopped_until - self.now;
            return self.at(delay, happening);
        }
        self.events += 1;
        self.note(&happening);
        match happening {
            Happening::Start(node) => self.start(node),
            Happening::Fault => self.fault(),
            Happening::Wake(node, process) if process == self.process(node) => {
                if let Some(entry) = self.processes.get_mut(&node) {
                    entry.wake = 0;
                }
                self.step(node);
            }
            Happening::Mail(from, process, to, msg) => self.mail(from, process, to, msg),
            Happening::Late(at, connection, batch) => {
                let node = &self.importers[at];
                let is_late = node.using.is_some_and(|(using, _)| using == connection)
                    && node.batch.is_some_and(|(number, _)| number == batch);
                if is_late {
                    self.lose(at, Loss::Lost(Ran::Unknown));
                    self.step(Node::Importer(at));
                }
            }
            Happening::DialLate(at, process, id, number) if process == self.process(Node::Trader(at)) => {
                let (now, trader) = (self.trader_time(at), &mut self.traders[at]);
                if trader.dialling.get(&id) == Some(&number) {
                    trader.dialling.remove(&id);
                    trader.board.not_proved(id, now);
                    self.step(Node::Trader(at));
                }
            }
            Happening::Wake(..) | Happening::DialLate(..) => {}
        }
    }

    /// Adds an event to the log.
    fn note(&mut self, happening: &Happening) {
        let (tag, node, numbers) = match happening {
            Happening::Mail(from, process, to, msg) => {
                (msg.tag(), *to, [*process, from.number(), msg.number()])
            }
            Happening::Wake(node, process) => (100, *node, [*process, 0, 0]),
            Happening::Fault => (101, Node::Trader(0), [0; 3]),
            Happening::Start(node) => (102, *node, [0; 3]),
            Happening::Late(at, connection, batch) => (103, Node::Importer(*at), [*connection, *batch, 0]),
            Happening::DialLate(at, process, id, number) => {
                (104, Node::Trader(*at), [*process, id.0, *number])
            }
        };
        for number in [self.now, tag, node.number()].into_iter().chain(numbers) {
            self.log.update(&number.to_le_bytes());
        }
    }

    fn trader_time(&self, at: usize) -> u64 {
        (self.now + 10_000_000).saturating_add_signed(self.traders[at].skew)
    }

    // Processes.

    fn start(&mut self, node: Node) {
        if self.process(node) != 0 {
            return;
        }
        self.last_process += 1;
        self.processes.insert(node, Process { number: self.last_process, ..Process::default() });
        let (now, seed) = (self.now, self.random.u64(..));
        match node {
            Node::Trader(at) => {
                let skew = self.traders[at].skew;
                let first = if self.bug == Some(Bug::NumbersAgain) { 1 } else { now * 1_000 };
                self.traders[at] = TraderNode { skew, ..TraderNode::new(first, self.bug) };
            }
            Node::Exporter(at) => {
                let options = exporter::Options::for_lease(self.lease_ms);
                let exporter = &mut self.exporters[at];
                exporter.machine = Exporter::new(options, TRADERS, 1, seed, now);
                exporter.sessions.clear();
                exporter.connections.clear();
            }
            Node::Importer(at) => {
                let options = importer_options(at);
                let importer = &mut self.importers[at];
                importer.machine = Importer::new(options, TRADERS, seed, now);
                (importer.using, importer.batch) = (None, None);
            }
        }
        self.step(node);
    }

    /// Ends a process.
    pub fn kill(&mut self, node: Node) {
        let process = self.process(node);
        self.check.ended.insert(process, self.now);
        self.processes.insert(node, Process::default());
    }

    fn fault(&mut self) {
        let nodes = self.nodes();
        let node = nodes[self.random.usize(..nodes.len())];
        let most = self.quiet.saturating_sub(self.now).max(1);
        let long = self.random.u64(100..25_000).min(most);
        match (self.random.u8(..8), node) {
            (0 | 1, _) => {
                let other = nodes[self.random.usize(..nodes.len())];
                self.cuts.insert((node.min(other), node.max(other)), self.now + long);
            }
            (2 | 3, Node::Exporter(_)) if self.random.bool() => self.kill(node),
            (2 | 3, Node::Exporter(_) | Node::Trader(_)) => {
                self.kill(node);
                let pause = self.random_pause(most);
                self.at(pause, Happening::Start(node));
            }
            (4, Node::Exporter(at)) if self.is_awake(node) => {
                let now = self.now;
                self.exporters[at].machine.handle(exporter::Event::Stop, now);
                self.step(node);
            }
            (5, Node::Trader(at)) if self.is_awake(node) => {
                // Forward by more than a third of a lease, or backward.
                let jump = if self.random.bool() {
                    self.random.i64(9_000..50_000)
                } else {
                    -self.random.i64(0..50_000)
                };
                self.traders[at].skew += jump;
                self.gap(at, self.now, jump.max(0) as u64);
                self.step(node);
            }
            (6 | 7, _) if self.is_awake(node) => {
                let until = self.now + long;
                if let Some(process) = self.processes.get_mut(&node) {
                    process.stopped_until = until;
                }
                if let Node::Trader(at) = node {
                    self.gap(at, until, long);
                }
            }
            _ => {
                self.loss = self.random.f64() * 0.2;
            }
        }
    }

    /// True if a node has a process that is not stopped.
    fn is_awake(&self, node: Node) -> bool {
        let process = self.processes.get(&node).copied().unwrap_or_default();
        process.number != 0 && process.stopped_until <= self.now
    }

    fn random_pause(&mut self, most: u64) -> u64 {
        self.random.u64(1..8_000).min(most)
    }

    /// Notes that a trader may have missed renewals for a time.
    fn gap(&mut self, at: usize, end: u64, long: u64) {
        let trader = &mut self.traders[at];
        trader.gap_end = trader.gap_end.max(end);
        if long > self.lease_ms / 3 + 1_100 && end >= self.now {
            trader.sure_gap_end = trader.sure_gap_end.max(end);
        }
    }

    /// Brings back all traders and importers; stopped processes go on.
    pub fn heal(&mut self) {
        self.cuts.clear();
        for at in 0..TRADERS {
            self.start(Node::Trader(at));
        }
    }
}

/// The settings of an importer. A search ends: a store that a batch needs may be gone for ever.
fn importer_options(at: usize) -> importer::Options {
    importer::Options {
        patience_ms: 2_000,
        pause_ms_max: 4_000,
        timeout_ms: Some(6_000),
        host: Some(format!("h{}", at % 2)),
        schemes: vec!["unix", "tcp"],
        ..importer::Options::default()
    }
}
