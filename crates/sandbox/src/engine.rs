//! Modules and runs, with Wasmtime.
//!
//! A run is a future of the engine, which owns its store and instance. An import notes its call in
//! the [`Exchange`], and is pending until the exchange has an answer. The future is polled by
//! [`Run::step`], and by nothing else.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use wasmtime::{
    Caller, Config, Engine, ExternType, InstancePre, Linker, Memory, OptLevel, ResourceLimiter, Store, Trap,
    Val, ValType,
};

use crate::{
    Bounds, Ended, HostCall, IMPORTS, IMPORTS_MODULE, KEPT_BYTES_MAX, KEPT_MAX, Kind, LoadError, SLICE,
    STACK_BYTES, Signature, Step, TABLE_ELEMENTS_MAX, Value,
};

/// Bytes of a stack beyond those of the module, for the functions of the engine.
const ENGINE_STACK_BYTES: usize = 256 << 10;

/// The fuel of a store. No run uses it up: 500 years at 10^9 instructions a second.
const INSTRUCTIONS_MAX: u64 = u64::MAX / 2;

/// The modules of the process.
pub struct Modules {
    engine: Engine,
    linker: Linker<Host>,
    kept: Mutex<Kept>,
}

impl std::fmt::Debug for Modules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Modules").field("kept", &self.kept()).finish_non_exhaustive()
    }
}

/// The modules that are kept, by the SHA-256 of their bytes.
#[derive(Default)]
struct Kept {
    modules: HashMap<[u8; 32], (Arc<Module>, u64)>,
    /// Bytes of their machine code.
    bytes: usize,
    /// Counts the uses, so that the one that was unused for longest is known.
    uses: u64,
}

impl Kept {
    fn find(&mut self, digest: &[u8; 32]) -> Option<Arc<Module>> {
        self.uses += 1;
        let (module, used) = self.modules.get_mut(digest)?;
        *used = self.uses;
        Some(module.clone())
    }

    /// Keeps a module, and drops those that were unused for longest when there are too many.
    fn keep(&mut self, digest: [u8; 32], module: &Arc<Module>) {
        self.uses += 1;
        if let Some((old, _)) = self.modules.insert(digest, (module.clone(), self.uses)) {
            self.bytes -= old.code_bytes();
        }
        self.bytes += module.code_bytes();
        while self.modules.len() > KEPT_MAX || (self.bytes > KEPT_BYTES_MAX && self.modules.len() > 1) {
            let oldest = self.modules.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            if let Some((dropped, _)) = oldest.and_then(|oldest| self.modules.remove(&oldest)) {
                self.bytes -= dropped.code_bytes();
            }
        }
    }
}

