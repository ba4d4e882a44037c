//! The context of running code.
//!
//! Read [`Cx`] first. It owns the heap, the roots, the actors and the transaction of one session or
//! node, and the exception under way. A run is between [`Cx::begin`] and [`Cx::leave`]; each has an
//! epoch of its own. Other threads reach a context through [`Poll`] only: they end its run or its
//! turn. Code learns that at its next poll, and calls [`Cx::attend`] or [`Cx::stop`].

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bifrost_heap::{Heap, Window};
use bifrost_ir::SignalId;

use crate::abi::{Activation, ExitFrame, Ret, VALUES_MAX, Word};
use crate::caller::Caller;
use crate::collect::Collecting;
use crate::image::Image;
use crate::mode::{Doom, Transaction};
use crate::names;
use crate::node_host::{NodeHost, NodeState};
use crate::node_words::NodeWords;
use crate::object;
use crate::places::Places;
use crate::reference::DirectoryRef;
use crate::roots::{Frame, Roots};
use crate::structure::{PROCEDURE_DEPTH_MAX, Trace};

/// The reasons for which a batch is ended from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kill {
    /// It ran longer than its limit.
    Time = 1,
    /// It used up its steps.
    Fuel = 2,
    /// The server is shutting down, or the client is gone.
    Stop = 3,
    /// Others have changed objects that the transaction has read.
    Conflict = 4,
    /// The transaction has read as many objects as it may.
    Objects = 5,
    /// The answers to its requests are more than it has room for.
    Answers = 6,
    /// All sessions together have as much memory as they may.
    Memory = 7,
}

impl std::fmt::Display for Kill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kill::Time => "it ran too long",
            Kill::Fuel => "it ran too many steps",
            Kill::Stop => "the run was cancelled",
            Kill::Conflict => "another session has changed an object that the transaction has read",
            Kill::Objects => "the transaction reads more objects than it may",
            Kill::Answers => "its queued answers exceed the limit",
            Kill::Memory => "the objects of all sessions need too much memory",
        })
    }
}

/// The resources that running code may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole heap.
    pub heap_bytes: usize,
    /// Bytes that one batch may add to the heap. Objects that it makes and drops again do not
    /// count.
    pub batch_heap_bytes: usize,
    /// Bytes that wait in the mailbox of one actor; at least a megabyte and at most a quarter of
    /// the heap.
    pub mailbox_bytes: usize,
    /// Bytes of stack.
    pub stack_bytes: usize,
    /// Steps of a batch's own loops and calls.
    pub fuel: i64,
    /// Persistent objects that one transaction may read.
    pub transaction_objects: usize,
    /// The times at which the heap is collected.
    pub collect: Collect,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            heap_bytes: 1 << 30,
            batch_heap_bytes: 64 << 20,
            mailbox_bytes: 128 << 20,
            stack_bytes: 24 << 20,
            fuel: 10_000_000,
            transaction_objects: usize::MAX,
            collect: Collect::default(),
        }
    }
}

/// The times at which the heap is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collect {
    /// When it pays.
    #[default]
    Ordinary,
    /// The same, and freed memory is made unusable, so that a missing root is found: for tests.
    Checked,
    /// At every so many allocations (1 for each of them), checked as well. All allocation takes the
    /// slow way: for tests.
    Zeal(u32),
    /// The allocation with this number, counted from 1, finds the heap full, and only that one. All
    /// allocation takes the slow way: for tests.
    Full(u32),
}

impl std::str::FromStr for Collect {
    type Err = String;

    /// `ordinary`, `check`, `zeal`, or `zeal=100` for every 100th allocation.
    fn from_str(text: &str) -> Result<Collect, String> {
        let every = text.strip_prefix("zeal=").and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        match (text, every) {
            ("ordinary", _) => Ok(Collect::Ordinary),
            ("check", _) => Ok(Collect::Checked),
            ("zeal", _) => Ok(Collect::Zeal(1)),
            (_, Some(every)) => Ok(Collect::Zeal(every)),
            _ => Err(format!("`{text}` is not `ordinary`, `check`, `zeal` or `zeal=100`")),
        }
    }
}

