//! Random programs give the same in the interpreter and as machine code, in the interpreter with general nodes for all calls,
//! and with all loops over built-in iterators written without these: outcome, results, exception, output; of a failure in code
//! also its places.
//!
//! `BIFROST_SEEDS=from..to` chooses the seeds; a failure prints its seed and the program.

use std::fmt::Write;
use std::sync::Arc;

use bifrost_interp::{Interp, Nodes};
use bifrost_ir::Program;
use bifrost_ir::resumable::all_loops_without_iterators;
use bifrost_ir::text::parse;
use bifrost_ir::verify::verify_program;
use bifrost_jit::{Emit, Jit};
use bifrost_runtime::abi::{Outcome, Word};
use bifrost_runtime::cx::Output;
use bifrost_runtime::{Cx, Image, Limits, PlaceList, invoke, object};

const PRELUDE: &str = "
type counter
  bump (by: int) returns (int) signals (e1 (int))
  upto (n: int) yields (int)
end
class Counter implements counter
  n: int
  x: real
  method bump (by: int) returns (int) signals (e1 (int))
    var m: int, b: bool
    m := get Counter.n(self)
    m := int.add(m, by)
    set Counter.n(self, m)
    b := int.gt(m, 1000)
    if b then
      signal e1 (m)
    end
    return (m)
  end
  method upto (n: int) yields (int)
    var i: int, m: int
    for i in int.to(1, n) do
      m := get Counter.n(self)
      m := int.bxor(m, i)
      yield (m)
    end
  end
end
class Odd implements counter inherits Counter
  method bump (by: int) returns (int) signals (e1 (int))
    var m: int
    m := get Odd.n(self)
    m := int.bor(m, 1)
    set Odd.n(self, m)
    return (m)
  end
end
routine up (n: int) yields (int)
  var i: int
  for i in int.to(1, n) do
    yield (i)
  end
end
routine through (n: int) yields (int)
  var i: int
  for i in up(n) do
    yield (i)
  end
end
routine pairs (n: int) yields (int, real)
  var i: int, r: real
  r := 0.5
  for i in through(n) do
    r := real.add(r, 1.0)
    yield (i, r)
  end
end
routine guarded (n: int) yields (int) signals (e2)
  var i: int, b: bool
  except
    for i in up(n) do
      yield (i)
      b := int.gt(i, 2)
      if b then
        i := int.div(i, 0)
      end
    end
  when zero:
    signal e2
  others:
    return
  end
end
routine sum (a: array[int]) returns (int) signals (overflow)
  var i: int, x: int, n: int
  n := 0
  for i in array[int].indexes(a) do
    x := array[int].fetch(a, i)
    n := int.bxor(n, x)
  end
  return (n)
end
routine third (a: array[int], n: int) returns (int) signals (bounds)
  var x: int, b: bool
  b := int.gt(n, 100)
  if b then
    array[int].append(a, n)
    return (n)
  end
  except
    x := array[int].fetch(a, n)
  when bounds:
    array[int].store(a, 1, n)
    signal bounds
  end
  return (x)
end
routine scan (a: array[int], n: int) yields (int)
  var i: int, x: int, b: bool
  i := 0
  while
    b := int.lt(i, n)
  test b do
    except
      x := array[int].fetch(a, i)
      yield (x)
    when bounds:
      array[int].append(a, i)
    end
    i := int.add(i, 1)
  end
