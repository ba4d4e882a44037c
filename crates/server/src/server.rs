//! The server: starts, accepts, stops.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bifrost_engine::{Engine, Raised};
use bifrost_runtime::HeapStats;
use bifrost_runtime::cx::Kill;
use bifrost_session::{Limits, Session, Tables, Welcome};
use bifrost_transport::{Address, ListenError, Listener, Stopper, Stream, StreamStopper};
use bifrost_wire::{ErrorNumber, Limit, encode};
use parking_lot::{Condvar, Mutex};

use crate::config::{Config, ConfigError};
use crate::connection;
use crate::guests::Hosts;
use crate::metrics::{Endpoint, Measured};
use crate::objects::{Objects, StoreError};
use crate::space::{Space, Watch};

/// How long slow clients are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub hello: Duration,
    pub command: Duration,
    pub unread: Duration,
}

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    objects: Objects,
    pub limits: Limits,
    pub patience: Patience,
    pub tables: &'static Tables,
    sessions_max: usize,
    stopping: AtomicBool,
    numbers: AtomicU64,
    sessions: Arc<Sessions>,
    /// The nodes of the program's actors, if it has some.
    hosts: Option<Mutex<Hosts>>,
}

/// The sessions of a server. A session's thread has it to the end, when it has let go of all else, the store above all: who has seen that
/// the session is not open any more can open the store again.
#[derive(Debug, Default)]
struct Sessions {
    open: Mutex<Open>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    /// What ends each open connection, and where its session runs.
    connections: HashMap<u64, (StreamStopper, Weak<Space>)>,
    /// What the heaps of sessions took that are closed.
    past: HeapStats,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Where the objects are kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The routine that makes the objects.
    #[error("`setup` ended with an exception: {0}")]
    Setup(Raised),
    /// The routine that makes the actors.
    #[error("`start` ended with an exception: {0}")]
    Start(Raised),
    /// The system.
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
    metrics: Option<Endpoint>,
}

impl Shared {
    /// What there is to tell of the server.
    fn measured(&self) -> Measured {
        Measured {
            sessions: self.sessions.open.lock().connections.len() as u64,
            sessions_opened: self.numbers.load(Ordering::Relaxed),
            counted: self.objects.cached(),
            gauges: self.objects.gauges(),
            nodes: self.hosts.as_ref().map(|hosts| hosts.lock().measured()),
        }
    }
}

/// How long a stop waits for sessions to end.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How long sessions may take to tell their clients.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

impl Server {
    /// Makes the program's objects (routine `setup`, if there is one) unless the store has some, listens, and serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing keeps running.
    pub fn start(engine: Arc<Engine>, config: &Config) -> Result<Server, StartError> {
        let addresses = config.addresses()?;
        let metrics = config.metrics_address()?;
        let limits = config.session_limits()?;
        let objects = usize::try_from(limits.get(Limit::TransactionObjects)).unwrap_or(usize::MAX);
        let run = bifrost_runtime::Limits { transaction_objects: objects, ..config.run_limits() };
        let place = config.place()?;
        config.check_nodes()?;
        let watch = Watch::start(Duration::from_millis(limits.get(Limit::BatchTimeMs)))?;
        let objects = Objects::open(engine.clone(), &place, run, config.cache_options(), Some(watch))?;
        let hosts = match engine.program().has_actors() {
            true => {
                let spaces = (0..config.nodes).map(|_| objects.node_space());
                Some(Mutex::new(Hosts::start(&engine, spaces.collect::<Result<_, _>>()?)?))
            }
            false => None,
        };
        let shared = Arc::new(Shared {
            objects,
            hosts,
            limits,
            patience: Patience {
                hello: Duration::from_millis(config.hello_ms_max),
                command: Duration::from_millis(config.command_ms_max),
                unread: Duration::from_millis(config.unread_ms_max),
            },
            tables: Tables::new(engine),
            sessions_max: config.sessions_max,
            stopping: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            sessions: Arc::default(),
        });
        let mut server = Server {
            shared,
            addresses: Vec::new(),
            stoppers: Vec::new(),
            threads: Vec::new(),
            token: None,
            metrics: None,
        };
        if let Some(address) = metrics {
            let shared = server.shared.clone();
            server.metrics = Some(Endpoint::start(&address, move || shared.measured())?);
        }
        for address in addresses {
            server.listen(&address, config)?;
        }
        Ok(server)
    }

    fn listen(&mut self, address: &Address, config: &Config) -> Result<(), StartError> {
        let listener = Listener::bind(address, &config.listen_options())?;
        let remote = matches!(address, Address::Tcp { .. });
        let open = !remote || (config.anonymous_loopback && address.is_loopback());
        let token = if open { None } else { Some(self.token(config)?) };
        self.addresses.push(listener.local_address().clone());
        self.stoppers.push(listener.stopper());
        let shared = self.shared.clone();
        let name = format!("bifrost-{}", listener.local_address());
        let name = name.chars().take(15).collect();
        self.threads
            .push(std::thread::Builder::new().name(name).spawn(move || accept(&shared, &listener, token))?);
        Ok(())
    }

