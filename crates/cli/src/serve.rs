//! `bifrost serve`: a server in the foreground, until it is told to end.
//!
//! [`run`] takes these steps: gather the settings, load the program, start the server, say where it
//! listens, and wait for a signal. Settings come from a file, from the environment and from the
//! arguments; `overrides` has the arguments in their shape. The server (`bifrost_server`) owns its
//! store, sessions and threads; this file only starts it and stops it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bifrost_engine::{Engine, Mode, Run};
use bifrost_native::Registry;
use bifrost_native::standard::HttpHosts;
use bifrost_server::exports::PropertyValue;
use bifrost_server::program::ProgramError;
use bifrost_server::{Config, Server, annotated, program};
use bifrost_transport::Address;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use serde_json::{Map, Value};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::common::arguments::{token, with_files};
use crate::common::certificates::self_made;
use crate::common::figures::server_line;
use crate::common::supervised;
use crate::failure::{Exit, Failure, Outcome, print};
use crate::log;

/// Serve the objects of a Theta program
///
/// Runs the routine `setup` if the program has one, which makes the objects and names them with
/// `root().insert("name", object)`; then serves until SIGTERM or SIGINT. A second signal ends it at
/// once.
///
/// A program with actors has nodes for them (`--nodes`). Its routine `start`, if there is one, runs
/// at each start of the server; it makes actors and names them with `publish("name", actor)`.
///
/// Settings come from bifrost.toml, then BIFROST_* variables, then the arguments; later ones win.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  bifrost serve database.theta
      over shared memory and a unix socket in your runtime folder: `bifrost shell` finds it
  bifrost serve --listen tls://0.0.0.0:7447 --token-file secret database.theta
      over TLS, to clients with the token, which trust the pin in the `ready` line;
      `bifrost certificate --help` says how to make certificates that an authority signs
  bifrost serve --listen unix:///tmp/db --set limits.batch_time_ms_max=500 database.theta
  bifrost serve --store objects --metrics tcp://127.0.0.1:9464 database.theta
      `curl http://127.0.0.1:9464/metrics` prints the counts of sessions and store
  bifrost serve --otlp http://localhost:4318 --set otlp_ratio=0.01 database.theta
      exports metrics, and a span for each hundredth batch, to a collector of OpenTelemetry
  bifrost serve --listen tls://0.0.0.0:7447 --advertise tls://db1.example:7447 \
      --export database:DataBase --property region=eu --trader tls://trader.example:7450 database.theta
      offers the object to clients of the trader, until the server ends
  BIFROST_SESSIONS_MAX=10 bifrost serve --print-config

A line `ready URL...` on the standard output means that clients can connect. SIGUSR1 prints the number of open
sessions and the figures of the collector, on one line of the standard error; SIGHUP makes the server read its
certificate and the roles again, for new connections;
BIFROST_LOG=bifrost=debug logs each collection (`heap.collected`).")]
pub struct Args {
    /// The files of the program; their imports are found by themselves
    #[arg(value_name = "FILE.theta", required_unless_present = "print_config")]
    files: Vec<PathBuf>,
    /// Where imports start [default: the folder of the first file]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(flatten)]
    pub options: Options,
}

