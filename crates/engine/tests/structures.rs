//! Structures of clients as machine code: when they become that, that it counts and traces as the interpreter does, and that
//! its memory comes back.

use std::sync::Arc;

use bifrost_interp::{BatchEnd, Interp, Nodes, Prepared};
use bifrost_ir::Func;
use bifrost_ir::text::parse;
use bifrost_ir::verify::{verify_func, verify_program};
use bifrost_jit::Jit;
use bifrost_runtime::abi::Word;
use bifrost_runtime::{Collect, Cx, Image, Kill, Limits};

/// A program, its interpreter and its structures.
struct Loaded {
    jit: Arc<Jit>,
    image: Arc<Image>,
    interp: Arc<Interp>,
    funcs: Vec<Arc<Func>>,
    structures: Vec<Arc<Prepared>>,
}

impl Loaded {
    fn new(text: &str, hot_steps: u64) -> Loaded {
        Loaded::by(Arc::new(Jit::new().expect("a compiler for this machine")), text, hot_steps)
    }

    fn by(jit: Arc<Jit>, text: &str, hot_steps: u64) -> Loaded {
        Loaded::of(jit, text, hot_steps, Nodes::Special)
    }

    fn of(jit: Arc<Jit>, text: &str, hot_steps: u64, nodes: Nodes) -> Loaded {
        let file = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        verify_program(&file.program).expect("a valid program");
        let image = bifrost_runtime::link(file.program, Some(jit.clone())).expect("linking");
        let interp = Interp::with(image.clone(), hot_steps, nodes);
        for func in &file.batches {
            verify_func(image.program(), func).expect("a valid structure");
        }
        let mut loaded = Loaded { jit, image, interp, funcs: file.batches, structures: Vec::new() };
        loaded.forget();
        loaded
    }

    /// Prepares all structures anew: none has run.
    fn forget(&mut self) {
        self.structures.clear();
        for func in &self.funcs {
            let index =
                |f: &Arc<_>| self.funcs.iter().position(|b| Arc::ptr_eq(b, f)).expect("defined before");
            let procedures: Vec<_> =
                func.procedures.iter().map(|f| self.structures[index(f)].clone()).collect();
            self.structures.push(Arc::new(self.interp.prepare(func.clone(), &procedures)));
        }
    }

    /// How the last structure ends with so much fuel, what is left of it, and how many calls it counted.
    fn run(&self, fuel: i64, args: &[i64]) -> (BatchEnd, i64, u64) {
        // Nodes take much stack for procedures that are nested as deep as they may be.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(16 << 20);
            let thread = thread.spawn_scoped(scope, || self.run_here(fuel, args)).expect("a thread");
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn run_here(&self, fuel: i64, args: &[i64]) -> (BatchEnd, i64, u64) {
        let limits = Limits { stack_bytes: 8 << 20, fuel, ..Limits::default() };
        let mut cx = Cx::new(self.image.clone(), limits, 1, || 0);
        let words: Vec<Word> = args.iter().map(|n| *n as Word).collect();
        let last = self.structures.last().expect("there is one");
        cx.begin();
        // SAFETY: the context was made for this image, and the structures below take integers.
        let end = unsafe { self.interp.run(&mut cx, last, &words) };
        cx.leave();
        (end, cx.fuel, cx.calls)
    }

    fn result(&self, args: &[i64]) -> i64 {
        match self.run(1 << 40, args).0 {
            BatchEnd::Done(word) => word as i64,
            other => panic!("{other:?}"),
        }
    }
}

const SUM: &str = "
procedure sum (n: int) returns (int)
  var b: bool, m: int
  b := int.lt(n, 1)
  if b then
    return (0)
  end
  m := int.sub(n, 1)
  m := itself(m)
  m := int.add(m, n)
  return (m)
end";

/// Bytes of code of structures. Where there is no place for such code these tests have nothing to say.
fn compiled(loaded: &Loaded) -> bool {
    loaded.jit.structure_bytes() > 0
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_structure_is_compiled_when_it_has_run_enough() {
    let loaded = Loaded::new(SUM, 10);
    // 7 statements and 10 more: at 170 steps.
    assert_eq!(loaded.result(&[2]), 3);
    assert!(!compiled(&loaded), "it was not hot");
    assert_eq!(loaded.result(&[100]), 5050);
    assert_eq!(loaded.result(&[100]), 5050);
    assert!(compiled(&loaded));
    let never = Loaded::new(SUM, u64::MAX);
    assert_eq!(never.result(&[200]), 20100);
    assert_eq!(never.result(&[200]), 20100);
    assert!(!compiled(&never));
}

/// A long run does not have to end first.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_procedure_goes_on_as_code_at_its_next_call() {
    let text = format!(
        "{SUM}
procedure often (n: int) returns (int) calls sum
  var i: int, s: int, m: int
  s := 0
  for i in int.to(1, n) do
    m := procedure 0(9)
    s := int.add(s, m)
  end
  return (s)
end"
    );
    let loaded = Loaded::new(&text, 10);
    assert_eq!(loaded.result(&[100]), 4500);
    assert!(compiled(&loaded));
}

#[test]
fn code_of_structures_is_freed_with_them() {
    let jit = Arc::new(Jit::new().expect("a compiler for this machine"));
    let mut most = 0;
    for round in 0..50 {
        // Each another structure, of the same length.
        let loaded = Loaded::by(jit.clone(), &SUM.replace("(0)", &format!("({})", round + 1000)), 0);
        assert_eq!(loaded.result(&[100]), 6050 + round);
        if round == 0 {
            most = jit.structure_bytes();
        }
        assert_eq!(jit.structure_bytes(), most, "one is there at a time");
    }
    assert_eq!(jit.structure_bytes(), 0);
}

/// What does not fit is interpreted.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn code_of_structures_has_a_limit() {
    const BYTES_MAX: usize = 16 << 10;
    let jit = Arc::new(Jit::with_structure_bytes(BYTES_MAX).expect("a compiler for this machine"));
    let mut kept = Vec::new();
    loop {
        let before = jit.structure_bytes();
        assert!(before <= BYTES_MAX);
        let loaded = Loaded::by(jit.clone(), SUM, 0);
        assert_eq!(loaded.result(&[100]), 5050);
        if jit.structure_bytes() == before {
            break;
        }
        kept.push(loaded);
    }
    assert!(kept.len() > 2);
    // There is room again when others go.
    kept.pop();
    let before = jit.structure_bytes();
    assert_eq!(Loaded::by(jit.clone(), SUM, 0).result(&[100]), 5050);
    let loaded = Loaded::by(jit.clone(), SUM, 0);
    assert_eq!(loaded.result(&[100]), 5050);
    assert!(jit.structure_bytes() > before);
}

