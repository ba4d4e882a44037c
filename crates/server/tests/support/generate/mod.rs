//! Well-typed programs at random.
//!
//! A program has a few types with classes (some inherit and override), creators, routines and iterators in levels, and
//! a `main` that calls them and prints what comes back; in every third it has transactions, which keep objects. A routine calls only those of lower levels, and only the lowest
//! from inside loops, so every program ends soon; strings and arrays are kept short where they are made.
//!
//! Read [`program`] first, then [`Generator::expr`] and [`Generator::stmt`]. Whatever an expression may signal is noted
//! in [`Generator::raised`], so that handlers name only what can happen.

use std::collections::BTreeSet;
use std::fmt::Write;

mod expressions;
mod statements;
mod transactions;

use super::random::Random;

/// A type.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Ty {
    Int,
    Real,
    Bool,
    Char,
    String,
    Array(Box<Ty>),
    Sequence(Box<Ty>),
    List(Box<Ty>),
    Cell(Box<Ty>),
    Vector(Box<Ty>),
    Maybe(Box<Ty>),
    /// Keys are `int` or `string`.
    Map(Box<Ty>, Box<Ty>),
    Record(Vec<Ty>),
    Struct(Vec<Ty>),
    Oneof(Vec<Ty>),
    /// A procedure of one argument and one result.
    Proc(Box<Ty>, Box<Ty>),
    /// A generic type of the program, `box[T]`.
    Boxed(Box<Ty>),
    /// A type of the program, by number.
    Object(usize),
    Any,
}

impl Ty {
    fn name(&self) -> String {
        let fields = |types: &[Ty]| {
            let parts: Vec<_> =
                types.iter().enumerate().map(|(i, t)| format!("f{i}: {}", t.name())).collect();
            parts.join(", ")
        };
        match self {
            Ty::Int => "int".to_owned(),
            Ty::Real => "real".to_owned(),
            Ty::Bool => "bool".to_owned(),
            Ty::Char => "char".to_owned(),
            Ty::String => "string".to_owned(),
            Ty::Array(t) => format!("array[{}]", t.name()),
            Ty::Sequence(t) => format!("sequence[{}]", t.name()),
            Ty::List(t) => format!("list[{}]", t.name()),
            Ty::Cell(t) => format!("cell[{}]", t.name()),
            Ty::Vector(t) => format!("vector[{}]", t.name()),
            Ty::Maybe(t) => format!("maybe[{}]", t.name()),
            Ty::Map(k, v) => format!("map[{}, {}]", k.name(), v.name()),
            Ty::Record(f) => format!("record[{}]", fields(f)),
            Ty::Struct(f) => format!("struct[{}]", fields(f)),
            Ty::Oneof(f) => format!("oneof[{}]", fields(f)),
            Ty::Proc(a, r) => format!("proc ({}) returns ({})", a.name(), r.name()),
            Ty::Boxed(t) => format!("box[{}]", t.name()),
            Ty::Object(i) => format!("t{i}"),
            Ty::Any => "any".to_owned(),
        }
    }

    /// Whether values have `unparse`.
    fn prints(&self) -> bool {
        match self {
            Ty::Int | Ty::Real | Ty::Bool | Ty::Char | Ty::String => true,
            Ty::Array(t) | Ty::Sequence(t) | Ty::List(t) | Ty::Vector(t) | Ty::Maybe(t) => t.prints(),
            Ty::Map(k, v) => k.prints() && v.prints(),
            Ty::Record(f) | Ty::Struct(f) | Ty::Oneof(f) => f.iter().all(Ty::prints),
            Ty::Cell(_) | Ty::Proc(..) | Ty::Boxed(_) | Ty::Object(_) | Ty::Any => false,
        }
    }

    /// Whether values have `equal` by contents, or may at least be compared.
    fn compares(&self) -> bool {
        match self {
            Ty::Int | Ty::Bool | Ty::Char | Ty::String | Ty::Real => true,
            Ty::Sequence(t) | Ty::List(t) | Ty::Maybe(t) => t.compares(),
            Ty::Struct(f) | Ty::Oneof(f) => f.iter().all(Ty::compares),
            _ => false,
        }
    }
}

