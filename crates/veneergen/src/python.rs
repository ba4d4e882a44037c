//! Stubs in Python: one module, formatted as `ruff format` leaves it, and the interface in a file
//! beside it.
//!
//! [`generate`] turns the [`Model`] into a [`Module`], in which every piece of code that may be
//! longer than a line is broken already; the template puts the pieces in order.

use std::collections::HashSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::model::{CellModel, ContentsModel, MethodModel, Model, PartModel, TypeModel, ValueModel};
use crate::naming::{Naming, clear, pascal, snake};

static TEMPLATE: &str = include_str!("../templates/python.jinja");

/// The words that cannot be names, and the names that the module or the stubs need for themselves.
static KEYWORDS: &[&str] = &[
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
    "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not",
    "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Names that a method, routine or parameter would hide: those of every stub, and of the module.
static TAKEN: &[&str] =
    &["as_", "is_", "release", "self", "session", "connect", "aconnect", "bf", "_g", "tuple", "_"];

/// Names of types that generated code uses without a path.
static TAKEN_TYPES: &[&str] =
    &["Any", "TypeAlias", "Unpack", "Sequence", "INTERFACE", "True", "False", "None"];

/// Names of types that annotations of fields use.
static BUILTIN: &[&str] = &["int", "float", "str", "bool", "bytes", "list", "dict", "tuple"];

/// The file of the interface, beside the stubs.
const INTERFACE_FILE: &str = "bifrost_stubs.interface.json";

/// The longest line of `ruff format` where nobody has set another one.
const WIDTH: usize = 88;

pub(crate) struct Python;

impl Naming for Python {
    fn lower(&self, name: &str) -> String {
        let mut out = snake(name);
        // Names with two of these are Python's own.
        while out.starts_with("__") {
            out.remove(0);
        }
        clear(out, &[KEYWORDS, TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, |c| c.is_alphanumeric()), &[TAKEN_TYPES])
    }

    fn value(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Real => "float",
            Kind::Char | Kind::String => "str",
            Kind::Bytes => "bytes",
            _ => "None",
        }
    }

    fn builtin(&self, name: &str) -> String {
        match name {
            "any" => "bf.AnyObject".to_owned(),
            name => format!("bf.{}", self.upper(&[name])),
        }
    }

    fn cell(&self, _: &str) -> String {
        "bf.AnyObject".to_owned()
    }

    fn list(&self, element: &str) -> String {
        format!("list[{element}]")
    }

    fn optional(&self, some: &str) -> String {
        // What is there may be nothing itself.
        match some.ends_with("None") {
            true => format!("bf.Some[{some}] | None"),
            false => format!("{some} | None"),
        }
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        match ["bool", "int", "float", "str", "bytes"].contains(&key) {
            true => format!("dict[{key}, {value}]"),
            false => format!("list[tuple[{key}, {value}]]"),
        }
    }
}

/// The pieces of the module.
#[derive(Serialize)]
struct Module {
    /// The import lines that the rest needs.
    imports: Vec<String>,
    /// The assignment of the constants.
    constants: String,
    classes: Vec<Class>,
    aliases: Vec<String>,
    routines: Vec<Function>,
    exceptions: Vec<ExceptionClass>,
    /// The calls that tell the types of the classes.
    definitions: Vec<String>,
}

/// A class of stubs.
#[derive(Serialize)]
struct Class {
    name: String,
    bases: String,
    doc: String,
    /// The dataclasses of its contents, before it.
    shapes: Vec<Shape>,
    /// The type of its contents; empty if there are none.
    get: String,
    methods: Vec<Function>,
    sender: String,
    sends: Vec<Function>,
}

/// A dataclass.
#[derive(Serialize)]
struct Shape {
    name: String,
    doc: String,
    /// False if two of them cannot be compared.
    eq: bool,
    /// The fields with their types; one line of an alias if `alias`.
    fields: Vec<String>,
    /// The assignment of a union of dataclasses; empty for a dataclass.
    alias: String,
}

