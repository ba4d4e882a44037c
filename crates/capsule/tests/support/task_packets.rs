//! Tasks whose packets are changed on their way from a node: whatever comes, no thread of the
//! server ends, the node's run ends, its heap stays whole, and no actor or invocation is left when
//! the node is gone.

mod change;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex as Lock, OnceLock, PoisonError};

use bifrost_actors::{Names, Network, Observer, Packets, Placement, Received, Wait};
use bifrost_capsule::tasks::TasksAlone;
use bifrost_engine::{Engine, Mode};
use bifrost_native::{ActorRef, OneOf, Registry, Reply, Seq, Signals, Struct, Task, Text, theta_actor};
use bifrost_runtime::Cx;
use bifrost_theta::{Options, Sources, compile};

use change::{Changes, limits, on_a_deep_stack};

const PROGRAM: &str = "Pair = struct[name: string, parts: sequence[int]]
Way = oneof[none: null, some: int]
Box = actor native \"packets::Box\"
  new (first: string)
  put (what: string, really: bool) returns (int)
  pairs (pairs: sequence[Pair], r: real) returns (sequence[Pair])
  half (way: Way) returns (Way) signals (odd (int, string))
  later () returns (int)
  let_go (n: int) returns (int)
  twin (first: string) returns (Box)
  same (other: Box) returns (Box)
end Box
Other = actor native \"packets::Other\"
  new ()
  look (at: Box) returns (int)
