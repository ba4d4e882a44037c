//! The failures that the program was not told of yet, and the points where it is told.
//!
//! Every failure is *untold* at first: a signal, a call that the server refused or did not run, a
//! call or structure that was not sent. It is told by a claim that fails with it or with its
//! consequence, and by [`Recorder::exceptions`]; its consequences up to then are
//! told with it. A failure is *lost* when no stub is left whose claim would tell it.
//!
//! | point | tells, as [`Error::Unseen`] |
//! | --- | --- |
//! | a claim that has a value | lost failures |
//! | a flush | lost failures, and calls and structures that were not sent |
//! | a commit, a shipped transaction | all untold failures of it; it is not committed |
//!
//! The server keeps the same account for one bit, `Unseen`: any failure since the history was
//! cleared prevents a commit. Two commands keep both accounts equal. The first command of a batch
//! is `history clear` when all failures before it were told. A call of the error-handle before
//! `commit` stands for calls that were not sent.

use std::collections::HashMap;
use std::sync::Arc;

use bifrost_wire::{ErrorNumber, MethodNumber, Ref, encode};

use crate::Source;
use crate::error::{CallName, Error};
use crate::recorder::{HISTORY_MAX, Maker, Recorder};
use crate::slots::Extra;
use crate::under_way::Batch;

/// The address of a failure, which is no other's while the failure is here.
type Address = usize;

fn address<S>(error: &Arc<Error<S>>) -> Address {
    Arc::as_ptr(error) as Address
}

/// The account of failures.
pub(crate) struct Seen<S> {
    /// The untold failures by their addresses, which are no others' while they are here.
    untold: HashMap<Address, Untold<S>>,
    /// The consequences of an untold failure, which are told with it.
    consequences: HashMap<Address, Vec<Address>>,
    /// Untold failures beyond those.
    omitted: u64,
    /// The number of the next failure.
    order: u64,
    /// True if stubs were dropped or failures came since [`Recorder::find_lost`].
    stale: bool,
    /// The number of failures at which [`Recorder::bound_untold`] looks for lost ones.
    most: usize,
    /// The transaction being recorded, and that at the begin of the batch.
    transaction: u32,
    first_transaction: u32,
    /// True if failures of batches that were answered would prevent a commit.
    server_unseen: bool,
    /// The calls up to this position need not be told.
    forgiven: u32,
    /// Calls that were not sent, of the batch that is a transaction.
    shipped: Vec<Arc<Error<S>>>,
}

impl<S> Default for Seen<S> {
    fn default() -> Self {
        Seen {
            untold: HashMap::new(),
            consequences: HashMap::new(),
            omitted: 0,
            order: 0,
            stale: false,
            most: 0,
            transaction: 0,
            first_transaction: 0,
            server_unseen: false,
            forgiven: 0,
            shipped: Vec::new(),
        }
    }
}

struct Untold<S> {
    error: Arc<Error<S>>,
    order: u64,
    transaction: u32,
    /// True if it was not sent.
    refused: bool,
    /// True if it was inside a structure, whose stubs nobody can claim.
    inside: bool,
    /// True if a stub is left that tells it.
    claimable: bool,
}

impl<S> Seen<S> {
    /// Ends the recorded batch. Returns the transactions at its begin and its end, and the position
    /// up to which its calls need not be told.
    pub(crate) fn end_batch(&mut self) -> ((u32, u32), u32) {
        let first = std::mem::replace(&mut self.first_transaction, self.transaction);
        ((first, self.transaction), std::mem::take(&mut self.forgiven))
    }

    /// Notes that a stub with this failure is gone.
    pub(crate) fn dropped(&mut self, error: &Arc<Error<S>>) {
        if !self.untold.is_empty() && error.chain().any(|e| self.untold.contains_key(&address(e))) {
            self.stale = true;
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.untold.is_empty() && self.omitted == 0
    }

    /// True if the program was told of all failures that the server knows of the transaction being
    /// recorded.
    fn all_told(&self) -> bool {
        self.omitted == 0 && self.untold.values().all(|u| u.refused || u.transaction != self.transaction)
    }

    /// Notes that the program is told of a failure, and so of all that it follows from and of all
    /// that followed.
    fn tell(&mut self, error: &Arc<Error<S>>) {
        for one in error.chain().map(address) {
            self.untold.remove(&one);
            for consequence in self.consequences.remove(&one).into_iter().flatten() {
                self.untold.remove(&consequence);
            }
        }
    }

    /// Notes that the program is told of everything.
    fn tell_all(&mut self) {
        self.untold.clear();
        self.consequences.clear();
        self.omitted = 0;
    }

    /// Takes some of the failures out, oldest first. Consequences of others among them are not
    /// named.
    fn take(&mut self, which: impl Fn(&Untold<S>) -> bool) -> Vec<Arc<Error<S>>> {
        let taken = self.untold.values().filter(|untold| which(untold));
        let mut taken: Vec<(u64, Arc<Error<S>>)> = taken.map(|u| (u.order, u.error.clone())).collect();
        taken.sort_unstable_by_key(|(order, _)| *order);
        taken.retain(|(_, error)| {
            let named = self.untold.contains_key(&address(error));
            self.tell(error);
            named
        });
        taken.into_iter().map(|(_, error)| error).collect()
    }
}

impl<S: Source> Recorder<S> {
    /// Notes a failure of which the program is not told yet.
    fn note_untold(&mut self, error: Arc<Error<S>>, transaction: u32, refused: bool, inside: bool) {
        let order = self.seen.order;
        self.seen.order += 1;
        let untold = Untold { error: error.clone(), order, transaction, refused, inside, claimable: true };
        self.seen.untold.insert(address(&error), untold);
        self.seen.stale = true;
    }

