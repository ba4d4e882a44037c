//! A program of the benchmark as a process of ours.

use std::io::BufRead;

use bifrost_engine::{Engine, Mode};
use bifrost_native::Registry;
use bifrost_runtime::cx::Output;
use bifrost_runtime::{Collect, Limits};
use bifrost_server::nodes::{Nodes, nap};
use bifrost_server::program;
use bifrost_server::space::Space;
use bifrost_theta::{Options, Sources};

use super::super::process::{processor_ms, thread_ms};
use super::super::{Failed, say};
use super::cases::CASES;
use crate::run::Main;

/// Programs of the benchmark may use as much as they like, as far as the machine goes. The stack is that of `bifrost run`.
fn limits() -> Limits {
    Limits {
        transaction_objects: usize::MAX,
        heap_bytes: 8 << 30,
        batch_heap_bytes: 8 << 30,
        fuel: i64::MAX,
        collect: Collect::Ordinary,
        ..Limits::default()
    }
}

/// Runs `main` of a case for each number on the input, until it ends. If it is untimed, it does not look at the clock: what the system
/// gives programs for that is not there under valgrind.
pub fn serve(case: &str, nodes: u32, untimed: bool) -> Result<(), Failed> {
    let case = CASES.iter().find(|c| c.name == case).ok_or_else(|| format!("there is no case `{case}`"))?;
    let mut sources = Sources::new();
    sources.add(format!("{}.theta", case.name), case.theta);
    let program = program::compile_sources(sources, &Options::default())?;
    let engine = Engine::with_natives(program, Mode::Compiled, Registry::standard().natives().clone())?;
    let main = Main::find(&engine).ok_or("the program has no `main`")?;
    let space = Space::new(engine, limits())?;
    let nodes = Nodes::new(space, nodes, limits(), |cx| {
        cx.actors.set_log(|text| eprintln!("{text}"));
        cx.actors.set_nap(nap);
        cx.set_output(Output::Buffer(String::new()));
    })?;
    // The nodes go on from number to number, as those of a program that takes its time.
    nodes.run(|space| answer(space, &main, untimed))??;
    Ok(())
}

/// A line of the processor time of all threads, what `main` prints, and the processor time of this thread, for each line of the input.
fn answer(space: &Space, main: &Main, untimed: bool) -> Result<(), String> {
    for line in std::io::stdin().lock().lines() {
        let n = line.map_err(|e| e.to_string())?;
        let clocks = || if untimed { (0.0, 0.0) } else { (processor_ms(), thread_ms()) };
        let (start, here) = clocks();
        main.call(space, &[n])?;
        let (end, here_end) = clocks();
        let (took, here) = (end - start, here_end - here);
        let result = space.lock().take_output();
        say(&format!("{:.0} {} {:.0}", took * 1e6, result.trim(), here * 1e6)).map_err(|e| e.to_string())?;
    }
    Ok(())
}
