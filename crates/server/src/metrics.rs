//! The metrics that a server tells its monitors: counters, gauges and times, in the text form of
//! Prometheus (0.0.4).
//!
//! Read [`Measured`] first: the numbers. [`text`] is the whole form; docs/book/persistence.md
//! defines each metric. `crate::http` answers the requests for them.
//!
//! Everything is in memory: a request waits for no batch and for no database.

use std::fmt::Write;

use bifrost_cache::{Counted, TIME_BOUNDS_US, Times};
use bifrost_repository::Gauges;
use bifrost_runtime::node_words::Stats;

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
