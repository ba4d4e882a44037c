//! All that recording touches: the batch, the futures of the batch (VF), the handles (VH), the slots.
//!
//! A stub is an index of a *slot*. The slot says what is known: a future of the batch being recorded, a
//! handle, a value, or an error. At a flush every future that still has a stub becomes one of the
//! others, so that futures never outlive their batch and their numbers start again from 1.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bifrost_wire::reply::FlushedReply;
use bifrost_wire::value::tag;
use bifrost_wire::{
    DecodedReply, ExceptionKind, Limit, Outcome, Ref, Reply, Value, decode_reply, encode, op,
};

use crate::call::{Argument, Stub};
use crate::connection::{Connection, ConnectionError};
use crate::error::{CallName, Closed, Error, ErrorValue, Exception, Misuse};
use crate::session::Counters;
use crate::stubs::{Numbers, Procedures};

/// No slot, or the end of the list of free ones.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// Finished parts of a batch go to the connection when they have this many bytes, so that the server starts on
/// them while recording goes on.
const PUBLISH_BYTES: usize = 4096;

/// The history keeps this many exceptions; later ones are counted only.
const HISTORY_MAX: usize = 1000;

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// What stubs of a session share.
pub(crate) struct Core {
    pub(crate) state: RefCell<State>,
}

/// What is known of a stub, in two words that are written and read as they are: recording touches a slot twice
/// within a few nanoseconds, and a wider read would wait for the narrower write.
struct Slot {
    /// How many stubs share it.
    references: u32,
    tag: Tag,
    /// The next free slot, the position of a future, a handle, the bits of a value, or the index of an extra.
    word: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    Free,
    Future,
    Handle,
    Nil,
    Bool,
    Int,
    Real,
    Char,
    Str,
    Failed,
}

/// What does not fit into a slot.
enum Extra {
    Free,
    Str(Arc<str>),
    Failed(Arc<Error>),
}

/// What is known of a stub's object or value.
#[derive(Clone, Copy)]
pub(crate) enum Known<'s> {
    /// The position of a future of this batch.
    Future(u32),
    Handle(Ref),
    Value(Value<'s>),
    Failed(&'s Arc<Error>),
    /// No stub has this slot.
    Free,
}

/// A value that came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OwnedValue {
    Nil,
    Bool(bool),
    Int(i64),
    Real(f64),
    Char(char),
    Str(Arc<str>),
}

impl OwnedValue {
    pub(crate) fn from_wire(value: bifrost_wire::Value<'_>) -> OwnedValue {
        match value {
            bifrost_wire::Value::Nil => OwnedValue::Nil,
            bifrost_wire::Value::Bool(b) => OwnedValue::Bool(b),
            bifrost_wire::Value::Int(i) => OwnedValue::Int(i),
            bifrost_wire::Value::Real(r) => OwnedValue::Real(r),
            bifrost_wire::Value::Char(c) => OwnedValue::Char(c),
            bifrost_wire::Value::Str(s) => OwnedValue::Str(s.into()),
        }
    }

    pub(crate) fn view(&self) -> bifrost_wire::Value<'_> {
        match self {
            OwnedValue::Nil => bifrost_wire::Value::Nil,
            OwnedValue::Bool(b) => bifrost_wire::Value::Bool(*b),
            OwnedValue::Int(i) => bifrost_wire::Value::Int(*i),
            OwnedValue::Real(r) => bifrost_wire::Value::Real(*r),
            OwnedValue::Char(c) => bifrost_wire::Value::Char(*c),
            OwnedValue::Str(s) => bifrost_wire::Value::Str(s),
        }
    }
}

/// What made a future, for messages.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    Method(u32),
    Routine(u32),
    Procedure(u32),
    Lookup,
    Constant,
    Cell,
    Variable,
}

/// An entry of VF.
pub(crate) struct Future {
    /// The slot of the stub that waits for it; [`NO_SLOT`] if it was dropped.
    slot: u32,
    made: Made,
    location: &'static Location<'static>,
}

/// The kinds of open structures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    While,
    If,
    Foreach,
    Except,
    Procedure,
}

impl Kind {
    fn is_loop(self) -> bool {
        matches!(self, Kind::While | Kind::Foreach)
    }

    fn end(self) -> u8 {
        match self {
            Kind::While => op::END_WHILE,
            Kind::If => op::END_IF,
            Kind::Foreach => op::END_FOREACH,
            Kind::Except => op::END_EXCEPT,
            Kind::Procedure => op::END_PROCEDURE,
        }
    }
}

