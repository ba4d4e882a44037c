//! The server: starts, accepts, stops.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_cache::Report;
use bifrost_capsule::Watch;
use bifrost_capsule::newcomers::{Bounds, tell_shortage};
use bifrost_engine::{Engine, Raised};
use bifrost_repository::Place;
use bifrost_runtime::{HeapStats, LogBound};
use bifrost_session::{Limits, Policy, Tables};
use bifrost_transport::{
    Address, CertificateFileError, Identity, ListenError, ListenOptions, Listener, Pin, Protocol, Stopper,
    Stream, TlsServer,
};
use bifrost_wire::{ErrorNumber, Limit};
use bifrost_workers::{Handle, Work, Workers};
use parking_lot::{Mutex, RwLock};
use subtle::ConstantTimeEq;

use crate::backup::Backups;
use crate::config::{Config, ConfigError, ShowPlaces};
use crate::connection::{Connection, READ_BYTES};
use crate::connections::{self, Connections};
use crate::exports::{self, Exporting, Exports};
use crate::guests::Hosts;
use crate::hello::{Form, Refusal};
use crate::http::{self, Pages};
use crate::memory::{Memory, default_bytes};
use crate::metrics::{Batches, Measured};
use crate::objects::{Objects, StoreError};
use crate::otlp::{Exporter, Tracer};
use crate::process;
use crate::pulse::Pulse;
use crate::roles::{Door, FailedLogins, NoRole, Role, Roles, batch_time, random_token};
use crate::tidy::Tidy;

/// The times for which slow clients are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub hello: Duration,
    pub command: Duration,
    pub unread: Duration,
}

/// The state that all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub objects: Objects,
    pub memory: Arc<Memory>,
    pub limits: Limits,
    /// The rights of sessions without a role.
    pub policy: Arc<Policy>,
    /// The roles, if there are some.
    pub roles: Option<RwLock<Roles>>,
    pub failed_logins: FailedLogins,
    pub patience: Patience,
    pub tables: &'static Tables,
    pub connections: Arc<Connections>,
    pub show_places: ShowPlaces,
    /// The bound of failures of clients' calls in the log.
    pub logged_failures: Mutex<LogBound>,
    /// The time at which the server was started.
    pub started: Instant,
    /// The nodes of the program's actors, if it has some.
    pub hosts: Option<Mutex<Hosts>>,
    /// The threads that run the sessions.
    pub workers: Workers,
    pub buffers: Buffers,
    /// The account of all batches.
    pub batches: Batches,
    /// The spans of batches, if they are exported.
    pub tracer: Option<Arc<Tracer>>,
    /// The state of exports to traders, if there are some.
    pub exports: OnceLock<Arc<exports::State>>,
}

/// The things that a listener lets clients have.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// The table of its connections.
    pub connections: Arc<Connections>,
    /// The condition for a session. None: there are only pages.
    pub door: Option<Door>,
    /// The things over HTTP, if its clients speak that.
    pub pages: Option<Arc<Pages>>,
}

/// Buffers of input, for sessions that have something to do.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Vec<u8>>>);

/// Most buffers that are kept.
const BUFFERS_MAX: usize = 16;

impl Buffers {
    /// Returns an empty buffer with room for all that is read at once.
    pub fn take(&self) -> Vec<u8> {
        let kept = self.0.lock().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
    }

    /// Takes a buffer for the next session.
    pub fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut buffers = self.0.lock();
        if buffers.len() < BUFFERS_MAX && (READ_BYTES..=4 * READ_BYTES).contains(&buffer.capacity()) {
            buffers.push(buffer);
        }
    }
}

/// The reason why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings are at fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address is at fault.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The store is at fault.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The routine that makes the objects failed.
    #[error("`setup` ended with an exception: {}", .0.with_places())]
    Setup(Raised),
    /// The routine that makes the actors failed.
    #[error("`start` ended with an exception: {}", .0.with_places())]
    Start(Raised),
    /// An object cannot be exported; the text names it.
    #[error("{0}")]
    Export(String),
    /// The system refused a thing that the server needs.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    stoppers: Vec<Stopper>,
    threads: Vec<JoinHandle<()>>,
    token: Option<String>,
    metrics: Option<Metrics>,
    exporter: Option<Exporter>,
    /// The exports to traders, if there are some.
    exports: Option<Exports>,
    /// The socket for backups of the store, if that is in a folder.
    backups: Option<Backups>,
    /// The certificate of the `tls://` listeners, if there are some.
    tls: Option<TlsServer>,
}

