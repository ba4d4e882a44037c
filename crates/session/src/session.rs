//! The session: commands in, replies out.
//!
//! Read [`Session`] first, then [`Session::handle`]. There is no I/O here: the server moves the
//! bytes.
//!
//! 1. `handle` decodes whole commands, and counts each against the limits of the batch.
//! 2. A command of a structure is collected (`structure.rs`); one of a batch that is a transaction
//!    too (`shipped.rs`). Other commands run at once (`calls.rs`).
//! 3. Results become futures of the batch, and failures go into its list.
//! 4. `flush` ends the batch: it answers the results that are wanted, and the failures.
//!
//! [`Batch`] is the state of the batch under way, and is new after each `flush`. Handles,
//! procedures and the history of exceptions stay for the session. [`Roots`] keeps the objects of
//! all these alive, in the context that the server locks for the session.

use std::collections::BTreeSet;
use std::sync::Arc;

use bifrost_cache::Cache;
use bifrost_ir::{TypeId, TypeKind, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::cx::Kill;
use bifrost_runtime::{Cx, Doom, RootSet, Table, object};
use bifrost_wire::command::Ranges;
use bifrost_wire::encode::{self, Exceptions, Flushed};
use bifrost_wire::{
    Command, Decoded, ErrorNumber, ExceptionKind, Limit, Outcome, Ref, Scope, TypeNumber, VERSION, Value,
    decode, decode_call, mention,
};
use smallvec::SmallVec;

use crate::ahead::Sight;
use crate::build::Procedure;
use crate::failures::{Failure, FailureKind, History};
use crate::futures::Future;
use crate::handles::Handles;
use crate::limits::Limits;
use crate::replies::{Put, basic_value, object_outcome, put_failure, string_of};
use crate::shipped::{Procedures, Shipped};
use crate::structure::Scan;
use crate::tables::Tables;
use crate::transactions::{Transactions, conflict_text};

/// Errors of a client after which the session is closed.
const ERRORS_MAX: u32 = 1_000;

/// Batched procedures that a session may define.
pub(crate) const PROCEDURES_MAX: usize = 10_000;

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
}

/// The root sets that keep the session's objects alive, in the context that it runs in.
#[derive(Debug)]
pub(crate) struct Roots {
    /// The objects with handles, by slot.
    pub handles: RootSet,
    /// The objects that the batch under way holds: results, strings that came with calls, values of
    /// exceptions.
    batch: RootSet,
    /// The objects that batched procedures use from outside; procedures stay for the session.
    procedures: RootSet,
    /// The values of the exceptions in the history, in its order.
    pub history: RootSet,
}

impl Roots {
    fn new(cx: &mut Cx) -> Roots {
        Roots {
            handles: cx.new_root_set(),
            batch: cx.new_root_set(),
            procedures: cx.new_root_set(),
            history: cx.new_root_set(),
        }
    }
}

/// The batch under way.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The future table F.
    pub futures: Vec<Future>,
    pub failures: Vec<Failure>,
    /// Failures beyond the limit.
    pub omitted: u32,
    /// The number of failures, and of those beyond the limit, that the client has cleared before
    /// the `flush`.
    cleared: (usize, u32),
    /// True if a future is [`Future::Undone`].
    pub undone: bool,
    pub commands: u64,
    pub bytes: u64,
    pub calls: u64,
    /// Set when the rest of the batch is not run.
    pub dead: bool,
    pub fuel: i64,
    /// The bytes of the heap that were taken for it before the run under way.
    pub heap_bytes: usize,
}

