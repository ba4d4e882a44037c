//! Modules of clients: the command `run`, and the calls of the session from inside a module
//! (000 section 8.3).
//!
//! Read [`Session::run_module`]. The module runs in `bifrost_sandbox` to its next call; the call is
//! a command of the wire form, and goes the way of any command of the batch. So a module can do
//! nothing that a batch cannot, and is refused as a batch is.
//!
//! The results of a run are futures of the batch, from its own position on. The module may name
//! these, and no others ([`Inside::check`]). Basic values are handed over and forgotten, objects
//! stay until the module releases them. At its end all are gone but the result of the run.
//!
//! | end of the run | failure of `run` |
//! | --- | --- |
//! | a call failed, by `run` | that failure |
//! | a call failed, by `try_run` | none: the module goes on, or ends with `raise` |
//! | `fail` | `failure`, with the text of the module |
//! | a limit or a cancellation | as that of any call; the batch is over |
//! | an instruction cannot be carried out | `failure`, with a text |
//! | the memory is too large | `HeapLimit` |

use std::collections::BTreeMap;
use std::sync::Arc;

use bifrost_ir::{Signature, Types};
use bifrost_runtime::Cx;
use bifrost_runtime::abi::Word;
use bifrost_runtime::cx::Kill;
use bifrost_sandbox::{
    self as sandbox, Bounds, Ended, HostCall, INSTRUCTIONS_PER_FUEL, IS_BUILT_IN, Kind, LoadError, Step,
};
use bifrost_wire::value::tag;
use bifrost_wire::{Arg, Args, Command, Decoded, ErrorNumber, Limit, ModuleNumber, ModuleRun, Value, decode};
use smallvec::SmallVec;

use crate::calls::{Operand, wrong_count};
use crate::casts::Cast;
use crate::causes::Cause;
use crate::failures::{Failure, FailureKind, Place};
use crate::futures::Future;
use crate::replies::value_of;
use crate::session::Session;
use crate::work::Run;

/// The modules of a session, by the numbers that the client has given them. A refused one has the
/// reason, which its runs get.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    loaded: BTreeMap<u32, Result<Arc<sandbox::Module>, FailureKind>>,
}

/// The state of a run.
struct Inside {
    /// The number of futures before it.
    base: usize,
    /// For each result, the number of objects that the batch held before it.
    held: Vec<usize>,
    /// The last failure that the module has handled.
    failure: Option<FailureKind>,
    /// The bytes of an answer.
    output: Vec<u8>,
    /// Instructions that are not paid: less than a unit of fuel.
    unpaid: u64,
}

/// The end of a run before its function has returned.
enum End {
    /// A failure that was not entered yet.
    Kind(FailureKind),
    /// A failure that was entered, and taken out of the list.
    Entered(FailureKind),
    /// A failure that no list has.
    NotKept,
    /// A text for the exception `failure`.
    Trap(String),
    /// The run of the context was ended.
    Killed,
    /// The exception in the context.
    Signalled,
}

impl Inside {
    /// Refuses references that are not results of the run.
    fn check(&self, command: &Command<'_>, next: usize) -> Result<(), FailureKind> {
        let mut forged = None;
        command.each_reference(|reference| {
            let known = reference.position().is_some_and(|p| (self.base + 1..next).contains(&(p as usize)));
            if !known {
                forged = Some(reference);
            }
        });
        forged.map_or(Ok(()), |reference| Err(no_result(reference.0)))
    }

    /// Returns the index of a position among the futures, if it is a result of the run or `next`.
    fn index(&self, position: u32, next: usize) -> Result<usize, End> {
        let position = position as usize;
        match (self.base + 1..next).contains(&position) {
            true => Ok(position - 1),
            false => Err(End::Kind(no_result(-(position as i64)))),
        }
    }
}

fn no_result(reference: i64) -> FailureKind {
    FailureKind::refused(ErrorNumber::BadFuture, format!("{reference} is not a result of this run"))
}

