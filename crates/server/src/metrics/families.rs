//! The numbers of a server as metrics, with their names, labels and texts.
//!
//! Both forms are made from these: the text of Prometheus and the messages of OpenTelemetry.

use bifrost_cache::{TIME_BOUNDS_US, Times};
use bifrost_capsule::tasks::{BOUNDS_US, Histogram, TaskCounts, TaskEnd, TasksMeasured};
use bifrost_workers::Reason;

use super::batches::{BatchesMeasured, MEDIA, Rest, class_bounds};
use super::measured::{Measured, NodesMeasured};

/// A metric: samples with different labels.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// The name between `bifrost_` and, for counters, `_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<(Vec<Label>, Value)>,
}

/// The kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A label: its name, and its value.
pub(crate) type Label = (&'static str, &'static str);

/// The value of a sample.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    /// Times in seconds: the number in each class, and the bound of each class but the last one.
    Times {
        bounds: Vec<f64>,
        classes: Vec<u64>,
        sum: f64,
    },
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::Whole(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

/// Families, as they are gathered.
#[derive(Default)]
struct Gathered(Vec<Family>);

impl Gathered {
    fn put(&mut self, kind: Kind, name: &'static str, help: &'static str, samples: Vec<(Vec<Label>, Value)>) {
        self.0.push(Family { name, help, kind, samples });
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: impl Into<Value>) {
        self.put(Kind::Counter, name, help, vec![(vec![], value.into())]);
    }

    /// Adds a counter with a sample for each value of a label.
    fn counters<V: Into<Value>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        self.put(Kind::Counter, name, help, labelled(label, values));
    }

    /// Adds a gauge; nothing for one without a value.
    fn gauge(&mut self, name: &'static str, help: &'static str, value: impl Into<Option<u64>>) {
        if let Some(value) = value.into() {
            self.put(Kind::Gauge, name, help, vec![(vec![], value.into())]);
        }
    }

    /// Does the same for a gauge with a fraction.
    fn real(&mut self, name: &'static str, help: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.put(Kind::Gauge, name, help, vec![(vec![], value.into())]);
        }
    }

    /// Adds a gauge with a sample for each value of a label.
    fn gauges<V: Into<Value>>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        self.put(Kind::Gauge, name, help, labelled(label, values));
    }

    fn times(&mut self, name: &'static str, help: &'static str, times: &Times) {
        let bounds = TIME_BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).collect();
        let (classes, sum) = (times.classes.to_vec(), seconds(times.nanoseconds));
        self.put(Kind::Histogram, name, help, vec![(vec![], Value::Times { bounds, classes, sum })]);
    }
}

