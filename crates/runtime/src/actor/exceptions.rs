//! Exceptions on their way to who awaits a reply: objects of the heap until they are raised again.

use bifrost_ir::{SignalId, Signature, TypeId, Types};
use smallvec::SmallVec;

use super::Due;
use super::layout::{exception, join};
use crate::abi::{Ret, VALUES_MAX, Word};
use crate::cx::Cx;
use crate::object::{self, get, set};

/// Exceptions that nobody awaited.
pub(super) unsafe fn log_all(cx: *mut Cx, running: Word) {
    // SAFETY: promised by the caller.
    unsafe {
        let mut kept = get(running, join::EXCEPTIONS);
        while kept != 0 {
            if get(kept, exception::SIGNAL) & exception::RAISED == 0 {
                (*cx).log_lost(kept);
            }
            kept = get(kept, exception::NEXT);
        }
    }
}

/// Enters an exception that came at once instead of a reply.
///
/// # Safety
/// `running` is a join, `kept` an exception.
pub unsafe fn note_exception(running: Word, kept: Word, due: Due) {
    // SAFETY: promised by the caller.
    unsafe {
        set(kept, exception::DUE, due.word());
        set(kept, exception::NEXT, get(running, join::EXCEPTIONS));
        set(running, join::EXCEPTIONS, kept);
    }
}

/// What becomes of an exception that a wait concerns.
#[derive(Clone, Copy, Debug)]
pub struct Concerned {
    /// It may be raised.
    pub raised: bool,
    /// It stays in the join: the variable has no value, and may be read elsewhere.
    pub stays: bool,
}

/// The exception to raise at a wait: of those that may be raised the one of the first request. `concerns` gets for each exception what it is
/// due to, and whether it was raised before. Those that the wait concerns are forgotten, unless they stay.
///
/// # Safety
/// `running` is a join.
pub unsafe fn first_exception(
    running: Word,
    concerns: &dyn Fn(Due, bool) -> Option<Concerned>,
) -> Option<Word> {
    // SAFETY: promised by the caller.
    unsafe {
        let (mut first, mut kept, mut others) = (0, get(running, join::EXCEPTIONS), 0);
        let due = |kept: Word| Due::from_word(get(kept, exception::DUE));
        while kept != 0 {
            let next = get(kept, exception::NEXT);
            let name = get(kept, exception::SIGNAL);
            let concerned = concerns(due(kept), name & exception::RAISED != 0);
            if let Some(Concerned { raised, .. }) = concerned {
                if raised && (first == 0 || due(kept).request() < due(first).request()) {
                    first = kept;
                }
                set(kept, exception::SIGNAL, name | exception::RAISED);
            }
            if concerned.is_none_or(|concerned| concerned.stays) {
                set(kept, exception::NEXT, others);
                others = kept;
            }
            kept = next;
        }
        set(running, join::EXCEPTIONS, others);
        (first != 0).then_some(first)
    }
}

impl Cx {
    /// Keeps the exception under way as an object, which the caller keeps. `signature` is the heading that it came by.
    pub fn kept_exception(&mut self, signature: &Signature) -> Word {
        let id = self.signalled();
        let types: SmallVec<[TypeId; 4]> = match signature.signal(id) {
            Some(signal) => signal.values.iter().copied().collect(),
            None if id == SignalId::FAILURE => [Types::STRING].into_iter().collect(),
            None => SmallVec::new(),
        };
        let image = self.image().clone();
        let references = types.iter().enumerate();
        let references = references.fold(0, |all, (at, ty)| all | u32::from(image.is_reference(*ty)) << at);
        let values: SmallVec<[Word; VALUES_MAX]> = SmallVec::from_slice(&self.signal_values[..types.len()]);
        let words: SmallVec<[Word; VALUES_MAX]> =
            (0..types.len()).filter(|at| references >> at & 1 == 1).map(|at| values[at]).collect();
        let _kept = self.keep_all(&words);
        let made = self.alloc_beyond(image.exception_table(references), exception::VALUES + types.len());
        // SAFETY: the object was just made with so many fields.
        unsafe {
            set(made, exception::SIGNAL, u64::from(id.as_u32()));
            for (at, value) in values.iter().enumerate() {
                set(made, exception::VALUES + at, *value);
            }
        }
        made
    }

    /// Signals an exception that was kept.
    pub fn raise_kept(&mut self, kept: Word) -> Ret {
        // SAFETY: `kept` was made by `kept_exception`.
        unsafe {
            self.signal_id = get(kept, exception::SIGNAL) & !exception::RAISED;
            for at in 0..object::fields(kept) - exception::VALUES {
                self.signal_values[at] = get(kept, exception::VALUES + at);
            }
        }
        Ret::SIGNALLED
    }

    /// Says that nobody takes an exception.
    pub fn log_lost(&mut self, kept: Word) {
        // SAFETY: `kept` was made by `kept_exception`, and `failure` carries a string.
        let text = unsafe {
            let id = SignalId::from_u32(get(kept, exception::SIGNAL) as u32);
            let name = self.image().program().types.signal_name(id).to_owned();
            let told = id == SignalId::FAILURE && object::fields(kept) > exception::VALUES;
            match told {
                true => format!("{name}(\"{}\")", object::text(get(kept, exception::VALUES))),
                false => name,
            }
        };
        self.actors.stats.lost_exceptions += 1;
        self.actors.log(&format!("nobody awaits the exception {text}"));
    }
}
