//! Native actors on nodes: values, answers that come later, ends, what runs at once, failures.

#[path = "support/output.rs"]
mod output;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bifrost_actors::WithActors;
use bifrost_capsule::tasks::{ExportSettings, TaskSettings};
use bifrost_engine::{Engine, Mode};
use bifrost_native::{
    ActorRef, Cx, OneOf, Registry, Reply, Seq, Signals, Struct, Task, Text, theta_actor, theta_routine,
};
use bifrost_runtime::Limits;
use bifrost_theta::diagnostic::{Colour, render_all};
use bifrost_theta::{Options, Sources, compile};
use output::{run_on, simulated};
use parking_lot::Mutex;

/// What methods of all tests have counted.
#[derive(Clone, Default)]
struct Counted {
    dropped: Arc<AtomicU32>,
    at_once: Arc<AtomicU32>,
    most_at_once: Arc<AtomicU32>,
}

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
    Failure(String),
}

struct Box1 {
    kept: Mutex<Vec<Text>>,
    waiting: Mutex<Vec<Reply<Result<i64, Odd>>>>,
    counted: Counted,
}

impl Drop for Box1 {
    fn drop(&mut self) {
        self.counted.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[theta_actor("test::Box", concurrency = 3)]
impl Box1 {
    fn new(task: &Task, first: Text) -> Result<Box1, String> {
        if first.is_empty() {
            return Err("the first is empty".to_owned());
        }
        let counted = task.settings().unwrap_or_default();
        Ok(Box1 { kept: Mutex::new(vec![first]), waiting: Mutex::default(), counted })
    }

    fn put(&self, _task: &Task, what: Text) -> i64 {
        let mut kept = self.kept.lock();
        kept.push(what);
        kept.len() as i64
    }

    fn all(&self, _task: &Task) -> String {
        self.kept.lock().iter().map(|text| &**text).collect::<Vec<_>>().join(" ")
    }

    fn clear(&mut self, _task: &Task) -> i64 {
        let kept = self.kept.get_mut();
        let count = kept.len();
        kept.clear();
        count as i64
    }

    fn pairs(&self, _task: &Task, pairs: Seq<Pair>) -> Seq<Pair> {
        let reversed = pairs.iter().rev().map(|pair| Pair {
            name: Text::from(format!("{}!", &*pair.name)),
            parts: pair.parts.iter().map(|part| part * 2).collect(),
        });
        reversed.collect()
    }

    fn half(&self, _task: &Task, n: i64) -> Result<Way, Odd> {
        match n {
            0 => Ok(Way::None),
            -1 => Err(Odd::Failure("below".to_owned())),
            n if n % 2 == 0 => Ok(Way::Some(n / 2)),
            n => Err(Odd::Odd(n, Text::from("is odd"))),
        }
    }

    fn boom(&self, _task: &Task) {
        panic!("boom");
    }

    fn rest(&self, _task: &Task, ms: i64) -> i64 {
        let now = self.counted.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.counted.most_at_once.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(ms as u64));
        self.counted.at_once.fetch_sub(1, Ordering::SeqCst);
        ms
    }

    fn later(&self, _task: &Task, reply: Reply<Result<i64, Odd>>) {
        self.waiting.lock().push(reply);
    }

    fn let_go(&self, _task: &Task, n: i64) -> i64 {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let count = waiting.len() as i64;
        for reply in waiting {
            match n {
                0 => drop(reply),
                n if n < 0 => reply.send(Err(Odd::Odd(n, Text::from("later")))),
                n => {
                    let thread = std::thread::spawn(move || reply.send(Ok(n)));
                    thread.join().expect("it does not panic");
                }
            }
        }
        count
    }

    fn in_time(&self, task: &Task, ms: i64, reply: Reply<i64>) {
        task.after(Duration::from_millis(ms as u64), move || reply.send(ms));
    }

    fn twin(&self, task: &Task, first: Text) -> Result<ActorRef<Box1>, Odd> {
        let counted = self.counted.clone();
        let twin = Box1 { kept: Mutex::new(vec![first]), waiting: Mutex::default(), counted };
        task.create(twin).map_err(Odd::Failure)
    }

    fn same(&self, _task: &Task, other: ActorRef<Box1>) -> ActorRef<Box1> {
        other
    }
}

const HEAD: &str = "Pair = struct[name: string, parts: sequence[int]]
Way = oneof[none: null, some: int]
Box = actor native \"test::Box\"
  new (first: string)
  put (what: string) returns (int)
  all () returns (string)
  clear () returns (int)
  pairs (pairs: sequence[Pair]) returns (sequence[Pair])
  half (n: int) returns (Way) signals (odd (int, string))
  boom ()
  rest (ms: int) returns (int)
  later () returns (int) signals (odd (int, string))
  let_go (n: int) returns (int)
  in_time (ms: int) returns (int)
  twin (first: string) returns (Box) signals (odd (int, string))
  same (other: Box) returns (Box)
end Box
";

fn registry(counted: &Counted, settings: TaskSettings) -> Registry {
    Registry::standard().with_actor::<Box1>().with(counted.clone()).with(settings)
}

fn compiled(text: &str, registry: &Registry) -> Result<bifrost_ir::Program, String> {
    let mut sources = Sources::new();
    sources.add("native.theta", format!("{HEAD}{text}"));
    let options = Options { natives: Some(Arc::new(registry.headings())), ..Options::default() };
    let compiled = compile(&sources, &options);
    compiled.program.ok_or_else(|| render_all(&sources, &compiled.diagnostics, Colour::Plain))
}

fn engine(text: &str, mode: Mode, registry: &Registry) -> Arc<Engine> {
    let program = compiled(text, registry).unwrap_or_else(|said| panic!("{said}"));
    Engine::with_natives(program, mode, registry.natives().clone()).expect("a program that can run")
}

/// Runs a program in both engines, on one node and on three, and by seeds. Returns what it printed,
/// which is always the same.
fn printed(text: &str) -> String {
    let mut last = None;
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let registry = registry(&Counted::default(), TaskSettings::default());
        let engine = engine(text, mode, &registry);
        let mut outputs: Vec<String> = [1, 3]
            .map(|nodes| {
                run_on(&engine, Limits::default(), nodes, &[], |cx| cx.actors().set_log(|_| {})).0.output
            })
            .into();
        outputs.extend((0..20).map(|seed| simulated(&engine, Limits::default(), 2, seed, &[]).output));
        for output in outputs {
            let before = last.get_or_insert_with(|| output.clone());
            assert_eq!(*before, output, "{mode:?}");
        }
    }
    last.expect("it ran")
}

