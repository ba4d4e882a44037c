//! `bifrost trader`: a trader, and clients of one that list its offers.
//!
//! The trader is the ordinary server with a built-in program (`bifrost_trader::PROGRAM`), whose
//! natives are those of `bifrost_server::trader`. [`list`] has the clients.

mod list;

use std::cell::RefCell;
use std::sync::Arc;

use bifrost_native::Registry;
use bifrost_server::trader::TraderSettings;
use bifrost_server::{Config, program};
use bifrost_theta::{Options, Sources};
use bifrost_trader::Limits;
use bifrost_trader::shared::Shared;

use crate::failure::{Exit, Failure, Outcome};
use crate::serve;

/// The beginning of the names of a trader's settings.
const PREFIX: &str = "trader.";

/// The milliseconds that a batch has beyond the longest wait for changes.
const BATCH_MS_MORE: u64 = 10_000;

/// Serve a trader, the directory of services
///
/// Servers export objects to a trader as offers with properties; clients find them by type and
/// query. A trader says `hello` at the address of an offer before it lists the offer. An offer ends
/// with its lease, unless its exporter renews it. The types of the calls are in `trader.theta`; the
/// object has the name `trader`.
///
/// A trader is an ordinary server: its arguments and settings are those of `bifrost serve`.
#[derive(clap::Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Settings of the trader are given by `--set`, as `--set trader.offers_session_max=1000`;
docs/internals/trader.md has all of them.

Examples:
  bifrost trader --listen tls://0.0.0.0:7450
  bifrost trader --listen unix:///run/trader --trust-addresses
  bifrost trader --link us=tls://us.example:7450#sha256-PIN --set links.us.follow=always
  bifrost trader list --trader unix:///run/trader 'region=eu&tier>=2'
  bifrost trader watch DataBase --json"
)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// List offers without saying `hello` at their addresses first: for servers that ask for a
    /// token or a role, or that the trader cannot reach
    #[arg(long)]
    trust_addresses: bool,
    /// Another trader that is asked if there is no offer here, and its name, which the offers that
    /// it has get as property `link`; several times for several
    #[arg(long, value_name = "NAME=URL", value_parser = parse_link)]
    link: Vec<(String, String)>,
    /// The board: `memory:`, or `etcd://host:port` for one that several traders share, in programs
    /// with the feature `etcd`
    #[arg(long, value_name = "URL", default_value = "memory:")]
    board: String,
    #[command(flatten)]
    pub options: serve::Options,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    List(list::ListArgs),
    Watch(list::WatchArgs),
}

/// Runs the command.
pub fn run(mut args: Args, registry: &Registry) -> Outcome {
    match &args.what {
        Some(What::List(args)) => return list::list(args),
        Some(What::Watch(args)) => return list::watch(args),
        None => {}
    }
    let limits = limits(&mut args.options.set)?;
    let lease_ms = limits.lease_ms(None);
    let batch_ms = limits.wait_ms_max.saturating_add(BATCH_MS_MORE);
    let trusts_addresses = args.trust_addresses;
    // The links are known when the settings are gathered, which is before the program is loaded.
    let settings = RefCell::new(TraderSettings { limits, trusts_addresses, ..TraderSettings::default() });
    let rights = settings.borrow().rights.clone();
    settings.borrow_mut().shared = shared(&args.board, lease_ms)?;
    let adjust = |config: &mut Config| {
        // A call of `changes` may wait for as long as the trader's setting says.
        config.limits.entry("batch_time_ms_max".to_owned()).or_insert(batch_ms);
        for (name, url) in &args.link {
            config.links.entry(name.clone()).or_default().url.clone_from(url);
        }
        let mut settings = settings.borrow_mut();
        settings.links =
            config.trader_links(&settings.limits).map_err(|why| Failure::new(Exit::Usage, why))?;
        // The rights of roles are those of the settings that were read last.
        rights.set(config)?;
        Ok(())
    };
    serve::serve(&args.options, registry, adjust, |run, registry| {
        let registry = &registry.clone().with(settings.take());
        let mut sources = Sources::new();
        sources.add("trader.theta", bifrost_trader::PROGRAM);
        program::load_sources_with(sources, &Options::default(), run, registry)
    })
}

/// Returns the place where the trader shares its offers; nothing if it is alone.
fn shared(board: &str, lease_ms: u64) -> Result<Option<Arc<dyn Shared>>, Failure> {
    match board {
        "memory:" => Ok(None),
        _ if board.starts_with("etcd://") => etcd(board, lease_ms).map(Some),
        _ => {
            let message = format!("`{board}` is no board of a trader");
            Err(Failure::new(Exit::Usage, message).help("write `memory:` or `etcd://host:port`"))
        }
    }
}

#[cfg(feature = "etcd")]
fn etcd(url: &str, lease_ms: u64) -> Result<Arc<dyn Shared>, Failure> {
    let lease = std::time::Duration::from_millis(lease_ms);
    let etcd = bifrost_trader_etcd::Etcd::new(url, lease).map_err(|why| Failure::new(Exit::Usage, why))?;
    Ok(Arc::new(etcd))
}

#[cfg(not(feature = "etcd"))]
fn etcd(_url: &str, _lease_ms: u64) -> Result<Arc<dyn Shared>, Failure> {
    let failure = Failure::new(Exit::Usage, "this program was built without etcd");
    Err(failure.help("build it with `cargo build --release -p bifrost-cli --features etcd`"))
}

fn parse_link(text: &str) -> Result<(String, String), String> {
    let (name, url) = text.split_once('=').ok_or("write NAME=URL, as in `us=tls://trader.example:7450`")?;
    Ok((name.to_owned(), url.to_owned()))
}

/// Takes the settings of the trader out of those of the server.
fn limits(set: &mut Vec<serve::Setting>) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    for (name, value) in set.extract_if(.., |(name, _)| name.starts_with(PREFIX)) {
        let wrong = |why: &str| Failure::new(Exit::Usage, format!("the setting `{name}` {why}"));
        let number = value.as_u64().ok_or_else(|| wrong("is no number of at least 0"))?;
        if !limits.set(&name[PREFIX.len()..], number) {
            return Err(wrong("is none of a trader").help("docs/internals/trader.md has their names"));
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_the_trader_are_taken_out() {
        let mut set = vec![("sessions_max".to_owned(), json!(3)), ("trader.most_max".to_owned(), json!(2))];
        assert_eq!(limits(&mut set).unwrap().most_max, 2);
        assert_eq!(set.len(), 1);
        for (name, value) in [("trader.most_max", json!("many")), ("trader.mots_max", json!(2))] {
            assert!(limits(&mut vec![(name.to_owned(), value)]).is_err(), "{name}");
        }
    }
}
