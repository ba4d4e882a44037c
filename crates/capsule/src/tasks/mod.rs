//! The tasks of a process: the threads that run the methods of native actors
//! (`docs/internals/tasks.md`, 004 section 4.2).
//!
//! To nodes and guests they are one more node, with the number [`tasks_of`], that is never lost and
//! has no heap. Packets for it are read on the sender's thread ([`Tasks::post`]): a message enters
//! the central queue of `bifrost-tasks`, and a task runs it in a context of its own ([`run`]). So a
//! call costs two wake-ups, and no node is passed.
//!
//! Read [`Tasks`] first; [`Served`] is a native actor, and [`Invocation`] a message to one. They
//! hold no references to actors of nodes, and so take no part in searches for garbage. They count
//! the nodes and guests that know an actor, as a node does.

mod alone;
mod run;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bifrost_actors::{ToTasks, read_for_tasks, tasks_of};
use bifrost_engine::Engine;
use bifrost_ir::native::conforms;
use bifrost_ir::{Class, FuncId, MethodRef, Signature, TypeId, TypeKind};
use bifrost_native::actor::{ActorType, ActorValue, Method, NativeActors};
use bifrost_runtime::transfer::Address;
use bifrost_runtime::{Image, Limits};
use bifrost_tasks::{Counts, Export, ExportId, Pool, Refused, Work};
use parking_lot::Mutex;

use crate::space::Space;

use run::Runner;

#[doc(hidden)]
pub use alone::TasksAlone;
pub use bifrost_tasks::{
    BOUNDS_US, Counts as TaskCounts, End as TaskEnd, Histogram, Settings as PoolSettings,
};

/// The priority of invocations, if the settings say nothing.
const PRIORITY: u8 = 4;

/// The settings of the tasks, which an embedder may put into the registry of natives.
#[derive(Clone, Debug)]
pub struct TaskSettings {
    /// Threads, bounds of the queue, the time after which a task is reported.
    pub pool: bifrost_tasks::Settings,
    /// Most invocations that wait for one actor.
    pub queue_max: usize,
    /// The settings of classes, by their names in `actor native "..."`.
    pub exports: BTreeMap<String, ExportSettings>,
    /// The limits of the context of each task.
    pub limits: Limits,
}

impl Default for TaskSettings {
    fn default() -> TaskSettings {
        TaskSettings {
            pool: bifrost_tasks::Settings::default(),
            queue_max: 1_000,
            exports: BTreeMap::new(),
            limits: Limits::default(),
        }
    }
}

/// The settings of the actors of a class; what is missing is as by default.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ExportSettings {
    /// The number of methods that run at once; 0 is no bound.
    pub concurrency: Option<u32>,
    /// Most invocations that wait.
    pub queue_max: Option<usize>,
    /// The priority, 0 to 7.
    pub priority: Option<u8>,
}

/// The way from the tasks to nodes and guests.
pub(crate) trait TaskMail: std::fmt::Debug + Send + Sync {
    /// Hands over packets.
    fn deliver(&self, to: u32, packets: Vec<u8>);

    /// Notes that so many invocations begin to wait or run: the program does not end meanwhile.
    fn begin_work(&self);

    /// Notes that one has ended.
    fn end_work(&self);

    /// Returns the facts about a guest.
    fn client(&self, guest: u32) -> Option<Client>;
}

/// The client from which a message comes.
#[derive(Clone, Debug)]
pub struct Client {
    /// The time after which it surely waits no more, if there is one.
    pub deadline: Option<Instant>,
    /// Its role; empty without one.
    pub caller: Arc<str>,
    /// The number of its session.
    pub session: u64,
    /// The steps by which the priority of its messages differs from that of others.
    pub priority: i8,
}

/// A native actor.
pub(crate) struct Served {
    address: Address,
    ty: TypeId,
    class: ActorType,
    value: ActorValue,
    export: ExportId,
    priority: u8,
    tasks: Weak<Tasks>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let Some(tasks) = self.tasks.upgrade() else { return };
        tasks.table.lock().actors.remove(&key_of(self.address));
        if let Some(pool) = tasks.pool() {
            pool.close(self.export);
        }
    }
}

