//! The replies of a batch: futures, failures, and the history of exceptions as they cross.
//!
//! Read [`Session::flush`] first. [`Outcomes`] turns words into outcomes: values, and handles of
//! the table H.
//!
//! A reply has a limit of bytes, and a session one of handles. Outcomes beyond a limit are absent,
//! and the reply ends with a refusal that names the limit.

use bifrost_ir::{TypeId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Object, PlaceList, Table, object};
use bifrost_wire as wire;
use bifrost_wire::command::Ranges;
use bifrost_wire::encode::{self, Exceptions, Flushed};
use bifrost_wire::{ErrorNumber, ExceptionKind, Limit, Outcome, Ref, Value};

use crate::compounds::Contents;
use crate::failures::{Failure, FailureKind, Place};
use crate::futures::Future;
use crate::handles::Handles;
use crate::limits::Limits;
use crate::places::Shown;
use crate::profile::Counts;
use crate::session::Session;
use crate::tables::Tables;
use crate::work::Run;

/// Returns the type under which clients know an object.
pub(crate) fn seen_as(tables: &Tables, object: Object) -> &str {
    tables.type_name(object.info().seen_as)
}

/// A word of a basic type as it crosses.
#[inline]
fn basic_value(word: Word, ty: TypeId) -> Value<'static> {
    match ty {
        Types::BOOL => Value::Bool(word != 0),
        Types::INT => Value::Int(word as i64),
        Types::REAL => Value::Real(f64::from_bits(word)),
        Types::CHAR => Value::Char(char::from_u32(word as u32).unwrap_or(char::REPLACEMENT_CHARACTER)),
        _ => Value::Nil,
    }
}

/// The value of an object that crosses as one: a string or bytes. It is copied into a reply before
/// anything else runs.
#[inline]
pub(crate) fn value_of(word: Word) -> Option<Value<'static>> {
    // SAFETY: futures and exception values of object types are references, and those of these types
    // are strings and bytes.
    unsafe {
        match Table::of(word).info().ty {
            Types::STRING => Some(Value::Str(object::text(word))),
            Types::BYTES => Some(Value::Bytes(object::byte_slice(word))),
            _ => None,
        }
    }
}

/// The number of bytes that a value has beyond its word.
#[inline]
fn length_of(value: &Value<'_>) -> usize {
    match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// A failure as a part of a reply.
enum Put<'a> {
    Kind(&'a Place, &'a ExceptionKind<'a>),
    Signal(&'a Place, &'a str, &'a [Outcome<'a>], wire::PlaceList<'a>),
}

/// The tables by which words become outcomes. Objects that cross for the first time get handles.
struct Outcomes<'s> {
    tables: &'static Tables,
    handles: &'s mut Handles,
    /// The roots of the objects with handles.
    roots: &'s mut Vec<Word>,
    handles_max: usize,
    /// The number of the batch that is answered.
    batch: u64,
    /// The places of failures that the client sees.
    shown: Shown,
}

