//! Programs and functions as text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::{KEYWORDS, is_name};
use crate::boxed;
use crate::builtin;
use crate::program::{Body, ClassId, Program};
use crate::stmt::{ArmMatch, Block, Callee, Const, Func, FuncKind, Operand, Site, Stmt, Var};
use crate::tagged;
use crate::types::{Signature, TypeId, TypeKind};

/// A function in the text form.
pub fn print_func(program: &Program, func: &Func) -> String {
    let mut printer = Printer::new(program, func);
    let kind = match func.kind {
        FuncKind::Routine => "routine",
        FuncKind::Method => "method",
        FuncKind::Batch => "batch",
        FuncKind::Procedure => "procedure",
    };
    let name = quoted(&func.name);
    let receiver = match func.vars.values().next() {
        Some(decl) if func.kind == FuncKind::Method => {
            format!(" of {}: {}", printer.names[0], type_name(program, decl.ty))
        }
        _ => String::new(),
    };
    let heading = printer.heading(&func.signature);
    printer.line(&format!("{kind} {name}{receiver} {heading}"));
    printer.body();
    printer.line("end");
    printer.out
}

/// A name, in quotes if it has other characters than names have.
fn quoted(name: &str) -> String {
    if is_name(name) { name.to_owned() } else { format!("{name:?}") }
}

/// A whole program in the text form: user types, classes with their methods, and routines.
pub fn print_program(program: &Program) -> String {
    let mut out = String::new();
    for (_, def) in program.types.iter().filter(|(_, d)| d.kind == TypeKind::Object) {
        let _ = write!(out, "type {}", def.name);
        for (i, s) in def.supertypes.iter().enumerate() {
            let renames: Vec<String> =
                s.renames.iter().map(|(new, old)| format!("{new} for {old}")).collect();
            let renames =
                if renames.is_empty() { String::new() } else { format!(" {{{}}}", renames.join(", ")) };
            let before = if i == 0 { " < " } else { ", " };
            let _ = write!(out, "{before}{}{renames}", program.types.name(s.ty));
        }
        let flags = [(def.immutable, " immutable"), (!def.public, " private")];
        out.extend(flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text));
        out.push('\n');
        for m in def.methods.values() {
            let _ = writeln!(out, "  {}", program.types.heading(&m.name, &m.signature));
        }
        out.push_str("end\n\n");
    }
    let made: HashSet<ClassId> =
        program.tagged.values().flatten().chain(program.boxes.values()).copied().collect();
    for class in program.classes.keys().filter(|class| !made.contains(class)) {
        print_class(program, class, &mut out);
    }
    for routine in program.routines.values().filter(|r| !builtin::is_instance(r)) {
        let private = if routine.public { "" } else { "private " };
        let func = match routine.body {
            Body::Func(func) => func,
            Body::Native(native) => {
                // Built-in routines are there without being declared.
                if crate::builtin::find_routine(&program.natives[native]).is_none() {
                    let heading = program.types.heading(&quoted(&routine.name), &routine.signature);
                    let key = &program.natives[native];
                    let _ = writeln!(out, "{private}native {key:?} routine {heading}\n");
                }
                continue;
            }
        };
        let mut func = program.funcs[func].clone();
        func.name.clone_from(&routine.name);
        let _ = writeln!(out, "{private}{}", print_func(program, &func));
    }
    out
}

/// A class as it is written: those of tagged types by their types, names that are none here as strings.
fn class_name(program: &Program, class: ClassId) -> String {
    type_name(program, program.classes[class].ty)
}

fn type_name(program: &Program, ty: TypeId) -> String {
    let name = program.types.name(ty);
    match program.types.kind(ty) {
        TypeKind::Class(class)
            if !is_name(name)
                && !tagged::is_class_of_tagged(program, class)
                && boxed::held(program, class).is_none() =>
        {
            format!("{name:?}")
        }
        _ => name.to_owned(),
    }
}

