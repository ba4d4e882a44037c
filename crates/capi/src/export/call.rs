//! Calls, cells, casts, values as receivers; counts of stubs, scopes.

use bifrost_recorder::Slot;
use bifrost_wire::Operator;

use crate::abi::{Chars, Place, Ref, Refs, Type, Value, Values};
use crate::interface::Interface;
use crate::session::{Session, enter, misuse, operand, operands};

impl Session {
    /// Admits a call of an object with these arguments.
    #[inline(always)]
    fn admit_on(&mut self, on: Ref, arguments: &[Value]) -> bifrost_recorder::Admission<Place> {
        self.admit_with(arguments)?;
        self.slot(on).map(drop).map_err(misuse)
    }

    /// Records the call of an operator.
    fn operate(&mut self, operator: u32, on: &Value, arguments: &[Value], place: Place) -> Ref {
        let number = Operator::ALL.get(operator as usize);
        let number = number.map_or(u32::MAX, |operator| self.recorder.numbers().operator(*operator));
        self.call_value(number, on, arguments, place)
    }

    /// Records the call of a method of a stub or a value.
    fn call_value(&mut self, method: u32, on: &Value, arguments: &[Value], place: Place) -> Ref {
        let admitted = self.admit_with(arguments).and_then(|()| match self.check(std::slice::from_ref(on)) {
            Ok(()) => Ok(()),
            Err(wrong) => Err(misuse(wrong)),
        });
        let owner = self.own();
        let (slot, is_mine) = match operand(on, owner) {
            bifrost_recorder::Operand::Stub(slot) => (slot, false),
            bifrost_recorder::Operand::Value(value) => (self.recorder.new_value(value), true),
            _ => (Slot(u32::MAX), false),
        };
        let recorded = self.recorder.call(admitted, slot, method, operands(arguments, owner), place);
        let result = self.result(recorded, place);
        if is_mine {
            self.recorder.release(slot);
        }
        result
    }
}

/// Returns the session of the first stub among values.
fn session_of<'s>(values: &[Value]) -> Option<&'s mut Session> {
    values.iter().find_map(|value| match value {
        Value::Stub(stub) => stub.session(),
        _ => None,
    })
}

/// Records a call of a method, by its number in the stubs, and returns the stub of its result: a
/// promise of nil if it has none. No stub if `on` is none.
///
/// Generated functions are made of it. Cost: some nanoseconds, and no allocation once the tables
/// have grown.
#[unsafe(no_mangle)]
pub extern "C" fn bf_call(on: Ref, method: u32, arguments: Values, place: Place) -> Ref {
    enter(on.session(), Ref::NONE, |session| {
        let arguments = arguments.get();
        let admitted = session.admit_on(on, arguments);
        let operands = operands(arguments, session.own());
        let recorded = session.recorder.call(admitted, Slot(on.slot), method, operands, place);
        session.result(recorded, place)
    })
}

/// As `bf_call`, for a method with several results, which are put into `results` in their order.
#[unsafe(no_mangle)]
pub extern "C" fn bf_call_many(on: Ref, method: u32, arguments: Values, mut results: Refs, place: Place) {
    let room = results.get();
    room.fill(Ref::NONE);
    enter(on.session(), (), |session| {
        let arguments = arguments.get();
        let admitted = session.admit_on(on, arguments);
        let operands = operands(arguments, session.own());
        let recorded = session.recorder.call(admitted, Slot(on.slot), method, operands, place);
        session.results(recorded, room, place);
    });
}

/// As `bf_call`, of a method of a value: `on` is a stub or a value.
#[unsafe(no_mangle)]
pub extern "C" fn bf_call_on(
    session: Option<&mut Session>,
    method: u32,
    on: Value,
    arguments: Values,
    place: Place,
) -> Ref {
    let session = session.or_else(|| session_of(&[on])).or_else(|| session_of(arguments.get()));
    enter(session, Ref::NONE, |session| session.call_value(method, &on, arguments.get(), place))
}

/// Records a message to an actor that nobody awaits. A failure to send it is told with the batch.
#[unsafe(no_mangle)]
pub extern "C" fn bf_send(on: Ref, method: u32, arguments: Values, place: Place) {
    enter(on.session(), (), |session| {
        let arguments = arguments.get();
        let admitted = session.admit_on(on, arguments);
        let operands = operands(arguments, session.own());
        let recorded = session.recorder.send(admitted, Slot(on.slot), method, operands, place);
        session.no_result(recorded, place);
    });
}