/// An exception and what it carries.
static SIGNALS: [(&str, &[Ty]); 3] = [("e1", &[Ty::Int]), ("e2", &[]), ("e3", &[Ty::String, Ty::Int])];

fn values_of(signal: &str) -> &'static [Ty] {
    SIGNALS.iter().find(|(name, _)| *name == signal).map_or(&[], |(_, types)| *types)
}

/// The heading of a routine or method.
#[derive(Clone, Debug)]
struct Heading {
    name: String,
    args: Vec<Ty>,
    results: Vec<Ty>,
    yields: Option<Vec<Ty>>,
    signals: Vec<&'static str>,
}

impl Heading {
    fn text(&self, names: &[String]) -> String {
        let args: Vec<_> = names.iter().zip(&self.args).map(|(n, t)| format!("{n}: {}", t.name())).collect();
        let list = |types: &[Ty]| types.iter().map(Ty::name).collect::<Vec<_>>().join(", ");
        let mut out = format!("{} ({})", self.name, args.join(", "));
        match &self.yields {
            Some(types) => write!(out, " yields ({})", list(types)).unwrap(),
            None if self.results.is_empty() => {}
            None => write!(out, " returns ({})", list(&self.results)).unwrap(),
        }
        if !self.signals.is_empty() {
            let signal = |s: &&str| match values_of(s) {
                [] => (*s).to_owned(),
                values => format!("{s} ({})", list(values)),
            };
            let signals: Vec<String> = self.signals.iter().map(signal).collect();
            write!(out, " signals ({})", signals.join(", ")).unwrap();
        }
        out
    }
}

/// A type of the program with the creators of its classes.
#[derive(Debug)]
struct Object {
    /// All methods, inherited ones included.
    methods: Vec<Heading>,
    above: Option<usize>,
    /// Creators, with their arguments.
    creators: Vec<(String, Vec<Ty>)>,
}

#[derive(Clone, Debug)]
struct Local {
    name: String,
    ty: Ty,
    assigned: bool,
}

/// What the body under way may do.
#[derive(Clone, Debug, Default)]
struct Context {
    heading: Option<Heading>,
    /// Instance variables, in a method.
    ivars: Vec<(String, Ty)>,
    /// Routines up to here (exclusive) may be called.
    routines: usize,
    iterators: usize,
    /// Types up to here (exclusive) have methods that may be called.
    objects: usize,
    calls: usize,
    loops: usize,
    /// Inside the body of a loop, for `break` and `continue`.
    in_loop: bool,
}

pub struct Generator {
    random: Random,
    /// 1 for a program of some ten routines and 500 lines, 0 for a small one.
    size: usize,
    out: String,
    indent: usize,
    next: usize,
    objects: Vec<Object>,
    routines: Vec<(Heading, bool)>,
    iterators: Vec<Heading>,
    locals: Vec<Local>,
    context: Context,
    /// What the statement under way may signal.
    raised: BTreeSet<&'static str>,
    /// What the root directory has, by the numbers in its names; nothing in a program without transactions.
    stored: Vec<Ty>,
}

/// The program of a seed: one in thirty is large.
pub fn program(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut generator = Generator {
        size: usize::from(random.chance(30)),
        random,
        out: String::new(),
        indent: 0,
        next: 0,
        objects: vec![],
        routines: vec![],
        iterators: vec![],
        locals: vec![],
        context: Context::default(),
        raised: BTreeSet::new(),
        stored: vec![],
    };
    generator.program();
    generator.out
}

const PRELUDE: &str = "clip (s: string) returns (string)
  if s.length() > 30 then return (s.substr(1, 30)) except when bounds: end end
  return (s)