fn print_class(program: &Program, class: ClassId, out: &mut String) {
    let def = &program.classes[class];
    let own = program.types.def(def.ty);
    let _ = write!(out, "class {}", class_name(program, class));
    let types: Vec<&str> = own.supertypes.iter().map(|s| program.types.name(s.ty)).collect();
    if !types.is_empty() {
        let _ = write!(out, " implements {}", types.join(", "));
    }
    let superclass = def.superclass.map(|c| &program.classes[c]);
    if let Some(up) = superclass {
        let _ = write!(out, " inherits {}", up.name);
        let above = &program.types.def(up.ty).methods;
        let inherited = |body: Body| {
            let mut same = above.values().zip(&up.bodies).filter(move |(_, b)| **b == body);
            same.next().map(|(m, _)| m.name.as_str())
        };
        let renames: Vec<String> = (own.methods.values().zip(&def.bodies))
            .filter_map(|(m, body)| Some((&m.name, inherited(*body)?)))
            .filter(|(new, old)| new != old)
            .map(|(new, old)| format!("{new} for {old}"))
            .collect();
        if !renames.is_empty() {
            let _ = write!(out, " {{{}}}", renames.join(", "));
        }
    }
    if let Some(native) = program.native_class(class) {
        let _ = write!(out, " native {native:?}");
    }
    out.push('\n');
    for field in &def.fields[superclass.map_or(0, |c| c.fields.len())..] {
        let _ = writeln!(out, "  {}: {}", field.name, program.types.name(field.ty));
    }
    for (method, body) in own.methods.values().zip(&def.bodies) {
        let func = match *body {
            Body::Func(func) => &program.funcs[func],
            Body::Native(native) => {
                let inherited = superclass.is_some_and(|up| up.bodies.contains(body));
                if !inherited {
                    let private = if method.public { "" } else { "private " };
                    let heading = program.types.heading(&method.name, &method.signature);
                    let key = &program.natives[native];
                    let _ = writeln!(out, "  native {key:?} {private}method {heading}");
                }
                continue;
            }
        };
        if func.vars.values().next().is_none_or(|receiver| receiver.ty != def.ty) {
            continue;
        }
        let mut printer = Printer::new(program, func);
        printer.indent = 1;
        let private = if method.public { "" } else { "private " };
        let heading = printer.heading(&func.signature);
        printer.line(&format!("{private}method {} {heading}", method.name));
        printer.body();
        printer.line("end");
        out.push_str(&printer.out);
    }
    out.push_str("end\n\n");
}

struct Printer<'a> {
    program: &'a Program,
    func: &'a Func,
    /// How each variable is written.
    names: Vec<String>,
    indent: usize,
    out: String,
}

impl<'a> Printer<'a> {
    fn new(program: &'a Program, func: &'a Func) -> Printer<'a> {
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
        let names = func.vars.iter().map(|(v, d)| spelled((v, &d.name))).collect();
        Printer { program, func, names, indent: 0, out: String::new() }
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
                let spelled = self.names.get(first + i).map_or("?", String::as_str);
                let decl = self.func.vars.values().nth(first + i).map_or("", |d| &d.name);
                let different = if decl == p.name { String::new() } else { format!("{:?} as ", p.name) };
                format!("{different}{spelled}: {}", self.program.types.name(p.ty))
            })
            .collect();
        let rest = Signature { params: Vec::new(), ..signature.clone() };
        let rest = self.program.types.heading("", &rest);
        format!("({}){}", params.join(", "), rest.trim_start_matches(" ()"))
    }

    fn body(&mut self) {
        self.indent += 1;
        for (i, decl) in self.func.vars.values().enumerate().skip(self.func.param_count()) {
            let text = format!("var {}: {}", self.names[i], type_name(self.program, decl.ty));
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

    fn var(&self, var: Var) -> &str {
        self.names.get(var.as_u32() as usize).map_or("?", String::as_str)
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
            Callee::Routine(r) if KEYWORDS.contains(&self.program.routines[r].name.as_str()) => {
                format!("{:?}", self.program.routines[r].name)
            }
            Callee::Method(m) => {
                format!("{}.{}", type_name(self.program, m.ty), self.program.types.method(m).name)
            }
            Callee::Routine(r) => self.program.routines[r].name.clone(),
        };
        format!("{name}({})", self.operands(args))
    }

    fn field(&self, class: ClassId, field: u32) -> String {
        let def = &self.program.classes[class];
        let name = def.fields.get(field as usize).map_or("", |f| &f.name);
        let unique = def.fields.iter().filter(|f| f.name == name).count() == 1 && is_name(name);
        let class = class_name(self.program, class);
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
                let class = class_name(self.program, *class);
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
                self.block(then);
                if !otherwise.0.is_empty() {
                    self.line("else");
                    self.block(otherwise);
                }
                self.line("end");
            }
            Stmt::TypeIf { object, var, then, otherwise } => {
                let text = format!("typecase {} as {} then", self.operand(*object), self.var(*var));
                self.line(&text);
                self.block(then);
                if !otherwise.0.is_empty() {
                    self.line("else");
                    self.block(otherwise);
                }
                self.line("end");
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
            Stmt::Signal { signal, values } | Stmt::Exit { signal, values } => {
                let word = if matches!(stmt, Stmt::Signal { .. }) { "signal" } else { "exit" };
                let name = self.program.types.signal_name(*signal);
                self.line(&format!("{word} {name}{}", self.values(values)));
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
