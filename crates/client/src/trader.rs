//! A trader, the directory of services, as a client sees it.
//!
//! [`Session`] asks a trader; it needs no generated stubs, so that client libraries of every
//! language can have it. Offers of typed stubs are read by [`offer`], too.

use std::fmt::Write;
use std::panic::Location;
use std::sync::{Arc, LazyLock};

use bifrost_recorder::{BuiltinNumbers, CellNumbers, Error, Known, Operand, Recorder, Slot, Stubs};
use bifrost_trader::{Offer, OfferId, Properties, Value};
use bifrost_transport::{Address, Stream};
use bifrost_wire::interface::Numbering;
use bifrost_wire::{Arg, Compound, Digest, Interface, Value as Plain, builtin, operator};

use crate::dial::{Greeted, Options};
use crate::error::ConnectError;
use crate::wire::Wire;

/// The name of the trader's object at its server.
pub const TRADER: &str = "trader";

/// The interface of `crates/trader/trader.theta`.
static JSON: &str = include_str!("trader.interface.json");

/// The place of a call of a trader: in this library.
pub type Place = &'static Location<'static>;

/// The numbers of the calls of a trader.
struct Numbers {
    stubs: Stubs,
    trader: u32,
    find: u32,
    teach: u32,
    changes: u32,
}

static NUMBERS: LazyLock<Numbers> = LazyLock::new(|| {
    let interface = Interface::from_json(JSON.as_bytes()).unwrap_or_default();
    let numbering = Numbering::new(interface);
    let trader = numbering.find_type("Trader");
    let method = |name| {
        let found = trader.and_then(|trader| numbering.find_method(trader, name));
        found.map_or(u32::MAX, |number| number.0)
    };
    let (find, teach, changes) = (method("find"), method("teach"), method("changes"));
    // Values, cells and operators are not used.
    let stubs = Stubs {
        digest: *numbering.digest(),
        json: JSON,
        basic: [(u32::MAX, CellNumbers::NONE); 6],
        builtin: [BuiltinNumbers::NONE; builtin::COUNT],
        operators: [u32::MAX; operator::COUNT],
    };
    Numbers { stubs, trader: trader.map_or(u32::MAX, |trader| trader.0), find, teach, changes }
});

/// Returns the constants of the trader's interface.
pub(crate) fn stubs() -> &'static Stubs {
    &NUMBERS.stubs
}

/// A session with a trader. Its calls wait.
pub(crate) struct Session {
    recorder: Recorder<Place>,
    wire: Wire<Stream>,
    trader: Slot,
}

impl Session {
    /// Opens a session with the trader at an address.
    #[track_caller]
    pub(crate) fn open(options: &Options, address: &Address) -> Result<Session, ConnectError> {
        let place = Location::caller();
        let Greeted { mut recorder, wire, .. } = options.connect(address)?;
        let made = recorder.lookup(Ok(()), Some(stubs()), TRADER, NUMBERS.trader, "Trader", place);
        let trader = recorder.new_result(made.map_err(|why| ConnectError::Trader((*why).clone()))?, place);
        Ok(Session { recorder, wire, trader })
    }

