//! Execution of prepared nodes.
//!
//! [`Interp`] is the interpreter of one image; [`Run`] is one activation under way, and
//! [`Run::block`] executes nodes: read it first. Each block ends with a [`Flow`]. A frame of words
//! holds the variables; it is owned by the activation. Functions that may wait go on in
//! [`script`](crate::script), and requests of clients are in [`client`](crate::client).

use std::sync::{Arc, OnceLock};

use bifrost_actors::{self as actors, Join};
use bifrost_ir::builtin::Op;
use bifrost_ir::{Func, FuncId, FuncKind, SignalId, Site};
use bifrost_runtime::abi::{Closure, Code, Outcome, Ret, Word, YIELDS_MAX, enter};
use bifrost_runtime::cx::Kill;
use bifrost_runtime::engine::{Came, Interpreter};
use bifrost_runtime::image::{Image, RoutineDesc, Table};
use bifrost_runtime::invoke::open_receiver;
use bifrost_runtime::node_host::NodeHost;
use bifrost_runtime::structure::environment;
use bifrost_runtime::{Cx, Mode, Object, object, roots};
use cranelift_entity::EntityRef;
use smallvec::{SmallVec, smallvec};

use crate::client::{OpenRequest, Outer};
use crate::loops::BODIES;
use crate::node::{Arm, Call, Except, ForEach, Node, Nodes, Place, Prepared, Target, Transaction};
use crate::op::{OpError, apply};
use crate::prepare::prepare;
use crate::structure::{HOT_STEPS, Meter, Structure};

/// The place at which a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    /// The call.
    pub site: Site,
    /// For each loop around it, from the outermost, which step was under way, counting from 1.
    pub iterations: SmallVec<[u64; 4]>,
}

/// The ways in which a batch, or a procedure called by itself, ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchEnd {
    /// It ran to its end; a procedure's result is the word.
    Done(Word),
    /// A call signalled an exception that nothing handled: it is in the context.
    Signalled(Trace),
    /// It was ended from outside.
    Killed(Trace),
}

/// The ways in which a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
    /// Results are in `Cx::results`.
    Return,
    /// A call signalled: handlers around it look at it.
    Signalled,
    /// The `signal` statement: leaves the function.
    Raised,
    /// The `exit` statement: only handlers of this function look at it.
    Exit,
    /// The loop that this iterator serves was left.
    Left,
    Killed,
    /// The function goes on otherwise: it waits, or machine code does it ([`Run::land`]).
    Landed,
}

/// The interpreter of one image.
pub struct Interp {
    pub(crate) image: Arc<Image>,
    funcs: Box<[OnceLock<Arc<Prepared>>]>,
    /// The entries of loops' bodies by the number of their variables.
    pub(crate) bodies: [Code; YIELDS_MAX + 1],
    pub(crate) hot_steps: u64,
    nodes: Nodes,
}

impl Interp {
    /// An interpreter for a linked program; becomes that program's interpreter.
    pub fn new(image: Arc<Image>) -> Arc<Interp> {
        Interp::with_hot_steps(image, HOT_STEPS)
    }

    /// The same with nodes of one kind.
    pub fn with_nodes(image: Arc<Image>, nodes: Nodes) -> Arc<Interp> {
        Interp::with(image, HOT_STEPS, nodes)
    }

    /// The same with a threshold of its own in place of [`HOT_STEPS`]: with 0 structures are
    /// compiled at their first run, with `u64::MAX` never.
    pub fn with_hot_steps(image: Arc<Image>, hot_steps: u64) -> Arc<Interp> {
        Interp::with(image, hot_steps, Nodes::Special)
    }

