//! Runs programs, interpreted or compiled; caches of methods and batches.
//!
//! An [`Engine`] is a program that is ready to run: verified and linked. It has a compiler for its
//! functions, each of which is compiled at its first call. It has an interpreter for the code that
//! clients send, of which the hot part is compiled too. Batches are kept by their content, so that
//! a control structure that any session has sent before is neither checked nor prepared again.
//!
//! One engine serves all sessions of a process. It holds no objects: those are in contexts
//! ([`Cx`]). Read [`Engine`] first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bifrost_interp::{BatchEnd, Interp, Prepared};
use bifrost_ir::verify::{ProgramError, VerifyError, verify_func, verify_program};
use bifrost_ir::{Body, Func, FuncId, Program, RoutineId, TypeId, tagged};
use bifrost_runtime::abi::{Outcome, VALUES_MAX, Word};
use bifrost_runtime::native::Natives;
use bifrost_runtime::{Cx, Image, LinkError, Ret, invoke, natives, object};
use parking_lot::Mutex;

pub use bifrost_interp::{HOT_STEPS, Nodes};
pub use bifrost_jit::Emit;

mod compiled;

/// The way in which the program's functions run. Batches start in the interpreter in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// As machine code, compiled at the first call.
    #[default]
    Compiled,
    /// In the interpreter: slow, and the oracle for the other.
    Interpreted,
}

impl Mode {
    /// The bytes of stack with which methods get as deep as machine code does with `machine_bytes`.
    ///
    /// A call of a small routine takes 30 to 250 bytes in machine code, and 900 in the interpreter,
    /// 3,300 when that is not optimised.
    pub fn stack_bytes(self, machine_bytes: usize) -> usize {
        match self {
            Mode::Compiled => machine_bytes,
            Mode::Interpreted => machine_bytes.saturating_mul(INTERPRETED_FRAMES),
        }
    }
}

/// Bytes of stack for each byte that machine code takes.
const INTERPRETED_FRAMES: usize = 16;

/// The reasons for which a program cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The program breaks the IR's rules: a mistake of the front end.
    #[error("the program is not well formed: {}", list(.0))]
    Verify(Vec<ProgramError>),
    /// The program cannot be linked.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// There is no code generator for this machine.
    #[error("machine code cannot be generated on this machine: {0}")]
    Compiler(String),
}

fn list(errors: &[ProgramError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The settings with which a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The way in which its methods run.
    pub mode: Mode,
    /// True if its objects may be kept in a repository: then code looks at their modes
    /// ([`bifrost_runtime::mode`]).
    pub kept: bool,
    /// The threshold at which structures of clients become machine code, if methods are: units of
    /// fuel for each of their statements, as [`HOT_STEPS`]. With 0 that is at their first run, with
    /// `u64::MAX` never. As many steps of a loop in a method of an actor that has waited are
    /// interpreted before it is machine code again.
    pub hot_steps: u64,
    /// The nodes that calls are in the interpreter. [`Nodes::General`] is for measurements.
    pub nodes: Nodes,
}

impl Run {
    /// With objects that may be kept in a repository.
    pub fn kept(mode: Mode) -> Run {
        Run { kept: true, ..Run::from(mode) }
    }
}

impl From<Mode> for Run {
    /// With objects that are nowhere else.
    fn from(mode: Mode) -> Run {
        Run { mode, kept: false, hot_steps: HOT_STEPS, nodes: Nodes::Special }
    }
}

/// A control structure or procedure that was checked and prepared.
#[derive(Debug)]
pub struct Batch {
    /// The nodes that run.
    pub prepared: Arc<Prepared>,
    /// The function it was prepared from, for callers that need its heading.
    pub func: Arc<Func>,
}

/// An exception that came out of a routine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}{values}")]
pub struct Raised {
    /// The exception's name.
    pub name: String,
    /// Its values in parentheses as `unparse` writes them; empty without values.
    pub values: String,
    /// The places of a failure, a line for each ([`bifrost_runtime::PlaceList::lines`]).
    pub places: Vec<String>,
}

impl Raised {
    /// Returns the exception, and the places of a failure on lines of their own.
    pub fn with_places(&self) -> String {
        self.places.iter().fold(self.to_string(), |text, line| format!("{text}\n{line}"))
    }
}

/// Most batches that are kept.
const BATCHES_MAX: usize = 4096;
/// Most words of their keys.
const BATCH_WORDS_MAX: usize = 4 << 20;

/// Batches by content. Old ones go first when there are too many.
#[derive(Default)]
struct Cache {
    // Keys are chosen by clients: the default hasher is keyed.
    by_content: HashMap<Arc<[Word]>, Arc<Batch>>,
    order: VecDeque<Arc<[Word]>>,
    words: usize,
    hits: u64,
    misses: u64,
    evicted: u64,
}

/// The counts of the structures that clients have sent, at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Structures {
    /// Structures that were found prepared.
    pub hits: u64,
    /// Structures that were not, and were checked and prepared.
    pub misses: u64,
    /// Prepared structures that were evicted, since there were too many.
    pub evicted: u64,
    /// Prepared structures that are kept.
    pub kept: u64,
    /// The bytes of their keys, which are their contents.
    pub key_bytes: u64,
    /// Structures, and loops of structures, of all programs of the process that have machine code.
    pub compiled: u64,
    /// Those that were compiled so far.
    pub compilations: u64,
    /// The bytes of their machine code.
    pub code_bytes: u64,
}