/// The arguments of a server, whichever program it serves.
#[derive(clap::Args, Debug)]
pub struct Options {
    #[arg(long, value_name = "URL", help = setting_or("listen", "; several times for several"))]
    listen: Vec<String>,
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file", help = setting("token"))]
    token: Option<String>,
    /// A file with the token of clients on its first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[arg(long, value_name = "STORE", help = setting("store"))]
    store: Option<String>,
    #[arg(long, value_name = "URL", help = setting("metrics"))]
    metrics: Option<String>,
    #[arg(long, value_name = "URL", help = setting("otlp"))]
    otlp: Option<String>,
    /// An object that is exported to traders: its name in the root directory, or as an actor, and
    /// the type under which clients find it; several times for several
    #[arg(long, value_name = "NAME:TYPE", value_parser = parse_export)]
    export: Vec<(String, String)>,
    /// A trader to which objects are exported; several times for several
    #[arg(long, value_name = "URL", env = "BIFROST_TRADER")]
    trader: Vec<String>,
    #[arg(long, value_name = "URL", help = setting_or("advertise", "; several times for several"))]
    advertise: Vec<String>,
    /// A property of all exports: region=eu, tier=1
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_property)]
    property: Vec<Setting>,
    #[arg(long, value_name = "N", help = setting("nodes"))]
    nodes: Option<u32>,
    #[arg(long, value_name = "N", help = setting("tasks.threads"))]
    tasks: Option<u32>,
    #[arg(long, value_name = "BYTES", help = setting("server_heap_bytes_max"))]
    server_heap_bytes_max: Option<usize>,
    #[arg(long, value_name = "CLIENTS", value_parser = ["always", "local", "never"], help = setting("show_places"))]
    show_places: Option<String>,
    #[arg(long, help = setting("anonymous_loopback"))]
    anonymous_loopback: bool,
    #[arg(long, value_name = "FILE", help = setting("tls.certificate"))]
    certificate: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "certificate", help = setting("tls.key"))]
    key: Option<PathBuf>,
    #[arg(long, help = setting("plain_networks"))]
    plain_networks: bool,
    #[arg(long, value_name = "ORIGIN", help = setting_or("websocket.origins", "; several times for several"))]
    origin: Vec<String>,
    #[arg(long, value_name = "RIGHTS", value_parser = ["read-write", "read-only"], help = setting("root_names"))]
    root_names: Option<String>,
    /// The settings file [default: bifrost.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "BIFROST_CONFIG")]
    config: Option<PathBuf>,
    /// A setting: sessions_max=10, limits.fuel_max=1000000
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub set: Vec<Setting>,
    /// Print the settings in effect as a file that `--config` reads, and end: each with its
    /// meaning, default and unit
    #[arg(long)]
    print_config: bool,
    #[arg(long, value_name = "DIR", help = setting_or("allow_files", "; several times for several"))]
    allow_files: Vec<PathBuf>,
    #[arg(long, value_name = "HOST", help = setting_or("allow_http", "; several times for several"))]
    allow_http: Vec<String>,
    /// Run methods in the interpreter
    #[arg(long)]
    interpret: bool,
    /// Print the answer to SIGUSR1 at the end, too
    #[arg(long)]
    gc_stats: bool,
    /// The form of the events that BIFROST_LOG selects
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub log: log::Format,
    /// Write the `ready` line to this file descriptor instead of the standard output
    #[arg(long, value_name = "N")]
    ready_fd: Option<u32>,
}

/// Returns the help of an argument that is a setting: the comment of the setting, and its default.
fn setting(name: &str) -> String {
    setting_or(name, "")
}

/// As [`setting`], with more words.
fn setting_or(name: &str, more: &str) -> String {
    let default = match name {
        "nodes" | "root_names" | "show_places" | "store" => annotated::default(name),
        _ => String::new(),
    };
    let default = if default.is_empty() { default } else { format!(" [default: {default}]") };
    format!("{}{more}{default}", annotated::sentence(name))
}

/// `NAME=VALUE`
pub type Setting = (String, Value);

