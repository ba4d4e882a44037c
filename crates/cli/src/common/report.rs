//! The counts and events of the nodes of a run, as capsules send them at its end.

use std::time::{SystemTime, UNIX_EPOCH};

use bifrost_capsule::capsules::REPORT_BYTES_MAX;
use bifrost_capsule::nodes::Nodes;
use bifrost_runtime::HeapStats;
use bifrost_runtime::node_words::Stats;
use serde::{Deserialize, Serialize};

use crate::trace::NodeTrace;

/// The counts of the nodes of a capsule.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// The nodes, from the first of the capsule.
    pub nodes: Vec<NodeReport>,
    heap: [u64; 10],
}

/// [`Stats`] as they are sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Stats")]
struct SentStats {
    created: u64,
    created_remotely: u64,
    sent: u64,
    direct: u64,
    queued: u64,
    refused: u64,
    joins: u64,
    waits: u64,
    ways: u64,
    ahead: u64,
    turns: u64,
    longest_queue: u64,
    lost_exceptions: u64,
    cycles: u64,
    searched: u64,
    swept: u64,
    known: u64,
    long_natives: u64,
}

/// The counts of a node.
#[derive(Serialize, Deserialize)]
pub struct NodeReport {
    /// Its number.
    pub node: u32,
    /// The counts of its actors.
    #[serde(with = "SentStats")]
    pub stats: Stats,
    /// The bytes that its heap has handed out.
    pub allocated_bytes: u64,
    /// The events and their times, if they were kept.
    pub trace: Option<NodeTrace>,
}

impl Report {
    /// Makes the report of the nodes here, which must not run any more. Their traces are taken.
    pub fn of(nodes: &Nodes) -> Report {
        let HeapStats { usage, pause_ns, pause_ns_max, pauses_ns } = nodes.heap_stats();
        let heap = [
            usage.limit_bytes as u64,
            usage.used_bytes as u64,
            usage.held_bytes as u64,
            usage.live_bytes as u64,
            usage.live_objects as u64,
            usage.allocated_bytes,
            usage.collections,
            pause_ns,
            pause_ns_max,
            pauses_ns,
        ];
        let reports = (nodes.first_node()..).zip(nodes.spaces()).map(|(node, space)| {
            let mut cx = space.lock();
            // Clocks of processes begin at different times.
            let since_1970 =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            let began = since_1970.saturating_sub(cx.now_ns());
            let trace = bifrost_actors::take_trace(&mut cx).map(|trace| NodeTrace::new(&trace, began, space));
            let allocated_bytes = cx.taken_bytes();
            NodeReport { node, stats: cx.words.stats, allocated_bytes, trace }
        });
        Report { nodes: reports.collect(), heap }
    }

    /// Returns the report as bytes for the first capsule; without the traces if they are too much.
    pub fn to_bytes(&self) -> Vec<u8> {
        let whole = serde_json::to_vec(self).unwrap_or_default();
        if whole.len() <= REPORT_BYTES_MAX {
            return whole;
        }
        let nodes = self.nodes.iter().map(|node| NodeReport { trace: None, ..*node }).collect();
        serde_json::to_vec(&Report { nodes, heap: self.heap }).unwrap_or_default()
    }

    /// Reads the bytes that another capsule has sent, which may be anything.
    pub fn parse(bytes: &[u8]) -> Option<Report> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the figures of the heaps together.
    pub fn heap(&self) -> HeapStats {
        let [limit, used, held, live, objects, allocated, collections, last, longest, all] = self.heap;
        let mut stats =
            HeapStats { pause_ns: last, pause_ns_max: longest, pauses_ns: all, ..HeapStats::default() };
        stats.usage.limit_bytes = limit as usize;
        stats.usage.used_bytes = used as usize;
        stats.usage.held_bytes = held as usize;
        stats.usage.live_bytes = live as usize;
        stats.usage.live_objects = objects as usize;
        stats.usage.allocated_bytes = allocated;
        stats.usage.collections = collections;
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_any_numbers_is_added_up() {
        let most = u64::MAX;
        let names = "created created_remotely sent direct queued refused joins waits ways ahead turns longest_queue lost_exceptions cycles searched swept known long_natives";
        let stats: serde_json::Map<_, _> =
            names.split(' ').map(|name| (name.to_owned(), most.into())).collect();
        let report = serde_json::json!({
            "nodes": [{ "node": u32::MAX, "stats": stats, "allocated_bytes": most, "trace": null }],
            "heap": vec![most; 10],
        });
        let report = Report::parse(report.to_string().as_bytes()).expect("a report");
        assert_eq!(report.nodes[0].stats.messages(), most);
        let both = report.heap().with(&report.heap());
        assert_eq!((both.usage.allocated_bytes, both.pauses_ns), (most, most));
        assert!(Report::parse(b"{\"nodes\": [").is_none());
    }
}
