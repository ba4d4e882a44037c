//! Settings: defaults, then `bifrost.toml`, then `BIFROST_*`, then the command line.
//!
//! Read [`Config`] first: its fields are the settings of a server. [`Config::gather`] merges the
//! four sources, of which the later ones win. The other methods check settings and turn them into
//! the types of the modules that use them; each error is a [`ConfigError`]. Variables of clients,
//! logs and tests also begin with `BIFROST_`; `NO_SETTINGS` lists them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bifrost_cache::Prefetch;
use bifrost_capsule::newcomers::{Bounds, HANDSHAKES_MAX};
use bifrost_repository::{MEMORY_BYTES_MAX, Place};
use bifrost_runtime::Collect;
use bifrost_session::{Limits, Policy, Shown};
use bifrost_transport::{
    Address, Clients, KeyFiles, ListenOptions, QuicLimits, TlsServer, default_directory,
};
use bifrost_wire::Limit;
use documented::DocumentedFields;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

pub use crate::config_error::ConfigError;
use crate::connections;
use crate::exports::{ExportConfig, PropertyValue};
use crate::guests::HOSTS_MAX;
use crate::origins::Origins;
use crate::otlp::Target;
use crate::roles::{self, Checked, RoleSettings};
use crate::tasks::TasksConfig;
use crate::trader::LinkConfig;

/// The place of objects if none is given.
pub const MEMORY: &str = "memory:";

/// The rights of clients to the names of the root directory, as a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootNames {
    /// Look up, list, name and unname.
    ReadWrite,
    /// Look up and list.
    #[default]
    ReadOnly,
}

/// The settings of `tls://` listeners: files in PEM, read at the start and at SIGHUP.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The file of the server's certificate, before those that lead to its authority. Empty:
    /// `bifrost serve` makes one, whose pin is in the `ready` line.
    pub certificate: PathBuf,
    /// The file of its private key. Empty: that of the certificate.
    pub key: PathBuf,
    /// The file of the authorities of clients' certificates. Empty: all certificates are accepted,
    /// and of each only its pin counts.
    pub clients: PathBuf,
    /// True if a client without a certificate is refused.
    pub required: bool,
}

/// The settings of `ws://` and `wss://` listeners.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields, default)]
pub struct WebsocketConfig {
    /// The origins of the pages that may open websockets, as browsers send them:
    /// `https://app.example`, or `http://localhost:*` for all ports. Empty: none, so that only
    /// programs that are no browsers connect.
    pub origins: Vec<String>,
}

impl From<RootNames> for bifrost_session::RootNames {
    fn from(rights: RootNames) -> bifrost_session::RootNames {
        match rights {
            RootNames::ReadWrite => bifrost_session::RootNames::ReadWrite,
            RootNames::ReadOnly => bifrost_session::RootNames::ReadOnly,
        }
    }
}

