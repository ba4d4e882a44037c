//! Compiles structures of clients that ran often enough to machine code.
//!
//! A structure counts the units of fuel that it took in the interpreter, over all its runs in all
//! sessions. When that is worth the compiler's time, its next run is compiled code, and that of a
//! procedure is entered at its next call. A loop that is under way goes on as code of its own at
//! the end of its round ([`loops`](crate::loops)). So a long traversal or loop, which is one run,
//! need not come to its end first.
//!
//! The compiler's time for a structure follows from its statements, and so does the threshold: it
//! is about the time that the compiler takes, some tens of microseconds for a statement. So a
//! client cannot make a server compile much without running, and its running is limited.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bifrost_ir::loops::loops;
use bifrost_ir::{Block, Callee, Func, Part, Stmt};
use bifrost_runtime::image::Image;
use bifrost_runtime::{Code, Extent, StructureCode};

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
    /// Its loops, by number.
    loops: Box<[Loop]>,
}

/// A loop of a structure.
#[derive(Debug)]
struct Loop {
    /// The number of loops around it.
    around: usize,
    /// The code with which it goes on, or that it has none.
    code: OnceLock<Option<StructureCode>>,
}

/// The account of a structure that runs in the interpreter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    /// The fuel up to which its units were counted.
    counted: i64,
    /// The fuel at which a loop of it goes on as code.
    pub hot: i64,
}

impl Meter {
    /// That of code that is no structure.
    pub const NONE: Meter = Meter { counted: 0, hot: i64::MIN };
}

impl Structure {
    /// A structure that has not run. `hot_steps` are as [`HOT_STEPS`]; with 0 it is compiled at its
    /// first run.
    pub fn new(func: Arc<Func>, procedures: &[Arc<Prepared>], hot_steps: u64) -> Structure {
        let hot_at = hot_steps.saturating_mul(STATEMENTS_MORE + statements(&func.body));
        let (steps, code) = (AtomicU64::new(0), OnceLock::new());
        let of = |l: bifrost_ir::loops::Loop<'_>| Loop { around: l.around, code: OnceLock::new() };
        let loops = loops(&func.body).into_iter().map(of).collect();
        Structure { func, procedures: procedures.into(), steps, hot_at, code, loops }
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

    /// The code of a loop that was compiled before.
    #[inline]
    pub fn loop_code(&self, number: u32) -> Option<Code> {
        self.loops[number as usize].code.get()?.as_ref().map(StructureCode::code)
    }

    /// The number of loops around a loop.
    pub fn loops_around(&self, number: u32) -> usize {
        self.loops[number as usize].around
    }

    /// Begins the account of a run with so much fuel.
    #[inline]
    pub fn meter(&self, fuel: i64) -> Meter {
        let left = self.hot_at.saturating_sub(self.steps.load(Ordering::Relaxed));
        Meter { counted: fuel, hot: fuel.saturating_sub_unsigned(left) }
    }

    /// Counts the units of fuel that the interpreter took. The next loop is compiled when it has
    /// taken as many again as made the structure hot: each time of the compiler is paid for.
    #[inline]
    pub fn count(&self, meter: &mut Meter, fuel: i64) {
        let steps = (meter.counted - fuel).max(0).unsigned_abs();
        self.steps.fetch_add(steps, Ordering::Relaxed);
        *meter = Meter { counted: fuel, hot: fuel.saturating_sub_unsigned(self.hot_at) };
    }

    /// The code with which a loop goes on that is under way; makes it if it is time.
    pub fn compile_loop(&self, image: &Image, number: u32) -> Option<Code> {
        if self.steps.load(Ordering::Relaxed) < self.hot_at {
            return None;
        }
        let code = self.loops[number as usize].code.get_or_init(|| {
            let is_itself = |stmt: &Stmt| matches!(stmt, Stmt::Call { callee: Callee::Itself, .. });
            let itself = match self.func.body.contains(&is_itself) {
                true => Some(self.compile(image)?),
                false => None,
            };
            self.make(image, Extent::Loop { number, itself })
        });
        code.as_ref().map(StructureCode::code)
    }

    #[cold]
    fn compile(&self, image: &Image) -> Option<Code> {
        let code = self.code.get_or_init(|| self.make(image, Extent::Whole));
        code.as_ref().map(StructureCode::code)
    }

    fn make(&self, image: &Image, extent: Extent) -> Option<StructureCode> {
        // It waits for actors, which machine code cannot.
        if asks(&self.func) {
            return None;
        }
        let engine = image.engine()?;
        let procedures = self.procedures.iter().map(|p| p.structure.as_ref()?.compile(image));
        engine.compile_structure(image, &self.func, extent, &procedures.collect::<Option<Vec<_>>>()?)
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
