//! Transactions of a session: one is always under way, and `commit` and `abort` end it and begin
//! the next.

use bifrost_cache::{Cache, NotCommitted};
use bifrost_repository::{BatchId, Error, REPLY_BYTES_MAX};
use bifrost_runtime::{Cx, Object, Overtaken};
use bifrost_wire::{ErrorNumber, Limit, mention};
use bytes::Bytes;

use crate::failures::FailureKind;
use crate::futures::Future;
use crate::handles::Handles;
use crate::replies::seen_as;
use crate::session::Session;
use crate::tables::Tables;

/// The result of a commit that does not fail.
pub(crate) enum Committed {
    /// The transaction was committed.
    Now,
    /// The batch was committed before: its reply.
    Before(Bytes),
}

/// Returns the text about a conflict for a client. It names an object that others have changed, one
/// that the client knows if there is one.
pub(crate) fn conflict_text(tables: &Tables, overtaken: &[Overtaken], handles: &Handles) -> String {
    // Clients know types, and no classes.
    // SAFETY: nothing was collected since it was found that these objects are overtaken.
    let seen_as = |one: &Overtaken| seen_as(tables, unsafe { Object::new(one.object) });
    let known = overtaken.iter().find_map(|one| Some((one, handles.find(one.object)?)));
    let object = match (known, overtaken.first()) {
        (Some((one, handle)), _) => format!("`{}` ({})", seen_as(one), mention(handle)),
        (None, Some(one)) => format!("a `{}`", seen_as(one)),
        (None, None) => return ErrorNumber::Conflict.text().to_owned(),
    };
    format!(
        "another session has changed {object}, which the transaction has read; the transaction is aborted"
    )
}

/// The transaction of a session.
#[derive(Debug)]
pub(crate) struct Transactions {
    cache: Cache,
    /// True if it has read or changed an object, when the last bytes were handled.
    busy: bool,
    /// True if there are exceptions that the client has neither looked at nor cleared (001 section
    /// 7.1).
    pub unseen: bool,
}

impl Transactions {
    pub fn new(cache: Cache) -> Transactions {
        Transactions { cache, busy: false, unseen: false }
    }

    /// Returns the persistent objects.
    #[inline]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Notes, when the bytes that have come are handled, if a transaction is under way.
    pub fn rest(&mut self, cx: &Cx) {
        self.busy = self.cache.is_busy(cx);
    }

    /// Learns the commits of others, at the start of a batch that begins a transaction.
    pub fn refresh(&self, cx: &mut Cx, first: bool) {
        if first {
            self.cache.refresh(cx);
        }
    }

    /// Restores all objects to the state when the transaction began; the next one begins without
    /// exceptions.
    pub fn abort(&mut self, cx: &mut Cx) {
        self.unseen = false;
        self.busy = false;
        self.cache.abort(cx);
    }

    /// Restores all objects to the state when the transaction began. Exceptions that the client has
    /// not looked at stay so.
    pub fn undo(&mut self, cx: &mut Cx) {
        self.cache.abort(cx);
    }

    /// Ends a transaction that has changed nothing and has no exceptions to look at; returns false
    /// if there is more to it.
    pub fn end_unchanged(&mut self, cx: &mut Cx) -> bool {
        let unchanged = !self.unseen && cx.doomed().is_none() && cx.changed().next().is_none();
        if unchanged {
            self.busy = false;
            self.cache.end(cx);
        }
        unchanged
    }

    /// Ends a transaction that has changed nothing and that others have overtaken. Exceptions that
    /// the client has not looked at end with it.
    pub fn end_overtaken(&mut self, cx: &mut Cx) {
        self.busy = false;
        self.unseen = false;
        self.cache.end(cx);
    }

    /// Returns the reply of a batch that was committed before, if it was; or the reason why that is
    /// unknown.
    pub fn outcome(&self, batch: BatchId) -> Result<Option<Bytes>, FailureKind> {
        self.cache.schema().repository().outcome(batch).map_err(|error| {
            let number = match error {
                Error::Forgotten { .. } => ErrorNumber::Repeated,
                _ => ErrorNumber::StoreFailed,
            };
            refusal(number, self.cache.schema().tell(&error))
        })
    }

