//! The events of a program's nodes and their times, in the trace event format of Chrome, which
//! Perfetto shows.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use bifrost_actors::{EVENTS_MAX, Trace};
use bifrost_capsule::space::Space;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::report::Report;
use crate::failure::{Exit, Failure};

/// The events of a node and their times.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NodeTrace {
    /// The names and kinds of events; an event has the index of its own.
    names: Vec<(String, String)>,
    /// For each event its index, the nanoseconds from 1970 to its begin, and its length.
    events: Vec<(u32, u64, u64)>,
    /// The number of events beyond those.
    dropped: u64,
}

impl NodeTrace {
    /// Makes the trace of a node whose clock began at a time, in nanoseconds since 1970.
    pub fn new(trace: &Trace, began_ns: u64, space: &Space) -> NodeTrace {
        let program = space.engine().program();
        let mut names: Vec<(String, String)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let events = trace.events.iter().map(|event| {
            let named = (event.what.name(program), event.what.kind().to_owned());
            let place = *places.entry(named.clone()).or_insert_with(|| {
                names.push(named);
                names.len() as u32 - 1
            });
            (place, began_ns.saturating_add(event.start_ns), event.took_ns)
        });
        NodeTrace { events: events.collect(), dropped: trace.dropped, names }
    }
}

/// Writes the events of each node, as a thread of the process that it was in, in microseconds since
/// the first event.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, capsules: &[(u32, Report)]) -> Result<(), Failure> {
    let traces = || {
        capsules.iter().flat_map(|(capsule, report)| {
            report.nodes.iter().filter_map(move |node| Some((capsule + 1, node.node, node.trace.as_ref()?)))
        })
    };
    let first = traces().flat_map(|(.., trace)| &trace.events).map(|event| event.1).min().unwrap_or(0);
    let micros = |ns: u64| ns as f64 / 1000.0;
    let mut lines = Vec::new();
    for (capsule, _) in capsules {
        let name = json!({ "name": if capsules.len() == 1 { "bifrost".to_owned() } else { format!("capsule {capsule}") } });
        lines.push(json!({ "name": "process_name", "ph": "M", "pid": capsule + 1, "args": name }));
    }
    for (process, node, _) in traces() {
        let name = json!({ "name": format!("node {node}") });
        lines.push(json!({ "name": "thread_name", "ph": "M", "pid": process, "tid": node, "args": name }));
    }
    let events = traces().flat_map(|(process, node, trace)| {
        trace.events.iter().filter_map(move |(what, start, took)| {
            let (name, kind) = trace.names.get(*what as usize)?;
            let (start, took) = (micros(start.saturating_sub(first)), micros(*took));
            Some(json!({ "name": name, "cat": kind, "ph": "X", "ts": start, "dur": took, "pid": process, "tid": node }))
        })
    });
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        for (at, line) in lines.into_iter().chain(events).enumerate() {
            write!(out, "{}\n{line}", if at == 0 { "[" } else { "," })?;
        }
        writeln!(out, "\n]")?;
        out.flush()
    });
    for (_, node, trace) in traces().filter(|(.., trace)| trace.dropped > 0) {
        tracing::warn!("node {node}: {} events beyond {EVENTS_MAX} are not in the trace", trace.dropped);
    }
    written.map_err(|e| Failure::new(Exit::Failed, format!("`{}` cannot be written: {e}", path.display())))
}