/// A method or routine.
#[derive(Serialize)]
struct Function {
    head: String,
    doc: String,
    body: String,
}

/// A class of exceptions.
#[derive(Serialize)]
struct ExceptionClass {
    head: String,
    theta: String,
    doc: String,
    values: String,
}

/// Breaks a list in brackets as `ruff format` does: on one line, on a line of its own between the
/// brackets, or with a line for each entry and a comma behind the last.
fn bracketed(indent: usize, before: &str, items: &[String], after: &str) -> String {
    let (pad, inner) = (" ".repeat(indent), " ".repeat(indent + 4));
    let joined = items.join(", ");
    let line = format!("{pad}{before}{joined}{after}");
    if line.chars().count() <= WIDTH || items.is_empty() {
        return line;
    }
    let one = format!("{inner}{joined}");
    if one.chars().count() <= WIDTH {
        return format!("{pad}{before}\n{one}\n{pad}{after}");
    }
    let lines: Vec<String> = items.iter().map(|item| format!("{inner}{item},\n")).collect();
    format!("{pad}{before}\n{}{pad}{after}", lines.concat())
}

/// Returns a string literal.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns text as a part of a docstring.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"")
}

/// Returns a docstring: the comment, and the heading behind it.
fn docstring(indent: usize, lines: &[String], heading: &str) -> String {
    let pad = " ".repeat(indent);
    let theta = format!("Theta: ``{}``", escaped(heading));
    if lines.is_empty() {
        return format!("{pad}\"\"\"{theta}\"\"\"");
    }
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let line = escaped(line);
        match (index, line.as_str()) {
            // A quote would be one with those before it.
            (0, line) if line.starts_with('"') => out += &format!("{pad}\"\"\" {line}\n"),
            (0, line) => out += &format!("{pad}\"\"\"{line}\n"),
            (_, "") => out.push('\n'),
            (_, line) => out += &format!("{pad}{line}\n"),
        }
    }
    format!("{out}\n{pad}{theta}\n{pad}\"\"\"")
}

/// Returns the class of a result.
fn promise(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null => "bf.Null".to_owned(),
        Kind::Bool => "bf.Bool".to_owned(),
        Kind::Int => "bf.Int".to_owned(),
        Kind::Real => "bf.Real".to_owned(),
        Kind::Char => "bf.Char".to_owned(),
        Kind::String => "bf.Str".to_owned(),
        Kind::Bytes => "bf.Bytes".to_owned(),
        _ => value.ty.clone(),
    }
}

/// Returns the type of an argument.
fn argument(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null => "bf.NullArg".to_owned(),
        Kind::Bool => "bf.BoolArg".to_owned(),
        Kind::Int => "bf.IntArg".to_owned(),
        Kind::Real => "bf.RealArg".to_owned(),
        Kind::Char => "bf.CharArg".to_owned(),
        Kind::String => "bf.StrArg".to_owned(),
        Kind::Bytes => "bf.BytesArg".to_owned(),
        Kind::Any | Kind::Cell => "bf.AnyArg".to_owned(),
        kind if kind.is_compound() => format!("{}Arg", value.ty),
        _ => value.ty.clone(),
    }
}

/// Returns the expression that makes an operand of an argument.
fn operand(value: &ValueModel, name: &str) -> String {
    match value.kind {
        Kind::Null => format!("_g.arg_null({name})"),
        Kind::Bool => format!("_g.arg_bool({name})"),
        Kind::Int => format!("_g.arg_int({name})"),
        Kind::Real => format!("_g.arg_real({name})"),
        Kind::Char => format!("_g.arg_char({name})"),
        Kind::String => format!("_g.arg_str({name})"),
        Kind::Bytes => format!("_g.arg_bytes({name})"),
        Kind::Any | Kind::Cell => format!("_g.arg_any({name})"),
        _ => format!("_g.arg({}, {name})", value.ty),
    }
}

