//! Imports: sessions with servers that a trader knows.
//!
//! [`import`] is the function to read first: it asks the traders of a URL, connects to a server of
//! the service, and looks the object up. [`Builder::connect`] takes such URLs too. [`Service`]
//! keeps a session, and goes on with another server when its own is lost.
//!
//! The search itself is that of all client libraries: `bifrost_client`.
//!
//! Two tokens: that for the traders is [`Builder::trader_token`] or BIFROST_TRADER_TOKEN, that for
//! the server is [`Builder::token`]. A server that a trader has named is shown the token only where
//! nobody can read it on the way.

mod service;

use std::time::Duration;

use bifrost_client::{Greeted, Wire};
use bifrost_recorder::{Recorded, Stubs};
use bifrost_trader::Offer;
use bifrost_transport::{Address, Stream};

use crate::call::{Stub, client_type};
use crate::error::{ConnectError, Place};
use crate::live::{Core, Live, Recorder, Way};
use crate::session::{Builder, Session};
use crate::shared::{Guarded, Shared};
use crate::stubs::Object;

pub use bifrost_client::{
    ATTEMPTS_MAX, Attempt, ImportError, Imported, RUNS_MAX, Search, TRADER_TOKEN, TRADERS, TRADERS_MAX,
};
pub use service::{Service, ServiceError};

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
        self.options.trader_token = Some(token.into());
        self
    }

    /// Imports a service, as [`import`](crate::import()) does, with these settings.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn import<T: Object>(self, url: &str) -> Result<(Session, T), ConnectError> {
        let search = self.options.search(url)?;
        let (greeted, imported) = search.connect(self.dialer::<T>())?;
        open_with(greeted, Way::blocking, imported)
    }

    /// Opens a session with a server that traders know.
    pub(crate) fn connect_imported(self, url: &str) -> Result<Session, ConnectError> {
        let dial = self.options.dialer(NO_LOOK_UP, Place::caller());
        let (greeted, imported) = self.options.search(url)?.connect(dial)?;
        parts(greeted, Way::blocking, imported).map(|(session, _)| session)
    }

    /// Imports a service, as [`import_async`] does, with these settings.
    ///
    /// # Errors
    /// See [`ConnectError`].
    #[cfg(feature = "async")]
    pub async fn import_async<T: Object + Send>(self, url: &str) -> Result<(Session, T), ConnectError> {
        let search = self.options.search(url)?.awaited();
        let dial = self.dialer::<T>();
        let (greeted, imported) = blocking::unblock(move || search.connect(dial)).await?;
        open_with(greeted, Way::polled, imported)
    }

    /// As [`Builder::connect_imported`], to be awaited.
    #[cfg(feature = "async")]
    pub(crate) async fn connect_imported_async(self, url: &str) -> Result<Session, ConnectError> {
        let search = self.options.search(url)?.awaited();
        let dial = self.options.dialer(NO_LOOK_UP, Place::caller());
        let (greeted, imported) = blocking::unblock(move || search.connect(dial)).await?;
        parts(greeted, Way::polled, imported).map(|(session, _)| session)
    }

    /// Makes a service of a URL, with these settings. Nothing is connected before its first run.
    pub fn service<T: Object + Clone>(self, url: impl Into<String>) -> Service<T> {
        Service::with(self, url)
    }

    /// Makes the function that connects to the server of an offer, greets it, and looks the object
    /// up.
    #[track_caller]
    fn dialer<T: Object>(
        &self,
    ) -> impl Fn(&Offer, &Address, Duration) -> Result<Greeted<Place>, ConnectError> + Send + Sync + use<T>
    {
        let place = Place::caller();
        let look_up = move |recorder: &mut Recorder, name: &str| {
            let ty = client_type::<T>(recorder.numbers());
            recorder.lookup(Ok(()), T::STUBS, name, ty, std::any::type_name::<T>(), place)
        };
        self.options.dialer(Some(look_up), place)
    }
}

/// For sessions whose programs look the object up.
const NO_LOOK_UP: Option<fn(&mut Recorder, &str) -> Recorded<Place>> = None;

/// Makes the session, whose bytes go the way that is chosen, and the stub of the object, if it was
/// looked up.
fn parts(
    greeted: Greeted<Place>,
    way: fn(Wire<Stream>) -> Result<Way, ConnectError>,
    imported: Imported,
) -> Result<(Session, Option<Stub>), ConnectError> {
    let Greeted { recorder, wire, object } = greeted;
    let live = Live { recorder, way: way(wire)? };
    let core = Shared::new(Core { live: Guarded::new(live), imported: Some(imported) });
    let object = object.map(|slot| Stub { core: core.clone(), slot });
    Ok((Session { core }, object))
}

/// As [`parts`], with the object.
fn open_with<T: Object>(
    greeted: Greeted<Place>,
    way: fn(Wire<Stream>) -> Result<Way, ConnectError>,
    imported: Imported,
) -> Result<(Session, T), ConnectError> {
    let (session, object) = parts(greeted, way, imported)?;
    match object {
        Some(stub) => Ok((session, T::from_stub(stub))),
        // Not looked up on the way: the first use does it.
        None => {
            let name = session.service().map(Imported::name).unwrap_or_default().to_owned();
            let object = session.lookup(&name);
            Ok((session, object))
        }
    }
}
