//! Stubs in Go: one file of a package, and the interface in a file beside it, which is embedded.
//!
//! [`Package::stub`] makes the code of a type, in the form of gofmt; the template puts the pieces
//! in order.

mod values;

use std::collections::HashSet;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use bifrost_wire::Interface;
use bifrost_wire::interface::Kind;

use crate::GenerateError;
use crate::model::{
    ContentsModel, ExceptionModel, MethodModel, Model, PartModel, SignalModel, TypeModel, ValueModel,
};
use crate::naming::{Naming, clear, pascal, promise, snake};
use values::{basic, host, plain, putter, putting, reader, reading};

static TEMPLATE: &str = include_str!("../templates/go.jinja");

/// The keywords of Go.
static KEYWORDS: &[&str] = &[
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

/// Names of parameters and variables that generated code uses itself.
static OWN: &[&str] = &["bf", "call", "description", "o", "s"];

/// Names that no package of stubs has: those of packages that it imports, and of programs.
static NO_PACKAGES: &[&str] = &["bf", "context", "main"];

/// Names that a method would hide: those of every stub.
static TAKEN: &[&str] = &["BifrostType", "Get", "Match", "Ref", "Release", "Resolve", "Send", "Session"];

/// Names of the package that generated code has itself.
static TAKEN_TYPES: &[&str] = &["Connect", "Stubs"];

/// The file of the stubs, and that of the interface, beside it.
const STUBS_FILE: &str = "bifrost_stubs.go";
const INTERFACE_FILE: &str = "bifrost_stubs.interface.json";

/// The package of stubs where nobody has named another one.
pub(crate) const PACKAGE: &str = "stubs";

/// The most values of an exception for which the library has a function of its own.
const VALUES_MAX: usize = 3;

/// True if a package of stubs can have this name: small letters, digits and `_`, no keyword, and
/// not the name of a package that stubs import.
pub fn is_go_package(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && ![KEYWORDS, NO_PACKAGES].iter().any(|names| names.contains(&name))
}

struct Go;

impl Naming for Go {
    fn lower(&self, name: &str) -> String {
        clear(exported(name), &[TAKEN])
    }

    fn upper(&self, words: &[&str]) -> String {
        clear(pascal(words, |c| c.is_alphanumeric()), &[TAKEN_TYPES])
    }

    fn value(&self, kind: Kind) -> &'static str {
        promise(kind)
    }

    fn builtin(&self, name: &str) -> String {
        format!("bf.{}", self.upper(&[name]))
    }

    fn cell(&self, element: &str) -> String {
        match element {
            "bf.Nil" => "bf.Cell[bf.Nil]".to_owned(),
            value if host(value).is_some() => format!("{value}Cell"),
            object => format!("bf.Cell[{object}]"),
        }
    }

    fn list(&self, element: &str) -> String {
        format!("[]{element}")
    }

    fn optional(&self, some: &str) -> String {
        format!("bf.Maybe[{some}]")
    }

    fn pairs(&self, key: &str, value: &str) -> String {
        format!("[]bf.Pair[{key}, {value}]")
    }
}

/// Returns a name that other packages see: `NewUser` for `new_user`.
fn exported(name: &str) -> String {
    let words = snake(name);
    let words: Vec<&str> = words.split('_').filter(|word| !word.is_empty()).collect();
    pascal(&words, |c| c.is_alphanumeric())
}

/// Returns a name within the package: `newUser` for `NewUser`.
fn unexported(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().into_iter().flat_map(char::to_lowercase);
    first.chain(chars).collect()
}

/// Returns the name of a parameter.
fn parameter(name: &str) -> String {
    let name = clear(unexported(name), &[KEYWORDS, OWN]);
    // Functions of the package have such names.
    let is_function = ["put", "read"]
        .iter()
        .any(|verb| name.strip_prefix(verb).is_some_and(|rest| rest.starts_with(char::is_uppercase)));
    if is_function { format!("{name}_") } else { name }
}

/// Returns the type of an argument: of a value of Go, or of a promise.
fn argument(value: &ValueModel, is_promise: bool) -> String {
    match value.kind {
        Kind::Any => "bf.Object".to_owned(),
        kind if !is_promise && (basic(kind).is_some() || kind.is_compound()) => plain(&value.plain),
        _ => value.ty.clone(),
    }
}