/// Returns the expression of the kind of a type.
fn kind(value: &ValueModel) -> String {
    match value.kind {
        Kind::Null => "_g.NULL".to_owned(),
        Kind::Bool => "_g.BOOL".to_owned(),
        Kind::Int => "_g.INT".to_owned(),
        Kind::Real => "_g.REAL".to_owned(),
        Kind::Char => "_g.CHAR".to_owned(),
        Kind::String => "_g.STR".to_owned(),
        Kind::Bytes => "_g.BYTES".to_owned(),
        Kind::Any | Kind::Cell => "_g.ANY".to_owned(),
        _ => format!("_g.kind({})", value.ty),
    }
}

fn cell(numbers: &CellModel) -> String {
    format!("({}, {}, {}, {})", numbers.ty, numbers.put, numbers.full, numbers.get)
}

/// Returns a method, or a routine.
fn function(f: &MethodModel, method: bool) -> Function {
    let indent = if method { 4 } else { 0 };
    let promises: Vec<String> = f.results.iter().map(promise).collect();
    let joined = promises.join(", ");
    let (result, call) = match (f.iterator, promises.as_slice()) {
        (true, [one]) => (format!("bf.Iter[{one}]"), format!("({one},)")),
        (true, []) => ("bf.Iter[tuple[()]]".to_owned(), "()".to_owned()),
        (true, _) => (format!("bf.Iter[tuple[{joined}]]"), format!("({joined})")),
        (false, []) => ("bf.Nothing".to_owned(), "bf.Nothing".to_owned()),
        (false, [one]) => (one.clone(), one.clone()),
        (false, _) => (format!("tuple[{joined}]"), format!("({joined})")),
    };
    let many = !f.iterator && promises.len() > 1;
    let (receiver, name, mut arguments) = match method {
        true => {
            let name = if f.iterator {
                "self._iterate("
            } else if many {
                "self._call_many("
            } else {
                "self._call("
            };
            ("self".to_owned(), name, Vec::new())
        }
        false => {
            let name = if f.iterator {
                "session.iterate_routine("
            } else if many {
                "session.call_routine_many("
            } else {
                "session.call_routine("
            };
            ("session: bf.Recording".to_owned(), name, vec!["INTERFACE".to_owned()])
        }
    };
    arguments.extend([f.number.to_string(), call]);
    arguments.extend(f.params.iter().map(|p| operand(&p.ty, &p.name)));
    Function {
        head: head(f, indent, receiver, &result),
        doc: docstring(indent + 4, &f.doc, &f.heading),
        body: bracketed(indent + 4, &format!("return {name}"), &arguments, ")"),
    }
}

fn head(f: &MethodModel, indent: usize, receiver: String, result: &str) -> String {
    let mut params = vec![receiver];
    params.extend(f.params.iter().map(|p| format!("{}: {}", p.name, argument(&p.ty))));
    bracketed(indent, &format!("def {}(", f.name), &params, &format!(") -> {result}:"))
}

/// Returns a method of a sender.
fn send(f: &MethodModel) -> Function {
    let mut arguments = vec![f.number.to_string()];
    arguments.extend(f.params.iter().map(|p| operand(&p.ty, &p.name)));
    Function {
        head: head(f, 4, "self".to_owned(), "None"),
        doc: docstring(8, &f.doc, &f.heading),
        body: bracketed(8, "self._send(", &arguments, ")"),
    }
}

/// Returns the name of a field, which no annotation of a field uses.
fn field(part: &PartModel) -> String {
    match BUILTIN.contains(&part.name.as_str()) {
        true => format!("{}_", part.name),
        false => part.name.clone(),
    }
}

/// Returns an assignment of a text to an alias, broken as `ruff format` does.
fn alias(name: &str, text: &str) -> String {
    let line = format!("{name}: TypeAlias = \"{text}\"");
    match line.chars().count() > WIDTH && text.chars().count() + 6 <= WIDTH {
        true => format!("{name}: TypeAlias = (\n    \"{text}\"\n)"),
        false => line,
    }
}