#[test]
fn values_cross_both_ways() {
    let text = "main ()
  b: Box := Box.new(\"one\")
  print(b.put(\"two\").unparse() || \" \" || b.put(\"a text that is longer than thirty-two bytes\").unparse())
  print(b.all())
  p: Pair := Pair{name: \"x\", parts: sequence_of[int](.. 1, 2)}
  q: Pair := Pair{name: \"y\", parts: sequence_of[int](..)}
  for r: Pair in b.pairs(sequence_of[Pair](.. p, q, p)).elements() do
    print(r.name || \" \" || r.parts.length().unparse())
  end
  tagcase b.half(8) when some (n: int): print(n.unparse()) when none: print(\"none\") end
  tagcase b.half(0) when some (n: int): print(n.unparse()) when none: print(\"none\") end
  begin
    w: Way := b.half(7)
    tagcase w when some (n: int): print(n.unparse()) others: print(\"no\") end
  end except when odd (n: int, why: string): print(n.unparse() || \" \" || why) end
  begin
    w: Way := b.half(-1)
    tagcase w when some (n: int): print(n.unparse()) others: print(\"no\") end
  end except when failure (why: string): print(why) end
  print(b.clear().unparse())
end main";
    let wanted = "2 3\none two a text that is longer than thirty-two bytes\nx! 2\ny! 0\nx! 2\n4\nnone\n7 is odd\nbelow\n3\n";
    assert_eq!(printed(text), wanted);
}

#[test]
fn answers_may_come_later_from_any_thread() {
    let text = "Waiter = actor
  held (b: Box) returns (int)
    n: int := b.later()
    reply (n)
  end held
end Waiter
main ()
  b: Box := Box.new(\"one\")
  % Three wait, and hold no task meanwhile.
  x: int := (Waiter.new()).held(b)
  y: int := (Waiter.new() anywhere).held(b)
  z: int := b.later()
  sum: int := 0
  while sum < 3 do sum := sum + b.let_go(5) end
  print((x + y + z).unparse())
  begin
    n: int := b.later()
    while b.let_go(-3) = 0 do end
    print(n.unparse())
  end except when odd (m: int, why: string): print(m.unparse() || \" \" || why) end
  begin
    m: int := b.later()
    while b.let_go(0) = 0 do end
    print(m.unparse())
  end except when failure (why: string): print(why) end
  print(b.in_time(5).unparse())
end main";
    assert_eq!(printed(text), "15\n-3 later\nthe request was dropped without an answer\n5\n");
}

#[test]
fn native_actors_are_made_passed_on_and_let_go_of() {
    let text = "Keeper = actor
  kept: Box
  new (b: Box) make {kept := b} end new
  get () returns (Box) reply (kept) end get
end Keeper
main ()
  b: Box := Box.new(\"one\")
  t: Box := b.twin(\"two\")
  print(t.all())
  k: Keeper := Keeper.new(t) on (nodes() - 1)
  u: Box := k.get()
  print((t = u).unparse() || \" \" || (b = u).unparse() || \" \" || (b.same(u) = t).unparse())
  % Both may run at once, so the second one waits for the first one.
  if u.put(\"three\") = 2 then print(u.all()) end
end main";
    assert_eq!(printed(text), "two\ntrue false true\ntwo three\n");
}

#[test]
fn an_actor_ends_when_nobody_knows_it() {
    let counted = Counted::default();
    let registry = registry(&counted, TaskSettings::default());
    let text = "main ()
  for i: int in 1.to(20000) do
    b: Box := Box.new(\"one\")
    if i // 5000 = 0 then print(b.put(\"x\").unparse()) end
  end
end main";
    let engine = engine(text, Mode::Compiled, &registry);
    let limits = Limits {
        heap_bytes: 16 << 20,
        batch_heap_bytes: 16 << 20,
        mailbox_bytes: 1 << 20,
        ..Limits::default()
    };
    let (ran, _) = run_on(&engine, limits, 2, &[], |_| {});
    assert_eq!(ran.output, "2\n2\n2\n2\n");
    let dropped = counted.dropped.load(Ordering::SeqCst);
    assert!(dropped > 5_000, "{dropped} of 20000 were let go of while the program ran");
}

#[test]
fn a_panic_poisons_and_a_creator_that_fails_answers_for_all() {
    let text = "main ()
  b: Box := Box.new(\"one\")
  begin b.boom() end except when failure (why: string): print(why) end
  begin print(b.all()) end except when failure (why: string): print(why) end
  c: Box := Box.new(\"\")
  begin print(c.all()) end except when failure (why: string): print(why) end
  send c.boom()
end main";
    let wanted = "native actor `test::Box.boom` panicked: boom\nnative actor `test::Box.boom`: it is poisoned by a panic\nthe first is empty\n";
    assert_eq!(printed(text), wanted);
}

#[test]
fn so_many_methods_run_at_once_as_the_export_says() {
    for (setting, tasks, most) in [(None, 8, 3), (Some(1), 8, 1), (Some(0), 5, 5), (None, 2, 2)] {
        let counted = Counted::default();
        let exports =
            [("test::Box".to_owned(), ExportSettings { concurrency: setting, ..ExportSettings::default() })];
        let pool = bifrost_capsule::tasks::PoolSettings { tasks, ..Default::default() };
        let settings = TaskSettings { pool, exports: exports.into(), ..TaskSettings::default() };
        let registry = registry(&counted, settings);
        let text = "Many = actor
  rest (b: Box) returns (int)
    all: array[int] := array_fill[int](1, 12, 0)
    for i: int in 1.to(12) do
      all[i] := b.rest(20)
    end
    sum: int := 0
    for n: int in all.elements() do sum := sum + n end
    reply (sum)
  end rest
end Many
main ()
  b: Box := Box.new(\"one\")
  print((Many.new()).rest(b).unparse())
end main";
        let engine = engine(text, Mode::Compiled, &registry);
        let (ran, _) = run_on(&engine, Limits::default(), 1, &[], |_| {});
        assert_eq!(ran.output, "240\n");
        assert_eq!(counted.most_at_once.load(Ordering::SeqCst), most, "{setting:?} of {tasks} tasks");
    }
}

#[test]
fn a_full_queue_answers_busy() {
    let registry = registry(&Counted::default(), TaskSettings { queue_max: 4, ..TaskSettings::default() });
    let text = "One = actor
  one (b: Box) returns (int)
    n: int := 0
    begin n := b.rest(30) end except when failure (why: string): if why = \"busy\" then n := 1 end end
    reply (n)
  end one
end One
Many = actor
  all (b: Box) returns (string)
    all: array[int] := array_fill[int](1, 30, 0)
    for i: int in 1.to(30) do
      o: One := One.new()
      all[i] := o.one(b)
    end
    busy: int := 0
    done: int := 0
    for n: int in all.elements() do
      if n = 1 then busy := busy + 1 else done := done + n / 30 end
    end
    reply ((busy > 0).unparse() || \" \" || (busy + done).unparse())
  end all
end Many
main ()
  b: Box := Box.new(\"one\")
  print((Many.new()).all(b))
  print(b.rest(0).unparse())
end main";
    let engine = engine(text, Mode::Compiled, &registry);
    let (ran, _) = run_on(&engine, Limits::default(), 1, &[], |_| {});
    assert_eq!(ran.output, "true 30\n0\n");
    assert_eq!(TaskSettings::default().queue_max, 1_000);
}

#[test]
fn a_seed_gives_the_same_run() {
    let text = "main ()
  b: Box := Box.new(\"one\")
  c: Box := b.twin(\"two\")
  for i: int in 1.to(20) do
    send b.put(i.unparse())
    x: int := c.put(\"y\")
  end
  print(b.all().length().unparse() || \" \" || c.all().length().unparse())
end main";
    let registry = registry(&Counted::default(), TaskSettings::default());
    // An engine that has run a program before has other code for it.
    let events = |seed| {
        let engine = engine(text, Mode::Compiled, &registry);
        simulated(&engine, Limits::default(), 3, seed, &[]).events
    };
    assert_eq!(events(7), events(7));
    assert_ne!(events(7), events(8));
}

#[theta_routine("test::slow_native")]
fn slow_native(_cx: &mut Cx, ms: i64) -> i64 {
    std::thread::sleep(Duration::from_millis(ms as u64));
    ms
}

#[test]
fn a_native_that_holds_up_its_node_is_counted() {
    let registry = registry(&Counted::default(), TaskSettings::default()).with_routine(slow_native::native());
    let text = "native \"test::slow_native\" slow_native (ms: int) returns (int)
Calls = actor
  all () returns (int)
    reply (slow_native(1) + slow_native(100) + slow_native(1))
  end all
end Calls
main () print((Calls.new()).all().unparse()) end main";
    let engine = engine(text, Mode::Compiled, &registry);
    let (ran, stats) = run_on(&engine, Limits::default(), 1, &[], |_| {});
    assert_eq!((ran.output.as_str(), stats[0].long_natives), ("102\n", 1));
}

#[test]
fn what_is_in_rust_is_refused_in_theta() {
    let registry = registry(&Counted::default(), TaskSettings::default());
    for (text, wanted) in [
        (
            "A = actor native \"test::Box\" n: int put (what: string) returns (int) end A",
            "there is another class",
        ),
        ("B = actor native \"test::None\" m () end B", "no native `test::None.new` is registered"),
        ("main () b: Box := Box.new(\"x\") anywhere end main", "native actor `Box` has no node"),
        ("main () b: Box := Box.new(\"x\") on 0 end main", "native actor `Box` has no node"),
        (
            "C = actor native \"test::C\" n: int disable m when true m () end C",
            "cannot have instance variables",
        ),
        ("C = actor native \"test::C\" m () disable m when true end C", "cannot have `disable`"),
        ("C = actor native \"test::C\" stop when failure m () end C", "cannot have `stop when failure`"),
        ("D = functional actor native \"test::D\" m () end D", "cannot have `functional`"),
    ] {
        let said = compiled(text, &registry).err().unwrap_or_else(|| panic!("{text} is accepted"));
        assert!(said.contains(wanted), "{text}:\n{said}");
        assert!(said.contains("E0213"), "{text}:\n{said}");
    }
}