/// Returns the statement that appends an argument.
fn append(value: &ValueModel, name: &str, is_promise: bool) -> String {
    match value.kind {
        Kind::Null => format!("call.Null({name})"),
        Kind::Any => format!("call.Object({name})"),
        kind if !is_promise && (basic(kind).is_some() || kind.is_compound()) => putting(value, name),
        _ => format!("call.Ref({name}.Ref)"),
    }
}

/// Returns the lines of a comment: of a name, with the text of the program and a heading.
fn comment(name: &str, what: &str, doc: &[String], heading: &str) -> String {
    let mut out = String::new();
    let mut is_blank = true;
    for line in doc {
        // A line of this form is the target of a link.
        let line = if line.starts_with('[') { line.replace("]:", "] :") } else { line.clone() };
        let line = line.trim();
        match (out.is_empty(), line.is_empty()) {
            (true, true) => continue,
            (true, false) => out += &format!("// {name}: {line}\n"),
            (false, true) if is_blank => continue,
            (false, true) => out += "//\n",
            (false, false) => out += &format!("// {line}\n"),
        }
        is_blank = line.is_empty();
    }
    if out.is_empty() {
        out = format!("// {name} {what}\n");
        is_blank = false;
    }
    if !is_blank {
        out += "//\n";
    }
    format!("{out}//\t{heading}\n")
}

/// Returns the type of a call's results, and the statement that returns them.
fn results(f: &MethodModel) -> (String, String) {
    let types: Vec<&str> = f.results.iter().map(|result| result.ty.as_str()).collect();
    let made: Vec<String> = types.iter().map(|ty| format!("{ty}{{Ref: call.Result()}}")).collect();
    match types.as_slice() {
        [] => ("bf.Done".to_owned(), "return call.Done()".to_owned()),
        [one] => ((*one).to_owned(), format!("return {}", made.join(", "))),
        many => (format!("({})", many.join(", ")), format!("return {}", made.join(", "))),
    }
}

/// Where a call is recorded.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// A method of a type.
    Method(&'a str),
    /// A message to an actor of a type.
    Send(&'a str),
    Routine,
}

impl Place<'_> {
    /// Returns the first parts of a function and of its name.
    fn head(self) -> String {
        match self {
            Place::Method(ty) | Place::Send(ty) => format!("func (o {ty}) "),
            Place::Routine => "func ".to_owned(),
        }
    }
}

/// Returns a function that records a call.
fn function(f: &MethodModel, name: &str, place: Place<'_>, is_promise: bool) -> String {
    let mut params: Vec<String> =
        f.params.iter().map(|p| format!("{} {}", parameter(&p.name), argument(&p.ty, is_promise))).collect();
    if let Place::Routine = place {
        params.insert(0, "s *bf.Session".to_owned());
    }
    let appended: Vec<String> =
        f.params.iter().map(|p| append(&p.ty, &parameter(&p.name), is_promise)).collect();
    let (count, number) = (f.params.len(), f.number);
    let head = format!("{}{name}({})", place.head(), params.join(", "));
    if f.iterator && !matches!(place, Place::Send(_)) {
        return iterator(f, &head, place, &appended);
    }
    let (result, last) = match place {
        Place::Send(_) => (String::new(), "call.Sent()".to_owned()),
        _ => results(f),
    };
    let begin = match place {
        Place::Method(_) => format!("bf.BeginCall(o.Ref, {number}, {count})"),
        Place::Send(_) => format!("bf.BeginSend(o.Ref, {number}, {count})"),
        Place::Routine => format!("bf.BeginRoutine(s, Stubs, {number}, {count})"),
    };
    let head = if result.is_empty() { head } else { format!("{head} {result}") };
    let lines: String = appended.iter().map(|line| format!("\t{line}\n")).collect();
    format!("{head} {{\n\tcall := {begin}\n{lines}\t{last}\n}}\n")
}

/// Returns a function that returns an iterator.
fn iterator(f: &MethodModel, head: &str, place: Place<'_>, appended: &[String]) -> String {
    let types: Vec<&str> = f.results.iter().map(|result| result.ty.as_str()).collect();
    let (name, list) = match types.len() {
        1 => ("Iter", format!("[{}]", types.join(", "))),
        2 => ("Iter2", format!("[{}]", types.join(", "))),
        3 => ("Iter3", format!("[{}]", types.join(", "))),
        _ => ("IterN", String::new()),
    };
    let first = match place {
        Place::Routine => format!("bf.Routine{name}Of{list}(s, Stubs, {}, {}", f.number, f.params.len()),
        _ => format!("bf.{name}Of{list}(o.Ref, {}, {}", f.number, f.params.len()),
    };
    let last = if name == "IterN" { format!(", {}", types.len()) } else { String::new() };
    if appended.is_empty() {
        return format!("{head} bf.{name}{list} {{\n\treturn {first}, func(*bf.Call) {{}}{last})\n}}\n");
    }
    let lines: String = appended.iter().map(|line| format!("\t\t{line}\n")).collect();
    format!("{head} bf.{name}{list} {{\n\treturn {first}, func(call *bf.Call) {{\n{lines}\t}}{last})\n}}\n")
}

