//! Connection, greeting and look-up, on a thread that may wait.
//!
//! [`Options`] are the settings with which a session is opened. [`Greeted`] is a session that was
//! opened, and moves to the thread that uses it.

use std::time::{Duration, Instant};

use bifrost_recorder::{Closed, Error, Greeting, Recorded, Recorder, Settings, Slot, Source, Stubs};
use bifrost_trader::Offer;
use bifrost_transport::{Address, ConnectOptions, Stream, TlsOptions};
use bifrost_wire::ErrorNumber;

use crate::error::ConnectError;
use crate::search::{Search, trust};
use crate::wire::Wire;

/// The longest time for connecting, and for an answer, if the program sets no other.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The settings with which a session is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The constants of the client's stubs.
    pub stubs: &'static Stubs,
    /// The token for servers; empty for none.
    pub token: String,
    /// The token for traders, if it is not that of the environment.
    pub trader_token: Option<String>,
    /// The client's name in the logs of servers; empty for none.
    pub client: String,
    /// The longest time for connecting, and for the answer to each flush.
    pub timeout: Duration,
    /// The trust in servers over TLS, and the client's own certificate.
    pub tls: TlsOptions,
    /// The recorder's settings.
    pub settings: Settings,
}

/// A session that was greeted, without a thread yet.
pub struct Greeted<S> {
    /// The recorder.
    pub recorder: Recorder<S>,
    /// The connection.
    pub wire: Wire<Stream>,
    /// The object that was looked up.
    pub object: Option<Slot>,
}

/// Records the look-up of an object, by the name that an offer gives it.
pub trait LookUp<S>: Fn(&mut Recorder<S>, &str) -> Recorded<S> + Send + Sync + 'static {}

impl<S, F: Fn(&mut Recorder<S>, &str) -> Recorded<S> + Send + Sync + 'static> LookUp<S> for F {}

/// Returns the part of a duration that is left.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// True if a server has refused a client without a token, and there is one to be shown.
///
/// A server asks for the token by refusing a client without.
pub fn asks_for_token(why: &ConnectError, address: &Address, token: &str) -> bool {
    let refused = matches!(why, ConnectError::Closed(Closed::ByServer { number, .. })
        if *number == ErrorNumber::BadToken as u32);
    refused && address.may_ask_for_token() && !token.is_empty()
}

impl Options {
    /// Begins with the defaults for the stubs of a client.
    pub fn new(stubs: &'static Stubs) -> Options {
        Options {
            stubs,
            token: String::new(),
            trader_token: None,
            client: String::new(),
            timeout: TIMEOUT,
            tls: TlsOptions::default(),
            settings: Settings::default(),
        }
    }

    /// Begins the greeting of a server, which is shown a token.
    pub fn greeting(&self, token: &str) -> Greeting {
        Greeting::new(self.stubs, token, &self.client, self.settings)
    }

    /// Returns the settings of a connection.
    pub fn ways(&self) -> ConnectOptions {
        ConnectOptions { timeout: self.timeout, tls: self.tls.clone(), ..ConnectOptions::default() }
    }

    /// Connects to a server, and greets it. The token is shown if the server asks for it.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect<S: Source>(&self, address: &Address) -> Result<Greeted<S>, ConnectError> {
        let ways = self.ways();
        let open = |token: &str| {
            let mut wire = Wire::new(Box::new(Stream::connect(address, &ways)?), self.timeout);
            let recorder = wire.greet(self.greeting(token))?;
            Ok(Greeted { recorder, wire, object: None })
        };
        match open("") {
            Err(why) if asks_for_token(&why, address, &self.token) => open(&self.token),
            opened => opened,
        }
    }

    /// Makes the search of a URL, with these settings.
    ///
    /// # Errors
    /// As [`Search::new`].
    pub fn search(&self, url: &str) -> Result<Search, ConnectError> {
        let mut search = Search::new(url)?.stubs(self.stubs).name(&self.client);
        if let Some(token) = &self.trader_token {
            search = search.token(token);
        }
        Ok(search.tls(self.tls.clone()).timeout(self.timeout))
    }

    /// Makes the function that connects to the server of an offer, greets it, and looks the object
    /// up. `place` is that of the look-up.
    pub fn dialer<S: Source + Send + Sync, L: LookUp<S>>(
        &self,
        look_up: Option<L>,
        place: S,
    ) -> impl Fn(&Offer, &Address, Duration) -> Result<Greeted<S>, ConnectError> + Send + Sync + use<S, L>
    {
        let options = self.clone();
        move |offer, address, within| {
            let deadline = Instant::now() + within;
            let mut greeted = options.greet_imported(address, deadline)?;
            if let Some(look_up) = &look_up {
                greeted.object = Some(greeted.look_up(&offer.name, look_up, place)?);
            }
            // The time for answers from now on.
            greeted.wire.set_timeout(options.timeout);
            Ok(greeted)
        }
    }

    /// Greets a server, and shows it the token if it asks for it and nobody else can read it.
    fn greet_imported<S: Source>(
        &self,
        address: &Address,
        deadline: Instant,
    ) -> Result<Greeted<S>, ConnectError> {
        match self.greet_with(address, "", deadline) {
            Err(why) if asks_for_token(&why, address, &self.token) => {
                if !address.is_private() {
                    return Err(ConnectError::PlainToken { address: address.clone() });
                }
                self.greet_with(address, &self.token, deadline)
            }
            greeted => greeted,
        }
    }

    fn greet_with<S: Source>(
        &self,
        address: &Address,
        token: &str,
        deadline: Instant,
    ) -> Result<Greeted<S>, ConnectError> {
        let tls = trust(&self.tls, address);
        let ways = ConnectOptions { timeout: left(deadline), tls, ..ConnectOptions::default() };
        let stream = Stream::connect(address, &ways)?;
        let mut wire = Wire::new(Box::new(stream), left(deadline));
        let recorder = wire.greet(self.greeting(token))?;
        wire.set_timeout(left(deadline));
        Ok(Greeted { recorder, wire, object: None })
    }
}

impl<S: Source + Send + Sync> Greeted<S> {
    /// Looks the object up, and waits for the answer.
    fn look_up(&mut self, name: &str, look_up: &impl LookUp<S>, place: S) -> Result<Slot, ConnectError> {
        let Greeted { recorder, wire, .. } = self;
        let object = |why: Error<S>| match why {
            Error::Closed(why) => ConnectError::Ended(why),
            why => ConnectError::Object(Box::new(why)),
        };
        let made = look_up(recorder, name).map_err(|why| object(Error::clone(&why)))?;
        let slot = recorder.new_result(made, place);
        let answered = recorder.begin_flush(false).and_then(|_| wire.answer(recorder));
        answered.and_then(|()| recorder.claim(slot)).map_err(object)?;
        Ok(slot)
    }
}

impl<S> std::fmt::Debug for Greeted<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Greeted").field("object", &self.object).finish_non_exhaustive()
    }
}