/// The settings of a server. Sizes are in bytes.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, DocumentedFields)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The addresses to listen on: `shm:///path`, `unix:///path`, `tls://host:port`,
    /// `quic://host:port`, `ws://host:port`, `wss://host:port`, `tcp://host:port`. Empty: shared
    /// memory and a unix socket in the default folder.
    pub listen: Vec<String>,
    /// The token that clients must show over TCP, TLS and websockets. Empty: one is made up and
    /// printed at the start. Other users can read arguments in the process table, so better use a
    /// file.
    pub token: String,
    /// True if all clients over TCP and TLS on loopback addresses are accepted.
    pub anonymous_loopback: bool,
    /// True if `tcp://` and `ws://` may listen at addresses that other machines reach, where tokens
    /// and objects pass unencrypted.
    pub plain_networks: bool,
    /// The rights of clients to the names of the root directory: `read-only`, so that only the
    /// program gives and takes names, or `read-write`.
    pub root_names: RootNames,
    /// The address where metrics are exported, as Prometheus reads them, at `/metrics`:
    /// `tcp://host:port`, `unix:///path`, or `tls://host:port` for HTTPS. All that reach it can
    /// read them, so better a loopback address. Empty: nowhere.
    pub metrics: String,
    /// The address of a collector of OpenTelemetry, `http://host:4318` or `https://host:4318`, to
    /// which metrics and spans of batches are exported. Empty: nothing is exported.
    pub otlp: String,
    /// The share of the batches that are sampled, from 0 to 1, of clients that give no trace
    /// context.
    pub otlp_ratio: f64,
    /// The time between two exports of metrics, in milliseconds.
    pub otlp_interval_ms: u64,
    /// Most spans that wait for their export. With one more, that is dropped and counted.
    pub otlp_spans_max: usize,
    /// The place of objects: a folder, a database as `postgres://user@host/name`, which several
    /// servers may share, or `memory:`, where they are lost when the server ends. A password is
    /// better put into bifrost.toml or BIFROST_STORE: other users can read arguments in the process
    /// table.
    pub store: String,
    /// The folders whose files programs reach by `std.files`.
    pub allow_files: Vec<PathBuf>,
    /// The hosts that programs reach by `std.http`: `example.com`, `localhost:8080`,
    /// `*.example.com`.
    pub allow_http: Vec<String>,
    /// The number of threads that run the program's actors, if it has some.
    pub nodes: u32,
    /// The number of threads that run sessions. A thread in a call that waits for the disk or a
    /// database does not count. Absent: one for each processor, at least two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Most stacks of sessions in use: those of batches that run, and of those that wait in the
    /// middle, for the disk or for actors. With one more, the next batch waits.
    pub stacks_max: usize,
    /// Most sessions at a time.
    pub sessions_max: usize,
    /// Most connections at a time whose client has not said `hello`, besides the sessions. With one
    /// more, the oldest silent one is closed.
    pub greetings_max: usize,
    /// The same for the TCP connections of one address.
    pub greetings_address_max: usize,
    /// Most new TCP connections of one address in a second; after a rest, those of five seconds at
    /// once.
    pub connections_per_second_max: u32,
    /// Most handshakes of TLS at a time. With one more, the oldest silent one is closed; over QUIC,
    /// clients must then show first that they receive at their address.
    pub handshakes_max: usize,
    /// Most new TLS connections of one address in a second; after a rest, those of five seconds at
    /// once. Over QUIC in each second.
    pub handshakes_per_second_max: u32,
    /// The delay before the next token of an address is checked after a wrong one, in milliseconds.
    /// Each further wrong one doubles it, up to eight times as long.
    pub wrong_token_ms: u64,
    /// With `memory:`: most bytes of all objects that are kept.
    pub memory_bytes_max: u64,
    /// Most bytes of the objects of a session.
    pub heap_bytes_max: usize,
    /// Most bytes of the objects of all sessions and nodes together. Beyond it the newest of the
    /// largest batches are ended. Absent: three quarters of the memory that the control group or
    /// the machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_heap_bytes_max: Option<usize>,
    /// Most bytes that one batch may add to the objects. Objects that it makes and drops again do
    /// not count. Answers of actors that wait for a session have as many at most.
    pub batch_heap_bytes_max: usize,
    /// Most bytes of messages that wait for one actor; at least a megabyte, and at most a quarter
    /// of `heap_bytes_max`.
    pub mailbox_bytes_max: usize,
    /// Milliseconds that a server waits before it takes the claim of a persistent actor that
    /// another server over the same store has; at least 10.
    pub claim_ms: u32,
    /// Most bytes of objects that a session keeps in its cache. One call may read more.
    pub cache_bytes_max: usize,
    /// Most neighbours of a kind that are fetched along with an object; 0 fetches each object
    /// alone.
    pub prefetch_objects_max: usize,
    /// Most bytes of objects that were fetched along and not asked for yet.
    pub prefetch_bytes_max: usize,
    /// Bytes of stack for running code.
    pub stack_bytes: usize,
    /// The time that a client may take for its `hello`, in milliseconds. It is twelve times as long
    /// if the client is on this machine, where it may be a person who types.
    pub hello_ms_max: u64,
    /// The time that a client may take for a command that it began, in milliseconds, besides a
    /// second for each kilobyte.
    pub command_ms_max: u64,
    /// The time that a client may leave replies unread, in milliseconds.
    pub unread_ms_max: u64,
    /// Shared memory: bytes of each direction's ring, a power of two.
    pub ring_bytes: usize,
    /// Shared memory: the longest spin before a sleep, in microseconds. Absent: as the machine
    /// allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_us_max: Option<u64>,
    /// The clients that are told at which places of the program a failure arose and passed:
    /// `always` all, `local` those over shared memory and unix sockets, `never` none. Clients
    /// elsewhere see absolute paths only by the name of the file.
    pub show_places: ShowPlaces,
    /// The traders to which objects are exported, by their addresses.
    pub traders: Vec<String>,
    /// The token that is shown to traders that ask for one.
    pub trader_token: String,
    /// The addresses that traders tell clients, the best one first. Empty: those of `listen`. They
    /// are needed where `listen` stands for all addresses of a machine, as `0.0.0.0` does.
    pub advertise: Vec<String>,
    /// The certificates of `tls://`, `wss://` and `quic://` listeners.
    pub tls: TlsConfig,
    /// The rules of `ws://` and `wss://` listeners.
    pub websocket: WebsocketConfig,
    /// The tasks, on which native actors run.
    pub tasks: TasksConfig,
    /// The links of a trader to other traders, by name: `bifrost trader` only.
    pub links: BTreeMap<String, LinkConfig>,
    /// The objects that are exported to traders, by their names in the root directory, or as
    /// actors.
    pub exports: BTreeMap<String, ExportConfig>,
    /// The properties of all exports.
    pub properties: BTreeMap<String, PropertyValue>,
    /// The limits of each session, by the names that `welcome` announces.
    pub limits: BTreeMap<String, u64>,
    /// The roles of clients, by name. With roles each client needs one, over unix sockets and
    /// shared memory, too. Read again at SIGHUP.
    pub roles: BTreeMap<String, RoleSettings>,
}

