//! Explanations of batches in words, their profiles, and advice.
//!
//! The texts of all functions here live in one place of the session: each call ends the text of the
//! one before.

use std::fmt::Display;

use crate::abi::{Chars, Place};
use crate::error::{Status, text};
use crate::session::{Session, enter, enter_own};

/// Keeps a text with the session, and returns it.
fn explained(session: &mut Session, words: String) -> Chars {
    session.explained = text(words);
    Chars::new(&session.explained)
}

fn lines(all: impl Iterator<Item = impl Display>) -> String {
    all.map(|one| format!("{one}\n")).collect()
}

/// Returns the batch that is recorded, a line for each command in the text form: what the next
/// crossing brings to the server. The text lives until this or another function of explanations is
/// called again.
#[unsafe(no_mangle)]
pub extern "C" fn bf_explain(session: Option<&mut Session>) -> Chars {
    enter(session, Chars::new(c""), |session| {
        let words = session.recorder.explain();
        explained(session, words)
    })
}

/// Returns the batch that was sent last, with its account, as `bf_explain`; empty if none was. With
/// a profile (`bf_profile`) each line ends with the time, the fuel and the fetches of its command.
#[unsafe(no_mangle)]
pub extern "C" fn bf_explain_last(session: Option<&mut Session>) -> Chars {
    enter(session, Chars::new(c""), |session| {
        let words = session.recorder.explain_last().unwrap_or_default();
        explained(session, words)
    })
}

/// Returns a line for each of the last batches, 32 at most, oldest first, as `bf_explain`: their
/// commands, calls, fuel and times, and what sent them.
#[unsafe(no_mangle)]
pub extern "C" fn bf_explain_batches(session: Option<&mut Session>) -> Chars {
    enter(session, Chars::new(c""), |session| {
        let recorder = &mut session.recorder;
        let accounts: Vec<_> = recorder.accounts().copied().collect();
        let words = lines(accounts.iter().map(|account| recorder.account_line(account)));
        explained(session, words)
    })
}

/// Returns a line for each thing that would have saved crossings in the last batches, as
/// `bf_explain`: claims that forced one again and again, claims that crossed one after the other,
/// calls that a loop of the program recorded many times. Empty if there is nothing to say.
#[unsafe(no_mangle)]
pub extern "C" fn bf_advice(session: Option<&mut Session>) -> Chars {
    enter(session, Chars::new(c""), |session| {
        let words = lines(session.recorder.advice().iter());
        explained(session, words)
    })
}

/// Has the server measure this batch and all later ones, or no more. `bf_explain_last` then has the
/// time, the fuel and the fetches of each command outside structures, and of each structure.
///
/// Fails inside a structure, in a transaction, and if the server makes no profiles. Nothing has
/// changed then.
#[unsafe(no_mangle)]
pub extern "C" fn bf_profile(session: Option<&mut Session>, on: bool, place: Place) -> Status {
    enter_own(session, place, |session| {
        let profiled = match session.recorder.profile_due(on) {
            Ok(true) => {
                let admitted = session.admit();
                session.recorder.profile(admitted, on)
            }
            unchanged => unchanged.map(drop),
        };
        session.status(profiled)
    })
}