fn labelled<V: Into<Value>>(
    label: &'static str,
    values: impl IntoIterator<Item = (&'static str, V)>,
) -> Vec<(Vec<Label>, Value)> {
    values.into_iter().map(|(name, value)| (vec![(label, name)], value.into())).collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns all metrics.
pub(crate) fn families(measured: &Measured) -> Vec<Family> {
    let mut to = Gathered::default();
    sessions(&mut to, measured);
    batches(&mut to, &measured.batches);
    structures(&mut to, measured);
    workers(&mut to, measured);
    store(&mut to, measured);
    if let Some(measured) = &measured.nodes {
        nodes(&mut to, measured);
    }
    if let Some(exports) = &measured.exports {
        to.gauge("exports_wanted", "Exports, counted for each trader.", exports.wanted);
        to.gauge("exports_held", "Exports that a trader has, counted for each trader.", exports.held);
        to.gauge("trader_sessions", "Traders with which there is a session.", exports.traders);
    }
    if let Some(exported) = &measured.exported {
        let ends = [
            ("sent", exported.sent),
            ("refused", exported.refused),
            ("failed", exported.failed),
            ("dropped", exported.dropped),
        ];
        to.counters("exported_spans", "Spans of batches, by the end of their export.", "end", ends);
        let ends = [("done", exported.exports), ("failed", exported.exports_failed)];
        to.counters("exports", "Requests to the collector of OpenTelemetry, by outcome.", "end", ends);
    }
    to.0
}

fn sessions(to: &mut Gathered, measured: &Measured) {
    to.gauge("sessions", "Open sessions.", measured.sessions);
    to.counter("sessions", "Sessions opened since the start.", measured.sessions_opened);
    let help = "Connections whose client has not sent `hello`.";
    to.gauge("greeting_connections", help, measured.newcomers);
    let help = "Connections that were refused before `hello`.";
    to.counter("refused_connections", help, measured.refused);
    let [tokens, users, certificates] = measured.failed_logins;
    let shown = [("token", tokens), ("user", users), ("certificate", certificates)];
    to.counters("failed_logins", "Failed logins, by the thing that was shown.", "by", shown);
    to.gauge("heap_bytes", "Bytes of the heaps of all sessions and nodes.", measured.heap_bytes);
    to.gauge("heap_bytes_max", "The limit of the bytes of the heaps.", measured.heap_bytes_max);
}

fn batches(to: &mut Gathered, batches: &BatchesMeasured) {
    let help = "Answered batches, which are pairs of domain crossings, by medium.";
    to.counters("crossings", help, "medium", MEDIA.into_iter().zip(batches.crossings));
    let help = "Calls run for clients, those of loops each time, by medium.";
    to.counters("calls", help, "medium", MEDIA.into_iter().zip(batches.calls));
    to.counter("structures", "Control structures run for clients.", batches.structures);
    to.counter("failures", "Exceptions and refusals of calls of clients.", batches.failures);
    to.counter("fuel", "Fuel that batches have used.", batches.fuel);
    to.counter("received_bytes", "Bytes of batches.", batches.received_bytes);
    to.counter("sent_bytes", "Bytes of the answers to batches.", batches.sent_bytes);
    let bounds = class_bounds().into_iter().map(seconds).collect();
    let times = Value::Times { bounds, classes: batches.classes.to_vec(), sum: seconds(batches.whole_ns) };
    let help = "The time from the first byte of a batch until its answer was written.";
    to.put(Kind::Histogram, "batch_seconds", help, vec![(vec![], times)]);
    let rested = batches.whole_ns.saturating_sub(batches.ran_ns).saturating_sub(batches.parked_ns);
    let states = [
        ("running", seconds(batches.ran_ns)),
        ("parked", seconds(batches.parked_ns)),
        ("resting", seconds(rested)),
        ("input", seconds(batches.input_ns)),
    ];
    let help = "The time of sessions with batches: running, parked or blocked, resting in the middle of \
        a batch, and waiting for the next batch.";
    to.counters("session_seconds", help, "state", states);
    let calls = bifrost_transport::answered_questions().map(|(state, count)| (state.name(), count));
    let help = "Questions of clients over QUIC about calls that wait, by the state that was told.";
    to.counters("rex_calls", help, "state", calls);
    let minute = &batches.minute;
    let factor = (minute.batches > 0).then(|| minute.calls as f64 / minute.batches as f64);
    let help = "Calls divided by crossings in the last minute: the batching factor B. Absent without \
        crossings.";
    to.real("batching_factor", help, factor);
    let fit = minute.fit();
    let help = "The cost of a call, t_c, fitted to the batches of the last minute. Absent if it is \
        undefined.";
    to.real("call_cost_seconds", help, fit.map(|fit| fit.call_ns / 1e9));
    let help = "The cost of a crossing in the server, t_d, fitted to the batches of the last minute. \
        Absent if it is undefined, or hidden by the scatter of the times.";
    to.real("crossing_cost_seconds", help, fit.and_then(|fit| fit.crossing_ns).map(|ns| ns / 1e9));
    to.gauge("fitted_batches", "Batches of the last minute, to which costs are fitted.", minute.batches);
}

fn structures(to: &mut Gathered, measured: &Measured) {
    let structures = &measured.structures;
    let found = [("hit", structures.hits), ("miss", structures.misses)];
    let help = "Structures of clients that were found prepared, and those that were not.";
    to.counters("structure_lookups", help, "found", found);
    let help = "Prepared structures that were evicted, since there were too many.";
    to.counter("evicted_structures", help, structures.evicted);
    to.gauge("kept_structures", "Prepared structures that are kept.", structures.kept);
    to.gauge("structure_key_bytes", "Bytes of the keys of prepared structures.", structures.key_bytes);
    let help = "Structures, and loops of structures, that have machine code.";
    to.gauge("compiled_structures", help, structures.compiled);
    let help = "Structures, and loops of structures, that were compiled.";
    to.counter("structure_compilations", help, structures.compilations);
    to.gauge("structure_code_bytes", "Bytes of machine code of structures.", structures.code_bytes);
}

fn workers(to: &mut Gathered, measured: &Measured) {
    let workers = &measured.workers;
    let running = workers.threads.saturating_sub(workers.idle + workers.blocked);
    let states = [("running", running), ("idle", workers.idle), ("blocked", workers.blocked)];
    to.gauges("workers", "Threads that run sessions, by state.", "state", states);
    to.gauge("jobs", "Connections, and other jobs of the workers.", workers.jobs as u64);
    to.gauge("queued_jobs", "Jobs that wait for a worker.", workers.queued as u64);
    to.gauge("fibers", "Stacks of jobs that run or are parked.", workers.fibers as u64);
    let help = "Runs that were asked to make way for others, and did.";
    to.counter("preemptions", help, workers.preempted);
    let help = "Times that a batch has waited because all stacks were in use.";
    to.counter("stack_waits", help, workers.stack_waits);
    let resting = Rest::ALL.map(Rest::name).into_iter().zip(measured.batches.resting);
    let parked = Reason::ALL.map(Reason::name).into_iter().zip(workers.parked.map(|count| count as u64));
    let help = "Sessions that wait and hold no worker, by reason.";
    to.gauges("parked_sessions", help, "reason", resting.chain(parked));
}

fn store(to: &mut Gathered, measured: &Measured) {
    let Measured { counted: c, gauges, .. } = measured;
    let ends = [
        ("done", c.commits),
        ("conflict", c.conflicts),
        ("repeated", c.repeated),
        ("refused", c.refused),
        ("failed", c.failed),
    ];
    to.counters("commits", "Attempted commits, by outcome.", "end", ends);
    let help = "Transactions that had read or changed something and were aborted without a commit.";
    to.counter("aborts", help, c.aborts);
    to.times("commit_seconds", "The time of the store for a commit.", &c.committing);
    to.counter("fetches", "Fetches from the store.", c.calls);
    let objects = [("asked", c.asked), ("ahead", c.ahead)];
    to.counters("fetched_objects", "Fetched objects: requested, or prefetched.", "why", objects);
    to.times("fetch_seconds", "The time of the store for a fetch.", &c.fetching);
    let help = "Fetches after which a transaction could not continue: another session had changed an \
        object that it had read.";
    to.counter("stale_fetches", help, c.stale);
    to.counter("prefetch_hits", "Prefetched objects that were used later.", c.used);
    let help = "Objects evicted from a session's cache because it was full.";
    to.counter("evicted_objects", help, c.evicted);
    to.gauge("store_head", "The number of the last commit.", gauges.head.0);
    to.gauge("store_classes", "Classes in the store.", gauges.classes);
    to.gauge("store_objects", "Objects in the store.", gauges.objects);
    to.gauge("store_base_bytes", "Bytes of records in the base.", gauges.base_bytes);
    let help = "Bytes of committed records not yet in the base.";
    to.gauge("store_buffered_bytes", help, gauges.buffered_bytes);
    to.gauge("store_log_bytes", "Bytes of the log in use.", gauges.log_bytes);
    let help = "Collections of the store that this server has begun.";
    to.counter("store_collections", help, gauges.collections);
}

/// Adds the metrics of native actors, by class, and of the central queue.
fn tasks(to: &mut Gathered, tasks: &TasksMeasured) {
    to.gauge("tasks", "Tasks, which run the methods of native actors.", u64::from(tasks.tasks));
    to.gauge("native_actors", "Native actors.", tasks.actors as u64);
    let all = &tasks.all;
    to.gauge("tasks_waiting", "Messages to native actors that wait for a task.", all.waiting());
    to.gauge("tasks_active", "Tasks that run a method.", all.active());
    to.counter("tasks_queued", "Messages to native actors that were queued.", all.queued());
    let help =
        "The sum, over these, of the messages that waited already: by it the average length of the queue.";
    to.counter("tasks_queue_length_sum", help, all.queue_length_sum());
    to.counter("tasks_taken", "Messages that a task has taken to run.", all.taken());
    let help =
        "The sum, over these, of the tasks that ran already: by it the average number of active tasks.";
    to.counter("tasks_active_sum", help, all.active_sum());
    let by = |value: fn(&TaskCounts) -> u64| {
        let classes = tasks.classes.iter();
        classes.map(move |(class, counts)| (*class, value(counts)))
    };
    to.gauges("invocations_waiting", "The same, by class.", "actor", by(TaskCounts::waiting));
    to.gauges("invocations_active", "Methods of native actors that run.", "actor", by(TaskCounts::active));
    to.counters("invocations_queued", "Messages that were queued.", "actor", by(TaskCounts::queued));
    let help = "The sum, over these, of the messages to the same actor that waited already.";
    to.counters("queue_length_sum", help, "actor", by(TaskCounts::queue_length_sum));
    to.counters("invocations_taken", "Messages that a task has taken.", "actor", by(TaskCounts::taken));
    let help = "The sum, over these, of the methods of the same actor that ran already.";
    to.counters("active_sum", help, "actor", by(TaskCounts::active_sum));
    let ends = tasks.classes.iter().flat_map(|(class, counts)| {
        let sample = |end: TaskEnd| (vec![("actor", *class), ("end", end.label())], counts.ended(end).into());
        TaskEnd::ALL.map(sample)
    });
    let help = "Messages to native actors, by their end.";
    to.put(Kind::Counter, "invocations", help, ends.collect());
    let times = |histogram: &Histogram| Value::Times {
        bounds: BOUNDS_US.iter().map(|bound| *bound as f64 / 1e6).collect(),
        classes: histogram.classes().to_vec(),
        sum: histogram.sum_us() as f64 / 1e6,
    };
    let waits = tasks.classes.iter().map(|(class, counts)| (vec![("actor", *class)], times(&counts.waits)));
    let help = "Times for which messages have waited for a task.";
    to.put(Kind::Histogram, "invocation_wait_seconds", help, waits.collect());
    let runs = tasks.classes.iter().map(|(class, counts)| (vec![("actor", *class)], times(&counts.runs)));
    to.put(Kind::Histogram, "invocation_run_seconds", "Times for which methods have run.", runs.collect());
}

fn nodes(to: &mut Gathered, nodes: &NodesMeasured) {
    if let Some(measured) = &nodes.tasks {
        tasks(to, measured);
    }
    let stats = &nodes.stats;
    to.gauge("nodes", "Nodes that run the program's actors.", nodes.nodes);
    to.gauge("node_sessions", "Open sessions that have used the nodes.", nodes.sessions);
    to.gauge("actor_names", "Names of actors.", nodes.names);
    let help = "Bytes of messages of sessions that no node has received yet.";
    to.gauge("node_waiting_bytes", help, nodes.waiting_bytes);
    let created = [("node", stats.created), ("other", stats.created_remotely)];
    let help = "Actors that nodes have made, for themselves or on other nodes.";
    to.counters("actors", help, "for", created);
    let help = "Actors of nodes, and requests under way, that other nodes or sessions refer to.";
    to.gauge("actors_known", help, stats.known);
    let help = "Of these, the garbage in cycles over several nodes that was found.";
    to.counter("actors_swept", help, stats.swept);
    let messages =
        [("call", stats.direct), ("queue", stats.queued), ("packet", stats.sent), ("refused", stats.refused)];
    to.counters("messages", "Messages to actors, by their form.", "how", messages);
    to.counter("actor_turns", "Turns of actors.", stats.turns);
    to.counter("actor_waits", "Waits of methods of actors.", stats.waits);
    to.counter("request_cycles", "Requests that failed with a request cycle.", stats.cycles);
    to.counter("lost_exceptions", "Exceptions of actors without a receiver.", stats.lost_exceptions);
    let help = "Calls of natives by actors that took 20 ms or more, for which all actors of a node waited.";
    to.counter("native_long", help, stats.long_natives);
}