    /// Ends the transaction, or returns the reason why it is not committed. A doomed one does not
    /// end.
    pub fn commit(
        &mut self,
        cx: &mut Cx,
        tables: &Tables,
        handles: &Handles,
        batch: Option<(BatchId, Bytes)>,
    ) -> Result<Committed, FailureKind> {
        // A doomed transaction stays until its client aborts it.
        let doomed = cx.doomed().is_some();
        let unseen = std::mem::take(&mut self.unseen);
        if unseen && !doomed {
            self.cache.abort(cx);
            return Err(FailureKind::refused(ErrorNumber::Unseen, ErrorNumber::Unseen.text()));
        }
        if !doomed && batch.as_ref().is_some_and(|(_, reply)| reply.len() > REPLY_BYTES_MAX) {
            self.cache.abort(cx);
            let text = format!("the reply of a batch with a number has at most {REPLY_BYTES_MAX} bytes");
            return Err(FailureKind::refused(ErrorNumber::ReplyTooLong, text));
        }
        match self.cache.commit(cx, batch) {
            Ok(_) => Ok(Committed::Now),
            Err(NotCommitted::Repeated(reply)) => Ok(Committed::Before(reply)),
            Err(why) => Err(self.not_committed(&why, tables, handles)),
        }
    }

    /// Returns the refusal of a transaction that the cache has not committed. Only here its errors
    /// get numbers.
    fn not_committed(&self, why: &NotCommitted, tables: &Tables, handles: &Handles) -> FailureKind {
        match why {
            NotCommitted::Conflict(overtaken) => {
                FailureKind::refused(ErrorNumber::Conflict, conflict_text(tables, overtaken, handles))
            }
            NotCommitted::Doomed(doom) => {
                FailureKind::refused(ErrorNumber::Doomed, format!("{} ({doom})", ErrorNumber::Doomed.text()))
            }
            NotCommitted::TooManyObjects { limit, .. } => {
                let name = Limit::TransactionObjects.name();
                refusal(ErrorNumber::TooManyObjects, format!("{limit} is the limit ({name}); it is aborted"))
            }
            NotCommitted::Volatile(_) | NotCommitted::TooMany => refusal(ErrorNumber::NotStorable, why),
            NotCommitted::Repeated(_) | NotCommitted::OutOfOrder { .. } => {
                refusal(ErrorNumber::Repeated, why)
            }
            NotCommitted::Store(error) => refusal(ErrorNumber::StoreFailed, self.cache.schema().tell(error)),
        }
    }
}

/// Makes a refusal with the text of its number and a reason.
fn refusal(number: ErrorNumber, why: impl std::fmt::Display) -> FailureKind {
    FailureKind::refused(number, format!("{}: {why}", number.text()))
}

impl Session {
    /// Executes `commit`. The future is nil, or says why the transaction is aborted; then the rest
    /// of the batch is not run.
    pub(crate) fn commit(&mut self, cx: &mut Cx) {
        // The failure of a request is an exception as any other.
        self.join_all(cx);
        let future = match self.transactions.commit(cx, self.tables, &self.handles, None) {
            Ok(_) => Future::Nothing,
            Err(kind) => {
                self.forget_undone(cx);
                let failed = self.fail_here(kind);
                // Told by the future; the next transaction begins without exceptions.
                self.transactions.unseen = false;
                Future::Failed(failed)
            }
        };
        self.make_one(cx, future);
    }

    /// True if a transaction has read or changed anything, and waits for its client.
    pub fn in_transaction(&self) -> bool {
        self.transactions.busy
    }

    /// Aborts the transaction because its client has left it alone for too long. The batch under
    /// way, or the next one, is not run: its client is told why.
    pub fn expire(&mut self, cx: &mut Cx) {
        if !self.in_transaction() {
            return;
        }
        self.exceed(ErrorNumber::TransactionExpired, Limit::TransactionIdleMs);
        self.abort_transaction(cx);
    }

    /// Executes `abort`: the future is nil.
    pub(crate) fn abort(&mut self, cx: &mut Cx) {
        // Objects that answers bring are of the transaction that asked.
        self.join_all(cx);
        self.abort_transaction(cx);
        self.make_one(cx, Future::Nothing);
    }

    /// Aborts the transaction, and forgets the objects that it has made.
    pub(crate) fn abort_transaction(&mut self, cx: &mut Cx) {
        self.transactions.abort(cx);
        self.forget_undone(cx);
    }
}