/// The first run of a loop goes on as code, a WHILE and a FOREACH over any iterator.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_loop_goes_on_as_code_in_its_first_run() {
    for head in ["for i in int.to(1, n) do", "for i in up(n) do"] {
        let text = format!(
            "routine up (n: int) yields (int)
  var i: int
  for i in int.to(1, n) do
    yield (i)
  end
end
procedure sum (n: int) returns (int)
  var i: int, s: int
  s := 0
  {head}
    s := int.add(s, i)
  end
  return (s)
end"
        );
        let loaded = Loaded::new(&text, 10);
        // 4 statements and 10 more: at 140 steps, which are 70 rounds.
        assert_eq!(loaded.result(&[69]), 69 * 35);
        assert!(!compiled(&loaded));
        let mut loaded = loaded;
        loaded.forget();
        assert_eq!(loaded.result(&[1000]), 500_500);
        assert!(compiled(&loaded));
    }
    let text = "procedure half (n: int) returns (int)
  var b: bool, s: int
  s := 0
  while
    b := int.gt(n, 0)
  test b do
    s := int.add(s, n)
    n := int.sub(n, 1)
    b := int.equal(n, 10)
    if b then
      return (s)
    end
  end
  return (n)
end";
    let loaded = Loaded::new(text, 1);
    assert_eq!(loaded.result(&[1000]), 500_500 - 55);
    assert!(compiled(&loaded));
    let loaded = Loaded::new(text, 1);
    assert_eq!(loaded.result(&[3]), 0);
    assert!(!compiled(&loaded));
}

/// The value with which a loop is left that goes on as code is kept by the collector, as are the
/// variables that it shares with the interpreter.
#[test]
fn code_of_a_loop_finds_the_objects_of_the_interpreter() {
    let text = "procedure texts (n: int) returns (string)
  var i: int, s: string, t: string, b: bool
  s := \"\"
  for i in int.to(1, n) do
    t := int.unparse(i)
    s := string.concat(s, t)
    b := int.equal(i, 40)
    if b then
      return (s)
    end
  end
  return (s)
end";
    let loaded = Loaded::new(text, 1);
    let limits =
        Limits { stack_bytes: 8 << 20, fuel: 1 << 40, collect: Collect::Zeal(1), ..Limits::default() };
    let mut cx = Cx::new(loaded.image.clone(), limits, 1, || 0);
    for n in [12, 30, 1000] {
        cx.begin();
        let last = loaded.structures.last().expect("there is one");
        // SAFETY: the context was made for this image, and the structure takes an integer.
        let BatchEnd::Done(word) = (unsafe { loaded.interp.run(&mut cx, last, &[n]) }) else { panic!() };
        // SAFETY: the structure returns a string.
        let text = unsafe { bifrost_runtime::object::text(word) };
        let expected = (1..=n.min(40)).map(|i| i.to_string()).collect::<String>();
        assert_eq!(text, expected);
        cx.leave();
    }
}

