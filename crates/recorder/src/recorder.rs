//! The state that recording changes: the batch, the futures of the batch (VF), the handles (VH),
//! the slots.
//!
//! [`Recorder`] is the type to read first. A stub is the number of a slot. The slot has the
//! knowledge about it: a future of the batch being recorded, a handle, a value, or an error. At a
//! flush the batch is under way; its answer makes one of the others of every future that still has
//! a stub. The numbers of futures start again from 1.
//!
//! A call takes these steps: [`Recorder::is_ready`] and [`Recorder::due`] make room, a function of
//! `call` appends it, `recorded` counts it, and [`Recorder::new_result`] makes the slots of its
//! results. A call that cannot be recorded goes to `refuse`.
//!
//! | file | has |
//! | --- | --- |
//! | `slots` | the slots, the names of calls |
//! | `call` | calls, arguments |
//! | `tables` | tables of rows |
//! | `structures`, `procedure` | open structures, procedures being defined |
//! | `under_way` | the batches that are not answered |
//! | `crossing` | the way of a batch to the server, and its answer |
//! | `transaction` | commits, batches that are transactions |
//! | `seen` | the account of failures |
//! | `explain` | what was recorded, in words; accounts of the last batches |

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_wire::{Limit, REPLY_BYTES_MAX, Ref, TraceContext};

use crate::Source;
use crate::crossing::Replies;
use crate::error::{CallName, Error, Exception, Misuse};
use crate::explain::Explained;
use crate::seen::Seen;
use crate::slots::{Entry, Extra, Future, Held, NO_SLOT};
use crate::structures::{Scope, Sent};
use crate::stubs::{Numbers, Procedures};
use crate::under_way::UnderWay;

/// The number of bytes at which finished parts of a batch are due to be sent. So the server starts
/// on them while recording goes on.
pub const PUBLISH_BYTES: usize = 4096;

/// The number of exceptions that the history keeps; later ones are counted only.
pub const HISTORY_MAX: usize = 1000;

/// The number of futures after which a flush is due, unless the caller says otherwise.
pub const REMAP_FUTURES: usize = 16_384;

/// The counts of a session up to now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Pairs of domain crossings: batches sent and answered.
    pub crossings: u64,
    /// Commands sent in them.
    pub calls: u64,
    /// Calls that the server ran for them, as the replies tell; those made by loops count each time
    /// (000 section 5.1).
    pub executed: u64,
}

impl Counters {
    /// Returns the batching factor B: commands for each pair of crossings; 0 before the first.
    pub fn batching_factor(&self) -> f64 {
        if self.crossings == 0 { 0.0 } else { self.calls as f64 / self.crossings as f64 }
    }
}

/// The maker of a future, for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// A method, by the client's number.
    Method(u32),
    /// A routine, by the client's number.
    Routine(u32),
    /// A batched procedure, by its number.
    Procedure(u32),
    /// A function of a module, by the number of the module.
    Module(u32),
    /// A lookup.
    Lookup,
    /// A value that was recorded to be a receiver or a condition.
    Constant,
    /// A new cell.
    Cell,
    /// A new table of rows.
    Rows,
    /// A row.
    Emit,
    /// An object, seen as one of another type.
    As,
    /// A test of a type.
    Is,
    /// The contents of an object.
    Get,
    /// A marker that takes numbers: of an iterator's values, of an exception's, of parameters.
    Variable,
    /// A batch that is a transaction.
    Transaction,
    /// The end of the transaction with this number.
    Commit(u32),
    /// The end of the transaction with this number.
    Abort(u32),
    /// A wait for changes of others.
    Wait,
    /// The error-handle's call, by which the server learns that calls were refused.
    Refused,
}

/// The work to be done before the next command is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// None.
    Nothing,
    /// Send the [bytes](Recorder::bytes_to_send) that are there.
    Send,
    /// Flush: send all, and wait for the answer. All futures become handles and values, and the
    /// numbers start again.
    Flush,
}

/// The permission to record a command, or the error with which the recording functions refuse it.
pub type Admission<S> = Result<(), Arc<Error<S>>>;

/// The outcome of recording a call: the maker of its results, or the error of its stubs.
pub type Recorded<S> = Result<Maker, Arc<Error<S>>>;

/// The settings of a recorder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The longest reply that is read, in bytes. Default: 64 MiB.
    pub reply_bytes_max: usize,
    /// The number of futures after which a flush is due, so that their tables stay bounded (Bogle
    /// and Liskov 1994, 5.3). Default: 16384; never more than the server allows.
    pub remap_futures: usize,
    /// The program's place in a trace, which the server's spans of this session have as their
    /// parent. Default: none.
    pub trace: Option<TraceContext>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { reply_bytes_max: REPLY_BYTES_MAX, remap_futures: REMAP_FUTURES, trace: None }
    }
}