    /// The same with a threshold and nodes of one kind.
    pub fn with(image: Arc<Image>, hot_steps: u64, nodes: Nodes) -> Arc<Interp> {
        let funcs = image.program().funcs.iter().map(|_| OnceLock::new()).collect();
        // A body stores the values in its frame before anything else happens: its entry need not
        // keep them.
        let bodies = std::array::from_fn(|values| image.native_entry(BODIES[values], 1 + values, 0));
        let interp = Arc::new(Interp { image: image.clone(), funcs, bodies, hot_steps, nodes });
        image.set_interpreter(interp.clone());
        interp
    }

    pub(crate) fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Prepares a verified batch or procedure; `procedures` are the prepared forms of those that it
    /// may call.
    pub fn prepare(&self, func: Arc<Func>, procedures: &[Arc<Prepared>]) -> Prepared {
        let mut prepared = prepare(&self.image, &func, procedures, None, self.nodes);
        prepared.structure = Some(Structure::new(func, procedures, self.hot_steps));
        prepared
    }

    pub(crate) fn func(&self, func: FuncId) -> &Arc<Prepared> {
        self.funcs[func.index()].get_or_init(|| {
            let function = &self.image.program().funcs[func];
            Arc::new(prepare(&self.image, function, &[], Some(func), self.nodes))
        })
    }

    /// Runs a batch or procedure.
    ///
    /// # Safety
    /// `cx` belongs to this interpreter's image, and `args` are words of the types of the
    /// parameters.
    pub unsafe fn run(&self, cx: &mut Cx, prepared: &Prepared, args: &[Word]) -> BatchEnd {
        debug_assert_eq!(args.len(), prepared.params);
        let structure = prepared.structure.as_ref();
        if let Some(code) = structure.and_then(|s| s.code(&self.image)) {
            // SAFETY: promised by the caller, and the code is that of `prepared`.
            return run_code(cx, unsafe { Entry::new(prepared, code, args) });
        }
        let fuel = cx.fuel;
        let cx: *mut Cx = cx;
        let mut run = Run::new(self, cx, std::ptr::null());
        run.client = true;
        run.meter = structure.map_or(Meter::NONE, |s| s.meter(fuel));
        let flow = run.function(prepared, args);
        let mut trace = std::mem::take(&mut run.trace);
        trace.iterations.reverse();
        if let Some(rounds) = run.failed_in.take() {
            trace.iterations = rounds.into_iter().map(u64::from).collect();
        }
        let fuel = run.cx().fuel;
        if let Some(structure) = structure {
            structure.count(&mut run.meter, fuel);
        }
        // SAFETY: the context outlives the run.
        let cx = unsafe { &mut *cx };
        match flow {
            Flow::Next => BatchEnd::Done(0),
            Flow::Return => BatchEnd::Done(cx.results[0]),
            Flow::Killed => BatchEnd::Killed(trace),
            _ => BatchEnd::Signalled(trace),
        }
    }
}

/// The code of a structure with the words of its parameters.
#[derive(Clone, Copy)]
struct Entry<'e> {
    prepared: &'e Prepared,
    code: Code,
    args: &'e [Word],
}

impl<'e> Entry<'e> {
    /// Makes an entry.
    ///
    /// # Safety
    /// `code` is that of `prepared`, and `args` are words of the types of its parameters.
    #[inline(always)]
    unsafe fn new(prepared: &'e Prepared, code: Code, args: &'e [Word]) -> Entry<'e> {
        Entry { prepared, code, args }
    }

    /// Enters the code.
    fn enter(self, cx: &mut Cx) -> Ret {
        let fuel = cx.fuel;
        // SAFETY: the entry has words of the right types; a batch takes the address of its words,
        // and a procedure that has code takes few enough.
        let ret = unsafe {
            match self.prepared.kind {
                FuncKind::Batch => enter(self.code, cx, &[self.args.as_ptr() as Word]),
                _ => enter(self.code, cx, self.args),
            }
        };
        // The code has taken off the units that were no calls.
        cx.calls = cx.calls.wrapping_add((fuel - cx.fuel) as u64);
        ret
    }
}