    /// Keeps the number of lost failures bounded, when the stubs of all failures are there.
    #[inline]
    pub(crate) fn bound_untold(&mut self) {
        if self.seen.untold.len() > self.seen.most.max(2 * HISTORY_MAX) {
            self.find_lost();
            self.seen.most = 2 * self.seen.untold.len();
        }
    }

    /// Notes a call or structure that was not sent.
    pub(crate) fn note_refusal(&mut self, error: Arc<Error<S>>) {
        self.bound_untold();
        if self.shipping {
            self.seen.shipped.push(error.clone());
        }
        self.note_untold(error, self.seen.transaction, true, !self.scopes.is_empty());
    }

    /// Notes a failure that the server has told of, by the position of its call in its batch.
    pub(crate) fn note_failure(&mut self, error: &Arc<Error<S>>, batch: &Batch<S>, position: u32) {
        if position <= batch.forgiven {
            return;
        }
        let causes = error.chain().skip(1).map(address);
        if let Some(first) = causes.filter(|cause| self.seen.untold.contains_key(cause)).last() {
            self.seen.consequences.entry(first).or_default().push(address(error));
        }
        let transaction = batch.transaction_at(position);
        self.note_untold(error.clone(), transaction, false, false);
    }

    /// Notes failures that the server has only counted.
    pub(crate) fn note_omitted(&mut self, count: u32) {
        self.seen.omitted += u64::from(count);
    }

    /// Tells the program of a failure, and so of all that it follows from.
    pub fn tell(&mut self, error: &Arc<Error<S>>) {
        if !self.seen.untold.is_empty() {
            self.seen.tell(error);
            self.attend();
        }
    }

    /// Tells the program of everything.
    pub(crate) fn tell_all(&mut self) {
        self.seen.tell_all();
        self.attend();
    }

    /// Marks the failures of the calls up to now as told, and those that are still to come of them.
    pub(crate) fn forgive(&mut self) {
        self.tell_all();
        self.seen.forgiven = self.futures.len() as u32;
        self.under_way.iter_mut().for_each(|batch| batch.forgiven = u32::MAX);
    }

    /// Finds the failures that no stub is left to tell. Keeps as many of them as the history has.
    fn find_lost(&mut self) {
        if !std::mem::take(&mut self.seen.stale) {
            return;
        }
        let untold = &mut self.seen.untold;
        untold.values_mut().for_each(|untold| untold.claimable = false);
        for extra in &self.extras {
            let Extra::Failed(error) = extra else { continue };
            for one in error.chain() {
                if let Some(untold) = untold.get_mut(&address(one)) {
                    untold.claimable = !untold.inside;
                }
            }
        }
        let mut lost: Vec<u64> = untold.values().filter(|u| !u.claimable).map(|u| u.order).collect();
        if lost.len() > HISTORY_MAX {
            lost.sort_unstable();
            let from = lost.get(HISTORY_MAX).copied().unwrap_or(u64::MAX);
            untold.retain(|_, u| u.claimable || u.order < from);
            self.seen.omitted += (lost.len() - HISTORY_MAX) as u64;
        }
    }

    /// Tells of the failures that are lost, and, with `refused`, of all that was not sent.
    ///
    /// # Errors
    /// These failures, as [`Error::Unseen`].
    ///
    /// Cost where there is none: a comparison.
    #[inline]
    pub fn surface(&mut self, refused: bool) -> Result<(), Error<S>> {
        match self.is_all_told() {
            true => Ok(()),
            false => self.surface_slowly(refused),
        }
    }

    /// True if there is no failure of which the program was not told.
    #[inline]
    pub fn is_all_told(&self) -> bool {
        self.seen.is_empty()
    }