impl Session {
    /// Takes a module up. A refusal is told by its runs.
    pub(crate) fn give_module(&mut self, number: ModuleNumber, bytes: &[u8]) {
        let most = self.limits.size(Limit::Modules);
        let modules = &mut self.modules.loaded;
        // Without a right to it nothing is compiled, and beyond the limit nothing is kept.
        if modules.len() >= most && !modules.contains_key(&number.0) {
            return;
        }
        let loaded = match bytes.len() > self.limits.size(Limit::ModuleBytes) {
            true => {
                let text = format!(
                    "the module is not accepted: it has {} bytes, {} is the limit ({})",
                    bytes.len(),
                    self.limits.get(Limit::ModuleBytes),
                    Limit::ModuleBytes.name(),
                );
                Err(FailureKind::refused(ErrorNumber::BadModule, text))
            }
            false => sandbox::Modules::shared().load(bytes).map_err(|error| {
                let number = match error {
                    LoadError::NotBuiltIn => ErrorNumber::NotAllowed,
                    LoadError::Bad(_) => ErrorNumber::BadModule,
                };
                FailureKind::refused(number, error.to_string())
            }),
        };
        modules.insert(number.0, loaded);
    }

    /// Returns a module, and the heading of one of its functions.
    fn module(&self, wanted: &ModuleRun<'_>) -> Result<Arc<sandbox::Module>, FailureKind> {
        if self.limits.get(Limit::Modules) == 0 {
            let text = match IS_BUILT_IN {
                true => "this server runs no modules: `modules_max` is 0".to_owned(),
                false => LoadError::NotBuiltIn.to_string(),
            };
            return Err(FailureKind::refused(ErrorNumber::NotAllowed, text));
        }
        let number = wanted.module.0;
        self.modules.loaded.get(&number).cloned().unwrap_or_else(|| {
            let most = self.limits.get(Limit::Modules);
            let text = format!("there is no module number {number}; at most {most} are kept (modules_max)");
            Err(FailureKind::refused(ErrorNumber::NoSuchModule, text))
        })
    }

    /// Runs a function of a module.
    #[inline(never)]
    pub(crate) fn run_module(&mut self, run: &mut Run<'_>, wanted: &ModuleRun<'_>) {
        let (base, held) = (self.batch.futures.len(), run.root_set(&self.roots().batch).len());
        let mut inside = Inside { base, held: Vec::new(), failure: None, output: Vec::new(), unpaid: 0 };
        let ended = self.enter_module(run, wanted, &mut inside);
        run.root_set(&self.roots().module).clear();
        self.batch.futures.truncate(base);
        run.root_set(&self.roots().batch).truncate(held);
        match ended {
            Ok(future) => self.make_one(run, future),
            Err(End::Kind(kind)) => self.fail_call(1, kind),
            Err(End::Trap(text)) => {
                run.failure(&text);
                self.fail_call(1, Cause::Signalled(run, &Signature::default()));
            }
            Err(End::Killed) => self.fail_call(1, Cause::Killed(run)),
            Err(End::Signalled) => self.fail_call(1, Cause::Signalled(run, &Signature::default())),
            Err(End::Entered(kind)) => {
                if let FailureKind::Signal { values, .. } = &kind {
                    let objects = values.iter().filter(|(_, ty)| !self.tables.is_basic(*ty));
                    objects.for_each(|(word, _)| self.hold(run, *word));
                }
                let failed = self.batch.add(Failure { place: Place::of(self.next()), kind }, &self.limits);
                self.make_one(run, Future::Failed(failed));
            }
            Err(End::NotKept) => {
                self.batch.omitted += 1;
                self.make_one(run, Future::Failed(crate::failures::NOT_KEPT));
            }
        }
    }

