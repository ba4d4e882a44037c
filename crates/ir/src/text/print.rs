//! Programs and functions as text.
//!
//! Read [`print_program`] and [`print_func`] first; [`parse`](fn@super::parse) reads the result. A
//! [`Printer`] writes one function: it chooses the names of the variables, and appends a line for
//! each statement.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::hash::Hash;

use super::is_name;
use super::names::{Names, quoted};
use crate::builtin;
use crate::places::Site;
use crate::program::{Body, ClassId, Program};
use crate::stmt::{ArmMatch, Block, Callee, Const, Destination, Func, FuncKind, Operand, Stmt, Var};
use crate::types::{Signature, TypeId, TypeKind};

/// Returns a function in the text form.
pub fn print_func(program: &Program, func: &Func) -> String {
    let names = Names::new(program);
    function(&names, program, func, quoted(&func.name))
}

fn function(names: &Names<'_>, program: &Program, func: &Func, name: String) -> String {
    let mut printer = Printer::new(program, names, func);
    let kind = match func.kind {
        FuncKind::Routine => "routine",
        FuncKind::Method => "method",
        FuncKind::Script => "script",
        FuncKind::Batch => "batch",
        FuncKind::Procedure => "procedure",
    };
    let receiver = match func.vars.values().next() {
        Some(decl) if func.kind.has_receiver() => {
            format!(" of {}: {}", printer.spelled[0], names.ty(decl.ty))
        }
        _ => String::new(),
    };
    let heading = printer.heading(&func.signature);
    printer.line(&format!("{kind} {name}{receiver} {heading}"));
    printer.body();
    printer.line("end");
    printer.out
}

/// Returns a whole program in the text form: user types, classes with their methods, and routines.
/// Heirs stand behind the types and classes that they inherit from.
pub fn print_program(program: &Program) -> String {
    let names = Names::new(program);
    let mut out = String::new();
    let types = program.types.iter().filter(|(_, d)| d.kind == TypeKind::Object).map(|(id, _)| id);
    let above = |ty: TypeId| program.types.def(ty).supertypes.iter().map(|s| s.ty).collect();
    for ty in from_above(types, above) {
        print_type(program, &names, ty, &mut out);
    }
    let made: HashSet<ClassId> =
        program.tagged.values().flatten().chain(program.boxes.values()).copied().collect();
    let classes = program.classes.keys().filter(|class| !made.contains(class));
    for class in from_above(classes, |class| program.classes[class].superclass.into_iter().collect()) {
        print_class(program, &names, class, &mut out);
    }
    for (id, routine) in program.routines.iter().filter(|(_, r)| !builtin::is_instance(r)) {
        let private = if routine.public { "" } else { "private " };
        match routine.body {
            Body::Func(func) => {
                let text = function(&names, program, &program.funcs[func], names.routine(id));
                let _ = writeln!(out, "{private}{text}");
            }
            Body::Native(native) => {
                let key = &program.natives[native];
                // Built-in routines are there without being declared.
                if builtin::find_routine(key).is_none() {
                    let heading = names.declaration(&routine.name, &routine.signature);
                    let _ = writeln!(out, "{private}native {key:?} routine {heading}\n");
                }
            }
        }
    }
    out
}

/// Returns the items, each behind those that `above` names.
fn from_above<T: Copy + Eq + Hash>(items: impl Iterator<Item = T>, above: impl Fn(T) -> Vec<T>) -> Vec<T> {
    let mut done: HashSet<T> = HashSet::new();
    let mut order = Vec::new();
    for item in items {
        let mut open = vec![item];
        while let Some(at) = open.last().copied() {
            match above(at).into_iter().find(|up| !done.contains(up) && !open.contains(up)) {
                Some(up) => open.push(up),
                None => {
                    open.pop();
                    if done.insert(at) {
                        order.push(at);
                    }
                }
            }
        }
    }
    order
}

/// `{new for old}`
fn renaming<'n>(renames: impl Iterator<Item = (&'n str, &'n str)>) -> String {
    let renames: Vec<String> =
        renames.map(|(new, old)| format!("{} for {}", quoted(new), quoted(old))).collect();
    if renames.is_empty() { String::new() } else { format!(" {{{}}}", renames.join(", ")) }
}

fn print_type(program: &Program, names: &Names<'_>, ty: TypeId, out: &mut String) {
    let def = program.types.def(ty);
    let _ = write!(out, "type {}", names.ty(ty));
    for (i, s) in def.supertypes.iter().enumerate() {
        let renames = renaming(s.renames.iter().map(|(new, old)| (new.as_str(), old.as_str())));
        let before = if i == 0 { " < " } else { ", " };
        let _ = write!(out, "{before}{}{renames}", names.ty(s.ty));
    }
    let flags = [(def.immutable, " immutable"), (def.actor, " actor"), (!def.public, " private")];
    out.extend(flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text));
    out.push('\n');
    for m in def.methods.values() {
        let private = if m.public { "" } else { "private " };
        let _ = writeln!(out, "  {private}{}", names.declaration(&m.name, &m.signature));
    }
    out.push_str("end\n\n");
}

