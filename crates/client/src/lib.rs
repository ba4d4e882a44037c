//! The layer that client libraries of all languages share beside the recorder: the bytes of a
//! connection, imports through traders, and services that go on with another server.
//!
//! The Rust veneer and the C ABI are layers over it and `bifrost-recorder`. Nothing here knows the
//! types of a program: a server is reached by a function of the layer above, and its session is a
//! `C` of the layer.
//!
//! ```text
//! connection  streams of bytes below a session
//! wire        the bytes of a recorder: reads and writes that wait, steps that do not
//! dial        settings of a session; connection, greeting and look-up on a thread
//! trader      calls of a trader
//! search      the threads around `bifrost_trader::importer`: traders are asked, servers dialled
//! watch       changes at the traders: servers that are new
//! service     runs with a server, and the rule after its loss
//! error       the reasons why there is no session
//! ```
//!
//! [`Options`] is the type to read first, then [`Search`] and [`Service`].
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

#![forbid(unsafe_code)]

mod connection;
mod dial;
mod error;
mod search;
mod service;
pub mod trader;
mod watch;
mod wire;

use std::sync::Arc;

use bifrost_trader::Offer;

pub use bifrost_trader::url::is_trader;
pub use connection::{Connection, ConnectionError, unwritten};
pub use dial::{Greeted, LookUp, Options, TIMEOUT, asks_for_token};
pub use error::{ConnectError, parse_address};
pub use search::{
    ATTEMPTS_MAX, Attempt, Dialer, ImportError, Search, Searcher, TRADER_TOKEN, TRADERS, TRADERS_MAX,
};
pub use service::{Due, Losses, Mark, RUNS_MAX, Ran, Service, ServiceError, is_loss};
pub use wire::{READ_BYTES, Wire};

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