end
routine raise (n: int) signals (zero, e1 (int), e2)
  var m: int, b: bool
  m := int.mod(n, 5)
  b := int.equal(m, 0)
  if b then
    signal zero
  end
  b := int.equal(m, 1)
  if b then
    signal e1 (n)
  end
  b := int.equal(m, 2)
  if b then
    signal e2
  end
  b := int.equal(m, 3)
  if b then
    signal failure (\"raised\")
  end
end
";

const FUNCTIONS: u32 = 4;

#[test]
fn random_programs_agree() {
    let seeds = std::env::var("BIFROST_SEEDS").unwrap_or_else(|_| "1..150".to_owned());
    let (from, to) = seeds.split_once("..").expect("from..to");
    let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
    let run = move || {
        let jit = Arc::new(Jit::new().expect("a compiler for this machine"));
        let failed: usize = (from..to).map(|seed| check(&jit, seed)).sum();
        // Else the places were compared of nothing.
        assert!(to - from < 100 || failed as u64 > (to - from) / 4, "{failed} failures with places");
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The number of runs that failed at a place that is known.
fn check(jit: &Arc<Jit>, seed: u64) -> usize {
    let text = program(seed);
    let program = parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}")).program;
    if let Err(errors) = verify_program(&program) {
        panic!("seed {seed}: {}\n{text}", errors[0]);
    }
    let interpreted = bifrost_runtime::link(program.clone(), None).expect("linking");
    let _interp = Interp::new(interpreted.clone());
    let general = bifrost_runtime::link(program.clone(), None).expect("linking");
    let _interp = Interp::with_nodes(general.clone(), Nodes::General);
    let resumable = bifrost_runtime::link(without_iterators(&program), None).expect("linking");
    let _interp = Interp::new(resumable.clone());
    let compiled = bifrost_runtime::link(program, Some(jit.clone())).expect("linking");
    for func in compiled.program().funcs.keys() {
        if let Err(e) = jit.text(&compiled, func, Emit::Assembly) {
            panic!("seed {seed}: {e}\n{text}");
        }
    }
    let mut failed = 0;
    for (a, b, r) in [(0, 1, 0.5), (3, -2, 1e10), (i64::MAX, 7, -1.0), (11, 64, f64::NAN)] {
        let (expected, places) = run(&interpreted, a, b, r);
        failed += usize::from(!places.is_empty());
        let others =
            [("compiled", &compiled), ("with general nodes", &general), ("without iterators", &resumable)];
        for (how, image) in others {
            let (found, places_found) = run(image, a, b, r);
            assert!(
                found == expected,
                "seed {seed}, arguments {a}, {b}, {r}:\ninterpreted {expected:?}\n{how} {found:?}\n{text}"
            );
            // Loops that are written otherwise have other sites.
            assert!(
                how != "compiled" || places_found == places,
                "seed {seed}, arguments {a}, {b}, {r}, {found:?}:\ninterpreted {places:?}\n{how} {places_found:?}\n{text}"
            );
        }
    }
    failed
}

/// The program with the loops over built-in iterators written without these.
fn without_iterators(program: &Program) -> Program {
    let mut program = program.clone();
    for id in program.funcs.keys() {
        let mut func = program.funcs[id].clone();
        all_loops_without_iterators(&mut program, &mut func);
        program.funcs[id] = func;
    }
    verify_program(&program).expect("what was well formed stays so");
    program
}

/// The result of the last function: its outcome, its output, and the places of its failure.
fn run(image: &Arc<Image>, a: i64, b: i64, r: f64) -> ((String, String), PlaceList) {
    let routine = image.program().find_routine(&format!("f{}", FUNCTIONS - 1)).expect("generated");
    let mut cx = Cx::new(image.clone(), Limits::default(), 1, || 0);
    cx.set_output(Output::Buffer(String::new()));
    let mut words: Vec<Word> = vec![0, a as Word, b as Word, r.to_bits()];
    cx.begin();
    // SAFETY: the context was made for this image, and the words have the types of the heading.
    let ret = unsafe { invoke::routine(&mut *cx, image.routine(routine), &mut words) };
    cx.leave();
    let real = |word: Word| f64::from_bits(word).to_string();
    let outcome = match ret.outcome() {
        Outcome::Returned => format!("{}, {}", ret.value as i64, real(cx.results[1])),
        Outcome::Signalled => {
            let name = image.program().types.signal_name(cx.signalled()).to_owned();
            let value = match name.as_str() {
                // SAFETY: the value of `failure` is a string.
                "failure" => unsafe { object::text(cx.signal_values[0]) }.to_owned(),
                "e1" => (cx.signal_values[0] as i64).to_string(),
                _ => String::new(),
            };
            format!("{name}({value})")
        }
        other => format!("outcome {other:?}"),
    };
    let places = if ret.outcome() == Outcome::Signalled { cx.places() } else { PlaceList::default() };
    ((outcome, cx.take_output()), places)
}

fn program(seed: u64) -> String {
    let mut text = PRELUDE.to_owned();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for number in 0..FUNCTIONS {
        let mut writer = Writer {
            random: &mut random,
            text: String::new(),
            lines: 0,
            number,
            indent: 1,
            statements: 0,
            loops: 0,
            in_body: false,
            known: number % 2 == 1,
            handlers: Vec::new(),
        };
        let low = writer.random.pick(&["1", "0", "-2", "i1"]);
        let length = writer.random.pick(&["3", "1", "0", "fuel"]);
        writer.block(12);
        let body = writer.text;
        let _ = write!(
            text,
            "routine f{number} (i0: int, i1: int, r0: real) returns (int, real) signals (e1 (int), e2)
  var i2: int, i3: int, r1: real, r2: real, b0: bool, b1: bool, s: string, fuel: int, t: bool
  var c: counter, k: Counter, o: Odd, a: array[int], d: array[int], pt: array[int], p: array[int], q: sequence[real], l: list[int], e: cell[real], z: sequence[int]
  i2 := 2
  i3 := -3
  r1 := 1.5
  r2 := -0.25
  b0 := false
  b1 := true
  s := \"s\"
  fuel := 12
  k := new Counter(i0, r0)
  o := new Odd(i1, 2.5)
  c := k
  z := [1, i1, 5]
  a := array_create[int](0, z)
  d := a
  pt := array_fill[int]({low}, {length}, i0)
  p := pt
  q := [r0, r1]
  l := list_of[int](z)
  e := cell_new[real]()
{body}  return (i2, r1)
end
"
        );
    }
    text
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % n
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len() as u32) as usize]
    }
}