    /// Runs a function to its end. The results of its calls are left behind.
    fn enter_module(
        &mut self,
        run: &mut Run<'_>,
        wanted: &ModuleRun<'_>,
        inside: &mut Inside,
    ) -> Result<Future, End> {
        let expected = wanted.expected.map(|ty| self.expected_type(ty)).transpose().map_err(End::Kind)?;
        let module = self.module(wanted).map_err(End::Kind)?;
        let Some(signature) = module.signature(wanted.export) else {
            let text = format!(
                "module {} exports no function `{}` with parameters of i64, f64 and i32, and at most one result of these",
                wanted.module.0, wanted.export
            );
            return Err(End::Kind(FailureKind::refused(ErrorNumber::NoSuchModule, text)));
        };
        let args = self.module_arguments(run, wanted.args, &signature.params, inside)?;
        if !self.spend_inside(run) {
            return Err(End::Killed);
        }
        let bounds = Bounds { memory_bytes: self.limits.size(Limit::ModuleMemoryBytes) };
        let mut running = sandbox::Run::begin(&module, wanted.export, &args, bounds);
        let mut input = Vec::new();
        let done = loop {
            match running.step() {
                Step::Call { call, room } => {
                    running.swap_input(&mut input);
                    inside.output.clear();
                    let code = self.answer(run, inside, call, &input, room)?;
                    running.answer(code, &inside.output);
                }
                Step::Slice => pay(run, inside, running.take_instructions())?,
                Step::Done(value) => break value,
                Step::Ended(Ended::Trap(text)) => {
                    pay(run, inside, running.take_instructions())?;
                    return Err(End::Trap(format!("the module has trapped: {text}")));
                }
                Step::Ended(ended @ Ended::Memory { .. }) => {
                    let text = format!("{}: {ended}", ErrorNumber::HeapLimit.text());
                    return Err(End::Kind(FailureKind::refused(ErrorNumber::HeapLimit, text)));
                }
            }
            attend(run)?;
        };
        pay(run, inside, running.take_instructions())?;
        let next = self.batch.futures.len() + 1;
        let future = match done {
            None => Future::Nothing,
            Some(sandbox::Value::Int(i)) => Future::Basic(i as Word, Types::INT),
            Some(sandbox::Value::Real(r)) => Future::Basic(r.to_bits(), Types::REAL),
            Some(sandbox::Value::Position(position)) => self.batch.futures[inside.index(position, next)?],
        };
        let operand = match future {
            Future::Object(word, ty) => Operand { word, ty, object: true },
            Future::Basic(word, ty) => Operand { word, ty, object: false },
            _ => Operand { word: 0, ty: Types::NULL, object: false },
        };
        if let Some(expected) = expected {
            self.check(operand, expected, 0).map_err(|kind| End::Kind(of_result(kind)))?;
            if let Future::Object(word, _) = future {
                return Ok(Future::Object(word, expected));
            }
        }
        Ok(future)
    }

    /// Looks the arguments up. A parameter of `i64` takes an int, one of `f64` a real, and one of
    /// `i32` anything, as the first results of the run.
    fn module_arguments(
        &mut self,
        cx: &mut Cx,
        args: Args<'_>,
        params: &[Kind],
        inside: &mut Inside,
    ) -> Result<Vec<sandbox::Value>, End> {
        if args.len() != params.len() {
            return Err(End::Kind(wrong_count(params.len(), args.len())));
        }
        let mut values = Vec::with_capacity(params.len());
        let mut made = Vec::new();
        for (at, (arg, kind)) in args.iter().zip(params).enumerate() {
            let argument = at as u32 + 1;
            let operand =
                match arg {
                    Arg::Ref(reference) => self.resolve(reference, argument),
                    Arg::Value(value) => self
                        .value(cx, value, argument, Types::ANY)
                        .map(|(word, ty)| Operand { word, ty, object: !self.tables.is_basic(ty) }),
                };
            let operand = operand.map_err(End::Kind)?;
            values.push(match kind {
                Kind::Int => {
                    let word = self.check(operand, Types::INT, argument).map_err(End::Kind)?;
                    sandbox::Value::Int(word as i64)
                }
                Kind::Real => {
                    let word = self.check(operand, Types::REAL, argument).map_err(End::Kind)?;
                    sandbox::Value::Real(f64::from_bits(word))
                }
                Kind::Position => {
                    made.push(match operand.object {
                        true => Future::Object(operand.word, operand.ty),
                        false => Future::Basic(operand.word, operand.ty),
                    });
                    sandbox::Value::Position((inside.base + made.len()) as u32)
                }
            });
        }
        let failures = (self.batch.failures.len(), self.batch.omitted);
        // They are made behind the last argument, which may name results by their positions.
        for future in made {
            inside.held.push(cx.root_set(&self.roots().batch).len());
            self.make_one(cx, future);
        }
        if self.batch.dead { Err(self.entered(failures.0, failures.1)) } else { Ok(values) }
    }

    /// Takes a unit of fuel for the run.
    fn spend_inside(&mut self, cx: &mut Cx) -> bool {
        self.batch.calls += 1;
        cx.fuel -= 1;
        if cx.fuel < 0 {
            cx.kill(Kill::Fuel);
        }
        cx.fuel >= 0
    }

