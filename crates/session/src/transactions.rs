//! Transactions of a session: one is always under way, and `commit` and `abort` end it and begin the next.

use bifrost_cache::{Cache, NotCommitted};
use bifrost_runtime::Cx;
use bifrost_wire::{ErrorNumber, Limit};
use smallvec::SmallVec;

use crate::failures::{Failure, FailureKind};
use crate::futures::Future;
use crate::session::Session;

/// The transaction of a session.
#[derive(Debug)]
pub(crate) struct Transactions {
    /// None where all sessions share one context, and nothing is kept.
    cache: Option<Cache>,
    /// Whether it has read or changed anything, at the end of what has come last.
    busy: bool,
    /// Whether there are exceptions that the client has neither looked at nor cleared (001 section 7.1).
    pub unseen: bool,
}

impl Transactions {
    pub fn new(cache: Option<Cache>) -> Transactions {
        Transactions { cache, busy: false, unseen: false }
    }

    /// The objects that are kept, if any are.
    #[inline]
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Notes, when what has come is worked off, whether a transaction is under way.
    pub fn rest(&mut self, cx: &Cx) {
        self.busy = self.cache.as_ref().is_some_and(|cache| cache.is_busy(cx));
    }

    /// Learns what others have committed, at the start of a batch that begins a transaction.
    pub fn refresh(&self, cx: &mut Cx, first: bool) {
        if let Some(cache) = self.cache.as_ref().filter(|_| first) {
            cache.refresh(cx);
        }
    }

    /// Everything becomes what it was when the transaction began, and the next one begins without exceptions.
    pub fn abort(&mut self, cx: &mut Cx) {
        self.unseen = false;
        self.busy = false;
        if let Some(cache) = &self.cache {
            cache.abort(cx);
        }
    }

    /// Ends the transaction: nothing, or why it is aborted.
    fn commit(&mut self, cx: &mut Cx) -> Result<(), (ErrorNumber, String)> {
        let Some(cache) = &self.cache else { return Ok(()) };
        if std::mem::take(&mut self.unseen) {
            cache.abort(cx);
            return Err((ErrorNumber::Unseen, ErrorNumber::Unseen.text().to_owned()));
        }
        cache.commit(cx, None).map(|_| ()).map_err(|why| {
            let number = match &why {
                NotCommitted::Conflict => ErrorNumber::Conflict,
                NotCommitted::Volatile(_) | NotCommitted::TooMany => ErrorNumber::NotStorable,
                NotCommitted::TooManyObjects { .. } => ErrorNumber::TooManyObjects,
                NotCommitted::Store(_) => ErrorNumber::StoreFailed,
            };
            let text = match &why {
                NotCommitted::Conflict => number.text().to_owned(),
                NotCommitted::TooManyObjects { limit, .. } => {
                    let name = Limit::TransactionObjects.name();
                    format!("{}: {limit} is the limit ({name}); it is aborted", number.text())
                }
                why => format!("{}: {why}", number.text()),
            };
            (number, text)
        })
    }
}

impl Session {
    /// `commit`: the future is nil, or says why the transaction is aborted; then the rest of the batch is not run.
    pub(crate) fn commit(&mut self, cx: &mut Cx) {
        let future = match self.transactions.commit(cx) {
            Ok(()) => Future::Nothing,
            Err((number, text)) => {
                let kind = FailureKind::refused(number, text);
                let call = self.next();
                let failed = self.note(Failure { call, iterations: SmallVec::new(), kind });
                // Told by the future; the next transaction begins without exceptions.
                self.transactions.unseen = false;
                Future::Failed(failed)
            }
        };
        self.make_one(cx, future);
    }

    /// Whether a transaction has read or changed anything, and waits for its client.
    pub fn in_transaction(&self) -> bool {
        self.transactions.busy
    }

    /// Aborts the transaction because its client has left it alone for too long. The batch under way, or the next one, is not run: its
    /// client is told why.
    pub fn expire(&mut self, cx: &mut Cx) {
        if !self.in_transaction() {
            return;
        }
        let limit = Limit::TransactionIdleMs;
        self.end_batch(cx, ErrorNumber::TransactionExpired, limit);
        self.transactions.abort(cx);
    }

    /// `abort`: the future is nil.
    pub(crate) fn abort(&mut self, cx: &mut Cx) {
        self.transactions.abort(cx);
        self.make_one(cx, Future::Nothing);
    }
}