fn parse_setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in `sessions_max=10`")?;
    // A token may look like a number; nothing else that is a text does.
    let typed = if name == "token" { None } else { serde_json::from_str(value).ok() };
    Ok((name.to_owned(), typed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// Reads `database:DataBase`. A name may have colons, and a type has none.
fn parse_export(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once(':') {
        Some((name, service)) if !name.is_empty() && !service.is_empty() => {
            Ok((name.to_owned(), service.to_owned()))
        }
        _ => Err("write NAME:TYPE, as in `database:DataBase`".to_owned()),
    }
}

/// Reads `region=eu`: a value is of the type that it has in a query of a trader.
fn parse_property(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in `region=eu`")?;
    let value = bifrost_trader::Value::from_text(value).map_err(|why| why.to_string())?;
    let value = serde_json::to_value(PropertyValue::from(value)).map_err(|why| why.to_string())?;
    Ok((name.to_owned(), value))
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    let load =
        |run: Run, registry: &Registry| program::load_with(&args.files, args.root.as_deref(), run, registry);
    let adjust = |config: &mut Config| match config.links.is_empty() {
        true => Ok(()),
        false => {
            Err(Failure::new(Exit::Usage, "the setting `links` is one of a trader: see `bifrost trader`"))
        }
    };
    serve(&args.options, registry, adjust, load)
}

/// Serves a program until a signal ends the server. `adjust` changes the settings each time that
/// they were gathered, at the start and at SIGHUP; `load` makes the program.
pub fn serve(
    args: &Options,
    registry: &Registry,
    adjust: impl Fn(&mut Config) -> Outcome,
    load: impl FnOnce(Run, &Registry) -> Result<Arc<Engine>, ProgramError>,
) -> Outcome {
    let mut config = gather(args)?;
    adjust(&mut config)?;
    // Before the sources are compiled: a mistake in the settings is found at once.
    config.session_limits()?;
    config.addresses()?;
    config.metrics_address()?;
    config.origins()?;
    config.otlp_target()?;
    config.place()?;
    config.check_nodes()?;
    config.checked_roles()?;
    config.check_exports()?;
    if args.print_config {
        return Ok(print(&annotated::annotated(&config))?);
    }
    let is_self_made = config.tls_address()?.is_some() && config.tls.certificate.as_os_str().is_empty();
    if is_self_made {
        (config.tls.certificate, config.tls.key) = (self_made()?, PathBuf::new());
    }
    config.tls_server()?;
    let mode = if args.interpret { Mode::Interpreted } else { Mode::Compiled };
    let registry = with_files(registry, &config.allow_files)?
        .with(HttpHosts(config.allow_http.clone()))
        .with(config.task_settings()?)
        .with(config.claims()?);
    let engine = load(Run::kept(mode), &registry)?;
    raise_open_files();
    let mut server = Server::start(engine, &config)?;
    let signals = catch_signals()?;
    let addresses = shown(&server, is_self_made);
    server.export(&config, server.pin().filter(|_| is_self_made))?;
    announce(&server, &config, &addresses);
    tell_ready(&addresses, args.ready_fd)?;
    supervised::tell_ready(&server);
    wait(signals, &server, || {
        let mut config = gather(args)?;
        adjust(&mut config)?;
        Ok(config)
    });
    if args.gc_stats {
        say(server_line(&server));
    }
    supervised::tell(NotifyState::Stopping);
    match server.sessions() {
        0 => say("stopping"),
        open => say(format_args!("stopping; open sessions: {open}")),
    }
    match server.stop() {
        0 => {}
        left => say(format_args!("sessions abandoned: {left}")),
    }
    Ok(())
}

fn gather(args: &Options) -> Result<Config, Failure> {
    if let Some(file) = &args.config
        && let Err(why) = check_settings(file)
    {
        let message = format!("cannot read the settings in `{}`: {why}", file.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    let file = args.config.as_deref().unwrap_or(Path::new("bifrost.toml"));
    Ok(Config::gather(file, overrides(args)?)?)
}

/// Checks that a file can have settings. A file that is not regular is taken for an empty one.
fn check_settings(file: &Path) -> std::io::Result<()> {
    if File::open(file)?.metadata()?.is_file() || program::read_file(file)?.is_empty() {
        return Ok(());
    }
    Err(std::io::Error::other("it is not a regular file"))
}

/// Returns the arguments in the shape of the settings.
fn overrides(args: &Options) -> Result<Value, Failure> {
    let mut settings = Map::new();
    for (name, value) in &args.set {
        let mut place = &mut settings;
        let mut parts = name.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                place.insert(part.to_owned(), value.clone());
                break;
            }
            let inner = place.entry(part).or_insert_with(|| Value::Object(Map::new()));
            place = match inner {
                Value::Object(inner) => inner,
                _ => {
                    return Err(Failure::new(
                        Exit::Usage,
                        format!("the setting `{part}` has no parts, and `{name}` sets one"),
                    ));
                }
            };
        }
    }
    if !args.allow_files.is_empty() {
        let folders = args.allow_files.iter().map(|folder| folder.to_string_lossy().into_owned());
        settings.insert("allow_files".into(), folders.collect::<Vec<_>>().into());
    }
    if !args.allow_http.is_empty() {
        settings.insert("allow_http".into(), args.allow_http.clone().into());
    }
    if !args.listen.is_empty() {
        settings.insert("listen".into(), args.listen.clone().into());
    }
    // A variable with digits only would be taken for a number, and shown in the message about it.
    let given = token(args.token.as_deref(), args.token_file.as_deref())?;
    if let Some(token) = given.or_else(|| std::env::var("BIFROST_TOKEN").ok()) {
        settings.insert("token".into(), token.into());
    }
    if !args.trader.is_empty() {
        // The variable separates them by commas or spaces.
        let traders = args.trader.iter().flat_map(|urls| bifrost_trader::url::addresses(urls));
        settings.insert("traders".into(), traders.collect::<Vec<_>>().into());
    }
    if let Ok(token) = std::env::var("BIFROST_TRADER_TOKEN") {
        settings.insert("trader_token".into(), token.into());
    }
    if !args.advertise.is_empty() {
        settings.insert("advertise".into(), args.advertise.clone().into());
    }
    for (name, value) in &args.property {
        let properties = settings.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(properties) = properties {
            properties.insert(name.clone(), value.clone());
        }
    }
    let mut exported = BTreeSet::new();
    for (name, service) in &args.export {
        if !exported.insert(name) {
            return Err(Failure::new(Exit::Usage, format!("`{name}` is exported twice")));
        }
        let exports = settings.entry("exports").or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(exports) = exports else { continue };
        // `--set exports.database.lease_ms=20000` may have set another part of it.
        let export = exports.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(export) = export {
            export.insert("type".into(), service.clone().into());
        }
    }
    if let Some(store) = &args.store {
        settings.insert("store".into(), store.clone().into());
    }
    if let Some(metrics) = &args.metrics {
        settings.insert("metrics".into(), metrics.clone().into());
    }
    if !args.origin.is_empty() {
        settings.insert("websocket".into(), serde_json::json!({ "origins": args.origin }));
    }
    if let Some(otlp) = &args.otlp {
        settings.insert("otlp".into(), otlp.clone().into());
    }
    if let Some(nodes) = args.nodes {
        settings.insert("nodes".into(), nodes.into());
    }
    if let Some(threads) = args.tasks {
        let tasks = settings.entry("tasks").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(tasks) = tasks {
            tasks.insert("threads".into(), threads.into());
        }
    }
    if let Some(bytes) = args.server_heap_bytes_max {
        settings.insert("server_heap_bytes_max".into(), bytes.into());
    }
    if let Some(rights) = &args.root_names {
        settings.insert("root_names".into(), rights.clone().into());
    }
    if let Some(clients) = &args.show_places {
        settings.insert("show_places".into(), clients.as_str().into());
    }
    if args.anonymous_loopback {
        settings.insert("anonymous_loopback".into(), true.into());
    }
    if args.plain_networks {
        settings.insert("plain_networks".into(), true.into());
    }
    for (name, file) in [("certificate", &args.certificate), ("key", &args.key)] {
        let Some(file) = file else { continue };
        let tls = settings.entry("tls").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(tls) = tls {
            tls.insert(name.into(), file.to_string_lossy().into());
        }
    }
    Ok(Value::Object(settings))
}

/// Catches the signals that end the server. From now on a second one ends the process at once.
fn catch_signals() -> Result<Signals, Failure> {
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: at the first signal the flag is still down.
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Failed as i32, again.clone())?;
        signal_hook::flag::register(signal, again.clone())?;
    }
    Ok(Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP])?)
}