/// The clients that see the places of failures.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ShowPlaces {
    /// All.
    Always,
    /// Those over shared memory and unix sockets.
    #[default]
    Local,
    /// None.
    Never,
}

impl ShowPlaces {
    /// Returns the places that a client sees. `local` is true for a connection within this machine.
    pub(crate) fn shown(self, local: bool) -> Shown {
        match (self, local) {
            (ShowPlaces::Never, _) | (ShowPlaces::Local, false) => Shown::Nothing,
            (ShowPlaces::Always, false) => Shown::Relative,
            (ShowPlaces::Always | ShowPlaces::Local, true) => Shown::Whole,
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        let run = bifrost_runtime::Limits::default();
        let cache = bifrost_cache::Options::default();
        let limits = Limits::default().iter().map(|(l, v)| (l.name().to_owned(), v)).collect();
        Config {
            listen: Vec::new(),
            token: String::new(),
            anonymous_loopback: false,
            plain_networks: false,
            root_names: RootNames::default(),
            metrics: String::new(),
            otlp: String::new(),
            otlp_ratio: 0.0,
            otlp_interval_ms: 10_000,
            otlp_spans_max: 4096,
            store: MEMORY.to_owned(),
            allow_files: Vec::new(),
            allow_http: Vec::new(),
            nodes: 1,
            workers: None,
            stacks_max: bifrost_workers::STACKS_MAX,
            sessions_max: 10_000,
            greetings_max: 1_000,
            greetings_address_max: 250,
            connections_per_second_max: 200,
            handshakes_max: HANDSHAKES_MAX,
            handshakes_per_second_max: 20,
            wrong_token_ms: 250,
            memory_bytes_max: MEMORY_BYTES_MAX,
            heap_bytes_max: run.heap_bytes,
            server_heap_bytes_max: None,
            batch_heap_bytes_max: run.batch_heap_bytes,
            mailbox_bytes_max: run.mailbox_bytes,
            claim_ms: bifrost_native::standard::CLAIM_MS,
            cache_bytes_max: cache.bytes_max,
            prefetch_objects_max: cache.prefetch.objects_max,
            prefetch_bytes_max: cache.prefetch.bytes_max,
            stack_bytes: run.stack_bytes,
            hello_ms_max: 5_000,
            command_ms_max: 5_000,
            unread_ms_max: 10_000,
            ring_bytes: ListenOptions::default().ring_bytes,
            spin_us_max: None,
            show_places: ShowPlaces::default(),
            traders: Vec::new(),
            trader_token: String::new(),
            advertise: Vec::new(),
            tls: TlsConfig::default(),
            websocket: WebsocketConfig::default(),
            tasks: TasksConfig::default(),
            links: BTreeMap::new(),
            exports: BTreeMap::new(),
            properties: BTreeMap::new(),
            limits,
            roles: BTreeMap::new(),
        }
    }
}

/// Names behind `BIFROST_` of variables that are no settings: those of clients, of logs, and of the
/// tests.
const NO_SETTINGS: &[&str] = &[
    "log",
    "url",
    "config",
    "ca",
    "trader",
    "update",
    "fuzz_seconds",
    "fuzz_seed",
    "seeds",
    "emit",
    "gc",
    "filetest",
    "oo7_sizes",
    "oo7_kills",
    "victim",
    "child",
    "transport_address",
    "transport_child",
    "transport_rounds",
];

impl Config {
    /// Checks that there can be so many nodes.
    ///
    /// # Errors
    /// [`ConfigError::Nodes`]
    pub fn check_nodes(&self) -> Result<(), ConfigError> {
        (1..=HOSTS_MAX).contains(&self.nodes).then_some(()).ok_or(ConfigError::Nodes(self.nodes))
    }

