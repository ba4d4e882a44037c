//! Imports: sessions with servers that a trader knows.
//!
//! [`import`] is the function to read first: it asks the traders of a URL, connects to a server of
//! the service, and looks the object up. [`Builder::connect`] takes such URLs too. [`Service`]
//! keeps a session, and goes on with another server when its own is lost.
//!
//! ```text
//! search    the threads around `bifrost_trader::importer`: traders are asked, servers dialled
//! dial      connection, greeting and look-up on a thread
//! service   runs with a server, and the rule after its loss
//! watch     changes at the traders: servers that are new
//! ```
//!
//! Of an offer's addresses those of this machine come first (`shm`, `unix`), then the others as
//! listed. The next one is tried after 250 ms, and then the next offer; the first that answers
//! counts. The URL is of one of these forms (`bifrost_trader::url`):
//!
//! ```text
//! trader://host[:7450]/DataBase?region=eu&prefer=min(load)#sha256-...     over TLS
//! trader+tcp://127.0.0.1:7450/DataBase?...
//! trader+unix:///run/trader?service=DataBase&...
//! trader:///DataBase?...                             the traders in BIFROST_TRADER
//! ```
//!
//! Two tokens: that for the traders is [`Builder::trader_token`] or BIFROST_TRADER_TOKEN, that for
//! the server is [`Builder::token`]. A server that a trader has named is shown the token only where
//! nobody can read it on the way.

mod dial;
mod search;
mod service;
mod watch;

use std::sync::Arc;

use bifrost_recorder::Stubs;

use crate::error::ConnectError;
use crate::live::Way;
use crate::session::{Builder, Session};
use crate::stubs::Object;
use crate::trader::Offer;

use dial::Lookup;

pub use search::{ATTEMPTS_MAX, Attempt, ImportError, Search, TRADER_TOKEN, TRADERS, TRADERS_MAX};
pub use service::{RUNS_MAX, Service, ServiceError};

/// The server of a session that was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    offer: Arc<Offer>,
    address: Arc<str>,
}

impl Imported {
    pub(crate) fn new(offer: Arc<Offer>, address: Arc<str>) -> Imported {
        Imported { offer, address }
    }

    /// Returns the name under which the object is found there.
    pub fn name(&self) -> &str {
        &self.offer.name
    }

    /// Returns the address of the server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the offer.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    pub(crate) fn shared_offer(&self) -> &Arc<Offer> {
        &self.offer
    }
}

/// Imports a service: connects to a server that the traders of a URL know, and returns the session
/// and the object.
///
/// # Errors
/// See [`ConnectError`].
pub fn import<T: Object>(url: &str) -> Result<(Session, T), ConnectError> {
    Session::builder(stubs_of::<T>()).import(url)
}

/// As [`import`], with a session to be awaited.
///
/// # Errors
/// See [`ConnectError`].
#[cfg(feature = "async")]
pub async fn import_async<T: Object + Send>(url: &str) -> Result<(Session, T), ConnectError> {
    Session::builder(stubs_of::<T>()).import_async(url).await
}

/// Returns the stubs that a type was generated with. A built-in type has none, and is no service.
const fn stubs_of<T: Object>() -> &'static Stubs {
    const {
        match T::STUBS {
            Some(stubs) => stubs,
            None => panic!("a built-in type is no service: import a type of generated stubs"),
        }
    }
}

impl Builder {
    /// Sets the token for traders. Default: that of the variable `BIFROST_TRADER_TOKEN`.
    pub fn trader_token(mut self, token: impl Into<String>) -> Builder {
        self.trader_token = Some(token.into());
        self
    }

    /// Imports a service, as [`import`](crate::import()) does, with these settings.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn import<T: Object>(self, url: &str) -> Result<(Session, T), ConnectError> {
        let search = self.search(url)?;
        let (greeted, imported) = search.connect(self.dialer(Some(Lookup::of::<T>())))?;
        greeted.open_with(Way::blocking, imported)
    }

    /// Opens a session with a server that traders know.
    pub(crate) fn connect_imported(self, url: &str) -> Result<Session, ConnectError> {
        let (greeted, imported) = self.search(url)?.connect(self.dialer(None))?;
        greeted.session(Way::blocking, imported)
    }

    /// Imports a service, as [`import_async`] does, with these settings.
    ///
    /// # Errors
    /// See [`ConnectError`].
    #[cfg(feature = "async")]
    pub async fn import_async<T: Object + Send>(self, url: &str) -> Result<(Session, T), ConnectError> {
        let search = self.search(url)?.awaited();
        let dial = self.dialer(Some(Lookup::of::<T>()));
        let (greeted, imported) = blocking::unblock(move || search.connect(dial)).await?;
        greeted.open_with(Way::polled, imported)
    }

    /// As [`Builder::connect_imported`], to be awaited.
    #[cfg(feature = "async")]
    pub(crate) async fn connect_imported_async(self, url: &str) -> Result<Session, ConnectError> {
        let search = self.search(url)?.awaited();
        let dial = self.dialer(None);
        let (greeted, imported) = blocking::unblock(move || search.connect(dial)).await?;
        greeted.session(Way::polled, imported)
    }

    /// Makes a service of a URL, with these settings. Nothing is connected before its first run.
    pub fn service<T: Object + Clone>(self, url: impl Into<String>) -> Service<T> {
        Service::with(self, url)
    }
}
