//! Explanations: the recorded batch as text, accounts of the last batches, advice that saves
//! crossings.
//!
//! [`Recorder::explain`] has the batch that is recorded, [`Recorder::explain_last`] the one before
//! it, with its [`Account`], and [`Recorder::advice`] looks at the accounts of the last
//! [`ACCOUNTS`] batches. All of it is there in every session.
//!
//! Cost: at a flush the bytes of the batch are copied, at most [`EXPLAINED_BYTES`], and at most
//! [`LOOKED_AT`] calls are counted by their places. A recorded call costs nothing. Measured by
//! `examples/explain_cost.rs`, medians on a virtual machine with two cores, in nanoseconds:
//!
//! | commands | a whole flush | of that the copy of the bytes |
//! | --- | --- | --- |
//! | 1 | 50 | 30 |
//! | 63 | 80 | 30 |
//! | 100, whose places are counted | 320 | 30 |
//! | 10,000, of which 65,536 bytes are copied | 6,000 | 1,800 |
//!
//! Up to 30 of these are the clock's own.

use std::collections::VecDeque;
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use bifrost_wire::profile::Totals;
pub use bifrost_wire::text::EXPLAINED_BYTES;
use bifrost_wire::text::{Explainer, Kept};
use bifrost_wire::{OwnedProfile, Profile, encode};

use crate::Source;
use crate::error::{Error, Misuse};
use crate::recorder::{Admission, Maker, Recorder};
use crate::slots::{Future, Slot};

/// The number of batches whose accounts are kept.
pub const ACCOUNTS: usize = 32;
/// The number of calls of a batch that are counted by their places.
pub const LOOKED_AT: usize = 512;
/// The number of times that a place has to repeat a call before it is told (Dr.Jit warns of such
/// unrolled loops, too).
const REPEATED: u32 = 64;
/// The most places of calls that are counted.
const PLACES: usize = 16;
/// A batch of so many commands or fewer has hardly been worth its crossing.
const FEW: u64 = 8;
/// The number of batches that have to end at one claim before it is told.
const AGAIN: usize = 3;

/// The end of a batch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cause<S> {
    /// A claim at a place in the source of a result that was recorded at another.
    Claim {
        /// The place of the claim.
        place: S,
        /// The place of the call whose result it was.
        recorded: S,
    },
    /// Another call of the program, as `flush`.
    Asked {
        /// Its place.
        place: S,
    },
    /// A limit, or the end of a transaction or session.
    Due,
}

/// The account of a batch that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Account<S> {
    /// Its number in the session, from 1.
    pub number: u64,
    /// Its commands.
    pub commands: u64,
    /// The reason why it was sent.
    pub cause: Cause<S>,
    /// The work of the server, if it has answered.
    pub ran: Option<Ran>,
    /// The time that the client waited for the answer, if it tells ([`Recorder::took`]).
    pub took: Option<Duration>,
    /// The maker of the claimed result.
    claimed: Option<Maker>,
    /// A call that one place repeated, and how often.
    repeated: Option<(Maker, S, u32)>,
}

/// The work of the server for a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Calls; those of loops count each time.
    pub calls: u32,
    /// Fuel: calls of the batch and rounds of its loops.
    pub fuel: u32,
    /// Failures.
    pub failures: u32,
    /// The time of the batch and its fetches, if the answer has a profile.
    pub totals: Option<Totals>,
}

/// Something to write otherwise.
#[derive(Clone, PartialEq, Debug)]
pub enum Advice<S> {
    /// Many small batches ended with one claim.
    ClaimAgain {
        /// The place of the claim.
        place: S,
        /// The call whose result it was.
        call: Arc<str>,
        /// The batches that ended with it.
        batches: usize,
        /// The batches that were looked at.
        of: usize,
    },
    /// Two claims ended two small batches, one after the other.
    ClaimsApart {
        /// The place of the first.
        first: S,
        /// The place of the second.
        second: S,
        /// The call whose result the second was.
        call: Arc<str>,
    },
    /// One place recorded a call very often in one batch.
    Repeated {
        /// The place.
        place: S,
        /// The call.
        call: Arc<str>,
        /// The number of times, at least.
        times: u32,
    },
}

