//! URLs that name a trader and a question: `trader://host/DataBase?region=eu&prefer=min(load)`.
//!
//! ```text
//! trader://HOST[:PORT]/SERVICE[?QUERY][#PIN]          a trader over TLS
//! trader+quic://HOST[:PORT]/SERVICE[?QUERY][#PIN]     over QUIC
//! trader+tcp://HOST[:PORT]/SERVICE[?QUERY]            over TCP
//! trader+unix:///PATH?service=SERVICE[&QUERY]         at a socket of this machine
//! trader:///SERVICE[?QUERY]                           the traders that the program knows
//! ```
//!
//! The port is 7450 if the URL has none. The path of a socket and the name of a service may have
//! percent-escapes, as the [query](crate::query) has; they need them for `%`, `?`, `#` and spaces.
//! A query here is the text for the trader, without `service`.
//!
//! Read [`TraderUrl`] first. The address of the trader is a text as servers have it
//! (`tls://host:7450#sha256-...`): connecting is the caller's, and so is a fault of host or pin.

use std::fmt;

use percent_encoding::utf8_percent_encode;
use thiserror::Error;

use crate::limits::Limits;
use crate::query::{BadQuery, Query};
use crate::text::{URL_PATH, shown, unescape};

/// The port of a trader, if a URL names none.
pub const PORT: u16 = 7450;

/// The schemes of traders over QUIC and TCP.
const QUIC: &str = "trader+quic";
const TCP: &str = "trader+tcp";

/// The name of the part of a query that is the service.
const SERVICE: &str = "service";

/// The most bytes of a URL.
pub const URL_BYTES_MAX: usize = 4_096;

/// A URL of a service at a trader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraderUrl {
    trader: Option<String>,
    service: String,
    query: String,
}

/// The reason why a text is no [`TraderUrl`], and the form of a right one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BadUrl {
    /// The scheme is none of a trader.
    #[error(
        "`{0}` is no URL of a trader: write `trader://host/Service?query`, `trader+quic://host/Service?query`, \
         `trader+tcp://host/Service?query` or `trader+unix:///path?service=Service&query`"
    )]
    Scheme(String),
    /// The text is longer than a URL may be.
    #[error("the URL has {0} bytes; it may have {URL_BYTES_MAX}")]
    Bytes(usize),
    /// A space or a control character.
    #[error("the URL has a space or a control character at byte {0}; write `%20` for a space")]
    Character(usize),
    /// No service.
    #[error("`{0}` names no service: write the type of the object, as in `{1}`")]
    NoService(String, &'static str),
    /// A service whose name cannot be read.
    #[error("`{0}` is no name of a type: write it as the program has it, with `%25` for `%`")]
    Service(String),
    /// Two services.
    #[error("`service` is there twice; leave one out")]
    Twice,
    /// No host where one is needed.
    #[error("`{0}` names no host: write `{1}://host:port/Service`")]
    NoHost(String, &'static str),
    /// A path that is no absolute one.
    #[error(
        "`{0}` is no absolute path: write three slashes, as in `trader+unix:///run/trader?service=DataBase`"
    )]
    Path(String),
    /// A pin where there is no TLS.
    #[error(
        "`#{0}` is a pin, which `trader://` and `trader+quic://` have: other traders have no certificate"
    )]
    Pin(String),
    /// A pin without a host.
    #[error("`#{0}` is a pin, and the URL names no trader: write pins where the traders are named")]
    PinWithoutHost(String),
    /// The query.
    #[error(transparent)]
    Query(#[from] BadQuery),
}

/// True if a text has the scheme of a trader's URL.
pub fn is_trader(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme == "trader" || scheme.starts_with("trader+"))
}

/// Returns the addresses in a list that spaces or commas separate.
pub fn addresses(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| c.is_whitespace() || c == ',').filter(|address| !address.is_empty())
}

