//! Offers: exported objects with their addresses and properties.

use std::sync::Arc;

use bifrost_wire::Digest;
use thiserror::Error;

use crate::limits::Limits;
use crate::property::{BadProperties, Properties, names};
use crate::text::shown;

/// The number of an offer, and of its lease. A board never gives one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OfferId(pub u64);

/// The part of an exporter's call that a board keeps.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Export {
    /// The type of the object: its name in the exporter's interface.
    pub service: String,
    /// The digest of the exporter's interface.
    pub digest: Digest,
    /// The name of the object at its server.
    pub name: String,
    /// The addresses of the server, the best one first.
    pub addresses: Vec<String>,
    /// The properties.
    pub properties: Properties,
    /// The load of the exporter, if it has one.
    pub load: Option<f64>,
    /// The wanted lease, in milliseconds.
    pub lease_ms: Option<u64>,
    /// True if no other offer may have this service and name.
    pub exclusive: bool,
}

/// An offer as importers see it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Offer {
    /// The number at its board.
    pub id: OfferId,
    /// The type of the object: its name in the exporter's interface.
    pub service: Arc<str>,
    /// The digest of the exporter's interface.
    pub digest: Digest,
    /// The name of the object at its server.
    pub name: Arc<str>,
    /// The addresses of the server, the best one first.
    pub addresses: Vec<Arc<str>>,
    /// The properties; those of an answer have `link` if the offer was found through one.
    pub properties: Properties,
    /// The load of the exporter at its last renewal, if it has one.
    pub load: Option<f64>,
    /// True if its lease ended together with most others of its service, so that the trader
    /// mistrusts itself.
    pub doubtful: bool,
}

impl Offer {
    /// Returns the machine of the exporter.
    pub fn host(&self) -> Option<&str> {
        self.properties.text(names::HOST)
    }

    /// Returns the identity of the exporter's repository.
    pub fn store(&self) -> Option<&str> {
        self.properties.text(names::STORE)
    }

    /// Returns the link through which the offer was found.
    pub fn link(&self) -> Option<&str> {
        self.properties.text(names::LINK)
    }

    /// Checks an offer of another trader.
    ///
    /// # Errors
    /// See [`BadOffer`].
    pub fn check(&self, limits: &Limits) -> Result<(), BadOffer> {
        let addresses = self.addresses.iter().map(|address| &**address);
        check(&self.service, &self.name, addresses, &self.properties, self.load, limits)
    }
}

impl Export {
    /// Checks an export: names, addresses, properties, load, within the limits.
    ///
    /// # Errors
    /// See [`BadOffer`].
    pub fn check(&self, limits: &Limits) -> Result<(), BadOffer> {
        let addresses = self.addresses.iter().map(String::as_str);
        check(&self.service, &self.name, addresses, &self.properties, self.load, limits)?;
        Ok(self.properties.check_not_reserved()?)
    }
}

/// The reason why an export is refused, whichever board it is for.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadOffer {
    /// The properties.
    #[error(transparent)]
    Properties(#[from] BadProperties),
    /// No address.
    #[error("the offer has no address; give one, as `tcp://host:port`")]
    NoAddress,
    /// An address that is no URL.
    #[error("`{0}` is no address; write a scheme, `://` and a place, without spaces and controls")]
    Address(String),
    /// A name without a character, or with controls.
    #[error("the {0} of the offer is empty or has control characters")]
    Name(&'static str),
    /// A load that is no number, or below 0.
    #[error("the load is no number of at least 0")]
    Load,
    /// A limit.
    #[error("{part} exceeds `trader.{limit}`, which is {value}")]
    Limit {
        /// The part of the offer.
        part: &'static str,
        /// The name of the limit.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
}

fn check<'a>(
    service: &str,
    name: &str,
    addresses: impl ExactSizeIterator<Item = &'a str>,
    properties: &Properties,
    load: Option<f64>,
    limits: &Limits,
) -> Result<(), BadOffer> {
    let bound = |size: usize, part, limit, value| match size as u64 <= value {
        true => Ok(()),
        false => Err(BadOffer::Limit { part, limit, value }),
    };
    bound(service.len(), "the name of the service", "service_bytes_max", limits.service_bytes_max)?;
    bound(name.len(), "the name of the object", "object_bytes_max", limits.object_bytes_max)?;
    bound(addresses.len(), "the number of addresses", "addresses_max", limits.addresses_max)?;
    for (text, part) in [(service, "service"), (name, "name")] {
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err(BadOffer::Name(part));
        }
    }
    if addresses.len() == 0 {
        return Err(BadOffer::NoAddress);
    }
    for address in addresses {
        bound(address.len(), "an address", "address_bytes_max", limits.address_bytes_max)?;
        if !is_address(address) {
            return Err(BadOffer::Address(shown(address).into_owned()));
        }
    }
    if load.is_some_and(|load| !load.is_finite() || load < 0.0) {
        return Err(BadOffer::Load);
    }
    Ok(properties.check(limits)?)
}

