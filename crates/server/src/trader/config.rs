//! The settings of links.

use std::path::PathBuf;

use bifrost_trader::Limits;
use bifrost_trader::link::{BadLinks, Follow, Link, Links};
use bifrost_transport::{Address, AddressError};
use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use super::LinkSettings;
use crate::config::Config;

/// The cases in which a link is asked, as a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowConfig {
    /// If the trader itself has found nothing.
    #[default]
    IfNone,
    /// Always.
    Always,
}

/// The settings of a link of a trader to another one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// The address of the other trader: `tls://host:port#sha256-PIN`, or as those of `listen`. The
    /// file of the variable `BIFROST_CA` has the authorities of certificates without a pin.
    pub url: String,
    /// The imports for which it is asked: `if_none`, those for which there is no offer here, or
    /// `always`.
    pub follow: FollowConfig,
    /// The file with the token for the other trader on its first line. Empty: no token.
    pub token_file: PathBuf,
}

/// The reason why the links in the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// An address that is none.
    #[error("the link `{name}` has the URL `{url}`: {why}")]
    Url {
        /// The name of the link.
        name: String,
        /// The URL as it was written.
        url: String,
        /// The fault.
        why: AddressError,
    },
    /// No URL.
    #[error("the link `{0}` has no URL: set `links.{0}.url`")]
    NoUrl(String),
    /// A token that cannot be read.
    #[error("the link `{name}`: cannot read the token in `{}`: {why}", .file.display())]
    Token {
        /// The name of the link.
        name: String,
        /// The file.
        file: PathBuf,
        /// The fault.
        why: std::io::Error,
    },
    /// Names and number of the links.
    #[error(transparent)]
    Links(#[from] BadLinks),
}

impl Config {
    /// Returns the links of a trader with its limits.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn trader_links(&self, limits: &Limits) -> Result<Vec<LinkSettings>, LinkError> {
        let mut all = Vec::new();
        for (name, config) in &self.links {
            let name = name.clone();
            if config.url.is_empty() {
                return Err(LinkError::NoUrl(name));
            }
            let url = config.url.clone();
            if let Err(why) = url.parse::<Address>() {
                return Err(LinkError::Url { name, url, why });
            }
            let follow = match config.follow {
                FollowConfig::IfNone => Follow::IfNone,
                FollowConfig::Always => Follow::Always,
            };
            let token = match &config.token_file {
                file if file.as_os_str().is_empty() => String::new(),
                file => match std::fs::read_to_string(file) {
                    Ok(text) => text.lines().next().unwrap_or_default().trim().to_owned(),
                    Err(why) => return Err(LinkError::Token { name, file: file.clone(), why }),
                },
            };
            all.push(LinkSettings { link: Link { name, url, follow }, token });
        }
        Links::new(all.iter().map(|settings| settings.link.clone()).collect(), limits)?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(links: &[(&str, LinkConfig)], limits: &Limits) -> Result<Vec<LinkSettings>, String> {
        let links = links.iter().map(|(name, link)| ((*name).to_owned(), link.clone())).collect();
        Config { links, ..Config::default() }.trader_links(limits).map_err(|why| why.to_string())
    }

    fn at(url: &str) -> LinkConfig {
        LinkConfig { url: url.to_owned(), ..LinkConfig::default() }
    }

    #[test]
    fn links_have_an_address_a_name_and_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "s3cret\n").unwrap();
        let far = LinkConfig { token_file, follow: FollowConfig::Always, ..at("tls://far:7450") };
        let limits = Limits::default();
        let all = links(&[("eu", at("unix:///run/trader")), ("us", far)], &limits).unwrap();
        let links: Vec<_> = all.iter().map(|s| (&*s.link.name, s.link.follow, &*s.token)).collect();
        assert_eq!(links, [("eu", Follow::IfNone, ""), ("us", Follow::Always, "s3cret")]);
    }

    #[test]
    fn mistakes_name_their_link() {
        let limits = Limits::default();
        let wrong = |name: &str, link| links(&[(name, link)], &limits).unwrap_err();
        assert!(wrong("us", at("")).contains("links.us.url"));
        assert!(wrong("us", at("nowhere")).contains("`us` has the URL `nowhere`"));
        let missing = LinkConfig { token_file: "/nowhere/token".into(), ..at("tls://far:1") };
        assert!(wrong("us", missing).contains("/nowhere/token"));
        assert!(wrong("a/b", at("tls://far:1")).contains("`a/b` is no name of a link"));
        let few = Limits { links_max: 1, ..limits };
        let many = links(&[("a", at("tls://a:1")), ("b", at("tls://b:1"))], &few).unwrap_err();
        assert!(many.contains("trader.links_max"), "{many}");
    }
}