    /// Gathers the settings. `file` is read if it exists; `overrides` come from the command line
    /// and win.
    ///
    /// # Errors
    /// [`ConfigError::Settings`], which names the file, variable or flag.
    pub fn gather(file: &Path, overrides: impl Serialize) -> Result<Config, ConfigError> {
        Figment::from(Serialized::defaults(Config::default()))
            .merge(Toml::file(file))
            // `BIFROST_LIMITS__FUEL_MAX=1000`; the names of other programs' variables are theirs.
            .merge(Env::prefixed("BIFROST_").ignore(NO_SETTINGS).split("__"))
            .merge(Serialized::defaults(overrides))
            .extract()
            .map_err(|e| ConfigError::Settings(Box::new(e)))
    }

    /// Returns the addresses to listen on.
    ///
    /// # Errors
    /// [`ConfigError::Address`]
    pub fn addresses(&self) -> Result<Vec<Address>, ConfigError> {
        if self.listen.is_empty() {
            let folder = default_directory();
            return Ok(vec![Address::Shm(folder.join("shm")), Address::Unix(folder.join("socket"))]);
        }
        let parse =
            |url: &String| url.parse().map_err(|source| ConfigError::Address { url: url.clone(), source });
        let addresses: Vec<Address> = self.listen.iter().map(parse).collect::<Result<_, _>>()?;
        match addresses.iter().find(|address| !address.is_private()) {
            Some(address) if !self.plain_networks => Err(ConfigError::PlainNetwork(address.clone())),
            _ => Ok(addresses),
        }
    }