    /// Answers a call of a module: returns its result, and leaves the bytes of the answer.
    fn answer(
        &mut self,
        run: &mut Run<'_>,
        inside: &mut Inside,
        call: HostCall,
        input: &[u8],
        room: usize,
    ) -> Result<i32, End> {
        let next = self.batch.futures.len() + 1;
        match call {
            HostCall::Command { tolerant } => self.command_inside(run, inside, input, tolerant),
            HostCall::Text { position } => {
                let value = match self.batch.futures[inside.index(position, next)?] {
                    Future::Object(word, _) => value_of(word),
                    _ => None,
                };
                let bytes = match value {
                    Some(Value::Str(text)) => text.as_bytes(),
                    Some(Value::Bytes(bytes)) => bytes,
                    _ => {
                        let text = format!("-{position} is neither a string nor bytes");
                        return Err(End::Kind(FailureKind::refused(ErrorNumber::WrongType, text)));
                    }
                };
                inside.output.extend_from_slice(&bytes[..bytes.len().min(room)]);
                Ok(i32::try_from(bytes.len()).unwrap_or(i32::MAX))
            }
            HostCall::Failure => {
                let name = match &inside.failure {
                    None => "",
                    Some(FailureKind::Signal { name, .. }) => {
                        self.tables.engine().program().types.signal_name(*name)
                    }
                    Some(FailureKind::Refused { number, .. }) => number.name(),
                    Some(FailureKind::Unhandled { .. }) => "unhandled_exc",
                };
                inside.output.extend_from_slice(name.as_bytes());
                Ok(name.len() as i32)
            }
            HostCall::Raise => Err(match inside.failure.take() {
                Some(kind) => {
                    self.transactions.unseen = true;
                    End::Entered(kind)
                }
                None => {
                    End::Trap("the module has trapped: it raises a failure, and none was handled".to_owned())
                }
            }),
            HostCall::Fail => {
                let text = &input[..input.len().min(sandbox::FAIL_BYTES_MAX)];
                Err(End::Trap(String::from_utf8_lossy(text).into_owned()))
            }
            HostCall::Release { position } => {
                let index = inside.index(position, next + 1)?;
                if let Some(held) = inside.held.get(index - inside.base) {
                    run.root_set(&self.roots().batch).truncate(*held);
                }
                self.batch.futures.truncate(index);
                inside.held.truncate(index - inside.base);
                Ok(0)
            }
            HostCall::FindType => Ok(self.find(input, |numbering, name| Some(numbering.find_type(name)?.0))),
            HostCall::FindMethod => Ok(self.find(input, |numbering, name| {
                let (ty, method) = name.rsplit_once(':')?;
                Some(numbering.find_method(numbering.find_type(ty)?, method)?.0)
            })),
            HostCall::FindRoutine => {
                Ok(self.find(input, |numbering, name| Some(numbering.find_routine(name)?.0)))
            }
        }
    }

    /// Finds a number by a name.
    fn find(
        &self,
        name: &[u8],
        find: impl FnOnce(&bifrost_wire::interface::Numbering, &str) -> Option<u32>,
    ) -> i32 {
        let found =
            std::str::from_utf8(name).ok().and_then(|name| find(self.policy.numbering(self.tables), name));
        found.and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
    }

    /// Executes a command of a module. Returns the number of its results, or a failure below 0.
    fn command_inside(
        &mut self,
        run: &mut Run<'_>,
        inside: &mut Inside,
        bytes: &[u8],
        tolerant: bool,
    ) -> Result<i32, End> {
        let command = match decode(bytes, self.limits.size(Limit::FrameBytes)) {
            Ok(Decoded::Command(command, used)) if used == bytes.len() => command,
            Ok(_) => return Err(malformed("they are not one whole command")),
            Err(error) => return Err(malformed(&error.to_string())),
        };
        let futures = self.batch.futures.len();
        let held = run.root_set(&self.roots().batch).len();
        let failures = (self.batch.failures.len(), self.batch.omitted);
        let unseen = self.transactions.unseen;
        match inside.check(&command, futures + 1) {
            Ok(()) => self.execute_inside(run, &command),
            Err(kind) => self.fail_call(1, kind),
        }
        let has_failed = (self.batch.failures.len(), self.batch.omitted) != failures;
        if has_failed || self.batch.dead || self.ended {
            let end = self.entered(failures.0, failures.1);
            let End::Entered(kind) = end else { return Err(end) };
            if !tolerant || self.batch.dead || self.ended {
                return Err(End::Entered(kind));
            }
            // A failure that is handled does not prevent a commit, as in an EXCEPT.
            self.transactions.unseen = unseen;
            self.batch.futures.truncate(futures);
            run.root_set(&self.roots().batch).truncate(held);
            let kept = run.root_set(&self.roots().module);
            kept.clear();
            let mut code = -2;
            if let FailureKind::Signal { values, .. } = &kind {
                code = -1;
                let objects = values.iter().filter(|(_, ty)| !self.tables.is_basic(*ty));
                kept.extend(objects.map(|(word, _)| *word));
            }
            inside.failure = Some(kind);
            return Ok(code);
        }
        self.hand_over(run, inside, futures, held)
    }

