//! A program of the benchmark as a process of ours.

use std::io::BufRead;

use bifrost_capsule::capsules::Terms;
use bifrost_capsule::nodes::Nodes;
use bifrost_capsule::space::Space;
use bifrost_engine::Engine;
use bifrost_native::Registry;
use bifrost_runtime::Cx;
use bifrost_runtime::cx::Output;
use bifrost_server::program;

use super::super::common::{Failed, say};
use super::super::process::{processor_ms, thread_ms};
use super::super::savina;
use super::super::sizes;
use super::cases::CASES;
use crate::common::arguments::ProgramArgs;
use crate::common::capsules::{self, Started};
use crate::common::main_routine::Main;

/// Programs of the benchmark may use as much as they like, as far as the machine goes.
const HEAP_BYTES: usize = 8 << 30;

/// Runs `main` of a case, of `bench sizes` and `bench savina` too, for each line of the input,
/// until that ends; the words of the line are its arguments. It runs on so many nodes, or in so
/// many capsules if the case has them. If it is untimed, it does not look at the clock: the
/// system's means for that are not there under valgrind.
pub fn serve(case: &str, count: u32, untimed: bool) -> Result<(), Failed> {
    let ours = CASES.iter().find(|c| c.name == case).map(|case| (case.theta, case.capsules));
    let others = || sizes::program(case).or_else(|| Some((savina::program(case)?, false)));
    let (theta, capsules) = ours.or_else(others).ok_or_else(|| format!("there is no case `{case}`"))?;
    // Other capsules read it, too.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(format!("{case}.theta"));
    std::fs::write(&file, theta)?;
    let (shared, text) = savina::SHARED;
    std::fs::write(folder.path().join(shared), text)?;
    let args = ProgramArgs {
        interpret: false,
        root: None,
        allow_files: Vec::new(),
        allow_http: Vec::new(),
        heap_bytes_max: Some(HEAP_BYTES),
        mailbox_bytes_max: Some(HEAP_BYTES),
        stack_bytes: None,
        tasks: None,
    };
    let mut started = capsules.then(|| Started::new(count - 1, &file, &args)).transpose()?;
    let registry = args.registry(&Registry::standard())?;
    let program = program::compile_files(&[file], None, &registry)?;
    let terms = Terms::new(&program, "");
    let engine = Engine::with_natives(program, args.mode(), registry.natives().clone())?;
    let main = Main::find(&engine).ok_or("the program has no `main`")?;
    let space = Space::new(engine, args.limits())?;
    let ready = |cx: &mut Cx| {
        capsules::ready(cx, false);
        cx.set_output(Output::Buffer(String::new()));
    };
    let nodes = match &mut started {
        Some(started) => Nodes::joined(space, started.join(1, false, &terms)?, args.limits(), |_| {}, ready)?,
        None => Nodes::new(space, count, args.limits(), ready)?,
    };
    // The nodes go on from number to number, as those of a program that takes its time.
    nodes.run(|space| answer(space, &main, untimed))??;
    let reports = nodes.stop_others();
    if let Some(started) = started {
        started.end(&reports);
    }
    Ok(())
}

/// Runs `main` for each line of the input. Answers with a line of the processor time of all
/// threads, the first number that `main` prints, and the processor time of this thread.
fn answer(space: &Space, main: &Main, untimed: bool) -> Result<(), String> {
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let clocks = || if untimed { (0.0, 0.0) } else { (processor_ms(), thread_ms()) };
        let (start, here) = clocks();
        main.call(space, &words)?;
        let (end, here_end) = clocks();
        let (took, here) = (end - start, here_end - here);
        let printed = space.lock().take_output();
        let result = printed.split_whitespace().find(|word| word.parse::<i64>().is_ok());
        let result = result.ok_or_else(|| format!("no number in `{}`", printed.trim()))?;
        say(&format!("{:.0} {result} {:.0}", took * 1e6, here * 1e6)).map_err(|e| e.to_string())?;
    }
    Ok(())
}