impl<'s> Outcomes<'s> {
    fn new(
        tables: &'static Tables,
        limits: &Limits,
        handles: &'s mut Handles,
        roots: &'s mut Vec<Word>,
        batch: u64,
        shown: Shown,
    ) -> Outcomes<'s> {
        Outcomes { tables, handles, roots, handles_max: limits.size(Limit::Handles), batch, shown }
    }

    /// Returns the outcome of a future, or nothing at the limit of handles. `reported` are the
    /// failures in the reply, in order.
    #[inline]
    fn of_future(&mut self, future: Option<&Future>, reported: &[u32]) -> Option<Outcome<'static>> {
        Some(match future {
            None
            | Some(
                Future::Inner | Future::Open(..) | Future::Undone | Future::Rows(_) | Future::Contents(_),
            ) => Outcome::Absent,
            Some(Future::Nothing) => Outcome::Value(Value::Nil),
            Some(Future::Basic(word, ty)) => Outcome::Value(basic_value(*word, *ty)),
            Some(Future::Object(word, _)) => return self.of_object(*word),
            Some(Future::Failed(index)) => match reported.binary_search(index) {
                Ok(at) => Outcome::Exception(at as u32),
                Err(_) => Outcome::Absent,
            },
        })
    }

    /// An object as it crosses: strings and bytes as values, all others as handles. Nothing at the
    /// limit of handles.
    #[inline]
    fn of_object(&mut self, word: Word) -> Option<Outcome<'static>> {
        if let Some(value) = value_of(word) {
            return Some(Outcome::Value(value));
        }
        // SAFETY: futures and exception values of object types are references.
        let info = unsafe { Table::of(word) }.info();
        let handle = self.handle(word)?;
        Some(Outcome::Handle { handle, ty: self.tables.type_number(info.seen_as) })
    }

    /// Returns the handle of an object; nothing at the limit of handles.
    #[inline]
    fn handle(&mut self, word: Word) -> Option<Ref> {
        let handle = self.handles.of(word, self.handles_max, self.roots)?;
        self.handles.note_sent(handle, self.batch);
        Some(handle)
    }

    /// Writes something with many objects. Returns the limit that it exceeds, if it does: then its
    /// objects have no new handles.
    fn put_whole(
        &mut self,
        write: impl FnOnce(&'static Tables, &mut dyn FnMut(Word) -> Option<Ref>) -> Option<Exceeded>,
    ) -> Option<Exceeded> {
        let mut new = Vec::new();
        let exceeded = write(self.tables, &mut |word| {
            let known = self.handles.len();
            let handle = self.handle(word)?;
            new.extend((self.handles.len() > known).then_some(handle));
            Some(handle)
        });
        if exceeded.is_some() {
            for handle in new {
                self.handles.free(handle, self.roots);
            }
        }
        exceeded
    }

    /// Writes a failure, and says about how many bytes it has. One with values that do not fit into
    /// `room` is told without them, as refused, so that no list of exceptions is longer than a
    /// reply may be.
    fn put(&mut self, room: usize, failure: &Failure, put: &mut dyn FnMut(Put<'_>)) -> usize {
        let place = &failure.place;
        let head = 64 + 8 * place.iterations.len();
        match &failure.kind {
            FailureKind::Signal { name, values, places } => {
                let tables = self.tables;
                let name = tables.engine().program().types.signal_name(*name);
                let bytes = head + name.len() + values.iter().map(|v| value_bytes(tables, *v)).sum::<usize>();
                if bytes > room {
                    let text = format!("the values of `{name}` are too long for the reply");
                    let number = ErrorNumber::ReplyTooLong as u32;
                    put(Put::Kind(place, &ExceptionKind::Refused { number, text: &text }));
                    return head + text.len();
                }
                let values: Vec<Outcome<'_>> = values
                    .iter()
                    .map(|(word, ty)| match tables.is_basic(*ty) {
                        true => Outcome::Value(basic_value(*word, *ty)),
                        false => self.of_object(*word).unwrap_or(Outcome::Value(Value::Nil)),
                    })
                    .collect();
                let none = PlaceList::default();
                let list = places.as_deref().unwrap_or(&none);
                self.shown.with(list, tables.engine().program(), |places| {
                    // The failure matters more than its places.
                    let places = if bytes + places.bytes() > room { wire::PlaceList::NONE } else { places };
                    put(Put::Signal(place, name, &values, places));
                    bytes + places.bytes()
                })
            }
            FailureKind::Unhandled { argument, back, cause } => {
                let (argument, back, cause) = (*argument, *back, *cause);
                put(Put::Kind(place, &ExceptionKind::Unhandled { argument, back, cause }));
                head
            }
            FailureKind::Refused { number, text } => {
                put(Put::Kind(place, &ExceptionKind::Refused { number: *number as u32, text }));
                head + text.len()
            }
        }
    }
}

/// A limit of a reply, and the number of the refusal that names it.
pub(crate) type Exceeded = (ErrorNumber, Limit);

/// Writes the outcome of contents that were taken. Returns the limit that they exceed, if they do:
/// then the outcome is absent.
fn put_contents(
    contents: &mut Contents,
    index: u32,
    reply: &mut Flushed<'_>,
    limits: &Limits,
    handle: &mut dyn FnMut(Word) -> Option<Ref>,
) -> Option<Exceeded> {
    let exceeded = match contents.length(index) + reply.bytes() > limits.size(Limit::ReplyBytes) {
        true => (ErrorNumber::ReplyTooLong, Limit::ReplyBytes),
        false => match contents.compound(index, handle) {
            Some(compound) => {
                reply.outcome(&Outcome::Value(Value::Compound(compound)));
                return None;
            }
            None => (ErrorNumber::TooManyHandles, Limit::Handles),
        },
    };
    reply.outcome(&Outcome::Absent);
    Some(exceeded)
}

/// Ends a reply with the limit that it exceeds, if it does.
fn put_exceeded(reply: &mut Flushed<'_>, limits: &Limits, exceeded: Option<Exceeded>) {
    if let Some((number, limit)) = exceeded {
        let text = limits.exceeded(number, limit);
        reply.exception(0, &[], &ExceptionKind::Refused { number: number as u32, text: &text });
    }
}

/// About how many bytes a value takes in a reply.
fn value_bytes(tables: &Tables, (word, ty): (Word, TypeId)) -> usize {
    let value = if tables.is_basic(ty) { None } else { value_of(word) };
    24 + value.map_or(0, |value| length_of(&value))
}

impl Session {
    /// Answers the trailer of a batch.
    pub(crate) fn flush(&mut self, cx: &mut Cx, wanted: Ranges<'_>, quiet: bool, kept: Option<u8>) {
        if u64::from(wanted.last()) > self.limits.get(Limit::Futures) {
            return self
                .fail(ErrorNumber::TooManyFutures, "`flush` names more futures than a batch may have");
        }
        self.join_all(cx);
        self.take_cells(cx, wanted);
        if self.batch.undone {
            self.batch.fail_undone(wanted, &self.limits);
        }
        self.counters.crossings += 1;
        self.batches += 1;
        let failures = std::mem::take(&mut self.batch.failures);
        let mut reported: Vec<u32> = Vec::new();
        if !failures.is_empty() {
            reported = self.reported(&failures, wanted, quiet);
        }
        self.send_outcomes(cx, wanted, &failures, &reported);
        self.keep_results(cx, wanted, kept, &failures);
        self.counters.calls += self.batch.calls;
        let (cleared, omitted) = self.batch.cleared;
        if failures.len() > cleared {
            let most = self.limits.size(Limit::Exceptions);
            let added = failures.into_iter().skip(cleared);
            let roots = self.roots.as_ref().expect("made before anything runs");
            self.history.add(self.batches, added, most, self.tables, cx.root_set(&roots.history));
            self.history.omitted += u64::from(self.batch.omitted - omitted);
        }
        self.reset_batch(cx);
        self.begin_profile(cx);
    }

    /// Writes the reply of a batch. `reported` are the positions of the failures that it has.
    fn send_outcomes(&mut self, cx: &mut Cx, wanted: Ranges<'_>, failures: &[Failure], reported: &[u32]) {
        let bytes_max = self.limits.size(Limit::ReplyBytes);
        let roots = self.roots.as_ref().expect("made before anything runs");
        let roots = cx.root_set(&roots.handles);
        let mut outcomes = Outcomes::new(
            self.tables,
            &self.limits,
            &mut self.handles,
            roots,
            self.batches,
            self.shown_places,
        );
        let mut reply = Flushed::begin(&mut self.output);
        let mut exceeded: Option<Exceeded> = None;
        for position in wanted.positions() {
            let contents = &mut self.batch.contents;
            match self.batch.futures.get(position as usize - 1) {
                Some(Future::Rows(index)) if exceeded.is_none() => {
                    let table = &self.batch.row_tables[*index as usize];
                    exceeded = outcomes.put_whole(|tables, handle| {
                        table.write(tables, &mut reply, &self.limits, contents, handle)
                    });
                    continue;
                }
                Some(Future::Contents(index)) if exceeded.is_none() => {
                    exceeded = outcomes.put_whole(|_, handle| {
                        put_contents(contents, *index, &mut reply, &self.limits, handle)
                    });
                    continue;
                }
                _ => {}
            }
            let outcome = match exceeded {
                Some(_) => Outcome::Absent,
                None => {
                    let future = self.batch.futures.get(position as usize - 1);
                    outcomes.of_future(future, reported).unwrap_or_else(|| {
                        exceeded = Some((ErrorNumber::TooManyHandles, Limit::Handles));
                        Outcome::Absent
                    })
                }
            };
            let long = if let Outcome::Value(value) = &outcome { length_of(value) } else { 0 };
            if reply.bytes() + long > bytes_max {
                exceeded = Some((ErrorNumber::ReplyTooLong, Limit::ReplyBytes));
                reply.outcome(&Outcome::Absent);
                continue;
            }
            reply.outcome(&outcome);
        }
        for index in reported {
            let room = bytes_max.saturating_sub(reply.bytes());
            outcomes.put(room, &failures[*index as usize], &mut |put| match put {
                Put::Kind(place, kind) => reply.exception(place.call, &place.iterations, kind),
                Put::Signal(place, name, values, places) => {
                    reply.failure(place.call, &place.iterations, name, values, places);
                }
            });
        }
        put_exceeded(&mut reply, &self.limits, exceeded);
        let used = self.limits.fuel().saturating_sub(self.batch.fuel).max(0);
        self.counters.fuel += used as u64;
        let counters = encode::Counters {
            calls: u32::try_from(self.batch.calls).unwrap_or(u32::MAX),
            fuel: u32::try_from(used).unwrap_or(u32::MAX),
        };
        if let Some(profiler) = &self.profiler {
            let now = Counts::now(cx, self.transactions.cache(), self.batch.calls);
            let room = bytes_max.saturating_sub(reply.bytes());
            profiler.write(&mut reply, &now, room);
        }
        reply.finish(counters, self.batch.omitted);
    }

    /// Returns the positions of the failures that the reply has: all, or those of wanted futures.
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

    /// Returns the reply that is stored with the batch under way, all of which has gone well. It is
    /// for a client that sends the batch again, for which a handle would mean nothing.
    pub(crate) fn stored_reply(&mut self, cx: &mut Cx, wanted: Ranges<'_>) -> Vec<u8> {
        self.take_cells(cx, wanted);
        let mut stored = Vec::new();
        let mut reply = Flushed::begin(&mut stored);
        let (mut objects, mut exceeded) = (Vec::new(), None);
        for position in wanted.positions() {
            let outcome = match self.batch.futures.get(position as usize - 1) {
                Some(Future::Rows(index)) => {
                    let (table, contents) =
                        (&self.batch.row_tables[*index as usize], &mut self.batch.contents);
                    if table.has_values_only(self.tables, contents) {
                        let over = table.write(self.tables, &mut reply, &self.limits, contents, |_| None);
                        exceeded = exceeded.or(over);
                        continue;
                    }
                    objects.push(position);
                    Outcome::Exception(objects.len() as u32 - 1)
                }
                Some(Future::Contents(index)) if self.batch.contents.has_values_only(*index) => {
                    let contents = &mut self.batch.contents;
                    let over = put_contents(contents, *index, &mut reply, &self.limits, &mut |_| None);
                    exceeded = exceeded.or(over);
                    continue;
                }
                Some(Future::Contents(_)) => {
                    objects.push(position);
                    Outcome::Exception(objects.len() as u32 - 1)
                }
                None | Some(Future::Inner | Future::Open(..) | Future::Failed(_) | Future::Undone) => {
                    Outcome::Absent
                }
                Some(Future::Nothing) => Outcome::Value(Value::Nil),
                Some(Future::Basic(word, ty)) => Outcome::Value(basic_value(*word, *ty)),
                Some(Future::Object(word, _)) => match value_of(*word) {
                    Some(value) => Outcome::Value(value),
                    None => {
                        objects.push(position);
                        Outcome::Exception(objects.len() as u32 - 1)
                    }
                },
            };
            reply.outcome(&outcome);
        }
        let text = "the batch was carried out before, and handles of its objects are not sent again";
        for position in objects {
            let kind = ExceptionKind::Refused { number: ErrorNumber::Repeated as u32, text };
            reply.exception(position, &[], &kind);
        }
        put_exceeded(&mut reply, &self.limits, exceeded);
        reply.finish(encode::Counters { calls: 0, fuel: 0 }, 0);
        stored
    }

    /// Answers the batch with the stored reply.
    pub(crate) fn replay(&mut self, run: &mut Run<'_>, reply: &[u8], kept: Option<u8>) {
        self.counters.crossings += 1;
        self.batches += 1;
        self.output.extend_from_slice(reply);
        self.keep_none(run, kept);
        self.reset_batch(run);
        self.begin_profile(run);
        run.begin_next(&self.batch);
    }

    /// Answers `history`.
    pub(crate) fn send_history(&mut self, cx: &mut Cx) {
        let mut room = self.limits.size(Limit::ReplyBytes);
        let roots = self.roots.as_ref().expect("made before anything runs");
        let roots = cx.root_set(&roots.handles);
        let mut outcomes = Outcomes::new(
            self.tables,
            &self.limits,
            &mut self.handles,
            roots,
            self.batches,
            self.shown_places,
        );
        let mut reply = Exceptions::begin(&mut self.output);
        // Those of the batch under way are among them: they get into the history with its `flush`.
        let (cleared, omitted) = self.batch.cleared;
        let now = self.batches + 1;
        let fresh = self.batch.failures.iter().skip(cleared).map(|failure| (now, failure));
        for (batch, failure) in
            self.history.kept.iter().map(|(batch, failure)| (*batch, failure)).chain(fresh)
        {
            let bytes = outcomes.put(room, failure, &mut |put| match put {
                Put::Kind(place, kind) => reply.exception(batch, place.call, &place.iterations, kind),
                Put::Signal(place, name, values, places) => {
                    reply.failure(batch, place.call, &place.iterations, name, values, places);
                }
            });
            room = room.saturating_sub(bytes);
        }
        reply.finish(self.history.omitted + u64::from(self.batch.omitted - omitted));
    }
}
