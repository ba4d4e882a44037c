//! The metrics that a server tells its monitors: counters, gauges and times, over HTTP in the text
//! form of Prometheus (0.0.4).
//!
//! Read [`Measured`] first: the numbers. [`text`] is the whole form; docs/book/persistence.md
//! defines each metric. [`Endpoint::start`] listens, and answers each request on a thread of its
//! own.
//!
//! Everything is in memory: a request waits for no batch and for no database.

use std::fmt::Write;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bifrost_cache::{Counted, TIME_BOUNDS_US, Times};
use bifrost_capsule::newcomers::{Bounds, Newcomers, tell_shortage};
use bifrost_repository::Gauges;
use bifrost_runtime::node_words::Stats;
use bifrost_transport::{Address, ListenError, ListenOptions, Listener, Stopper, Stream, StreamStopper};
use parking_lot::{Condvar, Mutex};

/// Most bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most requests at a time.
const REQUESTS_MAX: usize = 16;
/// The time that a client may take to ask, and to read the answer.
const WITHIN: Duration = Duration::from_secs(2);

/// The numbers that are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Open sessions.
    pub sessions: u64,
    /// Sessions opened since the start.
    pub sessions_opened: u64,
    /// Connections whose client has not said `hello`.
    pub newcomers: u64,
    /// Connections that were refused before their `hello`.
    pub refused: u64,
    /// Logins that have failed: wrong tokens, users and certificates without a role.
    pub failed_logins: [u64; 3],
    /// Bytes of the heaps of all sessions and nodes.
    pub heap_bytes: u64,
    /// The limit of the bytes of the heaps.
    pub heap_bytes_max: u64,
    /// The counts of the caches of all sessions.
    pub counted: Counted,
    /// The gauges of the repository.
    pub gauges: Gauges,
    /// The nodes of the program's actors, if it has some.
    pub nodes: Option<NodesMeasured>,
}

/// The numbers that are told of the nodes of a program's actors.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodesMeasured {
    /// The number of nodes.
    pub nodes: u64,
    /// Sessions that have reached them, and are open.
    pub sessions: u64,
    /// Names of actors.
    pub names: u64,
    /// Bytes of messages of sessions that no node has received yet.
    pub waiting_bytes: u64,
    /// Their counts together.
    pub stats: Stats,
}

/// A metric being written: its name follows `bifrost_`.
struct Metric<'t> {
    text: &'t mut String,
    name: &'static str,
}

impl Metric<'_> {
    fn begin<'t>(
        text: &'t mut String,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
    ) -> Metric<'t> {
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "# HELP bifrost_{name} {help}\n# TYPE bifrost_{name} {kind}\n");
        Metric { text, name }
    }

    fn sample(&mut self, suffix: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "bifrost_{}{suffix}{labels} {value}", self.name);
    }
}

fn counter(text: &mut String, name: &'static str, help: &'static str, value: u64) {
    Metric::begin(text, name, "counter", help).sample("", "", value);
}

fn counters(text: &mut String, name: &'static str, help: &'static str, of: &[(&str, u64)]) {
    let mut metric = Metric::begin(text, name, "counter", help);
    of.iter().for_each(|(labels, value)| metric.sample("", labels, value));
}

/// Adds a gauge; nothing for one that this store has not.
fn gauge(text: &mut String, name: &'static str, help: &'static str, value: impl Into<Option<u64>>) {
    if let Some(value) = value.into() {
        Metric::begin(text, name, "gauge", help).sample("", "", value);
    }
}

fn histogram(text: &mut String, name: &'static str, help: &'static str, times: &Times) {
    let mut metric = Metric::begin(text, name, "histogram", help);
    let mut count = 0;
    for (class, bound) in times.classes.iter().zip(TIME_BOUNDS_US) {
        count += class;
        metric.sample("_bucket", &format!("{{le=\"{}\"}}", bound as f64 / 1e6), count);
    }
    let all: u64 = times.classes.iter().sum();
    metric.sample("_bucket", "{le=\"+Inf\"}", all);
    metric.sample("_sum", "", times.nanoseconds as f64 / 1e9);
    metric.sample("_count", "", all);
}

