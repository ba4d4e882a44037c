//! Programs compiled to machine code.
//!
//! A [`Jit`] turns verified functions of an [`Image`] into code of the calling convention
//! ([`bifrost_runtime::abi`]). It also makes the stubs through which methods and routines are
//! entered before they have code. This is the only crate that names the code generator, Cranelift.
//!
//! Code has addresses of the image inside (tables, descriptors, natives), and both stay for good:
//! the memory of methods' code is never freed. It lies in one arena of [`ARENA_BYTES`], of which
//! memory is taken as functions are compiled. Structures that clients send are compiled as methods
//! are, and metered and traced besides; their memory is a part of its own and is freed
//! ([`structures`]).
//!
//! It does no checking: only verified functions may be compiled. A function that is too large, or
//! that the code generator refuses, gets an entry to the interpreter ([`Image::interpreter`])
//! instead of code.
//!
//! Read [`lower`] for how a function is translated.

mod actors;
mod analysis;
mod effects;
mod entries;
mod exit;
mod helper;
mod lower;
mod maps;
mod memory;
mod order;
mod private;
mod safepoint;
mod scalars;
mod structures;
mod target;

use std::collections::HashMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use bifrost_heap::TABLE_OFFSET;
use bifrost_ir::ways::ways_in;
use bifrost_ir::{Func, FuncId, Program, Stmt};
use bifrost_runtime::actor_class::ActorClass;
use bifrost_runtime::image::{Image, Table, arity};
use bifrost_runtime::{Code, Extent, Form, MethodEntry, StructureCode};
use cranelift_codegen::CodegenError;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, UserFuncName, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId as ModuleFunc, Module, ModuleReloc};

pub use scalars::replace as replace_objects;

use entries::Template;
use helper::{Entries, Helper};
use lower::{Entry, Source};
use maps::{Calls, Maps};
use memory::{Memory, Pool};
use safepoint::Roots;

/// The address space that all code of a [`Jit`] lies in but that of structures, so that near calls
/// reach.
pub const ARENA_BYTES: usize = 256 << 20;

/// The most code of structures that there is at a time; further ones are interpreted.
pub const STRUCTURE_BYTES_MAX: usize = 32 << 20;

/// The code generator cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum JitError {
    #[error("this machine cannot be compiled for: {0}")]
    Machine(String),
    #[error("no address space for code: {0}")]
    Memory(String),
}

/// The reasons for which a function has no code of its own.
#[derive(Debug, thiserror::Error)]
enum CompileError {
    #[error(transparent)]
    Not(#[from] analysis::NotCompiled),
    #[error("the code generator refused the function: {0}")]
    Refused(String),
    #[error("the code generator cannot compile its input: {0}")]
    Malformed(String),
    #[error("no memory for code: {0}")]
    Memory(String),
}

/// The kinds of text that [`Jit::text`] gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// The code generator's intermediate form, before it is optimised.
    Clif,
    /// The machine's instructions.
    Assembly,
}

/// A compiler with the code that it made. One can serve many images.
pub struct Jit {
    isa: OwnedTargetIsa,
    helpers: Entries,
    /// The places of the entries of helpers in the memory that is written, by helper.
    helper_places: [usize; Helper::ALL.len()],
    state: Mutex<State>,
    /// Has a lock of its own: a collection asks while nothing is compiled, but other threads may
    /// compile.
    maps: Arc<Mutex<Maps>>,
    /// The memory for code of structures.
    structures: Option<Arc<Pool>>,
    /// Structures that have code now, and those that were compiled so far.
    structures_live: Arc<AtomicUsize>,
    structures_made: AtomicU64,
}

struct State {
    module: JITModule,
    /// Bytes of the arena that are taken, at most.
    used_bytes: usize,
    /// The distance from the address at which code is written to that at which it is run.
    run_at: usize,
    /// Functions begin at multiples of it.
    granule: usize,
    method_stubs: HashMap<(u32, usize), Code>,
    routine_stubs: HashMap<usize, Code>,
    /// By slot, arity, references and whether for a change.
    mode_stubs: HashMap<(u32, usize, u32, bool), Code>,
    /// By slot, arity, references and form.
    message_stubs: HashMap<(u32, usize, u32, Form), Code>,
    /// By code, arity and references.
    native_entries: HashMap<(usize, usize, u32), Code>,
    /// By arity, and the references that are recorded, if any are.
    templates: HashMap<(usize, Option<u32>), Arc<Template>>,
}