/// Records a call of a routine, by the number that `interface` gives it. Its results are put into
/// `results`; give room for one where it has none, for a promise of nil.
#[unsafe(no_mangle)]
pub extern "C" fn bf_call_routine(
    session: Option<&mut Session>,
    interface: &Interface,
    routine: u32,
    arguments: Values,
    mut results: Refs,
    place: Place,
) {
    let room = results.get();
    room.fill(Ref::NONE);
    enter(session, (), |session| {
        let arguments = arguments.get();
        let (admitted, stubs) = (session.admit_with(arguments), session.stubs_of(interface));
        let operands = operands(arguments, session.own());
        let recorded = session.recorder.call_routine(admitted, stubs, routine, operands, place);
        session.results(recorded, room, place);
    });
}

/// Records a call of a method behind an operator. `session` may be null if one of the operands is a
/// stub.
#[unsafe(no_mangle)]
pub extern "C" fn bf_operate(
    session: Option<&mut Session>,
    operator: u32,
    on: Value,
    arguments: Values,
    place: Place,
) -> Ref {
    let session = session.or_else(|| session_of(&[on])).or_else(|| session_of(arguments.get()));
    enter(session, Ref::NONE, |session| session.operate(operator, &on, arguments.get(), place))
}

/// Returns the number of a method of a built-in type, by its row (any, directory, bytes) and its
/// place there; `UINT32_MAX` if the interface lacks the type.
#[unsafe(no_mangle)]
pub extern "C" fn bf_builtin_method(session: Option<&mut Session>, row: u32, method: u32) -> u32 {
    enter(session, u32::MAX, |session| {
        let stubs = session.recorder.numbers().stubs();
        stubs.builtin.get(row as usize).map_or(u32::MAX, |numbers| numbers.method(method))
    })
}

/// Returns the number of the method behind an operator; `UINT32_MAX` if the interface lacks it.
#[unsafe(no_mangle)]
pub extern "C" fn bf_operator_method(session: Option<&mut Session>, operator: u32) -> u32 {
    enter(session, u32::MAX, |session| {
        let operator = Operator::ALL.get(operator as usize);
        operator.map_or(u32::MAX, |operator| session.recorder.numbers().operator(*operator))
    })
}

/// Records the lookup of a well-known object, by the interface and type of its stub; `interface` is
/// null for a built-in type. Not inside a structure.
#[unsafe(no_mangle)]
pub extern "C" fn bf_lookup(
    session: Option<&mut Session>,
    interface: Option<&Interface>,
    name: Chars,
    ty: &Type,
    place: Place,
) -> Ref {
    enter(session, Ref::NONE, |session| {
        let stubs = interface.map(|interface| session.stubs_of(interface));
        let admitted = session.admit().and_then(|()| match name.get() {
            Some(_) => Ok(()),
            None => Err(misuse(bifrost_recorder::Misuse::NotText)),
        });
        let (number, _, type_name) = session.numbers(ty);
        let name = name.get().unwrap_or_default();
        let recorded = session.recorder.lookup(admitted, stubs, name, number, type_name, place);
        session.result(recorded, place)
    })
}

/// Makes a stub for a value, which can be a receiver. It crosses only when it is used. No stub for
/// a value with items.
#[unsafe(no_mangle)]
pub extern "C" fn bf_value_stub(session: Option<&mut Session>, value: Value) -> Ref {
    enter(session, Ref::NONE, |session| {
        let owner = session.own();
        let slot = match (session.check(&[value]), operand(&value, owner)) {
            (Ok(()), bifrost_recorder::Operand::Value(value)) => session.recorder.new_value(value),
            (Err(wrong), _) => session.recorder.new_failed(misuse(wrong)),
            _ => session.recorder.new_failed(misuse(bifrost_recorder::Misuse::Untyped)),
        };
        session.stub(slot)
    })
}

/// Makes an empty cell for values of a type.
#[unsafe(no_mangle)]
pub extern "C" fn bf_cell(session: Option<&mut Session>, ty: &Type, place: Place) -> Ref {
    enter(session, Ref::NONE, |session| {
        let admitted = session.admit();
        let (number, _, name) = session.numbers(ty);
        let recorded = session.recorder.cell(admitted, number, name, place);
        session.result(recorded, place)
    })
}

/// Stores a value in a cell. Returns a promise of nil.
#[unsafe(no_mangle)]
pub extern "C" fn bf_cell_put(cell: Ref, ty: &Type, value: Value, place: Place) -> Ref {
    enter(cell.session(), Ref::NONE, |session| {
        let (method, arguments) = (session.numbers(ty).1.put, &[value]);
        let admitted = session.admit_on(cell, arguments);
        let operands = operands(arguments, session.own());
        let recorded = session.recorder.call(admitted, Slot(cell.slot), method, operands, place);
        session.result(recorded, place)
    })
}

