//! The state that recording changes: the batch, the futures of the batch (VF), the handles (VH),
//! the slots.
//!
//! [`State`] is the type to read first; one [`Core`] owns it for all stubs of a session. A stub is
//! an index of a *slot*. The slot has the knowledge about it: a future of the batch being recorded,
//! a handle, a value, or an error. At a flush every future that still has a stub becomes one of the
//! others. So futures never outlive their batch, and their numbers start again from 1.
//!
//! A call takes these steps: [`State::admit`] makes room, [`State::record`] appends it, `recorded`
//! counts it, and `new_future` makes the slots of its results. A call that cannot be recorded goes
//! to [`State::refuse`]. `crossing` sends the batch and fills the slots, `seen` has the account of
//! failures, and `structures` has the open control structures.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bifrost_wire::value::tag;
use bifrost_wire::{Limit, Ref, Value, encode};

use crate::call::{Argument, Stub};
use crate::connection::Connection;
use crate::error::{CallName, Error, Exception, Misuse};
use crate::session::Counters;
use crate::stubs::{Numbers, Procedures};

mod crossing;
mod seen;
mod structures;

use seen::Seen;
pub(crate) use structures::{Ended, Kind};
use structures::{Scope, Sent};

/// No slot, or the end of the list of free ones.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// The number of bytes at which finished parts of a batch go to the connection. So the server
/// starts on them while recording goes on.
const PUBLISH_BYTES: usize = 4096;

/// The number of exceptions that the history keeps; later ones are counted only.
const HISTORY_MAX: usize = 1000;

/// The part of a session that its stubs share.
pub(crate) struct Core {
    pub(crate) state: RefCell<State>,
}

/// The knowledge about a stub, in two words that are written and read as they are. Recording
/// touches a slot twice within a few nanoseconds, and a wider read would wait for the narrower
/// write.
struct Slot {
    /// The number of stubs that share it.
    references: u32,
    tag: Tag,
    /// The next free slot, the position of a future, a handle, the bits of a value, or the index of
    /// an extra.
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

/// Knowledge that does not fit into a slot.
enum Extra {
    Free,
    Str(Arc<str>),
    Failed(Arc<Error>),
}

/// The knowledge about a stub's object or value.
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

/// The maker of a future, for messages.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    Method(u32),
    Routine(u32),
    Procedure(u32),
    Lookup,
    Constant,
    Cell,
    Variable,
    Transaction,
    /// The end of the transaction with this number.
    Commit(u32),
    Abort(u32),
    /// The error-handle's call, by which the server learns that calls were refused.
    Refused,
}

/// An entry of VF.
pub(crate) struct Future {
    /// The slot of the stub that waits for it; [`NO_SLOT`] if it was dropped.
    slot: u32,
    made: Made,
    location: &'static Location<'static>,
}

/// An entry of VH.
pub(crate) struct Held {
    /// The number of slots that hold the handle.
    slots: u32,
    /// The call that made it: its name in messages. Absent for objects of exceptions.
    made: Option<(Made, &'static Location<'static>)>,
}

