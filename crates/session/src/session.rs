//! The state of a session; commands in, replies out.
//!
//! Read [`Session`] first, then [`Session::handle`]. There is no I/O here: the server moves the
//! bytes.
//!
//! 1. `handle` begins a run of the context, and executes whole commands (`work.rs`).
//! 2. A command of a structure is collected (`structure.rs`); one of a batch that is a transaction
//!    too (`shipped.rs`). Other commands run at once (`calls.rs`).
//! 3. Results become futures of the batch, and failures go into its list (`causes.rs`).
//! 4. `flush` ends the batch: it answers the results that are wanted, and the failures
//!    (`replies.rs`).
//!
//! A session waits for `hello`, then it is *greeted*, until it has *ended*. A batch whose rest is
//! not run is *dead*; the next batch is not.
//!
//! [`Batch`] is the state of the batch under way, and is new after each `flush`. Handles,
//! procedures and the history of exceptions stay for the session. [`Roots`] keeps the objects of
//! all these alive, in the context that the server locks for the session.

use std::collections::BTreeSet;
use std::sync::Arc;

use bifrost_cache::Cache;
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, RootSet};
use bifrost_wire::{ErrorNumber, Limit, TraceContext};

use crate::compounds::Contents;
use crate::earlier::EarlierBatches;
use crate::failures::{Failure, History, NOT_KEPT};
use crate::futures::Future;
use crate::handles::Handles;
use crate::limits::Limits;
use crate::modules::Modules;
use crate::places::{Logged, Shown};
use crate::policy::Policy;
use crate::procedures::Procedure;
use crate::profile::Profiler;
use crate::rows::RowTable;
use crate::scan::Scan;
use crate::shipped::Shipped;
use crate::tables::Tables;
use crate::transactions::Transactions;
use crate::wait::{Resting, Waker};
use crate::work::Run;

/// A server's answer to `hello`. The server has checked the client's token: the session does not.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// The server's name and version.
    pub server: String,
    /// The number of the session in the server's logs.
    pub session: u64,
}

/// The counts of a session so far, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches answered: pairs of domain crossings.
    pub crossings: u64,
    /// Calls run.
    pub calls: u64,
    /// Control structures run.
    pub structures: u64,
    /// Control structures that were found already prepared.
    pub prepared_hits: u64,
    /// Exceptions and refusals.
    pub failures: u64,
    /// Fuel of the batches answered.
    pub fuel: u64,
    /// Objects fetched from the store.
    pub fetched: u64,
    /// Transactions committed.
    pub commits: u64,
}

/// The root sets that keep the session's objects alive, in the context that it runs in.
#[derive(Debug)]
pub(crate) struct Roots {
    /// The objects with handles, by slot.
    pub handles: RootSet,
    /// The objects that the batch under way holds: results, strings that came with calls, values of
    /// exceptions.
    pub batch: RootSet,
    /// The objects among the results of earlier batches, in their order.
    pub earlier: RootSet,
    /// The objects that batched procedures use from outside; procedures stay for the session.
    pub procedures: RootSet,
    /// The values of the exceptions in the history, in its order.
    pub history: RootSet,
    /// The values of the last failure that a module has handled.
    pub module: RootSet,
}

impl Roots {
    fn new(cx: &mut Cx) -> Roots {
        Roots {
            handles: cx.new_root_set(),
            batch: cx.new_root_set(),
            earlier: cx.new_root_set(),
            procedures: cx.new_root_set(),
            history: cx.new_root_set(),
            module: cx.new_root_set(),
        }
    }
}

/// The batch under way.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The future table F.
    pub futures: Vec<Future>,
    pub failures: Vec<Failure>,
    /// The tables of rows.
    pub row_tables: Vec<RowTable>,
    /// The contents that were taken.
    pub contents: Contents,
    /// Failures beyond the limit.
    pub omitted: u32,
    /// The number of failures, and of those beyond the limit, that the client has cleared before
    /// the `flush`.
    pub cleared: (usize, u32),
    /// True if a future is [`Future::Undone`].
    pub undone: bool,
    pub commands: u64,
    pub bytes: u64,
    pub calls: u64,
    /// Set when the rest of the batch is not run.
    pub dead: bool,
    /// The fuel that the batch has left before the run under way.
    pub fuel: i64,
    /// The bytes of the heap that were taken for it before the run under way.
    pub heap_bytes: usize,
}

impl Batch {
    fn new(limits: &Limits) -> Batch {
        Batch { fuel: limits.fuel(), ..Batch::default() }
    }

