//! What programs print.
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::ops::Range;
use std::sync::Arc;

use bifrost_capsule::Space;
use bifrost_capsule::nodes::Nodes;
use bifrost_engine::Engine;
use bifrost_ir::RoutineId;
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Collect, Cx, HeapStats, Limits};

/// Examples of actors: what they get, and what they print.
pub const EXAMPLES: [(&str, &[&str], &str); 4] = [
    (include_str!("../../../../examples/actors/fib.theta"), &["7"], "fib(7) = 21\n"),
    (include_str!("../../../../examples/actors/queens.theta"), &["5"], "5 queens: 10 solutions\n"),
    (
        include_str!("../../../../examples/actors/queen_objects.theta"),
        &["5"],
        "5 queens: 10 solutions, 53 queens placed\n",
    ),
    (include_str!("../../../../examples/actors/buffers.theta"), &[], "selecting 465, refusing 465\n"),
];

/// How a program went.
pub struct Ran {
    /// What it printed, and behind it the exception that it ended with, if it did.
    pub output: String,
    /// What became of its heap.
    pub heap: HeapStats,
}

/// Runs `main`, which may take the arguments of a program.
pub fn run(engine: &Arc<Engine>, limits: Limits, arguments: &[String]) -> Ran {
    run_with(engine, limits, arguments, |_| {}).0
}

/// The same in a context that was made ready, and what its actors did.
pub fn run_with(
    engine: &Arc<Engine>,
    limits: Limits,
    arguments: &[String],
    ready: impl FnOnce(&mut Cx),
) -> (Ran, Stats) {
    let plain = engine.find_entry("main", 0);
    let main = plain.or_else(|| engine.find_entry("main", 1)).expect("a program has `main`");
    let space = Space::new(engine.clone(), limits).expect("there is memory for a heap");
    ready(&mut space.lock());
    let ran = run_in(&space, main, plain.is_none().then_some(arguments));
    let stats = space.lock().words.stats;
    (ran, stats)
}

/// The same on several nodes. What the first printed.
pub fn run_on(
    engine: &Arc<Engine>,
    limits: Limits,
    count: u32,
    arguments: &[String],
    ready: impl Fn(&mut Cx),
) -> (Ran, Vec<Stats>) {
    let plain = engine.find_entry("main", 0);
    let main = plain.or_else(|| engine.find_entry("main", 1)).expect("a program has `main`");
    let space = Space::new(engine.clone(), limits).expect("there is memory for a heap");
    let nodes = Nodes::new(space, count, limits, ready).expect("there are means for nodes");
    let arguments = plain.is_none().then_some(arguments);
    let ran = nodes.run(|space| run_here(space, main, arguments)).expect("there are threads");
    (ran, nodes.stats())
}

/// How a program went on simulated nodes.
pub struct Simulated {
    /// What it printed, and behind it the exception that it ended with, if it did.
    pub output: String,
    /// What the actors of each node did.
    pub stats: Vec<Stats>,
    /// The number of events, and the digest of their log.
    pub events: (u64, String),
}

/// The same on several nodes, in the order of a seed.
pub fn simulated(
    engine: &Arc<Engine>,
    limits: Limits,
    count: u32,
    seed: u64,
    arguments: &[String],
) -> Simulated {
    simulated_with_loss(engine, limits, count, seed, None, arguments)
}

/// The same, where some nodes are lost when the first has looked so often.
pub fn simulated_with_loss(
    engine: &Arc<Engine>,
    limits: Limits,
    count: u32,
    seed: u64,
    loss: Option<(Range<u32>, u32)>,
    arguments: &[String],
) -> Simulated {
    let plain = engine.find_entry("main", 0);
    let main = plain.or_else(|| engine.find_entry("main", 1)).expect("a program has `main`");
    let space = Space::new(engine.clone(), limits).expect("there is memory for a heap");
    let nodes = Nodes::simulated_with_loss(space, count, limits, seed, loss, |_| {});
    let nodes = nodes.expect("there are means for nodes");
    let arguments = plain.is_none().then_some(arguments);
    let ran = nodes.run(|space| run_here(space, main, arguments)).expect("there are threads");
    let events = nodes.events().expect("the nodes are simulated");
    Simulated { output: ran.output, stats: nodes.stats(), events }
}

/// Runs a routine in a space, with the arguments of a program if it takes them.
pub fn run_in(space: &Space, main: RoutineId, arguments: Option<&[String]>) -> Ran {
    space.on_stack(|| run_here(space, main, arguments)).expect("there is memory for a stack")
}

/// The same, on this stack.
pub fn run_here(space: &Space, main: RoutineId, arguments: Option<&[String]>) -> Ran {
    let engine = space.engine();
    space.capture_output();
    let mut cx = space.lock();
    let mut passed = vec![];
    if let Some(arguments) = arguments {
        passed.push(engine.arguments(&mut cx, arguments).expect("room for the arguments"));
    }
    // SAFETY: the context runs this engine's image, and `main` takes the arguments.
    let ended = unsafe { engine.call(&mut cx, main, &passed) };
    let mut output = cx.take_output();
    if let Err(raised) = ended {
        output += &raised.to_string();
    }
    Ran { output, heap: cx.heap_stats() }
}

/// What `main` prints without arguments, and the exception that it ends with, if it does.
pub fn output(engine: &Arc<Engine>, collect: Collect) -> String {
    run(engine, Limits { collect, ..Limits::default() }, &[]).output
}
