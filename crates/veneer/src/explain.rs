//! Explanations of a session's batches in words, their profiles, and advice that saves crossings.

use bifrost_wire::OwnedProfile;

use crate::Error;
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
    ///
    /// With a [profile](Session::profile) the first line has the time at the server and the fetches
    /// of objects, and each command and structure its cost:
    ///
    /// ```text
    /// # batch 3: 3 commands, 2 calls run, fuel 2, at the server 84.2 us, 2 fetches, 9 objects; ...
    /// @1 := h5.fetch("eve")  # 61.0 us, 1 calls, fuel 1, 2 fetches, 9 objects
    /// @2 := @1.visits()  # 3.4 us, 1 calls, fuel 1
    /// flush # wants @1 to @2
    /// ```
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

    /// Has the server measure the batch that is recorded and all later ones, or no more. From then
    /// on the answers have profiles: the time, the calls, the fuel and the fetches of each command
    /// outside structures, and of each structure. Nothing crosses for it at once.
    ///
    /// The server's limit `profile_entries_max` bounds the commands of a batch that are listed; the
    /// others are added up. A measured command costs the server two readings of its clock.
    ///
    /// # Errors
    /// The session is closed, a structure is open, the batch is a transaction, or the server makes
    /// no profiles. Nothing has changed.
    pub fn profile(&self, on: bool) -> Result<(), Error> {
        let live = &mut *self.core.live.borrow_mut();
        match live.recorder.profile_due(on)? {
            true => {
                let admitted = live.admit();
                live.recorder.profile(admitted, on)
            }
            false => Ok(()),
        }
    }

    /// Returns the profile of the batch that was sent last, if its answer has come and has one.
    pub fn profile_of_last(&self) -> Option<OwnedProfile> {
        self.core.live.borrow().recorder.profile_of_last().cloned()
    }

    /// Returns what would have saved crossings in the last batches: claims that forced one again
    /// and again, claims that crossed one after the other, calls that a loop of the program
    /// recorded many times.
    pub fn advice(&self) -> Vec<Advice> {
        self.core.live.borrow_mut().recorder.advice()
    }
}