    /// Writes the results of a command, each as a tag and a word, and forgets those that are no
    /// objects.
    fn hand_over(
        &mut self,
        cx: &mut Cx,
        inside: &mut Inside,
        futures: usize,
        held: usize,
    ) -> Result<i32, End> {
        let made: SmallVec<[Future; 2]> = self.batch.futures.drain(futures..).collect();
        let held_now = cx.root_set(&self.roots().batch);
        // Values that came with the call are not needed any more.
        held_now.truncate(held);
        for future in &made {
            let (tag, word) = match *future {
                Future::Object(word, _) => {
                    inside.held.push(held_now.len());
                    held_now.push(word);
                    self.batch.futures.push(*future);
                    (tag::REF, self.batch.futures.len() as Word)
                }
                Future::Basic(word, Types::BOOL) => (tag::BOOL, word),
                Future::Basic(word, Types::INT) => (tag::INT, word),
                Future::Basic(word, Types::REAL) => (tag::REAL, word),
                Future::Basic(word, Types::CHAR) => (tag::CHAR, word),
                _ => (tag::NIL, 0),
            };
            inside.output.extend_from_slice(&u64::from(tag).to_le_bytes());
            inside.output.extend_from_slice(&word.to_le_bytes());
        }
        Ok(made.len() as i32)
    }

    /// Executes a command that a module may give.
    fn execute_inside(&mut self, run: &mut Run<'_>, command: &Command<'_>) {
        let from = self.next();
        match *command {
            Command::Call { method, receiver, args } => self.call(run, method, receiver, args, false),
            Command::Send { method, receiver, args } => self.call(run, method, receiver, args, true),
            Command::CallRoutine { routine, args } => self.call_routine(run, routine, args),
            Command::CallProcedure { procedure, args } => self.call_procedure(run, procedure, args),
            Command::Lookup { name, expected } => self.lookup(run, name, expected),
            Command::Constant(value) => self.constant(run, value),
            Command::Cell { element } => self.cell(run, element),
            Command::As { ty, object } => self.cast(run, Cast::As, ty, object),
            Command::Is { ty, object } => self.cast(run, Cast::Is, ty, object),
            _ => {
                let text = "a module gives calls, constants, cells, casts and lookups only";
                self.fail_call(1, FailureKind::refused(ErrorNumber::NotAllowed, text));
            }
        }
        // An actor's answer is awaited at once.
        if let Some(Future::Open(..)) = self.batch.futures.get(from as usize - 1) {
            self.join_future(run, from);
        }
    }

    /// Takes the last failure out of the list, which was that long before. It becomes that of the
    /// run.
    fn entered(&mut self, failures: usize, omitted: u32) -> End {
        if self.batch.failures.len() > failures {
            let last = self.batch.failures.pop();
            self.batch.failures.truncate(failures);
            return last.map_or(End::NotKept, |failure| End::Entered(failure.kind));
        }
        self.batch.omitted = self.batch.omitted.min(omitted);
        End::NotKept
    }
}

/// Takes fuel for instructions.
fn pay(cx: &mut Cx, inside: &mut Inside, instructions: u64) -> Result<(), End> {
    let unpaid = inside.unpaid + instructions;
    inside.unpaid = unpaid % INSTRUCTIONS_PER_FUEL;
    cx.fuel -= i64::try_from(unpaid / INSTRUCTIONS_PER_FUEL).unwrap_or(i64::MAX);
    if cx.fuel < 0 {
        cx.kill(Kill::Fuel);
        return Err(End::Killed);
    }
    Ok(())
}

/// Lets others have their turn, and ends the run if it shall end.
fn attend(cx: &mut Cx) -> Result<(), End> {
    if !cx.must_attend() {
        return Ok(());
    }
    let ret = cx.attend();
    match ret.outcome() {
        _ if ret.returned() => Ok(()),
        bifrost_runtime::abi::Outcome::Signalled => Err(End::Signalled),
        _ => Err(End::Killed),
    }
}

/// The end of a run whose command is not in the wire form.
fn malformed(text: &str) -> End {
    let text = format!("the bytes of a command of the module: {text}");
    End::Kind(FailureKind::refused(ErrorNumber::BadModule, text))
}

/// The failure of a result that has another type, in words for a result.
fn of_result(kind: FailureKind) -> FailureKind {
    match kind {
        FailureKind::Refused { number, text } => {
            FailureKind::refused(number, text.replacen("the receiver", "the result of the module", 1))
        }
        kind => kind,
    }
}