/// Returns the native class of a class of actors, if the headings of its methods are those of the
/// program. A checked program has no other; one that was made without its natives may.
fn checked(image: &Image, class: &Class) -> Option<ActorType> {
    let program = image.program();
    let actor = class.actor.as_ref()?;
    let found = image.natives().get::<NativeActors>()?.find(actor.native.as_ref()?)?;
    let fits = |name: &str, signature: &Signature| {
        found.method(name).is_some_and(|method| conforms(program, method.heading(), signature))
    };
    let creators = actor.creators.iter().all(|creator| fits("new", &program.funcs[*creator].signature));
    let mut methods = program.types.def(class.ty).methods.values();
    let all = creators && methods.all(|method| fits(&method.name, &method.signature));
    if !all {
        tracing::error!(class = class.name, "tasks.unfit: its methods in Rust are others");
    }
    all.then(|| found.clone())
}

/// The key of an address in the table.
fn key_of(address: Address) -> (u32, u32) {
    (address.index, address.generation)
}

/// The part of an invocation that is to run.
#[derive(Debug)]
pub(crate) enum What {
    /// The creator.
    Create(FuncId),
    /// A method.
    Message(MethodRef, Method),
    /// Nothing: the actor is let go, where its value may block.
    End,
}

/// A message to a native actor.
pub(crate) struct Invocation {
    actor: Arc<Served>,
    what: What,
    from: u32,
    waiter: Option<[u32; 2]>,
    /// True if the sender needs no answer any more, and does not want it to run.
    cancelled: Arc<AtomicBool>,
    client: Option<Client>,
    packets: Arc<Vec<u8>>,
    arguments: Range<usize>,
    deadline_us: Option<u64>,
}

impl Invocation {
    /// Returns the name of its method.
    fn name(&self) -> String {
        let method = match &self.what {
            What::Create(_) => "new",
            What::Message(_, method) => method.name(),
            What::End => "drop",
        };
        format!("{}.{method}", self.actor.class.name())
    }
}

impl Work for Invocation {
    fn client(&self) -> u32 {
        self.from
    }

    fn priority(&self) -> u8 {
        let shift = self.client.as_ref().map_or(0, |client| client.priority);
        match self.what {
            // No message goes before it.
            What::Create(_) => bifrost_tasks::PRIORITIES - 1,
            _ => self.actor.priority.saturating_add_signed(shift).min(bifrost_tasks::PRIORITIES - 1),
        }
    }