impl Modules {
    /// Returns the modules of the process.
    ///
    /// # Panics
    /// If the engine does not run on this processor; `jit` has started on it by then.
    pub fn shared() -> &'static Modules {
        static SHARED: OnceLock<Modules> = OnceLock::new();
        SHARED.get_or_init(|| Modules::new().expect("the engine starts with constant settings"))
    }

    fn new() -> wasmtime::Result<Modules> {
        let mut config = Config::new();
        config
            .consume_fuel(true)
            .max_wasm_stack(STACK_BYTES)
            .async_stack_size(STACK_BYTES + ENGINE_STACK_BYTES)
            .signals_based_traps(false)
            // Memory is as large as it is, and may move when it grows.
            .memory_reservation(0)
            .memory_reservation_for_growth(64 << 10)
            .memory_guard_size(0)
            .memory_init_cow(false)
            .wasm_backtrace_max_frames(None)
            .native_unwind_info(false)
            .generate_address_map(false)
            .cranelift_opt_level(OptLevel::Speed)
            .wasm_memory64(false)
            .wasm_multi_memory(false)
            .wasm_relaxed_simd(false)
            .wasm_tail_call(false);
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        link(&mut linker)?;
        Ok(Modules { engine, linker, kept: Mutex::default() })
    }

    /// Returns the module of these bytes, compiled now if the process does not keep it.
    ///
    /// Cost: SHA-256 of the bytes; for a new module the compiler, some milliseconds for each 10
    /// kilobytes.
    ///
    /// # Errors
    /// The bytes are no module, or it imports something else than [`IMPORTS`].
    pub fn load(&self, bytes: &[u8]) -> Result<Arc<Module>, LoadError> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        if let Some(module) = self.kept.lock().find(&digest) {
            return Ok(module);
        }
        let bad = |error: wasmtime::Error| LoadError::Bad(one_line(&format!("{error:#}")));
        // Nothing but the binary form: the text form has a parser of its own.
        let module = wasmtime::Module::from_binary(&self.engine, bytes).map_err(bad)?;
        for import in module.imports() {
            let known = import.module() == IMPORTS_MODULE && IMPORTS.iter().any(|row| row.0 == import.name());
            if !known {
                let text = format!("it imports `{}.{}`, which is not there", import.module(), import.name());
                return Err(LoadError::Bad(one_line(&text)));
            }
        }
        let exports = module.exports().filter_map(|export| match export.ty() {
            ExternType::Func(ty) => {
                let params: Option<Vec<Kind>> = ty.params().map(|ty| kind(&ty)).collect();
                let mut results = ty.results();
                let result = match (results.next(), results.next()) {
                    (None, _) => None,
                    (Some(ty), None) => Some(kind(&ty)?),
                    _ => return None,
                };
                Some((export.name().to_owned(), Signature { params: params?, result }))
            }
            _ => None,
        });
        let exports = exports.collect();
        let image = module.image_range();
        let code_bytes = image.end as usize - image.start as usize;
        let pre = self.linker.instantiate_pre(&module).map_err(bad)?;
        let module = Arc::new(Module { pre, exports, code_bytes });
        self.kept.lock().keep(digest, &module);
        Ok(module)
    }

    /// The number of modules that are kept.
    pub fn kept(&self) -> usize {
        self.kept.lock().modules.len()
    }
}

/// Returns the kind of a type; none if no value of it enters or leaves a module.
fn kind(ty: &ValType) -> Option<Kind> {
    match ty {
        ValType::I64 => Some(Kind::Int),
        ValType::F64 => Some(Kind::Real),
        ValType::I32 => Some(Kind::Position),
        _ => None,
    }
}

/// The text of an error, on one line and bounded: names in it are the client's.
fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let mut line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect();
    if text.chars().count() > CHARS_MAX {
        line.push_str("...");
    }
    line
}

/// A compiled module, whose imports are known.
pub struct Module {
    pre: InstancePre<Host>,
    exports: HashMap<String, Signature>,
    code_bytes: usize,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("exports", &self.exports).finish_non_exhaustive()
    }
}

impl Module {
    /// Returns the heading of a function that the module exports; none if there is none, or if it
    /// has parameters or results that do not cross.
    pub fn signature(&self, export: &str) -> Option<&Signature> {
        self.exports.get(export)
    }

    /// Bytes of its machine code.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
    }
}

/// The data that the module's side and the session's side of a run share.
#[derive(Default)]
struct Exchange {
    asked: Option<(HostCall, usize)>,
    answer: Option<i32>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Instructions that were taken before the run has ended.
    instructions: Option<u64>,
}

/// The data of a store.
struct Host {
    exchange: Arc<Mutex<Exchange>>,
    memory: Option<Memory>,
    bounds: Bounds,
}

impl ResourceLimiter for Host {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.bounds.memory_bytes {
            return Err(Ended::Memory { wanted: desired, most: self.bounds.memory_bytes }.into());
        }
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }
}

/// A call's bytes in the memory of a module: address and length.
#[derive(Clone, Copy)]
struct Span(u32, u32);

impl Span {
    const NONE: Span = Span(0, 0);

    fn range(self) -> std::ops::Range<usize> {
        self.0 as usize..self.0 as usize + self.1 as usize
    }
}