/// The listener of metrics.
#[derive(Debug)]
struct Metrics {
    address: Address,
    stopper: Stopper,
    thread: JoinHandle<()>,
    connections: Arc<Connections>,
}

/// Most connections of the listener of metrics. Those of sessions are counted apart, so that
/// neither keeps the other out.
const METRICS_CONNECTIONS_MAX: usize = 32;
/// The longest wait of a stopped server until its clients have its last words.
const DELIVERED_WITHIN: Duration = Duration::from_secs(1);

impl Shared {
    /// Returns the role of a client, if clients have roles.
    ///
    /// # Errors
    /// The client is not let in.
    pub(crate) fn admit(
        &self,
        door: &Door,
        identity: &Identity,
        token: &str,
    ) -> Result<Option<Arc<Role>>, NoRole> {
        match (door, &self.roles) {
            (Door::Roles, Some(roles)) => roles.read().admit(identity, token).cloned().map(Some),
            (Door::Roles, None) => Err(NoRole::Nothing),
            (Door::Open, _) => Ok(None),
            (Door::Token(_), _) if token.is_empty() => Err(NoRole::Nothing),
            (Door::Token(required), _) => match required.as_bytes().ct_eq(token.as_bytes()).into() {
                true => Ok(None),
                false => Err(NoRole::Token),
            },
        }
    }

    /// Returns the load of the server, as exports tell it. With native actors: their messages that
    /// run or wait, for each task; else the batches that run or wait, for each processor.
    fn load(&self) -> f64 {
        let tasks = self.hosts.as_ref().and_then(|hosts| hosts.lock().measured().tasks);
        if let Some(tasks) = tasks.filter(|tasks| tasks.actors > 0) {
            return (tasks.all.active() + tasks.all.waiting()) as f64 / f64::from(tasks.tasks.max(1));
        }
        let workers = self.workers.counts();
        let running = workers.threads.saturating_sub(workers.idle + workers.blocked);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (running + workers.queued) as f64 / processors as f64
    }

    /// Returns the metrics of the server.
    pub(crate) fn measured(&self) -> Measured {
        Measured {
            sessions: self.connections.sessions() as u64,
            sessions_opened: self.connections.sessions_opened(),
            newcomers: self.connections.newcomers() as u64,
            refused: self.connections.refused(),
            failed_logins: self.failed_logins.get(),
            heap_bytes: self.memory.taken_bytes() as u64,
            heap_bytes_max: self.memory.limit_bytes() as u64,
            counted: self.objects.cached(),
            gauges: self.objects.gauges(),
            nodes: self.hosts.as_ref().map(|hosts| hosts.lock().measured()),
            batches: self.batches.measured(),
            structures: self.tables.engine().structures(),
            workers: self.workers.counts(),
            exported: self.tracer.as_ref().map(|tracer| tracer.exported()),
            exports: self.exports.get().map(|state| state.measured()),
        }
    }
}