    /// Returns the address of a listener that needs a certificate, if there is one.
    ///
    /// # Errors
    /// As [`Config::addresses`] and [`Config::metrics_address`].
    pub fn tls_address(&self) -> Result<Option<Address>, ConfigError> {
        Ok(self.addresses()?.into_iter().chain(self.metrics_address()?).find(Address::is_tls))
    }

    /// Returns the pages of browsers that may open websockets.
    ///
    /// # Errors
    /// [`ConfigError::Origins`]
    pub fn origins(&self) -> Result<Origins, ConfigError> {
        Ok(Origins::parse(&self.websocket.origins)?)
    }

    /// Reads the certificate of the `tls://` listeners, if there are some.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn tls_server(&self) -> Result<Option<TlsServer>, ConfigError> {
        let Some(address) = self.tls_address()? else { return Ok(None) };
        let TlsConfig { certificate, key, clients, required } = self.tls.clone();
        let none = |path: &Path| path.as_os_str().is_empty();
        if none(&certificate) {
            return Err(ConfigError::NoCertificate(address));
        }
        let key = if none(&key) { certificate.clone() } else { key };
        let clients = match (none(&clients), required) {
            (true, true) => return Err(ConfigError::NoAuthority),
            (true, false) => Clients::Any,
            (false, required) => Clients::Authorities { file: clients, required },
        };
        Ok(Some(TlsServer::load(KeyFiles { certificate, key }, clients)?))
    }

    /// Returns the address where metrics are told, if they are.
    ///
    /// # Errors
    /// [`ConfigError::Address`] and [`ConfigError::Metrics`].
    pub fn metrics_address(&self) -> Result<Option<Address>, ConfigError> {
        if self.metrics.is_empty() {
            return Ok(None);
        }
        let url = &self.metrics;
        match url.parse() {
            Ok(Address::Shm(_) | Address::Ws { .. } | Address::Wss { .. } | Address::Quic { .. }) => {
                Err(ConfigError::Metrics { url: url.clone() })
            }
            Ok(address) => Ok(Some(address)),
            Err(source) => Err(ConfigError::Address { url: url.clone(), source }),
        }
    }

