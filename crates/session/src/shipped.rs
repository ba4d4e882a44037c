//! Batches that are transactions of their own (`docs/book/persistence.md`). Each is collected whole
//! and run. The session itself runs it again after conflicts with others. No code of the client is
//! run again, and nothing crosses.
//!
//! A named batch is done once: its reply is stored with its commit, and a client that sends it
//! again gets that.

use std::time::Duration;

use bifrost_repository::BatchId;
use bifrost_runtime::Cx;
use bifrost_wire::{BatchName, Command, Decoded, ErrorNumber, Limit, decode};
use bytes::Bytes;

use crate::failures::{NOT_KEPT, Place};
use crate::futures::Future;
use crate::handles::Freed;
use crate::procedures::Extent;
use crate::rules::{InOver, InTransaction, rule};
use crate::session::Session;
use crate::transactions::Committed;
use crate::work::Run;

/// The failure of a request to an actor in a batch that may run several times.
const NO_REQUESTS: &str = "a batch that is a transaction cannot send requests to actors, because it may run several times: use `send`, or send the request before";

/// The shortest pause before a batch is run again; each next one may be twice as long.
const PAUSE: Duration = Duration::from_millis(1);
/// The number of times that pauses double.
const PAUSES_DOUBLE: u32 = 7;

/// A batch that is a transaction.
#[derive(Debug)]
pub(crate) struct Shipped {
    batch: Option<BatchId>,
    /// The commands between `transaction` and `flush`, and `flush`.
    commands: Vec<u8>,
    /// The position of `flush` in them.
    flush: usize,
    /// Handles given back: they go when the batch has run to its end.
    frees: Vec<Freed>,
    /// The number of procedures that it defines.
    definitions: usize,
    /// The number of times that it may be run from now on, and how often it was.
    tries: u64,
    failed: u32,
    /// The number of errors before it.
    errors: u32,
    /// The procedures before it.
    procedures: Extent,
    /// Set while the session waits before it runs it again.
    pause: Option<Duration>,
}

impl Session {
    /// Returns the time for which the caller waits before it calls [`Session::handle`] again. That
    /// then runs a batch again after a conflict, or ends a `wait`; it may be called before, and is
    /// when the [waker](Session::set_waker) was. Bytes that have not been counted as used are
    /// handed in then as well.
    pub fn pause(&self) -> Option<Duration> {
        match &self.shipped {
            Some(shipped) => shipped.pause,
            None => self.rest_left(),
        }
    }

    /// Executes `transaction`: the batch is collected from here on. The future is nil if all goes
    /// well.
    pub(crate) fn ship(&mut self, cx: &mut Cx, tries: u16, batch: Option<BatchName>) {
        let batch =
            batch.map(|name| BatchId { session: self.policy.batches_of(name.client), number: name.number });
        // Only commands that neither call nor make anything may come before.
        let refused = if !self.batch.futures.is_empty() || !self.batch.failures.is_empty() {
            Some((
                ErrorNumber::InTransaction,
                "`transaction` must be the first command of a batch, before calls",
            ))
        } else if !self.transactions.end_unchanged(cx) {
            let text = "a transaction is under way that has changed something, or failed where nobody has looked: commit or abort \
                        it first";
            Some((ErrorNumber::InTransaction, text))
        } else {
            None
        };
        if let Some((number, text)) = refused {
            let unseen = self.transactions.unseen;
            let failed = self.refuse(number, text);
            // A batch that is not run does not spoil the work under way.
            self.transactions.unseen = unseen;
            return self.make_one(cx, Future::Failed(failed));
        }
        let most = self.limits.get(Limit::Tries).max(1);
        self.make_one(cx, Future::Nothing);
        self.shipped = Some(Box::new(Shipped {
            batch,
            commands: Vec::new(),
            flush: 0,
            frees: Vec::new(),
            definitions: 0,
            tries: if tries == 0 { most } else { most.min(u64::from(tries)) },
            failed: 0,
            errors: self.errors,
            procedures: self.procedures_extent(cx),
            pause: None,
        }));
    }

    /// Takes up a command of such a batch; `bytes` are those of the command. Runs the batch when it
    /// is whole.
    pub(crate) fn collect(&mut self, run: &mut Run<'_>, command: Command<'_>, bytes: &[u8]) {
        let Some(shipped) = &mut self.shipped else { return };
        let rule = rule(&command);
        match rule.transaction {
            InTransaction::Freed => {
                if let Command::Free { handles, unanswered } = command {
                    shipped.frees.extend(handles.iter().map(|handle| Freed { handle, unanswered }));
                }
            }
            InTransaction::Executed => self.execute(run, command),
            InTransaction::Runs if !self.batch.dead => {
                shipped.flush = shipped.commands.len();
                shipped.commands.extend_from_slice(bytes);
                self.run_shipped(run);
            }
            InTransaction::Runs | InTransaction::Refused => self.refuse_shipped(run, command),
            // Over a limit: nothing is kept any more.
            InTransaction::Kept if self.batch.dead => {}
            InTransaction::Kept => {
                shipped.definitions += usize::from(rule.over == InOver::SkippedProcedure);
                shipped.commands.extend_from_slice(bytes);
            }
        }
    }

