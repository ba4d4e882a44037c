//! Compiles structures of clients that ran often enough to machine code.
//!
//! A structure counts the units of fuel that it took in the interpreter, over all its runs in all
//! sessions. When that is worth the compiler's time, its next run is compiled code, and that of a
//! procedure is entered at its next call. So a long traversal, which is one run of a procedure that
//! calls itself, need not come to its end first.
//!
//! The compiler's time for a structure follows from its statements, and so does the threshold: it
//! is about the time that the compiler takes, some tens of microseconds for a statement. So a
//! client cannot make a server compile much without running, and its running is limited.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bifrost_ir::{Block, Func, Part};
use bifrost_runtime::image::Image;
use bifrost_runtime::{Code, StructureCode};

use crate::node::Prepared;
use crate::prepare::asks;

/// Units of fuel for each statement that a structure takes in the interpreter before it is
/// compiled.
pub const HOT_STEPS: u64 = 1_000;

/// Statements that every structure is taken to have besides its own.
const STATEMENTS_MORE: u64 = 10;

/// The facts by which the interpreter hands a structure to the compiler.
#[derive(Debug)]
pub(crate) struct Structure {
    func: Arc<Func>,
    /// Those that it may call.
    procedures: Box<[Arc<Prepared>]>,
    /// Units of fuel taken so far.
    steps: AtomicU64,
    /// The number of units from which on it is compiled.
    hot_at: u64,
    /// Its code, or that it has none.
    code: OnceLock<Option<StructureCode>>,
}

impl Structure {
    /// A structure that has not run. `hot_steps` are as [`HOT_STEPS`]; with 0 it is compiled at its
    /// first run.
    pub fn new(func: Arc<Func>, procedures: &[Arc<Prepared>], hot_steps: u64) -> Structure {
        let hot_at = hot_steps.saturating_mul(STATEMENTS_MORE + statements(&func.body));
        let (steps, code) = (AtomicU64::new(0), OnceLock::new());
        Structure { func, procedures: procedures.into(), steps, hot_at, code }
    }

    /// The code, if there is some; makes it if it is time.
    #[inline]
    pub fn code(&self, image: &Image) -> Option<Code> {
        match self.code.get() {
            Some(code) => code.as_ref().map(StructureCode::code),
            None if self.steps.load(Ordering::Relaxed) < self.hot_at => None,
            None => self.compile(image),
        }
    }

    /// Counts units of fuel that the interpreter took.
    #[inline]
    pub fn ran(&self, steps: i64) {
        self.steps.fetch_add(steps.max(0).unsigned_abs(), Ordering::Relaxed);
    }

    #[cold]
    fn compile(&self, image: &Image) -> Option<Code> {
        let code = self.code.get_or_init(|| {
            // It waits for actors, which machine code cannot.
            if asks(&self.func) {
                return None;
            }
            let engine = image.engine()?;
            let procedures = self.procedures.iter().map(|p| p.structure.as_ref()?.compile(image));
            engine.compile_structure(image, &self.func, &procedures.collect::<Option<Vec<_>>>()?)
        });
        code.as_ref().map(StructureCode::code)
    }
}

/// The number of statements.
fn statements(block: &Block) -> u64 {
    let mut count = 0;
    for stmt in &block.0 {
        count += 1;
        stmt.parts(&mut |part| {
            if let Part::Block(block) = part {
                count += statements(block);
            }
        });
    }
    count
}
