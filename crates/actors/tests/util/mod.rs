//! Two nodes in one test: their contexts, the packets between them, and one clock. No thread, no
//! engine: the methods of the program are functions of this file.
//!
//! Read [`Pair`] first. A test sends messages by [`Pair::send`] or [`Pair::tell`], lets nodes take
//! steps, moves packets by [`Pair::carry`], and moves the clock by [`advance`].

#![allow(dead_code, reason = "each test file uses a part")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bifrost_actors::{
    self as actors, Actor, Answer, Call, HOST, Join, LANDED, Names, Next, Observer, Packets, Placement,
    Received, Site, Wait, WithActors,
};
use bifrost_ir::text::parse;
use bifrost_ir::verify::verify_program;
use bifrost_ir::{Body, FuncId, MethodRef, TypeId};
use bifrost_runtime::abi::{Outcome, Ret, Word};
use bifrost_runtime::actor_class::JoinLayout;
use bifrost_runtime::engine::{Came, Interpreter};
use bifrost_runtime::node_host::NodeHost;
use bifrost_runtime::roots::Kept;
use bifrost_runtime::{Collect, Cx, Image, Limits};

/// A counter of messages, and a functional actor. The bodies only tell the verifier and the layout
/// of joins about variables; [`Methods`] runs in their place.
const PROGRAM: &str = "class Counter actor
  count: int
  script add (n: int) returns (int)
    reply (n)
    return
  end
  script fail () returns (int)
    reply (1)
    return
  end
  script ask (other: Counter, n: int) returns (int)
    var x: int
    x := request Counter.add(other, n) @1
    await x @2
    reply (x) @3
    return
  end
  script chain (other: Counter, back: Counter) returns (int)
    var x: int
    x := request Counter.ask(other, back, 1) @4
    await x @5
    reply (x) @6
    return
  end
  script hold (other: Counter)
    return
  end
  creator (start: int)
    set Counter.count(self, start)
    return
  end
end
class Worker functional actor
  script double (n: int) returns (int)
    reply (n)
    return
  end
  creator ()
    return
  end
end
routine main ()
  return
end
";

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static LOGGED: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Moves the clock of this test.
pub fn advance(milliseconds: u64) {
    NOW_NS.set(NOW_NS.get() + milliseconds * 1_000_000);
}

fn now_ns() -> u64 {
    NOW_NS.get()
}

fn now_ms() -> i64 {
    (NOW_NS.get() / 1_000_000) as i64
}

/// Returns the lines that were logged since the last call.
pub fn logged() -> Vec<String> {
    LOGGED.take()
}

/// The functions that run in place of an interpreter.
struct Methods {
    image: OnceLock<std::sync::Weak<Image>>,
}

impl Methods {
    fn image(&self) -> Arc<Image> {
        self.image.get().and_then(std::sync::Weak::upgrade).expect("a linked image")
    }

    fn name(&self, func: FuncId) -> String {
        self.image().program().funcs[func].name.clone()
    }

    /// Answers a method that has the words of its variables.
    fn run(&self, cx: &mut Cx, running: Join, path: &[u32]) -> Ret {
        let name = self.name(running.layout().func);
        let actor = running.actor();
        match name.rsplit('.').next().expect("a name") {
            "add" => {
                let count = add(cx, actor.expect("a method of an actor"), running.variable(1));
                actors::answer(cx, running, Answer::Value(count));
                Ret::NOTHING
            }
            "double" => {
                let doubled = 2 * running.variable(1);
                actors::answer(cx, running, Answer::Value(doubled));
                Ret::NOTHING
            }
            "fail" => cx.failure("as it should"),
            "ask" => request(cx, running, path, "add", &[running.variable(1), running.variable(2)]),
            "chain" => request(cx, running, path, "ask", &[running.variable(1), running.variable(2), 1]),
            "hold" => Ret::NOTHING,
            other => panic!("no function for `{other}`"),
        }
    }
}