fn print_class(program: &Program, names: &Names<'_>, class: ClassId, out: &mut String) {
    let def = &program.classes[class];
    let own = program.types.def(def.ty);
    let _ = write!(out, "class {}", names.ty(def.ty));
    let types: Vec<String> = own.supertypes.iter().map(|s| names.ty(s.ty)).collect();
    if !types.is_empty() {
        let _ = write!(out, " implements {}", types.join(", "));
    }
    let superclass = def.superclass.map(|c| &program.classes[c]);
    if let Some(up) = superclass {
        let above = &program.types.def(up.ty).methods;
        let inherited = |body: Body| {
            let mut same = above.values().zip(&up.bodies).filter(move |(_, b)| **b == body);
            same.next().map(|(m, _)| m.name.as_str())
        };
        let mut renames: Vec<(&str, &str)> = (own.methods.values().zip(&def.bodies))
            .filter_map(|(m, body)| Some((m.name.as_str(), inherited(*body)?)))
            .filter(|(new, old)| new != old)
            .collect();
        renames.sort();
        let _ = write!(out, " inherits {}{}", names.ty(up.ty), renaming(renames.into_iter()));
    }
    if let Some(native) = program.native_class(class) {
        let _ = write!(out, " native {native:?}");
    }
    out.push_str(if own.immutable { " immutable" } else { "" });
    if let Some(actor) = &def.actor {
        out.push_str(if actor.functional { " functional actor" } else { " actor" });
        out.push_str(if own.public { "" } else { " private" });
        out.push_str(if actor.stops_on_failure { " stopping" } else { "" });
        if let Some(native) = &actor.native {
            let _ = write!(out, " native {native:?}");
        }
    }
    out.push('\n');
    for field in &def.fields[superclass.map_or(0, |c| c.fields.len())..] {
        let _ = writeln!(out, "  {}: {}", quoted(&field.name), names.ty(field.ty));
    }
    for (method, body) in own.methods.values().zip(&def.bodies) {
        let private = if method.public { "" } else { "private " };
        let func = match *body {
            Body::Func(func) => &program.funcs[func],
            Body::Native(native) => {
                let inherited = superclass.is_some_and(|up| up.bodies.contains(body));
                if !inherited {
                    let heading = names.declaration(&method.name, &method.signature);
                    let key = &program.natives[native];
                    let _ = writeln!(out, "  native {key:?} {private}method {heading}");
                }
                continue;
            }
        };
        if func.vars.values().next().is_none_or(|receiver| receiver.ty != def.ty) {
            continue;
        }
        let word = if func.kind == FuncKind::Script { "script" } else { "method" };
        print_member(program, names, func, &format!("{private}{word} {}", quoted(&method.name)), out);
    }
    for creator in def.actor.iter().flat_map(|actor| &actor.creators) {
        print_member(program, names, &program.funcs[*creator], "creator", out);
    }
    for (method, guard) in def.actor.iter().flat_map(|actor| &actor.guards) {
        let word = format!("disable {}", quoted(&own.methods[*method].name));
        print_member(program, names, &program.funcs[*guard], &word, out);
    }
    out.push_str("end\n\n");
}

/// Prints a function in a class, after the text that it begins with.
fn print_member(program: &Program, names: &Names<'_>, func: &Func, begins: &str, out: &mut String) {
    let mut printer = Printer::new(program, names, func);
    printer.indent = 1;
    let heading = printer.heading(&func.signature);
    printer.line(&format!("{begins} {heading}"));
    printer.body();
    printer.line("end");
    out.push_str(&printer.out);
}