struct Builder<'m> {
    model: &'m Model,
    /// The names of all classes.
    taken: HashSet<String>,
}

impl Builder<'_> {
    /// Returns a name for a class that no other has.
    fn take(&mut self, name: String) -> String {
        let mut name = name;
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Returns the dataclasses of contents, and the expression of their kind.
    fn shapes(&mut self, t: &TypeModel, c: &ContentsModel) -> (Vec<Shape>, Vec<String>, String) {
        let of = |part: &PartModel| kind(&part.of);
        match c.kind {
            Kind::Struct | Kind::Record => {
                let fields = c.parts.iter().map(|p| format!("{}: {}", field(p), p.plain)).collect();
                let doc = format!("    \"\"\"The contents of ``{}``.\"\"\"", escaped(&t.theta));
                let shape = Shape { name: c.ty.clone(), doc, eq: c.comparable, fields, alias: String::new() };
                let mut parts = vec![c.ty.clone()];
                parts.extend(c.parts.iter().map(of));
                (vec![shape], parts, "_g.struct(".to_owned())
            }
            Kind::Oneof => {
                let mut shapes = Vec::new();
                let mut names = Vec::new();
                let mut parts = vec![quoted(&t.theta)];
                for part in &c.parts {
                    let name = self.take(format!("{}{}", c.ty, part.name));
                    let theta = escaped(&part.theta);
                    let doc = format!("    \"\"\"The tag ``{theta}`` of ``{}``.\"\"\"", escaped(&t.theta));
                    let fields = if part.nil { Vec::new() } else { vec![format!("value: {}", part.plain)] };
                    shapes.push(Shape {
                        name: name.clone(),
                        doc,
                        eq: c.comparable,
                        fields,
                        alias: String::new(),
                    });
                    parts.push(format!("({name}, {})", of(part)));
                    names.push(name);
                }
                let union = alias(&c.ty, &names.join(" | "));
                let none = String::new;
                shapes.push(Shape { name: none(), doc: none(), eq: true, fields: Vec::new(), alias: union });
                (shapes, parts, "_g.oneof(".to_owned())
            }
            Kind::Maybe => {
                let parts = c.parts.iter().skip(1).map(of).collect();
                (Vec::new(), parts, "_g.maybe(".to_owned())
            }
            Kind::Map => (Vec::new(), c.parts.iter().map(of).collect(), "_g.pairs(".to_owned()),
            _ => (Vec::new(), c.parts.iter().map(of).collect(), "_g.sequence(".to_owned()),
        }
    }

    /// Returns the type of arguments that stand for a type which crosses by value.
    fn argument_alias(&self, t: &TypeModel, c: &ContentsModel) -> String {
        let parts = || c.parts.iter().map(|p| argument(&p.of)).collect::<Vec<_>>();
        let items = match c.kind {
            Kind::Sequence => format!("Sequence[{}]", parts().join(", ")),
            Kind::Maybe => format!("{} | None", parts().get(1).cloned().unwrap_or_default()),
            Kind::Struct => format!("{} | tuple[{}]", c.ty, parts().join(", ")),
            _ => c.ty.clone(),
        };
        alias(&format!("{}Arg", t.name), &format!("{} | {items}", t.name))
    }

    fn class(&mut self, t: &TypeModel, definitions: &mut Vec<String>, aliases: &mut Vec<String>) -> Class {
        let model = self.model;
        let above = |name: &String| model.types.iter().find(|other| other.name == *name);
        // Those above another one are bases by it.
        let bases: Vec<&TypeModel> = t.supertypes.iter().filter_map(above).collect();
        let direct =
            bases.iter().filter(|base| !bases.iter().any(|other| other.supertypes.contains(&base.name)));
        let direct: Vec<String> = direct.map(|base| base.name.clone()).collect();
        let plain = match &t.contents {
            Some(c) if c.by_value => c.ty.clone(),
            _ => t.name.clone(),
        };
        let bases = match direct.as_slice() {
            [] => format!("bf.Object[\"{plain}\"]"),
            direct => direct.join(", "),
        };
        let mut shapes = Vec::new();
        let mut get = String::new();
        if let Some(c) = &t.contents {
            let (made, parts, call) = self.shapes(t, c);
            shapes = made;
            get = format!("bf.Plain[{}]", c.ty);
            let mut contents = vec![t.name.clone(), bracketed(0, &call, &parts, ")")];
            if c.by_value {
                contents.push("by_value=True".to_owned());
                aliases.push(self.argument_alias(t, c));
            }
            definitions.push(nested("INTERFACE.contents(", &contents, &call, &parts));
        }
        let methods = t.methods.iter().map(|f| function(f, true)).collect();
        let sends = if t.sender.is_empty() { Vec::new() } else { t.methods.iter().map(send).collect() };
        Class {
            name: t.name.clone(),
            bases,
            doc: docstring(4, &t.doc, &t.theta),
            shapes,
            get,
            methods,
            sender: t.sender.clone(),
            sends,
        }
    }

    fn exceptions(&mut self, definitions: &mut Vec<String>) -> Vec<ExceptionClass> {
        let model = self.model;
        let exceptions = model.exceptions.iter().map(|exception| {
            let name = self.take(exception.name.clone());
            let signals: Vec<_> = exception.signals.iter().filter_map(|at| model.signals.get(*at)).collect();
            let (variables, values) = match signals.as_slice() {
                [one] => (
                    tuple(one.values.iter().map(promise).collect()),
                    tuple(one.values.iter().map(|v| v.ty.clone()).collect()),
                ),
                _ => ("tuple[()]".to_owned(), "Any".to_owned()),
            };
            let headings: Vec<String> = signals.iter().map(|signal| signal.heading.clone()).collect();
            let mut arguments = vec![name.clone()];
            arguments.extend(signals.iter().map(|signal| {
                let kinds: Vec<String> = signal.values.iter().map(kind).collect();
                match kinds.as_slice() {
                    [one] => format!("({one},)"),
                    kinds => format!("({})", kinds.join(", ")),
                }
            }));
            definitions.push(bracketed(0, "INTERFACE.signal(", &arguments, ")"));
            ExceptionClass {
                head: bracketed(0, &format!("class {name}("), &[format!("bf.Signal[{variables}]")], "):"),
                theta: quoted(&exception.theta),
                doc: docstring(4, &[], &headings.join("; ")),
                values,
            }
        });
        exceptions.collect()
    }
}