    /// Makes it as new, in place. Each field is named, so that none is forgotten.
    fn reset(&mut self, limits: &Limits) {
        let Batch {
            futures,
            failures,
            row_tables,
            contents,
            omitted,
            cleared,
            undone,
            commands,
            bytes,
            calls,
            dead,
            fuel,
            heap_bytes,
        } = self;
        futures.clear();
        futures.shrink_to(1 << 16);
        if !failures.is_empty() {
            *failures = Vec::new();
        }
        row_tables.clear();
        contents.clear();
        (*omitted, *cleared, *undone, *dead) = (0, (0, 0), false, false);
        (*commands, *bytes, *calls, *heap_bytes) = (0, 0, 0, 0);
        *fuel = limits.fuel();
    }

    /// Adds a failure to the list, and returns its position there, or [`NOT_KEPT`].
    pub fn add(&mut self, failure: Failure, limits: &Limits) -> u32 {
        if self.failures.len() as u64 >= limits.get(Limit::Exceptions) {
            self.omitted += 1;
            return NOT_KEPT;
        }
        self.failures.push(failure);
        self.failures.len() as u32 - 1
    }
}

/// One client's connection.
#[derive(Debug)]
pub struct Session {
    pub(crate) tables: &'static Tables,
    pub(crate) limits: Limits,
    pub(crate) policy: Arc<Policy>,
    /// True if the context has the role of the policy.
    pub(crate) is_entered: bool,
    pub(crate) welcome: Welcome,
    pub(crate) greeted: bool,
    /// True if a call may go the shortest way: the client is greeted, and no call is measured.
    pub(crate) is_direct: bool,
    pub(crate) ended: bool,
    pub(crate) handles: Handles,
    /// Made when the session first runs in its context.
    pub(crate) roots: Option<Roots>,
    /// True if the objects of the handles are [given up](Session::fold): only their number counts.
    pub(crate) folded: bool,
    pub(crate) transactions: Transactions,
    pub(crate) batch: Batch,
    pub(crate) earlier: EarlierBatches,
    pub(crate) procedures: Vec<Option<Arc<Procedure>>>,
    pub(crate) modules: Modules,
    /// The procedures that are gone because they used objects of an aborted transaction.
    pub(crate) undone_procedures: BTreeSet<u32>,
    /// A structure whose end has not come yet.
    pub(crate) scan: Option<Box<Scan>>,
    pub(crate) history: History,
    /// Batches answered.
    pub(crate) batches: u64,
    /// Commands of the session, for error messages.
    pub(crate) position: u64,
    pub(crate) errors: u32,
    pub(crate) counters: Counters,
    pub(crate) output: Vec<u8>,
    /// True if whole commands are left, because the reply to those before is sent first.
    pub(crate) more: bool,
    /// The batch that is a transaction, from `transaction` until it has run to its end.
    pub(crate) shipped: Option<Box<Shipped>>,
    /// The `wait` under way.
    pub(crate) resting: Option<Resting>,
    pub(crate) waker: Option<Waker>,
    /// The places of failures that the client sees.
    pub(crate) shown_places: Shown,
    pub(crate) logged: Logged,
    /// The trace context of the client.
    pub(crate) trace: Option<TraceContext>,
    /// The error that has ended the session.
    pub(crate) error: Option<ErrorNumber>,
    /// The measurement of the batch under way, if the client wants profiles.
    pub(crate) profiler: Option<Box<Profiler>>,
}

impl Session {
    /// Makes a session that waits for its client's `hello`. It runs in the context of the cache.
    pub fn new(tables: &'static Tables, limits: Limits, welcome: Welcome, cache: Cache) -> Session {
        Session {
            transactions: Transactions::new(cache),
            tables,
            limits,
            policy: Arc::default(),
            is_entered: false,
            welcome,
            greeted: false,
            is_direct: false,
            ended: false,
            handles: Handles::default(),
            roots: None,
            folded: false,
            batch: Batch::new(&limits),
            earlier: EarlierBatches::default(),
            procedures: Vec::new(),
            modules: Modules::default(),
            undone_procedures: BTreeSet::new(),
            scan: None,
            history: History::default(),
            batches: 0,
            position: 0,
            errors: 0,
            counters: Counters::default(),
            output: Vec::new(),
            more: false,
            shipped: None,
            resting: None,
            waker: None,
            shown_places: Shown::default(),
            logged: Logged::default(),
            trace: None,
            error: None,
            profiler: None,
        }
    }

    /// Executes the commands that are whole, and returns the number of their bytes. The caller
    /// hands in the others again, at the same place, with the bytes that follow them. Does not read
    /// after the end of the session.
    ///
    /// It stops behind each reply, so that no batch waits for the answer of the one behind it: then
    /// it [has more](Session::has_more) to do.
    ///
    /// `cx` is the context of the session's cache, which no other session has. When the session
    /// asks for a [pause](Session::pause), it has done nothing of the bytes that it has not
    /// counted.
    pub fn handle(&mut self, cx: &mut Cx, bytes: &[u8]) -> usize {
        if self.roots.is_none() {
            self.roots = Some(Roots::new(cx));
            bifrost_actors::set_open_max(cx, self.limits.size(Limit::Requests));
            cx.procedure_depth_max = self.limits.get(Limit::ProcedureDepth);
        }
        self.start_clock(cx);
        if self.folded {
            self.unfold(cx);
        }
        if !self.is_entered {
            self.enter_role(cx);
        }
        self.more = false;
        self.transactions.refresh(cx, self.batch.commands == 0);
        let mut run = Run::begin(cx, &self.batch);
        self.run_again(&mut run);
        self.wake(&mut run);
        let at = if self.pause().is_none() { self.work(&mut run, bytes) } else { 0 };
        self.stop_clock(&run);
        run.end(&mut self.batch);
        bifrost_actors::post_messages(cx);
        self.transactions.rest(cx);
        cx.make_room_for_others();
        at
    }

