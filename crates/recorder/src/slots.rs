//! The slots: the knowledge about each stub.
//!
//! A slot is a future of the batch being recorded, a handle, a value or a failure. Slots that no
//! stub has any more are in a list of free ones. A slot is counted: [`Recorder::retain`] for each
//! further stub, [`Recorder::release`] for each that is dropped.

use std::sync::Arc;

use bifrost_wire::reply::{OwnedRows, Rows};
use bifrost_wire::{Arg, Compound, OwnedCompound, Ref, TypeNumber, Value};

use crate::Source;
use crate::error::{CallName, Error, ErrorValue};
use crate::recorder::{Maker, Recorder};

/// The number of a stub's slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot(pub u32);

/// No slot, or the end of the list of free ones.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// No slot any more: the stub was dropped while its batch was under way.
pub(crate) const DROPPED: u32 = u32::MAX - 1;

/// The knowledge about a stub, in two words that are written and read as they are. Recording
/// touches a slot twice within a few nanoseconds, and a wider read would wait for the narrower
/// write.
pub(crate) struct Entry {
    /// The number of stubs that share it.
    references: u32,
    tag: Tag,
    /// The next free slot, the position of a future, a handle, the bits of a value, or the index of
    /// an extra. Of a result under way: the low half of the batch's number, and the position.
    word: u64,
}