impl TraderUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// See [`BadUrl`].
    pub fn parse(text: &str) -> Result<TraderUrl, BadUrl> {
        if text.len() > URL_BYTES_MAX {
            return Err(BadUrl::Bytes(text.len()));
        }
        if let Some(at) = text.find(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(BadUrl::Character(at));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(BadUrl::Scheme(shown(text).into_owned()));
        };
        let (rest, pin) = match rest.split_once('#') {
            Some((rest, pin)) => (rest, Some(pin)),
            None => (rest, None),
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if let Some(pin) = pin.filter(|_| scheme != "trader" && scheme != QUIC) {
            return Err(BadUrl::Pin(shown(pin).into_owned()));
        }
        let (trader, service, query) = match scheme {
            "trader" => {
                let (host, service) = split_host(text, place)?;
                let trader = match (host, pin) {
                    ("", Some(pin)) => return Err(BadUrl::PinWithoutHost(shown(pin).into_owned())),
                    ("", None) => None,
                    (host, None) => Some(format!("tls://{}", with_port(host))),
                    (host, Some(pin)) => Some(format!("tls://{}#{pin}", with_port(host))),
                };
                (trader, service, check_query(query)?)
            }
            QUIC => {
                let (host, service) = split_host(text, place)?;
                let pin = pin.map(|pin| format!("#{pin}")).unwrap_or_default();
                let trader = format!("quic://{}{pin}", some_host(text, host, QUIC)?);
                (Some(trader), service, check_query(query)?)
            }
            TCP => {
                let (host, service) = split_host(text, place)?;
                let trader = format!("tcp://{}", some_host(text, host, TCP)?);
                (Some(trader), service, check_query(query)?)
            }
            "trader+unix" => {
                let bad_path = || BadUrl::Path(shown(place).into_owned());
                let path = unescape(place).map_err(|_| bad_path())?;
                if !path.starts_with('/') || path.chars().any(char::is_control) {
                    return Err(bad_path());
                }
                let (service, query) = take_service(text, query)?;
                (Some(format!("unix://{path}")), service, check_query(&query)?)
            }
            _ => return Err(BadUrl::Scheme(shown(text).into_owned())),
        };
        Ok(TraderUrl { trader, service, query })
    }

    /// Returns the address of the trader, as servers have it; nothing if the URL names none.
    pub fn trader(&self) -> Option<&str> {
        self.trader.as_deref()
    }

    /// Returns the name of the service: a type of Theta.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the query, as the trader takes it.
    pub fn query(&self) -> &str {
        &self.query
    }
}

/// Splits the place of a URL into a host, which may be empty, and the name of a service.
fn split_host<'t>(text: &str, place: &'t str) -> Result<(&'t str, String), BadUrl> {
    let (host, service) = place.split_once('/').unwrap_or((place, ""));
    if service.is_empty() {
        return Err(BadUrl::NoService(shown(text).into_owned(), "trader://host/DataBase"));
    }
    Ok((host, read_service(service)?))
}

/// Returns a host, which is needed, with its port.
fn some_host(text: &str, host: &str, scheme: &'static str) -> Result<String, BadUrl> {
    match host {
        "" => Err(BadUrl::NoHost(shown(text).into_owned(), scheme)),
        host => Ok(with_port(host)),
    }
}

/// Takes the service out of a query.
fn take_service(text: &str, query: &str) -> Result<(String, String), BadUrl> {
    let is_service = |part: &&str| part.strip_prefix(SERVICE).is_some_and(|rest| rest.starts_with('='));
    let mut named = query.split('&').filter(is_service);
    let service = named.next().map(|part| &part[SERVICE.len() + 1..]).unwrap_or_default();
    if service.is_empty() {
        let form = "trader+unix:///run/trader?service=DataBase";
        return Err(BadUrl::NoService(shown(text).into_owned(), form));
    }
    if named.next().is_some() {
        return Err(BadUrl::Twice);
    }
    let rest: Vec<&str> = query.split('&').filter(|part| !is_service(part)).collect();
    Ok((read_service(service)?, rest.join("&")))
}

fn read_service(service: &str) -> Result<String, BadUrl> {
    let bad = || BadUrl::Service(shown(service).into_owned());
    let name = unescape(service).map_err(|_| bad())?;
    let is_name = !name.chars().any(char::is_control) && !service.contains('/');
    let most = Limits::default().service_bytes_max;
    if is_name && name.len() as u64 <= most { Ok(name.into_owned()) } else { Err(bad()) }
}

/// Checks a query, and returns it.
fn check_query(query: &str) -> Result<String, BadUrl> {
    Query::parse(query)?;
    Ok(query.to_owned())
}

/// Returns a host with the usual port, if it has none.
fn with_port(host: &str) -> String {
    let after = host.rsplit(']').next().unwrap_or(host);
    if after.contains(':') { host.to_owned() } else { format!("{host}:{PORT}") }
}

/// The text: [`TraderUrl::parse`] reads the same URL.
impl fmt::Display for TraderUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = utf8_percent_encode(&self.service, URL_PATH);
        let (scheme, place) = match self.trader.as_deref().and_then(|trader| trader.split_once("://")) {
            None => ("trader", ""),
            Some(("unix", path)) => {
                let path = path.split('/').map(|part| utf8_percent_encode(part, URL_PATH).to_string());
                let path = path.collect::<Vec<_>>().join("/");
                write!(f, "trader+unix://{path}?{SERVICE}={service}")?;
                return if self.query.is_empty() { Ok(()) } else { write!(f, "&{}", self.query) };
            }
            Some(("tcp", host)) => (TCP, host),
            Some(("quic", host)) => (QUIC, host),
            Some((_, host)) => ("trader", host),
        };
        let (host, pin) = match place.split_once('#') {
            Some((host, pin)) => (host, Some(pin)),
            None => (place, None),
        };
        write!(f, "{scheme}://{host}/{service}")?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        pin.iter().try_for_each(|pin| write!(f, "#{pin}"))
    }
}

