//! Failures: what the program was told with a status, and the history.

use std::ptr::{from_ref, null};

use crate::abi::{Chars, Place, Values};
use crate::error::{Failure, Status};
use crate::session::{Session, enter};

/// Returns the failure of which the program was told last; null if there was none. It lives until
/// the next function of the session fails, `bf_error_clear`, or the next run of its service.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_last(session: Option<&mut Session>) -> *const Failure {
    enter(session, null(), |session| session.failure.as_deref().map_or(null(), from_ref))
}

/// Forgets the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_clear(session: Option<&mut Session>) {
    enter(session, (), |session| session.failure = None);
}

/// Returns the kind of a failure itself; that of the first one is its status.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_kind(error: Option<&Failure>) -> Status {
    error.map_or(Status::Ok, |error| error.kind)
}

/// Returns the status with which the program was told of a failure: the kind of its root.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_status(error: Option<&Failure>) -> Status {
    error.map_or(Status::Ok, |error| error.status)
}

/// Returns a text for people, with all causes and places.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_message(error: Option<&Failure>) -> Chars {
    error.map_or(Chars::new(c"no error"), Failure::text)
}

/// Returns the name of the exception, or of the missing method; empty for others.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_name(error: Option<&Failure>) -> Chars {
    error.map_or(Chars::new(c""), Failure::name)
}

/// Returns the call that failed, as `DataBase.fetch`; empty if it is not known.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_call(error: Option<&Failure>) -> Chars {
    error.map_or(Chars::new(c""), Failure::call)
}

/// Returns the place where the program made the call that failed; null and 0 if it is not known.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_place(error: Option<&Failure>) -> Place {
    error.map_or(Place::NONE, Failure::place)
}

/// Returns the number of an error of the server (`docs/spec/wire.md`), or the argument that failed:
/// 0 is the receiver.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_number(error: Option<&Failure>) -> u32 {
    error.map_or(0, |error| error.number)
}

/// Returns the values of the exception. An object is no stub here: `bf_signal_items` gives stubs.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_values(error: Option<&Failure>) -> Values {
    error.map_or(Values::NONE, |error| Values::new(error.values()))
}

/// Returns the rounds of the loops around the call, outermost first: puts their number in `count`.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_rounds(error: Option<&Failure>, count: &mut usize) -> *const u32 {
    *count = error.map_or(0, |error| error.rounds.len());
    error.map_or(null(), |error| error.rounds.as_ptr())
}

/// Returns the failure from which one follows: that of an argument, or the reason why a call was
/// not sent. Null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_cause(error: Option<&Failure>) -> *const Failure {
    error.and_then(|error| error.cause.as_deref()).map_or(null(), from_ref)
}

/// Returns the failure from which one follows at last: itself if it has no cause.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_root(error: Option<&Failure>) -> *const Failure {
    error.map_or(null(), |error| from_ref(error.root()))
}

/// Returns the number of failures that one of the kind `BF_E_UNSEEN` names.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_parts(error: Option<&Failure>) -> usize {
    error.map_or(0, |error| error.parts.len())
}

/// Returns one of those, from 0; null if there are not as many.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_part(error: Option<&Failure>, index: usize) -> *const Failure {
    error.and_then(|error| error.parts.get(index)).map_or(null(), from_ref)
}

/// Returns the number of failures beyond those that one of the kind `BF_E_UNSEEN` names.
#[unsafe(no_mangle)]
pub extern "C" fn bf_error_omitted(error: Option<&Failure>) -> u64 {
    error.map_or(0, |error| error.omitted)
}

/// Reads all failures of flushed batches, and all calls that were not sent, since the history was
/// last cleared; returns their number. The program is told of them with it, so they do not prevent
/// a commit any more.
#[unsafe(no_mangle)]
pub extern "C" fn bf_exceptions(session: Option<&mut Session>) -> usize {
    enter(session, 0, |session| {
        session.history = session.recorder.exceptions().iter().map(|e| Failure::of(&e.error)).collect();
        session.history.len()
    })
}

/// Returns a failure that `bf_exceptions` has read, oldest first, from 0. It lives until that is
/// called again.
#[unsafe(no_mangle)]
pub extern "C" fn bf_exception(session: Option<&mut Session>, index: usize) -> *const Failure {
    enter(session, null(), |session| session.history.get(index).map_or(null(), from_ref))
}

/// Returns the number of failures beyond those that `bf_exceptions` reads.
#[unsafe(no_mangle)]
pub extern "C" fn bf_exceptions_omitted(session: Option<&mut Session>) -> u64 {
    enter(session, 0, |session| session.recorder.exceptions_omitted())
}

/// Clears the history, here and at the server: the failures of the calls up to now count as told.
/// Not inside a structure.
#[unsafe(no_mangle)]
pub extern "C" fn bf_exceptions_clear(session: Option<&mut Session>, place: Place) {
    enter(session, (), |session| session.clear_exceptions(place));
}
