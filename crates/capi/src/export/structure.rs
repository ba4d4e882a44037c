//! Control structures and procedures.

use bifrost_recorder::{Block, Heading, Iteration, Jump, Misuse, Operand, Structure};

use crate::abi::{Chars, Iterator, Place, Ref, Refs, Type, Types, Value, Values};
use crate::recorded::Recorder;
use crate::session::{Defined, Session, enter, misuse, operand, operands};

/// A structure that `bf_open` opens.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// A loop with a condition.
    While,
    /// A choice.
    If,
    /// A block whose exceptions are handled.
    Except,
}

impl Session {
    fn reopen(&mut self, block: Block<'_>, place: Place) {
        match self.ended.take() {
            Some(ended) => self.recorder.reopen(ended, block, place),
            // There is nothing to go on with: a structure that will not be sent.
            None => self.recorder.open(Err(misuse(Misuse::NotAdjacent)), Structure::If, place),
        }
    }

    /// Takes as many variables as the last marker has. Those for which there is no room are
    /// dropped: the numbers of later results must be those of the server.
    fn variables(&mut self, count: usize, room: &mut [Ref], place: Place) {
        let mut room = room.iter_mut();
        for _ in 0..count {
            let slot = self.recorder.variable(place);
            match room.next() {
                Some(variable) => *variable = self.stub(slot),
                None => self.recorder.release(slot),
            }
        }
    }

    fn end_one(&mut self) {
        self.ended = Some(self.recorder.end());
    }

    /// Passes an operand of a marker on. One that cannot be recorded becomes a stub with the
    /// reason, with which the marker is refused.
    fn with_operand(&mut self, value: &Value, mark: impl FnOnce(&mut Recorder, Operand<'_>)) {
        let owner = self.own();
        match self.check(std::slice::from_ref(value)) {
            Ok(()) | Err(Misuse::OtherSession) => mark(&mut self.recorder, operand(value, owner)),
            Err(wrong) => {
                let failed = self.recorder.new_failed(misuse(wrong));
                mark(&mut self.recorder, Operand::Stub(failed));
                self.recorder.release(failed);
            }
        }
    }

    fn record_return(&mut self, value: Option<&Value>, place: Place) {
        match value {
            Some(value) => self.with_operand(value, |recorder, value| recorder.return_(Some(value), place)),
            None => self.recorder.return_(None, place),
        }
    }
}

/// Opens a structure. Each is ended by `bf_end`.
///
/// - while: `bf_open`, the calls of the condition, `bf_condition`, the body, `bf_end`
/// - if: the same; `bf_else`, the other block, `bf_end`
/// - except: `bf_open`, the block, `bf_end`; `bf_when` or `bf_others`, the handler, `bf_end`
#[unsafe(no_mangle)]
pub extern "C" fn bf_open(session: Option<&mut Session>, structure: Opened, place: Place) {
    enter(session, (), |session| {
        let admitted = session.admit();
        let structure = match structure {
            Opened::While => Structure::While,
            Opened::If => Structure::If,
            Opened::Except => Structure::Except,
        };
        session.recorder.open(admitted, structure, place);
    });
}

/// Records the end of the condition of the innermost loop or choice: the commands behind it depend
/// on `test`, a bool or a promise of one.
#[unsafe(no_mangle)]
pub extern "C" fn bf_condition(session: Option<&mut Session>, test: Value, place: Place) {
    enter(session, (), |session| {
        session.with_operand(&test, |recorder, test| recorder.condition(test, place));
    });
}

/// Opens a loop over an iterator, and puts a stub into `variables` for each value that it yields at
/// a step.
#[unsafe(no_mangle)]
pub extern "C" fn bf_foreach(
    session: Option<&mut Session>,
    iterator: &Iterator,
    mut variables: Refs,
    place: Place,
) {
    let room = variables.get();
    room.fill(Ref::NONE);
    let session = session.or_else(|| iterator.session());
    enter(session, (), |session| {
        let arguments = iterator.arguments.get(..iterator.count as usize).unwrap_or_default();
        let mut admitted = session.admit_with(arguments);
        if iterator.count as usize > iterator.arguments.len() {
            admitted = admitted.and_then(|()| Err(misuse(Misuse::TooLong)));
        }
        let iteration = match iterator.interface() {
            _ if iterator.is_foreign(session) => Iteration::Foreign { routine: iterator.number },
            Some(interface) => {
                Iteration::Routine { stubs: session.stubs_of(interface), routine: iterator.number }
            }
            None => {
                let receiver = match session.slot(iterator.on) {
                    Ok(slot) => Operand::Stub(slot),
                    Err(Misuse::OtherSession) => Operand::Foreign,
                    Err(wrong) => {
                        admitted = admitted.and_then(|()| Err(misuse(wrong)));
                        Operand::Foreign
                    }
                };
                Iteration::Method { receiver, method: iterator.number }
            }
        };
        let operands = operands(arguments, session.own());
        let recorded = session.recorder.foreach(admitted, iteration, operands, place, iterator.place);
        session.results(recorded, room, iterator.place);
    });
}

/// Ends the innermost structure. Stubs that were made in it end with it.
#[unsafe(no_mangle)]
pub extern "C" fn bf_end(session: Option<&mut Session>) {
    enter(session, (), Session::end_one);
}

/// Returns the number of open structures.
#[unsafe(no_mangle)]
pub extern "C" fn bf_depth(session: Option<&mut Session>) -> u32 {
    enter(session, 0, |session| session.recorder.depth() as u32)
}

/// Ends the structure that is the `depth`th from outside, from 1. Structures inside that are open
/// were left by a `break`, `goto` or `return` of the program: the outermost structure is refused
/// with `BF_E_LEFT_OPEN`. The stubs of the scope `scope` end with the structure; 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_end_at(session: Option<&mut Session>, depth: u32, scope: u32) {
    enter(session, (), |session| {
        while session.recorder.depth() > depth as usize {
            session.recorder.abandon_for(Misuse::LeftOpen);
        }
        if session.recorder.depth() == depth as usize && depth > 0 {
            session.end_one();
        }
        session.close_scope(scope, true);
    });
}