/// True if a call has arguments that may be values of Go.
fn has_values(f: &MethodModel) -> bool {
    f.params.iter().any(|p| basic(p.ty.kind).is_some() || p.ty.kind.is_compound())
}

/// Returns a call's functions: that with values of Go, and that with promises if they differ.
fn functions(f: &MethodModel, place: Place<'_>, taken: &HashSet<String>) -> String {
    let (what, more) = match place {
        Place::Send(_) => ("sends a message of this heading.", ", whose failure alone is told"),
        _ => ("records a call of this heading.", ""),
    };
    let comment = comment(&f.name, what, &f.doc, &f.heading);
    let mut out = format!("{comment}{}", function(f, &f.name, place, false));
    if has_values(f) {
        let mut name = format!("{}P", f.name);
        while taken.contains(&name) {
            name.push('_');
        }
        out +=
            &format!("\n// {name} is {} with promises{more}.\n{}", f.name, function(f, &name, place, true));
    }
    out
}

/// Returns lines with a name and a type each, as gofmt aligns them.
fn fields(parts: &[(String, String)]) -> String {
    let width = parts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    parts.iter().map(|(name, ty)| format!("\t{name:width$} {ty}\n")).collect()
}

/// The code of a package, and what it has used.
struct Package<'m> {
    model: &'m Model,
    /// The numbers of types whose contents are arguments.
    put: HashSet<u32>,
    /// The names of the package.
    names: HashSet<String>,
}