impl<S: fmt::Display> fmt::Display for Advice<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::ClaimAgain { place, call, batches, of } => write!(
                f,
                "{batches} of the last {of} batches ended with the claim of `{call}` at {place}, after {FEW} commands \
                 or fewer: record the calls of all rounds before the first claim, or have the server loop with \
                 `foreach`, `while` or a procedure and bring the values back as rows of a table"
            ),
            Advice::ClaimsApart { first, second, call } => write!(
                f,
                "the claims at {first} and {second} crossed one after the other, after {FEW} commands or fewer each: \
                 record `{call}` before the first claim; if it needs the claimed value, pass it the promise"
            ),
            Advice::Repeated { place, call, times } => write!(
                f,
                "`{call}` was recorded {times} times or more at {place} in one batch: a `foreach` or `while` is \
                 recorded and sent once"
            ),
        }
    }
}

/// The bytes and accounts that are kept.
pub(crate) struct Explained<S> {
    /// The part of the batch that was sent before its end.
    sent: Kept,
    /// The last batch.
    last: Kept,
    /// The profile of the last batch, if its answer has one.
    profile: Option<OwnedProfile>,
    /// The result that is claimed, and the place of its call.
    claimed: Option<(Maker, S)>,
    cause: Cause<S>,
    accounts: VecDeque<Account<S>>,
}

impl<S> Default for Explained<S> {
    fn default() -> Self {
        Explained {
            sent: Kept::default(),
            last: Kept::default(),
            profile: None,
            claimed: None,
            cause: Cause::Due,
            accounts: VecDeque::with_capacity(ACCOUNTS),
        }
    }
}

impl<S: Source> Explained<S> {
    /// Keeps bytes of the batch that are sent before its end.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.sent.keep(bytes);
    }

    /// Notes that the program asks for the end of the batch, at a place.
    pub(crate) fn asked(&mut self, place: S) {
        self.cause = match self.claimed {
            Some((_, recorded)) => Cause::Claim { place, recorded },
            None => Cause::Asked { place },
        };
    }

    /// Notes that the batch goes on: the claim or call is not its end.
    pub(crate) fn refused(&mut self) {
        self.claimed = None;
        self.cause = Cause::Due;
    }

    /// Ends the batch, whose last bytes these are.
    pub(crate) fn end(&mut self, bytes: &[u8], number: u64, commands: u64, futures: &[Future<S>]) {
        self.keep(bytes);
        std::mem::swap(&mut self.sent, &mut self.last);
        self.sent.clear();
        self.profile = None;
        let cause = std::mem::replace(&mut self.cause, Cause::Due);
        if self.accounts.len() == ACCOUNTS {
            self.accounts.pop_front();
        }
        let claimed = self.claimed.take().map(|(made, _)| made);
        let repeated = if futures.len() >= REPEATED as usize { repeated(futures) } else { None };
        self.accounts.push_back(Account {
            number,
            commands,
            cause,
            ran: None,
            took: None,
            claimed,
            repeated,
        });
    }

    /// Notes the answer to a batch.
    pub(crate) fn ran(&mut self, number: u64, ran: Ran, profile: Option<Profile<'_>>) {
        if self.accounts.back().is_some_and(|last| last.number == number) {
            self.profile = profile.map(OwnedProfile::from);
        }
        let found = self.accounts.iter_mut().rev().find(|account| account.number == number);
        if let Some(account) = found {
            account.ran = Some(ran);
        }
    }
}

