//! The server: starts, accepts, stops.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
use crate::space::Space;

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
    pub space: Arc<Space>,
    pub limits: Limits,
    pub patience: Patience,
    pub tables: &'static Tables,
    sessions_max: usize,
    stopping: AtomicBool,
    numbers: AtomicU64,
    /// What ends each open connection.
    open: Mutex<HashMap<u64, StreamStopper>>,
    closed: Condvar,
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
    /// The routine that makes the objects.
    #[error("`setup` ended with an exception: {0}")]
    Setup(Raised),
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
}

/// How long a stop waits for sessions to end.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How long sessions may take to tell their clients.
const FAREWELL_WITHIN: Duration = Duration::from_secs(2);

impl Server {
    /// Makes the program's objects (routine `setup`, if there is one), listens, and serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing keeps running.
    pub fn start(engine: Arc<Engine>, config: &Config) -> Result<Server, StartError> {
        let addresses = config.addresses()?;
        let limits = config.session_limits()?;
        let space = Space::new(engine.clone(), config.run_limits())?;
        space.watch(Duration::from_millis(limits.get(Limit::BatchTimeMs)))?;
        if let Some(setup) = engine.find_entry("setup", 0) {
            space
                .on_stack(|| {
                    // SAFETY: the context runs this engine's image, and `setup` takes nothing.
                    unsafe { engine.call(&mut space.lock(), setup, &[]) }
                })?
                .map_err(StartError::Setup)?;
        }
        let shared = Arc::new(Shared {
            space,
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
            open: Mutex::default(),
            closed: Condvar::new(),
        });
        let mut server =
            Server { shared, addresses: Vec::new(), stoppers: Vec::new(), threads: Vec::new(), token: None };
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

    /// What TCP clients must show, if any must.
    pub fn required_token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The objects.
    pub fn space(&self) -> &Arc<Space> {
        &self.shared.space
    }

    /// The interface that clients see.
    pub fn tables(&self) -> &'static Tables {
        self.shared.tables
    }

    /// What the heap has and what its collections took. Waits for the batch that runs.
    pub fn heap_stats(&self) -> HeapStats {
        self.shared.space.lock().heap_stats()
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.shared.open.lock().len()
    }

    /// Stops: no new connections, running batches are cancelled, clients are told, and after a few seconds
    /// whatever is left is abandoned. Returns how many sessions did not end in time.
    pub fn stop(&mut self) -> usize {
        self.shared.stopping.store(true, Ordering::Relaxed);
        for stopper in &self.stoppers {
            stopper.stop();
        }
        for thread in self.threads.drain(..) {
            // A listener that panicked has stopped too.
            let _ = thread.join();
        }
        let start = Instant::now();
        let mut open = self.shared.open.lock();
        while !open.is_empty() && start.elapsed() < STOP_WITHIN {
            for stopper in open.values() {
                stopper.stop_reading();
                // A client that does not take the last word is not waited for.
                if start.elapsed() > FAREWELL_WITHIN {
                    stopper.stop();
                }
            }
            self.shared.space.interrupt(Kill::Stop);
            self.shared.closed.wait_for(&mut open, Duration::from_millis(50));
        }
        open.len()
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
    let refused = {
        let mut open = shared.open.lock();
        let full = open.len() >= shared.sessions_max;
        if !full {
            open.insert(number, stream.stopper());
        }
        full
    };
    if refused {
        tracing::warn!(sessions_max = shared.sessions_max, "session.refused");
        let mut out = Vec::new();
        let text = format!("{} sessions are open, and that is the limit", shared.sessions_max);
        encode::error(&mut out, ErrorNumber::TooManySessions, 0, &text);
        // A client that does not read it finds the stream closed.
        let _ = stream.write(&out, Duration::from_millis(100));
        stream.flush();
        return;
    }
    let welcome =
        Welcome { server: concat!("bifrost ", env!("CARGO_PKG_VERSION")).to_owned(), token, session: number };
    let session = Session::new(shared.tables, shared.limits, welcome);
    let shared_there = shared.clone();
    let thread = std::thread::Builder::new()
        .name(format!("session-{number}"))
        .stack_size(shared.space.stack_bytes())
        .spawn(move || {
            connection::serve(&shared_there, &mut stream, session, number);
            drop(stream);
            shared_there.open.lock().remove(&number);
            shared_there.closed.notify_all();
        });
    if let Err(error) = thread {
        tracing::warn!(%error, "session.refused");
        shared.open.lock().remove(&number);
    }
}