/// Ends the structure that is the `depth`th from outside, whose block was left by a `break`, `goto`
/// or `return` of the program, and those inside: the outermost structure is refused with
/// `BF_E_LEFT_OPEN`, of which the next claim, flush or commit tells.
#[unsafe(no_mangle)]
pub extern "C" fn bf_left_open(session: Option<&mut Session>, depth: u32, scope: u32) {
    enter(session, (), |session| {
        while session.recorder.depth() >= depth.max(1) as usize {
            session.recorder.abandon_for(Misuse::LeftOpen);
        }
        session.ended = None;
        session.close_scope(scope, true);
    });
}

/// Ends the innermost structure, whose block was left by an exception of the program: the outermost
/// structure is refused with `BF_E_ABANDONED`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_abandon(session: Option<&mut Session>) {
    enter(session, (), |session| {
        session.recorder.abandon();
        session.ended = None;
    });
}

/// Opens the other block of the choice that has just ended.
#[unsafe(no_mangle)]
pub extern "C" fn bf_else(session: Option<&mut Session>, place: Place) {
    enter(session, (), |session| session.reopen(Block::Else, place));
}

/// Opens a handler of the except that has just ended, for the exception `name` with values of these
/// types, which are put into `variables`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_when(
    session: Option<&mut Session>,
    name: Chars,
    types: Types,
    mut variables: Refs,
    place: Place,
) {
    let room = variables.get();
    room.fill(Ref::NONE);
    enter(session, (), |session| {
        let types = types.get().unwrap_or_default();
        let values: Vec<u32> = types.iter().map(|ty| session.numbers(ty).0).collect();
        session.reopen(Block::When { name: name.get().unwrap_or_default(), values: &values }, place);
        session.variables(values.len(), room, place);
    });
}

/// Opens the handler of all other exceptions of the except that has just ended. With room for a
/// variable that is the exception's name.
#[unsafe(no_mangle)]
pub extern "C" fn bf_others(session: Option<&mut Session>, mut variables: Refs, place: Place) {
    let room = variables.get();
    room.fill(Ref::NONE);
    enter(session, (), |session| {
        session.reopen(Block::Others { named: !room.is_empty() }, place);
        session.variables(room.len().min(1), room, place);
    });
}

