//! Figures of a run or of a server, each on one line.

use bifrost_runtime::HeapStats;
use bifrost_server::Server;

use super::report::NodeReport;

/// Returns the figures of a running server, on one line.
pub fn server_line(server: &Server) -> String {
    let gauges = server.gauges();
    let stored = match (gauges.objects, gauges.used_bytes()) {
        (Some(objects), Some(bytes)) => {
            format!("objects {objects} stored, {:.1} MiB; ", bytes as f64 / f64::from(1 << 20))
        }
        // A database would have to count.
        _ => String::new(),
    };
    format!("sessions {}; {stored}{}", server.sessions(), heap_line(&server.heap_stats()))
}

/// Returns the counts of a node's actors, on one line.
pub fn actors_line(NodeReport { stats, allocated_bytes, .. }: &NodeReport) -> String {
    // With all else that the node has made.
    let bytes = *allocated_bytes as f64 / stats.created.max(1) as f64;
    let direct = 100.0 * stats.direct as f64 / stats.messages().max(1) as f64;
    format!(
        "actors made {}, on other nodes {}; messages {}, {direct:.1} % of them calls, queued {}, to other nodes {}; methods with a \
         join {}, waits {}, made way {}; messages that went ahead {}; turns {}; longest queue {}; bytes \
         allocated for each actor {bytes:.1}; request cycles {}, found in {} steps; exceptions without a \
         receiver {}; in cycles of garbage {}",
        stats.created,
        stats.created_remotely,
        stats.messages(),
        stats.queued,
        stats.sent,
        stats.joins,
        stats.waits,
        stats.ways,
        stats.ahead,
        stats.turns,
        stats.longest_queue,
        stats.cycles,
        stats.searched,
        stats.lost_exceptions,
        stats.swept,
    )
}

/// Returns the figures of the collector, on one line.
pub fn heap_line(stats: &HeapStats) -> String {
    let HeapStats { usage, pause_ns_max, pauses_ns, .. } = stats;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let ms = |ns: u64| ns as f64 / 1e6;
    format!(
        "collections {}, {:.1} ms in all, {:.1} ms at most; allocated {:.1} MiB; live after the last {:.1} MiB in {} \
         objects; used {:.1} MiB, held {:.1} MiB of {:.0} MiB",
        usage.collections,
        ms(*pauses_ns),
        ms(*pause_ns_max),
        mib(usage.allocated_bytes),
        mib(usage.live_bytes as u64),
        usage.live_objects,
        mib(usage.used_bytes as u64),
        mib(usage.held_bytes as u64),
        mib(usage.limit_bytes as u64),
    )
}