end clip
box = type [T] take () returns (T) signals (empty) give (v: T) full () returns (bool) end box
module boxes exports new_box
  Box = class [T] implements box[T]
    held: array[T]
    take () returns (T) signals (empty) return (held.remove()) except when bounds: signal empty end end take
    give (v: T) if held.length() < 5 then held.append(v) end end give
    full () returns (bool) return (~held.empty()) end full
  end Box
  new_box [T] () returns (box[T]) return (Box[T]{held := array_new[T]()}) end new_box
end boxes
pick [T] (a: T, b: T, first: bool) returns (T)
  if first then return (a) end
  return (b)
end pick
count_like [T] (a: array[T], v: T) returns (int) where T has equal (T) returns (bool)
  n: int := 0
  for x: T in a.elements() do
    if x = v then n := n + 1 end
  end
  return (n)
end count_like
longer [T] (l: list[T], v: T) returns (list[T])
  if l.length() < 8 then return (l.cons(v)) end
  return (l)
end longer
extended [T] (a: sequence[T], v: T) returns (sequence[T])
  if a.length() < 8 then return (a.append(v)) end
  return (a)
end extended
each_twice [T] (a: sequence[T]) yields (T)
  for x: T in a.elements() do
    yield (x)
    yield (x)
  end
end each_twice
";

