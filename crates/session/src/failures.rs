//! The failures of a batch, and the history of them (001 section 7.1).

use std::collections::VecDeque;

use bifrost_ir::{SignalId, TypeId, Types};
use bifrost_runtime::PlaceList;
use bifrost_runtime::abi::Word;
use bifrost_wire::ErrorNumber;
use smallvec::SmallVec;

use crate::tables::Tables;

/// A call that did not give its results, or a structure that did not run to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The place of the call.
    pub place: Place,
    /// The kind of failure.
    pub kind: FailureKind,
}

/// The place of a call in a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The position of the call's first future.
    pub call: u32,
    /// The round of each loop around it, from the outermost.
    pub iterations: SmallVec<[u32; 4]>,
}

impl Place {
    /// The place of a call outside loops.
    pub fn of(call: u32) -> Place {
        Place { call, iterations: SmallVec::new() }
    }
}

/// The position of a failure beyond the limit, which no list has.
pub const NOT_KEPT: u32 = u32::MAX;

impl Failure {
    /// Makes the failure of a call outside loops.
    pub fn of(call: u32, kind: FailureKind) -> Failure {
        Failure { place: Place::of(call), kind }
    }

    /// Puts nil in the place of the objects among the values of which `undone` says that an aborted
    /// transaction made them. Returns true if there are some.
    pub(crate) fn forget(&mut self, tables: &Tables, undone: impl Fn(Word) -> bool) -> bool {
        let FailureKind::Signal { values, .. } = &mut self.kind else { return false };
        let mut found = false;
        for (word, ty) in values.iter_mut().filter(|(_, ty)| !tables.is_basic(*ty)) {
            if undone(*word) {
                (*word, *ty) = (0, Types::NULL);
                found = true;
            }
        }
        found
    }

    /// Returns the objects among the values of an exception.
    fn objects(&self, tables: &Tables) -> impl Iterator<Item = Word> {
        let values = match &self.kind {
            FailureKind::Signal { values, .. } => values.as_slice(),
            _ => &[],
        };
        values.iter().filter(|(_, ty)| !tables.is_basic(*ty)).map(|(word, _)| *word)
    }
}

/// The ways in which a call fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// It signalled an exception.
    Signal {
        /// The exception.
        name: SignalId,
        /// Its values, with their types.
        values: SmallVec<[(Word, TypeId); 2]>,
        /// The places of a `failure`, if the client sees them.
        places: Option<Box<PlaceList>>,
    },
    /// It was not run: an argument (0 is the receiver) is the result of a call that failed.
    Unhandled {
        /// The position of the argument.
        argument: u32,
        /// The number of batches back to the one in which the call failed.
        back: u8,
        /// The call that failed; 0 if the client named none.
        cause: u32,
    },
    /// It was refused.
    Refused {
        /// The reason, as a number.
        number: ErrorNumber,
        /// The reason in words.
        text: String,
    },
}

impl FailureKind {
    /// A refusal with its text. A text with a long name in it is cut, because the history keeps it.
    pub fn refused(number: ErrorNumber, text: impl Into<String>) -> FailureKind {
        let mut text: String = text.into();
        if text.len() > TEXT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text.push_str("...");
            text.shrink_to_fit();
        }
        FailureKind::Refused { number, text }
    }

    /// True if others have changed objects that the transaction has read.
    pub fn is_conflict(&self) -> bool {
        matches!(self, FailureKind::Refused { number: ErrorNumber::Conflict, .. })
    }
}

/// Most bytes of a refusal's text.
const TEXT_BYTES_MAX: usize = 500;

/// The exceptions since the client last cleared them, oldest first. The history is bounded, and
/// dropped ones are counted.
#[derive(Debug, Default)]
pub struct History {
    /// Each with the number of its batch.
    pub kept: VecDeque<(u64, Failure)>,
    /// The number of exceptions that were dropped, the oldest first.
    pub omitted: u64,
}

impl History {
    /// Adds a batch's failures, keeping the newest `most`. `roots` are the objects among the values
    /// of those that are kept, in their order.
    pub fn add(
        &mut self,
        batch: u64,
        failures: impl IntoIterator<Item = Failure>,
        most: usize,
        tables: &Tables,
        roots: &mut Vec<Word>,
    ) {
        for failure in failures {
            if self.kept.len() >= most {
                if let Some((_, oldest)) = self.kept.pop_front() {
                    roots.drain(..oldest.objects(tables).count());
                }
                self.omitted += 1;
            }
            roots.extend(failure.objects(tables));
            self.kept.push_back((batch, failure));
        }
    }

    /// Returns the exceptions that are kept.
    pub(crate) fn failures_mut(&mut self) -> impl Iterator<Item = &mut Failure> {
        self.kept.iter_mut().map(|(_, failure)| failure)
    }

    /// Returns the objects among their values, in their order.
    pub(crate) fn objects(&self, tables: &Tables) -> impl Iterator<Item = Word> {
        self.kept.iter().flat_map(|(_, failure)| failure.objects(tables))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = History::default();
    }
}
