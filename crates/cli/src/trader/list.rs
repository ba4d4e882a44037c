//! `bifrost trader list` and `watch`: clients of a trader.
//!
//! Both read all listed offers in pages, and compare them with the query themselves. Texts of
//! offers come from strangers, so their control characters are escaped.

use std::collections::BTreeMap;

use bifrost_trader::url::addresses;
use bifrost_trader::{Offer, OfferId, Query, Value};
use bifrost_transport::host;
use bifrost_veneer::trader::stubs::{INTERFACE, Trader};
use bifrost_veneer::trader::{TRADER, hex, offer};
use bifrost_veneer::{Error, Session};
use serde_json::json;

use crate::client::ConnectArgs;
use crate::failure::{Exit, Failure, Outcome, print};

/// Offers of a page; a trader gives fewer if it is set so.
const PAGE: i64 = 64;
/// Milliseconds for which one call waits for a change.
const WITHIN_MS: i64 = 5_000;

/// The arguments of both commands.
#[derive(clap::Args, Debug)]
struct Common {
    /// The trader, or several of them: the first that answers is asked [default: the server on this
    /// machine at the default address]
    #[arg(long, value_name = "URL", env = "BIFROST_TRADER")]
    trader: Option<String>,
    /// The offers to show: comparisons with their properties [default: all]
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    query: Option<Query>,
    /// Print a JSON object for each line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// List the offers of a trader
///
/// One line for each offer, by number. Offers that end in `doubtful` may be gone: the trader may
/// have missed their renewals.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost trader list --trader tls://trader.example:7450
  bifrost trader list 'region=eu&load<0.5' --service DataBase --json")]
pub struct ListArgs {
    /// The type of the objects [default: all]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    service: String,
    #[command(flatten)]
    common: Common,
}

/// Print the offers of a service, and then each change of them
///
/// A line begins with `+` for an offer that is listed, `~` for one that has changed, and `-` for
/// one that is gone; with `--json` it has `event`. A load is no change.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost trader watch DataBase
  bifrost trader watch DataBase 'region=eu' --json")]
pub struct WatchArgs {
    /// The type of the objects
    #[arg(value_name = "SERVICE")]
    service: String,
    #[command(flatten)]
    common: Common,
}

fn parse_query(text: &str) -> Result<Query, String> {
    let query = Query::parse(text).map_err(|why| why.to_string())?;
    match query.prefer() {
        None => Ok(query),
        Some(_) => Err("all offers are shown, by number; leave `prefer` out".to_owned()),
    }
}

/// Lists the offers.
pub fn list(args: &ListArgs) -> Outcome {
    let client = Client::connect(&args.common)?;
    let offers = client.offers(&args.service)?;
    if args.common.json {
        let lines: String = offers.iter().map(|offer| format!("{}\n", object(offer))).collect();
        return Ok(print(&lines)?);
    }
    let mut rows: Vec<Row> =
        vec![["ID", "SERVICE", "NAME", "ADDRESSES", "PROPERTIES", "LOAD", ""].map(Into::into)];
    rows.extend(offers.iter().map(row));
    Ok(print(&table(&rows))?)
}

/// Prints offers and changes until the trader is gone.
pub fn watch(args: &WatchArgs) -> Outcome {
    let client = Client::connect(&args.common)?;
    let say = |event: (&str, &str), offer: &Offer| -> Outcome {
        let (sign, name) = event;
        if args.common.json {
            let mut line = object(offer);
            line["event"] = name.into();
            return Ok(print(&format!("{line}\n"))?);
        }
        Ok(print(&format!("{sign} {}\n", row(offer).join("  ").trim_end()))?)
    };
    let (mut counter, mut known) = (0, BTreeMap::new());
    loop {
        let before = counter;
        // The counter is read before the offers: a change between the two is seen in both.
        counter = told(client.trader.changes(args.service.as_str(), counter, WITHIN_MS).claim())?;
        if counter == before {
            continue;
        }
        let offers = client.offers(&args.service)?;
        let now: BTreeMap<OfferId, Offer> = offers.into_iter().map(|offer| (offer.id, offer)).collect();
        for (id, offer) in &now {
            let same = |old: &Offer| Offer { load: offer.load, ..old.clone() } == *offer;
            match known.get(id) {
                None => say(("+", "listed"), offer)?,
                Some(old) if !same(old) => say(("~", "changed"), offer)?,
                Some(_) => {}
            }
        }
        for (_, offer) in known.iter().filter(|(id, _)| !now.contains_key(id)) {
            say(("-", "gone"), offer)?;
        }
        known = now;
    }
}

/// A session with a trader.
struct Client {
    trader: Trader,
    query: Query,
    host: String,
    _session: Session,
}

impl Client {
    /// Opens a session with the first of the traders that answers.
    fn connect(args: &Common) -> Result<Client, Failure> {
        let mut traders = addresses(args.trader.as_deref().unwrap_or_default()).peekable();
        let session = loop {
            let trader = traders.next();
            match args.connect.session(&INTERFACE, trader) {
                Err(_) if traders.peek().is_some() => {}
                session => break session?,
            }
        };
        Ok(Client {
            trader: session.lookup(TRADER),
            query: args.query.clone().unwrap_or_default(),
            host: host().unwrap_or_default(),
            _session: session,
        })
    }