/// The scheme of an address: the part before `://`.
pub fn scheme(address: &str) -> Option<&str> {
    let (scheme, place) = address.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'+');
    (is_scheme && !place.is_empty()).then_some(scheme)
}

fn is_address(address: &str) -> bool {
    scheme(address).is_some() && !address.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// True if an address has a meaning only on the exporter's machine: `shm://`, `unix://`, and
/// schemes over them, as `rex+unix://`.
pub fn is_local(address: &str) -> bool {
    scheme(address).is_some_and(|scheme| scheme.split('+').any(|part| part == "shm" || part == "unix"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::Value;

    fn export() -> Export {
        Export {
            service: "Store".into(),
            name: "store".into(),
            addresses: vec!["tcp://a:1".into()],
            ..Export::default()
        }
    }

    /// Changes a good export, and checks it.
    fn changed(change: impl FnOnce(&mut Export)) -> Result<(), BadOffer> {
        let mut export = export();
        change(&mut export);
        export.check(&Limits::default())
    }

    #[test]
    fn good_exports_pass() {
        assert_eq!(changed(|_| {}), Ok(()));
        assert_eq!(changed(|e| e.addresses = vec!["rex+unix:///run/a".into(); 8]), Ok(()));
        assert_eq!(changed(|e| e.name = "n".repeat(256)), Ok(()));
    }

    #[test]
    fn limits_are_named() {
        let limit = |result: Result<(), BadOffer>| match result {
            Err(BadOffer::Limit { limit, .. }) => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(changed(|e| e.service = "s".repeat(257))), "service_bytes_max");
        assert_eq!(limit(changed(|e| e.name = "n".repeat(257))), "object_bytes_max");
        assert_eq!(limit(changed(|e| e.addresses = vec!["tcp://a:1".into(); 9])), "addresses_max");
        assert_eq!(
            limit(changed(|e| e.addresses = vec![format!("tcp://{}", "a".repeat(251))])),
            "address_bytes_max"
        );
        let many = changed(|e| (0..33).for_each(|n| drop(e.properties.set(&format!("p{n}"), Value::Int(n)))));
        assert!(matches!(many, Err(BadOffer::Properties(BadProperties::Limit { .. }))));
    }

    #[test]
    fn mistakes_are_refused() {
        assert_eq!(changed(|e| e.addresses.clear()), Err(BadOffer::NoAddress));
        for wrong in ["", "a", "tcp:/a", "://a", "tcp://", "tcp://a b", "T://a", "tcp://a\n", "1tcp://a"] {
            let result = changed(|e| e.addresses.push(wrong.into()));
            assert!(matches!(result, Err(BadOffer::Address(_))), "{wrong}: {result:?}");
        }
        assert_eq!(changed(|e| e.service.clear()), Err(BadOffer::Name("service")));
        assert_eq!(changed(|e| e.name = "a\u{7}".into()), Err(BadOffer::Name("name")));
        for load in [f64::NAN, f64::INFINITY, -0.5] {
            assert_eq!(changed(|e| e.load = Some(load)), Err(BadOffer::Load));
        }
        let reserved = changed(|e| drop(e.properties.set("link", Value::Int(1))));
        assert!(matches!(reserved, Err(BadOffer::Properties(BadProperties::Reserved { .. }))));
    }

    #[test]
    fn local_addresses_are_known_by_their_scheme() {
        for local in ["shm:///a", "unix:///a", "rex+unix:///a", "trader+unix:///a"] {
            assert!(is_local(local), "{local}");
        }
        for remote in ["tcp://unix:1", "tls://a", "rex+plain://a", "unixx://a", "unix:/a"] {
            assert!(!is_local(remote), "{remote}");
        }
    }
}