/// Runs a batch or a procedure by itself as code.
fn run_code(cx: &mut Cx, entry: Entry<'_>) -> BatchEnd {
    cx.trace.clear();
    let ret = entry.enter(cx);
    let trace = || {
        let (site, rounds) = cx.trace.place();
        Trace { site: Site(site), iterations: rounds.into() }
    };
    match ret.outcome() {
        Outcome::Returned if entry.prepared.results == 0 => BatchEnd::Done(0),
        Outcome::Returned => BatchEnd::Done(ret.value),
        Outcome::Killed => BatchEnd::Killed(trace()),
        Outcome::Signalled | Outcome::Pending | Outcome::Left => BatchEnd::Signalled(trace()),
    }
}

impl Interpreter for Interp {
    fn node_host(&self) -> &'static dyn NodeHost {
        actors::HOST
    }

    unsafe fn call(&self, cx: *mut Cx, func: FuncId, args: &[Word]) -> Ret {
        let prepared = self.func(func);
        let method = prepared.kind.has_receiver();
        // The first word of a routine is its descriptor, the last of an iterator its closure.
        let args = if method { args } else { &args[1..] };
        let (args, closure) = match prepared.iterator {
            true => (&args[..args.len() - 1], args[args.len() - 1] as *const Closure),
            false => (args, std::ptr::null()),
        };
        if prepared.waits {
            // SAFETY: `cx` is the current context.
            return actors::begin(unsafe { &mut *cx }, func, args, 0);
        }
        let mut run = Run::new(self, cx, closure);
        let flow = run.function(prepared, args);
        let site = run.failed_site();
        // SAFETY: `cx` is the current context.
        let cx = unsafe { &mut *cx };
        match flow {
            Flow::Next | Flow::Break | Flow::Continue => Ret::NOTHING,
            Flow::Return => Ret::of(if prepared.results > 0 { cx.results[0] } else { 0 }),
            Flow::Raised => Ret::SIGNALLED,
            Flow::Signalled | Flow::Exit => cx.failed_at(func, site),
            Flow::Left => Ret::LEFT,
            Flow::Killed => Ret::KILLED,
            Flow::Landed => unreachable!("only a script waits"),
        }
    }

    unsafe fn go_on(&self, cx: *mut Cx, running: Word, path: &[u32], came: Option<Came>) -> Ret {
        // SAFETY: the runtime hands over the join of a function, which it keeps.
        self.run_script(cx, unsafe { Join::new(running) }, path, came)
    }

    fn lay_out(&self, func: FuncId) {
        self.func(func);
    }

    fn hot_steps(&self) -> u64 {
        self.hot_steps
    }
}

/// Words before the variables of an activation: with them it is an environment of code
/// ([`environment`]).
const HEAD: usize = environment::VARS as usize;

/// The words of one activation, but for the [`HEAD`].
///
/// Places were made by `prepare`, which makes the template as long as the largest of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame(pub(crate) *mut Word);

impl Frame {
    #[inline(always)]
    pub(crate) fn get(self, place: Place) -> Word {
        // SAFETY: see `Frame`.
        unsafe { *self.0.add(place as usize) }
    }

    #[inline(always)]
    pub(crate) fn set(self, place: Place, value: Word) {
        // SAFETY: see `Frame`.
        unsafe { *self.0.add(place as usize) = value }
    }

    /// The words as the environment of code, of activations that [`Run::function`] makes.
    pub(crate) fn environment(self) -> *mut Word {
        self.0.wrapping_sub(HEAD)
    }

    /// A word of the environment before the variables.
    pub(crate) fn environment_word(self, word: u32) -> Word {
        debug_assert!((word as usize) < HEAD);
        // SAFETY: `Run::function` makes the activations of structures with these words.
        unsafe { *self.environment().add(word as usize) }
    }
}

