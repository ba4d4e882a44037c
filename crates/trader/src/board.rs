//! Boards: the interface between a trader and the offers that it keeps.
//!
//! [`Board`] has all calls of a trader; [`Memory`](crate::Memory) is the board in memory. Times are
//! milliseconds of one clock, which the caller reads; a seed is any number, a new one each time.

use std::sync::Arc;

use bifrost_wire::Digest;
use thiserror::Error;

use crate::interfaces::{BadInterface, BadService};
use crate::offer::{BadOffer, Export, Offer, OfferId};
use crate::property::Properties;
use crate::query::Query;

/// The rights of a role at a trader.
pub trait Right {
    /// Returns the name of the role; empty without roles.
    fn role(&self) -> &str;
    /// True if the role may export a service, and be found under its name.
    fn may_export(&self, service: &str) -> bool;
    /// True if the role may import a service. For others it is as one that nobody exports.
    fn may_import(&self, service: &str) -> bool;
}

/// The right to export and import everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Everything;

impl Right for Everything {
    fn role(&self) -> &str {
        ""
    }

    fn may_export(&self, _: &str) -> bool {
        true
    }

    fn may_import(&self, _: &str) -> bool {
        true
    }
}

/// A session of a trader, with its rights.
#[derive(Clone, Copy)]
pub struct Party<'r> {
    /// The rights.
    pub right: &'r dyn Right,
    /// The number of the session, which no other session has.
    pub session: u64,
}

/// A lease that was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The number of the lease, and of the offer.
    pub id: OfferId,
    /// The milliseconds within which the next renewal is due: a third of the lease.
    pub due_ms: u64,
}

/// A renewal of a lease.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Renewal {
    /// The new properties; nothing leaves them as they are. `host`, `incarnation` and `store` stay.
    pub properties: Option<Properties>,
    /// The load of the exporter; nothing leaves it as it is.
    pub load: Option<f64>,
}

/// An import.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Question {
    /// The wanted type.
    pub service: String,
    /// The digest of the importer's interface; nothing asks for no conformance.
    pub digest: Option<Digest>,
    /// The query.
    pub query: Query,
    /// The number of offers that are wanted.
    pub most: Option<u64>,
    /// The machine of the importer, to which local addresses are told.
    pub host: Option<String>,
}

/// The answer to an import.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Found {
    /// The offers, the preferred one first, doubtful ones last.
    pub offers: Vec<Offer>,
    /// True if there are others, or were not looked at.
    pub more: bool,
    /// The number of offers that were looked at.
    pub looked_at: u64,
}

/// A part of the list of all offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Page<'p> {
    /// The service; nothing lists all.
    pub service: Option<&'p str>,
    /// The machine of the reader, to which local addresses are told.
    pub host: Option<&'p str>,
    /// The offer before the first one: the last one of the page before.
    pub after: OfferId,
    /// The number of offers that are wanted.
    pub most: usize,
}

/// The number of a call of `changes` that waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaiterId(pub u64);

/// The outcome of a call of `changes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changes {
    /// The counter of the service.
    Now(u64),
    /// Nothing has changed: an [`Answer`] will come.
    Wait(WaiterId),
}

/// The answer to a call of `changes` that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The call.
    pub waiter: WaiterId,
    /// The counter of the service: the old one if the time was over.
    pub counter: u64,
}

/// An offer that is to be proved: the trader says `hello` at its addresses.
#[derive(Clone, PartialEq, Debug)]
pub struct ToProve {
    /// The offer. Its addresses are those that can be dialled from here.
    pub offer: Offer,
}

/// The reason why an export is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ExportError {
    /// A part of the offer.
    #[error(transparent)]
    Offer(#[from] BadOffer),
    /// The type.
    #[error(transparent)]
    Service(#[from] BadService),
    /// The role may not export this service.
    #[error("the role `{role}` may not export `{service}`")]
    NoRight {
        /// The role.
        role: String,
        /// The service.
        service: String,
    },
    /// A quota.
    #[error("`trader.{limit}` offers are there, which are {value}")]
    Quota {
        /// The name of the limit.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// An exclusive name, where other traders may give it again.
    #[error(
        "exclusive names need a board that all traders share, or one trader that is said to be the only one"
    )]
    NotAgreed,
    /// An exclusive name that is in use.
    #[error("`{service}` has an offer `{name}`, and one of the two is exclusive")]
    Taken {
        /// The service.
        service: String,
        /// The name.
        name: String,
    },
}

