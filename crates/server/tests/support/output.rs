//! What programs print.
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::sync::Arc;

use bifrost_engine::Engine;
use bifrost_runtime::{Collect, HeapStats, Limits};
use bifrost_server::Space;

/// How a program went.
pub struct Ran {
    /// What it printed, and behind it the exception that it ended with, if it did.
    pub output: String,
    /// What became of its heap.
    pub heap: HeapStats,
}

/// Runs `main`, which may take the arguments of a program.
pub fn run(engine: &Arc<Engine>, limits: Limits, arguments: &[String]) -> Ran {
    let plain = engine.find_entry("main", 0);
    let main = plain.or_else(|| engine.find_entry("main", 1)).expect("a program has `main`");
    let space = Space::new(engine.clone(), limits).expect("there is memory for a heap");
    space.capture_output();
    space
        .on_stack(|| {
            let mut cx = space.lock();
            let mut passed = vec![];
            if plain.is_none() {
                passed.push(engine.arguments(&mut cx, arguments).expect("room for the arguments"));
            }
            // SAFETY: the context runs this engine's image, and `main` takes the arguments.
            let ended = unsafe { engine.call(&mut cx, main, &passed) };
            let mut output = cx.take_output();
            if let Err(raised) = ended {
                output += &raised.to_string();
            }
            Ran { output, heap: cx.heap_stats() }
        })
        .expect("there is memory for a stack")
}

/// What `main` prints without arguments, and the exception that it ends with, if it does.
pub fn output(engine: &Arc<Engine>, collect: Collect) -> String {
    run(engine, Limits { collect, ..Limits::default() }, &[]).output
}
