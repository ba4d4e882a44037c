//! What happened when on the nodes of a program, in the trace event format of Chrome, which Perfetto shows.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use bifrost_runtime::actor::EVENTS_MAX;
use bifrost_server::nodes::Nodes;
use serde_json::json;

use crate::failure::{Exit, Failure};

/// Writes what happened on each node, as a thread of one process, in microseconds since the first event.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, nodes: &Nodes) -> Result<(), Failure> {
    let traces: Vec<_> =
        nodes.spaces().iter().map(|space| space.lock().actors.take_trace().unwrap_or_default()).collect();
    let starts = traces.iter().flat_map(|trace| &trace.events).map(|event| event.start_ns);
    let first = starts.min().unwrap_or(0);
    let micros = |ns: u64| ns as f64 / 1000.0;
    let program = nodes.spaces()[0].engine().program();
    let mut lines =
        vec![json!({ "name": "process_name", "ph": "M", "pid": 1, "args": { "name": "bifrost" } })];
    for node in 0..traces.len() {
        let name = json!({ "name": format!("node {node}") });
        lines.push(json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": node, "args": name }));
    }
    let events = traces.iter().enumerate().flat_map(|(node, trace)| {
        trace.events.iter().map(move |event| {
            json!({
                "name": event.what.name(program),
                "cat": event.what.kind(),
                "ph": "X",
                "ts": micros(event.start_ns.saturating_sub(first)),
                "dur": micros(event.took_ns),
                "pid": 1,
                "tid": node,
            })
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
    for (node, trace) in traces.iter().enumerate().filter(|(_, trace)| trace.dropped > 0) {
        tracing::warn!("node {node}: {} events beyond {EVENTS_MAX} are not in the trace", trace.dropped);
    }
    written.map_err(|e| Failure::new(Exit::Failed, format!("`{}` cannot be written: {e}", path.display())))
}
