//! Transactions, waits, live batches.

use bifrost_wire::BatchName;

use crate::abi::{Place, Ref, Refs};
use crate::error::{Failure, Status};
use crate::live::Live;
use crate::session::{Session, enter, enter_own};

/// The way to run a batch that is a transaction. All zero is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The greatest number of runs; 0 for as many as the server allows.
    pub tries: u16,
    /// True if the batch has a name: the server does it once, however often it is sent under it.
    pub named: bool,
    /// 128 random bits of the client's own, the low half first.
    pub client: [u64; 2],
    /// The number of the batch, which grows with each batch of the client.
    pub number: u64,
}

impl Session {
    /// Begins a batch that is a transaction of its own.
    pub(crate) fn begin_transaction(&mut self, how: Option<&How>, place: Place) -> Status {
        let named = how.filter(|how| how.named).map(|how| BatchName {
            client: u128::from(how.client[1]) << 64 | u128::from(how.client[0]),
            number: how.number,
        });
        let begun = self
            .synchronize("transaction", place)
            .and_then(|()| self.recorder.begin_transaction(how.map_or(0, |how| how.tries), named, place));
        match begun {
            Ok(done) => {
                self.shipping = Some(done);
                Status::Ok
            }
            Err(error) => self.told(&error),
        }
    }

    /// True if a batch is recorded that is a transaction.
    pub(crate) fn is_shipping(&self) -> bool {
        self.shipping.is_some()
    }

    /// Sends the batch that is a transaction, and waits until it is committed.
    pub(crate) fn end_transaction(&mut self, place: Place) -> Status {
        let Some(done) = self.shipping.take() else {
            return self.failed(Failure::new(Status::InTransaction, "no transaction was begun", place));
        };
        while self.recorder.depth() > 0 {
            self.recorder.abandon_for(bifrost_recorder::Misuse::LeftOpen);
        }
        let refusals = self.recorder.end_transaction_batch();
        let flushed = self.synchronize("transaction", place);
        let outcome = flushed.and_then(|()| self.recorder.claim(done));
        let finished = self.recorder.finish_transaction(outcome, refusals, place);
        self.recorder.release(done);
        self.status(finished)
    }

    /// Has the server refuse the batch that is a transaction, if there is one.
    pub(crate) fn abandon_transaction(&mut self) {
        let Some(done) = self.shipping.take() else { return };
        while self.recorder.depth() > 0 {
            self.recorder.abandon();
        }
        self.recorder.abandon_transaction();
        let _ = self.flush();
        self.recorder.tell_transaction();
        self.recorder.release(done);
    }
}

/// Records the commit of the transaction. Returns a promise of nil: it is kept when all changes are
/// durable. Otherwise everything is as it was when the transaction began, and the commands behind
/// the commit are not run. Not inside a structure.
///
/// Failures of the transaction that the program was not told of prevent the commit (`BF_E_UNSEEN`).
#[unsafe(no_mangle)]
pub extern "C" fn bf_commit(session: Option<&mut Session>, place: Place) -> Ref {
    enter(session, Ref::NONE, |session| {
        let admitted = session.admit_commit();
        let recorded = session.recorder.commit(admitted, place);
        session.result(recorded, place)
    })
}

/// Records the abort of the transaction: everything becomes as it was when it began. Returns a
/// promise of nil. Not inside a structure.
#[unsafe(no_mangle)]
pub extern "C" fn bf_abort(session: Option<&mut Session>, place: Place) -> Ref {
    enter(session, Ref::NONE, |session| {
        let admitted = session.admit();
        let recorded = session.recorder.abort(admitted, place);
        session.result(recorded, place)
    })
}

/// Records a wait of at most so many milliseconds until another session has committed a change to
/// an object that the transaction has read. Returns a promise of a bool: true if one has.
#[unsafe(no_mangle)]
pub extern "C" fn bf_wait(session: Option<&mut Session>, ms: u32, place: Place) -> Ref {
    enter(session, Ref::NONE, |session| {
        let admitted = session.admit();
        let recorded = session.recorder.wait(admitted, ms, place);
        session.result(recorded, place)
    })
}

/// Begins a batch that is a transaction of its own: flushes, and records what follows up to
/// `bf_transaction_end`. Nothing can be claimed in between. `how` may be null.
///
/// If it fails, nothing was begun.
#[unsafe(no_mangle)]
pub extern "C" fn bf_transaction_begin(
    session: Option<&mut Session>,
    how: Option<&How>,
    place: Place,
) -> Status {
    enter_own(session, place, |session| session.begin_transaction(how, place))
}

/// Sends the batch, and waits until it is committed. If other transactions conflict with it, the
/// server runs it again by itself.
///
/// If it fails, nothing of it was done. Only if the connection is lost (`BF_E_CLOSED`) or the store
/// has failed, it may have been done all the same.
#[unsafe(no_mangle)]
pub extern "C" fn bf_transaction_end(session: Option<&mut Session>, place: Place) -> Status {
    enter_own(session, place, |session| session.end_transaction(place))
}

/// Ends a batch that is a transaction, whose recording was left by an exception of the program: the
/// server refuses it.
#[unsafe(no_mangle)]
pub extern "C" fn bf_transaction_abandon(session: Option<&mut Session>) {
    enter(session, (), Session::abandon_transaction);
}

/// Makes a live batch: a batch that is recorded again whenever its results may have changed. It is
/// to be given to `bf_live_free` before the session ends.
#[unsafe(no_mangle)]
pub extern "C" fn bf_live() -> *mut Live {
    Box::into_raw(Box::default())
}

/// Begins to record a run. Changes must be committed or aborted before.
#[unsafe(no_mangle)]
pub extern "C" fn bf_live_begin(live: &mut Live, session: Option<&mut Session>, place: Place) -> Status {
    enter_own(session, place, |session| live.begin(session, place))
}

/// Ends the run with the stubs of its results: sends it, and waits until another session has
/// changed an object that the last run has read. `BF_SAME` if the results are those of the last
/// run: record another one. A failure of a call is told once, and the next change makes the next
/// result.
#[unsafe(no_mangle)]
pub extern "C" fn bf_live_end(
    live: &mut Live,
    session: Option<&mut Session>,
    mut results: Refs,
    place: Place,
) -> Status {
    let results = results.get();
    enter_own(session, place, |session| live.finish(session, results, place))
}

/// Frees a live batch.
#[unsafe(no_mangle)]
pub extern "C" fn bf_live_free(live: &mut Live, session: Option<&mut Session>) {
    // SAFETY: `bf_live` has made it as a box, and the program does not use it again (the header).
    let live = unsafe { Box::from_raw(live) };
    enter(session, (), |session| live.close(&mut session.recorder));
}
