//! The settings of exports, and the faults of them.

use std::collections::BTreeMap;

use bifrost_trader::{BadOffer, Export, Limits, Properties, Value};
use bifrost_transport::{Address, AddressError};
use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use crate::config::{Config, ConfigError};

/// Most exports of a server. A trader takes as many of one session, unless it is set otherwise.
pub const EXPORTS_MAX: usize = 100;
/// Most traders of a server. Each has a thread.
pub const TRADERS_MAX: usize = 16;

/// The value of a property in the settings.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum PropertyValue {
    /// A truth value.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A finite number.
    Real(f64),
    /// A text.
    Text(String),
}

impl From<&PropertyValue> for Value {
    fn from(value: &PropertyValue) -> Value {
        match value {
            PropertyValue::Bool(bool) => Value::Bool(*bool),
            PropertyValue::Int(int) => Value::Int(*int),
            PropertyValue::Real(real) => Value::Real(*real),
            PropertyValue::Text(text) => Value::String(text.clone()),
        }
    }
}

impl From<Value> for PropertyValue {
    fn from(value: Value) -> PropertyValue {
        match value {
            Value::Bool(bool) => PropertyValue::Bool(bool),
            Value::Int(int) => PropertyValue::Int(int),
            Value::Real(real) => PropertyValue::Real(real),
            Value::String(text) => PropertyValue::Text(text),
        }
    }
}

/// The settings of an export.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields, default)]
pub struct ExportConfig {
    /// The type under which clients find the object: its own, or a supertype.
    #[documented_fields(rename = "type")]
    #[serde(rename = "type")]
    pub service: String,
    /// The properties of the offer, besides those of all exports.
    pub properties: BTreeMap<String, PropertyValue>,
    /// The time for which traders list the offer without a renewal, in milliseconds. Absent: as
    /// each trader says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// The fault of the settings of exports.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Exports without a trader.
    #[error("`{0}` is exported, and no trader is given: pass `--trader URL`, or set `traders`")]
    NoTrader(String),
    /// A trader's address that is none.
    #[error("cannot export to the trader `{url}`: {source}")]
    Trader {
        /// The URL as it was written.
        url: String,
        /// The fault of the URL.
        source: AddressError,
    },
    /// An address to be advertised that is none.
    #[error("cannot advertise `{url}`: {source}")]
    Advertise {
        /// The URL as it was written.
        url: String,
        /// The fault of the URL.
        source: AddressError,
    },
    /// A listener that clients cannot name.
    #[error(
        "clients cannot connect to `{0}`, which stands for all addresses of this machine: pass `--advertise \
         URL` with the address that traders tell them, as in `--advertise {scheme}://db1.example:{port}`",
        scheme = match .0 {
            Address::Quic { .. } => "quic",
            address if address.is_tls() => "tls",
            _ => "tcp",
        },
        port = .0.port().unwrap_or(7447)
    )]
    Wildcard(Address),
    /// An address to be advertised that stands for all of a machine.
    #[error("cannot advertise `{0}`: it stands for all addresses of a machine, so write one of them")]
    AdvertisedWildcard(Address),
    /// No type.
    #[error("[exports.\"{0}\"]: the setting `type` is missing")]
    NoType(String),
    /// A part of the offer that no trader takes.
    #[error("[exports.\"{name}\"]: {why}")]
    Offer {
        /// The name of the object.
        name: String,
        /// The reason.
        why: BadOffer,
    },
    /// A property that the exporter gives.
    #[error("[exports.\"{name}\"]: the server gives the property `{property}` itself; take another name")]
    Given {
        /// The name of the object.
        name: String,
        /// The name of the property.
        property: &'static str,
    },
    /// More than there may be.
    #[error("there are more than {most} {what}, and that is the limit")]
    TooMany {
        /// `exports` or `traders`.
        what: &'static str,
        /// The limit.
        most: usize,
    },
}

/// Exports that were checked, as far as settings tell.
#[derive(Clone, Debug)]
pub(crate) struct Exported {
    /// The URLs of the traders.
    pub traders: Vec<String>,
    pub token: String,
    /// The addresses to be advertised; none for those of the listeners.
    pub advertise: Vec<Address>,
    pub exports: Vec<Export>,
}

impl Config {
    /// Checks the settings of exports.
    ///
    /// # Errors
    /// [`ConfigError::Export`], and as [`Config::addresses`].
    pub fn check_exports(&self) -> Result<(), ConfigError> {
        self.exported().map(drop)
    }

    /// Returns the exports; nothing if there are none.
    ///
    /// # Errors
    /// As [`Config::check_exports`].
    pub(crate) fn exported(&self) -> Result<Option<Exported>, ConfigError> {
        let Some(first) = self.exports.keys().next() else { return Ok(None) };
        if self.traders.is_empty() {
            return Err(ExportError::NoTrader(first.clone()).into());
        }
        for (what, count, most) in
            [("exports", self.exports.len(), EXPORTS_MAX), ("traders", self.traders.len(), TRADERS_MAX)]
        {
            if count > most {
                return Err(ExportError::TooMany { what, most }.into());
            }
        }
        let mut traders: Vec<String> = Vec::new();
        for url in &self.traders {
            let trader: Result<Address, _> = url.parse();
            trader.map_err(|source| ExportError::Trader { url: url.clone(), source })?;
            if !traders.contains(url) {
                traders.push(url.clone());
            }
        }
        let exports = self.exports.iter().map(|(name, export)| self.export(name, export));
        Ok(Some(Exported {
            traders,
            token: self.trader_token.clone(),
            advertise: self.advertised()?,
            exports: exports.collect::<Result<_, _>>()?,
        }))
    }