/// Returns all metrics as text.
pub fn text(measured: &Measured) -> String {
    let mut out = String::new();
    let to = &mut out;
    gauge(to, "sessions", "Open sessions.", measured.sessions);
    counter(to, "sessions_total", "Sessions opened since the start.", measured.sessions_opened);
    let help = "Connections whose client has not sent `hello`.";
    gauge(to, "greeting_connections", help, measured.newcomers);
    let help = "Connections that were refused before `hello`.";
    counter(to, "refused_connections_total", help, measured.refused);
    let [tokens, users, certificates] = measured.failed_logins;
    let shown =
        [("{by=\"token\"}", tokens), ("{by=\"user\"}", users), ("{by=\"certificate\"}", certificates)];
    counters(to, "failed_logins_total", "Failed logins, by the thing that was shown.", &shown);
    gauge(to, "heap_bytes", "Bytes of the heaps of all sessions and nodes.", measured.heap_bytes);
    gauge(to, "heap_bytes_max", "The limit of the bytes of the heaps.", measured.heap_bytes_max);
    let Measured { counted: c, gauges, .. } = measured;
    let ends = [
        ("{end=\"done\"}", c.commits),
        ("{end=\"conflict\"}", c.conflicts),
        ("{end=\"repeated\"}", c.repeated),
        ("{end=\"refused\"}", c.refused),
        ("{end=\"failed\"}", c.failed),
    ];
    counters(to, "commits_total", "Attempted commits, by outcome.", &ends);
    counter(
        to,
        "aborts_total",
        "Transactions that had read or changed something and were aborted without a commit.",
        c.aborts,
    );
    histogram(to, "commit_seconds", "The time of the store for a commit.", &c.committing);
    counter(to, "fetches_total", "Fetches from the store.", c.calls);
    let objects = [("{why=\"asked\"}", c.asked), ("{why=\"ahead\"}", c.ahead)];
    counters(to, "fetched_objects_total", "Fetched objects: requested, or prefetched.", &objects);
    histogram(to, "fetch_seconds", "The time of the store for a fetch.", &c.fetching);
    let help = "Fetches after which a transaction could not continue: another session had changed an \
        object that it had read.";
    counter(to, "stale_fetches_total", help, c.stale);
    counter(to, "prefetch_hits_total", "Prefetched objects that were used later.", c.used);
    counter(
        to,
        "evicted_objects_total",
        "Objects evicted from a session's cache because it was full.",
        c.evicted,
    );
    gauge(to, "store_head", "The number of the last commit.", gauges.head.0);
    gauge(to, "store_classes", "Classes in the store.", gauges.classes);
    gauge(to, "store_objects", "Objects in the store.", gauges.objects);
    gauge(to, "store_base_bytes", "Bytes of records in the base.", gauges.base_bytes);
    gauge(
        to,
        "store_buffered_bytes",
        "Bytes of committed records not yet in the base.",
        gauges.buffered_bytes,
    );
    gauge(to, "store_log_bytes", "Bytes of the log in use.", gauges.log_bytes);
    counter(
        to,
        "store_collections_total",
        "Collections of the store that this server has begun.",
        gauges.collections,
    );
    if let Some(nodes) = &measured.nodes {
        nodes_text(to, nodes);
    }
    out
}

fn nodes_text(to: &mut String, nodes: &NodesMeasured) {
    let stats = &nodes.stats;
    gauge(to, "nodes", "Nodes that run the program's actors.", nodes.nodes);
    gauge(to, "node_sessions", "Open sessions that have used the nodes.", nodes.sessions);
    gauge(to, "actor_names", "Names of actors.", nodes.names);
    gauge(
        to,
        "node_waiting_bytes",
        "Bytes of messages of sessions that no node has received yet.",
        nodes.waiting_bytes,
    );
    let created = [("{for=\"node\"}", stats.created), ("{for=\"other\"}", stats.created_remotely)];
    counters(to, "actors_total", "Actors that nodes have made, for themselves or on other nodes.", &created);
    gauge(
        to,
        "actors_known",
        "Actors of nodes, and requests under way, that other nodes or sessions refer to.",
        stats.known,
    );
    let help = "Of these, the garbage in cycles over several nodes that was found.";
    counter(to, "actors_swept_total", help, stats.swept);
    let messages = [
        ("{how=\"call\"}", stats.direct),
        ("{how=\"queue\"}", stats.queued),
        ("{how=\"packet\"}", stats.sent),
        ("{how=\"refused\"}", stats.refused),
    ];
    counters(to, "messages_total", "Messages to actors, by their form.", &messages);
    counter(to, "actor_turns_total", "Turns of actors.", stats.turns);
    counter(to, "actor_waits_total", "Waits of methods of actors.", stats.waits);
    counter(to, "request_cycles_total", "Requests that failed with a request cycle.", stats.cycles);
    counter(to, "lost_exceptions_total", "Exceptions of actors without a receiver.", stats.lost_exceptions);
}