    /// The token of the settings, or one that nobody can guess.
    fn token(&mut self, config: &Config) -> Result<String, StartError> {
        if self.token.is_none() {
            self.token = Some(if config.token.is_empty() { random_token()? } else { config.token.clone() });
        }
        Ok(self.token.clone().unwrap_or_default())
    }

    /// Where the server listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where metrics are told, with the port that the system chose, if they are.
    pub fn metrics_address(&self) -> Option<&Address> {
        self.metrics.as_ref().map(Endpoint::address)
    }

    /// What TCP clients must show, if any must.
    pub fn required_token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The interface that clients see.
    pub fn tables(&self) -> &'static Tables {
        self.shared.tables
    }

    /// What the heaps of the open sessions have, and what collections took in all sessions so far. Waits for the batches that run.
    pub fn heap_stats(&self) -> HeapStats {
        let (past, spaces) = {
            let open = self.shared.sessions.open.lock();
            let spaces: Vec<Arc<Space>> =
                open.connections.values().filter_map(|(_, space)| space.upgrade()).collect();
            (open.past, spaces)
        };
        spaces.iter().map(|space| space.lock().heap_stats()).fold(past, |all, one| all.with(&one))
    }

    /// What the caches of all sessions have done so far.
    pub fn cached(&self) -> bifrost_cache::Counted {
        self.shared.objects.cached()
    }

    /// What the store has.
    pub fn gauges(&self) -> bifrost_repository::Gauges {
        self.shared.objects.gauges()
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.shared.sessions.open.lock().connections.len()
    }

    /// Stops: no new connections, running batches are cancelled, clients are told, and after a few seconds
    /// whatever is left is abandoned. Returns how many sessions did not end in time.
    pub fn stop(&mut self) -> usize {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.metrics = None;
        for stopper in &self.stoppers {
            stopper.stop();
        }
        for thread in self.threads.drain(..) {
            // A listener that panicked has stopped too.
            let _ = thread.join();
        }
        let start = Instant::now();
        let mut open = self.shared.sessions.open.lock();
        while !open.connections.is_empty() && start.elapsed() < STOP_WITHIN {
            for (stopper, space) in open.connections.values() {
                stopper.stop_reading();
                // A client that does not take the last word is not waited for.
                if start.elapsed() > FAREWELL_WITHIN {
                    stopper.stop();
                }
                if let Some(space) = space.upgrade() {
                    space.interrupt(Kill::Stop);
                }
            }
            self.shared.sessions.closed.wait_for(&mut open, Duration::from_millis(50));
        }
        let left = open.connections.len();
        drop(open);
        if let Some(hosts) = &self.shared.hosts {
            hosts.lock().stop();
        }
        left
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// 128 random bits in hexadecimal.
fn random_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

fn accept(shared: &Arc<Shared>, listener: &Listener, token: Option<String>) {
    loop {
        match listener.accept() {
            Ok(Some(stream)) => open(shared, stream, token.clone()),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, address = %listener.local_address(), "accept.failed");
                if shared.stopping.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}

fn open(shared: &Arc<Shared>, mut stream: Stream, token: Option<String>) {
    let number = shared.numbers.fetch_add(1, Ordering::Relaxed) + 1;
    let sessions = shared.sessions.clone();
    if sessions.open.lock().connections.len() >= shared.sessions_max {
        tracing::warn!(sessions_max = shared.sessions_max, "session.refused");
        let mut out = Vec::new();
        let text = format!("{} sessions are open, and that is the limit", shared.sessions_max);
        encode::error(&mut out, ErrorNumber::TooManySessions, 0, &text);
        // A client that does not read it finds the stream closed.
        let _ = stream.write(&out, Duration::from_millis(100));
        stream.flush();
        return;
    }
    let (space, cache) = match shared.objects.space() {
        Ok(made) => made,
        Err(error) => {
            tracing::warn!(%error, "session.refused");
            let mut out = Vec::new();
            encode::error(&mut out, ErrorNumber::Internal, 0, "there is no room for the session's objects");
            let _ = stream.write(&out, Duration::from_millis(100));
            stream.flush();
            return;
        }
    };
    if let Some(hosts) = &shared.hosts {
        hosts.lock().enter(&space, &stream);
    }
    // Only this thread, of all that accept, may have let one more in meanwhile; the limit is not that exact.
    sessions.open.lock().connections.insert(number, (stream.stopper(), Arc::downgrade(&space)));
    let welcome =
        Welcome { server: concat!("bifrost ", env!("CARGO_PKG_VERSION")).to_owned(), token, session: number };
    let session = Session::new(shared.tables, shared.limits, welcome, cache);
    let shared_there = shared.clone();
    let thread = std::thread::Builder::new()
        .name(format!("session-{number}"))
        .stack_size(shared.objects.stack_bytes())
        .spawn(move || {
            connection::serve(&shared_there, &space, &mut stream, session, number);
            drop(stream);
            space.lock().post_messages();
            let took = space.lock().heap_stats().past();
            drop((space, shared_there));
            let mut open = sessions.open.lock();
            open.past = open.past.with(&took);
            open.connections.remove(&number);
            drop(open);
            sessions.closed.notify_all();
        });
    if let Err(error) = thread {
        tracing::warn!(%error, "session.refused");
        shared.sessions.open.lock().connections.remove(&number);
    }
}
