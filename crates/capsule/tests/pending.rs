//! Arrays of replies that are missing: methods at random store requests in every shape, and answer
//! the same in both ways to run them.
//!
//! The verifier of the code generator looks at all that is compiled, as in every test.

#[path = "support/orders.rs"]
mod orders;
#[allow(dead_code, reason = "it is for all random tests")]
#[path = "../../session/tests/support/random.rs"]
mod random;

use bifrost_engine::Mode;
use bifrost_runtime::{Collect, Limits};
use orders::output::simulated;
use orders::{load, prints, ran};
use random::{Random, repeat};

#[test]
fn replies_for_constant_indexes_come_late() {
    let text = "Late = actor
  twice (n: int) returns (int)
    r: replier[int] := replyto
    send self.later(n, r)
  end twice
  later (n: int, r: replier[int]) r.deliver(2 * n) end later
end Late
Asker = actor
  go (l: Late, n: int) returns (int)
    a: array[int] := array_fill[int](1, 2, 0)
    a[1] := l.twice(n)
    a[2] := l.twice(n + 1)
    reply (a[1] * 100 + a[2])
  end go
end Asker
main ()
  l: Late := Late.new()
  a: Asker := Asker.new()
  sum: int := 0
  for i: int in 1.to(20) do sum := sum + a.go(l, i) end
  print(sum.unparse())
end main";
    prints(text, "42460\n");
}

#[test]
fn an_exception_in_place_of_a_value_is_raised_wherever_that_is_read() {
    let text = "Source = actor
  twice (n: int) returns (string) signals (odd (int))
    if n // 2 = 1 then signal odd(n) end
    reply (n.unparse())
  end twice
end Source
Asker = actor
  go (s: Source, n: int) returns (string)
    log: string := \"\"
    x: string := s.twice(n)
    y: string := s.twice(n + 1)
    for i: int in 1.to(2) do
      begin
        log := log || (s.twice(2)) || x || y
      end except when odd (k: int): log := log || \"odd \" || k.unparse() || \" \" end
      begin
        log := log || (s.twice(4)) || y
      end except when odd (k: int): log := log || \"odd \" || k.unparse() || \" \" end
    end
    begin
      x := s.twice(n + 1)
      log := log || x
    end except when odd (k: int): log := log || \"last \" || k.unparse() end
    reply (log)
  end go
end Asker
main ()
  s: Source := Source.new()
  a: Asker := Asker.new()
  for n: int in 2.to(5) do print(a.go(s, n)) end
end main";
    let twice = |text: &str| text.repeat(2);
    let expected = [
        twice("odd 3 odd 3 ") + "last 3",
        twice("odd 3 44") + "4",
        twice("odd 5 odd 5 ") + "last 5",
        twice("odd 5 46") + "6",
    ];
    prints(text, &(expected.join("\n") + "\n"));
}