/// The limits of a batch, which the server tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) frame_bytes: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) commands: u64,
    pub(crate) futures: usize,
    pub(crate) depth: usize,
    pub(crate) wait_ms: u32,
    /// Batches under way.
    pub(crate) under_way: usize,
    /// True if the server makes profiles.
    pub(crate) profiles: bool,
    /// Modules that the server keeps of a session.
    pub(crate) modules: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            frame_bytes: Limit::FrameBytes.default_value() as usize,
            batch_bytes: Limit::BatchBytes.default_value() as usize,
            commands: Limit::BatchCommands.default_value(),
            futures: Limit::Futures.default_value() as usize,
            depth: Limit::Depth.default_value() as usize,
            wait_ms: Limit::WaitMs.default_value() as u32,
            under_way: Limit::BatchesUnderWay.default_value() as usize,
            profiles: false,
            modules: 0,
        }
    }
}

impl Bounds {
    pub(crate) fn set(&mut self, limit: Limit, value: u64) {
        let size = usize::try_from(value).unwrap_or(usize::MAX);
        match limit {
            Limit::FrameBytes => self.frame_bytes = size,
            Limit::BatchBytes => self.batch_bytes = size,
            Limit::BatchCommands => self.commands = value,
            Limit::Futures => self.futures = size,
            Limit::Depth => self.depth = size,
            Limit::WaitMs => self.wait_ms = u32::try_from(value).unwrap_or(u32::MAX),
            // References count back in a byte.
            Limit::BatchesUnderWay => self.under_way = size.clamp(1, usize::from(u8::MAX)),
            Limit::ProfileEntries => self.profiles = true,
            Limit::Modules => self.modules = value,
            _ => {}
        }
    }
}

/// The recorder of one session. See the [crate] for its states.
pub struct Recorder<S> {
    /// Commands not sent yet. Structures stay here until they are whole.
    pub(crate) batch: Vec<u8>,
    /// Bytes of this batch that were sent.
    pub(crate) published: usize,
    /// Commands of this batch.
    pub(crate) commands: u64,
    /// VF: the futures of this batch.
    pub(crate) futures: Vec<Future<S>>,
    pub(crate) slots: Vec<Entry>,
    /// Strings and errors, by the words of their slots; few, and none while calls are recorded.
    pub(crate) extras: Vec<Extra<S>>,
    pub(crate) free_extras: Vec<u32>,
    pub(crate) free_slot: u32,
    /// VH: the number of slots that hold each handle, and the call that made the first of them.
    pub(crate) handles: HashMap<Ref, Held<S>>,
    /// Handles to give back at the end of this batch.
    pub(crate) frees: Vec<Ref>,
    pub(crate) scopes: Vec<Scope<S>>,
    /// The reason why the outermost open structure will not be sent.
    pub(crate) poison: Option<Arc<Error<S>>>,
    /// The reason why there is no session any more.
    pub(crate) broken: Option<Arc<Error<S>>>,
    pub(crate) out_of_scope: Arc<Error<S>>,
    history: Vec<Exception<S>>,
    pub(crate) history_omitted: u64,
    /// The failures that the program was not told of.
    pub(crate) seen: Seen<S>,
    /// The failed stubs that calls of this batch have as arguments: the position of the call, the
    /// argument, and the failure, by position.
    pub(crate) error_handles: Vec<(u32, u32, Arc<Error<S>>)>,
    /// The objects of the exceptions of the answer that is read, each held once.
    pub(crate) signalled: Vec<Ref>,
    /// The outermost structures of this batch, by position.
    pub(crate) structures: Vec<Sent<S>>,
    /// The number of tables of this batch, which is not flushed by itself while there are some.
    pub(crate) tables: u32,
    /// The place in the batch of the table without columns; absent if that was refused.
    pub(crate) table_at: Option<usize>,
    /// True if the batch is a transaction, which is sent whole.
    pub(crate) shipping: bool,
    /// The first failure of the last batch that was a transaction, by its order.
    pub(crate) shipped_from: u64,
    /// The milliseconds that the batch may wait for changes of others.
    pub(crate) wait_ms: u64,
    /// The number of times that a transaction ended, or may have.
    pub(crate) ends: u64,
    /// The last failure that ended a batch.
    pub(crate) batch_end: Option<Arc<Error<S>>>,
    pub(crate) under_way: UnderWay<S>,
    pub(crate) batch_number: u64,
    /// When either is reached, [`Recorder::due`] looks more closely.
    attention_bytes: usize,
    pub(crate) attention_futures: usize,
    pub(crate) bounds: Bounds,
    pub(crate) numbers: Numbers,
    pub(crate) procedures: Procedures,
    /// The modules that were sent, by number.
    pub(crate) modules: Vec<Arc<[u8]>>,
    pub(crate) counters: Counters,
    /// A buffer for bytes that are made from a slot and go into the batch.
    pub(crate) scratch: Vec<u8>,
    pub(crate) replies: Replies,
    pub(crate) explained: Explained<S>,
    /// True if the program has asked for profiles.
    pub(crate) profiled: bool,
}