impl Server {
    /// Makes the program's objects (routine `setup`, if there is one) unless the store has some,
    /// listens, and serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing keeps running.
    pub fn start(engine: Arc<Engine>, config: &Config) -> Result<Server, StartError> {
        let addresses = config.addresses()?;
        let metrics = config.metrics_address()?;
        let otlp = config.otlp_target()?;
        let tls = config.tls_server()?;
        let limits = config.session_limits()?;
        let objects = usize::try_from(limits.get(Limit::TransactionObjects)).unwrap_or(usize::MAX);
        let run = bifrost_runtime::Limits { transaction_objects: objects, ..config.run_limits() };
        let place = config.place()?;
        config.check_nodes()?;
        let roles = config.checked_roles()?;
        for limit in process::shortcomings(config) {
            tracing::warn!("limits.low: {limit}");
        }
        let watch = Watch::start(batch_time(&limits))?;
        let report: Report = |text| tracing::error!(text, "store.failed");
        let memory = Memory::new(config.server_heap_bytes_max.unwrap_or_else(default_bytes));
        let (caching, shared) = (config.cache_options(), Some(memory.clone()));
        let objects = Objects::open(engine.clone(), &place, run, caching, Some(watch), Some(report), shared)?;
        let hosts = match engine.program().has_actors() {
            true => {
                let spaces = (0..config.nodes).map(|_| objects.node_space());
                Some(Mutex::new(Hosts::start(&engine, spaces.collect::<Result<_, _>>()?)?))
            }
            false => None,
        };
        let workers = Workers::start(bifrost_workers::Options {
            threads: config.workers.unwrap_or_else(bifrost_workers::threads_default),
            stack_bytes: objects.stack_bytes(),
            stacks_max: config.stacks_max,
            no_stack: |error| tracing::warn!(%error, "batch.delayed"),
        })?;
        let tables = Tables::new(engine);
        let tracer = otlp.as_ref().map(Tracer::of).transpose()?.map(Arc::new);
        let shared = Arc::new(Shared {
            batches: Batches::new(workers.numbers_max()),
            tracer,
            workers,
            buffers: Buffers::default(),
            objects,
            memory,
            hosts,
            limits,
            policy: Arc::new(config.policy()),
            roles: roles.map(|roles| RwLock::new(Roles::new(roles, tables, None))),
            failed_logins: FailedLogins::default(),
            patience: Patience {
                hello: Duration::from_millis(config.hello_ms_max),
                command: Duration::from_millis(config.command_ms_max),
                unread: Duration::from_millis(config.unread_ms_max),
            },
            tables,
            connections: Connections::new(config.connection_limits()),
            show_places: config.show_places,
            logged_failures: Mutex::default(),
            started: Instant::now(),
            exports: OnceLock::new(),
        });
        let tidy = Box::new(Tidy::new(shared.memory.clone())) as Box<dyn Work>;
        let Ok(tidy) = shared.workers.enter(|_: &Handle| Ok::<_, std::convert::Infallible>(tidy));
        shared.connections.set_tidy(tidy);
        let mut server = Server {
            shared,
            addresses: Vec::new(),
            stoppers: Vec::new(),
            threads: Vec::new(),
            token: None,
            metrics: None,
            exporter: None,
            exports: None,
            backups: None,
            tls,
        };
        if let (Some(target), Some(tracer)) = (otlp, &server.shared.tracer) {
            let there = Arc::downgrade(&server.shared);
            let measure = move || Some(there.upgrade()?.measured());
            server.exporter = Some(Exporter::start(target, tracer.clone(), Box::new(measure))?);
        }
        if let Some(address) = metrics {
            server.metrics = Some(server.listen_for_metrics(&address, config)?);
        }
        if let Place::Folder(folder) = &place {
            let repository = server.shared.objects.repository().clone();
            let backups = Backups::start(folder, repository);
            // A file system without sockets keeps no server from its work.
            server.backups = backups.inspect_err(|error| tracing::warn!(%error, "backup.impossible")).ok();
        }
        for address in addresses {
            server.listen(&address, config)?;
        }
        Ok(server)
    }

    /// Begins to export objects to traders, if the settings say so, and checks before that clients
    /// find them. `pin` is that of a certificate that no authority has signed.
    ///
    /// # Errors
    /// [`StartError::Config`] and [`StartError::Export`]; nothing is exported. A trader that is
    /// away is none.
    pub fn export(&mut self, config: &Config, pin: Option<Pin>) -> Result<(), StartError> {
        let Some(exported) = config.exported()? else { return Ok(()) };
        let (client, stream) = Stream::pair()?;
        let connections = self.shared.connections.clone();
        let entrance = Arc::new(Entrance { connections, door: Some(Door::Open), pages: None });
        open(&self.shared, stream, &entrance);
        let there = Arc::downgrade(&self.shared);
        let exporting = Exporting {
            addresses: &self.addresses,
            pin,
            numbering: self.shared.tables.numbering(),
            store: self.shared.objects.repository().identity().to_string(),
            load: Box::new(move || there.upgrade().map_or(0.0, |shared| shared.load())),
        };
        let exports = Exports::start(exported, exporting, client).map_err(StartError::Export)?;
        // The state of an earlier call would go on to be told; there is none.
        let _ = self.shared.exports.set(exports.state());
        self.exports = Some(exports);
        Ok(())
    }