    /// Records a call of the trader; of its answer's contents if they are wanted.
    #[track_caller]
    fn call(&mut self, method: u32, arguments: &[Plain<'_>], contents: bool) -> Result<Slot, Error<Place>> {
        let (recorder, place) = (&mut self.recorder, Location::caller());
        let arguments = arguments.iter().copied().map(Operand::Value);
        let made = recorder.call(Ok(()), self.trader, method, arguments, place).map_err(own)?;
        let answer = recorder.new_result(made, place);
        if !contents {
            return Ok(answer);
        }
        let made = recorder.get(Ok(()), answer, place).map_err(own)?;
        let taken = recorder.new_result(made, place);
        recorder.release(answer);
        Ok(taken)
    }

    /// Waits for the answer of a call.
    fn claim(&mut self, slot: Slot) -> Result<(), Error<Place>> {
        self.recorder.begin_flush(false)?;
        while self.recorder.is_under_way() {
            self.wire.answer(&mut self.recorder)?;
        }
        self.recorder.claim(slot)
    }

    /// Imports offers: those of the first page. True if these are all.
    ///
    /// # Errors
    /// The trader has refused the question, or is lost.
    pub(crate) fn find(
        &mut self,
        service: &str,
        digest: &str,
        query: &str,
        most: u32,
        host: &str,
    ) -> Result<(Vec<Offer>, bool), Error<Place>> {
        let texts = [service, digest, query].map(Plain::Str);
        let arguments = [texts[0], texts[1], texts[2], Plain::Int(i64::from(most)), Plain::Str(host)];
        let found = self.call(NUMBERS.find, &arguments, true)?;
        let claimed = self.claim(found);
        let read = match self.recorder.known(found) {
            Known::Value(Plain::Compound(compound)) => read_found(compound),
            _ => None,
        };
        self.recorder.release(found);
        claimed?;
        // A trader of another version that answers otherwise has no offers for this one.
        Ok(read.unwrap_or_default())
    }

    /// Teaches the trader an interface.
    ///
    /// # Errors
    /// The trader has refused it, or is lost.
    pub(crate) fn teach(&mut self, interface: &str) -> Result<(), Error<Place>> {
        let taught = self.call(NUMBERS.teach, &[Plain::Str(interface)], false)?;
        let claimed = self.claim(taught);
        self.recorder.release(taught);
        claimed
    }

    /// Waits at most so many milliseconds until the counter of changes is another one, and returns
    /// it.
    ///
    /// # Errors
    /// The trader has refused the question, or is lost.
    pub(crate) fn changes(&mut self, service: &str, since: i64, within_ms: i64) -> Result<i64, Error<Place>> {
        let arguments = [Plain::Str(service), Plain::Int(since), Plain::Int(within_ms)];
        let changes = self.call(NUMBERS.changes, &arguments, false)?;
        let claimed = self.claim(changes);
        let counter = match self.recorder.known(changes) {
            Known::Value(Plain::Int(counter)) => counter,
            _ => since,
        };
        self.recorder.release(changes);
        claimed.map(|()| counter)
    }

    /// Takes the failures up to now as told.
    pub(crate) fn clear_exceptions(&mut self) {
        if self.recorder.clear_exceptions(Location::caller()) {
            self.recorder.clear_server(Ok(()));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.recorder.leave() {
            let _ = self.wire.send(&mut self.recorder);
        }
    }
}

fn own(why: Arc<Error<Place>>) -> Error<Place> {
    (*why).clone()
}

/// An offer as a trader lists it.
#[derive(Clone, PartialEq, Debug, Default)]
#[allow(missing_docs, reason = "`crates/trader/trader.theta`")]
pub struct Listed {
    pub id: i64,
    pub service: Arc<str>,
    pub digest: String,
    pub name: Arc<str>,
    pub addresses: Vec<Arc<str>>,
    pub names: Vec<String>,
    pub values: Vec<String>,
    pub load: f64,
    pub doubtful: bool,
}

/// Makes an offer of the form in which it is listed. A digest that cannot be read is all zeros.
pub fn offer(listed: Listed) -> Offer {
    let mut properties = Properties::new();
    for (name, value) in listed.names.iter().zip(&listed.values) {
        // A text that is no value of this version is shown as it is.
        properties.set(name, Value::from_text(value).unwrap_or_else(|_| Value::String(value.clone())));
    }
    Offer {
        id: OfferId(u64::try_from(listed.id).unwrap_or(0)),
        service: listed.service,
        digest: digest(&listed.digest).unwrap_or_default(),
        name: listed.name,
        addresses: listed.addresses,
        properties,
        load: Some(listed.load).filter(|load| *load >= 0.0),
        doubtful: listed.doubtful,
    }
}

/// Reads the answer to `find`: offers, and whether they are all. Nothing if it has another form.
fn read_found(found: Compound<'_>) -> Option<(Vec<Offer>, bool)> {
    let mut fields = found.iter();
    let (offers, more) = (compound(fields.next()?)?, boolean(fields.next()?)?);
    let offers = offers.iter().map(|one| read_offer(compound(one)?)).collect::<Option<_>>()?;
    Some((offers, !more))
}

fn read_offer(listed: Compound<'_>) -> Option<Offer> {
    let mut fields = listed.iter();
    Some(offer(Listed {
        id: match fields.next()? {
            Arg::Value(Plain::Int(id)) => id,
            _ => return None,
        },
        service: text(fields.next()?)?.into(),
        digest: text(fields.next()?)?.to_owned(),
        name: text(fields.next()?)?.into(),
        addresses: texts(fields.next()?)?,
        names: texts(fields.next()?)?,
        values: texts(fields.next()?)?,
        load: match fields.next()? {
            Arg::Value(Plain::Real(load)) => load,
            _ => return None,
        },
        doubtful: boolean(fields.next()?)?,
    }))
}

fn compound(arg: Arg<'_>) -> Option<Compound<'_>> {
    match arg {
        Arg::Value(Plain::Compound(compound)) => Some(compound),
        _ => None,
    }
}

fn boolean(arg: Arg<'_>) -> Option<bool> {
    match arg {
        Arg::Value(Plain::Bool(b)) => Some(b),
        _ => None,
    }
}

fn text(arg: Arg<'_>) -> Option<&str> {
    match arg {
        Arg::Value(Plain::Str(text)) => Some(text),
        _ => None,
    }
}

fn texts<'a, T: From<&'a str>>(arg: Arg<'a>) -> Option<Vec<T>> {
    compound(arg)?.iter().map(|item| text(item).map(T::from)).collect()
}

/// Returns a digest as 64 hexadecimal digits, as traders take it.
pub fn hex(digest: &Digest) -> String {
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads 64 hexadecimal digits.
fn digest(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    if text.len() != 2 * digest.len() {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_has_the_calls() {
        for number in [NUMBERS.trader, NUMBERS.find, NUMBERS.teach, NUMBERS.changes] {
            assert_ne!(number, u32::MAX);
        }
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        let some: Digest = std::array::from_fn(|n| n as u8 * 7);
        assert_eq!(digest(&hex(&some)), Some(some));
        for wrong in ["", "ab", &"0".repeat(63), &"0".repeat(65), &"x".repeat(64), &"é".repeat(32)] {
            assert_eq!(digest(wrong), None, "{wrong}");
        }
    }
}