/// Asks the session, and waits for its answer.
async fn ask(
    mut caller: Caller<'_, Host>,
    call: HostCall,
    input: Span,
    output: Span,
) -> wasmtime::Result<i32> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => {
            let found = caller.get_export("memory").and_then(|export| export.into_memory());
            let memory = found.ok_or_else(|| Ended::Trap("it exports no memory as `memory`".to_owned()))?;
            caller.data_mut().memory = Some(memory);
            memory
        }
    };
    let exchange = {
        let (bytes, host) = memory.data_and_store_mut(&mut caller);
        let input = bytes.get(input.range()).ok_or(Trap::MemoryOutOfBounds)?;
        // A call whose results have no place has no effect.
        bytes.get(output.range()).ok_or(Trap::MemoryOutOfBounds)?;
        let mut exchange = host.exchange.lock();
        exchange.input.clear();
        exchange.input.extend_from_slice(input);
        exchange.output.clear();
        exchange.asked = Some((call, output.1 as usize));
        host.exchange.clone()
    };
    let code = poll_fn(|_| exchange.lock().answer.take().map_or(Poll::Pending, Poll::Ready)).await;
    let exchange = exchange.lock();
    let written = exchange.output.len().min(output.1 as usize);
    let place = memory.data_mut(&mut caller).get_mut(output.range()).ok_or(Trap::MemoryOutOfBounds)?;
    place[..written].copy_from_slice(&exchange.output[..written]);
    Ok(code)
}

/// Defines the imports.
fn link(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    for (name, tolerant) in [("run", false), ("try_run", true)] {
        linker.func_wrap_async(
            IMPORTS_MODULE,
            name,
            move |caller: Caller<'_, Host>, (at, length, out, room): (u32, u32, u32, u32)| {
                Box::new(ask(caller, HostCall::Command { tolerant }, Span(at, length), Span(out, room)))
            },
        )?;
    }
    linker.func_wrap_async(
        IMPORTS_MODULE,
        "text",
        |caller: Caller<'_, Host>, (position, out, room): (u32, u32, u32)| {
            Box::new(ask(caller, HostCall::Text { position }, Span::NONE, Span(out, room)))
        },
    )?;
    linker.func_wrap_async(
        IMPORTS_MODULE,
        "failure",
        |caller: Caller<'_, Host>, (out, room): (u32, u32)| {
            Box::new(ask(caller, HostCall::Failure, Span::NONE, Span(out, room)))
        },
    )?;
    linker.func_wrap_async(IMPORTS_MODULE, "raise", |caller: Caller<'_, Host>, (): ()| {
        Box::new(ask(caller, HostCall::Raise, Span::NONE, Span::NONE))
    })?;
    linker.func_wrap_async(IMPORTS_MODULE, "release", |caller: Caller<'_, Host>, (position,): (u32,)| {
        Box::new(ask(caller, HostCall::Release { position }, Span::NONE, Span::NONE))
    })?;
    let texts = [
        ("fail", HostCall::Fail),
        ("type", HostCall::FindType),
        ("method", HostCall::FindMethod),
        ("routine", HostCall::FindRoutine),
    ];
    for (name, call) in texts {
        linker.func_wrap_async(
            IMPORTS_MODULE,
            name,
            move |caller: Caller<'_, Host>, (at, length): (u32, u32)| {
                Box::new(ask(caller, call, Span(at, length), Span::NONE))
            },
        )?;
    }
    Ok(())
}

type Running = Pin<Box<dyn Future<Output = wasmtime::Result<Option<Value>>> + Send>>;