    fn listen(&mut self, address: &Address, config: &Config) -> Result<(), StartError> {
        let mut options = ListenOptions { tls: self.tls.clone(), ..config.listen_options() };
        let own = rustix::process::geteuid().as_raw();
        if self.shared.roles.as_ref().is_some_and(|roles| roles.read().has_other_users(own)) {
            // The kernel tells who connects, and only users with a role get a session.
            options.mode = 0o666;
        }
        let listener = Listener::bind(address, &options)?;
        let open = !address.may_ask_for_token() || (config.anonymous_loopback && address.is_loopback());
        let door = match (&self.shared.roles, open) {
            (Some(_), _) => Door::Roles,
            (None, true) => Door::Open,
            (None, false) => Door::Token(Arc::from(self.token(config)?)),
        };
        let pages = match listener.local_address().web_path() {
            Some(path) => {
                let websocket = Some((path.to_owned(), config.origins()?));
                Some(Arc::new(Pages { metrics: false, websocket }))
            }
            None => None,
        };
        let connections = self.shared.connections.clone();
        let entrance = Arc::new(Entrance { connections, door: Some(door), pages });
        self.addresses.push(listener.local_address().clone());
        self.stoppers.push(listener.stopper());
        let thread = self.take_clients(listener, entrance)?;
        self.threads.push(thread);
        Ok(())
    }

    fn listen_for_metrics(&self, address: &Address, config: &Config) -> Result<Metrics, StartError> {
        let protocol = Protocol::Http;
        let options = ListenOptions { tls: self.tls.clone(), protocol, ..ListenOptions::default() };
        let listener = Listener::bind(address, &options)?;
        let (address, stopper) = (listener.local_address().clone(), listener.stopper());
        let all = METRICS_CONNECTIONS_MAX;
        let newcomers = Bounds { all, of_origin: all, handshakes: all };
        let limits = connections::Limits { newcomers, ..config.connection_limits() };
        let connections = Connections::new(limits);
        let pages = Some(Arc::new(Pages { metrics: true, websocket: None }));
        let entrance = Arc::new(Entrance { connections: connections.clone(), door: None, pages });
        let thread = self.take_clients(listener, entrance)?;
        Ok(Metrics { address, stopper, thread, connections })
    }

    /// Starts the thread that takes the clients of a listener.
    fn take_clients(&self, listener: Listener, entrance: Arc<Entrance>) -> std::io::Result<JoinHandle<()>> {
        let shared = self.shared.clone();
        let name = format!("bifrost-{}", listener.local_address());
        let name = name.chars().take(15).collect();
        std::thread::Builder::new().name(name).spawn(move || accept(&shared, &listener, &entrance))
    }

    /// Returns the token of the settings, or a random one.
    fn token(&mut self, config: &Config) -> Result<String, StartError> {
        if self.token.is_none() {
            self.token = Some(if config.token.is_empty() { random_token()? } else { config.token.clone() });
        }
        Ok(self.token.clone().unwrap_or_default())
    }

    /// Returns the addresses where the server listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the address where metrics are told, with the port that the system chose, if they
    /// are.
    pub fn metrics_address(&self) -> Option<&Address> {
        self.metrics.as_ref().map(|metrics| &metrics.address)
    }

    /// Returns the pin of the certificate of the `tls://` listeners, if there are some.
    pub fn pin(&self) -> Option<Pin> {
        self.tls.as_ref().map(TlsServer::pin)
    }

    /// Reads the certificate of the `tls://` listeners again, if there are some, for new
    /// connections. After an error the old one stays.
    ///
    /// # Errors
    /// [`CertificateFileError`]
    pub fn reload_certificate(&self) -> Result<Option<Pin>, CertificateFileError> {
        self.tls.as_ref().map(TlsServer::reload).transpose()
    }

    /// Returns the token that TCP and TLS clients must show, if they must.
    pub fn required_token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns a line for each role, and one for each of their routines that the program lacks.
    pub fn role_lines(&self) -> Vec<String> {
        let roles = self.shared.roles.as_ref();
        roles.map_or_else(Vec::new, |roles| roles.read().lines(self.shared.tables))
    }