impl<S: Source> Recorder<S> {
    /// Makes the recorder of a session that was greeted.
    pub(crate) fn new(numbers: Numbers, mut bounds: Bounds, replies: Replies, remap_futures: usize) -> Self {
        // The flush is a command, too: it has a word for every second future at most.
        bounds.futures = bounds.futures.min(2 * (bounds.frame_bytes / 8).saturating_sub(1)).max(1);
        let most = bounds.futures.min(usize::try_from(bounds.commands / 2).unwrap_or(usize::MAX));
        Recorder {
            batch: Vec::with_capacity(4 * PUBLISH_BYTES),
            published: 0,
            commands: 0,
            futures: Vec::with_capacity(1024),
            slots: Vec::with_capacity(1024),
            extras: Vec::new(),
            free_extras: Vec::new(),
            free_slot: NO_SLOT,
            handles: HashMap::new(),
            frees: Vec::new(),
            scopes: Vec::with_capacity(16),
            poison: None,
            broken: None,
            out_of_scope: Arc::new(Error::Misuse(Misuse::OutOfScope)),
            history: Vec::new(),
            history_omitted: 0,
            seen: Seen::default(),
            error_handles: Vec::new(),
            signalled: Vec::new(),
            structures: Vec::with_capacity(64),
            tables: 0,
            table_at: None,
            shipping: false,
            shipped_from: 0,
            wait_ms: 0,
            ends: 0,
            batch_end: None,
            under_way: UnderWay::default(),
            batch_number: 1,
            attention_bytes: PUBLISH_BYTES,
            attention_futures: remap_futures.min(most).max(1),
            bounds,
            numbers,
            procedures: Procedures::default(),
            modules: Vec::new(),
            counters: Counters::default(),
            scratch: Vec::new(),
            replies,
            explained: Explained::default(),
            profiled: false,
        }
    }

    /// Returns the commands of the recorded batch that were not sent.
    pub fn recorded_bytes(&self) -> &[u8] {
        &self.batch
    }

