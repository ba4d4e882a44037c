//! The reasons why objects are not stored, and why a record is no object.
//!
//! Read [`NotCommitted`] first. A failed commit has three types, one for each floor: the
//! repository's [`CommitError`], [`NotCommitted`] here, and one of the caller. The caller is the
//! program, which gets a [`NotKept`], or a session, whose floor has the numbers of errors.

use bifrost_heap::{HeapFull, NUMBER_MAX};
use bifrost_repository::record::RecordError;
use bifrost_repository::{CommitError, Error, Oref};
use bifrost_runtime::content::Unfit;
use bifrost_runtime::{Doom, NotKept, Overtaken, changed_by_others};
use bytes::Bytes;

use crate::counters::{Counter, Counters};
use crate::schema::Schema;

/// Most objects that are named after one conflict.
pub const OVERTAKEN_MAX: usize = 64;

/// The reason why a transaction was not committed. It is aborted, unless it is doomed: everything
/// is as it was when it began.
#[derive(Debug, thiserror::Error)]
pub enum NotCommitted {
    /// Code was ended from outside, perhaps in the middle of a method. The transaction stays as it
    /// is until it is aborted.
    #[error("a method may have been interrupted ({0}); the transaction can only be aborted")]
    Doomed(Doom),
    /// Others have changed objects that it has read: those that are still here, at most
    /// [`OVERTAKEN_MAX`].
    #[error("{}", changed_by_others(.0))]
    Conflict(Vec<Overtaken>),
    /// It would store an object that cannot be.
    #[error(transparent)]
    Volatile(#[from] Volatile),
    /// The context has as many persistent objects as it can number.
    #[error("the session's cache has {NUMBER_MAX} objects; this is the limit")]
    TooMany,
    /// It has read and made more objects than a transaction may.
    #[error("it reads and makes {count} objects; the limit is {limit}")]
    TooManyObjects {
        /// The number of objects.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The batch was committed before: its reply.
    #[error("the batch was committed before")]
    Repeated(Bytes),
    /// A later batch of the same client was committed before.
    #[error("batch {last} of the same client was committed before; numbers must increase")]
    OutOfOrder {
        /// The number of the last batch.
        last: u64,
    },
    /// The repository failed. Only then may something be stored ([`Error::InDoubt`],
    /// [`Error::Uncertain`]).
    #[error(transparent)]
    Store(#[from] Error),
}

impl NotCommitted {
    /// Converts the repository's error. `overtaken` describes an object if it is still here.
    pub(crate) fn of(error: CommitError, overtaken: impl Fn(&Oref) -> Option<Overtaken>) -> NotCommitted {
        match error {
            CommitError::Conflict { orefs, .. } => {
                NotCommitted::Conflict(orefs.iter().filter_map(overtaken).take(OVERTAKEN_MAX).collect())
            }
            CommitError::TooOld { .. } => NotCommitted::Conflict(vec![]),
            CommitError::Repeated(reply) => NotCommitted::Repeated(reply),
            CommitError::OutOfOrder { last } => NotCommitted::OutOfOrder { last },
            CommitError::Store(error) => NotCommitted::Store(error),
            other => unreachable!("commits of a cache are well formed: {other}"),
        }
    }

    /// Returns the counter of such transactions.
    pub(crate) fn counter<'c>(&self, counters: &'c Counters) -> &'c Counter {
        match self {
            NotCommitted::Conflict(_) => &counters.conflicts,
            NotCommitted::Repeated(_) | NotCommitted::OutOfOrder { .. } => &counters.repeated,
            NotCommitted::Store(_) => &counters.failed,
            NotCommitted::Volatile(_)
            | NotCommitted::TooMany
            | NotCommitted::TooManyObjects { .. }
            | NotCommitted::Doomed(_) => &counters.refused,
        }
    }

    /// Converts the error for the program whose transaction it was.
    pub(crate) fn for_program(&self, schema: &Schema) -> NotKept {
        match self {
            NotCommitted::Conflict(_)
            | NotCommitted::Volatile(_)
            | NotCommitted::TooMany
            | NotCommitted::TooManyObjects { .. } => NotKept::Refused(self.to_string()),
            NotCommitted::Store(error) => NotKept::Failed(schema.tell(error)),
            // The last two are errors of batches, and a program's transaction is none.
            NotCommitted::Doomed(_) | NotCommitted::Repeated(_) | NotCommitted::OutOfOrder { .. } => {
                NotKept::Failed(self.to_string())
            }
        }
    }
}

/// The reason why an object cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object of `{class}` cannot be stored: {why}")]
pub struct Volatile {
    /// Its class.
    pub class: String,
    /// The property that prevents it.
    pub why: String,
}

/// The reason why a record cannot be an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Full(#[from] HeapFull),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("{0}")]
    Other(String),
}
