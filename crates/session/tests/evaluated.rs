//! The same program three ways: as one control structure, as a batched procedure, and call by call with the control
//! flow in the client. The results are the same.

mod support;

use support::random::{Random, repeat};
use support::{Client, World};

/// Operands: a variable by number, or a constant.
#[derive(Clone, Debug)]
enum Value {
    Var(usize),
    Const(i64),
}

/// A statement of the language that both sides can run. Variables hold ints; cells keep ints across loops.
#[derive(Clone, Debug)]
enum Step {
    /// `v = a.op(b)`
    Op(usize, &'static str, Value, Value),
    /// `v = tally.add(a)`
    Add(usize, Value),
    Bump(usize),
    Put(usize, Value),
    Get(usize, usize),
    If(&'static str, Value, Value, Vec<Step>, Vec<Step>),
    /// Over `1.to(n)`.
    To(usize, Value, Vec<Step>),
    /// Over `count_down(n)`.
    Down(usize, Value, Vec<Step>),
    /// While a cell is below a bound; the cell is raised first thing in the body.
    While(usize, i64, Vec<Step>),
    Except(Vec<Step>, Vec<(Handler, Vec<Step>)>),
    /// Appends a row of two ints to the table.
    Row(Value, Value),
    /// `v` is the sum of a sequence of these, which is one argument.
    Total(usize, Vec<Value>),
    /// Puts a shape into the cell of shapes.
    PutShape(usize),
    /// `v` is the side of the shape in the cell, seen as a square, which it may not be.
    Side(usize),
    /// If the shape in the cell is a square.
    IfSquare(Vec<Step>, Vec<Step>),
    Break,
    Continue,
}

#[derive(Clone, Debug)]
enum Handler {
    Zero,
    WrongType,
    /// Takes the value into a variable.
    Negative(usize),
    Others,
}

/// How a block ended, when it is evaluated.
#[derive(Clone, PartialEq, Debug)]
enum Flow {
    Next,
    Break,
    Continue,
    Raised(String),
}

const CELLS: usize = 3;

/// The shapes of the world: for each its side, if it is a square.
const SHAPES: [Option<i64>; 3] = [None, Some(4), Some(7)];

struct Maker {
    random: Random,
    next: usize,
    /// Steps left to make.
    budget: usize,
}

impl Maker {
    fn value(&mut self, visible: &[usize]) -> Value {
        if !visible.is_empty() && !self.random.chance(3) {
            return Value::Var(visible[self.random.below(visible.len())]);
        }
        Value::Const(self.random.below(8) as i64 - 2)
    }

    fn var(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn block(&mut self, visible: &[usize], depth: usize, in_loop: bool) -> Vec<Step> {
        let mut visible = visible.to_vec();
        let mut steps = Vec::new();
        for _ in 0..1 + self.random.below(5) {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let step = self.step(&mut visible, depth, in_loop);
            let over = matches!(step, Step::Break | Step::Continue);
            steps.push(step);
            if over {
                break;
            }
        }
        steps
    }

    fn step(&mut self, visible: &mut Vec<usize>, depth: usize, in_loop: bool) -> Step {
        let simple = depth >= 4;
        match self.random.below(if simple { 14 } else { 22 }) {
            0..=2 => {
                let op = *self.random.pick(&[&"add", &"sub", &"mul", &"div", &"mod"]);
                let (a, b) = (self.value(visible), self.value(visible));
                let v = self.var();
                visible.push(v);
                Step::Op(v, op, a, b)
            }
            3 => {
                let a = self.value(visible);
                let v = self.var();
                visible.push(v);
                Step::Add(v, a)
            }
            4 => {
                let v = self.var();
                visible.push(v);
                Step::Bump(v)
            }
            5 | 6 => {
                let value = self.value(visible);
                Step::Put(self.random.below(CELLS), value)
            }
            7 => {
                let cell = self.random.below(CELLS);
                let v = self.var();
                visible.push(v);
                Step::Get(v, cell)
            }
            8 if in_loop => [Step::Break, Step::Continue][self.random.below(2)].clone(),
            9 | 10 => Step::Row(self.value(visible), self.value(visible)),
            11 => {
                let items = (0..self.random.below(4)).map(|_| self.value(visible)).collect();
                let v = self.var();
                visible.push(v);
                Step::Total(v, items)
            }
            12 => Step::PutShape(self.random.below(SHAPES.len())),
            13 => {
                let v = self.var();
                visible.push(v);
                Step::Side(v)
            }
            14 => {
                let then = self.block(visible, depth + 1, in_loop);
                Step::IfSquare(then, self.block(visible, depth + 1, in_loop))
            }
            15 | 16 => {
                let op = *self.random.pick(&[&"lt", &"ge", &"equal"]);
                let (a, b) = (self.value(visible), self.value(visible));
                let then = self.block(visible, depth + 1, in_loop);
                let otherwise =
                    if self.random.chance(2) { self.block(visible, depth + 1, in_loop) } else { vec![] };
                Step::If(op, a, b, then, otherwise)
            }
            17 | 18 => {
                let n = Value::Const(self.random.below(5) as i64 - 1);
                let v = self.var();
                let mut inside = visible.clone();
                inside.push(v);
                let body = self.block(&inside, depth + 1, true);
                if self.random.chance(2) { Step::To(v, n, body) } else { Step::Down(v, n, body) }
            }
            19 => {
                let cell = self.random.below(CELLS);
                let body = self.block(visible, depth + 1, true);
                Step::While(cell, self.random.below(6) as i64, body)
            }
            20 | 21 => {
                let body = self.block(visible, depth + 1, in_loop);
                let mut arms = Vec::new();
                if self.random.chance(2) {
                    arms.push((Handler::Zero, self.block(visible, depth + 1, in_loop)));
                }
                if self.random.chance(2) {
                    arms.push((Handler::WrongType, self.block(visible, depth + 1, in_loop)));
                }
                if self.random.chance(2) {
                    let v = self.var();
                    let mut inside = visible.clone();
                    inside.push(v);
                    arms.push((Handler::Negative(v), self.block(&inside, depth + 1, in_loop)));
                }
                if self.random.chance(2) {
                    arms.push((Handler::Others, self.block(visible, depth + 1, in_loop)));
                }
                Step::Except(body, arms)
            }
            _ => {
                let v = self.var();
                visible.push(v);
                Step::Bump(v)
            }
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Var(v) => format!("v{v}"),
        Value::Const(c) => c.to_string(),
    }
}

/// The script of a block as part of a structure.
fn script(steps: &[Step], out: &mut String) {
    use std::fmt::Write;
    for step in steps {
        let _ = match step {
            Step::Op(v, op, a, b) => writeln!(out, "v{v} = int.{op} {} {}", text(a), text(b)),
            Step::Add(v, a) => writeln!(out, "v{v} = Tally.add t {}", text(a)),
            Step::Bump(v) => writeln!(out, "v{v} = Tally.bump t"),
            Step::Put(c, a) => writeln!(out, "x = cell[int].put c{c} {}", text(a)),
            Step::Get(v, c) => writeln!(out, "v{v} = cell[int].get c{c}"),
            Step::If(op, a, b, then, otherwise) => {
                let _ = writeln!(out, "if\nk = int.{op} {} {}\nthen k", text(a), text(b));
                script(then, out);
                if !otherwise.is_empty() {
                    out.push_str("else\n");
                    script(otherwise, out);
                }
                writeln!(out, "end_if")
            }
            Step::To(v, n, body) => {
                let _ = writeln!(out, "foreach\nv{v} = int.to one {}", text(n));
                script(body, out);
                writeln!(out, "end_foreach")
            }
            Step::Down(v, n, body) => {
                let _ = writeln!(out, "foreach\nv{v} = count_down() {}", text(n));
                script(body, out);
                writeln!(out, "end_foreach")
            }
            Step::While(c, most, body) => {
                let _ = writeln!(
                    out,
                    "while\nw = cell[int].get c{c}\nk = int.lt w {most}\ndo k\nm = int.max w -100\nm2 = int.add m 1\nx = cell[int].put c{c} m2"
                );
                script(body, out);
                writeln!(out, "end_while")
            }
            Step::Except(body, arms) => {
                out.push_str("except\n");
                script(body, out);
                for (handler, arm) in arms {
                    let _ = match handler {
                        Handler::Zero => writeln!(out, "when zero"),
                        Handler::WrongType => writeln!(out, "when wrong_type"),
                        Handler::Negative(v) => writeln!(out, "v{v} = when negative int"),
                        Handler::Others => writeln!(out, "others"),
                    };
                    script(arm, out);
                }
                writeln!(out, "end_except")
            }
            Step::Row(a, b) => writeln!(out, "x = emit tab {} {}", text(a), text(b)),
            Step::Total(v, items) => {
                let items: Vec<String> = items.iter().map(text).collect();
                writeln!(out, "v{v} = Values.total vs {{{}}}", items.join(";"))
            }
            Step::PutShape(shape) => writeln!(out, "x = cell[Shape].put shape o{shape}"),
            Step::Side(v) => {
                writeln!(out, "e = cell[Shape].get shape\nq = as e Square\nv{v} = Square.side q")
            }
            Step::IfSquare(then, otherwise) => {
                out.push_str("if\ne = cell[Shape].get shape\nk = is e Square\nthen k\n");
                script(then, out);
                out.push_str("else\n");
                script(otherwise, out);
                writeln!(out, "end_if")
            }
            Step::Break => writeln!(out, "break"),
            Step::Continue => writeln!(out, "continue"),
        };
    }
}

/// Runs the program one call at a time.
struct Evaluator {
    client: Client,
    vars: std::collections::HashMap<usize, i64>,
    /// The rows of the table, and the shape in the cell.
    rows: Vec<(i64, i64)>,
    shape: usize,
    /// Calls left; a program that runs longer is not compared.
    steps: usize,
}

impl Evaluator {
    fn value(&self, value: &Value) -> i64 {
        match value {
            Value::Var(v) => self.vars[v],
            Value::Const(c) => *c,
        }
    }

    /// One call in a batch of its own.
    fn call(&mut self, line: &str) -> Result<String, Flow> {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            return Err(Flow::Raised("too long".to_owned()));
        }
        let told = self.client.play(&format!("r = {line}\nflush r\n"));
        match told.lines().next() {
            Some(first) if !first.contains("exception of") => Ok(first["r = ".len()..].to_owned()),
            _ => {
                let what = told.lines().nth(1).and_then(|l| l.split_once(": ")).expect("an exception").1;
                Err(Flow::Raised(what.to_owned()))
            }
        }
    }

    fn int(&mut self, line: &str) -> Result<i64, Flow> {
        self.call(line).map(|t| t.parse().expect("an int"))
    }

    fn block(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            match self.step(step) {
                Ok(Flow::Next) => {}
                Ok(flow) | Err(flow) => return flow,
            }
        }
        Flow::Next
    }

    fn each(&mut self, v: usize, values: impl Iterator<Item = i64>, body: &[Step]) -> Flow {
        for value in values {
            self.vars.insert(v, value);
            match self.block(body) {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Flow::Next,
                raised => return raised,
            }
        }
        Flow::Next
    }

    fn step(&mut self, step: &Step) -> Result<Flow, Flow> {
        match step {
            Step::Op(v, op, a, b) => {
                let line = format!("int.{op} {} {}", self.value(a), self.value(b));
                let value = self.int(&line)?;
                self.vars.insert(*v, value);
            }
            Step::Add(v, a) => {
                let line = format!("Tally.add t {}", self.value(a));
                let value = self.int(&line)?;
                self.vars.insert(*v, value);
            }
            Step::Bump(v) => {
                let value = self.int("Tally.bump t")?;
                self.vars.insert(*v, value);
            }
            Step::Put(c, a) => {
                let line = format!("cell[int].put c{c} {}", self.value(a));
                self.call(&line)?;
            }
            Step::Get(v, c) => {
                let value = self.int(&format!("cell[int].get c{c}"))?;
                self.vars.insert(*v, value);
            }
            Step::If(op, a, b, then, otherwise) => {
                let line = format!("int.{op} {} {}", self.value(a), self.value(b));
                let block = if self.call(&line)? == "true" { then } else { otherwise };
                return Ok(self.block(block));
            }
            Step::To(v, n, body) => {
                let n = self.value(n);
                return Ok(self.each(*v, 1..=n, body));
            }
            Step::Down(v, n, body) => {
                let n = self.value(n);
                if n < 0 {
                    return Err(Flow::Raised(format!("negative({n})")));
                }
                return Ok(self.each(*v, (1..=n).rev(), body));
            }
            Step::While(c, most, body) => loop {
                let w = self.int(&format!("cell[int].get c{c}"))?;
                if w >= *most {
                    break;
                }
                self.call(&format!("cell[int].put c{c} {}", w.max(-100) + 1))?;
                match self.block(body) {
                    Flow::Next | Flow::Continue => {}
                    Flow::Break => break,
                    raised => return Ok(raised),
                }
            },
            Step::Except(body, arms) => {
                let what = match self.block(body) {
                    Flow::Raised(what) if what != "too long" => what,
                    flow => return Ok(flow),
                };
                let name = what.split('(').next().unwrap_or("");
                for (handler, arm) in arms {
                    match handler {
                        Handler::Zero if name == "zero" => {}
                        Handler::WrongType if name == "wrong_type" => {}
                        Handler::Negative(v) if name == "negative" => {
                            let value = what["negative(".len()..what.len() - 1].parse().expect("an int");
                            self.vars.insert(*v, value);
                        }
                        Handler::Others => {}
                        _ => continue,
                    }
                    return Ok(self.block(arm));
                }
                return Ok(Flow::Raised(what));
            }
            // Rows, values with items and types are those of a model in plain Rust.
            Step::Row(a, b) => self.rows.push((self.value(a), self.value(b))),
            Step::Total(v, items) => {
                let total = items.iter().map(|item| self.value(item)).try_fold(0_i64, i64::checked_add);
                let total = total.ok_or_else(|| Flow::Raised(OVERFLOW.to_owned()))?;
                self.vars.insert(*v, total);
            }
            Step::PutShape(shape) => self.shape = *shape,
            Step::Side(v) => match SHAPES[self.shape] {
                Some(side) => drop(self.vars.insert(*v, side)),
                None => return Err(Flow::Raised("wrong_type".to_owned())),
            },
            Step::IfSquare(then, otherwise) => {
                let block = if SHAPES[self.shape].is_some() { then } else { otherwise };
                return Ok(self.block(block));
            }
            Step::Break => return Ok(Flow::Break),
            Step::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }
}

/// What is left of a run: the cells, the tally, and how it ended.
fn state(client: &mut Client) -> String {
    let mut text = String::from("v = Tally.value t\n");
    (0..CELLS).for_each(|c| text += &format!("s{c} = cell[int].get c{c}\n"));
    text += "flush v s0 s1 s2\n";
    client.play(&text)
}

fn begin(client: &mut Client) {
    let mut text = String::from("t = lookup tally Tally\nx = Tally.reset t\n");
    (0..CELLS).for_each(|c| text += &format!("c{c} = cell int\nx = cell[int].put c{c} {c}\n"));
    text += "vs = lookup values Values\no0 = new_rectangle() 2 3\n";
    for (shape, side) in SHAPES.iter().enumerate().filter_map(|(n, side)| Some((n, (*side)?))) {
        text += &format!("o{shape} = new_square() {side}\n");
    }
    text += "shape = cell Shape\nx = cell[Shape].put shape o0\n";
    text += "flush t c0 c1 c2 vs o0 o1 o2 shape\n";
    client.play(&text);
}

/// The exception of a sum that is too great.
const OVERFLOW: &str = "failure(\"unhandled exception: overflow\")";

/// The table in a reply, as rows of text.
fn table(told: &str) -> String {
    told.lines().find(|line| line.starts_with("tab = ")).unwrap_or("tab = absent").to_owned()
}

/// How a batch ended, from its reply: `done` or the exception.
fn ending(told: &str) -> String {
    let exception = told.lines().find(|l| l.starts_with('-')).and_then(|l| l.split_once(": "));
    exception.map_or("done", |(_, what)| what).to_owned()
}

fn compare(seed: u64) -> bool {
    let mut maker = Maker { random: Random::new(seed), next: 0, budget: 40 };
    let program = maker.block(&[], 0, false);
    let mut body = String::new();
    script(&program, &mut body);
    let begun = "one = const 1\ny = const true\ntab = rows int int\n";
    let structure = format!("{begun}if\nthen y\n{body}end_if\nflush tab\n");
    let procedure = format!("{begun}procedure p\n{body}end_procedure\nr = proc 0\nflush tab\n");
    let mut results: Vec<(String, String, String)> = Vec::new();
    for mode in support::modes() {
        // One of them with a collection at each allocation.
        for (text, collect) in [&structure, &procedure].into_iter().zip(support::collections().iter().cycle())
        {
            let Some(mut world) = World::collected(mode, *collect) else { continue };
            // Ten times what the evaluator may take: one that runs longer is not compared.
            let mut limits = bifrost_session::Limits::default();
            limits.set(bifrost_wire::Limit::Fuel, 20_000);
            let mut client = world.client_with(limits);
            begin(&mut client);
            let told = client.play(text);
            results.push((ending(&told), table(&told), state(&mut client)));
        }
    }
    let mut world = World::new(bifrost_engine::Mode::Interpreted).expect("the interpreter is always there");
    let mut client = world.client();
    begin(&mut client);
    let mut evaluator =
        Evaluator { client, vars: std::collections::HashMap::new(), rows: Vec::new(), shape: 0, steps: 2000 };
    let flow = evaluator.block(&program);
    let ending = match flow {
        Flow::Raised(what) if what == "too long" => return false,
        Flow::Raised(what) => what,
        _ => "done".to_owned(),
    };
    // The table that a batch with these rows has.
    let mut emits = String::from("tab = rows int int\n");
    evaluator.rows.iter().for_each(|(a, b)| emits += &format!("x = emit tab {a} {b}\n"));
    let mut client = evaluator.client;
    let told = client.play(&format!("clear_history\n{emits}flush tab\n"));
    results.push((ending, table(&told), state(&mut client)));
    let evaluated = results.last().expect("there are some");
    for result in &results {
        assert_eq!(result, evaluated, "\nseed {seed}\n{structure}");
    }
    true
}

/// Programs whose sums are too great are rare among the random ones.
#[test]
fn a_sum_that_is_too_great_fails_as_in_the_model() {
    for mode in support::modes() {
        let Some(mut world) = World::collected(mode, support::collections()[0]) else { continue };
        let mut client = world.client();
        begin(&mut client);
        let told = client.play(&format!("v = Values.total vs {{{};1}}\nflush v\n", i64::MAX));
        assert_eq!(ending(&told), OVERFLOW, "{told}");
    }
}

#[test]
fn structures_do_what_single_calls_do() {
    let (mut runs, mut compared) = (0, 0);
    repeat("structures_do_what_single_calls_do", |seed| {
        compared += u32::from(compare(seed));
        runs += 1;
    });
    println!("{compared} of {runs} programs compared");
    assert!(compared > 0);
}