/// The part of a context that other threads may use: they ask it to stop at its next poll.
#[derive(Debug)]
pub struct Poll {
    /// The epoch of the run that is to end and a [`Kill`] in the low byte, or 0. A thread that ends
    /// a run may be late, and must not end the next.
    kill: AtomicU64,
    /// Counts runs; odd while one is under way.
    epoch: AtomicU64,
    /// The poll words of the context while that lives.
    words: Mutex<Option<PollAddress>>,
    /// True if the turn of the running method is over.
    turn_over: AtomicBool,
    /// True if the run shall make way for others.
    way_asked: AtomicBool,
    /// The number of times that the turns of a node were ended: a clock that costs nothing to read.
    ticks: AtomicU32,
    /// True if a watch bounds the time of the runs.
    watched: AtomicBool,
    /// Wakes the thread that waits in the context for others.
    waker: Mutex<Option<Waker>>,
}

/// The function that wakes a context that waits.
struct Waker(Box<dyn Fn() + Send>);

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// The words that running code tests to learn that it shall attend. (ARCHITECTURE.md, Polls)
#[repr(C)]
#[derive(Debug, Default)]
struct PollWords {
    /// The poll word: the address below which the stack may not grow. `usize::MAX` asks for
    /// attention, so that one comparison of the stack pointer with this word is stack check,
    /// preemption and cancellation at once.
    stack: AtomicUsize,
    /// Not 0 while `stack` asks for attention: loops need not look at the stack pointer, which
    /// takes a register.
    attention: AtomicUsize,
}

impl PollWords {
    /// Asks for attention.
    fn ask(&self) {
        // Release: pairs with the Acquire in `Cx::attend`, which must see the reason.
        self.stack.store(usize::MAX, Ordering::Release);
        self.attention.store(1, Ordering::Release);
    }

    /// Asks for no attention unless the stack comes to its limit.
    fn clear(&self, stack_limit: usize) {
        // Acquire: pairs with the Release in `ask`.
        self.attention.swap(0, Ordering::Acquire);
        self.stack.swap(stack_limit, Ordering::Acquire);
    }
}

/// The address of a context's poll words.
#[derive(Debug)]
struct PollAddress(NonNull<PollWords>);

// SAFETY: the words are atomic, and `Cx::drop` takes the address away under the lock before the
// words go.
unsafe impl Send for PollAddress {}

impl Poll {
    /// Ends the run under way at its next poll, if it is still that of `epoch`.
    pub fn kill(&self, epoch: u64, why: Kill) {
        let words = self.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(words) = &*words
            && self.epoch.load(Ordering::Acquire) == epoch
            && epoch % 2 == 1
        {
            self.kill.store(epoch << 8 | why as u64, Ordering::Relaxed);
            // SAFETY: the context lives while its address is here, see `PollAddress`.
            unsafe { words.0.as_ref() }.ask();
            let waker = self.waker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            waker.iter().for_each(|waker| waker.0());
        }
    }

    /// Enters the function that wakes the thread that waits in the context, when its run is ended.
    pub fn set_waker(&self, waker: impl Fn() + Send + 'static) {
        let mut place = self.waker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *place = Some(Waker(Box::new(waker)));
    }

    /// Has a method of an actor that runs now make way for others at its next poll, if there are
    /// any.
    pub fn end_turn(&self) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.ask_running(&self.turn_over);
    }

    /// Returns the number of times that [`end_turn`](Poll::end_turn) was called.
    #[inline]
    pub fn ticks(&self) -> u32 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Has the code that runs now make way for that of other contexts at its next poll
    /// ([`Cx::set_make_way`]).
    pub fn ask_way(&self) {
        self.ask_running(&self.way_asked);
    }

    /// Says what is asked of the run under way, if there is one, and asks for attention.
    fn ask_running(&self, what: &AtomicBool) {
        let words = self.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(words) = &*words
            && self.epoch() % 2 == 1
        {
            what.store(true, Ordering::Relaxed);
            // SAFETY: the context lives while its address is here, see `PollAddress`.
            unsafe { words.0.as_ref() }.ask();
        }
    }

    /// A number that is odd while something runs, and new for each run.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Notes whether a watch bounds the time of the runs; returns the value before.
    pub fn set_watched(&self, watched: bool) -> bool {
        self.watched.swap(watched, Ordering::AcqRel)
    }

    /// True if the context is gone, and no other one has taken its place.
    pub fn retired(&self) -> bool {
        self.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_none()
    }
}