/// Loops and procedures look whether they shall end, with fuel for ever.
#[test]
fn code_of_structures_is_ended_from_outside() {
    let endless = [
        "batch round (n: int)\nwhile\ntest true do\nend\nend",
        "batch call (n: int)\nwhile\ntest true do\nn := int.mul(n, 1)\nend\nend",
        "batch each (n: int)\nvar i: int\nfor i in int.to(1, 9223372036854775807) do\nend\nend",
        "procedure down (n: int)\nn := int.sub(n, 1)\nitself(n)\nend
batch again (n: int) calls down\nwhile\ntest true do\nexcept\nprocedure 0(n)\nothers:\nend\nend\nend",
    ];
    for text in endless {
        let loaded = Loaded::new(text, 0);
        let limits = Limits { stack_bytes: 512 << 10, fuel: i64::MAX, ..Limits::default() };
        let mut cx = Cx::new(loaded.image.clone(), limits, 1, || 0);
        let poll = cx.poll().clone();
        let end = std::thread::scope(|scope| {
            scope.spawn(move || {
                while !poll.retired() {
                    poll.kill(poll.epoch(), Kill::Time);
                    std::thread::yield_now();
                }
            });
            let last = loaded.structures.last().expect("there is one");
            cx.begin();
            // SAFETY: the context was made for this image, and the structure takes an integer.
            let end = unsafe { loaded.interp.run(&mut cx, last, &[1]) };
            assert_eq!(cx.killed(), Kill::Time);
            cx.leave();
            drop(cx);
            end
        });
        assert!(matches!(end, BatchEnd::Killed(_)), "{end:?}");
    }
}

/// What is too large or too deep is interpreted, as are its callers.
#[test]
fn some_structures_are_interpreted() {
    let many = "  n := int.add(n, 1)\n".repeat(2_001);
    let large = format!("procedure large (n: int) returns (int)\n{many}  return (n)\nend");
    let caller = format!(
        "{large}\nprocedure caller (n: int) returns (int) calls large\n  n := procedure 0(n)\n  return (n)\nend"
    );
    for text in [large, caller] {
        let loaded = Loaded::new(&text, 0);
        assert_eq!(loaded.result(&[5]), 2_006);
        assert!(!compiled(&loaded));
    }
    let (mut head, mut tail, mut vars) = (String::new(), String::new(), String::new());
    for i in 0..65 {
        vars.push_str(&format!(", i{i}: int"));
        head.push_str(&format!("for i{i} in int.to(1, 1) do\n"));
        tail.push_str("end\n");
    }
    let text = format!("batch deep (n: int)\nvar m: int{vars}\n{head}m := int.div(1, n)\n{tail}end");
    let loaded = Loaded::new(&text, 0);
    let (end, ..) = loaded.run(1_000_000, &[0]);
    let BatchEnd::Signalled(trace) = end else { panic!("{end:?}") };
    assert_eq!(trace.iterations.len(), 65);
    assert!(!compiled(&loaded));
    let params: Vec<String> = (0..30).map(|i| format!("p{i}: int")).collect();
    let params = params.join(", ");
    for (kind, is) in
        [("procedure", false), ("batch", cfg!(all(target_os = "linux", target_arch = "x86_64")))]
    {
        let text = format!("{kind} wide ({params})\nvar n: int\nn := int.div(p29, p28)\nend");
        let loaded = Loaded::new(&text, 0);
        let mut args = vec![0; 30];
        assert!(matches!(loaded.run(10, &args).0, BatchEnd::Signalled(_)));
        args[28] = 1;
        assert_eq!(loaded.run(10, &args), (BatchEnd::Done(0), 9, 1));
        assert_eq!(compiled(&loaded), is, "{kind}");
    }
}

/// Loops of all kinds, handlers, procedures: with each amount of fuel, nodes and code end in the same way, at the same place, and have
/// counted the same.
const PLACES: &str = "
type counter
  bump (by: int) returns (int) signals (odd (int))
  steps (n: int) yields (int) signals (odd (int))
end
class Counter implements counter
  n: int
  method bump (by: int) returns (int) signals (odd (int))
    var m: int, b: bool
    m := get Counter.n(self)
    m := int.add(m, by)
    set Counter.n(self, m)
    b := int.equal(m, 7)
    if b then
      signal odd(m)
    end
    return (m)
  end
  method steps (n: int) yields (int) signals (odd (int))
    var i: int, b: bool
    for i in int.to(1, n) do
      yield (i)
      b := int.equal(i, 4)
      if b then
        signal odd(i)
      end
    end
  end