/// Adds to the variable of a counter.
fn add(_cx: &mut Cx, actor: Actor, n: Word) -> Word {
    // SAFETY: a counter's first field is its count.
    unsafe {
        let count = bifrost_runtime::object::get(actor.word(), 0).wrapping_add(n);
        bifrost_runtime::object::set(actor.word(), 0, count);
        count
    }
}

/// Runs a method that sends one request, awaits it and answers with its result.
fn request(cx: &mut Cx, running: Join, path: &[u32], method: &str, words: &[Word]) -> Ret {
    let layout = running.layout();
    let variable = layout.pending[0] as usize;
    if path.is_empty() {
        let slot = slot(cx, method);
        // SAFETY: the variables of the join are a counter and what the method takes.
        let ret = actors::send(cx, unsafe { Call::new(slot, words) });
        match ret.outcome() {
            Outcome::Returned => running.set_variable(variable, ret.value),
            Outcome::Pending => actors::pend(cx, running, actors::owing_of(ret), 0, None),
            _ => return ret,
        }
        if running.count(layout, 0) > 0 {
            cx.actors().land(Next::Stop(0));
            return Ret { outcome: LANDED, value: 0 };
        }
    }
    let raised =
        actors::first_exception(running, &|_, _| Some(actors::Concerned { raised: true, stays: false }));
    if let Some(kept) = raised {
        return actors::raise_kept(cx, kept);
    }
    let value = running.variable(variable);
    actors::answer(cx, running, Answer::Value(value));
    Ret::NOTHING
}

impl Interpreter for Methods {
    unsafe fn call(&self, cx: *mut Cx, func: FuncId, args: &[Word]) -> Ret {
        // SAFETY: the context is the current one.
        let cx = unsafe { &mut *cx };
        let program = self.image();
        if program.program().funcs[func].kind == bifrost_ir::FuncKind::Script {
            return actors::begin(cx, func, args, 0);
        }
        // A creator: its argument is the count, which is not below 0.
        if args.len() > 1 && (args[1] as i64) < 0 {
            return cx.failure("no such start");
        }
        if args.len() > 1 {
            // SAFETY: the actor has the field.
            unsafe { bifrost_runtime::object::set(args[0], 0, args[1]) };
        }
        Ret::NOTHING
    }

    unsafe fn go_on(&self, cx: *mut Cx, running: Word, path: &[u32], came: Option<Came>) -> Ret {
        assert!(came.is_none(), "no machine code leaves here");
        // SAFETY: the context is the current one, and the runtime keeps the join.
        let (cx, running) = unsafe { (&mut *cx, Join::new(running)) };
        match self.run(cx, running, path) {
            ret if ret.outcome() == Outcome::Signalled => cx.unhandled(),
            ret => ret,
        }
    }

    fn lay_out(&self, func: FuncId) {
        let image = self.image();
        let words = vec![0; image.program().funcs[func].vars.len()];
        image.set_join_layout(func, || JoinLayout::new(&image, func, &words));
    }

    fn node_host(&self) -> &'static dyn NodeHost {
        HOST
    }

    fn hot_steps(&self) -> u64 {
        u64::MAX
    }
}

fn image() -> Arc<Image> {
    let program = parse(PROGRAM).expect("a text that reads").program;
    verify_program(&program).expect("a valid program");
    let image = bifrost_runtime::link(program, None).expect("linking");
    let methods = Arc::new(Methods { image: OnceLock::new() });
    let _ = methods.image.set(Arc::downgrade(&image));
    image.set_interpreter(methods);
    image
}

/// Returns the type of a class.
pub fn class(cx: &Cx, name: &str) -> TypeId {
    cx.image().program().types.find(name).expect("a class of the program")
}

/// Returns the method of a counter, or of a worker.
pub fn method(cx: &Cx, name: &str) -> MethodRef {
    let types = &cx.image().program().types;
    let of = |class: &str| types.find_method(types.find(class)?, name);
    of("Counter").or_else(|| of("Worker")).expect("a method of the program")
}