/// An open structure.
struct Scope {
    kind: Kind,
    /// Where the structure starts in the batch, in the futures, and in the count of commands.
    batch_start: usize,
    futures_start: usize,
    commands_start: u64,
}

/// A structure that has just ended and may go on with `else_` or a handler.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    kind: Kind,
    batch: u64,
    published: usize,
    /// The length of the unpublished batch after its end marker; 0 for one that was refused.
    batch_length: usize,
    batch_start: usize,
    futures_start: usize,
    commands_start: u64,
}

/// What bounds a batch.
pub(crate) struct Bounds {
    pub(crate) frame_bytes: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) commands: u64,
    pub(crate) futures: usize,
    pub(crate) depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            frame_bytes: Limit::FrameBytes.default_value() as usize,
            batch_bytes: Limit::BatchBytes.default_value() as usize,
            commands: Limit::BatchCommands.default_value(),
            futures: Limit::Futures.default_value() as usize,
            depth: Limit::Depth.default_value() as usize,
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
            _ => {}
        }
    }
}

pub(crate) struct State {
    /// Commands not yet given to the connection. Structures stay here until they are whole.
    pub(crate) batch: Vec<u8>,
    /// Bytes of this batch that the connection has.
    published: usize,
    /// Commands of this batch.
    commands: u64,
    /// VF: the futures of this batch.
    futures: Vec<Future>,
    slots: Vec<Slot>,
    /// Strings and errors, by the words of their slots; few, and none while calls are recorded.
    extras: Vec<Extra>,
    free_extras: Vec<u32>,
    free_slot: u32,
    /// VH: how many slots hold each handle.
    handles: HashMap<Ref, u32>,
    /// Handles to give back at the end of this batch.
    frees: Vec<Ref>,
    scopes: Vec<Scope>,
    /// Why the outermost open structure will not be sent.
    poison: Option<Arc<Error>>,
    /// Why there is no session any more.
    broken: Option<Arc<Error>>,
    /// Misuse since the last flush, told by the next one.
    misuse: Option<Misuse>,
    out_of_scope: Arc<Error>,
    history: Vec<Exception>,
    history_omitted: u64,
    batch_number: u64,
    /// When either is reached, [`State::admit`] looks more closely.
    attention_bytes: usize,
    attention_futures: usize,
    pub(crate) bounds: Bounds,
    pub(crate) numbers: Numbers,
    pub(crate) procedures: Procedures,
    pub(crate) counters: Counters,
    /// For bytes that are made from a slot and go into the batch.
    scratch: Vec<u8>,
    connection: Box<dyn Connection>,
    timeout: Duration,
    reply_bytes_max: usize,
    replies: Vec<u8>,
}

impl State {
    pub(crate) fn new(
        connection: Box<dyn Connection>,
        numbers: Numbers,
        timeout: Duration,
        reply_bytes_max: usize,
    ) -> State {
        State {
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
            misuse: None,
            out_of_scope: Arc::new(Error::Misuse(Misuse::OutOfScope)),
            history: Vec::new(),
            history_omitted: 0,
            batch_number: 1,
            attention_bytes: PUBLISH_BYTES,
            attention_futures: 1,
            bounds: Bounds::default(),
            numbers,
            procedures: Procedures::default(),
            counters: Counters::default(),
            scratch: Vec::new(),
            connection,
            timeout,
            reply_bytes_max,
            replies: Vec::new(),
        }
    }