#[test]
fn a_method_answers_with_what_a_request_brings_or_a_handler_says() {
    let text = "Source = actor
  f (k: int) returns (string) signals (bad)
    if k = 0 then signal bad end
    reply (k.unparse())
  end f
end Source
Asker = actor
  m (s: Source, k: int) returns (string)
    begin reply (s.f(k)) end except when bad: reply (\"bad\") end
  end m
end Asker
main ()
  s: Source := Source.new()
  a: Asker := Asker.new()
  print(a.m(s, 1) || a.m(s, 0))
end main";
    prints(text, "1bad\n");
}

/// Answers at once, late, by another actor and with an exception, for each type of element.
fn sources() -> String {
    let one = |ty: &str, value: &str| {
        format!(
            "  {ty}_now (n: int) returns ({ty}) signals (odd (int))
    if n // 7 = 3 then signal odd(n) end
    reply ({value})
  end {ty}_now
  {ty}_late (n: int) returns ({ty})
    r: replier[{ty}] := replyto
    send self.{ty}_give(n, r)
  end {ty}_late
  {ty}_give (n: int, r: replier[{ty}]) r.deliver({value}) end {ty}_give
  {ty}_other (o: Source, n: int) returns ({ty}) signals (odd (int))
    if n // 2 = 0 then delegate o.{ty}_late(n) else delegate o.{ty}_now(n) end
  end {ty}_other
"
        )
    };
    let values = [
        ("int", "3 * n + 1"),
        ("real", "n.to_real() / 4.0"),
        ("bool", "n // 3 = 0"),
        ("string", "n.unparse()"),
    ];
    let methods: String = values.iter().map(|(ty, value)| one(ty, value)).collect();
    format!("Source = actor\n{methods}end Source\n")
}

const TYPES: [&str; 4] = ["int", "real", "bool", "string"];

/// Numbers that indexes have, mostly inside the bounds.
const INDEXES: [&str; 8] = ["1", "2", "2", "3", "1", "n // 3 + 1", "k", "4"];

/// A method under construction.
struct Generator {
    random: Random,
    text: String,
    depth: usize,
    /// Arrays and vectors that can be used here: their numbers and types.
    arrays: Vec<(usize, &'static str)>,
    /// Variables that take replies.
    singles: Vec<(usize, &'static str)>,
    names: usize,
    /// Loops around.
    loops: usize,
    budget: usize,
}

impl Generator {
    fn line(&mut self, line: &str) {
        self.text += &"  ".repeat(self.depth + 2);
        self.text += line;
        self.text.push('\n');
    }

    fn request(&mut self, ty: &str) -> String {
        let n = self.random.pick(&["n", "n + 1", "2 * n", "k", "n + k", "5"]).to_owned();
        self.request_of(ty, &n)
    }

    /// A request for an element. All for the same one have the same reply, since no order of the
    /// replies is promised.
    fn request_at(&mut self, ty: &str, index: &str) -> String {
        self.request_of(ty, &format!("n + 2 * ({index})"))
    }

    fn request_of(&mut self, ty: &str, n: &str) -> String {
        match self.random.below(6) {
            0 | 1 => format!("s.{ty}_now({n})"),
            2 => format!("o.{ty}_late({n})"),
            3 => format!("s.{ty}_other(o, {n})"),
            4 => format!("(Source.new()).{ty}_now({n})"),
            _ => format!("s.{ty}_late({n})"),
        }
    }

    fn constant(ty: &str) -> &'static str {
        match ty {
            "int" => "7",
            "real" => "0.5",
            "bool" => "true",
            _ => "\"-\"",
        }
    }

    fn array(&mut self) {
        let ty = *self.random.pick(&[&TYPES[0], &TYPES[0], &TYPES[1], &TYPES[2], &TYPES[3]]);
        let value = Self::constant(ty);
        let (kind, made) = match self.random.below(5) {
            0 | 1 => ("array", format!("array_fill[{ty}](1, 3, {value})")),
            2 => ("array", format!("array_create[{ty}](1, .. {value}, {value}, {value}, {value})")),
            3 => ("array", format!("array_fill[{ty}](1, 2 + k, {value})")),
            _ => ("vector", format!("vector_new[{ty}](3, {value})")),
        };
        self.names += 1;
        let name = self.names;
        self.line(&format!("v{name}: {kind}[{ty}] := {made}"));
        self.arrays.push((name, ty));
    }

    fn block(&mut self) {
        let (arrays, singles) = (self.arrays.len(), self.singles.len());
        self.depth += 1;
        for _ in 0..1 + self.random.below(4) {
            self.statement();
        }
        self.depth -= 1;
        self.arrays.truncate(arrays);
        self.singles.truncate(singles);
    }

    fn store(&mut self) {
        let Some((name, ty)) = self.some_array() else { return self.array() };
        let index = self.random.pick(&INDEXES).to_owned();
        let request = self.request_at(ty, &index);
        self.line(&format!("v{name}[{index}] := {request}"));
    }

    fn some_array(&mut self) -> Option<(usize, &'static str)> {
        (!self.arrays.is_empty()).then(|| self.arrays[self.random.below(self.arrays.len())])
    }

    fn condition(&mut self) -> String {
        let simple = self.random.pick(&["n // 2 = 0", "k > 1", "log.length() // 2 = 0"]).to_owned();
        match (self.random.below(3), self.some_array()) {
            (0, Some((name, ty))) => format!("v{name}[2] = {}", Self::constant(ty)),
            _ => simple,
        }
    }

    fn statement(&mut self) {
        self.budget = self.budget.saturating_sub(1);
        let nests = self.budget > 0 && self.depth < 4;
        match self.random.below(if nests { 20 } else { 13 }) {
            0 => self.array(),
            1..=6 => {
                for _ in 0..1 + self.random.below(3) {
                    self.store();
                }
            }
            7 => {
                let ty = *self.random.pick(&[&TYPES[0], &TYPES[3]]);
                let request = self.request(ty);
                self.names += 1;
                let name = self.names;
                self.line(&format!("x{name}: {ty} := {request}"));
                self.singles.push((name, ty));
            }
            8 => match self.singles.is_empty() {
                true => self.store(),
                false => {
                    let (name, _) = self.singles[self.random.below(self.singles.len())];
                    self.line(&format!("log := log || x{name}.unparse() || \", \""));
                }
            },
            9 => {
                let Some((name, ty)) = self.some_array() else { return self.array() };
                let index = self.random.pick(&INDEXES).to_owned();
                self.line(&format!("v{name}[{index}] := {}", Self::constant(ty)));
            }
            10 => {
                let (a, b) = (self.request("int"), self.request("int"));
                self.line(&format!("k := ({a} + {b}) // 3"));
            }
            11 | 12 => {
                let Some((name, _)) = self.some_array() else { return self.array() };
                match self.random.below(3) {
                    0 => self.line(&format!("log := log || v{name}[2].unparse() || \" \"")),
                    1 => self.line(&format!(
                        "for it: {} in v{name}.elements() do log := log || it.unparse() || \" \" end",
                        self.arrays.iter().find(|(array, _)| *array == name).expect("it is there").1
                    )),
                    _ => self.line(&format!("log := log || v{name}.unparse()")),
                }
            }
            13 | 14 => {
                let condition = self.condition();
                self.line(&format!("if {condition} then"));
                self.block();
                if self.random.chance(2) {
                    self.line("else");
                    self.block();
                }
                self.line("end");
            }
            15 => {
                self.loops += 1;
                self.names += 1;
                let name = self.names;
                self.line(&format!("for i{name}: int in 1.to(3) do"));
                let Some((array, ty)) = self.some_array() else {
                    self.line("end");
                    return;
                };
                let request = self.request_at(ty, &format!("i{name}"));
                self.depth += 1;
                self.line(&format!("v{array}[i{name}] := {request}"));
                self.depth -= 1;
                self.block();
                self.line("end");
                self.loops -= 1;
            }
            16 | 17 => {
                self.loops += 1;
                self.names += 1;
                let name = self.names;
                self.line(&format!("w{name}: int := 0"));
                self.line(&format!("while w{name} < {} do", 1 + self.random.clone().below(3)));
                self.depth += 1;
                self.line(&format!("w{name} := w{name} + 1"));
                self.depth -= 1;
                self.block();
                if self.random.chance(3) {
                    let condition = self.condition();
                    self.line(&format!("  if {condition} then break end"));
                }
                self.line("end");
                self.loops -= 1;
            }
            _ => {
                let begin = self.text.len();
                self.line("begin");
                self.block();
                // What is handled in it is not raised by it.
                let inside = self.text[begin..].replacen("begin", "", 1);
                let odd =
                    !inside.contains("begin") && ["_now(", "_other("].iter().any(|it| inside.contains(it));
                let asked = match self.random.below(3) {
                    0 => String::new(),
                    _ => format!(" || {}.unparse()", self.request("int")),
                };
                match odd && self.random.chance(2) {
                    true => self.line(&format!(
                        "end except when odd (it: int): log := log || \"odd \" || it.unparse(){asked} end"
                    )),
                    false => self.line(&format!(
                        "end except others (why: string): log := log || \"!\" || why{asked} || \" \" end"
                    )),
                }
            }
        }
    }
}

/// A program whose methods store requests in arrays.
fn program(seed: u64) -> String {
    let mut text = sources();
    let mut random = Random::new(seed);
    let methods = 1 + random.below(3);
    text += "Asker = actor\n";
    for number in 0..methods {
        let mut method = Generator {
            random: random.clone(),
            text: String::new(),
            depth: 0,
            arrays: vec![],
            singles: vec![],
            names: 0,
            loops: 0,
            budget: 24,
        };
        for _ in 0..1 + method.random.below(2) {
            method.array();
        }
        for _ in 0..4 + method.random.below(8) {
            method.statement();
        }
        for (name, _) in method.arrays.clone() {
            method.line(&format!("log := log || v{name}.unparse()"));
        }
        random = method.random;
        text += &format!(
            "  go{number} (s: Source, o: Source, n: int) returns (string)
    log: string := \"\"   k: int := n // 4
{}    reply (log)
  end go{number}
",
            method.text
        );
    }
    text += "end Asker\nmain ()\n  s: Source := Source.new()   o: Source := Source.new()   a: Asker := Asker.new()\n";
    for number in 0..methods {
        text += &format!(
            "  for n: int in 0.to(11) do
    begin print(a.go{number}(s, o, n)) end except others (why: string): print(\"failed: \" || why) end
  end
"
        );
    }
    text + "end main\n"
}

fn check(seed: u64) {
    let text = program(seed);
    let path = std::env::temp_dir().join(format!("pending-{}.theta", std::process::id()));
    // If the process is ended, it is there.
    std::fs::write(&path, &text).expect("the temporary folder takes files");
    let [compiled, interpreted] = [Mode::Compiled, Mode::Interpreted].map(|mode| load(&text, mode));
    let (expected, _) = ran(&interpreted, Collect::Ordinary, None, &[]);
    let same = |output: &str, how: &str| {
        assert_eq!(output, expected.output, "{how}, {}", path.display());
    };
    for engine in [&compiled, &interpreted] {
        let mode = if std::ptr::eq(engine, &compiled) { "compiled" } else { "interpreted" };
        for order in [None, Some(seed), Some(seed + 1), Some(seed + 2)] {
            let collect = if order == Some(seed) { Collect::Zeal(3) } else { Collect::Ordinary };
            let (ran, _) = ran(engine, collect, order, &[]);
            same(&ran.output, &format!("{mode}, order {order:?}"));
        }
        same(&simulated(engine, Limits::default(), 2, seed, &[]).output, &format!("{mode} on two nodes"));
    }
    let _ = std::fs::remove_file(&path);
}

#[test]
fn replies_in_arrays_at_random_are_the_same_in_both_ways() {
    repeat("replies_in_arrays_at_random_are_the_same_in_both_ways", check);
}