/// A run of a module's function.
pub struct Run {
    /// None when the run is over.
    running: Option<Running>,
    exchange: Arc<Mutex<Exchange>>,
    /// Instructions of slices that are over, and were not taken.
    instructions: u64,
    /// Instructions that were taken.
    taken: u64,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Run {
    /// Begins a run of the function `export` with arguments that fit its [`Signature`]. Nothing is
    /// run yet.
    pub fn begin(module: &Arc<Module>, export: &str, args: &[Value], bounds: Bounds) -> Run {
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        let args = args.iter().map(|value| match *value {
            Value::Int(i) => Val::I64(i),
            Value::Real(r) => Val::F64(r.to_bits()),
            Value::Position(p) => Val::I32(p as i32),
        });
        let host = Host { exchange: exchange.clone(), memory: None, bounds };
        let running = Box::pin(run(module.clone(), export.to_owned(), args.collect(), host));
        Run { running: Some(running), exchange, instructions: 0, taken: 0 }
    }

    /// Runs to the next call, to the end of a slice, or to the end.
    pub fn step(&mut self) -> Step {
        let Some(running) = &mut self.running else {
            return Step::Ended(Ended::Trap("the run is over".to_owned()));
        };
        match running.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => match self.exchange.lock().asked.take() {
                Some((call, room)) => Step::Call { call, room },
                None => {
                    self.instructions += SLICE;
                    Step::Slice
                }
            },
            Poll::Ready(result) => {
                self.running = None;
                if let Some(all) = self.exchange.lock().instructions {
                    self.instructions = all.saturating_sub(self.taken);
                }
                match result {
                    Ok(value) => Step::Done(value),
                    Err(error) => Step::Ended(ended(&error)),
                }
            }
        }
    }

    /// Takes the input of a call, and leaves a buffer for the next.
    pub fn swap_input(&mut self, input: &mut Vec<u8>) {
        std::mem::swap(&mut self.exchange.lock().input, input);
    }

    /// Answers a call: its result, and the output, of which the module takes as much as it has room
    /// for.
    pub fn answer(&mut self, code: i32, output: &[u8]) {
        let mut exchange = self.exchange.lock();
        exchange.output.extend_from_slice(output);
        exchange.answer = Some(code);
    }

    /// Returns the instructions since the last call of this function. They are counted in whole
    /// slices until the run is over.
    pub fn take_instructions(&mut self) -> u64 {
        let taken = std::mem::take(&mut self.instructions);
        self.taken += taken;
        taken
    }
}

/// Makes an instance, and runs its function.
async fn run(
    module: Arc<Module>,
    export: String,
    args: Vec<Val>,
    host: Host,
) -> wasmtime::Result<Option<Value>> {
    let exchange = host.exchange.clone();
    let mut store = Store::new(module.pre.module().engine(), host);
    store.limiter(|host| host);
    store.set_fuel(INSTRUCTIONS_MAX)?;
    store.fuel_async_yield_interval(Some(SLICE))?;
    let result = call(&module, &export, &args, &mut store).await;
    exchange.lock().instructions = store.get_fuel().ok().map(|left| INSTRUCTIONS_MAX - left);
    result
}

async fn call(
    module: &Module,
    export: &str,
    args: &[Val],
    store: &mut Store<Host>,
) -> wasmtime::Result<Option<Value>> {
    let instance = module.pre.instantiate_async(&mut *store).await?;
    let function = instance
        .get_func(&mut *store, export)
        .ok_or_else(|| Ended::Trap(format!("it exports no function `{export}`")))?;
    let mut results = [Val::I32(0)];
    let count = usize::from(module.signature(export).is_some_and(|signature| signature.result.is_some()));
    function.call_async(&mut *store, args, &mut results[..count]).await?;
    Ok((count == 1).then(|| match results[0] {
        Val::I64(i) => Value::Int(i),
        Val::F64(bits) => Value::Real(f64::from_bits(bits)),
        Val::I32(position) => Value::Position(position as u32),
        _ => Value::Position(0),
    }))
}

/// The reason for which a run has ended.
fn ended(error: &wasmtime::Error) -> Ended {
    if let Some(ended) = error.downcast_ref::<Ended>() {
        return ended.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) => {
            let text = trap.to_string();
            Ended::Trap(text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned())
        }
        None => Ended::Trap(one_line(&format!("{error:#}"))),
    }
}