/// Returns the slot of such a method.
pub fn slot(cx: &Cx, name: &str) -> u32 {
    cx.image().dispatch().slot(method(cx, name))
}

/// The packets between the nodes of a pair, and what else a network knows.
#[derive(Default)]
pub struct Wire {
    /// By node: packets that were posted to it and were not carried.
    pub posted: [VecDeque<(u32, Vec<u8>)>; 2],
    /// By node: what it receives next.
    pub mail: [VecDeque<Received>; 2],
    /// Reports of nodes that have sent malformed packets.
    pub distrusted: Vec<(u32, String)>,
    /// The times for which nodes were willing to wait.
    pub waits: Vec<Wait>,
}

/// The wire as both nodes share it.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Wire>>);

impl Shared {
    /// Locks the wire.
    pub fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Port {
    node: u32,
    wire: Shared,
}

impl Packets for Port {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        self.wire.lock().posted[node as usize].push_back((self.node, packets));
    }

    fn receive(&mut self, wait: Wait) -> Received {
        let mut wire = self.wire.lock();
        if wait != Wait::No {
            wire.waits.push(wait);
        }
        wire.mail[self.node as usize].pop_front().unwrap_or(match wait {
            Wait::No | Wait::For(_) | Wait::IdleFor(_) => Received::Nothing,
            Wait::Idle => Received::Over,
        })
    }

    fn has_mail(&mut self) -> bool {
        !self.wire.lock().mail[self.node as usize].is_empty()
    }

    fn distrust(&mut self, node: u32, why: &str) -> bool {
        self.wire.lock().distrusted.push((node, why.to_owned()));
        true
    }
}

impl Placement for Port {
    fn claim_idle_node(&mut self) -> Option<u32> {
        None
    }

    fn is_idle(&mut self, _node: u32) -> bool {
        // Packets leave at once.
        true
    }
}

impl Names for Port {}

impl Observer for Port {}

/// Two nodes of one program.
pub struct Pair {
    /// The contexts by node.
    pub nodes: [Box<Cx>; 2],
    /// The packets between them.
    pub wire: Shared,
    /// What the test keeps alive, by node.
    pub kept: [Vec<Kept>; 2],
}

impl Pair {
    /// Makes the nodes. Their clock begins at 0.
    pub fn new() -> Pair {
        Pair::with(|_| {})
    }

    /// Makes the nodes with other limits.
    pub fn with(change: impl FnOnce(&mut Limits)) -> Pair {
        NOW_NS.set(0);
        LOGGED.take();
        let (image, wire) = (image(), Shared::default());
        let mut limits = Limits { collect: Collect::Checked, stack_bytes: 1 << 20, ..Limits::default() };
        change(&mut limits);
        let nodes = [0, 1].map(|node| {
            let mut cx = Cx::new(image.clone(), limits, 1, now_ms);
            cx.set_clock(now_ns);
            cx.set_node(node, 2);
            actors::set_network(&mut cx, Box::new(Port { node, wire: wire.clone() }), 2);
            cx.actors().set_nap(advance);
            cx.actors().set_log(|line| LOGGED.with_borrow_mut(|lines| lines.push(line.to_owned())));
            cx.begin();
            cx
        });
        Pair { nodes, wire, kept: [Vec::new(), Vec::new()] }
    }

    /// Makes a counter on a node, from that node.
    pub fn counter(&mut self, node: usize, start: i64) -> Actor {
        self.create(node, "Counter", &[start as Word], Site::Here)
    }

    /// Makes an actor from a node.
    pub fn create(&mut self, node: usize, name: &str, args: &[Word], site: Site) -> Actor {
        let cx = &mut self.nodes[node];
        let table = cx.image().table_of(class(cx, name));
        let mut words = vec![0];
        words.extend(args);
        let ret = actors::create(cx, table, 0, &mut words, site);
        assert!(ret.returned(), "an actor is made: {ret:?}");
        self.kept[node].push(cx.keep(ret.value));
        // SAFETY: it is a new actor, which is kept.
        unsafe { Actor::new(ret.value) }
    }