/// Returns the call that one place has made most often, if it has very often.
fn repeated<S: Source>(futures: &[Future<S>]) -> Option<(Maker, S, u32)> {
    let mut counts: [Option<(Maker, S, u32)>; PLACES] = [None; PLACES];
    for future in futures.iter().take(LOOKED_AT) {
        for count in &mut counts {
            match count {
                Some((made, place, times)) if *made == future.made && *place == future.place => *times += 1,
                Some(_) => continue,
                None => *count = Some((future.made, future.place, 1)),
            }
            break;
        }
    }
    let is_call = |made| matches!(made, Maker::Method(_) | Maker::Routine(_) | Maker::Procedure(_));
    let calls = counts.into_iter().flatten().filter(|(made, _, times)| is_call(*made) && *times >= REPEATED);
    calls.max_by_key(|(.., times)| *times)
}

impl<S: Source> Recorder<S> {
    /// Returns the batch that is recorded, a line for each command in the text form: what the next
    /// crossing will bring to the server. Handles are `h5`, results `@3`.
    pub fn explain(&mut self) -> String {
        let commands = self.commands;
        let mut text = match commands {
            0 => format!("# batch {}: nothing is recorded\n", self.batch_number),
            _ => format!("# batch {}: {commands} commands, not sent\n", self.batch_number),
        };
        let mut batch = self.explained.sent.clone();
        batch.keep(&self.batch);
        text += &self.explain_kept(&batch, None);
        text
    }

    /// Returns the batch that was sent last, a line for each command, below its account; nothing if
    /// none was. If its answer has a [profile](Recorder::profile), the account has the time at the
    /// server, and each line the cost of its command.
    pub fn explain_last(&mut self) -> Option<String> {
        let account = *self.explained.accounts.back()?;
        let mut text = format!("# {}\n", self.account_line(&account));
        let batch = std::mem::take(&mut self.explained.last);
        let profile = self.explained.profile.take();
        text += &self.explain_kept(&batch, profile.as_ref());
        (self.explained.last, self.explained.profile) = (batch, profile);
        Some(text)
    }

    /// Returns the accounts of the last batches, oldest first.
    pub fn accounts(&self) -> impl Iterator<Item = &Account<S>> {
        self.explained.accounts.iter()
    }

    /// Returns an account in words.
    pub fn account_line(&mut self, account: &Account<S>) -> String {
        let Account { number, commands, cause, ran, took, claimed, .. } = *account;
        let mut line = format!("batch {number}: {commands} commands");
        match ran {
            Some(Ran { calls, fuel, failures, totals }) => {
                let _ = write!(line, ", {calls} calls run, fuel {fuel}");
                if failures > 0 {
                    let _ = write!(line, ", {failures} failures");
                }
                if let Some(totals) = totals {
                    let _ = write!(line, ", at the server {totals}");
                }
            }
            None => line.push_str(", not answered"),
        }
        if let Some(took) = took {
            let _ = write!(line, ", answered in {:.1} us", took.as_secs_f64() * 1e6);
        }
        let _ = match (cause, claimed) {
            (Cause::Claim { place, recorded }, Some(made)) => {
                let call = self.made_name(made);
                write!(line, "; sent by the claim at {place} of `{call}`, recorded at {recorded}")
            }
            (Cause::Claim { place, .. } | Cause::Asked { place }, _) => {
                write!(line, "; sent by the call at {place}")
            }
            (Cause::Due, _) => Ok(()),
        };
        line
    }