impl std::str::FromStr for TraderUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<TraderUrl, BadUrl> {
        TraderUrl::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn urls_name_a_trader_a_service_and_a_query() {
        let pinned = format!("trader://t.example:1/DataBase?region=eu&prefer=min(load)#{PIN}");
        let with_pin = format!("tls://t.example:1#{PIN}");
        let table = [
            ("trader://t.example/DataBase", Some("tls://t.example:7450"), "DataBase", ""),
            (pinned.as_str(), Some(with_pin.as_str()), "DataBase", "region=eu&prefer=min(load)"),
            ("trader://[::1]/Box%5Bint%5D?a^=b", Some("tls://[::1]:7450"), "Box[int]", "a^=b"),
            ("trader://[::1]:9/Store?load<0.5", Some("tls://[::1]:9"), "Store", "load<0.5"),
            ("trader+tcp://127.0.0.1/Store", Some("tcp://127.0.0.1:7450"), "Store", ""),
            ("trader+quic://t/Store?a=1", Some("quic://t:7450"), "Store", "a=1"),
            ("trader+quic://t:1/Store#sha256-x", Some("quic://t:1#sha256-x"), "Store", ""),
            ("trader+tcp://127.0.0.1:0/Store?a=1", Some("tcp://127.0.0.1:0"), "Store", "a=1"),
            ("trader+unix:///run/t?service=Store", Some("unix:///run/t"), "Store", ""),
            (
                "trader+unix:///run/a%20b%3Fc?x=1&service=Store&y=2",
                Some("unix:///run/a b?c"),
                "Store",
                "x=1&y=2",
            ),
            ("trader:///Store?zip='01'", None, "Store", "zip='01'"),
        ];
        for (text, trader, service, query) in table {
            let url = TraderUrl::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!((url.trader(), url.service(), url.query()), (trader, service, query), "{text}");
            assert_eq!(TraderUrl::parse(&url.to_string()), Ok(url), "{text}");
            assert!(is_trader(text));
        }
    }

    #[test]
    fn wrong_urls_say_what_a_right_one_looks_like() {
        let long = format!("trader://t/{}", "s".repeat(257));
        let longer = format!("trader://t/{}", "s".repeat(URL_BYTES_MAX));
        let table = [
            ("tls://t:1/DataBase", "is no URL of a trader: write `trader://host/Service?query`"),
            ("trader", "is no URL of a trader"),
            ("trader+rex://t/DataBase", "is no URL of a trader"),
            ("trader://t", "names no service"),
            ("trader://t/", "names no service: write the type of the object"),
            ("trader://t?a=1", "names no service"),
            ("trader+unix:///run/t?a=1", "names no service"),
            ("trader+unix:///run/t?service=", "names no service"),
            ("trader+unix:///run/t?service=A&service=B", "`service` is there twice"),
            ("trader+unix://run/t?service=A", "write three slashes"),
            ("trader+unix:///run/%zz?service=A", "is no absolute path"),
            ("trader+unix:///run/%00?service=A", "is no absolute path"),
            ("trader+tcp:///DataBase", "names no host"),
            ("trader+tcp://t/DataBase#sha256-x", "other traders have no certificate"),
            ("trader+unix:///t?service=A#sha256-x", "other traders have no certificate"),
            ("trader+quic:///DataBase", "write `trader+quic://host:port/Service`"),
            ("trader:///DataBase#sha256-x", "the URL names no trader"),
            ("trader://t/a b", "at byte 12"),
            ("trader://t/a\u{7}", "at byte 12"),
            ("trader://t/a/b", "is no name of a type"),
            ("trader://t/a%0Ab", "is no name of a type"),
            ("trader://t/a%", "is no name of a type"),
            (long.as_str(), "is no name of a type"),
            (longer.as_str(), "it may have 4096"),
            ("trader://t/A?region!eu", "at byte 0 of the query"),
            ("trader://t/A?a=1&prefer=best", "at byte 4 of the query"),
            ("trader+unix:///t?service=A&b?1", "at byte 0 of the query"),
        ];
        for (text, expected) in table {
            let message = TraderUrl::parse(text).expect_err(text).to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn other_schemes_are_none_of_a_trader() {
        for text in ["tls://trader:1", "trader", "traders://x/Y", "unix:///trader://x", ""] {
            assert!(!is_trader(text), "{text}");
        }
        assert!(is_trader("trader+rex://x"), "its error says which schemes there are");
    }

    #[test]
    fn lists_are_separated_by_spaces_and_commas() {
        let of = |list| addresses(list).collect::<Vec<_>>();
        assert_eq!(of("tls://a:1, tls://b:1\ntcp://c:1,,"), ["tls://a:1", "tls://b:1", "tcp://c:1"]);
        assert!(of(" ,\n").is_empty());
    }
}
