//! The places of failures: the part that a client sees, and the failures for the server's log.

use bifrost_ir::Program;
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, PlaceList};
use bifrost_wire as wire;

use crate::replies::value_of;
use crate::session::Session;

/// Most failures that wait for the log; further ones are counted.
pub const LOGGED_FAILURES_MAX: usize = 10;

/// Most bytes of the text of a failure in the log.
const LOGGED_TEXT_BYTES_MAX: usize = 500;

/// The places of failures that a client sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shown {
    /// None.
    #[default]
    Nothing,
    /// All, with absolute paths of files cut to the file's name.
    Relative,
    /// All, with the names of files as the compiler was given them.
    Whole,
}

impl Shown {
    /// Calls a function with the places as they cross.
    pub(crate) fn with<R>(
        self,
        list: &PlaceList,
        program: &Program,
        then: impl FnOnce(wire::PlaceList<'_>) -> R,
    ) -> R {
        if self == Shown::Nothing {
            return then(wire::PlaceList::NONE);
        }
        let file = |name| if self == Shown::Whole { name } else { relative(name) };
        let places: Vec<wire::Place<'_>> = list
            .places(program)
            .map(|p| wire::Place { routine: p.routine, file: file(p.file), line: p.line })
            .collect();
        then(wire::PlaceList { places: &places, more: list.more })
    }
}

/// Returns a relative path as it is, and of an absolute one the file's name. A path is absolute
/// here if it is on any system.
fn relative(path: &str) -> &str {
    let absolute = path.starts_with(['/', '\\']) || path.get(1..2) == Some(":");
    if absolute { path.rsplit(['/', '\\']).next().unwrap_or("") } else { path }
}

/// A failure of a client's call, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedFailure {
    /// The position of the call in its batch.
    pub call: u32,
    /// The text of the failure.
    pub text: String,
    /// The lines of its places.
    pub places: Vec<String>,
}

/// The failures that wait for the log.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    failures: Vec<LoggedFailure>,
    skipped: u64,
}

impl Session {
    /// Sets the places of failures that the client sees.
    pub fn set_shown_places(&mut self, shown: Shown) {
        self.shown_places = shown;
    }

    /// Returns true if failures wait for the log.
    #[inline]
    pub fn has_logged(&self) -> bool {
        !self.logged.failures.is_empty()
    }

    /// Takes the failures that wait for the log, and the number of those beyond
    /// [`LOGGED_FAILURES_MAX`].
    pub fn take_logged(&mut self) -> (Vec<LoggedFailure>, u64) {
        let Logged { failures, skipped } = std::mem::take(&mut self.logged);
        (failures, skipped)
    }

    /// Notes a `failure` with this text for the log, and returns its places for the client. Nothing
    /// is allocated if there are none.
    pub(crate) fn note_failure(&mut self, cx: &Cx, call: u32, text: Word) -> Option<Box<PlaceList>> {
        let list = cx.places();
        if self.logged.failures.len() < LOGGED_FAILURES_MAX {
            // The value of `failure` is a string; nothing was allocated since it was signalled.
            let text = match value_of(text) {
                Some(wire::Value::Str(text)) => {
                    text[..text.floor_char_boundary(LOGGED_TEXT_BYTES_MAX)].to_owned()
                }
                _ => String::new(),
            };
            let places = list.lines(cx.image().program());
            self.logged.failures.push(LoggedFailure { call, text, places });
        } else {
            self.logged.skipped += 1;
        }
        (!list.is_empty() && self.shown_places != Shown::Nothing).then(|| Box::new(list))
    }
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn absolute_paths_are_cut_to_the_name_of_the_file() {
        for (path, seen) in [
            ("lib/stack.theta", "lib/stack.theta"),
            ("stack.theta", "stack.theta"),
            ("/home/ann/lib/stack.theta", "stack.theta"),
            ("c:\\lib\\stack.theta", "stack.theta"),
            ("\\\\host\\lib\\stack.theta", "stack.theta"),
            ("", ""),
            ("/", ""),
        ] {
            assert_eq!(relative(path), seen);
        }
    }
}