impl Entry {
    /// Notes that the batch of a future was flushed.
    #[inline]
    pub(crate) fn put_under_way(&mut self, word: u64) {
        (self.tag, self.word) = (Tag::UnderWay, word);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Tag {
    Free,
    Future,
    Handle,
    Nil,
    Bool,
    Int,
    Real,
    Char,
    Str,
    Bytes,
    Compound,
    Rows,
    Failed,
    /// Of a batch under way.
    UnderWay,
}

/// Knowledge that does not fit into a slot.
pub(crate) enum Extra<S> {
    Free,
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A compound, which holds a handle for each of its references.
    Compound(OwnedCompound),
    /// A table, which holds a handle for each of its cells that is an object.
    Rows(OwnedRows),
    Failed(Arc<Error<S>>),
}

/// The knowledge about a stub's object or value.
#[derive(Clone, Copy, Debug)]
pub enum Known<'r, S> {
    /// The position of a future of the recorded batch.
    Future(u32),
    /// The number of the batch under way that it is a result of.
    UnderWay(u64),
    /// The handle of an object.
    Handle(Ref),
    /// A value.
    Value(Value<'r>),
    /// A table, which has ended with its batch.
    Rows(Rows<'r>),
    /// The failure of its call.
    Failed(&'r Arc<Error<S>>),
    /// No stub has this slot.
    Free,
}

/// Something with items that came.
#[derive(Clone, Copy, Debug)]
pub enum Came<'r> {
    /// A compound.
    Compound(Compound<'r>),
    /// A table.
    Rows(Rows<'r>),
}

/// An entry of VF.
pub(crate) struct Future<S> {
    /// The slot of the stub that waits for it; [`NO_SLOT`] if it was dropped.
    pub(crate) slot: u32,
    pub(crate) made: Maker,
    pub(crate) place: S,
}

/// An entry of VH.
pub(crate) struct Held<S> {
    /// The number of slots that hold the handle; 0 if it is to be given back.
    pub(crate) slots: u32,
    /// The call that made it: its name in messages. Absent for objects of exceptions.
    pub(crate) made: Option<(Maker, S)>,
    /// The server's number of its type, if it came as a result.
    pub(crate) ty: Option<TypeNumber>,
}

impl<S: Source> Recorder<S> {
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
        self.slots.push(Entry { references: 1, tag, word });
        (self.slots.len() - 1) as u32
    }

    #[cold]
    pub(crate) fn new_extra(&mut self, extra: Extra<S>) -> u64 {
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
        let Some(extra) = self.extras.get_mut(index as usize) else { return };
        let extra = std::mem::replace(extra, Extra::Free);
        self.free_extras.push(index as u32);
        match extra {
            Extra::Failed(error) => {
                error.each_object(&mut |handle| self.drop_handle(handle));
                self.seen.dropped(&error);
            }
            Extra::Rows(rows) => rows.view().each_handle(&mut |handle| self.drop_handle(handle)),
            Extra::Compound(compound) => {
                compound.view().each_reference(&mut |handle| self.drop_handle(handle));
            }
            Extra::Free | Extra::Str(_) | Extra::Bytes(_) => {}
        }
    }

    /// Returns the tag and word of a value.
    pub(crate) fn pack(&mut self, value: Value<'_>) -> (Tag, u64) {
        let tag = match value {
            Value::Nil => Tag::Nil,
            Value::Bool(_) => Tag::Bool,
            Value::Int(_) => Tag::Int,
            Value::Real(_) => Tag::Real,
            Value::Char(_) => Tag::Char,
            Value::Str(s) => return (Tag::Str, self.new_extra(Extra::Str(s.into()))),
            Value::Bytes(b) => return (Tag::Bytes, self.new_extra(Extra::Bytes(b.into()))),
            Value::Compound(c) => {
                c.each_reference(&mut |handle| {
                    self.hold_handle(handle, None);
                });
                return (Tag::Compound, self.new_extra(Extra::Compound(c.into())));
            }
        };
        (tag, value.word())
    }

    /// Changes the knowledge in a future's slot.
    pub(crate) fn settle(&mut self, slot: u32, (tag, word): (Tag, u64)) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.tag = tag;
            slot.word = word;
        }
    }

    /// Gives all stubs of objects a failure.
    pub(crate) fn fail_objects(&mut self, error: &Arc<Error<S>>) {
        for index in 0..self.slots.len() {
            if self.slots.get(index).is_some_and(|slot| slot.tag == Tag::Handle) {
                let extra = self.new_extra(Extra::Failed(error.clone()));
                self.settle(index as u32, (Tag::Failed, extra));
            }
        }
    }

    /// Ends knowledge that no stub waits for any more.
    #[cold]
    pub(crate) fn discard(&mut self, tag: Tag, word: u64) {
        match tag {
            Tag::Handle => self.drop_handle(Ref(word as i64)),
            Tag::Str | Tag::Bytes | Tag::Compound | Tag::Rows | Tag::Failed => self.free_extra(word),
            _ => {}
        }
    }

    /// Returns the knowledge about a stub.
    #[inline]
    pub fn known(&self, slot: Slot) -> Known<'_, S> {
        // A stub's slot exists while the stub does.
        let Some(slot) = self.slots.get(slot.0 as usize) else { return Known::Free };
        match slot.tag {
            Tag::Future => Known::Future(slot.word as u32),
            Tag::Handle => Known::Handle(Ref(slot.word as i64)),
            Tag::Nil => Known::Value(Value::Nil),
            Tag::Bool => Known::Value(Value::Bool(slot.word != 0)),
            Tag::Int => Known::Value(Value::Int(slot.word as i64)),
            Tag::Real => Known::Value(Value::Real(f64::from_bits(slot.word))),
            Tag::Char => Known::Value(Value::Char(char::from_u32(slot.word as u32).unwrap_or('\0'))),
            Tag::Str | Tag::Bytes | Tag::Compound | Tag::Rows | Tag::Failed => {
                match self.extras.get(slot.word as usize) {
                    Some(Extra::Compound(compound)) => Known::Value(Value::Compound(compound.view())),
                    Some(Extra::Str(s)) => Known::Value(Value::Str(s)),
                    Some(Extra::Bytes(b)) => Known::Value(Value::Bytes(b)),
                    Some(Extra::Rows(rows)) => Known::Rows(rows.view()),
                    Some(Extra::Failed(error)) => Known::Failed(error),
                    _ => Known::Free,
                }
            }
            Tag::UnderWay => Known::UnderWay(self.under_way.number_of(slot.word)),
            Tag::Free => Known::Free,
        }
    }

    /// True if two stubs are known to have the same result: equal values, one object, or tables of
    /// equal rows. Failures are never the same.
    ///
    /// Cost: linear in the bytes of the results.
    pub fn is_same(&self, one: Slot, other: Slot) -> bool {
        match (self.known(one), self.known(other)) {
            (Known::Handle(one), Known::Handle(other)) => one == other,
            // By its bits: a real that is no number is the same as itself.
            (Known::Value(Value::Real(one)), Known::Value(Value::Real(other))) => {
                one.to_bits() == other.to_bits()
            }
            (Known::Value(one), Known::Value(other)) => one == other,
            (Known::Rows(one), Known::Rows(other)) => one == other,
            _ => false,
        }
    }

    /// Claims a stub whose knowledge is there.
    ///
    /// # Errors
    /// The failure of the stub, if it has one, or those that no other claim can tell. The program
    /// is told with it.
    pub fn claim(&mut self, slot: Slot) -> Result<(), Error<S>> {
        let Known::Failed(error) = self.known(slot) else { return self.surface(false) };
        let error = error.clone();
        self.tell(&error);
        Err((*error).clone())
    }

    /// Returns the wire form of a reference to a stub, if it is a future or a handle.
    #[inline(always)]
    pub(crate) fn live_reference(&self, slot: Slot) -> Option<Ref> {
        let slot = self.slots.get(slot.0 as usize)?;
        match slot.tag {
            Tag::Future => Some(Ref(-(slot.word as i64))),
            Tag::Handle => Some(Ref(slot.word as i64)),
            _ => None,
        }
    }

    /// Returns the word of a slot that is a result of a batch under way.
    pub(crate) fn word_under_way(&self, slot: Slot) -> Option<u64> {
        let slot = self.slots.get(slot.0 as usize)?;
        (slot.tag == Tag::UnderWay).then_some(slot.word)
    }

    /// Counts a further stub of a slot.
    #[inline]
    pub fn retain(&mut self, slot: Slot) {
        if let Some(slot) = self.slots.get_mut(slot.0 as usize) {
            slot.references += 1;
        }
    }

    /// Takes back the count of a stub that was dropped. The last one frees the slot; the object, if
    /// it is one, is given back with the next batch.
    #[inline(always)]
    pub fn release(&mut self, index: Slot) {
        let Some(slot) = self.slots.get_mut(index.0 as usize) else { return };
        // A free slot is not counted; releasing it does nothing.
        slot.references = slot.references.wrapping_sub(1);
        if slot.references > 0 {
            return;
        }
        let (tag, word) = (slot.tag, slot.word);
        slot.tag = Tag::Free;
        slot.word = u64::from(self.free_slot);
        self.free_slot = index.0;
        match tag {
            Tag::Future => {
                if let Some(future) = self.futures.get_mut(word as usize - 1) {
                    future.slot = NO_SLOT;
                }
            }
            Tag::Handle => self.drop_handle(Ref(word as i64)),
            Tag::Str | Tag::Bytes | Tag::Compound | Tag::Rows | Tag::Failed => self.free_extra(word),
            Tag::UnderWay => self.drop_under_way(word),
            _ => {}
        }
    }

    /// Reads a compound or table that came: hands its items, or cells row by row, to `read`, with a
    /// function that makes the slot of a handle. Slots are the caller's. Nothing if the slot is
    /// neither.
    ///
    /// Cost: linear in the number of items; a slot for each object.
    pub fn read_items<R>(
        &mut self,
        slot: Slot,
        read: impl FnOnce(Came<'_>, &mut dyn FnMut(Ref) -> Slot) -> R,
    ) -> Option<R> {
        let &Entry { tag: Tag::Rows | Tag::Compound, word, .. } = self.slots.get(slot.0 as usize)? else {
            return None;
        };
        let extra = std::mem::replace(self.extras.get_mut(word as usize)?, Extra::Free);
        let came = match &extra {
            Extra::Rows(rows) => Came::Rows(rows.view()),
            Extra::Compound(compound) => Came::Compound(compound.view()),
            Extra::Free | Extra::Str(_) | Extra::Bytes(_) | Extra::Failed(_) => return None,
        };
        let result = read(came, &mut |handle| self.new_object(handle));
        if let Some(place) = self.extras.get_mut(word as usize) {
            *place = extra;
        }
        Some(result)
    }

    /// Reads the exception that the call of a stub has signalled: hands its name and values to
    /// `read`, as [`Recorder::read_items`] does. Nothing if the slot has no such failure.
    pub fn read_signal<R>(
        &mut self,
        slot: Slot,
        read: impl FnOnce(&str, &mut dyn Iterator<Item = Arg<'_>>, &mut dyn FnMut(Ref) -> Slot) -> R,
    ) -> Option<R> {
        let Known::Failed(error) = self.known(slot) else { return None };
        let error = error.clone();
        let Error::Signal { name, values, .. } = &*error else { return None };
        let mut values = values.iter().map(ErrorValue::arg);
        Some(read(name, &mut values, &mut |handle| self.new_object(handle)))
    }

    /// Makes a slot for a further stub of an object that the session [holds](Recorder::holds).
    pub fn new_object(&mut self, handle: Ref) -> Slot {
        self.hold_handle(handle, None);
        Slot(self.new_slot(Tag::Handle, handle.0 as u64))
    }

    /// True if a stub holds the object of a handle.
    pub fn holds(&self, handle: Ref) -> bool {
        self.handles.get(&handle).is_some_and(|held| held.slots > 0)
    }

    /// Returns the number of handles that the session has.
    pub fn handle_count(&self) -> usize {
        self.handles.len()
    }

    /// Returns the server's number of an object's type, if the object came as a result.
    pub fn type_of(&self, handle: Ref) -> Option<TypeNumber> {
        self.handles.get(&handle)?.ty
    }

    /// Counts a further holder of a handle. `made` is the call that it came from.
    pub(crate) fn hold_handle(&mut self, handle: Ref, made: Option<(Maker, S)>) -> &mut Held<S> {
        let held = self.handles.entry(handle).or_insert(Held { slots: 0, made, ty: None });
        held.slots += 1;
        held
    }

    #[cold]
    pub(crate) fn drop_handle(&mut self, handle: Ref) {
        if let Some(held) = self.handles.get_mut(&handle) {
            // All stubs of the session may have been given up before.
            held.slots = held.slots.saturating_sub(1);
            if held.slots == 0 {
                self.frees.push(handle);
            }
        }
    }

    /// Makes a stub's slot for a value that is known already. It crosses only when it is used.
    pub fn new_value(&mut self, value: Value<'_>) -> Slot {
        let (tag, word) = self.pack(value);
        Slot(self.new_slot(tag, word))
    }

    /// Makes a slot for a result of the call that was recorded last. All results of a call are
    /// taken, in order, before anything else is recorded.
    #[inline(always)]
    pub fn new_result(&mut self, made: Maker, place: S) -> Slot {
        let position = self.futures.len() as u32 + 1;
        let slot = self.new_slot(Tag::Future, u64::from(position));
        self.futures.push(Future { slot, made, place });
        Slot(slot)
    }

    /// Makes a slot for a result of a call that was refused.
    pub fn new_failed(&mut self, error: Arc<Error<S>>) -> Slot {
        let extra = self.new_extra(Extra::Failed(error));
        Slot(self.new_slot(Tag::Failed, extra))
    }

    /// Returns the reason why a stub cannot be used at all: its call was never sent.
    #[inline]
    pub(crate) fn unusable(&self, slot: Slot) -> Option<Arc<Error<S>>> {
        match self.known(slot) {
            Known::Failed(error) if matches!(**error, Error::NotSent { .. } | Error::Misuse(_)) => {
                Some(error.clone())
            }
            _ => None,
        }
    }

    // Names, for messages.

    /// Returns the name of a call of a batch with these futures.
    pub(crate) fn call_name(&mut self, futures: &[Future<S>], number: u32, rounds: &[u32]) -> CallName<S> {
        let made = futures.get((number as usize).wrapping_sub(1)).map(|f| (f.made, f.place));
        let name = made.map_or_else(|| "?".into(), |(made, _)| self.made_name(made));
        CallName { name, number, location: made.map(|(_, place)| place), rounds: rounds.into() }
    }

    /// Returns the name of a call.
    pub(crate) fn made_name(&mut self, made: Maker) -> Arc<str> {
        match made {
            Maker::Method(n) => self.numbers.method_name(n),
            Maker::Routine(n) => self.numbers.routine_name(n),
            Maker::Procedure(n) => {
                self.procedures.names.get(n as usize).cloned().unwrap_or_else(|| "procedure".into())
            }
            Maker::Module(_) => "run".into(),
            Maker::Lookup => "lookup".into(),
            Maker::Constant => "constant".into(),
            Maker::Transaction => "transaction".into(),
            Maker::Commit(_) => "commit".into(),
            Maker::Abort(_) => "abort".into(),
            Maker::Wait => "wait".into(),
            Maker::Cell => "cell".into(),
            Maker::Rows => "rows".into(),
            Maker::Emit => "emit".into(),
            Maker::As => "as".into(),
            Maker::Is => "is".into(),
            Maker::Get => "get".into(),
            Maker::Variable => "variable".into(),
            Maker::Refused => "refused".into(),
        }
    }

    /// Returns the name of a handle in messages: the call that the object came from.
    pub(crate) fn name_of(&mut self, handle: Ref) -> Option<String> {
        let (made, place) = self.handles.get(&handle)?.made?;
        let name = self.made_name(made);
        Some(format!("the result of `{name}` at {place}"))
    }
}