/// The reason why a renewal is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RenewError {
    /// There is no such lease any more. The exporter exports again.
    #[error("the lease has ended")]
    Gone,
    /// The properties or the load. The lease was not renewed.
    #[error(transparent)]
    Offer(#[from] BadOffer),
}

/// The reason why an import is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ImportError {
    /// The importer's interface was not taught, or is forgotten.
    #[error("the interface is not known here; teach it first")]
    UnknownInterface,
}

/// The reason why `changes` does not wait.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`trader.{limit}` calls of `changes` wait, which are {value}")]
pub struct TooManyWaits {
    /// The name of the limit.
    pub limit: &'static str,
    /// Its value.
    pub value: u64,
}

/// Offers, their leases, and questions for them.
pub trait Board {
    /// Keeps an interface, and returns its digest.
    ///
    /// # Errors
    /// No interface, too large a one, or no room.
    fn teach(&mut self, interface: &[u8]) -> Result<Digest, BadInterface>;

    /// Returns an interface that is known, as JSON.
    fn interface(&self, digest: &Digest) -> Option<Arc<[u8]>>;

    /// Adds an offer. It is listed when it is proved. It replaces an offer of the same role,
    /// incarnation, service and name, whose lease ends.
    ///
    /// # Errors
    /// See [`ExportError`].
    fn export(&mut self, party: Party<'_>, export: Export, now: u64) -> Result<Lease, ExportError>;

    /// Renews a lease, and returns the milliseconds within which the next renewal is due.
    ///
    /// # Errors
    /// See [`RenewError`].
    fn renew(&mut self, lease: OfferId, renewal: Renewal, now: u64) -> Result<u64, RenewError>;

    /// Ends a lease; false if it had ended.
    fn withdraw(&mut self, lease: OfferId, now: u64) -> bool;

    /// Finds offers, and orders them.
    ///
    /// # Errors
    /// See [`ImportError`].
    fn import(
        &mut self,
        party: Party<'_>,
        question: &Question,
        seed: u64,
        now: u64,
    ) -> Result<Found, ImportError>;

    /// Returns listed offers by number. One with only local addresses of another machine has none.
    fn offers(&mut self, party: Party<'_>, page: Page<'_>, now: u64) -> Vec<Offer>;

    /// Returns the counter of a service if it is not `since`, or if no time may pass; else waits
    /// for a change. Loads are no changes.
    ///
    /// # Errors
    /// Too many calls wait.
    fn changes(
        &mut self,
        party: Party<'_>,
        service: &str,
        since: u64,
        within_ms: u64,
        now: u64,
    ) -> Result<Changes, TooManyWaits>;

    /// Returns the answers to calls that waited. To be asked after each other call.
    fn answers(&mut self) -> Vec<Answer>;

    /// Ends what a session waits for. Its offers stay until their leases end.
    fn end_session(&mut self, session: u64);

    /// Ends leases and waits whose time is over, and returns the offers that went since the last
    /// call. To be called at [`Board::next_deadline`]: a later call is a gap, in which the trader
    /// had no time and believes that it missed renewals.
    fn expire(&mut self, now: u64) -> Vec<OfferId>;

    /// Returns the time at which `expire` and `to_prove` are to be called next.
    fn next_deadline(&self) -> u64;

    /// Notes that renewals may have been lost: nothing expires before one lease is over.
    fn distrust(&mut self, now: u64);

    /// Returns offers to prove, each once for a try.
    fn to_prove(&mut self, now: u64) -> Vec<ToProve>;

    /// Lists an offer at the addresses at which its server was found; local ones stay.
    fn proved(&mut self, id: OfferId, addresses: &[&str], now: u64);

    /// Notes that an offer's server was found at none of its addresses.
    fn not_proved(&mut self, id: OfferId, now: u64);
}
