//! The work of a batch: commands, one after the other.
//!
//! Read [`Session::work`] first, then [`Session::command`]. Calls are in `calls.rs`, structures in
//! `structure.rs`, batches that are transactions in `shipped.rs`, replies in `replies.rs`.
//!
//! 1. `work` decodes whole commands, and counts each against the limits of the batch.
//! 2. The command goes to the structure or to the transaction that is collected, or to `command`.
//! 3. `command` joins the requests that it needs, and executes it.
//!
//! A command is skipped if the rest of the batch is not run; `rules.rs` has the exceptions.
//!
//! [`Run`] is a run of the context. A function that takes a `Run` may end it and begin the next
//! one; a function that takes a `Cx` works within a run.

use std::ops::{Deref, DerefMut};

use bifrost_heap::HeapFull;
use bifrost_ir::{TypeId, TypeKind, Types};
use bifrost_runtime::abi::{Outcome, Word};
use bifrost_runtime::{Cx, Table, object};
use bifrost_wire::{
    Command, Decoded, ErrorNumber, Limit, TypeNumber, VERSION, Value, decode, decode_call, encode, mention,
};

use crate::ahead::Sight;
use crate::casts::Cast;
use crate::causes::Cause;
use crate::failures::FailureKind;
use crate::futures::Future;
use crate::handles::Freed;
use crate::rules::{InOver, Inside, rule};
use crate::scan::Scan;
use crate::session::{Batch, Session};

/// A run of the context for the batch under way. It ends when it is dropped, so that a kill that is
/// meant for it never ends a later one.
#[derive(Debug)]
#[must_use]
pub(crate) struct Run<'cx> {
    cx: &'cx mut Cx,
}

impl<'cx> Run<'cx> {
    /// Begins a run with the fuel and the bytes of the heap that the batch has left.
    #[inline]
    pub fn begin(cx: &'cx mut Cx, batch: &Batch) -> Run<'cx> {
        let mut run = Run { cx };
        run.start(batch);
        run
    }

    /// Ends the run, and begins that of another batch or try. The end of the one does not end the
    /// other: each run has an epoch of its own.
    #[inline]
    pub fn begin_next(&mut self, batch: &Batch) {
        self.cx.leave();
        self.start(batch);
    }

    #[inline]
    fn start(&mut self, batch: &Batch) {
        self.cx.begin();
        self.cx.charge_batch(batch.heap_bytes);
        self.cx.fuel = batch.fuel;
    }

    /// Ends the run. The rest of the batch has another one.
    #[inline]
    pub fn end(self, batch: &mut Batch) {
        batch.fuel = self.cx.fuel;
        batch.heap_bytes = self.cx.batch_heap_bytes();
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.cx.leave();
    }
}

impl Deref for Run<'_> {
    type Target = Cx;

    #[inline]
    fn deref(&self) -> &Cx {
        self.cx
    }
}

impl DerefMut for Run<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Cx {
        self.cx
    }
}

impl Session {
    /// Executes commands that are whole, and returns the number of their bytes.
    pub(crate) fn work(&mut self, run: &mut Run<'_>, bytes: &[u8]) -> usize {
        let frame = self.limits.size(Limit::FrameBytes);
        let mut sight = Sight::new(run);
        let mut at = 0;
        while !self.ended {
            if sight.is_due(run) {
                self.see(run, &mut sight, &bytes[at..]);
            }
            if self.scan.is_some() {
                match self.scan_on(run, &bytes[at..]) {
                    Some(used) => at += used,
                    None => break,
                }
                continue;
            }
            // By far the most frequent command goes by the shortest way.
            if self.is_direct
                && !self.batch.dead
                && self.shipped.is_none()
                && let Some((method, receiver, args, used)) = decode_call(&bytes[at..], frame)
            {
                if !self.count(used) {
                    break;
                }
                self.foresee(&mut sight, receiver, &bytes[at..]);
                at += used;
                match self.batch.dead || bifrost_actors::has_open_requests(run) {
                    true => self.command(run, Command::Call { method, receiver, args }),
                    false => self.call(run, method, receiver, args, false),
                }
                continue;
            }
            match decode(&bytes[at..], frame) {
                Ok(Decoded::Command(command, used)) => {
                    if !self.count(used) {
                        break;
                    }
                    if self.shipped.is_some() {
                        self.collect(run, command, &bytes[at..at + used]);
                        at += used;
                        if self.pause().is_some() {
                            break;
                        }
                        if !self.output.is_empty() {
                            self.more = at < bytes.len();
                            break;
                        }
                        continue;
                    }
                    // Before `hello` nothing is collected: `command` ends the session.
                    if self.greeted && !self.batch.dead && matches!(rule(&command).inside, Inside::Opens(_)) {
                        self.scan = Some(Box::new(Scan::new(self.batch.futures.len() as u32)));
                        continue;
                    }
                    // A measured call does not go the shortest way.
                    if let Command::Call { receiver, .. } = command
                        && self.profiler.is_some()
                        && !self.batch.dead
                    {
                        self.foresee(&mut sight, receiver, &bytes[at..]);
                    }
                    at += used;
                    self.command(run, command);
                    if self.is_waiting() {
                        break;
                    }
                    if !self.output.is_empty() {
                        self.more = at < bytes.len();
                        break;
                    }
                }
                Ok(Decoded::NeedMore(_)) => break,
                Err(error) => self.fail(error.number, &error.to_string()),
            }
        }
        at
    }