    /// Returns the collector to which spans and metrics are exported, if there is one.
    ///
    /// # Errors
    /// [`ConfigError::Otlp`], [`ConfigError::OtlpRatio`] and [`ConfigError::OtlpInterval`].
    pub fn otlp_target(&self) -> Result<Option<Target>, ConfigError> {
        let ratio = self.otlp_ratio;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(ConfigError::OtlpRatio(ratio));
        }
        if self.otlp_interval_ms == 0 {
            return Err(ConfigError::OtlpInterval);
        }
        if self.otlp.is_empty() {
            return Ok(None);
        }
        let url = Target::check_url(&self.otlp);
        let url = url.map_err(|why| ConfigError::Otlp { url: self.otlp.clone(), why })?;
        let interval = Duration::from_millis(self.otlp_interval_ms);
        Ok(Some(Target { url, ratio, interval, spans_max: self.otlp_spans_max }))
    }

    /// Returns the place of objects.
    ///
    /// # Errors
    /// [`ConfigError::Store`]
    pub fn place(&self) -> Result<Place, ConfigError> {
        Ok(match self.store.parse()? {
            Place::Memory { .. } => Place::Memory { bytes_max: self.memory_bytes_max },
            place => place,
        })
    }

    /// Returns the limits of a session.
    ///
    /// # Errors
    /// [`ConfigError::NoSuchLimit`]
    pub fn session_limits(&self) -> Result<Limits, ConfigError> {
        let mut all = Limits::default();
        limits(&mut all, &self.limits)?;
        Ok(all)
    }

    /// Returns the rights of a session without a role.
    pub fn policy(&self) -> Policy {
        Policy::of_all(self.root_names.into())
    }

    /// Returns the roles, or none if there are none.
    ///
    /// # Errors
    /// [`ConfigError::Role`] and [`ConfigError::BesideRoles`].
    pub fn checked_roles(&self) -> Result<Option<BTreeMap<String, Checked>>, ConfigError> {
        roles::check(self)
    }

    /// Returns the bounds of connections.
    pub(crate) fn connection_limits(&self) -> connections::Limits {
        connections::Limits {
            sessions: self.sessions_max,
            newcomers: Bounds {
                all: self.greetings_max,
                of_origin: self.greetings_address_max,
                handshakes: self.handshakes_max,
            },
            per_second: self.connections_per_second_max,
            handshakes_per_second: self.handshakes_per_second_max,
            wrong_token: Duration::from_millis(self.wrong_token_ms),
        }
    }

    /// Returns the limits of running code.
    pub fn run_limits(&self) -> bifrost_runtime::Limits {
        bifrost_runtime::Limits {
            heap_bytes: self.heap_bytes_max,
            batch_heap_bytes: self.batch_heap_bytes_max,
            mailbox_bytes: self.mailbox_bytes_max,
            stack_bytes: self.stack_bytes,
            collect: collect(),
            ..bifrost_runtime::Limits::default()
        }
    }

    /// Returns the limits of a session's cache.
    pub fn cache_options(&self) -> bifrost_cache::Options {
        let prefetch =
            Prefetch { objects_max: self.prefetch_objects_max, bytes_max: self.prefetch_bytes_max };
        bifrost_cache::Options { bytes_max: self.cache_bytes_max, prefetch }
    }

    /// Returns the options for listening.
    pub fn listen_options(&self) -> ListenOptions {
        let quic = QuicLimits {
            handshakes_max: self.handshakes_max,
            handshakes_per_second: self.handshakes_per_second_max,
            ..QuicLimits::default()
        };
        let mut options = ListenOptions { ring_bytes: self.ring_bytes, quic, ..ListenOptions::default() };
        if let Some(us) = self.spin_us_max {
            options.spin_max = Duration::from_micros(us);
        }
        options
    }
}

/// Sets limits by their names.
///
/// # Errors
/// [`ConfigError::NoSuchLimit`], [`ConfigError::NoModules`]
pub(crate) fn limits(to: &mut Limits, values: &BTreeMap<String, u64>) -> Result<(), ConfigError> {
    set_limits(to, values, bifrost_session::RUNS_MODULES)
}

/// Sets limits as [`limits`] does, in a program that runs modules, or in one that does not.
fn set_limits(
    to: &mut Limits,
    values: &BTreeMap<String, u64>,
    runs_modules: bool,
) -> Result<(), ConfigError> {
    for (name, value) in values {
        match Limit::ALL.iter().find(|l| l.name() == name) {
            Some(Limit::Modules) if *value > 0 && !runs_modules => {
                return Err(ConfigError::NoModules);
            }
            Some(limit) => to.set(*limit, *value),
            None => {
                let known = Limit::ALL.iter().map(|l| l.name()).collect::<Vec<_>>().join(", ");
                return Err(ConfigError::NoSuchLimit { name: name.clone(), known });
            }
        }
    }
    Ok(())
}