    fn is_alone(&self) -> bool {
        match &self.what {
            What::Message(_, method) => method.is_alone(),
            What::Create(_) | What::End => true,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Invocation>() + self.arguments.len()
    }

    fn deadline_us(&self) -> Option<u64> {
        self.deadline_us
    }

    fn is_wanted(&self) -> bool {
        match self.what {
            // Messages behind it need it.
            What::Create(_) | What::End => true,
            What::Message(..) => !self.cancelled.load(Ordering::Relaxed),
        }
    }

    fn label(&self) -> String {
        self.name()
    }
}

/// An actor that is there, and the nodes and guests that know it.
struct Entry {
    actor: Weak<Served>,
    /// The actor, as long as others know it.
    held: Option<Arc<Served>>,
    /// By node: the number of times that it was told of the actor, and has not forgotten it.
    known: HashMap<u32, i64>,
}

#[derive(Default)]
struct Table {
    /// By index and generation.
    actors: HashMap<(u32, u32), Entry>,
    /// The number of actors that were made here, and not by a node.
    own: u64,
    /// By the sender, index and generation of a request: true when it is cancelled.
    requests: HashMap<(u32, [u32; 2]), Arc<AtomicBool>>,
}

/// The tasks of a process.
pub struct Tasks {
    engine: Arc<Engine>,
    nodes: u32,
    settings: TaskSettings,
    /// The classes of native actors whose headings in Rust are those of the program.
    classes: HashMap<TypeId, ActorType>,
    table: Mutex<Table>,
    mail: OnceLock<Box<dyn TaskMail>>,
    pool: OnceLock<Pool<Invocation, Runner>>,
    /// The context in which answers that come later are made.
    later: OnceLock<Arc<Space>>,
    /// By class: the figures of its actors together.
    counts: Mutex<BTreeMap<&'static str, Arc<Counts>>>,
    /// The number of invocations that have not ended.
    pending: AtomicUsize,
    /// The context in which invocations run at once, on the thread of the sender, if the nodes are
    /// simulated.
    here: OnceLock<Arc<Space>>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// The figures of the tasks.
#[derive(Clone, Debug)]
pub struct TasksMeasured {
    /// The number of tasks.
    pub tasks: u32,
    /// The number of native actors.
    pub actors: usize,
    /// The figures of all actors together: of the central queue.
    pub all: Arc<Counts>,
    /// By class: the figures of its actors together.
    pub classes: Vec<(&'static str, Arc<Counts>)>,
}

impl Tasks {
    /// Makes the tasks beside so many nodes, still without threads; nothing if the program declares
    /// no native actors.
    pub(crate) fn of(engine: &Arc<Engine>, nodes: u32) -> Option<Arc<Tasks>> {
        let image = engine.image();
        let classes = image.program().classes.values();
        if !classes.clone().any(|class| class.actor.as_ref().is_some_and(|actor| actor.native.is_some())) {
            return None;
        }
        let settings = image.natives().get::<TaskSettings>().cloned().unwrap_or_default();
        let classes = classes.filter_map(|class| Some((class.ty, checked(image, class)?))).collect();
        let tasks = Arc::new(Tasks {
            engine: engine.clone(),
            nodes,
            table: Mutex::default(),
            mail: OnceLock::new(),
            pool: OnceLock::new(),
            later: OnceLock::new(),
            counts: Mutex::default(),
            pending: AtomicUsize::new(0),
            here: OnceLock::new(),
            settings,
            classes,
        });
        let pool = Pool::new(tasks.settings.pool, Runner::new(&tasks));
        tasks.pool.set(pool).ok()?;
        Some(tasks)
    }

    /// Connects the tasks with nodes and guests.
    pub(crate) fn connect(&self, mail: Box<dyn TaskMail>) {
        // It is done once, where the nodes are made.
        let _ = self.mail.set(mail);
    }

    /// Lets invocations run at once, on the sender's stack. So their order is that of the
    /// messages.
    ///
    /// # Errors
    /// When no context can be made.
    pub(crate) fn simulate(self: &Arc<Tasks>) -> std::io::Result<()> {
        let context = self.context()?;
        self.here.get_or_init(|| context);
        Ok(())
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        self.pool().map_or(Ok(()), Pool::start)
    }

    /// Ends the threads. One that is in a method for longer is left.
    pub fn stop(&self, patience: Duration) {
        if let Some(pool) = self.pool() {
            pool.stop(patience);
        }
    }

    /// Returns the number under which nodes and guests know the tasks.
    pub fn number(&self) -> u32 {
        tasks_of(self.nodes)
    }

    fn pool(&self) -> Option<&Pool<Invocation, Runner>> {
        self.pool.get()
    }

    /// Returns the figures.
    pub fn measured(&self) -> Option<TasksMeasured> {
        let pool = self.pool()?;
        let classes = self.counts.lock().iter().map(|(name, counts)| (*name, counts.clone())).collect();
        let (tasks, all) = (pool.tasks(), pool.counts().clone());
        Some(TasksMeasured { tasks, actors: self.table.lock().actors.len(), all, classes })
    }

    /// Returns the number of invocations that have not ended, late answers included.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    fn begin_work(&self) {
        self.pending.fetch_add(1, Ordering::AcqRel);
        if let Some(mail) = self.mail.get() {
            mail.begin_work();
        }
    }

    fn end_work(&self) {
        if let Some(mail) = self.mail.get() {
            mail.end_work();
        }
        self.pending.fetch_sub(1, Ordering::AcqRel);
    }