/// Returns a stub for the value stored last; `not_possible` is signalled if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_cell_get(cell: Ref, ty: &Type, place: Place) -> Ref {
    enter(cell.session(), Ref::NONE, |session| {
        let method = session.numbers(ty).1.get;
        let admitted = session.admit_on(cell, &[]);
        let recorded = session.recorder.call(admitted, Slot(cell.slot), method, [].into_iter(), place);
        session.result(recorded, place)
    })
}

/// Returns a promise of a bool: true if a value has been stored.
#[unsafe(no_mangle)]
pub extern "C" fn bf_cell_full(cell: Ref, ty: &Type, place: Place) -> Ref {
    enter(cell.session(), Ref::NONE, |session| {
        let method = session.numbers(ty).1.full;
        let admitted = session.admit_on(cell, &[]);
        let recorded = session.recorder.call(admitted, Slot(cell.slot), method, [].into_iter(), place);
        session.result(recorded, place)
    })
}

/// Returns the same object, seen as one of another type; `wrong_type` is signalled if it is none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_as(on: Ref, ty: &Type, place: Place) -> Ref {
    enter(on.session(), Ref::NONE, |session| {
        let admitted = session.admit_on(on, &[]);
        let (number, _, name) = session.numbers(ty);
        let recorded = session.recorder.cast(admitted, Slot(on.slot), (number, name), place);
        session.result(recorded, place)
    })
}

/// Returns a promise of a bool: true if the object has a type.
#[unsafe(no_mangle)]
pub extern "C" fn bf_is(on: Ref, ty: &Type, place: Place) -> Ref {
    enter(on.session(), Ref::NONE, |session| {
        let admitted = session.admit_on(on, &[]);
        let (number, _, name) = session.numbers(ty);
        let recorded = session.recorder.test_type(admitted, Slot(on.slot), (number, name), place);
        session.result(recorded, place)
    })
}

/// Takes the contents of an object as they are when the batch comes to it: a promise of its items.
/// Not inside a structure.
#[unsafe(no_mangle)]
pub extern "C" fn bf_get(on: Ref, place: Place) -> Ref {
    enter(on.session(), Ref::NONE, |session| {
        let admitted = session.admit_on(on, &[]);
        let recorded = session.recorder.get(admitted, Slot(on.slot), place);
        session.result(recorded, place)
    })
}

/// Counts a further holder of a stub, which each releases. The result is the stub, or none if it
/// was released.
#[unsafe(no_mangle)]
pub extern "C" fn bf_retain(stub: Ref) -> Ref {
    enter(stub.session(), Ref::NONE, |session| match session.uses.retain(stub) {
        true => stub,
        false => Ref::NONE,
    })
}

/// Releases a stub. With its last holder the stub ends: the object is given back with the next
/// batch, and a result that has not come is not wanted. A stub that was released is passed over.
#[unsafe(no_mangle)]
pub extern "C" fn bf_release(stub: Ref) {
    let is_over = enter(stub.session(), false, |session| {
        session.release(stub);
        session.is_over()
    });
    if is_over {
        super::connect::end(stub.session());
    }
}

/// True if two stubs are known to be the same: one stub, one object, or equal values.
#[unsafe(no_mangle)]
pub extern "C" fn bf_same(one: Ref, other: Ref) -> bool {
    enter(one.session(), false, |session| match (session.slot(one), session.slot(other)) {
        (Ok(one), Ok(other)) => one == other || session.recorder.is_same(one, other),
        _ => false,
    })
}

/// Opens a scope, and returns its depth. Stubs that are made from then on belong to the innermost
/// scope.
#[unsafe(no_mangle)]
pub extern "C" fn bf_scope_open(session: Option<&mut Session>) -> u32 {
    enter(session, 0, |session| session.uses.open())
}

/// Ends the scope of this depth, with those inside: releases the stubs that were made in it. One
/// that is to outlive it was retained.
#[unsafe(no_mangle)]
pub extern "C" fn bf_scope_close(session: Option<&mut Session>, depth: u32) {
    enter(session, (), |session| session.close_scope(depth, false));
}

/// Returns the number of stubs that the program holds.
#[unsafe(no_mangle)]
pub extern "C" fn bf_stubs_alive(session: Option<&mut Session>) -> usize {
    enter(session, 0, |session| session.uses.alive())
}
