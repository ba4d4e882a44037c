//! The nodes of a server, which run the actors of its program, and the sessions, which are their
//! guests (`actors::guest`).
//!
//! Read `Hosts` first: it owns the nodes, and makes the context of a session that of a guest.
//! `Table` is the table of guests that the nodes see; `Guest` is a session's way to the nodes. The
//! nodes themselves are in [`bifrost_capsule::nodes`].
//!
//! 1. A guest is unknown to all nodes before it sends something.
//! 2. Then it opens itself to all nodes. It has mail as a node has, and takes it while it waits for
//!    answers.
//! 3. When it is dropped, the nodes lose it.
//!
//! An actor with a name is held by the table of names, which is a guest for ever: the first number
//! above the nodes is its. The second is that of the tasks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_actors::{
    Named, Names, Observer, Packets, Placement, Received, Wait, WithActors, grant, release, tasks_of,
};
use bifrost_cache::Cache;
use bifrost_capsule::Space;
use bifrost_capsule::nodes::{Guests, NODES_MAX, Nodes, Shared, nap};
use bifrost_capsule::tasks::Client;
use bifrost_engine::{Engine, Raised};
use bifrost_runtime::Cx;
use bifrost_workers::{Condvar, Reason};
use parking_lot::{Mutex, RwLock};

use crate::bell::Bell;
use crate::metrics::NodesMeasured;
use crate::server::StartError;

/// Most nodes of a server: one less than a program has alone, since all guests together have a
/// number of theirs.
pub const HOSTS_MAX: u32 = NODES_MAX - 1;

/// Most names of actors.
const NAMES_MAX: usize = 100_000;

/// Most bytes of a name.
const NAME_BYTES_MAX: usize = 4096;

/// A guest that sends waits while there are more than so many bytes that no node has taken.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The pause before it looks again, and the largest number of pauses.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES_MAX: u32 = 10_000;

/// The mail of a guest.
#[derive(Debug)]
enum Mail {
    Packets(u32, Vec<u8>),
    /// A guest that waits looks whether it may go on.
    Wake,
    /// The nodes have ended.
    Stop,
}

/// The guests of a server's nodes, and the names of actors.
#[derive(Debug)]
struct Table {
    /// Those that have sent something, and are there.
    ports: RwLock<HashMap<u32, Arc<GuestPort>>>,
    /// The number of the last guest.
    last: AtomicU64,
    /// By node, the tasks included: the index of the next actor that a guest makes there.
    indices: Vec<AtomicU32>,
    names: Mutex<HashMap<String, Named>>,
    /// The nodes have ended.
    ended: AtomicBool,
}

/// The way to a guest.
#[derive(Debug)]
struct GuestPort {
    mail: Mutex<VecDeque<Mail>>,
    came: Condvar,
    /// It waits for answers.
    waits: AtomicBool,
    /// Its client has hung up.
    gone: AtomicBool,
    /// The number of bytes that it has not taken, and their limit.
    waiting: AtomicUsize,
    waiting_most: usize,
    /// Bytes were dropped at the limit: it hears nothing of the nodes any more.
    full: AtomicBool,
    /// The nodes know of it.
    open: AtomicBool,
    /// The name of its role; empty without one.
    caller: Mutex<Arc<str>>,
    /// Most time of a batch, if there is a bound.
    batch_time: Option<Duration>,
}

/// The place of a session among the guests.
#[derive(Debug)]
pub(crate) struct GuestPlace {
    number: u32,
    port: Arc<GuestPort>,
}

impl GuestPlace {
    /// Enters the name of the role of the client.
    pub fn set_caller(&self, role: &str) {
        *self.port.caller.lock() = Arc::from(role);
    }

    /// True if the nodes know of the guest, so that its context must stay.
    pub fn is_open(&self) -> bool {
        self.port.open.load(Ordering::Relaxed)
    }
}

impl Table {
    /// Makes the table of the guests of so many nodes.
    fn new(nodes: u32) -> Table {
        Table {
            ports: RwLock::default(),
            last: AtomicU64::new(tasks_of(nodes).into()),
            indices: (0..=tasks_of(nodes)).map(|_| AtomicU32::new(0)).collect(),
            names: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Notes that the nodes have ended, and answer no more.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for port in self.ports.read().values() {
            port.send(Mail::Stop);
        }
    }
}

impl Guests for Table {
    fn client(&self, guest: u32) -> Option<Client> {
        let port = self.ports.read().get(&guest)?.clone();
        let deadline = port.batch_time.map(|time| Instant::now() + time);
        let caller = port.caller.lock().clone();
        Some(Client { deadline, caller, session: guest.into(), priority: 0 })
    }

    fn post(&self, from: u32, to: u32, packets: Vec<u8>) {
        let ports = self.ports.read();
        let Some(port) = ports.get(&to) else { return };
        let waiting = port.waiting.fetch_add(packets.len(), Ordering::Relaxed) + packets.len();
        let mail = match waiting > port.waiting_most {
            true if port.full.swap(true, Ordering::AcqRel) => return,
            true => Mail::Wake,
            false => Mail::Packets(from, packets),
        };
        port.send(mail);
    }

