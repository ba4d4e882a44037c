//! [`Measured`]: the numbers of a server at some moment.

use bifrost_cache::Counted;
use bifrost_capsule::tasks::TasksMeasured;
use bifrost_engine::Structures;
use bifrost_repository::Gauges;
use bifrost_runtime::node_words::Stats;
use bifrost_workers::Counts;

use super::batches::BatchesMeasured;
use crate::exports::ExportsMeasured;
use crate::otlp::Exported;

/// The numbers that are told.
#[derive(Clone, Debug, Default)]
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
    /// The batches of all sessions.
    pub batches: BatchesMeasured,
    /// The structures that clients have sent.
    pub structures: Structures,
    /// The workers.
    pub workers: Counts,
    /// The export of spans and metrics, if there is one.
    pub exported: Option<Exported>,
    /// The exports to traders, if there are some.
    pub exports: Option<ExportsMeasured>,
}

/// The numbers that are told of the nodes of a program's actors.
#[derive(Clone, Debug, Default)]
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
    /// The tasks, if the program has native actors.
    pub tasks: Option<TasksMeasured>,
}