impl std::fmt::Debug for Jit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jit({})", self.isa.triple())
    }
}

/// One finished function of the code generator.
struct Compiled {
    name: ModuleFunc,
    alignment: u64,
    bytes: Vec<u8>,
    relocations: Vec<ModuleReloc>,
    calls: Calls,
}

impl Jit {
    /// A compiler for this machine.
    ///
    /// # Errors
    /// [`JitError`]
    pub fn new() -> Result<Jit, JitError> {
        Jit::with_structure_bytes(STRUCTURE_BYTES_MAX)
    }

    /// The same with a limit of its own in place of [`STRUCTURE_BYTES_MAX`].
    ///
    /// # Errors
    /// [`JitError`]
    pub fn with_structure_bytes(structure_bytes: usize) -> Result<Jit, JitError> {
        let mut flags = settings::builder();
        for (name, value) in [
            ("opt_level", "speed"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("unwind_info", "false"),
            // Collections walk frames.
            ("preserve_frame_pointers", "true"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ] {
            flags.set(name, value).map_err(|e| JitError::Machine(format!("{name}: {e}")))?;
        }
        let isa = || -> Result<OwnedTargetIsa, JitError> {
            let builder = cranelift_native::builder().map_err(|e| JitError::Machine(e.to_owned()))?;
            builder.finish(settings::Flags::new(flags.clone())).map_err(|e| JitError::Machine(e.to_string()))
        };
        let mut builder = JITBuilder::with_isa(isa()?, cranelift_module::default_libcall_names());
        let memory = Memory::new(ARENA_BYTES, structure_bytes).map_err(JitError::Memory)?;
        let Memory { provider, run_at, granule, structures } = memory;
        builder.memory_provider(provider);
        let module = JITModule::new(builder);
        let state = State {
            module,
            used_bytes: 0,
            run_at,
            granule,
            method_stubs: HashMap::new(),
            routine_stubs: HashMap::new(),
            mode_stubs: HashMap::new(),
            message_stubs: HashMap::new(),
            native_entries: HashMap::new(),
            templates: HashMap::new(),
        };
        let mut jit = Jit {
            isa: isa()?,
            helpers: [0; Helper::ALL.len()],
            helper_places: [0; Helper::ALL.len()],
            state: Mutex::new(state),
            maps: Arc::default(),
            structures,
            structures_live: Arc::default(),
            structures_made: AtomicU64::new(0),
        };
        for (helper, words) in Helper::ALL {
            let (name, code) =
                jit.helper_entry(helper, words).map_err(|e| JitError::Memory(e.to_string()))?;
            jit.helpers[helper as usize] = name;
            jit.helper_places[helper as usize] = (code.0 as usize).wrapping_sub(run_at);
        }
        Ok(jit)
    }

    /// The code of a function, or an entry to the interpreter if it cannot be compiled.
    pub fn compile(&self, image: &Image, func: FuncId) -> Code {
        let source = &image.program().funcs[func];
        self.try_compile(image, func, None, None)
            .or_else(|_| {
                self.interpreter_entry(func, arity(&source.signature), references(image.program(), source))
            })
            .unwrap_or(Code(helper::no_code as *const u8))
    }

    /// True if a function gets code of its own; otherwise why not.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn check(&self, image: &Image, func: FuncId) -> Result<(), String> {
        self.translate(image, func, None, None, vec![]).map(|_| ()).map_err(|e| e.to_string())
    }

    /// The text of a function's code, for people.
    ///
    /// # Errors
    /// Returns the reason for which it is not compiled, for people.
    pub fn text(&self, image: &Image, func: FuncId, emit: Emit) -> Result<String, String> {
        let functions = self.translate(image, func, None, None, vec![]).map_err(|e| e.to_string())?;
        let mut text = String::new();
        for (_, function) in functions.into_iter().rev() {
            match emit {
                Emit::Clif => text.push_str(&function.display().to_string()),
                Emit::Assembly => {
                    let mut context = cranelift_codegen::Context::for_function(function);
                    context.set_disasm(true);
                    let code = context
                        .compile(&*self.isa, &mut Default::default())
                        .map_err(|e| format!("{:?}", e.inner))?;
                    text.push_str(code.vcode.as_deref().unwrap_or_default());
                }
            }
            text.push('\n');
        }
        Ok(text)
    }

    /// An entry of so many words that gets a method's code and goes on into it.
    pub fn method_stub(&self, slot: u32, arity: usize) -> Code {
        let known = self.lock().method_stubs.get(&(slot, arity)).copied();
        known.unwrap_or_else(|| {
            let code = self.stub(arity, Helper::MethodCode, Some(slot));
            self.lock().method_stubs.insert((slot, arity), code);
            code
        })
    }

    /// An entry of so many words that gets a routine's code and goes on into it.
    pub fn routine_stub(&self, arity: usize) -> Code {
        let known = self.lock().routine_stubs.get(&arity).copied();
        known.unwrap_or_else(|| {
            let code = self.stub(arity, Helper::RoutineCode, None);
            self.lock().routine_stubs.insert(arity, code);
            code
        })
    }

    /// An entry of so many words that has the receiver opened and goes on into the code that its
    /// table has at the slot then. `references` is as for [`Jit::native_entry`].
    pub fn mode_stub(&self, slot: u32, arity: usize, references: u32, changes: bool) -> Code {
        let key = (slot, arity, references, changes);
        let known = self.lock().mode_stubs.get(&key).copied();
        known.unwrap_or_else(|| {
            let helper = if changes { Helper::OpenToChange } else { Helper::Open };
            let code = self.small(self.signature(arity), |b, words| {
                exit::record(b, words[0], &pick(&words[1..], references));
                let signature = b.import_signature(self.signature(1));
                let address = b.ins().iconst(types::I64, helper.address() as i64);
                let call = b.ins().call_indirect(signature, address, &words[..2]);
                let [outcome, value] = *b.inst_results(call) else { unreachable!("calls have two results") };
                let (opened, ended) = (b.create_block(), b.create_block());
                b.ins().brif(outcome, ended, &[], opened, &[]);
                b.switch_to_block(ended);
                b.ins().return_(&[outcome, value]);
                b.switch_to_block(opened);
                let table = b.ins().load(types::I64, MemFlagsData::trusted(), words[1], TABLE_OFFSET);
                let entry = Table::entry_offset(slot);
                let code = b.ins().load(types::I64, MemFlagsData::trusted(), table, entry);
                let signature = b.import_signature(self.signature(arity));
                let call = b.ins().call_indirect(signature, code, words);
                let results = b.inst_results(call).to_vec();
                b.ins().return_(&results);
            });
            let code = code.map_or(Code(helper::no_code as *const u8), |(_, code)| code);
            self.lock().mode_stubs.insert(key, code);
            code
        })
    }

    /// An entry of so many words to a native function that may collect. `references` has a bit for
    /// each word that is a reference, the lowest for the first behind the context.
    pub fn native_entry(&self, native: Code, arity: usize, references: u32) -> Code {
        let key = (native.0 as usize, arity, references);
        let known = self.lock().native_entries.get(&key).copied();
        known.unwrap_or_else(|| {
            let code = self.entry_to(native.0, arity, Some(references));
            let code = code.map_or(Code(helper::no_code as *const u8), |(_, code)| code);
            self.lock().native_entries.insert(key, code);
            code
        })
    }

    /// The places of references, or zeros, in the frame of code that made a call: adds byte offsets
    /// from its stack pointer at the call. False if the address that the call returns to is no code
    /// of ours.
    pub fn stack_map(&self, return_address: usize, offsets: &mut Vec<u32>) -> bool {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let found = maps.find(return_address);
        offsets.extend_from_slice(found.unwrap_or_default());
        found.is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_compile(
        &self,
        image: &Image,
        id: FuncId,
        again: Option<u32>,
        entry: Option<Entry>,
    ) -> Result<Code, CompileError> {
        let func = &image.program().funcs[id];
        let analysis = analysis::analyse(image, func, Some(id), None)?;
        let again = again.map(|number| ways_in(image.program(), &func.body)[number as usize].stmt);
        let arity = again.map_or(arity(&func.signature), |_| 2);
        let names = self.declare(1 + analysis.closures, arity)?;
        // Nothing shared is under way when the code generator panics.
        let compiled = guarded(AssertUnwindSafe(|| {
            let functions = self.translate(image, id, again, entry, names)?;
            functions.into_iter().map(|(name, f)| self.generate(name, f)).collect::<Result<Vec<_>, _>>()
        }))?;
        self.define(compiled)
    }

    fn translate(
        &self,
        image: &Image,
        id: FuncId,
        again: Option<&Stmt>,
        entry: Option<Entry>,
        mut names: Vec<u32>,
    ) -> Result<Vec<(u32, ir::Function)>, CompileError> {
        let source = Source { again, entry, ..Source::new(image, &image.program().funcs[id], Some(id)) };
        let analysis = analysis::analyse(image, source.func, source.id, None)?;
        if names.is_empty() {
            // Only to look at: any names that no entry has.
            names = (0..=analysis.closures as u32).map(|n| n + (1 << 24)).collect();
        }
        Ok(lower::lower(source, analysis, self.isa.frontend_config(), &self.helpers, names))
    }

    /// Names for functions that belong together.
    fn declare(&self, count: usize, arity: usize) -> Result<Vec<u32>, CompileError> {
        let mut state = self.lock();
        let signature = lower::signature(arity, self.isa.default_call_conv());
        (0..count)
            .map(|_| {
                let name = state.module.declare_anonymous_function(&signature);
                name.map(|name| name.as_u32()).map_err(|e| CompileError::Memory(e.to_string()))
            })
            .collect()
    }

    fn generate(&self, name: u32, function: ir::Function) -> Result<Compiled, CompileError> {
        let name = ModuleFunc::from_u32(name);
        let mut context = cranelift_codegen::Context::for_function(function);
        let code = context.compile(&*self.isa, &mut Default::default()).map_err(|e| {
            let malformed = matches!(e.inner, CodegenError::Verifier(_));
            let text = cranelift_codegen::print_errors::pretty_error(e.func, e.inner);
            if malformed { CompileError::Malformed(text) } else { CompileError::Refused(text) }
        })?;
        let (alignment, bytes) = (u64::from(code.buffer.alignment), code.code_buffer().to_vec());
        let relocations = code.buffer.relocs().to_vec();
        let calls = code.buffer.user_stack_maps().iter();
        let calls =
            calls.map(|(at, _, map)| (*at, map.entries().map(|(_, offset)| offset).collect())).collect();
        let relocations =
            relocations.iter().map(|r| ModuleReloc::from_mach_reloc(r, &context.func, name)).collect();
        Ok(Compiled { name, alignment, bytes, relocations, calls })
    }

    /// Puts functions into executable memory; the code of the last.
    fn define(&self, compiled: Vec<Compiled>) -> Result<Code, CompileError> {
        let mut state = self.lock();
        // Checked before anything is defined: a function that is defined only in part could never
        // be finished.
        let granule = state.granule;
        let bytes: usize = compiled.iter().map(|c| (c.bytes.len() + granule).next_multiple_of(granule)).sum();
        if state.used_bytes + bytes > ARENA_BYTES {
            return Err(CompileError::Memory(format!("{ARENA_BYTES} bytes of code are the limit")));
        }
        state.used_bytes += bytes;
        let memory = |e: cranelift_module::ModuleError| CompileError::Memory(e.to_string());
        for c in &compiled {
            state
                .module
                .define_function_bytes(c.name, c.alignment, &c.bytes, &c.relocations)
                .map_err(memory)?;
        }
        state.module.finalize_definitions().map_err(memory)?;
        let mut code = Err(CompileError::Refused("it vanished".to_owned()));
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        for c in compiled {
            let start = state.module.get_finalized_function(c.name).wrapping_add(state.run_at);
            maps.add(start as usize, c.bytes.len(), c.calls);
            code = Ok(Code(start));
        }
        code
    }

    /// A small function that keeps no references; its name and code.
    fn small(
        &self,
        signature: ir::Signature,
        build: impl FnOnce(&mut FunctionBuilder<'_>, &[ir::Value]),
    ) -> Result<(u32, Code), CompileError> {
        self.small_with_roots(signature, |b, words, _| build(b, words))
    }

    /// A small function; its name and code.
    fn small_with_roots(
        &self,
        signature: ir::Signature,
        build: impl FnOnce(&mut FunctionBuilder<'_>, &[ir::Value], &mut Roots),
    ) -> Result<(u32, Code), CompileError> {
        let name = self.declare(1, 0)?[0];
        let function = self.small_function(name, signature, build);
        let code = self.define(vec![self.generate(name, function)?])?;
        Ok((name, code))
    }

    fn small_function(
        &self,
        name: u32,
        signature: ir::Signature,
        build: impl FnOnce(&mut FunctionBuilder<'_>, &[ir::Value], &mut Roots),
    ) -> ir::Function {
        let mut function = ir::Function::with_name_signature(UserFuncName::user(0, name), signature);
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let words = b.block_params(entry).to_vec();
        let mut roots = Roots::default();
        build(&mut b, &words, &mut roots);
        b.seal_all_blocks();
        b.finalize(self.isa.frontend_config());
        if !roots.references.is_empty() || !roots.words.is_empty() {
            safepoint::insert(&mut function, &roots);
        }
        function
    }

    fn signature(&self, arity: usize) -> ir::Signature {
        lower::signature(arity, self.isa.default_call_conv())
    }
}

/// Compiles something. A panic is a mistake of this crate or of the code generator, and so is a
/// malformed intermediate form: the function is interpreted. With debug assertions, as in tests and
/// in fuzzing, the verifier looks at every function ([`Jit::new`]), and either mistake ends the
/// process.
fn guarded<T>(compile: impl FnOnce() -> Result<T, CompileError> + UnwindSafe) -> Result<T, CompileError> {
    let compiled = catch_unwind(compile)
        .unwrap_or_else(|_| Err(CompileError::Malformed("the code generator panicked".to_owned())));
    match compiled {
        Err(CompileError::Malformed(text)) if cfg!(debug_assertions) => {
            // Nothing unwinds through the code that called, and the output of a test is lost with
            // its process.
            let _ = writeln!(std::io::stderr(), "{text}");
            std::process::abort()
        }
        compiled => compiled,
    }
}

/// The words whose bits are set.
fn pick(words: &[ir::Value], bits: u32) -> Vec<ir::Value> {
    words.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, word)| *word).collect()
}

/// A bit for each word that a function is entered with that is a reference, the lowest for the
/// first.
fn references(program: &Program, func: &Func) -> u32 {
    let first = u32::from(func.kind.has_receiver());
    func.signature
        .params
        .iter()
        .enumerate()
        .fold(first, |bits, (i, param)| bits | u32::from(!program.types.kind(param.ty).is_basic()) << (i + 1))
}

impl bifrost_runtime::Engine for Jit {
    fn method_stub(&self, slot: u32, arity: usize) -> Code {
        Jit::method_stub(self, slot, arity)
    }

    fn routine_stub(&self, arity: usize) -> Code {
        Jit::routine_stub(self, arity)
    }

    fn compile(&self, image: &Image, func: FuncId) -> Code {
        Jit::compile(self, image, func)
    }

    fn mode_stub(&self, slot: u32, arity: usize, references: u32, changes: bool) -> Code {
        Jit::mode_stub(self, slot, arity, references, changes)
    }

    fn message_stub(&self, slot: u32, arity: usize, references: u32, form: Form) -> Code {
        Jit::message_stub(self, slot, arity, references, form)
    }

    fn compile_way(&self, image: &Image, func: FuncId, number: u32) -> Option<Code> {
        self.try_compile(image, func, Some(number), None).ok()
    }

    fn plain_entry(&self, image: &Image, to: MethodEntry<'_>, form: Form, func: FuncId) -> Option<Code> {
        let slow = self.message_stub(to.slot, to.arity, to.references, form);
        self.try_compile(image, func, None, Some(Entry { form, slot: to.slot, slow })).ok()
    }

    fn resting_entry(
        &self,
        to: MethodEntry<'_>,
        form: Form,
        code: Code,
        guard: Option<Code>,
    ) -> Option<Code> {
        self.resting(to, form, code, guard).ok()
    }

    fn queueing_entry(&self, to: MethodEntry<'_>, form: Form) -> Option<Code> {
        self.queueing(to, form).ok()
    }

    fn remote_entry(&self, to: MethodEntry<'_>) -> Option<Code> {
        self.remote(to).ok()
    }

    fn turns(&self, class: &ActorClass) -> Option<Code> {
        Jit::turns(self, class).ok()
    }

    fn native_entry(&self, native: Code, arity: usize, references: u32) -> Code {
        Jit::native_entry(self, native, arity, references)
    }

    fn compile_structure(
        &self,
        image: &Image,
        func: &Func,
        extent: Extent,
        procedures: &[Code],
    ) -> Option<StructureCode> {
        Jit::compile_structure(self, image, func, extent, procedures)
    }

    fn stack_map(&self, return_address: usize, offsets: &mut Vec<u32>) -> bool {
        Jit::stack_map(self, return_address, offsets)
    }

    fn collects(&self) -> bool {
        true
    }
}
