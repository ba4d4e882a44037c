//! [`Origins`]: the pages of browsers that may open websockets.
//!
//! A browser sends the origin of the page with each request for a websocket, and a page cannot
//! change it. So a page elsewhere cannot use a server that only the user's machine reaches, or the
//! user's certificate, unless its origin is named here. A program that is no browser sends none, or
//! any text: this is no protection from programs.

use std::str::FromStr;

use thiserror::Error;

/// The pages of browsers that may open websockets. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Vec<Origin>);

/// The origin of pages: `https://app.example`, or `http://localhost:*` for all ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
    port: Port,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Port {
    One(u16),
    Any,
}

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is not an origin: write the scheme and the host as a browser sends them, as in \
     `https://app.example` or `http://localhost:8080`; `:*` stands for all ports"
)]
pub struct OriginError(String);

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Origin, OriginError> {
        let wrong = || OriginError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let usual = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(wrong()),
        };
        // The colons of an IPv6 address are within brackets.
        let behind_host = rest.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match rest[behind_host..].find(':') {
            None => (rest, Port::One(usual)),
            Some(colon) => {
                let (host, port) = rest.split_at(behind_host + colon);
                match &port[1..] {
                    "*" => (host, Port::Any),
                    digits if !digits.starts_with('+') => {
                        (host, Port::One(digits.parse().map_err(|_| wrong())?))
                    }
                    _ => return Err(wrong()),
                }
            }
        };
        let allowed = |one: char| one.is_ascii_alphanumeric() || ".-_[]:".contains(one);
        match !host.is_empty() && host.chars().all(allowed) {
            true => Ok(Origin { scheme: scheme.to_owned(), host: host.to_ascii_lowercase(), port }),
            false => Err(wrong()),
        }
    }
}

impl Origin {
    /// True if another origin is this one, or one of its ports.
    fn covers(&self, other: &Origin) -> bool {
        (&self.scheme, &self.host) == (&other.scheme, &other.host)
            && (self.port == Port::Any || self.port == other.port)
    }
}

impl Origins {
    /// Reads the setting.
    ///
    /// # Errors
    /// The first text that is no origin.
    pub fn parse(texts: &[String]) -> Result<Origins, OriginError> {
        texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Origins)
    }

    /// True if a page may open a websocket: its origin, as the browser has sent it.
    pub(crate) fn allow(&self, sent: &str) -> bool {
        let Ok(sent) = sent.parse::<Origin>() else { return false };
        // A browser sends no star.
        sent.port != Port::Any && self.0.iter().any(|origin| origin.covers(&sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_origins_are_let_in() {
        let texts =
            ["https://app.example", "http://localhost:*", "http://[::1]:8080", "https://b.example:444"];
        let origins = Origins::parse(&texts.map(str::to_owned)).unwrap();
        let in_ = [
            "https://app.example",
            "https://app.example:443",
            "http://localhost",
            "http://localhost:3000",
            "http://[::1]:8080",
            "https://b.example:444",
        ];
        for sent in in_ {
            assert!(origins.allow(sent), "{sent}");
        }
        let out = [
            "http://app.example",
            "https://app.example:444",
            "https://app.example.evil.example",
            "https://evil.example/https://app.example",
            "https://sub.app.example",
            "https://localhost:3000",
            "http://localhost.evil.example:3000",
            "http://localhost:*",
            "http://[::1]:8081",
            "http://[::1]",
            "https://b.example",
            "null",
            "",
            "*",
            "https://",
            "https://app.example@evil.example",
            "https://app.example\0",
        ];
        for sent in out {
            assert!(!origins.allow(sent), "{sent}");
        }
        assert!(!Origins::default().allow("https://app.example"));
    }

    #[test]
    fn texts_that_are_no_origins_are_named() {
        let table = [
            "*",
            "app.example",
            "https://*",
            "https://*.example",
            "https://app.example/",
            "ftp://app.example",
            "https://app.example:",
            "https://app.example:x",
            "https://app.example:+1",
            "https://app.example:99999",
            "null",
        ];
        for text in table {
            let error = Origins::parse(&[text.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("https://app.example"), "{error}");
        }
    }
}