/// The context of running code: one heap, its objects, the limits, and the exception under way.
///
/// Compiled code reaches the first fields by their offsets ([`offset`]). They begin a cache line,
/// so that their cost does not depend on the address that the allocator happens to choose.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Cx {
    poll_words: PollWords,
    /// The place of the next object.
    pub(crate) window: Window,
    /// The record that the last trampoline from machine code into Rust left; 0 if Rust was entered
    /// from Rust.
    pub exit_frame: *const ExitFrame,
    /// The exception under way: its name.
    pub signal_id: u64,
    /// Its values.
    pub signal_values: [Word; VALUES_MAX],
    /// The results of the last call, from the second on at index 1.
    pub results: [Word; VALUES_MAX],
    /// Not 0 when code leaves the body of a transaction of the program by a jump and not by an
    /// exception: then it is committed.
    pub leaves_transaction: u64,
    /// Steps left for the running batch.
    pub fuel: i64,
    /// Calls made by code that clients sent, since the run began.
    pub calls: u64,
    /// Nesting of batched procedures.
    pub procedure_depth: u64,
    /// The nesting that no call may exceed.
    pub procedure_depth_max: u64,
    /// The place at which a structure that runs as machine code failed.
    pub trace: Trace,
    /// The address below which the stack is so deep that messages are queued; `usize::MAX` while
    /// every message must be looked at (`actors::send`, `actors::send_past`).
    nesting: usize,
    /// 0, which is known only to code that reads it.
    nothing: u64,

    poll: Arc<Poll>,
    pub(crate) stack_limit: usize,
    pub(crate) image: Arc<Image>,
    pub(crate) heap: Heap,
    pub(crate) collecting: Collecting,
    /// The calls from Rust into code that are under way, the last first.
    pub(crate) activation: *const Activation,
    /// The interpreter's frames, the last first.
    pub(crate) frames: *const Frame,
    pub(crate) roots: Roots,
    pub(crate) limits: Limits,
    batch_heap_start: usize,
    /// Bytes of the heap that persistent objects have, which can be fetched again.
    kept_bytes: usize,
    /// The place for the text of `print`.
    output: Output,
    pub(crate) root_object: Word,
    pub(crate) transaction: Transaction,
    /// The words of the actors of this node that machine code uses.
    pub words: NodeWords,
    /// The rest of their state, and their host; both or neither are there.
    pub(crate) node_state: Option<NodeState>,
    pub(crate) host: Option<Hosting>,
    random: u64,
    now_ms: fn() -> i64,
    /// Lets the code of other contexts run.
    make_way: fn(),
    /// Hears of natives that held up a node.
    long_native: fn(&str, u32),
    /// The number of the node whose code this runs, and the number of nodes.
    pub(crate) node: u32,
    nodes: u32,
    /// The places of the failure under way.
    pub(crate) places: Places,
    /// The role for which the context runs, if it is one of clients with roles.
    caller: Option<Arc<Caller>>,
}

/// The host of the actors of a context's node.
#[derive(Clone, Copy)]
pub(crate) struct Hosting(pub(crate) &'static dyn NodeHost);

impl std::fmt::Debug for Hosting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hosting")
    }
}

/// The destination of the text of `print`.
#[derive(Debug)]
pub enum Output {
    /// To the process's standard output.
    Stdout,
    /// To a buffer that the embedder takes.
    Buffer(String),
    /// To a function that gets each line, with its end.
    Lines(Lines),
}

/// A function that gets the printed text, line by line.
pub struct Lines(pub Box<dyn FnMut(&str) + Send>);

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

// SAFETY: a context is used by one thread at a time; its pointers point into memory that it owns.
unsafe impl Send for Cx {}

/// Offsets of the fields that compiled code uses.
pub mod offset {
    use super::{Cx, Places, Trace};
    #[cfg(doc)]
    use crate::node_words::NodeWords;
    use std::mem::offset_of;