    /// Returns the client's numbers as the server has them.
    #[inline]
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Returns the counts of the session up to now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// True if a command can be recorded at once. Otherwise [`Recorder::due`] says what comes
    /// first.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.batch.len() < self.attention_bytes && self.futures.len() < self.attention_futures
    }

    /// Returns the work to be done before the next command is recorded, if that is one outside
    /// structures.
    ///
    /// # Errors
    /// No command can be recorded: the session is closed, the open structure was refused, or a
    /// limit is reached.
    #[cold]
    pub fn due(&mut self) -> Result<Due, Arc<Error<S>>> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        self.clear_told();
        if !self.scopes.is_empty() || self.shipping {
            let over = self.published + self.batch.len() > self.bounds.batch_bytes
                || self.futures.len() >= self.bounds.futures
                || self.commands >= self.bounds.commands;
            return if over { Err(misuse(Misuse::TooLong)) } else { Ok(Due::Nothing) };
        }
        let remap = if self.tables > 0 { self.bounds.futures } else { self.attention_futures };
        let full = self.futures.len() >= remap
            || self.commands + 1 >= self.bounds.commands
            || self.published + self.batch.len() + self.bounds.frame_bytes > self.bounds.batch_bytes;
        Ok(match full {
            true => Due::Flush,
            false if self.batch.len() >= PUBLISH_BYTES => Due::Send,
            false => Due::Nothing,
        })
    }

    /// Admits a command inside an open structure, where nothing is sent and nothing is due.
    pub(crate) fn admit_inside(&mut self) -> Admission<S> {
        match self.is_ready() {
            true => Ok(()),
            false => self.due().map(drop),
        }
    }

    /// Sets the sizes at which recording is to be looked at more closely.
    #[inline]
    pub(crate) fn attend(&mut self) {
        let now = self.broken.is_some() || self.poison.is_some() || self.must_clear();
        self.attention_bytes = if now { 0 } else { PUBLISH_BYTES };
    }

    /// Counts a command that was appended.
    #[inline]
    pub(crate) fn recorded(&mut self) {
        self.commands += 1;
    }

    /// Notes a call, a marker or a structure that cannot be recorded, and returns the error of its
    /// stubs. Inside a structure the outermost one is refused with it, if it is another.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        name: impl Into<Arc<str>>,
        place: S,
        why: Arc<Error<S>>,
    ) -> Arc<Error<S>> {
        // All calls of a refused structure have its error, which is noted once.
        if self.poison.as_ref().is_some_and(|poison| Arc::ptr_eq(poison, &why)) {
            return why;
        }
        let mut error = why;
        if !matches!(*error, Error::Closed(_)) {
            let name: Arc<str> = name.into();
            let outermost = self.scopes.first().map(|scope| (scope.kind.name(), scope.place));
            let around = outermost.filter(|(kind, at)| **kind != *name || *at != place);
            error = not_sent(name, place, &error);
            if let Some((name, place)) = around {
                error = Arc::new(Error::NotSent { call: unsent(name.into(), place), cause: error });
            }
            self.remember(error.clone(), self.batch_number);
            self.note_refusal(error.clone());
        }
        if !self.scopes.is_empty() {
            self.poison = Some(error.clone());
            self.attend();
        }
        error
    }

    /// Returns the reason why the open structure will not be sent, or the session is closed.
    pub fn refusal(&self) -> Option<Arc<Error<S>>> {
        self.broken.as_ref().or(self.poison.as_ref()).cloned()
    }

    // The history.

    pub(crate) fn remember(&mut self, error: Arc<Error<S>>, batch: u64) {
        if self.history.len() < HISTORY_MAX {
            self.history.push(Exception { batch, error });
        } else {
            self.history_omitted += 1;
        }
    }

    /// Returns all failures of flushed batches, and all calls that were not sent, since the history
    /// was last cleared, oldest first; the first [`HISTORY_MAX`]. The program is told of them.
    pub fn exceptions(&mut self) -> &[Exception<S>] {
        self.tell_all();
        &self.history
    }

    /// Returns the number of exceptions beyond those that [`Recorder::exceptions`] lists.
    pub fn exceptions_omitted(&self) -> u64 {
        self.history_omitted
    }

    /// Clears the history: the failures of the calls up to now count as told. True if the server's
    /// is to be cleared too: then ask for the [work](Recorder::due) to be done, and call
    /// [`Recorder::clear_server`]. Refused inside a structure.
    pub fn clear_exceptions(&mut self, place: S) -> bool {
        self.history.clear();
        self.history_omitted = 0;
        self.forgive();
        let wrong = if self.shipping {
            Misuse::InTransaction
        } else if !self.scopes.is_empty() {
            Misuse::OpenStructure
        } else {
            self.server_cleared();
            return true;
        };
        self.refuse("history", place, misuse(wrong));
        false
    }

    /// Clears the server's history, as the second half of [`Recorder::clear_exceptions`].
    pub fn clear_server(&mut self, admitted: Admission<S>) {
        if admitted.is_ok() {
            self.record_clear();
        }
    }
}

/// Makes an error of a misuse.
#[cold]
pub(crate) fn misuse<S>(misuse: Misuse) -> Arc<Error<S>> {
    Arc::new(Error::Misuse(misuse))
}

/// Makes the error of a method, routine or type that the server lacks.
#[cold]
pub(crate) fn missing<S>(name: Arc<str>) -> Arc<Error<S>> {
    Arc::new(Error::Missing { name })
}

/// Returns the name of a call that was not sent.
fn unsent<S>(name: Arc<str>, place: S) -> CallName<S> {
    CallName { name, number: 0, location: Some(place), rounds: [].into() }
}

/// Makes the error of a call that was not sent. A stub that was not made itself stands for the
/// first that was not.
fn not_sent<S>(name: Arc<str>, place: S, why: &Arc<Error<S>>) -> Arc<Error<S>> {
    let first = why.chain().filter(|e| matches!(***e, Error::NotSent { .. })).last();
    let cause = first.unwrap_or(why).clone();
    Arc::new(Error::NotSent { call: unsent(name, place), cause })
}

const _: () = {
    // An asynchronous client moves it between threads.
    const fn is_movable<T: Send>() {}
    is_movable::<Recorder<u32>>();
};