    fn waits(&self, guest: u32) -> bool {
        self.ports.read().get(&guest).is_some_and(|port| port.waits.load(Ordering::Relaxed))
    }

    /// Enters an actor under a name, or takes the name away; the table was told of the actor.
    fn publish(&self, shared: &Shared, name: &str, actor: Option<Named>) -> Result<bool, String> {
        let names_of = shared.nodes();
        let let_go = |named: Named| shared.deliver(names_of, named.0.node, release(named.0));
        let mut names = self.names.lock();
        let before = match actor {
            None => names.remove(name),
            Some(named) if name.len() > NAME_BYTES_MAX => {
                let_go(named);
                return Err(format!("the name of an actor has at most {NAME_BYTES_MAX} bytes"));
            }
            Some(named) if names.len() >= NAMES_MAX && !names.contains_key(name) => {
                let_go(named);
                return Err(format!("{NAMES_MAX} actors have names, and that is the limit"));
            }
            Some(named) => names.insert(name.to_owned(), named),
        };
        Ok(before.map(let_go).is_some())
    }

    fn find(&self, shared: &Shared, name: &str, to: u32) -> Option<Named> {
        // The table knows the actor for as long as it is locked. So its owner hears of the node
        // that asks before the actor can be forgotten.
        let names = self.names.lock();
        let named = *names.get(name)?;
        if named.0.node != to {
            shared.deliver(shared.nodes(), named.0.node, grant(named.0, to));
        }
        Some(named)
    }
}

/// A guest's way to the nodes.
#[derive(Debug)]
struct Guest {
    number: u32,
    shared: Arc<Shared>,
    table: Arc<Table>,
    port: Arc<GuestPort>,
    /// The node of the next actor if no node rests.
    next: u32,
}

impl GuestPort {
    fn send(&self, mail: Mail) {
        self.mail.lock().push_back(mail);
        self.came.notify_one();
    }

    /// Waits for mail. The job of a session holds no worker meanwhile.
    fn receive(&self) -> Mail {
        let mut mail = self.mail.lock();
        loop {
            match mail.pop_front() {
                Some(first) => return first,
                None => self.came.wait(&mut mail),
            }
        }
    }
}

impl Guest {
    /// Opens the guest: tells the nodes of it.
    fn open(&mut self) {
        if !self.port.open.swap(true, Ordering::Relaxed) {
            self.table.ports.write().insert(self.number, self.port.clone());
            self.shared.open_guest(self.number);
        }
    }

    fn take(&self, mail: Mail) -> Received {
        match mail {
            _ if self.port.full.load(Ordering::Acquire) => Received::Stopped,
            Mail::Packets(from, packets) => {
                self.port.waiting.fetch_sub(packets.len(), Ordering::Relaxed);
                Received::Packets(from, packets)
            }
            Mail::Stop => Received::Stopped,
            Mail::Wake => Received::Nothing,
        }
    }
}

impl Packets for Guest {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        self.open();
        for _ in 0..PAUSES_MAX {
            let full = self.shared.waiting_bytes() > WAITING_BYTES_MAX;
            if !full || self.table.ended.load(Ordering::Relaxed) {
                break;
            }
            bifrost_workers::sleep(PAUSE);
        }
        self.shared.deliver(self.number, node, packets);
    }

    fn receive(&mut self, wait: Wait) -> Received {
        if wait != Wait::Idle {
            let mail = self.port.mail.lock().pop_front();
            return mail.map_or(Received::Nothing, |mail| self.take(mail));
        }
        let port = &self.port;
        if port.gone.load(Ordering::Acquire) || port.full.load(Ordering::Acquire) {
            // The guest waits for answers no more, or some are missing.
            return Received::Stopped;
        }
        self.port.waits.store(true, Ordering::Relaxed);
        let mail = match self.table.ended.load(Ordering::Acquire) {
            true => None,
            false => Some(port.receive()),
        };
        self.port.waits.store(false, Ordering::Relaxed);
        mail.map_or(Received::Stopped, |mail| self.take(mail))
    }

    fn is_full(&mut self) -> bool {
        self.port.full.load(Ordering::Acquire)
    }

    fn has_mail(&mut self) -> bool {
        false
    }
}

impl Placement for Guest {
    fn claim_idle_node(&mut self) -> Option<u32> {
        (0..self.shared.nodes()).find(|node| self.shared.is_idle(*node))
    }

    fn is_idle(&mut self, node: u32) -> bool {
        self.shared.is_idle(node)
    }

    fn has_tasks(&self) -> bool {
        self.shared.tasks().is_some()
    }

    fn home(&mut self) -> u32 {
        self.next = (self.next + 1) % self.shared.nodes();
        self.next
    }

    fn next_index(&mut self, node: u32) -> Option<u32> {
        Some(self.table.indices[node as usize].fetch_add(1, Ordering::Relaxed))
    }
}