    /// The poll word, which prologues compare the stack pointer with.
    pub const POLL_WORD: i32 = offset_of!(Cx, poll_words.stack) as i32;
    /// The word that is not 0 when loops shall attend.
    pub const ATTENTION: i32 = offset_of!(Cx, poll_words.attention) as i32;
    /// `Window::next`
    pub const ALLOC_NEXT: i32 = offset_of!(Cx, window.next) as i32;
    /// `Window::end`
    pub const ALLOC_END: i32 = offset_of!(Cx, window.end) as i32;
    /// The [`ExitFrame`](crate::abi::ExitFrame) of the last trampoline into Rust.
    pub const EXIT_FRAME: i32 = offset_of!(Cx, exit_frame) as i32;
    /// `Cx::signal_id`
    pub const SIGNAL_ID: i32 = offset_of!(Cx, signal_id) as i32;
    /// `Cx::signal_values`
    pub const SIGNAL_VALUES: i32 = offset_of!(Cx, signal_values) as i32;
    /// `Cx::leaves_transaction`
    pub const LEAVES_TRANSACTION: i32 = offset_of!(Cx, leaves_transaction) as i32;
    /// The word that messages to actors at rest compare the stack pointer with; all bits set if
    /// they may not be calls.
    pub const NESTING: i32 = offset_of!(Cx, nesting) as i32;
    /// [`Stats::direct`](crate::node_words::Stats::direct)
    pub const DIRECT: i32 = offset_of!(Cx, words.stats.direct) as i32;
    /// [`Stats::sent`](crate::node_words::Stats::sent)
    pub const SENT: i32 = offset_of!(Cx, words.stats.sent) as i32;
    /// [`Stats::queued`](crate::node_words::Stats::queued)
    pub const QUEUED: i32 = offset_of!(Cx, words.stats.queued) as i32;
    /// [`Stats::joins`](crate::node_words::Stats::joins)
    pub const JOINS: i32 = offset_of!(Cx, words.stats.joins) as i32;
    /// [`Stats::longest_queue`](crate::node_words::Stats::longest_queue)
    pub const LONGEST_QUEUE: i32 = offset_of!(Cx, words.stats.longest_queue) as i32;
    /// [`NodeWords::ran_others`]
    pub const RAN_OTHERS: i32 = offset_of!(Cx, words.ran_others) as i32;
    /// [`NodeWords::spare`]
    pub const SPARE: i32 = offset_of!(Cx, words.spare) as i32;
    /// [`Stats::created`](crate::node_words::Stats::created)
    pub const CREATED: i32 = offset_of!(Cx, words.stats.created) as i32;
    /// [`NodeWords::spreads`]
    pub const SPREADS: i32 = offset_of!(Cx, words.spreads) as i32;
    /// [`NodeWords::ahead_at`]
    pub const AHEAD_AT: i32 = offset_of!(Cx, words.ahead_at) as i32;
    /// [`NodeWords::gives_at`]
    pub const GIVES_AT: i32 = offset_of!(Cx, words.gives_at) as i32;
    /// [`NodeWords::highest`]
    pub const HIGHEST: i32 = offset_of!(Cx, words.highest) as i32;
    /// [`NodeWords::looked`], in four bytes.
    pub const LOOKED: i32 = offset_of!(Cx, words.looked) as i32;
    /// [`NodeWords::idlers`]
    pub const IDLERS: i32 = offset_of!(Cx, words.idlers) as i32;
    /// True if the method of an actor that runs shall make way for others, in one byte.
    pub const TURN_OVER: i32 = offset_of!(Cx, words.turn_over) as i32;
    /// Of a word that is 0.
    pub const NOTHING: i32 = offset_of!(Cx, nothing) as i32;
    /// Not 0 if a message of the past type was sent since the stack was empty.
    pub const PAST_SENT: i32 = offset_of!(Cx, words.past_sent) as i32;
    /// The address of the [`Outlet`](crate::node_words::Outlet).
    pub const OUTLET: i32 = offset_of!(Cx, words.outlet) as i32;
    /// `Cx::results`
    pub const RESULTS: i32 = offset_of!(Cx, results) as i32;
    /// `Cx::fuel`
    pub const FUEL: i32 = offset_of!(Cx, fuel) as i32;
    /// `Cx::calls`
    pub const CALLS: i32 = offset_of!(Cx, calls) as i32;
    /// `Cx::procedure_depth`
    pub const PROCEDURE_DEPTH: i32 = offset_of!(Cx, procedure_depth) as i32;
    /// `Cx::procedure_depth_max`
    pub const PROCEDURE_DEPTH_MAX: i32 = offset_of!(Cx, procedure_depth_max) as i32;
    /// `Trace::failed`
    pub const TRACE_FAILED: i32 = (offset_of!(Cx, trace) + offset_of!(Trace, failed)) as i32;
    /// `Trace::site`
    pub const TRACE_SITE: i32 = (offset_of!(Cx, trace) + offset_of!(Trace, site)) as i32;
    /// `Trace::loops`
    pub const TRACE_LOOPS: i32 = (offset_of!(Cx, trace) + offset_of!(Trace, loops)) as i32;
    /// The site at which the function under way failed.
    pub const FAILED_SITE: i32 = (offset_of!(Cx, places) + offset_of!(Places, site)) as i32;
    /// The first of `Trace::rounds`
    pub const TRACE_ROUNDS: i32 = (offset_of!(Cx, trace) + offset_of!(Trace, rounds)) as i32;
}

/// The address of something on the current stack; good enough to compare with the limit.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(&here) as *const u8 as usize
}

