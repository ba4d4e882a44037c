//! Runs a routine of a `.bir` file as machine code and prints its result and the shortest time of some runs, as
//! processor time, so that other programs matter less:
//! `cargo run -p bifrost-jit --example measure -- FILE ROUTINE [INT]... [--asm] [--clif]`

use std::sync::Arc;

use bifrost_ir::Body;
use bifrost_ir::text::parse;
use bifrost_ir::verify::verify_program;
use bifrost_jit::{Emit, Jit};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Limits, invoke};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, plain): (Vec<String>, Vec<String>) = arguments.into_iter().partition(|a| a.starts_with("--"));
    let [file, name, numbers @ ..] = plain.as_slice() else {
        return Err("FILE and ROUTINE expected".into());
    };
    let program = parse(&std::fs::read_to_string(file)?)?.program;
    verify_program(&program).map_err(|e| e[0].clone())?;
    let jit = Arc::new(Jit::new()?);
    let image = bifrost_runtime::link(program, Some(jit.clone()))?;
    let routine = image.program().find_routine(name).ok_or("no such routine")?;
    for (flag, emit) in [("--clif", Emit::Clif), ("--asm", Emit::Assembly)] {
        if let (true, Body::Func(func)) =
            (flags.iter().any(|f| f == flag), image.program().routines[routine].body)
        {
            println!("{}", jit.text(&image, func, emit)?);
        }
    }
    let mut words: Vec<Word> = vec![0];
    for number in numbers {
        words.push(number.parse::<i64>()? as Word);
    }
    let mut cx = Cx::new(image.clone(), Limits { stack_bytes: 4 << 20, ..Limits::default() }, 1, || 0);
    let mut best = f64::INFINITY;
    let mut ret = None;
    for _ in 0..5 {
        cx.begin();
        let start = processor_seconds();
        // SAFETY: the context was made for this image; the routine is expected to take these numbers.
        ret = Some(unsafe { invoke::routine(&mut *cx, image.routine(routine), &mut words) });
        best = best.min(processor_seconds() - start);
        cx.leave();
    }
    println!("{name}{numbers:?} = {:?} in {:.3} ms", ret.map(|r| r.value as i64), best * 1e3);
    Ok(())
}

/// What this thread has used of the processor.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
