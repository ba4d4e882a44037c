//! Theta programs inside this process.

use std::sync::Arc;
use std::time::Instant;

use bifrost_capsule::space::Space;
use bifrost_engine::{Engine, Mode, Raised};
use bifrost_ir::{RoutineId, Types};
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Collect, Limits};
use bifrost_server::program;
use bifrost_theta::{Options, Sources};

use super::super::common::Failed;
use super::super::process::{Sample, processor_ms};
use super::cases::Case;

/// A Theta program that is ready to run, with the objects of its runs.
pub struct Theta {
    run: Routine,
    /// One for all runs: memory that was collected is used again, as other programs do.
    space: Arc<Space>,
    /// Milliseconds from the source to the first result, which compiles the code that runs.
    pub start_ms: f64,
}

/// Programs of the benchmark may use as much as they like, as far as the machine goes.
const LIMITS: Limits = Limits {
    transaction_objects: usize::MAX,
    heap_bytes: 8 << 30,
    batch_heap_bytes: 8 << 30,
    mailbox_bytes: usize::MAX,
    stack_bytes: 24 << 20,
    fuel: i64::MAX,
    collect: Collect::Ordinary,
};

impl Theta {
    /// Compiles the program and runs it once with the small n.
    ///
    /// # Errors
    /// The fault of the program.
    pub fn start(case: &Case) -> Result<Theta, Failed> {
        let start = Instant::now();
        let mut sources = Sources::new();
        sources.add(format!("{}.theta", case.name), case.theta);
        let engine = program::load_sources(sources, &Options::default(), Mode::Compiled)?;
        let space = Space::new(engine.clone(), LIMITS)?;
        let mut theta = Theta { run: Routine::find(&engine, "run", 1)?, space, start_ms: 0.0 };
        theta.sample(case.quick_n)?;
        theta.start_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(theta)
    }

    /// Runs the kernel once.
    ///
    /// # Errors
    /// The exception that it ended with.
    pub fn sample(&self, n: i64) -> Result<Sample, Failed> {
        let (ms, result) = self.space.on_stack(|| {
            let start = processor_ms();
            let result = self.run.call(&self.space, &[n]);
            (processor_ms() - start, result)
        })?;
        Ok(Sample { ms, result: result? })
    }
}

/// A routine of Theta that takes ints and returns one.
pub struct Routine {
    engine: Arc<Engine>,
    id: RoutineId,
}

impl Routine {
    /// Returns the routine of this name.
    ///
    /// # Errors
    /// When there is none that takes so many ints.
    pub fn find(engine: &Arc<Engine>, name: &str, arguments: usize) -> Result<Routine, String> {
        let id = engine.find_entry(name, arguments).ok_or(format!("there is no routine `{name}`"))?;
        let signature = &engine.program().routines[id].signature;
        let ints = signature.params.iter().all(|p| p.ty == Types::INT) && *signature.results == [Types::INT];
        match ints {
            true => Ok(Routine { engine: engine.clone(), id }),
            false => Err(format!("`{name}` is not about ints")),
        }
    }

    /// Calls the routine.
    ///
    /// # Errors
    /// The exception that it ended with.
    ///
    /// # Panics
    /// When the space is of another program.
    pub fn call(&self, space: &Space, arguments: &[i64]) -> Result<i64, Raised> {
        assert!(Arc::ptr_eq(space.engine(), &self.engine), "the space is of the same program");
        let words: Vec<Word> = arguments.iter().map(|n| *n as Word).collect();
        // SAFETY: the context runs the engine's image; `find` has seen that the routine takes ints.
        let result = unsafe { self.engine.call(&mut space.lock(), self.id, &words) };
        result.map(|word| word as i64)
    }
}