/// Waits for a signal that ends the server.
fn wait(mut signals: Signals, server: &Server, gather: impl Fn() -> Result<Config, Failure>) {
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => say(server_line(server)),
            SIGHUP => {
                supervised::tell_reloading();
                reload(server, &gather);
                supervised::tell(NotifyState::Ready);
            }
            _ => return,
        }
    }
}

/// Has the server read its certificate and the roles again, for new connections. Those in which
/// there is a mistake stay as they are.
fn reload(server: &Server, gather: &impl Fn() -> Result<Config, Failure>) {
    match server.reload_certificate() {
        Ok(Some(pin)) => {
            tracing::info!(%pin, "certificate.read");
            say(format_args!("the certificate was read again; its pin is {pin}"));
        }
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(%error, "certificate.kept: the certificate in use stays");
        }
    }
    match gather().and_then(|config| Ok(server.reload_roles(&config)?)) {
        Ok(()) => {
            let lines = server.role_lines();
            lines.iter().for_each(say);
            match (lines.is_empty(), server.pin()) {
                (false, _) => say("the roles were read again; all other settings are read at the start"),
                (true, None) => {
                    say("SIGHUP has no effect without `tls://` or roles: the settings are read at the start");
                }
                (true, Some(_)) => {}
            }
        }
        Err(failure) => say(format_args!("the roles were not changed: {failure}")),
    }
}