/// The limits of a batch.
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
    /// VH: the number of slots that hold each handle, and the call that made the first of them.
    handles: HashMap<Ref, Held>,
    /// Handles to give back at the end of this batch.
    frees: Vec<Ref>,
    scopes: Vec<Scope>,
    /// The reason why the outermost open structure will not be sent.
    poison: Option<Arc<Error>>,
    /// The reason why there is no session any more.
    broken: Option<Arc<Error>>,
    out_of_scope: Arc<Error>,
    history: Vec<Exception>,
    history_omitted: u64,
    /// The failures that the program was not told of.
    seen: Seen,
    /// The failed stubs that calls of this batch have as arguments: the position of the call, the
    /// argument, and the failure, by position.
    error_handles: Vec<(u32, u32, Arc<Error>)>,
    /// The outermost structures of this batch, by position.
    structures: Vec<Sent>,
    /// True if the batch is a transaction, which is sent whole.
    pub(crate) shipping: bool,
    batch_number: u64,
    /// When either is reached, [`State::admit`] looks more closely.
    attention_bytes: usize,
    attention_futures: usize,
    pub(crate) bounds: Bounds,
    pub(crate) numbers: Numbers,
    pub(crate) procedures: Procedures,
    pub(crate) counters: Counters,
    /// A buffer for bytes that are made from a slot and go into the batch.
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
            out_of_scope: Arc::new(Error::Misuse(Misuse::OutOfScope)),
            history: Vec::new(),
            history_omitted: 0,
            seen: Seen::default(),
            error_handles: Vec::new(),
            structures: Vec::with_capacity(64),
            shipping: false,
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

    /// Takes over the limits that the server accepts.
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
            if let Extra::Failed(error) = extra {
                self.seen.dropped(error);
            }
            *extra = Extra::Free;
            self.free_extras.push(index as u32);
        }
    }

    /// Returns the tag and word of a value.
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

    /// Changes the knowledge in a future's slot.
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

    /// Returns the failure of a stub, if it has one, or those that no other claim can tell. The
    /// program is told with it.
    pub(crate) fn known_or_failed(&mut self, slot: u32) -> Result<(), Error> {
        let Known::Failed(error) = self.known(slot) else { return self.surface(false) };
        let error = error.clone();
        self.tell(&error);
        Err((*error).clone())
    }

    /// Returns the wire form of a reference to a stub, if it is a future or a handle.
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
        if let Some(held) = self.handles.get_mut(&handle) {
            held.slots -= 1;
            if held.slots == 0 {
                self.handles.remove(&handle);
                self.frees.push(handle);
            }
        }
    }

    /// Makes a slot for a value that is known already.
    pub(crate) fn new_value(&mut self, value: Value<'_>) -> u32 {
        let (tag, word) = self.pack(value);
        self.new_slot(tag, word)
    }

    pub(crate) fn failed(&mut self, error: Arc<Error>) -> u32 {
        let extra = self.new_extra(Extra::Failed(error));
        self.new_slot(Tag::Failed, extra)
    }

    // Recording.

    /// Checks that a command can be recorded, and makes room for it.
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
        self.clear_told();
        if !self.scopes.is_empty() || self.shipping {
            let over = self.published + self.batch.len() > self.bounds.batch_bytes
                || self.futures.len() >= self.bounds.futures
                || self.commands >= self.bounds.commands;
            return if over { Err(misuse(Misuse::TooLong)) } else { Ok(()) };
        }
        let full = self.futures.len() >= self.attention_futures
            || self.commands + 1 >= self.bounds.commands
            || self.published + self.batch.len() + self.bounds.frame_bytes > self.bounds.batch_bytes;
        // All futures become handles and values, and the numbers start again.
        let done = match full {
            true => self.flush(),
            false if self.batch.len() >= PUBLISH_BYTES => self.publish(),
            false => Ok(()),
        };
        done.map_err(Arc::new)
    }

    /// Sets the sizes at which recording is to be looked at more closely.
    #[inline]
    fn attend(&mut self) {
        let now = self.broken.is_some() || self.poison.is_some() || self.must_clear();
        self.attention_bytes = if now { 0 } else { PUBLISH_BYTES };
    }

    /// Counts a command that was appended.
    #[inline]
    pub(crate) fn recorded(&mut self) {
        self.commands += 1;
    }

    /// Notes a call, a marker or a structure that cannot be recorded, and returns the error of its
    /// stubs. Inside a structure the outermost one is refused with it.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        name: impl Into<Arc<str>>,
        location: &'static Location<'static>,
        why: Arc<Error>,
    ) -> Arc<Error> {
        // All calls of a refused structure have its error, which is noted once.
        if self.poison.as_ref().is_some_and(|poison| Arc::ptr_eq(poison, &why)) {
            return why;
        }
        let mut error = why;
        if !matches!(*error, Error::Closed(_)) {
            error = not_sent(name.into(), location, &error);
            if let Some(outermost) = self.scopes.first() {
                let (name, location) = (outermost.kind.name(), outermost.location);
                error = Arc::new(Error::NotSent { call: unsent(name.into(), location), cause: error });
            }
            self.remember(error.clone());
            self.note_refusal(error.clone());
        }
        if !self.scopes.is_empty() {
            self.poison = Some(error.clone());
            self.attend();
        }
        error
    }

    fn remember(&mut self, error: Arc<Error>) {
        if self.history.len() < HISTORY_MAX {
            self.history.push(Exception { batch: self.batch_number, error });
        } else {
            self.history_omitted += 1;
        }
    }

    /// Makes a slot for the next future of the batch.
    #[inline(always)]
    pub(crate) fn new_future(&mut self, made: Made, location: &'static Location<'static>) -> u32 {
        let position = self.futures.len() as u32 + 1;
        let slot = self.new_slot(Tag::Future, u64::from(position));
        self.futures.push(Future { slot, made, location });
        slot
    }

    /// Returns the reason why a stub cannot be used at all: its call was never sent.
    #[inline]
    pub(crate) fn unusable(&self, slot: u32) -> Option<Arc<Error>> {
        match self.known(slot) {
            Known::Failed(error) if matches!(**error, Error::NotSent { .. } | Error::Misuse(_)) => {
                Some(error.clone())
            }
            _ => None,
        }
    }

    /// Returns the reason why the open structure will not be sent.
    pub(crate) fn refusal(&self) -> Option<Arc<Error>> {
        self.broken.as_ref().or(self.poison.as_ref()).cloned()
    }

    /// Notes a stub whose call failed as an argument of the next call. The server knows such an
    /// argument only as the error-handle.
    #[cold]
    fn note_error_handle(&mut self, slot: u32, argument: u32) {
        if let Known::Failed(error) = self.known(slot) {
            let error = error.as_cause();
            self.error_handles.push((self.futures.len() as u32 + 1, argument, error));
        }
    }

    /// Returns a reference to a stub, for a marker or a receiver; records a constant if the stub is
    /// a value. The caller has been admitted: a flush in between would end the reference.
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
            _ => {
                self.scratch = constant;
                self.note_error_handle(slot, 0);
                return Ok(Ref::NONE);
            }
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

    /// Records a call: puts the arguments behind the words that are there already from `start` on,
    /// and the tags into the first of them. Leaves nothing of it when it cannot be recorded.
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
                Argument::Stub(stub) => match self.append_stub(core, stub, index) {
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
            return Err(misuse(Misuse::TooLong));
        }
        if let Some(first) = self.batch.get_mut(start..).and_then(|b| b.first_chunk_mut::<8>()) {
            *first = head.to_le_bytes();
        }
        self.commands += 1;
        Ok(())
    }

    #[inline(always)]
    fn append_stub(&mut self, core: &Rc<Core>, stub: &Stub, index: usize) -> Result<u8, Arc<Error>> {
        if !Rc::ptr_eq(core, &stub.core) {
            return Err(misuse(Misuse::OtherSession));
        }
        match self.live_reference(stub.slot) {
            Some(reference) => {
                encode::word(&mut self.batch, reference.0 as u64);
                Ok(tag::REF)
            }
            None => self.append_known(stub.slot, index as u32 + 1),
        }
    }

    /// Appends a stub that is a value or has failed.
    #[cold]
    fn append_known(&mut self, slot: u32, argument: u32) -> Result<u8, Arc<Error>> {
        if let Some(error) = self.unusable(slot) {
            return Err(error);
        }
        self.note_error_handle(slot, argument);
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
}

/// Makes an error of a misuse.
#[cold]
pub(crate) fn misuse(misuse: Misuse) -> Arc<Error> {
    Arc::new(Error::Misuse(misuse))
}

/// Returns the name of a call that was not sent.
fn unsent(name: Arc<str>, location: &'static Location<'static>) -> CallName {
    CallName { name, number: 0, location: Some(location), rounds: [].into() }
}

/// Makes the error of a call that was not sent. A stub that was not made itself stands for the
/// first that was not.
fn not_sent(name: Arc<str>, location: &'static Location<'static>, why: &Arc<Error>) -> Arc<Error> {
    let first = why.chain().filter(|e| matches!(***e, Error::NotSent { .. })).last();
    let cause = first.unwrap_or(why).clone();
    Arc::new(Error::NotSent { call: unsent(name, location), cause })
}

impl Drop for State {
    fn drop(&mut self) {
        self.leave();
    }
}
