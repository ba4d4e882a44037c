//! The requests of a guest that are not joined.

use bifrost_ir::MethodRef;
use bifrost_runtime::abi::Word;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::object::{Answer, Party};

/// The number of requests that a guest may have open, unless it is set.
const OPEN_MAX: usize = 10_000;

/// The place of a request, for messages to its client about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The number of the call, as the session counts.
    pub call: u32,
    /// The rounds of the loops around it.
    pub rounds: SmallVec<[u32; 4]>,
}

/// A request whose answer was not joined.
#[derive(Debug)]
pub(crate) struct Open {
    pub(super) asked: Asked,
    pub(super) method: MethodRef,
    /// True if the answer's value is a reference.
    pub(super) reference: bool,
    pub(super) wanted: Wanted,
    pub(super) answer: Option<Answer>,
}

/// The part of an answer that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// All: it will be joined.
    Answer,
    /// Only an exception: then it will be joined at the end of the batch.
    Failure,
    /// Nothing: the message is of the past form, or its batch is over.
    Nothing,
    /// Nothing, and the tasks that have the message know it: its failure is no news.
    Cancelled,
}

/// The most exceptions that are kept for the end of a batch.
pub(crate) const FAILURES_MAX: usize = 10_000;

/// The numbers of the calls of a structure, as its client counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// From this number on.
    After(u32),
    /// All have this number.
    At(u32),
}

/// The part of a context that asks actors for a client.
#[derive(Debug)]
pub(crate) struct Guest {
    /// The object to which the answers go, of
    /// [`Kind::Client`](bifrost_runtime::actor_layout::Kind::Client), once there was a request.
    pub(super) client: Option<Party>,
    pub(super) next: u64,
    pub(super) open: FxHashMap<u64, Open>,
    /// The number of them that have no answer.
    pub(super) missing: usize,
    pub(super) open_max: usize,
    /// The number of exceptions that wait for the end of the batch.
    pub(super) failures: usize,
    /// The numbers of the calls of the structure that runs.
    pub(super) base: Base,
    /// The reason for which nothing may be asked now.
    pub(super) closed: Option<&'static str>,
}

impl Default for Guest {
    fn default() -> Guest {
        Guest {
            client: None,
            next: 1,
            open: FxHashMap::default(),
            missing: 0,
            open_max: OPEN_MAX,
            failures: 0,
            base: Base::After(0),
            closed: None,
        }
    }
}

impl Guest {
    /// True if nothing may be asked now.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Returns the objects that it keeps alive; some may be 0.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Word> {
        let answers = self.open.values().filter_map(|open| match open.answer? {
            Answer::Exception(kept) => Some(kept.word()),
            Answer::Value(word) => open.reference.then_some(word),
        });
        answers.chain(self.client.map(|client| client.word()))
    }
}