    /// Counts a command against the batch's limits; false ends the session's reading.
    #[inline]
    pub(crate) fn count(&mut self, bytes: usize) -> bool {
        self.position += 1;
        self.batch.commands += 1;
        self.batch.bytes += bytes as u64;
        if self.batch.commands > self.limits.get(Limit::BatchCommands) {
            self.exceed(ErrorNumber::TooManyCommands, Limit::BatchCommands);
        } else if self.batch.bytes > self.limits.get(Limit::BatchBytes) {
            self.exceed(ErrorNumber::BatchTooLong, Limit::BatchBytes);
        }
        !self.ended
    }

    /// Executes a command outside structures.
    // Kept out of `work`, so that the way of a call there needs few registers.
    #[inline(never)]
    pub(crate) fn command(&mut self, run: &mut Run<'_>, command: Command<'_>) {
        match self.profiler.is_some() {
            true => self.command_measured(run, command),
            false => self.execute(run, command),
        }
    }

    /// Executes a command outside structures, without measuring it.
    pub(crate) fn execute(&mut self, run: &mut Run<'_>, command: Command<'_>) {
        if !self.greeted {
            return match command {
                Command::Hello(hello) => self.hello(run, hello),
                _ => self.fail(ErrorNumber::OutOfOrder, "the first command must be `hello`"),
            };
        }
        if bifrost_actors::has_open_requests(run) {
            self.join_operands(run, &command);
        }
        if self.batch.dead {
            match rule(&command).over {
                InOver::Executed => {}
                InOver::Skipped => return,
                InOver::SkippedProcedure => return self.undefined(1),
            }
        }
        match command {
            Command::Call { method, receiver, args } => self.call(run, method, receiver, args, false),
            Command::Send { method, receiver, args } => self.call(run, method, receiver, args, true),
            Command::CallRoutine { routine, args } => self.call_routine(run, routine, args),
            Command::CallProcedure { procedure, args } => self.call_procedure(run, procedure, args),
            Command::Lookup { name, expected } => self.lookup(run, name, expected),
            Command::Constant(value) => self.constant(run, value),
            Command::Cell { element } => self.cell(run, element),
            Command::Rows { columns } => self.rows(run, columns),
            Command::Emit { rows, values } => self.emit(run, rows, values),
            Command::As { ty, object } => self.cast(run, Cast::As, ty, object),
            Command::Is { ty, object } => self.cast(run, Cast::Is, ty, object),
            Command::Get { object } => self.get(run, object),
            Command::Module { number, bytes } => self.give_module(number, bytes),
            Command::Run(wanted) => self.run_module(run, &wanted),
            Command::Free { handles, unanswered } => {
                handles.iter().for_each(|handle| self.free(run, Freed { handle, unanswered }));
            }
            Command::Flush { wanted, quiet, kept } => {
                self.batch.fuel = run.fuel;
                self.flush(run, wanted, quiet, kept);
                run.begin_next(&self.batch);
            }
            Command::Describe => encode::interface(&mut self.output, self.policy.json(self.tables)),
            Command::History => {
                self.transactions.unseen = false;
                self.send_history(run);
            }
            Command::ClearHistory => {
                self.transactions.unseen = false;
                self.history.clear();
                self.batch.cleared = (self.batch.failures.len(), self.batch.omitted);
                run.root_set(&self.roots().history).clear();
            }
            Command::Profile { on } => self.profile(run, on),
            Command::Transaction { tries, batch } => self.ship(run, tries, batch),
            Command::Commit => self.commit(run),
            Command::Abort => self.abort(run),
            Command::Wait { ms } => self.wait(run, ms),
            Command::Bye => {
                self.ended = true;
                encode::farewell(&mut self.output);
            }
            Command::Hello(_) => {
                self.fail(ErrorNumber::OutOfOrder, "`hello` is allowed only as the first command")
            }
            // A structure is collected from its first command on, so the marker has no structure.
            Command::While
            | Command::Do { .. }
            | Command::EndWhile
            | Command::If
            | Command::Then { .. }
            | Command::Else
            | Command::EndIf
            | Command::Foreach
            | Command::EndForeach
            | Command::Break
            | Command::Continue
            | Command::Except
            | Command::When { .. }
            | Command::Others { .. }
            | Command::EndExcept
            | Command::Procedure { .. }
            | Command::Return(_)
            | Command::EndProcedure => {
                self.refuse(ErrorNumber::MarkerMismatch, "the marker belongs to no open structure");
            }
        }
    }