impl Generator {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.random.chance(one_in)
    }

    // Types.

    fn basic(&mut self) -> Ty {
        [Ty::Int, Ty::Int, Ty::Int, Ty::Real, Ty::Bool, Ty::Char, Ty::String][self.below(7)].clone()
    }

    fn types(&mut self, n: usize, depth: usize) -> Vec<Ty> {
        (0..n).map(|_| self.ty(depth)).collect()
    }

    fn ty(&mut self, depth: usize) -> Ty {
        if depth == 0 || self.chance(2) {
            return self.basic();
        }
        let inner = |g: &mut Self| Box::new(g.ty(depth - 1));
        match self.below(17) {
            0 | 1 => Ty::Array(inner(self)),
            2 => Ty::Sequence(inner(self)),
            3 => Ty::List(inner(self)),
            4 => Ty::Cell(inner(self)),
            5 => Ty::Vector(inner(self)),
            6 => Ty::Maybe(inner(self)),
            7 => {
                let key = if self.chance(2) { Ty::Int } else { Ty::String };
                Ty::Map(Box::new(key), inner(self))
            }
            8 => {
                let n = 1 + self.below(3);
                Ty::Record(self.types(n, depth - 1))
            }
            9 => {
                let n = 1 + self.below(3);
                Ty::Struct(self.types(n, depth - 1))
            }
            10 => {
                let n = 1 + self.below(3);
                Ty::Oneof(self.types(n, depth - 1))
            }
            11 => Ty::Proc(inner(self), inner(self)),
            12 => Ty::Boxed(inner(self)),
            13 => Ty::Any,
            _ if self.context.objects > 0 => {
                let n = self.context.objects;
                Ty::Object(self.below(n))
            }
            _ => self.basic(),
        }
    }

    // Items.

    /// A heading; leaves have no loops' worth of calls in them.
    fn heading(&mut self, name: String, results: usize) -> Heading {
        let n = self.below(4);
        let args = self.types(n, 2);
        let results = self.types(results, 2);
        let mut signals = vec![];
        for (signal, _) in SIGNALS {
            if self.chance(4) {
                signals.push(signal);
            }
        }
        Heading { name, args, results, yields: None, signals }
    }

    fn body(&mut self, heading: &Heading, context: Context, statements: usize) {
        let names: Vec<String> = heading.args.iter().map(|_| self.fresh("a")).collect();
        self.line(&heading.text(&names));
        let args = names.into_iter().zip(heading.args.clone());
        self.locals = args.map(|(name, ty)| Local { name, ty, assigned: true }).collect();
        self.context = Context { heading: Some(heading.clone()), ..context };
        self.indent += 1;
        for _ in 0..statements {
            self.stmt(1 + 2 * self.size);
        }
        self.show();
        if heading.yields.is_none() && !heading.results.is_empty() {
            let values = self.list(&heading.results, 2);
            self.line(&format!("return ({values})"));
        }
        self.indent -= 1;
        self.line(&format!("end {}", heading.name));
        self.locals.clear();
        self.raised.clear();
    }

    fn object(&mut self, i: usize) {
        let above = (i > 0 && self.chance(2)).then(|| self.below(i));
        self.context = Context { objects: i, ..Context::default() };
        let mut methods = above.map_or_else(Vec::new, |up| self.objects[up].methods.clone());
        let inherited = methods.len();
        for _ in 0..1 + self.below(3) {
            let name = self.fresh("m");
            let results = self.below(5).min(2);
            methods.push(self.heading(name, results.min(1)));
        }
        let supertype = above.map_or_else(String::new, |up| format!(" < t{up}"));
        self.line(&format!("t{i} = type{supertype}"));
        for heading in methods[inherited..].iter().cloned() {
            let names: Vec<String> = heading.args.iter().map(|_| self.fresh("a")).collect();
            self.line(&format!("  {}", heading.text(&names)));
        }
        self.line(&format!("end t{i}"));
        self.objects.push(Object { methods: methods.clone(), above, creators: vec![] });
        self.line(&format!("module m{i}"));
        let exports = self.out.len();
        let mut creators = vec![];
        let mut first: Option<Vec<(String, Ty)>> = None;
        for _ in 0..1 + self.below(2) {
            let class = self.fresh("C");
            let inherits = first.is_some() && self.chance(2);
            let n = 1 + self.below(3);
            let ivars: Vec<(String, Ty)> =
                self.types(n, 1).into_iter().map(|ty| (self.fresh("w"), ty)).collect();
            let from = if inherits { " inherits First" } else { "" };
            let name = if first.is_none() { "First".to_owned() } else { class };
            let provides = if first.is_none() { " provides make_first" } else { "" };
            self.line(&format!("{name} = class implements t{i}{from}{provides}"));
            for (ivar, ty) in &ivars {
                self.line(&format!("  {ivar}: {}", ty.name()));
            }
            for heading in &methods {
                if inherits && self.chance(2) {
                    continue;
                }
                let context = Context {
                    ivars: ivars.clone(),
                    routines: self.routines.len(),
                    iterators: self.iterators.len(),
                    objects: i,
                    calls: 2,
                    ..Context::default()
                };
                let statements = 1 + self.below(3);
                self.body(heading, context, statements);
            }
            if first.is_none() {
                let args: Vec<String> = ivars.iter().map(|(n, t)| format!("b{n}: {}", t.name())).collect();
                let inits: Vec<String> = ivars.iter().map(|(n, _)| format!("{n} := b{n}")).collect();
                self.line(&format!("make_first ({}) makes (First)", args.join(", ")));
                self.line(&format!("  make {{{}}}", inits.join(", ")));
                self.line("end make_first");
            }
            self.line(&format!("end {name}"));
            let creator = self.fresh("new_");
            let all: Vec<(String, Ty)> = match (&first, inherits) {
                (Some(above), true) => ivars.iter().chain(above).cloned().collect(),
                _ => ivars.clone(),
            };
            let args: Vec<String> = all.iter().map(|(n, t)| format!("{n}: {}", t.name())).collect();
            let inits: Vec<String> = ivars.iter().map(|(n, _)| format!("{n} := {n}")).collect();
            let more = match (&first, inherits) {
                (Some(above), true) => {
                    let args: Vec<&str> = above.iter().map(|(n, _)| n.as_str()).collect();
                    format!("; make_first({})", args.join(", "))
                }
                _ => String::new(),
            };
            self.line(&format!("{creator} ({}) returns (t{i})", args.join(", ")));
            self.line(&format!("  return ({name}{{{}{more}}})", inits.join(", ")));
            self.line(&format!("end {creator}"));
            creators.push((creator, all.into_iter().map(|(_, ty)| ty).collect()));
            first.get_or_insert(ivars);
        }
        self.line(&format!("end m{i}"));
        let names: Vec<&str> = creators.iter().map(|(n, _): &(String, Vec<Ty>)| n.as_str()).collect();
        self.out.insert_str(exports - 1, &format!(" exports {}", names.join(", ")));
        if let Some(up) = above {
            self.objects[up].creators.extend(creators.clone());
        }
        self.objects[i].creators = creators;
    }

    fn program(&mut self) {
        self.out.push_str(PRELUDE);
        self.line("second [A, B] (x: A, y: B) returns (B) return (y) end second");
        for _ in 0..1 + self.below(1 + 2 * self.size) {
            let name = self.fresh("leaf");
            let results = 1 + self.below(2);
            let heading = self.heading(name, results);
            let statements = 1 + self.below(3);
            self.body(&heading, Context::default(), statements);
            self.routines.push((heading, true));
        }
        for _ in 0..1 + self.below(2) {
            let name = self.fresh("each");
            let mut heading = self.heading(name, 0);
            let n = 1 + self.below(2);
            heading.yields = Some(self.types(n, 1));
            let context = Context {
                routines: self.routines.len(),
                iterators: self.iterators.len().min(1),
                calls: 1,
                loops: 1,
                ..Context::default()
            };
            let statements = 2 + self.below(2);
            self.body(&heading, context, statements);
            self.iterators.push(heading);
        }
        for i in 0..self.below(2 + 2 * self.size) {
            self.object(i);
        }
        let (objects, leaves) = (self.objects.len(), self.routines.len());
        for level in 0..2 {
            let callable = if level == 0 { leaves } else { self.routines.len() };
            for _ in 0..1 + self.below(1 + self.size) {
                self.context = Context { objects, ..Context::default() };
                let name = self.fresh("r");
                let results = self.below(3);
                let heading = self.heading(name, results);
                let context = Context {
                    routines: callable,
                    iterators: self.iterators.len(),
                    objects,
                    calls: 4,
                    ..Context::default()
                };
                let statements = 2 + self.size + self.below(2 + 2 * self.size);
                self.body(&heading, context, statements);
                self.routines.push((heading, false));
            }
        }
        self.main(objects);
    }

    fn main(&mut self, objects: usize) {
        self.line("main (args: sequence[string])");
        self.indent = 1;
        self.context = Context {
            routines: self.routines.len(),
            iterators: self.iterators.len(),
            objects,
            calls: 20,
            ..Context::default()
        };
        for (heading, _) in self.routines.clone() {
            for _ in 0..1 + self.size {
                let args = self.list(&heading.args, 2);
                let other = self.fresh("x");
                self.line("begin");
                let names: Vec<String> = heading.results.iter().map(|_| self.fresh("v")).collect();
                match names.as_slice() {
                    [] => self.line(&format!("  {}({args})", heading.name)),
                    [name] => {
                        let ty = &heading.results[0];
                        self.line(&format!("  {name}: {} := {}({args})", ty.name(), heading.name));
                        if ty.prints() {
                            self.line(&format!("  print(\"{} \" || {name}.unparse())", heading.name));
                        }
                    }
                    _ => {
                        for (name, ty) in names.iter().zip(&heading.results) {
                            self.line(&format!("  {name}: {}", ty.name()));
                        }
                        self.line(&format!("  {} := {}({args})", names.join(", "), heading.name));
                        for (name, ty) in names.iter().zip(&heading.results) {
                            if ty.prints() {
                                self.line(&format!("  print(\"{} \" || {name}.unparse())", heading.name));
                            }
                        }
                    }
                }
                self.line("end except");
                self.line("  when failure (*): print(\"failure\")");
                self.line(&format!("  others ({other}: string): print(\"signal \" || {other})"));
                self.line("end");
            }
        }
        for _ in 0..1 + 3 * self.size {
            self.line("begin");
            self.block(3);
            let other = self.fresh("x");
            self.line(&format!("end except others ({other}: string): print(\"signal \" || {other}) end"));
        }
        if self.chance(3) {
            self.transactions(objects);
        }
        self.indent = 0;
        self.line("end main");
    }
}