impl Package<'_> {
    /// Finds the types whose contents are arguments, or parts of those.
    fn find_put(&mut self) {
        let methods = self.model.types.iter().flat_map(|ty| &ty.methods).chain(&self.model.routines);
        let mut open: Vec<u32> = methods
            .flat_map(|f| &f.params)
            .filter(|p| p.ty.kind.is_compound())
            .map(|p| p.ty.number)
            .collect();
        while let Some(number) = open.pop() {
            if !self.put.insert(number) {
                continue;
            }
            let contents = self.model.types.iter().find(|ty| ty.number == number);
            let parts = contents.and_then(|ty| ty.contents.as_ref()).map(|c| c.parts.as_slice());
            let inner = parts.unwrap_or_default().iter().filter(|part| part.of.kind.is_compound());
            open.extend(inner.map(|part| part.of.number));
        }
    }

    /// Returns a name that the package does not have yet.
    fn take(&mut self, mut name: String) -> String {
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// Returns the code of a type.
    fn stub(&mut self, t: &TypeModel) -> String {
        let name = &t.name;
        let variable = format!("{}Type", unexported(name));
        let mut out = comment(name, "is the stub of an object of this type.", &t.doc, &t.theta);
        let cell = &t.cell;
        let cells = format!("{}, {}, {}, {}", cell.ty, cell.put, cell.full, cell.get);
        let theta = quoted(&t.theta);
        out += &format!("type {name} struct{{ bf.Ref }}\n\n");
        out +=
            &format!("var {variable} = bf.NewType(Stubs, {theta}, {}, [4]uint32{{{cells}}})\n\n", t.number);
        out += &format!(
            "// BifrostType returns the type in Theta.\nfunc ({name}) BifrostType() *bf.Type {{\n\treturn {variable}\n}}\n"
        );
        if !t.kind.is_compound() {
            let lookup = self.take(format!("Lookup{name}"));
            out += &format!(
                "\n// {lookup} looks up a well-known object.\nfunc {lookup}(s *bf.Session, name string) {name} {{\n\treturn bf.Lookup[{name}](s, name)\n}}\n"
            );
        }
        let mut taken: HashSet<String> = t.methods.iter().map(|f| f.name.clone()).collect();
        for above in t.supertypes.iter().filter(|above| !above.starts_with("bf.")) {
            let mut method = format!("As{above}");
            while !taken.insert(method.clone()) {
                method.push('_');
            }
            out += &format!(
                "\n// {method} returns the same object as one of its supertype.\nfunc (o {name}) {method}() {above} {{\n\treturn {above}{{Ref: o.Ref}}\n}}\n"
            );
        }
        for f in &t.methods {
            out += &format!("\n{}", functions(f, Place::Method(name), &taken));
        }
        if !t.sender.is_empty() {
            let sender = &t.sender;
            out += &format!(
                "\n// {sender} sends messages to actors of {name}, which have no answers.\ntype {sender} struct{{ bf.Ref }}\n"
            );
            out += &format!(
                "\n// Send returns the sender of messages to the actor.\nfunc (o {name}) Send() {sender} {{\n\treturn {sender}{{Ref: o.Ref}}\n}}\n"
            );
            for f in &t.methods {
                out += &format!("\n{}", functions(f, Place::Send(sender), &taken));
            }
        }
        if let Some(contents) = &t.contents {
            out += &self.contents(t, contents);
        }
        out
    }

    /// Returns the code of contents: their type, and the functions that read and append them.
    fn contents(&mut self, t: &TypeModel, c: &ContentsModel) -> String {
        let ty = plain(&c.ty);
        let name = &t.name;
        let theta = t.theta.as_str();
        let (mut out, read, put) = match c.kind {
            Kind::Record | Kind::Struct => {
                let parts: Vec<(String, String)> =
                    c.parts.iter().map(|part| (part.name.clone(), plain(&part.plain))).collect();
                let out = format!(
                    "\n// {ty} has the contents of this type.\n//\n//\t{theta}\ntype {ty} struct {{\n{}}}\n",
                    fields(&parts)
                );
                let read: String = c
                    .parts
                    .iter()
                    .map(|part| format!("\tv.{} = {}\n", part.name, reading(&part.of)))
                    .collect();
                let put: String = c
                    .parts
                    .iter()
                    .map(|part| format!("\t{}\n", putting(&part.of, &format!("v.{}", part.name))))
                    .collect();
                let count = c.parts.len();
                (
                    out,
                    format!("\tvar v {ty}\n\tr.Open()\n{read}\tr.Close()\n\treturn v\n"),
                    format!("\tcall.Open({count})\n{put}\tcall.Close()\n"),
                )
            }
            Kind::Oneof => self.choice(&ty, c, theta),
            Kind::Maybe => {
                let Some(some) = c.parts.get(1) else { return String::new() };
                (
                    String::new(),
                    format!("\treturn bf.ReadMaybe(r, {})\n", reader(&some.of)),
                    format!("\tbf.PutMaybe(call, v, {})\n", putter(&some.of)),
                )
            }
            Kind::Map => {
                let [key, value] = c.parts.as_slice() else { return String::new() };
                let read = format!("\treturn bf.ReadPairs(r, {}, {})\n", reader(&key.of), reader(&value.of));
                (String::new(), read, String::new())
            }
            _ => {
                let Some(element) = c.parts.first() else { return String::new() };
                (
                    String::new(),
                    format!("\treturn bf.ReadSlice(r, {})\n", reader(&element.of)),
                    format!("\tbf.PutSlice(call, v, {})\n", putter(&element.of)),
                )
            }
        };
        out += &format!(
            "\n// Get takes the contents of the object when the batch is run. Not inside a structure.\nfunc (o {name}) Get() bf.Got[{ty}] {{\n\treturn bf.Get(o.Ref, read{name})\n}}\n"
        );
        out += &format!("\nfunc read{name}(r *bf.Reader) {ty} {{\n{read}}}\n");
        if t.kind.is_compound() {
            let column = self.take(format!("{name}Column"));
            out += &format!(
                "\n// {column} returns a column of a table with such values.\nfunc {column}() bf.Column[{name}, {ty}] {{\n\treturn bf.Valued[{name}, {ty}](read{name})\n}}\n"
            );
        }
        if self.put.contains(&t.number) {
            out += &format!("\nfunc put{name}(call *bf.Call, v {ty}) {{\n{put}}}\n");
        }
        if c.kind == Kind::Oneof {
            out += &matching(t, c);
        }
        out
    }

    /// Returns the code of a oneof: an interface and a type for each tag; and the bodies of the
    /// functions that read and append it.
    fn choice(&mut self, ty: &str, c: &ContentsModel, theta: &str) -> (String, String, String) {
        let names: Vec<String> = c.parts.iter().map(|part| self.take(format!("{ty}{}", part.name))).collect();
        let mut out = format!(
            "\n// {ty} has the contents of this type: one of {}.\n//\n//\t{theta}\ntype {ty} interface{{ is{ty}() }}\n",
            names.join(", ")
        );
        let (mut read, mut put) = (String::new(), String::new());
        for (index, (part, name)) in c.parts.iter().zip(&names).enumerate() {
            let form = match part.nil {
                true => "struct{}".to_owned(),
                false => format!("struct{{ Value {} }}", plain(&part.plain)),
            };
            let tag = &part.theta;
            out += &format!(
                "\n// {name} has the tag {tag}.\ntype {name} {form}\n\nfunc ({name}) is{ty}() {{}}\n"
            );
            let (reads, puts) = match part.nil {
                true => (format!("\t\tr.Nil()\n\t\tv = {name}{{}}\n"), "call.Nil()".to_owned()),
                false => (format!("\t\tv = {name}{{{}}}\n", reading(&part.of)), putting(&part.of, "v.Value")),
            };
            read += &format!("\tcase {index}:\n{reads}");
            put += &format!("\tcase {name}:\n\t\tcall.Int({index})\n\t\t{puts}\n");
        }
        let read = format!(
            "\tvar v {ty}\n\tr.Open()\n\tswitch r.Int() {{\n{read}\tdefault:\n\t\tr.Fail()\n\t}}\n\tr.Close()\n\treturn v\n"
        );
        let has_values = c.parts.iter().any(|part| !part.nil);
        let switch = if has_values { "switch v := v.(type)" } else { "switch v.(type)" };
        let put = format!(
            "\tcall.Open(2)\n\t{switch} {{\n{put}\tdefault:\n\t\tcall.Untyped()\n\t}}\n\tcall.Close()\n"
        );
        (out, read, put)
    }
}

