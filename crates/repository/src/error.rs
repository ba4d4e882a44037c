//! The errors of operations.

use std::io;

use bytes::Bytes;

use crate::{Oref, Tid, record};

/// The reason why the store failed. The store is as it was before, unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller that began it has stopped it.
    #[error("the operation was stopped")]
    Stopped,
    /// Reading or writing failed.
    #[error("{what} failed: {source}; check the disk")]
    Io {
        /// The operation, in words.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The log could not grow; nothing was stored, and the store goes on.
    #[error("the log cannot grow: {source}; free space and retry")]
    NoRoom {
        /// The system's error.
        source: io::Error,
    },
    /// A write or its synchronisation failed. The outcome of the commit under way is known when the
    /// store has been opened again: ask for the outcome of the batch.
    #[error(
        "writing failed ({reason}); the store is now read-only, and the commits under way are in doubt: \
            repair the disk, open the store again, and request the outcome"
    )]
    InDoubt {
        /// The system's error, and its place.
        reason: String,
    },
    /// An earlier failure; nothing of this request is stored.
    #[error(
        "the store is read-only since an earlier failure ({reason}): repair the disk, and open the \
        store again"
    )]
    ReadOnly {
        /// The failure.
        reason: String,
    },
    /// The bytes in the store are not those that were written.
    #[error("the store is damaged: {what}; restore the store from a copy")]
    Damaged {
        /// The finding, and its place.
        what: String,
    },
    /// The state of an object is not the one that was written, or not there any more.
    #[error("object {oref} is lost: {what}; restore the store from a copy")]
    Object {
        /// The object.
        oref: Oref,
        /// The finding, as text.
        what: &'static str,
    },
    /// Written by another version of the program, or no store at all.
    #[error(
        "the store has format {found}, and this program reads {known}: {}",
        if found < known { "dump the store with the program that made it, and load the dump with this \
            program" } else { "use a newer program" }
    )]
    Format {
        /// The number found.
        found: u64,
        /// The number that this program writes.
        known: u64,
    },
    /// A store that another process is filling, or was when it ended.
    #[error(
        "a dump is being loaded into the database, or loading was interrupted: wait, or load the dump \
            again, half a minute after the loading process has ended"
    )]
    Unfinished,
    /// A database that is to get a store has one.
    #[error("the database has a store already: use another database or another schema")]
    Occupied,
    /// A store in a database is asked for a copy.
    #[error("a store in a database is copied with the tools of the database, as `pg_dump`")]
    NoSnapshot,
    /// A backup is malformed.
    #[error("the backup cannot be used: {what}")]
    Backup {
        /// The fault.
        what: String,
    },
    /// Another process has the store open.
    #[error("another process{} has the store open: end that process, or use another folder", .process.map_or(String::new(), |id| format!(" ({id})")))]
    Locked {
        /// Its number, if it has said so.
        process: Option<u32>,
    },
    /// A place without a name.
    #[error("a store is a folder, the URL of a database, or `memory:`, and not an empty text")]
    NoPlace,
    /// A database that is somewhere else, and how it is reached.
    #[error("the database's address cannot be used: {reason}")]
    Address {
        /// The fault of the address. Nothing of the address is repeated, for it may hold a
        /// password.
        reason: &'static str,
    },
    /// The database shows no certificate that is trusted for its name. Nothing was sent to it.
    #[error(
        "the database's certificate is not trusted ({reason}): name the file with the certificate of its \
            issuer as `sslrootcert=FILE`, and use the name of the database in its certificate"
    )]
    Untrusted {
        /// The fault of the certificate.
        reason: String,
    },
    /// The database cannot be reached, or does not get to it. Nothing of this request is stored.
    #[error("the database does not answer ({reason}): retry later")]
    Away {
        /// The last failure.
        reason: String,
    },
    /// The connection was lost while a commit was under way, and the database did not come back in
    /// time to be asked.
    #[error(
        "the database was lost during a commit ({reason}): the commit is in doubt; request the outcome of \
            the batch when the database is reachable"
    )]
    Uncertain {
        /// The last failure.
        reason: String,
    },
    /// The database refused a statement. Nothing of this request is stored.
    #[error("the database refuses: {reason}")]
    Database {
        /// The database's message.
        reason: String,
    },
    /// The tables of a database are not those of a store.
    #[error(
        "the database has tables that do not belong to a store: {what}; use another database or another \
            schema"
    )]
    NotAStore {
        /// The database's message.
        what: String,
    },
    /// The database took this process's place among those that use the store. It was silent while
    /// another one collected garbage. The objects that it holds may be gone.
    #[error(
        "this process gave no sign of life for too long, and its objects may be freed: start the process \
            again"
    )]
    Lost,
    /// An object's bytes are no record.
    #[error("object {oref} cannot be read: {source}; restore the store from a copy")]
    Record {
        /// The object.
        oref: Oref,
        /// The fault of its record.
        source: record::RecordError,
    },
    /// Something is larger than the store allows.
    #[error("{what} is {value}; the limit is {limit}")]
    Limit {
        /// The thing that is too large.
        what: &'static str,
        /// Its size.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A later batch of the same session was committed, and only the last one's reply is kept.
    #[error("the reply of that batch is no longer stored; the last batch of the session is {last}")]
    Forgotten {
        /// The last batch of that session.
        last: u64,
    },
}

impl Error {
    /// Returns the failure without places in files and without messages of the system or the
    /// database, as a text for clients.
    pub fn told(&self) -> &'static str {
        match self {
            Error::NoRoom { .. } => "the store has no space for the commit; nothing was stored",
            Error::InDoubt { .. } | Error::Uncertain { .. } => {
                "the commit is in doubt: request the outcome of the batch"
            }
            Error::ReadOnly { .. } => "the store is read-only since an earlier failure",
            Error::Damaged { .. } | Error::Record { .. } => "the store is damaged",
            Error::Away { .. } => "the database does not answer: retry later",
            Error::Forgotten { .. } => "the reply of that batch is no longer stored",
            Error::Limit { .. } => "a value exceeds a limit of the store",
            _ => "the store has failed",
        }
    }
}

/// The reason why a commit was not done. Nothing of it is stored, except perhaps with
/// [`Error::InDoubt`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Others have written objects that the transaction read. Drop `orefs`, apply all changes up to
    /// `upto`, and start again.
    #[error("{} of the objects read were written by others up to commit {upto}: run the transaction again", orefs.len())]
    Conflict {
        /// The objects, each once, in order.
        orefs: Vec<Oref>,
        /// Every commit up to here was looked at, and is visible.
        upto: Tid,
    },
    /// The transaction began before the changes that the store remembers. Drop the whole cache and
    /// start again at `upto`.
    #[error("the transaction began before the stored changes: run it again from commit {upto}")]
    TooOld {
        /// The last commit that is visible.
        upto: Tid,
    },
    /// The batch was committed before; its reply.
    #[error("the batch was committed before")]
    Repeated(Bytes),
    /// A later batch of the session was committed before; this one is not done.
    #[error("batch {last} of the same session was committed before; numbers must increase")]
    OutOfOrder {
        /// The last batch of that session.
        last: u64,
    },
    /// The commit is not well formed: a fault of the caller.
    #[error("the commit is not well formed: {0}")]
    Invalid(&'static str),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