    /// Takes over what the server accepts.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds, remap_futures: usize) {
        let most = bounds.futures.min(usize::try_from(bounds.commands / 2).unwrap_or(usize::MAX));
        self.attention_futures = remap_futures.min(most).max(1);
        self.bounds = bounds;
    }

    // Slots.

    #[inline(always)]
    fn new_slot(&mut self, tag: Tag, word: u64) -> u32 {
        let index = self.free_slot;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            self.free_slot = slot.word as u32;
            slot.references = 1;
            slot.tag = tag;
            slot.word = word;
            return index;
        }
        self.slots.push(Slot { references: 1, tag, word });
        (self.slots.len() - 1) as u32
    }

    #[cold]
    fn new_extra(&mut self, extra: Extra) -> u64 {
        if let Some(index) = self.free_extras.pop()
            && let Some(free) = self.extras.get_mut(index as usize)
        {
            *free = extra;
            return u64::from(index);
        }
        self.extras.push(extra);
        self.extras.len() as u64 - 1
    }

    #[cold]
    fn free_extra(&mut self, index: u64) {
        if let Some(extra) = self.extras.get_mut(index as usize) {
            *extra = Extra::Free;
            self.free_extras.push(index as u32);
        }
    }

    /// The tag and word of a value.
    fn pack(&mut self, value: Value<'_>) -> (Tag, u64) {
        let tag = match value {
            Value::Nil => Tag::Nil,
            Value::Bool(_) => Tag::Bool,
            Value::Int(_) => Tag::Int,
            Value::Real(_) => Tag::Real,
            Value::Char(_) => Tag::Char,
            Value::Str(s) => return (Tag::Str, self.new_extra(Extra::Str(s.into()))),
        };
        (tag, value.word())
    }

    /// Changes what is known of a future's slot.
    fn settle(&mut self, slot: u32, (tag, word): (Tag, u64)) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.tag = tag;
            slot.word = word;
        }
    }

    #[inline]
    pub(crate) fn known(&self, slot: u32) -> Known<'_> {
        // A stub's slot exists while the stub does.
        let Some(slot) = self.slots.get(slot as usize) else { return Known::Free };
        match slot.tag {
            Tag::Future => Known::Future(slot.word as u32),
            Tag::Handle => Known::Handle(Ref(slot.word as i64)),
            Tag::Nil => Known::Value(Value::Nil),
            Tag::Bool => Known::Value(Value::Bool(slot.word != 0)),
            Tag::Int => Known::Value(Value::Int(slot.word as i64)),
            Tag::Real => Known::Value(Value::Real(f64::from_bits(slot.word))),
            Tag::Char => Known::Value(Value::Char(char::from_u32(slot.word as u32).unwrap_or('\0'))),
            Tag::Str | Tag::Failed => match self.extras.get(slot.word as usize) {
                Some(Extra::Str(s)) => Known::Value(Value::Str(s)),
                Some(Extra::Failed(error)) => Known::Failed(error),
                _ => Known::Free,
            },
            Tag::Free => Known::Free,
        }
    }

    /// What a reference to a stub is on the wire, if it is a future or a handle.
    #[inline(always)]
    pub(crate) fn live_reference(&self, slot: u32) -> Option<Ref> {
        let slot = self.slots.get(slot as usize)?;
        match slot.tag {
            Tag::Future => Some(Ref(-(slot.word as i64))),
            Tag::Handle => Some(Ref(slot.word as i64)),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn retain(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.references += 1;
        }
    }

    #[inline(always)]
    pub(crate) fn release(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        let (tag, word) = (slot.tag, slot.word);
        slot.tag = Tag::Free;
        slot.word = u64::from(self.free_slot);
        self.free_slot = index;
        match tag {
            Tag::Future => {
                if let Some(future) = self.futures.get_mut(word as usize - 1) {
                    future.slot = NO_SLOT;
                }
            }
            Tag::Handle => self.drop_handle(Ref(word as i64)),
            Tag::Str | Tag::Failed => self.free_extra(word),
            _ => {}
        }
    }

    #[cold]
    fn drop_handle(&mut self, handle: Ref) {
        if let Some(count) = self.handles.get_mut(&handle) {
            *count -= 1;
            if *count == 0 {
                self.handles.remove(&handle);
                self.frees.push(handle);
            }
        }
    }

    /// A slot for a value that is known already.
    pub(crate) fn new_value(&mut self, value: Value<'_>) -> u32 {
        let (tag, word) = self.pack(value);
        self.new_slot(tag, word)
    }

    pub(crate) fn failed(&mut self, error: Arc<Error>) -> u32 {
        let extra = self.new_extra(Extra::Failed(error));
        self.new_slot(Tag::Failed, extra)
    }

    // Recording.

    /// Looks whether a command can be recorded, and makes room for it.
    #[inline(always)]
    pub(crate) fn admit(&mut self) -> Result<(), Arc<Error>> {
        if self.batch.len() < self.attention_bytes && self.futures.len() < self.attention_futures {
            return Ok(());
        }
        self.admit_slowly()
    }

    #[cold]
    fn admit_slowly(&mut self) -> Result<(), Arc<Error>> {
        if let Some(error) = self.broken.as_ref().or(self.poison.as_ref()) {
            return Err(error.clone());
        }
        if !self.scopes.is_empty() {
            let over = self.published + self.batch.len() > self.bounds.batch_bytes
                || self.futures.len() >= self.bounds.futures
                || self.commands >= self.bounds.commands;
            return if over { Err(self.misused(Misuse::TooLong)) } else { Ok(()) };
        }
        let full = self.futures.len() >= self.attention_futures
            || self.commands + 1 >= self.bounds.commands
            || self.published + self.batch.len() + self.bounds.frame_bytes > self.bounds.batch_bytes;
        // All futures become handles and values, and the numbers start again.
        let done = if full { self.flush() } else { self.publish() };
        done.map_err(Arc::new)
    }

    /// Counts a command that was appended.
    #[inline]
    pub(crate) fn recorded(&mut self) {
        self.commands += 1;
    }

    /// Notes a misuse: outside structures it is told by the next flush, inside the outermost one is refused.
    #[cold]
    pub(crate) fn misused(&mut self, misuse: Misuse) -> Arc<Error> {
        let error = Arc::new(Error::Misuse(misuse));
        self.misuse.get_or_insert(misuse);
        self.refuse(error.clone());
        error
    }

    /// Takes note of a call that cannot be recorded.
    #[cold]
    pub(crate) fn refuse(&mut self, error: Arc<Error>) {
        // All calls of a refused structure have one error, and it is told once.
        let last = self.history.last().map(|e| &e.error);
        let told = self.poison.as_ref().into_iter().chain(last).any(|known| Arc::ptr_eq(known, &error));
        if !self.scopes.is_empty() && self.poison.is_none() {
            self.poison = Some(error.clone());
            self.attention_bytes = 0;
        }
        if !told && !matches!(*error, Error::Closed(_)) {
            self.remember(error);
        }
    }

    fn remember(&mut self, error: Arc<Error>) {
        if self.history.len() < HISTORY_MAX {
            self.history.push(Exception { batch: self.batch_number, error });
        } else {
            self.history_omitted += 1;
        }
    }

    /// A slot for the next future of the batch.
    #[inline(always)]
    pub(crate) fn new_future(&mut self, made: Made, location: &'static Location<'static>) -> u32 {
        let position = self.futures.len() as u32 + 1;
        let slot = self.new_slot(Tag::Future, u64::from(position));
        self.futures.push(Future { slot, made, location });
        slot
    }

    /// Why a stub cannot be used at all: its call was never sent.
    #[inline]
    pub(crate) fn unusable(&self, slot: u32) -> Option<Arc<Error>> {
        match self.known(slot) {
            Known::Failed(error) if matches!(**error, Error::Misuse(_) | Error::Missing { .. }) => {
                Some(error.clone())
            }
            _ => None,
        }
    }

    /// A reference to a stub, for a marker or a receiver; records a constant if the stub is a value. The
    /// caller has been admitted: a flush in between would end the reference.
    pub(crate) fn expect_reference(
        &mut self,
        slot: u32,
        location: &'static Location<'static>,
    ) -> Result<Ref, Arc<Error>> {
        if let Some(reference) = self.live_reference(slot) {
            return Ok(reference);
        }
        if let Some(error) = self.unusable(slot) {
            return Err(error);
        }
        let mut constant = std::mem::take(&mut self.scratch);
        constant.clear();
        match self.known(slot) {
            Known::Value(value) => encode::constant(&mut constant, &value),
            // The error-handle of Bogle and Liskov 1994, 7.1.
            _ => return Ok(Ref::NONE),
        }
        self.batch.extend_from_slice(&constant);
        self.scratch = constant;
        self.recorded();
        let constant = self.new_future(Made::Constant, location);
        let reference = self.live_reference(constant).unwrap_or(Ref::NONE);
        // Only this use needs it.
        self.release(constant);
        Ok(reference)
    }

    /// Records a call: the arguments behind the words that are there already from `start` on, the tags into
    /// the first of them. Leaves nothing of it when it cannot be recorded.
    #[inline(always)]
    pub(crate) fn record(
        &mut self,
        core: &Rc<Core>,
        start: usize,
        mut head: u64,
        arguments: &[Argument<'_>],
    ) -> Result<(), Arc<Error>> {
        let count = arguments.len();
        head |= (count as u64) << 8;
        let tags_at = self.batch.len();
        if count > 4 {
            (0..(count - 4).div_ceil(16)).for_each(|_| encode::word(&mut self.batch, 0));
        }
        for (index, argument) in arguments.iter().enumerate() {
            let tag = match argument {
                Argument::Stub(stub) => match self.append_stub(core, stub) {
                    Ok(tag) => tag,
                    Err(error) => {
                        self.batch.truncate(start);
                        return Err(error);
                    }
                },
                Argument::Value(Value::Str(s)) => {
                    encode::bytes(&mut self.batch, s.as_bytes());
                    tag::STRING
                }
                Argument::Value(value) => {
                    encode::word(&mut self.batch, value.word());
                    value.tag()
                }
            };
            if index < 4 {
                head |= u64::from(tag) << (16 + 4 * index);
            } else if let Some(byte) = self.batch.get_mut(tags_at + (index - 4) / 2) {
                *byte |= tag << (4 * (index % 2));
            }
        }
        if self.batch.len() - start > self.bounds.frame_bytes {
            self.batch.truncate(start);
            return Err(self.misused(Misuse::TooLong));
        }
        if let Some(first) = self.batch.get_mut(start..).and_then(|b| b.first_chunk_mut::<8>()) {
            *first = head.to_le_bytes();
        }
        self.commands += 1;
        Ok(())
    }

    #[inline(always)]
    fn append_stub(&mut self, core: &Rc<Core>, stub: &Stub) -> Result<u8, Arc<Error>> {
        if !Rc::ptr_eq(core, &stub.core) {
            return Err(Arc::new(Error::Misuse(Misuse::OtherSession)));
        }
        match self.live_reference(stub.slot) {
            Some(reference) => {
                encode::word(&mut self.batch, reference.0 as u64);
                Ok(tag::REF)
            }
            None => self.append_known(stub.slot),
        }
    }

    /// Appends a stub that is a value or has failed.
    #[cold]
    fn append_known(&mut self, slot: u32) -> Result<u8, Arc<Error>> {
        if let Some(error) = self.unusable(slot) {
            return Err(error);
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let tag = match self.known(slot) {
            Known::Value(Value::Str(s)) => {
                encode::bytes(&mut bytes, s.as_bytes());
                tag::STRING
            }
            Known::Value(value) => {
                encode::word(&mut bytes, value.word());
                value.tag()
            }
            _ => {
                encode::word(&mut bytes, Ref::NONE.0 as u64);
                tag::REF
            }
        };
        self.batch.extend_from_slice(&bytes);
        self.scratch = bytes;
        Ok(tag)
    }

    // Structures.

    pub(crate) fn depth(&self) -> usize {
        self.scopes.len()
    }

    /// Whether the innermost loop, within the innermost procedure, is open.
    pub(crate) fn in_loop(&self) -> bool {
        self.scopes.iter().rev().take_while(|s| s.kind != Kind::Procedure).any(|s| s.kind.is_loop())
    }

    pub(crate) fn in_procedure(&self) -> bool {
        self.scopes.iter().any(|s| s.kind == Kind::Procedure)
    }

    /// Opens a structure; `marker` appends its first marker. Always opens a scope, to be ended.
    pub(crate) fn open(&mut self, kind: Kind, marker: impl FnOnce(&mut Vec<u8>)) {
        let admitted = self.admit();
        self.open_admitted(kind, admitted, marker);
    }

    pub(crate) fn open_admitted(
        &mut self,
        kind: Kind,
        admitted: Result<(), Arc<Error>>,
        marker: impl FnOnce(&mut Vec<u8>),
    ) {
        self.scopes.push(Scope {
            kind,
            batch_start: self.batch.len(),
            futures_start: self.futures.len(),
            commands_start: self.commands,
        });
        match admitted {
            Err(error) => self.refuse(error),
            Ok(()) if self.scopes.len() > self.bounds.depth => {
                self.misused(Misuse::TooDeep);
            }
            Ok(()) => {}
        }
        self.mark(marker);
    }

    /// Appends a marker, unless the structure will not be sent.
    pub(crate) fn mark(&mut self, marker: impl FnOnce(&mut Vec<u8>)) {
        if self.poison.is_none() && self.broken.is_none() {
            marker(&mut self.batch);
            self.recorded();
        }
    }

    /// Whether a structure that ended will be sent.
    pub(crate) fn was_kept(&self, ended: Ended) -> bool {
        ended.batch_length > 0
    }

    fn end_futures(&mut self, start: usize, error: &Arc<Error>) {
        for index in start..self.futures.len() {
            let slot = std::mem::replace(&mut self.futures[index].slot, NO_SLOT);
            if slot != NO_SLOT {
                let extra = self.new_extra(Extra::Failed(error.clone()));
                self.settle(slot, (Tag::Failed, extra));
            }
        }
    }

    /// Ends the innermost structure. If it was refused, nothing of the outermost one remains.
    pub(crate) fn close(&mut self) -> Ended {
        let kind = self.scopes.last().map_or(Kind::If, |s| s.kind);
        self.mark(|out| encode::plain(out, kind.end()));
        self.close_scope(kind)
    }

    fn close_scope(&mut self, kind: Kind) -> Ended {
        let Some(scope) = self.scopes.pop() else {
            return self.nothing_ended(kind);
        };
        let error = match &self.poison {
            Some(poison) => poison.clone(),
            None => self.out_of_scope.clone(),
        };
        self.end_futures(scope.futures_start, &error);
        if self.poison.is_some() {
            if self.scopes.is_empty() {
                self.poison = None;
                self.attention_bytes = if self.broken.is_some() { 0 } else { PUBLISH_BYTES };
            }
            self.batch.truncate(scope.batch_start);
            self.futures.truncate(scope.futures_start);
            self.commands = scope.commands_start;
            return self.nothing_ended(kind);
        }
        Ended {
            kind,
            batch: self.batch_number,
            published: self.published,
            batch_length: self.batch.len(),
            batch_start: scope.batch_start,
            futures_start: scope.futures_start,
            commands_start: scope.commands_start,
        }
    }

    fn nothing_ended(&self, kind: Kind) -> Ended {
        Ended {
            kind,
            batch: self.batch_number,
            published: 0,
            batch_length: 0,
            batch_start: 0,
            futures_start: 0,
            commands_start: 0,
        }
    }

    /// Takes back the end marker of a structure that has just ended, so that it goes on with another
    /// block. Always opens a scope; if it cannot be gone on with, one that will not be sent.
    pub(crate) fn reopen(&mut self, ended: Ended) {
        let adjacent = ended.batch == self.batch_number
            && ended.published == self.published
            && ended.batch_length > 0
            && ended.batch_length == self.batch.len();
        if adjacent {
            // The end marker is one word.
            self.batch.truncate(ended.batch_length - 8);
            self.commands -= 1;
        }
        let (batch_start, futures_start, commands_start) = if adjacent {
            (ended.batch_start, ended.futures_start, ended.commands_start)
        } else {
            (self.batch.len(), self.futures.len(), self.commands)
        };
        self.scopes.push(Scope { kind: ended.kind, batch_start, futures_start, commands_start });
        if !adjacent {
            if ended.batch_length > 0 || ended.batch != self.batch_number {
                self.misused(Misuse::NotAdjacent);
            } else if self.poison.is_none() {
                // Its first block was refused and is in the history; the others go the same way.
                self.poison = Some(Arc::new(Error::Misuse(Misuse::Abandoned)));
                self.attention_bytes = 0;
            }
        }
    }

    /// Ends the innermost structure, whose closure did not return.
    pub(crate) fn abandon(&mut self) {
        self.misused(Misuse::Abandoned);
        self.close();
    }

    // Crossing.

    /// Gives what is recorded to the connection.
    fn publish(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        match self.connection.write(&self.batch, self.timeout) {
            Ok(()) => self.connection.flush(),
            Err(error) => {
                let why = self.unwritten(error);
                return Err(self.broke(why));
            }
        }
        self.published += self.batch.len();
        self.batch.clear();
        Ok(())
    }

    /// Sends a question that is no part of a batch.
    pub(crate) fn ask(&mut self, question: impl FnOnce(&mut Vec<u8>)) -> Result<(), Closed> {
        let mut bytes = Vec::new();
        question(&mut bytes);
        self.connection.write(&bytes, self.timeout).map_err(|error| self.unwritten(error))?;
        self.connection.flush();
        Ok(())
    }

    /// Why nothing can be written: a server that ends a session says why before it closes.
    #[cold]
    fn unwritten(&mut self, error: ConnectionError) -> Closed {
        if !matches!(error, ConnectionError::Ended) {
            return error.into();
        }
        let bytes = std::mem::take(&mut self.replies);
        let (_, said) = self.receive(bytes, |_, reply| match reply {
            Reply::Error { number, position, text } => {
                Err(Closed::ByServer { number, position, text: text.to_owned() })
            }
            _ => Ok(()),
        });
        match said {
            Err(why @ Closed::ByServer { .. }) => why,
            _ => error.into(),
        }
    }

    /// Ends the session: every stub without a result, now and later, says why.
    pub(crate) fn broke(&mut self, why: Closed) -> Error {
        if let Some(error) = &self.broken {
            return (**error).clone();
        }
        let error = Error::Closed(Arc::new(why));
        let shared = Arc::new(error.clone());
        self.end_futures(0, &shared);
        self.futures.clear();
        self.batch.clear();
        self.broken = Some(shared);
        self.attention_bytes = 0;
        error
    }

    /// Ends the batch: sends it, waits for the answer, and fills the slots. Does not cross when there is
    /// nothing to say.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        if !self.scopes.is_empty() {
            return Err(Error::Misuse(Misuse::OpenStructure));
        }
        if self.commands == 0 && self.frees.is_empty() {
            return Ok(());
        }
        self.append_frees();
        let wanted = self.futures.iter().enumerate().filter(|(_, f)| f.slot != NO_SLOT);
        encode::flush(&mut self.batch, wanted.map(|(i, _)| i as u32 + 1), false);
        self.publish()?;
        self.counters.crossings += 1;
        self.counters.calls += self.commands;
        let bytes = std::mem::take(&mut self.replies);
        let (bytes, done) = self.receive(bytes, |state, reply| match reply {
            Reply::Flushed(flushed) => state.apply(flushed),
            Reply::Error { number, position, text } => {
                Err(Closed::ByServer { number, position, text: text.to_owned() })
            }
            _ => Err(Closed::WrongReply("an answer to flush was due")),
        });
        self.replies = bytes;
        done.map_err(|why| self.broke(why))?;
        self.futures.clear();
        self.commands = 0;
        self.published = 0;
        self.batch_number += 1;
        Ok(())
    }

    fn append_frees(&mut self) {
        // Leaves room for the first word.
        let most = (self.bounds.frame_bytes / 8).saturating_sub(1).max(1);
        for some in self.frees.chunks(most) {
            encode::free(&mut self.batch, some);
        }
        self.frees.clear();
    }

    /// Waits for one reply and hands it to `take`; gives the buffer back, without the reply.
    pub(crate) fn receive(
        &mut self,
        mut bytes: Vec<u8>,
        take: impl FnOnce(&mut State, Reply<'_>) -> Result<(), Closed>,
    ) -> (Vec<u8>, Result<(), Closed>) {
        loop {
            // Usually nothing is here yet; a look at it would only say so.
            if bytes.is_empty()
                && let Err(error) = self.connection.read(&mut bytes, READ_BYTES, self.timeout)
            {
                return (bytes, Err(error.into()));
            }
            match decode_reply(&bytes, self.reply_bytes_max) {
                Err(error) => return (bytes, Err(error.into())),
                Ok(DecodedReply::Reply(reply, length)) => {
                    let done = take(self, reply);
                    bytes.drain(..length);
                    return (bytes, done);
                }
                Ok(DecodedReply::NeedMore(_)) => {
                    if let Err(error) = self.connection.read(&mut bytes, READ_BYTES, self.timeout) {
                        return (bytes, Err(error.into()));
                    }
                }
            }
        }
    }

    /// Fills the slots of the batch's futures from the answer.
    fn apply(&mut self, reply: FlushedReply<'_>) -> Result<(), Closed> {
        let errors = self.take_exceptions(&reply);
        let futures = std::mem::take(&mut self.futures);
        let mut outcomes = reply.outcomes();
        let mut short = false;
        for (index, future) in futures.iter().enumerate().filter(|(_, f)| f.slot != NO_SLOT) {
            let known = match outcomes.next() {
                Some(Outcome::Handle { handle, .. }) => {
                    *self.handles.entry(handle).or_insert(0) += 1;
                    (Tag::Handle, handle.0 as u64)
                }
                Some(Outcome::Value(value)) => self.pack(value),
                Some(Outcome::Exception(n)) => match errors.get(n as usize) {
                    Some(error) => (Tag::Failed, self.new_extra(Extra::Failed(error.clone()))),
                    None => return Err(Closed::WrongReply("an exception that is not listed")),
                },
                Some(Outcome::Absent) => {
                    let call = self.call_name(&futures, index as u32 + 1, &[]);
                    let error = Arc::new(Error::NotReached { call });
                    (Tag::Failed, self.new_extra(Extra::Failed(error)))
                }
                None => {
                    short = true;
                    break;
                }
            };
            self.settle(future.slot, known);
        }
        short |= outcomes.next().is_some();
        // Keep the memory.
        self.futures = futures;
        if short { Err(Closed::WrongReply("not as many outcomes as futures wanted")) } else { Ok(()) }
    }

    /// The batch's exceptions as errors, which go into the history.
    fn take_exceptions(&mut self, reply: &FlushedReply<'_>) -> Vec<Arc<Error>> {
        let mut errors: Vec<Arc<Error>> = Vec::new();
        if reply.exceptions().len() == 0 {
            return errors;
        }
        let futures = std::mem::take(&mut self.futures);
        let mut by_call: HashMap<u32, usize> = HashMap::new();
        for exception in reply.exceptions() {
            let rounds: Vec<u32> = exception.iterations().collect();
            let call = self.call_name(&futures, exception.call, &rounds);
            let error = Arc::new(match exception.kind {
                ExceptionKind::Signal { name, values } => {
                    let values = values.iter().map(|v| self.error_value(v)).collect();
                    Error::Signal { name: name.into(), values, call }
                }
                ExceptionKind::Unhandled { argument, cause } => {
                    let cause = by_call.get(&cause).and_then(|i| errors.get(*i)).cloned();
                    Error::Unhandled { argument, cause, call }
                }
                ExceptionKind::Refused { number, text } => Error::Refused { number, text: text.into(), call },
            });
            by_call.insert(exception.call, errors.len());
            errors.push(error.clone());
            self.remember(error);
        }
        self.history_omitted += u64::from(reply.omitted);
        self.futures = futures;
        errors
    }

    fn error_value(&mut self, value: Outcome<'_>) -> ErrorValue {
        match value {
            Outcome::Value(value) => match OwnedValue::from_wire(value) {
                OwnedValue::Nil => ErrorValue::Nil,
                OwnedValue::Bool(b) => ErrorValue::Bool(b),
                OwnedValue::Int(i) => ErrorValue::Int(i),
                OwnedValue::Real(r) => ErrorValue::Real(r),
                OwnedValue::Char(c) => ErrorValue::Char(c),
                OwnedValue::Str(s) => ErrorValue::Str(s),
            },
            Outcome::Handle { handle, .. } => {
                // An error can outlive its session, a stub cannot: the object is given back, unless
                // a stub has it too.
                *self.handles.entry(handle).or_insert(0) += 1;
                self.drop_handle(handle);
                ErrorValue::Object
            }
            Outcome::Exception(_) | Outcome::Absent => ErrorValue::Nil,
        }
    }

    fn call_name(&mut self, futures: &[Future], number: u32, rounds: &[u32]) -> CallName {
        let made = futures.get((number as usize).wrapping_sub(1));
        let name = match made.map(|f| f.made) {
            Some(Made::Method(n)) => self.numbers.method_name(n),
            Some(Made::Routine(n)) => self.numbers.routine_name(n),
            Some(Made::Procedure(n)) => {
                self.procedures.names.get(n as usize).cloned().unwrap_or_else(|| "?".into())
            }
            Some(Made::Lookup) => "lookup".into(),
            Some(Made::Constant) => "constant".into(),
            Some(Made::Cell) => "cell".into(),
            Some(Made::Variable) => "variable".into(),
            None => "?".into(),
        };
        CallName { name, number, location: made.map(|f| f.location), rounds: rounds.into() }
    }

    /// Misuse since the last time it was asked for.
    pub(crate) fn take_misuse(&mut self) -> Option<Misuse> {
        self.misuse.take()
    }

    pub(crate) fn history(&self) -> (&[Exception], u64) {
        (&self.history, self.history_omitted)
    }

    pub(crate) fn clear_history(&mut self) {
        self.history.clear();
        self.history_omitted = 0;
        if self.scopes.is_empty() && self.admit().is_ok() {
            encode::history(&mut self.batch, true);
            self.recorded();
        }
    }

    /// Says goodbye without waiting. What was recorded and never flushed is sent, and runs.
    pub(crate) fn leave(&mut self) {
        if self.broken.is_none() {
            while !self.scopes.is_empty() {
                self.abandon();
            }
            encode::plain(&mut self.batch, op::BYE);
            let _ = self.publish();
            self.broke(Closed::ByClient);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.leave();
    }
}