/// Returns the method that records a choice by the tag of a oneof.
fn matching(t: &TypeModel, c: &ContentsModel) -> String {
    let find = |verb: &str, part: &PartModel| {
        t.methods.iter().find(|f| f.theta == format!("{verb}_{}", part.theta)).map(|f| f.name.clone())
    };
    let (name, cases) = (&t.name, format!("{}Cases", t.name));
    let (mut parts, mut lines) = (Vec::new(), String::new());
    for part in &c.parts {
        let (Some(is), Some(value)) = (find("is", part), find("value", part)) else { return String::new() };
        let (form, run) = match part.nil {
            true => ("func()".to_owned(), format!("cases.{}()", part.name)),
            false => (format!("func({})", part.ty), format!("cases.{}(o.{value}())", part.name)),
        };
        parts.push((part.name.clone(), form));
        lines += &format!(
            "\t\tbf.Case{{Is: o.{is}, IsThere: cases.{} != nil, Block: func() {{ {run} }}}},\n",
            part.name
        );
    }
    format!(
        "\n// {cases} are the blocks of {name}.Match, one for each tag; those that are nil do nothing.\ntype {cases} struct {{\n{}}}\n\n// Match runs the block for the tag at the server.\nfunc (o {name}) Match(cases {cases}) {{\n\tbf.Match(o.Session(),\n{lines}\t)\n}}\n",
        fields(&parts)
    )
}

/// An exception.
#[derive(Serialize)]
struct Exception {
    name: String,
    theta: String,
    /// Its class, the function that makes it, and the functions that make handlers.
    code: String,
}