/// Leaves the innermost loop at the server. Recording goes on.
#[unsafe(no_mangle)]
pub extern "C" fn bf_break(session: Option<&mut Session>, place: Place) {
    enter(session, (), |session| session.recorder.jump(Jump::Break, place));
}

/// Goes on with the next step of the innermost loop at the server. Recording goes on.
#[unsafe(no_mangle)]
pub extern "C" fn bf_continue(session: Option<&mut Session>, place: Place) {
    enter(session, (), |session| session.recorder.jump(Jump::Continue, place));
}

/// The number of no procedure.
pub const NO_PROCEDURE: u32 = u32::MAX;

impl Session {
    fn heading(&self, types: Types, result: Option<&Type>) -> Option<Heading> {
        let params = types.get()?.into_iter().map(|ty| self.numbers(ty).0).collect();
        Some(Heading { params, result: result.map(|ty| self.numbers(ty).0) })
    }
}

/// Opens the definition of a procedure, puts a stub into `parameters` for each, and returns its
/// number, by which it is called; also in its body, and until the session ends. `result` is null
/// for none. `bf_procedure_end` ends it.
#[unsafe(no_mangle)]
pub extern "C" fn bf_procedure(
    session: Option<&mut Session>,
    name: Chars,
    types: Types,
    result: Option<&Type>,
    mut parameters: Refs,
    place: Place,
) -> u32 {
    let room = parameters.get();
    room.fill(Ref::NONE);
    enter(session, NO_PROCEDURE, |session| {
        let mut admitted = session.admit();
        if name.get().is_none() {
            admitted = admitted.and_then(|()| Err(misuse(Misuse::NotText)));
        }
        let heading = session.heading(types, result).unwrap_or_default();
        let name = name.get().unwrap_or_default();
        let count = heading.params.len();
        let number = session.recorder.open_procedure(admitted, name, heading, place);
        session.variables(count, room, place);
        session.procedures.push(Defined { number, refused: None });
        session.procedures.len() as u32 - 1
    })
}

/// Ends the definition of a procedure, with its result; null for none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_procedure_end(
    session: Option<&mut Session>,
    procedure: u32,
    result: Option<&Value>,
    place: Place,
) {
    enter(session, (), |session| {
        session.record_return(result, place);
        let refused = session.recorder.close_procedure();
        if let Some(defined) = session.procedures.get_mut(procedure as usize) {
            defined.refused = refused;
        }
        session.ended = None;
    });
}

/// Ends a run of the procedure being defined, with its result; null for none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_return(session: Option<&mut Session>, result: Option<&Value>, place: Place) {
    enter(session, (), |session| session.record_return(result, place));
}

/// Records a call of a procedure. Returns the stub of its result.
#[unsafe(no_mangle)]
pub extern "C" fn bf_procedure_call(
    session: Option<&mut Session>,
    procedure: u32,
    arguments: Values,
    place: Place,
) -> Ref {
    enter(session, Ref::NONE, |session| {
        let arguments = arguments.get();
        let admitted = session.admit_with(arguments);
        let none = Defined { number: u32::MAX, refused: Some(misuse(Misuse::NoProcedure)) };
        let defined = session.procedures.get(procedure as usize).cloned().unwrap_or(none);
        let operands = operands(arguments, session.own());
        let refused = defined.refused.as_ref();
        let recorded = session.recorder.call_procedure(admitted, defined.number, refused, operands, place);
        session.result(recorded, place)
    })
}

/// Returns the number of a procedure that was defined earlier in this session, if it takes and
/// returns these types; else `BF_NO_PROCEDURE`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_procedure_find(
    session: Option<&mut Session>,
    name: Chars,
    types: Types,
    result: Option<&Type>,
) -> u32 {
    enter(session, NO_PROCEDURE, |session| {
        let heading = session.heading(types, result);
        let found = name.get().zip(heading).and_then(|(name, h)| session.recorder.find_procedure(name, &h));
        let Some(number) = found else { return NO_PROCEDURE };
        let known = session.procedures.iter().position(|d| d.number == number && d.refused.is_none());
        let known = known.unwrap_or_else(|| {
            session.procedures.push(Defined { number, refused: None });
            session.procedures.len() - 1
        });
        known as u32
    })
}