/// Returns the type of a tuple.
fn tuple(parts: Vec<String>) -> String {
    if parts.is_empty() { "tuple[()]".to_owned() } else { format!("tuple[{}]", parts.join(", ")) }
}

/// Returns a call whose second argument is a call with these arguments, broken as `ruff format`
/// does.
fn nested(before: &str, arguments: &[String], call: &str, parts: &[String]) -> String {
    let short = bracketed(0, before, arguments, ")");
    if !short.contains('\n')
        || !arguments.join(", ").contains('\n') && !short.lines().any(|l| l.chars().count() > WIDTH)
    {
        return short;
    }
    let mut lines = format!("{before}\n");
    for (index, argument) in arguments.iter().enumerate() {
        let argument = if index == 1 { bracketed(4, call, parts, ")") } else { format!("    {argument}") };
        lines += &format!("{argument},\n");
    }
    lines + ")"
}

/// Returns the constants.
fn constants(model: &Model) -> String {
    let mut out = String::from("INTERFACE = _g.Stubs(\n");
    let digest: String = model.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    out += &format!("    bytes.fromhex(\"{digest}\"),\n");
    out += &format!("    _g.beside(__file__, \"{INTERFACE_FILE}\"),\n");
    out += "    basic=(\n";
    for b in &model.basic {
        out += &format!("        ({}, {}),\n", b.number, cell(&b.cell));
    }
    out += "    ),\n    builtin=(\n";
    for b in &model.builtin {
        out += &bracketed(8, "(", &[b.number.to_string(), cell(&b.cell), b.first.to_string()], "),\n");
    }
    out += "    ),\n    operators=(\n";
    for number in &model.operators {
        out += &format!("        {number},\n");
    }
    out + "    ),\n)"
}