/// The place where metrics are told. It ends when it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    address: Address,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
    requests: Arc<Requests>,
}

/// The connections with requests that are not answered yet, each with a thread.
#[derive(Debug)]
struct Requests {
    open: Mutex<Newcomers>,
    changed: Condvar,
}

/// A request's place among these, until dropped.
struct Request {
    requests: Arc<Requests>,
    number: u64,
}

impl Requests {
    fn enter(self: &Arc<Requests>, stream: &Stream) -> Option<Request> {
        let number = self.open.lock().enter(stream).ok()?;
        Some(Request { requests: self.clone(), number })
    }

    /// Ends all, and waits until they are over.
    fn stop(&self) {
        let mut open = self.open.lock();
        while !open.is_empty() {
            open.stoppers().for_each(StreamStopper::stop);
            self.changed.wait(&mut open);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.requests.open.lock().leave(self.number);
        self.requests.changed.notify_all();
    }
}

impl Endpoint {
    /// Listens, and answers each `GET /metrics` with what `measure` gives then. Each request has a
    /// thread, so that none waits for a slow one; of more than [`REQUESTS_MAX`] the oldest silent
    /// one is closed.
    ///
    /// # Errors
    /// The address cannot be listened on, or there is no thread.
    pub fn start(
        address: &Address,
        measure: impl Fn() -> Measured + Send + Sync + 'static,
    ) -> Result<Endpoint, ListenError> {
        let listener = Listener::bind(address, &ListenOptions::default())?;
        let (address, stopper) = (listener.local_address().clone(), listener.stopper());
        let bounds = Bounds { all: REQUESTS_MAX, of_origin: REQUESTS_MAX, handshakes: REQUESTS_MAX };
        let open = Mutex::new(Newcomers::new(bounds));
        let requests = Arc::new(Requests { open, changed: Condvar::new() });
        let (entered, measure) = (requests.clone(), Arc::new(measure));
        let run = move || {
            let told = |shortage| tell_shortage(listener.local_address(), &shortage);
            listener.serve(told, |mut stream| {
                let Some(request) = entered.enter(&stream) else { return };
                let measure = measure.clone();
                let work = move || {
                    answer(&mut stream, &*measure);
                    drop((stream, measure));
                    drop(request);
                };
                if let Err(error) = thread().spawn(work) {
                    tracing::warn!(%error, "metrics.refused");
                }
            });
        };
        let thread = thread().spawn(run);
        let thread = thread.map_err(|source| ListenError::Io { address: address.clone(), source })?;
        Ok(Endpoint { address, stopper, thread: Some(thread), requests })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported where it happened.
            let _ = thread.join();
        }
        self.requests.stop();
    }
}

fn thread() -> Builder {
    Builder::new().name("bifrost-metrics".to_owned())
}

/// Answers one request, and that is the end of the connection. A client that does not read the
/// answer does not get it.
fn answer(stream: &mut Stream, measure: &dyn Fn() -> Measured) {
    let deadline = Instant::now() + WITHIN;
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let room = REQUEST_BYTES_MAX.saturating_sub(request.len());
        if room == 0 {
            break;
        }
        match stream.read(&mut request, room, deadline) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    let (status, body) = response(&request, measure);
    let kind = if status == "200 OK" { "text/plain; version=0.0.4; charset=utf-8" } else { "text/plain" };
    let more = if status.starts_with("405") { "Allow: GET\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write(&[head.as_bytes(), body.as_bytes()].concat(), deadline);
    stream.flush();
}

/// Returns the status, and the text.
fn response(request: &[u8], measure: &dyn Fn() -> Measured) -> (&'static str, String) {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    if !request.ends_with(b"\r\n\r\n") || !version.is_some_and(|version| version.starts_with(b"HTTP/1.")) {
        return ("400 Bad Request", format!("a request of HTTP/1.1 has at most {REQUEST_BYTES_MAX} bytes\n"));
    }
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    match (method, path) {
        (Some(b"GET"), Some(b"/metrics")) => ("200 OK", text(&measure())),
        (_, Some(b"/metrics")) => ("405 Method Not Allowed", "use GET\n".to_owned()),
        _ => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
    }
}
