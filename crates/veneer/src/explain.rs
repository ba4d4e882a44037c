//! Explanations of a session's batches in words, and advice that saves crossings.

use crate::session::Session;

/// Something to write otherwise; `Display` says what.
pub type Advice = bifrost_recorder::Advice<crate::Place>;

impl Session {
    /// Returns the batch that is recorded, in the text form: a line for each command that the next
    /// crossing will bring to the server. Nothing crosses for it.
    ///
    /// ```text
    /// # batch 3: 3 commands, not sent
    /// @1 := h5.fetch("eve")
    /// @2 := @1.touch()
    /// @3 := @1.visits()
    /// ```
    pub fn explain(&self) -> String {
        self.core.live.borrow_mut().recorder.explain()
    }

    /// Returns the batch that was sent last, in the text form, below a line with its account: the
    /// commands, the calls that the server ran, the fuel, the time of the answer, and what sent it.
    /// Nothing if no batch was sent.
    pub fn explain_last(&self) -> Option<String> {
        self.core.live.borrow_mut().recorder.explain_last()
    }

    /// Returns a line for each of the last batches, at most
    /// [`bifrost_recorder::ACCOUNTS`], oldest first.
    pub fn explain_batches(&self) -> Vec<String> {
        let recorder = &mut self.core.live.borrow_mut().recorder;
        let accounts: Vec<_> = recorder.accounts().copied().collect();
        accounts.iter().map(|account| recorder.account_line(account)).collect()
    }

    /// Returns what would have saved crossings in the last batches: claims that forced one again
    /// and again, claims that crossed one after the other, calls that a loop of the program
    /// recorded many times.
    pub fn advice(&self) -> Vec<Advice> {
        self.core.live.borrow_mut().recorder.advice()
    }
}
