//! Batched procedures: a batch with a name, kept by the session.
//!
//! The steps: [`Recorder::open_procedure`], a [variable](Recorder::variable) for each parameter,
//! the body, [`Recorder::return_`] with the result, [`Recorder::close_procedure`].

use std::sync::Arc;

use bifrost_wire::{Arg, Value, encode};

use crate::Source;
use crate::call::Operand;
use crate::error::{Error, Misuse};
use crate::recorder::{Admission, Recorder, missing, misuse};
use crate::structures::Kind;
use crate::stubs::Heading;

/// The bytes that a procedure's first marker has beyond its name, at most.
pub const MARKER_BYTES: usize = 4096;

impl<S: Source> Recorder<S> {
    /// Opens the definition of a procedure, and returns the number that it will have. Always opens
    /// a scope, to be ended.
    pub fn open_procedure(&mut self, admitted: Admission<S>, name: &str, heading: Heading, place: S) -> u32 {
        let number = self.procedures.count;
        let nested = !self.scopes.is_empty();
        let params: Vec<_> = heading.params.iter().map(|t| self.numbers.ty(*t)).collect();
        let result = heading.result.map(|t| self.numbers.ty(t));
        let lacks = params.contains(&None) || result == Some(None);
        let types: Vec<_> = params.into_iter().map(Option::unwrap_or_default).collect();
        let marker = |out: &mut Vec<u8>| encode::procedure(out, name, types.into_iter(), result.flatten());
        self.open_with(Kind::Procedure, place, admitted, marker);
        self.procedures.open.push((name.to_owned(), heading));
        let wrong = if nested {
            Some(misuse(Misuse::NestedProcedure))
        } else if lacks {
            Some(missing(name.into()))
        } else if name.len() + MARKER_BYTES > self.bounds.frame_bytes {
            Some(misuse(Misuse::TooLong))
        } else {
            None
        };
        if let Some(error) = wrong {
            self.refuse(name, place, error);
        }
        number
    }

    /// Ends the definition; returns the reason if it is not sent.
    pub fn close_procedure(&mut self) -> Option<Arc<Error<S>>> {
        let refused = self.refusal();
        let defined = self.procedures.open.pop();
        let ended = self.end();
        if ended.is_kept()
            && let Some((name, heading)) = defined
        {
            let number = self.procedures.count;
            self.procedures.count += 1;
            self.procedures.names.push(name.as_str().into());
            self.procedures.by_name.insert(name, (number, heading));
        }
        refused
    }

    /// Returns the number of a procedure defined earlier in this session, if it has this heading.
    pub fn find_procedure(&self, name: &str, heading: &Heading) -> Option<u32> {
        let (number, known) = self.procedures.by_name.get(name)?;
        (known == heading).then_some(*number)
    }

    /// Ends a run of the procedure being defined, with its result if it has one. Refused outside a
    /// procedure.
    pub fn return_(&mut self, value: Option<Operand<'_>>, place: S) {
        if !self.in_procedure() {
            self.refuse("return", place, misuse(Misuse::NoProcedure));
            return;
        }
        let composed;
        let arg = match value {
            None => None,
            Some(Operand::Value(value)) => Some(Arg::Value(value)),
            Some(operand @ (Operand::Compound(..) | Operand::Ints(_) | Operand::Reals(_))) => {
                composed = match self.admit_inside().and_then(|()| self.compose(operand)) {
                    Ok(composed) => composed,
                    Err(error) => {
                        self.refuse("return", place, error);
                        return;
                    }
                };
                Some(Arg::Value(Value::Compound(composed.view())))
            }
            Some(operand) => {
                let reference = match operand {
                    // Comes before the error of a refused structure.
                    Operand::Foreign => Err(misuse(Misuse::OtherSession)),
                    operand => self.admit_inside().and_then(|()| self.operand_reference(operand, place)),
                };
                match reference {
                    Ok(reference) => Some(Arg::Ref(reference)),
                    Err(error) => {
                        self.refuse("return", place, error);
                        return;
                    }
                }
            }
        };
        let start = self.batch.len();
        self.mark(|out| encode::return_(out, arg.as_ref()));
        if self.batch.len() - start > self.bounds.frame_bytes {
            self.batch.truncate(start);
            self.commands -= 1;
            self.refuse("return", place, misuse(Misuse::TooLong));
        }
    }
}
