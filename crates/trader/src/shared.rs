//! Offers that several traders share: the interface between a trader and the place where they are.
//!
//! Each trader keeps its own board in memory, and answers from it. It writes the offers that it has
//! listed itself to the shared place, and learns those of other traders from there
//! ([`Memory::learn`](crate::Memory::learn)). So a trader needs the shared place for news only.
//!
//! | event | effect |
//! | --- | --- |
//! | an own offer is listed, changes, goes | [`Shared::put`], [`Shared::remove`] |
//! | an exclusive name is exported | [`Shared::claim`], before the board has the offer |
//! | another trader's offer comes, changes, goes | [`Listener::listed`], [`Listener::gone`] |
//! | the shared place is out of reach | [`Shared::is_reachable`] is false, and no offer expires |

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;

use crate::offer::{Export, Offer, OfferId};
use crate::property::names;

/// An offer as traders share it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stored {
    /// The role of its exporter.
    pub role: String,
    /// True if no other offer may have its service and name.
    pub exclusive: bool,
    /// Its lease, in milliseconds.
    pub lease_ms: u64,
    /// The names under which it is listed.
    pub names: Vec<String>,
    /// The offer; its number is that at its trader.
    pub offer: Offer,
}

/// A change of an own offer, which is to be written.
#[derive(Clone, PartialEq, Debug)]
pub enum Written {
    /// The offer is listed, or has changed.
    Put(Box<Stored>, Option<Arc<[u8]>>),
    /// It is gone.
    Gone(OfferId),
}

/// A name that one exporter may have at a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Exclusive {
    /// The service.
    pub service: String,
    /// The name of the object.
    pub name: String,
    /// The exporter: its role and its incarnation.
    pub exporter: String,
}

impl Exclusive {
    /// Returns the name of an export, if it is exclusive. The exporter must have an incarnation, so
    /// that it is known when it exports again.
    ///
    /// # Errors
    /// [`ClaimError::NoIncarnation`]
    pub fn of(role: &str, export: &Export) -> Result<Option<Exclusive>, ClaimError> {
        if !export.exclusive {
            return Ok(None);
        }
        let incarnation = export.properties.get(names::INCARNATION).ok_or(ClaimError::NoIncarnation)?;
        let exporter = format!("{role}/{}", incarnation.to_text());
        Ok(Some(Exclusive { service: export.service.clone(), name: export.name.clone(), exporter }))
    }
}

/// The reason why an exporter does not get an exclusive name.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ClaimError {
    /// Another exporter has it.
    #[error("`{service}` has another exporter of the exclusive name `{name}`")]
    Taken {
        /// The service.
        service: String,
        /// The name.
        name: String,
    },
    /// The traders cannot agree at the moment.
    #[error("exclusive names cannot be given while the board of all traders is out of reach: {0}")]
    OutOfReach(String),
    /// The exporter cannot be told from others.
    #[error("an exporter of an exclusive name needs the property `incarnation`")]
    NoIncarnation,
}

/// A trader, as the shared place tells it of other traders' offers. Keys are those of offers there.
pub trait Listener: Send + Sync {
    /// An offer is there, or has changed. `interface` is its interface as JSON.
    fn listed(&self, key: &str, stored: Stored, interface: Option<Arc<[u8]>>);

    /// An offer is gone. Without `is_sure` it may have been lost with the shared place, and stays
    /// for the rest of a lease.
    fn gone(&self, key: &str, is_sure: bool);

    /// These are all offers; others are gone, but not surely.
    fn all(&self, keys: &BTreeSet<String>);

    /// An own offer has lost its exclusive name to another exporter.
    fn lost(&self, offer: OfferId);
}

/// A place where traders share their offers.
pub trait Shared: Send + Sync {
    /// Begins to tell a trader of offers.
    fn listen(&self, listener: Box<dyn Listener>);

    /// Writes an own offer; does not wait for it.
    fn put(&self, stored: Stored, interface: Option<Arc<[u8]>>);

    /// Takes an own offer away; does not wait for it.
    fn remove(&self, offer: OfferId);

    /// Claims a name for an exporter, and waits until it is sure.
    ///
    /// # Errors
    /// See [`ClaimError`].
    fn claim(&self, name: &Exclusive) -> Result<(), ClaimError>;

    /// Says that the name belongs to an own offer, with which it ends; nothing lets the name go.
    fn bind(&self, name: &Exclusive, offer: Option<OfferId>);

    /// True if the shared place answers.
    fn is_reachable(&self) -> bool;
}