    /// Returns the addresses to be advertised.
    fn advertised(&self) -> Result<Vec<Address>, ConfigError> {
        if self.advertise.is_empty() {
            return match self.addresses()?.into_iter().find(Address::is_wildcard) {
                Some(wildcard) => Err(ExportError::Wildcard(wildcard).into()),
                None => Ok(Vec::new()),
            };
        }
        let parse = |url: &String| -> Result<Address, ConfigError> {
            let advertise = |source| ExportError::Advertise { url: url.clone(), source };
            let address: Address = url.parse().map_err(advertise)?;
            if address.is_wildcard() {
                return Err(ExportError::AdvertisedWildcard(address).into());
            }
            Ok(address)
        };
        self.advertise.iter().map(parse).collect()
    }

    fn export(&self, name: &str, export: &ExportConfig) -> Result<Export, ExportError> {
        if export.service.is_empty() {
            return Err(ExportError::NoType(name.to_owned()));
        }
        let all = self.properties.iter().chain(&export.properties);
        let properties: Properties = all.map(|(name, value)| (name.as_str(), Value::from(value))).collect();
        if let Some(property) = super::GIVEN.into_iter().find(|given| properties.get(given).is_some()) {
            return Err(ExportError::Given { name: name.to_owned(), property });
        }
        let mut made = Export {
            service: export.service.clone(),
            name: name.to_owned(),
            properties,
            lease_ms: export.lease_ms,
            // Those of the listeners are known later.
            addresses: match self.advertise.is_empty() {
                true => vec!["unix:///".to_owned()],
                false => self.advertise.clone(),
            },
            ..Export::default()
        };
        made.check(&Limits::default()).map_err(|why| ExportError::Offer { name: name.to_owned(), why })?;
        made.addresses.clear();
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let export = ExportConfig { service: "DataBase".into(), ..ExportConfig::default() };
        Config {
            listen: vec!["tcp://127.0.0.1:0".into()],
            traders: vec!["tls://trader.example:7450".into(), "unix:///run/trader".into()],
            exports: [("database".to_owned(), export)].into(),
            ..Config::default()
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Config), why: &str) {
        let mut config = config();
        change(&mut config);
        let error = config.check_exports().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn exports_are_checked() {
        assert!(Config::default().exported().unwrap().is_none());
        let exported = config().exported().unwrap().unwrap();
        assert_eq!((exported.traders.len(), exported.exports.len()), (2, 1));
        assert!(exported.advertise.is_empty() && exported.exports[0].addresses.is_empty());
        let twice = Config { traders: vec!["unix:///t".into(), "unix:///t".into()], ..config() };
        assert_eq!(twice.exported().unwrap().unwrap().traders.len(), 1);
        refused(|config| config.traders.clear(), "--trader URL");
        refused(|config| config.traders.push("trader:7450".into()), "`trader:7450`");
        refused(|config| config.advertise.push("db1:7447".into()), "`db1:7447`");
        refused(
            |config| config.listen.push("tls://0.0.0.0:7447".into()),
            "--advertise tls://db1.example:7447",
        );
        refused(|config| config.listen.push("tls://[::]:7447".into()), "`--advertise URL`");
        refused(|config| config.advertise.push("tls://0.0.0.0:7447".into()), "write one of them");
        let named = Config { advertise: vec!["tls://db1.example:7447".into()], ..config() };
        let listening = Config { listen: vec!["tls://0.0.0.0:7447".into()], ..named };
        assert_eq!(listening.exported().unwrap().unwrap().advertise.len(), 1);
    }

    #[test]
    fn limits_of_exports_have_names() {
        let export = ExportConfig { service: "DataBase".into(), ..ExportConfig::default() };
        let many = |config: &mut Config, count: usize| {
            config.exports = (0..count).map(|n| (format!("n{n}"), export.clone())).collect();
        };
        let mut most = config();
        many(&mut most, EXPORTS_MAX);
        most.check_exports().unwrap();
        refused(|config| many(config, EXPORTS_MAX + 1), "more than 100 exports");
        let traders = |config: &mut Config, count: usize| {
            config.traders = (0..count).map(|n| format!("unix:///{n}")).collect();
        };
        traders(&mut most, TRADERS_MAX);
        most.check_exports().unwrap();
        refused(|config| traders(config, TRADERS_MAX + 1), "more than 16 traders");
    }

    #[test]
    fn properties_are_those_of_offers() {
        let mut config = config();
        config.properties.insert("region".into(), PropertyValue::Text("eu".into()));
        config.properties.insert("tier".into(), PropertyValue::Int(1));
        let database = config.exports.get_mut("database").unwrap();
        database.properties.insert("tier".into(), PropertyValue::Int(2));
        let exported = config.exported().unwrap().unwrap();
        assert_eq!(exported.exports[0].properties.to_string(), "region=eu&tier=2");
        let with = |name: &'static str| {
            move |config: &mut Config| _ = config.properties.insert(name.into(), PropertyValue::Bool(true))
        };
        refused(with("store"), "the server gives the property `store` itself");
        refused(with("load"), "the property `load` is not given by exporters");
        refused(with("a b"), "is no name");
        refused(|config| config.exports.get_mut("database").unwrap().service.clear(), "`type` is missing");
    }
}