    /// Hands over packets of a node or guest.
    pub(crate) fn post(self: &Arc<Tasks>, from: u32, packets: Vec<u8>) {
        let packets = Arc::new(packets);
        let image = self.engine.image();
        let read = read_for_tasks(image, self.nodes, from, &packets, |packet| match packet {
            ToTasks::Create { address, ty, arguments } => self.create(from, address, ty, &packets, arguments),
            ToTasks::Message { address, method, waiter, arguments } => {
                self.message(from, address, method, waiter, &packets, arguments);
            }
            ToTasks::Grant { address, to } => self.count(address, to, 1),
            ToTasks::Release { address, times } => self.count(address, from, -i64::from(times)),
            ToTasks::Cancel { waiter } => {
                if let Some(cancelled) = self.table.lock().requests.get(&(from, waiter)) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
        });
        if let Err(why) = read {
            tracing::warn!(from, why, "tasks.packet_dropped");
        }
    }

    /// Makes an actor of a class, which is entered.
    fn enter(self: &Arc<Tasks>, address: Address, ty: TypeId, value: ActorValue) -> Option<Arc<Served>> {
        let class = self.classes.get(&ty)?.clone();
        let settings = self.settings.exports.get(class.name()).copied().unwrap_or_default();
        let counts = self.counts.lock().entry(class.name()).or_default().clone();
        let export = self.pool()?.open(Export {
            concurrency: settings.concurrency.unwrap_or(class.concurrency()),
            queue_max: settings.queue_max.unwrap_or(self.settings.queue_max),
            counts,
        });
        let priority = settings.priority.unwrap_or(PRIORITY);
        let tasks = Arc::downgrade(self);
        let actor = Arc::new(Served { address, ty, class, value, export, priority, tasks });
        let entry = Entry { actor: Arc::downgrade(&actor), held: None, known: HashMap::new() };
        let earlier = self.table.lock().actors.insert(key_of(address), entry);
        // It is dropped when the table is not locked: its actor looks for itself there.
        drop(earlier);
        Some(actor)
    }

    /// Enters an actor that a node or guest makes, and has its creator run.
    fn create(
        self: &Arc<Tasks>,
        from: u32,
        address: Address,
        ty: TypeId,
        packets: &Arc<Vec<u8>>,
        arguments: Range<usize>,
    ) {
        let program = self.engine.image().program();
        let TypeKind::Class(class) = program.types.kind(ty) else { return };
        let Some(creator) = program.classes[class].actor.as_ref().and_then(|actor| actor.creators.first())
        else {
            return;
        };
        // A correct node gives each actor another address.
        if self.table.lock().actors.contains_key(&key_of(address)) {
            return tracing::warn!(from, "tasks.address_taken");
        }
        let Some(actor) = self.enter(address, ty, ActorValue::default()) else {
            tracing::warn!(class = program.types.name(ty), "tasks.unknown_class");
            return;
        };
        self.count(address, from, 1);
        self.push(Invocation {
            actor,
            what: What::Create(*creator),
            from,
            waiter: None,
            cancelled: Arc::default(),
            client: None,
            packets: packets.clone(),
            arguments,
            deadline_us: None,
        });
    }

    /// Queues a message.
    fn message(
        self: &Arc<Tasks>,
        from: u32,
        address: Address,
        method: MethodRef,
        waiter: Option<[u32; 2]>,
        packets: &Arc<Vec<u8>>,
        arguments: Range<usize>,
    ) {
        let actor = self.find(address, method.ty);
        let name = &self.engine.image().program().types.method(method).name;
        let native = actor.as_ref().and_then(|actor| actor.class.method(name).cloned());
        let (Some(actor), Some(native)) = (actor, native) else {
            return self.answer_failure(from, waiter, method, "there is no such actor");
        };
        let client = self.mail.get().and_then(|mail| mail.client(from));
        let deadline_us = client.as_ref().and_then(|client| {
            let left = client.deadline?.saturating_duration_since(Instant::now());
            Some(self.pool()?.now_us() + left.as_micros() as u64)
        });
        self.push(Invocation {
            actor,
            what: What::Message(method, native),
            from,
            waiter,
            cancelled: self.enter_request(from, waiter),
            client,
            packets: packets.clone(),
            arguments,
            deadline_us,
        });
    }

    /// Enters a request. Returns the flag that is true when it is cancelled.
    fn enter_request(&self, from: u32, waiter: Option<[u32; 2]>) -> Arc<AtomicBool> {
        let Some(waiter) = waiter else { return Arc::default() };
        self.table.lock().requests.entry((from, waiter)).or_default().clone()
    }

    /// Forgets a request that is about to be answered: its number may be used again.
    fn end_request(&self, from: u32, waiter: Option<[u32; 2]>) {
        if let Some(waiter) = waiter {
            self.table.lock().requests.remove(&(from, waiter));
        }
    }

    /// Returns the actor at an address, if it has the class.
    fn find(&self, address: Address, ty: TypeId) -> Option<Arc<Served>> {
        // It may be the last reference: it is dropped when the table is not locked.
        let found = self.table.lock().actors.get(&key_of(address)).and_then(|entry| entry.actor.upgrade());
        found.filter(|actor| actor.ty == ty)
    }

    fn push(self: &Arc<Tasks>, invocation: Invocation) {
        let Some(pool) = self.pool() else { return };
        self.begin_work();
        if let Some(space) = self.here.get() {
            return self.run(space, invocation);
        }
        let Err((refused, invocation)) = pool.push(invocation.actor.export, invocation) else { return };
        let counts = self.counts.lock().get(invocation.actor.class.name()).cloned();
        if let Some(counts) = counts.filter(|_| !matches!(invocation.what, What::End)) {
            counts.end(bifrost_tasks::End::Refused);
        }
        let why = match refused {
            Refused::Closed => "its server stops",
            Refused::Export | Refused::All | Refused::Bytes => "busy",
        };
        self.give_up(invocation, why);
    }

    /// Answers an invocation that does not run with a failure.
    fn give_up(self: &Arc<Tasks>, invocation: Invocation, why: &str) {
        match invocation.what {
            What::Create(_) => invocation.actor.value.fail(why.to_owned()),
            What::Message(method, _) => {
                self.answer_failure(invocation.from, invocation.waiter, method, why);
            }
            What::End => {}
        }
        self.end_work();
    }

    /// Counts that a node or guest was told of an actor, or has forgotten it.
    fn count(self: &Arc<Tasks>, address: Address, node: u32, times: i64) {
        let mut table = self.table.lock();
        let Some(entry) = table.actors.get_mut(&key_of(address)) else { return };
        let count = entry.known.entry(node).or_default();
        *count += times;
        if *count == 0 {
            entry.known.remove(&node);
        }
        let let_go = match entry.known.is_empty() {
            true => entry.held.take(),
            false => {
                if entry.held.is_none() {
                    entry.held = entry.actor.upgrade();
                }
                None
            }
        };
        drop(table);
        let_go.into_iter().for_each(|actor| self.let_go(actor));
    }

    /// Lets go of an actor on a task, since its value may block.
    fn let_go(self: &Arc<Tasks>, actor: Arc<Served>) {
        let number = self.number();
        self.push(Invocation {
            actor,
            what: What::End,
            from: number,
            waiter: None,
            cancelled: Arc::default(),
            client: None,
            packets: Arc::default(),
            arguments: 0..0,
            deadline_us: None,
        });
    }

    /// Notes that nodes or guests are no more: actors that only they knew are let go.
    pub(crate) fn lose(self: &Arc<Tasks>, nodes: &Range<u32>) {
        let mut table = self.table.lock();
        let mut forgotten = Vec::new();
        for entry in table.actors.values_mut() {
            entry.known.retain(|node, _| !nodes.contains(node));
            if entry.known.is_empty() {
                forgotten.extend(entry.held.take());
            }
        }
        drop(table);
        forgotten.into_iter().for_each(|actor| self.let_go(actor));
    }

    /// Returns the next address of an actor that is made here.
    fn own_address(&self) -> Address {
        let mut table = self.table.lock();
        table.own += 1;
        let number = table.own;
        // The low byte 0 is that of addresses that their node has chosen.
        let generation = ((number >> 32) as u32) << 8;
        Address { capsule: 0, node: self.number(), index: number as u32, generation }
    }
}