/// Writes a line to the standard error. A server whose terminal is gone goes on.
fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Raises the number of files that the process may open as far as it may by itself. Only programs
/// that use `select` need the lower number that it starts with.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Refused or not, the server compares the limit with its settings.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the addresses where clients connect. With a certificate that no authority has signed
/// they need its pin.
fn shown(server: &Server, is_self_made: bool) -> Vec<Address> {
    let with_pin = |address: &Address| match server.pin() {
        Some(pin) if is_self_made => address.clone().with_pin(pin),
        _ => address.clone(),
    };
    server.addresses().iter().map(with_pin).collect()
}

/// Tells people the server's addresses, and the command to reach it.
fn announce(server: &Server, config: &Config, addresses: &[Address]) {
    for address in addresses {
        let secured = address.may_ask_for_token() && !(config.anonymous_loopback && address.is_loopback());
        match secured {
            _ if !config.roles.is_empty() => {
                say(format_args!("listening on {address} (clients need a role)"))
            }
            true => say(format_args!("listening on {address} (clients need the token)")),
            false => say(format_args!("listening on {address}")),
        }
    }
    server.role_lines().iter().for_each(say);
    if let Some(pin) = server.pin() {
        say(format_args!("the pin of the certificate is {pin}"));
    }
    if let Some(address) = server.metrics_address() {
        say(format_args!("metrics on {address}"));
    }
    for (name, export) in &config.exports {
        say(format_args!("exporting {name} ({}) to {}", export.service, config.traders.join(" ")));
    }
    let made_up = server.required_token().filter(|_| config.token.is_empty());
    if let Some(token) = made_up {
        say(format_args!("the token is {token}"));
    }
    if let Some(address) = addresses.first() {
        let token = if made_up.is_some() && address.may_ask_for_token() { "BIFROST_TOKEN=... " } else { "" };
        let url = if config.listen.is_empty() { String::new() } else { format!(" {address}") };
        say(format_args!("try: {token}bifrost shell{url}"));
    }
}

fn tell_ready(addresses: &[Address], descriptor: Option<u32>) -> Outcome {
    let mut line = String::from("ready");
    for address in addresses {
        line += &format!(" {address}");
    }
    line.push('\n');
    let Some(descriptor) = descriptor else { return Ok(print(&line)?) };
    let written = File::options()
        .write(true)
        .open(format!("/dev/fd/{descriptor}"))
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written
        .map_err(|e| Failure::new(Exit::Usage, format!("cannot write to file descriptor {descriptor}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_typed() {
        assert_eq!(parse_setting("sessions_max=3").unwrap().1, Value::from(3));
        assert_eq!(parse_setting("token=3").unwrap().1, Value::from("3"));
        assert!(parse_setting("x").is_err());
    }

    #[test]
    fn exports_and_properties_are_read() {
        let of = |name: &str, service: &str| Ok((name.to_owned(), service.to_owned()));
        assert_eq!(parse_export("database:DataBase"), of("database", "DataBase"));
        assert_eq!(parse_export("a:b:T"), of("a:b", "T"));
        for wrong in ["database", ":T", "a:", ""] {
            assert!(parse_export(wrong).is_err(), "{wrong}");
        }
        let values = [("1", Value::from(1)), ("0.5", 0.5.into()), ("true", true.into()), ("'1'", "1".into())];
        for (text, value) in values {
            assert_eq!(parse_property(&format!("a={text}")).unwrap().1, value);
        }
        assert!(parse_property("a='").is_err() && parse_property("a").is_err());
    }
}
