//! Capsules that find each other through traders: those of one program and one group.

use std::time::Duration;

use bifrost_capsule::capsules::{JoinError, Joined, Terms, join_some};
use bifrost_server::exports::capsule::{GROUP_DEFAULT, SERVICE, query};
use bifrost_server::exports::{Exports, Traders, capsule};
use bifrost_transport::{Address, host};
use bifrost_veneer::trader::stubs::{INTERFACE, Trader};
use bifrost_veneer::trader::{TRADER, hex};
use bifrost_veneer::{Error, Session};

use super::certificates::TlsArgs;
use crate::failure::{Exit, Failure};

/// The time for all that is asked of one trader.
const TRADER_WITHIN: Duration = Duration::from_secs(5);
/// Offers that are asked for: more than capsules of a run, since some may be gone or taken.
const OFFERS_MAX: i64 = 64;
/// The variable with the token for traders.
const TRADER_TOKEN: &str = "BIFROST_TRADER_TOKEN";

/// The traders through which capsules find each other.
#[derive(clap::Args, Debug)]
pub struct GroupArgs {
    /// A trader, as tls://host:7450#sha256-PIN; several times for several. Its token is that of the
    /// variable BIFROST_TRADER_TOKEN
    #[arg(long, value_name = "URL")]
    pub trader: Vec<String>,
    /// The name that capsules have in common, so that several groups can use one trader
    #[arg(long, value_name = "NAME", default_value = GROUP_DEFAULT, requires = "trader")]
    pub group: String,
}

fn token() -> String {
    std::env::var(TRADER_TOKEN).unwrap_or_default()
}

impl GroupArgs {
    /// Offers a capsule that waits at an address, until the result is dropped; nothing without a
    /// trader.
    ///
    /// # Errors
    /// The group or the address are none that traders take.
    pub fn offer(&self, address: &Address, terms: &Terms) -> Result<Option<Exports>, Failure> {
        if self.trader.is_empty() {
            return Ok(None);
        }
        if address.is_wildcard() {
            let text = format!("others cannot connect to `{address}`, which stands for all addresses");
            return Err(Failure::new(Exit::Usage, text)
                .help("pass the address of this machine with `--advertise URL`"));
        }
        for url in &self.trader {
            checked(url)?;
        }
        let traders = Traders { urls: self.trader.clone(), token: token() };
        let offered = capsule::export(traders, address.to_string(), &hex(terms.program()), &self.group);
        offered.map(Some).map_err(|why| Failure::new(Exit::Usage, why))
    }

    /// Begins a run with `count` of the capsules that are offered. Those that do not take part are
    /// replaced by others.
    ///
    /// # Errors
    /// There are too few, or no trader answers.
    pub fn join(
        &self,
        count: u32,
        nodes: u32,
        traced: bool,
        terms: &Terms,
        tls: &TlsArgs,
    ) -> Result<Joined, Failure> {
        let wanted = count as usize;
        let mut addresses: Vec<Address> = Vec::new();
        let mut failures = Vec::new();
        for url in &self.trader {
            match self.found(url, terms, tls) {
                Ok(found) => addresses.extend(found),
                Err(why) => {
                    tracing::warn!(trader = url, %why, "trader.lost");
                    failures.push(format!("{url}: {why}"));
                }
            }
            // Traders list the same capsules, and one that is offered twice is greeted once.
            let mut seen = std::collections::HashSet::new();
            addresses.retain(|address| seen.insert(address.to_string()));
            if addresses.len() >= wanted {
                break;
            }
        }
        if addresses.is_empty() && failures.len() == self.trader.len() {
            let text = format!("no trader answers: {}", failures.join("; "));
            return Err(Failure::new(Exit::Unreachable, text));
        }
        let left_out = |address: &Address, why: &JoinError| {
            tracing::warn!(%address, %why, "capsule.left_out");
        };
        Ok(join_some(&addresses, wanted, nodes, traced, terms, left_out)?)
    }

    /// Returns the addresses of the capsules that a trader lists.
    fn found(&self, url: &str, terms: &Terms, tls: &TlsArgs) -> Result<Vec<Address>, Failure> {
        checked(url)?;
        let mut builder = Session::builder(&INTERFACE).token(token()).timeout(TRADER_WITHIN);
        if let Some(authorities) = &tls.ca {
            builder = builder.authorities(authorities);
        }
        let session = builder.connect(url)?;
        let trader: Trader = session.lookup(TRADER);
        let query = query(&hex(terms.program()), &self.group);
        let host = host().unwrap_or_default();
        let offers = trader.find(SERVICE, "", query.as_str(), OFFERS_MAX, host.as_str()).offers().get();
        let told = |why: Error| Failure::new(Exit::Refused, why);
        let addresses = offers.claim().map_err(told)?.into_iter().flat_map(|offer| offer.addresses);
        // An address of a scheme of a later version is none of this one.
        Ok(addresses.filter_map(|address| address.parse().ok()).collect())
    }
}

fn checked(url: &str) -> Result<Address, Failure> {
    let wrong = |why| Failure::new(Exit::Usage, format!("`{url}` is no address of a trader: {why}"));
    url.parse().map_err(wrong)
}