impl Names for Guest {
    fn has_names(&self) -> bool {
        true
    }

    fn publish(&mut self, name: &str, actor: Option<Named>) -> Result<bool, String> {
        self.open();
        self.table.publish(&self.shared, name, actor)
    }

    fn find(&mut self, name: &str) -> Option<Named> {
        self.open();
        self.table.find(&self.shared, name, self.number)
    }
}

impl Observer for Guest {}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.port.open.load(Ordering::Relaxed) {
            self.table.ports.write().remove(&self.number);
            self.shared.lose(self.number..self.number + 1);
        }
    }
}

/// The nodes of a server, which run until it stops.
#[derive(Debug)]
pub(crate) struct Hosts {
    nodes: Arc<Nodes>,
    table: Arc<Table>,
    thread: Option<JoinHandle<()>>,
    /// Those of the nodes' transactions.
    _caches: Vec<Cache>,
}

impl Hosts {
    /// Starts nodes in these contexts, after the routine `start`, if the program has it, has run on
    /// the first one.
    pub fn start(engine: &Arc<Engine>, contexts: Vec<(Arc<Space>, Cache)>) -> Result<Hosts, StartError> {
        let (spaces, caches): (Vec<_>, Vec<_>) = contexts.into_iter().unzip();
        let ready = |cx: &mut Cx| {
            cx.set_transactions_by_program();
            cx.actors().set_log(|text| tracing::warn!(text, "actor.log"));
            cx.actors().set_notes(|text| tracing::warn!(text, "actor.failed"));
            cx.actors().set_nap(nap);
        };
        let table = Arc::new(Table::new(spaces.len() as u32));
        let nodes = Arc::new(Nodes::hosting(spaces, table.clone(), ready));
        start(engine, &nodes.spaces()[0]).map_err(StartError::Start)?;
        let (run, ended) = (nodes.clone(), table.clone());
        let thread = std::thread::Builder::new().name("nodes".to_owned()).spawn(move || {
            if let Err(error) = run.serve() {
                tracing::error!(%error, "nodes.failed");
            }
            ended.end();
        })?;
        Ok(Hosts { nodes, table, thread: Some(thread), _caches: caches })
    }

    /// Gives a session the place of a guest, which waits for answers for as long as its client is
    /// there. Without numbers left, there is none: it reaches no node.
    pub fn enter(&self, space: &Space, bell: &Bell, batch_time: Option<Duration>) -> Option<GuestPlace> {
        let last = self.table.last.fetch_add(1, Ordering::Relaxed);
        let number = u32::try_from(last + 1).ok()?;
        let port = Arc::new(GuestPort {
            mail: Mutex::default(),
            came: Condvar::parking_for(Reason::Actors),
            waits: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            waiting_most: space.lock().limits().batch_heap_bytes,
            full: AtomicBool::new(false),
            open: AtomicBool::new(false),
            caller: Mutex::new(Arc::from("")),
            batch_time,
        });
        let waker = port.clone();
        space.poll().set_waker(move || waker.send(Mail::Wake));
        let hung_up = port.clone();
        bell.on_hang_up(move || {
            hung_up.gone.store(true, Ordering::Release);
            hung_up.send(Mail::Wake);
        });
        let place = GuestPlace { number, port };
        self.furnish(&place, space);
        Some(place)
    }

    /// Makes the context of a session, which is new, that of a guest.
    pub fn furnish(&self, place: &GuestPlace, space: &Space) {
        let (number, port) = (place.number, place.port.clone());
        let (shared, table) = (self.nodes.shared().clone(), self.table.clone());
        let nodes = shared.nodes();
        let guest = Guest { number, shared, table, port, next: number % nodes };
        let mut cx = space.lock();
        bifrost_actors::set_guest(&mut cx, number, nodes);
        bifrost_actors::set_network(&mut cx, Box::new(guest), nodes);
    }

    /// Returns the metrics of the nodes.
    pub fn measured(&self) -> NodesMeasured {
        let shared = self.nodes.shared();
        NodesMeasured {
            nodes: shared.nodes().into(),
            sessions: self.table.ports.read().len() as u64,
            names: self.table.names.lock().len() as u64,
            waiting_bytes: shared.waiting_bytes() as u64,
            stats: shared.stats(),
            tasks: shared.tasks().and_then(|tasks| tasks.measured()),
        }
    }

    /// Ends the nodes. Sessions that wait for actors are told so.
    pub fn stop(&mut self) {
        self.table.end();
        self.nodes.shared().end();
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs `start`, if the program has it.
fn start(engine: &Arc<Engine>, space: &Space) -> Result<(), Raised> {
    let Some(start) = engine.find_entry("start", 0) else { return Ok(()) };
    // SAFETY: the context runs this engine's image, and `start` takes nothing.
    let run = || unsafe { engine.call_passive(&mut space.lock(), start, &[]) };
    let ended = space.on_stack(run).map_err(|e| Raised {
        name: "failure".to_owned(),
        values: format!("({e})"),
        places: vec![],
    })?;
    ended.map(|_| ())
}