/// A program that is ready to run.
pub struct Engine {
    image: Arc<Image>,
    interp: Arc<Interp>,
    mode: Mode,
    /// True if the program has actors, so that there may be something to do when a routine has
    /// ended.
    actors: bool,
    batches: Mutex<Cache>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("image", &self.image).finish_non_exhaustive()
    }
}

impl Engine {
    /// Verifies and links a program.
    ///
    /// # Errors
    /// [`LoadError`]
    ///
    /// Cost: links tables that live as long as the process.
    pub fn new(program: Program, run: impl Into<Run>) -> Result<Arc<Engine>, LoadError> {
        Engine::with_natives(program, run, Natives::default())
    }

    /// Verifies and links a program that may use these natives.
    ///
    /// # Errors
    /// [`LoadError`]
    ///
    /// Cost: as [`Engine::new`].
    pub fn with_natives(
        mut program: Program,
        run: impl Into<Run>,
        natives: Natives,
    ) -> Result<Arc<Engine>, LoadError> {
        let Run { mode, kept, hot_steps, nodes } = run.into();
        let actors = program.has_actors();
        tagged::complete(&mut program);
        program.add_for_clients();
        verify_program(&program).map_err(LoadError::Verify)?;
        let compiler = match mode {
            Mode::Compiled => {
                bifrost_jit::replace_objects(&mut program);
                debug_assert!(verify_program(&program).is_ok(), "objects are taken apart as the rules want");
                Some(compiled::engine().map_err(LoadError::Compiler)?)
            }
            Mode::Interpreted => None,
        };
        let image = bifrost_runtime::link_with(program, compiler, natives, kept)?;
        let interp = Interp::with(image.clone(), hot_steps, nodes);
        Ok(Arc::new(Engine { image, interp, mode, actors, batches: Mutex::default() }))
    }

    /// The way in which methods run.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The linked program.
    #[inline]
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// The program.
    #[inline]
    pub fn program(&self) -> &Program {
        self.image.program()
    }

    /// The text of a function's code, for people.
    ///
    /// # Errors
    /// Returns the reason for which it is not compiled, for people.
    pub fn code_text(&self, func: FuncId, emit: Emit) -> Result<String, String> {
        compiled::jit()?.text(&self.image, func, emit)
    }

    /// The batch of this content, if it is kept. The content must determine the function
    /// completely.
    pub fn find_batch(&self, content: &[Word]) -> Option<Arc<Batch>> {
        let mut cache = self.batches.lock();
        let found = cache.by_content.get(content).cloned();
        match found.is_some() {
            true => cache.hits += 1,
            false => cache.misses += 1,
        }
        found
    }

    /// Returns the counts of the structures of clients.
    pub fn structures(&self) -> Structures {
        let counts = {
            let cache = self.batches.lock();
            let key_bytes = (cache.words * size_of::<Word>()) as u64;
            let kept = cache.order.len() as u64;
            let Cache { hits, misses, evicted, .. } = *cache;
            Structures { hits, misses, evicted, kept, key_bytes, ..Structures::default() }
        };
        match self.mode {
            Mode::Compiled => compiled::counts(counts),
            Mode::Interpreted => counts,
        }
    }

    /// Checks and prepares a batch, and keeps it under its content.
    ///
    /// # Errors
    /// Returns the errors that the verifier found.
    pub fn add_batch(
        &self,
        content: &[Word],
        func: Func,
        procedures: &[Arc<Prepared>],
    ) -> Result<Arc<Batch>, Vec<VerifyError>> {
        let batch = Arc::new(self.prepare(func, procedures)?);
        let mut cache = self.batches.lock();
        while cache.order.len() >= BATCHES_MAX || cache.words + content.len() > BATCH_WORDS_MAX {
            let Some(oldest) = cache.order.pop_front() else { break };
            cache.words -= oldest.len();
            cache.by_content.remove(&oldest);
            cache.evicted += 1;
        }
        let key: Arc<[Word]> = content.into();
        if cache.by_content.insert(key.clone(), batch.clone()).is_none() {
            cache.words += key.len();
            cache.order.push_back(key);
        }
        Ok(batch)
    }

    /// Checks and prepares a batch or procedure without keeping it.
    ///
    /// # Errors
    /// Returns the errors that the verifier found.
    pub fn prepare(&self, func: Func, procedures: &[Arc<Prepared>]) -> Result<Batch, Vec<VerifyError>> {
        verify_func(self.program(), &func)?;
        let func = Arc::new(func);
        let prepared = Arc::new(self.interp.prepare(func.clone(), procedures));
        Ok(Batch { prepared, func })
    }

