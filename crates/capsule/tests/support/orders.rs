//! Runs programs with actors in many orders.
#![allow(dead_code, reason = "each test file uses what it needs")]

#[path = "output.rs"]
pub mod output;

use std::sync::Arc;

use bifrost_actors::WithActors;
use bifrost_engine::{Engine, Mode, Run};
use bifrost_runtime::node_words::Stats;
use bifrost_runtime::{Collect, Limits};
use bifrost_theta::{Colour, Options, Sources, compile, render_all};
use output::{Ran, run_with};

/// An actor that adds.
pub const COUNTER: &str = "Counter = actor
  n: int
  new () make {n := 0} end new
  add (k: int) n := n + k end add
  get () returns (int) reply (n) end get
end Counter
";

/// A program that is ready to run.
#[track_caller]
pub fn load(text: &str, run: impl Into<Run>) -> Arc<Engine> {
    let mut sources = Sources::new();
    sources.add("actors.theta", text);
    let compiled = compile(&sources, &Options::default());
    let said = render_all(&sources, &compiled.diagnostics, Colour::Plain);
    let program = compiled.program.unwrap_or_else(|| panic!("{said}"));
    Engine::new(program, run).expect("a program that can run")
}

/// Runs `main`, in the order of a seed if there is one.
pub fn ran(engine: &Arc<Engine>, collect: Collect, seed: Option<u64>, arguments: &[&str]) -> (Ran, Stats) {
    let limits = Limits { collect, ..Limits::default() };
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    run_with(engine, limits, &arguments, |cx| {
        cx.actors().set_log(|_| {});
        if let Some(seed) = seed {
            cx.set_order(seed);
        }
    })
}

pub fn printed(engine: &Arc<Engine>, collect: Collect, seed: Option<u64>) -> String {
    ran(engine, collect, seed, &[]).0.output
}

/// Orders that each program is run in.
pub const SEEDS: u64 = 200;

/// The program prints this in both ways to run it, whenever the heap is collected, in every order.
#[track_caller]
pub fn prints(text: &str, expected: &str) {
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(text, mode);
        assert_eq!(printed(&engine, Collect::Ordinary, None), expected, "{mode:?}");
        assert_eq!(printed(&engine, Collect::Zeal(1), None), expected, "{mode:?}, collected all the time");
        for seed in 0..SEEDS {
            let collect = if seed % 8 == 0 { Collect::Zeal(3) } else { Collect::Ordinary };
            assert_eq!(printed(&engine, collect, Some(seed)), expected, "{mode:?}, seed {seed}");
        }
    }
}