    /// Returns the listed offers of a service that the query matches, by number.
    fn offers(&self, service: &str) -> Result<Vec<Offer>, Failure> {
        let mut offers = Vec::new();
        let mut last = 0;
        loop {
            let page = told(self.trader.offers(service, last, PAGE, self.host.as_str()).get().claim())?;
            let Some(end) = page.last() else { return Ok(offers) };
            // A trader that gives the same page again would have us ask for ever.
            if end.id <= last {
                return Err(Failure::new(Exit::Refused, "the trader's pages are not in order"));
            }
            last = end.id;
            offers.extend(page.into_iter().map(offer).filter(|offer| self.query.matches(offer)));
        }
    }
}

fn told<T>(outcome: Result<T, Error>) -> Result<T, Failure> {
    outcome.map_err(|why| Failure::new(Exit::Refused, format!("the trader: {why}")))
}

/// Returns the object of a line of JSON.
fn object(offer: &Offer) -> serde_json::Value {
    let value = |value: &Value| match value {
        Value::Int(int) => json!(int),
        Value::Real(real) => json!(real),
        Value::Bool(bool) => json!(bool),
        Value::String(text) => json!(text),
    };
    let properties = offer.properties.iter().map(|(name, of)| (name.to_owned(), value(of)));
    let addresses: Vec<&str> = offer.addresses.iter().map(|address| &**address).collect();
    json!({
        "id": offer.id.0,
        "service": &*offer.service,
        "name": &*offer.name,
        "digest": hex(&offer.digest),
        "addresses": addresses,
        "properties": properties.collect::<serde_json::Map<_, _>>(),
        "load": offer.load,
        "doubtful": offer.doubtful,
    })
}

/// The cells of a line of the table.
type Row = [String; 7];

fn row(offer: &Offer) -> Row {
    let properties = offer.properties.iter().map(|(name, value)| format!("{name}={}", value.to_text()));
    let load = offer.load.map_or_else(|| "-".to_owned(), |load| format!("{load:.2}"));
    let doubtful = if offer.doubtful { "doubtful" } else { "" };
    let cells = [
        offer.id.0.to_string(),
        offer.service.to_string(),
        offer.name.to_string(),
        offer.addresses.join(" "),
        properties.collect::<Vec<_>>().join(" "),
        load,
        doubtful.to_owned(),
    ];
    cells.map(|cell| printable(&cell))
}

/// Escapes control characters: a terminal obeys them.
fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// Returns rows with their columns aligned.
fn table(rows: &[Row]) -> String {
    let mut widths = [0; 7];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_of_strangers_are_escaped() {
        let mut offer = Offer { service: "S".into(), ..Offer::default() };
        offer.properties.set("a", Value::String("\u{1b}[2J\u{9b}x".into()));
        assert!(row(&offer)[4].starts_with("a=\\u{1b}[2J\\u{9b}x"), "{:?}", row(&offer));
    }

    #[test]
    fn a_query_with_an_order_is_refused() {
        assert!(parse_query("a=1").is_ok());
        assert!(parse_query("a=1&prefer=first").unwrap_err().contains("prefer"));
        assert_eq!(
            bifrost_trader::Limits::default().most_max,
            PAGE as u64,
            "a page is the most that a trader gives"
        );
    }
}