impl Cx {
    /// A context with an empty heap for a linked program.
    /// `seed` is that of `random`; `now_ms` is the clock.
    pub fn new(image: Arc<Image>, limits: Limits, seed: u64, now_ms: fn() -> i64) -> Box<Cx> {
        let poll = Arc::new(Poll {
            kill: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            words: Mutex::new(None),
            turn_over: AtomicBool::new(false),
            way_asked: AtomicBool::new(false),
            ticks: AtomicU32::new(0),
            watched: AtomicBool::new(false),
            waker: Mutex::new(None),
        });
        Cx::with_poll(image, limits, seed, now_ms, poll)
    }

    /// A context as [`Cx::new`] makes it, with the poll of one that is gone: other threads
    /// interrupt it by the same poll.
    pub fn with_poll(
        image: Arc<Image>,
        limits: Limits,
        seed: u64,
        now_ms: fn() -> i64,
        poll: Arc<Poll>,
    ) -> Box<Cx> {
        let mut cx = Box::new(Cx {
            poll_words: PollWords::default(),
            window: Window::empty(),
            exit_frame: std::ptr::null(),
            signal_id: 0,
            signal_values: [0; VALUES_MAX],
            results: [0; VALUES_MAX],
            leaves_transaction: 0,
            fuel: limits.fuel,
            calls: 0,
            procedure_depth: 0,
            procedure_depth_max: PROCEDURE_DEPTH_MAX,
            trace: Trace::new(),
            places: Places::default(),
            nesting: usize::MAX,
            nothing: 0,
            poll,
            stack_limit: 0,
            heap: Heap::new(limits.heap_bytes),
            collecting: Collecting::new(limits.collect),
            activation: std::ptr::null(),
            frames: std::ptr::null(),
            roots: Roots::new(),
            image,
            limits,
            batch_heap_start: 0,
            kept_bytes: 0,
            output: Output::Stdout,
            root_object: 0,
            transaction: Transaction::default(),
            words: NodeWords::default(),
            node_state: None,
            host: None,
            random: seed | 1,
            now_ms,
            make_way: || {},
            long_native: |_, _| {},
            node: 0,
            nodes: 1,
            caller: None,
        });
        if let Some(host) = cx.image.interpreter().map(|interpreter| interpreter.node_host()) {
            cx.node_state = Some(host.new_state(&limits, &mut cx.words));
            cx.host = Some(Hosting(host));
        }
        cx.heap.set_check(limits.collect != Collect::Ordinary);
        *cx.poll.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(PollAddress(NonNull::from(&cx.poll_words)));
        cx.make_directory();
        cx
    }

    /// Makes an empty directory of well-known objects, and enters it.
    pub fn make_directory(&mut self) {
        let table = self.image.table_of(bifrost_ir::Types::DIRECTORY);
        self.root_object = self.alloc_beyond(table, object::directory::FIELDS);
    }

    /// The part of this context by which other threads may interrupt it.
    #[inline]
    pub fn poll(&self) -> &Arc<Poll> {
        &self.poll
    }

    /// The program that runs.
    #[inline]
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Enters the role for which the context runs from now on.
    pub fn set_caller(&mut self, caller: Option<Arc<Caller>>) {
        self.caller = caller;
    }

    /// The name of the role for which the context runs; empty if it runs for none.
    pub fn caller(&self) -> &str {
        self.caller.as_ref().map_or("", |caller| &caller.role)
    }

