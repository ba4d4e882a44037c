//! `bifrost serve`: a server in the foreground, until it is told to end.
//!
//! [`run`] takes these steps: gather the settings, load the program, start the server, say where it
//! listens, and wait for a signal. Settings come from a file, from the environment and from the
//! arguments; `overrides` has the arguments in their shape. The server (`bifrost_server`) owns its
//! store, sessions and threads; this file only starts it and stops it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bifrost_engine::{Mode, Run};
use bifrost_native::Registry;
use bifrost_repository::postgres;
use bifrost_server::{Config, Server, program};
use bifrost_transport::Address;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Map, Value};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

use crate::common::arguments::{token, with_files};
use crate::common::certificates::self_made;
use crate::common::figures::server_line;
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
  BIFROST_SESSIONS_MAX=10 bifrost serve --print-config

A line `ready URL...` on the standard output means that clients can connect. SIGUSR1 prints the number of open
sessions and the figures of the collector, on one line of the standard error; SIGHUP makes the server read its
certificate and the roles again, for new connections;
BIFROST_LOG=bifrost=debug logs each collection (`heap.collected`).")]
pub struct Args {
    /// The files of the program; their imports are found by themselves
    #[arg(value_name = "FILE.theta", required_unless_present = "print_config")]
    files: Vec<PathBuf>,
    /// Where to listen: shm:///path, unix:///path, tls://host:port, tcp://host:port, and for
    /// browsers wss://host:port/path, ws://host:port/path; several times for several
    #[arg(long, value_name = "URL")]
    listen: Vec<String>,
    /// The token that clients must show over TCP, TLS and websockets. Other users can read it in
    /// the process table, so better use a file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the token of clients on its first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where objects are kept: a folder, a database as postgres://user@host/name, which several
    /// servers may share, or `memory:`, where they are lost when the server ends [default:
    /// `memory:`]. A password is better put into bifrost.toml or BIFROST_STORE: other users can
    /// read arguments in the process table
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Where metrics are exported, as Prometheus reads them, at `/metrics`: tcp://host:port,
    /// unix:///path, or tls://host:port for HTTPS
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// The collector of OpenTelemetry to which metrics and spans of batches are exported:
    /// http://host:4318, https://host:4318
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// The number of threads for the program's actors, if it has some [default: 1]
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Most bytes of the objects of all sessions and nodes together [default: three quarters of the
    /// memory that the control group or the machine has]. Beyond it the newest of the largest
    /// batches are ended
    #[arg(long, value_name = "BYTES")]
    server_heap_bytes_max: Option<usize>,
    /// Which clients are told at which places of the program a failure arose: always all, local
    /// those over shared memory and unix sockets, never none [default: local]
    #[arg(long, value_name = "CLIENTS", value_parser = ["always", "local", "never"])]
    show_places: Option<String>,
    /// Accept all clients over TCP, TLS and websockets on loopback addresses
    #[arg(long)]
    anonymous_loopback: bool,
    /// The certificate of `tls://` and `wss://` listeners, in PEM [default: a self-made one, whose
    /// pin is in the
    /// `ready` line]
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM [default: in the certificate's file]
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Allow `tcp://` and `ws://` at addresses that other machines reach: tokens and objects pass
    /// unencrypted
    #[arg(long)]
    plain_networks: bool,
    /// The origin of pages that may open websockets, such as `https://app.example` or
    /// `http://localhost:*`; several times for several [default: none]
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    /// The rights of clients to the names of the root directory [default: read-only]. With
    /// read-only, clients look names up and list them, and only the program changes them
    #[arg(long, value_name = "RIGHTS", value_parser = ["read-write", "read-only"])]
    root_names: Option<String>,
    /// The settings file [default: bifrost.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "BIFROST_CONFIG")]
    config: Option<PathBuf>,
    /// A setting: sessions_max=10, limits.fuel_max=1000000
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<Setting>,
    /// Print the settings in effect as TOML, and end
    #[arg(long)]
    print_config: bool,
    /// Where imports start [default: the folder of the first file]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// A folder whose files `std.files` reaches; several times for several [default: none]
    #[arg(long, value_name = "DIR")]
    allow_files: Vec<PathBuf>,
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

/// `NAME=VALUE`
type Setting = (String, Value);

fn parse_setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, as in `sessions_max=10`")?;
    // A token may look like a number; nothing else that is a text does.
    let typed = if name == "token" { None } else { serde_json::from_str(value).ok() };
    Ok((name.to_owned(), typed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// Runs the command.
pub fn run(args: &Args, registry: &Registry) -> Outcome {
    let mut config = gather(args)?;
    // Before the sources are compiled: a mistake in the settings is found at once.
    config.session_limits()?;
    config.addresses()?;
    config.metrics_address()?;
    config.origins()?;
    config.otlp_target()?;
    config.place()?;
    config.check_nodes()?;
    config.checked_roles()?;
    if args.print_config {
        return Ok(print(&as_toml(&config))?);
    }
    let is_self_made = config.tls_address()?.is_some() && config.tls.certificate.as_os_str().is_empty();
    if is_self_made {
        (config.tls.certificate, config.tls.key) = (self_made()?, PathBuf::new());
    }
    config.tls_server()?;
    let mode = if args.interpret { Mode::Interpreted } else { Mode::Compiled };
    let registry = with_files(registry, &config.allow_files)?;
    let engine = program::load_with(&args.files, args.root.as_deref(), Run::kept(mode), &registry)?;
    raise_open_files();
    let mut server = Server::start(engine, &config)?;
    let signals = catch_signals()?;
    let addresses = shown(&server, is_self_made);
    announce(&server, &config, &addresses);
    tell_ready(&addresses, args.ready_fd)?;
    wait(signals, &server, args);
    if args.gc_stats {
        say(server_line(&server));
    }
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

fn gather(args: &Args) -> Result<Config, Failure> {
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
fn overrides(args: &Args) -> Result<Value, Failure> {
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
    if !args.listen.is_empty() {
        settings.insert("listen".into(), args.listen.clone().into());
    }
    // A variable with digits only would be taken for a number, and shown in the message about it.
    let given = token(args.token.as_deref(), args.token_file.as_deref())?;
    if let Some(token) = given.or_else(|| std::env::var("BIFROST_TOKEN").ok()) {
        settings.insert("token".into(), token.into());
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
fn wait(mut signals: Signals, server: &Server, args: &Args) {
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => say(server_line(server)),
            SIGHUP => reload(server, args),
            _ => return,
        }
    }
}

/// Has the server read its certificate and the roles again, for new connections. Those in which
/// there is a mistake stay as they are.
fn reload(server: &Server, args: &Args) {
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
    match gather(args).and_then(|config| Ok(server.reload_roles(&config)?)) {
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

/// Returns the settings as a file that `--config` reads; the token is left out, for it would end up
/// in logs.
fn as_toml(config: &Config) -> String {
    let value = serde_json::to_value(config).expect("settings are strings and numbers");
    let mut out = String::new();
    let mut tables = String::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(table) => put_table(&mut tables, name, table),
            _ if name == "store" && postgres::is_url(&config.store) => {
                out += "# store is a database, and not shown\n";
            }
            _ if name == "token" && !config.token.is_empty() => out += "# token is set, and not shown\n",
            _ => out += &format!("{name} = {value}\n"),
        }
    }
    out + &tables
}

/// Writes a table, and those in it behind it. An empty one says nothing.
fn put_table(out: &mut String, name: &str, table: &Map<String, Value>) {
    let (tables, values): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_object());
    if !values.is_empty() {
        *out += &format!("\n[{name}]\n");
        // Numbers, strings and lists of them are written the same in JSON and in TOML.
        values.iter().for_each(|(name, value)| *out += &format!("{name} = {value}\n"));
    }
    for (inner, value) in tables {
        value.as_object().into_iter().for_each(|value| put_table(out, &format!("{name}.{inner}"), value));
    }
}

#[cfg(test)]
mod tests {
    use bifrost_server::RootNames;
    use bifrost_server::roles::RoleSettings;

    use super::*;

    #[test]
    fn settings_as_toml_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bifrost.toml");
        let config =
            Config { listen: vec!["unix:///tmp/\"x\"".into()], sessions_max: 3, ..Config::default() };
        let role = RoleSettings {
            tokens: vec!["blake3:00".into()],
            uids: vec![7],
            limits: [("fuel_max".to_owned(), 5)].into(),
            root_names: Some(RootNames::ReadWrite),
            ..RoleSettings::default()
        };
        let config = Config { roles: [("reader".to_owned(), role)].into(), ..config };
        std::fs::write(&file, as_toml(&config)).unwrap();
        assert_eq!(Config::gather(&file, Map::new()).unwrap(), config);
    }

    #[test]
    fn tokens_are_not_shown() {
        let config = Config { token: "s3cret".into(), ..Config::default() };
        assert!(!as_toml(&config).contains("s3cret"));
        let config = Config { store: "postgres://ann:s3cret@db/bank".into(), ..Config::default() };
        assert!(!as_toml(&config).contains("s3cret"));
    }

    #[test]
    fn settings_are_typed() {
        assert_eq!(parse_setting("sessions_max=3").unwrap().1, Value::from(3));
        assert_eq!(parse_setting("token=3").unwrap().1, Value::from("3"));
        assert!(parse_setting("x").is_err());
    }
}
