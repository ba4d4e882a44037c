//! Connection, greeting and look-up of an imported server, on a thread that may wait.
//!
//! [`Greeted`] is their result, which moves to the thread of the session.

use std::time::{Duration, Instant};

use bifrost_recorder::{Admission, Closed, Greeting, Recorded, Slot};
use bifrost_transport::{Address, ConnectOptions, Stream};
use bifrost_wire::ErrorNumber;

use crate::call::{Stub, client_type};
use crate::error::{ConnectError, Error, Place};
use crate::import::Imported;
use crate::import::search::trust;
use crate::live::{Core, Live, Recorder, Way, Wire, greet};
use crate::session::{Builder, Session};
use crate::shared::{Guarded, Shared};
use crate::stubs::Object;
use crate::trader::Offer;

/// The look-up of an object, with the type that is expected.
#[derive(Clone, Copy)]
pub(crate) struct Lookup {
    record: fn(&mut Recorder, &str, Place) -> Recorded<Place>,
    place: Place,
}

impl Lookup {
    #[track_caller]
    pub(crate) fn of<T: Object>() -> Lookup {
        Lookup { record: record::<T>, place: Place::caller() }
    }
}

fn record<T: Object>(recorder: &mut Recorder, name: &str, place: Place) -> Recorded<Place> {
    let ty = client_type::<T>(recorder.numbers());
    let admitted: Admission<Place> = Ok(());
    recorder.lookup(admitted, T::STUBS, name, ty, std::any::type_name::<T>(), place)
}

/// A session that was greeted, without a thread yet.
pub(crate) struct Greeted {
    recorder: Recorder,
    wire: Wire<Stream>,
    object: Option<Slot>,
    /// The time for answers from now on.
    timeout: Duration,
}

impl Greeted {
    /// Makes the session, whose bytes go the way that is chosen.
    pub(crate) fn session(
        self,
        way: fn(Wire<Stream>) -> Result<Way, ConnectError>,
        imported: Imported,
    ) -> Result<Session, ConnectError> {
        self.parts(way, imported).map(|(session, _)| session)
    }

    /// As [`Greeted::session`], with the object that was looked up.
    pub(crate) fn open_with<T: Object>(
        self,
        way: fn(Wire<Stream>) -> Result<Way, ConnectError>,
        imported: Imported,
    ) -> Result<(Session, T), ConnectError> {
        let (session, object) = self.parts(way, imported)?;
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

    fn parts(
        mut self,
        way: fn(Wire<Stream>) -> Result<Way, ConnectError>,
        imported: Imported,
    ) -> Result<(Session, Option<Stub>), ConnectError> {
        self.wire.set_timeout(self.timeout);
        let live = Live { recorder: self.recorder, way: way(self.wire)? };
        let core = Shared::new(Core { live: Guarded::new(live), imported: Some(imported) });
        let object = self.object.map(|slot| Stub { core: core.clone(), slot });
        Ok((Session { core }, object))
    }
}

/// Returns the part of a duration that is left.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

impl Builder {
    /// Makes the function that connects to the server of an offer, greets it, and looks the object
    /// up.
    pub(crate) fn dialer(
        &self,
        lookup: Option<Lookup>,
    ) -> impl Fn(&Offer, &Address, Duration) -> Result<Greeted, ConnectError> + Send + Sync + use<> {
        let builder = self.clone();
        move |offer, address, within| {
            let deadline = Instant::now() + within;
            let mut greeted = builder.greet_imported(address, deadline)?;
            if let Some(lookup) = lookup {
                greeted.object = Some(greeted.look_up(&offer.name, lookup)?);
            }
            Ok(greeted)
        }
    }

    /// Greets a server, and shows it the token if it asks for it and nobody else can read it.
    fn greet_imported(&self, address: &Address, deadline: Instant) -> Result<Greeted, ConnectError> {
        match self.greet_with(address, "", deadline) {
            Err(ConnectError::Closed(Closed::ByServer { number, .. }))
                if number == ErrorNumber::BadToken as u32
                    && address.may_ask_for_token()
                    && !self.token.is_empty() =>
            {
                if !address.is_private() {
                    return Err(ConnectError::PlainToken { address: address.clone() });
                }
                self.greet_with(address, &self.token, deadline)
            }
            greeted => greeted,
        }
    }

    fn greet_with(&self, address: &Address, token: &str, deadline: Instant) -> Result<Greeted, ConnectError> {
        let tls = trust(&self.tls, address);
        let options = ConnectOptions { timeout: left(deadline), tls, ..ConnectOptions::default() };
        let stream = Stream::connect(address, &options)?;
        let greeting = Greeting::new(self.stubs, token, &self.client, self.settings);
        let mut wire = Wire::new(Box::new(stream), left(deadline));
        let recorder = greet(greeting, &mut wire)?;
        wire.set_timeout(left(deadline));
        Ok(Greeted { recorder, wire, object: None, timeout: self.timeout })
    }
}

impl Greeted {
    /// Looks the object up, and waits for the answer.
    fn look_up(&mut self, name: &str, lookup: Lookup) -> Result<Slot, ConnectError> {
        let Greeted { recorder, wire, .. } = self;
        let recorded = (lookup.record)(recorder, name, lookup.place);
        let made = recorded.map_err(|why| ConnectError::Object(Error::clone(&why)))?;
        let slot = recorder.new_result(made, lookup.place);
        let answered = recorder.begin_flush(false).and_then(|_| wire.answer(recorder));
        answered.and_then(|()| recorder.claim(slot)).map_err(ConnectError::Object)?;
        Ok(slot)
    }
}