end
routine new_counter () returns (counter)
  var c: Counter
  c := new Counter(0)
  return (c)
end
routine few (n: int) yields (int)
  yield (n)
  yield (2)
end
procedure down (c: counter, n: int) returns (int) signals (odd (int))
  var b: bool, m: int
  b := int.lt(n, 1)
  if b then
    return (0)
  end
  m := counter.bump(c, 1)
  m := int.sub(n, 1)
  m := itself(c, m)
  m := int.add(m, 1)
  return (m)
end
batch places (x: int, y: int, z: int) calls down
  var c: counter, i: int, j: int, k: int, b: bool, m: int
  c := new_counter()
  m := 0
  while
    m := int.add(m, 1)
    b := int.lt(m, 4)
  test b do
    for i in int.to(1, x) do
      b := int.equal(i, 2)
      if b then
        continue
      end
      for j in counter.steps(c, i) do
        k := int.div(y, i)
        except
          k := counter.bump(c, j)
        when odd (k):
          k := int.add(k, z)
        end
      end
      for k in few(i) do
        b := int.gt(k, 5)
        if b then
          break
        end
        k := int.mul(k, y)
      end
    end
    except
      k := procedure 0(c, z)
    others:
      m := int.add(m, 1)
    end
  end
  k := procedure 0(c, x)
end";

#[test]
fn code_counts_and_traces_as_nodes_do() {
    let nodes = Loaded::new(PLACES, u64::MAX);
    let code = Loaded::new(PLACES, 0);
    let mut ends = std::collections::BTreeSet::new();
    for args in
        [[3, 5, 2], [4, 5, 3], [5, i64::MAX, 1], [2, 1, 300], [260, 1, 0], [0, 0, 0], [3, 1, i64::MAX]]
    {
        let (.., calls) = nodes.run(1 << 40, &args);
        let fuels = (0..400).chain([1 << 40]).chain((400..2 * calls as i64).step_by(37));
        for fuel in fuels {
            let (expected, found) = (nodes.run(fuel, &args), code.run(fuel, &args));
            assert_eq!(found, expected, "{args:?} with {fuel}");
            ends.insert(format!("{:?}", expected.0));
        }
    }
    // It is a test of many ends.
    assert!(ends.len() > 30, "{ends:?}");
    assert_eq!(compiled(&code), cfg!(all(target_os = "linux", target_arch = "x86_64")));
    // Each run begins with nodes. Its loops become code in the middle, the inner ones first.
    let mut has_loops = 0;
    for hot_steps in [1, 2, 5] {
        let mut both = Loaded::by(code.jit.clone(), PLACES, hot_steps);
        let before = code.jit.structure_bytes();
        for args in [[4, 5, 3], [5, i64::MAX, 1], [2, 1, 30], [26, 1, 0], [3, 1, i64::MAX]] {
            let (.., calls) = nodes.run(1 << 40, &args);
            let most = 2 * calls as i64;
            for fuel in (50..most.min(3_000)).step_by(23).chain([most, 1 << 40]) {
                both.forget();
                let (expected, found) = (nodes.run(fuel, &args), both.run(fuel, &args));
                assert_eq!(found, expected, "{args:?} with {fuel}, hot after {hot_steps}");
                has_loops += u32::from(code.jit.structure_bytes() > before);
            }
        }
    }
    assert_eq!(has_loops > 50, compiled(&code), "loops become code in {has_loops} runs");
}

/// The general node of a call counts, fails and traces as the special one that it stands for.
#[test]
fn general_nodes_count_and_trace_as_special_ones_do() {
    let special = Loaded::new(PLACES, u64::MAX);
    let general = Loaded::of(special.jit.clone(), PLACES, u64::MAX, Nodes::General);
    let shown = |loaded: &Loaded| format!("{:?}", loaded.structures.last());
    assert!(shown(&special).contains("Method1 {") && shown(&special).contains("Op {"));
    assert!(!shown(&general).contains("Method1 {") && !shown(&general).contains("Op {"));
    let mut ends = std::collections::BTreeSet::new();
    for args in [[3, 5, 2], [5, i64::MAX, 1], [2, 1, 300], [260, 1, 0], [0, 0, 0], [3, 1, i64::MAX]] {
        let (.., calls) = special.run(1 << 40, &args);
        for fuel in (0..400).chain([2 * calls as i64, 1 << 40]) {
            let (expected, found) = (special.run(fuel, &args), general.run(fuel, &args));
            assert_eq!(found, expected, "{args:?} with {fuel}");
            ends.insert(format!("{:?}", expected.0));
        }
    }
    assert!(ends.len() > 20, "{ends:?}");
}