pub(crate) struct Run<'i> {
    pub(crate) interp: &'i Interp,
    pub(crate) cx: *mut Cx,
    pub(crate) trace: Trace,
    /// True if the trace has the failing call already.
    pub(crate) failed: bool,
    /// The rounds of the loops by which the client finds a failure, if they were known before it
    /// was raised.
    pub(crate) failed_in: Option<SmallVec<[u32; 4]>>,
    /// In code that clients send: the account of the structure under way.
    pub(crate) meter: Meter,
    /// True if this runs for a client, and not as a method or routine that may wait.
    pub(crate) client: bool,
    /// The requests whose replies functions under way wait for.
    pub(crate) open: Vec<OpenRequest>,
    /// In code that asks actors: the rounds of the loops around, from the outermost.
    pub(crate) rounds: SmallVec<[u32; 4]>,
    pub(crate) outer: Option<Outer>,
    /// The closure of the loop that an iterator serves.
    closure: *const Closure,
    /// The join of a function that may wait, or 0.
    pub(crate) join: Option<Join>,
    /// The way to where a function goes on, the innermost step first ([`bifrost_ir::ways`]).
    pub(crate) path: SmallVec<[u32; 8]>,
    /// True if it is on its way to where it goes on.
    pub(crate) resuming: bool,
    /// The outcome of the message of the statement that it goes on at, if it began as machine code.
    pub(crate) came: Option<Came>,
}

impl<'i> Run<'i> {
    pub(crate) fn new(interp: &'i Interp, cx: *mut Cx, closure: *const Closure) -> Run<'i> {
        Run {
            interp,
            cx,
            trace: Trace::default(),
            failed: false,
            failed_in: None,
            meter: Meter::NONE,
            client: false,
            open: Vec::new(),
            rounds: SmallVec::new(),
            outer: None,
            closure,
            join: None,
            path: SmallVec::new(),
            resuming: false,
            came: None,
        }
    }
}

impl Run<'_> {
    #[inline(always)]
    pub(crate) fn cx(&mut self) -> &mut Cx {
        // SAFETY: the context is alive during the run and used by this thread only; no reference to
        // it is kept across calls.
        unsafe { &mut *self.cx }
    }

    fn function(&mut self, prepared: &Prepared, args: &[Word]) -> Flow {
        if self.cx().must_attend() {
            match self.attend(Site::default()) {
                Flow::Next => {}
                // The function did not begin: the failure is its caller's.
                Flow::Signalled => return Flow::Raised,
                flow => return flow,
            }
        }
        let mut words: SmallVec<[Word; 28]> = smallvec![0; HEAD];
        words.extend_from_slice(&prepared.template);
        words[HEAD..][..prepared.params].copy_from_slice(args);
        let frame = Frame(words.as_mut_ptr().wrapping_add(HEAD));
        let mut known = roots::Frame::new(frame.environment(), &prepared.references);
        // SAFETY: the words and the places are there until the end of this function, and the guard
        // goes before them.
        let _known = unsafe { known.link(self.cx) };
        let flow = self.block(prepared, frame, &prepared.body);
        if !self.open.is_empty() {
            self.close(frame);
        }
        flow
    }

    /// Returns the meaning of a call that did not return here; notes the call if it is the first to
    /// fail.
    #[cold]
    pub(crate) fn failed(&mut self, ret: Ret, site: Site) -> Flow {
        if !self.failed {
            self.failed = true;
            self.failed_in = None;
            self.trace.site = site;
            self.trace.iterations.clear();
        }
        match ret.outcome() {
            Outcome::Signalled => Flow::Signalled,
            Outcome::Left => Flow::Left,
            Outcome::Returned | Outcome::Pending | Outcome::Killed => Flow::Killed,
        }
    }

    /// The site of the statement that has failed.
    pub(crate) fn failed_site(&self) -> Site {
        if self.failed { self.trace.site } else { Site::default() }
    }

    #[cold]
    pub(crate) fn attend(&mut self, site: Site) -> Flow {
        let ret = self.cx().attend();
        if ret.returned() { Flow::Next } else { self.failed(ret, site) }
    }