/// Returns the code of an exception.
fn exception(e: &ExceptionModel, signals: &[SignalModel], package: &mut Package<'_>) -> Exception {
    let headings: Vec<&SignalModel> = e.signals.iter().filter_map(|at| signals.get(*at)).collect();
    let name = package.take(e.name.clone());
    let listed: String = headings.iter().map(|one| format!("//\t{}\n", one.heading)).collect();
    // Contents do not come with exceptions.
    let part = |value: &ValueModel| match value.kind.is_compound() {
        true => ("bf.Value".to_owned(), "r.Value()".to_owned()),
        false => (plain(&value.plain), reading(value)),
    };
    let mut parts = vec![("Signal".to_owned(), "*bf.Signal".to_owned())];
    let mut read = String::new();
    let with_values: Vec<&&SignalModel> = headings.iter().filter(|one| !one.values.is_empty()).collect();
    // With several headings that have values, these are those of the signal.
    if let [one] = with_values.as_slice() {
        let field =
            |index| if one.values.len() == 1 { "Value".to_owned() } else { format!("Value{}", index + 1) };
        for (index, value) in one.values.iter().enumerate() {
            let (ty, reads) = part(value);
            parts.push((field(index), ty));
            read += &format!("\te.{} = {reads}\n", field(index));
        }
        // Of another heading, which has no values.
        if headings.len() > 1 {
            read = format!("\tif len(f.Values) > 0 {{\n{}\t}}\n", read.replace("\te.", "\t\te."));
        }
    } else if !with_values.is_empty() {
        read = "\tfor range f.Values {\n\t\tr.Value()\n\t}\n".to_owned();
    }
    let (reads, body) = match read.as_str() {
        "" => ("_", format!("\treturn &{name}{{f}}\n")),
        read => ("r", format!("\te := &{name}{{Signal: f}}\n{read}\treturn e\n")),
    };
    let mut code = format!(
        "// {name} is an exception, for errors.As. Its headings:\n//\n{listed}type {name} struct {{\n{}}}\n\nfunc (e *{name}) Error() string {{\n\treturn e.Signal.Error()\n}}\n\nfunc new{name}(f *bf.Signal, {reads} *bf.Reader) error {{\n{body}}}\n",
        fields(&parts),
    );
    for signal in headings {
        let function = package.take(format!("When{}", signal.name));
        let types: Vec<&str> = signal.values.iter().map(|value| value.ty.as_str()).collect();
        let block = format!("block func({})", types.join(", "));
        let theta = quoted(&e.theta);
        let body = match types.len() {
            count if count <= VALUES_MAX => format!("return bf.When{count}({theta}, block)"),
            _ => {
                let all: Vec<String> = types.iter().map(|ty| format!("{ty}{{}}.BifrostType()")).collect();
                let values: Vec<String> =
                    types.iter().enumerate().map(|(index, ty)| format!("{ty}{{Ref: v[{index}]}}")).collect();
                format!(
                    "types := []*bf.Type{{{}}}\n\treturn bf.WhenN({theta}, types, func(v []bf.Ref) {{\n\t\tblock({})\n\t}})",
                    all.join(", "),
                    values.join(", ")
                )
            }
        };
        code += &format!(
            "\n// {function} returns the handler of an exception.\n//\n//\t{}\nfunc {function}({block}) bf.Handler {{\n\t{body}\n}}\n",
            signal.heading
        );
    }
    Exception { name, theta: quoted(&e.theta), code }
}

/// Returns a text as a string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(crate) fn generate(interface: &Interface, package: &str) -> Result<Vec<(String, String)>, GenerateError> {
    let model = Model::new(interface, &Go)?;
    let mut names: HashSet<String> = TAKEN_TYPES.iter().map(|name| (*name).to_owned()).collect();
    for ty in &model.types {
        names.insert(ty.name.clone());
        names.extend(ty.contents.iter().map(|contents| contents.ty.clone()));
        names.insert(ty.sender.clone());
    }
    let mut all = Package { model: &model, put: HashSet::new(), names };
    all.find_put();
    let stubs: Vec<String> = model.types.iter().map(|ty| all.stub(ty)).collect();
    let exceptions: Vec<Exception> =
        model.exceptions.iter().map(|e| exception(e, &model.signals, &mut all)).collect();
    let mut routines = Vec::new();
    for routine in &model.routines {
        let name = all.take(routine.name.clone());
        routines.push((routine, name));
    }
    let names = all.names.clone();
    let renamed = |f: &MethodModel, name: &str| MethodModel {
        name: name.to_owned(),
        number: f.number,
        theta: f.theta.clone(),
        heading: f.heading.clone(),
        doc: f.doc.clone(),
        params: f
            .params
            .iter()
            .map(|p| crate::model::ParamModel { name: p.name.clone(), ty: p.ty.clone() })
            .collect(),
        results: f.results.clone(),
        iterator: f.iterator,
        signals: f.signals.clone(),
        raises: f.raises.clone(),
    };
    let routines: Vec<String> =
        routines.into_iter().map(|(f, name)| functions(&renamed(f, &name), Place::Routine, &names)).collect();
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    environment.set_syntax(syntax.build()?);
    environment.add_template("go", TEMPLATE)?;
    let digest: String = model.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = environment.get_template("go")?.render(context! {
        package, digest, stubs, routines, exceptions => Serde(exceptions), file => INTERFACE_FILE,
    })?;
    Ok(vec![(STUBS_FILE.to_owned(), text), (INTERFACE_FILE.to_owned(), interface.to_json_lines())])
}