/// Returns the types, each behind those above it.
fn in_order(model: &Model) -> Vec<&TypeModel> {
    let mut done: HashSet<&str> = HashSet::new();
    let mut ordered = Vec::with_capacity(model.types.len());
    let known: HashSet<&str> = model.types.iter().map(|t| t.name.as_str()).collect();
    while ordered.len() < model.types.len() {
        let ready = |t: &&TypeModel| {
            let waits = |name: &String| known.contains(name.as_str()) && !done.contains(name.as_str());
            !done.contains(t.name.as_str()) && !t.supertypes.iter().any(waits)
        };
        let Some(next) = model.types.iter().find(ready) else { break };
        done.insert(&next.name);
        ordered.push(next);
    }
    ordered
}

impl Module {
    /// Returns the imports that the module needs.
    fn imports(&self) -> Vec<String> {
        let shapes = || self.classes.iter().flat_map(|class| &class.shapes);
        let has_alias = !self.aliases.is_empty() || shapes().any(|shape| !shape.alias.is_empty());
        let mut imports = Vec::new();
        if self.aliases.iter().any(|alias| alias.contains("Sequence[")) {
            imports.push("from collections.abc import Sequence".to_owned());
        }
        if shapes().any(|shape| shape.alias.is_empty()) {
            imports.push("from dataclasses import dataclass".to_owned());
        }
        let mut typing = Vec::new();
        typing.extend(self.exceptions.iter().any(|exception| exception.values == "Any").then_some("Any"));
        typing.extend(has_alias.then_some("TypeAlias"));
        typing.push("Unpack");
        imports.push(format!("from typing import {}", typing.join(", ")));
        imports
    }

    fn new(model: &Model) -> Module {
        let names = model.types.iter().flat_map(|t| {
            let contents = t.contents.as_ref().map(|c| c.ty.clone());
            let argument = format!("{}Arg", t.name);
            [Some(t.name.clone()), contents, Some(t.sender.clone()), Some(argument)].into_iter().flatten()
        });
        let mut builder = Builder { model, taken: names.collect() };
        let (mut contents, mut aliases) = (Vec::new(), Vec::new());
        let mut definitions: Vec<String> = Vec::new();
        for t in &model.types {
            let parts = [t.name.clone(), quoted(&t.theta), t.number.to_string(), cell(&t.cell)];
            definitions.push(bracketed(0, "INTERFACE.object(", &parts, ")"));
        }
        let ordered = in_order(model);
        let classes = ordered.iter().map(|t| builder.class(t, &mut contents, &mut aliases)).collect();
        definitions.append(&mut contents);
        let exceptions = builder.exceptions(&mut definitions);
        let routines = model.routines.iter().map(|f| function(f, false)).collect();
        let mut module = Module {
            imports: Vec::new(),
            constants: constants(model),
            classes,
            aliases,
            routines,
            exceptions,
            definitions,
        };
        module.imports = module.imports();
        module
    }
}

pub(crate) fn generate(interface: &Interface) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &Python)?;
    let module = Module::new(&model);
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_template("python", TEMPLATE)?;
    let text = environment.get_template("python")?.render(context! { m => Serde(module) })?;
    Ok(vec![("bifrost_stubs.py".to_owned(), text), (INTERFACE_FILE.to_owned(), interface.to_json_lines())])
}