    #[cold]
    pub(crate) fn op_failed(&mut self, error: OpError, site: Site) -> Flow {
        let ret = self.op_signals(error);
        self.failed(ret, site)
    }

    /// Applies an operation to the words of a call.
    // Out of line: the frame of `call` is on the stack once for each call under way.
    #[inline(never)]
    fn apply_op(&mut self, op: Op, words: &[Word]) -> Ret {
        match apply(op, words[0], words[words.len() - 1]) {
            Ok(value) => Ret::of(value),
            Err(error) => self.op_signals(error),
        }
    }

    /// Signals the exception of an operation.
    #[cold]
    fn op_signals(&mut self, error: OpError) -> Ret {
        let cx = self.cx();
        let signals = *cx.image().signals();
        cx.signal(match error {
            OpError::Overflow => signals.overflow,
            OpError::Zero => signals.zero,
            OpError::Bounds => signals.bounds,
            OpError::IllegalChar => signals.illegal_char,
        })
    }

    /// Counts a call in code that clients send, and takes its unit of fuel.
    #[inline(always)]
    fn meter(&mut self, function: &Prepared, site: Site) -> Flow {
        self.cx().calls += function.cost as u64;
        self.burn(function, site)
    }

    /// Takes a unit of fuel in code that clients send, for a call or for a round of a loop.
    #[inline(always)]
    pub(crate) fn burn(&mut self, function: &Prepared, site: Site) -> Flow {
        let cx = self.cx();
        cx.fuel -= function.cost;
        if cx.fuel < 0 { self.out_of_fuel(site) } else { Flow::Next }
    }

    #[cold]
    fn out_of_fuel(&mut self, site: Site) -> Flow {
        let ret = self.cx().kill(Kill::Fuel);
        self.failed(ret, site)
    }