impl Batch {
    /// Adds a failure to the list and gives its position there, or a position beyond all lists if
    /// it is not kept.
    pub(crate) fn add(&mut self, failure: Failure, limits: &Limits) -> u32 {
        if self.failures.len() as u64 >= limits.get(Limit::Exceptions) {
            self.omitted += 1;
            return u32::MAX;
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
    welcome: Welcome,
    greeted: bool,
    ended: bool,
    pub(crate) handles: Handles,
    /// Made when the session first runs in its context.
    pub(crate) roots: Option<Roots>,
    pub(crate) transactions: Transactions,
    pub(crate) batch: Batch,
    pub(crate) procedures: Vec<Option<Arc<Procedure>>>,
    /// The procedures that are gone because they used objects of an aborted transaction.
    pub(crate) undone_procedures: BTreeSet<u32>,
    /// A structure whose end has not come yet.
    pub(crate) scan: Option<Scan>,
    pub(crate) history: History,
    batches: u64,
    /// Commands of the session, for error messages.
    position: u64,
    pub(crate) errors: u32,
    pub(crate) counters: Counters,
    pub(crate) output: Vec<u8>,
    /// The batch that is a transaction, from `transaction` until it has run to its end.
    pub(crate) shipped: Option<Shipped>,
}

impl Session {
    /// Makes a session that waits for its client's `hello`. It runs in the context of the cache.
    pub fn new(tables: &'static Tables, limits: Limits, welcome: Welcome, cache: Cache) -> Session {
        Session {
            transactions: Transactions::new(cache),
            tables,
            limits,
            welcome,
            greeted: false,
            ended: false,
            handles: Handles::default(),
            roots: None,
            batch: Batch { fuel: fuel(&limits), ..Batch::default() },
            procedures: Vec::new(),
            undone_procedures: BTreeSet::new(),
            scan: None,
            history: History::default(),
            batches: 0,
            position: 0,
            errors: 0,
            counters: Counters::default(),
            output: Vec::new(),
            shipped: None,
        }
    }

    /// Executes the commands that are whole, and returns the number of their bytes. The caller
    /// hands in the others again, at the same place, with the bytes that follow them. Does not read
    /// after the end of the session.
    ///
    /// `cx` is the context of the session's cache, which no other session has. When the session
    /// asks for a [pause](Session::pause), it has done nothing of the bytes that it has not
    /// counted.
    pub fn handle(&mut self, cx: &mut Cx, bytes: &[u8]) -> usize {
        if self.roots.is_none() {
            self.roots = Some(Roots::new(cx));
            bifrost_actors::set_open_max(cx, self.limits.size(Limit::Requests));
        }
        self.transactions.refresh(cx, self.batch.commands == 0);
        cx.begin();
        cx.charge_batch(self.batch.heap_bytes);
        cx.fuel = self.batch.fuel;
        self.run_again(cx);
        let at = if self.pause().is_none() { self.work(cx, bytes) } else { 0 };
        self.batch.fuel = cx.fuel;
        self.batch.heap_bytes = cx.batch_heap_bytes();
        cx.leave();
        bifrost_actors::post_messages(cx);
        self.transactions.rest(cx);
        cx.make_room_for_others();
        at
    }

    /// Executes commands that are whole, and returns the number of their bytes.
    pub(crate) fn work(&mut self, cx: &mut Cx, bytes: &[u8]) -> usize {
        let frame = self.limits.size(Limit::FrameBytes);
        let mut sight = Sight::new(cx);
        let mut at = 0;
        while !self.ended {
            if sight.is_due(cx) {
                self.see(cx, &mut sight, &bytes[at..]);
            }
            if self.scan.is_some() {
                match self.scan_on(cx, &bytes[at..]) {
                    Some(used) => at += used,
                    None => break,
                }
                continue;
            }
            // By far the most frequent command goes by the shortest way.
            if self.greeted
                && !self.batch.dead
                && self.shipped.is_none()
                && let Some((method, receiver, args, used)) = decode_call(&bytes[at..], frame)
            {
                if !self.count(cx, used) {
                    break;
                }
                self.foresee(&mut sight, receiver, &bytes[at..]);
                at += used;
                match self.batch.dead || bifrost_actors::has_open_requests(cx) {
                    true => self.command(cx, Command::Call { method, receiver, args }),
                    false => self.call(cx, method, receiver, args, false),
                }
                continue;
            }
            match decode(&bytes[at..], frame) {
                Ok(Decoded::Command(command, used)) => {
                    if !self.count(cx, used) {
                        break;
                    }
                    if self.shipped.is_some() {
                        self.collect(cx, command, &bytes[at..at + used]);
                        at += used;
                        if self.pause().is_some() {
                            break;
                        }
                        continue;
                    }
                    // Before `hello` nothing is collected: `command` ends the session.
                    if self.greeted && !self.batch.dead && crate::structure::begins(&command) {
                        self.scan = Some(Scan::new(self.batch.futures.len() as u32));
                        continue;
                    }
                    at += used;
                    self.command(cx, command);
                    if self.output.len() > self.output_max() {
                        self.fail(
                            ErrorNumber::ReplyTooLong,
                            "the replies to what was sent at once are too long",
                        );
                    }
                }
                Ok(Decoded::NeedMore(_)) => break,
                Err(error) => self.fail(error.number, &error.to_string()),
            }
        }
        at
    }

    /// Returns the replies since the last call of [`Session::clear_output`].
    #[inline]
    pub fn output(&self) -> &[u8] {
        &self.output
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
        self.scan.as_ref().map_or(0, Scan::bytes)
    }

    /// Returns the persistent objects.
    pub fn cache(&self) -> &Cache {
        self.transactions.cache()
    }

    /// Returns the counts of the session so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the limit of the bytes of replies that may wait: a few bytes of commands can ask for
    /// many bytes of replies.
    fn output_max(&self) -> usize {
        self.limits.size(Limit::ReplyBytes).saturating_mul(4).max(1 << 20)
    }

    /// The number of handles that the client holds.
    pub fn handles(&self) -> usize {
        self.handles.len()
    }

    /// Ends the session with an error that the client is told.
    pub fn fail(&mut self, number: ErrorNumber, text: &str) {
        if !self.ended {
            self.ended = true;
            encode::error(&mut self.output, number, self.position, text);
        }
    }

    /// Counts a command against the batch's limits; false ends the session's reading.
    #[inline]
    pub(crate) fn count(&mut self, cx: &mut Cx, bytes: usize) -> bool {
        self.position += 1;
        self.batch.commands += 1;
        self.batch.bytes += bytes as u64;
        if self.batch.commands > self.limits.get(Limit::BatchCommands) {
            self.end_batch(cx, ErrorNumber::TooManyCommands, Limit::BatchCommands);
        } else if self.batch.bytes > self.limits.get(Limit::BatchBytes) {
            self.end_batch(cx, ErrorNumber::BatchTooLong, Limit::BatchBytes);
        }
        !self.ended
    }

    /// Refuses the rest of the batch because of a limit.
    #[cold]
    pub(crate) fn end_batch(&mut self, _cx: &mut Cx, number: ErrorNumber, limit: Limit) {
        if !self.batch.dead {
            let text =
                format!("{}: {} is the limit ({})", number.text(), self.limits.get(limit), limit.name());
            self.refuse(number, text);
            self.batch.dead = true;
            self.scan = None;
        }
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

    /// Keeps the objects that a procedure uses from outside alive until the end of the session.
    pub(crate) fn hold_captured(&self, cx: &mut Cx, captured: &[(Word, TypeId)]) {
        let objects = captured.iter().filter(|(_, ty)| !self.tables.is_basic(*ty));
        cx.root_set(&self.roots().procedures).extend(objects.map(|(word, _)| *word));
    }

    /// The number of the session in the server's logs.
    pub(crate) fn number(&self) -> u64 {
        self.welcome.session
    }

    /// Returns the number of batched procedures, and of the objects that they hold.
    pub(crate) fn procedures(&self, cx: &mut Cx) -> Procedures {
        Procedures { defined: self.procedures.len(), captured: cx.root_set(&self.roots().procedures).len() }
    }

    /// Forgets the batched procedures beyond those.
    pub(crate) fn forget_procedures(&mut self, cx: &mut Cx, kept: Procedures) {
        self.procedures.truncate(kept.defined);
        self.undone_procedures.retain(|number| (*number as usize) < kept.defined);
        cx.root_set(&self.roots().procedures).truncate(kept.captured);
    }

    /// The position of the next future.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.batch.futures.len() as u32 + 1
    }

    /// Makes results of the batch; false, and nothing made, at the limit.
    pub(crate) fn make(&mut self, cx: &mut Cx, futures: impl IntoIterator<Item = Future>) {
        for future in futures {
            self.hold_future(cx, future);
            self.batch.futures.push(future);
        }
        if self.batch.futures.len() as u64 > self.limits.get(Limit::Futures) {
            self.end_batch(cx, ErrorNumber::TooManyFutures, Limit::Futures);
        }
    }

    /// Makes one result of the batch.
    #[inline]
    pub(crate) fn make_one(&mut self, cx: &mut Cx, future: Future) {
        self.hold_future(cx, future);
        self.batch.futures.push(future);
        if self.batch.futures.len() as u64 > self.limits.get(Limit::Futures) {
            self.end_batch(cx, ErrorNumber::TooManyFutures, Limit::Futures);
        }
    }

    #[inline]
    fn hold_future(&self, cx: &mut Cx, future: Future) {
        if let Future::Object(word, _) = future {
            self.hold(cx, word);
        }
    }

    /// Notes a failure and returns its position in the batch's list, or a position beyond all lists
    /// if it is not kept.
    #[cold]
    pub(crate) fn note(&mut self, failure: Failure) -> u32 {
        self.counters.failures += 1;
        self.transactions.unseen = true;
        if let FailureKind::Refused { number, .. } = &failure.kind {
            match number.scope() {
                Scope::Call => self.errors += 1,
                // The rest of the batch is not run.
                Scope::Batch | Scope::Session => self.batch.dead = true,
            }
            if self.errors > ERRORS_MAX {
                self.fail(ErrorNumber::TooManyErrors, ErrorNumber::TooManyErrors.text());
            }
        }
        self.batch.add(failure, &self.limits)
    }

    /// Refuses something at the next position without making a future.
    pub(crate) fn refuse(&mut self, number: ErrorNumber, text: impl Into<String>) -> u32 {
        let kind = FailureKind::refused(number, text);
        self.note(Failure { call: self.next(), iterations: SmallVec::new(), kind })
    }

    /// Ends the batch after a run that was ended from outside, as the reason demands.
    #[cold]
    pub(crate) fn killed(&mut self, cx: &mut Cx, call: u32, iterations: SmallVec<[u32; 4]>) -> u32 {
        let why = cx.killed();
        let (number, limit) = match why {
            Kill::Fuel => (ErrorNumber::OutOfFuel, Some(Limit::Fuel)),
            Kill::Time => (ErrorNumber::TimeLimit, Some(Limit::BatchTimeMs)),
            Kill::Stop => (ErrorNumber::Cancelled, None),
            Kill::Conflict => (ErrorNumber::Conflict, None),
            Kill::Objects => (ErrorNumber::TooManyObjects, Some(Limit::TransactionObjects)),
            Kill::Answers | Kill::Memory => (ErrorNumber::HeapLimit, None),
        };
        let text = match limit {
            None if why == Kill::Memory => format!(
                "{why}: {} bytes is the limit (server_heap_bytes_max), and the newest of the largest batches are ended",
                cx.shared_bytes_max(),
            ),
            Some(l) => format!("{}: {} is the limit ({})", number.text(), self.limits.get(l), l.name()),
            None if number == ErrorNumber::HeapLimit => format!(
                "{}: more bytes of answers wait for it than one batch may add to its objects: {} (batch_heap_bytes_max); ask for less at once",
                number.text(),
                cx.limits().batch_heap_bytes,
            ),
            None if number == ErrorNumber::Conflict => {
                conflict_text(self.tables, cx.overtaken(), &self.handles)
            }
            None => number.text().to_owned(),
        };
        self.batch.dead = true;
        let failed = self.note(Failure { call, iterations, kind: FailureKind::refused(number, text) });
        match why {
            Kill::Conflict => self.abort_transaction(cx),
            // Nothing of it can be committed, and others need its memory.
            Kill::Memory => {
                self.transactions.undo(cx);
                self.forget_undone(cx);
                cx.doom(Doom::Killed(why));
                cx.collect();
            }
            _ => {}
        }
        failed
    }

    /// Executes a command outside structures.
    pub(crate) fn command(&mut self, cx: &mut Cx, command: Command<'_>) {
        if !self.greeted {
            return match command {
                Command::Hello(hello) => self.hello(cx, hello),
                _ => self.fail(ErrorNumber::OutOfOrder, "the first command is `hello`"),
            };
        }
        if bifrost_actors::has_open_requests(cx) {
            self.join_operands(cx, &command);
        }
        if self.batch.dead && self.skipped(&command) {
            return;
        }
        match command {
            Command::Call { method, receiver, args } => self.call(cx, method, receiver, args, false),
            Command::Send { method, receiver, args } => self.call(cx, method, receiver, args, true),
            Command::CallRoutine { routine, args } => self.call_routine(cx, routine, args),
            Command::CallProcedure { procedure, args } => self.call_procedure(cx, procedure, args),
            Command::Lookup { name, expected } => self.lookup(cx, name, expected),
            Command::Constant(value) => self.constant(cx, value),
            Command::Cell { element } => self.cell(cx, element),
            Command::Free(handles) => handles.iter().for_each(|h| self.free(cx, h)),
            Command::Flush { wanted, quiet } => {
                self.batch.fuel = cx.fuel;
                self.flush(cx, wanted, quiet);
                // The next batch is a new run, with its own fuel and epoch: the end of this one
                // does not end that.
                cx.leave();
                cx.begin();
                cx.fuel = self.batch.fuel;
            }
            Command::Describe => encode::interface(&mut self.output, self.tables.json()),
            Command::History => {
                self.transactions.unseen = false;
                self.send_history(cx);
            }
            Command::ClearHistory => {
                self.transactions.unseen = false;
                self.history.clear();
                self.batch.cleared = (self.batch.failures.len(), self.batch.omitted);
                cx.root_set(&self.roots().history).clear();
            }
            Command::Transaction { tries, batch } => self.ship(cx, tries, batch),
            Command::Commit => self.commit(cx),
            Command::Abort => self.abort(cx),
            Command::Bye => {
                self.ended = true;
                encode::farewell(&mut self.output);
            }
            Command::Hello(_) => self.fail(ErrorNumber::OutOfOrder, "`hello` is said once, at the start"),
            // Commands that begin a structure are collected before they get here: this is a marker
            // without its beginning.
            _ => {
                self.refuse(ErrorNumber::MarkerMismatch, "the marker has no open structure to belong to");
            }
        }
    }

    /// True if a command is left out because the batch is over. Commands whose answer a client
    /// waits for are not left out, and procedures keep their numbers.
    fn skipped(&mut self, command: &Command<'_>) -> bool {
        if let Command::Procedure { .. } = command {
            self.undefined(1);
        }
        !matches!(
            command,
            Command::Flush { .. }
                | Command::Bye
                | Command::Free(_)
                | Command::Hello(_)
                | Command::Describe
                | Command::History
                | Command::ClearHistory
        )
    }

    /// Gives numbers to procedures whose definition was refused. Numbers beyond the limit mean
    /// nothing anyway.
    pub(crate) fn undefined(&mut self, count: usize) {
        let length = (self.procedures.len() + count).min(PROCEDURES_MAX).max(self.procedures.len());
        self.procedures.resize(length, None);
    }

    fn hello(&mut self, cx: &mut Cx, hello: bifrost_wire::Hello<'_>) {
        if hello.version != VERSION {
            let text = format!("this server speaks version {VERSION}, the client version {}", hello.version);
            return self.fail(ErrorNumber::VersionMismatch, &text);
        }
        self.greeted = true;
        let limits: Vec<(Limit, u64)> = self.limits.iter().collect();
        let digest = self.tables.numbering().digest();
        encode::welcome(&mut self.output, digest, &limits, self.welcome.session, &self.welcome.server);
        self.reset_batch(cx);
    }

    pub(crate) fn free(&mut self, cx: &mut Cx, handle: Ref) {
        let roots = self.roots.as_ref().expect("made before anything runs");
        if !self.handles.free(handle, cx.root_set(&roots.handles)) {
            self.refuse(ErrorNumber::NoSuchHandle, format!("{} cannot be given back", mention(handle)));
        }
    }

    fn lookup(&mut self, cx: &mut Cx, name: &str, expected: Option<TypeNumber>) {
        // A name of an actor and one of an object are two.
        let of_actor = expected.and_then(|ty| self.tables.ty(ty)).map(|ty| self.tables.is_actor(ty));
        let persistent = match of_actor {
            Some(true) => Ok(None),
            _ => cx.lookup(name),
        };
        let found = match persistent {
            Ok(None) if of_actor != Some(false) => {
                bifrost_actors::published(cx, name).map(|found| found.map(|actor| actor.word()))
            }
            found => found,
        };
        let found = match found {
            Ok(Some(object)) => self.check_found(object, name, expected),
            Err(ended) if ended.outcome == bifrost_runtime::Outcome::Killed as u64 => {
                let failed = self.killed(cx, self.next(), SmallVec::new());
                return self.make_one(cx, Future::Failed(failed));
            }
            Err(_) => Err((ErrorNumber::StoreFailed, "the directory could not be fetched".to_owned())),
            Ok(None) => Err((ErrorNumber::NoSuchName, format!("there is no well-known object `{name}`"))),
        };
        let future = match found {
            Ok(future) => future,
            Err((number, text)) => Future::Failed(self.refuse(number, text)),
        };
        self.make_one(cx, future);
    }

    fn check_found(
        &self,
        object: Word,
        name: &str,
        expected: Option<TypeNumber>,
    ) -> Result<Future, (ErrorNumber, String)> {
        // SAFETY: the directory holds references only, and names of actors are those of objects.
        let info = unsafe { Table::of(object) }.info();
        let Some(expected) = expected else { return Ok(Future::Object(object, info.seen_as)) };
        let ty = self
            .tables
            .ty(expected)
            .ok_or_else(|| (ErrorNumber::NoSuchType, format!("there is no type number {}", expected.0)))?;
        if !info.has_type(ty) {
            let (found, wanted) = (self.tables.type_name(info.seen_as), self.tables.type_name(ty));
            return Err((ErrorNumber::WrongType, format!("`{name}` is a `{found}`, not a `{wanted}`")));
        }
        Ok(Future::Object(object, ty))
    }

    fn constant(&mut self, cx: &mut Cx, value: Value<'_>) {
        let future = match self.value(cx, value) {
            Ok((word, ty)) if ty == Types::STRING => Future::Object(word, ty),
            Ok((word, ty)) => Future::Basic(word, ty),
            Err(kind) => {
                let call = self.next();
                Future::Failed(self.note(Failure { call, iterations: SmallVec::new(), kind }))
            }
        };
        self.make_one(cx, future);
    }

    /// Turns a value from outside into a word, with its type.
    pub(crate) fn value(&self, cx: &mut Cx, value: Value<'_>) -> Result<(Word, TypeId), FailureKind> {
        Ok(match value {
            Value::Nil => (0, Types::NULL),
            Value::Bool(b) => (Word::from(b), Types::BOOL),
            Value::Int(i) => (i as Word, Types::INT),
            Value::Real(r) => (r.to_bits(), Types::REAL),
            Value::Char(c) => (Word::from(u32::from(c)), Types::CHAR),
            Value::Str(s) => match cx.new_string(s) {
                Ok(word) => {
                    self.hold(cx, word);
                    (word, Types::STRING)
                }
                Err(full) => return Err(FailureKind::refused(ErrorNumber::HeapLimit, full.to_string())),
            },
        })
    }

    fn cell(&mut self, cx: &mut Cx, element: TypeNumber) {
        let made = match self.cell_type(element) {
            Ok(ty) => {
                let table = self.tables.engine().image().table_of(ty);
                match cx.new_object(table, &[0; object::cell::FIELDS]) {
                    Ok(word) => Ok(Future::Object(word, ty)),
                    Err(full) => Err((ErrorNumber::HeapLimit, full.to_string())),
                }
            }
            Err(refusal) => Err(refusal),
        };
        let future = match made {
            Ok(future) => future,
            Err((number, text)) => Future::Failed(self.refuse(number, text)),
        };
        self.make_one(cx, future);
    }

    /// Returns the type of cells of this element type.
    pub(crate) fn cell_type(&self, element: TypeNumber) -> Result<TypeId, (ErrorNumber, String)> {
        let ty = self
            .tables
            .ty(element)
            .ok_or_else(|| (ErrorNumber::NoSuchType, format!("there is no type number {}", element.0)))?;
        let types = &self.tables.engine().program().types;
        types.find_instance(TypeKind::Cell(ty)).ok_or_else(|| {
            (ErrorNumber::WrongType, format!("there are no cells of `{}`", self.tables.type_name(ty)))
        })
    }

    /// Answers the trailer of a batch.
    pub(crate) fn flush(&mut self, cx: &mut Cx, wanted: Ranges<'_>, quiet: bool) {
        if u64::from(wanted.last()) > self.limits.get(Limit::Futures) {
            return self
                .fail(ErrorNumber::TooManyFutures, "`flush` names more futures than a batch may have");
        }
        self.join_all(cx);
        if self.batch.undone {
            self.batch.fail_undone(wanted, &self.limits);
        }
        self.counters.crossings += 1;
        self.batches += 1;
        let most_bytes = self.limits.size(Limit::ReplyBytes);
        let most_handles = self.limits.size(Limit::Handles);
        let failures = std::mem::take(&mut self.batch.failures);
        // Which failures are reported, and where they are in the reply.
        let mut reported: Vec<u32> = Vec::new();
        if !failures.is_empty() {
            reported = self.reported(&failures, wanted, quiet);
        }
        let roots = self.roots.as_ref().expect("made before anything runs");
        let handle_roots = cx.root_set(&roots.handles);
        let mut reply = Flushed::begin(&mut self.output);
        let mut refused: Option<ErrorNumber> = None;
        for position in wanted.positions() {
            let outcome = match self.batch.futures.get(position as usize - 1) {
                _ if refused.is_some() => Outcome::Absent,
                None | Some(Future::Inner | Future::Open(..) | Future::Undone) => Outcome::Absent,
                Some(Future::Nothing) => Outcome::Value(Value::Nil),
                Some(Future::Basic(word, ty)) => Outcome::Value(basic_value(*word, *ty)),
                Some(Future::Object(word, _)) => {
                    match object_outcome(self.tables, &mut self.handles, handle_roots, *word, most_handles) {
                        Some(outcome) => outcome,
                        None => {
                            refused = Some(ErrorNumber::TooManyHandles);
                            Outcome::Absent
                        }
                    }
                }
                Some(Future::Failed(index)) => match reported.binary_search(index) {
                    Ok(at) => Outcome::Exception(at as u32),
                    Err(_) => Outcome::Absent,
                },
            };
            let long = if let Outcome::Value(Value::Str(s)) = outcome { s.len() } else { 0 };
            if reply.bytes() + long > most_bytes {
                refused = Some(ErrorNumber::ReplyTooLong);
                reply.outcome(&Outcome::Absent);
                continue;
            }
            reply.outcome(&outcome);
        }
        for index in &reported {
            let room = most_bytes.saturating_sub(reply.bytes());
            put_failure(
                self.tables,
                &mut self.handles,
                handle_roots,
                most_handles,
                room,
                &failures[*index as usize],
                &mut |w| match w {
                    Put::Kind(call, rounds, kind) => reply.exception(call, rounds, kind),
                    Put::Signal(call, rounds, name, values) => reply.signal(call, rounds, name, values),
                },
            );
        }
        if let Some(number) = refused {
            let limit = match number {
                ErrorNumber::TooManyHandles => Limit::Handles,
                _ => Limit::ReplyBytes,
            };
            let text =
                format!("{}: {} is the limit ({})", number.text(), self.limits.get(limit), limit.name());
            reply.exception(0, &[], &ExceptionKind::Refused { number: number as u32, text: &text });
        }
        let start = fuel(&self.limits);
        let counters = encode::Counters {
            calls: u32::try_from(self.batch.calls).unwrap_or(u32::MAX),
            fuel: u32::try_from(start.saturating_sub(self.batch.fuel).max(0)).unwrap_or(u32::MAX),
        };
        reply.finish(counters, self.batch.omitted);
        self.counters.calls += self.batch.calls;
        let (cleared, omitted) = self.batch.cleared;
        if failures.len() > cleared {
            let most = self.limits.size(Limit::Exceptions);
            let added = failures.into_iter().skip(cleared);
            self.history.add(self.batches, added, most, self.tables, cx.root_set(&roots.history));
            self.history.omitted += u64::from(self.batch.omitted - omitted);
        }
        self.reset_batch(cx);
    }

    /// Returns the reply that is stored with the batch under way, all of which has gone well. It is
    /// for a client that sends the batch again, for which a handle would mean nothing.
    pub(crate) fn stored_reply(&self, wanted: Ranges<'_>) -> Vec<u8> {
        let mut stored = Vec::new();
        let mut reply = Flushed::begin(&mut stored);
        let mut objects = Vec::new();
        for position in wanted.positions() {
            let outcome = match self.batch.futures.get(position as usize - 1) {
                None | Some(Future::Inner | Future::Open(..) | Future::Failed(_) | Future::Undone) => {
                    Outcome::Absent
                }
                Some(Future::Nothing) => Outcome::Value(Value::Nil),
                Some(Future::Basic(word, ty)) => Outcome::Value(basic_value(*word, *ty)),
                Some(Future::Object(word, _)) => match string_of(*word) {
                    Some(text) => Outcome::Value(Value::Str(text)),
                    None => {
                        objects.push(position);
                        Outcome::Exception(objects.len() as u32 - 1)
                    }
                },
            };
            reply.outcome(&outcome);
        }
        let text = "the batch was done before, and its objects are not told again";
        for position in objects {
            let kind = ExceptionKind::Refused { number: ErrorNumber::Repeated as u32, text };
            reply.exception(position, &[], &kind);
        }
        reply.finish(encode::Counters { calls: 0, fuel: 0 }, 0);
        stored
    }

    /// Answers the batch with the stored reply.
    pub(crate) fn replay(&mut self, cx: &mut Cx, reply: &[u8]) {
        self.counters.crossings += 1;
        self.batches += 1;
        self.output.extend_from_slice(reply);
        self.reset_batch(cx);
        cx.leave();
        cx.begin();
        cx.fuel = self.batch.fuel;
    }

    fn reported(&self, failures: &[Failure], wanted: Ranges<'_>, quiet: bool) -> Vec<u32> {
        let all = 0..failures.len() as u32;
        if !quiet {
            return all.collect();
        }
        let mut asked: Vec<u32> = wanted
            .positions()
            .filter_map(|p| match self.batch.futures.get(p as usize - 1) {
                Some(Future::Failed(index)) => Some(*index),
                _ => None,
            })
            .collect();
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    pub(crate) fn reset_batch(&mut self, cx: &mut Cx) {
        let held = cx.root_set(&self.roots().batch);
        held.clear();
        held.shrink_to(1 << 16);
        bifrost_actors::forget_requests(cx);
        self.batch.futures.clear();
        if self.batch.futures.capacity() > 1 << 16 {
            self.batch.futures = Vec::new();
        }
        self.batch = Batch {
            futures: std::mem::take(&mut self.batch.futures),
            fuel: fuel(&self.limits),
            ..Batch::default()
        };
    }

    fn send_history(&mut self, cx: &mut Cx) {
        let most_handles = self.limits.size(Limit::Handles);
        let mut room = self.limits.size(Limit::ReplyBytes);
        let roots = self.roots.as_ref().expect("made before anything runs");
        let handle_roots = cx.root_set(&roots.handles);
        let mut reply = Exceptions::begin(&mut self.output);
        // Those of the batch under way are among them: they get into the history with its `flush`.
        let (cleared, omitted) = self.batch.cleared;
        let now = self.batches + 1;
        let fresh = self.batch.failures.iter().skip(cleared).map(|failure| (&now, failure));
        for (batch, failure) in self.history.kept.iter().map(|(batch, failure)| (batch, failure)).chain(fresh)
        {
            let put = &mut |w: Put<'_>| match w {
                Put::Kind(call, rounds, kind) => reply.exception(*batch, call, rounds, kind),
                Put::Signal(call, rounds, name, values) => reply.signal(*batch, call, rounds, name, values),
            };
            let bytes =
                put_failure(self.tables, &mut self.handles, handle_roots, most_handles, room, failure, put);
            room = room.saturating_sub(bytes);
        }
        reply.finish(self.history.omitted + u64::from(self.batch.omitted - omitted));
    }
}

fn fuel(limits: &Limits) -> i64 {
    i64::try_from(limits.get(Limit::Fuel)).unwrap_or(i64::MAX)
}