    /// Sends a request from a node.
    pub fn send(&mut self, node: usize, to: Actor, name: &str, args: &[Word]) -> Ret {
        let cx = &mut self.nodes[node];
        let words: Vec<Word> = [to.word()].iter().chain(args).copied().collect();
        let slot = slot(cx, name);
        // SAFETY: the tests pass an actor with the method and what it takes.
        actors::send(cx, unsafe { Call::new(slot, &words) })
    }

    /// Sends a message of the past form from a node.
    pub fn tell(&mut self, node: usize, to: Actor, name: &str, args: &[Word]) -> Result<Ret, Ret> {
        let cx = &mut self.nodes[node];
        let words: Vec<Word> = [to.word()].iter().chain(args).copied().collect();
        let slot = slot(cx, name);
        // SAFETY: the tests pass an actor with the method and what it takes.
        actors::send_past(cx, unsafe { Call::new(slot, &words) })
    }

    /// Has a counter on a node ask another one, which the node knows, and returns its join.
    pub fn asking(&mut self, node: usize, from: Actor, name: &str, args: &[Word]) -> Join {
        let ret = self.send(node, from, name, args);
        assert_eq!(ret.outcome(), Outcome::Pending, "the answer comes later");
        self.kept[node].push(self.nodes[node].keep(ret.value));
        // SAFETY: a method that waits owes the answer by its join.
        unsafe { Join::new(ret.value) }
    }

    /// Takes steps on a node until it has none to take. Returns their number.
    pub fn run(&mut self, node: usize) -> usize {
        let mut steps = 0;
        while actors::step_node(&mut self.nodes[node]) == Ok(true) {
            steps += 1;
            assert!(steps < 1_000_000, "a node has no end of steps");
        }
        steps
    }

    /// Carries the packets to a node. Returns the number of batches.
    pub fn carry(&mut self, to: usize) -> usize {
        let mut wire = self.wire.lock();
        let batches: Vec<_> = wire.posted[to].drain(..).collect();
        let count = batches.len();
        wire.mail[to].extend(batches.into_iter().map(|(from, packets)| Received::Packets(from, packets)));
        count
    }

    /// Runs both nodes and carries all packets until nothing moves.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let moved = self.run(0) + self.run(1) + self.carry(0) + self.carry(1);
            if moved == 0 {
                return;
            }
        }
        panic!("the nodes have no end of work");
    }

    /// Notes on a node that others are lost.
    pub fn lose(&mut self, node: usize, lost: Range<u32>) {
        self.wire.lock().mail[node].push_back(Received::Lost(lost));
        self.run(node);
    }

    /// The count of a counter of a node.
    pub fn count(&self, actor: Actor) -> i64 {
        // SAFETY: a counter's first field is its count.
        unsafe { bifrost_runtime::object::get(actor.word(), 0) as i64 }
    }

    /// The text of the failure under way on a node.
    pub fn failure(&self, node: usize) -> String {
        // SAFETY: a failure has a string.
        unsafe { bifrost_runtime::object::text(self.nodes[node].signal_values[0]) }.to_owned()
    }

    /// The packets that wait to be carried to a node, each without its length.
    pub fn packets(&self, to: usize) -> Vec<Vec<u8>> {
        let wire = self.wire.lock();
        let mut found = Vec::new();
        for (_, batch) in &wire.posted[to] {
            let mut rest = &batch[..];
            while let Some((length, behind)) = rest.split_first_chunk::<4>() {
                let (packet, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
                found.push(packet.to_vec());
                rest = behind;
            }
        }
        found
    }
}

/// Returns the body of a method, so that tests can name functions.
pub fn func(cx: &Cx, name: &str) -> FuncId {
    let program = cx.image().program();
    let method = method(cx, name);
    let class = program.classes.values().find(|class| class.ty == method.ty).expect("a class");
    match class.bodies[method.method.as_u32() as usize] {
        Body::Func(func) => func,
        Body::Native(_) => panic!("methods of actors are functions"),
    }
}
