//! The commands `as` and `is`: the same object, seen as one of another type.
//!
//! An object's class tells its types, so both are calls of a built-in routine, of which each type
//! that clients see has an instance. A basic value has one type only, which is known before the
//! command runs.

use bifrost_ir::{TypeId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, invoke};
use bifrost_wire::{ErrorNumber, Ref, TypeNumber};

use crate::calls::{Operand, Words};
use crate::causes::Cause;
use crate::failures::FailureKind;
use crate::futures::Future;
use crate::session::Session;
use crate::tables::{RoutineRow, Tables};

/// One of the two commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cast {
    /// The object or value; `wrong_type` if it has another type.
    As,
    /// True if it has the type.
    Is,
}

impl Session {
    /// Executes the command.
    pub(crate) fn cast(&mut self, cx: &mut Cx, cast: Cast, ty: TypeNumber, object: Ref) {
        let found = cast_row(self.tables, cast, ty);
        let found = found.and_then(|row| Ok((row, self.resolve(object, 0)?)));
        let (row, operand) = match found {
            Ok(found) => found,
            Err(kind) => return self.fail_call(1, kind),
        };
        if !self.spend(cx, 1) {
            return;
        }
        if !operand.object {
            let made = self.cast_value(cast, ty, operand);
            return self.make_or_fail(cx, made);
        }
        let mut words = Words::from_slice(&[0, operand.word]);
        // SAFETY: the argument is an object, as the heading of the routine wants.
        let ret = unsafe { invoke::routine(cx, row.desc, &mut words) };
        if ret.returned() {
            return self.returned(cx, &row.call, ret);
        }
        let heading = &self.tables.engine().program().routines[row.routine].signature;
        self.fail_call(1, Cause::of(cx, ret, heading));
    }

    /// Applies the command to a basic value.
    fn cast_value(&self, cast: Cast, ty: TypeNumber, value: Operand) -> Result<Future, FailureKind> {
        let wanted = self.expected_type(ty)?;
        match cast {
            Cast::Is => Ok(Future::Basic(Word::from(value.ty == wanted), Types::BOOL)),
            Cast::As if value.ty == wanted => Ok(Future::Basic(value.word, wanted)),
            Cast::As => Err(never(self.tables, value.ty, wanted)),
        }
    }
}

/// The failure of `as` for a basic value, which has another type.
pub(crate) fn never(tables: &Tables, found: TypeId, wanted: TypeId) -> FailureKind {
    let (found, wanted) = (tables.type_name(found), tables.type_name(wanted));
    FailureKind::refused(ErrorNumber::WrongType, format!("a value of `{found}` is never one of `{wanted}`"))
}

/// Returns the routine that the command calls for objects.
pub(crate) fn cast_row(tables: &Tables, cast: Cast, number: TypeNumber) -> Result<&RoutineRow, FailureKind> {
    let Some(ty) = tables.ty(number) else {
        let text = format!("there is no type number {}", number.0);
        return Err(FailureKind::refused(ErrorNumber::NoSuchType, text));
    };
    tables.cast(number, cast).ok_or_else(|| {
        let text = format!("the server does not tell if an object is a `{}`", tables.type_name(ty));
        FailureKind::refused(ErrorNumber::WrongType, text)
    })
}