    /// Returns what would have saved crossings in the last batches, each once; the most frequent
    /// first.
    ///
    /// It compares places and numbers of commands. It cannot know if a program needs a value before
    /// it makes the next call.
    pub fn advice(&mut self) -> Vec<Advice<S>> {
        let accounts: Vec<Account<S>> = self.explained.accounts.iter().copied().collect();
        let claim = |account: &Account<S>| match (account.cause, account.claimed) {
            (Cause::Claim { place, .. }, Some(made)) if account.commands <= FEW => Some((place, made)),
            _ => None,
        };
        let mut claims: Vec<(S, Maker, usize)> = Vec::new();
        for (place, made) in accounts.iter().filter_map(claim) {
            match claims.iter_mut().find(|known| known.0 == place) {
                Some(known) => known.2 += 1,
                None => claims.push((place, made, 1)),
            }
        }
        claims.sort_by_key(|(.., batches)| std::cmp::Reverse(*batches));
        let mut advice = Vec::new();
        for &(place, made, batches) in claims.iter().filter(|(.., batches)| *batches >= AGAIN) {
            let call = self.made_name(made);
            advice.push(Advice::ClaimAgain { place, call, batches, of: accounts.len() });
        }
        let again: Vec<S> = claims.iter().filter(|(.., n)| *n >= AGAIN).map(|(place, ..)| *place).collect();
        for pair in accounts.windows(2) {
            let (Some((first, _)), Some((second, made))) = (claim(&pair[0]), claim(&pair[1])) else {
                continue;
            };
            if first == second || again.contains(&first) && again.contains(&second) {
                continue;
            }
            let apart = Advice::ClaimsApart { first, second, call: self.made_name(made) };
            if !advice.contains(&apart) {
                advice.push(apart);
            }
        }
        for (made, place, times) in accounts.iter().filter_map(|account| account.repeated) {
            let is_known = |advice: &Advice<S>| matches!(advice, Advice::Repeated { place: known, .. } if *known == place);
            if !advice.iter().any(is_known) {
                advice.push(Advice::Repeated { place, call: self.made_name(made), times });
            }
        }
        advice
    }

    /// Notes that the stub's future is going to be claimed, which ends the batch.
    pub fn note_claim(&mut self, slot: Slot) {
        let crate::slots::Known::Future(position) = self.known(slot) else { return };
        let future = self.futures.get((position as usize).wrapping_sub(1));
        self.explained.claimed = future.map(|future| (future.made, future.place));
    }

    /// Notes the time that the client has waited for the last answer.
    pub fn took(&mut self, time: Duration) {
        let answered = self.explained.accounts.iter_mut().rev().find(|account| account.ran.is_some());
        if let Some(account) = answered.filter(|account| account.took.is_none()) {
            account.took = Some(time);
        }
    }

    /// Returns the profile of the batch that was sent last, if its answer has one.
    pub fn profile_of_last(&self) -> Option<&OwnedProfile> {
        self.explained.profile.as_ref()
    }

    /// Checks a program's wish for the profiles of its batches, or for no more of them. True if it
    /// changes anything: then ask for the [work](Recorder::due) to be done, and call
    /// [`Recorder::profile`].
    ///
    /// # Errors
    /// The session is closed, a structure is open, the batch is a transaction, or the server makes
    /// no profiles. Nothing has changed.
    pub fn profile_due(&self, on: bool) -> Result<bool, Error<S>> {
        if let Some(error) = &self.broken {
            return Err((**error).clone());
        }
        let wrong = if !self.scopes.is_empty() {
            Misuse::OpenStructure
        } else if self.shipping {
            Misuse::InTransaction
        } else if !self.bounds.profiles {
            Misuse::NoProfiles
        } else {
            return Ok(on != self.profiled);
        };
        Err(Error::Misuse(wrong))
    }

    /// Has the server measure this batch and all later ones, or no more, as the second half of
    /// [`Recorder::profile_due`]. [`Recorder::explain_last`] then has the time, the fuel and the
    /// fetches of each command outside structures, and of each structure.
    ///
    /// # Errors
    /// The command was not admitted. Nothing has changed.
    pub fn profile(&mut self, admitted: Admission<S>, on: bool) -> Result<(), Error<S>> {
        admitted.map_err(|error| (*error).clone())?;
        encode::profile(&mut self.batch, on);
        self.recorded();
        self.profiled = on;
        Ok(())
    }

    fn explain_kept(&mut self, batch: &Kept, profile: Option<&OwnedProfile>) -> String {
        let names: Vec<Arc<str>> = self.procedures.names.clone();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        Explainer::new(self.numbers.server(), &names).kept(batch, profile)
    }
}