struct Writer<'r> {
    random: &'r mut Random,
    text: String,
    /// The number of statements with a site so far.
    lines: u32,
    number: u32,
    indent: usize,
    statements: u32,
    loops: u32,
    /// Whether `break` and `continue` are possible.
    in_body: bool,
    /// Whether `p` may become known to others than the function.
    known: bool,
    /// Names that an `exit` may use.
    handlers: Vec<&'static str>,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.text.push_str("  ");
        }
        self.text.push_str(text);
        let words = ["if", "else", "end", "while", "test", "except", "when", "others", "others:"];
        if !text.split_whitespace().next().is_some_and(|first| words.contains(&first)) {
            // A site of its own for each statement.
            self.lines += 1;
            let _ = write!(self.text, " @{}", self.lines);
        }
        self.text.push('\n');
    }

    fn int_var(&mut self) -> &'static str {
        self.random.pick(&["i0", "i1", "i2", "i3"])
    }

    fn int(&mut self) -> String {
        match self.random.below(4) {
            0 => ["0", "1", "-1", "2", "63", "-9223372036854775808", "9223372036854775807", "10"]
                [self.random.below(8) as usize]
                .to_owned(),
            _ => self.int_var().to_owned(),
        }
    }

    fn real_var(&mut self) -> &'static str {
        self.random.pick(&["r0", "r1", "r2"])
    }

    fn bool_var(&mut self) -> &'static str {
        self.random.pick(&["b0", "b1"])
    }

    fn block(&mut self, most: u32) {
        let count = 1 + self.random.below(most);
        for _ in 0..count {
            if self.statements < 60 {
                self.statements += 1;
                self.stmt();
            }
        }
    }

    fn inner(&mut self, most: u32) {
        self.indent += 1;
        self.block(most);
        self.indent -= 1;
    }

    fn loop_body(&mut self, heading: &str) {
        self.line(heading);
        let outer = std::mem::replace(&mut self.in_body, true);
        self.loops += 1;
        self.inner(5);
        self.loops -= 1;
        self.in_body = outer;
        self.line("end");
    }

    fn stmt(&mut self) {
        let (x, y, z) = (self.int_var(), self.int(), self.int());
        let (r, p, w) = (self.real_var(), self.real_var(), self.real_var());
        let b = self.bool_var();
        match self.random.below(34) {
            0..=4 => {
                let op = self.random.pick(&[
                    "add", "sub", "mul", "div", "mod", "min", "max", "band", "bor", "bxor", "shl", "shr",
                    "add", "sub", "power",
                ]);
                self.line(&format!("{x} := int.{op}({y}, {z})"));
            }
            5 => {
                let op = self.random.pick(&["negate", "abs", "bnot", "copy"]);
                self.line(&format!("{x} := int.{op}({y})"));
            }
            6 => {
                let op = self.random.pick(&["lt", "le", "gt", "ge", "equal"]);
                self.line(&format!("{b} := int.{op}({y}, {z})"));
            }
            7 => {
                let op = self.random.pick(&["add", "sub", "mul", "div", "min", "max"]);
                self.line(&format!("{r} := real.{op}({p}, {w})"));
            }
            8 => {
                let op = self.random.pick(&["lt", "le", "gt", "ge", "equal"]);
                self.line(&format!("{b} := real.{op}({p}, {w})"));
            }
            9 => self.line(&format!("{r} := int.to_real({y})")),
            10 => {
                let text = self.random.pick(&[
                    "b0 := bool.bnot(b1)",
                    "b1 := bool.bxor(b0, b1)",
                    "b0 := bool.band(b0, b1)",
                    "c := o",
                    "c := k",
                    "s := \"literal\"",
                ]);
                self.line(text);
            }
            11 | 12 => {
                self.line(&format!("if {b} then"));
                self.inner(4);
                if self.random.below(2) == 0 {
                    self.line("else");
                    self.inner(4);
                }
                self.line("end");
            }
            13 if self.loops < 3 => {
                self.line("while");
                self.line("  fuel := int.sub(fuel, 1)");
                self.line("  t := int.gt(fuel, 0)");
                self.loop_body("test t do");
            }
            14..=17 if self.loops < 3 => self.for_each(),
            18 if self.in_body => {
                let word = self.random.pick(&["break", "continue"]);
                self.line(&format!("if {b} then"));
                self.line(&format!("  {word}"));
                self.line("end");
            }
            19 => {
                self.line(&format!("if {b} then"));
                let end = self.random.below(4);
                match end {
                    0 => self.line(&format!("  return ({x}, {r})")),
                    1 => self.line(&format!("  signal e1 ({y})")),
                    2 => self.line("  signal e2"),
                    _ => self.line("  signal failure (s)"),
                }
                self.line("end");
            }
            20 if !self.handlers.is_empty() => {
                let name = self.handlers[self.random.below(self.handlers.len() as u32) as usize];
                let values = if name == "x1" { format!(" ({y})") } else { String::new() };
                self.line(&format!("if {b} then"));
                self.line(&format!("  exit {name}{values}"));
                self.line("end");
            }
            21..=23 => self.except(),
            24 => self.line(&format!("raise({y})")),
            25 if self.number > 0 && self.loops < 2 => {
                let callee = self.random.below(self.number);
                self.line(&format!("{x}, {r} := f{callee}({y}, {z}, {p})"));
            }
            26 => {
                let call = self.random.below(4);
                self.line(&match call {
                    0 => format!("{x} := counter.bump(c, {y})"),
                    1 => format!("{x} := get Counter.n(k)"),
                    2 => format!("set Counter.x(k, {r})"),
                    _ => format!("{r} := get Counter.x(o)"),
                });
            }
            27 | 28 => {
                let call = self.random.below(16);
                self.line(&match call {
                    0 => format!("array[int].append(a, {y})"),
                    1 => format!("{x} := array[int].fetch(a, {y})"),
                    2 => format!("array[int].store(a, {y}, {z})"),
                    3 => format!("{x} := array[int].length(a)"),
                    4 => format!("{x} := array[int].remove_low(a)"),
                    5 => format!("{r} := sequence[real].fetch(q, {y})"),
                    6 => format!("cell[real].put(e, {r})"),
                    8 => format!("{x} := sum(a)"),
                    9 => format!("{x} := third(d, {y})"),
                    10 => "d := a".to_owned(),
                    11 => "d := array_create[int](1, z)".to_owned(),
                    12 => format!("array[int].store(d, 2, {z})"),
                    13 => format!("{x} := array[int].fetch(d, 1)"),
                    14 => "array[int].clear(a)".to_owned(),
                    15 => format!("{x} := array[int].high(d)"),
                    _ => format!("{r} := cell[real].get(e)"),
                });
            }
            29..=31 => {
                let most = if self.known { 12 } else { 9 };
                let call = self.random.below(most);
                self.line(&match call {
                    0..=2 => format!("array[int].store(p, {y}, {z})"),
                    3..=5 => format!("{x} := array[int].fetch(p, {y})"),
                    6 => format!("{x} := array[int].length(p)"),
                    7 => format!("{x} := array[int].low(p)"),
                    8 => format!("{x} := array[int].high(p)"),
                    9 => format!("{x} := sum(p)"),
                    10 => "d := p".to_owned(),
                    _ => "p := d".to_owned(),
                });
            }
            _ => {
                self.line(&format!("s := int.unparse({y})"));
                self.line("print(s)");
            }
        }
    }

    fn for_each(&mut self) {
        let (x, y) = (self.int_var(), self.int_var());
        let r = self.real_var();
        let n = 1 + self.random.below(4);
        let heading = match self.random.below(15) {
            0 => format!("for {x} in int.to(1, {n}) do"),
            1 => format!("for {x} in int.to_by({n}, -2, -2) do"),
            2 | 3 => format!("for {x} in up({n}) do"),
            4 => format!("for {x} in through({n}) do"),
            5 => format!("for {x}, {r} in pairs({n}) do"),
            6 => format!("for {x} in guarded({n}) do"),
            7 => format!("for {x} in counter.upto(c, {n}) do"),
            8 => {
                // Appending in a loop over the array would not end.
                self.line("a := array_create[int](0, z)");
                format!("for {x} in sequence[int].elements(z) do")
            }
            11 | 12 => format!("for {x} in scan(d, {n}) do"),
            // What others know may become longer and longer.
            13 if !self.known => format!("for {x} in array[int].elements(p) do"),
            14 if !self.known => format!("for {x} in array[int].indexes(p) do"),
            9 => format!("for {y} in list[int].elements(l) do"),
            _ => format!("for {r} in sequence[real].elements(q) do"),
        };
        self.loop_body(&heading);
    }

    fn except(&mut self) {
        let exits = self.random.below(3);
        self.line("except");
        let before = self.handlers.len();
        if exits > 0 {
            self.handlers.push(["x1", "x2"][exits as usize - 1]);
        }
        self.inner(5);
        self.handlers.truncate(before);
        let x = self.int_var();
        match exits {
            1 => self.arm(&format!("when x1 ({x}):")),
            2 => self.arm("when x2:"),
            _ => {}
        }
        if self.random.below(2) == 0 {
            self.arm("when zero, bounds:");
        }
        let x = self.int_var();
        match self.random.below(4) {
            0 => self.arm(&format!("when e1 ({x}):")),
            1 => self.arm("when e2, overflow, e1:"),
            2 => self.arm("when failure (s):"),
            _ => {}
        }
        match self.random.below(3) {
            0 => self.arm("others (s):"),
            1 => self.arm("others:"),
            _ => {}
        }
        self.line("end");
    }

    fn arm(&mut self, heading: &str) {
        self.line(heading);
        self.inner(3);
    }
}