    /// Replaces the roles by those of other settings. Open sessions keep their rights and limits
    /// until they end, and count as sessions of the new role of the same name.
    ///
    /// # Errors
    /// [`ConfigError`]; the roles are as before.
    pub fn reload_roles(&self, config: &Config) -> Result<(), ConfigError> {
        match (&self.shared.roles, config.checked_roles()?) {
            (None, None) => Ok(()),
            (Some(roles), Some(checked)) => {
                let mut roles = roles.write();
                *roles = Roles::new(checked, self.shared.tables, Some(&roles));
                Ok(())
            }
            (Some(_), None) | (None, Some(_)) => Err(ConfigError::RolesAtStart),
        }
    }

    /// Returns the interface that clients without a role see.
    pub fn tables(&self) -> &'static Tables {
        self.shared.tables
    }

    /// Returns the sizes of the open sessions' heaps, and the time of collections in all sessions
    /// so far. Waits for the batches that run.
    pub fn heap_stats(&self) -> HeapStats {
        self.shared.connections.heap_stats()
    }

    /// Returns the counts of the caches of all sessions so far.
    pub fn cached(&self) -> bifrost_cache::Counted {
        self.shared.objects.cached()
    }

    /// Returns the gauges of the store.
    pub fn gauges(&self) -> bifrost_repository::Gauges {
        self.shared.objects.gauges()
    }

    /// Returns all metrics.
    pub fn measured(&self) -> Measured {
        self.shared.measured()
    }

    /// Returns numbers about the threads that run sessions.
    pub fn workers(&self) -> bifrost_workers::Counts {
        self.shared.workers.counts()
    }

    /// Calls a function at once and then in intervals, on a thread that runs sessions, until the
    /// server ends.
    pub fn pulse(&self, every: Duration, beat: impl FnMut() + Send + 'static) {
        let pulse: Box<dyn Work> = Box::new(Pulse { every, beat });
        let Ok(_) = self.shared.workers.enter(|_| Ok::<_, std::convert::Infallible>(pulse));
    }

    /// Returns the number of sessions open.
    pub fn sessions(&self) -> usize {
        self.shared.connections.sessions()
    }

    /// Stops the server: exports are withdrawn, no new connections, running batches are cancelled,
    /// clients are told. After a few seconds the remaining sessions are abandoned. Returns the
    /// number of sessions that did not end in time.
    pub fn stop(&mut self) -> usize {
        // Traders are told before clients are: no new ones come meanwhile.
        self.exports = None;
        self.backups = None;
        for stopper in &self.stoppers {
            stopper.stop();
        }
        for thread in self.threads.drain(..) {
            // A listener that panicked has stopped too.
            let _ = thread.join();
        }
        let left = self.shared.connections.stop();
        bifrost_transport::wait_delivered(Instant::now() + DELIVERED_WITHIN);
        if let Some(hosts) = &self.shared.hosts {
            hosts.lock().stop();
        }
        // After the last batches.
        self.exporter = None;
        // Last: so long it says that the server is stopping.
        if let Some(Metrics { stopper, thread, connections, .. }) = self.metrics.take() {
            stopper.stop();
            let _ = thread.join();
            connections.stop();
        }
        left
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(shared: &Arc<Shared>, listener: &Listener, entrance: &Arc<Entrance>) {
    let told = |shortage| tell_shortage(listener.local_address(), &shortage);
    listener.serve(told, |stream| open(shared, stream, entrance));
}

/// Enters the job of a connection.
fn open(shared: &Arc<Shared>, mut stream: Stream, entrance: &Arc<Entrance>) {
    let place = match entrance.connections.enter(&stream) {
        Ok(place) => place,
        Err(why) => {
            tracing::debug!(peer = stream.describe_peer(), why, "connection.refused");
            // The form of a client that has said nothing is not known.
            return match entrance.pages {
                Some(_) => http::refuse(&mut stream, &why),
                None => Refusal::new(Form::Binary, ErrorNumber::TooManySessions, why).tell(&mut stream),
            };
        }
    };
    let (there, entrance) = (shared.clone(), entrance.clone());
    let entered = shared.workers.enter(|handle| {
        let connection = Connection::new(there, stream, place, entrance, handle)?;
        Ok::<_, std::io::Error>(Box::new(connection) as Box<dyn Work>)
    });
    if let Err(error) = entered {
        tracing::warn!(%error, "session.refused");
    }
}