/// Returns the time of collections, as `BIFROST_GC` says, which is for tests:
///
/// - `check` makes freed objects unusable;
/// - `zeal` collects at every allocation, `zeal=100` at every hundredth.
pub fn collect() -> Collect {
    let Ok(asked) = std::env::var("BIFROST_GC") else { return Collect::Ordinary };
    asked.parse().unwrap_or_else(|error: String| {
        tracing::warn!(error, "gc.unknown");
        Collect::Ordinary
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_wins_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bifrost.toml");
        std::fs::write(&file, "sessions_max = 7\nstack_bytes = 1000000\n[limits]\nfuel_max = 5\n").unwrap();
        #[derive(Serialize)]
        struct Flags {
            sessions_max: usize,
        }
        let config = Config::gather(&file, Flags { sessions_max: 9 }).unwrap();
        assert_eq!((config.sessions_max, config.stack_bytes), (9, 1_000_000));
        assert_eq!(config.session_limits().unwrap().get(Limit::Fuel), 5);
        assert_eq!(config.session_limits().unwrap().get(Limit::Depth), Limit::Depth.default_value());
    }

    #[test]
    fn unknown_names_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bifrost.toml");
        std::fs::write(&file, "sesions_max = 7\n").unwrap();
        let error = Config::gather(&file, BTreeMap::<String, u64>::new()).unwrap_err().to_string();
        assert!(error.contains("sesions_max"), "{error}");
        let mut config = Config::default();
        config.limits.insert("fule_max".into(), 1);
        let error = config.session_limits().unwrap_err().to_string();
        assert!(error.contains("fule_max") && error.contains("fuel_max"), "{error}");
    }

    #[test]
    fn modules_are_for_programs_that_run_them() {
        let mut to = Limits::default();
        let most = |most| BTreeMap::from([(Limit::Modules.name().to_owned(), most)]);
        let error = set_limits(&mut to, &most(1), false).unwrap_err().to_string();
        assert!(error.contains("limits.modules_max: this program runs no modules"), "{error}");
        assert_eq!(to.get(Limit::Modules), 0);
        set_limits(&mut to, &most(0), false).unwrap();
        set_limits(&mut to, &most(3), true).unwrap();
        assert_eq!(to.get(Limit::Modules), 3);
    }

    #[test]
    fn bad_addresses_are_named() {
        let config = Config { listen: vec!["tcp:/x".into()], ..Config::default() };
        assert!(config.addresses().unwrap_err().to_string().contains("`tcp:/x`"));
    }

    #[test]
    fn plain_networks_are_asked_for() {
        let mut config = Config { listen: vec!["tcp://0.0.0.0:0".into()], ..Config::default() };
        let error = config.addresses().unwrap_err().to_string();
        assert!(error.contains("`tls://`") && error.contains("--plain-networks"), "{error}");
        config.plain_networks = true;
        assert_eq!(config.addresses().unwrap().len(), 1);
        let loopback = ["tcp://127.0.0.1:0", "tcp://[::1]:0", "tls://0.0.0.0:0", "unix:///tmp/x"];
        let listen = loopback.map(str::to_owned).to_vec();
        assert_eq!(Config { listen, ..Config::default() }.addresses().unwrap().len(), 4);
    }

    #[test]
    fn settings_of_exports_are_checked() {
        let config = |otlp: &str, otlp_ratio| Config { otlp: otlp.into(), otlp_ratio, ..Config::default() };
        assert!(config("", 1.0).otlp_target().unwrap().is_none());
        assert!(config("http://localhost:4318", 0.5).otlp_target().unwrap().is_some());
        let error = config("localhost:4318", 0.0).otlp_target().unwrap_err().to_string();
        assert!(error.contains("`localhost:4318`"), "{error}");
        for ratio in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(config("", ratio).otlp_target(), Err(ConfigError::OtlpRatio(_))));
        }
        let never = Config { otlp_interval_ms: 0, ..Config::default() };
        assert!(matches!(never.otlp_target(), Err(ConfigError::OtlpInterval)));
    }

    #[test]
    fn settings_of_certificates_are_checked() {
        let mut config = Config { listen: vec!["tls://127.0.0.1:0".into()], ..Config::default() };
        assert!(matches!(config.tls_server(), Err(ConfigError::NoCertificate(_))));
        config.tls.certificate = "/nowhere.pem".into();
        let error = config.tls_server().unwrap_err().to_string();
        assert!(error.contains("cannot use `/nowhere.pem`"), "{error}");
        config.tls.required = true;
        assert!(matches!(config.tls_server(), Err(ConfigError::NoAuthority)));
        config.listen = vec!["tcp://127.0.0.1:0".into()];
        assert!(config.tls_server().unwrap().is_none());
    }
}