struct Printer<'a> {
    program: &'a Program,
    names: &'a Names<'a>,
    func: &'a Func,
    /// The written form of each variable.
    spelled: Vec<String>,
    indent: usize,
    out: String,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, names: &'a Names<'a>, func: &'a Func) -> Printer<'a> {
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for decl in func.vars.values() {
            *uses.entry(&decl.name).or_default() += 1;
        }
        let spelled = |(var, name): (Var, &str)| {
            if is_name(name) && uses[name] == 1 {
                return name.to_owned();
            }
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let plain = plain && !name.starts_with(|c: char| c.is_ascii_digit());
            format!("{}%{}", if plain { name } else { "" }, var.as_u32())
        };
        let spelled = func.vars.iter().map(|(v, d)| spelled((v, &d.name))).collect();
        Printer { program, names, func, spelled, indent: 0, out: String::new() }
    }

    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn heading(&self, signature: &Signature) -> String {
        let first = self.func.param_count() - signature.params.len();
        let params: Vec<String> = signature
            .params
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let spelled = self.spelled.get(first + i).map_or("?", String::as_str);
                let decl = self.func.vars.values().nth(first + i).map_or("", |d| &d.name);
                let different = if decl == p.name { String::new() } else { format!("{:?} as ", p.name) };
                format!("{different}{spelled}: {}", self.names.ty(p.ty))
            })
            .collect();
        self.names.heading(params, signature)
    }

    fn body(&mut self) {
        self.indent += 1;
        for (i, decl) in self.func.vars.values().enumerate().skip(self.func.param_count()) {
            let text = format!("var {}: {}", self.spelled[i], self.names.ty(decl.ty));
            self.line(&text);
        }
        self.indent -= 1;
        self.block(&self.func.body);
    }

    fn block(&mut self, block: &Block) {
        self.indent += 1;
        for stmt in &block.0 {
            self.stmt(stmt);
        }
        self.indent -= 1;
    }

    /// Prints the rest of a statement that runs one of two blocks.
    fn branches(&mut self, then: &Block, otherwise: &Block) {
        self.block(then);
        if !otherwise.0.is_empty() {
            self.line("else");
            self.block(otherwise);
        }
        self.line("end");
    }

    fn var(&self, var: Var) -> &str {
        self.spelled.get(var.as_u32() as usize).map_or("?", String::as_str)
    }

    fn vars(&self, vars: &[Var]) -> String {
        vars.iter().map(|v| self.var(*v)).collect::<Vec<_>>().join(", ")
    }

    fn operand(&self, operand: Operand) -> String {
        match operand {
            Operand::Var(var) => self.var(var).to_owned(),
            Operand::Const(c) => match c {
                Const::Nil => "nil".to_owned(),
                Const::Bool(b) => b.to_string(),
                Const::Int(n) => n.to_string(),
                Const::Real(bits) if f64::from_bits(bits).is_finite() => {
                    format!("{:?}", f64::from_bits(bits))
                }
                Const::Real(bits) => format!("real%{bits:016x}"),
                Const::Char(c) => format!("{c:?}"),
                Const::Str(literal) => {
                    format!("{:?}", self.program.literals.get(literal).map_or("?", String::as_str))
                }
            },
        }
    }

    fn operands(&self, operands: &[Operand]) -> String {
        operands.iter().map(|o| self.operand(*o)).collect::<Vec<_>>().join(", ")
    }

    fn values(&self, operands: &[Operand]) -> String {
        if operands.is_empty() { String::new() } else { format!(" ({})", self.operands(operands)) }
    }

    fn call(&self, callee: Callee, args: &[Operand]) -> String {
        let name = match callee {
            Callee::Procedure(i) => format!("procedure {i}"),
            Callee::Itself => "itself".to_owned(),
            Callee::Method(m) => {
                format!("{}.{}", self.names.ty(m.ty), quoted(&self.program.types.method(m).name))
            }
            Callee::Routine(r) => self.names.callee(r),
        };
        format!("{name}({})", self.operands(args))
    }

    fn field(&self, class: ClassId, field: u32) -> String {
        let def = &self.program.classes[class];
        let name = def.fields.get(field as usize).map_or("", |f| &f.name);
        let unique = def.fields.iter().filter(|f| f.name == name).count() == 1 && is_name(name);
        let class = self.names.ty(def.ty);
        if unique { format!("{class}.{name}") } else { format!("{class}.{field}") }
    }

    fn with_site(&mut self, text: String, site: Site) {
        match site {
            Site(0) => self.line(&text),
            Site(n) => self.line(&format!("{text} @{n}")),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { dst, src } => {
                let text = format!("{} := {}", self.var(*dst), self.operand(*src));
                self.line(&text);
            }
            Stmt::Call { callee, args, dsts, site } => {
                let call = self.call(*callee, args);
                let text = if dsts.is_empty() { call } else { format!("{} := {call}", self.vars(dsts)) };
                self.with_site(text, *site);
            }
            Stmt::New { dst, class, fields, site } => {
                let class = self.names.ty(self.program.classes[*class].ty);
                let text = format!("{} := new {class}({})", self.var(*dst), self.operands(fields));
                self.with_site(text, *site);
            }
            Stmt::NewSequence { dst, elements, site } => {
                let text = format!("{} := [{}]", self.var(*dst), self.operands(elements));
                self.with_site(text, *site);
            }
            Stmt::Get { dst, object, class, field } => {
                let text = format!(
                    "{} := get {}({})",
                    self.var(*dst),
                    self.field(*class, *field),
                    self.operand(*object)
                );
                self.line(&text);
            }
            Stmt::Set { object, class, field, value } => {
                let text =
                    format!("set {}({})", self.field(*class, *field), self.operands(&[*object, *value]));
                self.line(&text);
            }
            Stmt::If { test, then, otherwise } => {
                let text = format!("if {} then", self.operand(*test));
                self.line(&text);
                self.branches(then, otherwise);
            }
            Stmt::TypeIf { object, var, then, otherwise } => {
                let text = format!("typecase {} as {} then", self.operand(*object), self.var(*var));
                self.line(&text);
                self.branches(then, otherwise);
            }
            Stmt::While { cond, test, body } => {
                self.line("while");
                self.block(cond);
                let text = format!("test {} do", self.operand(*test));
                self.line(&text);
                self.block(body);
                self.line("end");
            }
            Stmt::ForEach { callee, args, vars, body, site } => {
                let text = format!("for {} in {} do", self.vars(vars), self.call(*callee, args));
                self.with_site(text, *site);
                self.block(body);
                self.line("end");
            }
            Stmt::Break => self.line("break"),
            Stmt::Continue => self.line("continue"),
            Stmt::Return(values) => self.line(&format!("return{}", self.values(values))),
            Stmt::Yield(values) => self.line(&format!("yield{}", self.values(values))),
            Stmt::Signal { signal, values, site } => {
                let name = self.program.types.signal_name(*signal);
                self.with_site(format!("signal {name}{}", self.values(values)), *site);
            }
            Stmt::Exit { signal, values } => {
                let name = self.program.types.signal_name(*signal);
                self.line(&format!("exit {name}{}", self.values(values)));
            }
            Stmt::Create { dst, class, creator, args, place, site } => {
                let class = self.names.ty(self.program.classes[*class].ty);
                let place = match place {
                    Destination::Here => String::new(),
                    Destination::On(node) => format!(" on {}", self.operand(*node)),
                    Destination::Anywhere => " anywhere".to_owned(),
                };
                let made = format!("create {class}.{creator}({}){place}", self.operands(args));
                self.with_site(format!("{} := {made}", self.var(*dst)), *site);
            }
            Stmt::Send { method, args, site } => {
                let call = self.call(Callee::Method(*method), args);
                self.with_site(format!("send {call}"), *site);
            }
            Stmt::Request { method, args, dst, element, site } => {
                let call = self.call(Callee::Method(*method), args);
                let element = element.map_or(String::new(), |element| format!("[{}]", self.operand(element)));
                self.with_site(format!("{}{element} := request {call}", self.var(*dst)), *site);
            }
            Stmt::Await { vars, site } => self.with_site(format!("await {}", self.vars(vars)), *site),
            Stmt::Reply { values, site } => self.with_site(format!("reply{}", self.values(values)), *site),
            Stmt::ReplyTo { dst, site } => self.with_site(format!("{} := replyto", self.var(*dst)), *site),
            Stmt::Deliver { replier, values, site } => {
                let replier = self.operand(*replier);
                self.with_site(format!("deliver {replier}{}", self.values(values)), *site);
            }
            Stmt::Delegate { method, args, site } => {
                let call = self.call(Callee::Method(*method), args);
                self.with_site(format!("delegate {call}"), *site);
            }
            Stmt::Select { arms, after, site } => {
                self.with_site("select".to_owned(), *site);
                for arm in arms {
                    let method = format!(
                        "{}.{}",
                        self.names.ty(arm.method.ty),
                        quoted(&self.program.types.method(arm.method).name)
                    );
                    self.line(&format!("when {method}({}) given", self.vars(&arm.vars)));
                    self.block(&arm.cond);
                    self.line(&format!("test {} do", self.operand(arm.test)));
                    self.block(&arm.body);
                }
                if let Some((limit, body)) = after {
                    self.line(&format!("after {} do", self.operand(*limit)));
                    self.block(body);
                }
                self.line("end");
            }
            Stmt::Transaction { body, site } => {
                self.with_site("transaction".to_owned(), *site);
                self.block(body);
                self.line("end");
            }
            Stmt::Except { body, arms } => {
                self.line("except");
                self.block(body);
                for arm in arms {
                    let takes = match &arm.takes {
                        ArmMatch::Named(signals) => {
                            let names: Vec<&str> =
                                signals.iter().map(|s| self.program.types.signal_name(*s)).collect();
                            format!("when {}", names.join(", "))
                        }
                        ArmMatch::Others => "others".to_owned(),
                    };
                    let vars = if arm.vars.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", self.vars(&arm.vars))
                    };
                    self.line(&format!("{takes}{vars}:"));
                    self.block(&arm.body);
                }
                self.line("end");
            }
        }
    }
}
