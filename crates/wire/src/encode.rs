//! Appending commands and replies to a buffer.
//!
//! Each function appends one command whole. Nothing is checked here besides the types. A value that
//! is too long, or a list with too many entries, is found by the receiver, and, before that, by the
//! veneer that knows the server's limits.
//!
//! Read [`call`] first for commands.

use crate::command::{BatchName, Command, Hello};
use crate::error::ErrorNumber;
use crate::ids::{MethodNumber, ProcedureNumber, Ref, RoutineNumber, TypeNumber};
use crate::limit::Limit;
use crate::op;
use crate::places::PlaceList;
use crate::profile::{self, Entry, Rest, Totals};
use crate::reply::{ExceptionKind, Outcome, Reply, Welcome};
use crate::value::{Arg, Value, tag, tag_words};
use crate::word::padded;
use crate::{Digest, VERSION};

mod exceptions;
mod modules;

pub use exceptions::Exceptions;
pub use modules::{module, run};

use exceptions::{exception, signal};

/// Appends a word.
#[inline]
pub fn word(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

/// Appends a byte string: its length, its bytes, zeros up to a whole word.
#[inline]
pub fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    word(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.resize(out.len() + (padded(bytes.len()) - bytes.len()), 0);
}

/// Returns the first word of a command: code, 24 bits of counts, tags or flags, and a number.
#[inline]
pub const fn head(code: u8, flags: u32, number: u32) -> u64 {
    code as u64 | (flags as u64) << 8 | (number as u64) << 32
}

/// Appends a command that is nothing but its code: the markers, `describe`, `bye`.
#[inline]
pub fn plain(out: &mut Vec<u8>, code: u8) {
    word(out, u64::from(code));
}

/// Appends `transaction`.
pub fn transaction(out: &mut Vec<u8>, tries: u16, batch: Option<BatchName>) {
    let named = if batch.is_some() { op::TRANSACTION_NAMED } else { 0 };
    word(out, head(op::TRANSACTION, u32::from(tries) << 8 | named, 0));
    if let Some(batch) = batch {
        word(out, batch.client as u64);
        word(out, (batch.client >> 64) as u64);
        word(out, batch.number);
    }
}

/// Appends `hello`.
pub fn hello(out: &mut Vec<u8>, hello: &Hello<'_>) {
    word(out, op::MAGIC);
    let flags = if hello.trace.is_some() { op::HELLO_TRACED } else { 0 };
    word(out, u64::from(hello.version) | u64::from(flags) << 32);
    out.extend_from_slice(&hello.digest);
    bytes(out, hello.token.as_bytes());
    bytes(out, hello.client.as_bytes());
    if let Some(trace) = hello.trace {
        bytes(out, trace.to_string().as_bytes());
    }
}

/// Appends a method's call. At most 255 arguments; further ones are dropped, which the receiver
/// finds as a wrong count.
#[inline]
pub fn call(out: &mut Vec<u8>, method: MethodNumber, receiver: Ref, args: &[Arg<'_>]) {
    method_call(out, op::CALL, method, receiver, args);
}

/// Appends a message to an actor that nobody awaits; as [`call`].
pub fn send(out: &mut Vec<u8>, method: MethodNumber, receiver: Ref, args: &[Arg<'_>]) {
    method_call(out, op::SEND, method, receiver, args);
}

#[inline]
fn method_call(out: &mut Vec<u8>, code: u8, method: MethodNumber, receiver: Ref, args: &[Arg<'_>]) {
    let args = &args[..args.len().min(255)];
    let mut first = [0; 16];
    first[..8].copy_from_slice(&call_head(code, method.0, args).to_le_bytes());
    first[8..].copy_from_slice(&receiver.0.to_le_bytes());
    out.extend_from_slice(&first);
    arguments(out, args);
}

/// Appends a routine's call; as [`call`].
pub fn call_routine(out: &mut Vec<u8>, routine: RoutineNumber, args: &[Arg<'_>]) {
    let args = &args[..args.len().min(255)];
    word(out, call_head(op::CALL_ROUTINE, routine.0, args));
    arguments(out, args);
}

/// Appends a batched procedure's call; as [`call`].
pub fn call_procedure(out: &mut Vec<u8>, procedure: ProcedureNumber, args: &[Arg<'_>]) {
    let args = &args[..args.len().min(255)];
    word(out, call_head(op::CALL_PROCEDURE, procedure.0, args));
    arguments(out, args);
}

#[inline]
fn call_head(code: u8, number: u32, args: &[Arg<'_>]) -> u64 {
    let mut tags = 0;
    for (i, arg) in args.iter().take(4).enumerate() {
        tags |= u32::from(arg.tag()) << (4 * i);
    }
    head(code, args.len() as u32 | tags << 8, number)
}

#[inline]
fn arguments(out: &mut Vec<u8>, args: &[Arg<'_>]) {
    if args.len() > 4 {
        let rest = &args[4..];
        for sixteen in 0..tag_words(args.len()) {
            let tags = rest.iter().skip(16 * sixteen).take(16).enumerate();
            word(out, tags.fold(0, |word, (i, arg)| word | u64::from(arg.tag()) << (4 * i)));
        }
    }
    for arg in args {
        argument(out, arg);
    }
}

#[inline]
fn argument(out: &mut Vec<u8>, arg: &Arg<'_>) {
    match arg {
        Arg::Value(v) => value(out, v),
        Arg::Ref(r) => word(out, r.0 as u64),
    }
}

/// Appends the words of a value, whose tag stands elsewhere.
#[inline(always)]
pub fn value(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Str(s) => bytes(out, s.as_bytes()),
        Value::Bytes(b) => bytes(out, b),
        Value::Compound(c) => bytes(out, c.bytes()),
        _ => word(out, value.word()),
    }
}

/// Writes the words of a compound: its items, one after the other, then [`Items::end`].
#[derive(Debug)]
#[must_use = "the compound is whole only after `end`"]
pub struct Items {
    start: usize,
    count: usize,
    index: usize,
}

impl Items {
    /// Begins a compound of a type with so many items.
    pub fn begin(out: &mut Vec<u8>, ty: TypeNumber, count: u32) -> Items {
        let start = out.len();
        word(out, 0);
        word(out, u64::from(ty.0) | u64::from(count) << 32);
        let count = count as usize;
        out.resize(out.len() + 8 * count.div_ceil(16), 0);
        Items { start, count, index: 0 }
    }

    /// Appends a compound of a type whose items are words with one tag.
    pub fn words(out: &mut Vec<u8>, ty: TypeNumber, tag: u8, words: impl ExactSizeIterator<Item = u64>) {
        let mut items = Items::begin(out, ty, words.len() as u32);
        let (count, tags) = (items.count, items.start + 16);
        out[tags..tags + count / 2].fill(tag << 4 | tag);
        if count % 2 == 1 {
            out[tags + count / 2] = tag;
        }
        out.reserve(8 * count);
        words.for_each(|item| word(out, item));
        items.index = count;
        items.end(out);
    }

    /// Notes the tag of the next item, whose words the caller appends. Items beyond the count have
    /// no place.
    pub fn tag(&mut self, out: &mut [u8], tag: u8) {
        debug_assert!(self.index < self.count, "an item beyond the count");
        if let Some(byte) = out.get_mut(self.start + 16 + self.index / 2) {
            *byte |= tag << (4 * (self.index % 2));
        }
        self.index += 1;
    }

    /// Appends an item.
    pub fn item(&mut self, out: &mut Vec<u8>, item: &Arg<'_>) {
        self.tag(out, item.tag());
        argument(out, item);
    }

    /// Ends the compound, which has all its items.
    pub fn end(self, out: &mut [u8]) {
        debug_assert_eq!(self.index, self.count, "an item for each of the count");
        let length = (out.len() - self.start - 8) as u64;
        out[self.start..self.start + 8].copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends `lookup`.
pub fn lookup(out: &mut Vec<u8>, name: &str, expected: Option<TypeNumber>) {
    word(out, head(op::LOOKUP, 0, expected.unwrap_or(TypeNumber::NONE).0));
    bytes(out, name.as_bytes());
}

/// Appends `constant`.
pub fn constant(out: &mut Vec<u8>, value: &Value<'_>) {
    word(out, head(op::CONSTANT, u32::from(value.tag()), 0));
    self::value(out, value);
}

/// Appends `cell`.
pub fn cell(out: &mut Vec<u8>, element: TypeNumber) {
    word(out, head(op::CELL, 0, element.0));
}

/// Appends `rows`. At most 255 columns.
pub fn rows(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = TypeNumber>) {
    word(out, head(op::ROWS, columns.len().min(255) as u32, 0));
    types(out, columns);
}

/// Appends `emit`; as [`call`].
pub fn emit(out: &mut Vec<u8>, rows: Ref, values: &[Arg<'_>]) {
    method_call(out, op::EMIT, MethodNumber(0), rows, values);
}

/// Appends `as`.
pub fn cast(out: &mut Vec<u8>, ty: TypeNumber, object: Ref) {
    word(out, head(op::AS, 0, ty.0));
    word(out, object.0 as u64);
}

/// Appends `is`.
pub fn test_type(out: &mut Vec<u8>, ty: TypeNumber, object: Ref) {
    word(out, head(op::IS, 0, ty.0));
    word(out, object.0 as u64);
}

/// Appends `get`.
pub fn get(out: &mut Vec<u8>, object: Ref) {
    word(out, head(op::GET, 0, 0));
    word(out, object.0 as u64);
}

/// Appends `free`, for a client that has not the answers of so many batches.
pub fn free(out: &mut Vec<u8>, handles: &[Ref], unanswered: u8) {
    word(out, head(op::FREE, u32::from(unanswered), handles.len() as u32));
    for handle in handles {
        word(out, handle.0 as u64);
    }
}

/// Appends `wait`.
pub fn wait(out: &mut Vec<u8>, ms: u32) {
    word(out, head(op::WAIT, 0, ms));
}

/// Appends `flush`. The positions ascend; equal ones count once.
pub fn flush(out: &mut Vec<u8>, wanted: impl IntoIterator<Item = u32>, quiet: bool) {
    flush_with(out, wanted, flush_flags(quiet, None));
}

/// Appends the `flush` of a batch whose wanted futures the next batches may name, and those of so
/// many batches before it. The positions ascend; equal ones count once.
pub fn flush_kept(out: &mut Vec<u8>, wanted: impl IntoIterator<Item = u32>, unanswered: u8) {
    flush_with(out, wanted, flush_flags(false, Some(unanswered)));
}

fn flush_flags(quiet: bool, kept: Option<u8>) -> u32 {
    let quiet = if quiet { op::FLUSH_QUIET } else { 0 };
    quiet | kept.map_or(0, |unanswered| op::FLUSH_KEPT | u32::from(unanswered) << 8)
}

fn flush_with(out: &mut Vec<u8>, wanted: impl IntoIterator<Item = u32>, flags: u32) {
    let start = out.len();
    word(out, 0);
    let mut ranges = 0u32;
    let mut open: Option<(u32, u32)> = None;
    for position in wanted {
        open = match open {
            Some((first, count)) if position - first < count => Some((first, count)),
            Some((first, count)) if position - first == count => Some((first, count + 1)),
            closed => {
                if let Some((first, count)) = closed {
                    word(out, u64::from(first) | u64::from(count) << 32);
                    ranges += 1;
                }
                Some((position, 1))
            }
        };
    }
    if let Some((first, count)) = open {
        word(out, u64::from(first) | u64::from(count) << 32);
        ranges += 1;
    }
    out[start..start + 8].copy_from_slice(&head(op::FLUSH, flags, ranges).to_le_bytes());
}

/// Appends `history`, which asks for the exception history or clears it.
pub fn history(out: &mut Vec<u8>, clear: bool) {
    word(out, head(op::HISTORY, if clear { op::HISTORY_CLEAR } else { 0 }, 0));
}

/// Appends `profile`, which asks for the profiles of batches or ends that.
pub fn profile(out: &mut Vec<u8>, on: bool) {
    word(out, head(op::PROFILE, if on { op::PROFILE_ON } else { 0 }, 0));
}

/// Appends `do`, with the loop's condition.
pub fn loop_body(out: &mut Vec<u8>, test: Ref) {
    word(out, u64::from(op::DO));
    word(out, test.0 as u64);
}

/// Appends `then`, with the choice's condition.
pub fn then(out: &mut Vec<u8>, test: Ref) {
    word(out, u64::from(op::THEN));
    word(out, test.0 as u64);
}

/// Appends `when`. At most 255 values.
pub fn when(out: &mut Vec<u8>, name: &str, values: impl ExactSizeIterator<Item = TypeNumber>) {
    word(out, head(op::WHEN, values.len().min(255) as u32, 0));
    bytes(out, name.as_bytes());
    types(out, values);
}

/// Appends `others`.
pub fn others(out: &mut Vec<u8>, named: bool) {
    word(out, head(op::OTHERS, if named { op::OTHERS_NAMED } else { 0 }, 0));
}

/// Appends `procedure`. At most 255 parameters.
pub fn procedure(
    out: &mut Vec<u8>,
    name: &str,
    params: impl ExactSizeIterator<Item = TypeNumber>,
    result: Option<TypeNumber>,
) {
    let result = result.unwrap_or(TypeNumber::NONE);
    word(out, head(op::PROCEDURE, params.len().min(255) as u32, result.0));
    bytes(out, name.as_bytes());
    types(out, params);
}

fn types(out: &mut Vec<u8>, types: impl Iterator<Item = TypeNumber>) {
    for ty in types.take(255) {
        word(out, u64::from(ty.0));
    }
}

/// Appends `return`.
pub fn return_(out: &mut Vec<u8>, value: Option<&Arg<'_>>) {
    match value {
        None => plain(out, op::RETURN),
        Some(arg) => {
            word(out, head(op::RETURN, 1 | u32::from(arg.tag()) << 8, 0));
            argument(out, arg);
        }
    }
}

/// Appends any command. Costs an allocation where it has a list; the functions above do not.
pub fn command(out: &mut Vec<u8>, command: &Command<'_>) {
    match *command {
        Command::Hello(ref h) => hello(out, h),
        Command::Call { method, receiver, args } => {
            call(out, method, receiver, &args.iter().collect::<Vec<_>>())
        }
        Command::Send { method, receiver, args } => {
            send(out, method, receiver, &args.iter().collect::<Vec<_>>())
        }
        Command::CallRoutine { routine, args } => {
            call_routine(out, routine, &args.iter().collect::<Vec<_>>())
        }
        Command::CallProcedure { procedure, args } => {
            call_procedure(out, procedure, &args.iter().collect::<Vec<_>>());
        }
        Command::Lookup { name, expected } => lookup(out, name, expected),
        Command::Constant(ref value) => constant(out, value),
        Command::Cell { element } => cell(out, element),
        Command::Rows { columns } => rows(out, columns.iter()),
        Command::Emit { rows, values } => emit(out, rows, &values.iter().collect::<Vec<_>>()),
        Command::As { ty, object } => cast(out, ty, object),
        Command::Is { ty, object } => test_type(out, ty, object),
        Command::Get { object } => get(out, object),
        Command::Module { number, bytes } => module(out, number, bytes),
        Command::Run(r) => run(out, r.module, r.export, r.expected, &r.args.iter().collect::<Vec<_>>()),
        Command::Free { handles, unanswered } => {
            free(out, &handles.iter().collect::<Vec<_>>(), unanswered);
        }
        Command::Flush { wanted, quiet, kept } => {
            word(out, head(op::FLUSH, flush_flags(quiet, kept), wanted.ranges().len() as u32));
            wanted.ranges().for_each(|(first, count)| word(out, u64::from(first) | u64::from(count) << 32));
        }
        Command::Describe => plain(out, op::DESCRIBE),
        Command::History => history(out, false),
        Command::ClearHistory => history(out, true),
        Command::Transaction { tries, batch } => transaction(out, tries, batch),
        Command::Commit => plain(out, op::COMMIT),
        Command::Abort => plain(out, op::ABORT),
        Command::Wait { ms } => wait(out, ms),
        Command::Bye => plain(out, op::BYE),
        Command::Profile { on } => profile(out, on),
        Command::While => plain(out, op::WHILE),
        Command::Do { test } => loop_body(out, test),
        Command::EndWhile => plain(out, op::END_WHILE),
        Command::If => plain(out, op::IF),
        Command::Then { test } => then(out, test),
        Command::Else => plain(out, op::ELSE),
        Command::EndIf => plain(out, op::END_IF),
        Command::Foreach => plain(out, op::FOREACH),
        Command::EndForeach => plain(out, op::END_FOREACH),
        Command::Break => plain(out, op::BREAK),
        Command::Continue => plain(out, op::CONTINUE),
        Command::Except => plain(out, op::EXCEPT),
        Command::When { name, values } => when(out, name, values.iter()),
        Command::Others { named } => others(out, named),
        Command::EndExcept => plain(out, op::END_EXCEPT),
        Command::Procedure { name, params, result } => procedure(out, name, params.iter(), result),
        Command::Return(ref value) => return_(out, value.as_ref()),
        Command::EndProcedure => plain(out, op::END_PROCEDURE),
    }
}

/// Starts a reply: appends its first word, and a place for the length of the rest.
fn begin(out: &mut Vec<u8>, first: u64) -> usize {
    word(out, first);
    word(out, 0);
    out.len()
}

/// Ends a reply: writes its length into the place.
fn end(out: &mut [u8], body: usize) {
    let length = (out.len() - body) as u64;
    out[body - 8..body].copy_from_slice(&length.to_le_bytes());
}

/// Appends `welcome`.
pub fn welcome(out: &mut Vec<u8>, digest: &Digest, limits: &[(Limit, u64)], session: u64, server: &str) {
    let body = begin(out, head(op::WELCOME, 0, VERSION));
    word(out, session);
    out.extend_from_slice(digest);
    bytes(out, server.as_bytes());
    word(out, limits.len() as u64);
    for (limit, value) in limits {
        word(out, *limit as u64);
        word(out, *value);
    }
    end(out, body);
}

/// Appends `interface`.
pub fn interface(out: &mut Vec<u8>, json: &[u8]) {
    let body = begin(out, head(op::INTERFACE, 0, 0));
    bytes(out, json);
    end(out, body);
}

/// Appends `farewell`.
pub fn farewell(out: &mut Vec<u8>) {
    let body = begin(out, head(op::FAREWELL, 0, 0));
    end(out, body);
}

/// Appends `error`, which ends the session. `position` is the number of the offending command in
/// the session, from 1; 0 when no command is to blame.
pub fn error(out: &mut Vec<u8>, number: ErrorNumber, position: u64, text: &str) {
    let body = begin(out, head(op::ERROR, 0, number as u32));
    word(out, position);
    bytes(out, text.as_bytes());
    end(out, body);
}

fn outcome_head(tag: u8, number: u32) -> u64 {
    head(tag, 0, number)
}

fn outcome(out: &mut Vec<u8>, outcome: &Outcome<'_>) {
    match outcome {
        Outcome::Handle { handle, ty } => {
            word(out, outcome_head(tag::REF, ty.0));
            word(out, handle.0 as u64);
        }
        Outcome::Value(value) => {
            word(out, outcome_head(value.tag(), 0));
            self::value(out, value);
        }
        Outcome::Rows(rows) => {
            let table = begin_rows(out, rows.columns());
            out.extend_from_slice(rows.cells());
            end_rows(out, table, rows.len());
        }
        Outcome::Exception(index) => word(out, outcome_head(tag::EXCEPTION, *index)),
        Outcome::Absent => word(out, outcome_head(tag::ABSENT, 0)),
    }
}

/// Starts the outcome of a table: its head, and the columns, each by its tag and type. The cells of
/// the rows follow, one after the other, as the tags of their columns say.
fn begin_rows(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = (u8, TypeNumber)>) -> usize {
    let start = out.len();
    word(out, 0);
    word(out, 0);
    word(out, columns.len() as u64);
    for (tag, ty) in columns {
        word(out, outcome_head(tag, ty.0));
    }
    start
}

/// Ends the outcome of a table.
fn end_rows(out: &mut [u8], start: usize, count: u32) {
    let length = (out.len() - start - 16) as u64;
    out[start..start + 8].copy_from_slice(&outcome_head(tag::ROWS, count).to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&length.to_le_bytes());
}

/// Writes a `flushed` reply: first the outcomes, in the order of the wanted futures, then the
/// exceptions, then the profile if there is one, then [`Flushed::finish`]. Dropping it unfinished
/// leaves half a reply in the buffer.
#[must_use = "the reply is whole only after `finish`"]
pub struct Flushed<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    outcomes: u32,
    exceptions: u32,
    flags: u32,
}

impl<'o> Flushed<'o> {
    /// Starts the reply.
    pub fn begin(out: &'o mut Vec<u8>) -> Flushed<'o> {
        let start = out.len();
        begin(out, 0);
        for _ in 0..2 {
            word(out, 0);
        }
        Flushed { out, start, outcomes: 0, exceptions: 0, flags: 0 }
    }

    /// Appends the outcome of the next wanted future.
    pub fn outcome(&mut self, value: &Outcome<'_>) {
        self.outcomes += 1;
        outcome(self.out, value);
    }

    /// Appends the outcome of a table: its columns, each by the tag of its cells and its type.
    /// `write` appends the cells and returns the number of rows; without one the outcome is absent.
    pub fn rows(
        &mut self,
        columns: impl ExactSizeIterator<Item = (u8, TypeNumber)>,
        write: impl FnOnce(&mut Vec<u8>) -> Option<u32>,
    ) {
        self.outcomes += 1;
        let table = begin_rows(self.out, columns);
        match write(self.out) {
            Some(count) => end_rows(self.out, table, count),
            None => {
                self.out.truncate(table);
                outcome(self.out, &Outcome::Absent);
            }
        }
    }

    /// Appends an exception. Outcomes name it by its position in the list, from 0.
    pub fn exception(&mut self, call: u32, iterations: &[u32], kind: &ExceptionKind<'_>) {
        self.exceptions += 1;
        exception(self.out, call, iterations, kind);
    }

    /// Appends an exception with values. Its values are at most 255.
    pub fn signal(&mut self, call: u32, iterations: &[u32], name: &str, values: &[Outcome<'_>]) {
        self.failure(call, iterations, name, values, PlaceList::NONE);
    }

    /// Appends an exception with values and places.
    pub fn failure(
        &mut self,
        call: u32,
        iterations: &[u32],
        name: &str,
        values: &[Outcome<'_>],
        places: PlaceList<'_>,
    ) {
        self.exceptions += 1;
        signal(self.out, call, iterations, (name, values, places));
    }

    /// Appends the profile of the batch, behind all exceptions; once at most.
    pub fn profile(
        &mut self,
        totals: &Totals,
        entries: impl ExactSizeIterator<Item = Entry>,
        rest: Option<&Rest>,
    ) {
        self.flags = op::FLUSHED_PROFILED;
        profile::write(self.out, totals, entries, rest);
    }

    /// Returns the number of bytes that the reply has so far.
    pub fn bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Ends the reply. `omitted` is how many exceptions are not listed because of a limit.
    pub fn finish(self, counters: Counters, omitted: u32) {
        let first = head(op::FLUSHED, self.flags, self.outcomes).to_le_bytes();
        let at = self.start;
        self.out[at..at + 8].copy_from_slice(&first);
        let counts = u64::from(self.exceptions) | u64::from(omitted) << 32;
        let cost = u64::from(counters.calls) | u64::from(counters.fuel) << 32;
        for (i, value) in [counts, cost].into_iter().enumerate() {
            let at = self.start + 16 + 8 * i;
            self.out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        end(self.out, self.start + 16);
    }
}

/// The cost of a batch; numbers beyond 32 bits are told as the greatest of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The calls that were run, those made by loops counted each time.
    pub calls: u32,
    /// The steps that were taken from the batch's fuel.
    pub fuel: u32,
}

/// Appends any reply.
pub fn reply(out: &mut Vec<u8>, reply: &Reply<'_>) {
    match reply {
        Reply::Welcome(Welcome { version: _, digest, limits, session, server }) => {
            let limits: Vec<_> =
                limits.iter().filter_map(|(n, v)| Limit::from_number(n).map(|l| (l, v))).collect();
            welcome(out, digest, &limits, *session, server);
        }
        Reply::Flushed(f) => {
            let mut writer = Flushed::begin(out);
            f.outcomes().for_each(|o| writer.outcome(&o));
            for e in f.exceptions() {
                writer.exception(e.call, &e.iterations().collect::<Vec<_>>(), &e.kind);
            }
            if let Some(profile) = &f.profile {
                writer.profile(&profile.totals, profile.entries(), profile.rest.as_ref());
            }
            writer.finish(f.counters, f.omitted);
        }
        Reply::Interface(json) => interface(out, json),
        Reply::Exceptions(list) => {
            let mut writer = Exceptions::begin(out);
            for (batch, e) in list.iter() {
                writer.exception(batch, e.call, &e.iterations().collect::<Vec<_>>(), &e.kind);
            }
            writer.finish(list.omitted);
        }
        Reply::Farewell => farewell(out),
        Reply::Error { number, position, text } => {
            let body = begin(out, head(op::ERROR, 0, *number));
            word(out, *position);
            bytes(out, text.as_bytes());
            end(out, body);
        }
    }
}
