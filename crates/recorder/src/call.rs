//! Recording calls: receivers, arguments, and the commands that are no structures.
//!
//! Each function takes the [`Admission`] that the caller got, and returns the maker of the results,
//! whose slots the caller takes with [`Recorder::new_result`]; or the error of a call that was
//! refused, of which it makes slots with [`Recorder::new_failed`].

use std::sync::Arc;

use bifrost_wire::encode::Items;
use bifrost_wire::value::tag;
use bifrost_wire::{Arg, COMPOUND_DEPTH_MAX, Compound, OwnedCompound, Ref, TypeNumber, Value, encode, op};

use crate::Source;
use crate::error::{Error, Misuse};
use crate::recorder::{Admission, Maker, Recorded, Recorder, missing, misuse};
use crate::slots::{Known, Slot};
use crate::stubs::Stubs;

/// An argument, receiver or condition as it is recorded.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A stub.
    Stub(Slot),
    /// A value.
    Value(Value<'a>),
    /// A compound that is composed when it is recorded. It has the type of its place.
    Compound(&'a dyn Compose, Owner),
    /// A compound of integers.
    Ints(&'a [i64]),
    /// A compound of reals.
    Reals(&'a [f64]),
    /// A stub of another session, for which the call is refused.
    Foreign,
}

/// The address of a session, by which stubs of another one are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub usize);

/// The items of a compound that is an argument.
pub trait Compose: std::fmt::Debug {
    /// Returns the number of the items.
    fn count(&self) -> usize;

    /// Passes the items on, one after the other, as operands of a session.
    fn each(&self, owner: Owner, put: &mut dyn FnMut(Operand<'_>));
}

/// The most arguments of a call.
pub const ARGUMENTS_MAX: usize = 255;

impl<S: Source> Recorder<S> {
    /// Records a call of a method, by its number in the stubs.
    ///
    /// Cost: some nanoseconds, and no allocation once the tables have grown.
    #[inline(always)]
    pub fn call<'a>(
        &mut self,
        admitted: Admission<S>,
        receiver: Slot,
        method: u32,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let receiver = match admitted {
            Ok(()) => match self.live_reference(receiver) {
                Some(reference) => Ok(reference),
                None => self.expect_reference(receiver, place),
            },
            Err(error) => Err(error),
        };
        self.record_method(op::CALL, method, receiver, arguments, place)
    }

    /// Records a message to an actor that nobody awaits. Its one result is nil, or the failure to
    /// send it.
    ///
    /// Cost: as [`Recorder::call`].
    pub fn send<'a>(
        &mut self,
        admitted: Admission<S>,
        receiver: Slot,
        method: u32,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let receiver = admitted.and_then(|()| self.expect_reference(receiver, place));
        self.record_method(op::SEND, method, receiver, arguments, place)
    }

    /// Records a call of a routine, by the number that `stubs` give it.
    #[inline]
    pub fn call_routine<'a>(
        &mut self,
        admitted: Admission<S>,
        stubs: &'static Stubs,
        routine: u32,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let head = admitted.and_then(|()| self.numbers.routine_head(stubs, routine));
        self.record_plain(Maker::Routine(routine), head, arguments, place)
    }

    /// Records a call of a batched procedure. `refused` is the error of a definition that was not
    /// sent: another procedure has its number.
    pub fn call_procedure<'a>(
        &mut self,
        admitted: Admission<S>,
        procedure: u32,
        refused: Option<&Arc<Error<S>>>,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let (made, head) = match refused {
            None => (Maker::Procedure(procedure), Ok(encode::head(op::CALL_PROCEDURE, 0, procedure))),
            Some(error) => (Maker::Procedure(u32::MAX), Err(error.clone())),
        };
        let head = admitted.and(head);
        self.record_plain(made, head, arguments, place)
    }

    /// Records the lookup of a well-known object, which has one result. `ty` is the number that
    /// `stubs` give its type; a built-in type has no stubs. `type_name` names the type in messages.
    /// Refused inside a structure.
    pub fn lookup(
        &mut self,
        admitted: Admission<S>,
        stubs: Option<&'static Stubs>,
        name: &str,
        ty: u32,
        type_name: &str,
        place: S,
    ) -> Recorded<S> {
        self.lookup_as(admitted, stubs, name, Some((ty, type_name)), place)
    }

    /// As [`Recorder::lookup`], of an object of any type.
    pub fn lookup_any(&mut self, admitted: Admission<S>, name: &str, place: S) -> Recorded<S> {
        self.lookup_as(admitted, None, name, None, place)
    }

    fn lookup_as(
        &mut self,
        admitted: Admission<S>,
        stubs: Option<&'static Stubs>,
        name: &str,
        ty: Option<(u32, &str)>,
        place: S,
    ) -> Recorded<S> {
        let checked = admitted.and_then(|()| {
            if stubs.is_some_and(|stubs| !std::ptr::eq(stubs, self.numbers.stubs())) {
                return Err(misuse(Misuse::OtherInterface));
            }
            if !self.scopes.is_empty() {
                return Err(misuse(Misuse::LookupInside));
            }
            if name.len() + 16 > self.bounds.frame_bytes {
                return Err(misuse(Misuse::TooLong));
            }
            let number = |(ty, name): (u32, &str)| self.numbers.ty(ty).ok_or_else(|| missing(name.into()));
            ty.map(number).transpose()
        });
        match checked {
            Ok(ty) => {
                encode::lookup(&mut self.batch, name, ty);
                self.recorded();
                Ok(Maker::Lookup)
            }
            Err(error) => Err(self.refuse("lookup", place, error)),
        }
    }

    /// Records the making of an empty cell, which has one result. `ty` is the client's number of
    /// the type of its values, `type_name` names that type in messages.
    pub fn cell(&mut self, admitted: Admission<S>, ty: u32, type_name: &str, place: S) -> Recorded<S> {
        let ty = admitted
            .and_then(|()| self.numbers.ty(ty).ok_or_else(|| missing(format!("cell of {type_name}").into())));
        match ty {
            Ok(ty) => {
                encode::cell(&mut self.batch, ty);
                self.recorded();
                Ok(Maker::Cell)
            }
            Err(error) => Err(self.refuse("cell", place, error)),
        }
    }

    /// Records that an object is seen as one of another type, which has one result. `ty` is the
    /// client's number of the type, `type_name` names it in messages.
    pub fn cast(
        &mut self,
        admitted: Admission<S>,
        object: Slot,
        (ty, type_name): (u32, &str),
        place: S,
    ) -> Recorded<S> {
        self.with_type(Maker::As, encode::cast, admitted, object, (ty, type_name), place)
    }

    /// Records the test if an object has a type, which has one result: a bool. Operands are as in
    /// [`Recorder::cast`].
    pub fn test_type(
        &mut self,
        admitted: Admission<S>,
        object: Slot,
        (ty, type_name): (u32, &str),
        place: S,
    ) -> Recorded<S> {
        self.with_type(Maker::Is, encode::test_type, admitted, object, (ty, type_name), place)
    }

    /// Records that the contents of an object are taken, which has one result: a value.
    pub fn get(&mut self, admitted: Admission<S>, object: Slot, place: S) -> Recorded<S> {
        match admitted.and_then(|()| self.expect_reference(object, place)) {
            Ok(_) if !self.scopes.is_empty() => {
                Err(self.refuse_call(Maker::Get, place, misuse(Misuse::ContentsInside)))
            }
            Ok(object) => {
                encode::get(&mut self.batch, object);
                self.recorded();
                Ok(Maker::Get)
            }
            Err(error) => Err(self.refuse_call(Maker::Get, place, error)),
        }
    }

    /// Records a command with a type and an object.
    fn with_type(
        &mut self,
        made: Maker,
        encode: fn(&mut Vec<u8>, TypeNumber, Ref),
        admitted: Admission<S>,
        object: Slot,
        (ty, type_name): (u32, &str),
        place: S,
    ) -> Recorded<S> {
        let operands = admitted.and_then(|()| {
            let ty = self.numbers.ty(ty).ok_or_else(|| missing(type_name.into()))?;
            Ok((ty, self.expect_reference(object, place)?))
        });
        match operands {
            Ok((ty, object)) => {
                encode(&mut self.batch, ty, object);
                self.recorded();
                Ok(made)
            }
            Err(error) => Err(self.refuse_call(made, place, error)),
        }
    }

    /// Records a method's call, with the knowledge about its receiver.
    #[inline(always)]
    pub(crate) fn record_method<'a>(
        &mut self,
        code: u8,
        method: u32,
        receiver: Result<Ref, Arc<Error<S>>>,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let recorded = match receiver {
            Ok(receiver) => match self.numbers.method(method) {
                Some(number) => self.record_to(receiver, encode::head(code, 0, number.0), arguments),
                None => Err(missing(self.numbers.method_name(method))),
            },
            Err(error) => Err(error),
        };
        match recorded {
            Ok(()) => Ok(Maker::Method(method)),
            Err(error) => Err(self.refuse_call(Maker::Method(method), place, error)),
        }
    }

    /// Records a command with a receiver, whose first word is `head` with the tags of the
    /// arguments.
    #[inline(always)]
    pub(crate) fn record_to<'a>(
        &mut self,
        receiver: Ref,
        head: u64,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
    ) -> Result<(), Arc<Error<S>>> {
        let start = self.batch.len();
        let mut first = [0; 16];
        first[8..].copy_from_slice(&receiver.0.to_le_bytes());
        self.batch.extend_from_slice(&first);
        self.record(start, head, arguments)
    }

    /// Records a call without receiver, whose first word is `head` with the tags of the arguments.
    #[inline]
    pub(crate) fn record_plain<'a>(
        &mut self,
        made: Maker,
        head: Result<u64, Arc<Error<S>>>,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
        place: S,
    ) -> Recorded<S> {
        let start = self.batch.len();
        let recorded = head.and_then(|head| {
            encode::word(&mut self.batch, head);
            self.record(start, head, arguments)
        });
        match recorded {
            Ok(()) => Ok(made),
            Err(error) => Err(self.refuse_call(made, place, error)),
        }
    }

    #[cold]
    pub(crate) fn refuse_call(&mut self, made: Maker, place: S, error: Arc<Error<S>>) -> Arc<Error<S>> {
        // The next call takes its position, and has other arguments.
        let position = self.futures.len() as u32 + 1;
        while self.error_handles.last().is_some_and(|(of, ..)| *of == position) {
            self.error_handles.pop();
        }
        let name = self.made_name(made);
        self.refuse(name, place, error)
    }

    /// Notes a stub whose call failed as an argument of the next call. The server knows such an
    /// argument only as the error-handle.
    #[cold]
    fn note_error_handle(&mut self, slot: Slot, argument: u32) {
        if let Known::Failed(error) = self.known(slot) {
            let error = error.as_cause();
            self.error_handles.push((self.futures.len() as u32 + 1, argument, error));
        }
    }

    /// Returns a reference to a stub, for a marker or a receiver; records a constant if the stub is
    /// a value. The caller was admitted: a flush in between would end the reference.
    pub(crate) fn expect_reference(&mut self, slot: Slot, place: S) -> Result<Ref, Arc<Error<S>>> {
        if let Some(reference) = self.live_reference(slot) {
            return Ok(reference);
        }
        if let Some(error) = self.unusable(slot) {
            return Err(error);
        }
        if let Some(reference) = self.earlier_reference(slot)? {
            return Ok(reference);
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
        if constant.len() > self.bounds.frame_bytes {
            self.scratch = constant;
            return Err(misuse(Misuse::TooLong));
        }
        self.batch.extend_from_slice(&constant);
        self.scratch = constant;
        self.recorded();
        let constant = self.new_result(Maker::Constant, place);
        let reference = self.live_reference(constant).unwrap_or(Ref::NONE);
        // Only this use needs it.
        self.release(constant);
        Ok(reference)
    }

    /// Returns a reference to an operand that stands where only a reference can: a value is
    /// recorded as a constant.
    #[inline]
    pub(crate) fn operand_reference(&mut self, operand: Operand<'_>, place: S) -> Result<Ref, Arc<Error<S>>> {
        match operand {
            Operand::Stub(slot) => self.expect_reference(slot, place),
            Operand::Foreign => Err(misuse(Misuse::OtherSession)),
            // Such a place gives it no type.
            Operand::Compound(..) | Operand::Ints(_) | Operand::Reals(_) => Err(misuse(Misuse::Untyped)),
            Operand::Value(value) => {
                let slot = self.new_value(value);
                let reference = self.expect_reference(slot, place);
                self.release(slot);
                reference
            }
        }
    }

    /// Appends a compound at this depth, the argument of a call. The caller takes back the bytes of
    /// one that fails.
    #[inline(never)]
    fn append_compound(
        &mut self,
        compound: &dyn Compose,
        owner: Owner,
        argument: u32,
        depth: usize,
    ) -> Result<(), Arc<Error<S>>> {
        if depth > COMPOUND_DEPTH_MAX {
            return Err(misuse(Misuse::ValueTooDeep));
        }
        let count = u32::try_from(compound.count()).map_err(|_| misuse(Misuse::TooLong))?;
        let mut items = Items::begin(&mut self.batch, TypeNumber::NONE, count);
        let mut failed = None;
        compound.each(owner, &mut |operand| {
            if failed.is_none() {
                failed = self.append_item(&mut items, operand, argument, depth).err();
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        items.end(&mut self.batch);
        Ok(())
    }

    fn append_item(
        &mut self,
        items: &mut Items,
        operand: Operand<'_>,
        argument: u32,
        depth: usize,
    ) -> Result<(), Arc<Error<S>>> {
        match operand {
            Operand::Value(value) => items.item(&mut self.batch, &Arg::Value(value)),
            Operand::Stub(slot) => {
                let tag = self.append_stub(slot, argument as usize - 1)?;
                items.tag(&mut self.batch, tag);
            }
            Operand::Compound(inner, owner) => {
                items.tag(&mut self.batch, tag::COMPOUND);
                self.append_compound(inner, owner, argument, depth + 1)?;
            }
            Operand::Ints(_) | Operand::Reals(_) => {
                items.tag(&mut self.batch, tag::COMPOUND);
                self.append_numbers(operand);
            }
            Operand::Foreign => return Err(misuse(Misuse::OtherSession)),
        }
        Ok(())
    }

    /// Returns the compound of an operand that has items.
    pub(crate) fn compose(&mut self, operand: Operand<'_>) -> Result<OwnedCompound, Arc<Error<S>>> {
        let batch = std::mem::take(&mut self.batch);
        let composed = match operand {
            Operand::Compound(compound, owner) => self.append_compound(compound, owner, 1, 1),
            numbers => {
                self.append_numbers(numbers);
                Ok(())
            }
        };
        let composed = composed.map(|()| Compound::written(self.batch.get(8..).unwrap_or_default()).into());
        self.batch = batch;
        composed
    }

    /// Appends a compound of numbers.
    #[inline(never)]
    fn append_numbers(&mut self, numbers: Operand<'_>) {
        match numbers {
            Operand::Ints(ints) => {
                let words = ints.iter().map(|int| *int as u64);
                Items::words(&mut self.batch, TypeNumber::NONE, tag::INT, words);
            }
            Operand::Reals(reals) => {
                let words = reals.iter().map(|real| real.to_bits());
                Items::words(&mut self.batch, TypeNumber::NONE, tag::REAL, words);
            }
            Operand::Stub(_) | Operand::Value(_) | Operand::Compound(..) | Operand::Foreign => {}
        }
    }

    /// Records a call: puts the arguments behind the words that are there already from `start` on,
    /// and the tags into the first of them. Leaves nothing of it when it cannot be recorded.
    #[inline(always)]
    pub(crate) fn record<'a>(
        &mut self,
        start: usize,
        mut head: u64,
        arguments: impl ExactSizeIterator<Item = Operand<'a>>,
    ) -> Result<(), Arc<Error<S>>> {
        let count = arguments.len();
        if count > ARGUMENTS_MAX {
            self.batch.truncate(start);
            return Err(misuse(Misuse::TooLong));
        }
        head |= (count as u64) << 8;
        let tags_at = self.batch.len();
        if count > 4 {
            (0..(count - 4).div_ceil(16)).for_each(|_| encode::word(&mut self.batch, 0));
        }
        for (index, argument) in arguments.enumerate() {
            let tag = match argument {
                Operand::Stub(stub) => match self.append_stub(stub, index) {
                    Ok(tag) => tag,
                    Err(error) => {
                        self.batch.truncate(start);
                        return Err(error);
                    }
                },
                Operand::Value(value) => {
                    encode::value(&mut self.batch, &value);
                    value.tag()
                }
                Operand::Compound(compound, owner) => {
                    match self.append_compound(compound, owner, index as u32 + 1, 1) {
                        Ok(()) => tag::COMPOUND,
                        Err(error) => {
                            self.batch.truncate(start);
                            return Err(error);
                        }
                    }
                }
                Operand::Ints(_) | Operand::Reals(_) => {
                    self.append_numbers(argument);
                    tag::COMPOUND
                }
                Operand::Foreign => {
                    self.batch.truncate(start);
                    return Err(misuse(Misuse::OtherSession));
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
    fn append_stub(&mut self, slot: Slot, index: usize) -> Result<u8, Arc<Error<S>>> {
        match self.live_reference(slot) {
            Some(reference) => {
                encode::word(&mut self.batch, reference.0 as u64);
                Ok(tag::REF)
            }
            None => self.append_known(slot, index as u32 + 1),
        }
    }

    /// Appends a stub that is a value, has failed, or is a result of a batch under way.
    #[cold]
    fn append_known(&mut self, slot: Slot, argument: u32) -> Result<u8, Arc<Error<S>>> {
        if let Some(error) = self.unusable(slot) {
            return Err(error);
        }
        if let Some(reference) = self.earlier_reference(slot)? {
            encode::word(&mut self.batch, reference.0 as u64);
            return Ok(tag::REF);
        }
        self.note_error_handle(slot, argument);
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let tag = match self.known(slot) {
            Known::Value(value) => {
                encode::value(&mut bytes, &value);
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