    fn hello(&mut self, cx: &mut Cx, hello: bifrost_wire::Hello<'_>) {
        if hello.version != VERSION {
            let text =
                format!("the server supports version {VERSION}, the client sent version {}", hello.version);
            return self.fail(ErrorNumber::VersionMismatch, &text);
        }
        (self.greeted, self.is_direct) = (true, true);
        self.trace = hello.trace;
        let limits: Vec<(Limit, u64)> = self.limits.iter().collect();
        let digest = self.policy.numbering(self.tables).digest();
        encode::welcome(&mut self.output, digest, &limits, self.welcome.session, &self.welcome.server);
        self.reset_batch(cx);
    }

    /// Gives a handle back, unless an answer that its client has not names it again.
    pub(crate) fn free(&mut self, cx: &mut Cx, freed: Freed) {
        let Freed { handle, unanswered } = freed;
        if unanswered > 0 && self.handles.was_sent_after(handle, self.batches, unanswered) {
            return;
        }
        let roots = self.roots.as_ref().expect("made before anything runs");
        if !self.handles.free(handle, cx.root_set(&roots.handles)) {
            self.refuse(ErrorNumber::NoSuchHandle, format!("{} cannot be given back", mention(handle)));
        }
    }

    /// Makes a future of a value, or fails.
    pub(crate) fn make_or_fail(&mut self, cx: &mut Cx, made: Result<Future, FailureKind>) {
        match made {
            Ok(future) => self.make_one(cx, future),
            Err(kind) => self.fail_call(1, kind),
        }
    }

    pub(crate) fn lookup(&mut self, cx: &mut Cx, name: &str, expected: Option<TypeNumber>) {
        // A name of an actor and one of an object are two.
        let of_actor = expected.and_then(|ty| self.tables.ty(ty)).map(|ty| self.tables.is_actor(ty));
        let persistent = match of_actor {
            Some(true) => Ok(None),
            _ => cx.lookup(name),
        };
        // A name that is not granted is looked up all the same: neither the time nor the reads of
        // the transaction tell it from one that nobody has given.
        let granted = self.policy.grants(name);
        let found = match persistent.map(|found| found.filter(|_| granted)) {
            Ok(None) if of_actor != Some(false) => match granted {
                true => bifrost_actors::published(cx, name).map(|found| found.map(|actor| actor.word())),
                false => {
                    let _ = bifrost_actors::is_published(cx, name);
                    Ok(None)
                }
            },
            found => found,
        };
        let found = match found {
            Ok(Some(object)) => self.check_found(object, name, expected),
            Err(ended) if ended.outcome() == Outcome::Killed => {
                return self.fail_call(1, Cause::Killed(cx));
            }
            Err(_) => {
                Err(FailureKind::refused(ErrorNumber::StoreFailed, "the directory could not be fetched"))
            }
            Ok(None) => {
                let text = format!("there is no well-known object `{name}`");
                Err(FailureKind::refused(ErrorNumber::NoSuchName, text))
            }
        };
        self.make_or_fail(cx, found);
    }

