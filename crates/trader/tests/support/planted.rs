//! A board with a planted bug, to see that the simulation finds it.

use std::sync::Arc;

use bifrost_trader::board::{
    Answer, Changes, ExportError, ImportError, Lease, Page, RenewError, Renewal, ToProve, TooManyWaits,
};
use bifrost_trader::{BadInterface, Board, Export, Found, Memory, Offer, OfferId, Party, Question};
use bifrost_wire::Digest;

/// A bug of a trader, an exporter or an importer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A renewal is acknowledged, and the lease ends all the same.
    RenewalLost,
    /// A renewal of a lease that is gone is acknowledged.
    GoneHidden,
    /// A withdrawn offer stays.
    WithdrawForgotten,
    /// A trader that restarts begins with the same numbers.
    NumbersAgain,
    /// The time of a gap is taken as any time.
    NoGap,
    /// Offers that expire together are dropped.
    NoDoubt,
    /// Offers are listed before they are proved.
    Unproved,
    /// Leases do not end.
    NeverEnds,
    /// Doubtful offers come first.
    DoubtfulFirst,
    /// Local addresses are told to all.
    LocalTold,
    /// The exporter does not export again when its lease is gone.
    GoneIgnored,
    /// The exporter does not export again when its session is gone.
    LossIgnored,
    /// The importer runs each batch again.
    RunsAgain,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 13] = [
        Bug::RenewalLost,
        Bug::GoneHidden,
        Bug::WithdrawForgotten,
        Bug::NumbersAgain,
        Bug::NoGap,
        Bug::NoDoubt,
        Bug::Unproved,
        Bug::NeverEnds,
        Bug::DoubtfulFirst,
        Bug::LocalTold,
        Bug::GoneIgnored,
        Bug::LossIgnored,
        Bug::RunsAgain,
    ];
}

/// The board in memory, with a bug or none.
#[derive(Debug)]
pub struct Planted {
    memory: Memory,
    bug: Option<Bug>,
    /// The first and the last time that was seen.
    seen: Option<(u64, u64)>,
}

impl Planted {
    pub fn new(memory: Memory, bug: Option<Bug>) -> Planted {
        Planted { memory, bug, seen: None }
    }

    fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// The time that the board sees.
    fn time(&mut self, now: u64) -> u64 {
        let (first, last) = self.seen.unwrap_or((now, now));
        self.seen = Some((first, now));
        if self.is(Bug::NoGap) && now.saturating_sub(last) < 1_000_000 {
            (last..now).step_by(500).for_each(|time| drop(self.memory.expire(time)));
        }
        if self.is(Bug::NeverEnds) { first } else { now }
    }
}

impl Board for Planted {
    fn teach(&mut self, interface: &[u8]) -> Result<Digest, BadInterface> {
        self.memory.teach(interface)
    }

    fn interface(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.memory.interface(digest)
    }

    fn export(&mut self, party: Party<'_>, export: Export, now: u64) -> Result<Lease, ExportError> {
        let now = self.time(now);
        let addresses = export.addresses.clone();
        let lease = self.memory.export(party, export, now)?;
        if self.is(Bug::Unproved) {
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            self.memory.proved(lease.id, &addresses, now);
        }
        Ok(lease)
    }

    fn renew(&mut self, lease: OfferId, renewal: Renewal, now: u64) -> Result<u64, RenewError> {
        let now = self.time(now);
        if self.is(Bug::RenewalLost) {
            return Ok(5_000);
        }
        match self.memory.renew(lease, renewal, now) {
            Err(RenewError::Gone) if self.is(Bug::GoneHidden) => Ok(5_000),
            other => other,
        }
    }

    fn withdraw(&mut self, lease: OfferId, now: u64) -> bool {
        let now = self.time(now);
        self.is(Bug::WithdrawForgotten) || self.memory.withdraw(lease, now)
    }

    fn import(
        &mut self,
        party: Party<'_>,
        question: &Question,
        seed: u64,
        now: u64,
    ) -> Result<Found, ImportError> {
        let now = self.time(now);
        let mut question = question.clone();
        if self.is(Bug::LocalTold) {
            question.host = Some("h0".into());
        }
        let mut found = self.memory.import(party, &question, seed, now)?;
        if self.is(Bug::NoDoubt) {
            found.offers.retain(|offer| !offer.doubtful);
        }
        if self.is(Bug::DoubtfulFirst) {
            found.offers.reverse();
        }
        Ok(found)
    }

    fn offers(&mut self, party: Party<'_>, page: Page<'_>, now: u64) -> Vec<Offer> {
        let now = self.time(now);
        let mut offers = self.memory.offers(party, page, now);
        if self.is(Bug::NoDoubt) {
            offers.retain(|offer| !offer.doubtful);
        }
        offers
    }

    fn changes(
        &mut self,
        party: Party<'_>,
        service: &str,
        since: u64,
        within_ms: u64,
        now: u64,
    ) -> Result<Changes, TooManyWaits> {
        let now = self.time(now);
        self.memory.changes(party, service, since, within_ms, now)
    }

    fn answers(&mut self) -> Vec<Answer> {
        self.memory.answers()
    }

    fn end_session(&mut self, session: u64) {
        self.memory.end_session(session);
    }

    fn expire(&mut self, now: u64) -> Vec<OfferId> {
        let now = self.time(now);
        self.memory.expire(now)
    }

    fn next_deadline(&self) -> u64 {
        match (self.bug, self.seen) {
            // The board's clock stands, and the trader's does not.
            (Some(Bug::NeverEnds), Some((_, last))) => last + 1_000,
            _ => self.memory.next_deadline(),
        }
    }

    fn distrust(&mut self, now: u64) {
        let now = self.time(now);
        self.memory.distrust(now);
    }

    fn to_prove(&mut self, now: u64) -> Vec<ToProve> {
        let now = self.time(now);
        self.memory.to_prove(now)
    }

    fn proved(&mut self, id: OfferId, addresses: &[&str], now: u64) {
        let now = self.time(now);
        self.memory.proved(id, addresses, now);
    }

    fn not_proved(&mut self, id: OfferId, now: u64) {
        let now = self.time(now);
        self.memory.not_proved(id, now);
    }
}
