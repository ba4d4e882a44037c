//! T1 without concurrency control: in an engine whose objects cannot be kept, so that its code does
//! not look at their modes, and without cache, session and transaction. It runs in the process of
//! the server that it is compared with, on the same core.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bifrost_engine::{Engine, Mode, Raised};
use bifrost_ir::RoutineId;
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Cx, Limits, Root};
use bifrost_server::{Space, program};
use bifrost_theta::Options;

use super::super::common::Failed;
use super::{HEAP_BYTES_MAX, sources};

/// A database of its own and the operations on it.
pub struct Plain {
    space: Arc<Space>,
    operation: RoutineId,
    oo7: Root,
    t1: Root,
}

impl Plain {
    /// Generates a database.
    ///
    /// # Errors
    /// The program cannot run.
    pub fn start(size: &str, seed: i64) -> Result<Plain, Failed> {
        let engine = program::load_sources(sources(), &Options::default(), Mode::Compiled)?;
        let limits = Limits {
            heap_bytes: HEAP_BYTES_MAX,
            batch_heap_bytes: HEAP_BYTES_MAX,
            fuel: i64::MAX,
            ..Limits::default()
        };
        let entry = |name: &str, arguments| {
            engine.find_entry(name, arguments).ok_or_else(|| format!("the program has no routine `{name}`"))
        };
        let (generated, new_oo7) = (entry("generated", 2)?, entry("new_oo7", 1)?);
        let operation = entry("operation", 2)?;
        let space = Space::new(engine.clone(), limits)?;
        let (oo7, t1) = space.on_stack(|| {
            let mut cx = space.lock();
            let size = string(&mut cx, size)?;
            let t1 = string(&mut cx, "T1")?;
            // SAFETY: the context runs this engine's image, and the routines take a string and an
            // int, and a database.
            let oo7 = unsafe {
                let database = call(&engine, &mut cx, generated, &[size.word(), seed as Word])?;
                call(&engine, &mut cx, new_oo7, &[database.word()])?
            };
            Ok::<_, String>((oo7, t1))
        })??;
        Ok(Plain { space, operation, oo7, t1 })
    }

    /// Runs T1; returns its result and its time.
    ///
    /// # Errors
    /// The exception that it ended with.
    pub fn t1(&self) -> Result<(i64, Duration), Failed> {
        let ran = self.space.on_stack(|| {
            let mut cx = self.space.lock();
            let start = Instant::now();
            // SAFETY: the context runs this engine's image, and the routine takes the operations
            // and a string.
            let text = unsafe {
                let arguments = [self.oo7.word(), self.t1.word()];
                call(self.space.engine(), &mut cx, self.operation, &arguments)?
            };
            let took = start.elapsed();
            // SAFETY: `operation` returns a string.
            let result = unsafe { Engine::text(text.word()) };
            Ok::<_, String>((result.parse(), took))
        })?;
        let (result, took) = ran?;
        Ok((result?, took))
    }
}

fn string(cx: &mut Cx, text: &str) -> Result<Root, String> {
    let word = cx.new_string(text).map_err(|full| full.to_string())?;
    Ok(cx.root(word))
}

/// Calls a routine that returns an object.
///
/// # Safety
/// As [`Engine::call`].
unsafe fn call(engine: &Engine, cx: &mut Cx, routine: RoutineId, args: &[Word]) -> Result<Root, String> {
    // SAFETY: promised by the caller.
    let result = unsafe { engine.call(cx, routine, args) };
    let word = result.map_err(|raised: Raised| raised.to_string())?;
    Ok(cx.root(word))
}