end Other
main () returns (int)
  b: Box := Box.new(\"one\")
  c: Box := Box.new(\"a text that is longer than what is written where it is referred to\")
  o: Other := Other.new()
  send b.put(\"two\", true)
  x: int := b.put(\"three\", false)
  p: Pair := Pair{name: \"x\", parts: sequence_of[int](.. 1, 2)}
  q: Pair := Pair{name: \"y\", parts: sequence_of[int](..)}
  x := x + b.pairs(sequence_of[Pair](.. p, q, p), 1.5).length()
  tagcase c.half(make_some(8)) when some (n: int): x := x + n when none: x := x + 100 end
  begin
    w: Way := c.half(make_some(7))
    tagcase w when some (n: int): x := x + n others: end
  end except when odd (n: int, why: string): x := x + n end
  t: Box := b.twin(\"twin\")
  x := x + t.put(\"more\", true) + o.look(t) + o.look(b.same(c))
  % The two answers are independent, so both requests are under way.
  l: int := c.later()
  m: int := c.let_go(5)
  x := x + l + m
  return (x)
end main
make_some (n: int) returns (Way)
  return (Way{some: n})
end make_some";

/// The result of `main` if nothing is changed.
const RESULT: u64 = 26;

#[derive(Clone, Struct)]
struct Pair {
    name: Text,
    parts: Seq<i64>,
}

#[derive(OneOf)]
enum Way {
    None,
    Some(i64),
}

#[derive(Signals)]
enum Odd {
    Odd(i64, Text),
}

#[derive(Default)]
struct Kept {
    texts: Vec<String>,
    waiting: Vec<Reply<i64>>,
}

struct Box1(Lock<Kept>);

impl Box1 {
    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[theta_actor("packets::Box", concurrency = 2)]
impl Box1 {
    fn new(_task: &Task, first: Text) -> Box1 {
        Box1(Lock::new(Kept { texts: vec![first.to_string()], waiting: Vec::new() }))
    }

    fn put(&self, _task: &Task, what: Text, really: bool) -> i64 {
        self.with(|kept| {
            kept.texts.extend(really.then(|| what.to_string()));
            kept.texts.len() as i64
        })
    }

    fn pairs(&self, _task: &Task, pairs: Seq<Pair>, _r: f64) -> Seq<Pair> {
        pairs.iter().rev().cloned().collect()
    }

    fn half(&self, _task: &Task, way: Way) -> Result<Way, Odd> {
        match way {
            Way::Some(n) if n % 2 == 0 => Ok(Way::Some(n / 2)),
            Way::Some(n) => Err(Odd::Odd(n, Text::from("is odd"))),
            Way::None => Ok(Way::None),
        }
    }

    fn later(&self, _task: &Task, reply: Reply<i64>) {
        self.with(|kept| kept.waiting.push(reply));
    }

    fn let_go(&self, _task: &Task, n: i64) -> i64 {
        let waiting = self.with(|kept| std::mem::take(&mut kept.waiting));
        let count = waiting.len() as i64;
        waiting.into_iter().for_each(|reply| reply.send(n));
        count
    }

    fn twin(&self, task: &Task, first: Text) -> ActorRef<Box1> {
        let twin = Box1(Lock::new(Kept { texts: vec![first.to_string()], waiting: Vec::new() }));
        task.create(twin).expect("the program declares it")
    }

    fn same(&self, _task: &Task, other: ActorRef<Box1>) -> ActorRef<Box1> {
        other
    }
}

struct Other;

#[theta_actor("packets::Other", concurrency = 0)]
impl Other {
    fn new(_task: &Task) -> Other {
        Other
    }

    fn look(&self, _task: &Task, _at: ActorRef<Box1>) -> i64 {
        1
    }
}

fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let registry = Registry::standard().with_actor::<Box1>().with_actor::<Other>();
        let mut sources = Sources::new();
        sources.add("packets.theta", PROGRAM);
        let options = Options { natives: Some(Arc::new(registry.headings())), ..Options::default() };
        let compiled = compile(&sources, &options);
        let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        Engine::with_natives(program, Mode::Interpreted, registry.natives().clone()).expect("an engine")
    })
}

/// Looks for packets, at most: a run is much shorter.
const LOOKS_MAX: u32 = 10_000;

#[derive(Default)]
struct Wire {
    changes: Changes,
    to_node: VecDeque<Vec<u8>>,
    distrusted: bool,
    looks: u32,
}

/// The way of the node to the tasks.
struct Ours {
    wire: Arc<Lock<Wire>>,
    tasks: Arc<TasksAlone>,
}

impl Ours {
    fn wire<T>(&self, act: impl FnOnce(&mut Wire) -> T) -> T {
        act(&mut self.wire.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands packets to the tasks, which run the messages in them.
    fn hand_over(&self, packets: Vec<u8>) {
        self.tasks.post(0, packets);
        // A packet may name a node that is none.
        let ours = self.tasks.delivered().into_iter().filter(|(to, _)| *to == 0);
        self.wire(|wire| wire.to_node.extend(ours.map(|(_, packets)| packets)));
    }
}

impl Packets for Ours {
    fn post(&mut self, node: u32, packets: Vec<u8>) {
        assert_eq!(node, self.tasks.number());
        let changed = self.wire(|wire| wire.changes.change(&packets));
        self.hand_over(changed);
    }

    fn receive(&mut self, wait: Wait) -> Received {
        loop {
            let (packets, rest) = self.wire(|wire| {
                wire.looks += 1;
                let is_over = wire.distrusted || wire.looks > LOOKS_MAX;
                let packets = if is_over { None } else { wire.to_node.pop_front() };
                let is_last = packets.is_none() && wait != Wait::No && !is_over;
                let rest = is_last.then(|| Vec::from(std::mem::take(&mut wire.changes.data)));
                wire.changes.changed |= rest.as_ref().is_some_and(|rest| !rest.is_empty());
                (packets, rest)
            });
            match (packets, rest) {
                (Some(packets), _) => return Received::Packets(self.tasks.number(), packets),
                // What is left is a batch.
                (None, Some(rest)) if !rest.is_empty() => self.hand_over(rest),
                (None, _) if wait == Wait::No => return Received::Nothing,
                (None, _) => return Received::Over,
            }
        }
    }

    fn has_mail(&mut self) -> bool {
        self.wire(|wire| !wire.to_node.is_empty())
    }

    fn distrust(&mut self, _node: u32, why: &str) -> bool {
        self.wire(|wire| {
            assert!(wire.changes.changed, "the tasks have sent what none send: {why}");
            wire.distrusted = true;
        });
        true
    }
}

impl Placement for Ours {
    fn claim_idle_node(&mut self) -> Option<u32> {
        None
    }

    fn is_idle(&mut self, _node: u32) -> bool {
        true
    }

    fn has_tasks(&self) -> bool {
        true
    }
}

impl Names for Ours {}

impl Observer for Ours {}

/// The outcome of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// True if `main` returned; its result is compared if nothing was changed.
    pub returned: bool,
    /// True if a packet was changed.
    pub changed: bool,
}

/// Runs `main`, and changes packets for the tasks as `data` decides. The rest of `data` is a batch
/// at the end.
pub fn task_packets(data: &[u8]) -> Ended {
    let data = data.to_vec();
    on_a_deep_stack(move || run(&data))
}

fn run(data: &[u8]) -> Ended {
    let engine = engine();
    let limits = limits();
    let tasks = TasksAlone::new(engine, 1).expect("contexts").expect("native actors");
    let tasks = Arc::new(tasks);
    let wire = Arc::new(Lock::new(Wire::default()));
    let ours = Ours { wire: wire.clone(), tasks: tasks.clone() };
    ours.wire(|wire| wire.changes.data = data.iter().copied().collect());
    let mut node = Cx::new(engine.image().clone(), limits, 1, || 0);
    node.set_node(0, 1);
    let network: Box<dyn Network> = Box::new(ours);
    bifrost_actors::set_network(&mut node, network, 1);
    let main = engine.find_entry("main", 0).expect("it has `main`");
    // SAFETY: the context runs this engine's image, and `main` takes nothing.
    let ended = unsafe { engine.call(&mut node, main, &[]) };
    // What came is in the heap, and must be whole.
    node.collect();
    let wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(wire.looks <= LOOKS_MAX + 1, "the run does not end");
    wire.changes.check(&ended, RESULT);
    let changed = wire.changes.changed;
    drop(wire);
    // A grant may have named any node.
    tasks.lose(0..u32::MAX);
    assert_eq!(tasks.size(), (0, 0), "actors and invocations that are left");
    Ended { returned: ended.is_ok(), changed }
}