    pub(crate) fn block(&mut self, function: &Prepared, frame: Frame, nodes: &[Node]) -> Flow {
        let from = if self.resuming { self.next_step() as usize } else { 0 };
        for node in nodes.iter().skip(from) {
            let flow = match node {
                Node::Move { dst, src } => {
                    frame.set(*dst, frame.get(*src));
                    continue;
                }
                Node::Op { op, dst, a, b, site } => match apply(*op, frame.get(*a), frame.get(*b)) {
                    Ok(value) => {
                        frame.set(*dst, value);
                        self.meter(function, *site)
                    }
                    Err(error) => self.op_failed(error, *site),
                },
                Node::Method0 { slot, receiver, dst, site } => {
                    let receiver = frame.get(*receiver);
                    // SAFETY: the function is verified: the receiver has the slot's method, which
                    // takes these words.
                    let ret = unsafe { enter(Table::of(receiver).entry(*slot), self.cx, &[receiver]) };
                    self.finish(function, frame, *dst, ret, *site)
                }
                Node::Method1 { slot, receiver, a, dst, site } => {
                    let receiver = frame.get(*receiver);
                    let args = [receiver, frame.get(*a)];
                    // SAFETY: as above.
                    let ret = unsafe { enter(Table::of(receiver).entry(*slot), self.cx, &args) };
                    self.finish(function, frame, *dst, ret, *site)
                }
                Node::Method2 { slot, receiver, a, b, dst, site } => {
                    let receiver = frame.get(*receiver);
                    let args = [receiver, frame.get(*a), frame.get(*b)];
                    // SAFETY: as above.
                    let ret = unsafe { enter(Table::of(receiver).entry(*slot), self.cx, &args) };
                    self.finish(function, frame, *dst, ret, *site)
                }
                Node::Call(call) => self.call(function, frame, call),
                Node::New { table, fields, dst, site } => {
                    let values: SmallVec<[Word; 8]> = fields.iter().map(|p| frame.get(*p)).collect();
                    match self.cx().new_object(table, &values) {
                        Ok(object) => {
                            frame.set(*dst, object);
                            continue;
                        }
                        Err(full) => {
                            let ret = self.cx().out_of_memory(full);
                            self.failed(ret, *site)
                        }
                    }
                }
                Node::NewSequence { table, elements, dst, site } => {
                    let values: SmallVec<[Word; 8]> = elements.iter().map(|p| frame.get(*p)).collect();
                    match self.cx().new_sequence(table, &[&values]) {
                        Ok(object) => {
                            frame.set(*dst, object);
                            continue;
                        }
                        Err(full) => {
                            let ret = self.cx().out_of_memory(full);
                            self.failed(ret, *site)
                        }
                    }
                }
                Node::Get { dst, object, field } => {
                    // SAFETY: the function is verified: the word is a reference, and the frame
                    // keeps the object.
                    let object = unsafe { Object::new(frame.get(*object)) };
                    let opened = self.cx().opened(object);
                    if opened.returned() {
                        // SAFETY: as above: the object's class has the field.
                        frame.set(*dst, unsafe { object::get(object.word(), *field as usize) });
                        continue;
                    }
                    self.failed(opened, Site::default())
                }
                Node::Set { object, field, value } => {
                    // SAFETY: as above.
                    let object = unsafe { Object::new(frame.get(*object)) };
                    let opened = match object.mode() {
                        Mode::Ordinary => Ret::NOTHING,
                        _ => self.cx().open_to_change(object),
                    };
                    if opened.returned() {
                        // SAFETY: as above, and the value has the field's type.
                        unsafe { object::set(object.word(), *field as usize, frame.get(*value)) };
                        continue;
                    }
                    self.failed(opened, Site::default())
                }
                Node::If(choice) => {
                    let then = match self.resuming {
                        true => self.next_step() == 0,
                        false => frame.get(choice.test) != 0,
                    };
                    let block = if then { &choice.then } else { &choice.otherwise };
                    self.block(function, frame, block)
                }
                Node::TypeIf(choice) => {
                    let object = frame.get(choice.object);
                    let then = match self.resuming {
                        true => self.next_step() == 0,
                        // SAFETY: the function is verified: the word is a reference.
                        false => unsafe { Table::of(object) }.info().has_type(choice.ty),
                    };
                    if then && !self.resuming {
                        frame.set(choice.var, object);
                    }
                    let block = if then { &choice.then } else { &choice.otherwise };
                    self.block(function, frame, block)
                }
                Node::While(each) => self.while_loop(function, frame, each),
                Node::ForEach(each) => self.for_each(function, frame, each),
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
                Node::Return(values) => {
                    for (i, place) in values.iter().enumerate() {
                        self.cx().results[i] = frame.get(*place);
                    }
                    Flow::Return
                }
                Node::Yield(values) => {
                    let values: SmallVec<[Word; 8]> = values.iter().map(|p| frame.get(*p)).collect();
                    // SAFETY: an iterator runs with the closure of the loop that it serves, which
                    // takes what it yields.
                    let ret = unsafe { (*self.closure).step(self.cx, &values) };
                    if ret.returned() {
                        continue;
                    }
                    self.failed(ret, Site::default())
                }
                Node::Signal { signal, values, site } => {
                    if *signal == SignalId::FAILURE {
                        self.cx().signals_failure(function.id, *site);
                    }
                    self.raise(frame, *signal, values);
                    Flow::Raised
                }
                Node::Exit { signal, values } => {
                    self.raise(frame, *signal, values);
                    Flow::Exit
                }
                Node::Except(except) => self.except(function, frame, except),
                Node::Transaction(transaction) => self.transaction(function, frame, transaction),
                Node::Create(create) => self.create(frame, create),
                Node::Send(message) => self.send(frame, message),
                Node::Request(request) => self.request(frame, request),
                Node::Await(wait) if self.client => self.client_wait(frame, &wait.pending),
                Node::Await(wait) => self.wait(wait),
                Node::Reply(value) => self.reply(frame, *value),
                Node::Delegate(message) => self.delegate(frame, message),
                Node::ReplyTo { table, dst, site } => self.reply_to(frame, table, *dst, *site),
                Node::Deliver { replier, value } => self.deliver(frame, *replier, *value),
                Node::Select(select) => self.select(function, frame, select),
                Node::SelfCall(call) => self.self_call(frame, call),
            };
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn raise(&mut self, frame: Frame, signal: SignalId, values: &[Place]) {
        let cx = self.cx();
        cx.signal_id = u64::from(signal.as_u32());
        for (i, place) in values.iter().enumerate() {
            cx.signal_values[i] = frame.get(*place);
        }
    }

    #[inline(always)]
    fn finish(&mut self, function: &Prepared, frame: Frame, dst: Place, ret: Ret, site: Site) -> Flow {
        if !ret.returned() {
            return self.failed(ret, site);
        }
        frame.set(dst, ret.value);
        self.meter(function, site)
    }

    /// Enters the iterator of a loop.
    pub(crate) fn enter_iterator(
        &mut self,
        function: &Prepared,
        frame: Frame,
        each: &ForEach,
        closure: &Closure,
    ) -> Ret {
        let mut words = words(frame, &each.call);
        words.push(closure as *const Closure as Word);
        let mut known = roots::Frame::new(words.as_ptr(), &each.references);
        // SAFETY: the words and the places are there until the end of this function, and the guard
        // goes before them.
        let _known = unsafe { known.link(self.cx) };
        self.enter(function, &each.call, &words)
    }

    /// Enters the target that a call names.
    fn enter(&mut self, function: &Prepared, call: &Call, words: &[Word]) -> Ret {
        let cx = self.cx;
        // SAFETY: the function is verified: each target takes these words.
        unsafe {
            match &call.target {
                Target::Slot(slot) => enter(Table::of(words[0]).entry(*slot), cx, words),
                Target::Native(code) => enter(*code, cx, words),
                Target::Op(op) => self.apply_op(*op, words),
                Target::Routine(desc) => enter(desc.code(), cx, words),
                Target::Interpret(slot) => {
                    let opened = open_receiver(&mut *cx, *slot, Object::new(words[0]));
                    if !opened.returned() {
                        return opened;
                    }
                    let table = Table::of(words[0]);
                    match self.interp.image.method_func(table.info(), *slot) {
                        Some(func) => self.interp.call(cx, func, words),
                        None => enter(table.entry(*slot), cx, words),
                    }
                }
                Target::InterpretFunc(func) => self.interp.call(cx, *func, words),
                Target::Procedure(procedure) => self.procedure(procedure, words),
                Target::Itself => self.procedure(function, words),
            }
        }
    }

    /// Runs a batched procedure. An exception that it does not handle is its caller's, with the
    /// call inside the procedure named.
    fn procedure(&mut self, procedure: &Prepared, args: &[Word]) -> Ret {
        if self.cx().procedure_depth >= self.cx().procedure_depth_max {
            return self.cx().procedures_too_deep();
        }
        self.cx().procedure_depth += 1;
        let structure = procedure.structure.as_ref();
        if let Some(code) = structure.and_then(|s| s.code(&self.interp.image)) {
            // SAFETY: the function is verified: the words are the procedure's, whose code it is.
            let entry = unsafe { Entry::new(procedure, code, args) };
            let ret = entry.enter(self.cx());
            self.cx().procedure_depth -= 1;
            return ret;
        }
        let fuel = self.cx().fuel;
        let around = self.meter;
        self.meter = structure.map_or(Meter::NONE, |s| s.meter(fuel));
        let flow = self.function(procedure, args);
        let fuel = self.cx().fuel;
        if let Some(structure) = structure {
            structure.count(&mut self.meter, fuel);
        }
        self.meter = around;
        // A failure inside is told of the call of the procedure, whose numbers the client knows.
        self.failed = false;
        self.failed_in = None;
        let cx = self.cx();
        cx.procedure_depth -= 1;
        match flow {
            Flow::Return => Ret::of(cx.results[0]),
            Flow::Next | Flow::Break | Flow::Continue => Ret::NOTHING,
            Flow::Killed => Ret::KILLED,
            Flow::Landed => unreachable!("only a script waits"),
            Flow::Left => Ret::LEFT,
            Flow::Signalled | Flow::Raised | Flow::Exit => Ret::SIGNALLED,
        }
    }

    fn call(&mut self, function: &Prepared, frame: Frame, call: &Call) -> Flow {
        let batched = matches!(call.target, Target::Procedure(_) | Target::Itself);
        let outermost = batched && self.outer.is_none();
        if outermost {
            self.outer = Some(Outer { site: call.site, loops: self.rounds.len() });
        }
        let ret = self.enter(function, call, &words(frame, call));
        if outermost {
            self.outer = None;
        }
        if !ret.returned() {
            return self.failed(ret, call.site);
        }
        if let [first, rest @ ..] = &*call.dsts {
            frame.set(*first, ret.value);
            for (i, place) in rest.iter().enumerate() {
                frame.set(*place, self.cx().results[i + 1]);
            }
        }
        self.meter(function, call.site)
    }

    fn transaction(&mut self, function: &Prepared, frame: Frame, transaction: &Transaction) -> Flow {
        let begun = self.cx().begin_transaction();
        if !begun.returned() {
            return self.failed(begun, transaction.site);
        }
        let flow = self.block(function, frame, &transaction.body);
        let ended = match flow {
            Flow::Next | Flow::Break | Flow::Continue | Flow::Return => self.cx().commit_transaction(),
            Flow::Killed => self.cx().abort_transaction(Ret::KILLED),
            Flow::Signalled | Flow::Raised | Flow::Exit | Flow::Left | Flow::Landed => {
                self.cx().abort_transaction(Ret::SIGNALLED);
                return flow;
            }
        };
        if ended.returned() { flow } else { self.failed(ended, transaction.site) }
    }

    fn except(&mut self, function: &Prepared, frame: Frame, except: &Except) -> Flow {
        let part = if self.resuming { self.next_step() as usize } else { 0 };
        if let Some(arm) = part.checked_sub(1) {
            return self.block(function, frame, &except.arms[arm].body);
        }
        let flow = self.block(function, frame, &except.body);
        if !matches!(flow, Flow::Signalled | Flow::Exit) {
            return flow;
        }
        let id = self.cx().signalled();
        let takes = |arm: &&Arm| arm.signals.is_empty() || arm.signals.contains(&id);
        let Some(at) = except.arms.iter().position(|arm| takes(&arm)) else { return flow };
        let arm = &except.arms[at];
        if arm.signals.is_empty() {
            // `others`: the variable takes the exception's name.
            if let [place] = *arm.vars {
                let name = self.interp.image.program().types.signal_name(id);
                match self.cx().new_string(name) {
                    Ok(word) => frame.set(place, word),
                    Err(full) => {
                        let ret = self.cx().out_of_memory(full);
                        return self.failed(ret, Site::default());
                    }
                }
            }
        } else {
            for (i, place) in arm.vars.iter().enumerate() {
                frame.set(*place, self.cx().signal_values[i]);
            }
        }
        self.failed = false;
        self.failed_in = None;
        self.block(function, frame, &arm.body)
    }
}

/// The words that a call passes but for a closure.
#[inline]
fn words(frame: Frame, call: &Call) -> SmallVec<[Word; 8]> {
    let mut words: SmallVec<[Word; 8]> = SmallVec::new();
    match call.target {
        Target::Routine(desc) => words.push(desc as *const RoutineDesc as Word),
        // An interpreted function does not look at it.
        Target::InterpretFunc(_) => words.push(0),
        _ => {}
    }
    words.extend(call.args.iter().map(|p| frame.get(*p)));
    words
}