    #[cold]
    fn surface_slowly(&mut self, refused: bool) -> Result<(), Error<S>> {
        self.find_lost();
        // A consequence of a failure that a stub tells is lost all the same: its effects are
        // missing.
        let failures = self.seen.take(|u| !u.claimable || (refused && u.refused));
        let omitted = std::mem::take(&mut self.seen.omitted);
        self.attend();
        if failures.is_empty() && omitted == 0 {
            return Ok(());
        }
        Err(Error::Unseen { failures: failures.into(), omitted, call: None })
    }

    /// Returns the error of a commit or a transaction that the server refused for unseen failures:
    /// it names them. They are told with it.
    pub(crate) fn unseen(&mut self, call: CallName<S>, through: u32) -> Option<Error<S>> {
        let failures = self.seen.take(|u| u.transaction <= through);
        let omitted = std::mem::take(&mut self.seen.omitted);
        let some = !failures.is_empty() || omitted > 0;
        some.then(|| Error::Unseen { failures: failures.into(), omitted, call: Some(call) })
    }

    /// As [`Recorder::unseen`], of the transaction being recorded.
    pub(crate) fn unseen_now(&mut self, call: CallName<S>) -> Option<Error<S>> {
        match self.seen.server_unseen && !self.seen.all_told() {
            true => self.unseen(call, self.seen.transaction),
            false => None,
        }
    }

    /// Notes an error of a commit, which stands for the failures that it names.
    pub(crate) fn note_unseen(&mut self, error: &Arc<Error<S>>, batch: &Batch<S>, position: u32) {
        let transaction = batch.transaction_at(position);
        self.note_untold(error.clone(), transaction, true, false);
    }

    // The server's part of the account.

    /// True if the next command is to be `history clear`.
    #[inline]
    pub(crate) fn must_clear(&self) -> bool {
        self.seen.server_unseen
            && self.commands == 0
            && self.scopes.is_empty()
            && !self.shipping
            // Failures of batches under way are not told yet.
            && self.under_way.is_empty()
            && self.seen.all_told()
    }

    /// Records `history clear`, if it is due.
    pub(crate) fn clear_told(&mut self) {
        if self.must_clear() {
            self.record_clear();
        }
    }

    /// Records `history clear`.
    pub(crate) fn record_clear(&mut self) {
        encode::history(&mut self.batch, true);
        self.recorded();
        self.server_cleared();
    }

    /// Notes that the server's history is cleared with the next command.
    pub(crate) fn server_cleared(&mut self) {
        self.seen.server_unseen = false;
        self.attend();
    }

    /// True if calls that were not sent prevent the commit of the transaction being recorded.
    fn is_prevented(&self) -> bool {
        self.seen.untold.values().any(|u| u.refused && u.transaction == self.seen.transaction)
    }

    /// True if a flush is due before a commit is recorded.
    pub(crate) fn commit_needs_flush(&self) -> bool {
        match self.is_prevented() {
            // The call and the commit belong into one batch.
            true => {
                self.futures.len() + 2 > self.attention_futures || self.commands + 3 > self.bounds.commands
            }
            // Told in the middle of a batch, whose own failures must not be cleared with them.
            false => self.seen.server_unseen && self.seen.all_told(),
        }
    }

    /// Makes sure that a commit behind the recorded commands is refused if any failure was not
    /// seen, and only then.
    pub(crate) fn before_commit(&mut self, place: S) {
        if self.is_prevented() {
            encode::call(&mut self.batch, MethodNumber(0), Ref::NONE, &[]);
            self.recorded();
            let refused = self.new_result(Maker::Refused, place);
            self.release(refused);
        } else {
            self.clear_told();
        }
    }

    /// Ends the transaction at the current place of recording, and begins the next one. Returns the
    /// number of the one that ended.
    pub(crate) fn next_transaction(&mut self) -> u32 {
        let ended = self.seen.transaction;
        self.seen.transaction = ended.wrapping_add(1);
        ended
    }

    /// Notes that a batch was answered.
    pub(crate) fn answered(&mut self, failures: bool) {
        self.seen.server_unseen |= failures;
        self.seen.stale = true;
    }

    /// Takes out the calls of the batch that is a transaction that were not sent; the program is
    /// told of them.
    pub(crate) fn take_shipped_refusals(&mut self) -> Vec<Arc<Error<S>>> {
        let refusals = std::mem::take(&mut self.seen.shipped);
        refusals.iter().for_each(|error| self.tell(error));
        refusals
    }

    /// Returns the order of the next failure, from which all can be told with
    /// [`Recorder::tell_since`].
    pub fn mark_seen(&self) -> u64 {
        self.seen.order
    }

    /// Tells the program of all failures since a [mark](Recorder::mark_seen).
    pub fn tell_since(&mut self, mark: u64) {
        self.seen.take(|u| u.order >= mark);
        self.attend();
    }
}

/// True if an error number says that failures were not seen.
pub(crate) fn is_unseen(number: u32) -> bool {
    number == ErrorNumber::Unseen as u32
}