    /// Drops the batch, which is not run, and executes the command that has ended it. Its client
    /// may wait for the answer.
    #[cold]
    fn refuse_shipped(&mut self, run: &mut Run<'_>, command: Command<'_>) {
        let Some(shipped) = self.shipped.take() else { return };
        let Shipped { frees, definitions, .. } = *shipped;
        if !self.batch.dead {
            self.refuse(ErrorNumber::InTransaction, ErrorNumber::InTransaction.text());
        }
        self.fail_shipped();
        // Nothing of it was done that would have to be looked at.
        self.transactions.unseen = false;
        self.undefined(definitions);
        frees.into_iter().for_each(|handle| self.free(run, handle));
        self.command(run, command);
    }

    /// The future of `transaction` becomes the failure that ended the batch.
    fn fail_shipped(&mut self) {
        let last = self.batch.failures.len().checked_sub(1).map_or(NOT_KEPT, |last| last as u32);
        if let Some(first) = self.batch.futures.first_mut() {
            *first = Future::Failed(last);
        }
    }

    /// Runs the batch again that waits for it.
    pub(crate) fn run_again(&mut self, run: &mut Run<'_>) {
        if let Some(shipped) = self.shipped.as_mut().filter(|shipped| shipped.pause.is_some()) {
            shipped.pause = None;
            self.run_shipped(run);
        }
    }

    /// Runs the batch once. Afterwards it is over, or there is a pause.
    fn run_shipped(&mut self, run: &mut Run<'_>) {
        let Some(mut shipped) = self.shipped.take() else { return };
        self.begin_try(run, &shipped);
        let Ok(Decoded::Command(Command::Flush { wanted, quiet, kept }, _)) =
            decode(&shipped.commands[shipped.flush..], usize::MAX)
        else {
            return;
        };
        match shipped.batch.map(|batch| self.transactions.outcome(batch)) {
            Some(Ok(Some(reply))) => return self.repeat(run, &reply, shipped.frees, kept),
            Some(Err(kind)) => {
                self.fail_at(Place::of(1), kind);
            }
            None | Some(Ok(None)) => {
                bifrost_actors::hold_messages(run, NO_REQUESTS);
                self.work(run, &shipped.commands[..shipped.flush]);
                if let Some(scan) = self.scan.take() {
                    self.unfinished(run, &scan);
                }
                self.join_all(run);
            }
        }
        if self.ended() {
            return bifrost_actors::leave_messages(run, false);
        }
        let mut lost = self.batch.failures.iter().any(|failure| failure.kind.is_conflict());
        let mut committed = false;
        if shipped.batch.is_none() && self.is_idle(run) {
            // Nothing was done, and no client asks for the outcome.
            committed = true;
        } else if !self.batch.dead {
            let batch = shipped.batch.map(|batch| (batch, Bytes::from(self.stored_reply(run, wanted))));
            match self.transactions.commit(run, self.tables, &self.handles, batch) {
                Ok(Committed::Now) => committed = true,
                Ok(Committed::Before(reply)) => {
                    bifrost_actors::leave_messages(run, false);
                    return self.repeat(run, &reply, shipped.frees, kept);
                }
                Err(kind) => {
                    self.forget_undone(run);
                    lost = kind.is_conflict();
                    self.fail_at(Place::of(1), kind);
                }
            }
        }
        bifrost_actors::leave_messages(run, committed);
        if lost && shipped.tries > 1 {
            shipped.tries -= 1;
            shipped.failed += 1;
            shipped.pause = Some(self.pause_after(shipped.failed));
            self.abort_transaction(run);
            self.shipped = Some(shipped);
            return;
        }
        if self.batch.dead {
            self.abort_transaction(run);
            self.fail_shipped();
        }
        shipped.frees.into_iter().for_each(|handle| self.free(run, handle));
        self.command(run, Command::Flush { wanted, quiet, kept });
    }

    /// True if the batch has done nothing that could be committed; its transaction is over then.
    fn is_idle(&mut self, cx: &mut Cx) -> bool {
        !self.batch.dead && !self.transactions.cache().is_busy(cx) && self.transactions.end_unchanged(cx)
    }

    /// Restores the state before the batch, and begins a new run.
    fn begin_try(&mut self, run: &mut Run<'_>, shipped: &Shipped) {
        self.reset_batch(run);
        self.batch.commands = 1;
        self.begin_profiled_run();
        self.errors = shipped.errors;
        self.transactions.unseen = false;
        self.forget_procedures(run, shipped.procedures);
        run.begin_next(&self.batch);
        self.make_one(run, Future::Nothing);
    }

    /// Answers a batch that was done before.
    fn repeat(&mut self, run: &mut Run<'_>, reply: &[u8], frees: Vec<Freed>, kept: Option<u8>) {
        self.abort_transaction(run);
        frees.into_iter().for_each(|handle| self.free(run, handle));
        self.replay(run, reply, kept);
    }

    /// Returns the pause, which is longer each time, and another one in each session. So sessions
    /// in conflict with each other do not meet again.
    fn pause_after(&self, failed: u32) -> Duration {
        let longest = PAUSE * (1 << failed.min(PAUSES_DOUBLE));
        // SplitMix64 (Steele, Lea, Flood 2014): as good as chance here, and the same in each run.
        let mut mixed = self.number().wrapping_add(u64::from(failed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        longest / 2 + longest.mul_f64((mixed >> 11) as f64 / (1_u64 << 54) as f64)
    }
}