    /// True if clients of the context may use a name of the root directory.
    pub fn grants(&self, name: &str) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.roots.contains(name))
    }

    /// Enters the number of persistent objects that one transaction may read.
    pub fn set_transaction_objects(&mut self, most: usize) {
        self.limits.transaction_objects = most;
    }

    /// The limits.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Enters the number of this node, counted from 0, and the number of nodes; at first it is the
    /// only one.
    pub fn set_node(&mut self, node: u32, nodes: u32) {
        debug_assert!(node < nodes, "node {node} of {nodes}");
        self.enter_node(node, nodes);
    }

    /// Enters the same of a context that is none of these nodes.
    pub fn enter_node(&mut self, node: u32, nodes: u32) {
        (self.node, self.nodes) = (node, nodes);
    }

    /// The number of the node, counted from 0.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// The number of nodes, at least one.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// True if this is the context of a guest of these nodes: its actors are made elsewhere.
    #[inline]
    pub fn is_guest(&self) -> bool {
        self.node >= self.nodes
    }

    /// Enters the monotonic clock, in nanoseconds, by which collections are timed, and the work of
    /// others for the context.
    pub fn set_clock(&mut self, now_ns: fn() -> u64) {
        self.collecting.now_ns = now_ns;
    }

    /// Enters the function by which the code that runs lets that of other contexts run, when it was
    /// asked to ([`Poll::ask_way`]). It may go on at another thread.
    pub fn set_make_way(&mut self, make_way: fn()) {
        self.make_way = make_way;
    }

    /// Enters the function that hears of natives that held up a node: their name, and the number of
    /// [ticks](Poll::ticks).
    pub fn set_long_native(&mut self, hears: fn(&str, u32)) {
        self.long_native = hears;
    }

    /// Notes a native that took so many ticks.
    #[cold]
    pub fn note_long_native(&mut self, name: &str, ticks: u32) {
        self.words.stats.long_natives += 1;
        (self.long_native)(name, ticks);
    }

    /// Nanoseconds by that clock; 0 if there is none.
    pub fn now_ns(&self) -> u64 {
        (self.collecting.now_ns)()
    }

    /// The host of the actors of this node; none in a context that has no interpreter.
    pub fn host(&self) -> Option<&'static dyn NodeHost> {
        self.host.map(|hosting| hosting.0)
    }

    /// The state of the actors of this node.
    ///
    /// # Panics
    /// In a context that has no interpreter: it runs no code of actors.
    #[inline(always)]
    pub fn node_state(&mut self) -> (&mut NodeState, &mut NodeWords) {
        let state = self.node_state.as_mut().expect("a context with an interpreter");
        (state, &mut self.words)
    }

    /// Sends the messages and answers that a transaction of the program has held.
    pub(crate) fn leave_held(&mut self) {
        if let Some(host) = self.host() {
            host.leave_transaction(self);
        }
    }

    /// Drops the messages and answers that a transaction of the program has held.
    pub(crate) fn drop_held(&mut self) {
        if let (Some(Hosting(host)), Some(state)) = (self.host, &mut self.node_state) {
            host.drop_held(state);
        }
    }

    /// The state to which a call from Rust into code comes back.
    #[inline]
    pub(crate) fn open_activation(&self) -> Activation {
        Activation { exit_frame: self.exit_frame, previous: self.activation }
    }

    #[inline]
    pub(crate) fn set_activation(&mut self, exit_frame: *const ExitFrame, activation: *const Activation) {
        self.exit_frame = exit_frame;
        self.activation = activation;
    }

    /// The destination of the text of `print`.
    pub fn set_output(&mut self, output: Output) {
        self.output = output;
    }

    /// The text printed since the last call, if output is buffered.
    pub fn take_output(&mut self) -> String {
        match &mut self.output {
            Output::Stdout | Output::Lines(_) => String::new(),
            Output::Buffer(text) => std::mem::take(text),
        }
    }

    /// Writes a line.
    pub fn print(&mut self, line: &str) {
        match &mut self.output {
            Output::Stdout => {
                use std::io::Write;
                // A closed pipe is no reason to end a program that prints.
                let _ = writeln!(std::io::stdout().lock(), "{line}");
            }
            Output::Buffer(text) => {
                text.push_str(line);
                text.push('\n');
            }
            Output::Lines(Lines(lines)) => lines(&format!("{line}\n")),
        }
    }

    /// Begins a run: sets the stack limit from where the stack is now, fills the fuel, and clears
    /// the interruption of the run before. Pair it with [`Cx::leave`].
    #[inline]
    pub fn begin(&mut self) {
        self.stack_limit = stack_pointer().saturating_sub(self.limits.stack_bytes);
        self.poll.kill.store(0, Ordering::Relaxed);
        self.poll_words.stack.store(self.stack_limit, Ordering::Relaxed);
        self.poll_words.attention.store(0, Ordering::Relaxed);
        self.fuel = self.limits.fuel;
        self.calls = 0;
        self.procedure_depth = 0;
        self.batch_heap_start = self.own_bytes();
        self.limit_nesting();
        self.turn();
    }

    /// Sets anew the depth of the stack up to which messages may be calls; called after every
    /// change that this depends on.
    pub fn limit_nesting(&mut self) {
        let held = match (self.host, &mut self.node_state) {
            (Some(Hosting(host)), Some(state)) => host.holds_messages(state),
            _ => false,
        };
        let looked_at = held || self.in_program_transaction() || self.words.looks_at_messages;
        let limit = self.stack_limit + self.limits.stack_bytes / 4;
        self.nesting = if looked_at { usize::MAX } else { limit };
    }

    /// True if there is room on the stack for a message that is a call.
    #[inline]
    pub fn may_nest(&self) -> bool {
        stack_pointer() > self.stack_limit + self.limits.stack_bytes / 4
    }

    /// Goes on to the next epoch. Only this thread writes it, so a load and a store do the work of
    /// a slower read-modify-write.
    #[inline]
    fn turn(&mut self) {
        let epoch = self.poll.epoch.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in `Poll::kill`; a killer that sees the new epoch comes
        // after the stores before this.
        self.poll.epoch.store(epoch + 1, Ordering::Release);
    }

    /// Bytes by which the heap has grown during the batch under way, garbage included that was not
    /// collected yet. Persistent objects that were fetched do not count.
    pub fn batch_heap_bytes(&self) -> usize {
        self.own_bytes().saturating_sub(self.batch_heap_start)
    }

    /// Bytes of the heap without those of persistent objects.
    fn own_bytes(&self) -> usize {
        self.heap.filled_bytes().saturating_sub(self.kept_bytes)
    }

    /// Enters the number of bytes of the heap that are persistent objects, which have a limit of
    /// their own.
    pub fn set_kept_bytes(&mut self, bytes: usize) {
        self.kept_bytes = bytes;
    }

    /// Bytes handed out for objects ever, those that are not used yet excepted.
    pub fn taken_bytes(&self) -> u64 {
        let left = self.window.end as usize - self.window.next as usize;
        self.heap.usage().allocated_bytes.saturating_sub(left as u64)
    }

    /// Counts the bytes that an earlier run took for the same batch: a batch may come in pieces.
    /// Called after [`Cx::begin`].
    pub fn charge_batch(&mut self, bytes: usize) {
        self.batch_heap_start = self.batch_heap_start.saturating_sub(bytes);
    }

    /// Ends a run.
    #[inline]
    pub fn leave(&mut self) {
        self.turn();
    }

    /// True if the poll word asks for attention, now that the stack is here.
    #[inline(always)]
    pub fn must_attend(&self) -> bool {
        stack_pointer() < self.poll_words.stack.load(Ordering::Relaxed)
    }

    /// Asks for attention at the next poll.
    #[cold]
    pub fn ask(&self) {
        self.poll_words.ask();
    }

    /// Attends when [`Cx::must_attend`]: returns `Returned` to go on, or the outcome to end with.
    #[cold]
    pub fn attend(&mut self) -> Ret {
        let stopped = self.stop();
        if !stopped.returned() {
            return stopped;
        }
        if stack_pointer() < self.stack_limit {
            // The poll's entry keeps all registers and has no exit frame.
            return self.exhausted("stack overflow");
        }
        Ret::NOTHING
    }

    /// Attends when a loop shall: returns `Returned` to go on, or `Killed`.
    #[cold]
    pub fn stop(&mut self) -> Ret {
        // Cleared before it is looked for a reason: a later request is seen at the next poll.
        self.poll_words.clear(self.stack_limit);
        if self.is_killed() {
            self.poll_words.ask();
            self.doom(Doom::Killed(self.killed()));
            return Ret::KILLED;
        }
        if self.poll.way_asked.swap(false, Ordering::Relaxed) {
            (self.make_way)();
        }
        if self.poll.turn_over.swap(false, Ordering::Relaxed)
            && let Some(host) = self.host()
        {
            host.end_turn(self);
        }
        Ret::NOTHING
    }

    /// As [`Cx::stop`], for code that cannot make way for others: if it has had its time, they run
    /// above it on the stack for a while. It may collect.
    #[cold]
    pub fn share(&mut self) -> Ret {
        match (self.stop(), self.host()) {
            // SAFETY: this is the current context, and code that polls has what it needs where a
            // collection finds it.
            (ret, Some(host)) if ret.returned() => unsafe { host.run_others(self) },
            (ret, _) => ret,
        }
    }

    /// Ends the running batch from inside.
    pub fn kill(&mut self, why: Kill) -> Ret {
        self.poll.kill.store(self.poll.epoch.load(Ordering::Relaxed) << 8 | why as u64, Ordering::Relaxed);
        self.doom(Doom::Killed(why));
        Ret::KILLED
    }

    /// Goes on after an outcome `Killed` for this reason; returns true if it was that.
    pub(crate) fn forgive(&mut self, why: Kill) -> bool {
        let killed = self.poll.epoch.load(Ordering::Relaxed) << 8 | why as u64;
        self.poll.kill.compare_exchange(killed, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// True if the run was ended.
    pub fn is_killed(&self) -> bool {
        let kill = self.poll.kill.load(Ordering::Relaxed);
        kill != 0 && kill >> 8 == self.poll.epoch.load(Ordering::Relaxed)
    }

    /// The reason for which the run was ended, after an outcome `Killed`.
    pub fn killed(&self) -> Kill {
        match self.poll.kill.load(Ordering::Relaxed) & 0xff {
            1 => Kill::Time,
            2 => Kill::Fuel,
            4 => Kill::Conflict,
            5 => Kill::Objects,
            6 => Kill::Answers,
            7 => Kill::Memory,
            _ => Kill::Stop,
        }
    }

    /// Signals an exception without values.
    #[cold]
    pub fn signal(&mut self, name: SignalId) -> Ret {
        self.signal_id = u64::from(name.as_u32());
        Ret::SIGNALLED
    }

    /// Signals a well-known exception of built-in types by its name.
    #[cold]
    pub fn signal_named(&mut self, name: &str) -> Ret {
        match self.image.program().types.find_signal(name) {
            Some(id) => self.signal(id),
            None => self.failure(&format!("unhandled exception: {name}")),
        }
    }

    /// Signals `failure(text)`.
    #[cold]
    pub fn failure(&mut self, text: &str) -> Ret {
        self.signal_id = u64::from(SignalId::FAILURE.as_u32());
        self.begin_places();
        // The text may not fit a full heap; an empty one always exists.
        self.signal_values[0] = match self.new_string(text) {
            Ok(word) => word,
            Err(_) => self.image.empty_string(),
        };
        Ret::SIGNALLED
    }

    /// Signals that batched procedures are nested too deep.
    #[cold]
    pub fn procedures_too_deep(&mut self) -> Ret {
        let text = format!(
            "batched procedures are nested too deeply: {} is the limit (procedure_depth_max)",
            self.procedure_depth_max
        );
        self.doom(Doom::Exhausted(text.clone()));
        self.failure(&text)
    }

    /// The exception under way.
    pub fn signalled(&self) -> SignalId {
        SignalId::from_u32(self.signal_id as u32)
    }

    /// Converts an exception that reached the end of a function that does not pass it on, to
    /// `failure` (`docs/book/language/exceptions.md`). `failure` stays as it is.
    #[cold]
    pub fn unhandled(&mut self) -> Ret {
        let id = self.signalled();
        if id == SignalId::FAILURE {
            return Ret::SIGNALLED;
        }
        let name = self.image.program().types.signal_name(id).to_owned();
        let why = self.why_aborted().map_or(String::new(), |why| format!(": {why}"));
        self.failure(&format!("unhandled exception: {name}{why}"))
    }

    /// The directory of well-known objects.
    pub fn root_object(&self) -> Word {
        self.root_object
    }

    /// A well-known object.
    ///
    /// # Errors
    /// The outcome to end with: the directory could not be fetched.
    pub fn lookup(&mut self, name: &str) -> Result<Option<Word>, Ret> {
        let directory = self.directory();
        match self.opened(directory.object()) {
            opened if opened.returned() => Ok(names::find(directory.word(), name)),
            ended => Err(ended),
        }
    }

    /// True if there are well-known objects.
    ///
    /// # Errors
    /// As for [`Cx::lookup`].
    pub fn has_names(&mut self) -> Result<bool, Ret> {
        let directory = self.directory();
        match self.opened(directory.object()) {
            opened if opened.returned() => Ok(directory.length() > 0),
            ended => Err(ended),
        }
    }

    fn directory(&self) -> DirectoryRef {
        // SAFETY: the directory of well-known objects is a root.
        unsafe { DirectoryRef::new(self.root_object) }
    }

    /// Enters another directory of well-known objects.
    pub fn set_root_object(&mut self, directory: Word) {
        self.root_object = directory;
    }

    /// Makes a seed decide the order in which the actors of this node run,
    /// and the random values of the program: the same seed gives the same run.
    pub fn set_order(&mut self, seed: u64) {
        self.random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        if let Some(host) = self.host() {
            host.set_order(self, seed);
        }
    }

    /// A number in `0..n`, `n > 0`, from the seed given at the start (xorshift64*).
    pub fn random(&mut self, n: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(bits) * u128::from(n)) >> 64) as u64
    }

    /// The clock, in milliseconds.
    pub fn now_ms(&self) -> i64 {
        (self.now_ms)()
    }
}

impl Drop for Cx {
    fn drop(&mut self) {
        *self.poll.words.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}