    /// Runs a batch between [`Cx::begin`] and [`Cx::leave`]. The caller keeps the objects among the
    /// arguments.
    ///
    /// # Safety
    /// `cx` runs this engine's image, and `args` are words of the types of the batch's parameters.
    pub unsafe fn run(&self, cx: &mut Cx, batch: &Batch, args: &[Word]) -> BatchEnd {
        // SAFETY: promised by the caller.
        unsafe { self.interp.run(cx, &batch.prepared, args) }
    }

    /// Calls a routine from Rust, as `main` and `setup` are. A result that is an object is the
    /// caller's to keep.
    ///
    /// # Errors
    /// The exception that it ended with; `killed` if it was ended from outside.
    ///
    /// # Safety
    /// `cx` runs this engine's image, and `args` are words of the types of the routine's arguments.
    pub unsafe fn call(&self, cx: &mut Cx, routine: RoutineId, args: &[Word]) -> Result<Word, Raised> {
        let mut words = vec![0];
        words.extend_from_slice(args);
        cx.begin();
        // SAFETY: promised by the caller.
        let ret = unsafe {
            let desc = self.image.routine(routine);
            match self.actors {
                true => bifrost_actors::call_main(cx, desc, &mut words),
                false => invoke::routine(cx, desc, &mut words),
            }
        };
        let result = self.result(cx, routine, ret);
        cx.leave();
        result
    }

    /// Calls a routine from Rust that does not wait for actors, which nobody runs meanwhile.
    ///
    /// # Errors
    /// As for [`Engine::call`].
    ///
    /// # Safety
    /// As for [`Engine::call`], and the routine does not request.
    pub unsafe fn call_passive(
        &self,
        cx: &mut Cx,
        routine: RoutineId,
        args: &[Word],
    ) -> Result<Word, Raised> {
        let mut words = vec![0];
        words.extend_from_slice(args);
        cx.begin();
        // SAFETY: promised by the caller.
        let ret = unsafe { invoke::routine(cx, self.image.routine(routine), &mut words) };
        let result = self.result(cx, routine, ret);
        cx.leave();
        result
    }

    fn result(&self, cx: &mut Cx, routine: RoutineId, ret: Ret) -> Result<Word, Raised> {
        match ret.outcome() {
            Outcome::Returned => Ok(ret.value),
            Outcome::Signalled => {
                let signature = &self.program().routines[routine].signature;
                let id = cx.signalled();
                // Before other code runs, which may fail as well.
                let places = cx.places().lines(self.program());
                let types: Vec<TypeId> = match signature.signal(id) {
                    Some(signal) => signal.values.clone(),
                    None => vec![bifrost_ir::Types::STRING],
                };
                let words: [Word; VALUES_MAX] = cx.signal_values;
                let objects = types.iter().zip(words).filter(|(ty, _)| self.image.is_reference(**ty));
                let objects: Vec<Word> = objects.map(|(_, word)| word).collect();
                let _kept = cx.keep_all(&objects);
                let values: Vec<String> =
                    types.iter().zip(words).map(|(ty, word)| self.unparse(cx, *ty, word)).collect();
                let values =
                    if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
                Err(Raised { name: self.program().types.signal_name(id).to_owned(), values, places })
            }
            Outcome::Pending | Outcome::Left | Outcome::Killed => Err(Raised {
                name: "killed".to_owned(),
                values: format!("({:?})", cx.killed()),
                places: vec![],
            }),
        }
    }

    /// The text of a value as a container would show it; objects that cannot be printed as their
    /// type's name.
    pub fn unparse(&self, cx: &mut Cx, ty: TypeId, word: Word) -> String {
        let types = &self.program().types;
        let printable = types.kind(ty).is_basic() || types.find_method(ty, "unparse").is_some();
        match printable.then(|| natives::unparse(cx, ty, word)) {
            Some(Ok(text)) => text,
            _ => format!("<{}>", types.name(ty)),
        }
    }

    /// The routine of that name that is Theta code and takes nothing, or as many arguments as said.
    pub fn find_entry(&self, name: &str, arguments: usize) -> Option<RoutineId> {
        let id = self.program().find_routine(name)?;
        let routine = &self.program().routines[id];
        let fits = matches!(routine.body, Body::Func(_)) && routine.signature.params.len() == arguments;
        fits.then_some(id)
    }

    /// A `sequence[string]` for `main`, which is the caller's to keep.
    ///
    /// # Errors
    /// [`bifrost_heap::HeapFull`]
    pub fn arguments(&self, cx: &mut Cx, arguments: &[String]) -> Result<Word, bifrost_heap::HeapFull> {
        let ty = bifrost_ir::TypeKind::Sequence(bifrost_ir::Types::STRING);
        let ty = self.program().types.find_instance(ty).expect("`main` names the type");
        let mut words = Vec::new();
        let mut kept = Vec::new();
        for argument in arguments {
            let word = cx.new_string(argument)?;
            kept.push(cx.keep(word));
            words.push(word);
        }
        cx.new_sequence(self.image.table_of(ty), &[&words])
    }

    /// The text of a string.
    ///
    /// # Safety
    /// `word` is a reference to a string.
    pub unsafe fn text<'a>(word: Word) -> &'a str {
        // SAFETY: promised by the caller.
        unsafe { object::text(word) }
    }
}