    fn check_found(
        &self,
        object: Word,
        name: &str,
        expected: Option<TypeNumber>,
    ) -> Result<Future, FailureKind> {
        // SAFETY: the directory holds references only, and names of actors are those of objects.
        let info = unsafe { Table::of(object) }.info();
        let Some(expected) = expected else { return Ok(Future::Object(object, info.seen_as)) };
        let ty = self.expected_type(expected)?;
        if !info.has_type(ty) {
            let (found, wanted) = (self.tables.type_name(info.seen_as), self.tables.type_name(ty));
            let text = format!("`{name}` is a `{found}`, not a `{wanted}`");
            return Err(FailureKind::refused(ErrorNumber::WrongType, text));
        }
        Ok(Future::Object(object, ty))
    }

    /// Returns the type of a number.
    pub(crate) fn expected_type(&self, number: TypeNumber) -> Result<TypeId, FailureKind> {
        self.tables.ty(number).ok_or_else(|| {
            FailureKind::refused(ErrorNumber::NoSuchType, format!("there is no type number {}", number.0))
        })
    }

    pub(crate) fn constant(&mut self, cx: &mut Cx, value: Value<'_>) {
        let made = self.value(cx, value, 1, Types::ANY).map(|(word, ty)| self.of_type(word, ty));
        self.make_or_fail(cx, made);
    }

    /// Turns a value from outside into a word, with its type. `wanted` is the type of a compound
    /// that does not say its own; `argument` is for the failure.
    #[inline]
    pub(crate) fn value(
        &self,
        cx: &mut Cx,
        value: Value<'_>,
        argument: u32,
        wanted: TypeId,
    ) -> Result<(Word, TypeId), FailureKind> {
        Ok(match value {
            Value::Nil => (0, Types::NULL),
            Value::Bool(b) => (Word::from(b), Types::BOOL),
            Value::Int(i) => (i as Word, Types::INT),
            Value::Real(r) => (r.to_bits(), Types::REAL),
            Value::Char(c) => (Word::from(u32::from(c)), Types::CHAR),
            Value::Str(s) => {
                let made = cx.new_string(s);
                (self.made(cx, made)?, Types::STRING)
            }
            Value::Bytes(b) => (self.made_bytes(cx, b)?, Types::BYTES),
            Value::Compound(c) => self.compound(cx, c, argument, wanted)?,
        })
    }

    /// Apart from [`Session::value`], which is on the path of calls with few bytes.
    #[inline(never)]
    fn made_bytes(&self, cx: &mut Cx, bytes: &[u8]) -> Result<Word, FailureKind> {
        let made = cx.new_bytes(&[bytes]);
        self.made(cx, made)
    }

    /// Has the batch keep an object that was made of a value.
    #[inline(always)]
    pub(crate) fn made(&self, cx: &mut Cx, made: Result<Word, HeapFull>) -> Result<Word, FailureKind> {
        let word = made.map_err(|full| FailureKind::refused(ErrorNumber::HeapLimit, full.to_string()))?;
        self.hold(cx, word);
        Ok(word)
    }

    pub(crate) fn cell(&mut self, cx: &mut Cx, element: TypeNumber) {
        let made = self.cell_type(element).and_then(|ty| {
            let table = self.tables.engine().image().table_of(ty);
            match cx.new_object(table, &[0; object::cell::FIELDS]) {
                Ok(word) => Ok(Future::Object(word, ty)),
                Err(full) => Err(FailureKind::refused(ErrorNumber::HeapLimit, full.to_string())),
            }
        });
        self.make_or_fail(cx, made);
    }

    /// Returns the type of cells of this element type.
    pub(crate) fn cell_type(&self, element: TypeNumber) -> Result<TypeId, FailureKind> {
        let ty = self.expected_type(element)?;
        let types = &self.tables.engine().program().types;
        types.find_instance(TypeKind::Cell(ty)).ok_or_else(|| {
            let text = format!("cells of `{}` do not exist", self.tables.type_name(ty));
            FailureKind::refused(ErrorNumber::WrongType, text)
        })
    }
}