    /// Returns the replies since the last call of [`Session::clear_output`].
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// True if the last call of [`Session::handle`] has left whole commands, or may have: send the
    /// replies, and hand in the rest.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Forgets the replies that were sent.
    pub fn clear_output(&mut self) {
        self.output.clear();
        // A single large reply must not keep its memory for the rest of the session.
        if self.output.capacity() > 1 << 20 {
            self.output = Vec::new();
        }
    }

    /// True if the session is over: send the output and close.
    #[inline]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// True if the client has said a `hello` that was accepted.
    pub fn greeted(&self) -> bool {
        self.greeted
    }

    /// The number of whole commands received.
    pub fn commands(&self) -> u64 {
        self.position
    }

    /// The bytes of the open structure that were read and not used up: whole commands. Their end
    /// marker has not come.
    pub fn scanned(&self) -> usize {
        self.scan.as_ref().map_or(0, |scan| scan.bytes())
    }

    /// Returns the persistent objects.
    pub fn cache(&self) -> &Cache {
        self.transactions.cache()
    }

    /// Returns the counts of the session so far.
    #[inline]
    pub fn counters(&self) -> Counters {
        let cache = self.transactions.cache();
        Counters { fetched: cache.fetched(), commits: cache.commits(), ..self.counters }
    }

    /// The number of batches answered so far.
    #[inline]
    pub fn crossings(&self) -> u64 {
        self.counters.crossings
    }

    /// The number of calls in the batches answered so far.
    #[inline]
    pub fn calls(&self) -> u64 {
        self.counters.calls
    }

    /// Returns the trace context that the client has given in its `hello`, if it has.
    pub fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// The number of handles that the client holds.
    pub fn handles(&self) -> usize {
        self.handles.len()
    }

    /// Returns the error that has ended the session, if one has.
    pub fn error(&self) -> Option<ErrorNumber> {
        self.error
    }

    /// Returns the name of the client's role; empty without roles.
    pub fn role(&self) -> &str {
        self.policy.role()
    }

    /// The number of the session in the server's logs.
    pub fn number(&self) -> u64 {
        self.welcome.session
    }

    #[inline]
    pub(crate) fn roots(&self) -> &Roots {
        self.roots.as_ref().expect("made before anything runs")
    }

    /// Keeps an object alive until the end of the batch.
    #[inline]
    pub(crate) fn hold(&self, cx: &mut Cx, word: Word) {
        cx.root_set(&self.roots().batch).push(word);
    }

    /// The position of the next future.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.batch.futures.len() as u32 + 1
    }

    /// Makes results of the batch.
    pub(crate) fn make(&mut self, cx: &mut Cx, futures: impl IntoIterator<Item = Future>) {
        for future in futures {
            self.hold_future(cx, future);
            self.batch.futures.push(future);
        }
        self.limit_futures();
    }

    /// Makes one result of the batch.
    #[inline(always)]
    pub(crate) fn make_one(&mut self, cx: &mut Cx, future: Future) {
        self.hold_future(cx, future);
        self.batch.futures.push(future);
        self.limit_futures();
    }

    /// Makes so many equal results of the batch, which are no objects.
    pub(crate) fn make_all(&mut self, count: u32, future: Future) {
        debug_assert!(!matches!(future, Future::Object(..)), "objects are held");
        self.batch.futures.extend(std::iter::repeat_n(future, count as usize));
        self.limit_futures();
    }

    /// Ends the batch if it has too many results.
    #[inline(always)]
    fn limit_futures(&mut self) {
        if self.batch.futures.len() as u64 > self.limits.get(Limit::Futures) {
            self.exceed(ErrorNumber::TooManyFutures, Limit::Futures);
        }
    }

    #[inline(always)]
    fn hold_future(&self, cx: &mut Cx, future: Future) {
        if let Future::Object(word, _) = future {
            self.hold(cx, word);
        }
    }

    /// Begins the next batch.
    pub(crate) fn reset_batch(&mut self, cx: &mut Cx) {
        self.end_tables();
        let held = cx.root_set(&self.roots().batch);
        held.clear();
        held.shrink_to(1 << 16);
        bifrost_actors::forget_requests(cx);
        self.batch.reset(&self.limits);
    }
}
